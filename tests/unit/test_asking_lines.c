/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the lines that ask matter: trials of simulated jobs. */
#include "src/isolate/asking_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

enum { MOST = 40 };

struct job {
    bool guilty[MOST], asleep[MOST]; /* asleep: does not ask in a trial */
    bool always;                     /* diverges by being tried */
    uint32_t fails_after;            /* trials; 0: never */
    uint32_t trials;
};

static int trial_of(void *user, const bool *other, size_t count, enum twin_line_trial *out,
                    struct twin_error *err)
{
    struct job *j = user;
    bool asked = false, met = false, diverged = j->always;
    if (j->fails_after && ++j->trials > j->fails_after)
        return twin_error_set(err, TWIN_EIO, "no more runs");
    for (size_t i = 0; i < count; i++) {
        asked |= other[i];
        met |= other[i] && !j->asleep[i];
        diverged |= other[i] && j->guilty[i] && !j->asleep[i];
    }
    *out = diverged ? TWIN_TRIAL_DIVERGES : TWIN_TRIAL_AGREES;
    if (asked && !met)
        *out = TWIN_TRIAL_VOID;
    return 0;
}

static void find(struct job *j, size_t count, uint32_t max_runs, const char *expected,
                 uint32_t runs_expected)
{
    static const char word[] = {
        [TWIN_LINE_NOT_TRIED] = '?', [TWIN_LINE_AGREES] = '.', [TWIN_LINE_DIVERGES] = 'D'};
    enum twin_line_answer answer[MOST];
    char text[MOST + 1] = {0};
    uint32_t runs = 0;
    assert_int_equal(twin_lines_test(count, max_runs, trial_of, j, answer, &runs, NULL), 0);
    for (size_t i = 0; i < count; i++)
        text[i] = word[answer[i]];
    assert_string_equal(text, expected);
    assert_int_equal(runs, runs_expected);
}

static void test_few(void **state)
{
    (void)state;
    find(&(struct job){.guilty = {[3] = true}}, 4, 12, "...D", 4);
    find(&(struct job){.guilty = {[0] = true, [2] = true}}, 3, 12, "D.D", 3);
    find(&(struct job){{false}}, 2, 12, "..", 2);
}

static void test_many(void **state)
{
    (void)state;
    find(&(struct job){.guilty = {[6] = true}}, 8, 12, "......D.", 6);
    find(&(struct job){.guilty = {[39] = true}}, 40, 14, ".......................................D",
         12);
    find(&(struct job){{false}}, 40, 14, "........................................", 2);
}

/* A line that did not ask in its trial is neither guilty nor acquitted. */
static void test_asleep(void **state)
{
    (void)state;
    find(&(struct job){.guilty = {[1] = true}, .asleep = {[1] = true}}, 3, 12, ".?.", 3);
}

/* Where every trial diverges, being tried is what does it; where that was the last run, nothing is
 * known of the others. */
static void test_control(void **state)
{
    (void)state;
    find(&(struct job){.always = true}, 3, 12, "???", 4);
    find(&(struct job){.guilty = {true, true, true}}, 3, 12, "DDD", 4);
}

static void test_budget(void **state)
{
    (void)state;
    find(&(struct job){.guilty = {[2] = true}}, 4, 3, "..??", 2);
    find(&(struct job){.guilty = {[2] = true}}, 4, 0, "????", 0);
}

static void test_error(void **state)
{
    struct job j = {.guilty = {[1] = true}, .fails_after = 2};
    enum twin_line_answer answer[3];
    uint32_t runs = 0;
    (void)state;
    assert_int_equal(twin_lines_test(3, 12, trial_of, &j, answer, &runs, NULL), TWIN_EIO);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(answer[i], TWIN_LINE_NOT_TRIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few),    cmocka_unit_test(test_many),
        cmocka_unit_test(test_asleep), cmocka_unit_test(test_control),
        cmocka_unit_test(test_budget), cmocka_unit_test(test_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
