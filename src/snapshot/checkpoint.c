/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a job that are there whole or not at all, with their SHA-256 beside them: the library of
 * include/twin/checkpoint.h, for C programs without Python.
 *
 * PATH is replaced by rename. PATH.sha256 cannot be replaced in the same instant: it is taken away
 * before and put in place behind. Both folders' changes are written to the disk in that order, so
 * that no digest of another content is ever found beside it. A crash leaves the old file with its
 * digest, the old or the new one without, or the new one with its own.
 */
#include <twin/checkpoint.h>

#include "base.h"
#include "sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* One file that is being written. Until commit everything lies under other names in the same
 * folder, since rename works within a file system only. */
struct twin_checkpoint {
    /* temp: .NAME.twinrun-XXXXXX, locked while it is written */
    char *path, *temp, *sidecar, *side_temp, *folder;
    int fd, side_fd, folder_fd;
    struct tw_sha256 sha;
    struct twin_error err; /* the first failure of a write */
};

/* Closes and frees all; removes nothing. */
static void free_all(struct twin_checkpoint *c)
{
    if (c->fd >= 0)
        close(c->fd);
    if (c->side_fd >= 0)
        close(c->side_fd);
    if (c->folder_fd >= 0)
        close(c->folder_fd);
    tw_sha256_free(&c->sha);
    tw_free(c->path);
    tw_free(c->temp);
    tw_free(c->sidecar);
    tw_free(c->side_temp);
    tw_free(c->folder);
    tw_free(c);
}

/* Takes away what killed writers of this path left: a file under a temporary name that nobody holds
 * locked has no writer any more, as the kernel drops the lock of a process that ends. */
static void sweep(const struct twin_checkpoint *c, const char *name)
{
    char *prefix = tw_printf(".%s.twinrun-", name);
    int copy = dup(c->folder_fd);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d && copy >= 0)
        close(copy);
    for (struct dirent *e; d && prefix && (e = readdir(d));) {
        if (!tw_starts(e->d_name, prefix))
            continue;
        int fd = openat(c->folder_fd, e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(c->folder_fd, e->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
    tw_free(prefix);
}

/* Gives the new file the permissions of the one that it replaces, or those that a plain open would
 * give. umask can only be read by setting it, for an instant and for the whole process. */
static int set_mode(int fd, const char *path)
{
    struct stat st;
    const mode_t mask = umask(0);
    umask(mask);
    return fchmod(fd, stat(path, &st) == 0 ? st.st_mode & 07777 : 0666 & ~mask);
}

/* Makes a file under a name that is free and locks it; -1 with errno. Another writer's sweep may
 * come between the two steps and remove the file: then it has no name left, and another one is
 * made. */
static int locked_temp(char *temp)
{
    struct stat st;
    for (int i = 0; i < 100; i++) {
        int fd = mkostemp(temp, O_CLOEXEC);
        if (fd < 0)
            return -1;
        flock(fd, LOCK_EX); /* where locks are refused nothing is swept either */
        if (fstat(fd, &st) == 0 && st.st_nlink > 0)
            return fd;
        close(fd);
        memcpy(temp + strlen(temp) - 6, "XXXXXX", 6);
    }
    errno = EBUSY;
    return -1;
}

/* A path that is a link is resolved first, so that the link stays and what it leads to is
 * replaced. */
int twin_checkpoint_begin(const char *path, struct twin_checkpoint **out, struct twin_error *err)
{
    struct twin_checkpoint *c = tw_calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return tw_no_memory(err, "writing %s", path);
    c->fd = c->side_fd = c->folder_fd = -1;
    char *real = realpath(path, NULL); /* a link stays a link */
    c->path = tw_strdup(real ? real : path);
    free(real);
    const char *slash = c->path ? strrchr(c->path, '/') : NULL;
    const char *name = slash ? slash + 1 : c->path;
    if (slash)
        c->folder = tw_strndup(c->path, (size_t)(slash - c->path) + (slash == c->path));
    else
        c->folder = c->path ? tw_strdup(".") : NULL;
    c->temp = c->folder ? tw_printf("%s/.%s.twinrun-XXXXXX", c->folder, name) : NULL;
    c->sidecar = c->path ? tw_printf("%s.sha256", c->path) : NULL;
    c->side_temp = c->folder ? tw_printf("%s/.%s.twinrun-XXXXXX", c->folder, name) : NULL;
    int rc = 0;
    if (!c->temp || !c->sidecar || !c->side_temp || !tw_sha256_begin(&c->sha))
        rc = tw_no_memory(err, "writing %s", path);
    else if (tw_is_device_or_pipe(path))
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s is a device or a pipe: a checkpoint has to be a file", path);
    else if ((c->folder_fd = open(c->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        rc = twin_error_system(err, "cannot open the folder of %s", path);
    if (rc == 0) {
        sweep(c, name);
        c->fd = locked_temp(c->temp);
        if (c->fd < 0 || set_mode(c->fd, c->path) != 0)
            rc = twin_error_system(err, "cannot create a file beside %s", path);
        if (rc && c->fd >= 0)
            unlink(c->temp);
    }
    if (rc)
        free_all(c);
    else
        *out = c;
    return rc;
}

/* After the first failure nothing more is written: the file would have a hole. Each later call, and
 * the commit, says what that failure was. */
int twin_checkpoint_write(struct twin_checkpoint *c, const void *data, size_t bytes,
                          struct twin_error *err)
{
    if (c->err.code == 0 && tw_write_all(c->fd, data, bytes) != 0)
        twin_error_system(&c->err, "cannot write %s (it is as it was)", c->path);
    if (c->err.code)
        return twin_error_set(err, c->err.code, "%s", c->err.message);
    tw_sha256_add(&c->sha, data, bytes);
    return 0;
}

/* How sha256sum writes a character that would break its line; NULL: as it is. */
static const char *escape_of(char c)
{
    switch (c) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\\': return "\\\\";
    default: return NULL;
    }
}

/* Writes the line of sha256sum for the file under a temporary name, down to the disk. Names with a
 * line break or a backslash are escaped as sha256sum -c expects it. */
static int write_sidecar(struct twin_checkpoint *c, struct twin_error *err)
{
    unsigned char digest[32];
    char hex[65];
    const char *name = strrchr(c->path, '/') ? strrchr(c->path, '/') + 1 : c->path;
    if (!tw_sha256_end(&c->sha, digest))
        return twin_error_set(err, TWIN_ENOMEM, "SHA-256 of %s failed (it is as it was)", c->path);
    tw_hex(digest, sizeof digest, hex);
    struct tw_buf b = {0};
    tw_buf_printf(&b, "%s%s  ", strpbrk(name, "\\\n\r") ? "\\" : "", hex);
    for (const char *p = name; *p; p++) {
        const char *escape = escape_of(*p);
        if (escape)
            tw_buf_puts(&b, escape);
        else
            tw_buf_append(&b, p, 1);
    }
    tw_buf_puts(&b, "\n");
    int fd = c->side_fd = b.failed ? -1 : locked_temp(c->side_temp), rc = 0;
    if (b.failed)
        rc = tw_no_memory(err, "writing %s", c->sidecar);
    else if (fd < 0 || set_mode(fd, c->sidecar) != 0 || tw_write_all(fd, b.data, b.len) != 0 ||
             fsync(fd) != 0)
        rc = twin_error_system(err, "cannot write %s (%s is as it was)", c->sidecar, c->path);
    if (rc && fd >= 0)
        unlink(c->side_temp);
    tw_buf_free(&b);
    return rc;
}

int twin_checkpoint_commit(struct twin_checkpoint *c, struct twin_error *err)
{
    int rc = c->err.code ? twin_error_set(err, c->err.code, "%s", c->err.message) : 0;
    if (rc == 0 && fsync(c->fd) != 0)
        rc = twin_error_system(err, "cannot write %s (it is as it was)", c->path);
    rc = rc ? rc : write_sidecar(c, err);
    if (rc) {
        unlink(c->temp);
        free_all(c);
        return rc;
    }
    flock(c->folder_fd, LOCK_EX); /* two commits must not mix their files and digests */
    /* From here the old digest is gone. Up to the rename the old file stands there without one,
     * which says nothing false; after it the new one does. */
    if ((unlink(c->sidecar) != 0 && errno != ENOENT) || fsync(c->folder_fd) != 0 ||
        rename(c->temp, c->path) != 0) {
        rc = twin_error_system(err, "cannot put %s in place (it is as it was)", c->path);
        unlink(c->temp);
        unlink(c->side_temp);
    } else if (rename(c->side_temp, c->sidecar) != 0 || fsync(c->folder_fd) != 0) {
        rc = twin_error_system(err, "%s is in place, its digest %s is not", c->path, c->sidecar);
        unlink(c->side_temp);
    }
    free_all(c);
    return rc;
}

void twin_checkpoint_abort(struct twin_checkpoint *c)
{
    if (!c)
        return;
    unlink(c->temp);
    free_all(c);
}
