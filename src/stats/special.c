/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special functions: ln Gamma, ln Beta, the regularised incomplete beta and gamma functions, and
 * the inverse of a monotone curve. All distributions and tests of this room rest on these.
 *
 * Each method is chosen so that no digits cancel: x^a y^b / B(a, b) and x^a e^-x / Gamma(a) are
 * formed by Loader's deviance instead of differences of large logarithms. Where a series or
 * fraction does not converge the answer is NaN, never a wrong digit. No function keeps state, so
 * all are thread-safe.
 */
#include "inside.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#define HALF_LN_2PI 0.91893853320467274178 /* ln sqrt(2 pi) */
#define FRACTION_TERMS 1000000             /* after that NaN, never a wrong digit */

/* What Stirling's formula leaves out: ln Gamma(x) - ((x - 1/2) ln x - x + ln sqrt(2 pi)). From 16
 * on it is the series DLMF 5.11.1, with the terms up to x^-11 in Horner's form; below that the
 * recurrence Gamma(x + 1) = x Gamma(x) leads there. */
static double stirling_rest(double x)
{
    assert(x > 0);
    double rest = 0;
    for (; x < 16; x++)
        rest += (x + 0.5) * log1p(1 / x) - 1;
    double r = 1 / (x * x);
    return rest + (1. / 12 -
                   r * (1. / 360 -
                        r * (1. / 1260 - r * (1. / 1680 - r * (1. / 1188 - r * 691. / 360360))))) /
                      x;
}

/* Our own, not libm's: lgamma() writes the global signgam and so is not thread-safe. */
double twin_stats_lgamma(double x)
{
    if (!(x > 0))
        return NAN;
    if (isinf(x))
        return x;
    if (x < 0.5) /* the recurrence once more, so that 1/x does not overflow */
        return twin_stats_lgamma(x + 1) - log(x);
    return (x - 0.5) * log(x) - x + HALF_LN_2PI + stirling_rest(x);
}

/* Stirling's formula for all three gammas, with the large terms put together before they are
 * added. */
double tw_stats_lbeta(double a, double b)
{
    assert(a > 0 && b > 0);
    double sum = a + b;
    return (a - 0.5) * log(a / sum) + b * -log1p(a / b) - 0.5 * log(b) + HALF_LN_2PI +
           stirling_rest(a) + stirling_rest(b) - stirling_rest(sum);
}

/* Loader's deviance: x ln(x / mean) + mean - x. Near the mean, where that would cancel, it is
 * summed as a series in v = (x - mean) / (x + mean), by ln(x / mean) = 2 atanh(v). */
static double deviance(double x, double mean)
{
    double v = (x - mean) / (x + mean);
    if (x == 0)
        return mean;
    if (fabs(v) > 0.1)
        return x * log(x / mean) + mean - x;
    double sum = (x - mean) * v, power = 2 * x * v, square = v * v; /* ln(x / mean) = 2 atanh(v) */
    for (int j = 1; j < 100; j++) {
        double before = sum;
        power *= square;
        sum += power / (2 * j + 1);
        if (sum == before)
            break;
    }
    return sum;
}

/* C. Loader, "Fast and accurate computation of binomial probabilities" (2000). Stirling's formula
 * is written down once for the whole binomial coefficient, and p and q enter by deviances from the
 * mean. */
double tw_stats_binomial_density(double k, double rest, double p, double q)
{
    assert(k >= 0 && rest >= 0);
    double n = k + rest;
    if (p == 0 || q == 0)
        return (p == 0 ? k : rest) == 0;
    if (k == 0) /* only one of the two factors is left */
        return exp(n * (p < 0.1 ? log1p(-p) : log(q)));
    if (rest == 0)
        return exp(n * (q < 0.1 ? log1p(-q) : log(p)));
    double ln = stirling_rest(n) - stirling_rest(k) - stirling_rest(rest) - deviance(k, n * p) -
                deviance(rest, n * q);
    return exp(ln - HALF_LN_2PI) * sqrt(n / k / rest);
}

/* Lentz's method divides by its terms; one that is 0 is replaced by something tiny. */
static double away_from_zero(double x)
{
    return fabs(x) < DBL_MIN / DBL_EPSILON ? DBL_MIN / DBL_EPSILON : x;
}

/* I_x(a, b) B(a, b) / (x^a y^b) by the even part of the continued fraction DLMF 8.17.22 (DiDonato
 * and Morris 1992, their equation 9). It is evaluated from the front, by Lentz's method as modified
 * by Thompson and Barnett (1986), until a step changes nothing. Its first denominator is formed
 * from y = 1 - x, which keeps its digits near the mean, where the usual form loses them to 1 - (a +
 * b) x / (a + 1). Converges fast for x < (a + 1) / (a + b + 2). NaN: it did not converge. */
static double beta_fraction(double a, double b, double x, double y)
{
    assert(a > 0 && b > 0 && x > 0 && y > 0);
    double offset = a * y - b * x + 1;
    double f = away_from_zero(a * offset / (a + 1)), c = f, d = 0;
    for (int m = 1; m <= FRACTION_TERMS; m++) {
        double odd = a + 2 * m - 1;
        double numerator = (a + m - 1) / odd * ((a + b + m - 1) / odd) * m * (b - m) * x * x;
        double denominator = m + m * (b - m) * x / odd +
                             (a + m) * (offset + m * (1 + y)) / (odd + 2);
        d = 1 / away_from_zero(denominator + numerator * d);
        c = away_from_zero(denominator + numerator / c);
        double step = c * d;
        f *= step;
        if (fabs(step - 1) < 4 * DBL_EPSILON)
            return 1 / f;
    }
    return NAN;
}

/* Above the mean the other tail is computed, and I_x(a, b) = 1 - I_y(b, a) (DLMF 8.17.4). */
double tw_stats_beta_tail(double a, double b, double x, double y)
{
    if (!(a > 0) || !(b > 0) || !isfinite(a + b) || !(x >= 0) || !(x <= 1))
        return NAN;
    if (x == 0 || y == 0)
        return x == 0 ? 0 : 1;
    bool low = x < (a + 1) / (a + b + 2);
    /* x^a y^b / B(a, b) */
    double front = a * (b / (a + b)) * tw_stats_binomial_density(a, b, x, y);
    if (front == 0) /* so far in the tail that the fraction cannot matter */
        return low ? 0 : 1;
    double part = front * (low ? beta_fraction(a, b, x, y) : beta_fraction(b, a, y, x));
    /* not converged, or parameters so small that it over- or underflowed */
    if (!(part <= 1 + 1e-6))
        return NAN;
    return low ? fmin(part, 1) : fmax(1 - part, 0);
}

double twin_stats_beta_inc(double a, double b, double x)
{
    return tw_stats_beta_tail(a, b, x, 1 - x);
}

/* P(a, x) by its series (DLMF 8.11.4), for x < a + 1, where all terms are positive and fall.
 * `front` is x^a e^-x / Gamma(a). NaN: it did not converge. */
static double gamma_series(double a, double x, double front)
{
    assert(a > 0 && x < a + 1); /* else the terms rise first */
    double term = 1 / a, sum = term;
    for (int n = 1; n <= FRACTION_TERMS; n++) {
        term *= x / (a + n);
        sum += term;
        if (term < sum * DBL_EPSILON / 4)
            return sum * front;
    }
    return NAN;
}

/* Q(a, x) by the continued fraction of DLMF 8.9.2, even part, modified Lentz, for x >= a + 1. */
static double gamma_fraction(double a, double x, double front)
{
    assert(x >= a + 1);
    double b = x + 1 - a, c = 1 / DBL_MIN, d = 1 / away_from_zero(b), f = d;
    for (int n = 1; n <= FRACTION_TERMS; n++) {
        double numerator = -n * (n - a);
        b += 2;
        d = 1 / away_from_zero(numerator * d + b);
        c = away_from_zero(b + numerator / c);
        double step = c * d;
        f *= step;
        if (fabs(step - 1) < 4 * DBL_EPSILON)
            return f * front;
    }
    return NAN;
}

/* P or (upper) Q, by the series or the fraction, whichever converges fast; the other tail is 1
 * minus it. */
static double gamma_inc(double a, double x, bool upper)
{
    if (!(a > 0) || isinf(a) || !(x >= 0))
        return NAN;
    if (x == 0 || isinf(x))
        return (x == 0) == upper;
    bool series = x < a + 1;
    double front = sqrt(a) * exp(-stirling_rest(a) - deviance(a, x) - HALF_LN_2PI);
    if (front == 0)
        return series == upper;
    double part = series ? gamma_series(a, x, front) : gamma_fraction(a, x, front);
    return series == upper ? 1 - part : part;
}

double twin_stats_gamma_p(double a, double x)
{
    return gamma_inc(a, x, false);
}

double twin_stats_gamma_q(double a, double x)
{
    return gamma_inc(a, x, true);
}

/* The double half way between two in the order of their bit patterns, which is the order of the
 * numbers from 0 up. So bisection takes 64 steps at most, however small the result is. */
static double halfway_between(double low, double high)
{
    assert(low >= 0 && low <= high);
    uint64_t a, b;
    memcpy(&a, &low, sizeof a);
    memcpy(&b, &high, sizeof b);
    a += (b - a) / 2;
    memcpy(&low, &a, sizeof low);
    return low;
}

double tw_stats_invert(tw_stats_curve *curve, const double *parameters, double target, bool rising,
                       double high)
{
    double low = 0;
    for (;;) {
        double middle = halfway_between(low, high);
        if (middle == low)
            return high;
        double value = curve(middle, parameters);
        if (isnan(value))
            return NAN;
        if (rising ? value < target : value > target)
            low = middle;
        else
            high = middle;
    }
}

static double beta_curve(double x, const double *shape)
{
    return twin_stats_beta_inc(shape[0], shape[1], x);
}

double twin_stats_beta_inv(double p, double a, double b)
{
    if (!(a > 0) || !(b > 0) || !isfinite(a + b) || !(p >= 0) || !(p <= 1))
        return NAN;
    if (p == 0 || p == 1)
        return p;
    return tw_stats_invert(beta_curve, (const double[]){a, b}, p, true, 1);
}
