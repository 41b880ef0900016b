/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_RUNS_H
#define TW_CMD_RUNS_H
/* What several commands do with run folders. */
#include "base.h"
#include "run_state.h"

#include "src/launch/run.h"

/* --home, or the default. malloc'ed; NULL when out of memory. */
char *tw_home(const char *option);
/* The same, absolute, made when missing. NULL when runs cannot be written there: command's
 * complaint was said. */
char *tw_home_for_runs(const char *option, const char *command);
/* Resolves and loads what the user typed; says what went wrong and returns NULL. */
struct twin_run *tw_run_open(const char *home, const char *spec);

#endif
