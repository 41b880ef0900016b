/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRACE_ORDER_H
#define TW_TRACE_ORDER_H
/*
 * The order file of one rank: which message each receive took, of those that left it open from whom
 * it comes, in the order in which they were posted. Made in the run folder of a replayed run from
 * the traces of a recorded one (src/trial/match_order.c), and read by the agent of MPI
 * (agents/mpi/replay.c) or that of PyTorch (python/twinrun/_agent/match_order.py), each its own. It
 * is of one machine's byte order, since it lives as long as one run.
 *
 *     head, then `comms` names of TW_ORDER_NAME bytes, then `matches` matches, then `ends` matches:
 *     the messages of non-blocking receives, in the order in which the program learnt of them
 *
 * The reader trusts nothing in it: a size that does not fit, a name without an end or a match
 * outside of the bounds makes the file none.
 */
#include <stdint.h>

#define TW_ORDER_MAGIC "twinord"
enum {
    TW_ORDER_VERSION = 1,
    TW_ORDER_NAME = 160,        /* bytes, the final NUL among them */
    TW_ORDER_COMMS_MOST = 1024, /* as many as the agent knows */
    TW_ORDER_MATCHES_MOST = 1 << 22,
    TW_ORDER_OPEN_MOST = 4096, /* open receives under way at the same time */
    TW_ORDER_TAGS = 1024,      /* traces name no tag from here on */
    TW_ORDER_WAIT_MOST_MS = 3600000
};

struct tw_order_head {
    char magic[8];
    uint32_t version;
    uint32_t comms, matches, ends;
    uint32_t wait_ms; /* how long a message is waited for while another one could be taken */
};

/* PROBED: a probe left it open, and the receive asked for what that had found */
enum { TW_ORDER_ANY_SOURCE = 1, TW_ORDER_ANY_TAG = 2, TW_ORDER_PROBED = 4 };
enum { TW_ORDER_NOBODY = -1 };
struct tw_order_match {
    uint16_t comm;  /* number of its name */
    uint16_t open;  /* what the receive left open; 0: it got no message. 0 of ends */
    int32_t source; /* rank in MPI_COMM_WORLD, or of the job; TW_ORDER_NOBODY: it got none */
    int32_t tag;    /* -1: not known */
};

/* "RUN_DIR/order.RANK", of MPI and of torch.distributed */
#define TW_ORDER_FILE "%s/order.%d"
#define TW_ORDER_TORCH_FILE "%s/order.torch.%d"
/* The key of the note in a trace that says why a rank's replay was given up. */
#define TW_ORDER_NOTE "match-order"
/* A rank that was released, or gave the order of completion up, after waiting says so to the others
 * by an empty file of this name, where the run's folder is one for all. */
#define TW_ORDER_TOLD_FILE "%s/order.released"
#define TW_ORDER_TOLD_ENDS_FILE "%s/order.unordered"
/* The key of the note of a rank that was released because another one was. */
#define TW_ORDER_TOLD_NOTE "match-order-told"
/* The same of the order in which receives were complete. */
#define TW_ORDER_ENDS_NOTE "completion-order"
/* The key of the note that says why the order of a trace's open receives is not known. */
#define TW_ORDER_LOST_NOTE "match-order-lost"
#endif
