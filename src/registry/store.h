/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REGISTRY_STORE_H
#define TW_REGISTRY_STORE_H
/*
 * Where a registry keeps its bytes: named pieces that are written once and never changed. A store
 * promises three things, and the registry rests on nothing else:
 *
 *   - a piece is there whole or not at all, whenever the writer is killed or the machine stops;
 *   - of two writers of one new name exactly one succeeds (tw_store_put);
 *   - what was written may be lost or changed by others: so whoever reads a piece checks its
 * digest.
 *
 * Names are relative paths of the registry's own making ("log/00000007.dsse.json"), and checked
 * where they come from a listing. A store belongs to one thread at a time; any number of processes
 * may have it open.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* How the message ends of a store that cannot tell whether an entry is in its log, or comes into
 * it. */
#define TW_LOG_MAYBE ", or not: look at it"

struct json_t;
struct tw_strings;
struct tw_store;

/* One piece as a listing has it. changed_ns: since 1970, by the store's clock. */
struct tw_store_piece {
    const char *name; /* valid inside of the callback only */
    uint64_t bytes;
    int64_t changed_ns;
};

/*
 * spec: a folder, s3://BUCKET/PREFIX, oci://HOST:PORT/NAME. make: it is made where it is missing;
 * else TWIN_ENOENT. Needs tw_store_close.
 */
int tw_store_open(const char *spec, bool make, struct tw_store **out, struct twin_error *err);
void tw_store_close(struct tw_store *s);             /* NULL is allowed */
const char *tw_store_name(const struct tw_store *s); /* for messages; without credentials */

/* The whole piece, NUL-terminated (tw_free). TWIN_ENOENT; TWIN_ELIMIT: longer than cap. */
int tw_store_get(struct tw_store *s, const char *name, size_t cap, char **data, size_t *bytes,
                 struct twin_error *err);
/* Makes a new piece. TWIN_EBUSY: that name is taken, and nothing was changed. */
int tw_store_put(struct tw_store *s, const char *name, const void *data, size_t bytes,
                 struct twin_error *err);

/* ---- contents, named by their SHA-256 (64 small hex digits) */

/* Takes what fd yields from its offset to its end, if it is `bytes` long and has this digest;
 * `shown` stands in messages. A content that is there already, and right, is left alone, but for
 * its time; one that is damaged gives way. TWIN_EFORMAT: the bytes are other ones (the file changed
 * while it was read). */
int tw_store_put_content(struct tw_store *s, int fd, const char *sha256, uint64_t bytes,
                         const char *shown, struct twin_error *err);
/* The same of a text in memory. */
int tw_store_put_text(struct tw_store *s, const char *text, size_t bytes, const char *sha256,
                      const char *shown, struct twin_error *err);
/* Writes the content to fd. TWIN_ENOENT: it is not there; TWIN_EFORMAT: what is there has another
 * digest. fd then holds a part of it: the caller throws the file away. */
int tw_store_get_content(struct tw_store *s, const char *sha256, int fd, struct twin_error *err);
/* The content as a file that can be read from its beginning, digest checked: *fd is the caller's to
 * close. */
int tw_store_open_content(struct tw_store *s, const char *sha256, int *fd, struct twin_error *err);
/* A small one in memory, NUL-terminated (tw_free), digest checked. */
int tw_store_read_content(struct tw_store *s, const char *sha256, size_t cap, char **data,
                          size_t *bytes, struct twin_error *err);
/* How long it is; TWIN_ENOENT. Reads nothing. */
int tw_store_content_bytes(struct tw_store *s, const char *sha256, uint64_t *bytes,
                           struct twin_error *err);
/* Writes what lies under this very name to fd (-1: nowhere), digest checked: of a sealed content's
 * digest nothing, of the digest of its ciphertext the ciphertext. */
int tw_store_get_stored(struct tw_store *s, const char *sha256, int fd, struct twin_error *err);
int tw_store_remove_content(struct tw_store *s, const char *sha256, struct twin_error *err);

/*
 * ---- sealed contents (store_sealed.c)
 *
 * In a sealed store the files of artifacts lie encrypted, each under the digest of its ciphertext.
 * Lists say which plaintext lies there; with them the functions above take and give plaintexts by
 * their own digests, as ever. Without an identity that opens them: TWIN_EINVAL. All else (lists,
 * manifests, evidence that is one file, policies) is as it is, for whoever has no key.
 */

/* Recipients as the command line has them, "age:age1..." or "openssl:PUBKEY.pem", all of one kind,
 * as JSON for the log. */
int tw_store_seal_parse(const struct tw_strings *given, struct json_t **out,
                        struct twin_error *err);
/* From here on the store is sealed for these. identities: files, borrowed; none: nothing can be
 * opened. TWIN_EFORMAT, TWIN_EVERSION: seal says nothing that we know. */
int tw_store_seal(struct tw_store *s, const struct json_t *seal,
                  const struct tw_strings *identities, struct twin_error *err);
bool tw_store_is_sealed(const struct tw_store *s);
bool tw_store_can_open(const struct tw_store *s); /* an identity was given */
/* Takes a list, a content, which a later one prevails over. */
int tw_store_take_list(struct tw_store *s, const char *sha256, struct twin_error *err);
/* A list is lost: what it would have said is not known. The first reason is kept. */
void tw_store_list_lost(struct tw_store *s, const char *why);
const char *tw_store_lists_lost(const struct tw_store *s); /* NULL: all are there */
/* The digest of the ciphertext of this plaintext; NULL: not sealed. */
const char *tw_store_sealed_as(const struct tw_store *s, const char *sha256);
/* As tw_store_put_content, of a file of an artifact: sealed in a sealed store. */
int tw_store_put_file(struct tw_store *s, int fd, const char *sha256, uint64_t bytes,
                      const char *shown, struct twin_error *err);
/* Stores the list of what was sealed since the last call: its digest, "" of nothing. */
int tw_store_put_list(struct tw_store *s, char sha256[65], struct twin_error *err);

/* Removes what writers that were killed before older_ns left behind. *count: files. */
int tw_store_sweep(struct tw_store *s, int64_t older_ns, uint64_t *count, struct twin_error *err);

/* Calls visit for each piece below the folder `prefix` ("log", "contents") in no order, by its name
 * below it, until it returns non-zero, which is then returned. */
int tw_store_list(struct tw_store *s, const char *prefix,
                  int (*visit)(void *user, const struct tw_store_piece *p), void *user,
                  struct twin_error *err);

/*
 * Who brings contents for an entry holds the store shared; who takes contents away holds it alone.
 * Waits some seconds, then TWIN_EBUSY. Ends with tw_store_release, tw_store_close or the process.
 */
int tw_store_hold(struct tw_store *s, bool alone, struct twin_error *err);
void tw_store_release(struct tw_store *s);
#endif
