/* SPDX-License-Identifier: Apache-2.0 */
/* The drain thread: takes records from the rings and finished steps from the queue, and puts them
 * into the file (blocks.c) in order of steps: every record of step s before the end of step s, no
 * record of step s + 1 before it. (A record is in its ring before its step can be closed, and the
 * end of a step is queued before the drain thread may take records of the next.)
 *
 * It is the only thread that touches the file and that frees threads' rings. Recorders never wait
 * for it unless the trace is lossless or the queue of steps is full. When writing fails it goes on
 * emptying rings and throws the records away, so that the job never blocks on us. */
#include "writer.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

/* steps that end within this of a seal share the next one: a wake-up costs the job 0.1 ms */
#define NAP_NS UINT64_C(50000000)

/* Counting `wake` up first closes the gap between the drain's last look and its sleep: it sleeps
 * only on the count that it saw before it looked. */
void tw_drain_wake(struct twin_writer *w, bool urgent)
{
    atomic_fetch_add(&w->wake, 1);
    int asleep = atomic_load(&w->sleeping);
    if ((asleep == 1 || (asleep == 2 && urgent)) && atomic_exchange(&w->sleeping, 0) != 0)
        tw_futex_wake_all(&w->wake);
}

/* The first error is kept; later ones are its consequences. Any thread may call this. */
void tw_writer_fail(struct twin_writer *w, int error)
{
    int on = TW_WRITER_ON, none = 0;
    atomic_compare_exchange_strong(&w->failed_errno, &none, error ? error : EIO);
    atomic_compare_exchange_strong(&w->state, &on, TW_WRITER_OFF);
}

/* Takes this ring's records of steps up to `limit` and stops at the first later one; keep false
 * throws all away. Room is given back in pieces of TW_BLOCK_TARGET, so that a recorder with a full
 * ring waits no longer than needed. Returns whether much was pushed meanwhile. */
static bool take_ring(struct twin_writer *w, struct tw_thread *t, uint32_t limit, bool keep)
{
    uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed), published = tail;
    while (tail != head) {
        const char *at = t->ring + (tail & t->mask);
        struct tw_entry e;
        memcpy(&e, at, sizeof e);
        if (e.type != TW_ENTRY_PAD) {
            struct tw_record r;
            memcpy(&r, at, sizeof r);
            if (keep && r.step > limit)
                break;
            if (keep)
                tw_blocks_put(w, at, e.bytes, r.step, r.seq, true);
        }
        tail += e.bytes;
        if (tail - published >= TW_BLOCK_TARGET) {
            atomic_store_explicit(&t->tail, tail, memory_order_release);
            published = tail;
        }
    }
    atomic_store_explicit(&t->tail, tail, memory_order_release);
    return tail == head &&
           atomic_load_explicit(&t->head, memory_order_relaxed) - tail > t->mask / 4;
}

/* Takes a thread that has ended, and whose ring is empty, out of the list and frees it. Its count
 * of dropped records lives on in dropped_exited. */
static void unlink_thread(struct twin_writer *w, struct tw_thread *t)
{
    pthread_mutex_lock(&w->threads_lock);
    atomic_fetch_add(&w->dropped_exited, atomic_load(&t->dropped));
    struct tw_thread *at = atomic_load(&w->threads);
    if (at == t) {
        atomic_store(&w->threads, t->next);
    } else {
        while (at->next != t)
            at = at->next;
        at->next = t->next;
    }
    pthread_mutex_unlock(&w->threads_lock);
    tw_thread_free(t);
}

/* All rings once. `exited` is read before the ring is: what the thread pushed before it ended is
 * then taken here. */
static bool take_rings(struct twin_writer *w, uint32_t limit, bool keep)
{
    bool more = false;
    struct tw_thread *next;
    /* Others only push in front of the list; only this thread takes out of it. */
    for (struct tw_thread *t = atomic_load_explicit(&w->threads, memory_order_acquire); t;
         t = next) {
        next = t->next;
        bool exited = atomic_load_explicit(&t->exited, memory_order_acquire);
        more |= take_ring(w, t, limit, keep);
        if (exited && atomic_load_explicit(&t->head, memory_order_relaxed) ==
                          atomic_load_explicit(&t->tail, memory_order_relaxed))
            unlink_thread(w, t);
    }
    return more;
}

/* One round; returns whether there is more to do at once. */
static bool take_round(struct twin_writer *w)
{
    struct tw_drain *d = &w->drain;
    for (uint32_t rounds = 0; tw_writer_on(w); rounds++) {
        uint32_t tail = atomic_load_explicit(&w->queue_tail, memory_order_relaxed);
        /* Whether the current step has ended is read before the rings: then all its records are in
         * them. */
        bool end = tail != atomic_load_explicit(&w->queue_head, memory_order_acquire);
        bool more = take_rings(w, (uint32_t)d->data.steps, true);
        if (!end || rounds == TW_STEP_QUEUE)
            return end || more;
        tw_blocks_put_step(w, &w->queue[tail % TW_STEP_QUEUE]);
        atomic_store_explicit(&w->queue_tail, tail + 1, memory_order_release);
    }
    return false;
}

/* The writer is off: empties queue and rings without writing. */
static void discard(struct twin_writer *w)
{
    atomic_store(&w->queue_tail, atomic_load(&w->queue_head));
    take_rings(w, 0, false);
}

/* Sleeps until there may be work. Right after a seal only for the rest of NAP_NS, and ordinary
 * wake-ups do not end that; else until somebody wakes us, or until seal_ns have passed. */
static void rest(struct twin_writer *w, uint32_t ticket)
{
    uint64_t since = tw_monotonic_ns() - w->drain.last_seal_ns;
    if (since < NAP_NS) {
        atomic_store(&w->sleeping, 2);
        tw_futex_wait(&w->wake, ticket, NAP_NS - since);
        /* whatever came during the nap is dealt with now */
    } else {
        atomic_store(&w->sleeping, 1);
        tw_futex_wait(&w->wake, ticket, w->seal_ns);
    }
    atomic_store(&w->sleeping, 0);
}

/* The thread from its start to its end. `wake` and `flush_wanted` are read before the work, so that
 * what comes during the work leads to another round; `stop` likewise, so the round that sees it
 * takes the last records. */
void *tw_drain_main(void *writer)
{
    struct twin_writer *w = writer;
    prctl(PR_SET_NAME, "twinrun-drain", 0, 0, 0);
    w->drain.alone = tw_drain_stand_alone();
    tw_file_create(w);
    atomic_store(&w->started, tw_writer_on(w) ? 1 : 2);
    tw_futex_wake_all(&w->started);
    for (bool stop = false; !stop;) {
        uint32_t ticket = atomic_load(&w->wake), wanted = atomic_load(&w->flush_wanted);
        stop = atomic_load(&w->stop);
        bool more = take_round(w);
        if (tw_writer_on(w))
            tw_blocks_seal(w);
        if (!tw_writer_on(w))
            discard(w);
        if (more && !stop)
            continue;
        if (atomic_exchange(&w->flush_done, wanted) != wanted)
            tw_futex_wake_all(&w->flush_done);
        if (!stop)
            rest(w, ticket);
    }
    tw_blocks_end(w);
    tw_file_close(w);
    return NULL;
}
