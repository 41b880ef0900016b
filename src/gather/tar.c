/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive is a sequence of blocks of 512 bytes: a header, then the contents of that file, filled
 * up with zeros; two blocks of zeros are its end. A pax or GNU header stands before the header
 * whose path or size it replaces.
 */
#include "tar.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BLOCK = 512,
    CHUNK = 1 << 16,
    /* bytes of a pax header, or of a GNU name */
    EXTRA_MAX = 1 << 20,
    PATH_ROOM = 4096
};

/* The fields of a header that are looked at. */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6],
        version[2], owner[32], group[32], device[16], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "as POSIX has it");

struct archive {
    int fd, root;
    const char *name;
    const struct tw_front *front;
    struct twin_error *err;
    uint64_t entries;
    /* of a header before: they replace what the next one says; path "" and size UINT64_MAX: not */
    char path[PATH_ROOM];
    uint64_t size;
    char *chunk; /* CHUNK bytes */
};

static int refuse(struct archive *a, const char *path, const char *why)
{
    char *shown = tw_printable(path, strlen(path));
    int rc = twin_error_set(a->err, TWIN_EFORMAT, "%s: refused: %s (%s)", a->name, why,
                            shown ? shown : "");
    tw_free(shown);
    return rc;
}

/* Reads all n bytes. TWIN_EFORMAT: the archive ends before. */
static int take(struct archive *a, void *data, size_t n)
{
    for (size_t have = 0; have < n;) {
        ssize_t got = read(a->fd, (char *)data + have, n - have);
        if (got < 0 && errno == EINTR) {
            if (tw_front_stops(a->front))
                return twin_error_set(a->err, TWIN_EINTR, "interrupted");
            continue;
        }
        if (got < 0)
            return twin_error_system(a->err, "%s: cannot be read", a->name);
        if (got == 0 && a->entries == 0)
            return twin_error_set(a->err, TWIN_EFORMAT,
                                  "%s: no tar archive: it ends within its first header", a->name);
        if (got == 0)
            return twin_error_set(a->err, TWIN_EFORMAT,
                                  "%s: cut short: expected more after %llu entries", a->name,
                                  (unsigned long long)a->entries);
        have += (size_t)got;
    }
    return 0;
}

/* A number in octal digits, or in GNU's base 256. False: it is none, or too large. */
static bool number(const char *field, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    if ((unsigned char)field[0] == 0x80) {
        for (size_t i = 1; i < n; i++) {
            if (v >> 54)
                return false;
            v = v << 8 | (unsigned char)field[i];
        }
        *out = v;
        return true;
    }
    size_t i = 0;
    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(field[i] - '0');
    *out = v;
    return i == n || field[i] == ' ' || field[i] == '\0';
}

static bool sum_is_right(const struct header *h)
{
    const unsigned char *byte = (const unsigned char *)h;
    const size_t at = offsetof(struct header, sum);
    uint64_t said, sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= at && i < at + sizeof h->sum ? ' ' : byte[i];
    return number(h->sum, sizeof h->sum, &said) && said == sum;
}

static bool is_zero(const struct header *h)
{
    static const char zeros[BLOCK];
    return memcmp(h, zeros, BLOCK) == 0;
}

/* ---- headers that stand before a header */

/* Reads `size` bytes and what fills them up; *text is malloc'ed and ends in NUL. */
static int take_extra(struct archive *a, uint64_t size, char **text)
{
    if (size > EXTRA_MAX)
        return twin_error_set(a->err, TWIN_ELIMIT,
                              "%s: a header of %llu bytes: expected at most %d", a->name,
                              (unsigned long long)size, EXTRA_MAX);
    const size_t whole = ((size_t)size + BLOCK - 1) / BLOCK * BLOCK;
    *text = tw_calloc(1, whole + 1);
    if (!*text)
        return tw_no_memory(a->err, "reading %s", a->name);
    int rc = take(a, *text, whole);
    (*text)[size] = '\0';
    return rc;
}

static int set_path(struct archive *a, const char *path, size_t n)
{
    if (n >= sizeof a->path || strlen(path) < n)
        return refuse(a, path, "a path that is too long, or holds a NUL");
    memcpy(a->path, path, n);
    a->path[n] = '\0';
    return 0;
}

/* One "KEY=VALUE" of a pax header. */
static int take_pax(struct archive *a, char *record, size_t n)
{
    char *sign = memchr(record, '=', n);
    if (!sign)
        return refuse(a, record, "a pax header without \"=\"");
    const size_t key = (size_t)(sign - record), value = n - key - 1;
    if (key == 4 && memcmp(record, "path", 4) == 0)
        return set_path(a, sign + 1, value);
    if (key == 4 && memcmp(record, "size", 4) == 0) {
        sign[1 + value] = '\0';
        return tw_parse_u64(sign + 1, UINT64_MAX >> 2, &a->size) == 0
                   ? 0
                   : refuse(a, sign + 1, "a size that is no number");
    }
    if (key >= 11 && memcmp(record, "GNU.sparse.", 11) == 0)
        return refuse(a, "GNU.sparse", "a sparse file");
    return 0;
}

/* "LENGTH KEY=VALUE\n", one after the other. `global`: of all files, so no path and no size. */
static int read_pax(struct archive *a, uint64_t size, bool global)
{
    char *text = NULL;
    int rc = take_extra(a, size, &text);
    for (size_t at = 0; rc == 0 && !global && at < size;) {
        size_t digits = strspn(text + at, "0123456789");
        uint64_t length = 0;
        for (size_t i = 0; i < digits && length <= size; i++)
            length = length * 10 + (uint64_t)(text[at + i] - '0');
        if (digits == 0 || text[at + digits] != ' ' || length > size - at || length < digits + 2 ||
            text[at + length - 1] != '\n') {
            rc = refuse(a, "", "a pax header that is none");
            break;
        }
        rc = take_pax(a, text + at + digits + 1, (size_t)length - digits - 2);
        at += length;
    }
    tw_free(text);
    return rc;
}

static int read_long_name(struct archive *a, uint64_t size)
{
    char *text = NULL;
    int rc = take_extra(a, size, &text);
    if (rc == 0)
        rc = set_path(a, text, strlen(text));
    tw_free(text);
    return rc;
}

/* ---- entries */

/* The path of the entry without "./" before and "/" behind it, checked. "" stands for the root. */
static int path_of(struct archive *a, const struct header *h, char out[PATH_ROOM])
{
    if (a->path[0])
        memcpy(out, a->path, sizeof a->path);
    else if (memcmp(h->magic, "ustar\0", 6) == 0 && h->prefix[0]) /* GNU has other fields there */
        snprintf(out, PATH_ROOM, "%.155s/%.100s", h->prefix, h->name);
    else
        snprintf(out, PATH_ROOM, "%.100s", h->name);
    size_t skip = 0, n;
    while (out[skip] == '.' && out[skip + 1] == '/')
        skip += 1 + strspn(out + skip + 1, "/");
    memmove(out, out + skip, strlen(out + skip) + 1);
    n = strlen(out);
    while (n > 0 && out[n - 1] == '/' && n > 1)
        out[--n] = '\0';
    if (strcmp(out, ".") == 0)
        out[n = 0] = '\0';
    if (n == 0)
        return 0;
    const char *fault = tw_path_fault(out, n, TW_PATH_ANY_NAME | TW_PATH_GIT);
    size_t depth = 0;
    for (const char *p = out; *p; p++)
        depth += *p == '/';
    if (!fault && depth >= TW_TAR_DEPTH)
        fault = "folders too deep inside of each other";
    return fault ? refuse(a, out, fault) : 0;
}

/* Opens a new file below root, in a folder that is made when it is missing. */
static int new_file(struct archive *a, char *path, int *fd)
{
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (slash)
        *slash = '\0';
    int folder = tw_folder_below(a->root, slash ? path : "");
    if (slash)
        *slash = '/';
    *fd = -1;
    if (folder >= 0)
        *fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    const int error = errno;
    if (folder >= 0)
        close(folder);
    errno = error;
    if (*fd < 0 && errno == EEXIST)
        return refuse(a, path, "it comes twice");
    if (*fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return refuse(a, path, "it lies below a file");
    return *fd < 0 ? twin_error_system(a->err, "cannot make %s of %s", path, a->name) : 0;
}

static int read_file(struct archive *a, char *path, uint64_t size)
{
    int fd, rc = new_file(a, path, &fd);
    if (rc != 0)
        return rc;
    for (uint64_t left = size; rc == 0 && left > 0;) {
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        size_t whole = (n + BLOCK - 1) / BLOCK * BLOCK;
        rc = take(a, a->chunk, whole);
        if (rc == 0 && tw_write_all(fd, a->chunk, n) != 0)
            rc = twin_error_system(a->err, "cannot write %s of %s", path, a->name);
        if (rc == 0 && tw_front_stops(a->front))
            rc = twin_error_set(a->err, TWIN_EINTR, "interrupted");
        left -= n;
    }
    if (close(fd) != 0 && rc == 0)
        rc = twin_error_system(a->err, "cannot write %s of %s", path, a->name);
    return rc;
}

static int read_folder(struct archive *a, const char *path)
{
    int fd = tw_folder_below(a->root, path);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return refuse(a, path, "it comes twice, as a file and as a folder");
    if (fd < 0)
        return twin_error_system(a->err, "cannot make %s of %s", path, a->name);
    close(fd);
    return 0;
}

static const char *kind_of(char type)
{
    switch (type) {
    case '1': return "a hard link";
    case '2':
    case 'K': return "a link";
    case '3':
    case '4': return "a device";
    case '6': return "a pipe";
    case 'S': return "a sparse file";
    default: return "an entry of a kind that is not known";
    }
}

/* A header that is no end, and what belongs to it. */
static int read_entry(struct archive *a, const struct header *h)
{
    char path[PATH_ROOM];
    uint64_t size;
    if (!number(h->size, sizeof h->size, &size))
        return refuse(a, "", "a size that is no number");
    if (++a->entries > TW_TAR_ENTRIES)
        return twin_error_set(a->err, TWIN_ELIMIT, "%s: expected at most %d entries", a->name,
                              TW_TAR_ENTRIES);
    if (h->type == 'x' || h->type == 'g')
        return read_pax(a, size, h->type == 'g');
    if (h->type == 'L')
        return read_long_name(a, size);
    int rc = path_of(a, h, path);
    if (rc != 0)
        return rc;
    if (a->size != UINT64_MAX)
        size = a->size;
    a->path[0] = '\0';
    a->size = UINT64_MAX;
    const size_t n = strnlen(h->name, sizeof h->name);
    const bool old_folder = h->type == '\0' && n > 0 && h->name[n - 1] == '/';
    if (h->type == '5' || old_folder)
        return size ? refuse(a, path, "a folder with contents") : read_folder(a, path);
    if (h->type != '0' && h->type != '\0' && h->type != '7')
        return refuse(a, path, kind_of(h->type));
    return path[0] ? read_file(a, path, size) : refuse(a, path, "a file without a name");
}

/* No archive of tar: what is it? */
static int no_archive(struct archive *a, const struct header *h)
{
    const unsigned char *byte = (const unsigned char *)h;
    const char *by = NULL;
    if (byte[0] == 0x1F && byte[1] == 0x8B)
        by = "gzip -d";
    else if (memcmp(byte, "\x28\xB5\x2F\xFD", 4) == 0)
        by = "zstd -d";
    else if (byte[0] == 0xFD && memcmp(byte + 1, "7zXZ", 4) == 0)
        by = "xz -d";
    if (a->entries == 0 && by)
        return twin_error_set(a->err, TWIN_EFORMAT,
                              "%s: compressed: try %s < FILE | twinrun gather -", a->name, by);
    return twin_error_set(a->err, TWIN_EFORMAT,
                          "%s: no tar archive, or damaged: the sum of header %llu is wrong",
                          a->name, (unsigned long long)a->entries + 1);
}

int tw_tar_unpack(int fd, const char *name, int root, const struct tw_front *front,
                  struct twin_error *err)
{
    struct archive a = {
        .fd = fd, .root = root, .name = name, .front = front, .err = err, .size = UINT64_MAX};
    struct header h;
    int rc = 0, zeros = 0;
    a.chunk = tw_malloc(CHUNK);
    if (!a.chunk)
        return tw_no_memory(err, "reading %s", name);
    while (rc == 0 && zeros < 2) {
        rc = take(&a, &h, sizeof h);
        if (rc != 0)
            break;
        if (is_zero(&h)) {
            zeros++;
            continue;
        }
        if (zeros)
            rc = refuse(&a, "", "something stands behind its end");
        else if (!sum_is_right(&h))
            rc = no_archive(&a, &h);
        else
            rc = read_entry(&a, &h);
    }
    if (rc == 0 && a.entries == 0)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: an archive of nothing", name);
    tw_free(a.chunk);
    return rc;
}
