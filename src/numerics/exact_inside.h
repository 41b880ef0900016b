/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_EXACT_INSIDE_H
#define TW_EXACT_INSIDE_H
/*
 * Exact sums inside: an accumulator (acc.c) takes integers at a power of two. They come from
 * windows (window.h, one file per instruction set: fast, for blocks of numbers of like size) or
 * from bins (bins.c: any number, one at a time; the reference). exact.c cuts the input into blocks
 * and chooses.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/exact.h>
#include "kernels.h" /* enum tw_kind */

#define TW_ACC_LOW (-2148) /* exponent of the accumulator's unit */
#define TW_ACC_HIGH 2048   /* every number or product is below 2^TW_ACC_HIGH */

/* What was met that no integer holds. */
enum tw_acc_flag {
    TW_ACC_NAN = 1,
    TW_ACC_POS_INF = 2,
    TW_ACC_NEG_INF = 4,
    TW_ACC_NOT_MINUS_ZERO = 8, /* something that is not -0, specials included */
    TW_ACC_FLAGS = 15
};

/* How elements become terms: x, |x|, x * x, x * y. */
enum tw_op { TW_SUM, TW_ABS, TW_SQUARE, TW_PRODUCT, TW_OPS };

__extension__ typedef __int128 tw_i128;
__extension__ typedef unsigned __int128 tw_u128;

/* Adds v * 2^exponent. The caller sees to it that it is a sum of numbers that count. */
void tw_acc_add_integer(struct twin_acc *acc, tw_i128 v, int exponent);
/* Adds a whole number of units, in two's complement. */
void tw_acc_add_limbs(struct twin_acc *acc, const uint64_t limb[TWIN_ACC_LIMBS]);
/* The limbs without their sign, which is returned; *bits becomes the number of bits up to the
 * highest set one. */
bool tw_acc_magnitude(const struct twin_acc *acc, uint64_t magnitude[TWIN_ACC_LIMBS], int *bits);

/*
 * ---- bins (bins.c): the accumulator with carries put off. Digit i counts 2^(32 i + TW_ACC_LOW).
 */
#define TW_DIGITS (2 * TWIN_ACC_LIMBS)
/* Digits may be above 2^32 or below 0 until the carries are settled. */
struct tw_bins {
    int64_t digit[TW_DIGITS];
    uint32_t added; /* since the carries were last settled */
    uint32_t flags;
};
void tw_bins_init(struct tw_bins *b);
/* Adds n elements of any value. y is read for products only. */
void tw_bins_add(struct tw_bins *b, enum tw_op op, enum tw_kind kind, const void *x, const void *y,
                 size_t n);
/* Empties the bins into the accumulator. */
void tw_bins_flush(struct tw_bins *b, struct twin_acc *acc);
/* Whether any of n finite terms is not -0. */
bool tw_bins_not_minus_zero(enum tw_op op, enum tw_kind kind, const void *x, const void *y,
                            size_t n);

/* ---- windows */
#define TW_FOLDS 4      /* at most */
#define TW_FOLD_BITS 48 /* of a term that one fold takes */
#define TW_RUN 8        /* terms of one run: 2^3 times 2^47 units are less than 2^51 */
#define TW_STEP 32      /* elements; kernels take a multiple of it */
#define TW_BLOCK 4096   /* elements, at most, in one call */

/* Sums of 16-bit types in floats: at most this many folds, of so many bits each. */
#define TW_NARROW_FOLDS 2
#define TW_NARROW_BITS 21

/* Terms t with |t| < 2^(top-1) that are whole multiples of 2^(top - bits * folds). */
struct tw_window {
    int top, folds;
    bool narrow;
};

/* Of one operand: the highest exponent field and the lowest one of what is not zero (one lower for
 * some; zero when there are subnormals; UINT32_MAX when all are zero). */
struct tw_seen {
    uint32_t max, min;
};

/* What a kernel found in one block. */
struct tw_folded {
    /* of the terms, in units of 2^(top - bits * (i + 1)); right when the window fits them */
    int64_t sum[TW_FOLDS];
    struct tw_seen x, y; /* right in any case */
};

typedef void tw_window_kernel(const void *x, const void *y, size_t n, struct tw_window w,
                              struct tw_folded *out);

/* The kernels of one instruction set. y is read for products only. */
struct tw_window_set {
    const char *name;
    tw_window_kernel *fold[TW_OPS][TW_KINDS];
    tw_window_kernel *narrow[TW_ABS + 1][TW_BF16 + 1]; /* sums and absolute sums of f16 and bf16 */
};

extern const struct tw_window_set tw_windows_avx2;
extern const struct tw_window_set tw_windows_avx512;
extern const struct tw_window_set tw_windows_neon;

/* Makes this set the one in use, NULL: none, only bins. For tests; twin_fingerprint_isa() decides
 * otherwise. */
void tw_exact_use(const struct tw_window_set *set);
#endif
