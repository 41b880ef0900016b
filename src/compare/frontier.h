/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FRONTIER_H
#define TW_FRONTIER_H
/*
 * Shared by the files that find out which rank diverged by itself: frontier.c (who was carried to),
 * exchange_matches.c (who gave what somebody took), frontier_order.c (which came before which).
 */
#include "exchange.h"
#include "scan.h"

/* All that give, or take, in one match. */
struct match {
    uint32_t channel, number, op;
    size_t giver; /* 1 + index of the first event that gives; 0: none */
    bool broken;  /* they do not agree about what it is */
};

/* The exchanges of one run, and their matches. Events are counted over all talkers. */
struct run_side {
    struct tw_exchanges x;
    size_t *start; /* of each talker's events */
    struct match *match;
    size_t matches, match_room;
    uint32_t *match_of; /* of each event; UINT32_MAX: none */
    size_t *next_giver; /* of each event: 1 + the next that gives for the same match */
    uint32_t *slot;
    size_t slots;
};

/* A rank that differs. */
struct differing {
    struct tw_scan *scan;
    const struct twin_finding *f;
    size_t talker;
    bool carried, open; /* open: it may have been carried */
    size_t from;        /* carried: talker */
    const struct tw_exchange *given[2], *taken[2];
};

/* What one talker gave for a match, in all of its records of it. */
struct given {
    const struct tw_exchange *first; /* NULL: nothing that is known */
    uint64_t contents;
    bool read;
};

/* One call of a collective in both runs, as it was judged last. */
struct judged_call {
    const struct tw_exchange *taken[2], *given[2];
    size_t from;     /* the first talker that gave something else; SIZE_MAX: none is known */
    bool any, equal; /* equal: everybody gave the same in both runs */
};

struct frontier {
    struct tw_cmp *c;
    struct given *given[2]; /* by talker, of the match at hand */
    struct judged_call call;
    struct run_side side[2];
    size_t *talker_of_rank; /* 1 + talker; 0: none */
    int32_t ranks;
    struct differing *d;
    size_t n;
    char *why; /* why the order is not known; the first reason */
    bool circular;
};

/* ---- exchange_matches.c */
/* Were the same contents given and taken, as far as they were read? */
bool tw_same_contents(const struct tw_exchange *x, const struct tw_exchange *y);
/* Puts every event of a run to its match; false: no memory. */
bool tw_match_exchanges(struct tw_cmp *c, struct run_side *s);
/* Fills given[] for all talkers, with what was given for the match that `taken` takes from. */
void tw_exchange_given(struct tw_cmp *c, const struct run_side *s, const struct tw_exchange *taken,
                       struct given *given);
void tw_unmatch_exchanges(struct run_side *s); /* and the exchanges that it holds */

/* ---- frontier_order.c */
/* Notes why the order is not known. Takes the text; the first stays. */
void tw_frontier_why(struct frontier *w, char *why);
/*
 * The candidate to name: of those that no other one comes before, the first by steps. by_steps: all
 * ranks that differ, as steps order them. 0 or TWIN_ENOMEM.
 */
int tw_frontier_choose(struct frontier *w, const size_t *by_steps, struct differing **first);
#endif
