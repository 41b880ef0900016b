/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SLOW_H
#define TW_REPORT_SLOW_H
/* Where a run was slow, and which counters moved with it (twinrun report RUN). */
#include "front.h"
#include "paragraphs.h"

#include "src/launch/run.h"

#include <jansson.h>
#include <stdio.h>

/* Reads the telemetry of a run and writes what is found: as text to out, or, where json is not
 * NULL, into *json (the caller's; NULL: no memory). What went wrong is said to front. 0, or a
 * TWIN_E*; TWIN_ENOENT: the run has no telemetry. */
int tw_slow_report(const struct twin_run *r, FILE *out, json_t **json,
                   const struct tw_front *front);
/* How that text is shown (tw_put_styled). */
extern const struct tw_style tw_slow_style;

#endif
