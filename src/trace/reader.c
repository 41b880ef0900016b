/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a trace and finds its blocks: by their pointers where these lead to good blocks, by
 * scanning where they do not. The rest of the reader stands on this: entries.c, dict.c, search.c,
 * verify.c.
 *
 * A trace may be that of a process that was killed, and it may come from anybody. A block counts
 * when its magic number, its own offset in the header and its checksum are right; the last one of
 * the file must have good contents, too. All pointers lead to smaller offsets, so each walk ends.
 * Blocks stand at multiples of 64 bytes: a scan looks for the magic number there. */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCAN_CHUNK (64u << 10)
#define SCAN_FIRST (4u << 10) /* an end block is found in this; a torn tail needs more */
/* good headers with bad payloads that are stepped over while looking for the last good block */
#define BAD_PAYLOADS 4096

/* Opens the file, and lends the memory in which it is read. */
static int take_up(struct twin_trace *t, struct stat *st, struct twin_error *err)
{
    t->fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (t->fd < 0 || fstat(t->fd, st) != 0)
        return twin_error_system(err, "cannot open trace %s", t->path);
    t->payload = tw_malloc(TW_PAYLOAD_MAX);
    t->cache = tw_calloc(TW_HEADER_CACHE, sizeof *t->cache);
    return t->payload && t->cache ? 0 : tw_no_memory(err, "opening trace %s", t->path);
}

int tw_trace_wake(struct twin_trace *t, struct twin_error *err)
{
    struct stat st;
    if (t->fd >= 0)
        return 0;
    int rc = take_up(t, &st, err);
    if (rc == 0 && (st.st_dev != t->device || st.st_ino != t->inode || !S_ISREG(st.st_mode)))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: another file took its place", t->path);
    if (rc != 0)
        twin_trace_rest(t);
    return rc;
}

void twin_trace_rest(struct twin_trace *t)
{
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    tw_free(t->payload);
    tw_free(t->cache);
    tw_places_free(&t->places);
    t->sought.magic = 0;
    t->payload = NULL;
    t->cache = NULL;
    t->payload_offset = 0;
}

/* Reads up to n bytes; fewer at the end of the file. Counts what was read, for those who measure
 * it. */
int tw_trace_pread(struct twin_trace *t, void *to, size_t n, uint64_t offset,
                   struct twin_error *err)
{
    int rc = tw_trace_wake(t, err);
    if (rc != 0)
        return rc;
    ssize_t got = tw_pread_all(t->fd, to, n, offset);
    if (got < 0)
        return twin_error_system(err, "%s: cannot read %zu bytes at %llu", t->path, n,
                                 (unsigned long long)offset);
    t->bytes_read += (uint64_t)got;
    return (int)got;
}

/* 0, or a possible place of a block before `before`. */
static bool pointer_ok(uint64_t to, uint64_t before)
{
    return to == 0 ||
           (to >= sizeof(struct tw_file_header) && to < before && to % TW_BLOCK_ALIGN == 0);
}

bool tw_trace_header_ok(const struct twin_trace *t, const struct tw_block *b, uint64_t offset)
{
    return b->magic == TW_BLOCK_MAGIC && b->offset == offset &&
           b->crc == tw_crc32c(t->header.crc, b, offsetof(struct tw_block, crc)) &&
           b->type >= TW_BLOCK_DATA && b->type <= TW_BLOCK_END &&
           b->payload_bytes <= TW_PAYLOAD_MAX && b->payload_bytes % 8 == 0 &&
           tw_block_span(b) <= t->size - offset && pointer_ok(b->previous, offset) &&
           pointer_ok(b->last_data, offset) && pointer_ok(b->jump, offset) &&
           pointer_ok(b->last_dict, offset) && b->steps <= UINT32_MAX;
}

/* The header at an offset, out of a small cache or from the file. TW_DAMAGED when there is no good
 * one. */
int tw_trace_header(struct twin_trace *t, uint64_t offset, struct tw_block *b,
                    struct twin_error *err)
{
    if (offset < sizeof(struct tw_file_header) || offset % TW_BLOCK_ALIGN != 0 ||
        offset > t->size || t->size - offset < sizeof *b)
        return TW_DAMAGED;
    int rc = tw_trace_wake(t, err);
    if (rc != 0)
        return rc;
    struct tw_block *cached = &t->cache[offset / TW_BLOCK_ALIGN % TW_HEADER_CACHE];
    if (cached->magic && cached->offset == offset) {
        *b = *cached;
        return TW_GOOD;
    }
    int n = tw_trace_pread(t, b, sizeof *b, offset, err);
    if (n < 0)
        return n;
    if (n < (int)sizeof *b || !tw_trace_header_ok(t, b, offset))
        return TW_DAMAGED;
    *cached = *b;
    return TW_GOOD;
}

/* Loads the contents of b into t->payload, unless they are there already. TW_DAMAGED when their
 * checksum is wrong. */
int tw_trace_payload(struct twin_trace *t, const struct tw_block *b, struct twin_error *err)
{
    if (t->payload_offset == b->offset)
        return TW_GOOD;
    t->payload_offset = 0;
    int n = tw_trace_wake(t, err);
    if (n == 0)
        n = tw_trace_pread(t, t->payload, b->payload_bytes, b->offset + sizeof *b, err);
    if (n < 0)
        return n;
    if ((uint32_t)n != b->payload_bytes ||
        tw_crc32c(t->header.crc, t->payload, b->payload_bytes) != b->payload_crc)
        return TW_DAMAGED;
    t->payload_offset = b->offset;
    return TW_GOOD;
}

/* *budget: how many more blocks with bad contents are passed over. Without it a file could make us
 * read each of its payloads. */
static int try_block(struct twin_trace *t, uint64_t offset, bool with_payload, unsigned *budget,
                     struct tw_block *b, struct twin_error *err)
{
    int look = tw_trace_header(t, offset, b, err);
    if (look != TW_GOOD || !with_payload)
        return look;
    look = tw_trace_payload(t, b, err);
    if (look == TW_DAMAGED && (*budget)-- == 0)
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: too much damage: over %d blocks have a good header and bad contents", t->path,
            BAD_PAYLOADS);
    return look;
}

/* A file may claim a terabyte that was never written; there is no block in that. This gives the end
 * of the last bytes below `end` that were written, by halving: "something was written at or after
 * x" turns false only once. Gives `end` where the file system cannot say. */
static uint64_t written_before(const struct twin_trace *t, uint64_t end)
{
    uint64_t low = 0, high = end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        off_t data = lseek(t->fd, (off_t)middle, SEEK_DATA);
        if (data < 0 && errno != ENXIO)
            return end;
        if (data >= 0 && (uint64_t)data < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first place at or after `at` that was written, aligned to a block; the file's size when there
 * is none, `at` where the file system cannot say. */
static uint64_t written_after(const struct twin_trace *t, uint64_t at)
{
    off_t data = lseek(t->fd, (off_t)at, SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? t->size : at;
    return (uint64_t)data / TW_BLOCK_ALIGN * TW_BLOCK_ALIGN;
}

/* Looks at every possible place from `from` down. The first reads are small, because the end of a
 * whole file is met at once; from SCAN_CHUNK on, unwritten stretches are jumped over. */
int tw_trace_scan_back(struct twin_trace *t, uint64_t from, bool with_payload, struct tw_block *b,
                       struct twin_error *err)
{
    uint64_t chunk[SCAN_CHUNK / 8];
    unsigned budget = BAD_PAYLOADS;
    uint64_t end = from < t->size ? tw_align_block(from + 1) : tw_align_block(t->size);
    uint64_t step = SCAN_FIRST;
    while (end > sizeof(struct tw_file_header)) {
        uint64_t start = end > step ? end - step : 0;
        int n = tw_trace_pread(t, chunk, (size_t)(end - start), start, err);
        if (n < 0)
            return n;
        for (uint64_t at = end; at > start;) {
            at -= TW_BLOCK_ALIGN;
            if (at - start + 8 > (uint64_t)n || chunk[(at - start) / 8] != TW_BLOCK_MAGIC)
                continue;
            int look = try_block(t, at, with_payload, &budget, b, err);
            if (look != TW_DAMAGED)
                return look;
        }
        end = step < SCAN_CHUNK ? start : tw_align_block(written_before(t, start));
        step = step < SCAN_CHUNK ? step * 2 : step;
    }
    return TW_DAMAGED;
}

/* The place itself is tried first: in an undamaged file the block is there. */
int tw_trace_scan_forward(struct twin_trace *t, uint64_t from, struct tw_block *b,
                          struct twin_error *err)
{
    uint64_t chunk[SCAN_CHUNK / 8];
    int here = tw_trace_header(t, tw_align_block(from), b, err);
    if (here != TW_DAMAGED)
        return here;
    for (uint64_t start = written_after(t, tw_align_block(from)); start < t->size;
         start = written_after(t, start + SCAN_CHUNK)) {
        int n = tw_trace_pread(t, chunk, sizeof chunk, start, err);
        if (n < 0)
            return n;
        for (uint64_t at = 0; at + 8 <= (uint64_t)n; at += TW_BLOCK_ALIGN) {
            int look = chunk[at / 8] == TW_BLOCK_MAGIC ? tw_trace_header(t, start + at, b, err)
                                                       : TW_DAMAGED;
            if (look != TW_DAMAGED)
                return look;
        }
    }
    return TW_DAMAGED;
}

/* The nearest good block before a damaged place. The last answer is kept, since each probe of a
 * search meets the same hole. */
static int before_hole(struct twin_trace *t, uint64_t hole, struct tw_block *b,
                       struct twin_error *err)
{
    if (hole == t->hole_from)
        return tw_trace_header(t, t->hole_to, b, err);
    int look = tw_trace_scan_back(t, hole - 1, false, b, err);
    if (look == TW_GOOD) {
        t->hole_from = hole;
        t->hole_to = b->offset;
    }
    return look;
}

int tw_trace_before(struct twin_trace *t, const struct tw_block *b, enum tw_block_type type,
                    struct tw_block *out, struct twin_error *err)
{
    struct tw_block at = *b;
    for (;;) {
        uint64_t to = type == TW_BLOCK_DATA ? at.last_data : at.last_dict;
        if (to == 0)
            return TW_DAMAGED;
        int look = tw_trace_header(t, to, out, err);
        if (look == TW_DAMAGED)
            look = before_hole(t, to, out, err);
        if (look != TW_GOOD || out->type == type)
            return look;
        at = *out; /* the scan met another type: its pointer leads on; offsets only fall */
    }
}

int tw_trace_last(struct twin_trace *t, enum tw_block_type type, struct tw_block *out,
                  struct twin_error *err)
{
    if (!t->any)
        return TW_DAMAGED;
    *out = t->last;
    return out->type == type ? TW_GOOD : tw_trace_before(t, &t->last, type, out, err);
}

/* Checks the header of the file. The order gives the best message: what is no trace, then what
 * another version wrote, and only then damage. */
static int read_file_header(struct twin_trace *t, struct twin_error *err)
{
    struct tw_file_header *h = &t->header;
    int n = tw_trace_pread(t, h, sizeof *h, 0, err);
    if (n < 0)
        return n;
    if (n < 8 || memcmp(h->magic, tw_file_magic, sizeof h->magic) != 0)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s is no trace: its first 8 bytes are not the magic number",
                              t->path);
    if (n < (int)sizeof *h)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: header cut short: expected %zu bytes, found %d", t->path,
                              sizeof *h, n);
    if (h->endian != TW_TRACE_ENDIAN)
        return twin_error_set(err, TWIN_EVERSION,
                              "%s: byte order mark 0x%08x, expected 0x%08x (little endian)",
                              t->path, h->endian, TW_TRACE_ENDIAN);
    if (h->min_reader > TW_TRACE_VERSION)
        return twin_error_set(err, TWIN_EVERSION,
                              "%s: written in version %u, needs a reader of version %u; this one "
                              "reads %d: use a newer twinrun",
                              t->path, h->version, h->min_reader, TW_TRACE_VERSION);
    if (h->crc != tw_crc32c(0, h, offsetof(struct tw_file_header, crc)))
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: header damaged: CRC32C is %08x, expected %08x", t->path,
                              tw_crc32c(0, h, offsetof(struct tw_file_header, crc)), h->crc);
    if (h->features & TW_FEATURES_REQUIRED & ~TW_FEATURES_KNOWN)
        return twin_error_set(
            err, TWIN_EVERSION,
            "%s: uses features 0x%llx that this version does not know: use a newer twinrun",
            t->path, (unsigned long long)(h->features & TW_FEATURES_REQUIRED & ~TW_FEATURES_KNOWN));
    if (h->header_bytes != sizeof *h || h->role_bytes > TW_ROLE_MAX)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: header of %u bytes with a role of %u: expected %zu, at most %u",
                              t->path, h->header_bytes, h->role_bytes, sizeof *h, TW_ROLE_MAX);
    return 0;
}

/* What twin_trace_info() tells. All counts come from the last good block, and are 0 without one. */
static void fill_info(struct twin_trace *t)
{
    const struct tw_file_header *h = &t->header;
    struct twin_trace_info *i = &t->info;
    memcpy(t->role, h->role, h->role_bytes);
    i->version = h->version;
    memcpy(i->run_id, h->run_id, sizeof i->run_id);
    i->rank = h->rank;
    i->world = h->world;
    i->pid = h->pid;
    i->role = t->role;
    i->start_realtime_ns = h->start_realtime_ns;
    i->start_monotonic_ns = h->start_monotonic_ns;
    i->file_bytes = t->size;
    i->tail_bytes = t->size - sizeof *h;
    if (!t->any)
        return;
    i->closed = t->last.type == TW_BLOCK_END;
    i->blocks = t->last.index + 1;
    i->tail_bytes = t->size - t->last.offset - tw_block_span(&t->last);
    i->dropped = t->last.dropped_total;
    i->records = t->last.records_total + t->last.dropped_total;
    i->lost = t->last.lost_total;
    i->steps = t->last.steps;
    i->observer_ns = t->last.observer_ns;
    i->last_time_ns = t->last.time_ns;
}

static int open_file(struct twin_trace *t, struct twin_error *err)
{
    struct stat st;
    int rc = take_up(t, &st, err);
    if (rc != 0)
        return rc;
    if (!S_ISREG(st.st_mode))
        return twin_error_set(err, TWIN_EFORMAT, "%s is no trace: it is not a regular file",
                              t->path);
    t->size = (uint64_t)st.st_size;
    t->device = st.st_dev;
    t->inode = st.st_ino;
    return read_file_header(t, err);
}

/* Reads the header and finds the last good block. A file without any block is a trace of nothing,
 * and no error. */
int twin_trace_open(const char *path, struct twin_trace **out, struct twin_error *err)
{
    *out = NULL;
    struct twin_trace *t = tw_calloc(1, sizeof *t);
    if (t) {
        t->fd = -1;
        t->path = tw_strdup(path);
    }
    if (!t || !t->path) {
        twin_trace_close(t);
        return tw_no_memory(err, "opening trace %s", path);
    }
    int rc = open_file(t, err);
    if (rc == 0 && t->size > sizeof t->header) {
        int look = tw_trace_scan_back(t, t->size, true, &t->last, err);
        t->any = look == TW_GOOD;
        rc = look < 0 ? look : 0;
    }
    if (rc != 0) {
        twin_trace_close(t);
        return rc;
    }
    fill_info(t);
    *out = t;
    return 0;
}

void twin_trace_close(struct twin_trace *t)
{
    if (!t)
        return;
    twin_trace_rest(t);
    tw_dict_free(&t->dict);
    tw_free(t->observed);
    tw_free(t->path);
    tw_free(t);
}

const struct twin_trace_info *twin_trace_info(const struct twin_trace *t)
{
    return &t->info;
}

uint64_t twin_trace_bytes_read(const struct twin_trace *t)
{
    return t->bytes_read;
}
