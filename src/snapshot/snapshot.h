/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_SNAPSHOT_H
#define TWIN_SNAPSHOT_H
/*
 * What a folder of data holds, as a manifest: size and SHA-256 of each file, and one number over
 * all of them. Format: docs/format/snapshot.md. Room: src/snapshot.
 *
 *     struct twin_snapshot s;
 *     struct twin_snapshot_options o = {.exclude = NULL};
 *     if (twin_snapshot_take("data", &o, &s, &err) == 0)
 *         twin_snapshot_write(&s, "data.snapshot", &err);
 *
 * Folders are read by several threads; nothing in them is changed. A manifest is foreign bytes:
 * whatever they are, reading gives a snapshot or an error. Since 0.1.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

enum twin_snapshot_kind {
    TWIN_SNAPSHOT_FILE, /* a regular file, or a link to one */
    /* a link to a folder of the same tree, or to nothing: only where it leads to counts */
    TWIN_SNAPSHOT_LINK,
    TWIN_SNAPSHOT_FOLDER /* an empty folder; others show in their files' paths */
};

/* One thing in a folder. Of a file that was not read (twin_snapshot_take_again) sha256 is zeros. */
struct twin_snapshot_entry {
    enum twin_snapshot_kind kind;
    /* below the folder; bytes as the file system has them, no '/' at either end */
    char *path;
    char *target;  /* of a link; else NULL */
    uint32_t mode; /* permission bits of a file; not part of the root digest */
    uint64_t bytes;
    unsigned char sha256[32];
};

/* A name that another tool gave to data below the folder: "dvc-md5", "lfs-pointer",
 * "huggingface-commit". */
struct twin_snapshot_id {
    char *scheme, *value, *path;
}; /* path: "" for the folder itself */

/* A manifest in memory: the entries in the order of their paths, and the digest over all of them.
 * Owns all it points to; not changed after it was taken or read. Needs twin_snapshot_free. */
struct twin_snapshot {
    char root[65]; /* SHA-256, hex, over paths, sizes and contents (not modes) */
    size_t count;
    struct twin_snapshot_entry *entry; /* by path, as bytes */
    /* entries of each kind; links that are files count as files */
    uint64_t files, links, folders, bytes;
    bool follow;    /* links to folders elsewhere were followed */
    char **exclude; /* patterns of what was left out */
    size_t exclude_count;
    struct twin_snapshot_id *id;
    size_t id_count;
    /* taken: what was read; the rest was known from the last time */
    uint64_t read_files, read_bytes;
};

/* How a folder is read. All zeros is the default. Borrowed for the length of the call. */
struct twin_snapshot_options {
    char *const *exclude; /* NULL-terminated, may be NULL. `*`, `?`, `[..]` against the path below
                             the folder, or against the last part when the pattern has no '/' before
                             its end; one that ends in '/' is for folders only */
    bool follow;          /* go into folders elsewhere that links lead to */
    /* read every file, also those that look as they did when they were last read */
    bool paranoid;
    /* a file to be left out wherever it lies (the manifest itself); may be NULL */
    const char *not_this;
    unsigned threads; /* 0: one for each processor */
    /* About ten times a second, on the caller's thread; non-zero ends the work with TWIN_EINTR. May
     * be NULL. */
    int (*progress)(void *user, uint64_t files, uint64_t all_files, uint64_t bytes,
                    uint64_t all_bytes);
    /* Each thing that has no digest: unreadable, changed while it was read, a device, ... May be
     * NULL. */
    void (*trouble)(void *user, const char *path, const char *why);
    void *user;
};

/*
 * Patterns that are always among `exclude`: .git/, .hg/, .svn/, .dvc/, .twinrun/. NULL-terminated.
 */
extern const char *const twin_snapshot_default_exclude[];

/* Reads the folder. What was read is remembered below the user's cache folder while the work goes
 * on, so that a second call, also after SIGKILL, reads only what is new or has another size, inode,
 * or time of change. TWIN_ENOENT, TWIN_EIO (after all troubles were told; err names the first),
 * TWIN_ELIMIT (2^24 entries), TWIN_ENOMEM, TWIN_EINTR. Needs twin_snapshot_free after success. */
int twin_snapshot_take(const char *dir, const struct twin_snapshot_options *o,
                       struct twin_snapshot *out, struct twin_error *err);

/* The same of a folder that is to be held against `was`, by its patterns: o->exclude and o->follow
 * do not count. Files whose size tells that they are not what they were are not read: their sha256
 * is all zeros. */
int twin_snapshot_take_again(const struct twin_snapshot *was, const char *dir,
                             const struct twin_snapshot_options *o, struct twin_snapshot *out,
                             struct twin_error *err);

/* Manifests. Writing is atomic. Reading: TWIN_ENOENT, TWIN_EIO, TWIN_EFORMAT (with the line),
 * TWIN_EVERSION, TWIN_ELIMIT (1 GiB). */
int twin_snapshot_write(const struct twin_snapshot *s, const char *path, struct twin_error *err);
/* Is a file one, by its name or by how it begins? head: its first bytes and a NUL. */
bool twin_snapshot_is(const char *path, const char *head);
int twin_snapshot_read(const char *path, struct twin_snapshot *out, struct twin_error *err);
int twin_snapshot_parse(const char *data, size_t bytes, const char *name, struct twin_snapshot *out,
                        struct twin_error *err);
void twin_snapshot_free(struct twin_snapshot *s);

/* One thing that is not as recorded. */
enum twin_snapshot_change {
    TWIN_SNAPSHOT_ADDED,
    TWIN_SNAPSHOT_MISSING,
    TWIN_SNAPSHOT_CHANGED,
    TWIN_SNAPSHOT_MODE
};
struct twin_snapshot_difference {
    /* TWIN_SNAPSHOT_MODE: other permission bits or another way to the same bytes: no difference in
     * data */
    enum twin_snapshot_change change;
    const struct twin_snapshot_entry *was, *is; /* NULL: not there */
};
/* Calls visit for each, by path, until it returns non-zero. Returns the number of those that are
 * differences in data. */
size_t twin_snapshot_compare(const struct twin_snapshot *was, const struct twin_snapshot *is,
                             int (*visit)(void *user, const struct twin_snapshot_difference *d),
                             void *user);
#endif
