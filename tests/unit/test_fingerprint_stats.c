/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics and sketch: against an oracle that decodes elements by arithmetic and sums in long
 * double, against the written definition bit for bit, as an estimate of distance, and in a hostile
 * floating-point environment.
 */
#include "fingerprint_test.h"
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>

/* ---- the oracle */

/* The value of the bits of a small or large float, by ldexp. */
static double decode(uint64_t bits, int exponent, int fraction, bool ieee)
{
    double sign = bits >> (exponent + fraction) & 1 ? -1 : 1;
    int e = (int)(bits >> fraction & ((1u << exponent) - 1)), bias = (1 << (exponent - 1)) - 1;
    double f = (double)(bits & ((1ull << fraction) - 1));
    if (ieee && e == (1 << exponent) - 1)
        return f != 0 ? NAN : sign * INFINITY;
    if (!ieee && e == (1 << exponent) - 1 && f == 7) /* e4m3fn */
        return NAN;
    return sign *
           (e ? ldexp(f + ldexp(1, fraction), e - bias - fraction) : ldexp(f, 1 - bias - fraction));
}

static double element(const unsigned char *p, size_t i, enum twin_dtype dtype)
{
    uint64_t w = 0;
    size_t size = dtype == TWIN_C64 ? 4 : dtype == TWIN_C128 ? 8 : twin_dtype_size(dtype);
    memcpy(&w, p + i * size, size);
    switch (dtype) {
    case TWIN_U8:
    case TWIN_U16:
    case TWIN_U32:
    case TWIN_U64: return (double)w;
    case TWIN_I8: return (double)(int8_t)w;
    case TWIN_I16: return (double)(int16_t)w;
    case TWIN_I32: return (double)(int32_t)w;
    case TWIN_I64: return (double)(int64_t)w;
    case TWIN_BOOL: return w ? 1 : 0;
    case TWIN_F16: return decode(w, 5, 10, true);
    case TWIN_BF16: return decode(w, 8, 7, true);
    case TWIN_F32:
    case TWIN_C64: return decode(w, 8, 23, true);
    case TWIN_F64:
    case TWIN_C128: return decode(w, 11, 52, true);
    case TWIN_F8_E4M3FN: return decode(w, 4, 3, false);
    case TWIN_F8_E5M2: return decode(w, 5, 2, true);
    default: return 0;
    }
}

static bool below(double x, double y) /* -0 below +0 */
{
    return x < y || (x == 0 && y == 0 && signbit(x) && !signbit(y));
}

/* The definition, naively: lanes by index mod 16, folded by halves where a chunk of 4,096 ends, in
 * order. */
static void fold(double *total, double lane[16])
{
    for (int width = 8; width; width /= 2)
        for (int j = 0; j < width; j++)
            lane[j] = lane[j] + lane[j + width];
    *total = *total + lane[0];
    memset(lane, 0, 16 * sizeof *lane);
}

static void oracle_mix(uint64_t number, uint64_t out[2])
{
    uint64_t key = number * 0x9E3779B97F4A7C15u + 0x8CB92BA72F3D8DD7u, word[2] = {key, key};
    for (int round = 0; round < 5; round++) {
        uint64_t from = word[1 - round % 2], *to = &word[round % 2];
        uint64_t product = (from & 0xFFFFFFFF) * (from >> 32);
        *to = round % 2 ? *to ^ product : *to + product;
        if (round < 4)
            word[1 - round % 2] = from << 32 | from >> 32;
    }
    out[0] = word[0];
    out[1] = word[1];
}

static uint32_t oracle_turn(uint64_t row)
{
    uint64_t x = (row + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((x ^ x >> 31) >> 32);
}

static void oracle_row(uint64_t row, double *lane, uint32_t lanes, struct twin_sketch *k)
{
    for (uint32_t j = 0; j < lanes; j++) {
        uint32_t b = (j + oracle_turn(row)) % k->k;
        k->bucket[b] = k->bucket[b] + lane[j];
        lane[j] = 0;
    }
}

static void oracle(const unsigned char *p, size_t n, enum twin_dtype dtype, uint64_t first,
                   struct twin_stats *s, struct twin_sketch *k)
{
    double sum[16] = {0}, sumsq[16] = {0}, lane[64] = {0};
    uint32_t lanes = k->k < 16 ? 16 : k->k;
    bool any = false;
    memset(s, 0, sizeof *s);
    memset(k->bucket, 0, sizeof k->bucket);
    k->skipped = 0;
    s->count = n;
    s->min = s->max = s->absmax = NAN;
    for (size_t i = 0; i < n; i++) {
        uint64_t index = first + i, sign[2];
        double x = element(p, i, dtype);
        s->nan += isnan(x) != 0;
        s->pos_inf += isinf(x) && x > 0;
        s->neg_inf += isinf(x) && x < 0;
        s->zeros += x == 0;
        if (!isnan(x)) {
            s->min = !any || below(x, s->min) ? x : s->min;
            s->max = !any || below(s->max, x) ? x : s->max;
            s->absmax = !any || fabs(x) > s->absmax ? fabs(x) : s->absmax;
            any = true;
        }
        if (isfinite(x)) {
            volatile double square = x * x; /* rounded before it is added */
            sum[index % 16] += x;
            sumsq[index % 16] += square;
            oracle_mix(index / 128, sign);
            lane[index % lanes] += sign[index / 64 % 2] >> index % 64 & 1 ? -x : x;
        } else {
            k->skipped++;
        }
        if (index % 4096 == 4095 || i == n - 1) {
            fold(&s->sum, sum);
            fold(&s->sumsq, sumsq);
        }
        if (index % 512 == 511 || i == n - 1)
            oracle_row(index / 512, lane, lanes, k);
    }
}

static bool same_double(double x, double y)
{
    return (isnan(x) && isnan(y)) || memcmp(&x, &y, sizeof x) == 0;
}

static void test_definition(void **state)
{
    (void)state;
    uint64_t seed = 1;
    const size_t most = 9000;
    unsigned char *p = malloc(16 * most);
    for (int dtype = 1; dtype < TWIN_DTYPE_COUNT; dtype++)
        for (int how = 0; how < FILL_KINDS; how++)
            for (int round = 0; round < 12; round++) {
                size_t parts = dtype == TWIN_C64 || dtype == TWIN_C128 ? 2 : 1;
                size_t n = random_bits(&seed) % (round < 8 ? 200 : most);
                int64_t shape = (int64_t)n;
                uint64_t first = round % 2 ? random_bits(&seed) % 10000 : 0;
                struct twin_tensor t = {p, (enum twin_dtype)dtype, 1, &shape, NULL, first};
                struct twin_stats s, expected;
                struct twin_sketch k = {.k = 1u << round % 7}, bucket = {.k = k.k};
                fill_tensor(p, n, t.dtype, (enum fill)how, &seed);
                tw_fingerprint_use(kernel_set(round % 3 && kernel_set(1) ? 1 : 0));
                assert_int_equal(twin_fingerprint(&t, NULL, &s, &k, NULL), 0);
                oracle(p, n * parts, t.dtype, first * parts, &expected, &bucket);
                assert_int_equal(s.count, expected.count);
                assert_int_equal(s.nan, expected.nan);
                assert_int_equal(s.pos_inf, expected.pos_inf);
                assert_int_equal(s.neg_inf, expected.neg_inf);
                assert_int_equal(s.zeros, expected.zeros);
                assert_int_equal(k.skipped, bucket.skipped);
                assert_true(same_double(s.min, expected.min));
                assert_true(same_double(s.max, expected.max));
                assert_true(same_double(s.absmax, expected.absmax));
                assert_true(same_double(s.sum, expected.sum));
                assert_true(same_double(s.sumsq, expected.sumsq));
                for (uint32_t j = 0; j < k.k; j++)
                    assert_true(same_double(k.bucket[j], bucket.bucket[j]));
            }
    free(p);
}

/*
 * The sums are good sums: within the bound of their own summation tree of the sum in long double.
 */
static void test_sums_are_accurate(void **state)
{
    (void)state;
    uint64_t seed = 2;
    const int64_t n = 1000003;
    float *x = malloc((size_t)n * sizeof *x);
    long double sum = 0, sumsq = 0, magnitude = 0;
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)((random_uniform(&seed) - 0.5) *
                       exp2((double)(random_bits(&seed) % 40) - 20));
        sum += x[i];
        sumsq += (long double)x[i] * x[i];
        magnitude += fabsf(x[i]);
    }
    struct twin_tensor t = {x, TWIN_F32, 1, &n, NULL, 0};
    struct twin_stats s;
    tw_fingerprint_use(NULL);
    assert_int_equal(twin_fingerprint(&t, NULL, &s, NULL, NULL), 0);
    long double steps = 256 + 4 + n / 4096 + 1, unit = DBL_EPSILON / 2;
    assert_true(fabsl(s.sum - sum) <= steps * unit * magnitude);
    assert_true(fabsl(s.sumsq - sumsq) <= steps * unit * sumsq);
    free(x);
}

static void expect_f8(enum twin_dtype dtype, unsigned char byte, double value)
{
    struct twin_tensor t = {&byte, dtype, 0, NULL, NULL, 0};
    struct twin_stats s;
    assert_int_equal(twin_fingerprint(&t, NULL, &s, NULL, NULL), 0);
    if (isnan(value))
        assert_int_equal(s.nan, 1);
    else
        assert_true(s.min == value && s.max == value);
}

/* From "FP8 formats for deep learning" (Micikevicius et al., 2022), table 1. */
static void test_f8(void **state)
{
    (void)state;
    expect_f8(TWIN_F8_E4M3FN, 0x7E, 448);
    expect_f8(TWIN_F8_E4M3FN, 0xFE, -448);
    expect_f8(TWIN_F8_E4M3FN, 0x7F, NAN);
    expect_f8(TWIN_F8_E4M3FN, 0xFF, NAN);
    expect_f8(TWIN_F8_E4M3FN, 0x08, 0x1p-6);
    expect_f8(TWIN_F8_E4M3FN, 0x07, 0.875 * 0x1p-6);
    expect_f8(TWIN_F8_E4M3FN, 0x01, 0x1p-9);
    expect_f8(TWIN_F8_E5M2, 0x7B, 57344);
    expect_f8(TWIN_F8_E5M2, 0x7C, INFINITY);
    expect_f8(TWIN_F8_E5M2, 0xFC, -INFINITY);
    expect_f8(TWIN_F8_E5M2, 0x7D, NAN);
    expect_f8(TWIN_F8_E5M2, 0x04, 0x1p-14);
    expect_f8(TWIN_F8_E5M2, 0x03, 0.75 * 0x1p-14);
    expect_f8(TWIN_F8_E5M2, 0x01, 0x1p-16);
}

/* ---- the sketch as an estimate */

static double normal(uint64_t *state)
{
    double u = random_uniform(state) + 0x1p-54, v = random_uniform(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static void sketch_of(const float *x, int64_t n, uint64_t offset, struct twin_sketch *k)
{
    struct twin_tensor t = {x, TWIN_F32, 1, &n, NULL, offset};
    assert_int_equal(twin_fingerprint(&t, NULL, NULL, k, NULL), 0);
}

enum change { EVERYWHERE, ONE_COLUMN, ONE_ROW, SPARSE };

/* Root mean square of the relative error of the squared distance, and its mean, over trials. */
static void estimate_error(enum change change, uint32_t buckets, int trials, double *rms,
                           double *mean)
{
    const int64_t rows = 64, columns = 1024, n = rows * columns;
    float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    uint64_t seed = 77 + change;
    *rms = *mean = 0;
    for (int trial = 0; trial < trials; trial++) {
        double exact = 0;
        uint64_t at = random_bits(&seed);
        for (int64_t i = 0; i < n; i++) {
            bool changed = change == EVERYWHERE ||
                           (change == ONE_COLUMN &&
                            i % columns == (int64_t)(at % (uint64_t)columns)) ||
                           (change == ONE_ROW && i / columns == (int64_t)(at % (uint64_t)rows)) ||
                           (change == SPARSE && random_bits(&seed) % 1000 == 0);
            x[i] = (float)random_uniform(&seed);
            y[i] = changed ? x[i] + 0.01f * (float)normal(&seed) : x[i];
            exact += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        }
        struct twin_sketch a = {.k = buckets}, b = {.k = buckets};
        uint64_t offset = (uint64_t)trial * (uint64_t)n; /* other signs and turns in every trial */
        sketch_of(x, n, offset, &a);
        sketch_of(y, n, offset, &b);
        double d = twin_sketch_distance(&a, &b), error = d * d / exact - 1;
        *rms += error * error / trials;
        *mean += error / trials;
    }
    *rms = sqrt(*rms);
    free(x);
    free(y);
}

static void test_distance(void **state)
{
    (void)state;
    int trials = full_run() ? 2000 : 150;
    tw_fingerprint_use(NULL);
    for (int change = EVERYWHERE; change <= SPARSE; change++)
        for (uint32_t k = 16; k <= 64; k *= 4) {
            double rms, mean, expected = sqrt(2.0 / k);
            estimate_error((enum change)change, k, trials, &rms, &mean);
            print_message("change %d, k %u: rms %.3f (expected %.3f), bias %+.3f\n", change, k, rms,
                          expected, mean);
            /* Heavier tails than a normal error has: 15% more than expected, and five sigma of the
             * trials. */
            assert_true(rms < expected * 1.15 * (1 + 5 / sqrt(2.0 * trials)));
            assert_true(rms > expected * 0.5);
            assert_true(fabs(mean) < 5 * expected * 1.15 / sqrt(trials));
        }
}

static void test_linear(void **state)
{
    (void)state;
    uint64_t seed = 5;
    enum { N = 20000 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), *z = malloc(N * sizeof *z);
    for (int i = 0; i < N; i++) { /* small integers: every sum is exact */
        x[i] = (float)((int)(random_bits(&seed) % 2001) - 1000);
        y[i] = (float)((int)(random_bits(&seed) % 2001) - 1000);
        z[i] = x[i] + y[i];
    }
    for (uint32_t k = 1; k <= 64; k *= 2) {
        struct twin_sketch a = {.k = k};
        struct twin_sketch b = {.k = k};
        struct twin_sketch c = {.k = k};
        struct twin_sketch whole = {.k = k};
        struct twin_sketch other = {.k = k == 1 ? 2 : 1};
        sketch_of(x, N, 0, &a);
        sketch_of(y, N, 0, &b);
        sketch_of(z, N, 0, &c);
        assert_int_equal(twin_sketch_add(&a, &b, NULL), 0);
        assert_true(twin_sketch_distance(&a, &c) == 0);
        /* shards at any cut add up to the whole */
        sketch_of(x, N, 0, &whole);
        sketch_of(x, 7777, 0, &a);
        sketch_of(x + 7777, N - 7777, 7777, &b);
        assert_int_equal(twin_sketch_add(&a, &b, NULL), 0);
        assert_true(twin_sketch_distance(&a, &whole) == 0);
        struct twin_error err = TWIN_ERROR_INIT;
        assert_int_equal(twin_sketch_add(&a, &other, &err), TWIN_EINVAL);
        assert_true(isnan(twin_sketch_distance(&a, &other)));
    }
    free(x);
    free(y);
    free(z);
}

/* ---- the floating-point environment */

struct all {
    struct twin_digest d;
    struct twin_stats s;
    struct twin_sketch k;
    double distance;
};

static void everything(enum twin_dtype dtype, const void *p, int64_t n, struct all *a)
{
    struct twin_tensor t = {p, dtype, 1, &n, NULL, 3};
    struct twin_sketch zero = {.k = 16};
    memset(a, 0, sizeof *a);
    a->k.k = 16;
    twin_fingerprint(&t, &a->d, &a->s, &a->k, NULL);
    a->distance = twin_sketch_distance(&a->k, &zero);
}

#if defined(__x86_64__)
static uint32_t get_mode(void)
{
    uint32_t m;
    __asm__ volatile("stmxcsr %0" : "=m"(m));
    return m;
}
static void set_mode(uint32_t m)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(m));
}
/* round up, down, to zero; flush-to-zero and denormals-are-zero; exceptions not masked; flags
 * raised */
static const uint32_t modes[] = {0x5F80, 0x3F80, 0x7F80, 0x9FC0, 0xFFC0, 0x0000, 0xDFFF, 0x1FBF};
#elif defined(__aarch64__)
static uint32_t get_mode(void)
{
    uint64_t m;
    __asm__ volatile("mrs %0, fpcr" : "=r"(m));
    return (uint32_t)m;
}
static void set_mode(uint32_t m)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)m));
}
static const uint32_t modes[] = {1u << 22, 2u << 22, 3u << 22, 1u << 24, 1u << 25};
#endif

static void test_environment(void **state)
{
    (void)state;
    uint64_t seed = 6;
    enum { N = 5000 };
    unsigned char *p = malloc(8 * N);
    const enum twin_dtype dtypes[] = {TWIN_F32,  TWIN_F64, TWIN_F16,
                                      TWIN_BF16, TWIN_I64, TWIN_F8_E5M2};
    for (size_t set = 0; kernel_set(set); set++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int how = 0; how < FILL_KINDS; how++) {
                struct all usual, strange;
                fill_tensor(p, N, dtypes[d], (enum fill)how, &seed);
                if (how == FILL_SPECIAL && d < 2) /* subnormals only: what flushing would lose */
                    for (size_t i = 0; i < N; i++)
                        memset(p + i * twin_dtype_size(dtypes[d]) + twin_dtype_size(dtypes[d]) - 2,
                               0, 2);
                tw_fingerprint_use(kernel_set(set));
                everything(dtypes[d], p, N, &usual);
                for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
                    uint32_t before = get_mode();
                    set_mode(modes[m]);
                    uint32_t in = get_mode();
                    everything(dtypes[d], p, N, &strange);
                    uint32_t after = get_mode();
                    set_mode(before);
                    assert_int_equal(after, in);
                    assert_memory_equal(&usual, &strange, sizeof usual);
                }
            }
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition), cmocka_unit_test(test_sums_are_accurate),
        cmocka_unit_test(test_f8),         cmocka_unit_test(test_distance),
        cmocka_unit_test(test_linear),     cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
