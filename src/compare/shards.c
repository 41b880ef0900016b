/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that are cut over ranks. Each rank records the part that it holds at its place in the
 * whole, and digests of parts add up: from the records of all ranks of one run this file makes the
 * record that one process would have made of the whole. So worlds.c compares runs whose numbers of
 * ranks differ.
 *
 * A sum is only taken for the whole where the parts are proven to be it: every part says where it
 * lies (the note "shard" of its process), its digest is one that adds up, and the parts cover each
 * element exactly once. Ranks that hold the same part must agree in it. Where anything of that
 * fails the tensor is not compared, and a reason says so.
 */
#include "arms.h"
#include "shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One rank's record of its part. */
struct part {
    const struct tw_rec *rec;
    struct tw_proc *proc;
    struct tw_box box;
    bool again; /* another rank's, which holds the same part, counts */
    struct tw_cut cut[2];
    struct twin_digest bytes[2]; /* of the blocks that were cut, zero where they are not its own */
    unsigned cuts;
};

/* ---- a part */

bool tw_has_shards(struct tw_proc *p)
{
    return twin_trace_note_of(p->trace, "shard") != NULL;
}

bool tw_side_has_shards(const struct tw_side *side)
{
    for (size_t i = 0; i < side->count; i++)
        if (tw_has_shards(&side->proc[i]))
            return true;
    return false;
}

/*
 * Does its digest add up, with the edges that its note names? Those are looked for later
 * (find_edges()).
 */
static bool adds_with_edges(const struct part *x, uint8_t dtype)
{
    struct tw_cut cut[2];
    if (!x->box.adds)
        return false;
    if (!tw_box_one_run(&x->box))
        return !(x->rec->flags & TWIN_REC_NOT_COMPOSABLE);
    return tw_box_cuts(&x->box, twin_dtype_size((enum twin_dtype)dtype), cut) == x->box.edges;
}

/* Is this record what its process says that it is? NULL: yes; else what is wrong. */
static const char *fault_of(const struct part *x)
{
    const struct twin_layout *l = twin_trace_layout(x->proc->trace, x->rec->layout);
    const struct tw_box *b = &x->box;
    if (l->ndim != b->ndim || memcmp(l->shape, b->shape, b->ndim * sizeof *b->shape) != 0)
        return "is not as large as its place";
    if (x->rec->flags & TWIN_REC_UNOBSERVED)
        return "could not be read";
    if (tw_box_elements(b, b->shape) == 0)
        return NULL;
    if (!adds_with_edges(x, l->dtype))
        return "begins or ends within 16 bytes, where digests do not add up";
    /* the digest of several runs has been added up where it was made, and has no offset */
    if (x->rec->global_offset != (tw_box_one_run(b) ? tw_box_first(b) : 0))
        return "was recorded at another place than it says";
    return NULL;
}

/* ---- the whole */

/* The text is the same for each step, so that it is said once. Not of what the user ignores. */
static void say_not_whole(const struct tw_ranks *k, const struct tw_view *v, const struct tw_rec *r,
                          const char *why)
{
    if (tw_cmp_ignored(k->c, r->phase, r->kind, tw_rec_name(v, r)))
        return;
    tw_cmp_unseen(k->c, "run %zu: %s%.200s, which is cut over ranks: %s", k->side->index + 1,
                  tw_state_word(r->kind), tw_rec_name(v, r), why);
}

/* Does no rank say where its part of r lies? Of a gradient that is a term of a sum (Partial) none
 * can. */
static bool nobody_says_where(const struct tw_ranks *k, const struct tw_rec *r)
{
    for (size_t i = 0; i < k->n; i++) {
        const struct tw_rec *x = tw_ranks_counterpart(&k->view[i], r);
        struct tw_box box;
        if (x && tw_box_of(k->view[i].proc, x->series, &box))
            return false;
    }
    return true;
}

/*
 * What cannot be added up because the agent could not make it so, and says it: for a weight that is
 * a reason against "same"; gradients and optimizer state are named as not compared.
 */
static bool is_not_offered(const struct tw_ranks *k, const struct tw_view *v,
                           const struct tw_rec *r, const struct part *x)
{
    const bool no_place = nobody_says_where(k, r);
    if (r->kind == TWIN_KIND_WEIGHT || !(no_place || (x->box.ndim > 0 && !x->box.adds)))
        return false;
    tw_say_not_held(k->c, k->side, v, r,
                    no_place ? "no rank says where its part lies"
                             : "digests of its parts do not add up");
    return true;
}

/* Are these the bytes of this cut, and zero around them? */
static bool is_within(struct twin_digest bytes, const struct tw_cut *cut)
{
    unsigned char b[16];
    memcpy(b, &bytes, sizeof b);
    for (unsigned i = 0; i < sizeof b; i++)
        if (b[i] && (i < cut->from || i >= cut->to))
            return false;
    return true;
}

/* Takes the edges of a part from its rank's view. NULL: all are there; else what is wrong. */
static const char *find_edges(const struct tw_view *v, struct part *x)
{
    const struct twin_layout *l = twin_trace_layout(x->proc->trace, x->rec->layout);
    if (!tw_box_one_run(&x->box))
        return NULL;
    x->cuts = tw_box_cuts(&x->box, twin_dtype_size((enum twin_dtype)l->dtype), x->cut);
    for (unsigned i = 0; i < x->cuts; i++) {
        const struct tw_rec wanted = {.token = tw_proc_key(x->proc, x->box.edge[i]),
                                      .occurrence = x->rec->occurrence};
        const struct tw_rec *r = tw_ranks_counterpart(v, &wanted);
        if (!r || !tw_is_shard(r) || !tw_is_edge(x->proc, r) || r->flags & TWIN_REC_UNOBSERVED)
            return "begins or ends within 16 bytes, where digests do not add up";
        if (r->global_offset != x->cut[i].block * 16 || !is_within(r->digest, &x->cut[i]))
            return "has an edge that is not its own";
        x->bytes[i] = r->digest;
    }
    return NULL;
}

/* Fills part[0 .. *n) with what each rank holds of r's tensor. False: a reason was given. */
static bool collect(const struct tw_ranks *k, const struct tw_view *v, const struct tw_rec *r,
                    struct part *part, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < k->n; i++) {
        struct part *x = &part[*n];
        *x = (struct part){.rec = tw_ranks_counterpart(&k->view[i], r), .proc = k->view[i].proc};
        char why[160];
        const char *fault = NULL;
        if (!x->rec)
            continue; /* what is missing is missed when the parts are counted */
        if (!tw_is_shard(x->rec))
            fault = "recorded it whole";
        else if (!tw_box_of(x->proc, x->rec->series, &x->box))
            fault = "does not say where its part lies";
        else if (!(fault = fault_of(x)))
            fault = find_edges(&k->view[i], x);
        if (!fault && *n &&
            (x->box.ndim != part[0].box.ndim ||
             memcmp(x->box.whole, part[0].box.whole, x->box.ndim * sizeof *x->box.whole) != 0 ||
             twin_trace_layout(x->proc->trace, x->rec->layout)->dtype !=
                 twin_trace_layout(part[0].proc->trace, part[0].rec->layout)->dtype))
            fault = "has a part of another tensor";
        if (fault) {
            snprintf(why, sizeof why, "rank %d's part %s", x->proc->rank, fault);
            if (!is_not_offered(k, v, r, x))
                say_not_whole(k, v, r, why);
            return false;
        }
        ++*n;
    }
    return true;
}

/* One rank's share of a block. */
struct edge {
    uint64_t block;
    struct twin_digest bytes;
};

static int by_block(const void *x, const void *y)
{
    const struct edge *a = x, *b = y;
    return a->block < b->block ? -1 : a->block > b->block;
}

static void add(struct twin_digest *sum, struct twin_digest d)
{
    sum->a += d.a;
    sum->b += d.b;
}

/* The digest of a block that holds these bytes. */
static struct twin_digest of_block(uint64_t block, struct twin_digest bytes)
{
    return twin_digest_bytes(&bytes, sizeof bytes, block * 16);
}

/*
 * The digest of parts that lie side by side. Of a block that several of them share each has
 * digested its own bytes, with zeros around them: that is taken out, and the block as it is comes
 * in its place. room: for 2 * n edges.
 */
static struct twin_digest sum_of(const struct part *part, size_t n, struct edge *room)
{
    struct twin_digest sum = {0, 0};
    size_t edges = 0;
    for (size_t i = 0; i < n; i++) {
        const struct part *x = &part[i];
        if (x->again)
            continue;
        add(&sum, x->rec->digest);
        for (unsigned k = 0; k < x->cuts; k++) {
            const struct twin_digest own = of_block(x->cut[k].block, x->bytes[k]);
            sum.a -= own.a;
            sum.b -= own.b;
            room[edges++] = (struct edge){x->cut[k].block, x->bytes[k]};
        }
    }
    qsort(room, edges, sizeof *room, by_block);
    for (size_t i = 0; i < edges;) {
        struct twin_digest bytes = {0, 0};
        const uint64_t block = room[i].block;
        for (; i < edges && room[i].block == block; i++) {
            bytes.a |= room[i].bytes.a;
            bytes.b |= room[i].bytes.b;
        }
        add(&sum, of_block(block, bytes));
    }
    return sum;
}

/* Do both hold the same values? Of the same part, digested at the same place. */
static bool alike(const struct part *x, const struct part *y)
{
    return x->rec->digest.a == y->rec->digest.a && x->rec->digest.b == y->rec->digest.b &&
           memcmp(x->bytes, y->bytes, x->cuts * sizeof *x->bytes) == 0;
}

/* Marks parts that another rank holds, too. False: they are not the whole, and a reason was given.
 */
static bool are_whole(const struct tw_ranks *k, const struct tw_view *v, const struct tw_rec *r,
                      struct part *part, size_t n)
{
    char why[160];
    uint64_t seen = 0;
    for (size_t i = 0; i < n; i++) {
        struct part *x = &part[i];
        if (tw_box_elements(&x->box, x->box.shape) == 0)
            continue;
        for (size_t j = 0; j < i && !x->again; j++) {
            const struct part *y = &part[j];
            x->again = tw_box_same(&x->box, &y->box);
            if (x->again ? !alike(x, y) : !tw_box_disjoint(&x->box, &y->box)) {
                snprintf(why, sizeof why, "ranks %d and %d hold %s", y->proc->rank, x->proc->rank,
                         x->again ? "other values of the same part" : "parts that overlap");
                say_not_whole(k, v, r, why);
                return false;
            }
        }
        seen += x->again ? 0 : tw_box_elements(&x->box, x->box.shape);
    }
    if (n && seen == tw_box_elements(&part[0].box, part[0].box.whole))
        return true;
    snprintf(why, sizeof why, "the parts that were recorded have %llu of its %llu elements",
             (unsigned long long)seen,
             (unsigned long long)(n ? tw_box_elements(&part[0].box, part[0].box.whole) : 0));
    say_not_whole(k, v, r, why);
    return false;
}

/* Turns rank 0's record of its part into the record of the whole. */
static void make_whole(struct tw_rec *r, const struct part *first, struct twin_digest sum)
{
    const struct twin_layout *l = twin_trace_layout(first->proc->trace, first->rec->layout);
    struct twin_layout whole = {.dtype = l->dtype, .ndim = (uint8_t)first->box.ndim};
    memcpy(whole.shape, first->box.whole, first->box.ndim * sizeof *whole.shape);
    r->flags &= ~(uint32_t)(TWIN_REC_OFFSET | TWIN_REC_STATS | TWIN_REC_SKETCH);
    r->sketch = 0;
    r->stats = (struct twin_stats){0};
    r->digest = sum;
    r->global_offset = 0;
    r->whole = tw_box_elements(&first->box, first->box.whole);
    r->layout_hash = tw_layout_hash(&whole);
    r->content = tw_mix64(tw_mix64(r->layout_hash + sum.a) ^ sum.b);
}

/* Says of the parts that rank 0 has none of that they were compared with nothing. */
static void say_alone(const struct tw_ranks *k, const struct tw_proc *zero, struct tw_left_out *l)
{
    const struct tw_view *own = NULL;
    for (size_t i = 0; i < k->n; i++)
        if (k->view[i].proc == zero)
            own = &k->view[i];
    for (size_t i = 0; own && i < k->n; i++)
        for (size_t j = 0; j < k->view[i].count; j++) {
            const struct tw_rec *r = &k->view[i].rec[j];
            if (tw_is_shard(r) && !tw_is_edge(k->view[i].proc, r) &&
                !tw_ranks_counterpart(own, r)) {
                say_not_whole(k, &k->view[i], r, "rank 0 has no part of it");
                tw_leave_out_tensor(k->c, l, &k->view[i], r);
            }
        }
}

int tw_shards_whole(const struct tw_ranks *k, struct tw_view *zero, struct tw_left_out *l,
                    struct twin_error *err)
{
    struct part *part = tw_calloc(k->side->count, sizeof *part);
    struct edge *room = tw_calloc(2 * k->side->count, sizeof *room);
    int rc = part && room ? 0 : tw_no_memory(err, "adding up the parts of a tensor");
    if (rc == 0)
        say_alone(k, zero->proc, l);
    for (size_t i = 0; rc == 0 && i < zero->count; i++) {
        struct tw_rec *r = &zero->rec[i];
        size_t n;
        if (!tw_is_shard(r) || tw_is_edge(zero->proc, r))
            continue;
        if (collect(k, zero, r, part, &n) && are_whole(k, zero, r, part, n))
            make_whole(r, &part[0], sum_of(part, n, room));
        else
            tw_leave_out_tensor(k->c, l, zero, r);
    }
    tw_free(part);
    tw_free(room);
    return rc;
}

/* ---- which ranks hold what differs */

/* Order of parts in the whole. */
static int by_place(const void *x, const void *y)
{
    const struct part *a = x, *b = y;
    uint64_t p = tw_box_first(&a->box), q = tw_box_first(&b->box);
    if (p != q)
        return p < q ? -1 : 1;
    return a->proc->rank < b->proc->rank ? -1 : a->proc->rank > b->proc->rank;
}

/*
 * One side's parts of a tensor in the order of their places; of a run that holds it whole there are
 * none. False: they do not lie one behind the other.
 */
static bool in_order(struct tw_ranks *k, const struct tw_view *zero, const struct tw_rec *r,
                     struct part *part, size_t *n)
{
    *n = 0;
    if (!collect(k, zero, r, part, n))
        return false;
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (tw_box_elements(&part[i].box, part[i].box.shape) == 0)
            continue;
        if (!tw_box_one_run(&part[i].box))
            return false;
        part[kept++] = part[i];
    }
    *n = kept;
    qsort(part, kept, sizeof *part, by_place);
    for (size_t i = 1; i < kept; i++)
        part[i].again = tw_box_same(&part[i].box, &part[i - 1].box);
    return true;
}

/* Goes over parts from *i on up to one that ends at or behind element `to`, and its copies. */
static uint64_t take_until(const struct part *part, size_t n, size_t *i, uint64_t to)
{
    uint64_t end = 0;
    while (*i < n) {
        const struct part *x = &part[*i];
        if (!x->again && end >= to)
            break;
        end = tw_box_first(&x->box) + tw_box_elements(&x->box, x->box.shape);
        ++*i;
    }
    return end;
}

/* Adds "run 1's rank 1" or "run 2's ranks 2, 3" to a text. */
static void say_ranks(struct tw_buf *text, const struct tw_side *side, const struct part *part,
                      size_t from, size_t to)
{
    tw_buf_printf(text, "run %zu's rank%s ", side->index + 1, to - from > 1 ? "s" : "");
    for (size_t i = from; i < to && i < from + 16; i++)
        tw_buf_printf(text, "%s%d", i > from ? ", " : "", part[i].proc->rank);
    if (to - from > 16)
        tw_buf_puts(text, ", ...");
}

/*
 * Walks both sides' parts from one common edge to the next, and names those stretches whose sums
 * differ. Returns a's rank that holds the first of them; -1: none.
 */
static int32_t name_stretches(struct tw_ranks *ka, const struct part *a, size_t na,
                              struct tw_ranks *kb, const struct part *b, size_t nb,
                              const char *name, struct edge *room)
{
    int32_t first = -1;
    size_t i = 0, j = 0, said = 0;
    uint64_t from = 0;
    while (i < na && j < nb) {
        const size_t begin_a = i, begin_b = j;
        uint64_t end_a = take_until(a, na, &i, from + 1);
        uint64_t end_b = take_until(b, nb, &j, from + 1);
        while (end_a != end_b && (end_a < end_b ? i < na : j < nb)) {
            if (end_a < end_b)
                end_a = take_until(a, na, &i, end_b);
            else
                end_b = take_until(b, nb, &j, end_a);
        }
        if (end_a != end_b)
            break;
        const struct twin_digest x = sum_of(a + begin_a, i - begin_a, room);
        const struct twin_digest y = sum_of(b + begin_b, j - begin_b, room);
        if ((x.a != y.a || x.b != y.b) && said++ < 4) {
            struct tw_buf text = {0};
            first = first < 0 ? a[begin_a].proc->rank : first;
            say_ranks(&text, ka->side, a, begin_a, i);
            tw_buf_puts(&text, ", ");
            say_ranks(&text, kb->side, b, begin_b, j);
            tw_cmp_note(ka->c, "elements %llu to %llu of %.200s differ between the runs: %s",
                        (unsigned long long)from, (unsigned long long)end_a - 1, name,
                        text.data ? text.data : "");
            tw_buf_free(&text);
        }
        from = end_a;
    }
    return first;
}

/* The record of view v that a finding names; NULL: it has none. */
static const struct tw_rec *named(const struct tw_view *v, const struct twin_finding *f)
{
    for (size_t i = 0; i < v->count; i++) {
        const struct tw_rec *r = &v->rec[i];
        if (r->phase == f->phase && r->kind == f->kind && r->occurrence == f->occurrence &&
            strcmp(tw_rec_name(v, r), f->name) == 0 && strcmp(tw_rec_scope(v, r), f->scope) == 0)
            return r;
    }
    return NULL;
}

/* Was it put together of parts? *n: how many elements the whole has. */
static bool was_put_together(const struct tw_view *v, const struct tw_rec *r, uint64_t *n)
{
    struct tw_box b;
    if (!r || !tw_box_of(v->proc, r->series, &b))
        return false;
    *n = tw_box_elements(&b, b.whole);
    return true;
}

void tw_shards_name(struct tw_cmp *c, const struct tw_side *sa, const struct tw_view *a,
                    const struct tw_side *sb, const struct tw_view *b, struct twin_finding *f)
{
    const struct tw_rec *ra = named(a, f), *rb = named(b, f);
    const bool of_a = was_put_together(a, ra, &f->elements);
    const bool of_b = was_put_together(b, rb, &f->elements);
    struct tw_ranks ka = {.c = c, .side = sa, .step = f->step_a};
    struct tw_ranks kb = {.c = c, .side = sb, .step = f->step_b};
    struct part *x = NULL, *y = NULL;
    struct edge *room = NULL;
    int32_t first = -1;
    size_t na = 0, nb = 0;
    if (!of_a && !of_b)
        return;
    if (of_a && of_b) {
        x = tw_calloc(sa->count, sizeof *x);
        y = tw_calloc(sb->count, sizeof *y);
        room = tw_calloc(2 * (sa->count + sb->count), sizeof *room);
        c->oom |= !x || !y || !room;
        if (x && y && room && tw_ranks_load(&ka, a->proc, NULL) == 0 &&
            tw_ranks_load(&kb, b->proc, NULL) == 0 && in_order(&ka, a, ra, x, &na) &&
            in_order(&kb, b, rb, y, &nb))
            first = name_stretches(&ka, x, na, &kb, y, nb, f->name, room);
    }
    if (first >= 0)
        f->rank = first;
    else
        tw_cmp_note(c,
                    "%.200s was compared as a whole, put together from the parts of several ranks: "
                    "which rank's part differs is not known",
                    f->name);
    tw_ranks_free(&ka);
    tw_ranks_free(&kb);
    tw_free(x);
    tw_free(y);
    tw_free(room);
}
