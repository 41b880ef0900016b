/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_GRID_H
#define TW_TESTS_GRID_H
/*
 * Runs a CUDA kernel on the host: the threads of some thread blocks at a time are fibers, and a
 * drawn schedule says which one goes on wherever they may meet: at barriers, shuffles and atomics.
 * Between those a thread is not interrupted. It shows wrong synchronisation and wrong arithmetic;
 * it has no memory model and no streams, and says nothing about speed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct grid_index {
    uint32_t x, y, z;
};

/* Of the thread that runs. As a kernel's code names them. */
extern struct grid_index threadIdx, blockIdx, blockDim, gridDim;

/* Runs `kernel(arguments)` in each thread of the blocks first..end-1 of a grid of `blocks`. At most
 * 256 threads a block, a multiple of 32. */
void grid_run(void (*kernel)(void *), void *arguments, uint32_t blocks, uint32_t first,
              uint32_t end, uint32_t threads);

/* Every launch from now on draws its schedule from here. */
void grid_seed(uint64_t seed);
/* Where the shared variables of all kernels lie: each thread block gets its own values. */
void grid_shared(void *start, size_t bytes);
/* How often kernels did what no schedule may: threads of a block at different barriers, or a
 * shuffle that waits for a thread which has ended. Such a launch is given up. */
uint64_t grid_trouble(void);

/* A place in the source where threads meet. They are numbered as they are reached; `removed` is one
 * that does nothing any more (an atomic: it reads, pauses and writes), -1: none. */
struct grid_site {
    const char *what, *file;
    int line;
};
enum { GRID_SITES = 64 };
int grid_site(const char *what, const char *file, int line);
int grid_sites(struct grid_site list[GRID_SITES]);
void grid_remove(int site);
bool grid_removed(int site);

/* What kernels call. */
void grid_barrier(int site);
void grid_warp_barrier(int site);
void grid_pause(void); /* another thread may go on */
void grid_hold(void);  /* all others may, as far as they come without this one */
/* v of the thread `delta` further in its group of `width`, or one's own where there is none. */
uint64_t grid_shuffle_down(uint64_t v, uint32_t delta, uint32_t width);

#ifdef __cplusplus
}
#endif
#endif
