/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_RUNS_H
#define TW_CMD_RUNS_H
/* What several commands do with run folders. */
#include <stdbool.h>
#include <stdint.h>
#include <twin/run.h>

/* Sums over a run's traces, from their headers and last seals only. */
struct tw_run_totals {
    uint64_t steps;      /* smallest over ranks of the largest over a rank's processes */
    uint64_t records, dropped, bytes;
    double observer;     /* largest time in hooks / wall time over processes; NaN when not known */
    size_t unreadable;   /* traces that could not be opened */
};
void tw_run_totals(const struct twin_run *r, struct tw_run_totals *t);

/* "ok", "exit 3", "SIGSEGV", "not started", "stopped", "interrupted", "running" */
const char *tw_run_state(const struct twin_run *r, char text[32]);
/* The last line that the run printed to stderr. malloc'ed; NULL: none. */
char *tw_run_last_words(const struct twin_run *r);
/* By its own fault: not when twinrun or Ctrl-C ended it. */
bool tw_run_failed(const struct twin_run *r);
/* A PyTorch job may compute with bare tensors: no module and no loader shows what goes in, the
 * operation level does. Of a job without PyTorch no level shows more than another. */
bool tw_run_shows_no_input(const struct twin_run *r);
/* --home, or the default. malloc'ed; NULL when out of memory. */
char *tw_home(const char *option);
/* The same, absolute, made when missing. NULL when runs cannot be written there: command's complaint was said. */
char *tw_home_for_runs(const char *option, const char *command);
/* Resolves and loads what the user typed; says what went wrong and returns NULL. */
struct twin_run *tw_run_open(const char *home, const char *spec);

/* argv of `sh -c TEXT` over static storage of the caller. */
void tw_shell_argv(const char *text, char *argv[4]);

#endif
