/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_REMOTE_H
#define TW_TRIAL_REMOTE_H
/*
 * Runs that an engine makes (src/engine): what is below tw_trial_make where launch options have
 * `on`. Each run is watched as one here is: compared while it goes on, ended at its deadline or
 * when enough is known; and a run that was lost (its node went away, it was preempted, the engine
 * started it twice, it was put on another node than was asked for) is made again, up to a bound,
 * counted, and never taken for a result.
 *
 * Several runs may be given away before the first of them is waited for: they are made side by
 * side, and all go on while one is waited for. Belongs to one thread.
 */
#include "trial.h"

#include "src/engine/engine.h"

#include <stdbool.h>
#include <stddef.h>

/* How the engine is asked for: the words of the options. NULL: not given. */
struct tw_remote_asked {
    const char *on, *place, *hosts;
    uint64_t slots; /* 0: not given */
};

struct tw_remote_run;

/* What a command has of an engine. Zeroed, then tw_remote_open; tw_remote_close in any case. */
struct tw_remote {
    struct tw_engine *engine; /* NULL: runs are made here */
    const struct tw_front *front;
    char *folder; /* of all tickets, below the home; owned */
    struct tw_place place;
    struct tw_remote_run **run; /* those that were given away and not dropped */
    size_t count, room;
    unsigned batches;
    uint64_t polled_ns, alive_ns;
    bool stdin_kept; /* stdin is in the spool */
    bool stopped;    /* the person wanted an end: all was taken back */
    /* of the first run, for TW_PLACE_SAME_TYPE: its processor, and the engine's word for the type
     * of its node; owned */
    char *processor, *type;
    /* what was made again, and why; the texts are owned */
    size_t lost, misplaced, twice;
    size_t refused; /* started again by the engine beside the run that counts, which went on */
    char *why[8];
    size_t why_count;
};

/* home: where the runs are kept, which the nodes have to see, too. TWIN_EINVAL: bad words. */
int tw_remote_open(struct tw_remote *r, const struct tw_remote_asked *asked, const char *home,
                   const struct tw_front *front, struct twin_error *err);
/* Takes back what still runs, and deletes the tickets. */
void tw_remote_close(struct tw_remote *r);

/* Gives a run away (o->on), which is made like tw_trial_make would. o and what it points to may go
 * then; what *asked points to must stay. The engine's queue decides when it begins. */
int tw_remote_add(const struct twin_launch_options *o, const struct tw_trial *asked,
                  struct tw_remote_run **out, struct twin_error *err);
/* Waits until it has ended, and drops it. Fills what was found into *t; returns as tw_trial_make.
 */
int tw_remote_wait(struct tw_remote_run *x, const char *title, struct tw_trial *t,
                   struct twin_error *err);
/* Takes it back, whatever it does. NULL: nothing. */
void tw_remote_drop(struct tw_remote_run *x);
/* tw_trial_make of such options. */
int tw_remote_make(struct tw_trial *t, const struct twin_launch_options *o, struct twin_error *err);

/* ---- remote_said.c */
/* Where the runs of a verdict were made, and what had to be made again: its notes. */
void tw_remote_note(const struct tw_remote *r, const struct twin_run *const *runs, size_t count,
                    struct twin_verdict *v);

#endif
