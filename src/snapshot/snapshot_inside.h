/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SNAPSHOT_H
#define TW_SNAPSHOT_H
/*
 * Inside of snapshot: what a folder holds, and what is in a file of tensors. Digests are all that
 * is kept of either.
 *
 *   walk.c       lists a folder                              hashing.c, hash_cache.c, sha256.c
 * digests, none taken twice snapshot.c   the listing with its digests                text.c the
 * manifest, written and read layout.c, layout_dvc.c   data that DVC, Git LFS and Hugging Face name
 * by digests of their own content.c    digests of tensors, and how far two files' tensors lie apart
 *   checkpoint.c files that are there whole or not at all, with their digest beside them: a library
 * for C programs
 */
#include "hashing.h"

#include "src/snapshot/snapshot.h"

enum { TW_SNAPSHOT_MOST = 1 << 24 };

/* A folder's listing: entries by path, without digests; state[i] belongs to entry[i]. */
struct tw_listing {
    struct twin_snapshot_entry *entry;
    struct tw_file_state *state;
    size_t count, room;
    size_t troubles;
    char *first_trouble;
};
int tw_listing_take(const char *dir, const struct twin_snapshot_options *o, char *const *exclude,
                    struct tw_listing *out, struct twin_error *err);
/* Tells o->trouble, and counts. */
void tw_listing_trouble(struct tw_listing *l, const struct twin_snapshot_options *o,
                        const char *path, const char *why);
void tw_listing_free(struct tw_listing *l);

/* Counts, and the digest over all entries. */
int tw_snapshot_seal(struct twin_snapshot *s, struct twin_error *err);
int tw_snapshot_add_id(struct twin_snapshot *s, const char *scheme, const char *value,
                       const char *path);
#endif
