/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: a length of 8 bytes, a JSON object, and the tensors' bytes, which the object covers
 * without a gap. tensors.c calls tw_safetensors_list(), which adds every tensor and, when values
 * are wanted, the texts of "__metadata__".
 *
 * The object may have 100 MB: it is cut into its members by their quotes and brackets, and each
 * becomes a tree of its own, so that never more than one of them is held. Cutting does not judge:
 * what is no JSON fails when its tree is made. At the end names and places of all tensors are
 * checked against each other. */
#include "internal.h"

#include "json_load.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER ((uint64_t)100000000) /* the format's own limit */

enum { MEMBER_BYTES = 1 << 16 }; /* of what is said of one tensor */

/* Bytes of one tensor, counted from the end of the header. */
struct range {
    uint64_t begin, end;
};
/* The bytes of all tensors so far. */
struct ranges {
    struct range *item;
    size_t count, room;
};

static int bad_file(const struct twin_tensors *f, const char *name, const char *what,
                    struct twin_error *err)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: damaged safetensors header: %s%s%s",
                          tw_tensors_source(f)->name, name, *name ? ": " : "", what);
}

/* By the name in t->stored_as. */
static void set_type(struct tw_found *t)
{
    static const struct {
        const char *name;
        enum twin_dtype dtype;
    } types[] = {{"F64", TWIN_F64},        {"F32", TWIN_F32}, {"F16", TWIN_F16},
                 {"BF16", TWIN_BF16},      {"I64", TWIN_I64}, {"I32", TWIN_I32},
                 {"I16", TWIN_I16},        {"I8", TWIN_I8},   {"U64", TWIN_U64},
                 {"U32", TWIN_U32},        {"U16", TWIN_U16}, {"U8", TWIN_U8},
                 {"BOOL", TWIN_BOOL},      {"C64", TWIN_C64}, {"F8_E4M3", TWIN_F8_E4M3FN},
                 {"F8_E5M2", TWIN_F8_E5M2}};
    t->dtype = TWIN_BYTES;
    t->unreadable = "its elements are of a type that twinrun does not know";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(t->stored_as, types[i].name) == 0) {
            t->dtype = types[i].dtype;
            t->unreadable = NULL;
        }
}

/* Adds the tensor that member `name` describes; *range: its bytes. data: where the tensors' bytes
 * begin in the file. */
static int add_tensor(struct twin_tensors *f, const char *name, json_t *j, uint64_t data,
                      struct range *range, struct twin_error *err)
{
    const struct tw_source *s = tw_tensors_source(f);
    const char *type = json_string_value(json_object_get(j, "dtype"));
    json_t *shape = json_object_get(j, "shape"), *offsets = json_object_get(j, "data_offsets"), *v;
    json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    struct tw_found t = {.dense = true};
    size_t i;
    if (!type || !json_is_array(shape) || json_array_size(shape) > TWIN_MAX_NDIM ||
        json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first))
        return bad_file(f, name, "expected dtype, shape and data_offsets", err);
    json_array_foreach (shape, i, v) {
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return bad_file(f, name, "a size that is no number", err);
        t.shape[t.ndim++] = json_integer_value(v);
    }
    /* Offsets count from the end of the header. */
    *range = (struct range){(uint64_t)json_integer_value(first),
                            (uint64_t)json_integer_value(last)};
    if (range->end > s->size - data)
        return bad_file(f, name, "its bytes lie behind the end of the file", err);
    t.name = tw_arena_text(f, name, strlen(name));
    t.stored_as = tw_arena_text(f, type, strlen(type));
    if (!t.name || !t.stored_as)
        return tw_no_memory(err, "for the list of %s", s->name);
    set_type(&t);
    t.piece = (struct tw_piece){.at = data + range->begin,
                                .packed = range->end - range->begin,
                                .bytes = range->end - range->begin};
    int rc = tw_tensors_add(f, &t, err);
    if (rc == 0 && !t.unreadable &&
        twin_tensors_at(f, twin_tensors_count(f) - 1)->bytes != t.piece.bytes)
        rc = bad_file(f, name, "its shape and its bytes do not fit", err);
    return rc;
}

/* For qsort: empty ranges before others that begin at the same place. */
static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* ---- members of an object, one by one */

/* What is left of a text. */
struct text {
    const char *at, *end;
};

static void skip_blanks(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r'))
        t->at++;
}

/* Takes one value off the text, by its quotes and brackets only: whoever makes a tree of it sees
 * what is wrong in it. */
static struct text take_value(struct text *t)
{
    struct text value = {t->at, t->at};
    size_t depth = 0;
    bool quoted = false;
    for (; t->at < t->end; t->at++) {
        char c = *t->at;
        if (quoted) {
            if (c == '\\' && t->at + 1 < t->end)
                t->at++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        bool closes = c == '}' || c == ']';
        /* Outside of all brackets these end a value. */
        if (depth == 0 && (closes || c == ',' || c == ':'))
            break;
        quoted = c == '"';
        depth += c == '{' || c == '[';
        depth -= closes;
    }
    value.end = t->at;
    return value;
}

static bool take_char(struct text *t, char c)
{
    skip_blanks(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

typedef int member_visit(void *user, const char *key, struct text value, struct twin_error *err);

/* The text of a member's name as a string of its own, NUL-terminated; NULL: it is none, or no
 * memory. */
static json_t *name_of(struct text key)
{
    size_t n = (size_t)(key.end - key.at);
    return n <= MEMBER_BYTES ? tw_json_load(key.at, n, JSON_DECODE_ANY, NULL) : NULL;
}

/* Calls visit for each member of the object that is all of the text; stops at the first non-zero,
 * and returns it. Each name is freed after its call. */
static int each_member(const struct twin_tensors *f, struct text t, member_visit *visit, void *user,
                       struct twin_error *err)
{
    if (!take_char(&t, '{'))
        return bad_file(f, "", "expected an object", err);
    bool first = true;
    while (!take_char(&t, '}')) {
        if (!first && !take_char(&t, ','))
            return bad_file(f, "", "expected a comma or the end of an object", err);
        first = false;
        skip_blanks(&t);
        json_t *name = name_of(take_value(&t));
        if (!json_is_string(name) || !take_char(&t, ':')) {
            json_decref(name);
            return bad_file(f, "", "expected a name and a colon", err);
        }
        skip_blanks(&t);
        int rc = visit(user, json_string_value(name), take_value(&t), err);
        json_decref(name);
        if (rc)
            return rc;
    }
    skip_blanks(&t);
    return t.at == t.end ? 0 : bad_file(f, "", "something stands behind its object", err);
}

/* The value as a tree, or NULL with the reason in *why. */
static json_t *tree_of(struct text value, json_error_t *why)
{
    return tw_json_load(value.at, (size_t)(value.end - value.at),
                        JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, why);
}

/* ---- the header */

/* While the header is read. */
struct listing {
    struct twin_tensors *f;
    uint64_t data; /* where the tensors' bytes begin */
    struct ranges ranges;
    bool metadata; /* was there */
};

/* One member of "__metadata__": a text, which is listed when values are wanted. */
static int take_metadata(void *user, const char *key, struct text value, struct twin_error *err)
{
    struct listing *l = user;
    json_error_t why = {.line = 0};
    size_t n = (size_t)(value.end - value.at);
    bool is_text = n > 0 && value.at[0] == '"';
    if (!is_text && n > MEMBER_BYTES)
        return bad_file(l->f, "__metadata__", "expected texts", err);
    json_t *v = tree_of(value, &why);
    if (!v)
        return bad_file(l->f, "__metadata__", why.text, err);
    char *name = tw_tensors_wants_values(l->f) && is_text ? tw_printf("__metadata__/%s", key)
                                                          : NULL;
    int rc = 0;
    if (name) {
        struct twin_tensors_value text = {.name = name,
                                          .kind = TWIN_VALUE_TEXT,
                                          .text = json_string_value(v),
                                          .text_bytes = json_string_length(v)};
        rc = tw_tensors_value(l->f, &text, err);
    }
    tw_free(name);
    json_decref(v);
    return rc;
}

static int add_range(struct listing *l, struct range r, struct twin_error *err)
{
    struct ranges *all = &l->ranges;
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct range *grown = tw_reallocarray(all->item, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "reading %s", tw_tensors_source(l->f)->name);
        all->item = grown;
        all->room = room;
    }
    all->item[all->count++] = r;
    return 0;
}

/* One member of the header: a tensor, or "__metadata__". */
static int take_member(void *user, const char *name, struct text value, struct twin_error *err)
{
    struct listing *l = user;
    json_error_t why = {.line = 0};
    if (strcmp(name, "__metadata__") == 0) {
        if (l->metadata)
            return bad_file(l->f, name, "duplicate: it is there twice", err);
        l->metadata = true;
        bool is_object = value.end > value.at && value.at[0] == '{';
        return is_object ? each_member(l->f, value, take_metadata, l, err)
                         : bad_file(l->f, name, "expected an object", err);
    }
    if ((size_t)(value.end - value.at) > MEMBER_BYTES)
        return bad_file(l->f, name, "expected dtype, shape and data_offsets", err);
    json_t *tree = tree_of(value, &why);
    struct range range = {0, 0};
    int rc = tree ? add_tensor(l->f, name, tree, l->data, &range, err)
                  : bad_file(l->f, name, why.text, err);
    rc = rc ? rc : add_range(l, range, err);
    json_decref(tree);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two members of one name: which of them counts? An error. Sorted, equal names stand side by side.
 */
static int check_names(const struct twin_tensors *f, struct twin_error *err)
{
    const size_t tensors = twin_tensors_count(f), n = tensors + twin_tensors_value_count(f);
    const char **name = tw_calloc(n + 1, sizeof *name);
    int rc = name ? 0 : tw_no_memory(err, "reading %s", tw_tensors_source(f)->name);
    for (size_t i = 0; rc == 0 && i < n; i++)
        name[i] = i < tensors ? twin_tensors_at(f, i)->name
                              : twin_tensors_value_at(f, i - tensors)->name;
    if (rc == 0)
        qsort(name, n, sizeof *name, by_name);
    for (size_t i = 1; rc == 0 && i < n; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            rc = bad_file(f, name[i], "duplicate: it is there twice", err);
    tw_free(name);
    return rc;
}

/* The tensors' bytes follow each other without a gap, and nothing else is in the file. */
static int check_ranges(struct listing *l, struct twin_error *err)
{
    const struct ranges *all = &l->ranges;
    uint64_t at = 0;
    if (all->count)
        qsort(all->item, all->count, sizeof *all->item, by_begin);
    for (size_t i = 0; i < all->count; at = all->item[i++].end)
        if (all->item[i].begin != at)
            return bad_file(l->f, "", "tensors overlap, or leave a gap", err);
    if (at != tw_tensors_source(l->f)->size - l->data)
        return bad_file(l->f, "", "the file is longer or shorter than its tensors", err);
    return 0;
}

/* Adds all tensors of the file and checks that they fill it. */
int tw_safetensors_list(struct twin_tensors *f, struct twin_error *err)
{
    const struct tw_source *s = tw_tensors_source(f);
    unsigned char length[8];
    int rc = tw_source_read(s, 0, length, 8, err);
    if (rc != 0)
        return rc;
    /* The length of the header, little end first. */
    uint64_t n = tw_le64(length);
    if (n > MAX_HEADER || n > s->size - 8)
        return bad_file(f, "", "its length makes no sense", err);
    char *text = tw_malloc(n + 1);
    if (!text)
        return tw_no_memory(err, "for the header of %s", s->name);
    struct listing l = {.f = f, .data = 8 + n};
    tw_tensors_budget(f, n, TW_LIST_BYTES_EACH);
    rc = tw_source_read(s, 8, text, n, err);
    rc = rc ? rc : each_member(f, (struct text){text, text + n}, take_member, &l, err);
    rc = rc ? rc : check_names(f, err);
    rc = rc ? rc : check_ranges(&l, err);
    tw_free(l.ranges.item);
    tw_free(text);
    return rc;
}
