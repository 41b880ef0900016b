/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MPI_AGENT_INSIDE_H
#define TW_MPI_AGENT_INSIDE_H
/*
 * The MPI agent: what a program sends, receives and reduces. It is a library of its own,
 * libtwinrun_mpi.so, preloaded behind libtwinrun.so where the job is started by an MPI launcher or
 * is linked with MPI: a program that looks for MPI_Init to learn whether MPI is there must not find
 * ours (docs/internals/agents.md).
 *
 * - comm.c: communicators by names that all their ranks agree about
 * - data.c: a buffer, count and type as something to be recorded
 * - records.c: names, records, steps
 * - requests.c: non-blocking operations until they are complete
 * - open.c: receives that leave open which message they take
 * - order*.c, ends.c, replay.c, held*.c: messages in the order of a recorded run (replay.h)
 * - narrow.c: functions of MPI 4 that the library does not have
 * - calls_*.c: the functions that we stand in front of; calls.h is what they share
 *
 * No function here sends, receives, waits or tests: what is asked of MPI is local (ranks, sizes,
 * counts, packing), so that progress and matching are what they would be without us. But where a
 * replay was asked for, receives and probes are made as replay.h says.
 */
#include "src/mpiabi/abi.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "agents/common/agent.h"

/* ---- entering and leaving one call of the program's */

/* Is the call to be watched: recording is on, and it comes from the program, not from the MPI
 * library or another call of ours. Every true needs a tw_mpi_leave(). errno is the program's. */
bool tw_mpi_enter(void);
void tw_mpi_leave(void);
bool tw_mpi_entered(void);  /* between the two, on this thread */
bool tw_mpi_contents(void); /* contents are wanted, not the order of matches alone */

/* ---- communicators */

enum { TW_MPI_COMM_NAME = 160 };
struct tw_mpi_comm {
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
    const void *counts, *where; /* of ints; of 64 bits each with `wide` */
    const void *types;
    int parts;
    bool by_bytes, wide;
    tw_mpi_handle comm;
    void *owned; /* copies of counts, where and types, which are these then; NULL: not ours */
};
/* Number i of an array of counts or displacements. */
static inline int64_t tw_mpi_number(const void *array, bool wide, int i)
{
    return wide ? ((const int64_t *)array)[i] : ((const int *)array)[i];
}

/* What is read later on: its arrays become copies of ours, since programs free them as soon as the
 * call is back (mpi4py), though MPI says that they may not. False: no memory. */
bool tw_mpi_keep_arrays(struct tw_mpi_data *d);
void tw_mpi_free_arrays(struct tw_mpi_data *d);

/* ---- records */

/* What the record of a call is called. peer: a rank of the communicator; TW_MPI_NOBODY: none. */
struct tw_mpi_call {
    const char *function; /* "MPI_Send" */
    const char *detail;   /* operation and root, for people; NULL: none */
    struct tw_mpi_comm *comm;
    int peer, tag;
    uint32_t number; /* of an open receive; 0: it is none */
};
enum { TW_MPI_NOBODY = INT32_MIN, TW_MPI_DETAIL = 64 };
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
    pthread_t thread;    /* that made it: its own come before those of others */
    bool persistent, active;
    bool receives, sends; /* neither: a collective */
    bool gets;            /* of a collective: this rank gets something, which is `data` */
    bool owns_type;       /* data.type.handle is a duplicate of ours */
    bool owns_in_type;    /* that of `in` */
    struct tw_mpi_call call;
    char detail[TW_MPI_DETAIL];
    struct tw_mpi_data data; /* what is recorded when it is complete */
    struct tw_mpi_data *in; /* what a start of a persistent collective gives; NULL: nothing. Ours */
};
/* The request was made. False: there are too many, which was noted. */
bool tw_mpi_pending(tw_mpi_handle request, const struct tw_mpi_pending *what);
/* The oldest one of this handle, in *out; false: none is watched. Takes it out of the table unless
 * it is persistent. */
bool tw_mpi_take(tw_mpi_handle request, struct tw_mpi_pending *out);
/* Is it a receive under way? On which communicator, and how old is it among all requests? */
bool tw_mpi_receives(tw_mpi_handle request, struct tw_mpi_comm **comm, uint64_t *order);
void tw_mpi_forget(tw_mpi_handle request); /* the program frees it */
/* A persistent one is started: records what is given, and numbers a receive that leaves something
 * open. *out: it, as it is under way. False: how it was made was not seen, which is noted. */
bool tw_mpi_start(tw_mpi_handle request, struct tw_mpi_pending *out);
bool tw_mpi_any_pending(void); /* false: no request needs to be looked up */
/* The program may free a derived type while the operation is under way. */
void tw_mpi_keep_type(struct tw_mpi_pending *p);
/* The same of `type`. True: the handle in it is a duplicate of ours. */
bool tw_mpi_keep(struct tw_mpi_type *type, bool persistent);
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

/* The same for what is not local, and where it matters what MPI says: MPI_ERR_OTHER, or close by,
 * where the function is not there. */
enum { TW_MPI_NO_FUNCTION = 16 };
#define TW_MPI_CALL(name, arguments, ...)                                       \
    static int call_##name(__VA_ARGS__)                                         \
    {                                                                           \
        static struct tw_mpi_function f = {.symbol = "PMPI_" #name};            \
        int (*real)(__VA_ARGS__) = (int (*)(__VA_ARGS__))tw_mpi_real(&f, true); \
        return real ? real arguments : TW_MPI_NO_FUNCTION;                      \
    }

/* ---- receives that leave open which message they take (open.c) */

/* What such a receive leaves open, as its record says it; NULL: nothing. That of a message which an
 * open probe found is one, too: it asks for what was found. */
const char *tw_mpi_open_to(int source, int tag, tw_mpi_handle comm);
/* A probe that left something open found a message. */
void tw_mpi_probe_found(tw_mpi_handle comm, int from, int tag, const void *status);
/* Its number, and that which the next one gets. */
uint32_t tw_mpi_open_post(void);
uint32_t tw_mpi_open_next(void);
/* It got its message: `open`, and how many that were posted before it are still open. */
const char *tw_mpi_open_taken(uint32_t number, const char *open, char room[TW_MPI_DETAIL]);
/* Is this the thread whose receives have an order: the first one that came? */
bool tw_mpi_open_thread(void);

/* ---- replay: each is as MPI's own call where nothing is replayed. call: it has its number, where
 * it leaves something open */

/* True: it was received, or *rc says why not. False: the program's own call is to be made. */
bool tw_mpi_replay_recv(const struct tw_mpi_call *call, void *buffer, int64_t n, tw_mpi_handle type,
                        tw_mpi_handle comm, void *status, int *rc);
/* True: it was posted, or *rc says why not. */
bool tw_mpi_replay_irecv(const struct tw_mpi_call *call, void *buffer, int64_t n,
                         tw_mpi_handle type, tw_mpi_handle comm, void *request, int *rc);
/* A persistent one is started. True: it was taken over. */
bool tw_mpi_replay_start(const struct tw_mpi_pending *p, void *request);
bool tw_mpi_replay_on(void); /* false: no start needs to be looked at by itself */
enum tw_mpi_send { TW_MPI_SEND, TW_MPI_SSEND, TW_MPI_RSEND };
/* True: it was sent, or *rc says why not. */
bool tw_mpi_replay_send(enum tw_mpi_send how, const void *buffer, int64_t n, tw_mpi_handle type,
                        int to, int tag, tw_mpi_handle comm, int *rc);
/* The receive of a call that sends as well. True: both are done. */
bool tw_mpi_replay_sendrecv(const struct tw_mpi_call *call, const void *out, int64_t out_n,
                            tw_mpi_handle out_type, int to, int out_tag, void *in, int64_t n,
                            tw_mpi_handle type, tw_mpi_handle comm, void *status, int *rc);
/* The same where what is received takes the place of what is sent. */
bool tw_mpi_replay_sendrecv_replace(const struct tw_mpi_call *call, void *buffer, int64_t n,
                                    tw_mpi_handle type, int to, int tag, tw_mpi_handle comm,
                                    void *status, int *rc);
/* Probes, taking ones where m is given. True: it is done, and *flag, *m and *status are as by MPI.
 * False: the program's own call is to be made. flag: NULL where it waits. */
bool tw_mpi_replay_probe(const char *function, const struct tw_mpi_comm *c, int from, int tag,
                         tw_mpi_handle comm, int *flag, void *m, void *status, int *rc);
/* Around every call that waits for others in a way that cannot be watched: receives that were held
 * take what comes meanwhile. */
void tw_mpi_replay_pause(void);
void tw_mpi_replay_resume(const char *function);
/* The program has learnt that a non-blocking receive is complete. */
void tw_mpi_end_was(const struct tw_mpi_call *call);
void tw_mpi_replay_comm_gone(tw_mpi_handle comm);

/* The calls that end requests. With requests that we hold they are made of what is asked of MPI one
 * by one. */
typedef int tw_mpi_wait_fn(void *request, void *status);
typedef int tw_mpi_test_fn(void *request, int *flag, void *status);
typedef int tw_mpi_waitall_fn(int n, void *requests, void *statuses);
typedef int tw_mpi_testall_fn(int n, void *requests, int *flag, void *statuses);
typedef int tw_mpi_waitany_fn(int n, void *requests, int *index, void *status);
typedef int tw_mpi_testany_fn(int n, void *requests, int *index, int *flag, void *status);
typedef int tw_mpi_some_fn(int n, void *requests, int *done, int *which, void *statuses);
int tw_mpi_replay_wait(tw_mpi_wait_fn *real, void *request, void *status);
int tw_mpi_replay_test(tw_mpi_test_fn *real, void *request, int *flag, void *status);
int tw_mpi_replay_waitall(tw_mpi_waitall_fn *real, int n, void *requests, void *statuses);
int tw_mpi_replay_testall(tw_mpi_testall_fn *real, int n, void *requests, int *flag,
                          void *statuses);
int tw_mpi_replay_waitany(tw_mpi_waitany_fn *real, int n, void *requests, int *index, void *status);
int tw_mpi_replay_testany(tw_mpi_testany_fn *real, int n, void *requests, int *index, int *flag,
                          void *status);
int tw_mpi_replay_waitsome(tw_mpi_some_fn *real, int n, void *requests, int *done, int *which,
                           void *statuses);
int tw_mpi_replay_testsome(tw_mpi_some_fn *real, int n, void *requests, int *done, int *which,
                           void *statuses);
bool tw_mpi_replay_status(tw_mpi_handle request, int *flag, void *status);
bool tw_mpi_replay_cancel(tw_mpi_handle request);
bool tw_mpi_replay_free(void *request, int *rc);

/* ---- functions that we stand in front of */

#define TW_EXPORT __attribute__((visibility("default")))
/* What a function does that the library does not have: a weak reference found ours (narrow.c).
 * words: of its arguments, each in one. */
int tw_mpi_missing(struct tw_mpi_function *f, bool profiled, int words, ...);
/* Arrays that such calls made for the library, until the request is complete, or is freed. */
bool tw_mpi_any_arrays(void);
void tw_mpi_drop_arrays(tw_mpi_handle request, bool freed);

/*
 * TW_WATCH(Send, (buf, n), const void *buf, int n) { ... } defines MPI_Send and PMPI_Send with
 * these parameters. The body gets the function behind as `real`. Fortran's wrappers call the
 * second.
 */
#define TW_ARGUMENTS(...) __VA_ARGS__
#define TW_NUMBER_OF(...) TW_14TH(__VA_ARGS__, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
#define TW_14TH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, ...) n
#define TW_WATCH(name, arguments, ...) TW_WATCH_AS(MPI, name, arguments, __VA_ARGS__)
/* kind: MPI, or MPIX for what a library has ahead of the standard. */
#define TW_WATCH_AS(kind, name, arguments, ...)                                                   \
    typedef int kind##_##name##_fn(__VA_ARGS__);                                                  \
    static struct tw_mpi_function kind##_##name##_is = {.symbol = "P" #kind "_" #name};           \
    static int kind##_##name##_watched(kind##_##name##_fn *real, __VA_ARGS__);                    \
    TW_EXPORT int kind##_##name(__VA_ARGS__);                                                     \
    TW_EXPORT int P##kind##_##name(__VA_ARGS__);                                                  \
    int kind##_##name(__VA_ARGS__)                                                                \
    {                                                                                             \
        kind##_##name##_fn *real = (kind##_##name##_fn *)tw_mpi_real(&kind##_##name##_is, false); \
        return real ? kind##_##name##_watched(real, TW_ARGUMENTS arguments)                       \
                    : tw_mpi_missing(&kind##_##name##_is, false, TW_NUMBER_OF arguments,          \
                                     TW_ARGUMENTS arguments);                                     \
    }                                                                                             \
    int P##kind##_##name(__VA_ARGS__)                                                             \
    {                                                                                             \
        kind##_##name##_fn *real = (kind##_##name##_fn *)tw_mpi_real(&kind##_##name##_is, true);  \
        return real ? kind##_##name##_watched(real, TW_ARGUMENTS arguments)                       \
                    : tw_mpi_missing(&kind##_##name##_is, true, TW_NUMBER_OF arguments,           \
                                     TW_ARGUMENTS arguments);                                     \
    }                                                                                             \
    static int kind##_##name##_watched(kind##_##name##_fn *real, __VA_ARGS__)

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

/* Calls of several threads have no one order: is this thread the first one that came? taken: one
 * for all threads; here: the thread's own. */
static inline bool tw_mpi_is_first_thread(_Atomic int *taken, int *here)
{
    int none = 0;
    if (!*here && atomic_compare_exchange_strong(taken, &none, 1))
        *here = 1;
    return *here;
}

#endif
