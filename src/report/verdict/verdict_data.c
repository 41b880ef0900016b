/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pictures of a verdict as data: the same comparison, classes, grid and fan as on its page
 * (verdict_gather.c, verdict_grid.c, verdict_pictures.c), of one pair of runs. The field is given
 * whole: who shows it knows how large the screen is, and reduces it.
 */
#include "verdict_data.h"

#include "base.h"
#include "json_text.h"
#include "verdict_parts.h"
#include "wording.h"

#include "src/report/report.h"

#include <math.h>
#include <string.h>

enum { NAME_BYTES = 300, ORIGINS = 16 };

/* Takes both; whatever is NULL makes the list fail as a whole, which shows at its end. */
static void add(json_t **list, json_t *item)
{
    if (*list && json_array_append_new(*list, item) == 0)
        return;
    if (!*list)
        json_decref(item);
    json_decref(*list);
    *list = NULL;
}

/* What a writer of words appends, as text: the values in it are printable already. */
static json_t *said(struct tw_buf *b)
{
    tw_buf_puts(b, "");
    char *text = b->failed ? NULL : tw_printable_again(b->data, b->len);
    json_t *j = text ? json_string(text) : NULL;
    tw_free(text);
    tw_buf_free(b);
    *b = (struct tw_buf){0};
    return j;
}

/* Text of a job's making, cut. */
static json_t *name_json(const char *s)
{
    struct tw_buf b = {0};
    tw_say_safe(&b, s ? s : "", NAME_BYTES);
    return said(&b);
}

/* ---- words */

static json_t *finding_json(const struct twin_finding *f)
{
    struct tw_buf place = {0}, size = {0};
    if (!f)
        return json_null();
    const bool record = tw_is_record(f);
    tw_say_place(&place, f, true);
    if (record)
        tw_say_size(&size, f);
    static const char *const role[] = {
        [TWIN_ORIGIN] = "origin", [TWIN_CARRIER] = "carrier", [TWIN_ROLE_UNKNOWN] = "unknown"};
    return json_pack("{s:o,s:o,s:o,s:i,s:s,s:s,s:o,s:o,s:s,s:o,s:o}", "step",
                     record ? tw_json_count(f->step_a) : json_null(), "step_other",
                     record ? tw_json_count(f->step_b) : json_null(), "place", said(&place), "rank",
                     (int)f->rank, "phase", twin_phase_name(f->phase), "kind",
                     twin_kind_name(f->kind), "name", name_json(f->name), "layer",
                     tw_json_text(f->layer), "role", record ? role[f->role] : "unknown",
                     "operation", name_json(f->op), "size", said(&size));
}

static json_t *origins_json(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->origin_count && i < ORIGINS; i++)
        add(&list, finding_json(&v->origins[i]));
    return list;
}

static json_t *onsets_json(const struct twin_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->onset_count && i < 4 * ORIGINS; i++)
        add(&list, json_pack("{s:o,s:o}", "what", name_json(v->onsets[i].what), "step",
                             tw_json_count(v->onsets[i].step)));
    return list;
}

/* The verdict on the pair. */
static json_t *words_json(const struct twin_verdict *v)
{
    struct tw_buf headline = {0};
    tw_say_headline(&headline, v);
    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:{s:o,s:o,s:o,s:b},s:o}", "outcome",
                     twin_verdict_name(v->outcome), "bitwise", twin_verdict_name(v->bitwise),
                     "headline", said(&headline), "first", finding_json(v->first), "origins",
                     origins_json(v), "then", onsets_json(v), "equal_before",
                     name_json(v->equal_before), "drift_per_step",
                     tw_json_number(v->drift_per_step), "steps", "reference",
                     tw_json_count(v->steps_a), "compared", tw_json_count(v->steps_compared),
                     "differing", tw_json_count(v->steps_differing), "differing_exact",
                     (int)v->steps_differing_exact, "shift", json_integer((json_int_t)v->shift));
}

/* ---- ranks */

static json_t *base64_json(const void *data, size_t bytes)
{
    char *text = tw_base64(data, bytes);
    json_t *j = text ? json_string(text) : NULL;
    tw_free(text);
    return j;
}

/* Codes are written little-endian, whatever this machine is. */
static json_t *cells_json(const uint16_t *cell, size_t count)
{
    unsigned char *bytes = tw_malloc(2 * count + 1);
    for (size_t i = 0; bytes && i < count; i++) {
        bytes[2 * i] = (unsigned char)cell[i];
        bytes[2 * i + 1] = (unsigned char)(cell[i] >> 8);
    }
    json_t *j = bytes ? base64_json(bytes, 2 * count) : NULL;
    tw_free(bytes);
    return j;
}

static json_t *grid_json(const struct twin_verdict *v, const struct twin_grid *g)
{
    if (g->ranks < 2 || !g->steps)
        return json_null();
    struct tw_grid_marks *m = tw_grid_marks_make(v, g);
    if (!m)
        return NULL;
    json_t *steps = json_array(), *ranks = json_array();
    json_t *outlines = json_array(), *arrows = json_array();
    for (size_t i = 0; i < g->steps; i++)
        add(&steps, tw_json_count(g->step[i]));
    for (size_t i = 0; i < g->ranks; i++)
        add(&ranks, json_integer(g->rank[i]));
    for (size_t i = 0; i < m->outlines; i++)
        add(&outlines,
            json_pack("[o,o,o]", tw_json_count(m->outline[i].row),
                      tw_json_count(m->outline[i].column), tw_json_text(m->outline[i].text)));
    for (size_t i = 0; i < m->arrows; i++)
        add(&arrows,
            json_pack("[o,o,o,o,o]", tw_json_count(m->arrow[i].from_row),
                      tw_json_count(m->arrow[i].from_column), tw_json_count(m->arrow[i].to_row),
                      tw_json_count(m->arrow[i].to_column), name_json(m->arrow[i].text)));
    json_t *mark = m->named ? json_pack("[o,o]", tw_json_count(m->row), tw_json_count(m->column))
                            : json_null();
    const struct twin_rank_order *o = v->order;
    json_t *j = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:o}", "columns", steps, "rows",
                          ranks, "steps_all", tw_json_count(g->steps_all), "rows_all",
                          tw_json_count(g->ranks_all), "cells",
                          cells_json(g->cell, g->ranks * g->steps), "outlines", outlines, "arrows",
                          arrows, "arrows_left", tw_json_count(m->left), "mark", mark, "known",
                          !o || o->known, "why", o && !o->known ? name_json(o->why) : json_null());
    tw_grid_marks_free(m);
    return j;
}

/* ---- classes */

/* Which runs are of one class, and at which step it leaves another one. */
static json_t *tree_json(const struct twin_class_tree *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->count; i++) {
        const struct twin_branch *b = &t->branch[i];
        json_t *runs = json_array();
        for (size_t k = 0; k < b->members; k++)
            add(&runs, tw_json_count(b->runs[k]));
        add(&list, json_pack("{s:o,s:o,s:o}", "runs", runs, "parent",
                             b->step < 0 ? json_null() : tw_json_count(b->parent), "step",
                             b->step < 0 ? json_null() : json_integer((json_int_t)b->step)));
    }
    return list;
}

/* Of how many runs it is shown that they are still what the usual class is, from each step on at
 * which that changes. unsure: nothing was found in these, but not all of them was compared. */
static json_t *survival_json(const struct twin_verdict *v)
{
    json_t *events = json_array();
    size_t unsure = 0;
    for (size_t i = 0; i < v->class_count; i++) {
        const struct twin_class *c = &v->classes[i];
        unsure += c->unsure ? c->members : 0;
        if (c->parts_at_step >= 0)
            add(&events, json_pack("[o,o]", json_integer((json_int_t)c->parts_at_step),
                                   tw_json_count(c->members)));
    }
    return json_pack("{s:o,s:o,s:o,s:o}", "runs", tw_json_count(v->runs), "steps",
                     tw_json_count(v->steps_compared), "unsure", tw_json_count(unsure), "left",
                     events);
}

/* ---- the fan */

/* A number; "equal": nothing differs; "unknown": something does, by an amount that is not known. */
static json_t *size_json(double x)
{
    if (isnan(x))
        return json_string("unknown");
    return isinf(x) ? json_string("equal") : json_real(x);
}

/* Steps from..to-1 of one line as one point: the step whose largest is the largest stands for them,
 * its smallest is theirs, and unknown is not equal. */
static void add_point(json_t *line[3], const struct tw_fan *fan, size_t g, size_t from, size_t to)
{
    double y = INFINITY, low = INFINITY, high = INFINITY;
    for (size_t c = from; c < to; c++) {
        const double at = fan->high[g][c];
        const bool sized = isfinite(at);
        if (sized && (!isfinite(high) || at > high)) {
            high = at;
            y = fan->y[g][c];
        } else if (isnan(at) && isinf(high)) {
            y = low = high = NAN;
        }
        if (sized && (!isfinite(low) || fan->low[g][c] < low))
            low = fan->low[g][c];
    }
    add(&line[0], size_json(y));
    add(&line[1], size_json(low));
    add(&line[2], size_json(high));
}

static json_t *fan_json(const struct twin_field *f)
{
    struct tw_fan fan;
    const bool made = tw_fan_make(f, &fan);
    const size_t points = f->steps < TW_DATA_POINTS ? f->steps : TW_DATA_POINTS;
    json_t *steps = json_array(), *lines = json_array();
    for (size_t i = 0; i < points; i++)
        add(&steps, tw_json_count(f->step[i * f->steps / points]));
    for (size_t g = 0; made && g < fan.count; g++) {
        json_t *line[3] = {json_array(), json_array(), json_array()};
        for (size_t i = 0; i < points; i++)
            add_point(line, &fan, g, i * f->steps / points, (i + 1) * f->steps / points);
        add(&lines, json_pack("{s:s,s:o,s:o,s:o}", "group", fan.name[g], "median", line[0], "low",
                              line[1], "high", line[2]));
    }
    tw_fan_free(&fan);
    if (!made) {
        json_decref(steps);
        json_decref(lines);
        return NULL;
    }
    return json_pack("{s:o,s:o}", "steps", steps, "lines", lines);
}

/* ---- the field */

/* Keeps at most TW_DATA_ROWS rows, those that differ first. */
static void limit_rows(struct twin_field *f)
{
    size_t differing = 0, kept = 0;
    if (f->rows <= TW_DATA_ROWS)
        return;
    for (size_t i = 0; i < f->rows; i++)
        differing += f->row[i].differs;
    size_t equal = differing < TW_DATA_ROWS ? TW_DATA_ROWS - differing : 0;
    for (size_t i = 0; i < f->rows; i++) {
        const bool keep = kept < TW_DATA_ROWS && (f->row[i].differs || equal > 0);
        if (!keep) {
            tw_free(f->row[i].name);
            continue;
        }
        equal -= !f->row[i].differs;
        memmove(&f->cell[kept * f->steps], &f->cell[i * f->steps], f->steps * sizeof *f->cell);
        f->row[kept++] = f->row[i];
    }
    f->rows = kept;
}

static json_t *rows_json(const struct twin_field *f)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < f->rows; i++) {
        const struct twin_field_row *r = &f->row[i];
        add(&list,
            json_pack("[o,i,s,s,s]", name_json(r->name), (int)r->rank, twin_phase_name(r->phase),
                      twin_kind_name(r->kind), tw_field_group(r->phase, r->kind)));
    }
    return list;
}

/* Where the first finding of the pair is in the field: [row, column]. */
static json_t *mark_json(const struct twin_field *f, const struct twin_finding *x)
{
    for (size_t c = 0; x && tw_is_record(x) && c < f->steps; c++) {
        if (f->step[c] != x->step_a)
            continue;
        for (size_t i = 0; i < f->rows; i++)
            if (f->row[i].rank == x->rank && f->row[i].phase == x->phase &&
                f->row[i].kind == x->kind && strcmp(f->row[i].name, x->name) == 0)
                return json_pack("[o,o]", tw_json_count(i), tw_json_count(c));
    }
    return json_null();
}

/* ---- all of it */

/* What was compared, while it is made into data. */
struct compared {
    struct twin_verdict *pair, *all; /* all: the same where there are no more than two runs */
    struct twin_class_tree tree;
    struct twin_grid grid;
};

static void compared_free(struct compared *c)
{
    if (c->all != c->pair)
        twin_verdict_free(c->all);
    twin_verdict_free(c->pair);
    twin_class_tree_free(&c->tree);
    twin_grid_free(&c->grid);
}

static int compare(const struct twin_run *const *runs, size_t count, size_t other,
                   struct compared *c, struct twin_field *field, struct twin_error *err)
{
    const struct twin_run *const pair[2] = {runs[0], runs[other]};
    const bool arms = !twin_run_same_command(pair[0], pair[1]);
    struct twin_compare_options o = {.arms = arms, .find_shift = arms};
    int rc = twin_compare(pair, 2, &o, &c->pair, err);
    c->all = c->pair;
    if (rc == 0 && count > 2 && count <= TW_DATA_RUNS) {
        c->all = NULL;
        rc = twin_compare(runs, count, &o, &c->all, err);
        rc = rc ? rc : twin_compare_tree(runs, count, &o, &c->tree, err);
    }
    if (rc != 0)
        return rc;
    o.find_shift = false;
    o.shift = c->pair->shift_found ? c->pair->shift : 0;
    const struct twin_finding *first = c->pair->first;
    const uint32_t from = first && tw_is_record(first) ? first->step_a : UINT32_MAX;
    rc = twin_compare_field(pair[0], pair[1], &o, from, TW_DATA_CELLS, field, err);
    return rc ? rc : twin_compare_grid(pair[0], pair[1], &o, c->pair->order, from, &c->grid, err);
}

int tw_verdict_data(const struct twin_run *const *runs, size_t count, size_t other,
                    struct tw_verdict_data *out, struct twin_error *err)
{
    struct compared c = {.pair = NULL};
    *out = (struct tw_verdict_data){.head = NULL};
    int rc = compare(runs, count, other, &c, &out->field, err);
    if (rc == 0) {
        struct twin_field *f = &out->field;
        const bool several = c.all != c.pair;
        f->rows_all = f->rows_all > f->rows ? f->rows_all : f->rows;
        limit_rows(f);
        out->rows = rows_json(f);
        out->head = json_pack(
            "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "verdict", words_json(c.pair), "grid",
            grid_json(c.pair, &c.grid), "classes", several ? tree_json(&c.tree) : json_null(),
            "survival", several ? survival_json(c.all) : json_null(), "fan", fan_json(f), "mark",
            mark_json(f, c.pair->first), "rows_all", tw_json_count(f->rows_all), "steps_all",
            tw_json_count(f->steps_all), "estimated", (int)f->estimated);
        if (!out->head || !out->rows)
            rc = tw_no_memory(err, "for the pictures of a verdict");
    }
    compared_free(&c);
    return rc;
}

void tw_verdict_data_free(struct tw_verdict_data *d)
{
    json_decref(d->head);
    json_decref(d->rows);
    twin_field_free(&d->field);
    *d = (struct tw_verdict_data){.head = NULL};
}
