/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_RUNS_H
#define TW_CMD_RUNS_H
/*
 * The home: where the runs of a command are found and put, and the ledger of them, whose trouble is
 * said and changes no exit code.
 */
#include "options.h"
#include "run_state.h"

#include "base.h"

#include "src/launch/run.h"
#include "src/ledger/noted.h"

/* --home, or the default. malloc'ed; NULL when out of memory. */
char *tw_home(const char *option);
/* The same for a command that makes no runs: it finds the home of a folder above, too. */
char *tw_home_to_read(const char *option);
/* As tw_home, absolute, made when missing. NULL when runs cannot be written there: command's
 * complaint was said. */
char *tw_home_for_runs(const char *option, const char *command);
/* Resolves and loads what the user typed; says what went wrong and returns NULL. */
struct twin_run *tw_run_open(const char *home, const char *spec);
/* All of the named runs, or NULL, and what went wrong was said. home: NULL for lack of memory. */
struct twin_run **tw_runs_open(const char *command, const char *home,
                               const struct tw_operands *names);
void tw_runs_close(struct twin_run **runs, size_t count); /* NULL: nothing */

/* ---- ranks that have to begin alike (docs/parity.md) */

#define TW_PARITY_OPTION(offset)                                                             \
    {"require-parity",                                                                       \
     0,                                                                                      \
     TW_OPT_FLAG,                                                                            \
     NULL,                                                                                   \
     NULL,                                                                                   \
     "Job",                                                                                  \
     "end the job (exit code 2) when its ranks begin with different versions, variables or " \
     "machines",                                                                             \
     offset}

/* ---- the ledger: the option --ledger */

#define TW_LEDGER_OPTION(s, f)                                                                    \
    {"ledger",                                                                                    \
     0,                                                                                           \
     TW_OPT_STRING,                                                                               \
     "URL",                                                                                       \
     NULL,                                                                                        \
     "Output",                                                                                    \
     "postgresql://... instead of ledger.db in the home (TWINRUN_LEDGER does the same), or none", \
     offsetof(struct s, f)}

/* Writes what a command found out (struct tw_noted), or a single run. */
void tw_ledger_note(const struct tw_noted *n);
void tw_ledger_note_run(const char *home, const char *url, const struct twin_run *r);

/* Writes something that happened once (kinds: struct twin_ledger_event) to the ledger of a home;
 * home NULL: the default one. Nothing where that home is not there. */
void tw_ledger_note_event(const char *home, const char *kind, const char *outcome,
                          const char *subject);

/* Opens the ledger of a home and catches up. NULL: there is none, and that was said unless it was
 * asked for. live: as of tw_ledger_catch_up. */
struct twin_ledger *tw_ledger_open(const char *home, const char *url, tw_live_fn *live, void *user);

#endif
