/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies in a folder: files, links, empty folders, and what has no content to be digested.
 *
 * Folders wait in a list, so that a deep tree needs no deep stack. A link to a file is that file. A
 * link to a folder is followed only when it leads out of the tree and the user asked for it:
 * inside, the folder is listed anyway. Whatever has no content that could be digested is trouble,
 * and trouble means that no snapshot is made: a manifest that leaves something out without a word
 * would be held to be complete.
 */
#include "snapshot_inside.h"

#include "base.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const twin_snapshot_default_exclude[] = {".git/", ".hg/",      ".svn/",
                                                     ".dvc/", ".twinrun/", NULL};

/* A folder of the list. path: "" for the root. parent: its place in the list; device and inode tell
 * a folder that a link leads back to. */
struct folder {
    char *path;
    size_t parent;
    uint64_t device, inode;
};

/* One walk: what is found goes to l, folders to be listed wait in folder[]. not_this: the state of
 * the file that is left out wherever it lies. */
struct walk {
    struct tw_listing *l;
    const struct twin_snapshot_options *o;
    char *const *exclude;
    int root;
    char *real; /* the root without links */
    struct folder *folder;
    size_t folders, room;
    bool has_not_this;
    struct tw_file_state not_this;
    struct twin_error *err;
};

void tw_listing_trouble(struct tw_listing *l, const struct twin_snapshot_options *o,
                        const char *path, const char *why)
{
    if (l->troubles++ == 0)
        l->first_trouble = tw_printf("%s: %s", path, why);
    if (o->trouble)
        o->trouble(o->user, path, why);
}

static void tell_trouble(struct walk *w, const char *path, const char *why)
{
    tw_listing_trouble(w->l, w->o, path, why);
}

/* Does a pattern leave this out? A pattern with '/' at its end is for folders; with another '/' it
 * is about the whole path, else about the last part. 0 with the answer in *excluded, or
 * TWIN_ENOMEM: a thing must not come in because there was no memory to look at a pattern. */
static int look_for_exclusion(const struct walk *w, const char *path, bool folder, bool *excluded)
{
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    *excluded = false;
    for (size_t i = 0; w->exclude && w->exclude[i] && !*excluded; i++) {
        const char *p = w->exclude[i];
        const size_t n = strlen(p);
        const bool only_folders = n > 1 && p[n - 1] == '/';
        char *pattern = tw_strndup(p, n - only_folders);
        if (!pattern)
            return tw_no_memory(w->err, "for the list of files");
        *excluded = (!only_folders || folder) &&
                    tw_glob(pattern, strchr(pattern, '/') ? path : last);
        tw_free(pattern);
    }
    return 0;
}

/* Appends an entry with its state. Takes path and target over; a NULL path is out of memory. 0 or
 * an error. */
static int add_entry(struct walk *w, enum twin_snapshot_kind kind, char *path, char *target,
                     const struct stat *st)
{
    struct tw_listing *l = w->l;
    if (l->count == l->room) {
        const size_t room = l->room ? l->room * 2 : 256;
        void *e = tw_reallocarray(l->entry, room, sizeof *l->entry);
        void *s = e ? tw_reallocarray(l->state, room, sizeof *l->state) : NULL;
        l->entry = e ? e : l->entry;
        l->state = s ? s : l->state;
        if (!s)
            goto fail;
        l->room = room;
    }
    if (!path)
        goto fail;
    if (l->count == TW_SNAPSHOT_MOST) {
        twin_error_set(w->err, TWIN_ELIMIT, "more than %d files: take snapshots of folders in it",
                       TW_SNAPSHOT_MOST);
        goto fail;
    }
    l->state[l->count] = tw_file_state(st);
    l->entry[l->count++] = (struct twin_snapshot_entry){
        kind,
        path,
        target,
        st->st_mode & 07777,
        kind == TWIN_SNAPSHOT_FILE ? (uint64_t)st->st_size : 0,
        {0}};
    return 0;
fail:
    tw_free(path);
    tw_free(target);
    return w->err && w->err->code ? w->err->code : tw_no_memory(w->err, "for the list of files");
}

/* Has a folder listed later. Takes path over. 0, TWIN_ENOMEM or TWIN_ELIMIT. */
static int queue_folder(struct walk *w, char *path, size_t parent, const struct stat *st)
{
    assert(parent < w->folders || w->folders == 0);
    if (w->folders == w->room) {
        const size_t room = w->room ? w->room * 2 : 64;
        void *f = tw_reallocarray(w->folder, room, sizeof *w->folder);
        if (!f) {
            tw_free(path);
            return tw_no_memory(w->err, "for the list of files");
        }
        w->folder = f;
        w->room = room;
    }
    if (w->folders == TW_SNAPSHOT_MOST) {
        tw_free(path);
        return twin_error_set(w->err, TWIN_ELIMIT,
                              "more than %d folders: take snapshots of folders in it",
                              TW_SNAPSHOT_MOST);
    }
    w->folder[w->folders++] = (struct folder){path, parent, st->st_dev, st->st_ino};
    return 0;
}

/* Where a link leads to, as it is written there; NULL with errno. */
static char *read_link(struct walk *w, const char *path)
{
    char target[PATH_MAX];
    const ssize_t n = readlinkat(w->root, path, target, sizeof target - 1);
    return n < 0 ? NULL : tw_strndup(target, (size_t)n);
}

/* Where a link to a folder leads: into the tree, elsewhere, or to a folder that holds this one. */
enum { INSIDE, ELSEWHERE, AROUND };
static int leads(struct walk *w, const char *path, size_t parent, const struct stat *st)
{
    char *full = tw_path_join(w->real, path), *real = full ? realpath(full, NULL) : NULL;
    const size_t n = strlen(w->real), m = real ? strlen(real) : 0;
    int rc = ELSEWHERE;
    if (real && strncmp(real, w->real, n) == 0 && (real[n] == '/' || real[n] == '\0' || n == 1))
        rc = INSIDE;
    else if (real && strncmp(real, w->real, m) == 0 && (w->real[m] == '/' || m == 1))
        rc = AROUND;
    for (size_t i = parent; rc == ELSEWHERE && i > 0; i = w->folder[i].parent)
        if (w->folder[i].device == st->st_dev && w->folder[i].inode == st->st_ino)
            rc = AROUND;
    free(real);
    tw_free(full);
    return rc;
}

/* Why a thing has no digest, by its kind. */
static const char *special_kind(mode_t mode)
{
    if (S_ISFIFO(mode))
        return "a named pipe: nothing to digest; --exclude leaves it out";
    if (S_ISSOCK(mode))
        return "a socket: nothing to digest; --exclude leaves it out";
    return "a device: nothing to digest; --exclude leaves it out";
}

/* A link: a file, a mark for a folder or for nothing, a folder to be followed, or trouble. Takes
 * path over. */
static int take_link(struct walk *w, char *path, size_t parent, const struct stat *link)
{
    struct stat st;
    char *target = read_link(w, path);
    if (!target) {
        tell_trouble(w, path, strerror(errno));
        tw_free(path);
        return 0;
    }
    if (fstatat(w->root, path, &st, 0) != 0) {
        if (errno == ENOENT || errno == ELOOP)
            return add_entry(w, TWIN_SNAPSHOT_LINK, path, target, link);
        tell_trouble(w, path, strerror(errno));
    } else if (S_ISREG(st.st_mode)) {
        return add_entry(w, TWIN_SNAPSHOT_FILE, path, target, &st);
    } else if (S_ISDIR(st.st_mode)) {
        const int where = leads(w, path, parent, &st);
        if (where == INSIDE)
            return add_entry(w, TWIN_SNAPSHOT_LINK, path, target, link);
        if (where == ELSEWHERE && w->o->follow) {
            tw_free(target);
            return queue_folder(w, path, parent, &st);
        }
        tell_trouble(w, path,
                     where == AROUND
                         ? "leads to a folder that holds it: a loop; --exclude leaves it out"
                         : "leads to a folder elsewhere: --follow reads what is there, "
                           "--exclude leaves it out");
    } else {
        tell_trouble(w, path, special_kind(st.st_mode));
    }
    tw_free(path);
    tw_free(target);
    return 0;
}

/* One name in a folder. *counts: something of it is in the snapshot, so that the folder is not
 * empty. */
static int take_name(struct walk *w, size_t in, const char *name, bool *counts)
{
    assert(in < w->folders);
    struct stat st;
    char *path = w->folder[in].path[0] ? tw_printf("%s/%s", w->folder[in].path, name)
                                       : tw_strdup(name);
    if (!path)
        return tw_no_memory(w->err, "for the list of files");
    if (fstatat(w->root, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        tell_trouble(w, path,
                     errno == ENOENT ? "went away while the folder was read" : strerror(errno));
        tw_free(path);
        return 0;
    }
    const bool is_not_this = w->has_not_this && S_ISREG(st.st_mode) &&
                             st.st_dev == w->not_this.device && st.st_ino == w->not_this.inode;
    bool excluded = is_not_this;
    int rc = excluded ? 0 : look_for_exclusion(w, path, S_ISDIR(st.st_mode), &excluded);
    if (rc != 0 || excluded) {
        tw_free(path);
        return rc;
    }
    *counts = true;
    if (S_ISREG(st.st_mode))
        return add_entry(w, TWIN_SNAPSHOT_FILE, path, NULL, &st);
    if (S_ISDIR(st.st_mode))
        return queue_folder(w, path, in, &st);
    if (S_ISLNK(st.st_mode))
        return take_link(w, path, in, &st);
    tell_trouble(w, path, special_kind(st.st_mode));
    tw_free(path);
    return 0;
}

/* Lists folder i of the list. Links on its path may be followed here: only those that the walk
 * itself took are on it. */
static int list_folder(struct walk *w, size_t i)
{
    const char *shown = w->folder[i].path[0] ? w->folder[i].path : ".";
    int fd = openat(w->root, shown, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct stat st;
    bool counts = false;
    if (!d) {
        tell_trouble(w, shown, strerror(errno));
        if (fd >= 0)
            close(fd);
        return 0;
    }
    errno = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d)); errno = 0)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = take_name(w, i, e->d_name, &counts);
    if (rc == 0 && errno != 0)
        tell_trouble(w, shown, strerror(errno));
    if (rc == 0 && !counts && i > 0 && fstat(fd, &st) == 0)
        rc = add_entry(w, TWIN_SNAPSHOT_FOLDER, tw_strdup(w->folder[i].path), NULL, &st);
    closedir(d);
    return rc;
}

/* An entry with its state, which are sorted together. */
struct both {
    struct twin_snapshot_entry entry;
    struct tw_file_state state;
};

static int by_path(const void *x, const void *y)
{
    return strcmp(((const struct both *)x)->entry.path, ((const struct both *)y)->entry.path);
}

/* Entries by path as bytes. The walk found them in another order. */
static int sort_entries(struct walk *w)
{
    struct tw_listing *l = w->l;
    struct both *b = tw_reallocarray(NULL, l->count + 1, sizeof *b);
    if (!b)
        return tw_no_memory(w->err, "for the list of files");
    for (size_t i = 0; i < l->count; i++)
        b[i] = (struct both){l->entry[i], l->state[i]};
    qsort(b, l->count, sizeof *b, by_path);
    for (size_t i = 0; i < l->count; i++) {
        l->entry[i] = b[i].entry;
        l->state[i] = b[i].state;
    }
    tw_free(b);
    return 0;
}

int tw_listing_take(const char *dir, const struct twin_snapshot_options *o, char *const *exclude,
                    struct tw_listing *out, struct twin_error *err)
{
    struct twin_error own = TWIN_ERROR_INIT;
    struct walk w = {.l = out, .o = o, .exclude = exclude, .root = -1, .err = err ? err : &own};
    struct stat st;
    int rc;
    *out = (struct tw_listing){0};
    w.real = realpath(dir, NULL);
    w.root = w.real ? open(w.real, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (w.root < 0 || fstat(w.root, &st) != 0) {
        rc = twin_error_system(w.err, "the folder %s cannot be read", dir);
    } else {
        rc = queue_folder(&w, tw_strdup(""), 0, &st);
        if (rc == 0 && !w.folder[0].path)
            rc = tw_no_memory(w.err, "for the list of files");
    }
    if (rc == 0 && o->not_this && stat(o->not_this, &st) == 0) {
        w.has_not_this = true;
        w.not_this = tw_file_state(&st);
    }
    for (size_t i = 0; i < w.folders && rc == 0; i++)
        rc = list_folder(&w, i);
    rc = rc ? rc : sort_entries(&w);
    for (size_t i = 0; i < w.folders; i++)
        tw_free(w.folder[i].path);
    tw_free(w.folder);
    if (w.root >= 0)
        close(w.root);
    free(w.real);
    if (rc)
        tw_listing_free(out);
    return rc;
}

void tw_listing_free(struct tw_listing *l)
{
    for (size_t i = 0; i < l->count; i++) {
        tw_free(l->entry[i].path);
        tw_free(l->entry[i].target);
    }
    tw_free(l->entry);
    tw_free(l->state);
    tw_free(l->first_trouble);
    *l = (struct tw_listing){0};
}
