/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a run that is still going on and says whether it has already diverged from a reference.
 * src/trial calls twin_compare_live() again and again while it watches a trial; a trial that has
 * diverged need not run to its end.
 *
 * It opens what traces the folder holds at that moment, pairs the processes as for a finished run,
 * and lets the hashes of finished steps find the first step that differs. Such a step is decoded,
 * because not every difference counts. The answer is meant to be cautious: where something cannot
 * be read or cannot be judged yet, the answer is "not diverged so far", and the comparison of the
 * finished runs decides. No findings, notes or claims are made here.
 */
#include "arms.h"
#include "internal.h"
#include "scan.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

/*
 * Fills out with the paths of the traces in DIR/ranks, sorted by name, so that every look takes
 * them in the same order. A folder that does not exist yet gives an empty list. Returns 0 or
 * TWIN_ENOMEM; the caller frees the list in both cases.
 */
static int list_traces(struct tw_cmp *c, const char *dir, struct tw_texts *out)
{
    char *ranks = tw_path_join(dir, "ranks");
    DIR *d = ranks ? opendir(ranks) : NULL;
    c->oom |= !ranks;
    for (struct dirent *e; d && (e = readdir(d));)
        if (tw_ends(e->d_name, ".twt")) {
            char *path = tw_path_join(ranks, e->d_name);
            c->oom |= !path;
            tw_texts_add(c, out, path);
        }
    if (d)
        closedir(d);
    tw_free(ranks);
    if (out->n)
        qsort(out->s, out->n, sizeof *out->s, by_name);
    return c->oom ? TWIN_ENOMEM : 0;
}

/*
 * The value hashes of this step differ: does anything in it count? Sets *parted. Returns 0 or an
 * error of loading the step.
 */
static int step_counts(struct tw_cmp *c, const struct tw_pair *p, int64_t shift, uint32_t step,
                       bool *parted, struct twin_error *err)
{
    struct tw_scan s = {.pair = p, .shift = shift};
    struct tw_view va, vb;
    struct tw_stepdiff d;
    int rc = tw_scan_step(c, &s, step, &va, &vb, &d, err);
    if (rc != 0)
        return rc;
    /*
     * What only one run has so far may be an evaluation between steps, which between arms is no
     * difference, and so may be a generator that it drew from: the verdict decides. Stopping a run
     * takes a value that both computed. Where records were dropped and no stored one differs, the
     * hash itself proves that a dropped record differs.
     */
    *parted = va.dropped + vb.dropped > 0 && d.count == 0;
    for (size_t i = 0; i < d.count; i++)
        *parted |= (d.d[i].type == TWIN_FINDING_VALUE &&
                    va.rec[d.d[i].a].kind != TWIN_KIND_STATE) ||
                   d.d[i].type == TWIN_FINDING_LAYOUT;
    tw_stepdiff_free(&d);
    tw_view_free(&va);
    tw_view_free(&vb);
    return 0;
}

/* Callback of twin_trace_walk: a record whose series names a role ends the walk with 1. */
static int of_a_thread(void *user, const struct twin_trace_record *r)
{
    struct tw_proc *p = user;
    return twin_trace_series(p->trace, r->series)->role != 0;
}

/* Threads that train at once share the count of steps, so which step a record falls into is a
 * matter of schedule. Only whole runs can be held against each other then (streams.c): none is
 * stopped for it. */
static bool several_threads(struct tw_proc *p)
{
    const bool several = twin_trace_walk(p->trace, of_a_thread, NULL, p, NULL) > 0;
    twin_trace_rest(p->trace);
    return several;
}

/*
 * Searches one pair of processes for the first step with a difference that counts. When there is
 * one, sets *parted and lowers *first to that step (of a) if it is earlier than what another pair
 * gave. Returns 0 also when nothing can be told; only a lack of memory, or an error while a step is
 * decoded, is an error.
 */
static int look_at(struct tw_cmp *c, const struct tw_pair *p, int64_t shift, bool *parted,
                   uint32_t *first, struct twin_error *err)
{
    /* the seam's own step holds what only a start has */
    uint32_t from = shift < 0 ? (uint32_t)-shift + 1 : 0;
    /* generators that nobody draws from may differ at every step: enough is enough */
    for (int tries = 0; tries < 64; tries++) {
        bool found = false, here = false;
        uint32_t step;
        uint64_t compared;
        int rc = twin_trace_first_difference(p->a->trace, p->b->trace, shift, from, UINT32_MAX,
                                             &found, &step, &compared, NULL);
        if (rc == TWIN_ENOMEM)
            return tw_no_memory(err, "comparing traces");
        if (rc != 0 || !found)
            return 0; /* what cannot be read now is judged at the end */
        rc = step_counts(c, p, shift, step, &here, err);
        if (rc != 0)
            return rc;
        if (here && several_threads(p->a))
            return 0;
        /* An arm of several trainers: only the last one begins at the place that was given. */
        if (here && shift < 0 && !tw_shift_is(c, p, (uint32_t)-shift))
            return 0;
        if (here) {
            /*
             * The earliest step over all pairs, since each of them calls this with the same *first.
             */
            *first = !*parted || step < *first ? step : *first;
            *parted = true;
            return 0;
        }
        from = step + 1;
    }
    return 0;
}

/*
 * Fills in the facts of a run that goes on, which a finished run has in its manifest: its start is
 * taken to be this moment, and the names of its traces ("0.4711.twt": rank, process id) tell its
 * processes. b->processes stays NULL when there is no memory; the processes are then not known.
 */
static void name_processes(struct twin_run *b)
{
    b->start_realtime_ns = tw_realtime_ns();
    b->processes = tw_calloc(b->trace_count + 1, sizeof *b->processes);
    for (size_t i = 0; b->processes && i < b->trace_count; i++) {
        const char *name = strrchr(b->traces[i], '/'), *dot = name ? strchr(name, '.') : NULL;
        if (dot)
            b->processes[b->process_count++].pid = (int)strtol(dot + 1, NULL, 10);
    }
}

int twin_compare_live(const struct twin_run *a, const char *b_dir,
                      const struct twin_compare_options *o, bool *parted, uint32_t *step,
                      struct twin_error *err)
{
    /*
     * quick: nothing but "diverged or not" is wanted, so no notes are made and traces are not
     * verified.
     */
    static const struct twin_compare_options none;
    struct tw_cmp c = {.o = o ? o : &none, .quick = true};
    struct tw_side sa = {0}, sb = {0};
    struct tw_texts traces = {0};
    struct tw_pair *pairs = NULL;
    size_t n = 0;
    *parted = false;
    *step = 0;
    int rc = list_traces(&c, b_dir, &traces);
    if (rc != 0) {
        tw_texts_free(&traces);
        return twin_error_set(err, rc, "out of memory listing %s", b_dir);
    }
    struct twin_run b = {.dir = (char *)b_dir,
                         .traces = traces.s,
                         .trace_count = traces.n,
                         .in_progress = true,
                         .agents = true};
    name_processes(&b);
    rc = tw_side_open(&c, a, 0, &sa, err);
    if (rc == 0)
        rc = tw_side_open(&c, &b, 1, &sb, err);
    if (rc == 0)
        rc = tw_side_match(&c, &sa, &sb, &pairs, &n);
    /* All pairs are looked at, also after one has diverged: the earliest step is asked for. */
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = look_at(&c, &pairs[i], c.o->shift, parted, step, err);
    if (rc == 0 && c.oom)
        rc = TWIN_ENOMEM;
    tw_side_close(&sa);
    tw_side_close(&sb);
    tw_texts_free(&traces);
    tw_texts_free(&c.unarmed);
    tw_free(b.processes);
    tw_free(pairs);
    return rc ? twin_error_set(err, rc, "out of memory comparing with %s", b_dir) : 0;
}
