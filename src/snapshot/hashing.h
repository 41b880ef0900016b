/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_HASHING_H
#define TW_HASHING_H
/* Digests of many files: in parallel, and none twice that has not changed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <twin/error.h>

/* Which digest of a file: ours, or one that another tool keeps data by. Part of the cache's
 * format. */
enum tw_hash_kind {
    TW_HASH_SHA256 = 1,
    TW_HASH_MD5,      /* DVC 3 */
    TW_HASH_MD5_TEXT, /* DVC before 3: CR LF as LF in what looks like text */
    TW_HASH_GIT_SHA1  /* git: "blob SIZE\0" before the bytes */
};
enum { TW_HASH_MAX = 32 };
size_t tw_hash_size(enum tw_hash_kind kind); /* bytes */

/* What tells one state of a file from another without reading it. */
struct tw_file_state {
    uint64_t device, inode, bytes;
    int64_t mtime_ns, ctime_ns;
};
struct tw_file_state tw_file_state(const struct stat *st);

/* One file to be digested: the first five members say which and how, the last three are the answer.
 * path is borrowed; its state is what the listing saw, and afterwards what the digest is of. */
struct tw_hash_item {
    const char *path; /* below the root; must live on */
    enum tw_hash_kind kind;
    bool link; /* what a symbolic link leads to; else links are refused */
    bool skip; /* leave it */
    struct tw_file_state state;
    unsigned char digest[TW_HASH_MAX]; /* out */
    bool known;                        /* out: was not read */
    char *why;                         /* out: tw_free'd by the caller; NULL: digest holds */
};

/* What files held when they were last read, kept between calls of the program. One user per folder
 * writes to it, others read. Threads may call find and add at the same time. */
struct tw_hash_cache;
/* The memory of the folder with this absolute path; NULL when none can be kept (no home, no
 * memory): then every file is read. */
struct tw_hash_cache *tw_hash_cache_open(const char *folder);
void tw_hash_cache_close(struct tw_hash_cache *c); /* NULL is allowed */
/* True: the file is as it was when its digest was taken, which item has now. */
bool tw_hash_cache_find(struct tw_hash_cache *c, struct tw_hash_item *item);
/* taken_ns: the wall clock before the file was looked at. Survives SIGKILL some tenths of a second
 * later, or after tw_hash_cache_flush. */
void tw_hash_cache_add(struct tw_hash_cache *c, const struct tw_hash_item *item, int64_t taken_ns);
void tw_hash_cache_flush(struct tw_hash_cache *c);

/* One call's work: the files of one folder, how to read them, and whom to tell. progress is called
 * on the caller's thread about ten times a second; non-zero ends the work. */
struct tw_hash_work {
    int root; /* folder */
    struct tw_hash_item *item;
    size_t count;
    struct tw_hash_cache *cache; /* may be NULL */
    bool paranoid;               /* do not believe the cache (but tell it) */
    unsigned threads;            /* 0: one for each processor */
    int (*progress)(void *user, uint64_t files, uint64_t all_files, uint64_t bytes,
                    uint64_t all_bytes);
    void *user;
    uint64_t read_files, read_bytes; /* out */
};
/* TWIN_EINTR (progress said so), TWIN_ENOMEM. What a single file refuses is in its `why`. */
int tw_hash_files(struct tw_hash_work *w, struct twin_error *err);
#endif
