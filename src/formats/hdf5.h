/* SPDX-License-Identifier: Apache-2.0 */
/* What hdf5.c, hdf5_parts.c and hdf5_values.c share: one file of HDF5 while it is listed. Nothing
 * here is safe for threads. Functions that return an int give 0, or a TWIN_E* whose text is in
 * h->err. */
#ifndef TW_HDF5_H
#define TW_HDF5_H

#include "internal.h"

#define TW_HDF5_BUDGET ((uint64_t)256 << 20) /* bytes that may be read to list one file */
#define TW_HDF5_NOWHERE UINT64_MAX           /* the address that says "none" */

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

/* The path of the object that is looked at, "/" for the root. */
const char *tw_hdf5_path_of(const struct hdf5 *h);
/* TWIN_EFORMAT and TWIN_EUNSUPPORTED, with file and path. */
int tw_hdf5_damaged(const struct hdf5 *h, const char *what);
int tw_hdf5_unsupported(const struct hdf5 *h, const char *what);

/* The next n bytes; zeros, of which 16 may be read, where there are not as many. */
const unsigned char *tw_hdf5_take(struct cursor *c, uint64_t n);
/* A number of n bytes (at most 8), little end first. */
uint64_t tw_hdf5_number(struct cursor *c, unsigned n);
uint64_t tw_hdf5_address(const struct hdf5 *h, struct cursor *c);
/* The next bytes as a cursor of their own. filled: up to a multiple of 8 bytes, as in version 1 of
 * a message. */
struct cursor tw_hdf5_part_of(struct cursor *c, uint64_t bytes, bool filled);
/* Exactly n bytes from `at` on; charged to the budget. */
int tw_hdf5_read_bytes(struct hdf5 *h, uint64_t at, void *out, uint64_t n);
/* The same into new memory, with a NUL behind it: the caller's to free. */
int tw_hdf5_read_block(struct hdf5 *h, uint64_t at, uint64_t n, unsigned char **out);

/* c->bad where the message ends too early. */
struct type tw_hdf5_read_type(struct cursor *c);
/* false: no shape that we know. */
bool tw_hdf5_read_space(const struct hdf5 *h, struct cursor *c, struct object *o);
/* Where the elements are. false: the message is damaged. */
bool tw_hdf5_read_layout(const struct hdf5 *h, struct cursor *c, struct object *o);
/* An attribute of the object that is looked at: its values are added to h->f. */
int tw_hdf5_read_attribute(struct hdf5 *h, struct cursor c, struct object *o);

#endif
