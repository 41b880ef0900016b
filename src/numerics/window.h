/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window kernels of exact sums, written once over a small vocabulary that the file of each
 * instruction set defines before it includes this one:
 * - vd, D: a vector of D doubles. vf, F: a vector of F = 2 D floats. vi: as many bits.
 * - vd_load, vd_add, vd_sub, vd_mul, vf_add, vf_sub: as named.
 * - vd_product_error(a, b, p): a*b - p, rounded once.
 * - vd_bits, vf_bits, vd_from_bits, vf_from_bits: between them, bits unchanged.
 * - vi_load16, vi_set16, vi_add16, vi_max16, vi_min16 (unsigned): of 2 F elements of 16 bits.
 * - vi_set32, vi_set64, vi_and, vi_add32, vi_add64, vi_max32, vi_min32 (unsigned), vi_store.
 * - load_f16, load_bf16, load_f32: the vector of the F floats at p.
 * - vf_widen(v, part): D doubles of it. vd_widen(p): D doubles of the floats in memory.
 *
 * A fold splits the term r at a power of two. Adding M = 1.5 * 2^52 units, for a unit of 2^(top -
 * 51), rounds r to whole units: t = r + M. The bit pattern of t, read as an integer, is then that
 * of M plus the number of units: summing the patterns sums the units, with no rounding and in any
 * order. r - (t - M) is the rest, exactly; the next fold takes it. A narrow window does the same in
 * floats, twice as many to a vector, for types of 16 bits that span few binades: 21 bits to a fold
 * (M is 1.5 * 2^23 units), sums of 32 bits. A block gives no lane more than 2^10 terms of at most
 * 2^20 units. The driver adds nothing of it to a sum before it has seen, in `seen`, that the window
 * held all terms: no rest is lost.
 */
#include "exact_inside.h"

#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

/* While some elements are in the first-level cache, those after them come near: else memory would
 * rest meanwhile. */
#define AHEAD 8192 /* bytes */

/* What was seen of one operand, lane by lane: the largest magnitude and the smallest one but zero.
 */
struct operand {
    vi max, min;
};

/* Notes v in *o; gives v, or its magnitude with `absolute`. */
INLINE vd see_vd(vd v, struct operand *o, int absolute)
{
    const vi magnitude = vi_and(vd_bits(v), vi_set64(INT64_MAX));
    /* Of the 32-bit halves only the high ones mean anything. Zero minus one is the highest number:
     * it is passed over. */
    o->max = vi_max32(o->max, magnitude);
    o->min = vi_min32(o->min, vi_add64(magnitude, vi_set64(-1)));
    return absolute ? vd_from_bits(magnitude) : v;
}

INLINE vf see_vf(vf v, struct operand *o, int absolute)
{
    const vi magnitude = vi_and(vf_bits(v), vi_set32(INT32_MAX));
    o->max = vi_max32(o->max, magnitude);
    o->min = vi_min32(o->min, vi_add32(magnitude, vi_set32(-1)));
    return absolute ? vf_from_bits(magnitude) : v;
}

/* The folds of one block: constants and sums of bit patterns. */
struct folder {
    vd big[TW_FOLDS]; /* M of each fold */
    vi sum[TW_FOLDS];
};

/* Splits D terms from fold `first` on. What is left of them after the last fold is dropped: the
 * driver sees whether that was nothing. */
INLINE void fold(struct folder *f, vd rest, int first, int folds)
{
    for (int i = first; i < folds; i++) {
        const vd t = vd_add(rest, f->big[i]);
        f->sum[i] = vi_add64(f->sum[i], vd_bits(t));
        if (i + 1 < folds)
            rest = vd_sub(rest, vd_sub(t, f->big[i]));
    }
}

/* D elements of x (and y). The error of a product is far below what the first fold takes, and
 * begins at the second. */
INLINE void step_f64(struct folder *f, enum tw_op op, int folds, const double *x, const double *y,
                     struct operand *ox, struct operand *oy)
{
    const vd u = see_vd(vd_load(x), ox, op == TW_ABS);
    if (op == TW_SUM || op == TW_ABS) {
        fold(f, u, 0, folds);
        return;
    }
    const vd v = op == TW_SQUARE ? u : see_vd(vd_load(y), oy, 0), p = vd_mul(u, v);
    fold(f, p, 0, folds);
    fold(f, vd_product_error(u, v, p), 1, folds);
}

/* F elements. Products of types narrower than f64 are exact. */
INLINE void step_narrow(struct folder *f, enum tw_op op, int folds,
                        vf (*load)(const unsigned char *), size_t size, const unsigned char *x,
                        const unsigned char *y, struct operand *ox, struct operand *oy)
{
    const vf u = see_vf(load(x), ox, op == TW_ABS);
    const vf v = op == TW_PRODUCT ? see_vf(load(y), oy, 0) : u;
    UNROLL for (int part = 0; part < 2; part++)
    {
        /* Floats are loaded again: that is cheaper than to take the vector apart. */
        const vd a = size == 4 && op != TW_ABS ? vd_widen((const float *)x + part * D)
                                               : vf_widen(u, part);
        vd term = a;
        if (op == TW_SQUARE)
            term = vd_mul(a, a);
        else if (op == TW_PRODUCT && size == 4)
            term = vd_mul(a, vd_widen((const float *)y + part * D));
        else if (op == TW_PRODUCT)
            term = vd_mul(a, vf_widen(v, part));
        fold(f, term, 0, folds);
    }
}

/* The bits of M for fold i. */
static uint64_t big_bits(struct tw_window w, int i)
{
    return (uint64_t)(w.top + 1 - TW_FOLD_BITS * i + 1023) << 52 | (uint64_t)1 << 51;
}

/* The exponent fields of what was seen in all lanes. */
static struct tw_seen see(struct operand o, int wide)
{
    uint32_t max[F], min[F];
    struct tw_seen s = {0, UINT32_MAX};
    vi_store(max, o.max);
    vi_store(min, o.min);
    /* of f64 the high halves: every other one, little-endian */
    for (int i = wide; i < F; i += 1 + wide) {
        s.max = max[i] > s.max ? max[i] : s.max;
        s.min = min[i] < s.min ? min[i] : s.min;
    }
    const int shift = wide ? 20 : 23;
    s.max >>= shift;
    if (s.min != UINT32_MAX)
        s.min >>= shift;
    return s;
}

/* One block: folds all terms and takes the patterns of M off the sums. n is a multiple of TW_STEP.
 * load is NULL for f64. */
INLINE void window(enum tw_op op, int folds, vf (*load)(const unsigned char *), size_t size,
                   const unsigned char *x, const unsigned char *y, size_t n, struct tw_window w,
                   struct tw_folded *out)
{
    struct folder f;
    struct operand ox = {vi_set32(0), vi_set32(-1)}, oy = ox;
    for (int i = 0; i < folds; i++) {
        const uint64_t bits = big_bits(w, i);
        f.big[i] = vd_from_bits(vi_set64((int64_t)bits));
        f.sum[i] = vi_set64(0);
    }
    const size_t group = load ? F : D; /* elements of one vector */
    for (const unsigned char *end = x + n * size; x < end;
         x += 2 * group * size, y += 2 * group * size)
        UNROLL for (int g = 0; g < 2; g++)
        {
            const size_t at = (size_t)g * group * size;
            __builtin_prefetch(x + at + AHEAD, 0, 2);
            if (op == TW_PRODUCT)
                __builtin_prefetch(y + at + AHEAD, 0, 2);
            if (load)
                step_narrow(&f, op, folds, load, size, x + at, y + at, &ox, &oy);
            else
                step_f64(&f, op, folds, (const double *)(x + at), (const double *)(y + at), &ox,
                         &oy);
        }
    for (int i = 0; i < folds; i++) {
        /* Patterns added per lane: one for a term, and one more, from the second fold on, for an
         * f64 product's error. */
        const uint64_t patterns = (uint64_t)n * (!load && op >= TW_SQUARE && i ? 2 : 1);
        uint64_t lane[D], sum = 0;
        vi_store(lane, f.sum[i]);
        for (int j = 0; j < D; j++)
            sum += lane[j];
        out->sum[i] = (int64_t)(sum - patterns * big_bits(w, i));
    }
    out->x = see(ox, !load);
    out->y = op == TW_PRODUCT ? see(oy, !load) : out->x;
}

/* The bits of M for fold i of a narrow window. */
static uint32_t narrow_bits(struct tw_window w, int i)
{
    return (uint32_t)(w.top + 2 - TW_NARROW_BITS * i + 127) << 23 | (uint32_t)1 << 22;
}

/* One block of 16-bit elements by a narrow window. fraction: bits of the type's fraction, which are
 * shifted out of the magnitudes seen. */
INLINE void narrow(enum tw_op op, int folds, vf (*load)(const unsigned char *), int fraction,
                   const unsigned char *x, size_t n, struct tw_window w, struct tw_folded *out)
{
    vf big[TW_NARROW_FOLDS];
    vi sum[TW_NARROW_FOLDS], max = vi_set32(0), min = vi_set32(-1);
    uint32_t lane[F];
    uint16_t high[2 * F], low[2 * F];
    for (int i = 0; i < folds; i++) {
        big[i] = vf_from_bits(vi_set32((int32_t)narrow_bits(w, i)));
        sum[i] = vi_set32(0);
    }
    for (const unsigned char *end = x + 2 * n; x < end; x += 4 * F) {
        const vi magnitude = vi_and(vi_load16(x), vi_set16(INT16_MAX));
        __builtin_prefetch(x + AHEAD, 0, 2);
        max = vi_max16(max, magnitude);
        /* zero minus one is the highest number */
        min = vi_min16(min, vi_add16(magnitude, vi_set16(-1)));
        UNROLL for (int part = 0; part < 2; part++)
        {
            vf rest = load(x + part * 2 * F);
            if (op == TW_ABS)
                rest = vf_from_bits(vi_and(vf_bits(rest), vi_set32(INT32_MAX)));
            UNROLL for (int i = 0; i < folds; i++)
            {
                const vf t = vf_add(rest, big[i]);
                sum[i] = vi_add32(sum[i], vf_bits(t));
                if (i + 1 < folds)
                    rest = vf_sub(rest, vf_sub(t, big[i]));
            }
        }
    }
    for (int i = 0; i < folds; i++) {
        vi_store(lane, sum[i]);
        out->sum[i] = 0;
        for (int j = 0; j < F; j++)
            out->sum[i] += (int32_t)(lane[j] - (uint32_t)(n / F) * narrow_bits(w, i));
    }
    vi_store(high, max);
    vi_store(low, min);
    struct tw_seen s = {0, UINT16_MAX};
    for (int j = 0; j < 2 * F; j++) {
        s.max = high[j] > s.max ? high[j] : s.max;
        s.min = low[j] < s.min ? low[j] : s.min;
    }
    s.max >>= fraction;
    s.min = s.min == UINT16_MAX ? UINT32_MAX : s.min >> fraction;
    out->x = out->y = s;
}

#define NARROW(op, name, load, fraction)                                                         \
    static void narrow_##op##_##name(const void *x, const void *y, size_t n, struct tw_window w, \
                                     struct tw_folded *out)                                      \
    {                                                                                            \
        (void)y;                                                                                 \
        if (w.folds == 1)                                                                        \
            narrow(op, 1, load, fraction, x, n, w, out);                                         \
        else                                                                                     \
            narrow(op, 2, load, fraction, x, n, w, out);                                         \
    }
NARROW(TW_SUM, f16, load_f16, 10)
NARROW(TW_SUM, bf16, load_bf16, 7)
NARROW(TW_ABS, f16, load_f16, 10)
NARROW(TW_ABS, bf16, load_bf16, 7)

#define WINDOW(op, name, size, load)                                                             \
    static void window_##op##_##name(const void *x, const void *y, size_t n, struct tw_window w, \
                                     struct tw_folded *out)                                      \
    {                                                                                            \
        switch (w.folds) {                                                                       \
        case 1: window(op, 1, load, size, x, y, n, w, out); break;                               \
        case 2: window(op, 2, load, size, x, y, n, w, out); break;                               \
        case 3: window(op, 3, load, size, x, y, n, w, out); break;                               \
        default: window(op, 4, load, size, x, y, n, w, out);                                     \
        }                                                                                        \
    }
#define WINDOWS(op)              \
    WINDOW(op, f16, 2, load_f16) \
    WINDOW(op, bf16, 2, load_bf16) WINDOW(op, f32, 4, load_f32) WINDOW(op, f64, 8, NULL)
#define ROW(op) {window_##op##_f16, window_##op##_bf16, window_##op##_f32, window_##op##_f64}

WINDOWS(TW_SUM)
WINDOWS(TW_ABS)
WINDOWS(TW_SQUARE)
WINDOWS(TW_PRODUCT)

#define WINDOW_SET(set)                                              \
    const struct tw_window_set tw_windows_##set = {                  \
        #set,                                                        \
        {ROW(TW_SUM), ROW(TW_ABS), ROW(TW_SQUARE), ROW(TW_PRODUCT)}, \
        {{narrow_TW_SUM_f16, narrow_TW_SUM_bf16}, {narrow_TW_ABS_f16, narrow_TW_ABS_bf16}}}
