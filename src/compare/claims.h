/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_CLAIMS_H
#define TW_COMPARE_CLAIMS_H
/* How the files of claims put JSON together. A NULL value means that memory ran out, and makes all
 * that it is put into NULL. */
#include <jansson.h>

#include "internal.h"
#include "json_text.h"
#include "scan.h"

/* of what a tolerance allows; below 0: nothing was measured */
json_t *tw_claim_share(double share);
void tw_claim_put(json_t **object, const char *key, json_t *value);
void tw_claim_append(json_t **list, json_t *item);
/* Keeps a claim that is made while comparing; takes the evidence. */
void tw_claim_add(struct tw_cmp *c, const char *kind, json_t *evidence);
/* Which two processes: "runs", "rank", "process", "traces", of a zoom pair "zoom". */
json_t *tw_claim_process(const struct tw_cmp *c, const struct tw_pair *p);
/* By which rules records may be left out of "equal"; the second reader knows each by its name. */
json_t *tw_claim_rules(const struct tw_cmp *c, const struct tw_scan *s);
/* Does the finding speak of a record in a trace? The others speak of ends, lines and files. */
bool tw_claim_is_record(const struct twin_finding *f);
json_t *tw_claim_evidence(const struct twin_finding *f, const struct twin_evidence *e);
const char *tw_claim_trace(const struct tw_proc *p); /* its path below the run folder */
/* The claim behind the line "size", when there is one. */
void tw_claim_size(json_t **list, const struct twin_verdict *v);
#endif
