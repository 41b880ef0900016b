/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds a run against a baseline. The hashes say in which steps they part; where the baseline keeps
 * the records of such a step, a view of them is put together from the run's own (equal ones are
 * copied, others are marked), so that the first tensor, its origin and what was equal before it are
 * found by the same rules as between two runs.
 */
#include "baseline_inside.h"

#include "arms.h"
#include "phrase.h"
#include "scan.h"
#include "tolerance.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#define OTHER UINT64_C(0x6f74686572) /* content ^ OTHER is another content */

/* One run that is held against a baseline: both, and what was found so far. */
struct judging {
    struct tw_cmp *c;
    const struct twin_baseline *b;
    struct tw_side *side;
    struct tw_scan *scan; /* for the coverage: one per process that both have */
    size_t scans;
    struct tw_judged tolerance;
    struct tw_scan best; /* the first difference; found: there is one with a name */
    bool differs;
    uint64_t differing; /* steps in spans that differ */
    bool exact;         /* all of those spans were single steps */
};

/* ---- a step of the baseline as a view */

/* The records that the baseline keeps of a step; NULL: it keeps none of it. */
static const struct tw_bl_detail *detail_of(const struct tw_bl_proc *p, uint32_t step)
{
    for (size_t i = 0; i < p->details; i++)
        if (p->detail[i].step == step)
            return &p->detail[i];
    return NULL;
}

/* The number that the baseline keeps of a record in a step; NULL: none. */
static const struct tw_bl_number *number_of(const struct tw_bl_proc *p, uint32_t step,
                                            uint32_t name)
{
    for (size_t i = 0; i < p->numbers; i++)
        if (p->number[i].step == step && p->number[i].name == name)
            return &p->number[i];
    return NULL;
}

/* A record that the baseline has of a step; `met`: the run has one of that name, too. */
struct expected {
    uint64_t key;
    uint32_t occurrence;
    const struct tw_bl_record *rec;
    bool met;
};

static int by_key(const void *x, const void *y)
{
    const struct expected *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->occurrence < b->occurrence ? -1 : a->occurrence > b->occurrence;
}

/* The records of a step of the baseline, in an order in which they can be searched. NULL: no
 * memory. */
static struct expected *expectations(const struct twin_baseline *b, const struct tw_bl_detail *d)
{
    struct expected *e = tw_calloc(d->n + 1, sizeof *e);
    for (size_t i = 0; e && i < d->n; i++) {
        const struct tw_bl_name *n = &b->name[d->rec[i].name];
        e[i] = (struct expected){n->key, n->occurrence, &d->rec[i], false};
    }
    if (e && d->n)
        qsort(e, d->n, sizeof *e, by_key);
    return e;
}

/* What the baseline knows of the numbers of a record that has another content now. */
static void old_numbers(struct tw_cmp *c, const struct tw_bl_number *n, struct tw_view *v,
                        struct tw_rec *r)
{
    r->flags &= ~(uint32_t)(TWIN_REC_STATS | TWIN_REC_SKETCH);
    r->stats = (struct twin_stats){.min = NAN, .max = NAN, .absmax = NAN};
    r->sketch = 0;
    r->digest = (struct twin_digest){0};
    if (!n)
        return;
    r->flags |= TWIN_REC_STATS;
    r->stats.count = n->count;
    r->stats.sum = n->sketch ? NAN : n->value;
    r->stats.sumsq = n->value * n->value;
    if (n->count == 1) {
        r->stats.min = n->value;
        r->stats.max = n->value;
        r->stats.absmax = fabs(n->value);
    }
    if (n->sketch && tw_cmp_room(c, &v->sketch, v->sketches, &v->sketch_room, sizeof *v->sketch)) {
        v->sketch[v->sketches++] = *n->sketch;
        r->sketch = v->sketches;
    }
}

/* The same process, its records as the baseline has them. What only the baseline has is counted in
 * *missing; the first one is named. */
static int old_view(struct judging *j, const struct tw_bl_proc *p, const struct tw_bl_detail *d,
                    const struct tw_view *now, struct tw_view *then, size_t *missing,
                    const struct tw_bl_name **first_missing)
{
    struct expected *e = expectations(j->b, d);
    *then = (struct tw_view){.proc = now->proc,
                             .room = now->count + 1,
                             .rec = tw_calloc(now->count + 1, sizeof *then->rec),
                             .links = now->links,
                             .link_room = now->links + 1,
                             .link = tw_calloc(now->links + 1, sizeof *then->link)};
    *missing = 0;
    *first_missing = NULL;
    if (!e || !then->rec || !then->link) {
        tw_free(e);
        tw_view_free(then);
        return TWIN_ENOMEM;
    }
    if (now->links)
        memcpy(then->link, now->link, now->links * sizeof *now->link);
    for (size_t i = 0; i < now->count; i++) {
        struct tw_rec r = now->rec[i];
        struct expected *x = bsearch(&(struct expected){.key = r.key, .occurrence = r.occurrence},
                                     e, d->n, sizeof *e, by_key);
        if (!x)
            continue;
        x->met = true;
        /* Of other contents the baseline knows only that they were other ones, and perhaps a
         * number. */
        if (x->rec->hash !=
            tw_bl_record_hash(r.key, r.occurrence, r.content, r.flags & TWIN_REC_UNOBSERVED)) {
            r.content ^= OTHER;
            old_numbers(j->c, number_of(p, d->step, x->rec->name), then, &r);
        } else {
            r.sketch = 0;
        }
        then->rec[then->count++] = r;
    }
    for (size_t i = 0; i < d->n; i++)
        if (!e[i].met && (*missing)++ == 0)
            *first_missing = &j->b->name[e[i].rec->name];
    tw_free(e);
    return 0;
}

/* Leaves out of a view what the baseline leaves out, too. */
static bool keep_compared(const struct tw_view *v, const struct tw_rec *r, void *user)
{
    return !tw_bl_skip(user, v->proc, r->series, r->key);
}

/* The finding that says which record only the baseline has. */
static struct twin_finding *missing_record(struct tw_cmp *c, const struct tw_bl_proc *p,
                                           const struct tw_bl_name *n, uint32_t step,
                                           size_t missing)
{
    assert(missing > 0);
    struct twin_finding *f = tw_finding_new(c, TWIN_FINDING_ONLY_A, (enum twin_phase)n->phase,
                                            (enum twin_kind)n->kind);
    if (!f)
        return NULL;
    tw_finding_set(c, &f->name, tw_cmp_copy(c, n->name));
    tw_finding_set(c, &f->scope, tw_cmp_copy(c, n->scope));
    tw_finding_set(c, &f->text,
                   missing > 1
                       ? tw_cmp_text(c, "only in the baseline, with %zu other records of this step",
                                     missing - 1)
                       : tw_cmp_copy(c, "only in the baseline"));
    f->occurrence = n->occurrence;
    f->rank = p->rank;
    f->step_a = f->step_b = step;
    return f;
}

/* What the baseline keeps of this step, held against the run's. scan->found: a difference that
 * counts, by name. */
static int name_tensor(struct judging *j, const struct tw_bl_proc *p, struct tw_proc *q,
                       const struct tw_bl_detail *d, struct tw_scan *scan, struct twin_error *err)
{
    struct tw_view now, then;
    struct tw_bl_left_out skip = {j->c, j->b, p};
    const struct tw_bl_name *first_missing;
    size_t missing;
    int rc = tw_view_load(j->c, q, d->step, d->step, &now, err);
    if (rc != 0)
        return rc;
    tw_view_filter(&now, keep_compared, &skip);
    rc = old_view(j, p, d, &now, &then, &missing, &first_missing);
    if (rc == 0)
        rc = tw_scan_views(j->c, &then, &now, NULL, NULL, scan, err);
    if (rc == 0 && missing && !scan->found) {
        tw_findings_take(j->c, &scan->origins,
                         missing_record(j->c, p, first_missing, d->step, missing));
        scan->found = true;
        scan->cls = tw_cause_class(first_missing->phase, first_missing->kind);
    } else if (rc == 0 && missing) {
        tw_cmp_note(j->c, "%zu record%s of step %u %s only in the baseline, the first: %s", missing,
                    tw_plural_s(missing), d->step, missing == 1 ? "is" : "are",
                    first_missing->name);
    }
    scan->step = d->step;
    tw_view_free(&now);
    tw_view_free(&then);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "comparing a run with a baseline") : rc;
}

/* The phase in which two spans differ, the first in the order in which a step goes through them:
 * all that can be named where no tensor can. TWIN_PHASE_NONE: they differ in none. */
static enum twin_phase first_phase(const struct tw_bl_span *x, const struct tw_bl_span *y)
{
    int best = -1;
    for (int p = 0; p < TWIN_PHASE_COUNT; p++)
        if (x->phase[p] != y->phase[p] &&
            (best < 0 || tw_cause_class((uint8_t)p, 0) < tw_cause_class((uint8_t)best, 0)))
            best = p;
    return best < 0 ? TWIN_PHASE_NONE : (enum twin_phase)best;
}

/* Names the difference of a span of which no records are kept: the phase, or the stretch of
 * steps. */
static int name_phase(struct judging *j, const struct tw_bl_proc *p, const struct tw_bl_span *then,
                      const struct tw_bl_span *now, struct tw_scan *scan)
{
    assert(then->first == now->first && then->last == now->last);
    /* Of a stretch the phases say little: what parts late in one step parts early in the next. */
    enum twin_phase phase = then->first == then->last ? first_phase(then, now) : TWIN_PHASE_NONE;
    struct twin_finding *f = tw_finding_new(j->c, TWIN_FINDING_VALUE, phase, TWIN_KIND_NONE);
    if (!f)
        return TWIN_ENOMEM;
    tw_finding_set(j->c, &f->name, tw_cmp_copy(j->c, "one of its tensors"));
    if (then->first != then->last)
        tw_finding_set(
            j->c, &f->text,
            tw_cmp_text(j->c, "somewhere in steps %u to %u, which the baseline keeps as one hash",
                        then->first, then->last));
    else
        tw_finding_set(j->c, &f->text,
                       tw_cmp_copy(j->c, "the baseline keeps no tensors of this step"));
    f->rank = p->rank;
    f->step_a = f->step_b = then->first;
    scan->found = true;
    scan->step = then->first;
    scan->cls = tw_cause_class((uint8_t)phase, 0);
    tw_findings_take(j->c, &scan->origins, f);
    return 0;
}

/* ---- one process */

/* A step of which the baseline keeps no records, but a loss or two. */
static void measure_numbers(struct judging *j, const struct tw_bl_proc *p,
                            const struct tw_view *now, uint32_t step)
{
    j->tolerance.unmeasured++;
    j->tolerance.open_weights++;
    for (size_t i = 0; i < p->numbers; i++) {
        const struct tw_bl_number *n = &p->number[i];
        const struct tw_bl_name *name = &j->b->name[n->name];
        /* The run's number that goes by the same name, measured where it is another one. */
        for (size_t k = 0; n->step == step && !n->sketch && k < now->count; k++) {
            const struct tw_rec *r = &now->rec[k];
            struct tw_view then = {.proc = now->proc};
            struct tw_rec old = *r;
            struct tw_measure m;
            if (r->key != name->key || r->occurrence != name->occurrence ||
                !(r->flags & TWIN_REC_STATS) || r->stats.sum == n->value)
                continue;
            old_numbers(j->c, n, &then, &old);
            tw_rec_measure(&then, &old, now, r, &m);
            tw_tolerance_measure(j->c, twin_phase_name((enum twin_phase)r->phase),
                                 twin_kind_name((enum twin_kind)r->kind), name->name, step, &m,
                                 &j->tolerance);
        }
    }
}

/* Holds every difference of a step against the tolerance. The run's records stand on one side, and
 * on the other those that were put together out of the baseline. */
static int measure_step(struct judging *j, const struct tw_bl_proc *p, struct tw_proc *q,
                        uint32_t step, struct twin_error *err)
{
    struct tw_view now, then;
    struct tw_bl_left_out skip = {j->c, j->b, p};
    const struct tw_bl_detail *d = detail_of(p, step);
    const struct tw_bl_name *first_missing;
    struct tw_stepdiff diff = {0};
    size_t missing, idle;
    int rc = tw_view_load(j->c, q, step, step, &now, err);
    if (rc != 0)
        return rc;
    tw_view_filter(&now, keep_compared, &skip);
    if (!d) {
        measure_numbers(j, p, &now, step);
        tw_view_free(&now);
        return 0;
    }
    rc = old_view(j, p, d, &now, &then, &missing, &first_missing);
    if (rc == 0)
        rc = tw_stepdiff_make(j->c, &then, &now, &diff);
    if (rc == 0)
        rc = tw_drop_idle(j->c, &then, &now, false, &diff, &idle, err);
    for (size_t i = 0; rc == 0 && i < diff.count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&diff.d[i], &then, &now, &v);
        struct tw_measure m = {.missing = diff.d[i].type != TWIN_FINDING_VALUE};
        if (!tw_diff_significant(&diff.d[i]))
            continue;
        if (!m.missing)
            tw_rec_measure(&then, &then.rec[diff.d[i].a], &now, &now.rec[diff.d[i].b], &m);
        tw_tolerance_measure(j->c, twin_phase_name((enum twin_phase)r->phase),
                             twin_kind_name((enum twin_kind)r->kind), tw_rec_name(v, r), step, &m,
                             &j->tolerance);
    }
    if (rc == 0 && missing)
        tw_judged_outside(
            j->c, &j->tolerance,
            tw_cmp_text(j->c, "%s at step %u is only in the baseline", first_missing->name, step));
    tw_stepdiff_free(&diff);
    tw_view_free(&now);
    tw_view_free(&then);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "comparing a run with a baseline") : rc;
}

/* Does x come before y: in an earlier step, or before it in the flow of one step? */
static bool is_earlier(const struct tw_scan *x, const struct tw_scan *y)
{
    return x->step != y->step ? x->step < y->step : x->cls < y->cls;
}

/* Keeps the earliest difference of all processes. Takes the scan. */
static void take_best(struct judging *j, struct tw_scan *scan)
{
    assert(scan->found);
    if (!j->best.found || is_earlier(scan, &j->best)) {
        struct tw_scan old = j->best;
        j->best = *scan;
        *scan = old;
    }
    tw_scan_free(scan);
}

/* A span that parts: its first tensor, as far as the baseline can tell. */
static int name_difference(struct judging *j, const struct tw_bl_proc *p, struct tw_proc *q,
                           const struct tw_bl_span *then, const struct tw_bl_span *now,
                           bool *counts, struct twin_error *err)
{
    struct tw_scan scan = {0};
    const struct tw_bl_detail *d = then->first == then->last ? detail_of(p, then->first) : NULL;
    int rc = d ? name_tensor(j, p, q, d, &scan, err) : name_phase(j, p, then, now, &scan);
    *counts = rc == 0 && scan.found;
    if (*counts)
        take_best(j, &scan);
    else
        tw_scan_free(&scan);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "comparing a run with a baseline") : rc;
}

/* The baseline's process did nothing behind its last step, and this one did. */
static int extra_tail(struct judging *j, const struct tw_bl_proc *p, struct tw_proc *q,
                      struct twin_error *err)
{
    struct tw_view now, then = {.proc = q};
    struct tw_bl_left_out skip = {j->c, j->b, p};
    struct tw_scan scan = {0};
    int rc = tw_view_load(j->c, q, (uint32_t)p->steps, (uint32_t)p->steps, &now, err);
    if (rc != 0)
        return rc;
    tw_view_filter(&now, keep_compared, &skip);
    rc = tw_scan_views(j->c, &then, &now, NULL, NULL, &scan, err);
    scan.step = (uint32_t)p->steps;
    j->differs |= rc == 0 && scan.found;
    if (rc == 0 && scan.found)
        take_best(j, &scan);
    else
        tw_scan_free(&scan);
    tw_view_free(&now);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "comparing a run with a baseline") : rc;
}

/* How many steps of this process can be held against each other. */
static uint64_t common_steps(const struct judging *j, const struct tw_bl_proc *p,
                             const struct tw_proc *q)
{
    uint64_t n = p->steps < q->info->steps ? p->steps : q->info->steps;
    return j->c->o->steps_given && j->c->o->steps < n ? j->c->o->steps : n;
}

static char *say_span(struct tw_cmp *c, const struct tw_bl_span *s, int rank)
{
    if (s->first == s->last)
        return tw_cmp_text(c, "step %u of rank %d", s->first, rank);
    return tw_cmp_text(c, "somewhere in steps %u to %u of rank %d", s->first, s->last, rank);
}

/* Holds the spans of one process against the run's. The first span that differs is named; of the
 * later ones only the steps are counted, and measured where there is a tolerance. *cover says which
 * steps were compared. */
static int judge_spans(struct judging *j, const struct tw_bl_proc *p, struct tw_proc *q,
                       struct tw_scan *cover, struct twin_error *err)
{
    struct tw_bl_sums sums;
    struct tw_bl_left_out skip = {j->c, j->b, p};
    int rc = tw_bl_sums_load(j->c, q, tw_bl_skip, &skip, &sums, err);
    if (rc != 0)
        return rc;
    uint64_t n = common_steps(j, p, q), unknown = 0;
    cover->end = n;
    /* differences that were measured before the last step that differs */
    uint64_t before_last = UINT64_MAX;
    uint64_t open_weights = UINT64_MAX;
    const struct tw_bl_span *differs_last = NULL;
    bool named = false;
    bool all = n == p->steps && n == q->info->steps && tw_side_complete(j->side) &&
               !j->c->o->steps_given;
    /* Span by span, as far as both have them. */
    for (size_t i = 0; rc == 0 && i < p->spans; i++) {
        const struct tw_bl_span *then = &p->span[i];
        bool tail = then->first == p->steps, counts = true;
        if (tail ? !all : then->last >= n)
            break; /* not made, or not in full */
        /* Of a step that lost records it is not known whether it is the same. */
        uint64_t dropped = 0;
        for (uint32_t s = then->first; s <= then->last; s++)
            dropped += sums.step[s].dropped;
        if (dropped) {
            unknown += then->last - then->first + 1;
            continue;
        }
        struct tw_bl_span now = tw_bl_span_of(&sums, then->first, then->last);
        cover->steps_compared += tail ? 0 : then->last - then->first + 1;
        if (now.hash.a == then->hash.a && now.hash.b == then->hash.b)
            continue;
        if (!named)
            rc = name_difference(j, p, q, then, &now, &counts, err);
        named |= counts;
        if (!named)
            continue; /* nothing that matters: the state of a generator that nobody draws from */
        j->differs = true;
        j->differing += tail ? 0 : then->last - then->first + 1; /* that is no step */
        j->exact &= then->first == then->last;
        for (uint32_t s = then->first; rc == 0 && j->c->tolerance && s <= then->last; s++) {
            before_last = j->tolerance.measured;
            open_weights = j->tolerance.open_weights;
            rc = measure_step(j, p, q, s, err);
            differs_last = then;
        }
    }
    /* Results are taken from the end: when the last step that differs could not be measured, or not
     * its weights, how far they are off is not known. */
    bool end_open = j->tolerance.measured == before_last ||
                    j->tolerance.open_weights > open_weights;
    if (differs_last && !j->tolerance.end_open && end_open)
        j->tolerance.end_open = say_span(j->c, differs_last, p->rank);
    if (rc == 0 && all && !p->tail && sums.n > p->steps && sums.step[p->steps].count > 0)
        rc = extra_tail(j, p, q, err);
    if (p->tail && !all && tw_side_complete(j->side) && n == p->steps && !j->c->o->steps_given)
        cover->tail_unknown = true;
    if (unknown)
        tw_cmp_unseen(
            j->c, "%llu steps of rank %d, whose records were lost in part (--lossless keeps them)",
            (unsigned long long)unknown, p->rank);
    tw_bl_sums_free(&sums);
    return rc;
}

/* ---- which process is which */

/* Did this process compute what the baseline's did, in every step? This tells processes apart that
 * go by the same rank and role. */
static bool is_all_equal(struct judging *j, const struct tw_bl_proc *p, struct tw_proc *q)
{
    struct tw_bl_sums sums;
    struct tw_bl_left_out skip = {j->c, j->b, p};
    if (p->steps != q->info->steps || tw_bl_sums_load(j->c, q, tw_bl_skip, &skip, &sums, NULL) != 0)
        return false;
    bool equal = true;
    for (size_t i = 0; equal && i < p->spans; i++) {
        struct tw_bl_span now = tw_bl_span_of(&sums, p->span[i].first, p->span[i].last);
        equal = now.hash.a == p->span[i].hash.a && now.hash.b == p->span[i].hash.b;
    }
    tw_bl_sums_free(&sums);
    return equal;
}

/* Processes that started at once have no order of their own: one whose records agree comes first,
 * then the first that is left. */
static struct tw_proc *counterpart_of(struct judging *j, const struct tw_bl_proc *p)
{
    struct tw_proc *left = NULL, *only = NULL;
    size_t candidates = 0;
    for (size_t i = 0; i < j->side->count; i++) {
        struct tw_proc *q = &j->side->proc[i];
        if (q->taken || q->rank != p->rank || strcmp(tw_proc_role(q), p->role) != 0 ||
            !tw_bl_wanted(j->side, q))
            continue;
        candidates++;
        only = q;
        left = left ? left : q;
    }
    for (size_t i = 0; candidates > 1 && i < j->side->count; i++) {
        struct tw_proc *q = &j->side->proc[i];
        if (!q->taken && q->rank == p->rank && strcmp(tw_proc_role(q), p->role) == 0 &&
            tw_bl_wanted(j->side, q) && is_all_equal(j, p, q))
            return q;
    }
    return candidates == 1 ? only : left;
}

/* A finding about processes or ends. The first one stands with the origins, and of one that comes
 * behind another the text is noted, too. Takes f. */
static void take_finding(struct judging *j, struct twin_finding *f)
{
    if (!f)
        return;
    j->differs = true;
    if (j->best.found)
        tw_cmp_note(j->c, "%s", f->text);
    else
        j->best.found = true;
    tw_findings_take(j->c, &j->best.origins, f);
}

/* A baseline may be older than the rule that keeps every process that computes: of such a one it is
 * not known whether it was there. */
static void take_extra(struct judging *j, const struct tw_proc *p, struct tw_buf *extra)
{
    if (tw_starts(tw_proc_role(p), "main") && (p->info->steps > 0 || j->side->steps == 0))
        tw_buf_printf(extra, "%srank %d", extra->len ? ", " : "", p->rank);
    else
        tw_cmp_unseen(j->c, "rank %d (%s), number %zu: the baseline does not have this process",
                      p->rank, tw_proc_role(p), p->ordinal + 1);
}

/* Finds the run's process of each of the baseline's, judges it, and says which side has one
 * more. */
static int judge_processes(struct judging *j, struct twin_error *err)
{
    struct tw_buf lost = {0}, extra = {0}, steps = {0};
    uint64_t ends = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < j->b->procs; i++) {
        const struct tw_bl_proc *p = &j->b->proc[i];
        struct tw_proc *q = counterpart_of(j, p);
        if (!q) {
            tw_buf_printf(&lost, "%srank %d", lost.len ? ", " : "", p->rank);
            continue;
        }
        q->taken = true;
        struct tw_pair *pair = tw_calloc(1, sizeof *pair);
        if (!pair) {
            rc = tw_no_memory(err, "comparing a run with a baseline");
            break;
        }
        *pair = (struct tw_pair){.a = q, .b = q};
        struct tw_scan *cover = &j->scan[j->scans++];
        cover->pair = pair;
        rc = judge_spans(j, p, q, cover, err);
        /* With --steps both count as no longer than that. */
        const uint64_t asked = j->c->o->steps_given ? j->c->o->steps : UINT64_MAX;
        const uint64_t made = q->info->steps < asked ? q->info->steps : asked;
        const uint64_t kept = p->steps < asked ? p->steps : asked;
        if (made == kept)
            continue;
        const bool wanted = !tw_side_stopped(j->side) && (made > kept || q->info->closed);
        char *text = tw_cmp_text(j->c, "rank %d made %llu step%s, the baseline has %llu", p->rank,
                                 (unsigned long long)made, tw_plural_s(made),
                                 (unsigned long long)kept);
        if (text && !wanted)
            tw_cmp_unseen(j->c, "%s", text);
        else if (text && steps.len == 0)
            tw_buf_puts(&steps, text);
        if (wanted)
            ends = made < kept ? made : kept;
        tw_free(text);
    }
    /* Processes that the baseline does not have, and what is said of both sides. */
    for (size_t i = 0; i < j->side->count; i++)
        if (!j->side->proc[i].taken && tw_bl_wanted(j->side, &j->side->proc[i]))
            take_extra(j, &j->side->proc[i], &extra);
    if (rc == 0 && !tw_side_failed(j->side) && (lost.len || extra.len))
        take_finding(
            j,
            tw_outcome_new(j->c, TWIN_FINDING_RANKS, "processes",
                           tw_cmp_text(j->c, "%s%s%s%s%s", lost.len ? "only in the baseline: " : "",
                                       lost.len ? lost.data : "", lost.len && extra.len ? "; " : "",
                                       extra.len ? "not in the baseline: " : "",
                                       extra.len ? extra.data : ""),
                           0));
    if (rc == 0 && steps.len && !tw_side_failed(j->side))
        take_finding(j, tw_outcome_new(j->c, TWIN_FINDING_OUTCOME, "how the job ended",
                                       tw_cmp_copy(j->c, steps.data), ends));
    tw_buf_free(&lost);
    tw_buf_free(&extra);
    tw_buf_free(&steps);
    return rc;
}

/* ---- the verdict */

/* Moves the earliest difference into the verdict. */
static void adopt_best(struct judging *j)
{
    struct twin_verdict *v = j->c->v;
    struct tw_scan *s = &j->best;
    if (s->origins.n == 0)
        return;
    v->first = tw_finding_copy(j->c, &s->origins.f[0]);
    v->origins = s->origins.f;
    v->origin_count = s->origins.n;
    s->origins = (struct tw_findings){0};
    if (s->equal_before)
        tw_finding_set(j->c, &v->equal_before, s->equal_before);
    s->equal_before = NULL;
    v->equal_before_records = s->equal_records;
    v->steps_differing = j->differing;
    v->steps_differing_exact = j->exact;
}

/* Makes the word of the verdict out of all that was found. A run that failed differs where a value
 * does, and is an error else. */
static void decide_outcome(struct judging *j)
{
    struct tw_cmp *c = j->c;
    struct twin_verdict *v = c->v;
    const struct twin_run *r = j->side->run;
    bool failed = tw_side_failed(j->side);
    bool value = v->first && v->first->type != TWIN_FINDING_OUTCOME &&
                 v->first->type != TWIN_FINDING_RANKS;
    if (r->outcome == TWIN_RUN_INTERRUPTED || r->in_progress)
        tw_cmp_unseen(c,
                      r->in_progress ? "the run is still going on"
                                     : "the run was interrupted after %llu steps",
                      (unsigned long long)j->side->steps);
    if (failed && !value)
        v->bitwise = TWIN_FAILED;
    else if (j->differs)
        v->bitwise = TWIN_DIFFER;
    else
        v->bitwise = c->unseen.n ? TWIN_INCONCLUSIVE : TWIN_SAME;
    bool only_values = value && v->origin_count &&
                       v->origins[v->origin_count - 1].type == TWIN_FINDING_VALUE;
    bool within = v->bitwise == TWIN_DIFFER && c->tolerance && tw_judged_inside(c, &j->tolerance) &&
                  only_values && !failed;
    if (within && c->unseen.n)
        tw_cmp_note(c, "not judged by the tolerance: %s", c->unseen.s[0]);
    within &= c->unseen.n == 0;
    v->outcome = within ? TWIN_WITHIN_TOLERANCE : v->bitwise;
    if (failed) {
        char *text = tw_outcome_text(c, r);
        tw_cmp_note(c, "the run failed: %s, %llu steps recorded", text ? text : "",
                    (unsigned long long)j->side->steps);
        tw_free(text);
    }
    v->differing = v->bitwise == TWIN_DIFFER;
    v->rate = v->differing ? 1 : 0;
}

/* What the verdict says of the baseline. The caller adds its path and its world. */
static struct twin_against *new_against(struct tw_cmp *c, const struct twin_baseline *b)
{
    struct twin_against *a = tw_calloc(1, sizeof *a);
    c->oom |= !a;
    if (a) {
        a->made = tw_cmp_copy(c, b->made);
        a->runs = b->runs;
    }
    return a;
}

int twin_baseline_judge(const struct twin_baseline *b, const struct twin_run *run,
                        const struct twin_compare_options *given, struct twin_verdict **out,
                        struct twin_error *err)
{
    struct twin_compare_options o = given ? *given : (struct twin_compare_options){0};
    o.ignore = (const char *const *)b->ignore; /* what a baseline leaves out is written in it */
    o.ignore_count = b->ignore_count;
    struct tw_cmp c = {.o = &o, .run_b = o.number};
    struct tw_side side = {0};
    struct judging j = {.c = &c,
                        .b = b,
                        .side = &side,
                        .exact = true,
                        .tolerance = {.worst = -1, .few_kept = true}};
    *out = NULL;
    int rc = o.tolerance_file ? tw_tolerance_load(o.tolerance_file, &c.tolerance, err) : 0;
    if (rc != 0)
        return rc;
    snprintf(c.label_a, sizeof c.label_a, "the baseline");
    snprintf(c.label_b, sizeof c.label_b, "this run");
    c.v = tw_verdict_new(&c, 1);
    j.scan = tw_calloc(b->procs + 1, sizeof *j.scan);
    rc = c.v && j.scan ? tw_side_open(&c, run, 0, &side, err)
                       : tw_no_memory(err, "comparing a run with a baseline");
    if (rc == 0) {
        c.v->comparisons = 1;
        c.v->against = new_against(&c, b);
        tw_coverage_notes(&c, &side);
        rc = judge_processes(&j, err);
    }
    if (rc == 0) {
        adopt_best(&j);
        /* what "same" needs, "within tolerance" needs, too */
        const bool judged = j.differs && c.tolerance && !j.tolerance.outside;
        if (!j.differs || judged)
            tw_coverage(&c, &side, NULL, j.scan, j.scans);
        tw_account_side(&c, &side, NULL, j.differs && !judged);
        for (size_t i = 0; i < j.scans; i++)
            if (j.scan[i].steps_compared > c.v->steps_compared)
                c.v->steps_compared = j.scan[i].steps_compared;
        c.v->steps_a = twin_baseline_info(b).steps;
        c.v->records_a = twin_baseline_info(b).records;
        decide_outcome(&j);
        if (c.tolerance)
            tw_tolerance_report(&c);
    }
    if (c.v)
        tw_verdict_hand_over(&c);
    if (rc == 0 && c.oom)
        rc = tw_no_memory(err, "comparing a run with a baseline");
    for (size_t i = 0; j.scan && i < j.scans; i++)
        tw_free((void *)j.scan[i].pair);
    tw_free(j.scan);
    tw_scan_free(&j.best);
    tw_judged_free(&j.tolerance);
    tw_side_close(&side);
    return tw_cmp_close(&c, rc, out);
}
