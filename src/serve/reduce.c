/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A field of up to ten million cells as a heatmap that fits a screen. Rows and columns are put
 * together by neighbours, since neighbours belong together: tensors of one layer, steps of one
 * stretch.
 */
#include "child.h"

#include "answer.h"

#include "json_text.h"

#include "src/compare/field.h"

#include <stdio.h>
#include <string.h>

/* ---- what a child gave */

static bool is_row(const json_t *r)
{
    return json_array_size(r) == 5 && json_is_string(json_array_get(r, 0)) &&
           json_is_integer(json_array_get(r, 1)) && json_is_string(json_array_get(r, 2)) &&
           json_is_string(json_array_get(r, 3)) && json_is_string(json_array_get(r, 4));
}

static bool is_whole(const struct serve_field *f)
{
    if (!json_is_object(f->head) || json_array_size(f->rows) != f->row_count)
        return false;
    for (size_t i = 0; i < f->row_count; i++)
        if (!is_row(json_array_get(f->rows, i)))
            return false;
    for (size_t i = 1; i < f->steps; i++)
        if (f->step[i] <= f->step[i - 1])
            return false;
    return true;
}

static void *copy(const unsigned char **at, size_t bytes)
{
    void *p = tw_malloc(bytes + 1);
    if (p)
        memcpy(p, *at, bytes);
    *at += bytes;
    return p;
}

struct serve_field *serve_field_read(const void *data, size_t bytes)
{
    struct serve_child_head h;
    const unsigned char *at = data;
    if (bytes < sizeof h)
        return NULL;
    memcpy(&h, at, sizeof h);
    at += sizeof h;
    const uint64_t cells = (uint64_t)h.rows * h.steps;
    if (h.magic != SERVE_CHILD_MAGIC || cells > SERVE_CHILD_BYTES ||
        bytes !=
            sizeof h + (uint64_t)h.head_bytes + h.rows_bytes + 4 * (uint64_t)h.steps + 2 * cells)
        return NULL;
    struct serve_field *f = tw_calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->row_count = h.rows;
    f->steps = h.steps;
    f->head = json_loadb((const char *)at, h.head_bytes, JSON_REJECT_DUPLICATES, NULL);
    at += h.head_bytes;
    f->rows = json_loadb((const char *)at, h.rows_bytes, JSON_REJECT_DUPLICATES, NULL);
    at += h.rows_bytes;
    f->step = copy(&at, 4 * f->steps);
    f->cell = copy(&at, (size_t)(2 * cells));
    f->bytes = 4 * f->steps + (size_t)(2 * cells) + 4 * (size_t)h.head_bytes +
               8 * (size_t)h.rows_bytes;
    if (f->step && f->cell && is_whole(f))
        return f;
    serve_field_free(f);
    return NULL;
}

void serve_field_free(struct serve_field *f)
{
    if (!f)
        return;
    json_decref(f->head);
    json_decref(f->rows);
    tw_free(f->step);
    tw_free(f->cell);
    tw_free(f);
}

/* ---- the view */

static const char *word(const struct serve_field *f, size_t row, size_t i)
{
    return json_string_value(json_array_get(json_array_get(f->rows, row), i));
}

static bool is_wanted(const struct serve_field *f, size_t row, const char *glob)
{
    if (!glob || tw_glob(glob, word(f, row, 0)))
        return true;
    char *name = tw_printf("%s/%s/%s", word(f, row, 2), word(f, row, 3), word(f, row, 0));
    const bool yes = name && tw_glob(glob, name);
    tw_free(name);
    return yes;
}

/* A view while it is made. row: the rows that are wanted; columns first..end-1 of the field. */
struct reducing {
    const struct serve_field *f;
    size_t *row, rows, first, end;
    size_t high, wide; /* places of the heatmap */
    uint16_t cell[SERVE_VIEW_MOST * SERVE_VIEW_MOST];
};

/* The i-th of n parts of so many begins here. */
static size_t part(size_t i, size_t n, size_t all)
{
    return (size_t)((uint64_t)i * all / n);
}

static void choose(struct reducing *r, const struct serve_view *v)
{
    const struct serve_field *f = r->f;
    for (size_t i = 0; i < f->row_count; i++)
        if (is_wanted(f, i, v->tensor))
            r->row[r->rows++] = i;
    while (r->first < f->steps && f->step[r->first] < v->from)
        r->first++;
    r->end = r->first;
    while (r->end < f->steps && f->step[r->end] <= v->to)
        r->end++;
    r->wide = r->end - r->first < v->columns ? r->end - r->first : v->columns;
    r->high = r->rows < v->rows ? r->rows : v->rows;
    if (!r->wide || !r->high)
        r->wide = r->high = 0;
}

/* The largest code of each place. */
static void reduce(struct reducing *r)
{
    const size_t all = r->end - r->first;
    for (size_t y = 0; y < r->high; y++) {
        uint16_t *to = &r->cell[y * r->wide];
        for (size_t k = part(y, r->high, r->rows); k < part(y + 1, r->high, r->rows); k++) {
            const uint16_t *from = &r->f->cell[r->row[k] * r->f->steps + r->first];
            for (size_t x = 0; x < r->wide; x++)
                for (size_t c = part(x, r->wide, all); c < part(x + 1, r->wide, all); c++)
                    to[x] = from[c] > to[x] ? from[c] : to[x];
        }
    }
}

/* Column of a row's first difference in the whole field; `steps`: none. */
static size_t first_of(const struct serve_field *f, size_t row)
{
    size_t c = 0;
    while (c < f->steps && f->cell[row * f->steps + c] < TWIN_CELL_DIFFERS)
        c++;
    return c;
}

/* A row: its first tensor, how many stand in it and how many of them ever differ, and where the
 * first of them does. */
static void put_row(const struct reducing *r, size_t y, struct tw_buf *b)
{
    const size_t from = part(y, r->high, r->rows), to = part(y + 1, r->high, r->rows);
    const struct serve_field *f = r->f;
    size_t differ = 0, first = f->steps;
    bool mixed = false;
    for (size_t k = from; k < to; k++) {
        const size_t c = first_of(f, r->row[k]);
        differ += c < f->steps;
        first = c < first ? c : first;
        mixed |= strcmp(word(f, r->row[k], 4), word(f, r->row[from], 4)) != 0;
    }
    json_t *row = json_array_get(f->rows, r->row[from]);
    json_t *j = json_pack("{s:O,s:O,s:O,s:O,s:O,s:o,s:o,s:o,s:b}", "name", json_array_get(row, 0),
                          "rank", json_array_get(row, 1), "phase", json_array_get(row, 2), "kind",
                          json_array_get(row, 3), "group", json_array_get(row, 4), "tensors",
                          tw_json_count(to - from), "differ", tw_json_count(differ), "first",
                          first < f->steps ? tw_json_count(f->step[first]) : json_null(), "mixed",
                          (int)mixed);
    serve_put_json(j, b);
}

/* Where the place of the field's cell is in the view. */
static void put_mark(const struct reducing *r, struct tw_buf *b)
{
    const json_t *mark = json_object_get(r->f->head, "mark");
    const json_int_t row = json_integer_value(json_array_get(mark, 0));
    const json_int_t column = json_integer_value(json_array_get(mark, 1));
    const size_t all = r->end - r->first;
    for (size_t y = 0; json_array_size(mark) == 2 && y < r->high; y++)
        for (size_t k = part(y, r->high, r->rows); k < part(y + 1, r->high, r->rows); k++)
            for (size_t x = 0; (json_int_t)r->row[k] == row && x < r->wide; x++)
                if (column >= (json_int_t)(r->first + part(x, r->wide, all)) &&
                    column < (json_int_t)(r->first + part(x + 1, r->wide, all))) {
                    tw_buf_printf(b, "[%zu,%zu]", y, x);
                    return;
                }
    tw_buf_puts(b, "null");
}

static void put_cells(const struct reducing *r, struct tw_buf *b)
{
    const size_t n = r->wide * r->high;
    unsigned char *bytes = tw_malloc(2 * n + 1);
    for (size_t i = 0; bytes && i < n; i++) {
        bytes[2 * i] = (unsigned char)r->cell[i];
        bytes[2 * i + 1] = (unsigned char)(r->cell[i] >> 8);
    }
    char *text = bytes ? tw_base64(bytes, 2 * n) : NULL;
    if (text)
        tw_buf_puts(b, text);
    else
        b->failed = TWIN_ENOMEM;
    tw_free(text);
    tw_free(bytes);
}

void serve_field_reduce(const struct serve_field *f, const struct serve_view *v, struct tw_buf *b)
{
    struct reducing *r = tw_calloc(1, sizeof *r);
    if (r)
        *r = (struct reducing){.f = f, .row = tw_calloc(f->row_count + 1, sizeof *r->row)};
    if (!r || !r->row) {
        b->failed = TWIN_ENOMEM;
        tw_free(r);
        return;
    }
    choose(r, v);
    reduce(r);
    tw_buf_puts(b, "{\"columns\":[");
    for (size_t x = 0; x < r->wide; x++) {
        const size_t from = r->first + part(x, r->wide, r->end - r->first);
        const size_t to = r->first + part(x + 1, r->wide, r->end - r->first);
        tw_buf_printf(b, "%s{\"first\":%u,\"last\":%u,\"steps\":%zu}", x ? "," : "", f->step[from],
                      f->step[to - 1], to - from);
    }
    tw_buf_puts(b, "],\"rows\":[");
    for (size_t y = 0; y < r->high; y++) {
        tw_buf_puts(b, y ? "," : "");
        put_row(r, y, b);
    }
    tw_buf_printf(b, "],\"tensors\":%zu,\"tensors_here\":%zu,\"steps\":%zu,\"mark\":", f->row_count,
                  r->rows, f->steps);
    put_mark(r, b);
    tw_buf_puts(b, ",\"cells\":\"");
    put_cells(r, b);
    tw_buf_puts(b, "\"}");
    tw_free(r->row);
    tw_free(r);
}
