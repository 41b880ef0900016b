/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plots and heatmaps: pictures that a script draws in the reader's browser. For each one this file
 * puts a frame into the page, and a block of data behind the page from which the script draws
 * (layout of a block: docs/internals/report.md; reader: web/page.js).
 *
 * Numbers are written in the byte order of this machine and read as little-endian, which all
 * machines are that twinrun is built for.
 */
#include "page_inside.h"

#include "html.h"
#include "phrase.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Most series that one plot draws; the page says how many there are in all. */
enum { SERIES_DRAWN = 64 };

/* ---- a block: u32 length of the header, a header in JSON, padded so that what follows begins at a
 * multiple of 8, arrays */

/* One block while it is made: its header, and the arrays behind it. Both are freed by
 * finish_block(). */
struct block {
    struct tw_buf head, arrays;
};

/* Appends s as a JSON string. It is made printable first, so its only characters that JSON must
 * escape are the quote and the backslash. */
static void json_string(struct tw_buf *b, const char *s)
{
    /* what comes back has no control characters */
    char *safe = tw_printable(s, strlen(s));
    if (!safe)
        b->failed = TWIN_ENOMEM;
    tw_buf_puts(b, "\"");
    for (const char *c = safe; c && *c; c++) {
        if (*c == '"' || *c == '\\')
            tw_buf_puts(b, "\\");
        tw_buf_append(b, c, 1);
    }
    tw_buf_puts(b, "\"");
    tw_free(safe);
}

/* One field of the header: text, list of texts, number. */
static void say_text(struct block *k, const char *name, const char *text)
{
    tw_buf_printf(&k->head, ",\"%s\":", name);
    json_string(&k->head, text);
}

static void say_texts(struct block *k, const char *name, const char *const *text, size_t count)
{
    tw_buf_printf(&k->head, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        tw_buf_puts(&k->head, i ? "," : "");
        json_string(&k->head, text[i]);
    }
    tw_buf_puts(&k->head, "]");
}

static void say_number(struct block *k, const char *name, double x)
{
    tw_buf_printf(&k->head, ",\"%s\":%.17g", name, x);
}

/* Arrays begin at multiples of 8, which typed arrays of a script need, and stand in the order in
 * which the script asks for them. */
static void add_array(struct block *k, const void *data, size_t bytes)
{
    static const char zeros[8];
    tw_buf_append(&k->arrays, data, bytes);
    tw_buf_append(&k->arrays, zeros, -bytes & 7);
}

/* Hands the block over and puts the picture's place into the page. */
static void finish_block(struct twin_page *p, struct block *k, const char *question,
                         const char *caption)
{
    struct tw_buf all = {0};
    char id[24];
    tw_buf_puts(&k->head, "}");
    /* the length takes 4 bytes, so the arrays begin at a multiple of 8 */
    while (k->head.len % 8 != 4 && !k->head.failed)
        tw_buf_puts(&k->head, " ");
    const uint32_t length = (uint32_t)k->head.len;
    tw_buf_append(&all, &length, 4);
    if (!k->head.failed && !k->arrays.failed) {
        tw_buf_append(&all, k->head.data, k->head.len);
        if (k->arrays.len)
            tw_buf_append(&all, k->arrays.data, k->arrays.len);
    }
    /* the first failure is kept */
    if (!p->data.failed)
        p->data.failed = k->head.failed;
    if (!p->data.failed)
        p->data.failed = k->arrays.failed;
    if (!p->data.failed)
        p->data.failed = all.failed;
    tw_buf_free(&k->head);
    tw_buf_free(&k->arrays);
    snprintf(id, sizeof id, "data%u", ++p->pictures);
    tw_page_figure(p, question, caption, NULL);
    /* what a reader without the script sees */
    tw_buf_printf(&p->body,
                  "<div class=\"draw\" data-block=\"%s\"><p class=\"soft\">This picture is drawn "
                  "by a script inside this file, which your browser does not run (it needs one of "
                  "2023 or later).</p></div>\n",
                  id);
    tw_page_figure_end(p);
    if (!tw_page_failed(p))
        tw_html_data(&p->data, id, all.data, all.len);
    tw_buf_free(&all);
}

void tw_page_figure(struct twin_page *p, const char *question, const char *caption,
                    const char *class)
{
    tw_html_open(&p->body, "figure", class);
    tw_buf_puts(&p->body, "\n<figcaption>");
    tw_html_element(&p->body, "h2", NULL, question);
    if (*caption)
        tw_page_element(p, "p", "soft", caption);
    tw_buf_puts(&p->body, "</figcaption>\n");
}

void tw_page_figure_end(struct twin_page *p)
{
    tw_buf_puts(&p->body, "</figure>\n");
}

/* ---- plots */

/* The series, and for each of them its values, then the ends of its intervals. An interval needs
 * both ends. */
static void series_data(const struct twin_page *p, struct block *k,
                        const struct twin_page_plot *plot, size_t drawn)
{
    char file[TW_RUN_PAGE_NAME];
    tw_buf_puts(&k->head, ",\"series\":[");
    add_array(k, plot->x, plot->count * sizeof *plot->x);
    for (size_t i = 0; i < drawn; i++) {
        const struct twin_page_series *s = &plot->series[i];
        bool interval = s->low && s->high;
        tw_buf_printf(&k->head, "%s{\"interval\":%s,\"name\":", i ? "," : "",
                      interval ? "true" : "false");
        json_string(&k->head, s->name);
        if (tw_page_run_file(p, s->name, file))
            tw_buf_printf(&k->head, ",\"href\":\"%s\"", file);
        tw_buf_puts(&k->head, "}");
        add_array(k, s->y, plot->count * sizeof *s->y);
        if (interval) {
            add_array(k, s->low, plot->count * sizeof *s->low);
            add_array(k, s->high, plot->count * sizeof *s->high);
        }
    }
    tw_buf_puts(&k->head, "]");
}

/* What cannot be shown is counted: a loss that became NaN must not look like one that ended. */
static void say_left_out(struct twin_page *p, const struct twin_page_plot *plot, size_t drawn)
{
    size_t infinite = 0, nan = 0, below = 0;
    for (size_t i = 0; i < drawn; i++)
        for (size_t j = 0; j < plot->count; j++) {
            double y = plot->series[i].y[j];
            infinite += isinf(y) != 0;
            nan += isnan(y) != 0;
            below += plot->log_y && y <= 0;
        }
    if (plot->series_count > drawn)
        twin_page_small(p, "The first %zu of %zu series are drawn.", drawn, plot->series_count);
    /* a joined plot uses infinity to break its lines */
    if (infinite && !plot->join)
        twin_page_small(p, "%zu infinite value%s cannot be drawn.", infinite,
                        tw_plural_s(infinite));
    if (below)
        twin_page_small(p, "%zu value%s of 0 or below ha%s no place on this logarithmic axis.",
                        below, tw_plural_s(below), below == 1 ? "s" : "ve");
    if (nan && plot->nan_name)
        twin_page_small(p, "%zu point%s left open: %s.", nan, nan == 1 ? " is" : "s are",
                        plot->nan_name);
}

/* The x values are shared by all series, so they stand once, before them. */
void twin_page_plot(struct twin_page *p, const struct twin_page_plot *plot)
{
    static const char *const styles[] = {"lines", "points", "fan"};
    struct block k = {0};
    const size_t drawn = plot->series_count < SERIES_DRAWN ? plot->series_count : SERIES_DRAWN;
    tw_buf_puts(&k.head, "{\"kind\":\"plot\"");
    say_text(&k, "title", plot->question);
    say_text(&k, "style", styles[plot->style]);
    say_text(&k, "xName", plot->x_name);
    say_text(&k, "yName", plot->y_name);
    say_number(&k, "count", (double)plot->count);
    tw_buf_printf(&k.head, ",\"logX\":%s,\"logY\":%s,\"fromZero\":%s,\"join\":%s",
                  plot->log_x ? "true" : "false", plot->log_y ? "true" : "false",
                  plot->from_zero ? "true" : "false", plot->join ? "true" : "false");
    if (plot->mark_name) {
        say_number(&k, "mark", plot->mark);
        say_text(&k, "markName", plot->mark_name);
    }
    series_data(p, &k, plot, drawn);
    finish_block(p, &k, plot->question, plot->caption);
    say_left_out(p, plot, drawn);
}

/* ---- heatmaps */

/* What stands above the cells, as lists of numbers and a text. */
static void say_overlay(struct block *k, const struct twin_page_heatmap *map)
{
    for (size_t i = 0; i < map->outlines; i++) {
        const struct twin_page_outline *o = &map->outline[i];
        tw_buf_printf(&k->head, "%s[%zu,%zu,", i ? "," : ",\"outlines\":[", o->row, o->column);
        json_string(&k->head, o->text);
        tw_buf_puts(&k->head, i + 1 < map->outlines ? "]" : "]]");
    }
    for (size_t i = 0; i < map->arrows; i++) {
        const struct twin_page_arrow *a = &map->arrow[i];
        tw_buf_printf(&k->head, "%s[%zu,%zu,%zu,%zu,", i ? "," : ",\"arrows\":[", a->from_row,
                      a->from_column, a->to_row, a->to_column);
        json_string(&k->head, a->text);
        tw_buf_puts(&k->head, i + 1 < map->arrows ? "]" : "]]");
    }
}

/* Cells go as they are: the script knows their codes (src/compare/field.h). */
void twin_page_heatmap(struct twin_page *p, const struct twin_page_heatmap *map)
{
    struct block k = {0};
    tw_buf_puts(&k.head, "{\"kind\":\"heatmap\"");
    say_text(&k, "title", map->question);
    say_text(&k, "valueName", map->value_name);
    say_text(&k, "columnName", map->column_name);
    say_number(&k, "columns", (double)map->columns);
    say_number(&k, "rows", (double)map->rows);
    say_texts(&k, "row", map->row, map->rows);
    if (map->group)
        say_texts(&k, "group", map->group, map->rows);
    if (map->mark_name) {
        say_number(&k, "markRow", (double)map->mark_row);
        say_number(&k, "markColumn", (double)map->mark_column);
        say_text(&k, "markName", map->mark_name);
    }
    if (map->differs_name)
        say_text(&k, "differsName", map->differs_name);
    if (map->outlines)
        say_text(&k, "outlineName", map->outline_name);
    say_overlay(&k, map);
    add_array(&k, map->column, map->columns * sizeof *map->column);
    add_array(&k, map->cell, map->columns * map->rows * sizeof *map->cell);
    finish_block(p, &k, map->question, map->caption);
}
