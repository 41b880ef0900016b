/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_ISOLATE_RESULT_H
#define TW_REPORT_ISOLATE_RESULT_H
/* What a search found, in the words and numbers that text, JSON and page are made from, and these
 * forms of it. */
#include "known.h"
#include "paragraphs.h"
#include "search_runs.h"

#include "src/report/isolation.h"

#include <jansson.h>
#include <stdio.h>

/* ---- isolate_result.c */
struct tw_isolate_result {
    struct twin_isolation x; /* its lists and strings belong to the result */
    char **text;
    size_t text_count;
    struct tw_known known;     /* x.hint points into it */
    struct twin_field field;   /* x.field */
    struct twin_curves curves; /* x.curves */
    struct twin_verdict
        *open; /* of the first natural pair that is not the same for sure, or NULL */
    /* the page in the home is handed around: no text in it has a secret of the command in it */
    struct twin_redactor *redactor;
    bool failed; /* out of memory */
};
/* next, then: the commands to go on with, or ""; malloc'ed and taken; NULL: there was no memory. */
void tw_isolate_result(struct tw_isolate *c, const struct twin_search_report *r, char *next,
                       char *then, struct tw_isolate_result *out);
/* Adds the known cases that look alike. */
void tw_isolate_look_up(struct tw_isolate *c, struct tw_isolate_result *out);
/* Writes the verdict as a case into the home; the front is told where, or that there is none. 0, or
 * a TWIN_E*. */
int tw_isolate_save_case(const struct tw_isolate *c, const struct tw_isolate_result *found,
                         const char *id, struct twin_error *err);
/* Writes the page of the search into its folder, and to html unless that is NULL: a file, or a
 * folder, which gets index.html and a page of each run. 0, or a TWIN_E*. */
int tw_isolate_save_pages(struct tw_isolate *c, const struct tw_isolate_result *found,
                          const char *html, struct twin_error *err);
void tw_isolate_result_free(struct tw_isolate_result *out);

/* ---- isolate_report.c */
/* all: with everything that the answer rests on (-v), which is on the page, too */
void tw_isolate_text(FILE *out, const struct tw_look *look, const struct tw_isolate *c,
                     const struct twin_isolation *x, const struct twin_search_report *r, bool all);
/* The caller's; NULL: no memory. */
json_t *tw_isolate_json(const struct tw_isolate *c, const struct twin_isolation *x,
                        const struct twin_search_report *r);

/* ---- isolate_claims.c */
/* verdict.json in the search's folder: what is claimed of the causes, with every run that it rests
 * on and how each pair of runs compares, for python -m twinrun.recheck. Only where a cause is
 * isolated, or there is no divergence. That it cannot be kept is said and no more. */
void tw_isolate_keep_claims(struct tw_isolate *c, const struct twin_search_report *r);

#endif
