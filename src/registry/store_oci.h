/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REGISTRY_STORE_OCI_H
#define TW_REGISTRY_STORE_OCI_H
/* What the three files of a store in a container registry share: store_oci.c has tags, manifests,
 * listing and lock, store_oci_content.c blobs and contents, store_oci_log.c the log. */
#include "distribution.h"
#include "store_inside.h"

#include "base.h"

static const int64_t TW_SECOND_NS = INT64_C(1000000000);
enum { TW_OCI_TAG_BYTES = 130, TW_OCI_MANIFEST_BYTES = 4 << 20 };
#define TW_OCI_TYPE_ENTRY "application/vnd.twinrun.registry-entry.v1"

/* An entry of the log as a tag has it. */
struct tw_oci_entry {
    uint64_t number;
    char manifest[65];
};

struct tw_oci {
    struct tw_store head;
    const char *spec; /* head.name */
    struct tw_dist *d;
    bool has_empty; /* the empty config is there */
    struct tw_oci_entry *entry;
    size_t entries;              /* as the last listing had them, in no order */
    char lock[TW_OCI_TAG_BYTES]; /* the tag; "": none is held */
    int64_t locked_ns;
    bool alone;
};

/* The call; any status but those of a success is an error. */
int tw_oci_ask(struct tw_oci *s, struct tw_dist_call *call, const char *shown,
               struct twin_error *err);
/* A GET of a path into the sink, which begins and ends here. */
int tw_oci_get_into(struct tw_oci *s, const char *path, const char *accept, struct tw_sink *to,
                    struct twin_error *err);
/* Visits all tags, until one returns non-zero, which is returned. No repository: no tags. */
int tw_oci_tags(struct tw_oci *s, int (*visit)(void *user, const char *tag), void *user,
                struct twin_error *err);
/* A manifest by its tag, or by "sha256:...", and the SHA-256 of its bytes. TWIN_ENOENT. */
int tw_oci_get_manifest(struct tw_oci *s, const char *reference, struct tw_buf *text,
                        char sha256[65], struct twin_error *err);
int tw_oci_put_manifest(struct tw_oci *s, const char *tag, const char *text, size_t n,
                        struct twin_error *err);
/* The text of a manifest of one layer (none: sha256 NULL), appended to out. note, value: an
 * annotation. */
int tw_oci_manifest(struct tw_oci *s, const char *type, const char *layer_type, const char *sha256,
                    uint64_t bytes, const char *title, const char *note, const char *value,
                    struct tw_buf *out, struct twin_error *err);
/* Its blobs are taken by the registry's own garbage collection. One that is gone is no error. */
int tw_oci_remove_manifest(struct tw_oci *s, const char *sha256, const char *shown,
                           struct twin_error *err);
/* A lock that is held gets the present time, if an hour has passed. */
int tw_oci_renew_lock(struct tw_oci *s, struct twin_error *err);

/* ---- blobs and contents (store_oci_content.c); the functions of a kind as store_inside.h has them
 */
int tw_oci_content_bytes(struct tw_store *store, const char *sha256, uint64_t *bytes,
                         struct twin_error *err);
int tw_oci_get_content(struct tw_store *store, const char *sha256, struct tw_sink *to,
                       struct twin_error *err);
int tw_oci_put_content(struct tw_store *store, int fd, const char *sha256, uint64_t bytes,
                       const char *shown, struct twin_error *err);
int tw_oci_remove_content(struct tw_store *store, const char *sha256, struct twin_error *err);
int tw_oci_list_contents(struct tw_oci *s, int (*visit)(void *user, const struct tw_store_piece *p),
                         void *user, struct twin_error *err);
/* A small blob from memory. */
int tw_oci_put_blob(struct tw_oci *s, const void *data, size_t bytes, const char *sha256,
                    const char *shown, struct twin_error *err);
/* A blob of at most cap bytes, digest checked. TWIN_ENOENT, TWIN_ELIMIT, TWIN_EFORMAT. */
int tw_oci_get_blob(struct tw_oci *s, const char *sha256, size_t cap, char **data, size_t *bytes,
                    struct twin_error *err);

/* ---- the log (store_oci_log.c): numbers from 1 on */
/* "00000007.dsse.json" -> 7; 0: it is no name of an entry. */
uint64_t tw_oci_entry_number(const char *name);
int tw_oci_log_list(struct tw_oci *s, struct twin_error *err); /* into s->entry */
int tw_oci_log_get(struct tw_oci *s, uint64_t number, size_t cap, char **data, size_t *bytes,
                   struct twin_error *err);
int tw_oci_log_put(struct tw_oci *s, uint64_t number, const void *data, size_t bytes,
                   struct twin_error *err);
#endif
