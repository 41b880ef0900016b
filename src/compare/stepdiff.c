/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two views side by side. Alignment has two tiers: records that agree in key and contents anchor first, so that a stretch
 * inserted in one run (an evaluation between two steps) does not shift everything after it; between the anchors records
 * are aligned by key. What stays single on both sides with equal contents has only moved.
 */
#include "align.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct sequence { size_t *index; uint64_t *token; size_t n; }; /* the ordered records of a view */

static void sequence_free(struct sequence *s)
{
    tw_free(s->index);
    tw_free(s->token);
}

static bool sequence_make(struct tw_cmp *c, const struct tw_view *v, struct sequence *s)
{
    *s = (struct sequence){.index = tw_reallocarray(NULL, v->count, sizeof *s->index),
                           .token = tw_reallocarray(NULL, v->count, sizeof *s->token)};
    if (!s->index || !s->token) {
        c->oom = true;
        return false;
    }
    for (size_t i = 0; i < v->count; i++)
        if (!(v->rec[i].flags & TWIN_REC_UNORDERED))
            s->index[s->n++] = i;
    return true;
}

static uint64_t anchor_token(const struct tw_rec *r)
{
    return tw_mix64(r->token ^ tw_mix64(r->content));
}

/* Aligns the ordered records: fills to_b (indices in the views). */
static int align_ordered(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b, size_t *to_b)
{
    struct sequence x = {0}, y = {0};
    size_t *anchor = NULL, *inner = NULL;
    int rc = TWIN_ENOMEM;
    if (!sequence_make(c, a, &x) || !sequence_make(c, b, &y))
        goto out;
    anchor = tw_reallocarray(NULL, x.n, sizeof *anchor);
    inner = tw_reallocarray(NULL, x.n, sizeof *inner);
    if (!anchor || !inner)
        goto out;
    for (size_t i = 0; i < x.n; i++)
        x.token[i] = anchor_token(&a->rec[x.index[i]]);
    for (size_t i = 0; i < y.n; i++)
        y.token[i] = anchor_token(&b->rec[y.index[i]]);
    rc = tw_align(x.token, x.n, y.token, y.n, 0, anchor);
    for (size_t i = 0; i < x.n; i++)
        x.token[i] = a->rec[x.index[i]].token;
    for (size_t i = 0; i < y.n; i++)
        y.token[i] = b->rec[y.index[i]].token;
    size_t from_a = 0, from_b = 0;
    for (size_t i = 0; rc == 0 && i <= x.n; i++) { /* one gap before each anchor, and the one behind the last */
        if (i < x.n && anchor[i] == TW_ALIGN_NONE)
            continue;
        size_t end_b = i < x.n ? anchor[i] : y.n;
        rc = tw_align(x.token + from_a, i - from_a, y.token + from_b, end_b - from_b, 0, inner);
        for (size_t k = from_a; rc == 0 && k < i; k++)
            if (inner[k - from_a] != TW_ALIGN_NONE)
                to_b[x.index[k]] = y.index[from_b + inner[k - from_a]];
        if (i < x.n)
            to_b[x.index[i]] = y.index[end_b];
        from_a = i + 1;
        from_b = end_b + 1;
    }
out:
    c->oom |= rc == TWIN_ENOMEM;
    sequence_free(&x);
    sequence_free(&y);
    tw_free(anchor);
    tw_free(inner);
    return rc;
}

struct entry { uint64_t hash; size_t index; };

static int by_hash(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Matches the records that are still single, in sequence order, by contents and then by key alone. */
static int match_leftovers(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b, size_t *to_b, size_t *to_a)
{
    struct entry *x = tw_reallocarray(NULL, a->count, sizeof *x), *y = tw_reallocarray(NULL, b->count, sizeof *y);
    for (int tier = 0; x && y && tier < 2; tier++) {
        size_t n = 0, m = 0;
        for (size_t i = 0; i < a->count; i++)
            if (to_b[i] == TW_NONE)
                x[n++] = (struct entry){tier == 0 ? anchor_token(&a->rec[i]) : a->rec[i].token, i};
        for (size_t i = 0; i < b->count; i++)
            if (to_a[i] == TW_NONE)
                y[m++] = (struct entry){tier == 0 ? anchor_token(&b->rec[i]) : b->rec[i].token, i};
        if (n == 0 || m == 0)
            break;
        qsort(x, n, sizeof *x, by_hash);
        qsort(y, m, sizeof *y, by_hash);
        for (size_t i = 0, j = 0; i < n && j < m;) {
            if (x[i].hash == y[j].hash) {
                to_b[x[i].index] = y[j].index;
                to_a[y[j++].index] = x[i++].index;
            } else if (x[i].hash < y[j].hash) {
                i++;
            } else {
                j++;
            }
        }
    }
    c->oom |= !x || !y;
    int rc = x && y ? 0 : TWIN_ENOMEM;
    tw_free(x);
    tw_free(y);
    return rc;
}

static void push(struct tw_cmp *c, struct tw_stepdiff *out, struct tw_diff d, const struct tw_view *v, const struct tw_rec *r)
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

static int by_position(const void *x, const void *y)
{
    const struct tw_diff *a = x, *b = y;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->b < b->b ? -1 : a->b > b->b;
}

/* Where records that exist on one side only cannot be findings: behind the end of an unfinished trace, or in a gap. */
struct horizon { size_t a, b; }; /* records with an index beyond are unknown on the other side */

static struct horizon horizon_of(const struct tw_view *a, const struct tw_view *b, const size_t *to_b)
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

static void list_differences(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b, const size_t *to_a,
                             const bool *moved, struct tw_stepdiff *out)
{
    struct horizon h = horizon_of(a, b, out->to_b);
    for (size_t i = 0; i < a->count; i++) {
        const struct tw_rec *x = &a->rec[i];
        size_t j = out->to_b[i];
        struct tw_diff d = {.type = TWIN_FINDING_ONLY_A, .a = i, .b = j, .at = 2 * (i + 1)};
        if (j == TW_NONE) {
            if (i < h.a)
                push(c, out, d, a, x);
            continue;
        }
        const struct tw_rec *y = &b->rec[j];
        if (x->content == y->content && (x->flags & TWIN_REC_UNOBSERVED) == (y->flags & TWIN_REC_UNOBSERVED)) {
            out->equal++;
            if (!moved[i])
                continue;
            d.type = TWIN_FINDING_ORDER;
        } else if (x->layout_hash != y->layout_hash) {
            d.type = TWIN_FINDING_LAYOUT;
        } else if ((x->flags | y->flags) & TWIN_REC_UNOBSERVED) {
            continue; /* one of the two could not be read: unknown */
        } else {
            d.type = TWIN_FINDING_VALUE;
        }
        push(c, out, d, a, x);
    }
    size_t before = 0; /* position behind the last matched record of a */
    for (size_t j = 0; j < b->count; j++) {
        if (to_a[j] != TW_NONE) {
            before = moved[to_a[j]] ? before : to_a[j] + 1;
        } else if (j < h.b) {
            push(c, out, (struct tw_diff){.type = TWIN_FINDING_ONLY_B, .a = TW_NONE, .b = j, .at = 2 * before + 1}, b, &b->rec[j]);
        }
    }
    if (out->count)
        qsort(out->d, out->count, sizeof *out->d, by_position);
}

int tw_stepdiff_make(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b, struct tw_stepdiff *out)
{
    int rc = TWIN_ENOMEM;
    *out = (struct tw_stepdiff){.to_b = tw_reallocarray(NULL, a->count, sizeof *out->to_b)};
    size_t *to_a = tw_reallocarray(NULL, b->count, sizeof *to_a);
    bool *moved = tw_calloc(a->count, sizeof *moved);
    if (!out->to_b || !to_a || !moved)
        goto out;
    for (size_t i = 0; i < a->count; i++)
        out->to_b[i] = TW_NONE;
    for (size_t j = 0; j < b->count; j++)
        to_a[j] = TW_NONE;
    rc = align_ordered(c, a, b, out->to_b);
    if (rc != 0)
        goto out;
    for (size_t i = 0; i < a->count; i++)
        if (out->to_b[i] != TW_NONE)
            to_a[out->to_b[i]] = i;
        else
            moved[i] = !(a->rec[i].flags & TWIN_REC_UNORDERED); /* unless it stays single, too */
    rc = match_leftovers(c, a, b, out->to_b, to_a);
    if (rc == 0)
        list_differences(c, a, b, to_a, moved, out);
out:
    c->oom |= rc == TWIN_ENOMEM;
    tw_free(to_a);
    tw_free(moved);
    if (rc != 0)
        tw_stepdiff_free(out);
    return rc;
}

void tw_stepdiff_free(struct tw_stepdiff *d)
{
    tw_free(d->d);
    tw_free(d->to_b);
    *d = (struct tw_stepdiff){0};
}

void tw_stepdiff_drop(struct tw_stepdiff *d, bool (*drop)(const struct tw_diff *, void *), void *user)
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

const struct tw_rec *tw_diff_rec(const struct tw_diff *d, const struct tw_view *a, const struct tw_view *b, const struct tw_view **view)
{
    *view = d->a != TW_NONE ? a : b;
    return d->a != TW_NONE ? &a->rec[d->a] : &b->rec[d->b];
}

bool tw_diff_significant(const struct tw_diff *d)
{
    return d->type != TWIN_FINDING_ORDER;
}
