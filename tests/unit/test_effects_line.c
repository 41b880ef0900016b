/* SPDX-License-Identifier: Apache-2.0 */
/* What became of pins, in one line (src/report/isolation/effects_line.h). */
#include "effects_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base.h"

enum { SETTINGS = 7 };

static const struct twin_factor factor[SETTINGS] = {
    {.id = "a"}, {.id = "b"}, {.id = "c"}, {.id = "d"}, {.id = "e"}, {.id = "f"}, {.id = "g"}};

static void expect(const struct twin_world *w, const struct twin_world_effect *e,
                   const char *left_out, bool quiet, const char *expected)
{
    char *line = tw_effects_line(w, e, left_out, "home/runs/r", quiet);
    assert_string_equal(line, expected);
    tw_free(line);
}

static void test_every_fate(void **state)
{
    (void)state;
    struct twin_setting setting[SETTINGS];
    for (size_t i = 0; i < SETTINGS; i++)
        setting[i] = (struct twin_setting){.factor = &factor[i], .mode = TWIN_PIN};
    setting[5].mode = setting[6].mode = TWIN_VARY;
    const struct twin_world w = {setting, SETTINGS};
    struct twin_world_effect e[SETTINGS] = {
        {TWIN_EFFECT_IN_FORCE, NULL},
        {TWIN_EFFECT_FAILED, (char *)"too late\n"},
        {TWIN_EFFECT_UNKNOWN, NULL},
        {TWIN_EFFECT_NOT_USED, (char *)"overridden: by train.py"},
        {TWIN_EFFECT_NOT_USED, (char *)"no call"},
        {TWIN_EFFECT_IN_FORCE, NULL},
        {TWIN_EFFECT_FAILED, NULL},
    };
    expect(&w, e, "h (no GPU)", false,
           "pinned: a; shaken: f; NOT pinned: b (too late\\x0a); NOT shaken: g; not known whether "
           "pinned: c; set by the job itself: d; not used by the job: e; left out: h "
           "(no GPU); run in home/runs/r");
    /* a pin that failed must not pass for one that took effect, even when quiet */
    expect(&w, e, "h (no GPU)", true, "NOT pinned: b (too late\\x0a); NOT shaken: g");
    for (size_t i = 0; i < SETTINGS; i++) {
        e[i] = (struct twin_world_effect){TWIN_EFFECT_IN_FORCE, NULL};
        setting[i].mode = TWIN_PIN;
    }
    expect(&w, e, NULL, false, "pinned: a, b, c, d, e, f, g; run in home/runs/r");
    expect(&w, e, NULL, true, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_fate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
