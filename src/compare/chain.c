/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arms: at which step of arm A each process of arm B begins. Usually that is one place for all of
 * them, found by the weights of the first trainer or given by --b-starts-at. But `train 5 && train
 * 10 --resume` is one arm with two trainers, one after the other: the first is A's beginning, and
 * each later one goes on where its own first weights stand in A.
 */
#include "arms.h"
#include "internal.h"

/* Does the process make steps of its own? */
static bool is_trainer(const struct tw_proc *p)
{
    return p->info->steps > 0 && !tw_proc_is_loader(p);
}

/* The first pair that trains; NULL: none does. */
static const struct tw_pair *main_pair(const struct tw_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pairs[i].a->info->steps > 0 && !pairs[i].auxiliary)
            return &pairs[i];
    return NULL;
}

/* How many trainers of a side have the rank and role of this process. */
static size_t trainers_like(const struct tw_side *side, const struct tw_proc *p)
{
    size_t n = 0;
    for (size_t i = 0; i < side->count; i++)
        n += is_trainer(&side->proc[i]) && tw_proc_alike(&side->proc[i], p);
    return n;
}

/* The last process of its rank and role: where there are several, --b-starts-at means this one. */
static bool is_last(const struct tw_side *side, const struct tw_proc *p)
{
    for (const struct tw_proc *q = p + 1; q < side->proc + side->count; q++)
        if (is_trainer(q) && tw_proc_alike(q, p))
            return false;
    return true;
}

/* How the place was found, or why not, as a note. */
static void say_place(struct tw_cmp *c, const struct tw_place *p)
{
    if (!p->found && p->cut > 0)
        tw_cmp_note(c,
                    "the weights %s starts with are cut over ranks in another way than those of "
                    "%s, so where it goes on was not looked for: compared from step 0; "
                    "--b-starts-at K says otherwise",
                    c->label_b, c->label_a);
    else if (!p->found && p->weights == 0)
        tw_cmp_note(c,
                    "no initial weights were recorded, so where %s goes on from %s was not looked "
                    "for; --b-starts-at K says it",
                    c->label_b, c->label_a);
    else if (!p->found)
        tw_cmp_note(c,
                    "the weights %s starts with are not those after any step of %s; compared from "
                    "step 0; --b-starts-at K says otherwise",
                    c->label_b, c->label_a);
    else if (p->step > 0)
        tw_cmp_note(c, "%s goes on where %s was after step %lld: found by its weights", c->label_b,
                    c->label_a, (long long)p->step - 1);
}

/* B's step 0 is A's step `step`. */
static void place_at(struct tw_pair *p, int64_t step)
{
    p->shift = -step;
    p->resumed = step > 0;
}

/* In A's count, the step behind the last one of the trainers of B that ran before q; 0: there were
 * none. */
static int64_t end_before(const struct tw_pair *pairs, size_t count, const struct tw_proc *q)
{
    int64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t here = (int64_t)pairs[i].b->info->steps - pairs[i].shift;
        if (tw_proc_alike(pairs[i].b, q) && pairs[i].b->ordinal < q->ordinal && here > end)
            end = here;
    }
    return end;
}

/*
 * Looks for the place of a trainer of B that has no counterpart. When its weights have the names of
 * A's and are none that A ever had, it was not resumed as it was left: then it is held against the
 * step behind its predecessor's last one, and the seam shows what it lost. *p->a stays NULL when
 * there is no place.
 */
static int place_later(struct tw_cmp *c, struct tw_side *a, const struct tw_pair *pairs,
                       size_t count, struct tw_proc *q, struct tw_pair *p, struct twin_error *err)
{
    const int64_t expected = end_before(pairs, count, q);
    struct tw_proc *known_in = NULL;
    *p = (struct tw_pair){.b = q};
    for (size_t i = 0; i < a->count; i++) {
        struct tw_proc *x = &a->proc[i];
        struct tw_place place;
        if (!is_trainer(x) || !tw_proc_alike(x, q))
            continue;
        int rc = tw_shift_of(c, &(struct tw_pair){.a = x, .b = q}, &place, err);
        if (rc != 0)
            return rc;
        if (place.known > 0 && expected > 0 && (uint64_t)expected < x->info->steps)
            known_in = x;
        if (!place.found || (p->a && place.step != expected))
            continue;
        p->a = x;
        place_at(p, place.step);
    }
    if (!p->a && known_in) {
        p->a = known_in;
        place_at(p, expected);
        tw_cmp_note(c,
                    "the weights that process %zu of rank %d in %s starts with are not those after "
                    "any step of %s: held against step %lld, where the process before it ended",
                    q->ordinal + 1, q->rank, c->label_b, c->label_a, (long long)expected);
    }
    if (p->a && p->shift == 0)
        tw_cmp_note(
            c, "process %zu of rank %d in %s begins anew, with the weights that %s begins with",
            q->ordinal + 1, q->rank, c->label_b, c->label_a);
    /* one that began anew: no more than what it trained was asked for */
    p->resumed |= p->a != NULL;
    return 0;
}

/* Adds a pair for each trainer of B that has no counterpart and a place in A. */
static int add_later(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, struct tw_pair **pairs,
                     size_t *count, struct twin_error *err)
{
    for (size_t i = 0; i < b->count; i++) {
        struct tw_proc *q = &b->proc[i];
        struct tw_pair later;
        if (q->taken || !is_trainer(q))
            continue;
        int rc = place_later(c, a, *pairs, *count, q, &later, err);
        if (rc != 0)
            return rc;
        if (!later.a)
            continue;
        if (c->o->shift < 0 && !c->o->find_shift && is_last(b, q))
            place_at(&later, -c->o->shift);
        struct tw_pair *grown = tw_reallocarray(*pairs, *count + 1, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "matching processes");
        *pairs = grown;
        grown[(*count)++] = later;
        q->taken = true;
    }
    return 0;
}

/* Which of the trainers of B is taken up by a later one? */
static void mark_continued(const struct tw_cmp *c, struct tw_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tw_pair *p = &pairs[i];
        int64_t end = (int64_t)p->b->info->steps - p->shift;
        if (c->o->steps_given && end > c->o->steps)
            end = c->o->steps;
        for (size_t k = 0; k < count; k++) {
            const struct tw_pair *q = &pairs[k];
            bool later = q->a == p->a && q->b->ordinal > p->b->ordinal;
            p->continued |= later && -q->shift <= end && -q->shift > -p->shift;
        }
    }
}

int tw_chain(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, struct tw_pair **pairs,
             size_t *count, struct tw_place *place, struct twin_error *err)
{
    const struct tw_pair *first = main_pair(*pairs, *count);
    const bool find = c->o->arms && c->o->find_shift;
    int rc = 0;
    *place = (struct tw_place){.step = -c->o->shift};
    if (find && first) {
        rc = tw_shift_of(c, first, place, err);
        if (rc == 0)
            say_place(c, place);
    }
    for (size_t i = 0; rc == 0 && i < *count; i++) {
        struct tw_pair *p = &(*pairs)[i];
        struct tw_place own;
        place_at(p, place->step);
        /* Of several trainers in one arm each may have a place of its own; --b-starts-at means the
         * last. */
        const bool several = is_trainer(p->a) && is_trainer(p->b) && trainers_like(b, p->b) > 1;
        const bool given_elsewhere = !find && place->step > 0 && !is_last(b, p->b);
        if (!several || !(find ? p->a->ordinal > 0 : given_elsewhere))
            continue;
        rc = tw_shift_of(c, p, &own, err);
        if (rc == 0 && (own.found || given_elsewhere))
            place_at(p, own.found ? own.step : 0);
    }
    if (rc != 0 || !c->o->arms || a->world != b->world)
        return rc;
    rc = add_later(c, a, b, pairs, count, err);
    if (rc == 0)
        mark_continued(c, *pairs, *count);
    return rc;
}
