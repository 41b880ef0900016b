/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a zoom pair shows: two reruns of the suspect window in which every operation recorded its inputs and outputs. The
 * first operation whose inputs are all equal and whose output is not is the origin; one whose input already differs while
 * nothing before it did says that something between two operations is invisible.
 */
#include "internal.h"
#include "ulp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_CAP ((size_t)256 << 20)

/* "aten::mm.out0" -> length of "aten::mm"; the whole name when it has no such end. *input says which. */
static size_t op_length(const char *name, bool *input, unsigned *number)
{
    const char *dot = strrchr(name, '.');
    *input = false;
    *number = 0;
    if (dot && tw_starts(dot, ".in"))
        *input = true;
    else if (!dot || !tw_starts(dot, ".out"))
        return strlen(name);
    const char *digits = dot + (*input ? 3 : 4);
    if (strspn(digits, "0123456789") != strlen(digits))
        return strlen(name);
    *number = (unsigned)strtoul(digits, NULL, 10);
    return (size_t)(dot - name);
}

static bool is_kernel(const struct tw_rec *r)
{
    return r->phase == TWIN_PHASE_KERNEL;
}

struct found {
    const struct tw_rec *a, *b;  /* the output (or input) that differs; one may be NULL */
    bool origin, drew;           /* drew: it draws, and a generator's state differed before */
    char *op, *before, *site;    /* the operation; the one before it when something between is invisible */
    unsigned number;             /* of the output */
};

static char *op_of(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r)
{
    bool input;
    unsigned number;
    const char *name = tw_rec_name(v, r), *op = tw_rec_op(v, r);
    size_t n = op_length(name, &input, &number);
    if (op[0] && n == strlen(name))
        return tw_cmp_copy(c, op);
    return tw_cmp_text(c, "%.*s", (int)(n < 500 ? n : 500), name);
}

static bool name_has(const char *name, const char *const *parts)
{
    for (; *parts; parts++)
        if (strstr(name, *parts))
            return true;
    return false;
}

static const char *const drawing[] = {"rand", "dropout", "bernoulli", "normal_", "uniform_", "multinomial", "exponential_", "poisson", "geometric_", "cauchy_", "rrelu", NULL};
static const char *const unwritten[] = {"::empty", "::new_empty", "resize_", NULL}; /* memory with whatever was in it */

/* One call of an operation: neighbouring records of its inputs and outputs, and the differences among them. */
struct call { size_t first, last; const struct tw_diff *in, *out; };

static bool same_call(const struct tw_view *v, size_t previous, size_t i)
{
    bool was_input, is_input;
    unsigned number;
    const struct tw_rec *p = &v->rec[previous], *r = &v->rec[i];
    size_t n = op_length(tw_rec_name(v, p), &was_input, &number), m = op_length(tw_rec_name(v, r), &is_input, &number);
    return n == m && strncmp(tw_rec_name(v, p), tw_rec_name(v, r), n) == 0 && strcmp(tw_rec_scope(v, p), tw_rec_scope(v, r)) == 0 &&
           (was_input || !is_input);
}

/* The next call at or after *at; false at the end. by_index: the difference of each record of a, or NULL. */
static bool next_call(const struct tw_view *v, const struct tw_diff *const *by_index, size_t *at, struct call *out)
{
    while (*at < v->count && !is_kernel(&v->rec[*at]))
        ++*at;
    if (*at >= v->count)
        return false;
    *out = (struct call){.first = *at, .last = *at};
    for (size_t i = *at; i < v->count; i++) {
        bool input;
        unsigned number;
        if (!is_kernel(&v->rec[i]))
            continue;
        if (i > *at && !same_call(v, out->last, i))
            break;
        out->last = i;
        op_length(tw_rec_name(v, &v->rec[i]), &input, &number);
        input |= v->rec[i].kind == TWIN_KIND_IN;
        if (by_index[i] && input && !out->in)
            out->in = by_index[i];
        if (by_index[i] && !input && !out->out)
            out->out = by_index[i];
    }
    *at = out->last + 1;
    return true;
}

static void take_call(struct tw_cmp *c, const struct tw_diff *d, const struct tw_view *a, const struct tw_view *b, struct found *out)
{
    const struct tw_view *v;
    const struct tw_rec *r = tw_diff_rec(d, a, b, &v);
    bool input;
    op_length(tw_rec_name(v, r), &input, &out->number);
    out->a = d->a == TW_NONE ? NULL : &a->rec[d->a];
    out->b = d->b == TW_NONE ? NULL : &b->rec[d->b];
    out->op = op_of(c, v, r);
    out->site = tw_cmp_copy(c, tw_rec_site(v, r));
}

static void take_call_before(struct tw_cmp *c, const struct tw_view *v, size_t first, struct found *out)
{
    while (first-- > 0)
        if (is_kernel(&v->rec[first])) {
            out->before = op_of(c, v, &v->rec[first]);
            return;
        }
}

/*
 * In execution order: a call whose inputs agree and whose output does not is the origin. A call that passes a difference on
 * although nothing before it made one got it from somewhere invisible, or from memory that was allocated and never written.
 * A call whose input differs and whose output does not has healed it (its input was a buffer to write to) and means nothing.
 */
static bool find_call(struct tw_cmp *c, const struct tw_diff *const *by_index, const struct tw_view *a, const struct tw_view *b, struct found *out)
{
    struct call call;
    const struct tw_diff *unwritten_out = NULL, *only_input = NULL;
    size_t at = 0, only_input_first = 0;
    while (next_call(a, by_index, &at, &call)) {
        if (!call.out && call.in && !only_input) {
            only_input = call.in;
            only_input_first = call.first;
        }
        if (!call.out)
            continue;
        const char *name = tw_rec_name(a, &a->rec[call.first]);
        if (!call.in && name_has(name, unwritten)) {
            unwritten_out = call.out;
            continue;
        }
        const struct tw_diff *shown = call.in && unwritten_out ? unwritten_out : call.in ? call.in : call.out;
        take_call(c, shown, a, b, out);
        out->drew &= !call.in && name_has(name, drawing);
        out->origin = (!call.in && !out->drew) || shown == unwritten_out;
        if (shown == call.in)
            take_call_before(c, a, call.first, out);
        return true;
    }
    if (!only_input)
        return false;
    take_call(c, only_input, a, b, out); /* the last that was seen, for example when the output was not recorded */
    out->drew = false;
    take_call_before(c, a, only_input_first, out);
    return true;
}

/* The operation to name in this step. What only one run called comes last: mostly it follows from something else. */
static bool find_operation(struct tw_cmp *c, const struct tw_stepdiff *d, const struct tw_view *a, const struct tw_view *b, struct found *out)
{
    const struct tw_diff **by_index = tw_calloc(a->count, sizeof *by_index);
    const struct tw_diff *alone = NULL;
    bool found = false;
    c->oom |= !by_index;
    for (size_t i = 0; by_index && i < d->count; i++) {
        const struct tw_view *v;
        const struct tw_rec *r = tw_diff_rec(&d->d[i], a, b, &v);
        if (!tw_diff_significant(&d->d[i]))
            continue;
        out->drew |= r->kind == TWIN_KIND_STATE;
        if (is_kernel(r) && (d->d[i].type == TWIN_FINDING_VALUE || d->d[i].type == TWIN_FINDING_LAYOUT))
            by_index[d->d[i].a] = &d->d[i];
        else if (is_kernel(r) && !alone)
            alone = &d->d[i];
    }
    if (by_index)
        found = find_call(c, by_index, a, b, out);
    if (by_index && !found && alone) {
        take_call(c, alone, a, b, out);
        out->drew = false;
        found = true;
    }
    tw_free(by_index);
    return found;
}

/* ---- exact numbers, when the values of both were kept */

static bool read_value(const char *dir, const struct twin_finding *f, const struct tw_rec *r, unsigned number, char **data, size_t *bytes)
{
    char *path = tw_printf("%s/values/%d.s%u.o%u.out%u.raw", dir, f->rank, r->step, r->occurrence, number);
    bool ok = path && tw_read_file(path, VALUE_CAP, data, bytes, NULL) == 0;
    tw_free(path);
    return ok;
}

static void exact_numbers(struct twin_finding *f, const struct found *op, const struct tw_view *va, const struct twin_run *za, const struct twin_run *zb)
{
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    struct tw_exact e;
    if (!op->a || !op->b || op->a->layout_hash != op->b->layout_hash)
        return;
    enum twin_dtype dtype = twin_trace_layout(va->proc->trace, op->a->layout)->dtype;
    size_t size = twin_dtype_size(dtype);
    if (size && read_value(za->dir, f, op->a, op->number, &x, &n) && read_value(zb->dir, f, op->b, op->number, &y, &m) && n == m && n % size == 0) {
        tw_exact_compare(x, y, n / size, dtype, &e);
        f->changed = e.changed;
        f->changed_known = true;
        f->elements = e.elements;
        f->max_ulp = e.max_ulp;
        f->rel_l2 = e.rel_l2;
        f->rel_l2_exact = isfinite(e.rel_l2);
    }
    tw_free(x);
    tw_free(y);
}

/* Replays of the suspect, over both reruns: a rank whose inputs are small may agree with itself where the suspect one does not. */
static void count_replays(const struct twin_finding *f, const struct tw_side *side, unsigned *replays, unsigned *disagree)
{
    const char *key, *value;
    for (size_t i = 0; i < side->count; i++)
        for (size_t k = 0; side->proc[i].rank == f->rank && twin_trace_note(side->proc[i].trace, k, &key, &value); k++) {
            char op[256];
            unsigned n, other;
            if (strcmp(key, "zoom.replay") != 0 || sscanf(value, "%255s %u %u", op, &n, &other) != 3 || strcmp(op, f->op) != 0)
                continue;
            *replays += n;
            *disagree += other;
        }
}

/* The votes of both reruns. An operation that disagrees with itself anywhere says nothing about a core. */
static void count_votes(struct tw_cmp *c, const struct twin_finding *f, const struct tw_side *side)
{
    const char *key, *value;
    for (size_t i = 0; i < side->count; i++)
        for (size_t k = 0; side->proc[i].rank == f->rank && twin_trace_note(side->proc[i].trace, k, &key, &value); k++) {
            char op[256], what[16];
            int one, two;
            unsigned rounds, here, there;
            if (strcmp(key, "zoom.vote") != 0 || sscanf(value, "%255s %15s %d %d %u %u %u", op, what, &one, &two, &rounds, &here, &there) != 7 || strcmp(op, f->op) != 0)
                continue;
            enum twin_replay r = strcmp(what, "operation") == 0 ? TWIN_REPLAY_DISAGREES : strcmp(what, "core") == 0 ? TWIN_REPLAY_BY_CORE : TWIN_REPLAY_AGREES;
            if (c->v->replay == TWIN_REPLAY_DISAGREES || (r != TWIN_REPLAY_DISAGREES && c->v->replay == TWIN_REPLAY_BY_CORE))
                continue;
            c->v->replay = r;
            c->v->replay_core[0] = one;
            c->v->replay_core[1] = two;
            if (r == TWIN_REPLAY_BY_CORE)
                tw_cmp_note(c, "%s gives one result on core %d and another on core %d, each time, on the same inputs: suspect the hardware, or code that "
                               "depends on the core it runs on", op, one, two);
            else if (r == TWIN_REPLAY_DISAGREES && (here > 1) != (there > 1))
                tw_cmp_note(c, "held on one core, %s disagreed with itself on core %d only (%u replays on each of two): that core is suspect, too", op, here > 1 ? one : two, rounds);
        }
}

static void note_replays(struct tw_cmp *c, struct twin_finding *f, const struct tw_side *a, const struct tw_side *b)
{
    unsigned replays = 0, disagree = 0;
    count_replays(f, a, &replays, &disagree);
    count_replays(f, b, &replays, &disagree);
    count_votes(c, f, a);
    count_votes(c, f, b);
    if (replays && c->v->replay != TWIN_REPLAY_BY_CORE)
        c->v->replay = disagree ? TWIN_REPLAY_DISAGREES : c->v->replay == TWIN_REPLAY_UNKNOWN ? TWIN_REPLAY_AGREES : c->v->replay;
    if (disagree && c->v->replay == TWIN_REPLAY_DISAGREES) {
        tw_cmp_note(c, "%s, run again %u times on its recorded inputs, gave another result %u times: it is not deterministic", f->op,
                    replays, disagree);
        f->role = TWIN_ORIGIN;
    } else if (replays && !disagree) {
        tw_cmp_note(c, "%s, run again %u times on its recorded inputs, gave the same result each time", f->op, replays);
    }
}

static void merge(struct tw_cmp *c, struct twin_finding *f, const struct found *op)
{
    tw_finding_set(c, &f->op, tw_cmp_copy(c, op->op ? op->op : ""));
    if (op->site && op->site[0])
        tw_finding_set(c, &f->site, tw_cmp_copy(c, op->site));
    if (op->origin)
        f->role = TWIN_ORIGIN;
    else if (op->drew)
        f->role = TWIN_CARRIER;
}

/* What a second rerun is told to keep the values of and to replay; see TWINRUN_ZOOM_OP. */
static char *suspect_text(struct tw_cmp *c, const struct found *op, const struct tw_view *v, const struct tw_rec *r)
{
    return r ? tw_cmp_text(c, "%u:%u:%s@%s", r->step, r->occurrence, op->op ? op->op : "", tw_rec_scope(v, r)) : NULL;
}

struct suspect { char *a, *b; };

static void show(struct tw_cmp *c, const struct found *op, uint32_t step, const struct tw_view *va, const struct twin_run *za,
                 const struct twin_run *zb)
{
    struct twin_finding *f = c->v->first;
    const char *name = op->op ? op->op : "?";
    if (f->phase == TWIN_PHASE_INIT || f->phase == TWIN_PHASE_DATA || f->kind == TWIN_KIND_STATE) {
        /* it differed before any operation ran: who meets it first is worth knowing, but did not make it */
        size_t line = op->site ? strcspn(op->site, "\n") : 0;
        tw_cmp_note(c, "zoom: the first operation that meets the difference is %s%s%.*s", name, line ? " at " : "", (int)line, op->site ? op->site : "");
        return;
    }
    merge(c, f, op);
    if (op->origin)
        exact_numbers(f, op, va, za, zb);
    if (step != f->step_a)
        tw_cmp_note(c, "zoom: the reruns parted at step %u (the runs at step %u)", step, f->step_a);
    if (op->origin && name_has(name, unwritten))
        tw_cmp_note(c, "zoom: %s gave memory that was used before anything was written to it", name);
    else if (op->before)
        tw_cmp_note(c, "zoom: an input of %s differs, although every operation before it agreed: what made it lies between %s and %s",
                    name, op->before, name);
    else if (op->drew)
        tw_cmp_note(c, "zoom: %s drew from a generator whose state already differed", name);
    else if (op->origin)
        tw_cmp_note(c, "zoom: %s got equal inputs and gave another output", name);
    if (c->v->origin_count)
        merge(c, &c->v->origins[0], op);
}

struct zoom {
    const struct tw_pair *pair;
    int64_t shift;
    const struct twin_run *a, *b;
    struct suspect *suspect;  /* when set the operation is only named, not shown in the verdict */
    bool parted, done, drew;  /* drew: a generator differed in this step or an earlier one */
};

/* Looks for an operation in one step. A generator that differed in an earlier step still counts. */
static int zoom_step(struct tw_cmp *c, struct zoom *z, uint32_t step, bool hashes_differ, struct twin_error *err)
{
    struct tw_scan s = {.pair = z->pair, .shift = z->shift};
    struct tw_view va, vb;
    struct tw_stepdiff d;
    struct found op = {.drew = z->drew};
    int rc = tw_scan_step(c, &s, step, &va, &vb, &d, err);
    if (rc != 0)
        return rc;
    z->parted |= hashes_differ || d.count > d.order;
    if (find_operation(c, &d, &va, &vb, &op)) {
        z->done = true;
        if (z->suspect) {
            z->suspect->a = suspect_text(c, &op, &va, op.a);
            z->suspect->b = suspect_text(c, &op, &vb, op.b);
        } else {
            show(c, &op, step, &va, z->a, z->b);
        }
    }
    z->drew |= op.drew;
    tw_free(op.op);
    tw_free(op.before);
    tw_free(op.site);
    tw_stepdiff_free(&d);
    tw_view_free(&va);
    tw_view_free(&vb);
    return 0;
}

/* One pair of processes: every step that differs, until one shows an operation, and the step that was going on at the end. */
static int zoom_pair(struct tw_cmp *c, struct zoom *z, struct twin_error *err)
{
    const struct tw_pair *p = z->pair;
    uint32_t from = z->shift < 0 ? (uint32_t)-z->shift : 0;
    z->drew = false;
    for (int tries = 0; tries < 64 && !z->done; tries++) {
        uint32_t step = 0;
        bool found = false;
        uint64_t compared;
        int rc = twin_trace_first_difference(p->a->trace, p->b->trace, z->shift, from, UINT32_MAX, &found, &step, &compared, NULL);
        if (rc == TWIN_ENOMEM)
            return twin_error_set(err, rc, "out of memory comparing a zoom pair");
        if (rc != 0 || !found)
            break;
        rc = zoom_step(c, z, step, true, err);
        if (rc != 0)
            return rc;
        from = step + 1;
    }
    int64_t end = (int64_t)p->a->info->steps, end_b = (int64_t)p->b->info->steps - z->shift;
    end = end < end_b ? end : end_b;
    return z->done || end < from ? 0 : zoom_step(c, z, (uint32_t)end, false, err);
}

/* Looks through the processes, the suspect rank first, another one only when that shows nothing. */
static int zoom_run(struct tw_cmp *c, const struct twin_run *za, const struct twin_run *zb, struct suspect *suspect, struct twin_error *err)
{
    struct twin_verdict *v = c->v;
    struct tw_side a = {0}, b = {0};
    struct tw_pair *pairs = NULL;
    size_t n = 0;
    struct zoom z = {.shift = (int64_t)v->first->step_b - (int64_t)v->first->step_a, .a = za, .b = zb, .suspect = suspect};
    int rc = tw_side_open(c, za, 0, &a, err);
    if (rc == 0)
        rc = tw_side_open(c, zb, 1, &b, err);
    if (rc == 0)
        rc = tw_side_match(c, &a, &b, &pairs, &n);
    for (int round = 0; rc == 0 && round < 2 && !z.done; round++)
        for (size_t i = 0; rc == 0 && i < n && !z.done; i++)
            if ((pairs[i].a->rank == v->first->rank) == (round == 0)) {
                z.pair = &pairs[i];
                rc = zoom_pair(c, &z, err);
            }
    if (rc == 0 && !suspect) {
        note_replays(c, v->first, &a, &b);
        if (!z.parted)
            tw_cmp_note(c, "zoom: did not part again at operation level");
        else if (!z.done)
            tw_cmp_note(c, "zoom: parted again, but not in an operation that was seen");
        tw_cmp_append_notes(c);
    }
    tw_side_close(&a);
    tw_side_close(&b);
    tw_free(pairs);
    tw_texts_free(&c->notes);
    tw_texts_free(&c->unseen);
    tw_texts_free(&c->armed);
    tw_texts_free(&c->unarmed);
    if (rc == 0 && c->oom)
        rc = TWIN_ENOMEM;
    return rc ? twin_error_set(err, rc, "out of memory comparing a zoom pair") : 0;
}

static const struct twin_compare_options no_options;

int twin_compare_zoom(struct twin_verdict *v, const struct twin_run *za, const struct twin_run *zb, struct twin_error *err)
{
    struct tw_cmp c = {.o = &no_options, .v = v, .label_a = "run 1", .label_b = "run 2"};
    if (!v->first)
        return twin_error_set(err, TWIN_EINVAL, "nothing to zoom into: the runs did not part");
    return zoom_run(&c, za, zb, NULL, err);
}

int twin_compare_replays(struct twin_verdict *v, const struct twin_run *za, const struct twin_run *zb, struct twin_error *err)
{
    struct tw_cmp c = {.o = &no_options, .v = v, .label_a = "run 1", .label_b = "run 2"};
    struct tw_side a = {0}, b = {0};
    if (!v->first)
        return twin_error_set(err, TWIN_EINVAL, "no operation is suspected: the runs did not part");
    int rc = tw_side_open(&c, za, 0, &a, err);
    if (rc == 0)
        rc = tw_side_open(&c, zb, 1, &b, err);
    if (rc == 0) {
        note_replays(&c, v->first, &a, &b);
        tw_cmp_append_notes(&c);
        if (c.oom)
            rc = twin_error_set(err, TWIN_ENOMEM, "out of memory reading a zoom pair");
    }
    tw_side_close(&a);
    tw_side_close(&b);
    tw_texts_free(&c.notes);
    tw_texts_free(&c.unseen);
    tw_texts_free(&c.armed);
    tw_texts_free(&c.unarmed);
    return rc;
}

int twin_compare_suspect(const struct twin_verdict *v, const struct twin_run *za, const struct twin_run *zb, char **op_a, char **op_b,
                         struct twin_error *err)
{
    struct tw_cmp c = {.o = &no_options, .v = (struct twin_verdict *)v, .label_a = "run 1", .label_b = "run 2"}; /* only read here */
    struct suspect s = {0};
    *op_a = *op_b = NULL;
    if (!v->first)
        return twin_error_set(err, TWIN_EINVAL, "nothing to zoom into: the runs did not part");
    int rc = zoom_run(&c, za, zb, &s, err);
    if (rc == 0 && s.a && s.b) {
        *op_a = s.a;
        *op_b = s.b;
        return 0;
    }
    tw_free(s.a);
    tw_free(s.b);
    return rc;
}
