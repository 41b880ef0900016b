/* SPDX-License-Identifier: Apache-2.0 */
/* Life of a writer: open, flush, fork, close. Called by the agents inside the job; records
 * themselves go through record.c, and the file belongs to the drain thread (drain.c).
 *
 * A writer that fails is off: calls return at once and the job goes on. A closed writer is never
 * freed, because another thread may be inside a call; only tests free one. After a fork the child
 * has a dead copy, which twin_writer_reopen_after_fork() turns into a writer with a file of its
 * own: definitions that the parent interned are kept, since the agents hold their ids. */
#include "writer.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* a job that exits waits no longer for a disk that hangs */
#define FLUSH_PATIENCE_NS UINT64_C(10000000000)
/* Bytes of a thread's ring; always a power of two. */
#define RING_DEFAULT ((size_t)4 << 20)
#define RING_MAX ((size_t)1 << 30)
#define DRAIN_STACK ((size_t)256 << 10)

/* Closed writers stay: another thread may be inside a call. One list, so that they are found by
 * leak checkers. */
static _Atomic(struct twin_writer *) closed_writers;

/* Waits while *word is `value`, at most timeout_ns; may return early for no reason. */
void tw_futex_wait(atomic_uint *word, uint32_t value, uint64_t timeout_ns)
{
    struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                         .tv_nsec = (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &t, NULL, 0);
}

void tw_futex_wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void tw_sleep_ns(uint64_t ns)
{
    struct timespec t = {.tv_nsec = (long)ns};
    nanosleep(&t, NULL);
}

/* The file's header, except for its checksum. */
static void fill_header(struct twin_writer *w, const struct twin_writer_options *o)
{
    struct tw_file_header *h = &w->header;
    const char *role = o->role ? o->role : "main";
    memset(h, 0, sizeof *h);
    memcpy(h->magic, tw_file_magic, sizeof h->magic);
    h->endian = TW_TRACE_ENDIAN;
    h->version = TW_TRACE_VERSION;
    h->min_reader = TW_TRACE_MIN_READER;
    h->header_bytes = sizeof *h;
    h->pid = (uint32_t)getpid();
    h->features = TW_FEATURES_KNOWN;
    memcpy(h->run_id, o->run_id, sizeof h->run_id);
    h->rank = o->rank;
    h->world = o->world;
    h->start_realtime_ns = tw_realtime_ns();
    h->start_monotonic_ns = tw_monotonic_ns();
    h->role_bytes = (uint32_t)strnlen(role, TW_ROLE_MAX);
    memcpy(h->role, role, h->role_bytes);
}

/* The next power of two from TW_RING_MIN to RING_MAX; 0 asks for the default. */
static size_t ring_size(size_t wanted)
{
    size_t n = TW_RING_MIN;
    wanted = wanted ? wanted : RING_DEFAULT;
    while (n < wanted && n < RING_MAX)
        n *= 2;
    return n;
}

/* Starts the drain thread, with every signal blocked in it, and waits until it has created the
 * file. Used for a new writer and for one that is reopened in a child. On failure the caller stops
 * the drain thread. */
static int start_drain(struct twin_writer *w, const struct twin_writer_options *o,
                       struct twin_error *err)
{
    pthread_attr_t attr;
    sigset_t all, old;
    char *path = tw_strdup(o->path);
    if (!path || tw_blocks_init(w) != 0) {
        tw_free(path);
        return tw_no_memory(err, "opening trace %s", o->path);
    }
    tw_free(w->path);
    w->path = path;
    w->pid = getpid();
    w->ring_bytes = ring_size(o->ring_bytes);
    w->seal_ns = (o->seal_ms ? o->seal_ms : 250u) * UINT64_C(1000000);
    w->lossless = o->lossless;
    fill_header(w, o);
    atomic_store(&w->failed_errno, 0);
    atomic_store(&w->started, 0);
    atomic_store(&w->stop, false);
    atomic_store(&w->sleeping, 0);
    atomic_store(&w->state, TW_WRITER_ON);

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_attr_init(&attr);
    if (error == 0) {
        pthread_attr_setstacksize(&attr, DRAIN_STACK);
        error = pthread_create(&w->drain_thread, &attr, tw_drain_main, w);
        pthread_attr_destroy(&attr);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error != 0) {
        tw_writer_fail(w, error);
        errno = error;
        return twin_error_system(err, "cannot start the thread that writes trace %s", o->path);
    }
    w->drain_running = true;
    while (atomic_load(&w->started) == 0)
        tw_futex_wait(&w->started, 0, UINT64_C(100000000));
    if (atomic_load(&w->started) == 2) {
        errno = atomic_load(&w->failed_errno);
        return twin_error_system(err, "cannot create trace %s", o->path);
    }
    return 0;
}

/* Lets the drain thread write what is left and waits for its end. */
static void stop_drain(struct twin_writer *w)
{
    if (!w->drain_running)
        return;
    atomic_store(&w->stop, true);
    tw_drain_wake(w, true);
    pthread_join(w->drain_thread, NULL);
    w->drain_running = false;
}

/* Frees the rings of all threads but one (NULL: all). Only when no other thread is left. */
static void free_threads(struct twin_writer *w, const struct tw_thread *but)
{
    struct tw_thread *next, *kept = NULL;
    for (struct tw_thread *t = atomic_load(&w->threads); t; t = next) {
        next = t->next;
        if (t == but) {
            kept = t;
            kept->next = NULL;
        } else {
            tw_thread_free(t);
        }
    }
    atomic_store(&w->threads, kept);
}

static void free_all(struct twin_writer *w)
{
    free_threads(w, NULL);
    tw_intern_fini(w);
    pthread_key_delete(w->key);
    pthread_mutex_destroy(&w->step_lock);
    pthread_mutex_destroy(&w->threads_lock);
    tw_free(w->queue);
    tw_free(w->drain.data_bytes);
    tw_free(w->drain.dict_bytes);
    tw_free(w->path);
    tw_free(w);
}

/* On failure nothing is left: no thread, no file, no memory. */
int twin_writer_open(const struct twin_writer_options *o, struct twin_writer **out,
                     struct twin_error *err)
{
    *out = NULL;
    int saved = errno;
    if (!o || !o->path || !o->path[0])
        return twin_error_set(err, TWIN_EINVAL, "a trace needs a path");
    if (!tw_trace_is_le())
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "traces are written on little-endian machines only");
    struct twin_writer *w = tw_calloc(1, sizeof *w);
    if (w)
        w->queue = tw_calloc(TW_STEP_QUEUE, sizeof *w->queue);
    if (!w || !w->queue) {
        tw_free(w);
        return tw_no_memory(err, "opening trace %s", o->path);
    }
    w->drain.fd = -1;
    pthread_mutex_init(&w->step_lock, NULL);
    pthread_mutex_init(&w->threads_lock, NULL);
    tw_intern_init(w);
    int rc = pthread_key_create(&w->key, tw_thread_end);
    if (rc != 0) {
        tw_intern_fini(w);
        tw_free(w->queue);
        tw_free(w);
        return twin_error_set(err, TWIN_ELIMIT, "no thread-specific key is left for trace %s",
                              o->path);
    }
    rc = start_drain(w, o, err);
    if (rc != 0) {
        stop_drain(w);
        free_all(w);
    } else {
        *out = w;
    }
    errno = saved;
    return rc;
}

/* Waits until everything recorded before this call is in the file. A disk that hangs switches the
 * writer off after FLUSH_PATIENCE_NS. */
void twin_writer_flush(struct twin_writer *w)
{
    if (!tw_writer_on(w) || getpid() != w->pid)
        return;
    int saved = errno;
    uint64_t start_ns = tw_monotonic_ns();
    uint32_t wanted = atomic_fetch_add(&w->flush_wanted, 1) + 1, done;
    tw_drain_wake(w, true);
    while ((int32_t)((done = atomic_load(&w->flush_done)) - wanted) < 0 && tw_writer_on(w)) {
        tw_futex_wait(&w->flush_done, done, UINT64_C(100000000));
        if (tw_monotonic_ns() - start_ns > FLUSH_PATIENCE_NS)
            tw_writer_fail(w, ETIMEDOUT);
    }
    errno = saved;
}

/* Everything recorded is written, with an END block. The writer's memory stays, in the list of
 * closed ones. A second call does nothing, and neither does one in a forked child. */
void twin_writer_close(struct twin_writer *w)
{
    if (!w || atomic_load(&w->state) == TW_WRITER_DEAD || getpid() != w->pid)
        return;
    int saved = errno;
    pthread_mutex_lock(&w->step_lock); /* one closer; and no step half closed */
    if (atomic_load(&w->state) != TW_WRITER_DEAD) {
        stop_drain(w);
        atomic_store(&w->state, TW_WRITER_DEAD);
        if (!w->next_closed && atomic_load(&closed_writers) != w) {
            w->next_closed = atomic_load(&closed_writers);
            while (!atomic_compare_exchange_weak(&closed_writers, &w->next_closed, w))
                ;
        }
    }
    pthread_mutex_unlock(&w->step_lock);
    errno = saved;
}

void tw_writer_free(struct twin_writer *w)
{
    if (!w)
        return;
    twin_writer_close(w);
    _Atomic(struct twin_writer *) *at = &closed_writers;
    struct twin_writer *one = atomic_load(at);
    if (one == w)
        atomic_store(at, w->next_closed);
    for (; one; one = one->next_closed)
        if (one->next_closed == w)
            one->next_closed = w->next_closed;
    free_all(w);
}

/* All locks, in their order: no other thread holds one of them in the child. */
void twin_writer_prepare_fork(struct twin_writer *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->step_lock);
    pthread_mutex_lock(&w->threads_lock);
    pthread_mutex_lock(&w->intern_lock);
}

static void unlock_all(struct twin_writer *w)
{
    pthread_mutex_unlock(&w->intern_lock);
    pthread_mutex_unlock(&w->threads_lock);
    pthread_mutex_unlock(&w->step_lock);
}

void twin_writer_parent_after_fork(struct twin_writer *w)
{
    if (w)
        unlock_all(w);
}

/* The copy in the child is dead until it is reopened: its drain thread exists in the parent only.
 */
void twin_writer_child_after_fork(struct twin_writer *w)
{
    if (!w)
        return;
    atomic_store(&w->state, TW_WRITER_DEAD);
    w->drain_running = false; /* it lives in the parent only */
    w->forker = pthread_getspecific(w->key);
    unlock_all(w);
}

/* In the child, by any of its threads: the one that forked may have started others since. The ring
 * of the one that forked is used again; counters, prefixes and queues begin anew. */
int twin_writer_reopen_after_fork(struct twin_writer *w, const struct twin_writer_options *o,
                                  struct twin_error *err)
{
    if (!w || !o || !o->path || !o->path[0])
        return twin_error_set(err, TWIN_EINVAL, "a trace needs a path");
    if (atomic_load(&w->state) != TW_WRITER_DEAD || getpid() == w->pid)
        return twin_error_set(err, TWIN_EINVAL, "trace %s: reopening is for the child of a fork",
                              o->path);
    int saved = errno;
    struct tw_thread *forker = w->forker;
    free_threads(w, forker); /* the others' threads do not exist here */
    if (forker) {
        memset(forker->part, 0, sizeof forker->part);
        atomic_store(&forker->head, 0);
        atomic_store(&forker->tail, 0);
        atomic_store(&forker->dropped, 0);
        forker->seen_tail = 0;
        forker->number = 0;
    }
    w->thread_numbers = forker ? 1 : 0;
    memset(w->orphan, 0, sizeof w->orphan);
    atomic_store(&w->step_seq, 0);
    w->prefix = w->order_prefix = (struct twin_value_hash){0, 0};
    atomic_store(&w->queue_head, 0);
    atomic_store(&w->queue_tail, 0);
    atomic_store(&w->dropped_exited, 0);
    atomic_store(&w->observer_ns, 0);
    atomic_store(&w->lost, 0);
    atomic_store(&w->blocks, 0);
    atomic_store(&w->bytes, 0);
    atomic_store(&w->records_stored, 0);
    atomic_store(&w->flush_wanted, 0);
    atomic_store(&w->flush_done, 0);
    tw_intern_restart(w);
    tw_file_close(w); /* the parent's file */
    int rc = start_drain(w, o, err);
    if (rc != 0) {
        stop_drain(w);
        atomic_store(&w->state, TW_WRITER_DEAD);
    }
    errno = saved;
    return rc;
}

/* May be called at any time, also of a closed writer. */
struct twin_writer_counts twin_writer_counts(const struct twin_writer *w)
{
    struct twin_writer_counts c = {0};
    if (!w)
        return c;
    int saved = errno;
    c.dropped = tw_dropped_total((struct twin_writer *)w);
    c.records = atomic_load(&w->records_stored) + c.dropped;
    c.blocks = atomic_load(&w->blocks);
    c.bytes = atomic_load(&w->bytes);
    c.observer_ns = atomic_load(&w->observer_ns);
    c.failed_errno = atomic_load(&w->failed_errno);
    c.lost = atomic_load(&w->lost);
    errno = saved;
    return c;
}
