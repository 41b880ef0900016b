/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_CHECKLIST_H
#define TW_REPORT_CHECKLIST_H
/* Reproducibility checklists of venues, answered as far as the evidence of a package goes (audit
 * --checklist). A question that no package can answer is left to the author. */
#include "src/package/package.h"

#include <jansson.h>
#include <stdio.h>

/* The names that --checklist takes, those of operations.h among them, for messages. */
extern const char *const tw_checklist_names;
/* A list of {"item", "answer": "yes"|"no"|"yours", "because"}. "yours": no evidence can say it.
 * name: a venue's; area: as in areas.h. The caller's; NULL: no such checklist, or
 * no memory. */
json_t *tw_checklist(const char *name, json_t *const area[TWIN_AREAS]);
/* Prints such a list, or one of operations.h, with its heading. */
void tw_checklist_print(FILE *out, const char *name, const json_t *list);
#endif
