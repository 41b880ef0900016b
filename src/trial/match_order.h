/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_MATCH_ORDER_H
#define TW_TRIAL_MATCH_ORDER_H
/*
 * The order in which messages of MPI were matched in a recorded run: made into files that the agent
 * of another run obeys, and held against what that run then recorded
 * (docs/internals/replay-order.md).
 */
#include "src/launch/run.h"

#include <stdbool.h>
#include <stdint.h>

struct tw_matches_rank;

struct tw_matches {
    const struct twin_run *recorded;
    uint32_t wait_ms;
    struct tw_matches_rank *rank; /* those that have a trace with matches */
    size_t count;
    bool none; /* there is no receive whose order could be replayed */
};

/* Reads the recorded run's traces. An error where an order is not known (records were lost, several
 * threads received) or there is nothing to be replayed. Free it also then. */
int tw_matches_read(const struct twin_run *recorded, uint32_t wait_ms, struct tw_matches *out,
                    struct twin_error *err);
void tw_matches_free(struct tw_matches *o);

/* Writes the files into the folder of a run that is about to start. `user`: a struct tw_matches;
 * for fill_folder of struct twin_launch_options. */
int tw_matches_fill(void *user, const char *run_dir, struct twin_error *err);

/* What came of it, by the records of both runs: which message each receive took, and in which order
 * the program learnt of the non-blocking ones. */
struct tw_matches_kept {
    uint64_t kept, expected; /* those that came as recorded, up to each rank's first other one */
    bool whole;              /* all of them, and no more were made */
    bool other;              /* another one came, or it was given up: not only fewer were made */
    char *text;              /* why not: "match 57 of rank 2: ..."; NULL when whole */
};
/* The caller frees both texts, also after an error. */
int tw_matches_compare(const struct tw_matches *o, const struct twin_run *replayed,
                       struct tw_matches_kept *out, struct tw_matches_kept *ends,
                       struct twin_error *err);
#endif
