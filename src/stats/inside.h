/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STATS_INSIDE_H
#define TW_STATS_INSIDE_H
/*
 * What the files of this room share and nobody outside calls: special functions in a form that
 * keeps digits, sorting, moments, and ranges of arguments. The public functions are in
 * src/stats/stats.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A distribution function at x >= 0 with its parameters. */
typedef double tw_stats_curve(double x, const double *parameters);

/* The x in [0, high] where a monotone curve crosses `target`, to the last bit: bisection over the
 * doubles in order (at most 64 steps), which never diverges. NaN when the curve gives NaN. */
double tw_stats_invert(tw_stats_curve *curve, const double *parameters, double target, bool rising,
                       double high);

/* P(X = k) for X ~ Binomial(n, p) with n = k + rest and q = 1 - p; real k, rest >= 0. Relative
 * error stays small for huge n. */
double tw_stats_binomial_density(double k, double rest, double p, double q);

/* I_x(a, b) with y = 1 - x given too, so that an x next to 1 keeps the digits of its complement. */
double tw_stats_beta_tail(double a, double b, double x, double y);

/* ln B(a, b), a > 0, b > 0, without the cancellation of three log gammas. */
double tw_stats_lbeta(double a, double b);

/* Doubles in ascending order (no NaN). */
void tw_stats_sort(double *x, size_t n);
double *tw_stats_sorted_copy(const double *x, size_t n);  /* tw_free; NULL = no memory */
double tw_stats_median_sorted(const double *x, size_t n); /* NaN for n = 0 */

/* Mean and sample variance (n - 1), of the values or of their logarithms. Mean NaN for n = 0,
 * variance for n < 2. */
struct tw_moments {
    double mean, variance;
};
struct tw_moments tw_stats_moments(const double *x, size_t n, bool logs);

/* No NaN and no infinity among n values. */
bool tw_stats_all_finite(const double *x, size_t n);

/* A number of runs from a formula: at least one, and the largest there is where none is enough.
 * 1.8e19 is a little below 2^64, so the conversion is defined. */
static inline uint64_t tw_stats_runs(double n)
{
    if (n < 1)
        return 1;
    return n < 1.8e19 ? (uint64_t)n : UINT64_MAX;
}

/* 0 < p < 1; false for NaN. */
static inline bool tw_stats_is_probability(double p)
{
    return p > 0 && p < 1;
}
#endif
