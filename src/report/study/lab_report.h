/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_LAB_REPORT_H
#define TW_REPORT_LAB_REPORT_H
/* The lab in words, as JSON and as a page. */
#include "lab.h"

#include "src/report/page.h"

#include <stdio.h>

/* Before the first step; after each, as soon as it is done; at the end. out is flushed by the first
 * two, since a lab takes minutes. width: of the terminal; 0: there is none. */
void tw_lab_head_text(FILE *out, unsigned width, const struct tw_lab *lab);
void tw_lab_step_text(FILE *out, unsigned width, const struct tw_lab *lab,
                      const struct tw_lab_step *s);
void tw_lab_end_text(FILE *out, unsigned width, const struct tw_lab *lab);
/* The caller's; NULL: no memory. Every digit counts: print it exactly. */
json_t *tw_lab_json(const struct tw_lab *lab);
/* lab_page.c. The caller's; NULL: no memory. */
struct twin_page *tw_lab_page(const struct tw_lab *lab);
/* lab_audit.c: a tw_lab_audit, by twinrun audit. */
int tw_lab_audit_run(const struct twin_run *run, json_t *areas, struct twin_error *err);

#endif
