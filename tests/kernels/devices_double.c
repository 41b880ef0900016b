/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of several devices, read from one thread. The double refuses what lies on another device
 * than the stream or the kernel, so that a wrong context, stream or scratch memory fails here; and
 * the thread's context must be afterwards what it was, whatever the driver refuses.
 */
#include <string.h>
#include "agents/cuda/trouble.h"
#include "look_test.h"

enum { COUNT = 1000, OTHER = 1, UNUSED = 2, NOT_THERE = 3 };

static float host[COUNT];
static tw_cu_context other; /* the primary context of device OTHER */
static tw_cu_address memory[2];
static int streams[2];

static tw_cu_context current(void)
{
    tw_cu_context at = NULL;
    CHECK(tw_driver()->context_current(&at) == 0);
    return at;
}

static struct tw_device_tensor tensor_at(tw_cu_address at)
{
    return (struct tw_device_tensor){.data = (const void *)(uintptr_t)at,
                                     .count = COUNT,
                                     .dtype = TWIN_F32,
                                     .want_stats = true,
                                     .want_sketch = true};
}

/* Looks at the tensor that lies on device `where`, as if it lay on `said`. */
static bool look(int where, int said, void *stream)
{
    const struct tw_device_tensor t = tensor_at(memory[where]);
    struct tw_device_found found = {0};
    if (!tw_device_look((unsigned)said, &t, 1, stream, &found))
        return false;
    const struct twin_digest want = twin_digest_bytes(host, sizeof host, 0);
    CHECK(found.digest.a == want.a && found.digest.b == want.b);
    return true;
}

static void prepare(const struct cuda_double *d)
{
    const struct tw_driver *driver = tw_driver();
    uint64_t state = 4711;
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)(next(&state) >> 40);
    CHECK(driver->primary_retain(&other, OTHER) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(driver->context_set(i == OTHER ? other : context) == 0);
        CHECK(driver->allocate(&memory[i], sizeof host) == 0);
        CHECK(to_device(memory[i], host, sizeof host) == 0);
        d->stream(&streams[i], i);
    }
    CHECK(driver->context_set(context) == 0);
}

/* From each context that a thread can be in, on streams of the device's and its default one. */
static void check_current(void)
{
    tw_cu_context const from[] = {context, other, NULL};
    for (size_t i = 0; i < 3; i++) {
        set_context(from[i]);
        for (int where = 0; where < 2; where++) {
            CHECK(tw_device_ready((unsigned)where) && current() == from[i]);
            CHECK(look(where, where, &streams[where]) && current() == from[i]);
            CHECK(look(where, where, NULL) && current() == from[i]);
        }
    }
    set_context(context);
}

/* A device that the job has no context on gets none, and one that is not there is told. */
static void check_absent(void)
{
    unsigned flags;
    int active = 1;
    CHECK(!tw_device_ready(UNUSED));
    CHECK(tw_driver()->primary_state(UNUSED, &flags, &active) == 0 && !active);
    tw_trouble_forget();
    CHECK(!tw_device_ready(NOT_THERE) && current() == context);
    tw_trouble_forget();
}

/* The double's own rules: the memory or the stream of another device. */
static void check_mistaken(const struct cuda_double *d)
{
    CHECK(!look(OTHER, 0, &streams[0]) && current() == context);
    d->refuse(NULL, 0, 0);
    tw_trouble_forget();
    CHECK(!look(OTHER, OTHER, &streams[0]) && current() == context);
    d->refuse(NULL, 0, 0);
    tw_trouble_forget();
    CHECK(look(OTHER, OTHER, &streams[OTHER]));
}

/* A pop that is refused leaves the thread's stack one deeper, with the right context on top. */
static void enter_only(tw_cu_context at)
{
    while (current())
        set_context(NULL);
    set_context(at);
}

/* Each call on the way to the other device and back is refused; nothing is left of the visit. */
static void check_refusals(const struct cuda_double *d)
{
    static const char *const calls[] = {
        "cuCtxGetCurrent",          "cuDeviceGet",         "cuDevicePrimaryCtxGetState",
        "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuStreamIsCapturing",
        "cuMemsetD8Async",          "cuLaunchKernel",      "cuMemcpyDtoHAsync_v2",
        "cuStreamSynchronize",      "cuCtxPopCurrent_v2"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int none = 0; none < 2; none++) {
            enter_only(none ? NULL : context);
            d->refuse(calls[i], 1, 700);
            CHECK(!look(OTHER, OTHER, &streams[OTHER]));
            const bool quiet_one = strcmp(calls[i], "cuStreamIsCapturing") == 0;
            CHECK(tw_trouble_is_off() == !quiet_one);
            const uint64_t taken = d->calls("cuDevicePrimaryCtxRetain");
            const uint64_t given = d->calls("cuDevicePrimaryCtxRelease_v2");
            CHECK(taken == given + (strcmp(calls[i], "cuDevicePrimaryCtxRetain") == 0));
            d->refuse(NULL, 0, 0);
            CHECK(current() == (none ? NULL : context));
            tw_trouble_forget();
        }
    enter_only(context);
    CHECK(look(OTHER, OTHER, &streams[OTHER]));
}

void check_devices(const struct cuda_double *d)
{
    const struct tw_driver *driver = tw_driver();
    prepare(d);
    check_current();
    check_absent();
    check_mistaken(d);
    check_refusals(d);
    for (int i = 0; i < 2; i++)
        driver->release(memory[i]);
    CHECK(driver->primary_release(OTHER) == 0);
}
