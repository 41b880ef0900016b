/* SPDX-License-Identifier: Apache-2.0 */
/* From runs to a scaling curve. Oracle: NumPy's quantile, scipy.stats 1.17.1 (t.ppf,
 * ttest_ind(equal_var=False).confidence_interval, bootstrap BCa). */
#include "src/stats/scaling.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base.h"

#define CLOSE(actual, expected) assert_true(fabs((actual) - (expected)) <= 1e-10 * fabs(expected))

static const double two[] = {100, 103, 98.5, 101.2}, four[] = {180, 176, 188};
static const double first[] = {.010,  .012,  .011, .013,  .010, .0105,
                               .0102, .0131, .019, .0108, .0111},
                    second[] = {.011,  .0112, .012,  .0125, .0101, .0108,
                                .0100, .0109, .0119, .0121, .014};

static void curve(void **state)
{
    (void)state;
    const struct twin_scaling_set set[] = {{.workers = 4, .rate = four, .runs = 3},
                                           {.workers = 8},
                                           {.workers = 2, .rate = two, .runs = 4}};
    struct twin_scaling_point p[3];
    double z[7];
    assert_int_equal(twin_scaling(set, 3, .95, p, z), 0);
    CLOSE(p[2].rate.value, 100.66152183609718);
    CLOSE(p[2].rate.interval.low, 97.68077565894492);
    CLOSE(p[2].rate.interval.high, 103.73322601099946);
    assert_true(p[2].speedup.value == 1 && p[2].efficiency.value == 1 &&
                isnan(p[2].efficiency.interval.low));
    CLOSE(p[0].rate.interval.high, 197.01097921121652);
    CLOSE(p[0].speedup.value, 1.8007393245610572);
    CLOSE(p[0].speedup.interval.low, 1.680403981413829);
    CLOSE(p[0].speedup.interval.high, 1.9296919972138835);
    CLOSE(p[0].efficiency.interval.high, 1.9296919972138835 / 2);
    CLOSE(p[0].cost.value, 4 / 181.26516084042174);
    CLOSE(p[0].cost.interval.low, 4 / 197.01097921121652);
    CLOSE(p[0].cost.interval.high, 4 / 166.77780429322033);
    assert_true(isnan(p[0].median.interval.low) && p[0].median.value == 180 &&
                isnan(p[0].latency[0].value));
    assert_true(p[1].runs == 0 && isnan(p[1].rate.value) && isnan(p[1].efficiency.value) &&
                isnan(p[1].mad.mad));
    /* of 188: the median is 180, the MAD 4; z goes on with the next set that has runs */
    CLOSE(z[2], .6745 * 8 / 4);
    CLOSE(z[4], .6745 * (103 - 100.6) / 1.35);
}

static void latencies(void **state)
{
    (void)state;
    const double rate[] = {1, 1.1}, *step[] = {first, second};
    const size_t steps[] = {11, 11}, few[] = {11, 9};
    struct twin_scaling_set set = {
        .workers = 2, .rate = rate, .runs = 2, .step = step, .steps = steps};
    struct twin_scaling_point p;
    assert_int_equal(twin_scaling(&set, 1, .95, &p, NULL), 0);
    CLOSE(p.latency[TWIN_SCALING_P50].value, .011099549540409287);
    CLOSE(p.latency[TWIN_SCALING_P50].interval.low, .009898974001632983);
    CLOSE(p.latency[TWIN_SCALING_P50].interval.high, .01244573427303439);
    CLOSE(p.latency[TWIN_SCALING_P90].value, .012796483892069733);
    CLOSE(p.latency[TWIN_SCALING_P90].interval.high, .01723645569315846);
    assert_true(isnan(p.latency[TWIN_SCALING_P99].value)); /* 11 steps have no 99th of a hundred */
    set.steps = few;
    assert_int_equal(twin_scaling(&set, 1, .95, &p, NULL), 0);
    assert_true(isnan(p.latency[TWIN_SCALING_P90].value) &&
                !isnan(p.latency[TWIN_SCALING_P50].value));
}

static void many_runs(void **state)
{
    (void)state;
    double rate[24];
    for (int i = 0; i < 24; i++)
        rate[i] = 100 * exp(sin(i + 1) * .03);
    const struct twin_scaling_set set = {.workers = 1, .rate = rate, .runs = 24};
    struct twin_scaling_point p;
    assert_int_equal(twin_scaling(&set, 1, .95, &p, NULL), 0);
    /* BCa, not Student's 99.078 and 100.949 */
    assert_true(fabs(p.rate.interval.low - 99.144) < .03 &&
                fabs(p.rate.interval.high - 100.875) < .03);
    /* order statistics 7 and 18 of 24: 1 - 2 binom.cdf(6, 24, .5) */
    CLOSE(p.median.confidence, 0.9773441553115845);
}

static void no_spread(void **state)
{
    (void)state;
    const double same[] = {5, 5, 5, 5}, one[] = {9};
    const struct twin_scaling_set set[] = {{.workers = 1, .rate = same, .runs = 4},
                                           {.workers = 2, .rate = one, .runs = 1}};
    struct twin_scaling_point p[2];
    double z[5], equal[30];
    assert_int_equal(twin_scaling(set, 2, .95, p, z), 0);
    assert_true(p[0].mad.mad == 0 && p[0].mad.outliers == 0 && isnan(z[0]));
    assert_true(p[0].rate.interval.low == p[0].rate.interval.high);
    /* one run has no interval */
    assert_true(isnan(p[1].rate.interval.low) && isnan(p[1].speedup.interval.low));
    CLOSE(p[1].speedup.value, 1.8);
    for (int i = 0; i < 30; i++)
        equal[i] = 3;
    assert_int_equal(
        twin_scaling(&(struct twin_scaling_set){.workers = 1, .rate = equal, .runs = 30}, 1, .95, p,
                     NULL),
        0);
    CLOSE(p[0].rate.value, 3.);
    assert_true(p[0].rate.interval.low <= p[0].rate.interval.high);
}

static void refused(void **state)
{
    (void)state;
    const double bad[] = {1, 0}, nan[] = {NAN}, ok[] = {1}, *step[] = {bad};
    const size_t steps[] = {2};
    struct twin_scaling_point p;
    assert_int_equal(twin_scaling(&(struct twin_scaling_set){.workers = 1, .rate = bad, .runs = 2},
                                  1, .95, &p, NULL),
                     TWIN_EINVAL);
    assert_int_equal(twin_scaling(&(struct twin_scaling_set){.workers = 1, .rate = nan, .runs = 1},
                                  1, .95, &p, NULL),
                     TWIN_EINVAL);
    assert_int_equal(twin_scaling(&(struct twin_scaling_set){.workers = 0, .rate = ok, .runs = 1},
                                  1, .95, &p, NULL),
                     TWIN_EINVAL);
    assert_int_equal(twin_scaling(&(struct twin_scaling_set){.workers = 1, .rate = ok, .runs = 1},
                                  1, 1, &p, NULL),
                     TWIN_EINVAL);
    assert_int_equal(twin_scaling(
                         &(struct twin_scaling_set){
                             .workers = 1, .rate = ok, .runs = 1, .step = step, .steps = steps},
                         1, .95, &p, NULL),
                     TWIN_EINVAL);
}

static void no_memory(void **state)
{
    (void)state;
    const double *step[] = {first, second, first, second};
    const size_t steps[] = {11, 11, 11, 11};
    const struct twin_scaling_set set = {
        .workers = 2, .rate = two, .runs = 4, .step = step, .steps = steps};
    struct twin_scaling_point p;
    int rc = TWIN_ENOMEM;
    for (uint64_t n = 1; rc == TWIN_ENOMEM; n++) {
        assert_true(n < 100);
        tw_alloc_fail_at(n, false);
        rc = twin_scaling(&set, 1, .95, &p, NULL);
    }
    tw_alloc_fail_at(0, false);
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curve),     cmocka_unit_test(latencies), cmocka_unit_test(many_runs),
        cmocka_unit_test(no_spread), cmocka_unit_test(refused),   cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
