/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_IMAGE_ARCHIVE_H
#define TW_IMAGE_ARCHIVE_H
/*
 * The entries of a layer, read by libarchive (loaded when it is needed). Inside of the image room.
 * Reads a tar archive, plain or compressed by gzip or zstd; digests what it is decompressed to.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <twin/error.h>

struct tw_layer;

enum tw_entry_kind {
    TW_ENTRY_FILE,
    TW_ENTRY_FOLDER,
    TW_ENTRY_LINK,
    TW_ENTRY_HARD_LINK,
    TW_ENTRY_DEVICE,
    TW_ENTRY_PIPE /* or a socket */
};

/* Texts live until the next call on the layer. */
struct tw_entry {
    enum tw_entry_kind kind;
    const char *path;   /* as the archive has it */
    const char *target; /* of both kinds of links */
    uint64_t bytes;
    mode_t mode; /* with its bits for setuid, setgid, sticky */
    struct timespec changed;
};

/* fd stays the caller's; name: for messages. TWIN_EUNSUPPORTED: no libarchive here, or none that
 * reads this compression; TWIN_EFORMAT: no archive; TWIN_ENOMEM. */
int tw_layer_open(int fd, const char *name, struct tw_layer **out, struct twin_error *err);
/* 1: an entry; 0: the archive's end; else a TWIN_E*. */
int tw_layer_next(struct tw_layer *l, struct tw_entry *out, struct twin_error *err);
/* The next piece of the entry's contents, at *offset: holes lie between pieces. *n is 0 at its
 * end. */
int tw_layer_data(struct tw_layer *l, const void **data, size_t *n, uint64_t *offset,
                  struct twin_error *err);
/* Bytes that were decompressed so far. */
uint64_t tw_layer_bytes(const struct tw_layer *l);
/* Reads what is left behind the archive's end, at most `most` bytes decompressed in all
 * (TWIN_ELIMIT), and gives the digest of the whole. */
int tw_layer_digest(struct tw_layer *l, uint64_t most, char hex[65], struct twin_error *err);
void tw_layer_close(struct tw_layer *l);
#endif
