/* SPDX-License-Identifier: Apache-2.0 */
/* What a person asks of two sets of values, from the words of the options
 * (src/study/significant_asked.h). */
#include "significant_asked.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "base.h"

static char folder[] = "/tmp/twin-asked-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    if (chdir("/") != 0)
        return -1;
    tw_remove_tree(folder, NULL, NULL);
    return 0;
}

static void write_text(const char *path, const char *text)
{
    assert_int_equal(tw_write_file_atomic(path, text, strlen(text), NULL), 0);
}

/* What the options give unless given. */
static struct tw_significant_words usual(void)
{
    return (struct tw_significant_words){.metric = "loss", .floor = "0", .alpha = "0.05"};
}

static struct tw_significant understood(struct tw_significant_words w)
{
    struct tw_significant s = {.measure = {.metric = TW_METRIC_IN_FILE}};
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_significant_understand(&w, &s, &err) != 0)
        fail_msg("%s", err.message);
    return s;
}

static void refused(struct tw_significant_words w, const char *why)
{
    struct tw_significant s = {.measure = {.metric = TW_METRIC_IN_FILE}};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(tw_significant_understand(&w, &s, &err), TWIN_EINVAL);
    if (!strstr(err.message, why))
        fail_msg("expected \"%s\", found \"%s\"", why, err.message);
}

static void test_questions(void **state)
{
    (void)state;
    struct tw_significant_words w = usual();
    assert_int_equal(understood(w).asked.question, TWIN_ASK_METRIC);
    w.metric = "wall"; /* times are asked for their ratio */
    assert_int_equal(understood(w).asked.question, TWIN_ASK_SPEED);
    w.question = "metric";
    assert_int_equal(understood(w).asked.question, TWIN_ASK_METRIC);
    w.question = "bitwise";
    assert_int_equal(understood(w).asked.question, TWIN_ASK_BITWISE);
    w.question = "within";
    refused(w, "--within PERCENT asks that");
    w.question = "faster";
    refused(w, "expected metric, speed, variance or bitwise, found \"faster\"");
    w.within = "5%";
    refused(w, "it does not go with --question");
    w.metric = "accuracy";
    refused(w, "accuracy");
}

static void test_margins(void **state)
{
    (void)state;
    struct tw_significant_words w = usual();
    w.within = "5%";
    assert_int_equal(understood(w).asked.question, TWIN_ASK_WITHIN);
    assert_true(fabs(understood(w).asked.margin - 1.05) < 1e-12);
    w.within = "5"; /* percent all the same */
    assert_true(fabs(understood(w).asked.margin - 1.05) < 1e-12);
    static const char *const wrong[] = {"0", "-1", "", "5 %", "nan", "inf", "1e999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        w.within = wrong[i];
        refused(w, "--within: expected percent");
    }
}

static void test_levels(void **state)
{
    (void)state;
    struct tw_significant_words w = usual();
    w.alpha = "1%";
    assert_true(fabs(understood(w).asked.alpha - .01) < 1e-12);
    static const char *const wrong[] = {"0", "0.5", "50%", "-0.1", "x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        w.alpha = wrong[i];
        refused(w, "--alpha: expected a number above 0 and below 0.5");
    }
}

static void test_floors(void **state)
{
    (void)state;
    struct tw_significant_words w = usual();
    w.floor = "3e-7";
    assert_true(understood(w).asked.floor == 3e-7);
    w.floor = "0.5%"; /* a share does not fit values */
    refused(w, "expected a number in the unit of the values, found percent");
    w.metric = "wall";
    assert_true(fabs(understood(w).asked.floor - .005) < 1e-12);
    w.floor = "0.5";
    refused(w, "expected percent, as in --floor 0.5%");
    w.floor = "1%";
    w.question = "bitwise";
    refused(w, "--floor: expected a number in the unit of the values");
    w.question = NULL;
    w.within = "5%";
    w.floor = "1";
    refused(w, "--floor does not go with this question");
    w.within = NULL;
    w.floor = "nowhere.json";
    refused(w, "a file of twinrun spread --json, found \"nowhere.json\"");
}

static void test_floors_of_files(void **state)
{
    (void)state;
    struct tw_significant_words w = usual();
    struct twin_error err = TWIN_ERROR_INIT;
    double values[] = {-4, -2, -6};
    write_text("sum.json", "{\"schema\": \"twinrun.spread/1\", \"sum\": "
                           "{\"floor_relative\": 0.5}}");
    write_text("vector.json", "{\"schema\": \"twinrun.spread/1\", \"floor_relative_l2\": 0.25}");
    write_text("other.json", "{\"schema\": \"twinrun.check/1\", \"floor_relative_l2\": 1}");
    write_text("negative.json", "{\"schema\": \"twinrun.spread/1\", \"floor_relative_l2\": -1}");
    write_text("text", "0.5");
    w.floor = "vector.json";
    assert_true(understood(w).floor_relative == .25);
    w.floor = "sum.json";
    struct tw_significant s = understood(w);
    assert_string_equal(s.floor_file, "sum.json");
    assert_true(s.floor_relative == .5);
    /* in the unit of the values: a share of A's median, whatever its sign */
    s.set[0].x = values;
    s.set[0].n = 3;
    assert_int_equal(tw_significant_floor_in_units(&s, &err), 0);
    assert_true(s.asked.floor == 2);
    s.asked.question = TWIN_ASK_SPEED;
    assert_int_equal(tw_significant_floor_in_units(&s, &err), 0);
    assert_true(s.asked.floor == .5);
    w.floor = "other.json";
    refused(w, "other.json: expected what twinrun spread --json prints");
    w.floor = "negative.json";
    refused(w, "negative.json: expected what twinrun spread --json prints");
    w.floor = "text";
    refused(w, "it is not JSON: ");
    w.floor = "sum.json";
    w.question = "bitwise";
    refused(w, "--floor does not go with this question");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions),       cmocka_unit_test(test_margins),
        cmocka_unit_test(test_levels),          cmocka_unit_test(test_floors),
        cmocka_unit_test(test_floors_of_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
