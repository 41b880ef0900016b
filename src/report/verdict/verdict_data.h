/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_VERDICT_DATA_H
#define TW_REPORT_VERDICT_DATA_H
/*
 * What the pictures of a verdict's page show, as data for another page: the words, where ranks and
 * classes part, how differences grow, and the field of two runs. Nothing of it names a folder, a
 * source line or what a job printed.
 */
#include "src/compare/field.h"

#include <jansson.h>
#include <stddef.h>
#include <twin/error.h>

enum {
    TW_DATA_RUNS = 24,    /* most runs that are sorted into classes */
    TW_DATA_ROWS = 65536, /* most rows of the field */
    TW_DATA_CELLS = 10000000,
    TW_DATA_POINTS = 512 /* most points of a line of the fan */
};

struct tw_verdict_data {
    json_t *head; /* an object: the schema `compared` of src/serve says what is in it */
    json_t *rows; /* of each row [name, rank, phase, kind, group] */
    struct twin_field field;
};
/* Compares runs[0] with runs[other], and all of them where they are TW_DATA_RUNS at most. 0, or
 * what the comparison returned; tw_verdict_data_free in any case. */
int tw_verdict_data(const struct twin_run *const *runs, size_t count, size_t other,
                    struct tw_verdict_data *out, struct twin_error *err);
void tw_verdict_data_free(struct tw_verdict_data *d);

#endif
