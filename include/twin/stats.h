/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_STATS_H
#define TWIN_STATS_H
/*
 * Statistics of counts: intervals and bounds for "k of n comparisons parted". Room: src/stats (calls base only).
 * All functions are pure, thread-safe, allocate nothing and never fail: an argument outside the stated range gives NaN
 * (0 for functions that return counts). Every method is tested against published, SciPy or R values.
 */
#include <stddef.h>
#include <stdint.h>

struct twin_interval { double low, high; };

/* ln Gamma(x) for x > 0. Lanczos' approximation (g = 7, 9 terms), relative error below 1e-13. NaN for x <= 0. */
double twin_stats_lgamma(double x);

/* Regularised incomplete beta I_x(a, b), a > 0, b > 0, 0 <= x <= 1. Continued fraction (DLMF 8.17.22), modified Lentz. */
double twin_stats_beta_inc(double a, double b, double x);

/* x with I_x(a, b) = p, 0 <= p <= 1; bisection to the last bit, so that it never diverges. */
double twin_stats_beta_inv(double p, double a, double b);

/* P(X <= k) for X ~ Binomial(n, p). */
double twin_stats_binomial_cdf(uint64_t k, uint64_t n, double p);

/* Exact two-sided interval of a rate, k of n, 0 < confidence < 1 (Clopper and Pearson 1934). n = 0 gives [0, 1]. For decisions. */
struct twin_interval twin_stats_clopper_pearson(uint64_t k, uint64_t n, double confidence);

/* Wilson's score interval (1927). For display: shorter, but its coverage is only approximate. */
struct twin_interval twin_stats_wilson(uint64_t k, uint64_t n, double confidence);

/* One-sided upper bound of a rate after 0 events in n trials: 1 - (1 - confidence)^(1/n). n = 0 gives 1. */
double twin_stats_zero_bound(uint64_t n, double confidence);

/* Trials without an event after which the rate is below p at this confidence: ceil(ln(1 - confidence) / ln(1 - p)). */
uint64_t twin_stats_trials_needed(double p, double confidence);

/* As above when up to `allowed` events are accepted: the smallest n with BinomialCDF(allowed; n, p) <= 1 - confidence. */
uint64_t twin_stats_trials_needed_allowing(uint64_t allowed, double p, double confidence);

/* Probability that two of N runs, drawn without replacement, agree: sum n_i(n_i - 1) / (N(N - 1)) over class sizes n_i.
 * NaN when there are fewer than two runs. */
double twin_stats_agreement(const uint64_t *class_sizes, size_t classes);

/* Least squares of y on x over n points. 0 when fitted; -1 with fewer than two distinct x or a non-finite value. */
int twin_stats_line_fit(const double *x, const double *y, size_t n, double *slope, double *intercept);
#endif
