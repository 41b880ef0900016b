/* SPDX-License-Identifier: Apache-2.0 */
/* Which files the job wrote, with their digests: evidence of last resort, for jobs that no agent
 * can look into. launch.c takes a snapshot of the working folder before the job (tw_snapshot_take)
 * and compares after it (tw_snapshot_compare), which fills run->files.
 *
 * The tree below the working folder is listed before and after; what is new, or differs in size,
 * modification time or inode, was written. Breadth first, so that a cap cuts off the depths and not
 * the results beside the script. Links are not followed, other file systems not entered. Folders
 * such as .git are skipped, and so is all that twinrun keeps itself. Places outside of the working
 * folder are looked at by outside.c and opened.c, which give what they find back to this file. */
#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One regular file or symbolic link of the tree as it was listed. */
struct file_entry {
    char *path; /* relative */
    uint64_t bytes, inode;
    int64_t mtime_ns, ctime_ns;
};

/* The tree at one moment. truncated: a cap was reached, so a file that is missing here may have
 * been there. */
struct tw_snapshot {
    char *dir;
    struct file_entry *entries;
    size_t count; /* sorted by path */
    bool truncated;
    int64_t taken_ns; /* realtime */
};

/* A folder that is still to be listed. path: relative to the root, "" for the root itself; owned.
 */
struct folder {
    char *path;
    int depth;
};

/* A folder known by device and inode, so that it is recognised under every name. */
struct place {
    bool exists;
    dev_t device;
    ino_t inode;
};

/* State of one tw_snapshot_take(). looked_at counts names of every kind, against TW_FILES_MAX. */
struct walk {
    struct tw_snapshot *s;
    struct folder *queue;
    size_t queued;
    dev_t device;
    struct place home, cache; /* twinrun's own: what lies there is not the job's */
    bool root_is_home;
    size_t looked_at;
};

bool tw_files_is_bulk(const char *name)
{
    static const char *const names[] = {".git",        ".hg",   ".svn",    "node_modules",
                                        "__pycache__", ".venv", ".twinrun"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static struct place place_of(const char *path)
{
    struct stat st;
    if (!path || stat(path, &st) != 0)
        return (struct place){.exists = false};
    return (struct place){.exists = true, .device = st.st_dev, .inode = st.st_ino};
}

static bool is_place(const struct place *p, const struct stat *st)
{
    return p->exists && p->device == st->st_dev && p->inode == st->st_ino;
}

static int64_t ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The home may be the working folder itself, where the job keeps files, too (TensorBoard's folder
 * is called runs as well). What lies there is told apart by what only we make: the three folders of
 * every run, the ledger and the key that hides secrets. */
static bool is_of_home(const struct walk *w, const struct folder *in, int fd, const char *name)
{
    static const char *const parts[] = {"ranks", "worlds", "telemetry"};
    if (!w->root_is_home)
        return false;
    if (in->path[0] == '\0')
        return tw_starts(name, "ledger.db") || strcmp(name, "redaction.key") == 0;
    bool ours = strcmp(in->path, "runs") == 0;
    for (size_t i = 0; ours && i < sizeof parts / sizeof parts[0]; i++) {
        char *path = tw_printf("%s/%s", name, parts[i]);
        struct stat st;
        ours = path && fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
        tw_free(path);
    }
    return ours;
}

/* Looks at one name of folder `in` (open as fd): a file becomes an entry, a folder is queued. */
static int take_name(struct walk *w, const struct folder *in, int fd, const char *name,
                     struct twin_error *err)
{
    struct stat st;
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode)))
        return 0; /* gone meanwhile, or no content of its own */
    if (is_of_home(w, in, fd, name))
        return 0;
    if (S_ISDIR(st.st_mode)) {
        bool is_ours = is_place(&w->home, &st) || is_place(&w->cache, &st);
        if (tw_files_is_bulk(name) || is_ours || st.st_dev != w->device)
            return 0;
        if (in->depth + 1 > TW_FILES_DEPTH) {
            w->s->truncated = true;
            return 0;
        }
    }
    char *path = in->path[0] ? tw_printf("%s/%s", in->path, name) : tw_strdup(name);
    if (!path)
        return tw_no_memory(err, "listing the working folder");
    int rc = S_ISDIR(st.st_mode)
                 ? tw_launch_grow(&w->queue, w->queued, sizeof *w->queue, err)
                 : tw_launch_grow(&w->s->entries, w->s->count, sizeof *w->s->entries, err);
    if (rc) {
        tw_free(path);
        return rc;
    }
    if (S_ISDIR(st.st_mode))
        w->queue[w->queued++] = (struct folder){path, in->depth + 1};
    else
        w->s->entries[w->s->count++] = (struct file_entry){path, (uint64_t)st.st_size, st.st_ino,
                                                           ns(st.st_mtim), ns(st.st_ctim)};
    return 0;
}

/* Lists one folder. One that cannot be opened counts as empty. */
static int list_folder(struct walk *w, int root, const struct folder *f, struct twin_error *err)
{
    int fd = openat(root, f->path[0] ? f->path : ".",
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    int rc = 0;
    if (!d) {
        if (fd >= 0)
            close(fd);
        return 0; /* not readable for us: nothing to say about it */
    }
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (w->looked_at++ == TW_FILES_MAX) {
            w->s->truncated = true;
            break;
        }
        rc = take_name(w, f, fd, e->d_name, err);
    }
    closedir(d);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file_entry *)a)->path, ((const struct file_entry *)b)->path);
}

/* home: of twinrun, left out. NULL on failure, with err set. The result is the caller's
 * (tw_snapshot_free). */
struct tw_snapshot *tw_snapshot_take(const char *dir, const char *home, struct twin_error *err)
{
    struct stat st;
    struct walk w = {.s = tw_calloc(1, sizeof *w.s)};
    int root = -1, rc = w.s ? 0 : tw_no_memory(err, "listing the working folder");
    if (rc == 0) {
        w.s->dir = tw_strdup(dir);
        w.s->taken_ns = tw_realtime_ns();
        root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (!w.s->dir)
            rc = tw_no_memory(err, "listing the working folder");
        else if (root < 0)
            rc = twin_error_system(err, "cannot list the working folder %s", dir);
    }
    if (rc == 0 && fstat(root, &st) == 0) {
        char *cache = tw_cache_folder();
        w.device = st.st_dev;
        w.home = place_of(home);
        w.cache = place_of(cache);
        w.root_is_home = is_place(&w.home, &st);
        tw_free(cache);
    }
    if (rc == 0 && (rc = tw_launch_grow(&w.queue, 0, sizeof *w.queue, err)) == 0) {
        char *top = tw_strdup("");
        rc = top ? 0 : tw_no_memory(err, "listing the working folder");
        if (top)
            w.queue[w.queued++] = (struct folder){top, 0};
    }
    for (size_t i = 0; rc == 0 && i < w.queued && !(w.s->truncated && w.looked_at > TW_FILES_MAX);
         i++) {
        struct folder f = w.queue[i]; /* by value: the queue moves when it grows */
        rc = list_folder(&w, root, &f, err);
    }
    for (size_t i = 0; i < w.queued; i++)
        tw_free(w.queue[i].path);
    tw_free(w.queue);
    if (root >= 0)
        close(root);
    if (rc != 0) {
        tw_snapshot_free(w.s);
        return NULL;
    }
    if (w.s->count > 1)
        qsort(w.s->entries, w.s->count, sizeof *w.s->entries, by_path);
    return w.s;
}

/* A stop signal that waits to be handled: hashing gigabytes is not what the user wants now. */
static bool interrupted(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
            sigismember(&pending, SIGHUP));
}

/* Fills out->sha256 and out->bytes. NULL, or why not: a constant text, or one of strerror() that
 * holds until its next call. Of a file that is shorter than `room`, `chunk` then holds all. */
static const char *hash_file(int root, const char *path, char *chunk, size_t room,
                             struct twin_run_file *out)
{
    int fd = openat(root, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return strerror(errno);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    const char *why = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 ? NULL
                                                                             : "out of memory";
    uint64_t at = 0;
    while (!why) {
        ssize_t n = tw_pread_all(fd, chunk, room, at);
        if (n < 0)
            why = strerror(errno);
        else if (n > 0 && EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
            why = "out of memory";
        else if (interrupted())
            why = "not hashed: interrupted";
        at += n > 0 ? (uint64_t)n : 0;
        /* a file that grows while we read it ends somewhere */
        if (n < (ssize_t)room || at > TW_FILES_HASH_BYTES)
            break;
    }
    if (!why) {
        tw_sha256_hex(ctx, out->sha256);
        out->bytes = at;
    }
    EVP_MD_CTX_free(ctx);
    close(fd);
    return why;
}

/* ---- copies of text: the next run may write the same file, and how two differ is told by their
 * lines */

#define KEPT_FILE_BYTES ((size_t)4 << 20) /* of one file */
#define KEPT_BYTES ((uint64_t)32 << 20)   /* of all of a run */

/* No NUL byte, and at most 1% of other control characters; escape, bell and backspace are usual in
 * logs. */
static bool is_text(const char *data, size_t n)
{
    size_t odd = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)data[i];
        if (ch == '\0')
            return false;
        odd += ch < 32 && !strchr("\t\n\r\f\033\b\a", ch);
    }
    return odd <= n / 100;
}

/* A copy with its secrets masked, that only its owner may read. One that cannot be made is a gap in
 * the evidence, no error. */
static void keep_text(const struct twin_run *run, struct twin_run_file *f, const char *data,
                      size_t n, uint64_t *kept)
{
    int pending = TW_SECRET_IN_FILE;
    if (n > KEPT_FILE_BYTES || n > KEPT_BYTES - *kept || !is_text(data, n))
        return;
    size_t room = n + n / 2 + 256;
    char *safe = tw_malloc(room);
    char *name = tw_printf("files/%zu", run->file_count);
    char *path = name ? tw_path_join(run->dir, name) : NULL;
    char *folder = tw_path_join(run->dir, "files");
    int fd = -1;
    if (safe && path && folder && (mkdir(folder, 0700) == 0 || errno == EEXIST))
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t length = fd >= 0 ? tw_secret_mask(&pending, data, n, safe, room) : 0;
    if (fd >= 0 && tw_write_all(fd, safe, length) == 0) {
        f->kept = name;
        name = NULL;
        *kept += length;
    }
    if (fd >= 0)
        close(fd);
    tw_free(folder);
    tw_free(path);
    tw_free(name);
    tw_free(safe);
}

/* How far a file's time may lie before ours although it was written later: file systems take the
 * time of the kernel's last tick, up to 10 ms back (HZ=100); this is twice that. */
#define CLOCK_TICK_NS 20000000
/* there is no first listing of places outside, and the run before may just have ended */
#define SHORT_TICK_NS 4000000

/* Did the job write this file? *existed and *bytes_before tell how it was before. */
static bool was_written(const struct tw_snapshot *before, const struct file_entry *now,
                        uint64_t *bytes_before, bool *existed)
{
    const struct file_entry *old =
        before->count ? bsearch(now, before->entries, before->count, sizeof *now, by_path) : NULL;
    *existed = old != NULL;
    *bytes_before = old ? old->bytes : 0;
    if (old)
        return old->bytes != now->bytes || old->mtime_ns != now->mtime_ns ||
               old->inode != now->inode;
    /* When the first listing was cut short, a file that it lacks may be an old one: then its times
     * must say so. The file system's clock ticks coarser than ours. */
    return !before->truncated || now->mtime_ns >= before->taken_ns - CLOCK_TICK_NS ||
           now->ctime_ns >= before->taken_ns - CLOCK_TICK_NS;
}

/*
 * ---- folders that took the next free number, as loggers make them: "version_1" beside "version_0"
 */

/* Names that are kept of one run. */
enum { FRESH_MAX = 100 };

/* The number at the end of a folder's path, -1 when there is none; *stem is where it begins. */
static long number_at_end(const char *path, size_t n, size_t *stem)
{
    size_t from = n;
    while (from > 0 && path[from - 1] >= '0' && path[from - 1] <= '9')
        from--;
    *stem = from;
    if (from == n || n - from > 6 || from == 0 || path[from - 1] == '/')
        return -1;
    return strtol(path + from, NULL, 10);
}

/* Was this the next free number of its stem when the job began? */
static bool took_next_number(const struct tw_snapshot *before, const char *path, size_t n)
{
    size_t stem;
    long number = number_at_end(path, n, &stem), highest = -1;
    bool bare = false;
    if (number < 0)
        return false;
    for (size_t i = 0; i < before->count; i++) {
        const char *old = before->entries[i].path;
        if (strncmp(old, path, stem) != 0)
            continue;
        size_t digits = strspn(old + stem, "0123456789");
        if (old[stem + digits] != '/')
            continue;
        long value = digits ? strtol(old + stem, NULL, 10) : -1;
        bare |= digits == 0;
        highest = value > highest ? value : highest;
    }
    if (highest >= 0)
        return number == highest + 1;
    return bare ? number == 1 || number == 2 : number == 0 || number == 1;
}

/* Adds the folders on the way to a new file that took the next free number to run->fresh_names,
 * each name once. A difference between two runs in such a name is noise. */
static int note_fresh_names(const struct tw_snapshot *before, struct twin_run *run,
                            const char *path, struct twin_error *err)
{
    for (const char *slash = strchr(path, '/'); slash && run->fresh_count < FRESH_MAX;
         slash = strchr(slash + 1, '/')) {
        size_t n = (size_t)(slash - path);
        if (!took_next_number(before, path, n))
            continue;
        const char *name = memrchr(path, '/', n);
        name = name ? name + 1 : path;
        size_t length = (size_t)(slash - name);
        bool known = false;
        for (size_t i = 0; i < run->fresh_count && !known; i++)
            known = strlen(run->fresh_names[i]) == length &&
                    strncmp(run->fresh_names[i], name, length) == 0;
        if (known)
            continue;
        int rc = tw_launch_grow(&run->fresh_names, run->fresh_count, sizeof *run->fresh_names, err);
        if (rc)
            return rc;
        if (!(run->fresh_names[run->fresh_count] = tw_strndup(name, length)))
            return tw_no_memory(err, "listing the working folder");
        run->fresh_count++;
    }
    return 0;
}

/* "twinrun check ... >log" in the working folder: what we print ourselves is not the job's. */
static bool is_our_output(uint64_t inode)
{
    for (int fd = 1; fd <= 2; fd++) {
        struct stat st;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == inode)
            return true;
    }
    return false;
}

/* "a symbolic link to step_900.pt", malloc'ed: it has no contents that could be hashed. NULL: no
 * link. */
static char *say_link(int root, const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(root, path, target, sizeof target);
    return n > 0 ? tw_printf("%s%.*s", TW_FILES_LINK, (int)n, target) : NULL;
}

/* What is read of a file at once: all of one that may be kept. */
enum { ROOM = KEPT_FILE_BYTES };

/* While the files that a run wrote are listed. */
struct listing {
    struct twin_run *run;
    const struct twin_launch_watcher *watcher;
    char *chunk;
    uint64_t hashed, kept;
    int root; /* the working folder */
    const struct tw_opened *opened;
};

/* Adds one file to the run: hashed, copied when it is text, shown to the watcher. A file that
 * cannot be hashed is listed with the reason. */
static int list_file(struct listing *l, struct twin_run_file file, const char *path,
                     struct twin_error *err)
{
    struct twin_run *run = l->run;
    int rc = tw_launch_grow(&run->files, run->file_count, sizeof *run->files, err);
    if (rc)
        return rc;
    struct twin_run_file *f = &run->files[run->file_count];
    *f = file;
    f->path = tw_strdup(path);
    if (!f->path)
        return tw_no_memory(err, "listing the working folder");
    run->file_count++;
    if ((f->why = say_link(l->root, path)))
        return 0;
    const char *why = "not hashed: the files written are more than 2 GiB in all";
    uint64_t left = TW_FILES_HASH_BYTES - l->hashed;
    if (f->bytes <= left)
        why = hash_file(l->root, path, l->chunk, ROOM, f);
    if (!why)
        l->hashed += f->bytes < left ? f->bytes : left;
    const bool copies = !l->watcher || !l->watcher->no_copies;
    if (!why && copies && f->bytes < ROOM) /* then the chunk holds all of it */
        keep_text(run, f, l->chunk, (size_t)f->bytes, &l->kept);
    if (!why && l->watcher && l->watcher->file)
        l->watcher->file(l->watcher->user, run, f);
    if (why && !(f->why = tw_strdup(why)))
        return tw_no_memory(err, "listing the working folder");
    return 0;
}

/* Is the file in the list already? The files of the working folder stand there with the path below
 * it, the others with their absolute path. */
static bool is_listed(const struct listing *l, const char *path)
{
    for (size_t i = 0; i < l->run->file_count; i++)
        if (strcmp(l->run->files[i].path, path) == 0)
            return true;
    return false;
}

/* For outside.c and opened.c, which call it with each file that they find. `user` is the struct
 * listing. */
static int list_outside(void *user, const char *path, uint64_t bytes, struct twin_error *err)
{
    struct listing *l = user;
    struct twin_run_file f = {.bytes = bytes, .bytes_before = tw_opened_before(l->opened, path)};
    size_t folder = strlen(l->run->cwd);
    f.existed_before = f.bytes_before > 0;
    /* what the listing did not reach */
    if (tw_path_lies_in(path, l->run->cwd) && path[folder] == '/')
        path += folder + 1;
    struct stat st;
    bool gone = fstatat(l->root, path, &st, AT_SYMLINK_NOFOLLOW) != 0;
    return gone || is_our_output(st.st_ino) || is_listed(l, path) ? 0 : list_file(l, f, path, err);
}

/*
 * Two ways of knowing a place outside: a word of the command, and what the agents saw being opened.
 */
static int list_elsewhere(struct listing *l, const char *home, int64_t since_ns,
                          struct twin_error *err)
{
    struct tw_opened opened;
    int rc = tw_opened_load(&opened, l->run, err);
    l->opened = &opened;
    if (rc == 0)
        rc = tw_outside_each(l->run, home, since_ns, list_outside, l, err);
    if (rc == 0)
        rc = tw_opened_each(&opened, home, since_ns, list_outside, l, err);
    if (opened.cut)
        tw_run_note(l->run,
                    "which files the job wrote outside of its working folder is not known in full");
    tw_opened_free(&opened);
    return rc;
}

/* Lists the folder again and adds what was written to run->files: first the files of the working
 * folder, then those elsewhere. When this fails, the run holds what was listed before. */
int tw_snapshot_compare(const struct tw_snapshot *before, struct twin_run *run, const char *home,
                        const struct twin_launch_watcher *watcher, struct twin_error *err)
{
    struct tw_snapshot *after = tw_snapshot_take(before->dir, home, err);
    struct listing l = {.run = run,
                        .watcher = watcher,
                        .chunk = tw_malloc(ROOM),
                        .root = open(before->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    int rc = 0;
    if (!after || !l.chunk)
        rc = err && err->code ? err->code : tw_no_memory(err, "listing the working folder");
    for (size_t i = 0; rc == 0 && i < after->count; i++) {
        const struct file_entry *e = &after->entries[i];
        struct twin_run_file f = {.bytes = e->bytes};
        if (!was_written(before, e, &f.bytes_before, &f.existed_before) || is_our_output(e->inode))
            continue;
        if (!f.existed_before)
            rc = note_fresh_names(before, run, e->path, err);
        if (rc == 0)
            rc = list_file(&l, f, e->path, err);
    }
    if (rc == 0)
        rc = list_elsewhere(&l, home, before->taken_ns - SHORT_TICK_NS, err);
    run->files_truncated = before->truncated || (after && after->truncated);
    if (l.root >= 0)
        close(l.root);
    tw_free(l.chunk);
    tw_snapshot_free(after);
    return rc;
}

int tw_snapshot_each_since(const char *dir, const char *home, int64_t since_ns, tw_outside_fn *each,
                           void *user, struct twin_error *err)
{
    /* one that we may not read: nothing is known of it */
    struct tw_snapshot *s = tw_snapshot_take(dir, home, NULL);
    int rc = 0;
    for (size_t i = 0; s && rc == 0 && i < s->count; i++) {
        const struct file_entry *e = &s->entries[i];
        if ((e->mtime_ns < since_ns && e->ctime_ns < since_ns) || is_our_output(e->inode))
            continue;
        char *path = tw_path_join(dir, e->path);
        rc = path ? each(user, path, e->bytes, err)
                  : tw_no_memory(err, "listing the working folder");
        tw_free(path);
    }
    tw_snapshot_free(s);
    return rc;
}

void tw_snapshot_free(struct tw_snapshot *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        tw_free(s->entries[i].path);
    tw_free(s->entries);
    tw_free(s->dir);
    tw_free(s);
}
