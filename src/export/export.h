/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_EXPORT_H
#define TW_EXPORT_H
/*
 * Export: recorded runs as tables for other people's tools (DuckDB, pandas, Polars, Spark). The
 * columns are in columns.h; docs/export.md says what each means.
 */
#include "front.h"

#include "src/launch/run.h"

#include <stdbool.h>
#include <stdint.h>

struct tw_export_options {
    const char *folder; /* made when missing */
    bool replace;       /* files that are there already */
};

/* What was written, and what is missing. */
struct tw_export_counts {
    uint64_t traces, records, steps;
    /* traces of which nothing, or not all, could be read; each was said to the front */
    uint64_t broken;
};

/*
 * Writes records.parquet and steps.parquet of these runs into the folder. Neither gets its name
 * before both are whole, and where the second cannot get its name the first one loses it again.
 * What cannot be read is left out, said to front and counted. Errors: TWIN_EINVAL where a file is
 * there already, TWIN_EINTR where front stops it, TWIN_EIO, TWIN_ENOMEM.
 */
int tw_export_parquet(struct twin_run *const *runs, size_t count, const struct tw_export_options *o,
                      const struct tw_front *front, struct tw_export_counts *counts,
                      struct twin_error *err);

#endif
