/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SCALE_REPORT_H
#define TW_REPORT_SCALE_REPORT_H
/* A scaling study (src/study/scale.h) in words, as a table for programs and as a page. */
#include "scale.h"

#include "src/report/page.h"

#include <stdio.h>

/* For people: speed, then results, then what qualifies both. */
void tw_scale_text(FILE *out, const struct tw_scale *s);
/* Are the weights at the end those of the base? In words, one line. malloc'ed; NULL: no memory. */
char *tw_scale_result_text(const struct tw_scale_result *r);
/* The next two are malloc'ed as well; NULL: no memory. The CSV has a line for each number of
 * workers. */
char *tw_scale_headline(const struct tw_scale *s); /* what the curve says, in a sentence */
char *tw_scale_csv(const struct tw_scale *s);
/* The study as a page (scale_page.c), for tw_page_save; NULL: no memory. */
struct twin_page *tw_scale_draw(const struct tw_scale *s);

#endif
