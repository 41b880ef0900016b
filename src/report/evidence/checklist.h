/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_CHECKLIST_H
#define TW_REPORT_CHECKLIST_H
/* Venues' reproducibility checklists, answered as far as the evidence goes. */
#include "src/package/package.h"

#include <jansson.h>
#include <stdio.h>

/* The names that --checklist takes, for messages. */
extern const char *const tw_checklist_names;
/* A list of {"item", "answer": "yes"|"no"|"yours", "because"}; NULL: no such checklist. "yours": no
 * evidence can say it. */
json_t *tw_checklist(const char *name, json_t *const area[TWIN_AREAS]);
void tw_checklist_print(FILE *out, const char *name, const json_t *list);
#endif
