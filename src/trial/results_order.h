/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_RESULTS_ORDER_H
#define TW_TRIAL_RESULTS_ORDER_H
/*
 * The order in which executors and loaders of a recorded run told of results: made into files that
 * the agent of another run obeys, and held against what that run then recorded
 * (docs/internals/replay-order.md).
 */
#include "match_order.h"

struct tw_results_process;

struct tw_results {
    const struct twin_run *recorded;
    uint32_t wait_ms;
    struct tw_results_process *process;
    size_t count;
    bool none; /* there is no result whose order could be replayed */
};

/* Reads the recorded run's files. An error where one is damaged, or there is nothing to be
 * replayed. Free it also then. */
int tw_results_read(const struct twin_run *recorded, uint32_t wait_ms, struct tw_results *out,
                    struct twin_error *err);
void tw_results_free(struct tw_results *o);

/* Is there a loader among those that told of results? */
bool tw_results_of_loaders(const struct tw_results *o);
/* Writes the files into the folder of a run that is about to start. */
int tw_results_fill(const struct tw_results *o, const char *run_dir, struct twin_error *err);

/* What came of it, by the files of both runs. The caller frees the text, also after an error. */
int tw_results_compare(const struct tw_results *o, const struct twin_run *replayed,
                       struct tw_matches_kept *out, struct twin_error *err);

/* Have both runs told of all results in one order, as far as that can be known at all? Where
 * neither tells of any that is not known. */
bool tw_results_alike(const struct twin_run *a, const struct twin_run *b);
#endif
