/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the files of docs/format/telemetry.md into tables, and looks up values in them. Any bytes
 * give a table or an error that names the line, because the files may be cut off or foreign. Each
 * file has one or more headers, each followed by names of columns and rows of numbers. Long tables
 * are thinned while they are read, so that memory is bounded. read.c is the only caller besides
 * tests and the fuzzer.
 */
#include "telemetry_inside.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Rows of a table that are kept; tables of a run; words of a line, one more than any good line has.
 */
enum { ROWS_MAX = 65536, TABLES_MAX = 1024, WORDS_MAX = TW_TABLE_COLUMNS + 2 };
/* A larger file is none that twinrun wrote. */
#define FILE_BYTES_MAX ((size_t)64 << 20)
#define MAGIC "twinrun.telemetry/"

/* Where in a file the reader is, for messages. */
struct reader {
    const char *path;
    size_t line;
    struct twin_error *err;
};

/*
 * Sets an error that names path, line, what was expected and what was found (its first 60 bytes,
 * made printable). Returns the code.
 */
static int wrong_line(const struct reader *r, int code, const char *expected, const char *found)
{
    char *safe = tw_printable(found, strnlen(found, 60));
    int rc = twin_error_set(r->err, code, "%s, line %zu: expected %s, found '%s'", r->path, r->line,
                            expected, safe ? safe : "?");
    tw_free(safe);
    return rc;
}

/* Cuts the line at its tabs. More words than fit are an error of the caller's. */
static size_t split_words(char *line, char *word[WORDS_MAX])
{
    size_t n = 0;
    for (char *at = line; at && n < WORDS_MAX; n++) {
        word[n] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    return n;
}

/* Reads a number up to INT32_MAX; `what` names it in the error. */
static int small(const struct reader *r, const char *s, const char *what, int *out)
{
    uint64_t v;
    if (tw_parse_u64(s, INT32_MAX, &v) != 0)
        return wrong_line(r, TWIN_EFORMAT, what, s);
    *out = (int)v;
    return 0;
}

/*
 * Reads "twinrun.telemetry/1 process HOST RANK WORLD PID ROLE", or the same for a host or GPUs,
 * into t. Names that are too long are cut. TWIN_EVERSION: another version wrote the file.
 */
static int header(struct reader *r, char *line, struct tw_table *t)
{
    char *w[WORDS_MAX] = {NULL};
    size_t n = split_words(line, w);
    if (!tw_starts(w[0], MAGIC))
        return wrong_line(r, TWIN_EFORMAT, "a header that begins with " MAGIC "1", w[0]);
    if (strcmp(w[0], MAGIC "1") != 0)
        return wrong_line(
            r, TWIN_EVERSION,
            MAGIC "1, the version that this twinrun reads (a later twinrun wrote the file)", w[0]);
    bool process = n == 7 && strcmp(w[1], "process") == 0;
    if (!process && !(n == 3 && (strcmp(w[1], "host") == 0 || strcmp(w[1], "gpus") == 0)))
        return wrong_line(r, TWIN_EFORMAT,
                          "process HOST RANK WORLD PID ROLE, host HOST or gpus HOST",
                          n > 1 ? w[1] : "");
    if (process)
        t->kind = TW_TABLE_PROCESS;
    else
        t->kind = strcmp(w[1], "host") == 0 ? TW_TABLE_HOST : TW_TABLE_GPUS;
    snprintf(t->host, sizeof t->host, "%s", w[2]);
    int rc = process ? small(r, w[3], "a rank", &t->rank) : 0;
    if (rc == 0 && process)
        rc = small(r, w[4], "a number of ranks", &t->world);
    if (rc == 0 && process)
        rc = small(r, w[5], "a process id", &t->pid);
    if (process)
        snprintf(t->role, sizeof t->role, "%s", w[6]);
    t->stride = 1;
    return rc;
}

/* Reads the line of names behind a header. The names are t's, also after an error. */
static int column_names(struct reader *r, char *line, struct tw_table *t)
{
    char *w[WORDS_MAX] = {NULL};
    size_t n = split_words(line, w);
    if (n < 2 || n > TW_TABLE_COLUMNS + 1 || strcmp(w[0], "t_ns") != 0)
        return wrong_line(r, TWIN_EFORMAT, "names of 1 to 48 columns behind t_ns", w[0]);
    for (size_t i = 1; i < n; i++) {
        if (!(t->column[i - 1] = tw_strdup(w[i])))
            return tw_no_memory(r->err, "reading %s", r->path);
        t->columns = i;
    }
    return 0;
}

/*
 * Drops every second row. Amounts are cumulative, so what is left still says how much they grew,
 * over twice the time.
 */
static void thin(struct tw_table *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->rows; i += 2, kept++) {
        t->t_ns[kept] = t->t_ns[i];
        memmove(t->cell + kept * t->columns, t->cell + i * t->columns,
                t->columns * sizeof *t->cell);
    }
    t->rows = kept;
    t->stride *= 2;
}

/* Makes room for one more row. Returns 0 or TWIN_ENOMEM. */
static int make_room(struct reader *r, struct tw_table *t)
{
    if (t->rows & (t->rows - 1)) /* grows when the count is a power of two */
        return 0;
    size_t room = t->rows ? t->rows * 2 : 1;
    uint64_t *times = tw_reallocarray(t->t_ns, room, sizeof *times);
    if (times)
        t->t_ns = times;
    uint64_t *cells = times ? tw_reallocarray(t->cell, room * t->columns, sizeof *cells) : NULL;
    if (!cells)
        return tw_no_memory(r->err, "reading %s", r->path);
    t->cell = cells;
    return 0;
}

/*
 * Adds one row. in_file: the number of this row in the file, from 0. The last row stays
 * provisional: one that is not due by the stride is replaced by the next, so that the end of the
 * file is always kept.
 */
static int add_row(struct reader *r, char *line, struct tw_table *t, size_t in_file)
{
    char *w[WORDS_MAX] = {NULL};
    uint64_t now;
    if (split_words(line, w) != t->columns + 1 || tw_parse_u64(w[0], UINT64_MAX, &now) != 0)
        return wrong_line(r, TWIN_EFORMAT, "a time and a number or - for each column", w[0]);
    if (t->rows && now < t->t_ns[t->rows - 1])
        return wrong_line(r, TWIN_EFORMAT, "times that do not go backwards", w[0]);
    bool replaces = t->rows > 1 && (in_file - 1) % t->stride != 0;
    if (t->rows == ROWS_MAX && !replaces) {
        thin(t); /* what was the last row is among those dropped */
    }
    int rc = replaces ? 0 : make_room(r, t);
    if (rc)
        return rc;
    size_t at = replaces ? t->rows - 1 : t->rows++;
    t->t_ns[at] = now;
    for (size_t i = 0; i < t->columns; i++)
        if (strcmp(w[i + 1], "-") == 0)
            t->cell[at * t->columns + i] = TW_UNKNOWN;
        else if (tw_parse_u64(w[i + 1], UINT64_MAX - 1, &t->cell[at * t->columns + i]) != 0)
            return wrong_line(r, TWIN_EFORMAT, "a number or -", w[i + 1]);
    return 0;
}

/* Appends an empty table to the list. TWIN_ELIMIT when a run has TABLES_MAX, or TWIN_ENOMEM. */
static int begin_table(const struct reader *r, struct tw_table **list, size_t *count)
{
    struct tw_table *grown = *count < TABLES_MAX ? tw_reallocarray(*list, *count + 1, sizeof **list)
                                                 : NULL;
    if (!grown)
        return *count < TABLES_MAX
                   ? tw_no_memory(r->err, "reading %s", r->path)
                   : twin_error_set(r->err, TWIN_ELIMIT,
                                    "%s: expected at most %d tables of telemetry in a run", r->path,
                                    TABLES_MAX);
    *list = grown;
    grown[(*count)++] = (struct tw_table){.kind = TW_TABLE_PROCESS};
    return 0;
}

/*
 * A header begins with 't', and so does the line of names; a row begins with a digit. The first
 * line must be a header.
 */
int tw_tables_parse(const char *path, char *text, size_t bytes, struct tw_table **list,
                    size_t *count, struct twin_error *err)
{
    struct reader r = {.path = path, .err = err};
    char *end;
    size_t first = *count, rows = 0;
    bool columns_next = false;
    int rc = 0;
    /* A line without its end was cut off with the process that wrote it: not looked at. */
    for (char *line = text; rc == 0 && (end = memchr(line, '\n', (size_t)(text + bytes - line)));
         line = end + 1) {
        *end = '\0';
        r.line++;
        if (r.line == 1 || line[0] == 't') {
            if (columns_next) {
                rc = column_names(&r, line, &(*list)[*count - 1]);
                columns_next = false;
                continue;
            }
            rc = begin_table(&r, list, count);
            if (rc == 0)
                rc = header(&r, line, &(*list)[*count - 1]);
            columns_next = true;
            rows = 0;
        } else if (columns_next) {
            rc = wrong_line(&r, TWIN_EFORMAT, "the names of the columns", line);
        } else {
            rc = add_row(&r, line, &(*list)[*count - 1], rows++);
        }
    }
    if (rc == 0 && columns_next && *count > first)
        (*count)--; /* a header without its columns: nothing follows. It owns nothing yet */
    return rc;
}

int tw_tables_read(const char *path, struct tw_table **list, size_t *count, struct twin_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int rc = tw_read_file(path, FILE_BYTES_MAX, &text, &bytes, err);
    if (rc == 0)
        rc = tw_tables_parse(path, text, bytes, list, count, err);
    tw_free(text);
    return rc;
}

void tw_tables_free(struct tw_table *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < TW_TABLE_COLUMNS; k++)
            tw_free(list[i].column[k]);
        tw_free(list[i].t_ns);
        tw_free(list[i].cell);
    }
    tw_free(list);
}

size_t tw_table_column(const struct tw_table *t, const char *name)
{
    for (size_t i = 0; i < t->columns; i++)
        if (strcmp(t->column[i], name) == 0)
            return i;
    return SIZE_MAX;
}

/* ---- values of the machine at times of the processes */

/* Beyond the first and the last sample the value of that sample holds for so long: 1 s. */
#define EDGE_NS 1000000000ull

/* The first row at or behind a time. */
static size_t row_at(const struct tw_table *t, uint64_t ns)
{
    size_t low = 0, high = t->rows;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (t->t_ns[mid] < ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A cell as a number; NaN: not known. */
static double cell_number(const struct tw_table *t, size_t row, size_t column)
{
    assert(row < t->rows && column < t->columns);
    uint64_t v = t->cell[row * t->columns + column];
    return v == TW_UNKNOWN ? NAN : (double)v;
}

/*
 * The value of a column at a time, linear between the known samples on both sides, which may be up
 * to 64 rows away. Beyond the samples see EDGE_NS. NaN: not known.
 */
static double value_at(const struct tw_table *t, size_t column, uint64_t ns)
{
    enum { LOOK = 64 };
    size_t right = row_at(t, ns), left = right;
    for (int k = 0; k < LOOK && right < t->rows && isnan(cell_number(t, right, column)); k++)
        right++;
    for (int k = 0; k < LOOK && left > 0 && isnan(cell_number(t, left - 1, column)); k++)
        left--;
    double l = left > 0 ? cell_number(t, left - 1, column) : NAN;
    double r = right < t->rows ? cell_number(t, right, column) : NAN;
    if (isnan(l) && isnan(r))
        return NAN;
    if (isnan(l))
        return t->t_ns[right] - ns <= EDGE_NS ? r : NAN;
    uint64_t from = t->t_ns[left - 1];
    if (isnan(r))
        return ns - from <= EDGE_NS ? l : NAN;
    return t->t_ns[right] == from
               ? r
               : l + (r - l) * (double)(ns - from) / (double)(t->t_ns[right] - from);
}

double tw_table_amount(const struct tw_table *t, const char *column, uint64_t a, uint64_t b)
{
    size_t c = tw_table_column(t, column);
    if (c == SIZE_MAX || t->rows < 2 || b <= t->t_ns[0] || a >= t->t_ns[t->rows - 1])
        return NAN;
    double d = value_at(t, c, b) - value_at(t, c, a);
    return d >= 0 ? d : NAN; /* a counter that was set back */
}

/* Without a sample between a and b the value in the middle of them is taken. */
double tw_table_level(const struct tw_table *t, const char *column, uint64_t a, uint64_t b)
{
    size_t c = tw_table_column(t, column), n = 0;
    double sum = 0;
    if (c == SIZE_MAX || t->rows == 0)
        return NAN;
    for (size_t i = row_at(t, a); i < t->rows && t->t_ns[i] <= b; i++)
        if (!isnan(cell_number(t, i, c))) {
            sum += cell_number(t, i, c);
            n++;
        }
    return n ? sum / (double)n : value_at(t, c, a + (b - a) / 2);
}
