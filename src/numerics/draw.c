/* SPDX-License-Identifier: Apache-2.0 */
/* Random draws by seed and index: draw number `index` of a seed is always the same, whoever asks,
 * in whatever order. A draw is half `index % 2` of block `index / 2` of the seed's Philox stream
 * (philox.c).
 *
 * Floating point: + - * / and sqrt only, in the order written; these round alike on every machine
 * (contraction to fused operations is off in the build), the system's log and cos do not. So the
 * values are the same everywhere, to the bit. */
#include "internal.h"

#include <twin/random.h>

#include <math.h>

/* The upper 53 bits: from 0 to below 1, exact. */
static double uniform_of(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

uint64_t twin_random_u64(uint64_t seed, uint64_t index)
{
    return tw_random_block(seed, index / 2, 0, TW_FOR_DRAWS).half[index % 2];
}

double twin_random_uniform(uint64_t seed, uint64_t index)
{
    return uniform_of(twin_random_u64(seed, index));
}

double twin_random_normal(uint64_t seed, uint64_t index)
{
    return tw_normal_of(twin_random_u64(seed, index));
}

bool twin_random_bernoulli(uint64_t seed, uint64_t index, double p)
{
    return twin_random_uniform(seed, index) < p;
}

/* The high half of draw * n. Draws that would make some results likelier than others are made anew
 * (Lemire 2019), with the number of the attempt in the block's counter, so that other indexes keep
 * their draws. TWIN_NO_INDEX for n = 0. */
uint64_t twin_random_below(uint64_t seed, uint64_t index, uint64_t n)
{
    if (n == 0)
        return TWIN_NO_INDEX;
    uint64_t rejected = -n % n;
    for (uint32_t attempt = 0;; attempt++) {
        uint64_t bits = tw_random_block(seed, index / 2, attempt, TW_FOR_DRAWS).half[index % 2];
        __extension__ unsigned __int128 product = (unsigned __int128)bits * n;
        if ((uint64_t)product >= rejected)
            return (uint64_t)(product >> 64);
    }
}

/* n draws from `first` on; each block is made once for its two. */
#define FILL(value_of, seed, first, n, out)                               \
    do {                                                                  \
        struct tw_pair pair = {{0, 0}};                                   \
        for (size_t i = 0; i < (n); i++) {                                \
            uint64_t index = (first) + i;                                 \
            if (i == 0 || index % 2 == 0)                                 \
                pair = tw_random_block(seed, index / 2, 0, TW_FOR_DRAWS); \
            (out)[i] = value_of(pair.half[index % 2]);                    \
        }                                                                 \
    } while (0)

void twin_random_fill_u64(uint64_t seed, uint64_t first, size_t n, uint64_t *out)
{
    FILL(, seed, first, n, out);
}

void twin_random_fill_uniform(uint64_t seed, uint64_t first, size_t n, double *out)
{
    FILL(uniform_of, seed, first, n, out);
}

void twin_random_fill_normal(uint64_t seed, uint64_t first, size_t n, double *out)
{
    FILL(tw_normal_of, seed, first, n, out);
}

/* ---- the normal quantile: Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37 (1988) */

/* Numerator and denominator, highest power first: around the median; in the tails, in sqrt(-ln p)
 * up to 5; beyond. */
struct ratio {
    double above[8], below[8];
};
static const struct ratio centre = {
    {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608},
    {5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1}};
static const struct ratio tail = {
    {7.7454501427834140764e-4, 2.27238449892691845833e-2, .24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959,
     1.42343711074968357734},
    {1.05075007164441684324e-9, 5.475938084995344946e-4, 1.51986665636164571966e-2,
     .14810397642748007459, .68976733498510000455, 1.6763848301838038494, 2.05319162663775882187,
     1}};
static const struct ratio far = {
    {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.2426609473880784386e-3,
     2.65321895265761230930e-2, .29656057182850489123, 1.7848265399172913358, 5.4637849111641143699,
     6.6579046435011037772},
    {2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
     7.868691311456132591e-4, 1.48753612908506148525e-2, .13692988092273580531,
     .59983220655588793769, 1}};

/* Highest power first. The order of operations is part of the result. */
static double horner(const double *coefficients, int n, double x)
{
    double value = coefficients[0];
    for (int i = 1; i < n; i++)
        value = value * x + coefficients[i];
    return value;
}

static double ratio_at(const struct ratio *r, double x)
{
    return horner(r->above, 8, x) / horner(r->below, 8, x);
}

/* ln x: x = m 2^e with m between sqrt(1/2) and sqrt(2), ln m = 2 atanh s with s = (m - 1) / (m +
 * 1), by its series to s^23. */
static double log_of(double x)
{
    static const double atanh_series[] = {1. / 23, 1. / 21, 1. / 19, 1. / 17, 1. / 15, 1. / 13,
                                          1. / 11, 1. / 9,  1. / 7,  1. / 5,  1. / 3,  1};
    int e;
    double m = frexp(x, &e);
    if (m < 0.7071067811865476) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1);
    return e * 0.6931471805599453 + 2 * s * horner(atanh_series, 12, s * s);
}

/* The upper 52 bits as a probability in the middle of its step, which is never 0 or 1, then its
 * quantile. */
double tw_normal_of(uint64_t bits)
{
    double q = ((double)(bits >> 12) + .5) * 0x1p-52 - .5; /* exact */
    double size = fabs(q);
    if (size <= .425)
        return q * ratio_at(&centre, .180625 - q * q);
    double r = sqrt(-log_of(.5 - size));
    double z = r <= 5 ? ratio_at(&tail, r - 1.6) : ratio_at(&far, r - 5);
    return q < 0 ? -z : z;
}
