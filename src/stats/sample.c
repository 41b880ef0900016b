/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample: its order, median, mean and spread, with their intervals. The tw_ functions at the
 * top are shared with the other files of this room (inside.h); the rest is public.
 *
 * Medians are for values of unknown distribution: their interval comes from order statistics and
 * holds for any. Means have Student's interval, of the values or of their logarithms.
 */
#include "inside.h"

#include "base.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* the answer where an argument is out of range */
static const struct twin_estimate nothing = {NAN, {NAN, NAN}, NAN};

/* For qsort. Values are not NaN, which has no place in an order. */
static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void tw_stats_sort(double *x, size_t n)
{
    if (n > 1)
        qsort(x, n, sizeof *x, ascending);
}

double *tw_stats_sorted_copy(const double *x, size_t n)
{
    double *copy = tw_reallocarray(NULL, n ? n : 1, sizeof *copy);
    if (copy && n) {
        memcpy(copy, x, n * sizeof *copy);
        tw_stats_sort(copy, n);
    }
    return copy;
}

double tw_stats_median_sorted(const double *x, size_t n)
{
    if (n == 0)
        return NAN;
    assert(x[0] <= x[n - 1]);
    /* halved first: the sum could overflow */
    return n % 2 ? x[n / 2] : x[n / 2 - 1] / 2 + x[n / 2] / 2;
}

bool tw_stats_all_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

struct tw_moments tw_stats_moments(const double *x, size_t n, bool logs)
{
    double mean = 0, squares = 0; /* Welford 1962: one pass, no cancellation */
    for (size_t i = 0; i < n; i++) {
        double value = logs ? log(x[i]) : x[i], step = value - mean;
        mean += step / (double)(i + 1);
        squares += step * (value - mean);
    }
    return (struct tw_moments){n ? mean : NAN, n > 1 ? squares / (double)(n - 1) : NAN};
}

int twin_stats_median(const double *x, size_t n, double *median)
{
    *median = NAN;
    if (n == 0 || !tw_stats_all_finite(x, n))
        return TWIN_EINVAL;
    double *sorted = tw_stats_sorted_copy(x, n);
    if (!sorted)
        return TWIN_ENOMEM;
    *median = tw_stats_median_sorted(sorted, n);
    tw_free(sorted);
    return 0;
}

/* How many values lie below the median is binomial with p = 1/2, so each end may be as far in as
 * that distribution's tail allows (David and Nagaraja 2003, 7.1). */
uint64_t twin_stats_median_rank(uint64_t n, double confidence, double *reached)
{
    *reached = NAN;
    double tail = (1 - confidence) / 2;
    if (!tw_stats_is_probability(confidence) || n == 0 || n > (uint64_t)1 << 53 ||
        !(exp2(-(double)n) <= tail))
        return 0;
    /* the largest r with P(X <= r - 1) <= tail; it is at most n / 2 */
    uint64_t low = 1, high = n / 2 + 1;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (twin_stats_binomial_cdf(middle - 1, n, 0.5) <= tail)
            low = middle;
        else
            high = middle;
    }
    assert(low >= 1 && low <= n / 2 + 1);
    *reached = 1 - 2 * twin_stats_binomial_cdf(low - 1, n, 0.5);
    return low;
}

int twin_stats_median_interval(const double *x, size_t n, double confidence,
                               struct twin_estimate *out)
{
    *out = nothing;
    if (!tw_stats_is_probability(confidence) || n == 0 || !tw_stats_all_finite(x, n))
        return TWIN_EINVAL;
    double *sorted = tw_stats_sorted_copy(x, n);
    if (!sorted)
        return TWIN_ENOMEM;
    out->value = tw_stats_median_sorted(sorted, n);
    size_t rank = twin_stats_median_rank(n, confidence, &out->confidence);
    if (rank)
        out->interval = (struct twin_interval){sorted[rank - 1], sorted[n - rank]};
    tw_free(sorted);
    return 0;
}

/* B. Iglewicz and D. Hoaglin (1993). .6745 is the normal distribution's upper quartile: with it the
 * MAD of a normal sample estimates the standard deviation. z is the room for sorting, too. */
int twin_stats_modified_z(const double *x, size_t n, double *z, struct twin_mad *out)
{
    assert(x != z);
    *out = (struct twin_mad){NAN, NAN, 0};
    if (n == 0 || !tw_stats_all_finite(x, n)) {
        for (size_t i = 0; i < n; i++)
            z[i] = NAN;
        return TWIN_EINVAL;
    }
    /* First the median of the values, then the median of the distances from it. */
    memcpy(z, x, n * sizeof *z);
    tw_stats_sort(z, n);
    out->median = tw_stats_median_sorted(z, n);
    for (size_t i = 0; i < n; i++)
        z[i] = fabs(x[i] - out->median);
    tw_stats_sort(z, n);
    out->mad = tw_stats_median_sorted(z, n);
    for (size_t i = 0; i < n; i++) {
        z[i] = out->mad > 0 ? 0.6745 * ((x[i] - out->median) / out->mad) : NAN;
        out->outliers += fabs(z[i]) > TWIN_STATS_OUTLIER_Z;
    }
    return 0;
}

/* Mean with Student's interval, of the values or (logs) of their logarithms and back. */
static struct twin_estimate t_interval(const double *x, size_t n, double confidence, bool logs)
{
    if (!tw_stats_is_probability(confidence) || !tw_stats_all_finite(x, n))
        return nothing;
    for (size_t i = 0; logs && i < n; i++)
        if (!(x[i] > 0))
            return nothing;
    struct tw_moments m = tw_stats_moments(x, n, logs);
    double half = n < 2 ? NAN
                        : twin_stats_t_quantile((1 + confidence) / 2, (double)n - 1) *
                              sqrt(m.variance / (double)n);
    struct twin_estimate e = {m.mean, {m.mean - half, m.mean + half}, n < 2 ? NAN : confidence};
    if (logs)
        e = (struct twin_estimate){
            exp(e.value), {exp(e.interval.low), exp(e.interval.high)}, e.confidence};
    return e;
}

struct twin_estimate twin_stats_mean_interval(const double *x, size_t n, double confidence)
{
    return t_interval(x, n, confidence, false);
}

struct twin_estimate twin_stats_log_mean_interval(const double *x, size_t n, double confidence)
{
    return t_interval(x, n, confidence, true);
}

double twin_stats_sd(const double *x, size_t n)
{
    return tw_stats_all_finite(x, n) ? sqrt(tw_stats_moments(x, n, false).variance) : NAN;
}

/* (n - 1) s^2 / sigma^2 has the chi-square distribution with n - 1 degrees of freedom. */
struct twin_interval twin_stats_sd_interval(double sd, uint64_t n, double confidence)
{
    if (!(sd >= 0) || isinf(sd) || n < 2 || !tw_stats_is_probability(confidence))
        return (struct twin_interval){NAN, NAN};
    double df = (double)(n - 1), tail = (1 - confidence) / 2;
    return (struct twin_interval){sd * sqrt(df / twin_stats_chi2_quantile(1 - tail, df)),
                                  sd * sqrt(df / twin_stats_chi2_quantile(tail, df))};
}
