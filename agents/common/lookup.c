/* SPDX-License-Identifier: Apache-2.0 */
#include "lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>

struct wanted {
    const char *symbol;
    void *own, *found;
};

static int look_into(struct dl_phdr_info *info, size_t size, void *user)
{
    struct wanted *w = user;
    (void)size;
    if (!info->dlpi_name || !info->dlpi_name[0])
        return 0;
    void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return 0;
    void *f = dlsym(library, w->symbol);
    if (f && f != w->own)
        w->found = f;
    dlclose(library); /* only the count of this look-up: whoever calls us keeps it loaded */
    return w->found != NULL;
}

void *tw_lookup_next(void *_Atomic *cache, const char *symbol)
{
    void *f = atomic_load_explicit(cache, memory_order_relaxed);
    if (!f) {
        int saved_errno = errno;
        f = dlsym(RTLD_NEXT, symbol);
        errno = saved_errno;
        atomic_store_explicit(cache, f, memory_order_relaxed);
    }
    return f;
}

void *tw_lookup_anywhere(void *_Atomic *cache, const char *symbol, void *own)
{
    void *f = tw_lookup_next(cache, symbol);
    if (!f) {
        int saved_errno = errno;
        struct wanted w = {symbol, own, NULL};
        dl_iterate_phdr(look_into, &w);
        f = w.found;
        errno = saved_errno;
        atomic_store_explicit(cache, f, memory_order_relaxed);
    }
    return f;
}
