/* SPDX-License-Identifier: Apache-2.0 */
/* Rates, hazards and sequential tests. Oracles: the design paper; special and stats are
 * scipy.special and scipy.stats, 1.17.1; exact enumeration. */
#include "src/stats/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Equal to a relative error of 1e-10 */
#define CLOSE(actual, expected) assert_true(fabs((actual) - (expected)) <= 1e-10 * fabs(expected))
#define NEAR(actual, expected, tolerance) assert_true(fabs((actual) - (expected)) <= (tolerance))

static const struct twin_sprt usual = {.p0 = .01, .p1 = .2, .alpha = .05, .beta = .05};

static void sprt(void **state)
{
    (void)state;
    struct twin_interval b = twin_stats_sprt_bounds(usual);
    NEAR(b.low, -2.944439, 5e-7);
    NEAR(b.high, 2.944439, 5e-7);
    assert_int_equal(twin_stats_sprt_clean_needed(usual), 14);
    assert_true(twin_stats_sprt_log_ratio(usual, 0, 13) > b.low &&
                twin_stats_sprt_log_ratio(usual, 0, 14) <= b.low);
    CLOSE(twin_stats_sprt_log_ratio(usual, 1, 1), log(20));
    assert_int_equal(twin_stats_sprt_decide(usual, 0, 0), TWIN_SPRT_CONTINUE);
    assert_int_equal(twin_stats_sprt_decide(usual, 0, 13), TWIN_SPRT_CONTINUE);
    assert_int_equal(twin_stats_sprt_decide(usual, 0, 14), TWIN_SPRT_CLEAN);
    /* a plain test would accept here; one divergence is proof */
    assert_true(twin_stats_sprt_log_ratio(usual, 1, 29) <= b.low);
    assert_int_equal(twin_stats_sprt_decide(usual, 1, 29), TWIN_SPRT_DIVERGES);
    for (uint64_t n = 1; n < 2000; n++)
        assert_int_equal(twin_stats_sprt_decide(usual, 1, n), TWIN_SPRT_DIVERGES);
    assert_int_equal(twin_stats_sprt_decide(usual, UINT64_MAX, UINT64_MAX), TWIN_SPRT_DIVERGES);
}

static void sprt_bad_plans(void **state)
{
    (void)state;
    static const struct twin_sprt bad[] = {
        {.2, .01, .05, .05}, {.1, .1, .05, .05},  {0, .2, .05, .05},
        {.01, 1, .05, .05},  {.01, .2, 0, .05},   {.01, .2, .05, 1},
        {.01, .2, .6, .6},   {NAN, .2, .05, .05}, {.01, .2, .5, .5}};
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(twin_stats_sprt_decide(bad[i], 0, 100), TWIN_SPRT_INVALID);
        assert_int_equal(twin_stats_sprt_clean_needed(bad[i]), 0);
        assert_true(isnan(twin_stats_sprt_bounds(bad[i]).low) &&
                    isnan(twin_stats_sprt_log_ratio(bad[i], 0, 1)));
    }
    assert_int_equal(twin_stats_sprt_decide(usual, 3, 2), TWIN_SPRT_INVALID);
}

static void hazard_and_clean_runs(void **state)
{
    (void)state;
    CLOSE(twin_stats_rate_lower(1, 1, .95), .05);
    assert_int_equal(twin_stats_clean_needed(.05, .05, 6), 94);
    /* 3 of 3 runs: p = .37, r = 11 at T = 6 */
    NEAR(twin_stats_rate_lower(3, 3, .95), .37, .005);
    assert_int_equal(twin_stats_clean_needed(twin_stats_rate_lower(3, 3, .95), .05, 6), 11);
    /* stats.beta.ppf(.05, 3, 998) */
    CLOSE(twin_stats_rate_lower(3, 1000, .95), 0.0008181753982218001);
    /* stats.beta.ppf(.05, 19, 2) */
    CLOSE(twin_stats_rate_lower(19, 20, .95), 0.7838938357931526);
    /* stats.beta.ppf(.05, 1, 10**9) */
    CLOSE(twin_stats_rate_lower(1, 1000000000, .95), 5.1293294386235036e-11);
    assert_true(twin_stats_rate_lower(0, 10, .95) == 0 && twin_stats_rate_lower(0, 0, .95) == 0);
    assert_true(isnan(twin_stats_rate_lower(2, 1, .95)) && isnan(twin_stats_rate_lower(1, 2, 1)) &&
                isnan(twin_stats_rate_lower(1, 2, NAN)));
    assert_int_equal(twin_stats_clean_needed(1, .05, 1), 1);
    assert_int_equal(twin_stats_clean_needed(0, .05, 1), 0); /* no number of clean runs suffices */
    assert_int_equal(twin_stats_clean_needed(.1, 0, 1), 0);
    assert_int_equal(twin_stats_clean_needed(.1, .05, 0), 0);
    assert_int_equal(twin_stats_clean_needed(NAN, .05, 1), 0);
    assert_int_equal(twin_stats_clean_needed(1e-300, .05, 1), UINT64_MAX);
    for (double rate = .003; rate < 1; rate += .0071)
        for (uint64_t tests = 1; tests < 40; tests += 3) { /* the smallest N, by its definition */
            uint64_t n = twin_stats_clean_needed(rate, .05, tests);
            assert_true(pow(1 - rate, (double)n) <= .05 / (double)tests * (1 + 1e-12));
            assert_true(n == 1 || pow(1 - rate, (double)n - 1) > .05 / (double)tests * (1 - 1e-12));
        }
}

static void e_process(void **state)
{
    (void)state;
    assert_int_equal(twin_stats_e_clean_needed(.1, .05), 53);
    assert_int_equal(twin_stats_e_clean_needed(.05, .05), 116);
    assert_int_equal(twin_stats_e_clean_needed(.01, .05), 680);
    NEAR(twin_stats_e_log(2, 18, .01), 1.138899, 5e-7);
    NEAR(twin_stats_e_log(0, 0, .3), 0, 1e-15);
    CLOSE(twin_stats_e_log(0, 53, .1),
          /* special.betaln(.5, 53.5) - special.betaln(.5, .5) - 53 * math.log1p(-.1) */
          3.024237974578398);
    CLOSE(twin_stats_e_log(7, 3, .2),
          4.421691421162224); /* special.betaln(7.5, 3.5) - special.betaln(.5, .5) - 7 *
                                 math.log(.2) - 3 * math.log1p(-.2) */
    assert_true(twin_stats_e_log(0, 53, .1) >= log(20) && twin_stats_e_log(0, 52, .1) < log(20));
    assert_true(isnan(twin_stats_e_log(1, 1, 0)) && isnan(twin_stats_e_log(1, 1, 1)) &&
                isnan(twin_stats_e_log(1, 1, NAN)));
    assert_true(isfinite(twin_stats_e_log(UINT64_MAX, UINT64_MAX, .5)));
    assert_int_equal(twin_stats_e_clean_needed(0, .05), 0);
    assert_int_equal(twin_stats_e_clean_needed(.1, 1), 0);
    assert_int_equal(twin_stats_e_clean_needed(1e-20, .05), 0);
    assert_true(twin_stats_e_clean_needed(1e-15, .05) > UINT64_C(1000000000000000));
}

static void e_process_is_a_martingale(void **state)
{
    (void)state;
    /* under p0 the expected e-value of n comparisons is 1, whatever n: summed over every outcome */
    static const double p0[] = {.02, .3, .9};
    for (size_t i = 0; i < 3; i++)
        for (uint64_t n = 0; n <= 40; n += 8) {
            double expected = 0, choose = 1;
            for (uint64_t s = 0; s <= n; s++) {
                double p = choose * pow(p0[i], (double)s) * pow(1 - p0[i], (double)(n - s));
                expected += p * exp(twin_stats_e_log(s, n - s, p0[i]));
                choose *= (double)(n - s) / (double)(s + 1);
            }
            NEAR(expected, 1, 1e-11);
        }
}

static void one_sided_e_process(void **state)
{
    (void)state;
    /* mpmath: log of the ratio of the two integrals of t^(s - 1/2) (1 - t)^(f - 1/2) over the side,
     * less s log p + f log(1 - p) */
    CLOSE(twin_stats_e_above_log(2, 0, .05), 5.165420344613194);
    CLOSE(twin_stats_e_below_log(2, 0, .05), -1.599699128162361);
    CLOSE(twin_stats_e_above_log(6, 0, .5), 3.359773314868504);
    CLOSE(twin_stats_e_below_log(6, 0, .5), -2.382337830665859);
    CLOSE(twin_stats_e_above_log(3, 17, .05), -0.2206411375104297);
    CLOSE(twin_stats_e_below_log(0, 20, .1), 1.576677771847075);
    CLOSE(twin_stats_e_below_log(40, 60, .5), 0.1530177271920406);
    NEAR(twin_stats_e_above_log(0, 0, .3), 0, 1e-14);
    NEAR(twin_stats_e_below_log(0, 0, .3), 0, 1e-14);
    assert_true(isnan(twin_stats_e_above_log(1, 1, 0)) && isnan(twin_stats_e_below_log(1, 1, 1)));
}

static void one_sided_e_process_is_a_supermartingale(void **state)
{
    (void)state;
    /* every outcome enumerated: 1 on average at p0, no more at any rate on the side of "no worse",
     * and clearly more on the other */
    for (double p0 = .1; p0 < .95; p0 += .2)
        for (double p = .02; p < 1; p += .06)
            for (uint64_t n = 1; n <= 31; n += 10) {
                double above = 0, below = 0, mass = pow(1 - p, (double)n);
                for (uint64_t s = 0; s <= n; s++) {
                    above += mass * exp(twin_stats_e_above_log(s, n - s, p0));
                    below += mass * exp(twin_stats_e_below_log(s, n - s, p0));
                    mass *= (double)(n - s) / (double)(s + 1) * p / (1 - p);
                }
                assert_true(p > p0 ? above > 1 : above <= 1 + 1e-9);
                assert_true(p < p0 ? below > 1 : below <= 1 + 1e-9);
            }
}

static void interval_at_every_look(void **state)
{
    (void)state;
    struct twin_interval none = twin_stats_e_interval(0, 0, .05);
    assert_true(none.low == 0 && none.high == 1);
    /* its ends are where the e-process reaches the bar */
    for (uint64_t s = 0; s <= 20; s += 4)
        for (uint64_t f = s == 0; f <= 30; f += 6) {
            struct twin_interval i = twin_stats_e_interval(s, f, .05);
            const double share = (double)s / (double)(s + f);
            assert_true(0 <= i.low && i.low <= share && share <= i.high && i.high <= 1);
            if (i.low > 0)
                NEAR(twin_stats_e_above_log(s, f, i.low), log(20), 1e-6);
            if (i.high < 1)
                NEAR(twin_stats_e_below_log(s, f, i.high), log(20), 1e-6);
        }
    /* the chance that it ever leaves the rate out in 60 looks, by the exact law of the walk: a
     * state is the number of events, and what left is dropped */
    for (double p = .05; p < 1; p += .15) {
        double at[62] = {1}, left = 0;
        for (uint64_t n = 1; n <= 60; n++) {
            for (uint64_t s = n; s + 1 > 0; s--) {
                at[s] = at[s] * (1 - p) + (s ? at[s - 1] * p : 0);
                struct twin_interval i = twin_stats_e_interval(s, n - s, .05);
                if (p < i.low || p > i.high) {
                    left += at[s];
                    at[s] = 0;
                }
                if (s == 0)
                    break;
            }
        }
        assert_true(left <= .1);
    }
    assert_true(isnan(twin_stats_e_interval(1, 1, 0).low));
}

static void clopper_pearson_covers(void **state)
{
    (void)state;
    /* every outcome enumerated: the interval holds the rate with at least the stated probability */
    for (uint64_t n = 1; n <= 40; n += 3)
        for (double p = .005; p < 1; p += .0171) {
            double covered = 0, covered_below = 0, mass = pow(1 - p, (double)n);
            for (uint64_t k = 0; k <= n; k++) {
                struct twin_interval i = twin_stats_clopper_pearson(k, n, .95);
                covered += i.low <= p && p <= i.high ? mass : 0;
                covered_below += twin_stats_rate_lower(k, n, .95) <= p ? mass : 0;
                mass *= (double)(n - k) / (double)(k + 1) * p / (1 - p);
            }
            assert_true(covered >= .95 - 1e-12 && covered_below >= .95 - 1e-12);
        }
}

static void intervals_are_monotone(void **state)
{
    (void)state;
    static const uint64_t size[] = {1, 7, 50, 1000, 1000000};
    for (size_t i = 0; i < 5; i++) {
        struct twin_interval before = {-1, -1};
        for (uint64_t k = 0; k <= size[i]; k += size[i] / 7 + 1) {
            struct twin_interval now = twin_stats_clopper_pearson(k, size[i], .95);
            struct twin_interval wider = twin_stats_clopper_pearson(k, size[i], .99);
            double rate = (double)k / (double)size[i];
            assert_true(now.low > before.low && now.high > before.high && now.low <= rate &&
                        rate <= now.high);
            assert_true(wider.low <= now.low && wider.high >= now.high);
            assert_true(twin_stats_rate_lower(k, size[i], .95) >= now.low);
            before = now;
        }
    }
    for (uint64_t n = 1; n < 500; n++) {
        assert_true(twin_stats_zero_bound(n + 1, .95) < twin_stats_zero_bound(n, .95));
        CLOSE(twin_stats_clopper_pearson(0, n, .90).high, twin_stats_zero_bound(n, .95));
    }
    /* huge counts */
    /* 1e21 would be needed */
    assert_int_equal(twin_stats_trials_needed_allowing(1u << 30, 1e-12, .95), UINT64_MAX);
    uint64_t trials = twin_stats_trials_needed_allowing(2, 1e-12, .95);
    NEAR((double)trials * 1e-12, 6.2957936218719, 1e-10); /* half of stats.chi2.ppf(.95, 6) */
    struct twin_interval huge = twin_stats_clopper_pearson(5, UINT64_C(1000000000000), .95);
    /* half of stats.chi2.ppf(.025, 10): the Poisson limit */
    CLOSE(huge.low * 1e12, 1.6234863901184207);
    CLOSE(huge.high * 1e12, 11.66833207932267); /* half of stats.chi2.ppf(.975, 12) */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sprt),
        cmocka_unit_test(sprt_bad_plans),
        cmocka_unit_test(hazard_and_clean_runs),
        cmocka_unit_test(e_process),
        cmocka_unit_test(e_process_is_a_martingale),
        cmocka_unit_test(one_sided_e_process),
        cmocka_unit_test(one_sided_e_process_is_a_supermartingale),
        cmocka_unit_test(interval_at_every_look),
        cmocka_unit_test(clopper_pearson_covers),
        cmocka_unit_test(intervals_are_monotone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
