/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_PAGE_FILE_H
#define TW_REPORT_PAGE_FILE_H
/* A page as a file of the user's. */
#include "src/report/page.h"

#include <twin/error.h>

/* Could a page be written there? To be asked before an hour of runs. path may be NULL, which is
 * fine. 0, or a TWIN_E*. */
int tw_page_may_save(const char *path, struct twin_error *err);
/* Ends and closes the page (NULL: there was no memory for it) and writes it. 0, or a TWIN_E*. */
int tw_page_save(struct twin_page *p, const char *path, struct twin_error *err);

#endif
