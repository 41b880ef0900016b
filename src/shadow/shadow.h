/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SHADOW_H
#define TW_SHADOW_H
/*
 * Shadow runs: a share of the recorded runs of a home is made once more, long after the originals
 * have ended, and held against them. What came of it goes to the ledger, from which service levels
 * are counted (M1). Room: src/shadow. docs/shadow.md.
 *
 * The state is the ledger and the run folders, nothing else: a run is answered when the ledger has
 * a comparison with the verb "shadow" that begins with it, and the folder of its repeat names it.
 * So a call that was killed at any moment leaves what the next one goes on from.
 *
 * Used by one thread; it changes the working folder and the environment of the process meanwhile.
 */
#include "src/launch/run.h"
#include "src/trial/remote.h"

#include "base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is asked for. */
struct tw_shadow_asked {
    double share;            /* of the runs, 0 to 1 */
    const char *seed;        /* of the draw; "" */
    struct tw_strings first; /* globs of projects and commands that go first, in this order */
    double budget_s;         /* wall time of repeats, by what the originals took */
    uint64_t most;           /* repeats of this call; 0: as many as the budget allows */
    bool dry_run;
    bool again;     /* also runs of which an earlier call found that they cannot be repeated */
    bool overwrite; /* also runs that wrote outside of the folder that is copied */
    bool beside;    /* also while another run of the home goes on on this machine */
};

/* What became of a run that was drawn. */
enum tw_shadow_outcome {
    TW_SHADOW_SAME,
    TW_SHADOW_DIVERGED,
    TW_SHADOW_NOT_KNOWN,    /* it was repeated, and nothing can be said of that */
    TW_SHADOW_NOT_REPEATED, /* its world cannot be made again */
    TW_SHADOW_FAILED,       /* trouble of ours or of the engine: the next call tries again */
    TW_SHADOW_WOULD,        /* dry run */
    TW_SHADOW_LEFT,         /* for a later call: the budget, or the number, is used up */
    TW_SHADOW_OUTCOMES
};
/* same|diverged|not-known|not-repeated|failed|would-repeat|left */
const char *tw_shadow_outcome_name(enum tw_shadow_outcome o);

struct tw_shadow_row {
    char run[33]; /* the original */
    char *name;   /* of its folder */
    char *command, *project;
    enum tw_shadow_outcome outcome;
    char *why;    /* NULL: nothing to add */
    char *repeat; /* name of the repeat's folder; NULL: none */
    double estimate_s, took_s;
};

/* Filled in up to `url`; the rest is found out. tw_shadow_free in any case. */
struct tw_shadow {
    struct tw_shadow_asked asked;
    const struct tw_front *front;
    struct tw_remote *on; /* who makes the runs; its engine is NULL: this machine */
    const char *home;     /* absolute */
    const char *url;      /* of the ledger; NULL: the usual one */
    /* of the recorded runs that ended well: drawn, and of these those that had an answer before */
    size_t runs, drawn, answered;
    size_t told; /* of those without an answer: found before that they cannot be repeated */
    struct tw_shadow_row *row; /* in the order of priority; owned */
    size_t count, room;
    size_t of[TW_SHADOW_OUTCOMES]; /* rows by outcome */
    double left_s;                 /* of the budget */
    bool busy;                     /* another call is at work in this home: nothing was done */
    char *going_on; /* name of a run because of which nothing was begun beside it; owned */
    bool interrupted;
};

/* Draws and repeats. 0: look at the rows. TWIN_ENOENT: there is no ledger. Those of the ledger. */
int tw_shadow_make(struct tw_shadow *s, struct twin_error *err);
void tw_shadow_free(struct tw_shadow *s);

/* Is the run drawn? Depends on the two texts and the share alone, and a larger share has the runs
 * of a smaller one. */
bool tw_shadow_is_drawn(const char *seed, const char *id, double share);

#endif
