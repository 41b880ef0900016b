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

/* What is asked of a check in a test of what goes together. */
struct wish {
    struct tw_check_asked asked;
    struct tw_check_beside beside;
    bool arms;
};

static struct wish one_job(void)
{
    return (struct wish){.asked = {.runs = TW_NOT_GIVEN, .b_starts_at = TW_NOT_GIVEN},
                         .beside = {.job = true}};
}

/* All four questions in the order of the command; `message` begins what the first refusal says, and
 * NULL stands for none. */
static void goes_together(struct wish w, const char *message)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_check_arms_fit(&w.asked, &w.beside, &err);
    rc = rc ? rc : tw_check_gate_fits(&w.asked, &w.beside, w.arms, &err);
    rc = rc ? rc : tw_check_runs_fit(&w.asked, 10, &err);
    rc = rc ? rc : tw_check_transplant_fits(&w.asked, w.arms, &err);
    assert_int_equal(rc, message ? TWIN_EINVAL : 0);
    if (message && strncmp(err.message, message, strlen(message)) != 0)
        fail_msg("expected \"%s\", found \"%s\"", message, err.message);
}

static void commands_that_fit(void **state)
{
    (void)state;
    struct wish w = one_job();
    goes_together(w, NULL);
    w.beside.a = "python a.py";
    goes_together(w, "expected either -- COMMAND or --a CMD --b CMD");
    w.beside.job = false;
    goes_together(w, "expected two arms, found only --a; give --b too");
    w.beside.b = "python b.py";
    w.arms = true;
    w.asked.b_starts_at = 4;
    goes_together(w, NULL);
    w = one_job();
    w.asked.b_starts_at = 4;
    goes_together(w, "--b-starts-at belongs to");
    w.asked.resume_with = "python train.py --resume";
    w.arms = true;
    goes_together(w, NULL);
    w.asked.against = "expected.json";
    goes_together(w, "--resume-with does not go with --against");
    w = one_job();
    w.beside.job = false;
    goes_together(w, "expected the job's command after --");
    w.beside.a = w.beside.b = "true";
    w.asked.resume_with = "true";
    goes_together(w, "--resume-with: expected the whole job's command");
    w = one_job();
    w.asked.half = "true";
    goes_together(w, "--half belongs to --resume-with");
}

static void baselines_that_fit(void **state)
{
    (void)state;
    struct wish w = one_job();
    w.beside.signers = true;
    goes_together(w, "--key and --trust are about the file of --against");
    w.asked.against = "expected.json";
    goes_together(w, NULL);
    w.asked.runs = 1;
    goes_together(w, NULL);
    w.arms = true;
    goes_together(w, "--against is about one job");
    w.arms = false;
    w.asked.save_baseline = "new.json";
    goes_together(w, "expected --save-baseline, which writes");
    w.asked.against = NULL;
    w.beside.signers = false;
    goes_together(w, "a baseline is what repeats itself");
    w.asked.runs = 2;
    goes_together(w, NULL);
    w.asked.transplant = "rng";
    goes_together(w, "--save-baseline does not go with --transplant");
    w = one_job();
    w.asked.against = "expected.json";
    w.asked.ignore.count = 1;
    goes_together(w, "what a baseline leaves out is written in it");
}

static void runs_that_fit(void **state)
{
    (void)state;
    struct wish w = one_job();
    assert_int_equal(tw_check_runs_fit(&w.asked, 10, NULL), 0);
    assert_int_equal(w.asked.runs, 10);
    w.asked.runs = 1;
    goes_together(w, "--runs: expected a number from 2");
    w.asked.runs = TW_NOT_GIVEN;
    w.asked.against = "expected.json";
    assert_int_equal(tw_check_runs_fit(&w.asked, 10, NULL), 0);
    assert_int_equal(w.asked.runs, 1);
    w = one_job();
    w.asked.transplant = "data";
    goes_together(w, NULL);
    w.asked.runs = 2;
    goes_together(w, "--transplant needs 3 runs or more");
    w.arms = true;
    goes_together(w, "--transplant compares runs of one command");
    w.asked.transplant = "weights";
    goes_together(w, "--transplant: expected data, rng or step, found weights");
    w.asked.transplant = NULL;
    w.asked.window.given = true;
    goes_together(w, "--window belongs to --transplant");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_runs_as_then),
        cmocka_unit_test(gate_of_whole_runs),
        cmocka_unit_test(worst_verdict_is_the_gates),
        cmocka_unit_test(baseline_needs_runs_that_agree),
        cmocka_unit_test(isolate_is_suggested_where_it_can_help),
        cmocka_unit_test(commands_that_fit),
        cmocka_unit_test(baselines_that_fit),
        cmocka_unit_test(runs_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
