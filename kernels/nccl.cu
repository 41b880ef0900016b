/* SPDX-License-Identifier: Apache-2.0 */
/* The all-reduce over NCCL: the kernels of fixed.cu, with a MAX of int32 and a SUM of int64 between
 * them. */
#include <stdlib.h>
#include <twin/nccl.h>
#include "device.cuh"

static int nccl_result(ncclResult_t rc, const char *what, struct twin_error *err)
{
    return rc == ncclSuccess
               ? 0
               : twin_error_set(err, TWIN_EIO, "NCCL: %s: %s", what, ncclGetErrorString(rc));
}

extern "C" int64_t twin_nccl_scratch_bytes(int64_t n, int64_t block)
{
    const int64_t blocks = n > INT32_MAX ? TWIN_EINVAL : twin_fixed_blocks(n, block);
    /* integers; exponents and where their specials are */
    return blocks < 0 ? TWIN_EINVAL : 8 * n + 8 * blocks;
}

extern "C" int twin_nccl_allreduce(enum twin_dtype dtype, const void *d_x, void *d_out, int64_t n,
                                   int64_t contributions, int64_t total, int64_t block,
                                   int64_t divisor, void *d_scratch, ncclComm_t comm,
                                   cudaStream_t stream, struct twin_error *err)
{
    const int64_t blocks = twin_fixed_blocks(n, block);
    if (twin_nccl_scratch_bytes(n, block) < 0 || (n > 0 && !d_scratch))
        return twin_error_set(
            err, TWIN_EINVAL,
            "NCCL all-reduce: %lld elements in blocks of %lld, scratch memory at %s", (long long)n,
            (long long)block, d_scratch ? "an address" : "NULL");
    if (n == 0)
        return 0;
    int64_t *sum = (int64_t *)d_scratch;
    int32_t *exponents = (int32_t *)(sum + n), *index = exponents + blocks, *specials = NULL;
    int32_t *host = (int32_t *)malloc((size_t)blocks * sizeof *host);
    if (!host)
        return twin_error_set(err, TWIN_ENOMEM, "NCCL all-reduce: out of memory for %lld exponents",
                              (long long)blocks);
    int64_t flagged = 0;
    int rc = twin_cuda_fixed_exponents(dtype, d_x, contributions, n, block, exponents, stream, err);
    if (!rc)
        rc = nccl_result(
            ncclAllReduce(exponents, exponents, (size_t)blocks, ncclInt32, ncclMax, comm, stream),
            "MAX of the exponents", err);
    if (!rc &&
        (flagged = twin_cuda_fixed_flagged(dtype, exponents, blocks, host, index, stream, err)) < 0)
        rc = (int)flagged;
    if (!rc && flagged) {
        const size_t count = (size_t)flagged * (size_t)(1 + 2 * block);
        if (cudaMallocAsync((void **)&specials, count * sizeof *specials, stream) != cudaSuccess)
            rc = twin_error_set(err, TWIN_ENOMEM,
                                "NCCL all-reduce: out of device memory for the marks of NaN and "
                                "infinities in %lld blocks",
                                (long long)flagged);
        if (!rc)
            rc = tw_cuda_result(cudaMemsetAsync(specials, 0, count * sizeof *specials, stream),
                                "clearing marks", err);
        if (!rc)
            rc = twin_cuda_fixed_specials(dtype, d_x, contributions, n, block, exponents, index,
                                          specials, stream, err);
        if (!rc)
            rc = nccl_result(
                ncclAllReduce(specials, specials, count, ncclInt32, ncclMax, comm, stream),
                "MAX of the marks", err);
    }
    if (!rc)
        rc = twin_cuda_fixed_quantise(dtype, d_x, contributions, n, block, total, exponents, index,
                                      specials, sum, stream, err);
    if (!rc)
        rc = nccl_result(ncclAllReduce(sum, sum, (size_t)n, ncclInt64, ncclSum, comm, stream),
                         "SUM of the integers", err);
    if (!rc)
        rc = twin_cuda_fixed_round(dtype, sum, n, block, total, divisor, exponents, index, specials,
                                   d_out, stream, err);
    if (specials)
        cudaFreeAsync(specials, stream);
    free(host);
    return rc;
}
