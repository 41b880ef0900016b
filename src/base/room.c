/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the threads of the watched program, mapped rather than malloc'ed: the first malloc of
 * a thread makes an arena for it, 64 MiB of addresses, which a program whose addresses are limited
 * (ulimit -v) needs for itself. Where addresses or data (ulimit -d) are limited, all of it together
 * is an eighth of the limit at most, and what is asked for beyond that is refused: the watcher
 * loses records before the program loses a thread.
 *
 * The limits are read once, at the start of the program, when its loader has just read limits as
 * well. Later a sandbox may kill for the question. Pages that a program locks (mlockall) are not
 * considered: whether new pages are locked cannot be asked. */
#include "base.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SHARE_OF_LIMIT 8 /* an eighth */

static atomic_uint_fast64_t share = UINT64_MAX; /* UINT64_MAX: nothing is limited */
static atomic_uint_fast64_t used;

static uint64_t limit_of(int resource)
{
    struct rlimit l;
    return getrlimit(resource, &l) == 0 && l.rlim_cur != RLIM_INFINITY ? l.rlim_cur : UINT64_MAX;
}

void tw_room_limit(void)
{
    int saved = errno;
    uint64_t addresses = limit_of(RLIMIT_AS);
    uint64_t data = limit_of(RLIMIT_DATA);
    uint64_t least = addresses < data ? addresses : data;
    atomic_store(&share, least == UINT64_MAX ? least : least / SHARE_OF_LIMIT);
    errno = saved;
}

uint64_t tw_room_left(void)
{
    uint64_t all = atomic_load_explicit(&share, memory_order_relaxed);
    uint64_t taken = atomic_load_explicit(&used, memory_order_relaxed);
    if (all == UINT64_MAX)
        return all;
    return taken < all ? all - taken : 0;
}

uint64_t tw_room_all(void)
{
    return atomic_load_explicit(&share, memory_order_relaxed);
}

uint64_t tw_room_used(void)
{
    return atomic_load(&used);
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

void *tw_room_map(size_t bytes)
{
    size_t pages = whole_pages(bytes);
    void *p = MAP_FAILED;
    if (tw_alloc_refused())
        return NULL;
    if (atomic_fetch_add(&used, pages) + pages <= atomic_load(&share))
        p = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        errno = ENOMEM;
    if (p != MAP_FAILED)
        return p;
    atomic_fetch_sub(&used, pages);
    return NULL;
}

void tw_room_unmap(void *p, size_t bytes)
{
    size_t pages = whole_pages(bytes);
    if (!p)
        return;
    munmap(p, pages);
    atomic_fetch_sub(&used, pages);
}
