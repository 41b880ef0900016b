/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_SERIES_H
#define TW_TRIAL_SERIES_H
/*
 * Runs of one question, made one after the other, the first of which is the reference: each is
 * compared with it while it goes on, and all of them when it has ended. What comes next, and when
 * it is enough, the caller decides.
 */
#include "remote.h"

#include <stddef.h>

struct tw_series {
    const struct tw_front *front;
    const char *command;    /* what messages begin with: "check" */
    char *home;             /* where the runs are kept; owned */
    uint64_t deadline_ns;   /* of all of them, monotonic; 0: none */
    struct twin_run **runs; /* owned; runs[0] is the reference */
    size_t count;
    struct twin_verdict *v; /* over runs[0..count-1]; NULL before the first comparison; owned */
    bool interrupted, out_of_time;
    double start_s;        /* of runs[0], as in struct tw_trial */
    bool require_parity;   /* of each run's ranks */
    bool tells_parity;     /* where the ranks of the first run differ, the front is told */
    struct tw_trial trial; /* the run that goes on, or went on last */
    struct tw_given ahead; /* runs that an engine has already */
};

/* Gives n runs with these options to the engine of o->on: the next n of tw_series_run. */
int tw_series_ahead(struct tw_series *s, const struct twin_launch_options *o,
                    const struct twin_compare_options *how, size_t n, struct twin_error *err);
/* Takes back those that were not taken. */
void tw_series_ahead_end(struct tw_series *s);

/*
 * One run. *out is the caller's. how: the comparison with the reference while it goes on; NULL: it
 * is not compared. Returns what tw_trial_make does, and notes whether time is up or the person
 * wants an end.
 */
int tw_series_run(struct tw_series *s, const struct twin_launch_options *o, const char *title,
                  const struct twin_compare_options *how, struct twin_run **out,
                  struct twin_error *err);
/* Adds a run to s->runs, which owns it then, also after an error. */
int tw_series_keep(struct tw_series *s, struct twin_run *r, struct twin_error *err);
/* Compares all runs anew. On an error the verdict stays as it was. */
int tw_series_compare(struct tw_series *s, const struct twin_compare_options *how,
                      struct twin_error *err);
/* Is run i in another class than the reference? Classes count whatever was made after the first
 * divergence. */
bool tw_series_diverged(const struct tw_series *s, size_t i);
/* Are `more` runs like the first likely to fit the disk of the home? Says so when not, and unless
 * quiet also how much room and time they take, where that is much. */
bool tw_series_has_room(const struct tw_series *s, uint64_t more, bool quiet);
/* Forgets runs and verdict, to begin again. */
void tw_series_clear(struct tw_series *s);
void tw_series_free(struct tw_series *s);

#endif
