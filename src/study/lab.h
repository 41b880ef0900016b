/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_LAB_H
#define TW_STUDY_LAB_H
/*
 * The lab: how far do runs of a job wander here, what do the switches buy, and what do they cost?
 * lab_runs.c makes a run with all that is measured of it; the steps are lab_noise.c, lab_pins.c,
 * lab_cost.c with lab_ops.c, and lab_config.c. A step leaves numbers as JSON, lines for its page
 * and what it comes to (lab_said.c); how that is laid out, src/report/study says.
 */
#include "base.h"
#include "front.h"
#include "remote.h"
#include "verified_data.h"

#include "src/isolate/isolate.h"
#include "src/launch/run.h"
#include "src/provenance/ends.h"
#include "src/snapshot/content.h"
#include "src/stats/stats.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bars of the first two steps, fixed before the first run. */
#define TW_LAB_NOISE 1e-6     /* a gap above it is noise that matters */
#define TW_LAB_SAME_LOSS 1e-6 /* same-seed runs under pins: below */
#define TW_LAB_SAME_L2 1e-5
#define TW_LAB_CONFIDENCE 0.95

struct tw_lab_args {
    const char *home, *pin, *factor_file, *weights, *python, *device, *steps, *html;
    uint64_t runs, pairs;
    struct tw_remote_asked engine; /* who is to make the runs */
    struct tw_strings data;
    bool torch, fresh_dir, json, quiet;
};

/* A set of pins and what it means for a launch. */
struct tw_lab_world {
    struct twin_world world;
    struct twin_world_plan plan;
    char *left_out;
};

struct tw_lab_run {
    struct twin_run *run;
    struct twin_ends ends;
    struct twin_content weights; /* of the file that the job wrote */
    bool has_weights;
    char *no_weights; /* why not; NULL */
    /* share of all processors that others used meanwhile; NaN: not known */
    double others;
};

enum tw_lab_result { TW_LAB_NOT_DONE, TW_LAB_PASS, TW_LAB_QUIET, TW_LAB_FAIL, TW_LAB_OPEN };
const char *tw_lab_result_name(enum tw_lab_result r); /* not-done|pass|quiet|fail|inconclusive */

enum tw_lab_which {
    TW_LAB_STEP_NOISE,
    TW_LAB_STEP_PINS,
    TW_LAB_STEP_COST,
    TW_LAB_STEP_CONFIG,
    TW_LAB_STEPS
};

/* A line of a page; both owned. label "": it goes on with what the line before is about. */
struct tw_lab_said {
    char *label, *text;
};

/* One page: what was asked, what came out. */
struct tw_lab_step {
    const char *id, *title, *question;
    bool wanted;
    enum tw_lab_result result;
    struct tw_lab_said *said;
    size_t said_count;
    char *why;     /* of the result, in one line */
    char *command; /* that one could type */
    json_t *json;  /* what was measured */
};

/* What a run has for an auditor, area by area: appends objects with "name", "holds" and "missing"
 * (a list of texts; none: the area passes) to the list. The rooms that know are above this one. */
typedef int tw_lab_audit(const struct twin_run *run, json_t *areas, struct twin_error *err);

struct tw_lab {
    const struct tw_front *front;
    struct tw_remote *on; /* who makes the runs; NULL, or its engine NULL: this process */
    tw_lab_audit *audit;
    struct tw_lab_args args;
    const char *name;    /* "the embedded C trainer" */
    const char *wanders; /* why it is known to wander; NULL: a job of the user's */
    char **argv;
    size_t argc;
    char *home, *folder; /* folder: of this lab, below <home>/labs */
    char *spool;         /* every run reads the same stdin; NULL: a terminal */
    /* weights: the file that the job writes them to; NULL: what its runs show */
    char *factor_file, *weights;
    struct tw_data data; /* verified before the first run */
    struct twin_factors factors;
    struct tw_lab_world natural; /* what --pin holds still in every run; else empty */
    /* of the second step, as --pin takes them, without those under which the job fails; NULL: not
     * made */
    char *pins;
    /* folder of the first run as the job is: nothing that the lab's own runs wrote was there yet */
    char *first;
    /* of the first run as the job is: every figure carries what it was measured with */
    char *configuration;
    struct tw_given given;    /* runs of a set that an engine has already */
    char *timed_node;         /* of an engine, on which all timed runs are made; NULL: any; owned */
    uint64_t made;            /* runs so far */
    double expected_s;        /* of the longest natural run; 0: none yet */
    bool interrupted, failed; /* failed: the job does, as it is */
    struct tw_lab_step step[TW_LAB_STEPS];
};

/* ---- lab_runs.c */
/* list: as --pin; NULL: nothing. 0, or the error. */
int tw_lab_world(struct tw_lab *lab, const char *list, struct tw_lab_world *out,
                 struct twin_error *err);
void tw_lab_world_free(struct tw_lab_world *w);
/* Makes one run and reads what it shows. An error is ours; how the job ended is in out->run. Sets
 * lab->interrupted. */
int tw_lab_run(struct tw_lab *lab, const struct tw_lab_world *w, enum twin_level level,
               const char *title, struct tw_lab_run *out, struct twin_error *err);
void tw_lab_run_free(struct tw_lab_run *r);
/* How far the ends of two runs lie apart: from files of weights where both have one, else
 * estimated. */
int tw_lab_gap(const struct tw_lab_run *a, const struct tw_lab_run *b, struct twin_gap *out,
               struct twin_error *err);

/* ---- the steps. 0, or an error of ours: then the lab ends. */
/* How a job that draws other numbers in each run is seeded, by what it computes with
 * (twin_ends.uses); malloc'ed, NULL: no memory. */
char *tw_lab_seed_advice(unsigned uses);
int tw_lab_noise(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err);
int tw_lab_pins(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err);
int tw_lab_cost(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err);
int tw_lab_config(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err);
/* ---- lab_ops.c: part of the cost step */
int tw_lab_ops(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err);

/* Several runs of one world, kept until they have been compared. */
struct tw_lab_set {
    struct tw_lab_run *run;
    size_t count;
};
/* Until `wanted` runs or the first that did not end well, which is then the last one. */
int tw_lab_set_make(struct tw_lab *lab, const struct tw_lab_world *w, size_t wanted,
                    const char *word, struct tw_lab_set *out, struct twin_error *err);
void tw_lab_set_free(struct tw_lab_set *set);
/* Of n values of independent pairs: geometric mean with Student's interval on logarithms; with
 * zeros among them the mean, whose interval is cut at 0. */
struct twin_estimate tw_lab_interval(const double *x, size_t n);
/* Number of different results among the runs: by weights bit for bit, or by all recorded weights
 * and losses. */
size_t tw_lab_classes(const struct tw_lab_set *set);
json_t *tw_lab_runs_json(const struct tw_lab_set *set);
json_t *tw_lab_estimate_json(const struct twin_estimate *e, size_t n);
json_t *tw_lab_gap_json(size_t a, size_t b, const struct twin_gap *g);

/* ---- lab_steps.c */
/* Marks the steps that args.steps names. TWIN_EINVAL: one is unknown, which the message says. */
int tw_lab_choose_steps(struct tw_lab *lab, struct twin_error *err);
/* <home>/labs/N, made, with the next free N. malloc'ed; NULL: err says why. */
char *tw_lab_new_folder(const char *home, struct twin_error *err);
/* Makes a step, with the command that shows the same again. What the person interrupts is not
 * done. 0, or an error of ours: then the lab ends. */
int tw_lab_make_step(struct tw_lab *lab, enum tw_lab_which which, struct twin_error *err);
void tw_lab_fini(struct tw_lab *lab);

/* ---- lab_jobs.c: what is run */
/* The words of a command, up to NULL, into lab->argv. TWIN_ENOMEM. */
int tw_lab_copy_words(struct tw_lab *lab, const char *const *words, struct twin_error *err);
/* One of the two jobs that come with twinrun, by args.torch: sets name, wanders, argv, weights, and
 * factor_file where the job has one. workloads: the folder that holds them; NULL: there is none.
 * *data (tw_free, also after an error; NULL): the folder of their data. TWIN_ENOENT: the message
 * says what is not there; TWIN_ENOMEM. */
int tw_lab_own_job(struct tw_lab *lab, const char *workloads, char **data, struct twin_error *err);
/* Weighs the example's data now, so that each run says which they were; the snapshot lies in
 * lab->folder. *given (tw_free, also after an error; NULL): as --data takes it. */
int tw_lab_weigh_data(const struct tw_lab *lab, const char *data, char **given,
                      struct twin_error *err);

/* ---- lab_said.c */
/* Adds a line to the page. Without memory it is left out. */
void tw_lab_line(struct tw_lab_step *s, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What the step comes to, and why; the last word counts. */
void tw_lab_decide(struct tw_lab_step *s, enum tw_lab_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "0.021, 95% interval 0.005 to 0.08 (5 pairs)" */
char *tw_lab_estimate_text(const struct twin_estimate *e, size_t n, char out[120]);
void tw_lab_step_free(struct tw_lab_step *s);

/* What the lab as a whole came to. */
enum tw_lab_outcome {
    TW_LAB_PASSED,
    TW_LAB_FAILED,     /* a step did */
    TW_LAB_UNSURE,     /* a step could not say */
    TW_LAB_JOB_FAILED, /* as it is */
    TW_LAB_INTERRUPTED,
};
enum tw_lab_outcome tw_lab_outcome(const struct tw_lab *lab);

#endif
