/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mann-Whitney and Hodges-Lehmann. Oracles: R's manual (wilcox.test); scipy.stats 1.17.1;
 * enumeration of every split.
 */
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

/*
 * wilcox.test's example: permeability constants of the chorioamnion (Hollander and Wolfe 1973, 69f)
 */
static const double x[] = {.80, .83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, .73, 1.46};
static const double y[] = {1.15, .88, .90, .74, 1.21};

static struct twin_mann_whitney test(const double *a, size_t na, const double *b, size_t nb,
                                     enum twin_side side)
{
    struct twin_mann_whitney m;
    assert_int_equal(twin_stats_mann_whitney(a, na, b, nb, side, &m), 0);
    return m;
}

static void r_manual(void **state)
{
    (void)state;
    struct twin_mann_whitney m = test(x, 10, y, 5, TWIN_TWO_SIDED);
    assert_true(m.u == 35 && m.method == TWIN_METHOD_EXACT);
    NEAR(m.p, .2544123, 5e-8);
    CLOSE(test(x, 10, y, 5, TWIN_GREATER).p,
          .1272061272061272); /* stats.mannwhitneyu(x, y, 'greater', method='exact') */
    CLOSE(test(x, 10, y, 5, TWIN_LESS).p, .8967698967698967);
    CLOSE(test(y, 5, x, 10, TWIN_LESS).p, .1272061272061272);
    assert_true(test(y, 5, x, 10, TWIN_LESS).u == 15);
    struct twin_estimate e;
    assert_int_equal(twin_stats_hodges_lehmann(x, 10, y, 5, .95, &e), 0);
    CLOSE(e.value, .305);
    NEAR(e.interval.low, -.15, 1e-12);
    NEAR(e.interval.high, .76, 1e-12);
    CLOSE(e.confidence, 1 - 2 * 60. / 3003); /* 60 of the 3003 splits have U <= 8 */
}

static void ties(void **state)
{
    (void)state;
    /* stats.mannwhitneyu(a, b, method=stats.PermutationMethod(n_resamples=np.inf)) */
    static const double a[] = {1, 2, 2, 3, 5}, b[] = {2, 3, 4, 4, 6, 6};
    struct twin_mann_whitney m = test(a, 5, b, 6, TWIN_TWO_SIDED);
    assert_true(m.u == 6.5 && m.method == TWIN_METHOD_PERMUTATION);
    CLOSE(m.p, .12554112554112554);
    CLOSE(test(a, 5, b, 6, TWIN_GREATER).p, .9502164502164502);
    CLOSE(test(a, 5, b, 6, TWIN_LESS).p, .06277056277056277);
    CLOSE(test(b, 6, a, 5, TWIN_GREATER).p, .06277056277056277);
    /* one pair of equals is enough */
    assert_int_equal(test((const double[]){1, 2}, 2, (const double[]){2, 3}, 2, TWIN_LESS).method,
                     TWIN_METHOD_PERMUTATION);
    static const double flat[] = {7, 7, 7, 7};
    assert_true(test(flat, 4, flat, 3, TWIN_TWO_SIDED).p == 1 &&
                test(flat, 4, flat, 3, TWIN_GREATER).p == 1);
    /* infinite values (a run that never ended) are ranks like others; -0 equals 0 */
    assert_true(test((const double[]){INFINITY, INFINITY}, 2, (const double[]){1, INFINITY}, 2,
                     TWIN_GREATER)
                    .u == 3);
    assert_true(test((const double[]){-0.0}, 1, (const double[]){0}, 1, TWIN_GREATER).u == .5);
}

/* P(U >= u) and P(U <= u) by splitting the pool in every way; U by counting pairs. */
static void enumerate(const double *pool, unsigned n, unsigned na, double u, double *greater,
                      double *less)
{
    double splits = 0, more = 0, fewer = 0;
    for (unsigned chosen = 0; chosen < 1u << n; chosen++) {
        if ((unsigned)__builtin_popcount(chosen) != na)
            continue;
        double pairs = 0;
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = 0; j < n; j++)
                if ((chosen >> i & 1) && !(chosen >> j & 1))
                    pairs += pool[i] > pool[j] ? 1 : pool[i] == pool[j] ? .5 : 0;
        splits++;
        more += pairs >= u;
        fewer += pairs <= u;
    }
    *greater = more / splits;
    *less = fewer / splits;
}

static void exact_by_enumeration(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 40; round++) {
        double pool[10];
        unsigned na = 1 + (unsigned)(round % 9), nb = 10 - na, kinds = round < 20 ? 4 : 1000000;
        for (int i = 0; i < 10; i++)
            pool[i] = (double)(tw_mix64(++seed) % kinds);
        double greater, less;
        struct twin_mann_whitney m = test(pool, na, pool + na, nb, TWIN_GREATER);
        enumerate(pool, 10, na, m.u, &greater, &less);
        CLOSE(m.p, greater);
        CLOSE(test(pool, na, pool + na, nb, TWIN_LESS).p, less);
        CLOSE(test(pool, na, pool + na, nb, TWIN_TWO_SIDED).p, fmin(1, 2 * fmin(greater, less)));
    }
}

static void large_samples(void **state)
{
    (void)state;
    double a[60], b[55];
    for (int i = 0; i < 60; i++)
        a[i] = i * 7 % 31;
    for (int i = 0; i < 55; i++)
        b[i] = i * 11 % 37;
    /* stats.mannwhitneyu(a, b, method='asymptotic') */
    struct twin_mann_whitney m = test(a, 60, b, 55, TWIN_TWO_SIDED);
    assert_true(m.u == 1387.5 && m.method == TWIN_METHOD_NORMAL);
    CLOSE(m.p, .14223447408796805);
    CLOSE(test(a, 60, b, 55, TWIN_GREATER).p, .9296409128168918);
    CLOSE(test(a, 60, b, 55, TWIN_LESS).p, .07111723704398402);
    double early[40], late[45], zeros[150] = {0};
    for (int i = 0; i < 40; i++)
        early[i] = i;
    for (int i = 0; i < 45; i++)
        late[i] = i + 3.5;
    m = test(early, 40, late, 45, TWIN_TWO_SIDED);
    assert_int_equal(m.method, TWIN_METHOD_EXACT);
    CLOSE(m.p, .039352997900810205); /* stats.mannwhitneyu(early, late, method='exact') */
    assert_true(test(zeros, 80, zeros, 70, TWIN_TWO_SIDED).p == 1);
    struct twin_estimate e;
    assert_int_equal(twin_stats_hodges_lehmann(a, 60, b, 55, .95, &e), 0);
    assert_true(e.value == -3 && e.interval.low <= -3 && e.interval.high >= -3 &&
                e.confidence == .95);
    for (int i = 0; i < 55; i++)
        b[i] += i % 10 / 16.;
    assert_int_equal(twin_stats_hodges_lehmann(a, 60, b, 55, .95, &e), 0);
    /* NumPy, all differences sorted: the 1300th from each end, the last with stats.norm.cdf((1299.5
     * - 1650) / sd) <= .025 */
    assert_true(e.value == -3.25 && e.interval.low == -7.1875 && e.interval.high == .6875);
}

static void shift_properties(void **state)
{
    (void)state;
    /* against every difference, sorted; the interval moves and turns with the data */
    uint64_t seed = 11;
    for (size_t na = 1; na < 12; na++)
        for (size_t nb = 1; nb < 12; nb += 2) {
            double a[12], b[12], moved[12], all[144];
            for (size_t i = 0; i < 12; i++) {
                a[i] = (double)(tw_mix64(++seed) % 1024) / 8;
                b[i] = (double)(tw_mix64(++seed) % 1024) / 8;
                moved[i] = a[i] + 16;
            }
            for (size_t i = 0; i < na * nb; i++)
                all[i] = a[i / nb] - b[i % nb];
            struct twin_estimate e, m, back;
            double median;
            assert_int_equal(twin_stats_median(all, na * nb, &median), 0);
            assert_int_equal(twin_stats_hodges_lehmann(a, na, b, nb, .9, &e), 0);
            assert_int_equal(twin_stats_hodges_lehmann(moved, na, b, nb, .9, &m), 0);
            assert_int_equal(twin_stats_hodges_lehmann(b, nb, a, na, .9, &back), 0);
            assert_true(e.value == median && m.value == median + 16 && back.value == -median);
            if (isnan(e.interval.low)) {
                assert_true(isnan(e.confidence) && na * nb < 20);
                continue;
            }
            assert_true(e.confidence >= .9 && e.interval.low <= median &&
                        median <= e.interval.high);
            assert_true(m.interval.low == e.interval.low + 16 &&
                        back.interval.high == -e.interval.low);
        }
}

static void rank_edges(void **state)
{
    (void)state;
    struct twin_mann_whitney m;
    struct twin_estimate e;
    static const double bad[] = {1, NAN}, endless[] = {1, INFINITY};
    assert_int_equal(twin_stats_mann_whitney(x, 0, y, 5, TWIN_GREATER, &m), TWIN_EINVAL);
    assert_true(isnan(m.p) && isnan(m.u) && m.method == TWIN_METHOD_NONE);
    assert_int_equal(twin_stats_mann_whitney(x, 10, bad, 2, TWIN_GREATER, &m), TWIN_EINVAL);
    assert_int_equal(twin_stats_hodges_lehmann(x, 10, y, 0, .95, &e), TWIN_EINVAL);
    assert_int_equal(twin_stats_hodges_lehmann(x, 10, endless, 2, .95, &e), TWIN_EINVAL);
    assert_int_equal(twin_stats_hodges_lehmann(x, 10, y, 5, 1, &e), TWIN_EINVAL);
    assert_true(isnan(e.value));
    /* 1 of 20 splits is more than 2.5% */
    assert_int_equal(twin_stats_hodges_lehmann(x, 3, y, 3, .95, &e), 0);
    assert_true(isfinite(e.value) && isnan(e.interval.low) && isnan(e.confidence));
    assert_int_equal(
        twin_stats_hodges_lehmann((const double[]){-0.0}, 1, (const double[]){0}, 1, .95, &e), 0);
    assert_true(e.value == 0 && !signbit(e.value));
    for (uint64_t at = 1; at <= 2; at++) {
        tw_alloc_fail_at(at, false);
        assert_int_equal(twin_stats_mann_whitney(x, 10, y, 5, TWIN_GREATER, &m), TWIN_ENOMEM);
        assert_true(isnan(m.p) && isnan(m.u));
    }
    for (uint64_t at = 1; at <= 3; at++) {
        tw_alloc_fail_at(at, false);
        assert_int_equal(twin_stats_hodges_lehmann(x, 10, y, 5, .95, &e), TWIN_ENOMEM);
        assert_true(isnan(e.value));
    }
    tw_alloc_fail_at(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r_manual),
        cmocka_unit_test(ties),
        cmocka_unit_test(exact_by_enumeration),
        cmocka_unit_test(large_samples),
        cmocka_unit_test(shift_properties),
        cmocka_unit_test(rank_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
