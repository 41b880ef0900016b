/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators of this process, and the trace `nccl/<rank>.<pid>.twt` of what NCCL chose for their
 * collectives (docs/format/trace.md gives the fields). The trace is not the rank's own: its records
 * would enter the value hash, and two runs that computed the same bits by other ways would differ.
 *
 * A communicator has no name that is the same in every run: NCCL's hash is drawn at random. So it
 * is called by what the program said of it, and numbered among those of this process that are
 * called alike, in the order in which they were made. Communicators are never reused, so that an
 * event for one that has ended is told from one of the next.
 *
 * After the first call of a kind no memory is asked for and no lock is waited for: the record goes
 * into a ring (src/trace), and what it is called stands in a table that is skipped while another
 * thread is at it.
 */
#include "choices.h"

#include <stdio.h>
#include <string.h>
#include "agents/common/side_trace.h"
#include "agents/common/life.h"
#include "agents/common/state.h"
#include "src/base/base.h"

enum { COMMS = 1024, NAME_BYTES = 64, LABEL_BYTES = 160, WORD_BYTES = 32, KNOWN = 512 };
#define RING_BYTES ((size_t)1 << 20) /* 18,000 records, a thread */

enum comm_state { UNKNOWN, LABELLED, ENDED };

struct tw_nccl_comm {
    _Atomic int state; /* enum comm_state; `label` is fixed from LABELLED on */
    char name[NAME_BYTES];
    int ranks, rank;
    char label[LABEL_BYTES];
};

static struct tw_nccl_comm comms[COMMS];
static size_t comm_count;
static pthread_mutex_t comm_lock = PTHREAD_MUTEX_INITIALIZER; /* of the three above */

static _Atomic(struct twin_writer *) writer;
static bool tried; /* to open it; under comm_lock */
static bool held_for_fork;
static _Atomic uint64_t lost;

/* What a kind of call is called in the trace. */
struct known {
    uint64_t key;
    uint32_t series, layout;
};
static struct known known[KNOWN];
static atomic_flag known_taken = ATOMIC_FLAG_INIT;

bool tw_nccl_on(void)
{
    return atomic_load_explicit(&writer, memory_order_acquire) != NULL;
}

/* ---- the trace */

/* Once a process, holding the lock. */
static void open_trace(int version)
{
    char text[16];
    if (tried)
        return;
    tried = true;
    struct twin_writer *w = tw_side_trace_open("nccl", RING_BYTES, "NCCL's choices");
    if (!w)
        return;
    snprintf(text, sizeof text, "v%d", version);
    twin_writer_note(w, "nccl.profiler", text);
    atomic_store_explicit(&writer, w, memory_order_release);
}

/* Inside a guard. */
static void close_trace(void)
{
    tw_side_trace_close(atomic_exchange(&writer, NULL), "nccl.lost", atomic_load(&lost));
}

/* ---- communicators */

/* Holding the lock. Counts those that are called alike and came before. */
static void give_label(struct tw_nccl_comm *c, const char *name, int ranks, int rank)
{
    char of[24] = "";
    int number = 1;
    tw_side_trace_word(c->name, sizeof c->name, name);
    c->ranks = ranks;
    c->rank = rank;
    for (size_t i = 0; i < comm_count; i++) {
        const struct tw_nccl_comm *o = &comms[i];
        if (o != c && atomic_load_explicit(&o->state, memory_order_relaxed) != UNKNOWN &&
            o->ranks == ranks && o->rank == rank && strcmp(o->name, c->name) == 0)
            number++;
    }
    if (ranks > 0)
        snprintf(of, sizeof of, " of %d", ranks);
    if (strcmp(c->name, "-") == 0)
        snprintf(c->label, sizeof c->label, "communicator %d, rank %d%s", number, rank, of);
    else
        snprintf(c->label, sizeof c->label, "communicator %d \"%s\", rank %d%s", number, c->name,
                 rank, of);
    atomic_store_explicit(&c->state, LABELLED, memory_order_release);
}

struct tw_nccl_comm *tw_nccl_comm_new(int version, const char *name, int ranks, int rank)
{
    struct tw_nccl_comm *c = NULL;
    struct tw_guard g;
    if (!tw_agent_on() || !atomic_load_explicit(tw_agent_mine, memory_order_relaxed) ||
        !tw_guard_enter(&g))
        return NULL;
    pthread_mutex_lock(&comm_lock);
    open_trace(version);
    if (tw_nccl_on() && comm_count < COMMS) {
        c = &comms[comm_count++];
        if (ranks > 0)
            give_label(c, name, ranks, rank);
    }
    pthread_mutex_unlock(&comm_lock);
    tw_guard_leave(&g);
    return c;
}

/* NULL: no communicator that was given out. */
static struct tw_nccl_comm *check(struct tw_nccl_comm *c)
{
    const uintptr_t at = (uintptr_t)c - (uintptr_t)comms;
    return c && at < sizeof comms && at % sizeof *c == 0 ? c : NULL;
}

void tw_nccl_comm_end(struct tw_nccl_comm *comm)
{
    struct tw_nccl_comm *c = check(comm);
    if (c)
        atomic_store_explicit(&c->state, ENDED, memory_order_release);
}

/* ---- records */

static enum twin_dtype dtype_of(const char *datatype)
{
    static const struct {
        const char *name;
        enum twin_dtype dtype;
    } all[] = {
        {"ncclInt8", TWIN_I8},
        {"ncclUint8", TWIN_U8},
        {"ncclInt32", TWIN_I32},
        {"ncclUint32", TWIN_U32},
        {"ncclInt64", TWIN_I64},
        {"ncclUint64", TWIN_U64},
        {"ncclFloat16", TWIN_F16},
        {"ncclFloat32", TWIN_F32},
        {"ncclFloat64", TWIN_F64},
        {"ncclBfloat16", TWIN_BF16},
        {"ncclFloat8e4m3", TWIN_F8_E4M3FN},
        {"ncclFloat8e5m2", TWIN_F8_E5M2},
    };
    for (size_t i = 0; datatype && i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, datatype) == 0)
            return all[i].dtype;
    return TWIN_BYTES;
}

/* The words of a call, each fit for a line. */
struct words {
    char function[WORD_BYTES], datatype[WORD_BYTES], algorithm[WORD_BYTES], protocol[WORD_BYTES];
};

static struct words words_of(const struct tw_nccl_call *call)
{
    struct words w = {.function = ""}; /* all of it: it is hashed */
    tw_side_trace_word(w.function, sizeof w.function, call->function);
    tw_side_trace_word(w.datatype, sizeof w.datatype, call->datatype);
    tw_side_trace_word(w.algorithm, sizeof w.algorithm, call->algorithm);
    tw_side_trace_word(w.protocol, sizeof w.protocol, call->protocol);
    return w;
}

static struct known define(struct twin_writer *w, const struct tw_nccl_comm *c,
                           const struct words *words, const struct tw_nccl_call *call, uint64_t key)
{
    char choice[3 * WORD_BYTES + 48];
    const int64_t count = call->count > INT64_MAX ? INT64_MAX : (int64_t)call->count;
    snprintf(choice, sizeof choice, "algorithm %s, protocol %s, channels %u", words->algorithm,
             words->protocol, call->channels);
    const struct twin_series s = {
        .phase = TWIN_PHASE_COLLECTIVE,
        .kind = TWIN_KIND_NONE,
        .name = twin_writer_string(w, words->function, strlen(words->function)),
        .scope = twin_writer_string(w, c->label, strlen(c->label)),
        .op = twin_writer_string(w, choice, strlen(choice)),
        .site = twin_writer_string(w, words->datatype, strlen(words->datatype))};
    return (struct known){
        .key = key,
        .series = twin_writer_series(w, &s),
        .layout = twin_writer_layout(w, (uint8_t)dtype_of(call->datatype), 1, &count)};
}

/* Another thread may be at the table: then the name is looked up in the trace's own, which takes
 * longer and gives the same. */
static struct known identity(struct twin_writer *w, const struct tw_nccl_comm *c,
                             const struct tw_nccl_call *call)
{
    const struct words words = words_of(call);
    uint64_t key = tw_hash_bytes(&words, sizeof words, (uintptr_t)c).a;
    key = tw_mix64(key ^ tw_mix64(call->count) ^ call->channels) | 1;
    struct known *place = &known[key >> 1 & (KNOWN - 1)], found = {.key = 0};
    if (!atomic_flag_test_and_set_explicit(&known_taken, memory_order_acquire)) {
        found = *place;
        atomic_flag_clear_explicit(&known_taken, memory_order_release);
    }
    if (found.key == key)
        return found;
    found = define(w, c, &words, call, key);
    if (!atomic_flag_test_and_set_explicit(&known_taken, memory_order_acquire)) {
        *place = found;
        atomic_flag_clear_explicit(&known_taken, memory_order_release);
    }
    return found;
}

static bool record(struct tw_nccl_comm *c, const struct tw_nccl_call *call)
{
    struct twin_writer *w = atomic_load_explicit(&writer, memory_order_acquire);
    if (!w || !c || !atomic_load_explicit(tw_agent_mine, memory_order_relaxed))
        return false;
    if (atomic_load_explicit(&c->state, memory_order_acquire) == UNKNOWN) {
        pthread_mutex_lock(&comm_lock);
        if (atomic_load_explicit(&c->state, memory_order_relaxed) == UNKNOWN)
            give_label(c, call->name, 0, call->rank);
        pthread_mutex_unlock(&comm_lock);
    }
    if (atomic_load_explicit(&c->state, memory_order_acquire) != LABELLED)
        return false;
    const struct known k = identity(w, c, call);
    const struct twin_observation o = {.series = k.series,
                                       .layout = k.layout,
                                       .digest = {.a = call->sequence, .b = tw_agent_step()}};
    return twin_writer_record(w, &o) != 0;
}

void tw_nccl_record(struct tw_nccl_comm *comm, const struct tw_nccl_call *call)
{
    struct tw_guard g;
    bool done = false;
    if (tw_guard_enter(&g)) {
        done = record(check(comm), call);
        tw_guard_leave(&g);
    }
    if (!done)
        atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
}

/* ---- life */

static void hold(void)
{
    pthread_mutex_lock(&comm_lock);
    twin_writer_prepare_fork(atomic_load(&writer));
    held_for_fork = true;
}

static void release(void)
{
    held_for_fork = false;
    twin_writer_parent_after_fork(atomic_load(&writer));
    pthread_mutex_unlock(&comm_lock);
}

/* NCCL does not outlive a fork: the child's copy of all this is left alone for good, but its locks
 * are given back, since ends of threads take one of them. */
static void forget(void)
{
    struct twin_writer *w = atomic_exchange(&writer, NULL);
    if (!held_for_fork)
        return;
    held_for_fork = false;
    twin_writer_child_after_fork(w);
    pthread_mutex_unlock(&comm_lock);
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
    if (tw_nccl_on() && atomic_load(tw_agent_mine) && tw_guard_enter(&g)) {
        close_trace();
        tw_guard_leave(&g);
    }
}

static const struct tw_agent_life nccl_life = {
    .hold = hold, .release = release, .fork = forget, .report = report};
TW_AGENT_REGISTER(nccl_life);
