/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MATCH_H
#define TW_MATCH_H
/*
 * Says which record of one view corresponds to which record of the other view. The rules and the
 * reasons for them stand at the top of match.c. stepdiff.c calls this and turns the result into
 * differences.
 */
#include "internal.h"

/*
 * The correspondence between two views. Every record has at most one counterpart; to_b and to_a are
 * inverse to each other. tw_match_fini() frees the arrays.
 */
struct tw_match {
    size_t *to_b, *to_a; /* indices in the views; TW_NONE: no counterpart */
    bool *moved;         /* per record of a: it stands elsewhere among records of other names */
    /* names whose values several threads recorded in an order that is not known */
    size_t schedule;
    /* names of several threads of which records were dropped: what is left over is unknown */
    size_t unnumbered;
};

/*
 * Makes an m in which nothing is matched, for views of a and b records. Returns 0 or TWIN_ENOMEM.
 * Call tw_match_fini() in either case.
 */
int tw_match_init(struct tw_match *m, size_t a, size_t b);
void tw_match_fini(struct tw_match *m);
/*
 * Fills m, which tw_match_init() made for these two views. Returns 0 or TWIN_ENOMEM; after an error
 * m may hold some of the pairs.
 */
int tw_match_records(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                     struct tw_match *m);
#endif
