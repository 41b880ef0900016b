/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtwinrun_hot.so: stands in front of allocation and locks, which programs call millions of
 * times. It is preloaded beside libtwinrun.so only when the factors `malloc` or `schedule` are
 * asked for; in every other job these functions are untouched.
 *
 * calloc and free are not wrapped: what calloc gives is filled already, and a free that is nobody's
 * but libc's (or that of the allocator the program brought along) needs no table of who allocated
 * what. dlsym allocates by calloc, if at all; an allocation that comes back in while we look for
 * the original is served by glibc's malloc under its other name.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <sys/mman.h>
#include "agents/common/hot.h"

#define EXPORT __attribute__((visibility("default")))

/* In libtwinrun.so; absent when only this library was preloaded, and then nothing is done. */
extern __attribute__((weak)) const struct tw_hot_plan *tw_hot_plan(void);
extern __attribute__((weak)) void *__libc_malloc(size_t n);
extern __attribute__((weak)) void *__libc_realloc(void *p, size_t n);
extern __attribute__((weak)) void *__libc_memalign(size_t alignment, size_t n);

/* The version of the beginning: see src/base/oldglibc.c. */
#if defined(__x86_64__)
__asm__(".symver first_dlsym,dlsym@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver first_dlsym,dlsym@GLIBC_2.17");
#endif
extern void *first_dlsym(void *handle, const char *name);

EXPORT void tw_hot_here(void);
EXPORT void *malloc(size_t n);
EXPORT void *realloc(void *p, size_t n);
EXPORT void *reallocarray(void *p, size_t n, size_t size);
EXPORT void *memalign(size_t alignment, size_t n);
EXPORT void *aligned_alloc(size_t alignment, size_t n);
EXPORT void *valloc(size_t n);
EXPORT int posix_memalign(void **p, size_t alignment, size_t n);
EXPORT int pthread_mutex_lock(pthread_mutex_t *m);
EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l);
EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l);
EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t);
EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *t);
EXPORT int pthread_cond_signal(pthread_cond_t *c);
EXPORT int pthread_cond_broadcast(pthread_cond_t *c);
EXPORT int pthread_barrier_wait(pthread_barrier_t *b);
EXPORT int sem_wait(sem_t *s);

/* libtwinrun.so asks for this name to learn whether we are here. */
void tw_hot_here(void)
{
}

/* `known`: what to do, once libtwinrun.so could tell. `looking`: this thread is inside dlsym, which
 * may allocate; its own variable in static TLS, since reaching dynamic TLS may allocate as well. */
static const struct tw_hot_plan *_Atomic known;
static __thread int looking __attribute__((tls_model("initial-exec")));

/* What is to be done in this process; a plan that asks for nothing while it is not known. */
static const struct tw_hot_plan *plan_process(void)
{
    const struct tw_hot_plan *p = atomic_load_explicit(&known, memory_order_acquire);
    if (__builtin_expect(p != NULL, 1))
        return p;
    static const struct tw_hot_plan nothing;
    if (looking)
        return &nothing;
    if (tw_hot_plan && !(p = tw_hot_plan()))
        return &nothing; /* too early to know: asked again */
    if (!p)
        p = &nothing;
    atomic_store_explicit(&known, p, memory_order_release);
    return p;
}

/* Finds the original behind us and keeps it. errno is the program's and stays. */
static void *look_up(void *_Atomic *cache, const char *name)
{
    int saved_errno = errno;
    looking++;
    void *p = first_dlsym(RTLD_NEXT, name);
    looking--;
    errno = saved_errno;
    atomic_store_explicit(cache, p, memory_order_relaxed);
    return p;
}

/* Defines real_NAME(), which gives the original: one load and a branch once it is known. */
#define REAL(result, name, parameters)                                                         \
    typedef result name##_fn parameters;                                                       \
    static void *_Atomic name##_cache;                                                         \
    static inline name##_fn *real_##name(void)                                                 \
    {                                                                                          \
        void *p_ = atomic_load_explicit(&name##_cache, memory_order_relaxed);                  \
        return (name##_fn *)(__builtin_expect(p_ != NULL, 1) ? p_                              \
                                                             : look_up(&name##_cache, #name)); \
    }

REAL(void *, malloc, (size_t))
REAL(void *, realloc, (void *, size_t))
REAL(void *, memalign, (size_t, size_t))
REAL(void *, aligned_alloc, (size_t, size_t))
REAL(void *, valloc, (size_t))
REAL(int, posix_memalign, (void **, size_t, size_t))
REAL(size_t, malloc_usable_size, (void *))
REAL(int, pthread_mutex_lock, (pthread_mutex_t *))
REAL(int, pthread_rwlock_rdlock, (pthread_rwlock_t *))
REAL(int, pthread_rwlock_wrlock, (pthread_rwlock_t *))
REAL(int, pthread_cond_wait, (pthread_cond_t *, pthread_mutex_t *))
REAL(int, pthread_cond_timedwait, (pthread_cond_t *, pthread_mutex_t *, const struct timespec *))
REAL(int, pthread_cond_clockwait,
     (pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))
REAL(int, pthread_cond_signal, (pthread_cond_t *))
REAL(int, pthread_cond_broadcast, (pthread_cond_t *))
REAL(int, pthread_barrier_wait, (pthread_barrier_t *))
REAL(int, sem_wait, (sem_t *))

/* ---- fresh memory */

/* Bytes from which asking the kernel for zero pages is tried instead of writing them. */
#define LARGE ((size_t)4 << 20)
/* of one allocation: who reserves more does not mean to touch it all */
#define NOISE_MAX ((size_t)1 << 30)

/* Zeros for a large block without touching it: the kernel gives zero pages at the next access. Only
 * for memory of glibc's own allocator, which is private and anonymous; false where it is another's,
 * or where the kernel refuses (locked pages). The parts of pages at both ends are written. */
static bool zero_pages(char *p, size_t n)
{
    const size_t page = 4096;
    char *first = (char *)(((uintptr_t)p + page - 1) & ~(uintptr_t)(page - 1));
    char *end = (char *)((uintptr_t)(p + n) & ~(uintptr_t)(page - 1));
    if (!__libc_malloc || (void *)real_malloc() != (void *)__libc_malloc || first >= end ||
        madvise(first, (size_t)(end - first), MADV_DONTNEED) != 0)
        return false;
    memset(p, 0, (size_t)(first - p));
    memset(end, 0, (size_t)(p + n - end));
    return true;
}

/* Whether memory is filled. Where not, each function ends in a jump to the original: an allocation
 * then looks as if the program had called it (LeakSanitizer, for one, judges by the caller). */
static inline bool filling(void)
{
    return __builtin_expect(plan_process()->fill, 0);
}

/* block + from, ..., block + n - 1 are fresh. Keeps errno. */
static void *fill_block(void *block, size_t from, size_t n)
{
    const struct tw_hot_plan *h = plan_process();
    if (!block || from >= n || !h->count())
        return block;
    int saved_errno = errno;
    char *p = (char *)block + from;
    n -= from;
    /* Noise; one byte for all; or zeros, which large blocks get from the kernel. */
    if (h->noise)
        h->fill_noise(p, n < NOISE_MAX ? n : NOISE_MAX);
    else if (h->byte || n < LARGE || !zero_pages(p, n))
        memset(p, h->byte, h->byte && n > NOISE_MAX ? NOISE_MAX : n);
    errno = saved_errno;
    return block;
}

/* As the allocator reports it. */
static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t n)
{
    if (__builtin_expect(looking, 0))
        return __libc_malloc ? __libc_malloc(n) : no_memory();
    malloc_fn *real = real_malloc();
    if (!real)
        return no_memory();
    return filling() ? fill_block(real(n), 0, n) : real(n);
}

/* Only what the block has gained is fresh. */
void *realloc(void *p, size_t n)
{
    if (__builtin_expect(looking, 0))
        return __libc_realloc ? __libc_realloc(p, n) : no_memory();
    realloc_fn *real = real_realloc();
    if (!real)
        return no_memory();
    if (!filling())
        return real(p, n);
    /* What the block could hold before is the program's; it may have used all of it. */
    malloc_usable_size_fn *usable = real_malloc_usable_size();
    size_t before = 0;
    if (p)
        before = usable ? usable(p) : n;
    return fill_block(real(p, n), before, n);
}

void *reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? no_memory() : realloc(p, bytes);
}

void *memalign(size_t alignment, size_t n)
{
    if (__builtin_expect(looking, 0))
        return __libc_memalign ? __libc_memalign(alignment, n) : no_memory();
    memalign_fn *real = real_memalign();
    if (!real)
        return no_memory();
    return filling() ? fill_block(real(alignment, n), 0, n) : real(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    aligned_alloc_fn *real = real_aligned_alloc();
    if (!real)
        return no_memory();
    return filling() ? fill_block(real(alignment, n), 0, n) : real(alignment, n);
}

void *valloc(size_t n)
{
    valloc_fn *real = real_valloc();
    if (!real)
        return no_memory();
    return filling() ? fill_block(real(n), 0, n) : real(n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    posix_memalign_fn *real = real_posix_memalign();
    if (!real)
        return ENOMEM;
    if (!filling())
        return real(p, alignment, n);
    int rc = real(p, alignment, n);
    if (rc == 0)
        fill_block(*p, 0, n);
    return rc;
}

/* ---- boundaries. The kinds are enum tw_boundary's. */

enum { LOCK = 2, COND = 3, BARRIER = 4 };

/* A place at which threads may come in another order: the factor `schedule` may wait here. */
static inline void boundary(int kind)
{
    const struct tw_hot_plan *h = plan_process();
    if (__builtin_expect(h->boundaries, 0))
        h->boundary(kind);
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
    boundary(LOCK);
    return real_pthread_mutex_lock()(m);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
    boundary(LOCK);
    return real_pthread_rwlock_rdlock()(l);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
    boundary(LOCK);
    return real_pthread_rwlock_wrlock()(l);
}

int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    boundary(COND);
    return real_pthread_cond_wait()(c, m);
}

int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
    boundary(COND);
    return real_pthread_cond_timedwait()(c, m, t);
}

int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                           const struct timespec *t)
{
    pthread_cond_clockwait_fn *real = real_pthread_cond_clockwait();
    boundary(COND);
    return real ? real(c, m, clock, t) : ENOSYS;
}

int pthread_cond_signal(pthread_cond_t *c)
{
    boundary(COND);
    return real_pthread_cond_signal()(c);
}

int pthread_cond_broadcast(pthread_cond_t *c)
{
    boundary(COND);
    return real_pthread_cond_broadcast()(c);
}

int pthread_barrier_wait(pthread_barrier_t *b)
{
    boundary(BARRIER);
    return real_pthread_barrier_wait()(b);
}

int sem_wait(sem_t *s)
{
    boundary(LOCK);
    return real_sem_wait()(s);
}

/* All originals at the start: later a look-up could happen inside a signal handler. */
__attribute__((constructor)) static void find_all(void)
{
    real_malloc();
    real_realloc();
    real_memalign();
    real_aligned_alloc();
    real_valloc();
    real_posix_memalign();
    real_malloc_usable_size();
    real_pthread_mutex_lock();
    real_pthread_rwlock_rdlock();
    real_pthread_rwlock_wrlock();
    real_pthread_cond_wait();
    real_pthread_cond_timedwait();
    real_pthread_cond_clockwait();
    real_pthread_cond_signal();
    real_pthread_cond_broadcast();
    real_pthread_barrier_wait();
    real_sem_wait();
    plan_process();
}
