/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of many files by several threads; what the cache still knows is not read again.
 *
 * Each thread works on two files at a time, chunk by chunk: SHA-256 of two messages takes little
 * longer than of one (sha256.h). Large files go first, so that no thread begins one when the others
 * have nothing left. A file is looked at before and after: one that changed while it was read is
 * read once more, and a second change is an error.
 */
#include "hashing.h"

#include "base.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    /* two of them stay in the second-level cache between the copy and the digest */
    CHUNK = 128 << 10,
    /* files from this size on go first, the largest before the others: no thread begins one at the
       end */
    LARGE = 1 << 20,
    LOOK = 512, /* bytes by which DVC tells text from other pieces of a file */
    /* of which each is text or not by itself, and no CR LF reaches into the next */
    TEXT_PIECE = 1 << 20,
    MOST_THREADS = 64
};

size_t tw_hash_size(enum tw_hash_kind kind)
{
    if (kind == TW_HASH_SHA256)
        return 32;
    return kind == TW_HASH_GIT_SHA1 ? 20 : 16;
}

static int64_t ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct tw_file_state tw_file_state(const struct stat *st)
{
    return (struct tw_file_state){st->st_dev, st->st_ino, (uint64_t)st->st_size, ns(st->st_mtim),
                                  ns(st->st_ctim)};
}

/* Has nothing of a file's state changed that a write would change? */
static bool same_state(const struct tw_file_state *a, const struct tw_file_state *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

/* ---- one thread: two files at a time */

/* What all threads share. next is the place in order that the next free lane takes; the counts are
 * for progress; running and idle are changed under the lock or atomically, as declared. */
struct work {
    struct tw_hash_work *w;
    size_t *order, ordered;
    atomic_size_t next;
    atomic_uint_fast64_t files, bytes, read_files, read_bytes;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned running;
    atomic_uint idle; /* threads without a file */
};

/* A file that is being read. */
struct lane {
    struct tw_hash_item *item; /* NULL: free */
    int fd;
    int64_t taken_ns; /* the wall clock before the file was looked at */
    uint64_t at;
    bool again;      /* it changed once while it was read */
    bool text, held; /* TW_HASH_MD5_TEXT: CR LF becomes LF; a CR ended the last chunk */
    struct tw_sha256 sha;
    EVP_MD_CTX *ctx; /* of the other kinds */
    unsigned char *chunk, *plain;
    size_t n; /* bytes in chunk that wait for their digest */
    bool end; /* the file ends behind them */
};

/* Is a piece text, as DVC before 3 decides it? Its beginning has no NUL and at most 30% bytes that
 * are no text. */
static bool looks_like_text(const unsigned char *p, size_t n)
{
    size_t other = 0;
    for (size_t i = 0; i < n && i < LOOK; i++) {
        if (p[i] == 0)
            return false;
        other += !((p[i] >= 32 && p[i] < 127) || p[i] == '\n' || p[i] == '\r' || p[i] == '\t' ||
                   p[i] == '\f' || p[i] == '\b');
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

/* Opens the lane's file and notes its state. NULL, or why it cannot be read. O_NONBLOCK: a pipe
 * that took the file's place must not hang the thread. */
static const char *open_file(const struct work *w, struct lane *l)
{
    struct stat st;
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                      (l->item->link ? 0 : O_NOFOLLOW);
    l->taken_ns = tw_realtime_ns();
    l->fd = openat(w->w->root, l->item->path, flags);
    if (l->fd < 0 || fstat(l->fd, &st) != 0)
        return errno == ELOOP ? "became a link while the folder was read" : strerror(errno);
    if (!S_ISREG(st.st_mode))
        return "no longer a regular file";
    l->item->state = tw_file_state(&st);
    if (st.st_size > CHUNK)
        /* the system reads ahead while we digest */
        posix_fadvise(l->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return NULL;
}

/* Begins the digest of the kind that is asked for. git's has the size in front, which is that of
 * the look: a file that grows is read again. */
static bool begin_digest(struct lane *l)
{
    char head[32];
    l->at = l->n = 0;
    l->end = l->text = l->held = false;
    if (l->item->kind == TW_HASH_SHA256)
        return tw_sha256_begin(&l->sha);
    if (EVP_DigestInit_ex(l->ctx, l->item->kind == TW_HASH_GIT_SHA1 ? EVP_sha1() : EVP_md5(),
                          NULL) != 1)
        return false;
    const int n = snprintf(head, sizeof head, "blob %llu",
                           (unsigned long long)l->item->state.bytes);
    return l->item->kind != TW_HASH_GIT_SHA1 || EVP_DigestUpdate(l->ctx, head, (size_t)n + 1) == 1;
}

/* Reads the next chunk. SHA-256 is left to the caller, who digests two lanes at once; other kinds
 * are digested here. DVC's text mode decides anew for each MiB whether it is text, and a CR at the
 * end of a piece is not joined with what follows. NULL, or why it failed. */
static const char *read_chunk(struct work *w, struct lane *l)
{
    const ssize_t n = tw_pread_all(l->fd, l->chunk, CHUNK, l->at);
    if (n < 0)
        return strerror(errno);
    const bool piece = l->item->kind == TW_HASH_MD5_TEXT && l->at % TEXT_PIECE == 0;
    if (piece && l->held && EVP_DigestUpdate(l->ctx, "\r", 1) != 1)
        return "out of memory";
    if (piece) {
        l->held = false;
        l->text = looks_like_text(l->chunk, (size_t)n);
    }
    l->at += (uint64_t)n;
    w->bytes += (uint64_t)n;
    l->n = (size_t)n;
    /* one that grows while it is read must end somewhere */
    l->end = n < CHUNK || l->at > l->item->state.bytes;
    if (l->item->kind == TW_HASH_SHA256)
        return NULL;
    size_t m = l->text ? without_cr(l->chunk, l->n, l->plain, &l->held) : l->n;
    if (l->end && l->held)
        l->plain[m++] = '\r';
    l->n = 0;
    const void *data = l->text ? l->plain : l->chunk;
    return EVP_DigestUpdate(l->ctx, data, m) == 1 ? NULL : "out of memory";
}

/* The lane's file is done, with a digest or with the reason why there is none. */
static void free_lane(struct work *w, struct lane *l, const char *why)
{
    if (why && !(l->item->why = tw_strdup(why)))
        l->item->why = tw_strdup("no memory");
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->item = NULL;
    w->read_files++;
    w->files++;
}

/* All of the file was read: its digest, unless it has changed meanwhile; then once more from the
 * beginning. */
static void finish_file(struct work *w, struct lane *l)
{
    struct stat st;
    const bool fine = l->item->kind == TW_HASH_SHA256
                          ? tw_sha256_end(&l->sha, l->item->digest)
                          : EVP_DigestFinal_ex(l->ctx, l->item->digest, NULL) == 1;
    const char *why = fine ? NULL : "out of memory";
    if (!why && fstat(l->fd, &st) != 0)
        why = strerror(errno);
    const struct tw_file_state now = why ? l->item->state : tw_file_state(&st);
    w->read_bytes += l->at;
    if (!why && !same_state(&now, &l->item->state)) {
        if (l->again) {
            why = "changed while it was read, twice; stop what writes it";
        } else {
            l->again = true;
            close(l->fd);
            why = open_file(w, l);
            if (!why && begin_digest(l))
                return;
            why = why ? why : "out of memory";
        }
    } else if (!why) {
        tw_hash_cache_add(w->w->cache, l->item, l->taken_ns);
    }
    free_lane(w, l, why);
}

/* Gives a free lane the next file that has to be read, if there is one. */
static void take_file(struct work *w, struct lane *l)
{
    size_t i;
    while (!w->stop && (i = w->next++) < w->ordered) {
        struct tw_hash_item *item = &w->w->item[w->order[i]];
        if (!w->w->paranoid && tw_hash_cache_find(w->w->cache, item)) {
            item->known = true;
            w->bytes += item->state.bytes;
            w->files++;
            continue;
        }
        l->item = item;
        l->again = false;
        const char *why = open_file(w, l);
        if (!why && !begin_digest(l))
            why = "out of memory";
        if (!why)
            return;
        free_lane(w, l, why);
    }
}

/* A thread's second file must not be another thread's first. */
static bool may_take(struct work *w, bool busy)
{
    const size_t next = w->next;
    return !busy || (next < w->ordered && w->ordered - next > w->idle);
}

/* False: no memory. lane_fini has to follow in any case. */
static bool lane_init(struct lane *l)
{
    *l = (struct lane){.fd = -1,
                       .ctx = EVP_MD_CTX_new(),
                       .chunk = tw_malloc(CHUNK),
                       .plain = tw_malloc(CHUNK + 1)};
    return l->ctx && l->chunk && l->plain;
}

static void lane_fini(struct lane *l)
{
    if (l->fd >= 0)
        close(l->fd);
    tw_sha256_free(&l->sha);
    EVP_MD_CTX_free(l->ctx);
    tw_free(l->chunk);
    tw_free(l->plain);
}

/* A thread. It ends when no file is left or somebody wants an end. */
static void *hash_files(void *arg)
{
    struct work *w = arg;
    struct lane lane[2];
    /* both: both are taken down */
    const bool first = lane_init(&lane[0]), ready = lane_init(&lane[1]) && first;
    bool busy = false; /* has had a file */
    while (ready && !w->stop) {
        for (int i = 0; i < 2; i++) {
            if (!lane[i].item && may_take(w, lane[1 - i].item != NULL))
                take_file(w, &lane[i]);
            const char *why = lane[i].item ? read_chunk(w, &lane[i]) : NULL;
            if (why)
                free_lane(w, &lane[i], why);
        }
        if (!lane[0].item && !lane[1].item && w->next >= w->ordered)
            break;
        if (!busy && (lane[0].item || lane[1].item)) {
            busy = true;
            w->idle--;
        }
        const size_t n = lane[0].item ? lane[0].n : 0;
        const size_t m = lane[1].item ? lane[1].n : 0;
        if (n && m)
            tw_sha256_add_two(&lane[0].sha, lane[0].chunk, n, &lane[1].sha, lane[1].chunk, m);
        else if (n)
            tw_sha256_add(&lane[0].sha, lane[0].chunk, n);
        else if (m)
            tw_sha256_add(&lane[1].sha, lane[1].chunk, m);
        for (int i = 0; i < 2; i++)
            if (lane[i].item && lane[i].end)
                finish_file(w, &lane[i]);
    }
    lane_fini(&lane[0]);
    lane_fini(&lane[1]);
    pthread_mutex_lock(&w->lock);
    w->running--;
    pthread_cond_signal(&w->moved);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- all of them */

/* What larger_first() sorts: qsort has no argument for it. Only the caller's thread sorts, under
 * sort_lock. */
static const struct tw_hash_item *sorting;
static pthread_mutex_t sort_lock = PTHREAD_MUTEX_INITIALIZER;

/* Large files by size; the small ones behind them in the order of their paths, in which a disk has
 * them side by side. */
static int larger_first(const void *x, const void *y)
{
    const size_t i = *(const size_t *)x, j = *(const size_t *)y;
    const uint64_t a = sorting[i].state.bytes < LARGE ? 0 : sorting[i].state.bytes;
    const uint64_t b = sorting[j].state.bytes < LARGE ? 0 : sorting[j].state.bytes;
    return a != b ? (a < b) - (a > b) : (i > j) - (i < j);
}

/* Waits on the caller's thread until all threads have ended. Ten times a second it writes the cache
 * and tells the progress, so that only this thread calls back. */
static void watch_threads(struct work *w, uint64_t all_bytes)
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
        if (w->w->progress &&
            w->w->progress(w->w->user, w->files, w->ordered, w->bytes, all_bytes) != 0)
            w->stop = true;
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

/* Where no thread can be started the caller's does the work, without progress. */
int tw_hash_files(struct tw_hash_work *given, struct twin_error *err)
{
    struct work w = {.w = given, .order = tw_reallocarray(NULL, given->count + 1, sizeof *w.order)};
    pthread_t thread[MOST_THREADS];
    unsigned wanted = given->threads ? given->threads : tw_processors(), started = 0;
    uint64_t all = 0;
    if (!w.order)
        return tw_no_memory(err, "for a list of %zu files", given->count);
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
    w.idle = wanted;
    while (started < wanted && pthread_create(&thread[started], NULL, hash_files, &w) == 0)
        started++;
    pthread_mutex_lock(&w.lock);
    w.running -= wanted - started;
    w.idle -= wanted - started;
    pthread_mutex_unlock(&w.lock);
    if (started == 0) {
        w.running = 1;
        w.idle = 1;
        hash_files(&w);
    }
    watch_threads(&w, all);
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
    return w.files == w.ordered ? 0 : tw_no_memory(err, "reading files");
}
