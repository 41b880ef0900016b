/* SPDX-License-Identifier: Apache-2.0 */
/* Imported runs as one HTML file: what is known and what is not, then the curves, the values, and
 * each run by name. */
#include "curves_page.h"

#include "base.h"
#include "phrase.h"

#include <math.h>
#include <stdlib.h>

/* A picture has no more lines than a page draws, and no more points of each than it can show. */
enum { LINES = 64, STEPS = 4000 };

/* ---- the curves */

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The first curves that there are. Returns how many. */
static size_t choose(const struct tw_curves_report *r, const struct tw_curve *out[LINES],
                     size_t *all)
{
    size_t n = 0;
    *all = 0;
    for (size_t f = 0; f < r->files; f++)
        for (size_t i = 0; i < r->file[f].runs; i++) {
            if (!r->file[f].run[i].points)
                continue;
            if (n < LINES)
                out[n++] = &r->file[f].run[i];
            ++*all;
        }
    return n;
}

/* The steps of these curves, ascending, each once. Returns how many; 0 also without memory. */
static size_t gather_steps(const struct tw_curve *const *run, size_t runs, int64_t **out)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < runs; i++)
        n += run[i]->points;
    int64_t *s = tw_calloc(n + 1, sizeof *s);
    *out = s;
    if (!s || !n)
        return 0;
    n = 0;
    for (size_t i = 0; i < runs; i++)
        for (size_t k = 0; k < run[i]->points; k++)
            s[n++] = run[i]->step[k];
    qsort(s, n, sizeof *s, by_number);
    for (size_t i = 0; i < n; i++)
        if (!kept || s[kept - 1] != s[i])
            s[kept++] = s[i];
    return kept;
}

/* Thins steps out evenly; the first and the last stay. Returns how many are left. */
static size_t thin(int64_t *step, size_t n)
{
    if (n <= STEPS)
        return n;
    for (size_t i = 0; i < STEPS; i++)
        step[i] = step[i * (n - 1) / (STEPS - 1)];
    return STEPS;
}

/* The last value of each of these steps; NaN: it has none. */
static void fill_line(double *y, const int64_t *step, size_t n, const struct tw_curve *r)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        y[i] = NAN;
        while (at < r->points && r->step[at] < step[i])
            at++;
        while (at < r->points && r->step[at] == step[i])
            y[i] = r->y[at++];
    }
}

static void put_plot(struct twin_page *p, const struct tw_curves_report *r,
                     const struct tw_curve *const *run, size_t lines, size_t all)
{
    int64_t *step = NULL;
    const size_t steps = gather_steps(run, lines, &step), n = thin(step, steps);
    double *x = tw_calloc((lines + 1) * n + 1, sizeof *x);
    struct twin_page_series *series = tw_calloc(lines + 1, sizeof *series);
    char *caption = tw_printf("The imported numbers, as they were written down. %zu of %zu curves, "
                              "%zu of %zu steps, chosen evenly; where a step has several values, "
                              "its last one.",
                              lines, all, n, steps);
    for (size_t i = 0; x && i < n; i++)
        x[i] = (double)step[i];
    for (size_t i = 0; x && series && i < lines; i++) {
        series[i] = (struct twin_page_series){run[i]->name, x + (i + 1) * n, NULL, NULL};
        fill_line(x + (i + 1) * n, step, n, run[i]);
    }
    if (x && series && caption && n)
        twin_page_plot(p, &(struct twin_page_plot){.question = "What was imported?",
                                                   .caption = caption,
                                                   .x_name = "step",
                                                   .y_name = r->file[0].metric,
                                                   .style = TWIN_PAGE_LINES,
                                                   .x = x,
                                                   .count = n,
                                                   .series = series,
                                                   .series_count = lines,
                                                   .join = true});
    tw_free(caption);
    tw_free(series);
    tw_free(x);
    tw_free(step);
}

/* ---- the values */

static void put_values(struct twin_page *p, const struct tw_curves_report *r)
{
    struct twin_page_set *set = tw_calloc(r->files + 1, sizeof *set);
    size_t n = 0, sets = 0;
    for (size_t f = 0; f < r->files; f++)
        n += r->noise[f].values;
    double *x = tw_calloc(n + 1, sizeof *x);
    n = 0;
    for (size_t f = 0; set && x && f < r->files; f++) {
        const size_t from = n;
        for (size_t i = 0; i < r->file[f].runs; i++)
            if (isfinite(r->file[f].run[i].value))
                x[n++] = r->file[f].run[i].value;
        if (n > from)
            set[sets++] = (struct twin_page_set){r->file[f].path, x + from, n - from};
    }
    if (sets)
        twin_page_histogram(p, &(struct twin_page_histogram){
                                   "How do the values spread?",
                                   "One value stands for each run. Runs that have none are named "
                                   "below.",
                                   r->file[0].metric, false, set, sets});
    tw_free(set);
    tw_free(x);
}

static void put_table(struct twin_page *p, const struct tw_curves_report *r,
                      const struct tw_curves *c)
{
    static const char *const columns[] = {"run", "value", "points", "ended", "beside the first one",
                                          NULL};
    twin_page_heading(p, c->path);
    twin_page_table(p, columns, " nn t");
    for (size_t i = 0; i < c->runs; i++) {
        const struct tw_curve *run = &c->run[i];
        char value[40];
        char *beside = tw_curves_beside_words(r, c, run);
        twin_page_cell(p, "%s", run->name);
        if (run->left_out)
            twin_page_cell(p, "left out: %s", run->left_out);
        else
            twin_page_cell(p, "%s", tw_shortest(run->value, value));
        twin_page_cell(p, "%zu", run->points);
        twin_page_cell(p, "%s", run->ended ? run->ended : "not said");
        twin_page_cell(p, "%s", beside ? beside : "");
        tw_free(beside);
    }
    twin_page_table_end(p);
}

struct twin_page *tw_curves_page(const struct tw_curves_report *r)
{
    const struct tw_curve *run[LINES];
    size_t all = 0, runs = 0;
    const size_t lines = choose(r, run, &all);
    struct twin_page *p = twin_page_open("twinrun report: imported runs");
    for (size_t f = 0; f < r->files; f++)
        runs += r->file[f].runs;
    char *sentence = tw_printf("Curves of %zu run%s that twinrun did not record: numbers, and "
                               "nothing of what made them.",
                               runs, tw_plural_s(runs));
    if (p && sentence) {
        twin_page_verdict(p, TWIN_MOOD_OPEN, "IMPORTED", sentence, r->file[0].metric);
        tw_curves_put_facts(p, r);
        if (lines)
            put_plot(p, r, run, lines, all);
        put_values(p, r);
        for (size_t f = 0; f < r->files; f++)
            put_table(p, r, &r->file[f]);
        tw_curves_put_next(p, r);
    }
    tw_free(sentence);
    return p;
}
