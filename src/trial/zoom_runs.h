/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_ZOOM_RUNS_H
#define TW_TRIAL_ZOOM_RUNS_H
/* Zoom: the suspect window once more at operation level, to name the operation and its line. */
#include "front.h"

#include "src/compare/compare.h"
#include "src/launch/run.h"

#include <stdbool.h>
#include <stdint.h>

struct tw_zoom {
    /* as the runs were made: argv, home, stdin, fresh_dir */
    const struct twin_launch_options *base_a, *base_b;
    uint64_t deadline_ns; /* monotonic; 0 = none */
    /* tw_zoom_expect(): how long a run takes, for the limit and the estimate; how long until its
     * first steps have ended, and each step; how many records a step has. 0 = not known, no limit
     */
    double run_s, start_s, step_s, step_records;
    /* what all reruns together may take; 0: from run_s */
    double limit_s;
    const struct tw_front *front;
    bool quiet; /* no line for each run, no estimate */
    /* what was found */
    /* cut: the limit was reached; what had been found until then counts */
    bool parted, interrupted, cut;
    uint64_t limit_ns;    /* monotonic; set from limit_s or run_s */
    bool one_process;     /* steps are counted by one process of the job */
    int32_t lacking_rank; /* made no step in the last rerun; -1: all ranks did */
    char **dirs;          /* run folders made; malloc'ed */
    size_t dir_count;
};

/* Can the operation of this verdict be named and replayed? *why (static) when not. */
bool tw_zoom_is_possible(const struct twin_verdict *v, const struct twin_run *a, const char **why);
/* The same, and were single operations not seen already? */
bool tw_zoom_is_useful(const struct twin_verdict *v, const struct twin_run *a, const char **why);

/* What a run of the job at its usual level tells of its reruns. start_s as in struct tw_trial. */
void tw_zoom_expect(struct tw_zoom *z, const struct twin_run *usual, double start_s);
/* Reruns pairs and merges what they show into v->first. Adds a note when the zoom showed nothing. 0
 * or a TWIN_E*. */
int tw_zoom_run(struct twin_verdict *v, struct tw_zoom *z, struct twin_error *err);
void tw_zoom_free(struct tw_zoom *z);

#endif
