/* SPDX-License-Identifier: Apache-2.0 */
/* Reference values: published tables, SciPy 1.11 (beta.ppf, binom.cdf, betainc), R 4.3
 * (binom.test). */
#include "src/stats/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define NEAR(actual, expected, tolerance) assert_true(fabs((actual) - (expected)) <= (tolerance))

static void lgamma_values(void **state)
{
    (void)state;
    NEAR(twin_stats_lgamma(1), 0, 1e-14);
    NEAR(twin_stats_lgamma(0.5), 0.57236494292470008707, 1e-14); /* ln sqrt(pi) */
    NEAR(twin_stats_lgamma(10), 12.8018274800814696112, 1e-12);  /* ln 9! */
    NEAR(twin_stats_lgamma(171), 706.573062245787, 1e-10);       /* ln 170! */
    NEAR(twin_stats_lgamma(0.001), 6.9071788853838536, 1e-12);
    assert_true(isnan(twin_stats_lgamma(0)) && isnan(twin_stats_lgamma(-1)) &&
                isnan(twin_stats_lgamma(NAN)));
}

static void beta_closed_forms(void **state)
{
    (void)state;
    for (double x = 0; x <= 1; x += 0.0625) {
        NEAR(twin_stats_beta_inc(1, 1, x), x, 1e-15);
        NEAR(twin_stats_beta_inc(1, 7, x), 1 - pow(1 - x, 7), 1e-14);
        NEAR(twin_stats_beta_inc(5, 1, x), pow(x, 5), 1e-14);
        NEAR(twin_stats_beta_inc(.5, .5, x), 2 / M_PI * asin(sqrt(x)), 1e-13); /* arcsine law */
        NEAR(twin_stats_beta_inc(3, 4, x) + twin_stats_beta_inc(4, 3, 1 - x), 1, 1e-14);
    }
    assert_true(isnan(twin_stats_beta_inc(0, 1, .5)) && isnan(twin_stats_beta_inc(1, 1, 1.5)));
}

/* GSL's inverse gives NaN from n = 260 on; ours must invert everywhere that counts of runs can
 * lead. */
static void beta_inverse_round_trip(void **state)
{
    (void)state;
    static const double shape[] = {1, 2, 3.5, 20, 260, 1000, 100000};
    static const double prob[] = {1e-9, 0.025, 0.05, 0.5, 0.975, 1 - 1e-9};
    for (size_t i = 0; i < 7; i++)
        for (size_t j = 0; j < 7; j++)
            for (size_t k = 0; k < 6; k++) {
                double x = twin_stats_beta_inv(prob[k], shape[i], shape[j]);
                NEAR(twin_stats_beta_inc(shape[i], shape[j], x), prob[k], 1e-9);
            }
    assert_true(isnan(twin_stats_beta_inv(-.1, 1, 1)));
}

static void intervals(void **state)
{
    (void)state;
    struct twin_interval i = twin_stats_clopper_pearson(19, 20, .95);
    NEAR(i.low, .7512672, 5e-8);
    NEAR(i.high, .9987349, 5e-8);
    i = twin_stats_wilson(19, 20, .95);
    NEAR(i.low, .7638688, 5e-8);
    NEAR(i.high, .9911186, 5e-8);
    i = twin_stats_clopper_pearson(0, 10, .95); /* R: binom.test(0, 10) */
    assert_true(i.low == 0);
    NEAR(i.high, .3084971, 5e-8);
    i = twin_stats_clopper_pearson(10, 10, .95);
    NEAR(i.low, .6915029, 5e-8);
    assert_true(i.high == 1);
    i = twin_stats_clopper_pearson(0, 0, .95);
    assert_true(i.low == 0 && i.high == 1);
    assert_true(twin_stats_wilson(10, 10, .95).high == 1 && twin_stats_wilson(0, 10, .95).low == 0);
    i = twin_stats_wilson(0, 0, .95);
    assert_true(i.low == 0 && i.high == 1);
    assert_true(isnan(twin_stats_clopper_pearson(3, 2, .95).low) &&
                isnan(twin_stats_wilson(1, 2, 1).low));
}

static void bounds_and_trials(void **state)
{
    (void)state;
    NEAR(twin_stats_zero_bound(10, .95), .2588656, 5e-8);
    NEAR(twin_stats_zero_bound(2, .95), 1 - sqrt(.05), 1e-15);
    assert_true(twin_stats_zero_bound(0, .95) == 1);
    static const struct {
        double p;
        uint64_t clean, one, two;
    } row[] = {{.5, 5, 0, 0},      {.2, 14, 0, 0},   {.1, 29, 0, 0},
               {.05, 59, 93, 124}, {.02, 149, 0, 0}, {.01, 299, 473, 628}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_int_equal(twin_stats_trials_needed(row[i].p, .95), row[i].clean);
        assert_int_equal(twin_stats_trials_needed_allowing(0, row[i].p, .95), row[i].clean);
        if (row[i].one) {
            assert_int_equal(twin_stats_trials_needed_allowing(1, row[i].p, .95), row[i].one);
            assert_int_equal(twin_stats_trials_needed_allowing(2, row[i].p, .95), row[i].two);
        }
    }
    assert_int_equal(twin_stats_trials_needed_allowing(1, 1e-13, .95), 0);
    assert_int_equal(twin_stats_trials_needed_allowing(1, .1, 1), 0);
    assert_int_equal(twin_stats_trials_needed_allowing(UINT64_MAX, .1, .95), 0);
    assert_int_equal(twin_stats_trials_needed(0, .95), 0);
    assert_int_equal(twin_stats_trials_needed(.5, 1), 0);
}

/* The binomial distribution summed term by term is its own oracle. */
static void binomial_by_summation(void **state)
{
    (void)state;
    assert_true(twin_stats_binomial_cdf(0, 5, 0) == 1 && twin_stats_binomial_cdf(4, 5, 1) == 0);
    assert_true(twin_stats_binomial_cdf(5, 5, 1) == 1 && isnan(twin_stats_binomial_cdf(1, 5, 1.5)));
    assert_true(isnan(twin_stats_binomial_cdf(1, 5, -.5)) &&
                isnan(twin_stats_binomial_cdf(1, 5, NAN)));
    for (uint64_t n = 1; n <= 30; n++) {
        double p = .13, term = pow(1 - p, (double)n), sum = 0;
        for (uint64_t k = 0; k <= n; k++) {
            sum += term;
            NEAR(twin_stats_binomial_cdf(k, n, p), sum, 1e-12);
            term *= (double)(n - k) / (double)(k + 1) * p / (1 - p);
        }
    }
}

static void agreement_index(void **state)
{
    (void)state;
    NEAR(twin_stats_agreement((const uint64_t[]){8, 1, 1}, 3), .622222, 5e-7);
    assert_true(twin_stats_agreement((const uint64_t[]){5}, 1) == 1);
    assert_true(twin_stats_agreement((const uint64_t[]){1, 1, 1}, 3) == 0);
    assert_true(twin_stats_agreement((const uint64_t[]){2}, 1) == 1 &&
                twin_stats_agreement((const uint64_t[]){1, 1}, 2) == 0);
    assert_true(isnan(twin_stats_agreement((const uint64_t[]){1}, 1)));
}

static void line_fit(void **state)
{
    (void)state;
    double slope, intercept;
    /* Anscombe's first set: slope 0.500091, intercept 3.000091 (published) */
    static const double x[] = {10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5};
    static const double y[] = {8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68};
    assert_int_equal(twin_stats_line_fit(x, y, 11, &slope, &intercept), 0);
    NEAR(slope, .500091, 5e-7);
    NEAR(intercept, 3.000091, 5e-7);
    assert_int_equal(twin_stats_line_fit(x, (const double[]){1, 3}, 2, &slope, &intercept), 0);
    NEAR(slope, -1, 1e-14); /* through (10, 1) and (8, 3) */
    NEAR(intercept, 11, 1e-13);
    assert_int_equal(twin_stats_line_fit(x, y, 1, &slope, &intercept), -1);
    assert_int_equal(twin_stats_line_fit((const double[]){2, 2}, y, 2, &slope, &intercept), -1);
    assert_int_equal(twin_stats_line_fit(x, (const double[]){1, NAN}, 2, &slope, &intercept), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lgamma_values),           cmocka_unit_test(beta_closed_forms),
        cmocka_unit_test(beta_inverse_round_trip), cmocka_unit_test(intervals),
        cmocka_unit_test(bounds_and_trials),       cmocka_unit_test(binomial_by_summation),
        cmocka_unit_test(agreement_index),         cmocka_unit_test(line_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
