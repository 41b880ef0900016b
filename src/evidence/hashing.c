/* SPDX-License-Identifier: Apache-2.0 */
#include "hashing.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    CHUNK = 256 << 10,    /* stays in the second-level cache between the copy and the digest */
    LARGE = 1 << 20,      /* files from this size on go first, the largest before the others: no thread begins one at the end */
    LOOK = 512,           /* bytes by which DVC tells text from other files */
    MOST_THREADS = 64
};

size_t tw_hash_size(enum tw_hash_kind kind)
{
    return kind == TW_HASH_SHA256 ? 32 : kind == TW_HASH_GIT_SHA1 ? 20 : 16;
}

static int64_t ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct tw_file_state tw_file_state(const struct stat *st)
{
    return (struct tw_file_state){st->st_dev, st->st_ino, (uint64_t)st->st_size, ns(st->st_mtim), ns(st->st_ctim)};
}

static bool same_state(const struct tw_file_state *a, const struct tw_file_state *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

/* ---- one file */

struct reader {
    EVP_MD_CTX *ctx;
    const EVP_MD *md[5]; /* by kind */
    unsigned char *chunk, *text;
    struct work *work;
};

/* DVC before 3: a file whose beginning has no NUL and at most 30% bytes that are no text counts as text. */
static bool looks_like_text(const unsigned char *p, size_t n)
{
    size_t other = 0;
    for (size_t i = 0; i < n && i < LOOK; i++) {
        if (p[i] == 0)
            return false;
        other += !((p[i] >= 32 && p[i] < 127) || p[i] == '\n' || p[i] == '\r' || p[i] == '\t' || p[i] == '\f' || p[i] == '\b');
    }
    return other * 10 <= (n < LOOK ? n : LOOK) * 3;
}

/* CR LF becomes LF; a CR that ends the chunk waits in *held. */
static size_t without_cr(const unsigned char *in, size_t n, unsigned char *out, bool *held)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (*held && in[i] != '\n')
            out[m++] = '\r';
        *held = in[i] == '\r';
        if (!*held)
            out[m++] = in[i];
    }
    return m;
}

struct work {
    struct tw_hash_work *w;
    size_t *order, ordered;
    atomic_size_t next;
    atomic_uint_fast64_t files, bytes, read_files, read_bytes;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned running;
};

/* NULL, or why there is no digest. */
static const char *digest_open_file(struct reader *r, int fd, struct tw_hash_item *item)
{
    char head[32];
    uint64_t at = 0;
    bool held = false, text = false;
    if (EVP_DigestInit_ex(r->ctx, r->md[item->kind], NULL) != 1)
        return "out of memory";
    if (item->kind == TW_HASH_GIT_SHA1) {
        int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)item->state.bytes);
        if (EVP_DigestUpdate(r->ctx, head, (size_t)n + 1) != 1)
            return "out of memory";
    }
    for (;;) {
        ssize_t n = tw_pread_all(fd, r->chunk, CHUNK, at);
        if (n < 0)
            return strerror(errno);
        if (at == 0 && item->kind == TW_HASH_MD5_TEXT)
            text = looks_like_text(r->chunk, (size_t)n);
        const size_t m = text ? without_cr(r->chunk, (size_t)n, r->text, &held) : (size_t)n;
        if (EVP_DigestUpdate(r->ctx, text ? r->text : r->chunk, m) != 1)
            return "out of memory";
        at += (uint64_t)n;
        r->work->bytes += (uint64_t)n;
        if (r->work->stop)
            return "interrupted";
        if (n < CHUNK || at > item->state.bytes) /* one that grows while it is read must end somewhere */
            break;
    }
    if (held && EVP_DigestUpdate(r->ctx, "\r", 1) != 1)
        return "out of memory";
    r->work->read_bytes += at;
    return EVP_DigestFinal_ex(r->ctx, item->digest, NULL) == 1 ? NULL : "out of memory";
}

enum { CHANGED = 1 };

static int digest_once(struct reader *r, struct tw_hash_item *item, const char **why)
{
    struct stat before, after;
    const int64_t taken = tw_realtime_ns();
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (item->link ? 0 : O_NOFOLLOW);
    int fd = openat(r->work->w->root, item->path, flags);
    *why = NULL;
    if (fd < 0 || fstat(fd, &before) != 0)
        *why = errno == ELOOP ? "became a link while the folder was read" : strerror(errno);
    else if (!S_ISREG(before.st_mode))
        *why = "no longer a regular file";
    if (!*why) {
        item->state = tw_file_state(&before);
        if (before.st_size > CHUNK)
            posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* the system reads ahead while we digest */
        *why = digest_open_file(r, fd, item);
    }
    int rc = 0;
    if (!*why && fstat(fd, &after) == 0) {
        const struct tw_file_state now = tw_file_state(&after);
        rc = same_state(&item->state, &now) ? 0 : CHANGED;
        if (rc == 0)
            tw_hash_cache_add(r->work->w->cache, item, taken);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static void digest(struct reader *r, struct tw_hash_item *item)
{
    const char *why = NULL;
    const uint64_t expected = item->state.bytes;
    if (!r->work->w->paranoid && tw_hash_cache_find(r->work->w->cache, item)) {
        item->known = true;
        r->work->bytes += expected;
        return;
    }
    if (digest_once(r, item, &why) == CHANGED && digest_once(r, item, &why) == CHANGED)
        why = "changed while it was read, twice; stop what writes it";
    r->work->read_files++;
    if (why && !(item->why = tw_strdup(why)))
        item->why = tw_strdup("no memory");
}

static void *work(void *arg)
{
    struct work *w = arg;
    struct reader r = {.ctx = EVP_MD_CTX_new(), .chunk = tw_malloc(CHUNK), .text = tw_malloc(CHUNK + 1), .work = w};
    r.md[TW_HASH_SHA256] = EVP_sha256();
    r.md[TW_HASH_MD5] = r.md[TW_HASH_MD5_TEXT] = EVP_md5();
    r.md[TW_HASH_GIT_SHA1] = EVP_sha1();
    size_t i;
    while (r.ctx && r.chunk && r.text && !w->stop && (i = w->next++) < w->ordered) {
        digest(&r, &w->w->item[w->order[i]]);
        w->files++;
    }
    EVP_MD_CTX_free(r.ctx);
    tw_free(r.chunk);
    tw_free(r.text);
    pthread_mutex_lock(&w->lock);
    w->running--;
    pthread_cond_signal(&w->moved);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- all of them */

static const struct tw_hash_item *sorting; /* qsort has no argument for it; only the caller's thread sorts, under `sort_lock` */
static pthread_mutex_t sort_lock = PTHREAD_MUTEX_INITIALIZER;

static int larger_first(const void *x, const void *y)
{
    const size_t i = *(const size_t *)x, j = *(const size_t *)y;
    const uint64_t a = sorting[i].state.bytes < LARGE ? 0 : sorting[i].state.bytes, b = sorting[j].state.bytes < LARGE ? 0 : sorting[j].state.bytes;
    return a != b ? (a < b) - (a > b) : (i > j) - (i < j);
}

static unsigned processors(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : (unsigned)n;
}

/* On the caller's thread until all have ended. */
static void watch(struct work *w, uint64_t all_bytes)
{
    pthread_mutex_lock(&w->lock);
    while (w->running) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&w->moved, &w->lock, &until);
        pthread_mutex_unlock(&w->lock);
        tw_hash_cache_flush(w->w->cache);
        if (w->w->progress && w->w->progress(w->w->user, w->files, w->ordered, w->bytes, all_bytes) != 0)
            w->stop = true;
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

int tw_hash_files(struct tw_hash_work *given, struct twin_error *err)
{
    struct work w = {.w = given, .order = tw_reallocarray(NULL, given->count + 1, sizeof *w.order)};
    pthread_t thread[MOST_THREADS];
    unsigned wanted = given->threads ? given->threads : processors(), started = 0;
    uint64_t all = 0;
    if (!w.order)
        return twin_error_set(err, TWIN_ENOMEM, "no memory for a list of %zu files", given->count);
    for (size_t i = 0; i < given->count; i++)
        if (!given->item[i].skip) {
            w.order[w.ordered++] = i;
            all += given->item[i].state.bytes;
        }
    pthread_mutex_lock(&sort_lock);
    sorting = given->item;
    qsort(w.order, w.ordered, sizeof *w.order, larger_first);
    pthread_mutex_unlock(&sort_lock);
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.moved, NULL);
    if (wanted > MOST_THREADS)
        wanted = MOST_THREADS;
    if (wanted > w.ordered)
        wanted = w.ordered ? (unsigned)w.ordered : 1;
    w.running = wanted;
    while (started < wanted && pthread_create(&thread[started], NULL, work, &w) == 0)
        started++;
    pthread_mutex_lock(&w.lock);
    w.running -= wanted - started;
    pthread_mutex_unlock(&w.lock);
    if (started == 0) {
        w.running = 1;
        work(&w);
    }
    watch(&w, all);
    for (unsigned i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.moved);
    tw_hash_cache_flush(given->cache);
    tw_free(w.order);
    given->read_files = w.read_files;
    given->read_bytes = w.read_bytes;
    if (w.stop)
        return twin_error_set(err, TWIN_EINTR, "interrupted; what was read is remembered");
    return w.files == w.ordered ? 0 : twin_error_set(err, TWIN_ENOMEM, "no memory to read files");
}
