/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5 as h5py and Keras write it (HDF5 File Format Specification 3.0): a tree of groups, whose
 * datasets are tensors. tensors.c calls tw_hdf5_list() for a file, keras.c for one in an archive.
 *
 * Read are groups of both kinds (symbol tables, and links in the group's header), datasets that
 * stand in one piece, and attributes as values. A dataset that is cut into chunks, or lies in
 * another file, is listed as unreadable with the reason; a link to another file is an error, and
 * never followed. No filter, and nothing else that a file could name, is ever loaded.
 *
 * All addresses are foreign. Groups may hold themselves, and lists of blocks may run in circles:
 * every read is charged to one budget (charge_read), which bounds time and memory of any file. */
#include "internal.h"

#include <string.h>

enum {
    MAX_BLOCK = 1 << 24,   /* bytes of one part of an object's header, of one heap of names */
    MAX_CONTINUED = 1024,  /* parts of one object's header */
    MAX_LEVEL = 16,        /* of a tree of names */
    READ_BYTES_LEAST = 64, /* what a read costs at least, however small it is */
    MEMBERS_OF_BOOL = 2,
};
#define READ_BUDGET ((uint64_t)256 << 20)
#define NOWHERE UINT64_MAX /* the address that says "none" */

/* Messages of an object's header. */
enum message {
    MESSAGE_SPACE = 1,
    MESSAGE_LINK_INFO = 2,
    MESSAGE_TYPE = 3,
    MESSAGE_LINK = 6,
    MESSAGE_EXTERNAL = 7,
    MESSAGE_LAYOUT = 8,
    MESSAGE_ATTRIBUTE = 12,
    MESSAGE_CONTINUED = 16,
    MESSAGE_GROUP = 17,
    MESSAGE_ATTRIBUTE_INFO = 21,
};
/* Classes of types. */
enum { CLASS_INTEGER, CLASS_FLOAT, CLASS_TEXT = 3, CLASS_OPAQUE = 5, CLASS_ENUM = 8, CLASS_LIST };

struct hdf5 {
    struct twin_tensors *f;
    uint64_t base, size; /* the part of the source that is the file */
    unsigned offset_bytes, length_bytes;
    uint64_t budget;
    struct tw_buf path; /* of the object that is looked at */
    struct twin_error *err;
};

/* A stretch of bytes that is taken apart from the front. Reading past its end sets `bad`. */
struct cursor {
    const unsigned char *at, *end;
    bool bad;
};

/* A type as it stands in a message. */
struct type {
    unsigned class;
    uint32_t bits, size;
    enum twin_dtype dtype; /* TWIN_BYTES: none of ours */
    bool swap;             /* its bytes stand the other way round */
    bool text;             /* of a list: of characters */
};

/* What an object's header says. */
struct object {
    bool has_type, has_space, null_space, external, has_layout;
    struct type type;
    uint32_t ndim;
    int64_t shape[TWIN_MAX_NDIM];
    uint64_t elements;
    const char *unreadable;
    uint64_t at, bytes; /* of the elements, counted in the file */
    bool has_group;
    uint64_t tree, heap; /* of a group with a symbol table */
    bool bfloat16;       /* Keras says so in an attribute */
};

static const char *path_of(const struct hdf5 *h)
{
    return h->path.len ? h->path.data : "/";
}

static int damaged(const struct hdf5 *h, const char *what)
{
    return twin_error_set(h->err, TWIN_EFORMAT, "%s: damaged HDF5: %s: %s",
                          tw_tensors_source(h->f)->name, path_of(h), what);
}

static int unsupported(const struct hdf5 *h, const char *what)
{
    return twin_error_set(h->err, TWIN_EUNSUPPORTED, "%s: HDF5: %s: %s",
                          tw_tensors_source(h->f)->name, path_of(h), what);
}

/* ---- bytes */

static const unsigned char *take(struct cursor *c, uint64_t n)
{
    static const unsigned char zeros[16];
    if (n > (uint64_t)(c->end - c->at)) {
        c->bad = true;
        c->at = c->end;
        return zeros;
    }
    const unsigned char *p = c->at;
    c->at += n;
    return p;
}

/* A number of n bytes, little end first; n is at most 8. */
static uint64_t number(struct cursor *c, unsigned n)
{
    const unsigned char *p = take(c, n);
    uint64_t v = 0;
    for (unsigned i = n; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

/* An address: all bits set say that there is none. */
static uint64_t address(const struct hdf5 *h, struct cursor *c)
{
    uint64_t v = number(c, h->offset_bytes);
    return h->offset_bytes == 4 && v == UINT32_MAX ? NOWHERE : v;
}

static int charge_read(struct hdf5 *h, uint64_t n)
{
    uint64_t cost = n + READ_BYTES_LEAST;
    if (cost > h->budget)
        return twin_error_set(h->err, TWIN_ELIMIT,
                              "%s: HDF5: more than %llu MiB say which tensors there are: does a "
                              "group hold itself?",
                              tw_tensors_source(h->f)->name,
                              (unsigned long long)(READ_BUDGET >> 20));
    h->budget -= cost;
    return 0;
}

/* Exactly n bytes from `at` on. */
static int read_bytes(struct hdf5 *h, uint64_t at, void *out, uint64_t n)
{
    if (at > h->size || n > h->size - at)
        return damaged(h, "an address beyond the end of the file: was it cut off?");
    int rc = charge_read(h, n);
    return rc ? rc : tw_source_read(tw_tensors_source(h->f), h->base + at, out, n, h->err);
}

/* The same into new memory, which is the caller's to free. */
static int read_block(struct hdf5 *h, uint64_t at, uint64_t n, unsigned char **out)
{
    *out = NULL;
    if (n > MAX_BLOCK)
        return damaged(h, "a part of its description is too long");
    unsigned char *block = tw_malloc(n + 1);
    if (!block)
        return tw_no_memory(h->err, "reading %s", tw_tensors_source(h->f)->name);
    int rc = read_bytes(h, at, block, n);
    if (rc) {
        tw_free(block);
        return rc;
    }
    block[n] = '\0';
    *out = block;
    return 0;
}

/* ---- types and spaces */

/* IEEE floats and bfloat16, told by their fields: place and size of the exponent, of the mantissa.
 */
static enum twin_dtype float_type(struct cursor *c, uint32_t size, uint32_t sign)
{
    static const struct {
        uint32_t size, sign, exponent_at, exponent, mantissa, bias;
        enum twin_dtype dtype;
    } types[] = {{2, 15, 10, 5, 10, 15, TWIN_F16},
                 {2, 15, 7, 8, 7, 127, TWIN_BF16},
                 {4, 31, 23, 8, 23, 127, TWIN_F32},
                 {8, 63, 52, 11, 52, 1023, TWIN_F64}};
    const uint64_t bit = number(c, 2), bits = number(c, 2);
    const uint64_t exponent_at = number(c, 1), exponent = number(c, 1);
    const uint64_t mantissa_at = number(c, 1), mantissa = number(c, 1), bias = number(c, 4);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].size == size && types[i].sign == sign && bit == 0 && bits == 8 * size &&
            mantissa_at == 0 && types[i].exponent_at == exponent_at &&
            types[i].exponent == exponent && types[i].mantissa == mantissa && types[i].bias == bias)
            return types[i].dtype;
    return TWIN_BYTES;
}

static enum twin_dtype integer_type(struct cursor *c, uint32_t size, bool is_signed)
{
    const uint64_t bit = number(c, 2), bits = number(c, 2);
    if (bit != 0 || bits != 8 * (uint64_t)size)
        return TWIN_BYTES;
    switch (size) {
    case 1: return is_signed ? TWIN_I8 : TWIN_U8;
    case 2: return is_signed ? TWIN_I16 : TWIN_U16;
    case 4: return is_signed ? TWIN_I32 : TWIN_U32;
    case 8: return is_signed ? TWIN_I64 : TWIN_U64;
    default: return TWIN_BYTES;
    }
}

/* h5py writes truth values as an enumeration of bytes: FALSE is 0, TRUE is 1. */
static bool is_bool(struct cursor *c, unsigned version)
{
    static const char *const names[MEMBERS_OF_BOOL] = {"FALSE", "TRUE"};
    const uint64_t base = number(c, 4);
    const uint64_t base_size = number(c, 4);
    const enum twin_dtype dtype = integer_type(c, (uint32_t)base_size, true);
    if ((base & 15) != CLASS_INTEGER || base_size != 1 || dtype == TWIN_BYTES)
        return false;
    for (int i = 0; i < MEMBERS_OF_BOOL; i++) {
        const size_t bytes = strlen(names[i]) + 1;
        /* Up to version 2 names are filled up to 8 bytes. */
        const unsigned char *name = take(c, version < 3 ? 8 : bytes);
        if (c->bad || memcmp(name, names[i], bytes) != 0)
            return false;
    }
    const uint64_t no = number(c, 1), yes = number(c, 1);
    return !c->bad && no == 0 && yes == 1;
}

static struct type read_type(struct cursor *c)
{
    const uint64_t first = number(c, 4);
    struct type t = {.class = first & 15, .bits = (uint32_t)(first >> 8), .dtype = TWIN_BYTES};
    const unsigned version = first >> 4 & 15;
    t.size = (uint32_t)number(c, 4);
    switch (t.class) {
    case CLASS_INTEGER:
        t.dtype = integer_type(c, t.size, t.bits & 8);
        t.swap = t.bits & 1;
        break;
    case CLASS_FLOAT:
        t.dtype = float_type(c, t.size, t.bits >> 8 & 255);
        t.swap = t.bits & 1;
        if (t.bits & 0x40) /* the byte order of a VAX */
            t.dtype = TWIN_BYTES;
        break;
    case CLASS_ENUM:
        if (t.size == 1 && (t.bits & 0xffff) == MEMBERS_OF_BOOL && is_bool(c, version))
            t.dtype = TWIN_BOOL;
        break;
    case CLASS_LIST: t.text = (t.bits & 15) == 1; break;
    }
    return t;
}

/* false: no shape that we know. */
static bool read_space(const struct hdf5 *h, struct cursor *c, struct object *o)
{
    const uint64_t version = number(c, 1), ndim = number(c, 1);
    take(c, 1); /* flags: whether the largest sizes follow, which do not matter */
    const uint64_t kind = number(c, 1);
    if (version == 1)
        take(c, 4);
    if (c->bad || version < 1 || version > 2 || ndim > 32)
        return false;
    o->null_space = version == 2 && kind == 2;
    o->ndim = (uint32_t)ndim;
    o->elements = o->null_space ? 0 : 1;
    for (uint32_t d = 0; d < o->ndim; d++) {
        const uint64_t n = number(c, h->length_bytes);
        if (n > INT64_MAX / 16 || __builtin_mul_overflow(o->elements, n, &o->elements))
            return false;
        o->shape[d] = (int64_t)n;
    }
    return !c->bad;
}

/* Where the elements are. false: the message is damaged. */
static bool read_layout(const struct hdf5 *h, struct cursor *c, struct object *o)
{
    enum { COMPACT, CONTIGUOUS, VIRTUAL = 3 };
    const uint64_t version = number(c, 1);
    uint64_t kind;
    o->has_layout = true;
    if (version == 1 || version == 2) {
        take(c, 1);
        kind = number(c, 1);
        take(c, 5);
    } else if (version == 3 || version == 4) {
        kind = number(c, 1);
    } else {
        return false;
    }
    if (kind == CONTIGUOUS) {
        o->at = address(h, c);
        /* The older versions have sizes here instead, of which the last is an element's. */
        o->bytes = version > 2 ? number(c, h->length_bytes) : UINT64_MAX;
    } else if (kind == COMPACT) {
        o->unreadable = "its elements stand in its header";
    } else if (kind == VIRTUAL) {
        o->unreadable = "its elements lie in another file";
    } else {
        o->unreadable = "it is stored in chunks; `h5repack -l CONTI -f NONE OLD NEW` writes it in "
                        "one piece";
    }
    return !c->bad;
}

/* ---- attributes: values */

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
    const uint64_t bytes = number(c, 4), at = address(h, c), index = number(c, 4);
    unsigned char head[HEAP_HEAD + 8], *heap = NULL;
    *text = NULL;
    *n = 0;
    if (c->bad)
        return damaged(h, "an attribute ends too early");
    if (bytes == 0 || at == NOWHERE) {
        *text = tw_strdup("");
        return *text ? 0 : tw_no_memory(h->err, "for a text");
    }
    int rc = read_bytes(h, at, head, HEAP_HEAD + h->length_bytes);
    if (rc)
        return rc;
    struct cursor size = {head + HEAP_HEAD, head + HEAP_HEAD + h->length_bytes, false};
    if (memcmp(head, "GCOL", 4) != 0)
        return damaged(h, "an attribute points to no heap");
    const uint64_t whole = number(&size, h->length_bytes);
    rc = read_block(h, at, whole, &heap);
    if (rc)
        return rc;
    /* Objects follow one another up to number 0, which is what is left free. */
    struct cursor objects = {heap, heap + whole, false};
    take(&objects, HEAP_HEAD + h->length_bytes);
    while (!objects.bad && objects.at < objects.end) {
        const uint64_t is = number(&objects, 2);
        take(&objects, OBJECT_HEAD - 2);
        const uint64_t has = number(&objects, h->length_bytes);
        if (objects.bad || is == 0 || has > (uint64_t)(objects.end - objects.at))
            break;
        if (is == index && bytes <= has) {
            *text = tw_strndup((const char *)objects.at, bytes);
            *n = *text ? strlen(*text) : 0;
            rc = *text ? 0 : tw_no_memory(h->err, "for a text");
            break;
        }
        take(&objects,
             (has + 7) / 8 * 8 <= (uint64_t)(objects.end - objects.at) ? (has + 7) / 8 * 8 : has);
    }
    tw_free(heap);
    if (rc == 0 && !*text)
        rc = damaged(h, "a heap does not have what an attribute points to");
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
    uint64_t bits = number(&(struct cursor){b, b + t->size, false}, t->size);
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
            return damaged(h, "an attribute ends too early");
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
        return damaged(h, "an attribute ends too early");
    const unsigned char *p = take(c, space->elements * t->size);
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

/* In version 1 each part is filled up to a multiple of 8 bytes. */
static struct cursor part_of(struct cursor *c, uint64_t bytes, bool filled)
{
    const uint64_t whole = filled ? (bytes + 7) / 8 * 8 : bytes;
    const unsigned char *p = take(c, whole);
    if (c->bad)
        return (struct cursor){p, p, true};
    return (struct cursor){p, p + bytes, false};
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

static int read_attribute(struct hdf5 *h, struct cursor c, struct object *o)
{
    const uint64_t version = number(&c, 1), flags = number(&c, 1);
    const uint64_t name_bytes = number(&c, 2), type_bytes = number(&c, 2);
    const uint64_t space_bytes = number(&c, 2);
    struct object space = {0};
    if (version == 3)
        take(&c, 1); /* the character set of the name */
    if (version < 1 || version > 3)
        return unsupported(h, "an attribute of an unknown version");
    if (version > 1 && (flags & 3))
        return unsupported(h, "an attribute whose type is shared with others");
    struct cursor name = part_of(&c, name_bytes, version == 1);
    struct cursor type_at = part_of(&c, type_bytes, version == 1);
    struct cursor space_at = part_of(&c, space_bytes, version == 1);
    if (c.bad || name_bytes == 0)
        return damaged(h, "an attribute ends too early");
    const struct type t = read_type(&type_at);
    if (type_at.bad || !read_space(h, &space_at, &space))
        return damaged(h, "an attribute has no type or shape");
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

/* ---- headers of objects */

typedef int visit_member(struct hdf5 *h, const char *name, size_t n, uint64_t at, unsigned depth);
static visit_member add_object;

/* A link that stands in the header of its group. */
static int read_link(struct hdf5 *h, struct cursor c, unsigned depth)
{
    enum { HARD = 0, SOFT = 1 };
    const uint64_t version = number(&c, 1), flags = number(&c, 1);
    const uint64_t kind = flags & 8 ? number(&c, 1) : HARD;
    if (flags & 4)
        take(&c, 8); /* when it was made */
    if (flags & 16)
        take(&c, 1); /* the character set of the name */
    const uint64_t n = number(&c, 1u << (flags & 3));
    const unsigned char *name = take(&c, n);
    if (c.bad || version != 1)
        return damaged(h, "a link that makes no sense");
    if (kind == HARD) {
        const uint64_t at = address(h, &c);
        return c.bad ? damaged(h, "a link that makes no sense")
                     : add_object(h, (const char *)name, n, at, depth);
    }
    if (kind != SOFT)
        return unsupported(h, "it has a link to another file, which is not followed");
    return unsupported(h, "it has a soft link, which is not followed");
}

/* One message. The order of messages is free, so what depends on several waits until all are read;
 * links alone are followed later, by the second pass. */
static int read_message(struct hdf5 *h, unsigned kind, unsigned flags, struct cursor c,
                        struct object *o)
{
    const bool shared = flags & 2;
    switch (kind) {
    case MESSAGE_SPACE:
        o->has_space = true;
        return !shared && read_space(h, &c, o) ? 0 : damaged(h, "it has no shape");
    case MESSAGE_TYPE:
        if (shared)
            return unsupported(h, "its type is shared with others");
        o->has_type = true;
        o->type = read_type(&c);
        return c.bad ? damaged(h, "its type makes no sense") : 0;
    case MESSAGE_LAYOUT:
        return read_layout(h, &c, o) ? 0 : damaged(h, "nothing says where its elements are");
    case MESSAGE_EXTERNAL: o->external = true; return 0;
    case MESSAGE_GROUP:
        o->has_group = true;
        o->tree = address(h, &c);
        o->heap = address(h, &c);
        return c.bad ? damaged(h, "a group ends too early") : 0;
    case MESSAGE_ATTRIBUTE:
        return shared ? unsupported(h, "an attribute that is shared with others")
                      : read_attribute(h, c, o);
    case MESSAGE_LINK_INFO:
    case MESSAGE_ATTRIBUTE_INFO: {
        /* Many links or attributes stand in a heap of their own. */
        const bool links = kind == MESSAGE_LINK_INFO;
        take(&c, 1);
        const uint64_t order = number(&c, 1);
        const uint64_t number_bytes = links ? 8 : 2;
        take(&c, order & 1 ? number_bytes : 0);
        const uint64_t heap = address(h, &c);
        if (c.bad)
            return damaged(h, "its header ends too early");
        if (heap != NOWHERE)
            return unsupported(h, links ? "its members are indexed in a way that twinrun does not "
                                          "read; `h5repack --high=v18 OLD NEW` may help"
                                        : "it has too many attributes");
        return 0;
    }
    default: return 0;
    }
}

/* The parts of an object's header; a message may name one more. */
struct parts {
    unsigned version, flags;
    uint64_t at[MAX_CONTINUED], bytes[MAX_CONTINUED];
    size_t count;
};

static int read_head(struct hdf5 *h, uint64_t at, struct parts *p)
{
    unsigned char head[32];
    const uint64_t left = at < h->size ? h->size - at : 0;
    const uint64_t n = left < sizeof head ? left : sizeof head;
    p->count = 1;
    int rc = n < 16 ? damaged(h, "an address beyond the end of the file: was it cut off?")
                    : read_bytes(h, at, head, n);
    if (rc)
        return rc;
    struct cursor c = {head, head + n, false};
    if (memcmp(head, "OHDR", 4) == 0) {
        take(&c, 4);
        p->version = (unsigned)number(&c, 1);
        p->flags = (unsigned)number(&c, 1);
        take(&c, p->flags & 0x20 ? 16 : 0); /* times */
        take(&c, p->flags & 0x10 ? 4 : 0);  /* limits of attributes */
        p->bytes[0] = number(&c, 1u << (p->flags & 3));
    } else {
        p->version = (unsigned)number(&c, 1);
        take(&c, 7);
        p->bytes[0] = number(&c, 4);
        take(&c, 4);
    }
    p->at[0] = at + (uint64_t)(c.at - head);
    return c.bad || p->version < 1 || p->version > 2
               ? damaged(h, "no object stands where a group says")
               : 0;
}

static int add_part(struct hdf5 *h, struct parts *p, struct cursor c)
{
    const uint64_t at = address(h, &c), bytes = number(&c, h->length_bytes);
    if (c.bad || p->count == MAX_CONTINUED)
        return damaged(h, "its header has too many parts");
    p->at[p->count] = at;
    p->bytes[p->count] = bytes;
    p->count++;
    return 0;
}

/* Calls back for each message of one part. follow: links, else everything but them. */
static int read_part(struct hdf5 *h, struct parts *p, size_t i, struct object *o, bool follow,
                     unsigned depth)
{
    unsigned char *block;
    int rc = read_block(h, p->at[i], p->bytes[i], &block);
    if (rc)
        return rc;
    struct cursor c = {block, block + p->bytes[i], false};
    if (p->version == 2 && i > 0) {
        /* A part has a sign in front of it, and a checksum behind. */
        if (p->bytes[i] < 8 || memcmp(block, "OCHK", 4) != 0)
            rc = damaged(h, "a part of its header is missing");
        c = (struct cursor){block + 4, block + p->bytes[i] - (p->bytes[i] < 8 ? 0 : 4), rc != 0};
    }
    const size_t order = p->flags & 4 ? 2 : 0; /* a number by when it was made */
    const size_t head = p->version == 2 ? 4 + order : 8;
    while (rc == 0 && (size_t)(c.end - c.at) >= head) {
        const unsigned kind = (unsigned)number(&c, p->version == 2 ? 1 : 2);
        const uint64_t n = number(&c, 2);
        const unsigned flags = (unsigned)number(&c, 1);
        take(&c, head - (p->version == 2 ? 4 : 5));
        const struct cursor inside = part_of(&c, n, false);
        if (c.bad)
            rc = damaged(h, "its header ends too early");
        else if (kind == MESSAGE_CONTINUED)
            rc = follow ? 0 : add_part(h, p, inside);
        else if ((kind == MESSAGE_LINK) == follow)
            rc = follow ? read_link(h, inside, depth) : read_message(h, kind, flags, inside, o);
    }
    tw_free(block);
    return rc;
}

/* ---- groups with a symbol table */

/* The names of a group's members. */
struct names {
    unsigned char *text;
    uint64_t bytes;
};

static int read_names(struct hdf5 *h, uint64_t at, struct names *names)
{
    unsigned char head[8 + 3 * 8];
    const unsigned n = 8 + 2 * h->length_bytes + h->offset_bytes;
    int rc = read_bytes(h, at, head, n);
    if (rc)
        return rc;
    struct cursor c = {head + 8, head + n, false};
    if (memcmp(head, "HEAP", 4) != 0)
        return damaged(h, "a group has no names");
    names->bytes = number(&c, h->length_bytes);
    take(&c, h->length_bytes);
    return read_block(h, address(h, &c), names->bytes, &names->text);
}

/* The members of one leaf. */
static int read_symbols(struct hdf5 *h, uint64_t at, const struct names *names, unsigned depth)
{
    enum { SOFT_LINK = 2 };
    const uint64_t each = 2 * (uint64_t)h->offset_bytes + 24;
    unsigned char head[8], *block = NULL;
    int rc = read_bytes(h, at, head, sizeof head);
    if (rc == 0 && memcmp(head, "SNOD", 4) != 0)
        rc = damaged(h, "a group has no list of members");
    const uint64_t count = rc ? 0 : tw_le16(head + 6);
    rc = rc ? rc : read_block(h, at + sizeof head, count * each, &block);
    if (rc)
        return rc;
    struct cursor c = {block, block + count * each, false};
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        const uint64_t name = number(&c, h->offset_bytes), object = address(h, &c);
        const uint64_t kind = number(&c, 4);
        take(&c, 20);
        if (name >= names->bytes)
            rc = damaged(h, "a name lies outside of the names");
        else if (kind == SOFT_LINK)
            rc = unsupported(h, "it has a soft link, which is not followed");
        else
            rc = add_object(h, (const char *)names->text + name,
                            strnlen((const char *)names->text + name, names->bytes - name), object,
                            depth);
    }
    tw_free(block);
    return rc;
}

/* A node of the tree over the leaves. Levels must go down, so that no tree holds itself. */
static int read_tree(struct hdf5 *h, uint64_t at, int level, const struct names *names,
                     unsigned depth)
{
    unsigned char head[8 + 16], *block = NULL;
    const unsigned n = 8 + 2 * h->offset_bytes;
    int rc = read_bytes(h, at, head, n);
    if (rc)
        return rc;
    const int is = head[5];
    if (memcmp(head, "TREE", 4) != 0 || head[4] != 0 || is > MAX_LEVEL ||
        (level >= 0 && is != level))
        return damaged(h, "a group has no tree of members");
    const uint64_t count = tw_le16(head + 6);
    const uint64_t bytes = count * (h->offset_bytes + h->length_bytes);
    rc = read_block(h, at + n, bytes, &block);
    if (rc)
        return rc;
    struct cursor c = {block, block + bytes, false};
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        take(&c, h->length_bytes); /* a name between this child and the one before */
        const uint64_t child = address(h, &c);
        rc = is == 0 ? read_symbols(h, child, names, depth)
                     : read_tree(h, child, is - 1, names, depth);
    }
    tw_free(block);
    return rc;
}

static int read_group(struct hdf5 *h, const struct object *o, unsigned depth)
{
    struct names names = {0};
    int rc = read_names(h, o->heap, &names);
    rc = rc ? rc : read_tree(h, o->tree, -1, &names, depth);
    tw_free(names.text);
    return rc;
}

/* ---- the list */

static int add_dataset(struct hdf5 *h, struct object *o)
{
    struct tw_found t = {.dtype = o->type.dtype, .ndim = o->ndim, .dense = true};
    const struct type *type = &o->type;
    if (type->class == CLASS_OPAQUE && type->size == 2 && o->bfloat16)
        t.dtype = TWIN_BF16;
    if (!o->has_space || !o->has_layout)
        return damaged(h, "a dataset without a shape or a place");
    memcpy(t.shape, o->shape, o->ndim * sizeof *o->shape);
    t.swap = type->swap;
    t.name = tw_arena_text(h->f, path_of(h), strlen(path_of(h)));
    char *stored = tw_printf("HDF5 class %u, %u bytes", type->class, type->size);
    t.stored_as = stored ? tw_arena_text(h->f, stored, strlen(stored)) : NULL;
    tw_free(stored);
    if (!t.name || !t.stored_as)
        return tw_no_memory(h->err, "for the list of %s", tw_tensors_source(h->f)->name);
    t.unreadable = o->unreadable;
    if (o->at == NOWHERE && o->elements > 0)
        t.unreadable = "its elements were never written";
    if (o->external)
        t.unreadable = "its elements lie in another file";
    if (o->null_space)
        t.unreadable = "it has no elements and no shape";
    if (t.dtype == TWIN_BYTES)
        t.unreadable = "its elements are of a type that twinrun does not know";
    uint64_t bytes = o->elements * twin_dtype_size(t.dtype);
    if (!t.unreadable && o->elements == 0)
        o->at = 0;
    if (!t.unreadable && (o->at > h->size || bytes > h->size - o->at))
        return damaged(h, "its elements lie behind the end of the file: was it cut off?");
    if (!t.unreadable && o->bytes != UINT64_MAX && bytes != o->bytes && o->elements > 0)
        return damaged(h, "its shape and its bytes do not fit");
    t.piece = (struct tw_piece){.at = h->base + o->at, .packed = bytes, .bytes = bytes};
    return tw_tensors_add(h->f, &t, h->err);
}

/* The object at `at`: a dataset is added, a group's members are looked at in turn. */
static int look_at(struct hdf5 *h, uint64_t at, unsigned depth)
{
    struct object o = {0};
    struct parts *p = tw_calloc(1, sizeof *p);
    if (!p)
        return tw_no_memory(h->err, "reading %s", tw_tensors_source(h->f)->name);
    int rc = read_head(h, at, p);
    for (size_t i = 0; i < p->count && rc == 0; i++)
        rc = read_part(h, p, i, &o, false, depth);
    for (size_t i = 0; i < p->count && rc == 0; i++)
        rc = read_part(h, p, i, &o, true, depth);
    tw_free(p);
    if (rc == 0 && o.has_group)
        rc = read_group(h, &o, depth);
    if (rc == 0 && o.has_type && !o.has_layout)
        rc = unsupported(h, "a type of its own, which no reader of tensors needs");
    else if (rc == 0 && o.has_type)
        rc = add_dataset(h, &o);
    return rc;
}

static int add_object(struct hdf5 *h, const char *name, size_t n, uint64_t at, unsigned depth)
{
    const size_t before = h->path.len;
    if (n == 0 || memchr(name, '/', n) || memchr(name, '\0', n))
        return damaged(h, "a member without a proper name");
    if (depth >= TW_MAX_DEPTH)
        return twin_error_set(h->err, TWIN_ELIMIT,
                              "%s: HDF5: groups in groups beyond %d: does a "
                              "group hold itself?",
                              tw_tensors_source(h->f)->name, TW_MAX_DEPTH);
    int rc = before ? tw_buf_puts(&h->path, "/") : 0;
    rc = rc ? rc : tw_buf_append(&h->path, name, n);
    if (rc)
        return tw_no_memory(h->err, "for a name");
    rc = look_at(h, at, depth + 1);
    h->path.len = before;
    h->path.data[before] = '\0';
    return rc;
}

/* The root group's address. */
static int read_superblock(struct hdf5 *h, uint64_t *root)
{
    unsigned char b[96];
    const uint64_t n = h->size < sizeof b ? h->size : sizeof b;
    int rc = read_bytes(h, 0, b, n);
    if (rc)
        return rc;
    struct cursor c = {b, b + n, false};
    const bool ours = n >= 16 && memcmp(take(&c, 8), "\x89HDF\r\n\x1a\n", 8) == 0;
    const uint64_t version = number(&c, 1);
    if (!ours || version > 3)
        return unsupported(h, "expected version 0 to 3 of the format");
    if (version < 2)
        take(&c, 4);
    h->offset_bytes = (unsigned)number(&c, 1);
    h->length_bytes = (unsigned)number(&c, 1);
    if ((h->offset_bytes != 4 && h->offset_bytes != 8) ||
        (h->length_bytes != 4 && h->length_bytes != 8))
        return unsupported(h, "expected addresses of 4 or 8 bytes");
    if (version < 2)
        take(&c, version == 1 ? 13 : 9);
    else
        take(&c, 1);
    const uint64_t base = address(h, &c);
    address(h, &c); /* free space, or what is said beside the superblock */
    const uint64_t end = address(h, &c);
    if (version < 2) {
        address(h, &c); /* of a driver: of a file that is cut into several */
        number(&c, h->offset_bytes);
    }
    *root = address(h, &c);
    if (c.bad || base != 0)
        return damaged(h, "its first block makes no sense");
    return end > h->size ? damaged(h, "the file is shorter than it says: was it cut off?") : 0;
}

int tw_hdf5_list(struct twin_tensors *f, uint64_t base, uint64_t size, struct twin_error *err)
{
    struct hdf5 h = {.f = f,
                     .base = base,
                     .size = size,
                     .budget = READ_BUDGET,
                     .path = {.cap = 1 << 20},
                     .err = err};
    uint64_t root = 0;
    tw_tensors_budget(f, size < READ_BUDGET ? size : READ_BUDGET, TW_LIST_BYTES_EACH);
    int rc = read_superblock(&h, &root);
    rc = rc ? rc : look_at(&h, root, 0);
    tw_buf_free(&h.path);
    return rc;
}
