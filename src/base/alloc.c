/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for all rooms: the functions of libc, counted, so that tests can make any one allocation
 * fail (tw_alloc_fail_at) and see that the caller copes. Without such a test each costs two relaxed
 * atomic operations. A size of 0 gives a pointer that can be freed, never NULL: NULL always means
 * no memory. */
#include "base.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Since the start of the process, refused ones included. */
static atomic_uint_fast64_t allocations;
static atomic_uint_fast64_t fail_at; /* absolute allocation number; 0 = never */
static atomic_bool fail_forever;

void tw_alloc_fail_at(uint64_t n, bool forever)
{
    atomic_store(&fail_forever, forever);
    atomic_store(&fail_at, n ? atomic_load(&allocations) + n : 0);
}

uint64_t tw_alloc_count(void)
{
    return atomic_load(&allocations);
}

/* Counts this allocation. True when a test wants it to fail; errno is ENOMEM then, as malloc leaves
 * it. */
bool tw_alloc_refused(void)
{
    uint64_t number = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    uint64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (at == 0 || number < at || (number > at && !atomic_load(&fail_forever)))
        return false;
    errno = ENOMEM;
    return true;
}

void *tw_malloc(size_t bytes)
{
    if (tw_alloc_refused())
        return NULL;
    return malloc(bytes ? bytes : 1);
}

void *tw_calloc(size_t n, size_t bytes)
{
    if (tw_alloc_refused())
        return NULL;
    return calloc(n ? n : 1, bytes ? bytes : 1);
}

void *tw_realloc(void *p, size_t bytes)
{
    if (tw_alloc_refused())
        return NULL;
    return realloc(p, bytes ? bytes : 1);
}

void *tw_reallocarray(void *p, size_t n, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(n, bytes, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return tw_realloc(p, total);
}

char *tw_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = tw_malloc(len + 1);
    if (copy) {
        memcpy(copy, s, len);
        copy[len] = '\0';
    }
    return copy;
}

/* The bound is never reached: no string is that long. */
char *tw_strdup(const char *s)
{
    return tw_strndup(s, (size_t)-1 >> 1);
}

void tw_free(void *p)
{
    free(p);
}
