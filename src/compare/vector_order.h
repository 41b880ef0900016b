/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_VECTOR_ORDER_H
#define TW_VECTOR_ORDER_H
/*
 * The causal order of events of several processes: which of them can have caused which. Knows
 * nothing of traces; exchange.c makes the events, frontier.c asks.
 *
 * Lamport's "happened before" (CACM 21(7), 1978): an event comes before another when both are of
 * one process, in that order, when one gives what the other takes, or over any chain of these. It
 * is computed with the vector clocks of Fidge (Proc. 11th Australian Computer Science Conference,
 * 1988) and Mattern (Parallel and Distributed Algorithms, 1989), offline, over events that are all
 * known. A clock has a component only for processes in which a point was asked for.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

enum tw_act {
    TW_ACT_NONE, /* exchanges nothing: a mark in its process */
    TW_ACT_GIVE, /* what it gives, every event takes that takes of the same match */
    TW_ACT_TAKE
};

/* A match is a message (one gives, one takes) or a call of a collective (all give, all take). */
struct tw_event {
    uint32_t match; /* below `matches`; of TW_ACT_NONE: anything */
    uint8_t act;
};

struct tw_events {
    const struct tw_event *event; /* process after process, each in its own order */
    const size_t *start;          /* of each process, and where the last one ends */
    size_t processes, matches;
};

struct tw_causal {
    size_t points;
    uint64_t *before; /* points x points bits: row i has what i comes before */
    bool circular;    /* some events wait for each other, which no run can do: nothing is known */
};

/* Bytes of clocks that are held at once, and components of clocks that are looked at: above either
 * the answer is TWIN_ELIMIT. Tests make them smaller. */
extern size_t tw_causal_bytes, tw_causal_work;

/*
 * Orders points, which are indices of events. What nobody gives is taken from nowhere. Returns 0,
 * TWIN_ELIMIT or TWIN_ENOMEM; then out is empty.
 */
int tw_causal_make(const struct tw_events *e, const size_t *point, size_t points,
                   struct tw_causal *out, struct twin_error *err);
/* Does point i come before point j? False for all in a circular order. */
bool tw_causal_before(const struct tw_causal *o, size_t i, size_t j);
void tw_causal_free(struct tw_causal *o);
#endif
