/* SPDX-License-Identifier: Apache-2.0 */
/* The room of orders: every contribution is added once, roundings, wrong use, memory that runs out,
 * threads. Values are held against NumPy in tests/agents/test_spread.py. */
#include "src/spread/spread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the five above */
#include <cmocka.h>

#include <math.h>

#include "base.h"
#include "orders.h"

/* Each place once, and a stack that suffices. */
static void programs_take_each_rank_once(void **state)
{
    (void)state;
    const uint32_t large[] = {1000, 4095, 4096, 4097, 65535, 65536};
    for (uint32_t k = 1; k <= 300 + sizeof large / sizeof *large; k++) {
        const uint32_t ranks = k <= 300 ? k : large[k - 301];
        for (int a = 0; a < TWIN_ALGORITHMS; a++)
            for (int half = 0; half < 2; half++) {
                struct tw_program p;
                struct twin_error err = TWIN_ERROR_INIT;
                unsigned char *seen = calloc(ranks, 1);
                int depth = 0, deepest = 0;
                uint32_t pushed = 0, folded = 0;
                assert_int_equal(tw_program_make((enum twin_algorithm)a, ranks, half, &p, &err), 0);
                for (size_t i = 0; i < p.count; i++) {
                    const uint32_t op = p.op[i];
                    if (op & TW_FOLD) {
                        depth--;
                        folded++;
                    } else {
                        assert_true((op & TW_PLACE) < ranks && !seen[op & TW_PLACE]);
                        seen[op & TW_PLACE] = 1;
                        pushed++;
                        depth += !(op & TW_ADD);
                    }
                    assert_true(depth >= 1);
                    deepest = depth > deepest ? depth : deepest;
                }
                assert_int_equal(depth, 1);
                assert_int_equal(pushed, ranks);
                assert_true(deepest <= TW_MAX_STACK - 8);
                free(seen);
                tw_program_free(&p);
            }
    }
}

/* NCCL's trees: who is whose child, and no rank has children in both (save where the ranks are odd
 * in number). */
static void trees_agree_with_themselves(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 300; n++) {
        int inner[2][300];
        for (int half = 0; half < 2; half++) {
            uint32_t roots = 0;
            for (uint32_t r = 0; r < n; r++) {
                const struct tw_family f = tw_double_tree(n, r, half);
                roots += f.parent < 0;
                inner[half][r] = f.child[0] >= 0 && f.child[1] >= 0;
                for (int i = 0; i < 2; i++)
                    if (f.child[i] >= 0)
                        assert_int_equal(tw_double_tree(n, (uint32_t)f.child[i], half).parent,
                                         (int)r);
            }
            assert_int_equal(roots, 1);
        }
        for (uint32_t r = 0; n % 2 == 0 && r < n; r++)
            assert_false(inner[0][r] && inner[1][r]);
    }
}

static void chunks(void **state)
{
    (void)state;
    for (uint64_t all = 1; all < 60; all++)
        for (uint32_t ranks = 1; ranks < 40; ranks++)
            for (uint64_t e = 0; e < all; e++) {
                uint32_t last = 0;
                for (uint32_t c = 0; c < ranks; c++)
                    if (c * all / ranks <= e)
                        last = c;
                assert_int_equal(tw_chunk_of(e, all, ranks), last);
            }
    assert_int_equal(tw_chunk_of(UINT64_MAX - 1, UINT64_MAX, 65536), 65535);
}

static void roundings(void **state)
{
    (void)state;
    assert_true(twin_round_to(TWIN_TO_F16, 65519.99) == 65504 &&
                isinf(twin_round_to(TWIN_TO_F16, 65520)));
    assert_true(twin_round_to(TWIN_TO_F16, 0x1p-25) == 0 &&
                twin_round_to(TWIN_TO_F16, 0x1.8p-24) == 0x1p-23);
    assert_true(twin_round_to(TWIN_TO_BF16, 1 + 0x1p-8) == 1 &&
                twin_round_to(TWIN_TO_BF16, 1 + 0x1.8p-7) == 1 + 0x1p-6);
    assert_true(twin_round_to(TWIN_TO_TF32, -(1 + 0x1.8p-10)) == -(1 + 0x1p-9));
    assert_true(isinf(twin_round_to(TWIN_TO_BF16, 3.4e38)) &&
                signbit(twin_round_to(TWIN_TO_BF16, -0.0)));
    assert_true(isnan(twin_round_to(TWIN_TO_F16, NAN)) && twin_round_to(TWIN_AS_IS, 0.1) == 0.1);
    assert_true(twin_ulp(TWIN_F64, 1) == 0x1p-52 && twin_ulp(TWIN_F32, -1.5) == 0x1p-23 &&
                twin_ulp(TWIN_BF16, 2) == 0x1p-6);
    assert_true(twin_ulp(TWIN_F16, 0) == 0x1p-24 && twin_ulp(TWIN_F32, 1e-45) == 0x1p-149 &&
                isnan(twin_ulp(TWIN_F32, INFINITY)));
}

static void fill(const void *user, uint64_t element, double *x)
{
    for (uint32_t r = 0; r < *(const uint32_t *)user; r++)
        x[r] = (double)(float)(1.0 / (double)(1 + (element * 7 + r * 13) % 101));
}

static int both(unsigned threads, struct twin_sum_spread *sum, struct twin_vector_spread *vector,
                struct twin_error *err)
{
    double x[1000], random[10];
    const uint32_t ranks = 6;
    const struct twin_vector_order order[] = {
        {TWIN_RING, NULL}, {TWIN_TREE, NULL}, {TWIN_DOUBLE_TREE, NULL}};
    static struct twin_vector_result result[3];
    const struct twin_sum_options o = {.dtype = TWIN_F32,
                                       .orders = 10,
                                       .seed = 3,
                                       .workers = 5,
                                       .sorted = true,
                                       .threads = threads};
    const struct twin_vector_job job = {.dtype = TWIN_F16,
                                        .ranks = ranks,
                                        .elements = 5000,
                                        .all = 5000,
                                        .fill = fill,
                                        .user = &ranks,
                                        .order = order,
                                        .orders = 3,
                                        .threads = threads};
    for (int i = 0; i < 1000; i++)
        x[i] = (double)(float)sin(i);
    int rc = twin_sum_spread(x, 1000, &o, random, sum, err);
    sum->random = NULL;
    if (rc == 0)
        rc = twin_vector_spread(&job, result, vector, err);
    return rc;
}

static void threads_change_nothing(void **state)
{
    (void)state;
    struct twin_sum_spread one, sum;
    struct twin_vector_spread lone, vector;
    assert_int_equal(both(1, &one, &lone, NULL), 0);
    for (unsigned threads = 2; threads < 9; threads += 3) {
        assert_int_equal(both(threads, &sum, &vector, NULL), 0);
        assert_memory_equal(&one, &sum, sizeof sum);
        assert_memory_equal(&lone, &vector, sizeof vector);
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    struct twin_sum_spread sum;
    struct twin_vector_spread vector;
    const uint64_t before = tw_alloc_count();
    assert_int_equal(both(1, &sum, &vector, NULL), 0);
    const uint64_t needed = tw_alloc_count() - before;
    for (uint64_t n = 1; n <= needed; n++) {
        struct twin_error err = TWIN_ERROR_INIT;
        tw_alloc_fail_at(n, false);
        int rc = both(1, &sum, &vector, &err);
        tw_alloc_fail_at(0, false);
        assert_int_equal(rc, TWIN_ENOMEM);
        assert_true(err.message[0] != '\0');
    }
}

static void wrong_use(void **state)
{
    (void)state;
    double x[3] = {1, NAN, 2}, random[2], seconds;
    struct twin_sum_spread sum;
    struct twin_sum_options o = {.dtype = TWIN_F64, .orders = 2};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_sum_spread(x, 3, &o, random, &sum, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "number 1 is NaN"));
    o.orders = 1;
    assert_int_equal(twin_sum_spread(x, 1, &o, random, &sum, NULL), TWIN_EINVAL);
    o = (struct twin_sum_options){.dtype = TWIN_I32, .orders = 2};
    assert_int_equal(twin_sum_spread(x, 1, &o, random, &sum, NULL), TWIN_EINVAL);
    o = (struct twin_sum_options){.dtype = TWIN_F32, .orders = 2, .workers = 4, .sorted = true};
    assert_int_equal(twin_sum_spread(x, 0, &o, random, &sum, NULL), 0); /* nothing to add */
    assert_true(sum.exact == 0 && sum.floor == 0 && sum.distinct == 1);
    struct twin_network net = {.alpha_s = 1e-6, .beta_s = -1};
    assert_int_equal(twin_network_time(&net, TWIN_RING, 4, 100, 1, 1, NULL, NULL, &seconds, NULL),
                     TWIN_EINVAL);
    net.beta_s = 1e-9;
    assert_int_equal(twin_network_time(&net, TWIN_RING, 0, 100, 1, 1, NULL, NULL, &seconds, NULL),
                     TWIN_EINVAL);
    for (int a = 0; a < TWIN_ALGORITHMS; a++) {
        assert_int_equal(twin_network_time(&net, (enum twin_algorithm)a, 1, 100, 1, 1, NULL, NULL,
                                           &seconds, NULL),
                         0);
        assert_true(seconds == 0); /* alone */
        for (uint64_t n = 1; n <= 2; n++) {
            tw_alloc_fail_at(n, false);
            int rc = twin_network_time(&net, (enum twin_algorithm)a, 8, 100, 1, 1, NULL, NULL,
                                       &seconds, NULL);
            tw_alloc_fail_at(0, false);
            assert_int_equal(rc, n == 1 || a == TWIN_DOUBLE_TREE || a == TWIN_ARRIVAL ? TWIN_ENOMEM
                                                                                      : 0);
        }
    }
    enum twin_algorithm found;
    assert_int_equal(twin_algorithm_parse("rings", &found), TWIN_EINVAL);
    assert_string_equal(twin_algorithm_name(TWIN_ALGORITHMS), "?");
}

/* A sum that leaves the type on the way: said, and the rest is counted without it. */
static void overflow(void **state)
{
    (void)state;
    double x[4] = {60000, 60000, -60000, -60000}, random[50];
    struct twin_sum_spread sum;
    const struct twin_sum_options o = {.dtype = TWIN_F16, .orders = 50, .seed = 1};
    assert_int_equal(twin_sum_spread(x, 4, &o, random, &sum, NULL), 0);
    assert_true(sum.exact == 0 && sum.overflowed > 0 && sum.overflowed < 50 && sum.max == 0 &&
                sum.min == 0);
}

static void loopback(void **state)
{
    (void)state;
    struct twin_network net = {0};
    assert_int_equal(twin_network_measure(&net, NULL), 0);
    assert_true(net.alpha_s > 1e-8 && net.alpha_s < .1 && net.beta_s >= 0 && net.beta_s < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_take_each_rank_once),
        cmocka_unit_test(trees_agree_with_themselves),
        cmocka_unit_test(chunks),
        cmocka_unit_test(roundings),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(wrong_use),
        cmocka_unit_test(overflow),
        cmocka_unit_test(loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
