/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FORMATS_INTERNAL_H
#define TW_FORMATS_INTERNAL_H
/* What the readers of this room share. */
#include "src/formats/tensors.h"

#include <stdbool.h>

#include "base.h"

/* Entries of one list, and containers inside of containers. */
enum {
    TW_MAX_TENSORS = 1 << 20,
    TW_MAX_DEPTH = 100,
};
#define TW_MAX_LIST ((uint64_t)256 << 20) /* bytes of a header, a central directory or a pickle */

/*
 * What reading may cost: a fixed part, and so much for each byte of what describes the tensors (a
 * header, a pickle, a directory). docs/security.md states these figures.
 */
#define TW_LIST_FREE_BYTES ((uint64_t)64 << 20)
/* Bytes of memory for each byte of what is read, beyond the fixed part. */
enum {
    TW_LIST_BYTES_EACH = 16, /* of the list, for a byte of a header or of a zip's directory */
    /* for a byte of a pickle: two of them are a number with a name of its own */
    TW_PICKLE_BYTES_EACH = 128,
    TW_UNPACKED_EACH = 64, /* unpacked bytes held at once, for a packed one */
};

/* The file: by descriptor, or in memory. */
struct tw_source {
    int fd;        /* -1: in memory */
    bool borrowed; /* fd is somebody else's to close */
    const unsigned char *memory;
    uint64_t base; /* with fd: where it begins in the file */
    uint64_t size;
    const char *name;
};
/* Exactly n bytes from `at`; less is TWIN_EFORMAT. */
int tw_source_read(const struct tw_source *s, uint64_t at, void *out, size_t n,
                   struct twin_error *err);

/* A run of bytes in the file that unpacks to `bytes` bytes. */
struct tw_piece {
    uint64_t at, packed, bytes;
    bool deflated, checked; /* checked: crc is that of the unpacked bytes */
    uint32_t crc;
};

/* One tensor as its reader found it. */
struct tw_found {
    const char *name, *stored_as, *unreadable; /* kept as they are: arena or static */
    enum twin_dtype dtype;
    uint32_t ndim;
    int64_t shape[TWIN_MAX_NDIM], strides[TWIN_MAX_NDIM]; /* strides in elements, >= 0 */
    /* strides are row-major: they need not be filled */
    bool dense;
    /* the bytes of each element (complex: of each part) stand the other way round */
    bool swap;
    struct tw_piece piece;
    uint64_t offset; /* of the first element, in unpacked bytes of the piece */
};
/* Checks everything against the piece and appends. Errors name the tensor. */
int tw_tensors_add(struct twin_tensors *f, const struct tw_found *t, struct twin_error *err);

/* Memory that lives as long as the file; NULL when there is none. The text is copied and gets a NUL
 * behind it. */
void *tw_arena(struct twin_tensors *f, size_t bytes);
char *tw_arena_text(struct twin_tensors *f, const char *s, size_t n);
/* the first 64 different names are kept; copied */
int tw_tensors_skip(struct twin_tensors *f, const char *name);

/* Does the caller want the values that are no tensors, too? */
bool tw_tensors_wants_values(const struct twin_tensors *f);
/* Adds a value that is no tensor to the list; name and text are copied. */
int tw_tensors_value(struct twin_tensors *f, const struct twin_tensors_value *v,
                     struct twin_error *err);

/* The list of f may grow by TW_LIST_FREE_BYTES and `each` for each of so many bytes; then adding is
 * TWIN_ELIMIT. */
void tw_tensors_budget(struct twin_tensors *f, uint64_t bytes, uint64_t each);
/* Counts what an entry takes: a place in a table that grows by doubling, and its texts. */
int tw_tensors_charge(struct twin_tensors *f, size_t entry, size_t texts, struct twin_error *err);

const struct tw_source *tw_tensors_source(const struct twin_tensors *f);

/* ---- reading packed pieces (piece.c) */
struct tw_unpack;
/* Reads n bytes of the piece, counted unpacked, from `at` on. *state: NULL at first; keeps how far
 * a deflated piece was unpacked, and is freed with tw_unpack_free(). */
int tw_piece_read(const struct tw_source *s, struct tw_unpack **state, const struct tw_piece *p,
                  uint64_t at, void *out, size_t n, struct twin_error *err);
void tw_unpack_free(struct tw_unpack *u);
bool tw_can_inflate(void);

/* ---- zip (zip.c) */
struct tw_zip_entry {
    const char *name; /* NUL-terminated; holds no other NUL */
    struct tw_piece piece;
    const char *unreadable;
    uint64_t header; /* where its local header stands */
};
/* The files of an archive, sorted by name; names is their memory. */
struct tw_zip {
    struct tw_zip_entry *entry;
    size_t count;
    char *names;
};
int tw_zip_open(const struct tw_source *s, struct tw_zip *z, struct twin_error *err);
void tw_zip_free(struct tw_zip *z);
/* The file of exactly this name; NULL: there is none. Entries are sorted by name. */
const struct tw_zip_entry *tw_zip_find(const struct tw_zip *z, const char *name);

/* ---- one reader each */
int tw_npy_list(struct twin_tensors *f, struct twin_error *err);
int tw_npz_list(struct twin_tensors *f, const struct tw_zip *z, struct twin_error *err);
/* An error when two tensors have one name. */
int tw_tensors_check_names(const struct twin_tensors *f, struct twin_error *err);
int tw_safetensors_list(struct twin_tensors *f, struct twin_error *err);
/* The file of HDF5 that these bytes of the source are. */
int tw_hdf5_list(struct twin_tensors *f, uint64_t base, uint64_t size, struct twin_error *err);
/* Does this archive look like one of Keras? */
bool tw_keras_is(const struct tw_zip *z);
int tw_keras_list(struct twin_tensors *f, const struct tw_zip *z, struct twin_error *err);
int tw_torch_list(struct twin_tensors *f, const struct tw_zip *z, const char *pickle,
                  struct twin_error *err);
int tw_torch_legacy_list(struct twin_tensors *f, struct twin_error *err);
struct tw_dcp;
/* takes folder; *out is to be freed after an error, too */
int tw_dcp_list(struct twin_tensors *f, int folder, struct tw_dcp **out, struct twin_error *err);
void tw_dcp_free(struct tw_dcp *d);
int tw_dcp_read(struct tw_dcp *d, const struct twin_tensors_entry *e, size_t i, uint64_t first,
                uint64_t n, void *out, struct twin_error *err);
struct tw_bundle;
/* Is this the index of a checkpoint of TensorFlow? */
bool tw_bundle_is(const struct tw_source *s);
/* *out is to be freed after an error, too */
int tw_bundle_list(struct twin_tensors *f, struct tw_bundle **out, struct twin_error *err);
void tw_bundle_free(struct tw_bundle *b);
int tw_bundle_read(const struct tw_bundle *b, const char *name, const struct twin_tensors_entry *e,
                   size_t i, uint64_t first, uint64_t n, void *out, struct twin_error *err);
struct tw_folder;
/* Files of one folder as one list. *out is to be freed after an error, too. */
int tw_folder_list(struct twin_tensors *f, const struct twin_tensors_file *file, size_t count,
                   struct tw_folder **out, struct twin_error *err);
void tw_folder_free(struct tw_folder *d);
int tw_folder_read(struct tw_folder *d, const struct twin_tensors_entry *e, size_t i,
                   uint64_t first, uint64_t n, void *out, struct twin_error *err);
/* TWIN_EUNSUPPORTED: none of these formats. */
int tw_tensors_open_source(const struct tw_source *s, bool values, struct twin_tensors **out,
                           struct twin_error *err);
enum twin_dtype tw_torch_type(const char *name); /* TWIN_BYTES: none that is known */
void tw_torch_append_key(struct tw_buf *b, const char *s, uint32_t n);
bool tw_torch_legacy_is(const unsigned char *start, size_t n);

static inline uint32_t tw_le16(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}
static inline uint32_t tw_le32(const unsigned char *p)
{
    return tw_le16(p) | tw_le16(p + 2) << 16;
}
static inline uint64_t tw_le64(const unsigned char *p)
{
    return tw_le32(p) | (uint64_t)tw_le32(p + 4) << 32;
}

#endif
