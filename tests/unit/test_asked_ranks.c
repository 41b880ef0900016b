/* SPDX-License-Identifier: Apache-2.0 */
/* check --ranks: which runs are of one number of ranks, and how many comparisons count between
 * numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arms.h"
#include "internal.h"

/* 2, 2, 4, 8, 4: two numbers with two runs each, one with one. */
static const uint32_t mixed[] = {2, 2, 4, 8, 4};
static const uint32_t alike[] = {3, 3, 3};

static void of_one_number(void **state)
{
    const struct twin_compare_options o = {.ranks = mixed}, none = {.ranks = NULL};
    (void)state;
    assert_true(tw_of_one_number(&o, 0, 1));
    assert_true(tw_of_one_number(&o, 2, 4));
    assert_true(tw_of_one_number(&o, 3, 3));
    assert_false(tw_of_one_number(&o, 1, 2));
    assert_false(tw_of_one_number(&o, 3, 4));
    /* where nobody said how many ranks a run has, nothing says that two are alike */
    assert_false(tw_of_one_number(&none, 0, 1));
}

static void first_of_a_number(void **state)
{
    static const size_t first[] = {0, 0, 2, 3, 2};
    const struct twin_compare_options o = {.ranks = mixed}, none = {.ranks = NULL};
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(tw_first_of_number(&o, i), first[i]);
        assert_int_equal(tw_first_of_number(&none, i), 0);
    }
}

static void of_another_command(void **state)
{
    const struct twin_compare_options o = {.ranks = mixed}, same = {.ranks = alike};
    const struct twin_compare_options none = {.ranks = NULL};
    (void)state;
    assert_int_equal(tw_of_other_command(&o, 5, 0), 2);
    assert_int_equal(tw_of_other_command(&o, 5, 1), 2);
    assert_int_equal(tw_of_other_command(&o, 5, 2), 0);
    assert_int_equal(tw_of_other_command(&o, 5, 3), 0);
    assert_int_equal(tw_of_other_command(&o, 2, 1), 1); /* of the first two there is none */
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tw_of_other_command(&same, 3, i), i);
    /* two commands without numbers: A is run 1, and B is all others */
    assert_int_equal(tw_of_other_command(&none, 3, 0), 1);
    assert_int_equal(tw_of_other_command(&none, 3, 2), 0);
}

static void counted_between_numbers(void **state)
{
    const struct twin_compare_options o = {.ranks = mixed}, same = {.ranks = alike};
    const struct twin_compare_options none = {.ranks = NULL};
    (void)state;
    assert_int_equal(tw_pairs_counted(&o, 5), 3); /* runs 3, 4 and 5 */
    assert_int_equal(tw_pairs_counted(&o, 2), 0);
    assert_int_equal(tw_pairs_counted(&same, 3), 0);
    assert_int_equal(tw_pairs_counted(&none, 4), 3);
    assert_int_equal(tw_pairs_counted(&none, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_number),
        cmocka_unit_test(first_of_a_number),
        cmocka_unit_test(of_another_command),
        cmocka_unit_test(counted_between_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
