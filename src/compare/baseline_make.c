/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a baseline of runs that were found to be the same. Every step of every process becomes a
 * hash; as many steps as there is room for keep a short hash for each record, so that a tensor can
 * be named; numbers are kept for tolerances. The room is fixed (docs/format/baseline.md): the file
 * goes into a repository.
 */
#include "baseline_inside.h"
#include "scan.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The room of all processes together, and what one entry of each kind takes of it as text. It is
 * room in the file: a name, a number and a bucket of a sketch have about so many characters. */
enum {
    DETAIL_BYTES = 48 << 10, /* for the short hashes of records, their names included */
    NUMBER_BYTES = 12 << 10, /* for single numbers */
    SKETCH_BYTES = 24 << 10,
    RECORD_BYTES = 8,
    NAME_BYTES = 48,
    VALUE_BYTES = 34,
    BUCKET_BYTES = 17,
    LOOK_BACK = 64, /* steps before the last one in which sketches are looked for */
};

/* What is left of that room. */
struct room {
    long details, numbers, sketches;
};

/* ---- names, found again by key and occurrence */

/* Enters a name into the index, which is kept at most half full so that a search ends soon. False:
 * no memory. */
static bool index_name(struct twin_baseline *b, uint32_t index)
{
    if (2 * b->names + 2 > b->slots) {
        size_t slots = b->slots ? 2 * b->slots : 1024;
        uint32_t *grown = tw_calloc(slots, sizeof *grown);
        if (!grown)
            return false;
        tw_free(b->slot);
        b->slot = grown;
        b->slots = slots;
        for (uint32_t i = 0; i < index; i++)
            if (!index_name(b, i))
                return false;
    }
    assert((b->slots & (b->slots - 1)) == 0 && b->names < b->slots);
    size_t at = (size_t)tw_mix64(b->name[index].key ^ b->name[index].occurrence) & (b->slots - 1);
    while (b->slot[at])
        at = (at + 1) & (b->slots - 1);
    b->slot[at] = index + 1;
    return true;
}

/* The place of a name in the list; -1: it is not there. */
static int64_t find_name(const struct twin_baseline *b, uint64_t key, uint32_t occurrence)
{
    assert((b->slots & (b->slots - 1)) == 0);
    if (!b->slots)
        return -1;
    size_t at = (size_t)tw_mix64(key ^ occurrence) & (b->slots - 1);
    for (; b->slot[at]; at = (at + 1) & (b->slots - 1)) {
        const struct tw_bl_name *n = &b->name[b->slot[at] - 1];
        if (n->key == key && n->occurrence == occurrence)
            return b->slot[at] - 1;
    }
    return -1;
}

/* The place of a record's name in the list, where a new one is added and paid for out of *room. -1
 * when there is no memory. */
static int64_t name_of(struct tw_cmp *c, struct twin_baseline *b, struct tw_proc *p,
                       uint32_t series, uint32_t occurrence, long *room)
{
    uint64_t key = tw_proc_key(p, series);
    int64_t known = find_name(b, key, occurrence);
    if (known >= 0)
        return known;
    if (!tw_cmp_room(c, &b->name, b->names, &b->name_room, sizeof *b->name))
        return -1;
    const struct twin_series *s = twin_trace_series(p->trace, series);
    struct tw_bl_name *n = &b->name[b->names];
    *n = (struct tw_bl_name){.phase = s->phase,
                             .kind = s->kind,
                             .occurrence = occurrence,
                             .key = key,
                             .name = tw_cmp_copy(c, twin_trace_string(p->trace, s->name)),
                             .scope = tw_cmp_copy(c, twin_trace_string(p->trace, s->scope)),
                             .role = tw_cmp_copy(c, twin_trace_string(p->trace, s->role))};
    *room -= NAME_BYTES;
    b->names++;
    return c->oom || !index_name(b, (uint32_t)b->names - 1) ? -1 : (int64_t)b->names - 1;
}

/* ---- what did not repeat, though the runs are the same: generators that nobody draws from and the
 * like */

/* All records of one key in one run, summed up so that their order does not matter. */
struct key_sum {
    uint64_t key, a, b;
    uint32_t series;
};
/* The sums of one process, found by key: an open hash of `room` slots. */
struct key_sums {
    struct key_sum *k;
    size_t n, room;
    struct tw_proc *p;
    struct tw_cmp *c;
};

/* The sum of a key, a new one where there is none yet; NULL: no memory. */
static struct key_sum *sum_of(struct key_sums *s, uint64_t key, uint32_t series)
{
    if (2 * s->n + 2 > s->room) {
        struct key_sums grown = {.room = s->room ? 2 * s->room : 1024};
        grown.k = tw_calloc(grown.room, sizeof *grown.k);
        if (!grown.k)
            return NULL;
        for (size_t i = 0; i < s->room; i++)
            if (s->k[i].key) {
                size_t at = (size_t)s->k[i].key & (grown.room - 1);
                while (grown.k[at].key)
                    at = (at + 1) & (grown.room - 1);
                grown.k[at] = s->k[i];
            }
        tw_free(s->k);
        s->k = grown.k;
        s->room = grown.room;
    }
    size_t at = (size_t)key & (s->room - 1);
    while (s->k[at].key && s->k[at].key != key)
        at = (at + 1) & (s->room - 1);
    if (!s->k[at].key) {
        s->k[at] = (struct key_sum){.key = key, .series = series};
        s->n++;
    }
    return &s->k[at];
}

/* Adds a record to the sum of its key, unless --ignore names it. The step goes into the sum: the
 * same values in other steps are no repetition. */
static int add_key(void *user, const struct twin_trace_record *r)
{
    struct key_sums *s = user;
    const struct twin_series *series = twin_trace_series(s->p->trace, r->series);
    if (s->c->o->ignore_count && tw_cmp_ignored(s->c, series->phase, series->kind,
                                                twin_trace_string(s->p->trace, series->name)))
        return 0;
    uint64_t key = tw_proc_key(s->p, r->series);
    struct key_sum *k = key ? sum_of(s, key, r->series) : NULL;
    if (!k)
        return TWIN_ENOMEM;
    struct tw_hash128 h = tw_bl_record_hash128(key, r->occurrence, tw_record_content(s->p, r),
                                               r->flags & TWIN_REC_UNOBSERVED);
    k->a += tw_mix64(h.a + r->step);
    k->b += tw_mix64(h.b ^ r->step);
    return 0;
}

/* Enters a key that did not repeat among what the process leaves out. Only states of generators,
 * facts of the environment and output may be: of a weight or a loss that did not repeat there is
 * nothing to expect, and the command ends with TWIN_EINVAL. */
static int leave_out(struct tw_cmp *c, struct twin_baseline *b, struct tw_bl_proc *out,
                     struct tw_proc *p, const struct key_sum *k, struct twin_error *err)
{
    const struct twin_series *s = twin_trace_series(p->trace, k->series);
    const char *name = twin_trace_string(p->trace, s->name);
    long room = 0;
    if (s->phase != TWIN_PHASE_RNG && s->phase != TWIN_PHASE_ENVIRONMENT &&
        s->phase != TWIN_PHASE_OUTPUT)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s %s %s of rank %d did not repeat from run to run, step for step, "
                              "so there is nothing to expect of it; leave it out with --ignore",
                              twin_phase_name((enum twin_phase)s->phase),
                              twin_kind_name((enum twin_kind)s->kind), name, p->rank);
    int64_t index = name_of(c, b, p, k->series, 0, &room);
    if (index < 0 || !tw_cmp_room(c, &out->left_out, out->left_out_count, &out->left_out_room,
                                  sizeof *out->left_out))
        return tw_no_memory(err, "making a baseline");
    for (size_t i = 0; i < out->left_out_count; i++)
        if (out->left_out[i] == (uint32_t)index)
            return 0;
    out->left_out[out->left_out_count++] = (uint32_t)index;
    return 0;
}

/* Finds what did not repeat between two runs of one process, key by key: sums of whole steps have
 * told only that there is something. */
static int compare_keys(struct tw_cmp *c, struct twin_baseline *b, struct tw_bl_proc *out,
                        struct tw_proc *x, struct tw_proc *y, struct twin_error *err)
{
    struct key_sums sx = {.p = x, .c = c}, sy = {.p = y, .c = c};
    int rc = twin_trace_walk(x->trace, add_key, NULL, &sx, err);
    if (rc == 0)
        rc = twin_trace_walk(y->trace, add_key, NULL, &sy, err);
    for (size_t i = 0; rc == 0 && i < sx.room; i++) {
        const struct key_sum *k = &sx.k[i], *other = k->key ? sum_of(&sy, k->key, k->series) : NULL;
        if (k->key && !other)
            rc = tw_no_memory(err, "making a baseline");
        else if (k->key && (other->a != k->a || other->b != k->b))
            rc = leave_out(c, b, out, x, k, err);
    }
    /* only in the later run; where both have it, this adds nothing */
    for (size_t i = 0; rc == 0 && i < sy.room; i++) {
        const struct key_sum *k = sy.k[i].key ? sum_of(&sx, sy.k[i].key, sy.k[i].series) : NULL;
        if (k && k->a == 0 && k->b == 0 && (sy.k[i].a | sy.k[i].b))
            rc = leave_out(c, b, out, y, &sy.k[i], err);
    }
    tw_free(sx.k);
    tw_free(sy.k);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "making a baseline") : rc;
}

/* Did the two runs compute the same in every step? */
static bool sums_equal(const struct tw_bl_sums *x, const struct tw_bl_sums *y)
{
    bool equal = x->n == y->n;
    for (size_t i = 0; equal && i < x->n; i++)
        equal = x->step[i].a == y->step[i].a && x->step[i].b == y->step[i].b &&
                x->step[i].count == y->step[i].count;
    return equal;
}

/* ---- steps in detail */

/* What the steps of one baseline need: the comparison, the baseline, its runs and the room that is
 * left. */
struct maker {
    struct tw_cmp *c;
    struct twin_baseline *b;
    struct tw_side *side;
    struct room room;
    struct twin_error *err;
};

/* Is the record one finite number, whose statistics therefore hold it? */
static bool holds_one_number(const struct tw_view *v, const struct tw_rec *r)
{
    const struct twin_layout *l = twin_trace_layout(v->proc->trace, r->layout);
    uint64_t n = 1;
    for (unsigned i = 0; i < l->ndim && i < TWIN_MAX_NDIM; i++)
        n *= (uint64_t)l->shape[i];
    return r->flags & TWIN_REC_STATS && r->stats.count == 1 && n == 1 && !r->stats.nan &&
           !r->stats.pos_inf && !r->stats.neg_inf;
}

/* Keeps the number of a record, or its norm and its sketch. */
static int add_number(struct maker *m, struct tw_bl_proc *out, const struct tw_view *v,
                      const struct tw_rec *r, bool sketch)
{
    int64_t name = name_of(m->c, m->b, v->proc, r->series, r->occurrence,
                           sketch ? &m->room.sketches : &m->room.numbers);
    if (name < 0 ||
        !tw_cmp_room(m->c, &out->number, out->numbers, &out->number_room, sizeof *out->number))
        return tw_no_memory(m->err, "making a baseline");
    struct tw_bl_number *n = &out->number[out->numbers];
    *n = (struct tw_bl_number){
        .step = r->step, .name = (uint32_t)name, .count = r->stats.count, .value = r->stats.sum};
    if (sketch) {
        n->sketch = tw_malloc(sizeof *n->sketch);
        if (!n->sketch)
            return tw_no_memory(m->err, "making a baseline");
        *n->sketch = v->sketch[r->sketch - 1];
        n->value = sqrt(r->stats.sumsq);
        m->room.sketches -= VALUE_BYTES + BUCKET_BYTES * (long)n->sketch->k;
    }
    m->room.numbers -= sketch ? 0 : VALUE_BYTES;
    out->numbers++;
    return 0;
}

/* Did the record not repeat, or does --ignore name it? */
static bool is_left_out(const struct maker *m, const struct tw_bl_proc *out,
                        const struct tw_view *v, const struct tw_rec *r)
{
    struct tw_bl_left_out l = {m->c, m->b, out};
    return tw_bl_skip(&l, v->proc, r->series, r->key);
}

/* Keeps a short hash of each record of a step. */
static int add_detail(struct maker *m, struct tw_bl_proc *out, const struct tw_view *v,
                      uint32_t step)
{
    if (!tw_cmp_room(m->c, &out->detail, out->details, &out->detail_room, sizeof *out->detail))
        return tw_no_memory(m->err, "making a baseline");
    struct tw_bl_detail *d = &out->detail[out->details];
    *d = (struct tw_bl_detail){.step = step, .rec = tw_calloc(v->count + 1, sizeof *d->rec)};
    if (!d->rec)
        return tw_no_memory(m->err, "making a baseline");
    out->details++;
    for (size_t i = 0; i < v->count; i++) {
        const struct tw_rec *r = &v->rec[i];
        if (is_left_out(m, out, v, r))
            continue;
        int64_t name = name_of(m->c, m->b, v->proc, r->series, r->occurrence, &m->room.details);
        if (name < 0)
            return tw_no_memory(m->err, "making a baseline");
        d->rec[d->n++] = (struct tw_bl_record){
            (uint32_t)name,
            tw_bl_record_hash(r->key, r->occurrence, r->content, r->flags & TWIN_REC_UNOBSERVED)};
    }
    m->room.details -= RECORD_BYTES * (long)d->n + 24;
    return 0;
}

/* Losses and the job's own values of every step that stands alone; all records of those steps that
 * there is room for. */
static int one_step(struct maker *m, struct tw_bl_proc *out, struct tw_proc *p, uint32_t step)
{
    struct tw_view v;
    int rc = tw_view_load(m->c, p, step, step, &v, m->err);
    if (rc != 0)
        return rc;
    if (m->room.details > (RECORD_BYTES + (out->details ? 0 : NAME_BYTES)) * (long)v.count &&
        v.count)
        rc = add_detail(m, out, &v, step);
    for (size_t i = 0; rc == 0 && i < v.count && m->room.numbers > 0; i++) {
        const struct tw_rec *r = &v.rec[i];
        if ((r->kind == TWIN_KIND_LOSS || r->kind == TWIN_KIND_VALUE) && holds_one_number(&v, r) &&
            !is_left_out(m, out, &v, r))
            rc = add_number(m, out, &v, r, false);
    }
    tw_view_free(&v);
    return rc;
}

/* Is there a sketch of all elements? One that skipped a NaN tells the distance of the rest
 * alone. */
static bool has_sketch(const struct tw_view *v, const struct tw_rec *r)
{
    return r->sketch && (r->flags & TWIN_REC_STATS) && v->sketch[r->sketch - 1].skipped == 0 &&
           v->sketch[r->sketch - 1].k <= TWIN_SKETCH_MAX;
}

/* The latest weights that were sketched: what a tolerance is measured by. */
static int keep_sketches(struct maker *m, struct tw_bl_proc *out, struct tw_proc *p, uint64_t steps)
{
    bool found = false;
    int rc = 0;
    for (uint64_t back = 0; rc == 0 && !found && back < steps && back < LOOK_BACK; back++) {
        struct tw_view v;
        uint32_t step = (uint32_t)(steps - 1 - back);
        rc = tw_view_load(m->c, p, step, step, &v, m->err);
        if (rc != 0)
            break;
        for (size_t i = 0; i < v.count && rc == 0; i++) {
            const struct tw_rec *r = &v.rec[i];
            bool wanted = r->kind == TWIN_KIND_WEIGHT || r->kind == TWIN_KIND_VALUE ||
                          r->kind == TWIN_KIND_GRADIENT;
            if (!wanted || !has_sketch(&v, r) || is_left_out(m, out, &v, r) ||
                holds_one_number(&v, r))
                continue;
            found = true;
            if (m->room.sketches > NAME_BYTES + BUCKET_BYTES * (long)v.sketch[r->sketch - 1].k)
                rc = add_number(m, out, &v, r, true);
        }
        tw_view_free(&v);
    }
    return rc;
}

/* The order of steps, in which the file lists them. */
static int by_detail_step(const void *x, const void *y)
{
    const struct tw_bl_detail *a = x, *b = y;
    return a->step < b->step ? -1 : a->step > b->step;
}

/* By step, and in it by name. */
static int by_number(const void *x, const void *y)
{
    const struct tw_bl_number *a = x, *b = y;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return a->name < b->name ? -1 : a->name > b->name;
}

/* Is span i of n chosen in this round? First the first steps and the last one, then every power of
 * two, then all. */
static bool chosen_in(int round, size_t i, size_t n)
{
    if (round == 0)
        return i < 8 || i + 1 == n;
    return round > 1 || (i & (i - 1)) == 0;
}

/* Looks at the steps that stand alone, the most telling first, for as long as there is room; then
 * at the latest sketches. */
static int keep_details(struct maker *m, struct tw_bl_proc *out, struct tw_proc *p)
{
    size_t n = out->spans;
    bool *done = tw_calloc(n + 1, sizeof *done);
    int rc = done ? 0 : tw_no_memory(m->err, "making a baseline");
    /* The first steps, the last, every power of two; then the rest in order: where a divergence
     * begins is told best from the front. */
    for (int round = 0; rc == 0 && round < 3; round++)
        for (size_t i = 0; i < n && rc == 0; i++) {
            if (!chosen_in(round, i, n) || done[i] || out->span[i].first != out->span[i].last)
                continue;
            done[i] = true;
            rc = one_step(m, out, p, out->span[i].first);
        }
    tw_free(done);
    if (rc == 0)
        rc = keep_sketches(m, out, p, p->info->steps + (p->info->steps == 0));
    if (out->details)
        qsort(out->detail, out->details, sizeof *out->detail, by_detail_step);
    if (out->numbers)
        qsort(out->number, out->numbers, sizeof *out->number, by_number);
    return rc;
}

/* Cuts the steps of a process into spans of one hash each. The first steps and the last one stand
 * alone: where a divergence begins is told best from the front, and results are taken from the end.
 * What lies between is cut into TW_BL_RANGES stretches: 10,000 steps of one process become 256
 * single ones, then stretches of 153 steps, and the last step. */
static int make_spans(struct maker *m, struct tw_bl_proc *out, const struct tw_bl_sums *s,
                      size_t processes)
{
    size_t singles = TW_BL_SINGLE / processes < TW_BL_SINGLE_MIN ? TW_BL_SINGLE_MIN
                                                                 : TW_BL_SINGLE / processes;
    uint64_t steps = s->n - 1, first = 0;
    uint64_t each = steps > singles + 1 ? (steps - singles - 1 + TW_BL_RANGES - 1) / TW_BL_RANGES
                                        : 1;
    while (first < steps) {
        uint64_t length = first < singles || first + 1 == steps ? 1 : each;
        uint64_t last = first + length - 1;
        last = last + 1 >= steps && length > 1 ? steps - 2 : last; /* the last step stands alone */
        if (!tw_cmp_room(m->c, &out->span, out->spans, &out->span_room, sizeof *out->span))
            return tw_no_memory(m->err, "making a baseline");
        out->span[out->spans++] = tw_bl_span_of(s, (uint32_t)first, (uint32_t)last);
        first = last + 1;
    }
    out->tail = tw_side_complete(m->side) && s->step[steps].count > 0;
    if (!out->tail)
        return 0;
    if (!tw_cmp_room(m->c, &out->span, out->spans, &out->span_room, sizeof *out->span))
        return tw_no_memory(m->err, "making a baseline");
    out->span[out->spans++] = tw_bl_span_of(s, (uint32_t)steps, (uint32_t)steps);
    return 0;
}

/* ---- one process */

/* Makes one process of the baseline, of its counterparts in all runs. Where a step of another run
 * does not agree, the keys that did not repeat are left out and the sums are made again. pairs[i]
 * are the processes of run i beside those of the first run. */
static int make_process(struct maker *m, size_t n, struct tw_pair *const *pairs,
                        const size_t *pair_counts, struct tw_proc *p, size_t processes)
{
    struct twin_baseline *b = m->b;
    struct tw_bl_sums sums = {0};
    if (!tw_cmp_room(m->c, &b->proc, b->procs, &b->proc_room, sizeof *b->proc))
        return tw_no_memory(m->err, "making a baseline");
    struct tw_bl_proc *out = &b->proc[b->procs++];
    *out = (struct tw_bl_proc){
        .rank = p->rank, .role = tw_cmp_copy(m->c, tw_proc_role(p)), .steps = p->info->steps};
    struct tw_bl_left_out skip = {m->c, b, out};
    int rc = tw_bl_sums_load(m->c, p, tw_bl_skip, &skip, &sums, m->err);
    for (size_t i = 1; rc == 0 && i < n; i++)
        for (size_t k = 0; rc == 0 && k < pair_counts[i]; k++) {
            struct tw_bl_sums other;
            if (pairs[i][k].a != p)
                continue;
            rc = tw_bl_sums_load(m->c, pairs[i][k].b, tw_bl_skip, &skip, &other, m->err);
            if (rc != 0)
                break;
            if (!sums_equal(&sums, &other)) {
                rc = compare_keys(m->c, b, out, p, pairs[i][k].b, m->err);
                tw_bl_sums_free(&sums);
                if (rc == 0)
                    rc = tw_bl_sums_load(m->c, p, tw_bl_skip, &skip, &sums, m->err);
            }
            tw_bl_sums_free(&other);
        }
    for (size_t i = 0; rc == 0 && i < sums.n; i++) {
        out->records += sums.step[i].count;
        if (sums.step[i].dropped)
            rc = twin_error_set(m->err, TWIN_EINVAL,
                                "the details of %u records of step %zu were lost, so there is "
                                "nothing to expect of them; make the runs again with --lossless",
                                sums.step[i].dropped, i);
    }
    if (rc == 0)
        rc = make_spans(m, out, &sums, processes);
    if (rc == 0)
        rc = keep_details(m, out, p);
    tw_bl_sums_free(&sums);
    return rc;
}

/* Makes every process that a baseline speaks of. TWIN_EINVAL: no run recorded anything. */
static int make_processes(struct maker *m, struct tw_side *side, size_t n, struct twin_error *err)
{
    size_t wanted = 0;
    for (size_t i = 0; i < side[0].count; i++)
        wanted += tw_bl_wanted(&side[0], &side[0].proc[i]);
    if (wanted == 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "nothing was recorded, so there is nothing to expect; `twinrun "
                              "doctor` says what can be seen here");
    if (wanted > TW_BL_PROCESSES_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%zu processes recorded; a baseline holds up to %u",
                              wanted, TW_BL_PROCESSES_MAX);
    struct tw_pair **pairs = tw_calloc(n, sizeof *pairs);
    size_t *counts = tw_calloc(n, sizeof *counts);
    int rc = pairs && counts ? 0 : tw_no_memory(err, "making a baseline");
    for (size_t i = 1; rc == 0 && i < n; i++)
        rc = tw_side_match(m->c, &side[0], &side[i], &pairs[i], &counts[i]);
    for (size_t i = 0; rc == 0 && i < side[0].count; i++)
        if (tw_bl_wanted(&side[0], &side[0].proc[i]))
            rc = make_process(m, n, pairs, counts, &side[0].proc[i], wanted);
    for (size_t i = 1; pairs && i < n; i++)
        tw_free(pairs[i]);
    tw_free(pairs);
    tw_free(counts);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "making a baseline") : rc;
}

/* What the baseline says of itself: version, time, command and options of the first run. */
static void describe_baseline(struct tw_cmp *c, struct twin_baseline *b, const struct twin_run *r,
                              size_t n, const char *version)
{
    char made[32];
    tw_utc_time(tw_realtime_ns(), false, made);
    b->twinrun = tw_cmp_copy(c, version);
    b->made = tw_cmp_copy(c, made);
    b->runs = n;
    b->level = r->level;
    b->max_steps = r->max_steps;
    b->command = tw_calloc(r->argc + 1, sizeof *b->command);
    b->ignore = tw_calloc(c->o->ignore_count + 1, sizeof *b->ignore);
    c->oom |= !b->command || !b->ignore;
    for (size_t i = 0; b->command && i < r->argc; i++) {
        char *safe = tw_printable(r->argv[i], strlen(r->argv[i])); /* JSON is text */
        c->oom |= !safe;
        if (safe)
            b->command[b->command_count++] = safe;
    }
    for (size_t i = 0; b->ignore && i < c->o->ignore_count; i++)
        if ((b->ignore[b->ignore_count] = tw_cmp_copy(c, c->o->ignore[i])))
            b->ignore_count++;
}

int twin_baseline_make(const struct twin_run *const *runs, size_t n,
                       const struct twin_compare_options *o, const char *version,
                       struct twin_baseline **out, struct twin_error *err)
{
    static const struct twin_compare_options none;
    struct tw_cmp c = {.o = o ? o : &none, .quick = true};
    size_t opened = 0;
    *out = NULL;
    if (n == 0)
        return twin_error_set(err, TWIN_EINVAL, "no run to make a baseline of");
    for (size_t i = 0; i < c.o->ignore_count; i++)
        if (tw_number_pattern_is(c.o->ignore[i]))
            return twin_error_set(err, TWIN_EINVAL,
                                  "--ignore '%.200s': a baseline leaves out names and no single "
                                  "numbers; give the name alone",
                                  c.o->ignore[i]);
    struct tw_side *side = tw_calloc(n, sizeof *side);
    struct twin_baseline *b = tw_calloc(1, sizeof *b);
    int rc = side && b ? 0 : tw_no_memory(err, "making a baseline");
    for (; rc == 0 && opened < n; opened += rc == 0)
        rc = tw_side_open(&c, runs[opened], opened, &side[opened], err);
    struct maker m = {.c = &c,
                      .b = b,
                      .side = side,
                      .room = {DETAIL_BYTES, NUMBER_BYTES, SKETCH_BYTES},
                      .err = err};
    if (rc == 0) {
        describe_baseline(&c, b, runs[0], n, version);
        rc = make_processes(&m, side, n, err);
    }
    if (rc == 0 && c.oom)
        rc = tw_no_memory(err, "making a baseline");
    for (size_t i = 0; i < opened; i++)
        tw_side_close(&side[i]);
    tw_free(side);
    tw_texts_free(&c.notes);
    tw_texts_free(&c.unseen);
    tw_texts_free(&c.armed);
    tw_texts_free(&c.unarmed);
    if (b) {
        tw_free(b->slot);
        b->slot = NULL;
        b->slots = 0;
    }
    if (rc == 0)
        *out = b;
    else
        twin_baseline_free(b);
    return rc;
}
