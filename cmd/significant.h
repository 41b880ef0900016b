/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SIGNIFICANT_H
#define TW_CMD_SIGNIFICANT_H
/* twinrun significant: where the two sets of values come from (significant_sets.c), and how the answer is put (significant_report.c). */
#include <stdbool.h>
#include <stddef.h>
#include <twin/run.h>
#include <twin/significant.h>

enum tw_metric { TW_METRIC_IN_FILE, TW_METRIC_WALL, TW_METRIC_LOSS, TW_METRIC_PRINTED };

/* Where a run's value comes from. */
struct tw_measure { enum tw_metric metric; const char *text; /* as given: "wall", "loss", "printed:REGEX" */ };
int tw_measure_parse(const char *s, struct tw_measure *out); /* 0, or the exit code after a complaint */

struct tw_set {
    const char *operand;
    double *x;
    size_t n;
    struct twin_run **run;    /* one for each value; NULL: a file */
    char *configuration;      /* of the first run, or that it is not known: significant_report.c */
    char **left_out;          /* "RUN: why" */
    size_t left_out_count;
};
/* A file of numbers (text, JSON list, FILE.csv:COLUMN), runs by name with commas between, or label:NAME. 0, or the exit code after a complaint. */
int tw_set_read(const char *operand, const char *home, const struct tw_measure *m, struct tw_set *out);
void tw_set_free(struct tw_set *s);

struct tw_significant {
    struct tw_set set[2];
    struct tw_measure measure;
    struct twin_asked asked;
    struct twin_significance found;
};
/* Each prints, and fills the sets' configuration. 0, or the exit code after a complaint. */
int tw_significant_text(struct tw_significant *s);
int tw_significant_json(struct tw_significant *s);
#endif
