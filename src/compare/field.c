/* SPDX-License-Identifier: Apache-2.0 */
/* How far every tensor of two runs is apart at every step: what a heatmap shows. A field is a
 * matrix with a row for each name of each rank and a column for each step. Steps whose hashes agree
 * are equal without a look at b; of long runs some steps are chosen, and rows that never differ
 * give way first. What was seen is collected as it comes and put into the matrix at the end, when
 * the number of rows is known. */
#include "internal.h"
#include "scan.h"

#include "src/compare/field.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DECADES = 40,     /* of the scale of cells, to either side of 1 */
    CELLS = 1000000,  /* of a field, where the caller names no number */
    ROWS = 16384,     /* more than anybody could look at */
    LEAST_STEPS = 64, /* so many are shown even of steps with very many records */
    CLOSE_BEFORE = 8, /* steps around the first difference, each of which is shown */
    CLOSE_BEHIND = 56
};

uint16_t twin_cell_of(double x)
{
    if (!(x > 0) || isinf(x))
        return TWIN_CELL_DIFFERS;
    const double top = TWIN_CELL_NOT_FINITE - 1 - TWIN_CELL_VALUES;
    const double at = (log10(x) + DECADES) / (2 * DECADES) * top;
    return (uint16_t)(TWIN_CELL_VALUES + lrint(fmin(fmax(at, 0), top)));
}

double twin_cell_value(uint16_t cell)
{
    const double top = TWIN_CELL_NOT_FINITE - 1 - TWIN_CELL_VALUES;
    return cell < TWIN_CELL_VALUES || cell == TWIN_CELL_NOT_FINITE
               ? NAN
               : pow(10, (cell - TWIN_CELL_VALUES) / top * (2 * DECADES) - DECADES);
}

/* ---- rows, found again by rank and key; cells in the order in which they are seen */

/* What the picture shows for one record. */
struct seen {
    uint32_t row, column;
    uint16_t cell;
};
/* A step of which a rank lost records: where nothing was seen of it, the picture shows a gap. */
struct hole {
    uint32_t column;
    int32_t rank;
};

/* The making of one field. */
struct making {
    struct tw_cmp *c;
    struct twin_field *f;
    uint64_t *key; /* of each row */
    size_t row_room, key_room, slots;
    uint32_t *slot; /* row + 1 */
    struct seen *seen;
    size_t seen_count, seen_room;
    struct hole *hole; /* steps with lost records */
    size_t holes, hole_room;
};

/* Enters a row into the index, which is kept at most half full. False: no memory. */
static bool index_row(struct making *m, uint32_t row)
{
    if (2 * (size_t)row + 2 > m->slots) {
        size_t slots = m->slots ? 2 * m->slots : 1024;
        uint32_t *grown = tw_calloc(slots, sizeof *grown);
        if (!grown)
            return false;
        tw_free(m->slot);
        m->slot = grown;
        m->slots = slots;
        for (uint32_t i = 0; i < row; i++)
            if (!index_row(m, i))
                return false;
    }
    assert((m->slots & (m->slots - 1)) == 0 && row < m->slots);
    size_t at = (size_t)tw_mix64(m->key[row]) & (m->slots - 1);
    while (m->slot[at])
        at = (at + 1) & (m->slots - 1);
    m->slot[at] = row + 1;
    return true;
}

/* Index of a record's row; -1: no memory, or more rows than anybody could look at. */
static int64_t row_of(struct making *m, const struct tw_view *v, const struct tw_rec *r)
{
    struct twin_field *f = m->f;
    const uint64_t key = r->key ^ tw_mix64((uint64_t)(uint32_t)v->proc->rank + 1);
    if (m->slots)
        for (size_t at = (size_t)tw_mix64(key) & (m->slots - 1); m->slot[at];
             at = (at + 1) & (m->slots - 1))
            if (m->key[m->slot[at] - 1] == key)
                return m->slot[at] - 1;
    if (f->rows >= ROWS) {
        f->rows_all++;
        return -1;
    }
    if (!tw_cmp_room(m->c, &f->row, f->rows, &m->row_room, sizeof *f->row) ||
        !tw_cmp_room(m->c, &m->key, f->rows, &m->key_room, sizeof *m->key))
        return -1;
    m->key[f->rows] = key;
    f->row[f->rows] = (struct twin_field_row){.rank = v->proc->rank,
                                              .phase = r->phase,
                                              .kind = r->kind,
                                              .name = tw_cmp_copy(m->c, tw_rec_name(v, r))};
    if (!index_row(m, (uint32_t)f->rows)) {
        tw_free(f->row[f->rows].name);
        m->c->oom = true;
        return -1;
    }
    return (int64_t)f->rows++;
}

/* Notes what the picture shows for a record in a column. */
static void see_record(struct making *m, const struct tw_view *v, const struct tw_rec *r,
                       uint32_t column, uint16_t cell)
{
    assert(column < m->f->steps);
    int64_t row = row_of(m, v, r);
    if (row < 0 || !tw_cmp_room(m->c, &m->seen, m->seen_count, &m->seen_room, sizeof *m->seen))
        return;
    m->seen[m->seen_count++] = (struct seen){(uint32_t)row, column, cell};
    m->f->row[row].differs |= cell >= TWIN_CELL_DIFFERS;
}

/* Notes that a view is not whole. */
static void see_hole(struct making *m, const struct tw_view *v, uint32_t column)
{
    if ((v->dropped || v->partial) &&
        tw_cmp_room(m->c, &m->hole, m->holes, &m->hole_room, sizeof *m->hole))
        m->hole[m->holes++] = (struct hole){column, v->proc->rank};
}

/* ---- one step of one pair of processes */

/* Does the record hold no NaN and no infinity, as far as it says? */
static bool all_finite(const struct tw_rec *r)
{
    return !(r->flags & TWIN_REC_STATS) || !(r->stats.nan | r->stats.pos_inf | r->stats.neg_inf);
}

/* The cell of a difference. The same records in another order are equal in value. */
static uint16_t cell_of(struct making *m, const struct tw_diff *d, const struct tw_view *va,
                        const struct tw_view *vb)
{
    double absolute;
    bool exact;
    if (d->type == TWIN_FINDING_ONLY_A || d->type == TWIN_FINDING_ONLY_B)
        return TWIN_CELL_ONE_SIDE;
    const struct tw_rec *a = &va->rec[d->a], *b = &vb->rec[d->b];
    if (d->type == TWIN_FINDING_ORDER)
        return TWIN_CELL_EQUAL;
    if (!all_finite(a) || !all_finite(b))
        return TWIN_CELL_NOT_FINITE;
    uint16_t cell = d->type == TWIN_FINDING_VALUE
                        ? twin_cell_of(tw_rec_distance(va, a, vb, b, &absolute, &exact))
                        : TWIN_CELL_DIFFERS;
    m->f->estimated |= cell >= TWIN_CELL_VALUES && !exact;
    return cell;
}

/* The cell of a's record i without a difference that counts: equal, or left out, or its counterpart
 * in b is lost. */
static uint16_t cell_without(const struct tw_view *va, size_t i, const struct tw_view *vb,
                             size_t other)
{
    if (other == TW_NONE)
        return vb->dropped || vb->partial ? TWIN_CELL_GAP : TWIN_CELL_LEFT_OUT;
    return vb->rec[other].content == va->rec[i].content ? TWIN_CELL_EQUAL : TWIN_CELL_LEFT_OUT;
}

/* A step that differs: first its differences, then all other records of a. */
static void see_differences(struct making *m, const struct tw_view *va, const struct tw_view *vb,
                            const struct tw_stepdiff *d, uint32_t column)
{
    bool *told = tw_calloc(va->count + 1, sizeof *told);
    m->c->oom |= !told;
    for (size_t i = 0; told && i < d->count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d->d[i], va, vb, &v);
        see_record(m, v, r, column, cell_of(m, &d->d[i], va, vb));
        if (d->d[i].a != TW_NONE)
            told[d->d[i].a] = true;
    }
    for (size_t i = 0; told && i < va->count; i++)
        if (!told[i])
            see_record(m, va, &va->rec[i], column, cell_without(va, i, vb, d->to_b[i]));
    tw_free(told);
}

/* Do the hashes of the step agree? False also where one of them is not known. */
static bool step_equal(const struct tw_pair *p, uint32_t step, int64_t shift)
{
    struct twin_step_hash x, y;
    return twin_trace_step_hash(p->a->trace, step, &x, NULL) == 0 &&
           twin_trace_step_hash(p->b->trace, (uint32_t)(step + shift), &y, NULL) == 0 &&
           x.records == y.records && memcmp(x.phase, y.phase, sizeof x.phase) == 0;
}

/* Fills one column for one pair of processes. */
static int look_at_step(struct making *m, const struct tw_pair *p, uint32_t column,
                        struct twin_error *err)
{
    assert(column < m->f->steps);
    struct tw_scan s = {.pair = p, .shift = m->c->o->shift};
    struct tw_view va, vb = {0};
    struct tw_stepdiff d = {0};
    const uint32_t step = m->f->step[column];
    int rc;
    if (step_equal(p, step, s.shift)) {
        rc = tw_view_load(m->c, p->a, step, step, &va, err);
        for (size_t i = 0; rc == 0 && i < va.count; i++)
            see_record(m, &va, &va.rec[i], column, TWIN_CELL_EQUAL);
    } else {
        rc = tw_scan_step(m->c, &s, step, &va, &vb, &d, err);
        if (rc == 0)
            see_differences(m, &va, &vb, &d, column);
        if (rc == 0)
            see_hole(m, &vb, column);
    }
    if (rc != 0)
        return rc;
    see_hole(m, &va, column);
    tw_stepdiff_free(&d);
    tw_view_free(&va);
    tw_view_free(&vb);
    return m->c->oom ? TWIN_ENOMEM : 0;
}

/* ---- which steps */

static int by_number(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

/* Steps first..last, all of them or at most n: evenly over the run, and each one around `from`. */
static bool choose_steps(struct twin_field *f, uint64_t first, uint64_t last, uint32_t from,
                         size_t n)
{
    assert(first <= last && n > 1);
    const uint64_t all = last - first + 1;
    f->steps_all = all;
    f->step = tw_calloc((size_t)(all < n ? all : n) + CLOSE_BEFORE + CLOSE_BEHIND, sizeof *f->step);
    if (!f->step)
        return false;
    for (uint64_t i = 0; i < (all < n ? all : n); i++)
        f->step[f->steps++] = (uint32_t)(first + (all <= n ? i : i * (all - 1) / (n - 1)));
    for (int64_t i = -CLOSE_BEFORE; all > n && from != UINT32_MAX && i < CLOSE_BEHIND; i++)
        if ((int64_t)from + i >= (int64_t)first && (int64_t)from + i <= (int64_t)last)
            f->step[f->steps++] = (uint32_t)((int64_t)from + i);
    /* Steps close to `from` may have been chosen twice. */
    qsort(f->step, f->steps, sizeof *f->step, by_number);
    size_t kept = 0;
    for (size_t i = 0; i < f->steps; i++)
        if (i == 0 || f->step[i] != f->step[kept - 1])
            f->step[kept++] = f->step[i];
    f->steps = kept;
    return true;
}

/* How many rows to expect: the records of a step in the middle, which has what a usual step has. */
static size_t usual_rows(const struct tw_pair *pairs, size_t count)
{
    size_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        struct twin_step_hash h;
        if (!pairs[i].auxiliary && pairs[i].a->info->steps &&
            twin_trace_step_hash(pairs[i].a->trace, (uint32_t)(pairs[i].a->info->steps / 2), &h,
                                 NULL) == 0)
            rows += h.records;
        twin_trace_rest(pairs[i].a->trace);
    }
    return rows ? rows : 1;
}

/* ---- from what was seen to a matrix */

/* By rank, then as a step flows (batch, activations, loss, gradients, weights), then as they
 * came. */
static int by_flow(const void *x, const void *y, void *user)
{
    const struct twin_field *f = user;
    const uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    const struct twin_field_row *a = &f->row[i], *b = &f->row[j];
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int p = tw_cause_class((uint8_t)a->phase, (uint8_t)a->kind);
    int q = tw_cause_class((uint8_t)b->phase, (uint8_t)b->kind);
    if (p != q)
        return p - q;
    return (i > j) - (i < j);
}

/* Sorts the rows and keeps `most` of them, those that differ first. place[row] says where a row
 * goes; UINT32_MAX: it is left out. False: no memory. */
static bool arrange_rows(struct twin_field *f, size_t most, uint32_t *place)
{
    uint32_t *order = tw_calloc(f->rows + 1, sizeof *order);
    struct twin_field_row *sorted = tw_calloc(f->rows + 1, sizeof *sorted);
    size_t kept = 0, differing = 0;
    if (!order || !sorted) {
        tw_free(order);
        tw_free(sorted);
        return false;
    }
    for (uint32_t i = 0; i < f->rows; i++) {
        order[i] = i;
        differing += f->row[i].differs;
    }
    if (f->rows)
        qsort_r(order, f->rows, sizeof *order, by_flow, f);
    size_t equal = differing < most ? most - differing : 0; /* room for rows that never differ */
    for (size_t i = 0; i < f->rows; i++) {
        struct twin_field_row *r = &f->row[order[i]];
        bool keep = kept < most && (r->differs || equal > 0);
        equal -= keep && !r->differs;
        place[order[i]] = keep ? (uint32_t)kept : UINT32_MAX;
        if (keep)
            sorted[kept++] = *r;
        else
            tw_free(r->name);
    }
    tw_free(order);
    tw_free(f->row);
    f->row = sorted;
    f->rows_all += f->rows;
    f->rows = kept;
    return true;
}

/* Puts all that was seen into the matrix. Where several records share a cell, the largest code
 * stands. */
static int assemble_cells(struct making *m, size_t cells, struct twin_error *err)
{
    struct twin_field *f = m->f;
    uint32_t *place = tw_calloc(f->rows + 1, sizeof *place);
    bool ok = place && arrange_rows(f, f->steps ? cells / f->steps + 1 : 0, place);
    f->cell = ok ? tw_calloc(f->rows * f->steps + 1, sizeof *f->cell) : NULL;
    for (size_t i = 0; f->cell && i < m->seen_count; i++) {
        const struct seen *s = &m->seen[i];
        if (place[s->row] == UINT32_MAX)
            continue;
        uint16_t *cell = &f->cell[(size_t)place[s->row] * f->steps + s->column];
        *cell = s->cell > *cell ? s->cell : *cell;
    }
    for (size_t i = 0; f->cell && i < m->holes; i++)
        for (size_t r = 0; r < f->rows; r++)
            if (f->row[r].rank == m->hole[i].rank &&
                f->cell[r * f->steps + m->hole[i].column] == TWIN_CELL_NONE)
                f->cell[r * f->steps + m->hole[i].column] = TWIN_CELL_GAP;
    tw_free(place);
    return f->cell ? 0 : tw_no_memory(err, "comparing every tensor of every step");
}

/* The steps that both processes of some pair have; an unfinished last one counts where the runs
 * part in it. */
static void overlap(const struct tw_pair *pairs, size_t count, const struct twin_compare_options *o,
                    uint32_t from, uint64_t *first, uint64_t *end)
{
    *first = o->shift < 0 ? (uint64_t)-o->shift : 0;
    *end = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t b = (int64_t)pairs[i].b->info->steps - o->shift;
        const uint64_t a = pairs[i].a->info->steps;
        uint64_t both = 0;
        if (b >= 0)
            both = a < (uint64_t)b ? a : (uint64_t)b;
        if (!pairs[i].auxiliary && both > *end)
            *end = both;
    }
    if (from != UINT32_MAX && from == *end)
        ++*end;
    if (o->steps_given && *end > o->steps)
        *end = o->steps;
}

/* All steps of one pair. Each trace is gone through once, and thousands of them need neither a
 * descriptor nor memory at the same time. */
static int look_at_pair(struct making *m, const struct tw_pair *p, struct twin_error *err)
{
    int rc = 0;
    for (uint32_t column = 0; rc == 0 && column < m->f->steps; column++)
        if (m->f->step[column] <= p->a->info->steps)
            rc = look_at_step(m, p, column, err);
    twin_trace_rest(p->a->trace);
    twin_trace_rest(p->b->trace);
    return rc;
}

/* False: the hashes of all steps were compared, and are equal. */
static bool may_differ(const struct tw_pair *p, int64_t shift)
{
    bool found = false;
    uint32_t step;
    uint64_t compared = 0;
    const int rc = twin_trace_first_difference(p->a->trace, p->b->trace, shift, 0, UINT32_MAX,
                                               &found, &step, &compared, NULL);
    twin_trace_rest(p->a->trace);
    twin_trace_rest(p->b->trace);
    return rc != 0 || found || compared < p->a->info->steps;
}

/* Rank after rank. Of more rows than are kept those that come first are: so the ranks that may
 * differ come before the others. */
static int look_at_pairs(struct making *m, const struct tw_pair *pairs, size_t count, bool too_many,
                         struct twin_error *err)
{
    bool *later = tw_calloc(count + 1, sizeof *later);
    if (!later)
        return tw_no_memory(err, "for the order of ranks");
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (pairs[i].auxiliary)
            continue;
        later[i] = too_many && !may_differ(&pairs[i], m->c->o->shift);
        if (!later[i])
            rc = look_at_pair(m, &pairs[i], err);
    }
    for (size_t i = 0; rc == 0 && i < count; i++)
        if (later[i])
            rc = look_at_pair(m, &pairs[i], err);
    tw_free(later);
    return rc;
}

/* Chooses the steps, looks at each in every pair of processes, and makes the matrix. Runs with
 * different numbers of ranks get no rows. */
static int make_field(struct making *m, const struct tw_side *sa, const struct tw_side *sb,
                      const struct tw_pair *pairs, size_t count, uint32_t from, size_t cells,
                      struct twin_error *err)
{
    uint64_t first, end;
    overlap(pairs, count, m->c->o, from, &first, &end);
    if (sa->world != sb->world || end <= first)
        return 0;
    const size_t rows = usual_rows(pairs, count);
    const size_t most = cells / rows;
    if (!choose_steps(m->f, first, end - 1, from, most > LEAST_STEPS ? most : LEAST_STEPS))
        return tw_no_memory(err, "choosing steps");
    const int rc = look_at_pairs(m, pairs, count, rows > ROWS, err);
    return rc ? twin_error_set(err, rc, "out of memory comparing every tensor of every step")
              : assemble_cells(m, cells, err);
}

int twin_compare_field(const struct twin_run *a, const struct twin_run *b,
                       const struct twin_compare_options *o, uint32_t from, size_t cells,
                       struct twin_field *out, struct twin_error *err)
{
    static const struct twin_compare_options none;
    struct tw_cmp c = {.o = o ? o : &none, .quick = true};
    struct making m = {.c = &c, .f = out};
    struct tw_side sa = {0}, sb = {0};
    struct tw_pair *pairs = NULL;
    size_t count = 0;
    *out = (struct twin_field){0};
    int rc = tw_side_open(&c, a, 0, &sa, err);
    if (rc == 0)
        rc = tw_side_open(&c, b, 1, &sb, err);
    if (rc == 0 && tw_side_match(&c, &sa, &sb, &pairs, &count) != 0)
        rc = tw_no_memory(err, "matching processes");
    if (rc == 0)
        rc = make_field(&m, &sa, &sb, pairs, count, from, cells ? cells : CELLS, err);
    if (rc == 0 && c.oom)
        rc = tw_no_memory(err, "comparing every tensor of every step");
    tw_side_close(&sa);
    tw_side_close(&sb);
    tw_free(pairs);
    tw_free(m.key);
    tw_free(m.slot);
    tw_free(m.seen);
    tw_free(m.hole);
    if (rc != 0)
        twin_field_free(out);
    tw_cmp_close(&c, TWIN_EINVAL, NULL); /* there is no verdict to hand over */
    return rc;
}

void twin_field_free(struct twin_field *f)
{
    for (size_t i = 0; i < f->rows; i++)
        tw_free(f->row[i].name);
    tw_free(f->row);
    tw_free(f->step);
    tw_free(f->cell);
    *f = (struct twin_field){0};
}
