/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a payload, decoded with every length checked; the records of a range of steps
 * (twin_trace_read), for whoever compares steps; the walk over the whole file (twin_trace_walk),
 * for whoever wants everything once.
 *
 * Damage is no error here: what cannot be read is noted as a hole (holes.c) with the steps that it
 * may have covered, and reading goes on behind it. Errors are for reading itself, for memory, and
 * for a caller's limit. */
#include "reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Over the payload that tw_trace_payload() has loaded for b; it holds until the next payload is
 * loaded. */
struct tw_cursor tw_cursor_over(const struct twin_trace *t, const struct tw_block *b)
{
    return (struct tw_cursor){t->payload, t->payload + b->payload_bytes};
}

const char *tw_cursor_next(struct tw_cursor *c, struct tw_entry *e, bool *bad)
{
    size_t left = (size_t)(c->end - c->at);
    if (left == 0)
        return NULL;
    if (left >= sizeof *e)
        memcpy(e, c->at, sizeof *e);
    if (left < sizeof *e || e->bytes < sizeof *e || e->bytes % 8 != 0 || e->bytes > left) {
        *bad = true;
        c->at = c->end;
        return NULL;
    }
    const char *at = c->at;
    c->at += e->bytes;
    return at;
}

/* The file has no absmax: it follows from min and max. A tensor without numbers has NaN there. */
static double absmax_of(double min, double max)
{
    const double a = fabs(min), b = fabs(max);
    if (isnan(min))
        return min;
    return isnan(max) || a > b ? a : b;
}

bool tw_record_fits(const char *at, const struct tw_entry *e)
{
    size_t n = sizeof(struct tw_record);
    n += e->flags & TWIN_REC_STATS ? sizeof(struct tw_record_stats) : 0;
    n += e->flags & TWIN_REC_OFFSET ? 8 : 0;
    n += e->flags & TWIN_REC_PART ? 8 : 0;
    if (e->flags & TWIN_REC_SKETCH) {
        struct tw_record_sketch s;
        if (n + sizeof s > e->bytes)
            return false;
        memcpy(&s, at + n, sizeof s);
        if (s.k > TWIN_SKETCH_MAX)
            return false;
        n += sizeof s + 8 * (size_t)s.k;
    }
    if (e->flags & TWIN_REC_LINKS) {
        struct tw_record_links l;
        if (n + sizeof l > e->bytes)
            return false;
        memcpy(&l, at + n, sizeof l);
        if (l.count > TWIN_MAX_LINKS)
            return false;
        n += sizeof l + 8 * (size_t)l.count;
    }
    return n == e->bytes;
}

/* Copies n bytes out of an entry and moves on. */
static void copy_bytes(const char **at, void *to, size_t n)
{
    memcpy(to, *at, n);
    *at += n;
}

/* Fills *r; false when the parts that the flags promise do not fill the entry exactly. Parts that
 * are not there are set to zero. */
bool tw_decode_record(const char *at, const struct tw_entry *e, struct twin_trace_record *r)
{
    struct tw_record f;
    if (!tw_record_fits(at, e))
        return false;
    copy_bytes(&at, &f, sizeof f);
    r->step = f.step;
    r->seq = f.seq;
    r->occurrence = f.occurrence;
    r->series = f.series;
    r->layout = f.layout;
    r->thread = f.thread;
    r->flags = e->flags;
    r->time_ns = f.time_ns;
    r->digest = (struct twin_digest){f.digest_a, f.digest_b};
    r->global_offset = r->whole = 0;
    r->sketch.k = 0;
    r->link_count = 0;
    if (e->flags & TWIN_REC_STATS) {
        struct tw_record_stats s;
        copy_bytes(&at, &s, sizeof s);
        r->stats = (struct twin_stats){.count = s.count,
                                       .nan = s.nan,
                                       .pos_inf = s.pos_inf,
                                       .neg_inf = s.neg_inf,
                                       .zeros = s.zeros,
                                       .min = s.min,
                                       .max = s.max,
                                       .absmax = absmax_of(s.min, s.max),
                                       .sum = s.sum,
                                       .sumsq = s.sumsq};
    } else {
        r->stats = (struct twin_stats){0};
    }
    if (e->flags & TWIN_REC_OFFSET)
        copy_bytes(&at, &r->global_offset, 8);
    if (e->flags & TWIN_REC_PART)
        copy_bytes(&at, &r->whole, 8);
    if (e->flags & TWIN_REC_SKETCH) {
        struct tw_record_sketch s;
        copy_bytes(&at, &s, sizeof s);
        copy_bytes(&at, r->sketch.bucket, 8 * (size_t)s.k);
        r->sketch.k = s.k;
        r->sketch.skipped = s.skipped;
    }
    if (e->flags & TWIN_REC_LINKS) {
        struct tw_record_links l;
        copy_bytes(&at, &l, sizeof l);
        copy_bytes(&at, r->links, 8 * (size_t)l.count);
        r->link_count = l.count;
    }
    return true;
}

/* The same for a part of unknown size; false when fewer bytes are left. */
static bool take_bytes(const char **at, size_t *left, void *to, size_t n)
{
    if (*left < n)
        return false;
    memcpy(to, *at, n);
    *at += n;
    *left -= n;
    return true;
}

/* Fills *h; false when the phases of the mask do not fill the entry exactly. */
bool tw_decode_step(const char *at, const struct tw_entry *e, struct twin_step_hash *h)
{
    struct tw_step_end s;
    size_t left = e->bytes;
    if (!take_bytes(&at, &left, &s, TW_STEP_END_FIXED) || s.phase_mask >> TWIN_PHASE_COUNT)
        return false;
    *h = (struct twin_step_hash){.step = s.step,
                                 .records = s.records,
                                 .dropped = s.dropped,
                                 .order = s.order,
                                 .prefix = {s.prefix_lo, s.prefix_hi},
                                 .order_prefix = {s.order_prefix_lo, s.order_prefix_hi}};
    for (int p = 0; p < TWIN_PHASE_COUNT; p++)
        if (s.phase_mask >> p & 1 && !take_bytes(&at, &left, &h->phase[p], sizeof h->phase[p]))
            return false;
    return left == 0;
}

struct twin_digest twin_trace_digest(const struct twin_trace_record *r, const struct twin_layout *y)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < y->ndim; i++)
        elements *= (uint64_t)y->shape[i];
    return twin_digest_finish(r->digest, elements * twin_dtype_size(y->dtype), y->dtype, y->ndim,
                              y->shape, 0);
}

/* ---- records of some steps */

/* While twin_trace_read() runs: the steps that are wanted, the caller's limit, and the records so
 * far. */
struct collect {
    uint32_t first, last;
    size_t max, count, room;
    struct twin_trace_record *records;
};

/* Adds the wanted records of one block. A damaged payload is noted and gives 0. */
static int add_block(struct twin_trace *t, const struct tw_block *b, struct collect *c,
                     struct twin_error *err)
{
    int look = tw_trace_payload(t, b, err);
    if (look == TW_DAMAGED)
        tw_trace_bad_block(t, b);
    if (look != TW_GOOD)
        return look < 0 ? look : 0; /* damaged: its records are unknown */
    struct tw_cursor at = tw_cursor_over_steps(t, b, c->first, c->last);
    struct tw_entry e;
    struct tw_record head;
    bool bad = false;
    for (const char *p; (p = tw_cursor_next(&at, &e, &bad));) {
        if (e.type != TW_ENTRY_RECORD || e.bytes < sizeof head)
            continue;
        memcpy(&head, p, sizeof head);
        if (head.step < c->first || head.step > c->last)
            continue;
        if (c->count == c->max)
            return twin_error_set(
                err, TWIN_ELIMIT,
                "%s: steps %u to %u hold more than %zu records: ask for fewer steps", t->path,
                c->first, c->last, c->max);
        if (c->count == c->room) {
            size_t room = c->room ? c->room * 2 : 64;
            struct twin_trace_record *grown = tw_reallocarray(c->records, room, sizeof *grown);
            if (!grown)
                return tw_no_memory(err, "for %zu records of %s", room, t->path);
            c->records = grown;
            c->room = room;
        }
        if (tw_decode_record(p, &e, &c->records[c->count]))
            c->count++;
    }
    return 0;
}

/* For qsort: by step, then by sequence in the step. */
static int by_place(const void *x, const void *y)
{
    const struct twin_trace_record *a = x, *b = y;
    uint64_t i = (uint64_t)a->step << 32 | a->seq, j = (uint64_t)b->step << 32 | b->seq;
    return (i > j) - (i < j);
}

/* DATA blocks are numbered: a missing number is a block whose header is damaged. after: NULL for
 * the last block of the file. */
static void note_missing(struct twin_trace *t, const struct tw_block *before,
                         const struct tw_block *after)
{
    uint64_t found = before ? before->data_index + 1 : 0;
    uint64_t expected = after ? after->data_index
                              : t->last.data_index + (t->last.type == TW_BLOCK_DATA);
    if (found < expected)
        tw_trace_bad_stretch(t, before, after);
}

/* Finds the DATA blocks that touch steps first..last, nearest to the end first, and appends their
 * offsets. The walk starts at the block in which step `last` ends, or at the end of the file, and
 * stops at a block that lies before `first`. */
static int find_blocks(struct twin_trace *t, const struct collect *c, struct tw_buf *offsets,
                       struct twin_error *err)
{
    struct tw_block b, next;
    /* the block that holds the end of the step after last, if there is one, is the last that
     * matters */
    int look = (uint64_t)c->last < t->info.steps ? tw_trace_seek_step(t, c->last, &b, err)
                                                 : TW_DAMAGED;
    if (look == TW_DAMAGED) {
        look = tw_trace_last(t, TW_BLOCK_DATA, &b, err);
        if (look >= 0 && t->any)
            note_missing(t, look == TW_GOOD ? &b : NULL, NULL);
    }
    for (; look == TW_GOOD && b.last_step >= c->first; b = next) {
        if (b.first_step <= c->last && tw_buf_append(offsets, &b.offset, sizeof b.offset) != 0)
            return tw_no_memory(err, "for the list of blocks of %s", t->path);
        look = tw_trace_before(t, &b, TW_BLOCK_DATA, &next, err);
        if (look >= 0)
            note_missing(t, look == TW_GOOD ? &next : NULL, &b);
    }
    return look < 0 ? look : 0;
}

/* Blocks are read in the file's order. Records of several threads interleave there, so they are
 * sorted unless they are in order already, as they are with one thread. */
int twin_trace_read(struct twin_trace *t, uint32_t first, uint32_t last, size_t max_records,
                    struct twin_trace_record **records, size_t *count, struct twin_error *err)
{
    struct collect c = {.first = first, .last = last, .max = max_records};
    struct tw_buf offsets = {0};
    *records = NULL;
    *count = 0;
    int rc = find_blocks(t, &c, &offsets, err);
    for (size_t n = offsets.len / 8; rc == 0 && n > 0; n--) {
        uint64_t offset;
        struct tw_block b;
        memcpy(&offset, offsets.data + (n - 1) * 8, sizeof offset);
        int look = tw_trace_header(t, offset, &b, err);
        rc = look == TW_GOOD ? add_block(t, &b, &c, err) : look;
    }
    tw_buf_free(&offsets);
    if (rc != 0) {
        tw_free(c.records);
        return rc;
    }
    for (size_t i = 1; i < c.count; i++)
        if (by_place(&c.records[i - 1], &c.records[i]) > 0) {
            qsort(c.records, c.count, sizeof *c.records, by_place);
            break;
        }
    *records = c.records;
    *count = c.count;
    return 0;
}

void twin_trace_records_free(struct twin_trace_record *records)
{
    tw_free(records);
}

/* ---- the walk over the whole file */

/* What a walk is about. series: by id, is it wanted? Ids from `room` on stand for lost definitions,
 * as id 0 does. */
struct walk {
    struct twin_trace *t;
    twin_trace_record_fn *on_record;
    twin_trace_step_fn *on_step;
    void *user;
    bool all, *series;
    uint32_t room;
    uint64_t from; /* ends of steps before this one are not wanted */
};

/* Makes the list of wanted series. *any: is there one? */
static int choose_series(struct walk *w, twin_trace_series_fn *wanted, bool *any,
                         struct twin_error *err)
{
    int rc = tw_dict_load(w->t, err);
    if (rc != 0)
        return rc;
    w->room = w->t->dict.series_room > 0 ? w->t->dict.series_room : 1;
    w->series = tw_calloc(w->room, sizeof *w->series);
    if (!w->series)
        return tw_no_memory(err, "for the list of series of %s", w->t->path);
    w->all = false;
    const bool lost = w->series[0] = wanted(w->user, 0, twin_trace_series(w->t, 0));
    *any = lost;
    for (uint32_t id = 1; id < w->room; id++) {
        const bool known = w->t->dict.series[id] != NULL;
        w->series[id] = known ? wanted(w->user, id, w->t->dict.series[id]) : lost;
        *any |= w->series[id];
    }
    return 0;
}

static bool is_wanted(const struct walk *w, const char *p, const struct tw_entry *e)
{
    struct tw_record head;
    if (w->all || e->bytes < sizeof head)
        return w->all;
    memcpy(&head, p, sizeof head);
    return w->series[head.series < w->room ? head.series : 0];
}

/* The entries of the payload that is loaded. What a callback returns, when it is not 0. */
static int walk_block(const struct walk *w, const struct tw_block *b)
{
    struct tw_cursor at = tw_cursor_over(w->t, b);
    struct twin_trace_record r;
    struct twin_step_hash h;
    struct tw_entry e;
    bool bad = false;
    int rc = 0;
    for (const char *p; rc == 0 && (p = tw_cursor_next(&at, &e, &bad));)
        if (e.type == TW_ENTRY_RECORD && w->on_record && is_wanted(w, p, &e) &&
            tw_decode_record(p, &e, &r))
            rc = w->on_record(w->user, &r);
        else if (e.type == TW_ENTRY_STEP_END && w->on_step && tw_decode_step(p, &e, &h) &&
                 h.step >= w->from)
            rc = w->on_step(w->user, &h);
    return rc;
}

/* Reads the file front to back. Stops at the first non-zero that a callback returns, and returns
 * it; either callback may be NULL. */
static int walk_file(const struct walk *w, struct twin_error *err)
{
    struct twin_trace *t = w->t;
    struct tw_block b, data, previous = {0};
    bool any = false; /* data is the last good header of a DATA block */
    int look = tw_trace_scan_forward(t, sizeof t->header, &b, err);
    for (; look == TW_GOOD;
         look = tw_trace_scan_forward(t, b.offset + tw_block_span(&b), &b, err)) {
        /* Blocks of every type are numbered: a number that is missing may have been definitions. */
        if (b.index > previous.index + (previous.magic != 0))
            tw_trace_lost_definitions(t, previous.magic ? &previous : NULL);
        const uint64_t steps_before = previous.steps;
        previous = b;
        if (b.type != TW_BLOCK_DATA)
            continue;
        note_missing(t, any ? &data : NULL, &b);
        data = b;
        any = true;
        /* the header of an intact trace tells which steps end in the block */
        if (t->summarized && !w->on_record && (b.steps == steps_before || b.steps <= w->from))
            continue;
        look = tw_trace_payload(t, &b, err);
        if (look < 0)
            return look;
        if (look == TW_DAMAGED) {
            tw_trace_bad_block(t, &b);
            continue; /* what it held is unknown */
        }
        int rc = walk_block(w, &b);
        if (rc != 0)
            return rc;
    }
    if (look >= 0 && t->any)
        note_missing(t, any ? &data : NULL, NULL);
    return look < 0 ? look : 0;
}

int twin_trace_walk(struct twin_trace *t, twin_trace_record_fn *on_record,
                    twin_trace_step_fn *on_step, void *user, struct twin_error *err)
{
    const struct walk w = {
        .t = t, .on_record = on_record, .on_step = on_step, .user = user, .all = true};
    return walk_file(&w, err);
}

int twin_trace_walk_steps(struct twin_trace *t, uint32_t from, twin_trace_step_fn *on_step,
                          void *user, struct twin_error *err)
{
    const struct walk w = {.t = t, .on_step = on_step, .user = user, .all = true, .from = from};
    return walk_file(&w, err);
}

int twin_trace_walk_some(struct twin_trace *t, twin_trace_series_fn *wanted,
                         twin_trace_record_fn *on_record, twin_trace_step_fn *on_step, void *user,
                         struct twin_error *err)
{
    struct walk w = {.t = t, .on_record = on_record, .on_step = on_step, .user = user};
    bool any = false;
    int rc = choose_series(&w, wanted, &any, err);
    if (rc == 0 && (any || on_step || !t->summarized))
        rc = walk_file(&w, err);
    tw_free(w.series);
    return rc;
}
