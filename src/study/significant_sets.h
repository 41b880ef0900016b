/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SIGNIFICANT_SETS_H
#define TW_STUDY_SIGNIFICANT_SETS_H
/* Where the two sets of values come from: files of numbers, or something measured in each of some
 * runs. */
#include "significant.h"

/* s: "wall", "step", "loss", "printed:REGEX"; NULL: what is in a file. TWIN_EINVAL: none of them.
 */
int tw_measure_parse(const char *s, struct tw_measure *out, struct twin_error *err);
/* Are the values times in seconds? Numbers of a file are not taken for times. */
bool tw_measure_is_time(const struct tw_significant *s);
/* A file of numbers (text, JSON list, FILE.csv:COLUMN), runs by name with commas between, or
 * label:NAME. 0, or a TWIN_E*; tw_set_free in any case. */
int tw_set_read(const char *operand, const char *home, const struct tw_measure *m,
                struct tw_set *out, struct twin_error *err);
/* Measures a run into a set: adds its value, or leaves it out and says why. r is taken over. */
int tw_set_add_run(struct tw_set *s, const struct tw_measure *m, struct twin_run *r,
                   struct twin_error *err);
/* significant_commands.c: 0 when all runs are of one program, whatever its arguments; else
 * TWIN_EINVAL, which names them. */
int tw_set_one_program(const struct tw_set *s, struct twin_error *err);
/* "3 commands: ...", or "" where all runs have the same. malloc'ed; NULL: no memory. */
char *tw_set_commands(const struct tw_set *s);
void tw_set_free(struct tw_set *s);
/* Fills the sets' configuration: every figure carries what it was measured with. TWIN_ENOMEM. */
int tw_significant_configure(struct tw_significant *s);
/* TWIN_EINVAL: speed and "within" ask for values above 0, and one is not. */
int tw_significant_positive(const struct tw_significant *s, struct twin_error *err);

#endif
