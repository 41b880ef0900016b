/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writer of Parquet files. A column collects the values of a row group in memory; the row group is
 * written when it is full, and only its description is kept: it stands in the footer, which is at
 * the end of the file. So memory depends on the size of a row group and not on that of the table.
 */
#include "parquet.h"

#include "base.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef TW_HAVE_ZLIB
#include <zlib.h>
#endif

/* A row group ends at so many rows, or when its values take so many bytes. */
enum { GROUP_ROWS = 131072, GROUP_BYTES = 32 << 20 };
/* Texts longer than this make no least and greatest value: they would fill the footer. */
enum { STATISTICS_BYTES = 64 };
/* Bytes of values that tw_buf takes for one column: more than a row group and one more row have. */
enum { COLUMN_BYTES = 1 << 30 };

/* Where a text of a column begins in its buffer, and how long it is. */
struct span {
    size_t at, bytes;
};

/* The values of one column in the row group that is being filled. Values of BOOLEAN take a byte
 * each until they are written. */
struct column {
    struct tw_buf values;
    unsigned char has[GROUP_ROWS / 8]; /* a bit for each row: it has a value */
    uint32_t given;                    /* values put so far */
    bool nan;
    int64_t least, greatest;
    double least_real, greatest_real;
    struct span least_text, greatest_text;
};

struct tw_parquet {
    const struct tw_parquet_column *columns;
    struct column *column;
    size_t count;
    char *schema, *path, *temp;
    int fd;
    uint64_t offset, rows;
    uint32_t group_rows, groups;
    size_t group_bytes;       /* of the values in the columns */
    struct tw_buf described;  /* the row groups that were written, as they stand in the footer */
    struct tw_buf page, body; /* what is being written; packed, and before */
    bool finished, placed;
    bool exchanged; /* temp is the file that was there before */
    bool replaced;  /* there was one, and it is gone */
};

/* ---- Thrift's compact protocol: a structure is a sequence of fields, each with the distance of
 * its number to the one before, and its type */

enum thrift_type { T_I32 = 5, T_I64 = 6, T_BINARY = 8, T_LIST = 9, T_STRUCT = 12 };

struct thrift {
    struct tw_buf *to;
    int last; /* number of the field before */
};

static void put_byte(struct tw_buf *to, unsigned char byte)
{
    tw_buf_append(to, &byte, 1);
}

static void put_varint(struct tw_buf *to, uint64_t v)
{
    for (; v > 0x7F; v >>= 7)
        put_byte(to, (unsigned char)(v | 0x80));
    put_byte(to, (unsigned char)v);
}

static void put_zigzag(struct tw_buf *to, int64_t v)
{
    put_varint(to, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void put_binary(struct tw_buf *to, const void *data, size_t bytes)
{
    put_varint(to, bytes);
    tw_buf_append(to, data, bytes);
}

/* Our fields lie less than 16 numbers apart, so the short form always does. */
static void put_field(struct thrift *t, int id, enum thrift_type type)
{
    assert(id > t->last && id - t->last < 16);
    put_byte(t->to, (unsigned char)((id - t->last) << 4 | type));
    t->last = id;
}

static void put_i32(struct thrift *t, int id, int32_t v)
{
    put_field(t, id, T_I32);
    put_zigzag(t->to, v);
}

static void put_i64(struct thrift *t, int id, int64_t v)
{
    put_field(t, id, T_I64);
    put_zigzag(t->to, v);
}

static void put_string(struct thrift *t, int id, const char *s)
{
    put_field(t, id, T_BINARY);
    put_binary(t->to, s, strlen(s));
}

static void put_list(struct thrift *t, int id, enum thrift_type type, size_t count)
{
    put_field(t, id, T_LIST);
    if (count < 15) {
        put_byte(t->to, (unsigned char)(count << 4 | type));
        return;
    }
    put_byte(t->to, (unsigned char)(0xF0 | type));
    put_varint(t->to, count);
}

static struct thrift put_struct(struct thrift *t, int id)
{
    put_field(t, id, T_STRUCT);
    return (struct thrift){t->to, 0};
}

static void put_end(struct thrift *t)
{
    put_byte(t->to, 0);
}

/* ---- values of a row */

/* Marks the value of this row as there; true: it is the first of the row group. */
static bool begin_value(struct tw_parquet *w, size_t c, enum tw_parquet_type type)
{
    struct column *column = &w->column[c];
    assert(c < w->count && w->columns[c].type == type && !w->finished);
    assert(!(column->has[w->group_rows / 8] >> w->group_rows % 8 & 1));
    column->has[w->group_rows / 8] |= (unsigned char)(1u << w->group_rows % 8);
    return column->given++ == 0;
}

static void append(struct tw_parquet *w, size_t c, const void *data, size_t bytes)
{
    tw_buf_append(&w->column[c].values, data, bytes);
    w->group_bytes += bytes;
}

void tw_parquet_bool(struct tw_parquet *w, size_t c, bool v)
{
    const unsigned char byte = v;
    begin_value(w, c, TW_PARQUET_BOOLEAN);
    append(w, c, &byte, 1);
}

void tw_parquet_int(struct tw_parquet *w, size_t c, int64_t v)
{
    const bool narrow = w->columns[c].type == TW_PARQUET_INT32;
    struct column *column = &w->column[c];
    assert(!narrow || (v >= INT32_MIN && v <= INT32_MAX));
    const bool first = begin_value(w, c, narrow ? TW_PARQUET_INT32 : TW_PARQUET_INT64);
    if (first || v < column->least)
        column->least = v;
    if (first || v > column->greatest)
        column->greatest = v;
    append(w, c, &v, narrow ? 4 : 8); /* little-endian, as every machine that we run on is */
}

void tw_parquet_double(struct tw_parquet *w, size_t c, double v)
{
    struct column *column = &w->column[c];
    const bool first = begin_value(w, c, TW_PARQUET_DOUBLE);
    column->nan |= isnan(v);
    if (first || v < column->least_real)
        column->least_real = v;
    if (first || v > column->greatest_real)
        column->greatest_real = v;
    append(w, c, &v, sizeof v);
}

/* Which of two texts of the column comes first; bytes without sign, as the spec orders them. */
static int order(const struct column *column, struct span x, struct span y)
{
    const size_t both = x.bytes < y.bytes ? x.bytes : y.bytes;
    const int order = memcmp(column->values.data + x.at, column->values.data + y.at, both);
    if (order)
        return order;
    return (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

void tw_parquet_text(struct tw_parquet *w, size_t c, const char *s, size_t bytes)
{
    struct column *column = &w->column[c];
    const uint32_t length = (uint32_t)bytes;
    assert(bytes < COLUMN_BYTES);
    const bool first = begin_value(w, c, TW_PARQUET_TEXT);
    append(w, c, &length, sizeof length);
    const struct span span = {column->values.len, bytes};
    append(w, c, s, bytes);
    if (column->values.failed)
        return;
    if (first || order(column, span, column->least_text) < 0)
        column->least_text = span;
    if (first || order(column, span, column->greatest_text) > 0)
        column->greatest_text = span;
}

/* ---- row groups */

static int put_out(struct tw_parquet *w, const struct tw_buf *b, struct twin_error *err)
{
    if (b->failed)
        return tw_no_memory(err, "writing %s", w->path);
    if (tw_write_all(w->fd, b->data, b->len) != 0)
        return twin_error_system(err, "cannot write %s", w->path);
    w->offset += b->len;
    return 0;
}

/* Which rows have a value: one run of equal levels, or all of them bit by bit. */
static void put_levels(struct tw_buf *to, const struct column *column, uint32_t rows)
{
    struct tw_buf levels = {0};
    if (column->given == rows || column->given == 0) {
        put_varint(&levels, (uint64_t)rows << 1);
        put_byte(&levels, column->given != 0);
    } else {
        const uint32_t bytes = (rows + 7) / 8; /* a group of the spec has 8 levels, here a byte */
        put_varint(&levels, (uint64_t)bytes << 1 | 1);
        tw_buf_append(&levels, column->has, bytes);
    }
    const uint32_t length = (uint32_t)levels.len;
    tw_buf_append(to, &length, sizeof length);
    tw_buf_append(to, levels.data, levels.len);
    if (levels.failed)
        to->failed = levels.failed;
    tw_buf_free(&levels);
}

/* The values; those of BOOLEAN become a bit each. */
static void put_values(struct tw_buf *to, const struct column *column, enum tw_parquet_type type)
{
    const struct tw_buf *values = &column->values;
    if (values->failed)
        to->failed = values->failed;
    if (type != TW_PARQUET_BOOLEAN) {
        tw_buf_append(to, values->data, values->len);
        return;
    }
    for (size_t i = 0; i < values->len; i += 8) {
        unsigned char bits = 0;
        for (size_t k = 0; k < 8 && i + k < values->len; k++)
            bits |= (unsigned char)(values->data[i + k] << k);
        put_byte(to, bits);
    }
}

#ifdef TW_HAVE_ZLIB
enum { CODEC = 2 /* GZIP */, GZIP_WINDOW = 15 + 16, GZIP_LEVEL = 1 };

/* Appends body, packed, to `to`. Level 1: the others take several times as long for a tenth. */
static int pack(struct tw_buf *to, const struct tw_buf *body)
{
    z_stream z = {0};
    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return TWIN_ENOMEM;
    unsigned char chunk[65536];
    int rc = Z_OK;
    z.next_in = (unsigned char *)body->data;
    z.avail_in = (uInt)body->len;
    while (rc == Z_OK) {
        z.next_out = chunk;
        z.avail_out = sizeof chunk;
        rc = deflate(&z, Z_FINISH);
        tw_buf_append(to, chunk, sizeof chunk - z.avail_out);
    }
    deflateEnd(&z);
    return rc == Z_STREAM_END ? to->failed : TWIN_ENOMEM;
}
#else
enum { CODEC = 0 /* UNCOMPRESSED */ };

static int pack(struct tw_buf *to, const struct tw_buf *body)
{
    return tw_buf_append(to, body->data, body->len);
}
#endif

/* Numbers are written as values are; zero has two signs, and the spec asks for the wider range. A
 * column with a NaN gets no range: NaN is in none, and a reader might pass over it. */
static void put_range(struct thrift *t, const struct column *column, enum tw_parquet_type type)
{
    const struct span least = column->least_text, greatest = column->greatest_text;
    double low = column->least_real, high = column->greatest_real;
    if (type == TW_PARQUET_TEXT && !column->values.failed && least.bytes <= STATISTICS_BYTES &&
        greatest.bytes <= STATISTICS_BYTES) {
        put_field(t, 5, T_BINARY);
        put_binary(t->to, column->values.data + greatest.at, greatest.bytes);
        put_field(t, 6, T_BINARY);
        put_binary(t->to, column->values.data + least.at, least.bytes);
    } else if (type == TW_PARQUET_INT32 || type == TW_PARQUET_INT64) {
        put_field(t, 5, T_BINARY);
        put_binary(t->to, &column->greatest, type == TW_PARQUET_INT32 ? 4 : 8);
        put_field(t, 6, T_BINARY);
        put_binary(t->to, &column->least, type == TW_PARQUET_INT32 ? 4 : 8);
    } else if (type == TW_PARQUET_DOUBLE && !column->nan) {
        low = low == 0 ? -0.0 : low;
        high = high == 0 ? 0.0 : high;
        put_field(t, 5, T_BINARY);
        put_binary(t->to, &high, sizeof high);
        put_field(t, 6, T_BINARY);
        put_binary(t->to, &low, sizeof low);
    }
}

/* Describes the column of a row group in the footer (ColumnChunk). at: where its page begins;
 * packed, unpacked: bytes with the page's header. */
static void describe_column(struct tw_parquet *w, size_t c, uint64_t at, uint64_t packed,
                            uint64_t unpacked)
{
    const struct column *column = &w->column[c];
    struct thrift chunk = {&w->described, 0};
    put_i64(&chunk, 2, (int64_t)at);
    struct thrift t = put_struct(&chunk, 3); /* ColumnMetaData */
    put_i32(&t, 1, w->columns[c].type);
    put_list(&t, 2, T_I32, 2);
    put_zigzag(t.to, 0); /* PLAIN */
    put_zigzag(t.to, 3); /* RLE */
    put_list(&t, 3, T_BINARY, 1);
    put_binary(t.to, w->columns[c].name, strlen(w->columns[c].name));
    put_i32(&t, 4, CODEC);
    put_i64(&t, 5, w->group_rows);
    put_i64(&t, 6, (int64_t)unpacked);
    put_i64(&t, 7, (int64_t)packed);
    put_i64(&t, 9, (int64_t)at);
    struct thrift statistics = put_struct(&t, 12);
    put_i64(&statistics, 3, w->group_rows - column->given);
    if (column->given)
        put_range(&statistics, column, w->columns[c].type);
    put_end(&statistics);
    put_end(&t);
    put_end(&chunk);
}

/* Writes the page of one column. unpacked, packed: its bytes are added. */
static int write_column(struct tw_parquet *w, size_t c, uint64_t *unpacked, uint64_t *packed,
                        struct twin_error *err)
{
    const struct column *column = &w->column[c];
    struct tw_buf head = {0};
    const uint64_t at = w->offset;
    w->page.len = w->body.len = 0;
    if (w->columns[c].optional)
        put_levels(&w->body, column, w->group_rows);
    put_values(&w->body, column, w->columns[c].type);
    if (w->body.failed || pack(&w->page, &w->body) != 0)
        return tw_no_memory(err, "writing %s", w->path);
    struct thrift t = {&head, 0}; /* PageHeader */
    put_i32(&t, 1, 0);            /* DATA_PAGE */
    put_i32(&t, 2, (int32_t)w->body.len);
    put_i32(&t, 3, (int32_t)w->page.len);
    struct thrift data = put_struct(&t, 5);
    put_i32(&data, 1, (int32_t)w->group_rows);
    put_i32(&data, 2, 0); /* values: PLAIN */
    put_i32(&data, 3, 3); /* definition levels: RLE */
    put_i32(&data, 4, 3); /* repetition levels: RLE; there are none */
    put_end(&data);
    put_end(&t);
    int rc = put_out(w, &head, err);
    if (rc == 0)
        rc = put_out(w, &w->page, err);
    describe_column(w, c, at, head.len + w->page.len, head.len + w->body.len);
    *unpacked += head.len + w->body.len;
    *packed += head.len + w->page.len;
    tw_buf_free(&head);
    return rc;
}

static void clear_column(struct column *column)
{
    column->values.len = 0;
    memset(column->has, 0, sizeof column->has);
    column->given = 0;
    column->nan = false;
}

static int write_group(struct tw_parquet *w, struct twin_error *err)
{
    const uint64_t at = w->offset;
    uint64_t unpacked = 0, packed = 0;
    struct thrift t = {&w->described, 0}; /* RowGroup */
    int rc = 0;
    put_list(&t, 1, T_STRUCT, w->count);
    for (size_t c = 0; rc == 0 && c < w->count; c++)
        rc = write_column(w, c, &unpacked, &packed, err);
    put_i64(&t, 2, (int64_t)unpacked);
    put_i64(&t, 3, w->group_rows);
    put_i64(&t, 5, (int64_t)at);
    put_i64(&t, 6, (int64_t)packed);
    put_end(&t);
    if (rc == 0 && w->described.failed)
        rc = tw_no_memory(err, "writing %s", w->path);
    for (size_t c = 0; c < w->count; c++)
        clear_column(&w->column[c]);
    w->groups++;
    w->group_rows = 0;
    w->group_bytes = 0;
    return rc;
}

int tw_parquet_row_end(struct tw_parquet *w, struct twin_error *err)
{
    for (size_t c = 0; c < w->count; c++)
        assert(w->columns[c].optional ||
               w->column[c].has[w->group_rows / 8] >> w->group_rows % 8 & 1);
    w->rows++;
    w->group_rows++;
    return w->group_rows == GROUP_ROWS || w->group_bytes >= GROUP_BYTES ? write_group(w, err) : 0;
}

/* ---- the file */

/* The table's shape in the footer: the root, then a leaf for each column (SchemaElement). */
static void put_schema(struct thrift *t, const struct tw_parquet *w)
{
    put_list(t, 2, T_STRUCT, w->count + 1);
    struct thrift root = {t->to, 0};
    put_string(&root, 4, "table");
    put_i32(&root, 5, (int32_t)w->count);
    put_end(&root);
    for (size_t c = 0; c < w->count; c++) {
        struct thrift leaf = {t->to, 0};
        put_i32(&leaf, 1, w->columns[c].type);
        put_i32(&leaf, 3, w->columns[c].optional);
        put_string(&leaf, 4, w->columns[c].name);
        if (w->columns[c].type == TW_PARQUET_TEXT) {
            put_i32(&leaf, 6, 0); /* UTF8, for readers older than logical types */
            struct thrift logical = put_struct(&leaf, 10);
            struct thrift string = put_struct(&logical, 1);
            put_end(&string);
            put_end(&logical);
        }
        put_end(&leaf);
    }
}

/* FileMetaData, its length, and the magic again. */
static int write_footer(struct tw_parquet *w, struct twin_error *err)
{
    struct tw_buf b = {0};
    struct thrift t = {&b, 0};
    put_i32(&t, 1, 1); /* version of the format */
    put_schema(&t, w);
    put_i64(&t, 3, (int64_t)w->rows);
    put_list(&t, 4, T_STRUCT, w->groups);
    tw_buf_append(&b, w->described.data, w->described.len);
    put_list(&t, 5, T_STRUCT, 1);
    struct thrift pair = {&b, 0};
    put_string(&pair, 1, "schema");
    put_string(&pair, 2, w->schema);
    put_end(&pair);
    put_string(&t, 6, "twinrun");
    put_list(&t, 7, T_STRUCT, w->count); /* without these, readers leave ranges alone */
    for (size_t c = 0; c < w->count; c++) {
        struct thrift column_order = {&b, 0};
        struct thrift by_type = put_struct(&column_order, 1);
        put_end(&by_type);
        put_end(&column_order);
    }
    put_end(&t);
    const uint32_t length = (uint32_t)b.len;
    tw_buf_append(&b, &length, sizeof length);
    tw_buf_append(&b, "PAR1", 4);
    int rc = put_out(w, &b, err);
    tw_buf_free(&b);
    return rc;
}

int tw_parquet_open(const char *path, const struct tw_parquet_column *columns, size_t count,
                    const char *schema, struct tw_parquet **out, struct twin_error *err)
{
    const struct tw_buf magic = {.data = (char *)"PAR1", .len = 4};
    struct tw_parquet *w = tw_calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return tw_no_memory(err, "writing %s", path);
    *w = (struct tw_parquet){.columns = columns, .count = count, .fd = -1};
    w->column = tw_calloc(count, sizeof *w->column);
    w->schema = tw_strdup(schema);
    w->path = tw_strdup(path);
    int rc = 0;
    if (!w->column || !w->schema || !w->path)
        rc = tw_no_memory(err, "writing %s", path);
    if (rc == 0)
        rc = tw_file_beside(path, &w->temp, &w->fd, err);
    if (rc == 0)
        rc = put_out(w, &magic, err);
    if (rc != 0) {
        tw_parquet_free(w);
        return rc;
    }
    for (size_t c = 0; c < count; c++)
        w->column[c].values.cap = COLUMN_BYTES;
    *out = w;
    return 0;
}

int tw_parquet_finish(struct tw_parquet *w, struct twin_error *err)
{
    int rc = w->group_rows ? write_group(w, err) : 0;
    if (rc == 0)
        rc = write_footer(w, err);
    if (rc == 0 && fsync(w->fd) != 0)
        rc = twin_error_system(err, "cannot write %s", w->path);
    if (close(w->fd) != 0 && rc == 0)
        rc = twin_error_system(err, "cannot write %s", w->path);
    w->fd = -1;
    w->finished = rc == 0;
    return rc;
}

/* A file system that cannot rename without replacing is asked beforehand whether the name is free.
 */
static int rename_to_free_name(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (faccessat(AT_FDCWD, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

/* Changes the names of the two files, so that the old one can have its own back, where there is one
 * and the file system can do that. A folder is never moved. */
static int rename_over(struct tw_parquet *w)
{
    struct stat st;
    const bool there = lstat(w->path, &st) == 0;
    if (there && !S_ISDIR(st.st_mode) &&
        renameat2(AT_FDCWD, w->temp, AT_FDCWD, w->path, RENAME_EXCHANGE) == 0) {
        w->exchanged = true;
        return 0;
    }
    w->replaced = there;
    return rename(w->temp, w->path);
}

int tw_parquet_place(struct tw_parquet *w, bool replace, struct twin_error *err)
{
    assert(w->finished && !w->placed);
    const int failed = replace ? rename_over(w) : rename_to_free_name(w->temp, w->path);
    if (failed && !replace && errno == EEXIST)
        return twin_error_set(err, TWIN_EINVAL, "%s is there already", w->path);
    if (failed)
        return twin_error_system(err, "cannot put %s in place", w->path);
    w->placed = true;
    return 0;
}

void tw_parquet_take_back(struct tw_parquet *w)
{
    if (!w || !w->placed || w->replaced)
        return;
    const int failed = w->exchanged
                           ? renameat2(AT_FDCWD, w->temp, AT_FDCWD, w->path, RENAME_EXCHANGE)
                           : rename(w->path, w->temp);
    w->placed = failed != 0;
    w->exchanged = w->exchanged && failed;
}

void tw_parquet_free(struct tw_parquet *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->temp && (!w->placed || w->exchanged))
        unlink(w->temp);
    for (size_t c = 0; w->column && c < w->count; c++)
        tw_buf_free(&w->column[c].values);
    tw_buf_free(&w->described);
    tw_buf_free(&w->page);
    tw_buf_free(&w->body);
    tw_free(w->column);
    tw_free(w->schema);
    tw_free(w->path);
    tw_free(w->temp);
    tw_free(w);
}
