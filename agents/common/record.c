/* SPDX-License-Identifier: Apache-2.0 */
/* Records: digest on the calling thread, then push. Whatever comes in, nothing here fails visibly. */
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
    return atomic_load_explicit(&tw_agent_state, memory_order_acquire) >= TW_STATE_OPEN && tw_agent_writer
               ? twin_writer_step(tw_agent_writer) : 0;
}

int tw_agent_in_window(void)
{
    if (!tw_agent_on() || tw_agent_config.level != TW_LEVEL_OPS)
        return 0;
    uint32_t step = tw_agent_step();
    return !tw_agent_config.window || (step >= tw_agent_config.window_first && step <= tw_agent_config.window_last);
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

/* Every entry below: turned away when off or re-entered, else `w` is the writer inside the guard `g`. */
static struct twin_writer *enter(struct tw_guard *g)
{
    if (atomic_load_explicit(&tw_agent_state, memory_order_relaxed) == TW_STATE_OFF || !tw_guard_enter(g))
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

uint32_t tw_agent_series(int phase, int kind, const char *name, const char *scope, const char *role, const char *op,
                         const char *site)
{
    struct tw_guard g;
    struct twin_writer *w = name && phase >= 0 && phase < TWIN_PHASE_COUNT && kind >= 0 && kind < TWIN_KIND_COUNT ? enter(&g) : NULL;
    if (!w)
        return 0;
    const char *const text[] = {name, scope, role, op, site};
    uint32_t id[5];
    for (int i = 0; i < 5; i++)
        id[i] = text[i] ? twin_writer_string(w, text[i], strlen(text[i])) : 0;
    struct twin_series s = {.phase = (uint8_t)phase, .kind = (uint8_t)kind, .name = id[0], .scope = id[1], .role = id[2],
                            .op = id[3], .site = id[4]};
    uint32_t series = twin_writer_series(w, &s);
    tw_guard_leave(&g);
    return series;
}

uint32_t tw_agent_layout(int dtype, uint32_t ndim, const int64_t *shape)
{
    struct tw_guard g;
    struct twin_writer *w = twin_dtype_size((enum twin_dtype)dtype) && ndim <= TWIN_MAX_NDIM && (shape || !ndim) ? enter(&g) : NULL;
    if (!w)
        return 0;
    uint32_t id = twin_writer_layout(w, (uint8_t)dtype, ndim, shape);
    tw_guard_leave(&g);
    return id;
}

/* The flags of an item that are the trace's. */
#define KNOWN_FLAGS (TWIN_REC_RECOMPUTED | TWIN_REC_UNOBSERVED | TWIN_REC_UNORDERED | TWIN_REC_OFFSET)

static uint64_t record_one(struct twin_writer *w, const struct tw_agent_item *item, bool sketch_step, const uint64_t *links,
                           uint32_t link_count)
{
    struct twin_stats stats;
    struct twin_sketch sketch;
    struct twin_observation o = {.series = item->series, .layout = item->layout, .flags = item->flags >> 8 & KNOWN_FLAGS,
                                 .global_offset = item->global_offset, .links = links, .link_count = link_count};
    if (item->global_offset)
        o.flags |= TWIN_REC_OFFSET;
    if (link_count)
        o.flags |= TWIN_REC_LINKS;
    if (!(o.flags & TWIN_REC_UNOBSERVED)) {
        int64_t count = item->count > INT64_MAX ? INT64_MAX : (int64_t)item->count;
        struct twin_tensor t = {.data = item->data, .dtype = (enum twin_dtype)item->dtype, .ndim = item->ndim,
                                .shape = item->shape, .strides = item->strides, .global_offset = item->global_offset};
        if (!item->shape) {
            t.ndim = 1;
            t.shape = &count;
            t.strides = NULL;
        }
        bool want_stats = item->flags & TW_ITEM_STATS;
        bool want_sketch = sketch_step && item->flags & TW_ITEM_SKETCH && t.dtype != TWIN_BYTES;
        if (want_sketch)
            sketch.k = TWIN_SKETCH_DEFAULT;
        if (twin_fingerprint(&t, &o.digest, want_stats ? &stats : NULL, want_sketch ? &sketch : NULL, NULL) != 0) {
            /* A view that makes no sense: it happened, its contents could not be read. */
            o.digest = (struct twin_digest){0, 0};
            o.flags |= TWIN_REC_UNOBSERVED;
        } else {
            if (want_stats)
                o.flags |= TWIN_REC_STATS, o.stats = &stats;
            if (want_sketch)
                o.flags |= TWIN_REC_SKETCH, o.sketch = &sketch;
            if (o.flags & TWIN_REC_OFFSET && !twin_digest_composable(t.dtype, t.global_offset))
                o.flags |= TWIN_REC_NOT_COMPOSABLE;
        }
    }
    return twin_writer_record(w, &o);
}

size_t tw_agent_records(struct tw_agent_item *items, size_t n, const uint64_t *consumed, size_t consumed_count)
{
    struct tw_guard g;
    struct twin_writer *w = items && n ? enter(&g) : NULL;
    if (!w)
        return 0;
    uint64_t t0 = tw_monotonic_ns();
    uint32_t every = tw_agent_config.sketch_every;
    bool sketch_step = every && twin_writer_step(w) % every == 0;
    uint32_t links = !consumed ? 0 : consumed_count < TWIN_MAX_LINKS ? (uint32_t)consumed_count : TWIN_MAX_LINKS;
    for (size_t i = 0; i < n; i++)
        items[i].link = record_one(w, &items[i], sketch_step, consumed, links);
    twin_writer_add_observer_ns(w, tw_monotonic_ns() - t0);
    tw_guard_leave(&g);
    return n;
}

uint64_t tw_agent_bytes(uint32_t series, const void *data, size_t bytes, uint32_t flags)
{
    struct tw_guard g;
    struct twin_writer *w = data || !bytes ? enter(&g) : NULL;
    if (!w)
        return 0;
    uint64_t t0 = tw_monotonic_ns();
    int64_t shape = (int64_t)bytes;
    struct tw_agent_item item = {.data = data, .count = bytes, .series = series, .flags = flags, .dtype = TWIN_BYTES, .ndim = 1,
                                 .layout = twin_writer_layout(w, TWIN_BYTES, 1, &shape)};
    uint64_t link = record_one(w, &item, false, NULL, 0);
    twin_writer_add_observer_ns(w, tw_monotonic_ns() - t0);
    tw_guard_leave(&g);
    return link;
}

void tw_agent_add_observer_ns(uint64_t ns)
{
    /* Only what recorded is charged: opening the file for a note of time would change what is measured. */
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
