/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded by test_swapped.py: the moment a file below $SWAP_PACKAGE was opened for reading, what
 * lies at its path becomes the file of the same name below $SWAP_EVIL. Whoever opens a path a
 * second time gets what nobody verified. With $SWAP_IN_PLACE the file keeps its place (inode) and
 * gets other bytes instead, so that what is open changes too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int real_openat(int dir, const char *path, int flags, int mode)
{
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

static void overwrite(const char *from, const char *to)
{
    char text[65536];
    int in = real_openat(AT_FDCWD, from, O_RDONLY | O_CLOEXEC, 0);
    int out = real_openat(AT_FDCWD, to, O_WRONLY | O_TRUNC | O_CLOEXEC, 0);
    ssize_t n;
    while (in >= 0 && out >= 0 && (n = read(in, text, sizeof text)) > 0)
        if (write(out, text, (size_t)n) != n)
            break;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
}

static void swap_after(int fd)
{
    char link[64], at[PATH_MAX], evil[2 * PATH_MAX];
    struct stat st;
    const char *package = getenv("SWAP_PACKAGE"), *other = getenv("SWAP_EVIL");
    if (fd < 0 || !package || !other || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, at, sizeof at - 1);
    size_t root = strlen(package);
    if (n <= 0)
        return;
    at[n] = '\0';
    if (strncmp(at, package, root) != 0 || at[root] != '/')
        return;
    snprintf(evil, sizeof evil, "%s%s", other, at + root);
    if (getenv("SWAP_IN_PLACE"))
        overwrite(evil, at);
    else
        rename(evil, at);
}

static int open_and_swap(int dir, const char *path, int flags, va_list ap)
{
    int mode = 0;
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE)
        mode = va_arg(ap, int);
    int fd = real_openat(dir, path, flags, mode);
    if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH))
        swap_after(fd);
    return fd;
}

#define OPEN(name)                                         \
    int name(const char *path, int flags, ...)             \
    {                                                      \
        va_list ap;                                        \
        va_start(ap, flags);                               \
        int fd = open_and_swap(AT_FDCWD, path, flags, ap); \
        va_end(ap);                                        \
        return fd;                                         \
    }
#define OPENAT(name)                                    \
    int name(int dir, const char *path, int flags, ...) \
    {                                                   \
        va_list ap;                                     \
        va_start(ap, flags);                            \
        int fd = open_and_swap(dir, path, flags, ap);   \
        va_end(ap);                                     \
        return fd;                                      \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

static FILE *open_stream(const char *name, const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) = (FILE * (*)(const char *, const char *))(
        uintptr_t)dlsym(RTLD_NEXT, name);
    FILE *f = real(path, mode);
    if (f && mode[0] == 'r')
        swap_after(fileno(f));
    return f;
}

FILE *fopen(const char *path, const char *mode)
{
    return open_stream("fopen", path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return open_stream("fopen64", path, mode);
}
