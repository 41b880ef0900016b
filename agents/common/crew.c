/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One job at a time. The caller publishes it, wakes the helpers, works itself, and waits until no
 * helper is inside.
 *
 * `turn` counts jobs and wakes helpers. A helper enters by raising `inside` and only then looks at
 * `open`: when the caller has closed the job and seen `inside` at 0, nobody reads it any more. Both
 * are sequentially consistent, so one of the two sees the other.
 */
#include "crew.h"

#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HELPERS 3
#define STACK_BYTES (256u << 10)

static atomic_flag taken = ATOMIC_FLAG_INIT; /* a caller has the crew */
/* -1: not tried yet; only touched by who has the crew */
static int helpers = -1;
static atomic_uint turn, open_job, inside;
static atomic_size_t next;
static struct {
    tw_crew_work *work;
    void *user;
    size_t n;
} job;

static void futex(atomic_uint *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void take_pieces(void)
{
    size_t i;
    while ((i = atomic_fetch_add(&next, 1)) < job.n)
        job.work(job.user, i);
}

static void *help(void *unused)
{
    (void)unused;
    uint32_t seen = atomic_load(&turn);
    for (;;) {
        atomic_fetch_add(&inside, 1);
        if (atomic_load(&open_job))
            take_pieces();
        if (atomic_fetch_sub(&inside, 1) == 1)
            futex(&inside, FUTEX_WAKE_PRIVATE, 1);
        while (atomic_load(&turn) == seen)
            futex(&turn, FUTEX_WAIT_PRIVATE, seen);
        seen = atomic_load(&turn);
    }
    return NULL;
}

/* As many helpers as there are other CPUs to run on, up to HELPERS. */
static int make_helpers(void)
{
    cpu_set_t set;
    int made = 0, wanted = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) - 1 : 0;
    if (wanted > HELPERS)
        wanted = HELPERS;
    sigset_t all, old;
    sigfillset(&all);
    pthread_attr_t attr;
    if (wanted <= 0 || pthread_attr_init(&attr) != 0)
        return 0;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    while (made < wanted && pthread_create(&thread, &attr, help, NULL) == 0)
        made++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return made;
}

bool tw_crew_run(tw_crew_work *work, void *user, size_t n)
{
    if (atomic_flag_test_and_set(&taken))
        return false;
    if (helpers < 0)
        helpers = make_helpers();
    if (helpers > 0) {
        job.work = work;
        job.user = user;
        job.n = n;
        atomic_store(&next, 0);
        atomic_store(&open_job, 1);
        atomic_fetch_add(&turn, 1);
        futex(&turn, FUTEX_WAKE_PRIVATE, INT_MAX);
        take_pieces();
        atomic_store(&open_job, 0);
        for (uint32_t busy; (busy = atomic_load(&inside)) != 0;)
            futex(&inside, FUTEX_WAIT_PRIVATE, busy);
    }
    bool done = helpers > 0;
    atomic_flag_clear(&taken);
    return done;
}

void tw_crew_forget(void)
{
    helpers = -1;
    atomic_store(&open_job, 0);
    atomic_store(&inside, 0);
    atomic_flag_clear(&taken);
}
