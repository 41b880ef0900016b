/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SHRINK_RUNS_H
#define TW_STUDY_SHRINK_RUNS_H
/*
 * How a smaller job that still diverges is found: shrink_knobs.c (what can be made smaller, and the
 * command that does it), shrink_runs.c (does the divergence stay in a setting?), shrink_search.c
 * (which settings are tried). Functions that return int return 0, or a TWIN_E*; where they take no
 * err, after the front was told why.
 */
#include "shrink.h"

void tw_shrink_evidence_free(struct tw_shrink_evidence *e);

/* ---- shrink_knobs.c */
/* Fills c->knob from args.knobs and from a launcher's number of processes. TWIN_EINVAL: a knob is
 * not as it ought to be; TWIN_ENOMEM. */
int tw_shrink_knobs(struct tw_shrink *c, struct twin_error *err);
/* The command and the additions to its environment in a setting. The lists are malloc'ed by
 * tw_malloc, _free gives them back. */
struct tw_shrink_command {
    char **argv, **env;
};
/* TWIN_ENOMEM, told to nobody. */
int tw_shrink_command(const struct tw_shrink *c, const struct tw_shrink_setting *s,
                      struct tw_shrink_command *out);
void tw_shrink_command_free(struct tw_shrink_command *m);
/* As one would type it: "env NAME=8 python train.py --batch-size 8". malloc'ed; NULL when out of
 * memory. */
char *tw_shrink_shell(const struct tw_shrink *c, const struct tw_shrink_setting *s);

/* ---- shrink_runs.c */
/* Runs the job in setting s until the rule gives an answer. */
int tw_shrink_trial(struct tw_shrink *c, const struct tw_shrink_setting *s,
                    struct tw_shrink_rule rule, struct tw_shrink_evidence *e,
                    enum tw_shrink_answer *answer);
/* Do the comparisons of e answer by the rule, whatever those left would show? Of the whole job, one
 * that diverges too seldom for the rule is of interest, too. */
bool tw_shrink_decided(const struct tw_shrink_rule *rule, const struct tw_shrink_evidence *e,
                       bool whole);
/* Reruns the first divergence of e at operation level and names its operation in e->verdict. */
void tw_shrink_name_operation(struct tw_shrink *c, const struct tw_shrink_setting *s,
                              struct tw_shrink_evidence *e);
/* Is this one of the ways in which the whole job diverged? Same layer, and the same operation, or
 * where that is not known the same phase and kind. */
bool tw_shrink_known(const struct tw_shrink *c, const struct twin_finding *f);
/* "step 17, backward gradient of w1 (aten::index_put)". malloc'ed. */
char *tw_shrink_finding(const struct twin_finding *f, bool with_step);

/* ---- shrink_search.c */
/* How many of how many comparisons of a smaller setting must diverge for the divergence to have
 * stayed, given how often the whole job diverged (c->baseline). */
struct tw_shrink_rule tw_shrink_rule_for(const struct tw_shrink *c, uint64_t need);
/* Finds the smallest setting; knobs, home and deadline are given. *outcome: what c says then. */
int tw_shrink_find(struct tw_shrink *c, enum tw_shrink_outcome *outcome);

#endif
