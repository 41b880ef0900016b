/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_OPS_REPORT_H
#define TW_REPORT_OPS_REPORT_H
/* What the measurements of operations mean, in words and as JSON (twinrun ops). The rows come from
 * the Python half of the command; src/report/study/ops_report.c judges each of them. */
#include "ops.h"

#include <stdio.h>

/* For people: each device with its operations, the unsafe ones first. */
void tw_ops_text(FILE *out, const struct tw_ops_result *r);
/* One object, schema twinrun.ops/1. The caller's; NULL: no memory. */
json_t *tw_ops_json(const struct tw_ops_result *r);

#endif
