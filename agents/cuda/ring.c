/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <twin/cuda_fingerprint.h>: batches that nobody waits for. Each has memory of its own and an event
 * behind its last work; a batch is free when its results were taken. A batch whose calls failed is
 * never used again: what was launched may still write to its memory.
 */
#include <twin/cuda_fingerprint.h>
#include "batch.h"
#include "src/base/base.h"
#include "src/fingerprint/axes.h"

_Static_assert(TW_BATCH_MOST == TWIN_CUDA_BATCH_MOST, "the public size of a batch");

/* LOST: see above. */
enum slot_state { FREE, UNDER_WAY, LOST };

struct slot {
    struct tw_batch_memory memory;
    tw_cu_event done;
    enum slot_state state;
    uint64_t ticket;
    size_t n;
    struct tw_device_tensor tensors[TW_BATCH_MOST]; /* without their shapes */
};

struct twin_cuda_ring {
    const struct tw_driver *driver;
    const struct tw_look_kernels *kernels;
    uint64_t tickets; /* given so far */
    uint32_t slots;
    struct slot slot[];
};

static int refused(const struct twin_cuda_ring *r, const char *function, int code,
                   struct twin_error *err)
{
    const char *name = NULL;
    if (r->driver->error_name(code, &name) != 0 || !name)
        name = "an unknown error";
    return twin_error_set(err, TWIN_EIO, "fingerprints on the GPU: %s failed with %s (%d)",
                          function, name, code);
}

int twin_cuda_ring_open(struct twin_cuda_ring **ring, uint32_t batches, struct twin_error *err)
{
    const struct tw_driver *d = tw_driver();
    const struct tw_look_kernels *kernels = tw_device_kernels();
    *ring = NULL;
    if (batches == 0 || batches > TWIN_CUDA_RING_MOST)
        return twin_error_set(err, TWIN_EINVAL, "a ring of %u batches; expected 1 to %d", batches,
                              TWIN_CUDA_RING_MOST);
    if (!d)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "fingerprints on the GPU: expected a libcuda.so.1 that the program "
                              "has loaded, found %s%s",
                              tw_driver_lacks() ? "one without " : "none",
                              tw_driver_lacks() ? tw_driver_lacks() : "");
    if (!kernels)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "fingerprints on the GPU: expected a CUDA context that is current "
                              "and takes the kernels, found none; cuCtxSetCurrent or "
                              "cudaSetDevice makes one current, and a build without nvcc has no "
                              "kernels");
    struct twin_cuda_ring *r = tw_calloc(1, sizeof *r + batches * sizeof *r->slot);
    if (!r)
        return twin_error_set(err, TWIN_ENOMEM, "out of memory for a ring of %u batches", batches);
    r->driver = d;
    r->kernels = kernels;
    for (; r->slots < batches; r->slots++) {
        struct slot *s = &r->slot[r->slots];
        if (!tw_batch_allocate(d, &s->memory))
            break;
        if (d->event_create(&s->done, TW_CU_EVENT_WITHOUT_TIME) != 0) {
            tw_batch_release(d, &s->memory);
            break;
        }
    }
    if (r->slots < batches) {
        const uint32_t made = r->slots;
        twin_cuda_ring_close(r);
        return twin_error_set(err, TWIN_ENOMEM,
                              "CUDA has memory for %u of %u batches, of 4 MiB each", made, batches);
    }
    *ring = r;
    return 0;
}

/* What the kernels need to know of a tensor. */
static int accept_tensor(const struct twin_tensor *t, unsigned want, struct tw_device_tensor *out,
                         struct twin_error *err)
{
    uint64_t count;
    const int rc = tw_check_tensor(t, &count, err);
    if (rc)
        return rc;
    *out = (struct tw_device_tensor){.data = t->data,
                                     .count = count,
                                     .global_offset = t->global_offset,
                                     .shape = t->shape,
                                     .strides = t->strides,
                                     .ndim = t->ndim,
                                     .dtype = t->dtype,
                                     .want_stats = want & TWIN_CUDA_STATS,
                                     .want_sketch = want & TWIN_CUDA_SKETCH &&
                                                    t->dtype != TWIN_BYTES};
    return 0;
}

static struct slot *free_slot(struct twin_cuda_ring *r)
{
    for (uint32_t i = 0; i < r->slots; i++)
        if (r->slot[i].state == FREE)
            return &r->slot[i];
    return NULL;
}

int twin_cuda_fingerprint(struct twin_cuda_ring *ring, const struct twin_tensor *tensors, size_t n,
                          unsigned want, void *stream, uint64_t *ticket, struct twin_error *err)
{
    const struct tw_driver *d = ring->driver;
    struct slot *s = free_slot(ring);
    int capturing = TW_CU_CAPTURE_NONE;
    if (n == 0 || n > TW_BATCH_MOST || want & ~(unsigned)(TWIN_CUDA_STATS | TWIN_CUDA_SKETCH))
        return twin_error_set(err, TWIN_EINVAL,
                              "a batch of %zu tensors, wanted 0x%x; expected 1 to %d, and any of "
                              "0x%x",
                              n, want, TW_BATCH_MOST, TWIN_CUDA_STATS | TWIN_CUDA_SKETCH);
    if (!s)
        return twin_error_set(err, TWIN_ELIMIT,
                              "all %u batches of the ring are under way or not taken yet",
                              ring->slots);
    for (size_t i = 0; i < n; i++) {
        const int rc = accept_tensor(&tensors[i], want, &s->tensors[i], err);
        if (rc)
            return rc;
    }
    int code = d->is_capturing(stream, &capturing);
    if (code)
        return refused(ring, "cuStreamIsCapturing", code, err);
    if (capturing != TW_CU_CAPTURE_NONE)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "the stream is being captured into a graph: its tensors have no "
                              "values yet");
    struct tw_batch w = {
        .driver = d, .kernels = ring->kernels, .memory = &s->memory, .stream = stream};
    tw_batch_enqueue(&w, s->tensors, n);
    if (!w.failed && (w.code = d->event_record(s->done, stream)) != 0)
        w.failed = "cuEventRecord";
    s->state = w.failed ? LOST : UNDER_WAY;
    if (w.failed)
        return refused(ring, w.failed, w.code, err);
    for (size_t i = 0; i < n; i++) /* they were the caller's */
        s->tensors[i].shape = s->tensors[i].strides = NULL;
    s->n = n;
    s->ticket = *ticket = ++ring->tickets;
    return 0;
}

static struct slot *slot_of(struct twin_cuda_ring *r, uint64_t ticket)
{
    for (uint32_t i = 0; i < r->slots; i++)
        if (r->slot[i].state == UNDER_WAY && r->slot[i].ticket == ticket)
            return &r->slot[i];
    return NULL;
}

int twin_cuda_take(struct twin_cuda_ring *ring, uint64_t ticket, int wait,
                   struct twin_digest *digests, struct twin_stats *stats,
                   struct twin_sketch *sketches, struct twin_error *err)
{
    struct slot *s = slot_of(ring, ticket);
    if (!s)
        return twin_error_set(err, TWIN_EINVAL,
                              "ticket %llu names no batch that is under way (%llu were given)",
                              (unsigned long long)ticket, (unsigned long long)ring->tickets);
    const int code = wait ? ring->driver->event_wait(s->done) : ring->driver->event_query(s->done);
    if (!wait && code == TW_CU_NOT_READY)
        return 0;
    if (code) {
        s->state = LOST;
        return refused(ring, wait ? "cuEventSynchronize" : "cuEventQuery", code, err);
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct tw_device_tensor *t = &s->tensors[i];
        struct tw_device_found found;
        tw_batch_result(&s->memory, i, t, &found);
        if (digests)
            digests[i] = found.digest;
        if (stats && t->want_stats)
            stats[i] = found.stats;
        if (sketches && t->want_sketch)
            sketches[i] = found.sketch;
    }
    s->state = FREE;
    return 1;
}

/* What a lost batch has is left to the context: some of its work may still be under way. */
void twin_cuda_ring_close(struct twin_cuda_ring *ring)
{
    if (!ring)
        return;
    for (uint32_t i = 0; i < ring->slots; i++) {
        struct slot *s = &ring->slot[i];
        if (s->state == UNDER_WAY && ring->driver->event_wait(s->done) != 0)
            s->state = LOST;
        if (s->state == LOST)
            continue;
        ring->driver->event_destroy(s->done);
        tw_batch_release(ring->driver, &s->memory);
    }
    tw_free(ring);
}
