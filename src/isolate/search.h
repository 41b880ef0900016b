/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_SEARCH_H
#define TWIN_SEARCH_H
/*
 * The search for a cause: which factors make two runs of a job diverge, by controlled experiment
 * with stated error rates. Room: src/isolate. The search is pure: it starts no process and reads no
 * file. It asks the caller for runs in a world (a setting for every candidate factor) and decides
 * by what they answer. docs/internals/isolate.md has the method and what was measured.
 *
 * Everything that is random in a search is in its runs. Their results go into an append-only log;
 * given the same candidates, plan and log the search takes the same way again, so an interrupted
 * search continues without repeating a run.
 *
 * A search belongs to one thread; two searches share nothing. Callbacks are called from the thread
 * that searches.
 */
#include "src/isolate/isolate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

#define TWIN_SEARCH_FACTORS 256 /* candidates at most */
#define TWIN_SEARCH_LAYERS 12

/* The twelve words of the requirement table, in their order ("data" .. "artifact"), and the place
 * of a word; -1 when unknown. */
const char *twin_search_layer_name(int layer);
int twin_search_layer(const char *name);

/* A set of candidates, by their place in the table. */
struct twin_search_set {
    uint64_t word[TWIN_SEARCH_FACTORS / 64];
};
bool twin_search_has(const struct twin_search_set *set, size_t candidate);

/* ---- what the caller knows beforehand */

/* One candidate factor. */
struct twin_candidate {
    const char *id, *layer; /* borrowed; layer is one of the twelve words */
    /* layers in which it is known to make runs diverge first, separated by blanks; NULL: as its
     * layer does */
    const char *shows;
    enum twin_factor_unit unit; /* how it acts: once per run or at every step */
    bool can_pin;               /* false: never pinned, so it can only be "outside the pins" */
    /* a pin takes values, all of which natural runs could take (seeds); else it is only freed
     * (races) */
    bool settable;
    /* pinned only when runs diverge under all other pins: it would hide causes from them (one
     * processor, races) */
    bool last_resort;
    /* its pin may not hold in a run, which is then told to have ended badly */
    bool may_not_hold;
    /* can be shaken: used instead of freeing when the natural rate is low */
    bool can_vary;
};

struct twin_search_options {
    double alpha, beta; /* error rates of the whole procedure; 0: .05 */
    uint32_t max_runs;  /* 0: 200 */
    double max_seconds; /* wall clock of the runs; 0: no limit */
    uint32_t parallel;  /* runs at the same time; 0: 1 */
    bool no_vary;       /* never shake, only free */
    /*
     * two arms: the pinned world is A, the natural one B, and every run is compared with A's first
     */
    bool arms;
    /* go on from "the main cause" until it is shown sufficient, or refuted */
    bool thorough;
    /* of the arrangements in which confirmations are made; 0: drawn by twin_search_plan */
    uint64_t seed;
};

/* Criteria, units and budget, fixed before the first run. Made by twin_search_plan, read-only
 * afterwards. */
struct twin_search_plan {
    double alpha, beta, p0, p1; /* "clean" is a rate of at most p0, tested against p1 */
    uint32_t baseline_parts;    /* the baseline ends after so many divergences, ... */
    uint32_t baseline_at_once;  /* ... when all comparisons diverge already after so many ... */
    uint32_t baseline_clean;    /* ... or after so many clean comparisons and none */
    uint32_t verdicts;          /* T: verdicts planned */
    /* clean comparisons under the pins after which they are called sufficient */
    uint32_t sufficient_clean;
    uint32_t max_runs;
    double max_seconds;
    uint32_t parallel;
    bool vary, arms, thorough;
    uint64_t seed; /* what the arrangements are drawn from; never 0 */
    /* arms: comparisons of A with itself, all of which have to be clean */
    uint32_t repeats;
    size_t candidates, can_pin;
    uint32_t least_runs;    /* no cause can be confirmed with fewer, however clear it is */
    uint32_t expected_runs; /* when runs diverge in nearly every comparison */
};

/* TWIN_EINVAL: a bad option, a bad candidate (layer, duplicate id, too many), or a budget below
 * least_runs: the message says what is needed. */
int twin_search_plan(const struct twin_candidate *candidate, size_t count,
                     const struct twin_search_options *options, struct twin_search_plan *out,
                     struct twin_error *err);
/* The plan in words, several lines; malloc'ed (free), NULL when there is no memory. */
char *twin_search_plan_text(const struct twin_search_plan *plan);
/* What it will cost, in one line; the same way. */
char *twin_search_plan_line(const struct twin_search_plan *plan);

/* ---- runs */

enum twin_search_purpose {
    TWIN_FOR_BASELINE, /* natural world */
    /* first run of a world, cached by the caller under its handle as long as the search lasts */
    TWIN_FOR_REFERENCE,
    TWIN_FOR_CONTRAST,  /* pinned world with some factors set otherwise, freed or shaken */
    TWIN_FOR_CONFIRM,   /* natural world with some factors pinned */
    TWIN_FOR_PIN_FAILS, /* looks for the pin under which the job fails */
    /* replays the operation at which `reference` and `other` diverge, here and on another core or
       device */
    TWIN_FOR_VOTE,
    /* natural world, between the pinned runs of a confirmation, or after the last of them */
    TWIN_FOR_FREE
};
const char *twin_search_purpose_name(enum twin_search_purpose p);

/* value of a pin (0: the usual one), seed of vary */
struct twin_search_setting {
    enum twin_factor_mode mode;
    uint64_t value;
};

struct twin_search_request {
    uint32_t number; /* from 1 on, never used twice */
    enum twin_search_purpose purpose;
    /* one per candidate; borrowed until the callback returns */
    const struct twin_search_setting *setting;
    uint64_t reference; /* handle of the run to compare with; 0: none */
    uint64_t other;     /* only with TWIN_FOR_VOTE */
    bool may_cut;       /* may end as soon as it has diverged */
};

enum twin_search_status { TWIN_ENDED_WELL, TWIN_ENDED_BADLY, TWIN_ENDED_STUCK, TWIN_NOT_ENDED };
enum twin_search_vote {
    TWIN_VOTE_UNKNOWN,
    TWIN_VOTE_OPERATION /* disagrees with itself anywhere */,
    TWIN_VOTE_HARDWARE
};

/* What a run showed. No pointers: may be stored as it is, or field by field. */
struct twin_search_result {
    /* a run that did not end well counts as diverged where its reference did */
    enum twin_search_status status;
    bool parted; /* from its reference */
    /* not diverged, but src/compare does not call them the same, either: too little was seen, or
     * what differs could not be judged */
    bool unseen;
    /* of these: another comparison will show no more (text or files differ, or nothing at all was
     * compared) */
    bool blind;
    bool unjudged;  /* of these: text or files do differ */
    int32_t layer;  /* of the first divergence; -1: unknown */
    uint32_t step;  /* of the first divergence */
    uint64_t steps; /* compared, the parting one included */
    /* diverged: handle of the first run of the same world that it does agree with; 0: none, or
     * unknown */
    uint64_t agrees;
    uint64_t handle; /* of this run, not 0; valid across interruptions */
    double seconds;
    /* candidates recorded to have had the same value as in the reference */
    struct twin_search_set same;
    /* with TWIN_FOR_VOTE, and of natural runs that diverged: what replays of the operation showed
     */
    enum twin_search_vote vote;
};

/* Makes n independent runs, at the same time if the caller can. 0, or an error that ends the
 * search; out[i] of runs that were not made has status TWIN_NOT_ENDED. */
typedef int twin_search_run(void *user, const struct twin_search_request *request, size_t n,
                            struct twin_search_result *out, struct twin_error *err);

struct twin_search_entry {
    uint32_t number;
    uint32_t purpose;
    uint64_t world; /* digest of the request */
    struct twin_search_result result;
};
/* Called for each run once it has ended, before anything is decided by it: persist it here. May be
 * NULL. */
typedef int twin_search_saved(void *user, const struct twin_search_entry *entry,
                              struct twin_error *err);

/* Append-only. The caller fills it with what was persisted (twin_search_log_add) or starts with an
 * empty one. */
struct twin_search_log {
    struct twin_search_entry *entry;
    size_t count, room;
};
int twin_search_log_add(struct twin_search_log *log, const struct twin_search_entry *entry,
                        struct twin_error *err);
void twin_search_log_free(struct twin_search_log *log);

/* ---- the outcome */

enum twin_search_outcome {
    /* each member of a set of pins is shown to matter; `sufficient` says whether they are all there
       is */
    TWIN_SEARCH_ISOLATED,
    TWIN_SEARCH_NO_DIVERGENCE, /* nothing diverged: `bound` says what that excludes */
    TWIN_SEARCH_OUTSIDE,       /* runs diverge although everything that can be pinned is */
    /* the same, and the vote says that one core or device answers otherwise */
    TWIN_SEARCH_HARDWARE,
    TWIN_SEARCH_NOT_ENOUGH, /* the budget ended first: `need` runs */
    /* the pinned world is clean, but no set of candidates brings the divergence back */
    TWIN_SEARCH_UNEXPLAINED,
    TWIN_SEARCH_INTERRUPTED, /* go on with the same log */
    TWIN_SEARCH_JOB_FAILS,   /* the job fails in every natural run; of two arms: A does */
    TWIN_SEARCH_UNSTEADY,    /* of two arms: A does not repeat itself */
    /* natural runs did not diverge, but are not the same for sure: too little was seen, or what
     * differs could not be judged (`unjudged`) */
    TWIN_SEARCH_UNSEEN,
    /* natural runs diverged at first and do so no longer: `last_parted` is the last run that did */
    TWIN_SEARCH_GONE
};
const char *twin_search_outcome_name(enum twin_search_outcome o);

/* in the unit of the report: comparisons, or steps compared */
struct twin_search_arm {
    uint64_t trials, parted;
};

struct twin_search_cause {
    size_t candidate;
    /* pins that stop the same divergence in the pinned world */
    struct twin_search_set alternatives;
    /* this one free, the rest of the set pinned, all else natural */
    struct twin_search_arm necessary;
    struct twin_search_arm sufficient; /* the set pinned, all else natural */
    double p_fisher;                   /* one-sided, of the counts; for information */
    /* share of the arrangements that look at least as convincing as the one that was drawn */
    double p;
    /* of `necessary`, those diverged that did not end well, where the natural runs do; else 0 */
    uint64_t failed;
    /* for all confirmations that a search may make (alpha spent by turns) */
    double p_adjusted;
};

/*
 * One row of the hypothesis table: in the pinned world, these were set otherwise, freed or shaken.
 */
struct twin_search_test {
    struct twin_search_set freed;
    uint64_t compared;
    bool parted;
    bool steady;   /* a run with them freed, none set, agreed with the one with every pin on */
    int64_t step;  /* at which it diverged; -1: it did not, or the job failed */
    int32_t layer; /* of that first difference; -1: unknown */
};

/* Do natural runs that diverge come in clusters? From the natural comparisons, in the order in
 * which they were made. */
struct twin_search_correlation {
    uint64_t comparisons;
    /* of so few changes between diverging and not, by chance (Wald and Wolfowitz's test of runs);
     * 1: cannot be told */
    double p;
    double rho;       /* between one comparison and the next; 0 when p does not show any */
    double effective; /* what one comparison counts: (1 - rho) / (1 + rho) */
};

/* One fresh run of the confirmation that named the causes. */
#define TWIN_TRIAL_AFTER UINT32_MAX
struct twin_search_trial {
    uint32_t number; /* of the run */
    /* from 0; TWIN_TRIAL_AFTER: after the last block, for what remains (thorough) */
    uint32_t block;
    uint32_t kind; /* 0: all members pinned; m: the m-th member free, the others pinned */
};
/* What the causes rest on: everything that a second program needs to work the numbers out again. */
struct twin_search_evidence {
    uint32_t confirmation; /* the how-manieth, from 1 */
    double level;          /* which p of each cause has reached */
    size_t members;
    size_t member[TWIN_SEARCH_FACTORS + 1]; /* member[1] ... are candidates */
    /* of each kind: handle of the run that its runs are compared with */
    uint64_t reference[TWIN_SEARCH_FACTORS + 1];
    uint32_t shown; /* the kind that has all causes pinned */
    struct twin_search_trial *trial;
    size_t trial_count;
};

struct twin_search_report {
    enum twin_search_outcome outcome;
    bool unjudged; /* not enough was seen: of natural runs text or files differ */
    /* isolated: with the causes pinned at most 20% of comparisons diverge (95%), as `bound` says */
    bool sufficient;
    /* isolated: fresh comparisons with all causes pinned, and those that diverged nevertheless */
    uint64_t left, left_parted;
    /* isolated, not sufficient: clean runs that would show them sufficient */
    uint32_t more;
    uint64_t seed;          /* as in the plan */
    uint32_t confirmations; /* made; the first had .58 alpha, the j-th .84 alpha / 2^j */
    char *arrangement; /* of the last one, in the order of the runs: F free, P pinned; with several
                          causes 1, 2, ... is the one that is free; a block ends with a blank. NULL:
                          none was made */
    uint32_t last_parted; /* number of the last natural run that diverged; 0: none */
    struct twin_search_correlation correlation;
    struct twin_search_cause *cause;
    size_t cause_count;                   /* only when isolated */
    struct twin_search_evidence evidence; /* the same */
    struct twin_search_test *test;
    size_t test_count;
    /* natural comparisons, those that left the modal class, steps compared in them */
    uint64_t baseline, parted, baseline_steps;
    double rate, rate_low, rate_high; /* per comparison, Clopper-Pearson 95% */
    double hazard, hazard_low;        /* per step; NaN when no step was compared */
    /* natural divergences by the layer of their first difference */
    uint64_t seen[TWIN_SEARCH_LAYERS];
    enum twin_factor_unit unit; /* unit of trial, and why */
    const char *unit_why;
    struct twin_search_set tested;   /* candidates that were in a contrast */
    struct twin_search_set dropped;  /* pins under which the job fails */
    struct twin_search_set left_out; /* recorded equal in all natural runs */
    struct twin_search_set suspects; /* shown to have influence, not (yet) confirmed */
    double bound; /* 95% upper bound of the divergence rate that is left, per comparison; NaN. With
                     correlated runs it is that of the effective number of comparisons */
    uint64_t pinned, pinned_parted; /* comparisons with every pin on */
    enum twin_search_vote vote;
    uint32_t runs, need; /* used; needed when not enough, else 0 */
    double seconds;
    /* as in the plan; then `baseline` compares B with A, `pinned` A with itself */
    bool arms;
    /* arms, isolated: A with the causes and their alternatives as in B */
    struct twin_search_arm applied;
    /* comparisons of A with itself that this is held against, none of which diverged */
    uint64_t repeats;
    double p_applied; /* as cause.p */
};

/* Searches. `saved` and `log` may be NULL. 0 with *out (twin_search_report_free) for every outcome,
 * interrupted included. TWIN_EINVAL: a callback broke its contract; TWIN_EFORMAT: the log belongs
 * to other candidates, or another plan; TWIN_ENOMEM; or what a callback returned (TWIN_EINTR counts
 * as interrupted). */
int twin_search(const struct twin_candidate *candidate, const struct twin_search_plan *plan,
                twin_search_run *run, twin_search_saved *saved, void *user,
                struct twin_search_log *log, struct twin_search_report **out,
                struct twin_error *err);
void twin_search_report_free(struct twin_search_report *r);
/* What was found in words, several lines; malloc'ed (free), NULL when there is no memory. */
char *twin_search_verdict_text(const struct twin_search_report *r,
                               const struct twin_candidate *candidate);
/* How a search ended that named no cause, as one sentence; "" when it did. The same way. */
char *twin_search_end_text(const struct twin_search_report *r);
/* "   only together with threads (alone: 4 of 4 runs diverged)": where several causes act, each was
 * shown to be needed, and none to be enough. alone: runs in which this one alone was pinned. ""
 * where it is the only one. The same way. */
char *twin_search_together_text(const struct twin_search_report *r,
                                const struct twin_candidate *candidate, size_t cause,
                                struct twin_search_arm alone);
/* The numbers behind it: the natural rate, what could not be pinned, suspects; whole: also what was
 * tried, how the fresh runs were arranged, unit and bound. The same way. */
char *twin_search_evidence_text(const struct twin_search_report *r,
                                const struct twin_candidate *candidate, bool whole);
#endif
