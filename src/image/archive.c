/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libarchive twice: one reader takes the compression off a layer, another one reads the entries of
 * what that gives. Between the two each byte is digested, since an image's configuration names a
 * layer by what it is decompressed to.
 *
 * The library is loaded when the first layer is read: few people ever need it, and it brings a
 * dozen others along. Its functions are declared here by their documented types
 * (archive_read(3), archive_entry(3)); their binary interface is that of libarchive.so.13.
 */
#include "archive.h"

#include "base.h"
#include "sha256.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct archive;
struct archive_entry;

enum { ARCHIVE_EOF = 1, ARCHIVE_OK = 0, ARCHIVE_WARN = -20, CHUNK = 1 << 17 };

typedef ssize_t archive_read_callback(struct archive *a, void *user, const void **data);

static struct {
    void *library;
    struct archive *(*read_new)(void);
    int (*read_free)(struct archive *);
    int (*format_raw)(struct archive *);
    int (*format_empty)(struct archive *);
    int (*format_tar)(struct archive *);
    int (*filter_gzip)(struct archive *);
    int (*filter_zstd)(struct archive *);
    int (*open_fd)(struct archive *, int, size_t);
    int (*open_callback)(struct archive *, void *, void *, archive_read_callback *, void *);
    int (*next_header)(struct archive *, struct archive_entry **);
    ssize_t (*read_data)(struct archive *, void *, size_t);
    int (*read_block)(struct archive *, const void **, size_t *, int64_t *);
    const char *(*error_string)(struct archive *);
    const char *(*pathname)(struct archive_entry *);
    const char *(*pathname_utf8)(struct archive_entry *);
    const char *(*symlink)(struct archive_entry *);
    const char *(*symlink_utf8)(struct archive_entry *);
    const char *(*hardlink)(struct archive_entry *);
    const char *(*hardlink_utf8)(struct archive_entry *);
    int64_t (*size)(struct archive_entry *);
    mode_t (*mode)(struct archive_entry *);
    mode_t (*filetype)(struct archive_entry *);
    time_t (*mtime)(struct archive_entry *);
    long (*mtime_nsec)(struct archive_entry *);
} lib;

static const struct {
    void **to;
    const char *name;
} functions[] = {
    {(void **)&lib.read_new, "archive_read_new"},
    {(void **)&lib.read_free, "archive_read_free"},
    {(void **)&lib.format_raw, "archive_read_support_format_raw"},
    {(void **)&lib.format_empty, "archive_read_support_format_empty"},
    {(void **)&lib.format_tar, "archive_read_support_format_tar"},
    {(void **)&lib.filter_gzip, "archive_read_support_filter_gzip"},
    {(void **)&lib.filter_zstd, "archive_read_support_filter_zstd"},
    {(void **)&lib.open_fd, "archive_read_open_fd"},
    {(void **)&lib.open_callback, "archive_read_open"},
    {(void **)&lib.next_header, "archive_read_next_header"},
    {(void **)&lib.read_data, "archive_read_data"},
    {(void **)&lib.read_block, "archive_read_data_block"},
    {(void **)&lib.error_string, "archive_error_string"},
    {(void **)&lib.pathname, "archive_entry_pathname"},
    {(void **)&lib.pathname_utf8, "archive_entry_pathname_utf8"},
    {(void **)&lib.symlink, "archive_entry_symlink"},
    {(void **)&lib.symlink_utf8, "archive_entry_symlink_utf8"},
    {(void **)&lib.hardlink, "archive_entry_hardlink"},
    {(void **)&lib.hardlink_utf8, "archive_entry_hardlink_utf8"},
    {(void **)&lib.size, "archive_entry_size"},
    {(void **)&lib.mode, "archive_entry_mode"},
    {(void **)&lib.filetype, "archive_entry_filetype"},
    {(void **)&lib.mtime, "archive_entry_mtime"},
    {(void **)&lib.mtime_nsec, "archive_entry_mtime_nsec"},
};

static void load_library(void)
{
    void *library = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof functions / sizeof *functions; i++)
        if (!(*functions[i].to = dlsym(library, functions[i].name))) {
            dlclose(library);
            return;
        }
    lib.library = library;
}

struct tw_layer {
    struct archive *packed, *entries;
    struct archive_entry *entry;
    const char *name;
    struct tw_sha256 sum;
    uint64_t bytes;
    char *chunk;
};

static int complain(struct tw_layer *l, struct archive *a, struct twin_error *err)
{
    const char *why = a ? lib.error_string(a) : NULL;
    char *shown = why ? tw_printable(why, strlen(why)) : NULL;
    int rc = twin_error_set(err, TWIN_EFORMAT,
                            "the layer %s cannot be read as a tar archive (plain, gzip, zstd): %s",
                            l->name, shown ? shown : "it ends early");
    tw_free(shown);
    return rc;
}

/* What the second reader asks for: the next bytes of the first, which pass the digest here. */
static ssize_t take_unpacked(struct archive *a, void *user, const void **data)
{
    (void)a;
    struct tw_layer *l = user;
    ssize_t n = lib.read_data(l->packed, l->chunk, CHUNK);
    if (n > 0) {
        tw_sha256_add(&l->sum, l->chunk, (size_t)n);
        l->bytes += (uint64_t)n;
    }
    *data = l->chunk;
    return n;
}

int tw_layer_open(int fd, const char *name, struct tw_layer **out, struct twin_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_library);
    *out = NULL;
    if (!lib.library)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "libarchive.so.13 is not here, and the layers of an image are read "
                              "by it: install libarchive13 (Debian), or name another engine with "
                              "--container");
    struct tw_layer *l = tw_calloc(1, sizeof *l);
    if (!l)
        return tw_no_memory(err, "reading a layer");
    l->name = name;
    l->chunk = tw_malloc(CHUNK);
    l->packed = lib.read_new();
    l->entries = lib.read_new();
    int rc = l->chunk && l->packed && l->entries && tw_sha256_begin(&l->sum)
                 ? 0
                 : tw_no_memory(err, "reading a layer");
    /* ARCHIVE_WARN: the library would start a program for it */
    if (rc == 0 &&
        (lib.format_raw(l->packed) != ARCHIVE_OK || lib.format_empty(l->packed) != ARCHIVE_OK ||
         lib.filter_gzip(l->packed) != ARCHIVE_OK || lib.filter_zstd(l->packed) != ARCHIVE_OK ||
         lib.format_tar(l->entries) != ARCHIVE_OK))
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "the libarchive here was built without gzip or zstd");
    struct archive_entry *whole;
    if (rc == 0 && (lib.open_fd(l->packed, fd, CHUNK) != ARCHIVE_OK ||
                    lib.next_header(l->packed, &whole) != ARCHIVE_OK))
        rc = complain(l, l->packed, err);
    if (rc == 0 && lib.open_callback(l->entries, l, NULL, take_unpacked, NULL) != ARCHIVE_OK)
        rc = complain(l, l->entries, err);
    if (rc) {
        tw_layer_close(l);
        return rc;
    }
    *out = l;
    return 0;
}

/* A text of an entry. Where this process' locale cannot hold a name, the archive's own UTF-8. */
static const char *text_of(struct archive_entry *e, const char *(*plain)(struct archive_entry *),
                           const char *(*utf8)(struct archive_entry *))
{
    const char *s = plain(e);
    return s ? s : utf8(e);
}

static enum tw_entry_kind kind_of(struct archive_entry *e)
{
    switch (lib.filetype(e)) {
    case S_IFDIR: return TW_ENTRY_FOLDER;
    case S_IFLNK: return TW_ENTRY_LINK;
    case S_IFREG: return TW_ENTRY_FILE;
    case S_IFIFO:
    case S_IFSOCK: return TW_ENTRY_PIPE;
    default: return TW_ENTRY_DEVICE;
    }
}

int tw_layer_next(struct tw_layer *l, struct tw_entry *out, struct twin_error *err)
{
    int rc = lib.next_header(l->entries, &l->entry);
    if (rc == ARCHIVE_EOF)
        return 0;
    /* a warning is about a name that this locale cannot hold */
    if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
        return complain(l, l->entries, err);
    const char *hard = text_of(l->entry, lib.hardlink, lib.hardlink_utf8);
    *out = (struct tw_entry){
        .kind = hard ? TW_ENTRY_HARD_LINK : kind_of(l->entry),
        .path = text_of(l->entry, lib.pathname, lib.pathname_utf8),
        .target = hard ? hard : text_of(l->entry, lib.symlink, lib.symlink_utf8),
        .mode = lib.mode(l->entry) & 07777,
        .changed = {.tv_sec = lib.mtime(l->entry), .tv_nsec = lib.mtime_nsec(l->entry)},
    };
    const int64_t bytes = lib.size(l->entry);
    if (!out->path || bytes < 0)
        return twin_error_set(err, TWIN_EFORMAT, "the layer %s has an entry without a %s", l->name,
                              out->path ? "size" : "name");
    out->bytes = out->kind == TW_ENTRY_FILE ? (uint64_t)bytes : 0;
    return 1;
}

int tw_layer_data(struct tw_layer *l, const void **data, size_t *n, uint64_t *offset,
                  struct twin_error *err)
{
    int64_t at = 0;
    int rc = lib.read_block(l->entries, data, n, &at);
    *offset = (uint64_t)at;
    if (rc == ARCHIVE_EOF) {
        *n = 0;
        return 0;
    }
    return rc == ARCHIVE_OK && at >= 0 ? 0 : complain(l, l->entries, err);
}

uint64_t tw_layer_bytes(const struct tw_layer *l)
{
    return l->bytes;
}

int tw_layer_digest(struct tw_layer *l, uint64_t most, char hex[65], struct twin_error *err)
{
    unsigned char raw[32];
    const void *data;
    ssize_t n;
    /* writers fill an archive up with zeros behind its end */
    while ((n = take_unpacked(NULL, l, &data)) > 0)
        if (l->bytes > most)
            return twin_error_set(err, TWIN_ELIMIT, "the layer %s becomes larger than %llu bytes",
                                  l->name, (unsigned long long)most);
    if (n < 0)
        return complain(l, l->packed, err);
    if (!tw_sha256_end(&l->sum, raw))
        return tw_no_memory(err, "reading a layer");
    tw_hex(raw, sizeof raw, hex);
    return 0;
}

void tw_layer_close(struct tw_layer *l)
{
    if (!l)
        return;
    if (l->entries)
        lib.read_free(l->entries);
    if (l->packed)
        lib.read_free(l->packed);
    tw_sha256_free(&l->sum);
    tw_free(l->chunk);
    tw_free(l);
}
