/* SPDX-License-Identifier: Apache-2.0 */
/* Bootstrap and permutation tests. Oracles: Efron and Tibshirani's law-school and mouse data;
 * scipy.stats 1.17.1; enumeration. */
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

struct pairs {
    const double *x, *y;
};

static double correlation(const void *data, const size_t *index, size_t n)
{
    const struct pairs *p = data;
    double mx = twin_stats_mean_of(p->x, index, n);
    double my = twin_stats_mean_of(p->y, index, n);
    double xx = 0;
    double yy = 0;
    double xy = 0;
    for (size_t i = 0; i < n; i++) {
        double dx = p->x[index[i]] - mx, dy = p->y[index[i]] - my;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

static double always(const void *data, const size_t *index, size_t n)
{
    (void)index;
    (void)n;
    return *(const double *)data;
}

static const double lsat[] = {576, 635, 558, 578, 666, 580, 555, 661,
                              651, 605, 653, 575, 545, 572, 594};
static const double gpa[] = {3.39, 3.30, 2.81, 3.03, 3.44, 3.07, 3.00, 3.43,
                             3.36, 3.13, 3.12, 2.74, 2.76, 2.88, 2.96};
static const struct pairs law = {lsat, gpa};
/* survival of treated and untreated mice, days */
static const double mice[] = {94, 197, 16, 38, 99, 141, 23, 52, 104, 146, 10, 51, 30, 40, 27, 46};
static const struct twin_arms arms = {mice, 7};

static void law_school(void **state)
{
    (void)state;
    struct twin_bca b, again, other;
    assert_int_equal(twin_stats_bca(correlation, &law, 15, 40000, 1, .95, &b), 0);
    NEAR(b.value, .776374, 5e-7);
    NEAR(b.acceleration, -.0756716, 5e-8);
    /* stats.bootstrap((lsat, gpa), pearson, paired=True, n_resamples=200000, method='BCa'): .33094
     * to .94217, either way random */
    NEAR(b.interval.low, .33094, .015);
    NEAR(b.interval.high, .94217, .003);
    assert_true(b.bias < 0 && b.bias > -.2 && b.undefined == 0);
    assert_int_equal(twin_stats_bca(correlation, &law, 15, 40000, 1, .95, &again), 0);
    assert_memory_equal(&b, &again, sizeof b); /* repeatable to the last bit */
    assert_int_equal(twin_stats_bca(correlation, &law, 15, 40000, 2, .95, &other), 0);
    assert_true(other.interval.low != b.interval.low && other.acceleration == b.acceleration);
    assert_int_equal(twin_stats_bca(correlation, &law, 15, 40000, 1, .99, &other), 0);
    assert_true(other.interval.low < b.interval.low && other.interval.high > b.interval.high);
}

static void bootstrap_of_a_mean(void **state)
{
    (void)state;
    static const double z[] = {94,  198, 18, 41,  103, 146, 29, 101, 205, 25, 48,
                               110, 153, 36, 108, 212, 32,  55, 117, 160, 43};
    struct twin_bca b;
    assert_int_equal(twin_stats_bca(twin_stats_mean_of, z, 21, 40000, 7, .95, &b), 0);
    CLOSE(b.value, 96.85714285714286);
    /* stats.bootstrap((z,), np.mean, n_resamples=400000, method='BCa'): 72.381 to 125.095 */
    NEAR(b.interval.low, 72.381, .6);
    NEAR(b.interval.high, 125.095, .8);
    double skew = 0, square = 0; /* for a mean, a is the skewness of the data / (6 sqrt n) */
    for (size_t i = 0; i < 21; i++) {
        double d = z[i] - b.value;
        square += d * d;
        skew += d * d * d;
    }
    CLOSE(b.acceleration, skew / (6 * pow(square, 1.5)));
}

struct tape {
    const double *x;
    double *values;
    size_t used;
};

static double taped_mean(const void *data, const size_t *index, size_t n)
{
    struct tape *t = (struct tape *)(uintptr_t)data; /* writes down what the bootstrap saw */
    return t->values[t->used++] = twin_stats_mean_of(t->x, index, n);
}

static double order_statistic(const double *x, size_t n, size_t rank) /* counted, not sorted */
{
    for (size_t i = 0; i < n; i++) {
        size_t below = 0, equal = 0;
        for (size_t j = 0; j < n; j++) {
            below += x[j] < x[i];
            equal += x[j] == x[i];
        }
        if (below <= rank && rank < below + equal)
            return x[i];
    }
    return NAN;
}

/* The interval is where the formula of Efron and Tibshirani (14.10) points, between neighbouring
 * bootstrap values. */
static void interval_by_the_formula(void **state)
{
    (void)state;
    double values[1 + 15 + 100], share = 0;
    struct tape tape = {gpa, values, 0};
    struct twin_bca b;
    assert_int_equal(twin_stats_bca(taped_mean, &tape, 15, 100, 9, .8, &b), 0);
    assert_int_equal(tape.used, 1 + 15 + 100); /* the data, the jackknife, the resamples */
    for (size_t i = 16; i < 116; i++)
        share += values[i] < b.value ? .01 : values[i] == b.value ? .005 : 0;
    NEAR(twin_stats_normal_cdf(b.bias), share, 1e-14);
    for (int end = 0; end < 2; end++) {
        double z = b.bias + (end ? 1 : -1) * 1.2815515655446004; /* stats.norm.ppf(.9) */
        double place = 99 * twin_stats_normal_cdf(b.bias + z / (1 - b.acceleration * z));
        double low = order_statistic(values + 16, 100, (size_t)place);
        double high = order_statistic(values + 16, 100, (size_t)place + 1);
        NEAR(end ? b.interval.high : b.interval.low, low + (place - floor(place)) * (high - low),
             1e-12);
    }
}

static void bootstrap_edges(void **state)
{
    (void)state;
    static const double flat[] = {4, 4, 4, 4}, none = NAN, one[] = {1, 1, 1, 2, 2, 2};
    struct twin_bca b;
    assert_int_equal(twin_stats_bca(twin_stats_mean_of, flat, 4, 500, 1, .95, &b), 0);
    assert_true(b.value == 4 && b.interval.low == 4 && b.interval.high == 4 && b.bias == 0 &&
                b.acceleration == 0);
    assert_int_equal(twin_stats_bca(always, &none, 4, 500, 1, .95, &b), 0);
    assert_true(isnan(b.value) && isnan(b.interval.low) && b.undefined == 500);
    /* constant resamples, on which a correlation is undefined, are counted; more than 5% of them
     * and there is no interval */
    assert_int_equal(twin_stats_bca(correlation, &(struct pairs){one, gpa}, 6, 2000, 1, .95, &b),
                     0);
    /* 2 / 2^6 = 3.1% */
    assert_true(b.undefined > 20 && b.undefined < 100 && isfinite(b.interval.low));
    assert_int_equal(twin_stats_bca(correlation, &law, 2, 2000, 1, .95, &b), 0);
    assert_true(b.undefined > 900 && isnan(b.interval.low)); /* half of them */
    assert_int_equal(twin_stats_bca(twin_stats_mean_of, flat, 1, 500, 1, .95, &b), TWIN_EINVAL);
    assert_int_equal(twin_stats_bca(twin_stats_mean_of, flat, 0, 500, 1, .95, &b), TWIN_EINVAL);
    assert_int_equal(twin_stats_bca(twin_stats_mean_of, flat, 4, 99, 1, .95, &b), TWIN_EINVAL);
    assert_int_equal(twin_stats_bca(twin_stats_mean_of, flat, 4, SIZE_MAX, 1, .95, &b),
                     TWIN_EINVAL);
    assert_int_equal(twin_stats_bca(twin_stats_mean_of, flat, 4, 500, 1, NAN, &b), TWIN_EINVAL);
    for (uint64_t at = 1; at <= 2; at++) {
        tw_alloc_fail_at(at, false);
        assert_int_equal(twin_stats_bca(twin_stats_mean_of, flat, 4, 500, 1, .95, &b), TWIN_ENOMEM);
        assert_true(isnan(b.value) && isnan(b.interval.low));
    }
    tw_alloc_fail_at(0, false);
}

static void mice_permuted(void **state)
{
    (void)state;
    struct twin_permutation p, again;
    assert_int_equal(
        twin_stats_permutation(twin_stats_mean_difference, &arms, 16, 40000, 1, TWIN_GREATER, &p),
        0);
    CLOSE(p.value, 30.63492063492064);
    CLOSE(p.p, (1 + (double)p.extreme) / 40001);
    /*
     * stats.permutation_test((treated, untreated), difference of means, n_resamples=np.inf):
     * .1409965; sd of ours .0017
     */
    NEAR(p.p, .1409965, .007);
    assert_int_equal(twin_stats_permutation(twin_stats_mean_difference, &arms, 16, 40000, 1,
                                            TWIN_GREATER, &again),
                     0);
    assert_memory_equal(&p, &again, sizeof p);
    assert_int_equal(
        twin_stats_permutation(twin_stats_mean_difference, &arms, 16, 40000, 2, TWIN_TWO_SIDED, &p),
        0);
    NEAR(p.p, .2783217, .009); /* the share of all splits with |difference| as large */
    assert_int_equal(
        twin_stats_permutation(twin_stats_mean_difference, &arms, 16, 40000, 3, TWIN_LESS, &p), 0);
    NEAR(p.p, 1 - .1409965, .01);
}

static void permutations_are_uniform(void **state)
{
    (void)state;
    /* 3 against 3, fully apart: 1 of 20 splits is as extreme */
    static const double apart[] = {10, 11, 12, 1, 2, 3};
    struct twin_permutation p;
    assert_int_equal(twin_stats_permutation(twin_stats_mean_difference,
                                            &(struct twin_arms){apart, 3}, 6, 100000, 5,
                                            TWIN_GREATER, &p),
                     0);
    NEAR(p.p, .05, .003);
    /* sums in another order must not part equal statistics: every split of equal values is as
     * extreme */
    static const double equal[] = {.1, .1, .1, .1, .1, .1, .1};
    assert_int_equal(twin_stats_permutation(twin_stats_mean_difference,
                                            &(struct twin_arms){equal, 3}, 7, 999, 5, TWIN_GREATER,
                                            &p),
                     0);
    assert_true(p.p == 1);
    assert_int_equal(
        twin_stats_permutation(twin_stats_mean_difference, &arms, 16, 1, 1, TWIN_GREATER, &p), 0);
    assert_true(p.p == .5 || p.p == 1);
}

static void permutation_edges(void **state)
{
    (void)state;
    struct twin_permutation p;
    assert_int_equal(
        twin_stats_permutation(twin_stats_mean_difference, &arms, 1, 10, 1, TWIN_GREATER, &p),
        TWIN_EINVAL);
    assert_int_equal(
        twin_stats_permutation(twin_stats_mean_difference, &arms, 16, 0, 1, TWIN_GREATER, &p),
        TWIN_EINVAL);
    assert_true(isnan(p.p));
    /* an empty arm has no mean */
    assert_int_equal(twin_stats_permutation(twin_stats_mean_difference,
                                            &(struct twin_arms){mice, 16}, 16, 10, 1, TWIN_GREATER,
                                            &p),
                     0);
    assert_true(isnan(p.value) && isnan(p.p));
    tw_alloc_fail_at(1, false);
    assert_int_equal(
        twin_stats_permutation(twin_stats_mean_difference, &arms, 16, 10, 1, TWIN_GREATER, &p),
        TWIN_ENOMEM);
    tw_alloc_fail_at(0, false);
}

/* Values: scipy.stats.spearmanr's documented example (a tie in y), and Wikipedia's table of IQ and
 * television. p: all orders of y counted. */
static void rank_correlation(void **state)
{
    (void)state;
    static const double x[] = {1, 2, 3, 4, 5}, y[] = {5, 6, 7, 8, 7}, level[] = {4, 4, 4, 4, 4};
    static const double iq[] = {106, 100, 86, 101, 99, 103, 97, 113, 112, 110};
    static const double hours[] = {7, 27, 2, 50, 28, 29, 20, 12, 6, 17};
    struct twin_permutation p, q;
    assert_int_equal(twin_stats_spearman(x, y, 5, 100000, 1, TWIN_TWO_SIDED, &p), 0);
    CLOSE(p.value, .8207826816681233);
    NEAR(p.p, 16 / 120., .005);
    assert_int_equal(twin_stats_spearman(x, y, 5, 100000, 1, TWIN_GREATER, &p), 0);
    NEAR(p.p, 8 / 120., .004);
    assert_int_equal(twin_stats_spearman(iq, hours, 10, 1000, 1, TWIN_TWO_SIDED, &p), 0);
    CLOSE(p.value, -29 / 165.);
    assert_int_equal(twin_stats_spearman(iq, hours, 10, 1000, 1, TWIN_TWO_SIDED, &q), 0);
    assert_true(p.p == q.p);
    assert_int_equal(twin_stats_spearman(x, level, 5, 1000, 1, TWIN_TWO_SIDED, &p), 0);
    assert_true(isnan(p.value) && isnan(p.p));
}

/* Values: scipy.stats.kendalltau's documented example, with ties in both; the others by hand. */
static void kendall(void **state)
{
    (void)state;
    static const double x[] = {12, 2, 1, 12, 2}, y[] = {1, 4, 7, 1, 0}, level[] = {4, 4, 4, 4, 4};
    static const double up[] = {1, 2, 3, 4}, swapped[] = {1, 3, 2, 4}, down[] = {4, 3, 2, 1};
    static const double bad[] = {1, NAN, 3, 4};
    CLOSE(twin_stats_kendall_tau(x, y, 5), -.47140452079103173);
    CLOSE(twin_stats_kendall_tau(up, swapped, 4), 4 / 6.);
    assert_true(twin_stats_kendall_tau(up, up, 4) == 1 &&
                twin_stats_kendall_tau(up, down, 4) == -1);
    assert_true(isnan(twin_stats_kendall_tau(x, level, 5)));
    assert_true(isnan(twin_stats_kendall_tau(up, bad, 4)) &&
                isnan(twin_stats_kendall_tau(up, up, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(law_school),
        cmocka_unit_test(bootstrap_of_a_mean),
        cmocka_unit_test(interval_by_the_formula),
        cmocka_unit_test(bootstrap_edges),
        cmocka_unit_test(mice_permuted),
        cmocka_unit_test(permutations_are_uniform),
        cmocka_unit_test(permutation_edges),
        cmocka_unit_test(rank_correlation),
        cmocka_unit_test(kendall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
