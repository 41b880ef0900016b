/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SIGNIFICANT_SETS_H
#define TW_CMD_SIGNIFICANT_SETS_H
/* twinrun significant: where the two sets of values come from, and the runs made for them. */
#include "significant.h"

/* 0, or the exit code after a complaint */
int tw_measure_parse(const char *s, struct tw_measure *out);
/* A file of numbers (text, JSON list, FILE.csv:COLUMN), runs by name with commas between, or
 * label:NAME. 0, or the exit code after a complaint. */
int tw_set_read(const char *operand, const char *home, const struct tw_measure *m,
                struct tw_set *out);
/* Measures a run into a set: adds its value, or leaves it out and says why. r is taken over. */
int tw_set_add_run(struct tw_set *s, const struct tw_measure *m, struct twin_run *r,
                   struct twin_error *err);
/* significant_commands.c: 0 when all runs are of one program, whatever its arguments; else
 * TWIN_EINVAL, which names them. */
int tw_set_one_program(const struct tw_set *s, struct twin_error *err);
/* "3 commands: ...", or "" where all runs have the same. malloc'ed; NULL: no memory. */
char *tw_set_commands(const struct tw_set *s);
void tw_set_free(struct tw_set *s);
/* Fills the sets' configuration: every figure carries what it was measured with. 0, or the exit
 * code after a complaint. */
int tw_significant_configure(struct tw_significant *s);

/* significant.c: configures the sets, then prints, or gives JSON (NULL after a complaint). */
int tw_significant_print(struct tw_significant *s);
json_t *tw_significant_object(struct tw_significant *s);

/* significant_arms.c: makes the runs of two commands in drawn order and answers speed, metric and
 * bits apart. The exit code. */
struct tw_significant_arms {
    const char *command[2], *home;
    uint64_t runs, seed, steps;
    bool json, quiet;
};
int tw_significant_arms(const struct tw_significant_arms *a, const struct tw_measure *m,
                        const struct twin_asked *asked);
/* 0, or the exit code after a complaint: speed and "within" ask for values above 0. */
int tw_significant_positive(const struct tw_significant *s);
int tw_significant_exit(const struct tw_significant *s);

#endif
