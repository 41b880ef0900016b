/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SPREAD_ADDING_H
#define TW_SPREAD_ADDING_H
/*
 * Additions in a type, each rounded to it: the inner loops of one.c and vector.c, behind one table
 * of functions for each type. f16 and bf16 are held as float: a float has more than twice their
 * digits and two more, so rounding its sum once more gives the sum rounded once.
 */
#include "orders.h"

#include <twin/exact.h>

/* Elements that are added side by side: independent of each other, so a compiler may use wide
 * registers without changing any order of additions. */
enum { TW_TILE_LANES = 32 };

/* The loops of one type. "Held" numbers are doubles or floats, as `size` says. */
struct tw_adder {
    size_t size; /* of a held number: double or float */
    /*
     * The program over rows of TW_TILE_LANES numbers, one row for each contribution; place may be
     * NULL.
     */
    void (*rows)(const struct tw_program *p, const uint32_t *place, const void *row, void *out);
    /* Each lane from its own place on, round to the place before. start: ascending, < ranks. */
    void (*ring)(uint32_t ranks, const uint32_t *place, const uint32_t start[TW_TILE_LANES],
                 const void *row, void *out);
    /* The program over single numbers. */
    void (*single)(const struct tw_program *p, const void *x, void *out);
    /* Adds n numbers, one after the other, to *sum. Begin with -0. */
    void (*chain)(const void *x, size_t n, void *sum);
    void (*chain_back)(const void *x, size_t n, void *sum); /* the last first */
    /* Adds n numbers in random order: Durstenfeld's shuffle with the draws 0 to n - 1 of a seed. x
     * is left in that order. */
    void (*shuffled)(void *x, size_t n, uint64_t seed, void *sum);
    void (*set)(void *x, size_t i, double v); /* v is exact in the type */
    double (*get)(const void *x, size_t i);
};

/* The exact sum, rounded once to a type, as a double. 0, or the accumulator's error. */
int tw_rounded(const struct twin_acc *sum, enum twin_dtype dtype, double *out,
               struct twin_error *err);

const struct tw_adder *tw_adder_for(enum twin_dtype dtype); /* NULL: another type */

#endif
