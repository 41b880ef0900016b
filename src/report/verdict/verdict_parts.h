/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_VERDICT_PARTS_H
#define TW_REPORT_VERDICT_PARTS_H
/* Numbers behind the pictures of two runs, for the page of a verdict and for the same pictures as
 * data (verdict_data.c). */
#include "src/report/report.h"

/* The group that a row of a field belongs to, by what it is in a step. Groups are told apart by
 * these static names. */
const char *tw_field_group(enum twin_phase phase, enum twin_kind kind);

/* Of each group of which any tensor differs: its median tensor, and the smallest and the largest,
 * as relative differences; a value for each step of the field. NaN: differs, by how much is not
 * known; INFINITY: nothing differs. */
enum { TW_FAN_GROUPS = 16 };
struct tw_fan {
    const char *name[TW_FAN_GROUPS]; /* static */
    double *y[TW_FAN_GROUPS], *low[TW_FAN_GROUPS], *high[TW_FAN_GROUPS];
    bool any[TW_FAN_GROUPS]; /* it has a size in some step */
    size_t count;
};
/* False: no memory. tw_fan_free in any case. */
bool tw_fan_make(const struct twin_field *f, struct tw_fan *fan);
void tw_fan_free(struct tw_fan *fan);

/* What stands above a grid of ranks: an outline where nothing brought the difference, an arrow for
 * what did, and the cell that the verdict names first. */
enum { TW_GRID_ARROWS = 128, TW_GRID_OUTLINES = 64 };
struct tw_grid_marks {
    struct twin_page_outline outline[TW_GRID_OUTLINES];
    struct twin_page_arrow arrow[TW_GRID_ARROWS];
    char *text[TW_GRID_OUTLINES + TW_GRID_ARROWS]; /* owned */
    size_t outlines, arrows, texts, left;          /* left: arrows that are not drawn */
    bool named;
    size_t row, column; /* of the named cell */
    bool failed;
};
/* v: the verdict on the two runs of the grid. NULL: no memory. */
struct tw_grid_marks *tw_grid_marks_make(const struct twin_verdict *v, const struct twin_grid *g);
void tw_grid_marks_free(struct tw_grid_marks *d);

#endif
