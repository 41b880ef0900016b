/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a BagIt folder: files of the payload one by one, then the manifests and tag files. pack.c
 * and its neighbours put files in; tw_bag_close ends it.
 *
 * Digests are computed from the very bytes that are written; only a file that git made is read once
 * more. The folder is new, and each path is to be put once: a manifest with two lines of one path
 * is refused by verify.c.
 */
#include "bag.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Notes a file for the manifest. url: NULL for one that is in the package. TWIN_EINVAL: no package
 * can hold a path like this. */
static int add_item(struct tw_bag_writer *w, const char *path, const char *sha256, uint64_t bytes,
                    const char *url, struct twin_error *err)
{
    if (!tw_path_ok(path))
        return twin_error_set(err, TWIN_EINVAL, "%s: no package can hold a file of this name",
                              path);
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        struct tw_bag_item *grown = tw_reallocarray(w->item, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "writing a package");
        w->item = grown;
        w->room = room;
    }
    struct tw_bag_item *x = &w->item[w->count];
    *x = (struct tw_bag_item){
        .path = tw_strdup(path), .bytes = bytes, .url = url ? tw_strdup(url) : NULL};
    if (!x->path || (url && !x->url)) {
        tw_free(x->path);
        tw_free(x->url);
        return tw_no_memory(err, "writing a package");
    }
    memcpy(x->sha256, sha256, 65);
    w->count++;
    w->files++;
    w->bytes += bytes;
    return 0;
}

/* Makes the folders above the file with the usual mode. */
char *tw_bag_place(const struct tw_bag_writer *w, const char *path, struct twin_error *err)
{
    char *full = tw_path_join(w->dir, path), *slash = full ? strrchr(full, '/') : NULL;
    int rc = full ? 0 : tw_no_memory(err, "writing a package");
    if (slash) {
        *slash = '\0';
        rc = tw_mkdirs(full, err);
        *slash = '/';
    }
    if (rc == 0)
        return full;
    tw_free(full);
    return NULL;
}

/* A file from memory, written whole or not at all. */
int tw_bag_put(struct tw_bag_writer *w, const char *path, const void *data, size_t n,
               struct twin_error *err)
{
    char hex[65];
    if (!w->dir)
        return 0;
    char *full = tw_bag_place(w, path, err);
    int rc = full ? tw_bag_hash(data, n, hex, err) : TWIN_EIO;
    rc = rc ? rc : tw_write_file_atomic(full, data, n, err);
    rc = rc ? rc : add_item(w, path, hex, n, NULL, err);
    tw_free(full);
    return rc;
}

/* The file was made by another program (git), so it must be read for its digest. */
int tw_bag_adopt(struct tw_bag_writer *w, const char *path, struct twin_error *err)
{
    char hex[65];
    uint64_t bytes = 0;
    char *full = tw_path_join(w->dir, path);
    int fd = full ? open(full, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    int rc = 0;
    if (fd < 0)
        rc = twin_error_system(err, "cannot read %s", full ? full : path);
    else
        rc = tw_bag_sha256(fd, UINT64_MAX, NULL, hex, &bytes, err);
    if (fd >= 0)
        close(fd);
    rc = rc ? rc : add_item(w, path, hex, bytes, NULL, err);
    tw_free(full);
    return rc;
}

/* The file may have changed since the run, or may be no file any more: this is what the caller
 * tells the user, so it is TWIN_EFORMAT with a message that says only what is wrong. O_NONBLOCK: a
 * pipe of that name must not stop us. */
int tw_bag_copy(struct tw_bag_writer *w, const char *path, const char *from, const char *sha256,
                char out[65], struct twin_error *err)
{
    struct stat st;
    struct twin_error inner = TWIN_ERROR_INIT;
    uint64_t bytes = 0;
    char hex[65] = "";
    if (!tw_path_ok(path))
        return twin_error_set(err, TWIN_EFORMAT, "no package can hold a file of this name");
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (in < 0 || fstat(in, &st) != 0 || !S_ISREG(st.st_mode)) {
        int rc = twin_error_set(err, TWIN_EFORMAT, in < 0 ? "%s" : "no regular file",
                                strerror(errno));
        if (in >= 0)
            close(in);
        return rc;
    }
    char *full = w->dir ? tw_bag_place(w, path, err) : NULL;
    int to = full ? open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    struct tw_bag_copy copy = {.to = to};
    int rc = 0;
    if (w->dir && to < 0)
        rc = full ? twin_error_system(err, "cannot write %s", full) : TWIN_EIO;
    else
        rc = tw_bag_sha256(in, UINT64_MAX, to < 0 ? NULL : &copy, hex, &bytes, &inner);
    if (rc && inner.code)
        twin_error_set(err, inner.code, "%s: %s", from, inner.message);
    if (to >= 0 && close(to) != 0 && rc == 0)
        rc = twin_error_system(err, "cannot write %s", full);
    close(in);
    /* the digest is known only when all bytes are copied */
    if (rc == 0 && sha256 && strcmp(hex, sha256) != 0)
        rc = twin_error_set(err, TWIN_EFORMAT, "it has changed since the run");
    /* a copy that is not what was asked for is not left in the package */
    if (rc && to >= 0)
        unlink(full);
    if (rc == 0 && w->dir)
        rc = add_item(w, path, hex, bytes, NULL, err);
    if (out)
        memcpy(out, hex, 65);
    tw_free(full);
    return rc;
}

int tw_bag_list(struct tw_bag_writer *w, const char *path, const char *sha256, uint64_t bytes,
                const char *url, struct twin_error *err)
{
    return w->dir ? add_item(w, path, sha256, bytes, url, err) : 0;
}

/* ---- the end */

/* Manifests are sorted by the bytes of the paths, whatever the locale. */
static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct tw_bag_item *)a)->path, ((const struct tw_bag_item *)b)->path);
}

/* Writes a tag file and, where tags is not NULL, its line of the tag manifest. */
static int write_tag(struct tw_bag_writer *w, const char *name, const char *data, size_t n,
                     struct tw_buf *tags, struct twin_error *err)
{
    char hex[65];
    char *full = tw_path_join(w->dir, name);
    int rc = full ? tw_bag_hash(data, n, hex, err) : tw_no_memory(err, "writing a package");
    rc = rc ? rc : tw_write_file_atomic(full, data, n, err);
    if (rc == 0 && tags && tw_buf_printf(tags, "%s  %s\n", hex, name) != 0)
        rc = tw_no_memory(err, "writing a package");
    tw_free(full);
    return rc;
}

/* The payload's manifest first, then everything that the tag manifest lists, then this itself: its
 * digest holds all others, and it is the package's name. */
int tw_bag_close(struct tw_bag_writer *w, const char *info, const char *readme, char tag[65],
                 struct twin_error *err)
{
    struct tw_buf manifest = {0}, fetch = {0}, tags = {0};
    if (w->count)
        qsort(w->item, w->count, sizeof *w->item, by_path);
    tw_buf_puts(&manifest, "");
    /* a file to be fetched stands in both lists */
    for (size_t i = 0; i < w->count; i++) {
        tw_buf_printf(&manifest, "%s  %s\n", w->item[i].sha256, w->item[i].path);
        if (w->item[i].url)
            tw_buf_printf(&fetch, "%s %" PRIu64 " %s\n", w->item[i].url, w->item[i].bytes,
                          w->item[i].path);
    }
    /* in the order of their names' bytes, as manifests are */
    int rc = manifest.failed || fetch.failed
                 ? tw_no_memory(err, "writing a package")
                 : write_tag(w, "README.md", readme, strlen(readme), &tags, err);
    rc = rc ? rc : write_tag(w, "bag-info.txt", info, strlen(info), &tags, err);
    rc = rc ? rc : write_tag(w, "bagit.txt", TW_BAGIT_TXT, strlen(TW_BAGIT_TXT), &tags, err);
    if (rc == 0 && fetch.len)
        rc = write_tag(w, "fetch.txt", fetch.data, fetch.len, &tags, err);
    rc = rc ? rc : write_tag(w, "manifest-sha256.txt", manifest.data, manifest.len, &tags, err);
    rc = rc ? rc : tw_bag_hash(tags.data, tags.len, tag, err);
    rc = rc ? rc : write_tag(w, TW_BAG_TAGMANIFEST, tags.data, tags.len, NULL, err);
    tw_buf_free(&manifest);
    tw_buf_free(&fetch);
    tw_buf_free(&tags);
    return rc;
}

void tw_bag_free(struct tw_bag_writer *w)
{
    for (size_t i = 0; i < w->count; i++) {
        tw_free(w->item[i].path);
        tw_free(w->item[i].url);
    }
    tw_free(w->item);
    tw_free(w->dir);
    *w = (struct tw_bag_writer){0};
}
