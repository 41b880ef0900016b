/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The all-reduce over NCCL: the kernels of fixed.cu, with a MAX of int32 and a SUM of int64 between
 * them. What ranks must agree on travels with the exponents, so that a call which is not the same
 * on all ranks, or which one of them cannot go on with, ends with an error on all of them.
 */
#include <sched.h>
#include <string.h>
#include <twin/nccl.h>
#include "device.cuh"

/* src/base/base.h, which is C alone. */
extern "C" void *tw_malloc(size_t bytes);
extern "C" void tw_free(void *p);

/* Each value that must be the same stands beside its complement: the largest of both are
 * complements of each other where, and only where, all ranks gave one. */
enum { SAME_DTYPE, SAME_N, SAME_BLOCK, SAME_TOTAL, SAME_DIVISOR, SAME };
enum { FIRST_RANK = 2 * SAME, LAST_RANK, REFUSES, WORDS };
enum { GOES_ON, NO_MEMORY, BAD_ARGUMENTS }; /* REFUSES: the largest is heard */

/* One call of one rank. */
struct call {
    enum twin_dtype dtype;
    const void *d_x;
    int64_t n, contributions, total, block, divisor, blocks;
    ncclComm_t comm;
    cudaStream_t stream;
    int rank, ranks;
    /* in d_scratch; `words` lie behind the exponents, so that one MAX serves both */
    int64_t *sum, *given;
    int32_t *exponents, *words, *index;
    int32_t *specials; /* NULL: no block has any */
    int32_t *host;     /* [blocks] */
};

/* A communicator that does not block says "in progress" until the call is done. */
static int nccl_result(ncclResult_t rc, ncclComm_t comm, const char *what, struct twin_error *err)
{
    while (rc == ncclInProgress) {
        ncclResult_t state = ncclSuccess;
        const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
        rc = asked == ncclSuccess ? state : asked;
        if (rc == ncclInProgress)
            sched_yield();
    }
    return rc == ncclSuccess
               ? 0
               : twin_error_set(err, TWIN_EIO, "NCCL: %s: %s", what, ncclGetErrorString(rc));
}

/* In place. Of one rank nothing is asked of NCCL. */
static int all_reduce(const struct call *c, void *d_x, int64_t n, ncclDataType_t type,
                      ncclRedOp_t operation, const char *what, struct twin_error *err)
{
    if (c->ranks == 1)
        return 0;
    return nccl_result(ncclAllReduce(d_x, d_x, (size_t)n, type, operation, c->comm, c->stream),
                       c->comm, what, err);
}

extern "C" int64_t twin_nccl_scratch_bytes(int64_t n, int64_t block)
{
    const int64_t blocks = twin_fixed_blocks(n, block);
    if (n > INT32_MAX || blocks < 0)
        return TWIN_EINVAL;
    /* integers, contributions; exponents, words, where the specials of a block are */
    return 8 * n + 8 + 8 * blocks + 4 * WORDS;
}

/* ---- what ranks must agree on */

static void say(int32_t *words, const struct call *c, int32_t refuses)
{
    /* 2^31 contributions are a negative number here, and another one than all others */
    const int32_t same[SAME] = {(int32_t)c->dtype, (int32_t)c->n, (int32_t)c->block,
                                (int32_t)c->total, (int32_t)c->divisor};
    for (int i = 0; i < SAME; i++) {
        words[2 * i] = same[i];
        words[2 * i + 1] = ~same[i];
    }
    words[FIRST_RANK] = ~c->rank;
    words[LAST_RANK] = c->rank;
    words[REFUSES] = refuses;
}

/* What all ranks said. Within a group of the caller's NCCL has not begun, and what comes back is
 * what this rank gave. */
static int agreed(const int32_t *words, int64_t given, const struct call *c, struct twin_error *err)
{
    static const char *const names[SAME] = {"type", "number of elements", "block", "total",
                                            "divisor"};
    if (~words[FIRST_RANK] != 0 || words[LAST_RANK] != c->ranks - 1)
        return twin_error_set(err, TWIN_EINVAL,
                              "NCCL all-reduce: expected the exponents of ranks 0 to %d, found "
                              "those of ranks %d to %d: it must not be called between "
                              "ncclGroupStart and ncclGroupEnd",
                              c->ranks - 1, (int)~words[FIRST_RANK], (int)words[LAST_RANK]);
    for (int i = 0; i < SAME; i++)
        if (words[2 * i] != ~words[2 * i + 1])
            return twin_error_set(err, TWIN_EINVAL,
                                  "NCCL all-reduce: expected one %s on all ranks, found %lld and "
                                  "%lld",
                                  names[i], (long long)(uint32_t)~words[2 * i + 1],
                                  (long long)(uint32_t)words[2 * i]);
    if (words[REFUSES] == NO_MEMORY)
        return twin_error_set(err, TWIN_ENOMEM,
                              "NCCL all-reduce: a rank is out of memory for %lld exponents",
                              (long long)c->blocks);
    if (words[REFUSES] != GOES_ON)
        return twin_error_set(err, TWIN_EINVAL,
                              "NCCL all-reduce: a rank refuses its arguments, and says which");
    if (given != c->total)
        return twin_error_set(err, TWIN_EINVAL,
                              "NCCL all-reduce: expected %lld contributions of all ranks together, "
                              "found %lld",
                              (long long)c->total, (long long)given);
    return 0;
}

/* Exponents and agreement; how many blocks have specials. Waits for the stream. */
static int64_t exchange_exponents(struct call *c, struct twin_error *err)
{
    int32_t words[WORDS];
    int64_t given = c->contributions;
    const int mine = twin_cuda_fixed_exponents(c->dtype, c->d_x, c->contributions, c->n, c->block,
                                               c->exponents, c->stream, err);
    if (mine && mine != TWIN_EINVAL)
        return mine; /* CUDA has failed: nothing can be told to the others */
    int32_t refuses = c->host ? GOES_ON : NO_MEMORY;
    if (mine)
        refuses = BAD_ARGUMENTS;
    say(words, c, refuses);
    if (mine)
        err = NULL; /* the first message stays */
    int rc = tw_cuda_result(
        cudaMemcpyAsync(c->words, words, sizeof words, cudaMemcpyHostToDevice, c->stream),
        "arguments to the device", err);
    if (!rc)
        rc = tw_cuda_result(
            cudaMemcpyAsync(c->given, &given, sizeof given, cudaMemcpyHostToDevice, c->stream),
            "contributions to the device", err);
    if (!rc)
        rc = all_reduce(c, c->exponents, c->blocks + WORDS, ncclInt32, ncclMax,
                        "MAX of the exponents", err);
    if (!rc)
        rc = all_reduce(c, c->given, 1, ncclInt64, ncclSum, "SUM of the contributions", err);
    if (!rc)
        rc = tw_cuda_result(
            cudaMemcpyAsync(words, c->words, sizeof words, cudaMemcpyDeviceToHost, c->stream),
            "arguments to the host", err);
    if (!rc)
        rc = tw_cuda_result(
            cudaMemcpyAsync(&given, c->given, sizeof given, cudaMemcpyDeviceToHost, c->stream),
            "contributions to the host", err);
    /* both lie on this stack: whatever failed, nothing may still write there */
    const int waited = tw_cuda_result(cudaStreamSynchronize(c->stream), "waiting for the exponents",
                                      rc ? NULL : err);
    if (!rc)
        rc = waited;
    if (!rc)
        rc = agreed(words, given, c, err);
    if (rc || mine)
        return mine ? mine : rc;
    return twin_cuda_fixed_flagged(c->dtype, c->exponents, c->blocks, c->host, c->index, c->stream,
                                   err);
}

/* ---- NaN and infinities */

/* One rank that has no memory must not leave the others waiting: so all are asked, in a word of
 * those that are not needed any more. */
static int all_have_memory(const struct call *c, bool have, struct twin_error *err)
{
    int32_t refuses = !have;
    int rc = tw_cuda_result(
        cudaMemcpyAsync(c->words, &refuses, sizeof refuses, cudaMemcpyHostToDevice, c->stream),
        "a mark to the device", err);
    if (!rc)
        rc = all_reduce(c, c->words, 1, ncclInt32, ncclMax, "MAX of who has no memory", err);
    if (!rc)
        rc = tw_cuda_result(
            cudaMemcpyAsync(&refuses, c->words, sizeof refuses, cudaMemcpyDeviceToHost, c->stream),
            "a mark to the host", err);
    const int waited = tw_cuda_result(cudaStreamSynchronize(c->stream), "waiting for the marks",
                                      rc ? NULL : err);
    if (rc || waited)
        return rc ? rc : waited;
    return refuses ? twin_error_set(err, TWIN_ENOMEM,
                                    "NCCL all-reduce: a rank is out of device memory for the marks "
                                    "of NaN and infinities")
                   : 0;
}

static int exchange_specials(struct call *c, int64_t flagged, struct twin_error *err)
{
    const int64_t count = flagged * (1 + 2 * c->block);
    const size_t bytes = (size_t)count * sizeof *c->specials;
    void *memory = NULL;
    if (cudaMallocAsync(&memory, bytes, c->stream) == cudaSuccess)
        c->specials = (int32_t *)memory;
    int rc = all_have_memory(c, c->specials != NULL, err);
    if (!rc)
        rc = tw_cuda_result(cudaMemsetAsync(c->specials, 0, bytes, c->stream), "clearing marks",
                            err);
    if (!rc)
        rc = twin_cuda_fixed_specials(c->dtype, c->d_x, c->contributions, c->n, c->block,
                                      c->exponents, c->index, c->specials, c->stream, err);
    if (!rc)
        rc = all_reduce(c, c->specials, count, ncclInt32, ncclMax, "MAX of the marks", err);
    return rc;
}

/* ---- the call */

static int reduce(struct call *c, void *d_out, struct twin_error *err)
{
    const int64_t flagged = exchange_exponents(c, err);
    if (flagged < 0)
        return (int)flagged;
    int rc = flagged ? exchange_specials(c, flagged, err) : 0;
    if (!rc)
        rc = twin_cuda_fixed_quantise(c->dtype, c->d_x, c->contributions, c->n, c->block, c->total,
                                      c->exponents, c->index, c->specials, c->sum, c->stream, err);
    if (!rc)
        rc = all_reduce(c, c->sum, c->n, ncclInt64, ncclSum, "SUM of the integers", err);
    if (!rc)
        rc = twin_cuda_fixed_round(c->dtype, c->sum, c->n, c->block, c->total, c->divisor,
                                   c->exponents, c->index, c->specials, d_out, c->stream, err);
    return rc;
}

extern "C" int twin_nccl_allreduce(enum twin_dtype dtype, const void *d_x, void *d_out, int64_t n,
                                   int64_t contributions, int64_t total, int64_t block,
                                   int64_t divisor, void *d_scratch, ncclComm_t comm,
                                   cudaStream_t stream, struct twin_error *err)
{
    struct call c = {};
    if (twin_nccl_scratch_bytes(n, block) < 0 || (n > 0 && !d_scratch))
        return twin_error_set(
            err, TWIN_EINVAL,
            "NCCL all-reduce: %lld elements in blocks of %lld, scratch memory at %s", (long long)n,
            (long long)block, d_scratch ? "an address" : "NULL");
    if (n == 0)
        return 0;
    c.dtype = dtype, c.d_x = d_x, c.n = n, c.contributions = contributions, c.total = total;
    c.block = block, c.divisor = divisor, c.comm = comm, c.stream = stream;
    c.blocks = twin_fixed_blocks(n, block);
    int rc = nccl_result(ncclCommCount(comm, &c.ranks), comm, "the number of ranks", err);
    if (!rc)
        rc = nccl_result(ncclCommUserRank(comm, &c.rank), comm, "the rank", err);
    if (rc)
        return rc;
    c.sum = (int64_t *)d_scratch;
    c.given = c.sum + n;
    c.exponents = (int32_t *)(c.given + 1);
    c.words = c.exponents + c.blocks;
    c.index = c.words + WORDS;
    c.host = (int32_t *)tw_malloc((size_t)c.blocks * sizeof *c.host);
    rc = reduce(&c, d_out, err);
    if (c.specials)
        cudaFreeAsync(c.specials, stream);
    tw_free(c.host);
    return rc;
}
