/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: a length of 8 bytes, a JSON object, and the tensors' bytes, which the object covers without a gap. */
#include "internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER ((uint64_t)100000000) /* the format's own limit */

struct range { uint64_t begin, end; };

static int bad(const struct twin_tensors *f, const char *name, const char *what, struct twin_error *err)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: damaged safetensors header: %s%s%s", tw_tensors_source(f)->name, name, *name ? ": " : "", what);
}

static void set_type(struct tw_found *t)
{
    static const struct { const char *name; enum twin_dtype dtype; } types[] = {
        {"F64", TWIN_F64}, {"F32", TWIN_F32}, {"F16", TWIN_F16}, {"BF16", TWIN_BF16}, {"I64", TWIN_I64}, {"I32", TWIN_I32}, {"I16", TWIN_I16},
        {"I8", TWIN_I8}, {"U64", TWIN_U64}, {"U32", TWIN_U32}, {"U16", TWIN_U16}, {"U8", TWIN_U8}, {"BOOL", TWIN_BOOL}, {"C64", TWIN_C64},
        {"F8_E4M3", TWIN_F8_E4M3FN}, {"F8_E5M2", TWIN_F8_E5M2}};
    t->dtype = TWIN_BYTES;
    t->unreadable = "its elements are of a type that twinrun does not know";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(t->stored_as, types[i].name) == 0) {
            t->dtype = types[i].dtype;
            t->unreadable = NULL;
        }
}

static int add_tensor(struct twin_tensors *f, const char *name, json_t *j, uint64_t data, struct range *range, struct twin_error *err)
{
    const struct tw_source *s = tw_tensors_source(f);
    const char *type = json_string_value(json_object_get(j, "dtype"));
    json_t *shape = json_object_get(j, "shape"), *offsets = json_object_get(j, "data_offsets"), *v;
    json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    struct tw_found t = {.dense = true};
    size_t i;
    if (!type || !json_is_array(shape) || json_array_size(shape) > TWIN_MAX_NDIM || json_array_size(offsets) != 2 || !json_is_integer(first) ||
        !json_is_integer(last) || json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first))
        return bad(f, name, "expected dtype, shape and data_offsets", err);
    json_array_foreach(shape, i, v) {
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return bad(f, name, "a size that is no number", err);
        t.shape[t.ndim++] = json_integer_value(v);
    }
    *range = (struct range){(uint64_t)json_integer_value(first), (uint64_t)json_integer_value(last)};
    if (range->end > s->size - data)
        return bad(f, name, "its bytes lie behind the end of the file", err);
    t.name = tw_arena_text(f, name, strlen(name));
    t.stored_as = tw_arena_text(f, type, strlen(type));
    if (!t.name || !t.stored_as)
        return twin_error_set(err, TWIN_ENOMEM, "%s: no memory for its list", s->name);
    set_type(&t);
    t.piece = (struct tw_piece){.at = data + range->begin, .packed = range->end - range->begin, .bytes = range->end - range->begin};
    int rc = tw_tensors_add(f, &t, err);
    if (rc == 0 && !t.unreadable && twin_tensors_at(f, twin_tensors_count(f) - 1)->bytes != t.piece.bytes)
        rc = bad(f, name, "its shape and its bytes do not fit", err);
    return rc;
}

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int add_metadata(struct twin_tensors *f, json_t *j, struct twin_error *err)
{
    const char *key;
    json_t *v;
    int rc = 0;
    json_object_foreach(j, key, v) {
        char *name = tw_tensors_wants_values(f) && rc == 0 && json_is_string(v) ? tw_printf("__metadata__/%s", key) : NULL;
        if (name)
            rc = tw_tensors_value(f, &(struct twin_tensors_value){.name = name, .kind = TWIN_VALUE_TEXT, .text = json_string_value(v), .text_bytes = json_string_length(v)}, err);
        tw_free(name);
    }
    return rc;
}

static int add_all(struct twin_tensors *f, json_t *header, uint64_t data, struct twin_error *err)
{
    const char *name;
    json_t *j;
    size_t n = 0;
    struct range *range = tw_calloc(json_object_size(header) + 1, sizeof *range);
    int rc = range ? 0 : twin_error_set(err, TWIN_ENOMEM, "%s: no memory", tw_tensors_source(f)->name);
    json_object_foreach(header, name, j) {
        if (rc != 0)
            break;
        rc = strcmp(name, "__metadata__") == 0 ? add_metadata(f, j, err) : add_tensor(f, name, j, data, &range[n++], err);
    }
    if (rc == 0)
        qsort(range, n, sizeof *range, by_begin);
    uint64_t at = 0;
    for (size_t i = 0; rc == 0 && i < n; at = range[i++].end)
        if (range[i].begin != at)
            rc = bad(f, "", "tensors overlap, or leave a gap", err);
    if (rc == 0 && at != tw_tensors_source(f)->size - data)
        rc = bad(f, "", "the file is longer or shorter than its tensors", err);
    tw_free(range);
    return rc;
}

int tw_safetensors_list(struct twin_tensors *f, struct twin_error *err)
{
    const struct tw_source *s = tw_tensors_source(f);
    unsigned char length[8];
    json_error_t why;
    int rc = tw_source_read(s, 0, length, 8, err);
    if (rc != 0)
        return rc;
    uint64_t n = tw_le64(length);
    if (n > MAX_HEADER || n > s->size - 8)
        return bad(f, "", "its length makes no sense", err);
    char *text = tw_malloc(n + 1);
    if (!text)
        return twin_error_set(err, TWIN_ENOMEM, "%s: no memory for its header", s->name);
    rc = tw_source_read(s, 8, text, n, err);
    json_t *header = rc == 0 ? json_loadb(text, n, JSON_REJECT_DUPLICATES, &why) : NULL;
    if (rc == 0 && !json_is_object(header))
        rc = bad(f, "", header ? "expected an object" : why.text, err);
    if (rc == 0)
        rc = add_all(f, header, 8 + n, err);
    json_decref(header);
    tw_free(text);
    return rc;
}
