/* SPDX-License-Identifier: Apache-2.0 */
#include <twin/stats.h>

#include <float.h>
#include <math.h>

/* Our own, not libm's: lgamma() writes the global signgam and so is not thread-safe. */
double twin_stats_lgamma(double x)
{
    /* Lanczos 1964, g = 7, n = 9 (coefficients as computed by Godfrey). */
    static const double c[] = {0.99999999999980993,     676.5203681218851,     -1259.1392167224028,
                               771.32342877765313,      -176.61502916214059,   12.507343278686905,
                               -0.13857109526572012,    9.9843695780195716e-6, 1.5056327351493116e-7};
    if (!(x > 0))
        return NAN;
    if (x < 0.5) /* reflection: Gamma(x) Gamma(1 - x) = pi / sin(pi x) */
        return log(M_PI / sin(M_PI * x)) - twin_stats_lgamma(1 - x);
    double z = x - 1, sum = c[0], t = z + 7.5;
    for (int i = 1; i < 9; i++)
        sum += c[i] / (z + i);
    return 0.5 * log(2 * M_PI) + (z + 0.5) * log(t) - t + log(sum);
}

static double away_from_zero(double x)
{
    return fabs(x) < DBL_MIN / DBL_EPSILON ? DBL_MIN / DBL_EPSILON : x;
}

/* The continued fraction of DLMF 8.17.22 by the modified Lentz method; converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), f = d;
    for (int m = 1; m <= 100000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 / away_from_zero(1 + even * d);
        c = away_from_zero(1 + even / c);
        f *= c * d;
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / away_from_zero(1 + odd * d);
        c = away_from_zero(1 + odd / c);
        double step = c * d;
        f *= step;
        if (fabs(step - 1) < 4 * DBL_EPSILON)
            break;
    }
    return f;
}

double twin_stats_beta_inc(double a, double b, double x)
{
    if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1))
        return NAN;
    if (x == 0 || x == 1)
        return x;
    double front = exp(twin_stats_lgamma(a + b) - twin_stats_lgamma(a) - twin_stats_lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double twin_stats_beta_inv(double p, double a, double b)
{
    if (!(a > 0) || !(b > 0) || !(p >= 0) || !(p <= 1))
        return NAN;
    double low = 0, high = 1;
    if (p == 0 || p == 1)
        return p;
    for (int i = 0; i < 1100; i++) { /* down to neighbouring doubles, denormal ones included */
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            break;
        if (twin_stats_beta_inc(a, b, middle) < p)
            low = middle;
        else
            high = middle;
    }
    return low + (high - low) / 2;
}
