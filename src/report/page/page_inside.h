/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_PAGE_H
#define TW_REPORT_PAGE_H
/*
 * Inside of a page, for the files of this room that draw into it. Commands use src/report/page.h.
 *
 * A page is the HTML of its sections, and the blocks of binary data that come behind it. How a
 * block is laid out: docs/internals/report.md.
 */
#include "wording.h"

#include "src/report/page.h"

/* Most columns of a table. */
enum { TW_PAGE_COLUMNS = 32 };

/* A page that is being built. Opened by twin_page_open, freed by twin_page_close; it owns all
 * below. */
struct twin_page {
    /* of the browser's tab */
    char *title;
    /* body: what stands in <main>; data: the blocks behind it, <script type="text/plain"> elements
     */
    struct tw_buf body, data;
    /* those that a script draws; also the number in the id of the last block. 0: a page without
     * script */
    unsigned pictures;
    /* of each column of the open table: 'n', 't' or ' ' (twin_page_table) */
    char align[TW_PAGE_COLUMNS + 1];
    size_t columns, column; /* of the table that is open */
    /* the runs that have a page of their own, by their numbers; owned */
    uint32_t *linked;
    size_t linked_count;
};

/* Has a call before found no memory? Then nothing more needs to be computed for this page. */
bool tw_page_failed(const struct twin_page *p);
/* The frame of a picture: its question as a heading, its caption ("" for none). class: a CSS class
 * of web/, NULL for none. Ended by tw_page_figure_end. */
void tw_page_figure(struct twin_page *p, const char *question, const char *caption,
                    const char *class);
void tw_page_figure_end(struct twin_page *p);
/* ---- page_runs.c: links to the pages of runs */
/* In a folder of pages: the comparison or the search, and a page of each run (from 1). */
#define TW_RUNS_PAGE "index.html"
enum { TW_RUN_PAGE_NAME = 40 };
void tw_run_page_name(size_t number, char out[TW_RUN_PAGE_NAME]);
/* Text, and an element with text, in which runs that have a page are links to it. */
void tw_page_words(struct twin_page *p, const char *text);
void tw_page_element(struct twin_page *p, const char *tag, const char *class, const char *text);
void tw_page_link(struct twin_page *p, const char *href, const char *text);
/* The file of the run that begins this text ("run 1, rank 0"); false: none, or it has no page. */
bool tw_page_run_file(const struct twin_page *p, const char *text, char out[TW_RUN_PAGE_NAME]);
/* A line that leads to each of them; nothing where there is none. */
void tw_page_run_links(struct twin_page *p);
/* A known case that looks like this: a frame that says that it proves nothing ("no result of this
 * search"). */
void tw_page_hint(struct twin_page *p, const struct twin_hint *h, const char *disclaimer);
#endif
