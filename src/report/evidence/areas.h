/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_AREAS_H
#define TW_REPORT_AREAS_H
/* The five lines of pack and audit: code, data, environment, configuration, seeds. */
#include "src/package/package.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

bool tw_area_passes(const json_t *area); /* nothing is missing */
json_t *tw_area_json(enum twin_area which, const json_t *area);
/* explain: what could be wrong for lack of it, and what to ask for. */
void tw_area_print(FILE *out, enum twin_area which, const json_t *area, bool explain);
const char *tw_area_risk(enum twin_area which);
const char *tw_area_ask(enum twin_area which);
#endif
