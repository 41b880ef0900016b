/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_NCCL_PROFILER_H
#define TW_NCCL_PROFILER_H
/*
 * The interface between NCCL (2.23 and later) and a profiler plugin, versions 1 to 5, as far as
 * this agent reads it. Declared here by the published layouts, so that no header of NCCL's is
 * needed. NCCL looks for the symbol ncclProfiler_vN with the highest N that it knows; the structs
 * of a version never change. Results are ncclResult_t, where 0 is success; this agent gives no
 * other.
 *
 * Descriptors of events begin alike: the type, the event around it, the rank in the communicator.
 * What follows depends on the type; only collectives are declared, since nothing else is read.
 */
#include <stddef.h>
#include <stdint.h>

/* Bits of the mask of events that a plugin wants, which are also the types of events. */
enum { TW_NCCL_GROUP = 1 << 0, TW_NCCL_COLLECTIVE = 1 << 1 };

/* 2.23. The function, type, algorithm and protocol are numbers. */
struct tw_nccl_event_v1 {
    uint8_t type;
    void *parent;
    int rank;
    struct {
        const char *name; /* of the communicator; NULL: it has none */
        uint64_t comm_hash, sequence;
        uint8_t function;
        const void *send;
        void *receive;
        size_t count;
        int root;
        uint8_t datatype;
        uint32_t operation;
        size_t traffic_bytes;
        uint8_t channels, warps, algorithm, protocol;
        int is_collnet, is_nvls;
    } coll;
};

/* 2.24 and 2.25. They are words from here on. */
struct tw_nccl_event_v2 {
    uint8_t type;
    void *parent;
    int rank;
    struct {
        const char *name;
        uint64_t comm_hash, sequence;
        const char *function;
        const void *send;
        void *receive;
        size_t count;
        int root;
        const char *datatype;
        size_t traffic_bytes;
        uint8_t channels, warps;
        const char *algorithm, *protocol;
    } coll;
};

/* 2.26 */
struct tw_nccl_event_v3 {
    uint8_t type;
    void *parent;
    int rank;
    struct {
        const char *name;
        uint64_t comm_hash, sequence;
        const char *function;
        const void *send;
        void *receive;
        size_t count;
        int root;
        const char *datatype;
        uint8_t channels, warps;
        const char *algorithm, *protocol;
    } coll;
};

/* 2.27. The communicator is told once, when the plugin is set up for it. */
struct tw_nccl_event_v4 {
    uint8_t type;
    void *parent;
    int rank;
    struct {
        uint64_t sequence;
        const char *function;
        const void *send;
        void *receive;
        size_t count;
        int root;
        const char *datatype;
        uint8_t channels, warps;
        const char *algorithm, *protocol;
    } coll;
};

/* 2.28. Later versions of NCCL still take it. */
struct tw_nccl_event_v5 {
    uint64_t type;
    void *parent;
    int rank;
    struct {
        uint64_t sequence;
        const char *function;
        const void *send;
        void *receive;
        size_t count;
        int root;
        const char *datatype;
        uint8_t channels, warps;
        const char *algorithm, *protocol;
        void *parent_group;
    } coll;
};

/* NCCL's function that writes a line of its log. Not used: an agent prints nothing. */
typedef void tw_nccl_logger(int level, unsigned long flags, const char *file, int line,
                            const char *format, ...);

/* The table of a version. `context` is what setting up gave for a communicator. An event's handle
 * is what NCCL gives back when the event ends; args: attributes of a new state. */
#define TW_NCCL_TABLE(version, set_up)                                        \
    struct tw_nccl_plugin_##version {                                         \
        const char *name;                                                     \
        int(*init) set_up;                                                    \
        int (*start_event)(void *context, void **handle,                      \
                           const struct tw_nccl_event_##version *event);      \
        int (*stop_event)(void *handle);                                      \
        int (*record_event_state)(void *handle, int state, const void *args); \
        int (*finalize)(void *context);                                       \
    }

TW_NCCL_TABLE(v1, (void **context, int *mask));
TW_NCCL_TABLE(v2, (void **context, int *mask));
TW_NCCL_TABLE(v3, (void **context, int *mask));
TW_NCCL_TABLE(v4, (void **context, int *mask, const char *name, uint64_t comm_hash, int nodes,
                   int ranks, int rank, tw_nccl_logger *log));
TW_NCCL_TABLE(v5, (void **context, uint64_t comm_id, int *mask, const char *name, int nodes,
                   int ranks, int rank, tw_nccl_logger *log));
#endif
