/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what happens after the first difference: when each kind of record diverges, how many steps
 * differ, how fast the distance grows (tw_trend(), called by pair.c for the comparison that is
 * shown), and where NaN or Inf first appeared (tw_nonfinite(), called by compare.c). Decoding every
 * step of a long run would take too long, so the first steps are decoded densely and later ones
 * only where the step hashes promise something new.
 */
#include "arms.h"
#include "evidence.h"
#include "internal.h"
#include "scan.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps behind the first difference in which onsets are looked for. */
#define LOOK_STEPS 4096u /* how far ahead onsets are looked for */
/*
 * The first DENSE_STEPS of these are all decoded, then every tenth and those that can show
 * something new; in all at most DECODE_STEPS steps, and no more after DECODE_RECORDS records.
 */
#define DENSE_STEPS 64u
#define DECODE_STEPS 512u
#define DECODE_RECORDS 4000000u
/* Weights, gradients and losses: the first of them that has enough points is fitted. */
#define SERIES 3

/* Bytes of traces that are read in search of NaN, all traces together. */
uint64_t tw_nonfinite_bytes = UINT64_C(512) << 20;

/*
 * What was found so far. seen: kinds whose onset is listed. x, y: steps, and the logarithm of the
 * relative distance in them.
 */
struct trend {
    bool seen[TWIN_PHASE_COUNT][TWIN_KIND_COUNT];
    uint16_t phases; /* that had parted in a decoded step */
    double x[SERIES][DECODE_STEPS], y[SERIES][DECODE_STEPS];
    size_t points[SERIES], decoded;
    uint64_t records;
};

/* What began to differ, in the words of a verdict. */
static const char *onset_words(const struct tw_rec *r)
{
    if (r->kind == TWIN_KIND_STATE)
        return "generator state";
    if (r->phase == TWIN_PHASE_INIT)
        return "initial weights";
    if (r->kind == TWIN_KIND_MOMENT)
        return "optimizer state";
    if (r->kind == TWIN_KIND_GRADIENT_LOCAL)
        return "local gradients";
    if (r->kind == TWIN_KIND_GRADIENT && tw_is_written(r->phase, r->kind))
        return "written gradient";
    if (r->kind == TWIN_KIND_HYPER)
        return "hyperparameters";
    if (r->phase == TWIN_PHASE_COLLECTIVE && r->kind == TWIN_KIND_IN)
        return "sent to ranks";
    if (r->phase == TWIN_PHASE_COLLECTIVE && r->kind == TWIN_KIND_OUT)
        return "received from ranks";
    return tw_is_handed(r->phase, r->kind) ? "inputs of modules" : twin_kind_name(r->kind);
}

/* Adds the first difference of a phase and kind to the verdict's onsets, and claims it. */
static void onset(struct tw_cmp *c, const struct tw_scan *scan, struct trend *t, uint32_t step,
                  const struct tw_rec *r)
{
    struct twin_verdict *v = c->v;
    if (r->phase >= TWIN_PHASE_COUNT || r->kind >= TWIN_KIND_COUNT || t->seen[r->phase][r->kind])
        return;
    t->seen[r->phase][r->kind] = true;
    t->phases |= (uint16_t)(1u << r->phase);
    struct twin_onset *grown = tw_reallocarray(v->onsets, v->onset_count + 1, sizeof *grown);
    if (!grown) {
        c->oom = true;
        return;
    }
    v->onsets = grown;
    const char *what = onset_words(r);
    bool many = r->phase != TWIN_PHASE_INIT &&
                (r->kind == TWIN_KIND_WEIGHT || r->kind == TWIN_KIND_GRADIENT ||
                 r->kind == TWIN_KIND_ACTIVATION);
    v->onsets[v->onset_count++] = (struct twin_onset){
        .what = tw_cmp_text(c, "%s%s", what, many ? "s" : ""),
        .phase = r->phase,
        .kind = r->kind,
        .step = step};
    if (v->onsets[v->onset_count - 1].what)
        tw_claim_onset(c, scan, &v->onsets[v->onset_count - 1], step - scan->step < DENSE_STEPS);
}

/*
 * Which of the fitted series a record belongs to; -1: none. Written gradients are not what a
 * backward pass gave, and would bend the curve.
 */
static int series_of(const struct tw_rec *r)
{
    if (r->phase == TWIN_PHASE_OPTIMIZER && r->kind == TWIN_KIND_WEIGHT)
        return 0;
    if (r->kind == TWIN_KIND_GRADIENT)
        return tw_is_written(r->phase, r->kind) ? -1 : 1;
    return r->kind == TWIN_KIND_LOSS ? 2 : -1;
}

/*
 * Adds one point to each series: the distance of all weights (gradients, losses) of a step
 * together, relative to their norm. Steps without statistics or sketches give none.
 */
static void add_points(struct trend *t, uint32_t step, const struct tw_view *va,
                       const struct tw_view *vb, const struct tw_stepdiff *d)
{
    double distance[SERIES] = {0}, norm[SERIES] = {0};
    for (size_t i = 0; i < d->count; i++) {
        if (d->d[i].type != TWIN_FINDING_VALUE)
            continue;
        const struct tw_rec *a = &va->rec[d->d[i].a], *b = &vb->rec[d->d[i].b];
        double absolute;
        bool exact;
        int s = series_of(a);
        if (s < 0)
            continue;
        double relative = tw_rec_distance(va, a, vb, b, &absolute, &exact);
        if (relative > 0 && isfinite(relative))
            distance[s] += absolute * absolute;
    }
    for (size_t i = 0; i < va->count; i++) {
        const struct tw_rec *r = &va->rec[i];
        int s = series_of(r);
        if (s >= 0 && r->flags & TWIN_REC_STATS)
            norm[s] += r->stats.sumsq;
    }
    for (int s = 0; s < SERIES; s++)
        if (distance[s] > 0 && norm[s] > 0 && isfinite(norm[s]) && t->points[s] < DECODE_STEPS) {
            t->x[s][t->points[s]] = step;
            t->y[s][t->points[s]++] = log(sqrt(distance[s] / norm[s]));
        }
}

/* Decodes one step: notes its onsets and its points. Returns 0 or an error. */
static int decode(struct tw_cmp *c, const struct tw_scan *s, uint32_t step, struct trend *t,
                  struct twin_error *err)
{
    struct tw_view va, vb;
    struct tw_stepdiff d;
    size_t left_out;
    int rc = s->weights_only ? tw_weights_step(c, s, step, &va, &vb, &d, &left_out, err)
                             : tw_scan_step(c, s, step, &va, &vb, &d, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < d.count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d.d[i], &va, &vb, &v);
        bool alone = d.d[i].type == TWIN_FINDING_ONLY_A || d.d[i].type == TWIN_FINDING_ONLY_B;
        /* what was not compared in the steps that the verdict speaks of is none of its matter */
        if (s->weights_only && ((r->kind == TWIN_KIND_GRADIENT && !s->gradients) ||
                                (r->kind == TWIN_KIND_MOMENT && !s->moments)))
            continue;
        if (tw_diff_significant(&d.d[i]) && !(alone && c->o->arms))
            onset(c, s, t, step, r);
    }
    add_points(t, step, &va, &vb, &d);
    t->decoded++;
    t->records += va.count + vb.count;
    tw_stepdiff_free(&d);
    tw_view_free(&va);
    tw_view_free(&vb);
    return 0;
}

/*
 * Would decoding this step show a phase that has not diverged yet in a decoded step? Only the
 * hashes are read.
 */
static bool new_phase(const struct trend *t, const struct tw_step_entry *a,
                      const struct tw_step_entry *b, struct tw_pair const *p, uint32_t step,
                      int64_t shift)
{
    struct twin_step_hash x, y;
    if (!a->known || !b->known || a->hash == b->hash)
        return false;
    if (twin_trace_step_hash(p->a->trace, step, &x, NULL) != 0 ||
        twin_trace_step_hash(p->b->trace, (uint32_t)(step + shift), &y, NULL) != 0)
        return false;
    for (unsigned i = 0; i < TWIN_PHASE_COUNT; i++)
        if (!(t->phases >> i & 1) &&
            (x.phase[i].lo != y.phase[i].lo || x.phase[i].hi != y.phase[i].hi))
            return true;
    return false;
}

/*
 * Do step i of a and step j of b, both known, differ? For arms of different world size only what
 * the optimizer left counts; a hash that cannot be read counts as a difference.
 */
static bool step_differs(const struct tw_scan *s, const struct tw_steps *a,
                         const struct tw_steps *b, size_t i, size_t j)
{
    struct twin_step_hash x, y;
    if (!s->weights_only || a->step[i].hash == b->step[j].hash)
        return a->step[i].hash != b->step[j].hash;
    return twin_trace_step_hash(s->pair->a->trace, (uint32_t)i, &x, NULL) != 0 ||
           twin_trace_step_hash(s->pair->b->trace, (uint32_t)j, &y, NULL) != 0 ||
           memcmp(&x.phase[TWIN_PHASE_OPTIMIZER], &y.phase[TWIN_PHASE_OPTIMIZER],
                  sizeof x.phase[0]) != 0;
}

/*
 * Sets v->steps_differing by the hashes of all common steps from the first difference on. Not exact
 * where steps are unknown or the tables were cut.
 */
static void count_differing(struct tw_cmp *c, const struct tw_scan *s, const struct tw_steps *a,
                            const struct tw_steps *b)
{
    struct twin_verdict *v = c->v;
    v->steps_differing = 0;
    v->steps_differing_exact = !a->cut && !b->cut;
    if (s->added_up) { /* the hash of a step is of one rank's parts */
        v->steps_differing = s->step < s->end;
        v->steps_differing_exact = s->step + 1 >= s->end;
        return;
    }
    for (size_t i = s->step; i < a->n; i++) {
        int64_t j = (int64_t)i + s->shift;
        if (j < 0 || (uint64_t)j >= b->n || (c->o->steps_given && i >= c->o->steps))
            continue;
        if (!a->step[i].known || !b->step[j].known)
            v->steps_differing_exact = false;
        else
            v->steps_differing += step_differs(s, a, b, i, (size_t)j);
    }
    /* the hash of the backward phase has more than the gradients that were compared */
    v->steps_differing_exact &= !s->gradients;
    if (v->steps_differing == 0)
        v->steps_differing = 1; /* the unfinished last step has no hash */
}

/*
 * Fits a line to the logarithm of the distance over the steps: exp(slope) is the factor by which
 * the distance grows in a step. Three points are the least.
 */
static void fit_drift(struct tw_cmp *c, const struct tw_scan *scan, const struct trend *t)
{
    static const char *const what[SERIES] = {"weights", "gradients", "loss"};
    for (int s = 0; s < SERIES; s++) {
        double slope, intercept;
        if (t->points[s] < 3 ||
            twin_stats_line_fit(t->x[s], t->y[s], t->points[s], &slope, &intercept) != 0)
            continue;
        c->v->drift_per_step = exp(slope);
        if (isfinite(c->v->drift_per_step))
            tw_claim_drift(c, scan, what[s], t->x[s], t->points[s], c->v->drift_per_step);
        return;
    }
}

/* Order of onsets: by step, then by place in the flow of a step. */
static int by_onset(const void *x, const void *y)
{
    const struct twin_onset *a = x, *b = y;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return tw_cause_class((uint8_t)a->phase, (uint8_t)a->kind) -
           tw_cause_class((uint8_t)b->phase, (uint8_t)b->kind);
}

/* Does any known step from `from` on differ? Then the list of onsets may be incomplete. */
static bool differs_later(const struct tw_steps *a, const struct tw_steps *b, int64_t shift,
                          uint64_t from)
{
    for (uint64_t i = from; i < a->n && (int64_t)i + shift < (int64_t)b->n; i++)
        if (a->step[i].known && b->step[(int64_t)i + shift].known &&
            a->step[i].hash != b->step[(int64_t)i + shift].hash)
            return true;
    return false;
}

/*
 * The step of the first difference is decoded always, also when it is not finished. Errors are not
 * returned: a trend that is cut short is no reason to lose the verdict; a lack of memory is noted
 * in c->oom.
 */
void tw_trend(struct tw_cmp *c, const struct tw_scan *s, struct twin_error *err)
{
    struct tw_steps a = {0}, b = {0};
    struct trend *t = tw_calloc(1, sizeof *t);
    if (!t || tw_steps_load(c, s->pair->a, s->step, &a, err) != 0 ||
        tw_steps_load(c, s->pair->b, tw_found_in_b(s), &b, err) != 0) {
        c->oom = true;
        goto out;
    }
    count_differing(c, s, &a, &b);
    for (uint32_t i = 0;; i++) {
        uint64_t step = (uint64_t)s->step + i;
        int64_t other = (int64_t)step + s->shift;
        bool finished = step < a.n && other >= 0 && (uint64_t)other < b.n;
        if (i > 0 && (!finished || (c->o->steps_given && step >= c->o->steps)))
            break;
        if (i == LOOK_STEPS || t->decoded == DECODE_STEPS || t->records >= DECODE_RECORDS) {
            if (differs_later(&a, &b, s->shift, step))
                tw_cmp_note(
                    c,
                    "what diverges for the first time after step %llu is not listed: onsets "
                    "were looked for until there",
                    (unsigned long long)step - 1);
            break;
        }
        if (i >= DENSE_STEPS &&
            !new_phase(t, &a.step[step], &b.step[other], s->pair, (uint32_t)step, s->shift) &&
            i % 10 != 0)
            continue;
        if (decode(c, s, (uint32_t)step, t, err) != 0)
            break;
    }
    if (c->v->onset_count)
        qsort(c->v->onsets, c->v->onset_count, sizeof *c->v->onsets, by_onset);
    fit_drift(c, s, t);
out:
    tw_steps_free(&a);
    tw_steps_free(&b);
    tw_free(t);
}

/* ---- NaN and Inf */

/* The search in one process, and the first record that it found. */
struct nonfinite {
    struct tw_proc *p;
    uint32_t step, seq;
    bool found, nan;
    const char *name;
    enum twin_kind kind;
};

/*
 * Callback of twin_trace_walk: ends the walk with 1 at the first record whose statistics count NaN,
 * or Inf where it matters.
 */
static int look_for_nonfinite(void *user, const struct twin_trace_record *r)
{
    struct nonfinite *n = user;
    if (!(r->flags & TWIN_REC_STATS) || !(r->stats.nan | r->stats.pos_inf | r->stats.neg_inf))
        return 0;
    const struct twin_series *s = twin_trace_series(n->p->trace, r->series);
    /* An attention mask or a running minimum holds infinities on purpose: Inf counts where training
     * cannot live with it. */
    const bool back = tw_is_given_back(s->phase, twin_trace_string(n->p->trace, s->name),
                                       twin_trace_string(n->p->trace, s->scope));
    /* states of optax may begin at infinity, as the best loss so far does */
    bool matters = s->kind == TWIN_KIND_LOSS || s->kind == TWIN_KIND_GRADIENT ||
                   s->kind == TWIN_KIND_GRADIENT_LOCAL || (s->kind == TWIN_KIND_MOMENT && !back) ||
                   (s->kind == TWIN_KIND_WEIGHT && s->phase == TWIN_PHASE_OPTIMIZER);
    if (r->stats.nan == 0 && !matters)
        return 0;
    n->found = true;
    n->nan = r->stats.nan > 0;
    n->step = r->step;
    n->seq = r->seq;
    n->kind = s->kind;
    n->name = twin_trace_string(n->p->trace, s->name);
    return 1;
}

/*
 * Says which other runs have one: of all runs, or, where there are many, of the two that are shown.
 * NULL: no memory.
 */
static char *say_others(struct tw_cmp *c, const struct tw_side *sides, size_t n, size_t have,
                        size_t best_run)
{
    if (c->v->runs > n)
        return tw_cmp_text(c, have == n ? " (run %zu has one, too)" : " (run %zu has none)",
                           sides[best_run == 0].index + 1);
    if (have == n)
        return tw_cmp_copy(c, " (every run has one)");
    return tw_cmp_copy(c, have > 1 ? "" : " (no other run has one)");
}

/*
 * The earliest step of all processes is named. Traces that do not fit into what is left of
 * tw_nonfinite_bytes are passed over and counted in a note, unless verifying them has shown that
 * there is none.
 */
void tw_nonfinite(struct tw_cmp *c, const struct tw_side *sides, size_t n)
{
    struct nonfinite best = {0};
    size_t best_run = 0, runs = 0, numbers[2] = {0};
    uint64_t budget = tw_nonfinite_bytes;
    size_t unread = 0, traces = 0;
    assert(n <= sizeof numbers / sizeof numbers[0]);
    for (size_t i = 0; i < n; i++) {
        bool here = false;
        numbers[i] = sides[i].index;
        for (size_t j = 0; j < sides[i].count; j++) {
            struct tw_proc *p = &sides[i].proc[j];
            struct nonfinite x = {.p = p};
            traces++;
            const struct twin_trace_summary *seen = twin_trace_summary(p->trace);
            if (seen && !seen->nonfinite)
                continue; /* every record was looked at when the trace was verified */
            if (p->info->file_bytes > budget) {
                unread++;
                continue;
            }
            budget -= p->info->file_bytes;
            twin_trace_walk(p->trace, look_for_nonfinite, NULL, &x, NULL);
            here |= x.found;
            if (x.found && (!best.found || x.step < best.step)) {
                best = x;
                best_run = i;
            }
        }
        runs += here;
    }
    if (unread)
        tw_cmp_note(c,
                    "NaN and Inf were looked for in %zu of %zu traces: the others are larger than "
                    "%llu MiB together with them",
                    traces - unread, traces, (unsigned long long)(tw_nonfinite_bytes >> 20));
    char *others = best.found ? say_others(c, sides, n, runs, best_run) : NULL;
    if (!others)
        return;
    tw_finding_set(c, &c->v->nonfinite,
                   tw_cmp_text(c, "first %s in run %zu, rank %d, step %u: %s %s%s",
                               best.nan ? "NaN" : "Inf", sides[best_run].index + 1, best.p->rank,
                               best.step, twin_kind_name(best.kind), best.name, others));
    tw_free(others);
    tw_claim_nonfinite(c, best.p,
                       &(struct tw_nonfinite_at){.step = best.step,
                                                 .number = best.seq,
                                                 .kind = best.kind,
                                                 .nan = best.nan,
                                                 .name = best.name},
                       numbers, n, runs);
}
