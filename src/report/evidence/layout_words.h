/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_LAYOUT_WORDS_H
#define TW_REPORT_LAYOUT_WORDS_H
/* What twinrun verify says of data that other tools keep. */
#include "base.h"

#include "src/snapshot/layout.h"

#include <jansson.h>
#include <stdio.h>

/* What is gathered while files are looked at. Zeroed; `list` an array where JSON is wanted. */
struct tw_layout_told {
    bool json;
    json_t *list;
    struct twin_layout_sum sum;
    struct tw_buf text; /* lines: the verdict goes above them */
};
/* For twin_layout_verify; user is a struct tw_layout_told. */
void tw_layout_tell(void *user, const struct twin_layout_result *r);
/* The caller's; NULL: no memory. */
json_t *tw_layout_json(enum twin_layout layout, const char *target, const struct tw_layout_told *p,
                       long differences);
/* 0, or TWIN_ENOMEM: then not all is printed. */
int tw_layout_text(FILE *out, const char *target, const struct tw_layout_told *p, long differences);

#endif
