/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SIGNIFICANT_H
#define TW_CMD_SIGNIFICANT_H
/* twinrun significant: where the two sets of values come from (significant_sets.c), and how the answer is put (significant_report.c). */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/run.h>
#include <twin/significant.h>

enum tw_metric { TW_METRIC_IN_FILE, TW_METRIC_WALL, TW_METRIC_STEP, TW_METRIC_LOSS, TW_METRIC_PRINTED };

/* Where a run's value comes from. */
struct tw_measure { enum tw_metric metric; const char *text; /* as given: "wall", "step", "loss", "printed:REGEX" */ };
int tw_measure_parse(const char *s, struct tw_measure *out); /* 0, or the exit code after a complaint */

struct tw_set {
    const char *operand;
    double *x;
    size_t n;
    struct twin_run **run;    /* one for each value; NULL: a file */
    char *configuration;      /* of the first run, or that it is not known: significant_report.c */
    char **left_out;          /* "RUN: why" */
    size_t left_out_count;
};
/* A file of numbers (text, JSON list, FILE.csv:COLUMN), runs by name with commas between, or label:NAME. 0, or the exit code after a complaint. */
int tw_set_read(const char *operand, const char *home, const struct tw_measure *m, struct tw_set *out);
/* Measures a run into a set: adds its value, or leaves it out and says why. r is taken over. */
int tw_set_add_run(struct tw_set *s, const struct tw_measure *m, struct twin_run *r, struct twin_error *err);
/* significant_commands.c: 0 when all runs are of one program, whatever its arguments; else TWIN_EINVAL, which names them. */
int tw_set_one_program(const struct tw_set *s, struct twin_error *err);
/* "3 commands: ...", or "" where all runs have the same. malloc'ed; NULL: no memory. */
char *tw_set_commands(const struct tw_set *s);
void tw_set_free(struct tw_set *s);

struct tw_significant {
    struct tw_set set[2];
    struct tw_measure measure;
    struct twin_asked asked;
    const char *floor_file; double floor_relative; /* of twinrun spread; NULL: a number was given */
    struct twin_significance found;
};
bool tw_measure_is_time(const struct tw_significant *s);
/* Each prints, and fills the sets' configuration. 0, or the exit code after a complaint. */
int tw_significant_text(struct tw_significant *s);
int tw_significant_json(struct tw_significant *s);
/* What the second prints; NULL after a complaint. */
json_t *tw_significant_object(struct tw_significant *s);

/* The answer in one line. malloc'ed; NULL: no memory. */
char *tw_significant_line(const struct tw_significant *s);

/* significant_arms.c: makes the runs of two commands in drawn order and answers speed, metric and bits apart. The exit code. */
struct tw_significant_arms {
    const char *command[2], *home;
    uint64_t runs, seed, steps;
    bool json, quiet;
};
int tw_significant_arms(const struct tw_significant_arms *a, const struct tw_measure *m, const struct twin_asked *asked);
/* 0, or the exit code after a complaint: speed and "within" ask for values above 0. */
int tw_significant_positive(const struct tw_significant *s);
int tw_significant_exit(const struct tw_significant *s);
#endif
