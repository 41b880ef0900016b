/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_PRECISION_WORDS_H
#define TW_REPORT_PRECISION_WORDS_H
/* What twinrun verify says of a run and a precision policy, which it calls by its name. */
#include "src/launch/run.h"
#include "src/provenance/precision.h"

#include <jansson.h>
#include <stdio.h>

/* The caller's; NULL: no memory. */
json_t *tw_precision_json(const struct twin_precision_verdict *v, const char *policy,
                          const struct twin_run *run);
/* 0, or TWIN_ENOMEM: then not all is printed. */
int tw_precision_text(FILE *out, const struct twin_precision_verdict *v, const char *policy,
                      const struct twin_run *run);

#endif
