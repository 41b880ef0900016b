/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_VERDICT_GATHER_H
#define TW_REPORT_VERDICT_GATHER_H
/* Pages with pictures of recorded runs. What cannot be read is not drawn: a page is true without
 * it. */
#include "src/compare/compare.h"
#include "src/report/page.h"
#include "src/report/report.h"

#include <stddef.h>

/*
 * Writes the verdict as a page, with pictures of what the runs recorded. compare: how the runs were
 * compared; NULL: as they stand. 0, or a TWIN_E* of the gathering or the writing.
 */
int tw_verdict_save_page(const struct twin_report *report,
                         const struct twin_compare_options *compare, const char *path,
                         struct twin_error *err);
/* Draws runs of one command: where they differ, which agree until when, what they recorded, how
 * long steps took. */
void tw_page_runs(struct twin_page *p, const struct twin_run *const *runs, size_t count);
/* Draws what runs recorded, alone. label: of each run. */
void tw_page_curves(struct twin_page *p, const struct twin_run *const *runs, size_t count,
                    const char *const *label);

#endif
