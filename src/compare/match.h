/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MATCH_H
#define TW_MATCH_H
/* Which record of one view corresponds to which of the other: the rules stand in match.c. */
#include "internal.h"

struct tw_match {
    size_t *to_b, *to_a; /* indices in the views; TW_NONE: no counterpart */
    bool *moved;         /* per record of a: it stands elsewhere among records of other names */
    /* names whose values several threads recorded in an order that is not known */
    size_t schedule;
    /* names of several threads of which records were dropped: what is left over is unknown */
    size_t unnumbered;
};

/* For views of a and b records; 0 or TWIN_ENOMEM. Call tw_match_fini in either case. */
int tw_match_init(struct tw_match *m, size_t a, size_t b);
void tw_match_fini(struct tw_match *m);
int tw_match_records(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                     struct tw_match *m);
#endif
