/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of TensorFlow (its "tensor bundle"; a SavedModel's variables are one, too): a file
 * NAME.index with names, types, shapes and places, and files NAME.data-00000-of-00001 with the
 * bytes. tensors.c calls tw_bundle_list() for the index, tw_bundle_read() for elements,
 * tw_bundle_free() at the end.
 *
 * The index is a table as LevelDB has it: blocks of sorted keys, each with a checksum, and one
 * block that says where the others are. Its values are small messages of protocol buffers, taken
 * apart by hand. Texts are values, not tensors; one of them is the graph of the objects that were
 * saved. Data files are named by the index's own name and never by what stands in it. */
#include "internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FOOTER = 48,
    TRAILER = 5, /* behind each block: how it is packed, and its checksum */
    MAX_BLOCK = 64 << 20,
    MAX_TEXT = 64 << 20, /* bytes of one tensor of texts */
    MAX_KEY = 1 << 16,
    MAX_SHARDS = 4096,
};
static const unsigned char magic[8] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};

struct shard {
    int fd;
    uint64_t bytes;
};

/* Where the elements of one tensor are. */
struct place {
    uint64_t shard, at, bytes;
};

struct tw_bundle {
    struct shard *shard;
    size_t shards;
    struct place *place; /* by tensor */
    size_t places, room;
};

/* While the index is read. */
struct reading {
    struct twin_tensors *f;
    struct tw_bundle *b;
    struct twin_error *err;
    bool has_header;
    char key[MAX_KEY + 1];
    size_t key_bytes;
};

/* What an entry says. */
struct entry {
    uint64_t type;
    struct place place;
    uint32_t ndim;
    int64_t shape[TWIN_MAX_NDIM];
    bool sliced;
};

struct bytes {
    const unsigned char *at, *end;
};

enum { TYPE_TEXT = 7 };

static int damaged(const struct reading *r, const char *what)
{
    return twin_error_set(r->err, TWIN_EFORMAT, "%s: damaged checkpoint of TensorFlow: %s",
                          tw_tensors_source(r->f)->name, what);
}

/* ---- numbers and messages */

static bool take_varint(struct bytes *b, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        const unsigned char c = *b->at++;
        *v |= (uint64_t)(c & 127) << shift;
        if (!(c & 128))
            return true;
    }
    return false;
}

static bool take_bytes(struct bytes *b, uint64_t n, struct bytes *out)
{
    if (n > (uint64_t)(b->end - b->at))
        return false;
    *out = (struct bytes){b->at, b->at + n};
    b->at += n;
    return true;
}

/* One field of a message: its number; its value, or its bytes. */
struct field {
    uint64_t number, value;
    struct bytes inside;
};

/* false: the message is damaged. */
static bool take_field(struct bytes *b, struct field *f)
{
    enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };
    uint64_t tag, n;
    *f = (struct field){0};
    if (!take_varint(b, &tag))
        return false;
    f->number = tag >> 3;
    switch (tag & 7) {
    case VARINT: return take_varint(b, &f->value);
    case FIXED64: return take_bytes(b, 8, &f->inside);
    case FIXED32: return take_bytes(b, 4, &f->inside);
    case LENGTH: return take_varint(b, &n) && take_bytes(b, n, &f->inside);
    default: return false;
    }
}

static bool read_size(struct bytes dim, int64_t *size)
{
    struct field f;
    *size = 0;
    while (dim.at < dim.end) {
        if (!take_field(&dim, &f))
            return false;
        if (f.number == 1)
            *size = (int64_t)f.value;
    }
    return *size >= 0;
}

static bool read_shape(struct bytes shape, struct entry *e)
{
    enum { DIM = 2, UNKNOWN_RANK = 3 };
    struct field f;
    while (shape.at < shape.end) {
        if (!take_field(&shape, &f) || (f.number == UNKNOWN_RANK && f.value))
            return false;
        if (f.number != DIM)
            continue;
        if (e->ndim == TWIN_MAX_NDIM || !read_size(f.inside, &e->shape[e->ndim++]))
            return false;
    }
    return true;
}

static bool read_entry(struct bytes b, struct entry *e)
{
    enum { TYPE = 1, SHAPE = 2, SHARD = 3, OFFSET = 4, SIZE = 5, SLICES = 7 };
    struct field f;
    *e = (struct entry){0};
    while (b.at < b.end) {
        if (!take_field(&b, &f))
            return false;
        switch (f.number) {
        case TYPE: e->type = f.value; break;
        case SHAPE:
            if (!read_shape(f.inside, e))
                return false;
            break;
        case SHARD: e->place.shard = f.value; break;
        case OFFSET: e->place.at = f.value; break;
        case SIZE: e->place.bytes = f.value; break;
        case SLICES: e->sliced = true; break;
        default: break;
        }
    }
    return true;
}

/* ---- entries */

static const struct {
    const char *name;
    enum twin_dtype dtype;
} types[] = {
    [1] = {"float", TWIN_F32},
    [2] = {"double", TWIN_F64},
    [3] = {"int32", TWIN_I32},
    [4] = {"uint8", TWIN_U8},
    [5] = {"int16", TWIN_I16},
    [6] = {"int8", TWIN_I8},
    [8] = {"complex64", TWIN_C64},
    [9] = {"int64", TWIN_I64},
    [10] = {"bool", TWIN_BOOL},
    [14] = {"bfloat16", TWIN_BF16},
    [17] = {"uint16", TWIN_U16},
    [18] = {"complex128", TWIN_C128},
    [19] = {"half", TWIN_F16},
    [22] = {"uint32", TWIN_U32},
    [23] = {"uint64", TWIN_U64},
    [24] = {"float8_e5m2", TWIN_F8_E5M2},
    [25] = {"float8_e4m3fn", TWIN_F8_E4M3FN},
};

static int add_place(struct reading *r, struct place place)
{
    struct tw_bundle *b = r->b;
    if (b->places == b->room) {
        size_t room = b->room ? 2 * b->room : 64;
        struct place *grown = tw_reallocarray(b->place, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(r->err, "for the list of %s", tw_tensors_source(r->f)->name);
        b->place = grown;
        b->room = room;
    }
    b->place[b->places++] = place;
    return 0;
}

static int add_tensor(struct reading *r, const struct entry *e)
{
    struct tw_found t = {.ndim = e->ndim, .dense = true, .stored_as = "?", .dtype = TWIN_BYTES};
    t.unreadable = "its elements are of a type that twinrun does not know";
    if (e->type < sizeof types / sizeof *types && types[e->type].name) {
        t.stored_as = types[e->type].name;
        t.dtype = types[e->type].dtype;
        t.unreadable = NULL;
    }
    if (e->sliced)
        t.unreadable = "it was saved in slices";
    memcpy(t.shape, e->shape, e->ndim * sizeof *e->shape);
    t.name = tw_arena_text(r->f, r->key, r->key_bytes);
    if (!t.name)
        return tw_no_memory(r->err, "for the list of %s", tw_tensors_source(r->f)->name);
    /* A place of its own: nothing shares it. */
    t.piece = (struct tw_piece){.at = r->b->places, .packed = INT64_MAX, .bytes = INT64_MAX};
    int rc = tw_tensors_charge(r->f, sizeof(struct place), 0, r->err);
    rc = rc ? rc : tw_tensors_add(r->f, &t, r->err);
    rc = rc ? rc : add_place(r, e->place);
    const struct twin_tensors_entry *is = twin_tensors_at(r->f, twin_tensors_count(r->f) - 1);
    if (rc == 0 && !t.unreadable && is->bytes != e->place.bytes)
        rc = damaged(r, "a tensor's shape and its bytes do not fit");
    return rc;
}

static int read_data(const struct tw_bundle *b, const struct place *p, uint64_t at, void *out,
                     size_t n, const char *name, struct twin_error *err)
{
    if (p->shard >= b->shards || p->at > b->shard[p->shard].bytes ||
        p->bytes > b->shard[p->shard].bytes - p->at)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: its data file ends before a tensor does: was it cut off?", name);
    const struct tw_source s = {.fd = b->shard[p->shard].fd,
                                .borrowed = true,
                                .size = b->shard[p->shard].bytes,
                                .name = name};
    return tw_source_read(&s, p->at + at, out, n, err);
}

/* The texts of one tensor as values: lengths, a checksum of them, and the texts one after another.
 */
static int text_values(struct reading *r, const struct entry *e, const unsigned char *data)
{
    enum { CHECKSUM = 4 };
    struct bytes lengths = {data, data + e->place.bytes}, texts = lengths, text;
    uint64_t count = 1, n;
    int rc = 0;
    for (uint32_t d = 0; d < e->ndim; d++)
        if (__builtin_mul_overflow(count, (uint64_t)e->shape[d], &count))
            return damaged(r, "texts of an impossible shape");
    if (count > e->place.bytes)
        return damaged(r, "more texts than bytes");
    for (uint64_t i = 0; i < count; i++)
        if (!take_varint(&texts, &n))
            return damaged(r, "texts end too early");
    if (!take_bytes(&texts, CHECKSUM, &text))
        return damaged(r, "texts end too early");
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        struct twin_tensors_value v = {.kind = TWIN_VALUE_BYTES};
        char *name = e->ndim ? tw_printf("%s[%llu]", r->key, (unsigned long long)i)
                             : tw_strdup(r->key);
        take_varint(&lengths, &n);
        if (!name)
            rc = tw_no_memory(r->err, "for a name");
        else if (!take_bytes(&texts, n, &text))
            rc = damaged(r, "texts end too early");
        v.name = name;
        v.text = (const char *)text.at;
        v.text_bytes = (size_t)(text.end - text.at);
        rc = rc ? rc : tw_tensors_value(r->f, &v, r->err);
        tw_free(name);
    }
    return rc;
}

static int add_texts(struct reading *r, const struct entry *e)
{
    const char *name = tw_tensors_source(r->f)->name;
    if (!tw_tensors_wants_values(r->f))
        return 0;
    if (e->place.bytes > MAX_TEXT)
        return twin_error_set(r->err, TWIN_ELIMIT, "%s: %s: texts of more than %d bytes", name,
                              r->key, MAX_TEXT);
    unsigned char *data = tw_malloc(e->place.bytes + 1);
    if (!data)
        return tw_no_memory(r->err, "reading %s", name);
    int rc = read_data(r->b, &e->place, 0, data, e->place.bytes, name, r->err);
    rc = rc ? rc : text_values(r, e, data);
    tw_free(data);
    return rc;
}

/* ---- data files */

static int open_shards(struct reading *r, uint64_t count)
{
    const char *name = tw_tensors_source(r->f)->name;
    const size_t stem = strlen(name) - (tw_ends(name, ".index") ? strlen(".index") : 0);
    if (count < 1 || count > MAX_SHARDS || r->b->shards)
        return damaged(r, "a number of data files that makes no sense");
    if (tw_tensors_source(r->f)->fd < 0 || stem == strlen(name))
        return twin_error_set(r->err, TWIN_EUNSUPPORTED,
                              "%s: expected the index of a checkpoint of TensorFlow to be called "
                              "NAME.index and to lie beside its NAME.data-00000-of-%05llu",
                              name, (unsigned long long)count);
    r->b->shard = tw_calloc(count, sizeof *r->b->shard);
    if (!r->b->shard)
        return tw_no_memory(r->err, "reading %s", name);
    for (uint64_t i = 0; i < count; i++) {
        struct stat st;
        char *path = tw_printf("%.*s.data-%05llu-of-%05llu", (int)stem, name, (unsigned long long)i,
                               (unsigned long long)count);
        if (!path)
            return tw_no_memory(r->err, "reading %s", name);
        /* a FIFO must not hold us up */
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        r->b->shard[i].fd = fd;
        r->b->shards += fd >= 0;
        int rc = 0;
        if (fd < 0 || fstat(fd, &st) != 0)
            rc = twin_error_system(r->err, "%s: cannot open", path);
        else if (!S_ISREG(st.st_mode))
            rc = twin_error_set(r->err, TWIN_EIO, "%s: expected a file", path);
        else
            r->b->shard[i].bytes = (uint64_t)st.st_size;
        tw_free(path);
        if (rc)
            return rc;
    }
    return 0;
}

/* The first entry has no name: it says how many data files there are. */
static int read_header(struct reading *r, struct bytes b)
{
    enum { SHARDS = 1, ENDIANNESS = 2 };
    struct field f;
    uint64_t count = 0;
    while (b.at < b.end) {
        if (!take_field(&b, &f))
            return damaged(r, "its header makes no sense");
        if (f.number == SHARDS)
            count = f.value;
        if (f.number == ENDIANNESS && f.value)
            return twin_error_set(r->err, TWIN_EUNSUPPORTED, "%s: its numbers are big-endian",
                                  tw_tensors_source(r->f)->name);
    }
    r->has_header = true;
    return open_shards(r, count);
}

/* ---- the table */

/* Reads the block at these places, checked; *out is the caller's to free. */
static int read_block(struct reading *r, uint64_t at, uint64_t n, unsigned char **out)
{
    const struct tw_source *s = tw_tensors_source(r->f);
    *out = NULL;
    if (n > MAX_BLOCK || at > s->size || n + TRAILER > s->size - at)
        return damaged(r, "a block beyond the end of its index: was it cut off?");
    unsigned char *block = tw_malloc(n + TRAILER);
    if (!block)
        return tw_no_memory(r->err, "reading %s", s->name);
    int rc = tw_source_read(s, at, block, n + TRAILER, r->err);
    const uint32_t crc = tw_crc32c(0, block, n + 1), mask = 0xa282ead8;
    if (rc == 0 && block[n] != 0)
        rc = twin_error_set(r->err, TWIN_EUNSUPPORTED, "%s: its index is compressed", s->name);
    if (rc == 0 && tw_le32(block + n + 1) != (crc >> 15 | crc << 17) + mask)
        rc = damaged(r, "a checksum of its index is wrong");
    if (rc)
        tw_free(block);
    else
        *out = block;
    return rc;
}

typedef int visit_row(struct reading *r, struct bytes value);

/* Calls visit for each row; its key is in r->key. A key has what it shares with the last one left
 * out. */
static int each_row(struct reading *r, const unsigned char *block, uint64_t n, visit_row *visit)
{
    enum { WORD = 4 };
    int rc = 0;
    const uint64_t restarts = n >= WORD ? tw_le32(block + n - WORD) : 0;
    if (n < WORD || restarts > (n - WORD) / WORD)
        return damaged(r, "a block of its index makes no sense");
    struct bytes b = {block, block + n - WORD * (restarts + 1)};
    size_t shared_room = 0;
    while (rc == 0 && b.at < b.end) {
        uint64_t shared, more, bytes;
        struct bytes key, value;
        if (!take_varint(&b, &shared) || !take_varint(&b, &more) || !take_varint(&b, &bytes) ||
            shared > shared_room || more > MAX_KEY - shared || !take_bytes(&b, more, &key) ||
            !take_bytes(&b, bytes, &value))
            return damaged(r, "a row of its index makes no sense");
        memcpy(r->key + shared, key.at, more);
        r->key_bytes = shared_room = shared + more;
        r->key[r->key_bytes] = '\0';
        rc = visit(r, value);
    }
    return rc;
}

static int visit_entry(struct reading *r, struct bytes value)
{
    struct entry e;
    if (r->key_bytes == 0)
        return read_header(r, value);
    if (!r->has_header)
        return damaged(r, "expected a header first");
    if (!read_entry(value, &e))
        return damaged(r, "an entry makes no sense");
    if (memchr(r->key, '\0', r->key_bytes)) /* a slice; its tensor is unreadable */
        return 0;
    return e.type == TYPE_TEXT && !e.sliced ? add_texts(r, &e) : add_tensor(r, &e);
}

static int visit_block(struct reading *r, struct bytes value)
{
    uint64_t at, n;
    unsigned char *block;
    if (!take_varint(&value, &at) || !take_varint(&value, &n))
        return damaged(r, "a block without a place");
    int rc = read_block(r, at, n, &block);
    rc = rc ? rc : each_row(r, block, n, visit_entry);
    /* The keys of this level go on where they were. */
    tw_free(block);
    return rc;
}

bool tw_bundle_is(const struct tw_source *s)
{
    unsigned char end[sizeof magic];
    return s->size >= FOOTER &&
           tw_source_read(s, s->size - sizeof magic, end, sizeof end, NULL) == 0 &&
           memcmp(end, magic, sizeof magic) == 0;
}

int tw_bundle_list(struct twin_tensors *f, struct tw_bundle **out, struct twin_error *err)
{
    const struct tw_source *s = tw_tensors_source(f);
    unsigned char footer[FOOTER], *block = NULL;
    struct reading *r = tw_calloc(1, sizeof *r);
    uint64_t at = 0, n = 0;
    *out = tw_calloc(1, sizeof **out);
    if (!r || !*out) {
        tw_free(r);
        return tw_no_memory(err, "reading %s", s->name);
    }
    r->f = f;
    r->b = *out;
    r->err = err;
    tw_tensors_budget(f, s->size, TW_LIST_BYTES_EACH);
    int rc = tw_source_read(s, s->size - FOOTER, footer, FOOTER, err);
    struct bytes b = {footer, footer + FOOTER};
    /* First the place of a block that nobody needs. */
    if (rc == 0 && (!take_varint(&b, &at) || !take_varint(&b, &n) || !take_varint(&b, &at) ||
                    !take_varint(&b, &n)))
        rc = damaged(r, "its last bytes make no sense");
    rc = rc ? rc : read_block(r, at, n, &block);
    rc = rc ? rc : each_row(r, block, n, visit_block);
    if (rc == 0 && !r->has_header)
        rc = damaged(r, "it has no header");
    tw_free(block);
    tw_free(r);
    return rc ? rc : tw_tensors_check_names(f, err);
}

void tw_bundle_free(struct tw_bundle *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->shards; i++)
        close(b->shard[i].fd);
    tw_free(b->shard);
    tw_free(b->place);
    tw_free(b);
}

int tw_bundle_read(const struct tw_bundle *b, const char *name, const struct twin_tensors_entry *e,
                   size_t i, uint64_t first, uint64_t n, void *out, struct twin_error *err)
{
    const size_t each = twin_dtype_size(e->dtype);
    return read_data(b, &b->place[i], first * each, out, n * each, name, err);
}
