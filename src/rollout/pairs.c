/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is held against whom: a run with the fix and one without, of the same kind of job and of the
 * same share, near each other in time. Each job is in one pair: runs of one key, such as the ranks
 * of a job that each have their own twinrun, were drawn together, fail together, and are one.
 *
 * They are put in twos as they begin, without a look at their arms or at what came out. Two of one
 * arm stand for one from then on, and these are put in twos again. So which of the two of a pair
 * has the fix was decided by the draw alone, the earlier one or the later one with the same chance
 * (von Neumann's coin; that those of one arm are used again is Peres's): a job that gets slower
 * from run to run makes no arm look slower. That is all that the rule needs (judge.c), and it
 * needs no distribution.
 */
#include "rollout_inside.h"

#include "base.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tw_rollout_arm_name(enum tw_rollout_arm a)
{
    static const char *const names[] = {
        [TW_ROLLOUT_CONTROL] = "control", [TW_ROLLOUT_CANARY] = "canary"};
    _Static_assert(sizeof names / sizeof *names == TW_ROLLOUT_ARMS, "a name for each arm");
    assert((unsigned)a < TW_ROLLOUT_ARMS);
    return names[a];
}

/* -1: of neither. */
static int arm_of(const struct rollout_run *r)
{
    for (int a = 0; a < TW_ROLLOUT_ARMS; a++)
        if (strcmp(r->arm, tw_rollout_arm_name((enum tw_rollout_arm)a)) == 0)
            return a;
    return -1;
}

/* Something that can be paired: a run, or two runs of one arm. value: what is held against the
 * other's. kind and arm say with what. */
struct item {
    const char *kind;
    uint32_t share;
    int arm;
    double value;
    size_t order; /* as it came */
    size_t end;   /* the order of the last of those that it stands for, or of its pair */
    size_t with;  /* the other one's place; SIZE_MAX: none */
};

/* Those that may be paired: of one kind, drawn by one share. By another share, one of two would be
 * the likelier one to have the fix. */
static int by_group(const struct item *a, const struct item *b)
{
    const int by = strcmp(a->kind, b->kind);
    return by != 0 ? by : (a->share > b->share) - (a->share < b->share);
}

static int by_kind(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    const int by = by_group(a, b);
    if (by != 0)
        return by;
    return (a->order > b->order) - (a->order < b->order);
}

/* One round: two that stand next to each other are a pair, or go on as one, the first of them.
 * list: places in item, in order; returns how many go on, at its front. */
static size_t pair_round(struct item *item, size_t *list, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i + 1 < count;) {
        struct item *a = &item[list[i]], *b = &item[list[i + 1]];
        if (by_group(a, b) != 0) {
            i++; /* the last of its group stays alone */
            continue;
        }
        a->end = b->end; /* it came behind all that a stands for */
        if (a->arm != b->arm) {
            a->with = list[i + 1];
            b->with = list[i];
        } else {
            list[kept++] = list[i];
        }
        i += 2;
    }
    return kept;
}

/* list: room for count places. Each round leaves at most half. */
static void pair_items(struct item *item, size_t count, size_t *list)
{
    if (count)
        qsort(item, count, sizeof *item, by_kind);
    for (size_t i = 0; i < count; i++)
        list[i] = i;
    for (size_t n = count; n > 1;)
        n = pair_round(item, list, n);
}

/* With the fix over without: 1 where both are 0. */
static double ratio_of(double canary, double control)
{
    if (canary == control)
        return 1;
    return control > 0 ? canary / control : INFINITY;
}

/* How much higher, by the size of what it is held against. */
static double rise_of(double canary, double control)
{
    if (canary == control)
        return 0;
    if (control == 0)
        return canary > 0 ? INFINITY : -INFINITY;
    return (canary - control) / fabs(control);
}

/* The pairs of which both have a value, as numbers. */
static int numbers_of(const struct item *item, size_t count, double (*of)(double, double),
                      struct tw_rollout_ratios *out, struct twin_error *err)
{
    out->value = tw_calloc(count + 1, sizeof *out->value);
    out->count = 0;
    if (!out->value)
        return tw_no_memory(err, "for the pairs of a rollout");
    for (size_t i = 0; i < count; i++)
        if (item[i].arm == TW_ROLLOUT_CANARY && item[i].with != SIZE_MAX && !isnan(item[i].value) &&
            !isnan(item[item[i].with].value))
            out->value[out->count++] = of(item[i].value, item[item[i].with].value);
    return 0;
}

/* ---- what is paired */

static bool has_time(const struct rollout_run *r)
{
    return r->ok && isfinite(r->wall_s) && r->wall_s > 0;
}

static bool has_loss(const struct rollout_run *r)
{
    return r->ok && isfinite(r->loss);
}

/* Of each run it is known whether it has failed by now. */
static bool has_begun(const struct rollout_run *r)
{
    (void)r;
    return true;
}

static double time_of(const struct rollout_run *r)
{
    return r->wall_s;
}

static double loss_of(const struct rollout_run *r)
{
    return r->loss;
}

/* Whoever ended it: a run that hangs with the fix, or grows too large, is ended from outside. Where
 * that is no fault of the fix it happens as often without it. */
static double failure_of(const struct rollout_run *r)
{
    return r->ended && !r->ok ? 1 : 0;
}

/* One item for each job that has begun, at the place of its first run: the runs of one key were
 * drawn together, and are one draw. Its value is that of its first run which has one, of the same
 * kind; with any: the highest of all; NAN: there is none yet. So the list grows at its end alone,
 * and who is held against whom does not hang on who ended first, or how. at: room for a place for
 * each job. */
static size_t list_items(const struct rollout_runs *r, bool (*has)(const struct rollout_run *),
                         double (*of)(const struct rollout_run *), bool any, struct item *item,
                         size_t *at)
{
    size_t n = 0;
    for (size_t i = 0; i < r->jobs; i++)
        at[i] = SIZE_MAX;
    for (size_t i = 0; i < r->count; i++) {
        const struct rollout_run *x = &r->run[i];
        if (!x->known || arm_of(x) < 0)
            continue;
        if (at[x->job] == SIZE_MAX) {
            at[x->job] = n;
            item[n] = (struct item){x->kind, x->share, arm_of(x), NAN, n, n, SIZE_MAX};
            n++;
        }
        struct item *of_job = &item[at[x->job]];
        if (!has(x) || of_job->arm != arm_of(x))
            continue;
        if (any ? !(of_job->value >= of(x))
                : isnan(of_job->value) && strcmp(of_job->kind, x->kind) == 0)
            of_job->value = of(x);
    }
    return n;
}

/* ---- how far losses lie apart */

/* Of one group, as its pairs were complete. */
static int by_end(const void *x, const void *y)
{
    const struct item *a = *(const struct item *const *)x, *b = *(const struct item *const *)y;
    const int by = by_group(a, b);
    if (by != 0)
        return by;
    return (a->end > b->end) - (a->end < b->end);
}

/* Two pairs that follow each other, (C1, T1) and (C2, T2), hold the distance of C1 and C2 against
 * that of T1 and T2: were the arms of both pairs the other way round, so were the distances, and
 * that has the same chance. So a trend is no evidence, as in the pairs themselves: it is in both
 * distances. (Neighbours of one arm each would not do: those of the rarer arm lie further apart in
 * time.) Goes into s->spread, with the fix over without; the standard deviations go into s. */
static int spread_of(struct item *item, size_t count, struct tw_rollout_seen *s,
                     struct twin_error *err)
{
    struct item **pair = tw_calloc(count + 1, sizeof(struct item *));
    double squares[TW_ROLLOUT_ARMS] = {0};
    size_t n = 0, made = 0;
    s->spread.value = tw_calloc(count + 1, sizeof *s->spread.value);
    for (size_t i = 0; pair && i < count; i++)
        if (item[i].arm == TW_ROLLOUT_CANARY && item[i].with != SIZE_MAX)
            pair[n++] = &item[i];
    if (n)
        qsort(pair, n, sizeof *pair, by_end);
    for (size_t i = 0; s->spread.value && i + 1 < n;) {
        const struct item *x = pair[i], *y = pair[i + 1];
        if (by_group(x, y) != 0) {
            i++;
            continue;
        }
        const double canary = fabs(x->value - y->value);
        const double control = fabs(item[x->with].value - item[y->with].value);
        i += 2;
        if (isnan(canary) || isnan(control))
            continue;
        squares[TW_ROLLOUT_CANARY] += canary * canary / 2;
        squares[TW_ROLLOUT_CONTROL] += control * control / 2;
        s->spread.value[made++] = ratio_of(canary, control);
    }
    s->spread.count = made;
    for (int a = 0; a < TW_ROLLOUT_ARMS; a++) {
        s->arm[a].sd_pairs = made;
        s->arm[a].sd = made ? sqrt(squares[a] / (double)made) : NAN;
    }
    tw_free(pair);
    return pair && s->spread.value ? 0 : tw_no_memory(err, "for the pairs of a rollout");
}

static void count_arms(const struct rollout_runs *r, struct tw_rollout_seen *s)
{
    double logs[TW_ROLLOUT_ARMS] = {0}, losses[TW_ROLLOUT_ARMS] = {0};
    uint64_t timed[TW_ROLLOUT_ARMS] = {0}, lossy[TW_ROLLOUT_ARMS] = {0};
    for (size_t i = 0; i < r->count; i++) {
        const struct rollout_run *x = &r->run[i];
        const int arm = arm_of(x);
        s->missing += !x->known;
        s->overridden += strcmp(x->arm, "overridden") == 0;
        s->after += strcmp(x->arm, "fallback") == 0;
        if (arm < 0 || !x->known)
            continue;
        if (!x->ended) {
            s->going_on++;
            continue;
        }
        s->arm[arm].runs++;
        s->nameless += !*x->inputs;
        s->arm[arm].outside += x->outside;
        s->arm[arm].failed += !x->ok && !x->outside;
        if (has_time(x)) {
            logs[arm] += log(x->wall_s);
            timed[arm]++;
        }
        if (has_loss(x)) {
            losses[arm] += x->loss;
            lossy[arm]++;
        }
    }
    for (int a = 0; a < TW_ROLLOUT_ARMS; a++) {
        s->arm[a].wall_s = timed[a] ? exp(logs[a] / (double)timed[a]) : NAN;
        s->arm[a].loss = lossy[a] ? losses[a] / (double)lossy[a] : NAN;
    }
}

/* Pairs of which one run did not end well, and the other did or goes on. */
static void count_failures(const struct item *item, size_t count, struct tw_rollout_seen *s)
{
    for (size_t i = 0; i < count; i++) {
        if (item[i].arm != TW_ROLLOUT_CANARY || item[i].with == SIZE_MAX)
            continue;
        const bool canary = item[i].value > 0, control = item[item[i].with].value > 0;
        s->failed_canary += canary && !control;
        s->failed_control += control && !canary;
    }
}

int tw_rollout_pair_up(const struct rollout_runs *r, struct tw_rollout_seen *s,
                       struct twin_error *err)
{
    struct item *item = tw_calloc(r->count + 1, sizeof *item);
    size_t *list = tw_calloc(r->count + 1, sizeof *list);
    size_t *at = tw_calloc(r->jobs + 1, sizeof *at);
    int rc = item && list && at ? 0 : tw_no_memory(err, "for the pairs of a rollout");
    if (rc == 0) {
        count_arms(r, s);
        size_t n = list_items(r, has_begun, failure_of, true, item, at);
        pair_items(item, n, list);
        count_failures(item, n, s);
        n = list_items(r, has_time, time_of, false, item, at);
        pair_items(item, n, list);
        rc = numbers_of(item, n, ratio_of, &s->time, err);
        if (rc == 0) {
            n = list_items(r, has_loss, loss_of, false, item, at);
            pair_items(item, n, list);
            rc = numbers_of(item, n, rise_of, &s->loss, err);
            rc = rc ? rc : spread_of(item, n, s, err);
        }
    }
    tw_free(item);
    tw_free(list);
    tw_free(at);
    return rc;
}

/* ---- two runs of one arm that are to be compared */

static bool may_compare(const struct rollout_runs *all, const struct rollout_run *r,
                        const char *owner)
{
    return r->known && arm_of(r) >= 0 && r->ok && !r->gone && !all->compared[r->job] &&
           *r->inputs && strcmp(r->home, owner) == 0;
}

bool tw_rollout_next_pair(struct rollout_runs *r, const char *owner, size_t *at, size_t out[2])
{
    for (; *at < r->count; (*at)++) {
        struct rollout_run *x = &r->run[*at];
        if (!may_compare(r, x, owner))
            continue;
        for (size_t k = *at + 1; k < r->count; k++) {
            struct rollout_run *y = &r->run[k];
            /* two of one job differ as its ranks do, or are one draw */
            if (x->job == y->job || !may_compare(r, y, owner) || strcmp(x->arm, y->arm) != 0 ||
                strcmp(x->inputs, y->inputs) != 0)
                continue;
            r->compared[x->job] = r->compared[y->job] = true;
            out[0] = *at;
            out[1] = k;
            (*at)++;
            return true;
        }
    }
    return false;
}
