/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SHOW_H
#define TW_CMD_SHOW_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <twin/trace.h>

struct tw_show_args {
    const char *home, *record, *ledger;
    uint64_t step; /* TW_NOT_GIVEN: all */
    bool verify, processes, files, notes, provenance, json;
};

/* ---- show_ledger.c: what the ledger knows. j NULL: as text to stdout. */
void tw_show_comparisons(const char *home, const char *url, const char *id, json_t *j);
/* Shows a run whose folder was removed. -1: the ledger knows no such run, or several; nothing was printed. */
int tw_show_gone(const char *home, const char *url, const char *spec, bool json);

/* Lists the records of one trace that the arguments ask for: to stdout, or into rows when that is not NULL. */
int tw_show_records(struct twin_trace *t, const char *path, const struct tw_show_args *a, json_t *rows);

#endif
