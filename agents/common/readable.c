/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can the memory of a tensor be read? A program may hand twin_record a pointer into a device, a
 * range that is unmapped or a shape that is too large. Without twinrun nothing would read there, so
 * the agent must not be what crashes the job.
 *
 * The kernel is asked, page by page: rt_sigprocmask copies its 8 bytes before it looks at `how`,
 * and a `how` that it does not know changes nothing. Sandboxes allow it, since libc cannot raise a
 * signal without it. About 100 ns a page, so of a tensor that lies where it lay at the last step
 * only the ends are asked for: memory that goes, goes as a whole. (MADV_POPULATE_READ asks for a
 * range in one call, at twice the price a page.)
 */
#include "state.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, SPREAD = 16 };

static bool page_is_readable(uintptr_t at)
{
    const long kernel_set_bytes = 8;
    int before = errno;
    if (at < PAGE)
        return false; /* a set at address 0 is none, and the kernel would not look */
    long rc = syscall(SYS_rt_sigprocmask, -1, (void *)(at & ~(uintptr_t)(PAGE - 1)), NULL,
                      kernel_set_bytes);
    bool fault = rc != 0 && errno == EFAULT;
    errno = before;
    return !fault;
}

/* How far before and behind its first element a tensor reaches, in elements; false: no memory is
 * that large. */
static bool reach_of_tensor(const struct tw_agent_item *item, int64_t *before, int64_t *behind,
                            int64_t *elements)
{
    *before = *behind = 0;
    *elements = 1;
    for (uint32_t i = item->ndim; i-- > 0;) {
        int64_t last, stride = item->strides ? item->strides[i] : *elements;
        if (item->shape[i] <= 0) {
            *elements = 0;
            return true;
        }
        if (__builtin_mul_overflow(item->shape[i] - 1, stride, &last))
            return false;
        if (__builtin_add_overflow(last < 0 ? *before : *behind, last, last < 0 ? before : behind))
            return false;
        if (__builtin_mul_overflow(*elements, item->shape[i], elements))
            return false;
    }
    return true;
}

bool tw_agent_readable(const struct tw_agent_item *item, bool ends_only)
{
    int64_t before, behind, elements, bytes, start;
    int64_t size = (int64_t)twin_dtype_size((enum twin_dtype)item->dtype);
    if (!reach_of_tensor(item, &before, &behind, &elements))
        return false;
    if (elements == 0 || size == 0)
        return true;
    if (__builtin_mul_overflow(before, size, &start) ||
        __builtin_mul_overflow(behind + 1, size, &bytes))
        return false;
    uintptr_t first = (uintptr_t)item->data, last;
    if (__builtin_add_overflow(first, (uintptr_t)start, &first) && start >= 0)
        return false;
    if (__builtin_add_overflow((uintptr_t)item->data, (uintptr_t)bytes - 1, &last))
        return false;
    /* A view with long gaps does not touch what lies in them, which may be anything. */
    uintptr_t step = (last - first) / SPREAD > (uintptr_t)elements * (uintptr_t)size ? last - first
                                                                                     : PAGE;
    if (!page_is_readable(first) || (first / PAGE != last / PAGE && !page_is_readable(last)))
        return false;
    if (ends_only || step != PAGE)
        return true;
    for (uintptr_t at = (first & ~(uintptr_t)(PAGE - 1)) + PAGE; at < last; at += PAGE)
        if (!page_is_readable(at))
            return false;
    return true;
}

int tw_agent_can_read(const void *data, size_t bytes)
{
    int64_t n = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
    struct tw_agent_item item = {.data = data, .shape = &n, .dtype = TWIN_BYTES, .ndim = 1};
    return tw_agent_readable(&item, true);
}
