/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: digest on the calling thread, then push. Whatever comes in, nothing here fails visibly.
 */
#include "crew.h"
#include "found.h"
#include "gpu.h"
#include "state.h"

#include <string.h>
#include "src/base/base.h"

int tw_agent_abi(void)
{
    return 1;
}

int tw_agent_level(void)
{
    return tw_agent_config.level;
}

int tw_agent_window(uint32_t *first, uint32_t *last)
{
    if (!tw_agent_config.window)
        return 0;
    *first = tw_agent_config.window_first;
    *last = tw_agent_config.window_last;
    return 1;
}

uint32_t tw_agent_step(void)
{
    /* READY: nothing yet, or a forked child whose steps begin anew. */
    return atomic_load_explicit(&tw_agent_state, memory_order_acquire) >= TW_STATE_OPEN &&
                   tw_agent_writer
               ? twin_writer_step(tw_agent_writer)
               : 0;
}

int tw_agent_in_window(void)
{
    if (!tw_agent_on() || tw_agent_config.level != TW_LEVEL_OPS)
        return 0;
    uint32_t step = tw_agent_step();
    return !tw_agent_config.window ||
           (step >= tw_agent_config.window_first && step <= tw_agent_config.window_last);
}

uint32_t tw_agent_sketch_every(void)
{
    return tw_agent_config.sketch_every;
}

uint64_t tw_agent_now_ns(void)
{
    return tw_monotonic_ns();
}

uint64_t tw_agent_quick_digest(const void *data, size_t bytes)
{
    struct twin_digest d = twin_digest_bytes(data, bytes, 0);
    return d.a ^ (d.b << 32 | d.b >> 32);
}

void tw_agent_quick_digests(const uint64_t *regions, size_t n, uint64_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = tw_agent_quick_digest((const void *)(uintptr_t)regions[2 * i],
                                       (size_t)regions[2 * i + 1]);
}

/* Every entry below: turned away when off or re-entered, else `w` is the writer inside the guard
 * `g`. */
static struct twin_writer *enter(struct tw_guard *g)
{
    if (atomic_load_explicit(&tw_agent_state, memory_order_relaxed) == TW_STATE_OFF ||
        !tw_guard_enter(g))
        return NULL;
    struct twin_writer *w = tw_agent_open();
    if (!w)
        tw_guard_leave(g);
    return w;
}

uint32_t tw_agent_string(const char *s, size_t bytes)
{
    struct tw_guard g;
    struct twin_writer *w = s ? enter(&g) : NULL;
    if (!w)
        return 0;
    uint32_t id = twin_writer_string(w, s, bytes);
    tw_guard_leave(&g);
    return id;
}

uint32_t tw_agent_series(int phase, int kind, const char *name, const char *scope, const char *role,
                         const char *op, const char *site)
{
    struct tw_guard g;
    struct twin_writer *w = name && phase >= 0 && phase < TWIN_PHASE_COUNT && kind >= 0 &&
                                    kind < TWIN_KIND_COUNT
                                ? enter(&g)
                                : NULL;
    if (!w)
        return 0;
    const char *const text[] = {name, scope, role, op, site};
    uint32_t id[5];
    for (int i = 0; i < 5; i++)
        id[i] = text[i] ? twin_writer_string(w, text[i], strlen(text[i])) : 0;
    struct twin_series s = {.phase = (uint8_t)phase,
                            .kind = (uint8_t)kind,
                            .name = id[0],
                            .scope = id[1],
                            .role = id[2],
                            .op = id[3],
                            .site = id[4]};
    uint32_t series = twin_writer_series(w, &s);
    tw_guard_leave(&g);
    return series;
}

uint32_t tw_agent_layout(int dtype, uint32_t ndim, const int64_t *shape)
{
    struct tw_guard g;
    struct twin_writer *w = twin_dtype_size((enum twin_dtype)dtype) && ndim <= TWIN_MAX_NDIM &&
                                    (shape || !ndim)
                                ? enter(&g)
                                : NULL;
    if (!w)
        return 0;
    uint32_t id = twin_writer_layout(w, (uint8_t)dtype, ndim, shape);
    tw_guard_leave(&g);
    return id;
}

/* The flags of an item that are the trace's. */
#define KNOWN_FLAGS                                                                     \
    (TWIN_REC_RECOMPUTED | TWIN_REC_UNOBSERVED | TWIN_REC_UNORDERED | TWIN_REC_OFFSET | \
     TWIN_REC_PART)

static void look_at_item(struct tw_found *f, const struct tw_agent_item *item)
{
    if (item->flags >> 8 & TWIN_REC_UNOBSERVED)
        return;
    if (item->flags & TW_ITEM_DIGESTED) {
        memcpy(&f->digest, item->data, sizeof f->digest);
        return;
    }
    int64_t count = item->count > INT64_MAX ? INT64_MAX : (int64_t)item->count;
    struct twin_tensor t = {.data = item->data,
                            .dtype = (enum twin_dtype)item->dtype,
                            .ndim = item->ndim,
                            .shape = item->shape,
                            .strides = item->strides,
                            .global_offset = item->global_offset};
    if (!item->shape) {
        t.ndim = 1;
        t.shape = &count;
        t.strides = NULL;
    }
    if (f->want_sketch)
        f->sketch.k = TWIN_SKETCH_DEFAULT;
    f->failed = twin_fingerprint(&t, &f->digest, f->want_stats ? &f->stats : NULL,
                                 f->want_sketch ? &f->sketch : NULL, NULL) != 0;
}

static uint64_t record_one(struct twin_writer *w, const struct tw_agent_item *item,
                           const struct tw_found *f, const uint64_t *links, uint32_t link_count)
{
    struct twin_observation o = {.series = item->series,
                                 .layout = item->layout,
                                 .flags = item->flags >> 8 & KNOWN_FLAGS,
                                 .global_offset = item->global_offset,
                                 .links = links,
                                 .link_count = link_count};
    if (item->global_offset)
        o.flags |= TWIN_REC_OFFSET;
    if (o.flags & TWIN_REC_PART)
        o.whole = item->strides && !item->shape ? (uint64_t)*item->strides : 0;
    if (link_count)
        o.flags |= TWIN_REC_LINKS;
    if (f->failed) { /* a view that makes no sense: it happened, its contents could not be read */
        o.flags |= TWIN_REC_UNOBSERVED;
    } else if (!(o.flags & TWIN_REC_UNOBSERVED)) {
        o.digest = f->digest;
        if (f->want_stats)
            o.flags |= TWIN_REC_STATS, o.stats = &f->stats;
        if (f->want_sketch)
            o.flags |= TWIN_REC_SKETCH, o.sketch = &f->sketch;
        if (o.flags & TWIN_REC_OFFSET &&
            !twin_digest_composable((enum twin_dtype)item->dtype, item->global_offset))
            o.flags |= TWIN_REC_NOT_COMPOSABLE;
    }
    return twin_writer_record(w, &o);
}

/* The next of those items that lie on a GPU, as if look_at_item() had been at it. */
static void take_from_gpu(struct tw_gpu_batch *b, struct tw_found *f)
{
    const struct tw_device_found *found = tw_gpu_next(b);
    f->failed = !found;
    if (found) {
        f->digest = found->digest;
        f->stats = found->stats;
        f->sketch = found->sketch;
    }
}

/* ---- long arrays: digests by several threads, records in order by the caller */

#define LONG_BYTES ((size_t)1 << 20) /* below that waking a thread costs more than it saves */
/* of a tensor that is only digested: raw sums of pieces add up */
#define PIECE_BYTES ((size_t)1 << 19)
#define BATCH 64

struct batch {
    const struct tw_agent_item *items;
    size_t n, first_piece[BATCH + 1];
    _Atomic uint64_t sum_a[BATCH], sum_b[BATCH];
    struct tw_found found[BATCH];
};

static struct batch batch;
static atomic_flag batch_taken = ATOMIC_FLAG_INIT;

static size_t bytes_of(const struct tw_agent_item *item)
{
    size_t size = twin_dtype_size((enum twin_dtype)item->dtype);
    return item->flags >> 8 & TWIN_REC_UNOBSERVED || (size && item->count > SIZE_MAX / 2 / size)
               ? 0
               : (size_t)item->count * size;
}

/* Where an item begins in the tensor that it is a part of, in bytes. */
static uint64_t offset_of(const struct tw_agent_item *item)
{
    return item->global_offset * twin_dtype_size((enum twin_dtype)item->dtype);
}

/* Whether an item's digest may be put together from pieces. Such an item has at least two. */
static bool divisible(const struct tw_agent_item *item, const struct tw_found *f)
{
    return !f->want_stats && !f->want_sketch && !item->shape && !(item->flags & TW_ITEM_DIGESTED) &&
           offset_of(item) % 16 == 0 && item->data && bytes_of(item) > PIECE_BYTES;
}

static void one_piece(void *user, size_t piece)
{
    struct batch *b = user;
    size_t i = 0;
    while (b->first_piece[i + 1] <= piece)
        i++;
    const struct tw_agent_item *item = &b->items[i];
    if (b->first_piece[i + 1] - b->first_piece[i] == 1) {
        look_at_item(&b->found[i], item);
        return;
    }
    size_t at = (piece - b->first_piece[i]) * PIECE_BYTES, left = bytes_of(item) - at;
    size_t bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    struct twin_digest d = twin_digest_bytes((const char *)item->data + at, bytes,
                                             offset_of(item) + at);
    atomic_fetch_add(&b->sum_a[i], d.a);
    atomic_fetch_add(&b->sum_b[i], d.b);
}

/* Digests n <= BATCH items. */
static void look_at_batch(struct batch *b, const struct tw_agent_item *items, size_t n,
                          bool sketch_step)
{
    b->items = items;
    b->n = n;
    size_t pieces = 0;
    for (size_t i = 0; i < n; i++) {
        tw_want(&b->found[i], &items[i], sketch_step);
        b->first_piece[i] = pieces;
        atomic_store(&b->sum_a[i], 0);
        atomic_store(&b->sum_b[i], 0);
        pieces += divisible(&items[i], &b->found[i])
                      ? (bytes_of(&items[i]) + PIECE_BYTES - 1) / PIECE_BYTES
                      : 1;
    }
    b->first_piece[n] = pieces;
    if (!tw_crew_run(one_piece, b, pieces))
        for (size_t k = 0; k < pieces; k++)
            one_piece(b, k);
    for (size_t i = 0; i < n; i++)
        if (b->first_piece[i + 1] - b->first_piece[i] > 1)
            b->found[i].digest = (struct twin_digest){atomic_load(&b->sum_a[i]),
                                                      atomic_load(&b->sum_b[i])};
}

static bool record_long(struct twin_writer *w, struct tw_agent_item *items, size_t n,
                        bool sketch_step, const uint64_t *links, uint32_t link_count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n && bytes < LONG_BYTES; i++)
        bytes += bytes_of(&items[i]);
    if (bytes < LONG_BYTES || atomic_flag_test_and_set(&batch_taken))
        return false;
    for (size_t at = 0; at < n; at += BATCH) {
        size_t some = n - at < BATCH ? n - at : BATCH;
        look_at_batch(&batch, items + at, some, sketch_step);
        for (size_t i = 0; i < some; i++)
            items[at + i].link = record_one(w, &items[at + i], &batch.found[i], links, link_count);
    }
    atomic_flag_clear(&batch_taken);
    return true;
}

void tw_record_forget(void)
{
    atomic_flag_clear(&batch_taken);
    tw_crew_forget();
}

static void record_all(struct twin_writer *w, struct tw_agent_item *items, size_t n,
                       const uint64_t *consumed, size_t consumed_count)
{
    uint64_t t0 = tw_monotonic_ns();
    uint32_t every = tw_agent_config.sketch_every;
    bool sketch_step = every && twin_writer_step(w) % every == 0;
    uint32_t links = 0;
    if (consumed)
        links = consumed_count < TWIN_MAX_LINKS ? (uint32_t)consumed_count : TWIN_MAX_LINKS;
    struct tw_gpu_batch there = tw_gpu_look(items, n, true, sketch_step);
    if (there.n || !record_long(w, items, n, sketch_step, consumed, links))
        for (size_t i = 0; i < n; i++) {
            struct tw_found f;
            tw_want(&f, &items[i], sketch_step);
            if (tw_gpu_item(&items[i]))
                take_from_gpu(&there, &f);
            else
                look_at_item(&f, &items[i]);
            items[i].link = record_one(w, &items[i], &f, consumed, links);
        }
    tw_gpu_free(&there);
    twin_writer_add_observer_ns(w, tw_monotonic_ns() - t0);
}

/* ---- gathering: what this thread records of a GPU's memory, kept until it is looked at all at
 * once */

static __thread struct gathered {
    bool on;
    struct tw_agent_item *items;
    size_t n, room;
} gathered __attribute__((tls_model("initial-exec")));

static void record_gathered(struct twin_writer *w)
{
    struct gathered g = gathered;
    gathered.items = NULL;
    gathered.n = gathered.room = 0;
    if (g.n)
        record_all(w, g.items, g.n, NULL, 0);
    tw_free(g.items);
}

static bool gather_items(const struct tw_agent_item *items, size_t n)
{
    struct gathered *g = &gathered;
    if (g->n + n > g->room) {
        size_t room = 2 * (g->n + n);
        struct tw_agent_item *more = tw_realloc(g->items, room * sizeof *more);
        if (!more)
            return false;
        g->items = more;
        g->room = room;
    }
    memcpy(g->items + g->n, items, n * sizeof *items);
    g->n += n;
    return true;
}

void tw_agent_gather(int on)
{
    struct tw_guard g;
    gathered.on = on;
    struct twin_writer *w = gathered.n ? enter(&g) : NULL;
    if (w) {
        record_gathered(w);
        tw_guard_leave(&g);
    } else { /* switched off meanwhile */
        tw_free(gathered.items);
        gathered = (struct gathered){.on = on};
    }
}

size_t tw_agent_records(struct tw_agent_item *items, size_t n, const uint64_t *consumed,
                        size_t consumed_count)
{
    struct tw_guard g;
    struct twin_writer *w = items && n ? enter(&g) : NULL;
    if (!w)
        return 0;
    if (!gathered.on || consumed_count || !tw_gpu_items(items, n) || !gather_items(items, n)) {
        record_gathered(w);
        record_all(w, items, n, consumed, consumed_count);
    }
    tw_guard_leave(&g);
    return n;
}

void tw_agent_digests(const struct tw_agent_item *items, size_t n, struct twin_digest *out)
{
    struct tw_guard g;
    if (!items || !out || !n || !enter(&g))
        return;
    struct tw_gpu_batch there = tw_gpu_look(items, n, false, false);
    for (size_t i = 0; i < n; i++) {
        struct tw_found f = {0};
        struct tw_agent_item item = items[i];
        item.flags &= ~(uint32_t)(TW_ITEM_STATS | TW_ITEM_SKETCH);
        tw_want(&f, &item, false);
        if (tw_gpu_item(&item))
            take_from_gpu(&there, &f);
        else
            look_at_item(&f, &item);
        out[i] = f.digest;
    }
    tw_gpu_free(&there);
    tw_guard_leave(&g);
}

uint64_t tw_agent_bytes(uint32_t series, const void *data, size_t bytes, uint32_t flags)
{
    struct tw_guard g;
    struct twin_writer *w = data || !bytes ? enter(&g) : NULL;
    if (!w)
        return 0;
    record_gathered(w);
    uint64_t t0 = tw_monotonic_ns();
    int64_t shape = (int64_t)bytes;
    struct tw_agent_item item = {.data = data,
                                 .count = bytes,
                                 .series = series,
                                 .flags = flags,
                                 .dtype = TWIN_BYTES,
                                 .ndim = 1,
                                 .layout = twin_writer_layout(w, TWIN_BYTES, 1, &shape)};
    struct tw_found f;
    tw_want(&f, &item, false);
    look_at_item(&f, &item);
    uint64_t link = record_one(w, &item, &f, NULL, 0);
    twin_writer_add_observer_ns(w, tw_monotonic_ns() - t0);
    tw_guard_leave(&g);
    return link;
}

void tw_agent_add_observer_ns(uint64_t ns)
{
    /* Only what recorded is charged: opening the file for a note of time would change what is
     * measured. */
    if (atomic_load_explicit(&tw_agent_state, memory_order_acquire) == TW_STATE_OPEN)
        twin_writer_add_observer_ns(tw_agent_writer, ns);
}

void tw_agent_note(const char *key, const char *value)
{
    struct tw_guard g;
    struct twin_writer *w = key && value ? enter(&g) : NULL;
    if (!w)
        return;
    twin_writer_note(w, key, value);
    tw_guard_leave(&g);
}
