/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a store in a container registry: blobs, how one is uploaded, and the tag by which
 * each of them is kept (store_oci.c).
 */
#include "store_oci.h"

#include "json_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PART_BYTES = 16 << 20 };
static const char CONTENT_TYPE[] = "application/vnd.twinrun.content.v1";
static const char BYTES_TYPE[] = "application/octet-stream";

/* ---- blobs */

static void blob_path(const char *sha256, char out[96])
{
    snprintf(out, 96, "blobs/sha256:%.64s", sha256);
}

/* How long a blob is; TWIN_ENOENT. */
static int blob_bytes(struct tw_oci *s, const char *sha256, uint64_t *bytes, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char path[96];
    blob_path(sha256, path);
    struct tw_dist_call call = {.method = "HEAD", .path = path};
    int rc = tw_oci_ask(s, &call, path, &why);
    *bytes = call.length;
    tw_dist_call_free(&call);
    return rc ? twin_error_set(err, rc, "%s: %s", s->spec, why.message) : 0;
}

int tw_oci_get_blob(struct tw_oci *s, const char *sha256, size_t cap, char **data, size_t *bytes,
                    struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_buf b = {.cap = cap + 1};
    struct tw_sink k = {.into = &b, .fd = -1};
    char path[96];
    blob_path(sha256, path);
    tw_buf_puts(&b, "");
    int rc = tw_oci_get_into(s, path, NULL, &k, &why);
    if (rc != 0 && b.failed)
        rc = twin_error_set(err, TWIN_ELIMIT, "%s: %s is longer than %zu bytes", s->spec, path,
                            cap);
    else if (rc != 0)
        twin_error_set(err, rc, "%s: %s", s->spec, why.message);
    else if (strcmp(k.sha256, sha256) != 0)
        rc = tw_store_damaged(&s->head, sha256, k.sha256, err);
    if (rc == 0) {
        *bytes = b.len;
        if (!(*data = tw_buf_steal(&b)))
            rc = tw_no_memory(err, "reading %s", path);
    }
    tw_buf_free(&b);
    return rc;
}

/* ---- uploading */

/* An upload while it goes on. */
struct upload {
    struct tw_oci *s;
    int fd; /* -1: from memory */
    const char *shown, *sha256;
    uint64_t bytes, sent;
    char *room;
    size_t room_bytes;
    char *url;            /* where it goes on */
    struct tw_sink whole; /* what was read, to be digested */
};

/* Where the answer says that it goes on. */
static int go_on(struct upload *u, const struct tw_dist_call *call, struct twin_error *err)
{
    tw_free(u->url);
    u->url = NULL;
    if (tw_dist_whole(call, err) != 0)
        return TWIN_EFORMAT;
    return *call->location ? tw_dist_location(u->s->d, call->location, &u->url, err)
                           : twin_error_set(err, TWIN_EFORMAT,
                                            "%s: the container registry does not say where an "
                                            "upload goes on: expected a Location",
                                            u->shown);
}

static int begin_upload(struct upload *u, struct twin_error *err)
{
    struct tw_dist_call call = {.method = "POST", .path = "blobs/uploads/", .data = ""};
    int rc = tw_oci_ask(u->s, &call, u->shown, err);
    rc = rc ? rc : go_on(u, &call, err);
    tw_dist_call_free(&call);
    return rc;
}

/* One part of several. It is sent once: whether a part whose answer was lost counts, the registry
 * alone knows. */
static int send_part(struct upload *u, size_t n, struct twin_error *err)
{
    char range[64];
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, u->sent, u->sent + n - 1);
    struct tw_dist_call call = {.method = "PATCH",
                                .url = u->url,
                                .type = BYTES_TYPE,
                                .range = range,
                                .data = u->room,
                                .bytes = n,
                                .once = true};
    int rc = tw_oci_ask(u->s, &call, u->shown, err);
    rc = rc ? rc : go_on(u, &call, err);
    tw_dist_call_free(&call);
    u->sent += n;
    return rc;
}

/* The end, with what is left: the registry holds the digest against what it has. */
static int end_upload(struct upload *u, const void *data, size_t n, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char *url = tw_printf("%s%sdigest=sha256%%3A%s", u->url, strchr(u->url, '?') ? "&" : "?",
                          u->sha256);
    struct tw_dist_call call = {
        .method = "PUT", .url = url, .type = BYTES_TYPE, .data = data, .bytes = n, .once = true};
    int rc = url ? tw_oci_ask(u->s, &call, u->shown, &why)
                 : tw_no_memory(&why, "storing %s", u->shown);
    /* 404: the upload is not known any more */
    rc = rc == TWIN_ENOENT ? TWIN_EIO : rc;
    tw_dist_call_free(&call);
    tw_free(url);
    return rc ? twin_error_set(err, rc, "%s", why.message) : 0;
}

static void abort_upload(struct upload *u)
{
    struct tw_dist_call call = {.method = "DELETE", .url = u->url, .once = true};
    if (u->url)
        (void)tw_oci_ask(u->s, &call, u->shown, NULL);
    tw_dist_call_free(&call);
}

/* It must be there whole: a registry may have said so of what it lost. */
static int check_there(struct tw_oci *s, const char *sha256, uint64_t bytes, const char *shown,
                       struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    uint64_t there = 0;
    int rc = blob_bytes(s, sha256, &there, &why);
    if (rc == TWIN_ENOENT || (rc == 0 && there != bytes))
        return twin_error_set(err, TWIN_EIO,
                              "%s: the container registry said that it took %s, %" PRIu64
                              " bytes, and has %" PRIu64 " of them",
                              s->spec, shown, bytes, rc ? 0 : there);
    return rc ? twin_error_set(err, rc, "%s", why.message) : 0;
}

int tw_oci_put_blob(struct tw_oci *s, const void *data, size_t bytes, const char *sha256,
                    const char *shown, struct twin_error *err)
{
    struct upload u = {.s = s, .fd = -1, .shown = shown, .sha256 = sha256, .bytes = bytes};
    uint64_t there = 0;
    if (blob_bytes(s, sha256, &there, NULL) == 0 && there == bytes)
        return 0;
    int rc = begin_upload(&u, err);
    rc = rc ? rc : end_upload(&u, data, bytes, err);
    if (rc != 0)
        abort_upload(&u);
    tw_free(u.url);
    return rc ? rc : check_there(s, sha256, bytes, shown, err);
}

/* Sends the file, the last part with the end: by then what was read has the content's digest, or
 * nothing counts. */
static int send_file(struct upload *u, struct twin_error *err)
{
    for (;;) {
        const ssize_t n = tw_read_up_to(u->fd, u->room, u->room_bytes);
        int rc = n < 0 ? twin_error_system(err, "cannot read %s", u->shown) : 0;
        if (rc != 0)
            return rc;
        tw_sink_take(&u->whole, u->room, (size_t)n);
        if (n == PART_BYTES && u->whole.bytes < u->bytes) {
            if ((rc = send_part(u, (size_t)n, err)) != 0)
                return rc;
            continue;
        }
        rc = tw_sink_end(&u->whole, 0, u->shown, err);
        rc = rc ? rc : tw_sink_is(&u->whole, u->sha256, u->bytes, u->shown, err);
        if (rc != 0)
            return rc;
        /* behind parts the rest is a part, too: not every registry takes it with the end */
        if (u->sent > 0 && n > 0) {
            rc = send_part(u, (size_t)n, err);
            return rc ? rc : end_upload(u, "", 0, err);
        }
        return end_upload(u, u->room, (size_t)n, err);
    }
}

static int upload_file(struct tw_oci *s, int fd, const char *sha256, uint64_t bytes,
                       const char *shown, struct twin_error *err)
{
    struct upload u = {
        .s = s, .fd = fd, .shown = shown, .sha256 = sha256, .bytes = bytes, .whole = {.fd = -1}};
    /* a byte more than the file had: by it one that grew is noticed */
    u.room_bytes = bytes < PART_BYTES ? (size_t)bytes + 1 : PART_BYTES;
    u.room = tw_malloc(u.room_bytes);
    int rc = u.room ? tw_sink_begin(&u.whole, shown, err) : tw_no_memory(err, "storing %s", shown);
    rc = rc ? rc : begin_upload(&u, err);
    rc = rc ? rc : send_file(&u, err);
    if (rc != 0)
        abort_upload(&u);
    tw_sha256_free(&u.whole.sum);
    tw_free(u.room);
    tw_free(u.url);
    return rc ? rc : check_there(s, sha256, bytes, shown, err);
}

/* ---- contents */

static void content_tag(const char *sha256, char out[TW_OCI_TAG_BYTES])
{
    snprintf(out, TW_OCI_TAG_BYTES, "content-%.64s", sha256);
}

int tw_oci_content_bytes(struct tw_store *store, const char *sha256, uint64_t *bytes,
                         struct twin_error *err)
{
    struct tw_oci *s = (struct tw_oci *)store;
    struct tw_buf text = {0};
    char tag[TW_OCI_TAG_BYTES], digest[65];
    content_tag(sha256, tag);
    int rc = tw_oci_get_manifest(s, tag, &text, digest, err);
    tw_buf_free(&text);
    return rc ? rc : blob_bytes(s, sha256, bytes, err);
}

int tw_oci_get_content(struct tw_store *store, const char *sha256, struct tw_sink *to,
                       struct twin_error *err)
{
    struct tw_oci *s = (struct tw_oci *)store;
    struct twin_error why = TWIN_ERROR_INIT;
    char path[96];
    blob_path(sha256, path);
    struct tw_dist_call call = {.method = "GET", .path = path, .take = tw_sink_take, .to = to};
    int rc = blob_bytes(s, sha256, &to->most, err);
    if (rc != 0)
        return rc;
    rc = tw_oci_ask(s, &call, path, &why);
    tw_dist_call_free(&call);
    if (to->over)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: the content %.12s is damaged: it goes on behind the %" PRIu64
                              " bytes that the registry says it has",
                              s->spec, sha256, to->most);
    return rc ? twin_error_set(err, rc, "%s: %s", s->spec, why.message) : 0;
}

int tw_oci_put_content(struct tw_store *store, int fd, const char *sha256, uint64_t bytes,
                       const char *shown, struct twin_error *err)
{
    struct tw_oci *s = (struct tw_oci *)store;
    struct tw_buf text = {0};
    char tag[TW_OCI_TAG_BYTES], now[32];
    uint64_t there = 0;
    content_tag(sha256, tag);
    int rc = tw_oci_renew_lock(s, err);
    if (rc != 0)
        return rc;
    const bool has_blob = blob_bytes(s, sha256, &there, NULL) == 0;
    const bool is_right = has_blob && there == bytes &&
                          tw_store_get_stored(store, sha256, -1, NULL) == 0;
    if (is_right && tw_oci_content_bytes(store, sha256, &there, NULL) == 0)
        return 0;
    rc = is_right ? 0 : upload_file(s, fd, sha256, bytes, shown, err);
    /* A registry that has a blob of this digest need not take the bytes again: one that was damaged
     * may stay so, and only its owner can remove it. */
    if (rc == 0 && has_blob && !is_right)
        rc = tw_store_get_stored(store, sha256, -1, err);
    tw_utc_time(tw_realtime_ns(), false, now);
    rc = rc ? rc
            : tw_oci_manifest(s, CONTENT_TYPE, BYTES_TYPE, sha256, bytes, NULL,
                              "org.opencontainers.image.created", now, &text, err);
    rc = rc ? rc : tw_oci_put_manifest(s, tag, text.data, text.len, err);
    tw_buf_free(&text);
    return rc;
}

/* What the tag stands for now; one that another writer pushed before has no tag any more. */
int tw_oci_remove_content(struct tw_store *store, const char *sha256, struct twin_error *err)
{
    struct tw_oci *s = (struct tw_oci *)store;
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_buf text = {0};
    char tag[TW_OCI_TAG_BYTES], digest[65];
    content_tag(sha256, tag);
    int rc = tw_oci_get_manifest(s, tag, &text, digest, &why);
    tw_buf_free(&text);
    if (rc == 0)
        return tw_oci_remove_manifest(s, digest, tag, err);
    return rc == TWIN_ENOENT ? 0 : twin_error_set(err, rc, "%s", why.message);
}

/* Digests of contents, as the tags have them. */
struct contents {
    char (*sha256)[65];
    size_t count;
    struct twin_error *err;
};

static int take_content(void *user, const char *tag)
{
    struct contents *c = user;
    if (!tw_starts(tag, "content-") || !tw_is_hex(tag + 8, 64))
        return 0;
    void *list = tw_reallocarray(c->sha256, c->count + 1, sizeof *c->sha256);
    if (!list)
        return tw_no_memory(c->err, "listing contents");
    c->sha256 = list;
    memcpy(c->sha256[c->count++], tag + 8, 65);
    return 0;
}

/* When a content was brought, and how long it is, stand in its manifest. One that is gone meanwhile
 * is no content. */
static int visit_content(struct tw_oci *s, const char *sha256,
                         int (*visit)(void *user, const struct tw_store_piece *p), void *user,
                         struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_buf text = {0};
    char tag[TW_OCI_TAG_BYTES], digest[65];
    content_tag(sha256, tag);
    int rc = tw_oci_get_manifest(s, tag, &text, digest, &why);
    if (rc != 0) {
        tw_buf_free(&text);
        return rc == TWIN_ENOENT ? 0 : twin_error_set(err, rc, "%s", why.message);
    }
    json_t *o = tw_json_load(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *layer = json_array_get(json_object_get(o, "layers"), 0);
    const json_int_t bytes = json_integer_value(json_object_get(layer, "size"));
    struct tw_store_piece p = {.name = sha256, .bytes = bytes > 0 ? (uint64_t)bytes : 0};
    p.changed_ns = tw_store_time(json_string_value(
        json_object_get(json_object_get(o, "annotations"), "org.opencontainers.image.created")));
    rc = visit(user, &p);
    json_decref(o);
    tw_buf_free(&text);
    return rc;
}

int tw_oci_list_contents(struct tw_oci *s, int (*visit)(void *user, const struct tw_store_piece *p),
                         void *user, struct twin_error *err)
{
    struct contents c = {.err = err};
    int rc = tw_oci_tags(s, take_content, &c, err);
    for (size_t i = 0; i < c.count && rc == 0; i++)
        rc = visit_content(s, c.sha256[i], visit, user, err);
    tw_free(c.sha256);
    return rc;
}
