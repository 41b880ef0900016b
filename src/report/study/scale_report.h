/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SCALE_REPORT_H
#define TW_REPORT_SCALE_REPORT_H
/* A scaling study in words, as a table for programs and as a page. */
#include "scale.h"

#include "src/report/page.h"

#include <stdio.h>

void tw_scale_text(FILE *out, const struct tw_scale *s);
/* All malloc'ed; NULL: no memory. */
char *tw_scale_result_text(const struct tw_scale_result *r);
char *tw_scale_headline(const struct tw_scale *s); /* what the curve says, in a sentence */
char *tw_scale_csv(const struct tw_scale *s);
/* scale_page.c. NULL: no memory */
struct twin_page *tw_scale_draw(const struct tw_scale *s);

#endif
