/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUPTI_DOUBLE_H
#define CUPTI_DOUBLE_H
/*
 * What a program that plays the CUDA driver asks of the double of libcupti: each call goes to the
 * subscriber, where there is one, as the real library would tell it.
 */
enum double_launch {
    DOUBLE_KERNEL,
    DOUBLE_KERNEL_PTSZ,
    DOUBLE_EX,
    DOUBLE_EX_PTSZ,
    DOUBLE_COOPERATIVE,
    DOUBLE_COOPERATIVE_PTSZ,
    DOUBLE_LAUNCHES
};

/* The only symbol of its own that the double exports. */
struct cupti_double {
    /* name NULL: a kernel whose name the library does not know */
    void (*launch)(enum double_launch how, void *function, const char *name, const unsigned grid[3],
                   const unsigned block[3], unsigned shared);
    void (*graph)(void *executable, int ptsz);
    void (*graph_ends)(void *executable);
    void (*module)(const void *code, unsigned long bytes);
    void (*module_ends)(const void *code, unsigned long bytes);
    void (*fatal)(void);
    /* calls of the subscriber that are not asked for, and data of no kind */
    void (*hostile)(void);
    int (*subscribers)(void);
    /* a call of the driver's that waits for the GPU, by its number (tests/gpu/waits.h) */
    void (*wait)(unsigned number);
};
#endif
