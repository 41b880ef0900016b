/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LIBC_HOOKS_H
#define TW_LIBC_HOOKS_H
/*
 * What the interposed functions share. Each stands in front of one function of libc, with its exact
 * prototype; when its factor is not armed it is one branch and a jump to the original.
 *
 * A process of a run finds all originals in its constructor, because a hook may be called from a
 * signal handler later; any other process finds each at its first call.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "agents/common/factors.h"
#include "agents/common/lookup.h"

#define EXPORT __attribute__((visibility("default")))

/* Each finds the originals that one file needs. tw_hooks_resolve() calls all others; it runs in the
 * constructor of a process of a run. */
void tw_hooks_resolve(void);
void tw_entropy_resolve(void);
void tw_stdio_resolve(void);
void tw_clock_resolve(void);
void tw_deadline_resolve(void);
void tw_fast_clock_resolve(void);
void tw_directory_resolve(void);
void tw_threads_resolve(void);

/* /dev/random and /dev/urandom (devices.c). */
/* a descriptor that reads as the thread's stream; -1: none to be had */
int tw_device_fd(int flags);
bool tw_device_is(const char *path); /* is it one of the two? */

/* A file that was opened for writing is told to the run folder; returns fd, or f. (written.c) */
void tw_written_slow(int fd, int flags, const char *path);
void tw_written_resolve(void);
void tw_written_confined(bool yes); /* from here on nothing is asked of the kernel, or again */

/* For what open() gave: passes fd on. Opening to read, the most frequent case, costs one
 * comparison. */
static inline int tw_written(int fd, int flags, const char *path)
{
    if (__builtin_expect((flags & O_ACCMODE) != O_RDONLY && fd >= 0, 0))
        tw_written_slow(fd, flags, path);
    return fd;
}

/* The same for fopen(): the mode tells whether the stream may be written to. */
static inline FILE *tw_written_stream(FILE *f, const char *mode, const char *path)
{
    bool writes = mode && (mode[0] != 'r' || strchr(mode, '+'));
    if (f && writes)
        tw_written_slow(fileno(f), mode[0] == 'a' ? O_APPEND : 0, path);
    return f;
}

/* The pinned wall clock of the calling thread, nanoseconds since 1970. peek: without moving on.
 * (clock.c) */
int64_t tw_clock_now(bool peek);
int64_t tw_clock_kernel_ns(clockid_t clock); /* the original clock */

/* A clock that runs faster (fast_clock.c). */
bool tw_clock_scales(void);
bool tw_clock_is_scaled(clockid_t clock);
int64_t tw_clock_scaled_ns(clockid_t clock);
/* The kernel's moment for a shown one: `out`, or t itself where its clock is shown as it is.
 * either: t may also be on the monotonic clock (a condition keeps its clock to itself): then the
 * nearer is meant; they are decades apart. */
const struct timespec *tw_clock_real_deadline(clockid_t clock, bool either,
                                              const struct timespec *t, struct timespec *out);
bool tw_clock_futex(const long a[6], struct timespec *out); /* true: out is its deadline */

/* getrandom, clock_gettime, gettimeofday and time by number: true and *result when it was answered
 * here. */
bool tw_clock_by_number(long number, const long a[6], long *result);

/*
 * Before and after a call that may set up a sandbox (ending.c), by the number of the system call.
 */
bool tw_sandbox_begins(long number, const long a[6]);
void tw_sandbox_failed(void);
#endif
