/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REGISTRY_STORE_INSIDE_H
#define TW_REGISTRY_STORE_INSIDE_H
/* What a kind of store has to do: store.h says of each function what it promises. */
#include "sink.h"
#include "store.h"

struct tw_store_kind {
    void (*close)(struct tw_store *s);
    int (*get)(struct tw_store *s, const char *name, size_t cap, char **data, size_t *bytes,
               struct twin_error *err);
    int (*put)(struct tw_store *s, const char *name, const void *data, size_t bytes,
               struct twin_error *err);
    int (*put_content)(struct tw_store *s, int fd, const char *sha256, uint64_t bytes,
                       const char *shown, struct twin_error *err);
    /* Gives what lies under this name to a sink that has been begun; who asked looks at its digest.
     */
    int (*get_content)(struct tw_store *s, const char *sha256, struct tw_sink *to,
                       struct twin_error *err);
    /* NULL: it has no file of it, so a new one is filled. */
    int (*open_content)(struct tw_store *s, const char *sha256, int *fd, struct twin_error *err);
    int (*content_bytes)(struct tw_store *s, const char *sha256, uint64_t *bytes,
                         struct twin_error *err);
    int (*remove_content)(struct tw_store *s, const char *sha256, struct twin_error *err);
    int (*sweep)(struct tw_store *s, int64_t older_ns, uint64_t *count, struct twin_error *err);
    int (*list)(struct tw_store *s, const char *prefix,
                int (*visit)(void *user, const struct tw_store_piece *p), void *user,
                struct twin_error *err);
    int (*hold)(struct tw_store *s, bool alone, struct twin_error *err);
    void (*release)(struct tw_store *s);
};

struct tw_sealed; /* store_sealed.c */

/* The head of each kind's own structure. */
struct tw_store {
    const struct tw_store_kind *as;
    char *name;
    struct tw_sealed *sealed; /* NULL: not sealed */
};

/* What lies under this very name goes into the sink, digest checked; it begins and ends here. */
int tw_store_pour(struct tw_store *s, const char *sha256, struct tw_sink *to,
                  struct twin_error *err);
/* The same as a file that stands at its beginning; the caller closes it. */
int tw_store_open_stored(struct tw_store *s, const char *sha256, int *fd, struct twin_error *err);
/* Fills a new file with what `get` gives of a content: *fd is it, at its beginning. file: -1: it
 * could not be made, and err says so. */
int tw_store_fill(struct tw_store *s, const char *sha256,
                  int (*get)(struct tw_store *s, const char *sha256, int fd,
                             struct twin_error *err),
                  int file, int *fd, struct twin_error *err);
/* path is the name, and outlives the store. */
int tw_store_open_folder(const char *path, bool make, struct tw_store **out,
                         struct twin_error *err);
/* oci:// and oci+http://: a container registry */
int tw_store_open_oci(const char *spec, struct tw_store **out, struct twin_error *err);
int tw_store_open_s3(const char *spec, bool make, struct tw_store **out, struct twin_error *err);
/* The same of a sealed content, whose list tw_store_sealed_as knows; fd -1: nowhere. */
int tw_sealed_get(struct tw_store *s, const char *sha256, int fd, struct twin_error *err);
/* in_memory: the plaintext goes to no disk; for what is small. Else into a file without a name. */
int tw_sealed_open(struct tw_store *s, const char *sha256, bool in_memory, int *fd,
                   struct twin_error *err);
int tw_sealed_bytes(struct tw_store *s, const char *sha256, uint64_t *bytes,
                    struct twin_error *err);
void tw_sealed_free(struct tw_sealed *x);
/* 2026-11-26T11:20:00Z, or with a fraction, as nanoseconds. What is no such time, or none that
 * these hold, may be of now: INT64_MAX. So nothing is taken for old that nobody knows to be. */
int64_t tw_store_time(const char *text);
/* What stands under a digest and has another one: damage, said in one way. TWIN_EFORMAT. */
int tw_store_damaged(const struct tw_store *s, const char *sha256, const char *found,
                     struct twin_error *err);
#endif
