/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SNAPSHOT_H
#define TW_SNAPSHOT_H
/*
 * Inside of snapshot: what a folder holds, and what is in a file of tensors. Digests are all that
 * is kept of either.
 *
 *  - walk.c lists a folder;
 *  - hashing.c, hash_cache.c and sha256.c make digests, none of them twice;
 *  - snapshot.c is the listing with its digests;
 *  - text.c writes and reads the manifest;
 *  - layout.c and layout_dvc.c know data that DVC, Git LFS and Hugging Face name by digests of
 * their own;
 *  - content.c digests tensors, pieces.c piece by piece, and says how far those of two files lie
 * apart;
 *  - looking.c shows a person how far the work is;
 *  - checkpoint.c writes files that are there whole or not at all, with their digest beside them: a
 *    library for C programs.
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

/* ---- pieces.c: the digests of all tensors of what was opened, by so many threads */
struct twin_content;
int tw_content_pieces(struct twin_content *c, unsigned threads, struct twin_error *err);
struct tw_sha256;
/* a text behind its length */
void tw_take_text(struct tw_sha256 *s, const char *text);

/* Counts, and the digest over all entries. */
int tw_snapshot_seal(struct twin_snapshot *s, struct twin_error *err);
int tw_snapshot_add_id(struct twin_snapshot *s, const char *scheme, const char *value,
                       const char *path);
#endif
