/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of the tensors in a file, and which of them differ from another file's by how much. */
#include "base.h"
#include "ulp.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <twin/content.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are digested in little-endian order");

#define CHUNK ((size_t)1 << 20)

struct sha { EVP_MD_CTX *ctx; bool failed; };

static void begin(struct sha *s, const char *tag)
{
    s->failed |= !s->ctx || EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) != 1 || EVP_DigestUpdate(s->ctx, tag, strlen(tag) + 1) != 1;
}

static void take(struct sha *s, const void *data, size_t n)
{
    s->failed |= s->failed || EVP_DigestUpdate(s->ctx, data, n) != 1;
}

static void take_text(struct sha *s, const char *text)
{
    const uint64_t n = strlen(text);
    take(s, &n, sizeof n);
    take(s, text, n);
}

static int end(struct sha *s, unsigned char digest[32], char hex[65], struct twin_error *err)
{
    if (s->failed || EVP_DigestFinal_ex(s->ctx, digest, NULL) != 1)
        return twin_error_set(err, TWIN_ENOMEM, "SHA-256 failed");
    tw_hex(digest, 32, hex);
    return 0;
}

/* The file's bytes, in a thread of their own beside the tensors'. */
struct whole {
    const char *path;
    struct sha sha;
    char *chunk, hex[65];
    uint64_t bytes;
    struct twin_error err;
};

static void *digest_file(void *arg)
{
    struct whole *w = arg;
    unsigned char digest[32];
    int fd = open(w->path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    w->sha.failed |= EVP_DigestInit_ex(w->sha.ctx, EVP_sha256(), NULL) != 1;
    while (fd >= 0 && !w->sha.failed && (n = tw_pread_all(fd, w->chunk, CHUNK, w->bytes)) > 0) {
        take(&w->sha, w->chunk, (size_t)n);
        w->bytes += (uint64_t)n;
    }
    if (fd < 0 || n < 0)
        twin_error_system(&w->err, "reading %s", w->path);
    else
        end(&w->sha, digest, w->hex, &w->err);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static int digest_tensor(struct sha *s, struct twin_tensors *f, struct twin_content_tensor *t, char *chunk, struct twin_error *err)
{
    const struct twin_tensors_entry *e = t->entry;
    const uint64_t ndim = e->ndim, size = e->count ? e->bytes / e->count : 1, most = CHUNK / (size ? size : 1);
    if (e->unreadable)
        return twin_error_set(err, TWIN_EUNSUPPORTED, "tensor %s (%s): %s", e->name, e->stored_as, e->unreadable);
    begin(s, "twinrun.tensor/1");
    take_text(s, e->name);
    take_text(s, twin_dtype_name(e->dtype));
    take(s, &ndim, sizeof ndim);
    for (uint32_t i = 0; i < e->ndim; i++)
        take(s, &e->shape[i], sizeof e->shape[i]);
    for (uint64_t at = 0, n; at < e->count; at += n) {
        n = e->count - at < most ? e->count - at : most;
        int rc = twin_tensors_read(f, t->index, at, n, chunk, err);
        if (rc)
            return rc;
        take(s, chunk, n * size);
    }
    return end(s, t->digest, t->sha256, err);
}

static int by_name(const void *x, const void *y)
{
    const struct twin_content_tensor *a = x, *b = y;
    return strcmp(a->entry->name, b->entry->name);
}

static int digest_all(struct sha *s, struct twin_content *c, char *chunk, struct twin_error *err)
{
    unsigned char digest[32];
    int rc = 0;
    for (size_t i = 0; i < c->count && rc == 0; i++) { /* in the file's order: compressed members are read once */
        c->tensor[i].entry = twin_tensors_at(c->tensors, i);
        c->tensor[i].index = i;
        rc = digest_tensor(s, c->tensors, &c->tensor[i], chunk, err);
    }
    if (rc)
        return rc;
    qsort(c->tensor, c->count, sizeof *c->tensor, by_name);
    begin(s, "twinrun.content/1");
    for (size_t i = 0; i < c->count; i++)
        take(s, c->tensor[i].digest, sizeof c->tensor[i].digest);
    return end(s, digest, c->content, err);
}

int twin_content_read(const char *path, struct twin_content *out, struct twin_error *err)
{
    struct sha s = {.ctx = EVP_MD_CTX_new()};
    struct whole whole = {.path = path, .sha = {.ctx = EVP_MD_CTX_new()}, .chunk = tw_malloc(CHUNK), .err = TWIN_ERROR_INIT};
    char *chunk = tw_malloc(CHUNK);
    pthread_t thread;
    *out = (struct twin_content){0};
    int rc = twin_tensors_open(path, &out->tensors, err);
    if (rc == 0) {
        out->count = twin_tensors_count(out->tensors);
        out->tensor = tw_calloc(out->count + 1, sizeof *out->tensor);
        if (!s.ctx || !whole.sha.ctx || !whole.chunk || !chunk || !out->tensor)
            rc = twin_error_set(err, TWIN_ENOMEM, "no memory for the digests of %s", path);
    }
    if (rc == 0) {
        const bool beside = pthread_create(&thread, NULL, digest_file, &whole) == 0;
        rc = digest_all(&s, out, chunk, err);
        if (beside)
            pthread_join(thread, NULL);
        else
            digest_file(&whole);
        rc = rc ? rc : whole.err.code ? twin_error_set(err, whole.err.code, "%s", whole.err.message) : 0;
        out->file_bytes = whole.bytes;
        memcpy(out->file, whole.hex, sizeof out->file);
    }
    tw_free(chunk);
    tw_free(whole.chunk);
    EVP_MD_CTX_free(s.ctx);
    EVP_MD_CTX_free(whole.sha.ctx);
    if (rc)
        twin_content_free(out);
    return rc;
}

void twin_content_free(struct twin_content *c)
{
    twin_tensors_close(c->tensors);
    tw_free(c->tensor);
    *c = (struct twin_content){0};
}

/* ---- two files */

/* Both exist, at i in a and at j in b, and their digests differ. */
static int measure(const struct twin_content *a, const struct twin_content *b, size_t i, size_t j, struct twin_content_difference *d, struct twin_error *err)
{
    const struct twin_tensors_entry *x = d->a, *y = d->b;
    d->values = x->dtype == y->dtype && x->ndim == y->ndim && (x->ndim == 0 || memcmp(x->shape, y->shape, x->ndim * sizeof *x->shape) == 0);
    if (!d->values)
        return 0;
    const uint64_t size = x->bytes / x->count, most = CHUNK / size;
    char *p = tw_malloc(CHUNK), *q = tw_malloc(CHUNK);
    struct tw_exact sum = {0};
    int rc = p && q ? 0 : twin_error_set(err, TWIN_ENOMEM, "no memory to compare %s", x->name);
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
    return rc;
}

long twin_content_compare(const struct twin_content *a, const struct twin_content *b,
                          int (*visit)(void *user, const struct twin_content_difference *d), void *user, struct twin_error *err)
{
    long visits = 0;
    for (size_t i = 0, j = 0; i < a->count || j < b->count;) {
        const struct twin_content_tensor *x = i < a->count ? &a->tensor[i] : NULL, *y = j < b->count ? &b->tensor[j] : NULL;
        const int order = !x ? 1 : !y ? -1 : strcmp(x->entry->name, y->entry->name);
        struct twin_content_difference d = {order <= 0 ? x->entry->name : y->entry->name, order <= 0 ? x->entry : NULL, order >= 0 ? y->entry : NULL, false, 0, NAN, NAN};
        i += order <= 0;
        j += order >= 0;
        if (order == 0 && memcmp(x->digest, y->digest, sizeof x->digest) == 0)
            continue;
        int rc = order == 0 ? measure(a, b, x->index, y->index, &d, err) : 0;
        if (rc)
            return rc;
        visits++;
        if (visit(user, &d) != 0)
            break;
    }
    return visits;
}
