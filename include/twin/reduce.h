/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_REDUCE_H
#define TWIN_REDUCE_H
/*
 * Order-free elementwise sums of `total` arrays ("contributions") of n elements: what an all-reduce
 * computes, without the transport. Every number becomes an integer, integers are added, in whatever
 * order and on whatever machine, and the sum is rounded once. Equal contributions give equal bits,
 * however they are spread over processes. docs/internals/allreduce.md.
 *
 * The steps; an arrow is what a program sends about (MPI, NCCL, gloo, or nothing at all):
 *  1. twin_fixed_exponents: for each block of `block` elements the largest exponent
 *     -> elementwise MAX
 *  2. only when twin_fixed_flagged > 0 (a NaN or an infinity): twin_fixed_specials
 *     -> elementwise MAX
 *  3. twin_fixed_add: each contribution, in units of its block, into int64
 *     -> elementwise integer SUM
 *  4. twin_fixed_round: back to the type
 *
 * When one process holds all contributions (to some of the blocks), twin_fixed_sum does the four at
 * once, to the same bits. When each process holds all of some blocks' sums in the end, their owner,
 * steps 3 and 4 may send less: struct twin_fixed_wire, below.
 *
 * What is computed, exactly. In a block let m be the largest exponent field of any finite element
 * of any contribution (1 if it is 0), E = m - bias + 1, so that all |x| < 2^E, and B = 62 -
 * ceil(log2 total). Each x becomes the integer nearest to x * 2^(B-E), ties to even; with S the sum
 * of those, the result is S * 2^(E-B) / divisor, rounded once to the type, to nearest, ties to
 * even, subnormals and overflow to infinity as IEEE 754 says. Error: |result - exact| <= (total *
 * 2^(E-B-1)) / divisor + half an ulp of the result. There is none but the last rounding, that is,
 * the result is the correctly rounded sum, when every element of the block is a multiple of
 * 2^(E-B): in f16 always (total <= 2^22), in f32 as long as no element is smaller than 2^(B-24)
 * times less than the block's largest (2^33 times with total = 24), in bf16 2^(B-8), in f64
 * 2^(B-53). The bound is relative to the *block's* largest element: an element 2^-40 below it in
 * f32 keeps B-40 bits. Smaller blocks bring it nearer; block = 1 gives each element an exponent of
 * its own. Zero: S = 0 gives +0, even where all elements were -0; S != 0 that rounds to zero keeps
 * its sign. NaN, or both infinities, among the elements at one index: the canonical quiet NaN; one
 * kind of infinity: it. What is finite elsewhere in such a block is summed as if the special
 * elements were 0.
 *
 * Common arguments. dtype: TWIN_F64, TWIN_F32, TWIN_F16 or TWIN_BF16. x: n elements at any address.
 * block: elements to an exponent, 1 to 2^30; TWIN_FIXED_BLOCK unless there is a reason; all
 * processes the same. total: the number of contributions in all, 1 to 2^31; adding more than that
 * overflows. exponents: twin_fixed_blocks(n, block) numbers, uint8_t, but uint16_t for f64
 * (twin_fixed_exponent_bytes). sum: n int64_t. A part of the arrays may be worked on by itself if
 * it begins at a whole number of blocks: advance x, sum and out by the elements, exponents by the
 * blocks, specials by twin_fixed_specials_count. Output arrays may not overlap inputs, but for what
 * twin_fixed_sum says. Nothing is allocated; any number of threads, on arrays of their own.
 *
 * Errors: TWIN_EINVAL for arguments out of range or NULL with n > 0, for another type, for
 * exponents that flag a block without specials given, and from all that compute when the caller's
 * floating-point mode is not the default one (to nearest, subnormals neither flushed nor taken for
 * zero). Nothing is written then. All functions return 0, or a count where they say so, or a
 * negative TWIN_E* code. Safe after fork; those with an err are not for signal handlers, since they
 * may format its text. Link with -ltwinnumerics. Since 0.1.
 */
#include <stdint.h>
#include <twin/error.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define TWIN_FIXED_BLOCK 1024 /* elements to an exponent, unless there is a reason */
#define TWIN_FIXED_MAX_BLOCK ((int64_t)1 << 30)
#define TWIN_FIXED_MAX_TOTAL ((int64_t)1 << 31)

/* Number of blocks of n elements, the last one short or not; TWIN_EINVAL (negative) when an
 * argument is out of range. */
int64_t twin_fixed_blocks(int64_t n, int64_t block);
/* Bytes of one exponent: 1, or 2 for f64; TWIN_EINVAL for a type that cannot be summed. */
int twin_fixed_exponent_bytes(enum twin_dtype dtype);
/* B of the formula: 62 - ceil(log2 total); TWIN_EINVAL when total is out of range. */
int twin_fixed_bits(int64_t total);

/*
 * Step 1. exponents[b] = max(exponents[b], the largest exponent field in block b of x). Start with
 * zeros; call it for each contribution that this process holds. A field of all ones (31, 255, 2047)
 * flags a block with a NaN or an infinity.
 */
int twin_fixed_exponents(enum twin_dtype dtype, const void *x, int64_t n, int64_t block,
                         void *exponents, struct twin_error *err);
/* How many of the blocks are flagged; TWIN_EINVAL for another type, blocks < 0 or NULL. Equal
 * everywhere after MAX. */
int64_t twin_fixed_flagged(enum twin_dtype dtype, const void *exponents, int64_t blocks);

/*
 * Step 2. For the flagged blocks, in order, 1 + 2 * block numbers of the exponents' type each: the
 * largest exponent field of finite elements, then for each index two marks: 1 if +Inf or NaN was
 * there, 1 if -Inf or NaN was there. They grow by MAX. Start with zeros; call it for each
 * contribution. The first function says how many numbers that are (0: no block is flagged), or
 * TWIN_EINVAL.
 */
int64_t twin_fixed_specials_count(enum twin_dtype dtype, int64_t block, const void *exponents,
                                  int64_t blocks);
int twin_fixed_specials(enum twin_dtype dtype, const void *x, int64_t n, int64_t block,
                        const void *exponents, void *specials, struct twin_error *err);

/*
 * Step 3. Adds one contribution to sum, which starts as zeros. `exponents` and `specials` are those
 * after MAX over all contributions, else the result is meaningless; specials may be NULL when no
 * block is flagged.
 */
int twin_fixed_add(enum twin_dtype dtype, const void *x, int64_t n, int64_t block, int64_t total,
                   const void *exponents, const void *specials, int64_t *sum,
                   struct twin_error *err);

/*
 * Step 4. divisor, 1 to 2^31: 1 for the sum, total for the mean; the quotient is rounded once, not
 * the sum first.
 */
int twin_fixed_round(enum twin_dtype dtype, const int64_t *sum, int64_t n, int64_t block,
                     int64_t total, int64_t divisor, const void *exponents, const void *specials,
                     void *out, struct twin_error *err);

/*
 * Steps 3 and 4 where each part of the arrays has an owner, to which the others send what they hold
 * of it, in as few bytes as hold it exactly (the owner needs nothing but bytes: no SUM). The
 * result has the same bits.
 *
 *  1. twin_fixed_extents in place of twin_fixed_exponents: beside each block's exponent its depth,
 *     how far the exponent field of its smallest element that is not zero lies below that of an
 *     infinity (0: all are zeros; f64: always the largest)
 *     -> elementwise MAX of both; then step 2
 *  3. twin_fixed_pack: the sum of the contributions that one process holds of a part
 *     -> to the owner
 *  4. twin_fixed_finish: all that was sent, and what the owner holds itself, to the type
 *
 * A packed part is twin_fixed_packed_bytes long, which all processes know: nothing for a block of
 * zeros, else 4, 5, 6 or 8 bytes for each element. f32 of like size (normally distributed,
 * 8 contributions) takes 6, bf16 and f16 take 4; f64, and blocks with NaN or infinities, 8. Who
 * holds a single contribution does better to send it as it is: finish takes contributions from
 * anywhere. Bytes are those of little-endian processors.
 */
struct twin_fixed_wire { /* what all processes know; the same everywhere */
    enum twin_dtype dtype;
    int64_t block, total;
    int64_t most; /* contributions that go into one packed part, at most; 1 to total */
    /* of the part, as after MAX; specials as for twin_fixed_add */
    const void *exponents, *depths, *specials;
};
int twin_fixed_extents(enum twin_dtype dtype, const void *x, int64_t n, int64_t block,
                       void *exponents, void *depths, struct twin_error *err);
/* As twin_fixed_extents, of n elements that are copied to `to`, where they are elements from `at`
 * on: what blocks of `to` hold may come in pieces, from several arrays. */
int twin_fixed_take(enum twin_dtype dtype, const void *x, int64_t n, int64_t at, int64_t block,
                    void *to, void *exponents, void *depths, struct twin_error *err);
/* Bytes of n elements when they are packed; TWIN_EINVAL for arguments out of range. */
int64_t twin_fixed_packed_bytes(const struct twin_fixed_wire *wire, int64_t n);
/* x: `count` contributions, at most `most` of them. */
int twin_fixed_pack(const struct twin_fixed_wire *wire, const void *const *x, int64_t count,
                    int64_t n, void *packed, struct twin_error *err);
/* x: `count` contributions; packed: what `senders` others have sent. out may be one of x. */
int twin_fixed_finish(const struct twin_fixed_wire *wire, const void *const *x, int64_t count,
                      const void *const *packed, int64_t senders, int64_t n, int64_t divisor,
                      void *out, struct twin_error *err);

/*
 * The four steps over `count` contributions x[0..count-1] of n elements each, block by block while
 * they are in the cache. They are all there are to these blocks: count <= total (fewer: the others
 * are taken for zeros). No memory but the stack. out may be one of x.
 */
int twin_fixed_sum(enum twin_dtype dtype, const void *const *x, int64_t count, int64_t n,
                   int64_t block, int64_t total, int64_t divisor, void *out,
                   struct twin_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
