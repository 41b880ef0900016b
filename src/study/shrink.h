/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SHRINK_H
#define TW_STUDY_SHRINK_H
/*
 * What shrink was asked, and what it found: settings of a job, and the evidence that its divergence
 * stays in them.
 */
#include "base.h" /* struct tw_strings */
#include "front.h"

#include "src/compare/compare.h"
#include "src/launch/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TW_KNOBS_MAX = 16, TW_WAYS_MAX = 3, TW_RUNS_MAX = 128 /* classes of one setting */ };

enum tw_knob_kind { TW_KNOB_RANKS, TW_KNOB_ARGUMENT, TW_KNOB_ENV };

/* A number in the command or its environment that may be made smaller. */
struct tw_knob {
    enum tw_knob_kind kind;
    char *name;        /* "--batch-size", "--nproc-per-node", "NAME" */
    size_t word, skip; /* where the number stands: argv[word] + skip */
    uint64_t from, to; /* as it is, and the smallest value to try */
    /* why it was not made smaller than it was; NULL: it was made as small as allowed */
    char *why;
};

/* One way of running the job. steps 0: to its end. */
struct tw_shrink_setting {
    uint64_t steps, value[TW_KNOBS_MAX];
};

/* What the runs of a setting showed. Comparisons are with its usual class of runs. */
struct tw_shrink_evidence {
    /* comparisons; those that parted as the whole job did (of the whole job: all) */
    uint64_t trials, parted;
    uint32_t first_step, last_step;            /* smallest and largest step at which these parted */
    struct twin_verdict *verdict[TW_WAYS_MAX]; /* of the first of them */
    /* another way in which a pair parted, or why there was no pair; NULL */
    char *other;
    char *unseen;   /* why a pair without a difference proves little; NULL */
    bool can_zoom;  /* single operations of this job can be seen */
    uint64_t steps; /* of the first run */
    double seconds; /* of the first run */
};

/* The divergence stays when `need` of at most `trials` comparisons part in the same way. */
struct tw_shrink_rule {
    uint64_t need, trials;
};

enum tw_shrink_answer {
    TW_SHRINK_STAYS,
    TW_SHRINK_GONE,
    TW_SHRINK_FAILS /* the job, in this setting */,
    TW_SHRINK_UNKNOWN /* stopped before */
};

struct tw_shrink_args {
    const char *home;
    enum twin_level level;
    uint64_t runs, max_runs, max_time;
    struct tw_strings knobs, ignore;
    bool fresh_dir, no_zoom, json, quiet;
};

/* A search for a smaller job. Zeroed; front, args and argv are given, tw_shrink_fini in any case.
 */
struct tw_shrink {
    const struct tw_front *front;
    struct tw_shrink_args args;
    char *const *argv;
    char *home, *spool;
    struct tw_knob knob[TW_KNOBS_MAX];
    size_t knob_count;
    uint64_t deadline_ns; /* of --max-time; 0: none */
    uint64_t runs_used;
    uint64_t began_ns;
    double natural_s; /* wall time of the whole job; 0: not known yet */
    struct tw_shrink_setting whole, now;
    struct tw_shrink_evidence baseline, confirmed; /* of `whole`; of `now`, on fresh runs */
    char *steps_why;                               /* why there are not fewer steps; NULL */
    uint64_t steps_why_at;                         /* the number of steps that it is about */
    uint32_t earliest_step;                        /* at which any comparison has parted */
    /* the smallest setting that did not stand up to fresh runs, and how; NULL */
    char *given_back;
    bool interrupted, out_of_budget, reported;
};

void tw_shrink_fini(struct tw_shrink *c); /* deletes the file of the standard input, too */

enum tw_shrink_outcome { TW_SHRUNK, TW_NOT_SHRUNK, TW_NO_DIVERGENCE, TW_SHRINK_INCONCLUSIVE };

#endif
