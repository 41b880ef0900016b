/* SPDX-License-Identifier: Apache-2.0 */
/* The double of CUDA's runtime (runtime.h). */
#include "runtime.h"

#include <deque>
#include <map>
#include <vector>
#include <cstring>
#include <sys/mman.h>

extern unsigned char __start_shared_variables[], __stop_shared_variables[];

static std::deque<std::function<void()>> waiting;
static std::map<void *, size_t> allocated;

static void protect(int how)
{
    for (const auto &a : allocated)
        mprotect(a.first, a.second, how);
}

static void run_thread(void *thread)
{
    (*static_cast<std::function<void()> *>(thread))();
}

void grid_launch(unsigned blocks, unsigned threads, cudaStream_t, std::function<void()> thread)
{
    waiting.push_back([=]() mutable {
        static bool told;
        if (!told)
            grid_shared(__start_shared_variables,
                        (size_t)(__stop_shared_variables - __start_shared_variables));
        told = true;
        grid_run(run_thread, &thread, blocks, 0, blocks, threads);
    });
}

/* Memory that holds what nobody has written. */
cudaError_t cudaMalloc(void **p, size_t bytes)
{
    const size_t whole = (bytes + 4095) / 4096 * 4096;
    *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*p == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xA5, whole);
    mprotect(*p, whole, PROT_NONE);
    allocated[*p] = whole;
    return cudaSuccess;
}

/* Waits, as CUDA does. */
cudaError_t cudaFree(void *p)
{
    cudaStreamSynchronize(NULL);
    if (p)
        munmap(p, allocated[p]);
    allocated.erase(p);
    return cudaSuccess;
}

static bool refuses;

void runtime_refuse_memory(bool refuse)
{
    refuses = refuse;
}

/* Given at once, and taken back when the stream has come there. */
cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t)
{
    return refuses ? cudaErrorMemoryAllocation : cudaMalloc(p, bytes);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t)
{
    waiting.push_back([=] {
        munmap(p, allocated[p]);
        allocated.erase(p);
    });
    return cudaSuccess;
}

/* Collectives of the double of NCCL. */
extern "C" void nccl_double_enqueue(cudaStream_t, void (*run)(void *), void *argument)
{
    waiting.push_back([=] { run(argument); });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind how,
                            cudaStream_t)
{
    if (how == cudaMemcpyHostToDevice) {
        const auto *p = static_cast<const unsigned char *>(from);
        std::vector<unsigned char> copy(p, p + bytes);
        waiting.push_back([=] { memcpy(to, copy.data(), bytes); });
    } else {
        waiting.push_back([=] { memcpy(to, from, bytes); });
    }
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind how)
{
    cudaMemcpyAsync(to, from, bytes, how, NULL);
    return cudaStreamSynchronize(NULL);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t)
{
    waiting.push_back([=] { memset(p, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    cudaMemsetAsync(p, value, bytes, NULL);
    return cudaStreamSynchronize(NULL);
}

cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    protect(PROT_READ | PROT_WRITE);
    for (; !waiting.empty(); waiting.pop_front())
        waiting.front()();
    protect(PROT_NONE);
    return cudaSuccess;
}

cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t)
{
    return "an error of the double";
}
