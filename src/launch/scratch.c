/* SPDX-License-Identifier: Apache-2.0 */
/* A scratch copy of the working folder, so that runs do not overwrite each other's files
 * (fresh_dir). launch.c makes it below the run folder before the job starts.
 *
 * Blocks are shared where the file system can. Bulk folders (.git, .venv, node_modules) are links
 * to the originals: copying them would cost more than it protects. What is too large is an error: a
 * job on half a folder would fail in ways that nobody understands. On an error the half-made copy
 * stays; it goes with the run folder. */
#include "launch.h"

#include "phrase.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRATCH_BYTES ((uint64_t)2 << 30)

/* State of one copy: what to leave out (the home, by device and inode), and what was met so far.
 * bytes, entries: against the caps. skipped: sockets, pipes, devices. linked: bulk folders. */
struct copy {
    const char *from;
    dev_t home_device;
    ino_t home_inode;
    bool has_home;
    uint64_t bytes;
    size_t entries, skipped, linked;
    struct twin_error *err;
};

/* A file with its mode and its times: make and Python decide by them what is up to date. */
static int copy_file(struct copy *c, int from, int to, const char *name, const struct stat *st)
{
    c->bytes += (uint64_t)st->st_size;
    if (c->bytes > SCRATCH_BYTES)
        return twin_error_set(c->err, TWIN_ELIMIT,
                              "%s is too large for a scratch copy (more than 2 GiB); run in a "
                              "smaller folder, or without --fresh-dir (which --jobs brings along)",
                              c->from);
    int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    int out = in < 0 ? -1
                     : openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct timespec times[2] = {st->st_atim, st->st_mtim};
    int rc = 0;
    if (in < 0 || out < 0 || tw_copy_bytes(in, out, NULL) != 0 ||
        fchmod(out, st->st_mode & 07777) != 0 || futimens(out, times) != 0)
        rc = twin_error_system(c->err, "cannot copy %s out of %s into the scratch folder", name,
                               c->from);
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0 && rc == 0)
        rc = twin_error_system(c->err, "cannot copy %s out of %s into the scratch folder", name,
                               c->from);
    return rc;
}

static int copy_link(struct copy *c, int from, int to, const char *name)
{
    char target[4096];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    if (n >= 0)
        target[n] = '\0';
    return n >= 0 && symlinkat(target, to, name) == 0
               ? 0
               : twin_error_system(c->err, "cannot copy the link %s out of %s", name, c->from);
}

static int copy_folder(struct copy *c, int from, int to, const char *path, int depth);

/* One name of the folder `from`. What vanished meanwhile is skipped. __pycache__ is left out, since
 * Python makes it again. */
static int copy_entry(struct copy *c, int from, int to, const char *path, const char *name,
                      int depth)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT
                   ? 0
                   : twin_error_system(c->err, "cannot look at %s in %s", name, c->from);
    if (c->has_home && st.st_dev == c->home_device && st.st_ino == c->home_inode)
        return 0;
    if (++c->entries > TW_FILES_MAX)
        return twin_error_set(
            c->err, TWIN_ELIMIT,
            "%s has more than %d entries, too many for a scratch copy; run without --fresh-dir",
            c->from, TW_FILES_MAX);
    if (S_ISREG(st.st_mode))
        return copy_file(c, from, to, name, &st);
    if (S_ISLNK(st.st_mode))
        return copy_link(c, from, to, name);
    if (!S_ISDIR(st.st_mode)) {
        c->skipped++;
        return 0;
    }
    if (strcmp(name, "__pycache__") == 0 || strcmp(name, ".twinrun") == 0)
        return 0;
    char *below = path[0] ? tw_printf("%s/%s", path, name) : tw_strdup(name);
    char *original = below ? tw_path_join(c->from, below) : NULL;
    int rc = 0;
    if (!original) {
        rc = tw_no_memory(c->err, "copying %s", c->from);
    } else if (tw_files_is_bulk(name)) {
        c->linked++;
        if (symlinkat(original, to, name) != 0)
            rc = twin_error_system(c->err, "cannot link %s into the scratch folder", original);
    } else if (depth >= TW_FILES_DEPTH) {
        rc = twin_error_set(c->err, TWIN_ELIMIT,
                            "%s is more than %d folders deep, too deep for a scratch copy",
                            original, TW_FILES_DEPTH);
    } else {
        /* The folder's own mode is set when it is full: it may forbid writing. */
        int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        int out = in >= 0 && mkdirat(to, name, 0700) == 0
                      ? openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
                      : -1;
        rc = out >= 0 ? copy_folder(c, in, out, below, depth + 1)
                      : twin_error_system(c->err, "cannot copy the folder %s", original);
        if (rc == 0 && fchmod(out, st.st_mode & 07777) != 0)
            rc = twin_error_system(c->err, "cannot copy the folder %s", original);
        if (in >= 0)
            close(in);
        if (out >= 0)
            close(out);
    }
    tw_free(original);
    tw_free(below);
    return rc;
}

/* `from` and `to` are open folders; path: of `from` below the root, for messages. The folder is
 * opened anew, because closedir() closes what it was given. */
static int copy_folder(struct copy *c, int from, int to, const char *path, int depth)
{
    int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    int rc = 0;
    if (!d) {
        if (again >= 0)
            close(again);
        return twin_error_system(c->err, "cannot list %s in %s", path, c->from);
    }
    for (struct dirent *e; rc == 0 && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = copy_entry(c, from, to, path, e->d_name, depth);
    closedir(d);
    return rc;
}

/* What was left out or only linked becomes a note of the run. */
int tw_scratch_copy(const char *from, const char *to, const char *home, struct twin_run *run,
                    struct twin_error *err)
{
    struct stat st;
    struct copy c = {.from = from, .err = err};
    if (stat(home, &st) == 0) {
        c.has_home = true;
        c.home_device = st.st_dev;
        c.home_inode = st.st_ino;
    }
    int rc = mkdir(to, 0777) == 0 ? 0
                                  : twin_error_system(err, "cannot make the scratch folder %s", to);
    int in = rc == 0 ? open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int out = rc == 0 ? open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (rc == 0 && (in < 0 || out < 0))
        rc = twin_error_system(err, "cannot copy %s to %s", from, to);
    if (rc == 0)
        rc = copy_folder(&c, in, out, "", 0);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    if (rc == 0 && c.linked)
        tw_run_note(run,
                    "fresh folder: %zu large folder%s (such as .git or .venv) are links to the "
                    "originals, not copies",
                    c.linked, tw_plural_s(c.linked));
    if (rc == 0 && c.skipped)
        tw_run_note(run, "fresh folder: %zu sockets, pipes or devices were left out", c.skipped);
    return rc;
}
