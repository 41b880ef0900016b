/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_PAGE_H
#define TW_REPORT_PAGE_H
/* Inside of a page: the sections' HTML, and the blocks of binary data that come behind it. How a
 * block is laid out: docs/internals/report.md. */
#include "wording.h"

#include "src/report/page.h"

enum { TW_PAGE_COLUMNS = 32 };

struct twin_page {
    char *title;
    struct tw_buf body, data; /* data: <script type="text/plain"> elements */
    unsigned pictures;        /* drawn by script */
    char align[TW_PAGE_COLUMNS + 1];
    size_t columns, column; /* of the table that is open */
};

bool tw_page_failed(const struct twin_page *p);
/* The frame of a picture: its question, its caption. Ended by tw_page_figure_end. */
void tw_page_figure(struct twin_page *p, const char *question, const char *caption,
                    const char *class);
void tw_page_figure_end(struct twin_page *p);
/* A known case that looks like this: a frame that says that it proves nothing ("no result of this
 * search"). */
void tw_page_hint(struct twin_page *p, const struct twin_hint *h, const char *disclaimer);
#endif
