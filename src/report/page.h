/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_PAGE_H
#define TWIN_PAGE_H
/*
 * A page for people: one self-contained HTML file, put together from sections. Room: src/report.
 * The file opens offline and asks nobody for anything; a content security policy forbids it to.
 * What needs no picture needs no script: words, facts, tables, trees and histograms are plain HTML
 * and SVG. Plots and heatmaps are drawn from binary data in the page.
 *
 * Order of a good page: the verdict, what it rests on, then pictures, each with the question that
 * it answers as its heading.
 *
 * Every string is borrowed for the call only and may hold any bytes: it is made printable and
 * escaped here. Calls after a failure do nothing; twin_page_finish tells of it. A page belongs to
 * one thread.
 */
#include "src/compare/compare.h"
#include "src/compare/field.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct twin_page;

enum twin_mood { TWIN_MOOD_FOUND, TWIN_MOOD_CLEAN, TWIN_MOOD_OPEN, TWIN_MOOD_TROUBLE };

/* title: of the browser's tab. NULL: no memory. */
struct twin_page *twin_page_open(const char *title);
/* The whole page, malloc'ed (tw_free); the page itself stays to be closed. 0, TWIN_ENOMEM, or
 * TWIN_ELIMIT: more than 1 GiB. */
int twin_page_finish(struct twin_page *p, char **html, size_t *bytes, struct twin_error *err);
void twin_page_close(struct twin_page *p); /* NULL is fine */

/* ---- words */

/* The first thing seen: one word in a frame ("DIFFER"), one sentence that says it, and in small
 * print what it is about ("" for none). */
void twin_page_verdict(struct twin_page *p, enum twin_mood mood, const char *word,
                       const char *sentence, const char *about);
void twin_page_heading(struct twin_page *p, const char *text);
void twin_page_text(struct twin_page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void twin_page_small(struct twin_page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Lines of a source, a plan: set as they stand, line ends kept. */
void twin_page_code(struct twin_page *p, const char *text);
/* A command to type: no option is broken at its hyphens, where a window is narrow. */
void twin_page_command(struct twin_page *p, const char *text);
void twin_page_list(struct twin_page *p, const char *const *item, size_t count);
/* A line of links to files beside the page: `before`, then each text with its href. */
struct twin_page_link {
    const char *href, *text;
};
void twin_page_links(struct twin_page *p, const char *before, const struct twin_page_link *link,
                     size_t count);
/* These runs have a page beside this one ("run-3.html"): from here on, what is said of "run 3"
 * leads there, but for headings and code. The numbers are copied. */
void twin_page_link_runs(struct twin_page *p, const uint32_t *number, size_t count);
/* What comes between the two is folded away behind `summary`. */
void twin_page_fold(struct twin_page *p, const char *summary);
void twin_page_unfold(struct twin_page *p);

/*
 * ---- facts: names and values in a frame. A fact without a value is left out. title "" for none.
 */
void twin_page_facts(struct twin_page *p, const char *title);
void twin_page_fact(struct twin_page *p, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void twin_page_facts_end(struct twin_page *p);

/* ---- tables: cells are given row by row; a row ends where the columns do.
 * columns: NULL-terminated names. align: a letter a column, 'n' for numbers (to the right), 't' for
 * long text that may break, ' ' else. */
void twin_page_table(struct twin_page *p, const char *const *columns, const char *align);
void twin_page_cell(struct twin_page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The number of a run, which leads to its page if it has one. */
void twin_page_cell_run(struct twin_page *p, size_t number);
/* A cell that leads to a file beside the page. */
void twin_page_cell_link(struct twin_page *p, const char *href, const char *text);
/* A cell in the colour of a mood, besides what it says. */
void twin_page_cell_mood(struct twin_page *p, enum twin_mood mood, const char *text);
void twin_page_table_end(struct twin_page *p);

/* ---- pictures. question: the heading, as a question. caption: how to read it, in plain words. */

struct twin_page_series {
    const char *name;
    const double *y; /* as many as the plot has x; NaN: nothing known there */
    /* interval of each y, or NULL: drawn as error bars, in a fan as an area */
    const double *low, *high;
};

enum twin_page_style {
    TWIN_PAGE_LINES,  /* points in order, joined */
    TWIN_PAGE_POINTS, /* points joined and marked, intervals as bars: few measured points */
    TWIN_PAGE_FAN     /* lines, intervals as areas */
};

struct twin_page_plot {
    const char *question, *caption;
    const char *x_name, *y_name; /* with the unit: "step time (ms)" */
    enum twin_page_style style;
    /* values <= 0 have no place on a logarithmic axis: they are left out, and the page says how
     * many */
    bool log_x, log_y;
    bool from_zero; /* the y axis begins at 0 */
    const double *x;
    size_t count; /* ascending */
    /* at most 64 are drawn; the page says how many there are */
    const struct twin_page_series *series;
    size_t series_count;
    bool join; /* lines go on across NaN; an infinite y breaks them */
    /* what a NaN in y means, said beside the picture; NULL: nothing is said */
    const char *nan_name;
    double mark;
    const char *mark_name; /* a line across at this x; NULL: none */
};
void twin_page_plot(struct twin_page *p, const struct twin_page_plot *plot);

/* A frame around a cell, and an arrow from one cell to another; what they mean. */
struct twin_page_outline {
    size_t row, column;
    const char *text;
};
struct twin_page_arrow {
    size_t from_row, from_column, to_row, to_column;
    const char *text;
};

struct twin_page_heatmap {
    const char *question, *caption;
    const char *value_name;  /* "relative difference" */
    const char *column_name; /* "step": before a column's number */
    const uint32_t *column;
    size_t columns; /* the columns' numbers, ascending */
    /* group: rows of one group stand together and are named by it; NULL: none */
    const char *const *row, *const *group;
    size_t rows;
    const uint16_t *cell; /* row after row; codes: src/compare/field.h */
    size_t mark_row, mark_column;
    const char *mark_name; /* the cell to look at first; NULL: none */
    /* what TWIN_CELL_DIFFERS is called where there are no sizes at all; NULL: the usual */
    const char *differs_name;
    const struct twin_page_outline *outline;
    size_t outlines;
    const char *outline_name; /* what they mean, for the legend; with outlines */
    const struct twin_page_arrow *arrow;
    size_t arrows;
};
void twin_page_heatmap(struct twin_page *p, const struct twin_page_heatmap *map);

/* values that are not finite are left out and counted */
struct twin_page_set {
    const char *name;
    const double *value;
    size_t count;
};
struct twin_page_histogram {
    const char *question, *caption, *x_name;
    /* bins of equal width in log10; values <= 0 are left out and counted */
    bool log;
    const struct twin_page_set *set;
    size_t sets; /* over the same bins, one below the other */
};
void twin_page_histogram(struct twin_page *p, const struct twin_page_histogram *h);

/* Which runs are equal until when. label: of each run that the tree names. steps: where the line
 * ends. */
void twin_page_tree(struct twin_page *p, const char *question, const char *caption,
                    const struct twin_class_tree *tree, const char *const *label, uint64_t steps);
#endif
