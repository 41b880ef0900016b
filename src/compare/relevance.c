/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which differences of a step count. scan.c calls tw_drop_idle() for each step that it
 * decodes, and tw_only_insertions() for steps of arms.
 *
 * A generator's state means nothing until somebody draws from it, so a state that nobody uses is
 * taken out, and so is the first one, where the job sets another before anything that was drawn is
 * seen. And of two arms that ought to compute the same, one may look in between (evaluate, save)
 * where the other does not, as long as nothing that both computed is touched by it.
 */
#include "internal.h"

#include <string.h>

/*
 * What is_idle() needs: the views of the step and those of the step before, which show whether a
 * state moved. dropped counts the differences that were taken out.
 */
struct idle {
    struct tw_cmp *c;
    const struct tw_view *a, *b, *before_a, *before_b;
    const struct tw_stepdiff *d;
    bool torch_counts;
    bool only_states; /* nothing but states of generators differs in the step */
    size_t dropped;
};

/*
 * Did the state of this generator move in the step, or did a record name who drew from it? `before`
 * is the view of the step before, empty for step 0.
 */
static bool generator_moved(const struct tw_view *before, const struct tw_view *now,
                            const char *name)
{
    const struct tw_rec *last = NULL;
    for (size_t i = 0; i < before->count; i++)
        if (before->rec[i].kind == TWIN_KIND_STATE &&
            strcmp(tw_rec_name(before, &before->rec[i]), name) == 0)
            last = &before->rec[i];
    for (size_t i = 0; i < now->count; i++) {
        const struct tw_rec *r = &now->rec[i];
        if (r->kind != TWIN_KIND_STATE || strcmp(tw_rec_name(now, r), name) != 0)
            continue;
        if (tw_rec_op(now, r)[0] ||
            (last && (last->digest.a != r->digest.a || last->digest.b != r->digest.b)))
            return true;
        last = r;
    }
    return false;
}

/* Did the state move, with no record that names who drew from it? */
static bool moved_silently(const struct tw_view *before, const struct tw_view *now,
                           const char *name)
{
    for (size_t i = 0; i < now->count; i++)
        if (now->rec[i].kind == TWIN_KIND_STATE && tw_rec_op(now, &now->rec[i])[0] &&
            strcmp(tw_rec_name(now, &now->rec[i]), name) == 0)
            return false;
    return generator_moved(before, now, name);
}

/*
 * Did anything that both arms did draw from it? Draws of one arm alone have no counterpart; they
 * are insertions.
 */
static bool drawn_by_both(const struct idle *idle, const char *name)
{
    for (size_t i = 0; i < idle->a->count; i++) {
        const struct tw_rec *r = &idle->a->rec[i];
        if (r->kind == TWIN_KIND_STATE && idle->d->to_b[i] != TW_NONE && tw_rec_op(idle->a, r)[0] &&
            strcmp(tw_rec_name(idle->a, r), name) == 0)
            return true;
    }
    return false;
}

/*
 * Was this generator drawn from, so that its state counts? Between two runs of one command a move
 * in either of them is enough. Between arms a generator that moved in one of them alone is one that
 * this arm drew from in between; one that moved in both was drawn from by something that both do,
 * though nothing said so.
 */
static bool drawn_from(const struct idle *idle, const char *name)
{
    if (!idle->c->o->arms)
        return generator_moved(idle->before_a, idle->a, name) ||
               generator_moved(idle->before_b, idle->b, name);
    return drawn_by_both(idle, name) || (moved_silently(idle->before_a, idle->a, name) &&
                                         moved_silently(idle->before_b, idle->b, name));
}

/* The last record of this generator's state in a view; NULL: none. */
static const struct tw_rec *last_state(const struct tw_view *v, const char *name)
{
    for (size_t i = v->count; i-- > 0;)
        if (v->rec[i].kind == TWIN_KIND_STATE && strcmp(tw_rec_name(v, &v->rec[i]), name) == 0)
            return &v->rec[i];
    return NULL;
}

/*
 * Of the state with which the agent found a generator, before its first step (phase init, by nobody
 * and nowhere): what it recorded of it next, if user code had moved it until then; else NULL.
 */
static const struct tw_rec *moved_from_start(const struct tw_view *v, size_t i)
{
    const struct tw_rec *r = &v->rec[i];
    const char *name = tw_rec_name(v, r);
    if (r->phase != TWIN_PHASE_INIT || tw_rec_op(v, r)[0] || tw_rec_scope(v, r)[0])
        return NULL;
    while (++i < v->count) {
        const struct tw_rec *next = &v->rec[i];
        if (next->kind != TWIN_KIND_STATE || strcmp(tw_rec_name(v, next), name) != 0)
            continue;
        const bool by_code = next->phase == TWIN_PHASE_RNG &&
                             strcmp(tw_rec_op(v, next), "user code") == 0 &&
                             next->thread == r->thread;
        return by_code && !(next->flags & TWIN_REC_UNOBSERVED) ? next : NULL;
    }
    return NULL;
}

/*
 * Do the runs find this generator in two states, and agree from the next one on, and in all else
 * that the step recorded? So it is where a job seeds, or restores a state, behind its first record.
 * What it drew before that would show in what else it recorded.
 */
static bool is_set_again(const struct idle *idle, const struct tw_diff *d)
{
    if (idle->c->states_given || !idle->only_states)
        return false;
    const struct tw_rec *a = moved_from_start(idle->a, d->a);
    const struct tw_rec *b = moved_from_start(idle->b, d->b);
    return a && b && a->content == b->content && a->digest.a == b->digest.a &&
           a->digest.b == b->digest.b;
}

/*
 * Did the states differ at the end of the step before? Then that was told, or counted, in an
 * earlier step.
 */
static bool differed_before(const struct idle *idle, const char *name)
{
    const struct tw_rec *a = last_state(idle->before_a, name);
    const struct tw_rec *b = last_state(idle->before_b, name);
    return a && b && (a->digest.a != b->digest.a || a->digest.b != b->digest.b);
}

/* Does the step hold the state with which the agent found this generator? */
static bool found_here(const struct tw_view *v, const char *name)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->rec[i].phase == TWIN_PHASE_INIT && v->rec[i].kind == TWIN_KIND_STATE &&
            strcmp(tw_rec_name(v, &v->rec[i]), name) == 0)
            return true;
    return false;
}

/* The note on a state that is taken out. Of the time before the first look at a generator nothing
 * is known: origin.c asks what may have been drawn from it then. */
static const char *note_for(const struct tw_view *v, const char *name, bool set)
{
    if (set)
        return "generator %s differs at the start, and agrees after user code moved it, as all "
               "else of that step does: not counted";
    if (found_here(v, name))
        return "generator %s differs at the start, too: whether something drew from it before that "
               "is not known, and nothing was seen to since: not counted";
    return "generator %s differs too, but nothing was seen to draw from it: not counted";
}

/*
 * For tw_stepdiff_drop(): is this difference the state of a generator that nobody draws from?
 * Python seeds its generators from the system's entropy, so their states differ in all runs and
 * mean nothing until drawn from. A state that was recorded in one run alone is never idle.
 */
static bool is_idle(const struct tw_diff *d, void *user)
{
    struct idle *idle = user;
    if (d->a == TW_NONE || d->b == TW_NONE)
        return false;
    const struct tw_rec *r = &idle->a->rec[d->a];
    const char *name = tw_rec_name(idle->a, r);
    if (r->kind != TWIN_KIND_STATE || d->type != TWIN_FINDING_VALUE)
        return false;
    if (idle->torch_counts && tw_starts(name, "torch"))
        return false;
    const bool set = is_set_again(idle, d);
    if (!set && drawn_from(idle, name))
        return false;
    if (idle->a->dropped + idle->b->dropped + idle->before_a->dropped + idle->before_b->dropped > 0)
        tw_cmp_unseen(idle->c,
                      "whether something drew from generator %s before or in step %u, where "
                      "records were dropped",
                      name, r->step);
    /* In a zoom pair nobody is told: what the verdict says of generators is about the runs. */
    if (!idle->c->o->arms && !idle->c->zoom[0] && !differed_before(idle, name))
        tw_cmp_note(idle->c, note_for(idle->a, name, set), name);
    idle->dropped++;
    return true;
}

/*
 * The steps before are loaded only when some generator's state differs. Where initial weights
 * differ, torch's generators count always, since those weights may have been drawn from them.
 * Returns 0 or an error of loading.
 */
int tw_drop_idle(struct tw_cmp *c, const struct tw_view *va, const struct tw_view *vb,
                 bool torch_counts, struct tw_stepdiff *d, size_t *dropped, struct twin_error *err)
{
    struct tw_view before_a = {0}, before_b = {0};
    struct idle idle = {.c = c,
                        .a = va,
                        .b = vb,
                        .before_a = &before_a,
                        .before_b = &before_b,
                        .d = d,
                        .torch_counts = torch_counts,
                        .only_states = true};
    bool states = false;
    int rc = 0;
    *dropped = 0;
    for (size_t i = 0; i < d->count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d->d[i], va, vb, &v);
        states |= r->kind == TWIN_KIND_STATE && d->d[i].type == TWIN_FINDING_VALUE;
        idle.only_states &= r->kind == TWIN_KIND_STATE;
        idle.torch_counts |= r->phase == TWIN_PHASE_INIT && r->kind == TWIN_KIND_WEIGHT;
    }
    if (!states)
        return 0;
    uint32_t step_a = va->count ? va->rec[0].step : 0, step_b = vb->count ? vb->rec[0].step : 0;
    if (step_a > 0)
        rc = tw_view_load(c, va->proc, step_a - 1, step_a - 1, &before_a, err);
    if (rc == 0 && step_b > 0)
        rc = tw_view_load(c, vb->proc, step_b - 1, step_b - 1, &before_b, err);
    if (rc == 0)
        tw_stepdiff_drop(d, is_idle, &idle);
    *dropped = idle.dropped;
    tw_view_free(&before_a);
    tw_view_free(&before_b);
    return rc;
}

/* ---- arms: what only one of them recorded */

/*
 * Is the record of a kind that an evaluation, a checkpoint or a look at a value may add? A gradient
 * or a weight more is another training.
 */
static bool may_be_inserted(const struct tw_rec *r)
{
    /* evaluated with other weights, and written back: what both compute tells whether it was */
    if (tw_is_written(r->phase, r->kind))
        return true;
    switch (r->kind) {
    case TWIN_KIND_STATE:
    case TWIN_KIND_BATCH:
    case TWIN_KIND_INDICES:
    case TWIN_KIND_ACTIVATION:
    case TWIN_KIND_LOSS:
    case TWIN_KIND_FILE:
    case TWIN_KIND_VALUE:
    case TWIN_KIND_IN:
    case TWIN_KIND_OUT: return r->phase != TWIN_PHASE_INIT && r->phase != TWIN_PHASE_COLLECTIVE;
    default: return false;
    }
}

/*
 * tail: the records come after the last finished step, where nothing needs to be left that both
 * computed.
 */
bool tw_only_insertions(const struct tw_view *a, const struct tw_view *b,
                        const struct tw_stepdiff *d, bool tail)
{
    bool trained = false;
    for (size_t i = 0; i < d->count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d->d[i], a, b, &v);
        bool both = d->d[i].a != TW_NONE && d->d[i].b != TW_NONE;
        /* a generator shows in what is made with it */
        if (!tw_diff_significant(&d->d[i]) || (both && r->kind == TWIN_KIND_STATE))
            continue;
        if (both || !may_be_inserted(r))
            return false;
    }
    /* something that both computed must be left to agree on */
    for (size_t i = 0; i < a->count && !trained; i++)
        trained = d->to_b[i] != TW_NONE && a->rec[i].kind != TWIN_KIND_STATE &&
                  a->rec[i].kind != TWIN_KIND_BATCH && a->rec[i].kind != TWIN_KIND_INDICES &&
                  a->rec[i].kind != TWIN_KIND_HYPER;
    return trained || tail;
}
