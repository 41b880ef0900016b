/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps of the lab are wanted, and where they leave their results (src/study/lab.h). */
#include "lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "base.h"

static void steps_are(const char *words, bool noise, bool pins, bool cost, bool config)
{
    struct tw_lab lab = {.args = {.steps = words}};
    assert_int_equal(tw_lab_choose_steps(&lab, NULL), 0);
    assert_int_equal(lab.step[TW_LAB_STEP_NOISE].wanted, noise);
    assert_int_equal(lab.step[TW_LAB_STEP_PINS].wanted, pins);
    assert_int_equal(lab.step[TW_LAB_STEP_COST].wanted, cost);
    assert_int_equal(lab.step[TW_LAB_STEP_CONFIG].wanted, config);
    assert_string_equal(lab.step[TW_LAB_STEP_PINS].id, "determinism");
}

static void test_steps(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", ",", "noise,", "noise,,cost", "nois", "noise,all"};
    steps_are("all", true, true, true, true);
    steps_are("noise", true, false, false, false);
    steps_are("config,determinism,config", false, true, false, true);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct tw_lab lab = {.args = {.steps = wrong[i]}};
        struct twin_error err = TWIN_ERROR_INIT;
        assert_int_equal(tw_lab_choose_steps(&lab, &err), TWIN_EINVAL);
        assert_non_null(strstr(err.message, "--step: expected all, or some of noise"));
    }
}

static void test_folders(void **state)
{
    (void)state;
    char home[] = "/tmp/twin-lab-XXXXXX";
    struct twin_error err = TWIN_ERROR_INIT;
    assert_non_null(mkdtemp(home));
    for (int i = 1; i <= 3; i++) {
        char *folder = tw_lab_new_folder(home, &err);
        char *expected = tw_printf("%s/labs/%d", home, i);
        assert_string_equal(folder, expected);
        assert_int_equal(access(folder, W_OK), 0);
        tw_free(folder);
        tw_free(expected);
    }
    assert_null(tw_lab_new_folder("/dev/null/home", &err));
    assert_true(err.code != 0);
    tw_remove_tree(home, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps),
                                       cmocka_unit_test(test_folders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
