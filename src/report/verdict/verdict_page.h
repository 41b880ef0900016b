/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_VERDICT_PAGE_H
#define TW_REPORT_VERDICT_PAGE_H
/* The pictures of two runs, for the page of a verdict and for that of a search
 * (verdict_pictures.c). f: the field of the two runs; with NULL or an empty one nothing is drawn.
 * first: the finding that is marked in the picture, NULL for none. */
#include "src/report/report.h"

/* The heatmap: rows are tensors, columns are steps. question: the heading; NULL for the usual one.
 * runs: begins the caption, "Run 1 and run 3". */
void tw_field_where(struct twin_page *p, const char *question, const struct twin_finding *first,
                    const struct twin_field *f, const char *runs);
/* How differences grow from step to step, and how large they are. Nothing where the runs do not
 * differ. */
void tw_field_how_much(struct twin_page *p, const struct twin_finding *first,
                       const struct twin_field *f);
/* Which rank differs when, and who took it from whom: a row for each rank, a column for each step.
 * other: index of the run that is held against the first (verdict_grid.c). */
void tw_grid_picture(struct twin_page *p, const struct twin_verdict *v, const struct twin_grid *g,
                     size_t other);
#endif
