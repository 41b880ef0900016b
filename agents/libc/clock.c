/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock. Pinned, each thread has one of its own that starts where its creator's stood and
 * advances a fixed amount at every reading: it never stands still (a loop that waits for the time
 * to pass ends), and a thread reads the same in another run however the threads interleave. Between
 * threads it is off by their readings, milliseconds as a rule. The monotonic clocks are left alone.
 * vary: another start and uneven steps, by the seed. back: the machine's clock, which is set back
 * once, at a moment that all processes of a run share.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include "hooks.h"
#include "src/base/base.h"

#define SECOND 1000000000
#define OTHER_TIME 7948957 /* seconds, about three months: another day, hour, minute and second */

EXPORT int clock_gettime(clockid_t clock, struct timespec *t);
EXPORT int gettimeofday(struct timeval *restrict t, void *restrict zone);
EXPORT time_t time(time_t *t);
EXPORT int timespec_get(struct timespec *t, int base);

TW_REAL(int, clock_gettime, (clockid_t, struct timespec *))
TW_REAL(int, gettimeofday, (struct timeval *, void *))
TW_REAL(time_t, time, (time_t *))
TW_REAL(int, timespec_get, (struct timespec *, int))

static bool is_set_back(void)
{
    return atomic_load_explicit(&tw_factors[TW_CLOCK].mode, memory_order_relaxed) == TW_FACTOR_BACK;
}

/* Says once for each side of the jump that the program read the clock there: one that did so on
 * both sides has seen it. */
static void tell_side(bool is_back)
{
    static _Atomic bool told[2];
    if (!atomic_load_explicit(&told[is_back], memory_order_relaxed) &&
        !atomic_exchange(&told[is_back], true))
        tw_factor_say("clock.back", is_back ? "read after it" : "read before it");
}

/* The machine's clock, or what is left of it after it was set back. */
static int64_t set_back_now(bool peek)
{
    const int64_t at = (int64_t)tw_factors[TW_CLOCK].extra * (SECOND / 1000);
    const bool is_back = tw_clock_kernel_ns(CLOCK_MONOTONIC) >= at;
    if (!peek)
        tell_side(is_back);
    return tw_clock_kernel_ns(CLOCK_REALTIME) -
           (is_back ? (int64_t)tw_factors[TW_CLOCK].value * SECOND : 0);
}

/* tw_stream_clock() is how far this thread's clock has come, ns; `extra` the step in microseconds,
 * `value` the second at which it starts. */
int64_t tw_clock_now(bool peek)
{
    if (tw_clock_scales())
        return tw_clock_scaled_ns(CLOCK_REALTIME);
    if (is_set_back())
        return set_back_now(peek);
    uint64_t *passed = tw_stream_clock();
    uint64_t step = tw_factors[TW_CLOCK].extra * 1000;
    uint64_t start = tw_factors[TW_CLOCK].value;
    if (tw_factor_varies(TW_CLOCK)) /* any second of the 30 years from September 2001 on */
        start = 1000000000 + tw_mix64(start + 1) % 946080000;
    if (!peek)
        *passed += tw_factor_varies(TW_CLOCK) ? 1 + tw_stream_word(TW_CLOCK) % (2 * step) : step;
    if (tw_factors_other())
        start += OTHER_TIME;
    return (int64_t)(start * SECOND + *passed);
}

/* Headers declare these pointers as never NULL, and programs pass NULL all the same. */
static inline bool is_given(const void *p)
{
    __asm__("" : "+r"(p));
    return p != NULL;
}

/* Does the factor answer this reading? Notes who asked. */
static bool is_answered(const char *what)
{
    return tw_factor_armed(TW_CLOCK) && tw_factor_take(TW_CLOCK, what);
}

/* Nanoseconds since 1970 as the structure. A moment before 1970 lies in a second that began before
 * it: tv_nsec is never negative. */
static struct timespec time_at(int64_t ns)
{
    const bool borrows = ns % SECOND < 0;
    return (struct timespec){.tv_sec = (time_t)(ns / SECOND - borrows),
                             .tv_nsec = (long)(ns % SECOND + (borrows ? SECOND : 0))};
}

static struct timespec now(void)
{
    return time_at(tw_clock_now(false));
}

static bool is_wall(long clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

/* The wall clock first: it is the only one that is pinned. The others are shown otherwise only when
 * the clock is scaled. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (is_wall(clock) && is_given(t) && is_answered("clock_gettime")) {
        *t = now();
        return 0;
    }
    if (!is_wall(clock) && is_given(t) && tw_clock_scales() && tw_clock_is_scaled(clock) &&
        is_answered("clock_gettime")) {
        *t = time_at(tw_clock_scaled_ns(clock));
        return 0;
    }
    clock_gettime_fn *real = real_clock_gettime();
    return __builtin_expect(real != NULL, 1) ? real(clock, t)
                                             : (int)syscall(SYS_clock_gettime, clock, t);
}

/* 0 where libc has no clock_gettime to ask. */
int64_t tw_clock_kernel_ns(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime_fn *real = real_clock_gettime();
    if (real)
        real(clock, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

/* Python's multiprocessing reads the time for the deadlines of its locks, as often as these happen
 * to be tried. Such a reading is not the program's, and must not move the program's clock by an
 * amount that depends on the interleaving. */
static bool only_makes_deadlines(void *caller)
{
    static _Atomic uintptr_t known;
    if ((uintptr_t)caller == atomic_load_explicit(&known, memory_order_relaxed))
        return true;
    Dl_info i;
    if (!dladdr(caller, &i) || !i.dli_fname || !strstr(i.dli_fname, "/_multiprocessing."))
        return false;
    atomic_store_explicit(&known, (uintptr_t)caller, memory_order_relaxed);
    return true;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    /* Readings for deadlines alone do not move the clock on. */
    if (is_given(t) && is_answered("gettimeofday")) {
        struct timespec s = time_at(
            tw_clock_now(only_makes_deadlines(__builtin_return_address(0))));
        *t = (struct timeval){.tv_sec = s.tv_sec, .tv_usec = s.tv_nsec / 1000};
        return zone ? real_gettimeofday()(NULL, zone) : 0;
    }
    return real_gettimeofday()(t, zone);
}

time_t time(time_t *t)
{
    if (!is_answered("time"))
        return real_time()(t);
    time_t s = now().tv_sec;
    if (t)
        *t = s;
    return s;
}

int timespec_get(struct timespec *t, int base)
{
    if (base == TIME_UTC && is_given(t) && is_answered("timespec_get")) {
        *t = now();
        return base;
    }
    timespec_get_fn *real = real_timespec_get();
    return real ? real(t, base) : 0;
}

/* Readings by system call: old libstdc++ and some runtimes ask the kernel by number. A time zone,
 * which the kernel hardly knows, is left to it. */
bool tw_clock_by_number(long number, const long a[6], long *result)
{
    *result = 0;
    switch (number) {
    case SYS_clock_gettime:
        if (!a[1] ||
            !(is_wall(a[0]) || (tw_clock_scales() && tw_clock_is_scaled((clockid_t)a[0]))) ||
            !is_answered("syscall(clock_gettime)"))
            return false;
        *(struct timespec *)a[1] = is_wall(a[0]) ? now()
                                                 : time_at(tw_clock_scaled_ns((clockid_t)a[0]));
        return true;
#ifdef SYS_gettimeofday
    case SYS_gettimeofday:
        if (!a[0] || a[1] || !is_answered("syscall(gettimeofday)"))
            return false;
        {
            struct timespec s = now();
            *(struct timeval *)a[0] = (struct timeval){.tv_sec = s.tv_sec,
                                                       .tv_usec = s.tv_nsec / 1000};
        }
        return true;
#endif
#ifdef SYS_time
    case SYS_time:
        if (!is_answered("syscall(time)"))
            return false;
        *result = now().tv_sec;
        if (a[0])
            *(time_t *)a[0] = *result;
        return true;
#endif
    default: return false;
    }
}

void tw_clock_resolve(void)
{
    real_clock_gettime();
    real_gettimeofday();
    real_time();
    real_timespec_get();
}
