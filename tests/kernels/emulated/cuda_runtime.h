/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_CUDA_RUNTIME_H
#define TW_TESTS_CUDA_RUNTIME_H
/*
 * Stands in for CUDA's header of this name: CUDA kernels compile as plain C++, and run by grid.h.
 * What is here is what the kernels of this project use.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "grid.h"
#include "runtime.h"

#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __launch_bounds__(threads)
/* One copy for all blocks: grid.c changes its contents from block to block. */
#define __shared__ static __attribute__((section("shared_variables"), used))

#define GRID_SITE(what)                                              \
    [] {                                                             \
        static const int site = grid_site(what, __FILE__, __LINE__); \
        return site;                                                 \
    }()
#define __syncthreads() grid_barrier(GRID_SITE("__syncthreads"))
#define __syncwarp() grid_warp_barrier(GRID_SITE("__syncwarp"))
#define atomicAdd(p, v) grid_atomic(GRID_SITE("atomicAdd"), p, v, grid_add)
#define atomicMax(p, v) grid_atomic(GRID_SITE("atomicMax"), p, v, grid_max)
#define atomicOr(p, v) grid_atomic(GRID_SITE("atomicOr"), p, v, grid_or)

template <class T> static inline T grid_add(T a, T b)
{
    return a + b;
}

template <class T> static inline T grid_max(T a, T b)
{
    return a > b ? a : b;
}

template <class T> static inline T grid_or(T a, T b)
{
    return a | b;
}

/* The value as it was. A removed one lets all others go on in its middle. */
template <class T, class V> static inline T grid_atomic(int site, T *p, V v, T (*change)(T, T))
{
    grid_pause();
    const T before = *p;
    if (grid_removed(site))
        grid_hold();
    *p = change(before, (T)v);
    return before;
}

/* Of all 32 lanes. */
template <class T>
static inline T __shfl_down_sync(uint32_t, T v, uint32_t delta, uint32_t width = 32)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = grid_shuffle_down(bits, delta, width);
    memcpy(&v, &bits, sizeof v);
    return v;
}

struct ulonglong2 {
    unsigned long long x, y;
} __attribute__((aligned(16)));

/* Compiled with -ffp-contract=off: each is rounded by itself. */
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}

static inline double __dmul_rn(double a, double b)
{
    return a * b;
}

static inline long long __double_as_longlong(double x)
{
    long long bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
#endif
