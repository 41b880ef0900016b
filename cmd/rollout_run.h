/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_ROLLOUT_RUN_H
#define TW_CMD_ROLLOUT_RUN_H
/* What record and run do with TWINRUN_ROLLOUT: the arm of the run, and its pins. */
#include "src/isolate/isolate.h"
#include "src/rollout/rollout.h"

/* The later ones point into the earlier ones. tw_rollout_run_free. */
struct tw_rollout_run {
    struct tw_rollout_joined joined;
    struct twin_factors factors;
    struct twin_world world;
    struct twin_world_plan plan;
    char *left_out; /* what "all" could not pin here; NULL: nothing */
};
/* Reads the flag file and plans. given, factor_file: of the command line; NULL: none. True: the run
 * is to have the world and plan of r, which may be empty. False: there is no rollout for it, or it
 * cannot be had, which is said unless quiet: the run is to be as if there were none, but that
 * r->joined.run, if it has an arm, is recorded. */
bool tw_rollout_run_join(struct tw_rollout_run *r, const char *given, const char *factor_file,
                         char **argv, bool quiet);
void tw_rollout_run_free(struct tw_rollout_run *r);

#endif
