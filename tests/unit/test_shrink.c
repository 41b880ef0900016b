/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What shrink decides (src/study/shrink_runs.h): does the divergence of the whole job stay in a
 * smaller one, after how many comparisons that is known, and what the smaller one's command is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "shrink_runs.h"

/* Settings are given up when the comparisons that are left cannot reach the number any more. */
static void comparisons_decide(void **state)
{
    (void)state;
    const struct tw_shrink_rule two_of_five = {.need = 2, .trials = 5};
    static const struct {
        uint64_t trials, diverged;
        bool decided, whole;
    } cases[] = {
        {0, 0, false, false},
        {1, 1, false, false},
        {2, 2, true, false},
        {3, 0, false, false},
        {4, 0, true, false},
        {4, 1, false, false},
        {5, 1, true, false},
        {5, 2, true, false},
        /* the whole job is looked at to the end: one divergence is of interest */
        {4, 0, false, true},
        {5, 0, true, true},
        {5, 1, true, true},
        {2, 2, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tw_shrink_evidence e = {.trials = cases[i].trials, .parted = cases[i].diverged};
        if (tw_shrink_decided(&two_of_five, &e, cases[i].whole) != cases[i].decided)
            fail_msg("%llu of %llu, whole %d", (unsigned long long)e.parted,
                     (unsigned long long)e.trials, cases[i].whole);
    }
}

/*
 * A setting that diverges as often as the whole job is lost in one of ten trials at most. Numbers
 * by sums of binomial terms in Python: of n comparisons at most 1 diverges in less than one of ten
 * cases from n = 3 on for a rate of 3.5/4, and from n = 19 on for 0.1955, the lower limit (75%) of
 * 3 of 9.
 */
static void rare_divergences_get_more_comparisons(void **state)
{
    (void)state;
    struct tw_shrink c = {.baseline = {.trials = 3, .parted = 3}};
    struct tw_shrink_rule always = tw_shrink_rule_for(&c, 2);
    assert_int_equal(always.need, 2);
    c.baseline.trials = 9;
    struct tw_shrink_rule seldom = tw_shrink_rule_for(&c, 2);
    assert_int_equal(seldom.need, 2);
    assert_int_equal(always.trials, 3);
    assert_int_equal(seldom.trials, 19);
    c.baseline.trials = 100000; /* a rare one must not eat the budget */
    assert_int_equal(tw_shrink_rule_for(&c, 2).trials, 60);
}

static struct twin_finding finding(const char *layer, const char *op)
{
    return (struct twin_finding){.layer = (char *)(uintptr_t)layer,
                                 .op = (char *)(uintptr_t)op,
                                 .name = (char *)(uintptr_t) "w",
                                 .text = (char *)(uintptr_t) "",
                                 .phase = TWIN_PHASE_BACKWARD,
                                 .kind = TWIN_KIND_GRADIENT};
}

static void only_the_same_divergence_stays(void **state)
{
    (void)state;
    struct twin_finding was = finding("fc1", "aten::mm"), now = finding("fc1", "aten::mm");
    struct twin_verdict v = {.outcome = TWIN_DIFFER, .first = &was};
    struct tw_shrink c = {.baseline = {.verdict = {&v}}};
    assert_true(tw_shrink_known(&c, &now));
    now = finding("fc2", "aten::mm");
    assert_false(tw_shrink_known(&c, &now));
    now = finding("fc1", "aten::add");
    assert_false(tw_shrink_known(&c, &now));
    now = finding("fc1", ""); /* where the operation is not known, phase and kind tell */
    assert_true(tw_shrink_known(&c, &now));
    now.phase = TWIN_PHASE_FORWARD;
    assert_false(tw_shrink_known(&c, &now));
}

/* Knobs of a command in both notations, of a launcher and of the environment. */
static void knobs_are_found_where_they_stand(void **state)
{
    (void)state;
    char *argv[] = {"torchrun", "--nproc-per-node=4", "train.py", "--batch-size", "64", NULL};
    const char *given[] = {"--batch-size=64:4", "env:SAMPLES=500:100", NULL};
    struct tw_shrink c = {.argv = argv, .args = {.knobs = {given, 2}}};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(tw_shrink_knobs(&c, &err), 0);
    assert_int_equal(c.knob_count, 3);
    assert_int_equal(c.knob[0].kind, TW_KNOB_RANKS);
    struct tw_shrink_setting s = c.whole;
    char *shell = tw_shrink_shell(&c, &s);
    assert_string_equal(shell, "torchrun --nproc-per-node=4 train.py --batch-size 64");
    tw_free(shell);
    s.value[0] = 2;
    s.value[1] = 8;
    s.value[2] = 100;
    shell = tw_shrink_shell(&c, &s);
    assert_string_equal(shell,
                        "env SAMPLES=100 torchrun --nproc-per-node=2 train.py --batch-size 8");
    tw_free(shell);
    tw_shrink_fini(&c);
}

static void knobs_that_are_wrong(void **state)
{
    (void)state;
    char *argv[] = {"python", "train.py", "--batch-size", "64", NULL};
    static const char *const wrong[] = {"--batch-size=32:4", "--batch-size=64:64", "--epochs=3:1",
                                        "env:=3:1",          "--batch-size",       "=3:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *given[] = {wrong[i], NULL};
        struct tw_shrink c = {.argv = argv, .args = {.knobs = {given, 1}}};
        struct twin_error err = TWIN_ERROR_INIT;
        assert_int_equal(tw_shrink_knobs(&c, &err), TWIN_EINVAL);
        assert_memory_equal(err.message, "--knob: ", 8);
        tw_shrink_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons_decide),
        cmocka_unit_test(rare_divergences_get_more_comparisons),
        cmocka_unit_test(only_the_same_divergence_stays),
        cmocka_unit_test(knobs_are_found_where_they_stand),
        cmocka_unit_test(knobs_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
