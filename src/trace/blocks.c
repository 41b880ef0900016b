/* SPDX-License-Identifier: Apache-2.0 */
/* The trace file as the drain thread writes it: header, blocks, chain (format.h;
 * docs/format/trace.md). Called by drain.c alone, so nothing here needs a lock but what it reads of
 * the recorders.
 *
 * Records and ends of steps collect in one open DATA block, definitions and notes in one open DICT
 * block. Sealing fills in the header of a block (pointers back, checksums, a seal over the block
 * and the seal before it) and writes the block as one piece. Definitions are sealed before the data
 * that use them, so whatever a killed process leaves can be read from the front. After a failed
 * write the writer is off, and what is on disk stays readable up to the last whole block. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIGH_FD 200 /* away from the numbers that jobs close, dup2 onto, or expect to get */
/* Room for a payload at its target and one entry more, the longest being a note with the longest
 * key and value. */
#define DICT_ROOM (TW_BLOCK_TARGET + TW_STRING_MAX + TW_NOTE_KEY_MAX + 64u)

/* The drain's state as it is before the first block. After a fork the two buffers of the parent are
 * used again. 0 or TWIN_ENOMEM. */
int tw_blocks_init(struct twin_writer *w)
{
    struct tw_drain *d = &w->drain;
    char *data = d->data_bytes, *dict = d->dict_bytes;
    if (!data)
        data = tw_malloc(sizeof(struct tw_block) + TW_BLOCK_TARGET + TW_BLOCK_ALIGN);
    if (!dict)
        dict = tw_malloc(sizeof(struct tw_block) + DICT_ROOM + TW_BLOCK_ALIGN);
    *d = (struct tw_drain){.fd = -1, .data_bytes = data, .dict_bytes = dict};
    return data && dict ? 0 : TWIN_ENOMEM;
}

/* Writes all n bytes at the offset. 0 or an errno; a write of no bytes counts as EIO. */
static int write_at(int fd, const char *p, size_t n, uint64_t offset)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, p, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done == 0 ? EIO : errno;
        p += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return 0;
}

/* Is the number still the trace's file? A program may close descriptors that it did not open, and
 * get the number again for a file of its own: that must never be written to. */
static bool still_ours(const struct tw_drain *d)
{
    struct stat st;
    return d->fd >= 0 && fstat(d->fd, &st) == 0 && (uint64_t)st.st_dev == d->device &&
           (uint64_t)st.st_ino == d->inode;
}

/* Gives the finished file its name: a trace is never seen without its header. 0 or an errno; EEXIST
 * when there is such a trace already, which is never replaced. */
static int publish(const char *from, const char *to)
{
    if (link(from, to) == 0) {
        unlink(from);
        return 0;
    }
    if (errno == EEXIST || errno == ENOENT || errno == ENOSPC || errno == EDQUOT ||
        errno == EACCES || errno == EROFS)
        return errno;
    /* a file system without hard links: reserve the name, then replace the empty file */
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    close(fd);
    return rename(from, to) == 0 ? 0 : errno;
}

/* Creates the file under a temporary name, writes its header, gives it its name. On failure nothing
 * is left and the writer is off. The seal of the header is what the first block is chained to.
 * Nothing is malloc'ed: see free_notes in intern.c. */
void tw_file_create(struct twin_writer *w)
{
    struct tw_drain *d = &w->drain;
    char temp[PATH_MAX];
    struct stat st;
    int n = snprintf(temp, sizeof temp, "%s.new", w->path);
    int error = n > 0 && (size_t)n < sizeof temp ? 0 : ENAMETOOLONG;
    if (error == 0) {
        unlink(temp); /* left by a process that was killed right here */
        d->fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
        error = d->fd < 0 ? errno : 0;
    }
    if (error == 0) {
        /* In a shared table the file moves to a number that programs seldom use. */
        int high = d->alone ? -1 : fcntl(d->fd, F_DUPFD_CLOEXEC, HIGH_FD);
        if (high >= 0) {
            close(d->fd);
            d->fd = high;
        }
        error = fstat(d->fd, &st) == 0 ? 0 : errno;
    }
    if (error == 0) {
        d->device = (uint64_t)st.st_dev;
        d->inode = (uint64_t)st.st_ino;
        w->header.crc = tw_crc32c(0, &w->header, offsetof(struct tw_file_header, crc));
        d->crc_seed = w->header.crc;
        error = write_at(d->fd, (const char *)&w->header, sizeof w->header, 0);
        d->position = sizeof w->header;
        struct tw_hash128 h = tw_hash_bytes(&w->header, sizeof w->header, 0);
        d->last.seal_a = h.a;
        d->last.seal_b = h.b;
        if (error == 0)
            error = publish(temp, w->path);
        if (error != 0)
            unlink(temp);
    }
    if (error != 0) {
        if (d->fd >= 0)
            close(d->fd);
        d->fd = -1;
        tw_writer_fail(w, error);
    } else {
        atomic_store(&w->bytes, d->position);
    }
}

void tw_file_close(struct twin_writer *w)
{
    struct tw_drain *d = &w->drain;
    /* a forked child has the number only where the table was shared */
    bool in_this_table = !d->alone || w->pid == getpid();
    if (in_this_table && still_ours(d) && close(d->fd) != 0 && errno != EINTR)
        tw_writer_fail(w, errno);
    d->fd = -1;
}

/* Completes the header in *b and writes the block at the end of the file. bytes: room for the
 * header, then the payload, then room for the padding. The order counts: the jump pointer is
 * covered by the seal, the seal by the header's checksum. */
static void write_block(struct twin_writer *w, enum tw_block_type type, struct tw_block *b,
                        char *bytes)
{
    struct tw_drain *d = &w->drain;
    if (!tw_writer_on(w))
        return;
    b->magic = TW_BLOCK_MAGIC;
    b->type = (uint8_t)type;
    b->offset = d->position;
    b->index = d->any ? d->last.index + 1 : 0;
    b->previous = d->any ? d->last.offset : 0;
    b->data_index = d->data_blocks;
    b->last_data = d->last_data;
    b->last_dict = d->last_dict;
    b->records_total = d->last.records_total + b->records;
    /* A block without steps repeats what is known of the steps before it: so the last block of a
     * file tells it, of whatever type it is. */
    if (type != TW_BLOCK_DATA) {
        b->steps = d->last.steps;
        b->prefix_lo = d->last.prefix_lo;
        b->prefix_hi = d->last.prefix_hi;
        b->order_prefix_lo = d->last.order_prefix_lo;
        b->order_prefix_hi = d->last.order_prefix_hi;
    }
    b->dropped_total = tw_dropped_total(w);
    b->lost_total = atomic_load(&w->lost);
    b->observer_ns = atomic_load(&w->observer_ns);
    b->time_ns = tw_monotonic_ns() - w->header.start_monotonic_ns;
    b->previous_seal_a = d->last.seal_a;
    b->previous_seal_b = d->last.seal_b;
    if (type == TW_BLOCK_DATA)
        b->jump = tw_jump_next(&d->jumps, b->offset, b->data_index);
    char *payload = bytes + sizeof *b;
    struct tw_hash128 seal = tw_trace_seal(b, payload);
    b->seal_a = seal.a;
    b->seal_b = seal.b;
    b->payload_crc = tw_crc32c(d->crc_seed, payload, b->payload_bytes);
    b->crc = tw_crc32c(d->crc_seed, b, offsetof(struct tw_block, crc));
    memcpy(bytes, b, sizeof *b);
    uint64_t span = tw_block_span(b);
    memset(payload + b->payload_bytes, 0, span - sizeof *b - b->payload_bytes);
    int error = still_ours(d) ? write_at(d->fd, bytes, span, d->position) : EBADF;
    if (error != 0) {
        tw_writer_fail(w, error);
        return;
    }
    d->position += span;
    d->last = *b;
    d->any = true;
    if (type == TW_BLOCK_DATA) {
        d->data_blocks++;
        d->last_data = b->offset;
    } else if (type == TW_BLOCK_DICT) {
        d->last_dict = b->offset;
    }
    d->last_seal_ns = tw_monotonic_ns();
    atomic_store(&w->blocks, b->index + 1);
    atomic_store(&w->bytes, d->position);
    atomic_store(&w->records_stored, b->records_total);
}

/* ---- definitions */

static void write_dict(struct twin_writer *w)
{
    struct tw_drain *d = &w->drain;
    if (d->dict.payload_bytes)
        write_block(w, TW_BLOCK_DICT, &d->dict, d->dict_bytes);
    d->dict = (struct tw_block){0};
}

/* Adds an entry to the open DICT block: a fixed part that starts with a struct tw_entry, and up to
 * two variable ones, padded with zeros to 8 bytes. A full block is sealed first. */
static void put_dict(struct twin_writer *w, void *fixed, size_t fixed_bytes,
                     enum tw_entry_type type, const void *x, size_t x_bytes, const void *y,
                     size_t y_bytes)
{
    struct tw_drain *d = &w->drain;
    uint32_t bytes = (uint32_t)tw_align8(fixed_bytes + x_bytes + y_bytes);
    struct tw_entry e = {.bytes = bytes, .type = (uint8_t)type};
    memcpy(fixed, &e, sizeof e);
    if (d->dict.payload_bytes + bytes > TW_BLOCK_TARGET)
        write_dict(w);
    char *at = d->dict_bytes + sizeof(struct tw_block) + d->dict.payload_bytes;
    memset(at + bytes - 8, 0, 8);
    memcpy(at, fixed, fixed_bytes);
    if (x_bytes)
        memcpy(at + fixed_bytes, x, x_bytes);
    if (y_bytes)
        memcpy(at + fixed_bytes + x_bytes, y, y_bytes);
    d->dict.payload_bytes += bytes;
    d->dict.entries++;
}

/* Takes the whole list of waiting notes under the lock and writes them without it. A recorder frees
 * them. */
static void put_notes(struct twin_writer *w)
{
    if (!atomic_load_explicit(&w->notes_waiting, memory_order_acquire))
        return;
    pthread_mutex_lock(&w->intern_lock);
    struct tw_note_node *n = w->notes, *last = NULL;
    w->notes = NULL;
    w->notes_end = &w->notes;
    atomic_store(&w->notes_waiting, false);
    pthread_mutex_unlock(&w->intern_lock);
    struct tw_note_node *written = n;
    for (; n; n = n->next) {
        last = n;
        struct tw_note note = {.key_bytes = n->key_bytes, .value_bytes = n->value_bytes};
        put_dict(w, &note, sizeof note, TW_ENTRY_NOTE, n->bytes, n->key_bytes,
                 n->bytes + n->key_bytes, n->value_bytes);
    }
    if (!last)
        return;
    pthread_mutex_lock(&w->intern_lock);
    last->next = w->notes_written;
    w->notes_written = written;
    pthread_mutex_unlock(&w->intern_lock);
}

/* Everything interned so far. What the pending records use was interned before they were pushed, so
 * it is in here; and a series is counted before the strings, because its strings are older than
 * itself. */
static void put_definitions(struct twin_writer *w)
{
    struct tw_drain *d = &w->drain;
    uint32_t series = atomic_load_explicit(&w->series.count, memory_order_acquire);
    uint32_t layouts = atomic_load_explicit(&w->layouts.count, memory_order_acquire);
    uint32_t strings = atomic_load_explicit(&w->strings.count, memory_order_acquire);
    while (d->strings < strings) {
        const struct tw_string_item *i = tw_table_at(&w->strings, ++d->strings);
        struct tw_string s = {.id = d->strings, .bytes = i->n};
        put_dict(w, &s, sizeof s, TW_ENTRY_STRING, i->bytes, i->n, NULL, 0);
    }
    while (d->layouts < layouts) {
        const struct tw_layout_item *i = tw_table_at(&w->layouts, ++d->layouts);
        struct tw_layout l = {.id = d->layouts, .dtype = i->dtype, .ndim = i->ndim};
        put_dict(w, &l, sizeof l, TW_ENTRY_LAYOUT, i->shape, 8u * i->ndim, NULL, 0);
    }
    while (d->series < series) {
        const struct twin_series *i =
            &((const struct tw_series_item *)tw_table_at(&w->series, ++d->series))->s;
        struct tw_series s = {.id = d->series,
                              .phase = i->phase,
                              .kind = i->kind,
                              .name = i->name,
                              .scope = i->scope,
                              .role = i->role,
                              .op = i->op,
                              .site = i->site};
        put_dict(w, &s, sizeof s, TW_ENTRY_SERIES, NULL, 0, NULL, 0);
    }
    put_notes(w);
}

/* ---- data */

/* Writes what has collected, definitions first. The next DATA block carries on with the number of
 * steps and the prefixes. */
void tw_blocks_seal(struct twin_writer *w)
{
    struct tw_drain *d = &w->drain;
    put_definitions(w);
    write_dict(w);
    if (!d->data.payload_bytes)
        return;
    write_block(w, TW_BLOCK_DATA, &d->data, d->data_bytes);
    struct tw_block next = {.steps = d->data.steps,
                            .prefix_lo = d->data.prefix_lo,
                            .prefix_hi = d->data.prefix_hi,
                            .order_prefix_lo = d->data.order_prefix_lo,
                            .order_prefix_hi = d->data.order_prefix_hi};
    d->data = next;
}

/* Adds a record, or the end of a step, to the open DATA block; a full one is sealed first. step and
 * seq become the bounds in the header, by which a reader skips blocks. */
void tw_blocks_put(struct twin_writer *w, const void *entry, uint32_t bytes, uint32_t step,
                   uint32_t seq, bool record)
{
    struct tw_drain *d = &w->drain;
    if (d->data.payload_bytes + bytes > TW_BLOCK_TARGET)
        tw_blocks_seal(w);
    struct tw_block *b = &d->data;
    memcpy(d->data_bytes + sizeof *b + b->payload_bytes, entry, bytes);
    b->payload_bytes += bytes;
    /* entries come in order of steps; within a step the threads' sequences interleave */
    if (b->entries == 0)
        b->first_step = step;
    if (b->entries == 0 || b->last_step != step)
        b->last_seq = 0;
    b->last_step = step;
    b->entries++;
    if (!record)
        return;
    b->records++;
    if (step == b->first_step && (b->first_seq == 0 || seq < b->first_seq))
        b->first_seq = seq;
    if (seq > b->last_seq)
        b->last_seq = seq;
}

/* The end of a step. When it lost records, a gap entry goes into the definitions first, so that a
 * reader who meets the step knows of the gap. */
void tw_blocks_put_step(struct twin_writer *w, const struct tw_step_end *s)
{
    struct tw_drain *d = &w->drain;
    if (s->dropped) {
        struct tw_gap g = {.step = s->step, .dropped = s->dropped};
        put_dict(w, &g, sizeof g, TW_ENTRY_GAP, NULL, 0, NULL, 0);
    }
    tw_blocks_put(w, s, s->e.bytes, s->step, 0, false);
    d->data.steps = (uint64_t)s->step + 1;
    d->data.prefix_lo = s->prefix_lo;
    d->data.prefix_hi = s->prefix_hi;
    d->data.order_prefix_lo = s->order_prefix_lo;
    d->data.order_prefix_hi = s->order_prefix_hi;
}

/* Seals what is left and writes the empty END block, which says that the process closed its trace.
 */
void tw_blocks_end(struct twin_writer *w)
{
    struct tw_block end = {0};
    char bytes[sizeof end + TW_BLOCK_ALIGN];
    tw_blocks_seal(w);
    write_block(w, TW_BLOCK_END, &end, bytes);
}
