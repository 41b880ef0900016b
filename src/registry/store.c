/* SPDX-License-Identifier: Apache-2.0 */
/* Which kind of store a name means, and what all kinds do alike. */
#include "seal.h"
#include "store_inside.h"

#include "base.h"
#include "sign.h"
#include "sha256.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_kind(const char *name, bool make, struct tw_store **out, struct twin_error *err)
{
    if (tw_starts(name, "s3://"))
        return tw_store_open_s3(name, make, out, err);
    if (tw_starts(name, "oci://") || tw_starts(name, "oci+http://"))
        return tw_store_open_oci(name, out, err);
    return tw_store_open_folder(name, make, out, err);
}

int tw_store_open(const char *spec, bool make, struct tw_store **out, struct twin_error *err)
{
    char *name = tw_strdup(spec);
    if (!name)
        return tw_no_memory(err, "opening %s", spec);
    int rc = open_kind(name, make, out, err);
    if (rc != 0)
        tw_free(name);
    else
        (*out)->name = name;
    return rc;
}

void tw_store_close(struct tw_store *s)
{
    char *name = s ? s->name : NULL;
    if (s) {
        tw_sealed_free(s->sealed);
        s->as->close(s);
    }
    tw_free(name);
}

const char *tw_store_name(const struct tw_store *s)
{
    return s->name;
}

int tw_store_get(struct tw_store *s, const char *name, size_t cap, char **data, size_t *bytes,
                 struct twin_error *err)
{
    return s->as->get(s, name, cap, data, bytes, err);
}

int tw_store_put(struct tw_store *s, const char *name, const void *data, size_t bytes,
                 struct twin_error *err)
{
    return s->as->put(s, name, data, bytes, err);
}

int tw_store_put_content(struct tw_store *s, int fd, const char *sha256, uint64_t bytes,
                         const char *shown, struct twin_error *err)
{
    return s->as->put_content(s, fd, sha256, bytes, shown, err);
}

/* By a file in memory. */
int tw_store_put_text(struct tw_store *s, const char *text, size_t bytes, const char *sha256,
                      const char *shown, struct twin_error *err)
{
    int file = tw_memory_file("twinrun-text", err);
    if (file < 0)
        return TWIN_EIO;
    int rc = tw_write_all(file, text, bytes) == 0 && lseek(file, 0, SEEK_SET) == 0
                 ? 0
                 : twin_error_system(err, "cannot write a file in memory");
    rc = rc ? rc : tw_store_put_content(s, file, sha256, bytes, shown, err);
    close(file);
    return rc;
}

int tw_store_pour(struct tw_store *s, const char *sha256, struct tw_sink *to,
                  struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char name[80];
    snprintf(name, sizeof name, "contents/%.64s", sha256);
    int rc = tw_sink_begin(to, name, err);
    if (rc != 0)
        return rc;
    const int given = s->as->get_content(s, sha256, to, &why);
    rc = tw_sink_end(to, given, name, err);
    if (given != 0 && !to->failed)
        return twin_error_set(err, given, "%s", why.message);
    if (rc == 0 && strcmp(to->sha256, sha256) != 0)
        rc = tw_store_damaged(s, sha256, to->sha256, err);
    return rc;
}

int tw_store_get_stored(struct tw_store *s, const char *sha256, int fd, struct twin_error *err)
{
    struct tw_sink k = {.fd = fd};
    return tw_store_pour(s, sha256, &k, err);
}

int tw_store_fill(struct tw_store *s, const char *sha256,
                  int (*get)(struct tw_store *s, const char *sha256, int fd,
                             struct twin_error *err),
                  int file, int *fd, struct twin_error *err)
{
    *fd = file;
    if (file < 0)
        return TWIN_EIO;
    int rc = get(s, sha256, file, err);
    if (rc == 0 && lseek(file, 0, SEEK_SET) != 0)
        rc = twin_error_system(err, "cannot read a temporary file");
    if (rc != 0)
        close(file);
    return rc;
}

int tw_store_open_stored(struct tw_store *s, const char *sha256, int *fd, struct twin_error *err)
{
    return s->as->open_content
               ? s->as->open_content(s, sha256, fd, err)
               : tw_store_fill(s, sha256, tw_store_get_stored, tw_nameless_file(err), fd, err);
}

int tw_store_get_content(struct tw_store *s, const char *sha256, int fd, struct twin_error *err)
{
    return tw_store_sealed_as(s, sha256) ? tw_sealed_get(s, sha256, fd, err)
                                         : tw_store_get_stored(s, sha256, fd, err);
}

int tw_store_open_content(struct tw_store *s, const char *sha256, int *fd, struct twin_error *err)
{
    return tw_store_sealed_as(s, sha256) ? tw_sealed_open(s, sha256, false, fd, err)
                                         : tw_store_open_stored(s, sha256, fd, err);
}

int64_t tw_store_time(const char *text)
{
    char seconds[sizeof "2026-11-26T11:20:00Z"];
    int64_t ns = 0;
    snprintf(seconds, sizeof seconds, "%.19sZ", text ? text : "");
    return twin_trust_time(seconds, &ns) == 0 ? ns : INT64_MAX;
}

int tw_store_damaged(const struct tw_store *s, const char *sha256, const char *found,
                     struct twin_error *err)
{
    return twin_error_set(err, TWIN_EFORMAT,
                          "%s: the content %.12s is damaged: its bytes have the digest %.12s",
                          s->name, sha256, found);
}

/* What is read into memory is most often not sealed: so that is tried first. */
static int read_stored(struct tw_store *s, const char *sha256, size_t cap, char **data,
                       size_t *bytes, struct twin_error *err)
{
    char name[80], hex[65];
    snprintf(name, sizeof name, "contents/%.64s", sha256);
    int rc = tw_store_get(s, name, cap, data, bytes, err);
    if (rc != 0)
        return rc;
    if (!tw_sha256_of(*data, *bytes, hex))
        rc = tw_no_memory(err, "reading %s", name);
    else if (strcmp(hex, sha256) != 0)
        rc = tw_store_damaged(s, sha256, hex, err);
    if (rc != 0) {
        tw_free(*data);
        *data = NULL;
    }
    return rc;
}

static int read_sealed(struct tw_store *s, const char *sha256, size_t cap, char **data,
                       size_t *bytes, struct twin_error *err)
{
    char path[32];
    uint64_t plain = 0;
    int fd = -1, rc = tw_sealed_bytes(s, sha256, &plain, err);
    /* the signed list knows: what is too long is not opened into memory first */
    if (rc == 0 && plain > cap)
        rc = twin_error_set(err, TWIN_ELIMIT,
                            "%s: the content %.12s has %llu bytes, at most %zu are taken", s->name,
                            sha256, (unsigned long long)plain, cap);
    rc = rc ? rc : tw_sealed_open(s, sha256, true, &fd, err);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rc = tw_read_file(path, cap, data, bytes, err);
    close(fd);
    return rc;
}

int tw_store_read_content(struct tw_store *s, const char *sha256, size_t cap, char **data,
                          size_t *bytes, struct twin_error *err)
{
    if (!tw_store_sealed_as(s, sha256))
        return read_stored(s, sha256, cap, data, bytes, err);
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = read_stored(s, sha256, cap, data, bytes, &why);
    if (rc == TWIN_ENOENT)
        return read_sealed(s, sha256, cap, data, bytes, err);
    return rc ? twin_error_set(err, rc, "%s", why.message) : 0;
}

int tw_store_content_bytes(struct tw_store *s, const char *sha256, uint64_t *bytes,
                           struct twin_error *err)
{
    return tw_store_sealed_as(s, sha256) ? tw_sealed_bytes(s, sha256, bytes, err)
                                         : s->as->content_bytes(s, sha256, bytes, err);
}

int tw_store_remove_content(struct tw_store *s, const char *sha256, struct twin_error *err)
{
    return s->as->remove_content(s, sha256, err);
}

int tw_store_sweep(struct tw_store *s, int64_t older_ns, uint64_t *count, struct twin_error *err)
{
    return s->as->sweep(s, older_ns, count, err);
}

int tw_store_list(struct tw_store *s, const char *prefix,
                  int (*visit)(void *user, const struct tw_store_piece *p), void *user,
                  struct twin_error *err)
{
    return s->as->list(s, prefix, visit, user, err);
}

int tw_store_hold(struct tw_store *s, bool alone, struct twin_error *err)
{
    return s->as->hold(s, alone, err);
}

void tw_store_release(struct tw_store *s)
{
    s->as->release(s);
}
