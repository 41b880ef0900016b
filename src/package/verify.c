/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a package what it was when it was made? From the outside in: the signature holds the tag
 * manifest, that holds the tag files, one of them is the payload's manifest, that holds every file.
 * A name that no list has is a finding as much as a file that has another digest.
 *
 * The lists are read first, then the folder is walked and each file in it is held against its line;
 * last come lines without a file. Whatever the folder holds is a finding; an error is only trouble
 * of ours (no memory, a folder that cannot be listed).
 *
 * Every file is read only once, since its name could be given to another file between two readings.
 * Where a private copy is wanted, it gets the same bytes that were hashed.
 */
#include "bag.h"

#include "base.h"

#include "src/package/package.h"
#include "src/sign/sign.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A tag file that was read, with the digest of its bytes. It is read once, since what it says and
 * its digest must be of the same bytes; the walk takes the digest from here. */
struct tag_read {
    const char *path;
    char sha256[65];
};
/* Most tag files that are read: a package has six at most. */
enum { TAGS_READ = 8 };

/* One verification. */
struct look {
    int root;
    int copy; /* folder of the private copy; -1: none is made */
    struct tag_read tag[TAGS_READ];
    size_t tags_read;
    const char *dir;
    const struct twin_bag_options *o;
    struct twin_bag_verdict *v;
    struct tw_manifest tags, payload;
    struct tw_fetch fetch;
    /* oxum_*: what bag-info.txt promises of the payload; payload_*: what was found, with the files
     * to fetch; seen_bytes: of all files so far, for progress */
    uint64_t oxum_bytes, oxum_files, seen_bytes, payload_bytes, payload_files;
    size_t entries;
    struct twin_error *err;
};

const char *twin_bag_change_name(enum twin_bag_change c)
{
    assert((unsigned)c <= TWIN_BAG_MALFORMED);
    static const char *const names[] = {"changed", "missing", "not listed", "not allowed",
                                        "malformed"};
    return names[c];
}

/* Adds a finding; the text is formatted as by printf. Returns 0, so that the walk goes on, or
 * TWIN_ENOMEM. */
static int add_finding(struct look *l, enum twin_bag_change c, const char *path, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));
static int add_finding(struct look *l, enum twin_bag_change c, const char *path, const char *format,
                       ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = tw_vprintf(format, ap), *name = tw_strdup(path);
    va_end(ap);
    struct twin_bag_finding *grown = tw_reallocarray(l->v->finding, l->v->findings + 1,
                                                     sizeof *grown);
    if (grown)
        l->v->finding = grown;
    if (!grown || !text || !name) {
        tw_free(text);
        tw_free(name);
        return tw_no_memory(l->err, "verifying %s", l->dir);
    }
    l->v->finding[l->v->findings++] = (struct twin_bag_finding){c, name, text};
    return 0;
}

/* What a failed reading of a tag file means: not there, malformed, or (no memory) an error of ours.
 * rc 0 is handed on. A finding gives 0, too. */
static int as_finding(struct look *l, const char *path, int rc, const struct twin_error *why)
{
    if (rc == TWIN_ENOMEM)
        return tw_no_memory(l->err, "verifying %s", l->dir);
    if (rc == TWIN_ENOENT)
        return add_finding(l, TWIN_BAG_MISSING, path, "not there");
    return rc ? add_finding(l, TWIN_BAG_MALFORMED, path, "%s", why->message) : 0;
}

/* ---- files */

/* Opens a new file for the copy of path. -1 with *rc 0: none is wanted, or none any more, since a
 * package with a finding is not used. */
static int open_copy(struct look *l, const char *path, int *rc)
{
    *rc = 0;
    /* more bytes than bag-info.txt promises: totals() will find that, so nothing more is copied */
    bool too_large = l->payload_bytes > l->oxum_bytes;
    if (l->copy < 0 || l->v->findings > 0 || too_large)
        return -1;
    const char *slash = strrchr(path, '/');
    char *parent = slash ? tw_strndup(path, (size_t)(slash - path)) : tw_strdup("");
    int dir = parent ? tw_folder_below(l->copy, parent) : -1;
    int to = -1;
    if (dir >= 0)
        to = openat(dir, slash ? slash + 1 : path,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        *rc = twin_error_system(l->err, "cannot write a copy of %s", path);
    if (dir >= 0)
        close(dir);
    tw_free(parent);
    return to;
}

/* Closes it; an error of closing counts when there was none before. */
static int close_copy(struct look *l, const char *path, int to, int rc)
{
    if (to >= 0 && close(to) != 0 && rc == 0)
        rc = twin_error_system(l->err, "cannot write a copy of %s", path);
    return rc;
}

/* Counts a file that was hashed, and compares its digest with its line e. */
static int judge_file(struct look *l, const char *path, struct tw_manifest_entry *e, uint64_t bytes,
                      const char *hex)
{
    e->seen = true;
    l->seen_bytes += bytes;
    if (tw_starts(path, "data/")) {
        l->payload_bytes += bytes;
        l->payload_files++;
    }
    if (l->o && l->o->progress)
        l->o->progress(l->o->user, l->seen_bytes, l->oxum_bytes);
    /* a file that was changed is not counted as good */
    if (strcmp(hex, e->sha256) != 0)
        return add_finding(l, TWIN_BAG_CHANGED, path, "expected sha256 %s, found %s", e->sha256,
                           hex);
    e->good = true;
    l->v->files++;
    l->v->bytes += bytes;
    return 0;
}

/* Hashes a file, and copies it. size: of fstat; a file that grows while it is read is a finding. */
static int check_file(struct look *l, int fd, uint64_t size, const char *path,
                      struct tw_manifest_entry *e)
{
    char hex[65];
    uint64_t bytes = 0;
    int rc;
    struct twin_error inner = TWIN_ERROR_INIT;
    struct tw_bag_copy copy = {.to = open_copy(l, path, &rc)};
    if (rc)
        return rc;
    e->seen = true;
    /* more bytes than fstat said are refused: the file is being written to */
    rc = tw_bag_sha256(fd, size, copy.to < 0 ? NULL : &copy, hex, &bytes, &inner);
    if (rc == TWIN_ENOMEM || copy.failed)
        rc = twin_error_set(l->err, rc, "%s: %s", path, inner.message);
    else if (rc)
        rc = add_finding(l, TWIN_BAG_CHANGED, path, "%s", inner.message);
    else
        rc = judge_file(l, path, e, bytes, hex);
    return close_copy(l, path, copy.to, rc);
}

/* The tag file of this path if it was read already; NULL: not. */
static const struct tag_read *tag_read(const struct look *l, const char *path)
{
    for (size_t i = 0; i < l->tags_read; i++)
        if (strcmp(l->tag[i].path, path) == 0)
            return &l->tag[i];
    return NULL;
}

/* Judges the file behind a descriptor, which is what counts, not its name looked up once more.
 * payload: it lies below data/, and cannot be larger than all of the payload. */
static int look_at_open(struct look *l, int fd, const char *path, bool payload,
                        struct tw_manifest_entry *e)
{
    struct stat st;
    const struct tag_read *tag = tag_read(l, path);
    e->seen = true;
    if (fstat(fd, &st) != 0)
        return add_finding(l, TWIN_BAG_CHANGED, path, "cannot be looked at: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return add_finding(l, TWIN_BAG_FORBIDDEN, path, "neither a file nor a folder");
    uint64_t size = (uint64_t)st.st_size;
    if (payload && size > l->oxum_bytes)
        return add_finding(l, TWIN_BAG_CHANGED, path,
                           "%llu bytes: larger than the whole payload ought to be",
                           (unsigned long long)size);
    /* what was parsed is what is judged: the file is not read a second time */
    if (tag)
        return judge_file(l, path, e, size, tag->sha256);
    return check_file(l, fd, size, path, e);
}

/* Judges a name that the walk found and that is no folder. The tag manifest and the signature are
 * in no list; they were read before. O_NONBLOCK: opening a pipe must not wait. */
static int look_at(struct look *l, int dir, const char *name, const char *path,
                   const struct stat *st)
{
    if (strcmp(path, TW_BAG_TAGMANIFEST) == 0 || strcmp(path, TW_BAG_SIGNATURE) == 0)
        return S_ISREG(st->st_mode)
                   ? 0
                   : add_finding(l, TWIN_BAG_FORBIDDEN, path, "expected a regular file");
    bool payload = tw_starts(path, "data/");
    struct tw_manifest_entry *e = tw_manifest_find(payload ? &l->payload : &l->tags, path);
    if (!S_ISREG(st->st_mode))
        return add_finding(l, TWIN_BAG_FORBIDDEN, path,
                           S_ISLNK(st->st_mode) ? "a link: a package holds none"
                                                : "neither a file nor a folder");
    if (!e)
        return add_finding(l, TWIN_BAG_EXTRA, path, "no manifest lists it");
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        e->seen = true;
        return add_finding(l, TWIN_BAG_CHANGED, path, "cannot be read: %s", strerror(errno));
    }
    int rc = look_at_open(l, fd, path, payload, e);
    close(fd);
    return rc;
}

static int walk_folder(struct look *l, int dir, const char *prefix, int depth);

/* One name of a folder: goes down, or judges it. depth is limited for the stack's sake, the number
 * of entries for the time's. */
static int walk_entry(struct look *l, int dir, const char *prefix, const char *name, int depth)
{
    struct stat st;
    char *path = *prefix ? tw_printf("%s/%s", prefix, name) : tw_strdup(name);
    int rc = path ? 0 : tw_no_memory(l->err, "verifying %s", l->dir);
    if (rc)
        return rc;
    if (++l->entries > 2 * TW_BAG_ENTRIES || depth > TW_BAG_DEPTH)
        rc = depth > TW_BAG_DEPTH ? add_finding(l, TWIN_BAG_FORBIDDEN, path,
                                                "more than %d folders deep", TW_BAG_DEPTH)
                                  : twin_error_set(l->err, TWIN_ELIMIT, "%s: more than %d entries",
                                                   l->dir, 2 * TW_BAG_ENTRIES);
    else if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        rc = add_finding(l, TWIN_BAG_CHANGED, path, "cannot be looked at: %s", strerror(errno));
    else if (S_ISDIR(st.st_mode)) {
        int sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        rc = sub < 0 ? add_finding(l, TWIN_BAG_CHANGED, path, "cannot be read: %s", strerror(errno))
                     : walk_folder(l, sub, path, depth + 1);
    } else {
        rc = look_at(l, dir, name, path, &st);
    }
    tw_free(path);
    return rc;
}

/* Goes through a folder; takes dir over. prefix: its path in the package, "" for the top. */
static int walk_folder(struct look *l, int dir, const char *prefix, int depth)
{
    DIR *d = fdopendir(dir);
    int rc = 0;
    if (!d) {
        rc = twin_error_system(l->err, "cannot list %s/%s", l->dir, prefix);
        close(dir);
        return rc;
    }
    size_t count = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        count++;
        rc = walk_entry(l, dirfd(d), prefix, e->d_name, depth);
    }
    /* no manifest lists folders: one without a file in it could be put there unseen */
    if (rc == 0 && count == 0 && *prefix)
        rc = add_finding(l, TWIN_BAG_EXTRA, prefix, "an empty folder: no manifest can list one");
    closedir(d);
    return rc;
}

/* ---- tag files */

/* A tag file goes into the copy from memory. */
static int copy_tag(struct look *l, const char *path, const char *text, size_t n)
{
    int rc;
    int to = open_copy(l, path, &rc);
    if (to >= 0 && tw_write_all(to, text, n) != 0)
        rc = twin_error_system(l->err, "cannot write a copy of %s", path);
    return close_copy(l, path, to, rc);
}

/* Reads a tag file whole. *ok: it could be read, and *text (tw_free) has it; without, a finding was
 * added. 0, or an error of ours. */
static int read_tag(struct look *l, const char *path, size_t cap, char **text, size_t *n, bool *ok)
{
    struct twin_error inner = TWIN_ERROR_INIT;
    struct tag_read *tag = &l->tag[l->tags_read];
    int rc = tw_bag_read(l->root, path, cap, text, n, &inner);
    *ok = rc == 0;
    if (rc)
        return as_finding(l, path, rc, &inner);
    if (l->tags_read == TAGS_READ)
        return twin_error_set(l->err, TWIN_ELIMIT, "%s: more tag files than a package has", l->dir);
    tag->path = path;
    l->tags_read++;
    rc = tw_bag_hash(*text, *n, tag->sha256, l->err);
    return rc ? rc : copy_tag(l, path, *text, *n);
}

/* bagit.txt has one form only, byte by byte. */
static int read_bagit(struct look *l)
{
    char *text;
    size_t n;
    bool ok;
    int rc = read_tag(l, "bagit.txt", 4096, &text, &n, &ok);
    if (rc == 0 && ok && (n != strlen(TW_BAGIT_TXT) || memcmp(text, TW_BAGIT_TXT, n) != 0))
        rc = add_finding(l, TWIN_BAG_MALFORMED, "bagit.txt",
                         "expected the two lines of BagIt 1.0 in UTF-8, found others");
    tw_free(text);
    return rc;
}

/* Reads a manifest. payload: that of data/, else that of the tag files; a line of the other kind,
 * or of a file that no manifest can list, is a finding. */
static int read_manifest(struct look *l, const char *path, struct tw_manifest *m, bool payload)
{
    char *text;
    size_t n;
    bool ok;
    struct twin_error inner = TWIN_ERROR_INIT;
    int rc = read_tag(l, path, TW_BAG_MANIFEST_MAX, &text, &n, &ok);
    if (rc == 0 && ok) {
        rc = as_finding(l, path, tw_manifest_parse(text, n, path, m, &inner), &inner);
        /* a manifest speaks only of its own half, and never of what holds it */
        for (size_t i = 0; i < m->count && rc == 0; i++)
            if (tw_starts(m->item[i].path, "data/") != payload ||
                strcmp(m->item[i].path, TW_BAG_TAGMANIFEST) == 0 ||
                strcmp(m->item[i].path, TW_BAG_SIGNATURE) == 0)
                rc = add_finding(l, TWIN_BAG_MALFORMED, path, "lists %s, which cannot stand there",
                                 m->item[i].path);
    }
    tw_free(text);
    return rc;
}

/* bag-info.txt tells how much the payload ought to be, before any of it is read. */
static int read_info(struct look *l)
{
    char *text;
    size_t n;
    bool ok;
    struct twin_error inner = TWIN_ERROR_INIT;
    int rc = read_tag(l, "bag-info.txt", 1 << 20, &text, &n, &ok);
    if (rc == 0 && ok)
        rc = as_finding(
            l, "bag-info.txt",
            tw_bag_info_parse(text, n, "bag-info.txt", &l->oxum_bytes, &l->oxum_files, &inner),
            &inner);
    tw_free(text);
    return rc;
}

/* fetch.txt may be absent when no manifest lists it. */
static int read_fetch(struct look *l)
{
    char *text;
    size_t n;
    bool ok;
    struct twin_error inner = TWIN_ERROR_INIT;
    if (faccessat(l->root, "fetch.txt", F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
        !tw_manifest_find(&l->tags, "fetch.txt"))
        return 0;
    int rc = read_tag(l, "fetch.txt", TW_BAG_MANIFEST_MAX, &text, &n, &ok);
    if (rc == 0 && ok)
        rc = as_finding(l, "fetch.txt", tw_fetch_parse(text, n, "fetch.txt", &l->fetch, &inner),
                        &inner);
    tw_free(text);
    return rc;
}

/* ---- what is not there */

/* Notes a file of the payload that is to be fetched; its digest is that of the manifest. */
static int fetch_later(struct look *l, const struct tw_fetch_entry *f,
                       const struct tw_manifest_entry *e)
{
    struct twin_bag_fetch *grown = tw_reallocarray(l->v->fetch, l->v->fetches + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(l->err, "verifying %s", l->dir);
    l->v->fetch = grown;
    struct twin_bag_fetch *x = &grown[l->v->fetches++];
    *x = (struct twin_bag_fetch){
        .url = tw_strdup(f->url), .path = tw_strdup(f->path), .bytes = f->bytes};
    memcpy(x->sha256, e->sha256, 65);
    return x->url && x->path ? 0 : tw_no_memory(l->err, "verifying %s", l->dir);
}

/* Lines without a file. A file that fetch.txt names counts as promised, unless it is there. */
static int find_missing(struct look *l)
{
    int rc = 0;
    for (size_t i = 0; i < l->fetch.count && rc == 0; i++) {
        struct tw_manifest_entry *e = tw_manifest_find(&l->payload, l->fetch.item[i].path);
        if (!e) {
            rc = add_finding(l, TWIN_BAG_MALFORMED, "fetch.txt",
                             "names %s, which no manifest lists", l->fetch.item[i].path);
        } else if (!e->seen) {
            e->seen = true;
            l->payload_bytes += l->fetch.item[i].bytes;
            l->payload_files++;
            rc = fetch_later(l, &l->fetch.item[i], e);
        }
    }
    /* each line of both manifests must have been met */
    const struct tw_manifest *both[] = {&l->tags, &l->payload};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < both[k]->count && rc == 0; i++)
            if (!both[k]->item[i].seen)
                rc = add_finding(l, TWIN_BAG_MISSING, both[k]->item[i].path,
                                 "listed in %s, not there",
                                 k ? "manifest-sha256.txt" : TW_BAG_TAGMANIFEST);
    return rc;
}

/* Holds the sums against bag-info.txt. After a finding they are not compared: a missing file would
 * be told twice. */
static int totals(struct look *l)
{
    if (l->v->findings || (l->payload_bytes == l->oxum_bytes && l->payload_files == l->oxum_files))
        return 0;
    return add_finding(l, TWIN_BAG_CHANGED, "bag-info.txt",
                       "Payload-Oxum: expected %llu.%llu, found %llu.%llu",
                       (unsigned long long)l->oxum_bytes, (unsigned long long)l->oxum_files,
                       (unsigned long long)l->payload_bytes, (unsigned long long)l->payload_files);
}

/* ---- the signature */

/* Only the number of differences counts, so each one is passed over. */
static void silent(void *user, enum twin_subject_change c, const struct twin_subject *a,
                   const struct twin_subject *b)
{
    (void)user, (void)c, (void)a, (void)b;
}

/* Is the signature about this package? Its statement must name the tag manifest with the digest
 * that was found. */
static int check_subject(struct look *l, const struct twin_envelope *e)
{
    struct twin_statement st = {0};
    struct twin_subjects found = {0};
    struct twin_error inner = TWIN_ERROR_INIT;
    int rc = twin_statement_parse(e, TW_BAG_SIGNATURE, &st, &inner);
    if (rc)
        return as_finding(l, TW_BAG_SIGNATURE, rc, &inner);
    rc = twin_subjects_add(&found, TW_BAG_TAGMANIFEST, "sha256", l->v->tagmanifest, l->err);
    if (rc == 0 && (strcmp(st.predicate_type, TWIN_PREDICATE_SIGNED) != 0 ||
                    twin_subjects_match(&st.subjects, &found, true, silent, NULL) != 0))
        rc = add_finding(l, TWIN_BAG_CHANGED, TW_BAG_SIGNATURE,
                         "it is about another package: expected %s with sha256 %s",
                         TW_BAG_TAGMANIFEST, l->v->tagmanifest);
    twin_statement_free(&st);
    twin_subjects_free(&found);
    return rc;
}

/* Judges the envelope. Without keys to trust, a signature is only held against the package; with
 * them, a package without signature has a finding. */
static int check_signature(struct look *l)
{
    char *text;
    size_t n;
    bool ok;
    struct twin_envelope e = {0};
    struct twin_error inner = TWIN_ERROR_INIT;
    l->v->is_signed = faccessat(l->root, TW_BAG_SIGNATURE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (!l->v->is_signed)
        return l->o && l->o->trust ? add_finding(l, TWIN_BAG_MISSING, TW_BAG_SIGNATURE,
                                                 "expected a signature, found none")
                                   : 0;
    /* is_signed is set for any envelope, good or not */
    int rc = read_tag(l, TW_BAG_SIGNATURE, TWIN_ENVELOPE_MAX, &text, &n, &ok);
    if (rc || !ok)
        return rc;
    rc = twin_envelope_parse(text, n, TW_BAG_SIGNATURE, false, &e, &inner);
    tw_free(text);
    if (rc)
        return as_finding(l, TW_BAG_SIGNATURE, rc, &inner);
    if (l->o && l->o->trust) {
        l->v->trust = tw_calloc(1, sizeof *l->v->trust);
        rc = l->v->trust ? twin_trust_judge(l->o->trust, &e, l->o->at_ns, l->v->trust, l->err)
                         : tw_no_memory(l->err, "verifying %s", l->dir);
        if (rc == 0 && !l->v->trust->trusted)
            rc = add_finding(l, TWIN_BAG_CHANGED, TW_BAG_SIGNATURE, "not to be trusted: %s",
                             l->v->trust->why);
        /*
         * Names in the verdict borrow from the envelope, which ends here: only the counts are kept.
         */
        if (l->v->trust) {
            size_t good = l->v->trust->good, needed = l->v->trust->needed;
            bool trusted = l->v->trust->trusted;
            twin_trust_verdict_free(l->v->trust);
            *l->v->trust = (struct twin_trust_verdict){
                .trusted = trusted, .good = good, .needed = needed};
        }
    }
    rc = rc ? rc : check_subject(l, &e);
    twin_envelope_free(&e);
    return rc;
}

/* ---- all of it */

bool twin_package_is(const char *dir)
{
    struct stat st;
    char *bagit = tw_path_join(dir, "bagit.txt");
    char *inside = tw_path_join(dir, "data/package.json");
    char *manifest = tw_path_join(dir, "manifest-sha256.txt");
    /* Two of the three will do: a package from which one was taken away is still to be verified as
     * one. */
    int there = bagit && inside && manifest ? (lstat(bagit, &st) == 0) + (lstat(inside, &st) == 0) +
                                                  (lstat(manifest, &st) == 0)
                                            : 0;
    tw_free(bagit);
    tw_free(inside);
    tw_free(manifest);
    return there >= 2;
}

/* The order matters: each list is believed only after the one that holds it was read. */
static int look_through(struct look *l)
{
    int rc = read_bagit(l);
    rc = rc ? rc : read_manifest(l, TW_BAG_TAGMANIFEST, &l->tags, false);
    const struct tag_read *named = tag_read(l, TW_BAG_TAGMANIFEST);
    if (named)
        memcpy(l->v->tagmanifest, named->sha256, sizeof l->v->tagmanifest);
    rc = rc ? rc : read_manifest(l, "manifest-sha256.txt", &l->payload, true);
    rc = rc ? rc : read_info(l);
    rc = rc ? rc : read_fetch(l);
    rc = rc ? rc : check_signature(l);
    int fd = rc ? -1 : openat(l->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (rc == 0)
        rc = fd < 0 ? twin_error_system(l->err, "cannot list %s", l->dir)
                    : walk_folder(l, fd, "", 0);
    rc = rc ? rc : find_missing(l);
    return rc ? rc : totals(l);
}

/* *out is filled even when there are findings, and freed here on an error. */
int twin_package_verify(const char *dir, const struct twin_bag_options *o,
                        struct twin_bag_verdict *out, struct twin_error *err)
{
    struct look l = {.dir = dir, .o = o, .v = out, .err = err, .copy = -1};
    *out = (struct twin_bag_verdict){0};
    l.root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l.root < 0)
        return twin_error_system(err, "cannot read %s", dir);
    int rc = 0;
    if (o && o->copy) {
        l.copy = open(o->copy, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (l.copy < 0)
            rc = twin_error_system(err, "cannot open %s", o->copy);
    }
    rc = rc ? rc : look_through(&l);
    close(l.root);
    if (l.copy >= 0)
        close(l.copy);
    tw_manifest_free(&l.tags);
    /* the caller gets the payload's manifest, to read files again by their digests */
    out->payload = rc ? NULL : tw_malloc(sizeof *out->payload);
    if (out->payload)
        *out->payload = l.payload;
    else
        tw_manifest_free(&l.payload);
    if (rc == 0 && !out->payload)
        rc = tw_no_memory(err, "verifying %s", dir);
    tw_fetch_free(&l.fetch);
    if (rc)
        twin_bag_verdict_free(out);
    return rc;
}

void twin_bag_verdict_free(struct twin_bag_verdict *v)
{
    for (size_t i = 0; i < v->findings; i++) {
        tw_free(v->finding[i].path);
        tw_free(v->finding[i].why);
    }
    for (size_t i = 0; i < v->fetches; i++) {
        tw_free(v->fetch[i].url);
        tw_free(v->fetch[i].path);
    }
    if (v->trust)
        twin_trust_verdict_free(v->trust);
    tw_free(v->trust);
    if (v->payload)
        tw_manifest_free(v->payload);
    tw_free(v->payload);
    tw_free(v->finding);
    tw_free(v->fetch);
    *v = (struct twin_bag_verdict){0};
}

int tw_bag_read_verified(int root, const struct twin_bag_verdict *verdict, const char *path,
                         size_t cap, char **text, size_t *n, struct twin_error *err)
{
    char hex[65];
    const struct tw_manifest_entry *e = tw_manifest_find(verdict->payload, path);
    *text = NULL;
    if (!e || !e->good)
        return twin_error_set(err, e ? TWIN_EFORMAT : TWIN_ENOENT, "%s: %s", path,
                              e ? "not as its manifest says" : "not there");
    int rc = tw_bag_read(root, path, cap, text, n, err);
    rc = rc ? rc : tw_bag_hash(*text, *n, hex, err);
    /* the folder may be changed by somebody while we look */
    if (rc == 0 && strcmp(hex, e->sha256) != 0)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: it changed since it was verified", path);
    if (rc) {
        tw_free(*text);
        *text = NULL;
    }
    return rc;
}
