/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_AREAS_H
#define TW_REPORT_AREAS_H
/*
 * The five areas of evidence that a package is judged by, as pack and audit print them: code, data,
 * environment, configuration, seeds (enum twin_area).
 *
 * An area is a JSON object that src/package fills: "holds", a sentence that says what is there, and
 * "missing", a list of what is not. NULL is an area about which nothing is known: it does not pass.
 */
#include "src/package/package.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Is nothing missing? */
bool tw_area_passes(const json_t *area);
/* The area for --json, with risk and advice where it fails. The caller's; NULL: no memory. */
json_t *tw_area_json(enum twin_area which, const json_t *area);
/* The area as lines of text. explain: also what could be wrong for lack of it, and what to ask the
 * author for. */
void tw_area_print(FILE *out, enum twin_area which, const json_t *area, bool explain);
/* Static strings: what could be wrong when this area fails, and what to ask for. */
const char *tw_area_risk(enum twin_area which);
const char *tw_area_ask(enum twin_area which);
#endif
