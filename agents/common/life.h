/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_LIFE_H
#define TW_AGENT_LIFE_H
/*
 * How an agent registers with what all agents share, which therefore names none of them. Each agent
 * says in a struct of its own at which moments in the life of a process it wants to be called, and
 * puts a pointer to that struct into one section of the library:
 *
 *     static const struct tw_agent_life life = {.fork = forget};
 *     TW_AGENT_REGISTER(life);
 *
 * The linker gathers the pointers. So nothing is allocated, no constructor has to run first, and an
 * agent that was not linked is not called. They are called in the order in which they were linked,
 * and none may count on it. The files of an agent are linked as objects (agents/meson.build): a
 * member of an archive that nobody calls would be left out, and not register.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/fingerprint.h>

struct twin_writer;

/* A tensor in a device's memory and what is wanted of it. */
struct tw_device_tensor {
    const void *data;              /* first logical element */
    uint64_t count, global_offset; /* elements */
    /* Of a strided tensor, as in struct twin_tensor: `count` is the product of its shape. NULL:
     * contiguous. They are read during the call alone. */
    const int64_t *shape, *strides;
    uint32_t ndim;
    enum twin_dtype dtype;
    bool want_stats, want_sketch; /* the sketch has TWIN_SKETCH_DEFAULT buckets */
};

struct tw_device_found {
    struct twin_digest digest;
    struct twin_stats stats;
    struct twin_sketch sketch;
};

/* An agent that makes fingerprints where the tensors are. */
struct tw_agent_device {
    /* Whether this can be done on the device of this number. May take long at the first call. */
    bool (*ready)(unsigned device);
    /* Fingerprints n tensors of a device after the work that `stream`, one of its streams, holds
     * already; waits for them. false: `found` is undefined. */
    bool (*look)(unsigned device, const struct tw_device_tensor *tensors, size_t n, void *stream,
                 struct tw_device_found *found);
};

/* Any of these may be NULL. None may change errno, print, exit or raise. */
struct tw_agent_life {
    /* In the constructor of a process of a run, before anything is held still or shaken in it:
     * functions that a signal handler may need later are looked up. */
    void (*prepare)(void);
    /* The last of that constructor. */
    void (*start)(int argc, char **argv);
    /* Around a fork, in the parent, by the thread that forks: locks of its own are taken, and given
     * back. In the child `fork` gives them back. Not called where a signal handler forks while its
     * thread is inside of an agent. */
    void (*hold)(void);
    void (*release)(void);
    /* In a forked child: forgets what is the parent's. May run inside a signal handler: no locks,
     * no allocation. */
    void (*fork)(void);
    /* The trace is about to be closed: notes what was counted. Inside a guard, holding the agent's
     * lock. */
    void (*report)(struct twin_writer *w);
    const struct tw_agent_device *device;
};

/* A section whose name is a C identifier: the linker makes these two symbols for where it begins
 * and ends. */
extern const struct tw_agent_life *const __start_tw_agent_lives[]
    __attribute__((visibility("hidden")));
extern const struct tw_agent_life *const __stop_tw_agent_lives[]
    __attribute__((visibility("hidden")));

#define TW_AGENT_REGISTER(life)                                \
    static const struct tw_agent_life *const registered_##life \
        __attribute__((section("tw_agent_lives"), used)) = &(life)

/* agent: the name of a `const struct tw_agent_life *const *` for the body. */
#define TW_AGENT_EACH(agent)                                                \
    for (const struct tw_agent_life *const *agent = __start_tw_agent_lives; \
         agent < __stop_tw_agent_lives; agent++)
#endif
