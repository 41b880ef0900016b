/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SHOW_H
#define TW_CMD_SHOW_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <twin/trace.h>

struct tw_show_args {
    const char *home, *record;
    uint64_t step; /* TW_NOT_GIVEN: all */
    bool verify, processes, files, notes, provenance, json;
};

/* Lists the records of one trace that the arguments ask for: to stdout, or into rows when that is not NULL. */
int tw_show_records(struct twin_trace *t, const char *path, const struct tw_show_args *a, json_t *rows);

#endif
