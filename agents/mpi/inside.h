/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MPI_AGENT_INSIDE_H
#define TW_MPI_AGENT_INSIDE_H
/*
 * The MPI agent: what a program sends, receives and reduces. It is a library of its own,
 * libtwinrun_mpi.so, preloaded behind libtwinrun.so where the job is started by an MPI launcher or
 * is linked with MPI: a program that looks for MPI_Init to learn whether MPI is there must not find
 * ours (docs/internals/agents.md).
 *
 * - abi.c: which MPI this is
 * - comm.c: communicators by names that all their ranks agree about
 * - data.c: a buffer, count and type as something to be recorded
 * - records.c: names, records, steps
 * - requests.c: non-blocking operations until they are complete
 * - calls_*.c: the functions that we stand in front of
 *
 * No function here sends, receives, waits or tests: what is asked of MPI is local (ranks, sizes,
 * counts, packing), so that progress and matching are what they would be without us.
 */
#include "abi.h"
#include <sched.h>

#include <stdatomic.h>
#include "agents/common/agent.h"

/* ---- entering and leaving one call of the program's */

/* Is the call to be watched: recording is on, and it comes from the program, not from the MPI
 * library or another call of ours. Every true needs a tw_mpi_leave(). errno is the program's. */
bool tw_mpi_enter(void);
void tw_mpi_leave(void);
bool tw_mpi_contents(void); /* contents are wanted, not the order of matches alone */

/* ---- communicators */

enum { TW_MPI_COMM_NAME = 160 };
struct tw_mpi_comm {
    _Atomic uint64_t id;       /* of the handle */
    uint64_t serial;           /* no two have the same one, also where a handle comes again */
    int rank, size, peers;     /* peers: ranks that messages go to; another group's when `inter` */
    bool inter, all;           /* all: every rank of MPI_COMM_WORLD is in it */
    int *world;                /* [peers] their ranks in MPI_COMM_WORLD; NULL: the same */
    _Atomic uint32_t children; /* communicators made of it so far */
    tw_mpi_handle handle;
    char name[TW_MPI_COMM_NAME];
};

/* What is known of it; never NULL. Makes an entry for one that we have not seen being made. */
struct tw_mpi_comm *tw_mpi_comm(tw_mpi_handle handle);
/* A new communicator was made of a parent by a call that all ranks of the parent make: "PARENT/what
 * N". Nothing where `made` is MPI_COMM_NULL. */
void tw_mpi_comm_made(tw_mpi_handle parent, tw_mpi_handle made, const char *what);
void tw_mpi_comm_gone(tw_mpi_handle handle);
int tw_mpi_comm_peer(const struct tw_mpi_comm *c, int rank); /* in MPI_COMM_WORLD */

/* ---- contents */

/* What a datatype is in memory. Kept for requests, since the program may free the type. */
struct tw_mpi_type {
    tw_mpi_handle handle;
    enum twin_dtype dtype; /* TWIN_BYTES for derived ones */
    int64_t size, extent, lower;
    bool known, dense; /* dense: its elements lie in memory without a gap, in one piece */
};
struct tw_mpi_type tw_mpi_type(tw_mpi_handle handle);

/* A buffer of a call. Where counts is set it has `parts` parts: part i is counts[i] elements at
 * displacement where[i] (elements; bytes with `by_bytes`). types: one handle for each part, or
 * NULL. */
struct tw_mpi_data {
    const void *buffer;
    int64_t count;
    struct tw_mpi_type type;
    const int *counts, *where;
    const void *types;
    int parts;
    bool by_bytes;
    tw_mpi_handle comm;
};

/* ---- records */

/* What the record of a call is called. peer: a rank of the communicator; TW_MPI_NOBODY: none. */
struct tw_mpi_call {
    const char *function; /* "MPI_Send" */
    const char *detail;   /* operation and root, for people; NULL: none */
    struct tw_mpi_comm *comm;
    int peer, tag;
};
enum { TW_MPI_NOBODY = INT32_MIN };
/* kind: TWIN_KIND_IN (what this rank gave) or TWIN_KIND_OUT (what it got). */
void tw_mpi_record(int kind, const struct tw_mpi_call *call, const struct tw_mpi_data *data);
/* Something was received, at a level without contents. */
void tw_mpi_match(const struct tw_mpi_call *call);
/* A collective on it has ended: where all ranks take part, that ends a step. */
void tw_mpi_collective_ended(const struct tw_mpi_comm *c);
/* Notes once in a process that what this function does is not seen. */
void tw_mpi_unseen(const char *function, const char *why);

/* ---- requests */

struct tw_mpi_pending {
    _Atomic uint64_t id; /* of the request; 0: free */
    uint64_t order;      /* of their making: the oldest of equal handles ends first */
    bool persistent, active;
    bool receives, sends; /* neither: a collective, whose output is `data` */
    bool owns_type;       /* data.type.handle is a duplicate of ours */
    struct tw_mpi_call call;
    char detail[48];
    struct tw_mpi_data data; /* what is recorded when it is complete */
};
/* The request was made. False: there are too many, which was noted. */
bool tw_mpi_pending(tw_mpi_handle request, const struct tw_mpi_pending *what);
/* The oldest one of this handle, in *out; false: none is watched. Takes it out of the table unless
 * it is persistent. */
bool tw_mpi_take(tw_mpi_handle request, struct tw_mpi_pending *out);
void tw_mpi_forget(tw_mpi_handle request); /* the program frees it */
void tw_mpi_start(tw_mpi_handle request);
bool tw_mpi_any_pending(void); /* false: no request needs to be looked up */
/* The program may free a derived type while the operation is under way. */
void tw_mpi_keep_type(struct tw_mpi_pending *p);
/* A message has come: records it. Sets peer, tag and count as the status says. */
void tw_mpi_got(struct tw_mpi_call *call, struct tw_mpi_data *data, const void *status);
/* It is complete: records what has come. status: filled by MPI. */
void tw_mpi_complete(tw_mpi_handle request, const void *status);
/* Source and tag of a status, and how many elements of a type came; -1: not a whole number. */
int tw_mpi_source(const void *status);
int tw_mpi_tag(const void *status);
int64_t tw_mpi_received(const void *status, const struct tw_mpi_type *type);
/* A status to be filled: the program's, or our own where it wants none. */
static inline void *tw_mpi_status(void *theirs, char own[TW_MPI_STATUS_MOST])
{
    return (uintptr_t)theirs == tw_mpi_abi()->ignore ? own : theirs;
}

/* ask_NAME(): a function of MPI that is local, so that it sends nothing and waits for nobody.
 * False: it is not there, or failed. */
#define TW_MPI_ASK(name, arguments, ...)                                        \
    static bool ask_##name(__VA_ARGS__)                                         \
    {                                                                           \
        static struct tw_mpi_function f = {.symbol = "PMPI_" #name};            \
        int (*real)(__VA_ARGS__) = (int (*)(__VA_ARGS__))tw_mpi_real(&f, true); \
        return real && real arguments == 0;                                     \
    }

/* ---- functions that we stand in front of */

#define TW_EXPORT __attribute__((visibility("default")))
enum {
    TW_MPI_NO_FUNCTION = 16
}; /* MPI_ERR_OTHER, or close by: never met, the program found ours
      because it is linked with a library that has it */

/*
 * TW_WATCH(Send, (buf, n), const void *buf, int n) { ... } defines MPI_Send and PMPI_Send with
 * these parameters. The body gets the function behind as `real`. Fortran's wrappers call the
 * second.
 */
#define TW_ARGUMENTS(...) __VA_ARGS__
#define TW_WATCH(name, arguments, ...)                                                   \
    typedef int name##_fn(__VA_ARGS__);                                                  \
    static struct tw_mpi_function name##_function = {.symbol = "PMPI_" #name};           \
    static int name##_watched(name##_fn *real, __VA_ARGS__);                             \
    TW_EXPORT int MPI_##name(__VA_ARGS__);                                               \
    TW_EXPORT int PMPI_##name(__VA_ARGS__);                                              \
    int MPI_##name(__VA_ARGS__)                                                          \
    {                                                                                    \
        name##_fn *real = (name##_fn *)tw_mpi_real(&name##_function, false);             \
        return real ? name##_watched(real, TW_ARGUMENTS arguments) : TW_MPI_NO_FUNCTION; \
    }                                                                                    \
    int PMPI_##name(__VA_ARGS__)                                                         \
    {                                                                                    \
        name##_fn *real = (name##_fn *)tw_mpi_real(&name##_function, true);              \
        return real ? name##_watched(real, TW_ARGUMENTS arguments) : TW_MPI_NO_FUNCTION; \
    }                                                                                    \
    static int name##_watched(name##_fn *real, __VA_ARGS__)

/* ---- A lock held for a few instructions, on threads of the program's that may not sleep in ours.
 */
static inline void tw_mpi_hold(atomic_flag *lock)
{
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
        sched_yield();
}

static inline void tw_mpi_release(atomic_flag *lock)
{
    atomic_flag_clear_explicit(lock, memory_order_release);
}

#endif
