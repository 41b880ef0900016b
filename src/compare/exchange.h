/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_EXCHANGE_H
#define TW_EXCHANGE_H
/*
 * What the records of a run say of exchanges between its ranks: which record gives what another
 * one takes. Used by frontier.c.
 */
#include "internal.h"

#include "vector_order.h"

/* A record of a message or of a collective. */
struct tw_exchange {
    uint32_t step, seq;
    /* which match it belongs to: the number-th message of a channel, or call of a collective */
    uint32_t channel, number;
    uint32_t op; /* index of its operation; equal ones agree */
    uint8_t act; /* enum tw_act; TW_ACT_NONE: it is known to order nothing */
    bool sure;   /* of a call: it is this one. Else it is this one, or another that was under way */
    bool read;   /* its contents were recorded */
    bool empty;  /* of no elements */
    struct twin_digest digest; /* raw sums of its contents */
    uint64_t elements;
};

/* A channel: messages from one rank to another with one tag, or calls of one collective, on one
 * communicator. */
struct tw_channel {
    char *key; /* what it is found by */
    char *name, *scope;
    bool message;
    int32_t from; /* of messages */
};

/* One process of a run, and the record of it that a caller asks about. */
struct tw_talker {
    struct tw_proc *proc;
    const struct twin_finding *asked; /* the record that is asked about; NULL: none */
    uint32_t step, seq;               /* where it stands in this run; seq 0: nowhere */
    /* filled by tw_exchanges_read() */
    struct tw_exchange *x; /* in its own order */
    size_t n, room;
    /* why nothing is known of the order of what it did; NULL: all of it is */
    const char *why;
    bool asked_in_order;    /* the record that was asked about is of the thread that exchanges */
    bool cut;               /* there are more, behind those that were taken */
    const char *unfollowed; /* a call whose order is not followed; NULL: none */
};

struct tw_exchanges {
    struct tw_talker *talker;
    size_t talkers;
    struct tw_channel *channel;
    size_t channels, channel_room;
    char **op;
    size_t ops, op_room;
    uint32_t *slot; /* of channels, by key */
    size_t slots;
};

/* Records of exchanges that are kept of one run, over all processes. Tests make it smaller. */
extern size_t tw_exchange_most;
/* Records that traces may hold up to the steps asked about: above that none is read. */
extern uint64_t tw_exchange_records;

/*
 * Reads the exchanges of all talkers of one run in steps first..last; their numbers are counted
 * from the beginning. x->talker is the caller's. 0, TWIN_ENOMEM or TWIN_ELIMIT (more records than
 * are read). What cannot be told of one process is in its `why`.
 */
int tw_exchanges_read(struct tw_cmp *c, struct tw_exchanges *x, uint32_t first, uint32_t last);
void tw_exchanges_free(struct tw_exchanges *x); /* but not x->talker itself */
/* The record of a talker; NULL: it is no exchange, or was not kept. */
const struct tw_exchange *tw_exchange_at(const struct tw_talker *t, uint32_t step, uint32_t seq);
#endif
