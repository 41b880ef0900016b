/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRACE_WRITER_H
#define TW_TRACE_WRITER_H
/*
 * Inside the writer. Threads: any number of recorders, each with its own ring; one drain thread
 * that owns the file.
 *
 * Lock order: step_lock, threads_lock, intern_lock. The drain thread never takes step_lock. No lock
 * is held while waiting for the drain thread except step_lock (a full step queue), which the drain
 * thread does not need.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "format.h"

/* ---- intern tables: append-only, read without a lock, written under intern_lock */

/* Items of one piece of a table. Pieces are never moved, so a pointer to an item stays good. */
#define TW_CHUNK 256u

/* One table: items 1..count in pieces, and a hash table over them that only writers use. */
struct tw_table {
    atomic_uint count; /* ids 1..count exist; release on append */
    _Atomic(char *) chunk[TW_TABLE_MAX / TW_CHUNK];
    size_t item; /* bytes of one item */
    /* open addressing over ids, power of two; under the lock */
    uint32_t *slots, slot_count;
};

/* A string of the job; bytes is in the writer's pool and not terminated. */
struct tw_string_item {
    const char *bytes;
    uint32_t n;
    struct tw_hash128 hash;
};
/* What identifies a record across runs, beside its step: see intern.c. */
struct tw_key_item {
    struct tw_hash128 hash;
    uint32_t name, scope, role;
    uint8_t phase, kind;
    atomic_uint_fast64_t occurrences[2]; /* by parity of the step: step << 32 | count */
};
/* A series with the key that it shares with others. */
struct tw_series_item {
    struct twin_series s;
    uint32_t hash;
    struct tw_key_item *key;
};
/* A type and a shape; shape is in the writer's pool. */
struct tw_layout_item {
    struct tw_hash128 hash;
    uint8_t dtype, ndim;
    int64_t *shape;
};

/* id in 1..count, else undefined */
static inline void *tw_table_at(const struct tw_table *t, uint32_t id)
{
    return atomic_load_explicit(&t->chunk[(id - 1) / TW_CHUNK], memory_order_relaxed) +
           (size_t)((id - 1) % TW_CHUNK) * t->item;
}
static inline bool tw_table_has(const struct tw_table *t, uint32_t id)
{
    return id != 0 && id <= atomic_load_explicit(&t->count, memory_order_acquire);
}

/* A note that waits to be written; key and then value stand in bytes. */
struct tw_note_node {
    struct tw_note_node *next;
    uint32_t key_bytes, value_bytes;
    char bytes[];
};

/* ---- recording threads */

/* one thread's share of one step, chosen by the step's parity */
struct tw_step_part {
    struct tw_step_sums sums;
    /* records that are wholly in sums and in the ring; release */
    atomic_uint done;
};

/* The smallest ring; all are powers of two. */
#define TW_RING_MIN ((size_t)16 << 10)

/* The mask of a thread without a ring, for want of memory: its size is 0, so it is always full. */
#define TW_NO_RING UINT64_MAX

/* One recording thread and, behind it in one mapping, its ring. The ring holds entries of format.h;
 * head and tail count bytes since the start and are taken modulo its size (mask = size - 1). */
struct tw_thread {
    struct tw_thread *next;
    struct twin_writer *writer;
    char *ring;
    uint64_t mask;
    uint32_t number;
    /* a record made from a signal handler inside a record is lost, not torn */
    bool recording;
    atomic_bool exited;
    atomic_uint_fast64_t dropped; /* by this thread, since start; written by it alone */
    struct tw_step_part part[2];
    char apart0[64];           /* head and tail on cache lines of their own */
    atomic_uint_fast64_t head; /* bytes pushed; written by the recorder */
    uint64_t seen_tail;        /* recorder's last knowledge of tail */
    char apart1[64];
    atomic_uint_fast64_t tail; /* bytes taken; written by the drain thread */
    char apart2[64];
};

/* ---- drain thread */

/* Finished steps that may wait to be written. */
#define TW_STEP_QUEUE 1024u

/* The file as the drain thread keeps it: where it stands, what was written so far, and the two
 * blocks that are being filled. */
struct tw_drain { /* touched by the drain thread alone once it runs */
    int fd;
    /* fd is of a table of descriptors that only the drain thread has */
    bool alone;
    /* what fd must still be: the job may have closed it and got the number again */
    uint64_t device, inode;
    uint32_t crc_seed;
    struct tw_block last; /* last written header, for the chain */
    bool any;             /* a block was written */
    uint64_t position;    /* where the next block goes */
    struct tw_jump_chain jumps;
    uint64_t data_blocks, last_data, last_dict;
    uint32_t strings, layouts, series; /* definitions written so far */
    struct tw_block data, dict;        /* headers being filled */
    char *data_bytes, *dict_bytes;     /* room for header, payload, padding; kept over a fork */
    uint64_t last_seal_ns;
};

/* off: failed; dead: closed, or forked and not reopened */
enum tw_writer_state { TW_WRITER_ON, TW_WRITER_OFF, TW_WRITER_DEAD };

/* One trace that is being written. Groups between the gaps of 64 bytes lie on cache lines of their
 * own, since every recording thread adds to step_seq. */
struct twin_writer {
    atomic_int state;
    atomic_int failed_errno;
    struct twin_writer *next_closed;
    pid_t pid;
    pthread_key_t key;
    /* options */
    char *path;
    size_t ring_bytes;
    uint64_t seal_ns;
    bool lossless;
    struct tw_file_header header;

    char apart0[64];
    atomic_uint_fast64_t step_seq; /* step << 32 | records begun in it */
    char apart1[64];
    pthread_mutex_t step_lock;
    struct twin_value_hash prefix, order_prefix;
    struct tw_step_end *queue;          /* finished steps on their way to the file */
    atomic_uint queue_head, queue_tail; /* head: by step_end; tail: by the drain thread */

    pthread_mutex_t threads_lock;
    _Atomic(struct tw_thread *) threads;
    struct tw_thread *forker; /* in a child, until it is reopened: who made it; NULL: had no ring */
    /* shares of threads that have ended; under threads_lock */
    struct tw_step_part orphan[2];
    uint32_t thread_numbers;
    atomic_uint_fast64_t dropped_exited; /* by threads that are gone */

    pthread_mutex_t intern_lock;
    struct tw_table strings, keys, series, layouts;
    struct tw_pool_piece *pool;              /* intern.c: where they and what they point to lie */
    struct tw_note_node *notes, **notes_end; /* waiting to be written */
    struct tw_note_node *notes_written;      /* to be freed by the next note */
    atomic_bool notes_waiting;

    atomic_uint_fast64_t observer_ns, lost;
    /* published by the drain thread */
    atomic_uint_fast64_t blocks, bytes, records_stored;

    pthread_t drain_thread;
    bool drain_running;
    atomic_uint wake; /* futex: bumped to wake the drain thread */
    /* 0 no, 1 until something happens, 2 a short nap that batches steps */
    atomic_int sleeping;
    atomic_uint flush_wanted, flush_done; /* flush_done is a futex */
    atomic_uint started;                  /* futex: 0 not yet, 1 up, 2 failed (failed_errno) */
    atomic_bool stop;
    struct tw_drain drain;
};

/* intern.c */
int tw_intern_init(struct twin_writer *w);
void tw_intern_fini(struct twin_writer *w);
/* after fork: counters and notes forgotten, definitions kept */
void tw_intern_restart(struct twin_writer *w);

/* record.c */
void tw_thread_end(void *thread); /* destructor of the thread's key */
void tw_thread_free(struct tw_thread *t);
uint64_t tw_dropped_total(struct twin_writer *w);

/* drain.c */
void *tw_drain_main(void *writer);
/* alone.c. Gives the calling thread an empty table of descriptors; false when it cannot have one,
 * and shares the program's. */
bool tw_drain_stand_alone(void);
extern bool tw_drain_shares_descriptors; /* tests: as where a system call filter is in force */
/* Wakes the drain thread; a nap is left alone unless urgent. */
void tw_drain_wake(struct twin_writer *w, bool urgent);
void tw_writer_fail(struct twin_writer *w, int error);

/* blocks.c: the file as the drain thread sees it. On failure the writer is off. */
void tw_file_create(struct twin_writer *w);
void tw_file_close(struct twin_writer *w);
void tw_blocks_put(struct twin_writer *w, const void *entry, uint32_t bytes, uint32_t step,
                   uint32_t seq, bool record);
void tw_blocks_put_step(struct twin_writer *w, const struct tw_step_end *s);
void tw_blocks_seal(struct twin_writer *w);
void tw_blocks_end(struct twin_writer *w);
int tw_blocks_init(struct twin_writer *w);

/* writer.c */
static inline bool tw_writer_on(const struct twin_writer *w)
{
    return w && atomic_load_explicit(&w->state, memory_order_acquire) == TW_WRITER_ON;
}
void tw_futex_wait(atomic_uint *word, uint32_t value, uint64_t timeout_ns);
void tw_futex_wake_all(atomic_uint *word);
void tw_sleep_ns(uint64_t ns);
/* Tests and benchmarks: gives everything back. The caller knows that no thread uses w any more.
 * Closes first. */
void tw_writer_free(struct twin_writer *w);

#endif
