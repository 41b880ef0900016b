/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts what a zoom pair shows into a verdict. A zoom pair are two reruns of the suspect window in
 * which every operation recorded its inputs and outputs. The zoom is evidence: the first operation
 * that diverges there (found by zoom_call.c) takes the place of what the runs named, with its own
 * tensor, size and line, and with what replaying it showed.
 *
 * There are three ways in: twin_compare_zoom() revises the verdict; twin_compare_suspect() only
 * names the operation, for a second rerun that replays it; twin_compare_replays() adds what those
 * replays showed.
 */
#include "zoom.h"

#include "evidence.h"
#include "phrase.h"
#include "scan.h"
#include "ulp.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes of one kept value that are read. */
#define VALUE_CAP ((size_t)256 << 20)

/* ---- exact numbers, when the values of both were kept */

/*
 * Reads a value that a rerun kept of an output; *data is the caller's to free, also when false is
 * returned. Kept values count only where they are what the record says (by digest): another
 * operation's may lie under the same name.
 */
static bool read_value(const char *dir, const struct twin_finding *f, const struct tw_rec *r,
                       unsigned number, char **data, size_t *bytes)
{
    char *path = tw_printf("%s/values/%d.s%u.o%u.out%u.raw", dir, f->rank, r->step, r->occurrence,
                           number);
    bool ok = path && tw_read_file(path, VALUE_CAP, data, bytes, NULL) == 0;
    tw_free(path);
    if (!ok)
        return false;
    struct twin_digest d = twin_digest_bytes(*data, *bytes, 0);
    return d.a == r->digest.a && d.b == r->digest.b;
}

/* Replaces estimated numbers of f by exact ones, where both reruns kept the values. */
static void exact_numbers(struct twin_finding *f, const struct tw_zoom_found *op,
                          const struct tw_view *va, const struct tw_view *vb,
                          const struct twin_run *za, const struct twin_run *zb)
{
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    struct tw_exact e;
    if (op->diff->type != TWIN_FINDING_VALUE)
        return;
    const struct tw_rec *a = &va->rec[op->diff->a], *b = &vb->rec[op->diff->b];
    enum twin_dtype dtype = twin_trace_layout(va->proc->trace, a->layout)->dtype;
    size_t size = twin_dtype_size(dtype);
    if (size && read_value(za->dir, f, a, op->number, &x, &n) &&
        read_value(zb->dir, f, b, op->number, &y, &m) && n == m && n % size == 0) {
        tw_exact_compare(x, y, n / size, dtype, &e);
        f->changed = e.changed;
        f->changed_known = true;
        f->elements = e.elements;
        f->max_ulp = e.max_ulp;
        f->rel_l2 = e.rel_l2;
        f->rel_l2_exact = isfinite(e.rel_l2);
    }
    tw_free(x);
    tw_free(y);
}

/*
 * Did it differ before any operation ran, or is it set by the job's own lines? Operations meet such
 * a difference, and make none of it. An input that lines of the job handed to a module may be
 * either: what op found says which.
 */
static bool comes_from_outside(const struct twin_finding *f, const struct tw_zoom_found *op)
{
    bool data = tw_is_data(f->phase, f->kind) &&
                (!twin_finding_is_handed(f) || op->how == TW_ZOOM_INPUT);
    return f->phase == TWIN_PHASE_INIT || data || f->kind == TWIN_KIND_STATE ||
           f->kind == TWIN_KIND_HYPER;
}

/*
 * What a second rerun is told to keep the values of and to replay, "STEP:OCCURRENCE:OP@SCOPE" as
 * TWINRUN_ZOOM_OP wants it. NULL: this run has no such record, or no memory.
 */
static char *suspect_text(struct tw_cmp *c, const struct tw_zoom_found *op, const struct tw_view *v,
                          size_t index)
{
    if (index == TW_NONE)
        return NULL;
    assert(index < v->count);
    const struct tw_rec *r = &v->rec[index];
    return tw_cmp_text(c, "%u:%u:%s@%s", r->step, r->occurrence, op->op ? op->op : "",
                       tw_rec_scope(v, r));
}

/* Fills in both texts; either stays NULL where only one run has the call, or no memory. */
static void take_suspect(struct tw_cmp *c, const struct tw_zoom_found *op, const struct tw_view *va,
                         const struct tw_view *vb, struct twin_suspect *out)
{
    out->a = suspect_text(c, op, va, op->diff->a);
    out->b = suspect_text(c, op, vb, op->diff->b);
    if (!out->a || !out->b)
        return;
    out->rank = va->proc->rank;
    out->main_thread = !*tw_rec_role(va, &va->rec[op->diff->a]) &&
                       !*tw_rec_role(vb, &vb->rec[op->diff->b]);
}

/*
 * The difference to show for an operation: a tensor that was recorded under a name of its own and
 * holds, in both runs, what the operation made or was given; the operation's own record where there
 * is none.
 */
static const struct tw_diff *named_tensor(const struct tw_stepdiff *d, const struct tw_diff *op,
                                          const struct tw_view *a, const struct tw_view *b)
{
    if (op->type != TWIN_FINDING_VALUE)
        return op;
    for (size_t i = 0; i < d->count; i++) {
        const struct tw_diff *x = &d->d[i];
        if (x->type == TWIN_FINDING_VALUE && a->rec[x->a].phase != TWIN_PHASE_KERNEL &&
            a->rec[x->a].content == a->rec[op->a].content &&
            b->rec[x->b].content == b->rec[op->b].content)
            return x;
    }
    return op;
}

/* Says in a note what the zoom found. */
static void say_zoom(struct tw_cmp *c, const struct tw_zoom_found *op, const struct twin_finding *f)
{
    const char *name = op->op ? op->op : "?";
    const char *before = op->before ? op->before : "the beginning of the step";
    switch (op->how) {
    case TW_ZOOM_ORIGIN:
        tw_cmp_note(
            c,
            "zoom: %s got equal inputs and gave another output (%zu input%s, each compared whole)",
            name, op->inputs, tw_plural_s(op->inputs));
        return;
    case TW_ZOOM_UNWRITTEN:
        tw_cmp_note(c, "zoom: %s gave memory that was used before anything was written to it",
                    name);
        return;
    case TW_ZOOM_DREW:
        tw_cmp_note(c, "zoom: %s drew from a generator whose state already differed", name);
        return;
    case TW_ZOOM_HIDDEN:
        tw_cmp_note(c, "zoom: %s gave another output, but not all that it was given was seen: %s",
                    name, before);
        return;
    case TW_ZOOM_INPUT:
        tw_cmp_note(c,
                    "zoom: an input of %s differs, although every operation before it agreed: what "
                    "made it lies between %s and %s",
                    name, before, name);
        return;
    case TW_ZOOM_ALONE:
        if (op->calls[0] && op->calls[1]) {
            tw_cmp_note(c,
                        "zoom: %s was called %zu time%s in %s and %zu time%s in %s; all that was "
                        "seen before it in this step agrees",
                        name, op->calls[0], tw_plural_s(op->calls[0]), c->label_a, op->calls[1],
                        tw_plural_s(op->calls[1]), c->label_b);
            return;
        }
        tw_cmp_note(c, "zoom: %s was called %s; all that was seen before it in this step agrees",
                    name, f->text);
    }
}

/*
 * Sets the role that the way of finding allows: origin, carrier, or a finding between two places.
 */
static void set_role(struct tw_cmp *c, const struct tw_zoom_found *op, struct twin_finding *f)
{
    char *from, *to;
    tw_free(f->between[0]);
    tw_free(f->between[1]);
    f->between[0] = f->between[1] = NULL;
    f->role = op->how == TW_ZOOM_DREW ? TWIN_CARRIER : TWIN_ORIGIN;
    if (op->how != TW_ZOOM_HIDDEN && op->how != TW_ZOOM_INPUT && op->how != TW_ZOOM_ALONE)
        return;
    if (op->before)
        from = tw_cmp_copy(c, op->before);
    else if (f->step_a > 0)
        from = tw_cmp_text(c, "the end of step %u", f->step_a - 1);
    else
        from = tw_cmp_copy(c, "the beginning");
    to = tw_cmp_text(c, "%.200s of step %u", op->op ? op->op : "?", f->step_a);
    tw_finding_between(c, f, from, to);
}

/* Is it the object that the runs named, in the same step? */
static bool same_object(const struct twin_finding *x, const struct twin_finding *y)
{
    return x->step_a == y->step_a && x->phase == y->phase && x->kind == y->kind &&
           strcmp(x->name, y->name) == 0 && strcmp(x->scope, y->scope) == 0;
}

/*
 * Makes f the first of the verdict's origins. Where it is another object than before, the others
 * go, since they belong to what the runs showed.
 */
static void replace_origins(struct tw_cmp *c, const struct twin_finding *f, bool same)
{
    struct twin_verdict *v = c->v;
    struct twin_finding *n = v->origin_count ? tw_finding_copy(c, f) : NULL;
    if (!n)
        return;
    for (size_t i = 1; !same && i < v->origin_count; i++)
        tw_finding_clear(&v->origins[i]);
    v->origin_count = same ? v->origin_count : 1;
    tw_finding_replace(&v->origins[0], n);
}

/*
 * The work on one zoom pair. done: an operation was found, or it is clear that none can be. parted:
 * the reruns diverged.
 */
struct zoom {
    const struct tw_pair *pair;
    int64_t shift;
    const struct twin_run *a, *b;
    bool only_name;              /* it is not shown in the verdict */
    struct twin_suspect suspect; /* the call that was named */
    bool parted, done, drew;     /* drew: a generator differed in this step or an earlier one */
};

/* Says what the runs themselves named, where the zoom names something else. */
static void say_moved(struct tw_cmp *c, const struct twin_finding *was,
                      const struct twin_finding *now)
{
    if (was->step_a != now->step_a)
        tw_cmp_note(c, "zoom: the reruns diverged at step %u (the runs at step %u)", now->step_a,
                    was->step_a);
    tw_cmp_note(c,
                "in the runs themselves, which recorded no operations, the first that differs is "
                "%s/%s %.120s of step %u",
                twin_phase_name(was->phase), twin_kind_name(was->kind), was->name, was->step_a);
}

/*
 * Says where the finding can be looked up: in the zoom pair, at the operation's own record `made`,
 * also where another record `shown` gives the name.
 */
static void set_evidence(struct tw_cmp *c, struct twin_finding *n, const struct tw_diff *made,
                         const struct tw_diff *shown, const struct tw_view *va,
                         const struct tw_view *vb)
{
    for (int i = 0; i < 2; i++)
        tw_finding_set(c, &n->zoom[i], tw_cmp_copy(c, c->zoom[i]));
    if (shown == made)
        return;
    tw_finding_set(c, &n->record, tw_cmp_copy(c, tw_rec_name(va, &va->rec[made->a])));
    tw_finding_set(c, &n->record_scope, tw_cmp_copy(c, tw_rec_scope(va, &va->rec[made->a])));
    n->record_kind = va->rec[made->a].kind;
    tw_evidence_set(&n->at_a, va, &va->rec[made->a]);
    tw_evidence_set(&n->at_b, vb, &vb->rec[made->b]);
}

/*
 * Replaces the verdict's first finding by what the zoom pair shows first. One object carries the
 * headline, its role, its size and what was equal before.
 */
static void revise(struct tw_cmp *c, const struct zoom *z, const struct tw_zoom_found *op,
                   const struct tw_stepdiff *d, const struct tw_view *va, const struct tw_view *vb)
{
    struct twin_verdict *v = c->v;
    struct twin_finding *f = v->first;
    const struct tw_diff *shown = named_tensor(d, op->diff, va, vb);
    struct twin_finding *n = tw_finding_from(c, shown, va, vb);
    if (!n)
        return;
    set_evidence(c, n, op->diff, shown, va, vb);
    if (shown->a == TW_NONE)
        n->step_a = (uint32_t)(n->step_b - z->shift);
    if (shown->b == TW_NONE)
        n->step_b = (uint32_t)(n->step_a + z->shift);
    tw_finding_set(c, &n->op, tw_cmp_copy(c, op->op ? op->op : ""));
    if (op->site && op->site[0])
        tw_finding_set(c, &n->site, tw_cmp_copy(c, op->site));
    set_role(c, op, n);
    if (op->how == TW_ZOOM_ORIGIN || op->how == TW_ZOOM_UNWRITTEN || op->how == TW_ZOOM_HIDDEN)
        exact_numbers(n, op, va, vb, z->a, z->b);
    bool same = same_object(f, n);
    if (same)
        /* what other ranks showed is known of the runs only */
        tw_finding_set(c, &n->layer, tw_cmp_copy(c, f->layer));
    else
        say_moved(c, f, n);
    say_zoom(c, op, n);
    if (!same && v->equal_before)
        tw_equal_before(c, z->pair, va, vb, d, op->diff, z->shift, &v->equal_before,
                        &v->equal_before_records);
    if (n->step_a != f->step_a)
        v->steps_differing_exact = false;
    tw_finding_replace(f, n);
    replace_origins(c, f, same);
}

/* An operation that drew, and its line; borrowed. */
struct draw {
    const char *op, *site;
};

/* Is this the state of a generator that an operation was given? */
static bool is_given_state(const struct tw_view *v, const struct tw_rec *r)
{
    return r->phase == TWIN_PHASE_KERNEL && r->kind == TWIN_KIND_IN &&
           tw_ends(tw_rec_name(v, r), ".generator");
}

/* Names in f the operation that drew, with copies of the texts. */
static void set_draw(struct tw_cmp *c, struct twin_finding *f, const struct draw *draw)
{
    tw_finding_set(c, &f->op, tw_cmp_copy(c, draw->op));
    tw_finding_set(c, &f->site, tw_cmp_copy(c, draw->site));
}

/*
 * Sets *draw to the first operation that was given the state of this generator, where that state
 * differs: a generator of the job's own, seeded, is drawn from with equal states. States of a
 * processor's generators and of a device's have other sizes: by these they are told apart. False:
 * such a state was given to none, but others' were; true with *draw unchanged when no state was
 * given to any.
 */
static bool draw_from(const struct tw_stepdiff *d, const struct tw_view *v,
                      const struct twin_finding *generator, struct draw *draw)
{
    for (size_t i = 0; i < d->count; i++) {
        if (d->d[i].a == TW_NONE || !tw_diff_significant(&d->d[i]))
            continue;
        const struct tw_rec *r = &v->rec[d->d[i].a];
        if (is_given_state(v, r) && tw_rec_elements(v, r) == generator->elements) {
            *draw = (struct draw){tw_rec_op(v, r), tw_rec_site(v, r)};
            return true;
        }
    }
    bool others = false;
    for (size_t i = 0; i < v->count && !others; i++)
        others = is_given_state(v, &v->rec[i]);
    return !others;
}

/* An initial weight was drawn where a generator differed already: it is no origin, though the state
 * that was recorded behind the draw (the job has set a seed since) is equal. */
static void drew_unlike(struct tw_cmp *c, struct twin_finding *f)
{
    if (f->role == TWIN_ORIGIN && f->phase == TWIN_PHASE_INIT && f->kind == TWIN_KIND_WEIGHT)
        tw_finding_between(c, f, tw_cmp_copy(c, "the beginning"),
                           tw_cmp_text(c, "the initial value of %.200s", f->name));
}

/*
 * For a generator that differs, or an initial weight: the line that drew from it first is where to
 * look, and is put into the finding. False: the finding is of another sort, or nobody drew.
 */
static bool show_draw(struct tw_cmp *c, const struct tw_zoom_found *op, const struct tw_stepdiff *d,
                      const struct tw_view *v)
{
    struct twin_finding *f = c->v->first;
    struct draw draw = {op->op, op->site};
    bool drawn = f->kind == TWIN_KIND_STATE ||
                 (f->phase == TWIN_PHASE_INIT && f->kind == TWIN_KIND_WEIGHT);
    if (!drawn || !op->drew || !op->op || !op->site || !*op->site)
        return false;
    if (f->kind == TWIN_KIND_STATE && !draw_from(d, v, f, &draw))
        return true; /* another generator's draws say nothing about this one */
    set_draw(c, f, &draw);
    if (c->v->origin_count)
        set_draw(c, &c->v->origins[0], &draw);
    if (f->kind != TWIN_KIND_STATE) {
        drew_unlike(c, f);
        for (size_t i = 0; i < c->v->origin_count; i++)
            drew_unlike(c, &c->v->origins[i]);
        if (op->how == TW_ZOOM_DREW)
            say_zoom(c, op, f);
    }
    return true;
}

/*
 * Shows the operation in the verdict: as its first finding, or, where the difference came from
 * outside, as a draw or in a note.
 */
static void show_operation(struct tw_cmp *c, const struct zoom *z, const struct tw_zoom_found *op,
                           const struct tw_stepdiff *d, const struct tw_view *va,
                           const struct tw_view *vb)
{
    const char *name = op->op ? op->op : "?";
    if (!comes_from_outside(c->v->first, op)) {
        revise(c, z, op, d, va, vb);
        return;
    }
    if (show_draw(c, op, d, va))
        return;
    /* who meets it first is worth knowing, but did not make it */
    size_t line = op->site ? strcspn(op->site, "\n") : 0;
    tw_cmp_note(c, "zoom: the first operation that meets the difference is %s%s%.*s", name,
                line ? " at " : "", (int)line, op->site ? op->site : "");
}

/*
 * Does something other than a generator differ in a step without a record of an operation? What the
 * recorded steps show follows from it, and explains nothing.
 */
static bool parts_unrecorded(const struct tw_stepdiff *d, const struct tw_view *a,
                             const struct tw_view *b)
{
    bool differs = false;
    for (size_t i = 0; i < d->count; i++) {
        const struct tw_view *v;
        differs |= tw_diff_significant(&d->d[i]) &&
                   tw_diff_rec(&d->d[i], a, b, &v)->kind != TWIN_KIND_STATE;
    }
    for (size_t i = 0; i < a->count && differs; i++)
        differs = a->rec[i].phase != TWIN_PHASE_KERNEL;
    for (size_t i = 0; i < b->count && differs; i++)
        differs = b->rec[i].phase != TWIN_PHASE_KERNEL;
    return differs;
}

/*
 * Looks for an operation in one step. hashes_differ: false for the step that was going on at the
 * end. A generator that differed in an earlier step still counts. Returns 0 or an error of loading.
 */
static int zoom_step(struct tw_cmp *c, struct zoom *z, uint32_t step, bool hashes_differ,
                     struct twin_error *err)
{
    struct tw_scan s = {.pair = z->pair, .shift = z->shift};
    struct tw_view va, vb;
    struct tw_stepdiff d;
    struct tw_zoom_found op = {.drew = z->drew};
    int rc = tw_scan_step(c, &s, step, &va, &vb, &d, err);
    if (rc != 0)
        return rc;
    z->parted |= hashes_differ || d.count > d.order;
    if (tw_zoom_find(c, &d, &va, &vb, &op)) {
        z->done = true;
        /* Who meets what came from outside made none of it: it is nobody's suspect. */
        if (!comes_from_outside(c->v->first, &op))
            take_suspect(c, &op, &va, &vb, &z->suspect);
        if (!z->only_name)
            show_operation(c, z, &op, &d, &va, &vb);
    }
    z->drew |= op.drew;
    if (!z->done && parts_unrecorded(&d, &va, &vb)) {
        z->done = true;
        if (!z->only_name)
            tw_cmp_note(c,
                        "zoom: the reruns diverged at step %u already, before the steps in which "
                        "operations were recorded",
                        step);
    }
    tw_zoom_found_free(&op);
    tw_stepdiff_free(&d);
    tw_view_free(&va);
    tw_view_free(&vb);
    return 0;
}

/*
 * Goes through one pair of processes: every step that differs, until one shows an operation, then
 * the step that was going on at the end. 64 steps without an operation are enough.
 */
static int zoom_pair(struct tw_cmp *c, struct zoom *z, struct twin_error *err)
{
    const struct tw_pair *p = z->pair;
    uint32_t from = z->shift < 0 ? (uint32_t)-z->shift : 0;
    from += z->shift != 0; /* a resumed run's first step holds its set-up: none of it diverged */
    z->drew = false;
    for (int tries = 0; tries < 64 && !z->done; tries++) {
        uint32_t step = 0;
        bool found = false;
        uint64_t compared;
        int rc = twin_trace_first_difference(p->a->trace, p->b->trace, z->shift, from, UINT32_MAX,
                                             &found, &step, &compared, NULL);
        if (rc == TWIN_ENOMEM)
            return twin_error_set(err, rc, "out of memory comparing a zoom pair");
        if (rc != 0 || !found)
            break;
        rc = zoom_step(c, z, step, true, err);
        if (rc != 0)
            return rc;
        from = step + 1;
    }
    int64_t end = (int64_t)p->a->info->steps, end_b = (int64_t)p->b->info->steps - z->shift;
    end = end < end_b ? end : end_b;
    return z->done || end < from ? 0 : zoom_step(c, z, (uint32_t)end, false, err);
}

/* The last part of a folder's path. */
static const char *folder_name(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    return slash ? slash + 1 : dir;
}

/*
 * Looks through the processes, those of the suspect rank first, others only when that shows
 * nothing. With `named` the operation is only named there and the verdict stays as it is. Returns 0
 * or an error.
 */
static int zoom_run(struct tw_cmp *c, const struct twin_run *za, const struct twin_run *zb,
                    struct twin_suspect *named, struct twin_error *err)
{
    struct twin_verdict *v = c->v;
    struct tw_side a = {0}, b = {0};
    struct tw_pair *pairs = NULL;
    size_t n = 0;
    struct zoom z = {.shift = (int64_t)v->first->step_b - (int64_t)v->first->step_a,
                     .a = za,
                     .b = zb,
                     .only_name = named != NULL};
    int rc = tw_side_open(c, za, 0, &a, err);
    c->zoom[0] = folder_name(za->dir);
    c->zoom[1] = folder_name(zb->dir);
    c->run_b = 1;
    if (rc == 0)
        rc = tw_side_open(c, zb, 1, &b, err);
    if (rc == 0)
        rc = tw_side_match(c, &a, &b, &pairs, &n);
    for (int round = 0; rc == 0 && round < 2 && !z.done; round++)
        for (size_t i = 0; rc == 0 && i < n && !z.done; i++)
            if ((pairs[i].a->rank == v->first->rank) == (round == 0)) {
                z.pair = &pairs[i];
                rc = zoom_pair(c, &z, err);
            }
    if (rc == 0 && !named) {
        tw_zoom_note_replays(c, v->first, &a, &b, z.suspect.b);
        if (!z.parted)
            tw_cmp_note(c, "zoom: did not diverge again at operation level");
        else if (!z.done)
            tw_cmp_note(c, "zoom: diverged again, but not in an operation that was seen");
        tw_cmp_append_notes(c);
        tw_claims_append(c);
    }
    tw_side_close(&a);
    tw_side_close(&b);
    tw_free(pairs);
    tw_texts_free(&c->notes);
    tw_texts_free(&c->unseen);
    tw_texts_free(&c->armed);
    tw_texts_free(&c->unarmed);
    if (rc == 0 && c->oom)
        rc = TWIN_ENOMEM;
    if (rc == 0 && named)
        *named = z.suspect;
    else
        twin_suspect_free(&z.suspect);
    return rc ? twin_error_set(err, rc, "out of memory comparing a zoom pair") : 0;
}

int twin_compare_zoom(struct twin_verdict *v, const struct twin_run *za, const struct twin_run *zb,
                      struct twin_error *err)
{
    struct tw_cmp c = tw_zoom_comparison(v);
    if (!v->first)
        return twin_error_set(err, TWIN_EINVAL, "nothing to zoom into: the runs did not diverge");
    return zoom_run(&c, za, zb, NULL, err);
}

int twin_compare_suspect(const struct twin_verdict *v, const struct twin_run *za,
                         const struct twin_run *zb, struct twin_suspect *out,
                         struct twin_error *err)
{
    /* only read here */
    struct tw_cmp c = tw_zoom_comparison((struct twin_verdict *)v);
    *out = (struct twin_suspect){0};
    if (!v->first)
        return twin_error_set(err, TWIN_EINVAL, "nothing to zoom into: the runs did not diverge");
    int rc = zoom_run(&c, za, zb, out, err);
    if (!out->a || !out->b)
        twin_suspect_free(out);
    return rc;
}

void twin_suspect_free(struct twin_suspect *s)
{
    tw_free(s->a);
    tw_free(s->b);
    *s = (struct twin_suspect){0};
}
