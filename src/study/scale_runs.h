/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SCALE_RUNS_H
#define TW_STUDY_SCALE_RUNS_H
/* The runs of a scaling study, and what they show. */
#include "scale.h"

#include "src/launch/run.h"

/* ---- scale_asked.c */
/* Takes counts, work and price from s->args; argv is given. TWIN_EINVAL: what is wrong with them.
 */
int tw_scale_understand(struct tw_scale *s, struct twin_error *err);

/*
 * scale_runs.c: makes the runs of s->args that its journal does not have, until all are made, time
 * is up or the person wants an end (s->out_of_time, s->interrupted). front, argv, home, counts,
 * work and journal are given. 0, or a TWIN_E* after the front was told why.
 */
int tw_scale_make_runs(struct tw_scale *s);
/* The whole study: its runs, what they were measured with, and what came out of them. front, argv,
 * home, journal and what tw_scale_understand takes are given. Returns as tw_scale_make_runs. */
int tw_scale_measure(struct tw_scale *s);

/* ---- scale_read.c */
/* Fills what the traces say. What they do not say stays 0, NaN or "". TWIN_ENOMEM. */
int tw_scale_read_run(const struct twin_run *r, uint64_t warmup, struct tw_scale_run *out,
                      struct twin_error *err);
/* Fills s->result: what came out of each number of workers, held against the smallest. */
void tw_scale_compare_results(struct tw_scale *s);

#endif
