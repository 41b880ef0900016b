/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fingerprints for the agent: batches that are waited for, in the context of the device that the
 * tensors lie on.
 *
 * A thread takes a place (scratch and result memory in one context) while it works and never waits
 * for another thread: the other may wait for a collective that needs this one. Work is put behind
 * what the stream holds; waiting for it is what a copy to the host would do, too.
 */
#include "device.h"
#include "batch.h"
#include "trouble.h"
#include "visit.h"

#include <pthread.h>
#include <stdatomic.h>

/* Sizes of the tables. Where one is full, tw_device_look() gives false. */
enum {
    CONTEXTS = 16, /* one per GPU that the process uses */
    PLACES = 64,   /* threads at work at the same time, times the contexts that each works in */
};

/* Are the kernels in a context? */
enum loaded { NOT_ASKED, LOADED, CANNOT_BE_LOADED };

/* One CUDA context with our kernels in it. Entries are never taken out; `at` NULL: free. */
struct context {
    _Atomic(tw_cu_context) at;
    atomic_int state; /* enum loaded */
    struct tw_look_kernels kernels;
};

/* What a thread needs while it works: memory in one context, made at the first use and kept. */
struct place {
    atomic_bool taken;
    tw_cu_context at; /* NULL: no memory yet */
    struct tw_batch_memory memory;
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
static bool load_kernels(const struct tw_driver *d, struct tw_look_kernels *k)
{
    tw_cu_module module;
    const struct {
        tw_cu_function *to;
        const char *name;
    } kernels[] = {
        {&k->digest, "tw_digest"},         {&k->rows, "tw_rows"},
        {&k->add_rows, "tw_add_rows"},     {&k->chunks, "tw_chunks"},
        {&k->add_chunks, "tw_add_chunks"},
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
        int mode = tw_relax_capture(d);
        atomic_store(&found->state, load_kernels(d, &found->kernels) ? LOADED : CANNOT_BE_LOADED);
        tw_restore_capture(d, mode);
    }
    pthread_mutex_unlock(&making);
    return found;
}

/* Whether no call may be made, or would be of no use. */
static bool is_idle(const struct tw_driver *d)
{
    return !d || atomic_load(&forgotten) || tw_trouble_is_off() || !tw_device_image_bytes;
}

/* The current context with its kernels; NULL when there is none, or it cannot have them. */
static struct context *current_context(const struct tw_driver *d)
{
    tw_cu_context at = NULL;
    if (is_idle(d) || d->context_current(&at) != 0 || !at)
        return NULL;
    for (int i = 0; i < CONTEXTS; i++)
        if (atomic_load(&contexts[i].at) == at && atomic_load(&contexts[i].state) != NOT_ASKED)
            return atomic_load(&contexts[i].state) == LOADED ? &contexts[i] : NULL;
    struct context *c = entry_of_context(at);
    return c && atomic_load(&c->state) == LOADED ? c : NULL;
}

const struct tw_look_kernels *tw_device_kernels(void)
{
    const struct context *c = current_context(tw_driver());
    return c ? &c->kernels : NULL;
}

bool tw_device_ready(unsigned device)
{
    const struct tw_driver *d = tw_driver();
    struct tw_visit v;
    bool ready = false;
    if (!d && !atomic_load(&forgotten) && tw_driver_lacks())
        tw_trouble_copied(NULL, tw_driver_lacks(), 0);
    if (is_idle(d))
        return false;
    if (tw_visit_begin(&v, d, device)) {
        ready = current_context(d) != NULL;
        tw_visit_end(&v);
        ready = ready && !v.refused;
    }
    if (v.refused)
        tw_trouble_copied(d, v.refused, v.code);
    return ready;
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
            if (empty && tw_batch_allocate(d, &p->memory))
                p->at = at;
            if (p->at == at)
                return p;
            room = !empty;
            atomic_store(&p->taken, false);
        }
    }
    return NULL;
}

/* Fingerprints n <= TW_BATCH_MOST tensors: puts the kernels on the stream, waits, and reads the
 * results. Whatever failed: nothing of ours may still be at work when the place is given back. */
static void look_at_some(struct tw_batch *w, const struct tw_device_tensor *tensors, size_t n,
                         struct tw_device_found *found)
{
    tw_batch_enqueue(w, tensors, n);
    tw_batch_wait(w);
    for (size_t i = 0; i < n && !w->failed; i++)
        tw_batch_result(w->memory, i, &tensors[i], &found[i]);
}

/* In the current context. Refused while the stream is captured: what it waits for would not run. */
static bool look_here(const struct tw_driver *d, const struct tw_device_tensor *tensors, size_t n,
                      void *stream, struct tw_device_found *found)
{
    const struct context *c = current_context(d);
    int capturing = TW_CU_CAPTURE_NONE;
    if (!c || d->is_capturing(stream, &capturing) != 0 || capturing != TW_CU_CAPTURE_NONE)
        return false;
    struct place *place = take_place(d, atomic_load(&c->at));
    if (!place)
        return false;
    struct tw_batch w = {
        .driver = d, .kernels = &c->kernels, .memory = &place->memory, .stream = stream};
    int mode = tw_relax_capture(d);
    for (size_t at = 0; at < n && !w.failed; at += TW_BATCH_MOST)
        look_at_some(&w, tensors + at, n - at < TW_BATCH_MOST ? n - at : TW_BATCH_MOST, found + at);
    tw_restore_capture(d, mode);
    atomic_store(&place->taken, false);
    if (w.failed) {
        tw_trouble_off(d, w.failed, w.code);
        tw_trouble_unread(n);
    }
    return !w.failed;
}

bool tw_device_look(unsigned device, const struct tw_device_tensor *tensors, size_t n, void *stream,
                    struct tw_device_found *found)
{
    const struct tw_driver *d = tw_driver();
    struct tw_visit v;
    bool good = false;
    if (tw_trouble_is_off())
        tw_trouble_unread(n);
    if (is_idle(d))
        return false;
    if (tw_visit_begin(&v, d, device)) {
        good = look_here(d, tensors, n, stream, found);
        tw_visit_end(&v);
    }
    if (v.refused && !tw_trouble_is_off()) {
        tw_trouble_off(d, v.refused, v.code);
        tw_trouble_unread(n);
    }
    return good && !v.refused;
}

static const struct tw_agent_device nvidia = {.ready = tw_device_ready, .look = tw_device_look};
static const struct tw_agent_life cuda_life = {
    .fork = tw_device_forget, .report = tw_trouble_report, .device = &nvidia};
TW_AGENT_REGISTER(cuda_life);
