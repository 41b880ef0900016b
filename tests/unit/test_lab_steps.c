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

/* An unseeded job is told what seeds it, by what it computes with. */
static void test_seed_advice(void **state)
{
    (void)state;
    enum { T = TWIN_USES_TORCH, F = TWIN_USES_TENSORFLOW, J = TWIN_USES_JAX };
    static const struct {
        unsigned uses;
        const char *text;
    } rows[] = {
        {0, "Seed it, or hold its seeds still: --pin seed.python,seed.numpy,seed.torch"},
        {T, "Seed it, or hold its seeds still: --pin seed.python,seed.numpy,seed.torch"},
        {F, "Seed it (tf.random.set_seed, of Keras keras.utils.set_random_seed), or hold its seeds "
            "still: --pin seed.python,seed.numpy,seed.tensorflow"},
        {J, "Seed it (jax.random.key of a fixed number), or hold its seeds still: --pin "
            "seed.python,seed.numpy,entropy"},
        {T | F | J,
         "Seed it (tf.random.set_seed, of Keras keras.utils.set_random_seed; jax.random.key of a "
         "fixed number), or hold its seeds still: --pin "
         "seed.python,seed.numpy,seed.tensorflow,entropy,seed.torch"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = tw_lab_seed_advice(rows[i].uses);
        assert_string_equal(text, rows[i].text);
        tw_free(text);
    }
}

/* ---- the jobs that come with twinrun */

static void put_file(const char *folder, const char *name)
{
    char *path = tw_path_join(folder, name);
    assert_int_equal(tw_write_file_atomic(path, "x", 1, NULL), 0);
    tw_free(path);
}

/* The trainer in C as a person would type it, with its data, its weights and its own factors. */
static void test_trainer(void **state)
{
    (void)state;
    char folder[] = "/tmp/twin-lab-XXXXXX", *data = NULL, *given = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_non_null(mkdtemp(folder));
    char *place = tw_path_join(folder, "data"),
         *weights = tw_path_join(folder, "model.safetensors");
    struct tw_lab lab = {.folder = tw_strdup(folder), .natural = {.plan = {.cpu = -1}}};
    /* nothing is there yet: the message names what was looked for */
    assert_int_equal(tw_lab_own_job(&lab, folder, &data, &err), TWIN_ENOENT);
    assert_non_null(strstr(err.message, "the trainer in C was not found"));
    assert_int_equal(tw_lab_own_job(&lab, NULL, &data, NULL), TWIN_ENOENT);
    put_file(folder, "trainer");
    assert_int_equal(tw_mkdirs(place, &err), 0);
    put_file(place, "images");
    assert_int_equal(tw_lab_own_job(&lab, folder, &data, &err), 0);
    assert_string_equal(data, place);
    assert_string_equal(lab.weights, weights);
    assert_non_null(strstr(lab.name, "trainer.c"));
    assert_non_null(strstr(lab.wanders, "not associative"));
    assert_non_null(strstr(lab.factor_file, "lab.toml"));
    char *typed = tw_shell_quote(lab.argv, lab.argc);
    char *expected = tw_printf("%s/trainer --seed 1 --steps 200 --lr 0.3 --quiet --checkpoint %s",
                               folder, weights);
    assert_string_equal(typed, expected);
    /* the data are weighed into the lab's folder, in the form that --data takes */
    assert_int_equal(tw_lab_weigh_data(&lab, data, &given, &err), 0);
    char *as_data = tw_printf("%s=%s/data.snapshot", place, folder);
    assert_string_equal(given, as_data);
    assert_int_equal(access(strchr(given, '=') + 1, R_OK), 0);
    tw_free(as_data);
    tw_free(expected);
    tw_free(typed);
    tw_free(given);
    tw_free(data);
    tw_free(place);
    tw_free(weights);
    tw_lab_fini(&lab);
    tw_remove_tree(folder, NULL, NULL);
}

/* An interpreter without PyTorch is named in the message. */
static void test_python_without_torch(void **state)
{
    (void)state;
    char *data = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_lab lab = {.args = {.torch = true, .python = "/bin/false"},
                         .folder = tw_strdup("/nowhere"),
                         .natural = {.plan = {.cpu = -1}}};
    assert_int_equal(tw_lab_own_job(&lab, "/nowhere", &data, &err), TWIN_ENOENT);
    assert_non_null(strstr(err.message, "found none in /bin/false"));
    assert_null(lab.argv);
    tw_free(data);
    tw_lab_fini(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps), cmocka_unit_test(test_seed_advice),
        cmocka_unit_test(test_folders), cmocka_unit_test(test_trainer),
        cmocka_unit_test(test_python_without_torch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
