/* SPDX-License-Identifier: Apache-2.0 */
/* The list of what a file of tensors holds, as its format adds to it: memory, other values, and
 * tensors, each checked against the bytes that are there and known again under another name. */
#include "tensors_inside.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory and lists */

void *tw_arena(struct twin_tensors *f, size_t bytes)
{
    enum { ROOM = 1 << 16 };
    struct block *b = f->memory;
    /* The rounding up below must not overflow. */
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!b || b->room - b->used < bytes) {
        size_t room = bytes > ROOM ? bytes : ROOM;
        b = tw_malloc(sizeof *b + room);
        if (!b)
            return NULL;
        *b = (struct block){.next = f->memory, .room = room};
        f->memory = b;
    }
    void *p = (char *)b->data + b->used;
    b->used += bytes;
    return p;
}

char *tw_arena_text(struct twin_tensors *f, const char *s, size_t n)
{
    char *copy = tw_arena(f, n + 1);
    if (copy) {
        memcpy(copy, s, n);
        copy[n] = '\0';
    }
    return copy;
}

/* Linear, because the list is short. */
int tw_tensors_skip(struct twin_tensors *f, const char *name)
{
    enum { MAX_NAMES = 64 };
    for (size_t i = 0; i < f->skipped_count; i++)
        if (strcmp(f->skipped[i], name) == 0)
            return 0;
    if (f->skipped_count == MAX_NAMES)
        return 0;
    /* The list grows one by one: it never has more than MAX_NAMES. */
    const char **grown = tw_reallocarray(f->skipped, f->skipped_count + 1, sizeof *grown);
    if (grown)
        f->skipped = grown;
    char *copy = grown ? tw_arena_text(f, name, strlen(name)) : NULL;
    if (!copy)
        return TWIN_ENOMEM;
    f->skipped[f->skipped_count++] = copy;
    return 0;
}

bool tw_tensors_wants_values(const struct twin_tensors *f)
{
    return f->wants_values;
}

void tw_tensors_budget(struct twin_tensors *f, uint64_t bytes, uint64_t each)
{
    f->budget = TW_LIST_FREE_BYTES + bytes * each;
}

/* Twice the entry, because a table that grows by doubling may have as much room again; and what the
 * arena may waste on alignment. */
int tw_tensors_charge(struct twin_tensors *f, size_t entry, size_t texts, struct twin_error *err)
{
    f->charged += 2 * (uint64_t)entry + texts + 2 * sizeof(max_align_t);
    if (f->budget == 0 || f->charged <= f->budget)
        return 0;
    return twin_error_set(
        err, TWIN_ELIMIT,
        "%s: the list of what it holds would need more than %llu MiB: too much for its size",
        f->source.name, (unsigned long long)(f->budget >> 20));
}

int tw_tensors_value(struct twin_tensors *f, const struct twin_tensors_value *v,
                     struct twin_error *err)
{
    int over = tw_tensors_charge(f, sizeof *v, strlen(v->name) + (v->text ? v->text_bytes : 0),
                                 err);
    if (over)
        return over;
    if (f->values == f->value_room) {
        const size_t room = f->value_room ? 2 * f->value_room : 64;
        struct twin_tensors_value *grown = tw_reallocarray(f->value, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "for the list of %s", f->source.name);
        f->value = grown;
        f->value_room = room;
    }
    struct twin_tensors_value copy = *v;
    copy.name = tw_arena_text(f, v->name, strlen(v->name));
    copy.text = v->text ? tw_arena_text(f, v->text, v->text_bytes) : NULL;
    if (!copy.name || (v->text && !copy.text))
        return tw_no_memory(err, "for the list of %s", f->source.name);
    f->value[f->values++] = copy;
    return 0;
}

const struct tw_source *tw_tensors_source(const struct twin_tensors *f)
{
    return &f->source;
}

/* ---- adding a tensor */

/* Elements and span in elements of a shape; false when they do not fit. */
static bool measure_shape(const struct tw_found *t, uint64_t *count, uint64_t *span)
{
    /* An empty tensor has no elements whatever its other sizes are, which may not overflow then. */
    *count = 1;
    *span = 1;
    bool empty = false;
    for (uint32_t d = 0; d < t->ndim; d++)
        empty |= t->shape[d] == 0;
    for (uint32_t d = 0; d < t->ndim; d++) {
        if (t->shape[d] < 0 || (!t->dense && t->strides[d] < 0))
            return false;
        if (empty)
            continue;
        if (__builtin_mul_overflow(*count, (uint64_t)t->shape[d], count))
            return false;
        uint64_t far;
        if (!t->dense &&
            (__builtin_mul_overflow((uint64_t)t->shape[d] - 1, (uint64_t)t->strides[d], &far) ||
             __builtin_add_overflow(*span, far, span)))
            return false;
    }
    if (empty)
        *count = *span = 0;
    else if (t->dense)
        *span = *count;
    return *count <= INT64_MAX / 16 && *span <= INT64_MAX / 16;
}

/* Are these the strides of a dense row-major tensor? Those of dimensions of size 1 do not matter.
 */
static bool is_row_major(const struct tw_found *t)
{
    int64_t expected = 1;
    for (uint32_t d = t->ndim; d-- > 0;) {
        if (t->shape[d] == 0)
            return true;
        if (t->shape[d] != 1 && t->strides[d] != expected)
            return false;
        expected *= t->shape[d];
    }
    return true;
}

/* Of everything that same_place() compares but swap and strides. */
static uint64_t place_hash(const struct stored *s)
{
    uint64_t h = tw_mix64(s->piece.at ^ tw_mix64(s->offset) ^ (uint64_t)s->entry.dtype << 56);
    for (uint32_t d = 0; d < s->entry.ndim; d++)
        h = tw_mix64(h ^ (uint64_t)s->entry.shape[d]);
    return h;
}

/* Do both show the same elements of the same bytes? */
static bool same_place(const struct stored *a, const struct stored *b)
{
    size_t n = a->entry.ndim * sizeof(int64_t);
    return a->piece.at == b->piece.at && a->offset == b->offset &&
           a->entry.dtype == b->entry.dtype && a->entry.ndim == b->entry.ndim &&
           a->swap == b->swap && memcmp(a->entry.shape, b->entry.shape, n) == 0 &&
           !a->strides == !b->strides && (!a->strides || memcmp(a->strides, b->strides, n) == 0);
}

/* Nothing shares an empty tensor: a million of them, all at one place, would make one long chain in
 * the table. */
static bool has_place(const struct twin_tensors_entry *e)
{
    return e->count > 0 && !e->unreadable;
}

/* Doubles the list and makes the hash table of places anew, at most half full. */
static int grow_list(struct twin_tensors *f, struct twin_error *err)
{
    if (f->count == TW_MAX_TENSORS)
        return twin_error_set(err, TWIN_ELIMIT, "%s: more than %d tensors", f->source.name,
                              TW_MAX_TENSORS);
    size_t room = f->room ? 2 * f->room : 16;
    struct stored *grown = tw_reallocarray(f->tensor, room, sizeof *grown);
    if (grown)
        f->tensor = grown;
    size_t *table = tw_calloc(2 * room, sizeof *table);
    if (!grown || !table) {
        tw_free(table);
        return tw_no_memory(err, "for the list of %s", f->source.name);
    }
    tw_free(f->by_place);
    f->by_place = table;
    f->places = 2 * room;
    f->room = room;
    for (size_t i = 0; i < f->count; i++)
        if (f->tensor[i].entry.alias_of == i && has_place(&f->tensor[i].entry)) {
            size_t at = place_hash(&f->tensor[i]) % f->places;
            while (table[at])
                at = (at + 1) % f->places;
            table[at] = i + 1;
        }
    return 0;
}

/* The first entry that shows the same, or the new one's own index, which is noted. */
static size_t find_alias(struct twin_tensors *f, const struct stored *s)
{
    if (!has_place(&s->entry))
        return f->count;
    size_t at = place_hash(s) % f->places;
    for (; f->by_place[at]; at = (at + 1) % f->places)
        if (same_place(&f->tensor[f->by_place[at] - 1], s))
            return f->by_place[at] - 1;
    f->by_place[at] = f->count + 1;
    return f->count;
}

/* Nothing of *t is kept but its texts. A tensor with `unreadable` is listed without its bytes being
 * checked. */
int tw_tensors_add(struct twin_tensors *f, const struct tw_found *t, struct twin_error *err)
{
    /* First the shape, then what the entry will cost, then the bytes: nothing is allocated for a
     * tensor that cannot be. */
    uint64_t count, span, size = twin_dtype_size(t->dtype);
    if (t->ndim > TWIN_MAX_NDIM || !measure_shape(t, &count, &span))
        return twin_error_set(err, TWIN_EFORMAT, "%s: tensor %s has an impossible shape",
                              f->source.name, t->name);
    int over = tw_tensors_charge(f, sizeof(struct stored) + 2 * sizeof *f->by_place,
                                 strlen(t->name) + 2 * t->ndim * sizeof(int64_t), err);
    if (over)
        return over;
    if (f->count == f->room) {
        int rc = grow_list(f, err);
        if (rc != 0)
            return rc;
    }
    struct stored s = {
        .swap = t->swap && size > 1, .piece = t->piece, .offset = t->offset, .span = span * size};
    const char *why = t->unreadable;
    if (!why && (t->offset > t->piece.bytes || s.span > t->piece.bytes - t->offset))
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: tensor %s needs %llu bytes from byte %llu on, but only %llu are stored",
            f->source.name, t->name, (unsigned long long)s.span, (unsigned long long)t->offset,
            (unsigned long long)t->piece.bytes);
    /* With strides of 0 a few bytes can stand for any number of elements. */
    if (!why && count * size > MAX_WHOLE && count > 64 * span)
        why = "it repeats a few stored elements very often";
    s.entry = (struct twin_tensors_entry){.name = t->name,
                                          .stored_as = t->stored_as,
                                          .dtype = t->dtype,
                                          .unreadable = why,
                                          .ndim = t->ndim,
                                          .count = count,
                                          .bytes = count * size};
    /* Shape and strides in one piece of memory; strides only when they are needed. */
    bool dense = t->dense || is_row_major(t);
    int64_t *numbers = tw_arena(f, (2 * t->ndim + 1) * sizeof *numbers);
    if (!numbers)
        return tw_no_memory(err, "for the list of %s", f->source.name);
    memcpy(numbers, t->shape, t->ndim * sizeof *numbers);
    s.entry.shape = numbers;
    if (!dense) {
        memcpy(numbers + t->ndim, t->strides, t->ndim * sizeof *numbers);
        s.strides = numbers + t->ndim;
    }
    s.entry.alias_of = find_alias(f, &s);
    f->tensor[f->count++] = s;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two parts of a model may both claim one tensor, and nobody could say which of them counts. */
int tw_tensors_check_names(const struct twin_tensors *f, struct twin_error *err)
{
    const size_t n = twin_tensors_count(f);
    const char **name = tw_calloc(n + 1, sizeof *name);
    int rc = name ? 0 : tw_no_memory(err, "for the list of %s", f->source.name);
    for (size_t i = 0; i < n && rc == 0; i++)
        name[i] = twin_tensors_at(f, i)->name;
    if (rc == 0)
        qsort(name, n, sizeof *name, by_name);
    for (size_t i = 1; i < n && rc == 0; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            rc = twin_error_set(err, TWIN_EFORMAT,
                                "%s: two files hold a tensor %s: which of them counts?",
                                f->source.name, name[i]);
    tw_free(name);
    return rc;
}
