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
 * - row_turns, row_turns_of: the signs of a row once more, laid out for vd_add_turned: acc + x with
 *   the signs of group g of lane group `group`, rounded once.
 * - vh, GH: a vector of at most TW_LANES 16-bit integers; vectors for TW_LANES of them. vh_load
 *   (vector number g), vh_set, vh_xor, vh_min, vh_max, vh_lowest (unsigned), vh_max_signed: as
 *   named. vh_zeros, vh_zeros_total: counts of what is zero but for the highest bit.
 * - vz, vz_none, vf_zeros, vd_count, vz_total: counts of zeros, and of set masks.
 * - row_signs: the signs of a row by their first key, element 0 in the lowest bit.
 * - vf_lowest, vf_highest, vd_lowest, vd_highest, vd_any_bit: of one vector.
 * - load_f16, load_bf16, load_f32: vector number g of the floats at p.
 * - spread_f16, spread_bf16: TW_LANES elements at p as floats in memory.
 * - vf_widen, vd_widen: D doubles, of part number `part` of a vector of floats; of the floats in
 *   memory.
 */
#include <stdbool.h>
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

/* Extremes and zeros of f32, and its sums in f64, in one loop: there are registers enough. */
static struct tw_extremes moments_f32(const void *data, size_t n, struct tw_lanes *lanes)
{
    const unsigned char *p = data;
    vd sum[GD], sumsq[GD];
    vf min = vf_set(__builtin_inff()), max = vf_set(-__builtin_inff());
    vz zeros = vz_none();
    lanes_load(lanes->sum, sum);
    lanes_load(lanes->sumsq, sumsq);
    for (const unsigned char *end = p + 4 * n; p < end; p += 4 * TW_LANES) {
        PREFETCH_NEXT(p);
        UNROLL for (int g = 0; g < GF; g++)
        {
            const vf x = load_f32(p, g);
            min = vf_min(min, x);
            max = vf_max(max, x);
            zeros = vf_zeros(zeros, x);
        }
        UNROLL for (int g = 0; g < GD; g++)
        {
            const vd d = vd_widen((const float *)p + g * D);
            sum[g] = vd_add(sum[g], d);
            sumsq[g] = vd_square_add(sumsq[g], d);
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

/* Extremes and zeros alone, in chains that do not wait for each other. */
static struct tw_extremes extremes_f32(const unsigned char *p, size_t n)
{
    vf min[GF], max[GF];
    vz zeros[GF];
    UNROLL for (int g = 0; g < GF; g++)
    {
        min[g] = vf_set(__builtin_inff());
        max[g] = vf_set(-__builtin_inff());
        zeros[g] = vz_none();
    }
    for (const unsigned char *end = p + 4 * n; p < end; p += 4 * TW_LANES)
        UNROLL for (int g = 0; g < GF; g++)
        {
            const vf x = load_f32(p, g);
            min[g] = vf_min(min[g], x);
            max[g] = vf_max(max[g], x);
            zeros[g] = vf_zeros(zeros[g], x);
        }
    uint64_t count = vz_total(zeros[0]);
    UNROLL for (int g = 1; g < GF; g++)
    {
        min[0] = vf_min(min[0], min[g]);
        max[0] = vf_max(max[0], max[g]);
        count += vz_total(zeros[g]);
    }
    return (struct tw_extremes){(double)vf_lowest(min[0]), (double)vf_highest(max[0]), count};
}

static struct tw_extremes extremes_f64(const unsigned char *p, size_t n)
{
    vd min[GD], max[GD];
    vz zeros[GD];
    UNROLL for (int g = 0; g < GD; g++)
    {
        min[g] = vd_set(__builtin_inf());
        max[g] = vd_set(-__builtin_inf());
        zeros[g] = vz_none();
    }
    for (const unsigned char *end = p + 8 * n; p < end; p += 8 * TW_LANES)
        UNROLL for (int g = 0; g < GD; g++)
        {
            const vd d = vd_load((const double *)p + g * D);
            min[g] = vd_min(min[g], d);
            max[g] = vd_max(max[g], d);
            zeros[g] = vd_count(zeros[g], vd_equal(d, vd_set(0)));
        }
    uint64_t count = vz_total(zeros[0]);
    UNROLL for (int g = 1; g < GD; g++)
    {
        min[0] = vd_min(min[0], min[g]);
        max[0] = vd_max(max[0], max[g]);
        count += vz_total(zeros[g]);
    }
    return (struct tw_extremes){vd_lowest(min[0]), vd_highest(max[0]), count};
}

/* Of 16-bit types as integers, twice as many to a vector and without a conversion. Bits with a sign
 * order as the magnitude does: the highest signed integer is the largest number as long as one is
 * not negative, the highest unsigned one the smallest as long as one is; else the lowest unsigned
 * one is what is looked for. */
static inline __attribute__((always_inline)) struct tw_extremes
extremes_16(double (*load)(const void *, size_t), const unsigned char *p, size_t n)
{
    vh low = vh_set(UINT16_MAX), high = vh_set(0), signed_high = vh_set(0x8000);
    vh zeros = vh_set(0); /* at most TW_CHUNK in all: no count overflows */
    for (const unsigned char *end = p + 2 * n; p < end; p += 2 * TW_LANES)
        UNROLL for (int g = 0; g < GH; g++)
        {
            const vh x = vh_load(p, g);
            low = vh_min(low, x);
            high = vh_max(high, x);
            signed_high = vh_max_signed(signed_high, x);
            zeros = vh_zeros(zeros, x);
        }
    const uint16_t lowest = vh_lowest(low);
    /* The highest is the complement of the lowest complement. */
    uint16_t highest = (uint16_t)~vh_lowest(vh_xor(high, vh_set(UINT16_MAX)));
    uint16_t largest = vh_lowest(vh_xor(signed_high, vh_set(0x7FFF))) ^ 0x7FFF;
    if (largest >> 15)
        largest = lowest;
    if (!(highest >> 15))
        highest = lowest;
    return (struct tw_extremes){load(&highest, 0), load(&largest, 0), vh_zeros_total(zeros)};
}

static struct tw_extremes extremes_f16(const unsigned char *p, size_t n)
{
    return extremes_16(tw_load_f16, p, n);
}

static struct tw_extremes extremes_bf16(const unsigned char *p, size_t n)
{
    return extremes_16(tw_load_bf16, p, n);
}

/* A part of one row, of elements that lie as f32 or f64 at p: adds them to the sums, and with
 * `sketched` to the row's lanes. Its first lane group is number `group` of the row. */
static inline __attribute__((always_inline)) void
sums_strip(size_t size, bool sketched, bool in_place, const unsigned char *p, size_t n, vd sum[GD],
           vd sumsq[GD], const row_turns *turns, size_t group, double *lane)
{
    vd row[GD];
    UNROLL for (int g = 0; g < GD; g++) row[g] = sketched ? vd_load(lane + g * D) : vd_set(0);
    for (const unsigned char *end = p + n * size; p < end; p += TW_LANES * size, group++) {
        if (in_place)
            PREFETCH_NEXT(p);
        if (in_place && size == 8)
            PREFETCH_NEXT(p + 64);
        UNROLL for (int g = 0; g < GD; g++)
        {
            const vd d = size == 8 ? vd_load((const double *)p + g * D)
                                   : vd_widen((const float *)p + g * D);
            sum[g] = vd_add(sum[g], d);
            /* An f64's square is rounded before it is added. */
            sumsq[g] = size == 8 ? vd_add(sumsq[g], vd_mul(d, d)) : vd_square_add(sumsq[g], d);
            if (sketched)
                row[g] = vd_add_turned(row[g], d, turns, group, g);
        }
    }
    if (sketched)
        lanes_store(lane, row);
}

/* Sums, and with `sketched` a sketch, row by row. 16-bit elements become f32 in memory first, a row
 * at a time: from there they are widened fastest. spread is NULL for f32 and f64. */
static inline __attribute__((always_inline)) void
sums_rows(void (*spread)(float *, const unsigned char *), size_t size, bool sketched,
          const unsigned char *p, size_t n, uint64_t index, struct tw_lanes *lanes,
          struct tw_rows *rows)
{
    vd sum[GD], sumsq[GD];
    _Alignas(64) float wide[TW_ROW];
    lanes_load(lanes->sum, sum);
    lanes_load(lanes->sumsq, sumsq);
    while (n) {
        const size_t at = (size_t)(index % TW_ROW), m = n < TW_ROW - at ? n : TW_ROW - at;
        const unsigned char *from = p;
        row_turns turns;
        if (sketched)
            row_turns_of(tw_sign_key(index), &turns);
        if (spread) {
            for (size_t i = 0; i < m; i += TW_LANES) {
                PREFETCH_NEXT(p + i * size);
                spread(wide + i, p + i * size);
            }
            from = (const unsigned char *)wide;
        }
        sums_strip(size == 8 ? 8 : 4, sketched, !spread, from, m, sum, sumsq, &turns, at / TW_LANES,
                   sketched ? rows->lane : NULL);
        index += m;
        p += m * size;
        n -= m;
        if (sketched && index % TW_ROW == 0)
            tw_rows_fold(rows, index - 1);
    }
    lanes_store(lanes->sum, sum);
    lanes_store(lanes->sumsq, sumsq);
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
#define BOTH(name, size, spread)                                                        \
    static struct tw_extremes both_##name(const void *p, size_t n, uint64_t index,      \
                                          struct tw_lanes *lanes, struct tw_rows *rows) \
    {                                                                                   \
        sums_rows(spread, size, true, p, n, index, lanes, rows);                        \
        return extremes_##name(p, n);                                                   \
    }
#define MOMENTS_16(name)                                                                      \
    static struct tw_extremes moments_##name(const void *p, size_t n, struct tw_lanes *lanes) \
    {                                                                                         \
        sums_rows(spread_##name, 2, false, p, n, 0, lanes, NULL);                             \
        return extremes_##name(p, n);                                                         \
    }

MOMENTS_16(f16)
MOMENTS_16(bf16)
BOTH(f16, 2, spread_f16)
BOTH(bf16, 2, spread_bf16)
BOTH(f32, 4, NULL)
BOTH(f64, 8, NULL)
SKETCH(f16, 2, load_f16)
SKETCH(bf16, 2, load_bf16)
SKETCH(f32, 4, load_f32)
SKETCH(f64, 8, NULL)

#define VECTOR_KERNELS(set)                                               \
    const struct tw_kernels tw_kernels_##set = {                          \
        .name = #set,                                                     \
        .digest = digest,                                                 \
        .moments = {moments_f16, moments_bf16, moments_f32, moments_f64}, \
        .sketch = {sketch_f16, sketch_bf16, sketch_f32, sketch_f64},      \
        .both = {both_f16, both_bf16, both_f32, both_f64},                \
        .careful = {careful_f16, careful_bf16, careful_f32, careful_f64}, \
    }
