/* SPDX-License-Identifier: Apache-2.0 */
/* The normal, t, chi-square and F distributions by the incomplete beta and gamma functions;
 * quantiles by bisection. Both tails are computed as such, never as 1 minus the other one, so that
 * small p values keep their digits. */
#include "inside.h"

#include "src/stats/stats.h"

#include <float.h>
#include <math.h>

double twin_stats_normal_cdf(double z)
{
    return erfc(-z / M_SQRT2) / 2;
}

static double normal_upper(double z, const double *unused)
{
    (void)unused;
    return erfc(z / M_SQRT2) / 2;
}

/* A quantile of a distribution symmetric about 0, given its upper tail. */
static double symmetric_quantile(double p, tw_stats_curve *upper, const double *parameters)
{
    if (!(p >= 0) || !(p <= 1))
        return NAN;
    if (p == 0 || p == 1)
        return p == 0 ? -INFINITY : INFINITY;
    if (p == 0.5)
        return 0;
    double tail = p < 0.5 ? p : 1 - p, x = tw_stats_invert(upper, parameters, tail, false, DBL_MAX);
    return p < 0.5 ? -x : x;
}

double twin_stats_normal_quantile(double p)
{
    return symmetric_quantile(p, normal_upper, NULL);
}

/* P(T > t), t >= 0: half of I_x(df/2, 1/2) at x = df / (df + t^2). */
static double t_upper(double t, const double *df)
{
    double ratio = t / *df * t;
    return 0.5 * tw_stats_beta_tail(*df / 2, 0.5, 1 / (1 + ratio),
                                    isinf(ratio) ? 1 : ratio / (1 + ratio));
}

double twin_stats_t_cdf(double t, double df)
{
    if (!(df > 0) || isinf(df) || isnan(t))
        return NAN;
    return t <= 0 ? t_upper(-t, &df) : 1 - t_upper(t, &df);
}

double twin_stats_t_quantile(double p, double df)
{
    return !(df > 0) || isinf(df) ? NAN : symmetric_quantile(p, t_upper, &df);
}

/* A quantile on [0, infinity) from whichever tail is the smaller. */
static double positive_quantile(double p, tw_stats_curve *lower, tw_stats_curve *upper,
                                const double *parameters)
{
    if (!(p >= 0) || !(p <= 1))
        return NAN;
    if (p == 0 || p == 1)
        return p == 0 ? 0 : INFINITY;
    if (p <= 0.5)
        return tw_stats_invert(lower, parameters, p, true, DBL_MAX);
    return tw_stats_invert(upper, parameters, 1 - p, false, DBL_MAX);
}

static double chi2_lower_curve(double x, const double *df)
{
    return twin_stats_gamma_p(*df / 2, x / 2);
}

static double chi2_upper_curve(double x, const double *df)
{
    return twin_stats_gamma_q(*df / 2, x / 2);
}

double twin_stats_chi2_cdf(double x, double df)
{
    return chi2_lower_curve(x < 0 ? 0 : x, &df);
}

double twin_stats_chi2_upper(double x, double df)
{
    return chi2_upper_curve(x < 0 ? 0 : x, &df);
}

double twin_stats_chi2_quantile(double p, double df)
{
    return !(df > 0) || isinf(df) ? NAN
                                  : positive_quantile(p, chi2_lower_curve, chi2_upper_curve, &df);
}

static double f_lower_curve(double x, const double *df)
{
    double ratio = x * (df[0] / df[1]);
    return tw_stats_beta_tail(df[0] / 2, df[1] / 2, isinf(ratio) ? 1 : ratio / (1 + ratio),
                              1 / (1 + ratio));
}

static double f_upper_curve(double x, const double *df)
{
    double ratio = x * (df[0] / df[1]);
    return tw_stats_beta_tail(df[1] / 2, df[0] / 2, 1 / (1 + ratio),
                              isinf(ratio) ? 1 : ratio / (1 + ratio));
}

double twin_stats_f_cdf(double x, double df1, double df2)
{
    if (!(df1 > 0) || !(df2 > 0) || !isfinite(df1 + df2))
        return NAN;
    return f_lower_curve(x < 0 ? 0 : x, (const double[]){df1, df2});
}

double twin_stats_f_upper(double x, double df1, double df2)
{
    if (!(df1 > 0) || !(df2 > 0) || !isfinite(df1 + df2))
        return NAN;
    return f_upper_curve(x < 0 ? 0 : x, (const double[]){df1, df2});
}

double twin_stats_f_quantile(double p, double df1, double df2)
{
    if (!(df1 > 0) || !(df2 > 0) || !isfinite(df1 + df2))
        return NAN;
    return positive_quantile(p, f_lower_curve, f_upper_curve, (const double[]){df1, df2});
}
