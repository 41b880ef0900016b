/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_ISOLATION_H
#define TWIN_ISOLATION_H
/*
 * What a search for a cause found, in words and numbers: what its HTML page is made from. Room:
 * src/report. All strings are borrowed, may hold any bytes, and are never NULL where nothing else
 * is said.
 */
#include "src/compare/compare.h"
#include "src/report/page.h"
#include "src/report/report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* Time with the pin over time without it; NaN where it is not known. */
struct twin_isolation_cost {
    double ratio, low, high, confidence; /* low, high: NaN from too few runs for any interval */
    size_t with, without;                /* runs */
    bool shared;                         /* not known because runs shared the machine */
};

struct twin_isolation_cause {
    const char *factor, *layer, *title; /* title: what varies */
    const char *pin, *how, *fix;        /* the knob, who turns it, what to change in the job */
    const char *alternatives;           /* other pins that did the same; "" */
    uint64_t free_trials, free_parted, pinned_trials, pinned_parted;
    double p, p_adjusted;
    /* who in the job asks for it: "train.py:12, 3 calls: seed = os.urandom(4)" */
    const char *const *consumer;
    size_t consumer_count;
    struct twin_isolation_cost cost;
};

/* One row of a hypothesis table: with these factors free, or pinned, do runs part? */
struct twin_isolation_contrast {
    const char *factors;
    uint64_t compared;
    bool parted;
    int64_t step;      /* at which the runs parted; -1: they did not, or it is not known */
    const char *layer; /* of that first difference; "" */
};

struct twin_isolation_run {
    uint32_t number;
    const char *purpose, *pinned; /* pinned: ids, "all", "none" */
    const char *ended;            /* "well", "badly", "stood still" */
    bool natural, parted;
    int64_t step;      /* -1 */
    const char *layer; /* "" */
    uint64_t steps;    /* compared */
    double seconds;
};

struct twin_isolation {
    enum twin_mood mood;
    const char *outcome, *sentence; /* "isolated"; one sentence that says it */
    const char *command, *folder;
    const char *next, *then; /* commands, or "": the one to go on with, and one behind it */
    const struct twin_finding *first; /* of the natural runs; NULL: none */
    /* a natural run whose folder is there: it tells whether a source file is still what ran */
    const struct twin_run *source;
    uint32_t source_number;
    struct twin_isolation_cause *cause;
    size_t cause_count;
    /* natural runs with only these pinned */
    struct twin_isolation_contrast *pins;
    size_t pins_count;
    struct twin_isolation_contrast *contrast;
    size_t contrast_count; /* all pinned but these */
    struct twin_isolation_run *run;
    size_t run_count;
    struct twin_class_tree tree; /* of the natural runs: indices into `natural` */
    uint32_t *natural;
    size_t natural_count;             /* their numbers */
    const struct twin_curves *curves; /* of the natural runs; NULL: none */
    /* of the first natural run and the first that parted from it: numbers; NULL: none */
    const struct twin_field *field;
    uint32_t field_runs[2];
    /* natural runs that were not sorted, because there are so many or their folders are gone */
    size_t natural_left_out;
    const struct twin_hint *hint;
    size_t hint_count;
    const char *const *note;
    size_t note_count;
    /* inconclusive: what was not seen, as check says it */
    const char *const *unseen;
    size_t unseen_count;
    /* pins under which the job fails, or that do not hold; factors whose influence was shown, not
     * confirmed; "" */
    const char *dropped, *suspects;
    double alpha, beta;
    const char *plan, *unit, *unit_why;
    uint64_t baseline, baseline_parted;
    double rate_low, rate_high, bound; /* bound: NaN */
    /* with causes: they were shown to be all there is, up to the bound */
    bool sufficient;
    uint64_t left, left_parted; /* comparisons with all causes pinned, and those that parted */
    uint32_t more;              /* clean runs that would show them sufficient */
    const char *arrangement;    /* of the last confirmation, "FPPF ..."; "" */
    uint64_t seed;
    uint32_t runs;
    double seconds;
    /* runs that have a page beside this one, by their numbers; NULL: none has */
    const uint32_t *linked;
    size_t linked_count;
    bool arms; /* of two commands: pinned is as in A, free as in B */
};

/* "runs 1,3 agree; run 2 parts at step 5; run 4 parts from run 2 at step 9". malloc'ed (tw_free);
 * NULL: no memory. "" without runs. */
char *twin_isolation_classes(const struct twin_isolation *x);
/* "1.03 times as long (95% interval 0.97 to 1.1; 5 runs with the pin, 4 without)", or why it is not
 * known. malloc'ed. */
char *twin_isolation_cost_text(const struct twin_isolation_cost *c);

/* The whole as one HTML page that needs nothing but itself: no network, no script. malloc'ed. 0, or
 * TWIN_ENOMEM. */
int twin_isolation_html(const struct twin_isolation *x, char **out, struct twin_error *err);
#endif
