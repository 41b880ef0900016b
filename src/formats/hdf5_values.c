/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of HDF5: texts and single numbers as values, the rest as bytes. hdf5.c calls
 * tw_hdf5_read_attribute(). */
#include "hdf5.h"

#include <string.h>

static int add_value(struct hdf5 *h, const char *name, size_t n, long index,
                     struct twin_tensors_value v)
{
    const char *path = h->path.len ? h->path.data : "";
    char *full;
    if (index < 0)
        full = tw_printf("%s@%.*s", path, (int)n, name);
    else
        full = tw_printf("%s@%.*s[%ld]", path, (int)n, name, index);
    if (!full)
        return tw_no_memory(h->err, "for a name");
    v.name = full;
    int rc = tw_tensors_value(h->f, &v, h->err);
    tw_free(full);
    return rc;
}

/* The text that element `c` of a list points to, in a heap that many share. *text: the caller's to
 * free; it holds n bytes and a NUL. */
static int heap_text(struct hdf5 *h, struct cursor *c, char **text, size_t *n)
{
    enum { HEAP_HEAD = 8, OBJECT_HEAD = 8 };
    const uint64_t bytes = tw_hdf5_number(c, 4), at = tw_hdf5_address(h, c),
                   index = tw_hdf5_number(c, 4);
    unsigned char head[HEAP_HEAD + 8], *heap = NULL;
    *text = NULL;
    *n = 0;
    if (c->bad)
        return tw_hdf5_damaged(h, "an attribute ends too early");
    if (bytes == 0 || at == TW_HDF5_NOWHERE) {
        *text = tw_strdup("");
        return *text ? 0 : tw_no_memory(h->err, "for a text");
    }
    int rc = tw_hdf5_read_bytes(h, at, head, HEAP_HEAD + h->length_bytes);
    if (rc)
        return rc;
    struct cursor size = {head + HEAP_HEAD, head + HEAP_HEAD + h->length_bytes, false};
    if (memcmp(head, "GCOL", 4) != 0)
        return tw_hdf5_damaged(h, "an attribute points to no heap");
    const uint64_t whole = tw_hdf5_number(&size, h->length_bytes);
    rc = tw_hdf5_read_block(h, at, whole, &heap);
    if (rc)
        return rc;
    /* Objects follow one another up to number 0, which is what is left free. */
    struct cursor objects = {heap, heap + whole, false};
    tw_hdf5_take(&objects, HEAP_HEAD + h->length_bytes);
    while (!objects.bad && objects.at < objects.end) {
        const uint64_t is = tw_hdf5_number(&objects, 2);
        tw_hdf5_take(&objects, OBJECT_HEAD - 2);
        const uint64_t has = tw_hdf5_number(&objects, h->length_bytes);
        if (objects.bad || is == 0 || has > (uint64_t)(objects.end - objects.at))
            break;
        if (is == index && bytes <= has) {
            *text = tw_strndup((const char *)objects.at, bytes);
            *n = *text ? strlen(*text) : 0;
            rc = *text ? 0 : tw_no_memory(h->err, "for a text");
            break;
        }
        tw_hdf5_take(&objects, (has + 7) / 8 * 8 <= (uint64_t)(objects.end - objects.at)
                                   ? (has + 7) / 8 * 8
                                   : has);
    }
    tw_free(heap);
    if (rc == 0 && !*text)
        rc = tw_hdf5_damaged(h, "a heap does not have what an attribute points to");
    return rc;
}

/* One number of a type that we know, as a value. false: no such type. */
static bool number_value(const unsigned char *p, const struct type *t, struct twin_tensors_value *v)
{
    unsigned char b[8];
    float f;
    if (t->dtype == TWIN_BYTES || t->size > 8)
        return false;
    for (uint32_t i = 0; i < t->size; i++)
        b[i] = p[t->swap ? t->size - 1 - i : i];
    uint64_t bits = tw_hdf5_number(&(struct cursor){b, b + t->size, false}, t->size);
    v->kind = TWIN_VALUE_INT;
    if (t->dtype == TWIN_F64 || t->dtype == TWIN_F32) {
        v->kind = TWIN_VALUE_FLOAT;
        if (t->dtype == TWIN_F64) {
            memcpy(&v->real, &bits, sizeof v->real);
        } else {
            uint32_t low = (uint32_t)bits;
            memcpy(&f, &low, sizeof f);
            v->real = (double)f;
        }
        return true;
    }
    if (t->class == CLASS_FLOAT || (t->dtype == TWIN_U64 && bits > INT64_MAX))
        return false;
    if (t->dtype == TWIN_BOOL)
        v->kind = TWIN_VALUE_TRUTH;
    /* The sign of a shorter number is carried on. */
    if (t->class == CLASS_INTEGER && (t->bits & 8) && t->size < 8 && bits >> (8 * t->size - 1))
        bits |= UINT64_MAX << (8 * t->size);
    v->number = (int64_t)bits;
    return true;
}

/* An attribute's elements as values: texts and single numbers as such, the rest as bytes. */
static int attribute_values(struct hdf5 *h, const char *name, size_t n, const struct type *t,
                            const struct object *space, struct cursor *c)
{
    struct twin_tensors_value v = {.kind = TWIN_VALUE_BYTES};
    const bool one = space->ndim == 0;
    const uint64_t entry = 4 + h->offset_bytes + 4;
    int rc = 0;
    if (t->class == CLASS_LIST) {
        if (space->elements > (uint64_t)(c->end - c->at) / entry)
            return tw_hdf5_damaged(h, "an attribute ends too early");
        for (uint64_t i = 0; i < space->elements && rc == 0; i++) {
            char *text;
            rc = heap_text(h, c, &text, &v.text_bytes);
            v.kind = TWIN_VALUE_TEXT;
            v.text = text;
            const long index = one ? -1 : (long)i;
            rc = rc ? rc : add_value(h, name, n, index, v);
            tw_free(text);
        }
        return rc;
    }
    if (space->elements > 0 && t->size > (uint64_t)(c->end - c->at) / space->elements)
        return tw_hdf5_damaged(h, "an attribute ends too early");
    const unsigned char *p = tw_hdf5_take(c, space->elements * t->size);
    if (one && space->elements == 1 && number_value(p, t, &v))
        return add_value(h, name, n, -1, v);
    for (uint64_t i = 0; t->class == CLASS_TEXT && i < space->elements && rc == 0; i++) {
        v.kind = TWIN_VALUE_TEXT;
        v.text = (const char *)p + i * t->size;
        v.text_bytes = strnlen(v.text, t->size);
        rc = add_value(h, name, n, one ? -1 : (long)i, v);
    }
    if (t->class == CLASS_TEXT)
        return rc;
    v.text = (const char *)p;
    v.text_bytes = space->elements * t->size;
    return add_value(h, name, n, -1, v);
}

/* Is this Keras's word for weights that h5py writes as two opaque bytes each? */
static int note_bfloat16(struct hdf5 *h, const struct type *t, struct cursor data, struct object *o)
{
    char *text = NULL;
    size_t n;
    if (t->class != CLASS_LIST || !t->text)
        return 0;
    int rc = heap_text(h, &data, &text, &n);
    o->bfloat16 = rc == 0 && strcmp(text, "bfloat16") == 0;
    tw_free(text);
    return rc;
}

int tw_hdf5_read_attribute(struct hdf5 *h, struct cursor c, struct object *o)
{
    const uint64_t version = tw_hdf5_number(&c, 1), flags = tw_hdf5_number(&c, 1);
    const uint64_t name_bytes = tw_hdf5_number(&c, 2), type_bytes = tw_hdf5_number(&c, 2);
    const uint64_t space_bytes = tw_hdf5_number(&c, 2);
    struct object space = {0};
    if (version == 3)
        tw_hdf5_take(&c, 1); /* the character set of the name */
    if (version < 1 || version > 3)
        return tw_hdf5_unsupported(h, "an attribute of an unknown version");
    if (version > 1 && (flags & 3))
        return tw_hdf5_unsupported(h, "an attribute whose type is shared with others");
    struct cursor name = tw_hdf5_part_of(&c, name_bytes, version == 1);
    struct cursor type_at = tw_hdf5_part_of(&c, type_bytes, version == 1);
    struct cursor space_at = tw_hdf5_part_of(&c, space_bytes, version == 1);
    if (c.bad || name_bytes == 0)
        return tw_hdf5_damaged(h, "an attribute ends too early");
    const struct type t = tw_hdf5_read_type(&type_at);
    if (type_at.bad || !tw_hdf5_read_space(h, &space_at, &space))
        return tw_hdf5_damaged(h, "an attribute has no type or shape");
    const size_t n = strnlen((const char *)name.at, name_bytes);
    if (n == strlen("dtype") && memcmp(name.at, "dtype", n) == 0 && space.ndim == 0) {
        int rc = note_bfloat16(h, &t, c, o);
        if (rc)
            return rc;
    }
    if (!tw_tensors_wants_values(h->f))
        return 0;
    if (t.class == CLASS_LIST && !t.text) /* places in this very file */
        return tw_tensors_skip(h->f, "lists of variable length") == 0
                   ? 0
                   : tw_no_memory(h->err, "for a name");
    return attribute_values(h, (const char *)name.at, n, &t, &space, &c);
}
