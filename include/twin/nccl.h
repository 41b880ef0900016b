/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_NCCL_H
#define TWIN_NCCL_H
/*
 * <twin/allreduce.h> between GPUs, over NCCL: int32 MAX of the exponents, int64 SUM of the
 * integers. The result has the bits that the library over MPI and twin_fixed_sum give. Compiled
 * where nvcc and nccl.h are found, never run (<twin/cuda.h>). Arguments are not compared between
 * ranks: as for NCCL's own calls, all ranks must make the same call. Waits once for the stream, to
 * learn whether there are NaN or infinities. Threads, fork and signal handlers: as <twin/cuda.h>,
 * and one thread at a time on a communicator. Link with -ltwinnccl -ltwincuda -lnccl. Since 0.1.
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
 * be d_x. Errors: as in <twin/cuda.h>, TWIN_ENOMEM (host memory for the exponents; device memory
 * for specials, taken only when there are any).
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
