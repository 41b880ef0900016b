/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_CUDA_H
#define TWIN_CUDA_H
/*
 * Exact and order-free sums of arrays in GPU memory: the same bits as <twin/exact.h> and
 * <twin/reduce.h> give on the host. Integer arithmetic only. Compiled with every build that finds
 * nvcc. tests/kernels/cuda_test compares the bits where there is a GPU
 * (docs/internals/allreduce.md).
 *
 * Pointers named d_ are to device memory, aligned for their elements. Work is put into `stream` (a
 * cudaStream_t); calls return at once unless they say otherwise, and what they read and write
 * belongs to them until the stream has come that far. Errors: TWIN_EINVAL (arguments, as in
 * <twin/reduce.h>), TWIN_EIO (what CUDA reports). Nothing is allocated. Any number of threads, on
 * arrays and streams of their own; as with all of CUDA, not in a child that was forked after CUDA
 * was used, and not in signal handlers. Link with -ltwincuda, -ltwinnumerics and -lcudart. Since
 * 0.1.
 */
#include <stdint.h>
#include <twin/error.h>
#include <twin/exact.h>
#include <twin/reduce.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Adds the n elements of d_x to *acc, in host memory, as twin_acc_add does. d_scratch:
 * TWIN_CUDA_SCRATCH_BYTES of device memory, aligned to 8. Waits for the stream.
 */
#define TWIN_CUDA_SCRATCH_BYTES 1088
int twin_cuda_acc_add(struct twin_acc *acc, enum twin_dtype dtype, const void *d_x, int64_t n,
                      void *d_scratch, void *stream, struct twin_error *err);

/*
 * The steps of <twin/reduce.h> on [contributions][n] elements each; n here is at most 2^31 - 1.
 * Exponents and specials are int32_t, for all types: NCCL has no 16-bit integers. Which blocks are
 * flagged must be known to the host before specials are made: twin_cuda_fixed_flagged copies the
 * exponents to `exponents` on the host, waits for the stream, and returns their number (or an
 * error). d_index: [blocks] the number of flagged blocks before each, made by it, too.
 */
int twin_cuda_fixed_exponents(enum twin_dtype dtype, const void *d_x, int64_t contributions,
                              int64_t n, int64_t block, int32_t *d_exponents, void *stream,
                              struct twin_error *err);
int64_t twin_cuda_fixed_flagged(enum twin_dtype dtype, const int32_t *d_exponents, int64_t blocks,
                                int32_t *exponents, int32_t *d_index, void *stream,
                                struct twin_error *err);
/* d_specials starts as zeros, unlike the others, which are set. */
int twin_cuda_fixed_specials(enum twin_dtype dtype, const void *d_x, int64_t contributions,
                             int64_t n, int64_t block, const int32_t *d_exponents,
                             const int32_t *d_index, int32_t *d_specials, void *stream,
                             struct twin_error *err);
/* All contributions of this GPU at once: d_sum is set, not added to. d_specials may be NULL when no
 * block is flagged. */
int twin_cuda_fixed_quantise(enum twin_dtype dtype, const void *d_x, int64_t contributions,
                             int64_t n, int64_t block, int64_t total, const int32_t *d_exponents,
                             const int32_t *d_index, const int32_t *d_specials, int64_t *d_sum,
                             void *stream, struct twin_error *err);
int twin_cuda_fixed_round(enum twin_dtype dtype, const int64_t *d_sum, int64_t n, int64_t block,
                          int64_t total, int64_t divisor, const int32_t *d_exponents,
                          const int32_t *d_index, const int32_t *d_specials, void *d_out,
                          void *stream, struct twin_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
