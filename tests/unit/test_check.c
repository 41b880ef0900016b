/* SPDX-License-Identifier: Apache-2.0 */
/* What a check decides between its runs (src/trial/check.h): how a gate's runs are made, which of
 * several verdicts is the gate's, and when a baseline can come of runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "check.h"

/* The golden baseline, which was made at level tensors, as if with --steps steps. */
static struct twin_baseline *baseline_of(unsigned steps)
{
    static const char before[] = "\"max_steps\": ";
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_baseline *b = NULL;
    char *text = NULL, *cut, *changed;
    size_t bytes;
    assert_int_equal(tw_read_file(GOLDEN "/baseline/v1-job.json", 1 << 20, &text, &bytes, &err), 0);
    cut = strstr(text, before);
    assert_non_null(cut);
    cut += strlen(before);
    assert_memory_equal(cut, "0,", 2);
    changed = tw_printf("%.*s%u%s", (int)(cut - text), text, steps, cut + 1);
    if (twin_baseline_read(changed, strlen(changed), "v1-job.json", &b, &err) != 0)
        fail_msg("%s", err.message);
    tw_free(changed);
    tw_free(text);
    return b;
}

/* A check against a baseline of 12 steps. level, steps: what the person asked for. */
static int ask_as_then(enum twin_level level, uint64_t steps, struct tw_check *c,
                       struct twin_error *err)
{
    *c = (struct tw_check){.args = {.against = "v1-job.json", .level = level, .steps = steps},
                           .baseline = baseline_of(12)};
    *err = (struct twin_error)TWIN_ERROR_INIT;
    int rc = tw_check_gate_as_then(c, err);
    twin_baseline_free(c->baseline);
    return rc;
}

static void gate_runs_as_then(void **state)
{
    (void)state;
    struct tw_check c;
    struct twin_error err;
    /* nothing asked: level and steps are the baseline's */
    assert_int_equal(ask_as_then(TW_CHECK_LEVEL_NOT_GIVEN, 0, &c, &err), 0);
    assert_int_equal(c.level, TWIN_LEVEL_TENSORS);
    assert_int_equal(c.args.steps, 12);
    /* fewer steps are a part of what is expected, more are not */
    assert_int_equal(ask_as_then(TWIN_LEVEL_TENSORS, 11, &c, &err), 0);
    assert_int_equal(c.args.steps, 11);
    assert_int_equal(ask_as_then(TWIN_LEVEL_TENSORS, 12, &c, &err), 0);
    assert_int_equal(ask_as_then(TWIN_LEVEL_TENSORS, 13, &c, &err), TWIN_EINVAL);
    assert_string_equal(err.message, "v1-job.json was made with --steps 12: expected no more than "
                                     "that, found 13");
    assert_int_equal(ask_as_then(TWIN_LEVEL_OPS, 0, &c, &err), TWIN_EINVAL);
    assert_string_equal(err.message, "v1-job.json was made at level tensors: expected no --level, "
                                     "or that one");
}

/* Of a baseline of whole runs any number of steps may be asked for. */
static void gate_of_whole_runs(void **state)
{
    (void)state;
    struct tw_check c = {.args = {.level = TW_CHECK_LEVEL_NOT_GIVEN, .steps = 5000},
                         .baseline = baseline_of(0)};
    assert_int_equal(tw_check_gate_as_then(&c, NULL), 0);
    assert_int_equal(c.args.steps, 5000);
    twin_baseline_free(c.baseline);
}

static void worst_verdict_is_the_gates(void **state)
{
    (void)state;
    static const enum twin_verdict_outcome best_first[] = {
        TWIN_SAME, TWIN_WITHIN_TOLERANCE, TWIN_INCONCLUSIVE, TWIN_DIFFER, TWIN_FAILED};
    for (size_t i = 1; i < sizeof best_first / sizeof *best_first; i++)
        assert_true(tw_check_gate_rank(best_first[i]) > tw_check_gate_rank(best_first[i - 1]));
}

static void baseline_needs_runs_that_agree(void **state)
{
    (void)state;
    struct twin_verdict v = {.outcome = TWIN_SAME};
    struct tw_series s = {.count = 2, .v = &v};
    assert_null(tw_check_no_baseline_because(&s));
    v.outcome = TWIN_WITHIN_TOLERANCE;
    assert_null(tw_check_no_baseline_because(&s));
    v.outcome = TWIN_DIFFER;
    assert_non_null(strstr(tw_check_no_baseline_because(&s), "does not repeat itself"));
    v.outcome = TWIN_FAILED;
    assert_string_equal(tw_check_no_baseline_because(&s), "the job failed");
    v.outcome = TWIN_SAME;
    s.count = 1;
    assert_string_equal(tw_check_no_baseline_because(&s), "there are no two runs to agree");
    s.count = 2;
    s.interrupted = true;
    assert_string_equal(tw_check_no_baseline_because(&s), "the check was interrupted");
}

/* What isolate could add: nothing where files were shared, or where only a seam is to blame. */
static void isolate_is_suggested_where_it_can_help(void **state)
{
    (void)state;
    struct twin_verdict v = {.outcome = TWIN_DIFFER};
    struct tw_check c = {.series = {.v = &v}};
    assert_true(tw_check_can_isolate(&c));
    c.args.against = "expected.json";
    assert_false(tw_check_can_isolate(&c));
    c.gate_unsteady = true;
    assert_true(tw_check_can_isolate(&c));
    c.shares_files = true;
    assert_false(tw_check_can_isolate(&c));
    c = (struct tw_check){.series = {.v = &v}, .arms = true};
    assert_false(tw_check_can_isolate(&c));
    c.arm_repeats = true;
    assert_true(tw_check_can_isolate(&c));
    v.shift = 10;
    assert_false(tw_check_can_isolate(&c));
    c.arm_unsteady = true;
    assert_true(tw_check_can_isolate(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_runs_as_then),
        cmocka_unit_test(gate_of_whole_runs),
        cmocka_unit_test(worst_verdict_is_the_gates),
        cmocka_unit_test(baseline_needs_runs_that_agree),
        cmocka_unit_test(isolate_is_suggested_where_it_can_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
