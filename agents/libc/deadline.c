/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits until a time of day. A program that reads a pinned clock makes its deadlines from it, and
 * the kernel's clock, which is elsewhere, would take them as long past (the wait returns at once)
 * or far away (it hangs). While the clock is pinned such a deadline becomes: the real time, and as
 * much as it lies ahead of what the thread last read.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>
#include "hooks.h"

#define SECOND 1000000000

typedef const struct timespec deadline;

EXPORT int sem_timedwait(sem_t *s, deadline *t);
EXPORT int sem_clockwait(sem_t *s, clockid_t clock, deadline *t);
EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, deadline *t);
EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  deadline *t);
EXPORT int pthread_mutex_timedlock(pthread_mutex_t *m, deadline *t);
EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *l, deadline *t);
EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *l, deadline *t);
EXPORT int clock_nanosleep(clockid_t clock, int flags, deadline *t, struct timespec *left);

TW_REAL(int, sem_timedwait, (sem_t *, deadline *))
TW_REAL(int, sem_clockwait, (sem_t *, clockid_t, deadline *))
TW_REAL(int, pthread_cond_timedwait, (pthread_cond_t *, pthread_mutex_t *, deadline *))
TW_REAL(int, pthread_cond_clockwait, (pthread_cond_t *, pthread_mutex_t *, clockid_t, deadline *))
TW_REAL(int, pthread_mutex_timedlock, (pthread_mutex_t *, deadline *))
TW_REAL(int, pthread_rwlock_timedrdlock, (pthread_rwlock_t *, deadline *))
TW_REAL(int, pthread_rwlock_timedwrlock, (pthread_rwlock_t *, deadline *))
TW_REAL(int, clock_nanosleep, (clockid_t, int, deadline *, struct timespec *))

/* Does the job see another clock than the machine's? Not when the factor only notes who reads it.
 */
static bool pinned(void)
{
    return tw_factor_armed(TW_CLOCK) &&
           atomic_load_explicit(&tw_factors[TW_CLOCK].mode, memory_order_relaxed) !=
               TW_FACTOR_AUDIT;
}

static int64_t distance_between(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Does the job see this clock otherwise than it is? A pinned clock is the wall clock alone. */
static bool is_moved(clockid_t clock)
{
    return tw_clock_scales() ? tw_clock_is_scaled(clock) : clock == CLOCK_REALTIME;
}

/* What the job would read now, without moving its clock on. */
static int64_t shown_ns(clockid_t clock)
{
    if (clock == CLOCK_REALTIME)
        return tw_clock_now(true);
    return is_moved(clock) ? tw_clock_scaled_ns(clock) : tw_clock_kernel_ns(clock);
}

/* A deadline that the kernel would refuse is passed on as it is, so that the program gets its
 * error. What the clock showed last is the moment that the program computed from. */
deadline *tw_clock_real_deadline(clockid_t clock, bool either, deadline *t, struct timespec *out)
{
    if (!pinned() || !t || t->tv_nsec < 0 || t->tv_nsec >= SECOND || t->tv_sec < 0 ||
        t->tv_sec > INT64_MAX / SECOND - 1)
        return t;
    int64_t wanted = (int64_t)t->tv_sec * SECOND + t->tv_nsec;
    if (either && distance_between(wanted, shown_ns(CLOCK_MONOTONIC)) <
                      distance_between(wanted, shown_ns(CLOCK_REALTIME)))
        clock = CLOCK_MONOTONIC;
    if (!is_moved(clock))
        return t;
    /* As much real time ahead as it lies ahead of what the job sees. */
    int64_t until = tw_clock_kernel_ns(clock) + (wanted - shown_ns(clock));
    if (until < 1)
        until = 1; /* long past; 0 would switch a timer off */
    *out = (struct timespec){.tv_sec = (time_t)(until / SECOND), .tv_nsec = (long)(until % SECOND)};
    return out;
}

int sem_timedwait(sem_t *s, deadline *t)
{
    struct timespec real;
    return real_sem_timedwait()(s, tw_clock_real_deadline(CLOCK_REALTIME, false, t, &real));
}

/* Which clock a condition was made for is not to be seen from outside: `either`. */
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, deadline *t)
{
    struct timespec real;
    return real_pthread_cond_timedwait()(c, m,
                                         tw_clock_real_deadline(CLOCK_REALTIME, true, t, &real));
}

int pthread_mutex_timedlock(pthread_mutex_t *m, deadline *t)
{
    struct timespec real;
    return real_pthread_mutex_timedlock()(m,
                                          tw_clock_real_deadline(CLOCK_REALTIME, false, t, &real));
}

int pthread_rwlock_timedrdlock(pthread_rwlock_t *l, deadline *t)
{
    struct timespec real;
    return real_pthread_rwlock_timedrdlock()(
        l, tw_clock_real_deadline(CLOCK_REALTIME, false, t, &real));
}

int pthread_rwlock_timedwrlock(pthread_rwlock_t *l, deadline *t)
{
    struct timespec real;
    return real_pthread_rwlock_timedwrlock()(
        l, tw_clock_real_deadline(CLOCK_REALTIME, false, t, &real));
}

/* These two came with glibc 2.30; only a program that tests for the symbols can get here on an
 * older one. */
int sem_clockwait(sem_t *s, clockid_t clock, deadline *t)
{
    struct timespec real;
    sem_clockwait_fn *f = real_sem_clockwait();
    if (!f) {
        errno = ENOSYS;
        return -1;
    }
    return f(s, clock, tw_clock_real_deadline(clock, false, t, &real));
}

int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, deadline *t)
{
    struct timespec real;
    pthread_cond_clockwait_fn *f = real_pthread_cond_clockwait();
    return f ? f(c, m, clock, tw_clock_real_deadline(clock, false, t, &real)) : ENOSYS;
}

/* Without TIMER_ABSTIME t is an amount of time and stays. */
int clock_nanosleep(clockid_t clock, int flags, deadline *t, struct timespec *left)
{
    struct timespec real;
    bool until = (flags & TIMER_ABSTIME) != 0;
    return real_clock_nanosleep()(clock, flags,
                                  until ? tw_clock_real_deadline(clock, false, t, &real) : t, left);
}

void tw_deadline_resolve(void)
{
    real_sem_timedwait();
    real_sem_clockwait();
    real_pthread_cond_timedwait();
    real_pthread_cond_clockwait();
    real_pthread_mutex_timedlock();
    real_pthread_rwlock_timedrdlock();
    real_pthread_rwlock_timedwrlock();
    real_clock_nanosleep();
}
