/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_RUNTIME_H
#define TW_TESTS_RUNTIME_H
/*
 * A DOUBLE of CUDA's runtime, as far as kernels/ and its test call it. Work of a stream is done
 * when it is waited for, never before; the device's memory is locked meanwhile. All streams are
 * one.
 */
#include <functional>
#include "grid.h"

#define TW_EMULATED 1

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
typedef struct cudaStream *cudaStream_t;

/* Puts a kernel on the stream; `thread` is run by each of its threads. */
void grid_launch(unsigned blocks, unsigned threads, cudaStream_t stream,
                 std::function<void()> thread);

cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
/* From the host it is copied now, to the host when the stream has come that far. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind how,
                            cudaStream_t stream);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind how);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);
/* Memory of a stream; `runtime_refuse_memory`: from now on there is none. */
cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *p, cudaStream_t stream);
void runtime_refuse_memory(bool refuse);
cudaError_t cudaMemset(void *p, int value, size_t bytes);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int *count);
const char *cudaGetErrorString(cudaError_t error);

template <class T> static inline cudaError_t cudaMalloc(T **p, size_t bytes)
{
    return cudaMalloc((void **)p, bytes);
}
#endif
