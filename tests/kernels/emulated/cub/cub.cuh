/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_CUB_CUH
#define TW_TESTS_CUB_CUH
/* A DOUBLE of the one function of CUB that tests/gpu/sum_speed.cu calls: one thread adds. */
#include "runtime.h"

namespace cub
{
struct DeviceReduce {
    static cudaError_t Sum(void *temporary, size_t &bytes, const float *x, float *out, int64_t n)
    {
        bytes = 1;
        if (temporary)
            grid_launch(1, 32, NULL, [=] {
                float sum = 0;
                for (int64_t i = 0; i < n && threadIdx.x == 0; i++)
                    sum += x[i];
                if (threadIdx.x == 0)
                    *out = sum;
            });
        return cudaSuccess;
    }
};
} // namespace cub
#endif
