/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_STATS_H
#define TWIN_STATS_H
/*
 * Statistics: how often runs diverge, why, and whether timings and metrics differ. Room: src/stats
 * (calls base only).
 *
 * All functions are pure and thread-safe. Those that return a number allocate nothing and never
 * fail: an argument outside the stated range gives NaN (0 for functions that return counts). Those
 * that return int sort or resample: 0, TWIN_EINVAL (an argument outside the stated range) or
 * TWIN_ENOMEM; on failure values are NaN and counts 0. No function changes its inputs. Every method
 * is tested against published, SciPy or R values: docs/internals/statistics.md has the list.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twin_interval {
    double low, high;
};
/* A value with its interval; `confidence` is what the interval reaches: as asked, or exactly where
 * the method is exact. */
struct twin_estimate {
    double value;
    struct twin_interval interval;
    double confidence;
};
/* The alternative that a test is for. Greater: the first sample, arm or row is the larger one. */
enum twin_side { TWIN_TWO_SIDED, TWIN_GREATER, TWIN_LESS };

/* ---- special functions and distributions (special.c, distribution.c) */

/* ln Gamma(x) for x > 0. Stirling's series (DLMF 5.11.1), reached by recurrence; absolute error
 * below 1e-14 near the zeros at 1 and 2, relative error below 1e-13 elsewhere. NaN for x <= 0. */
double twin_stats_lgamma(double x);

/* Regularised incomplete beta I_x(a, b), a > 0, b > 0, 0 <= x <= 1. Continued fraction
 * (DLMF 8.17.22), modified Lentz; NaN, never a wrong digit, where that does not converge (a and b
 * above about 1e15 with x near the mean). */
double twin_stats_beta_inc(double a, double b, double x);

/* x with I_x(a, b) = p, 0 <= p <= 1; bisection to the last bit, so that it never diverges. */
double twin_stats_beta_inv(double p, double a, double b);

/* Regularised incomplete gamma, P(a, x) and Q(a, x) = 1 - P, a > 0, x >= 0. Series DLMF 8.11.4 and
 * continued fraction 8.9.2; NaN where these do not converge (a above about 1e10 with x near a). */
double twin_stats_gamma_p(double a, double x);
double twin_stats_gamma_q(double a, double x);

/* Standard normal: P(Z <= z) by erfc; z with P(Z <= z) = p, 0 <= p <= 1 (infinite at 0 and 1). */
double twin_stats_normal_cdf(double z);
double twin_stats_normal_quantile(double p);

/* Student's t (DLMF 8.17(i)), 0 < df < infinity: P(T <= t), and the t for 0 <= p <= 1. P(T > t) is
 * cdf(-t). Tails are exact down to about 1e-300; quantiles of t and F beyond 1e150 (tiny p with df
 * below 2) are not resolved. */
double twin_stats_t_cdf(double t, double df);
double twin_stats_t_quantile(double p, double df);

/* Chi-square, 0 < df < infinity: P(X <= x), P(X > x), and the x for 0 <= p <= 1. */
double twin_stats_chi2_cdf(double x, double df);
double twin_stats_chi2_upper(double x, double df);
double twin_stats_chi2_quantile(double p, double df);

/* F with df1 and df2 degrees of freedom: P(X <= x), P(X > x), and the x for 0 <= p <= 1. */
double twin_stats_f_cdf(double x, double df1, double df2);
double twin_stats_f_upper(double x, double df1, double df2);
double twin_stats_f_quantile(double p, double df1, double df2);

/* ---- counts: "k of n comparisons diverged" (count.c) */

/* P(X <= k) for X ~ Binomial(n, p). */
double twin_stats_binomial_cdf(uint64_t k, uint64_t n, double p);

/* Exact two-sided interval of a rate, k of n, 0 < confidence < 1 (Clopper and Pearson 1934). n = 0
 * gives [0, 1]. For decisions. */
struct twin_interval twin_stats_clopper_pearson(uint64_t k, uint64_t n, double confidence);

/* Wilson's score interval (1927). For display: shorter, but its coverage is only approximate. */
struct twin_interval twin_stats_wilson(uint64_t k, uint64_t n, double confidence);

/* One-sided upper bound of a rate after 0 events in n trials: 1 - (1 - confidence)^(1/n). n = 0
 * gives 1. */
double twin_stats_zero_bound(uint64_t n, double confidence);

/* Trials without an event after which the rate is below p at this confidence: ceil(ln(1 -
 * confidence) / ln(1 - p)). */
uint64_t twin_stats_trials_needed(double p, double confidence);

/* As above when up to `allowed` events are accepted: the smallest n with BinomialCDF(allowed; n, p)
 * <= 1 - confidence. */
uint64_t twin_stats_trials_needed_allowing(uint64_t allowed, double p, double confidence);

/* One-sided lower bound of a rate, k of n: BetaInv(1 - confidence; k, n - k + 1) (Clopper and
 * Pearson 1934). 0 for k = 0. With k divergences in n steps compared (clean comparisons included)
 * it is the lower bound of the hazard per step. */
double twin_stats_rate_lower(uint64_t k, uint64_t n, double confidence);

/* Clean trials after which a rate of at least `rate` is refuted in each of `tests` tests at once,
 * family error alpha (Bonferroni): the smallest N with (1 - rate)^N <= alpha / tests. 0 < rate
 * <= 1. Trials are runs or steps, as `rate` is. */
uint64_t twin_stats_clean_needed(double rate, double alpha, uint64_t tests);

/* Probability that two of N runs, drawn without replacement, agree: sum n_i(n_i - 1) / (N(N - 1))
 * over class sizes n_i. NaN when there are fewer than two runs. */
double twin_stats_agreement(const uint64_t *class_sizes, size_t classes);

/* Least squares of y on x over n points. 0 when fitted; TWIN_EINVAL with fewer than two distinct x
 * or a non-finite value: then slope and intercept are left as they were. */
int twin_stats_line_fit(const double *x, const double *y, size_t n, double *slope,
                        double *intercept);

/* ---- sequential tests: look as often as you like (sequential.c) */

/* Wald's test (1945) of a divergence rate p0 against p1, 0 < p0 < p1 < 1, with errors alpha and
 * beta, alpha + beta < 1. */
struct twin_sprt {
    double p0, p1, alpha, beta;
};
enum twin_sprt_decision {
    TWIN_SPRT_INVALID,
    TWIN_SPRT_CONTINUE,
    TWIN_SPRT_CLEAN,
    TWIN_SPRT_DIVERGES
};

/* Bounds of the log likelihood ratio: ln(beta / (1 - alpha)) accepts p0, ln((1 - beta) / alpha)
 * accepts p1. */
struct twin_interval twin_stats_sprt_bounds(struct twin_sprt plan);

/* ln of the likelihood of p1 over that of p0, after k divergences in n comparisons. */
double twin_stats_sprt_log_ratio(struct twin_sprt plan, uint64_t k, uint64_t n);

/* Comparisons without a divergence that accept "clean". 0 for a plan outside the stated ranges. */
uint64_t twin_stats_sprt_clean_needed(struct twin_sprt plan);

/* The decision after k divergences in n comparisons. One divergence always rejects "clean",
 * whatever the ratio says: bitwise it is proof (the plain test would accept after 1 divergence and
 * 28 clean comparisons). */
enum twin_sprt_decision twin_stats_sprt_decide(struct twin_sprt plan, uint64_t k, uint64_t n);

/* ln of the e-process against "the rate is p0" after s divergences and f clean comparisons: the
 * Beta(1/2, 1/2) mixture over p0, lnB(.5 + s, .5 + f) - lnB(.5, .5) - s ln p0 - f ln(1 - p0).
 * Whenever it reaches ln(1 / alpha), p0 is refuted at level alpha, however often one looked (Ville
 * 1939; Robbins 1970). It speaks against rates on both sides: s / n against p0 says which. */
double twin_stats_e_log(uint64_t s, uint64_t f, double p0);

/* Comparisons, all clean, after which the e-process refutes a rate of p0 or more at level alpha. p0
 * >= 1e-15. */
uint64_t twin_stats_e_clean_needed(double p0, double alpha);

/* ln of the e-process against "no rate is above p0" (above), or "none is below p0": the same
 * mixture, but over the rates on the other side of p0 alone. The rates of the comparisons may
 * differ from each other and depend on the past, as long as each is on its side; 0 < p0 < 1.
 * Reaching ln(1 / alpha) refutes it at level alpha, however often one looked. */
double twin_stats_e_above_log(uint64_t s, uint64_t f, double p0);
double twin_stats_e_below_log(uint64_t s, uint64_t f, double p0);

/* The rates that neither refutes at level alpha each: an interval that holds at every look at once,
 * each end with error alpha. [0, 1] for no comparisons. Bisection; ends are rounded outwards. */
struct twin_interval twin_stats_e_interval(uint64_t s, uint64_t f, double alpha);

/* ---- a factor's effect: tables of counts, several tests at once (table.c) */

/* p of Fisher's exact test (1935) of the table {{a, b}, {c, d}}; rows are arms, columns are
 * diverged and clean. Greater: the first row diverges more often. Two-sided sums the tables no more
 * probable than this one, as R does. 1 where the margins leave only one table; NaN for more than
 * 2^40 trials. */
double twin_stats_fisher(uint64_t a, uint64_t b, uint64_t c, uint64_t d, enum twin_side side);

/* Are events clustered? P(R <= runs) where R is the number of runs (stretches of one kind) in a
 * random order of `ones` and `zeros` (Wald and Wolfowitz 1940). NaN where either is 0, or for more
 * than 2^20 of them. */
double twin_stats_few_runs(uint64_t ones, uint64_t zeros, uint64_t runs);

/* Holm's step-down adjustment (1979) of n p values into adjusted[n], in the order given. May not
 * overlap p. */
int twin_stats_holm(const double *p, size_t n, double *adjusted);

/* ---- one sample (sample.c). Values are finite. */

/* Median of n >= 1 values. */
int twin_stats_median(const double *x, size_t n, double *median);

/* Rank r for which order statistics r and n + 1 - r (from 1) enclose the median at this confidence;
 * *reached is exactly what they do reach (David and Nagaraja 2003, 7.1). 0 and NaN when n is too
 * small for any: below 6 at 95%. */
uint64_t twin_stats_median_rank(uint64_t n, double confidence, double *reached);

/* Median with that interval; interval and confidence are NaN when n is too small. Holds for any
 * distribution. */
int twin_stats_median_interval(const double *x, size_t n, double confidence,
                               struct twin_estimate *out);

#define TWIN_STATS_OUTLIER_Z 3.5
/* mad: median absolute deviation from the median, unscaled */
struct twin_mad {
    double median, mad;
    size_t outliers;
};

/* Modified z scores .6745 (x - median) / MAD (Iglewicz and Hoaglin 1993) into z[n], which may not
 * overlap x; outliers are those beyond +-3.5. Where more than half of the values are equal the MAD
 * is 0: then out->mad says so and every z is NaN. */
int twin_stats_modified_z(const double *x, size_t n, double *z, struct twin_mad *out);

/* Mean with Student's interval. NaN interval below two values. */
struct twin_estimate twin_stats_mean_interval(const double *x, size_t n, double confidence);

/* Geometric mean of positive values with Student's interval on the logarithms: for times and
 * ratios, below 20 values. */
struct twin_estimate twin_stats_log_mean_interval(const double *x, size_t n, double confidence);

/* Sample standard deviation (n - 1). NaN below two values. */
double twin_stats_sd(const double *x, size_t n);

/* Chi-square interval of the standard deviation of a normal sample: sd sqrt((n - 1) / quantile), n
 * >= 2. */
struct twin_interval twin_stats_sd_interval(double sd, uint64_t n, double confidence);

/* ---- arms compared by their values (arms.c) */

struct twin_f_test {
    double f, df1, df2, p;
};

/* Equal variances in k >= 2 groups of at least three values (Brown and Forsythe 1974: analysis of
 * variance of the distances from the group medians). f and p are NaN when these distances do not
 * vary within any group. */
int twin_stats_brown_forsythe(const double *const *groups, const size_t *sizes, size_t k,
                              struct twin_f_test *out);

/* ratio: geometric mean of x over that of y; interval: its 1 - 2 alpha interval; p: the larger of
 * the two one-sided p values. */
struct twin_equivalence {
    double ratio;
    struct twin_interval interval;
    double df, p;
};

/* "Equal within a factor of margin": two one-sided tests (Schuirmann 1987) on the logarithms,
 * bounds +-ln(margin), margin > 1 (1.05 for 5%), Welch's degrees of freedom, 0 < alpha < .5.
 * Equivalent when p <= alpha, which is when the interval lies within [1 / margin, margin]. At least
 * two values each, all positive. Without any spread only the ratio is given: p is NaN. */
struct twin_equivalence twin_stats_equivalence(const double *x, size_t nx, const double *y,
                                               size_t ny, double margin, double alpha);

/* Runs per arm for that test when the arms are equal: 2 ((z(1 - alpha) + z(1 - (1 - power) / 2)) cv
 * / ln margin)^2, rounded up; cv is the coefficient of variation. Normal approximation: use at
 * least 5 whatever it says. */
uint64_t twin_stats_equivalence_runs(double cv, double margin, double alpha, double power);

/* ---- two samples by ranks (rank.c) */

/* How p was found. Exact: the distribution of U without ties; permutation: exact given the ties
 * seen; normal: the approximation with tie and continuity correction, from more than 100 values in
 * both samples together. */
enum twin_method {
    TWIN_METHOD_NONE,
    TWIN_METHOD_EXACT,
    TWIN_METHOD_PERMUTATION,
    TWIN_METHOD_NORMAL
};
/* u: pairs with x > y, plus half of those equal; R's W */
struct twin_mann_whitney {
    double u, p;
    enum twin_method method;
};

/* Mann and Whitney's test (1947). Infinite values are allowed, NaN is not. Two-sided p is twice the
 * smaller tail. */
int twin_stats_mann_whitney(const double *x, size_t nx, const double *y, size_t ny,
                            enum twin_side side, struct twin_mann_whitney *out);

/* Hodges and Lehmann's shift (1963), the median of all differences x - y, with the interval of
 * those shifts that the test does not reject; `confidence` is what it reaches exactly (no ties, at
 * most 100 values), else the one asked for. NaN interval when the samples are too small for any.
 * Time O((nx + ny) log), no table of differences. */
int twin_stats_hodges_lehmann(const double *x, size_t nx, const double *y, size_t ny,
                              double confidence, struct twin_estimate *out);

/* ---- resampling (resample.c). Repeatable: the generator is splitmix64 started from `seed`. */

/* A statistic of the observations index[0..n-1] of data; pure. NaN where it is undefined. */
typedef double twin_statistic(const void *data, const size_t *index, size_t n);
/* data: const double[]. */
double twin_stats_mean_of(const void *values, const size_t *index, size_t n);
/* data: struct twin_arms. Mean of the first `first` of the indices minus mean of the others. */
struct twin_arms {
    const double *values;
    size_t first;
};
double twin_stats_mean_difference(const void *arms, const size_t *index, size_t n);

/* bias is z0, acceleration is a; undefined: resamples on which the statistic was NaN and which were
 * left out. */
struct twin_bca {
    double value;
    struct twin_interval interval;
    double bias, acceleration;
    size_t undefined;
};

/* Bias-corrected and accelerated bootstrap interval (Efron 1987; Efron and Tibshirani 1993, 14.3)
 * over n >= 2 observations, 100 to 1e8 resamples. From 20 observations on: at 5 it covers only 81%.
 * NaN interval when more than 5% of the resamples are undefined or the statistic lies outside all
 * of them. */
int twin_stats_bca(twin_statistic *statistic, const void *data, size_t n, size_t resamples,
                   uint64_t seed, double confidence, struct twin_bca *out);

struct twin_permutation {
    double value, p;
    size_t extreme;
};

/*
 * Permutation test: the statistic on random orders of 0..n-1; p = (1 + #extreme) / (permutations +
 * 1) (Phipson and Smyth 2010), never 0. Two-sided compares absolute values. 1 to 1e8 permutations.
 */
int twin_stats_permutation(twin_statistic *statistic, const void *data, size_t n,
                           size_t permutations, uint64_t seed, enum twin_side side,
                           struct twin_permutation *out);

/* ---- two quantities that may move together (correlate.c) */

/* Spearman's rank correlation (1904) of n >= 3 pairs of finite values, ranks of equal values
 * averaged, and its p by permutation, which holds whatever the distributions if the pairs are
 * exchangeable; those of a time series are so only roughly. value and p are NaN when x or y is
 * constant. */
int twin_stats_spearman(const double *x, const double *y, size_t n, size_t permutations,
                        uint64_t seed, enum twin_side side, struct twin_permutation *out);

/* Kendall's tau-b (1945) of n >= 2 pairs of finite values: ties in x or y count for neither order.
 * NaN when x or y is constant. Time O(n^2): for rankings that a person reads. */
double twin_stats_kendall_tau(const double *x, const double *y, size_t n);

/* ---- first-divergence step over runs (survival.c) */

/* Just after `time`: the share of runs that have not diverged, Greenwood's standard error,
 * log(-log) interval. at_risk counts runs that were neither diverged nor over before `time`. Error
 * and interval are NaN once survival is 0. */
struct twin_survival {
    double time;
    uint64_t at_risk, events;
    double survival, error;
    struct twin_interval interval;
};

/* Kaplan and Meier (1958). Run i diverged at time[i], or was clean up to there (!parted[i]:
 * censored); times are finite and >= 0, steps or seconds. points[n] is the caller's; *count of them
 * are filled, one per time at which a run diverged, ascending. */
int twin_stats_kaplan_meier(const double *time, const bool *parted, size_t n, double confidence,
                            struct twin_survival *points, size_t *count);

/* The first time by which a share p of runs has diverged, 0 < p < 1 (.5: the median); infinite when
 * fewer ever do. */
double twin_stats_survival_quantile(const struct twin_survival *points, size_t count, double p);

/* observed and expected in the first arm */
struct twin_log_rank {
    double observed, expected, chi2, p;
};

/* Log-rank test (Mantel 1966) that both arms diverge equally fast, one degree of freedom. chi2 and
 * p are NaN when nothing diverged while both arms were at risk. */
int twin_stats_log_rank(const double *time_a, const bool *parted_a, size_t na, const double *time_b,
                        const bool *parted_b, size_t nb, struct twin_log_rank *out);
#endif
