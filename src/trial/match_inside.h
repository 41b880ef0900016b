/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_MATCH_INSIDE_H
#define TW_TRIAL_MATCH_INSIDE_H
/* What the reading of an order and the comparison of two share. */
#include "match_order.h"

#include "src/trace/order.h"

struct tw_matches_rank {
    int32_t rank;
    bool torch; /* messages of torch.distributed, not of MPI: numbered each for itself */
    char (*comm)[TW_ORDER_NAME];
    uint32_t comms;
    struct tw_order_match *match; /* in the order of posting */
    uint32_t matches, taken;      /* taken: those that got a message */
    struct tw_order_match *end;   /* non-blocking receives, in the order in which they ended */
    uint32_t ends;
    bool ends_unknown; /* several threads learnt of them */
    bool incomplete;   /* its trace lacks records */
};

/* The orders of a run's ranks. whole: those that lack records are an error. */
int tw_matches_read_run(const struct twin_run *run, bool whole, struct tw_matches *out,
                        struct twin_error *err);
#endif
