/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions and distributions. Oracles: special and stats are scipy.special and
 * scipy.stats, 1.17.1; mpmath 1.3 at 40 digits where it says so; closed forms. */
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

static void gamma_and_beta(void **state)
{
    (void)state;
    CLOSE(twin_stats_gamma_p(.5, .1), 0.34527915398142317);  /* special.gammainc(.5, .1) */
    CLOSE(twin_stats_gamma_p(10, 3), 0.0011024881301154815); /* special.gammainc(10, 3) */
    CLOSE(twin_stats_gamma_q(3, 25), 4.701068998290324e-09); /* special.gammaincc(3, 25) */
    /* special.gammaincc(1000, 1100) */
    CLOSE(twin_stats_gamma_q(1000, 1100), 0.0010593232539299773);
    /* special.gammainc(1e6, 1e6) */
    CLOSE(twin_stats_gamma_p(1e6, 1e6), 0.5001329807608725);
    /* special.betainc(2.5, .3, .2) */
    CLOSE(twin_stats_beta_inc(2.5, .3, .2), 0.0033649898303198616);
    /* special.betainc(1e6, 2e6, .3335) */
    CLOSE(twin_stats_beta_inc(1e6, 2e6, .3335), 0.7298824325036775);
    CLOSE(twin_stats_beta_inc(467039.719, 1.219158, .9999927517267229),
          0.05108102776416303); /* special.betainc(467039.719, 1.219158, .9999927517267229) */
    /* stats.beta.ppf(.05, 3, 998) */
    CLOSE(twin_stats_beta_inv(.05, 3, 998), 0.0008181753982218001);
    /* mpmath: binomial sum and 1F1; SciPy is off by 3e-8 and 8e-7 in these two */
    CLOSE(twin_stats_binomial_cdf(11, 1032054988, 3.8895960146236175e-08), 5.4787641942108718e-8);
    CLOSE(twin_stats_gamma_p(817802.7132415636, 813441.1256879768), 6.7833728242118212848e-7);
}

static void distributions(void **state)
{
    (void)state;
    CLOSE(twin_stats_normal_cdf(-8), 6.22096057427174e-16);         /* stats.norm.cdf(-8) */
    CLOSE(twin_stats_normal_quantile(.975), 1.959963984540054);     /* stats.norm.ppf(.975) */
    CLOSE(twin_stats_normal_quantile(1e-300), -37.0470962993612);   /* stats.norm.ppf(1e-300) */
    CLOSE(twin_stats_normal_quantile(.6), 0.2533471031357997);      /* stats.norm.ppf(.6) */
    CLOSE(twin_stats_t_cdf(-2.5, 3), 0.04385332350403278);          /* stats.t.cdf(-2.5, 3) */
    CLOSE(twin_stats_t_cdf(.3, 7.5), 0.6138386707156109);           /* stats.t.cdf(.3, 7.5) */
    CLOSE(twin_stats_t_cdf(-40, 12), 1.925614790386016e-14);        /* stats.t.cdf(-40, 12) */
    CLOSE(twin_stats_t_cdf(-8.4, 6331), 2.7284465771144193e-17);    /* stats.t.cdf(-8.4, 6331) */
    CLOSE(twin_stats_t_quantile(.975, 4), 2.7764451051977934);      /* stats.t.ppf(.975, 4) */
    CLOSE(twin_stats_t_quantile(.05, 1.7), -3.30361514323793);      /* stats.t.ppf(.05, 1.7) */
    CLOSE(twin_stats_t_quantile(1e-12, 30), -11.397217523311413);   /* stats.t.ppf(1e-12, 30) */
    CLOSE(twin_stats_chi2_cdf(3.2, 4), 0.47506905321389586);        /* stats.chi2.cdf(3.2, 4) */
    CLOSE(twin_stats_chi2_upper(60, 2.5), 2.4358131178594745e-13);  /* stats.chi2.sf(60, 2.5) */
    CLOSE(twin_stats_chi2_quantile(.025, 4), 0.4844185570879299);   /* stats.chi2.ppf(.025, 4) */
    CLOSE(twin_stats_chi2_quantile(.975, 9), 19.02276779864163);    /* stats.chi2.ppf(.975, 9) */
    CLOSE(twin_stats_chi2_quantile(.5, 2000), 1999.3333728539303);  /* stats.chi2.ppf(.5, 2000) */
    CLOSE(twin_stats_f_cdf(.2, 3, 17), 0.10506515515348254);        /* stats.f.cdf(.2, 3, 17) */
    CLOSE(twin_stats_f_upper(4.9, 2, 12), 0.0278194484028767);      /* stats.f.sf(4.9, 2, 12) */
    CLOSE(twin_stats_f_upper(300, 4, 40), 3.0299383269750004e-29);  /* stats.f.sf(300, 4, 40) */
    CLOSE(twin_stats_f_quantile(.95, 2, 12), 3.8852938346523924);   /* stats.f.ppf(.95, 2, 12) */
    CLOSE(twin_stats_f_quantile(.01, 5.5, 2), 0.08385095305196286); /* stats.f.ppf(.01, 5.5, 2) */
}

static void closed_forms(void **state)
{
    (void)state;
    for (double x = 0.01; x < 50; x *= 1.7) {
        CLOSE(twin_stats_gamma_q(1, x), exp(-x));
        CLOSE(twin_stats_gamma_p(0.5, x), erf(sqrt(x)));
        CLOSE(twin_stats_gamma_q(3, x), exp(-x) * (1 + x + x * x / 2));
        CLOSE(twin_stats_t_cdf(-x, 1), atan(1 / x) / M_PI); /* Cauchy */
        CLOSE(twin_stats_t_cdf(-x, 2), 1 / (2 + x * x + x * sqrt(2 + x * x)));
        CLOSE(twin_stats_chi2_upper(x, 2), exp(-x / 2));
        CLOSE(twin_stats_f_upper(x, 2, 2), 1 / (1 + x));
        CLOSE(twin_stats_f_upper(x * x, 1, 7), 2 * twin_stats_t_cdf(-x, 7));
        CLOSE(twin_stats_lgamma(x + 1), log(x) + twin_stats_lgamma(x));
    }
}

static void quantiles_invert(void **state)
{
    (void)state;
    static const double p[] = {1e-200, 1e-9, .01, .3, .5, .7, .99, 1 - 1e-9};
    static const double df[] = {.5, 1, 2.5, 30, 1e4, 1e8};
    for (size_t i = 0; i < 8; i++) {
        CLOSE(twin_stats_normal_cdf(twin_stats_normal_quantile(p[i])), p[i]);
        for (size_t j = 0; j < 6; j++) {
            if (p[i] > 1e-100 || df[j] > 2) /* else the quantile is past 1e150 */
                CLOSE(twin_stats_t_cdf(twin_stats_t_quantile(p[i], df[j]), df[j]), p[i]);
            if (p[i] > 1e-100 || df[j] > 2)
                CLOSE(twin_stats_chi2_cdf(twin_stats_chi2_quantile(p[i], df[j]), df[j]), p[i]);
            for (size_t k = 0; k < 6; k++)
                if (p[i] > 1e-100 || (df[j] > 2 && df[k] > 2))
                    CLOSE(twin_stats_f_cdf(twin_stats_f_quantile(p[i], df[j], df[k]), df[j], df[k]),
                          p[i]);
        }
    }
}

static void monotone(void **state)
{
    (void)state;
    double before[6] = {0};
    for (int i = -400; i <= 400; i++) {
        double z = i / 40., x = (i + 400) / 20.;
        double now[] = {twin_stats_normal_cdf(z),  twin_stats_t_cdf(z, 3.3),
                        twin_stats_chi2_cdf(x, 9), twin_stats_f_cdf(x, 3, 8),
                        twin_stats_gamma_p(20, x), twin_stats_beta_inc(300, 200, x / 41)};
        for (int k = 0; k < 6; k++) {
            assert_true(now[k] >= before[k] * (1 - 1e-13) && now[k] <= 1 + 1e-15);
            before[k] = now[k];
        }
    }
}

static void edges(void **state)
{
    (void)state;
    assert_true(twin_stats_normal_quantile(.5) == 0 && twin_stats_t_quantile(.5, 3) == 0);
    assert_true(isinf(twin_stats_normal_quantile(0)) && isinf(twin_stats_t_quantile(1, 3)) &&
                isinf(twin_stats_chi2_quantile(1, 3)));
    assert_true(twin_stats_chi2_quantile(0, 3) == 0 && twin_stats_f_quantile(0, 3, 3) == 0);
    assert_true(twin_stats_chi2_cdf(-1, 3) == 0 && twin_stats_chi2_upper(-1, 3) == 1 &&
                twin_stats_f_upper(-1, 2, 2) == 1);
    assert_true(twin_stats_gamma_p(2, 0) == 0 && twin_stats_gamma_q(2, INFINITY) == 0 &&
                twin_stats_gamma_p(1e8, 1) == 0);
    assert_true(twin_stats_t_cdf(INFINITY, 2) == 1 && twin_stats_t_cdf(-INFINITY, 2) == 0 &&
                twin_stats_f_cdf(INFINITY, 2, 3) == 1);
    assert_true(isinf(twin_stats_lgamma(INFINITY)) && isfinite(twin_stats_lgamma(5e-324)));
    static const double bad[] = {NAN, -1, 0, INFINITY};
    for (size_t i = 0; i < 4; i++) {
        assert_true(isnan(twin_stats_t_cdf(1, bad[i])) && isnan(twin_stats_t_quantile(.3, bad[i])));
        assert_true(isnan(twin_stats_chi2_cdf(1, bad[i])) &&
                    isnan(twin_stats_chi2_quantile(.3, bad[i])));
        assert_true(isnan(twin_stats_f_cdf(1, 2, bad[i])) &&
                    isnan(twin_stats_f_quantile(.3, bad[i], 2)));
        assert_true(isnan(twin_stats_f_upper(1, bad[i], 2)) &&
                    isnan(twin_stats_gamma_p(bad[i], 1)));
        assert_true(isnan(twin_stats_beta_inc(1, bad[i], .5)) &&
                    isnan(twin_stats_beta_inv(.5, bad[i], 1)));
        assert_true(isnan(twin_stats_f_upper(1, 2, bad[i])) &&
                    isnan(twin_stats_f_quantile(.3, 2, bad[i])));
        assert_true(isnan(twin_stats_f_cdf(1, bad[i], 2)) &&
                    isnan(twin_stats_beta_inc(bad[i], 1, .5)));
        assert_true(isnan(twin_stats_beta_inv(.5, 1, bad[i])) &&
                    isnan(twin_stats_gamma_q(bad[i], 1)));
    }
    static const double no_probability[] = {NAN, -1, 1.5, INFINITY};
    for (size_t i = 0; i < 4; i++) {
        double p = no_probability[i];
        assert_true(isnan(twin_stats_normal_quantile(p)) && isnan(twin_stats_t_quantile(p, 2)));
        assert_true(isnan(twin_stats_chi2_quantile(p, 2)) && isnan(twin_stats_f_quantile(p, 2, 2)));
        assert_true(isnan(twin_stats_beta_inv(p, 2, 2)) && isnan(twin_stats_beta_inc(2, 2, p)));
    }
    assert_true(twin_stats_beta_inv(1, 2, 2) == 1 && twin_stats_beta_inv(0, 2, 2) == 0);
    assert_true(isnan(twin_stats_gamma_q(1, -1)) && isnan(twin_stats_normal_cdf(NAN)) &&
                isnan(twin_stats_t_cdf(NAN, 2)));
    /* its factors over- and underflow */
    assert_true(isnan(twin_stats_beta_inc(5e-300, 1e18, 5e-318)));
    /* near the mean of a huge count: right, or NaN, never a wrong digit */
    NEAR(twin_stats_beta_inc(1e10, 1e10, .5), .5, 1e-9);
    double huge = twin_stats_beta_inc(1e18, 1e18, .5), far = twin_stats_gamma_p(1e18, 1e18);
    assert_true((isnan(huge) || fabs(huge - .5) < 1e-6) && (isnan(far) || fabs(far - .5) < 1e-6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gamma_and_beta), cmocka_unit_test(distributions),
        cmocka_unit_test(closed_forms),   cmocka_unit_test(quantiles_invert),
        cmocka_unit_test(monotone),       cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
