/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_REPORT_H
#define TW_CMD_REPORT_H
/* Parts of twinrun report that have a file of their own. */
#include "options.h"

struct tw_report_page {
    const char *html, *tolerance;
    const struct tw_strings *ignore;
};
/* Compares the named runs (a single one is only shown) and writes the page. An exit code; said. */
int tw_report_page(const char *home, const struct tw_operands *names,
                   const struct tw_report_page *what);
#endif
