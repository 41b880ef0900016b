/* SPDX-License-Identifier: Apache-2.0 */
/* One sample, and arms compared by their values. Oracles: the design paper; scipy.stats 1.17.1;
 * statsmodels 0.15. */
#include "src/stats/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base.h"

/* Equal to a relative error of 1e-10 */
#define CLOSE(actual, expected) assert_true(fabs((actual) - (expected)) <= 1e-10 * fabs(expected))
#define NEAR(actual, expected, tolerance) assert_true(fabs((actual) - (expected)) <= (tolerance))
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const double five[] = {3.1, 2.9, 3.4, 3.0, 3.3};

static void outliers(void **state)
{
    (void)state;
    static const double x[] = {2.1, 2.2, 2, 2.1, 2.3, 9};
    double z[6];
    struct twin_mad m;
    assert_int_equal(twin_stats_modified_z(x, 6, z, &m), 0);
    NEAR(z[5], 46.203, 5e-4);
    CLOSE(m.median, 2.15);
    CLOSE(m.mad, .1); /* stats.median_abs_deviation(x) */
    assert_int_equal(m.outliers, 1);
    /* more than half equal: reported, not divided by */
    assert_int_equal(twin_stats_modified_z((const double[]){5, 5, 5, 7}, 4, z, &m), 0);
    assert_true(m.mad == 0 && m.median == 5 && m.outliers == 0 && isnan(z[0]) && isnan(z[3]));
    assert_int_equal(twin_stats_modified_z((const double[]){4}, 1, z, &m), 0);
    assert_true(m.mad == 0 && m.median == 4);
    assert_int_equal(twin_stats_modified_z(x, 0, z, &m), TWIN_EINVAL);
    assert_int_equal(twin_stats_modified_z((const double[]){1, NAN}, 2, z, &m), TWIN_EINVAL);
    assert_true(isnan(m.mad) && isnan(z[0]) && isnan(z[1]));
}

static void median_ranks(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, rank;
        double reached;
    } row[] = {{5, 0, NAN},
               {6, 1, .96875},
               {10, 2, .9785},
               {20, 6, .9586105346679688 /* 1 - 2 * stats.binom.cdf(5, 20, .5) */}};
    for (size_t i = 0; i < COUNT(row); i++) {
        double reached;
        assert_int_equal(twin_stats_median_rank(row[i].n, .95, &reached), row[i].rank);
        assert_true(row[i].rank ? fabs(reached - row[i].reached) < 5e-5 : isnan(reached));
    }
    double reached;
    for (uint64_t n = 1; n < 200; n++) { /* reaches the confidence, and the next rank would not */
        uint64_t r = twin_stats_median_rank(n, .9, &reached);
        assert_true(r == 0 || 1 - 2 * twin_stats_binomial_cdf(r - 1, n, .5) >= .9);
        assert_true(1 - 2 * twin_stats_binomial_cdf(r, n, .5) < .9);
    }
    uint64_t huge = twin_stats_median_rank(UINT64_C(1) << 52, .95, &reached);
    assert_true(huge > 0 && huge < UINT64_C(1) << 51 && reached >= .95 && reached < .95001);
    assert_int_equal(twin_stats_median_rank(0, .95, &reached), 0);
    assert_int_equal(twin_stats_median_rank(UINT64_MAX, .95, &reached), 0);
    assert_int_equal(twin_stats_median_rank(10, 1, &reached), 0);
    assert_int_equal(twin_stats_median_rank(10, NAN, &reached), 0);
}

static void median_intervals(void **state)
{
    (void)state;
    static const double x[] = {9, 1, 8, 2, 7, 3};
    struct twin_estimate e;
    double median;
    assert_int_equal(twin_stats_median_interval(x, 6, .95, &e), 0);
    assert_true(e.value == 5 && e.interval.low == 1 && e.interval.high == 9 &&
                e.confidence == .96875);
    assert_int_equal(twin_stats_median_interval(x, 5, .95, &e), 0);
    assert_true(e.value == 7 && isnan(e.interval.low) && isnan(e.interval.high) &&
                isnan(e.confidence));
    assert_int_equal(twin_stats_median_interval(x, 0, .95, &e), TWIN_EINVAL);
    assert_int_equal(twin_stats_median_interval(x, 6, 0, &e), TWIN_EINVAL);
    assert_true(isnan(e.value));
    assert_int_equal(twin_stats_median(x, 6, &median), 0);
    assert_true(median == 5 && x[0] == 9);
    assert_int_equal(twin_stats_median((const double[]){1.7e308, 1.6e308}, 2, &median), 0);
    CLOSE(median, 1.65e308);
    assert_int_equal(twin_stats_median((const double[]){1, INFINITY}, 2, &median), TWIN_EINVAL);
    tw_alloc_fail_at(1, false);
    assert_int_equal(twin_stats_median(x, 6, &median), TWIN_ENOMEM);
    assert_true(isnan(median));
    tw_alloc_fail_at(1, false);
    assert_int_equal(twin_stats_median_interval(x, 6, .95, &e), TWIN_ENOMEM);
    tw_alloc_fail_at(0, false);
}

static void means(void **state)
{
    (void)state;
    struct twin_estimate e =
        /* stats.t.interval(.95, 4, x.mean(), stats.sem(x)) */
        twin_stats_mean_interval(five, 5, .95);
    CLOSE(e.value, 3.14);
    CLOSE(e.interval.low, 2.882523073207092);
    CLOSE(e.interval.high, 3.3974769267929075);
    e = twin_stats_log_mean_interval(five, 5, .95); /* the same of log(x), exp of the result */
    CLOSE(e.value, 3.134546816355656);
    NEAR(e.interval.low, 2.8884152, 5e-8);
    NEAR(e.interval.high, 3.40165213, 5e-9);
    /* np.std(x, ddof=1) */
    CLOSE(twin_stats_sd(five, 5), .20736441353327714);
    /* no cancellation */
    e = twin_stats_mean_interval((const double[]){1e9 + 1, 1e9 + 2, 1e9 + 3}, 3, .5);
    /* stats.t.ppf(.75, 2) / sqrt(3), sd 1 */
    NEAR(e.interval.high - e.value, .816496580927726 / sqrt(3), 3e-7);
    e = twin_stats_mean_interval(five, 1, .95);
    assert_true(e.value == 3.1 && isnan(e.interval.low) && isnan(e.confidence));
    assert_true(isnan(twin_stats_mean_interval(five, 0, .95).value) &&
                isnan(twin_stats_sd(five, 1)));
    assert_true(isnan(twin_stats_log_mean_interval((const double[]){1, 0}, 2, .95).value));
    assert_true(isnan(twin_stats_log_mean_interval((const double[]){1, -2}, 2, .95).value));
    assert_true(isnan(twin_stats_mean_interval((const double[]){1, NAN}, 2, .95).value));
    assert_true(isnan(twin_stats_mean_interval(five, 5, 1).value));
    e = twin_stats_mean_interval((const double[]){4, 4, 4}, 3, .95);
    assert_true(e.interval.low == 4 && e.interval.high == 4);
}

static void spread(void **state)
{
    (void)state;
    struct twin_interval i = twin_stats_sd_interval(1, 5, .95);
    NEAR(i.low, .599, 5e-4);
    NEAR(i.high, 2.874, 5e-4);
    i = twin_stats_sd_interval(1, 10, .95);
    NEAR(i.low, .688, 5e-4);
    NEAR(i.high, 1.826, 5e-4);
    /* stats.chi2.ppf(.025, 9) */
    CLOSE(twin_stats_sd_interval(3, 10, .95).high, 3 * sqrt(9 / 2.700389499980357));
    assert_true(isnan(twin_stats_sd_interval(1, 1, .95).low) &&
                isnan(twin_stats_sd_interval(1, 0, .95).low));
    assert_true(isnan(twin_stats_sd_interval(-1, 5, .95).low) &&
                isnan(twin_stats_sd_interval(NAN, 5, .95).low));
    assert_true(isnan(twin_stats_sd_interval(INFINITY, 5, .95).low) &&
                isnan(twin_stats_sd_interval(1, 5, 1).low));
    i = twin_stats_sd_interval(1, 1000000000, .95);
    assert_true(i.low < 1 && i.high > 1 && i.high - i.low < 1e-4);
}

static void brown_forsythe(void **state)
{
    (void)state;
    /* scipy.stats.levene's own example: stats.levene(a, b, c, center='median') */
    static const double a[] = {8.88, 9.12, 9.04, 8.98, 9.00, 9.08, 9.01, 8.85, 9.06, 8.99};
    static const double b[] = {8.88, 8.95, 9.29, 9.44, 9.15, 9.58, 8.36, 9.18, 8.67, 9.05};
    static const double c[] = {8.95, 9.12, 8.95, 8.85, 9.03, 8.84, 9.07, 8.98, 8.86, 8.98};
    static const double *const groups[] = {a, b, c};
    struct twin_f_test t;
    assert_int_equal(twin_stats_brown_forsythe(groups, (const size_t[]){10, 10, 10}, 3, &t), 0);
    CLOSE(t.f, 7.584952754501659);
    CLOSE(t.p, .002431505967249677);
    assert_true(t.df1 == 2 && t.df2 == 27);
    assert_int_equal(twin_stats_brown_forsythe(groups, (const size_t[]){10, 2, 10}, 3, &t),
                     TWIN_EINVAL);
    assert_int_equal(twin_stats_brown_forsythe(groups, (const size_t[]){10}, 1, &t), TWIN_EINVAL);
    assert_true(isnan(t.p));
    static const double flat[] = {1, 1, 1}, other[] = {2, 2, 2};
    assert_int_equal(twin_stats_brown_forsythe((const double *const[]){flat, other},
                                               (const size_t[]){3, 3}, 2, &t),
                     0);
    assert_true(isnan(t.f) && isnan(t.p) && t.df2 == 4);
    for (uint64_t at = 1; at <= 3; at++) {
        tw_alloc_fail_at(at, false);
        assert_int_equal(twin_stats_brown_forsythe(groups, (const size_t[]){10, 10, 10}, 3, &t),
                         TWIN_ENOMEM);
        assert_true(isnan(t.f) && isnan(t.p));
    }
    tw_alloc_fail_at(0, false);
}

static void equivalence(void **state)
{
    (void)state;
    static const double a[] = {10.1, 10.3, 9.9, 10.0, 10.2};
    static const double b[] = {10.0, 10.4, 10.1, 9.8, 10.3, 10.2};
    static const double slow[] = {10.9, 11.0, 11.2, 10.8, 11.1};
    struct twin_equivalence e = twin_stats_equivalence(a, 5, b, 6, 1.05, .05);
    /* statsmodels: ttost_ind(log(a), log(b), -log(1.05), log(1.05), usevar='unequal') */
    CLOSE(e.p, .0014286324024651409);
    CLOSE(e.df, 8.897936716555774);
    /* stats.ttest_ind(log(a), log(b), equal_var=False).confidence_interval(.9), exp of it */
    CLOSE(e.ratio, .9968024469662347);
    NEAR(e.interval.low, .97652949, 5e-9);
    NEAR(e.interval.high, 1.01749627, 5e-9);
    /* ttost_ind likewise */
    CLOSE(twin_stats_equivalence(a, 5, slow, 5, 1.05, .05).p, .9975231638325341);
    /* swapping the arms inverts the ratio and leaves p */
    struct twin_equivalence back = twin_stats_equivalence(b, 6, a, 5, 1.05, .05);
    CLOSE(back.p, e.p);
    CLOSE(back.ratio * e.ratio, 1.);
    CLOSE(back.interval.low * e.interval.high, 1.);
    /* p <= alpha is when the interval lies within */
    for (double margin = 1.005; margin < 1.2; margin += .005) {
        e = twin_stats_equivalence(a, 5, b, 6, margin, .05);
        assert_int_equal(e.p <= .05, e.interval.low >= 1 / margin && e.interval.high <= margin);
    }
    e = twin_stats_equivalence((const double[]){2, 2}, 2, (const double[]){2, 2}, 2, 1.05, .05);
    assert_true(e.ratio == 1 && isnan(e.p) && isnan(e.interval.low));
    assert_true(isnan(twin_stats_equivalence(a, 1, b, 6, 1.05, .05).ratio));
    assert_true(isnan(twin_stats_equivalence((const double[]){1, 0}, 2, b, 6, 1.05, .05).p));
    assert_true(isnan(twin_stats_equivalence((const double[]){1, NAN}, 2, b, 6, 1.05, .05).p));
    assert_true(isnan(twin_stats_equivalence(a, 5, b, 6, 1, .05).p) &&
                isnan(twin_stats_equivalence(a, 5, b, 6, 1.05, .5).p));
}

static void equivalence_runs(void **state)
{
    (void)state;
    assert_int_equal(twin_stats_equivalence_runs(.02, 1.05, .05, .8), 3);
    assert_int_equal(twin_stats_equivalence_runs(.05, 1.05, .05, .8), 18);
    NEAR(-twin_stats_normal_quantile(.05) - twin_stats_normal_quantile(.1), 2.926, 5e-4);
    assert_int_equal(twin_stats_equivalence_runs(1e-9, 1.05, .05, .8), 1);
    assert_int_equal(twin_stats_equivalence_runs(1e300, 1.05, .05, .8), UINT64_MAX);
    assert_int_equal(twin_stats_equivalence_runs(0, 1.05, .05, .8), 0);
    assert_int_equal(twin_stats_equivalence_runs(.02, 1, .05, .8), 0);
    assert_int_equal(twin_stats_equivalence_runs(.02, 1.05, NAN, .8), 0);
    assert_int_equal(twin_stats_equivalence_runs(.02, 1.05, .05, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outliers),         cmocka_unit_test(median_ranks),
        cmocka_unit_test(median_intervals), cmocka_unit_test(means),
        cmocka_unit_test(spread),           cmocka_unit_test(brown_forsythe),
        cmocka_unit_test(equivalence),      cmocka_unit_test(equivalence_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
