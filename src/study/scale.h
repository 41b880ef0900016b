/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SCALE_H
#define TW_STUDY_SCALE_H
/*
 * A scaling study: how fast a job is, and what its work costs, by the number of workers.
 * scale_file.c has a study as JSON and back, scale_compute.c goes from the runs to the curve;
 * cmd/scale.c makes the runs, and the report draws the points.
 *
 * A study is what was measured, run by run; every figure is computed from that
 * (src/stats/scaling.h), so that whoever has the file has the curve.
 */
#include "front.h"
#include "remote.h"

#include "src/launch/run.h"
#include "src/stats/scaling.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_journal;

enum {
    TW_SCALE_COUNTS = 32,
    TW_SCALE_STEPS = 20000 /* kept of a run: of more, evenly spaced ones */
};

/* The options of twinrun scale; texts are borrowed, NULL when not given. warmup: steps at the
 * beginning of each run that are not timed. max_time: seconds, 0 for no limit. */
struct tw_scale_args {
    const char *counts, *work_per_step, *work_per_run, *price, *home, *csv, *html, *from, *package;
    enum twin_level level;
    uint64_t repeats, seed, warmup, steps, max_time;
    struct tw_remote_asked engine; /* who is to make the runs */
    bool fresh_dir, json, quiet, resume;
};

/* How much useful work a step (or, per_run, a run) does: `each` times {n} to this power, in the
 * person's unit. Power 0 is strong scaling (the work is the same whatever the workers), 1 is
 * weak. */
struct tw_scale_work {
    double each;
    unsigned power;
    bool per_run;
    char unit[32];
};

/* One run: what was measured of it. Texts and steps are owned. */
struct tw_scale_run {
    uint64_t round, workers; /* round 0: for the results, at level tensors, not timed */
    bool good;
    char *run, *state;       /* its folder's name; "ok", "exit 3", ... */
    char *node;              /* of an engine, where it was made; NULL: here */
    double wall_s, observer; /* observer: NaN when not known */
    uint64_t steps;          /* finished ones, of the rank that has least */
    uint64_t timed;          /* of these, behind the warm-up */
    double timed_s;          /* they took so long, on the slowest rank */
    /* seconds of each timed step, on that rank; TW_SCALE_STEPS at most */
    double *step;
    size_t step_count;
    uint64_t ranks; /* of the world that the job said it is; 0: unknown */
    /* digest of the last weights of rank 0; the last loss: "" when none was seen */
    char *weights, *loss;
};

/* a `why`, which the report knows */
#define TW_SCALE_NO_RUN "no run ended well"

/* The last state of two runs, held against one another. */
struct tw_scale_result {
    uint64_t workers;
    uint64_t runs, classes; /* with weights; how many sets of weights among them */
    bool compared;          /* held against the smallest number of workers */
    bool equal;             /* the weights are equal bit for bit */
    /* relative L2 distance of the weights, by sketches; NaN: not known */
    double distance;
    double loss, loss_distance; /* of the run of round 0; NaN: none seen */
    /* a loss of it was NaN or infinite in the step before this one; 0: none was */
    uint64_t broken_step;
    char *why; /* why it was not compared; NULL when it was; owned */
};

/* A study, from the options to the notes. Begin with zeros; tw_scale_free frees what is owned. */
struct tw_scale {
    const struct tw_front *front; /* that hears of the runs */
    struct tw_remote *on;         /* who makes them; NULL, or its engine NULL: this process */
    struct tw_scale_args args;
    char *const *argv; /* with {n} in it */
    char *command;     /* the same as one could type it, secrets masked */
    /* home: the folder of all runs. configuration: what the runs were made with, as a text. made:
     * on which day (UTC). Owned. */
    char *home, *configuration, *made;
    long cores; /* processors that this process may use */
    uint64_t count[TW_SCALE_COUNTS];
    size_t counts; /* how many; count[] ascends */
    struct tw_scale_work work;
    double price; /* of a worker-hour; 0: none given */
    struct tw_scale_run *run;
    size_t runs;
    struct tw_scale_result result[TW_SCALE_COUNTS];
    struct twin_scaling_point point[TW_SCALE_COUNTS];
    size_t measured; /* numbers of workers with runs in the curve */
    /* of each run of the curve, in the order of the runs; NaN elsewhere */
    double *z;
    char **note; /* what qualifies the figures, as sentences; owned */
    size_t notes;
    struct tw_journal *journal; /* in which runs are written down; NULL: none are made */
    bool interrupted, out_of_time;
};

/* ---- scale_file.c */
/* As the study's file and the journal have it. A new reference; NULL: no memory. */
json_t *tw_scale_run_json(const struct tw_scale_run *r);
int tw_scale_run_read(const json_t *j, struct tw_scale_run *out); /* TWIN_EFORMAT, TWIN_ENOMEM */
int tw_scale_add(struct tw_scale *s, struct tw_scale_run *r);     /* takes what r holds */
json_t *tw_scale_json(const struct tw_scale *s);
/* Reads a study from text into s, which is zeros. name: of the file, for messages. TWIN_EFORMAT
 * names the first key that is not as it should be. */
int tw_scale_parse(struct tw_scale *s, const char *data, size_t bytes, const char *name,
                   struct twin_error *err);
/* path: a study's file, or a package with one in it. 0, or a TWIN_E*. */
int tw_scale_load(struct tw_scale *s, const char *path, struct twin_error *err);
void tw_scale_run_free(struct tw_scale_run *r);
void tw_scale_free(struct tw_scale *s);
int tw_scale_is_study(const char *path,
                      struct twin_error *err); /* 0: it is one; or why it is not */

/* ---- scale_compute.c */
/* Useful work in a step, or in a run, with so many workers. */
double tw_scale_work_of(const struct tw_scale *s, uint64_t workers);
/* Is it one that the curve is made of? */
bool tw_scale_counts(const struct tw_scale *s, const struct tw_scale_run *r);
/* Can outliers be told: enough runs, and a MAD that is not 0? */
bool tw_scale_outliers_told(const struct twin_scaling_point *p);
double tw_scale_rate(const struct tw_scale *s, const struct tw_scale_run *r);
/*
 * Points and notes, from the runs. TWIN_EINVAL: a speed is no positive finite number; TWIN_ENOMEM.
 */
int tw_scale_compute(struct tw_scale *s, struct twin_error *err);
/* Timed runs ended well, and none of them says how long its steps took. */
bool tw_scale_steps_unseen(const struct tw_scale *s);
/* Are there runs enough of each number of workers for an interval worth having? */
bool tw_scale_enough(const struct tw_scale *s);
#endif
