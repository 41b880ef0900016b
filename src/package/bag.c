/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the lists of a BagIt folder (manifests, fetch.txt, bag-info.txt), and files below an open
 * folder. Everything here is foreign bytes: each line is checked before it is believed, lengths
 * have limits, and no path leads through a link.
 *
 * Called by verify.c, audit.c and unpack*.c; bag_write.c makes what is read here.
 */
#include "bag.h"

#include "base.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 8192 }; /* of a manifest: a path has at most 4,096 */

/* ---- manifests */

/* Does the text begin with 64 lower-case hex digits? */
static bool is_sha256(const char *s)
{
    return tw_hex_span(s) >= 64;
}

/* Reads one line, whose end is a NUL, into out. before: the path of the line above; paths must
 * ascend by their bytes, so none can stand there twice. 0, TWIN_EFORMAT or TWIN_ENOMEM. */
static int manifest_line(const char *line, size_t number, const char *name, const char *before,
                         struct tw_manifest_entry *out, struct twin_error *err)
{
    if (strlen(line) < 67 || !is_sha256(line) || line[64] != ' ' || line[65] != ' ')
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s, line %zu: expected 64 hex digits, two spaces and a path", name,
                              number);
    if (!tw_path_ok(line + 66))
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s, line %zu: expected a path inside the package, found one that "
                              "leads elsewhere or is no plain text",
                              name, number);
    if (before && strcmp(before, line + 66) >= 0)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s, line %zu: expected each path once, in the order of their bytes",
                              name, number);
    memcpy(out->sha256, line, 64);
    out->sha256[64] = '\0';
    out->seen = false;
    out->good = false;
    return (out->path = tw_strdup(line + 66)) ? 0 : tw_no_memory(err, "for a package");
}

/* Calls take for a copy of each line of a text, without its end. All lines must end in '\n' and
 * hold no NUL or CR. The first non-zero result of take ends it. */
static int each_line(const char *text, size_t n, const char *name,
                     int (*take)(void *user, char *line, size_t number, struct twin_error *err),
                     void *user, struct twin_error *err)
{
    size_t number = 0;
    if (memchr(text, '\0', n) || memchr(text, '\r', n) || (n && text[n - 1] != '\n'))
        return twin_error_set(err, TWIN_EFORMAT, "%s: expected lines of text that end in a newline",
                              name);
    for (const char *at = text, *end = text + n; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            break; /* cannot be: the last byte is one */
        if (stop - at > LINE_BYTES || ++number > TW_BAG_ENTRIES)
            return twin_error_set(err, TWIN_EFORMAT,
                                  "%s, line %zu: expected at most %d lines of at most %d bytes",
                                  name, number, TW_BAG_ENTRIES, LINE_BYTES);
        char *line = tw_strndup(at, (size_t)(stop - at));
        int rc = line ? take(user, line, number, err) : tw_no_memory(err, "for a package");
        tw_free(line);
        if (rc)
            return rc;
        at = stop + 1;
    }
    return 0;
}

/* What a callback of each_line fills: a manifest or a list of fetches, with room for `room`
 * items. */
struct parse {
    void *out;
    size_t room;
    const char *name;
};

/* One line of a manifest; the array doubles when it is full. */
static int take_manifest(void *user, char *line, size_t number, struct twin_error *err)
{
    struct parse *p = user;
    struct tw_manifest *m = p->out;
    if (m->count == p->room) {
        size_t room = p->room ? 2 * p->room : 64;
        struct tw_manifest_entry *grown = tw_reallocarray(m->item, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "for a package");
        m->item = grown;
        p->room = room;
    }
    int rc = manifest_line(line, number, p->name, m->count ? m->item[m->count - 1].path : NULL,
                           &m->item[m->count], err);
    m->count += rc == 0;
    return rc;
}

int tw_manifest_parse(const char *text, size_t n, const char *name, struct tw_manifest *out,
                      struct twin_error *err)
{
    struct parse p = {.out = out, .name = name};
    *out = (struct tw_manifest){0};
    int rc = each_line(text, n, name, take_manifest, &p, err);
    if (rc)
        tw_manifest_free(out);
    return rc;
}

/* For bsearch: manifests are sorted by the same strcmp. */
static int by_path(const void *key, const void *entry)
{
    return strcmp(key, ((const struct tw_manifest_entry *)entry)->path);
}

struct tw_manifest_entry *tw_manifest_find(const struct tw_manifest *m, const char *path)
{
    return m->count ? bsearch(path, m->item, m->count, sizeof *m->item, by_path) : NULL;
}

void tw_manifest_free(struct tw_manifest *m)
{
    for (size_t i = 0; i < m->count; i++)
        tw_free(m->item[i].path);
    tw_free(m->item);
    *m = (struct tw_manifest){0};
}

/* ---- fetch.txt: URL LENGTH PATH */

/* One line of fetch.txt. Only data may be elsewhere, and an address must consist of characters that
 * RFC 3986 allows, so that it can be handed to a program as one word. */
static int take_fetch(void *user, char *line, size_t number, struct twin_error *err)
{
    struct parse *p = user;
    struct tw_fetch *f = p->out;
    struct tw_fetch_entry e = {0};
    char *length = strchr(line, ' '), *path = length ? strchr(length + 1, ' ') : NULL;
    /* the two blanks become ends of texts */
    if (path)
        *length++ = *path++ = '\0';
    if (!path || tw_parse_u64(length, INT64_MAX, &e.bytes) != 0 ||
        (length[0] == '0' && length[1]) || length[0] == '+' || !tw_path_ok(path) ||
        !tw_starts(path, "data/data/"))
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s, line %zu: expected an address, a length and a path below data/data/", p->name,
            number);
    if (!(tw_starts(line, "https://") || tw_starts(line, "http://") ||
          tw_starts(line, "file:///")) ||
        strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/"
                     "?#[]@!$&'()*+,;=%") != strlen(line))
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s, line %zu: expected an address that begins with https://, http:// or file:///",
            p->name, number);
    if (f->count && strcmp(f->item[f->count - 1].path, path) >= 0)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s, line %zu: expected each path once, in the order of their bytes",
                              p->name, number);
    if (f->count == p->room) {
        size_t room = p->room ? 2 * p->room : 64;
        struct tw_fetch_entry *grown = tw_reallocarray(f->item, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "for a package");
        f->item = grown;
        p->room = room;
    }
    /* counted before it is known whether both are there: tw_fetch_free frees what is */
    e.url = tw_strdup(line);
    e.path = tw_strdup(path);
    f->item[f->count++] = e;
    return e.url && e.path ? 0 : tw_no_memory(err, "for a package");
}

int tw_fetch_parse(const char *text, size_t n, const char *name, struct tw_fetch *out,
                   struct twin_error *err)
{
    struct parse p = {.out = out, .name = name};
    *out = (struct tw_fetch){0};
    int rc = each_line(text, n, name, take_fetch, &p, err);
    if (rc)
        tw_fetch_free(out);
    return rc;
}

void tw_fetch_free(struct tw_fetch *f)
{
    for (size_t i = 0; i < f->count; i++) {
        tw_free(f->item[i].url);
        tw_free(f->item[i].path);
    }
    tw_free(f->item);
    *f = (struct tw_fetch){0};
}

/* ---- bag-info.txt */

/* What bag-info.txt says about the payload. */
struct oxum {
    uint64_t bytes, files;
    bool found;
    const char *name;
};

/* Lines of other labels are skipped; a second Payload-Oxum is refused. */
static int take_info(void *user, char *line, size_t number, struct twin_error *err)
{
    struct oxum *o = user;
    static const char label[] = "Payload-Oxum: ";
    if (!tw_starts(line, label))
        return strstr(line, ": ")
                   ? 0
                   : twin_error_set(err, TWIN_EFORMAT, "%s, line %zu: expected LABEL: VALUE",
                                    o->name, number);
    char *value = line + sizeof label - 1, *dot = strchr(value, '.');
    /* BYTES and FILES become two texts */
    if (dot)
        *dot++ = '\0';
    if (o->found || !dot || tw_parse_u64(value, INT64_MAX, &o->bytes) != 0 ||
        tw_parse_u64(dot, TW_BAG_ENTRIES, &o->files) != 0)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s, line %zu: expected one Payload-Oxum: BYTES.FILES", o->name,
                              number);
    o->found = true;
    return 0;
}

/* A file without a Payload-Oxum is refused: nobody could say how large the payload ought to be. */
int tw_bag_info_parse(const char *text, size_t n, const char *name, uint64_t *bytes,
                      uint64_t *files, struct twin_error *err)
{
    struct oxum o = {.name = name};
    int rc = each_line(text, n, name, take_info, &o, err);
    if (rc == 0 && !o.found)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected a line Payload-Oxum: BYTES.FILES, found none", name);
    *bytes = o.bytes;
    *files = o.files;
    return rc;
}

/* ---- files */

/* Reads in chunks of 1 MiB. The cap is checked before a chunk is hashed or copied. */
int tw_bag_sha256(int fd, uint64_t cap, struct tw_bag_copy *copy, char hex[65], uint64_t *bytes,
                  struct twin_error *err)
{
    enum { ROOM = 1 << 20 };
    unsigned char digest[32];
    char *chunk = tw_malloc(ROOM);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int rc = chunk && ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1
                 ? 0
                 : tw_no_memory(err, "for a package");
    *bytes = 0;
    hex[0] = '\0';
    while (rc == 0) {
        ssize_t n = read(fd, chunk, ROOM);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = twin_error_system(err, "cannot read");
        if (n <= 0)
            break;
        *bytes += (uint64_t)n;
        if (*bytes > cap)
            rc = twin_error_set(err, TWIN_ELIMIT, "more bytes than were recorded");
        else if (EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
            rc = tw_no_memory(err, "for a package");
        else if (copy && tw_write_all(copy->to, chunk, (size_t)n) != 0) {
            copy->failed = true;
            rc = twin_error_system(err, "cannot write a copy");
        }
    }
    if (rc == 0 && EVP_DigestFinal_ex(ctx, digest, NULL) != 1)
        rc = tw_no_memory(err, "for a package");
    if (rc == 0)
        tw_hex(digest, sizeof digest, hex);
    EVP_MD_CTX_free(ctx);
    tw_free(chunk);
    return rc;
}

int tw_bag_hash(const void *data, size_t n, char hex[65], struct twin_error *err)
{
    return tw_sha256_of(data, n, hex) ? 0 : tw_no_memory(err, "for a package");
}

/* A file that shrinks while it is read gives fewer bytes; *n says how many. */
int tw_bag_read(int root, const char *path, size_t cap, char **text, size_t *n,
                struct twin_error *err)
{
    struct stat st;
    int fd = tw_open_below(root, path, O_RDONLY), rc = 0;
    *text = NULL;
    *n = 0;
    if (fd < 0 || fstat(fd, &st) != 0)
        rc = errno == ELOOP
                 ? twin_error_set(err, TWIN_EFORMAT, "%s: expected a file, found a link", path)
                 : twin_error_system(err, "cannot read %s", path);
    else if (!S_ISREG(st.st_mode))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected a regular file", path);
    else if ((uint64_t)st.st_size > cap)
        rc = twin_error_set(err, TWIN_ELIMIT, "%s: larger than the %zu bytes allowed for it", path,
                            cap);
    else if (!(*text = tw_malloc((size_t)st.st_size + 1)))
        rc = tw_no_memory(err, "for a package");
    if (rc == 0) {
        ssize_t got = tw_pread_all(fd, *text, (size_t)st.st_size, 0);
        if (got < 0)
            rc = twin_error_system(err, "cannot read %s", path);
        else
            (*text)[ *n = (size_t)got] = '\0';
    }
    if (fd >= 0)
        close(fd);
    if (rc) {
        tw_free(*text);
        *text = NULL;
    }
    return rc;
}
