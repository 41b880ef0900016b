/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_HOT_H
#define TW_AGENT_HOT_H
/*
 * Between libtwinrun.so, which knows what to do, and libtwinrun_hot.so, which stands in front of
 * the functions that programs call millions of times (allocation, locks) and is preloaded only for
 * the factors `malloc` and `schedule`.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_hot_plan {
    bool fill, noise; /* fresh memory: by `byte`, or by `fill_noise` */
    unsigned char byte;
    /* call `boundary` (enum tw_boundary) at locks, conditions and barriers */
    bool boundaries;
    /* counts an allocation; false inside the agent: leave that one alone */
    bool (*count)(void);
    void (*fill_noise)(void *p, size_t n);
    void (*boundary)(int kind);
};

/* NULL while the environment cannot be read yet (the loader still works). */
__attribute__((visibility("default"))) const struct tw_hot_plan *tw_hot_plan(void);
#endif
