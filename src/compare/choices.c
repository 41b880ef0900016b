/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where NCCL chose another algorithm, protocol or number of channels in two runs for one and the
 * same call. The agent writes what was chosen beside the ranks' traces (docs/internals/nccl.md).
 *
 * Held against each other are calls of one function on one communicator, by one process: the n-th
 * of a run and the n-th of the other, as long as both are of one step, NCCL gave both the same
 * sequence number, and both have the same count and type. From the first pair on for which that
 * does not hold, nothing is compared in this stream: the runs made other calls. Where calls were
 * lost no stream of the process is compared. What was not compared is said, and nothing is called a
 * cause.
 */
#include "internal.h"

#include "phrase.h"

#include <stdlib.h>
#include <string.h>

size_t tw_choices_most = (size_t)1 << 20; /* calls of a run */

struct call {
    uint32_t stream, seq; /* seq: the record's, over all threads */
    uint32_t step;
    uint64_t sequence; /* NCCL's */
    int64_t count;
    const char *datatype, *choice; /* owned by the trace */
};

/* One function on one communicator, by one process. */
struct stream {
    int32_t rank;
    const char *role, *scope, *function; /* owned by the trace */
    size_t first, calls;                 /* in the calls of its run */
    bool twice;                          /* another process of the run says the same of itself */
};

/* What a run has. */
struct chosen {
    const struct tw_side *side;
    struct tw_side_traces of;
    struct stream *stream;
    size_t streams, stream_room;
    struct call *call;
    size_t calls, call_room;
    bool cut; /* it has more than are looked at */
};

/* ---- reading */

/* While one trace is walked. */
struct reading {
    struct tw_cmp *c;
    struct chosen *x;
    struct twin_trace *trace;
    int32_t rank;
    size_t from; /* its first stream */
};

/* Index of the stream; streams are few. SIZE_MAX: no memory. */
static size_t stream_of(struct reading *r, const char *scope, const char *function)
{
    struct chosen *x = r->x;
    for (size_t i = r->from; i < x->streams; i++)
        if (strcmp(x->stream[i].scope, scope) == 0 && strcmp(x->stream[i].function, function) == 0)
            return i;
    if (!tw_cmp_room(r->c, &x->stream, x->streams, &x->stream_room, sizeof *x->stream))
        return SIZE_MAX;
    x->stream[x->streams] = (struct stream){.rank = r->rank,
                                            .role = twin_trace_info(r->trace)->role,
                                            .scope = scope,
                                            .function = function};
    return x->streams++;
}

static int take_call(void *user, const struct twin_trace_record *record)
{
    struct reading *r = user;
    struct chosen *x = r->x;
    const struct twin_series *s = twin_trace_series(r->trace, record->series);
    const struct twin_layout *y = twin_trace_layout(r->trace, record->layout);
    if (s->phase != TWIN_PHASE_COLLECTIVE || s->name == 0 || y->ndim != 1)
        return 0;
    if (x->calls >= tw_choices_most) {
        x->cut = true;
        return 1;
    }
    const size_t stream = stream_of(r, twin_trace_string(r->trace, s->scope),
                                    twin_trace_string(r->trace, s->name));
    if (stream == SIZE_MAX ||
        !tw_cmp_room(r->c, &x->call, x->calls, &x->call_room, sizeof *x->call))
        return TWIN_ENOMEM;
    x->call[x->calls++] = (struct call){.stream = (uint32_t)stream,
                                        .seq = record->seq,
                                        .step = (uint32_t)record->digest.b,
                                        .sequence = record->digest.a,
                                        .count = y->shape[0],
                                        .datatype = twin_trace_string(r->trace, s->site),
                                        .choice = twin_trace_string(r->trace, s->op)};
    return 0;
}

static void read_trace(struct tw_cmp *c, struct chosen *x, const struct tw_side_trace *of)
{
    struct reading r = {.c = c, .x = x, .trace = of->trace, .rank = of->rank, .from = x->streams};
    if (twin_trace_walk(of->trace, take_call, NULL, &r, NULL) < 0)
        x->of.unread = true;
}

/* By stream, then as they came. */
static int by_stream(const void *x, const void *y)
{
    const struct call *a = x, *b = y;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static bool same_stream(const struct stream *x, const struct stream *y)
{
    return x->rank == y->rank && strcmp(x->role, y->role) == 0 && strcmp(x->scope, y->scope) == 0 &&
           strcmp(x->function, y->function) == 0;
}

/* Where each stream begins among the calls, and which are of two processes. */
static void order_calls(struct chosen *x)
{
    if (x->calls)
        qsort(x->call, x->calls, sizeof *x->call, by_stream);
    for (size_t i = 0; i < x->calls; i++) {
        struct stream *s = &x->stream[x->call[i].stream];
        if (s->calls++ == 0)
            s->first = i;
    }
    for (size_t i = 0; i < x->streams; i++)
        for (size_t k = 0; k < i; k++)
            if (same_stream(&x->stream[i], &x->stream[k]))
                x->stream[i].twice = x->stream[k].twice = true;
}

static void read_run(struct tw_cmp *c, const struct tw_side *side, struct chosen *x)
{
    *x = (struct chosen){.side = side};
    tw_side_traces_open(c, side, "nccl", "nccl.lost", &x->of);
    for (size_t i = 0; i < x->of.count; i++)
        read_trace(c, x, &x->of.item[i]);
    order_calls(x);
}

static void free_run(struct chosen *x)
{
    tw_side_traces_free(&x->of);
    tw_free(x->stream);
    tw_free(x->call);
}

/* ---- comparing */

struct found {
    uint64_t compared, differing;
    bool other_calls;            /* a stream has other calls in the two runs, or none */
    const struct call *a, *b;    /* the first that differs, by the first run's steps */
    const struct stream *stream; /* of it, in the first run */
};

static bool same_call(const struct call *x, const struct call *y)
{
    return x->step == y->step && x->sequence == y->sequence && x->count == y->count &&
           strcmp(x->datatype, y->datatype) == 0;
}

/* Is the call before the one that was found? Steps go first, since streams have no order among each
 * other; then ranks. */
static bool is_before(const struct call *x, const struct stream *s, const struct found *f)
{
    if (!f->a || x->step != f->a->step)
        return !f->a || x->step < f->a->step;
    if (s->rank != f->stream->rank)
        return s->rank < f->stream->rank;
    return s != f->stream && x->seq < f->a->seq;
}

static void compare_stream(const struct chosen *a, const struct stream *s, const struct chosen *b,
                           const struct stream *t, struct found *f)
{
    const size_t n = s->calls < t->calls ? s->calls : t->calls;
    f->other_calls |= s->calls != t->calls;
    for (size_t i = 0; i < n; i++) {
        const struct call *x = &a->call[s->first + i], *y = &b->call[t->first + i];
        if (!same_call(x, y)) {
            f->other_calls = true;
            return;
        }
        f->compared++;
        if (strcmp(x->choice, y->choice) == 0)
            continue;
        f->differing++;
        if (is_before(x, s, f)) {
            f->a = x;
            f->b = y;
            f->stream = s;
        }
    }
}

static void compare_runs(const struct chosen *a, const struct chosen *b, struct found *f)
{
    size_t matched = 0;
    for (size_t i = 0; i < a->streams; i++) {
        const struct stream *s = &a->stream[i], *t = NULL;
        for (size_t k = 0; k < b->streams && !t; k++)
            if (same_stream(s, &b->stream[k]))
                t = &b->stream[k];
        matched += t != NULL;
        if (!t || s->twice || t->twice)
            f->other_calls = true;
        else
            compare_stream(a, s, b, t, f);
    }
    f->other_calls |= matched != b->streams;
}

/* ---- words */

/* Why not all calls were held against each other; "": they were. tw_free. */
static char *what_is_missing(struct tw_cmp *c, const struct chosen *a, const struct chosen *b,
                             const struct found *f)
{
    if (a->of.lost || b->of.lost)
        return tw_cmp_text(c, "calls were not recorded, %llu in run %zu and %llu in run %zu",
                           (unsigned long long)a->of.lost, a->side->index + 1,
                           (unsigned long long)b->of.lost, b->side->index + 1);
    if (a->of.unread || b->of.unread)
        return tw_cmp_text(c, "not all was recorded to its end");
    if (a->cut || b->cut)
        return tw_cmp_text(c, "more than %zu calls are not looked at", tw_choices_most);
    return tw_cmp_text(c, "%s", f->other_calls ? "the other calls have no counterpart" : "");
}

static void say(struct tw_cmp *c, const struct chosen *a, const struct chosen *b,
                const struct found *f, bool differ)
{
    char count[32], some[32], all[32];
    char *missing = what_is_missing(c, a, b, f);
    const char *but = missing && missing[0] ? "; " : "";
    if (missing && f->differing)
        tw_cmp_note(c,
                    "NCCL ran %s %llu of %s (step %u of rank %d, %s %s) by %s in run %zu and by %s "
                    "in run %zu; it chose otherwise for %s of the %s collectives that were "
                    "compared%s%s%s",
                    f->stream->function, (unsigned long long)f->a->sequence, f->stream->scope,
                    f->a->step, f->stream->rank, tw_human_count((uint64_t)f->a->count, count),
                    f->a->datatype, f->a->choice, a->side->index + 1, f->b->choice,
                    b->side->index + 1, tw_human_count(f->differing, some),
                    tw_human_count(f->compared, all), but, missing,
                    differ ? "" : "; nothing else that was compared differs");
    else if (missing && f->compared)
        tw_cmp_note(c,
                    "NCCL chose the same algorithms, protocols and channels in run %zu and run %zu "
                    "for the %s collectives that were compared%s%s",
                    a->side->index + 1, b->side->index + 1, tw_human_count(f->compared, all), but,
                    missing);
    else if (missing)
        tw_cmp_note(c, "what NCCL chose was not compared between run %zu and run %zu: %s",
                    a->side->index + 1, b->side->index + 1,
                    missing[0] ? missing : "no call of either was recorded");
    tw_free(missing);
}

void tw_choices(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b, bool differ)
{
    struct chosen x, y;
    struct found f = {.compared = 0};
    if (c->quick)
        return;
    read_run(c, a, &x);
    read_run(c, b, &y);
    if (x.of.count && y.of.count) {
        /* which calls are missing is not known, and NCCL's numbers may come twice (CUDA graphs) */
        if (!x.of.lost && !y.of.lost)
            compare_runs(&x, &y, &f);
        say(c, &x, &y, &f, differ);
    } else if (x.of.unread || y.of.unread) {
        tw_cmp_note(c, "what NCCL chose was not compared: the records of run %zu cannot be read",
                    (x.of.count ? b : a)->index + 1);
    } else if (x.of.count || y.of.count) {
        tw_cmp_note(c, "what NCCL chose was not compared: it was recorded in run %zu alone",
                    (x.of.count ? a : b)->index + 1);
    }
    free_run(&x);
    free_run(&y);
}
