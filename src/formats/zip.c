/* SPDX-License-Identifier: Apache-2.0 */
/* The central directory of a zip file (APPNOTE 6.3.10), as NumPy and PyTorch write them:
 * tw_zip_open() gives the list of its files with their places, for tensors.c, torch.c and npy.c.
 * Names are only compared: nothing is unpacked to the disk.
 *
 * A zip file is read from its end: the end record says where the directory is, its rows say where
 * each file's own header is, and behind that stand the bytes. All of these are foreign numbers, so
 * each is checked against the file before it is used. Entries that overlap, or whose local header
 * says another name, are refused: two readers of such a file would see different things. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the fixed parts of the records, and of the longest comment at the end of a file. */
enum { END = 22, END64 = 56, LOCATOR = 20, CENTRAL = 46, LOCAL = 30, MAX_COMMENT = 65535 };
#define MAX_RATIO 1032 /* deflate cannot do better */

/* Where the central directory is and how many files it lists. end: where its end record begins. */
struct directory {
    uint64_t at, bytes, count, end;
};

/* An error with the offset at which something is wrong. */
static int damaged(const struct tw_source *s, struct twin_error *err, const char *what, uint64_t at)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: damaged zip file: %s (offset %llu)", s->name,
                          what, (unsigned long long)at);
}

/* The directory from the zip64 records, which stand before the end record at `end`. The fields of
 * the 32-bit record are then only marks. */
static int read_end64(const struct tw_source *s, uint64_t end, struct directory *d,
                      struct twin_error *err)
{
    unsigned char locator[LOCATOR], b[END64];
    if (end < LOCATOR)
        return damaged(s, err, "no room for the zip64 locator", end);
    int rc = tw_source_read(s, end - LOCATOR, locator, LOCATOR, err);
    if (rc != 0)
        return rc;
    if (memcmp(locator, "PK\6\7", 4) != 0)
        return damaged(s, err, "expected the zip64 locator", end - LOCATOR);
    uint64_t at = tw_le64(locator + 8);
    if (at > end - LOCATOR || end - LOCATOR - at < END64)
        return damaged(s, err, "the zip64 end record lies outside", at);
    rc = tw_source_read(s, at, b, END64, err);
    if (rc != 0)
        return rc;
    if (memcmp(b, "PK\6\6", 4) != 0)
        return damaged(s, err, "expected the zip64 end record", at);
    *d = (struct directory){
        .count = tw_le64(b + 32), .bytes = tw_le64(b + 40), .at = tw_le64(b + 48), .end = at};
    return 0;
}

/* What stands between the directory and its end record? There may be a zip64 end record, which
 * PyTorch writes in any case, and nothing else: zip files may stand behind one another
 * (torch.distributed.checkpoint), and this directory then speaks of another one. */
static int check_end(const struct tw_source *s, const struct directory *d, struct twin_error *err)
{
    unsigned char b[END64];
    uint64_t at = d->at + d->bytes, left = d->end - at;
    if (left == 0)
        return 0;
    int rc = left < END64 + LOCATOR ? 0 : tw_source_read(s, at, b, END64, err);
    if (rc != 0)
        return rc;
    bool ours = left >= END64 + LOCATOR && memcmp(b, "PK\6\6", 4) == 0 && tw_le64(b + 48) == d->at;
    if (!ours || tw_le64(b + 4) != left - 12 - LOCATOR) /* its length, without these 12 bytes */
        return damaged(s, err, "the file holds more than the central directory says", at);
    return 0;
}

/* Finds the end record, from the end of the file backwards: its comment must reach exactly to the
 * end. Then checks the directory's place and size. */
static int find_end(const struct tw_source *s, struct directory *d, struct twin_error *err)
{
    size_t n = s->size < END + MAX_COMMENT ? (size_t)s->size : END + MAX_COMMENT, i;
    uint64_t start = s->size - n;
    unsigned char *tail = tw_malloc(n + 1);
    if (!tail)
        return tw_no_memory(err, "reading %s", s->name);
    int rc = tw_source_read(s, start, tail, n, err);
    /* i - 1 is the place that is looked at, so 0 means that none was found. */
    for (i = n < END ? 0 : n - END + 1; rc == 0 && i > 0; i--)
        if (memcmp(tail + i - 1, "PK\5\6", 4) == 0 &&
            tw_le16(tail + i - 1 + 20) == n - (i - 1) - END)
            break;
    if (rc == 0 && i == 0)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: a zip file without its end record: cut off?",
                            s->name);
    if (rc == 0) {
        const unsigned char *b = tail + i - 1;
        uint64_t end = start + i - 1;
        /* Fields that are all ones stand in the zip64 record. */
        if (tw_le16(b + 10) == 0xFFFF || tw_le32(b + 12) == UINT32_MAX ||
            tw_le32(b + 16) == UINT32_MAX)
            rc = read_end64(s, end, d, err);
        else if (tw_le16(b + 4) != 0 || tw_le16(b + 8) != tw_le16(b + 10))
            rc = damaged(s, err, "it is spread over several disks", end);
        else
            *d = (struct directory){.count = tw_le16(b + 10),
                                    .bytes = tw_le32(b + 12),
                                    .at = tw_le32(b + 16),
                                    .end = end};
    }
    tw_free(tail);
    if (rc == 0 && (d->at > d->end || d->bytes > d->end - d->at))
        rc = damaged(s, err, "the central directory lies outside", d->at);
    if (rc == 0)
        rc = check_end(s, d, err);
    if (rc == 0 && (d->count > TW_MAX_TENSORS || d->bytes > TW_MAX_LIST))
        rc = twin_error_set(err, TWIN_ELIMIT, "%s: %llu files in a zip file; at most %d are read",
                            s->name, (unsigned long long)d->count, TW_MAX_TENSORS);
    if (rc == 0 && d->count > d->bytes / CENTRAL)
        rc = damaged(s, err, "its directory is too short for its files", d->at);
    return rc;
}

/* Replaces those of the three values that are all ones by the ones in extra field 1, where they
 * stand in this order: bytes, packed bytes, place of the header. False: they are missing or cut
 * off. */
static bool read_zip64(const unsigned char *extra, size_t n, uint64_t *value[3])
{
    while (n >= 4) {
        size_t id = tw_le16(extra), size = tw_le16(extra + 2);
        extra += 4;
        n -= 4;
        if (size > n)
            return false;
        if (id == 1) {
            for (int i = 0; i < 3; i++)
                if (*value[i] == UINT32_MAX) {
                    if (size < 8)
                        return false;
                    *value[i] = tw_le64(extra);
                    extra += 8;
                    size -= 8;
                }
            return true;
        }
        extra += size;
        n -= size;
    }
    return *value[0] != UINT32_MAX && *value[1] != UINT32_MAX && *value[2] != UINT32_MAX;
}

/* One row of the directory, into *e; *used: its bytes. The name goes to *names, which moves on. */
static int read_row(const struct tw_source *s, const unsigned char *b, size_t left,
                    struct tw_zip_entry *e, char **names, size_t *used, struct twin_error *err)
{
    if (left < CENTRAL || memcmp(b, "PK\1\2", 4) != 0)
        return damaged(s, err, "expected a row of the directory", left);
    /* Three parts of any length follow the fixed one. */
    size_t name = tw_le16(b + 28);
    size_t extra = tw_le16(b + 30);
    size_t comment = tw_le16(b + 32);
    size_t all = CENTRAL + name + extra + comment;
    unsigned flags = tw_le16(b + 8), method = tw_le16(b + 10);
    if (all > left || memchr(b + CENTRAL, 0, name))
        return damaged(s, err, "a row of the directory makes no sense", left);
    e->piece = (struct tw_piece){.packed = tw_le32(b + 20),
                                 .bytes = tw_le32(b + 24),
                                 .crc = tw_le32(b + 16),
                                 .checked = true};
    e->header = tw_le32(b + 42);
    uint64_t *value[3] = {&e->piece.bytes, &e->piece.packed, &e->header};
    if (!read_zip64(b + CENTRAL + name, extra, value))
        return damaged(s, err, "large sizes are missing", left);
    /* The names of all rows stand behind each other in one piece of memory. */
    memcpy(*names, b + CENTRAL, name);
    (*names)[name] = '\0';
    e->name = *names;
    *names += name + 1;
    e->piece.deflated = method == 8;
    /* What cannot be unpacked is listed with the reason: it may be a file that nobody needs. */
    if (flags & 1)
        e->unreadable = "it is encrypted";
    else if (method != 0 && method != 8)
        e->unreadable = "it is compressed by another method than deflate";
    else if (method == 8 && !tw_can_inflate())
        e->unreadable = "it is compressed, and this twinrun was built without zlib";
    if (method == 0 && e->piece.packed != e->piece.bytes)
        return damaged(s, err, "a file that is not compressed has two sizes", e->header);
    /* A bomb, or a wrong size: refused before anything is allocated for it. */
    if (method == 8 && e->piece.bytes / MAX_RATIO > e->piece.packed)
        return damaged(s, err, "a file claims to be smaller than deflate can make it", e->header);
    *used = all;
    return 0;
}

/* The local header of a file: it must say the same name. e->piece.at is set, where its bytes begin.
 */
static int read_local(const struct tw_source *s, struct tw_zip_entry *e, uint64_t end,
                      struct twin_error *err)
{
    unsigned char b[LOCAL + 65535];
    size_t name = strlen(e->name);
    if (e->header > end || end - e->header < LOCAL + name)
        return damaged(s, err, "a file lies outside", e->header);
    int rc = tw_source_read(s, e->header, b, LOCAL + name, err);
    if (rc != 0)
        return rc;
    if (memcmp(b, "PK\3\4", 4) != 0 || tw_le16(b + 26) != name ||
        memcmp(b + LOCAL, e->name, name) != 0)
        return damaged(s, err, "a file's header says another name than the directory", e->header);
    e->piece.at = e->header + LOCAL + name + tw_le16(b + 28);
    if (e->piece.at > end || e->piece.packed > end - e->piece.at)
        return damaged(s, err, "a file lies outside", e->header);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct tw_zip_entry *x = a, *y = b;
    return (x->header > y->header) - (x->header < y->header);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tw_zip_entry *)a)->name, ((const struct tw_zip_entry *)b)->name);
}

/* The first file begins the archive, files do not overlap, names are unique. Leaves the entries
 * sorted by name. */
static int check_places(const struct tw_source *s, struct tw_zip *z, struct twin_error *err)
{
    if (z->count)
        qsort(z->entry, z->count, sizeof *z->entry, by_place);
    /* Another archive before this one would be read by some readers and not by others. */
    if (z->count && z->entry[0].header != 0)
        return damaged(s, err, "something stands before its first file", z->entry[0].header);
    for (size_t i = 1; i < z->count; i++)
        if (z->entry[i - 1].piece.at + z->entry[i - 1].piece.packed > z->entry[i].header)
            return damaged(s, err, "two files overlap", z->entry[i].header);
    if (z->count)
        qsort(z->entry, z->count, sizeof *z->entry, by_name);
    for (size_t i = 1; i < z->count; i++)
        if (strcmp(z->entry[i - 1].name, z->entry[i].name) == 0)
            return damaged(s, err, "two files have the same name", z->entry[i].header);
    return 0;
}

/* Reads the whole directory; z is the caller's to free after 0 only. */
int tw_zip_open(const struct tw_source *s, struct tw_zip *z, struct twin_error *err)
{
    struct directory d = {0};
    unsigned char *rows = NULL;
    int rc = find_end(s, &d, err);
    *z = (struct tw_zip){0};
    if (rc != 0)
        return rc;
    rows = tw_malloc(d.bytes + 1);
    z->entry = tw_calloc(d.count + 1, sizeof *z->entry);
    z->names = tw_malloc(d.bytes + 1); /* a row is longer than its name with a NUL */
    if (!rows || !z->entry || !z->names)
        rc = tw_no_memory(err, "for the %llu files in %s", (unsigned long long)d.count, s->name);
    if (rc == 0)
        rc = tw_source_read(s, d.at, rows, d.bytes, err);
    char *names = z->names;
    size_t at = 0, used = 0;
    for (uint64_t i = 0; rc == 0 && i < d.count; i++, at += used) {
        rc = read_row(s, rows + at, d.bytes - at, &z->entry[i], &names, &used, err);
        if (rc == 0)
            rc = read_local(s, &z->entry[i], d.at, err);
        z->count++;
    }
    if (rc == 0)
        rc = check_places(s, z, err);
    tw_free(rows);
    if (rc != 0)
        tw_zip_free(z);
    return rc;
}

void tw_zip_free(struct tw_zip *z)
{
    tw_free(z->entry);
    tw_free(z->names);
    *z = (struct tw_zip){0};
}

const struct tw_zip_entry *tw_zip_find(const struct tw_zip *z, const char *name)
{
    const struct tw_zip_entry key = {.name = name};
    return z->count ? bsearch(&key, z->entry, z->count, sizeof key, by_name) : NULL;
}
