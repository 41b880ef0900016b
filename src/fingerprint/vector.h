/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics and sketch kernels, written once over a small vocabulary that the file of each
 * instruction set defines before it includes this one. It also defines digest().
 *
 * Every set adds the same numbers in the same order (element i belongs to lane i mod TW_LANES), so
 * all leave the same bits. The order within a lane is that of the elements; lanes are added up
 * elsewhere (pass.c).
 *
 * The vocabulary:
 * - vd, D: a vector of D doubles. vf, F: a vector of F floats. GD, GF: vectors for TW_LANES of
 * them.
 * - vd_load, vd_store, vd_set, vd_add, vd_mul, vd_min, vd_max, vf_set, vf_min, vf_max: as named.
 * - vd_equal, vd_less, vd_and, vd_or, vd_and_not: masks are vectors; and_not(a, b) is ~a & b.
 * - vd_square_add: acc + x*x, where x*x is exact (f32 and narrower), so that a fused instruction
 *   gives the same bits.
 * - vd_signed: flips the signs of element j of group g where bit D*g + j of a 16-bit word is set.
 * - vz, vz_none, vf_zeros, vd_count, vz_total: counts of zeros, and of set masks.
 * - row_signs: the signs of a row by their first key, element 0 in the lowest bit.
 * - vf_lowest, vf_highest, vd_lowest, vd_highest, vd_any_bit: of one vector.
 * - load_f16, load_bf16, load_f32: vector number g of the floats at p.
 * - vf_widen, vd_widen: D doubles, of part number `part` of a vector of floats; of the floats in
 *   memory.
 */
#include "convert.h"
#include "kernels.h"
#include "mixer.h"

#define UNROLL _Pragma("GCC unroll 16")

/* While some elements are in the first-level cache, those after them come near: else memory would
 * rest meanwhile. */
#define PREFETCH_NEXT(p) __builtin_prefetch((p) + 16384, 0, 2)

/* Between the lanes in memory and GD vectors of them. */
static inline void lanes_load(const double *lane, vd v[GD])
{
    UNROLL for (int g = 0; g < GD; g++) v[g] = vd_load(lane + g * D);
}

static inline void lanes_store(double *lane, const vd v[GD])
{
    UNROLL for (int g = 0; g < GD; g++) vd_store(lane + g * D, v[g]);
}

/*
 * Statistics of the types that are exact in f32: extremes and zeros in f32, sums in f64. Vector by
 * vector, so that the accumulators stay in registers where there are only sixteen.
 */
static inline __attribute__((always_inline)) struct tw_extremes
narrow_moments(vf (*load)(const unsigned char *, int), size_t size, const unsigned char *p,
               size_t n, struct tw_lanes *lanes)
{
    vd sum[GD], sumsq[GD];
    vf min = vf_set(__builtin_inff()), max = vf_set(-__builtin_inff());
    vz zeros = vz_none();
    lanes_load(lanes->sum, sum);
    lanes_load(lanes->sumsq, sumsq);
    for (const unsigned char *end = p + n * size; p < end; p += TW_LANES * size) {
        PREFETCH_NEXT(p);
        UNROLL for (int g = 0; g < GF; g++)
        {
            vf x = load(p, g);
            min = vf_min(min, x);
            max = vf_max(max, x);
            zeros = vf_zeros(zeros, x);
            UNROLL for (int part = 0; part < F / D; part++)
            {
                vd d = size == 4 ? vd_widen((const float *)p + g * F + part * D)
                                 : vf_widen(x, part);
                int lane = g * (F / D) + part;
                sum[lane] = vd_add(sum[lane], d);
                sumsq[lane] = vd_square_add(sumsq[lane], d);
            }
        }
    }
    lanes_store(lanes->sum, sum);
    lanes_store(lanes->sumsq, sumsq);
    return (struct tw_extremes){(double)vf_lowest(min), (double)vf_highest(max), vz_total(zeros)};
}

/* The same for f64. The square of an f64 is rounded, so it is multiplied and then added: a fused
 * instruction would give other bits. */
static struct tw_extremes moments_f64(const void *data, size_t n, struct tw_lanes *lanes)
{
    const unsigned char *p = data;
    vd sum[GD], sumsq[GD], min = vd_set(__builtin_inf()), max = vd_set(-__builtin_inf());
    vz zeros = vz_none();
    lanes_load(lanes->sum, sum);
    lanes_load(lanes->sumsq, sumsq);
    for (const unsigned char *end = p + 8 * n; p < end; p += 8 * TW_LANES) {
        PREFETCH_NEXT(p);
        PREFETCH_NEXT(p + 64);
        UNROLL for (int g = 0; g < GD; g++)
        {
            vd d = vd_load((const double *)p + g * D);
            min = vd_min(min, d);
            max = vd_max(max, d);
            zeros = vd_count(zeros, vd_equal(d, vd_set(0)));
            sum[g] = vd_add(sum[g], d);
            sumsq[g] = vd_add(sumsq[g], vd_mul(d, d));
        }
    }
    lanes_store(lanes->sum, sum);
    lanes_store(lanes->sumsq, sumsq);
    return (struct tw_extremes){vd_lowest(min), vd_highest(max), vz_total(zeros)};
}

/* A part of one row: the lane groups that begin at first, first + step, ..., before `end`, into the
 * lanes at `lane`. load is NULL for f64. */
static inline __attribute__((always_inline)) void
sketch_strip(vf (*load)(const unsigned char *, int), size_t size, const unsigned char *row,
             size_t first, size_t end, size_t step, const uint16_t *signs, double *lane)
{
    vd acc[GD];
    lanes_load(lane, acc);
    for (size_t i = first; i < end; i += step) {
        const unsigned char *p = row + i * size;
        uint32_t bits = signs[i / TW_LANES];
        UNROLL for (int g = 0; g < GD; g++)
        {
            vd d;
            if (size == 8) /* a constant: no branch is left */
                d = vd_load((const double *)p + g * D);
            else if (size == 4)
                d = vd_widen((const float *)p + g * D);
            else
                d = vf_widen(load(p, g / (F / D)), g % (F / D));
            acc[g] = vd_add(acc[g], vd_signed(d, bits, g));
        }
    }
    lanes_store(lane, acc);
}

/* Rows of 512 elements, the first and last of which may be cut. With more sketch lanes than
 * TW_LANES a row is walked in strips, one for each TW_LANES of its lanes, so that these stay in
 * registers. */
static inline __attribute__((always_inline)) void
sketch_rows(vf (*load)(const unsigned char *, int), size_t size, const unsigned char *p, size_t n,
            uint64_t index, struct tw_rows *rows)
{
    size_t strips = TW_SKETCH_LANES(rows->k) / TW_LANES;
    while (n) {
        size_t at = (size_t)(index % TW_ROW), m = n < TW_ROW - at ? n : TW_ROW - at;
        const unsigned char *row = p - at * size;
        uint16_t signs[TW_ROW / TW_LANES];
        row_signs(tw_sign_key(index), signs);
        if (strips == 1)
            sketch_strip(load, size, row, at, at + m, TW_LANES, signs, rows->lane);
        else
            for (size_t s = 0; s < strips; s++)
                sketch_strip(load, size, row, at + TW_LANES * ((s - at / TW_LANES) & (strips - 1)),
                             at + m, TW_LANES * strips, signs, rows->lane + TW_LANES * s);
        index += m;
        p += m * size;
        n -= m;
        if (index % TW_ROW == 0)
            tw_rows_fold(rows, index - 1);
    }
}

/* Whole vectors of any values; zeros of both signs are told apart by what is left of their sign
 * bits. */
static inline __attribute__((always_inline)) void
careful_vectors(vf (*load)(const unsigned char *, int), size_t size, const unsigned char *p,
                size_t n, double *out, struct tw_careful *c)
{
    const vd inf = vd_set(__builtin_inf()), minus_inf = vd_set(-__builtin_inf()), zero = vd_set(0),
             sign = vd_set(-0.0);
    vz nan = vz_none(), pos_inf = nan, neg_inf = nan, zeros = nan;
    vd min = inf, max = minus_inf, minus_zero = zero, plus_zero = zero;
    for (size_t i = 0; i < n; i += F) {
        vf x = load ? load(p + i * size, 0) : vf_set(0);
        UNROLL for (int part = 0; part < F / D; part++)
        {
            vd d = load ? vf_widen(x, part) : vd_load((const double *)p + i + part * D);
            vd number = vd_equal(d, d), is_zero = vd_equal(d, zero);
            nan = vd_count(nan, vd_and_not(number, vd_equal(zero, zero)));
            pos_inf = vd_count(pos_inf, vd_equal(d, inf));
            neg_inf = vd_count(neg_inf, vd_equal(d, minus_inf));
            zeros = vd_count(zeros, is_zero);
            min = vd_min(min, vd_or(vd_and(d, number), vd_and_not(number, inf)));
            max = vd_max(max, vd_or(vd_and(d, number), vd_and_not(number, minus_inf)));
            minus_zero = vd_or(minus_zero, vd_and(d, is_zero));
            plus_zero = vd_or(plus_zero, vd_and_not(d, vd_and(sign, is_zero)));
            vd_store(out + i + part * D, vd_and(d, vd_less(vd_and_not(sign, d), inf)));
        }
    }
    double low = vd_lowest(min), high = vd_highest(max);
    if (low == 0)
        low = vd_any_bit(minus_zero) ? -0.0 : 0.0;
    if (high == 0)
        high = vd_any_bit(plus_zero) ? 0.0 : -0.0;
    c->nan += vz_total(nan);
    c->pos_inf += vz_total(pos_inf);
    c->neg_inf += vz_total(neg_inf);
    c->zeros += vz_total(zeros);
    if (tw_order_key(low) < tw_order_key(c->min))
        c->min = low;
    if (tw_order_key(high) > tw_order_key(c->max))
        c->max = high;
}

/* Defines the kernels of one element type; what is less than a vector at the end goes element by
 * element. */
#define SKETCH(name, size, load)                                                                   \
    static void sketch_##name(const void *p, size_t n, uint64_t index, struct tw_rows *rows)       \
    {                                                                                              \
        sketch_rows(load, size, p, n, index, rows);                                                \
    }                                                                                              \
    static void careful_##name(const void *p, size_t n, double *out, struct tw_careful *c)         \
    {                                                                                              \
        size_t whole = n / F * F;                                                                  \
        if (whole)                                                                                 \
            careful_vectors(load, size, p, whole, out, c);                                         \
        tw_careful_convert(tw_load_##name, (const char *)p + whole * size, n - whole, out + whole, \
                           c);                                                                     \
    }
#define NARROW(name, size)                                                                    \
    SKETCH(name, size, load_##name)                                                           \
    static struct tw_extremes moments_##name(const void *p, size_t n, struct tw_lanes *lanes) \
    {                                                                                         \
        return narrow_moments(load_##name, size, p, n, lanes);                                \
    }

NARROW(f16, 2)
NARROW(bf16, 2)
NARROW(f32, 4)
SKETCH(f64, 8, NULL)

#define VECTOR_KERNELS(set)                                               \
    const struct tw_kernels tw_kernels_##set = {                          \
        .name = #set,                                                     \
        .digest = digest,                                                 \
        .moments = {moments_f16, moments_bf16, moments_f32, moments_f64}, \
        .sketch = {sketch_f16, sketch_bf16, sketch_f32, sketch_f64},      \
        .careful = {careful_f16, careful_bf16, careful_f32, careful_f64}, \
    }
