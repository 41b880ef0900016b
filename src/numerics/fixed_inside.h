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
#include <string.h>
#include <twin/reduce.h>
#include "element.h"
#include "kernels.h" /* enum tw_kind */

/* elements that a kernel is given at most where a buffer is on the stack */
#define TW_FIXED_CHUNK 1024
/* f64 sums that are made at a time: 4 KiB, so that they stay in the first cache beside elements */
#define TW_FIXED_IN_L1 512
/* widths of packed integers: 4, 5 and 6 bytes */
#define TW_WIDTHS 3

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
     * Elements first to first + n of all contributions, added up in f64, and what such sums are
     * when they are multiplied by a power of two and rounded once; not for f64. Only for blocks
     * where no addition rounds.
     */
    void (*gather[TW_KINDS])(const void *const *x, size_t count, size_t first, size_t n,
                             double *sum);
    void (*finish[TW_KINDS])(const double *sum, size_t n, double scale, void *out);
    /*
     * Such sums as integers of 4, 5 or 6 bytes: sum * scale is a whole number that fits. The lower
     * 4 bytes of each lie at low, what is above them at high.
     */
    void (*pack[TW_WIDTHS])(const double *sum, size_t n, double scale, void *low, void *high);
    /* Adds them to sums again: as numbers, or as integers. */
    void (*unpack[TW_WIDTHS])(const void *low, const void *high, size_t n, double unit,
                              double *sum);
    void (*unpack_integers[TW_WIDTHS])(const void *low, const void *high, size_t n, int64_t *sum);
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
const struct tw_fixed_set *tw_fixed_set_in_use(void);

/* ---- arguments (fixed_block.c) */
/* The checked arguments of one call. */
struct tw_fixed_job {
    enum tw_kind kind;
    size_t size;      /* bytes of an element */
    uint32_t special; /* the exponent field of NaN and infinities */
    int64_t n, block;
};

/* present: none of the addresses is NULL. */
int tw_fixed_job_init(struct tw_fixed_job *j, enum twin_dtype dtype, int64_t n, int64_t block,
                      bool present, struct twin_error *err);
/* Bounds of the number of contributions and of the divisor. */
int tw_fixed_check_total(int64_t total, int64_t divisor, struct twin_error *err);
/* The error of a call in another floating-point mode than the default one. */
int tw_fixed_refuse_mode(struct twin_error *err);
/* Flagged blocks need their marks: an error without them. */
int tw_fixed_need_specials(const struct tw_fixed_job *j, enum twin_dtype dtype,
                           const void *exponents, const void *specials, struct twin_error *err);

static inline const char *tw_fixed_number_at(const struct tw_fixed_job *j, const void *x, int64_t i)
{
    return (const char *)x + (size_t)i * j->size;
}

/* The last block may be shorter. */
static inline int64_t tw_fixed_block_length(const struct tw_fixed_job *j, int64_t b)
{
    const int64_t left = j->n - b * j->block;
    return left < j->block ? left : j->block;
}

/* ---- lists of exponents or marks: 2 bytes each for f64, else 1 */
static inline uint32_t tw_fixed_mark(const struct tw_fixed_job *j, const void *numbers, int64_t i)
{
    if (j->kind != TW_F64)
        return ((const uint8_t *)numbers)[i];
    uint16_t v;
    memcpy(&v, (const char *)numbers + 2 * i, 2);
    return v;
}

/* Sets number i to `value` if that is larger: lists are merged by MAX. */
void tw_fixed_raise(const struct tw_fixed_job *j, void *numbers, int64_t i, uint32_t value);

/* Whether a block is flagged, and then where its specials lie; steps on from block to block. */
struct tw_fixed_walk {
    const void *exponents, *specials;
    int64_t base;
};

/* Goes on to block b. True: it is flagged; *base is where its specials lie, and *field the exponent
 * of its finite elements. Else *field is that of the block. */
bool tw_fixed_walk_block(const struct tw_fixed_job *j, struct tw_fixed_walk *w, int64_t b,
                         uint32_t *field, int64_t *base);

/* ---- single elements */
uint64_t tw_fixed_element_bits(const struct tw_fixed_job *j, const void *x, int64_t i);
void tw_fixed_put_element(const struct tw_fixed_job *j, void *out, int64_t i, uint64_t bits);
uint32_t tw_fixed_field_of(const struct tw_fixed_job *j, uint64_t bits);
/* What an element is when it is not finite: two bits, which are merged by or; and back. */
unsigned tw_fixed_marks_of(const struct tw_fixed_job *j, uint64_t bits);
uint64_t tw_fixed_from_marks(const struct tw_fixed_job *j, unsigned marks);
/* Puts what the marks of a flagged block stand for over its results; base: where they lie. */
void tw_fixed_put_marks(const struct tw_fixed_job *j, const void *specials, int64_t base,
                        int64_t length, char *out);

/* ---- one block to integers and back. bits: a largest element of exponent `field` has so many. */
int tw_fixed_unit_exponent(enum tw_kind kind, uint32_t field, int bits);
struct tw_fixed_unit tw_fixed_unit_of(enum tw_kind kind, uint32_t field, int bits);
void tw_fixed_add_block(const struct tw_fixed_set *set, const struct tw_fixed_job *j, const void *x,
                        int64_t n, const struct tw_fixed_unit *u, bool special, int64_t *sum);
void tw_fixed_round_block(const struct tw_fixed_set *set, const struct tw_fixed_job *j,
                          const int64_t *sum, int64_t n, int64_t divisor, int exponent, char *out);
int tw_fixed_ceil_log2(int64_t v); /* 0 for less than 2 */

/* sum * 2^exponent / divisor, to nearest, ties to even: the bits of the type. */
uint64_t tw_fixed_round_one(int64_t sum, uint64_t divisor, int exponent, struct tw_float_format f);
#endif
