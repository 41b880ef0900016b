/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TELEMETRY_H
#define TW_TELEMETRY_H
/* Inside of the telemetry room: tables as they stand in the files, before they become rows of
 * steps. */
#include "base.h"

#include "src/telemetry/telemetry.h"

/* Columns of a table behind t_ns; no file of twinrun has more. */
enum { TW_TABLE_COLUMNS = 48 };
/*
 * Who wrote the table: an agent about its process, or the launcher about its machine or its GPUs.
 */
enum tw_table_kind { TW_TABLE_PROCESS, TW_TABLE_HOST, TW_TABLE_GPUS };

/*
 * One header with its rows; a file may hold several (a process that became another program by
 * exec). tw_tables_free() frees what it points to. Amounts are cumulative, as the files have them.
 */
struct tw_table {
    enum tw_table_kind kind;
    char host[65], role[64];
    int rank, world, pid;           /* of a process */
    char *column[TW_TABLE_COLUMNS]; /* names behind t_ns */
    size_t columns;
    uint64_t *t_ns; /* ascending */
    uint64_t *cell; /* rows * columns; UINT64_MAX: not known */
    /* rows kept: every stride-th of those in the file, and the last */
    size_t rows, stride;
};
#define TW_UNKNOWN UINT64_MAX

/* Appends the tables of one file to *list; of text, which is changed and has a NUL behind it. */
int tw_tables_parse(const char *path, char *text, size_t bytes, struct tw_table **list,
                    size_t *count, struct twin_error *err);
int tw_tables_read(const char *path, struct tw_table **list, size_t *count, struct twin_error *err);
/* Rows of steps out of them. t is zeroed by the caller, who frees it also after an error. */
int tw_telemetry_arrange(const struct tw_table *list, size_t count, struct twin_telemetry *t,
                         struct twin_error *err);
void tw_tables_free(struct tw_table *list, size_t count);
size_t tw_table_column(const struct tw_table *t, const char *name); /* SIZE_MAX: none */

/*
 * What the tables of the machine say of the time from a to b, in ns of the same clock as t_ns: how
 * much an amount grew, or the mean of a level. In the units of the file. NaN: nothing is known.
 */
double tw_table_amount(const struct tw_table *t, const char *column, uint64_t a, uint64_t b);
double tw_table_level(const struct tw_table *t, const char *column, uint64_t a, uint64_t b);

#endif
