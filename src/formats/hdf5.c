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
 * every read is charged to one budget (hdf5_parts.c), which bounds time and memory of any file. */
#include "hdf5.h"

#include <string.h>

enum {
    MAX_CONTINUED = 1024, /* parts of one object's header */
    MAX_LEVEL = 16,       /* of a tree of names */
};

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

/* ---- headers of objects */

typedef int visit_member(struct hdf5 *h, const char *name, size_t n, uint64_t at, unsigned depth);
static visit_member add_object;

/* A link that stands in the header of its group. */
static int read_link(struct hdf5 *h, struct cursor c, unsigned depth)
{
    enum { HARD = 0, SOFT = 1 };
    const uint64_t version = tw_hdf5_number(&c, 1), flags = tw_hdf5_number(&c, 1);
    const uint64_t kind = flags & 8 ? tw_hdf5_number(&c, 1) : HARD;
    if (flags & 4)
        tw_hdf5_take(&c, 8); /* when it was made */
    if (flags & 16)
        tw_hdf5_take(&c, 1); /* the character set of the name */
    const uint64_t n = tw_hdf5_number(&c, 1u << (flags & 3));
    const unsigned char *name = tw_hdf5_take(&c, n);
    if (c.bad || version != 1)
        return tw_hdf5_damaged(h, "a link that makes no sense");
    if (kind == HARD) {
        const uint64_t at = tw_hdf5_address(h, &c);
        return c.bad ? tw_hdf5_damaged(h, "a link that makes no sense")
                     : add_object(h, (const char *)name, n, at, depth);
    }
    if (kind != SOFT)
        return tw_hdf5_unsupported(h, "it has a link to another file, which is not followed");
    return tw_hdf5_unsupported(h, "it has a soft link, which is not followed");
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
        return !shared && tw_hdf5_read_space(h, &c, o) ? 0 : tw_hdf5_damaged(h, "it has no shape");
    case MESSAGE_TYPE:
        if (shared)
            return tw_hdf5_unsupported(h, "its type is shared with others");
        o->has_type = true;
        o->type = tw_hdf5_read_type(&c);
        return c.bad ? tw_hdf5_damaged(h, "its type makes no sense") : 0;
    case MESSAGE_LAYOUT:
        return tw_hdf5_read_layout(h, &c, o)
                   ? 0
                   : tw_hdf5_damaged(h, "nothing says where its elements are");
    case MESSAGE_EXTERNAL: o->external = true; return 0;
    case MESSAGE_GROUP:
        o->has_group = true;
        o->tree = tw_hdf5_address(h, &c);
        o->heap = tw_hdf5_address(h, &c);
        return c.bad ? tw_hdf5_damaged(h, "a group ends too early") : 0;
    case MESSAGE_ATTRIBUTE:
        return shared ? tw_hdf5_unsupported(h, "an attribute that is shared with others")
                      : tw_hdf5_read_attribute(h, c, o);
    case MESSAGE_LINK_INFO:
    case MESSAGE_ATTRIBUTE_INFO: {
        /* Many links or attributes stand in a heap of their own. */
        const bool links = kind == MESSAGE_LINK_INFO;
        tw_hdf5_take(&c, 1);
        const uint64_t order = tw_hdf5_number(&c, 1);
        const uint64_t number_bytes = links ? 8 : 2;
        tw_hdf5_take(&c, order & 1 ? number_bytes : 0);
        const uint64_t heap = tw_hdf5_address(h, &c);
        if (c.bad)
            return tw_hdf5_damaged(h, "its header ends too early");
        if (heap != TW_HDF5_NOWHERE)
            return tw_hdf5_unsupported(
                h, links ? "its members are indexed in a way that twinrun does not "
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
    int rc = n < 16 ? tw_hdf5_damaged(h, "an address beyond the end of the file: was it cut off?")
                    : tw_hdf5_read_bytes(h, at, head, n);
    if (rc)
        return rc;
    struct cursor c = {head, head + n, false};
    if (memcmp(head, "OHDR", 4) == 0) {
        tw_hdf5_take(&c, 4);
        p->version = (unsigned)tw_hdf5_number(&c, 1);
        p->flags = (unsigned)tw_hdf5_number(&c, 1);
        tw_hdf5_take(&c, p->flags & 0x20 ? 16 : 0); /* times */
        tw_hdf5_take(&c, p->flags & 0x10 ? 4 : 0);  /* limits of attributes */
        p->bytes[0] = tw_hdf5_number(&c, 1u << (p->flags & 3));
    } else {
        p->version = (unsigned)tw_hdf5_number(&c, 1);
        tw_hdf5_take(&c, 7);
        p->bytes[0] = tw_hdf5_number(&c, 4);
        tw_hdf5_take(&c, 4);
    }
    p->at[0] = at + (uint64_t)(c.at - head);
    return c.bad || p->version < 1 || p->version > 2
               ? tw_hdf5_damaged(h, "no object stands where a group says")
               : 0;
}

static int add_part(struct hdf5 *h, struct parts *p, struct cursor c)
{
    const uint64_t at = tw_hdf5_address(h, &c), bytes = tw_hdf5_number(&c, h->length_bytes);
    if (c.bad || p->count == MAX_CONTINUED)
        return tw_hdf5_damaged(h, "its header has too many parts");
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
    int rc = tw_hdf5_read_block(h, p->at[i], p->bytes[i], &block);
    if (rc)
        return rc;
    struct cursor c = {block, block + p->bytes[i], false};
    if (p->version == 2 && i > 0) {
        /* A part has a sign in front of it, and a checksum behind. */
        if (p->bytes[i] < 8 || memcmp(block, "OCHK", 4) != 0)
            rc = tw_hdf5_damaged(h, "a part of its header is missing");
        c = (struct cursor){block + 4, block + p->bytes[i] - (p->bytes[i] < 8 ? 0 : 4), rc != 0};
    }
    const size_t order = p->flags & 4 ? 2 : 0; /* a number by when it was made */
    const size_t head = p->version == 2 ? 4 + order : 8;
    while (rc == 0 && (size_t)(c.end - c.at) >= head) {
        const unsigned kind = (unsigned)tw_hdf5_number(&c, p->version == 2 ? 1 : 2);
        const uint64_t n = tw_hdf5_number(&c, 2);
        const unsigned flags = (unsigned)tw_hdf5_number(&c, 1);
        tw_hdf5_take(&c, head - (p->version == 2 ? 4 : 5));
        const struct cursor inside = tw_hdf5_part_of(&c, n, false);
        if (c.bad)
            rc = tw_hdf5_damaged(h, "its header ends too early");
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
    int rc = tw_hdf5_read_bytes(h, at, head, n);
    if (rc)
        return rc;
    struct cursor c = {head + 8, head + n, false};
    if (memcmp(head, "HEAP", 4) != 0)
        return tw_hdf5_damaged(h, "a group has no names");
    names->bytes = tw_hdf5_number(&c, h->length_bytes);
    tw_hdf5_take(&c, h->length_bytes);
    return tw_hdf5_read_block(h, tw_hdf5_address(h, &c), names->bytes, &names->text);
}

/* The members of one leaf. */
static int read_symbols(struct hdf5 *h, uint64_t at, const struct names *names, unsigned depth)
{
    enum { SOFT_LINK = 2 };
    const uint64_t each = 2 * (uint64_t)h->offset_bytes + 24;
    unsigned char head[8], *block = NULL;
    int rc = tw_hdf5_read_bytes(h, at, head, sizeof head);
    if (rc == 0 && memcmp(head, "SNOD", 4) != 0)
        rc = tw_hdf5_damaged(h, "a group has no list of members");
    const uint64_t count = rc ? 0 : tw_le16(head + 6);
    rc = rc ? rc : tw_hdf5_read_block(h, at + sizeof head, count * each, &block);
    if (rc)
        return rc;
    struct cursor c = {block, block + count * each, false};
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        const uint64_t name = tw_hdf5_number(&c, h->offset_bytes), object = tw_hdf5_address(h, &c);
        const uint64_t kind = tw_hdf5_number(&c, 4);
        tw_hdf5_take(&c, 20);
        if (name >= names->bytes)
            rc = tw_hdf5_damaged(h, "a name lies outside of the names");
        else if (kind == SOFT_LINK)
            rc = tw_hdf5_unsupported(h, "it has a soft link, which is not followed");
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
    int rc = tw_hdf5_read_bytes(h, at, head, n);
    if (rc)
        return rc;
    const int is = head[5];
    if (memcmp(head, "TREE", 4) != 0 || head[4] != 0 || is > MAX_LEVEL ||
        (level >= 0 && is != level))
        return tw_hdf5_damaged(h, "a group has no tree of members");
    const uint64_t count = tw_le16(head + 6);
    const uint64_t bytes = count * (h->offset_bytes + h->length_bytes);
    rc = tw_hdf5_read_block(h, at + n, bytes, &block);
    if (rc)
        return rc;
    struct cursor c = {block, block + bytes, false};
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        tw_hdf5_take(&c, h->length_bytes); /* a name between this child and the one before */
        const uint64_t child = tw_hdf5_address(h, &c);
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
        return tw_hdf5_damaged(h, "a dataset without a shape or a place");
    memcpy(t.shape, o->shape, o->ndim * sizeof *o->shape);
    t.swap = type->swap;
    t.name = tw_arena_text(h->f, tw_hdf5_path_of(h), strlen(tw_hdf5_path_of(h)));
    char *stored = tw_printf("HDF5 class %u, %u bytes", type->class, type->size);
    t.stored_as = stored ? tw_arena_text(h->f, stored, strlen(stored)) : NULL;
    tw_free(stored);
    if (!t.name || !t.stored_as)
        return tw_no_memory(h->err, "for the list of %s", tw_tensors_source(h->f)->name);
    t.unreadable = o->unreadable;
    if (o->at == TW_HDF5_NOWHERE && o->elements > 0)
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
        return tw_hdf5_damaged(h, "its elements lie behind the end of the file: was it cut off?");
    if (!t.unreadable && o->bytes != UINT64_MAX && bytes != o->bytes && o->elements > 0)
        return tw_hdf5_damaged(h, "its shape and its bytes do not fit");
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
        rc = tw_hdf5_unsupported(h, "a type of its own, which no reader of tensors needs");
    else if (rc == 0 && o.has_type)
        rc = add_dataset(h, &o);
    return rc;
}

static int add_object(struct hdf5 *h, const char *name, size_t n, uint64_t at, unsigned depth)
{
    const size_t before = h->path.len;
    if (n == 0 || memchr(name, '/', n) || memchr(name, '\0', n))
        return tw_hdf5_damaged(h, "a member without a proper name");
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
    int rc = tw_hdf5_read_bytes(h, 0, b, n);
    if (rc)
        return rc;
    struct cursor c = {b, b + n, false};
    const bool ours = n >= 16 && memcmp(tw_hdf5_take(&c, 8), "\x89HDF\r\n\x1a\n", 8) == 0;
    const uint64_t version = tw_hdf5_number(&c, 1);
    if (!ours || version > 3)
        return tw_hdf5_unsupported(h, "expected version 0 to 3 of the format");
    if (version < 2)
        tw_hdf5_take(&c, 4);
    h->offset_bytes = (unsigned)tw_hdf5_number(&c, 1);
    h->length_bytes = (unsigned)tw_hdf5_number(&c, 1);
    if ((h->offset_bytes != 4 && h->offset_bytes != 8) ||
        (h->length_bytes != 4 && h->length_bytes != 8))
        return tw_hdf5_unsupported(h, "expected addresses of 4 or 8 bytes");
    if (version < 2)
        tw_hdf5_take(&c, version == 1 ? 13 : 9);
    else
        tw_hdf5_take(&c, 1);
    const uint64_t base = tw_hdf5_address(h, &c);
    tw_hdf5_address(h, &c); /* free space, or what is said beside the superblock */
    const uint64_t end = tw_hdf5_address(h, &c);
    if (version < 2) {
        tw_hdf5_address(h, &c); /* of a driver: of a file that is cut into several */
        tw_hdf5_number(&c, h->offset_bytes);
    }
    *root = tw_hdf5_address(h, &c);
    if (c.bad || base != 0)
        return tw_hdf5_damaged(h, "its first block makes no sense");
    return end > h->size ? tw_hdf5_damaged(h, "the file is shorter than it says: was it cut off?")
                         : 0;
}

int tw_hdf5_list(struct twin_tensors *f, uint64_t base, uint64_t size, struct twin_error *err)
{
    struct hdf5 h = {.f = f,
                     .base = base,
                     .size = size,
                     .budget = TW_HDF5_BUDGET,
                     .path = {.cap = 1 << 20},
                     .err = err};
    uint64_t root = 0;
    tw_tensors_budget(f, size < TW_HDF5_BUDGET ? size : TW_HDF5_BUDGET, TW_LIST_BYTES_EACH);
    int rc = read_superblock(&h, &root);
    rc = rc ? rc : look_at(&h, root, 0);
    tw_buf_free(&h.path);
    return rc;
}
