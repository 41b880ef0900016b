/* SPDX-License-Identifier: Apache-2.0 */
/* Batches that nobody waits for (<twin/cuda_fingerprint.h>), behind the double of the driver: whose
 * streams stand still until they are told to go on. */
#include <string.h>
#include <twin/cuda_fingerprint.h>
#include "look_test.h"

enum { BATCHES = 3, TENSORS = 40, ROW = 1000 };

/* Tensors of one batch, on the host, on the device, and how they are described. */
struct set {
    float host[TENSORS * ROW];
    tw_cu_address memory;
    struct twin_tensor on_host[TENSORS], there[TENSORS];
    int64_t shape[TENSORS][2], strides[TENSORS][2];
};

/* Rows of a matrix, transposed parts of it, and empty tensors. */
static void draw_set(struct set *s, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < TENSORS * ROW; i++)
        s->host[i] = (float)((double)(int64_t)next(&state) * 0x1p-62);
    CHECK(tw_driver()->allocate(&s->memory, sizeof s->host) == 0 &&
          to_device(s->memory, s->host, sizeof s->host) == 0);
    for (int i = 0; i < TENSORS; i++) {
        s->shape[i][0] = (int64_t)(next(&state) % 12);
        s->shape[i][1] = (int64_t)(next(&state) % 80);
        s->strides[i][0] = i % 2 ? 1 : 80;
        s->strides[i][1] = i % 2 ? 12 : 1;
        s->on_host[i] = (struct twin_tensor){.data = s->host + i * ROW,
                                             .dtype = TWIN_F32,
                                             .ndim = 2,
                                             .shape = s->shape[i],
                                             .strides = s->strides[i],
                                             .global_offset = next(&state) % 100};
        s->there[i] = s->on_host[i];
        s->there[i].data = (const void *)(uintptr_t)(s->memory + (tw_cu_address)i * ROW * 4);
    }
}

/* Do these results have the bits of the host? */
static bool right(const struct set *s, const struct twin_digest *digests,
                  const struct twin_stats *stats, const struct twin_sketch *sketches)
{
    bool good = true;
    for (int i = 0; i < TENSORS; i++) {
        struct twin_digest digest;
        struct twin_stats found;
        struct twin_sketch sketch = {.k = TWIN_SKETCH_DEFAULT};
        CHECK(twin_fingerprint(&s->on_host[i], &digest, &found, &sketch, NULL) == 0);
        good &= memcmp(&digest, &digests[i], sizeof digest) == 0 &&
                memcmp(&found, &stats[i], sizeof found) == 0 &&
                memcmp(sketch.bucket, sketches[i].bucket, sizeof(double) * sketch.k) == 0;
        compared++;
    }
    return good;
}

static struct set sets[BATCHES];
static struct twin_digest digests[TENSORS];
static struct twin_stats stats[TENSORS];
static struct twin_sketch sketches[TENSORS];

static int put(struct twin_cuda_ring *r, int set, void *stream, uint64_t *ticket,
               struct twin_error *err)
{
    return twin_cuda_fingerprint(r, sets[set].there, TENSORS, TWIN_CUDA_STATS | TWIN_CUDA_SKETCH,
                                 stream, ticket, err);
}

static int take(struct twin_cuda_ring *r, uint64_t ticket, int wait, struct twin_error *err)
{
    return twin_cuda_take(r, ticket, wait, digests, stats, sketches, err);
}

/* A full ring, taken in another order than it was filled; no call waits or allocates. */
static void check_order(const struct cuda_double *d, struct twin_cuda_ring *r)
{
    static int streams[BATCHES];
    struct twin_error err = TWIN_ERROR_INIT;
    uint64_t ticket[BATCHES], another;
    d->refuse(NULL, 0, 0); /* counts from here */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BATCHES; i++)
            CHECK(put(r, i, &streams[i], &ticket[i], &err) == 0);
        CHECK(put(r, 0, NULL, &another, &err) == TWIN_ELIMIT);
        CHECK(strcmp(err.message, "all 3 batches of the ring are under way or not taken yet") == 0);
        for (int i = 0; i < BATCHES; i++)
            CHECK(take(r, ticket[i], 0, &err) == 0);
        d->progress(&streams[1]); /* and what was put anywhere before */
        CHECK(take(r, ticket[2], 0, &err) == 0);
        CHECK(take(r, ticket[1], 0, &err) == 1 && right(&sets[1], digests, stats, sketches));
        CHECK(take(r, ticket[1], 0, &err) == TWIN_EINVAL);
        CHECK(take(r, ticket[0], 0, &err) == 1 && right(&sets[0], digests, stats, sketches));
        CHECK(d->calls("cuEventSynchronize") == (uint64_t)round);
        CHECK(take(r, ticket[2], 1, &err) == 1 && right(&sets[2], digests, stats, sketches));
        CHECK(take(r, ticket[2] + 1, 1, &err) == TWIN_EINVAL);
    }
    CHECK(d->calls("cuStreamSynchronize") == 0 && d->calls("cuMemAlloc_v2") == 0 &&
          d->calls("cuMemHostAlloc") == 0);
}

/* What cannot be: each has its error, and no work is put anywhere. */
static void check_arguments(const struct cuda_double *d, struct twin_cuda_ring *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_cuda_ring *none;
    struct twin_tensor bad = sets[0].there[0];
    uint64_t ticket;
    d->refuse(NULL, 0, 0);
    bad.ndim = TWIN_MAX_NDIM + 1;
    CHECK(twin_cuda_fingerprint(r, &bad, 1, 0, NULL, &ticket, &err) == TWIN_EINVAL);
    bad.ndim = 2;
    bad.data = NULL;
    bad.shape = (int64_t[]){2, 2};
    CHECK(twin_cuda_fingerprint(r, &bad, 1, 0, NULL, &ticket, &err) == TWIN_EINVAL);
    CHECK(twin_cuda_fingerprint(r, &bad, 0, 0, NULL, &ticket, &err) == TWIN_EINVAL);
    CHECK(twin_cuda_fingerprint(r, &bad, 257, 0, NULL, &ticket, &err) == TWIN_EINVAL);
    CHECK(twin_cuda_fingerprint(r, &bad, 1, 4, NULL, &ticket, &err) == TWIN_EINVAL);
    CHECK(twin_cuda_ring_open(&none, 0, &err) == TWIN_EINVAL && !none);
    CHECK(twin_cuda_ring_open(&none, TWIN_CUDA_RING_MOST + 1, &err) == TWIN_EINVAL && !none);
    d->capture(1);
    CHECK(put(r, 0, NULL, &ticket, &err) == TWIN_EUNSUPPORTED);
    d->capture(0);
    CHECK(d->calls("cuLaunchKernel") == 0 && d->calls("cuMemsetD8Async") == 0);
    set_context(NULL);
    CHECK(twin_cuda_ring_open(&none, 1, &err) == TWIN_EUNSUPPORTED && !none);
    set_context(context);
    twin_cuda_ring_close(NULL);
}

/* Each call that can fail, once: the batch is lost, the ring is not, and what was put before is
 * right. */
static void check_failures(const struct cuda_double *d)
{
    static const char *const calls[] = {"cuStreamIsCapturing",  "cuMemsetD8Async", "cuLaunchKernel",
                                        "cuMemcpyDtoHAsync_v2", "cuEventRecord",   "cuEventQuery"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_cuda_ring *r;
        uint64_t before, ticket;
        CHECK(twin_cuda_ring_open(&r, 2, &err) == 0);
        CHECK(put(r, 0, NULL, &before, &err) == 0);
        d->refuse(calls[i], 1, 700);
        const bool query = strcmp(calls[i], "cuEventQuery") == 0;
        const int rc = query ? take(r, before, 0, &err) : put(r, 1, NULL, &ticket, &err);
        CHECK(rc == TWIN_EIO && strstr(err.message, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
        d->refuse(NULL, 0, 0);
        if (!query)
            CHECK(take(r, before, 1, &err) == 1 && right(&sets[0], digests, stats, sketches));
        twin_cuda_ring_close(r); /* what is under way of a lost batch is left alone */
        d->progress(NULL);
    }
}

/* Without memory there is no ring, and nothing is left of it. */
static void check_memory(const struct cuda_double *d)
{
    static const char *const calls[] = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuEventCreate"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int after = 1; after < 6; after++) {
            struct twin_error err = TWIN_ERROR_INIT;
            struct twin_cuda_ring *r;
            d->refuse(calls[i], after, 2);
            const int rc = twin_cuda_ring_open(&r, 2, &err);
            CHECK(rc == (after <= (i ? 2 : 4) ? TWIN_ENOMEM : 0) && (rc == 0) == (r != NULL));
            const uint64_t made = d->calls("cuMemAlloc_v2") - (rc && i == 0);
            twin_cuda_ring_close(r);
            CHECK(d->calls("cuMemFree_v2") == made);
        }
    d->refuse(NULL, 0, 0);
}

void check_ring(const struct cuda_double *d)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_cuda_ring *r;
    for (int i = 0; i < BATCHES; i++)
        draw_set(&sets[i], (uint64_t)i + 5);
    CHECK(twin_cuda_ring_open(&r, BATCHES, &err) == 0);
    check_order(d, r);
    check_arguments(d, r);
    twin_cuda_ring_close(r);
    check_failures(d);
    check_memory(d);
    for (int i = 0; i < BATCHES; i++)
        tw_driver()->release(sets[i].memory);
}
