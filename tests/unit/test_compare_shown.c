/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs printed and wrote, beside equal records: each sentence about it is provoked here, and
 * compared as a whole. Limits are reached, and the verdict says so.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

#include "compare_test.h"

static const struct twin_compare_options arms = {.arms = true};

static struct synth *job(void)
{
    struct synth_model m;
    synth_model_init(&m, 3);
    return synth_train_run("shown", &m);
}

static struct twin_verdict *judge(struct synth *a, struct synth *b,
                                  const struct twin_compare_options *o)
{
    struct twin_verdict *v = compare(a, b, o);
    synth_free(a);
    synth_free(b);
    return v;
}

static struct twin_verdict *printed(const char *x, const char *y,
                                    const struct twin_compare_options *o)
{
    struct synth *a = job(), *b = job();
    synth_print(a, "stdout", x);
    synth_print(b, "stdout", y);
    return judge(a, b, o);
}

static void expect_missing(struct twin_verdict *v, const char *text)
{
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(v, text);
    twin_verdict_free(v);
}

static void expect_difference(struct twin_verdict *v, const char *text)
{
    expect_outcome(v, TWIN_DIFFER);
    assert_non_null(v->first);
    if (strcmp(v->first->text, text) != 0)
        explain(v);
    assert_string_equal(v->first->text, text);
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    expect_note(v, "all records are equal: what differs was made by something that was not seen");
    twin_verdict_free(v);
}

/* ---- lines */

static void numbers_that_differ(void **state)
{
    (void)state;
    expect_difference(
        printed("begin\nloss 0.5\n", "begin\nloss 0.6\n", NULL),
        "1 printed line differs in numbers, first line 2 of stdout: \"loss 0.5\" and \"loss 0.6\"");
}

static void speeds_or_results(void **state)
{
    (void)state;
    expect_missing(printed("speed: 3.25\nspeed: 7\n", "speed: 3.5\nspeed: 8\n", NULL),
                   "stdout: whether 2 lines differ in a speed or in a result is not known, first "
                   "\"speed: 3.25\" and \"speed: 3.5\" (--ignore 'line:REGEX' leaves lines out)");
}

static void lines_of_one_run(void **state)
{
    (void)state;
    expect_missing(printed("begin\n", "begin\nnothing like it\nat all\n", NULL),
                   "stdout: text differs (0 lines only in run 1, 2 only in run 2), first \"nothing "
                   "like it\" (--ignore 'line:REGEX' leaves lines out)");
    expect_missing(printed("using the fast kernel\n", "using the slow kernel\n", NULL),
                   "stdout: text differs in 1 line, first line 1: \"using the fast kernel\" and "
                   "\"using the slow kernel\" (--ignore 'line:REGEX' leaves lines out)");
}

static void times_are_benign(void **state)
{
    (void)state;
    struct twin_verdict *v = printed("took 0.12s\ndone in 3.4 s\n", "took 0.15s\ndone in 4.4 s\n",
                                     NULL);
    expect_outcome(v, TWIN_SAME);
    expect_benign(v, "2 lines of stdout differ only in times, pids, speeds or addresses");
    twin_verdict_free(v);
}

/* Which of three values an arm did not print is not known. */
static void numbers_that_an_arm_did_not_print(void **state)
{
    (void)state;
    expect_missing(printed("score 1\nscore 2\nscore 3\n", "score 7\nscore 8\n", &arms),
                   "stdout: 2 lines of numbers that the other arm did not print (--ignore "
                   "'line:REGEX' leaves lines out)");
}

/* ---- limits of what is printed */

static void more_lines_than_are_compared(void **state)
{
    (void)state;
    enum { LINES = 200001 };
    char *text[2];
    for (int i = 0; i < 2; i++) {
        text[i] = malloc(2 * LINES + 3);
        assert_non_null(text[i]);
        for (size_t k = 0; k < LINES; k++)
            memcpy(text[i] + 2 * k, "x\n", 2);
        strcpy(text[i] + 2 * LINES, i ? "y\n" : ""); /* that one is beyond the limit */
    }
    expect_missing(printed(text[0], text[1], NULL),
                   "stdout: more than 200000 lines, the rest was not compared");
    free(text[0]);
    free(text[1]);
}

/* The stream is a file with a hole, so that nobody has to write 64 MiB. */
static void more_output_than_is_compared(void **state)
{
    (void)state;
    struct synth *a = job(), *b = job();
    synth_print(a, "stderr", "loss 1\n");
    synth_print(b, "stderr", "loss 2\n");
    char path[400];
    snprintf(path, sizeof path, "%s/stderr", synth_run(b)->dir);
    assert_int_equal(truncate(path, (64 << 20) + 1), 0);
    expect_missing(
        judge(a, b, NULL),
        "stderr: longer than the 64 MiB that are compared (--ignore stderr leaves it out)");
    a = job();
    b = job();
    synth_print(a, "stdout", "loss 1\n");
    synth_print(b, "stdout", "loss 1\nloss 2\n");
    synth_run(a)->stdout_truncated = true; /* the launcher stored no more than it may */
    expect_missing(
        judge(a, b, NULL),
        "stdout: longer than the 64 MiB that are compared (--ignore stdout leaves it out)");
}

/* ---- files */

static struct twin_verdict *wrote(const char *name, const char *x, const char *y,
                                  void (*change)(struct twin_run_file *))
{
    struct synth *a = job(), *b = job();
    synth_file(a, name, x);
    synth_file(b, name, y);
    if (change) {
        change(&synth_run(a)->files[0]);
        change(&synth_run(b)->files[0]);
    }
    return judge(a, b, NULL);
}

static void not_hashed(struct twin_run_file *f)
{
    f->sha256[0] = '\0';
    f->why = (char *)"larger than 4 GiB";
}

static void not_hashed_for_no_reason(struct twin_run_file *f)
{
    f->sha256[0] = '\0';
}

static void masked(struct twin_run_file *f)
{
    static char other = '0';
    f->sha256[0] = other == '0' ? (other = '1') : (other = '0');
}

static void files_that_differ(void **state)
{
    (void)state;
    expect_difference(wrote("result.npy", "abc", "abd", NULL),
                      "result.npy: contents differ (3 and 3 bytes)");
    expect_difference(wrote("result.npy", "abc", "abcdef", not_hashed),
                      "result.npy: sizes differ (3 and 6 bytes)");
    expect_difference(
        wrote("a.txt", "begin\nloss 1\nloss 2\n", "begin\nloss 2\nloss 1\n", NULL),
        "a.txt: the same lines in another order, first line 2: \"loss 1\" and \"loss 2\"");
    expect_missing(wrote("model.db", "abc", "abd", NULL),
                   "model.db: file bytes differ, and its format is not read here (--ignore "
                   "'file:model.db' leaves it out)");
}

static void files_that_were_not_read(void **state)
{
    (void)state;
    expect_missing(
        wrote("big.bin", "abc", "abd", not_hashed),
        "big.bin: not compared: larger than 4 GiB (--ignore 'file:big.bin' leaves it out)");
    expect_missing(wrote("big.bin", "abc", "abd", not_hashed_for_no_reason),
                   "big.bin: not compared (--ignore 'file:big.bin' leaves it out)");
    expect_missing(
        wrote("job.log", "token ***", "token ***", masked),
        "job.log: differs in what was not kept of it (--ignore 'file:job.log' leaves it out)");
}

/* ---- JSON: objects have no order, lists have */

static const char *const reordered[][2] = {
    {"{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1}"},
    {"{\"b\": {\"x\": [1, {\"q\": 1, \"p\": 2}], \"w\": {}}, \"a\": null}",
     "{\"a\": null, \"b\": {\"w\": {}, \"x\": [1, {\"p\": 2, \"q\": 1}]}}"},
    {"{\"a\":1,\"b\":[ ]}", "{\n  \"b\": [],\n  \"a\": 1\n}\n"},
    {"{\"a\": NaN, \"b\": -Infinity}\n{\"a\": 1}\n",
     "{\"b\": -Infinity, \"a\": NaN}\n{\"a\": 1}\n"},
    {"{\"a\": \"}\\\"{,\", \"b\": true}", "{\"b\": true, \"a\": \"}\\\"{,\"}"},
};

static void equal_objects(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof reordered / sizeof reordered[0]; i++) {
        struct twin_verdict *v = wrote("m.json", reordered[i][0], reordered[i][1], NULL);
        expect_outcome(v, TWIN_SAME);
        expect_benign(v, "m.json: file bytes differ, equal objects, their keys in another order or "
                         "on other lines");
        twin_verdict_free(v);
    }
}

/* Whatever else changes in them, they are other objects: each letter and digit, and each place. */
static void objects_that_differ(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof reordered / sizeof reordered[0]; i++) {
        const char *text = reordered[i][1];
        for (size_t at = 0; text[at]; at++) {
            char *mutant = strdup(text);
            assert_non_null(mutant);
            if (strchr(" \n", text[at]) == NULL)
                mutant[at] = text[at] == '7' ? '8' : '7';
            struct twin_verdict *v = wrote("m.json", reordered[i][0], mutant, NULL);
            bool blank = strchr(" \n", text[at]) != NULL;
            if ((v->outcome == TWIN_SAME) != blank)
                fail_msg("%s at %zu", mutant, at);
            twin_verdict_free(v);
            free(mutant);
        }
    }
    static const char *const other[][2] = {
        {"{\"a\": [1, 2], \"b\": 0}", "{\"b\": 0, \"a\": [2, 1]}"},
        {"{\"a\": 1, \"b\": 2}", "{\"b\": 1, \"a\": 2}"},
        {"{\"a\": {\"x\": 1}, \"b\": {}}", "{\"b\": {\"x\": 1}, \"a\": {}}"},
        {"{\"a\": 1, \"a\": 2}", "{\"a\": 2, \"a\": 1}"},
        {"{\"a\": 12, \"b\": 3}", "{\"b\": 3, \"a\": 1 2}"},
        {"{\"a\": 1}\n{\"a\": 2}\n", "{\"a\": 2}\n{\"a\": 1}\n"},
        {"{\"a\": 1, \"b\": 2", "{\"b\": 2, \"a\": 1"},
        {"[[[[1, 2]]], 3]", "[[[[2, 1]]], 3]"},
    };
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        struct twin_verdict *v = wrote("m.json", other[i][0], other[i][1], NULL);
        if (v->outcome == TWIN_SAME)
            fail_msg("%s and %s", other[i][0], other[i][1]);
        twin_verdict_free(v);
    }
}

static void copies_that_hide_a_secret(void **state)
{
    (void)state;
    expect_missing(
        wrote("job.log", "took 1.5 s\ntoken [redacted]\n", "took 1.6 s\ntoken [redacted]\n", NULL),
        "job.log: differs in what was not kept of it (--ignore 'file:job.log' leaves it out)");
    expect_missing(
        wrote("m.json", "{\"a\": \"[redacted]\", \"b\": 1}", "{\"b\": 1, \"a\": \"[redacted]\"}",
              NULL),
        "m.json: differs in what was not kept of it (--ignore 'file:m.json' leaves it out)");
}

static void files_of_one_run(void **state)
{
    (void)state;
    struct synth *a = job(), *b = job();
    synth_file(a, "one.npy", "abc");
    synth_file(b, "two.npy", "abc");
    synth_file(b, "three.npy", "abc");
    expect_missing(judge(a, b, NULL), "1 files only in run 1, 2 only in run 2, such as one.npy "
                                      "(--ignore 'file:GLOB' leaves files out)");
}

/* ---- limits of what is recorded */

static void put(struct twin_writer *w, const char *name, const char *role)
{
    const float x = 1;
    synth_put(w,
              (struct synth_record){
                  .phase = TWIN_PHASE_OUTPUT, .kind = TWIN_KIND_VALUE, .name = name, .role = role},
              &x, 1);
}

static void more_threads_than_are_told_apart(void **state)
{
    (void)state;
    struct synth *s[2] = {synth_new("a"), synth_new("b")};
    for (int i = 0; i < 2; i++) {
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        for (int k = 0; k < 1025; k++) {
            char role[32];
            snprintf(role, sizeof role, "worker %d", k);
            put(w, "v", role);
        }
    }
    expect_missing(judge(s[0], s[1], &arms),
                   "rank 0: which threads both have, for there are more than 1024");
}

/* A trace holds 2^20 names: a record under another one is lost, and counted. */
static void more_names_than_a_trace_holds(void **state)
{
    (void)state;
    struct synth *s[2] = {synth_new("a"), synth_new("b")};
    for (int i = 0; i < 2; i++) {
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        put(w, "v", NULL);
        for (uint32_t k = 0; i && k + 1 < (1u << 20); k++) {
            char name[32];
            int n = snprintf(name, sizeof name, "name %u", k);
            assert_int_not_equal(twin_writer_string(w, name, (size_t)n), 0);
        }
        if (i)
            assert_int_equal(twin_writer_string(w, "one more", 8), 0);
        twin_writer_step_end(w);
    }
    expect_missing(judge(s[0], s[1], NULL),
                   "run 2: 1 calls of rank 0 (main) could not be recorded: no memory, or more "
                   "names than a trace holds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_differ),
        cmocka_unit_test(speeds_or_results),
        cmocka_unit_test(lines_of_one_run),
        cmocka_unit_test(times_are_benign),
        cmocka_unit_test(numbers_that_an_arm_did_not_print),
        cmocka_unit_test(more_lines_than_are_compared),
        cmocka_unit_test(more_output_than_is_compared),
        cmocka_unit_test(files_that_differ),
        cmocka_unit_test(files_that_were_not_read),
        cmocka_unit_test(equal_objects),
        cmocka_unit_test(objects_that_differ),
        cmocka_unit_test(copies_that_hide_a_secret),
        cmocka_unit_test(files_of_one_run),
        cmocka_unit_test(more_threads_than_are_told_apart),
        cmocka_unit_test(more_names_than_a_trace_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
