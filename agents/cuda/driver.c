/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the CUDA driver's functions. A driver that is not loaded yet is looked for again at the
 * next call. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

/* In the order of find_driver()'s table. */
static const char *const names[] = {
    "cuCtxGetCurrent",     "cuModuleLoadData",    "cuModuleGetFunction",
    "cuMemAlloc_v2",       "cuMemFree_v2",        "cuMemHostAlloc",
    "cuMemsetD8Async",     "cuLaunchKernel",      "cuMemcpyDtoHAsync_v2",
    "cuStreamSynchronize", "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode",
};

static int (*allocate_flags)(void **, size_t, unsigned);

/* Page-locked memory, which copies from the device can go to directly. */
static int allocate_host(void **memory, size_t bytes)
{
    return allocate_flags(memory, bytes, 0);
}

/* Looks only at a library that is loaded already. All functions or none. */
static bool find_driver(struct tw_driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *at[sizeof names / sizeof names[0]];
    if (!library)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!(at[i] = dlsym(library, names[i])))
            return false;
    *(void **)&allocate_flags = at[5];
    void **const to[] = {
        (void **)&d->context_current, (void **)&d->module_load,
        (void **)&d->module_function, (void **)&d->allocate,
        (void **)&d->release,         NULL,
        (void **)&d->clear,           (void **)&d->launch,
        (void **)&d->to_host,         (void **)&d->wait,
        (void **)&d->is_capturing,    (void **)&d->exchange_capture_mode,
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (to[i])
            *to[i] = at[i];
    d->allocate_host = allocate_host;
    return true;
}

const struct tw_driver *tw_driver(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct tw_driver driver;
    static atomic_bool found;
    if (!atomic_load_explicit(&found, memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        if (!atomic_load(&found) && find_driver(&driver))
            atomic_store_explicit(&found, true, memory_order_release);
        pthread_mutex_unlock(&lock);
    }
    return atomic_load_explicit(&found, memory_order_acquire) ? &driver : NULL;
}
