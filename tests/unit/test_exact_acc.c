/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of exact sums: wrong use, floating-point modes, the calls for one type, threads,
 * and bytes damaged. */
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include "exact_test.h"

static void test_wrong_use(void **state)
{
    (void)state;
    const double x[2] = {1, 2};
    struct twin_acc acc, before;
    struct twin_error err = TWIN_ERROR_INIT;
    twin_acc_init(&acc);
    assert_int_equal(twin_acc_add(&acc, TWIN_F64, x, 2, NULL), 0);
    before = acc;
    assert_int_equal(twin_acc_add(&acc, TWIN_F64, x, -1, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "-1 elements"));
    assert_int_equal(twin_acc_add(&acc, TWIN_F64, NULL, 1, NULL), TWIN_EINVAL);
    assert_int_equal(twin_acc_add_products(&acc, TWIN_F64, x, NULL, 1, NULL), TWIN_EINVAL);
    assert_int_equal(twin_acc_add(&acc, TWIN_I32, x, 1, NULL), TWIN_EINVAL);
    assert_int_equal(twin_acc_add(&acc, (enum twin_dtype)99, x, 1, NULL), TWIN_EINVAL);
    assert_int_equal(twin_acc_round(&acc, TWIN_U8, &before, NULL), TWIN_EINVAL);
    assert_int_equal(twin_acc_add(&acc, TWIN_F64, NULL, 0, NULL), 0);
    acc.count = UINT64_MAX;
    before = acc;
    assert_int_equal(twin_acc_add(&acc, TWIN_F64, x, 1, NULL), TWIN_ELIMIT);
    assert_int_equal(twin_acc_merge(&acc, &acc, NULL), TWIN_ELIMIT);
    assert_memory_equal(&acc, &before, sizeof acc);
}

/* Another mode is refused; the flags and the masks of exceptions stay, and none is raised that
 * would stop the program. */
static void test_floating_point_mode(void **state)
{
    (void)state;
    const double x[5] = {1, 0x1p-80, NAN, INFINITY, 0x1p-1074};
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    struct twin_acc acc, before;
    struct twin_error err = TWIN_ERROR_INIT;
    const char *name;
    for (size_t i = 0; use_set(i, &name); i++) {
        twin_acc_init(&acc);
        before = acc;
        for (size_t m = 0; m < 3; m++) {
            assert_int_equal(fesetround(modes[m]), 0);
            const int rc = twin_acc_add(&acc, TWIN_F64, x, 5, &err), mode = fegetround();
            fesetround(FE_TONEAREST);
            assert_int_equal(rc, TWIN_EINVAL);
            assert_int_equal(mode, modes[m]);
        }
        assert_non_null(strstr(err.message, "to nearest"));
#if defined(__x86_64__)
        static const unsigned flush[] = {0x8000, 0x40};
        for (size_t m = 0; m < 2; m++) {
            const unsigned csr = _mm_getcsr();
            _mm_setcsr(csr | flush[m]);
            const int rc = twin_acc_add(&acc, TWIN_F64, x, 5, NULL);
            const unsigned after = _mm_getcsr();
            _mm_setcsr(csr);
            assert_int_equal(rc, TWIN_EINVAL);
            assert_int_equal(after, csr | flush[m]);
        }
#endif
        assert_memory_equal(&acc, &before, sizeof acc);
        feclearexcept(FE_ALL_EXCEPT);
        const int trapping = feenableexcept(FE_INVALID | FE_OVERFLOW);
        const int rc = twin_acc_add_squares(&acc, TWIN_F64, x, 5, NULL);
        fedisableexcept(FE_INVALID | FE_OVERFLOW);
        feenableexcept(trapping);
        assert_int_equal(rc, 0);
        assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
        assert_true(isnan(twin_acc_f64(&acc)));
    }
}

/* Values whose answers are known by heart. */
static void test_one_call(void **state)
{
    (void)state;
    const double d[4] = {1e308, 1e308, -1e308, -0x1p-1074};
    const double e[4] = {1, 2, 3, 0x1p-1074};
    const double minus_zero[2] = {-0.0, -0.0};
    const float f[3] = {0x1p24f, 1, -0x1p-149f}, tiny[2] = {0x1p-149f, 0x1p-149f};
    const uint16_t half[3] = {0x7BFF, 0x7BFF, 0xFBFF}; /* 65504, 65504, -65504 */
    const uint16_t brain[2] = {0x3F80, 0xBF80};        /* 1, -1 */
    const char *name;
    for (size_t i = 0; use_set(i, &name); i++) {
        double a;
        float b;
        uint16_t h;
        assert_int_equal(twin_sum_f64(d, 4, &a, NULL), 0);
        assert_true(a == 1e308); /* passes above the largest f64 on the way */
        assert_int_equal(twin_abs_sum_f64(d, 4, &a, NULL), 0);
        assert_true(isinf(a) && a > 0);
        assert_int_equal(twin_norm2_f64(e, 4, &a, NULL), 0);
        assert_true(a == 14);
        assert_int_equal(twin_dot_f64(d, e, 4, &a, NULL), 0);
        /* what is left, -2^-2148, is below half of the smallest f64 */
        assert_true(a == 0 && signbit(a));
        assert_int_equal(twin_sum_f64(minus_zero, 2, &a, NULL), 0);
        assert_true(a == 0 && signbit(a));
        assert_int_equal(twin_sum_f64(minus_zero, 0, &a, NULL), 0);
        assert_true(a == 0 && !signbit(a));
        assert_int_equal(twin_dot_f64(minus_zero, e, 2, &a, NULL), 0);
        assert_true(a == 0 && signbit(a));
        assert_int_equal(twin_dot_f64(minus_zero, minus_zero, 2, &a, NULL), 0);
        assert_true(a == 0 && !signbit(a));
        assert_int_equal(twin_sum_f32(f, 3, &b, NULL), 0);
        assert_true(b == 0x1p24f); /* just below the tie */
        assert_int_equal(twin_sum_f32(tiny, 2, &b, NULL), 0);
        assert_true(b == 0x1p-148f);
        assert_int_equal(twin_abs_sum_f32(f, 3, &b, NULL), 0);
        assert_true(b == 0x1.000002p24f); /* just above it */
        assert_int_equal(twin_norm2_f32(tiny, 2, &b, NULL), 0);
        assert_true(b == 0);
        assert_int_equal(twin_dot_f32(f, f, 1, &b, NULL), 0);
        assert_true(b == 0x1p48f);
        assert_int_equal(twin_sum_f16(half, 3, &h, NULL), 0);
        assert_int_equal(h, 0x7BFF);
        assert_int_equal(twin_abs_sum_f16(half, 3, &h, NULL), 0);
        assert_int_equal(h, 0x7C00);
        assert_int_equal(twin_norm2_f16(half, 1, &h, NULL), 0);
        assert_int_equal(h, 0x7C00);
        assert_int_equal(twin_dot_f16(half, half + 2, 1, &h, NULL), 0);
        assert_int_equal(h, 0xFC00);
        assert_int_equal(twin_sum_bf16(brain, 2, &h, NULL), 0);
        assert_int_equal(h, 0);
        assert_int_equal(twin_abs_sum_bf16(brain, 2, &h, NULL), 0);
        assert_int_equal(h, 0x4000);
        assert_int_equal(twin_norm2_bf16(brain, 2, &h, NULL), 0);
        assert_int_equal(h, 0x4000);
        assert_int_equal(twin_dot_bf16(brain, brain + 1, 1, &h, NULL), 0);
        assert_int_equal(h, 0xBF80);
    }
}

/* The second oracle: Shewchuk's algorithm as Python has it, math.fsum, on numbers of a generator
 * that both can repeat: x, out = 1, [] for i in range(20000): x = (x * 6364136223846793005 +
 * 1442695040888963407) % 2**64 out.append(math.ldexp((x >> 11) - 2**52, (x >> 3) % 200 - 150))
 *     math.fsum(out).hex(), math.fsum(map(abs, out)).hex() */
static void test_fsum(void **state)
{
    (void)state;
    static double v[20000];
    uint64_t x = 1;
    const char *name;
    for (size_t i = 0; i < 20000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        v[i] = ldexp((double)((int64_t)(x >> 11) - (int64_t)0x10000000000000),
                     (int)((x >> 3) % 200) - 150);
    }
    for (size_t i = 0; use_set(i, &name); i++) {
        double sum, absolute;
        assert_int_equal(twin_sum_f64(v, 20000, &sum, NULL), 0);
        assert_int_equal(twin_abs_sum_f64(v, 20000, &absolute, NULL), 0);
        assert_true(sum == 0x1.50e8cae5b32ecp+102);
        assert_true(absolute == 0x1.5f91d31ec5c1bp+107);
    }
}

struct share {
    pthread_t thread;
    const float *x;
    size_t first, n, stride;
    struct twin_acc acc;
};

static void *add_share(void *arg)
{
    struct share *s = arg;
    for (size_t i = s->first; i < s->n; i += s->stride * 1000)
        twin_acc_add(&s->acc, TWIN_F32, s->x + i, s->n - i < 1000 ? (int64_t)(s->n - i) : 1000,
                     NULL);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    enum { N = 100500 };
    static float x[N];
    uint64_t seed = 3;
    const char *name;
    for (size_t i = 0; i < N; i++)
        x[i] = ldexpf((float)(int32_t)random_bits(&seed), (int)(random_bits(&seed) % 40) - 20);
    use_set(1, &name);
    struct twin_acc whole;
    twin_acc_init(&whole);
    assert_int_equal(twin_acc_add(&whole, TWIN_F32, x, N, NULL), 0);
    for (size_t threads = 1; threads <= 7; threads++) {
        struct share share[7];
        struct twin_acc sum;
        twin_acc_init(&sum);
        for (size_t t = 0; t < threads; t++) {
            share[t] = (struct share){.x = x, .first = 1000 * t, .n = N, .stride = threads};
            assert_int_equal(pthread_create(&share[t].thread, NULL, add_share, &share[t]), 0);
        }
        for (size_t t = threads; t-- > 0;) {
            pthread_join(share[t].thread, NULL);
            assert_int_equal(twin_acc_merge(&sum, &share[t].acc, NULL), 0);
        }
        assert_memory_equal(&sum, &whole, sizeof sum);
    }
}

static void expect_refused(const unsigned char *bytes, size_t n, int code, const char *word)
{
    struct twin_acc acc;
    struct twin_error err = TWIN_ERROR_INIT;
    memset(&acc, 0x5A, sizeof acc);
    const struct twin_acc before = acc;
    assert_int_equal(twin_acc_read(&acc, bytes, n, &err), code);
    assert_memory_equal(&acc, &before, sizeof acc);
    if (!strstr(err.message, word))
        fail_msg("expected a message with \"%s\", found \"%s\"", word, err.message);
}

/* Changes one byte and makes the checksum right again. */
static void expect_contents_refused(const unsigned char *good, size_t at, unsigned char byte,
                                    const char *word)
{
    unsigned char bytes[TWIN_ACC_BYTES];
    memcpy(bytes, good, sizeof bytes);
    bytes[at] = byte;
    const uint32_t crc = tw_crc32c(0, bytes, TWIN_ACC_BYTES - 8);
    for (int i = 0; i < 4; i++)
        bytes[TWIN_ACC_BYTES - 8 + i] = (unsigned char)(crc >> 8 * i);
    expect_refused(bytes, sizeof bytes, TWIN_EFORMAT, word);
}

/* The bytes of `count` numbers with the sum top * 2^2048, less one unit: the largest sum of so many
 * is that of top == count. */
static void largest(unsigned char bytes[TWIN_ACC_BYTES], uint64_t count, uint64_t top)
{
    struct twin_acc acc;
    twin_acc_init(&acc);
    acc.count = count;
    acc.flags = 8; /* not all are -0 */
    acc.limb[65] = top << 36;
    acc.limb[66] = top >> 28;
    for (int i = 0; i < 65; i++)
        acc.limb[i] = UINT64_MAX;
    acc.limb[66] -= acc.limb[65] == 0;
    acc.limb[65]--;
    twin_acc_write(&acc, bytes);
}

/* What is read once stays readable, however much is added: found by the fuzzer with a sum too large
 * for its count by less than a bit. */
static void test_largest_sums(void **state)
{
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 1000000, UINT64_MAX / 2};
    const double most[3] = {0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        unsigned char bytes[TWIN_ACC_BYTES];
        struct twin_acc acc;
        largest(bytes, counts[i], counts[i]);
        assert_int_equal(twin_acc_read(&acc, bytes, sizeof bytes, NULL), 0);
        assert_int_equal(twin_acc_add_products(&acc, TWIN_F64, most, most, 3, NULL), 0);
        twin_acc_write(&acc, bytes);
        assert_int_equal(twin_acc_read(&acc, bytes, sizeof bytes, NULL), 0);
        largest(bytes, counts[i], counts[i] + 1);
        expect_refused(bytes, sizeof bytes, TWIN_EFORMAT, "too large for so few");
    }
}

static void test_bytes(void **state)
{
    (void)state;
    const double x[3] = {1, -0x1p1000, 0x1p-1000};
    unsigned char bytes[TWIN_ACC_BYTES], empty[TWIN_ACC_BYTES];
    struct twin_acc acc, back;
    twin_acc_init(&acc);
    twin_acc_write(&acc, empty);
    assert_int_equal(twin_acc_add(&acc, TWIN_F64, x, 3, NULL), 0);
    twin_acc_write(&acc, bytes);
    assert_int_equal(twin_acc_read(&back, bytes, sizeof bytes, NULL), 0);
    assert_memory_equal(&acc, &back, sizeof acc);
    for (size_t at = 0; at < sizeof bytes; at++) { /* every bit counts */
        for (int bit = 0; bit < 8; bit++) {
            unsigned char bad[TWIN_ACC_BYTES];
            memcpy(bad, bytes, sizeof bad);
            bad[at] ^= (unsigned char)(1 << bit);
            assert_true(twin_acc_read(&back, bad, sizeof bad, NULL) < 0);
        }
        expect_refused(bytes, at, TWIN_EFORMAT, "expected 560 bytes");
    }
    expect_refused(NULL, TWIN_ACC_BYTES, TWIN_EFORMAT, "expected 560 bytes");
    bytes[4] = 2;
    expect_refused(bytes, sizeof bytes, TWIN_EVERSION, "version 2");
    bytes[4] = 1;
    bytes[0] = 'X';
    expect_refused(bytes, sizeof bytes, TWIN_EFORMAT, "expected \"TWAC\"");
    bytes[0] = 'T';
    expect_contents_refused(bytes, 7, 1, "expected flags");
    expect_contents_refused(bytes, 6, 1, "contradict");
    expect_contents_refused(bytes, 6, 0, "every number was -0");
    expect_contents_refused(bytes, TWIN_ACC_BYTES - 9, 1, "too large for so few");
    expect_contents_refused(empty, 6, 8, "contradict");
    expect_contents_refused(empty, 16, 1, "every number was -0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_use),    cmocka_unit_test(test_floating_point_mode),
        cmocka_unit_test(test_one_call),     cmocka_unit_test(test_fsum),
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_largest_sums),
    };
    return cmocka_run_group_tests_name("exact sums: interface", tests, NULL, NULL);
}
