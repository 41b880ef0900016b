/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a verdict: gathers what its pictures show (src/report draws them) and writes it. */
#include "page.h"
#include "verdict.h"

#include "options.h"
#include "say.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <twin/field.h>
#include <twin/report.h>
#include <twin/telemetry.h>

enum { SORTED = 24, DRAWN_STEPS = 20000 }; /* runs that are sorted into a tree; steps in the plot of times */

/* ---- how long each step took */

struct times { struct twin_page_plot plot; struct twin_page_series *series; double *x, *y; char (*name)[24]; };

static void fill(const struct twin_telemetry_process *p, double *y, size_t steps)
{
    for (size_t i = 0; i < steps; i++)
        y[i] = NAN;
    for (size_t i = 0; i < p->rows; i++)
        for (uint32_t k = 0; k < p->row[i].steps && p->row[i].first + k < steps; k++)
            y[p->row[i].first + k] = 1e3 * p->row[i].seconds / p->row[i].steps;
}

/* Left without a series where runs have no telemetry; without memory too: the page is worth having without this picture. */
static void step_times(struct times *t, const struct twin_run *const *runs, size_t count)
{
    struct twin_telemetry **all = tw_calloc(count, sizeof *all);
    size_t steps = 0, drawn = 0;
    t->series = tw_calloc(count, sizeof *t->series);
    t->name = tw_calloc(count, sizeof *t->name);
    for (size_t i = 0; all && i < count; i++) {
        const struct twin_telemetry_process *p = twin_telemetry_load(runs[i]->dir, &all[i], NULL) == 0 ? twin_telemetry_rank(all[i], 0) : NULL;
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
        .question = "How long did each step take?", .x_name = "step", .y_name = "step time (ms), rank 0", .from_zero = true, .x = t->x, .count = steps,
        .caption = "Speed, apart from bits: runs may be equal and not equally fast. Short steps are timed several at once. twinrun report RUN says what a slow step waited for.",
        .series = t->series, .series_count = drawn};
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

/* A page is handed around: no secret of the command line is in it. malloc'ed; NULL: no memory, then the page goes without the command. */
static char *safe_command(const char *command)
{
    bool pending = false;
    const size_t n = command ? strlen(command) : 0, room = 2 * n + 64;
    char *out = command ? tw_malloc(room) : NULL;
    if (out)
        tw_secret_mask(&pending, command, n, out, room);
    return out;
}

int tw_verdict_page(const struct twin_report *report, const struct twin_compare_options *compare, const char *path)
{
    char *command = safe_command(report->command);
    struct twin_report shown = *report;
    const struct twin_report *r = &shown;
    shown.command = command;
    static const struct twin_compare_options none;
    const struct twin_verdict *v = r->verdict;
    struct twin_compare_options o = compare ? *compare : none;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_field field = {0};
    struct twin_class_tree tree = {0};
    struct twin_curves curves = {0};
    struct twin_report_pictures x = {.field = &field, .other = twin_report_other(v), .tree = &tree, .curves = &curves};
    int rc = 0;
    if (r->run_count > 2 && v->differing && r->run_count <= SORTED && !v->against)
        rc = twin_compare_tree(r->runs, r->run_count, &o, &tree, &err);
    o.find_shift = false;
    o.shift = v->shift_found ? v->shift : o.shift;
    if (rc == 0 && x.other < r->run_count && r->run_count > 1 && !v->against)
        rc = twin_compare_field(r->runs[0], r->runs[x.other], &o, is_record(v->first) ? v->first->step_a : UINT32_MAX, 0, &field, &err);
    if (rc == 0)
        rc = twin_compare_curves(r->runs, r->run_count, &curves, &err);
    if (rc == 0) {
        struct times times = {0};
        step_times(&times, r->runs, r->run_count);
        x.times = times.plot.series_count ? &times.plot : NULL;
        rc = tw_page_write(r->verb ? r->verb : "check", twin_report_page(r, &x), path);
        times_free(&times);
    } else {
        rc = tw_trouble(&err, "%s: the report is not written as a page", r->verb ? r->verb : "check");
    }
    twin_field_free(&field);
    twin_class_tree_free(&tree);
    twin_curves_free(&curves);
    tw_free(command);
    return rc;
}
