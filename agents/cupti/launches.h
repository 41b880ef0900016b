/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CUPTI_LAUNCHES_H
#define TW_CUPTI_LAUNCHES_H
/*
 * What this process launches on GPUs, step by step and thread by thread, as records of a trace
 * beside the rank's own (docs/internals/cupti.md). Nothing here waits for anybody, and nothing is
 * allocated for a launch of a kind that was seen before. What was not counted is a note of that
 * trace.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_launch {
    const char *name;     /* mangled; read during the call alone */
    const void *function; /* what the driver calls it by, until its module is unloaded */
    unsigned grid[3], block[3], shared;
};

/* Opens the trace, once; version: CUPTI's. Inside a guard. false: nothing can be recorded. */
bool tw_launches_start(uint32_t version);
/* Nothing more is recorded, and `why` is a note of the run. From any thread, also a callback. */
void tw_launches_stop(const char *why);

/* The calling thread launches a kernel; an executable graph as a whole. From callbacks. */
void tw_launches_kernel(const struct tw_launch *launch);
void tw_launches_graph(const void *executable);
/* The graph ends: its handle may be given to another one. */
void tw_launches_graph_ends(const void *executable);
/* Machine code was loaded; some is unloaded: names of functions are not known any more. */
void tw_launches_module(const void *code, size_t bytes);
void tw_launches_unload(void);
#endif
