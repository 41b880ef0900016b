/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large tensors that one run records in parts by turns (whole.c), and the other run cuts over ranks
 * (shards.c): the parts of a step become the record of the whole where they are all of it, and are
 * left out on both sides where they are not. So a step in which only some parts had their turn says
 * nothing of such a tensor; whether the end was compared is asked by tw_weights_only().
 */
#include "arms.h"
#include "internal.h"
#include "phrase.h"
#include "scan.h"

#include <stdlib.h>
#include <string.h>

/* A record of a part, by the tensor that it belongs to. */
struct piece {
    uint64_t token; /* of the tensor */
    uint64_t from, to;
    uint32_t occurrence;
    size_t at; /* in its view */
};

/* One side of a step. */
struct side {
    struct tw_view *view;
    struct piece *piece;
    size_t pieces;
    bool *drop; /* per record */
};

static int by_tensor(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    if (a->token != b->token)
        return a->token < b->token ? -1 : 1;
    if (a->occurrence != b->occurrence)
        return a->occurrence < b->occurrence ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

static uint64_t elements_of(const struct tw_view *v, const struct tw_rec *r)
{
    const struct twin_layout *l = twin_trace_layout(v->proc->trace, r->layout);
    uint64_t n = 1;
    for (unsigned i = 0; i < l->ndim && i < TWIN_MAX_NDIM; i++)
        n *= l->shape[i] > 0 ? (uint64_t)l->shape[i] : 0;
    return n;
}

uint64_t tw_tensor_token(const struct tw_view *v, const struct tw_rec *r)
{
    const char *name = tw_rec_name(v, r);
    const size_t n = tw_tensor_name_length(name);
    if (!(r->flags & TWIN_REC_PART) || name[n] == '\0')
        return r->token;
    char *base = tw_printf("%.*s", (int)n, name);
    const uint64_t token =
        base ? tw_key_hash(r->phase, r->kind, base, tw_rec_scope(v, r), tw_rec_role(v, r)) : 0;
    tw_free(base);
    return token;
}

/* Fills s->piece. False: no memory. */
static bool find_pieces(struct side *s)
{
    const struct tw_view *v = s->view;
    s->piece = tw_calloc(v->count + 1, sizeof *s->piece);
    s->drop = tw_calloc(v->count + 1, sizeof *s->drop);
    if (!s->piece || !s->drop)
        return false;
    for (size_t i = 0; i < v->count; i++) {
        const struct tw_rec *r = &v->rec[i];
        const uint64_t token = tw_tensor_token(v, r);
        if (token == 0)
            return false;
        if (token != r->token)
            s->piece[s->pieces++] = (struct piece){.token = token,
                                                   .from = r->global_offset,
                                                   .to = r->global_offset + elements_of(v, r),
                                                   .occurrence = r->occurrence,
                                                   .at = i};
    }
    if (s->pieces)
        qsort(s->piece, s->pieces, sizeof *s->piece, by_tensor);
    return true;
}

static bool has_pieces(const struct side *s, uint64_t token)
{
    for (size_t i = 0; i < s->pieces; i++)
        if (s->piece[i].token == token)
            return true;
    return false;
}

/* The index of this side's record of the whole tensor; TW_NONE: it has none. */
static size_t whole_of(const struct side *s, const struct piece *p)
{
    for (size_t i = 0; i < s->view->count; i++) {
        const struct tw_rec *r = &s->view->rec[i];
        if (r->token == p->token && r->occurrence == p->occurrence && !(r->flags & TWIN_REC_PART))
            return i;
    }
    return TW_NONE;
}

/* Are these n pieces of one tensor all of it, each element once, and do their digests add up? */
static bool are_all(const struct side *s, const struct piece *p, size_t n)
{
    const struct tw_rec *first = &s->view->rec[p->at];
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tw_rec *r = &s->view->rec[p[i].at];
        const struct twin_layout *l = twin_trace_layout(s->view->proc->trace, r->layout);
        const struct twin_layout *f = twin_trace_layout(s->view->proc->trace, first->layout);
        if (p[i].from != at || r->whole != first->whole || l->dtype != f->dtype ||
            r->flags & (TWIN_REC_UNOBSERVED | TWIN_REC_NOT_COMPOSABLE))
            return false;
        at = p[i].to;
    }
    return at == first->whole;
}

/* Lets a record of a whole say how many numbers of which type it has, and not in which shape. */
static void flatten(struct tw_view *v, struct tw_rec *r)
{
    const struct twin_layout *l = twin_trace_layout(v->proc->trace, r->layout);
    const uint64_t n = r->whole ? r->whole : elements_of(v, r);
    const struct twin_layout flat = {.dtype = l->dtype, .ndim = 1, .shape = {(int64_t)n}};
    r->layout_hash = tw_layout_hash(&flat);
    r->content = tw_mix64(tw_mix64(r->layout_hash + r->digest.a) ^ r->digest.b);
}

/* Turns the first of n pieces into the record of the whole that the other side has, too. */
static void join(struct side *s, const struct piece *p, size_t n, const char *name)
{
    struct tw_rec *r = &s->view->rec[p->at];
    for (size_t i = 1; i < n; i++) {
        const struct tw_rec *more = &s->view->rec[p[i].at];
        r->digest.a += more->digest.a;
        r->digest.b += more->digest.b;
        s->drop[p[i].at] = true;
    }
    r->key = r->token = p->token;
    r->name = name;
    r->flags &= ~(uint32_t)(TWIN_REC_PART | TWIN_REC_OFFSET | TWIN_REC_STATS | TWIN_REC_SKETCH);
    r->sketch = 0;
    r->stats = (struct twin_stats){0};
    r->global_offset = 0;
    flatten(s->view, r);
}

/* Notes that a tensor was held against parts of another sort. False: no memory. */
static bool remember(struct tw_cmp *c, struct tw_scan *out, uint64_t token)
{
    for (size_t i = 0; i < out->joins; i++)
        if (out->joined[i] == token)
            return true;
    if (!tw_cmp_room(c, &out->joined, out->joins, &out->join_room, sizeof *out->joined))
        return false;
    out->joined[out->joins++] = token;
    return true;
}

/*
 * Holds this side's n pieces of one tensor against the other side's whole. What both have in pieces
 * stays as it is, and so does what the other side does not have.
 */
static bool take(struct tw_cmp *c, struct side *s, struct side *other, const struct piece *p,
                 size_t n, struct tw_scan *out, size_t *left_out)
{
    const size_t w = whole_of(other, p);
    if (has_pieces(other, p->token))
        return true;
    if (whole_of(s, p) != TW_NONE) { /* it is there beside its pieces */
        for (size_t i = 0; i < n; i++)
            s->drop[p[i].at] = true;
        return true;
    }
    if (w == TW_NONE)
        return true;
    if (are_all(s, p, n)) {
        join(s, p, n, tw_rec_name(other->view, &other->view->rec[w]));
        flatten(other->view, &other->view->rec[w]);
    } else {
        for (size_t i = 0; i < n; i++)
            s->drop[p[i].at] = true;
        other->drop[w] = true;
        ++*left_out;
    }
    return remember(c, out, p->token);
}

/* For tw_view_filter(): what is not dropped. */
static bool stays(const struct tw_view *v, const struct tw_rec *r, void *user)
{
    return !((const bool *)user)[r - v->rec];
}

int tw_turns_join(struct tw_cmp *c, struct tw_view *a, struct tw_view *b, struct tw_scan *out,
                  size_t *left_out, struct twin_error *err)
{
    struct side side[2] = {{.view = a}, {.view = b}};
    bool ok = find_pieces(&side[0]) && find_pieces(&side[1]);
    *left_out = 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; ok && i < side[k].pieces;) {
            const struct piece *p = &side[k].piece[i];
            size_t n = 1;
            while (i + n < side[k].pieces && p[n].token == p->token &&
                   p[n].occurrence == p->occurrence)
                n++;
            ok = take(c, &side[k], &side[1 - k], p, n, out, left_out);
            i += n;
        }
    for (int k = 0; k < 2; k++) {
        if (ok)
            tw_view_filter(side[k].view, stays, side[k].drop);
        tw_free(side[k].piece);
        tw_free(side[k].drop);
    }
    return ok ? 0 : tw_no_memory(err, "joining the parts of large tensors");
}

void tw_turns_say(struct tw_cmp *c, const struct tw_scan *s, uint64_t steps, size_t at_end)
{
    if (steps == 0)
        return;
    tw_cmp_note(c,
                "large tensors that one run records in parts by turns, and the other cuts over "
                "ranks, were not compared at %llu of %llu steps, where it has some parts only",
                (unsigned long long)steps, (unsigned long long)s->steps_compared);
    if (at_end && !s->found)
        tw_cmp_unseen(c,
                      "the end of %zu large tensor%s, of which one run recorded some parts only in "
                      "the last compared step, and which the other cuts over ranks",
                      at_end, tw_plural_s(at_end));
}
