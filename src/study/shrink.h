/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SHRINK_H
#define TW_STUDY_SHRINK_H
/*
 * What twinrun shrink was asked, and what it found: settings of a job, and the evidence that its
 * divergence stays in them. The room has the data only; cmd/shrink*.c makes the runs and decides,
 * the report shows what came of it.
 */
#include "base.h" /* struct tw_strings */
#include "front.h"
#include "remote.h"

#include "src/compare/compare.h"
#include "src/launch/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TW_KNOBS_MAX = 16, TW_WAYS_MAX = 3, TW_RUNS_MAX = 128 /* classes of one setting */ };

/* What a knob turns: the number of ranks of a launcher, a number in an argument, or one in a
 * variable. */
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

/* One way of running the job: how many steps (0: to its end), and the value of each knob. */
struct tw_shrink_setting {
    uint64_t steps, value[TW_KNOBS_MAX];
};

/* What the runs of a setting showed. The runs are sorted into classes of runs that agree;
 * comparisons are with the usual class. Verdicts and texts are owned. */
struct tw_shrink_evidence {
    /* comparisons; those that diverged as the whole job did (of the whole job: all) */
    uint64_t trials, parted;
    uint32_t first_step, last_step; /* smallest and largest step at which these diverged */
    /* verdicts of the first of them; NULL behind the last */
    struct twin_verdict *verdict[TW_WAYS_MAX];
    /* another way in which a pair diverged, or why there was no pair; NULL */
    char *other;
    char *unseen;   /* why a pair without a difference proves little; NULL */
    bool can_zoom;  /* single operations of this job can be seen */
    uint64_t steps; /* of the first run */
    double seconds; /* of the first run */
};

/* The divergence stays when `need` of at most `trials` comparisons diverge in the same way. */
struct tw_shrink_rule {
    uint64_t need, trials;
};

/* Does the divergence stay in a setting? */
enum tw_shrink_answer {
    TW_SHRINK_STAYS,
    TW_SHRINK_GONE,
    TW_SHRINK_FAILS /* the job does not end well in this setting */,
    TW_SHRINK_UNKNOWN /* stopped before it was known */
};

/* The options of twinrun shrink. runs: of the whole job, to see that it diverges; max_runs: of all
 * settings together; max_time: seconds, 0 for no limit. */
struct tw_shrink_args {
    const char *home;
    enum twin_level level;
    uint64_t runs, max_runs, max_time;
    struct tw_remote_asked engine; /* who is to make the runs */
    struct tw_strings knobs, ignore;
    bool fresh_dir, no_zoom, json, quiet;
};

/* One call of twinrun shrink: the job, its knobs, the setting that is the smallest so far (`now`),
 * and the evidence for the first and the last of them. Zeroed by the caller, who gives front, args
 * and argv and calls tw_shrink_fini in any case. */
struct tw_shrink {
    const struct tw_front *front;
    struct tw_remote *on; /* who makes the runs; NULL, or its engine NULL: this process */
    struct tw_shrink_args args;
    char *const *argv;
    char *home, *spool;
    struct tw_knob knob[TW_KNOBS_MAX];
    size_t knob_count;
    uint64_t deadline_ns; /* the end of --max-time, monotonic; 0: none */
    uint64_t runs_used;
    uint64_t began_ns;
    double natural_s; /* wall time of the whole job; 0: not known yet */
    struct tw_shrink_setting whole, now;
    /* what runs of `whole` showed, and fresh runs of `now` */
    struct tw_shrink_evidence baseline, confirmed;
    char *steps_why;       /* why there are not fewer steps; NULL */
    uint64_t steps_why_at; /* the number of steps that it is about */
    /* the first step at which any comparison has diverged */
    uint32_t earliest_step;
    /* the smallest setting that did not stand up to fresh runs, and how; NULL */
    char *given_back;
    bool interrupted, out_of_budget, reported;
};

/* Deletes the file of the standard input, too. */
void tw_shrink_fini(struct tw_shrink *c);

/* How the whole ends: smaller; as it was; the job did not diverge; or not enough was seen to
 * say. */
enum tw_shrink_outcome { TW_SHRUNK, TW_NOT_SHRUNK, TW_NO_DIVERGENCE, TW_SHRINK_INCONCLUSIVE };

#endif
