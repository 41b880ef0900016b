/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of the fingerprint as a fraction of a pure read of the same memory. Every round times the
 * read and each variant one after the other, so that whatever else the machine does hits all of
 * them; the median over rounds counts. Prints rows `name value unit`. Arguments: rounds (default
 * 11), MiB of the large buffer (default 256).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <twin/fingerprint.h>

#define MAX_ROUNDS 101

static volatile uint64_t sink;

/* CPU time of this thread: the turns of other processes do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The fastest reads there are: eight accumulators, one load and one xor per vector. */
#if defined(__x86_64__)
#define READ(name, isa, bytes, type, xor)                                                     \
    __attribute__((target(isa), noinline)) static void name(const unsigned char *p, size_t n) \
    {                                                                                         \
        type s[8] = {0};                                                                      \
        for (size_t i = 0; i < n; i += 8 * bytes)                                             \
            for (int j = 0; j < 8; j++)                                                       \
                s[j] = xor(s[j], *(const type *)(p + i + bytes * (size_t)j));                 \
        for (int j = 1; j < 8; j++)                                                           \
            s[0] = xor(s[0], s[j]);                                                           \
        for (size_t j = 0; j < bytes / 8; j++)                                                \
            sink = sink + (uint64_t)s[0][j];                                                  \
    }
READ(read_avx2, "avx2", 32, __m256i, _mm256_xor_si256)
READ(read_avx512, "avx512f", 64, __m512i, _mm512_xor_si512)
#else
__attribute__((noinline)) static void read_plain(const unsigned char *p, size_t n)
{
    uint64_t s[16] = {0};
    for (size_t i = 0; i < n; i += 128)
        for (int j = 0; j < 16; j++) {
            uint64_t w;
            memcpy(&w, p + i + 8 * j, 8);
            s[j] ^= w;
        }
    for (int j = 0; j < 16; j++)
        sink = sink + s[j];
}
#endif

/* The time of a read of n bytes, so often: with the widest vectors or with those of AVX2, whichever
 * is faster in this round. */
static double read_all(const unsigned char *p, size_t n, size_t repeat)
{
#if defined(__x86_64__)
    static void (*const ways[])(const unsigned char *, size_t) = {read_avx2, read_avx512};
    const int count = __builtin_cpu_supports("avx512f") ? 2 : 1;
#else
    static void (*const ways[])(const unsigned char *, size_t) = {read_plain};
    const int count = 1;
#endif
    double best = 0;
    for (int w = 0; w < count; w++) {
        const double t = now();
        for (size_t i = 0; i < repeat; i++)
            ways[w](p, n);
        const double took = now() - t;
        best = w == 0 || took < best ? took : best;
    }
    return best;
}

enum mode { DIGEST, STATS, SKETCH, MODES };
static const char *const mode_names[MODES] = {"digest", "digest+stats", "digest+stats+sketch"};

static void fingerprint(const unsigned char *p, size_t n, enum twin_dtype dtype, enum mode mode)
{
    int64_t shape = (int64_t)(n / twin_dtype_size(dtype));
    struct twin_tensor t = {p, dtype, 1, &shape, NULL, 0};
    struct twin_digest d;
    struct twin_stats s;
    struct twin_sketch k;
    k.k = TWIN_SKETCH_DEFAULT;
    twin_fingerprint(&t, &d, mode >= STATS ? &s : NULL, mode == SKETCH ? &k : NULL, NULL);
    sink = sink + d.a + d.b;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Fills with normal-looking floats of the type, so that statistics take their usual way. */
static void fill(unsigned char *p, size_t n, enum twin_dtype dtype)
{
    uint64_t r = 1;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        r = r * 6364136223846793005u + 1442695040888963407u;
        uint64_t w = r ^ r >> 29;
        if (dtype == TWIN_F64)
            w = (w & 0x800FFFFFFFFFFFFFu) | 0x3FE0000000000000u;
        else if (dtype == TWIN_F32)
            w = (w & 0x807FFFFF807FFFFFu) | 0x3F0000003F000000u;
        else if (dtype == TWIN_BF16)
            w = (w & 0x807F807F807F807Fu) | 0x3F003F003F003F00u;
        else
            w = (w & 0x83FF83FF83FF83FFu) | 0x3800380038003800u;
        memcpy(p + i, &w, 8);
    }
}

static void throughput(unsigned char *p, size_t n, const char *size, enum twin_dtype dtype,
                       int rounds)
{
    static double ratio[MODES][MAX_ROUNDS], speed[MODES][MAX_ROUNDS], reads[MAX_ROUNDS];
    size_t repeat = n < (64u << 20) ? (64u << 20) / n : 1;
    fill(p, n, dtype);
    for (int r = 0; r < rounds; r++) {
        double base = read_all(p, n, repeat);
        reads[r] = (double)(n * repeat) / base / 1e9;
        for (int m = 0; m < MODES; m++) {
            double t = now();
            for (size_t i = 0; i < repeat; i++)
                fingerprint(p, n, dtype, (enum mode)m);
            double took = now() - t;
            ratio[m][r] = base / took;
            speed[m][r] = (double)(n * repeat) / took / 1e9;
        }
    }
    printf("fingerprint/%s/%s/read %.2f GB/s\n", size, twin_dtype_name(dtype),
           median(reads, rounds));
    for (int m = 0; m < MODES; m++) {
        printf("fingerprint/%s/%s/%s %.2f GB/s\n", size, twin_dtype_name(dtype), mode_names[m],
               median(speed[m], rounds));
        printf("fingerprint/%s/%s/%s %.3f of-read\n", size, twin_dtype_name(dtype), mode_names[m],
               median(ratio[m], rounds));
    }
    fflush(stdout);
}

static void latency(unsigned char *p, size_t n, enum mode mode, int rounds)
{
    double v[MAX_ROUNDS];
    const int calls = 20000;
    for (int r = 0; r < rounds; r++) {
        double t = now();
        for (int i = 0; i < calls; i++)
            fingerprint(p, n, TWIN_F32, mode);
        v[r] = (now() - t) / calls * 1e9;
    }
    printf("fingerprint/%zu-bytes/f32/%s %.0f ns\n", n, mode_names[mode], median(v, rounds));
}

int main(int argc, char **argv)
{
    /* Options (./dev bench --full) mean more rounds. */
    int full = argc > 1 && argv[1][0] == '-';
    argc -= full, argv += full;
    int rounds = argc > 1 ? atoi(argv[1]) : full ? 41 : 11;
    size_t large = (argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) : 256) << 20;
    if (rounds < 1 || rounds > MAX_ROUNDS || large < 4096) {
        fprintf(stderr, "usage: bench_fingerprint [rounds 1..%d] [MiB]\n", MAX_ROUNDS);
        return 2;
    }
    unsigned char *p = aligned_alloc(4096, large);
    if (!p) {
        fprintf(stderr, "bench_fingerprint: no memory for %zu bytes\n", large);
        return 2;
    }
    printf("fingerprint/isa %s name\n", twin_fingerprint_isa());
    fill(p, 1 << 20, TWIN_F32);
    for (size_t n = 64; n <= 4096; n *= 8)
        for (int m = 0; m < MODES; m++)
            latency(p, n, (enum mode)m, rounds);
    const enum twin_dtype dtypes[] = {TWIN_F32, TWIN_F64, TWIN_BF16, TWIN_F16};
    for (int i = 0; i < 4; i++)
        throughput(p, 8u << 20, "8-MiB", dtypes[i], rounds);
    for (int i = 0; i < 4; i++)
        throughput(p, large, "large", dtypes[i], rounds);
    free(p);
    return 0;
}
