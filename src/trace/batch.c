/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a trace one after the other, for verify.c, which wants all of them: several by one call
 * of the system, with their checksums and the hashes that go into their seals. These do not depend
 * on one another, as the entries do, so that four blocks are hashed side by side and a thread of
 * its own may do all this ahead of who checks the entries.
 *
 * Such a thread reads the file and writes its batch, and touches nothing else of the trace. */
#include "reader.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* The hashes of all good payloads, four at a time. Where fewer are left, the last one stands for
 * those that are missing. */
static void hash_payloads(struct tw_batch *b)
{
    size_t whole = 0;
    while (whole < b->count && b->block[whole].whole)
        whole++;
    for (size_t i = 0; i < whole; i += TW_SIDES) {
        const char *payload[TW_SIDES];
        uint32_t bytes[TW_SIDES];
        struct tw_hash128 hash[TW_SIDES];
        for (size_t n = 0; n < TW_SIDES; n++) {
            const struct tw_batch_block *x = &b->block[i + n < whole ? i + n : whole - 1];
            payload[n] = x->payload;
            bytes[n] = x->header->payload_bytes;
        }
        tw_trace_payload_hashes(payload, bytes, hash);
        for (size_t n = 0; n < TW_SIDES && i + n < whole; n++)
            b->block[i + n].body = hash[n];
    }
}

/* The block at `offset`, of which `left` bytes are in the batch's bytes. False: it begins the next
 * batch. */
static bool add_block(const struct twin_trace *t, struct tw_batch *b, uint64_t offset,
                      const char *bytes, size_t left)
{
    const struct tw_block *header = (const void *)bytes;
    struct tw_batch_block x = {.offset = offset};
    bool here = left >= sizeof *header && tw_trace_header_ok(t, header, offset);
    /* the file may have become shorter: then even the first is not whole */
    if (b->count > 0 && (here ? tw_block_span(header) > left : left < sizeof *header))
        return false;
    if (here) {
        x.header = header;
        x.payload = bytes + sizeof *header;
        x.whole = tw_block_span(header) <= left;
        x.payload_crc = x.whole ? tw_crc32c(t->header.crc, x.payload, header->payload_bytes) : 0;
        x.whole &= x.payload_crc == header->payload_crc;
    }
    assert(b->count < TW_BATCH_BLOCKS);
    b->block[b->count++] = x;
    b->next = offset + (here ? tw_block_span(header) : 0);
    return true;
}

/* Reads what has room, and takes the blocks that are whole in it. */
static void fill_batch(const struct twin_trace *t, uint64_t at, uint64_t end, struct tw_batch *b)
{
    size_t room = end - at < TW_BATCH_BYTES ? (size_t)(end - at) : TW_BATCH_BYTES;
    b->count = 0;
    b->error = 0;
    b->next = at;
    ssize_t n = tw_pread_all(t->fd, b->bytes, room, at);
    b->read = n < 0 ? 0 : (uint64_t)n;
    if (n < 0) {
        b->error = errno;
        return;
    }
    for (uint64_t from = at; from < end && b->count < TW_BATCH_BLOCKS; from = b->next) {
        const uint64_t within = from - at;
        if (!add_block(t, b, from, b->bytes + (within < b->read ? within : 0),
                       within < b->read ? (size_t)(b->read - within) : 0) ||
            !b->block[b->count - 1].whole)
            break;
    }
    hash_payloads(b);
}

/* Is this batch the last one, because of its end, of damage or of an error? */
static bool is_last(const struct tw_reading *r, const struct tw_batch *b)
{
    return b->error || b->next >= r->end || !b->block[b->count - 1].whole;
}

/* The thread that reads ahead. */
static void *read_ahead(void *arg)
{
    struct tw_reading *r = arg;
    for (bool last = false; !last;) {
        pthread_mutex_lock(&r->lock);
        while (r->filled - r->taken == 2 && !r->stop)
            pthread_cond_wait(&r->moved, &r->lock);
        struct tw_batch *b = &r->batch[r->filled % 2];
        last = r->stop;
        pthread_mutex_unlock(&r->lock);
        if (last)
            break;
        fill_batch(r->t, r->at, r->end, b);
        last = is_last(r, b);
        r->at = b->next;
        pthread_mutex_lock(&r->lock);
        r->filled++;
        r->done = last;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

int tw_reading_begin(struct tw_reading *r, const struct twin_trace *t, uint64_t from, uint64_t end,
                     bool beside)
{
    *r = (struct tw_reading){.t = t, .at = from, .end = end, .done = from >= end};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->moved, NULL);
    for (int i = 0; i < (beside ? 2 : 1); i++)
        if (!(r->batch[i].bytes = tw_malloc(TW_BATCH_BYTES)))
            return TWIN_ENOMEM;
    /* without a thread everything is done by who asks */
    r->beside = beside && !r->done && pthread_create(&r->thread, NULL, read_ahead, r) == 0;
    return 0;
}

const struct tw_batch *tw_reading_next(struct tw_reading *r)
{
    struct tw_batch *b = &r->batch[0];
    if (!r->beside) {
        if (r->done)
            return NULL;
        fill_batch(r->t, r->at, r->end, b);
        r->at = b->next;
        r->done = is_last(r, b);
        return b;
    }
    pthread_mutex_lock(&r->lock);
    r->taken += r->out;
    r->out = false;
    pthread_cond_broadcast(&r->moved);
    while (r->filled == r->taken && !r->done)
        pthread_cond_wait(&r->moved, &r->lock);
    if (r->filled == r->taken) {
        b = NULL;
    } else {
        b = &r->batch[r->taken % 2];
        r->out = true;
    }
    pthread_mutex_unlock(&r->lock);
    return b;
}

void tw_reading_end(struct tw_reading *r)
{
    if (r->beside) {
        pthread_mutex_lock(&r->lock);
        r->stop = true;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->thread, NULL);
    }
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->moved);
    tw_free(r->batch[0].bytes);
    tw_free(r->batch[1].bytes);
}
