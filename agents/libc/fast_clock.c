/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock that runs faster, for the clock experiment (clock=scale:FACTOR:SECOND): every clock that
 * a program reads shows, since SECOND of the machine's monotonic clock, FACTOR times the time that
 * passed. All processes of a run count from the same second, so their clocks agree.
 *
 * Waits are left as they are: one that is given as an amount of time goes to the kernel untouched,
 * one until a moment is translated (deadline.c) to as much real time as lies ahead of what the
 * clocks show.
 */
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>
#include "hooks.h"

#define SECOND INT64_C(1000000000)

EXPORT clock_t clock(void);
EXPORT clock_t times(struct tms *t);
EXPORT int getrusage(__rusage_who_t who, struct rusage *u);
EXPORT int timerfd_settime(int fd, int flags, const struct itimerspec *value,
                           struct itimerspec *old);

TW_REAL(clock_t, clock, (void))
TW_REAL(clock_t, times, (struct tms *))
TW_REAL(int, getrusage, (int, struct rusage *))
TW_REAL(int, timerfd_settime, (int, int, const struct itimerspec *, struct itimerspec *))

bool tw_clock_scales(void)
{
    return tw_factor_armed(TW_CLOCK) &&
           atomic_load_explicit(&tw_factors[TW_CLOCK].mode, memory_order_relaxed) ==
               TW_FACTOR_SCALE;
}

/* How many times as fast the shown clocks run. */
static int64_t factor(void)
{
    return (int64_t)tw_factors[TW_CLOCK].value;
}

/* How far the shown clocks are ahead of the machine's, ns. Before the second from which they count
 * they are not. */
static int64_t ns_ahead(void)
{
    int64_t passed = tw_clock_kernel_ns(CLOCK_MONOTONIC) -
                     (int64_t)tw_factors[TW_CLOCK].extra * SECOND;
    return passed > 0 ? passed * (factor() - 1) : 0;
}

/* Every clock that shows time that passes. Clocks of other processes and of devices are left alone.
 */
bool tw_clock_is_scaled(clockid_t clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI:
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID: return true;
    default: return false;
    }
}

/* Processor time has no common beginning, so it is multiplied as it is; the others are moved ahead.
 */
int64_t tw_clock_scaled_ns(clockid_t clock)
{
    if (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
        return tw_clock_kernel_ns(clock) * factor();
    return tw_clock_kernel_ns(clock) + ns_ahead();
}

/* ---- times of processes */

clock_t clock(void)
{
    clock_t t = real_clock()();
    if (t == (clock_t)-1 || !tw_clock_scales() || !tw_factor_take(TW_CLOCK, "clock"))
        return t;
    return t * factor();
}

clock_t times(struct tms *t)
{
    clock_t ticks = real_times()(t);
    if (ticks == (clock_t)-1 || !tw_clock_scales() || !tw_factor_take(TW_CLOCK, "times"))
        return ticks;
    if (t) {
        t->tms_utime *= factor();
        t->tms_stime *= factor();
        t->tms_cutime *= factor();
        t->tms_cstime *= factor();
    }
    return ticks + (clock_t)(ns_ahead() / (SECOND / sysconf(_SC_CLK_TCK)));
}

/* A span of time, multiplied. */
static void scale(struct timeval *t)
{
    int64_t us = ((int64_t)t->tv_sec * 1000000 + t->tv_usec) * factor();
    *t = (struct timeval){.tv_sec = (time_t)(us / 1000000), .tv_usec = (long)(us % 1000000)};
}

int getrusage(__rusage_who_t who, struct rusage *u)
{
    int rc = real_getrusage()((int)who, u);
    if (rc != 0 || !tw_clock_scales() || !tw_factor_take(TW_CLOCK, "getrusage"))
        return rc;
    scale(&u->ru_utime);
    scale(&u->ru_stime);
    return rc;
}

/* ---- until a moment */

/* The timer's moment as the kernel knows it: value itself, or *out. A timer does not tell which
 * clock it was made for; the moment does, the two being decades apart. All zero switches a timer
 * off and stays so. */
static const struct itimerspec *real_timer(const struct itimerspec *value, struct itimerspec *out)
{
    if (!tw_clock_scales() || !value ||
        (value->it_value.tv_sec == 0 && value->it_value.tv_nsec == 0))
        return value;
    *out = *value;
    const struct timespec *until = tw_clock_real_deadline(CLOCK_REALTIME, true, &value->it_value,
                                                          &out->it_value);
    out->it_value = *until;
    return out;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    struct itimerspec real;
    return real_timerfd_settime()(
        fd, flags, flags & TFD_TIMER_ABSTIME ? real_timer(value, &real) : value, old);
}

/* Rust's and abseil's conditions wait on a futex until a moment; other operations wait for an
 * amount of time, which stays. True: *out is the deadline to use. a: the arguments of futex(2). */
bool tw_clock_futex(const long a[6], struct timespec *out)
{
    int operation = (int)a[1] & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    /* The operations whose time is a moment. */
    bool until = operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI ||
                 operation == FUTEX_WAIT_REQUEUE_PI;
    if (!until || !a[3] || !tw_clock_scales())
        return false;
    /* FUTEX_LOCK_PI always means the wall clock. */
    bool wall = (a[1] & FUTEX_CLOCK_REALTIME) || operation == FUTEX_LOCK_PI;
    const struct timespec *t = (const struct timespec *)a[3];
    return tw_clock_real_deadline(wall ? CLOCK_REALTIME : CLOCK_MONOTONIC, false, t, out) == out;
}

void tw_fast_clock_resolve(void)
{
    real_clock();
    real_times();
    real_getrusage();
    real_timerfd_settime();
}
