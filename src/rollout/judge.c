/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule. Four things make a rollout fall back: that repeats with the fix diverge more often than
 * the bound, that runs with it are slower than the bound, that their last loss is higher than the
 * bound, that they fail where the others do not. Each is a test by betting (twin_stats_e_above_log)
 * with a quarter of alpha: so the chance that any of them ever speaks although the canary is within
 * all bounds is at most alpha, whenever and however often one looks: a list of runs grows at its
 * end alone (pairs.c), as far as runs are seen in the order in which they begin.
 *
 * The last three are made of pairs (pairs.c): a run that is worse than the bound allows is so in
 * more than half of the pairs. That needs no distribution, and one outlier is one pair.
 *
 * docs/internals/rollout.md has the argument, and what it assumes.
 */
#include "rollout_inside.h"

#include "base.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TESTS = 4 };

/* ---- figures */

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The smallest number of n pairs on one side that refutes one half; n + 1: none does. */
static size_t enough_of(size_t n, double bar)
{
    size_t low = n / 2, high = n + 1;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (twin_stats_e_above_log(middle, n - middle, .5) >= bar)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Median, and the interval of those medians that no look refutes: order statistics. none: how low
 * the value could be. The values are sorted. */
static struct tw_rollout_figure figure_of(struct tw_rollout_ratios *r, double none, double bar)
{
    struct tw_rollout_figure f = {.value = NAN, .interval = {none, INFINITY}, .n = r->count};
    const size_t n = r->count, enough = enough_of(n, bar);
    if (n == 0)
        return f;
    qsort(r->value, n, sizeof *r->value, by_value);
    f.value = n % 2 ? r->value[n / 2] : r->value[n / 2 - 1] / 2 + r->value[n / 2] / 2;
    if (enough <= n)
        f.interval = (struct twin_interval){r->value[n - enough], r->value[enough - 1]};
    return f;
}

static struct tw_rollout_figure share_of(uint64_t s, uint64_t f, double alpha)
{
    return (struct tw_rollout_figure){.value = s + f ? (double)s / (double)(s + f) : NAN,
                                      .interval = twin_stats_e_interval(s, f, alpha),
                                      .n = s + f};
}

/* Is it shown that the values lie above the bound? */
static bool is_above(const struct tw_rollout_ratios *r, double bound, double bar)
{
    uint64_t above = 0;
    for (size_t i = 0; i < r->count; i++)
        above += r->value[i] > bound;
    return twin_stats_e_above_log(above, r->count - above, .5) >= bar;
}

/* ---- decisions */

static void decide(struct tw_rollout_judged *j, enum tw_rollout_decision d, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void decide(struct tw_rollout_judged *j, enum tw_rollout_decision d, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(j->why, sizeof j->why, format, ap);
    va_end(ap);
    j->decision = d;
}

/* True: it falls back, and why is said. */
static bool falls_back(const struct tw_rollout_flag *f, const struct tw_rollout_seen *s, double bar,
                       struct tw_rollout_judged *j)
{
    const struct tw_rollout_rule *r = &f->rule;
    const uint64_t same = s->arm[TW_ROLLOUT_CANARY].same;
    const uint64_t diverged = s->arm[TW_ROLLOUT_CANARY].diverged;
    if (twin_stats_e_above_log(diverged, same, r->max_divergence) >= bar)
        decide(j, TW_ROLLOUT_FELL_BACK,
               "with the fix %llu of %llu repeats diverge, at least %.3g%%: the bound is %.3g%%",
               (unsigned long long)diverged, (unsigned long long)(same + diverged),
               100 * j->diverged[TW_ROLLOUT_CANARY].interval.low, 100 * r->max_divergence);
    else if (is_above(&s->time, r->max_slowdown, bar))
        decide(j, TW_ROLLOUT_FELL_BACK,
               "runs with the fix take %.3g times as long, at least %.3g: the bound is %.3g",
               j->time.value, j->time.interval.low, r->max_slowdown);
    else if (is_above(&s->loss, r->max_loss, bar))
        decide(j, TW_ROLLOUT_FELL_BACK,
               "the last loss with the fix is higher by %.3g%%, at least %.3g%%: the bound is "
               "%.3g%%",
               100 * j->loss.value, 100 * j->loss.interval.low, 100 * r->max_loss);
    else if (twin_stats_e_above_log(s->failed_canary, s->failed_control, .5) >= bar)
        decide(j, TW_ROLLOUT_FELL_BACK,
               "runs with the fix do not end well: in %llu pairs only that with it failed or was "
               "ended from outside, in %llu only that without",
               (unsigned long long)s->failed_canary, (unsigned long long)s->failed_control);
    else
        return false;
    return true;
}

static uint32_t next_share(const struct tw_rollout_flag *f)
{
    for (size_t i = 0; i < f->rule.steps; i++)
        if (f->rule.ladder[i] > f->share)
            return f->rule.ladder[i];
    return f->share;
}

/* Something that is not shown, but does not look good: nothing for which more runs get the fix.
 * True: why is said. */
static bool looks_bad(const struct tw_rollout_flag *f, const struct tw_rollout_seen *s, double bar,
                      struct tw_rollout_judged *j)
{
    const struct tw_rollout_rule *r = &f->rule;
    const struct tw_rollout_figure *diverged = &j->diverged[TW_ROLLOUT_CANARY];
    const uint64_t runs = s->arm[TW_ROLLOUT_CANARY].runs;
    const double failing = twin_stats_e_above_log(s->failed_canary, s->failed_control, .5);
    if (diverged->value > r->max_divergence)
        decide(j, TW_ROLLOUT_HELD,
               "with the fix %.3g%% of the repeats diverge: the bound is "
               "%.3g%%, and that it is broken is not shown",
               100 * diverged->value, 100 * r->max_divergence);
    else if (j->time.value > r->max_slowdown)
        decide(j, TW_ROLLOUT_HELD,
               "runs with the fix take %.3g times as long: the bound is %.3g, "
               "and that it is broken is not shown",
               j->time.value, r->max_slowdown);
    else if (j->loss.value > r->max_loss)
        decide(j, TW_ROLLOUT_HELD,
               "the last loss with the fix is higher by %.3g%%: the bound is "
               "%.3g%%, and that it is broken is not shown",
               100 * j->loss.value, 100 * r->max_loss);
    else if (is_above(&s->spread, 1, bar))
        decide(j, TW_ROLLOUT_HELD, "the last losses with the fix lie %.3g times as far apart",
               j->spread.value);
    else if (2 * failing >= bar) /* half of the way to being shown */
        decide(j, TW_ROLLOUT_HELD,
               "in %llu pairs only the run with the fix failed or was ended from outside, in %llu "
               "only that without, and that this is the fix is not shown",
               (unsigned long long)s->failed_canary, (unsigned long long)s->failed_control);
    else if (2 * s->out_of_force > s->force_known)
        decide(j, TW_ROLLOUT_HELD, "in %llu of %llu runs with the fix a pin did not take effect",
               (unsigned long long)s->out_of_force, (unsigned long long)s->force_known);
    else if (runs > 0 && s->force_known == 0)
        decide(j, TW_ROLLOUT_HELD,
               "whether the pins took effect is not known of any of %llu run%s with the fix",
               (unsigned long long)runs, runs == 1 ? "" : "s");
    else
        return false;
    return true;
}

static void widen_or_hold(const struct tw_rollout_flag *f, const struct tw_rollout_seen *s,
                          double bar, struct tw_rollout_judged *j)
{
    const struct tw_rollout_figure *with = &j->diverged[TW_ROLLOUT_CANARY];
    const struct tw_rollout_figure *without = &j->diverged[TW_ROLLOUT_CONTROL];
    const uint64_t fresh = with->n > f->widened_at ? with->n - f->widened_at : 0;
    const uint32_t next = next_share(f);
    if (looks_bad(f, s, bar, j))
        return;
    if (next == f->share)
        decide(j, TW_ROLLOUT_HELD, "the share is the last of the ladder");
    else if (fresh < f->rule.least)
        decide(j, TW_ROLLOUT_HELD,
               "%llu of the %llu comparisons with the fix that the next share takes",
               (unsigned long long)fresh, (unsigned long long)f->rule.least);
    else if (!j->better && !j->within)
        decide(j, TW_ROLLOUT_HELD,
               "not shown yet that the fix helps: with it at most %.3g%% of the repeats diverge, "
               "without at least %.3g%%",
               100 * with->interval.high, 100 * without->interval.low);
    else if (j->time.n < f->rule.least)
        decide(j, TW_ROLLOUT_HELD, "%llu of the %llu pairs of times that the next share takes",
               (unsigned long long)j->time.n, (unsigned long long)f->rule.least);
    else if (j->better)
        decide(j, TW_ROLLOUT_WIDENED,
               "with the fix at most %.3g%% of the repeats diverge, without at least %.3g%%",
               100 * with->interval.high, 100 * without->interval.low);
    else
        decide(j, TW_ROLLOUT_WIDENED,
               "with the fix at most %.3g%% of the repeats diverge: the bound is %.3g%%",
               100 * with->interval.high, 100 * f->rule.max_divergence);
    if (j->decision == TW_ROLLOUT_WIDENED)
        j->share = next;
}

void tw_rollout_judge(const struct tw_rollout_flag *f, const struct tw_rollout_seen *s,
                      struct tw_rollout_judged *out)
{
    const double alpha = f->rule.alpha / TESTS, bar = -log(alpha);
    struct tw_rollout_ratios time = s->time, loss = s->loss, spread = s->spread;
    assert(alpha > 0 && alpha < 1);
    *out = (struct tw_rollout_judged){.decision = TW_ROLLOUT_HELD, .share = f->share};
    for (int a = 0; a < TW_ROLLOUT_ARMS; a++) {
        const uint64_t k = s->arm[a].diverged, n = k + s->arm[a].same;
        out->diverged[a] = share_of(k, n - k, alpha);
        out->exact[a] = twin_stats_clopper_pearson(k, n, .95);
        out->sd[a] = twin_stats_sd_interval(s->arm[a].sd, s->arm[a].sd_pairs + 1, .95);
    }
    out->time = figure_of(&time, 0, bar);
    out->loss = figure_of(&loss, -INFINITY, bar);
    out->spread = figure_of(&spread, 0, bar);
    out->failed = share_of(s->failed_canary, s->failed_control, alpha);
    const double most = out->diverged[TW_ROLLOUT_CANARY].interval.high;
    out->better = most < out->diverged[TW_ROLLOUT_CONTROL].interval.low;
    out->within = most <= f->rule.max_divergence;
    if (f->state != TW_ROLLOUT_ON)
        decide(out, TW_ROLLOUT_HELD, "the rollout is over: %s",
               f->state == TW_ROLLOUT_OFF ? "no run gets the fix" : "all runs have the fallback");
    else if (falls_back(f, s, bar, out))
        out->share = 0;
    else
        widen_or_hold(f, s, bar, out);
}
