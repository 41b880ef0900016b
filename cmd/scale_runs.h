/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SCALE_RUNS_H
#define TW_CMD_SCALE_RUNS_H
/* The runs of a scaling study, and what they show. */
#include "scale.h"

/* ---- scale_runs.c: -1, or the exit code after a complaint */
int tw_scale_make_runs(struct tw_scale *s);

/* ---- scale_read.c */
/* Fills what the traces say. What they do not say stays 0, NaN or "". TWIN_ENOMEM. */
int tw_scale_read_run(const struct twin_run *r, uint64_t warmup, struct tw_scale_run *out,
                      struct twin_error *err);
void tw_scale_compare_results(struct tw_scale *s);

#endif
