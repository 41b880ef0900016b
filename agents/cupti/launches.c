/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each thread launches, step by step, and the trace `kernels/<rank>.<pid>.twt`. The trace is
 * not the rank's own: two runs that computed the same bits by other kernels must not differ.
 *
 * A record for each launch would cost 56 bytes of trace for every few microseconds of a GPU. A
 * training step launches the same sequence as the one before, nearly always: so a thread keeps the
 * digest of what it launches in a step, and the numbers of the kernels, and at the next step writes
 * the digest; the launches themselves only where no sequence of that digest was listed before.
 *
 * A thread has a place of its own, which it alone writes. The one that closes the trace takes each
 * place for itself, and never waits for a thread that is just launching.
 */
#include "launches.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "agents/common/side_trace.h"
#include "agents/common/life.h"
#include "agents/common/state.h"
#include "src/base/base.h"
#include "src/trace/kernels.h"

enum {
    THREADS = 64,
    LISTED = 8192,     /* launches of a step that are listed; the digest has all of them */
    KERNELS = 1 << 13, /* kinds of launches: name and shape */
    NAMES = 512,       /* of functions, that a thread keeps */
    SEQUENCES = 1 << 12,
    GRAPHS = 1 << 10,
    PROBES = 64, /* places of a table that are looked at */
};
#define RING_BYTES ((size_t)1 << 20)  /* a sequence of LISTED launches takes half of it */
#define LIST_MOST ((uint64_t)1 << 20) /* launches that a process lists altogether */
#define CODE_MOST ((size_t)256 << 20) /* bytes of machine code that are digested: 0.1 s */

/* A kind of launch. `series` is fixed once `key` is there. */
struct kernel {
    _Atomic int taken;
    uint32_t series;
    _Atomic uint64_t key;
};

/* The name of a function, until something is unloaded. */
struct named {
    const void *function;
    const char *name;
    size_t length;
    uint64_t generation, hash;
};

struct thread {
    atomic_flag busy; /* its own thread is at it, or the one that closes the trace */
    bool gone;        /* closed: what comes is not counted */
    uint32_t series;  /* of its sequences */
    uint32_t layout;  /* of `layout_of` launches */
    uint64_t layout_of;
    uint32_t step;
    uint64_t count, digest;
    uint16_t launch[LISTED]; /* indices of kernels; KERNELS: one that has no place there */
    struct named named[NAMES];
};

/* In one word, so that whoever sees the handle sees the number: handle << 16 | number. 0: never
 * used; GONE: it ended. Handles are addresses of less than 48 bits. */
struct graph {
    _Atomic uint64_t it;
};
enum { GONE = 1, NUMBER_BITS = 16 };

struct launches {
    struct thread thread[THREADS];
    struct kernel kernel[KERNELS];
    _Atomic uint64_t sequence[SEQUENCES]; /* digests that are listed */
    struct graph graph[GRAPHS];
    uint32_t layout_of_launch;
};

static struct launches *all; /* mapped by the start; for good */
static _Atomic(struct twin_writer *) writer;
static _Atomic uint32_t threads, graphs;
static _Atomic uint64_t lost, unlisted, listed, generation;
static _Atomic(const char *) stopped; /* why; NULL: it goes on */
static char stopped_text[320];
static struct twin_writer *held; /* over a fork */
static __thread struct thread *mine __attribute__((tls_model("initial-exec")));
static __thread bool refused __attribute__((tls_model("initial-exec")));

/* ---- start and stop */

bool tw_launches_start(uint32_t version)
{
    char text[16];
    if (!(all = tw_room_map(sizeof *all))) {
        tw_launches_stop("there is no memory for it");
        return false;
    }
    struct twin_writer *w = tw_side_trace_open("kernels", RING_BYTES,
                                               "the kernels launched on a GPU");
    if (!w)
        return false;
    snprintf(text, sizeof text, "%u", version);
    twin_writer_note(w, "kernels.cupti", text);
    all->layout_of_launch = twin_writer_layout(w, TWIN_U8, 0, NULL);
    atomic_store_explicit(&writer, w, memory_order_release);
    return true;
}

void tw_launches_stop(const char *why)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&told))
        return;
    snprintf(stopped_text, sizeof stopped_text, "%s", why);
    atomic_store_explicit(&stopped, stopped_text, memory_order_release);
    tw_folder_fault("the kernels launched on a GPU are not recorded", why);
}

/* NULL: nothing is recorded, or not any more. */
static struct twin_writer *recording(void)
{
    if (atomic_load_explicit(&stopped, memory_order_relaxed))
        return NULL;
    return atomic_load_explicit(&writer, memory_order_acquire);
}

static void lose(uint64_t n)
{
    atomic_fetch_add_explicit(&lost, n, memory_order_relaxed);
}

static uint32_t intern(struct twin_writer *w, const char *text)
{
    return twin_writer_string(w, text, strlen(text));
}

/* ---- the place of a thread */

/* The first thread of the process goes by that name in every run; the others are numbered as they
 * come, which may be in another order in another run: readers do not rest on it. */
static struct thread *give_place(struct twin_writer *w)
{
    char label[24] = "main thread";
    const uint32_t number = atomic_load(&threads) < THREADS ? atomic_fetch_add(&threads, 1)
                                                            : (uint32_t)THREADS;
    if (number >= THREADS) {
        refused = true;
        return NULL;
    }
    if (syscall(SYS_gettid) != getpid())
        snprintf(label, sizeof label, "thread %u", number + 1);
    struct thread *t = &all->thread[number];
    const struct twin_series s = {.phase = TWIN_PHASE_KERNEL,
                                  .name = intern(w, "launches"),
                                  .scope = intern(w, label),
                                  .site = intern(w, TW_KERNELS_SEQUENCE)};
    t->series = twin_writer_series(w, &s);
    return mine = t;
}

/* ---- kinds of launches */

static uint64_t hash_of_name(struct thread *t, const struct tw_launch *l, size_t length)
{
    struct named *n = &t->named[tw_mix64((uintptr_t)l->function) & (NAMES - 1)];
    const uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
    if (n->function != l->function || n->name != l->name || n->length != length ||
        n->generation != now)
        *n = (struct named){.function = l->function,
                            .name = l->name,
                            .length = length,
                            .generation = now,
                            .hash = tw_hash_bytes(l->name, length, 0).a};
    return n->hash;
}

static uint64_t key_of(uint64_t name, const struct tw_launch *l)
{
    const uint64_t shape[] = {name, (uint64_t)l->grid[0] << 32 | l->grid[1],
                              (uint64_t)l->grid[2] << 32 | l->block[0],
                              (uint64_t)l->block[1] << 32 | l->block[2], l->shared};
    return tw_hash_bytes(shape, sizeof shape, 0).a | 1; /* 0: an empty place */
}

static uint32_t define(struct twin_writer *w, const struct tw_launch *l, size_t length)
{
    char shape[128] = "a whole graph";
    if (l->function)
        snprintf(shape, sizeof shape, "grid %u x %u x %u, block %u x %u x %u, %u bytes shared",
                 l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                 l->shared);
    const struct twin_series s = {.phase = TWIN_PHASE_KERNEL,
                                  .name = twin_writer_string(w, l->name, length),
                                  .op = intern(w, shape),
                                  .site = intern(w, TW_KERNELS_LAUNCH)};
    return twin_writer_series(w, &s);
}

/* Its index; KERNELS: the table is full. Two threads that meet a new kind at once may give it two
 * places, which changes nothing: it is told apart by the key. */
static uint16_t index_of(struct twin_writer *w, uint64_t key, const struct tw_launch *l,
                         size_t length)
{
    for (uint64_t i = 0; i < PROBES; i++) {
        const size_t at = (key + i) & (KERNELS - 1);
        struct kernel *k = &all->kernel[at];
        int free_place = 0;
        if (atomic_load_explicit(&k->key, memory_order_acquire) == key)
            return (uint16_t)at;
        if (atomic_load_explicit(&k->taken, memory_order_relaxed) ||
            !atomic_compare_exchange_strong(&k->taken, &free_place, 1))
            continue;
        k->series = define(w, l, length);
        atomic_store_explicit(&k->key, key, memory_order_release);
        return (uint16_t)at;
    }
    return KERNELS;
}

/* ---- sequences */

/* Is it the first of this digest? Then its launches are to be listed. */
static bool is_new(uint64_t digest)
{
    const uint64_t key = digest | (uint64_t)1 << 63; /* 0: an empty place */
    for (uint64_t i = 0; i < PROBES; i++) {
        _Atomic uint64_t *place = &all->sequence[(digest + i) & (SEQUENCES - 1)];
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(place, &there, key))
            return true;
        if (there == key)
            return false;
    }
    return true; /* once more: the reader takes the first */
}

static void list(struct twin_writer *w, const struct thread *t)
{
    const uint64_t n = t->count < LISTED ? t->count : LISTED;
    if (atomic_fetch_add(&listed, n) + n > LIST_MOST) {
        atomic_fetch_add(&unlisted, 1);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint16_t at = t->launch[i];
        const struct twin_observation o = {.series = at < KERNELS ? all->kernel[at].series : 0,
                                           .layout = all->layout_of_launch,
                                           .digest = {.a = t->digest, .b = i}};
        if (at < KERNELS)
            twin_writer_record(w, &o);
    }
}

/* Writes what the thread launched in its step, and begins the next. Holding its place. */
static void end_sequence(struct twin_writer *w, struct thread *t, uint32_t next)
{
    if (t->count) {
        const int64_t count = (int64_t)t->count;
        if (t->layout_of != t->count) {
            t->layout = twin_writer_layout(w, TWIN_U8, 1, &count);
            t->layout_of = t->count;
        }
        const struct twin_observation o = {
            .series = t->series, .layout = t->layout, .digest = {.a = t->digest, .b = t->step}};
        if (twin_writer_record(w, &o) == 0)
            lose(t->count);
        else if (is_new(t->digest))
            list(w, t);
    }
    t->step = next;
    t->count = t->digest = 0;
}

static void add(struct twin_writer *w, struct thread *t, const struct tw_launch *l, uint64_t name,
                size_t length)
{
    const uint32_t step = tw_agent_step();
    const uint64_t key = key_of(name, l);
    if (step != t->step)
        end_sequence(w, t, step);
    if (t->count < LISTED)
        t->launch[t->count] = index_of(w, key, l, length);
    t->count++;
    t->digest = tw_sequence_add(t->digest, key);
}

/* The thread's own place, to be given back; NULL: there is none, or it is closed. */
static struct thread *take_place(struct twin_writer *w)
{
    struct thread *t = mine || refused ? mine : give_place(w);
    if (!t || atomic_flag_test_and_set_explicit(&t->busy, memory_order_acquire))
        return NULL;
    if (!t->gone)
        return t;
    atomic_flag_clear_explicit(&t->busy, memory_order_release);
    return NULL;
}

void tw_launches_kernel(const struct tw_launch *launch)
{
    struct twin_writer *w = recording();
    struct tw_launch l = *launch;
    if (!w)
        return;
    struct thread *t = take_place(w);
    if (!t) {
        lose(1);
        return;
    }
    if (!l.name)
        l.name = "?";
    const size_t length = strlen(l.name);
    add(w, t, &l, hash_of_name(t, &l, length), length);
    atomic_flag_clear_explicit(&t->busy, memory_order_release);
}

/* ---- graphs */

/* Numbered as they are first launched. 0: there are too many. */
static uint32_t number_of_graph(uint64_t handle)
{
    const uint32_t most = (1u << NUMBER_BITS) - 1;
    if (handle >> (64 - NUMBER_BITS) || handle == 0)
        return 0;
    const uint64_t at = tw_mix64(handle);
    for (uint64_t i = 0; i < PROBES; i++) {
        const uint64_t there = atomic_load_explicit(&all->graph[(at + i) & (GRAPHS - 1)].it,
                                                    memory_order_relaxed);
        if (there >> NUMBER_BITS == handle)
            return (uint32_t)(there & most);
        if (there == 0)
            break;
    }
    const uint32_t number = atomic_fetch_add(&graphs, 1) + 1;
    for (uint64_t i = 0; i < PROBES && number <= most; i++) {
        struct graph *g = &all->graph[(at + i) & (GRAPHS - 1)];
        uint64_t there = atomic_load_explicit(&g->it, memory_order_relaxed);
        if ((there == 0 || there == GONE) &&
            atomic_compare_exchange_strong(&g->it, &there, handle << NUMBER_BITS | number))
            return number;
        if (there >> NUMBER_BITS == handle) /* another thread was faster */
            return (uint32_t)(there & most);
    }
    return 0;
}

void tw_launches_graph(const void *executable)
{
    char name[32];
    struct twin_writer *w = recording();
    const uint32_t number = w ? number_of_graph((uintptr_t)executable) : 0;
    struct thread *t = number ? take_place(w) : NULL;
    if (!w)
        return;
    if (!t) {
        lose(1);
        return;
    }
    const int length = snprintf(name, sizeof name, "CUDA graph %u", number);
    const struct tw_launch l = {.name = name};
    add(w, t, &l, tw_hash_bytes(name, (size_t)length, 0).a, (size_t)length);
    atomic_flag_clear_explicit(&t->busy, memory_order_release);
}

void tw_launches_graph_ends(const void *executable)
{
    const uint64_t handle = (uintptr_t)executable;
    if (!recording())
        return;
    for (uint64_t i = 0; i < PROBES; i++) {
        struct graph *g = &all->graph[(tw_mix64(handle) + i) & (GRAPHS - 1)];
        uint64_t there = atomic_load_explicit(&g->it, memory_order_relaxed);
        if (there >> NUMBER_BITS == handle)
            atomic_compare_exchange_strong(&g->it, &there, GONE);
        if (there == 0 || there >> NUMBER_BITS == handle)
            return;
    }
}

/* ---- machine code */

void tw_launches_module(const void *code, size_t bytes)
{
    struct twin_writer *w = recording();
    const int64_t size = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
    if (!w)
        return;
    const bool whole = code && bytes <= CODE_MOST;
    const struct twin_series s = {.phase = TWIN_PHASE_KERNEL,
                                  .name = intern(w, "module"),
                                  .site = intern(w, TW_KERNELS_MODULE)};
    const struct twin_observation o = {
        .series = twin_writer_series(w, &s),
        .layout = twin_writer_layout(w, TWIN_U8, 1, &size),
        .flags = whole ? 0 : TWIN_REC_UNOBSERVED,
        .digest = {.a = whole ? twin_digest_bytes(code, bytes, 0).a : 0, .b = tw_agent_step()}};
    twin_writer_record(w, &o);
}

void tw_launches_unload(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
}

/* ---- life */

/* Inside a guard. A thread that is launching at this moment is not waited for: what it launched in
 * its last step is lost. */
static void close_trace(void)
{
    struct twin_writer *w = atomic_exchange(&writer, NULL);
    char text[24];
    if (!w)
        return;
    const uint32_t n = atomic_load(&threads) < THREADS ? atomic_load(&threads) : (uint32_t)THREADS;
    for (uint32_t i = 0; i < n; i++) {
        struct thread *t = &all->thread[i];
        if (atomic_flag_test_and_set_explicit(&t->busy, memory_order_acquire)) {
            lose(1);
            continue;
        }
        end_sequence(w, t, 0);
        t->gone = true;
        atomic_flag_clear_explicit(&t->busy, memory_order_release);
    }
    const char *why = atomic_load_explicit(&stopped, memory_order_acquire);
    if (why)
        twin_writer_note(w, TW_KERNELS_STOPPED, why);
    if (atomic_load(&unlisted)) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)atomic_load(&unlisted));
        twin_writer_note(w, TW_KERNELS_UNLISTED, text);
    }
    tw_side_trace_close(w, TW_KERNELS_LOST, atomic_load(&lost));
}

static void hold(void)
{
    held = atomic_load(&writer);
    twin_writer_prepare_fork(held);
}

static void release(void)
{
    twin_writer_parent_after_fork(held);
    held = NULL;
}

/* A GPU does not outlive a fork: the child leaves all of this alone for good, but the locks are
 * given back, since ends of threads take one of them. */
static void forget(void)
{
    atomic_store(&writer, NULL);
    twin_writer_child_after_fork(held);
    held = NULL;
}

static void report(struct twin_writer *w)
{
    (void)w;
    close_trace();
}

/* A process that recorded nothing else is not asked to report. */
__attribute__((destructor)) static void at_exit(void)
{
    struct tw_guard g;
    if (atomic_load(&writer) && atomic_load(tw_agent_mine) && tw_guard_enter(&g)) {
        close_trace();
        tw_guard_leave(&g);
    }
}

static const struct tw_agent_life cupti_life = {
    .hold = hold, .release = release, .fork = forget, .report = report};
TW_AGENT_REGISTER(cupti_life);
