/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in one repository of a container registry, by the OCI distribution specification:
 *
 *     log-..., try-...       entries of the log: store_oci_log.c
 *     content-SHA256         a content: a manifest of one layer, which is its blob
 *     lock-alone-..., ...    who works in it, since when
 *
 * Everything lies below a manifest with a tag: the registry's own garbage collection takes blobs
 * that no manifest names. Blobs have their digest as their name; whoever reads one digests it.
 */
#include "store_oci.h"

#include "jcs.h"
#include "json_load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { TAGS_BYTES = 64 << 20, TAGS_PAGES = 20000, LOCK_TRIES = 20 };
#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define EMPTY_TYPE "application/vnd.oci.empty.v1+json"
/* of {} */
#define EMPTY_SHA256 "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
static const char LOCK_TYPE[] = "application/vnd.twinrun.lock.v1";
/* A lock that is older was left by somebody who was killed; who works for longer renews his. */
static const int64_t LOCK_HOLDS_S = 6 * 3600, LOCK_RENEWED_S = 3600;

static void oci_release(struct tw_store *store);

static void oci_close(struct tw_store *store)
{
    struct tw_oci *s = (struct tw_oci *)store;
    oci_release(store);
    tw_dist_close(s->d);
    tw_free(s->entry);
    tw_free(s);
}

int tw_oci_ask(struct tw_oci *s, struct tw_dist_call *call, const char *shown,
               struct twin_error *err)
{
    int rc = tw_dist_do(s->d, call, err);
    return rc == 0 && call->status / 100 != 2 ? tw_dist_refused(call, shown, err) : rc;
}

int tw_oci_get_into(struct tw_oci *s, const char *path, const char *accept, struct tw_sink *to,
                    struct twin_error *err)
{
    struct tw_dist_call call = {
        .method = "GET", .path = path, .accept = accept, .take = tw_sink_take, .to = to};
    int rc = tw_sink_begin(to, path, err);
    if (rc != 0)
        return rc;
    rc = tw_sink_end(to, tw_oci_ask(s, &call, path, err), path, err);
    tw_dist_call_free(&call);
    return rc;
}

/* ---- tags */

static int visit_tags(const char *text, size_t n, int (*visit)(void *user, const char *tag),
                      void *user, struct twin_error *err)
{
    json_t *o = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *tags = json_object_get(o, "tags");
    int rc = 0;
    /* a repository that lost all its tags has null */
    if (!json_is_array(tags) && !json_is_null(tags))
        rc = twin_error_set(err, TWIN_EFORMAT, "a list of tags: expected {\"tags\": [...]}");
    for (size_t i = 0; i < json_array_size(tags) && rc == 0; i++) {
        const char *tag = json_string_value(json_array_get(tags, i));
        if (tag && strlen(tag) < TW_OCI_TAG_BYTES)
            rc = visit(user, tag);
    }
    json_decref(o);
    return rc;
}

int tw_oci_tags(struct tw_oci *s, int (*visit)(void *user, const char *tag), void *user,
                struct twin_error *err)
{
    char *url = NULL;
    size_t pages = 0;
    int rc = 0;
    do {
        struct twin_error why = TWIN_ERROR_INIT;
        struct tw_buf b = {.cap = TAGS_BYTES};
        tw_buf_puts(&b, "");
        struct tw_sink k = {.into = &b, .fd = -1};
        struct tw_dist_call call = {.method = "GET",
                                    .path = "tags/list?n=1000",
                                    .url = url,
                                    .take = tw_sink_take,
                                    .to = &k};
        char *next = NULL;
        rc = tw_sink_begin(&k, "the list of tags", &why);
        if (rc == 0)
            rc = tw_sink_end(&k, tw_oci_ask(s, &call, "the list of tags", &why), "the list of tags",
                             &why);
        const bool none = rc == TWIN_ENOENT && !url;
        rc = rc ? rc : visit_tags(b.data, b.len, visit, user, &why);
        rc = rc ? rc : tw_dist_next_page(s->d, &call, &next, &why);
        if (rc == 0 && next && url && strcmp(next, url) == 0)
            rc = twin_error_set(&why, TWIN_EFORMAT, "a page of the list of tags leads to itself");
        if (rc == 0 && next && ++pages >= TAGS_PAGES)
            rc = twin_error_set(&why, TWIN_ELIMIT,
                                "the list of tags has more than %d pages: expected an end",
                                TAGS_PAGES);
        if (rc == TWIN_ENOENT && !none)
            rc = TWIN_EIO;
        if (rc != 0 && !none)
            twin_error_set(err, rc, "%s: %s", s->spec, why.message);
        tw_buf_free(&b);
        tw_dist_call_free(&call);
        tw_free(url);
        url = next;
        if (none)
            return 0;
    } while (rc == 0 && url);
    tw_free(url);
    return rc;
}

/* ---- blobs and manifests */

int tw_oci_get_manifest(struct tw_oci *s, const char *reference, struct tw_buf *text,
                        char sha256[65], struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char path[32 + TW_OCI_TAG_BYTES];
    snprintf(path, sizeof path, "manifests/%s", reference);
    text->cap = TW_OCI_MANIFEST_BYTES;
    tw_buf_puts(text, "");
    struct tw_sink k = {.into = text, .fd = -1};
    int rc = tw_oci_get_into(s, path, MANIFEST_TYPE, &k, &why);
    memcpy(sha256, k.sha256, sizeof k.sha256);
    return rc ? twin_error_set(err, rc, "%s: %s", s->spec, why.message) : 0;
}

int tw_oci_put_manifest(struct tw_oci *s, const char *tag, const char *text, size_t n,
                        struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char path[32 + TW_OCI_TAG_BYTES];
    snprintf(path, sizeof path, "manifests/%s", tag);
    struct tw_dist_call call = {
        .method = "PUT", .path = path, .type = MANIFEST_TYPE, .data = text, .bytes = n};
    int rc = tw_oci_ask(s, &call, path, &why);
    tw_dist_call_free(&call);
    /* 404 of a manifest that is pushed: a blob that it names is not there */
    if (rc == TWIN_ENOENT)
        rc = TWIN_EIO;
    return rc ? twin_error_set(err, rc, "%s: %s", s->spec, why.message) : 0;
}

static int put_empty(struct tw_oci *s, struct twin_error *err)
{
    if (s->has_empty)
        return 0;
    int rc = tw_oci_put_blob(s, "{}", 2, EMPTY_SHA256, "an empty blob", err);
    s->has_empty = rc == 0;
    return rc;
}

static json_t *descriptor(const char *type, const char *sha256, uint64_t bytes)
{
    return json_pack("{s:s, s:o, s:I}", "mediaType", type, "digest",
                     json_sprintf("sha256:%s", sha256), "size", (json_int_t)bytes);
}

int tw_oci_manifest(struct tw_oci *s, const char *type, const char *layer_type, const char *sha256,
                    uint64_t bytes, const char *title, const char *note, const char *value,
                    struct tw_buf *out, struct twin_error *err)
{
    int rc = put_empty(s, err);
    if (rc != 0)
        return rc;
    json_t *layer = sha256 ? descriptor(layer_type, sha256, bytes)
                           : descriptor(EMPTY_TYPE, EMPTY_SHA256, 2);
    if (title && json_object_set_new(layer, "annotations",
                                     json_pack("{s:s}", "org.opencontainers.image.title", title)))
        rc = TWIN_ENOMEM;
    json_t *o = json_pack("{s:i, s:s, s:s, s:o, s:[o], s:{s:s}}", "schemaVersion", 2, "mediaType",
                          MANIFEST_TYPE, "artifactType", type, "config",
                          descriptor(EMPTY_TYPE, EMPTY_SHA256, 2), "layers", layer, "annotations",
                          note, value);
    out->cap = TW_OCI_MANIFEST_BYTES;
    rc = o && rc == 0 ? tw_jcs_write(o, out, err) : tw_no_memory(err, "for a manifest");
    json_decref(o);
    return rc;
}

/* Removes a manifest. Its blobs are taken by the registry's own garbage collection. */
int tw_oci_remove_manifest(struct tw_oci *s, const char *sha256, const char *shown,
                           struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char path[96];
    snprintf(path, sizeof path, "manifests/sha256:%.64s", sha256);
    struct tw_dist_call call = {.method = "DELETE", .path = path};
    int rc = tw_oci_ask(s, &call, shown, &why);
    tw_dist_call_free(&call);
    if (rc != 0 && rc != TWIN_ENOENT)
        return twin_error_set(err, rc, "%s: %s", s->spec, why.message);
    return 0;
}

/* ---- pieces and listing */

static int oci_get(struct tw_store *store, const char *name, size_t cap, char **data, size_t *bytes,
                   struct twin_error *err)
{
    struct tw_oci *s = (struct tw_oci *)store;
    if (tw_starts(name, "contents/") && tw_is_hex(name + strlen("contents/"), 64))
        return tw_oci_get_blob(s, name + strlen("contents/"), cap, data, bytes, err);
    const uint64_t number = tw_starts(name, "log/") ? tw_oci_entry_number(name + 4) : 0;
    return number ? tw_oci_log_get(s, number, cap, data, bytes, err)
                  : twin_error_set(err, TWIN_ENOENT, "%s: there is no %s", s->spec, name);
}

static int oci_put(struct tw_store *store, const char *name, const void *data, size_t bytes,
                   struct twin_error *err)
{
    const uint64_t number = tw_starts(name, "log/") ? tw_oci_entry_number(name + 4) : 0;
    return number ? tw_oci_log_put((struct tw_oci *)store, number, data, bytes, err)
                  : twin_error_set(err, TWIN_EINVAL, "%s is no entry of a log", name);
}

static int oci_list(struct tw_store *store, const char *folder,
                    int (*visit)(void *user, const struct tw_store_piece *p), void *user,
                    struct twin_error *err)
{
    struct tw_oci *s = (struct tw_oci *)store;
    if (strcmp(folder, "contents") == 0)
        return tw_oci_list_contents(s, visit, user, err);
    int rc = tw_oci_log_list(s, err);
    for (size_t i = 0; i < s->entries && rc == 0; i++) {
        char name[40];
        snprintf(name, sizeof name, "%08" PRIu64 ".dsse.json", s->entry[i].number);
        const struct tw_store_piece p = {.name = name};
        rc = visit(user, &p);
    }
    return rc;
}

/* ---- the lock */

/* When a lock was taken, in seconds, from "lock-alone-0001795656000-..."; -1: no lock. */
static int64_t lock_time(const char *tag, bool *alone)
{
    uint64_t when = 0;
    char digits[14];
    *alone = tw_starts(tag, "lock-alone-");
    if (!*alone && !tw_starts(tag, "lock-shared-"))
        return -1;
    const char *at = tag + strlen(*alone ? "lock-alone-" : "lock-shared-");
    snprintf(digits, sizeof digits, "%.13s", at);
    return tw_parse_u64(digits, INT64_MAX / TW_SECOND_NS, &when) == 0 ? (int64_t)when : -1;
}

/* Locks of others that stand against ours, if they are held; or, to sweep, old ones. */
struct looking {
    const struct tw_oci *s;
    bool alone, old;
    int64_t now_s;
    struct tw_strings tags;
    struct twin_error *err;
};

static int look_at_lock(void *user, const char *tag)
{
    struct looking *l = user;
    bool alone;
    const int64_t when = lock_time(tag, &alone);
    if (when < 0 || strcmp(tag, l->s->lock) == 0)
        return 0;
    /* whose clock is far ahead must not hold for ever */
    const bool counts = when > l->now_s - LOCK_HOLDS_S && when < l->now_s + LOCK_HOLDS_S;
    if (l->old ? counts : !counts || !(alone || l->alone))
        return 0;
    const char **list = tw_reallocarray(l->tags.items, l->tags.count + 1, sizeof *list);
    char *copy = list ? tw_strdup(tag) : NULL;
    if (list)
        l->tags.items = list;
    if (!copy)
        return tw_no_memory(l->err, "looking at locks");
    list[l->tags.count++] = copy;
    return 0;
}

static void free_tags(struct tw_strings *tags)
{
    for (size_t i = 0; i < tags->count; i++)
        tw_free((char *)(uintptr_t)tags->items[i]);
    tw_free(tags->items);
    *tags = (struct tw_strings){0};
}

/* A manifest that says of which lock it is, so that no two are one; "released": of one that was
 * given back where the registry removes nothing. */
static int put_lock_tag(struct tw_oci *s, const char *tag, const char *says, struct twin_error *err)
{
    struct tw_buf text = {0};
    int rc = tw_oci_manifest(s, LOCK_TYPE, NULL, NULL, 0, NULL, "twinrun.lock", says, &text, err);
    rc = rc ? rc : tw_oci_put_manifest(s, tag, text.data, text.len, err);
    tw_buf_free(&text);
    return rc;
}

/* What a lock says; its digest. TWIN_ENOENT: it is gone. */
static int read_lock(struct tw_oci *s, const char *tag, bool *released, char digest[65],
                     struct twin_error *err)
{
    struct tw_buf text = {0};
    int rc = tw_oci_get_manifest(s, tag, &text, digest, err);
    json_t *o = rc ? NULL : tw_json_load(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    const char *says = json_string_value(
        json_object_get(json_object_get(o, "annotations"), "twinrun.lock"));
    *released = says && strcmp(says, "released") == 0;
    json_decref(o);
    tw_buf_free(&text);
    return rc;
}

/* Is one of them held? */
static int any_held(struct tw_oci *s, const struct tw_strings *tags, bool *held,
                    struct twin_error *err)
{
    *held = false;
    for (size_t i = 0; i < tags->count && !*held; i++) {
        struct twin_error why = TWIN_ERROR_INIT;
        char digest[65];
        bool released;
        int rc = read_lock(s, tags->items[i], &released, digest, &why);
        if (rc != 0 && rc != TWIN_ENOENT)
            return twin_error_set(err, rc, "%s", why.message);
        *held = rc == 0 && !released;
    }
    return 0;
}

static int take_lock(struct tw_oci *s, bool alone, struct twin_error *err)
{
    unsigned char id[8];
    char hex[17];
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
        return twin_error_system(err, "no random number for a lock");
    tw_hex(id, sizeof id, hex);
    s->alone = alone;
    s->locked_ns = tw_realtime_ns();
    snprintf(s->lock, sizeof s->lock, "lock-%s-%013" PRId64 "-%s", alone ? "alone" : "shared",
             s->locked_ns / TW_SECOND_NS, hex);
    return put_lock_tag(s, s->lock, s->lock, err);
}

/* The new one before the old one goes. */
int tw_oci_renew_lock(struct tw_oci *s, struct twin_error *err)
{
    if (!*s->lock || tw_realtime_ns() - s->locked_ns <= LOCK_RENEWED_S * TW_SECOND_NS)
        return 0;
    char old[TW_OCI_TAG_BYTES], now[TW_OCI_TAG_BYTES];
    memcpy(old, s->lock, sizeof old);
    int rc = take_lock(s, s->alone, err);
    memcpy(now, s->lock, sizeof now);
    memcpy(s->lock, old, sizeof old);
    if (rc != 0)
        return rc;
    oci_release(&s->head);
    memcpy(s->lock, now, sizeof now);
    return 0;
}

/*
 * Each writes down that he works here, and then looks who else does: of two who come at once at
 * least one sees the other. Who is to be alone sees all, the others only him.
 */
static int oci_hold(struct tw_store *store, bool alone, struct twin_error *err)
{
    struct tw_oci *s = (struct tw_oci *)store;
    unsigned char r = 0;
    int rc = 0;
    oci_release(store);
    (void)!getrandom(&r, sizeof r, 0);
    const struct timespec wait = {0, 300000000 + 1000000L * r}; /* not in step with another */
    for (int i = 0; i < LOCK_TRIES && rc == 0; i++) {
        struct looking l = {
            .s = s, .alone = alone, .now_s = tw_realtime_ns() / TW_SECOND_NS, .err = err};
        bool held = false;
        rc = take_lock(s, alone, err);
        rc = rc ? rc : tw_oci_tags(s, look_at_lock, &l, err);
        rc = rc ? rc : any_held(s, &l.tags, &held, err);
        free_tags(&l.tags);
        if (rc == 0 && !held)
            return 0;
        oci_release(store);
        if (rc == 0)
            nanosleep(&wait, NULL);
    }
    if (rc != 0)
        return rc;
    return twin_error_set(err, TWIN_EBUSY,
                          "%s: another twinrun registry %s in it (tags lock-...; those of a killed "
                          "one count for 6 hours); try again later",
                          s->spec, alone ? "works" : "removes contents");
}

/* Where nothing is removed the tag stays, and says that it is released. */
static void oci_release(struct tw_store *store)
{
    struct tw_oci *s = (struct tw_oci *)store;
    char digest[65];
    bool released = false;
    if (*s->lock && read_lock(s, s->lock, &released, digest, NULL) == 0 && !released &&
        tw_oci_remove_manifest(s, digest, s->lock, NULL) != 0)
        (void)put_lock_tag(s, s->lock, "released", NULL);
    *s->lock = '\0';
}

/* Locks of killed ones. Uploads that were begun and not ended are the registry's business: nobody
 * can list them. */
static int oci_sweep(struct tw_store *store, int64_t older_ns, uint64_t *count,
                     struct twin_error *err)
{
    struct tw_oci *s = (struct tw_oci *)store;
    struct looking l = {.s = s, .old = true, .now_s = tw_realtime_ns() / TW_SECOND_NS, .err = err};
    (void)older_ns;
    *count = 0;
    int rc = tw_oci_tags(s, look_at_lock, &l, err);
    for (size_t i = 0; i < l.tags.count && rc == 0; i++) {
        char digest[65];
        bool released;
        if (read_lock(s, l.tags.items[i], &released, digest, NULL) == 0 &&
            tw_oci_remove_manifest(s, digest, l.tags.items[i], NULL) == 0)
            ++*count;
    }
    free_tags(&l.tags);
    return rc;
}

/* ---- opening */

static const struct tw_store_kind oci_store = {
    .close = oci_close,
    .get = oci_get,
    .put = oci_put,
    .put_content = tw_oci_put_content,
    .get_content = tw_oci_get_content,
    .content_bytes = tw_oci_content_bytes,
    .remove_content = tw_oci_remove_content,
    .sweep = oci_sweep,
    .list = oci_list,
    .hold = oci_hold,
    .release = oci_release,
};

int tw_store_open_oci(const char *spec, struct tw_store **out, struct twin_error *err)
{
    struct tw_oci *s = tw_calloc(1, sizeof *s);
    if (!s)
        return tw_no_memory(err, "opening %s", spec);
    s->head.as = &oci_store;
    s->spec = spec;
    int rc = tw_dist_open(spec, &s->d, err);
    if (rc != 0)
        oci_close(&s->head);
    else
        *out = &s->head;
    return rc;
}
