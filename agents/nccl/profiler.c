/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that NCCL looks for in the library that NCCL_PROFILER_PLUGIN names: our own, which is
 * preloaded already (src/launch/nccl.c). Every function says success: by the rules of the interface
 * anything else could change what NCCL does.
 *
 * Only collectives are asked for. NCCL then also tells of the groups around them, and some versions
 * leave out the collectives of a group whose handle is NULL: so each event gets a handle, one and
 * the same, which stands for nothing.
 */
#include "profiler.h"

#include "choices.h"

static char handle_of_all;

/* ---- numbers of version 1 */

static const char *const functions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                        "AllReduce", "SendRecv", "Send",      "Recv"};
static const char *const algorithms[] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
static const char *const protocols[] = {"LL", "LL128", "SIMPLE"};
static const char *const datatypes[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                        "ncclUint32",   "ncclInt64",      "ncclUint64",
                                        "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                        "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

#define WORD(words, number) \
    ((number) < sizeof(words) / sizeof(words)[0] ? (words)[number] : "Unknown")

/* ---- what all versions share */

static int set_up(void **context, int *mask, int version, const char *name, int ranks, int rank)
{
    struct tw_nccl_comm *comm = tw_nccl_comm_new(version, name, ranks, rank);
    if (context)
        *context = comm;
    /* One mask holds for all communicators of a process, and the last one set up has the last word:
     * one that cannot be recorded must not switch off those that can. */
    if (mask)
        *mask = tw_nccl_on() ? TW_NCCL_COLLECTIVE : 0;
    return 0;
}

static int stop_event(void *handle)
{
    (void)handle;
    return 0;
}

static int record_event_state(void *handle, int state, const void *args)
{
    (void)handle, (void)state, (void)args;
    return 0;
}

static int finalize(void *context)
{
    tw_nccl_comm_end(context);
    return 0;
}

/* ---- versions 1 to 3: the communicator is told with every call */

static int init_unnamed(int version, void **context, int *mask)
{
    return set_up(context, mask, version, NULL, 0, 0);
}

static int init_v1(void **context, int *mask)
{
    return init_unnamed(1, context, mask);
}

static int init_v2(void **context, int *mask)
{
    return init_unnamed(2, context, mask);
}

static int init_v3(void **context, int *mask)
{
    return init_unnamed(3, context, mask);
}

static int start_v1(void *context, void **handle, const struct tw_nccl_event_v1 *e)
{
    if (handle)
        *handle = &handle_of_all;
    if (!e || e->type != TW_NCCL_COLLECTIVE)
        return 0;
    tw_nccl_record(context, &(struct tw_nccl_call){.function = WORD(functions, e->coll.function),
                                                   .datatype = WORD(datatypes, e->coll.datatype),
                                                   .algorithm = WORD(algorithms, e->coll.algorithm),
                                                   .protocol = WORD(protocols, e->coll.protocol),
                                                   .sequence = e->coll.sequence,
                                                   .count = e->coll.count,
                                                   .channels = e->coll.channels,
                                                   .rank = e->rank,
                                                   .name = e->coll.name});
    return 0;
}

/* From version 2 on the fields have the same names. comm_name: where the event has it. */
#define START(version, comm_name)                                                      \
    static int start_##version(void *context, void **handle,                           \
                               const struct tw_nccl_event_##version *e)                \
    {                                                                                  \
        if (handle)                                                                    \
            *handle = &handle_of_all;                                                  \
        if (!e || e->type != TW_NCCL_COLLECTIVE)                                       \
            return 0;                                                                  \
        tw_nccl_record(context, &(struct tw_nccl_call){.function = e->coll.function,   \
                                                       .datatype = e->coll.datatype,   \
                                                       .algorithm = e->coll.algorithm, \
                                                       .protocol = e->coll.protocol,   \
                                                       .sequence = e->coll.sequence,   \
                                                       .count = e->coll.count,         \
                                                       .channels = e->coll.channels,   \
                                                       .rank = e->rank,                \
                                                       .name = (comm_name)});          \
        return 0;                                                                      \
    }

START(v2, e->coll.name)
START(v3, e->coll.name)
START(v4, NULL)
START(v5, NULL)

/* ---- versions 4 and 5: the communicator is told once */

static int init_v4(void **context, int *mask, const char *name, uint64_t comm_hash, int nodes,
                   int ranks, int rank, tw_nccl_logger *log)
{
    (void)comm_hash, (void)nodes, (void)log;
    return set_up(context, mask, 4, name, ranks, rank);
}

static int init_v5(void **context, uint64_t comm_id, int *mask, const char *name, int nodes,
                   int ranks, int rank, tw_nccl_logger *log)
{
    (void)comm_id, (void)nodes, (void)log;
    return set_up(context, mask, 5, name, ranks, rank);
}

#define PLUGIN(version)                                                  \
    extern const struct tw_nccl_plugin_##version ncclProfiler_##version; \
    __attribute__((visibility("default")))                               \
    const struct tw_nccl_plugin_##version ncclProfiler_##version = {     \
        "twinrun", init_##version, start_##version, stop_event, record_event_state, finalize}

PLUGIN(v1);
PLUGIN(v2);
PLUGIN(v3);
PLUGIN(v4);
PLUGIN(v5);
