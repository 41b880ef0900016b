/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SHOW_PROVENANCE_H
#define TW_REPORT_SHOW_PROVENANCE_H
/* What surrounded a run (show --provenance), and what differs between the worlds of two (diff
 * --env). The facts are those of provenance.json, which src/provenance writes, reads and
 * compares. */
#include "front.h"
#include "paragraphs.h"

#include "src/provenance/provenance.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Both write text to out, or, where json is not NULL, an object into *json (the caller's; NULL: no
 * memory). What went wrong is said to front. 0, or a TWIN_E*. */
int tw_show_provenance(const struct twin_run *r, FILE *out, json_t **json,
                       const struct tw_front *front);
/* *differ: there is a difference that is more than a name or a place. */
int tw_diff_environment(const struct twin_run *a, const struct twin_run *b, FILE *out,
                        const struct tw_look *look, json_t **json, bool *differ,
                        const struct tw_front *front);

#endif
