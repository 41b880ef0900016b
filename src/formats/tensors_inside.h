/* SPDX-License-Identifier: Apache-2.0 */
/* What tensors.c (opening), tensors_list.c (the list) and tensors_read.c (elements) share: an open
 * file of tensors. The readers of formats do not see it. */
#ifndef TW_FORMATS_TENSORS_INSIDE_H
#define TW_FORMATS_TENSORS_INSIDE_H

#include "internal.h"

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

#endif
