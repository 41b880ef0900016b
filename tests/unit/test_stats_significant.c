/* SPDX-License-Identifier: Apache-2.0 */
/* Which answer follows from which values. Oracles: R's manual (wilcox.test, var.test's interval by
 * qf), scipy.stats; error rates and power by simulation. */
#include "src/stats/significant.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base.h"

#define NEAR(actual, expected, tolerance) assert_true(fabs((actual) - (expected)) <= (tolerance))
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* wilcox.test's example: Hollander and Wolfe 1973, 69f */
static const double x[] = {.80, .83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, .73, 1.46};
static const double y[] = {1.15, .88, .90, .74, 1.21};

static struct twin_significance ask(enum twin_question q, const double *a, size_t na,
                                    const double *b, size_t nb, double margin, double floor)
{
    const struct twin_asked asked = {q, .05, margin, floor};
    struct twin_significance out;
    assert_int_equal(twin_significance(a, na, b, nb, &asked, &out), 0);
    return out;
}

static void r_manual(void **state)
{
    (void)state;
    struct twin_significance s = ask(TWIN_ASK_METRIC, y, 5, x, 10, 0, 0);
    assert_int_equal(s.answer, TWIN_REAL_NOT);
    NEAR(s.p, .2544123, 5e-8);
    NEAR(s.effect.value, .305, 1e-12);
    NEAR(s.effect.interval.low, -.15, 1e-12);
    NEAR(s.effect.interval.high, .76, 1e-12);
    assert_true(s.needed > 10 && s.visible > .305);
    /* stats.levene(y, x, center='median'); the interval by stats.f.ppf */
    s = ask(TWIN_ASK_VARIANCE, y, 5, x, 10, 0, 0);
    assert_int_equal(s.answer, TWIN_REAL_NOT);
    NEAR(s.p, .1133335417858689, 1e-12);
    NEAR(s.effect.value, 2.2361700874714736, 1e-12);
    NEAR(s.effect.interval.low, .74936885, 1e-8);
    NEAR(s.effect.interval.high, 4.85721596, 1e-8);
}

static void few(void **state)
{
    (void)state;
    const double a[] = {1, 2, 3}, b[] = {10, 11, 12}, c[] = {1, 2, 3, 4}, d[] = {10, 11, 12, 13};
    /* p = 2 / C(6, 3) = .1: as small as it can be */
    struct twin_significance s = ask(TWIN_ASK_METRIC, a, 3, b, 3, 0, 0);
    assert_int_equal(s.answer, TWIN_REAL_TOO_FEW);
    assert_int_equal(s.needed, 4);
    NEAR(s.p, .1, 1e-12);
    s = ask(TWIN_ASK_METRIC, c, 4, d, 4, 0, 0);
    assert_int_equal(s.answer, TWIN_REAL);
    NEAR(s.p, 2. / 70, 1e-12);
    /* 2 / C(7, 3) = .057 */
    assert_int_equal(ask(TWIN_ASK_METRIC, a, 3, d, 4, 0, 0).answer, TWIN_REAL_TOO_FEW);
    assert_int_equal(ask(TWIN_ASK_VARIANCE, a, 2, b, 3, 0, 0).answer, TWIN_REAL_TOO_FEW);
    assert_int_equal(ask(TWIN_ASK_WITHIN, a, 1, b, 3, 1.05, 0).answer, TWIN_REAL_TOO_FEW);
}

static void below_the_floor(void **state)
{
    (void)state;
    const double a[] = {1, 1.001, 1.002, 1.003, 1.004}, b[] = {1.01, 1.011, 1.012, 1.013, 1.014};
    assert_int_equal(ask(TWIN_ASK_METRIC, a, 5, b, 5, 0, 0).answer, TWIN_REAL);
    assert_int_equal(ask(TWIN_ASK_METRIC, a, 5, b, 5, 0, .002).answer, TWIN_REAL);
    /* the interval reaches into it */
    assert_int_equal(ask(TWIN_ASK_METRIC, a, 5, b, 5, 0, .01).answer, TWIN_REAL_BELOW);
    assert_int_equal(ask(TWIN_ASK_METRIC, b, 5, a, 5, 0, .002).answer, TWIN_REAL);
    assert_int_equal(ask(TWIN_ASK_METRIC, b, 5, a, 5, 0, .5).answer, TWIN_REAL_BELOW);
    assert_int_equal(ask(TWIN_ASK_SPEED, a, 5, b, 5, 0, .05).answer, TWIN_REAL_BELOW);
    assert_int_equal(ask(TWIN_ASK_SPEED, a, 5, b, 5, 0, .001).answer, TWIN_REAL);
}

static void no_spread(void **state)
{
    (void)state;
    const double one[] = {2, 2, 2, 2, 2}, two[] = {3, 3, 3, 3, 3};
    struct twin_significance s = ask(TWIN_ASK_METRIC, one, 5, two, 5, 0, 0);
    assert_true(s.answer == TWIN_REAL && s.effect.value == 1 && s.effect.interval.low == 1 &&
                s.set[0].mad.mad == 0 && s.set[0].distinct == 1);
    s = ask(TWIN_ASK_METRIC, one, 5, one, 5, 0, 0);
    assert_true(s.answer == TWIN_REAL_NOT && s.needed == 0 && isnan(s.visible));
    assert_int_equal(ask(TWIN_ASK_BITWISE, one, 5, one, 5, 0, 0).answer, TWIN_REAL_WITHIN);
    assert_int_equal(ask(TWIN_ASK_BITWISE, one, 5, two, 5, 0, 0).answer, TWIN_REAL);
    assert_int_equal(ask(TWIN_ASK_BITWISE, one, 1, one, 1, 0, 0).answer, TWIN_REAL_TOO_FEW);
    const double zeros[] = {0., -0.};
    /* equal numbers, other bits */
    assert_int_equal(ask(TWIN_ASK_BITWISE, zeros, 2, zeros, 2, 0, 0).answer, TWIN_REAL);
    assert_int_equal(ask(TWIN_ASK_VARIANCE, one, 5, two, 5, 0, 0).answer, TWIN_REAL_WITHIN);
    assert_int_equal(ask(TWIN_ASK_WITHIN, one, 5, one, 5, 1.05, 0).answer, TWIN_REAL_WITHIN);
    assert_int_equal(ask(TWIN_ASK_WITHIN, one, 5, two, 5, 1.05, 0).answer, TWIN_REAL);
}

static uint64_t place;

static double uniform(void)
{
    return ((double)(tw_mix64(++place) >> 11) + .5) * 0x1p-53;
}

static void draw(double *out, size_t n, double mean, double sd)
{
    for (size_t i = 0; i < n; i++)
        out[i] = mean + sd * twin_stats_normal_quantile(uniform());
}

/* What the level promises: equal sets are told apart in at most 5% of trials (7% is 3 standard
 * errors more). And the foresight holds: with the runs that it asks for, an effect is shown in
 * about 8 of 10. */
static void error_rates(void **state)
{
    (void)state;
    enum { TRIALS = 1000, N = 8 };
    double a[64], b[64];
    int real[3] = {0}, within = 0;
    for (int i = 0; i < TRIALS; i++) {
        draw(a, N, 10, 1);
        draw(b, N, 10, 1);
        real[0] += ask(TWIN_ASK_METRIC, a, N, b, N, 0, 0).answer == TWIN_REAL;
        real[1] += ask(TWIN_ASK_SPEED, a, N, b, N, 0, 0).answer == TWIN_REAL;
        real[2] += ask(TWIN_ASK_VARIANCE, a, N, b, N, 0, 0).answer == TWIN_REAL;
        draw(b, N, 10 * 1.05, 1); /* at the edge of what counts as equal */
        within += ask(TWIN_ASK_WITHIN, a, N, b, N, 1.05, 0).answer == TWIN_REAL_WITHIN;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(real[i], 10, TRIALS * .07);
    assert_true(within <= TRIALS * .07);
    struct twin_significance s;
    do { /* two sets of six that are not told apart, and what they say is needed */
        draw(a, 6, 10, 1);
        draw(b, 6, 10.9, 1);
        s = ask(TWIN_ASK_METRIC, a, 6, b, 6, 0, 0);
    } while (s.answer != TWIN_REAL_NOT || s.needed > 16);
    const double sd = sqrt((pow(s.set[0].sd, 2) + pow(s.set[1].sd, 2)) / 2);
    const size_t n = s.needed;
    int shown = 0;
    for (int i = 0; i < 400; i++) {
        draw(a, n, 10, sd);
        draw(b, n, 10 + s.effect.value, sd);
        shown += ask(TWIN_ASK_METRIC, a, n, b, n, 0, 0).answer == TWIN_REAL;
    }
    assert_in_range(shown, 280, 360); /* the normal approximation, at few values */
}

static void bad_use(void **state)
{
    (void)state;
    const double bad[] = {1, NAN}, zero[] = {1, 0};
    struct twin_asked asked = {TWIN_ASK_METRIC, .05, 0, 0};
    struct twin_significance out;
    enum twin_question q;
    assert_int_equal(twin_significance(bad, 2, x, 10, &asked, &out), TWIN_EINVAL);
    assert_int_equal(twin_significance(x, 0, x, 10, &asked, &out), TWIN_EINVAL);
    asked.question = TWIN_ASK_SPEED;
    assert_int_equal(twin_significance(x, 10, zero, 2, &asked, &out), TWIN_EINVAL);
    asked = (struct twin_asked){TWIN_ASK_WITHIN, .05, 1, 0};
    assert_int_equal(twin_significance(x, 10, y, 5, &asked, &out), TWIN_EINVAL);
    asked = (struct twin_asked){TWIN_ASK_METRIC, .5, 0, 0};
    assert_int_equal(twin_significance(x, 10, y, 5, &asked, &out), TWIN_EINVAL);
    for (int i = 0; i < 5; i++)
        assert_true(twin_question_parse(twin_question_name((enum twin_question)i), &q) == 0 &&
                    q == (enum twin_question)i);
    assert_int_equal(twin_question_parse("speeds", &q), TWIN_EINVAL);
}

static void no_memory(void **state)
{
    (void)state;
    for (int q = 0; q < 5; q++)
        for (uint64_t i = 1;; i++) {
            const struct twin_asked asked = {(enum twin_question)q, .05, 1.05, 0};
            struct twin_significance out;
            tw_alloc_fail_at(i, true);
            const int rc = twin_significance(x, COUNT(x), y, COUNT(y), &asked, &out);
            tw_alloc_fail_at(0, false);
            if (rc == 0)
                break;
            assert_int_equal(rc, TWIN_ENOMEM);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r_manual),        cmocka_unit_test(few),
        cmocka_unit_test(below_the_floor), cmocka_unit_test(no_spread),
        cmocka_unit_test(error_rates),     cmocka_unit_test(bad_use),
        cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
