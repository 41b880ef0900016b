/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FINGERPRINT_CONVERT_H
#define TW_FINGERPRINT_CONVERT_H
/*
 * Element conversions and the careful pass. Inline, so that each instruction set's file compiles
 * its own copy. All conversions to f64 are exact, except for 64-bit integers (rounded to nearest).
 */
#include <string.h>
#include "kernels.h"
#include "mixer.h"

/* The double with these bits, and the other way round. */
static inline double tw_f64_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t tw_f64_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double tw_load_f64(const void *p, size_t i)
{
    double x;
    memcpy(&x, (const char *)p + 8 * i, 8);
    return x;
}

static inline double tw_load_f32(const void *p, size_t i)
{
    float x;
    memcpy(&x, (const char *)p + 4 * i, 4);
    return x;
}

/* The upper half of an f32. */
static inline double tw_load_bf16(const void *p, size_t i)
{
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, 2);
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* Any small binary float: sign, `exponent` bits, `fraction` bits, IEEE infinities and NaNs. */
static inline double tw_small_float(uint32_t bits, unsigned exponent, unsigned fraction)
{
    /* Built from bits, without arithmetic that a mode could change; the product of a subnormal is
     * exact. */
    uint64_t sign = (uint64_t)(bits >> (exponent + fraction) & 1) << 63;
    uint64_t e = bits >> fraction & ((1u << exponent) - 1), f = bits & ((1u << fraction) - 1);
    int bias = (1 << (exponent - 1)) - 1;
    if (e == (1u << exponent) - 1)
        return tw_f64_from_bits(sign | 0x7FF0000000000000u | f << (52 - fraction));
    if (e == 0) { /* zero or subnormal: an integer number of smallest steps */
        double step = tw_f64_from_bits((uint64_t)(1023 + 1 - bias - (int)fraction) << 52);
        return tw_f64_from_bits(sign | tw_f64_bits((double)f * step));
    }
    return tw_f64_from_bits(sign | (e + 1023 - (uint64_t)bias) << 52 | f << (52 - fraction));
}

static inline double tw_load_f16(const void *p, size_t i)
{
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, 2);
    return tw_small_float(h, 5, 10);
}

/* An order-preserving integer, -0 below +0. */
static inline int64_t tw_order_key(double x)
{
    int64_t bits = (int64_t)tw_f64_bits(x);
    return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
}

/* The way back from tw_order_key(). */
static inline double tw_from_order_key(int64_t key)
{
    return tw_f64_from_bits((uint64_t)(key ^ (int64_t)((uint64_t)(key >> 63) >> 1)));
}

static inline void tw_careful_init(struct tw_careful *c)
{
    *c = (struct tw_careful){.min = __builtin_inf(), .max = -__builtin_inf()};
}

/* n elements, one at a time; adds to *c. What is not finite becomes +0 in out. */
static inline __attribute__((always_inline)) void
tw_careful_convert(double (*load)(const void *, size_t), const void *p, size_t n, double *out,
                   struct tw_careful *c)
{
    const uint64_t inf = 0x7FF0000000000000u, minus = 1ull << 63;
    int64_t min = tw_order_key(c->min), max = tw_order_key(c->max);
    for (size_t i = 0; i < n; i++) {
        double x = load(p, i);
        uint64_t bits = tw_f64_bits(x), magnitude = bits & ~minus;
        int64_t key = tw_order_key(x);
        int is_nan = magnitude > inf;
        c->nan += (uint64_t)is_nan;
        c->pos_inf += bits == inf;
        c->neg_inf += bits == (inf | minus);
        c->zeros += magnitude == 0;
        min = !is_nan && key < min ? key : min;
        max = !is_nan && key > max ? key : max;
        out[i] = tw_f64_from_bits(magnitude < inf ? bits : 0);
    }
    c->min = tw_from_order_key(min);
    c->max = tw_from_order_key(max);
}

/* Adds the lanes of the row that holds element `index` to the buckets, turned by the row's hash. */
static inline void tw_rows_fold(struct tw_rows *r, uint64_t index)
{
    const uint32_t lanes = TW_SKETCH_LANES(r->k), mask = r->k - 1;
    const uint32_t turn = tw_sketch_turn(index, r->k);
    if (r->k == TW_LANES) { /* the default: one lane to a bucket, and so no order among them */
        double twice[2 * TW_LANES];
        memcpy(twice, r->lane, TW_LANES * sizeof(double));
        memcpy(twice + TW_LANES, r->lane, TW_LANES * sizeof(double));
        for (uint32_t j = 0; j < TW_LANES; j++)
            r->bucket[j] += twice[TW_LANES - turn + j];
    } else {
        for (uint32_t j = 0; j < lanes; j++)
            r->bucket[(j + turn) & mask] += r->lane[j];
    }
    memset(r->lane, 0, lanes * sizeof(double));
}

#endif
