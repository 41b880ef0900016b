/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRACE_FORMAT_H
#define TW_TRACE_FORMAT_H
/*
 * The bytes of a trace, version 1. Written spec: docs/format/trace.md. Little endian only; every
 * struct below is laid out without holes, so that it is copied to and from the file as it is.
 */
#include "src/trace/trace.h"

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "base.h"

#define TW_TRACE_VERSION 1
#define TW_TRACE_MIN_READER 1
#define TW_TRACE_ENDIAN 0x01020304u
/* Feature bits 0..31 must be understood by a reader, bits 32..63 may be ignored. Version 1 knows
 * none. */
#define TW_FEATURES_KNOWN UINT64_C(0)
#define TW_FEATURES_REQUIRED UINT64_C(0xFFFFFFFF)

#define TW_BLOCK_ALIGN 64u
#define TW_BLOCK_TARGET (64u << 10) /* the writer keeps payloads within this */
#define TW_PAYLOAD_MAX (256u << 10) /* the reader accepts this much */
#define TW_STRING_MAX (64u << 10)
#define TW_NOTE_KEY_MAX 1024u
#define TW_TABLE_MAX (1u << 20) /* strings, series, layouts: each */
#define TW_ROLE_MAX 256u

/* The first bytes of a trace. A byte above 127, line ends of both kinds and the end-of-file mark of
 * DOS show damage by a transfer as text. */
static const uint8_t tw_file_magic[8] = {0x89, 'T', 'W', 'T', '\r', '\n', 0x1A, '\n'};
#define TW_BLOCK_MAGIC UINT64_C(0x314B4C4257540A8B) /* bytes 8B 0A 'T' 'W' 'B' 'L' 'K' '1' */

/* The first 512 bytes of the file, written once. rank and world: 0 and 1 when not distributed;
 * role: what the process does ("main"), not terminated. */
struct tw_file_header {
    uint8_t magic[8];
    uint32_t endian;
    uint16_t version, min_reader;
    uint32_t header_bytes, pid;
    uint64_t features;
    uint8_t run_id[16];
    int32_t rank, world;
    int64_t start_realtime_ns;
    uint64_t start_monotonic_ns;
    uint32_t role_bytes, zero;
    char role[TW_ROLE_MAX];
    uint8_t reserved[172];
    uint32_t crc; /* CRC32C of all bytes before; also the seed of every block's CRCs */
};
_Static_assert(sizeof(struct tw_file_header) == 512, "file header");

/* DATA: records and ends of steps. DICT: definitions, notes and gaps. END: empty, written when the
 * process closes its trace. */
enum tw_block_type { TW_BLOCK_DATA = 1, TW_BLOCK_DICT = 2, TW_BLOCK_END = 3 };

/* The header of a block; the payload follows. Each header says how the trace stands at its end
 * (steps, prefixes, counters), so the last good block alone tells what a cut file holds. Pointers
 * are offsets in the file and lead to smaller ones; 0 is no block, for there lies the file header.
 * times: since the start of the trace, ns. */
struct tw_block {
    uint64_t magic;
    uint8_t type, zero0[3];
    /* multiple of 8; the block is padded with zeros to TW_BLOCK_ALIGN */
    uint32_t payload_bytes;
    uint64_t offset;   /* of this header in the file */
    uint64_t index;    /* 0, 1, ... over blocks of every type */
    uint64_t previous; /* offset of block index - 1; 0 = this is the first */
    /* DATA: its number among DATA blocks, from 0; else: DATA blocks so far */
    uint64_t data_index;
    uint64_t last_data; /* offset of the nearest DATA block before this one; 0 = none */
    /* DATA: offset of its jump ancestor (docs/format/trace.md); 0 = none */
    uint64_t jump;
    uint64_t last_dict;        /* offset of the nearest DICT block before this one; 0 = none */
    uint32_t entries, records; /* in this payload */
    uint32_t first_step, last_step, first_seq, last_seq;
    uint64_t steps; /* finished steps up to and including this block */
    uint64_t prefix_lo, prefix_hi;
    uint64_t order_prefix_lo, order_prefix_hi;
    uint64_t records_total; /* records stored up to and including this block */
    uint64_t dropped_total, lost_total;
    uint64_t observer_ns, time_ns;
    uint8_t reserved[40];
    uint64_t previous_seal_a, previous_seal_b;
    uint64_t seal_a, seal_b;
    uint32_t payload_crc;
    uint32_t crc; /* of the header up to here */
};
_Static_assert(sizeof(struct tw_block) == 256, "block header");
#define TW_SEALED_BYTES offsetof(struct tw_block, seal_a) /* what the seal covers of the header */

/* What a payload is made of. Numbers below 16 stand in DATA blocks, the others in DICT blocks. */
enum tw_entry_type {
    TW_ENTRY_PAD = 0, /* never in a file: skips to the end of a ring */
    TW_ENTRY_RECORD = 1,
    TW_ENTRY_STEP_END = 2,
    TW_ENTRY_STRING = 16,
    TW_ENTRY_SERIES = 17,
    TW_ENTRY_LAYOUT = 18,
    TW_ENTRY_NOTE = 19,
    TW_ENTRY_GAP = 20,
};

/* The start of every entry. bytes: this header included, multiple of 8. flags: TWIN_REC_*, of a
 * record. */
struct tw_entry {
    uint32_t bytes;
    uint8_t type, zero;
    uint16_t flags;
};

/* One record. series, layout: ids of definitions that stand in an earlier block; layout 0: none.
 * seq counts from 1 in the step, over all threads. time_ns: since the start of the trace. */
struct tw_record {
    struct tw_entry e;
    uint32_t series, layout, step, seq, occurrence, thread;
    uint64_t time_ns, digest_a, digest_b;
};
_Static_assert(sizeof(struct tw_record) == 56, "record: at most 64 bytes without statistics");
/* Optional parts follow in this order, each when its flag is set. */
struct tw_record_stats {
    uint64_t count, nan, pos_inf, neg_inf, zeros;
    double min, max, sum, sumsq;
};
_Static_assert(sizeof(struct tw_record) + sizeof(struct tw_record_stats) <= 128,
               "record with statistics");
/*
 * TWIN_REC_OFFSET: u64. TWIN_REC_SKETCH: struct + double[k]. TWIN_REC_LINKS: struct + u64[count].
 */
struct tw_record_sketch {
    uint32_t k, zero;
    uint64_t skipped;
};
/* TWIN_REC_LINKS: which earlier records this one was made from. */
struct tw_record_links {
    uint32_t count, zero;
};
#define TW_RECORD_FLAGS 0x1FFu
#define TW_RECORD_MAX                                                                         \
    (sizeof(struct tw_record) + sizeof(struct tw_record_stats) + 8 +                          \
     sizeof(struct tw_record_sketch) + 8 * TWIN_SKETCH_MAX + sizeof(struct tw_record_links) + \
     8 * TWIN_MAX_LINKS)

/* The end of a step: how many records it had (lost ones included), the sum of their values for each
 * phase, the state of the order hash, and both prefixes up to and including this step. */
struct tw_step_end {
    struct tw_entry e;
    uint32_t step, records, dropped, phase_mask;
    uint64_t order, prefix_lo, prefix_hi, order_prefix_lo, order_prefix_hi;
    /* in the file only those of phase_mask, ascending */
    struct twin_value_hash phase[TWIN_PHASE_COUNT];
};
#define TW_STEP_END_FIXED offsetof(struct tw_step_end, phase)
_Static_assert(TW_STEP_END_FIXED == 64, "step end");

/* Text that series refer to by id; the bytes follow, padded with zeros to 8. */
struct tw_string {
    struct tw_entry e;
    uint32_t id, bytes;
};
/* What a record is of: ids of strings, 0 for the empty one. */
struct tw_series {
    struct tw_entry e;
    uint32_t id;
    uint8_t phase, kind, zero[2];
    uint32_t name, scope, role, op, site, zero1;
};
/* Type and shape of a tensor; i64 shape[ndim] follows. */
struct tw_layout {
    struct tw_entry e;
    uint32_t id;
    uint8_t dtype, ndim, zero[2];
};
/* Key and value of the agent's; both follow, padded with zeros to 8. */
struct tw_note {
    struct tw_entry e;
    uint32_t key_bytes, value_bytes;
};
/* `dropped` records of this step are not in the file. */
struct tw_gap {
    struct tw_entry e;
    uint32_t step, dropped;
};
_Static_assert(sizeof(struct tw_string) == 16 && sizeof(struct tw_series) == 40 &&
                   sizeof(struct tw_layout) == 16 && sizeof(struct tw_note) == 16 &&
                   sizeof(struct tw_gap) == 16,
               "definitions");

/* n rounded up to a multiple of 8. */
static inline uint64_t tw_align8(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}
static inline uint64_t tw_align_block(uint64_t n)
{
    return (n + TW_BLOCK_ALIGN - 1) & ~(uint64_t)(TW_BLOCK_ALIGN - 1);
}
/* Bytes that the block takes in the file: header, payload, padding. */
static inline uint64_t tw_block_span(const struct tw_block *b)
{
    return tw_align_block(sizeof *b + b->payload_bytes);
}

/* The last DATA block, its jump ancestor, that one's jump ancestor, and so on to the first. number:
 * its data_index. */
struct tw_jump_chain {
    uint32_t length;
    struct {
        uint64_t offset, number;
    } at[128];
};
/* The jump pointer of the next DATA block (Myers, "An applicative random-access stack", IPL 17,
 * 1983): with these and the pointers to the block before, any earlier block is reached in O(log n)
 * moves. 0 for the first block. (hash.c) */
uint64_t tw_jump_next(struct tw_jump_chain *c, uint64_t offset, uint64_t number);

/* ---- hashes (hash.c) */
struct tw_hash128 tw_trace_string_hash(const void *bytes, size_t n);
struct tw_hash128 tw_trace_key_hash(uint8_t phase, uint8_t kind, struct tw_hash128 name,
                                    struct tw_hash128 scope, struct tw_hash128 role);
struct tw_hash128 tw_trace_layout_hash(uint8_t dtype, uint8_t ndim, const int64_t *shape);
struct tw_hash128 tw_trace_seal(const struct tw_block *b, const void *payload);
/* The same in two parts: the hashes of TW_SIDES payloads, in little more time than one; and the
 * seal of a block from the hash of its payload. */
#define TW_SIDES 4
void tw_trace_payload_hashes(const char *const payload[TW_SIDES], const uint32_t bytes[TW_SIDES],
                             struct tw_hash128 hash[TW_SIDES]);
extern unsigned tw_trace_vector_bits; /* tests make it smaller, to see the other ways */
struct tw_hash128 tw_trace_seal_of(const struct tw_block *b, struct tw_hash128 body);
/* Is this machine little endian? Others do not write traces. */
bool tw_trace_is_le(void);

/* What one recording thread saw of one step; those of several threads add up. */
struct tw_step_sums {
    struct twin_value_hash phase[TWIN_PHASE_COUNT];
    uint32_t phase_mask, records, dropped;
    uint64_t order; /* state of the sequential hash; 0 = nothing yet */
};
/* What the value of a record begins with: a hash of its key and occurrence, and with its layout in
 * it. Most records of a series have the same. */
struct tw_value_start {
    uint64_t key_a, key_b, a, b;
};
struct tw_value_start tw_value_start(struct tw_hash128 key, uint32_t occurrence,
                                     struct tw_hash128 layout);
void tw_step_sums_put(struct tw_step_sums *s, uint8_t phase, const struct tw_value_start *v,
                      bool unobserved, bool ordered, struct twin_digest digest);
/* Both in one. layout and digest are ignored when unobserved. */
void tw_step_sums_add(struct tw_step_sums *s, uint8_t phase, struct tw_hash128 key,
                      uint32_t occurrence, bool unobserved, bool ordered, struct tw_hash128 layout,
                      struct twin_digest digest);
/* Adds one thread's sums to the total: order hashes are finished, then added, so that the threads'
 * numbering is nothing. */
void tw_step_sums_merge(struct tw_step_sums *total, const struct tw_step_sums *thread);
/* The element of the polynomial that a step contributes. */
struct twin_value_hash tw_step_element(const struct tw_step_sums *total);
struct twin_value_hash tw_order_element(const struct tw_step_sums *total);

/* Arithmetic modulo 2^127 - 1; values are reduced. */
/* prefix * R + element */
struct twin_value_hash tw_prefix_push(struct twin_value_hash prefix,
                                      struct twin_value_hash element);
/* Hash of steps first..last from the prefix at last, the prefix before first, and their number. */
struct twin_value_hash tw_prefix_window(struct twin_value_hash last, struct twin_value_hash before,
                                        uint64_t steps);

#endif
