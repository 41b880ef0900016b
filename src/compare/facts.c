/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What explains a divergence in one line, because it is a fact of the runs and no guess: the
 * parameters reached an optimizer in another order; weights lie in memory that several processes
 * train at once; numbers were drawn before any seed was set. The agents note them
 * (python/twinrun/_agent/facts.py, optim.py); here they are laid beside what differs.
 */
#include "internal.h"
#include "printed.h"
#include "scan.h"

#include <string.h>

#define SHOWN 200 /* bytes of a list of names */

/* ---- the order of parameters */

/* The first record of an order that is another one in the other run; false: there is none in this
 * step. */
static bool find_order(const struct tw_view *a, const struct tw_view *b, struct tw_diff *out)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct tw_rec *x = &a->rec[i];
        for (size_t j = 0; x->kind == TWIN_KIND_ORDER && j < b->count; j++) {
            const struct tw_rec *y = &b->rec[j];
            if (y->token != x->token || y->occurrence != x->occurrence || y->content == x->content)
                continue;
            *out = (struct tw_diff){.type = TWIN_FINDING_VALUE, .a = i, .b = j, .at = 2 * (i + 1)};
            return true;
        }
    }
    return false;
}

/* Names the finding before all others, which then follow from it. Takes f. */
static void put_first(struct tw_cmp *c, struct tw_pair_result *r, struct twin_finding *f)
{
    for (size_t i = 0; i < r->origins.n; i++) /* they follow from it */
        r->origins.f[i].role = TWIN_CARRIER;
    size_t before = r->origins.n;
    tw_findings_take(c, &r->origins, f);
    if (r->origins.n == before)
        return;
    struct twin_finding last = r->origins.f[before];
    memmove(r->origins.f + 1, r->origins.f, before * sizeof last);
    r->origins.f[0] = last;
    r->step = last.step_a;
}

/* The two orders, as a note. */
static void say_orders(struct tw_cmp *c, const struct tw_scan *s, bool differs)
{
    const char *a = twin_trace_note_of(s->pair->a->trace, "order"),
               *b = twin_trace_note_of(s->pair->b->trace, "order");
    if (!differs)
        tw_cmp_note(c, "the parameters reach the optimizer in another order; nothing that was "
                       "computed from them differs");
    else if (a && b)
        tw_cmp_note(c,
                    "the parameters reach the optimizer in another order: %.*s in %s, %.*s in %s",
                    SHOWN, a, c->label_a, SHOWN, b, c->label_b);
}

void tw_order_of_parameters(struct tw_cmp *c, const struct tw_scan *s, struct tw_pair_result *r,
                            struct twin_error *err)
{
    struct tw_view a = {0}, b = {0};
    struct tw_diff d;
    uint32_t step = s->reordered_at;
    bool follows = s->found && step <= s->step &&
                   s->cls >= tw_cause_class(TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT);
    if (!s->reordered || c->quick)
        return;
    say_orders(c, s, r->differs);
    if (!follows)
        return; /* what differs first comes before any optimizer */
    int rc = tw_view_load(c, s->pair->a, step, step, &a, err);
    if (rc == 0)
        rc = tw_view_load(c, s->pair->b, (uint32_t)(step + s->shift), (uint32_t)(step + s->shift),
                          &b, err);
    if (rc == 0 && find_order(&a, &b, &d)) {
        struct twin_finding *f = tw_finding_from(c, &d, &a, &b);
        if (f) {
            f->role = TWIN_ORIGIN;
            f->elements = 0; /* of a text: they say nothing */
            tw_finding_set(c, &f->layer, tw_cmp_copy(c, "optimizer"));
        }
        put_first(c, r, f);
    }
    tw_view_free(&a);
    tw_view_free(&b);
}

/* ---- weights that processes share */

/* Does the list of places behind " in " have one that `other` has, too? */
static bool same_place(const char *value, const char *other)
{
    const char *at = strstr(value, " in ");
    for (at = at ? at + 4 : ""; *at; at += *at == ' ') {
        size_t n = strcspn(at, " ");
        for (const char *found = strstr(other, " in "); n > 1 && found && *found;
             found += 1 + strcspn(found + 1, " "))
            if (strncmp(found + 1, at, n) == 0 && (found[1 + n] == ' ' || found[1 + n] == '\0'))
                return true;
        at += n;
    }
    return false;
}

/* How many processes of a run hold weights in the same memory: the largest such group; 0 or 1: none
 * does. */
static size_t sharing(const struct tw_side *side)
{
    size_t most = 0;
    for (size_t i = 0; i < side->count; i++) {
        const char *mine = side->proc[i].info->steps
                               ? twin_trace_note_of(side->proc[i].trace, "weights.shared")
                               : NULL;
        size_t n = mine != NULL;
        for (size_t k = 0; mine && k < side->count; k++) {
            const char *other = k != i && side->proc[k].info->steps
                                    ? twin_trace_note_of(side->proc[k].trace, "weights.shared")
                                    : NULL;
            n += other && same_place(mine, other);
        }
        most = n > most ? n : most;
    }
    return most;
}

/* Whatever is computed of weights that another process writes to at any time was not made of what
 * was seen of them. */
static void no_origin_of_shared(struct tw_cmp *c, struct twin_finding *f, size_t processes)
{
    bool from_outside = tw_is_data(f->phase, f->kind) || f->phase == TWIN_PHASE_RNG ||
                        f->kind == TWIN_KIND_STATE || f->kind == TWIN_KIND_HYPER ||
                        f->kind == TWIN_KIND_ORDER;
    if (f->role != TWIN_ORIGIN || from_outside)
        return;
    tw_finding_between(
        c, f, tw_cmp_text(c, "the memory that %zu processes share", processes),
        tw_cmp_text(c, "%s %.200s of step %u", twin_kind_name(f->kind), f->name, f->step_a));
}

/* Which generators were drawn from before any seed, by whom first, and what sets it. */
static void say_unseeded(struct tw_cmp *c, const struct tw_side *sides, size_t n)
{
    static const struct {
        const char *key, *what, *seed;
    } all[] = {
        {"unseeded", "torch", "torch.manual_seed"},
        {"unseeded.python.random", "random", "random.seed"},
        {"unseeded.numpy", "numpy.random", "numpy.random.seed"},
    };
    for (size_t g = 0; g < sizeof all / sizeof all[0]; g++) {
        const char *first = NULL;
        for (size_t i = 0; i < n && !first; i++)
            for (size_t k = 0; k < sides[i].count && !first; k++)
                first = twin_trace_note_of(sides[i].proc[k].trace, all[g].key);
        if (first)
            tw_cmp_note(c,
                        "%s was drawn from before any seed was set (%s): %s at the start would "
                        "hold that still",
                        all[g].what, first, all[g].seed);
    }
}

void tw_facts(struct tw_cmp *c, const struct tw_side *sides, size_t n)
{
    size_t processes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t here = sharing(&sides[i]);
        processes = here > processes ? here : processes;
    }
    if (processes > 1 && c->v->first)
        no_origin_of_shared(c, c->v->first, processes);
    for (size_t i = 0; processes > 1 && i < c->v->origin_count; i++)
        no_origin_of_shared(c, &c->v->origins[i], processes);
    if (processes > 1)
        tw_cmp_note(c,
                    "the weights lie in memory that %zu processes share and train at once: a data "
                    "race, which no seed holds still",
                    processes);
    say_unseeded(c, sides, n);
}
