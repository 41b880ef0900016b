/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SEARCH_H
#define TW_SEARCH_H
/* Inside of the search. search.c drives; runs.c asks for runs and keeps the log; baseline.c looks at the natural world, contrast.c
 * at the pinned one, confirm.c at the natural one with a few pins. */
#include "base.h"
#include <twin/search.h>
#include <twin/stats.h>

/* Natural world with some pins: what is known about it. */
#define TW_CLASSES 64 /* further ones are taken to be new each time */
struct tw_arm {
    struct twin_search_set pinned;
    uint64_t reference;                /* 0: not run yet */
    uint64_t compared, parted, steps;  /* parted: from the modal class, so that an odd reference does not look like a high rate */
    struct { uint64_t first, runs; } class[TW_CLASSES]; size_t classes; /* the reference's own comes first */
    uint64_t disagreeing;              /* of those parted */
    uint64_t blind;                    /* of those that did not part */
    uint64_t failed;                   /* of those parted: ended badly, or stood still */
    bool fails;                        /* the job never ends well in this world */
};
struct tw_reference { struct twin_search_set freed; uint64_t handle; };

struct tw_search {
    const struct twin_candidate *candidate;
    const struct twin_search_plan *plan;
    twin_search_run *run;
    twin_search_saved *saved;
    void *user;
    struct twin_search_log *log, own_log;
    struct twin_search_report *report;
    struct tw_arm *arm; size_t arm_count;               /* arm[0] is the baseline */
    struct tw_reference *reference; size_t reference_count; /* of pinned worlds; [0] is W0 */
    struct twin_search_setting *setting;                /* rows of the batch being asked for */
    struct twin_search_request *request;
    struct twin_search_result *result;
    uint64_t value;                                     /* last value given to a settable factor or a seed */
    uint64_t parted_a, parted_b;                        /* a pair of runs that parted, for the vote */
    uint32_t sets_tested;                               /* taken to fresh natural runs */
    bool natural_failed;                                /* some natural run did not end well */
    bool by_core;                                       /* replays in the natural world answer otherwise on another core */
};

/* Codes of the search's own, beside TWIN_E*: positive, and never seen by callers of twin_search. */
enum { TW_BUDGET = 1, TW_WORLD_FAILS = 2, TW_UNSEEN = 3 };

/* ---- sets */
void tw_set_add(struct twin_search_set *set, size_t i);
void tw_set_remove(struct twin_search_set *set, size_t i);
bool tw_set_within(const struct twin_search_set *inner, const struct twin_search_set *outer);
bool tw_set_equal(const struct twin_search_set *a, const struct twin_search_set *b);
size_t tw_set_count(const struct twin_search_set *set);

/* ---- runs.c */
/* Fills a row: the natural world with some pins; the pinned world with some factors freed (each row gets fresh values). */
void tw_world_natural(struct tw_search *s, const struct twin_search_set *pinned, struct twin_search_setting *row);
void tw_world_pinned(struct tw_search *s, const struct twin_search_set *freed, struct twin_search_setting *row);
/* Asks for s->setting's first rows: at most n, fewer when the plan's parallel or the budget allows fewer; *done says how many.
 * Results in s->result. TW_BUDGET when not even one can be made. */
int tw_runs(struct tw_search *s, enum twin_search_purpose purpose, size_t n, uint64_t reference, uint64_t other, size_t *done,
            struct twin_error *err);
/* How many rows the next call can make, at most n. */
size_t tw_runs_at_once(const struct tw_search *s, size_t n);

/* ---- baseline.c */
int tw_baseline(struct tw_search *s, struct twin_error *err);
/* The arm of this set of pins, made when new. Pointers to arms are valid until the next call. */
struct tw_arm *tw_arm(struct tw_search *s, const struct twin_search_set *pinned, struct twin_error *err);
/* Compares up to n more runs of the arm with its reference (first made when missing). TW_WORLD_FAILS: no reference to be had. */
int tw_arm_compare(struct tw_search *s, struct tw_arm *arm, size_t n, struct twin_error *err);

/* Forgets an arm's clean comparisons, not its reference: what chose a set is no evidence for it. */
void tw_arm_forget(struct tw_arm *arm);

/* ---- alone.c */
#define TW_OFTEN .6 /* rate below which a clean comparison says little, so that the pinned world tells more for as many runs */
/* The pin that stops what parts under `base` when it is added; SIZE_MAX: none does alone, as far as can be seen. */
int tw_alone(struct tw_search *s, const struct twin_search_set *base, size_t *pin, struct twin_error *err);

/* ---- contrast.c */
/* Runs in the pinned world W0, once, and drops pins until the job ends well there. */
int tw_pinned_world(struct tw_search *s, struct twin_error *err);
/* The natural world ends well, with all of these pins it does not: finds the one with which it stops to, by bisection, and drops it. */
int tw_drop_failing_pin(struct tw_search *s, const struct twin_search_set *failing, struct twin_error *err);
/* Candidates that may be to blame for what parts although these are pinned, and how much they are suspected; returns their number. */
size_t tw_suspects(const struct tw_search *s, const struct twin_search_set *pinned, size_t *list, double *weight);
void tw_most_suspected_first(const struct tw_search *s, size_t *list, double *weight, size_t n);
/* Do runs part when these are freed and the rest is pinned? Stops at the first that does, or after `clean` that do not, what is
 * known from other contrasts counted. */
int tw_contrast(struct tw_search *s, const struct twin_search_set *freed, uint64_t clean, bool *parted, struct twin_error *err);
/* A minimal set whose freeing brings the divergence of `arm` back; the arm's pins stay. Empty: none was found. */
int tw_find(struct tw_search *s, const struct tw_arm *arm, struct twin_search_set *found, struct twin_error *err);
/* Clean comparisons after which a divergence as frequent as the arm's would have been missed with probability miss. */
uint64_t tw_clean_needed(const struct tw_arm *arm, double miss);
/* How much a factor is suspected when the first difference is in this layer. */
double tw_suspicion(const struct twin_candidate *c, int seen_layer);

/* ---- confirm.c */
enum tw_confirmed { TW_SUFFICIENT, TW_NOT_SUFFICIENT, TW_SET_FAILS };
/* Runs that a verdict needs beside the baseline when the natural world goes on as this arm does. */
uint64_t tw_confirm_cost(const struct tw_search *s, const struct tw_arm *free);
/* Is the set sufficient, each member necessary? Members that are not are taken out of it. */
int tw_confirm(struct tw_search *s, struct twin_search_set *set, enum tw_confirmed *answer, struct twin_error *err);
/* Two arms: does A part when the set is as in B? TW_NOT_SUFFICIENT: it does not; TW_SET_FAILS: A itself parts from A. */
int tw_confirm_applied(struct tw_search *s, const struct twin_search_set *set, enum tw_confirmed *answer, struct twin_error *err);
/* p of k divergences in a row against n clean comparisons, at the rate at which that is likeliest (confirm.c says more). */
double tw_all_against_none(uint64_t k, uint64_t n);
#endif
