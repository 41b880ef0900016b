/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers what the pictures of a verdict's page show: compares the recorded runs step by step,
 * reads their curves and times. */
#include "verdict_gather.h"

#include "base.h"
#include "page_file.h"

#include "src/compare/field.h"
#include "src/report/report.h"
#include "src/telemetry/telemetry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SORTED = 24,         /* runs that are sorted into a tree */
    DRAWN_STEPS = 20000, /* steps in the plot of times */
    PAIRS = 3,           /* heatmaps */
    CELLS = 1000000      /* of all heatmaps together */
};

/* ---- how long each step took */

struct times {
    struct twin_page_plot plot;
    struct twin_page_series *series;
    double *x, *y;
    char (*name)[24];
};

static void fill(const struct twin_telemetry_process *p, double *y, size_t steps)
{
    for (size_t i = 0; i < steps; i++)
        y[i] = NAN;
    for (size_t i = 0; i < p->rows; i++)
        for (uint32_t k = 0; k < p->row[i].steps && p->row[i].first + k < steps; k++)
            y[p->row[i].first + k] = 1e3 * p->row[i].seconds / p->row[i].steps;
}

/* Left without a series where runs have no telemetry; without memory too: the page is worth having
 * without this picture. */
static void step_times(struct times *t, const struct twin_run *const *runs, size_t count)
{
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
        if (!p)
            continue;
        fill(p, &t->y[i * steps], steps);
        snprintf(t->name[i], sizeof t->name[i], "run %zu", i + 1);
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

static bool is_record(const struct twin_finding *f)
{
    return f && f->type <= TWIN_FINDING_ORDER;
}

/* A page is handed around: no secret of the command line is in it. malloc'ed; NULL: no memory, then
 * the page goes without the command. */
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

struct pictures {
    struct twin_field field[PAIRS];
    struct twin_report_pair pair[PAIRS];
    struct twin_class_tree tree;
    struct twin_curves curves;
    struct times times;
    struct twin_report_pictures x;
};

/* Run 0 beside the run that the verdict speaks of, then beside one of each other class. Returns how
 * many. */
static size_t choose(const struct twin_verdict *v, const struct twin_class_tree *tree,
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

static int gather(const struct twin_report *r, const struct twin_compare_options *compare,
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
    o.find_shift = false;
    o.shift = v->shift_found ? v->shift : o.shift;
    if (rc == 0 && r->run_count > 1 && !v->against)
        pairs = choose(v, &g->tree, other);
    for (size_t i = 0; i < pairs && rc == 0; i++) {
        if (other[i] >= r->run_count)
            continue;
        struct twin_field *f = &g->field[g->x.pairs];
        rc = twin_compare_field(r->runs[0], r->runs[other[i]], &o,
                                i == 0 && is_record(v->first) ? v->first->step_a : UINT32_MAX,
                                CELLS / pairs, f, err);
        g->pair[g->x.pairs++] = (struct twin_report_pair){f, other[i]};
    }
    if (rc == 0)
        rc = twin_compare_curves(r->runs, r->run_count, &g->curves, err);
    if (rc == 0) {
        step_times(&g->times, r->runs, r->run_count);
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
    times_free(&g->times);
}

int tw_verdict_save_page(const struct twin_report *report,
                         const struct twin_compare_options *compare, const char *path,
                         struct twin_error *err)
{
    char *command = safe_command(report->command);
    struct twin_report r = *report;
    struct pictures g;
    r.command = command;
    int rc = gather(&r, compare, &g, err);
    if (rc == 0)
        rc = tw_page_save(twin_report_page(&r, &g.x), path, err);
    pictures_free(&g);
    tw_free(command);
    return rc;
}

void tw_page_runs(struct twin_page *p, const struct twin_run *const *runs, size_t count)
{
    struct twin_verdict *v = NULL;
    struct pictures g;
    if (count == 0 || twin_compare(runs, count, &(struct twin_compare_options){0}, &v, NULL) != 0)
        return;
    const struct twin_report r = {.verdict = v, .runs = runs, .run_count = count};
    if (gather(&r, NULL, &g, NULL) == 0)
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
