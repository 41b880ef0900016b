/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What files held when they were last read: a journal below the user's cache folder, one for each
 * folder of data. Each record is appended while the work goes on and counts by itself (it has a
 * checksum), so that a killed process loses the last tenths of a second; of several for a path the
 * last one counts. Losing the file costs time, nothing else.
 */
#include "hashing.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MAGIC "twinrun.hashes/1"
enum { MAGIC_BYTES = sizeof MAGIC, PENDING = 256 << 10 };
/* The clock of a file system ticks coarser than ours: a file whose time is not clearly before the
 * look at it may have been written afterwards without a change of its time. Whole seconds: a file
 * system that keeps no more. */
#define TICK_NS ((int64_t)20000000)
#define COARSE_TICK_NS ((int64_t)2000000000)

/* A record of the journal, in the machine's byte order; the path's bytes follow it. It says what a
 * file held (digest) in which state, and when it was looked at. Never read by another machine: the
 * file lies in a user's own cache. */
struct record {
    uint32_t crc, path_bytes; /* CRC-32C of all behind it, path too */
    uint64_t device, inode, bytes;
    int64_t mtime_ns, ctime_ns, taken_ns;
    uint32_t kind, zero;
    unsigned char digest[TW_HASH_MAX];
};
_Static_assert(sizeof(struct record) == 96, "no holes: its bytes are checksummed");

/* A journal that is open: data is what the file held when it was opened, and slot the index over
 * it, a hash table with linear probing whose length is a power of two. pending is what was added
 * since and is not yet in the file; lock guards pending, added and fd, the rest is read-only. */
struct tw_hash_cache {
    char *path, *data;
    size_t bytes;
    int fd;                                 /* to append to; -1: somebody else does */
    size_t *slot, slots, live, dead, added; /* offsets of records; 0: empty */
    struct tw_buf pending;
    pthread_mutex_t lock;
};

/* A record at an offset of the data. Copied, as offsets are not aligned. */
static struct record record_at(const struct tw_hash_cache *c, size_t at)
{
    struct record r;
    memcpy(&r, c->data + at, sizeof r);
    return r;
}

/* The checksum of a record with its path. */
static uint32_t checksum(const struct record *r, const char *path)
{
    const uint32_t crc = tw_crc32c(0, (const char *)r + sizeof r->crc, sizeof *r - sizeof r->crc);
    return tw_crc32c(crc, path, r->path_bytes);
}

/* The slot of a key: empty, or with it. The table is never full (index_records), so the search
 * ends. */
static size_t *slot_of(const struct tw_hash_cache *c, const char *path, size_t n, uint32_t kind)
{
    for (size_t i = tw_hash_bytes(path, n, kind).a & (c->slots - 1);;
         i = (i + 1) & (c->slots - 1)) {
        if (c->slot[i] == 0)
            return &c->slot[i];
        const struct record r = record_at(c, c->slot[i]);
        if (r.kind == kind && r.path_bytes == n &&
            memcmp(c->data + c->slot[i] + sizeof r, path, n) == 0)
            return &c->slot[i];
    }
}

/* Indexes the records up to the first that is not whole; returns where that begins. */
static size_t index_records(struct tw_hash_cache *c)
{
    size_t at = MAGIC_BYTES;
    for (c->slots = 64; c->slots < c->bytes / (sizeof(struct record) + 1) * 2;)
        c->slots *= 2;
    c->slot = tw_calloc(c->slots, sizeof *c->slot);
    if (!c->slot || !c->data || c->bytes < MAGIC_BYTES || memcmp(c->data, MAGIC, MAGIC_BYTES) != 0)
        return 0;
    while (c->bytes - at >= sizeof(struct record)) {
        const struct record r = record_at(c, at);
        if (r.path_bytes == 0 || r.path_bytes > c->bytes - at - sizeof r ||
            r.crc != checksum(&r, c->data + at + sizeof r))
            break;
        size_t *slot = slot_of(c, c->data + at + sizeof r, r.path_bytes, r.kind);
        c->live += *slot == 0;
        c->dead += *slot != 0;
        *slot = at;
        at += sizeof r + r.path_bytes;
    }
    return at;
}

/* Where the journal of a folder lies. A hash of the folder's path names it: the path itself may be
 * too long for a name. */
static char *cache_path(const char *folder)
{
    char hex[33];
    const struct tw_hash128 h = tw_hash_bytes(folder, strlen(folder), 0);
    tw_hex(&h, sizeof h, hex);
    char *ours = tw_cache_folder(), *dir = ours ? tw_path_join(ours, "hashes") : NULL;
    char *path = dir && tw_mkdirs(dir, NULL) == 0 ? tw_printf("%s/%s", dir, hex) : NULL;
    tw_free(dir);
    tw_free(ours);
    return path;
}

/* What the file holds, indexed; returns where its whole records end. */
static size_t load_cache(struct tw_hash_cache *c)
{
    tw_free(c->data);
    tw_free(c->slot);
    c->live = c->dead = c->bytes = 0;
    c->data = NULL;
    if (c->path && tw_read_file(c->path, (size_t)2 << 30, &c->data, &c->bytes, NULL) != 0)
        c->bytes = 0;
    return index_records(c);
}

/* Writes the file anew without what is dead, once that is most of it. It is read again for that, as
 * the records of this process are in the file only. We hold the lock on the old file until we close
 * it; who opens the new one meanwhile appends to that. */
static void compact(struct tw_hash_cache *c)
{
    struct tw_buf b = {.cap = (size_t)2 << 30};
    if (load_cache(c) == 0 || c->dead <= c->live + 1000)
        return;
    tw_buf_append(&b, MAGIC, MAGIC_BYTES);
    for (size_t i = 0; i < c->slots; i++)
        if (c->slot[i]) {
            const struct record r = record_at(c, c->slot[i]);
            tw_buf_append(&b, c->data + c->slot[i], sizeof r + r.path_bytes);
        }
    if (!b.failed)
        tw_write_file_atomic(c->path, b.data, b.len, NULL);
    tw_buf_free(&b);
}

struct tw_hash_cache *tw_hash_cache_open(const char *folder)
{
    struct tw_hash_cache *c = tw_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    c->path = cache_path(folder);
    if (c->path)
        c->fd = open(c->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0600);
    /* two at once: the second one only reads what is there */
    if (c->fd >= 0 && flock(c->fd, LOCK_EX | LOCK_NB) != 0) {
        close(c->fd);
        c->fd = -1;
    }
    size_t end = load_cache(c);
    if (!c->slot) {
        tw_hash_cache_close(c);
        return NULL;
    }
    if (c->fd >= 0 && end < c->bytes) /* a torn end, or not ours at all */
        end = ftruncate(c->fd, (off_t)end) == 0 ? end : c->bytes;
    if (c->fd >= 0 && end == 0 && tw_write_all(c->fd, MAGIC, MAGIC_BYTES) != 0) {
        close(c->fd);
        c->fd = -1;
    }
    return c;
}

void tw_hash_cache_close(struct tw_hash_cache *c)
{
    if (!c)
        return;
    tw_hash_cache_flush(c);
    if (c->fd >= 0 && c->added + c->dead > c->live + 1000)
        compact(c);
    if (c->fd >= 0)
        close(c->fd);
    pthread_mutex_destroy(&c->lock);
    tw_buf_free(&c->pending);
    tw_free(c->slot);
    tw_free(c->data);
    tw_free(c->path);
    tw_free(c);
}

/* A record counts when the file looks as it did and that look came clearly after its last change;
 * see TICK_NS. */
bool tw_hash_cache_find(struct tw_hash_cache *c, struct tw_hash_item *item)
{
    if (!c || !c->data)
        return false;
    const size_t at = *slot_of(c, item->path, strlen(item->path), item->kind);
    if (at == 0)
        return false;
    const struct record r = record_at(c, at);
    const struct tw_file_state *s = &item->state;
    const int64_t latest = s->mtime_ns > s->ctime_ns ? s->mtime_ns : s->ctime_ns;
    const int64_t tick = s->mtime_ns % 1000000000 == 0 && s->ctime_ns % 1000000000 == 0
                             ? COARSE_TICK_NS
                             : TICK_NS;
    if (r.device != s->device || r.inode != s->inode || r.bytes != s->bytes ||
        r.mtime_ns != s->mtime_ns || r.ctime_ns != s->ctime_ns || latest + tick > r.taken_ns)
        return false;
    memcpy(item->digest, r.digest, sizeof item->digest);
    return true;
}

/* Called by the threads that digest. A full buffer is written at once, the rest some tenths of a
 * second later. */
void tw_hash_cache_add(struct tw_hash_cache *c, const struct tw_hash_item *item, int64_t taken_ns)
{
    const struct tw_file_state *s = &item->state;
    struct record r = {0,           (uint32_t)strlen(item->path),
                       s->device,   s->inode,
                       s->bytes,    s->mtime_ns,
                       s->ctime_ns, taken_ns,
                       item->kind,  0,
                       {0}};
    if (!c || c->fd < 0)
        return;
    memcpy(r.digest, item->digest, tw_hash_size(item->kind));
    r.crc = checksum(&r, item->path);
    pthread_mutex_lock(&c->lock);
    tw_buf_append(&c->pending, &r, sizeof r);
    tw_buf_append(&c->pending, item->path, r.path_bytes);
    c->added++;
    const bool full = c->pending.len > PENDING;
    pthread_mutex_unlock(&c->lock);
    if (full)
        tw_hash_cache_flush(c);
}

/* A write that fails ends the appending for good; the digests of this call are not affected. */
void tw_hash_cache_flush(struct tw_hash_cache *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    const bool torn = c->pending.len > 0 &&
                      (c->pending.failed ||
                       (c->fd >= 0 && tw_write_all(c->fd, c->pending.data, c->pending.len) != 0));
    if (torn && c->fd >= 0) { /* a full disk: what stands there up to the tear counts */
        close(c->fd);
        c->fd = -1;
    }
    c->pending.len = 0;
    pthread_mutex_unlock(&c->lock);
}
