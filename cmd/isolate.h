/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_ISOLATE_H
#define TW_CMD_ISOLATE_H
/* Inside of twinrun isolate: isolate.c (options, order of events), isolate_result.c (what was
 * found, in words and numbers), isolate_report.c (what is printed and written). The runs are the
 * room src/isolate's. */
#include "data.h"
#include "known.h"
#include "options.h"
#include "search_runs.h"

#include "src/report/isolation.h"

/* ---- isolate_next.c. The command to go on with, or ""; malloc'ed, NULL: no memory. */
char *tw_isolate_next(const struct tw_isolate *c, const struct twin_search_report *r);

/* ---- isolate_result.c */
struct tw_isolate_result {
    struct twin_isolation x; /* its lists and strings belong to the result */
    char **text;
    size_t text_count;
    struct tw_known known;     /* x.hint points into it */
    struct twin_field field;   /* x.field */
    struct twin_curves curves; /* x.curves */
    /* the page in the home is handed around: no text in it has a secret of the command in it */
    struct twin_redactor *redactor;
    bool failed; /* out of memory */
};
void tw_isolate_result(struct tw_isolate *c, const struct twin_search_report *r,
                       struct tw_isolate_result *out);
/* --save-case: the verdict as a case in the home. 0, or TW_EXIT_TROUBLE. */
int tw_isolate_save_case(const struct tw_isolate *c, const struct tw_isolate_result *found);
void tw_isolate_result_free(struct tw_isolate_result *out);

/* ---- isolate_claims.c */
/* verdict.json in the search's folder: what is claimed of the causes, with every run that it rests
 * on and how each pair of runs compares, for python -m twinrun.recheck. Only where a cause is
 * isolated, or there is no divergence. That it cannot be kept is said and no more. */
void tw_isolate_keep_claims(struct tw_isolate *c, const struct twin_search_report *r);

/* ---- isolate_report.c. Prints; returns the exit code. */
int tw_isolate_report(struct tw_isolate *c, const struct twin_search_report *r);
/* The object that --json prints when there is no result: outcome "error" and what was said. Returns
 * code. */
int tw_isolate_json_error(int code);

#endif
