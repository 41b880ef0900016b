/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resampling: the BCa bootstrap interval (Efron 1987) and the permutation test, for any statistic
 * that is a function of indices. The generator is our own, so the same seed gives the same interval
 * and the same p on every machine. Called by scaling.c (BCa) and correlate.c (permutations).
 *
 * All draws are made in one order by one thread: each resample, and in it each index.
 */
#include "inside.h"

#include "base.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>

static uint64_t next_random(uint64_t *state) /* splitmix64 (Steele, Lea and Flood 2014) */
{
    return tw_mix64(*state += 0x9e3779b97f4a7c15u);
}

/* Uniform below n without bias (Lemire 2019). */
static size_t random_below(uint64_t *state, uint64_t n)
{
    assert(n > 0);
    for (;;) {
        __extension__ unsigned __int128 product = (unsigned __int128)next_random(state) * n;
        if ((uint64_t)product >= -n % n)
            return (size_t)(product >> 64);
    }
}

/* A running mean, which does not overflow where a sum would. */
double twin_stats_mean_of(const void *values, const size_t *index, size_t n)
{
    assert(n > 0);
    const double *x = values;
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += (x[index[i]] - mean) / (double)(i + 1);
    return mean;
}

double twin_stats_mean_difference(const void *arms, const size_t *index, size_t n)
{
    const struct twin_arms *a = arms;
    if (a->first == 0 || a->first >= n)
        return NAN;
    return twin_stats_mean_of(a->values, index, a->first) -
           twin_stats_mean_of(a->values, index + a->first, n - a->first);
}

/* The acceleration: a sixth of the skewness of the jackknife values (Efron and Tibshirani 1993,
 * 14.3); 0 where they do not vary. Overwrites index and value, of n entries each. */
static double acceleration(twin_statistic *statistic, const void *data, size_t n, size_t *index,
                           double *value)
{
    assert(n >= 2);
    /* index holds all observations but number i; going from i to i + 1 changes one entry. */
    for (size_t i = 0; i < n - 1; i++)
        index[i] = i + 1;
    for (size_t i = 0; i < n; i++) { /* leaves out observation i */
        value[i] = statistic(data, index, n - 1);
        if (i < n - 1)
            index[i] = i;
    }
    double mean = 0, squares = 0, cubes = 0;
    for (size_t i = 0; i < n; i++)
        mean += (value[i] - mean) / (double)(i + 1);
    for (size_t i = 0; i < n; i++) {
        double d = mean - value[i];
        squares += d * d;
        cubes += d * d * d;
    }
    return squares == 0 ? 0 : cubes / (6 * squares * sqrt(squares));
}

/*
 * The quantile of n ascending values, linear between neighbours (type 7 of Hyndman and Fan 1996).
 */
static double quantile(const double *sorted, size_t n, double p)
{
    assert(n > 0 && p >= 0 && p <= 1);
    double place = p * (double)(n - 1), whole = floor(place);
    size_t i = (size_t)whole;
    if (place == whole || i + 1 >= n)
        return sorted[i < n ? i : n - 1];
    return sorted[i] + (place - whole) * (sorted[i + 1] - sorted[i]);
}

/* Where BCa reads its end off the bootstrap distribution, for the nominal normal quantile z. */
static double bca_level(double bias, double skew, double z)
{
    return twin_stats_normal_cdf(bias + (bias + z) / (1 - skew * (bias + z)));
}

/* Fills bias and interval from n bootstrap values, which are sorted here. Values equal to the
 * statistic count half on either side. */
static void bca_interval(double *values, size_t n, double confidence, struct twin_bca *out)
{
    assert(n > 0 && !isnan(out->value));
    double below = 0;
    for (size_t i = 0; i < n; i++)
        below += (values[i] < out->value) + 0.5 * (values[i] == out->value);
    tw_stats_sort(values, n);
    out->bias = twin_stats_normal_quantile(below / (double)n);
    double z = twin_stats_normal_quantile((1 - confidence) / 2);
    double low = bca_level(out->bias, out->acceleration, z);
    double high = bca_level(out->bias, out->acceleration, -z);
    if (low <= high) /* false for NaN, and past the pole that a large acceleration has */
        out->interval = (struct twin_interval){quantile(values, n, low), quantile(values, n, high)};
}

int twin_stats_bca(twin_statistic *statistic, const void *data, size_t n, size_t resamples,
                   uint64_t seed, double confidence, struct twin_bca *out)
{
    *out = (struct twin_bca){NAN, {NAN, NAN}, NAN, NAN, 0};
    if (n < 2 || resamples < 100 || resamples > 100000000 || !tw_stats_is_probability(confidence))
        return TWIN_EINVAL;
    size_t *index = tw_reallocarray(NULL, n, sizeof *index);
    double *values = tw_reallocarray(NULL, resamples > n ? resamples : n, sizeof *values);
    int error = index && values ? 0 : TWIN_ENOMEM;
    if (!error) {
        for (size_t i = 0; i < n; i++)
            index[i] = i;
        out->value = statistic(data, index, n);
        out->acceleration = acceleration(statistic, data, n, index, values);
        /* The bootstrap values; resamples on which the statistic is undefined are counted and left
         * out. */
        size_t defined = 0;
        for (size_t b = 0; b < resamples; b++) {
            for (size_t i = 0; i < n; i++)
                index[i] = random_below(&seed, n);
            double value = statistic(data, index, n);
            if (isnan(value))
                out->undefined++;
            else
                values[defined++] = value;
        }
        if (defined >= resamples - resamples / 20 && !isnan(out->value))
            bca_interval(values, defined, confidence, out);
    }
    tw_free(index);
    tw_free(values);
    return error;
}

/* Is the value as extreme as the observed one, within rounding? Sums in another order differ in
 * their last bits, and a permutation that changes nothing else must count. */
static bool extreme(double value, double observed, enum twin_side side)
{
    double slack = 1e-12 * fabs(observed);
    switch (side) {
    case TWIN_GREATER: return value >= observed - slack;
    case TWIN_LESS: return value <= observed + slack;
    case TWIN_TWO_SIDED: return fabs(value) >= fabs(observed) - slack;
    }
    return true;
}

/* B. Phipson and G. Smyth (2010): the observed order counts as one of the permutations, so p is
 * never 0. Each order is a shuffle of the one before, which is as random as a shuffle of the
 * first. */
int twin_stats_permutation(twin_statistic *statistic, const void *data, size_t n,
                           size_t permutations, uint64_t seed, enum twin_side side,
                           struct twin_permutation *out)
{
    *out = (struct twin_permutation){NAN, NAN, 0};
    if (n < 2 || permutations == 0 || permutations > 100000000)
        return TWIN_EINVAL;
    size_t *order = tw_reallocarray(NULL, n, sizeof *order);
    if (!order)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    out->value = statistic(data, order, n);
    if (!isnan(out->value)) {
        for (size_t b = 0; b < permutations; b++) {
            for (size_t i = n - 1; i > 0; i--) { /* Fisher and Yates */
                size_t j = random_below(&seed, i + 1), kept = order[i];
                order[i] = order[j];
                order[j] = kept;
            }
            double value = statistic(data, order, n);
            out->extreme +=
                /* what cannot be judged counts against us */
                isnan(value) || extreme(value, out->value, side);
        }
        out->p = (1 + (double)out->extreme) / ((double)permutations + 1);
    }
    tw_free(order);
    return 0;
}
