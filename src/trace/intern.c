/* SPDX-License-Identifier: Apache-2.0 */
/* Strings, series, layouts and keys of the job, each kept once and known by a small number. Called
 * by the agents when they meet a name for the first time; the drain thread writes to the file what
 * is new (blocks.c).
 *
 * Each kind has a table (struct tw_table). Items are never moved or changed, so record.c reads them
 * without a lock; appending is done under intern_lock, and an item becomes visible when `count` is
 * released. A key is what two runs have in common of a series: phase, kind, name, scope, role,
 * without operation and site. All series of one key share its counter of occurrences.
 *
 * What cannot be kept (no memory, a full table, ids that do not exist) gives id 0 and counts as
 * lost. errno is the job's and stays as it was. */
#include "writer.h"

#include <errno.h>
#include <string.h>

/* A mapping that holds what was interned; the room behind the header is given out from the front.
 */
struct tw_pool_piece {
    struct tw_pool_piece *before;
    size_t bytes, used; /* header included */
};
#define POOL_PIECE ((size_t)64 << 10)

/* Zeroed memory that stays until the writer is freed; NULL when there is none. intern_lock is held.
 * Not by malloc, which gives the calling thread an arena of addresses (src/base/room.c). */
static void *keep(struct twin_writer *w, size_t bytes)
{
    struct tw_pool_piece *p = w->pool;
    size_t room = (bytes + 7) / 8 * 8;
    if (tw_alloc_refused())
        return NULL;
    if (!p || p->bytes - p->used < room) {
        size_t all = sizeof *p + room > POOL_PIECE ? sizeof *p + room : POOL_PIECE;
        p = tw_room_map(all);
        if (!p)
            return NULL;
        *p = (struct tw_pool_piece){.before = w->pool, .bytes = all, .used = sizeof *p};
        w->pool = p;
    }
    p->used += room;
    return (char *)p + p->used - room;
}

static void free_pool(struct twin_writer *w)
{
    for (struct tw_pool_piece *p = w->pool, *before; p; p = before) {
        before = p->before;
        tw_room_unmap(p, p->bytes);
    }
    w->pool = NULL;
}

/* Doubles the hash table and enters all ids again. 0 or TWIN_ENOMEM, with the old table in force.
 */
static int grow_slots(struct twin_writer *w, struct tw_table *t,
                      uint32_t (*hash_of)(const void *item))
{
    uint32_t n = t->slot_count ? t->slot_count * 2 : 256;
    uint32_t *slots = keep(w, n * sizeof *slots);
    if (!slots)
        return TWIN_ENOMEM;
    uint32_t count = atomic_load_explicit(&t->count, memory_order_relaxed);
    for (uint32_t id = 1; id <= count; id++) {
        uint32_t i = hash_of(tw_table_at(t, id)) & (n - 1);
        while (slots[i])
            i = (i + 1) & (n - 1);
        slots[i] = id;
    }
    t->slots = slots;
    t->slot_count = n;
    return 0;
}

/* Finds an equal item, or makes room for a new one; *fresh says which. Returns the id, 0 when there
 * is no room. A fresh id is not visible to others before commit_item(). The table is kept at most
 * half full. */
static uint32_t find_item(struct twin_writer *w, struct tw_table *t, const void *item,
                          uint32_t (*hash_of)(const void *),
                          bool (*same)(const void *, const void *), bool *fresh)
{
    uint32_t count = atomic_load_explicit(&t->count, memory_order_relaxed);
    *fresh = false;
    if (t->slot_count) {
        for (uint32_t i = hash_of(item) & (t->slot_count - 1); t->slots[i];
             i = (i + 1) & (t->slot_count - 1))
            if (same(tw_table_at(t, t->slots[i]), item))
                return t->slots[i];
    }
    if (count >= TW_TABLE_MAX || (count * 2 >= t->slot_count && grow_slots(w, t, hash_of) != 0))
        return 0;
    _Atomic(char *) *chunk = &t->chunk[count / TW_CHUNK];
    char *room = atomic_load_explicit(chunk, memory_order_relaxed);
    if (!room) {
        room = keep(w, TW_CHUNK * t->item);
        if (!room)
            return 0;
        atomic_store_explicit(chunk, room, memory_order_relaxed);
    }
    *fresh = true;
    return count + 1;
}

/* Copies the item to its place, enters it into the hash table and makes it visible. */
static void commit_item(struct tw_table *t, uint32_t id, const void *item, uint32_t hash)
{
    memcpy(tw_table_at(t, id), item, t->item);
    uint32_t i = hash & (t->slot_count - 1);
    while (t->slots[i])
        i = (i + 1) & (t->slot_count - 1);
    t->slots[i] = id;
    atomic_store_explicit(&t->count, id, memory_order_release);
}

static uint32_t string_hash(const void *item)
{
    return (uint32_t)((const struct tw_string_item *)item)->hash.a;
}
static uint32_t layout_hash(const void *item)
{
    return (uint32_t)((const struct tw_layout_item *)item)->hash.a;
}
static uint32_t key_hash(const void *item)
{
    return (uint32_t)((const struct tw_key_item *)item)->hash.a;
}
static uint32_t series_hash(const void *item)
{
    return ((const struct tw_series_item *)item)->hash;
}

static bool same_string(const void *x, const void *y)
{
    const struct tw_string_item *a = x, *b = y;
    return a->hash.a == b->hash.a && a->hash.b == b->hash.b && a->n == b->n &&
           memcmp(a->bytes, b->bytes, a->n) == 0;
}

static bool same_layout(const void *x, const void *y)
{
    const struct tw_layout_item *a = x, *b = y;
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->shape, b->shape, 8u * a->ndim) == 0);
}

static bool same_key(const void *x, const void *y)
{
    const struct tw_key_item *a = x, *b = y;
    return a->phase == b->phase && a->kind == b->kind && a->name == b->name &&
           a->scope == b->scope && a->role == b->role;
}

static bool same_series(const void *x, const void *y)
{
    const struct twin_series *a = &((const struct tw_series_item *)x)->s;
    const struct twin_series *b = &((const struct tw_series_item *)y)->s;
    return a->phase == b->phase && a->kind == b->kind && a->name == b->name &&
           a->scope == b->scope && a->role == b->role && a->op == b->op && a->site == b->site;
}

/* Counts what the trace will lack; returns the id that says so. */
static uint32_t lose_item(struct twin_writer *w)
{
    atomic_fetch_add_explicit(&w->lost, 1, memory_order_relaxed);
    return 0;
}

/* The id of a string, cut to TW_STRING_MAX bytes. The empty string is id 0 and never stored. */
uint32_t twin_writer_string(struct twin_writer *w, const char *s, size_t bytes)
{
    if (!tw_writer_on(w) || !s || bytes == 0)
        return 0;
    int saved = errno;
    bool fresh;
    struct tw_string_item item = {.bytes = s,
                                  .n = bytes < TW_STRING_MAX ? (uint32_t)bytes : TW_STRING_MAX};
    item.hash = tw_trace_string_hash(s, item.n);
    pthread_mutex_lock(&w->intern_lock);
    uint32_t id = find_item(w, &w->strings, &item, string_hash, same_string, &fresh);
    if (id && fresh) {
        char *copy = keep(w, item.n);
        if (copy) {
            memcpy(copy, s, item.n);
            item.bytes = copy;
            commit_item(&w->strings, id, &item, string_hash(&item));
        } else {
            id = 0;
        }
    }
    pthread_mutex_unlock(&w->intern_lock);
    errno = saved;
    return id ? id : lose_item(w);
}

uint32_t twin_writer_layout(struct twin_writer *w, uint8_t dtype, uint32_t ndim,
                            const int64_t *shape)
{
    if (!tw_writer_on(w))
        return 0;
    if (ndim > TWIN_MAX_NDIM || (ndim && !shape))
        return lose_item(w);
    int saved = errno;
    bool fresh;
    int64_t copy[TWIN_MAX_NDIM];
    if (ndim)
        memcpy(copy, shape, ndim * sizeof *copy);
    struct tw_layout_item item = {.hash = tw_trace_layout_hash(dtype, (uint8_t)ndim, copy),
                                  .dtype = dtype,
                                  .ndim = (uint8_t)ndim,
                                  .shape = copy};
    pthread_mutex_lock(&w->intern_lock);
    uint32_t id = find_item(w, &w->layouts, &item, layout_hash, same_layout, &fresh);
    if (id && fresh) {
        item.shape = keep(w, ndim * sizeof *copy);
        if (item.shape) {
            memcpy(item.shape, copy, ndim * sizeof *copy);
            commit_item(&w->layouts, id, &item, layout_hash(&item));
        } else {
            id = 0;
        }
    }
    pthread_mutex_unlock(&w->intern_lock);
    errno = saved;
    return id ? id : lose_item(w);
}

static struct tw_hash128 hash_of_id(struct twin_writer *w, uint32_t id)
{
    return id ? ((struct tw_string_item *)tw_table_at(&w->strings, id))->hash
              : tw_trace_string_hash("", 0);
}

/* The key of a series, made when it is new; NULL when there is no room. intern_lock is held. The
 * hash is made of the hashes of the strings, not of their ids: ids differ from run to run. */
static struct tw_key_item *key_of(struct twin_writer *w, const struct twin_series *s)
{
    struct tw_key_item item = {
        .name = s->name, .scope = s->scope, .role = s->role, .phase = s->phase, .kind = s->kind};
    bool fresh;
    item.hash = tw_trace_key_hash(s->phase, s->kind, hash_of_id(w, s->name),
                                  hash_of_id(w, s->scope), hash_of_id(w, s->role));
    uint32_t id = find_item(w, &w->keys, &item, key_hash, same_key, &fresh);
    if (id && fresh)
        commit_item(&w->keys, id, &item, key_hash(&item));
    return id ? tw_table_at(&w->keys, id) : NULL;
}

/* All strings of the series must be interned already; a series without a name is refused. */
uint32_t twin_writer_series(struct twin_writer *w, const struct twin_series *s)
{
    if (!tw_writer_on(w))
        return 0;
    const uint32_t ids[] = {s->name, s->scope, s->role, s->op, s->site};
    bool valid = s->name != 0 && s->phase < TWIN_PHASE_COUNT && s->kind < TWIN_KIND_COUNT;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        valid = valid && (ids[i] == 0 || tw_table_has(&w->strings, ids[i]));
    if (!valid)
        return lose_item(w);
    int saved = errno;
    bool fresh;
    struct tw_series_item item = {.s = *s};
    uint64_t h = (uint64_t)s->phase << 8 | s->kind;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        h = tw_mix64(h ^ ids[i]);
    item.hash = (uint32_t)h;
    pthread_mutex_lock(&w->intern_lock);
    uint32_t id = find_item(w, &w->series, &item, series_hash, same_series, &fresh);
    if (id && fresh) {
        item.key = key_of(w, s);
        if (item.key)
            commit_item(&w->series, id, &item, item.hash);
        else
            id = 0;
    }
    pthread_mutex_unlock(&w->intern_lock);
    errno = saved;
    return id ? id : lose_item(w);
}

static void free_notes(struct tw_note_node *n)
{
    for (struct tw_note_node *next; n; n = next) {
        next = n->next;
        tw_free(n);
    }
}

/* Appends a note to the list that the drain thread takes. Key and value are cut to their limits.
 * Notes that were written are freed here: a thread that frees gets an arena of malloc, 64 MiB of
 * addresses, and the drain thread needs none. */
void twin_writer_note(struct twin_writer *w, const char *key, const char *value)
{
    if (!tw_writer_on(w) || !key || !value)
        return;
    int saved = errno;
    uint32_t k = (uint32_t)strnlen(key, TW_NOTE_KEY_MAX);
    uint32_t v = (uint32_t)strnlen(value, TW_STRING_MAX);
    struct tw_note_node *n = tw_malloc(sizeof *n + k + v);
    if (n) {
        n->next = NULL;
        n->key_bytes = k;
        n->value_bytes = v;
        memcpy(n->bytes, key, k);
        memcpy(n->bytes + k, value, v);
        pthread_mutex_lock(&w->intern_lock);
        *w->notes_end = n;
        w->notes_end = &n->next;
        struct tw_note_node *written = w->notes_written;
        w->notes_written = NULL;
        atomic_store_explicit(&w->notes_waiting, true, memory_order_release);
        pthread_mutex_unlock(&w->intern_lock);
        free_notes(written);
    } else {
        lose_item(w);
    }
    errno = saved;
}

int tw_intern_init(struct twin_writer *w)
{
    w->strings.item = sizeof(struct tw_string_item);
    w->keys.item = sizeof(struct tw_key_item);
    w->series.item = sizeof(struct tw_series_item);
    w->layouts.item = sizeof(struct tw_layout_item);
    w->notes_end = &w->notes;
    return pthread_mutex_init(&w->intern_lock, NULL);
}

static void forget_notes(struct twin_writer *w)
{
    free_notes(w->notes);
    free_notes(w->notes_written);
    w->notes = w->notes_written = NULL;
    w->notes_end = &w->notes;
    atomic_store(&w->notes_waiting, false);
}

void tw_intern_restart(struct twin_writer *w)
{
    forget_notes(w);
    uint32_t n = atomic_load(&w->keys.count);
    for (uint32_t id = 1; id <= n; id++) {
        struct tw_key_item *k = tw_table_at(&w->keys, id);
        atomic_store_explicit(&k->occurrences[0], 0, memory_order_relaxed);
        atomic_store_explicit(&k->occurrences[1], 0, memory_order_relaxed);
    }
}

/* Frees everything; no thread uses the writer any more. */
void tw_intern_fini(struct twin_writer *w)
{
    forget_notes(w);
    free_pool(w);
    pthread_mutex_destroy(&w->intern_lock);
}
