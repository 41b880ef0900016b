/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SHOW_RECORDS_H
#define TW_REPORT_SHOW_RECORDS_H
/* The records of a trace, for show --step and --record. */
#include "front.h"

#include "src/trace/trace.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tw_records_asked {
    const char *pattern; /* of phase/kind/name; NULL: all */
    bool one_step;       /* only those of step `step` */
    uint32_t step;
};
/*
 * Lists the records that are asked for: as text to out, or into rows when that is not NULL. 0, or a
 * TWIN_E*, said.
 */
int tw_show_records(struct twin_trace *t, const char *path, const struct tw_records_asked *asked,
                    FILE *out, json_t *rows, const struct tw_front *front);

#endif
