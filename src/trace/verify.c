/* SPDX-License-Identifier: Apache-2.0 */
/* Everything a trace claims about itself, checked front to back by twin_trace_verify(); the first
 * fault is reported, with its place in the file and the two numbers that do not agree. For `twinrun
 * show` and for tests of the writer.
 *
 * Unlike the reader it excuses nothing: chain, seals, jump pointers and counts are computed again
 * from the contents, and so are the hashes of each step from its records. The hashes of a step that
 * dropped records cannot be computed again; they are believed, and the rest is still checked.
 *
 * Reading, checksums and the hashes of payloads are batch.c's, where two processors are free on a
 * thread of its own. What was seen of the records on the way is kept as a summary: who compares
 * runs need not read all of a trace again to know that there is nothing in it to be found. */
#include "reader.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Up to this a thread would take longer to start than to read the file. */
#define SMALL (1u << 20)

/* What one thread recorded of the step under way: order hashes are per thread. */
struct thread_sums {
    uint32_t thread;
    struct tw_step_sums sums;
};

/* A series that was defined. last: how the value of its last record began, which mostly is how the
 * next one's does. */
struct known_series {
    struct tw_hash128 key;
    uint8_t phase;
    bool ordered, begun;
    uint32_t occurrence, layout;
    struct tw_value_start last;
};

/* State of one verification. What stands here has been checked, and is what the next block must
 * follow on. */
struct check {
    struct twin_trace *t;
    struct twin_error *err;
    uint64_t at;                        /* offset of the block or entry under examination */
    const struct tw_batch_block *block; /* under examination */
    struct tw_block before;             /* the block before; seal of the file header at first */
    bool any;
    uint64_t data_blocks, last_data, last_dict;
    struct tw_jump_chain jumps;
    uint32_t strings, series, layouts; /* defined so far */
    struct known_series *known;        /* 1..known_room-1; filled as they are defined */
    bool *observed;
    uint32_t known_room;
    struct tw_hash128 *layout_hashes;
    uint32_t layout_room;
    /* the step under way: what each thread recorded, and how many records in all */
    struct thread_sums *threads;
    size_t thread_count, thread_room;
    uint32_t stored;
    uint64_t steps, gap_records;
    struct twin_value_hash prefix, order_prefix;
    struct tw_block seen; /* what the header must say: counts and bounds */
    struct twin_trace_summary summary;
    uint32_t a_thread; /* that of the first record */
};

static int fault(struct check *c, const char *what, uint64_t expected, uint64_t found)
{
    return twin_error_set(c->err, TWIN_EFORMAT,
                          "%s: at byte %" PRIu64 ": %s: expected 0x%" PRIx64 ", found 0x%" PRIx64,
                          c->t->path, c->at, what, expected, found);
}

/* Returns from the calling function with a fault when two numbers are not the same. */
#define EXPECT(what, expected, found)                      \
    do {                                                   \
        uint64_t expected_ = (expected), found_ = (found); \
        if (expected_ != found_)                           \
            return fault(c, what, expected_, found_);      \
    } while (0)

/* Enlarges an array from `old` to `room` items; new ones are zero. */
static bool grow_array(void **array, uint32_t room, uint32_t old, size_t item)
{
    char *grown = tw_reallocarray(*array, room, item);
    if (!grown)
        return false;
    memset(grown + (size_t)old * item, 0, (size_t)(room - old) * item);
    *array = grown;
    return true;
}

/* ---- definitions */

/* An undefined string counts as the empty one, as in the writer's id 0. */
static struct tw_hash128 hash_of_string(struct check *c, uint32_t id)
{
    const struct tw_dict *d = &c->t->dict;
    if (id < d->string_room && d->strings[id].bytes)
        return tw_trace_string_hash(d->strings[id].bytes, d->strings[id].n);
    return tw_trace_string_hash("", 0);
}

/* Ids must count up without a gap. */
static int check_string(struct check *c, const char *p, const struct tw_entry *e)
{
    struct tw_string s;
    memcpy(&s, p, sizeof s);
    EXPECT("string id", c->strings + 1, s.id);
    if (s.bytes > TW_STRING_MAX || tw_align8(sizeof s + (uint64_t)s.bytes) != e->bytes)
        return fault(c, "bytes of a string", e->bytes - sizeof s, s.bytes);
    c->strings++;
    return 0;
}

/* Its strings must be defined before it. Keeps key, phase and whether its records count for the
 * order hash. */
static int check_series(struct check *c, const char *p, const struct tw_entry *e)
{
    struct tw_series s;
    EXPECT("bytes of a series", sizeof s, e->bytes);
    memcpy(&s, p, sizeof s);
    EXPECT("series id", c->series + 1, s.id);
    if (s.phase >= TWIN_PHASE_COUNT || s.kind >= TWIN_KIND_COUNT)
        return fault(c, "phase and kind", TWIN_PHASE_COUNT, (uint64_t)s.phase << 8 | s.kind);
    const uint32_t ids[] = {s.name, s.scope, s.role, s.op, s.site};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i] > c->strings)
            return fault(c, "string of a series that is not defined yet", c->strings, ids[i]);
    c->series++;
    if (c->series >= c->known_room) {
        uint32_t room = c->known_room ? c->known_room * 2 : 64;
        if (!grow_array((void **)&c->known, room, c->known_room, sizeof *c->known) ||
            !grow_array((void **)&c->observed, room, c->known_room, sizeof *c->observed))
            return tw_no_memory(c->err, "verifying %s", c->t->path);
        c->known_room = room;
    }
    c->known[s.id] = (struct known_series){
        .key = tw_trace_key_hash(s.phase, s.kind, hash_of_string(c, s.name),
                                 hash_of_string(c, s.scope), hash_of_string(c, s.role)),
        .phase = s.phase,
        .ordered = s.role == 0,
    };
    return 0;
}

/* Keeps its hash, for the records that use it. */
static int check_layout(struct check *c, const char *p, const struct tw_entry *e)
{
    struct tw_layout l;
    int64_t shape[TWIN_MAX_NDIM];
    memcpy(&l, p, sizeof l);
    EXPECT("layout id", c->layouts + 1, l.id);
    if (l.ndim > TWIN_MAX_NDIM || e->bytes != sizeof l + 8u * l.ndim)
        return fault(c, "bytes of a layout", sizeof l + 8u * l.ndim, e->bytes);
    memcpy(shape, p + sizeof l, 8u * l.ndim);
    c->layouts++;
    if (c->layouts >= c->layout_room) {
        uint32_t room = c->layout_room ? c->layout_room * 2 : 64;
        if (!grow_array((void **)&c->layout_hashes, room, c->layout_room, sizeof *c->layout_hashes))
            return tw_no_memory(c->err, "verifying %s", c->t->path);
        c->layout_room = room;
    }
    c->layout_hashes[l.id] = tw_trace_layout_hash(l.dtype, l.ndim, shape);
    return 0;
}

/* Any entry of a DICT block. A type that this version does not know is passed over. */
static int check_definition(struct check *c, const char *p, const struct tw_entry *e)
{
    struct tw_note n;
    struct tw_gap g;
    if (e->type != TW_ENTRY_STRING && e->type != TW_ENTRY_SERIES && e->type != TW_ENTRY_LAYOUT &&
        e->type != TW_ENTRY_NOTE && e->type != TW_ENTRY_GAP)
        return e->type == TW_ENTRY_RECORD || e->type == TW_ENTRY_STEP_END || e->type == TW_ENTRY_PAD
                   ? fault(c, "type of a definition", TW_ENTRY_STRING, e->type)
                   : 0; /* a later version's */
    if (e->bytes < 16)
        return fault(c, "bytes of a definition", 16, e->bytes);
    switch (e->type) {
    case TW_ENTRY_STRING: return check_string(c, p, e);
    case TW_ENTRY_SERIES: return check_series(c, p, e);
    case TW_ENTRY_LAYOUT: return check_layout(c, p, e);
    case TW_ENTRY_NOTE:
        memcpy(&n, p, sizeof n);
        if (tw_align8(sizeof n + (uint64_t)n.key_bytes + n.value_bytes) != e->bytes)
            return fault(c, "bytes of a note", sizeof n + (uint64_t)n.key_bytes + n.value_bytes,
                         e->bytes);
        return 0;
    default:
        memcpy(&g, p, sizeof g);
        EXPECT("bytes of a gap", sizeof g, e->bytes);
        if (g.step < c->steps || g.dropped == 0)
            return fault(c, "step of a gap", c->steps, g.step);
        c->gap_records += g.dropped;
        return 0;
    }
}

/* ---- records and steps */

/* The sums of a thread in this step, made when it is new; NULL when out of memory. */
static struct tw_step_sums *sums_of(struct check *c, uint32_t thread)
{
    for (size_t i = c->thread_count; i > 0; i--)
        if (c->threads[i - 1].thread == thread)
            return &c->threads[i - 1].sums;
    if (c->thread_count == c->thread_room) {
        size_t room = c->thread_room ? c->thread_room * 2 : 8;
        struct thread_sums *grown = tw_reallocarray(c->threads, room, sizeof *grown);
        if (!grown)
            return NULL;
        c->threads = grown;
        c->thread_room = room;
    }
    c->threads[c->thread_count] = (struct thread_sums){.thread = thread};
    return &c->threads[c->thread_count++].sums;
}

/* Notes of a record what the summary tells. */
static void sum_up(struct check *c, const char *p, const struct tw_entry *e,
                   const struct tw_record *r)
{
    if (c->summary.records++ == 0)
        c->a_thread = r->thread;
    c->summary.threads |= r->thread != c->a_thread;
    c->summary.unobserved += (e->flags & TWIN_REC_UNOBSERVED) != 0;
    if (!(e->flags & TWIN_REC_UNOBSERVED))
        c->observed[r->series] = true;
    if (e->flags & TWIN_REC_STATS) {
        struct tw_record_stats s;
        memcpy(&s, p + sizeof *r, sizeof s);
        c->summary.nonfinite |= (s.nan | s.pos_inf | s.neg_inf) != 0;
    }
}

/* Its step is the open one, and series and layout are defined before it. It is added to the sums of
 * its thread. */
static int check_record(struct check *c, const char *p, const struct tw_entry *e)
{
    struct tw_record r;
    if (!tw_record_fits(p, e))
        return fault(c, "bytes of a record with these flags", e->flags, e->bytes);
    memcpy(&r, p, sizeof r);
    EXPECT("step of a record", c->steps, r.step);
    if (r.series == 0 || r.series > c->series)
        return fault(c, "series of a record, defined before it", c->series, r.series);
    if (r.layout > c->layouts)
        return fault(c, "layout of a record, defined before it", c->layouts, r.layout);
    if (r.seq == 0 || e->flags & ~TW_RECORD_FLAGS)
        return fault(c, "flags and sequence of a record", TW_RECORD_FLAGS, e->flags);
    struct tw_step_sums *s = sums_of(c, r.thread);
    if (!s)
        return tw_no_memory(c->err, "verifying %s", c->t->path);
    struct known_series *k = &c->known[r.series];
    if (!k->begun || k->occurrence != r.occurrence || k->layout != r.layout) {
        k->begun = true;
        k->occurrence = r.occurrence;
        k->layout = r.layout;
        k->last = tw_value_start(k->key, r.occurrence,
                                 r.layout ? c->layout_hashes[r.layout] : (struct tw_hash128){0, 0});
    }
    tw_step_sums_put(s, k->phase, &k->last, e->flags & TWIN_REC_UNOBSERVED,
                     k->ordered && !(e->flags & TWIN_REC_UNORDERED),
                     (struct twin_digest){r.digest_a, r.digest_b});
    sum_up(c, p, e, &r);
    c->stored++;
    struct tw_block *b = &c->seen;
    if (r.step == b->first_step && (b->first_seq == 0 || r.seq < b->first_seq))
        b->first_seq = r.seq;
    if (r.seq > b->last_seq)
        b->last_seq = r.seq;
    b->records++;
    return 0;
}

static int check_sums(struct check *c, const struct twin_step_hash *h,
                      const struct tw_step_sums *total)
{
    EXPECT("order hash of the step", total->order, h->order);
    for (int p = 0; p < TWIN_PHASE_COUNT; p++) {
        EXPECT("value hash of a phase, first lane", total->phase[p].lo, h->phase[p].lo);
        EXPECT("value hash of a phase, second lane", total->phase[p].hi, h->phase[p].hi);
    }
    return 0;
}

/* The end of a step against the sums of its records. The prefix is made of what the step says of
 * itself, so that one wrong step is reported as that step. */
static int check_step(struct check *c, const char *p, const struct tw_entry *e)
{
    struct twin_step_hash h;
    struct tw_step_sums total = {0}, told = {0};
    uint32_t mask;
    if (!tw_decode_step(p, e, &h))
        return fault(c, "bytes of a step's end", TW_STEP_END_FIXED, e->bytes);
    EXPECT("number of a finished step", c->steps, h.step);
    memcpy(&mask, p + offsetof(struct tw_step_end, phase_mask), sizeof mask);
    for (size_t i = 0; i < c->thread_count; i++)
        tw_step_sums_merge(&total, &c->threads[i].sums);
    EXPECT("records of the step, dropped ones included", (uint64_t)c->stored + h.dropped,
           h.records);
    if (h.dropped == 0) {
        EXPECT("phases of the step", total.phase_mask, mask);
        int rc = check_sums(c, &h, &total);
        if (rc != 0)
            return rc;
    }
    memcpy(told.phase, h.phase, sizeof told.phase);
    told.phase_mask = mask;
    told.records = h.records;
    told.order = h.order;
    c->prefix = tw_prefix_push(c->prefix, tw_step_element(&told));
    c->order_prefix = tw_prefix_push(c->order_prefix, tw_order_element(&told));
    c->summary.finished += h.records;
    for (unsigned i = 0; i < TWIN_PHASE_COUNT; i++)
        if (!(h.phase[i].lo | h.phase[i].hi))
            c->summary.every_step &= ~(1u << i);
    EXPECT("prefix hash, low half", c->prefix.lo, h.prefix.lo);
    EXPECT("prefix hash, high half", c->prefix.hi, h.prefix.hi);
    EXPECT("order prefix, low half", c->order_prefix.lo, h.order_prefix.lo);
    EXPECT("order prefix, high half", c->order_prefix.hi, h.order_prefix.hi);
    if (h.dropped > c->gap_records)
        return fault(c, "records of the gap before the step's end", h.dropped, c->gap_records);
    c->gap_records -= h.dropped;
    c->steps++;
    c->stored = 0;
    c->thread_count = 0;
    return 0;
}

/* Any entry of a DATA block; keeps the bounds that the header must show. */
static int check_data(struct check *c, const char *p, const struct tw_entry *e)
{
    struct tw_block *b = &c->seen;
    if (e->type == TW_ENTRY_RECORD || e->type == TW_ENTRY_STEP_END) {
        if (b->entries == 0)
            b->first_step = (uint32_t)c->steps;
        if (b->entries == 0 || b->last_step != c->steps)
            b->last_seq = 0;
        b->last_step = (uint32_t)c->steps;
    }
    switch (e->type) {
    case TW_ENTRY_RECORD: return check_record(c, p, e);
    case TW_ENTRY_STEP_END: return check_step(c, p, e);
    case TW_ENTRY_PAD:
    case TW_ENTRY_STRING:
    case TW_ENTRY_SERIES:
    case TW_ENTRY_LAYOUT:
    case TW_ENTRY_NOTE:
    case TW_ENTRY_GAP: return fault(c, "type of a data entry", TW_ENTRY_RECORD, e->type);
    default: return 0; /* a later version's */
    }
}

/* ---- blocks */

/* The header against the blocks before: numbers, pointers, seals, and counters that only grow. */
static int check_links(struct check *c, const struct tw_block *b)
{
    const struct tw_block *p = &c->before;
    struct tw_hash128 seal = tw_trace_seal_of(b, c->block->body);
    EXPECT("block number", c->any ? p->index + 1 : 0, b->index);
    EXPECT("previous block", c->any ? p->offset : 0, b->previous);
    EXPECT("number of data blocks", c->data_blocks, b->data_index);
    EXPECT("last data block", c->last_data, b->last_data);
    EXPECT("last definition block", c->last_dict, b->last_dict);
    EXPECT("jump", b->type == TW_BLOCK_DATA ? tw_jump_next(&c->jumps, b->offset, b->data_index) : 0,
           b->jump);
    EXPECT("previous seal, first half", p->seal_a, b->previous_seal_a);
    EXPECT("previous seal, second half", p->seal_b, b->previous_seal_b);
    EXPECT("seal, first half", seal.a, b->seal_a);
    EXPECT("seal, second half", seal.b, b->seal_b);
    if (c->any && p->type == TW_BLOCK_END)
        return fault(c, "blocks after the end block", 0, 1);
    if (b->dropped_total < p->dropped_total || b->lost_total < p->lost_total ||
        b->observer_ns < p->observer_ns || b->time_ns < p->time_ns)
        return fault(c, "a counter that only grows", p->time_ns, b->time_ns);
    return 0;
}

/* The zeros between the payload and the next block. */
static int check_padding(struct check *c, const struct tw_block *b)
{
    const uint64_t from = sizeof *b + b->payload_bytes;
    for (uint64_t i = from; i < tw_block_span(b); i++) {
        c->at = b->offset + i;
        EXPECT("padding", 0, (unsigned char)c->block->payload[i - sizeof *b]);
    }
    c->at = b->offset;
    return 0;
}

/* Checks all entries and counts them into c->seen. */
static int check_entries(struct check *c, const struct tw_block *b)
{
    const char *payload = c->block->payload;
    struct tw_cursor at = {payload, payload + b->payload_bytes};
    struct tw_entry e;
    bool bad = false;
    int rc = 0;
    c->seen = (struct tw_block){0};
    if (b->type == TW_BLOCK_END)
        EXPECT("contents of the end block", 0, b->payload_bytes);
    for (const char *p; rc == 0 && (p = tw_cursor_next(&at, &e, &bad));) {
        c->at = b->offset + sizeof *b + (uint64_t)(p - payload);
        EXPECT("reserved byte of an entry", 0, e.zero);
        rc = b->type == TW_BLOCK_DATA ? check_data(c, p, &e) : check_definition(c, p, &e);
        c->seen.entries++;
    }
    c->at = b->offset;
    if (rc == 0 && bad)
        rc = fault(c, "whole entries", b->entries, c->seen.entries);
    return rc;
}

/* Links, padding and entries first, then what the header says of the entries. */
static int check_block(struct check *c, const struct tw_block *b)
{
    c->at = b->offset;
    int rc = check_links(c, b);
    if (rc == 0)
        rc = check_padding(c, b);
    if (rc == 0)
        rc = check_entries(c, b);
    if (rc != 0)
        return rc;
    EXPECT("number of entries", c->seen.entries, b->entries);
    EXPECT("number of records", c->seen.records, b->records);
    EXPECT("first step", c->seen.first_step, b->first_step);
    EXPECT("last step", c->seen.last_step, b->last_step);
    EXPECT("first sequence", c->seen.first_seq, b->first_seq);
    EXPECT("last sequence", c->seen.last_seq, b->last_seq);
    EXPECT("finished steps", c->steps, b->steps);
    EXPECT("prefix hash in the header, low half", c->prefix.lo, b->prefix_lo);
    EXPECT("prefix hash in the header, high half", c->prefix.hi, b->prefix_hi);
    EXPECT("order prefix in the header, low half", c->order_prefix.lo, b->order_prefix_lo);
    EXPECT("order prefix in the header, high half", c->order_prefix.hi, b->order_prefix_hi);
    EXPECT("records so far", c->before.records_total + b->records, b->records_total);
    c->before = *b;
    c->any = true;
    if (b->type == TW_BLOCK_DATA) {
        c->data_blocks++;
        c->last_data = b->offset;
    } else if (b->type == TW_BLOCK_DICT) {
        c->last_dict = b->offset;
    }
    return 0;
}

/* The blocks of one batch. */
static int check_batch(struct check *c, const struct tw_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct tw_batch_block *x = c->block = &batch->block[i];
        c->at = x->offset;
        if (!x->header)
            return twin_error_set(c->err, TWIN_EFORMAT,
                                  "%s: at byte %" PRIu64 ": expected a block, found no good header",
                                  c->t->path, c->at);
        if (!x->whole)
            return twin_error_set(c->err, TWIN_EFORMAT,
                                  "%s: at byte %" PRIu64
                                  ": contents of the block: expected CRC32C %08x, found %08x",
                                  c->t->path, c->at, x->header->payload_crc, x->payload_crc);
        int rc = check_block(c, x->header);
        if (rc != 0)
            return rc;
    }
    if (!batch->error)
        return 0;
    errno = batch->error;
    return twin_error_system(c->err, "%s: cannot read the blocks from byte %" PRIu64 " on",
                             c->t->path, batch->next);
}

/* All blocks without a gap between them, up to the last good one; anything behind that is a fault.
 */
static int check_all(struct check *c, bool beside)
{
    struct twin_trace *t = c->t;
    struct tw_reading reading;
    uint64_t end = t->size - t->info.tail_bytes;
    struct tw_hash128 start = tw_hash_bytes(&t->header, sizeof t->header, 0);
    c->before.seal_a = start.a;
    c->before.seal_b = start.b;
    int rc = tw_trace_wake(t, c->err);
    if (rc != 0)
        return rc;
    rc = tw_reading_begin(&reading, t, sizeof t->header, end, beside);
    rc = rc != 0 ? tw_no_memory(c->err, "verifying %s", t->path) : 0;
    for (const struct tw_batch *b; rc == 0 && (b = tw_reading_next(&reading));) {
        t->bytes_read += b->read;
        rc = check_batch(c, b);
    }
    tw_reading_end(&reading);
    c->at = end;
    if (rc == 0 && t->info.tail_bytes)
        return twin_error_set(c->err, TWIN_EFORMAT,
                              "%s: at byte %" PRIu64 ": %" PRIu64
                              " bytes after the last good block: expected none (the process was "
                              "killed while writing, or the file was cut or damaged)",
                              t->path, end, t->info.tail_bytes);
    return rc;
}

/* Takes over the list of observed series, when all is well. */
static void keep_summary(struct check *c)
{
    struct twin_trace *t = c->t;
    tw_free(t->observed);
    t->observed = c->observed;
    t->observed_room = c->known_room;
    c->observed = NULL;
    c->summary.unfinished = c->stored;
    if (c->steps == 0)
        c->summary.every_step = 0;
    t->summary = c->summary;
    t->summarized = true;
}

int tw_trace_verify(struct twin_trace *t, bool beside, struct twin_error *err)
{
    struct check c = {.t = t, .err = err, .summary = {.every_step = UINT32_MAX}};
    t->summarized = false;
    int rc = tw_dict_load(t, err);
    if (rc == 0)
        rc = check_all(&c, beside);
    if (rc == 0)
        keep_summary(&c);
    tw_free(c.known);
    tw_free(c.observed);
    tw_free(c.layout_hashes);
    tw_free(c.threads);
    return rc;
}

int twin_trace_verify(struct twin_trace *t, struct twin_error *err)
{
    return tw_trace_verify(t, t->size > SMALL && tw_processors() > 1, err);
}

int twin_trace_verify_alone(struct twin_trace *t, struct twin_error *err)
{
    return tw_trace_verify(t, false, err);
}

const struct twin_trace_summary *twin_trace_summary(const struct twin_trace *t)
{
    return t->summarized ? &t->summary : NULL;
}

bool twin_trace_observed(const struct twin_trace *t, uint32_t series)
{
    return series < t->observed_room && t->observed[series];
}
