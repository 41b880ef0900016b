/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path: one record into the calling thread's ring, its value into the thread's share of the
 * step.
 *
 * step_seq hands out (step, seq) in one atomic addition, so that twin_writer_step_end, which
 * exchanges it for the next step, knows exactly how many records the closed step has. It then waits
 * until that many are done: each record counts for one step only, in its bytes and in the value
 * hash alike. Two parities suffice: step s + 2 cannot begin before s is closed.
 */
#include "writer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SEQ_LIMIT 0xF0000000u /* far below the carry into the step number */
/* How long the end of a step waits for records that were begun, or for room in the queue of steps;
 * then the writer is switched off instead of holding the job up. */
#define STEP_PATIENCE_NS UINT64_C(30000000000)
/* How long a recorder with a full ring sleeps between two looks, in a lossless trace. */
#define LOSSLESS_POLL_NS 100000u
/* Where memory is limited, a ring takes at most this part of what is left for rings. */
#define RING_PART 64

/* How large the ring of another thread becomes: as asked for, but where memory is limited at most a
 * part of what is left, so that the first threads have large rings and many have one. Half of it is
 * for threads that get none: they still count in the values of their steps. */
static size_t ring_of_room(const struct twin_writer *w)
{
    uint64_t for_rings = tw_room_left();
    if (for_rings != UINT64_MAX) {
        uint64_t kept = tw_room_all() / 2;
        for_rings = for_rings > kept ? for_rings - kept : 0;
    }
    size_t bytes = w->ring_bytes;
    while (bytes > for_rings / RING_PART && bytes >= TW_RING_MIN)
        bytes /= 2;
    return bytes >= TW_RING_MIN ? bytes : 0;
}

/* Gives the calling thread a ring and puts it into the list; NULL when there is no memory. Both are
 * one mapping: this may be the first that the thread asks for, and malloc would make an arena. The
 * list is read without the lock by the drain thread: an entry is complete before it is released. */
static struct tw_thread *thread_begin(struct twin_writer *w)
{
    size_t bytes = ring_of_room(w);
    struct tw_thread *t = tw_room_map(sizeof *t + bytes);
    if (!t || pthread_setspecific(w->key, t) != 0) {
        tw_room_unmap(t, sizeof *t + bytes);
        return NULL;
    }
    t->writer = w;
    t->ring = (char *)(t + 1);
    t->mask = (uint64_t)bytes - 1;
    pthread_mutex_lock(&w->threads_lock);
    t->number = w->thread_numbers++;
    t->next = atomic_load(&w->threads);
    atomic_store_explicit(&w->threads, t, memory_order_release);
    pthread_mutex_unlock(&w->threads_lock);
    return t;
}

static struct tw_thread *this_thread(struct twin_writer *w)
{
    struct tw_thread *t = pthread_getspecific(w->key);
    return t ? t : thread_begin(w);
}

void tw_thread_free(struct tw_thread *t)
{
    tw_room_unmap(t, sizeof *t + (size_t)t->mask + 1);
}

/* The thread ends: its share of both open steps goes to `orphan`, so that the step can be closed
 * without it. Its ring may still hold records, which is why it is freed by the drain thread. */
void tw_thread_end(void *thread)
{
    struct tw_thread *t = thread;
    struct twin_writer *w = t->writer;
    int saved = errno;
    pthread_mutex_lock(&w->threads_lock);
    for (int i = 0; i < 2; i++) {
        tw_step_sums_merge(&w->orphan[i].sums, &t->part[i].sums);
        atomic_fetch_add_explicit(&w->orphan[i].done,
                                  atomic_load_explicit(&t->part[i].done, memory_order_relaxed),
                                  memory_order_release);
        memset(&t->part[i].sums, 0, sizeof t->part[i].sums);
        atomic_store_explicit(&t->part[i].done, 0, memory_order_relaxed);
    }
    /* the drain thread frees it once its ring is empty */
    atomic_store_explicit(&t->exited, true, memory_order_release);
    pthread_mutex_unlock(&w->threads_lock);
    errno = saved;
}

/* Room for n contiguous bytes in the ring (a multiple of 8); NULL when full. Where the end of the
 * ring is too near, the rest is filled with a pad entry and the room is at the start. `tail` is
 * looked up only when the last known value does not suffice: it lies on a cache line that the drain
 * thread writes. */
static char *ring_room(struct tw_thread *t, uint32_t n)
{
    uint64_t size = t->mask + 1, head = atomic_load_explicit(&t->head, memory_order_relaxed);
    uint64_t to_end = size - (head & t->mask), need = n <= to_end ? n : to_end + n;
    if (head + need - t->seen_tail > size) {
        t->seen_tail = atomic_load_explicit(&t->tail, memory_order_acquire);
        if (head + need - t->seen_tail > size)
            return NULL;
    }
    if (n > to_end) {
        struct tw_entry pad = {.bytes = (uint32_t)to_end, .type = TW_ENTRY_PAD};
        memcpy(t->ring + (head & t->mask), &pad, sizeof pad);
        atomic_store_explicit(&t->head, head + to_end, memory_order_release);
        return t->ring;
    }
    return t->ring + (head & t->mask);
}

/* How many records of this key the step had before this one. The counter of a parity belongs to the
 * step that its upper half names; the first record of a later step takes it over. */
static uint32_t next_occurrence(struct tw_key_item *k, uint32_t step)
{
    atomic_uint_fast64_t *word = &k->occurrences[step & 1];
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    while ((uint32_t)(seen >> 32) != step)
        if (atomic_compare_exchange_weak_explicit(word, &seen, ((uint64_t)step << 32) + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return 0;
    /* The step cannot change under us: it has a record that is not done. */
    return (uint32_t)atomic_fetch_add_explicit(word, 1, memory_order_relaxed);
}

/* Copies and returns the place behind. */
static char *put_bytes(char *at, const void *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return at + n;
}

/* Which optional parts a record has, and how large it becomes with them. links: their number; k:
 * numbers of the sketch. */
struct parts {
    uint32_t flags, bytes, links, k;
};

/* A part that is asked for and not there is left out; too many links are cut. */
static struct parts parts_of(const struct twin_observation *o)
{
    struct parts p = {.flags = o->flags & TW_RECORD_FLAGS, .bytes = sizeof(struct tw_record)};
    if (!o->stats)
        p.flags &= ~(uint32_t)TWIN_REC_STATS;
    if (!o->sketch || o->sketch->k == 0 || o->sketch->k > TWIN_SKETCH_MAX)
        p.flags &= ~(uint32_t)TWIN_REC_SKETCH;
    if (!o->links || o->link_count == 0)
        p.flags &= ~(uint32_t)TWIN_REC_LINKS;
    if (p.flags & TWIN_REC_STATS)
        p.bytes += sizeof(struct tw_record_stats);
    if (p.flags & TWIN_REC_OFFSET)
        p.bytes += 8;
    if (p.flags & TWIN_REC_PART)
        p.bytes += 8;
    if (p.flags & TWIN_REC_SKETCH) {
        p.k = o->sketch->k;
        p.bytes += (uint32_t)sizeof(struct tw_record_sketch) + 8 * p.k;
    }
    if (p.flags & TWIN_REC_LINKS) {
        p.links = o->link_count < TWIN_MAX_LINKS ? o->link_count : TWIN_MAX_LINKS;
        p.bytes += (uint32_t)sizeof(struct tw_record_links) + 8 * p.links;
    }
    return p;
}

/* Writes the record with its parts, in the order that format.h gives. */
static void encode(char *at, const struct tw_record *r, const struct parts *p,
                   const struct twin_observation *o)
{
    at = put_bytes(at, r, sizeof *r);
    if (p->flags & TWIN_REC_STATS) {
        const struct twin_stats *s = o->stats;
        struct tw_record_stats stats = {s->count, s->nan, s->pos_inf, s->neg_inf, s->zeros,
                                        s->min,   s->max, s->sum,     s->sumsq};
        at = put_bytes(at, &stats, sizeof stats);
    }
    if (p->flags & TWIN_REC_OFFSET)
        at = put_bytes(at, &o->global_offset, 8);
    if (p->flags & TWIN_REC_PART)
        at = put_bytes(at, &o->whole, 8);
    if (p->flags & TWIN_REC_SKETCH) {
        struct tw_record_sketch sketch = {.k = p->k, .skipped = o->sketch->skipped};
        at = put_bytes(at, &sketch, sizeof sketch);
        at = put_bytes(at, o->sketch->bucket, 8 * p->k);
    }
    if (p->flags & TWIN_REC_LINKS) {
        struct tw_record_links links = {.count = p->links};
        at = put_bytes(at, &links, sizeof links);
        put_bytes(at, o->links, 8 * p->links);
    }
}

/* Puts the record into the ring; false when it is full, or when the thread has none. In a lossless
 * trace a full one is waited for, as long as the writer works. The drain thread is woken when a
 * quarter of the ring is in use. */
static bool push_record(struct twin_writer *w, struct tw_thread *t, const struct tw_record *r,
                        const struct parts *p, const struct twin_observation *o)
{
    char *at = ring_room(t, p->bytes);
    while (!at && w->lossless && t->mask != TW_NO_RING && tw_writer_on(w) && getpid() == w->pid) {
        tw_drain_wake(w, true);
        tw_sleep_ns(LOSSLESS_POLL_NS);
        at = ring_room(t, p->bytes);
    }
    if (!at)
        return false;
    encode(at, r, p, o);
    uint64_t head = atomic_load_explicit(&t->head, memory_order_relaxed) + p->bytes;
    atomic_store_explicit(&t->head, head, memory_order_release);
    if (head - t->seen_tail > t->mask / 4) {
        t->seen_tail = atomic_load_explicit(&t->tail, memory_order_acquire);
        if (head - t->seen_tail > t->mask / 4 &&
            atomic_load_explicit(&w->sleeping, memory_order_relaxed))
            tw_drain_wake(w, true);
    }
    return true;
}

static uint64_t lose_record(struct twin_writer *w)
{
    atomic_fetch_add_explicit(&w->lost, 1, memory_order_relaxed);
    return 0;
}

/* One record by this thread. A record that found no room counts in the value of the step all the
 * same: the step's hash covers what happened, and `dropped` says that the bytes are missing. `done`
 * is released last: from then on the step may be closed. */
static uint64_t record(struct twin_writer *w, struct tw_thread *t, const struct twin_observation *o)
{
    const struct tw_series_item *series = tw_table_at(&w->series, o->series);
    const struct tw_layout_item *layout = tw_table_has(&w->layouts, o->layout)
                                              ? tw_table_at(&w->layouts, o->layout)
                                              : NULL;
    uint64_t ticket = atomic_fetch_add_explicit(&w->step_seq, 1, memory_order_acq_rel);
    uint32_t step = (uint32_t)(ticket >> 32), seq = (uint32_t)ticket + 1; /* link 0 is no link */
    struct tw_step_part *part = &t->part[step & 1];
    struct parts p = parts_of(o);
    bool unobserved = p.flags & TWIN_REC_UNOBSERVED;
    struct tw_record r = {
        .e = {.bytes = p.bytes, .type = TW_ENTRY_RECORD, .flags = (uint16_t)p.flags},
        .series = o->series,
        .layout = layout ? o->layout : 0,
        .step = step,
        .seq = seq,
        .occurrence = next_occurrence(series->key, step),
        .thread = t->number,
        .time_ns = tw_monotonic_ns() - w->header.start_monotonic_ns,
        .digest_a = unobserved ? 0 : o->digest.a,
        .digest_b = unobserved ? 0 : o->digest.b,
    };
    tw_step_sums_add(&part->sums, series->s.phase, series->key->hash, r.occurrence, unobserved,
                     series->s.role == 0 && !(p.flags & TWIN_REC_UNORDERED),
                     layout ? layout->hash : (struct tw_hash128){0, 0}, o->digest);
    if (!push_record(w, t, &r, &p, o)) {
        part->sums.dropped++;
        atomic_store_explicit(&t->dropped,
                              atomic_load_explicit(&t->dropped, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&part->done, 1, memory_order_release);
    return (uint64_t)step << 32 | seq;
}

/* Returns the link by which later records name this one, 0 when it was lost. A signal handler that
 * records while its thread does so already is refused: the ring is not to be entered twice. */
uint64_t twin_writer_record(struct twin_writer *w, const struct twin_observation *o)
{
    if (!tw_writer_on(w))
        return 0;
    if (!tw_table_has(&w->series, o->series) ||
        (uint32_t)atomic_load_explicit(&w->step_seq, memory_order_relaxed) >= SEQ_LIMIT)
        return lose_record(w);
    int saved = errno;
    uint64_t link = 0;
    struct tw_thread *t = this_thread(w);
    if (!t || t->recording) {
        lose_record(w);
    } else {
        t->recording = true;
        atomic_signal_fence(memory_order_seq_cst);
        link = record(w, t, o);
        atomic_signal_fence(memory_order_seq_cst);
        t->recording = false;
    }
    errno = saved;
    return link;
}

uint32_t twin_writer_step(const struct twin_writer *w)
{
    return w ? (uint32_t)(atomic_load_explicit(&w->step_seq, memory_order_acquire) >> 32) : 0;
}

uint64_t tw_dropped_total(struct twin_writer *w)
{
    pthread_mutex_lock(&w->threads_lock);
    uint64_t n = atomic_load(&w->dropped_exited);
    for (struct tw_thread *t = atomic_load(&w->threads); t; t = t->next)
        n += atomic_load_explicit(&t->dropped, memory_order_relaxed);
    pthread_mutex_unlock(&w->threads_lock);
    return n;
}

/* Takes what all threads saw of the step, once `records` of them are done; false while they are
 * not. */
static bool collect_sums(struct twin_writer *w, unsigned parity, uint32_t records,
                         struct tw_step_sums *total)
{
    pthread_mutex_lock(&w->threads_lock);
    uint32_t done = atomic_load_explicit(&w->orphan[parity].done, memory_order_acquire);
    struct tw_thread *first = atomic_load(&w->threads);
    for (struct tw_thread *t = first; t; t = t->next)
        done += atomic_load_explicit(&t->part[parity].done, memory_order_acquire);
    if (done == records) {
        /*
         * Parts of ended threads are merged already: their order hashes must not be finished twice.
         */
        *total = w->orphan[parity].sums;
        memset(&w->orphan[parity].sums, 0, sizeof *total);
        atomic_store_explicit(&w->orphan[parity].done, 0, memory_order_relaxed);
        for (struct tw_thread *t = first; t; t = t->next) {
            tw_step_sums_merge(total, &t->part[parity].sums);
            memset(&t->part[parity].sums, 0, sizeof *total);
            atomic_store_explicit(&t->part[parity].done, 0, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&w->threads_lock);
    return done == records;
}

/* Sleeps a moment while something is awaited; false when waiting has no sense any more. */
static bool patient(struct twin_writer *w, uint64_t *since)
{
    uint64_t now = tw_monotonic_ns();
    if (*since == 0)
        *since = now;
    if (now - *since > STEP_PATIENCE_NS)
        tw_writer_fail(w, ETIMEDOUT);
    if (!tw_writer_on(w) || getpid() != w->pid)
        return false;
    tw_sleep_ns(20000);
    return true;
}

/* Pushes the step's element into the prefixes and queues its end for the drain thread. step_lock is
 * held. Only phases that have records take room. */
static void queue_step(struct twin_writer *w, uint32_t step, const struct tw_step_sums *total)
{
    uint32_t head = atomic_load_explicit(&w->queue_head, memory_order_relaxed);
    struct tw_step_end *s = &w->queue[head % TW_STEP_QUEUE];
    w->prefix = tw_prefix_push(w->prefix, tw_step_element(total));
    w->order_prefix = tw_prefix_push(w->order_prefix, tw_order_element(total));
    for (uint64_t since = 0;
         head - atomic_load_explicit(&w->queue_tail, memory_order_acquire) >= TW_STEP_QUEUE;) {
        tw_drain_wake(w, true);
        if (!patient(w, &since))
            return;
    }
    *s = (struct tw_step_end){
        .e = {.bytes = TW_STEP_END_FIXED, .type = TW_ENTRY_STEP_END},
        .step = step,
        .records = total->records,
        .dropped = total->dropped,
        .phase_mask = total->phase_mask,
        .order = total->order,
        .prefix_lo = w->prefix.lo,
        .prefix_hi = w->prefix.hi,
        .order_prefix_lo = w->order_prefix.lo,
        .order_prefix_hi = w->order_prefix.hi,
    };
    for (int p = 0; p < TWIN_PHASE_COUNT; p++)
        if (total->phase_mask >> p & 1) {
            s->phase[(s->e.bytes - TW_STEP_END_FIXED) / sizeof *s->phase] = total->phase[p];
            s->e.bytes += sizeof *s->phase;
        }
    atomic_store_explicit(&w->queue_head, head + 1, memory_order_release);
}

/* Closes the step: the exchange gives the exact number of its records, and starts the next one at
 * the same moment. Then it waits until all of them are done. Returns the number of the step that is
 * open now. */
uint32_t twin_writer_step_end(struct twin_writer *w)
{
    if (!tw_writer_on(w))
        return twin_writer_step(w);
    int saved = errno;
    pthread_mutex_lock(&w->step_lock);
    uint32_t step = (uint32_t)(atomic_load(&w->step_seq) >> 32);
    if (step < UINT32_MAX) {
        uint64_t count = (uint32_t)atomic_exchange_explicit(
            &w->step_seq, (uint64_t)(step + 1) << 32, memory_order_acq_rel);
        struct tw_step_sums total;
        bool whole;
        uint64_t since = 0;
        while (!(whole = collect_sums(w, step & 1, (uint32_t)count, &total)) && patient(w, &since))
            ;
        if (whole)
            queue_step(w, step, &total);
        step++;
    }
    pthread_mutex_unlock(&w->step_lock);
    tw_drain_wake(w, false);
    errno = saved;
    return step;
}

void twin_writer_add_observer_ns(struct twin_writer *w, uint64_t ns)
{
    if (tw_writer_on(w))
        atomic_fetch_add_explicit(&w->observer_ns, ns, memory_order_relaxed);
}
