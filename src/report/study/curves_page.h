/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_CURVES_PAGE_H
#define TW_REPORT_CURVES_PAGE_H
/* Words that the page of imported runs shares with their text; curves_report.c has them. */
#include "curves_report.h"

/* How a curve stands to the first one. malloc'ed; NULL: no memory. */
char *tw_curves_beside_words(const struct tw_curves_report *r, const struct tw_curves *c,
                             const struct tw_curve *run);
/* How far values and curves lie apart, and what cannot be said. */
void tw_curves_put_facts(struct twin_page *p, const struct tw_curves_report *r);
/* The commands that would tell more. */
void tw_curves_put_next(struct twin_page *p, const struct tw_curves_report *r);

#endif
