/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_DIAGNOSIS_REPORT_H
#define TW_REPORT_DIAGNOSIS_REPORT_H
/* Two sets of runs that differ, in numbers, speed or both: from which source, and what addresses it
 * (twinrun report A B). The rules are those of diagnose.c. */
#include "paragraphs.h"
#include "significant.h"

#include <jansson.h>
#include <stdio.h>

/* Compares two sets of runs, measured by wall time, and writes what is found: as text to out, or,
 * where json is not NULL, into *json (the caller's; NULL: no memory). The values in set[].x are
 * replaced by seconds per step where all runs have them. The sets stay the caller's. 0, or a
 * TWIN_E*. */
int tw_diagnosis_report(struct tw_set set[2], FILE *out, json_t **json, struct twin_error *err);
/* How that text is shown (tw_put_styled). */
extern const struct tw_style tw_diagnosis_style;

#endif
