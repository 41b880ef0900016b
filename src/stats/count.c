/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts: "k of n comparisons diverged". Intervals and bounds of the rate behind such a count,
 * numbers of trials that show or exclude a rate, and two small helpers (agreement of classes, a
 * straight line).
 *
 * Nearly all of it rests on one identity: a sum over the binomial distribution is an incomplete
 * beta function (DLMF 8.17.5), which special.c computes without loss of digits.
 */
#include "inside.h"

#include "src/stats/stats.h"

#include <twin/error.h>

#include <assert.h>
#include <math.h>

/* P(X <= k) = I_{1-p}(n - k, k + 1). */
double twin_stats_binomial_cdf(uint64_t k, uint64_t n, double p)
{
    if (!(p >= 0) || !(p <= 1))
        return NAN;
    if (k >= n)
        return 1;
    return tw_stats_beta_tail((double)(n - k), (double)k + 1, 1 - p, p);
}

/* C. Clopper and E. Pearson (1934). Each end is the rate at which k or more extreme counts have the
 * probability of half the error. */
struct twin_interval twin_stats_clopper_pearson(uint64_t k, uint64_t n, double confidence)
{
    if (!tw_stats_is_probability(confidence) || k > n)
        return (struct twin_interval){NAN, NAN};
    double tail = (1 - confidence) / 2;
    return (struct twin_interval){
        .low = k == 0 ? 0 : twin_stats_beta_inv(tail, (double)k, (double)(n - k) + 1),
        .high = k == n ? 1 : twin_stats_beta_inv(1 - tail, (double)k + 1, (double)(n - k)),
    };
}

/* E. Wilson (1927): the rates that the score test does not reject. At k = 0 and k = n the ends are
 * exactly 0 and 1, where rounding would leave a rest. */
struct twin_interval twin_stats_wilson(uint64_t k, uint64_t n, double confidence)
{
    if (!tw_stats_is_probability(confidence) || k > n)
        return (struct twin_interval){NAN, NAN};
    if (n == 0)
        return (struct twin_interval){0, 1};
    double z = -twin_stats_normal_quantile((1 - confidence) / 2);
    double trials = (double)n;
    double rate = (double)k / trials;
    double spread = z * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials));
    double scale = 1 + z * z / trials, centre = rate + z * z / (2 * trials);
    return (struct twin_interval){k == 0 ? 0 : (centre - spread) / scale,
                                  k == n ? 1 : (centre + spread) / scale};
}

/* The rate at which n clean trials have probability 1 - confidence. log1p and expm1 keep the digits
 * of small rates. */
double twin_stats_zero_bound(uint64_t n, double confidence)
{
    if (!tw_stats_is_probability(confidence))
        return NAN;
    return n == 0 ? 1 : -expm1(log1p(-confidence) / (double)n);
}

uint64_t twin_stats_trials_needed(double p, double confidence)
{
    if (!tw_stats_is_probability(p) || !tw_stats_is_probability(confidence))
        return 0;
    return tw_stats_runs(ceil(log1p(-confidence) / log1p(-p)));
}

/* Doubles n until it is enough, then bisects: the probability falls as n grows. The limits on p and
 * `allowed` keep the numbers where the beta function converges. */
uint64_t twin_stats_trials_needed_allowing(uint64_t allowed, double p, double confidence)
{
    if (!tw_stats_is_probability(p) || !tw_stats_is_probability(confidence) || p < 1e-12 ||
        allowed > 1u << 30)
        return 0;
    /* at n = allowed the probability is 1: never enough */
    uint64_t low = allowed, high = allowed + 1;
    assert(low < high);
    while (twin_stats_binomial_cdf(allowed, high, p) > 1 - confidence) {
        if (high > UINT64_MAX / 2)
            return UINT64_MAX;
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (twin_stats_binomial_cdf(allowed, middle, p) > 1 - confidence)
            low = middle;
        else
            high = middle;
    }
    return high;
}

double twin_stats_rate_lower(uint64_t k, uint64_t n, double confidence)
{
    if (!tw_stats_is_probability(confidence) || k > n)
        return NAN;
    return k == 0 ? 0 : twin_stats_beta_inv(1 - confidence, (double)k, (double)(n - k) + 1);
}

/* Bonferroni's share of alpha for each test. */
uint64_t twin_stats_clean_needed(double rate, double alpha, uint64_t tests)
{
    if (!(rate > 0) || !(rate <= 1) || !tw_stats_is_probability(alpha) || tests == 0)
        return 0;
    if (rate == 1)
        return 1;
    return tw_stats_runs(ceil(log(alpha / (double)tests) / log1p(-rate)));
}

/* Pairs within a class over all pairs; the halves of both cancel. */
double twin_stats_agreement(const uint64_t *class_sizes, size_t classes)
{
    double pairs = 0, runs = 0;
    for (size_t i = 0; i < classes; i++) {
        double size = (double)class_sizes[i];
        pairs += size * (size - 1);
        runs += size;
    }
    return runs < 2 ? NAN : pairs / (runs * (runs - 1));
}

/* Two passes: means first, so that sums of squares do not cancel. */
int twin_stats_line_fit(const double *x, const double *y, size_t n, double *slope,
                        double *intercept)
{
    double mx = 0, my = 0, sxx = 0, sxy = 0;
    if (n < 2)
        return TWIN_EINVAL;
    for (size_t i = 0; i < n; i++) {
        mx += x[i] / (double)n;
        my += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        sxx += (x[i] - mx) * (x[i] - mx);
        sxy += (x[i] - mx) * (y[i] - my);
    }
    if (!(sxx > 0) || !isfinite(sxy / sxx))
        return TWIN_EINVAL;
    *slope = sxy / sxx;
    *intercept = my - *slope * mx;
    return 0;
}
