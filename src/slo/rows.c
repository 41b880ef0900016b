/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows: each indicator for all runs, then for each project, family of models and, where somebody
 * pushes changes, contributor. Events are sorted by indicator and name once for each scope, so that
 * ten thousand projects cost no more than one.
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

/* Borrowed from the history. */
struct names {
    const char **item;
    size_t count;
};

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static const char *name_of(enum tw_slo_scope scope, const char *project, const char *family,
                           const char *contributor)
{
    const char *const own[] = {[TW_SLO_ALL] = "",
                               [TW_SLO_PROJECT] = project,
                               [TW_SLO_FAMILY] = family,
                               [TW_SLO_CONTRIBUTOR] = contributor};
    return own[scope];
}

/* All names of a scope, sorted, each once; "" is none. All runs have the one name "". */
static bool names_of(const struct tw_slo_history *h, enum tw_slo_scope scope, struct names *out)
{
    size_t n = 0, kept = 0;
    *out = (struct names){.item = tw_calloc(h->runs + h->happenings + 1, sizeof *out->item)};
    if (!out->item)
        return false;
    if (scope == TW_SLO_ALL) {
        out->item[out->count++] = "";
        return true;
    }
    for (size_t i = 0; i < h->runs; i++)
        out->item[n++] = name_of(scope, h->run[i].project, h->run[i].family, h->run[i].contributor);
    for (size_t i = 0; i < h->happenings; i++)
        out->item[n++] = name_of(scope, h->happened[i].project, h->happened[i].family,
                                 h->happened[i].contributor);
    if (n)
        qsort(out->item, n, sizeof *out->item, by_text);
    for (size_t i = 0; i < n; i++)
        if (*out->item[i] && (!kept || strcmp(out->item[kept - 1], out->item[i]) != 0))
            out->item[kept++] = out->item[i];
    out->count = kept;
    return true;
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

/* What the rows of one scope are made from: its events, sorted by indicator, name and time. */
struct making {
    const struct tw_slo_history *h;
    const struct tw_slo_targets *targets;
    int64_t until_ns;
    struct slo_event *event;
    size_t events;
    const struct slo_run **run; /* sorted by name, and those of one name as the history has them */
    enum tw_slo_scope scope;
    struct tw_slo_rows *out;
    size_t room;
    struct twin_error *err;
};

static const char *scope_name(enum tw_slo_scope scope, const struct slo_event *e)
{
    return name_of(scope, e->project, e->family, e->contributor);
}

/* The first of m's events whose (indicator, name) is not below the given. */
static size_t first_event(const struct making *m, enum tw_slo_id id, const char *name)
{
    size_t low = 0, high = m->events;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct slo_event *e = &m->event[middle];
        const bool below = e->id < id || (e->id == id && strcmp(scope_name(m->scope, e), name) < 0);
        low = below ? middle + 1 : low;
        high = below ? high : middle;
    }
    return low;
}

/* Is event i one of this indicator and name? */
static bool is_of(const struct making *m, size_t i, enum tw_slo_id id, const char *name)
{
    return i < m->events && m->event[i].id == id &&
           strcmp(scope_name(m->scope, &m->event[i]), name) == 0;
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

/* The row's bad events, newest first. */
static void add_burned(struct tw_slo_row *row, const struct slo_event *e)
{
    const size_t n = row->burned_count < TW_SLO_BURNED_MAX ? row->burned_count++
                                                           : TW_SLO_BURNED_MAX - 1;
    memmove(row->burned + 1, row->burned, n * sizeof *row->burned);
    row->burned[0] = (struct tw_slo_burned){.run = e->run,
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
    for (size_t i = first_event(m, row->id, row->name); is_of(m, i, row->id, row->name); i++) {
        const struct slo_event *e = &m->event[i];
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
    const size_t first = first_event(m, row->id, row->name);
    size_t end = first, n = 0;
    while (is_of(m, end, row->id, row->name))
        end++;
    double *x = tw_calloc(end - first + 1, sizeof *x);
    if (!x)
        return TWIN_ENOMEM;
    for (size_t i = first; i < end; i++)
        if (m->event[i].time_ns > from && m->event[i].time_ns <= m->until_ns)
            x[n++] = m->event[i].value;
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

static const char *run_name(enum tw_slo_scope scope, const struct slo_run *r)
{
    return name_of(scope, r->project, r->family, r->contributor);
}

/* The runs of a name: where they begin in m->run, and how many there are. */
static size_t runs_of(const struct making *m, const char *name, size_t *count)
{
    size_t bound[2];
    for (int end = 0; end < 2; end++) { /* the first that is not below, the first that is above */
        size_t low = 0, high = m->h->runs;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            const bool below = strcmp(run_name(m->scope, m->run[middle]), name) < end;
            low = below ? middle + 1 : low;
            high = below ? high : middle;
        }
        bound[end] = low;
    }
    *count = bound[1] - bound[0];
    return bound[0];
}

static int make_groups(const struct making *m, const struct tw_slo_target *t,
                       struct tw_slo_row *row)
{
    const uint64_t least = least_of(t, row->id == TW_SLO_RANKING ? PAIRS_LEAST : REPEATS_LEAST);
    size_t count = 0;
    const size_t first = runs_of(m, row->name, &count);
    const struct slo_question q = {
        m->run + first,     count, window_start(m, row->window_s), m->until_ns,
        t ? t->limit : NAN, least};
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
    for (size_t i = first_event(m, of->id, of->name); is_of(m, i, of->id, of->name); i++) {
        const struct slo_event *e = &m->event[i];
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

/* Orders for qsort_r, whose argument is the scope: by indicator, then by name in the scope. */
static int by_name(const void *x, const void *y, void *scope)
{
    const struct slo_event *a = x, *b = y;
    const enum tw_slo_scope *of = scope;
    if (a->id != b->id)
        return (a->id > b->id) - (a->id < b->id);
    const int order = strcmp(scope_name(*of, a), scope_name(*of, b));
    return order ? order : (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

/* The same of runs. Of one name the order is that of the history, whose array they point into. */
static int runs_by_name(const void *x, const void *y, void *scope)
{
    const struct slo_run *a = *(const struct slo_run *const *)x;
    const struct slo_run *b = *(const struct slo_run *const *)y;
    const enum tw_slo_scope *of = scope;
    const int order = strcmp(run_name(*of, a), run_name(*of, b));
    return order ? order : (a > b) - (a < b);
}

static int make_scope(struct making *m)
{
    struct names names;
    int rc = names_of(m->h, m->scope, &names) ? 0 : TWIN_ENOMEM;
    if (m->events)
        qsort_r(m->event, m->events, sizeof *m->event, by_name, &m->scope);
    if (m->h->runs)
        qsort_r(m->run, m->h->runs, sizeof *m->run, runs_by_name, &m->scope);
    for (size_t i = 0; rc == 0 && i < names.count; i++) {
        size_t budgets[3] = {0};
        for (size_t id = 0; rc == 0 && id < TW_SLO_IDS; id++)
            /* of who pushed a change, only what CI said of it is asked */
            if (m->scope != TW_SLO_CONTRIBUTOR || id == TW_SLO_FLAKES)
                rc = make_rows(m, (enum tw_slo_id)id, names.item[i], budgets);
    }
    tw_free(names.item);
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
    struct slo_events events = {.count = 0};
    struct making m = {.h = h, .targets = t, .until_ns = until_ns, .out = out, .err = err};
    *out = (struct tw_slo_rows){.count = 0};
    int rc = slo_events_make(h, &events, err);
    m.run = rc == 0 ? tw_calloc(h->runs + 1, sizeof *m.run) : NULL;
    if (rc == 0 && !m.run)
        rc = TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < h->runs; i++)
        m.run[i] = &h->run[i];
    m.event = events.item;
    m.events = events.count;
    for (int scope = TW_SLO_ALL; rc == 0 && scope <= TW_SLO_CONTRIBUTOR; scope++) {
        m.scope = (enum tw_slo_scope)scope;
        rc = make_scope(&m);
    }
    if (out->count)
        qsort(out->row, out->count, sizeof *out->row, by_indicator);
    tw_free(m.run);
    tw_free(events.item);
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
