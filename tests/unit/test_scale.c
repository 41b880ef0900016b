/* SPDX-License-Identifier: Apache-2.0 */
/* What a scaling study is asked (src/study/scale_asked.c): numbers of workers, work, price. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "scale_runs.h"

static char word[] = "--nproc={n}", other[] = "train.py";
static char *const job[] = {word, other, NULL};

/* Counts and works as a person gives them; each NULL: not given. */
static int ask(struct tw_scale *s, const char *counts, const char *per_step, const char *per_run,
               const char *price, struct twin_error *err)
{
    *s = (struct tw_scale){
        .argv = job,
        .args = {
            .counts = counts, .work_per_step = per_step, .work_per_run = per_run, .price = price}};
    *err = (struct twin_error)TWIN_ERROR_INIT;
    return tw_scale_understand(s, err);
}

static void what_is_understood(void **state)
{
    (void)state;
    struct tw_scale s;
    struct twin_error err;
    assert_int_equal(ask(&s, "8,1,4", NULL, NULL, NULL, &err), 0);
    assert_int_equal(s.counts, 3);
    assert_int_equal(s.count[0], 1);
    assert_int_equal(s.count[2], 8);
    assert_string_equal(s.work.unit, "steps");
    assert_false(s.work.per_run);
    assert_int_equal(ask(&s, "2", "32*{n}*{n},samples", NULL, "1.5", &err), 0);
    assert_true(s.work.each == 32 && s.work.power == 2 && s.price == 1.5);
    assert_string_equal(s.work.unit, "samples");
    assert_int_equal(ask(&s, "2", NULL, "1e6", NULL, &err), 0);
    assert_true(s.work.per_run && s.work.each == 1e6 && s.work.power == 0);
    assert_string_equal(s.work.unit, "units");
    assert_true(s.price == 0);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *counts, *per_step, *per_run, *price;
    } wrong[] = {
        {.counts = "0"},
        {.counts = "2,2"},
        {.counts = "2,,3"},
        {.counts = "2;3"},
        {.counts = ""},
        {.counts = "2", .per_step = "-1"},
        {.counts = "2", .per_step = "inf"},
        {.counts = "2", .per_step = "1*m"},
        {.counts = "2", .per_step = "1,"},
        {.counts = "2", .per_step = "1,two words"},
        {.counts = "2", .per_step = "1", .per_run = "1"},
        {.counts = "2", .price = "0"},
        {.counts = "2", .price = "1 EUR"},
    };
    struct tw_scale s;
    struct twin_error err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (ask(&s, wrong[i].counts, wrong[i].per_step, wrong[i].per_run, wrong[i].price, &err) !=
            TWIN_EINVAL)
            fail_msg("case %zu was taken", i);
}

/* Every run would be the same one. */
static void command_must_name_the_workers(void **state)
{
    (void)state;
    char *const plain[] = {other, NULL};
    struct tw_scale s = {.argv = plain, .args = {.counts = "1,2"}};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(tw_scale_understand(&s, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "expected {n} in the command"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_understood),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(command_must_name_the_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
