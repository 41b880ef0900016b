/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets our programs start on a glibc that is older than the one they were built on: on 2.28, which
 * is what PyTorch's own wheels ask for. As oldglibc.c does for the libraries, with what programs,
 * and the libraries that the wheel's program is linked with, call besides.
 */
#include "oldglibc.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#define CONDITION_CLOCKS "GLIBC_2.3.3"
#else
#define CONDITION_CLOCKS FIRST
#endif

WRAP(char *, dlerror, (void), ())

/* The newer ones differ in how they report an error (errno alone), not in their results. */
WRAP(double, exp, (double x), (x))
WRAP(double, exp2, (double x), (x))
WRAP(double, log, (double x), (x))
WRAP(double, log2, (double x), (x))
WRAP(double, pow, (double x, double y), (x, y))

WRAP(int, pthread_barrier_destroy, (pthread_barrier_t * b), (b))
WRAP(int, pthread_barrier_init,
     (pthread_barrier_t * b, const pthread_barrierattr_t *a, unsigned count), (b, a, count))
WRAP(int, pthread_barrier_wait, (pthread_barrier_t * b), (b))
WRAP_OF(CONDITION_CLOCKS, int, pthread_condattr_setclock, (pthread_condattr_t * a, clockid_t clock),
        (a, clock))
WRAP(int, pthread_mutex_trylock, (pthread_mutex_t * m), (m))
WRAP(int, pthread_mutexattr_destroy, (pthread_mutexattr_t * a), (a))
WRAP(int, pthread_mutexattr_init, (pthread_mutexattr_t * a), (a))
WRAP(int, pthread_mutexattr_settype, (pthread_mutexattr_t * a, int type), (a, type))
WRAP(int, pthread_rwlock_destroy, (pthread_rwlock_t * l), (l))
WRAP(int, pthread_rwlock_init, (pthread_rwlock_t * l, const pthread_rwlockattr_t *a), (l, a))
WRAP(int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
WRAP(int, pthread_rwlock_unlock, (pthread_rwlock_t * l), (l))
WRAP(int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))

/* The same functions under the names that code without large files has. */
int __wrap_fstat64(int fd, struct stat *st);
int __wrap_lstat64(const char *path, struct stat *st);
int __wrap_stat64(const char *path, struct stat *st);

int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st)
{
    return __wrap_fstat64(fd, st);
}

int __wrap_lstat(const char *path, struct stat *st);
int __wrap_lstat(const char *path, struct stat *st)
{
    return __wrap_lstat64(path, st);
}

int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
    return __wrap_stat64(path, st);
}

/* Before 2.36 glibc had none; libevent draws from it. A kernel without randomness ends the program,
 * as glibc's own does: nobody expects an error here, and zeros would be taken for a secret. */
void __wrap_arc4random_buf(void *to, size_t bytes);
void __wrap_arc4random_buf(void *to, size_t bytes)
{
    uint8_t *at = to;
    while (bytes > 0) {
        const size_t most = bytes < 256 ? bytes : 256;
        if (getentropy(at, most) != 0)
            abort();
        at += most;
        bytes -= most;
    }
}

uint32_t __wrap_arc4random(void);
uint32_t __wrap_arc4random(void)
{
    uint32_t drawn;
    __wrap_arc4random_buf(&drawn, sizeof drawn);
    return drawn;
}

/*
 * Before 2.34 a program brought a function of its own (from libc_nonshared.a) that called its
 * constructors; since then libc calls them, unless it is given such a function. The one below is
 * given to either, so that constructors run once on both.
 */
typedef void constructor(int argc, char **argv, char **envp);
typedef int main_function(int argc, char **argv, char **envp);

extern void _init(void);
extern constructor *__init_array_start[] __attribute__((visibility("hidden")));
extern constructor *__init_array_end[] __attribute__((visibility("hidden")));

static void construct(int argc, char **argv, char **envp)
{
    _init();
    for (constructor **each = __init_array_start; each < __init_array_end; each++)
        (*each)(argc, argv, envp);
}

int first_libc_start_main(main_function *run, int argc, char **argv, constructor *init,
                          void (*fini)(void), void (*loader_fini)(void), void *stack_end);
__asm__(".symver first_libc_start_main,__libc_start_main@" FIRST);

int __wrap___libc_start_main(main_function *run, int argc, char **argv, constructor *init,
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end);
int __wrap___libc_start_main(main_function *run, int argc, char **argv, constructor *init,
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    return first_libc_start_main(run, argc, argv, init ? init : construct, fini, loader_fini,
                                 stack_end);
}
