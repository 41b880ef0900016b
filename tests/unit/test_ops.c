/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured of the catalogue of operations, and what becomes of a Python half that fails: a
 * shell script stands in for the interpreter. */
#include "ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

static char folder[64], python[96];
static char said[1000];

static int enter(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/twin-ops-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(python, sizeof python, "%s/interpreter", folder);
    said[0] = '\0';
    /* a Python half of an installation that holds nothing */
    static const char *const parts[] = {"_ops/__main__.py", "_site/sitecustomize.py"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char *path = tw_printf("%s/python/twinrun/%s", folder, parts[i]);
        *strrchr(path, '/') = '\0';
        assert_int_equal(tw_mkdirs(path, NULL), 0);
        path[strlen(path)] = '/';
        assert_int_equal(tw_write_file_atomic(path, "", 0, NULL), 0);
        tw_free(path);
    }
    setenv("TWINRUN_LIBDIR", folder, 1);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    tw_remove_tree(folder, NULL, NULL);
    return 0;
}

static void hear(void *user, const char *message)
{
    (void)user;
    snprintf(said, sizeof said, "%s", message);
}

/* Measures with an interpreter that runs these shell commands. What it was asked is in
 * folder/request. */
static int measure_with(const char *commands, const char *device, struct tw_ops_result *r)
{
    static const char *const patterns[] = {"scatter"};
    const struct tw_front front = {.say = hear};
    const struct tw_ops_asked a = {.python = python,
                                   .device = device,
                                   .threads = "1,3",
                                   .pattern = patterns,
                                   .pattern_count = 1,
                                   .runs = 4};
    char *script = tw_printf("#!/bin/sh\nprintf '%%s' \"$2\" >%s/request\n%s\n", folder, commands);
    assert_int_equal(tw_write_file_atomic(python, script, strlen(script), NULL), 0);
    assert_int_equal(chmod(python, 0755), 0);
    tw_free(script);
    *r = (struct tw_ops_result){.count = 0};
    assert_int_equal(tw_ops_choose(&a, r, NULL), 0);
    return tw_ops_measure(&a, r, &front);
}

static void threads_are(const char *text, const char *expected)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_ops_result r = {.count = 0};
    const struct tw_ops_asked a = {.device = "cpu", .threads = text, .runs = 2};
    int rc = tw_ops_choose(&a, &r, &err);
    if (expected) {
        char *list = json_dumps(r.threads, JSON_COMPACT);
        assert_int_equal(rc, 0);
        assert_string_equal(list, expected);
        free(list);
    } else {
        assert_int_equal(rc, TWIN_EINVAL);
        assert_non_null(strstr(err.message, "--threads: expected at most 16 different numbers"));
    }
    tw_ops_free(&r);
}

static void test_numbers_of_threads(void **state)
{
    (void)state;
    threads_are("1", "[1]");
    threads_are("8,1,1024", "[8,1,1024]");
    threads_are("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
                "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]");
    threads_are("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", NULL);
    threads_are("", NULL);
    threads_are("0", NULL);
    threads_are("1025", NULL);
    threads_are("1,", NULL);
    threads_are("1,,2", NULL);
    threads_are("2,1,2", NULL);
    threads_are("two", NULL);
    threads_are("00000000001", NULL);
}

static void test_a_race_has_two_threads(void **state)
{
    (void)state;
    struct tw_ops_result r = {.count = 0};
    assert_int_equal(tw_ops_choose(&(struct tw_ops_asked){.runs = 2}, &r, NULL), 0);
    assert_int_equal(json_integer_value(json_array_get(r.threads, 0)), 1);
    assert_true(json_integer_value(json_array_get(r.threads, 1)) >= 2);
    assert_string_equal(r.device[0].name, "cpu");
    tw_ops_free(&r);
}

static void test_devices(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_ops_result r = {.count = 0};
    assert_int_equal(tw_ops_choose(&(struct tw_ops_asked){.device = "gpu"}, &r, &err), TWIN_EINVAL);
    assert_string_equal(err.message, "--device: expected cpu or cuda, found \"gpu\"");
    assert_int_equal(tw_ops_choose(&(struct tw_ops_asked){.device = "cuda"}, &r, &err), 0);
    assert_int_equal(r.count, 1);
    assert_string_equal(r.device[0].name, "cuda");
    tw_ops_free(&r);
}

static void test_rows_are_collected(void **state)
{
    (void)state;
    struct tw_ops_result r;
    char *request = NULL, *path = tw_path_join(folder, "request");
    size_t n = 0;
    int rc = measure_with("echo 'a noisy sitecustomize'\n"
                          "echo '{\"about\": {\"torch\": \"2\"}}'\n"
                          "echo '{\"progress\": {\"done\": 0, \"of\": 2}}'\n"
                          "echo '{\"row\": {\"op\": \"a\"}}'\n"
                          "echo '[1]'\n"
                          "echo '{\"row\": {\"op\": \"b\"}}'",
                          "cpu", &r);
    assert_int_equal(rc, 0);
    assert_string_equal(said, "");
    assert_int_equal(json_array_size(r.device[0].rows), 2);
    assert_non_null(json_object_get(r.device[0].about, "torch"));
    assert_int_equal(tw_read_file(path, 1000, &request, &n, NULL), 0);
    assert_string_equal(request, "{\"device\": \"cpu\", \"threads\": [1, 3], \"runs\": 4, "
                                 "\"patterns\": [\"scatter\"], \"limit\": 60}");
    tw_free(request);
    tw_free(path);
    tw_ops_free(&r);
}

/* On a GPU the number of threads of the CPU is no question. */
static void test_cuda_has_one_thread(void **state)
{
    (void)state;
    struct tw_ops_result r;
    char *request = NULL, *path = tw_path_join(folder, "request");
    size_t n = 0;
    assert_int_equal(measure_with("echo '{\"about\": {}}'", "cuda", &r), 0);
    assert_int_equal(tw_read_file(path, 1000, &request, &n, NULL), 0);
    assert_non_null(strstr(request, "\"device\": \"cuda\", \"threads\": [1],"));
    tw_free(request);
    tw_free(path);
    tw_ops_free(&r);
}

static void test_what_failed_is_said(void **state)
{
    (void)state;
    struct tw_ops_result r;
    assert_int_not_equal(measure_with("echo '{\"failed\": \"No module named torch\"}'", "cpu", &r),
                         0);
    assert_string_equal(said, "ops: nothing was measured: No module named torch; name an "
                              "interpreter that has PyTorch with --python");
    tw_ops_free(&r);
    assert_int_not_equal(measure_with("echo '{\"failed\": \"no such operation\"}'", "cpu", &r), 0);
    assert_string_equal(said, "ops: nothing was measured: no such operation");
    tw_ops_free(&r);
}

static void test_a_program_that_ends_early(void **state)
{
    (void)state;
    struct tw_ops_result r;
    assert_int_not_equal(measure_with("echo '{\"about\": {}}'; exit 3", "cpu", &r), 0);
    assert_non_null(strstr(said, "ended early (wait status 768)"));
    tw_ops_free(&r);
    assert_int_not_equal(measure_with("exit 0", "cpu", &r), 0);
    assert_non_null(strstr(said, "ended early (wait status 0)"));
    tw_ops_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_threads),
        cmocka_unit_test(test_a_race_has_two_threads),
        cmocka_unit_test(test_devices),
        cmocka_unit_test_setup_teardown(test_rows_are_collected, enter, leave),
        cmocka_unit_test_setup_teardown(test_cuda_has_one_thread, enter, leave),
        cmocka_unit_test_setup_teardown(test_what_failed_is_said, enter, leave),
        cmocka_unit_test_setup_teardown(test_a_program_that_ends_early, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
