/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FORMATS_PARQUET_H
#define TW_FORMATS_PARQUET_H
/*
 * Writes a table as a file of Apache Parquet (format 1; spec: apache/parquet-format), row by row.
 *
 * Of the spec it writes: flat columns, required and optional, of BOOLEAN, INT32, INT64, DOUBLE and
 * BYTE_ARRAY (with the logical type STRING); row groups of a bounded size; in each column of one a
 * single data page of version 1, values PLAIN, definition levels RLE; GZIP by zlib, or UNCOMPRESSED
 * where the build has none; least and greatest value and the count of nulls of each column of a row
 * group, by which readers pass over row groups; a footer in Thrift's compact protocol. No
 * dictionaries, indexes, bloom filters or encryption.
 *
 * The file is written under a temporary name in its folder, and gets its own at the end.
 * Not thread-safe.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* The numbers are the spec's. */
enum tw_parquet_type {
    TW_PARQUET_BOOLEAN = 0,
    TW_PARQUET_INT32 = 1,
    TW_PARQUET_INT64 = 2,
    TW_PARQUET_DOUBLE = 5,
    TW_PARQUET_TEXT = 6 /* BYTE_ARRAY; whoever puts it sees to it that it is UTF-8 */
};

struct tw_parquet_column {
    const char *name;
    enum tw_parquet_type type;
    bool optional; /* a row that puts no value into it has null there */
};

struct tw_parquet;

/* A file under a temporary name beside path. columns must outlive the writer. schema: what the
 * table is, such as "twinrun.records/1"; kept in the file under the key "schema". */
int tw_parquet_open(const char *path, const struct tw_parquet_column *columns, size_t count,
                    const char *schema, struct tw_parquet **out, struct twin_error *err);

/* The value of column c in the row that is being put together; at most once a row, of the column's
 * type. Lack of memory is said by the next tw_parquet_row_end that writes. */
void tw_parquet_bool(struct tw_parquet *w, size_t c, bool v);
void tw_parquet_int(struct tw_parquet *w, size_t c, int64_t v); /* INT32 and INT64 */
void tw_parquet_double(struct tw_parquet *w, size_t c, double v);
void tw_parquet_text(struct tw_parquet *w, size_t c, const char *s, size_t bytes);
/* Ends the row; required columns have a value by now. Writes a row group where one is full. */
int tw_parquet_row_end(struct tw_parquet *w, struct twin_error *err);

/* What is left, the footer, and down to the disk. Then only tw_parquet_place and _free. */
int tw_parquet_finish(struct tw_parquet *w, struct twin_error *err);
/* Gives a finished file its name. A file of that name stays unless replace: TWIN_EINVAL then. */
int tw_parquet_place(struct tw_parquet *w, bool replace, struct twin_error *err);
/* Takes the name back, for who places several files, all or none: then it was not placed, and a
 * file that it replaced is there again (but on a file system without RENAME_EXCHANGE, where the new
 * one stays). Nothing where it has no name. Safe with NULL. */
void tw_parquet_take_back(struct tw_parquet *w);
/* A file that was not placed is deleted. Safe with NULL. */
void tw_parquet_free(struct tw_parquet *w);

#endif
