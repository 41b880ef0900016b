/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts two views of a step side by side and lists what differs. match.c says which record
 * corresponds to which; what differs between counterparts, and what has none, becomes a list of
 * struct tw_diff in the order in which the reference ran. scan.c and judge.c work on that list.
 * Differences that --ignore names are counted and left out.
 */
#include "match.h"
#include "scan.h"

#include <assert.h>
#include <stdlib.h>

/* Adds a difference, unless --ignore names its record (r of view v). */
static void push_diff(struct tw_cmp *c, struct tw_stepdiff *out, struct tw_diff d,
                      const struct tw_view *v, const struct tw_rec *r)
{
    if (c->o->ignore_count && tw_cmp_ignored(c, r->phase, r->kind, tw_rec_name(v, r))) {
        out->ignored++;
        return;
    }
    if (!tw_cmp_room(c, &out->d, out->count, &out->room, sizeof *out->d))
        return;
    out->order += d.type == TWIN_FINDING_ORDER;
    out->d[out->count++] = d;
}

/* Order of differences: by place, and of b's own records at one place by their order in b. */
static int by_position(const void *x, const void *y)
{
    const struct tw_diff *a = x, *b = y;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->b < b->b ? -1 : a->b > b->b;
}

/*
 * Indices from which on records that exist on one side only are no findings, because the other side
 * is unknown there: behind the end of an unfinished trace, or anywhere in a step with dropped
 * records.
 */
struct horizon {
    size_t a, b;
};

/*
 * to_b: the counterparts of a's records. Up to its last matched record an unfinished view is known.
 */
static struct horizon horizon_of(const struct tw_view *a, const struct tw_view *b,
                                 const size_t *to_b)
{
    struct horizon h = {a->count, b->count};
    size_t last_a = 0, last_b = 0;
    for (size_t i = 0; i < a->count; i++)
        if (to_b[i] != TW_NONE) {
            last_a = i + 1;
            last_b = to_b[i] + 1 > last_b ? to_b[i] + 1 : last_b;
        }
    if (b->partial)
        h.a = last_a;
    if (a->partial)
        h.b = last_b;
    if (b->dropped)
        h.a = 0;
    if (a->dropped)
        h.b = 0;
    return h;
}

/*
 * Fills out->d, sorted. `at` is the place of a difference: record i of a has 2 * (i + 1), and a
 * record that only b has lies between, at the odd place behind the last matched record of a before
 * it.
 */
static void list_differences(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                             const size_t *to_a, const bool *moved, struct tw_stepdiff *out)
{
    struct horizon h = horizon_of(a, b, out->to_b);
    for (size_t i = 0; i < a->count; i++) {
        const struct tw_rec *x = &a->rec[i];
        size_t j = out->to_b[i];
        struct tw_diff d = {.type = TWIN_FINDING_ONLY_A, .a = i, .b = j, .at = 2 * (i + 1)};
        if (j == TW_NONE) {
            if (tw_part_elsewhere(a, x, b))
                out->elsewhere++;
            else if (i < h.a)
                push_diff(c, out, d, a, x);
            continue;
        }
        const struct tw_rec *y = &b->rec[j];
        if (x->content == y->content &&
            (x->flags & TWIN_REC_UNOBSERVED) == (y->flags & TWIN_REC_UNOBSERVED)) {
            out->equal++;
            out->renumbered += x->occurrence != y->occurrence;
            if (!moved[i])
                continue;
            d.type = TWIN_FINDING_ORDER;
        } else if (x->kind == TWIN_KIND_ORDER && y->kind == TWIN_KIND_ORDER) {
            out->reordered++;
            continue;
        } else if (x->layout_hash != y->layout_hash) {
            d.type = TWIN_FINDING_LAYOUT;
        } else if ((x->flags | y->flags) & TWIN_REC_UNOBSERVED) {
            out->unread++; /* in one of the two it could not be read: unknown */
            continue;
        } else if (tw_number_left_out(c, a, x, b, y)) {
            out->ignored++;
            out->numbers++;
            continue;
        } else {
            d.type = TWIN_FINDING_VALUE;
        }
        push_diff(c, out, d, a, x);
    }
    /*
     * The place in a behind the last matched record; those that moved do not count, since they
     * stand elsewhere.
     */
    size_t before = 0; /* position behind the last matched record of a */
    for (size_t j = 0; j < b->count; j++) {
        if (to_a[j] != TW_NONE) {
            before = moved[to_a[j]] ? before : to_a[j] + 1;
        } else if (tw_part_elsewhere(b, &b->rec[j], a)) {
            out->elsewhere++;
        } else if (j < h.b) {
            push_diff(c, out,
                      (struct tw_diff){
                          .type = TWIN_FINDING_ONLY_B, .a = TW_NONE, .b = j, .at = 2 * before + 1},
                      b, &b->rec[j]);
        }
    }
    if (out->count)
        qsort(out->d, out->count, sizeof *out->d, by_position);
}

/*
 * out takes over the table of counterparts. Returns 0 or TWIN_ENOMEM, which is noted in c->oom,
 * too.
 */
int tw_stepdiff_make(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                     struct tw_stepdiff *out)
{
    struct tw_match m;
    *out = (struct tw_stepdiff){0};
    int rc = tw_match_init(&m, a->count, b->count);
    if (rc == 0)
        rc = tw_match_records(c, a, b, &m);
    if (rc == 0) {
        out->to_b = m.to_b;
        out->schedule = m.schedule;
        out->unnumbered = m.unnumbered;
        list_differences(c, a, b, m.to_a, m.moved, out);
        m.to_b = NULL; /* it is out's now */
    }
    c->oom |= rc == TWIN_ENOMEM;
    tw_match_fini(&m);
    return rc;
}

void tw_stepdiff_free(struct tw_stepdiff *d)
{
    tw_free(d->d);
    tw_free(d->to_b);
    *d = (struct tw_stepdiff){0};
}

void tw_stepdiff_drop(struct tw_stepdiff *d, bool (*drop)(const struct tw_diff *, void *),
                      void *user)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (drop(&d->d[i], user))
            d->order -= d->d[i].type == TWIN_FINDING_ORDER;
        else
            d->d[kept++] = d->d[i];
    }
    d->count = kept;
}

const struct tw_rec *tw_diff_rec(const struct tw_diff *d, const struct tw_view *a,
                                 const struct tw_view *b, const struct tw_view **view)
{
    assert(d->a != TW_NONE || d->b != TW_NONE);
    assert(d->a == TW_NONE ? d->b < b->count : d->a < a->count);
    *view = d->a != TW_NONE ? a : b;
    return d->a != TW_NONE ? &a->rec[d->a] : &b->rec[d->b];
}

bool tw_diff_significant(const struct tw_diff *d)
{
    return d->type != TWIN_FINDING_ORDER;
}
