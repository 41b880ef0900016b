/* SPDX-License-Identifier: Apache-2.0 */
/* page_make FILE COLUMNS ROWS: a page whose every cell test_page.py can compute again. Its names
 * are hostile. page_make FILE curves: the curves of two runs, measured in every fifth step, in all,
 * and in all but some in which the value was NaN. */
#include "src/report/page.h"
#include "src/report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVIL "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'"

/* Rows 0 to 5 have one state each from the middle on; before it all is equal. Elsewhere 10^-8 to
 * 10^-2, rising with the column, from column `row` on. */
static uint16_t cell(size_t column, size_t row, size_t columns)
{
    static const uint16_t state[] = {TWIN_CELL_NONE,    TWIN_CELL_LEFT_OUT, TWIN_CELL_GAP,
                                     TWIN_CELL_DIFFERS, TWIN_CELL_ONE_SIDE, TWIN_CELL_NOT_FINITE};
    if (row < 6)
        return column < columns / 2 ? TWIN_CELL_EQUAL : state[row];
    return column < row % (columns / 2)
               ? TWIN_CELL_EQUAL
               : twin_cell_of(pow(10, -8 + 6.0 * (double)column / (double)columns));
}

static void heatmap(struct twin_page *p, size_t columns, size_t rows)
{
    uint16_t *cells = calloc(columns * rows, sizeof *cells);
    uint32_t *column = calloc(columns, sizeof *column);
    const char **name = calloc(rows, sizeof *name), **group = calloc(rows, sizeof *group);
    char(*text)[64] = calloc(rows, sizeof *text);
    if (!cells || !column || !name || !group || !text)
        exit(2);
    for (size_t c = 0; c < columns; c++)
        column[c] = (uint32_t)(100 + c);
    for (size_t r = 0; r < rows; r++) {
        snprintf(text[r], sizeof text[r], "tensor.%zu%s", r, r == 6 ? "<b>" : "");
        name[r] = text[r];
        group[r] = r < 6 ? EVIL : "weights";
        for (size_t c = 0; c < columns; c++)
            cells[r * columns + c] = cell(c, r, columns);
    }
    twin_page_heatmap(p, &(struct twin_page_heatmap){.question = "Where? " EVIL,
                                                     .caption = EVIL,
                                                     .value_name = "relative difference",
                                                     .column_name = "step",
                                                     .column = column,
                                                     .columns = columns,
                                                     .row = name,
                                                     .group = group,
                                                     .rows = rows,
                                                     .cell = cells,
                                                     .mark_row = 6,
                                                     .mark_column = 6,
                                                     .mark_name = "First difference"});
    free(cells);
    free(column);
    free(name);
    free(group);
    free(text);
}

enum { STEPS = 20, CURVES = 6 };

static void curves(struct twin_page *p)
{
    static char nothing[] = "", loss[] = "loss";
    static const enum twin_curve_kind kind[] = {TWIN_CURVE_LOSS, TWIN_CURVE_GRADIENT,
                                                TWIN_CURVE_WEIGHT};
    struct twin_curve curve[CURVES];
    double y[CURVES][STEPS];
    for (size_t i = 0; i < CURVES; i++) {
        const bool sparse = kind[i / 2] == TWIN_CURVE_GRADIENT;
        const bool was_nan = kind[i / 2] == TWIN_CURVE_WEIGHT && i % 2 == 0;
        for (size_t step = 0; step < STEPS; step++) {
            const bool open = (sparse && step % 5 != 0) || (was_nan && step >= 5 && step < 10);
            y[i][step] = open ? NAN : 1 + (double)(step * (i + 1));
            if (kind[i / 2] == TWIN_CURVE_LOSS) /* moves in its sixth digit */
                y[i][step] = 2.3 + 1e-6 * y[i][step];
        }
        curve[i] = (struct twin_curve){.kind = kind[i / 2],
                                       .name = i < 2 ? loss : nothing,
                                       .run = i % 2,
                                       .y = y[i],
                                       .steps = STEPS,
                                       .not_finite = was_nan ? 5 : 0};
    }
    twin_report_curves(p, &(struct twin_curves){.curve = curve, .count = CURVES}, NULL, NULL);
}

static int write_page(struct twin_page *p, const char *path)
{
    char *html = NULL;
    size_t bytes = 0;
    int rc = twin_page_finish(p, &html, &bytes, NULL);
    FILE *f = rc == 0 ? fopen(path, "w") : NULL;
    if (!f || fwrite(html, 1, bytes, f) != bytes || fclose(f) != 0)
        return 2;
    twin_page_close(p);
    free(html);
    return 0;
}

int main(int argc, char **argv)
{
    static const double x[] = {1, 2, 4, 8};
    static const double y[] = {10, 19, NAN, 60};
    static const double low[] = {9, 18, NAN, 50};
    static const double high[] = {11, 20, NAN, 70};
    static const double z[] = {1, 2, 3, 4};
    const struct twin_page_series series[] = {{EVIL, y, low, high}, {"other", z, NULL, NULL}};
    struct twin_page *p = twin_page_open(EVIL);
    if (argc < 3 || !p)
        return 2;
    if (strcmp(argv[2], "curves") == 0) {
        curves(p);
        return write_page(p, argv[1]);
    }
    if (argc != 4)
        return 2;
    twin_page_verdict(p, TWIN_MOOD_FOUND, "DIFFER", EVIL, EVIL);
    heatmap(p, strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    twin_page_plot(p, &(struct twin_page_plot){.question = "How fast?",
                                               .caption = "",
                                               .x_name = "workers",
                                               .y_name = "samples/s",
                                               .style = TWIN_PAGE_POINTS,
                                               .from_zero = true,
                                               .x = x,
                                               .count = 4,
                                               .series = series,
                                               .series_count = 2});
    return write_page(p, argv[1]);
}
