/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SPREAD_H
#define TW_STUDY_SPREAD_H
/* What a study of the orders of a sum was asked, and what it found. */
#include "values.h"

#include "src/spread/spread.h"

struct tw_spread_args {
    const char *home, *precision, *add_in;
    struct tw_strings tensor;
    uint64_t ranks, orders, seed;
    bool json, quiet;
};

struct tw_spread_found {
    const struct tw_spread_args *args;
    char *const *files;
    size_t file_count;
    const struct tw_values *values; /* of the first file */
    enum twin_dtype add_in;
    enum twin_precision precision;
    uint32_t ranks;
    double exact_before; /* exact sum of the numbers before they were rounded to `precision` */
    struct twin_sum_spread sum; /* of one file */
    /* [values->tensors] of its tensors, when there are several; else NULL */
    struct twin_sum_spread *tensor;
    struct twin_vector_spread vector; /* of several */
    struct twin_vector_order *order;  /* of its results: named ones, then random ones */
    size_t named;
    /* what the figures above point into: see tw_spread_free */
    struct tw_values *loaded; /* of each file */
    double *random;
    struct twin_vector_result *result;
    uint32_t *place;
};

/*
 * Reads the files and adds them up in all orders; args, files, file_count, add_in, precision and
 * ranks are given. 0, or a TWIN_E* after a complaint to front. In any case tw_spread_free later.
 */
int tw_spread_measure(struct tw_spread_found *f, const struct tw_front *front);
void tw_spread_free(struct tw_spread_found *f);

#endif
