/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_PAGE_H
#define TW_CMD_PAGE_H
/* --html of every command. */
#include "src/report/page.h"

#define TW_HTML_ROW(args, field, help) \
    {"html", 0, TW_OPT_FILE, "FILE", NULL, "Output", help, offsetof(struct args, field)}
#define TW_HTML_WORDS "also write the report as one HTML file that opens offline"

#define TW_HTML_OPTION(args, field) TW_HTML_ROW(args, field, TW_HTML_WORDS)
/* Of commands that compare runs. */
#define TW_PAGES_OPTION(args, field)                                                  \
    TW_HTML_ROW(args, field,                                                          \
                TW_HTML_WORDS "; into a folder that is there, index.html and a page " \
                              "of each run, which lead to each other")

/* A page that cannot be written is found out now and not after an hour of runs. path may be NULL.
 * 0, or an exit code; said. */
int tw_page_check(const char *verb, const char *path);
/* The same where --html may name a folder. */
int tw_pages_check(const char *verb, const char *path);
/* Ends and closes the page (NULL: there was no memory for it) and writes it. 0, or an exit code;
 * said. */
int tw_page_write(const char *verb, struct twin_page *p, const char *path);
#endif
