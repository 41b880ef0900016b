/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the runs of a scaling study to its curve, and to the notes that qualify it. cmd/scale.c
 * calls tw_scale_compute when all runs are made, or read from a study's file; the figures come from
 * twin_scaling (src/stats).
 *
 * Which runs count, and what a run's speed is, is decided here, in one place for the curve, the
 * file and the report.
 */
#include "scale.h"

#include "base.h"
#include "phrase.h"
#include "run_state.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* of all intervals; and the share of a process's time from which watching it is worth a note */
#define CONFIDENCE .95
#define OBSERVER_NOTED .05
enum {
    ENOUGH_RUNS = 3,
    /*
     * of three values the MAD is the smaller of two gaps, and calls almost any third one an outlier
     */
    OUTLIERS_FROM = 5
};

double tw_scale_work_of(const struct tw_scale *s, uint64_t workers)
{
    return s->work.each * pow((double)workers, s->work.power);
}

/* Round 0 is left out: it records results, which costs time. */
bool tw_scale_counts(const struct tw_scale *s, const struct tw_scale_run *r)
{
    return r->good && r->round > 0 && (s->work.per_run || (r->timed > 0 && r->timed_s > 0));
}

bool tw_scale_outliers_told(const struct twin_scaling_point *p)
{
    return p->runs >= OUTLIERS_FROM && p->mad.mad > 0;
}

/* Of steps, only those behind the warm-up are timed; of whole runs, start and end are included. */
double tw_scale_rate(const struct tw_scale *s, const struct tw_scale_run *r)
{
    const double work = tw_scale_work_of(s, r->workers);
    return s->work.per_run ? work / r->wall_s : work * (double)r->timed / r->timed_s;
}

/* ---- the points */

/* What twin_scaling is given of the runs that count, in the order of their numbers of workers.
 * from: which run of the study each one is. Steps are borrowed from the runs. */
struct gathered {
    double *rate;
    const double **step;
    size_t *steps, *from;
    double *z;
};

static void free_gathered(struct gathered *g)
{
    tw_free(g->rate);
    tw_free(g->step);
    tw_free(g->steps);
    tw_free(g->from);
    tw_free(g->z);
}

/* Gathers the runs that count and computes the points; puts each score back to its run. Runs that
 * do not count have a score of NaN. */
static int compute(struct tw_scale *s, struct gathered *g, struct twin_scaling_set *set)
{
    size_t at = 0;
    for (size_t c = 0; c < s->counts; c++) {
        set[c] = (struct twin_scaling_set){.workers = s->count[c],
                                           .rate = g->rate + at,
                                           .step = g->step + at,
                                           .steps = g->steps + at};
        for (size_t i = 0; i < s->runs; i++) {
            const struct tw_scale_run *r = &s->run[i];
            if (r->workers != s->count[c] || !tw_scale_counts(s, r))
                continue;
            g->rate[at] = tw_scale_rate(s, r);
            g->step[at] = r->step;
            g->steps[at] = r->step_count;
            g->from[at++] = i;
            set[c].runs++;
        }
    }
    int rc = twin_scaling(set, s->counts, CONFIDENCE, s->point, g->z);
    for (size_t i = 0; i < s->runs; i++)
        s->z[i] = NAN;
    for (size_t i = 0; rc == 0 && i < at; i++)
        s->z[g->from[i]] = g->z[i];
    return rc;
}

/* Adds a note. One for which there is no memory is dropped: notes qualify, they decide nothing. */
static void add_note(struct tw_scale *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_note(struct tw_scale *s, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = tw_vprintf(format, ap);
    va_end(ap);
    char **grown = text ? tw_reallocarray(s->note, s->notes + 1, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(text);
        return;
    }
    s->note = grown;
    grown[s->notes++] = text;
}

static const char *workers_text(uint64_t n, char out[32])
{
    snprintf(out, 32, "%llu worker%s", (unsigned long long)n, tw_plural_s(n));
    return out;
}

/* What the reader should know of the runs of one number of workers: outliers, failed runs, too few,
 * another number of ranks than asked for. */
static void note_runs(struct tw_scale *s, size_t c)
{
    assert(c < s->counts);
    struct tw_buf failed = {0};
    char who[32];
    size_t good = s->point[c].runs, n = 0;
    uint64_t ranks = 0;
    workers_text(s->count[c], who);
    for (size_t i = 0; i < s->runs; i++) {
        const struct tw_scale_run *r = &s->run[i];
        if (r->workers != s->count[c])
            continue;
        if (!r->good)
            tw_buf_printf(&failed, "%s%s (%s)", n++ ? ", " : "", r->run, r->state);
        else if (r->ranks > 1 && r->ranks != r->workers)
            ranks = r->ranks;
        if (good >= OUTLIERS_FROM && fabs(s->z[i]) > TWIN_STATS_OUTLIER_Z)
            add_note(s, "%s: %s is an outlier (modified z %.1f); kept", who, r->run, s->z[i]);
    }
    if (n)
        add_note(s, "%s: %zu run%s did not end well, and %s left out: %s", who, n, tw_plural_s(n),
                 n == 1 ? "is" : "are", failed.data ? failed.data : "");
    if (good < ENOUGH_RUNS)
        add_note(s, "%s: %zu run%s could be timed; an interval worth having needs %d", who, good,
                 tw_plural_s(good), ENOUGH_RUNS);
    if (good >= OUTLIERS_FROM && s->point[c].mad.mad == 0)
        add_note(
            s,
            "%s: more than half of the runs took equally long (MAD = 0): outliers cannot be told",
            who);
    if (ranks)
        add_note(s, "%s: the job says that it has %llu ranks; does {n} reach it?", who,
                 (unsigned long long)ranks);
    tw_buf_free(&failed);
}

/* Of the first run that failed: its last words, and where all that it printed is. */
static void note_failed(struct tw_scale *s)
{
    for (size_t i = 0; i < s->runs && s->home; i++) {
        struct twin_run *r = NULL;
        char *dir = s->run[i].good ? NULL : tw_printf("%s/runs/%s", s->home, s->run[i].run);
        char *words = NULL;
        if (!dir)
            continue;
        if (twin_run_load(dir, &r, NULL) == 0)
            words = tw_run_last_words(r);
        add_note(s, "a failed run's last line: %s (all of it: %s/stderr)", words ? words : "none",
                 dir);
        twin_run_free(r);
        tw_free(words);
        tw_free(dir);
        return;
    }
}

/* Did runs that count, of this number of workers, use this node? */
static bool was_on(const struct tw_scale *s, uint64_t workers, const char *node)
{
    for (size_t i = 0; i < s->runs; i++) {
        const struct tw_scale_run *r = &s->run[i];
        if (r->workers == workers && tw_scale_counts(s, r) && r->node && strcmp(r->node, node) == 0)
            return true;
    }
    return false;
}

/* Of a number of workers and the smallest: have they a node in common? Also where no run counts. */
static bool share_a_node(const struct tw_scale *s, uint64_t workers)
{
    bool any = false;
    for (size_t i = 0; i < s->runs; i++) {
        const struct tw_scale_run *r = &s->run[i];
        if (r->workers != workers || !r->node || !tw_scale_counts(s, r))
            continue;
        any = true;
        if (was_on(s, s->count[0], r->node))
            return true;
    }
    return !any;
}

/* Nodes differ in speed, and who ran where the engine chose. Each run's times are its node's own.
 */
static void note_nodes(struct tw_scale *s)
{
    struct tw_buf b = {0};
    size_t nodes = 0;
    for (size_t i = 0; i < s->runs; i++) {
        size_t same = 0, before = 0;
        for (size_t k = 0; s->run[i].node && k < s->runs; k++) {
            const bool its = s->run[k].node && strcmp(s->run[k].node, s->run[i].node) == 0;
            same += its;
            before += its && k < i;
        }
        if (same && !before)
            tw_buf_printf(&b, "%s%s (%zu)", nodes++ ? ", " : "", s->run[i].node, same);
    }
    if (nodes)
        add_note(s, "the runs were made on %zu node%s of an engine: %s%s", nodes,
                 tw_plural_s(nodes), b.data ? b.data : "",
                 nodes > 1 ? "; what nodes differ in is in the intervals (--place pin:HOST, or "
                             "same-type, keeps it out)"
                           : "");
    tw_buf_free(&b);
    for (size_t c = 1; nodes && c < s->counts; c++)
        if (!share_a_node(s, s->count[c]))
            add_note(s,
                     "%llu workers: on none of the nodes of %llu workers, so that what differs "
                     "between these two may be the nodes and not the workers",
                     (unsigned long long)s->count[c], (unsigned long long)s->count[0]);
    char *made = s->on ? tw_remote_text(s->on) : NULL;
    const char *again = made ? strstr(made, "; ") : NULL;
    if (again)
        add_note(s, "%s", again + 2);
    tw_free(made);
}

/* All notes, in the order in which the report shows them: first of each number of workers, then of
 * the study. */
static void note_all(struct tw_scale *s)
{
    double observer = 0;
    bool counted = false, short_runs = false, few = false;
    for (size_t c = 0; c < s->counts; c++) {
        const struct twin_scaling_point *p = &s->point[c];
        if (s->cores > 0 && p->workers > (uint64_t)s->cores)
            add_note(
                s,
                "%llu workers on %ld core%s: oversubscribed; this point says nothing of a machine "
                "with %llu cores",
                (unsigned long long)p->workers, s->cores, tw_plural_s(s->cores),
                (unsigned long long)p->workers);
        few |= p->runs > 0 && p->runs < OUTLIERS_FROM;
        note_runs(s, c);
        short_runs |= p->runs > 0 && !isnan(p->latency[TWIN_SCALING_P50].value) &&
                      isnan(p->latency[TWIN_SCALING_P99].value);
    }
    for (size_t i = 0; i < s->runs; i++) {
        counted |= tw_scale_counts(s, &s->run[i]);
        observer = tw_scale_counts(s, &s->run[i]) && s->run[i].observer > observer
                       ? s->run[i].observer
                       : observer;
    }
    if (short_runs)
        add_note(s, "no p99 of steps from fewer than %zu steps a run, no p90 from fewer than %zu",
                 twin_scaling_steps_needed(TWIN_SCALING_P99),
                 twin_scaling_steps_needed(TWIN_SCALING_P90));
    note_failed(s);
    note_nodes(s);
    if (few)
        add_note(s, "outliers are looked for from %d runs on", OUTLIERS_FROM);
    if (counted && s->work.per_run)
        add_note(s, "speed is that of whole runs, start and end of the job included");
    else if (counted)
        add_note(s, "speed is that of the steps behind the first %llu, on the slowest rank",
                 (unsigned long long)s->args.warmup);
    if (observer > OBSERVER_NOTED)
        add_note(
            s,
            "up to %.0f%% of a process's time went into watching it: that much of a step is ours",
            100 * observer);
    if (s->out_of_time)
        add_note(s, "ended by --max-time; the same command with --resume goes on");
    else if (s->interrupted)
        add_note(s, "interrupted; the same command with --resume goes on");
}

static bool have_room(struct gathered *g, size_t n)
{
    *g = (struct gathered){
        .rate = tw_reallocarray(NULL, n, sizeof *g->rate),
        .step = tw_reallocarray(NULL, n, sizeof *g->step),
        .steps = tw_reallocarray(NULL, n, sizeof *g->steps),
        .from = tw_reallocarray(NULL, n, sizeof *g->from),
        .z = tw_reallocarray(NULL, n, sizeof *g->z),
    };
    return g->rate && g->step && g->steps && g->from && g->z;
}

int tw_scale_compute(struct tw_scale *s, struct twin_error *err)
{
    struct twin_scaling_set set[TW_SCALE_COUNTS];
    struct gathered g;
    const bool room = have_room(&g, s->runs + 1);
    s->z = tw_reallocarray(NULL, s->runs + 1, sizeof *s->z);
    int rc = room && s->z ? compute(s, &g, set) : TWIN_ENOMEM;
    free_gathered(&g);
    if (rc == TWIN_EINVAL)
        return twin_error_set(err, rc, "a speed that was measured is no positive finite number");
    if (rc != 0)
        return tw_no_memory(err, "for %zu runs", s->runs);
    for (size_t c = 0; c < s->counts; c++)
        s->measured += s->point[c].runs > 0;
    note_all(s);
    return 0;
}

bool tw_scale_enough(const struct tw_scale *s)
{
    for (size_t c = 0; c < s->counts; c++)
        if (s->point[c].runs < ENOUGH_RUNS)
            return false;
    return true;
}

bool tw_scale_steps_unseen(const struct tw_scale *s)
{
    bool well = false;
    for (size_t i = 0; i < s->runs; i++) {
        if (tw_scale_counts(s, &s->run[i]))
            return false;
        well |= s->run[i].good && s->run[i].round > 0;
    }
    return well;
}
