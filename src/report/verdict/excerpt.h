/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_EXCERPT_H
#define TW_REPORT_EXCERPT_H
/* A few lines of the source around a place of which a page speaks. */
#include "src/compare/compare.h"
#include "src/launch/run.h"
#include "src/report/page.h"

struct tw_excerpt {
    char *file; /* as the place names it; NULL: it names none, and there is nothing to say */
    /* numbered lines, the one of the place marked; NULL: they are not shown, `why` says why */
    char *lines;
    const char *why; /* static */
};
/*
 * A run keeps no copy of its source, but digests of the program that it was started with and of the
 * files that git does not know. Shown is only a file that still has its digest: lines of another
 * version would put the blame on code that did not run. What looks like a secret is left out.
 * 0 or TWIN_ENOMEM; *out is the caller's to free in any case.
 */
int tw_excerpt_of(const struct twin_run *run, const char *site, struct tw_excerpt *out);
void tw_excerpt_free(struct tw_excerpt *x);
/* Puts the lines around site ("train.py:12 in step") into the page, or why they are not shown. Of a
 * place that names no line nothing: false. who: what the page calls the run. */
bool tw_page_excerpt(struct twin_page *p, const struct twin_run *run, const char *site,
                     const char *who);

#endif
