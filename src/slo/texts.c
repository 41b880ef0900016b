/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a history. A fleet has few commands, states and projects beside its runs, so each text
 * is kept once; and there is one block for thousands of texts in place of a piece of the heap for
 * each.
 */
#include "slo_inside.h"

#include "base.h"

#include <stdalign.h>
#include <string.h>

enum { BLOCK_BYTES = 64 << 10, FIRST_SLOTS = 1024 };

struct slo_block {
    struct slo_block *next;
    size_t used, size;
    max_align_t bytes[];
};
struct slo_slot {
    const char *text; /* NULL: free */
    uint64_t hash;
};

/* n bytes at a multiple of align. */
static void *take(struct slo_store *s, size_t n, size_t align)
{
    struct slo_block *b = s->block;
    size_t from = b ? (b->used + align - 1) / align * align : 0;
    if (!b || from > b->size || n > b->size - from) {
        const size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
        if (size > SIZE_MAX - sizeof *b || !(b = tw_malloc(sizeof *b + size)))
            return NULL;
        *b = (struct slo_block){.next = s->block, .size = size};
        s->block = b;
        from = 0;
    }
    b->used = from + n;
    return (char *)b->bytes + from;
}

void *slo_store_bytes(struct slo_store *s, size_t n)
{
    void *p = take(s, n, alignof(max_align_t));
    return p ? memset(p, 0, n) : NULL;
}

static const char *add(struct slo_store *s, const char *text, size_t n)
{
    char *copy = take(s, n + 1, 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

/* The place of a text: its own, or the free one where it belongs. There always is a free one. */
static struct slo_slot *slot_of(const struct slo_store *s, const char *text, size_t n,
                                uint64_t hash)
{
    size_t at = (size_t)hash & (s->slots - 1);
    for (; s->slot[at].text; at = (at + 1) & (s->slots - 1)) {
        const struct slo_slot *x = &s->slot[at];
        if (x->hash == hash && strncmp(x->text, text, n) == 0 && x->text[n] == '\0')
            break;
    }
    return &s->slot[at];
}

/* At most three quarters are taken. */
static bool grow(struct slo_store *s)
{
    if (s->texts < s->slots / 4 * 3)
        return true;
    struct slo_store wider = {.slots = s->slots ? 2 * s->slots : FIRST_SLOTS};
    if (!(wider.slot = tw_calloc(wider.slots, sizeof *wider.slot)))
        return false;
    for (size_t i = 0; i < s->slots; i++) {
        size_t at = (size_t)s->slot[i].hash & (wider.slots - 1);
        while (s->slot[i].text && wider.slot[at].text)
            at = (at + 1) & (wider.slots - 1);
        if (s->slot[i].text)
            wider.slot[at] = s->slot[i];
    }
    tw_free(s->slot);
    s->slot = wider.slot;
    s->slots = wider.slots;
    return true;
}

const char *slo_store_text(struct slo_store *s, const char *text, size_t most, bool shared)
{
    const size_t n = text ? strnlen(text, most) : 0;
    if (n == 0)
        return "";
    if (!shared)
        return add(s, text, n);
    if (!grow(s))
        return NULL;
    const uint64_t hash = tw_hash_bytes(text, n, 0).a;
    struct slo_slot *slot = slot_of(s, text, n, hash);
    if (!slot->text && (slot->text = add(s, text, n))) {
        slot->hash = hash;
        s->texts++;
    }
    return slot->text;
}

void slo_store_free(struct slo_store *s)
{
    for (struct slo_block *b = s->block, *next; b; b = next) {
        next = b->next;
        tw_free(b);
    }
    tw_free(s->slot);
    *s = (struct slo_store){0};
}
