/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_FIELD_H
#define TWIN_FIELD_H
/*
 * For pictures: how far every tensor of two runs is apart at every step, and what runs recorded as
 * single numbers. Room: src/compare. The verdict is twin_compare's; nothing here judges.
 */
#include "src/compare/compare.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* A cell: a state, or between TWIN_CELL_VALUES and TWIN_CELL_NOT_FINITE a positive number on a
 * logarithmic scale (twin_cell_of). Where cells share a place (records of one name in a step,
 * pixels), the largest code stands for all. */
enum {
    TWIN_CELL_NONE,  /* nothing recorded here */
    TWIN_CELL_EQUAL, /* bit for bit */
    /* differs and does not count: ignored by the user, or the state of a generator that nobody
       draws from */
    TWIN_CELL_LEFT_OUT,
    TWIN_CELL_GAP,      /* something was recorded and is lost: unknown */
    TWIN_CELL_DIFFERS,  /* by an amount that is not known */
    TWIN_CELL_ONE_SIDE, /* recorded in one run only */
    TWIN_CELL_VALUES = 16,
    TWIN_CELL_NOT_FINITE = 65535 /* NaN or infinity in one of them */
};
/* 10^-40 to 10^+40 with a relative error below 0.15%; what lies outside becomes the nearest end.
 * NaN, infinity and x <= 0: TWIN_CELL_DIFFERS. */
uint16_t twin_cell_of(double x);
double twin_cell_value(uint16_t cell); /* NaN for a state */

struct twin_field_row {
    int32_t rank;
    enum twin_phase phase;
    enum twin_kind kind;
    char *name;
    bool differs; /* in one cell at least */
};
struct twin_field {
    uint32_t *step;
    size_t steps; /* of run a, ascending */
    /* that both have; more than `steps`: some were chosen, evenly and more closely around `from` */
    uint64_t steps_all;
    struct twin_field_row *row;
    size_t rows; /* by rank, then in the order in which a step flows */
    /* more than `rows`: those that never differ were left out first */
    size_t rows_all;
    uint16_t *cell; /* row after row */
    /* some values come from sketches: about sqrt(2/k) of each, 18% at k = 64 */
    bool estimated;
};
/* Relative L2 distance of the records of a and b. o: shift and ignore count; NULL: none. from: the
 * step of a to look at closely (UINT32_MAX: none). At most `cells` cells are made (0: 1,000,000).
 * Runs of different world size have no field: 0 rows. Each step that differs is aligned as
 * twin_compare does it. 0, TWIN_ENOMEM, TWIN_EIO. */
int twin_compare_field(const struct twin_run *a, const struct twin_run *b,
                       const struct twin_compare_options *o, uint32_t from, size_t cells,
                       struct twin_field *out, struct twin_error *err);
void twin_field_free(struct twin_field *f);

/* Which rank differs when: a row for each rank, a column for each step as that rank counts. */
struct twin_grid {
    uint32_t *step; /* of run a, ascending */
    size_t steps;
    uint64_t steps_all; /* more than `steps`: some were chosen, each one around first differences */
    int32_t *rank;      /* ascending */
    size_t ranks, ranks_all; /* more than `ranks`: those that the order names are among them */
    /* row after row: a state of a cell (TWIN_CELL_*), no value. Behind a rank's first difference
     * the digest of the whole step decides. */
    uint16_t *cell;
};
/*
 * order: of the verdict on these two runs; NULL: no rank differs. o: shift counts; NULL: none.
 * from: the step to look at closely (UINT32_MAX: none). Runs of other numbers of ranks, or of one
 * rank, have no grid: 0 ranks. 0, TWIN_ENOMEM, TWIN_EIO.
 */
int twin_compare_grid(const struct twin_run *a, const struct twin_run *b,
                      const struct twin_compare_options *o, const struct twin_rank_order *order,
                      uint32_t from, struct twin_grid *out, struct twin_error *err);
void twin_grid_free(struct twin_grid *g);

enum twin_curve_kind {
    TWIN_CURVE_LOSS,
    TWIN_CURVE_VALUE,
    TWIN_CURVE_GRADIENT,
    TWIN_CURVE_WEIGHT,
    TWIN_CURVE_HYPER
};
/* A number a step: losses, values and hyperparameters as recorded (the mean where a step has
 * several), the L2 norm of all gradients that the optimizer consumes, or of all weights that it
 * leaves. */
struct twin_curve {
    enum twin_curve_kind kind;
    char *name; /* of the object; "" for norms */
    size_t run; /* index into runs */
    int32_t rank;
    double *y;
    size_t steps;        /* NaN: nothing recorded at this step, or NaN was */
    uint64_t not_finite; /* of the values */
};
struct twin_curves {
    struct twin_curve *curve;
    size_t count; /* by kind, name, run, rank */
    /* traces that were too large (over 512 MiB together) or damaged */
    size_t unread;
    uint64_t left_out; /* records of more than 512 names, or of steps after 1,048,576 */
};
int twin_compare_curves(const struct twin_run *const *runs, size_t n, struct twin_curves *out,
                        struct twin_error *err);
void twin_curves_free(struct twin_curves *c);
#endif
