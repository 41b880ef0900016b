/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PAIRS_H
#define TW_PAIRS_H
/*
 * Sums of few numbers, many side by side. Each is held as two doubles, high + low, that together
 * are the exact sum as long as nothing is lost: an addition's rounding error is a double itself
 * (Knuth's TwoSum), which goes into the low one, and what that one rounds off marks the sum as
 * inexact. Such a sum is made anew in an accumulator (exact.h): nothing wrong is ever kept, and the
 * answer depends on the numbers alone whichever way was taken.
 *
 * NaN, infinities and overflow make the error of an addition a NaN, and so mark the sum as well.
 */
#include <stddef.h>
#include <stdint.h>
#include "convert.h"
#include "kernels.h"

/* sums in one group: high, low and marks stay in the first-level cache */
#define TW_PAIRS_WIDTH 256

/* A group of sums. inexact: not 0 where the pair no longer is the exact sum. */
struct tw_pairs {
    double high[TW_PAIRS_WIDTH], low[TW_PAIRS_WIDTH];
    uint64_t inexact[TW_PAIRS_WIDTH]; /* not 0: sum j is not high[j] + low[j] */
};

/* A row and the sum that it belongs to. */
struct tw_place {
    uint64_t target, row;
};

/* What an instruction set provides (pair_rows.h). width: of the sums, 1 to TW_PAIRS_WIDTH. */
struct tw_pair_set {
    const char *name;
    /* The sums begin as the elements of x. */
    void (*begin)(struct tw_pairs *p, enum tw_kind kind, const void *x, size_t width);
    /*
     * Adds k rows: row i lies at x + stride * i, or, with an order, at x + stride * order[i].row.
     */
    void (*add)(struct tw_pairs *p, enum tw_kind kind, const char *x, size_t stride,
                const struct tw_place *order, size_t k, size_t width);
    /* Rounds all of them into out; the elements whose sum is inexact are anything. Returns whether
     * there are any. */
    int (*round)(const struct tw_pairs *p, enum tw_kind kind, void *out, size_t width);
};

extern const struct tw_pair_set tw_pairs_scalar, tw_pairs_avx2, tw_pairs_avx512;

static inline double tw_half_value(uint16_t h) /* as tw_load_f16, without branches */
{
    const uint32_t magnitude = (uint32_t)(h & 0x7FFF) << 13;
    float f;
    uint32_t bits;
    memcpy(&f, &magnitude, 4);
    f *= 0x1p112f; /* the exponents' biases differ by 112; exact, subnormals too */
    memcpy(&bits, &f, 4);
    bits |= ((h & 0x7C00) == 0x7C00 ? 0x7F800000u : 0) | (uint32_t)(h & 0x8000) << 16;
    memcpy(&f, &bits, 4);
    return f;
}

/* Element i as a double, which holds all of these types exactly. */
static inline double tw_pair_load(enum tw_kind kind, const void *p, size_t i)
{
    uint16_t h;
    switch (kind) {
    case TW_F16: memcpy(&h, (const char *)p + 2 * i, 2); return tw_half_value(h);
    case TW_BF16: return tw_load_bf16(p, i);
    case TW_F32: return tw_load_f32(p, i);
    default: return tw_load_f64(p, i);
    }
}

/* high + low += x; returns 0 unless something was lost. */
static inline uint64_t tw_pair_add(double *high, double *low, double x)
{
    const double h = *high, l = *low;
    const double s = h + x, b = s - h, e = (h - (s - b)) + (x - b);
    const double t = l + e, d = t - l, lost = (l - (t - d)) + (e - d);
    *high = s;
    *low = t;
    return tw_f64_bits(lost) << 1; /* both zeros are nothing */
}

/* high + low to nearest. A low of zero has no sign to give. */
static inline double tw_pair_f64(double high, double low)
{
    return low == 0 ? high : high + low;
}

/* high + low rounded to odd: an inexact one gets its last bit set, so that rounding once more, to
 * fewer bits, gives what rounding at once would have given (Boldo and Melquiond 2008). */
static inline double tw_pair_odd(double high, double low)
{
    const double s = high + low, b = s - high, rest = (high - (s - b)) + (low - b);
    const uint64_t bits = tw_f64_bits(s), even = ~bits & 1;
    const uint64_t up = (rest > 0) == (s > 0) ? even : -even;
    const double odd = tw_f64_from_bits(bits + (rest != 0 ? up : 0));
    return low == 0 ? high : odd;
}

/* A finite double to a 16-bit type, to nearest, ties to even. */
static inline uint16_t tw_pair_half(double x, int exponent, int fraction)
{
    const int bias = (1 << (exponent - 1)) - 1;
    const uint64_t bits = tw_f64_bits(x), sign = bits >> 63 << (exponent + fraction);
    const uint64_t infinity = (((uint64_t)1 << exponent) - 1) << fraction;
    int lead = (int)(bits >> 52 & 0x7FF) - 1023;
    if (lead > bias)
        return (uint16_t)(sign | infinity);
    if (lead < 1 - bias)
        lead = 1 - bias;
    /* In units of the last place it has less than fraction + 2 bits before the point; adding 2^52
     * rounds off the others. */
    const double unit = tw_f64_from_bits((uint64_t)(1023 + fraction - lead) << 52);
    const double whole = (tw_f64_from_bits(bits & INT64_MAX) * unit + 0x1p52) - 0x1p52;
    return (uint16_t)(sign | ((uint64_t)whole + ((uint64_t)(lead + bias - 1) << fraction)));
}

/* Rounds a pair to `kind` and stores it as element i. Types below f64 go through rounding to odd,
 * so that they are rounded only once. */
static inline void tw_pair_store(enum tw_kind kind, void *out, size_t i, double high, double low)
{
    double d;
    float f;
    uint16_t h;
    switch (kind) {
    case TW_F64: d = tw_pair_f64(high, low), memcpy((char *)out + 8 * i, &d, 8); break;
    case TW_F32: f = (float)tw_pair_odd(high, low), memcpy((char *)out + 4 * i, &f, 4); break;
    case TW_F16:
        h = tw_pair_half(tw_pair_odd(high, low), 5, 10), memcpy((char *)out + 2 * i, &h, 2);
        break;
    default:
        h = tw_pair_half(tw_pair_odd(high, low), 8, 7), memcpy((char *)out + 2 * i, &h, 2);
        break;
    }
}
#endif
