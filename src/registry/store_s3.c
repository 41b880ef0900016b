/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a bucket of an object store that speaks S3:
 *
 *     PREFIX/log/00000001.dsse.json   pieces, each put only if there is none (If-None-Match: *)
 *     PREFIX/contents/abcd...         contents by their digest
 *     PREFIX/lock/...                 who works in it, and until when that counts
 *     PREFIX/probe/...                at the beginning only: does the store keep two writers apart?
 *
 * An object is there whole or not at all, so nothing is renamed. A store may say that it has what
 * it has lost or never took: a piece is read back before it counts, a content's length is asked
 * for, and whoever reads a content digests it.
 */
#include "store_inside.h"

#include "base.h"
#include "s3.h"

#include "src/net/http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { PART_BYTES = 16 << 20, PARTS_MAX = 10000, LOCK_TRIES = 20, LIST_PAGES = 20000 };
/* A lock that is older was left by somebody who was killed; who works for longer renews his. */
static const int64_t LOCK_HOLDS_NS = 6 * 3600 * INT64_C(1000000000);
static const int64_t LOCK_RENEWED_NS = 3600 * INT64_C(1000000000);

struct bucket {
    struct tw_store head;
    const char *spec; /* head.name */
    struct tw_s3 *s3;
    char lock[64]; /* the object; "": none is held */
    int64_t locked_ns;
};

static void s3_release(struct tw_store *store);

static void s3_close(struct tw_store *store)
{
    struct bucket *s = (struct bucket *)store;
    s3_release(store);
    tw_s3_close(s->s3);
    tw_free(s);
}

static void content_name(const char *sha256, char out[80])
{
    snprintf(out, 80, "contents/%.64s", sha256);
}

/* The call, and any status but those of a success is an error. */
static int ask(struct bucket *s, struct tw_s3_call *call, const char *shown, struct twin_error *err)
{
    int rc = tw_s3_do(s->s3, call, err);
    return rc == 0 && call->status / 100 != 2 ? tw_s3_refused(call, shown, err) : rc;
}

/* ---- reading */

static int s3_get(struct tw_store *store, const char *name, size_t cap, char **data, size_t *bytes,
                  struct twin_error *err)
{
    struct bucket *s = (struct bucket *)store;
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_buf b = {.cap = cap + 1};
    struct tw_sink k = {.into = &b, .fd = -1};
    struct tw_s3_call call = {.method = "GET", .name = name, .take = tw_sink_take, .to = &k};
    int rc = tw_sink_begin(&k, name, err);
    if (rc != 0)
        return rc;
    tw_buf_puts(&b, "");
    rc = tw_sink_end(&k, ask(s, &call, name, &why), name, &why);
    if (rc != 0 && b.failed)
        rc = twin_error_set(err, TWIN_ELIMIT, "%s: %s is longer than %zu bytes", s->spec, name,
                            cap);
    else if (rc != 0)
        twin_error_set(err, rc, "%s: %s", s->spec, why.message);
    tw_s3_call_free(&call);
    if (rc == 0) {
        *bytes = b.len;
        if (!(*data = tw_buf_steal(&b)))
            rc = tw_no_memory(err, "reading %s", name);
    }
    tw_buf_free(&b);
    return rc;
}

static int s3_get_content(struct tw_store *store, const char *sha256, struct tw_sink *to,
                          struct twin_error *err)
{
    struct bucket *s = (struct bucket *)store;
    struct twin_error why = TWIN_ERROR_INIT;
    char name[80];
    content_name(sha256, name);
    struct tw_s3_call call = {.method = "GET", .name = name, .take = tw_sink_take, .to = to};
    int rc = ask(s, &call, name, &why);
    tw_s3_call_free(&call);
    return rc ? twin_error_set(err, rc, "%s: %s", s->spec, why.message) : 0;
}

static int s3_content_bytes(struct tw_store *store, const char *sha256, uint64_t *bytes,
                            struct twin_error *err)
{
    struct bucket *s = (struct bucket *)store;
    struct twin_error why = TWIN_ERROR_INIT;
    char name[80];
    content_name(sha256, name);
    struct tw_s3_call call = {.method = "HEAD", .name = name};
    int rc = ask(s, &call, name, &why);
    *bytes = call.length;
    tw_s3_call_free(&call);
    return rc ? twin_error_set(err, rc, "%s: %s", s->spec, why.message) : 0;
}

/* ---- writing */

/* Does this object hold these bytes? */
static bool holds(struct tw_store *store, const char *name, const void *data, size_t bytes)
{
    char *there = NULL;
    size_t n = 0;
    const bool same = s3_get(store, name, bytes + 1, &there, &n, NULL) == 0 && n == bytes &&
                      memcmp(there, data, bytes) == 0;
    tw_free(there);
    return same;
}

/* A put whose answer was lost may have been done, and then our own bytes lie there: so whatever the
 * answer was, what lies there decides. */
static int s3_put(struct tw_store *store, const char *name, const void *data, size_t bytes,
                  struct twin_error *err)
{
    struct bucket *s = (struct bucket *)store;
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_s3_call call = {
        .method = "PUT", .name = name, .data = data, .bytes = bytes, .if_new = true};
    int rc = tw_s3_do(s->s3, &call, &why);
    const bool taken = rc == 0 && (call.status == 412 || call.status == 409);
    if (rc == 0 && call.status / 100 != 2)
        rc = tw_s3_refused(&call, name, &why);
    tw_s3_call_free(&call);
    if (holds(store, name, data, bytes))
        return 0;
    if (taken)
        return twin_error_set(err, TWIN_EBUSY, "%s: %s is there already", s->spec, name);
    if (rc == 0)
        return twin_error_set(err, TWIN_EIO,
                              "%s: the store said that it took %s, and does not give it back: it "
                              "may be in the log" TW_LOG_MAYBE,
                              s->spec, name);
    return twin_error_set(err, rc, "%s: %s", s->spec, why.message);
}

/* An upload while it goes on. */
struct upload {
    struct bucket *s;
    int fd;
    const char *name, *shown;
    uint64_t bytes;
    size_t part_bytes;
    char *room, id[1024];
    struct tw_sink whole; /* what was read, to be digested */
    struct tw_buf list;   /* the parts, for the end */
};

/* The next part's bytes, which go into the digest of the whole, too. */
static ssize_t next_part(struct upload *u, struct twin_error *err)
{
    const ssize_t n = tw_read_up_to(u->fd, u->room, u->part_bytes);
    if (n < 0)
        return twin_error_system(err, "cannot read %s", u->shown);
    tw_sink_take(&u->whole, u->room, (size_t)n);
    return n;
}

/* Is what was read the content? Before anything of it counts. */
static int check_whole(struct upload *u, const char *sha256, struct twin_error *err)
{
    int rc = tw_sink_end(&u->whole, 0, u->shown, err);
    return rc ? rc : tw_sink_is(&u->whole, sha256, u->bytes, u->shown, err);
}

static int put_in_one(struct upload *u, const char *sha256, struct twin_error *err)
{
    const ssize_t n = next_part(u, err);
    int rc = n < 0 ? (int)n : check_whole(u, sha256, err);
    struct tw_s3_call call = {
        .method = "PUT", .name = u->name, .data = u->room, .bytes = n < 0 ? 0 : (size_t)n};
    rc = rc ? rc : ask(u->s, &call, u->shown, err);
    tw_s3_call_free(&call);
    return rc;
}

/* "a=b&uploadId=..." */
static char *query_of_upload(const struct upload *u, const char *before)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "%suploadId=", before);
    tw_http_encode(&b, u->id, false);
    return tw_buf_steal(&b);
}

static int begin_parts(struct upload *u, struct twin_error *err)
{
    struct tw_s3_call call = {.method = "POST", .name = u->name, .query = "uploads=", .data = ""};
    int rc = ask(u->s, &call, u->shown, err);
    const char *at = call.answer;
    if (rc == 0 && (!tw_s3_tag(&at, "UploadId", u->id, sizeof u->id) || !*u->id))
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: the store begins no upload: expected an UploadId", u->shown);
    tw_s3_call_free(&call);
    return rc;
}

static int put_part(struct upload *u, unsigned number, size_t n, struct twin_error *err)
{
    char before[48];
    snprintf(before, sizeof before, "partNumber=%u&", number);
    char *query = query_of_upload(u, before);
    struct tw_s3_call call = {
        .method = "PUT", .name = u->name, .query = query, .data = u->room, .bytes = n};
    int rc = query ? ask(u->s, &call, u->shown, err) : tw_no_memory(err, "storing %s", u->shown);
    if (rc == 0 && !*call.etag)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: the store took part %u without an ETag",
                            u->shown, number);
    if (rc == 0)
        tw_buf_printf(&u->list, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", number,
                      call.etag);
    tw_s3_call_free(&call);
    tw_free(query);
    return rc;
}

/* A success may carry an error in its answer: S3 answers before it has put the parts together. */
static int end_parts(struct upload *u, struct twin_error *err)
{
    char *query = query_of_upload(u, "");
    tw_buf_puts(&u->list, "</CompleteMultipartUpload>");
    if (!query || u->list.failed) {
        tw_free(query);
        return tw_no_memory(err, "storing %s", u->shown);
    }
    struct tw_s3_call call = {.method = "POST",
                              .name = u->name,
                              .query = query,
                              .data = u->list.data,
                              .bytes = u->list.len};
    int rc = ask(u->s, &call, u->shown, err);
    if (rc == 0 && !strstr(call.answer, "<CompleteMultipartUploadResult"))
        rc = tw_s3_refused(&call, u->shown, err);
    tw_s3_call_free(&call);
    tw_free(query);
    return rc;
}

static void abort_parts(struct upload *u)
{
    char *query = query_of_upload(u, "");
    struct tw_s3_call call = {.method = "DELETE", .name = u->name, .query = query};
    if (query)
        (void)ask(u->s, &call, u->shown, NULL);
    tw_s3_call_free(&call);
    tw_free(query);
}

/* The parts are put together only when all of them are the content. */
static int put_in_parts(struct upload *u, const char *sha256, struct twin_error *err)
{
    int rc = begin_parts(u, err);
    if (rc != 0)
        return rc;
    tw_buf_puts(&u->list, "<CompleteMultipartUpload>");
    for (unsigned number = 1; rc == 0 && number <= PARTS_MAX; number++) {
        const ssize_t n = next_part(u, err);
        if (n == 0)
            break;
        rc = n < 0 ? (int)n : put_part(u, number, (size_t)n, err);
    }
    rc = rc ? rc : check_whole(u, sha256, err);
    rc = rc ? rc : end_parts(u, err);
    if (rc != 0)
        abort_parts(u);
    return rc;
}

static int renew_lock(struct bucket *s, struct twin_error *err);

static int s3_put_content(struct tw_store *store, int fd, const char *sha256, uint64_t bytes,
                          const char *shown, struct twin_error *err)
{
    struct bucket *s = (struct bucket *)store;
    char name[80];
    uint64_t there = 0;
    content_name(sha256, name);
    int rc = renew_lock(s, err);
    if (rc != 0)
        return rc;
    if (s3_content_bytes(store, sha256, &there, NULL) == 0 && there == bytes &&
        tw_store_get_stored(store, sha256, -1, NULL) == 0)
        return 0;
    struct upload u = {
        .s = s, .fd = fd, .name = name, .shown = shown, .bytes = bytes, .whole = {.fd = -1}};
    u.part_bytes = PART_BYTES;
    while (bytes / u.part_bytes >= PARTS_MAX)
        u.part_bytes *= 2;
    u.room = tw_malloc(u.part_bytes);
    rc = u.room ? tw_sink_begin(&u.whole, shown, err) : tw_no_memory(err, "storing %s", shown);
    if (rc == 0)
        rc = bytes < u.part_bytes ? put_in_one(&u, sha256, err) : put_in_parts(&u, sha256, err);
    tw_sha256_free(&u.whole.sum);
    tw_buf_free(&u.list);
    tw_free(u.room);
    if (rc == 0)
        rc = s3_content_bytes(store, sha256, &there, err);
    if (rc == 0 && there != bytes)
        rc = twin_error_set(err, TWIN_EIO,
                            "%s: the store said that it took %s, %" PRIu64
                            " bytes, and has %" PRIu64 " of them",
                            s->spec, shown, bytes, there);
    return rc;
}

static int remove_object(struct bucket *s, const char *name, struct twin_error *err)
{
    struct tw_s3_call call = {.method = "DELETE", .name = name};
    int rc = ask(s, &call, name, err);
    tw_s3_call_free(&call);
    return rc == TWIN_ENOENT ? 0 : rc;
}

static int s3_remove_content(struct tw_store *store, const char *sha256, struct twin_error *err)
{
    char name[80];
    content_name(sha256, name);
    return remove_object((struct bucket *)store, name, err);
}

/* ---- listing */

/* The pieces of one page of a listing. prefix: of their keys, which is taken off. */
static int visit_page(const char *page, const char *prefix,
                      int (*visit)(void *user, const struct tw_store_piece *p), void *user)
{
    char key[1200], size[32], when[48];
    int rc = 0;
    for (const char *at = page; rc == 0 && (at = strstr(at, "<Contents>"));) {
        const char *inside = at, *end = strstr(at, "</Contents>");
        at += strlen("<Contents>");
        if (!end || !tw_s3_tag(&inside, "Key", key, sizeof key) || inside > end)
            continue;
        struct tw_store_piece p = {.name = key, .changed_ns = tw_store_time(NULL)};
        if (strncmp(key, prefix, strlen(prefix)) == 0)
            p.name = key + strlen(prefix);
        inside = at;
        if (tw_s3_tag(&inside, "Size", size, sizeof size) && inside <= end)
            p.bytes = strtoull(size, NULL, 10);
        inside = at;
        if (tw_s3_tag(&inside, "LastModified", when, sizeof when) && inside <= end)
            p.changed_ns = tw_store_time(when);
        rc = visit(user, &p);
    }
    return rc;
}

static int s3_list(struct tw_store *store, const char *folder,
                   int (*visit)(void *user, const struct tw_store_piece *p), void *user,
                   struct twin_error *err)
{
    struct bucket *s = (struct bucket *)store;
    char token[1024] = "", before[sizeof token], more[16];
    size_t pages = 0;
    int rc = 0;
    char *prefix = tw_printf("%s%s/", tw_s3_prefix(s->s3), folder);
    if (!prefix)
        return tw_no_memory(err, "listing %s", s->spec);
    do {
        struct tw_buf query = {0};
        if (*token) {
            tw_buf_puts(&query, "continuation-token=");
            tw_http_encode(&query, token, false);
            tw_buf_puts(&query, "&");
        }
        tw_buf_puts(&query, "list-type=2&prefix=");
        tw_http_encode(&query, prefix, false);
        struct tw_s3_call call = {.method = "GET", .query = query.data};
        struct twin_error why = TWIN_ERROR_INIT;
        memcpy(before, token, sizeof before);
        *token = '\0';
        rc = query.failed ? tw_no_memory(&why, "listing %s", s->spec) : ask(s, &call, folder, &why);
        if (rc != 0)
            rc = twin_error_set(err, rc == TWIN_ENOENT ? TWIN_EIO : rc, "%s: %s", s->spec,
                                why.message);
        const char *at = call.answer;
        if (rc == 0 && tw_s3_tag(&at, "IsTruncated", more, sizeof more) &&
            strcmp(more, "true") == 0) {
            at = call.answer;
            if (!tw_s3_tag(&at, "NextContinuationToken", token, sizeof token) || !*token)
                rc = twin_error_set(err, TWIN_EFORMAT, "%s: a listing that does not go on",
                                    s->spec);
            else if (strcmp(token, before) == 0)
                rc = twin_error_set(err, TWIN_EFORMAT, "%s: a page of a listing leads to itself",
                                    s->spec);
            else if (++pages >= LIST_PAGES)
                rc = twin_error_set(err, TWIN_ELIMIT,
                                    "%s: a listing of more than %d pages: expected an end", s->spec,
                                    LIST_PAGES);
        }
        rc = rc ? rc : visit_page(call.answer, prefix, visit, user);
        tw_s3_call_free(&call);
        tw_buf_free(&query);
    } while (rc == 0 && *token);
    tw_free(prefix);
    return rc;
}

/* Uploads that were begun before, and not ended. */
static int s3_sweep(struct tw_store *store, int64_t older_ns, uint64_t *count,
                    struct twin_error *err)
{
    struct bucket *s = (struct bucket *)store;
    struct tw_buf query = {0};
    char key[1200], when[48];
    *count = 0;
    tw_buf_puts(&query, "prefix=");
    tw_http_encode(&query, tw_s3_prefix(s->s3), false);
    tw_buf_puts(&query, "contents%2F&uploads=");
    struct tw_s3_call call = {.method = "GET", .query = query.data};
    int rc = query.failed ? tw_no_memory(err, "sweeping %s", s->spec)
                          : ask(s, &call, "uploads", err);
    for (const char *at = rc ? NULL : call.answer; at && (at = strstr(at, "<Upload>"));) {
        struct upload u = {.s = s, .shown = "an upload"};
        const char *inside = at;
        const size_t prefix = strlen(tw_s3_prefix(s->s3));
        at += strlen("<Upload>");
        if (!tw_s3_tag(&inside, "Key", key, sizeof key) || strlen(key) < prefix)
            continue;
        inside = at;
        if (!tw_s3_tag(&inside, "UploadId", u.id, sizeof u.id))
            continue;
        inside = at;
        if (!tw_s3_tag(&inside, "Initiated", when, sizeof when) || tw_store_time(when) >= older_ns)
            continue;
        u.name = key + prefix;
        abort_parts(&u);
        ++*count;
    }
    tw_s3_call_free(&call);
    tw_buf_free(&query);
    return rc;
}

/* ---- the lock */

/* Whether somebody's lock stands against ours. */
struct looking {
    const struct bucket *s;
    bool alone, found;
    int64_t now_ns;
};

static int look_at_lock(void *user, const struct tw_store_piece *p)
{
    struct looking *l = user;
    const bool ours = strcmp(p->name, l->s->lock + strlen("lock/")) == 0;
    const bool alone = strncmp(p->name, "alone-", strlen("alone-")) == 0;
    l->found |= !ours && (alone || l->alone) && p->changed_ns > l->now_ns - LOCK_HOLDS_NS;
    return 0;
}

static int put_lock(struct bucket *s, struct twin_error *err)
{
    struct tw_s3_call call = {.method = "PUT", .name = s->lock, .data = "", .bytes = 0};
    int rc = ask(s, &call, s->lock, err);
    tw_s3_call_free(&call);
    s->locked_ns = tw_realtime_ns();
    return rc;
}

static int renew_lock(struct bucket *s, struct twin_error *err)
{
    return *s->lock && tw_realtime_ns() - s->locked_ns > LOCK_RENEWED_NS ? put_lock(s, err) : 0;
}

/*
 * Each writes down that he works here, and then looks who else does: of two who come at once at
 * least one sees the other. Who is to be alone sees all, the others only him.
 */
static int s3_hold(struct tw_store *store, bool alone, struct twin_error *err)
{
    struct bucket *s = (struct bucket *)store;
    struct timespec wait = {0, 0};
    unsigned char id[8];
    char hex[17];
    int rc = 0;
    s3_release(store);
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
        return twin_error_system(err, "no random number for a lock");
    tw_hex(id, sizeof id, hex);
    wait.tv_nsec = 300000000 + 1000000L * id[0]; /* two in step would meet again and again */
    for (int i = 0; i < LOCK_TRIES && rc == 0; i++) {
        struct looking l = {.s = s, .alone = alone, .now_ns = tw_realtime_ns()};
        /* two who are to be alone have two names, and see each other */
        snprintf(s->lock, sizeof s->lock, "lock/%s%s", alone ? "alone-" : "shared-", hex);
        rc = put_lock(s, err);
        rc = rc ? rc : s3_list(store, "lock", look_at_lock, &l, err);
        if (rc == 0 && !l.found)
            return 0;
        s3_release(store);
        if (rc == 0)
            nanosleep(&wait, NULL);
    }
    if (rc != 0) {
        s3_release(store);
        return rc;
    }
    return twin_error_set(err, TWIN_EBUSY,
                          "%s: another twinrun registry %s in it (objects below lock/; those of a "
                          "killed one count for 6 hours); try again later",
                          s->spec, alone ? "works" : "removes contents");
}

static void s3_release(struct tw_store *store)
{
    struct bucket *s = (struct bucket *)store;
    if (*s->lock)
        (void)remove_object(s, s->lock, NULL);
    *s->lock = '\0';
}

/* ---- opening */

static const struct tw_store_kind s3_store = {
    .close = s3_close,
    .get = s3_get,
    .put = s3_put,
    .put_content = s3_put_content,
    .get_content = s3_get_content,
    .content_bytes = s3_content_bytes,
    .remove_content = s3_remove_content,
    .sweep = s3_sweep,
    .list = s3_list,
    .hold = s3_hold,
    .release = s3_release,
};

/* A store that does not know If-None-Match takes both writers of a name, and the log would have
 * one author less than entries: so it is tried before the first entry. */
static int probe(struct bucket *s, struct twin_error *err)
{
    unsigned char id[8];
    char name[40], hex[17];
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
        return twin_error_system(err, "no random number for a registry");
    tw_hex(id, sizeof id, hex);
    snprintf(name, sizeof name, "probe/%s", hex);
    struct tw_s3_call first = {
        .method = "PUT", .name = name, .data = "1", .bytes = 1, .if_new = true};
    struct tw_s3_call second = {
        .method = "PUT", .name = name, .data = "2", .bytes = 1, .if_new = true};
    int rc = ask(s, &first, "the first object", err);
    rc = rc ? rc : tw_s3_do(s->s3, &second, err);
    if (rc == 0 && second.status != 412 && second.status != 409)
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "%s: the store answers %ld to a second object of one name, expected "
                            "412: it does not know If-None-Match, and would not keep two writers "
                            "apart",
                            s->spec, second.status);
    tw_s3_call_free(&first);
    tw_s3_call_free(&second);
    if (rc == 0)
        rc = remove_object(s, name, err);
    return rc;
}

int tw_store_open_s3(const char *spec, bool make, struct tw_store **out, struct twin_error *err)
{
    struct bucket *s = tw_calloc(1, sizeof *s);
    if (!s)
        return tw_no_memory(err, "opening %s", spec);
    s->head.as = &s3_store;
    s->spec = spec;
    int rc = tw_s3_open(spec, &s->s3, err);
    if (rc == 0 && make)
        rc = probe(s, err);
    if (rc != 0)
        s3_close(&s->head);
    else
        *out = &s->head;
    return rc;
}
