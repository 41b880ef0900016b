/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers what the pictures of a verdict's page show: compares the recorded runs step by step,
 * sorts them into classes, reads their curves and step times. The drawing is that of
 * verdict_pictures.c, the writing that of page_file.c.
 *
 * A page must stay small enough for a browser, so each picture has a limit of its own; the pictures
 * say what they leave out.
 */
#include "verdict_gather.h"

#include "base.h"
#include "page_file.h"
#include "page_inside.h"
#include "verdict_page.h"

#include "src/compare/field.h"
#include "src/report/report.h"
#include "src/telemetry/telemetry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SORTED = 24,         /* most runs that are sorted into a tree of classes */
    DRAWN_STEPS = 20000, /* most steps in the plot of times */
    PAIRS = 3,           /* most pairs of runs that get a heatmap */
    CELLS = 1000000      /* most cells of all heatmaps together */
};

/* ---- how long each step took */

/* The plot of step times with the arrays that it borrows. series[i] is drawn, name[i] is the i-th
 * run's; y has a row of plot.count values for each run. */
struct times {
    struct twin_page_plot plot;
    struct twin_page_series *series;
    double *x, *y;
    char (*name)[24];
};

/* The step times of one process in ms, NaN where none is known. A row of telemetry may hold several
 * short steps: each gets the mean of the row. */
static void fill_times(const struct twin_telemetry_process *p, double *y, size_t steps)
{
    for (size_t i = 0; i < steps; i++)
        y[i] = NAN;
    for (size_t i = 0; i < p->rows; i++)
        for (uint32_t k = 0; k < p->row[i].steps && p->row[i].first + k < steps; k++)
            y[p->row[i].first + k] = 1e3 * p->row[i].seconds / p->row[i].steps;
}

/* Makes the plot of step times of rank 0. It is left without a series where runs have no telemetry,
 * and without memory too: the page is worth having without this picture. */
static void step_times(struct times *t, const struct twin_run *const *runs, size_t count,
                       size_t first_number)
{
    /* two passes: the longest run decides how many steps the arrays have */
    struct twin_telemetry **all = tw_calloc(count, sizeof *all);
    size_t steps = 0, drawn = 0;
    t->series = tw_calloc(count, sizeof *t->series);
    t->name = tw_calloc(count, sizeof *t->name);
    for (size_t i = 0; all && i < count; i++) {
        const struct twin_telemetry_process *p = twin_telemetry_load(runs[i]->dir, &all[i], NULL) ==
                                                         0
                                                     ? twin_telemetry_rank(all[i], 0)
                                                     : NULL;
        if (p && p->steps > steps)
            steps = p->steps < DRAWN_STEPS ? p->steps : DRAWN_STEPS;
    }
    t->x = tw_calloc(steps + 1, sizeof *t->x);
    t->y = tw_calloc(count * steps + 1, sizeof *t->y);
    for (size_t i = 0; t->x && i < steps; i++)
        t->x[i] = (double)i;
    for (size_t i = 0; t->series && t->name && t->x && t->y && all && i < count; i++) {
        const struct twin_telemetry_process *p = all[i] ? twin_telemetry_rank(all[i], 0) : NULL;
        /* one time alone is no picture of how they go */
        if (!p || p->rows < 2)
            continue;
        fill_times(p, &t->y[i * steps], steps);
        snprintf(t->name[i], sizeof t->name[i], "run %zu", first_number + i);
        t->series[drawn++] = (struct twin_page_series){.name = t->name[i], .y = &t->y[i * steps]};
    }
    for (size_t i = 0; all && i < count; i++)
        twin_telemetry_free(all[i]);
    tw_free(all);
    t->plot = (struct twin_page_plot){
        .question = "How long did each step take?",
        .x_name = "step",
        .y_name = "step time (ms), rank 0",
        .from_zero = true,
        .x = t->x,
        .count = steps,
        .caption =
            "Speed, apart from bits: runs may be equal and not equally fast. Short steps are timed "
            "several at once. twinrun report RUN says what a slow step waited for.",
        .series = t->series,
        .series_count = drawn};
}

static void times_free(struct times *t)
{
    tw_free(t->series);
    tw_free(t->name);
    tw_free(t->x);
    tw_free(t->y);
}

/* ---- what parted, and where */

/* As tw_is_record, and false for NULL: the finding's type says that it has a step. */
static bool is_record(const struct twin_finding *f)
{
    return f && f->type <= TWIN_FINDING_ORDER;
}

/* The command of a page without its secrets, since a page is handed around. malloc'ed; NULL: no
 * command, or no memory, and then the page goes without it. */
static char *safe_command(const char *command)
{
    int pending = TW_SECRET_NONE;
    const size_t n = command ? strlen(command) : 0, room = 2 * n + 64;
    char *out = command ? tw_malloc(room) : NULL;
    if (out)
        tw_secret_mask(&pending, command, n, out, room);
    return out;
}

/* ---- all pictures */

/* All that the pictures of one page show. x points into the other fields, so a struct pictures is
 * never copied. Freed by pictures_free(). */
struct pictures {
    struct twin_field field[PAIRS];
    struct twin_report_pair pair[PAIRS];
    struct twin_class_tree tree;
    struct twin_curves curves;
    struct times times;
    struct twin_grid grid;
    struct twin_report_pictures x;
};

/* Which pairs get a heatmap: run 0 beside the run that the verdict speaks of, then beside one run
 * of each other class. other[] takes indices of runs; returns how many. */
static size_t choose_pairs(const struct twin_verdict *v, const struct twin_class_tree *tree,
                           size_t other[PAIRS])
{
    size_t n = 1;
    other[0] = twin_report_other(v);
    for (size_t i = 0; i < tree->count && n < PAIRS; i++) {
        const struct twin_branch *b = &tree->branch[i];
        bool shown = false;
        for (size_t k = 0; k < b->members; k++)
            shown |= b->runs[k] == 0 || b->runs[k] == other[0];
        if (!shown && b->members)
            other[n++] = b->runs[0];
    }
    return n;
}

/* Fills g. With more than SORTED runs there is no tree, since sorting takes up to n (n - 1) / 2
 * comparisons; a run that is held against a baseline has no second run to compare with. 0, or a
 * TWIN_E*; pictures_free() must be called either way. */
static int gather_pictures(const struct twin_report *r, const struct twin_compare_options *compare,
                           struct pictures *g, struct twin_error *err)
{
    static const struct twin_compare_options none;
    const struct twin_verdict *v = r->verdict;
    struct twin_compare_options o = compare ? *compare : none;
    size_t other[PAIRS], pairs = 0;
    int rc = 0;
    *g = (struct pictures){.x = {.pair = g->pair, .tree = &g->tree, .curves = &g->curves}};
    if (r->run_count > 2 && v->differing && r->run_count <= SORTED && !v->against)
        rc = twin_compare_tree(r->runs, r->run_count, &o, &g->tree, err);
    /* the verdict has found the shift already: do not search for it once more */
    o.find_shift = false;
    o.shift = v->shift_found ? v->shift : o.shift;
    if (rc == 0 && r->run_count > 1 && !v->against)
        pairs = choose_pairs(v, &g->tree, other);
    for (size_t i = 0; i < pairs && rc == 0; i++) {
        if (other[i] >= r->run_count)
            continue;
        struct twin_field *f = &g->field[g->x.pairs];
        rc = twin_compare_field(r->runs[0], r->runs[other[i]], &o,
                                i == 0 && is_record(v->first) ? v->first->step_a : UINT32_MAX,
                                CELLS / pairs, f, err);
        g->pair[g->x.pairs++] = (struct twin_report_pair){f, other[i]};
    }
    if (rc == 0 && g->x.pairs)
        rc = twin_compare_grid(r->runs[0], r->runs[g->pair[0].other], &o, v->order,
                               is_record(v->first) ? v->first->step_a : UINT32_MAX, &g->grid, err);
    if (rc == 0 && g->grid.ranks > 1)
        g->x.grid = &g->grid;
    if (rc == 0)
        rc = twin_compare_curves(r->runs, r->run_count, &g->curves, err);
    if (rc == 0) {
        step_times(&g->times, r->runs, r->run_count, r->page_of ? r->page_of : 1);
        g->x.times = g->times.plot.series_count ? &g->times.plot : NULL;
    }
    return rc;
}

static void pictures_free(struct pictures *g)
{
    for (size_t i = 0; i < PAIRS; i++)
        twin_field_free(&g->field[i]);
    twin_class_tree_free(&g->tree);
    twin_curves_free(&g->curves);
    twin_grid_free(&g->grid);
    times_free(&g->times);
}

/* r is a copy of the report whose command has no secrets; all else is shared with the caller's. */
static int save_one(const struct twin_report *report, const struct twin_compare_options *compare,
                    const char *path, struct twin_error *err)
{
    char *command = safe_command(report->command);
    struct twin_report r = *report;
    struct pictures g;
    r.command = command;
    char number[32];
    const char *const label = number;
    snprintf(number, sizeof number, "run %zu", r.page_of);
    int rc = gather_pictures(&r, compare, &g, err);
    if (r.page_of)
        g.x.label = &label;
    if (rc == 0)
        rc = tw_page_save(twin_report_page(&r, &g.x), path, err);
    pictures_free(&g);
    tw_free(command);
    return rc;
}

int tw_run_save_page(const struct twin_run *run, size_t number, const char *verb, const char *home,
                     const char *folder, struct twin_error *err)
{
    static const struct twin_compare_options as_it_stands;
    struct twin_verdict *v = NULL;
    char name[TW_RUN_PAGE_NAME];
    tw_run_page_name(number, name);
    char *path = tw_path_join(folder, name), *command = tw_shell_quote(run->argv, run->argc);
    int rc = path && command ? twin_compare(&run, 1, &as_it_stands, &v, err)
                             : tw_no_memory(err, "a page");
    if (rc == 0)
        rc = save_one(&(struct twin_report){.verdict = v,
                                            .runs = &run,
                                            .run_count = 1,
                                            .verb = verb,
                                            .command = command,
                                            .again = {.home = home},
                                            .page_of = number},
                      NULL, path, err);
    twin_verdict_free(v);
    tw_free(command);
    tw_free(path);
    return rc;
}

/* The pages of the runs come first: a comparison that is there leads to pages that are there. */
int tw_verdict_save_page(const struct twin_report *report,
                         const struct twin_compare_options *compare, const char *path,
                         struct twin_error *err)
{
    struct twin_report all = *report;
    int rc = 0;
    if (!tw_page_is_folder(path))
        return save_one(report, compare, path, err);
    all.has_run_pages = true;
    for (size_t i = 1; rc == 0 && i <= all.run_count; i++)
        rc = tw_run_save_page(all.runs[i - 1], i, all.verb, all.again.home, path, err);
    char *index = tw_path_join(path, TW_RUNS_PAGE);
    if (rc == 0)
        rc = index ? save_one(&all, compare, index, err) : tw_no_memory(err, "a page");
    tw_free(index);
    return rc;
}

/* Compares the runs first, since there is no verdict yet; the verdict is not shown, only its
 * pictures are. */
void tw_page_runs(struct twin_page *p, const struct twin_run *const *runs, size_t count)
{
    struct twin_verdict *v = NULL;
    struct pictures g;
    if (count == 0 || twin_compare(runs, count, &(struct twin_compare_options){0}, &v, NULL) != 0)
        return;
    const struct twin_report r = {.verdict = v, .runs = runs, .run_count = count};
    if (gather_pictures(&r, NULL, &g, NULL) == 0)
        twin_report_draw(p, &r, &g.x);
    pictures_free(&g);
    twin_verdict_free(v);
}

void tw_page_curves(struct twin_page *p, const struct twin_run *const *runs, size_t count,
                    const char *const *label)
{
    struct twin_curves curves = {0};
    if (twin_compare_curves(runs, count, &curves, NULL) == 0)
        twin_report_curves(p, &curves, label, NULL);
    twin_curves_free(&curves);
}
