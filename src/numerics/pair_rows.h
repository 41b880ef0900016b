/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs side by side, in plain C that compilers turn into vectors: included once by a file for each
 * instruction set, which says TW_PAIR_SET. Every operation is an element's own, so all of them
 * leave the same bits.
 */
#include "pairs.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)

/* `width` numbers as doubles. */
static inline void widen(double *restrict v, enum tw_kind kind, const void *x, size_t width)
{
    switch (kind) { /* outside of the loops, or they stay scalar */
    case TW_F16:
        for (size_t j = 0; j < width; j++)
            v[j] = tw_pair_load(TW_F16, x, j);
        break;
    case TW_BF16:
        for (size_t j = 0; j < width; j++)
            v[j] = tw_pair_load(TW_BF16, x, j);
        break;
    case TW_F32:
        for (size_t j = 0; j < width; j++)
            v[j] = tw_pair_load(TW_F32, x, j);
        break;
    default: memcpy(v, x, 8 * width);
    }
}

/* Each pair starts as one number. */
static void begin(struct tw_pairs *p, enum tw_kind kind, const void *x, size_t width)
{
    widen(p->high, kind, x, width);
    memset(p->low, 0, sizeof *p->low * width);
    /* the only sum that no addition would mark: that of one NaN or infinity */
    for (size_t j = 0; j < width; j++)
        p->inexact[j] = (tw_f64_bits(p->high[j]) & INT64_MAX) >= 0x7FF0000000000000u;
}

/* Adds k rows, row by row: each pair meets its numbers in the order of the rows. */
static void add(struct tw_pairs *p, enum tw_kind kind, const char *x, size_t stride,
                const struct tw_place *order, size_t k, size_t width)
{
    double v[TW_PAIRS_WIDTH];
    double *restrict high = p->high, *restrict low = p->low;
    uint64_t *restrict inexact = p->inexact;
    for (size_t i = 0; i < k; i++) {
        widen(v, kind, x + stride * (order ? order[i].row : i), width);
        for (size_t j = 0; j < width; j++)
            inexact[j] |= tw_pair_add(high + j, low + j, v[j]);
    }
}

/* Rounds all pairs to `kind`. Returns whether any is inexact; what is stored for such a one is to
 * be made again. */
static int round_all(const struct tw_pairs *p, enum tw_kind kind, void *out, size_t width)
{
    uint64_t any = 0;
    if (kind == TW_F64)
        for (size_t j = 0; j < width; j++)
            tw_pair_store(TW_F64, out, j, p->high[j], p->low[j]);
    else if (kind == TW_F32)
        for (size_t j = 0; j < width; j++)
            tw_pair_store(TW_F32, out, j, p->high[j], p->low[j]);
    else
        for (size_t j = 0; j < width; j++)
            tw_pair_store(kind, out, j, p->high[j], p->low[j]);
    for (size_t j = 0; j < width; j++)
        any |= p->inexact[j];
    return any != 0;
}

const struct tw_pair_set JOIN(tw_pairs_, TW_PAIR_SET) = {QUOTE(TW_PAIR_SET), begin, add, round_all};
