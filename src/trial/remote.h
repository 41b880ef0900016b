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
    /* how many runs that count each node made, in the order of the first one; the list and its
     * names are owned */
    struct tw_remote_made {
        char *node;
        size_t runs;
    } *made;
    size_t made_count;
};

/* home: where the runs are kept, which the nodes have to see, too. TWIN_EINVAL: bad words. */
int tw_remote_open(struct tw_remote *r, const struct tw_remote_asked *asked, const char *home,
                   const struct tw_front *front, struct twin_error *err);
/* Takes back what still runs, and deletes the tickets. */
void tw_remote_close(struct tw_remote *r);

/* Does an engine make the runs? r may be NULL. */
bool tw_remote_is_on(const struct tw_remote *r);
const char *tw_remote_name(const struct tw_remote *r); /* of its engine: "slurm" */
/* Can each run be put on one node of our choice? 0, or TWIN_EUNSUPPORTED with why not. */
int tw_remote_can_pin(const struct tw_remote *r, struct twin_error *err);

/*
 * The nodes on which a run may be, by the engine's word and by --place, and which can each be asked
 * for; at most `most`. Names and list are the caller's (tw_free), also after an error.
 * TWIN_EUNSUPPORTED: runs cannot be put on nodes; TWIN_ENOMEM.
 */
int tw_remote_nodes(const struct tw_remote *r, size_t most, char ***name, size_t *count,
                    struct twin_error *err);

/* Gives a run away (o->on), which is made like tw_trial_make would. o and what it points to may go
 * then; what *asked points to must stay. The engine's queue decides when it begins. */
int tw_remote_add(const struct twin_launch_options *o, const struct tw_trial *asked,
                  struct tw_remote_run **out, struct twin_error *err);
/* Waits until it has ended, and drops it. Fills what was found into *t; returns as tw_trial_make.
 */
int tw_remote_wait(struct tw_remote_run *x, const char *title, struct tw_trial *t,
                   struct twin_error *err);
/* Tells runs of one engine to end, and waits for nothing. Who drops several tells all of them first
 * by one call: then they end beside each other. */
void tw_remote_cancel(struct tw_remote_run *const *run, size_t count);
/* Takes it back, whatever it does. NULL: nothing. */
void tw_remote_drop(struct tw_remote_run *x);
/* tw_trial_make of such options. */
int tw_remote_make(struct tw_trial *t, const struct twin_launch_options *o, struct twin_error *err);

/* ---- remote_given.c */
/* Runs of one kind that were given away before the first of them is waited for. */
struct tw_given {
    struct tw_remote_run **run; /* owned, in the order in which they are taken */
    size_t count, taken;
};
/* Gives n runs away, where an engine makes them; else nothing. */
int tw_given_add(struct tw_given *a, const struct twin_launch_options *o,
                 const struct tw_trial *asked, size_t n, struct twin_error *err);
/* As tw_trial_make, with the next of these, or with a run that is made now. */
int tw_given_make(struct tw_given *a, const struct twin_launch_options *o, struct tw_trial *t,
                  struct twin_error *err);
/* Takes back those that were not taken. */
void tw_given_end(struct tw_given *a);

/* ---- remote_said.c */
/* "the runs were made by slurm on 2 nodes: n1 (3), n2 (2); 1 run had to be made again ...": of all
 * runs that r made. malloc'ed; NULL: no engine, or no run, or no memory. */
char *tw_remote_text(const struct tw_remote *r);
/* Where the runs of a verdict were made, and what had to be made again: its notes. */
void tw_remote_note(const struct tw_remote *r, const struct twin_run *const *runs, size_t count,
                    struct twin_verdict *v);

#endif
