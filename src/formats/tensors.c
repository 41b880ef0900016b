/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tensors: which format one is, the list of its tensors and other values, and reading
 * elements (src/formats/tensors.h). The formats themselves are in npy.c, safetensors.c, torch.c,
 * dcp.c (a folder of torch.distributed.checkpoint) and folder.c (several files as one list); each
 * adds what it finds by tw_tensors_add(), which checks it against the bytes that are there.
 *
 * All files are foreign. Opening reads descriptions only, never the elements, and what a list may
 * cost in memory is bounded by the size of what describes it. Nothing in a file is ever run.
 *
 * Two names of the same bytes are told as aliases. Elements that lie apart (a transposed tensor)
 * are put into row-major order when they are read; for that their whole span is held in memory, one
 * tensor at a time. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* bytes that are held to put elements that lie apart into order */
#define MAX_WHOLE ((uint64_t)16 << 30)

/* One tensor of the list: what the caller sees, and where its elements are. */
struct stored {
    struct twin_tensors_entry entry;
    const int64_t *strides; /* NULL: dense */
    bool swap;
    struct tw_piece piece;
    /* in the unpacked piece: first byte, bytes from the first element to the end of the last */
    uint64_t offset, span;
};

/* A piece of memory that lives as long as the file; blocks are chained and never freed one by one.
 */
struct block {
    struct block *next;
    size_t used, room;
    max_align_t data[];
};

/* An open file, or folder, with its list. dcp and folder are NULL for a single file; then source is
 * read. */
struct twin_tensors {
    struct tw_source source;
    enum twin_tensors_kind kind;
    struct stored *tensor;
    size_t count, room;
    struct twin_tensors_value *value;
    size_t values, value_room;
    bool wants_values;
    /* bytes of the list; budget 0: what it is made from was counted already */
    uint64_t budget, charged;
    struct tw_dcp *dcp; /* a folder's: the files behind the list */
    struct tw_folder *folder;
    struct tw_bundle *bundle; /* TensorFlow's data files */
    const char **skipped;
    size_t skipped_count;
    size_t *by_place; /* hash table of first entries, index + 1, by what they show */
    size_t places;
    struct block *memory;
    struct tw_unpack *unpack;
    unsigned char *whole; /* the span of tensor whole_of, which is not dense */
    size_t whole_of;
};

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

/* ---- opening */

/* A zip file: a checkpoint when a data.pkl lies directly below a folder of it, else arrays. */
static int list_zip(struct twin_tensors *f, struct twin_error *err)
{
    struct tw_zip z;
    const char *pickle = NULL;
    int rc = tw_zip_open(&f->source, &z, err);
    if (rc != 0)
        return rc;
    tw_tensors_budget(f, f->source.size, TW_LIST_BYTES_EACH);
    bool arrays = false;
    for (size_t i = 0; i < z.count; i++) {
        const char *slash = strchr(z.entry[i].name, '/');
        if (slash && strcmp(slash, "/data.pkl") == 0 && !pickle)
            pickle = z.entry[i].name;
        arrays |= tw_ends(z.entry[i].name, ".npy");
    }
    if (tw_keras_is(&z)) {
        f->kind = TWIN_TENSORS_KERAS;
        rc = tw_keras_list(f, &z, err);
    } else if (pickle) {
        f->kind = TWIN_TENSORS_TORCH;
        rc = tw_torch_list(f, &z, pickle, err);
    } else if (arrays || z.count == 0) {
        f->kind = TWIN_TENSORS_NPZ;
        rc = tw_npz_list(f, &z, err);
    } else {
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "%s: a zip file that is neither a PyTorch checkpoint (no data.pkl in "
                            "it) nor .npz (no .npy in it) nor .keras (no *.weights.h5 in it)",
                            f->source.name);
    }
    tw_zip_free(&z);
    return rc;
}

/* What a file that is none of tensors seems to be, by its first n bytes. */
static const char *seems(const unsigned char *b, size_t n)
{
    if (n == 0)
        return "an empty file";
    if (n >= 2 && memcmp(b, "\x1f\x8b", 2) == 0)
        return "gzip: unpack it first";
    if (n >= 2 && b[0] == 0x80 && b[1] <= 5)
        return "a Python pickle, which is a program; save with numpy.save, torch.save or "
               "safetensors";
    if (n >= 4 && memcmp(b, "TWV1", 4) == 0)
        return "recorded values of a transplant, which twinrun alone reads";
    return n >= 2 && b[0] == '#' && b[1] == '!' ? "a script" : "something else";
}

static int unknown_format(const struct tw_source *s, const unsigned char *b, size_t n,
                          struct twin_error *err)
{
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "%s: expected .npy, .npz, .safetensors, .keras, .h5 or a checkpoint of "
                          "PyTorch or TensorFlow (its .index), found %s",
                          s->name, seems(b, n));
}

/* Tells the format by the first bytes. safetensors has no magic number: a length below 2^32, then
 * an open brace; a larger length needs the name to say it. */
static int list_tensors(struct twin_tensors *f, struct twin_error *err)
{
    unsigned char start[32];
    size_t n = f->source.size < sizeof start ? (size_t)f->source.size : sizeof start;
    int rc = tw_source_read(&f->source, 0, start, n, err);
    if (rc != 0)
        return rc;
    /* The formats with a magic number first. */
    if (n >= 6 && memcmp(start, "\x93NUMPY", 6) == 0) {
        f->kind = TWIN_TENSORS_NPY;
        return tw_npy_list(f, err);
    }
    if (n >= 4 && (memcmp(start, "PK\3\4", 4) == 0 || memcmp(start, "PK\5\6", 4) == 0))
        return list_zip(f, err);
    if (n >= 8 && memcmp(start, "\x89HDF\r\n\x1a\n", 8) == 0) {
        f->kind = TWIN_TENSORS_HDF5;
        return tw_hdf5_list(f, 0, f->source.size, err);
    }
    if (tw_torch_legacy_is(start, n)) {
        f->kind = TWIN_TENSORS_TORCH_LEGACY;
        return tw_torch_legacy_list(f, err);
    }
    /* a header has at most 1e8 bytes */
    if (n >= 10 && start[8] == '{' &&
        (tw_le32(start + 4) == 0 || tw_ends(f->source.name, ".safetensors"))) {
        f->kind = TWIN_TENSORS_SAFETENSORS;
        return tw_safetensors_list(f, err);
    }
    if (tw_bundle_is(&f->source)) {
        f->kind = TWIN_TENSORS_TENSORFLOW;
        return tw_bundle_list(f, &f->bundle, err);
    }
    return unknown_format(&f->source, start, n, err);
}

/* An empty list of what s holds. NULL: no memory; then s is closed. */
static struct twin_tensors *begin_list(const struct tw_source *s, enum twin_tensors_kind kind,
                                       bool values, struct twin_error *err)
{
    struct twin_tensors *f = tw_calloc(1, sizeof *f);
    if (f) {
        f->source = *s;
        f->kind = kind;
        f->wants_values = values;
        f->source.name = tw_arena_text(f, s->name, strlen(s->name));
        if (f->source.name)
            return f;
        twin_tensors_close(f);
    } else if (s->fd >= 0 && !s->borrowed) {
        close(s->fd);
    }
    tw_no_memory(err, "reading %s", s->name);
    return NULL;
}

/* Hands the list over, or closes it. */
static int finish_list(struct twin_tensors *f, int rc, struct twin_tensors **out)
{
    if (rc)
        twin_tensors_close(f);
    else
        *out = f;
    return rc;
}

int tw_tensors_open_source(const struct tw_source *s, bool values, struct twin_tensors **out,
                           struct twin_error *err)
{
    *out = NULL;
    struct twin_tensors *f = begin_list(s, TWIN_TENSORS_NPY, values, err);
    return f ? finish_list(f, list_tensors(f, err), out) : TWIN_ENOMEM;
}

/* fd: of the folder; taken. */
static int open_folder(const char *path, int fd, bool values, struct twin_tensors **out,
                       struct twin_error *err)
{
    if (faccessat(fd, ".metadata", F_OK, 0) != 0) {
        close(fd);
        return twin_error_set(err, TWIN_EINVAL,
                              "%s: expected a file, or a folder of torch.distributed.checkpoint "
                              "(with .metadata in it), found another folder",
                              path);
    }
    struct twin_tensors *f = begin_list(&(struct tw_source){.fd = -1, .name = path},
                                        TWIN_TENSORS_TORCH_DISTRIBUTED, values, err);
    if (!f) {
        close(fd);
        return TWIN_ENOMEM;
    }
    return finish_list(f, tw_dcp_list(f, fd, &f->dcp, err), out);
}

int twin_tensors_open_folder(const char *dir, const struct twin_tensors_file *file, size_t count,
                             struct twin_tensors **out, struct twin_error *err)
{
    *out = NULL;
    struct twin_tensors *f = begin_list(&(struct tw_source){.fd = -1, .name = dir},
                                        TWIN_TENSORS_FOLDER, true, err);
    return f ? finish_list(f, tw_folder_list(f, file, count, &f->folder, err), out) : TWIN_ENOMEM;
}

/* Opened once and looked at afterwards, so that it is the same file. */
static int open_path(const char *path, bool values, struct twin_tensors **out,
                     struct twin_error *err)
{
    struct stat st;
    /* a FIFO must not hold us up */
    struct tw_source s = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .name = path};
    *out = NULL;
    if (s.fd < 0)
        return twin_error_system(err, "%s: cannot open", path);
    if (fstat(s.fd, &st) != 0) {
        int rc = twin_error_system(err, "%s", path);
        close(s.fd);
        return rc;
    }
    if (S_ISDIR(st.st_mode))
        return open_folder(path, s.fd, values, out, err);
    if (!S_ISREG(st.st_mode)) {
        close(s.fd);
        return twin_error_set(err, TWIN_EINVAL, "%s: expected a file, found %s", path,
                              "a device, pipe or socket");
    }
    s.size = (uint64_t)st.st_size;
    return tw_tensors_open_source(&s, values, out, err);
}

int twin_tensors_open(const char *path, struct twin_tensors **out, struct twin_error *err)
{
    return open_path(path, false, out, err);
}

int twin_tensors_open_all(const char *path, struct twin_tensors **out, struct twin_error *err)
{
    return open_path(path, true, out, err);
}

int twin_tensors_open_all_bytes(const void *data, size_t bytes, const char *name,
                                struct twin_tensors **out, struct twin_error *err)
{
    const struct tw_source s = {.fd = -1, .memory = data, .size = bytes, .name = name};
    return tw_tensors_open_source(&s, true, out, err);
}

int twin_tensors_open_bytes(const void *data, size_t bytes, const char *name,
                            struct twin_tensors **out, struct twin_error *err)
{
    const struct tw_source s = {.fd = -1, .memory = data, .size = bytes, .name = name};
    return tw_tensors_open_source(&s, false, out, err);
}

void twin_tensors_close(struct twin_tensors *f)
{
    if (!f)
        return;
    if (f->source.fd >= 0 && !f->source.borrowed)
        close(f->source.fd);
    tw_dcp_free(f->dcp);
    tw_folder_free(f->folder);
    tw_bundle_free(f->bundle);
    tw_unpack_free(f->unpack);
    tw_free(f->whole);
    tw_free(f->tensor);
    tw_free(f->by_place);
    for (struct block *b = f->memory, *next; b; b = next) {
        next = b->next;
        tw_free(b);
    }
    tw_free(f->skipped);
    tw_free(f->value);
    tw_free(f);
}

/* ---- looking */

enum twin_tensors_kind twin_tensors_kind(const struct twin_tensors *f)
{
    return f->kind;
}

const char *twin_tensors_kind_name(enum twin_tensors_kind kind)
{
    static const char *const names[] = {".npy",
                                        ".npz",
                                        "safetensors",
                                        "PyTorch",
                                        "PyTorch, old format",
                                        "torch.distributed.checkpoint",
                                        "folder",
                                        "HDF5",
                                        "Keras",
                                        "TensorFlow"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

size_t twin_tensors_count(const struct twin_tensors *f)
{
    return f->count;
}

const struct twin_tensors_entry *twin_tensors_at(const struct twin_tensors *f, size_t i)
{
    return i < f->count ? &f->tensor[i].entry : NULL;
}

size_t twin_tensors_value_count(const struct twin_tensors *f)
{
    return f->values;
}

const struct twin_tensors_value *twin_tensors_value_at(const struct twin_tensors *f, size_t i)
{
    return i < f->values ? &f->value[i] : NULL;
}

size_t twin_tensors_skipped_count(const struct twin_tensors *f)
{
    return f->skipped_count;
}

const char *twin_tensors_skipped(const struct twin_tensors *f, size_t i)
{
    return i < f->skipped_count ? f->skipped[i] : NULL;
}

/* ---- values */

/* Turns the bytes of each element round; of a complex one, of each of its two parts. */
static void swap_bytes(unsigned char *p, uint64_t n, enum twin_dtype dtype)
{
    size_t part = twin_dtype_size(dtype);
    if (dtype == TWIN_C64 || dtype == TWIN_C128) {
        part /= 2;
        n *= 2;
    }
    for (uint64_t i = 0; i < n; i++, p += part)
        for (size_t a = 0, b = part - 1; a < b; a++, b--) {
            unsigned char t = p[a];
            p[a] = p[b];
            p[b] = t;
        }
}

/* A file that has hardly any of its bytes on the disk: holes cost nothing there, and everything in
 * memory. */
static bool mostly_holes(const struct tw_source *s, uint64_t span)
{
    struct stat st;
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        return false;
    return span > TW_LIST_FREE_BYTES + TW_UNPACKED_EACH * (uint64_t)st.st_blocks * 512;
}

/* Reads the span of tensor i into memory, because its elements lie apart; f->whole stays until
 * another such tensor is read. Refused where the span is out of all proportion to the bytes of the
 * file. */
static int hold_span(struct twin_tensors *f, size_t i, struct twin_error *err)
{
    const struct stored *s = &f->tensor[i];
    if (f->whole && f->whole_of == i)
        return 0;
    tw_free(f->whole);
    f->whole = NULL;
    if (s->span > MAX_WHOLE)
        return twin_error_set(err, TWIN_ELIMIT,
                              "%s: tensor %s lies in %llu bytes that are not in row-major order; "
                              "at most %llu are sorted",
                              f->source.name, s->entry.name, (unsigned long long)s->span,
                              (unsigned long long)MAX_WHOLE);
    if (!s->piece.deflated && mostly_holes(&f->source, s->span))
        return twin_error_set(
            err, TWIN_ELIMIT,
            "%s: tensor %s: %llu bytes would have to be sorted, and the file is nearly all holes",
            f->source.name, s->entry.name, (unsigned long long)s->span);
    if (s->piece.deflated && s->span > TW_LIST_FREE_BYTES + TW_UNPACKED_EACH * s->piece.packed)
        return twin_error_set(
            err, TWIN_ELIMIT,
            "%s: tensor %s: %llu packed bytes become %llu, which would have to be sorted: too many",
            f->source.name, s->entry.name, (unsigned long long)s->piece.packed,
            (unsigned long long)s->span);
    unsigned char *p = tw_malloc(s->span + 1);
    if (!p)
        return tw_no_memory(err, "for the %llu bytes of tensor %s of %s",
                            (unsigned long long)s->span, s->entry.name, f->source.name);
    int rc = tw_piece_read(&f->source, &f->unpack, &s->piece, s->offset, p, s->span, err);
    if (rc != 0) {
        tw_free(p);
        return rc;
    }
    f->whole = p;
    f->whole_of = i;
    return 0;
}

/* Copies n elements from number `first` on (row-major) out of the span. The index is counted up
 * like an odometer, the last dimension fastest. */
static void gather_elements(const struct stored *s, const unsigned char *from, uint64_t first,
                            uint64_t n, unsigned char *out)
{
    const struct twin_tensors_entry *e = &s->entry;
    const size_t size = twin_dtype_size(e->dtype);
    int64_t index[TWIN_MAX_NDIM];
    /* Where element `first` lies, in elements from the start of the span. */
    uint64_t at = 0;
    for (uint32_t d = e->ndim; d-- > 0;) {
        index[d] = (int64_t)(first % (uint64_t)e->shape[d]);
        first /= (uint64_t)e->shape[d];
        at += (uint64_t)(index[d] * s->strides[d]);
    }
    for (uint64_t i = 0; i < n; i++, out += size) {
        memcpy(out, from + at * size, size);
        for (uint32_t d = e->ndim; d-- > 0;) {
            at += (uint64_t)s->strides[d];
            if (++index[d] < e->shape[d])
                break;
            at -= (uint64_t)(e->shape[d] * s->strides[d]);
            index[d] = 0;
        }
    }
}

/* Then reading them changes nothing of f. */
bool twin_tensors_by_several(const struct twin_tensors *f, size_t i)
{
    const struct stored *s = i < f->count ? &f->tensor[i] : NULL;
    return s && !f->dcp && !f->folder && !f->bundle && !s->strides && !s->piece.deflated &&
           !s->entry.unreadable;
}

/* Elements are numbered in row-major order. They come out in this machine's byte order. */
int twin_tensors_read(struct twin_tensors *f, size_t i, uint64_t first, uint64_t n, void *out,
                      struct twin_error *err)
{
    int rc = 0;
    if (i >= f->count)
        return twin_error_set(err, TWIN_EINVAL, "%s has %zu tensors; number %zu was asked for",
                              f->source.name, f->count, i);
    const struct stored *s = &f->tensor[i];
    const struct twin_tensors_entry *e = &s->entry;
    if (e->unreadable)
        return twin_error_set(err, TWIN_EUNSUPPORTED, "%s: tensor %s cannot be read: %s",
                              f->source.name, e->name, e->unreadable);
    if (first > e->count || n > e->count - first)
        return twin_error_set(err, TWIN_EINVAL, "%s: tensor %s has %llu elements", f->source.name,
                              e->name, (unsigned long long)e->count);
    if (n == 0)
        return 0;
    /* Folders have their own way to the elements, and their files swap bytes themselves. */
    if (f->dcp)
        return tw_dcp_read(f->dcp, e, i, first, n, out, err);
    if (f->folder)
        return tw_folder_read(f->folder, e, i, first, n, out, err);
    if (f->bundle)
        return tw_bundle_read(f->bundle, f->source.name, e, i, first, n, out, err);
    if (s->strides) {
        rc = hold_span(f, i, err);
        if (rc == 0)
            gather_elements(s, f->whole, first, n, out);
    } else {
        size_t size = twin_dtype_size(e->dtype);
        rc = tw_piece_read(&f->source, &f->unpack, &s->piece, s->offset + first * size, out,
                           n * size, err);
    }
    if (rc == 0 && s->swap)
        swap_bytes(out, n, e->dtype);
    return rc;
}
