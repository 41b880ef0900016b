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
#include "small.h"

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

static inline double tw_load_bf16(const void *p, size_t i)
{
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, 2);
    return tw_bf16_value(h);
}

static inline double tw_load_f16(const void *p, size_t i)
{
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, 2);
    return tw_f16_value(h);
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
