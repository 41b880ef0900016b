/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_TRACE_H
#define TWIN_TRACE_H
/*
 * The trace: one append-only file per process. Written spec: docs/format/trace.md.
 * Writer half: linked by agents into the watched process (wait-free for the caller, no stdio, never
 * aborts). Reader half: linked by compare, report and cmd; accepts any bytes without crashing or
 * over-reading.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When in a step something was seen. Stored in traces: never renumber. */
enum twin_phase {
    TWIN_PHASE_NONE = 0,
    TWIN_PHASE_DATA = 1,
    TWIN_PHASE_RNG = 2,
    TWIN_PHASE_INIT = 3,
    TWIN_PHASE_FORWARD = 4,
    TWIN_PHASE_BACKWARD = 5,
    TWIN_PHASE_COLLECTIVE = 6,
    TWIN_PHASE_OPTIMIZER = 7,
    TWIN_PHASE_CHECKPOINT = 8,
    TWIN_PHASE_ENVIRONMENT = 9,
    TWIN_PHASE_KERNEL = 10,
    TWIN_PHASE_OUTPUT = 11,
    TWIN_PHASE_COUNT = 12
};

/* What was seen. Stored in traces: never renumber. */
enum twin_kind {
    TWIN_KIND_NONE = 0,
    TWIN_KIND_BATCH = 1,
    TWIN_KIND_INDICES = 2,
    TWIN_KIND_STATE = 3,
    TWIN_KIND_WEIGHT = 4,
    TWIN_KIND_ACTIVATION = 5,
    TWIN_KIND_GRADIENT_LOCAL = 6, /* before reduction across ranks */
    /* as the backward left it, reduced; in phase optimizer: as written since */
    TWIN_KIND_GRADIENT = 7,
    TWIN_KIND_MOMENT = 8,
    TWIN_KIND_LOSS = 9,
    TWIN_KIND_IN = 10,
    TWIN_KIND_OUT = 11,
    TWIN_KIND_MATCH = 12,
    TWIN_KIND_ORDER = 13,
    TWIN_KIND_FILE = 14,
    TWIN_KIND_LINE = 15,
    TWIN_KIND_VALUE = 16, /* recorded by the user: twin_record, twinrun.record */
    /* learning rate, loss scale, ...: scalars that steer the optimizer */
    TWIN_KIND_HYPER = 17,
    TWIN_KIND_COUNT = 18
};

const char *twin_phase_name(enum twin_phase p); /* "data", ...; "?" when unknown */
const char *twin_kind_name(enum twin_kind k);   /* "batch", ... "gradient (local)" ... */

/* A series is the identity of one stream of records: everything but step, occurrence and value.
 * Interned once. */
struct twin_series {
    uint8_t phase, kind;
    uint32_t name;  /* string id: the object, e.g. "encoder.embed.weight"; required */
    uint32_t scope; /* string id: enclosing scope, e.g. module path; 0 = none */
    uint32_t role;  /* string id: thread role such as "worker 0"; 0 = the main thread */
    /* string id: operation, module class, or consumer of a generator; 0 = unknown */
    uint32_t op;
    /* string id: source lines, innermost first, "file:line in func" joined by '\n'; 0 = unknown */
    uint32_t site;
};
/* Alignment key = (phase, kind, name, scope, role) + occurrence. op and site inform; they are not
 * part of the key nor of the value hash. Two series may share a key (same op seen from two sites):
 * they share the occurrence counter. */

struct twin_layout {
    uint8_t dtype;
    uint8_t ndim;
    int64_t shape[TWIN_MAX_NDIM];
};

enum twin_record_flags {
    TWIN_REC_STATS = 1u << 0,
    TWIN_REC_SKETCH = 1u << 1,
    TWIN_REC_OFFSET = 1u << 2, /* a shard: global_offset is meaningful */
    TWIN_REC_LINKS = 1u << 3,  /* consumed records follow */
    TWIN_REC_NOT_COMPOSABLE = 1u << 4,
    TWIN_REC_RECOMPUTED = 1u << 5, /* activation checkpointing ran this forward again */
    TWIN_REC_UNOBSERVED = 1u << 6, /* it happened, its contents could not be read: no digest */
    /* its place among its neighbours means nothing: left out of the order hash */
    TWIN_REC_UNORDERED = 1u << 7,
    TWIN_REC_PART =
        1u << 8, /* a run of elements of a tensor, for want of time: `whole` says how many there
                    are. Records of the other parts may stand in other steps; raw digests add up. */
};

#define TWIN_MAX_LINKS 64

/* ------------------------------------------------------------------ writer */

struct twin_writer;

struct twin_writer_options {
    const char *path; /* file to create (O_EXCL); copied */
    uint8_t run_id[16];
    int32_t rank, world; /* 0 and 1 when not distributed */
    /* role of this process: "main", "loader worker 0"; copied; NULL = "main" */
    const char *role;
    /* per recording thread; 0 = 4 MiB; rounded up to a power of two; smaller, or none, where
     * ulimit -v or -d holds (src/base/room.c) */
    size_t ring_bytes;
    uint32_t seal_ms; /* 0 = 250 */
    bool lossless;    /* a full ring makes the caller wait instead of dropping */
};

/* Creates the file and starts the drain thread (all signals blocked in it). On failure *out is
 * NULL. */
int twin_writer_open(const struct twin_writer_options *o, struct twin_writer **out,
                     struct twin_error *err);

/* Interns a string (any bytes, cut at 64 KiB). Returns an id > 0; 0 for the empty string or when
 * out of memory or over the cap of 1M strings (counted as lost). Thread-safe. Equal bytes give the
 * equal id. */
uint32_t twin_writer_string(struct twin_writer *w, const char *s, size_t bytes);
/* id > 0, 0 = lost */
uint32_t twin_writer_series(struct twin_writer *w, const struct twin_series *s);
/* id > 0, 0 = lost */
uint32_t twin_writer_layout(struct twin_writer *w, uint8_t dtype, uint32_t ndim,
                            const int64_t *shape);

struct twin_observation {
    uint32_t series, layout; /* ids; series 0 is counted as lost */
    /* TWIN_REC_*: those that say which of the pointers below are set */
    uint32_t flags;
    struct twin_digest digest;
    uint64_t global_offset;
    /* with TWIN_REC_PART: elements of the tensor that it is a part of */
    uint64_t whole;
    const struct twin_stats *stats;
    const struct twin_sketch *sketch;
    const uint64_t *links; /* values once returned by twin_writer_record */
    uint32_t link_count;   /* <= TWIN_MAX_LINKS, more are cut */
};

/* Adds the value to the step's value hash, then pushes the record into the calling thread's ring.
 * Returns a link (step << 32 | seq, seq from 1), also when the details were dropped because the
 * ring was full (a gap); 0 when it could not be recorded at all (counted as lost) or the writer is
 * off. */
uint64_t twin_writer_record(struct twin_writer *w, const struct twin_observation *o);

/* Closes the current step: its value hash becomes final; the step number goes up by one. The caller
 * makes sure that no other thread records for the step that is being closed (else the record counts
 * for either). Returns the new step. */
uint32_t twin_writer_step_end(struct twin_writer *w);
uint32_t twin_writer_step(const struct twin_writer *w);

/* A note: key and value strings for coverage, armed and unarmed hooks, the job's outcome. Not part
 * of any hash. */
void twin_writer_note(struct twin_writer *w, const char *key, const char *value);
/* The key of a note that readers of a trace take for its rank: "1 of 3" (RANK of WORLD). Its
 * process joined its group after its first record, and its role is "main" from then on. */
#define TW_NOTE_RANK "rank"
/* The key of a note that says which attempt of a launcher the process belongs to, where it is not
 * the first: "1" of the ranks that torchrun started again once. */
#define TW_NOTE_ATTEMPT "attempt"
/* Key of the note of the number that the cluster's queue gave to the job, digits: another one in
 * each run. */
#define TW_NOTE_QUEUED "queue.job"

/* Adds to the time spent inside hooks (observer effect); written with each seal. */
void twin_writer_add_observer_ns(struct twin_writer *w, uint64_t ns);

/* Drains and seals everything pushed so far by the calling thread (and what others pushed before).
 * For _exit. */
void twin_writer_flush(struct twin_writer *w);
/* Flush, end block, stop the thread, close the file. Safe with NULL. Records after close are
 * ignored. */
void twin_writer_close(struct twin_writer *w);

/* In the child after fork(): keeps the intern tables, discards rings and file of the parent, opens
 * a new file. Step restarts at 0. By any thread of the child, while no other one uses the writer.
 * On error the writer is dead (all calls no-ops). */
int twin_writer_reopen_after_fork(struct twin_writer *w, const struct twin_writer_options *o,
                                  struct twin_error *err);
/*
 * For pthread_atfork: hold/release the intern locks around fork so the child finds them consistent.
 */
void twin_writer_prepare_fork(struct twin_writer *w);
void twin_writer_parent_after_fork(struct twin_writer *w);
void twin_writer_child_after_fork(struct twin_writer *w); /* leaves w dead until reopened */

struct twin_writer_counts {
    uint64_t records, dropped, blocks, bytes, observer_ns;
    int failed_errno;
    /* calls that could not be recorded at all: no series, out of memory, over a cap */
    uint64_t lost;
};
/* records: sealed ones and dropped ones. Async-signal safety: none of the writer's functions. */
struct twin_writer_counts twin_writer_counts(const struct twin_writer *w);

/* ------------------------------------------------------------------ reader */

struct twin_trace;

struct twin_trace_info {
    uint32_t version;
    uint8_t run_id[16];
    /* As the header says; once the definitions are loaded, as a note in the trace says, where the
     * process joined its group after its first record (TW_NOTE_RANK). */
    int32_t rank, world;
    uint32_t pid;
    const char *role;
    int64_t start_realtime_ns;
    uint64_t start_monotonic_ns;
    bool closed; /* an end block was found: the process ended in an orderly way */
    /* tail: bytes after the last good block (lost by a crash or damage) */
    uint64_t blocks, file_bytes, tail_bytes;
    uint64_t records, dropped; /* as of the last seal; records: dropped ones included */
    uint64_t steps;            /* number of finished steps: 0..steps-1 have value hashes */
    uint64_t observer_ns;      /* as of the last seal */
    uint64_t last_time_ns;     /* time of the last seal since start */
    /* calls that could not be recorded at all (see twin_writer_counts) */
    uint64_t lost;
};

/* Opens by pread (never mmap: a file that shrinks under us must not raise SIGBUS). Reads header,
 * finds the last good block, and nothing else. Errors: TWIN_ENOENT, TWIN_EIO, TWIN_EFORMAT,
 * TWIN_EVERSION, TWIN_ENOMEM. */
int twin_trace_open(const char *path, struct twin_trace **out, struct twin_error *err);
void twin_trace_close(struct twin_trace *t);
/* Gives back the file descriptor and the memory in which the file is read; definitions and
 * summaries stay. The next call that reads opens the file again, and fails where another one took
 * its place (TWIN_EFORMAT). So thousands of traces can be held at once. Not while another thread
 * uses the trace, nor within a callback of a walk. */
void twin_trace_rest(struct twin_trace *t);
const struct twin_trace_info *twin_trace_info(const struct twin_trace *t);
uint64_t twin_trace_bytes_read(const struct twin_trace *t);

/* Value hash: two 64-bit commutative sums per phase; a 127-bit polynomial prefix over steps. */
struct twin_value_hash {
    uint64_t lo, hi;
};
struct twin_step_hash {
    uint32_t step;
    uint32_t records; /* that entered the hash, dropped ones included */
    uint32_t dropped; /* of them, how many have no details (gap) */
    /* hash over the sequence of keys: equal values, other order shows here */
    uint64_t order;
    struct twin_value_hash phase[TWIN_PHASE_COUNT];
    struct twin_value_hash prefix;       /* over steps 0..step */
    struct twin_value_hash order_prefix; /* the same over the steps' order hashes */
};

/* The hash of one finished step. TWIN_ENOENT when the step is not finished or lies in damaged
 * bytes. */
int twin_trace_step_hash(struct twin_trace *t, uint32_t step, struct twin_step_hash *out,
                         struct twin_error *err);

/* First step s in [from, limit) whose value hash differs between a's step s and b's step s + shift,
 * by binary search over prefix hashes: O(log steps) block reads. *found false: none in the range
 * both have. *compared = number of steps compared. Where steps right before *step are unknown in
 * one of them (twin_trace_step_hash gives TWIN_ENOENT: damaged bytes), the traces may have parted
 * in those already. Errors: TWIN_EINVAL (shift), TWIN_EIO, TWIN_ENOENT (the step before `from` is
 * unknown). */
int twin_trace_first_difference(struct twin_trace *a, struct twin_trace *b, int64_t shift,
                                uint32_t from, uint32_t limit, bool *found, uint32_t *step,
                                uint64_t *compared, struct twin_error *err);
/* The same for the order in which the main thread's role recorded: finds steps with equal values in
 * another order. */
int twin_trace_first_order_difference(struct twin_trace *a, struct twin_trace *b, int64_t shift,
                                      uint32_t from, uint32_t limit, bool *found, uint32_t *step,
                                      uint64_t *compared, struct twin_error *err);

struct twin_trace_record {
    uint32_t step, seq, occurrence, series, layout, thread, flags;
    uint64_t time_ns;          /* monotonic, since start of the trace */
    struct twin_digest digest; /* raw sums */
    uint64_t global_offset;
    /* with TWIN_REC_PART: elements of the whole tensor; 0 otherwise */
    uint64_t whole;
    struct twin_stats stats;   /* valid with TWIN_REC_STATS */
    struct twin_sketch sketch; /* valid with TWIN_REC_SKETCH; k is 0 otherwise */
    uint32_t link_count;
    uint64_t links[TWIN_MAX_LINKS];
};
/* All records of steps first..last (inclusive; also of an unfinished last step), ordered by (step,
 * seq), in one malloc'ed array (free with twin_trace_records_free; sketches and links make it
 * large: ask for few steps). TWIN_ELIMIT when more than max_records. */
int twin_trace_read(struct twin_trace *t, uint32_t first, uint32_t last, size_t max_records,
                    struct twin_trace_record **records, size_t *count, struct twin_error *err);
void twin_trace_records_free(struct twin_trace_record *records);
/* Streams every record and step end in file order; a callback that returns non-zero stops the walk
 * with that value. */
typedef int twin_trace_record_fn(void *user, const struct twin_trace_record *r);
typedef int twin_trace_step_fn(void *user, const struct twin_step_hash *h);
int twin_trace_walk(struct twin_trace *t, twin_trace_record_fn *on_record,
                    twin_trace_step_fn *on_step, void *user, struct twin_error *err);
/* The same for records of some series only, the others are passed over without being decoded.
 * wanted: asked once for each series; also for the one that stands for lost definitions, whose id
 * is 0. Where no series is wanted, on_step is NULL and the trace is known to be intact
 * (twin_trace_summary), nothing is read. */
typedef bool twin_trace_series_fn(void *user, uint32_t id, const struct twin_series *s);
int twin_trace_walk_some(struct twin_trace *t, twin_trace_series_fn *wanted,
                         twin_trace_record_fn *on_record, twin_trace_step_fn *on_step, void *user,
                         struct twin_error *err);
/* The same for the ends of steps from `from` on. Of a trace that is known to be intact only blocks
 * are read in which such a step ends. */
int twin_trace_walk_steps(struct twin_trace *t, uint32_t from, twin_trace_step_fn *on_step,
                          void *user, struct twin_error *err);

/* Reads all definitions, notes and gaps now rather than at the first look-up. 0, TWIN_ENOMEM, or
 * TWIN_EIO: then the look-ups below give empty answers, so call this first where such an answer
 * would be taken for a finding. */
int twin_trace_definitions(struct twin_trace *t, struct twin_error *err);
/* Dictionary look-ups; never NULL; "" / empty for id 0 and for ids whose definition was lost. Owned
 * by t. */
const char *twin_trace_string(struct twin_trace *t, uint32_t id);
const struct twin_series *twin_trace_series(struct twin_trace *t, uint32_t id);
const struct twin_layout *twin_trace_layout(struct twin_trace *t, uint32_t id);
/* The digest of a record as it is shown and compared across unlike shapes: a trace keeps the raw
 * sums; these are mixed with size, type and shape. y: the record's layout. */
struct twin_digest twin_trace_digest(const struct twin_trace_record *r,
                                     const struct twin_layout *y);
/* Notes in file order. index from 0; false past the end. */
bool twin_trace_note(struct twin_trace *t, size_t index, const char **key, const char **value);
/* The first value of this key, borrowed from the trace; NULL: there is no such note. */
const char *twin_trace_note_of(struct twin_trace *t, const char *key);
/* Which attempt of its launcher the process belongs to (TW_NOTE_ATTEMPT); 0: the first. */
uint32_t twin_trace_attempt(struct twin_trace *t);
/* Gaps: steps in which records were dropped. index from 0; false past the end. */
bool twin_trace_gap(struct twin_trace *t, size_t index, uint32_t *step, uint32_t *dropped);

/* A stretch of the file whose contents were found damaged while something was read: what it held is
 * unknown. */
struct twin_trace_hole {
    uint64_t block;  /* number of the (first) damaged block */
    uint64_t offset; /* where it begins in the file */
    /* its records belong to steps in between, ends included; not for definitions */
    uint32_t first_step, last_step;
    bool definitions; /* it held names, shapes, notes or gaps */
};
/* Those met so far by whatever was read. index from 0; false past the end. */
bool twin_trace_hole(const struct twin_trace *t, size_t index, struct twin_trace_hole *out);
/* Is everything known that the record refers to (names, scope, role, operation, layout)? False: it
 * stood in damaged bytes. */
bool twin_trace_described(struct twin_trace *t, const struct twin_trace_record *r);

/* Verifies everything: header, every CRC, the seal chain, every length, every value hash recomputed
 * from the records where none were dropped. 0 when intact; TWIN_EFORMAT with the first fault
 * (offset, expected, found); a tail (info.tail_bytes, what a killed process leaves) is a fault too,
 * and reported only when all before it is intact. */
int twin_trace_verify(struct twin_trace *t, struct twin_error *err);
/* The same on this thread alone, for who verifies several traces at once: the other one takes a
 * second thread where there is more than one processor. */
int twin_trace_verify_alone(struct twin_trace *t, struct twin_error *err);

/* What verifying has seen of all records. */
struct twin_trace_summary {
    uint64_t records;    /* stored ones */
    uint64_t unfinished; /* of them, those behind the last finished step */
    uint64_t finished;   /* of finished steps, dropped ones included */
    uint32_t every_step; /* a bit for each phase that has a value hash in every finished step */
    uint64_t unobserved; /* of all, those without contents */
    bool threads;        /* more than one thread recorded */
    bool nonfinite;      /* some statistics count NaN or an infinity */
};
/* NULL: not known, because the trace was not verified, or is not intact. */
const struct twin_trace_summary *twin_trace_summary(const struct twin_trace *t);
/* Is there a record of this series with contents? Known with the summary. */
bool twin_trace_observed(const struct twin_trace *t, uint32_t series);

/* What verifying has found of an intact trace, for another process that has the same file. bytes,
 * seal: which file that is; the seal of the last block covers all that stands before it. */
struct twin_trace_verified {
    uint64_t bytes, seal[2];
    struct twin_trace_summary summary;
    uint8_t *observed; /* bit i % 8 of byte i / 8: series i has contents (twin_trace_observed) */
    uint32_t series;   /* how many bits */
};
/* Fills *out, whose `observed` the caller frees with tw_free. TWIN_EINVAL: the trace was not
 * verified, or is not intact; TWIN_ENOMEM. */
int twin_trace_hand_over(const struct twin_trace *t, struct twin_trace_verified *out,
                         struct twin_error *err);
/* Takes for this trace what another process has found, as if it had been verified here. v may come
 * from anywhere, but `observed` must have the bits that `series` promises; nothing of v is kept.
 * TWIN_EINVAL: it is of another file, or cannot be true of this one; TWIN_ENOMEM. The trace is then
 * as it was. */
int twin_trace_take_over(struct twin_trace *t, const struct twin_trace_verified *v,
                         struct twin_error *err);

#ifdef __cplusplus
}
#endif
#endif
