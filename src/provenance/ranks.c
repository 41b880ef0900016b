/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the job's processes said of themselves (`worlds/<rank>.<pid>`, written by the agents:
 * docs/format/run-folder.md). Where none spoke, the main process is looked at from outside. Lists
 * that many ranks share are written once: a rank names the number of its list of libraries.
 */
#include "differences.h"

#include "base.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of one process's words that are read, and how many processes. */
enum { WORLD_MAX = 4 << 20, RANKS_MAX = 65536 };

/* What is gathered from all processes: one object for each rank, and the lists they share. python:
 * where the first process that said so has its packages. */
struct gathering {
    struct tw_collector *c;
    struct tw_libraries *libraries;
    json_t *ranks, *sets, *python;
    json_t *ours;        /* paths that twinrun put into the variables of the process */
    struct tw_told told; /* by the process that was read last */
};

/* "torch 2.13.0" -> {"torch": "2.13.0"} */
static void put_pair(json_t *o, const char *pair)
{
    const char *space = strchr(pair, ' ');
    char *key = space ? tw_strndup(pair, (size_t)(space - pair)) : NULL;
    if (key)
        tw_pv_put(o, key, tw_json_bytes(space + 1));
    tw_free(key);
}

/* The object under a key of the rank, made when it is not there. */
static json_t *part_of(json_t *rank, const char *key)
{
    json_t *o = json_object_get(rank, key);
    if (!o) {
        o = json_object();
        tw_pv_put(rank, key, o);
    }
    return o;
}

/* A switch is told at the first record and at the end: where it was changed in between, both are
 * kept. */
static void put_setting(json_t *rank, const char *pair)
{
    const char *space = strchr(pair, ' ');
    char *key = space ? tw_strndup(pair, (size_t)(space - pair)) : NULL;
    json_t *before = key ? json_object_get(json_object_get(rank, "settings"), key) : NULL;
    if (json_is_string(before) && strcmp(json_string_value(before), space + 1) != 0)
        json_object_set(part_of(rank, "settings_at_start"), key, before);
    put_pair(part_of(rank, "settings"), pair);
    tw_free(key);
}

/* Notes that the process has mapped a file: its number, each once. */
static void add_library(struct gathering *g, json_t *mapped, const char *path)
{
    char number[24];
    if (!g->libraries) /* they are not asked for */
        return;
    long at = tw_libraries_add(g->libraries, path);
    snprintf(number, sizeof number, "%ld", at);
    if (at >= 0)
        json_object_set_new(mapped, number, json_integer(at));
}

/* One line of a process. Unknown keys are of a newer agent and passed over. */
static void read_line(struct gathering *g, json_t *rank, json_t *mapped, const char *key,
                      char *value)
{
    if (strcmp(key, "env") == 0) {
        char *sign = strchr(value, '=');
        if (!sign)
            return;
        *sign = '\0';
        tw_pv_put_variable(g->c, part_of(rank, "variables"), g->ours, value, sign + 1);
    } else if (strcmp(key, "ours") == 0) {
        tw_pv_add(g->ours, tw_json_bytes(value));
    } else if (strcmp(key, "version") == 0) {
        put_pair(part_of(rank, "versions"), value);
    } else if (strcmp(key, "machine") == 0) {
        put_pair(part_of(rank, "machine"), value);
    } else if (strcmp(key, "setting") == 0) {
        put_setting(rank, value);
    } else if (strcmp(key, "generator") == 0) {
        put_pair(part_of(rank, "generators"), value);
    } else if (strcmp(key, "library") == 0 && value[0] == '/') {
        add_library(g, mapped, value);
    } else if (strcmp(key, "path") == 0) {
        json_t *list = json_object_get(g->python, "path");
        if (!list)
            tw_pv_put(g->python, "path", list = json_array());
        if (json_object_get(g->python, "from") == NULL ||
            json_equal(json_object_get(g->python, "from"), json_object_get(rank, "pid")))
            tw_pv_add(list, tw_json_bytes(value));
        if (!json_object_get(g->python, "from"))
            json_object_set(g->python, "from", json_object_get(rank, "pid"));
    } else if (strcmp(key, "told") == 0) {
        g->told.library |= strcmp(value, "library") == 0;
        g->told.python |= strcmp(value, "python") == 0;
    } else if (strcmp(key, "rank") == 0 || strcmp(key, "world") == 0 || strcmp(key, "pid") == 0 ||
               strcmp(key, "processors") == 0) {
        tw_pv_put(rank, key, json_integer(strtoll(value, NULL, 10)));
    } else if (strcmp(key, "host") == 0 || strcmp(key, "program") == 0 || strcmp(key, "cwd") == 0 ||
               strcmp(key, "device") == 0) {
        tw_pv_put(rank, key, tw_pv_text(g->c, value));
    }
}

static int by_number(const void *a, const void *b)
{
    json_int_t x = json_integer_value(*(json_t *const *)a);
    json_int_t y = json_integer_value(*(json_t *const *)b);
    return (x > y) - (x < y);
}

/* Gives the rank the number of its list among the lists there are. Ranks of one job mostly map the
 * same files, and a thousand equal lists would be most of the record. */
static void settle_libraries(struct gathering *g, json_t *rank, json_t *mapped)
{
    size_t n = json_object_size(mapped), i = 0;
    json_t **number = tw_calloc(n ? n : 1, sizeof *number), *list = json_array(), *value;
    const char *key;
    json_object_foreach (mapped, key, value)
        if (number)
            number[i++] = value;
    if (number && n > 1)
        qsort(number, n, sizeof *number, by_number);
    for (size_t k = 0; number && k < n; k++)
        json_array_append(list, number[k]);
    tw_free(number);
    size_t at = 0;
    while (at < json_array_size(g->sets) && !json_equal(json_array_get(g->sets, at), list))
        at++;
    if (at == json_array_size(g->sets))
        json_array_append(g->sets, list);
    json_decref(list);
    tw_pv_put(rank, "libraries", json_integer((json_int_t)at));
}

/* Reads what one process said. Without rank and pid it was not finished: the next look finds it. */
static void read_world(struct gathering *g, const char *path)
{
    char *text = tw_pv_read(path, WORLD_MAX), *save = NULL;
    json_t *rank = json_object(), *mapped = json_object();
    g->ours = json_array();
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char *tab = strchr(line, '\t');
        if (!tab)
            continue;
        *tab = '\0';
        read_line(g, rank, mapped, line, tab + 1);
    }
    if (json_object_get(rank, "rank") && json_object_get(rank, "pid")) {
        if (g->libraries)
            settle_libraries(g, rank, mapped);
        json_array_append(g->ranks, rank);
    }
    json_decref(g->ours);
    json_decref(rank);
    json_decref(mapped);
    tw_free(text);
}

json_t *tw_pv_rank(struct tw_collector *c, const char *path, struct tw_told *told)
{
    struct gathering g = {.c = c, .ranks = json_array(), .python = json_object()};
    read_world(&g, path);
    json_t *rank = json_incref(json_array_get(g.ranks, 0));
    *told = g.told;
    json_decref(g.ranks);
    json_decref(g.python);
    return rank;
}

static int by_rank(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    static const char *const keys[] = {"rank", "pid"};
    for (int i = 0; i < 2; i++) {
        json_int_t p = json_integer_value(json_object_get(x, keys[i]));
        json_int_t q = json_integer_value(json_object_get(y, keys[i]));
        if (p != q)
            return p < q ? -1 : 1;
    }
    return 0;
}

/* Folders list names in any order; the record is in that of the ranks. */
static void sort_ranks(struct gathering *g)
{
    size_t n = json_array_size(g->ranks), i;
    json_t **all = tw_calloc(n ? n : 1, sizeof *all), *sorted = json_array(), *item;
    if (all && sorted) {
        json_array_foreach (g->ranks, i, item)
            all[i] = item;
        qsort(all, n, sizeof *all, by_rank);
        for (i = 0; i < n; i++)
            json_array_append(sorted, all[i]);
        json_decref(g->ranks);
        g->ranks = json_incref(sorted);
    }
    json_decref(sorted);
    tw_free(all);
}

/* Nobody spoke: no agent, or nothing to record. What maps tells of the main process, if it still
 * lives. */
static void look_from_outside(struct gathering *g)
{
    char path[64], *text, *save = NULL;
    struct tw_collector *c = g->c;
    snprintf(path, sizeof path, "/proc/%ld/maps", (long)c->job);
    text = c->job > 0 ? tw_pv_read(path, WORLD_MAX) : NULL;
    json_t *rank = json_pack("{s:i, s:i, s:I, s:o, s:s}", "rank", 0, "world", 1, "pid",
                             (json_int_t)c->job, "host", tw_json_bytes(c->run->host), "seen",
                             "from outside");
    json_t *mapped = json_object();
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char *file = strchr(line, '/'), rights[8] = "";
        if (file && sscanf(line, "%*s %7s", rights) == 1 && strchr(rights, 'x'))
            add_library(g, mapped, file);
    }
    if (json_object_size(mapped)) {
        settle_libraries(g, rank, mapped);
        json_array_append(g->ranks, rank);
    }
    json_decref(rank);
    json_decref(mapped);
    tw_free(text);
}

/* How many ranks there are and where each runs, by what they said. */
static void put_launch(struct gathering *g)
{
    json_t *launch = json_object_get(g->c->root, "launch"), *places = json_array(), *rank;
    json_int_t world = 0;
    size_t i;
    json_array_foreach (g->ranks, i, rank) {
        json_int_t n = json_integer_value(json_object_get(rank, "world"));
        world = n > world ? n : world;
        json_t *o = json_object();
        static const char *const keys[] = {"rank", "host", "device", "processors"};
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            if (json_object_get(rank, keys[k]))
                json_object_set(o, keys[k], json_object_get(rank, keys[k]));
        tw_pv_add(places, o);
    }
    tw_pv_put(launch, "world", json_integer(world));
    tw_pv_put(launch, "places", places);
}

/* Called several times while the job runs and once at its end; each call makes the parts anew. */
void tw_pv_ranks(struct tw_collector *c)
{
    struct gathering g = {.c = c,
                          .libraries = tw_libraries_open(),
                          .ranks = json_array(),
                          .sets = json_array(),
                          .python = json_object()};
    char *dir = tw_path_join(c->run->dir, "worlds");
    DIR *d = dir ? opendir(dir) : NULL;
    for (struct dirent *e;
         g.libraries && d && (e = readdir(d)) && json_array_size(g.ranks) < RANKS_MAX;) {
        char *path = e->d_name[0] != '.' ? tw_path_join(dir, e->d_name) : NULL;
        if (path)
            read_world(&g, path);
        tw_free(path);
    }
    if (d)
        closedir(d);
    tw_free(dir);
    json_t *old = json_object_get(c->root, "ranks");
    if (g.libraries && json_array_size(g.ranks) == 0)
        look_from_outside(&g);
    /* It was looked at while it lived, or there is no memory to look. */
    if (!g.libraries || (json_array_size(g.ranks) == 0 && json_array_size(old))) {
        json_decref(g.ranks);
        json_decref(g.sets);
        json_decref(g.python);
        tw_libraries_close(g.libraries);
        return;
    }
    sort_ranks(&g);
    enum { PATIENCE_S = 12 };
    tw_libraries_hash(g.libraries, PATIENCE_S);
    put_launch(&g);
    tw_pv_put(c->root, "ranks", g.ranks);
    tw_pv_put(c->root, "libraries",
              json_pack("{s:o, s:o}", "files", tw_libraries_json(g.libraries), "lists", g.sets));
    tw_pv_put(c->root, "python", g.python);
    tw_libraries_close(g.libraries);
}
