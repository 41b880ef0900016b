/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps whose value hashes differ while no record that is stored does: is that a difference?
 */
#include "internal.h"
#include "scan.h"

#include <string.h>

/* The phase whose hashes differ and which comes first in the flow of a step; -1: none. */
static int earliest_phase(const struct twin_step_hash *x, const struct twin_step_hash *y)
{
    int best = -1;
    for (int p = 0; p < TWIN_PHASE_COUNT; p++)
        if ((x->phase[p].lo != y->phase[p].lo || x->phase[p].hi != y->phase[p].hi) &&
            (best < 0 || tw_cause_class((uint8_t)p, 0) < tw_cause_class((uint8_t)best, 0)))
            best = p;
    return best;
}

/*
 * Makes the finding for a step whose value hash proves a difference that no stored record shows: it
 * lies among those whose details were dropped.
 */
static void take_hash_only(struct tw_cmp *c, uint32_t step, uint64_t dropped, struct tw_scan *out)
{
    struct twin_step_hash x, y;
    int phase = 0;
    if (twin_trace_step_hash(out->pair->a->trace, step, &x, NULL) == 0 &&
        twin_trace_step_hash(out->pair->b->trace, (uint32_t)(step + out->shift), &y, NULL) == 0) {
        phase = earliest_phase(&x, &y);
        phase = phase < 0 ? 0 : phase;
    }
    struct twin_finding *f = tw_finding_new(c, TWIN_FINDING_VALUE, (enum twin_phase)phase,
                                            TWIN_KIND_NONE);
    if (!f)
        return;
    f->step_a = step;
    f->step_b = (uint32_t)(step + out->shift);
    f->rank = out->pair->a->rank;
    tw_finding_set(c, &f->process, tw_cmp_copy(c, tw_proc_role(out->pair->a)));
    if (dropped) {
        tw_finding_set(c, &f->name,
                       tw_cmp_text(c, "within %llu dropped records of step %u",
                                   (unsigned long long)dropped, step));
        tw_finding_set(c, &f->text,
                       tw_cmp_copy(c, "proven by the value hash; --lossless keeps the details"));
    } else {
        tw_finding_set(c, &f->name, tw_cmp_text(c, "value hash of step %u", step));
        tw_finding_set(c, &f->text,
                       tw_cmp_copy(c, "proven by the value hash; no record that was read differs"));
    }
    tw_findings_take(c, &out->origins, f);
    out->found = true;
    out->step = step;
    out->cls = tw_cause_class((uint8_t)phase, 0);
    tw_finding_set(c, &out->equal_before, tw_steps_before(c, step, out));
}

/*
 * Do the value hashes of the step differ in more than the states of generators, which may be idle
 * ones? False where one of the hashes is not known.
 */
static bool hashes_prove(const struct tw_scan *s, uint32_t step)
{
    struct twin_step_hash x, y;
    if (twin_trace_step_hash(s->pair->a->trace, step, &x, NULL) != 0 ||
        twin_trace_step_hash(s->pair->b->trace, (uint32_t)(step + s->shift), &y, NULL) != 0)
        return false;
    x.phase[TWIN_PHASE_RNG] = y.phase[TWIN_PHASE_RNG];
    return memcmp(x.phase, y.phase, sizeof x.phase) != 0;
}

/*
 * For a step whose value hashes differ and none of whose stored records does. Where records are
 * missing, what does not count (a generator that nobody draws from, a name that --ignore leaves
 * out, threads in another order, a file called otherwise, an arm's evaluation) may be among them:
 * the hashes prove a difference only where there is nothing of the kind. Else the step is
 * undecided, which is a reason against "same".
 */
void tw_judge_hashes(struct tw_cmp *c, uint32_t step, const struct tw_view *a,
                     const struct tw_view *b, const struct tw_stepdiff *d, struct tw_scan *out)
{
    const uint64_t dropped = a->dropped + b->dropped;
    const size_t known = d->order + d->ignored + d->renumbered + d->schedule + d->unread +
                         d->elsewhere + d->reordered;
    const bool explained = known > 0 || tw_view_renamed(a, b, d);
    bool may_not_count = c->o->ignore_count > 0 || c->o->arms || d->unnumbered > 0;
    /* Names that hold ranks are read by role, and hashes are of what was written. Each record is
     * here. */
    if (out->pair->b->as && dropped == 0)
        return;
    if (explained && dropped == 0)
        return;
    const bool renamed = out->pair->b->as != NULL;
    if (explained || (dropped && (may_not_count || renamed)) || !hashes_prove(out, step)) {
        out->undecided++;
        tw_cmp_unseen(c,
                      "step %u of rank %d: %llu records have no details, so that what differs in "
                      "it is not known",
                      step, out->pair->a->rank, (unsigned long long)dropped);
    } else {
        take_hash_only(c, step, dropped, out);
    }
}
