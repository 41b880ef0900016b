/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_HELD_THREADS_H
#define TW_TRIAL_HELD_THREADS_H
/*
 * An experiment on two commands whose processes computed with other numbers of PyTorch's threads:
 * the second is run with the numbers of the first, rank by rank, and all else as it is. Only where
 * their difference goes away then, it comes from that number. Numbers of other libraries stay.
 */
#include "src/launch/run.h"

#include <stdbool.h>

struct tw_held_threads {
    char *variable; /* "TWINRUN_TORCH_THREADS=0:2,1:1", for the environment of a run of B */
    char *of_a;     /* "2", or "1 on ranks 0 and 2, 2 on rank 1": the numbers of A */
    char *of_b;     /* those of B */
    char *words;    /* both: "2; B's own: 3" */
};

/*
 * False, with nothing to free: there is no such experiment. Both runs have the same numbers; what
 * one of them had is not known, or changed while it went on; they have other ranks.
 */
bool tw_held_threads_of(const struct twin_run *a, const struct twin_run *b,
                        struct tw_held_threads *out);
/* Did each rank of this run compute with the numbers that it was to have, by its own words? */
bool tw_held_threads_kept(const struct tw_held_threads *h, const struct twin_run *held);
void tw_held_threads_free(struct tw_held_threads *h);
#endif
