/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a library built on a new glibc load on an old one (2.17). A symbol version that the host's
 * libc does not have ends the user's program at its start, so the agent may name none that is
 * newer. The linker sends each call of a function listed here to its __wrap_ twin (meson.build of
 * this folder), which binds to the version of the beginning. Where these lived in libpthread and
 * libdl (before 2.34), those two are loaded along; since then both are empty. Our own programs need
 * oldprogram.c besides. tests/agents/test_native_library.py asserts the outcome.
 */
#include "oldglibc.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

WRAP(int, dladdr, (const void *address, Dl_info *info), (address, info))
WRAP(int, dlclose, (void *handle), (handle))
WRAP(void *, dlopen, (const char *path, int mode), (path, mode))
WRAP(void *, dlsym, (void *handle, const char *name), (handle, name))
WRAP(int, pthread_attr_setstacksize, (pthread_attr_t * a, size_t bytes), (a, bytes))
WRAP(int, pthread_create, (pthread_t * t, const pthread_attr_t *a, void *(*run)(void *), void *p),
     (t, a, run, p))
WRAP(void *, pthread_getspecific, (pthread_key_t k), (k))
WRAP(int, pthread_join, (pthread_t t, void **result), (t, result))
WRAP(int, pthread_key_create, (pthread_key_t * k, void (*end)(void *)), (k, end))
WRAP(int, pthread_key_delete, (pthread_key_t k), (k))
WRAP(int, pthread_once, (pthread_once_t * o, void (*run)(void)), (o, run))
WRAP(int, pthread_setspecific, (pthread_key_t k, const void *p), (k, p))
WRAP(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))

int first_fcntl(int fd, int command, ...);
__asm__(".symver first_fcntl,fcntl@" FIRST);

/* fcntl with 64-bit offsets differs from fcntl on 32-bit machines only. */
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    return first_fcntl(fd, command, argument);
}

/* Before 2.33 these were inline functions over __xstat; the kernel's structure is glibc's on both
 * machines. */
int __wrap_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st)
{
    return (int)syscall(SYS_fstat, fd, st);
}

int __wrap_fstatat64(int fd, const char *path, struct stat *st, int flags);
int __wrap_fstatat64(int fd, const char *path, struct stat *st, int flags)
{
    return (int)syscall(SYS_newfstatat, fd, path, st, flags);
}

int __wrap_stat64(const char *path, struct stat *st);
int __wrap_stat64(const char *path, struct stat *st)
{
    return __wrap_fstatat64(AT_FDCWD, path, st, 0);
}

int __wrap_lstat64(const char *path, struct stat *st);
int __wrap_lstat64(const char *path, struct stat *st)
{
    return __wrap_fstatat64(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}
