/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SLO_WORDS_H
#define TW_REPORT_SLO_WORDS_H
/* Service levels (src/slo) as text, JSON and CSV. */
#include "src/slo/slo.h"

#include <jansson.h>
#include <stdio.h>

/* One line a row, and below it what is missing or what burned the budget. Rows of projects, ...
 * without any event are left out. */
void tw_slo_print(FILE *out, const struct tw_slo_rows *rows, int64_t until_ns);
/* The object twinrun.slo/1; the caller's reference. NULL: no memory. */
json_t *tw_slo_json(const struct tw_slo_rows *rows, int64_t until_ns);
/* One of its indicators; NULL: no memory. */
json_t *tw_slo_row_json(const struct tw_slo_row *r);
/* All rows as a table. Cells that a spreadsheet would take for a formula are quoted so that it does
 * not. malloc'ed; NULL: no memory. */
char *tw_slo_csv(const struct tw_slo_rows *rows);
#endif
