/* SPDX-License-Identifier: Apache-2.0 */
/* Every instruction set leaves the bits of the plain C reference: digest, statistics, sketch,
 * views, any alignment. */
#include "fingerprint_test.h"
#include <stdio.h>

struct answer {
    struct twin_digest digest;
    struct twin_stats stats;
    struct twin_sketch sketch;
};

static struct answer ask(const struct tw_kernels *k, const struct twin_tensor *t, uint32_t buckets)
{
    struct answer a;
    memset(&a, 0, sizeof a);
    a.sketch.k = buckets;
    tw_fingerprint_use(k);
    assert_int_equal(twin_fingerprint(t, &a.digest, &a.stats, &a.sketch, NULL), 0);
    return a;
}

static void same(const struct twin_tensor *t, uint32_t buckets, const char *what)
{
    struct answer reference = ask(kernel_set(0), t, buckets);
    for (size_t i = 1; kernel_set(i); i++) {
        struct answer a = ask(kernel_set(i), t, buckets);
        if (memcmp(&a, &reference, sizeof a))
            fail_msg("%s differs from scalar: %s, %s, %lld elements, offset %llu, k %u: digest %d "
                     "stats %d sketch %d",
                     kernel_set(i)->name, what, twin_dtype_name(t->dtype), (long long)t->shape[0],
                     (unsigned long long)t->global_offset, buckets,
                     memcmp(&a.digest, &reference.digest, 16) != 0,
                     memcmp(&a.stats, &reference.stats, sizeof a.stats) != 0,
                     memcmp(&a.sketch, &reference.sketch, sizeof a.sketch) != 0);
    }
}

static void test_short(void **state)
{
    (void)state;
    uint64_t seed = 1;
    unsigned char *buffer = malloc(16 * 320 + 64);
    for (int dtype = 0; dtype < TWIN_DTYPE_COUNT; dtype++)
        for (int64_t n = 0; n <= 300; n++) {
            size_t shift = (size_t)n * 7 % 17;
            enum fill how = (enum fill)(n % FILL_KINDS);
            uint64_t offset = n % 3 ? 0 : random_bits(&seed) % 5000;
            struct twin_tensor t = {buffer + shift, (enum twin_dtype)dtype, 1, &n, NULL, offset};
            fill_tensor(buffer + shift, (size_t)n, t.dtype, how, &seed);
            same(&t, 1u << (n % 7), "short");
        }
    free(buffer);
}

static void test_long(void **state)
{
    (void)state;
    uint64_t seed = 2;
    unsigned char *buffer = malloc(16 * 10100 + 64);
    for (int dtype = 0; dtype < TWIN_DTYPE_COUNT; dtype++)
        for (int how = 0; how < FILL_KINDS; how++)
            for (int round = 0; round < 4; round++) {
                int64_t n = (int64_t)(random_bits(&seed) % 10000);
                size_t shift = random_bits(&seed) % 16;
                struct twin_tensor t = {buffer + shift,
                                        (enum twin_dtype)dtype,
                                        1,
                                        &n,
                                        NULL,
                                        round ? random_bits(&seed) % 10000 : 0};
                fill_tensor(buffer + shift, (size_t)n, t.dtype, (enum fill)how, &seed);
                same(&t, round == 3 ? 64 : 16, "long");
            }
    free(buffer);
}

static void test_strided(void **state)
{
    (void)state;
    uint64_t seed = 3;
    unsigned char *buffer = malloc(16 * 64 * 64);
    for (int dtype = 0; dtype < TWIN_DTYPE_COUNT; dtype++)
        for (int how = 0; how < FILL_KINDS; how++) {
            const int64_t shapes[][2] = {{64, 64}, {63, 61}, {1, 64}, {64, 1}, {7, 33}};
            const int64_t strides[][2] = {{1, 64}, {64, 1}, {0, 1}, {1, 0}, {32, 2}};
            fill_tensor(buffer, 64 * 64, (enum twin_dtype)dtype, (enum fill)how, &seed);
            for (int s = 0; s < 5; s++)
                for (int v = 0; v < 5; v++) {
                    struct twin_tensor t = {buffer,     (enum twin_dtype)dtype, 2, shapes[s],
                                            strides[v], (uint64_t)v * 3};
                    if (shapes[s][1] > 32 && v == 4)
                        continue;
                    same(&t, 16, "strided");
                }
        }
    free(buffer);
}

/* The kernels themselves, at their boundaries: every count of blocks and every misalignment. */
static void test_digest_kernel(void **state)
{
    (void)state;
    uint64_t seed = 4;
    unsigned char buffer[16 * 70 + 16];
    for (size_t i = 0; i < sizeof buffer; i++)
        buffer[i] = (unsigned char)random_bits(&seed);
    for (size_t blocks = 0; blocks <= 69; blocks++)
        for (size_t shift = 0; shift < 16; shift++) {
            uint64_t first = blocks % 2 ? random_bits(&seed) : blocks;
            struct twin_digest reference = {5, 7};
            kernel_set(0)->digest(buffer + shift, blocks, first, &reference);
            for (size_t i = 1; kernel_set(i); i++) {
                struct twin_digest d = {5, 7};
                kernel_set(i)->digest(buffer + shift, blocks, first, &d);
                assert_int_equal(d.a, reference.a);
                assert_int_equal(d.b, reference.b);
            }
        }
}

static void test_named(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_fingerprint_force("mmx", &err), TWIN_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "\"mmx\""));
    assert_int_equal(twin_fingerprint_force(NULL, NULL), TWIN_EUNSUPPORTED);
    assert_int_equal(twin_fingerprint_force("scalar", NULL), 0);
    assert_string_equal(twin_fingerprint_isa(), "scalar");
    for (size_t i = 0; kernel_set(i); i++)
        print_message("set: %s\n", kernel_set(i)->name);
#ifndef TW_TEST_SIMDE
    print_message("SKIPPED sets avx512 and neon without the hardware: SIMDe is not installed "
                  "(libsimde-dev)\n");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named),   cmocka_unit_test(test_digest_kernel),
        cmocka_unit_test(test_short),   cmocka_unit_test(test_long),
        cmocka_unit_test(test_strided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
