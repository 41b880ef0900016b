/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_VERDICT_PAGE_H
#define TW_REPORT_VERDICT_PAGE_H
#include <twin/report.h>

/* Of two runs: the heatmap; how differences grow and how large they are. f may be NULL. runs: "Run 1 and run 3". */
void tw_field_where(struct twin_page *p, const struct twin_finding *first, const struct twin_field *f, const char *runs);
void tw_field_how_much(struct twin_page *p, const struct twin_finding *first, const struct twin_field *f);
/* The pictures of a verdict's page, each under the question that it answers. */
void tw_verdict_pictures(struct twin_page *p, const struct twin_report *r, const struct twin_report_pictures *x);
#endif
