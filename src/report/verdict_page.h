/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_VERDICT_PAGE_H
#define TW_REPORT_VERDICT_PAGE_H
#include <twin/report.h>

/* The pictures of a verdict's page, each under the question that it answers. */
void tw_verdict_pictures(struct twin_page *p, const struct twin_report *r, const struct twin_report_pictures *x);
#endif
