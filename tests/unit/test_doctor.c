/* SPDX-License-Identifier: Apache-2.0 */
/* What doctor finds out (src/provenance/doctor.h): a home, a script, and interpreters for which
 * shell scripts stand in. */
#include "doctor.h"

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

static char folder[64];

/* All that was told, one line each: "state id: text". */
static char told[8000];

static void hear(void *user, enum tw_doctor_state state, const char *id, const char *text)
{
    (void)user;
    size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s %s: %s\n", tw_doctor_state_name(state), id, text);
}

static const struct tw_doctor doctor = {.tell = hear};

static int enter(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/twin-doctor-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    unsetenv("PYTHONHASHSEED");
    told[0] = '\0';
    return 0;
}

static int leave(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    tw_remove_tree(folder, NULL, NULL);
    return 0;
}

static void expect(const char *line)
{
    if (!strstr(told, line))
        fail_msg("expected \"%s\", told was:\n%s", line, told);
}

static void write_text(const char *path, const char *text)
{
    assert_int_equal(tw_write_file_atomic(path, text, strlen(text), NULL), 0);
}

/* An interpreter that prints this. */
static void ask(const char *printed)
{
    char *script = tw_printf("#!/bin/sh\ncat <<'END'\n%s\nEND\n", printed);
    write_text("python", script);
    assert_int_equal(chmod("python", 0755), 0);
    tw_free(script);
    told[0] = '\0';
    tw_doctor_python(&doctor, "./python");
}

static void test_home(void **state)
{
    (void)state;
    tw_doctor_home(&doctor, "new");
    expect(" home: new, ");
    assert_int_not_equal(access("new", F_OK), 0); /* looking around leaves nothing behind */
    assert_int_equal(mkdir("old", 0777), 0);
    tw_doctor_home(&doctor, "old");
    assert_int_equal(rmdir("old"), 0); /* it is there, and empty */
    write_text("file", "");
    tw_doctor_home(&doctor, "file/home");
    expect("no home: file/home cannot be written (");
}

static void test_interpreter(void **state)
{
    (void)state;
    ask("{\"version\": \"3.11.2\", \"executable\": \"/p\", \"numpy\": \"1.26\"}");
    expect("ok python: 3.11.2, /p\n");
    expect("ok numpy: 1.26\n");
    ask("a sitecustomize that prints\n{\"version\": \"3.7.9\", \"executable\": \"/p\"}");
    expect("limited python: 3.7.9, /p: supported are 3.8 and later\n");
    expect("absent numpy: not in this Python\n");
    ask("{\"version\": \"2.7.18\"}");
    expect("limited python: 2.7.18, ./python: supported are 3.8 and later\n");
    ask("no JSON");
    expect("no python: ./python ran the probe and gave no answer (exit status 0)");
    assert_null(strstr(told, "arming"));
}

static void test_interpreter_that_is_not_there(void **state)
{
    (void)state;
    tw_doctor_python(&doctor, "./nowhere");
    expect("no python: ");
}

static void test_hooks(void **state)
{
    (void)state;
    ask("{\"version\": \"3.11.2\", \"torch\": null, \"why\": \"No module\", \"missing\": []}");
    expect("absent torch: not in this Python (No module)");
    ask("{\"version\": \"3.11.2\", \"torch\": \"2.1\", \"cuda\": true, \"missing\": []}");
    expect("ok torch: 2.1, all hooks available, CUDA usable\n");
    ask("{\"version\": \"3.11.2\", \"torch\": \"1.9\", \"missing\": "
        "[\"register_module_forward_hook\", \"TorchDispatchMode\", \"of_tomorrow\"]}");
    expect("limited torch: 1.9 is too old for some hooks, not seen: activations; single operations "
           "(zoom); of_tomorrow\n");
}

static void test_hash_seed(void **state)
{
    (void)state;
    setenv("PYTHONHASHSEED", "7", 1);
    ask("no JSON");
    expect("ok hash seed: PYTHONHASHSEED=7 in this shell");
}

static void test_scripts(void **state)
{
    (void)state;
    write_text("clean.py", "print(1)\n");
    write_text("seeds.py", "import os\nos.environ[\"PYTHONHASHSEED\"] = \"0\"\n");
    tw_doctor_script(&doctor, "clean.py");
    expect("ok script: clean.py: none of the habits");
    tw_doctor_script(&doctor, "seeds.py");
    expect("limited hash-seed: seeds.py:2: ");
    tw_doctor_script(&doctor, "nowhere.py");
    expect("no script: nowhere.py: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_home, enter, leave),
        cmocka_unit_test_setup_teardown(test_interpreter, enter, leave),
        cmocka_unit_test_setup_teardown(test_interpreter_that_is_not_there, enter, leave),
        cmocka_unit_test_setup_teardown(test_hooks, enter, leave),
        cmocka_unit_test_setup_teardown(test_hash_seed, enter, leave),
        cmocka_unit_test_setup_teardown(test_scripts, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
