/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fingerprints made on a GPU against those that the host makes of the same bytes: digest,
 * statistics and sketch, bit for bit. `look_test bench` prints their speed beside that of a copy.
 * Exit 77 (skipped) without a GPU or without kernels.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "agents/cuda/device.h"
#include "agents/cuda/driver.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                     \
        }                                                                   \
    } while (0)

static int failures;
static tw_cu_context context;
static int (*set_context)(tw_cu_context);
static int (*to_device)(tw_cu_address, const void *, size_t);
static int (*copy)(tw_cu_address, tw_cu_address, size_t);
static int (*synchronize)(void);

static uint64_t next(uint64_t *s)
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static const char *start(void)
{
    int (*init)(unsigned), (*device_get)(int *, int), (*retain)(tw_cu_context *, int);
    int device, count = 0, (*device_count)(int *);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return "no NVIDIA driver";
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
    if (tw_device_ready())
        CHECK(!"ready without a context");
    if (retain(&context, device) != 0 || set_context(context) != 0)
        return "no context on the GPU";
    return tw_device_ready() ? NULL : "the kernels cannot be loaded (built without nvcc?)";
}

/* Bytes of many kinds: any bits; small floats; zeros of both signs; one NaN or infinity among
 * finite ones. */
static void fill(unsigned char *p, size_t bytes, size_t size, int how, uint64_t *state)
{
    for (size_t i = 0; i < bytes; i += size) {
        uint64_t bits = next(state);
        for (size_t j = 0; j < size; j++)
            p[i + j] = (unsigned char)(bits >> 8 * (j % 8));
        if (how == 1 || how == 3) /* finite, of like size */
            p[i + size - 1] = (unsigned char)((p[i + size - 1] & 0x83) | 0x38);
        if (how == 2)
            memset(p + i, 0, size - 1), p[i + size - 1] &= 0x80;
    }
    if (how == 3 && bytes >= size) {
        unsigned char *at = p + next(state) % (bytes / size) * size;
        memset(at, 0xFF, size);
        at[size - 1] = next(state) & 1 ? 0x7F : 0xFF;
    }
}

static int same(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n) == 0;
}

static void compare(const struct tw_device_tensor *t, const struct tw_device_found *f,
                    const void *host)
{
    struct twin_digest digest;
    struct twin_stats stats;
    struct twin_sketch sketch = {.k = TWIN_SKETCH_DEFAULT};
    const int64_t count = (int64_t)t->count;
    struct twin_tensor view = {.data = host,
                               .dtype = t->dtype,
                               .ndim = 1,
                               .shape = &count,
                               .global_offset = t->global_offset};
    CHECK(twin_fingerprint(&view, &digest, &stats, t->dtype == TWIN_BYTES ? NULL : &sketch, NULL) ==
          0);
    int good = same(&digest, &f->digest, sizeof digest);
    if (t->want_stats)
        good &= same(&stats, &f->stats, sizeof stats);
    if (t->want_sketch)
        good &= sketch.skipped == f->sketch.skipped &&
                same(sketch.bucket, f->sketch.bucket, sizeof(double) * sketch.k);
    if (!good && failures++ < 10) {
        fprintf(stderr,
                "%s, %lld elements from %llu: other bits than on the host (digest %s, sum %a and "
                "%a, bucket 0 %a and %a)\n",
                twin_dtype_name(t->dtype), (long long)count, (unsigned long long)t->global_offset,
                same(&digest, &f->digest, sizeof digest) ? "equal" : "unequal", stats.sum,
                f->stats.sum, sketch.bucket[0], f->sketch.bucket[0]);
        fprintf(stderr,
                "   min %a and %a, max %a and %a, sumsq %a and %a, nan %llu and %llu, zeros %llu "
                "and %llu\n",
                stats.min, f->stats.min, stats.max, f->stats.max, stats.sumsq, f->stats.sumsq,
                (unsigned long long)stats.nan, (unsigned long long)f->stats.nan,
                (unsigned long long)stats.zeros, (unsigned long long)f->stats.zeros);
    }
}

enum { MANY = 700 }; /* more than fit into one launch, and than are waited for at once */

/* Many tensors in one call: every type, length, offset, alignment and wish. */
static void check_many(const struct tw_driver *d, uint64_t seed)
{
    static __thread struct tw_device_tensor tensors[MANY];
    static __thread struct tw_device_found found[MANY];
    static __thread size_t at[MANY];
    static const uint64_t lengths[] = {0,   1,   2,   3,    7,    15,   16,    17,    100,
                                       511, 512, 513, 4095, 4096, 4097, 10000, 66000, 70001};
    const size_t room = (size_t)96 << 20;
    uint64_t state = seed;
    unsigned char *host = malloc(room);
    tw_cu_address memory;
    CHECK(host && d->allocate(&memory, room) == 0);
    size_t used = 0;
    for (size_t i = 0; i < MANY; i++) {
        struct tw_device_tensor *t = &tensors[i];
        const enum twin_dtype dtype = (enum twin_dtype)(i % TWIN_DTYPE_COUNT);
        const size_t size = twin_dtype_size(dtype);
        uint64_t r = next(&state);
        *t = (struct tw_device_tensor){.count = lengths[r % 18],
                                       .dtype = dtype,
                                       .want_stats = r >> 8 & 1,
                                       .want_sketch = r >> 9 & 1 && dtype != TWIN_BYTES};
        t->global_offset = r >> 10 & 1   ? 0
                           : r >> 11 & 1 ? next(&state) % 5000
                                         : next(&state) % 100000 * 16;
        used = (used + 511) / 512 * 512 + (r >> 12 & 1 ? size * (r >> 13 & 31) : 0);
        at[i] = used;
        t->data = (const void *)(uintptr_t)(memory + used);
        CHECK(used + t->count * size <= room);
        const size_t part = dtype == TWIN_C64 ? 4 : dtype == TWIN_C128 ? 8 : size;
        fill(host + used, t->count * size, part, (int)(r >> 20 & 3), &state);
        used += t->count * size;
    }
    CHECK(to_device(memory, host, used) == 0);
    CHECK(tw_device_look(tensors, MANY, NULL, found));
    for (size_t i = 0; i < MANY; i++)
        compare(&tensors[i], &found[i], host + at[i]);
    d->release(memory);
    free(host);
}

/* Tensors longer than the scratch memory, some of them: sums go on from run to run. */
static void check_long(const struct tw_driver *d)
{
    enum { N = 3 };
    const uint64_t count = 40000003, first[N] = {0, 4096 * 5 + 17, 1};
    uint64_t state = 99;
    float *host = malloc(count * 4);
    tw_cu_address memory;
    struct tw_device_tensor t[N];
    static struct tw_device_found found[N];
    CHECK(host && d->allocate(&memory, count * 4) == 0);
    for (uint64_t i = 0; i < count; i++)
        host[i] = (float)((double)(int64_t)next(&state) * 0x1p-62);
    CHECK(to_device(memory, host, count * 4) == 0);
    for (int i = 0; i < N; i++)
        t[i] = (struct tw_device_tensor){.data = (const void *)(uintptr_t)memory,
                                         .count = count,
                                         .global_offset = first[i],
                                         .dtype = TWIN_F32,
                                         .want_stats = i != 1,
                                         .want_sketch = true};
    CHECK(tw_device_look(t, N, NULL, found));
    for (int i = 0; i < N; i++)
        compare(&t[i], &found[i], host);
    d->release(memory);
    free(host);
}

static void *worker(void *p)
{
    set_context(context);
    for (uint64_t i = 0; i < 3; i++)
        check_many(tw_driver(), (uint64_t)(uintptr_t)p * 100 + i);
    return NULL;
}

/* Mutants: one bit, one place, one sign. */
static void check_mutants(const struct tw_driver *d)
{
    enum { COUNT = 5000 };
    float host[COUNT];
    tw_cu_address memory;
    struct tw_device_found was, is;
    uint64_t state = 7;
    CHECK(d->allocate(&memory, sizeof host) == 0);
    fill((unsigned char *)host, sizeof host, 4, 1, &state);
    struct tw_device_tensor t = {
        .data = (const void *)(uintptr_t)memory, .count = COUNT, .dtype = TWIN_F32};
    CHECK(to_device(memory, host, sizeof host) == 0 && tw_device_look(&t, 1, NULL, &was));
    for (int i = 0; i < 500; i++) {
        float mutant[COUNT];
        memcpy(mutant, host, sizeof host);
        size_t at = next(&state) % COUNT;
        ((unsigned char *)mutant)[at * 4 + next(&state) % 4] ^= (unsigned char)(1u << next(&state) %
                                                                                          8);
        CHECK(to_device(memory, mutant, sizeof mutant) == 0 && tw_device_look(&t, 1, NULL, &is));
        CHECK(!same(&was.digest, &is.digest, sizeof was.digest));
    }
    d->release(memory);
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
                    tw_device_look(&t, 1, NULL, &found);
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
        tw_device_look(many, 150, NULL, found);
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
    for (uint64_t seed = 1; seed <= 10; seed++)
        check_many(tw_driver(), seed);
    check_long(tw_driver());
    check_mutants(tw_driver());
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    tw_device_forget();
    CHECK(!tw_device_ready());
    printf("%s\n", failures ? "FAILED" : "ok");
    return failures ? 1 : 0;
}
