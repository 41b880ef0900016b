/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two processes in which several threads train at once. scan.c calls tw_streams_compare()
 * when steps of such a pair differ, or when values came in an order that nobody can tell; the
 * answer is "equal", "differ", or "equal in an unknown order".
 *
 * Threads that train at once share the process's step counter, so which step a record falls into is
 * a matter of schedule; so is which of their optimizers came first and has no number in its name.
 * Their records are the same all the same when every stream (the records of a name in a scope by a
 * role, numbers aside) holds the same ones in the same order from beginning to end: only the cut
 * into steps is forgiven.
 *
 * A stream that several threads recorded has no order between them while they ran side by side. It
 * is cut where no thread was between its first and its last record, in either run; between two such
 * cuts each thread's sequence must be found in the other run as a whole. Where only the contents
 * agree, nobody knows whether the order is the schedule's or the job's.
 *
 * One walk over each trace builds a hash per stream; a second walk keeps the records of shared
 * streams alone, which need to be put in order.
 */
#include "internal.h"
#include "scan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a scope without its number; a longer one keeps its number. */
#define SCOPE_MAX 256
#define SHARED_MAX ((size_t)4 << 20) /* records of shared streams that are put in order */
#define NO_STREAM UINT32_MAX
#define SERIES_MAX (1u << 21) /* above what the format allows: damage, and no series */

/* All records of one name in one scope by one role, over the whole trace, as a few sums. */
struct stream {
    uint64_t id, records;
    /* of the sequence; of one thread's it is the order in which that thread recorded */
    uint64_t hash;
    uint64_t sum;    /* of the contents, without order */
    uint32_t thread; /* the first */
    bool shared;     /* several threads recorded it */
    bool unordered;  /* declared so, outside of any role, and no value of a computation */
};

/* One state of a generator that was recorded; name is a hash of the generator's name. */
struct state {
    uint64_t name, content;
};
/*
 * One record of a shared stream. place: step and number in the step; same_order() overwrites it
 * with an index.
 */
struct piece {
    uint64_t stream, place, content;
    uint32_t thread;
};

/*
 * The streams of one process. of_series and slot are two ways to the same entries of s: by series
 * number, which is fast, and by id, since several series may be one stream.
 */
struct streams {
    struct tw_cmp *c;
    struct tw_proc *p;
    struct stream *s;
    size_t n, room;
    uint32_t *of_series; /* the stream of a series, filled on demand; NO_STREAM = not yet */
    size_t series_room;
    uint32_t *slot; /* open addressing over ids: index + 1 */
    size_t mask;
    bool threads, failed, too_many;
    const bool *wanted; /* second walk: streams whose pieces are kept; NULL: all */
    struct piece *piece;
    size_t pieces, piece_room;
    struct state *state, *last; /* every state seen; the last one of each generator */
    size_t states, state_room, generators, last_room;
};

/*
 * Takes the number off a label: "SGD" of "SGD#2", the second optimizer that lived at one time
 * (python/twinrun/_agent/naming.py). Returns scope itself, or room with the result.
 */
static const char *unnumbered(const char *scope, char room[SCOPE_MAX])
{
    const char *number = strrchr(scope, '#');
    size_t before = number ? (size_t)(number - scope) : 0;
    size_t digits = number ? strspn(number + 1, "0123456789") : 0;
    const char *behind = number ? number + 1 + digits : "";
    bool ends_a_label = *behind == '\0' || *behind == '['; /* "SGD#2", "parameters of SGD#2[0]" */
    if (!number || digits == 0 || !ends_a_label || before + strlen(behind) >= SCOPE_MAX)
        return scope;
    memcpy(room, scope, before);
    memcpy(room + before, behind, strlen(behind) + 1);
    return room;
}

/* The id of the stream that a series belongs to. It means the same in every trace. */
static uint64_t stream_id(struct tw_proc *p, const struct twin_series *s)
{
    char label[SCOPE_MAX], room[SCOPE_MAX];
    const char *name = twin_trace_string(p->trace, s->name);
    if (s->kind == TWIN_KIND_ORDER) /* its name holds that of the optimizer */
        name = unnumbered(name, label);
    return tw_key_hash(s->phase, s->kind, name,
                       unnumbered(twin_trace_string(p->trace, s->scope), room),
                       twin_trace_string(p->trace, s->role));
}

/* Doubles the table of slots and fills it anew. False: no memory; the old table stays. */
static bool grow_slots(struct streams *t)
{
    size_t room = t->mask ? 2 * (t->mask + 1) : 1024;
    uint32_t *slot = tw_calloc(room, sizeof *slot);
    if (!slot)
        return false;
    tw_free(t->slot);
    t->slot = slot;
    t->mask = room - 1;
    for (size_t i = 0; i < t->n; i++) {
        size_t at = (size_t)t->s[i].id & t->mask;
        while (slot[at])
            at = (at + 1) & t->mask;
        slot[at] = (uint32_t)i + 1;
    }
    return true;
}

/* The place of an id in the table, or the free one where it belongs. */
static uint32_t *slot_of(const struct streams *t, uint64_t id)
{
    assert((t->mask & (t->mask + 1)) == 0);
    size_t at = (size_t)id & t->mask;
    while (t->slot[at] && t->s[t->slot[at] - 1].id != id)
        at = (at + 1) & t->mask;
    return &t->slot[at];
}

/* Kinds whose order always counts: the same list as strict() in match.c has. */
static bool value_of_computation(uint8_t kind)
{
    return kind == TWIN_KIND_WEIGHT || kind == TWIN_KIND_GRADIENT ||
           kind == TWIN_KIND_GRADIENT_LOCAL || kind == TWIN_KIND_LOSS || kind == TWIN_KIND_VALUE ||
           kind == TWIN_KIND_MOMENT || kind == TWIN_KIND_HYPER;
}

/*
 * The stream of a record's series, made when it is new. NULL: no memory. The pointer is good until
 * the next call.
 */
static struct stream *stream_of(struct streams *t, const struct twin_trace_record *r)
{
    uint32_t series = r->series < SERIES_MAX ? r->series : 0;
    while (series >= t->series_room) {
        size_t before = t->series_room;
        if (!tw_cmp_room(t->c, &t->of_series, t->series_room, &t->series_room,
                         sizeof *t->of_series))
            return NULL;
        memset(t->of_series + before, 0xFF, (t->series_room - before) * sizeof *t->of_series);
    }
    uint32_t *known = &t->of_series[series];
    if (*known != NO_STREAM)
        return &t->s[*known];
    /* At most half of the slots are used, which keeps the chains short. */
    if (2 * t->n >= t->mask && !grow_slots(t))
        return NULL;
    const struct twin_series *s = twin_trace_series(t->p->trace, r->series);
    uint64_t id = stream_id(t->p, s);
    uint32_t *slot = slot_of(t, id);
    if (*slot == 0) {
        if (!tw_cmp_room(t->c, &t->s, t->n, &t->room, sizeof *t->s))
            return NULL;
        bool unordered = (r->flags & TWIN_REC_UNORDERED) && s->role == 0 &&
                         !value_of_computation(s->kind);
        t->s[t->n++] = (struct stream){.id = id, .thread = r->thread, .unordered = unordered};
        *slot = (uint32_t)t->n;
    }
    *known = *slot - 1;
    return &t->s[*known];
}

/*
 * Notes a state of a generator. Generators belong to the process, and whichever thread comes to a
 * boundary looks at them: which of a generator's states are recorded is a matter of schedule. So
 * the state that one run ended with must be among those of the other, or the other's among its.
 * False: no memory.
 */
static bool note_state(struct streams *t, const struct twin_trace_record *r,
                       const struct twin_series *s)
{
    char room[SCOPE_MAX];
    uint64_t name = tw_key_hash(0, s->kind,
                                unnumbered(twin_trace_string(t->p->trace, s->name), room), "", "");
    uint64_t content = tw_record_content(t->p, r);
    if (!tw_cmp_room(t->c, &t->state, t->states, &t->state_room, sizeof *t->state))
        return false;
    t->state[t->states++] = (struct state){name, content};
    size_t i = 0;
    while (i < t->generators && t->last[i].name != name)
        i++;
    if (i == t->generators &&
        !tw_cmp_room(t->c, &t->last, t->generators, &t->last_room, sizeof *t->last))
        return false;
    t->generators += i == t->generators;
    t->last[i] = (struct state){name, content};
    return true;
}

/* Was this state of this generator seen in t? */
static bool has_state(const struct streams *t, const struct state *wanted)
{
    for (size_t i = 0; i < t->states; i++)
        if (t->state[i].name == wanted->name && t->state[i].content == wanted->content)
            return true;
    return false;
}

/* The state that a generator ended with; NULL: t has no such generator. */
static const struct state *last_of(const struct streams *t, uint64_t name)
{
    for (size_t i = 0; i < t->generators; i++)
        if (t->last[i].name == name)
            return &t->last[i];
    return NULL;
}

/* Generators that one run alone recorded are not judged. */
static bool generators_agree(const struct streams *a, const struct streams *b)
{
    for (size_t i = 0; i < a->generators; i++) {
        const struct state *x = &a->last[i], *y = last_of(b, x->name);
        if (y && !has_state(b, x) && !has_state(a, y))
            return false;
    }
    return true;
}

/*
 * Callback of the first walk: adds a record to its stream. A non-zero value, which ends the walk,
 * means no memory.
 */
static int add_record(void *user, const struct twin_trace_record *r)
{
    struct streams *t = user;
    const struct twin_series *s = twin_trace_series(t->p->trace, r->series);
    if (s->kind == TWIN_KIND_STATE) {
        t->failed = !note_state(t, r, s);
        return t->failed;
    }
    struct stream *x = stream_of(t, r);
    if (!x) {
        t->failed = true;
        return 1;
    }
    uint64_t content = tw_mix64(tw_record_content(t->p, r) ^ (r->flags & TWIN_REC_UNOBSERVED));
    t->threads |= s->role != 0 || r->thread != t->s[0].thread;
    x->shared |= r->thread != x->thread;
    x->hash = tw_mix64(x->hash * 3 + content);
    x->sum += tw_mix64(content ^ x->id);
    x->records++;
    return 0;
}

/* For twin_trace_walk_some: records of another role are another thread's. */
static bool has_role(void *user, uint32_t id, const struct twin_series *s)
{
    (void)user, (void)id;
    return s->role != 0 && s->kind != TWIN_KIND_STATE;
}

static int found_one(void *user, const struct twin_trace_record *r)
{
    (void)user, (void)r;
    return 1;
}

/* Is it known, without reading the trace, that one thread alone recorded? */
static bool is_one_thread(const struct tw_proc *p)
{
    const struct twin_trace_summary *seen = twin_trace_summary(p->trace);
    return seen && !seen->threads &&
           twin_trace_walk_some(p->trace, has_role, found_one, NULL, NULL, NULL) == 0;
}

static bool is_whole(const struct tw_proc *p)
{
    return p->info->dropped == 0 && p->info->lost == 0;
}

/*
 * First walk, over both traces. False: records are missing, a trace cannot be read, memory is
 * short, or no more than one thread recorded in either: a run that was cut may hold but one of the
 * threads. The caller calls free_streams() in every case.
 */
static bool load_both(struct tw_cmp *c, const struct tw_pair *p, struct streams *a,
                      struct streams *b)
{
    *a = (struct streams){.c = c, .p = p->a};
    *b = (struct streams){.c = c, .p = p->b};
    return is_whole(p->a) && is_whole(p->b) && !(is_one_thread(p->a) && is_one_thread(p->b)) &&
           twin_trace_walk(p->a->trace, add_record, NULL, a, NULL) == 0 && !a->failed &&
           twin_trace_walk(p->b->trace, add_record, NULL, b, NULL) == 0 && !b->failed &&
           (a->threads || b->threads);
}

static void free_streams(struct streams *t)
{
    tw_free(t->s);
    tw_free(t->of_series);
    tw_free(t->slot);
    tw_free(t->piece);
    tw_free(t->state);
    tw_free(t->last);
}

/* ---- streams of several threads, in order */

/* Callback of the second walk: keeps the records of wanted streams, up to SHARED_MAX. */
static int keep_record(void *user, const struct twin_trace_record *r)
{
    struct streams *t = user;
    if (twin_trace_series(t->p->trace, r->series)->kind == TWIN_KIND_STATE)
        return 0;
    struct stream *x = stream_of(t, r);
    if (!x || (t->wanted && !t->wanted[x - t->s]))
        return 0;
    if (t->pieces >= SHARED_MAX ||
        !tw_cmp_room(t->c, &t->piece, t->pieces, &t->piece_room, sizeof *t->piece)) {
        t->too_many = true;
        return 1;
    }
    t->piece[t->pieces++] = (struct piece){
        .stream = x->id,
        .place = (uint64_t)r->step << 32 | r->seq,
        .thread = r->thread,
        .content = tw_mix64(tw_record_content(t->p, r) ^ (r->flags & TWIN_REC_UNOBSERVED))};
    return 0;
}

/* Order of pieces: by stream, then as they were recorded. */
static int by_place(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static int by_thread(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Second walk; sorts what it kept. False: the trace cannot be read, or it is too much. */
static bool load_pieces(struct streams *t, const bool *wanted)
{
    t->wanted = wanted;
    if (twin_trace_walk(t->p->trace, keep_record, NULL, t, NULL) != 0 || t->too_many)
        return false;
    if (t->pieces)
        qsort(t->piece, t->pieces, sizeof *t->piece, by_place);
    return true;
}

/*
 * Notes in `change` how many threads are between their first and their last record of a stream: +1
 * behind a thread's first record, -1 behind its last. Where the sum is above 0, of both runs
 * together, there can be no cut. The place of each piece must be its index in p.
 */
static void mark_passing(struct piece *p, size_t n, int64_t *change)
{
    qsort(p, n, sizeof *p, by_thread); /* place is an index here */
    for (size_t i = 0; i < n; i++) {
        bool first = i == 0 || p[i - 1].thread != p[i].thread;
        bool last = i + 1 == n || p[i + 1].thread != p[i].thread;
        change[p[i].place + 1] += first;
        change[p[i].place + 1] -= last;
    }
    qsort(p, n, sizeof *p, by_place);
}

static int by_hash(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

/*
 * Writes one hash for what each thread recorded in p[0 .. n), sorted, and returns how many threads
 * that were. Sorted, because the numbers of threads mean nothing between runs.
 */
static size_t thread_hashes(struct piece *p, size_t n, uint64_t *out)
{
    size_t count = 0;
    qsort(p, n, sizeof *p, by_thread);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || p[i].thread != p[i - 1].thread)
            out[count++] = 0;
        out[count - 1] = tw_mix64(out[count - 1] * 3 + p[i].content);
    }
    qsort(out, count, sizeof *out, by_hash);
    qsort(p, n, sizeof *p, by_place);
    return count;
}

/*
 * Do two stretches of n records consist of equal sequences of threads? x and y have room for n
 * hashes.
 */
static bool same_threads(struct piece *a, struct piece *b, size_t n, uint64_t *x, uint64_t *y)
{
    size_t k = thread_hashes(a, n, x);
    return k == thread_hashes(b, n, y) && memcmp(x, y, k * sizeof *x) == 0;
}

/*
 * Is one shared stream, n records on either side, equal as far as an order is known? Equal record
 * by record is enough; else it is cut, and each cut must consist of equal sequences. False also
 * when memory runs out, which c->oom tells.
 */
static bool same_order(struct tw_cmp *c, struct piece *a, struct piece *b, size_t n)
{
    size_t equal = 0, from = 0;
    while (equal < n && a[equal].content == b[equal].content)
        equal++;
    if (equal == n)
        return true;
    uint64_t *x = tw_reallocarray(NULL, n, sizeof *x), *y = tw_reallocarray(NULL, n, sizeof *y);
    int64_t *change = tw_calloc(n + 1, sizeof *change), passing = 0;
    bool same = x && y && change;
    c->oom |= !same;
    for (size_t i = 0; i < n; i++)
        a[i].place = b[i].place = i;
    if (same) {
        mark_passing(a, n, change);
        mark_passing(b, n, change);
    }
    /*
     * A cut lies behind record i where no thread of either run is inside of its sequence. The last
     * one lies behind record n.
     */
    for (size_t i = 1; same && i <= n; i++) {
        passing += change[i];
        if (passing > 0)
            continue;
        same = same_threads(a + from, b + from, i - from, x, y);
        from = i;
    }
    tw_free(x);
    tw_free(y);
    tw_free(change);
    return same;
}

/*
 * Compares the shared streams one by one; both lists are sorted by stream, and contents_equal() has
 * made sure that each stream is in both with equally many records.
 */
static bool shared_streams_equal(struct streams *a, struct streams *b, const bool *wanted_a,
                                 const bool *wanted_b)
{
    if (!load_pieces(a, wanted_a) || !load_pieces(b, wanted_b) || a->pieces != b->pieces)
        return false;
    for (size_t i = 0, n; i < a->pieces; i += n) {
        for (n = 1; i + n < a->pieces && a->piece[i + n].stream == a->piece[i].stream; n++)
            ;
        if (!same_order(a->c, a->piece + i, b->piece + i, n))
            return false;
    }
    return true;
}

/*
 * Are the streams' contents equal, without order where several threads recorded? The streams whose
 * order is not settled by that are marked in wanted_*; *any: there are some.
 */
static bool contents_equal(struct streams *a, struct streams *b, bool *wanted_a, bool *wanted_b,
                           bool *any)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        uint32_t slot = *slot_of(b, a->s[i].id);
        const struct stream *x = &a->s[i], *y = slot ? &b->s[slot - 1] : NULL;
        if (!y || x->records != y->records || x->sum != y->sum)
            return false;
        bool shared = x->shared || y->shared;
        if (!shared && x->hash != y->hash && !(x->unordered && y->unordered))
            return false;
        wanted_a[i] = wanted_b[slot - 1] = shared;
        *any |= shared;
    }
    return true;
}

/*
 * A lack of memory gives DIFFER, or UNKNOWN in the second part; c->oom turns it into an error
 * later.
 */
enum tw_streams_verdict tw_streams_compare(struct tw_cmp *c, const struct tw_pair *p)
{
    struct streams a = {0}, b = {0};
    enum tw_streams_verdict verdict = TW_STREAMS_DIFFER;
    bool any = false, *wanted_a = NULL, *wanted_b = NULL;
    if (load_both(c, p, &a, &b) && a.threads && b.threads) {
        wanted_a = tw_calloc(a.n, sizeof *wanted_a);
        wanted_b = tw_calloc(b.n, sizeof *wanted_b);
    }
    c->oom |= a.failed || b.failed;
    if (wanted_a && wanted_b && generators_agree(&a, &b) &&
        contents_equal(&a, &b, wanted_a, wanted_b, &any))
        verdict = !any || shared_streams_equal(&a, &b, wanted_a, wanted_b) ? TW_STREAMS_EQUAL
                                                                           : TW_STREAMS_UNKNOWN;
    tw_free(wanted_a);
    tw_free(wanted_b);
    free_streams(&a);
    free_streams(&b);
    return verdict;
}

/* ---- runs that were ended */

/*
 * Is each stream of one the beginning of that of the other? It may go on only where the other trace
 * was cut. Both lists of pieces are sorted by stream, then by place.
 */
static bool same_beginnings(const struct streams *a, const struct streams *b, bool cut_a,
                            bool cut_b)
{
    size_t i = 0, k = 0;
    while (i < a->pieces || k < b->pieces) {
        const bool in_a = i < a->pieces, in_b = k < b->pieces;
        const bool mine = in_a && (!in_b || a->piece[i].stream <= b->piece[k].stream);
        const bool theirs = in_b && (!in_a || b->piece[k].stream <= a->piece[i].stream);
        if (mine && theirs && a->piece[i].content != b->piece[k].content)
            return false;
        /* What only one of them has: the other's stream is at its end, or there is none. */
        if (mine != theirs && !(mine ? cut_b : cut_a))
            return false;
        i += mine;
        k += theirs;
    }
    return true;
}

static bool any_shared(const struct streams *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->s[i].shared)
            return true;
    return false;
}

bool tw_streams_agree_until_cut(struct tw_cmp *c, const struct tw_pair *p, bool cut_a, bool cut_b)
{
    struct streams a = {0}, b = {0};
    if (!cut_a && !cut_b)
        return false;
    const bool agree = load_both(c, p, &a, &b) && !any_shared(&a) && !any_shared(&b) &&
                       generators_agree(&a, &b) && load_pieces(&a, NULL) && load_pieces(&b, NULL) &&
                       same_beginnings(&a, &b, cut_a, cut_b);
    c->oom |= a.failed || b.failed;
    free_streams(&a);
    free_streams(&b);
    return agree;
}
