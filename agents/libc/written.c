/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files the job opens for writing: a result may lie in a place that no word of the command
 * names, such as a path that stands in the script. Each path is told once to the run folder's
 * `written`, with the file's size before, when it is opened, renamed or linked. The launcher looks
 * at what of it is there when the job has ended, so a temporary file costs a line and no more.
 * Not seen: mkstemp and shm_open, which open below every hook, and whatever is past libc.
 */
/* Both names of each function are defined here, so neither may be renamed to the other. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "agents/common/state.h"
#include "hooks.h"
#include "src/base/base.h"

EXPORT int creat(const char *path, mode_t mode);
EXPORT int creat64(const char *path, mode_t mode);
EXPORT FILE *freopen(const char *restrict path, const char *restrict mode, FILE *restrict f);
EXPORT FILE *freopen64(const char *restrict path, const char *restrict mode, FILE *restrict f);
EXPORT int rename(const char *from, const char *to);
EXPORT int renameat(int from_at, const char *from, int to_at, const char *to);
EXPORT int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags);
EXPORT int link(const char *from, const char *to);
EXPORT int linkat(int from_at, const char *from, int to_at, const char *to, int flags);

TW_REAL(int, creat, (const char *, mode_t))
TW_REAL(int, creat64, (const char *, mode_t))
TW_REAL(FILE *, freopen, (const char *, const char *, FILE *))
TW_REAL(FILE *, freopen64, (const char *, const char *, FILE *))
TW_REAL(int, rename, (const char *, const char *))
TW_REAL(int, renameat, (int, const char *, int, const char *))
TW_REAL(int, renameat2, (int, const char *, int, const char *, unsigned))
TW_REAL(int, link, (const char *, const char *))
TW_REAL(int, linkat, (int, const char *, int, const char *, int))

/* Paths that were told, by their hash: open addressing, entries are never taken out. */
enum { SLOTS = 8192, PROBES = 64 };
static _Atomic uint64_t told[SLOTS];
static atomic_bool confined; /* a sandbox may kill for a system call that the job does not make */

/* True when this path comes for the first time. A table that is full takes each for new: the lines
 * come twice then, and the launcher takes each path once. */
static bool first_time(const char *path)
{
    /* Odd, so that it is never 0, which is an empty slot. */
    uint64_t key = tw_hash_bytes(path, strlen(path), 0).a | 1;
    for (uint64_t i = 0; i < PROBES; i++) {
        uint64_t seen = 0;
        if (atomic_compare_exchange_strong(&told[(key + i) % SLOTS], &seen, key))
            return true;
        if (seen == key)
            return false;
    }
    return true;
}

/* What the agents and the launcher write there. The job's copy of its working folder is the job's.
 */
static bool is_of_run_folder(const char *path)
{
    const size_t n = strlen(tw_agent_config.run_dir);
    return tw_starts(path, tw_agent_config.run_dir) && path[n] == '/' &&
           !tw_starts(path + n, "/work/");
}

/* Devices and what the kernel shows as files keep nothing that was written to them. */
static bool keeps_nothing(const char *path)
{
    return (tw_starts(path, "/dev/") && !tw_starts(path, "/dev/shm/")) ||
           tw_starts(path, "/proc/") || tw_starts(path, "/sys/") || is_of_run_folder(path);
}

/* The file behind a descriptor. appends: what is in it already was there before. Inside a guard. */
static void tell_file(int fd, bool appends)
{
    char link[32], path[TW_WRITTEN_PATH_BYTES]; /* threads of the job may have small stacks */
    struct stat64 st;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    if (n <= 0 || path[0] != '/')
        return;
    /* A path that fills the buffer may have been longer. */
    bool cut = n == (ssize_t)sizeof path;
    path[cut ? n - 1 : n] = '\0';
    if (keeps_nothing(path) || !first_time(path) || fstat64(fd, &st) != 0)
        return;
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        tw_folder_written(appends ? (uint64_t)st.st_size : 0,
                          cut || strchr(path, '\n') ? "" : path);
}

/* Nothing is told outside of a run, or behind a sandbox. */
static bool nothing_is_told(void)
{
    return !tw_agent_config.run_dir[0] || atomic_load_explicit(&confined, memory_order_relaxed);
}

/* The slow half of tw_written(): tells the run folder, unless the path keeps nothing. */
void tw_written_slow(int fd, int flags, const char *path)
{
    struct tw_guard g;
    if (nothing_is_told() || (path && keeps_nothing(path)) || !tw_guard_enter(&g))
        return;
    tell_file(fd, (flags & O_APPEND) != 0);
    tw_guard_leave(&g);
}

/* After a rename or a link that gave `rc`: tells what is at this place now, a file, or a folder
 * with all that is in it. Returns rc. */
static int placed(int rc, int at, const char *path)
{
    struct tw_guard g;
    if (rc != 0 || nothing_is_told() || !tw_guard_enter(&g))
        return rc;
    int fd = (int)syscall(SYS_openat, at, path, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd >= 0) {
        tell_file(fd, false);
        close(fd);
    }
    tw_guard_leave(&g);
    return rc;
}

void tw_written_confined(bool yes)
{
    atomic_store_explicit(&confined, yes, memory_order_relaxed);
}

int creat(const char *path, mode_t mode)
{
    return tw_written(real_creat()(path, mode), O_WRONLY, path);
}

int creat64(const char *path, mode_t mode)
{
    return tw_written(real_creat64()(path, mode), O_WRONLY, path);
}

FILE *freopen(const char *restrict path, const char *restrict mode, FILE *restrict f)
{
    return tw_written_stream(real_freopen()(path, mode, f), mode, path);
}

FILE *freopen64(const char *restrict path, const char *restrict mode, FILE *restrict f)
{
    return tw_written_stream(real_freopen64()(path, mode, f), mode, path);
}

int rename(const char *from, const char *to)
{
    return placed(real_rename()(from, to), AT_FDCWD, to);
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    return placed(real_renameat()(from_at, from, to_at, to), to_at, to);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    /* glibc before 2.28 has none, and its programs do not ask for it */
    renameat2_fn *real = real_renameat2();
    int rc = -1;
    if (real)
        rc = real(from_at, from, to_at, to, flags);
    else
        errno = ENOSYS;
    return placed(rc, to_at, to);
}

int link(const char *from, const char *to)
{
    return placed(real_link()(from, to), AT_FDCWD, to);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    return placed(real_linkat()(from_at, from, to_at, to, flags), to_at, to);
}

void tw_written_resolve(void)
{
    real_creat();
    real_creat64();
    real_freopen();
    real_freopen64();
    real_rename();
    real_renameat();
    real_renameat2();
    real_link();
    real_linkat();
}
