/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_DEVICE_CUH
#define TW_DEVICE_CUH
/* What the CUDA kernels share: the types that can be summed, elements as bits, errors. */
#include <cuda_runtime.h>
#include <twin/cuda.h>
#include "element.h"

#ifndef TW_THREADS /* tests without a GPU have fewer */
#define TW_THREADS 256
#endif

struct tw_type {
    struct tw_float_format format;
    int size;
};

static inline bool tw_type_of(enum twin_dtype dtype, struct tw_type *t)
{
    switch ((int)dtype) {
    case TWIN_F64: *t = {{52, 11}, 8}; return true;
    case TWIN_F32: *t = {{23, 8}, 4}; return true;
    case TWIN_F16: *t = {{10, 5}, 2}; return true;
    case TWIN_BF16: *t = {{7, 8}, 2}; return true;
    default: return false;
    }
}

__device__ static inline uint64_t tw_device_load(const void *x, int64_t i, int size)
{
    if (size == 8)
        return ((const uint64_t *)x)[i];
    if (size == 4)
        return ((const uint32_t *)x)[i];
    return ((const uint16_t *)x)[i];
}

__device__ static inline void tw_device_store(void *x, int64_t i, int size, uint64_t bits)
{
    if (size == 8)
        ((uint64_t *)x)[i] = bits;
    else if (size == 4)
        ((uint32_t *)x)[i] = (uint32_t)bits;
    else
        ((uint16_t *)x)[i] = (uint16_t)bits;
}

static inline int tw_cuda_result(cudaError_t rc, const char *what, struct twin_error *err)
{
    return rc == cudaSuccess
               ? 0
               : twin_error_set(err, TWIN_EIO, "CUDA: %s: %s", what, cudaGetErrorString(rc));
}
#endif
