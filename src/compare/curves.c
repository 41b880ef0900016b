/* SPDX-License-Identifier: Apache-2.0 */
/* What runs recorded as single numbers, step by step, and the norms of gradients and weights: for
 * plots. Each trace is walked once. A curve belongs to one run, rank and name; the gradients of all
 * tensors are one curve, and so are the weights. */
#include "internal.h"

#include "src/compare/field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* more names than anybody could look at are left out */
enum { CURVES = 512 };
/* Steps, and bytes of traces, beyond these are not read: a plot has some thousand pixels. */
#define STEPS_MAX (UINT64_C(1) << 20)
#define BYTES_MAX (UINT64_C(512) << 20)

/* A curve while its trace is read: c.y holds sums, and n how many records each step added to
 * them. */
struct growing {
    struct twin_curve c;
    uint32_t *n;
    size_t step_room;
    uint32_t series;
    bool norm;
};

/* The reading of all runs, with the process at hand. */
struct reading {
    struct tw_proc *proc;
    size_t run;
    struct growing *g;
    size_t count, room;
    uint64_t left_out;
    size_t from; /* curves of this process begin here */
    struct tw_cmp *cmp;
};

/* The kind of curve that a series belongs to; false: to none. Gradients that a line of the job
 * wrote into, and weights that no optimizer left, are other things than the curve shows. */
static bool kind_of(const struct twin_series *s, enum twin_curve_kind *kind)
{
    switch (s->kind) {
    case TWIN_KIND_LOSS: *kind = TWIN_CURVE_LOSS; return true;
    case TWIN_KIND_VALUE: *kind = TWIN_CURVE_VALUE; return true;
    case TWIN_KIND_HYPER: *kind = TWIN_CURVE_HYPER; return true;
    case TWIN_KIND_GRADIENT: *kind = TWIN_CURVE_GRADIENT; return !tw_is_written(s->phase, s->kind);
    case TWIN_KIND_WEIGHT: *kind = TWIN_CURVE_WEIGHT; return s->phase == TWIN_PHASE_OPTIMIZER;
    default: return false;
    }
}

/* The curve that a record belongs to; NULL: too many, or no memory. */
static struct growing *curve_of(struct reading *r, const struct twin_trace_record *t,
                                const struct twin_series *s, enum twin_curve_kind kind)
{
    const bool norm = kind == TWIN_CURVE_GRADIENT || kind == TWIN_CURVE_WEIGHT;
    for (size_t i = r->from; i < r->count; i++)
        if (norm ? r->g[i].c.kind == kind : r->g[i].series == t->series)
            return &r->g[i];
    const char *name = norm ? "" : twin_trace_string(r->proc->trace, s->name);
    for (size_t i = r->from; !norm && i < r->count; i++) /* the same seen from another line */
        if (r->g[i].c.kind == kind && strcmp(r->g[i].c.name, name) == 0)
            return &r->g[i];
    if (r->count >= CURVES || !tw_cmp_room(r->cmp, &r->g, r->count, &r->room, sizeof *r->g))
        return NULL;
    char *copy = tw_cmp_copy(r->cmp, name);
    if (!copy)
        return NULL;
    r->g[r->count] = (struct growing){
        .c = {.kind = kind, .name = copy, .run = r->run, .rank = r->proc->rank},
        .series = t->series,
        .norm = norm};
    return &r->g[r->count++];
}

/* Makes the curve long enough for a step; the steps in between have no record yet. False: no
 * memory. */
static bool reach_step(struct reading *r, struct growing *g, uint32_t step)
{
    while (g->c.steps <= step) {
        size_t room = g->step_room;
        if (!tw_cmp_room(r->cmp, &g->c.y, g->c.steps, &room, sizeof *g->c.y) ||
            !tw_cmp_room(r->cmp, &g->n, g->c.steps, &g->step_room, sizeof *g->n))
            return false;
        g->c.y[g->c.steps] = 0;
        g->n[g->c.steps++] = 0;
    }
    return true;
}

/* Adds a record to its curve: a number itself, or of a tensor the sum of its squares, which
 * finish_curve() turns into a norm. */
/* For twin_trace_walk_some: what add_record() looks at. */
static bool is_of_a_curve(void *user, uint32_t id, const struct twin_series *s)
{
    enum twin_curve_kind kind;
    (void)user, (void)id;
    return kind_of(s, &kind);
}

static int add_record(void *user, const struct twin_trace_record *t)
{
    struct reading *r = user;
    const struct twin_series *s = twin_trace_series(r->proc->trace, t->series);
    const struct twin_stats *x = &t->stats;
    enum twin_curve_kind kind;
    if (!(t->flags & TWIN_REC_STATS) || !kind_of(s, &kind))
        return 0;
    const bool norm = kind == TWIN_CURVE_GRADIENT || kind == TWIN_CURVE_WEIGHT;
    const bool bad = x->nan | x->pos_inf | x->neg_inf;
    if (!norm && x->count != 1)
        return 0;
    struct growing *g = t->step < STEPS_MAX ? curve_of(r, t, s, kind) : NULL;
    r->left_out += !g;
    if (!g || !reach_step(r, g, t->step))
        return r->cmp->oom ? TWIN_ENOMEM : 0;
    g->c.not_finite += bad;
    /* Of a tensor that is recorded in parts, the part whose turn it is stands for all. */
    double share = t->flags & TWIN_REC_PART && x->count > 0 ? (double)t->whole / (double)x->count
                                                            : 1;
    if (bad)
        g->c.y[t->step] += NAN;
    else
        g->c.y[t->step] += norm ? share * x->sumsq : x->sum;
    g->n[t->step]++;
    return 0;
}

/* Makes norms and means of the sums, and NaN of steps without a record. */
static void finish_curve(struct growing *g)
{
    for (size_t i = 0; i < g->c.steps; i++)
        if (g->n[i] == 0)
            g->c.y[i] = NAN;
        else
            g->c.y[i] = g->norm ? sqrt(g->c.y[i]) : g->c.y[i] / g->n[i];
    tw_free(g->n);
    g->n = NULL;
}

/* By kind, name, run and rank: what a plot lays over each other stands together. */
static int by_name(const void *x, const void *y)
{
    const struct twin_curve *a = x, *b = y;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    int c = strcmp(a->name, b->name);
    if (c != 0)
        return c;
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* Reads the trainers of one run, for as long as there is budget; what is not read is counted. */
static int read_run(struct reading *r, const struct twin_run *run, uint64_t *budget,
                    struct twin_curves *out, struct twin_error *err)
{
    struct tw_side side;
    int rc = tw_side_open(r->cmp, run, r->run, &side, err);
    for (size_t i = 0; rc == 0 && i < side.count; i++) {
        r->proc = &side.proc[i];
        if (!tw_starts(tw_proc_role(r->proc), "main") || r->proc->info->steps == 0)
            continue;
        if (r->proc->info->file_bytes > *budget) {
            out->unread++;
            continue;
        }
        *budget -= r->proc->info->file_bytes;
        r->from = r->count;
        rc = twin_trace_walk_some(r->proc->trace, is_of_a_curve, add_record, NULL, r, NULL);
        twin_trace_rest(r->proc->trace);
        out->unread += rc != 0 && rc != TWIN_ENOMEM;
        rc = rc == TWIN_ENOMEM ? rc : 0;
        for (size_t k = r->from; k < r->count; k++)
            finish_curve(&r->g[k]);
    }
    tw_side_close(&side);
    return rc;
}

int twin_compare_curves(const struct twin_run *const *runs, size_t n, struct twin_curves *out,
                        struct twin_error *err)
{
    static const struct twin_compare_options none;
    struct tw_cmp c = {.o = &none, .quick = true};
    struct reading r = {.cmp = &c};
    uint64_t budget = BYTES_MAX;
    int rc = 0;
    *out = (struct twin_curves){0};
    for (size_t i = 0; rc == 0 && i < n; i++) {
        r.run = i;
        rc = read_run(&r, runs[i], &budget, out, err);
    }
    out->left_out = r.left_out;
    out->curve = rc == 0 ? tw_calloc(r.count + 1, sizeof *out->curve) : NULL;
    for (size_t i = 0; i < r.count; i++)
        if (out->curve && !c.oom) {
            out->curve[out->count++] = r.g[i].c;
        } else {
            tw_free(r.g[i].c.name);
            tw_free(r.g[i].c.y);
            tw_free(r.g[i].n);
        }
    if (out->count)
        qsort(out->curve, out->count, sizeof *out->curve, by_name);
    if (rc == 0 && (c.oom || !out->curve))
        rc = TWIN_ENOMEM;
    if (rc != 0)
        twin_curves_free(out);
    tw_free(r.g);
    tw_cmp_close(&c, TWIN_EINVAL, NULL); /* there is no verdict to hand over */
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "reading what runs recorded") : rc;
}

void twin_curves_free(struct twin_curves *c)
{
    for (size_t i = 0; i < c->count; i++) {
        tw_free(c->curve[i].name);
        tw_free(c->curve[i].y);
    }
    tw_free(c->curve);
    *c = (struct twin_curves){0};
}
