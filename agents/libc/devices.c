/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entropy by file: /dev/urandom and /dev/random. A pinned open gives a file in memory, filled from
 * the opening thread's stream: so that whatever reads it, also in the child that inherits the
 * descriptor, and below stdio, where no hook of ours is met, reads the stream. Such a file has an
 * end, which the device has not; read() and fread() that meet it fill it again. It has nothing to
 * do with who reads: two readers of one descriptor share it, as they share the device.
 */
/* Both names of each function are defined here, so neither may be renamed to the other or inlined
 * by a header. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "agents/common/state.h"
#include "hooks.h"

/* Bytes of the stream that such a file holds until it is filled again. */
#define DEVICE_BYTES ((size_t)1 << 18)
#define DEVICE_NAME "twinrun-random"

#undef fread_unlocked /* a macro in optimised builds */

EXPORT int open(const char *path, int flags, ...);
EXPORT int open64(const char *path, int flags, ...);
EXPORT int openat(int at, const char *path, int flags, ...);
EXPORT int openat64(int at, const char *path, int flags, ...);
/* What _FORTIFY_SOURCE calls when no mode is given. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags);
EXPORT int __openat_2(int at, const char *path, int flags);
EXPORT int __openat64_2(int at, const char *path, int flags);
EXPORT FILE *fopen(const char *path, const char *mode);
EXPORT FILE *fopen64(const char *path, const char *mode);
EXPORT ssize_t read(int fd, void *buffer, size_t n);
EXPORT ssize_t __read_chk(int fd, void *buffer, size_t n, size_t room);
EXPORT size_t fread(void *buffer, size_t size, size_t n, FILE *f);
EXPORT size_t fread_unlocked(void *buffer, size_t size, size_t n, FILE *f);
EXPORT size_t __fread_chk(void *buffer, size_t room, size_t size, size_t n, FILE *f);

TW_REAL(int, open, (const char *, int, mode_t))
TW_REAL(int, open64, (const char *, int, mode_t))
TW_REAL(int, openat, (int, const char *, int, mode_t))
TW_REAL(int, openat64, (int, const char *, int, mode_t))
TW_REAL(int, __open_2, (const char *, int))
TW_REAL(int, __open64_2, (const char *, int))
TW_REAL(int, __openat_2, (int, const char *, int))
TW_REAL(int, __openat64_2, (int, const char *, int))
TW_REAL(FILE *, fopen, (const char *, const char *))
TW_REAL(FILE *, fopen64, (const char *, const char *))
TW_REAL(ssize_t, read, (int, void *, size_t))
TW_REAL(ssize_t, __read_chk, (int, void *, size_t, size_t))
TW_REAL(size_t, fread, (void *, size_t, size_t, FILE *))
TW_REAL(size_t, fread_unlocked, (void *, size_t, size_t, FILE *))
TW_REAL(size_t, __fread_chk, (void *, size_t, size_t, size_t, FILE *))

bool tw_device_is(const char *path)
{
    return path && strncmp(path, "/dev/", 5) == 0 &&
           (strcmp(path + 5, "urandom") == 0 || strcmp(path + 5, "random") == 0);
}

/* Writes the stream's next bytes over the file and goes to its start. False when nothing could be
 * written. Below a limit of file sizes (ulimit -f) fewer are written. */
static bool refill_file(int fd)
{
    char piece[4096];
    struct rlimit limit;
    size_t bytes = DEVICE_BYTES, done = 0;
    /* A write beyond the limit would send SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
        bytes = (size_t)limit.rlim_cur;
    while (done < bytes) {
        size_t some = bytes - done < sizeof piece ? bytes - done : sizeof piece;
        tw_stream_bytes(TW_ENTROPY, piece, some);
        if (pwrite(fd, piece, some, (off_t)done) != (ssize_t)some)
            break;
        done += some;
    }
    return done > 0 && lseek(fd, 0, SEEK_SET) == 0;
}

/* A file in memory that is full of the stream; -1, with errno as it was, when there can be none. */
int tw_device_fd(int flags)
{
    int saved_errno = errno;
    /* By number: glibc before 2.27 has no function for it. */
    int fd = (int)syscall(SYS_memfd_create, DEVICE_NAME, flags & O_CLOEXEC ? 1u : 0u);
    if (fd >= 0 && !refill_file(fd)) {
        close(fd);
        fd = -1;
    }
    errno = saved_errno;
    return fd;
}

/* Did this descriptor come from tw_device_fd, here or in the process that we inherited it from?
 * Asked at ends of files only. */
static bool is_ours(int fd)
{
    char link[32], name[64];
    int saved_errno = errno;
    /* A file in memory shows its name there. */
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, sizeof name - 1);
    errno = saved_errno;
    if (n <= 0)
        return false;
    name[n] = '\0';
    return strncmp(name, "/memfd:" DEVICE_NAME, sizeof "/memfd:" DEVICE_NAME - 1) == 0;
}

/* Is entropy answered by us, and not only watched? */
static bool seeded(void)
{
    return tw_factor_armed(TW_ENTROPY) &&
           atomic_load_explicit(&tw_factors[TW_ENTROPY].mode, memory_order_relaxed) !=
               TW_FACTOR_AUDIT;
}

/* ---- opening */

/* The descriptor for a pinned device, or -1: the original opens. */
static int instead(const char *what, const char *path, int flags)
{
    if (!tw_factor_armed(TW_ENTROPY) || !tw_device_is(path) || (flags & O_ACCMODE) == O_WRONLY ||
        !tw_factor_take(TW_ENTROPY, what))
        return -1;
    return tw_device_fd(flags);
}

/* The mode is an argument only when a file may be made. */
#define MODE_OF(mode, flags)                                     \
    mode_t mode = 0;                                             \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list ap_;                                             \
        va_start(ap_, flags);                                    \
        mode = va_arg(ap_, mode_t);                              \
        va_end(ap_);                                             \
    }

int open(const char *path, int flags, ...)
{
    MODE_OF(mode, flags)
    int fd = instead("open", path, flags);
    return fd >= 0 ? fd : tw_written(real_open()(path, flags, mode), flags, path);
}

int open64(const char *path, int flags, ...)
{
    MODE_OF(mode, flags)
    int fd = instead("open", path, flags);
    return fd >= 0 ? fd : tw_written(real_open64()(path, flags, mode), flags, path);
}

int openat(int at, const char *path, int flags, ...)
{
    MODE_OF(mode, flags)
    int fd = instead("openat", path, flags);
    return fd >= 0 ? fd : tw_written(real_openat()(at, path, flags, mode), flags, path);
}

int openat64(int at, const char *path, int flags, ...)
{
    MODE_OF(mode, flags)
    int fd = instead("openat", path, flags);
    return fd >= 0 ? fd : tw_written(real_openat64()(at, path, flags, mode), flags, path);
}

int __open_2(const char *path, int flags)
{
    int fd = instead("open", path, flags);
    return fd >= 0 ? fd : tw_written(real___open_2()(path, flags), flags, path);
}

int __open64_2(const char *path, int flags)
{
    int fd = instead("open", path, flags);
    return fd >= 0 ? fd : tw_written(real___open64_2()(path, flags), flags, path);
}

int __openat_2(int at, const char *path, int flags)
{
    int fd = instead("openat", path, flags);
    return fd >= 0 ? fd : tw_written(real___openat_2()(at, path, flags), flags, path);
}

int __openat64_2(int at, const char *path, int flags)
{
    int fd = instead("openat", path, flags);
    return fd >= 0 ? fd : tw_written(real___openat64_2()(at, path, flags), flags, path);
}

/* The same for fopen. Opening to write is left to the original: what is written to the device goes
 * into the kernel's pool. */
static FILE *stream_instead(const char *path, const char *mode)
{
    if (!mode || mode[0] != 'r')
        return NULL;
    int fd = instead("fopen", path, strchr(mode, 'e') ? O_RDONLY | O_CLOEXEC : O_RDONLY);
    FILE *f = fd >= 0 ? fdopen(fd, mode) : NULL;
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *f = stream_instead(path, mode);
    return f ? f : tw_written_stream(real_fopen()(path, mode), mode, path);
}

FILE *fopen64(const char *path, const char *mode)
{
    FILE *f = stream_instead(path, mode);
    return f ? f : tw_written_stream(real_fopen64()(path, mode), mode, path);
}

/* ---- reading on where our file ends */

/* 0 is the end of a file; the device has none. */
ssize_t read(int fd, void *buffer, size_t n)
{
    ssize_t k = real_read()(fd, buffer, n);
    if (k == 0 && n && seeded() && is_ours(fd) && refill_file(fd))
        k = real_read()(fd, buffer, n);
    return k;
}

ssize_t __read_chk(int fd, void *buffer, size_t n, size_t room)
{
    ssize_t k = real___read_chk()(fd, buffer, n, room);
    if (k == 0 && n && seeded() && is_ours(fd) && refill_file(fd))
        k = real_read()(fd, buffer, n);
    return k;
}

/* Goes on where our file ended, until all elements are read; `done` of n were. Returns how many are
 * read then. */
static size_t read_on(char *buffer, size_t size, size_t n, FILE *f, size_t done)
{
    while (done < n && size && feof(f) && !ferror(f) && seeded() && is_ours(fileno(f)) &&
           refill_file(fileno(f))) {
        clearerr(f);
        size_t k = real_fread()(buffer + done * size, size, n - done, f);
        if (k == 0)
            break; /* an element longer than what the file may hold */
        done += k;
    }
    return done;
}

size_t fread(void *buffer, size_t size, size_t n, FILE *f)
{
    size_t done = real_fread()(buffer, size, n, f);
    return __builtin_expect(done < n, 0) ? read_on(buffer, size, n, f, done) : done;
}

size_t fread_unlocked(void *buffer, size_t size, size_t n, FILE *f)
{
    size_t done = real_fread_unlocked()(buffer, size, n, f);
    return __builtin_expect(done < n, 0) ? read_on(buffer, size, n, f, done) : done;
}

size_t __fread_chk(void *buffer, size_t room, size_t size, size_t n, FILE *f)
{
    size_t done = real___fread_chk()(buffer, room, size, n, f);
    return __builtin_expect(done < n, 0) ? read_on(buffer, size, n, f, done) : done;
}

void tw_stdio_resolve(void)
{
    real_open();
    real_open64();
    real_openat();
    real_openat64();
    real___open_2();
    real___open64_2();
    real___openat_2();
    real___openat64_2();
    real_fopen();
    real_fopen64();
    real_read();
    real___read_chk();
    real_fread();
    real_fread_unlocked();
    real___fread_chk();
}
