/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time of exact sums over that of a plain loop (eight vector accumulators, the order left to it)
 * over the same numbers. Every round times the plain loop and then the exact sum, so that whatever
 * else the machine does hits both; the median of the rounds' ratios counts. Prints rows `name value
 * unit`. Arguments: --full (more rounds, 1e8 elements), a job's name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <twin/exact.h>

#define MAX_ROUNDS 21
#define LANES 64 /* eight vectors of eight doubles: AVX-512; sixteen of AVX2 */

static volatile double sink;

/* CPU time of this thread: the turns of other processes do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* vectorizes at -O2, knows no attribute `optimize`, and clones nothing that is `noinline` */
#if defined(__clang__)
#define O3
#else
#define O3 noinline, optimize("O3")
#endif
#if defined(__x86_64__)
#define FASTEST __attribute__((target_clones("avx512f", "avx2", "default"), O3))
#else
#define FASTEST __attribute__((O3))
#endif

#define PLAIN(name, type, lanes, TERM)                                         \
    FASTEST static double plain_##name(const void *p, const void *q, size_t n) \
    {                                                                          \
        const type *x = p, *y = q;                                             \
        type lane[lanes] = {0}, sum = 0;                                       \
        (void)y;                                                               \
        for (size_t i = 0; i + lanes <= n; i += lanes)                         \
            for (size_t j = 0; j < lanes; j++)                                 \
                lane[j] += TERM;                                               \
        for (size_t j = 0; j < lanes; j++)                                     \
            sum += lane[j];                                                    \
        return (double)sum;                                                    \
    }
PLAIN(sum_f64, double, LANES / 2, x[i + j])
PLAIN(sum_f32, float, LANES, x[i + j])
PLAIN(dot_f64, double, LANES / 2, x[i + j] * y[i + j])
PLAIN(dot_f32, float, LANES, x[i + j] * y[i + j])

FASTEST static double plain_sum_bf16(const void *p, const void *q, size_t n)
{
    const uint16_t *x = p;
    float lane[LANES] = {0}, sum = 0;
    (void)q;
    for (size_t i = 0; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            const uint32_t bits = (uint32_t)x[i + j] << 16;
            float v;
            memcpy(&v, &bits, 4);
            lane[j] += v;
        }
    for (size_t j = 0; j < LANES; j++)
        sum += lane[j];
    return (double)sum;
}

#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((target("avx2,f16c"))) static double plain_sum_f16(const void *p, const void *q,
                                                                 size_t n)
{
    const char *x = p;
    __m256 lane[LANES / 8], sum = _mm256_setzero_ps();
    float part[8], total = 0;
    (void)q;
    for (size_t j = 0; j < LANES / 8; j++)
        lane[j] = _mm256_setzero_ps();
    for (size_t i = 0; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES / 8; j++)
            lane[j] = _mm256_add_ps(
                lane[j], _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + 2 * (i + 8 * j)))));
    for (size_t j = 0; j < LANES / 8; j++)
        sum = _mm256_add_ps(sum, lane[j]);
    _mm256_storeu_ps(part, sum);
    for (size_t j = 0; j < 8; j++)
        total += part[j];
    return (double)total;
}
#endif

static double exact(enum twin_dtype dtype, int dot, const void *x, const void *y, size_t n)
{
    struct twin_acc acc;
    twin_acc_init(&acc);
    if (dot)
        twin_acc_add_products(&acc, dtype, x, y, (int64_t)n, NULL);
    else
        twin_acc_add(&acc, dtype, x, (int64_t)n, NULL);
    return twin_acc_f64(&acc);
}

static uint64_t next(uint64_t *s)
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Roughly normal (a sum of uniform ones), times 2^-spread..2^spread. */
static void fill(void *p, size_t n, enum twin_dtype dtype, int spread)
{
    uint64_t seed = 7;
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = next(&seed), e = next(&seed);
        double v = (double)(int64_t)(r & 0xFFFFFFFF) + (double)(int64_t)(r >> 32) - 4294967295.0 +
                   (double)(e & 0xFFFFFF) * 0x1p-24;
        v *= 0x1p-31;
        if (spread)
            v *= __builtin_ldexp(1, (int)((e >> 32) % (2 * (uint64_t)spread + 1)) - spread);
        const float f = (float)v;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        uint16_t half = (uint16_t)(bits >> 16);
        /* cut to its 11 bits; values here lie among its normal numbers, or become zero */
        if (dtype == TWIN_F16)
            half = (bits >> 23 & 255) <= 112
                       ? 0
                       : (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3FFFF) - (112 << 10)));
        const size_t size = twin_dtype_size(dtype);
        memcpy((char *)p + i * size,
               size == 8   ? (const void *)&v
               : size == 4 ? (const void *)&f
                           : (const void *)&half,
               size);
    }
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

struct job {
    const char *name;
    double (*plain)(const void *, const void *, size_t);
    enum twin_dtype dtype;
    int dot, spread;
};

static void measure(const struct job *j, const void *x, const void *y, size_t n, int rounds)
{
    double ratio[MAX_ROUNDS], speed[MAX_ROUNDS];
    const size_t repeat = n < 4000000 ? 4000000 / n : 1;
    const size_t bytes = n * twin_dtype_size(j->dtype) * (j->dot ? 2 : 1);
    for (int r = 0; r < rounds; r++) {
        double t = now();
        for (size_t i = 0; i < repeat; i++)
            sink = sink + j->plain(x, y, n);
        const double plain = now() - t;
        t = now();
        for (size_t i = 0; i < repeat; i++)
            sink = sink + exact(j->dtype, j->dot, x, y, n);
        const double took = now() - t;
        ratio[r] = took / plain;
        speed[r] = (double)(bytes * repeat) / took / 1e9;
    }
    qsort(ratio, (size_t)rounds, sizeof *ratio, by_value);
    qsort(speed, (size_t)rounds, sizeof *speed, by_value);
    printf("exact/%s/%.0e %.3f of-plain\n", j->name, (double)n, ratio[rounds / 2]);
    printf("exact/%s/%.0e %.2f GB/s\n", j->name, (double)n, speed[rounds / 2]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct job jobs[] = {
        {"sum-f64", plain_sum_f64, TWIN_F64, 0, 0},
        {"sum-f64-wide", plain_sum_f64, TWIN_F64, 0, 32},
        {"dot-f64", plain_dot_f64, TWIN_F64, 1, 0},
        {"sum-f32", plain_sum_f32, TWIN_F32, 0, 0},
        {"sum-f32-wide", plain_sum_f32, TWIN_F32, 0, 32},
        {"dot-f32", plain_dot_f32, TWIN_F32, 1, 0},
        {"sum-bf16", plain_sum_bf16, TWIN_BF16, 0, 0},
#if defined(__x86_64__)
        {"sum-f16", plain_sum_f16, TWIN_F16, 0, 0},
#endif
    };
    const int full = argc > 1 && !strcmp(argv[1], "--full");
    const char *only = argc > 1 + full ? argv[1 + full] : NULL;
    const int rounds = full ? MAX_ROUNDS : 11;
    const size_t sizes[] = {10000, 1000000, 10000000, 100000000}, most = full ? sizes[3] : sizes[2];
    char *x = aligned_alloc(4096, (most * 8 + 4095) / 4096 * 4096);
    char *y = aligned_alloc(4096, (most * 8 + 4095) / 4096 * 4096);
    if (!x || !y) {
        fprintf(stderr, "bench_exact: no memory for %zu bytes\n", 16 * most);
        free(x);
        free(y);
        return 2;
    }
    printf("exact/isa %s name\n", twin_fingerprint_isa());
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        if (only && strcmp(only, jobs[j].name))
            continue;
#if defined(__x86_64__)
        if (jobs[j].dtype == TWIN_F16 && !__builtin_cpu_supports("avx2"))
            continue;
#endif
        fill(x, most, jobs[j].dtype, jobs[j].spread);
        fill(y, jobs[j].dot ? most : 1, jobs[j].dtype, jobs[j].spread);
        for (size_t i = 0; i < 4 && sizes[i] <= most; i++)
            measure(&jobs[j], x, y, sizes[i], rounds);
    }
    free(x);
    free(y);
    return 0;
}
