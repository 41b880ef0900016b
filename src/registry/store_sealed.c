/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which plaintext of a sealed store lies under which ciphertext. A list is a content like others:
 *
 *     {"schema": "twinrun.sealed/1",
 *      "files": {"PLAINTEXT": {"sealed": "CIPHERTEXT", "bytes": 1234, "plain": 1000}}}
 *
 * Its digest stands in a signed entry, and so both digests of each file are signed for: the
 * ciphertext can be checked by whoever has no key, and the plaintext by whoever has one.
 */
#include "seal.h"
#include "store_inside.h"

#include "jcs.h"
#include "json_load.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SCHEMA "twinrun.sealed/1"
enum { LIST_BYTES = 64 << 20, RECIPIENTS_MAX = 100 };

struct tw_sealed {
    const struct tw_seal_way *way;
    json_t *recipients;
    struct tw_strings identities; /* borrowed */
    json_t *known, *fresh;        /* plaintext: its row of a list */
    char *lost;
};

static const struct tw_seal_way *const ways[] = {&tw_seal_age, &tw_seal_openssl};

/* ---- files without names */

int tw_nameless_file(struct twin_error *err)
{
    const char *given = getenv("TMPDIR"), *dir = given && *given ? given : "/var/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    /* file systems without such files (NFS, overlayfs of old): one with a name, for a moment */
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        char *path = tw_path_join(dir, "twinrun-XXXXXX");
        fd = path ? mkostemp(path, O_CLOEXEC) : -1;
        if (fd >= 0 && unlink(path) != 0) {
            close(fd);
            fd = -1;
        }
        tw_free(path);
    }
    if (fd < 0)
        twin_error_system(err, "cannot make a temporary file in %s%s", dir,
                          dir == given ? " (TMPDIR)" : "; TMPDIR may name another folder");
    return fd;
}

int tw_memory_file(const char *name, struct twin_error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        twin_error_system(err, "cannot make a file in memory");
    return fd;
}

/* ---- the bytes on their way */

int tw_seal_pass(struct tw_seal_flow *f, const void *data, size_t n, struct twin_error *err)
{
    return tw_sink_take(&f->plain, data, n) ? 0 : tw_sink_refused(&f->plain, f->shown, err);
}

/* ---- for whom */

/* "age:age1..." as its way and what stands behind. */
static const struct tw_seal_way *way_of(const char *given, const char **rest)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const size_t n = strlen(ways[i]->name);
        if (strncmp(given, ways[i]->name, n) == 0 && given[n] == ':') {
            *rest = given + n + 1;
            return ways[i];
        }
    }
    return NULL;
}

int tw_store_seal_parse(const struct tw_strings *given, json_t **out, struct twin_error *err)
{
    const struct tw_seal_way *all = NULL;
    json_t *list = json_array();
    int rc = list ? 0 : tw_no_memory(err, "for recipients");
    if (rc == 0 && given->count > RECIPIENTS_MAX)
        rc = twin_error_set(err, TWIN_ELIMIT, "--encrypt: at most %d recipients", RECIPIENTS_MAX);
    for (size_t i = 0; i < given->count && rc == 0; i++) {
        const char *rest = NULL;
        char *text = NULL;
        const struct tw_seal_way *w = way_of(given->items[i], &rest);
        if (!w || (all && w != all))
            rc = twin_error_set(err, TWIN_EINVAL,
                                "--encrypt: expected age:RECIPIENT or openssl:PUBKEY.pem, all of "
                                "one kind, found \"%.80s\"",
                                given->items[i]);
        all = w;
        rc = rc ? rc : w->recipient(rest, &text, err);
        if (rc == 0 && json_array_append_new(list, json_string(text)) != 0)
            rc = tw_no_memory(err, "for recipients");
        tw_free(text);
    }
    *out = rc ? NULL : json_pack("{s:s, s:O}", "how", all->name, "recipients", list);
    json_decref(list);
    return rc || *out ? rc : tw_no_memory(err, "for recipients");
}

int tw_store_seal(struct tw_store *s, const json_t *seal, const struct tw_strings *identities,
                  struct twin_error *err)
{
    const char *how = json_string_value(json_object_get(seal, "how"));
    json_t *recipients = json_object_get(seal, "recipients");
    const struct tw_seal_way *way = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && how; i++)
        if (strcmp(how, ways[i]->name) == 0)
            way = ways[i];
    if (!how || !json_array_size(recipients))
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: its first entry says that it is sealed, and "
                              "not how or for whom",
                              s->name);
    if (!way)
        return twin_error_set(err, TWIN_EVERSION,
                              "%s is sealed by \"%.24s\": expected age or openssl; a newer twinrun "
                              "may know it",
                              s->name, how);
    for (size_t i = 0; i < json_array_size(recipients); i++)
        if (!json_is_string(json_array_get(recipients, i)))
            return twin_error_set(err, TWIN_EFORMAT, "%s: recipient %zu is no text", s->name,
                                  i + 1);
    struct tw_sealed *x = tw_calloc(1, sizeof *x);
    if (!x)
        return tw_no_memory(err, "opening %s", s->name);
    x->way = way;
    x->recipients = json_incref(recipients);
    x->identities = *identities;
    x->known = json_object();
    x->fresh = json_object();
    tw_sealed_free(s->sealed);
    s->sealed = x;
    return x->known && x->fresh ? 0 : tw_no_memory(err, "opening %s", s->name);
}

void tw_sealed_free(struct tw_sealed *x)
{
    if (!x)
        return;
    json_decref(x->recipients);
    json_decref(x->known);
    json_decref(x->fresh);
    tw_free(x->lost);
    tw_free(x);
}

bool tw_store_is_sealed(const struct tw_store *s)
{
    return s->sealed != NULL;
}

bool tw_store_can_open(const struct tw_store *s)
{
    return s->sealed && s->sealed->identities.count > 0;
}

/* ---- lists */

void tw_store_list_lost(struct tw_store *s, const char *why)
{
    if (s->sealed && !s->sealed->lost)
        s->sealed->lost = tw_strdup(why);
}

const char *tw_store_lists_lost(const struct tw_store *s)
{
    return s->sealed ? s->sealed->lost : NULL;
}

static bool row_ok(const char *plain, const json_t *row)
{
    const json_t *bytes = json_object_get(row, "bytes"), *size = json_object_get(row, "plain");
    return tw_is_hex(plain, 64) && json_object_size(row) == 3 &&
           tw_is_hex(json_string_value(json_object_get(row, "sealed")), 64) &&
           json_is_integer(bytes) && json_integer_value(bytes) >= 0 && json_is_integer(size) &&
           json_integer_value(size) >= 0;
}

int tw_store_take_list(struct tw_store *s, const char *sha256, struct twin_error *err)
{
    char *text = NULL;
    const char *plain;
    json_t *row;
    size_t n = 0;
    int rc = tw_store_read_content(s, sha256, LIST_BYTES, &text, &n, err);
    if (rc != 0)
        return rc;
    json_t *o = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    const char *schema = json_string_value(json_object_get(o, "schema"));
    json_t *files = json_object_get(o, "files");
    if (!schema || strcmp(schema, SCHEMA) != 0 || !json_is_object(files))
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: %.12s: expected a list of sealed contents of schema " SCHEMA
                            ", found other bytes",
                            s->name, sha256);
    json_object_foreach (files, plain, row) {
        if (rc == 0 && !row_ok(plain, row))
            rc = twin_error_set(err, TWIN_EFORMAT,
                                "%s: the list %.12s: expected the digests and lengths of a sealed "
                                "content, found others for %.12s",
                                s->name, sha256, plain);
    }
    if (rc == 0 && json_object_update(s->sealed->known, files) != 0)
        rc = tw_no_memory(err, "reading %s", s->name);
    json_decref(o);
    tw_free(text);
    return rc;
}

static const json_t *row_of(const struct tw_store *s, const char *sha256)
{
    return s->sealed ? json_object_get(s->sealed->known, sha256) : NULL;
}

const char *tw_store_sealed_as(const struct tw_store *s, const char *sha256)
{
    return json_string_value(json_object_get(row_of(s, sha256), "sealed"));
}

int tw_store_put_list(struct tw_store *s, char sha256[65], struct twin_error *err)
{
    struct tw_buf text = {0};
    *sha256 = '\0';
    if (!s->sealed || !json_object_size(s->sealed->fresh))
        return 0;
    json_t *o = json_pack("{s:s, s:O}", "schema", SCHEMA, "files", s->sealed->fresh);
    int rc = o ? tw_jcs_write(o, &text, err) : tw_no_memory(err, "for a list");
    json_decref(o);
    if (rc == 0 && text.len > LIST_BYTES)
        rc = twin_error_set(err, TWIN_ELIMIT, "the list of sealed files has %zu bytes: too many",
                            text.len);
    if (rc == 0 && !tw_sha256_of(text.data, text.len, sha256))
        rc = tw_no_memory(err, "for a list");
    rc = rc ? rc : tw_store_put_text(s, text.data, text.len, sha256, "a list", err);
    tw_buf_free(&text);
    if (rc == 0)
        json_object_clear(s->sealed->fresh);
    return rc;
}

/* ---- sealing */

/* The digest and the length of what is in a file, which then stands at its beginning. */
static int digest_of(int fd, struct tw_sink *k, const char *shown, struct twin_error *err)
{
    if (lseek(fd, 0, SEEK_SET) != 0)
        return twin_error_system(err, "cannot read %s", shown);
    int rc = tw_sink_file(k, fd, shown, err);
    if (rc == 0 && lseek(fd, 0, SEEK_SET) != 0)
        rc = twin_error_system(err, "cannot read %s", shown);
    return rc;
}

/* The file as a ciphertext, in a file that has no name. */
static int seal_into(struct tw_store *s, struct tw_seal_flow *f, const char *sha256, uint64_t bytes,
                     struct twin_error *err)
{
    int rc = tw_sink_begin(&f->plain, f->shown, err);
    if (rc != 0)
        return rc;
    rc = s->sealed->way->seal(s->sealed->recipients, f, err);
    rc = tw_sink_end(&f->plain, rc, f->shown, err);
    return rc ? rc : tw_sink_is(&f->plain, sha256, bytes, f->shown, err);
}

/* Remembers what lies where, for readers of now and for the next list. */
static int note(struct tw_store *s, const char *plain, const char *sealed, uint64_t bytes,
                uint64_t size, struct twin_error *err)
{
    json_t *row = json_pack("{s:s, s:I, s:I}", "sealed", sealed, "bytes", (json_int_t)bytes,
                            "plain", (json_int_t)size);
    if (row && json_object_set(s->sealed->known, plain, row) == 0 &&
        json_object_set(s->sealed->fresh, plain, row) == 0) {
        json_decref(row);
        return 0;
    }
    json_decref(row);
    return tw_no_memory(err, "for a list");
}

int tw_store_put_file(struct tw_store *s, int fd, const char *sha256, uint64_t bytes,
                      const char *shown, struct twin_error *err)
{
    const char *there = tw_store_sealed_as(s, sha256);
    struct tw_sink k = {.fd = -1};
    if (!s->sealed)
        return tw_store_put_content(s, fd, sha256, bytes, shown, err);
    if (there && tw_store_get_stored(s, there, -1, NULL) == 0)
        return 0; /* sealed once already, and still right */
    int file = tw_nameless_file(err);
    if (file < 0)
        return TWIN_EIO;
    struct tw_seal_flow f = {.in = fd, .sealed = file, .shown = shown, .plain = {.fd = -1}};
    int rc = seal_into(s, &f, sha256, bytes, err);
    rc = rc ? rc : digest_of(file, &k, shown, err);
    rc = rc ? rc : tw_store_put_content(s, file, k.sha256, k.bytes, shown, err);
    rc = rc ? rc : note(s, sha256, k.sha256, k.bytes, bytes, err);
    close(file);
    return rc;
}

/* ---- opening */

int tw_sealed_get(struct tw_store *s, const char *sha256, int fd, struct twin_error *err)
{
    const char *sealed = tw_store_sealed_as(s, sha256);
    char shown[48];
    snprintf(shown, sizeof shown, "the content %.12s", sha256);
    if (!tw_store_can_open(s))
        return twin_error_set(err, TWIN_EINVAL,
                              "%s is sealed: expected --identity FILE, a key that opens it", shown);
    struct tw_seal_flow f = {.shown = shown, .plain = {.fd = fd}};
    int rc = tw_store_open_stored(s, sealed, &f.in, err);
    if (rc != 0)
        return rc;
    rc = tw_sink_begin(&f.plain, shown, err);
    if (rc == 0) {
        rc = s->sealed->way->open(&s->sealed->identities, &f, err);
        rc = tw_sink_end(&f.plain, rc, shown, err);
    }
    close(f.in);
    if (rc == 0 && strcmp(f.plain.sha256, sha256) != 0)
        rc = tw_store_damaged(s, sha256, f.plain.sha256, err);
    return rc;
}

int tw_sealed_open(struct tw_store *s, const char *sha256, bool in_memory, int *fd,
                   struct twin_error *err)
{
    const int file = in_memory ? tw_memory_file("twinrun-opened", err) : tw_nameless_file(err);
    return tw_store_fill(s, sha256, tw_sealed_get, file, fd, err);
}

int tw_sealed_bytes(struct tw_store *s, const char *sha256, uint64_t *bytes, struct twin_error *err)
{
    const json_t *row = row_of(s, sha256);
    const uint64_t want = (uint64_t)json_integer_value(json_object_get(row, "bytes"));
    uint64_t there = 0;
    int rc = s->as->content_bytes(s, tw_store_sealed_as(s, sha256), &there, err);
    if (rc == 0 && there != want)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: of the sealed content %.12s %llu bytes are there, not %llu",
                            s->name, sha256, (unsigned long long)there, (unsigned long long)want);
    *bytes = (uint64_t)json_integer_value(json_object_get(row, "plain"));
    return rc;
}
