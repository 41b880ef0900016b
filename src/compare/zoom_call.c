/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the operation to name in one step of a zoom pair (tw_zoom_find(), called by zoom.c). A call
 * is the records of one operation: its inputs, then its outputs. The first call whose inputs were
 * all seen whole and equal, and whose output is another, is the origin; nothing else is. A call
 * that passes a difference on although nothing before it made one got it from somewhere invisible:
 * from what one run alone called before, or from something that is no operation.
 */
#include "zoom.h"

#include <stdlib.h>
#include <string.h>

/* Parts of names of operations that draw random numbers. */
static const char *const drawing[] = {"rand",       "dropout",     "bernoulli",    "normal_",
                                      "uniform_",   "multinomial", "exponential_", "poisson",
                                      "geometric_", "cauchy_",     "rrelu",        NULL};
/* Parts of names of operations that give memory with whatever was in it. */
static const char *const unwritten[] = {"::empty", "::new_empty", "resize_", NULL};

/*
 * The length of the operation's name in a record's name: of "aten::mm.out0" that of "aten::mm"; all
 * of it when it has no such end. *number: of the input or output, 0 without one.
 */
static size_t op_length(const char *name, unsigned *number)
{
    const char *dot = strrchr(name, '.');
    *number = 0;
    if (!dot || (!tw_starts(dot, ".in") && !tw_starts(dot, ".out")))
        return strlen(name);
    const char *digits = dot + (tw_starts(dot, ".in") ? 3 : 4);
    if (strspn(digits, "0123456789") != strlen(digits))
        return strlen(name);
    *number = (unsigned)strtoul(digits, NULL, 10);
    return (size_t)(dot - name);
}

static bool is_kernel(const struct tw_rec *r)
{
    return r->phase == TWIN_PHASE_KERNEL;
}

/* Is this record of an operation one of its inputs, by kind or by name? */
static bool is_input(const struct tw_view *v, const struct tw_rec *r)
{
    const char *name = tw_rec_name(v, r), *dot = strrchr(name, '.');
    return r->kind == TWIN_KIND_IN || (dot && tw_starts(dot, ".in"));
}

char *tw_zoom_op(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r)
{
    unsigned number;
    const char *name = tw_rec_name(v, r), *op = tw_rec_op(v, r);
    size_t n = op_length(name, &number);
    if (op[0])
        return tw_cmp_copy(c, op);
    return tw_cmp_text(c, "%.*s", (int)(n < 500 ? n : 500), name);
}

/*
 * Are the two records of calls of one operation, by one module and thread? Where records name the
 * operation itself, that decides; else the name without its end.
 */
static bool same_operation(const struct tw_view *v, const struct tw_rec *r, const struct tw_view *w,
                           const struct tw_rec *s)
{
    unsigned number;
    const char *p = tw_rec_op(v, r);
    const char *q = tw_rec_op(w, s);
    const char *name = tw_rec_name(v, r);
    const char *other = tw_rec_name(w, s);
    size_t n = op_length(name, &number), m = op_length(other, &number);
    if (strcmp(tw_rec_scope(v, r), tw_rec_scope(w, s)) != 0 ||
        strcmp(tw_rec_role(v, r), tw_rec_role(w, s)) != 0)
        return false;
    if (p[0] || q[0])
        return strcmp(p, q) == 0;
    return n == m && strncmp(name, other, n) == 0;
}

/* Does the name hold one of the parts? */
static bool name_has(const char *name, const char *const *parts)
{
    for (; *parts; parts++)
        if (strstr(name, *parts))
            return true;
    return false;
}

bool tw_zoom_unwritten(const char *op)
{
    return name_has(op, unwritten);
}

/* ---- calls */

/* One call in view a. in, out: the first input and output that differ; NULL: none. */
struct call {
    size_t first, last;            /* of a */
    size_t inputs, records, alone; /* how many; alone: those that b has not */
    const struct tw_diff *in, *out;
    /* what differs among the inputs is the state that it draws from */
    bool generator;
    const struct tw_rec *hidden; /* an input that was not seen whole, in view `in_view` */
    const struct tw_view *in_view;
};

/* Hashes of names of records, sorted. */
struct names {
    uint64_t *hash;
    size_t n;
};

/* What a step shows, prepared for looking things up. */
struct step {
    const struct tw_view *a, *b;
    const struct tw_stepdiff *d;
    struct names names_a, names_b;   /* of the records of operations */
    const struct tw_diff **by_index; /* the difference of each record of a, or NULL */
};

/*
 * Does record i belong to the call that began at `first` and had its last record at `previous`?
 * Inputs come before outputs, and the first record's name does not come twice in one call.
 */
static bool belongs(const struct tw_view *v, size_t first, size_t previous, size_t i)
{
    const struct tw_rec *head = &v->rec[first], *p = &v->rec[previous], *r = &v->rec[i];
    bool again = head->kind == r->kind && strcmp(tw_rec_name(v, head), tw_rec_name(v, r)) == 0;
    return same_operation(v, p, v, r) && (is_input(v, p) || !is_input(v, r)) && !again;
}

/* Adds input i to the call: does it differ, and was it seen whole in both runs? */
static void take_input(const struct step *s, size_t i, struct call *out)
{
    const struct tw_rec *r = &s->a->rec[i];
    const struct tw_diff *d = s->by_index[i];
    size_t j = s->d->to_b[i];
    const char *end = strrchr(tw_rec_name(s->a, r), '.');
    out->inputs++;
    if (d && !out->in) {
        out->in = d;
        out->generator = end && strcmp(end, ".generator") == 0;
    }
    bool in_b = j != TW_NONE && tw_rec_in_part(s->b, &s->b->rec[j]);
    if (!out->hidden && !d && (j == TW_NONE || in_b || tw_rec_in_part(s->a, r))) {
        out->hidden = in_b ? &s->b->rec[j] : r;
        out->in_view = in_b ? s->b : s->a;
    }
}

/* Looks for an input that only b's call has: such records stand between the records of a's call. */
static void take_inputs_of_b(const struct step *s, struct call *out)
{
    for (size_t i = 0; i < s->d->count && !out->in; i++) {
        const struct tw_diff *d = &s->d->d[i];
        bool inside = d->at > 2 * (out->first + 1) && d->at < 2 * (out->last + 1);
        if (d->type == TWIN_FINDING_ONLY_B && inside && is_kernel(&s->b->rec[d->b]) &&
            is_input(s->b, &s->b->rec[d->b]) &&
            same_operation(s->a, &s->a->rec[out->first], s->b, &s->b->rec[d->b]))
            out->in = d;
    }
}

/*
 * Adds the inputs that an output says that it was made from, where other threads' records stand
 * between the two.
 */
static void take_links(const struct step *s, size_t i, struct call *out)
{
    const struct tw_rec *r = &s->a->rec[i];
    for (size_t k = 0; k < r->link_count; k++) {
        uint32_t step = (uint32_t)(s->a->link[r->link + k] >> 32);
        uint32_t seq = (uint32_t)s->a->link[r->link + k];
        for (size_t j = out->first; j-- > 0 && step == r->step;)
            if (s->a->rec[j].seq == seq && s->a->rec[j].step == step) {
                take_input(s, j, out);
                break;
            } else if (s->a->rec[j].seq < seq) {
                break;
            }
    }
}

/* Reads the next call at or after *at, and moves *at behind it. False at the end. */
static bool next_call(const struct step *s, size_t *at, struct call *out)
{
    const struct tw_view *v = s->a;
    while (*at < v->count && !is_kernel(&v->rec[*at]))
        ++*at;
    if (*at >= v->count)
        return false;
    *out = (struct call){.first = *at, .last = *at};
    for (size_t i = *at; i < v->count; i++) {
        if (!is_kernel(&v->rec[i]))
            continue;
        if (i > *at && !belongs(v, out->first, out->last, i))
            break;
        out->last = i;
        out->records++;
        out->alone += s->by_index[i] && s->by_index[i]->type == TWIN_FINDING_ONLY_A;
        if (is_input(v, &v->rec[i])) {
            take_input(s, i, out);
            continue;
        }
        take_links(s, i, out);
        if (s->by_index[i] && !out->out)
            out->out = s->by_index[i];
    }
    take_inputs_of_b(s, out);
    *at = out->last + 1;
    return true;
}

/* ---- what to name */

/* Fills out with the difference to name and how it was found. */
static void take_call(struct tw_cmp *c, const struct step *s, const struct tw_diff *d,
                      enum tw_zoom_how how, struct tw_zoom_found *out)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(d, s->a, s->b, &v);
    out->how = how;
    out->diff = d;
    out->op = tw_zoom_op(c, v, r);
    out->site = tw_cmp_copy(c, tw_rec_site(v, r));
    op_length(tw_rec_name(v, r), &out->number);
}

/*
 * Names the last operation that both made before the place `at` in the step, and that was equal.
 * NULL: none, or no memory.
 */
static char *operation_before(struct tw_cmp *c, const struct step *s, size_t at)
{
    for (size_t i = s->a->count; i-- > 0;) {
        const struct tw_rec *r = &s->a->rec[i];
        if (2 * (i + 1) < at && is_kernel(r) && !s->by_index[i] && s->d->to_b[i] != TW_NONE)
            return tw_rec_say(c, s->a, r);
    }
    return NULL;
}

static uint64_t hash_name(const struct tw_view *v, const struct tw_rec *r)
{
    const char *name = tw_rec_name(v, r);
    return tw_hash_bytes(name, strlen(name), r->kind).a;
}

static int hash_order(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

/* The names of all records of operations, in whatever scope and thread, sorted. */
static void list_names(const struct tw_view *v, struct names *out)
{
    out->hash = tw_reallocarray(NULL, v->count, sizeof *out->hash);
    for (size_t i = 0; out->hash && i < v->count; i++)
        if (is_kernel(&v->rec[i]))
            out->hash[out->n++] = hash_name(v, &v->rec[i]);
    if (out->n)
        qsort(out->hash, out->n, sizeof *out->hash, hash_order);
}

static size_t count_below(const struct names *names, uint64_t hash)
{
    size_t low = 0, high = names->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (names->hash[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t count_named(const struct names *names, uint64_t hash)
{
    return (hash == UINT64_MAX ? names->n : count_below(names, hash + 1)) -
           count_below(names, hash);
}

/*
 * Did both runs call the operation of r equally often in this step? Then a call of r's has no
 * counterpart because another thread, or another module, made it there: neither run made it alone.
 */
static bool called_as_often(const struct step *s, const struct tw_view *v, const struct tw_rec *r)
{
    const uint64_t hash = hash_name(v, r);
    return count_named(&s->names_a, hash) == count_named(&s->names_b, hash);
}

/*
 * A call that one run alone made, before `at`: its first output, or its first record when it has
 * none. NULL: there is no such call.
 */
static const struct tw_diff *alone_before(const struct step *s, size_t at)
{
    const struct tw_diff *first = NULL;
    for (size_t i = 0; i < s->d->count && s->d->d[i].at < at; i++) {
        const struct tw_diff *d = &s->d->d[i];
        const struct tw_view *v, *w;
        const struct tw_rec *r = tw_diff_rec(d, s->a, s->b, &v);
        if (!is_kernel(r) || (d->type != TWIN_FINDING_ONLY_A && d->type != TWIN_FINDING_ONLY_B) ||
            called_as_often(s, v, r))
            continue;
        if (!first)
            first = d;
        const struct tw_rec *head = tw_diff_rec(first, s->a, s->b, &w);
        if (v != w || !same_operation(v, r, w, head))
            break;
        if (!is_input(v, r))
            return d;
    }
    return first;
}

/* Names a call that one run made more often than the other. */
static void take_alone(struct tw_cmp *c, const struct step *s, const struct tw_diff *alone,
                       struct tw_zoom_found *out)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(alone, s->a, s->b, &v);
    const uint64_t hash = hash_name(v, r);
    take_call(c, s, alone, TW_ZOOM_ALONE, out);
    out->calls[0] = count_named(&s->names_a, hash);
    out->calls[1] = count_named(&s->names_b, hash);
}

/*
 * Names what to blame for a call that was given a difference: a call of one run alone before it,
 * the generator that it drew from, or its own input.
 */
static void take_passed_on(struct tw_cmp *c, const struct step *s, const struct call *call,
                           struct tw_zoom_found *out)
{
    const struct tw_diff *alone = alone_before(s, 2 * (call->first + 1));
    const struct tw_view *v;
    const struct tw_rec *r = alone ? tw_diff_rec(alone, s->a, s->b, &v) : NULL;
    if (alone && (!call->generator || name_has(tw_rec_name(v, r), drawing)))
        take_alone(c, s, alone, out);
    else if (call->generator)
        take_call(c, s, call->out ? call->out : call->in, TW_ZOOM_DREW, out);
    else
        take_call(c, s, call->in, TW_ZOOM_INPUT, out);
    out->before = operation_before(c, s,
                                   out->how == TW_ZOOM_ALONE ? alone->at : 2 * (call->first + 1));
}

/*
 * Names a call that was given equal inputs and gave another output. It is an origin only when all
 * inputs were seen whole; one that draws after a generator differed drew from that generator.
 */
static void take_made(struct tw_cmp *c, const struct step *s, const struct call *call,
                      struct tw_zoom_found *out)
{
    uint64_t dropped = s->a->dropped + s->b->dropped;
    if (out->drew && name_has(tw_rec_name(s->a, &s->a->rec[call->first]), drawing)) {
        take_call(c, s, call->out, TW_ZOOM_DREW, out);
        return;
    }
    bool whole = !call->hidden && call->inputs > 0 && dropped == 0;
    take_call(c, s, call->out, whole ? TW_ZOOM_ORIGIN : TW_ZOOM_HIDDEN, out);
    out->inputs = call->inputs;
    if (whole)
        return;
    if (call->hidden)
        out->before = tw_cmp_text(c, "%.200s (an input that was not seen whole)",
                                  tw_rec_name(call->in_view, call->hidden));
    else if (dropped)
        out->before = tw_cmp_text(c, "%llu records without details", (unsigned long long)dropped);
    else
        out->before = tw_cmp_text(c, "the arguments of %.200s, which were not seen",
                                  out->op ? out->op : "?");
}

/*
 * Goes through the calls in execution order until one is to be named. A call whose input differs
 * and whose output does not has healed the difference (it was a buffer to write to); the first such
 * call is named only when there is nothing better. True when something is named.
 */
static bool find_call(struct tw_cmp *c, const struct step *s, struct tw_zoom_found *out)
{
    struct call call, only_input = {0};
    /*
     * The output of a call that gave unwritten memory which differs: it is to blame once another
     * call reads a difference.
     */
    const struct tw_diff *memory = NULL;
    for (size_t at = 0; next_call(s, &at, &call);) {
        if (call.records == call.alone)
            continue;
        if (!call.out && call.in && !only_input.in)
            only_input = call;
        if (!call.out)
            continue;
        if (!call.in && tw_zoom_unwritten(tw_rec_name(s->a, &s->a->rec[call.first])))
            memory = call.out;
        else if (call.in && memory)
            take_call(c, s, memory, TW_ZOOM_UNWRITTEN, out);
        else if (call.in)
            take_passed_on(c, s, &call, out);
        else
            take_made(c, s, &call, out);
        if (out->diff)
            return true;
    }
    const struct tw_diff *alone = alone_before(s, SIZE_MAX);
    if (only_input.in) /* the last that was seen, for example when the output was not recorded */
        take_passed_on(c, s, &only_input, out);
    else if (alone)
        take_alone(c, s, alone, out);
    if (alone && !out->before)
        out->before = operation_before(c, s, alone->at);
    return out->diff != NULL;
}

bool tw_zoom_find(struct tw_cmp *c, const struct tw_stepdiff *d, const struct tw_view *a,
                  const struct tw_view *b, struct tw_zoom_found *out)
{
    struct step s = {.a = a, .b = b, .d = d};
    s.by_index = tw_calloc(a->count, sizeof *s.by_index);
    list_names(a, &s.names_a);
    list_names(b, &s.names_b);
    const bool memory = s.by_index && s.names_a.hash && s.names_b.hash;
    c->oom |= !memory;
    for (size_t i = 0; s.by_index && i < d->count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d->d[i], a, b, &v);
        if (!tw_diff_significant(&d->d[i]))
            continue;
        out->drew |= r->kind == TWIN_KIND_STATE;
        if (is_kernel(r) && d->d[i].a != TW_NONE)
            s.by_index[d->d[i].a] = &d->d[i];
    }
    bool found = memory && find_call(c, &s, out);
    tw_free(s.by_index);
    tw_free(s.names_a.hash);
    tw_free(s.names_b.hash);
    return found;
}

void tw_zoom_found_free(struct tw_zoom_found *f)
{
    tw_free(f->op);
    tw_free(f->site);
    tw_free(f->before);
}
