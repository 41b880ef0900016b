/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of a whole history for each project, which never fall: a monitor takes a number that fell
 * for a restart and counts all of it again. So a run is counted by what was ever found of it, and
 * not by what holds now, which is what rows.c is for.
 */
#include "slo_inside.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const double tw_slo_bucket[TW_SLO_BUCKETS] = {1,    10,    60,    300,   900,   3600,
                                              7200, 21600, 43200, 86400, 604800};

/* ---- projects */

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct tw_slo_project *)x)->name,
                  ((const struct tw_slo_project *)y)->name);
}

static int add_projects(const struct tw_slo_history *h, struct tw_slo_counted *out)
{
    size_t n = 0;
    const char **name = tw_calloc(h->runs + h->happenings + 1, sizeof *name);
    if (!name)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < h->runs; i++)
        name[n++] = h->run[i].project;
    for (size_t i = 0; i < h->happenings; i++)
        name[n++] = h->happened[i].project;
    if (n)
        qsort(name, n, sizeof *name, by_text);
    size_t different = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(name[i], name[i - 1]) != 0)
            name[different++] = name[i];
    out->project = tw_calloc(different + 1, sizeof *out->project);
    int rc = out->project ? 0 : TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < different; i++) {
        out->project[i].name = tw_strdup(name[i]);
        out->project[i].first_ns = INT64_MAX;
        out->count++;
        rc = out->project[i].name ? 0 : TWIN_ENOMEM;
    }
    tw_free(name);
    return rc;
}

static struct tw_slo_project *project_of(struct tw_slo_counted *c, const char *name)
{
    const struct tw_slo_project key = {.name = (char *)(uintptr_t)name};
    return bsearch(&key, c->project, c->count, sizeof *c->project, by_name);
}

/* ---- counting */

static void add(struct tw_slo_project *p, struct tw_slo_counter *c, uint64_t n, int64_t time_ns,
                const char *run, double value)
{
    if (!n)
        return;
    c->n = n > UINT64_MAX - c->n ? UINT64_MAX : c->n + n;
    if (time_ns < p->first_ns)
        p->first_ns = time_ns;
    if (c->run[0] && time_ns < c->time_ns)
        return;
    snprintf(c->run, sizeof c->run, "%s", run);
    c->time_ns = time_ns;
    c->value = value;
}

static void count_one(struct tw_slo_counted *all, enum tw_slo_count what, const char *project,
                      uint64_t n, int64_t time_ns, const char *run)
{
    struct tw_slo_project *p = project_of(all, project);
    if (p)
        add(p, &p->count[what], n, time_ns, run, 1);
}

/* TW_COUNTS: no comparison of two runs, or a word of a newer twinrun. */
static enum tw_slo_count outcome_of(const char *outcome)
{
    static const struct {
        const char *word;
        enum tw_slo_count what;
    } table[] = {
        {"same", TW_COUNT_COMPARISONS_MATCH},
        {"within-tolerance", TW_COUNT_COMPARISONS_MATCH},
        {"differ", TW_COUNT_COMPARISONS_DIVERGED},
        {"inconclusive", TW_COUNT_COMPARISONS_INCONCLUSIVE},
        {"error", TW_COUNT_COMPARISONS_ERROR},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(outcome, table[i].word) == 0)
            return table[i].what;
    return TW_COUNTS;
}

static bool is_of_ci(const struct slo_run *run, const char *verb)
{
    return run->ci &&
           (strcmp(verb, "check") == 0 || strcmp(verb, "gate") == 0 || strcmp(verb, "diff") == 0);
}

/* Comparisons, and what CI said, are of the project of their last run. */
static void count_comparisons(const struct tw_slo_history *h, struct tw_slo_counted *all)
{
    for (size_t i = 0; i < h->comparisons; i++) {
        const struct slo_comparison *c = &h->comparison[i];
        const enum tw_slo_count what = outcome_of(c->outcome);
        if (!c->count || what == TW_COUNTS)
            continue;
        const struct slo_run *run = &h->run[c->run[c->count - 1]];
        count_one(all, what, run->project, 1, c->time_ns, run->id);
        if (!is_of_ci(run, c->verb))
            continue;
        if (what == TW_COUNT_COMPARISONS_MATCH)
            count_one(all, TW_COUNT_CI_PASS, run->project, 1, c->time_ns, run->id);
        else if (what == TW_COUNT_COMPARISONS_DIVERGED)
            count_one(all, TW_COUNT_CI_FAIL, run->project, 1, c->time_ns, run->id);
    }
}

/* Each run once for each thing that was ever found of it. */
static int count_repeats(const struct tw_slo_history *h, struct tw_slo_counted *all)
{
    static const enum tw_slo_count what[] = {[TWIN_AGREED] = TW_COUNT_REPEATS_MATCH,
                                             [TWIN_AGREED_NOT] = TW_COUNT_REPEATS_DIVERGED,
                                             [TWIN_AGREED_NOT_SAID] = TW_COUNT_REPEATS_INCONCLUSIVE,
                                             [TWIN_AGREED_UNKNOWN] = TW_COUNT_REPEATS_INCONCLUSIVE};
    unsigned char *seen = tw_calloc(h->runs + 1, 1);
    if (!seen)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < h->comparisons; i++) {
        const struct slo_comparison *c = &h->comparison[i];
        for (size_t k = 1; c->repeats && k < c->count; k++) {
            const struct slo_run *first = &h->run[c->run[0]], *run = &h->run[c->run[k]];
            const unsigned bit = 1u << (what[c->agreed[k]] - TW_COUNT_REPEATS_MATCH);
            if (!slo_same_inputs(first, run) || (seen[c->run[k]] & bit))
                continue;
            seen[c->run[k]] |= (unsigned char)bit;
            count_one(all, what[c->agreed[k]], run->project, 1, c->time_ns, run->id);
        }
    }
    tw_free(seen);
    return 0;
}

static void count_events(const struct slo_events *events, struct tw_slo_counted *all)
{
    static const struct {
        enum tw_slo_id id;
        enum slo_outcome outcome;
        enum tw_slo_count what;
    } table[] = {
        {TW_SLO_CHECKPOINTS, SLO_GOOD, TW_COUNT_CHECKPOINTS_MATCH},
        {TW_SLO_CHECKPOINTS, SLO_BAD, TW_COUNT_CHECKPOINTS_MISMATCH},
        {TW_SLO_CHECKPOINTS, SLO_OPEN, TW_COUNT_CHECKPOINTS_MISSING},
        {TW_SLO_FLAKES, SLO_BAD, TW_COUNT_CI_FLAKY},
        {TW_SLO_DATA, SLO_GOOD, TW_COUNT_DATA_MATCH},
        {TW_SLO_DATA, SLO_BAD, TW_COUNT_DATA_MISMATCH},
        {TW_SLO_DATA, SLO_OPEN, TW_COUNT_DATA_UNKNOWN},
        {TW_SLO_OPERATORS, SLO_BAD, TW_COUNT_OPERATORS},
        {TW_SLO_ROLLBACKS, SLO_GOOD, TW_COUNT_ROLLBACKS_RESTORED},
        {TW_SLO_ROLLBACKS, SLO_BAD, TW_COUNT_ROLLBACKS_FAILED},
        {TW_SLO_ARTIFACTS, SLO_GOOD, TW_COUNT_ARTIFACTS_TRUE},
        {TW_SLO_ARTIFACTS, SLO_BAD, TW_COUNT_ARTIFACTS_FALSE},
        {TW_SLO_ARTIFACTS, SLO_OPEN, TW_COUNT_ARTIFACTS_UNKNOWN},
    };
    for (size_t i = 0; i < events->count; i++) {
        const struct slo_event *e = &events->item[i];
        for (size_t k = 0; k < sizeof table / sizeof table[0]; k++)
            if (e->id == table[k].id && e->outcome == table[k].outcome)
                count_one(all, table[k].what, e->project, e->count, e->time_ns, e->run);
    }
}

static void count_durations(const struct tw_slo_history *h, struct tw_slo_counted *all)
{
    for (size_t i = 0; i < h->runs; i++) {
        const struct slo_run *r = &h->run[i];
        struct tw_slo_project *p = project_of(all, r->project);
        if (!p || !r->recorded || strcmp(r->state, "ok") != 0 || !(r->wall_s >= 0) ||
            !isfinite(r->wall_s))
            continue;
        size_t b = 0;
        while (b < TW_SLO_BUCKETS && r->wall_s > tw_slo_bucket[b])
            b++;
        add(p, &p->duration[b], 1, r->start_ns, r->id, r->wall_s);
        p->duration_sum += r->wall_s;
    }
}

int tw_slo_count(const struct tw_slo_history *h, struct tw_slo_counted *out, struct twin_error *err)
{
    struct slo_events events = {.count = 0};
    *out = (struct tw_slo_counted){.count = 0};
    int rc = slo_events_make(h, &events, err);
    rc = rc ? rc : add_projects(h, out);
    rc = rc ? rc : count_repeats(h, out);
    if (rc == 0) {
        count_comparisons(h, out);
        count_events(&events, out);
        count_durations(h, out);
    }
    tw_free(events.item);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "for the counts of service levels") : rc;
}

void tw_slo_counted_free(struct tw_slo_counted *c)
{
    for (size_t i = 0; i < c->count; i++)
        tw_free(c->project[i].name);
    tw_free(c->project);
    *c = (struct tw_slo_counted){.count = 0};
}
