/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduce over MPI, on as many ranks as it is started on. Every result is held against
 * twin_fixed_sum of all contributions in one place, which the test `fixed` holds against MPFR.
 *     allreduce matrix SEED    24 contributions, dealt to ranks at random; rank 0 prints one digest
 * of all results, which must not depend on ranks, seed, algorithm or MPI (everyday a part of the
 * cases; TWINRUN_FULL=1: all) allreduce one            one contribution from each rank, every way
 *     allreduce calls          persistent, several at a time, other communicators, in place, empty
 *     allreduce wrong          wrong use: an error on every rank, and no rank waits for ever
 *     allreduce memory         each allocation of one rank made to fail
 * Exit 0 when all is well on all ranks.
 */
#include <fenv.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include <twin/allreduce.h>
#include <twin/reduce.h>
#include "base.h"
#include "inside.h"

static int rank, ranks, failures;
static const enum twin_dtype dtypes[] = {TWIN_F32, TWIN_F64, TWIN_BF16, TWIN_F16};

#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "rank %d of %d, %s:%d: %s: ", rank, ranks, __FILE__, __LINE__, \
                    #condition);                                                           \
            fprintf(stderr, __VA_ARGS__);                                                  \
            fputc('\n', stderr);                                                           \
            failures++;                                                                    \
        }                                                                                  \
    } while (0)

static size_t size_of(enum twin_dtype dtype)
{
    return dtype == TWIN_F64 ? 8 : dtype == TWIN_F32 ? 4 : 2;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Contribution g: mixed signs, over many binades; with specials, a few NaN and infinities. */
static void contribution(void *out, enum twin_dtype dtype, int64_t n, int64_t g, int specials)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t h = mix((uint64_t)(g * 1000003 + i) * 0x9E3779B97F4A7C15u + dtype);
        double v = ((double)(int64_t)h * 0x1p-63) * (double)(1u << (h % 13)) *
                   (h % 97 == 0 ? 0x1p-9 : 1);
        const uint64_t special = mix(h ^ 5) % 400;
        if (specials && special < 3 && i % 3000 < 1500)
            v = special == 0   ? __builtin_nan("")
                : special == 1 ? __builtin_inf()
                               : -__builtin_inf();
        const float f = (float)v;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        uint16_t half = (uint16_t)(bits >> 16);
        if (dtype == TWIN_F16) { /* any finite bits of not too large numbers, or a special */
            half = (uint16_t)(h & 0x83FF) | (uint16_t)((h >> 20) % 25 << 10);
            if (v != v || v > 1e30 || v < -1e30)
                half = v != v ? 0x7E01 : v > 0 ? 0x7C00 : 0xFC00;
        }
        const size_t size = size_of(dtype);
        memcpy((char *)out + (size_t)i * size,
               size == 8   ? (const void *)&v
               : size == 4 ? (const void *)&f
                           : (const void *)&half,
               size);
    }
}

static void *take(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "rank %d: out of memory\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

/* All of it in one place. */
static char *oracle(const struct twin_reduce *w, int specials)
{
    const size_t bytes = (size_t)w->n * size_of(w->dtype);
    char *all = take(bytes * (size_t)w->total), *out = take(bytes);
    const void **x = take((size_t)w->total * sizeof *x);
    for (int64_t g = 0; g < w->total; g++) {
        contribution(all + (size_t)g * bytes, w->dtype, w->n, g, specials);
        x[g] = all + (size_t)g * bytes;
    }
    const int rc = twin_fixed_sum(w->dtype, x, w->total, w->n,
                                  w->block ? w->block : TWIN_FIXED_BLOCK, w->total,
                                  w->divisor ? w->divisor : 1, out, NULL);
    CHECK(rc == 0, "twin_fixed_sum");
    free(all);
    free(x);
    return out;
}

static uint64_t digest;
static void add_to_digest(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        digest = (digest ^ (unsigned char)p[i]) * 0x100000001B3u;
}

/* Deals `total` contributions to ranks: at random, or one to each in order. Those of this rank, in
 * an order that is random too. */
static int64_t deal(int64_t total, uint64_t seed, int64_t *mine)
{
    int64_t count = 0;
    for (int64_t g = 0; g < total; g++) {
        const int64_t to = total == ranks && !seed
                               ? g
                               : (int64_t)(mix(seed * 7919 + (uint64_t)g) % (uint64_t)ranks);
        if (to == rank)
            mine[count++] = g;
    }
    for (int64_t i = count; i > 1; i--) {
        const int64_t j = (int64_t)(mix(seed + (uint64_t)(i + 64 * rank)) % (uint64_t)i);
        const int64_t t = mine[i - 1];
        mine[i - 1] = mine[j];
        mine[j] = t;
    }
    return count;
}

/* One reduction of `total` contributions, dealt by the seed; its result is held against the
 * oracle's. */
static void reduce_and_compare(struct twin_reduce w, uint64_t seed, int specials,
                               const char *expected, const char *what)
{
    const size_t size = size_of(w.dtype), bytes = (size_t)w.n * size;
    int64_t mine[256], begin = 0, got = w.n;
    struct twin_error err = TWIN_ERROR_INIT;
    w.contributions = deal(w.total, seed, mine);
    char *x = take(bytes * (size_t)(w.contributions ? w.contributions : 1)), *out = take(bytes + 1);
    for (int64_t c = 0; c < w.contributions; c++)
        contribution(x + (size_t)c * bytes, w.dtype, w.n, mine[c], specials);
    const int in_place = !w.counts && seed % 2;
    w.x = x;
    w.out = in_place ? x : out;
    if (w.counts) {
        for (int k = 0; k < rank; k++)
            begin += w.counts[k];
        got = w.counts[rank];
    }
    const int rc = twin_reduce(&w, MPI_COMM_WORLD, &err);
    CHECK(rc == 0, "%s, %s: %s", what, twin_dtype_name(w.dtype), err.message);
    CHECK(rc || memcmp(w.out, expected + (size_t)begin * size, (size_t)got * size) == 0,
          "%s, %s, n %" PRId64 ", block %" PRId64 ": other bits", what, twin_dtype_name(w.dtype),
          w.n, w.block);
    free(x);
    free(out);
}

static const enum twin_reduce_way ways[] = {TWIN_WAY_AUTO, TWIN_WAY_OWNERS, TWIN_WAY_SUM,
                                            TWIN_WAY_DIRECT};
static const char *const way_names[] = {"auto", "owners", "sum", "direct"};

static void every_way(struct twin_reduce w, uint64_t seed, int specials)
{
    char *expected = oracle(&w, specials);
    for (int k = 0; k < (w.total == ranks && !seed ? 4 : 3); k++) {
        w.way = ways[k];
        w.counts = NULL;
        reduce_and_compare(w, seed, specials, expected, way_names[k]);
        tw_chunk = 1 + w.n / 9; /* many of them */
        reduce_and_compare(w, seed, specials, expected, "many chunks");
        int64_t counts[256], left = w.n; /* uneven, some of them 0 */
        for (int r = 0; r < ranks; r++) {
            counts[r] = r + 1 == ranks ? left : r % 3 == 1 ? 0 : left * 2 / (3 + r);
            left -= counts[r];
        }
        w.counts = counts;
        reduce_and_compare(w, seed, specials, expected, "reduce-scatter");
        tw_chunk = 0;
    }
    add_to_digest(expected, (size_t)w.n * size_of(w.dtype));
    free(expected);
}

static void matrix(uint64_t seed, int64_t total)
{
    static const struct {
        int64_t n, block, divisor;
        int specials;
    } cases[] = {
        {0, 0, 0, 0},    {1, 0, 0, 0},       {7, 1, 0, 0},     {1023, 0, 24, 0},
        {5000, 0, 0, 1}, {20011, 100, 7, 0}, {5003, 64, 0, 1}, {70001, 0, 1, 1},
    };
    const size_t count = sizeof cases / sizeof *cases, step = getenv("TWINRUN_FULL") ? 1 : 2;
    for (size_t d = 0; d < 4; d++)
        for (size_t c = (d + 1) % step; c < count - (step - 1); c += step)
            every_way((struct twin_reduce){.dtype = dtypes[d],
                                           .n = cases[c].n,
                                           .block = cases[c].block,
                                           .divisor = cases[c].divisor,
                                           .total = total},
                      seed + (seed ? c : 0), cases[c].specials);
}

/* ---- the calls */
static void calls(void)
{
    enum { N = 3001, KINDS = 3 };
    struct twin_error err = TWIN_ERROR_INIT;
    float *x[KINDS], *out[KINDS];
    struct twin_reduction r[KINDS];
    char *expected[KINDS];
    for (int k = 0; k < KINDS; k++) {
        x[k] = take(N * sizeof(float));
        out[k] = take(N * sizeof(float));
        const struct twin_reduce w = {.dtype = TWIN_F32,
                                      .x = x[k],
                                      .out = out[k],
                                      .n = N,
                                      .contributions = 1,
                                      .total = ranks,
                                      .way = k == 0   ? TWIN_WAY_AUTO
                                             : k == 1 ? TWIN_WAY_OWNERS
                                                      : TWIN_WAY_SUM,
                                      .divisor = k + 1};
        expected[k] = oracle(&w, 0);
        CHECK(twin_reduction_init(&r[k], &w, MPI_COMM_WORLD, &err) == 0, "%s", err.message);
    }
    int done = 1;
    CHECK(twin_reduction_wait(&r[0], NULL) == TWIN_EINVAL, "never started");
    CHECK(twin_reduction_test(&r[0], &done, NULL) == TWIN_EINVAL && !done, "never started");
    /* waited for in another order on each rank; polled in some */
    for (int round = 0; round < 4; round++) {
        for (int k = 0; k < KINDS; k++) {
            contribution(x[k], TWIN_F32, N, rank, 0);
            memset(out[k], 0, N * sizeof(float));
            CHECK(twin_reduction_start(&r[k], &err) == 0, "%s", err.message);
        }
        CHECK(twin_reduction_start(&r[2], NULL) == TWIN_EBUSY, "under way");
        for (int j = 0; j < KINDS; j++) {
            const int k = (j + rank + round) % KINDS;
            done = 0;
            while (round % 2 && !done)
                CHECK(twin_reduction_test(&r[k], &done, &err) == 0, "%s", err.message);
            CHECK(twin_reduction_wait(&r[k], &err) == 0, "%s", err.message);
            CHECK(memcmp(out[k], expected[k], N * sizeof(float)) == 0,
                  "reduction %d, round %d: other bits", k, round);
        }
    }
    CHECK(twin_reduction_start(&r[1], NULL) == 0, "start");
    for (int k = 0; k < KINDS; k++) /* waits for what is under way */
        twin_reduction_fini(&r[k]);
    CHECK(memcmp(out[1], expected[1], N * sizeof(float)) == 0, "ended by fini");

    /* The typed calls, in place, on a communicator of my own parity and on a duplicate; several
     * contributions from one rank. */
    MPI_Comm half, copy;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_dup(half, &copy);
    int some;
    MPI_Comm_size(half, &some);
    double *d = take(2 * 900 * sizeof(double));
    float *f = take(2 * 900 * sizeof(float));
    uint16_t *h = take(2 * 900 * sizeof(uint16_t));
    for (int i = 0; i < 1800; i++)
        d[i] = f[i] = (float)(i % 37), h[i] = 0x3C00; /* 1 in f16 */
    CHECK(twin_allreduce_f64(d, d, 900, 2, 2 * some, half, &err) == 0 &&
              d[38] == some * (1 + (938 % 37)),
          "f64 %g %s", d[38], err.message);
    CHECK(twin_allreduce_f32(f, f, 900, 2, 2 * some, copy, &err) == 0 &&
              f[38] == (float)(some * (1 + (938 % 37))),
          "f32 %s", err.message);
    CHECK(twin_allreduce_f16(h, h, 900, 2, 2 * some, half, &err) == 0 &&
              (some > 1 || h[899] == 0x4000),
          "f16 %s", err.message);
    for (int i = 0; i < 1800; i++)
        h[i] = 0x3F80; /* 1 in bf16 */
    CHECK(twin_allreduce_bf16(h, h, 900, 1, some, copy, &err) == 0 && (some != 2 || h[7] == 0x4000),
          "bf16 %s", err.message);
    CHECK(twin_allreduce_f32(NULL, NULL, 0, 0, 1, half, NULL) == TWIN_EINVAL,
          "no contributions, but a total of 1");
    CHECK(twin_allreduce_f32(NULL, NULL, 0, 1, some, half, &err) == 0, "%s", err.message);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    for (int k = 0; k < KINDS; k++) {
        free(x[k]);
        free(out[k]);
        free(expected[k]);
    }
    free(d), free(f), free(h);
}

/* ---- wrong use: rank `odd` differs; all ranks must get this code and, after it, a good reduction
 * must work. */
enum { USED_N = 2500, WRONG_USES = 21, OVERLAPS_NOTHING = 16, FLOATING_POINT_MODE = 20 };
static float used_x[2 * USED_N], used_out[2 * USED_N];

struct wrong_use {
    struct twin_reduce call;
    int expected;     /* the code that every rank must get */
    int alone;        /* wrong even where there is no other rank to differ from */
    const char *word; /* of the message */
};

/* Spoils the good call u->call as case c says, on the odd rank or on all. */
static void make_wrong(struct wrong_use *u, int c, int odd, int me)
{
    enum { N = USED_N };
    float *x = used_x, *out = used_out;
    static int64_t counts[256], zeros[256];
    struct twin_reduce *w = &u->call;
    if (c == 0)
        counts[0] = N;
    switch (c) {
    case 0:
        w->n -= me;
        u->word = "disagree on n";
        break;
    case 1:
        w->dtype = me ? TWIN_F64 : TWIN_F32;
        w->n = N / 2;
        u->word = "disagree on dtype";
        break;
    case 2:
        w->total += me;
        u->word = ranks > 1 ? "disagree on total" : "total is";
        u->alone = 1;
        break;
    case 3:
        w->block = me ? 512 : 0;
        u->word = "disagree on block";
        break;
    case 4:
        w->divisor = me ? 3 : 0;
        u->word = "disagree on divisor";
        break;
    case 5:
        w->way = me ? TWIN_WAY_SUM : TWIN_WAY_AUTO;
        u->word = "disagree on way";
        break;
    case 6:
        w->counts = me ? counts : NULL;
        u->word = "disagree on counts";
        break;
    case 7:
        counts[0] = N - me;
        counts[odd] += odd ? me : 0;
        w->counts = counts;
        u->word = "disagree on counts";
        break;
    case 8:
        w->x = me ? NULL : x;
        u->word = "NULL";
        u->alone = 1;
        break;
    case 9:
        w->out = me ? NULL : out;
        u->word = "NULL";
        u->alone = 1;
        break;
    case 10:
        w->n = me ? -1 : N;
        u->word = "0 or more";
        u->alone = 1;
        break;
    case 11:
        w->n = me ? (int64_t)1 << 31 : N;
        u->expected = TWIN_ELIMIT;
        u->word = "2^31";
        u->alone = 1;
        break;
    case 12:
        w->dtype = me ? TWIN_I32 : TWIN_F32;
        u->word = "expected f64";
        u->alone = 1;
        break;
    case 13:
        w->contributions = me ? 0 : 1;
        u->word = "but total is";
        u->alone = 1;
        break;
    case 14:
        w->way = TWIN_WAY_DIRECT;
        w->contributions = rank == 0 ? 2 : 1;
        w->total = ranks + 1;
        u->word = "one contribution";
        u->alone = 1;
        break;
    case 15:
        w->out = me ? x + 1 : out;
        u->word = "overlap";
        u->alone = 1;
        break;
    case 16:
        w->out = me ? x : out;
        w->counts = zeros;
        zeros[0] = N;
        u->word = "overlap";
        u->alone = odd == 0;
        break;
    case 17:
        w->block = me ? -1 : 0;
        u->word = "blocks of";
        u->alone = 1;
        break;
    case 18:
        w->divisor = me ? -1 : 0;
        u->word = "divisor";
        u->alone = 1;
        break;
    case 19:
        zeros[0] = N - me;
        w->counts = zeros;
        u->word = "before n";
        u->alone = 1;
        break;
    case FLOATING_POINT_MODE:
        u->word = "floating-point mode";
        u->alone = 1;
        break;
    default: u->word = "default mode"; break;
    }
}

/* One call while the odd rank rounds otherwise than the others. */
static int reduce_in_another_mode(const struct twin_reduce *w, int me, struct twin_error *err)
{
#if defined(__x86_64__)
    const unsigned csr = _mm_getcsr();
    if (me)
        _mm_setcsr(csr | 0x8040);
    int rc = twin_reduce(w, MPI_COMM_WORLD, err);
    _mm_setcsr(csr);
#else
    fesetround(me ? FE_UPWARD : FE_TONEAREST);
    int rc = twin_reduce(w, MPI_COMM_WORLD, err);
    fesetround(FE_TONEAREST);
#endif
    return rc;
}

/* Communicators that a reduction refuses on every rank. */
static void wrong_communicators(const struct twin_reduce *good)
{
    struct twin_error err = TWIN_ERROR_INIT;
    CHECK(twin_reduce(good, MPI_COMM_NULL, &err) == TWIN_EINVAL &&
              strstr(err.message, "MPI_COMM_NULL"),
          "%s", err.message);
    if (ranks == 1)
        return;
    MPI_Comm part, inter; /* an inter-communicator between the first rank and the others */
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &part);
    MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 5, &inter);
    struct twin_error other = TWIN_ERROR_INIT;
    CHECK(twin_reduce(good, inter, &other) == TWIN_EINVAL &&
              strstr(other.message, "inter-communicator"),
          "%s", other.message);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&part);
}

static void wrong(void)
{
    enum { N = USED_N };
    const int odd = ranks - 1, me = rank == odd;
    const struct twin_reduce good = {.dtype = TWIN_F32,
                                     .x = used_x,
                                     .out = used_out,
                                     .n = N,
                                     .contributions = 1,
                                     .total = ranks};
    for (int c = 0; c < WRONG_USES; c++) {
        struct wrong_use u = {.call = good, .expected = TWIN_EINVAL, .word = ""};
        make_wrong(&u, c, odd, me);
        if (c == OVERLAPS_NOTHING && odd != 0) /* the last rank gets nothing there */
            continue;
        struct twin_error err = TWIN_ERROR_INIT;
        int rc = c == FLOATING_POINT_MODE ? reduce_in_another_mode(&u.call, me, &err)
                                          : twin_reduce(&u.call, MPI_COMM_WORLD, &err);
        if (ranks > 1 || u.alone) {
            CHECK(rc == u.expected, "case %d: code %d, %s", c, rc, err.message);
            CHECK(strstr(err.message, u.word) || (!me && strstr(err.message, "refuses")),
                  "case %d: %s", c, err.message);
        }
        for (int i = 0; i < N; i++)
            used_x[i] = 1, used_out[i] = 0;
        struct twin_error none = TWIN_ERROR_INIT;
        CHECK(twin_reduce(&good, MPI_COMM_WORLD, &none) == 0 && used_out[N - 1] == (float)ranks,
              "after case %d: %s", c, none.message);
    }
    wrong_communicators(&good);
}

/* Every allocation of the last rank made to fail in turn: all ranks get TWIN_ENOMEM, or all
 * succeed, and none waits. */
static void memory(void)
{
    enum { N = 4000 };
    static float x[N], out[N];
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy); /* its state is made here, too */
    int failed = 0, succeeded = 0;
    for (uint64_t k = 1; k < 40 && succeeded < 2; k++)
        for (int specials = 0; specials < 2; specials++) {
            contribution(x, TWIN_F32, N, rank, specials);
            const struct twin_reduce w = {.dtype = TWIN_F32,
                                          .x = x,
                                          .out = out,
                                          .n = N,
                                          .contributions = 1,
                                          .total = ranks,
                                          .way = specials ? TWIN_WAY_OWNERS : TWIN_WAY_AUTO};
            struct twin_error err = TWIN_ERROR_INIT;
            if (rank == ranks - 1)
                tw_alloc_fail_at(k, false);
            const int rc = twin_reduce(&w, copy, &err);
            tw_alloc_fail_at(0, false);
            CHECK(rc == 0 || rc == TWIN_ENOMEM, "allocation %d: %s", (int)k, err.message);
            int worst = rc, best = rc;
            MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
            MPI_Allreduce(MPI_IN_PLACE, &best, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
            CHECK(worst == best, "allocation %d: %d on a rank, %d on another", (int)k, worst, best);
            failed += rc != 0;
            succeeded = rc == 0 ? succeeded + 1 : 0;
            char *expected = rc == 0 ? oracle(&w, specials) : NULL;
            CHECK(rc || memcmp(expected, out, sizeof out) == 0, "allocation %d: other bits",
                  (int)k);
            free(expected);
        }
    CHECK(succeeded >= 2 && failed >= 10, "%d failed, then %d succeeded", failed, succeeded);
    MPI_Comm_free(&copy);
}

int main(int argc, char **argv)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_reduce nothing = {.dtype = TWIN_F32, .total = 1};
    CHECK(twin_reduce(&nothing, MPI_COMM_WORLD, &err) == TWIN_EINVAL &&
              strstr(err.message, "not initialized"),
          "%s", err.message);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "matrix") && argc == 3)
        matrix(strtoull(argv[2], NULL, 10) * 1000 + 1, 24);
    else if (!strcmp(what, "one"))
        matrix(0, ranks);
    else if (!strcmp(what, "calls"))
        calls();
    else if (!strcmp(what, "wrong"))
        wrong();
    else if (!strcmp(what, "memory"))
        memory();
    else
        CHECK(0, "usage: allreduce matrix SEED | one | calls | wrong | memory");
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %016" PRIx64 "\n", all ? "FAILED" : "ok", digest);
    MPI_Finalize();
    return all ? 1 : 0;
}
