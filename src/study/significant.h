/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SIGNIFICANT_H
#define TW_STUDY_SIGNIFICANT_H
/*
 * Two sets of values, what is asked of them (significant_asked.h), and what was found.
 * significant_sets.h collects the values, twin_significance (src/stats) answers, the report words
 * it.
 */
#include "src/launch/run.h"
#include "src/stats/significant.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is taken of a run for its value; or values that stand in a file. */
enum tw_metric {
    TW_METRIC_IN_FILE,
    TW_METRIC_WALL,
    TW_METRIC_STEP,
    TW_METRIC_LOSS,
    TW_METRIC_PRINTED
};

/* Where a run's value comes from. */
struct tw_measure {
    enum tw_metric metric;
    const char *text; /* as given: "wall", "step", "loss", "printed:REGEX" */
};

/* One of the two sets. All but the operand is owned. */
struct tw_set {
    const char *operand;
    double *x;
    size_t n;
    struct twin_run **run; /* one for each value; NULL: a file */
    char *configuration;   /* of the first run, or that it is not known */
    char *imported;        /* what is known of values that `twinrun import` wrote; NULL: others */
    char **left_out;       /* "RUN: why" */
    size_t left_out_count;
};

/* One call of twinrun significant: the values of A and B, the question, and the answer. */
struct tw_significant {
    struct tw_set set[2];
    struct tw_measure measure;
    struct twin_asked asked;
    const char *floor_file;
    /* as twinrun spread wrote it in floor_file (NULL: a number was given): a share of the sum */
    double floor_relative;
    struct twin_significance found;
};

#endif
