/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_EXACT_H
#define TWIN_EXACT_H
/*
 * Exact sums: the sum of floating-point numbers, or of products of them, held without any rounding
 * and rounded once, when it is read. The answer is the correctly rounded one, and so does not
 * depend on the order of the numbers, on how they were cut into pieces, on threads, on the
 * instruction set or on the machine. docs/internals/exact.md says how.
 *
 *     struct twin_acc sum, other;
 *     twin_acc_init(&sum);
 *     twin_acc_add(&sum, TWIN_F32, x, n, &err);   // as often as there are pieces
 *     twin_acc_merge(&sum, &other, &err);         // another thread's, another rank's
 *     float total;
 *     twin_acc_round(&sum, TWIN_F32, &total, &err);
 *
 * Numbers: TWIN_F64, TWIN_F32, TWIN_F16 and TWIN_BF16; the arrays may lie at any address. The
 * half-precision types are passed as their bits (uint16_t). What the sum of special values is:
 *  - a NaN, or Inf * 0, or both infinities: the canonical quiet NaN (0x7FF8000000000000,
 * 0x7FC00000, 0x7E00, 0x7FC0);
 *  - one kind of infinity: it;
 *  - nothing at all: +0;
 *  - zeros alone: -0 when there is at least one and all are -0, else +0;
 *  - others that cancel: +0;
 *  - subnormals are counted in full, and given back in full.
 * Nothing overflows on the way, however large the parts: only the last rounding may, to an
 * infinity, as IEEE 754 says.
 *
 * The caller's floating-point mode must be the default: to nearest, subnormals neither flushed nor
 * taken for zero. With another one everything that reads numbers refuses (TWIN_EINVAL) and changes
 * nothing. Exception flags and masks stay as they were. Nothing is allocated. An accumulator
 * belongs to one thread at a time; give each its own, and merge. All is safe after fork. Functions
 * with an err are not for signal handlers, since they may format its text. They return 0 or a
 * negative TWIN_E* code. Link with -ltwinnumerics. Since 0.1.
 */
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* From 2^-2148, the smallest product of two f64, to above 2^64 times the largest. */
#define TWIN_ACC_LIMBS 67

/* An exact sum. Look at it through the functions; equal sums of equally many numbers are equal byte
 * for byte. */
struct twin_acc {
    uint64_t count; /* numbers (or products) added */
    /* what else was among them; 0 when there was nothing, or only -0 */
    uint32_t flags;
    uint32_t reserved; /* 0 */
    /* the finite ones: two's complement in units of 2^-2148, lowest limb first */
    uint64_t limb[TWIN_ACC_LIMBS];
};

/* Makes it the sum of nothing. There is nothing to free. */
void twin_acc_init(struct twin_acc *acc);

/*
 * Add the n elements of x; their absolute values; their squares; the products of the elements of x
 * and y. Errors: TWIN_EINVAL (another type than those four, n < 0, n > 0 with a NULL pointer,
 * floating-point mode), TWIN_ELIMIT (more than 2^64 - 1 numbers in all). On an error *acc is as it
 * was.
 */
int twin_acc_add(struct twin_acc *acc, enum twin_dtype dtype, const void *x, int64_t n,
                 struct twin_error *err);
int twin_acc_add_abs(struct twin_acc *acc, enum twin_dtype dtype, const void *x, int64_t n,
                     struct twin_error *err);
int twin_acc_add_squares(struct twin_acc *acc, enum twin_dtype dtype, const void *x, int64_t n,
                         struct twin_error *err);
int twin_acc_add_products(struct twin_acc *acc, enum twin_dtype dtype, const void *x, const void *y,
                          int64_t n, struct twin_error *err);

/* Adds the sum in *from, which may be *to itself. TWIN_ELIMIT as above, and nothing is changed. */
int twin_acc_merge(struct twin_acc *to, const struct twin_acc *from, struct twin_error *err);

/* Rounds to nearest, ties to even, and stores one element of the type at *out. TWIN_EINVAL: another
 * type. */
int twin_acc_round(const struct twin_acc *acc, enum twin_dtype dtype, void *out,
                   struct twin_error *err);
/* The sum as twin_acc_round gives it for TWIN_F64. */
double twin_acc_f64(const struct twin_acc *acc);

/*
 * The accumulator as TWIN_ACC_BYTES bytes, the same on every machine (docs/format/accumulator.md),
 * to be sent or kept. Reading checks everything and leaves *acc as it was on an error: TWIN_EFORMAT
 * (length, checksum, contents that no sum has), TWIN_EVERSION (written by a later version).
 */
#define TWIN_ACC_BYTES 560
void twin_acc_write(const struct twin_acc *acc, unsigned char out[TWIN_ACC_BYTES]);
int twin_acc_read(struct twin_acc *acc, const void *data, size_t bytes, struct twin_error *err);

/*
 * In one call, rounded to the type of the elements: the sum, the sum of absolute values, the
 * squared norm (not its root) and the dot product of n elements. Errors as for twin_acc_add; *out
 * is then as it was.
 */
int twin_sum_f64(const double *x, int64_t n, double *out, struct twin_error *err);
int twin_sum_f32(const float *x, int64_t n, float *out, struct twin_error *err);
int twin_sum_f16(const uint16_t *x, int64_t n, uint16_t *out, struct twin_error *err);
int twin_sum_bf16(const uint16_t *x, int64_t n, uint16_t *out, struct twin_error *err);
int twin_abs_sum_f64(const double *x, int64_t n, double *out, struct twin_error *err);
int twin_abs_sum_f32(const float *x, int64_t n, float *out, struct twin_error *err);
int twin_abs_sum_f16(const uint16_t *x, int64_t n, uint16_t *out, struct twin_error *err);
int twin_abs_sum_bf16(const uint16_t *x, int64_t n, uint16_t *out, struct twin_error *err);
int twin_norm2_f64(const double *x, int64_t n, double *out, struct twin_error *err);
int twin_norm2_f32(const float *x, int64_t n, float *out, struct twin_error *err);
int twin_norm2_f16(const uint16_t *x, int64_t n, uint16_t *out, struct twin_error *err);
int twin_norm2_bf16(const uint16_t *x, int64_t n, uint16_t *out, struct twin_error *err);
int twin_dot_f64(const double *x, const double *y, int64_t n, double *out, struct twin_error *err);
int twin_dot_f32(const float *x, const float *y, int64_t n, float *out, struct twin_error *err);
int twin_dot_f16(const uint16_t *x, const uint16_t *y, int64_t n, uint16_t *out,
                 struct twin_error *err);
int twin_dot_bf16(const uint16_t *x, const uint16_t *y, int64_t n, uint16_t *out,
                  struct twin_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
