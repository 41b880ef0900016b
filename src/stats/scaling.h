/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_SCALING_H
#define TWIN_SCALING_H
/*
 * A scaling study: how speed, and what a unit of work costs, hang on the number of workers. Room:
 * src/stats. Pure, thread-safe.
 *
 * The unit of observation is the run: steps of one run hang together, runs do not. An interval is
 * Student's on the logarithms of the runs' values below 20 runs, BCa of their mean from there on;
 * one run has none.
 */
#include "src/stats/stats.h"

/* The runs that were made with one number of workers. All values are finite and positive. */
struct twin_scaling_set {
    uint64_t workers; /* >= 1 */
    const double *rate;
    size_t runs; /* units of work a second, one for each run */
    /* of each run: seconds of each step that counts */
    const double *const *step;
    const size_t *steps;
};

enum twin_scaling_quantile {
    TWIN_SCALING_P50,
    TWIN_SCALING_P90,
    TWIN_SCALING_P99,
    TWIN_SCALING_QUANTILES
};
/* Steps that a run needs for a quantile to be one: 1, 10, 100. */
size_t twin_scaling_steps_needed(enum twin_scaling_quantile q);

struct twin_scaling_point {
    uint64_t workers;
    size_t runs;
    struct twin_estimate rate; /* geometric mean over runs */
    /* of the runs' rates, by order statistics: an interval from 6 runs on */
    struct twin_estimate median;
    /* rate over that of the smallest number of workers; Welch's interval on logarithms */
    struct twin_estimate speedup;
    struct twin_estimate efficiency; /* speedup over the ratio of workers */
    struct twin_estimate cost;       /* worker-seconds for a unit of work: workers / rate */
    /* seconds: each run's quantile of its steps, geometric mean over runs; NaN: too few steps */
    struct twin_estimate latency[TWIN_SCALING_QUANTILES];
    /* of the rates; mad 0: more than half are equal, outliers cannot be told */
    struct twin_mad mad;
};

/* One point for each set, in the same order; z (as many as all sets have runs, may be NULL): each
 * run's modified z score of its rate among its set's. A set without runs gives a point of NaN. The
 * base is the smallest number of workers that has runs; its own efficiency is 1, without an
 * interval. 0 < confidence < 1. TWIN_EINVAL (a value out of range), TWIN_ENOMEM. */
int twin_scaling(const struct twin_scaling_set *set, size_t sets, double confidence,
                 struct twin_scaling_point *out, double *z);
#endif
