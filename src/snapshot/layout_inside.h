/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LAYOUT_H
#define TW_LAYOUT_H
/* What layout.c and layout_dvc.c share: one look at data of another tool, whichever it is. */
#include "snapshot_inside.h"

#include "src/snapshot/layout.h"

struct tw_buf;

/* One look at a layout: what is told, and how many things are not as named. */
struct tw_look {
    const struct twin_snapshot_options *o;
    void (*visit)(void *user, const struct twin_layout_result *r);
    void *user;
    long differences;
    struct twin_error *err;
};
/* counts, and calls visit */
void tw_look_tell(struct tw_look *l, const struct twin_layout_result *r);
/* Digests of files below dir; with the cache of that folder. */
int tw_look_hash(struct tw_look *l, const char *dir, struct tw_hash_item *item, size_t n);

int tw_look_dvc(struct tw_look *l, const char *file);
int tw_look_lfs(struct tw_look *l, const char *pointer, const char *other);
int tw_look_huggingface(struct tw_look *l, const char *folder);

/* A pointer of Git LFS: version, oid, size. */
struct tw_lfs_pointer {
    char sha256[65];
    uint64_t bytes;
};
enum { TW_LFS_POINTER_MAX = 1024 };
bool tw_lfs_pointer_read(const char *text, size_t n, struct tw_lfs_pointer *out);

/* DVC's list of a folder's files as JSON, byte for byte as Python writes it: [{"md5": "...",
 * "relpath": "..."}, ...]. Items in the order of their paths. */
int tw_dvc_list(const struct tw_hash_item *item, size_t n, struct tw_buf *out,
                struct twin_error *err);

/* One output or dependency of a .dvc or dvc.lock. */
struct tw_dvc_out {
    const char *path, *wdir, *md5;
    bool text;
};
/* Calls each for those with a path. NULL md5: it has none. TWIN_EFORMAT. */
int tw_dvc_read(const char *data, size_t n, const char *name, bool lock,
                int (*each)(void *user, const struct tw_dvc_out *out), void *user,
                struct twin_error *err);

/* Adds to a snapshot what other tools call its data: the ids of DVC, of pointers of Git LFS, and of
 * Hugging Face. What cannot be read adds nothing; 0 or TWIN_ENOMEM. */
int tw_layout_add_ids(struct twin_snapshot *s, const char *dir, struct twin_error *err);
#endif
