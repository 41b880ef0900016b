/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_ANSWER_H
#define TW_SERVE_ANSWER_H
/* Answers of the API as JSON. Texts are printable, and cut where they are longer than 4 KiB. */
#include "query.h"
#include "state.h"

#include <jansson.h>

struct tw_buf;

/* What the ledger says to a query of SERVE_RUNS, SERVE_RUN, SERVE_VERDICTS or SERVE_SEARCHES.
 * Appends to b. Returns 0, TWIN_ENOENT where there is no such run, or the ledger's error. */
int serve_answer(struct twin_ledger *l, const struct serve_query *q, struct tw_buf *b,
                 struct twin_error *err);
/* The rows of a snapshot that a query of SERVE_INDICATORS wants: twinrun.slo/1. */
void serve_indicators(const struct serve_state *s, const struct serve_query *q, struct tw_buf *b);
/* A comparison as the list of verdicts has it. NULL: no memory. */
json_t *serve_verdict_json(const struct twin_ledger_comparison *c);
/* A text as somebody else wrote it, made printable and cut. One that is printable already is
 * json_string: this would escape its escapes. */
json_t *serve_text(const char *s);
/* Appends j, which is given up, on one line, ASCII alone. */
void serve_put_json(json_t *j, struct tw_buf *b);
/* {"schema": "twinrun.error/1", "error": why}; why: a sentence, the values in which may be
 * printable already. */
void serve_error(const char *why, struct tw_buf *b);
/* The JSON Schema of this name; NULL: there is none. The list of all names is an answer, too. */
const char *serve_schema(const char *name, size_t *bytes);
void serve_schema_list(struct tw_buf *b);
/* An event of /api/v1/events: "event: ..." and "data: ...", without an id. malloc'ed; NULL: no
 * memory. f: NULL where the run has none. */
char *serve_run_event(const struct twin_ledger_run *r, const struct twin_ledger_facts *f);
char *serve_verdict_event(const struct twin_ledger_comparison *c);

/* The overview page. s NULL: nothing is known yet. up, age_s: as in metrics. */
void serve_page(const struct serve_state *s, bool up, double age_s, struct tw_buf *b);

#endif
