/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a folder, on a local or a shared file system:
 *
 *     log/00000001.dsse.json     pieces, each made by link(2): a name is given once
 *     contents/abcd...           contents by their digest
 *     tmp/                       what is being written; a killed writer leaves it behind
 *     lock                       flock: shared for writers of contents, exclusive for removal
 *
 * A piece is written under tmp/, synced, linked to its name, and its folder is synced: so it is
 * whole whenever it is seen, and stays after a power cut.
 */
#include "store_inside.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 100 };
static const long LOCK_WAIT_NS = 100000000; /* 100 tries: ten seconds */

struct folder {
    struct tw_store head;
    const char *path; /* head.name */
    int root;         /* the folder; O_PATH would not sync */
    int lock;         /* -1: not held */
};

static void folder_release(struct tw_store *store);

static void folder_close(struct tw_store *store)
{
    struct folder *s = (struct folder *)store;
    folder_release(store);
    if (s->root >= 0)
        close(s->root);
    tw_free(s);
}

static const struct tw_store_kind folder_store;

/* The folders of a new store, synced: what is put into them later only syncs them. */
static int make_folders(const struct folder *s, struct twin_error *err)
{
    static const char *const folders[] = {"log", "contents", "tmp"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (mkdirat(s->root, folders[i], 0777) != 0 && errno != EEXIST)
            return twin_error_system(err, "cannot make %s/%s", s->path, folders[i]);
    return fsync(s->root) == 0 ? 0 : twin_error_system(err, "cannot sync %s", s->path);
}

int tw_store_open_folder(const char *path, bool make, struct tw_store **out, struct twin_error *err)
{
    int rc = make ? tw_mkdirs(path, err) : 0;
    struct folder *s = rc ? NULL : tw_calloc(1, sizeof *s);
    if (rc == 0 && !s)
        rc = tw_no_memory(err, "opening %s", path);
    if (rc != 0)
        return rc;
    s->head.as = &folder_store;
    s->path = path; /* the caller keeps it as head.name */
    s->root = s->lock = -1;
    if ((s->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        rc = twin_error_system(err, "cannot open the registry %s", path);
    if (rc == 0 && make)
        rc = make_folders(s, err);
    if (rc != 0)
        folder_close(&s->head);
    else
        *out = &s->head;
    return rc;
}

/* ---- writing */

/* "contents/abcd..." of a digest, which is the caller's to have checked. */
static void content_name(const char *sha256, char out[80])
{
    snprintf(out, 80, "contents/%.64s", sha256);
}

/* A new file in tmp/ under a name of its own, at[]. A descriptor, or -1 with errno. */
static int open_temp(const struct folder *s, char at[64])
{
    struct timespec now;
    for (unsigned i = 0; i < 100; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        snprintf(at, 64, "tmp/%ld-%ld-%u", (long)getpid(), now.tv_nsec, i);
        int fd = openat(s->root, at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Gives the written file its name, FOLDER/NAME. 0, or -1 with errno: EEXIST, the name is taken. */
static int give_name(const struct folder *s, int fd, const char *temp, const char *name)
{
    const char *slash = strchr(name, '/');
    char folder[16];
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - name), name);
    int in = fsync(fd) == 0 ? openat(s->root, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (in < 0)
        return -1;
    int rc = linkat(s->root, temp, in, slash + 1, 0);
    if (rc == 0)
        rc = fsync(in);
    const int why = errno;
    close(in);
    errno = why;
    return rc;
}

static int folder_put(struct tw_store *store, const char *name, const void *data, size_t bytes,
                      struct twin_error *err)
{
    struct folder *s = (struct folder *)store;
    char temp[64];
    int rc = 0, fd = open_temp(s, temp);
    if (fd < 0)
        return twin_error_system(err, "cannot write into %s", s->path);
    if (tw_write_all(fd, data, bytes) != 0)
        rc = twin_error_system(err, "cannot write %s of %s", name, s->path);
    else if (give_name(s, fd, temp, name) != 0)
        rc = errno == EEXIST
                 ? twin_error_set(err, TWIN_EBUSY, "%s: %s is there already", s->path, name)
                 : twin_error_system(err, "cannot write %s of %s", name, s->path);
    close(fd);
    unlinkat(s->root, temp, 0);
    return rc;
}

/* ---- reading */

/* A regular file below the store, no link on the way. TWIN_ENOENT. */
static int open_piece(const struct folder *s, const char *name, int *fd, struct stat *st,
                      struct twin_error *err)
{
    *fd = tw_open_below(s->root, name, O_RDONLY | O_NONBLOCK);
    if (*fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return twin_error_set(err, TWIN_EFORMAT, "%s: %s is a link", s->path, name);
    if (*fd < 0)
        return twin_error_system(err, "cannot read %s of %s", name, s->path);
    if (fstat(*fd, st) == 0 && S_ISREG(st->st_mode))
        return 0;
    close(*fd);
    *fd = -1;
    return twin_error_set(err, TWIN_EFORMAT, "%s: %s is no file", s->path, name);
}

static int folder_get(struct tw_store *store, const char *name, size_t cap, char **data,
                      size_t *bytes, struct twin_error *err)
{
    struct folder *s = (struct folder *)store;
    struct stat st;
    int fd, rc = open_piece(s, name, &fd, &st, err);
    if (rc != 0)
        return rc;
    const uint64_t size = (uint64_t)st.st_size;
    char *room = NULL;
    if (size > cap)
        rc = twin_error_set(err, TWIN_ELIMIT, "%s: %s has %llu bytes, at most %zu are read",
                            s->path, name, (unsigned long long)size, cap);
    if (rc == 0 && !(room = tw_malloc((size_t)size + 1)))
        rc = tw_no_memory(err, "reading %s", name);
    if (rc == 0) {
        const ssize_t n = tw_pread_all(fd, room, (size_t)size, 0);
        if (n < 0)
            rc = twin_error_system(err, "cannot read %s of %s", name, s->path);
        else
            room[ *bytes = (size_t)n] = '\0';
    }
    close(fd);
    if (rc == 0)
        *data = room;
    else
        tw_free(room);
    return rc;
}

static int folder_get_content(struct tw_store *store, const char *sha256, struct tw_sink *to,
                              struct twin_error *err)
{
    char name[80];
    struct stat st;
    int in;
    content_name(sha256, name);
    int rc = open_piece((struct folder *)store, name, &in, &st, err);
    if (rc != 0)
        return rc;
    rc = tw_sink_read(to, in, name, err);
    close(in);
    return rc;
}

/* The file itself: what was digested is what is read, since nobody writes into it. */
static int folder_open_content(struct tw_store *store, const char *sha256, int *fd,
                               struct twin_error *err)
{
    struct folder *s = (struct folder *)store;
    struct tw_sink nowhere = {.fd = -1};
    char name[80];
    struct stat st;
    content_name(sha256, name);
    int rc = open_piece(s, name, fd, &st, err);
    if (rc != 0)
        return rc;
    rc = tw_sink_file(&nowhere, *fd, name, err);
    if (rc == 0 && strcmp(nowhere.sha256, sha256) != 0)
        rc = tw_store_damaged(&s->head, sha256, nowhere.sha256, err);
    if (rc == 0 && lseek(*fd, 0, SEEK_SET) != 0)
        rc = twin_error_system(err, "cannot read %s of %s", name, s->path);
    if (rc != 0)
        close(*fd);
    return rc;
}

/* Is the content there, and right? Its time becomes now, so that a removal that spares what is
 * young spares it, too. */
static bool have_content(struct folder *s, const char *sha256, const char *name, uint64_t bytes)
{
    struct stat st;
    return fstatat(s->root, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == bytes && tw_store_get_stored(&s->head, sha256, -1, NULL) == 0 &&
           utimensat(s->root, name, NULL, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A content of another digest under this name is damage: it gives way to the right one. */
static int replace_content(const struct folder *s, int fd, const char *temp, const char *name)
{
    if (give_name(s, fd, temp, name) == 0)
        return 0;
    return errno == EEXIST ? renameat(s->root, temp, s->root, name) : -1;
}

static int folder_put_content(struct tw_store *store, int fd, const char *sha256, uint64_t bytes,
                              const char *shown, struct twin_error *err)
{
    struct folder *s = (struct folder *)store;
    struct tw_sink copy = {0};
    char name[80], temp[64];
    content_name(sha256, name);
    if (have_content(s, sha256, name, bytes))
        return 0;
    copy.fd = open_temp(s, temp);
    if (copy.fd < 0)
        return twin_error_system(err, "cannot write into %s", s->path);
    int rc = tw_sink_file(&copy, fd, shown, err);
    rc = rc ? rc : tw_sink_is(&copy, sha256, bytes, shown, err);
    if (rc == 0 && replace_content(s, copy.fd, temp, name) != 0)
        rc = twin_error_system(err, "cannot store %s in %s", shown, s->path);
    close(copy.fd);
    unlinkat(s->root, temp, 0);
    return rc;
}

static int folder_content_bytes(struct tw_store *store, const char *sha256, uint64_t *bytes,
                                struct twin_error *err)
{
    struct folder *s = (struct folder *)store;
    char name[80];
    struct stat st;
    content_name(sha256, name);
    if (fstatat(s->root, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return twin_error_system(err, "%s: the content %.12s cannot be found", s->path, sha256);
    *bytes = (uint64_t)st.st_size;
    return 0;
}

static int folder_remove_content(struct tw_store *store, const char *sha256, struct twin_error *err)
{
    struct folder *s = (struct folder *)store;
    char name[80];
    content_name(sha256, name);
    if (unlinkat(s->root, name, 0) != 0 && errno != ENOENT)
        return twin_error_system(err, "cannot remove %s of %s", name, s->path);
    return 0;
}

/* ---- listing */

static int folder_list(struct tw_store *store, const char *prefix,
                       int (*visit)(void *user, const struct tw_store_piece *p), void *user,
                       struct twin_error *err)
{
    struct folder *s = (struct folder *)store;
    int rc = 0, fd = openat(s->root, prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        rc = twin_error_system(err, "cannot list %s of %s", prefix, s->path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    while (rc == 0) {
        struct stat st;
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e && errno)
            rc = twin_error_system(err, "cannot list %s of %s", prefix, s->path);
        if (!e || rc != 0)
            break;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno != ENOENT) /* gone since it was listed: nothing to tell */
                rc = twin_error_system(err, "cannot look at %s/%s of %s", prefix, e->d_name,
                                       s->path);
            continue;
        }
        const struct tw_store_piece p = {.name = e->d_name,
                                         .bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0,
                                         .changed_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 +
                                                       st.st_mtim.tv_nsec};
        rc = visit(user, &p);
    }
    closedir(d);
    return rc;
}

/* What folder_sweep carries. */
struct sweep {
    const struct folder *s;
    int64_t older_ns;
    uint64_t count;
};

static int sweep_one(void *user, const struct tw_store_piece *p)
{
    struct sweep *w = user;
    char *name = p->changed_ns < w->older_ns ? tw_printf("tmp/%s", p->name) : NULL;
    w->count += name && unlinkat(w->s->root, name, 0) == 0;
    tw_free(name);
    return 0;
}

static int folder_sweep(struct tw_store *store, int64_t older_ns, uint64_t *count,
                        struct twin_error *err)
{
    struct folder *s = (struct folder *)store;
    struct sweep w = {.s = s, .older_ns = older_ns};
    int rc = folder_list(&s->head, "tmp", sweep_one, &w, err);
    *count = w.count;
    return rc;
}

/* ---- the lock */

static int folder_hold(struct tw_store *store, bool alone, struct twin_error *err)
{
    struct folder *s = (struct folder *)store;
    const struct timespec wait = {0, LOCK_WAIT_NS};
    const int how = (alone ? LOCK_EX : LOCK_SH) | LOCK_NB;
    int rc = -1;
    folder_release(store);
    s->lock = openat(s->root, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (s->lock < 0)
        return twin_error_system(err, "cannot open the lock of %s", s->path);
    for (int i = 0; i < LOCK_TRIES && rc != 0; i++) {
        if (i > 0)
            nanosleep(&wait, NULL);
        rc = flock(s->lock, how);
        if (rc != 0 && errno != EWOULDBLOCK && errno != EINTR)
            break;
    }
    if (rc == 0)
        return 0;
    if (errno == EWOULDBLOCK || errno == EINTR)
        rc = twin_error_set(err, TWIN_EBUSY,
                            "%s: another twinrun registry %s in it; try again later", s->path,
                            alone ? "works" : "removes contents");
    else
        rc = twin_error_system(err, "cannot lock %s", s->path);
    folder_release(store);
    return rc;
}

static void folder_release(struct tw_store *store)
{
    struct folder *s = (struct folder *)store;
    if (s->lock >= 0)
        close(s->lock);
    s->lock = -1;
}

static const struct tw_store_kind folder_store = {
    .close = folder_close,
    .get = folder_get,
    .put = folder_put,
    .put_content = folder_put_content,
    .get_content = folder_get_content,
    .open_content = folder_open_content,
    .content_bytes = folder_content_bytes,
    .remove_content = folder_remove_content,
    .sweep = folder_sweep,
    .list = folder_list,
    .hold = folder_hold,
    .release = folder_release,
};
