/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_VERDICT_GATHER_H
#define TW_REPORT_VERDICT_GATHER_H
/*
 * Pages with pictures of recorded runs: reads the runs again for what the pictures show, and draws
 * it. Called by the commands with --html, and by the pages of a lab and of a scaling study.
 *
 * What cannot be read is not drawn, and a page is true without it: only tw_verdict_save_page tells
 * of errors.
 */
#include "src/compare/compare.h"
#include "src/report/page.h"
#include "src/report/report.h"

#include <stddef.h>

/* Writes the verdict as a page to path, with pictures of what the runs recorded; where path is a
 * folder, into it: the verdict as index.html, and a page of each run. compare: how the
 * runs were compared; NULL: as they stand. 0, or a TWIN_E* of the gathering or the writing. */
int tw_verdict_save_page(const struct twin_report *report,
                         const struct twin_compare_options *compare, const char *path,
                         struct twin_error *err);
/* Writes the page of one run into a folder of pages, the number-th of a comparison, or of a search
 * (verb "isolate"), whose page lies there, too. 0, or a TWIN_E*. */
int tw_run_save_page(const struct twin_run *run, size_t number, const char *verb, const char *home,
                     const char *folder, struct twin_error *err);
/* Draws runs of one command: where they differ, which agree until when, what they recorded, how
 * long steps took. */
void tw_page_runs(struct twin_page *p, const struct twin_run *const *runs, size_t count);
/* Draws only what runs recorded, without comparing them. label: a name for each run. */
void tw_page_curves(struct twin_page *p, const struct twin_run *const *runs, size_t count,
                    const char *const *label);

#endif
