/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of the ranks that differ, which did so by itself, and which only took it from another one.
 *
 * Each rank has a first record that differs (scan.c): all that it had taken before was equal. Where
 * that record is no message and no result of a collective, nothing that was recorded brought it:
 * it belongs to the frontier. Where it is one, what was given for it is looked up, in both runs:
 * when that differs, too, the rank is a carrier, whatever step it counts. What belongs to the
 * frontier is put into causal order (vector_order.h), in both runs, and what comes first in it is
 * named; only where that order is silent do steps and the flow of a step decide.
 *
 * What is not known never makes a carrier: where records are missing, several threads exchange
 * messages, or what was given is not found, the rank stays a candidate, and the verdict says why.
 */
#include "frontier.h"

#include "phrase.h"
#include "scan.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_AROUND = 64 }; /* steps before and behind the first differences that are looked at */

const char *twin_rank_place_name(enum twin_rank_place p)
{
    static const char *const names[] = {"first", "frontier", "carried", "unknown"};
    return (size_t)p < sizeof names / sizeof names[0] ? names[p] : "?";
}

/* ---- carried, or not */

static bool is_taken(const struct twin_finding *f)
{
    return f->phase == TWIN_PHASE_COLLECTIVE &&
           (f->kind == TWIN_KIND_OUT || f->kind == TWIN_KIND_MATCH);
}

static bool contents_differ(const struct tw_exchange *x, const struct tw_exchange *y)
{
    return x->read && y->read && !tw_same_contents(x, y);
}

/* A message: what was sent is what arrived, in both runs, and differs between them. */
static bool message_carried(struct frontier *w, struct differing *d)
{
    const int32_t from = w->side[0].x.channel[d->taken[0]->channel].from;
    if (from != w->side[1].x.channel[d->taken[1]->channel].from || from < 0 || from >= w->ranks ||
        !w->talker_of_rank[from])
        return false;
    d->from = w->talker_of_rank[from] - 1;
    for (int side = 0; side < 2; side++) {
        tw_exchange_given(w->c, &w->side[side], d->taken[side], w->given[side]);
        d->given[side] = w->given[side][d->from].first;
        if (!d->given[side] || !tw_same_contents(d->given[side], d->taken[side]))
            return false;
    }
    return contents_differ(d->given[0], d->given[1]);
}

/* A call: somebody gave something else to it. The first rank that did is named. */
static void judge_call(struct frontier *w, const struct differing *d)
{
    struct judged_call *k = &w->call;
    *k = (struct judged_call){
        .taken = {d->taken[0], d->taken[1]}, .from = SIZE_MAX, .equal = true, .any = true};
    tw_exchange_given(w->c, &w->side[0], d->taken[0], w->given[0]);
    tw_exchange_given(w->c, &w->side[1], d->taken[1], w->given[1]);
    size_t givers = 0;
    for (size_t t = 0; t < w->side[0].x.talkers; t++) {
        const struct given *x = &w->given[0][t], *y = &w->given[1][t];
        if (!x->first && !y->first)
            continue;
        givers++;
        const bool known = x->first && y->first && x->read && y->read;
        k->equal &= known && x->contents == y->contents;
        if (known && x->contents != y->contents && k->from == SIZE_MAX) {
            k->from = t;
            k->given[0] = x->first;
            k->given[1] = y->first;
        }
    }
    k->equal &= givers > 0;
}

/* The ranks that took something of one call are judged by it together. */
static bool call_carried(struct frontier *w, struct differing *d, bool *equal)
{
    const struct tw_channel *k = &w->side[0].x.channel[d->taken[0]->channel];
    const struct tw_channel *l = &w->side[1].x.channel[d->taken[1]->channel];
    *equal = false;
    if (!d->taken[0]->sure || !d->taken[1]->sure || strcmp(k->key, l->key) != 0)
        return false;
    bool known = w->call.any;
    for (int side = 0; known && side < 2; side++)
        known = w->call.taken[side]->channel == d->taken[side]->channel &&
                w->call.taken[side]->number == d->taken[side]->number;
    if (!known)
        judge_call(w, d);
    *equal = w->call.equal;
    if (w->call.from == SIZE_MAX)
        return false;
    d->from = w->call.from;
    d->given[0] = w->call.given[0];
    d->given[1] = w->call.given[1];
    return true;
}

/* One rank: all that it took until its first difference was equal. What it took first that
 * differs, was it given so? */
static void judge_one(struct frontier *w, struct differing *d)
{
    bool equal = false;
    if (!is_taken(d->f))
        return;
    d->open = true;
    for (int side = 0; side < 2; side++) {
        const struct tw_talker *t = &w->side[side].x.talker[d->talker];
        d->taken[side] = t->why || !t->seq ? NULL : tw_exchange_at(t, t->step, t->seq);
    }
    if (!d->taken[0] || !d->taken[1] || d->f->type != TWIN_FINDING_VALUE ||
        d->taken[0]->act != TW_ACT_TAKE || d->taken[1]->act != TW_ACT_TAKE)
        return;
    if (w->side[0].x.channel[d->taken[0]->channel].message)
        d->carried = message_carried(w, d);
    else
        d->carried = call_carried(w, d, &equal);
    d->open = !d->carried && !equal;
}

static struct differing *of_talker(struct frontier *w, size_t talker)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->d[i].talker == talker)
            return &w->d[i];
    return NULL;
}

/* Who was carried to leads back to one who was not: else they lead to each other in a circle, and
 * nothing is known of them. And who gives something else differs itself, not later than that. */
static void check_chains(struct frontier *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct differing *d = &w->d[i];
        size_t length = 0;
        while (d && d->carried && length++ <= w->n) {
            const struct differing *o = of_talker(w, d->from);
            d = o && o->f->step_a <= d->given[0]->step && o->f->step_b <= d->given[1]->step ? o
                                                                                            : NULL;
        }
        if (!d || d->carried)
            w->d[i].open = true;
    }
    for (size_t i = 0; i < w->n; i++)
        if (w->d[i].carried && w->d[i].open) {
            w->d[i].carried = false;
            tw_frontier_why(w, tw_cmp_text(w->c,
                                           "what rank %d took came from a rank of which no earlier "
                                           "difference is known",
                                           w->d[i].scan->pair->a->rank));
        }
}

/* ---- how much is known */

/* Gradients that are reduced from C++ (DDP) pass between ranks without a record of it. */
static bool reduces_unseen(const struct tw_proc *p)
{
    for (uint32_t id = 1;; id++) {
        const struct twin_series *s = twin_trace_series(p->trace, id);
        if (s->name == 0)
            return false;
        if (s->kind == TWIN_KIND_GRADIENT_LOCAL)
            return true;
    }
}

/* Parts of tensors that are cut over ranks (DTensor) pass between them without one, too. */
static bool passes_parts(const struct tw_proc *p)
{
    const char *key, *value;
    for (size_t i = 0; twin_trace_note(p->trace, i, &key, &value); i++)
        if (strcmp(key, "shard") == 0)
            return true;
    return false;
}

static void look_for_doubts(struct frontier *w, int32_t world)
{
    if ((int32_t)w->side[0].x.talkers != world)
        tw_frontier_why(w, tw_cmp_text(w->c, "not every rank has a trace"));
    for (int side = 0; side < 2; side++)
        for (size_t t = 0; t < w->side[side].x.talkers; t++) {
            const struct tw_talker *talker = &w->side[side].x.talker[t];
            const char *run = side ? w->c->label_b : w->c->label_a;
            const int32_t rank = talker->proc->rank;
            if (talker->why)
                tw_frontier_why(w, tw_cmp_text(w->c, "rank %d of %s: %s", rank, run, talker->why));
            else if (talker->unfollowed)
                tw_frontier_why(
                    w, tw_cmp_text(w->c, "the order of %.100s is not followed (rank %d of %s)",
                                   talker->unfollowed, rank, run));
            else if (talker->cut)
                tw_frontier_why(w, tw_cmp_text(w->c,
                                               "rank %d of %s has more of them than are looked at",
                                               rank, run));
            else if (talker->seq && !talker->asked_in_order)
                tw_frontier_why(w,
                                tw_cmp_text(w->c,
                                            "what differs on rank %d of %s was recorded by another "
                                            "thread than its messages",
                                            rank, run));
            else if (reduces_unseen(talker->proc))
                tw_frontier_why(
                    w, tw_cmp_text(w->c, "gradients are reduced by calls that are not recorded"));
            else if (passes_parts(talker->proc))
                tw_frontier_why(w, tw_cmp_text(w->c, "parts of tensors pass between ranks by calls "
                                                     "that are not recorded"));
        }
    for (size_t i = 0; i < w->n; i++)
        if (w->d[i].open)
            tw_frontier_why(w, tw_cmp_text(w->c,
                                           "what rank %d took in step %u was not found with who "
                                           "gave it",
                                           w->d[i].scan->pair->a->rank, w->d[i].f->step_a));
}

/* ---- putting it together */

/* Ranks by their traces: one trainer a rank. False: some rank has several, or no memory. */
static bool take_ranks(struct frontier *w, struct tw_scan *scans, size_t n, int32_t world,
                       bool *memory)
{
    struct tw_talker *a = tw_calloc(n + 1, sizeof *a), *b = tw_calloc(n + 1, sizeof *b);
    w->talker_of_rank = world > 0 && world < 1 << 24
                            ? tw_calloc((size_t)world + 1, sizeof *w->talker_of_rank)
                            : NULL;
    w->d = tw_calloc(n + 1, sizeof *w->d);
    w->ranks = world;
    w->side[0].x.talker = a;
    w->side[1].x.talker = b;
    *memory = a && b && w->talker_of_rank && w->d;
    for (size_t i = 0; *memory && i < n; i++) {
        const struct tw_pair *p = scans[i].pair;
        if (p->auxiliary)
            continue;
        const int32_t rank = p->a->rank;
        if (rank < 0 || rank >= world || w->talker_of_rank[rank] || rank != p->b->own_rank ||
            scans[i].weights_only)
            return false;
        const size_t t = w->side[0].x.talkers++;
        w->side[1].x.talkers = t + 1;
        w->talker_of_rank[rank] = t + 1;
        a[t].proc = p->a;
        b[t].proc = p->b;
        if (!scans[i].found || !scans[i].origins.n)
            continue;
        const struct twin_finding *f = &scans[i].origins.f[0];
        a[t].asked = b[t].asked = f;
        a[t].step = f->at_a.step;
        a[t].seq = f->at_a.file[0] ? f->at_a.number : 0;
        b[t].step = f->at_b.step;
        b[t].seq = f->at_b.file[0] ? f->at_b.number : 0;
        w->d[w->n++] = (struct differing){.scan = &scans[i], .f = f, .talker = t};
    }
    return *memory;
}

/* The steps that are looked at in a run: from some before the first of the first differences to
 * some behind the last. Ranks may count steps as they please, hence the room. */
static void steps_of(const struct frontier *w, int side, uint32_t *first, uint32_t *last)
{
    *first = UINT32_MAX;
    *last = 0;
    for (size_t i = 0; i < w->n; i++) {
        const uint32_t step = side ? w->d[i].f->step_b : w->d[i].f->step_a;
        *first = step < *first ? step : *first;
        *last = step > *last ? step : *last;
    }
    *first = *first > STEPS_AROUND ? *first - STEPS_AROUND : 0;
    *last = *last < UINT32_MAX - STEPS_AROUND ? *last + STEPS_AROUND : UINT32_MAX;
}

static bool any_exchange(const struct frontier *w)
{
    for (size_t t = 0; t < w->side[0].x.talkers; t++)
        if (w->side[0].x.talker[t].n || w->side[0].x.talker[t].unfollowed)
            return true;
    return false;
}

/* Reads both runs and judges every rank. *any: there were exchanges. */
static int judge_all_ranks(struct frontier *w, bool *any)
{
    for (int side = 0; side < 2; side++) {
        uint32_t first, last;
        steps_of(w, side, &first, &last);
        int rc = tw_exchanges_read(w->c, &w->side[side].x, first, last);
        if (rc == TWIN_ELIMIT) {
            tw_frontier_why(w,
                            tw_cmp_text(w->c, "their traces hold more than %llu records until then",
                                        (unsigned long long)tw_exchange_records));
            *any = true;
            return 0;
        }
        if (rc != 0 || !tw_match_exchanges(w->c, &w->side[side]))
            return TWIN_ENOMEM;
        w->given[side] = tw_calloc(w->side[side].x.talkers + 1, sizeof *w->given[side]);
        if (!w->given[side])
            return TWIN_ENOMEM;
    }
    *any = any_exchange(w);
    for (size_t i = 0; *any && i < w->n; i++)
        judge_one(w, &w->d[i]);
    check_chains(w);
    return 0;
}

static bool by_steps_before(const struct differing *x, const struct differing *y)
{
    const struct tw_scan *a = x->scan, *b = y->scan;
    if (a->step != b->step)
        return a->step < b->step;
    if (a->cls != b->cls)
        return a->cls < b->cls;
    if (a->turn != b->turn)
        return a->turn < b->turn;
    return a->pair->a->rank < b->pair->a->rank;
}

static int compare_by_steps(const void *x, const void *y, void *user)
{
    const struct frontier *w = user;
    const struct differing *a = &w->d[*(const size_t *)x], *b = &w->d[*(const size_t *)y];
    if (by_steps_before(a, b))
        return -1;
    return by_steps_before(b, a);
}

/* Did all that are not carried come out of one and the same call? Then it is the call's. */
static bool out_of_one_call(const struct frontier *w)
{
    const struct differing *one = NULL;
    for (size_t i = 0; i < w->n; i++) {
        const struct differing *d = &w->d[i];
        if (d->carried)
            continue;
        if (!d->taken[0] || !d->taken[1] || d->open)
            return false;
        if (one && (one->taken[0]->channel != d->taken[0]->channel ||
                    one->taken[0]->number != d->taken[0]->number))
            return false;
        one = d;
    }
    return one != NULL;
}

static bool add_item(struct frontier *w, const struct differing *d, enum twin_rank_place place,
                     struct tw_frontier *out)
{
    struct twin_rank_order *o = out->order;
    struct twin_ranked *r = &o->item[o->count];
    *r = (struct twin_ranked){.place = place,
                              .rank = d->scan->pair->a->rank,
                              .step_a = d->f->step_a,
                              .step_b = d->f->step_b,
                              .kind = d->f->kind,
                              .name = tw_cmp_copy(w->c, d->f->name),
                              .from = -1};
    out->scan[o->count++] = d->scan;
    if (place != TWIN_RANK_CARRIED)
        return r->name != NULL;
    const struct tw_channel *k = &w->side[0].x.channel[d->taken[0]->channel];
    r->from = w->side[0].x.talker[d->from].proc->rank;
    r->from_step = d->given[0]->step;
    r->message = k->message;
    r->by = tw_cmp_copy(w->c, k->name);
    r->scope = tw_cmp_copy(w->c, k->scope);
    r->number_a = d->taken[0]->number;
    r->number_b = d->taken[1]->number;
    return r->name && r->by && r->scope;
}

/* Makes the list: the first, then all others by rank. */
static int list_ranks(struct frontier *w, const struct differing *first, bool any, int32_t world,
                      struct tw_frontier *out)
{
    out->order = tw_calloc(1, sizeof *out->order);
    out->scan = tw_calloc(w->n + 1, sizeof *out->scan);
    if (!out->order || !out->scan)
        return TWIN_ENOMEM;
    struct twin_rank_order *o = out->order;
    /* where all others took it, and this one did not, no doubt can change that */
    bool certain = any && !first->open;
    for (size_t i = 0; certain && i < w->n; i++)
        certain = &w->d[i] == first || w->d[i].carried;
    if (certain) {
        tw_free(w->why);
        w->why = NULL;
    } else if (any) {
        look_for_doubts(w, world);
    } else {
        tw_frontier_why(w, tw_cmp_text(w->c, "no messages or collectives were recorded"));
    }
    *o = (struct twin_rank_order){.ranks = w->side[0].x.talkers,
                                  .exchanges = any,
                                  .known = w->why == NULL,
                                  .why = w->why,
                                  .item = tw_calloc(w->n + 1, sizeof *o->item)};
    w->why = NULL;
    bool room = o->item && add_item(w, first, TWIN_RANK_FIRST, out);
    for (size_t i = 0; room && i < w->n; i++) {
        const struct differing *d = &w->d[i];
        enum twin_rank_place place = o->known ? TWIN_RANK_FRONTIER : TWIN_RANK_UNKNOWN;
        if (d->carried)
            place = TWIN_RANK_CARRIED;
        if (d != first)
            room = add_item(w, d, place, out);
    }
    out->one_call = any && out_of_one_call(w);
    out->first = first->scan;
    return room ? 0 : TWIN_ENOMEM;
}

static void free_frontier(struct frontier *w)
{
    for (int side = 0; side < 2; side++) {
        tw_unmatch_exchanges(&w->side[side]);
        tw_free(w->given[side]);
    }
    tw_free(w->talker_of_rank);
    tw_free(w->d);
    tw_free(w->why);
}

int tw_frontier_make(struct tw_cmp *c, struct tw_scan *scans, size_t n, struct tw_scan *best,
                     int32_t world, struct tw_frontier *out, struct twin_error *err)
{
    struct frontier w = {.c = c};
    struct differing *first = NULL;
    bool memory = true, any = false;
    size_t *by_steps = NULL;
    int rc = 0;
    *out = (struct tw_frontier){.first = NULL};
    if (c->quick || world < 2 || best->pair->auxiliary)
        return 0;
    if (!take_ranks(&w, scans, n, world, &memory) || w.n == 0) {
        rc = memory ? 0 : TWIN_ENOMEM;
        goto out;
    }
    by_steps = tw_calloc(w.n, sizeof *by_steps);
    for (size_t i = 0; by_steps && i < w.n; i++)
        by_steps[i] = i;
    rc = by_steps ? 0 : TWIN_ENOMEM;
    if (rc == 0) {
        qsort_r(by_steps, w.n, sizeof *by_steps, compare_by_steps, &w);
        rc = judge_all_ranks(&w, &any);
    }
    if (rc == 0)
        rc = tw_frontier_choose(&w, by_steps, &first);
    if (rc == 0 && first)
        rc = list_ranks(&w, first, any, world, out);
    out->against_steps = out->first && out->first != best;
out:
    free_frontier(&w);
    tw_free(by_steps);
    return rc == 0 ? 0 : tw_no_memory(err, "ordering the ranks that differ");
}

enum twin_rank_place tw_frontier_place(const struct tw_frontier *f, const struct tw_scan *s)
{
    for (size_t i = 0; f->order && i < f->order->count; i++)
        if (f->scan[i] == s)
            return f->order->item[i].place;
    return TWIN_RANK_UNKNOWN;
}

void tw_rank_order_free(struct twin_rank_order *o)
{
    for (size_t i = 0; o && o->item && i < o->count; i++) {
        tw_free(o->item[i].name);
        tw_free(o->item[i].by);
        tw_free(o->item[i].scope);
    }
    if (o) {
        tw_free(o->item);
        tw_free(o->why);
    }
    tw_free(o);
}

void tw_frontier_free(struct tw_frontier *f)
{
    tw_rank_order_free(f->order);
    tw_free(f->scan);
    *f = (struct tw_frontier){.first = NULL};
}
