/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resumed arms: where one arm goes on in the other, and what the seam between them lost. chain.c
 * asks for the place of each process (tw_shift_of()), pair.c for the comparison at the seam
 * (tw_shift_seam()).
 *
 * A resumed run counts its steps from 0, so its place in the other arm is found by weights: those
 * it starts with are those that the other had after its step K - 1. From there on steps are
 * compared. At the seam itself what was restored (weights, generator states, moments where they
 * were recorded) is held against what the other arm ended step K - 1 with. In this file a is the
 * whole arm and b the resumed one.
 */
#include "arms.h"
#include "internal.h"
#include "scan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * A weight that b starts with, under the key that it would have as an updated weight, so that it
 * can be found among a's. known: a records it after steps; part: in some of them in parts only.
 */
struct start {
    uint64_t key, content;
    bool known, part;
};
/*
 * The search for the weights w, sorted by key, in a's trace. Per step of a: hits are whole weights
 * that are those b starts with, parts the same of parts of weights, missed parts that are not.
 * first_hits: a's own initial weights that are those of b.
 */
struct hunt {
    struct tw_proc *a;
    struct start *w;
    size_t n;
    uint32_t *hits, *parts, *missed;
    size_t steps;
    uint32_t first_hits;
    bool cut_otherwise; /* parts of tensors that are cut in another way are never alike */
};

static int by_key(const void *x, const void *y)
{
    const struct start *a = x, *b = y;
    return a->key < b->key ? -1 : a->key > b->key;
}

/* For twin_trace_walk_some: what count_hit() looks at. Without initial weights nothing can be hit.
 */
static bool is_weight(void *user, uint32_t id, const struct twin_series *s)
{
    (void)id;
    return ((struct hunt *)user)->n > 0 && s->kind == TWIN_KIND_WEIGHT &&
           (s->phase == TWIN_PHASE_INIT || s->phase == TWIN_PHASE_OPTIMIZER);
}

/*
 * Callback of twin_trace_walk: holds one weight of a, updated or initial, against those that b
 * starts with.
 */
static int count_hit(void *user, const struct twin_trace_record *r)
{
    struct hunt *h = user;
    const struct twin_series *s = twin_trace_series(h->a->trace, r->series);
    bool initial = s->phase == TWIN_PHASE_INIT;
    if (s->kind != TWIN_KIND_WEIGHT || (!initial && s->phase != TWIN_PHASE_OPTIMIZER) ||
        r->step >= h->steps)
        return 0;
    if (h->cut_otherwise && r->flags & TWIN_REC_OFFSET && !(r->flags & TWIN_REC_PART))
        return 0;
    struct start wanted = {.key = initial ? tw_key_hash(TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT,
                                                        twin_trace_string(h->a->trace, s->name),
                                                        twin_trace_string(h->a->trace, s->scope),
                                                        twin_trace_string(h->a->trace, s->role))
                                          : tw_proc_key(h->a, r->series)};
    struct start *found = bsearch(&wanted, h->w, h->n, sizeof *h->w, by_key);
    if (!found)
        return 0;
    bool hit = found->content == tw_record_content(h->a, r);
    bool part = r->flags & TWIN_REC_PART;
    found->known |= !initial; /* buffers are among the initial weights only */
    found->part |= part;
    if (initial)
        h->first_hits += hit && !part;
    else if (!part)
        h->hits[r->step] += hit;
    else if (hit)
        h->parts[r->step]++;
    else
        h->missed[r->step]++;
    return 0;
}

/*
 * Writes b's initial weights to w, sorted by key, and returns how many there are. w has room for
 * b->count. cut: NULL, or parts of tensors are left out and counted there.
 */
static size_t initial_weights(struct tw_view *b, struct start *w, size_t *cut)
{
    size_t n = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct tw_rec *r = &b->rec[i];
        const bool weight = r->phase == TWIN_PHASE_INIT && r->kind == TWIN_KIND_WEIGHT;
        if (weight && cut && tw_is_shard(r))
            ++*cut;
        else if (weight)
            w[n++] = (struct start){tw_key_hash(TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT,
                                                tw_rec_name(b, r), tw_rec_scope(b, r),
                                                tw_rec_role(b, r)),
                                    r->content, false, false};
    }
    if (n)
        qsort(w, n, sizeof *w, by_key);
    return n;
}

/*
 * Did a's step k and b's step 0 see the same data? That tells places of equal weights apart, as a
 * learning rate of 0 makes them.
 */
static bool same_data(const struct tw_pair *p, uint32_t k)
{
    struct twin_step_hash x, y;
    return twin_trace_step_hash(p->a->trace, k, &x, NULL) == 0 &&
           twin_trace_step_hash(p->b->trace, 0, &y, NULL) == 0 &&
           x.phase[TWIN_PHASE_DATA].lo == y.phase[TWIN_PHASE_DATA].lo &&
           x.phase[TWIN_PHASE_DATA].hi == y.phase[TWIN_PHASE_DATA].hi;
}

/*
 * Sets *k to the step of a at which b goes on: among the steps after which all of b's first weights
 * stood, the first one whose next data b sees, else the first one. False: there is no such step.
 * Weights that a only ever has in parts must agree in the parts that a step shows.
 */
static bool choose_step(const struct tw_pair *p, const struct hunt *h, int64_t *k)
{
    uint32_t all = 0;
    bool found = false;
    for (size_t i = 0; i < h->n; i++)
        all += h->w[i].known && !h->w[i].part;
    bool parts = false;
    for (size_t s = 0; s < h->steps; s++)
        parts |= h->parts[s] > 0;
    if (all == 0 && !parts)
        return false;
    /* b starts with the weights that a started with. */
    if (all > 0 && h->first_hits >= all) {
        *k = 0;
        found = true;
        if (same_data(p, 0))
            return true;
    }
    for (size_t s = 0; s < h->steps; s++) {
        if (h->hits[s] < all || h->missed[s] > 0 || h->hits[s] + h->parts[s] == 0)
            continue;
        if (!found)
            *k = (int64_t)s + 1;
        found = true;
        if (same_data(p, (uint32_t)s + 1)) {
            *k = (int64_t)s + 1;
            return true;
        }
    }
    return found;
}

/* A trace of a that cannot be read to its end gives a place among what was read, or none. */
int tw_shift_of(struct tw_cmp *c, const struct tw_pair *p, struct tw_place *out,
                struct twin_error *err)
{
    struct tw_view start = {0};
    struct hunt h = {0};
    *out = (struct tw_place){0};
    int rc = tw_view_load(c, p->b, 0, 0, &start, err);
    if (rc != 0)
        return rc;
    h = (struct hunt){.a = p->a,
                      .steps = (size_t)p->a->info->steps,
                      .cut_otherwise = p->a->info->world != p->b->info->world ||
                                       tw_cut_otherwise(p->a, p->b)};
    h.w = tw_reallocarray(NULL, start.count, sizeof *h.w);
    /* One block for the three tables, freed with h.hits. */
    h.hits = tw_calloc(3 * h.steps, sizeof *h.hits);
    if (!h.w || !h.hits) {
        rc = tw_no_memory(err, "looking for the place of a resumed run");
        goto out;
    }
    h.parts = h.hits + h.steps;
    h.missed = h.parts + h.steps;
    h.n = initial_weights(&start, h.w, h.cut_otherwise ? &out->cut : NULL);
    rc = twin_trace_walk_some(p->a->trace, is_weight, count_hit, NULL, &h, NULL);
    rc = rc == TWIN_ENOMEM ? tw_no_memory(err, "reading a trace") : 0;
    out->weights = h.n;
    for (size_t i = 0; i < h.n; i++)
        out->known += h.w[i].known;
    for (size_t i = 0; i < h.steps; i++)
        out->known += h.parts[i] + h.missed[i] > 0;
    out->found = rc == 0 && choose_step(p, &h, &out->step);
out:
    tw_view_free(&start);
    tw_free(h.w);
    tw_free(h.hits);
    return rc;
}

bool tw_shift_is(struct tw_cmp *c, const struct tw_pair *p, uint32_t k)
{
    struct tw_view before = {0}, start = {0};
    size_t known = 0, equal = 0;
    int rc = tw_view_load(c, p->a, k - 1, k - 1, &before, NULL);
    if (rc == 0)
        rc = tw_view_load(c, p->b, 0, 0, &start, NULL);
    struct start *w = rc == 0 ? tw_reallocarray(NULL, start.count, sizeof *w) : NULL;
    const size_t n = w ? initial_weights(&start, w, NULL) : 0;
    for (size_t i = 0; n > 0 && i < before.count; i++) {
        const struct tw_rec *r = &before.rec[i];
        if (r->kind != TWIN_KIND_WEIGHT || r->phase != TWIN_PHASE_OPTIMIZER)
            continue;
        const struct start *found = bsearch(&(struct start){.key = r->key}, w, n, sizeof *w,
                                            by_key);
        known += found != NULL;
        equal += found && found->content == r->content;
    }
    tw_free(w);
    tw_view_free(&before);
    tw_view_free(&start);
    return known > 0 && equal == known;
}

/* ---- the seam */

/*
 * Mixed into the tokens of records at the seam, so that they never match records of the step
 * itself.
 */
#define SALT UINT64_C(0x5EA3B1D70C2F4E69)

/*
 * The two views of a seam: a has what step `before` (K - 1) handed on and step K, b its initial
 * values and step 0. lost_a is not used.
 */
struct seam {
    const struct tw_view *a, *b;
    uint32_t before;
    bool *lost_a;
};

/* Does this record of a belong to the seam, and not to step K? */
static bool is_seam_a(const struct tw_rec *r, uint32_t before)
{
    return r->step == before;
}

/*
 * For tw_view_filter(): of a's step K - 1 only what a checkpoint carries over, which is weights,
 * moments and the last state of each generator. Of step K everything but initial values.
 */
static bool keep_a(const struct tw_view *v, const struct tw_rec *r, void *user)
{
    uint32_t before = *(uint32_t *)user;
    if (!is_seam_a(r, before))
        return r->phase != TWIN_PHASE_INIT;
    if (r->kind == TWIN_KIND_STATE) {
        for (const struct tw_rec *later = r + 1; later < v->rec + v->count && later->step == before;
             later++)
            if (later->kind == TWIN_KIND_STATE &&
                strcmp(tw_rec_name(v, later), tw_rec_name(v, r)) == 0)
                return false;
        return true;
    }
    return r->phase == TWIN_PHASE_OPTIMIZER &&
           (r->kind == TWIN_KIND_WEIGHT || r->kind == TWIN_KIND_MOMENT);
}

/*
 * Gives the records at the seam tokens of kind and name alone, so that "init" on b's side meets
 * "optimizer" on a's.
 */
static void salt(struct tw_view *v, bool a, uint32_t before)
{
    for (size_t i = 0; i < v->count; i++) {
        struct tw_rec *r = &v->rec[i];
        if (a ? is_seam_a(r, before) : r->phase == TWIN_PHASE_INIT)
            r->token = SALT ^ tw_key_hash(0, r->kind, tw_rec_name(v, r),
                                          r->kind == TWIN_KIND_STATE ? "" : tw_rec_scope(v, r),
                                          tw_rec_role(v, r));
    }
}

/*
 * Was this generator set right after b's first record of it? Then all later records of it in the
 * step agree, and the state at the seam does not count.
 */
static bool restored_later(const struct seam *s, const char *name)
{
    size_t equal = 0;
    for (size_t i = 0; i < s->a->count; i++) {
        const struct tw_rec *r = &s->a->rec[i];
        if (is_seam_a(r, s->before) || r->kind != TWIN_KIND_STATE ||
            strcmp(tw_rec_name(s->a, r), name) != 0)
            continue;
        bool here = false;
        for (size_t j = 0; j < s->b->count && !here; j++)
            here = s->b->rec[j].token == r->token && s->b->rec[j].content == r->content;
        if (!here)
            return false;
        equal++;
    }
    return equal > 0;
}

/*
 * The next record of this kind and name before place *i, records of the seam left out; *i moves to
 * it. NULL: none.
 */
static const struct tw_rec *one_before(const struct seam *s, const struct tw_view *v, uint8_t kind,
                                       const char *name, size_t *i)
{
    assert(*i <= v->count);
    while (*i > 0) {
        const struct tw_rec *r = &v->rec[--*i];
        bool seam = v == s->a ? is_seam_a(r, s->before) : r->phase == TWIN_PHASE_INIT;
        if (!seam && r->kind == kind && strcmp(tw_rec_name(v, r), name) == 0)
            return r;
    }
    return NULL;
}

/*
 * Does b's step end with a's records of this kind and name? Then it does not matter what b has of
 * them before: a trainer that reads the epoch's batches up to the place where it stopped, and the
 * draws that this took. *more: how many those are.
 */
static bool ends_alike(const struct seam *s, uint8_t kind, const char *name, uint32_t *more)
{
    size_t i = s->a->count, j = s->b->count, equal = 0;
    const struct tw_rec *x, *y;
    *more = 0;
    for (; (x = one_before(s, s->a, kind, name, &i)) != NULL; equal++)
        if (!(y = one_before(s, s->b, kind, name, &j)) || y->content != x->content)
            return false;
    while (equal > 0 && one_before(s, s->b, kind, name, &j))
        ++*more;
    return equal > 0;
}

/* Is this record of b one of the way back to the place where the job stopped? */
static bool leads_there(const struct seam *s, const struct tw_rec *r)
{
    uint32_t more;
    return (r->kind == TWIN_KIND_BATCH || r->kind == TWIN_KIND_INDICES ||
            r->kind == TWIN_KIND_STATE) &&
           ends_alike(s, r->kind, tw_rec_name(s->b, r), &more);
}

/* How many batches b read and dropped before its first step. */
static uint32_t skipped_batches(const struct seam *s)
{
    uint32_t most = 0, more;
    for (size_t j = 0; j < s->b->count; j++) {
        const struct tw_rec *r = &s->b->rec[j];
        /* for all of its name: a batch may be several records */
        bool first = r->kind == TWIN_KIND_BATCH && r->occurrence == 0;
        if (first && ends_alike(s, r->kind, tw_rec_name(s->b, r), &more) && more > most)
            most = more;
    }
    return most;
}

/* For tw_scan_views(): differences at a seam that do not count, case by case. */
static bool does_not_count(const struct tw_diff *d, void *user)
{
    const struct seam *s = user;
    const struct tw_rec *r = d->a != TW_NONE ? &s->a->rec[d->a] : &s->b->rec[d->b];
    bool seam = d->a != TW_NONE ? is_seam_a(r, s->before) : r->phase == TWIN_PHASE_INIT;
    /* The whole run writes here the file from which the other one goes on: that explains no
     * difference. */
    if (!seam && r->phase == TWIN_PHASE_CHECKPOINT && (d->a == TW_NONE || d->b == TW_NONE))
        return true;
    /* The order of parameters is recorded at an optimizer's first step, which is another one in
     * each arm. */
    if (!seam && r->kind == TWIN_KIND_ORDER && (d->a == TW_NONE || d->b == TW_NONE))
        return true;
    /* Written to since the step before, which is a first step in one arm: its first weights say
     * what it began with. */
    if (!seam && tw_is_written(r->phase, r->kind) && r->phase != TWIN_PHASE_BACKWARD &&
        (d->a == TW_NONE || d->b == TW_NONE))
        return true;
    if (!seam)
        return d->a == TW_NONE && leads_there(s, r);
    if (d->a == TW_NONE || d->b == TW_NONE) /* not recorded on one side: unknown */
        return true;
    return r->kind == TWIN_KIND_STATE && restored_later(s, tw_rec_name(s->a, r));
}

/* How many records of this kind a has at the seam that b has with equal contents. */
static size_t equal_at_seam(const struct seam *s, uint8_t kind)
{
    size_t n = 0;
    for (size_t i = 0; i < s->a->count; i++) {
        const struct tw_rec *r = &s->a->rec[i];
        for (size_t j = 0; is_seam_a(r, s->before) && r->kind == kind && j < s->b->count; j++)
            if (s->b->rec[j].token == r->token && s->b->rec[j].content == r->content) {
                n++;
                break;
            }
    }
    return n;
}

/*
 * Says of the findings that lie at the seam where they lie, makes them origins, and names what was
 * equal there.
 */
static void describe_seam(struct tw_cmp *c, const struct seam *s, uint32_t k, struct tw_scan *out)
{
    static const struct {
        uint8_t kind;
        const char *text;
    } part[] = {{TWIN_KIND_WEIGHT, "weights"},
                {TWIN_KIND_MOMENT, "optimizer state"},
                {TWIN_KIND_STATE, "generator states"}};
    struct tw_buf text = {0};
    size_t total = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t n = equal_at_seam(s, part[i].kind);
        if (n)
            tw_buf_printf(&text, "%s%s (%zu)", text.len ? ", " : "", part[i].text, n);
        total += n;
    }
    bool at_seam = out->origins.n && out->origins.f[0].step_a == s->before;
    if (total && at_seam) {
        tw_buf_printf(&text, " at the seam, after step %u", s->before);
        tw_finding_set(c, &out->equal_before, tw_buf_steal(&text));
        out->equal_records = total;
    }
    tw_buf_free(&text);
    for (size_t i = 0; i < out->origins.n; i++) {
        struct twin_finding *f = &out->origins.f[i];
        if (f->step_a != s->before)
            continue;
        f->step_b = 0;
        /* a state of its own, held against the one that it should be: nothing lies between */
        f->role = TWIN_ORIGIN;
        for (size_t n = 0; n < 2; n++) {
            tw_free(f->between[n]);
            f->between[n] = NULL;
        }
        tw_finding_set(c, &f->text,
                       tw_cmp_text(c, "at the seam: %s after step %u, %s at its start", c->label_a,
                                   k - 1, c->label_b));
    }
}

/*
 * Steps before K in which a recorded the order in which its optimizers hold their parameters. Each
 * optimizer records it once, when it begins; more than 64 such steps are left out.
 */
#define ORDER_STEPS 64
struct orders {
    struct tw_proc *p;
    uint32_t until, step[ORDER_STEPS];
    size_t n;
};

/* For twin_trace_walk_some: what note_order() looks at. */
static bool is_order(void *user, uint32_t id, const struct twin_series *s)
{
    (void)user, (void)id;
    return s->kind == TWIN_KIND_ORDER && s->phase == TWIN_PHASE_OPTIMIZER;
}

/* Callback of twin_trace_walk: notes the step of an order of parameters, each step once. */
static int note_order(void *user, const struct twin_trace_record *r)
{
    struct orders *o = user;
    const struct twin_series *s = twin_trace_series(o->p->trace, r->series);
    if (s->kind != TWIN_KIND_ORDER || s->phase != TWIN_PHASE_OPTIMIZER || r->step >= o->until ||
        o->n == ORDER_STEPS)
        return 0;
    for (size_t i = 0; i < o->n; i++)
        if (o->step[i] == r->step)
            return 0;
    o->step[o->n++] = r->step;
    return 0;
}

static bool has_token(const struct tw_view *v, uint64_t token)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->rec[i].token == token)
            return true;
    return false;
}

/*
 * Adds to the view of a what its optimizers' orders of parameters were by step K, as records of
 * step K: a resumed job records the order anew in its first step, and a's record then stands beside
 * it. Returns 0 or an error of loading.
 */
static int recall_orders(struct tw_cmp *c, struct tw_proc *p, uint32_t k, struct tw_view *a,
                         struct twin_error *err)
{
    struct orders o = {.p = p, .until = k};
    int rc = twin_trace_walk_some(p->trace, is_order, note_order, NULL, &o, NULL);
    for (size_t i = o.n; rc == 0 && i > 0; i--) { /* the latest word first */
        struct tw_view then;
        rc = tw_view_load(c, p, o.step[i - 1], o.step[i - 1], &then, err);
        for (size_t j = 0; rc == 0 && j < then.count; j++) {
            struct tw_rec r = then.rec[j];
            bool order = r.kind == TWIN_KIND_ORDER && r.phase == TWIN_PHASE_OPTIMIZER;
            if (!order || has_token(a, r.token) ||
                !tw_cmp_room(c, &a->rec, a->count, &a->room, sizeof *a->rec))
                continue;
            r.step = k;
            r.sketch = r.link_count = 0;
            a->rec[a->count++] = r;
        }
        if (rc == 0)
            tw_view_free(&then);
    }
    return rc;
}

/*
 * k is at least 1. out->skipped gets the batches that b dropped on its way. Returns 0 or an error.
 */
int tw_shift_seam(struct tw_cmp *c, const struct tw_pair *p, uint32_t k, struct tw_scan *out,
                  struct twin_error *err)
{
    struct tw_view a = {0}, b = {0};
    uint32_t before = k - 1;
    out->pair = p;
    out->shift = -(int64_t)k;
    int rc = tw_view_load(c, p->a, before, k, &a, err);
    if (rc == 0)
        rc = tw_view_load(c, p->b, 0, 0, &b, err);
    if (rc == 0) {
        tw_view_filter(&a, keep_a, &before);
        rc = recall_orders(c, p->a, k, &a, err);
    }
    if (rc == 0) {
        salt(&a, true, before);
        salt(&b, false, before);
        struct seam s = {.a = &a, .b = &b, .before = before};
        rc = tw_scan_views(c, &a, &b, does_not_count, &s, out, err);
        if (rc == 0 && out->found)
            describe_seam(c, &s, k, out);
        out->skipped = skipped_batches(&s);
        out->step = out->found && out->step < k ? k : out->step; /* the first step both have */
        out->steps_compared++;
    }
    tw_view_free(&a);
    tw_view_free(&b);
    return rc;
}
