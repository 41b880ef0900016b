/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MPI_AGENT_REPLAY_H
#define TW_MPI_AGENT_REPLAY_H
/*
 * The replay of a recorded order, from inside (docs/internals/replay-order.md):
 *
 * - order_file.c: the order file
 * - order.c: which message is expected next, and giving up
 * - ends.c: which receive is to be complete next
 * - replay.c: probes
 * - held.c: receives that wait for the recorded message
 * - held_calls.c: the calls that wait while there are such receives
 */
#include "inside.h"
#include "order_file.h"

/* One call of the program's that takes a message, or looks for one. */
struct tw_mpi_open {
    const char *function;
    const struct tw_mpi_comm *c;
    tw_mpi_handle comm;
    int from, tag;   /* as the program asks for them */
    uint32_t number; /* among the open receives of this rank; 0: it leaves nothing open */
    unsigned open;   /* TW_ORDER_ANY_*, TW_ORDER_PROBED */
    int rank;        /* ours, in MPI_COMM_WORLD */
    /* what the recording has at this number; NULL: it ends before */
    const struct tw_order_match *m;
    int source, wanted; /* the message that it may take, in the program's communicator */
};
enum { TW_MPI_NO_SOURCE = INT32_MIN }; /* as `source`: the recording says that it takes none */

/* ---- order.c */

enum tw_mpi_expected {
    TW_MPI_NATURAL,  /* nothing is replayed, or not any more */
    TW_MPI_RECORDED, /* `source` and `wanted` are those of the recorded message */
    TW_MPI_OTHER     /* the recording has another call here, or none: not yet given up */
};
/* Fills `m`, `source` and `wanted` of a call that leaves something open, or received what such a
 * probe found. */
enum tw_mpi_expected tw_mpi_expect(struct tw_mpi_open *o);
bool tw_mpi_replaying(void);
uint64_t tw_mpi_replay_wait_ns(void);
/* Gives up, with the reason in the trace: o is not what was recorded, but `found`. */
void tw_mpi_differs(const struct tw_mpi_open *o, const char *found);
void tw_mpi_differs_by_call(const struct tw_mpi_open *o);
/* The others are told, but not that the recording ends. */
void tw_mpi_release_rank(const char *why, bool tell);
/* This rank would have to wait, and another one did so in vain: it is released, too. */
void tw_mpi_release_with_others(const struct tw_mpi_open *o);

/* What ranks tell each other (TW_ORDER_TOLD_FILE). Looked for ten times a second at most, and only
 * while another message than the recorded one is there. */
enum tw_mpi_told { TW_MPI_TOLD_MATCHES, TW_MPI_TOLD_ENDS };
void tw_mpi_tell(enum tw_mpi_told what);
bool tw_mpi_is_told(enum tw_mpi_told what);

const struct tw_order *tw_mpi_order(void); /* NULL: there is none for this rank */

/* ---- ends.c */

/* Are receives told to be complete in the recorded order, in calls of this thread? */
bool tw_mpi_ends_replayed(void);
/* Is it the next one: a receive on this communicator that is complete with this status? */
bool tw_mpi_end_is_next(const struct tw_mpi_comm *c, const void *status);
/* Another one is complete, and is held back. Given up when that lasts too long. */
void tw_mpi_end_held_back(void);

/* ---- held.c: every function of it may be called at any time, from any thread */

/* Is there any receive of the program's that we hold? If not, nothing here is to be asked. */
bool tw_mpi_held_any(void);
/* Is there one that waits for a message of the recording's? Then nothing may be waited for without
 * looking after it (tw_mpi_held_look), since the message may never come. */
bool tw_mpi_held_waits(void);
void tw_mpi_held_look(void);
/* Would one that waits have to be given this message first, by MPI's own rules? */
bool tw_mpi_held_wants(const struct tw_mpi_open *o);

struct tw_mpi_held;
/* What the program has of a receive: nothing, since the call waits; a request that is made for it;
 * a persistent one of its own. */
enum tw_mpi_held_by { TW_MPI_BY_CALL, TW_MPI_BY_REQUEST, TW_MPI_BY_START };
/* Takes a receive over. request: where the program's is put, or is. 0, or what MPI said of it; NULL
 * in *out: it is not taken over, and the program's own call is to be made. */
int tw_mpi_held_post(struct tw_mpi_open *o, enum tw_mpi_held_by by, void *buffer, int64_t n,
                     tw_mpi_handle type, void *request, struct tw_mpi_held **out);
/* A blocking one: has it ended? Then *status is filled, *rc says how, and it is gone. */
bool tw_mpi_held_ended(struct tw_mpi_held *h, void *status, int *rc);

/* By the program's request. NONE: it is not one of ours. */
enum tw_mpi_held_is { TW_MPI_HELD_NONE, TW_MPI_HELD_OPEN, TW_MPI_HELD_COME };
enum tw_mpi_held_is tw_mpi_held_is(tw_mpi_handle request, void *status);
/* It has come: *status is filled, *request becomes MPI_REQUEST_NULL, or is one that may be started
 * again. What MPI said of it. */
int tw_mpi_held_give(void *request, void *status);
bool tw_mpi_held_cancel(tw_mpi_handle request);
bool tw_mpi_held_free(void *request, int *rc);
#endif
