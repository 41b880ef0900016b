/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface (twin.h) over the agent: per thread a scope stack, a role, and a cache from names
 * to series. */
#include <twin/twin.h>
#include "state.h"

#include <stdio.h>
#include <string.h>
#include "src/base/base.h"

#define DEPTH 64
#define SCOPE_BYTES 2048
#define ROLE_BYTES 256
#define NAME_BYTES 64
#define CACHED_NDIM 4
/* Entries of the cache, powers of two. The small one, for where memory is limited, makes a context
 * of one page. */
#define CACHE 256
#define CACHE_SMALL 8
#define CONTEXT_PART 256 /* of what is left there, a large context takes at most this part */

struct entry {
    const char *name, *file_line; /* pointers as given: compared before the content */
    uint64_t context;
    uint32_t series, layout, seen_layout;
    const void *seen_at; /* all of a contiguous tensor of seen_layout could be read here */
    uint8_t prefix;
    uint8_t dtype, ndim; /* of `layout` */
    int64_t shape[CACHED_NDIM];
    char text[NAME_BYTES];
};

struct context {
    uint32_t depth;      /* also counts what is too deep to be named */
    uint32_t end[DEPTH]; /* length of `scope` before each push */
    uint32_t length;
    uint64_t hash; /* of scope and role: part of the cache's key */
    char scope[SCOPE_BYTES];
    char role[ROLE_BYTES];
    uint32_t mask; /* of the cache: its entries less one */
    struct entry cache[];
};

_Static_assert(sizeof(struct context) + CACHE_SMALL * sizeof(struct entry) <= 4096,
               "a small context is a page");

static const struct prefix {
    const char *text;
    uint8_t phase, kind, level; /* level: the least one at which it is kept */
} prefixes[] = {
    {"", TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, TW_LEVEL_STEPS}, /* no prefix; must be the first */
    {"batch", TWIN_PHASE_DATA, TWIN_KIND_BATCH, TW_LEVEL_STEPS},
    {"weight", TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, TW_LEVEL_STEPS},
    {"init", TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, TW_LEVEL_STEPS},
    {"loss", TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, TW_LEVEL_STEPS},
    {"gradient", TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, TW_LEVEL_TENSORS},
    {"local gradient", TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT_LOCAL, TW_LEVEL_TENSORS},
    {"activation", TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, TW_LEVEL_TENSORS},
    {"state", TWIN_PHASE_RNG, TWIN_KIND_STATE, TW_LEVEL_TENSORS},
    {"moment", TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, TW_LEVEL_TENSORS},
    {"indices", TWIN_PHASE_DATA, TWIN_KIND_INDICES, TW_LEVEL_TENSORS},
    {"hyper", TWIN_PHASE_OPTIMIZER, TWIN_KIND_HYPER, TW_LEVEL_TENSORS},
};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;
static __thread struct context *mine __attribute__((tls_model("initial-exec")));
static __thread bool refused __attribute__((tls_model("initial-exec")));

static size_t context_bytes(uint32_t entries)
{
    return sizeof(struct context) + entries * sizeof(struct entry);
}

/* Mapped: this may be the first memory that the thread asks for (src/base/room.c). */
static void forget_context(void *p)
{
    struct context *c = p;
    mine = NULL;
    tw_room_unmap(c, context_bytes(c->mask + 1));
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, forget_context) == 0;
}

static inline bool native_is_off(void)
{
    return __builtin_expect(
        atomic_load_explicit(&tw_agent_state, memory_order_relaxed) == TW_STATE_OFF, 1);
}

/* A thread that got no context once stays without: it has forgotten its scope. */
static struct context *make_context(void)
{
    if (refused)
        return NULL;
    int saved_errno = errno;
    pthread_once(&key_once, make_key);
    uint32_t entries = CACHE;
    if (context_bytes(entries) > tw_room_left() / CONTEXT_PART)
        entries = CACHE_SMALL;
    struct context *c = key_made ? tw_room_map(context_bytes(entries)) : NULL;
    if (c && pthread_setspecific(key, c) != 0) {
        tw_room_unmap(c, context_bytes(entries));
        c = NULL;
    }
    if (c)
        c->mask = entries - 1;
    errno = saved_errno;
    refused = !c;
    return mine = c;
}

/* This thread's context; NULL when there is no memory for it: its records are then not kept. */
static inline struct context *context(void)
{
    return mine ? mine : make_context();
}

static void rehash(struct context *c)
{
    c->hash = tw_hash_bytes(c->scope, c->length, tw_hash_bytes(c->role, strlen(c->role), 0).a).a;
}

int twin_open(void)
{
    struct tw_guard g;
    if (native_is_off() || !tw_guard_enter(&g))
        return 0;
    bool open = tw_agent_open() != NULL;
    tw_guard_leave(&g);
    return open;
}

int twin_on(void)
{
    return native_is_off() ? 0 : tw_agent_on();
}

void twin_step(void)
{
    if (!native_is_off())
        tw_agent_step_end();
}

void twin_close(void)
{
    if (!native_is_off())
        tw_agent_close();
}

void twin_scope_push(const char *name)
{
    struct context *c = native_is_off() ? NULL : context();
    if (!c)
        return;
    if (c->depth < DEPTH) {
        c->end[c->depth] = c->length;
        size_t room = sizeof c->scope - c->length;
        size_t slash = c->length > 0;
        size_t n = name ? strnlen(name, room) : 0;
        if (n && slash + n < room) {
            if (slash)
                c->scope[c->length++] = '/';
            memcpy(c->scope + c->length, name, n + 1);
            c->length += (uint32_t)n;
        }
        rehash(c);
    }
    c->depth++;
}

void twin_scope_pop(void)
{
    struct context *c = native_is_off() ? NULL : context();
    if (!c || c->depth == 0)
        return;
    if (--c->depth < DEPTH) {
        c->length = c->end[c->depth];
        c->scope[c->length] = '\0';
        rehash(c);
    }
}

void twin_thread_role(const char *role)
{
    struct context *c = native_is_off() ? NULL : context();
    if (!c)
        return;
    size_t n = role ? strnlen(role, sizeof c->role - 1) : 0;
    if (n)
        memcpy(c->role, role, n);
    c->role[n] = '\0';
    rehash(c);
}

/* Splits "gradient:w1" into its row and "w1"; "gradient:" alone keeps its word as the name. */
static uint8_t split_row(const char *name, const char **rest)
{
    const char *colon = strchr(name, ':');
    *rest = name;
    for (uint8_t i = 1; colon && i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i].text);
        if ((size_t)(colon - name) != n || memcmp(name, prefixes[i].text, n) != 0)
            continue;
        *rest = colon[1] ? colon + 1 : prefixes[i].text;
        return i;
    }
    return 0;
}

static uint32_t make_series(const struct context *c, uint8_t prefix, const char *rest,
                            const char *file_line, const char *func)
{
    char site[512];
    const char *shown = NULL;
    if (file_line && func) {
        while (tw_starts(file_line, "../"))
            file_line += 3;
        int n = snprintf(site, sizeof site, "%s in %s", file_line, func);
        shown = n > 0 && (size_t)n < sizeof site ? site : NULL;
    }
    const struct prefix *p = &prefixes[prefix];
    return tw_agent_series(p->phase, p->kind, rest, c->length ? c->scope : NULL,
                           c->role[0] ? c->role : NULL, NULL, shown);
}

/* Fills e, found or made anew. A name too long for the cache uses `scratch` and is interned each
 * time. */
static struct entry *find_entry(struct context *c, struct entry *scratch, const char *name,
                                const char *file_line, const char *func)
{
    uint64_t h = tw_mix64((uintptr_t)name ^ c->hash ^ (uint64_t)(uintptr_t)file_line << 20);
    struct entry *e = &c->cache[h & c->mask];
    if (e->name == name && e->file_line == file_line && e->context == c->hash && e->series &&
        strcmp(e->text, name) == 0)
        return e;
    size_t n = strlen(name);
    if (n >= sizeof e->text)
        e = scratch;
    const char *rest;
    *e = (struct entry){.name = name, .file_line = file_line, .context = c->hash};
    e->prefix = split_row(name, &rest);
    if (prefixes[e->prefix].level > tw_agent_config.level)
        return NULL;
    e->series = make_series(c, e->prefix, rest, file_line, func);
    if (e != scratch)
        memcpy(e->text, name, n + 1);
    return e;
}

static uint32_t layout_of(struct entry *e, enum twin_dtype dtype, uint32_t ndim,
                          const int64_t *shape)
{
    bool small = ndim <= CACHED_NDIM;
    if (small && e->layout && e->dtype == dtype && e->ndim == ndim &&
        (!ndim || memcmp(e->shape, shape, ndim * sizeof *shape) == 0))
        return e->layout;
    uint32_t id = tw_agent_layout((int)dtype, ndim, shape);
    if (small && id) {
        e->layout = id;
        e->dtype = (uint8_t)dtype;
        e->ndim = (uint8_t)ndim;
        if (ndim)
            memcpy(e->shape, shape, ndim * sizeof *shape);
    }
    return id;
}

/* A record of no series counts as lost: the verdict says so. One that the level leaves out is none.
 */
static void lose_record(const char *name)
{
    const char *rest;
    if (prefixes[split_row(name, &rest)].level > tw_agent_config.level)
        return;
    struct tw_agent_item nothing = {.flags = (uint32_t)TWIN_REC_UNOBSERVED << 8};
    tw_agent_records(&nothing, 1, NULL, 0);
}

void twin_record_at(const char *file_line, const char *func, const char *name,
                    enum twin_dtype dtype, uint32_t ndim, const int64_t *shape,
                    const int64_t *strides, const void *data, uint64_t global_offset)
{
    struct entry scratch, *e;
    if (native_is_off() || !name || !tw_agent_on() || tw_agent_inside)
        return;
    struct context *c = context();
    if (!c) {
        lose_record(name);
        return;
    }
    if (!(e = find_entry(c, &scratch, name, file_line, func)))
        return;
    bool stats = tw_agent_config.level >= TW_LEVEL_TENSORS;
    struct tw_agent_item item = {.data = data,
                                 .shape = shape,
                                 .strides = strides,
                                 .count = 1,
                                 .global_offset = global_offset,
                                 .series = e->series,
                                 .flags = stats ? TW_ITEM_STATS | TW_ITEM_SKETCH : 0,
                                 .dtype = (uint16_t)dtype,
                                 .ndim = (uint16_t)ndim};
    if (!ndim)
        item.shape = NULL;
    /* threads with roles run side by side: their order among each other means nothing */
    if (c->role[0])
        item.flags |= (uint32_t)TWIN_REC_UNORDERED << 8;
    if (ndim > TWIN_MAX_NDIM || (ndim && !shape))
        item.flags |= (uint32_t)TWIN_REC_UNOBSERVED << 8;
    else
        item.layout = layout_of(e, dtype, ndim, shape);
    bool observed = !(item.flags >> 8 & TWIN_REC_UNOBSERVED);
    bool as_before = e->seen_at == data && e->seen_layout == item.layout && item.layout && !strides;
    if (observed && data && !tw_agent_readable(&item, as_before))
        item.flags |= (uint32_t)TWIN_REC_UNOBSERVED << 8;
    observed = !(item.flags >> 8 & TWIN_REC_UNOBSERVED);
    e->seen_at = observed && !strides ? data : NULL;
    e->seen_layout = item.layout;
    tw_agent_records(&item, 1, NULL, 0);
}

void(twin_record)(const char *name, enum twin_dtype dtype, uint32_t ndim, const int64_t *shape,
                  const int64_t *strides, const void *data, uint64_t global_offset)
{
    twin_record_at(NULL, NULL, name, dtype, ndim, shape, strides, data, global_offset);
}
