/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRACE_READER_H
#define TW_TRACE_READER_H
/* Inside the reader. Bytes of a trace are foreign: every length and offset is checked before it is
 * used, and every pointer in the file leads to a smaller offset, so that no walk can go on for
 * ever. */
#include "format.h"

#include <pthread.h>

/* Headers that are kept: a search by halving meets the same ones again and again. */
#define TW_HEADER_CACHE 512u

/* What a look at a place in the file says; negative values are errors (TWIN_EIO, TWIN_ENOMEM). */
enum tw_look { TW_DAMAGED = 0, TW_GOOD = 1 };

/* Records of one step that the writer had to drop. */
struct tw_gap_item {
    uint32_t step, dropped;
};
/* Owned, with a NUL behind its n bytes; bytes NULL: not defined. */
struct tw_string_value {
    char *bytes;
    uint32_t n;
};
/* Both owned, with a NUL behind them. */
struct tw_note_item {
    char *key, *value;
};

/* All definitions of a trace (dict.c). Arrays are found by id. */
struct tw_dict {
    bool loaded, failed;
    struct tw_string_value *strings;
    struct twin_series **series;
    struct twin_layout **layouts;
    /* ids below this are looked up; NULL = not defined */
    uint32_t string_room, series_room, layout_room;
    struct tw_note_item *notes;
    struct tw_gap_item *gaps;
    size_t note_count, note_room, gap_count, gap_room;
};

/* One step in a payload: where its entries begin, and where the entry of its end does. */
struct tw_step_place {
    uint32_t step, at, end;
};
/* The steps that end in the payload of the block at offset `of` (places.c); 0: of none. At most
 * TW_PAYLOAD_MAX / TW_STEP_END_FIXED of them, 48 KiB. */
struct tw_places {
    uint64_t of;
    /* ASKED: once, which is not worth a table. NONE: the payload is not in order. */
    enum { TW_PLACES_ASKED, TW_PLACES_MADE, TW_PLACES_NONE } stand;
    struct tw_step_place *place; /* ascending */
    size_t count, room;
    uint32_t tail; /* where what follows the last of them begins */
};

#define TW_HOLES_MAX 256u /* further ones widen the last */

/* An open trace. Not for two threads at once: cache, payload and definitions change while it is
 * read. */
struct twin_trace {
    int fd; /* -1: at rest (twin_trace_rest) */
    char *path;
    uint64_t size, device, inode;
    struct tw_file_header header;
    struct twin_trace_info info;
    char role[TW_ROLE_MAX + 1];
    bool any; /* there is a good block: */
    struct tw_block last;
    uint64_t bytes_read;
    struct tw_block *cache; /* good headers by offset; magic 0 = empty; NULL: at rest */
    char *payload; /* TW_PAYLOAD_MAX; of the block at payload_offset (0 = none); NULL: at rest */
    uint64_t payload_offset;
    struct tw_places places; /* in that payload, mostly; empty: at rest */
    /* the last answer of tw_trace_seek_step: it is the one for all steps sought_from to
     * sought.steps - 1. magic 0: there is none */
    struct tw_block sought;
    uint64_t sought_from;
    /* the last answer of a scan backwards: a hole is met again at each probe */
    uint64_t hole_from, hole_to;
    struct tw_dict dict;
    /* of twin_trace_verify(), once it has found everything in order */
    bool summarized;
    struct twin_trace_summary summary;
    bool *observed; /* by id of series: some record of it has contents */
    uint32_t observed_room;
    struct twin_trace_hole hole[TW_HOLES_MAX]; /* sorted by when they were met */
    size_t holes;
};

/* reader.c */
/* Ends a rest. Everything that uses t->fd, t->payload or t->cache comes after it. */
int tw_trace_wake(struct twin_trace *t, struct twin_error *err);
/* Reads up to n bytes. Returns their number (fewer at the end of the file), or a negative error. */
int tw_trace_pread(struct twin_trace *t, void *to, size_t n, uint64_t offset,
                   struct twin_error *err);
/* Everything that the header of a block can be checked for by itself. */
bool tw_trace_header_ok(const struct twin_trace *t, const struct tw_block *b, uint64_t offset);
/* The header at an offset, checked. Returns an enum tw_look. */
int tw_trace_header(struct twin_trace *t, uint64_t offset, struct tw_block *b,
                    struct twin_error *err);
/* Loads the contents of b into t->payload, checked. Returns an enum tw_look. */
int tw_trace_payload(struct twin_trace *t, const struct tw_block *b, struct twin_error *err);
/* The nearest block before or at / after an offset whose header is good. TW_GOOD, TW_DAMAGED =
 * there is none, or an error. */
int tw_trace_scan_back(struct twin_trace *t, uint64_t from, bool with_payload, struct tw_block *b,
                       struct twin_error *err);
int tw_trace_scan_forward(struct twin_trace *t, uint64_t from, struct tw_block *b,
                          struct twin_error *err);
/* The nearest good block of a type before b / the last one of the file. TW_GOOD, TW_DAMAGED = there
 * is none, or an error. */
int tw_trace_before(struct twin_trace *t, const struct tw_block *b, enum tw_block_type type,
                    struct tw_block *out, struct twin_error *err);
int tw_trace_last(struct twin_trace *t, enum tw_block_type type, struct tw_block *out,
                  struct twin_error *err);

/* holes.c: damage that was met. A block whose header is good, and what lies between two good DATA
 * blocks (before is NULL at the start of the file). */
void tw_trace_bad_block(struct twin_trace *t, const struct tw_block *b);
/* there may have been some in a stretch */
void tw_trace_lost_definitions(struct twin_trace *t, const struct tw_block *before);
void tw_trace_bad_stretch(struct twin_trace *t, const struct tw_block *before,
                          const struct tw_block *after);

/* Where a walk over a payload stands. */
struct tw_cursor {
    const char *at, *end;
};
struct tw_cursor tw_cursor_over(const struct twin_trace *t, const struct tw_block *b);
/* Over the part of it, at least, that has the entries of steps first..last; or the end of a step
 * and what is behind it. Nothing where there is none. Steps that lie in other blocks, too, have
 * only a part here. (places.c) */
struct tw_cursor tw_cursor_over_steps(struct twin_trace *t, const struct tw_block *b,
                                      uint32_t first, uint32_t last);
struct tw_cursor tw_cursor_at_end(struct twin_trace *t, const struct tw_block *b, uint32_t step);
void tw_places_free(struct tw_places *x);
/* Next whole entry; NULL at the end, with *bad set when what follows is no entry. */
const char *tw_cursor_next(struct tw_cursor *c, struct tw_entry *e, bool *bad);
/* Do the parts that the flags promise fill the entry exactly? */
bool tw_record_fits(const char *at, const struct tw_entry *e);
bool tw_decode_record(const char *at, const struct tw_entry *e, struct twin_trace_record *r);
bool tw_decode_step(const char *at, const struct tw_entry *e, struct twin_step_hash *h);

/* ---- batch.c: all blocks one after the other, several by one call of the system */

/* Room for four blocks as writers make them, and for the longest that a reader accepts. It stays in
 * the second-level cache of a processor between the copy, the checksums and the entries. */
#define TW_BATCH_BYTES (TW_PAYLOAD_MAX + (2u << 10))
#define TW_BATCH_BLOCKS 128

struct tw_batch_block {
    const struct tw_block *header; /* in the batch's bytes; NULL: there is no good one */
    uint64_t offset;
    const char *payload;
    uint32_t payload_crc;   /* computed; anything where the payload is not all there */
    bool whole;             /* the payload is there, and its checksum is right */
    struct tw_hash128 body; /* hash of the payload, which goes into the seal */
};

/* Whole blocks, up to the first that is not good, which is the last one in it. */
struct tw_batch {
    char *bytes; /* TW_BATCH_BYTES */
    size_t count;
    struct tw_batch_block block[TW_BATCH_BLOCKS];
    uint64_t next; /* offset behind the last one */
    uint64_t read; /* bytes */
    int error;     /* an errno: reading failed */
};

/* Reading that may be ahead of who takes the batches, by a thread of its own. */
struct tw_reading {
    const struct twin_trace *t;
    uint64_t at, end; /* what is read next; where to stop */
    struct tw_batch batch[2];
    bool beside; /* there is such a thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned filled, taken; /* batches, counted; the one that was handed out last counts as taken
                               when the next is asked for */
    bool out, done, stop;
};

/* From a block at `from` to `end`. beside: by a thread, if there can be one. 0 or TWIN_ENOMEM;
 * tw_reading_end() is called in either case. */
int tw_reading_begin(struct tw_reading *r, const struct twin_trace *t, uint64_t from, uint64_t end,
                     bool beside);
/* NULL at the end. It holds until the next call. */
const struct tw_batch *tw_reading_next(struct tw_reading *r);
void tw_reading_end(struct tw_reading *r);

/* verify.c: twin_trace_verify(), with a thread that reads ahead or without. */
int tw_trace_verify(struct twin_trace *t, bool beside, struct twin_error *err);

/* dict.c */
int tw_dict_load(struct twin_trace *t, struct twin_error *err);
void tw_dict_free(struct tw_dict *d);

/* search.c: the earliest good DATA block in which more than `step` steps are finished. tw_look as
 * above. */
int tw_trace_seek_step(struct twin_trace *t, uint64_t step, struct tw_block *b,
                       struct twin_error *err);

#endif
