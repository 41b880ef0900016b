/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SIGNIFICANT_REPORT_H
#define TW_REPORT_SIGNIFICANT_REPORT_H
/* Whether the difference of two sets of values is real (src/study/significant.h), in words and as
 * JSON. */
#include "significant.h"
#include "significant_arms.h"

#include <jansson.h>
#include <stdio.h>

/* Both functions below need the configuration of each set. 0, or TWIN_ENOMEM: then nothing is
 * printed. */
int tw_significant_text(FILE *out, const struct tw_significant *s);
/* The caller's; NULL: no memory. Every digit counts: print it exactly. */
json_t *tw_significant_json(const struct tw_significant *s);
/* The answer in one line. malloc'ed; NULL: no memory. */
char *tw_significant_line(const struct tw_significant *s);

/*
 * significant_arms_report.c: an experiment with two commands, whose sets have their configuration:
 * three lines that say it, then each of them with all that it rests on. 0, or TWIN_ENOMEM.
 */
int tw_experiment_text(FILE *out, const struct tw_experiment *x);
/* The caller's; NULL: no memory. Every digit counts: print it exactly. */
json_t *tw_experiment_json(const struct tw_experiment *x);

#endif
