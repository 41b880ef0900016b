/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SHRINK_REPORT_H
#define TW_REPORT_SHRINK_REPORT_H
/* What shrink found (src/study/shrink.h), in words and as JSON. */
#include "shrink.h"

#include <jansson.h>
#include <stdio.h>

/*
 * command: the smallest command that still diverges, as one could type it; only where the job
 * diverged. NULL: none.
 */
void tw_shrink_text(FILE *out, const struct tw_shrink *c, enum tw_shrink_outcome outcome,
                    const char *command);
/* The caller's; NULL: no memory. */
json_t *tw_shrink_json(const struct tw_shrink *c, enum tw_shrink_outcome outcome,
                       const char *command);

#endif
