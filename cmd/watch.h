/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_WATCH_H
#define TW_CMD_WATCH_H
/* What check and zoom do while a run goes on: progress, the time limit, and ending a run that has parted for long. */
#include <stdbool.h>
#include <stdint.h>
#include <twin/compare.h>
#include <twin/run.h>

struct tw_watch {
    const char *title;                /* for the progress line */
    double expected_s;                /* of the first run; 0 = not known */
    uint64_t expected_steps;
    const struct twin_run *reference; /* compared with while the run goes on; NULL = not */
    struct twin_compare_options how;  /* of that comparison */
    uint64_t deadline_ns;             /* monotonic; 0 = none */
    /* found out */
    bool parted;
    uint32_t parted_step;
    bool stopped_parted, stopped_time;
    uint64_t last_step;
};

/* on_tick of struct twin_launch_options; user is a struct tw_watch. */
int tw_watch_tick(void *user, const struct twin_progress *p);

/* The line that a finished run leaves on stderr. state: "ok", "parted", ... */
void tw_run_line(const char *title, const struct twin_run *r, const char *state);

#endif
