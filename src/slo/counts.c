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

/* Counts on their way: projects have the places of their names. */
struct counting {
    struct tw_slo_counted *all;
    struct slo_names names;
};

static int add_projects(const struct tw_slo_history *h, struct counting *g)
{
    struct tw_slo_counted *out = g->all;
    bool ok = true;
    for (size_t i = 0; ok && i < h->runs; i++)
        ok = slo_names_add(&g->names, h->run[i].project);
    for (size_t i = 0; ok && i < h->happenings; i++)
        ok = slo_names_add(&g->names, h->happened[i].project);
    ok = ok && slo_names_settle(&g->names);
    if (ok)
        out->project = tw_calloc(g->names.count + 1, sizeof *out->project);
    ok = ok && out->project;
    for (size_t i = 0; ok && i < g->names.count; i++) {
        out->project[i].name = tw_strdup(g->names.name[i]);
        out->project[i].first_ns = INT64_MAX;
        out->count++;
        ok = out->project[i].name != NULL;
    }
    return ok ? 0 : TWIN_ENOMEM;
}

static struct tw_slo_project *project_of(struct counting *g, const char *name)
{
    const size_t place = slo_names_place(&g->names, name);
    return place < g->names.count ? &g->all->project[place] : NULL;
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
    const size_t n_run = strnlen(run, sizeof c->run - 1);
    memcpy(c->run, run, n_run);
    c->run[n_run] = '\0';
    c->time_ns = time_ns;
    c->value = value;
}

static void count_one(struct counting *g, enum tw_slo_count what, const char *project, uint64_t n,
                      int64_t time_ns, const char *run)
{
    struct tw_slo_project *p = project_of(g, project);
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
static void count_comparisons(const struct tw_slo_history *h, struct counting *g)
{
    for (size_t i = 0; i < h->comparisons; i++) {
        const struct slo_comparison *c = &h->comparison[i];
        const enum tw_slo_count what = outcome_of(c->outcome);
        if (!c->count || what == TW_COUNTS)
            continue;
        const struct slo_run *run = &h->run[c->run[c->count - 1]];
        count_one(g, what, run->project, 1, c->time_ns, run->id);
        if (!is_of_ci(run, c->verb))
            continue;
        if (what == TW_COUNT_COMPARISONS_MATCH)
            count_one(g, TW_COUNT_CI_PASS, run->project, 1, c->time_ns, run->id);
        else if (what == TW_COUNT_COMPARISONS_DIVERGED)
            count_one(g, TW_COUNT_CI_FAIL, run->project, 1, c->time_ns, run->id);
    }
}

/* Each run once for each thing that was ever found of it. */
static int count_repeats(const struct tw_slo_history *h, struct counting *g)
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
            count_one(g, what[c->agreed[k]], run->project, 1, c->time_ns, run->id);
        }
    }
    tw_free(seen);
    return 0;
}

/* What an event of an indicator counts as; TW_COUNTS: nothing here. */
static enum tw_slo_count what_of(const struct slo_event *e)
{
    static const struct {
        bool counts;
        enum tw_slo_count what[3]; /* good, bad, open */
    } table[TW_SLO_IDS] = {
        [TW_SLO_CHECKPOINTS] = {true,
                                {TW_COUNT_CHECKPOINTS_MATCH, TW_COUNT_CHECKPOINTS_MISMATCH,
                                 TW_COUNT_CHECKPOINTS_MISSING}},
        [TW_SLO_FLAKES] = {true, {TW_COUNTS, TW_COUNT_CI_FLAKY, TW_COUNTS}},
        [TW_SLO_DATA] = {true,
                         {TW_COUNT_DATA_MATCH, TW_COUNT_DATA_MISMATCH, TW_COUNT_DATA_UNKNOWN}},
        [TW_SLO_OPERATORS] = {true, {TW_COUNTS, TW_COUNT_OPERATORS, TW_COUNTS}},
        [TW_SLO_ROLLBACKS] = {true,
                              {TW_COUNT_ROLLBACKS_RESTORED, TW_COUNT_ROLLBACKS_FAILED, TW_COUNTS}},
        [TW_SLO_ARTIFACTS] = {true,
                              {TW_COUNT_ARTIFACTS_TRUE, TW_COUNT_ARTIFACTS_FALSE,
                               TW_COUNT_ARTIFACTS_UNKNOWN}},
    };
    _Static_assert(SLO_GOOD == 0 && SLO_BAD == 1 && SLO_OPEN == 2, "the columns of the table");
    return table[e->id].counts ? table[e->id].what[e->outcome] : TW_COUNTS;
}

static void count_events(const struct slo_events *events, struct counting *g)
{
    for (size_t i = 0; i < events->count; i++) {
        const struct slo_event *e = &events->item[i];
        const enum tw_slo_count what = what_of(e);
        if (what != TW_COUNTS)
            count_one(g, what, e->project, e->count, e->time_ns, e->run);
    }
}

static void count_durations(const struct tw_slo_history *h, struct counting *g)
{
    for (size_t i = 0; i < h->runs; i++) {
        const struct slo_run *r = &h->run[i];
        struct tw_slo_project *p = project_of(g, r->project);
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
    struct counting g = {.all = out};
    int rc = slo_events_make(h, &events, err);
    rc = rc ? rc : add_projects(h, &g);
    rc = rc ? rc : count_repeats(h, &g);
    if (rc == 0) {
        count_comparisons(h, &g);
        count_events(&events, &g);
        count_durations(h, &g);
    }
    slo_names_free(&g.names);
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
