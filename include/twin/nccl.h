/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_NCCL_H
#define TWIN_NCCL_H
/*
 * <twin/allreduce.h> between GPUs, over NCCL: int32 MAX of the exponents, int64 SUM of the
 * integers. The result has the bits that the library over MPI and twin_fixed_sum give. Compiled
 * where nvcc and nccl.h are found. Never run on a GPU: tested with doubles of NCCL and of CUDA's
 * runtime (docs/internals/allreduce.md). All ranks must make the same call, as for NCCL's own;
 * type, n, block, total, divisor and the sum of the contributions are compared, and a call that is
 * not the same, or that a rank refuses, is an error on every rank. Not compared: whether there is a
 * call at all, and a number of blocks, which must be the same for NCCL itself. Waits for the stream
 * before the integers are summed, to learn what the others said and whether there are NaN or
 * infinities. Communicators may be non-blocking: calls wait then until NCCL has taken them. Not
 * between ncclGroupStart and ncclGroupEnd, which is an error, and after which memory is in use
 * until the group's end; not while the stream is captured. Threads, fork and signal handlers: as
 * <twin/cuda.h>, and one thread at a time on a communicator. Link with -ltwinnccl -ltwincuda
 * -lnccl. Since 0.1.
 */
#include <nccl.h>
#include <twin/cuda.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Device memory that twin_nccl_allreduce needs for n elements in blocks of `block`, or TWIN_EINVAL.
 */
int64_t twin_nccl_scratch_bytes(int64_t n, int64_t block);

/*
 * Sums `total` arrays of n elements, `contributions` of which this rank has in d_x, into d_out,
 * divided by divisor. d_scratch: as many bytes as the function above says, aligned to 8. d_out may
 * be d_x. Errors: as in <twin/cuda.h>, TWIN_EINVAL (also where ranks do not agree), TWIN_ENOMEM (on
 * every rank: host memory for the exponents; device memory for specials, taken only when there are
 * any).
 */
int twin_nccl_allreduce(enum twin_dtype dtype, const void *d_x, void *d_out, int64_t n,
                        int64_t contributions, int64_t total, int64_t block, int64_t divisor,
                        void *d_scratch, ncclComm_t comm, cudaStream_t stream,
                        struct twin_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
