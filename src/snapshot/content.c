/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of the tensors in a file, and which of them differ from another file's by how much.
 *
 * SHA-256 is slower than a disk, so that everything goes on at once: tensors are digested in pieces
 * of a MiB by several threads (pieces.c), and where the digest of the file is wanted, its bytes are
 * read by one thread and digested by another (struct whole). The format is in content.h.
 */
#include "base.h"
#include "sha256.h"
#include "snapshot_inside.h"
#include "ulp.h"

#include "src/snapshot/content.h"
#include "src/snapshot/snapshot.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "elements are digested in little-endian order");

/* Bytes of each of two tensors that are compared at a time. */
#define CHUNK ((size_t)1 << 20)

/* The ring between the reader and the digester of a file. */
enum { SLOTS = 4, SLOT = 512 << 10 };

/* ---- the file's bytes: read by one thread and digested by another, beside the tensors */

/*
 * The file's bytes on their way from the reader to the digester: a ring of SLOTS chunks. Chunk
 * number i is in slot i % SLOTS. Reader and digester each own the chunks between their two counts;
 * counts, end and stop change under the lock only. The error is written by one of them and read
 * after both have ended.
 */
struct whole {
    const char *path;
    int fd;
    struct tw_sha256 sha;
    char *chunk; /* SLOTS of them */
    size_t filled[SLOTS];
    unsigned written, taken; /* chunks, counted */
    bool end, stop;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t bytes;
    char hex[65];
    struct twin_error err;
};

/* The reading thread: fills slots until the file ends, cannot be read, or nobody wants the rest. A
 * chunk is published by its count, the end by a flag. */
static void *read_file(void *arg)
{
    struct whole *w = arg;
    for (ssize_t n = 1; n > 0; w->bytes += (uint64_t)n) {
        pthread_mutex_lock(&w->lock);
        while (w->written - w->taken == SLOTS && !w->stop)
            pthread_cond_wait(&w->moved, &w->lock);
        const bool stop = w->stop;
        pthread_mutex_unlock(&w->lock);
        n = stop
                ? 0
                : tw_pread_all(w->fd, w->chunk + w->written % SLOTS * (size_t)SLOT, SLOT, w->bytes);
        if (n < 0) {
            twin_error_system(&w->err, "reading %s", w->path);
            n = 0;
        }
        pthread_mutex_lock(&w->lock);
        w->filled[w->written % SLOTS] = (size_t)n;
        w->written += n > 0;
        w->end = n == 0;
        pthread_cond_signal(&w->moved);
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

/* The digesting thread: takes what is filled until the end is told, and leaves the hex digest. */
static void *digest_file(void *arg)
{
    struct whole *w = arg;
    unsigned char digest[32];
    for (;;) {
        pthread_mutex_lock(&w->lock);
        while (w->written == w->taken && !w->end)
            pthread_cond_wait(&w->moved, &w->lock);
        const bool none = w->written == w->taken;
        pthread_mutex_unlock(&w->lock);
        if (none)
            break;
        tw_sha256_add(&w->sha, w->chunk + w->taken % SLOTS * (size_t)SLOT,
                      w->filled[w->taken % SLOTS]);
        pthread_mutex_lock(&w->lock);
        w->taken++;
        pthread_cond_signal(&w->moved);
        pthread_mutex_unlock(&w->lock);
    }
    if (tw_sha256_end(&w->sha, digest))
        tw_hex(digest, 32, w->hex);
    else
        twin_error_set(&w->err, TWIN_ENOMEM, "SHA-256 failed");
    return NULL;
}

/* Opens the file. whole_fini has to follow in any case. */
static int whole_init(struct whole *w, const char *path, struct twin_error *err)
{
    *w = (struct whole){.path = path,
                        .fd = open(path, O_RDONLY | O_CLOEXEC),
                        .chunk = tw_malloc(SLOTS * (size_t)SLOT),
                        .err = TWIN_ERROR_INIT};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->moved, NULL);
    if (w->fd < 0)
        return twin_error_system(err, "reading %s", path);
    return w->chunk && tw_sha256_begin(&w->sha) ? 0
                                                : tw_no_memory(err, "for the digests of %s", path);
}

static void whole_fini(struct whole *w)
{
    if (w->fd >= 0)
        close(w->fd);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->moved);
    tw_sha256_free(&w->sha);
    tw_free(w->chunk);
}

/* ---- all tensors as one number */

/* The order of the tensors: names as bytes, in no locale. */
static int by_name(const void *x, const void *y)
{
    const struct twin_content_tensor *a = x, *b = y;
    return strcmp(a->entry->name, b->entry->name);
}

/* Digests all tensors, then the content over their digests in the order of names. The list is
 * sorted afterwards, since the file's order is the fast one to read. */
static int digest_all(struct twin_content *c, unsigned threads, struct twin_error *err)
{
    struct tw_sha256 sha = {0};
    unsigned char digest[32];
    int rc = tw_content_pieces(c, threads, err);
    if (rc != 0)
        return rc;
    qsort(c->tensor, c->count, sizeof *c->tensor, by_name);
    bool fine = tw_sha256_begin(&sha);
    tw_sha256_add(&sha, "twinrun.content/2", sizeof "twinrun.content/2");
    for (size_t i = 0; i < c->count; i++)
        tw_sha256_add(&sha, c->tensor[i].digest, sizeof c->tensor[i].digest);
    fine = tw_sha256_end(&sha, digest) && fine;
    tw_sha256_free(&sha);
    tw_hex(digest, 32, c->content);
    return fine ? 0 : twin_error_set(err, TWIN_ENOMEM, "SHA-256 failed");
}

/* ---- what is no tensor */

static int value_by_name(const void *x, const void *y)
{
    const struct twin_tensors_value *a = *(const struct twin_tensors_value *const *)x;
    const struct twin_tensors_value *b = *(const struct twin_tensors_value *const *)y;
    const int order = strcmp(a->name, b->name);
    return order ? order : (a > b) - (a < b); /* two of one name: in the file's order */
}

/* One value, as content.h describes: a letter for its kind keeps 1 and true apart. */
static void take_value(struct tw_sha256 *s, const struct twin_tensors_value *v)
{
    const uint64_t n = v->text_bytes;
    tw_take_text(s, v->name);
    tw_sha256_add(s, &"ntifsbcoe"[v->kind], 1);
    if (v->kind == TWIN_VALUE_TRUTH || v->kind == TWIN_VALUE_INT)
        tw_sha256_add(s, &v->number, sizeof v->number);
    else if (v->kind == TWIN_VALUE_FLOAT)
        tw_sha256_add(s, &v->real, sizeof v->real);
    else if (v->kind != TWIN_VALUE_NONE) {
        tw_sha256_add(s, &n, sizeof n);
        tw_sha256_add(s, v->text, n);
    }
}

/* The digest of what is no tensor, by name. It is small, so it is made in one go. */
static int digest_values(struct twin_content *c, struct twin_error *err)
{
    struct tw_sha256 s = {0};
    unsigned char digest[32];
    c->value_count = twin_tensors_value_count(c->tensors);
    c->value = tw_calloc(c->value_count + 1, sizeof *c->value);
    bool fine = c->value && tw_sha256_begin(&s);
    for (size_t i = 0; i < c->value_count && fine; i++)
        c->value[i] = twin_tensors_value_at(c->tensors, i);
    if (fine) {
        qsort(c->value, c->value_count, sizeof *c->value, value_by_name);
        tw_sha256_add(&s, "twinrun.values/1", sizeof "twinrun.values/1");
        for (size_t i = 0; i < c->value_count; i++)
            take_value(&s, c->value[i]);
        fine = tw_sha256_end(&s, digest);
    }
    tw_sha256_free(&s);
    if (!fine)
        return tw_no_memory(err, "for %zu values", c->value_count);
    tw_hex(digest, 32, c->values);
    return 0;
}

/* The lists of what was opened, and the digest of what is no tensor. */
static int prepare_content(const char *path, struct twin_content *out, struct twin_error *err)
{
    out->count = twin_tensors_count(out->tensors);
    out->tensor = tw_calloc(out->count + 1, sizeof *out->tensor);
    return out->tensor ? digest_values(out, err) : tw_no_memory(err, "for the digests of %s", path);
}

/* Is the digest of the file's bytes wanted? It is serial, a second for 1.3 to 1.5 GB. */
enum whole_wanted { TENSORS_ALONE, WHOLE_IF_SMALL, WHOLE };

static bool is_wanted(enum whole_wanted w, uint64_t bytes)
{
    return w == WHOLE || (w == WHOLE_IF_SMALL && bytes <= TWIN_CONTENT_SMALL);
}

/* ---- folders: their "file" digest is the root of their snapshot */

/* The files of the snapshot as one list; what is no file of tensors counts by its SHA-256. */
static int open_files(const char *path, const struct twin_snapshot *s, struct twin_tensors **out,
                      struct twin_error *err)
{
    enum { TEXT = sizeof "sha256:" + 64 };
    struct twin_tensors_file *file = tw_calloc(s->files + 1, sizeof *file);
    char *text = tw_malloc((s->files + 1) * TEXT);
    size_t n = 0;
    int rc = file && text ? 0 : tw_no_memory(err, "for the list of %s", path);
    for (size_t i = 0; i < s->count && rc == 0; i++) {
        const struct twin_snapshot_entry *e = &s->entry[i];
        if (e->kind != TWIN_SNAPSHOT_FILE)
            continue;
        char *otherwise = text + n * TEXT;
        memcpy(otherwise, "sha256:", 7);
        tw_hex(e->sha256, 32, otherwise + 7);
        file[n++] = (struct twin_tensors_file){e->path, otherwise};
    }
    rc = rc ? rc : twin_tensors_open_folder(path, file, n, out, err);
    if (rc == 0 && twin_tensors_count(*out) == 0) {
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s: expected tensors, found none in the %zu files of this folder; "
                            "`twinrun snapshot` is for folders of any files",
                            path, n);
        twin_tensors_close(*out);
        *out = NULL;
    }
    tw_free(file);
    tw_free(text);
    return rc;
}

/* A checkpoint of torch.distributed.checkpoint has its list of tensors in .metadata. */
static bool is_distributed(const char *path)
{
    char *metadata = tw_path_join(path, ".metadata");
    const bool yes = metadata && access(metadata, F_OK) == 0;
    tw_free(metadata);
    return yes;
}

/* Of the files in it; such a folder has no others. */
static uint64_t bytes_in(const char *path)
{
    uint64_t bytes = 0;
    struct stat st;
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_size;
    if (d)
        closedir(d);
    return bytes;
}

/* A folder is a checkpoint whose .metadata says which tensors there are, or files that each hold
 * some. The second kind takes a snapshot first, which also tells what else lies there. */
static int read_folder(const char *path, enum whole_wanted whole, struct twin_content *out,
                       struct twin_error *err)
{
    struct twin_snapshot s;
    const struct twin_snapshot_options o = {.exclude = NULL};
    const unsigned threads = tw_processors();
    const bool distributed = is_distributed(path);
    int rc;
    /* .metadata lists the tensors: nobody needs the digests of the files */
    if (distributed && !is_wanted(whole, bytes_in(path))) {
        rc = twin_tensors_open_all(path, &out->tensors, err);
        rc = rc ? rc : prepare_content(path, out, err);
        rc = rc ? rc : digest_all(out, threads, err);
        out->file_bytes = bytes_in(path);
        return rc;
    }
    if ((rc = twin_snapshot_take(path, &o, &s, err)) != 0)
        return rc;
    rc = distributed ? twin_tensors_open_all(path, &out->tensors, err)
                     : open_files(path, &s, &out->tensors, err);
    rc = rc ? rc : prepare_content(path, out, err);
    rc = rc ? rc : digest_all(out, threads, err);
    memcpy(out->file, s.root, sizeof out->file);
    out->file_bytes = s.bytes;
    twin_snapshot_free(&s);
    return rc;
}

/* The file's own digest beside that of its tensors. It is serial, and what takes longest: it has a
 * processor to itself, if there are two. Without a thread for it the ring is emptied at the end by
 * this one, which only costs time: the reader waits meanwhile. */
static int digest_both(const char *path, struct twin_content *out, struct twin_error *err)
{
    struct whole whole;
    pthread_t reader, digester;
    int rc = whole_init(&whole, path, err);
    if (rc == 0 && pthread_create(&reader, NULL, read_file, &whole) != 0)
        rc = twin_error_set(err, TWIN_EIO, "no thread to read %s with", path);
    if (rc == 0) {
        const bool beside = pthread_create(&digester, NULL, digest_file, &whole) == 0;
        rc = digest_all(out, tw_processors() > 2 ? tw_processors() - 1 : 1, err);
        if (rc) { /* the rest of the file is not needed */
            pthread_mutex_lock(&whole.lock);
            whole.stop = true;
            pthread_cond_broadcast(&whole.moved);
            pthread_mutex_unlock(&whole.lock);
        }
        if (beside)
            pthread_join(digester, NULL);
        else
            digest_file(&whole);
        pthread_join(reader, NULL);
        if (rc == 0 && whole.err.code)
            rc = twin_error_set(err, whole.err.code, "%s", whole.err.message);
        out->file_bytes = whole.bytes;
        memcpy(out->file, whole.hex, sizeof out->file);
    }
    whole_fini(&whole);
    return rc;
}

/* On an error out is empty. */
static int read_any(const char *path, enum whole_wanted wanted, struct twin_content *out,
                    struct twin_error *err)
{
    struct stat st = {.st_size = 0};
    *out = (struct twin_content){0};
    int rc;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        rc = read_folder(path, wanted, out, err);
    } else {
        const bool whole = is_wanted(wanted, (uint64_t)st.st_size);
        rc = twin_tensors_open_all(path, &out->tensors, err);
        rc = rc ? rc : prepare_content(path, out, err);
        if (rc == 0)
            rc = whole ? digest_both(path, out, err) : digest_all(out, tw_processors(), err);
        if (!whole)
            out->file_bytes = (uint64_t)st.st_size;
    }
    if (rc)
        twin_content_free(out);
    return rc;
}

int twin_content_read(const char *path, struct twin_content *out, struct twin_error *err)
{
    return read_any(path, WHOLE, out, err);
}

int twin_content_read_tensors(const char *path, struct twin_content *out, struct twin_error *err)
{
    return read_any(path, TENSORS_ALONE, out, err);
}

int twin_content_read_quickly(const char *path, struct twin_content *out, struct twin_error *err)
{
    return read_any(path, WHOLE_IF_SMALL, out, err);
}

void twin_content_free(struct twin_content *c)
{
    twin_tensors_close(c->tensors);
    tw_free(c->tensor);
    tw_free(c->value);
    *c = (struct twin_content){0};
}

/* ---- two files */

/* How far two tensors lie apart: both exist, at i in a and at j in b, and their digests differ.
 * Numbers are given only where types and shapes are the same; elements are read in stretches of
 * CHUNK bytes. */
static int measure_pair(const struct twin_content *a, const struct twin_content *b, size_t i,
                        size_t j, struct twin_content_difference *d, struct twin_error *err)
{
    const struct twin_tensors_entry *x = d->a, *y = d->b;
    d->values = x->dtype == y->dtype && x->ndim == y->ndim &&
                (x->ndim == 0 || memcmp(x->shape, y->shape, x->ndim * sizeof *x->shape) == 0);
    if (!d->values)
        return 0;
    assert(x->count > 0); /* two empty tensors of one shape have one digest */
    const uint64_t size = x->bytes / x->count, most = CHUNK / size;
    char *p = tw_malloc(CHUNK), *q = tw_malloc(CHUNK);
    struct tw_exact sum = {0};
    int rc = p && q ? 0 : tw_no_memory(err, "comparing %s", x->name);
    for (uint64_t at = 0, n; at < x->count && rc == 0; at += n) {
        n = x->count - at < most ? x->count - at : most;
        rc = twin_tensors_read(a->tensors, i, at, n, p, err);
        rc = rc ? rc : twin_tensors_read(b->tensors, j, at, n, q, err);
        if (rc == 0)
            tw_exact_add(&sum, p, q, n, x->dtype);
    }
    tw_free(p);
    tw_free(q);
    d->changed = sum.changed;
    d->max_ulp = sum.max_ulp;
    d->rel_l2 = sum.rel_l2;
    d->l2 = isnan(sum.rel_l2) ? NAN : sqrt(sum.distance);
    return rc;
}

/* Which name comes first; NULL, a list's end, comes last. */
static int order_of(const char *x, const char *y)
{
    if (!x)
        return 1;
    return y ? strcmp(x, y) : -1;
}

/* Both lists are sorted by name and walked in step. */
long twin_content_compare(const struct twin_content *a, const struct twin_content *b,
                          int (*visit)(void *user, const struct twin_content_difference *d),
                          void *user, struct twin_error *err)
{
    long visits = 0;
    for (size_t i = 0, j = 0; i < a->count || j < b->count;) {
        const struct twin_content_tensor *x = i < a->count ? &a->tensor[i] : NULL;
        const struct twin_content_tensor *y = j < b->count ? &b->tensor[j] : NULL;
        const char *x_name = x ? x->entry->name : NULL;
        const char *y_name = y ? y->entry->name : NULL;
        const int order = order_of(x_name, y_name);
        struct twin_content_difference d = {order <= 0 ? x->entry->name : y->entry->name,
                                            order <= 0 ? x->entry : NULL,
                                            order >= 0 ? y->entry : NULL,
                                            false,
                                            0,
                                            NAN,
                                            NAN,
                                            NAN};
        i += order <= 0;
        j += order >= 0;
        if (order == 0 && memcmp(x->digest, y->digest, sizeof x->digest) == 0)
            continue;
        int rc = order == 0 ? measure_pair(a, b, x->index, y->index, &d, err) : 0;
        if (rc)
            return rc;
        visits++;
        if (visit(user, &d) != 0)
            break;
    }
    return visits;
}

/* The same value bit for bit: two NaN are the same, 0.0 and -0.0 are not. */
static bool same_value(const struct twin_tensors_value *a, const struct twin_tensors_value *b)
{
    return a->kind == b->kind && a->number == b->number &&
           memcmp(&a->real, &b->real, sizeof a->real) == 0 && a->text_bytes == b->text_bytes &&
           (a->text_bytes == 0 || memcmp(a->text, b->text, a->text_bytes) == 0);
}

/* A file may have several values of one name: they are sorted in the file's order and pair up
 * so. */
long twin_content_compare_values(const struct twin_content *a, const struct twin_content *b,
                                 int (*visit)(void *, const struct twin_tensors_value *,
                                              const struct twin_tensors_value *),
                                 void *user)
{
    long visits = 0;
    for (size_t i = 0, j = 0; i < a->value_count || j < b->value_count;) {
        const struct twin_tensors_value *x = i < a->value_count ? a->value[i] : NULL;
        const struct twin_tensors_value *y = j < b->value_count ? b->value[j] : NULL;
        const char *x_name = x ? x->name : NULL;
        const char *y_name = y ? y->name : NULL;
        const int order = order_of(x_name, y_name);
        const struct twin_tensors_value *was = order <= 0 ? x : NULL;
        const struct twin_tensors_value *is = order >= 0 ? y : NULL;
        i += order <= 0;
        j += order >= 0;
        if (order == 0 && same_value(x, y))
            continue;
        visits++;
        if (visit(user, was, is) != 0)
            break;
    }
    return visits;
}
