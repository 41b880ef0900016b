/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_TOP_VIEW_H
#define TW_CMD_TOP_VIEW_H
/* What `twinrun top` shows, as lines of text in a given width. All that is foreign in them is
 * printable. */
#include "base.h"

#include "src/watch/watch.h"

/* How it is to look. */
struct tw_top_look {
    size_t columns, rows; /* rows 0: as many as there are */
    bool coloured;
    bool chooses; /* a run is marked, and keys are named */
};

/* The table of all runs, `chosen` marked and in sight. */
void tw_top_table(struct tw_buf *b, const struct tw_watch *w, const char *home, size_t chosen,
                  const struct tw_top_look *look);
/* One run with its ranks, and all sentences about it. */
void tw_top_details(struct tw_buf *b, const struct tw_flight *f, const struct tw_top_look *look);
/* All about a run in one line, without a line break. figures false: without what changes all the
 * time, so that two of them tell whether something has happened. malloc'ed. */
char *tw_top_line(const struct tw_flight *f, bool figures);

#endif
