/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the CUDA driver's functions. A driver that is not loaded yet is looked for again at the
 * next call. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* What each function is called in the driver's interface, and where it goes. All are pointers to
 * functions, of one size. */
static const struct {
    const char *name;
    size_t place;
} wanted[] = {
    {"cuCtxGetCurrent", offsetof(struct tw_driver, context_current)},
    {"cuCtxSetCurrent", offsetof(struct tw_driver, context_set)},
    {"cuCtxPushCurrent_v2", offsetof(struct tw_driver, context_push)},
    {"cuCtxPopCurrent_v2", offsetof(struct tw_driver, context_pop)},
    {"cuCtxGetDevice", offsetof(struct tw_driver, context_device)},
    {"cuDeviceGet", offsetof(struct tw_driver, device_get)},
    {"cuDevicePrimaryCtxGetState", offsetof(struct tw_driver, primary_state)},
    {"cuDevicePrimaryCtxRetain", offsetof(struct tw_driver, primary_retain)},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(struct tw_driver, primary_release)},
    {"cuModuleLoadData", offsetof(struct tw_driver, module_load)},
    {"cuModuleGetFunction", offsetof(struct tw_driver, module_function)},
    {"cuMemAlloc_v2", offsetof(struct tw_driver, allocate)},
    {"cuMemFree_v2", offsetof(struct tw_driver, release)},
    {"cuMemHostAlloc", offsetof(struct tw_driver, allocate_host)},
    {"cuMemsetD8Async", offsetof(struct tw_driver, clear)},
    {"cuLaunchKernel", offsetof(struct tw_driver, launch)},
    {"cuMemcpyDtoHAsync_v2", offsetof(struct tw_driver, to_host)},
    {"cuStreamSynchronize", offsetof(struct tw_driver, wait)},
    {"cuStreamIsCapturing", offsetof(struct tw_driver, is_capturing)},
    {"cuThreadExchangeStreamCaptureMode", offsetof(struct tw_driver, exchange_capture_mode)},
    {"cuGetErrorName", offsetof(struct tw_driver, error_name)},
    {"cuMemFreeHost", offsetof(struct tw_driver, release_host)},
    {"cuEventCreate", offsetof(struct tw_driver, event_create)},
    {"cuEventRecord", offsetof(struct tw_driver, event_record)},
    {"cuEventQuery", offsetof(struct tw_driver, event_query)},
    {"cuEventSynchronize", offsetof(struct tw_driver, event_wait)},
    {"cuEventDestroy_v2", offsetof(struct tw_driver, event_destroy)},
};
enum { FUNCTIONS = sizeof wanted / sizeof wanted[0] };
_Static_assert(FUNCTIONS * sizeof(void *) == sizeof(struct tw_driver), "a row for each function");

static const char *_Atomic lacks;

/* Looks only at a library that is loaded already. All functions, or none: *d is written when all
 * are there. */
static bool find_driver(struct tw_driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *at[FUNCTIONS];
    if (!library)
        return false;
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (!(at[i] = dlsym(library, wanted[i].name))) {
            atomic_store(&lacks, wanted[i].name);
            dlclose(library); /* the job's own hold on it is left */
            return false;
        }
    atomic_store(&lacks, NULL);
    for (size_t i = 0; i < FUNCTIONS; i++)
        memcpy((char *)d + wanted[i].place, &at[i], sizeof at[i]);
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

const char *tw_driver_lacks(void)
{
    return atomic_load(&lacks);
}
