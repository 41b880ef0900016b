/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SHOW_RUN_H
#define TW_REPORT_SHOW_RUN_H
/* One run as twinrun show has it: the command and how it ended, its traces, processes, files and
 * notes. */
#include "src/launch/run.h"
#include "src/trace/trace.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* One trace of the run, opened, or with the reason why not. */
struct tw_shown_trace {
    struct twin_trace *trace; /* NULL: err says why */
    struct twin_error err;
    struct twin_error fault; /* what twin_trace_verify found; code 0: intact, or not looked at */
};

/* What is shown in full; the short form lists what a reader must know about. */
struct tw_show_asked {
    bool verified; /* the traces' faults are known */
    bool processes, files, notes;
};

/* Opens the run's traces, and verifies them where that is asked for. The caller's, for
 * tw_shown_close; NULL: no memory. */
struct tw_shown_trace *tw_shown_open(const struct twin_run *r, bool verify);
void tw_shown_close(struct tw_shown_trace *traces, const struct twin_run *r);

/* traces: one for each of the run's. */
void tw_show_run_text(FILE *out, const struct twin_run *r, const struct tw_shown_trace *traces,
                      const struct tw_show_asked *asked);
/* All of it, as an object of schema twinrun.show/1. The caller's; NULL: no memory. */
json_t *tw_show_run_json(const struct twin_run *r, const struct tw_shown_trace *traces,
                         bool verified);

#endif
