/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_BASELINE_H
#define TWIN_BASELINE_H
/*
 * Baselines: what a job is expected to compute, in a small text file that goes into the repository.
 * Written spec: docs/format/baseline.md. Room: src/compare. Prints nothing.
 */
#include "src/compare/compare.h"
#include "src/launch/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct twin_baseline;

/* What a baseline says of itself. All strings belong to the baseline. */
struct twin_baseline_info {
    const char *twinrun, *made; /* version that wrote it; date and time, UTC */
    char *const *command;
    size_t command_count;
    uint64_t runs; /* that agreed */
    enum twin_level level;
    uint32_t max_steps; /* --steps of those runs; 0: to their end */
    char *const *ignore;
    size_t ignore_count;
    size_t processes;
    uint64_t steps, records; /* of the process that has most steps */
    /* series that did not repeat and that nothing depends on */
    uint64_t left_out;
};

/* Makes a baseline of n runs of one job that were found to be the same (or of one, when they only
 * agree within a tolerance). What did not repeat in them is left out. version and command are
 * copied. Errors: TWIN_EINVAL (what did not repeat matters; nothing was recorded; records were
 * lost), TWIN_EFORMAT, TWIN_ELIMIT, TWIN_ENOMEM. */
int twin_baseline_make(const struct twin_run *const *runs, size_t n,
                       const struct twin_compare_options *o, const char *version,
                       struct twin_baseline **out, struct twin_error *err);

/* The world in which it was made: names and values as the caller chose them, in order. Copied. 0,
 * TWIN_ELIMIT or TWIN_ENOMEM. */
int twin_baseline_add_world(struct twin_baseline *b, const char *name, const char *value,
                            struct twin_error *err);
/* how many there are */
size_t twin_baseline_world(const struct twin_baseline *b, size_t index, const char **name,
                           const char **value);

/* The file's text, malloc'ed (tw_free). */
int twin_baseline_write(const struct twin_baseline *b, char **text, struct twin_error *err);
/* Reads what another program or person may have written. path: for messages. TWIN_EFORMAT,
 * TWIN_EVERSION, TWIN_ELIMIT, TWIN_ENOMEM. */
int twin_baseline_read(const char *text, size_t bytes, const char *path, struct twin_baseline **out,
                       struct twin_error *err);
void twin_baseline_free(struct twin_baseline *b);
struct twin_baseline_info twin_baseline_info(const struct twin_baseline *b);

/* Holds a run against a baseline. Of o, steps and tolerance_file count. The verdict has `against`
 * (with path NULL) and names the first step, and the tensor where the baseline keeps tensors of
 * that step. */
int twin_baseline_judge(const struct twin_baseline *b, const struct twin_run *run,
                        const struct twin_compare_options *o, struct twin_verdict **out,
                        struct twin_error *err);
#endif
