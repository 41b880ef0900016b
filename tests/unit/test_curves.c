/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of runs that twinrun did not record: read without memory, held against each other by a
 * second, slower comparison, and of files that are cut anywhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "curves.h"

static const char file[] =
    "{\"schema\": \"twinrun.curves/1\", \"from\": \"csv\", \"source\": \"s.csv\", \"metric\": "
    "\"m\","
    " \"take\": \"last\", \"unknown\": [\"data\", \"seeds\"], \"runs\": ["
    "{\"name\": \"a\", \"value\": 2.5, \"left_out\": null, \"ended\": null,"
    " \"points\": [[3, 2.5], [1, 1.0], [1, \"nan\"], [2, \"-inf\"]]},"
    "{\"name\": \"b\", \"value\": null, \"left_out\": \"it has none\", \"ended\": \"FAILED\","
    " \"points\": []},"
    "{\"name\": \"c\", \"value\": 4.5, \"left_out\": null, \"ended\": null,"
    " \"points\": [[1, 1.0], [3, 4.5]]}]}";

static void test_read(void **state)
{
    struct tw_curves c;
    struct tw_curves_noise n;
    struct twin_error err = TWIN_ERROR_INIT;
    (void)state;
    assert_int_equal(tw_curves_parse("f", file, strlen(file), &c, &err), 0);
    assert_int_equal(c.runs, 3);
    const struct tw_curve *a = &c.run[0];
    const int64_t steps[] = {1, 1, 2, 3};
    assert_int_equal(a->points, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(a->step[i] == steps[i]);
    /* values of one step stay in the order of the source */
    assert_true(a->y[0] == 1 && isnan(a->y[1]) && a->y[2] == -INFINITY && a->y[3] == 2.5);
    assert_true(isnan(c.run[1].value) && c.run[1].points == 0);
    assert_string_equal(c.run[1].ended, "FAILED");
    assert_string_equal(c.unknown, "data, seeds");
    assert_int_equal(tw_curves_noise(&c, &n, &err), 0);
    assert_int_equal(n.values, 2);
    assert_true(n.mean == 3.5 && n.low == 2.5 && n.high == 4.5 && fabs(n.sd - sqrt(2)) < 1e-15);
    /* step 2 is of one of them alone; at step 1 the last value of a is a NaN */
    assert_int_equal(n.steps, 2);
    assert_true(n.first_step == 1 && isnan(n.first_apart));
    assert_true(n.last_step == 3 && n.last_apart == 2);
    tw_curves_free(&c);
}

/* No memory anywhere, and a file that is cut anywhere: said, nothing lost, nothing half read. */
static void test_what_fails(void **state)
{
    struct tw_curves c;
    (void)state;
    uint64_t n = 1;
    for (int rc = TWIN_ENOMEM; rc != 0; n++) {
        tw_alloc_fail_at(n, true);
        rc = tw_curves_parse("f", file, strlen(file), &c, NULL);
        tw_alloc_fail_at(0, false);
        assert_true(rc == 0 || rc == TWIN_ENOMEM);
        tw_curves_free(&c);
        assert_true(n < 1000);
    }
    assert_true(n > 5);
    for (size_t cut = 0; cut < strlen(file); cut++) {
        assert_int_equal(tw_curves_parse("f", file, cut, &c, NULL), TWIN_EFORMAT);
        tw_curves_free(&c);
    }
}

/* The n-th value of a step in r, in *y. */
static bool nth(const struct tw_curve *r, int64_t step, size_t n, double *y)
{
    for (size_t i = 0; i < r->points; i++)
        if (r->step[i] == step && n-- == 0) {
            *y = r->y[i];
            return true;
        }
    return false;
}

/* The slow way: every step, every occurrence. */
static void compare_slowly(const struct tw_curve *a, const struct tw_curve *b,
                           struct tw_curves_beside *x)
{
    *x = (struct tw_curves_beside){.common = 0};
    for (int64_t step = 0; step < 8; step++)
        for (size_t n = 0; n < 16; n++) {
            double p = 0, q = 0;
            const bool in_a = nth(a, step, n, &p), in_b = nth(b, step, n, &q);
            x->only_a += in_a && !in_b;
            x->only_b += in_b && !in_a;
            if (!in_a || !in_b)
                continue;
            x->common++;
            if (!x->differ && p != q && !(isnan(p) && isnan(q))) {
                x->differ = true;
                x->step = step;
                x->a = p;
                x->b = q;
            }
        }
}

static void test_compare(void **state)
{
    static const double values[] = {1, 1, 1, 2, NAN};
    uint64_t seed = 7;
    size_t equal = 0, differ = 0;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        int64_t step[2][16];
        double y[2][16];
        struct tw_curve r[2] = {{.step = step[0], .y = y[0]}, {.step = step[1], .y = y[1]}};
        for (size_t k = 0; k < 2; k++) {
            for (int64_t s = 0; s < 8; s++)
                while ((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33 & 1 &&
                       r[k].points < 16) {
                    step[k][r[k].points] = s;
                    y[k][r[k].points++] = values[(seed >> 40) % (round % 2 ? 5 : 2)];
                }
        }
        if (round % 3 == 0) { /* the same twice, which chance seldom makes */
            memcpy(step[1], step[0], sizeof step[0]);
            memcpy(y[1], y[0], sizeof y[0]);
            r[1].points = r[0].points;
        }
        struct tw_curves_beside fast, slow;
        tw_curves_compare(&r[0], &r[1], &fast);
        compare_slowly(&r[0], &r[1], &slow);
        assert_true(fast.common == slow.common && fast.only_a == slow.only_a &&
                    fast.only_b == slow.only_b && fast.differ == slow.differ);
        if (fast.differ)
            assert_true(fast.step == slow.step);
        const bool same = slow.common && !slow.differ && !slow.only_a && !slow.only_b;
        assert_int_equal(tw_curves_equal_numbers(&fast), same);
        equal += same;
        differ += fast.differ;
    }
    assert_true(equal > 10 && differ > 1000); /* both were seen */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_what_fails),
        cmocka_unit_test(test_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
