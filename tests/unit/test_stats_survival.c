/* SPDX-License-Identifier: Apache-2.0 */
/* Kaplan-Meier and log-rank. Oracles: Freireich's leukaemia trial (1963) as published;
 * scipy.stats 1.17.1, lifelines 0.30. */
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

/* weeks in remission under 6-MP (the first nine relapsed, the others were censored) and under
 * placebo (all relapsed) */
static const double treated[] = {6,  6,  6,  7,  10, 13, 16, 22, 23, 6, 9,
                                 10, 11, 17, 19, 20, 25, 32, 32, 34, 35};
static const bool relapsed[21] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
static const double placebo[] = {1, 1, 2,  2,  3,  4,  4,  5,  5,  8, 8,
                                 8, 8, 11, 11, 12, 12, 15, 17, 22, 23};
static const bool all[21] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static void leukaemia(void **state)
{
    (void)state;
    /* stats.ecdf(stats.CensoredData(relapsed, right=censored)).sf and its confidence_interval(.95,
     * method='log-log') */
    static const struct {
        double time;
        uint64_t at_risk, events;
        double survival, low, high;
    } expected[] = {{6, 21, 3, .8571428571428571, .6197179552659838, .951551747646997},
                    {7, 17, 1, .8067226890756302, .5631465646222333, .9228090192028804},
                    {10, 15, 1, .7529411764705881, .5031995107999564, .8893618351692655},
                    {13, 12, 1, .6901960784313724, .43161022248618397, .8490659633494507},
                    {16, 11, 1, .6274509803921567, .36751085598750194, .8049121894718412},
                    {22, 7, 1, .53781512605042, .267778936767135, .7467907176353944},
                    {23, 6, 1, .4481792717086834, .18805200595923235, .6801426284952414}};
    struct twin_survival s[21];
    size_t count;
    assert_int_equal(twin_stats_kaplan_meier(treated, relapsed, 21, .95, s, &count), 0);
    assert_int_equal(count, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_true(s[i].time == expected[i].time);
        assert_int_equal(s[i].at_risk, expected[i].at_risk);
        assert_int_equal(s[i].events, expected[i].events);
        CLOSE(s[i].survival, expected[i].survival);
        CLOSE(s[i].interval.low, expected[i].low);
        CLOSE(s[i].interval.high, expected[i].high);
    }
    NEAR(s[0].error, .0764, 5e-5); /* R: summary(survfit(...)), std.err */
    NEAR(s[6].error, .1346, 5e-5);
    assert_true(twin_stats_survival_quantile(s, count, .5) == 23 &&
                twin_stats_survival_quantile(s, count, .1) == 6);
    assert_true(isinf(twin_stats_survival_quantile(s, count, .9)) &&
                isinf(twin_stats_survival_quantile(s, 0, .5)));
    assert_true(isnan(twin_stats_survival_quantile(s, count, 0)) &&
                isnan(twin_stats_survival_quantile(s, count, NAN)));
}

static void uncensored_is_the_empirical_one(void **state)
{
    (void)state;
    struct twin_survival s[21];
    size_t count;
    assert_int_equal(twin_stats_kaplan_meier(placebo, all, 21, .95, s, &count), 0);
    assert_int_equal(count, 12);
    double before = 1;
    for (size_t i = 0; i < count; i++) {
        double longer = 0;
        for (size_t j = 0; j < 21; j++)
            longer += placebo[j] > s[i].time;
        NEAR(s[i].survival, longer / 21, 1e-15);
        if (longer > 0) { /* Greenwood without censoring is the binomial error */
            CLOSE(s[i].error, sqrt(longer / 21 * (1 - longer / 21) / 21));
            assert_true(s[i].interval.low < s[i].survival && s[i].survival < s[i].interval.high);
        }
        assert_true(s[i].survival < before);
        before = s[i].survival;
    }
    assert_true(s[11].survival == 0 && isnan(s[11].error) && isnan(s[11].interval.low));
}

static void log_rank(void **state)
{
    (void)state;
    struct twin_log_rank t, back;
    assert_int_equal(twin_stats_log_rank(treated, relapsed, 21, placebo, all, 21, &t), 0);
    NEAR(t.chi2, 16.79, .005);         /* published */
    CLOSE(t.chi2, 16.792940989216547); /* lifelines.statistics.logrank_test */
    CLOSE(t.p, 4.168809109334511e-05); /* stats.logrank */
    assert_true(t.observed == 9);
    NEAR(t.expected, 19.25, .005); /* published: 19.3 */
    assert_int_equal(twin_stats_log_rank(placebo, all, 21, treated, relapsed, 21, &back), 0);
    CLOSE(back.chi2, t.chi2);
    CLOSE(back.observed + t.observed, back.expected + t.expected);
    assert_true(back.observed == 21);
    assert_int_equal(twin_stats_log_rank(placebo, all, 21, placebo, all, 21, &t), 0);
    NEAR(t.chi2, 0, 1e-25);
    NEAR(t.p, 1, 1e-12);
}

static void survival_edges(void **state)
{
    (void)state;
    static const bool never[3] = {0}, once[3] = {1, 0, 0};
    static const double steps[] = {100, 100, 100};
    static const double bad[] = {1, NAN};
    static const double negative[] = {-1};
    static const double endless[] = {INFINITY};
    struct twin_survival s[3];
    struct twin_log_rank t;
    size_t count = 9;
    assert_int_equal(twin_stats_kaplan_meier(steps, never, 0, .95, s, &count), 0);
    assert_int_equal(count, 0);
    /* only clean runs */
    assert_int_equal(twin_stats_kaplan_meier(steps, never, 3, .95, s, &count), 0);
    assert_int_equal(count, 0);
    /* censored at the time of another's event: still at risk there */
    assert_int_equal(twin_stats_kaplan_meier(steps, once, 3, .95, s, &count), 0);
    assert_int_equal(count, 1);
    assert_true(s[0].at_risk == 3 && s[0].events == 1);
    CLOSE(s[0].survival, 2. / 3);
    assert_int_equal(twin_stats_kaplan_meier(steps, all, 1, .95, s, &count), 0);
    assert_true(count == 1 && s[0].survival == 0 && isnan(s[0].interval.high));
    assert_int_equal(twin_stats_kaplan_meier(bad, all, 2, .95, s, &count), TWIN_EINVAL);
    assert_int_equal(count, 0);
    assert_int_equal(twin_stats_kaplan_meier(negative, all, 1, .95, s, &count), TWIN_EINVAL);
    assert_int_equal(twin_stats_kaplan_meier(endless, never, 1, .95, s, &count), TWIN_EINVAL);
    assert_int_equal(twin_stats_kaplan_meier(steps, all, 3, 1, s, &count), TWIN_EINVAL);
    /* nothing parted */
    assert_int_equal(twin_stats_log_rank(steps, never, 3, steps, never, 3, &t), 0);
    assert_true(t.observed == 0 && t.expected == 0 && isnan(t.chi2) && isnan(t.p));
    assert_int_equal(
        twin_stats_log_rank((const double[]){0}, all, 1, (const double[]){5}, all, 1, &t), 0);
    assert_true(t.observed == 1 &&
                /* one run each: variance 1/4 at the first time, none at the second */
                t.expected == .5);
    CLOSE(t.chi2, 1.);
    assert_int_equal(twin_stats_log_rank(steps, never, 0, steps, never, 3, &t), TWIN_EINVAL);
    assert_int_equal(twin_stats_log_rank(steps, never, 3, bad, all, 2, &t), TWIN_EINVAL);
    for (uint64_t at = 1; at <= 2; at++) {
        tw_alloc_fail_at(at, false);
        assert_int_equal(twin_stats_log_rank(steps, once, 3, steps, never, 3, &t), TWIN_ENOMEM);
        assert_true(isnan(t.observed));
    }
    tw_alloc_fail_at(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leukaemia),
        cmocka_unit_test(uncensored_is_the_empirical_one),
        cmocka_unit_test(log_rank),
        cmocka_unit_test(survival_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
