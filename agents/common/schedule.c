/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling noise: at thread and process starts, locks, conditions and barriers a thread waits now
 * and then, as its stream says. The same thread in another run with the same seed waits equally
 * long at the same boundaries; what that does to the interleaving is up to the machine. Long series
 * of locks are thinned out, so that a job slows down by a bounded amount.
 */
#include "factors.h"
#include "state.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "src/base/base.h"

#define THREADS 256
#define DENSE 4096 /* boundaries of a thread after which delays become rare */

/* One thread's delays, to be compared between runs. */
struct diary {
    _Atomic uint64_t id; /* the thread's stream; 0 free */
    _Atomic uint64_t boundaries, delays, asked_ns, digest;
};
static struct diary diaries[THREADS];
static struct diary overflow; /* all further threads together */
static __thread struct diary *diary __attribute__((tls_model("initial-exec")));

static struct diary *my_diary(void)
{
    if (diary)
        return diary;
    uint64_t id = tw_stream_id();
    for (int i = 0; i < THREADS && !diary; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&diaries[i].id, &none, id))
            diary = &diaries[i];
    }
    if (!diary)
        diary = &overflow;
    return diary;
}

/* One in how many boundaries of a kind waits, and its longest wait at strength 1. */
static const struct {
    uint32_t one_in, rare_one_in, longest_us;
} habits[TW_BOUNDARIES] = {
    [TW_AT_START] = {1, 1, 1000}, [TW_AT_CREATE] = {2, 2, 300},   [TW_AT_LOCK] = {16, 1024, 50},
    [TW_AT_COND] = {4, 256, 100}, [TW_AT_BARRIER] = {2, 32, 200},
};

static void wait_ns(uint64_t ns)
{
    /* A raw call: no cancellation point, and no function that a program may have wrapped. */
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    while (syscall(SYS_nanosleep, &t, &t) != 0 && errno == EINTR)
        ;
}

void tw_schedule_boundary(enum tw_boundary kind)
{
    if (!tw_factor_armed(TW_SCHEDULE))
        return;
    int saved_errno = errno;
    struct diary *d = my_diary();
    uint64_t n = atomic_fetch_add_explicit(&d->boundaries, 1, memory_order_relaxed);
    uint64_t w = tw_stream_word(TW_SCHEDULE);
    uint32_t one_in = n < DENSE ? habits[kind].one_in : habits[kind].rare_one_in;
    tw_factor_count(TW_SCHEDULE);
    if ((w & 0xFFFF) % one_in == 0) {
        /* Half of them only give the CPU away: short turns reorder as well as long ones. */
        uint64_t longest = (uint64_t)habits[kind].longest_us * 1000 * tw_factors[TW_SCHEDULE].extra;
        uint64_t ns = w >> 63 ? (w >> 20) % longest : 0;
        atomic_fetch_add_explicit(&d->delays, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&d->asked_ns, ns, memory_order_relaxed);
        atomic_store_explicit(&d->digest,
                              tw_mix64(atomic_load_explicit(&d->digest, memory_order_relaxed) +
                                       (ns << 24 ^ n << 3 ^ kind) + 1),
                              memory_order_relaxed);
        if (ns)
            wait_ns(ns);
        else
            sched_yield();
    }
    errno = saved_errno;
}

void tw_schedule_forget(void)
{
    memset(diaries, 0, sizeof diaries);
    memset(&overflow, 0, sizeof overflow);
    diary = NULL;
}

static void tell_diary(tw_note_sink *sink, void *user, const struct diary *d, const char *name)
{
    char text[160];
    snprintf(text, sizeof text,
             "%s: %" PRIu64 " boundaries, %" PRIu64 " delays, %" PRIu64 " us, digest %016" PRIx64,
             name, atomic_load(&d->boundaries), atomic_load(&d->delays),
             atomic_load(&d->asked_ns) / 1000, atomic_load(&d->digest));
    sink(user, "schedule.thread", text);
}

void tw_schedule_report(tw_note_sink *sink, void *user)
{
    for (int i = 0; i < THREADS && atomic_load(&diaries[i].id); i++) {
        char name[24];
        snprintf(name, sizeof name, "%016" PRIx64, atomic_load(&diaries[i].id));
        tell_diary(sink, user, &diaries[i], name);
    }
    if (atomic_load(&overflow.boundaries))
        tell_diary(sink, user, &overflow, "others");
}
