/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MPI_INSIDE_H
#define TW_MPI_INSIDE_H
/*
 * A reduction is a row of phases. Each posts non-blocking MPI operations and names what to do when
 * they have ended (reduction.c). All ranks go through the same phases, because every choice is made
 * from what all of them know: the agreement (agree.c) and the exponents. Reductions of one
 * communicator form a queue, and only its head moves: so their messages and collectives are posted
 * in the same order everywhere, whichever one the program waits for.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/allreduce.h>
#include <twin/reduce.h>

#define TW_SLOTS 2          /* chunks under way at a time */
#define TW_CHUNK 65536      /* elements of an owner's part in one chunk, */
#define TW_CHUNK_ALL 524288 /* and of all parts together; at least a block of each */
extern int64_t tw_chunk;    /* tests: 0, or instead of both */
#define TW_OWNERS_MOST 64   /* ranks; above, each pair's messages are too small */
#define TW_ANY_MOST INT32_MAX

/* Which of our messages it is: contributions on their way to an owner, or an owner's results. */
enum tw_tag { TW_TAG_NUMBERS = 1, TW_TAG_RESULTS };

/* ---- the agreement: what every rank puts in, and what comes out for all. Two numbers of opposite
 * sign: equal if MAX says so. */
enum tw_agree {
    TW_AGREE_N,
    TW_AGREE_DTYPE,
    TW_AGREE_TOTAL,
    TW_AGREE_BLOCK,
    TW_AGREE_DIVISOR,
    TW_AGREE_WAY,
    TW_AGREE_COUNTS,
    TW_AGREE_FIELDS
};
/* What a rank tells in the agreement, and what comes of all of them. */
struct tw_header {
    int64_t high[TW_AGREE_FIELDS], minus_low[TW_AGREE_FIELDS]; /* MAX */
    /* MAX: (ranks - rank) << 8 | error code, negated; 0: none */
    int64_t refusal;
    int64_t most; /* MAX: contributions of one rank */
    int64_t sum;  /* SUM: contributions */
};

struct tw_reduction;

/* What a communicator of the program carries. */
struct tw_comm {
    MPI_Comm comm; /* the duplicate */
    int rank, ranks;
    MPI_Datatype header;
    MPI_Op agree;
    struct tw_reduction *head, **tail;
};

/* 0, or an error that is set in r->err; sets r->next, NULL at the end */
typedef int tw_step(struct tw_reduction *r);

/* One chunk on its way: integers of 64 bits (SUM), or room for as many (OWNERS). */
struct tw_slot {
    int64_t *integers; /* my contributions' sum, part after part; OWNERS: packed */
    int64_t *received; /* OWNERS: my part, from each other rank. SUM: the sum */
    MPI_Request *requests;
    int count;
};

/* One reduction, inside the memory of the program's struct twin_reduction. It may be run many
 * times. kept: an error of init, which refuses every run; err: of the last run. */
struct tw_reduction {
    struct twin_reduce what;
    struct tw_comm *on;
    struct tw_reduction *behind; /* in the queue */
    bool ready;                  /* what.counts is our copy */
    bool active, begun, ever;
    struct twin_error err;  /* of the last run */
    struct twin_error kept; /* of init: refuses every run */
    tw_step *next;          /* what to do when `pending` has ended; NULL: nothing more */
    MPI_Request agreement, *pending;
    int pending_count;

    size_t size; /* bytes of an element */
    MPI_Datatype type, exponent_type;
    int64_t blocks, wide; /* blocks in all; elements of a chunk of one part */
    /* [ranks][2] the elements that a rank owns: whole blocks around what it is to get */
    int64_t *bounds;
    enum twin_reduce_way way;
    struct tw_header mine, all;
    unsigned char *exponents; /* of each block; behind them, but for SUM, their depths */
    unsigned char *specials;  /* only in runs with NaN or infinities */
    int64_t specials_count;
    int short_of_memory, anyone_short;
    char *slices;       /* DIRECT: my part from every other rank */
    const void **parts; /* where each rank's is */
    const void **held;  /* where each of my contributions is, from some element on */
    char *segment;      /* of a reduce-scatter: my part of the result; else NULL */
    MPI_Request *requests;
    struct tw_slot slot[TW_SLOTS];
    int64_t chunk, chunks; /* the next one to end, and how many there are */
};

/* comm.c: the communicator's own state, made at the first call. */
int tw_comm_of(MPI_Comm comm, struct tw_comm **out, struct twin_error *err);
int tw_mpi_failed(struct twin_error *err, int rc, const char *what);

/* agree.c */
void tw_agree_fill(struct tw_reduction *r);
/* an MPI_User_function */
void tw_agree_merge(void *from, void *to, int *count, MPI_Datatype *type);
int tw_agree_judge(struct tw_reduction *r);

/* memory.c: buffers of a reduction; TWIN_E* with the message in r->kept. */
int tw_reduction_prepare(struct tw_reduction *r);
void tw_reduction_release(struct tw_reduction *r);

/* ways.c */
tw_step tw_begin_direct, tw_begin_general;
static inline const char *tw_element(const struct tw_reduction *r, const void *x, int64_t i)
{
    return (const char *)x + (size_t)i * r->size;
}
static inline int64_t tw_low(const struct tw_reduction *r, int rank)
{
    return r->bounds[2 * rank];
}
static inline int64_t tw_high(const struct tw_reduction *r, int rank)
{
    return r->bounds[2 * rank + 1];
}
#endif
