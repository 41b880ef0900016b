/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SEARCH_H
#define TW_SEARCH_H
/* Inside of the search. search.c drives; runs.c asks for runs and keeps the log; baseline.c looks
 * at the natural world, contrast.c at the pinned one, confirm.c at fresh runs of both, in the
 * arrangements of blocks.c; persist.c asks whether natural runs still part. */
#include "base.h"

#include "src/isolate/search.h"
#include "src/stats/stats.h"

/* Natural world with some pins: what is known about it. */
#define TW_CLASSES 64 /* further ones are taken to be new each time */
struct tw_arm {
    struct twin_search_set pinned;
    uint64_t reference; /* 0: not run yet */
    /* parted: from the modal class, so that an odd reference does not look like a high rate */
    uint64_t compared, parted, steps;
    /* The reference's own class comes first. `before`: runs that were there before the arm was made
     * fresh. */
    struct {
        uint64_t first, runs, before;
    } class[TW_CLASSES];
    size_t classes;
    /* only runs made since count, and the reference is none of them */
    bool fresh;
    uint64_t disagreeing; /* of those parted */
    uint64_t blind;       /* of those that did not part */
    uint64_t failed;      /* of those parted: ended badly, or stood still */
    bool fails;           /* the job never ends well in this world */
};
/* A natural comparison: the class of its run in the baseline's arm, -1 for none. */
struct tw_trace {
    int class;
    uint32_t number;
};
struct tw_reference {
    struct twin_search_set freed;
    uint64_t handle;
};

/* Causes that were shown to matter, when something else was seen to part as well. */
struct tw_main_cause {
    struct twin_search_cause *cause;
    size_t count;
    struct twin_search_evidence evidence;
    uint64_t left, left_parted;
    enum twin_factor_unit unit;
    const char *unit_why;
    char *arrangement;
    uint32_t confirmations;
    struct twin_search_arm applied; /* two arms */
    uint64_t repeats;
    double p_applied;
};

struct tw_search {
    const struct twin_candidate *candidate;
    const struct twin_search_plan *plan;
    twin_search_run *run;
    twin_search_saved *saved;
    void *user;
    struct twin_search_log *log, own_log;
    struct twin_search_report *report;
    struct tw_arm *arm;
    size_t arm_count; /* arm[0] is the baseline */
    struct tw_reference *reference;
    size_t reference_count;              /* of pinned worlds; [0] is W0 */
    struct twin_search_setting *setting; /* rows of the batch being asked for */
    struct twin_search_request *request;
    struct twin_search_result *result;
    /* last value given to a settable factor or a seed */
    uint64_t value;
    /* a pair of runs that parted, for the vote */
    uint64_t parted_a, parted_b;
    uint32_t sets_tested; /* taken to fresh natural runs */
    /* natural comparisons, in the order of the runs */
    struct tw_trace *trace;
    size_t trace_length;
    /* shown to matter before something else parted as well; NULL */
    struct tw_main_cause *main_cause;
    /* baseline: they say what they had in common */
    bool natural_runs_tell;
    bool natural_failed; /* some natural run did not end well */
    /* replays in the natural world answer otherwise on another core */
    bool by_core;
};

/* Codes of the search's own, beside TWIN_E*: positive, and never seen by callers of twin_search. */
enum { TW_BUDGET = 1, TW_WORLD_FAILS = 2, TW_UNSEEN = 3, TW_GONE = 4 };

/* ---- sets */
void tw_set_add(struct twin_search_set *set, size_t i);
void tw_set_remove(struct twin_search_set *set, size_t i);
bool tw_set_within(const struct twin_search_set *inner, const struct twin_search_set *outer);
bool tw_set_equal(const struct twin_search_set *a, const struct twin_search_set *b);
size_t tw_set_count(const struct twin_search_set *set);

/* ---- runs.c */
/* Fills a row: the natural world with some pins; the pinned world with some factors freed (each row
 * gets fresh values). */
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
/* Makes the reference when it is missing. */
int tw_arm_reference(struct tw_search *s, struct tw_arm *arm, struct twin_error *err);
/* Adds a run of the arm's world to its counts. */
int tw_arm_take(struct tw_search *s, struct tw_arm *arm, const struct twin_search_result *r,
                uint32_t number, struct twin_error *err);
/* The same world with nothing counted yet: what chose a set is no evidence for it. Its reference
 * and classes are kept. */
struct tw_arm tw_arm_fresh(const struct tw_arm *arm);
/* Counts of a fresh arm start anew. */
void tw_arm_mark(struct tw_arm *arm);

/* ---- persist.c */
int tw_trace_add(struct tw_search *s, int class, uint32_t number, struct twin_error *err);
/* Number of the last natural run that parted; 0: none did. */
uint32_t tw_last_parted(const struct tw_search *s);
/* Clean natural comparisons since the last that parted. */
uint64_t tw_clean_tail(const struct tw_search *s);
/* Natural runs parted, and there were so many clean ones since that this is no chance. */
bool tw_gone(const struct tw_search *s);
/* Makes natural runs until one parts. TW_GONE: none does any more. */
int tw_still_parts(struct tw_search *s, struct twin_error *err);
struct twin_search_correlation tw_correlation(const struct tw_search *s);
/* 95% upper bound of a rate, of the effective numbers. */
double tw_rate_bound(const struct tw_search *s, uint64_t parted, uint64_t compared);

/* ---- blocks.c */
struct tw_block {
    uint32_t free, pinned;
};
/* Share of the arrangements of such a block in which all that parted are free. */
double tw_block_p(uint64_t free, uint64_t pinned, uint64_t parted);
/* The block after which the fewest runs are to be expected until p is smaller by this factor (above
 * 1), when free runs part at this rate and pinned ones never; *expected (or NULL) is that number,
 * with the block's own runs. */
struct tw_block tw_block_choose(double rate, double missing, double *expected);
/* The rate at which an arm is taken to part: Jeffreys, so neither 0 nor 1. */
double tw_rate(const struct tw_arm *arm);
/* A cautious one, where few comparisons would rule candidates out: a little below what was seen. */
double tw_least_rate(const struct tw_arm *arm);
/* Puts the n entries of `kind` into an order drawn uniformly. */
void tw_block_draw(uint64_t seed, uint32_t confirmation, uint32_t block, uint32_t *kind, size_t n);

/* ---- alone.c */
/* rate below which a clean comparison says little, so that the pinned world tells more for as many
 * runs */
#define TW_OFTEN .6
/* The pin that stops what parts under `base` when it is added; SIZE_MAX: none does alone, as far as
 * can be seen. */
int tw_alone(struct tw_search *s, const struct twin_search_set *base, size_t *pin,
             struct twin_error *err);

/* ---- contrast.c */
/* Runs in the pinned world W0, once, and drops pins until the job ends well there. */
int tw_pinned_world(struct tw_search *s, struct twin_error *err);
/* The natural world ends well, with all of these pins it does not: finds the one with which it
 * stops to, by bisection, and drops it. */
int tw_drop_failing_pin(struct tw_search *s, const struct twin_search_set *failing,
                        struct twin_error *err);
/* Candidates that may be to blame for what parts although these are pinned, and how much they are
 * suspected; returns their number. */
size_t tw_suspects(const struct tw_search *s, const struct twin_search_set *pinned, size_t *list,
                   double *weight);
void tw_most_suspected_first(const struct tw_search *s, size_t *list, double *weight, size_t n);
/* Do runs part when these are freed and the rest is pinned? Stops at the first that does, or after
 * `clean` that do not, what is known from other contrasts counted. */
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

/* ---- search.c */
/* Runs with these pins were seen to part: what parts with more pinned parts with these. */
bool tw_known_to_part(const struct tw_search *s, const struct twin_search_set *pins);

/* ---- confirm.c */
/* The last two are of two arms: A does not part with the set as in B; A parts from A. */
enum tw_confirmed { TW_SUFFICIENT, TW_NOT_SUFFICIENT, TW_SET_FAILS, TW_NOT_APPLIED, TW_A_PARTS };
/* Runs that a verdict needs beside the baseline when the natural world goes on as this arm does. */
uint64_t tw_confirm_cost(const struct tw_search *s, const struct tw_arm *free);
/* Is the set sufficient, each member necessary? Members that are not are taken out of it.
 * `alternatives`: of each candidate. */
int tw_confirm(struct tw_search *s, struct twin_search_set *set,
               const struct twin_search_set *alternatives, enum tw_confirmed *answer,
               struct twin_error *err);
/* The main cause that is kept, if any: becomes the report's; is dropped. */
void tw_main_cause_restore(struct tw_search *s);
void tw_main_cause_close(struct tw_search *s);
/* Two arms: does A part when the set is as in B? TW_SUFFICIENT, TW_NOT_APPLIED or TW_A_PARTS. */
int tw_confirm_applied(struct tw_search *s, const struct twin_search_set *set,
                       enum tw_confirmed *answer, struct twin_error *err);
/* The share of alpha that the set which is tested now may use. */
/* of alpha, for the n-th set that is taken to fresh runs, from 1 */
double tw_share_of_set(uint32_t number);
double tw_alpha_share(const struct tw_search *s);
/* Clean runs that are still missing until the causes are called sufficient. */
uint32_t tw_more_clean(const struct tw_search *s, uint64_t parted, uint64_t compared);
/* p of k divergences in a row against n clean comparisons, at the rate at which that is likeliest
 * (confirm.c says more). */
double tw_all_against_none(uint64_t k, uint64_t n);
#endif
