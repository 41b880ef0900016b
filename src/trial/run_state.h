/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_RUN_STATE_H
#define TW_TRIAL_RUN_STATE_H
/* What a run folder says of its run in a word or a number. */
#include "front.h"

#include "src/launch/run.h"

#include <stdbool.h>
#include <stdint.h>

/* Sums over a run's traces, from their headers and last seals only. */
struct tw_run_totals {
    uint64_t steps; /* smallest over ranks of the largest over a rank's processes */
    uint64_t records, dropped, bytes;
    double observer;   /* largest time in hooks / wall time over processes; NaN when not known */
    size_t unreadable; /* traces that could not be opened */
};
void tw_run_totals(const struct twin_run *r, struct tw_run_totals *t);

/* "ok", "exit 3", "SIGSEGV", "not started", "stopped", "interrupted", "running" */
const char *tw_run_state(const struct twin_run *r, char text[32]);
/* The last line that the run printed to stderr. malloc'ed; NULL: none. */
char *tw_run_last_words(const struct twin_run *r);
/* Tells the front the last lines that a run printed to stderr, for a job that never worked: it has
 * mostly said why. who: "run 1". */
void tw_run_show_tail(const struct tw_front *front, const char *who, const struct twin_run *r);
/* By its own fault: not when twinrun or Ctrl-C ended it. */
bool tw_run_failed(const struct twin_run *r);
/* A PyTorch job may compute with bare tensors: no module and no loader shows what goes in, the
 * operation level does. Of a job without PyTorch no level shows more than another. */
bool tw_run_shows_no_input(const struct twin_run *r);
/* The level at which such a job is to be run: the operation level where this run ended well and
 * tensors showed no input, else the run's own. */
enum twin_level tw_run_level_that_sees(const struct twin_run *r);

#endif
