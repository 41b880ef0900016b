/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_VERDICT_PAGE_H
#define TW_REPORT_VERDICT_PAGE_H
/* The pictures of a verdict on its page. (verdict_pictures.c) */
#include "src/report/report.h"

/* Of two runs: the heatmap; how differences grow and how large they are. f may be NULL. question:
 * NULL for the usual one. runs: "Run 1 and run 3". */
void tw_field_where(struct twin_page *p, const char *question, const struct twin_finding *first,
                    const struct twin_field *f, const char *runs);
void tw_field_how_much(struct twin_page *p, const struct twin_finding *first,
                       const struct twin_field *f);
#endif
