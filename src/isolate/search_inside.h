/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SEARCH_H
#define TW_SEARCH_H
/*
 * Inside of the search for a cause (src/isolate/search.h). search.c drives; runs.c asks for runs
 * and keeps the log; search_plan.c has the criteria and the words; baseline.c looks at the natural
 * world, alone.c at natural runs with a few pins, contrast.c at the pinned world, confirm.c and
 * confirm_arms.c at fresh runs, in the arrangements of blocks.c; persist.c tells from the sequence
 * of natural runs whether they still diverge. No two of these files call each other.
 *
 * Functions that make runs return 0, a negative TWIN_E*, or one of the positive codes below, which
 * the driver turns into an outcome.
 *
 * "To part" is the older word for "to diverge" in the names here.
 */
#include "base.h"

#include "src/isolate/search.h"
#include "src/stats/stats.h"

/* classes of runs that an arm tells apart; a further one is taken to be new each time */
#define TW_CLASSES 64
/* The natural world with some pins, and what is known about it. */
struct tw_arm {
    struct twin_search_set pinned;
    /* handle of the run that the arm's runs are compared with; 0: not made yet */
    uint64_t reference;
    /* Comparisons; those whose run is not in the modal class, so that an odd reference does not
     * look like a high rate; steps compared in all of them. */
    uint64_t compared, parted, steps;
    /* The reference's own class comes first. `before`: runs that were there before the arm was made
     * fresh. */
    struct {
        uint64_t first, runs, before;
    } class[TW_CLASSES];
    size_t classes;
    /* only runs made since count, and the reference is none of them */
    bool fresh;
    /* of those that diverged: replays showed the operation disagreeing with itself */
    uint64_t disagreeing;
    /* of those that did not diverge: not the same for sure; more of them would say no more; text or
     * files differ */
    uint64_t unseen, blind, unjudged;
    uint64_t failed; /* of those that diverged: ended badly, or stood still */
    bool fails;      /* the job never ends well in this world */
};
/* A natural comparison: the class of its run in the baseline's arm (-1: none was left; of two arms
 * -1: diverged from A), and the run's number. */
struct tw_trace {
    int class;
    uint32_t number;
};
/* The reference run of contrasts, which are in the pinned world with these factors freed. */
struct tw_reference {
    struct twin_search_set freed;
    uint64_t handle;
};

/* Causes that were shown to matter, kept while the search looks for what else made runs diverge.
 * The fields are those of the report (struct twin_search_report), moved here; causes, evidence and
 * arrangement are owned. */
struct tw_main_cause {
    struct twin_search_cause *cause;
    size_t count;
    struct twin_search_evidence evidence;
    uint64_t left, left_parted;
    enum twin_factor_unit unit;
    const char *unit_why;
    char *arrangement;
    uint32_t confirmations;
    struct twin_search_arm applied; /* of two arms: what confirm_arms.c found */
    uint64_t repeats;
    double p_applied;
};

/* One search, from the call of twin_search to its return. */
struct tw_search {
    /* of the caller, borrowed; `user` is handed to its callbacks */
    const struct twin_candidate *candidate;
    const struct twin_search_plan *plan;
    twin_search_run *run;
    twin_search_saved *saved;
    void *user;
    /* log is the caller's, or own_log */
    struct twin_search_log *log, own_log;
    struct twin_search_report *report;
    struct tw_arm *arm; /* arm[0] is the baseline; a new arm may move them all */
    size_t arm_count;
    /* of pinned worlds; [0] is W0's, or the first run of A */
    struct tw_reference *reference;
    size_t reference_count;
    /* Rows of the batch that is asked for: `parallel` rows with a setting for each candidate. */
    struct twin_search_setting *setting;
    struct twin_search_request *request;
    struct twin_search_result *result;
    /* last value given to a settable factor or a seed */
    uint64_t value;
    /* a pair of runs that diverged, for the vote */
    uint64_t parted_a, parted_b;
    uint32_t sets_tested; /* sets taken to fresh natural runs, that is confirmations */
    /* natural comparisons, in the order of the runs */
    struct tw_trace *trace;
    size_t trace_length;
    /* shown to matter before something else was seen to diverge as well; NULL */
    struct tw_main_cause *main_cause;
    /* During the baseline natural runs say what they had in common. */
    bool natural_runs_tell;
    bool natural_failed; /* some natural run did not end well */
    /* replays in the natural world answer otherwise on another core */
    bool by_core;
};

/* Codes of the search's own, beside TWIN_E*: positive, and never seen by callers of twin_search.
 * The budget of runs or time is used up; the job does not end well in this world; natural runs
 * differ only in what cannot be judged; natural runs diverge no longer. */
enum { TW_BUDGET = 1, TW_WORLD_FAILS = 2, TW_UNSEEN = 3, TW_GONE = 4 };

/* ---- sets */
void tw_set_add(struct twin_search_set *set, size_t i);
void tw_set_remove(struct twin_search_set *set, size_t i);
bool tw_set_within(const struct twin_search_set *inner, const struct twin_search_set *outer);
bool tw_set_equal(const struct twin_search_set *a, const struct twin_search_set *b);
size_t tw_set_count(const struct twin_search_set *set);

/* ---- search_plan.c */
/* The share of alpha for the n-th set that is taken to fresh runs, from 1; and that of the set
 * which is tested at present. */
double tw_share_of_set(uint32_t number);
double tw_alpha_share(const struct tw_search *s);

/* ---- runs.c */
/* Both fill a row of settings, one for each candidate: the natural world with some pins, or the
 * pinned world with some factors freed, for which each row gets fresh values. */
void tw_world_natural(struct tw_search *s, const struct twin_search_set *pinned,
                      struct twin_search_setting *row);
void tw_world_pinned(struct tw_search *s, const struct twin_search_set *freed,
                     struct twin_search_setting *row);
/* Asks for s->setting's first rows: at most n, fewer when the plan's parallel or the budget allows
 * fewer; *done says how many. Results in s->result. TW_BUDGET when not even one can be made. */
int tw_runs(struct tw_search *s, enum twin_search_purpose purpose, size_t n, uint64_t reference,
            uint64_t other, size_t *done, struct twin_error *err);
/* Runs with the pins of arm[kind[0]], arm[kind[1]], ..., each compared with its arm's reference; as
 * tw_runs in all else. */
int tw_runs_arranged(struct tw_search *s, const struct tw_arm *arm, const uint32_t *kind, size_t n,
                     size_t *done, struct twin_error *err);
/* How many rows the next call can make, at most n. */
size_t tw_runs_at_once(const struct tw_search *s, size_t n);

/* ---- baseline.c */
int tw_baseline(struct tw_search *s, struct twin_error *err);
/* The arm of this set of pins, made when new. Pointers to arms are valid until the next call. */
struct tw_arm *tw_arm(struct tw_search *s, const struct twin_search_set *pinned,
                      struct twin_error *err);
/* Compares up to n more runs of the arm with its reference (first made when missing).
 * TW_WORLD_FAILS: no reference to be had. */
int tw_arm_compare(struct tw_search *s, struct tw_arm *arm, size_t n, struct twin_error *err);
/* Makes the arm's reference run when it is missing. 0, or a code (TW_WORLD_FAILS). */
int tw_arm_reference(struct tw_search *s, struct tw_arm *arm, struct twin_error *err);
/* Adds a run of the arm's world to its counts. */
int tw_arm_take(struct tw_search *s, struct tw_arm *arm, const struct twin_search_result *r,
                uint32_t number, struct twin_error *err);
/* The same world with nothing counted yet: what chose a set is no evidence for it. Its reference
 * and classes are kept. */
struct tw_arm tw_arm_fresh(const struct tw_arm *arm);
/* Starts the counts of a fresh arm anew, for the next block; classes stay. */
void tw_arm_mark(struct tw_arm *arm);
/* Runs with these pins were seen to diverge: what diverges with more pinned diverges with these. */
bool tw_known_to_part(const struct tw_search *s, const struct twin_search_set *pins);
/* Makes natural runs until one diverges. TW_GONE: none does any more. */
int tw_still_parts(struct tw_search *s, struct twin_error *err);

/* ---- persist.c */
int tw_trace_add(struct tw_search *s, int class, uint32_t number, struct twin_error *err);
/* Number of the last natural run that diverged; 0: none did. */
uint32_t tw_last_parted(const struct tw_search *s);
/* Clean natural comparisons since the last that diverged. */
uint64_t tw_clean_tail(const struct tw_search *s);
/* Did natural runs diverge, and were so many clean since that this is no chance? */
bool tw_gone(const struct tw_search *s);
struct twin_search_correlation tw_correlation(const struct tw_search *s);
/* 95% upper bound of a rate, of the effective numbers. */
double tw_rate_bound(const struct tw_search *s, uint64_t parted, uint64_t compared);

/* ---- blocks.c */
struct tw_block {
    uint32_t free, pinned;
};
/* Share of the arrangements of such a block in which all that diverged are free. */
double tw_block_p(uint64_t free, uint64_t pinned, uint64_t parted);
/* p of k divergences in a row against n clean comparisons, at the rate at which that is likeliest
 * (confirm_arms.c says more). */
double tw_all_against_none(uint64_t k, uint64_t n);
/* The block after which the fewest runs are to be expected until p is smaller by this factor (above
 * 1), when free runs diverge at this rate and pinned ones never; *expected (or NULL) is that
 * number, with the block's own runs. */
struct tw_block tw_block_choose(double rate, double missing, double *expected);
/* The rate at which an arm is taken to diverge: Jeffreys, so neither 0 nor 1. */
double tw_rate(const struct tw_arm *arm);
/* A cautious one, where few comparisons would rule candidates out: a little below what was seen. */
double tw_least_rate(const struct tw_arm *arm);
/* Puts the n entries of `kind` into an order drawn uniformly. */
void tw_block_draw(uint64_t seed, uint32_t confirmation, uint32_t block, uint32_t *kind, size_t n);

/* ---- alone.c */
/* rate below which a clean comparison says little, so that the pinned world tells more for as many
 * runs */
#define TW_OFTEN .6
/* The pin that stops what diverges under `base` when it is added; SIZE_MAX: none does alone, as far
 * as can be seen. */
int tw_alone(struct tw_search *s, const struct twin_search_set *base, size_t *pin,
             struct twin_error *err);

/* ---- contrast.c */
/* Runs in the pinned world W0, once, and drops pins until the job ends well there. */
int tw_pinned_world(struct tw_search *s, struct twin_error *err);
/* The natural world ends well, with all of these pins it does not: finds the one with which it
 * stops to, by bisection, and drops it. */
int tw_drop_failing_pin(struct tw_search *s, const struct twin_search_set *failing,
                        struct twin_error *err);
/* Candidates that may be to blame for what diverges although these are pinned, and how much they
 * are suspected; returns their number. */
size_t tw_suspects(const struct tw_search *s, const struct twin_search_set *pinned, size_t *list,
                   double *weight);
void tw_most_suspected_first(const struct tw_search *s, size_t *list, double *weight, size_t n);
/* Do runs diverge when these are freed and the rest is pinned? Stops at the first that does, or
 * after `clean` that do not, what is known from other contrasts counted. */
int tw_contrast(struct tw_search *s, const struct twin_search_set *freed, uint64_t clean,
                bool *parted, struct twin_error *err);
/* A minimal set whose freeing brings the divergence of `arm` back; the arm's pins stay. Empty: none
 * was found. */
int tw_find(struct tw_search *s, const struct tw_arm *arm, struct twin_search_set *found,
            struct twin_error *err);
/* Clean comparisons after which a divergence as frequent as the arm's would have been missed with
 * probability miss. */
uint64_t tw_clean_needed(const struct tw_arm *arm, double miss);
/* How much a factor is suspected when the first difference is in this layer. */
double tw_suspicion(const struct twin_candidate *c, int seen_layer);

/* ---- confirm.c */
/* Answers of a confirmation: the pins stop the divergence; runs diverge under them; the job fails
 * under them. The last two are of two arms: A does not diverge with the set as in B; A diverges
 * from itself. */
enum tw_confirmed { TW_SUFFICIENT, TW_NOT_SUFFICIENT, TW_SET_FAILS, TW_NOT_APPLIED, TW_A_PARTS };
/* Runs that a verdict needs beside the baseline when the natural world goes on as this arm does. */
uint64_t tw_confirm_cost(const struct tw_search *s, const struct tw_arm *free);
/* Are all members of the set needed? A member that is not is taken out of it. On TW_SUFFICIENT the
 * causes stand in the report. `alternatives`: of each candidate. */
int tw_confirm(struct tw_search *s, struct twin_search_set *set,
               const struct twin_search_set *alternatives, enum tw_confirmed *answer,
               struct twin_error *err);
/* Puts the main cause that is kept, if any, back into the report; drops it. */
void tw_main_cause_restore(struct tw_search *s);
void tw_main_cause_close(struct tw_search *s);
/* Two arms: does A diverge when the set is as in B? TW_SUFFICIENT, TW_NOT_APPLIED or TW_A_PARTS. */
int tw_confirm_applied(struct tw_search *s, const struct twin_search_set *set,
                       enum tw_confirmed *answer, struct twin_error *err);
/* Clean runs that are still missing until the causes are called sufficient. */
uint32_t tw_more_clean(const struct tw_search *s, uint64_t parted, uint64_t compared);
#endif
