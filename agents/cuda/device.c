/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches the kernels of look.cu and turns what they found into fingerprints.
 *
 * A thread takes a place (scratch and result memory in one context) while it works and never waits
 * for another thread: the other may wait for a collective that needs this one. Work is put behind
 * what the stream holds; waiting for it is what a copy to the host would do, too.
 */
#include "device.h"
#include "driver.h"
#include "look.h"
#include "trouble.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Sizes of the tables. Where one is full, tw_device_look() gives false. */
enum {
    CONTEXTS = 16, /* one per GPU that the process uses */
    PLACES = 16,   /* threads at work at the same time */
    RESULTS = 256, /* tensors before the stream is waited for */
};

/* Rows of 16 million elements, chunks of a billion; longer tensors come in runs. Tests have less.
 */
#ifndef TW_DEVICE_SCRATCH
#define TW_DEVICE_SCRATCH (4 << 20)
#endif
enum { SCRATCH_BYTES = TW_DEVICE_SCRATCH };

/* Are the kernels in a context? */
enum loaded { NOT_ASKED, LOADED, CANNOT_BE_LOADED };

/* One CUDA context with our kernels in it. Entries are never taken out; `at` NULL: free. */
struct context {
    _Atomic(tw_cu_context) at;
    atomic_int state; /* enum loaded */
    tw_cu_function digest, rows, add_rows, chunks, add_chunks;
};

/* What a thread needs while it works: memory in one context, made at the first use and kept.
 * scratch, seen: on the device; host: where results are copied to. */
struct place {
    atomic_bool taken;
    tw_cu_context at; /* NULL: no memory yet */
    tw_cu_address scratch, seen;
    struct tw_seen *host; /* pinned */
};

static struct context contexts[CONTEXTS];
static struct place places[PLACES];
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool forgotten;

/* The kernels, as nvcc made them; generated at build time. Empty when there was no nvcc. */
extern const unsigned char tw_device_image[];
extern const size_t tw_device_image_bytes;

void tw_device_forget(void)
{
    atomic_store(&forgotten, true);
    tw_trouble_forget();
}

/* Loads the kernels into the current context. A GPU that is too new or too old for them, or a
 * driver that is too old, shows here. */
static bool load_kernels(const struct tw_driver *d, struct context *c)
{
    tw_cu_module module;
    const struct {
        tw_cu_function *to;
        const char *name;
    } kernels[] = {
        {&c->digest, "tw_digest"},         {&c->rows, "tw_rows"},
        {&c->add_rows, "tw_add_rows"},     {&c->chunks, "tw_chunks"},
        {&c->add_chunks, "tw_add_chunks"},
    };
    const char *call = "cuModuleLoadData";
    int code = d->module_load(&module, tw_device_image);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels && !code; i++) {
        call = "cuModuleGetFunction";
        code = d->module_function(kernels[i].to, module, kernels[i].name);
    }
    if (code)
        tw_trouble_copied(d, call, code);
    return code == 0;
}

/* While another thread captures a stream, allocating would break its capture; a relaxed thread may.
 * Returns the mode to be restored, -1 when it could not be changed. */
static int relax_capture(const struct tw_driver *d)
{
    int mode = TW_CU_CAPTURE_RELAXED;
    return d->exchange_capture_mode(&mode) == 0 ? mode : -1;
}

static void restore_capture(const struct tw_driver *d, int mode)
{
    if (mode >= 0)
        d->exchange_capture_mode(&mode);
}

/* The entry of a context, made and loaded when it is new; NULL when the table is full. */
static struct context *entry_of_context(tw_cu_context at)
{
    struct context *found = NULL;
    pthread_mutex_lock(&making);
    for (int i = 0; i < CONTEXTS && !found; i++) {
        tw_cu_context there = atomic_load(&contexts[i].at);
        if (!there)
            atomic_store(&contexts[i].at, at);
        if (!there || there == at)
            found = &contexts[i];
    }
    if (found && atomic_load(&found->state) == NOT_ASKED) {
        const struct tw_driver *d = tw_driver();
        int mode = relax_capture(d);
        atomic_store(&found->state, load_kernels(d, found) ? LOADED : CANNOT_BE_LOADED);
        restore_capture(d, mode);
    }
    pthread_mutex_unlock(&making);
    return found;
}

/* The current context with its kernels; NULL when there is none, or it cannot have them. */
static struct context *current_context(const struct tw_driver *d)
{
    tw_cu_context at = NULL;
    if (atomic_load(&forgotten) || tw_trouble_is_off() || !tw_device_image_bytes || !d ||
        d->context_current(&at) != 0 || !at)
        return NULL;
    for (int i = 0; i < CONTEXTS; i++)
        if (atomic_load(&contexts[i].at) == at && atomic_load(&contexts[i].state) != NOT_ASKED)
            return atomic_load(&contexts[i].state) == LOADED ? &contexts[i] : NULL;
    struct context *c = entry_of_context(at);
    return c && atomic_load(&c->state) == LOADED ? c : NULL;
}

bool tw_device_ready(void)
{
    const struct tw_driver *d = tw_driver();
    if (!d && !atomic_load(&forgotten) && tw_driver_lacks())
        tw_trouble_copied(NULL, tw_driver_lacks(), 0);
    return current_context(d) != NULL;
}

/* Allocates the memory of a place in the current context. False, with nothing allocated, when one
 * part is refused. */
static bool make_place(const struct tw_driver *d, struct place *p, tw_cu_context at)
{
    int mode = relax_capture(d);
    bool good = d->allocate(&p->scratch, SCRATCH_BYTES) == 0;
    if (good && d->allocate(&p->seen, RESULTS * sizeof(struct tw_seen)) != 0) {
        d->release(p->scratch);
        good = false;
    }
    void *host = NULL;
    if (good && d->allocate_host(&host, RESULTS * sizeof(struct tw_seen), 0) != 0) {
        d->release(p->scratch);
        d->release(p->seen);
        good = false;
    }
    restore_capture(d, mode);
    p->host = host;
    if (good)
        p->at = at;
    return good;
}

/* A place of this context that no other thread uses; NULL when all are taken or there is no memory.
 * Places that have memory already are tried first. */
static struct place *take_place(const struct tw_driver *d, tw_cu_context at)
{
    bool room = true; /* what could not be allocated for one place cannot be for the next */
    for (int fresh = 0; fresh < 2; fresh++) {
        for (int i = 0; i < PLACES && room; i++) {
            struct place *p = &places[i];
            if (atomic_exchange(&p->taken, true))
                continue;
            bool empty = fresh && !p->at;
            if (p->at == at || (empty && make_place(d, p, at)))
                return p;
            room = !empty;
            atomic_store(&p->taken, false);
        }
    }
    return NULL;
}

/* ---- launches */

/* One call of tw_device_look(). failed: CUDA has refused something; nothing more is launched then.
 */
struct work {
    const struct tw_driver *driver;
    const struct context *context;
    struct place *place;
    void *stream;
    bool failed;
};

/* What the driver gave. Its first refusal is the last call of ours. */
static void expect_success(struct work *w, const char *function, int code)
{
    if (code && !w->failed) {
        w->failed = true;
        tw_trouble_off(w->driver, function, code);
    }
}

/* Puts a kernel on the stream, unless something has failed before. */
static void launch_kernel(struct work *w, tw_cu_function kernel, uint64_t blocks, unsigned threads,
                          void **arguments)
{
    if (w->failed || !blocks)
        return;
    if (blocks > INT32_MAX)
        w->failed = true; /* 2^47 bytes: no GPU has them */
    else
        expect_success(w, "cuLaunchKernel",
                       w->driver->launch(kernel, (unsigned)blocks, 1, 1, threads, 1, 1, 0,
                                         w->stream, arguments, NULL));
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
static void launch_filled(struct work *w, struct filling *f)
{
    void *plain[] = {&f->looks, &w->place->seen};
    void *with_scratch[] = {&f->looks, &w->place->scratch, &w->place->seen};
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
static void add_digest(struct work *w, struct filling *f, const struct described *d)
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
static void add_places(struct work *w, struct filling *f, const struct described *d)
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

/* Fingerprints n <= RESULTS tensors: puts the kernels on the stream, waits, and reads the results.
 */
static void look_at_some(struct work *w, const struct tw_device_tensor *tensors, size_t n,
                         struct tw_device_found *found)
{
    const struct context *c = w->context;
    struct filling digests = {.kernel = c->digest};
    struct filling rows = {.kernel = c->rows,
                           .add = c->add_rows,
                           .add_threads = TW_LOOK_THREADS,
                           .length = TW_LOOK_ROW,
                           .room = SCRATCH_BYTES / sizeof(struct tw_row_sums)};
    struct filling chunks = {.kernel = c->chunks,
                             .add = c->add_chunks,
                             .add_threads = 32,
                             .length = TW_LOOK_CHUNK,
                             .room = SCRATCH_BYTES / sizeof(struct tw_chunk_sums)};
    const size_t bytes = n * sizeof(struct tw_seen);
    expect_success(w, "cuMemsetD8Async", w->driver->clear(w->place->seen, 0, bytes, w->stream));
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
                       w->driver->to_host(w->place->host, w->place->seen, bytes, w->stream));
    /* Whatever failed: nothing of ours may still be at work when the place is given back. */
    expect_success(w, "cuStreamSynchronize", w->driver->wait(w->stream));
    for (size_t i = 0; i < n && !w->failed; i++)
        understand_result(&w->place->host[i], &tensors[i], &found[i]);
}

/* Refused while the stream is captured: what it waits for would not run. */
bool tw_device_look(const struct tw_device_tensor *tensors, size_t n, void *stream,
                    struct tw_device_found *found)
{
    const struct tw_driver *d = tw_driver();
    const struct context *c = current_context(d);
    int capturing = TW_CU_CAPTURE_NONE;
    if (tw_trouble_is_off())
        tw_trouble_unread(n);
    if (!c || d->is_capturing(stream, &capturing) != 0 || capturing != TW_CU_CAPTURE_NONE)
        return false;
    struct work w = {
        .driver = d, .context = c, .stream = stream, .place = take_place(d, atomic_load(&c->at))};
    if (!w.place)
        return false;
    int mode = relax_capture(d);
    for (size_t at = 0; at < n && !w.failed; at += RESULTS)
        look_at_some(&w, tensors + at, n - at < RESULTS ? n - at : RESULTS, found + at);
    restore_capture(d, mode);
    atomic_store(&w.place->taken, false);
    if (w.failed)
        tw_trouble_unread(n);
    return !w.failed;
}

static const struct tw_agent_device nvidia = {.ready = tw_device_ready, .look = tw_device_look};
static const struct tw_agent_life cuda_life = {
    .fork = tw_device_forget, .report = tw_trouble_report, .device = &nvidia};
TW_AGENT_REGISTER(cuda_life);
