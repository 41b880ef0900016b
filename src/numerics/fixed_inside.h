/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FIXED_INSIDE_H
#define TW_FIXED_INSIDE_H
/*
 * Fixed-point sums inside: fixed.c walks the blocks and knows what is special; the kernels
 * (fixed_kernels.h, compiled once for each instruction set) do the ordinary blocks; element.h does
 * a single element, slowly and always right.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/reduce.h>
#include "element.h"
#include "kernels.h" /* enum tw_kind */

/* elements that a kernel is given at most where a buffer is on the stack */
#define TW_FIXED_CHUNK 1024

extern const struct tw_float_format tw_float_formats[TW_KINDS];

/* How a block becomes integers: two scales, since one may be out of range, and the split of
 * fixed_kernels.h. */
struct tw_fixed_unit {
    double scale, scale_too, high_magic, low_magic;
    uint64_t both_magic;
    int shift;
};

/* The exponent fields of a block's largest element and of its smallest one that is not zero; where
 * all are zero the smallest is larger than any field. */
struct tw_fixed_extent {
    uint32_t largest, smallest;
};

/* How integers become numbers: v = (sum / divisor) * scale. */
struct tw_fixed_way {
    double divisor, scale;
};

/* The kernels of one instruction set. */
struct tw_fixed_set {
    const char *name;
    uint32_t (*exponent[TW_KINDS])(const void *x, size_t n); /* the largest exponent field */
    struct tw_fixed_extent (*extent[TW_KINDS])(const void *x, size_t n); /* not for f64 */
    /*
     * Elements first to first + n of all contributions, added up in f64 and rounded once after a
     * multiplication by a power of two; not for f64. Only for blocks where no addition rounds.
     */
    void (*sum[TW_KINDS])(const void *const *x, size_t count, size_t first, size_t n, double scale,
                          void *out);
    void (*add[TW_KINDS])(const void *x, size_t n, const struct tw_fixed_unit *u, int64_t *sum);
    /* divisor 1 */
    void (*round[TW_KINDS])(const int64_t *sum, size_t n, struct tw_fixed_way w, void *out);
    /*
     * Any other divisor, not for f64: false when some quotient lies too near a boundary to be sure.
     */
    bool (*divide[TW_KINDS])(const int64_t *sum, size_t n, struct tw_fixed_way w, void *out);
};

extern const struct tw_fixed_set tw_fixed_plain, tw_fixed_avx2, tw_fixed_avx512;

/* Makes this set the one in use, for tests; NULL: what twin_fingerprint_isa() says again. */
void tw_fixed_use(const struct tw_fixed_set *set);

/* sum * 2^exponent / divisor, to nearest, ties to even: the bits of the type. */
uint64_t tw_fixed_round_one(int64_t sum, uint64_t divisor, int exponent, struct tw_float_format f);
#endif
