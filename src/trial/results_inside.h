/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_RESULTS_INSIDE_H
#define TW_TRIAL_RESULTS_INSIDE_H
/* What the reading of an order of results and the comparison of two share. */
#include "results_order.h"

#include "src/trace/results.h"

/* One iterator, or one wait(). */
struct tw_results_call {
    uint8_t kind;
    char *site;
    uint32_t number, count, rest, thread;
    uint32_t *place; /* of its results, in the order in which they were told of */
    uint32_t places;
    uint32_t before; /* calls of the same kind at the same line before it */
    bool shared;     /* several threads asked or submitted at its line: no order is known */
};

struct tw_results_process {
    char role[TW_RESULTS_ROLE];
    uint32_t role_check;
    char *file; /* as it is */
    size_t bytes;
    struct tw_results_call *call; /* sorted by kind, line and number */
    uint32_t calls;
    uint64_t results;
    char *gave_up; /* why its replay was; NULL */
    bool ended, full;
    bool other;   /* something was told of in an order that is not recorded */
    bool doubled; /* another process has the same role: which is which is not known */
    char *damage; /* NULL */
};

/* A run's files. whole: those that are damaged are an error. */
int tw_results_read_run(const struct twin_run *run, bool whole, struct tw_results *out,
                        struct twin_error *err);
/* By kind and line alone. */
int tw_results_by_line(const struct tw_results_call *a, const struct tw_results_call *b);
#endif
