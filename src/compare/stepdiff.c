/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two views side by side. Records that agree in key and contents anchor first, so that a stretch inserted in one run (an
 * evaluation between two steps) does not shift everything after it. What agrees with something elsewhere has only moved.
 * The rest is aligned by key between the anchors, and what then stays single is matched by key wherever it stands.
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

struct match { size_t *to_b, *to_a; bool *moved; }; /* indices in the views; moved: matched out of order */

static void pair_up(struct match *m, size_t a, size_t b)
{
    m->to_b[a] = b;
    m->to_a[b] = a;
}

/* Tier one: records that agree in key and contents, in order. anchor[i] tells for the sequences, m for the views. */
static int align_anchors(const struct tw_view *a, const struct tw_view *b, struct sequence *x, struct sequence *y, size_t *anchor,
                         struct match *m)
{
    for (size_t i = 0; i < x->n; i++)
        x->token[i] = anchor_token(&a->rec[x->index[i]]);
    for (size_t i = 0; i < y->n; i++)
        y->token[i] = anchor_token(&b->rec[y->index[i]]);
    int rc = tw_align(x->token, x->n, y->token, y->n, 0, anchor);
    for (size_t i = 0; rc == 0 && i < x->n; i++)
        if (anchor[i] != TW_ALIGN_NONE)
            pair_up(m, x->index[i], y->index[anchor[i]]);
    return rc;
}

/* Of a stretch of a sequence, the records that are still single: their keys into token, their view indices into index. */
static size_t singles(const struct tw_view *v, const struct sequence *s, size_t from, size_t end, const size_t *matched, uint64_t *token,
                      size_t *index)
{
    size_t n = 0;
    for (size_t i = from; i < end; i++)
        if (matched[s->index[i]] == TW_NONE) {
            index[n] = s->index[i];
            token[n++] = v->rec[s->index[i]].token;
        }
    return n;
}

/* Tier two: between the anchors, by key. */
static int align_gaps(const struct tw_view *a, const struct tw_view *b, struct sequence *x, struct sequence *y, const size_t *anchor,
                      struct match *m)
{
    size_t *index_a = tw_reallocarray(NULL, x->n, sizeof *index_a), *index_b = tw_reallocarray(NULL, y->n, sizeof *index_b);
    size_t *inner = tw_reallocarray(NULL, x->n, sizeof *inner), from_a = 0, from_b = 0;
    int rc = index_a && index_b && inner ? 0 : TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i <= x->n; i++) { /* one gap before each anchor, and the one behind the last */
        if (i < x->n && anchor[i] == TW_ALIGN_NONE)
            continue;
        size_t end_b = i < x->n ? anchor[i] : y->n;
        size_t n = singles(a, x, from_a, i, m->to_b, x->token, index_a), k = singles(b, y, from_b, end_b, m->to_a, y->token, index_b);
        if (n && k)
            rc = tw_align(x->token, n, y->token, k, 0, inner);
        for (size_t j = 0; rc == 0 && k && j < n; j++)
            if (inner[j] != TW_ALIGN_NONE)
                pair_up(m, index_a[j], index_b[inner[j]]);
        from_a = i + 1;
        from_b = end_b + 1;
    }
    tw_free(index_a);
    tw_free(index_b);
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

/* Matches what is still single wherever it stands, in sequence order: by contents, or by key alone. */
static int match_anywhere(const struct tw_view *a, const struct tw_view *b, bool by_contents, struct match *m)
{
    struct entry *x = tw_reallocarray(NULL, a->count, sizeof *x), *y = tw_reallocarray(NULL, b->count, sizeof *y);
    int rc = x && y ? 0 : TWIN_ENOMEM;
    size_t n = 0, k = 0;
    for (size_t i = 0; rc == 0 && i < a->count; i++)
        if (m->to_b[i] == TW_NONE)
            x[n++] = (struct entry){by_contents ? anchor_token(&a->rec[i]) : a->rec[i].token, i};
    for (size_t i = 0; rc == 0 && i < b->count; i++)
        if (m->to_a[i] == TW_NONE)
            y[k++] = (struct entry){by_contents ? anchor_token(&b->rec[i]) : b->rec[i].token, i};
    if (n && k) {
        qsort(x, n, sizeof *x, by_hash);
        qsort(y, k, sizeof *y, by_hash);
    }
    for (size_t i = 0, j = 0; i < n && j < k;) {
        if (x[i].hash == y[j].hash) {
            pair_up(m, x[i].index, y[j].index);
            m->moved[x[i].index] = !(a->rec[x[i].index].flags & TWIN_REC_UNORDERED);
            i++, j++;
        } else if (x[i].hash < y[j].hash) {
            i++;
        } else {
            j++;
        }
    }
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
            if (tw_part_elsewhere(a, x, b))
                out->elsewhere++;
            else if (i < h.a)
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
        } else if (tw_part_elsewhere(b, &b->rec[j], a)) {
            out->elsewhere++;
        } else if (j < h.b) {
            push(c, out, (struct tw_diff){.type = TWIN_FINDING_ONLY_B, .a = TW_NONE, .b = j, .at = 2 * before + 1}, b, &b->rec[j]);
        }
    }
    if (out->count)
        qsort(out->d, out->count, sizeof *out->d, by_position);
}

static int match_all(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b, struct match *m)
{
    struct sequence x = {0}, y = {0};
    size_t *anchor = NULL;
    int rc = TWIN_ENOMEM;
    if (sequence_make(c, a, &x) && sequence_make(c, b, &y) && (anchor = tw_reallocarray(NULL, x.n, sizeof *anchor)))
        rc = align_anchors(a, b, &x, &y, anchor, m);
    if (rc == 0)
        rc = match_anywhere(a, b, true, m); /* moved, before keys pair what has another counterpart */
    if (rc == 0)
        rc = align_gaps(a, b, &x, &y, anchor, m);
    if (rc == 0)
        rc = match_anywhere(a, b, false, m);
    sequence_free(&x);
    sequence_free(&y);
    tw_free(anchor);
    return rc;
}

int tw_stepdiff_make(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b, struct tw_stepdiff *out)
{
    struct match m = {.to_b = tw_reallocarray(NULL, a->count, sizeof *m.to_b), .to_a = tw_reallocarray(NULL, b->count, sizeof *m.to_a),
                      .moved = tw_calloc(a->count, sizeof *m.moved)};
    int rc = m.to_b && m.to_a && m.moved ? 0 : TWIN_ENOMEM;
    *out = (struct tw_stepdiff){.to_b = m.to_b};
    for (size_t i = 0; rc == 0 && i < a->count; i++)
        m.to_b[i] = TW_NONE;
    for (size_t j = 0; rc == 0 && j < b->count; j++)
        m.to_a[j] = TW_NONE;
    if (rc == 0)
        rc = match_all(c, a, b, &m);
    if (rc == 0)
        list_differences(c, a, b, m.to_a, m.moved, out);
    c->oom |= rc == TWIN_ENOMEM;
    tw_free(m.to_a);
    tw_free(m.moved);
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
