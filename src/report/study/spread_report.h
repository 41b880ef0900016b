/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SPREAD_REPORT_H
#define TW_REPORT_SPREAD_REPORT_H
/* What twinrun spread found (src/study), in words and as JSON: how far other orders of the same
 * additions lie apart, for the numbers of one file or, element by element, of several. */
#include "spread.h"

#include <jansson.h>
#include <stdio.h>

/* For people: a table of orders, and the floor below which differences mean nothing. */
void tw_spread_text(FILE *out, const struct tw_spread_found *f);
/* The caller's; NULL: no memory. Every digit counts: print it exactly. */
json_t *tw_spread_json(const struct tw_spread_found *f);

#endif
