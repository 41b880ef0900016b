/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LAUNCH_OLD_RUNS_H
#define TW_LAUNCH_OLD_RUNS_H
/* Which runs of a home may go (twinrun gc), and what that gives back. */
#include "src/launch/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is asked to go: a run goes when either asks for it. */
struct tw_old_runs {
    uint64_t keep;          /* all but so many of the newest; TW_NOT_GIVEN: none for that */
    double older_than_days; /* that began longer ago; negative: none for that */
};

/* kept: how many newer runs stay. now_ns: on the clock of start_realtime_ns. A run in progress
 * never goes. */
bool tw_run_may_go(const struct tw_old_runs *which, size_t kept, const struct twin_run *r,
                   int64_t now_ns);

/* What the files of a folder take on the disk, in blocks, not lengths; links are not followed. Not
 * thread-safe. */
uint64_t tw_folder_bytes(const char *dir);

#endif
