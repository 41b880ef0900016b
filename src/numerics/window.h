/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The window kernels of exact sums, written once over a small vocabulary that the file of each
 * instruction set defines before it includes this one:
 * - vd, D: a vector of D doubles. vf, F: a vector of F = 2 D floats. vi: as many bits.
 * - vd_load, vd_add, vd_mul, vf_add, vf_sub: as named.
 * - vd_product_error(a, b, p): a*b - p, rounded once.
 * - vd_minus: a - b, by the units that multiply where those that add have more to do.
 * - vd_bits, vf_bits, vd_from_bits, vf_from_bits: between them, bits unchanged.
 * - vi_load16, vi_set16, vi_add16, vi_max16, vi_min16, vi_lowest16 (unsigned): of 2 F elements of
 *   16 bits.
 * - vi_upper_f64, vi_upper_f32: the upper 16 bits of 2 F numbers, in any order.
 * - vi_set32, vi_set64, vi_and, vi_xor, vi_add32, vi_add64, vi_store.
 * - load_f16, load_bf16, load_f32: the vector of the F floats at p.
 * - vf_widen(v, part): D doubles of it. vd_widen(p): D doubles of the floats in memory.
 *
 * A fold splits the term r at a power of two. Adding M = 1.5 * 2^52 units, for a unit of 2^(top -
 * 48), rounds r to whole units: t = r + M. The bit pattern of t, read as an integer, is then that
 * of M plus the number of units: summing the patterns sums the units, with no rounding and in any
 * order. t need not be summed at once: the next term is added to it in place of M, up to TW_RUN of
 * them, which leave it below 2^53 units. r - (t - M) is the rest, exactly; the next fold takes it.
 * A narrow window does the same in floats, twice as many to a vector, for types of 16 bits that
 * span few binades: 21 bits to a fold (M is 1.5 * 2^23 units), sums of 32 bits, no runs. A block
 * gives no lane more than 2^10 terms of at most 2^20 units. The driver adds nothing of it to a sum
 * before it has seen, in `seen`, that the window held all terms: no rest is lost.
 */
#include <string.h>
#include "exact_inside.h"

#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

/* While some elements are in the first-level cache, those after them come near: else memory would
 * rest meanwhile. */
#define AHEAD 8192 /* bytes */

/* Of one operand, seen in words of 16 bits: the highest magnitude, the lowest one, and the lowest
 * one that is not zero, less one. */
struct operand {
    vi max, low, min;
};

/* Notes 2 F words. Less one, zero is the highest number: it is passed over. */
INLINE void see(struct operand *o, vi words)
{
    const vi magnitude = vi_and(words, vi_set16(INT16_MAX));
    o->max = vi_max16(o->max, magnitude);
    o->low = vi_min16(o->low, magnitude);
    o->min = vi_min16(o->min, vi_add16(magnitude, vi_set16(-1)));
}

/* The words of the 4 D elements at p: those of 16 bits whole, of the others the upper ones, which
 * hold the exponent. Four to one vector where they are cut from f64: cheaper than to look at each
 * number. */
INLINE vi words_of(size_t size, const unsigned char *p)
{
    if (size == 8)
        return vi_upper_f64(p);
    return size == 4 ? vi_upper_f32(p) : vi_load16(p);
}

/* Is there a number that is not zero, but whose upper word is zero, or minus zero? Those are
 * subnormal. */
static bool any_hidden(size_t size, const unsigned char *p, size_t n)
{
    bool any = false;
    if (size == 8)
        for (size_t i = 0; i < n; i++) {
            uint64_t w;
            memcpy(&w, p + 8 * i, 8);
            any |= (w & INT64_MAX) - 1 < ((uint64_t)1 << 48) - 1;
        }
    else if (size == 4)
        for (size_t i = 0; i < n; i++) {
            uint32_t w;
            memcpy(&w, p + 4 * i, 4);
            any |= (w & INT32_MAX) - 1 < ((uint32_t)1 << 16) - 1;
        }
    return any;
}

/* The exponent fields of what was seen in all lanes. fraction: bits of the words below them. */
static struct tw_seen fields(const struct operand *o, int fraction, size_t size,
                             const unsigned char *p, size_t n)
{
    const unsigned min = vi_lowest16(o->min);
    struct tw_seen s = {0xFFFFu - vi_lowest16(vi_xor(o->max, vi_set16(-1))), UINT32_MAX};
    s.max >>= fraction;
    if (min != UINT16_MAX)
        s.min = min >> fraction;
    if (size > 2 && s.min != 0 && vi_lowest16(o->low) == 0 && any_hidden(size, p, n))
        s.min = 0;
    return s;
}

/* The folds of one block, in two chains that do not wait for each other: M of each fold; M and the
 * units that were added since; sums of the bits of these. */
struct folder {
    vd big[TW_FOLDS], run[2][TW_FOLDS];
    vi sum[TW_FOLDS];
};

/* Splits D terms from fold `first` on. What is left of them after the last fold is dropped: the
 * driver sees whether that was nothing. */
INLINE void fold(vd run[TW_FOLDS], vd rest, int first, int folds)
{
    UNROLL for (int i = first; i < folds; i++)
    {
        const vd t = vd_add(run[i], rest);
        if (i + 1 < folds)
            rest = vd_minus(rest, vd_minus(t, run[i]));
        run[i] = t;
    }
}

/* Every chain begins at M. */
INLINE void begin_runs(struct folder *f, int folds)
{
    UNROLL for (int i = 0; i < folds; i++) f->run[0][i] = f->run[1][i] = f->big[i];
}

/* As integers the bits of what ran are those of M, twice, and the units of all terms. */
INLINE void end_runs(struct folder *f, int folds)
{
    UNROLL for (int i = 0; i < folds; i++)
        f->sum[i] = vi_add64(f->sum[i], vi_add64(vd_bits(f->run[0][i]), vd_bits(f->run[1][i])));
}

/* D terms. The error of a product is far below what the first fold takes, and begins at the second.
 */
INLINE void step_f64(vd run[TW_FOLDS], enum tw_op op, int folds, const double *x, const double *y)
{
    vd u = vd_load(x);
    if (op == TW_ABS)
        u = vd_from_bits(vi_and(vd_bits(u), vi_set64(INT64_MAX)));
    if (op == TW_SUM || op == TW_ABS) {
        fold(run, u, 0, folds);
        return;
    }
    const vd v = op == TW_SQUARE ? u : vd_load(y), p = vd_mul(u, v);
    fold(run, p, 0, folds);
    fold(run, vd_product_error(u, v, p), 1, folds);
}

/* F elements, half of them to each chain. Products of types narrower than f64 are exact. */
INLINE void step_narrow(struct folder *f, enum tw_op op, int folds,
                        vf (*load)(const unsigned char *), size_t size, const unsigned char *x,
                        const unsigned char *y)
{
    vf u = load(x);
    const vf v = op == TW_PRODUCT ? load(y) : u;
    if (op == TW_ABS)
        u = vf_from_bits(vi_and(vf_bits(u), vi_set32(INT32_MAX)));
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
        fold(f->run[part], term, 0, folds);
    }
}

/* 4 D elements: two steps of both chains. */
INLINE void step(struct folder *f, enum tw_op op, int folds, vf (*load)(const unsigned char *),
                 size_t size, const unsigned char *x, const unsigned char *y)
{
    if (load)
        UNROLL for (int g = 0; g < 2; g++) step_narrow(
            f, op, folds, load, size, x + (size_t)g * F * size, y + (size_t)g * F * size);
    else
        UNROLL for (int g = 0; g < 4; g++)
            step_f64(f->run[g % 2], op, folds, (const double *)x + (size_t)g * D,
                     (const double *)y + (size_t)g * D);
}

/* The bits of M for fold i. */
static uint64_t big_bits(struct tw_window w, int i)
{
    return (uint64_t)(w.top + 52 - TW_FOLD_BITS * (i + 1) + 1023) << 52 | (uint64_t)1 << 51;
}

/* One block: folds all terms and takes the patterns of M off the sums. n is a multiple of TW_STEP.
 * load is NULL for f64; fraction: bits of a word of the type below its exponent. */
INLINE void window(enum tw_op op, int folds, vf (*load)(const unsigned char *), size_t size,
                   int fraction, const unsigned char *x, const unsigned char *y, size_t n,
                   struct tw_window w, struct tw_folded *out)
{
    struct folder f;
    struct operand ox = {vi_set16(0), vi_set16(-1), vi_set16(-1)}, oy = ox;
    const unsigned char *const first_x = x, *const first_y = y, *const end = x + n * size;
    const size_t bytes = 4 * D * size; /* of a step */
    /* An f64's product is two terms: then half as many. */
    const size_t run = bytes * (!load && op >= TW_SQUARE ? TW_RUN / 4 : TW_RUN / 2);
    uint64_t runs = 0;
    UNROLL for (int i = 0; i < folds; i++)
    {
        f.big[i] = vd_from_bits(vi_set64((int64_t)big_bits(w, i)));
        f.sum[i] = vi_set64(0);
    }
    while (x < end) {
        const unsigned char *stop = (size_t)(end - x) < run ? end : x + run;
        begin_runs(&f, folds);
        for (; x < stop; x += bytes, y += bytes) {
            UNROLL for (size_t at = 0; at < bytes; at += 64)
            {
                __builtin_prefetch(x + at + AHEAD, 0, 2);
                if (op == TW_PRODUCT)
                    __builtin_prefetch(y + at + AHEAD, 0, 2);
            }
            see(&ox, words_of(size, x));
            if (op == TW_PRODUCT)
                see(&oy, words_of(size, y));
            step(&f, op, folds, load, size, x, y);
        }
        end_runs(&f, folds);
        runs++;
    }
    for (int i = 0; i < folds; i++) {
        uint64_t lane[D], sum = 0;
        vi_store(lane, f.sum[i]);
        for (int j = 0; j < D; j++)
            sum += lane[j];
        out->sum[i] = (int64_t)(sum - 2 * D * runs * big_bits(w, i));
    }
    out->x = fields(&ox, fraction, size, first_x, n);
    out->y = op == TW_PRODUCT ? fields(&oy, fraction, size, first_y, n) : out->x;
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
    const struct operand seen = {max, min, min};
    out->x = out->y = fields(&seen, fraction, 2, x, n);
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

#define WINDOW(op, name, size, fraction, load)                                                   \
    static void window_##op##_##name(const void *x, const void *y, size_t n, struct tw_window w, \
                                     struct tw_folded *out)                                      \
    {                                                                                            \
        switch (w.folds) {                                                                       \
        case 1: window(op, 1, load, size, fraction, x, y, n, w, out); break;                     \
        case 2: window(op, 2, load, size, fraction, x, y, n, w, out); break;                     \
        case 3: window(op, 3, load, size, fraction, x, y, n, w, out); break;                     \
        default: window(op, 4, load, size, fraction, x, y, n, w, out);                           \
        }                                                                                        \
    }
#define WINDOWS(op)                   \
    WINDOW(op, f16, 2, 10, load_f16)  \
    WINDOW(op, bf16, 2, 7, load_bf16) \
    WINDOW(op, f32, 4, 7, load_f32)   \
    WINDOW(op, f64, 8, 4, NULL)
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
