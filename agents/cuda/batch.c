/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns tensors into launches of the kernels of look.cu, and what these found into fingerprints.
 * Nothing here allocates, but for the memory of a batch, or waits, but for tw_batch_wait().
 */
#include "batch.h"

#include <string.h>

/* Rows of 16 million elements, chunks of a billion; longer tensors come in runs. Tests have less.
 */
#ifndef TW_DEVICE_SCRATCH
#define TW_DEVICE_SCRATCH (4 << 20)
#endif
enum { SCRATCH_BYTES = TW_DEVICE_SCRATCH };

int tw_relax_capture(const struct tw_driver *d)
{
    int mode = TW_CU_CAPTURE_RELAXED;
    return d->exchange_capture_mode(&mode) == 0 ? mode : -1;
}

void tw_restore_capture(const struct tw_driver *d, int mode)
{
    if (mode >= 0)
        d->exchange_capture_mode(&mode);
}

bool tw_batch_allocate(const struct tw_driver *d, struct tw_batch_memory *m)
{
    int mode = tw_relax_capture(d);
    void *host = NULL;
    bool good = d->allocate(&m->scratch, SCRATCH_BYTES) == 0;
    if (good && d->allocate(&m->seen, TW_BATCH_MOST * sizeof(struct tw_seen)) != 0) {
        d->release(m->scratch);
        good = false;
    }
    if (good && d->allocate_host(&host, TW_BATCH_MOST * sizeof(struct tw_seen), 0) != 0) {
        d->release(m->scratch);
        d->release(m->seen);
        good = false;
    }
    tw_restore_capture(d, mode);
    m->host = host;
    return good;
}

void tw_batch_release(const struct tw_driver *d, struct tw_batch_memory *m)
{
    d->release(m->scratch);
    d->release(m->seen);
    d->release_host(m->host);
}

/* ---- launches */

/* What the driver gave. Its first refusal is the last call of ours. */
static void expect_success(struct tw_batch *w, const char *function, int code)
{
    if (code && !w->failed) {
        w->failed = function;
        w->code = code;
    }
}

/* Puts a kernel on the stream, unless something has failed before. */
static void launch_kernel(struct tw_batch *w, tw_cu_function kernel, uint64_t blocks,
                          unsigned threads, void **arguments)
{
    if (w->failed || !blocks)
        return;
    int code = 1; /* CUDA_ERROR_INVALID_VALUE: 2^47 bytes, which no GPU has */
    if (blocks <= INT32_MAX)
        code = w->driver->launch(kernel, (unsigned)blocks, 1, 1, threads, 1, 1, 0, w->stream,
                                 arguments, NULL);
    expect_success(w, "cuLaunchKernel", code);
}

/* What a launch is about, filled one tensor after another. */
struct filling {
    /* `add`: what adds up the places; NULL when the kernel needs no scratch memory */
    tw_cu_function kernel, add;
    uint32_t length, add_threads; /* of a place, in elements */
    uint64_t room;                /* how many places the scratch memory has */
    struct tw_looks looks;
    uint64_t blocks, places;
};

/* Launches what has been filled in, and empties it. The second kernel adds up what the first has
 * left in the scratch memory, one thread block for each tensor. */
static void launch_filled(struct tw_batch *w, struct filling *f)
{
    void *plain[] = {&f->looks, &w->memory->seen};
    void *with_scratch[] = {&f->looks, &w->memory->scratch, &w->memory->seen};
    if (f->looks.n == 0)
        return;
    launch_kernel(w, f->kernel, f->blocks, TW_LOOK_THREADS, f->add ? with_scratch : plain);
    if (f->add)
        launch_kernel(w, f->add, f->looks.n, f->add_threads, with_scratch);
    f->looks.n = f->looks.axes = 0;
    f->blocks = f->places = 0;
}

/* How many blocks of `by` hold n. */
static uint64_t blocks_for(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

/* A tensor for the kernels, and its dimensions. */
struct described {
    struct tw_look look;
    uint32_t axes;
    struct tw_axis axis[TWIN_MAX_NDIM];
};

/* Is there room for one more in the launch? */
static bool fits(const struct filling *f, const struct described *d)
{
    return f->looks.n < TW_LOOK_MOST && f->looks.axes + d->axes <= TW_LOOK_AXES;
}

/* Puts a run into the launch, whose dimensions are those of the tensor that it is a run of. */
static void put_run(struct filling *f, const struct described *d, struct tw_look run)
{
    run.block = (uint32_t)f->blocks;
    run.place = (uint32_t)f->places;
    run.axis = (uint8_t)f->looks.axes;
    run.axes = (uint8_t)d->axes;
    memcpy(f->looks.axis + f->looks.axes, d->axis, d->axes * sizeof *d->axis);
    f->looks.axes += d->axes;
    f->looks.look[f->looks.n++] = run;
}

/* Adds a tensor to the launch of digests. A tensor that does not begin on 16 bytes has one unit
 * more. */
static void add_digest(struct tw_batch *w, struct filling *f, const struct described *d)
{
    const struct tw_look *look = &d->look;
    const uint64_t from = look->first * look->width;
    const uint64_t units = blocks_for(from % 16 + look->count * look->width, 16);
    if (!fits(f, d))
        launch_filled(w, f);
    put_run(f, d, *look);
    f->blocks += blocks_for(units, TW_LOOK_UNITS);
}

/* Rows or chunks, in runs that fit the scratch memory. A run ends where a place ends: sums go on
 * where they were. */
static void add_places(struct tw_batch *w, struct filling *f, const struct described *d)
{
    struct tw_look rest = d->look;
    while (rest.count && !w->failed) {
        const uint64_t first = rest.first / f->length, room = f->room - f->places;
        uint64_t wanted = (rest.first + rest.count - 1) / f->length - first + 1;
        if (!fits(f, d) || (room < wanted && f->places)) {
            launch_filled(w, f);
            continue;
        }
        struct tw_look run = rest;
        if (wanted > room) {
            wanted = room;
            run.count = (first + wanted) * f->length - rest.first;
        }
        put_run(f, d, run);
        f->blocks += blocks_for(wanted, TW_LOOK_AT_ONCE);
        f->places += wanted;
        if (!d->axes) { /* of a strided tensor the kernels need its beginning */
            rest.data = (const char *)rest.data + run.count * rest.width;
            rest.origin += run.count;
        }
        rest.first += run.count;
        rest.count -= run.count;
    }
}

/* ---- results */

static double f64_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static const uint64_t NAN_BITS = 0x7FF8000000000000u; /* one NaN on every machine */

/* The number with this key; see tw_look_key. */
static uint64_t bits_of_key(uint64_t key)
{
    return key >> 63 ? key & ~((uint64_t)1 << 63) : ~key;
}

/* The bits of x, all NaN as one. */
static uint64_t one_nan(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & ~((uint64_t)1 << 63)) > 0x7FF0000000000000u ? NAN_BITS : bits;
}

/* A result of the device as the host's structures. Keys are 0 where there was no number. */
static void understand_result(const struct tw_seen *s, const struct tw_device_tensor *t,
                              struct tw_device_found *f)
{
    const bool complex = t->dtype == TWIN_C64 || t->dtype == TWIN_C128;
    f->digest = (struct twin_digest){s->a, s->b};
    if (t->want_stats && t->dtype == TWIN_BYTES) {
        f->stats = (struct twin_stats){.count = t->count};
    } else if (t->want_stats) {
        struct twin_stats *o = &f->stats;
        *o = (struct twin_stats){.count = complex ? 2 * t->count : t->count,
                                 .nan = s->nan,
                                 .pos_inf = s->pos_inf,
                                 .neg_inf = s->neg_inf,
                                 .zeros = s->zeros};
        const uint64_t high = s->max_key ? bits_of_key(s->max_key - 1) : NAN_BITS;
        const uint64_t low = s->min_key ? bits_of_key(~(s->min_key - 1)) : NAN_BITS;
        const uint64_t sign = (uint64_t)1 << 63;
        o->max = f64_of(high);
        o->min = f64_of(low);
        o->absmax = f64_of((low & ~sign) > (high & ~sign) ? low & ~sign : high & ~sign);
        o->sum = f64_of(one_nan(s->sum));
        o->sumsq = s->sumsq;
    }
    if (t->want_sketch) {
        f->sketch.k = TWIN_SKETCH_DEFAULT;
        f->sketch.skipped = s->skipped;
        for (int i = 0; i < TWIN_SKETCH_MAX; i++)
            f->sketch.bucket[i] = i < TW_LOOK_LANES ? f64_of(one_nan(s->bucket[i])) : 0;
    }
}

/* The type of the parts of complex numbers, else the type itself. */
static enum twin_dtype part_of(enum twin_dtype dtype)
{
    if (dtype == TWIN_C64)
        return TWIN_F32;
    return dtype == TWIN_C128 ? TWIN_F64 : dtype;
}

/* A tensor for the kernels: complex elements become two. */
static struct described describe(const struct tw_device_tensor *t, size_t result)
{
    const bool complex = t->dtype == TWIN_C64 || t->dtype == TWIN_C128;
    const enum twin_dtype part = part_of(t->dtype);
    struct described d = {.look = {.data = t->data,
                                   .first = t->global_offset << complex,
                                   .count = t->count << complex,
                                   .origin = t->global_offset << complex,
                                   .result = (uint16_t)result,
                                   .dtype = (uint8_t)part,
                                   .width = (uint8_t)twin_dtype_size(part)}};
    const struct twin_tensor view = {.ndim = t->ndim, .shape = t->shape, .strides = t->strides};
    if (!t->strides || t->count <= 1 || tw_contiguous(&view))
        return d;
    d.axes = tw_merge_axes(&view, d.axis);
    if (complex) { /* the two parts lie side by side */
        for (uint32_t i = 0; i < d.axes; i++)
            d.axis[i].stride *= 2;
        d.axis[d.axes++] = (struct tw_axis){2, 1};
    }
    return d;
}

void tw_batch_enqueue(struct tw_batch *w, const struct tw_device_tensor *tensors, size_t n)
{
    const struct tw_look_kernels *k = w->kernels;
    struct filling digests = {.kernel = k->digest};
    struct filling rows = {.kernel = k->rows,
                           .add = k->add_rows,
                           .add_threads = TW_LOOK_THREADS,
                           .length = TW_LOOK_ROW,
                           .room = SCRATCH_BYTES / sizeof(struct tw_row_sums)};
    struct filling chunks = {.kernel = k->chunks,
                             .add = k->add_chunks,
                             .add_threads = 32,
                             .length = TW_LOOK_CHUNK,
                             .room = SCRATCH_BYTES / sizeof(struct tw_chunk_sums)};
    const size_t bytes = n * sizeof(struct tw_seen);
    expect_success(w, "cuMemsetD8Async", w->driver->clear(w->memory->seen, 0, bytes, w->stream));
    for (size_t i = 0; i < n; i++) {
        const struct described d = describe(&tensors[i], i);
        if (tensors[i].count)
            add_digest(w, &digests, &d);
    }
    launch_filled(w, &digests);
    for (size_t i = 0; i < n; i++) {
        const struct described d = describe(&tensors[i], i);
        if (tensors[i].want_sketch)
            add_places(w, &rows, &d);
    }
    launch_filled(w, &rows); /* before the others: they share the scratch memory */
    for (size_t i = 0; i < n; i++) {
        const struct described d = describe(&tensors[i], i);
        if (tensors[i].want_stats && tensors[i].dtype != TWIN_BYTES)
            add_places(w, &chunks, &d);
    }
    launch_filled(w, &chunks);
    if (!w->failed)
        expect_success(w, "cuMemcpyDtoHAsync",
                       w->driver->to_host(w->memory->host, w->memory->seen, bytes, w->stream));
}

void tw_batch_wait(struct tw_batch *w)
{
    expect_success(w, "cuStreamSynchronize", w->driver->wait(w->stream));
}

void tw_batch_result(const struct tw_batch_memory *m, size_t i, const struct tw_device_tensor *t,
                     struct tw_device_found *found)
{
    understand_result(&m->host[i], t, found);
}
