/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of several processes that ran together while they were printed, and texts that only look as
 * if they had. */
#include "compare_test.h"

static struct twin_run_process processes[2] = {
    {.pid = 7001, .argv = (char *)"/usr/bin/worker 0", .armed = true},
    {.pid = 7002, .argv = (char *)"/usr/bin/worker 1", .armed = true},
};

static struct twin_verdict *verdict_of(const char *printed_a, const char *printed_b,
                                       size_t process_count)
{
    struct synth_model m[2];
    struct synth *s[2];
    const char *printed[2] = {printed_a, printed_b};
    for (int i = 0; i < 2; i++) {
        synth_model_init(&m[i], 3);
        s[i] = synth_train_run("lines", &m[i]);
        synth_print(s[i], "stdout", printed[i]);
        synth_run(s[i])->processes = processes;
        synth_run(s[i])->process_count = process_count;
    }
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    synth_free(s[0]);
    synth_free(s[1]);
    return v;
}

static void expect_same(const char *a, const char *b)
{
    for (int turn = 0; turn < 2; turn++) {
        struct twin_verdict *v = verdict_of(turn ? b : a, turn ? a : b, 2);
        expect_outcome(v, TWIN_SAME);
        twin_verdict_free(v);
    }
}

static void expect_not_same(const char *a, const char *b, size_t process_count)
{
    for (int turn = 0; turn < 2; turn++) {
        struct twin_verdict *v = verdict_of(turn ? b : a, turn ? a : b, process_count);
        assert_int_not_equal(v->outcome, TWIN_SAME);
        twin_verdict_free(v);
    }
}

static void whole_lines_that_ran_together(void **state)
{
    (void)state;
    expect_same("[rank 0] loss 0.5\n[rank 1] loss 0.7\n", "[rank 0] loss 0.5[rank 1] loss 0.7\n\n");
    expect_same("[rank 0] loss 0.5\n[rank 1] loss 0.7\n[rank 2] loss 0.9\n",
                "[rank 2] loss 0.9[rank 0] loss 0.5[rank 1] loss 0.7\n\n\n");
    /* in each run others */
    expect_same("(a) done\n(b) done(c) done\n\n(d) done\n",
                "(a) done(d) done\n\n(b) done\n(c) done\n");
    /* one piece is the beginning of another */
    expect_same("(a) done\n(a) done too\n(b) done\n", "(a) done too(a) done(b) done\n\n\n");
}

static void what_ran_together_is_said(void **state)
{
    (void)state;
    struct twin_verdict *v = verdict_of("[rank 0] loss 0.5\n[rank 1] loss 0.7\n",
                                        "[rank 0] loss 0.5[rank 1] loss 0.7\n\n", 2);
    assert_int_equal(v->benign_count, 1);
    assert_string_equal(
        v->benign[0].text,
        "1 line of stdout ran together with others that were printed at the same time");
    twin_verdict_free(v);
}

/* Where a piece stands alone in no run, what the pieces are is not known. */
static void pieces_that_no_run_printed_alone(void **state)
{
    (void)state;
    struct twin_verdict *v = verdict_of("(a) done(b) done\n\n(c) done\n",
                                        "(a) done\n(b) done(c) done\n\n", 2);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    twin_verdict_free(v);
}

static void what_ran_together_says_something_else(void **state)
{
    (void)state;
    expect_not_same("[rank 0] loss 0.5\n[rank 1] loss 0.7\n",
                    "[rank 0] loss 0.5[rank 1] loss 0.8\n\n", 2);
    expect_not_same("[rank 0] loss 0.5\n[rank 1] loss 0.7\n", "[rank 0] loss 0.5\n", 2);
    expect_not_same("[rank 0] loss 0.5\n[rank 1] loss 0.7\n",
                    "[rank 0] loss 0.5[rank 1] loss 0.7[rank 1] loss 0.7\n\n", 2);
}

static void expect_mixed(const char *a, const char *b)
{
    for (int turn = 0; turn < 2; turn++) {
        struct twin_verdict *v = verdict_of(turn ? b : a, turn ? a : b, 2);
        expect_outcome(v, TWIN_INCONCLUSIVE);
        assert_true(
            has_unseen(v, "2 lines of several processes ran together in the middle, so that it is "
                          "not known which number is whose (print each line with one write"));
        twin_verdict_free(v);
    }
}

/* Python without a buffer writes each argument of print() by itself. */
static void parts_of_lines_that_ran_together(void **state)
{
    (void)state;
    expect_mixed("seen 6\nseen 6\n", "seenseen 6\n 6\n");
    expect_mixed("seen 6\nseenseen 6\n 6\nseen 6\n", "seen 6\nseenseen  66\n\nseen 6\n");
    /* which number was whose is not known */
    expect_mixed("loss 0.5\nacc 0.7\n", "lossacc  0.70.5\n\n");
    /* one process prints whole lines: they say something else */
    expect_not_same("seen 6\nseen 9\n", "seenseen 6\n 9\n", 1);
    expect_not_same("seen 6\nseen 6\n", "seenseen 6\n 7\n", 2);
    struct twin_verdict *v = verdict_of("seen 12\nseen 34\n", "seen 13\nseen 24\n", 2);
    expect_outcome(v, TWIN_DIFFER);
    twin_verdict_free(v);
}

/* Of the first run both streams went to one file or terminal. */
static struct twin_verdict *verdict_of_one_stream(const char *both, const char *out,
                                                  const char *errors, bool copied,
                                                  const char *ignore)
{
    const char *globs[] = {ignore, NULL};
    struct twin_compare_options o = {.ignore = ignore ? globs : NULL,
                                     .ignore_count = ignore != NULL};
    struct synth_model m[2];
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        synth_model_init(&m[i], 3);
        s[i] = synth_train_run("streams", &m[i]);
    }
    synth_print(s[0], "stdout", both);
    synth_print(s[0], "stderr", "");
    synth_run(s[0])->one_stream = true;
    synth_print(s[1], "stdout", out);
    synth_print(s[1], "stderr", errors);
    if (!copied) {
        synth_run(s[1])->one_stream = true;
        synth_run(s[1])->stdout_truncated = true;
        synth_run(s[1])->stdout_sha256[0] = '\0';
    }
    struct twin_verdict *v = compare(s[0], s[1], &o);
    synth_free(s[0]);
    synth_free(s[1]);
    return v;
}

static void one_stream_and_two(void **state)
{
    (void)state;
    struct twin_verdict *v = verdict_of_one_stream("loss 1\nwarn 2\nloss 3\n", "loss 1\nloss 3",
                                                   "warn 2\n", true, NULL);
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
    v = verdict_of_one_stream("loss 1\nwarn 2\nloss 3\n", "loss 1\nloss 4\n", "warn 2\n", true,
                              NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->name, "stdout and stderr");
    twin_verdict_free(v);
    v = verdict_of_one_stream("loss 1\nwarn 2\n", "loss 1\n", "warn 3\n", true, "stderr");
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "stdout: not compared: in one of the runs stdout and stderr were one "
                              "(--ignore both, or record both runs alike)"));
    twin_verdict_free(v);
}

static void output_without_a_copy(void **state)
{
    (void)state;
    struct twin_verdict *v = verdict_of_one_stream("", "", "", false, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "stdout: not compared: it went to a device, and no copy was kept "
                              "(--ignore stdout leaves it out)"));
    twin_verdict_free(v);
    v = verdict_of_one_stream("", "", "", false, "stdout");
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
}

/* "x 1" and "23" are no "x 123"; a unit, a sign and a decimal point belong to a number, too. */
static void seams_within_a_number(void **state)
{
    (void)state;
    expect_not_same("correct 1\n23\n", "correct 123\n", 2);
    expect_not_same("correct 1\n.5 is the rate\n", "correct 1.5 is the rate\n", 2);
    expect_not_same("value -\n5 of 7\n", "value -5 of 7\n", 2);
    expect_not_same("size 5\nMB in all\n", "size 5MB in all\n", 2);
}

static void one_process_prints_its_lines_whole(void **state)
{
    (void)state;
    expect_not_same("[a] cat\n[b] dog\n", "[a] cat[b] dog\n", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines_that_ran_together),
        cmocka_unit_test(what_ran_together_is_said),
        cmocka_unit_test(pieces_that_no_run_printed_alone),
        cmocka_unit_test(what_ran_together_says_something_else),
        cmocka_unit_test(parts_of_lines_that_ran_together),
        cmocka_unit_test(one_stream_and_two),
        cmocka_unit_test(output_without_a_copy),
        cmocka_unit_test(seams_within_a_number),
        cmocka_unit_test(one_process_prints_its_lines_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
