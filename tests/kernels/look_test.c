/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fingerprints made on a GPU against those that the host makes of the same bytes: digest,
 * statistics and sketch, bit for bit. `look_test bench` prints their speed beside that of a copy.
 * With a double of the driver (emulated/libcuda.h) as libcuda.so.1 it also tries schedules, and
 * what happens when the driver fails. Exit 77 (skipped) without a GPU or without kernels.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "look_test.h"

tw_cu_context context;
int (*set_context)(tw_cu_context);
static int (*copy)(tw_cu_address, tw_cu_address, size_t);
static int (*synchronize)(void);
static const struct cuda_double *on_double; /* NULL: a real driver */

static const char *start(void)
{
    int (*init)(unsigned), (*device_get)(int *, int), (*retain)(tw_cu_context *, int);
    int device, count = 0, (*device_count)(int *);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return "no NVIDIA driver";
    on_double = dlsym(library, "twin_cuda_double");
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&device_count = dlsym(library, "cuDeviceGetCount");
    *(void **)&device_get = dlsym(library, "cuDeviceGet");
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&set_context = dlsym(library, "cuCtxSetCurrent");
    *(void **)&to_device = dlsym(library, "cuMemcpyHtoD_v2");
    *(void **)&copy = dlsym(library, "cuMemcpyDtoD_v2");
    *(void **)&synchronize = dlsym(library, "cuCtxSynchronize");
    if (init(0) != 0 || device_count(&count) != 0 || count == 0 || device_get(&device, 0) != 0)
        return "no GPU";
    if (tw_device_ready(0))
        CHECK(!"ready without a context");
    if (retain(&context, device) != 0 || set_context(context) != 0)
        return "no context on the GPU";
    return tw_device_ready(0) ? NULL : "the kernels cannot be loaded (built without nvcc?)";
}

static void *worker(void *p)
{
    set_context(context);
    for (uint64_t i = 0; i < (on_double ? 1 : 3); i++)
        check_many(tw_driver(), MANY, (uint64_t)(uintptr_t)p * 100 + i, on_double ? 16 : 1);
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void bench(const struct tw_driver *d)
{
    static const uint64_t counts[] = {1u << 10, 1u << 16, 1u << 20, 1u << 24, 1u << 28};
    for (int c = 0; c < 5; c++) {
        const uint64_t count = counts[c];
        tw_cu_address memory, other;
        if (d->allocate(&memory, count * 4) != 0 || d->allocate(&other, count * 4) != 0)
            return;
        d->clear(memory, 0x3A, count * 4, NULL);
        struct tw_device_found found;
        double best[4] = {1e9, 1e9, 1e9, 1e9};
        for (int repeat = 0; repeat < 15; repeat++)
            for (int what = 0; what < 4; what++) {
                struct tw_device_tensor t = {.data = (const void *)(uintptr_t)memory,
                                             .count = count,
                                             .dtype = TWIN_F32,
                                             .want_stats = what == 3,
                                             .want_sketch = what >= 2};
                double began = now();
                if (what == 0)
                    copy(other, memory, count * 4), synchronize();
                else
                    tw_device_look(0, &t, 1, NULL, &found);
                double took = now() - began;
                best[what] = took < best[what] ? took : best[what];
            }
        printf(
            "%10llu f32: copy %8.1f us (%5.0f GB/s read), digest %8.1f us (%5.0f GB/s, %.2f of the "
            "copy's bytes read and written), with sketch %8.1f us, with statistics %8.1f us\n",
            (unsigned long long)count, best[0] * 1e6, (double)count * 4e-9 / best[0], best[1] * 1e6,
            (double)count * 4e-9 / best[1], best[0] / best[1] / 2, best[2] * 1e6, best[3] * 1e6);
        d->release(memory);
        d->release(other);
    }
    static struct tw_device_tensor many[150];
    static struct tw_device_found found[150];
    tw_cu_address memory;
    if (d->allocate(&memory, 150 * 65536 * 4) != 0)
        return;
    for (int i = 0; i < 150; i++)
        many[i] = (struct tw_device_tensor){
            .data = (const void *)(uintptr_t)(memory + (tw_cu_address)i * 65536 * 4),
            .count = 65536,
            .dtype = TWIN_F32,
            .want_sketch = true};
    double best = 1e9;
    for (int repeat = 0; repeat < 20; repeat++) {
        double began = now();
        tw_device_look(0, many, 150, NULL, found);
        best = now() - began < best ? now() - began : best;
    }
    printf("150 tensors of 65,536 f32, digests and sketches in one call: %.1f us\n", best * 1e6);
    d->release(memory);
}

int main(int argc, char **argv)
{
    const char *why = start();
    if (why) {
        printf("SKIPPED: %s\n", why);
        return failures ? 1 : 77;
    }
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        bench(tw_driver());
        return 0;
    }
    if (on_double) {
        printf("A DOUBLE of the driver: kernels run on the host\n");
        check_on_double(on_double);
    } else {
        for (uint64_t seed = 1; seed <= 10; seed++)
            check_many(tw_driver(), MANY, seed, 1);
        check_long(tw_driver(), 40000003);
        check_changes(tw_driver(), 500);
    }
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    tw_device_forget();
    CHECK(!tw_device_ready(0));
    printf("%llu tensors compared: %s\n", (unsigned long long)compared, failures ? "FAILED" : "ok");
    return failures ? 1 : 0;
}
