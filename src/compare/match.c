/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says which record of one view corresponds to which of the other. stepdiff.c calls
 * tw_match_records() for each two views that are compared, and makes differences of what
 * corresponds and is not equal, or has no counterpart.
 *
 * Records of one name form a sequence, and the n-th of it is held against the n-th: that they hold
 * the same contents in another order is a difference like any other. What that needs is known in
 * different ways:
 *  - where records of a name were dropped, their occurrence numbers say which is the n-th;
 *  - where one side has more of a name than the other, something was inserted or left out: the
 *    sequences are aligned, with those of all such names at once, so that a stretch inserted in one
 *    run does not shift what follows;
 *  - where several threads recorded one name, which of them came first is a matter of schedule:
 *    each thread's own sequence is looked for in the other view as a whole. Where only their
 *    contents agree, their order is not known.
 *
 * Contents are matched without any order only among records that were declared unordered, or came
 * from several threads, and never among values that a job computes with (strict() below).
 */
#include "match.h"

#include "align.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * One record, as match.c sorts and groups it. token is the record's key, for generator states with
 * their consumer (see struct tw_rec).
 */
struct entry {
    uint64_t token;
    size_t index;    /* in the view */
    uint32_t thread; /* what the writer numbered the recording thread */
};

/* The records of one name in one view, in their order: entries [from, end). */
struct run {
    struct entry *e;
    size_t n;
};

/* Everything that the steps of one call of tw_match_records() share. */
struct matching {
    struct tw_cmp *c;
    const struct tw_view *a, *b;
    struct tw_match *m;
    struct entry *x, *y;   /* of a and of b, sorted by name, then by place */
    bool *left_a, *left_b; /* their names are left to alignment */
    bool any_left;
};

static void pair_up(struct tw_match *m, size_t a, size_t b)
{
    assert(m->to_b[a] == TW_NONE && m->to_a[b] == TW_NONE);
    m->to_b[a] = b;
    m->to_a[b] = a;
}

/* Values that a job goes on computing with: which of them came last is the state that it left. */
static bool strict(const struct tw_rec *r)
{
    switch (r->kind) {
    case TWIN_KIND_WEIGHT:
    case TWIN_KIND_GRADIENT:
    case TWIN_KIND_GRADIENT_LOCAL:
    case TWIN_KIND_LOSS:
    case TWIN_KIND_VALUE:
    case TWIN_KIND_MOMENT:
    case TWIN_KIND_HYPER: return true;
    default: return false;
    }
}

/*
 * Do two records of one name hold the same? A record that could not be read equals only another one
 * that could not be read.
 */
static bool equal_records(const struct tw_rec *x, const struct tw_rec *y)
{
    return x->content == y->content &&
           (x->flags & TWIN_REC_UNOBSERVED) == (y->flags & TWIN_REC_UNOBSERVED);
}

/* Order of entries by name; records of one name keep the order that they have in the view. */
static int by_token(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    if (a->token != b->token)
        return a->token < b->token ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Order of entries of one name by the recording thread; each thread's own order is kept. */
static int by_thread(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* All records of a view, sorted by name. NULL: no memory. The caller frees it. */
static struct entry *entries_of(const struct tw_view *v)
{
    struct entry *e = tw_reallocarray(NULL, v->count, sizeof *e);
    for (size_t i = 0; e && i < v->count; i++)
        e[i] = (struct entry){v->rec[i].token, i, v->rec[i].thread};
    if (e && v->count)
        qsort(e, v->count, sizeof *e, by_token);
    return e;
}

static bool one_thread(const struct run *r)
{
    for (size_t i = 1; i < r->n; i++)
        if (r->e[i].thread != r->e[0].thread)
            return false;
    return true;
}

/* ---- without order: by contents */

/* A record of one name, as it is sorted to find equal contents. */
struct by_content {
    uint64_t content;
    size_t index;
};

static int content_order(const void *x, const void *y)
{
    const struct by_content *a = x, *b = y;
    if (a->content != b->content)
        return a->content < b->content ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/*
 * Lists the records of a run that have no counterpart yet, sorted by contents. `matched` is m->to_b
 * or m->to_a. Returns how many there are; SIZE_MAX: no memory. The caller frees *out in either
 * case.
 */
static size_t single_contents(const struct tw_view *v, const struct run *r, const size_t *matched,
                              struct by_content **out)
{
    size_t n = 0;
    *out = tw_reallocarray(NULL, r->n, sizeof **out);
    if (!*out)
        return SIZE_MAX;
    for (size_t i = 0; i < r->n; i++)
        if (matched[r->e[i].index] == TW_NONE)
            (*out)[n++] = (struct by_content){v->rec[r->e[i].index].content, r->e[i].index};
    if (n)
        qsort(*out, n, sizeof **out, content_order);
    return n;
}

/*
 * Pairs records that have no counterpart yet and are equal, wherever they stand. *left: how many
 * records of the two runs together remain without an equal one; it is not set when memory runs out.
 * Returns 0 or TWIN_ENOMEM.
 */
static int match_contents(struct matching *t, const struct run *a, const struct run *b,
                          size_t *left)
{
    struct by_content *x, *y;
    size_t n = single_contents(t->a, a, t->m->to_b, &x);
    size_t k = single_contents(t->b, b, t->m->to_a, &y);
    size_t paired = 0;
    int rc = n == SIZE_MAX || k == SIZE_MAX ? TWIN_ENOMEM : 0;
    for (size_t i = 0, j = 0; rc == 0 && i < n && j < k;) {
        if (x[i].content < y[j].content) {
            i++;
        } else if (x[i].content > y[j].content) {
            j++;
        } else {
            pair_up(t->m, x[i++].index, y[j++].index);
            paired++;
        }
    }
    if (rc == 0)
        *left = n + k - 2 * paired;
    tw_free(x);
    tw_free(y);
    return rc;
}

/* ---- the n-th with the n-th */

/*
 * Pairs what is still single: the first with the first, the second with the second. What one side
 * has more stays single.
 */
static void match_in_order(struct matching *t, const struct run *a, const struct run *b)
{
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        if (t->m->to_b[a->e[i].index] != TW_NONE)
            i++;
        else if (t->m->to_a[b->e[j].index] != TW_NONE)
            j++;
        else
            pair_up(t->m, a->e[i++].index, b->e[j++].index);
    }
}

/*
 * For a step of which records were dropped: the occurrence number of each record says which is the
 * n-th. Both runs are of one thread each, along which these numbers rise, so one pass over both is
 * enough.
 */
static void match_numbers(struct matching *t, const struct run *a, const struct run *b)
{
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        uint32_t x = t->a->rec[a->e[i].index].occurrence, y = t->b->rec[b->e[j].index].occurrence;
        if (x < y) {
            i++;
        } else if (x > y) {
            j++;
        } else {
            pair_up(t->m, a->e[i++].index, b->e[j++].index);
        }
    }
}

/* ---- several threads */

/* What one thread recorded of one name, with a hash over the name and all contents in order. */
struct stretch {
    struct run r;
    uint64_t hash;
};

/* Order of stretches by hash; those that are equal keep the order in which they begin. */
static int by_hash(const void *x, const void *y)
{
    const struct stretch *a = x, *b = y;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->r.e->index < b->r.e->index ? -1 : a->r.e->index > b->r.e->index;
}

/*
 * Sorts r by thread and writes one stretch per thread to out, which has room for r->n of them;
 * equal stretches end up side by side. Returns how many there are. r stays sorted by thread:
 * match_threads() sorts it by place again.
 */
static size_t cut_by_thread(const struct tw_view *v, struct run *r, struct stretch *out)
{
    assert(r->n > 0);
    size_t n = 0;
    qsort(r->e, r->n, sizeof *r->e, by_thread);
    for (size_t i = 0; i < r->n; i++) {
        if (i == 0 || r->e[i].thread != r->e[i - 1].thread)
            out[n++] = (struct stretch){.r = {&r->e[i], 0}, .hash = r->e[i].token};
        out[n - 1].r.n++;
        out[n - 1].hash = tw_mix64(out[n - 1].hash * 3 + v->rec[r->e[i].index].content);
    }
    qsort(out, n, sizeof *out, by_hash);
    return n;
}

/*
 * Pairs the sequences of threads that are equal as a whole. Both lists are sorted by hash. Returns
 * how many records of each side these sequences hold.
 */
static size_t match_whole_threads(struct matching *t, const struct stretch *x, size_t n,
                                  const struct stretch *y, size_t k)
{
    size_t whole = 0;
    for (size_t i = 0, j = 0; i < n && j < k;) {
        if (x[i].hash < y[j].hash) {
            i++;
        } else if (x[i].hash > y[j].hash) {
            j++;
        } else {
            /* Equal hashes with other lengths are no match: the hash alone is not trusted. */
            whole += x[i].r.n == y[j].r.n ? x[i].r.n : 0;
            if (x[i].r.n == y[j].r.n)
                match_in_order(t, &x[i].r, &y[j].r);
            i++;
            j++;
        }
    }
    return whole;
}

/* Are the two runs of records equal one by one, in the order of the views? */
static bool equal_in_order(const struct matching *t, const struct run *a, const struct run *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; equal && i < a->n; i++)
        equal = equal_records(&t->a->rec[a->e[i].index], &t->b->rec[b->e[i].index]);
    return equal;
}

/*
 * One name that several threads recorded. When the records are equal in the order in which they
 * stand, they are paired so. Otherwise sequences of threads that are equal as a whole are paired
 * first, and then records of equal contents, whose order is not known: for values that a job
 * computes with this is counted in m->schedule. What is left differs, and is paired in order.
 * Returns 0 or TWIN_ENOMEM.
 */
static int match_threads(struct matching *t, struct run *a, struct run *b)
{
    if (equal_in_order(t, a, b)) {
        match_in_order(t, a, b);
        return 0;
    }
    struct stretch *x = tw_reallocarray(NULL, a->n, sizeof *x);
    struct stretch *y = tw_reallocarray(NULL, b->n, sizeof *y);
    int rc = x && y ? 0 : TWIN_ENOMEM;
    size_t whole = 0, left = 0;
    if (rc == 0) {
        size_t n = cut_by_thread(t->a, a, x), k = cut_by_thread(t->b, b, y);
        whole = match_whole_threads(t, x, n, y, k);
        qsort(a->e, a->n, sizeof *a->e, by_token);
        qsort(b->e, b->n, sizeof *b->e, by_token);
    }
    if (rc == 0 && (whole < a->n || whole < b->n))
        rc = match_contents(t, a, b, &left);
    if (rc == 0 && whole < a->n && left == 0 && strict(&t->a->rec[a->e[0].index]))
        t->m->schedule++;
    if (rc == 0 && left > 0)
        match_in_order(t, a, b);
    tw_free(x);
    tw_free(y);
    return rc;
}

/* ---- one name */

/*
 * May the records of this name be paired without their order? The recorder must have said so in
 * both runs, and the kind must allow it. Where one thread made all records of a name with a role,
 * the flag speaks of its order among other threads' records and not of its own order. `single`: one
 * thread on each side.
 */
static bool declared_unordered(const struct matching *t, const struct run *a, const struct run *b,
                               bool single)
{
    assert(a->n > 0 && b->n > 0);
    const struct tw_rec *x = &t->a->rec[a->e[0].index], *y = &t->b->rec[b->e[0].index];
    if (strict(x) || !(x->flags & y->flags & TWIN_REC_UNORDERED))
        return false;
    return !single || tw_rec_role(t->a, x)[0] == '\0';
}

/* Leaves all records of a name to match_left(), which aligns such names together. */
static void leave(struct matching *t, const struct run *a, const struct run *b)
{
    for (size_t i = 0; i < a->n; i++)
        t->left_a[a->e[i].index] = true;
    for (size_t i = 0; i < b->n; i++)
        t->left_b[b->e[i].index] = true;
    t->any_left = true;
}

/*
 * Do the occurrence numbers of two runs mean the same? They do where both runs did the same things.
 * One arm may have done more in between, so between arms both steps must have equally many records.
 */
static bool numbers_count(const struct matching *t)
{
    return !t->c->o->arms || (t->a->total > 0 && t->a->total == t->b->total);
}

/*
 * Pairs the records of one name, or leaves them to match_left(). The cases come in this order
 * because a gap makes the later ones unsafe: with dropped records neither the counts nor the order
 * of what is left prove anything. Returns 0 or TWIN_ENOMEM.
 */
static int match_name(struct matching *t, struct run *a, struct run *b)
{
    bool single = one_thread(a) && one_thread(b), gap = t->a->dropped || t->b->dropped;
    size_t left;
    int rc = 0;
    if (gap && single && numbers_count(t)) {
        match_numbers(t, a, b);
    } else if (gap) {
        rc = match_contents(t, a, b, &left); /* which is the n-th is not known */
        t->m->unnumbered += rc == 0 && left > 0;
    } else if (declared_unordered(t, a, b, single)) {
        rc = match_contents(t, a, b, &left);
        match_in_order(t, a, b);
    } else if (!single) {
        rc = match_threads(t, a, b);
    } else if (a->n == b->n) {
        match_in_order(t, a, b);
    } else {
        leave(t, a, b);
    }
    return rc;
}

/*
 * Walks over the two sorted lists side by side and calls visit() with the records of each name that
 * both views have; only_left: of each whose records are left to alignment. A name that only one
 * view has stays without a counterpart. Returns 0 or TWIN_ENOMEM.
 */
static int each_name(struct matching *t, bool only_left,
                     int (*visit)(struct matching *t, struct run *a, struct run *b))
{
    int rc = 0;
    for (size_t i = 0, j = 0; rc == 0 && i < t->a->count && j < t->b->count;) {
        uint64_t token = t->x[i].token;
        if (token < t->y[j].token || (only_left && !t->left_a[t->x[i].index])) {
            i++;
            continue;
        }
        if (token > t->y[j].token) {
            j++;
            continue;
        }
        struct run a = {&t->x[i], 0}, b = {&t->y[j], 0};
        for (; i < t->a->count && t->x[i].token == token; i++)
            a.n++;
        for (; j < t->b->count && t->y[j].token == token; j++)
            b.n++;
        rc = visit(t, &a, &b);
    }
    return rc;
}

/* ---- names of which one side has more */

/*
 * The records of a view that were left to alignment, in the order of the view: their indices, and
 * for each a hash of name and contents.
 */
struct sequence {
    size_t *index;
    uint64_t *token;
    size_t n;
};

static void sequence_free(struct sequence *s)
{
    tw_free(s->index);
    tw_free(s->token);
}

/*
 * Fills s from the records for which left[i] is set. Returns 0 or TWIN_ENOMEM; sequence_free()
 * frees s in both cases.
 */
static int sequence_make(const struct tw_view *v, const bool *left, struct sequence *s)
{
    *s = (struct sequence){.index = tw_reallocarray(NULL, v->count, sizeof *s->index),
                           .token = tw_reallocarray(NULL, v->count, sizeof *s->token)};
    if (!s->index || !s->token)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < v->count; i++)
        if (left[i]) {
            s->index[s->n] = i;
            s->token[s->n++] = tw_mix64(v->rec[i].token ^ tw_mix64(v->rec[i].content));
        }
    return 0;
}

/*
 * Aligns what was left in both views (longest common subsequence) and pairs what agrees in name and
 * contents. These pairs are the anchors: the rest of each name is matched between them. The names
 * are looked at again, for a file can be made such that two hashes of name and contents collide.
 * Returns 0 or TWIN_ENOMEM.
 */
static int anchor(struct matching *t)
{
    struct sequence x = {0}, y = {0};
    size_t *to = NULL;
    int rc = sequence_make(t->a, t->left_a, &x);
    if (rc == 0)
        rc = sequence_make(t->b, t->left_b, &y);
    if (rc == 0 && !(to = tw_reallocarray(NULL, x.n, sizeof *to)))
        rc = TWIN_ENOMEM;
    if (rc == 0)
        rc = tw_align(x.token, x.n, y.token, y.n, 0, to);
    for (size_t i = 0; rc == 0 && i < x.n; i++)
        if (to[i] != TW_ALIGN_NONE &&
            t->a->rec[x.index[i]].token == t->b->rec[y.index[to[i]]].token)
            pair_up(t->m, x.index[i], y.index[to[i]]);
    sequence_free(&x);
    sequence_free(&y);
    tw_free(to);
    return rc;
}

/*
 * Pairs the records of one name between two anchors: first what is equal in the same order (a
 * second alignment, by contents alone), then, in each gap between two such pairs, the first with
 * the first. Returns 0 or TWIN_ENOMEM.
 */
static int fill_stretch(struct matching *t, const struct run *a, const struct run *b)
{
    if (a->n == 0 || b->n == 0)
        return 0;
    uint64_t *x = tw_reallocarray(NULL, a->n, sizeof *x);
    uint64_t *y = tw_reallocarray(NULL, b->n, sizeof *y);
    size_t *to = tw_reallocarray(NULL, a->n, sizeof *to), from_a = 0, from_b = 0;
    int rc = x && y && to ? 0 : TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < a->n; i++)
        x[i] = t->a->rec[a->e[i].index].content;
    for (size_t j = 0; rc == 0 && j < b->n; j++)
        y[j] = t->b->rec[b->e[j].index].content;
    if (rc == 0)
        rc = tw_align(x, a->n, y, b->n, 0, to);
    /* i == a->n stands for the end of both runs, which closes the last gap. */
    for (size_t i = 0; rc == 0 && i <= a->n; i++) {
        if (i < a->n && to[i] == TW_ALIGN_NONE)
            continue;
        size_t end_b = i < a->n ? to[i] : b->n;
        if (i < a->n)
            pair_up(t->m, a->e[i].index, b->e[end_b].index);
        assert(from_a <= i && from_b <= end_b); /* an alignment never crosses */
        match_in_order(t, &(struct run){a->e + from_a, i - from_a},
                       &(struct run){b->e + from_b, end_b - from_b});
        from_a = i + 1;
        from_b = end_b + 1;
    }
    tw_free(x);
    tw_free(y);
    tw_free(to);
    return rc;
}

/*
 * Matches the rest of a name: each stretch between two anchors of that name on its own, so that no
 * pair crosses another one. Returns 0 or TWIN_ENOMEM.
 */
static int fill_name(struct matching *t, struct run *a, struct run *b)
{
    size_t from_a = 0, from_b = 0, j = 0;
    int rc = 0;
    /* The anchors of this name in order; the end of both runs closes the last stretch. */
    for (size_t i = 0; rc == 0 && i <= a->n; i++) {
        size_t other = i < a->n ? t->m->to_b[a->e[i].index] : TW_NONE;
        if (i < a->n && other == TW_NONE)
            continue;
        while (j < b->n && b->e[j].index != other)
            j++;
        assert(from_a <= i && from_b <= j && (j < b->n || i == a->n));
        rc = fill_stretch(t, &(struct run){a->e + from_a, i - from_a},
                          &(struct run){b->e + from_b, j - from_b});
        from_a = i + 1;
        from_b = j + 1;
    }
    return rc;
}

/*
 * Matches the names of which one side has more: anchors over all of them at once, then name by name
 * between the anchors. Returns 0 or TWIN_ENOMEM.
 */
static int match_left(struct matching *t)
{
    int rc = anchor(t);
    return rc ? rc : each_name(t, true, fill_name);
}

/* ---- what changed places among other names */

/*
 * Sets m->moved for each record of a whose counterpart stands elsewhere among records of other
 * names: for all pairs but those of a longest rising subsequence of places in b, which is found by
 * patience sorting. Records without an order of their own do not take part. Returns 0 or
 * TWIN_ENOMEM.
 *
 * tail[k] is the record that ends the best rising subsequence of length k + 1 found so far, and
 * before[i] the one that stands before i in its subsequence; both hold indices in a.
 */
static int mark_moved(struct matching *t)
{
    size_t n = t->a->count, longest = 0;
    size_t *tail = tw_reallocarray(NULL, n, sizeof *tail);
    size_t *before = tw_reallocarray(NULL, n, sizeof *before);
    int rc = tail && before ? 0 : TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        size_t place = t->m->to_b[i], low = 0, high = longest;
        if (place == TW_NONE || t->a->rec[i].flags & TWIN_REC_UNORDERED)
            continue;
        t->m->moved[i] = true;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (t->m->to_b[tail[middle]] < place)
                low = middle + 1;
            else
                high = middle;
        }
        assert(low <= longest && longest < n);
        before[i] = low ? tail[low - 1] : TW_NONE;
        tail[low] = i;
        longest += low == longest;
    }
    /* Follow the longest subsequence back from its end: these records have not moved. */
    for (size_t i = rc == 0 && longest ? tail[longest - 1] : TW_NONE; i != TW_NONE; i = before[i])
        t->m->moved[i] = false;
    tw_free(tail);
    tw_free(before);
    return rc;
}

int tw_match_records(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                     struct tw_match *m)
{
    struct matching t = {.c = c,
                         .a = a,
                         .b = b,
                         .m = m,
                         .x = entries_of(a),
                         .y = entries_of(b),
                         .left_a = tw_calloc(a->count, sizeof *t.left_a),
                         .left_b = tw_calloc(b->count, sizeof *t.left_b)};
    int rc = t.x && t.y && t.left_a && t.left_b ? 0 : TWIN_ENOMEM;
    if (rc == 0)
        rc = each_name(&t, false, match_name);
    if (rc == 0 && t.any_left)
        rc = match_left(&t);
    if (rc == 0)
        rc = mark_moved(&t);
    tw_free(t.x);
    tw_free(t.y);
    tw_free(t.left_a);
    tw_free(t.left_b);
    return rc;
}

int tw_match_init(struct tw_match *m, size_t a, size_t b)
{
    *m = (struct tw_match){.to_b = tw_reallocarray(NULL, a, sizeof *m->to_b),
                           .to_a = tw_reallocarray(NULL, b, sizeof *m->to_a),
                           .moved = tw_calloc(a, sizeof *m->moved)};
    if (!m->to_b || !m->to_a || !m->moved)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < a; i++)
        m->to_b[i] = TW_NONE;
    for (size_t j = 0; j < b; j++)
        m->to_a[j] = TW_NONE;
    return 0;
}

void tw_match_fini(struct tw_match *m)
{
    tw_free(m->to_b);
    tw_free(m->to_a);
    tw_free(m->moved);
    *m = (struct tw_match){0};
}
