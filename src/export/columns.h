/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_EXPORT_COLUMNS_H
#define TW_EXPORT_COLUMNS_H
/* The two tables: their columns, and a row of each (columns.c). */
#include "src/formats/parquet.h"
#include "src/trace/trace.h"

#include <stddef.h>
#include <twin/error.h>

/* A text of a trace as it stands in the tables: printable, as `show --json` has it. */
struct tw_export_text {
    char *text; /* NULL: not made yet */
    size_t bytes;
};

/* A trace that is exported, with what is the same in all of its rows. */
struct tw_export_trace {
    struct twin_trace *trace;
    const char *path, *run; /* run: its id */
    char *role;             /* of the process; printable */
    /* by string id; made when first needed */
    struct tw_export_text *texts;
    size_t text_room;
};

#define TW_EXPORT_RECORDS_SCHEMA "twinrun.records/1"
#define TW_EXPORT_STEPS_SCHEMA "twinrun.steps/1"
extern const struct tw_parquet_column tw_export_record_columns[];
extern const size_t tw_export_record_column_count;
extern const struct tw_parquet_column tw_export_step_columns[];
extern const size_t tw_export_step_column_count;

/* A row of either table. */
int tw_export_record(struct tw_parquet *w, struct tw_export_trace *t,
                     const struct twin_trace_record *r, struct twin_error *err);
int tw_export_step(struct tw_parquet *w, const struct tw_export_trace *t,
                   const struct twin_step_hash *h, struct twin_error *err);

#endif
