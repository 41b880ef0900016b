/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From layers to a root. Each layer is read twice. The first time nothing is made: every entry is
 * checked, what the layer would become is added up, its contents are digested, and what it takes
 * away of the layers below (whiteouts) is noted; only a layer that is right in all of that is read
 * again and written. So a hostile layer leaves nothing of itself behind.
 *
 * A layer may go through links of the layers below ("/bin" is one in most images). The kernel
 * resolves every path with the new root as its top (openat2, RESOLVE_IN_ROOT): an absolute link
 * leads to the image's own folder, and "..", or a link that is exchanged meanwhile, to nothing
 * outside.
 */
#include "archive.h"
#include "image.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ENTRIES_MAX = 8 << 20,
    PATH_ROOM = 4096,
    /* A layer of programs becomes 2 to 5 times as large; one that becomes more than this many times
     * as large, and is not small, is made to fill a disk. */
    TIMES_MAX = 256,
    SMALL = 64 << 20
};

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct unpacking {
    int root;
    const char *name; /* digest of the layer, for messages */
    struct tw_root_counts *counts;
    /* what the layer takes away of those below: paths, as it names them */
    char **gone;
    size_t gone_count;
    uint64_t room; /* bytes that the file system had free at the beginning */
};

static int refuse(const struct unpacking *u, const char *path, const char *why,
                  struct twin_error *err)
{
    char *shown = tw_printable(path, strnlen(path, 200));
    int rc = twin_error_set(err, TWIN_EFORMAT, "the layer %s was refused: %s: %s", u->name,
                            shown ? shown : "?", why);
    tw_free(shown);
    return rc;
}

/* ---- paths */

/* The path of an entry without "./", "//" and a slash at its end: *out, at most PATH_ROOM bytes; ""
 * is the root itself. NULL, or what is wrong with it. */
static const char *plain_path(const char *path, char out[PATH_ROOM])
{
    size_t n = 0;
    if (*path == '/')
        return "an absolute path";
    while (*path) {
        size_t part = strcspn(path, "/");
        if (part == 2 && path[0] == '.' && path[1] == '.')
            return "a path that leads out of the image (\"..\")";
        if (part > TW_PATH_PART_BYTES || n + part + 2 > PATH_ROOM)
            return "a path that is too long";
        if (part && !(part == 1 && path[0] == '.')) {
            if (n)
                out[n++] = '/';
            memcpy(out + n, path, part);
            n += part;
        }
        path += part;
        path += *path == '/';
    }
    out[n] = '\0';
    return NULL;
}

/* Opens a folder of the new root, through its links. "": the root itself. */
static int open_folder(int root, const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = resolve};
    return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
}

enum { INSIDE = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };

/* The same, and makes what is missing: archives may leave a folder out. */
static int make_folder(int root, const char *path)
{
    char prefix[PATH_ROOM];
    int fd = open_folder(root, path, INSIDE);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    const char *slash = strrchr(path, '/');
    snprintf(prefix, sizeof prefix, "%.*s", slash ? (int)(slash - path) : 0, path);
    int above = make_folder(root, prefix);
    if (above < 0)
        return -1;
    int rc = mkdirat(above, slash ? slash + 1 : path, 0755);
    int error = errno;
    close(above);
    errno = error;
    if (rc != 0 && error != EEXIST)
        return -1;
    /* a link that leads nowhere is there, and is no folder */
    fd = open_folder(root, path, INSIDE);
    if (fd < 0 && rc != 0)
        errno = ENOTDIR;
    return fd;
}

/* The folder that an entry lies in (made when missing), and its name there. -1 with errno. */
static int parent_of(int root, const char *path, const char **leaf, bool make)
{
    char above[PATH_ROOM];
    const char *slash = strrchr(path, '/');
    *leaf = slash ? slash + 1 : path;
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - path) : 0, path);
    return make ? make_folder(root, above) : open_folder(root, above, INSIDE);
}

/* Takes away whatever lies there, a folder with all that is in it. */
static int take_away(int dir, const char *leaf, struct twin_error *err)
{
    struct stat st;
    if (fstatat(dir, leaf, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : twin_error_system(err, "cannot look at %s", leaf);
    if (!S_ISDIR(st.st_mode))
        return unlinkat(dir, leaf, 0) == 0 ? 0 : twin_error_system(err, "cannot remove %s", leaf);
    char *path = tw_printf("/proc/self/fd/%d/%s", dir, leaf);
    int rc = path ? tw_remove_tree(path, NULL, err) : tw_no_memory(err, "making an image's root");
    tw_free(path);
    return rc;
}

/* ---- first: is the layer right? */

static int note_gone(struct unpacking *u, const char *path, struct twin_error *err)
{
    char **grown = tw_reallocarray(u->gone, u->gone_count + 1, sizeof *grown);
    char *copy = grown ? tw_strdup(path) : NULL;
    if (grown)
        u->gone = grown;
    if (!copy)
        return tw_no_memory(err, "making an image's root");
    u->gone[u->gone_count++] = copy;
    return 0;
}

static const char *leaf_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A whiteout must name something: ".wh." alone, ".wh..", ".wh..." do not. */
static bool is_bad_whiteout(const char *leaf)
{
    const char *name = leaf + strlen(WHITEOUT);
    return !*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_below_dev(const char *path)
{
    return tw_starts(path, "dev/");
}

static int check_entry(struct unpacking *u, const struct tw_entry *e, struct twin_error *err)
{
    char path[PATH_ROOM], target[PATH_ROOM];
    const char *why = plain_path(e->path, path);
    if (why)
        return refuse(u, e->path, why, err);
    if (!*path && e->kind != TW_ENTRY_FOLDER)
        return refuse(u, e->path, "the image's root as something else than a folder", err);
    if (tw_starts(leaf_of(path), WHITEOUT)) {
        if (is_bad_whiteout(leaf_of(path)))
            return refuse(u, e->path, "a whiteout that names nothing", err);
        return note_gone(u, path, err);
    }
    switch (e->kind) {
    case TW_ENTRY_HARD_LINK:
        why = plain_path(e->target ? e->target : "", target);
        if (!why && !*target)
            why = "a hard link to nothing";
        return why ? refuse(u, e->path, why, err) : 0;
    case TW_ENTRY_LINK:
        if (!e->target || !*e->target || strlen(e->target) >= PATH_ROOM)
            return refuse(u, e->path, "a link without a target, or with too long a one", err);
        return 0;
    case TW_ENTRY_DEVICE:
        if (is_below_dev(path))
            return 0;
        return refuse(u, e->path, "a device outside of dev/", err);
    case TW_ENTRY_FILE:
    case TW_ENTRY_FOLDER:
    case TW_ENTRY_PIPE: break;
    }
    return 0;
}

/* Bytes that a blob of this size may become. */
static uint64_t most_of(uint64_t packed)
{
    uint64_t most = SMALL + packed * TIMES_MAX;
    return packed > TW_ROOT_BYTES_MAX / TIMES_MAX || most > TW_ROOT_BYTES_MAX ? TW_ROOT_BYTES_MAX
                                                                              : most;
}

static int too_large(const struct unpacking *u, uint64_t packed, struct twin_error *err)
{
    return twin_error_set(err, TWIN_ELIMIT,
                          "the layer %s was refused: its %llu bytes become more than %llu", u->name,
                          (unsigned long long)packed, (unsigned long long)most_of(packed));
}

/* Reads the whole layer and makes nothing. */
static int check_layer(struct unpacking *u, int fd, const struct tw_blob *blob, const char *diff_id,
                       struct twin_error *err)
{
    struct tw_layer *l = NULL;
    struct tw_entry e;
    char hex[65];
    const uint64_t most = most_of(blob->bytes);
    uint64_t bytes = 0, entries = 0;
    int more, rc = tw_layer_open(fd, u->name, &l, err);
    while (rc == 0 && (more = tw_layer_next(l, &e, err)) != 0) {
        rc = more < 0 ? more : check_entry(u, &e, err);
        /* a sparse file may be large without taking bytes of the archive */
        bytes = e.bytes > most ? most + 1 : bytes + e.bytes;
        if (rc == 0 && (bytes > most || tw_layer_bytes(l) > most))
            rc = too_large(u, blob->bytes, err);
        if (rc == 0 && ++entries > ENTRIES_MAX)
            rc = twin_error_set(err, TWIN_ELIMIT, "the layer %s has more than %d entries", u->name,
                                ENTRIES_MAX);
    }
    rc = rc ? rc : tw_layer_digest(l, most, hex, err);
    if (rc == 0 && strcmp(hex, diff_id + strlen("sha256:")) != 0)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "the layer %s holds sha256:%s, and the image's configuration says %s",
                            u->name, hex, diff_id);
    tw_layer_close(l);
    u->counts->bytes += bytes;
    u->counts->entries += entries;
    if (rc == 0 && u->counts->bytes > TW_ROOT_BYTES_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "the image's root would have more than %llu bytes",
                              (unsigned long long)TW_ROOT_BYTES_MAX);
    if (rc == 0 && u->counts->bytes > u->room)
        return twin_error_set(
            err, TWIN_EIO, "no room for the image's root: it needs %llu bytes, and %llu are free",
            (unsigned long long)u->counts->bytes, (unsigned long long)u->room);
    return rc;
}

/* ---- then: what it takes away, and what it brings */

/* All that lies in a folder. */
static int empty_folder(int dir, struct twin_error *err)
{
    char *path = tw_printf("/proc/self/fd/%d/.", dir);
    int real = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *d = real >= 0 ? fdopendir(real) : NULL;
    int rc = d ? 0 : twin_error_system(err, "cannot read a folder of the image's root");
    for (struct dirent *e; rc == 0 && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = take_away(dir, e->d_name, err);
    if (d)
        closedir(d);
    else if (real >= 0)
        close(real);
    tw_free(path);
    return rc;
}

/* What a whiteout names is of a layer below: what this layer brings is made afterwards. */
static int apply_gone(struct unpacking *u, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < u->gone_count && rc == 0; i++) {
        const char *leaf;
        int dir = parent_of(u->root, u->gone[i], &leaf, false);
        if (dir < 0)
            continue; /* nothing there that could go */
        if (strcmp(leaf, OPAQUE) == 0)
            rc = empty_folder(dir, err);
        else if (!tw_starts(leaf, WHITEOUT WHITEOUT)) /* else aufs' own notes */
            rc = take_away(dir, leaf + strlen(WHITEOUT), err);
        close(dir);
    }
    return rc;
}

/* The contents of a file. Holes stay holes. */
static int write_contents(struct tw_layer *l, int fd, const struct tw_entry *e,
                          struct twin_error *err)
{
    const void *data;
    size_t n;
    uint64_t at;
    int rc;
    while ((rc = tw_layer_data(l, &data, &n, &at, err)) == 0 && n) {
        if (at + n > e->bytes)
            return twin_error_set(err, TWIN_EFORMAT, "a file of the image is longer than it says");
        if (lseek(fd, (off_t)at, SEEK_SET) < 0 || tw_write_all(fd, data, n) != 0)
            return twin_error_system(err, "cannot write the image's root");
    }
    if (rc == 0 && ftruncate(fd, (off_t)e->bytes) != 0)
        rc = twin_error_system(err, "cannot write the image's root");
    return rc;
}

static int make_file(struct tw_layer *l, int dir, const char *leaf, const struct tw_entry *e,
                     struct twin_error *err)
{
    int rc = take_away(dir, leaf, err);
    int fd = rc ? -1
                : openat(dir, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (rc == 0 && fd < 0)
        rc = twin_error_system(err, "cannot make %s of the image's root", leaf);
    rc = rc ? rc : write_contents(l, fd, e, err);
    const struct timespec times[2] = {e->changed, e->changed};
    /* Python compares the dates of its sources with those in its compiled files. */
    if (rc == 0 && (fchmod(fd, (e->mode & 0777) | 0400) != 0 || futimens(fd, times) != 0))
        rc = twin_error_system(err, "cannot set mode and date of %s in the image's root", leaf);
    if (fd >= 0 && close(fd) != 0 && rc == 0)
        rc = twin_error_system(err, "cannot write %s of the image's root", leaf);
    return rc;
}

/* A folder over a folder keeps what is in it. */
static int make_one_folder(int dir, const char *leaf, const struct tw_entry *e,
                           struct twin_error *err)
{
    struct stat st;
    int rc = 0;
    bool there = fstatat(dir, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISDIR(st.st_mode)) {
        rc = take_away(dir, leaf, err);
        there = false;
    }
    if (rc == 0 && !there && mkdirat(dir, leaf, 0700) != 0)
        rc = twin_error_system(err, "cannot make the folder %s of the image's root", leaf);
    /* its owner, who is this user, can always look into it and take it away again */
    if (rc == 0 && fchmodat(dir, leaf, (e->mode & 01777) | 0700, 0) != 0)
        rc = twin_error_system(err, "cannot set the mode of %s in the image's root", leaf);
    return rc;
}

/* Names a file of the root once more. A link as its target is linked as it is, not followed. */
static int make_hard_link(struct unpacking *u, int dir, const char *leaf, const struct tw_entry *e,
                          struct twin_error *err)
{
    char target[PATH_ROOM];
    const char *name;
    struct stat st, same;
    plain_path(e->target, target);
    int from = parent_of(u->root, target, &name, false), rc = 0;
    if (from < 0 || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(st.st_mode))
        rc = refuse(u, e->path, "a hard link to something that is not in the image", err);
    else if (fstatat(dir, leaf, &same, AT_SYMLINK_NOFOLLOW) == 0 && same.st_ino == st.st_ino &&
             same.st_dev == st.st_dev)
        rc = 0; /* it is that file already */
    else if ((rc = take_away(dir, leaf, err)) == 0 && linkat(from, name, dir, leaf, 0) != 0)
        rc = twin_error_system(err, "cannot make the hard link %s of the image's root", leaf);
    if (from >= 0)
        close(from);
    return rc;
}

static int make_link(int dir, const char *leaf, const struct tw_entry *e, struct twin_error *err)
{
    const struct timespec times[2] = {e->changed, e->changed};
    int rc = take_away(dir, leaf, err);
    if (rc == 0 && symlinkat(e->target, dir, leaf) != 0)
        rc = twin_error_system(err, "cannot make the link %s of the image's root", leaf);
    if (rc == 0)
        utimensat(dir, leaf, times, AT_SYMLINK_NOFOLLOW);
    return rc;
}

static int make_entry(struct unpacking *u, struct tw_layer *l, const struct tw_entry *e,
                      struct twin_error *err)
{
    char path[PATH_ROOM];
    const char *leaf;
    /* it was checked, and is the same: the blob is open */
    if (plain_path(e->path, path) || !*path || tw_starts(leaf_of(path), WHITEOUT))
        return 0;
    if (e->kind == TW_ENTRY_DEVICE || e->kind == TW_ENTRY_PIPE) {
        u->counts->devices += e->kind == TW_ENTRY_DEVICE;
        u->counts->pipes += e->kind == TW_ENTRY_PIPE;
        return 0;
    }
    u->counts->setuid += e->kind == TW_ENTRY_FILE && (e->mode & 06000) != 0;
    int dir = parent_of(u->root, path, &leaf, true), rc;
    if (dir < 0)
        return errno == ENOSYS
                   ? twin_error_set(err, TWIN_EUNSUPPORTED,
                                    "this kernel has no openat2 (it came with Linux 5.6), without "
                                    "which no image is unpacked safely")
                   : refuse(u, e->path, "its folder cannot be made: something else is there", err);
    if (e->kind == TW_ENTRY_FOLDER)
        rc = make_one_folder(dir, leaf, e, err);
    else if (e->kind == TW_ENTRY_LINK)
        rc = make_link(dir, leaf, e, err);
    else if (e->kind == TW_ENTRY_HARD_LINK)
        rc = make_hard_link(u, dir, leaf, e, err);
    else
        rc = make_file(l, dir, leaf, e, err);
    close(dir);
    return rc;
}

static int write_layer(struct unpacking *u, int fd, struct twin_error *err)
{
    struct tw_layer *l = NULL;
    struct tw_entry e;
    int more, rc = lseek(fd, 0, SEEK_SET) == 0 ? 0 : twin_error_system(err, "%s", u->name);
    rc = rc ? rc : tw_layer_open(fd, u->name, &l, err);
    while (rc == 0 && (more = tw_layer_next(l, &e, err)) != 0)
        rc = more < 0 ? more : make_entry(u, l, &e, err);
    tw_layer_close(l);
    return rc;
}

static void forget_gone(struct unpacking *u)
{
    for (size_t i = 0; i < u->gone_count; i++)
        tw_free(u->gone[i]);
    tw_free(u->gone);
    u->gone = NULL;
    u->gone_count = 0;
}

int tw_image_root(const struct tw_image *image, const char *to, struct tw_root_counts *counts,
                  struct twin_error *err)
{
    struct unpacking u = {.counts = counts};
    struct statvfs fs;
    *counts = (struct tw_root_counts){0};
    u.root = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = u.root >= 0 && fstatvfs(u.root, &fs) == 0 ? 0 : twin_error_system(err, "%s", to);
    u.room = rc ? 0 : (uint64_t)fs.f_bavail * fs.f_frsize;
    for (size_t i = image->first_layer; i < image->blobs && rc == 0; i++) {
        const char *diff_id = json_string_value(
            json_array_get(image->diff_id, i - image->first_layer));
        u.name = image->blob[i].digest;
        int fd;
        rc = tw_image_blob(image, &image->blob[i], &fd, err);
        rc = rc ? rc : check_layer(&u, fd, &image->blob[i], diff_id, err);
        rc = rc ? rc : apply_gone(&u, err);
        rc = rc ? rc : write_layer(&u, fd, err);
        forget_gone(&u);
        if (fd >= 0)
            close(fd);
    }
    if (u.root >= 0)
        close(u.root);
    return rc;
}

int tw_root_mount_point(const char *root, const char *path, struct twin_error *err)
{
    char plain[PATH_ROOM];
    const char *why = *path == '/' ? plain_path(path + 1, plain) : "a path that is not absolute";
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), made = -1, real = -1;
    if (!why && fd >= 0)
        made = make_folder(fd, plain);
    /* where a link is on the way, what is mounted there would be mounted elsewhere */
    if (made >= 0)
        real = open_folder(fd, plain, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
    if (!why)
        why = "a link or a file of the image is there";
    int rc = 0;
    if (real < 0)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s cannot be mounted in the image: %s; name another folder with "
                            "--into",
                            path, why);
    const int all[] = {fd, made, real};
    for (size_t i = 0; i < 3; i++)
        if (all[i] >= 0)
            close(all[i]);
    return rc;
}
