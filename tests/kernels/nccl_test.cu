/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order-free all-reduce over NCCL against the host's sum of all contributions, bit for bit, by
 * 1, 2, 3 and 5 ranks that deal the same contributions in other ways. With NCCL a rank is a process
 * on a GPU of its own; exit 77 (skipped) with fewer than two. With the doubles of CUDA's runtime
 * and of NCCL (emulated/) also: each collective left out in turn, calls that ranks do not agree
 * about, a rank without memory, a group of the caller's.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <twin/nccl.h>

static int failures;

#define CHECK(condition, text)                                                        \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, text); \
            failures++;                                                               \
        }                                                                             \
    } while (0)

enum { TOTAL = 7, MOST = 3000 };

/* One rank of some. */
struct member {
    int rank, ranks;
    ncclComm_t comm;
};

/* One reduction. */
struct sum {
    enum twin_dtype dtype;
    size_t size;
    int64_t n, block, divisor;
    int how;
};

/* What all ranks write and read before they have a communicator. */
struct board {
    ncclUniqueId id;
    volatile int written;
};

static uint64_t next(uint64_t *s)
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* The same on every rank: any bits; or of like size; or finite ones. Where `how` is
 * 3, another element is a NaN in the first contribution than in the last one: each rank must hear
 * of one of them. */
static void fill(unsigned char *p, const struct sum *s)
{
    uint64_t state = (uint64_t)s->n * 8 + s->size + (uint64_t)s->how;
    const int64_t n = TOTAL * s->n;
    for (int64_t i = 0; i < n; i++)
        for (size_t j = 0; j < s->size; j++)
            p[(size_t)i * s->size + j] = (unsigned char)next(&state);
    for (int64_t i = 0; i < n && s->how; i++) {
        unsigned char *top = p + (size_t)(i + 1) * s->size - 1;
        *top = (unsigned char)(s->how == 2 ? *top & 0xBF : (*top & 0x83) | 0x38);
    }
    if (s->how == 3) {
        memset(p, 0xFF, s->size);
        memset(p + (size_t)(n - 1) * s->size, 0xFF, s->size);
    }
}

/* Which contributions a rank has: as equal parts as there are, or all of them the last one's. */
static int64_t first_of(int rank, int ranks, bool last_has_all)
{
    if (last_has_all)
        return rank < ranks ? 0 : TOTAL;
    return (int64_t)TOTAL * rank / ranks;
}

/* Arguments as a rank gives them, and what it gets. */
struct given {
    struct sum sum;
    int64_t total, contributions;
};

static int call(const struct member *m, const struct given *g, const unsigned char *x,
                unsigned char *out, struct twin_error *err)
{
    const struct sum *s = &g->sum;
    const size_t bytes = (size_t)s->n * s->size;
    void *d_x, *d_out, *d_scratch;
    CHECK(!cudaMalloc(&d_x, bytes * TOTAL) && !cudaMalloc(&d_out, bytes) &&
              !cudaMalloc(&d_scratch, (size_t)twin_nccl_scratch_bytes(s->n, s->block)),
          "cudaMalloc");
    if (g->contributions > 0)
        CHECK(!cudaMemcpy(d_x, x, bytes * (size_t)g->contributions, cudaMemcpyHostToDevice),
              "cudaMemcpy");
    const int rc = twin_nccl_allreduce(s->dtype, d_x, d_out, s->n, g->contributions, g->total,
                                       s->block, s->divisor, d_scratch, m->comm, NULL, err);
    CHECK(!cudaMemcpy(out, d_out, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    cudaFree(d_x), cudaFree(d_out), cudaFree(d_scratch);
    return rc;
}

/* True: this rank got what the host makes of all contributions. */
static bool is_right(const struct member *m, const struct sum *s, bool last_has_all,
                     struct twin_error *err)
{
    const int64_t first = first_of(m->rank, m->ranks, last_has_all);
    const int64_t end = first_of(m->rank + 1, m->ranks, last_has_all);
    const struct given g = {*s, TOTAL, end - first};
    const size_t bytes = (size_t)s->n * s->size;
    unsigned char *x = (unsigned char *)malloc(bytes * TOTAL);
    unsigned char *expected = (unsigned char *)malloc(bytes);
    unsigned char *found = (unsigned char *)malloc(bytes);
    const void *parts[TOTAL];
    fill(x, s);
    for (int i = 0; i < TOTAL; i++)
        parts[i] = x + (size_t)i * bytes;
    CHECK(twin_fixed_sum(s->dtype, parts, TOTAL, s->n, s->block, TOTAL, s->divisor, expected,
                         err) == 0,
          err->message);
    const bool right = call(m, &g, x + (size_t)first * bytes, found, err) == 0 &&
                       memcmp(expected, found, bytes) == 0;
    free(x), free(expected), free(found);
    return right;
}

static const struct sum sums[] = {
    {TWIN_F64, 8, 1, TWIN_FIXED_BLOCK, 1, 1},
    {TWIN_F64, 8, MOST, 37, TOTAL, 0},
    {TWIN_F32, 4, 2050, TWIN_FIXED_BLOCK, 1, 1},
    {TWIN_F32, 4, MOST, 37, 24, 2},
    {TWIN_F32, 4, 333, 64, 1, 3},
    {TWIN_F16, 2, 1025, TWIN_FIXED_BLOCK, 3, 0},
    {TWIN_BF16, 2, MOST, 1, TOTAL, 1},
    {TWIN_BF16, 2, 77, 1000, 1, 3},
};
enum { SUMS = sizeof sums / sizeof sums[0] };

static void check_sums(const struct member *m)
{
    for (int i = 0; i < SUMS; i++)
        for (int deal = 0; deal < 2; deal++) {
            struct twin_error err = TWIN_ERROR_INIT;
            char text[64];
            snprintf(text, sizeof text, "sum %d, deal %d, rank %d of %d", i, deal, m->rank,
                     m->ranks);
            const bool right = is_right(m, &sums[i], deal == 1, &err);
            CHECK(right, err.message[0] ? err.message : text);
        }
}

#ifdef TW_EMULATED
extern "C" void tw_alloc_fail_at(uint64_t n, bool forever);

/* Each collective that is left out is missed, in a sum that needs them all. */
static void check_left_out(const struct member *m)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct sum s = {TWIN_F32, 4, 333, 64, 1, 3};
    nccl_double_skip(INT_MAX);
    CHECK(is_right(m, &s, false, &err), err.message);
    const int n = (int)nccl_double_begun();
    CHECK(m->ranks == 1 ? n == 0 : n == 5, "exponents, contributions, memory, marks, integers");
    for (int i = 0; i < n; i++) {
        if (i == 2) /* who has no memory: nobody, here */
            continue;
        nccl_double_skip(i);
        CHECK(!is_right(m, &s, false, &err), "nobody misses a collective that was left out");
    }
    nccl_double_skip(-1);
}

/* A call that must end with this error on every rank. */
static void check_refused(const struct member *m, const struct given *g, int code, const char *says)
{
    struct twin_error err = TWIN_ERROR_INIT;
    static unsigned char x[TOTAL * MOST * 8], out[MOST * 8];
    const int rc = call(m, g, x, out, &err);
    CHECK(rc == code && strstr(err.message, says), err.message);
}

/* Rank 1 gives something else than all others. */
static void check_agreement(const struct member *m)
{
    const bool odd = m->rank == 1;
    const int64_t mine = first_of(m->rank + 1, m->ranks, false) -
                         first_of(m->rank, m->ranks, false);
    const struct given fine = {{TWIN_F32, 4, 100, 64, 1, 1}, TOTAL, mine};
    struct given g = fine;
    if (odd)
        g.sum.dtype = TWIN_F16;
    check_refused(m, &g, TWIN_EINVAL, "one type on all ranks");
    g = fine;
    g.sum.n = odd ? 99 : 100;
    check_refused(m, &g, TWIN_EINVAL, "one number of elements on all ranks, found 99 and 100");
    g = fine;
    g.sum.block = odd ? 63 : 64;
    check_refused(m, &g, TWIN_EINVAL, "one block on all ranks");
    g = fine;
    if (odd)
        g.total = TWIN_FIXED_MAX_TOTAL;
    check_refused(m, &g, TWIN_EINVAL, "one total on all ranks, found ");
    g = fine;
    g.sum.divisor = odd ? 2 : 1;
    check_refused(m, &g, TWIN_EINVAL, "one divisor on all ranks");
    g = fine;
    if (odd)
        g.contributions++;
    check_refused(m, &g, TWIN_EINVAL, "expected 7 contributions of all ranks together, found 8");
    g = fine;
    if (odd)
        g.contributions = -1;
    check_refused(m, &g, TWIN_EINVAL, odd ? "-1 of" : "a rank refuses its arguments");
}

static void check_memory(const struct member *m)
{
    const bool odd = m->rank == 1;
    const int64_t mine = first_of(m->rank + 1, m->ranks, false) -
                         first_of(m->rank, m->ranks, false);
    struct given g = {{TWIN_F32, 4, 100, 64, 1, 1}, TOTAL, mine};
    tw_alloc_fail_at(odd ? 1 : 0, false);
    check_refused(m, &g, TWIN_ENOMEM, "a rank is out of memory for 2 exponents");
    tw_alloc_fail_at(0, false);
    struct twin_error err = TWIN_ERROR_INIT;
    const struct sum special = {TWIN_F32, 4, 333, 64, 1, 3};
    runtime_refuse_memory(odd);
    CHECK(!is_right(m, &special, false, &err) && strstr(err.message, "out of device memory"),
          err.message);
    runtime_refuse_memory(false);
}

/* Within a group nothing is begun before its end: what comes back must not pass for a sum. */
static void check_group(const struct member *m)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct sum s = {TWIN_F32, 4, 100, 64, 1, 1};
    const struct given g = {s, TOTAL, 1};
    void *d_x, *d_scratch;
    CHECK(!cudaMalloc(&d_x, 400 * TOTAL) &&
              !cudaMalloc(&d_scratch, (size_t)twin_nccl_scratch_bytes(s.n, s.block)),
          "cudaMalloc");
    ncclGroupStart();
    const int rc = twin_nccl_allreduce(s.dtype, d_x, d_x, s.n, g.contributions, g.total, s.block,
                                       s.divisor, d_scratch, m->comm, NULL, &err);
    ncclGroupEnd();
    cudaStreamSynchronize(NULL); /* the group was begun at its end, and still uses the memory */
    CHECK(rc == TWIN_EINVAL && strstr(err.message, "between ncclGroupStart and ncclGroupEnd"),
          err.message);
    cudaFree(d_x), cudaFree(d_scratch);
}

static void check_more(const struct member *m)
{
    check_left_out(m);
    if (m->ranks > 1) {
        check_agreement(m);
        check_memory(m);
    }
    CHECK(nccl_double_trouble() == 0, "a rule of NCCL was broken");
}
#else
static void check_more(const struct member *m)
{
    (void)m;
}
static void check_group(const struct member *m)
{
    (void)m;
}
#endif

/* The exit code of one rank. */
static int be_rank(struct board *board, int rank, int ranks, bool blocking)
{
    struct member m = {rank, ranks, NULL};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
#ifndef TW_EMULATED
    cudaSetDevice(rank);
#endif
    if (rank == 0) {
        CHECK(ncclGetUniqueId(&board->id) == ncclSuccess, "ncclGetUniqueId");
        __sync_synchronize();
        board->written = 1;
    }
    while (!board->written)
        usleep(1000);
    __sync_synchronize();
    ncclResult_t rc = ncclCommInitRankConfig(&m.comm, ranks, board->id, rank, &config);
    while (rc == ncclInProgress)
        ncclCommGetAsyncError(m.comm, &rc);
    CHECK(rc == ncclSuccess, "ncclCommInitRankConfig");
    if (failures)
        return 1;
    check_sums(&m);
    check_more(&m);
    if (blocking && ranks > 1)
        check_group(&m);
    ncclCommDestroy(m.comm);
    return failures ? 1 : 0;
}

/* A rank that fails leaves the others waiting for it: they are ended. */
static bool run_ranks(int ranks, bool blocking)
{
    pid_t child[8];
    bool right = true;
    struct board *board = (struct board *)mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
                                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < ranks; i++) {
        child[i] = fork();
        if (child[i] == 0)
            _exit(be_rank(board, i, ranks, blocking));
    }
    for (int left = ranks; left > 0; left--) {
        int status = 0;
        const pid_t pid = waitpid(-1, &status, 0);
        const bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        for (int i = 0; i < ranks; i++) {
            if (child[i] == pid)
                child[i] = 0;
            else if (!fine && right && child[i] > 0)
                kill(child[i], SIGTERM);
        }
        right = right && fine;
    }
    munmap(board, sizeof *board);
    printf("%d ranks, %s: %s\n", ranks, blocking ? "blocking" : "not blocking",
           right ? "ok" : "FAILED");
    fflush(stdout);
    return right;
}

/* Asked in a child: CUDA is used by the ranks alone, which are forked. */
static int devices()
{
#ifdef TW_EMULATED
    return 5;
#else
    const pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        int count = 0;
        _exit(cudaGetDeviceCount(&count) == cudaSuccess ? count : 0);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
#endif
}

int main()
{
    const int gpus = devices();
    bool right = true;
    if (gpus < 2) {
        printf("SKIPPED: no two GPUs\n");
        return 77;
    }
#ifdef TW_EMULATED
    printf("A DOUBLE of NCCL: ranks meet in a file, and add up the host's memory\n");
    fflush(stdout);
#endif
    static const int ranks[] = {1, 2, 3, 5};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
        for (int blocking = 0; blocking < 2 && ranks[i] <= gpus; blocking++)
            right = run_ranks(ranks[i], blocking == 1) && right;
    printf("%s\n", right ? "ok" : "FAILED");
    return right ? 0 : 1;
}
