/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that may look at the data as they come in: Wald's sequential test (1945), with the rule
 * that one divergence is proof, and the e-process, which may be looked at after every run for ever
 * (Ville 1939, Robbins 1970). The first decides the baseline of a search (src/isolate/baseline.c),
 * the second, one-sided, a rollout (src/rollout/judge.c).
 */
#include "inside.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>

/* Are the rates and errors in the ranges of src/stats/stats.h? */
static bool is_plan(struct twin_sprt plan)
{
    return plan.p0 > 0 && plan.p0 < plan.p1 && plan.p1 < 1 && tw_stats_is_probability(plan.alpha) &&
           tw_stats_is_probability(plan.beta) && plan.alpha + plan.beta < 1;
}

struct twin_interval twin_stats_sprt_bounds(struct twin_sprt plan)
{
    if (!is_plan(plan))
        return (struct twin_interval){NAN, NAN};
    return (struct twin_interval){log(plan.beta) - log1p(-plan.alpha),
                                  log1p(-plan.beta) - log(plan.alpha)};
}

/* log1p keeps the digits of small rates. */
double twin_stats_sprt_log_ratio(struct twin_sprt plan, uint64_t k, uint64_t n)
{
    if (!is_plan(plan) || k > n)
        return NAN;
    return (double)k * log(plan.p1 / plan.p0) +
           (double)(n - k) * (log1p(-plan.p1) - log1p(-plan.p0));
}

uint64_t twin_stats_sprt_clean_needed(struct twin_sprt plan)
{
    if (!is_plan(plan))
        return 0;
    const double low = twin_stats_sprt_bounds(plan).low;
    return tw_stats_runs(ceil(low / twin_stats_sprt_log_ratio(plan, 0, 1)));
}

/* The ratio decides only as long as nothing diverged. */
enum twin_sprt_decision twin_stats_sprt_decide(struct twin_sprt plan, uint64_t k, uint64_t n)
{
    if (!is_plan(plan) || k > n)
        return TWIN_SPRT_INVALID;
    if (k > 0)
        return TWIN_SPRT_DIVERGES;
    return n >= twin_stats_sprt_clean_needed(plan) ? TWIN_SPRT_CLEAN : TWIN_SPRT_CONTINUE;
}

/* The Beta(1/2, 1/2) mixture is Krichevsky and Trofimov's (1981). B(1/2, 1/2) is pi. */
double twin_stats_e_log(uint64_t s, uint64_t f, double p0)
{
    if (!tw_stats_is_probability(p0))
        return NAN;
    double parted = (double)s, clean = (double)f;
    return tw_stats_lbeta(0.5 + parted, 0.5 + clean) - log(M_PI) - parted * log(p0) -
           clean * log1p(-p0);
}

uint64_t twin_stats_e_clean_needed(double p0, double alpha)
{
    if (!tw_stats_is_probability(p0) || !tw_stats_is_probability(alpha) || p0 < 1e-15)
        return 0;
    /* With no divergence the log value starts at 0, falls, then rises for ever: once past a
     * positive bar it stays there. */
    uint64_t low = 0, high = 1;
    double bar = -log(alpha);
    while (twin_stats_e_log(0, high, p0) < bar) {
        low = high;
        high *= 2;
    }
    assert(low < high);
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (twin_stats_e_log(0, middle, p0) < bar)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/*
 * For a rate r of the mixture and a conditional rate p of the next comparison, the ratio grows by
 * p r / p0 + (1 - p)(1 - r) / (1 - p0) on average, which is at most 1 where r >= p0 >= p: so it is
 * a supermartingale for every p up to p0, not only for p0 itself. Hence the truncated mixture. The
 * prior is Beta(1/2, 1/2) cut at p0 and scaled to mass 1; the posterior is cut at the same place.
 */
double twin_stats_e_above_log(uint64_t s, uint64_t f, double p0)
{
    const double parted = (double)s, clean = (double)f;
    if (!tw_stats_is_probability(p0))
        return NAN;
    return twin_stats_e_log(s, f, p0) +
           log(tw_stats_beta_tail(clean + 0.5, parted + 0.5, 1 - p0, p0)) -
           log(tw_stats_beta_tail(0.5, 0.5, 1 - p0, p0));
}

/* The same with the words changed: a comparison that is clean is what happens at rate 1 - p0. */
double twin_stats_e_below_log(uint64_t s, uint64_t f, double p0)
{
    const double parted = (double)s, clean = (double)f;
    if (!tw_stats_is_probability(p0))
        return NAN;
    return twin_stats_e_log(s, f, p0) +
           log(tw_stats_beta_tail(parted + 0.5, clean + 0.5, p0, 1 - p0)) -
           log(tw_stats_beta_tail(0.5, 0.5, p0, 1 - p0));
}

/* A rate below the share seen is refuted for good by being further below: so one place divides
 * those that are refuted from those that are not. */
struct twin_interval twin_stats_e_interval(uint64_t s, uint64_t f, double alpha)
{
    enum { HALVINGS = 60 };
    if (!tw_stats_is_probability(alpha) || s > UINT64_MAX - f)
        return (struct twin_interval){NAN, NAN};
    const double bar = -log(alpha), seen = s + f ? (double)s / (double)(s + f) : 0;
    struct twin_interval i = {0, 1};
    double in = seen;
    for (int k = 0; k < HALVINGS && s > 0; k++) {
        const double middle = i.low + (in - i.low) / 2;
        if (middle > 0 && twin_stats_e_above_log(s, f, middle) < bar)
            in = middle;
        else
            i.low = middle;
    }
    in = seen;
    for (int k = 0; k < HALVINGS && f > 0; k++) {
        const double middle = in + (i.high - in) / 2;
        if (middle < 1 && twin_stats_e_below_log(s, f, middle) < bar)
            in = middle;
        else
            i.high = middle;
    }
    return i;
}
