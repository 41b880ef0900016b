/* SPDX-License-Identifier: Apache-2.0 */
/* Which layout a target has, and Git LFS's and Hugging Face's held against the digests that they
 * name. DVC's: layout_dvc.c. */
#include "layout_inside.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is this name in the folder a folder, or a link to one? */
static bool is_folder(const char *folder, const char *name)
{
    struct stat st;
    char *path = tw_path_join(folder, name);
    const bool yes = path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    tw_free(path);
    return yes;
}

/* Nothing is opened but what the name alone leaves undecided. ../../blobs: the target is one
 * snapshot in the cache of Hugging Face. */
enum twin_layout twin_layout_of(const char *path, const char *head, size_t n)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct tw_lfs_pointer pointer;
    if (!head)
        return (is_folder(path, "blobs") && is_folder(path, "snapshots")) ||
                       is_folder(path, "../../blobs")
                   ? TWIN_LAYOUT_HUGGINGFACE
                   : TWIN_LAYOUT_NONE;
    if ((tw_ends(name, ".dvc") && strlen(name) > 4) || strcmp(name, "dvc.lock") == 0)
        return TWIN_LAYOUT_DVC;
    return tw_lfs_pointer_read(head, n, &pointer) ? TWIN_LAYOUT_LFS : TWIN_LAYOUT_NONE;
}

const char *twin_layout_name(enum twin_layout layout)
{
    static const char *const names[] = {"none", "DVC", "Git LFS", "Hugging Face"};
    _Static_assert(sizeof names / sizeof *names == TWIN_LAYOUT_HUGGINGFACE + 1, "a name for each");
    return (unsigned)layout < 4 ? names[layout] : "?";
}

void twin_layout_add(struct twin_layout_sum *s, const struct twin_layout_result *r)
{
    s->things++;
    s->files += r->files;
    s->bytes += r->bytes;
    if (r->outcome == TWIN_LAYOUT_UNKNOWN)
        s->unknown++;
    if (!s->scheme || strcmp(s->scheme, r->scheme) == 0)
        s->scheme = r->scheme;
    else
        s->scheme = "sha256 and git";
}

enum twin_layout_outcome twin_layout_together(const struct twin_layout_sum *s, long differences)
{
    if (differences)
        return TWIN_LAYOUT_CHANGED;
    return s->things == s->unknown ? TWIN_LAYOUT_UNKNOWN : TWIN_LAYOUT_SAME;
}

void tw_look_tell(struct tw_look *l, const struct twin_layout_result *r)
{
    l->differences += r->outcome == TWIN_LAYOUT_CHANGED || r->outcome == TWIN_LAYOUT_MISSING ||
                      r->outcome == TWIN_LAYOUT_ADDED;
    l->visit(l->user, r);
}

/* The cache belongs to the folder's real path: two ways to it share what they know. All files that
 * cannot be read are told before the first of them becomes the error. */
int tw_look_hash(struct tw_look *l, const char *dir, struct tw_hash_item *item, size_t n)
{
    char *real = realpath(dir, NULL);
    struct tw_hash_work w = {.root = real ? open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1,
                             .item = item,
                             .count = n,
                             .paranoid = l->o->paranoid,
                             .threads = l->o->threads,
                             .progress = l->o->progress,
                             .user = l->o->user};
    int rc = w.root < 0 ? twin_error_system(l->err, "the folder %s cannot be read", dir) : 0;
    if (rc == 0) {
        w.cache = tw_hash_cache_open(real);
        rc = tw_hash_files(&w, l->err);
        tw_hash_cache_close(w.cache);
        close(w.root);
    }
    free(real);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (item[i].why && l->o->trouble)
            l->o->trouble(l->o->user, item[i].path, item[i].why);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (item[i].why)
            rc = twin_error_set(l->err, TWIN_EIO, "%s/%s: %s", dir, item[i].path, item[i].why);
    return rc;
}

long twin_layout_verify(enum twin_layout layout, const char *target, const char *other,
                        const struct twin_snapshot_options *o,
                        void (*visit)(void *, const struct twin_layout_result *), void *user,
                        struct twin_error *err)
{
    struct twin_error own = TWIN_ERROR_INIT;
    struct tw_look l = {.o = o, .visit = visit, .user = user, .err = err ? err : &own};
    int rc;
    if (layout == TWIN_LAYOUT_DVC)
        rc = tw_look_dvc(&l, target);
    else if (layout == TWIN_LAYOUT_LFS)
        rc = tw_look_lfs(&l, target, other);
    else
        rc = tw_look_huggingface(&l, target);
    return rc ? rc : l.differences;
}

/* ---- Git LFS */

/* Moves behind the word if the text begins with it. */
static bool take_word(const char **p, const char *end, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(end - *p) < n || memcmp(*p, word, n) != 0)
        return false;
    *p += n;
    return true;
}

/* A pointer has a version and then lines in the order of their keys; "ext-" lines belong to filters
 * and say nothing about the object. What is not exactly so is no pointer: it is data. */
bool tw_lfs_pointer_read(const char *text, size_t n, struct tw_lfs_pointer *out)
{
    const char *p = text, *end = text + n;
    bool sha256 = false, size = false;
    if (n > TW_LFS_POINTER_MAX ||
        (!take_word(&p, end, "version https://git-lfs.github.com/spec/v1\n") &&
         !take_word(&p, end, "version https://hawser.github.com/spec/v1\n")))
        return false;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop)
            return false;
        if (take_word(&p, stop, "oid sha256:")) {
            if (sha256 || stop - p != 64 || tw_hex_span(p) != 64)
                return false;
            memcpy(out->sha256, p, 64);
            out->sha256[64] = '\0';
            sha256 = true;
        } else if (take_word(&p, stop, "size ")) {
            char digits[24] = "";
            if (size || stop - p >= 20 || stop == p)
                return false;
            memcpy(digits, p, (size_t)(stop - p));
            size = tw_parse_u64(digits, INT64_MAX, &out->bytes) == 0;
            if (!size)
                return false;
        } else if (!take_word(&p, stop, "ext-")) {
            return false;
        }
        p = stop + 1;
    }
    return sha256 && size;
}

/* The object in the .git of the repository that the pointer lies in. NULL: not found (err set). */
static char *find_object(const char *pointer, const char *sha256, struct twin_error *err)
{
    char *at = realpath(pointer, NULL), *out = NULL;
    struct stat st;
    for (char *slash; at && !out && (slash = strrchr(at, '/'));) {
        *slash = '\0';
        char *path = tw_printf("%s/.git/lfs/objects/%.2s/%.2s/%s", at, sha256, sha256 + 2, sha256);
        if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            out = path;
        else
            tw_free(path);
    }
    free(at);
    if (!out)
        twin_error_set(err, TWIN_ENOENT,
                       "%s is a pointer, and its object %.12s... is in no .git/lfs above it: git "
                       "lfs pull, or name the file that it stands for",
                       pointer, sha256);
    return out;
}

/* The object is held against the pointer by size and digest; a size that is off alone is said, as
 * no change of the data explains it. */
int tw_look_lfs(struct tw_look *l, const char *pointer, const char *other)
{
    char *data = NULL, hex[65];
    size_t n = 0;
    struct tw_lfs_pointer p;
    int rc = tw_read_file(pointer, TW_LFS_POINTER_MAX, &data, &n, l->err);
    if (rc == 0 && !tw_lfs_pointer_read(data, n, &p))
        rc = twin_error_set(
            l->err, TWIN_EFORMAT,
            "%s: expected a pointer of Git LFS (version, oid sha256:, size), found something else",
            pointer);
    tw_free(data);
    if (rc)
        return rc;
    char *file = other ? tw_strdup(other) : find_object(pointer, p.sha256, l->err);
    char *slash = file ? strrchr(file, '/') : NULL;
    char *dir = NULL;
    if (slash)
        dir = tw_strndup(file, (size_t)(slash - file) + (slash == file));
    else if (file)
        dir = tw_strdup(".");
    if (!dir)
        rc = l->err->code ? l->err->code : tw_no_memory(l->err, "looking at a repository of data");
    struct tw_hash_item item = {
        .path = slash ? slash + 1 : file, .kind = TW_HASH_SHA256, .link = true};
    struct stat st;
    if (rc == 0 && stat(file, &st) != 0)
        rc = twin_error_system(l->err, "cannot read %s", file);
    if (rc == 0) {
        item.state = tw_file_state(&st);
        rc = tw_look_hash(l, dir, &item, 1);
    }
    if (rc == 0) {
        tw_hex(item.digest, 32, hex);
        const bool same = strcmp(hex, p.sha256) == 0 && item.state.bytes == p.bytes;
        tw_look_tell(l, &(struct twin_layout_result){same ? TWIN_LAYOUT_SAME : TWIN_LAYOUT_CHANGED,
                                                     file, "sha256", p.sha256, hex, 1,
                                                     item.state.bytes,
                                                     same || strcmp(hex, p.sha256) != 0
                                                         ? NULL
                                                         : "its size is not that of the pointer"});
    }
    tw_free(item.why);
    tw_free(file);
    tw_free(dir);
    return rc;
}

/* ---- Hugging Face: snapshots/<commit>/<path> are links to blobs/<hash>; the hash is the blob's
 * SHA-256 or, for small files, git's */

/* Digests what was listed below dir and holds it against the names of the blobs. A link's own name
 * does not matter, that of the blob it leads to is the hash: 64 digits are SHA-256, 40 are
 * git's. */
static int look_at_links(struct tw_look *l, const char *dir, const struct tw_listing *list)
{
    struct tw_hash_item *item = tw_calloc(list->count + 1, sizeof *item);
    if (!item)
        return tw_no_memory(l->err, "for %zu files", list->count);
    for (size_t i = 0; i < list->count; i++) {
        const struct twin_snapshot_entry *e = &list->entry[i];
        const char *from = e->target ? e->target : e->path;
        const char *slash = strrchr(from, '/');
        const char *name = slash ? slash + 1 : from;
        item[i] = (struct tw_hash_item){
            .path = e->path,
            .kind = strlen(name) == 64 ? TW_HASH_SHA256 : TW_HASH_GIT_SHA1,
            .link = e->target != NULL,
            .skip = e->kind != TWIN_SNAPSHOT_FILE || !tw_is_git_hash(name),
            .state = list->state[i]};
    }
    int rc = tw_look_hash(l, dir, item, list->count);
    for (size_t i = 0; i < list->count && rc == 0; i++) {
        const struct twin_snapshot_entry *e = &list->entry[i];
        const char *from = e->target ? e->target : e->path;
        const char *slash = strrchr(from, '/');
        const char *name = slash ? slash + 1 : from;
        char hex[65];
        struct twin_layout_result r = {.path = e->path,
                                       .scheme = strlen(name) == 64 ? "sha256" : "git",
                                       .expected = tw_is_git_hash(name) ? name : NULL};
        if (e->kind == TWIN_SNAPSHOT_FOLDER)
            continue;
        if (e->kind == TWIN_SNAPSHOT_LINK) {
            r.outcome = TWIN_LAYOUT_MISSING;
            r.why = "its blob is not there";
        } else if (item[i].skip) {
            r.outcome = TWIN_LAYOUT_UNKNOWN;
            r.why = "not named by a hash, nor a link to a blob: nothing to hold it against";
        } else {
            tw_hex(item[i].digest, tw_hash_size(item[i].kind), hex);
            r.found = hex;
            r.files = 1;
            r.bytes = item[i].state.bytes;
            r.outcome = strcmp(hex, name) == 0 ? TWIN_LAYOUT_SAME : TWIN_LAYOUT_CHANGED;
        }
        tw_look_tell(l, &r);
    }
    for (size_t i = 0; i < list->count; i++)
        tw_free(item[i].why);
    tw_free(item);
    return rc;
}

/* What is still being loaded and what is known to be missing is no data, so it is left out. */
int tw_look_huggingface(struct tw_look *l, const char *folder)
{
    char *exclude[] = {(char *)"*.incomplete", (char *)"*.lock", (char *)".no_exist/", NULL};
    struct twin_snapshot_options o = *l->o;
    struct tw_listing list;
    o.follow = false;
    o.not_this = NULL;
    if (!is_folder(folder, "blobs")) { /* one snapshot */
        int rc = tw_listing_take(folder, &o, exclude, &list, l->err);
        rc = rc ? rc : look_at_links(l, folder, &list);
        tw_listing_free(&list);
        return rc;
    }
    /* The whole repository: each blob once, and links that lead nowhere. */
    char *blobs = tw_path_join(folder, "blobs"), *snapshots = tw_path_join(folder, "snapshots");
    int rc = blobs && snapshots ? tw_listing_take(blobs, &o, exclude, &list, l->err)
                                : tw_no_memory(l->err, "looking at a repository of data");
    if (rc == 0) {
        rc = look_at_links(l, blobs, &list);
        tw_listing_free(&list);
    }
    rc = rc ? rc : tw_listing_take(snapshots, &o, exclude, &list, l->err);
    for (size_t i = 0; rc == 0 && i < list.count; i++)
        if (list.entry[i].kind == TWIN_SNAPSHOT_LINK) {
            char *path = tw_path_join("snapshots", list.entry[i].path);
            tw_look_tell(l, &(struct twin_layout_result){.outcome = TWIN_LAYOUT_MISSING,
                                                         .path = path ? path : "?",
                                                         .scheme = "git",
                                                         .why = "its blob is not there"});
            tw_free(path);
        }
    if (rc == 0)
        tw_listing_free(&list);
    tw_free(blobs);
    tw_free(snapshots);
    return rc;
}

/* ---- what they call the data of a snapshot */

/* What the reader of a .dvc file is told to fill: ids of files below prefix. */
struct ids {
    struct twin_snapshot *s;
    const char *prefix;
    bool failed;
};

/* Notes what DVC calls an output. One with a working folder of its own may lie elsewhere and is
 * passed over; so is a text that is no MD5. */
static int add_dvc_id(void *user, const struct tw_dvc_out *out)
{
    struct ids *x = user;
    char *path = NULL;
    if (out->md5 && !out->wdir)
        path = *x->prefix ? tw_printf("%s/%s", x->prefix, out->path) : tw_strdup(out->path);
    if (path && strlen(out->md5) < 64 &&
        strspn(out->md5, "0123456789abcdef.dir") == strlen(out->md5))
        x->failed |= tw_snapshot_add_id(x->s, "dvc-md5", out->md5, path) != 0;
    tw_free(path);
    return 0;
}

/* The .dvc beside the folder names the folder itself. */
static int add_own_dvc_id(void *user, const struct tw_dvc_out *out)
{
    struct ids *x = user;
    if (out->md5 && !out->wdir && strcmp(out->path, x->prefix) == 0 &&
        strspn(out->md5, "0123456789abcdef.dir") == strlen(out->md5))
        x->failed |= tw_snapshot_add_id(x->s, "dvc-md5", out->md5, "") != 0;
    return 0;
}

/* What the folder itself is called: by a .dvc file beside it, or by its place in the cache of
 * Hugging Face. Only notes, so what cannot be read is passed over; 0 or TWIN_ENOMEM. */
static int add_own(struct twin_snapshot *s, const char *dir)
{
    char *real = realpath(dir, NULL), *file = real ? tw_printf("%s.dvc", real) : NULL, *data = NULL;
    size_t n = 0;
    bool failed = false;
    if (file && tw_read_file(file, 1 << 20, &data, &n, NULL) == 0) {
        struct twin_error ignored = TWIN_ERROR_INIT;
        struct ids x = {s, strrchr(real, '/') + 1, false};
        tw_dvc_read(data, n, file, false, add_own_dvc_id, &x, &ignored);
        failed |= x.failed;
    }
    tw_free(data);
    tw_free(file);
    /* .../models--org--name/snapshots/<commit> */
    char *commit = real ? strrchr(real, '/') : NULL;
    if (commit && tw_is_hex(commit + 1, 40)) {
        *commit = '\0';
        char *snapshots = strrchr(real, '/');
        if (snapshots && strcmp(snapshots, "/snapshots") == 0) {
            *snapshots = '\0';
            const char *repository = strrchr(real, '/');
            failed |= tw_snapshot_add_id(s, "huggingface-commit", commit + 1, "") != 0;
            if (repository && strstr(repository, "--") && !strpbrk(repository, " \n\r\\"))
                failed |= tw_snapshot_add_id(s, "huggingface-repository", repository + 1, "") != 0;
        }
    }
    free(real);
    return failed ? TWIN_ENOMEM : 0;
}

/* A pointer of Git LFS is at least 120 bytes, so smaller files are not opened for it. */
int tw_layout_add_ids(struct twin_snapshot *s, const char *dir, struct twin_error *err)
{
    bool failed = add_own(s, dir) != 0;
    for (size_t i = 0; i < s->count && !failed && s->id_count < 100000; i++) {
        const struct twin_snapshot_entry *e = &s->entry[i];
        const bool dvc = tw_ends(e->path, ".dvc") && e->bytes <= 1 << 20;
        const bool small = e->bytes >= 120 && e->bytes <= TW_LFS_POINTER_MAX;
        struct tw_lfs_pointer pointer;
        char *data = NULL, *path = NULL;
        size_t n = 0;
        if (e->kind != TWIN_SNAPSHOT_FILE || (!dvc && !small) ||
            !(path = tw_path_join(dir, e->path)) ||
            tw_read_file(path, 1 << 20, &data, &n, NULL) != 0) {
            tw_free(path);
            continue;
        }
        if (dvc) {
            struct twin_error ignored = TWIN_ERROR_INIT;
            const char *slash = strrchr(e->path, '/');
            char *prefix = tw_strndup(e->path, slash ? (size_t)(slash - e->path) : 0);
            struct ids x = {s, prefix ? prefix : "", prefix == NULL};
            tw_dvc_read(data, n, path, false, add_dvc_id, &x, &ignored);
            failed |= x.failed;
            tw_free(prefix);
        } else if (tw_lfs_pointer_read(data, n, &pointer)) {
            failed |= tw_snapshot_add_id(s, "lfs-pointer", pointer.sha256, e->path) != 0;
        }
        tw_free(data);
        tw_free(path);
    }
    return failed ? tw_no_memory(err, "for the ids of the data") : 0;
}
