/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of NumPy: .npy (numpy.lib.format, versions 1 to 3) and .npz, a zip file of them. tensors.c
 * calls tw_npy_list() or tw_npz_list(), which add every array with its place in the file.
 *
 * The header of an array is a Python dict literal. It is parsed by hand and never evaluated:
 * exactly the three keys that the format has, in any order. */
#include "internal.h"

#include <string.h>

/* Bytes of a header; bytes in front of it (magic number, version, length) that are read at once. */
enum { MAX_HEADER = 1 << 20, START = 12 };

/* The header is a Python dict literal: a cursor over it. */
struct text {
    const char *p, *end;
};

static void blanks(struct text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n' || *t->p == '\t'))
        t->p++;
}

/* Takes the character off the text, blanks before it included; false when another one stands there.
 */
static bool token(struct text *t, char c)
{
    blanks(t);
    if (t->p == t->end || *t->p != c)
        return false;
    t->p++;
    return true;
}

static bool take_word(struct text *t, const char *w)
{
    size_t n = strlen(w);
    blanks(t);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, w, n) != 0)
        return false;
    t->p += n;
    return true;
}

/* A quoted word without escapes. */
static bool quoted(struct text *t, const char **s, size_t *n)
{
    blanks(t);
    if (t->p == t->end || (*t->p != '\'' && *t->p != '"'))
        return false;
    const char quote = *t->p++, *start = t->p;
    while (t->p < t->end && *t->p != quote && *t->p != '\\')
        t->p++;
    if (t->p == t->end || *t->p != quote)
        return false;
    *s = start;
    *n = (size_t)(t->p++ - start);
    return true;
}

/* A whole number from 0 on; false when there is none, or when it overflows. */
static bool take_number(struct text *t, int64_t *v)
{
    blanks(t);
    *v = 0;
    const char *start = t->p;
    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
        if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, *t->p - '0', v))
            return false;
    bool any = t->p > start;
    if (any && t->p < t->end && *t->p == 'L') /* Python 2 */
        t->p++;
    return any;
}

/* "(3, 4)", "(3,)" or "()": sizes go to f->shape. */
static bool shape(struct text *t, struct tw_found *f)
{
    if (!token(t, '('))
        return false;
    while (!token(t, ')')) {
        if (f->ndim == TWIN_MAX_NDIM || !take_number(t, &f->shape[f->ndim]))
            return false;
        f->ndim++;
        if (!token(t, ',')) {
            if (!token(t, ')'))
                return false;
            break;
        }
    }
    return true;
}

/* A list of fields: passed over, brackets and quotes in pairs. */
static bool fields(struct text *t)
{
    int depth = 0;
    do {
        const char *s;
        size_t n;
        blanks(t);
        if (t->p == t->end)
            return false;
        if (*t->p == '\'' || *t->p == '"') {
            if (!quoted(t, &s, &n))
                return false;
            continue;
        }
        depth += *t->p == '[' || *t->p == '(';
        depth -= *t->p == ']' || *t->p == ')';
        t->p++;
    } while (depth > 0);
    return true;
}

/* The type of a descr such as "<f4"; one that is not known leaves f->unreadable with the reason. */
static void set_type(struct tw_found *f, const char *s, size_t n)
{
    static const struct {
        const char *code;
        enum twin_dtype dtype;
    } types[] = {{"f2", TWIN_F16}, {"f4", TWIN_F32},  {"f8", TWIN_F64}, {"i1", TWIN_I8},
                 {"i2", TWIN_I16}, {"i4", TWIN_I32},  {"i8", TWIN_I64}, {"u1", TWIN_U8},
                 {"u2", TWIN_U16}, {"u4", TWIN_U32},  {"u8", TWIN_U64}, {"b1", TWIN_BOOL},
                 {"c8", TWIN_C64}, {"c16", TWIN_C128}};
    /* Until a row of the table says otherwise. */
    f->unreadable = "its elements are of a type that twinrun does not know";
    if (n < 2 || !strchr("<>|=", s[0]))
        return;
    if (n == 3 && memcmp(s + 1, "V2", 2) == 0)
        f->unreadable = "its elements are 2 opaque bytes each (bfloat16 of another package? .npy "
                        "does not say; save as float32 or safetensors)";
    if (s[1] == 'O')
        f->unreadable = "it holds Python objects, which are programs";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].code) == n - 1 && memcmp(s + 1, types[i].code, n - 1) == 0) {
            f->dtype = types[i].dtype;
            f->unreadable = NULL;
            f->swap = s[0] == '>';
        }
}

static int bad_file(const struct twin_tensors *f, const char *name, const char *what,
                    struct twin_error *err)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: the header of array %s is damaged: %s",
                          tw_tensors_source(f)->name, name, what);
}

/* Parses {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in any order. Bits of `seen`:
 * 1 descr, 2 fortran_order, 4 shape; each must be there once. */
static int parse_header(struct twin_tensors *file, struct text t, struct tw_found *f, bool *fortran,
                        struct twin_error *err)
{
    unsigned seen = 0;
    const char *key, *type = "fields";
    size_t n, length = 6;
    if (!token(&t, '{'))
        return bad_file(file, f->name, "expected {", err);
    while (!token(&t, '}')) {
        unsigned which = 0;
        if (!quoted(&t, &key, &n) || !token(&t, ':'))
            return bad_file(file, f->name, "expected 'name': value", err);
        if (n == 5 && memcmp(key, "descr", 5) == 0) {
            which = 1;
            if (quoted(&t, &type, &length))
                set_type(f, type, length);
            else if (fields(&t))
                f->unreadable = "its elements are records of several fields";
            else
                return bad_file(file, f->name, "descr is no type", err);
        } else if (n == 13 && memcmp(key, "fortran_order", 13) == 0) {
            which = 2;
            *fortran = take_word(&t, "True");
            if (!*fortran && !take_word(&t, "False"))
                return bad_file(file, f->name, "fortran_order is neither True nor False", err);
        } else if (n == 5 && memcmp(key, "shape", 5) == 0) {
            which = 4;
            if ((seen & 4) || !shape(&t, f))
                return bad_file(file, f->name, "shape is no list of at most 64 sizes", err);
        }
        if (which == 0 || (seen & which))
            return bad_file(file, f->name, "a key that does not belong there", err);
        seen |= which;
        if (!token(&t, ',')) {
            if (!token(&t, '}'))
                return bad_file(file, f->name, "expected , or }", err);
            break;
        }
    }
    if (seen != 7)
        return bad_file(file, f->name, "descr, fortran_order or shape is missing", err);
    f->stored_as = tw_arena_text(file, type, length);
    return f->stored_as ? 0 : tw_no_memory(err, "for a name");
}

/* Strides of an array in column-major order: the first index runs fastest. */
static void set_fortran(struct tw_found *f)
{
    int64_t stride = 1;
    f->dense = false;
    for (uint32_t d = 0; d < f->ndim; d++) {
        f->strides[d] = stride;
        if (__builtin_mul_overflow(stride, f->shape[d] ? f->shape[d] : 1, &stride))
            stride = INT64_MAX; /* its size is refused */
    }
}

/* Reads the header of the array whose bytes are piece, and adds it. name is kept. *state: of
 * unpacking, the caller's to free. */
static int add_array(struct twin_tensors *file, const struct tw_piece *piece, const char *name,
                     struct tw_unpack **state, struct twin_error *err)
{
    const struct tw_source *s = tw_tensors_source(file);
    unsigned char start[START];
    struct tw_found f = {.name = name, .dtype = TWIN_BYTES, .dense = true, .piece = *piece};
    bool fortran = false;
    if (piece->bytes < START)
        return bad_file(file, name, "it is too short", err);
    int rc = tw_piece_read(s, state, piece, 0, start, START, err);
    if (rc != 0)
        return rc;
    /* The magic number with the version behind it. */
    if (memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3)
        return bad_file(file, name, "expected version 1, 2 or 3 of the format", err);
    /* Version 1 has a length of 2 bytes, later ones of 4. */
    uint64_t at = start[6] == 1 ? 10 : 12;
    uint64_t n = start[6] == 1 ? tw_le16(start + 8) : tw_le32(start + 8);
    if (n > MAX_HEADER || n > piece->bytes - at)
        return bad_file(file, name, "its length makes no sense", err);
    char *header = tw_malloc(n + 1);
    if (!header)
        return tw_no_memory(err, "for the header of %s", s->name);
    rc = tw_piece_read(s, state, piece, at, header, n, err);
    if (rc == 0)
        rc = parse_header(file, (struct text){header, header + n}, &f, &fortran, err);
    tw_free(header);
    if (rc != 0)
        return rc;
    f.offset = at + n;
    if (fortran && f.ndim > 1)
        set_fortran(&f);
    return tw_tensors_add(file, &f, err);
}

int tw_npy_list(struct twin_tensors *f, struct twin_error *err)
{
    /* An array alone has no name of its own. */
    const uint64_t size = tw_tensors_source(f)->size;
    const struct tw_piece whole = {.packed = size, .bytes = size};
    struct tw_unpack *none = NULL;
    return add_array(f, &whole, "array", &none, err);
}

/* The name of an array is that of its file without ".npy". Other files of the archive are listed as
 * passed over. */
int tw_npz_list(struct twin_tensors *f, const struct tw_zip *z, struct twin_error *err)
{
    struct tw_unpack *state = NULL;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < z->count; i++) {
        const struct tw_zip_entry *e = &z->entry[i];
        size_t n = strlen(e->name);
        const bool array = tw_ends(e->name, ".npy");
        char *name = tw_arena_text(f, e->name, array ? n - 4 : n);
        if (!name)
            rc = tw_no_memory(err, "for a name");
        else if (!array)
            rc = tw_tensors_skip(f, name) == 0 ? 0 : tw_no_memory(err, "for a name");
        else if (e->unreadable)
            rc = tw_tensors_add(
                f,
                &(struct tw_found){
                    .name = name, .stored_as = "?", .unreadable = e->unreadable, .dense = true},
                err);
        else
            rc = add_array(f, &e->piece, name, &state, err);
    }
    tw_unpack_free(state);
    return rc;
}
