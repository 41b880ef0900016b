/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SHRINK_H
#define TW_CMD_SHRINK_H
/* Inside of twinrun shrink: shrink.c (options, order of events), shrink_knobs.c (what can be made smaller, and the command that does
 * it), shrink_runs.c (does the divergence stay?), shrink_report.c (what is printed). */
#include "options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/compare.h>
#include <twin/run.h>

enum { TW_KNOBS_MAX = 16, TW_WAYS_MAX = 3, TW_RUNS_MAX = 128 /* classes of one setting */ };

enum tw_knob_kind { TW_KNOB_RANKS, TW_KNOB_ARGUMENT, TW_KNOB_ENV };

/* A number in the command or its environment that may be made smaller. */
struct tw_knob {
    enum tw_knob_kind kind;
    char *name;       /* "--batch-size", "--nproc-per-node", "NAME" */
    size_t word, skip; /* where the number stands: argv[word] + skip */
    uint64_t from, to; /* as it is, and the smallest value to try */
    char *why;        /* why it was not made smaller than it was; NULL: it was made as small as allowed */
};

/* One way of running the job. steps 0: to its end. */
struct tw_shrink_setting { uint64_t steps, value[TW_KNOBS_MAX]; };

/* What the runs of a setting showed. Comparisons are with its usual class of runs. */
struct tw_shrink_evidence {
    uint64_t trials, parted;        /* comparisons; those that parted as the whole job did (of the whole job: all) */
    uint32_t first_step, last_step; /* smallest and largest step at which these parted */
    struct twin_verdict *verdict[TW_WAYS_MAX]; /* of the first of them */
    char *other;                    /* another way in which a pair parted, or why there was no pair; NULL */
    char *unseen;                   /* why a pair without a difference proves little; NULL */
    bool can_zoom;                  /* single operations of this job can be seen */
    uint64_t steps;                 /* of the first run */
    double seconds;                 /* of the first run */
};
void tw_shrink_evidence_free(struct tw_shrink_evidence *e);

/* The divergence stays when `need` of at most `trials` comparisons part in the same way. */
struct tw_shrink_rule { uint64_t need, trials; };

enum tw_shrink_answer { TW_SHRINK_STAYS, TW_SHRINK_GONE, TW_SHRINK_FAILS /* the job, in this setting */, TW_SHRINK_UNKNOWN /* stopped before */ };

struct tw_shrink_args {
    const char *home;
    enum twin_level level;
    uint64_t runs, max_runs, max_time;
    struct tw_strings knobs, ignore;
    bool fresh_dir, no_zoom, json, quiet;
};

struct tw_shrink {
    struct tw_shrink_args args;
    char *const *argv;
    char *home, *spool;
    struct tw_knob knob[TW_KNOBS_MAX];
    size_t knob_count;
    uint64_t deadline_ns;              /* of --max-time; 0: none */
    uint64_t runs_used;
    uint64_t began_ns;
    double natural_s;                  /* wall time of the whole job; 0: not known yet */
    struct tw_shrink_setting whole, now;
    struct tw_shrink_evidence baseline, confirmed; /* of `whole`; of `now`, on fresh runs */
    char *steps_why;                   /* why there are not fewer steps; NULL */
    uint64_t steps_why_at;             /* the number of steps that it is about */
    uint32_t earliest_step;            /* at which any comparison has parted */
    char *given_back;                  /* the smallest setting that did not stand up to fresh runs, and how; NULL */
    bool interrupted, out_of_budget, reported;
};

/* ---- shrink_knobs.c */
/* Fills c->knob from --knob and from a launcher's number of processes. -1, or the exit code after a complaint. */
int tw_shrink_knobs(struct tw_shrink *c);
/* The command and the additions to its environment in a setting. The lists are malloc'ed by tw_malloc, _free gives them back. */
struct tw_shrink_command { char **argv, **env; };
int tw_shrink_command(const struct tw_shrink *c, const struct tw_shrink_setting *s, struct tw_shrink_command *out);
void tw_shrink_command_free(struct tw_shrink_command *m);
/* As one would type it: "env NAME=8 python train.py --batch-size 8". malloc'ed; NULL when out of memory. */
char *tw_shrink_shell(const struct tw_shrink *c, const struct tw_shrink_setting *s);

/* ---- shrink_runs.c */
/* Runs the job in setting s until the rule gives an answer. 0, or the exit code after trouble was said. */
int tw_shrink_trial(struct tw_shrink *c, const struct tw_shrink_setting *s, struct tw_shrink_rule rule, struct tw_shrink_evidence *e,
                    enum tw_shrink_answer *answer);
/* Reruns the first divergence of e at operation level and names its operation in e->verdict. */
void tw_shrink_name_operation(struct tw_shrink *c, const struct tw_shrink_setting *s, struct tw_shrink_evidence *e);
/* Is this one of the ways in which the whole job parted? Same layer, and the same operation, or where that is not known the same phase
 * and kind. */
bool tw_shrink_known(const struct tw_shrink *c, const struct twin_finding *f);

/* ---- shrink_report.c */
enum tw_shrink_outcome { TW_SHRUNK, TW_NOT_SHRUNK, TW_NO_DIVERGENCE, TW_SHRINK_INCONCLUSIVE };
/* Prints; returns the exit code. */
int tw_shrink_report(struct tw_shrink *c, enum tw_shrink_outcome outcome);
int tw_shrink_json_error(int code);
/* "step 17, backward gradient of w1 (aten::index_put)". malloc'ed. */
char *tw_shrink_finding(const struct twin_finding *f, bool with_step);

#endif
