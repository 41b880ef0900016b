/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of what lies on the disk, and how they compare with what was signed. */
#include "hashing.h"
#include "internal.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes that are read at a time, and how deep folders are followed. */
enum { CHUNK = 1 << 20, DEPTH = 200 };

/* Reads an open file to its end and hashes it; shown stands in messages. */
static int hash_open_file(int fd, const char *shown, char out[65], struct twin_error *err)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    char *chunk = tw_malloc(CHUNK);
    unsigned char digest[32];
    int rc = c && chunk && EVP_DigestInit_ex(c, EVP_sha256(), NULL) == 1
                 ? 0
                 : tw_no_memory(err, "reading %s", shown);
    while (rc == 0) {
        const ssize_t n = read(fd, chunk, CHUNK);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            rc = twin_error_system(err, "cannot read %s", shown);
        if (n > 0 && EVP_DigestUpdate(c, chunk, (size_t)n) != 1)
            rc = twin_error_set(err, TWIN_EIO, "SHA-256 of %s failed", shown);
    }
    if (rc == 0 && EVP_DigestFinal_ex(c, digest, NULL) != 1)
        rc = twin_error_set(err, TWIN_EIO, "SHA-256 of %s failed", shown);
    if (rc == 0)
        tw_hex(digest, sizeof digest, out);
    EVP_MD_CTX_free(c);
    tw_free(chunk);
    return rc;
}

/* Opens a file, makes sure that it is a regular one, and adds its digest. Non-blocking: a pipe put
 * in place of a file must not hang us. */
static int add_file(int at, const char *path, const char *shown, const char *name, bool follow,
                    struct twin_subjects *s, struct twin_error *err)
{
    char hex[65];
    struct stat st;
    int fd = openat(at, path,
                    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW));
    if (fd < 0)
        return twin_error_system(err, "cannot open %s", shown);
    int rc = fstat(fd, &st) != 0 ? twin_error_system(err, "cannot look at %s", shown) : 0;
    if (rc == 0 && !S_ISREG(st.st_mode))
        rc = twin_error_set(err, TWIN_EINVAL, "%s: expected a regular file, found something else",
                            shown);
    rc = rc ? rc : hash_open_file(fd, shown, hex, err);
    close(fd);
    return rc ? rc : twin_subjects_add(s, name, "sha256", hex, err);
}

int twin_subject_file(const char *path, const char *name, struct twin_subjects *s,
                      struct twin_error *err)
{
    return add_file(AT_FDCWD, path, path, name, true, s, err);
}

/* Is the path one of those left out, or below one? */
static bool skipped(const char *name, const char *const *skip, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t n = strlen(skip[i]);
        if (n && strncmp(name, skip[i], n) == 0 && (name[n] == '\0' || name[n] == '/'))
            return true;
    }
    return false;
}

/* The list that grows while a folder is walked. Files are listed first, then read side by side
 * (src/snapshot/hashing.h). Paths are relative to root, and the list owns them. */
struct walk {
    const char *root;
    char *real_root; /* when links may be followed: to files below it */
    const char *const *skip;
    size_t skip_count;
    struct tw_hash_item *item;
    size_t count, room;
};

static int walk_into(struct walk *w, int parent, const char *name, const char *relative, int depth,
                     struct twin_error *err);

/* Takes name over, also on error. */
static int add_item(struct walk *w, char *name, bool link, const struct stat *st,
                    struct twin_error *err)
{
    if (w->count == w->room) {
        const size_t room = w->room ? w->room * 2 : 64;
        struct tw_hash_item *list = tw_reallocarray(w->item, room, sizeof *list);
        if (!list) {
            tw_free(name);
            return tw_no_memory(err, "listing %s", w->root);
        }
        w->item = list;
        w->room = room;
    }
    w->item[w->count++] = (struct tw_hash_item){
        .path = name, .kind = TW_HASH_SHA256, .link = link, .state = tw_file_state(st)};
    return 0;
}

/* A link that may be followed: to a regular file below the same folder. */
static bool leads_inside(const struct walk *w, const char *shown, struct stat *st)
{
    char *real = w->real_root && stat(shown, st) == 0 && S_ISREG(st->st_mode)
                     ? realpath(shown, NULL)
                     : NULL;
    const size_t n = real ? strlen(w->real_root) : 0;
    const bool inside = real && strncmp(real, w->real_root, n) == 0 && real[n] == '/';
    free(real);
    return inside;
}

/* What a thing is that cannot be signed, for the message. */
static const char *refused_kind(bool link, bool links_followed)
{
    if (!link)
        return "a special file";
    if (links_followed)
        return "a symbolic link that does not lead to a file below the same folder";
    return "a symbolic link: what it leads to is not signed with it";
}

/* Looks at one entry of an open folder: goes into folders, lists files, refuses the rest. The look
 * is by name below an open descriptor, so that nobody can move the folder under it. */
static int take_entry(struct walk *w, int fd, const char *entry, const char *relative, int depth,
                      struct twin_error *err)
{
    struct stat st, target;
    char *name = *relative ? tw_printf("%s/%s", relative, entry) : tw_strdup(entry);
    char *shown = name ? tw_path_join(w->root, name) : NULL;
    int rc = 0;
    if (!shown)
        rc = tw_no_memory(err, "listing %s", w->root);
    else if (skipped(name, w->skip, w->skip_count))
        rc = 0;
    else if (fstatat(fd, entry, &st, AT_SYMLINK_NOFOLLOW) != 0)
        rc = twin_error_system(err, "cannot look at %s", shown);
    else if (S_ISDIR(st.st_mode))
        rc = walk_into(w, fd, entry, name, depth + 1, err);
    else if (S_ISREG(st.st_mode) || (S_ISLNK(st.st_mode) && leads_inside(w, shown, &target))) {
        rc = add_item(w, name, S_ISLNK(st.st_mode), S_ISLNK(st.st_mode) ? &target : &st, err);
        name = NULL;
    } else
        rc = twin_error_set(err, TWIN_EINVAL, "%s: expected files and folders, found %s", shown,
                            refused_kind(S_ISLNK(st.st_mode), w->real_root != NULL));
    tw_free(name);
    tw_free(shown);
    return rc;
}

/* Lists a folder, which `name` leads to below `parent`. No folder is entered by a link but the
 * first, which the user named. */
static int walk_into(struct walk *w, int parent, const char *name, const char *relative, int depth,
                     struct twin_error *err)
{
    int fd = -1;
    if (depth > DEPTH)
        errno = ELOOP;
    else
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int rc = twin_error_system(err, "cannot open the folder %s of %s",
                                   *relative ? relative : ".", w->root);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = 0;
    errno = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d)); errno = 0)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = take_entry(w, fd, e->d_name, relative, depth, err);
    if (rc == 0 && errno != 0)
        rc = twin_error_system(err, "cannot list the folder %s of %s", *relative ? relative : ".",
                               w->root);
    closedir(d);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct tw_hash_item *)a)->path, ((const struct tw_hash_item *)b)->path);
}

/* Reads all listed files and adds their digests in the order of the list. One that could not be
 * read is an error: a signature over the rest would look complete. */
static int hash_all(struct walk *w, struct twin_subjects *s, struct twin_error *err)
{
    char hex[65];
    struct tw_hash_work work = {.root = open(w->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                                .item = w->item,
                                .count = w->count};
    if (work.root < 0)
        return twin_error_system(err, "cannot open %s", w->root);
    int rc = tw_hash_files(&work, err);
    close(work.root);
    for (size_t i = 0; i < w->count && rc == 0; i++) {
        const struct tw_hash_item *x = &w->item[i];
        if (x->why)
            rc = twin_error_set(err, TWIN_EIO, "cannot read %s/%s: %s", w->root, x->path, x->why);
        else {
            tw_hex(x->digest, 32, hex);
            rc = twin_subjects_add(s, x->path, "sha256", hex, err);
        }
    }
    return rc;
}

int twin_subject_folder(const char *path, const char *const *skip, size_t skip_count, bool links,
                        struct twin_subjects *s, struct twin_error *err)
{
    struct walk w = {.root = path,
                     .real_root = links ? realpath(path, NULL) : NULL,
                     .skip = skip,
                     .skip_count = skip_count};
    int rc = walk_into(&w, AT_FDCWD, path, "", 0, err);
    if (rc == 0 && w.count > 0) {
        qsort(w.item, w.count, sizeof *w.item, by_path);
        rc = hash_all(&w, s, err);
    }
    for (size_t i = 0; i < w.count; i++) {
        tw_free((char *)(uintptr_t)w.item[i].path);
        tw_free(w.item[i].why);
    }
    tw_free(w.item);
    free(w.real_root);
    return rc;
}

/* ---- comparing */

/* Do two subjects agree under each algorithm that both have, and is there one? */
static bool same_digests(const struct twin_subject *a, const struct twin_subject *b)
{
    size_t common = 0;
    for (size_t i = 0; i < a->digest_count; i++)
        for (size_t j = 0; j < b->digest_count; j++)
            if (strcmp(a->digest[i].algorithm, b->digest[j].algorithm) == 0) {
                if (strcmp(a->digest[i].value, b->digest[j].value) != 0)
                    return false;
                common++;
            }
    return common > 0;
}

/* By name; equal names in the order of the list, so that they pair up the same way each time. */
static int by_pointed_name(const void *a, const void *b)
{
    const struct twin_subject *x = *(const struct twin_subject *const *)a;
    const struct twin_subject *y = *(const struct twin_subject *const *)b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

/* Pointers to the subjects in the order of their names. malloc'ed; NULL: no memory. */
static const struct twin_subject **sorted_subjects(const struct twin_subjects *s)
{
    const struct twin_subject **list = tw_calloc(s->count + 1, sizeof *list);
    for (size_t i = 0; list && i < s->count; i++)
        list[i] = &s->item[i];
    if (list)
        qsort(list, s->count, sizeof *list, by_pointed_name);
    return list;
}

/* Two sorted lists are walked in step. Out of memory counts as a change: a caller who only looks at
 * the number must not read it as agreement. */
size_t twin_subjects_match(const struct twin_subjects *signed_ones,
                           const struct twin_subjects *found, bool by_name,
                           void (*visit)(void *user, enum twin_subject_change c,
                                         const struct twin_subject *signed_one,
                                         const struct twin_subject *found),
                           void *user)
{
    size_t visits = 0, i = 0, j = 0;
    const struct twin_subject **a = sorted_subjects(signed_ones), **b = sorted_subjects(found);
    by_name = by_name || signed_ones->count != 1 || found->count != 1;
    while (a && b && (i < signed_ones->count || j < found->count)) {
        int order = 0;
        if (i == signed_ones->count)
            order = 1;
        else if (j == found->count)
            order = -1;
        else if (by_name)
            order = strcmp(a[i]->name, b[j]->name);
        const struct twin_subject *x = order <= 0 ? a[i++] : NULL;
        const struct twin_subject *y = order >= 0 ? b[j++] : NULL;
        if (x && y && same_digests(x, y))
            continue;
        if (!x)
            visit(user, TWIN_SUBJECT_ADDED, x, y);
        else
            visit(user, y ? TWIN_SUBJECT_CHANGED : TWIN_SUBJECT_MISSING, x, y);
        visits++;
    }
    if (!a || !b) { /* nothing was compared: nothing is said to agree */
        visit(user, TWIN_SUBJECT_MISSING, signed_ones->count ? &signed_ones->item[0] : NULL, NULL);
        visits++;
    }
    tw_free(a);
    tw_free(b);
    return visits;
}
