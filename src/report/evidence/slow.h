/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SLOW_H
#define TW_REPORT_SLOW_H
/* Where a run was slow, and what moved with it. */
#include "front.h"

#include "src/launch/run.h"

#include <jansson.h>
#include <stdio.h>

/*
 * Reads the telemetry of a run and writes what is found: as text to out, or, where json is not
 * NULL, into *json (the caller's; NULL: no memory). What went wrong is said to front. 0, or a
 * TWIN_E*.
 */
int tw_slow_report(const struct twin_run *r, FILE *out, json_t **json,
                   const struct tw_front *front);

#endif
