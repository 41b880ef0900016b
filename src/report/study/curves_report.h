/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_CURVES_REPORT_H
#define TW_REPORT_CURVES_REPORT_H
/*
 * Runs that twinrun did not record (src/study/curves.h), in words, as JSON and as a page: their
 * curves, how far they lie apart, and what cannot be said of them. None of the three says that two
 * of them are the same: the numbers that were imported are equal, and that is all.
 */
#include "curves.h"

#include "src/report/page.h"

#include <jansson.h>
#include <stdio.h>

struct tw_curves_report {
    const struct tw_curves *file;
    const struct tw_curves_noise *noise; /* of each file */
    size_t files;
};

void tw_curves_text(FILE *out, const struct tw_curves_report *r);
/* The caller's; NULL: no memory. Every digit counts: print it exactly. */
json_t *tw_curves_json(const struct tw_curves_report *r);
/* NULL: no memory. */
struct twin_page *tw_curves_page(const struct tw_curves_report *r);

#endif
