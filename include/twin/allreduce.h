/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_ALLREDUCE_H
#define TWIN_ALLREDUCE_H
/*
 * All-reduce and reduce-scatter over MPI whose result depends on the contributions alone: the same
 * bits on any number of ranks, in any placement, under any algorithm and order of arrival. What is
 * computed, its error bound, and NaN, infinities and zeros: <twin/reduce.h>. How:
 * docs/internals/allreduce.md. For users: docs/allreduce.md.
 *
 *     // one contribution from each rank
 *     twin_allreduce_f32(gradient, gradient, n, 1, ranks, MPI_COMM_WORLD, &err);
 *     // 24 in all, `mine` of them here
 *     twin_allreduce_f32(gradients, sum, n, mine, 24, MPI_COMM_WORLD, &err);
 *
 * Contributions are what must stay the same when the number of ranks changes: microbatches, not
 * ranks. A rank may hold any number of them, none included; together they must be `total`.
 *
 * Every call is collective over the communicator. What ranks must agree on is checked: when they do
 * not, or when one of them refuses (bad argument, out of memory, floating-point mode), every rank
 * gets an error that says so, and none waits for ever. Output is then undefined, or untouched where
 * the error came before any exchange. Only within the limits of MPI: all ranks must make the call,
 * and what MPI itself reports (TWIN_EIO) may leave others waiting, as any failed MPI call may.
 *
 * The first call on a communicator duplicates it (collective, blocking; freed with the
 * communicator), so messages never mix with the program's. Calls on one communicator from one
 * thread at a time, in the same order on all ranks, as for MPI's own; on different communicators
 * from different threads where MPI was started with MPI_THREAD_MULTIPLE. Like MPI's calls they are
 * neither for signal handlers nor for a child that the program forks. Needs MPI 3.0; one library
 * for each MPI: link with -ltwinmpi-openmpi or -ltwinmpi-mpich, and -ltwinnumerics. Since 0.1.
 */
#include <mpi.h>
#include <stdint.h>
#include <twin/error.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* How the numbers travel. The result is the same. */
enum twin_reduce_way {
    TWIN_WAY_AUTO, /* DIRECT where it can be, else OWNERS, on more than 64 ranks SUM */
    /* each rank sends its numbers as they are to the owner of a part, who sums; only one
       contribution a rank */
    TWIN_WAY_DIRECT,
    /* each rank sends the exact sum of its contributions, as integers of as few bytes as hold it
       (struct twin_fixed_wire of <twin/reduce.h>), to the owner of a part; a single contribution
       from each rank as it is */
    TWIN_WAY_OWNERS,
    TWIN_WAY_SUM /* MPI_Iallreduce of 64-bit integers, with whatever algorithm the MPI has */
};

/* What to reduce. Zero everything first; then only what is not 0 must be set. */
struct twin_reduce {
    enum twin_dtype dtype; /* TWIN_F64, TWIN_F32, TWIN_F16 or TWIN_BF16 */
    /* [contributions][n] elements of this rank; may be NULL when there are none */
    const void *x;
    /*
     * n elements, or counts[rank] of a reduce-scatter. May be x itself, but not of a reduce-scatter
     */
    void *out;
    int64_t n;             /* elements, at most 2^31 - 1; the same on all ranks */
    int64_t contributions; /* of this rank, 0 or more */
    int64_t total;         /* of all ranks, 1 to 2^31 */
    /* elements to an exponent (0: 1,024); smaller is more accurate, <twin/reduce.h> */
    int64_t block;
    int64_t divisor; /* 0 or 1: the sum; total: the mean; rounded once. To 2^31 */
    enum twin_reduce_way way;
    /* NULL: all-reduce. Else [ranks] how many elements of the result each rank gets, in order; sum
     * n */
    const int64_t *counts;
};

/*
 * In one call, which blocks until this rank has its result. Returns 0 with *out set, or a negative
 * code. Its memory (buffers for some pieces of the array; one piece from each other rank with
 * DIRECT) is freed before it returns. Errors: TWIN_EINVAL (an argument out of range, ranks that
 * disagree, contributions that are not `total` together, DIRECT without one contribution a rank,
 * MPI not initialized, an inter-communicator, floating-point mode not the default), TWIN_ELIMIT
 * (n), TWIN_ENOMEM, TWIN_EIO (MPI).
 */
int twin_reduce(const struct twin_reduce *what, MPI_Comm comm, struct twin_error *err);

/* The sum over all ranks' contributions x[contributions][n] into out[n], of elements of one type;
 * out may be x. The 16-bit types are passed as their bits. Blocks of 1,024 elements, the way AUTO.
 * Returns and errors as twin_reduce. */
int twin_allreduce_f64(const double *x, double *out, int64_t n, int64_t contributions,
                       int64_t total, MPI_Comm comm, struct twin_error *err);
int twin_allreduce_f32(const float *x, float *out, int64_t n, int64_t contributions, int64_t total,
                       MPI_Comm comm, struct twin_error *err);
int twin_allreduce_f16(const uint16_t *x, uint16_t *out, int64_t n, int64_t contributions,
                       int64_t total, MPI_Comm comm, struct twin_error *err);
int twin_allreduce_bf16(const uint16_t *x, uint16_t *out, int64_t n, int64_t contributions,
                        int64_t total, MPI_Comm comm, struct twin_error *err);

/*
 * Without blocking, and again and again with the same buffers:
 *
 *     struct twin_reduction r;
 *     // takes memory, sends nothing (but for the first on a communicator)
 *     twin_reduction_init(&r, &what, comm, &err);
 *     for (...) {
 *         // from here to the end x and out belong to the reduction
 *         twin_reduction_start(&r, &err);
 *         ... // compute; now and then let MPI make progress, which it makes within calls only:
 *         twin_reduction_test(&r, &done, &err);
 *         ...
 *         twin_reduction_wait(&r, &err);
 *     }
 *     twin_reduction_fini(&r);
 *
 * Several may be under way on a communicator: start them in the same order on all ranks, wait in
 * any; they run one after the other. The struct may not be moved, nor copied, between init and
 * fini. `what` is copied, with its counts.
 */
struct twin_reduction {
    uint64_t inside[512];
};

/*
 * Fails (and needs no fini) only where there is nobody to tell: MPI not initialized, no
 * communicator, or no intra-communicator, TWIN_EINVAL; MPI itself, TWIN_EIO. Whatever else is wrong
 * is kept, and told to all ranks by start and wait.
 */
int twin_reduction_init(struct twin_reduction *r, const struct twin_reduce *what, MPI_Comm comm,
                        struct twin_error *err);
/* Begins; returns without waiting for other ranks. TWIN_EBUSY when it is under way already. All
 * other errors come from wait. */
int twin_reduction_start(struct twin_reduction *r, struct twin_error *err);
/* Makes progress without waiting. *done = 1 when it has ended, with the result or the error of
 * wait; else 0. */
int twin_reduction_test(struct twin_reduction *r, int *done, struct twin_error *err);
/* Blocks until it has ended; errors as of twin_reduce; again what it was when it has been waited
 * for. TWIN_EINVAL: never started. */
int twin_reduction_wait(struct twin_reduction *r, struct twin_error *err);
/* Waits if it is under way, and frees what init took. */
void twin_reduction_fini(struct twin_reduction *r);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
