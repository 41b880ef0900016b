/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where two processes first diverge, and makes the findings of that step. pair.c calls
 * tw_scan_pair() for each pair of processes; shift.c compares seams through tw_scan_views(); others
 * decode single steps with tw_scan_step().
 *
 * A binary search over the value hashes of the traces finds the first step that is not the same in
 * both, and only the records of that step are decoded. If what differs there does not count, the
 * search goes on behind it. When a step is found, its differences are marked as origins and
 * carriers (causes.c), the frontier becomes findings, and a sentence says what was equal until
 * then. Where values are equal, another order of records is looked for in the same way. Where
 * several threads share the count of steps, the streams of records decide instead (streams.c).
 */
#include "arms.h"
#include "evidence.h"
#include "internal.h"
#include "phrase.h"
#include "scan.h"

#include <assert.h>
#include <string.h>

/* ---- from a diff to findings */

/*
 * Notes for judge_reduction() whether gradients before the reduction were recorded in this step,
 * and whether one differs.
 */
static void note_local_gradients(const struct tw_view *a, const struct tw_view *b,
                                 const struct tw_stepdiff *d, struct tw_scan *out)
{
    for (size_t i = 0; i < a->count; i++)
        out->local_seen |= a->rec[i].kind == TWIN_KIND_GRADIENT_LOCAL;
    for (size_t i = 0; i < d->count; i++) {
        const struct tw_view *v;
        out->local_differs |= tw_diff_rec(&d->d[i], a, b, &v)->kind == TWIN_KIND_GRADIENT_LOCAL &&
                              tw_diff_significant(&d->d[i]);
    }
}

/*
 * Makes the findings of a step that differs: the one to be named first, then the rest of the
 * frontier (what is no carrier) in order, at most TW_MAX_FRONTIER. Sets out->found and the place.
 * Returns 0 or an error of judging an origin.
 */
static int take_frontier(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                         struct tw_stepdiff *d, struct tw_scan *out, struct twin_error *err)
{
    assert(d->count > 0);
    size_t first = tw_causes_first(d, a, b), others = 0;
    const struct tw_view *v;
    int rc = 0;
    const struct tw_rec *r = tw_diff_rec(&d->d[first], a, b, &v);
    out->found = true;
    out->cls = tw_cause_class(r->phase, r->kind);
    out->turn = tw_mpi_turn(r->phase, r->kind, tw_rec_name(v, r));
    out->turn += tw_joint_turn(v, r);
    out->step = r->step - (uint32_t)(v == b ? out->shift : 0);
    note_local_gradients(a, b, d, out);
    tw_say_equal_before(c, a, b, d, &d->d[first], out);
    for (size_t i = 0; i <= d->count; i++) { /* the one to be named first, then the rest in order */
        const struct tw_diff *x = &d->d[i == 0 ? first : i - 1];
        if (i > 0 && (i - 1 == first || x->carrier || !tw_diff_significant(x) ||
                      ++others >= TW_MAX_FRONTIER))
            continue;
        struct twin_finding *f = tw_finding_from(c, x, a, b);
        if (f && rc == 0)
            rc = tw_origin_judge(c, a, b, x, f, err);
        if (f && rc == 0)
            rc = tw_carried_say(c, a, b, x, f, err);
        if (f && x->a == TW_NONE)
            f->step_a = f->step_b - (uint32_t)out->shift;
        if (f && x->b == TW_NONE)
            f->step_b = f->step_a + (uint32_t)out->shift;
        tw_findings_take(c, &out->origins, f);
    }
    return rc;
}

/* Takes the first order-only difference of the scan; one finding of that sort is enough. */
static void take_order(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                       const struct tw_stepdiff *d, struct tw_scan *out)
{
    for (size_t i = 0; i < d->count && out->order.n == 0; i++)
        if (d->d[i].type == TWIN_FINDING_ORDER)
            tw_findings_take(c, &out->order, tw_finding_from(c, &d->d[i], a, b));
}

/*
 * Between arms: takes what one of them did in between (an evaluation) and the other did not, one
 * finding for each kind, name and scope, at most 64. They are kept because they matter when one
 * moved a generator that both draw from later (blame_insertion()).
 */
static void take_insertions(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                            const struct tw_stepdiff *d, struct tw_scan *out)
{
    for (size_t i = 0; i < d->count && out->inserted.n < 64; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d->d[i], a, b, &v);
        bool known = !tw_diff_significant(&d->d[i]);
        for (size_t k = 0; k < out->inserted.n && !known; k++)
            known = out->inserted.f[k].kind == r->kind &&
                    strcmp(out->inserted.f[k].name, tw_rec_name(v, r)) == 0 &&
                    strcmp(out->inserted.f[k].scope, tw_rec_scope(v, r)) == 0;
        if (known)
            continue;
        struct twin_finding *f = tw_finding_from(c, &d->d[i], a, b);
        if (f) {
            f->role = TWIN_ORIGIN;
            f->step_a = f->type == TWIN_FINDING_ONLY_B ? f->step_b - (uint32_t)out->shift
                                                       : f->step_a;
            f->step_b = f->step_a + (uint32_t)out->shift;
        }
        tw_findings_take(c, &out->inserted, f);
    }
}

/*
 * Are the states of generators equal that both views have? Inside of a step a generator shows in
 * what is made with it. At the seam nothing is made yet: what was not restored would show too late.
 */
static bool same_generators(const struct tw_view *a, const struct tw_stepdiff *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->d[i].a != TW_NONE && d->d[i].b != TW_NONE &&
            a->rec[d->d[i].a].kind == TWIN_KIND_STATE && tw_diff_significant(&d->d[i]))
            return false;
    return true;
}

/*
 * Notes how much both have in common of a step that is not the same in both, or of what came after
 * the last step. coverage.c asks for it.
 */
static void take_shared(struct tw_cmp *c, uint32_t step, const struct tw_view *a,
                        const struct tw_view *b, const struct tw_stepdiff *d, struct tw_scan *out)
{
    struct tw_shared shared = {.step = step};
    for (size_t i = 0; i < a->count; i++) {
        const struct tw_rec *r = &a->rec[i];
        bool equal = d->to_b[i] != TW_NONE && b->rec[d->to_b[i]].content == r->content;
        if (!equal || r->step != step || r->flags & TWIN_REC_UNOBSERVED)
            continue;
        if (c->o->ignore_count && tw_cmp_ignored(c, r->phase, r->kind, tw_rec_name(a, r)))
            continue;
        shared.records++;
        if (r->kind == TWIN_KIND_VALUE)
            shared.values |= (uint16_t)(1u << r->phase);
        /* between other numbers of ranks gradients and optimizer state do not stand for weights */
        if (out->weights_only ? r->kind == TWIN_KIND_WEIGHT : r->kind != TWIN_KIND_HYPER)
            shared.phases |= (uint16_t)(1u << r->phase);
    }
    if (tw_cmp_room(c, &out->shared, out->shares, &out->share_room, sizeof shared))
        out->shared[out->shares++] = shared;
}

/*
 * Counts a step with values whose order among several threads is not known. It is a reason only
 * when the threads' records turn out not to be equal from beginning to end.
 */
static void note_unknown_order(struct tw_scan *out, uint32_t step, const struct tw_stepdiff *d)
{
    if (d->schedule == 0)
        return;
    if (out->scheduled == 0)
        out->scheduled_at = step;
    out->scheduled++;
}

int tw_scan_views(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                  bool (*drop)(const struct tw_diff *, void *), void *user, struct tw_scan *out,
                  struct twin_error *err)
{
    struct tw_stepdiff d = {0};
    size_t idle;
    int rc = tw_stepdiff_make(c, a, b, &d);
    if (rc == 0)
        rc = tw_drop_idle(c, a, b, true, &d, &idle, err);
    if (rc != 0) {
        tw_stepdiff_free(&d);
        return twin_error_set(err, rc, "out of memory comparing two steps");
    }
    note_unknown_order(out, a->count ? a->rec[0].step : 0, &d);
    if (drop)
        tw_stepdiff_drop(&d, drop, user);
    if (d.count > d.order && c->o->arms && same_generators(a, &d) &&
        tw_only_insertions(a, b, &d, false)) {
        take_insertions(c, a, b, &d, out);
    } else if (d.count > d.order) {
        tw_causes_mark(&d, a, b);
        rc = take_frontier(c, a, b, &d, out, err);
    }
    if (!out->found && a->count)
        take_shared(c, a->rec[a->count - 1].step, a, b, &d, out);
    tw_stepdiff_free(&d);
    return rc;
}

int tw_scan_step(struct tw_cmp *c, const struct tw_scan *s, uint32_t step, struct tw_view *va,
                 struct tw_view *vb, struct tw_stepdiff *d, struct twin_error *err)
{
    size_t idle;
    uint32_t step_b = (uint32_t)(step + s->shift);
    *va = *vb = (struct tw_view){0};
    *d = (struct tw_stepdiff){0};
    int rc = tw_view_load(c, s->pair->a, step, step, va, err);
    if (rc == 0)
        rc = tw_view_load(c, s->pair->b, step_b, step_b, vb, err);
    if (rc == 0)
        rc = tw_stepdiff_make(c, va, vb, d);
    if (rc == 0)
        rc = tw_drop_idle(c, va, vb, false, d, &idle, err);
    if (rc == 0) {
        d->ignored += idle;
        tw_causes_mark(d, va, vb);
    } else {
        tw_view_free(va);
        tw_view_free(vb);
        tw_stepdiff_free(d);
    }
    return rc;
}

/*
 * When a generator differs that an earlier insertion drew from, that insertion is the origin: it
 * becomes the finding, and true is returned. Else false, and nothing changes.
 */
static bool blame_insertion(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                            const struct tw_stepdiff *d, struct tw_scan *out)
{
    for (size_t k = 0; k < out->inserted.n; k++) {
        const struct twin_finding *f = &out->inserted.f[k];
        bool blamed = false;
        for (size_t i = 0; i < d->count && !blamed && f->kind == TWIN_KIND_STATE; i++) {
            const struct tw_view *v;
            const struct tw_rec *r = tw_diff_rec(&d->d[i], a, b, &v);
            blamed = d->d[i].type == TWIN_FINDING_VALUE && r->kind == TWIN_KIND_STATE &&
                     strcmp(tw_rec_name(v, r), f->name) == 0;
        }
        if (!blamed)
            continue;
        out->found = true;
        out->step = f->step_a;
        out->cls = tw_cause_class((uint8_t)f->phase, (uint8_t)f->kind);
        tw_findings_take(c, &out->origins, tw_finding_copy(c, f));
        tw_finding_set(c, &out->equal_before, tw_steps_before(c, f->step_a, out));
        return true;
    }
    return false;
}

/* Remembers the first step in which the parameters reached an optimizer in another order. */
static void note_reordered(struct tw_scan *out, uint32_t step, const struct tw_stepdiff *d)
{
    if (d->reordered == 0 || out->reordered)
        return;
    out->reordered = true;
    out->reordered_at = step;
}

/*
 * Is the step that the search found equal in both after all? Where steps lie in damaged bytes the
 * search ends at the next one that is known, though the runs diverged before it.
 */
static bool parted_before(const struct tw_scan *s, uint32_t step)
{
    struct twin_step_hash x, y;
    return twin_trace_step_hash(s->pair->a->trace, step, &x, NULL) == 0 &&
           twin_trace_step_hash(s->pair->b->trace, (uint32_t)(step + s->shift), &y, NULL) == 0 &&
           x.records == y.records && memcmp(x.phase, y.phase, sizeof x.phase) == 0;
}

/*
 * Between arms: does every generator that differs have a draw of one arm alone, now or in an
 * earlier step, that explains it?
 */
static bool generators_explained(const struct tw_view *a, const struct tw_view *b,
                                 const struct tw_stepdiff *d, const struct tw_scan *out)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d->d[i], a, b, &v);
        bool explained = r->kind != TWIN_KIND_STATE || d->d[i].type != TWIN_FINDING_VALUE;
        const char *name = tw_rec_name(v, r);
        for (size_t k = 0; k < out->inserted.n && !explained; k++)
            explained = out->inserted.f[k].kind == TWIN_KIND_STATE &&
                        strcmp(out->inserted.f[k].name, name) == 0;
        for (size_t k = 0; k < d->count && !explained; k++) {
            const struct tw_view *w;
            const struct tw_rec *x = tw_diff_rec(&d->d[k], a, b, &w);
            bool alone = d->d[k].type == TWIN_FINDING_ONLY_A || d->d[k].type == TWIN_FINDING_ONLY_B;
            explained = alone && x->kind == TWIN_KIND_STATE && strcmp(tw_rec_name(w, x), name) == 0;
        }
        if (!explained)
            return false;
    }
    return true;
}

/*
 * Decodes one step whose hashes differ, or (hashes_differ false) what came after the last finished
 * step. Sets out->found when something differs that counts. partial_a, partial_b: that run may not
 * have recorded all of the step. Returns 0 or an error of loading.
 */
static int look_into(struct tw_cmp *c, uint32_t step, bool hashes_differ, bool partial_a,
                     bool partial_b, struct tw_scan *out, struct twin_error *err)
{
    struct tw_view va = {0}, vb = {0};
    struct tw_stepdiff d = {0};
    size_t idle = 0;
    uint32_t step_b = (uint32_t)(step + out->shift);
    if (hashes_differ && parted_before(out, step)) {
        tw_cmp_unseen(
            c,
            "the value hashes of rank %d diverge in steps before step %u that lie in damaged bytes",
            out->pair->a->rank, step);
        return 0;
    }
    int rc = tw_view_load(c, out->pair->a, step, step, &va, err);
    if (rc == 0)
        rc = tw_view_load(c, out->pair->b, step_b, step_b, &vb, err);
    if (rc != 0)
        goto out;
    va.partial |= partial_a;
    vb.partial |= partial_b;
    rc = tw_stepdiff_make(c, &va, &vb, &d);
    if (rc == 0)
        rc = tw_drop_idle(c, &va, &vb, false, &d, &idle, err);
    if (rc != 0)
        goto out;
    d.ignored += idle;
    out->numbers += d.numbers;
    if (d.count > d.order && c->o->arms && generators_explained(&va, &vb, &d, out) &&
        tw_only_insertions(&va, &vb, &d, !hashes_differ)) {
        take_insertions(c, &va, &vb, &d, out);
    } else if (d.count > d.order) {
        tw_causes_mark(&d, &va, &vb);
        if (!blame_insertion(c, &va, &vb, &d, out))
            rc = take_frontier(c, &va, &vb, &d, out, err);
    } else if (hashes_differ) {
        tw_judge_hashes(c, step, &va, &vb, &d, out);
    }
    note_unknown_order(out, step, &d);
    out->unread += d.unread;
    if (d.unread)
        tw_cmp_unseen(
            c, "step %u of rank %d: the contents of %zu record%s could be read in one run only",
            step, out->pair->a->rank, d.unread, tw_plural_s(d.unread));
    take_order(c, &va, &vb, &d, out);
    out->elsewhere += d.elsewhere;
    note_reordered(out, step, &d);
    if (!out->found)
        take_shared(c, step, &va, &vb, &d, out);
    if (!hashes_differ) {
        out->tail_unknown = va.dropped + vb.dropped > 0 || va.partial || vb.partial;
        out->tail_seen = true;
    }
out:
    tw_stepdiff_free(&d);
    tw_view_free(&va);
    tw_view_free(&vb);
    return rc;
}

/*
 * For steps of equal values: finds the first one, in [from, limit), whose records came in another
 * order, and takes that as an order-only difference. Returns 0 also when a trace cannot be read.
 */
static int find_order(struct tw_cmp *c, uint32_t from, uint32_t limit, struct tw_scan *out,
                      struct twin_error *err)
{
    bool found = false;
    uint32_t step = 0;
    uint64_t compared;
    struct tw_view va, vb;
    struct tw_stepdiff d;
    int rc = twin_trace_first_order_difference(out->pair->a->trace, out->pair->b->trace, out->shift,
                                               from, limit, &found, &step, &compared, NULL);
    if (rc != 0 || !found)
        return rc == TWIN_ENOMEM
                   ? twin_error_set(err, rc, "out of memory comparing the order of records")
                   : 0;
    rc = tw_scan_step(c, out, step, &va, &vb, &d, err);
    if (rc != 0)
        return rc;
    take_order(c, &va, &vb, &d, out);
    tw_stepdiff_free(&d);
    tw_view_free(&va);
    tw_view_free(&vb);
    return 0;
}

/*
 * Takes back a difference that is only in which step a thread's record fell into, and leaves an
 * order-only finding in its place.
 */
static void take_recut(struct tw_cmp *c, struct tw_scan *out)
{
    tw_findings_free(&out->origins);
    tw_findings_free(&out->order);
    out->found = out->local_seen = out->local_differs = false;
    out->recut = true;
    struct twin_finding *f = tw_finding_new(c, TWIN_FINDING_ORDER, TWIN_PHASE_NONE,
                                            TWIN_KIND_ORDER);
    if (!f)
        return;
    f->rank = out->pair->a->rank;
    f->step_a = f->step_b = out->step;
    tw_finding_set(c, &f->layer, tw_cmp_copy(c, "schedule"));
    tw_finding_set(c, &f->name, tw_cmp_copy(c, "threads"));
    tw_finding_set(c, &f->text,
                   tw_cmp_copy(c, "several threads train at once and share the count of steps: "
                                  "their records are equal, the steps they fall into are not"));
    tw_findings_take(c, &out->order, f);
}

/* Was this trace cut off by an end that came from outside? */
static bool was_cut(const struct tw_side *s, const struct tw_proc *p)
{
    return !p->info->closed || tw_side_stopped(s) || tw_proc_given_up(s, p) ||
           s->run->outcome == TWIN_RUN_SIGNALED;
}

/* Is what was found only in which step a thread's record fell into before the end came? */
static bool is_only_cut(struct tw_cmp *c, const struct tw_pair *p, const struct tw_side *a,
                        const struct tw_side *b, const struct tw_scan *out)
{
    return out->found && out->shift == 0 && !c->o->steps_given && !c->o->arms &&
           tw_streams_agree_until_cut(c, p, was_cut(a, p->a), was_cut(b, p->b));
}

/*
 * Takes back a difference that is only in which step a thread's record fell into before the end
 * came. What was compared ends in front of that step, and the rest is unseen.
 */
static void take_cut(struct tw_cmp *c, struct tw_scan *out, uint32_t start)
{
    tw_findings_free(&out->origins);
    tw_findings_free(&out->order);
    out->found = out->local_seen = out->local_differs = false;
    out->cut = true;
    out->end = out->step;
    out->steps_compared = out->step > start ? out->step - start : 0;
    tw_cmp_unseen(c,
                  "rank %d: from step %u on the records of several threads fell into other steps, "
                  "and a run was ended: what each thread recorded is equal as far as both runs go",
                  out->pair->a->rank, out->step);
}

/*
 * The steps that both have, in a's count: a's steps [0, end) correspond to b's [shift, end +
 * shift).
 */
static uint64_t common_end(const struct tw_pair *p, int64_t shift)
{
    int64_t a = (int64_t)p->a->info->steps, b = (int64_t)p->b->info->steps - shift;
    if (a < b)
        return (uint64_t)a;
    return b < 0 ? 0 : (uint64_t)b;
}

/*
 * The search itself; tw_scan_pair() adds the reasons behind it. In steps: differing values one step
 * after the other until one counts, the order of records, threads, and last what came after the
 * last finished step.
 */
static int scan_steps(struct tw_cmp *c, const struct tw_pair *p, const struct tw_side *a,
                      const struct tw_side *b, int64_t shift, uint32_t from, struct tw_scan *out,
                      struct twin_error *err)
{
    uint32_t limit = c->o->steps_given ? c->o->steps : UINT32_MAX;
    uint64_t end = common_end(p, shift);
    uint32_t start = from;
    const uint64_t last = end < limit ? end : limit;
    out->pair = p;
    out->shift = shift;
    out->end = last > from ? last : out->end;
    out->steps_compared += last > from ? last - from : 0;
    while (from < limit && from < end && !out->found) {
        bool found = false;
        uint32_t step = 0;
        uint64_t compared = 0;
        struct twin_error local = TWIN_ERROR_INIT;
        int rc = twin_trace_first_difference(p->a->trace, p->b->trace, shift, from, limit, &found,
                                             &step, &compared, &local);
        if (rc == TWIN_ENOMEM)
            return twin_error_set(err, rc, "%s", local.message);
        if (rc != 0) {
            tw_cmp_unseen(c, "steps from %u on of rank %d cannot be compared: %s", from, p->a->rank,
                          local.message);
            return 0;
        }
        if (!found && from + compared < last)
            tw_cmp_unseen(c, "steps %llu to %llu of rank %d lie in damaged bytes",
                          (unsigned long long)(from + compared), (unsigned long long)last - 1,
                          p->a->rank);
        if (!found)
            break;
        rc = look_into(c, step, true, false, false, out, err);
        if (rc != 0)
            return rc;
        from = step + 1;
    }
    uint64_t values_equal_to = out->found ? out->step : last;
    if (!out->found && out->order.n == 0 && start < values_equal_to) {
        int rc = find_order(c, start, (uint32_t)values_equal_to, out, err);
        if (rc != 0)
            return rc;
    }
    /*
     * Streams are compared only where both runs are whole and nothing was asked to be left out: a
     * part of a stream proves nothing.
     */
    bool threads = out->found || out->scheduled > 0;
    if (threads && shift == 0 && limit == UINT32_MAX && tw_side_complete(a) &&
        tw_side_complete(b)) {
        enum tw_streams_verdict streams = tw_streams_compare(c, p);
        if (streams == TW_STREAMS_UNKNOWN && out->scheduled++ == 0)
            out->scheduled_at = out->step;
        if (streams == TW_STREAMS_EQUAL)
            out->scheduled = 0;
        if (streams != TW_STREAMS_DIFFER) {
            take_recut(c, out);
            return 0;
        }
    }
    if (is_only_cut(c, p, a, b, out)) {
        take_cut(c, out, start);
        return 0;
    }
    bool same_end = (int64_t)p->a->info->steps + shift == (int64_t)p->b->info->steps;
    bool partial_a = !tw_side_complete(a) || tw_side_failed(a);
    bool partial_b = !tw_side_complete(b) || tw_side_failed(b);
    /*
     * Where the runs end at other steps, the records behind the last common step are compared only
     * when the shorter run may have been cut inside of that step.
     */
    bool shorter_partial = (int64_t)p->a->info->steps + shift < (int64_t)p->b->info->steps
                               ? partial_a
                               : partial_b;
    if (out->found || end >= limit || end < from)
        return 0;
    /* At which record it was told to end, and what it wrote for that, is a matter of the moment. */
    if (tw_proc_given_up(a, p->a) || tw_proc_given_up(b, p->b)) {
        out->tail_unknown = true;
        return 0;
    }
    if (!same_end && !shorter_partial)
        return 0;
    int rc = look_into(c, (uint32_t)end, false, partial_a, partial_b, out, err);
    /* A thread that was late in the unfinished step has records missing before its last one. */
    if (rc == 0 && is_only_cut(c, p, a, b, out)) {
        take_cut(c, out, start);
        return 0;
    }
    out->tail_compared = !out->tail_unknown;
    /* where we stopped a run, only the overlap counts */
    out->tail_unknown &= !tw_side_stopped(a) && !tw_side_stopped(b);
    return rc;
}

int tw_scan_pair(struct tw_cmp *c, const struct tw_pair *p, const struct tw_side *a,
                 const struct tw_side *b, int64_t shift, uint32_t from, struct tw_scan *out,
                 struct twin_error *err)
{
    int rc = scan_steps(c, p, a, b, shift, from, out, err);
    if (rc == 0 && out->scheduled)
        tw_cmp_unseen(c,
                      "rank %d: from step %u on several threads recorded values under one name, "
                      "equal ones in another order; a role for each thread (twin_thread_role, "
                      "threading.Thread(name=...), ThreadPoolExecutor(thread_name_prefix=...)) "
                      "tells them apart",
                      p->a->rank, out->scheduled_at);
    tw_say_damage(c, p->a);
    tw_say_damage(c, p->b);
    return rc;
}

void tw_scan_free(struct tw_scan *s)
{
    tw_findings_free(&s->origins);
    tw_findings_free(&s->benign);
    tw_findings_free(&s->order);
    tw_findings_free(&s->inserted);
    tw_free(s->shared);
    tw_free(s->joined);
    tw_free(s->equal_before);
    *s = (struct tw_scan){0};
}
