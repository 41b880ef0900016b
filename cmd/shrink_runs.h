/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SHRINK_RUNS_H
#define TW_CMD_SHRINK_RUNS_H
/*
 * Inside of twinrun shrink: shrink.c (options, order of events), shrink_knobs.c (what can be made
 * smaller, and the
 * command that does it), shrink_runs.c (does the divergence stay?).
 */
#include "options.h"
#include "shrink.h"

void tw_shrink_evidence_free(struct tw_shrink_evidence *e);

/* ---- shrink_knobs.c */
/* Fills c->knob from --knob and from a launcher's number of processes. -1, or the exit code after a
 * complaint. */
int tw_shrink_knobs(struct tw_shrink *c);
/* The command and the additions to its environment in a setting. The lists are malloc'ed by
 * tw_malloc, _free gives them back. */
struct tw_shrink_command {
    char **argv, **env;
};
int tw_shrink_command(const struct tw_shrink *c, const struct tw_shrink_setting *s,
                      struct tw_shrink_command *out);
void tw_shrink_command_free(struct tw_shrink_command *m);
/* As one would type it: "env NAME=8 python train.py --batch-size 8". malloc'ed; NULL when out of
 * memory. */
char *tw_shrink_shell(const struct tw_shrink *c, const struct tw_shrink_setting *s);

/* ---- shrink_runs.c */
/* Runs the job in setting s until the rule gives an answer. 0, or the exit code after trouble was
 * said. */
int tw_shrink_trial(struct tw_shrink *c, const struct tw_shrink_setting *s,
                    struct tw_shrink_rule rule, struct tw_shrink_evidence *e,
                    enum tw_shrink_answer *answer);
/* Reruns the first divergence of e at operation level and names its operation in e->verdict. */
void tw_shrink_name_operation(struct tw_shrink *c, const struct tw_shrink_setting *s,
                              struct tw_shrink_evidence *e);
/* Is this one of the ways in which the whole job parted? Same layer, and the same operation, or
 * where that is not known the same phase and kind. */
bool tw_shrink_known(const struct tw_shrink *c, const struct twin_finding *f);

#endif
