/* SPDX-License-Identifier: Apache-2.0 */
/* The small parts of HDF5: bytes of the file, types, shapes, places of elements. hdf5.c and
 * hdf5_values.c call. */
#include "hdf5.h"

#include <string.h>

enum {
    MAX_BLOCK = 1 << 24,   /* bytes of one part of an object's header, of one heap of names */
    READ_BYTES_LEAST = 64, /* what a read costs at least, however small it is */
    MEMBERS_OF_BOOL = 2,
};

const char *tw_hdf5_path_of(const struct hdf5 *h)
{
    return h->path.len ? h->path.data : "/";
}

int tw_hdf5_damaged(const struct hdf5 *h, const char *what)
{
    return twin_error_set(h->err, TWIN_EFORMAT, "%s: damaged HDF5: %s: %s",
                          tw_tensors_source(h->f)->name, tw_hdf5_path_of(h), what);
}

int tw_hdf5_unsupported(const struct hdf5 *h, const char *what)
{
    return twin_error_set(h->err, TWIN_EUNSUPPORTED, "%s: HDF5: %s: %s",
                          tw_tensors_source(h->f)->name, tw_hdf5_path_of(h), what);
}

/* ---- bytes */

const unsigned char *tw_hdf5_take(struct cursor *c, uint64_t n)
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

uint64_t tw_hdf5_number(struct cursor *c, unsigned n)
{
    const unsigned char *p = tw_hdf5_take(c, n);
    uint64_t v = 0;
    for (unsigned i = n; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

/* An address: all bits set say that there is none. */
uint64_t tw_hdf5_address(const struct hdf5 *h, struct cursor *c)
{
    uint64_t v = tw_hdf5_number(c, h->offset_bytes);
    return h->offset_bytes == 4 && v == UINT32_MAX ? TW_HDF5_NOWHERE : v;
}

static int charge_read(struct hdf5 *h, uint64_t n)
{
    uint64_t cost = n + READ_BYTES_LEAST;
    if (cost > h->budget)
        return twin_error_set(h->err, TWIN_ELIMIT,
                              "%s: HDF5: more than %llu MiB say which tensors there are: does a "
                              "group hold itself?",
                              tw_tensors_source(h->f)->name,
                              (unsigned long long)(TW_HDF5_BUDGET >> 20));
    h->budget -= cost;
    return 0;
}

int tw_hdf5_read_bytes(struct hdf5 *h, uint64_t at, void *out, uint64_t n)
{
    if (at > h->size || n > h->size - at)
        return tw_hdf5_damaged(h, "an address beyond the end of the file: was it cut off?");
    int rc = charge_read(h, n);
    return rc ? rc : tw_source_read(tw_tensors_source(h->f), h->base + at, out, n, h->err);
}

int tw_hdf5_read_block(struct hdf5 *h, uint64_t at, uint64_t n, unsigned char **out)
{
    *out = NULL;
    if (n > MAX_BLOCK)
        return tw_hdf5_damaged(h, "a part of its description is too long");
    unsigned char *block = tw_malloc(n + 1);
    if (!block)
        return tw_no_memory(h->err, "reading %s", tw_tensors_source(h->f)->name);
    int rc = tw_hdf5_read_bytes(h, at, block, n);
    if (rc) {
        tw_free(block);
        return rc;
    }
    block[n] = '\0';
    *out = block;
    return 0;
}

struct cursor tw_hdf5_part_of(struct cursor *c, uint64_t bytes, bool filled)
{
    const uint64_t whole = filled ? (bytes + 7) / 8 * 8 : bytes;
    const unsigned char *p = tw_hdf5_take(c, whole);
    if (c->bad)
        return (struct cursor){p, p, true};
    return (struct cursor){p, p + bytes, false};
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
    const uint64_t bit = tw_hdf5_number(c, 2), bits = tw_hdf5_number(c, 2);
    const uint64_t exponent_at = tw_hdf5_number(c, 1), exponent = tw_hdf5_number(c, 1);
    const uint64_t mantissa_at = tw_hdf5_number(c, 1), mantissa = tw_hdf5_number(c, 1),
                   bias = tw_hdf5_number(c, 4);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].size == size && types[i].sign == sign && bit == 0 && bits == 8 * size &&
            mantissa_at == 0 && types[i].exponent_at == exponent_at &&
            types[i].exponent == exponent && types[i].mantissa == mantissa && types[i].bias == bias)
            return types[i].dtype;
    return TWIN_BYTES;
}

static enum twin_dtype integer_type(struct cursor *c, uint32_t size, bool is_signed)
{
    const uint64_t bit = tw_hdf5_number(c, 2), bits = tw_hdf5_number(c, 2);
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
    const uint64_t base = tw_hdf5_number(c, 4);
    const uint64_t base_size = tw_hdf5_number(c, 4);
    const enum twin_dtype dtype = integer_type(c, (uint32_t)base_size, true);
    if ((base & 15) != CLASS_INTEGER || base_size != 1 || dtype == TWIN_BYTES)
        return false;
    for (int i = 0; i < MEMBERS_OF_BOOL; i++) {
        const size_t bytes = strlen(names[i]) + 1;
        /* Up to version 2 names are filled up to 8 bytes. */
        const unsigned char *name = tw_hdf5_take(c, version < 3 ? 8 : bytes);
        if (c->bad || memcmp(name, names[i], bytes) != 0)
            return false;
    }
    const uint64_t no = tw_hdf5_number(c, 1), yes = tw_hdf5_number(c, 1);
    return !c->bad && no == 0 && yes == 1;
}

struct type tw_hdf5_read_type(struct cursor *c)
{
    const uint64_t first = tw_hdf5_number(c, 4);
    struct type t = {.class = first & 15, .bits = (uint32_t)(first >> 8), .dtype = TWIN_BYTES};
    const unsigned version = first >> 4 & 15;
    t.size = (uint32_t)tw_hdf5_number(c, 4);
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

bool tw_hdf5_read_space(const struct hdf5 *h, struct cursor *c, struct object *o)
{
    const uint64_t version = tw_hdf5_number(c, 1), ndim = tw_hdf5_number(c, 1);
    tw_hdf5_take(c, 1); /* flags: whether the largest sizes follow, which do not matter */
    const uint64_t kind = tw_hdf5_number(c, 1);
    if (version == 1)
        tw_hdf5_take(c, 4);
    if (c->bad || version < 1 || version > 2 || ndim > 32)
        return false;
    o->null_space = version == 2 && kind == 2;
    o->ndim = (uint32_t)ndim;
    o->elements = o->null_space ? 0 : 1;
    for (uint32_t d = 0; d < o->ndim; d++) {
        const uint64_t n = tw_hdf5_number(c, h->length_bytes);
        if (n > INT64_MAX / 16 || __builtin_mul_overflow(o->elements, n, &o->elements))
            return false;
        o->shape[d] = (int64_t)n;
    }
    return !c->bad;
}

bool tw_hdf5_read_layout(const struct hdf5 *h, struct cursor *c, struct object *o)
{
    enum { COMPACT, CONTIGUOUS, VIRTUAL = 3 };
    const uint64_t version = tw_hdf5_number(c, 1);
    uint64_t kind;
    o->has_layout = true;
    if (version == 1 || version == 2) {
        tw_hdf5_take(c, 1);
        kind = tw_hdf5_number(c, 1);
        tw_hdf5_take(c, 5);
    } else if (version == 3 || version == 4) {
        kind = tw_hdf5_number(c, 1);
    } else {
        return false;
    }
    if (kind == CONTIGUOUS) {
        o->at = tw_hdf5_address(h, c);
        /* The older versions have sizes here instead, of which the last is an element's. */
        o->bytes = version > 2 ? tw_hdf5_number(c, h->length_bytes) : UINT64_MAX;
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
