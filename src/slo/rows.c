/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows: each indicator for all runs, then for each project, family of models and, where somebody
 * pushes changes, contributor. Events are put on lists by indicator and name once for each scope,
 * so that ten thousand projects cost no more than one.
 */
#include "slo_inside.h"

#include "base.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPEATS_LEAST = 5, /* M3, M7: runs of a group */
    TIMES_LEAST = 6,   /* below, a median has no interval */
    PAIRS_LEAST = 1,
    OPERATORS_LEAST = 10
};
static const double HOUR_NS = 3600e9, CONFIDENCE = .95;
/* Bad events that one hour must have before its burn is a page: one is chance. */
static const double BURN_EVENTS = 1.5;

/* ---- names of a scope */

static const char *name_of(enum tw_slo_scope scope, const char *project, const char *family,
                           const char *contributor)
{
    const char *const own[] = {[TW_SLO_ALL] = "",
                               [TW_SLO_PROJECT] = project,
                               [TW_SLO_FAMILY] = family,
                               [TW_SLO_CONTRIBUTOR] = contributor};
    return own[scope];
}

/* All names of a scope; "" is none. All runs have the one name "". */
static bool names_of(const struct tw_slo_history *h, enum tw_slo_scope scope, struct slo_names *out)
{
    bool ok = scope != TW_SLO_ALL || slo_names_add(out, "");
    for (size_t i = 0; ok && scope != TW_SLO_ALL && i < h->runs; i++) {
        const struct slo_run *r = &h->run[i];
        const char *name = name_of(scope, r->project, r->family, r->contributor);
        ok = !*name || slo_names_add(out, name);
    }
    for (size_t i = 0; ok && scope != TW_SLO_ALL && i < h->happenings; i++) {
        const struct slo_happened *x = &h->happened[i];
        const char *name = name_of(scope, x->project, x->family, x->contributor);
        ok = !*name || slo_names_add(out, name);
    }
    return ok && slo_names_settle(out);
}

/* ---- targets */

/* The last target that fits: a file says the general first, and then what differs. */
static const struct tw_slo_target *target_of(const struct tw_slo_targets *t, enum tw_slo_id id,
                                             enum tw_slo_scope scope, const char *name)
{
    const struct tw_slo_target *found = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const struct tw_slo_target *x = &t->item[i];
        if (x->id != id)
            continue;
        const char *pattern = scope == TW_SLO_PROJECT ? x->project : x->family;
        const bool general = !x->project && !x->family;
        const bool named = (scope == TW_SLO_PROJECT || scope == TW_SLO_FAMILY) && pattern;
        if (general || (named && tw_glob(pattern, name)))
            found = x;
    }
    return found;
}

/* ---- one row */

/* What the rows of one scope are made from. */
struct making {
    const struct tw_slo_history *h;
    const struct tw_slo_targets *targets;
    int64_t until_ns;
    struct slo_events events;
    size_t *by_job; /* places of runs, in the order of jobs */
    size_t *key;    /* room for one of each event, or of each run */
    const struct slo_run **run;
    enum tw_slo_scope scope;
    struct slo_names names;
    struct slo_lists of_name; /* events, by indicator and name */
    struct slo_lists run_of;  /* runs, by name */
    size_t at;                /* the name whose rows are made */
    struct tw_slo_rows *out;
    size_t room;
    struct twin_error *err;
};

/* Where on the list the events of an indicator begin, those of the name whose rows are made; where
 * they end is returned. */
static size_t end_of(const struct making *m, enum tw_slo_id id, size_t *first)
{
    const size_t *of = &m->of_name.first[(size_t)id * m->names.count + m->at];
    *first = of[0];
    return of[1];
}

static const struct slo_event *event_at(const struct making *m, size_t i)
{
    return &m->events.item[m->of_name.item[i]];
}

static enum tw_slo_unit unit_of(enum tw_slo_id id)
{
    static const enum tw_slo_unit unit[TW_SLO_IDS] = {
        [TW_SLO_VARIANCE] = TW_SLO_RATIO,  [TW_SLO_RUN_TIME] = TW_SLO_RATIO,
        [TW_SLO_OPERATORS] = TW_SLO_COUNT, [TW_SLO_REPRODUCE] = TW_SLO_SECONDS,
        [TW_SLO_RANKING] = TW_SLO_TAU,
    };
    _Static_assert(TW_SLO_SHARE == 0, "what the table does not name is a share");
    return unit[id];
}

static bool is_at_least(enum tw_slo_id id)
{
    return id == TW_SLO_RUNS || id == TW_SLO_CHECKPOINTS || id == TW_SLO_DATA ||
           id == TW_SLO_ROLLBACKS || id == TW_SLO_ARTIFACTS || id == TW_SLO_PROVENANCE ||
           id == TW_SLO_RANKING;
}

static struct tw_slo_row *add_row(struct making *m, enum tw_slo_id id, const char *name,
                                  const struct tw_slo_target *t)
{
    if (m->out->count == m->room) {
        size_t room = m->room ? 2 * m->room : 32;
        struct tw_slo_row *grown = tw_reallocarray(m->out->row, room, sizeof *grown);
        if (!grown)
            return NULL;
        m->out->row = grown;
        m->room = room;
    }
    struct tw_slo_row *row = &m->out->row[m->out->count++];
    *row = (struct tw_slo_row){
        .id = id,
        .scope = m->scope,
        .name = name,
        .subject = "",
        .unit = unit_of(id),
        .value = NAN,
        .interval = {NAN, NAN},
        .p90 = NAN,
        .target = t ? t->target : NAN,
        .at_least = is_at_least(id),
        .window_s = t ? t->window_s : 30 * 86400.,
        .budget = NAN,
        .left = NAN,
        .limited = t && !isnan(t->limit),
        .own = t && (t->project || t->family),
    };
    return row;
}

static int64_t window_start(const struct making *m, double seconds)
{
    return m->until_ns - (int64_t)(seconds * 1e9);
}

/* The row's bad events, newest first; of one time the last one comes first. */
static void add_burned(struct tw_slo_row *row, const struct slo_event *e)
{
    size_t at = 0;
    while (at < row->burned_count && row->burned[at].time_ns > e->time_ns)
        at++;
    if (at == TW_SLO_BURNED_MAX)
        return;
    const size_t n = row->burned_count < TW_SLO_BURNED_MAX ? row->burned_count++
                                                           : TW_SLO_BURNED_MAX - 1;
    memmove(row->burned + at + 1, row->burned + at, (n - at) * sizeof *row->burned);
    row->burned[at] = (struct tw_slo_burned){.run = e->run,
                                             .project = e->project,
                                             .cause = e->cause,
                                             .time_ns = e->time_ns,
                                             .count = e->count};
}

/* Counts the row's events. weighted: an event counts as many as it says; else as one. Returns the
 * sum of the bad ones' counts. */
static uint64_t count_events(const struct making *m, struct tw_slo_row *row, bool weighted)
{
    uint64_t sum = 0;
    const int64_t from = window_start(m, row->window_s);
    size_t i;
    for (const size_t end = end_of(m, row->id, &i); i < end; i++) {
        const struct slo_event *e = event_at(m, i);
        const uint64_t n = weighted ? e->count : 1;
        if (e->time_ns <= from || e->time_ns > m->until_ns)
            continue;
        row->runs++;
        if (e->outcome == SLO_GOOD) {
            row->good += n;
        } else if (e->outcome == SLO_OPEN) {
            row->unknown += n;
        } else {
            row->bad += n;
            sum = e->count > UINT64_MAX - sum ? UINT64_MAX : sum + e->count;
            add_burned(row, e);
        }
    }
    return sum;
}

static uint64_t least_of(const struct tw_slo_target *t, uint64_t own)
{
    return t && t->least ? t->least : own;
}

static void make_share(const struct making *m, const struct tw_slo_target *t,
                       struct tw_slo_row *row)
{
    count_events(m, row, true);
    const uint64_t n = row->good + row->bad;
    if (n)
        row->value = (double)(row->at_least ? row->good : row->bad) / (double)n;
    slo_judge_share(row, least_of(t, 0));
}

/* M6: calls, not runs, are what the target is about. */
static void make_operators(const struct making *m, const struct tw_slo_target *t,
                           struct tw_slo_row *row)
{
    const uint64_t calls = count_events(m, row, false);
    const uint64_t least = least_of(t, OPERATORS_LEAST);
    if (row->good + row->bad)
        row->value = (double)calls;
    if (isnan(row->target)) {
        row->state = TW_SLO_SHOWN;
    } else if (row->bad && row->value > row->target) {
        row->state = TW_SLO_BROKEN;
    } else if (!row->unknown && row->runs >= least) {
        row->state = TW_SLO_KEPT;
    } else {
        row->state = TW_SLO_NOT_KNOWN;
        row->needed = least;
        if (!row->runs)
            snprintf(row->why, sizeof row->why, "no run was meant to be deterministic");
        else if (row->unknown)
            snprintf(row->why, sizeof row->why, "the calls of %llu of %llu runs are not known",
                     (unsigned long long)row->unknown, (unsigned long long)row->runs);
        else
            snprintf(row->why, sizeof row->why, "too few: %llu runs, %llu would show it",
                     (unsigned long long)row->runs, (unsigned long long)least);
    }
}

static int compare_doubles(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static int make_times(const struct making *m, const struct tw_slo_target *t, struct tw_slo_row *row)
{
    const int64_t from = window_start(m, row->window_s);
    size_t first, n = 0;
    const size_t end = end_of(m, row->id, &first);
    double *x = tw_calloc(end - first + 1, sizeof *x);
    if (!x)
        return TWIN_ENOMEM;
    for (size_t i = first; i < end; i++) {
        const struct slo_event *e = event_at(m, i);
        if (e->time_ns > from && e->time_ns <= m->until_ns)
            x[n++] = e->value;
    }
    row->runs = n;
    if (n) {
        struct twin_estimate e;
        qsort(x, n, sizeof *x, compare_doubles);
        row->p90 = x[(size_t)ceil(.9 * (double)n) - 1];
        if (twin_stats_median_interval(x, n, CONFIDENCE, &e) == 0) {
            row->value = e.value;
            row->interval = e.interval;
        }
    }
    slo_judge_bound(row, least_of(t, TIMES_LEAST), "job");
    tw_free(x);
    return 0;
}

static int make_groups(const struct making *m, const struct tw_slo_target *t,
                       struct tw_slo_row *row)
{
    const uint64_t least = least_of(t, row->id == TW_SLO_RANKING ? PAIRS_LEAST : REPEATS_LEAST);
    const size_t first = m->run_of.first[m->at];
    const struct slo_question q = {m->run + first,
                                   m->run_of.first[m->at + 1] - first,
                                   window_start(m, row->window_s),
                                   m->until_ns,
                                   t ? t->limit : NAN,
                                   least};
    int rc = 0;
    if (row->id == TW_SLO_VARIANCE)
        rc = slo_group_variance(&q, row, m->err);
    else if (row->id == TW_SLO_RUN_TIME)
        rc = slo_group_run_time(&q, row, m->err);
    else
        rc = slo_ranking(&q, row, m->err);
    if (row->id == TW_SLO_VARIANCE && isnan(q.limit) && !isnan(row->target)) {
        row->state = TW_SLO_NOT_KNOWN;
        snprintf(row->why, sizeof row->why,
                 "no limit of the variance is given (limit in the targets file)%s",
                 row->runs ? "; shown is the variance" : "");
        return rc;
    }
    slo_judge_bound(row, least, row->id == TW_SLO_RANKING ? "sweep" : "job");
    return rc;
}

/* M10: how much of a budget the last hour burned. of: the row whose budget it is. */
static void make_burn(const struct making *m, const struct tw_slo_row *of, struct tw_slo_row *row)
{
    const double all = (double)(of->good + of->bad + of->unknown);
    const double share = of->at_least ? 1 - of->target : of->target, budget = all * share;
    row->subject = tw_slo_name(of->id);
    row->runs = of->runs;
    size_t i;
    for (const size_t end = end_of(m, of->id, &i); i < end; i++) {
        const struct slo_event *e = event_at(m, i);
        if ((double)(m->until_ns - e->time_ns) >= HOUR_NS || e->time_ns > m->until_ns)
            continue;
        if (e->outcome == SLO_BAD) {
            row->bad += e->count;
            add_burned(row, e);
        } else {
            row->good += e->outcome == SLO_GOOD ? e->count : 0;
        }
    }
    if (!(budget > 0)) {
        row->state = TW_SLO_NOT_KNOWN;
        snprintf(row->why, sizeof row->why, "%s has no events in the window", row->subject);
        return;
    }
    row->value = (double)row->bad / budget;
    row->budget = budget;
    if (isnan(row->target)) {
        row->state = TW_SLO_SHOWN;
    } else if (row->value > row->target && (double)row->bad >= BURN_EVENTS) {
        row->state = TW_SLO_BROKEN;
    } else if (budget >= 1) {
        row->state = TW_SLO_KEPT;
    } else {
        row->state = TW_SLO_NOT_KNOWN;
        snprintf(row->why, sizeof row->why, "too few: the window's budget of %s is %.2g events",
                 row->subject, budget);
    }
}

/* One row, or as many as there are budgets. */
static int make_rows(struct making *m, enum tw_slo_id id, const char *name, size_t budgets[3])
{
    static const enum tw_slo_id with_budget[3] = {TW_SLO_RUNS, TW_SLO_CHECKPOINTS, TW_SLO_FLAKES};
    const struct tw_slo_target *t = target_of(m->targets, id, m->scope, name);
    if (id == TW_SLO_BURN) {
        for (size_t i = 0; i < 3; i++) {
            struct tw_slo_row *row = add_row(m, id, name, t);
            if (!row)
                return TWIN_ENOMEM;
            const struct tw_slo_row of =
                m->out->row[budgets[i]]; /* a row that was added moves all */
            assert(of.id == with_budget[i]);
            if (isnan(of.target) || (of.at_least ? of.target >= 1 : of.target <= 0))
                m->out->count--; /* without a budget nothing burns */
            else
                make_burn(m, &of, row);
        }
        return 0;
    }
    struct tw_slo_row *row = add_row(m, id, name, t);
    if (!row)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < 3; i++)
        if (with_budget[i] == id)
            budgets[i] = m->out->count - 1;
    switch (id) {
    case TW_SLO_VARIANCE:
    case TW_SLO_RUN_TIME:
    case TW_SLO_RANKING: return make_groups(m, t, row);
    case TW_SLO_OPERATORS: make_operators(m, t, row); return 0;
    case TW_SLO_REPRODUCE: return make_times(m, t, row);
    default: make_share(m, t, row); return 0;
    }
}

/* ---- all rows */

static int list_events(struct making *m)
{
    const size_t names = m->names.count;
    for (size_t i = 0; i < m->events.count; i++) {
        const struct slo_event *e = &m->events.item[i];
        const size_t place = slo_names_place(
            &m->names, name_of(m->scope, e->project, e->family, e->contributor));
        m->key[i] = place < names ? (size_t)e->id * names + place : SIZE_MAX;
    }
    return slo_lists_make(&m->of_name, TW_SLO_IDS * names, m->key, m->events.count);
}

/* Of one name the order is that of jobs. */
static int list_runs(struct making *m)
{
    const size_t names = m->names.count;
    for (size_t i = 0; i < m->h->runs; i++) {
        const struct slo_run *r = &m->h->run[m->by_job[i]];
        m->key[i] = slo_names_place(&m->names,
                                    name_of(m->scope, r->project, r->family, r->contributor));
    }
    const int rc = slo_lists_make(&m->run_of, names, m->key, m->h->runs);
    for (size_t i = 0; rc == 0 && i < m->run_of.first[names]; i++)
        m->run[i] = &m->h->run[m->by_job[m->run_of.item[i]]];
    return rc;
}

static int make_scope(struct making *m)
{
    int rc = names_of(m->h, m->scope, &m->names) ? 0 : TWIN_ENOMEM;
    rc = rc ? rc : list_events(m);
    rc = rc ? rc : list_runs(m);
    for (m->at = 0; rc == 0 && m->at < m->names.count; m->at++) {
        size_t budgets[3] = {0};
        for (size_t id = 0; rc == 0 && id < TW_SLO_IDS; id++)
            /* of who pushed a change, only what CI said of it is asked */
            if (m->scope != TW_SLO_CONTRIBUTOR || id == TW_SLO_FLAKES)
                rc = make_rows(m, (enum tw_slo_id)id, m->names.name[m->at], budgets);
    }
    slo_names_free(&m->names);
    slo_lists_free(&m->of_name);
    slo_lists_free(&m->run_of);
    return rc;
}

/* In the order of indicators, then of scopes, then of names. */
static int by_indicator(const void *x, const void *y)
{
    const struct tw_slo_row *a = x, *b = y;
    if (a->id != b->id)
        return (a->id > b->id) - (a->id < b->id);
    if (a->scope != b->scope)
        return (a->scope > b->scope) - (a->scope < b->scope);
    const int order = strcmp(a->name, b->name);
    return order ? order : strcmp(a->subject, b->subject);
}

int tw_slo_compute(const struct tw_slo_history *h, const struct tw_slo_targets *t, int64_t until_ns,
                   struct tw_slo_rows *out, struct twin_error *err)
{
    struct making m = {.h = h, .targets = t, .until_ns = until_ns, .out = out, .err = err};
    *out = (struct tw_slo_rows){.count = 0};
    int rc = slo_events_make(h, &m.events, err);
    const size_t most = m.events.count > h->runs ? m.events.count : h->runs;
    m.run = tw_calloc(h->runs + 1, sizeof *m.run);
    m.key = tw_calloc(most + 1, sizeof *m.key);
    m.by_job = tw_calloc(h->runs + 1, sizeof *m.by_job);
    if (rc == 0 && (!m.run || !m.key || !m.by_job))
        rc = TWIN_ENOMEM;
    rc = rc ? rc : slo_jobs_order(h, m.by_job);
    for (int scope = TW_SLO_ALL; rc == 0 && scope <= TW_SLO_CONTRIBUTOR; scope++) {
        m.scope = (enum tw_slo_scope)scope;
        rc = make_scope(&m);
    }
    if (out->count)
        qsort(out->row, out->count, sizeof *out->row, by_indicator);
    tw_free(m.run);
    tw_free(m.key);
    tw_free(m.by_job);
    tw_free(m.events.item);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "for the rows of service levels") : rc;
}

void tw_slo_rows_free(struct tw_slo_rows *r)
{
    tw_free(r->row);
    *r = (struct tw_slo_rows){.count = 0};
}

enum tw_slo_state tw_slo_verdict(const struct tw_slo_rows *r)
{
    enum tw_slo_state verdict = TW_SLO_KEPT;
    for (size_t i = 0; i < r->count; i++) {
        const struct tw_slo_row *row = &r->row[i];
        if (row->state == TW_SLO_BROKEN)
            return TW_SLO_BROKEN;
        if (row->state == TW_SLO_NOT_KNOWN && (row->scope == TW_SLO_ALL || row->own))
            verdict = TW_SLO_NOT_KNOWN;
    }
    return verdict;
}
