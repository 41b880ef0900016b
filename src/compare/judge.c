/* SPDX-License-Identifier: Apache-2.0 */
/* Holds what differs between two processes against a tolerance, step by step, and claims what was
 * judged with which numbers. Every differing step is judged and not just the first: a divergence
 * that is small in its first step may grow beyond what is allowed. Judging ends at the first step
 * that is outside. */
#include "arms.h"
#include "claims.h"
#include "scan.h"
#include "tolerance.h"

/* differing steps that are judged; more leave the rest not judged */
uint64_t tw_judge_limit = UINT64_C(1) << 22;

#define STEPS_LISTED 64u /* of a claim: the numbers of more steps are in its sums */

/* One pair of processes: what it adds to the sums of all, and the claim that says so. */
struct judge {
    struct tw_cmp *c;
    struct tw_scan *s;
    struct tw_judged *j;
    json_t *steps;
    uint64_t looked, measured, unmeasured, outside, unknown; /* steps; the sums before this pair */
};

/* One difference. What only one run has cannot be measured, and no tolerance allows it. */
static void judge_one(struct tw_cmp *c, const struct tw_diff *d, const struct tw_view *va,
                      const struct tw_view *vb, struct tw_judged *j)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(d, va, vb, &v);
    struct tw_measure m = {.missing = d->type != TWIN_FINDING_VALUE};
    if (!m.missing)
        tw_rec_measure(va, &va->rec[d->a], vb, &vb->rec[d->b], &m);
    tw_tolerance_measure(c, twin_phase_name(r->phase), twin_kind_name(r->kind), tw_rec_name(v, r),
                         r->step, &m, j);
}

/* What of a step cannot be held against anything: then nothing is said about the step. */
static void say_unknown(struct tw_cmp *c, struct tw_judged *j, uint32_t step,
                        const struct tw_view *va, const struct tw_view *vb,
                        const struct tw_stepdiff *d)
{
    if (va->dropped + vb->dropped)
        tw_judged_outside(
            c, j, tw_cmp_text(c, "step %u has dropped records, which cannot be judged", step));
    if (va->cut || vb->cut)
        tw_judged_outside(
            c, j,
            tw_cmp_text(c, "step %u has more records than are read, which cannot be judged", step));
    if (d->unread + d->schedule > 0)
        tw_judged_unknown(c, j,
                          tw_cmp_text(c,
                                      "step %u has records that could not be read, or whose order "
                                      "among threads is not known",
                                      step));
    else if (d->elsewhere > 0)
        tw_judged_unknown(
            c, j,
            tw_cmp_text(c, "step %u has parts of large tensors that only one run recorded", step));
}

/* Other numbers of ranks: notes which weights of a step were judged, which no hash of it says.
 * Gradients and optimizer state do not stand for them. */
static void take_weights(struct judge *g, uint32_t step, const struct tw_view *va,
                         const struct tw_view *vb, size_t left_out)
{
    struct tw_scan *s = g->s;
    struct tw_shared shared = {.step = step};
    const bool tail = step >= s->pair->a->info->steps;
    if (left_out > 0)
        tw_judged_unknown(g->c, g->j,
                          tw_cmp_text(g->c,
                                      "step %u has large tensors of which one run recorded some "
                                      "parts only",
                                      step));
    tw_worlds_count(g->c, s, step, va, vb);
    if (tail)
        return;
    for (size_t i = 0; i < va->count; i++) {
        const struct tw_rec *r = &va->rec[i];
        if (r->flags & TWIN_REC_UNOBSERVED ||
            tw_cmp_ignored(g->c, r->phase, r->kind, tw_rec_name(va, r)))
            continue;
        shared.records++;
        if (r->kind == TWIN_KIND_WEIGHT)
            shared.phases |= (uint16_t)(1u << r->phase);
    }
    if (tw_cmp_room(g->c, &s->shared, s->shares, &s->share_room, sizeof *s->shared))
        s->shared[s->shares++] = shared;
}

/* One step of both, finished or the last one. */
static int judge_step(struct judge *g, uint32_t step, struct twin_error *err)
{
    struct tw_judged *j = g->j;
    const uint64_t measured = j->measured, unmeasured = j->unmeasured, outside = j->outside_rows;
    struct tw_view va, vb;
    struct tw_stepdiff d;
    size_t left_out = 0;
    int rc = g->s->weights_only ? tw_weights_step(g->c, g->s, step, &va, &vb, &d, &left_out, err)
                                : tw_scan_step(g->c, g->s, step, &va, &vb, &d, err);
    if (rc != 0)
        return rc;
    if (g->s->weights_only)
        take_weights(g, step, &va, &vb, left_out);
    j->worst_of_step = -1;
    say_unknown(g->c, j, step, &va, &vb, &d);
    for (size_t i = 0; i < d.count; i++)
        if (tw_diff_significant(&d.d[i]))
            judge_one(g->c, &d.d[i], &va, &vb, j);
    tw_stepdiff_free(&d);
    tw_view_free(&va);
    tw_view_free(&vb);
    /* What this step adds to the sums of all steps. */
    const uint64_t measured_here = j->measured - measured;
    const uint64_t unmeasured_here = j->unmeasured - unmeasured;
    const uint64_t outside_here = j->outside_rows - outside;
    if (measured_here + unmeasured_here + outside_here > 0 && g->looked++ < STEPS_LISTED)
        tw_claim_append(&g->steps,
                        json_pack("[o,o,o,o,o]", tw_json_count(step), tw_json_count(measured_here),
                                  tw_json_count(unmeasured_here), tw_json_count(outside_here),
                                  tw_claim_share(j->worst_of_step)));
    return 0;
}

/* Are the hashes of both steps known, and equal? Then there is nothing to judge. */
static bool known_equal(const struct tw_steps *a, size_t i, const struct tw_steps *b, size_t k)
{
    return i < a->n && k < b->n && a->step[i].known && b->step[k].known &&
           a->step[i].hash == b->step[k].hash;
}

/* The last step that is judged, as a counts it. Where both end after the same step, what follows it
 * is judged, too. */
static int64_t last_judged(const struct tw_cmp *c, const struct tw_scan *s,
                           const struct tw_steps *a, const struct tw_steps *b)
{
    int64_t end_a = (int64_t)a->n;
    int64_t end_b = (int64_t)b->n - s->shift;
    int64_t last = end_a < end_b ? end_a : end_b;
    if (end_a != end_b)
        last--;
    if (c->o->steps_given && last >= (int64_t)c->o->steps)
        last = (int64_t)c->o->steps - 1;
    return last < (int64_t)s->step ? (int64_t)s->step : last;
}

/* What the user leaves out, as the claim lists it. */
static json_t *ignored(const struct tw_cmp *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->o->ignore_count; i++)
        tw_claim_append(&list, tw_json_text(c->o->ignore[i]));
    return list;
}

/* Claims what of this pair was judged: the sums of all pairs less what they were before it. */
static void claim_judged(struct judge *g, int64_t last, bool inside)
{
    const struct tw_judged *j = g->j;
    json_t *claim = tw_claim_process(g->c, g->s->pair);
    tw_claim_put(&claim, "shift", json_integer((json_int_t)g->s->shift));
    tw_claim_put(&claim, "ignore", ignored(g->c));
    tw_claim_put(&claim, "first", tw_json_count(g->s->step));
    tw_claim_put(&claim, "last", tw_json_count((uint64_t)last));
    tw_claim_put(&claim, "inside", json_boolean(inside));
    tw_claim_put(&claim, "differing", tw_json_count(g->looked));
    tw_claim_put(&claim, "measured", tw_json_count(j->measured - g->measured));
    tw_claim_put(&claim, "unmeasured", tw_json_count(j->unmeasured - g->unmeasured));
    tw_claim_put(&claim, "outside", tw_json_count(j->outside_rows - g->outside));
    tw_claim_put(&claim, "unknown", tw_json_count(j->unknown_steps - g->unknown));
    tw_claim_put(&claim, "steps", g->steps);
    tw_claim_add(g->c, "tolerance", claim);
}

int tw_tolerance_judge(struct tw_cmp *c, struct tw_scan *s, struct twin_error *err)
{
    struct tw_judged *j = c->judged;
    struct judge g = {
        c, s, j, json_array(), 0, j->measured, j->unmeasured, j->outside_rows, j->unknown_steps};
    struct tw_steps ta = {0}, tb = {0};
    int rc = tw_steps_load(c, s->pair->a, s->step, &ta, err);
    if (rc == 0)
        rc = tw_steps_load(c, s->pair->b, tw_found_in_b(s), &tb, err);
    int64_t last = last_judged(c, s, &ta, &tb), step = s->step;
    uint64_t budget = tw_judge_limit;
    for (; rc == 0 && !j->outside && step <= last; step++) {
        /* between other numbers of ranks the hash of a step says nothing: of weights that are cut
         * it has one rank's parts */
        if (!s->weights_only && known_equal(&ta, (size_t)step, &tb, (size_t)(step + s->shift)))
            continue;
        if (budget-- == 0) {
            tw_judged_unknown(c, j,
                              tw_cmp_text(c, "from step %lld on, after %llu differing steps, none",
                                          (long long)step, (unsigned long long)tw_judge_limit));
            break;
        }
        rc = judge_step(&g, (uint32_t)step, err);
    }
    const bool inside = rc == 0 && !j->outside && j->unmeasured == g.unmeasured &&
                        j->unknown_steps == g.unknown;
    claim_judged(&g, step - 1, inside);
    tw_steps_free(&ta);
    tw_steps_free(&tb);
    return rc;
}
