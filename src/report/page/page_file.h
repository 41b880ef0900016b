/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_PAGE_FILE_H
#define TW_REPORT_PAGE_FILE_H
/* A page as a file of the user's. */
#include "src/report/page.h"

#include <twin/error.h>

/* Could a page be written to path? To be asked before an hour of runs, not after it. path may be
 * NULL: no page is wanted, which is fine. 0, or a TWIN_E* whose message names the folder. */
int tw_page_may_save(const char *path, struct twin_error *err);
/* The same for pages that may also become several, in a folder that is there. */
int tw_pages_may_save(const char *path, struct twin_error *err);
/* Is there a folder of that name? */
bool tw_page_is_folder(const char *path);
/* Finishes the page, closes it in any case, and writes it to path as a whole or not at all. p NULL:
 * there was no memory for the page, which is reported. 0, or a TWIN_E*. */
int tw_page_save(struct twin_page *p, const char *path, struct twin_error *err);

#endif
