/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of all kinds on a GPU, or on its double, against the host's fingerprints. */
#include <stdlib.h>
#include <string.h>
#include "look_test.h"

int failures, unequal;
uint64_t compared;
bool quiet;
int (*to_device)(tw_cu_address, const void *, size_t);

uint64_t next(uint64_t *s)
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
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

static bool same(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n) == 0;
}

static bool same_results(const struct tw_device_tensor *t, const struct tw_device_found *f,
                         const struct twin_digest *digest, const struct twin_stats *stats,
                         const struct twin_sketch *sketch)
{
    bool good = same(digest, &f->digest, sizeof *digest);
    if (t->want_stats)
        good &= same(stats, &f->stats, sizeof *stats);
    if (t->want_sketch)
        good &= sketch->skipped == f->sketch.skipped &&
                same(sketch->bucket, f->sketch.bucket, sizeof(double) * sketch->k);
    return good;
}

/* host: where the tensor's first element lies on the host. */
static void compare(const struct tw_device_tensor *t, const struct tw_device_found *f,
                    const void *host)
{
    struct twin_digest digest;
    struct twin_stats stats;
    struct twin_sketch sketch = {.k = TWIN_SKETCH_DEFAULT};
    const int64_t count = (int64_t)t->count;
    struct twin_tensor view = {.data = host,
                               .dtype = t->dtype,
                               .ndim = t->strides ? t->ndim : 1,
                               .shape = t->strides ? t->shape : &count,
                               .strides = t->strides,
                               .global_offset = t->global_offset};
    CHECK(twin_fingerprint(&view, &digest, &stats, t->dtype == TWIN_BYTES ? NULL : &sketch, NULL) ==
          0);
    compared++;
    if (same_results(t, f, &digest, &stats, &sketch))
        return;
    unequal++;
    if (quiet || failures++ >= 10)
        return;
    fprintf(stderr,
            "%s, %lld elements from %llu, %u dimensions: other bits than on the host (digest %s)\n"
            "   sum %a and %a, sumsq %a and %a, bucket 0 %a and %a\n"
            "   min %a and %a, max %a and %a, nan %llu and %llu, zeros %llu and %llu\n",
            twin_dtype_name(t->dtype), (long long)count, (unsigned long long)t->global_offset,
            t->strides ? t->ndim : 0,
            same(&digest, &f->digest, sizeof digest) ? "equal" : "unequal", stats.sum, f->stats.sum,
            stats.sumsq, f->stats.sumsq, sketch.bucket[0], f->sketch.bucket[0], stats.min,
            f->stats.min, stats.max, f->stats.max, (unsigned long long)stats.nan,
            (unsigned long long)f->stats.nan, (unsigned long long)stats.zeros,
            (unsigned long long)f->stats.zeros);
}

/* ---- layouts */

/* A drawn layout: sizes, strides, and the elements that it reaches before and behind its first. */
struct layout {
    int64_t shape[TWIN_MAX_NDIM], strides[TWIN_MAX_NDIM], low, high;
    uint32_t ndim;
    uint64_t count;
};

/* Dimensions in any order in memory, with gaps, backwards, or all at one place (stride 0). At most
 * some thousand elements; now and then 64 dimensions, most of one element. */
static void draw_layout(struct layout *l, uint64_t *state)
{
    const bool many = next(state) % 16 == 0;
    int64_t step = 1 + (int64_t)(next(state) % 3);
    uint32_t order[TWIN_MAX_NDIM];
    *l = (struct layout){.ndim = many ? TWIN_MAX_NDIM : 1 + (uint32_t)(next(state) % 5),
                         .count = 1};
    for (uint32_t i = 0; i < l->ndim; i++) {
        const uint32_t at = (uint32_t)(next(state) % (i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < l->ndim; i++) {
        const uint32_t d = order[i];
        const uint64_t r = next(state);
        int64_t size = many ? 1 + (r % 8 == 0) : (int64_t)(r % 24);
        if (size == 0 && r >> 8 & 7) /* empty ones are rare */
            size = 1;
        if (l->count * (uint64_t)size > 6000)
            size = 1;
        l->shape[d] = size;
        l->strides[d] = r >> 16 & 7 ? step : 0;
        if (r >> 20 & 1)
            l->strides[d] = -l->strides[d];
        l->count *= (uint64_t)size;
        if (size > 1)
            *(l->strides[d] < 0 ? &l->low : &l->high) += l->strides[d] * (size - 1);
        step *= (size ? size : 1);
        if (r >> 24 & 1)
            step += (int64_t)(r >> 25 & 3);
    }
}

static size_t part_bytes(enum twin_dtype dtype)
{
    switch ((int)dtype) {
    case TWIN_C64: return 4;
    case TWIN_C128: return 8;
    default: return twin_dtype_size(dtype);
    }
}

void check_many(const struct tw_driver *d, size_t n, uint64_t seed, uint64_t large)
{
    static __thread struct layout layouts[MANY];
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
    for (size_t i = 0; i < n; i++) {
        struct tw_device_tensor *t = &tensors[i];
        const enum twin_dtype dtype = (enum twin_dtype)(i % TWIN_DTYPE_COUNT);
        const size_t size = twin_dtype_size(dtype);
        uint64_t r = next(&state);
        *t = (struct tw_device_tensor){.count = lengths[next(&state) % large ? r % 15 : r % 18],
                                       .dtype = dtype,
                                       .want_stats = r >> 8 & 1,
                                       .want_sketch = r >> 9 & 1 && dtype != TWIN_BYTES};
        t->global_offset = 0;
        if (r >> 10 & 1) /* anywhere, or on a block of 16 bytes beyond 2^32 */
            t->global_offset = r >> 11 & 1 ? next(&state) % 5000 : next(&state) % (1ull << 38) * 16;
        used = (used + 511) / 512 * 512 + (r >> 12 & 1 ? size * (r >> 13 & 31) : 0);
        at[i] = used;
        size_t bytes = t->count * size;
        if (r >> 24 & 1) {
            struct layout *l = &layouts[i];
            draw_layout(l, &state);
            t->shape = l->shape;
            t->strides = l->strides;
            t->ndim = l->ndim;
            t->count = l->count;
            at[i] += (size_t)-l->low * size;
            bytes = (size_t)(l->high - l->low + 1) * size;
        }
        t->data = (const void *)(uintptr_t)(memory + at[i]);
        CHECK(used + bytes <= room);
        fill(host + used, bytes, part_bytes(dtype), (int)(r >> 20 & 3), &state);
        used += bytes;
    }
    CHECK(to_device(memory, host, used) == 0);
    CHECK(tw_device_look(0, tensors, n, NULL, found));
    for (size_t i = 0; i < n; i++)
        compare(&tensors[i], &found[i], host + at[i]);
    d->release(memory);
    free(host);
}

void check_long(const struct tw_driver *d, uint64_t count)
{
    enum { N = 4 };
    const uint64_t first[N] = {0, 4096 * 5 + 17, 1, 77};
    /* the last one: every second element, from the end */
    const int64_t shape[1] = {(int64_t)count / 2}, strides[1] = {-2};
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
    t[3].data = (const float *)t[3].data + count - 1;
    t[3].count = count / 2;
    t[3].shape = shape;
    t[3].strides = strides;
    t[3].ndim = 1;
    CHECK(tw_device_look(0, t, N, NULL, found));
    for (int i = 0; i < N; i++)
        compare(&t[i], &found[i], i == 3 ? host + count - 1 : host);
    d->release(memory);
    free(host);
}

void check_changes(const struct tw_driver *d, int rounds)
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
    CHECK(to_device(memory, host, sizeof host) == 0 && tw_device_look(0, &t, 1, NULL, &was));
    for (int i = 0; i < rounds; i++) {
        float mutant[COUNT];
        memcpy(mutant, host, sizeof host);
        const size_t at = next(&state) % sizeof mutant;
        ((unsigned char *)mutant)[at] ^= (unsigned char)(1u << next(&state) % 8);
        CHECK(to_device(memory, mutant, sizeof mutant) == 0);
        CHECK(tw_device_look(0, &t, 1, NULL, &is));
        CHECK(!same(&was.digest, &is.digest, sizeof was.digest));
    }
    d->release(memory);
}
