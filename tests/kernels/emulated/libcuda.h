/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_LIBCUDA_H
#define TW_TESTS_LIBCUDA_H
/*
 * A DOUBLE of libcuda.so.1 for machines without a GPU: the functions of the driver that
 * agents/cuda and its tests call, under their names. Kernels run on the host (grid.h). It keeps the
 * rules that a caller can break: work of a stream is done when it is waited for, never before; the
 * memory of a device cannot be touched from the host, nor from another device; kernels and streams
 * are of one context. And it can be told to fail.
 */
#include "grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel by its name. call() gets pointers to its parameters, whose sizes are here. */
struct emulated_kernel {
    const char *name;
    void (*call)(void *);
    int parameters;
    const size_t *bytes;
};
extern const struct emulated_kernel emulated_kernels[]; /* the last one has no name */

/* What tests find in the double, and in no driver. */
struct cuda_double {
    void (*seed)(uint64_t);
    int (*sites)(struct grid_site list[GRID_SITES]);
    void (*remove)(int site);
    uint64_t (*trouble)(void);
    /* From its `after`-th call on this function fails with this code; NULL: none does. */
    void (*refuse)(const char *function, int after, int code);
    /* Does what a stream holds, as time would. */
    void (*progress)(void *stream);
    /* What streams are from now on: 1: being captured. */
    void (*capture)(int status);
    /* How often a function was called; NULL: all of them. */
    uint64_t (*calls)(const char *function);
    /* Of launches of this many blocks at least, only `window` at the beginning and the end, and
     * around block number `at`, are run; 0: all. */
    void (*only)(uint32_t blocks, uint32_t at, uint32_t window);
    /* This stream is one of this device; and the host's memory here is that device's. */
    void (*stream)(void *stream, int device);
    void (*memory)(void *at, size_t bytes, int device);
};
/* The name of the symbol is what marks the library as a double. */
extern const struct cuda_double twin_cuda_double;

#ifdef __cplusplus
}
#endif
#endif
