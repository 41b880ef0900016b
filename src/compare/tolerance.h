/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_TOLERANCE_H
#define TW_COMPARE_TOLERANCE_H
/* Differences held against a tolerance. */
#include "internal.h"

/* ---- tolerance.c */
struct tw_tolerance_rule {
    char *pattern, *reason;
    double rel_l2, abs, rtol, atol, ulp;             /* 0: not given */
    uint64_t matched, measured, unmeasured, outside; /* differences that it was applied to */
    /* share of what it allows; -1: nothing measured */
    double worst;
    char *where;
};
struct tw_tolerance {
    struct tw_tolerance_rule *rule;
    size_t n, room;
};
int tw_tolerance_load(const char *path, struct tw_tolerance **out, struct twin_error *err);
void tw_tolerance_free(struct tw_tolerance *t);
struct tw_tolerance_rule *tw_tolerance_for(struct tw_tolerance *t, const char *phase,
                                           const char *kind, const char *name);
/* One difference. stats_*: NULL when not recorded. relative, absolute: of the L2 distance; NaN when
 * it is not known. */
struct tw_measure {
    bool missing;
    double relative, absolute, ulp;
    uint64_t elements;
    const struct twin_stats *stats_a, *stats_b;
};
void tw_rec_measure(const struct tw_view *va, const struct tw_rec *a, const struct tw_view *vb,
                    const struct tw_rec *b, struct tw_measure *m);
/* Begins with worst = -1. outside, open: the first difference that is outside, that could not be
 * judged; unknown: the first step of which something is missing. few_kept: the reference is a
 * baseline, which keeps numbers of few steps: the verdict then says in which steps it judged
 * (span), and the last step of each process that differs must be among them, with its weights: else
 * `end_open` names it. */
#define TW_JUDGED_SPANS 16
struct tw_judged {
    double worst, worst_of_step;
    char *where;
    /* differences; open_weights: of the unmeasured, weights */
    uint64_t measured, unmeasured, open_weights;
    uint64_t outside_rows, unknown_steps;
    char *outside, *open, *unknown, *end_open;
    bool few_kept;
    struct tw_judged_span {
        uint32_t first, last;
    } span[TW_JUDGED_SPANS];
    size_t spans, more; /* more: steps beyond those that fit */
};
extern uint64_t tw_judge_limit;
void tw_tolerance_measure(struct tw_cmp *c, const char *phase, const char *kind, const char *name,
                          uint32_t step, const struct tw_measure *m, struct tw_judged *j);
/* takes text; the first one stays */
void tw_judged_outside(struct tw_cmp *c, struct tw_judged *j, char *text);
/* takes text; counts a step that is not judged */
void tw_judged_unknown(struct tw_cmp *c, struct tw_judged *j, char *text);
/* says which in a note */
bool tw_judged_inside(struct tw_cmp *c, const struct tw_judged *j);
void tw_judged_free(struct tw_judged *j);
/* judge.c: judges every differing step of a pair of processes into c->judged, up to the first that
 * is outside, and claims it. */
int tw_tolerance_judge(struct tw_cmp *c, struct tw_scan *s, struct twin_error *err);
void tw_tolerance_report(struct tw_cmp *c); /* the rules and their use go to c->v */

#endif
