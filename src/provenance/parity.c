/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of one run side by side: what most of them have against those that have something else;
 * and many runs in one line. Ranks of one job should have one world, but for what tells them apart
 * (power.c). */
#include "differences.h"

#include "base.h"
#include "sha256.h"

#include <stdio.h>
#include <string.h>

/* So many ranks are named in a line. */
enum { RANKS_SHOWN = 8 };

/* The comparison of a record's ranks. */
struct parity {
    struct tw_differences d;
    const json_t *ranks;
    json_t *flat;  /* per rank: {"kind name": text} */
    bool at_start; /* what a rank has not said may come later */
};

/* "ranks 3, 5, 17 and 12 more" of places in the list of ranks. malloc'ed; NULL: no memory. */
static char *name_ranks(const struct parity *p, const json_t *members)
{
    struct tw_buf b = {0};
    json_t *item;
    size_t i, n = json_array_size(members);
    tw_buf_printf(&b, n == 1 ? "rank " : "ranks ");
    json_array_foreach ((json_t *)members, i, item) {
        if (i == RANKS_SHOWN) {
            tw_buf_printf(&b, " and %zu more", n - i);
            break;
        }
        tw_buf_printf(&b, "%s%lld", i ? ", " : "",
                      (long long)json_integer_value(json_object_get(
                          json_array_get(p->ranks, (size_t)json_integer_value(item)), "rank")));
    }
    return tw_buf_steal(&b);
}

/* Of a key of the flat objects: "variables OMP_NUM_THREADS". */
static enum twin_power power_of(const char *key)
{
    const char *name = strchr(key, ' ') + 1;
    if (tw_starts(key, "variables "))
        return tw_power_of_variable(name);
    if (tw_starts(key, "libraries "))
        return tw_power_of_library(name);
    return tw_starts(key, "settings ") ? TWIN_POWER_HIGH : tw_power_of_version(name);
}

static const char *group_of(const char *key)
{
    static const char *const groups[] = {"variables", "libraries", "settings", "versions",
                                         "machine"};
    for (size_t i = 0; i < 3; i++)
        if (tw_starts(key, groups[i]))
            return groups[i];
    return tw_starts(key, "machine") ? "system" : "libraries";
}

/* Who has what, in words; values: text -> places in the list of ranks. NULL: it cannot be said. */
static char *groups_of(const struct parity *p, const char *key, json_t *values, const char *missing)
{
    json_t *numbers = json_object(), *members, *place;
    const char *text;
    size_t i;
    json_object_foreach (values, text, members) {
        json_t *list = json_array();
        json_array_foreach (members, i, place) {
            json_t *rank = json_array_get(p->ranks, (size_t)json_integer_value(place));
            json_int_t number = json_integer_value(json_object_get(rank, "rank"));
            size_t n = json_array_size(list);
            /* several processes of one rank */
            if (n == 0 || json_integer_value(json_array_get(list, n - 1)) != number)
                tw_pv_add(list, json_integer(number));
        }
        tw_pv_put(numbers, text, list);
    }
    char *words = tw_parity_groups(strchr(key, ' ') + 1, numbers, missing);
    json_decref(numbers);
    return words;
}

/* Ranks by what they have under one key; `values`: text -> places in the list of ranks. Each group
 * but the largest becomes a difference, with the largest as what is usual. Without the key a rank
 * has a text that no value can be. */
static void compare_key(struct parity *p, const char *key)
{
    static const char missing[] = "\x01";
    json_t *values = json_object(), *rank, *members;
    const char *text, *most = NULL;
    size_t i, best = 0;
    bool may_lack = !p->at_start || tw_starts(key, "variables ");
    json_array_foreach (p->flat, i, rank) {
        const char *v = json_string_value(json_object_get(rank, key));
        if (!v && !may_lack)
            continue;
        v = v ? v : missing;
        if (!json_object_get(values, v))
            tw_pv_put(values, v, json_array());
        tw_pv_add(json_object_get(values, v), json_integer((json_int_t)i));
    }
    json_object_foreach (values, text, members)
        if (json_array_size(members) > best) {
            best = json_array_size(members);
            most = text;
        }
    char *groups = json_object_size(values) > 1 ? groups_of(p, key, values, missing) : NULL;
    json_object_foreach (values, text, members) {
        if (strcmp(text, most) == 0)
            continue;
        char *who = name_ranks(p, members);
        char *what = who ? tw_printf("%s: %s", who, strchr(key, ' ') + 1) : NULL;
        const char *usual = strcmp(most, missing) ? most : NULL;
        const char *here = strcmp(text, missing) ? text : NULL;
        tw_difference(&p->d, power_of(key), group_of(key), what ? what : key, usual, here,
                      json_array_size(members));
        if (groups && p->d.out->count)
            p->d.out->item[p->d.out->count - 1].groups = tw_strdup(groups);
        tw_free(what);
        tw_free(who);
    }
    tw_free(groups);
    json_decref(values);
}

/* Adds the names of an object to a rank's flat one, each value as a text. Libraries are many files,
 * so digests stand for them. */
static void flatten(json_t *flat, const char *kind, const json_t *o)
{
    json_t *v;
    const char *name;
    json_object_foreach ((json_t *)o, name, v) {
        bool variable = strcmp(kind, "variables") == 0;
        char *key = variable && tw_variable_differs_among_ranks(name)
                        ? NULL
                        : tw_printf("%s %s", kind, name);
        char *text = key ? tw_pv_shown(v) : NULL;
        /* one file: its digest */
        if (key && strcmp(kind, "libraries") == 0 && json_object_size(v) == 1) {
            tw_free(text);
            text = tw_printf("%.12s",
                             json_string_value(json_object_iter_value(json_object_iter(v))));
        } else if (key && strcmp(kind, "libraries") == 0) {
            char hex[65];
            const char *data = text ? text : "";
            tw_sha256_of(data, strlen(data), hex);
            tw_free(text);
            text = tw_printf("%zu files %.12s", json_object_size(v), hex);
        }
        if (key && text)
            tw_pv_put(flat, key, tw_json_bytes(text));
        tw_free(text);
        tw_free(key);
    }
}

/* The processes that are ranks of the job. One that is alone in a world of its own beside those of
 * a larger one has started them (torch.multiprocessing.spawn), or was started by one of them. */
static json_t *members_of(const json_t *record)
{
    json_t *members = json_array(), *rank;
    json_int_t most = 0;
    size_t i;
    json_array_foreach (json_object_get(record, "ranks"), i, rank) {
        json_int_t world = json_integer_value(json_object_get(rank, "world"));
        most = world > most ? world : most;
    }
    json_array_foreach (json_object_get(record, "ranks"), i, rank)
        if (most < 2 || json_integer_value(json_object_get(rank, "world")) != 1)
            json_array_append(members, rank);
    return members;
}

static int compare_ranks(const json_t *record, bool at_start, struct twin_world_differences *out,
                         struct twin_error *err)
{
    static const char *const kinds[] = {"variables", "versions", "settings", "machine"};
    json_t *ranks = members_of(record), *rank, *keys = json_object(), *v;
    struct parity p = {
        .d = {.out = out}, .ranks = ranks, .flat = json_array(), .at_start = at_start};
    const char *key;
    size_t i;
    *out = (struct twin_world_differences){0};
    json_array_foreach (ranks, i, rank) {
        json_t *flat = json_object(), *libraries = tw_libraries_by_name(record, rank);
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            flatten(flat, kinds[k], json_object_get(rank, kinds[k]));
        flatten(flat, "libraries", libraries);
        json_object_update(keys, flat);
        tw_pv_add(p.flat, flat);
        json_decref(libraries);
    }
    if (json_array_size(ranks) > 1)
        json_object_foreach (keys, key, v)
            compare_key(&p, key);
    json_decref(keys);
    json_decref(p.flat);
    json_decref(ranks);
    return tw_differences_finish(&p.d, err);
}

int twin_provenance_parity(const struct json_t *record, struct twin_world_differences *out,
                           struct twin_error *err)
{
    return compare_ranks(record, false, out, err);
}

int tw_parity_at_start(const struct json_t *record, struct twin_world_differences *out,
                       struct twin_error *err)
{
    return compare_ranks(record, true, out, err);
}

char *twin_provenance_unseen(const struct json_t *record)
{
    const json_t *world = json_object_get(json_object_get(record, "launch"), "world");
    return tw_parity_unseen(json_object_get(record, "ranks"), json_integer_value(world));
}

/* The difference with the most power, and which ranks said nothing that could be compared. */
static char *tell_difference(const json_t *record, const struct twin_world_difference *x, size_t n)
{
    struct tw_buf b = {0};
    char *unseen = twin_provenance_unseen(record);
    tw_buf_puts(&b, "the ranks had different worlds: ");
    if (x->groups)
        tw_buf_puts(&b, x->groups);
    else
        tw_buf_printf(&b, "%s: %s, the others: %s", x->what, x->b ? x->b : "not there",
                      x->a ? x->a : "not there");
    if (n > 1)
        tw_buf_puts(&b, "; and more (twinrun show --provenance)");
    if (unseen)
        tw_buf_printf(&b, "; %s", unseen);
    tw_free(unseen);
    return tw_buf_steal(&b);
}

/* What could not be read gives no line: it is said elsewhere. */
char *twin_provenance_parity_summary(const struct twin_run *run)
{
    struct twin_world_differences d = {0};
    json_t *p = NULL;
    char *line = NULL;
    size_t n = 0;
    if (twin_provenance_load(run->dir, &p, NULL) == 0 && twin_provenance_parity(p, &d, NULL) == 0)
        while (n < d.count && d.item[n].power <= TWIN_POWER_MEDIUM) /* sorted */
            n++;
    if (n)
        line = tell_difference(p, &d.item[0], n);
    twin_world_differences_free(&d);
    json_decref(p);
    return line;
}

/* ---- many runs in one line */

/* A file that the job itself writes: an output, though its command names it. */
static bool is_written(const struct twin_run *run, const char *path)
{
    path += tw_starts(path, "./") ? 2 : 0;
    for (size_t i = 0; i < run->file_count; i++)
        if (strcmp(run->files[i].path, path) == 0)
            return true;
    return false;
}

/* What the job does with its generators is its result, and what its command says is known to who
 * typed it. What has little power over bits is not told either. */
static bool is_known(const struct twin_world_difference *x, bool threads_said)
{
    if (threads_said && strcmp(x->group, "settings") == 0 && strcmp(x->what, "threads") == 0)
        return true;
    return x->power != TWIN_POWER_HIGH || strcmp(x->group, "seeds") == 0 ||
           strcmp(x->what, "command") == 0;
}

/* The first run is held against each other one until one differs. */
char *twin_provenance_summary(const struct twin_run *const *runs, size_t count, bool threads_said)
{
    json_t *first = NULL;
    struct tw_buf b = {0};
    char *line = NULL;
    if (count < 2 || twin_provenance_load(runs[0]->dir, &first, NULL) != 0)
        return NULL;
    for (size_t i = 1; i < count && !line; i++) {
        struct twin_world_differences d = {0};
        json_t *other = NULL;
        if (twin_provenance_load(runs[i]->dir, &other, NULL) == 0 &&
            twin_provenance_diff(first, other, &d, NULL) == 0) {
            size_t shown = 0, all = 0;
            for (size_t k = 0; k < d.count; k++) {
                if (is_known(&d.item[k], threads_said) || is_written(runs[0], d.item[k].what))
                    continue;
                if (shown < 3)
                    tw_buf_printf(&b, "%s%s", shown++ ? ", " : "", d.item[k].what);
                all++;
            }
            if (all)
                tw_buf_printf(&b, "%s", all > shown ? " and more" : "");
            if (b.len && !b.failed)
                line = tw_printf("runs 1 and %zu had different worlds: %s", i + 1, b.data);
        }
        twin_world_differences_free(&d);
        json_decref(other);
    }
    tw_buf_free(&b);
    json_decref(first);
    return line;
}
