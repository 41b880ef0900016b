/* SPDX-License-Identifier: Apache-2.0 */
/* Which factors apply to a command, told from its program (src/isolate/applies.h). */
#include "applies.h"

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

static char folder[64] = "/tmp/twin-applies-XXXXXX";

static void write_program(const char *name, const char *text)
{
    assert_int_equal(tw_write_file_atomic(name, text, strlen(text), NULL), 0);
    assert_int_equal(chmod(name, 0755), 0);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return -1;
    /* an interpreter that can import nothing */
    write_program("python3.9", "#!/bin/sh\nexit 1\n");
    write_program("train", "#!/usr/bin/env -S python3 -E\n");
    write_program("plain", "#!/bin/sh\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (chdir("/") != 0)
        return -1;
    tw_remove_tree(folder, NULL, NULL);
    return 0;
}

static struct tw_factor_job look(const char *program)
{
    struct tw_factor_job j;
    struct twin_error err = TWIN_ERROR_INIT;
    char *argv[] = {(char *)(uintptr_t)program, NULL};
    if (tw_factor_job_look(&j, argv, &err) != 0)
        fail_msg("%s", err.message);
    return j;
}

static void test_what_a_program_is(void **state)
{
    (void)state;
    struct tw_factor_job j = look("./python3.9");
    assert_string_equal(j.python, "./python3.9");
    assert_false(j.starter || j.has.torch || j.has.numpy);
    tw_factor_job_free(&j);
    j = look("./train");
    assert_string_equal(j.python, "python3");
    tw_factor_job_free(&j);
    j = look("./plain");
    assert_null(j.python);
    assert_false(j.starter);
    tw_factor_job_free(&j);
    j = look("sh"); /* of PATH */
    assert_null(j.python);
    assert_true(j.starter);
    tw_factor_job_free(&j);
}

static void test_no_such_program(void **state)
{
    (void)state;
    struct tw_factor_job j;
    struct twin_error err = TWIN_ERROR_INIT;
    char *argv[] = {(char *)"no-such-program-anywhere", NULL};
    assert_int_equal(tw_factor_job_look(&j, argv, &err), TWIN_ENOENT);
    assert_string_equal(err.message, "there is no program no-such-program-anywhere in PATH");
    tw_factor_job_free(&j);
}

static void applies(struct twin_factor f, struct tw_factor_job j, const char *expected)
{
    char text[200];
    f.how = f.how ? f.how : "environment";
    assert_string_equal(tw_factor_applies(&f, &j, text, sizeof text), expected);
}

#define FACTOR(...) ((struct twin_factor){__VA_ARGS__})
#define JOB(...) ((struct tw_factor_job){__VA_ARGS__})

static void test_what_applies(void **state)
{
    (void)state;
    char *python = (char *)"python3";
    /* without a command only the machine decides */
    applies(FACTOR(.needs = "torch"), JOB(.given = false), "yes");
    applies(FACTOR(.unavailable = "no GPU here"), JOB(.given = false), "no: no GPU here");
    applies(FACTOR(.unavailable = "no GPU here"), JOB(.given = true, .starter = true),
            "no: no GPU here");
    /* an agent that cannot be loaded takes its factors along, and no others */
    const struct tw_factor_job bare = {.given = true, .no_agent = (char *)"static program"};
    applies(FACTOR(.how = "libc agent"), bare, "no: static program");
    applies(FACTOR(.how = "libc agent, environment"), bare, "no: static program");
    applies(FACTOR(.how = "python agent"), bare, "no: static program");
    applies(FACTOR(.how = "environment"), bare, "yes");
    /* what a shell starts decides */
    applies(FACTOR(.needs = "torch"), JOB(.given = true, .starter = true),
            "perhaps: what it starts decides");
    /* packages */
    applies(FACTOR(.needs = "python"), JOB(.given = true), "no: not a Python job by its name");
    applies(FACTOR(.needs = "python"), JOB(.given = true, .python = python), "yes");
    applies(FACTOR(.needs = "torch"), JOB(.given = true, .python = python, .has = {.numpy = true}),
            "no: python3 cannot import torch");
    applies(FACTOR(.needs = "numpy"), JOB(.given = true, .python = python, .has = {.torch = true}),
            "no: python3 cannot import numpy");
    applies(FACTOR(.needs = "numpy"), JOB(.given = true, .python = python, .has = {.numpy = true}),
            "yes");
    applies(FACTOR(.needs = NULL), JOB(.given = true), "yes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_program_is),
        cmocka_unit_test(test_no_such_program),
        cmocka_unit_test(test_what_applies),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
