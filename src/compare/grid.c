/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank differs at which step: what the grid of a page shows. It says of each rank's first
 * difference what the verdict says (the rank order), and judges nothing itself. A reader can look
 * at some hundred rows and columns: of more ranks and steps some are chosen here, those around the
 * first differences among them.
 */
#include "internal.h"
#include "scan.h"

#include "src/compare/field.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = 384,    /* steps that are chosen evenly */
    NAMED_MOST = 256, /* ranks of the order that are among them, whatever their number */
    CLOSE_BEFORE = 8, /* steps around the first difference, each of which is shown */
    CLOSE_BEHIND = 24
};

size_t tw_grid_rows = 512;

/* Numbers that are wanted, in any order and some of them twice. */
struct wanted {
    uint32_t *n;
    size_t count, room;
};

static bool want(struct tw_cmp *c, struct wanted *w, uint64_t n)
{
    if (n > UINT32_MAX || !tw_cmp_room(c, &w->n, w->count, &w->room, sizeof *w->n))
        return false;
    w->n[w->count++] = (uint32_t)n;
    return true;
}

static int by_number(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

/* Sorts them, each once. */
static void sort_wanted(struct wanted *w)
{
    size_t kept = 0;
    if (w->count)
        qsort(w->n, w->count, sizeof *w->n, by_number);
    for (size_t i = 0; i < w->count; i++)
        if (i == 0 || w->n[i] != w->n[kept - 1])
            w->n[kept++] = w->n[i];
    w->count = kept;
}

/* `most` of [0, all), evenly; the first and the last among them. */
static void want_evenly(struct tw_cmp *c, struct wanted *w, uint64_t all, uint64_t most)
{
    const uint64_t n = all < most ? all : most;
    for (uint64_t i = 0; i < n; i++)
        want(c, w, n == all ? i : i * (all - 1) / (n - 1));
}

/* The trainers of both runs by rank; of a rank with several the first. Returns how many. */
static size_t by_rank(struct tw_pair *pairs, size_t count, struct tw_pair **row, int32_t world)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (!pairs[i].auxiliary && pairs[i].a->rank >= 0 && pairs[i].a->rank < world &&
            !row[pairs[i].a->rank]) {
            row[pairs[i].a->rank] = &pairs[i];
            n++;
        }
    return n;
}

static const struct twin_ranked *ranked_of(const struct twin_rank_order *o, int32_t rank)
{
    for (size_t i = 0; o && i < o->count; i++)
        if (o->item[i].rank == rank)
            return &o->item[i];
    return NULL;
}

/* Steps that are shown: evenly chosen ones, those around the first difference, and those in which
 * the ranks of the order differ first or gave what differs. */
static void choose_columns(struct tw_cmp *c, const struct twin_rank_order *o, uint32_t from,
                           uint64_t steps, struct wanted *w)
{
    want_evenly(c, w, steps, COLUMNS);
    for (int64_t i = -CLOSE_BEFORE; from != UINT32_MAX && i < CLOSE_BEHIND; i++)
        if ((int64_t)from + i >= 0 && (uint64_t)((int64_t)from + i) < steps)
            want(c, w, (uint64_t)((int64_t)from + i));
    for (size_t i = 0; o && i < o->count && i < NAMED_MOST; i++) {
        if (o->item[i].step_a < steps)
            want(c, w, o->item[i].step_a);
        if (o->item[i].place == TWIN_RANK_CARRIED && o->item[i].from_step < steps)
            want(c, w, o->item[i].from_step);
    }
    sort_wanted(w);
}

static void choose_rows(struct tw_cmp *c, const struct twin_rank_order *o, int32_t world,
                        struct wanted *w)
{
    want_evenly(c, w, (uint64_t)world, tw_grid_rows);
    for (size_t i = 0; o && i < o->count && i < NAMED_MOST; i++) {
        want(c, w, (uint64_t)o->item[i].rank);
        if (o->item[i].place == TWIN_RANK_CARRIED)
            want(c, w, (uint64_t)o->item[i].from);
    }
    sort_wanted(w);
}

/* One cell. x, y: the tables of both processes; differs: the step of the rank's first difference,
 * UINT64_MAX: none. */
static uint16_t cell_of(const struct tw_steps *x, const struct tw_steps *y, uint64_t step,
                        int64_t shift, uint64_t differs)
{
    const int64_t other = (int64_t)step + shift;
    const bool in_a = step < x->n, in_b = other >= 0 && (uint64_t)other < y->n;
    if (step == differs)
        return TWIN_CELL_DIFFERS;
    if (!in_a && !in_b)
        return TWIN_CELL_NONE;
    if (!in_a || !in_b)
        return TWIN_CELL_ONE_SIDE;
    const struct tw_step_entry *p = &x->step[step], *q = &y->step[other];
    if (!p->known || !q->known)
        return TWIN_CELL_GAP;
    if (p->hash == q->hash)
        return TWIN_CELL_EQUAL;
    return step > differs ? TWIN_CELL_DIFFERS : TWIN_CELL_LEFT_OUT;
}

static int fill_row(struct tw_cmp *c, const struct tw_pair *p, const struct twin_ranked *r,
                    int64_t shift, const struct wanted *steps, uint16_t *cell,
                    struct twin_error *err)
{
    struct tw_steps x = {0}, y = {0};
    int rc = tw_steps_load(c, p->a, 0, &x, err);
    if (rc == 0)
        rc = tw_steps_load(c, p->b, 0, &y, err);
    for (size_t i = 0; rc == 0 && i < steps->count; i++)
        cell[i] = cell_of(&x, &y, steps->n[i], shift, r ? r->step_a : UINT64_MAX);
    tw_steps_free(&x);
    tw_steps_free(&y);
    twin_trace_rest(p->a->trace);
    twin_trace_rest(p->b->trace);
    return rc;
}

/* The most steps that a rank has, with an unfinished one in which it differs. */
static uint64_t steps_of(struct tw_pair *const *row, int32_t world, const struct twin_rank_order *o)
{
    uint64_t steps = 0;
    for (int32_t rank = 0; rank < world; rank++)
        if (row[rank] && row[rank]->a->info->steps > steps)
            steps = row[rank]->a->info->steps;
    for (size_t i = 0; o && i < o->count; i++)
        if (o->item[i].step_a >= steps)
            steps = (uint64_t)o->item[i].step_a + 1;
    return steps;
}

static int make_grid(struct tw_cmp *c, struct tw_pair *pairs, size_t count, int32_t world,
                     const struct twin_rank_order *o, uint32_t from, struct twin_grid *g,
                     struct twin_error *err)
{
    struct tw_pair **row = tw_calloc((size_t)world + 1, sizeof(struct tw_pair *));
    struct wanted steps = {0}, ranks = {0};
    int rc = 0;
    if (!row)
        return tw_no_memory(err, "making a grid of ranks");
    g->ranks_all = by_rank(pairs, count, row, world);
    g->steps_all = steps_of(row, world, o);
    if (g->ranks_all > 1 && g->steps_all > 0) {
        choose_columns(c, o, from, g->steps_all, &steps);
        choose_rows(c, o, world, &ranks);
        g->rank = tw_calloc(ranks.count + 1, sizeof *g->rank);
        g->cell = tw_calloc(ranks.count * steps.count + 1, sizeof *g->cell);
        rc = g->rank && g->cell && !c->oom ? 0 : tw_no_memory(err, "making a grid of ranks");
    }
    for (size_t i = 0; rc == 0 && i < ranks.count; i++) {
        const int32_t rank = (int32_t)ranks.n[i];
        if (rank >= world || !row[rank])
            continue;
        g->rank[g->ranks] = rank;
        rc = fill_row(c, row[rank], ranked_of(o, rank), c->o->shift, &steps,
                      &g->cell[g->ranks++ * steps.count], err);
    }
    g->step = steps.n;
    g->steps = steps.count;
    tw_free(ranks.n);
    tw_free(row);
    return rc;
}

int twin_compare_grid(const struct twin_run *a, const struct twin_run *b,
                      const struct twin_compare_options *o, const struct twin_rank_order *order,
                      uint32_t from, struct twin_grid *out, struct twin_error *err)
{
    static const struct twin_compare_options none;
    struct tw_cmp c = {.o = o ? o : &none, .quick = true};
    struct tw_side sa = {0}, sb = {0};
    struct tw_pair *pairs = NULL;
    size_t count = 0;
    *out = (struct twin_grid){0};
    int rc = tw_side_open(&c, a, 0, &sa, err);
    if (rc == 0)
        rc = tw_side_open(&c, b, 1, &sb, err);
    const bool has_grid = rc == 0 && sa.world == sb.world && sa.world > 1 && sa.world < 1 << 24;
    if (has_grid && tw_side_match(&c, &sa, &sb, &pairs, &count) != 0)
        rc = tw_no_memory(err, "matching processes");
    if (has_grid && rc == 0)
        rc = make_grid(&c, pairs, count, sa.world, order, from, out, err);
    tw_side_close(&sa);
    tw_side_close(&sb);
    tw_free(pairs);
    if (rc != 0)
        twin_grid_free(out);
    tw_cmp_close(&c, TWIN_EINVAL, NULL); /* there is no verdict to hand over */
    return rc;
}

void twin_grid_free(struct twin_grid *g)
{
    tw_free(g->step);
    tw_free(g->rank);
    tw_free(g->cell);
    *g = (struct twin_grid){0};
}
