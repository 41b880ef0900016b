/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parts of tensors that are cut over ranks lie: what a process notes of its series
 * ("shard"), and the geometry of the boxes that this gives. shards.c adds up what lies there.
 *
 * A note says "SERIES WHOLE START SHAPE ADDS [EDGE [EDGE]]", as "12 10 5 5 1 13". Where a part
 * begins or ends within a block of 16 bytes, the bytes of that block which are its own stand in a
 * record of another series, an edge, whose digest is these bytes.
 */
#include "arms.h"
#include "shards.h"

#include <stdlib.h>
#include <string.h>

bool tw_is_shard(const struct tw_rec *r)
{
    return r->flags & TWIN_REC_OFFSET && !(r->flags & TWIN_REC_PART);
}

/* ---- the note of a process */

/* Above what the format allows: an id that large is damage. */
#define SERIES_MAX (1u << 21)
/* In the place of a note, of a series that is an edge of another one. */
static const char edge[] = "edge";

/* Reads "32,8" into at most TWIN_MAX_NDIM numbers; false where it is none. *p moves behind it. */
static bool read_numbers(const char **p, int64_t *out, uint32_t *n)
{
    for (*n = 0; *n < TWIN_MAX_NDIM; (*p)++) {
        char *end;
        if (**p < '0' || **p > '9')
            return false;
        long long v = strtoll(*p, &end, 10);
        if (v > INT32_MAX * (int64_t)4096)
            return false;
        out[(*n)++] = v;
        *p = end;
        if (**p != ',')
            return true;
    }
    return false;
}

/* Reads " N" or " N N", the series of edges, up to the end of the text. */
static bool read_edges(const char *p, struct tw_box *b)
{
    for (b->edges = 0; *p == ' ' && b->edges < 2; b->edges++) {
        char *end;
        if (p[1] < '0' || p[1] > '9')
            return false;
        const unsigned long id = strtoul(p + 1, &end, 10);
        if (id >= SERIES_MAX)
            return false;
        b->edge[b->edges] = (uint32_t)id;
        p = end;
    }
    return *p == '\0';
}

/* Does the text say what a note says, of this series, and of a part that fits? */
static bool read_box(const char *text, uint32_t series, struct tw_box *b)
{
    char *end;
    uint32_t starts, shapes;
    unsigned long id = strtoul(text, &end, 10);
    const char *p = end + 1;
    if (id != series || *end != ' ' || !read_numbers(&p, b->whole, &b->ndim) || *p++ != ' ' ||
        !read_numbers(&p, b->start, &starts) || *p++ != ' ' ||
        !read_numbers(&p, b->shape, &shapes) || *p++ != ' ' || starts != b->ndim ||
        shapes != b->ndim)
        return false;
    uint64_t elements = 1;
    for (uint32_t i = 0; i < b->ndim; i++)
        if (b->start[i] + b->shape[i] > b->whole[i] ||
            __builtin_mul_overflow(elements, (uint64_t)b->whole[i], &elements))
            return false;
    b->adds = p[0] == '1';
    return p[0] != '\0' && read_edges(p + 1, b);
}

/* Keeps what is said of a series; "" where two things are. False: no memory. */
static bool keep_place(struct tw_proc *p, uint32_t id, const char *text)
{
    if (id >= p->places) {
        const size_t room = 2 * (size_t)id + 64;
        const char **grown = tw_reallocarray(p->place, room, sizeof *grown);
        if (!grown)
            return false;
        memset(grown + p->places, 0, (room - p->places) * sizeof *grown);
        p->place = grown;
        p->places = room;
    }
    const bool other = p->place[id] && strcmp(p->place[id], text) != 0;
    p->place[id] = other ? "" : text;
    return true;
}

/* Notes by series, read once per process: p->place[id]. False: no memory. */
static bool read_places(struct tw_proc *p)
{
    const char *key, *value;
    struct tw_box b;
    if (p->place)
        return true;
    for (size_t i = 0; twin_trace_note(p->trace, i, &key, &value); i++) {
        if (strcmp(key, "shard") != 0)
            continue;
        const unsigned long id = strtoul(value, NULL, 10);
        if (id >= SERIES_MAX)
            continue;
        if (!keep_place(p, (uint32_t)id, value))
            return false;
        if (!read_box(value, (uint32_t)id, &b))
            continue;
        for (unsigned k = 0; k < b.edges; k++)
            if (!keep_place(p, b.edge[k], edge))
                return false;
    }
    return true;
}

bool tw_box_of(struct tw_proc *p, uint32_t series, struct tw_box *b)
{
    return read_places(p) && series < p->places && p->place[series] &&
           read_box(p->place[series], series, b);
}

bool tw_is_edge(struct tw_proc *p, const struct tw_rec *r)
{
    const struct twin_layout *l = twin_trace_layout(p->trace, r->layout);
    return read_places(p) && r->series < p->places && p->place[r->series] &&
           strcmp(p->place[r->series], edge) == 0 && l->dtype == TWIN_BYTES && l->ndim == 1 &&
           l->shape[0] == 16;
}

/* ---- geometry */

uint64_t tw_box_elements(const struct tw_box *b, const int64_t *shape)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < b->ndim; i++)
        n *= (uint64_t)shape[i];
    return n;
}

uint64_t tw_box_first(const struct tw_box *b)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < b->ndim; i++)
        at = at * (uint64_t)b->whole[i] + (uint64_t)b->start[i];
    return at;
}

bool tw_box_one_run(const struct tw_box *b)
{
    uint32_t cut = 0;
    for (uint32_t i = 0; i < b->ndim; i++)
        if (b->shape[i] != b->whole[i])
            cut = i;
    for (uint32_t i = 0; i < cut; i++)
        if (b->shape[i] != 1)
            return false;
    return true;
}

unsigned tw_box_cuts(const struct tw_box *b, size_t width, struct tw_cut out[2])
{
    const uint64_t first = tw_box_first(b) * width;
    const uint64_t end = first + tw_box_elements(b, b->shape) * width;
    unsigned n = 0;
    if (first == end)
        return 0;
    if (first % 16) {
        const uint64_t next = first / 16 * 16 + 16;
        out[n++] = (struct tw_cut){first / 16, first % 16, next < end ? 16 : 16 - (next - end)};
    }
    /* where the tensor ends there is nothing behind to share the block with */
    const bool last = end == tw_box_elements(b, b->whole) * width;
    if (end % 16 && !last && (n == 0 || out[0].block != end / 16))
        out[n++] = (struct tw_cut){end / 16, end / 16 == first / 16 ? first % 16 : 0, end % 16};
    return n;
}

bool tw_box_same(const struct tw_box *x, const struct tw_box *y)
{
    size_t bytes = x->ndim * sizeof *x->start;
    return memcmp(x->start, y->start, bytes) == 0 && memcmp(x->shape, y->shape, bytes) == 0;
}

bool tw_box_disjoint(const struct tw_box *x, const struct tw_box *y)
{
    for (uint32_t i = 0; i < x->ndim; i++)
        if (x->start[i] + x->shape[i] <= y->start[i] || y->start[i] + y->shape[i] <= x->start[i])
            return true;
    return false;
}

/* ---- two processes */

/* The place of a weight. */
struct place {
    uint64_t key;
    struct tw_box box;
};

static int by_key(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    return a->key < b->key ? -1 : a->key > b->key;
}

/* The places of all weights of which a process has parts, malloc'ed, in order; NULL: no memory. */
static struct place *places_of_weights(struct tw_proc *p, size_t *n)
{
    *n = 0;
    struct place *out = read_places(p) ? tw_calloc(p->places + 1, sizeof *out) : NULL;
    for (size_t i = 0; out && i < p->places; i++) {
        const struct twin_series *s = p->place[i] ? twin_trace_series(p->trace, (uint32_t)i) : NULL;
        if (!s || s->kind != TWIN_KIND_WEIGHT || !tw_box_of(p, (uint32_t)i, &out[*n].box))
            continue;
        out[(*n)++].key = tw_proc_key(p, (uint32_t)i);
    }
    if (out && *n)
        qsort(out, *n, sizeof *out, by_key);
    return out;
}

bool tw_cut_otherwise(struct tw_proc *p, struct tw_proc *q)
{
    size_t n = 0, m = 0;
    struct place *x = places_of_weights(p, &n), *y = places_of_weights(q, &m);
    bool otherwise = x && y && (n == 0) != (m == 0);
    for (size_t i = 0; x && y && i < n && !otherwise; i++) {
        const struct place *other = m ? bsearch(&x[i], y, m, sizeof *y, by_key) : NULL;
        otherwise = other && (other->box.ndim != x[i].box.ndim ||
                              memcmp(other->box.whole, x[i].box.whole,
                                     x[i].box.ndim * sizeof *x[i].box.whole) != 0 ||
                              !tw_box_same(&other->box, &x[i].box));
    }
    tw_free(x);
    tw_free(y);
    return otherwise;
}
