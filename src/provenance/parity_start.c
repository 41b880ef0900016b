/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a run that goes on, side by side as soon as they have said what surrounds them
 * (`worlds/<rank>.<pid>`, once at the first record of each). It is looked at from outside, by the
 * launcher's ticks; once a result is there nothing is read any more.
 *
 * What counts here is what each rank knows at its start: its variables, and of versions, settings
 * and the machine what both sides have said. A library that a rank loads later makes no difference;
 * the record at the run's end (parity.c) has all of them.
 */
#include "differences.h"

#include "base.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MS 1000000ull
/* READ: of one look, since the job's output waits meanwhile. SETTLE: after the last word of a rank,
 * where others may still come. UNSEEN: after the first word, where others should have come. */
enum { READ_MS = 20, SETTLE_MS = 2000, UNSEEN_MS = 60000, SHOWN = 5, RANKS_MAX = 65536 };

struct twin_parity {
    struct tw_collector c;
    json_t *ranks; /* sorted by number; the first process of each */
    json_t *read;  /* name of a file -> its size when it was read last */
    json_int_t world;
    size_t python; /* ranks whose Python half has spoken, too */
    uint64_t first_ns, last_ns;
    bool known, differs, no_memory;
    char *words;
};

struct twin_parity *twin_parity_begin(const char *run_dir)
{
    struct twin_parity *p = twin_parity_begin_to_read();
    char *home = tw_path_join(run_dir, "../..");
    if (p && home) {
        twin_redactor_close(p->c.redactor);
        p->c.redactor = NULL;
    }
    if (!p || !home || twin_redactor_open(home, &p->c.redactor, NULL) != 0) {
        twin_parity_free(p);
        p = NULL;
    }
    tw_free(home);
    return p;
}

struct twin_parity *twin_parity_begin_to_read(void)
{
    struct twin_parity *p = tw_calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->ranks = json_array();
    p->read = json_object();
    p->c.redactor = twin_redactor_without_key();
    if (!p->ranks || !p->read || !p->c.redactor) {
        twin_parity_free(p);
        return NULL;
    }
    return p;
}

void twin_parity_free(struct twin_parity *p)
{
    if (!p)
        return;
    json_decref(p->ranks);
    json_decref(p->read);
    twin_redactor_close(p->c.redactor);
    tw_free(p->words);
    tw_free(p);
}

static json_int_t rank_at(const struct twin_parity *p, size_t i)
{
    return json_integer_value(json_object_get(json_array_get(p->ranks, i), "rank"));
}

/* "cuda:1 NVIDIA H100" names the rank's own GPU by a number; what counts is its model. */
static void put_gpu(json_t *rank)
{
    const char *device = json_string_value(json_object_get(rank, "device"));
    const char *model = device ? strchr(device, ' ') : NULL;
    json_t *machine = json_object_get(rank, "machine");
    if (model && machine)
        tw_pv_put(machine, "gpu", tw_json_bytes(model + 1));
}

/* Takes the rank in, at its place. Its library has spoken; its Python half may do so later, and
 * then the rank is taken in again. */
static void add_rank(struct twin_parity *p, json_t *rank, bool python, uint64_t now)
{
    json_int_t number = json_integer_value(json_object_get(rank, "rank"));
    json_int_t world = json_integer_value(json_object_get(rank, "world"));
    size_t at = 0, n = json_array_size(p->ranks);
    /* a process that is no rank of several has nobody to be compared with */
    if (world < 2 || world > RANKS_MAX || number < 0 || number >= world)
        return;
    while (at < n && rank_at(p, at) < number)
        at++;
    json_t *there = at < n && rank_at(p, at) == number ? json_array_get(p->ranks, at) : NULL;
    bool same = there && json_equal(json_object_get(there, "pid"), json_object_get(rank, "pid"));
    bool more = same && python && !json_is_true(json_object_get(there, "python"));
    if (there && !more)
        return;
    put_gpu(rank);
    tw_pv_put(rank, "python", json_boolean(python));
    if (there)
        json_array_set(p->ranks, at, rank);
    else
        json_array_insert(p->ranks, at, rank);
    p->python += python;
    p->world = world > p->world ? world : p->world;
    p->first_ns = p->first_ns ? p->first_ns : now;
    p->last_ns = now;
}

/* Reads what has come since the last look, for READ_MS at most. True: there may be more. */
static bool read_more(struct twin_parity *p, const char *run_dir, uint64_t now)
{
    char *dir = tw_path_join(run_dir, "worlds");
    DIR *d = dir ? opendir(dir) : NULL;
    bool more = false;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        json_t *before = json_object_get(p->read, e->d_name);
        if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, 0) != 0 ||
            (before && json_integer_value(before) == (json_int_t)st.st_size))
            continue;
        if (tw_monotonic_ns() - now > READ_MS * MS) {
            more = true;
            break;
        }
        char *path = tw_path_join(dir, e->d_name);
        if (!path)
            continue;
        struct tw_told told = {false, false};
        json_t *rank = tw_pv_rank(&p->c, path, &told);
        if (rank && told.library)
            add_rank(p, rank, told.python, now);
        tw_pv_put(p->read, e->d_name, json_integer((json_int_t)st.st_size));
        json_decref(rank);
        tw_free(path);
    }
    if (d)
        closedir(d);
    tw_free(dir);
    return more;
}

/* What both halves of the agent tell under one name, in different words, is compared only where
 * both have told it. */
static json_t *as_record(const struct twin_parity *p)
{
    json_t *rank;
    size_t i;
    json_array_foreach (p->ranks, i, rank)
        if (p->python && !json_is_true(json_object_get(rank, "python")))
            json_object_del(json_object_get(rank, "versions"), "nccl");
    return json_pack("{s:O}", "ranks", p->ranks);
}

/* The result in words: differences that may change bits, each once, and ranks that were not
 * seen. */
static void conclude(struct twin_parity *p)
{
    struct twin_world_differences d = {0};
    struct tw_buf b = {0};
    json_t *record = as_record(p);
    size_t shown = 0, all = 0;
    const char *last = "";
    int rc = record ? tw_parity_at_start(record, &d, NULL) : TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < d.count; i++) {
        const struct twin_world_difference *x = &d.item[i];
        /* a name has an item for each group but the usual one, and one sentence */
        if (x->power > TWIN_POWER_MEDIUM || (x->groups && strcmp(x->groups, last) == 0))
            continue;
        last = x->groups ? x->groups : "";
        if (all++ >= SHOWN)
            continue;
        tw_buf_puts(&b, shown++ ? "; " : "");
        if (x->groups)
            tw_buf_puts(&b, x->groups);
        else
            tw_buf_puts(&b, x->what);
    }
    p->differs = all > 0;
    if (all > shown)
        tw_buf_printf(&b, "; and %zu more (twinrun show --provenance)", all - shown);
    char *unseen = tw_parity_unseen(p->ranks, p->world);
    if (unseen)
        tw_buf_printf(&b, "%s%s, so nothing is known of %s", b.len ? "; " : "", unseen,
                      tw_starts(unseen, "ranks ") ? "them" : "it");
    tw_free(unseen);
    p->known = true;
    /* what could not be compared must not pass for equal */
    p->no_memory = rc != 0 || b.failed;
    p->words = b.len && !b.failed ? tw_buf_steal(&b) : NULL;
    tw_buf_free(&b);
    twin_world_differences_free(&d);
    json_decref(record);
}

/* Do those that have spoken differ? What is said at the end is made anew. */
static bool differ_by_now(const struct twin_parity *p)
{
    struct twin_world_differences d = {0};
    json_t *record = as_record(p);
    bool differ = record && tw_parity_at_start(record, &d, NULL) == 0 && d.count &&
                  d.item[0].power <= TWIN_POWER_MEDIUM;
    twin_world_differences_free(&d);
    json_decref(record);
    return differ;
}

bool twin_parity_look(struct twin_parity *p, const char *run_dir, bool ended)
{
    uint64_t now = tw_monotonic_ns();
    if (p->known)
        return false;
    while (read_more(p, run_dir, now) && ended)
        now = tw_monotonic_ns();
    size_t n = json_array_size(p->ranks);
    bool quiet = now - p->last_ns > SETTLE_MS * MS;
    if (n == 0 && !ended)
        return false;
    bool all = (json_int_t)n == p->world && (p->python == n || quiet);
    bool late = now - p->first_ns > UNSEEN_MS * MS;
    if (!ended && !all && !late && !(quiet && differ_by_now(p)))
        return false;
    conclude(p);
    return true;
}

const char *twin_parity_words(const struct twin_parity *p)
{
    if (p->no_memory && !p->words)
        return "there was no memory to compare the ranks of this job";
    return p->words;
}

bool twin_parity_differs(const struct twin_parity *p)
{
    return p->differs;
}
