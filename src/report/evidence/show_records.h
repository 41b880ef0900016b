/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SHOW_RECORDS_H
#define TW_REPORT_SHOW_RECORDS_H
/* The records of a trace, for show --step and --record: as a table for people or as rows for
 * programs. */
#include "front.h"

#include "src/trace/trace.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Which records are listed. */
struct tw_records_asked {
    const char *pattern; /* glob over "phase/kind/name"; NULL: all */
    bool one_step;       /* only those of step `step` */
    uint32_t step;
};
/* Lists the records of t that are asked for: as text to out, or appended to rows, an array, when
 * that is not NULL. path: the trace's file, for the heading and for messages. 0, or a TWIN_E*,
 * which was said to front. */
int tw_show_records(struct twin_trace *t, const char *path, const struct tw_records_asked *asked,
                    FILE *out, json_t *rows, const struct tw_front *front);

#endif
