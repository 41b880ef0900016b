/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large tensors that are recorded in parts: in each step another part of them (TWIN_REC_PART). A
 * part that only one run recorded in a step says nothing about the other run. coverage.c calls
 * tw_whole() before "same" may be said: over all steps that were compared it adds up how many of
 * the elements that exist were looked at, how long an element had to wait for its turn, and whether
 * the end was compared in every element: only then can "the same" be said of tensors, and not of
 * samples of them. The smaller questions, about one record or one step, are for stepdiff.c,
 * origin.c and scan.c.
 */
#include "internal.h"
#include "scan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * Records of one trace: beyond that the counting itself would take minutes. Tests make it smaller.
 */
uint64_t tw_whole_limit = 50000000;

/* ---- the tensor that a part belongs to: its name without "[first:end]" */

/* The length of the tensor's own name. */
static size_t base_length(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || name[n - 1] != ']')
        return n;
    size_t at = n - 1;
    while (at > 0 && name[at] != '[')
        at--;
    return name[at] == '[' ? at : n;
}

/* Is b, of view y, a part of the tensor that a, of view x, is a part of? */
static bool same_tensor(const struct tw_view *x, const struct tw_rec *a, const struct tw_view *y,
                        const struct tw_rec *b)
{
    if (!(b->flags & TWIN_REC_PART) || a->phase != b->phase || a->kind != b->kind)
        return false;
    const char *name = tw_rec_name(x, a), *other = tw_rec_name(y, b);
    size_t n = base_length(name);
    return n == base_length(other) && memcmp(name, other, n) == 0 &&
           strcmp(tw_rec_scope(x, a), tw_rec_scope(y, b)) == 0 &&
           strcmp(tw_rec_role(x, a), tw_rec_role(y, b)) == 0;
}

bool tw_part_elsewhere(const struct tw_view *own, const struct tw_rec *r,
                       const struct tw_view *other)
{
    if (!(r->flags & TWIN_REC_PART))
        return false;
    for (size_t i = 0; i < other->count; i++)
        if (other->rec[i].token == r->token)
            return false; /* it has this part, less often */
    for (size_t i = 0; i < other->count; i++)
        if (same_tensor(own, r, other, &other->rec[i]))
            return true;
    return false;
}

/* How many numbers a layout has; 0 when one of its dimensions has none. */
static uint64_t elements_in(struct twin_trace *t, uint32_t layout)
{
    const struct twin_layout *l = twin_trace_layout(t, layout);
    uint64_t n = 1;
    for (unsigned i = 0; i < l->ndim && i < TWIN_MAX_NDIM; i++)
        n *= l->shape[i] > 0 ? (uint64_t)l->shape[i] : 0;
    return n;
}

static uint64_t elements_of(struct twin_trace *t, const struct twin_trace_record *r)
{
    return elements_in(t, r->layout);
}

/* Records of one look: first to last, both in it. */
struct look {
    const struct tw_rec *first, *last;
};

/* Is the part in the look already? */
static bool in_look(const struct look *l, const struct tw_rec *part)
{
    for (const struct tw_rec *i = l->first; i <= l->last; i++)
        if (i->token == part->token && i->thread == part->thread)
            return true;
    return false;
}

/*
 * Makes the look larger in one direction: until its thread records something else, another step
 * begins, or a part of the tensor of r comes again. Returns the elements of that tensor.
 */
static uint64_t widen(const struct tw_view *v, const struct tw_rec *r, struct look *l,
                      int direction)
{
    uint64_t seen = 0;
    for (const struct tw_rec *i = r;;) {
        if (i == (direction < 0 ? v->rec : v->rec + v->count - 1))
            break;
        i += direction;
        if (i->step != r->step)
            break;
        bool own = i->thread == r->thread;
        if (own && (!(i->flags & TWIN_REC_PART) || i->phase != r->phase || i->kind != r->kind))
            break;
        if (own && same_tensor(v, r, v, i)) {
            if (in_look(l, i))
                break;
            seen += elements_in(v->proc->trace, i->layout);
        }
        *(direction < 0 ? &l->first : &l->last) = i;
    }
    return seen;
}

bool tw_part_alone(const struct tw_view *v, const struct tw_rec *r)
{
    assert(r >= v->rec && r < v->rec + v->count);
    struct look l = {r, r};
    uint64_t seen = elements_in(v->proc->trace, r->layout);
    seen += widen(v, r, &l, 1);
    seen += widen(v, r, &l, -1);
    return seen < r->whole;
}

/* ---- all parts of one process */

/*
 * A tensor in parts. It is looked at as often as a function is called or an optimizer steps, which
 * may be many times in one step of the job (twinrun.step()). Parts of several looks are no whole.
 *
 * A stretch, number `stretch`, is what its thread records without anything else in between, behind
 * `others` other records, in step `step`. It holds as many looks as one of its parts comes often in
 * it: `looks`. `sum` is how many elements were compared so far, and at `from` that sum was when the
 * last parts began of which none came twice. `compared` and `elements` are sums over all looks.
 */
struct tensor {
    uint64_t key, whole, sum, from, compared, elements, stretch, others;
    uint32_t step, looks;
    enum twin_kind kind;
    bool joined; /* it was compared as a whole, which turns.c accounts for */
};
/*
 * One of its parts; `last` is the step in which it was compared last, and `sum` the tensor's sum
 * behind it; `times` is how often it came in stretch `stretch`. known: the entry is filled.
 */
struct part {
    size_t tensor;
    uint64_t stretch, sum;
    uint32_t last, times;
    bool known;
};
/* A thread, and how many records it has made that are no parts that count. */
struct recorder {
    uint32_t thread;
    uint64_t others;
};

/* The counting for one pair of processes. */
struct book {
    struct tw_cmp *c;
    const struct tw_scan *scan;
    struct tensor *tensor;
    size_t tensors, tensor_room;
    struct part *part; /* per series */
    size_t part_room;
    struct recorder *recorder;
    size_t recorders, recorder_room;
    /* (step, key) of parts that b recorded, sorted; NULL: all that a has are in b */
    uint64_t *both;
    size_t both_count, both_room;
    uint64_t records; /* read so far */
    /* steps of a that were compared: [first, end); last: where the end is looked for, too */
    uint32_t first, end, last;
    uint32_t every[TWIN_KIND_COUNT];
};

/*
 * Only what a step hands on counts: what the optimizer left, weights and its own state, where that
 * was compared, and what a jitted function gives to its next call (jax_parts.py).
 */
static bool series_counts(const struct tw_scan *scan, const struct twin_series *s)
{
    if (s->phase == TWIN_PHASE_FORWARD && s->kind == TWIN_KIND_ACTIVATION)
        return !scan->weights_only;
    return s->phase == TWIN_PHASE_OPTIMIZER &&
           (s->kind == TWIN_KIND_WEIGHT ||
            (s->kind == TWIN_KIND_MOMENT && (!scan->weights_only || scan->moments)));
}

/* One number for a part in a step of a, the same for both processes. */
static uint64_t step_and_key(uint32_t step, uint64_t key)
{
    return tw_mix64(key ^ (uint64_t)step * UINT64_C(0x9E3779B97F4A7C15));
}

/* Order of numbers, for qsort and bsearch. */
static int compare_words(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/*
 * Callback of the walk over b: notes each part that b recorded, in a's count of steps. Ends the
 * walk with 1 when memory runs out.
 */
static int note_other(void *user, const struct twin_trace_record *r)
{
    struct book *k = user;
    if (!(r->flags & TWIN_REC_PART))
        return 0;
    if (!tw_cmp_room(k->c, &k->both, k->both_count, &k->both_room, sizeof *k->both))
        return 1;
    uint32_t step = (uint32_t)((int64_t)r->step - k->scan->shift);
    k->both[k->both_count++] = step_and_key(step, tw_proc_key(k->scan->pair->b, r->series));
    return 0;
}

/*
 * The index of the tensor that this series is a part of, made when it is new. TW_NONE: no memory.
 */
static size_t tensor_of(struct book *k, const struct twin_series *s, uint64_t whole)
{
    struct twin_trace *t = k->scan->pair->a->trace;
    const char *name = twin_trace_string(t, s->name);
    char *base = tw_cmp_text(k->c, "%.*s", (int)base_length(name), name);
    if (!base)
        return TW_NONE;
    uint64_t key = tw_key_hash(s->phase, s->kind, base, twin_trace_string(t, s->scope),
                               twin_trace_string(t, s->role));
    tw_free(base);
    for (size_t i = 0; i < k->tensors; i++)
        if (k->tensor[i].key == key)
            return i;
    if (!tw_cmp_room(k->c, &k->tensor, k->tensors, &k->tensor_room, sizeof *k->tensor))
        return TW_NONE;
    k->tensor[k->tensors] = (struct tensor){
        .key = key, .whole = whole, .step = UINT32_MAX, .kind = (enum twin_kind)s->kind};
    for (size_t i = 0; i < k->scan->joins; i++)
        k->tensor[k->tensors].joined |= k->scan->joined[i] == key;
    return k->tensors++;
}

/*
 * The entry of a record's series, made when it is new. NULL: no memory. A new part has waited since
 * the first compared step.
 */
static struct part *part_of(struct book *k, const struct twin_trace_record *r,
                            const struct twin_series *s)
{
    while (r->series >= k->part_room) {
        size_t before = k->part_room;
        if (!tw_cmp_room(k->c, &k->part, before, &k->part_room, sizeof *k->part))
            return NULL;
        memset(k->part + before, 0, (k->part_room - before) * sizeof *k->part);
    }
    struct part *p = &k->part[r->series];
    if (p->known)
        return p;
    *p = (struct part){.tensor = tensor_of(k, s, r->whole), .last = k->first, .known = true};
    return p->tensor == TW_NONE ? NULL : p;
}

/* The entry of the thread that made a record, made when it is new. NULL: no memory. */
static struct recorder *recorder_of(struct book *k, uint32_t thread)
{
    for (size_t i = 0; i < k->recorders; i++)
        if (k->recorder[i].thread == thread)
            return &k->recorder[i];
    if (!tw_cmp_room(k->c, &k->recorder, k->recorders, &k->recorder_room, sizeof *k->recorder))
        return NULL;
    k->recorder[k->recorders] = (struct recorder){.thread = thread};
    return &k->recorder[k->recorders++];
}

/* Counts a part to the look that it belongs to. In a new one all of the tensor's elements exist. */
static void look_at_part(struct book *k, struct tensor *t, struct part *p, uint32_t step,
                         uint64_t others)
{
    if (t->step != step || t->others != others) {
        t->step = step;
        t->others = others;
        t->stretch++;
        t->from = t->sum;
        t->looks = 0;
    }
    if (p->stretch != t->stretch) {
        p->stretch = t->stretch;
        p->times = 0;
    } else if (p->sum > t->from) {
        t->from = p->sum; /* what came before it, and itself, is of an earlier look */
    }
    if (++p->times > t->looks) {
        t->looks = p->times;
        t->elements += step < k->end ? t->whole : 0;
    }
}

/*
 * Callback of the walk over a: adds one part to the book. Ends the walk with 1 at tw_whole_limit or
 * when memory runs out.
 */
static int take_part(void *user, const struct twin_trace_record *r)
{
    struct book *k = user;
    if (++k->records > tw_whole_limit)
        return 1;
    const struct twin_series *s = twin_trace_series(k->scan->pair->a->trace, r->series);
    struct recorder *by = recorder_of(k, r->thread);
    if (!by)
        return 1;
    if (!(r->flags & TWIN_REC_PART) || !series_counts(k->scan, s)) {
        by->others++;
        return 0;
    }
    if (r->flags & TWIN_REC_UNOBSERVED || r->step < k->first || r->step > k->last)
        return 0;
    uint64_t key = step_and_key(r->step, tw_proc_key(k->scan->pair->a, r->series));
    bool compared = !k->both || bsearch(&key, k->both, k->both_count, sizeof key, compare_words);
    struct part *p = part_of(k, r, s);
    if (!p)
        return 1;
    struct tensor *t = &k->tensor[p->tensor];
    if (t->joined)
        return 0;
    look_at_part(k, t, p, r->step, by->others);
    p->sum = t->sum;
    if (!compared)
        return 0;
    uint64_t n = elements_of(k->scan->pair->a->trace, r);
    t->sum += n;
    p->sum = t->sum;
    t->compared += r->step < k->end ? n : 0;
    uint32_t waited = r->step - p->last;
    if (waited > k->every[s->kind])
        k->every[s->kind] = waited;
    p->last = r->step;
    return 0;
}

/*
 * A part that had no turn for long before the end waited, too: counts the steps from its last turn
 * to the end.
 */
static void wait_to_the_end(struct book *k)
{
    for (size_t i = 0; i < k->part_room; i++) {
        const struct part *p = &k->part[i];
        if (!p->known || p->tensor == TW_NONE)
            continue;
        const struct tensor *t = &k->tensor[p->tensor];
        if (t->joined)
            continue;
        uint32_t end = k->end > 0 ? k->end - 1 : 0, waited = end > p->last ? end - p->last : 0;
        if (waited > k->every[t->kind])
            k->every[t->kind] = waited;
    }
}

/* The verdict's entry for this kind, made when it is new. NULL: no memory. */
static struct twin_cover *cover_of(struct tw_cmp *c, enum twin_kind kind)
{
    struct twin_verdict *v = c->v;
    for (size_t i = 0; i < v->cover_count; i++)
        if (v->covers[i].kind == kind)
            return &v->covers[i];
    struct twin_cover *grown = tw_reallocarray(v->covers, v->cover_count + 1, sizeof *grown);
    if (!grown) {
        c->oom = true;
        return NULL;
    }
    v->covers = grown;
    v->covers[v->cover_count] = (struct twin_cover){.kind = kind, .every = 1};
    return &v->covers[v->cover_count++];
}

/* Adds the tensors of one process to the verdict's entries. */
static void add_up(struct book *k)
{
    for (size_t i = 0; i < k->tensors; i++) {
        const struct tensor *t = &k->tensor[i];
        if (t->joined)
            continue;
        struct twin_cover *v = cover_of(k->c, t->kind);
        if (!v)
            return;
        bool at_end = t->step != UINT32_MAX && t->step + 1 >= k->end;
        v->tensors++;
        /* What is wrong at the end of a trainer that is continued is still wrong at the end of the
         * one that goes on. */
        v->whole_at_end += k->scan->pair->continued || (at_end && t->sum - t->from >= t->whole);
        v->compared += t->compared;
        v->elements += t->elements;
        v->every = k->every[t->kind] > v->every ? k->every[t->kind] : v->every;
    }
}

/* Does the agent say that this process recorded tensors in parts? */
static bool in_parts(struct twin_trace *t)
{
    return twin_trace_note_of(t, "parts") != NULL;
}

/*
 * Does the whole counting for one pair of processes. b's trace is read only where one of the two
 * had parts that the other had not.
 */
static void one_process(struct tw_cmp *c, const struct tw_scan *s)
{
    struct book k = {.c = c, .scan = s};
    k.first = (uint32_t)s->first;
    k.end = (uint32_t)s->end;
    k.last = s->tail_seen || k.end == 0 ? k.end : k.end - 1;
    if (s->elsewhere > 0) {
        twin_trace_walk(s->pair->b->trace, note_other, NULL, &k, NULL);
        if (k.both_count)
            qsort(k.both, k.both_count, sizeof *k.both, compare_words);
    }
    twin_trace_walk(s->pair->a->trace, take_part, NULL, &k, NULL);
    if (k.records > tw_whole_limit)
        tw_cmp_unseen(
            c,
            "rank %d: whether every element of large tensors was looked at: more than %llu records",
            s->pair->a->rank, (unsigned long long)tw_whole_limit);
    wait_to_the_end(&k);
    add_up(&k);
    tw_free(k.tensor);
    tw_free(k.part);
    tw_free(k.recorder);
    tw_free(k.both);
}

static const char *kind_text(enum twin_kind kind)
{
    if (kind == TWIN_KIND_ACTIVATION)
        return "what functions give to their next call";
    return kind == TWIN_KIND_WEIGHT ? "weights" : "optimizer state";
}

/* A missing end is a reason against "same"; elements that had to wait are a note. */
static void say_cover(struct tw_cmp *c, const struct twin_cover *v)
{
    if (v->whole_at_end < v->tensors)
        tw_cmp_unseen(
            c, "%s: the end of %llu of %llu large tensors, which were compared in parts only",
            kind_text(v->kind), (unsigned long long)(v->tensors - v->whole_at_end),
            (unsigned long long)v->tensors);
    if (v->compared >= v->elements)
        return;
    double share = 100 * (double)v->compared / (double)v->elements;
    const char *end = v->whole_at_end == v->tensors ? ", and all of them at the end" : "";
    tw_cmp_note(c,
                "%s: of tensors of 65,536 elements and more %.3g%% of the elements were compared "
                "in a step, each at least every %u steps%s",
                kind_text(v->kind), share, v->every, end);
}

void tw_whole(struct tw_cmp *c, const struct tw_scan *scans, size_t count)
{
    if (c->quick && !c->judged)
        return;
    c->v->cover_count = 0; /* of the comparison at hand */
    for (size_t i = 0; i < count; i++)
        if ((!scans[i].pair->auxiliary || tw_pair_steps(scans[i].pair)) &&
            scans[i].end > scans[i].first && in_parts(scans[i].pair->a->trace))
            one_process(c, &scans[i]);
    for (size_t i = 0; i < c->v->cover_count; i++)
        say_cover(c, &c->v->covers[i]);
}

/* ---- one step */

/* Is this record a part of the same tensor as one of series `wanted`, of the same trace? */
static bool is_part_of(struct twin_trace *t, const struct twin_trace_record *r,
                       const struct twin_series *wanted)
{
    const struct twin_series *s = twin_trace_series(t, r->series);
    const char *name = twin_trace_string(t, wanted->name), *other = twin_trace_string(t, s->name);
    size_t n = base_length(name);
    return r->flags & TWIN_REC_PART && s->phase == wanted->phase && s->kind == wanted->kind &&
           s->scope == wanted->scope && n == base_length(other) && memcmp(name, other, n) == 0;
}

/* 1 also where nothing is recorded in parts, or the step cannot be read. */
double tw_share_of_elements(struct tw_proc *p, uint32_t step, enum twin_kind kind)
{
    struct twin_trace_record *r = NULL;
    size_t n = 0, first = 0;
    if (!in_parts(p->trace) ||
        twin_trace_read(p->trace, step, step, TW_MAX_STEP_RECORDS, &r, &n, NULL) != 0)
        return 1;
    /* all tensors in parts have the same turn: one of them tells for all */
    for (; first < n; first++) {
        const struct twin_series *s = twin_trace_series(p->trace, r[first].series);
        if (r[first].flags & TWIN_REC_PART && s->kind == kind && s->phase == TWIN_PHASE_OPTIMIZER &&
            r[first].whole > 0)
            break;
    }
    double seen = 0, whole = first < n ? (double)r[first].whole : 0;
    for (size_t i = first; i < n; i++)
        if (is_part_of(p->trace, &r[i], twin_trace_series(p->trace, r[first].series)))
            seen += (double)elements_of(p->trace, &r[i]);
    twin_trace_records_free(r);
    return whole > 0 && seen < whole ? seen / whole : 1;
}
