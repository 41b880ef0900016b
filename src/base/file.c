/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders, for every room: read whole, write whole, make, delete, and the parts of paths.
 * Errors name the path. Descriptors are opened with O_CLOEXEC, so no job inherits one of ours. */
#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *tw_path_join(const char *a, const char *b)
{
    if (b[0] == '/' || a[0] == '\0')
        return tw_strdup(b);
    return tw_printf("%s%s%s", a, a[strlen(a) - 1] == '/' ? "" : "/", b);
}

/* The working folder before a relative path; "." and ".." stay in it. malloc'ed; NULL with err set.
 */
char *tw_path_absolute(const char *path, struct twin_error *err)
{
    char *joined = NULL;
    if (path[0] == '/') {
        joined = tw_strdup(path);
    } else {
        char *cwd = getcwd(NULL, 0);
        if (!cwd) {
            twin_error_system(err, "the working folder cannot be read");
            return NULL;
        }
        joined = tw_path_join(cwd, path);
        free(cwd);
    }
    if (!joined)
        tw_no_memory(err, "for the path %s", path);
    return joined;
}

/* Makes each folder on the way that is missing. Only the last one is looked at: what is there
 * already must be a folder. */
int tw_mkdirs(const char *path, struct twin_error *err)
{
    char *copy = tw_strdup(path);
    if (!copy)
        return tw_no_memory(err, "making folder %s", path);
    int rc = 0;
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char keep = *p;
        *p = '\0';
        struct stat st;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            rc = twin_error_system(err, "cannot make folder %s", copy);
            break;
        }
        if (keep == '\0' && (stat(copy, &st) != 0 || !S_ISDIR(st.st_mode))) {
            errno = ENOTDIR;
            rc = twin_error_system(err, "cannot make folder %s", copy);
            break;
        }
        if (keep == '\0')
            break;
        *p = keep;
    }
    tw_free(copy);
    return rc;
}

/*
 * A FIFO, a device or a socket in a folder that somebody else made would hold us up or never end.
 * Those that a person names are below /dev and /proc: /dev/stdin, and the shell's <(command).
 */
static bool may_be_read(const char *path, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return false;
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return true; /* reading a folder says that it is one */
    return (strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0) &&
           fcntl(fd, F_SETFL, 0) == 0;
}

/* cap: bytes that are accepted; one byte more is TWIN_ELIMIT. The size is not asked for beforehand:
 * files of /proc say 0. *data is the caller's (tw_free) and is set on success only. */
int tw_read_file(const char *path, size_t cap, char **data, size_t *bytes, struct twin_error *err)
{
    struct tw_buf b = {.cap = cap < SIZE_MAX - 1 ? cap + 1 : cap};
    char chunk[65536];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return twin_error_system(err, "cannot open %s", path);
    if (!may_be_read(path, fd)) {
        close(fd);
        return twin_error_set(err, TWIN_EINVAL,
                              "%s: expected a file, found a pipe, device or socket", path);
    }
    int rc = 0;
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = twin_error_system(err, "cannot read %s", path);
        if (n <= 0)
            break;
        int failed = tw_buf_append(&b, chunk, (size_t)n);
        if (failed) {
            rc = twin_error_set(err, failed, "%s: %s (at most %zu bytes are read)", path,
                                twin_error_name(failed), cap);
            break;
        }
    }
    close(fd);
    if (rc == 0) {
        *bytes = b.len;
        *data = tw_buf_steal(&b);
        if (!*data)
            rc = tw_no_memory(err, "reading %s", path);
    }
    tw_buf_free(&b);
    return rc;
}

int tw_write_all(int fd, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                errno = EIO;
            return -1;
        }
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* From where the descriptor stands; at: from there, and it stays where it stands. */
static ssize_t read_until(int fd, char *to, size_t bytes, const uint64_t *at)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t n = at ? pread(fd, to + done, bytes - done, (off_t)(*at + done))
                             : read(fd, to + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

ssize_t tw_read_up_to(int fd, void *data, size_t bytes)
{
    return read_until(fd, data, bytes, NULL);
}

ssize_t tw_pread_all(int fd, void *data, size_t bytes, uint64_t offset)
{
    return read_until(fd, data, bytes, &offset);
}

bool tw_is_device_or_pipe(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* The file lies in the same folder, because rename works only within a file system. mkostemp makes
 * it private. */
int tw_file_beside(const char *path, char **temp, int *fd, struct twin_error *err)
{
    *fd = -1;
    *temp = NULL;
    if (tw_is_device_or_pipe(path))
        return twin_error_set(err, TWIN_EINVAL,
                              "%s is a device or a pipe, which no file can take the place of: give "
                              "the name of a file",
                              path);
    *temp = tw_printf("%s.tmp-%ld-XXXXXX", path, (long)getpid());
    if (!*temp)
        return tw_no_memory(err, "writing %s", path);
    int rc = 0;
    *fd = mkostemp(*temp, O_CLOEXEC);
    if (*fd < 0) {
        rc = twin_error_system(err, "cannot create a file beside %s", path);
        goto out;
    }
    /* There is no way to ask for the mask without setting it. */
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(*fd, 0666 & ~mask) != 0) {
        rc = twin_error_system(err, "cannot write %s", path);
        close(*fd);
        unlink(*temp);
        *fd = -1;
    }
out:
    if (rc != 0) {
        tw_free(*temp);
        *temp = NULL;
    }
    return rc;
}

/* For /dev/null, /dev/stdout or a pipe: a file that took the name would put an end to the device.
 */
static int write_through(const char *path, const void *data, size_t bytes, struct twin_error *err)
{
    int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC), rc = 0;
    if (fd < 0 || tw_write_all(fd, data, bytes) != 0)
        rc = twin_error_system(err, "cannot write to %s", path);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* A reader sees the old file or the new one, also after a crash. */
int tw_write_file_atomic(const char *path, const void *data, size_t bytes, struct twin_error *err)
{
    char *temp;
    int fd, rc;
    if (tw_is_device_or_pipe(path))
        return write_through(path, data, bytes, err);
    rc = tw_file_beside(path, &temp, &fd, err);
    if (rc != 0)
        return rc;
    if (tw_write_all(fd, data, bytes) != 0 || fsync(fd) != 0)
        rc = twin_error_system(err, "cannot write %s", path);
    if (close(fd) != 0 && rc == 0)
        rc = twin_error_system(err, "cannot write %s", path);
    if (rc == 0 && rename(temp, path) != 0)
        rc = twin_error_system(err, "cannot put %s in place", path);
    if (rc != 0)
        unlink(temp);
    tw_free(temp);
    return rc;
}

/* Deletes `name` in the open folder `parent`, and what is below it. *bytes adds up what the files
 * took on the disk. shown: the path that messages name. What is gone meanwhile is no error. */
static int remove_at(int parent, const char *name, const char *shown, dev_t device, int depth,
                     uint64_t *bytes, struct twin_error *err)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : twin_error_system(err, "cannot look at %s in %s", name, shown);
    if (!S_ISDIR(st.st_mode)) {
        if (unlinkat(parent, name, 0) != 0 && errno != ENOENT)
            return twin_error_system(err, "cannot delete %s in %s", name, shown);
        *bytes += (uint64_t)st.st_blocks * 512;
        return 0;
    }
    errno = EXDEV;
    if (st.st_dev != device || depth > 200)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s in %s is another file system or too deep: left alone", name,
                              shown);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return twin_error_system(err, "cannot open folder %s in %s", name, shown);
    }
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = remove_at(fd, e->d_name, shown, device, depth + 1, bytes, err);
    int why = errno;
    closedir(d);
    if (rc == 0 && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        why = errno;
        rc = twin_error_system(err, "cannot delete folder %s in %s", name, shown);
    }
    errno = why;
    return rc;
}

/* A path that is not there is deleted already: 0. */
int tw_remove_tree(const char *path, uint64_t *bytes, struct twin_error *err)
{
    struct stat st;
    uint64_t freed = 0;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : twin_error_system(err, "cannot look at %s", path);
    int rc = remove_at(AT_FDCWD, path, path, st.st_dev, 0, &freed, err);
    if (bytes)
        *bytes = freed;
    return rc;
}

const char *tw_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *tw_cache_folder(void)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (base && base[0] == '/')
        return tw_path_join(base, "twinrun");
    return home && home[0] == '/' ? tw_path_join(home, ".cache/twinrun") : NULL;
}
