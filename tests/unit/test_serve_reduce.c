/* SPDX-License-Identifier: Apache-2.0 */
/* The heatmap of the live page: ten million cells on a screen, against a plain second way to count;
 * and what a child must not have written. */
#include "child.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"

#include "src/compare/field.h"

enum { ROWS = 1000, STEPS = 10000 };

static uint16_t code_at(size_t row, size_t step)
{
    if (row == 700 && step == 7777)
        return TWIN_CELL_NOT_FINITE;
    if (row == 3 && step == 4)
        return TWIN_CELL_GAP;
    return row >= 500 && step >= 5000 ? (uint16_t)(TWIN_CELL_VALUES + (row * 31 + step) % 60000)
                                      : TWIN_CELL_EQUAL;
}

/* What a child would write; *bytes of it, malloc'ed. */
static unsigned char *written(size_t rows, size_t steps, size_t *bytes)
{
    struct tw_buf text = {0};
    const char *head = "{\"mark\":[500,5000]}";
    tw_buf_puts(&text, "[");
    for (size_t i = 0; i < rows; i++)
        tw_buf_printf(&text, "%s[\"t%zu\",0,\"forward\",\"activation\",\"%s\"]", i ? "," : "", i,
                      i < 500 ? "activations" : "gradients");
    tw_buf_puts(&text, "]");
    const struct serve_child_head h = {SERVE_CHILD_MAGIC, (uint32_t)strlen(head),
                                       (uint32_t)text.len, (uint32_t)rows, (uint32_t)steps};
    *bytes = sizeof h + h.head_bytes + text.len + 4 * steps + 2 * rows * steps;
    unsigned char *all = malloc(*bytes), *at = all;
    assert_non_null(all);
    memcpy(at, &h, sizeof h);
    at += sizeof h;
    memcpy(at, head, h.head_bytes);
    at += h.head_bytes;
    memcpy(at, text.data, text.len);
    at += text.len;
    for (uint32_t s = 0; s < steps; s++, at += 4)
        memcpy(at, &s, 4);
    for (size_t r = 0; r < rows; r++)
        for (size_t s = 0; s < steps; s++, at += 2) {
            const uint16_t c = code_at(r, s);
            memcpy(at, &c, 2);
        }
    tw_buf_free(&text);
    return all;
}

static json_t *reduced(const struct serve_field *f, const struct serve_view *v)
{
    struct tw_buf b = {0};
    serve_field_reduce(f, v, &b);
    assert_int_equal(b.failed, 0);
    json_t *j = json_loadb(b.data, b.len, 0, NULL);
    assert_non_null(j);
    tw_buf_free(&b);
    return j;
}

static size_t integer(const json_t *list, size_t i, const char *key)
{
    return (size_t)json_integer_value(json_object_get(json_array_get(list, i), key));
}

/* Each place holds the largest of its cells, found cell by cell through the ranges that it states.
 */
static void check_cells(const json_t *j, size_t least_row)
{
    size_t n = 0, row = least_row;
    const json_t *rows = json_object_get(j, "rows"), *columns = json_object_get(j, "columns");
    unsigned char *bytes = tw_base64_read(json_string_value(json_object_get(j, "cells")), false,
                                          &n);
    const size_t wide = json_array_size(columns);
    assert_int_equal(n, 2 * wide * json_array_size(rows));
    for (size_t y = 0; y < json_array_size(rows); y++) {
        const size_t tensors = integer(rows, y, "tensors");
        for (size_t x = 0; x < wide; x++) {
            uint16_t most = 0;
            for (size_t r = row; r < row + tensors; r++)
                for (size_t s = integer(columns, x, "first"); s <= integer(columns, x, "last"); s++)
                    most = code_at(r, s) > most ? code_at(r, s) : most;
            const size_t at = 2 * (y * wide + x);
            assert_int_equal(most, bytes[at] | bytes[at + 1] << 8);
        }
        row += tensors;
    }
    tw_free(bytes);
}

static void ten_million_cells(void **state)
{
    size_t bytes;
    (void)state;
    unsigned char *all = written(ROWS, STEPS, &bytes);
    struct serve_field *f = serve_field_read(all, bytes);
    assert_non_null(f);
    free(all);
    struct serve_view v = {.rows = 512, .columns = 512, .to = UINT32_MAX};
    const uint64_t began = tw_monotonic_ns();
    json_t *j = reduced(f, &v);
    print_message("10,000,000 cells to 512 x 512: %.1f ms\n",
                  (double)(tw_monotonic_ns() - began) / 1e6);
    check_cells(j, 0);
    const json_t *rows = json_object_get(j, "rows"), *mark = json_object_get(j, "mark");
    const size_t y = (size_t)json_integer_value(json_array_get(mark, 0));
    assert_int_equal(integer(rows, y, "first"), 5000);
    assert_int_equal(json_is_null(json_object_get(json_array_get(rows, 0), "first")), 1);
    json_decref(j);
    /* a part of it: rows by name, a range of steps */
    v = (struct serve_view){.rows = 7, .columns = 9, .from = 4990, .to = 5020, .tensor = "t7?*"};
    j = reduced(f, &v);
    assert_int_equal(json_integer_value(json_object_get(j, "tensors_here")), 110);
    assert_int_equal(integer(json_object_get(j, "columns"), 0, "first"), 4990);
    assert_int_equal(integer(json_object_get(j, "columns"), 8, "last"), 5020);
    json_decref(j);
    serve_field_free(f);
}

/* Unknown is not equal, and nothing hides a NaN. */
static void what_stands_for_all(void **state)
{
    size_t bytes, n;
    (void)state;
    unsigned char *all = written(4, 8, &bytes);
    struct serve_field *f = serve_field_read(all, bytes);
    assert_non_null(f);
    for (int nan = 0; nan < 2; nan++) {
        if (nan)
            f->cell[0] = TWIN_CELL_NOT_FINITE, f->cell[1] = TWIN_CELL_NOT_FINITE - 1;
        json_t *j = reduced(f, &(struct serve_view){.rows = 1, .columns = 1, .to = UINT32_MAX});
        unsigned char *b = tw_base64_read(json_string_value(json_object_get(j, "cells")), false,
                                          &n);
        assert_int_equal(n, 2);
        assert_int_equal(b[0] | b[1] << 8, nan ? TWIN_CELL_NOT_FINITE : TWIN_CELL_GAP);
        /* a gap is no difference: it begins no contour */
        assert_int_equal(integer(json_object_get(j, "rows"), 0, "differ"), nan);
        tw_free(b);
        json_decref(j);
    }
    serve_field_free(f);
    free(all);
}

/* A child that was made to write nonsense: refused, whichever byte it is that is wrong. */
static void nonsense_is_refused(void **state)
{
    size_t bytes;
    (void)state;
    unsigned char *all = written(4, 8, &bytes);
    for (size_t n = 0; n < bytes; n++)
        assert_null(serve_field_read(all, n));
    for (size_t i = 0; i < bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            unsigned char *copy = malloc(bytes);
            assert_non_null(copy);
            memcpy(copy, all, bytes);
            copy[i] ^= (unsigned char)(1u << bit);
            struct serve_field *f = serve_field_read(copy, bytes);
            free(copy);
            if (!f)
                continue;
            assert_true(i >= sizeof(struct serve_child_head));
            json_decref(reduced(
                f, &(struct serve_view){.rows = 3, .columns = 3, .to = UINT32_MAX, .tensor = "*"}));
            serve_field_free(f);
        }
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_million_cells),
        cmocka_unit_test(what_stands_for_all),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
