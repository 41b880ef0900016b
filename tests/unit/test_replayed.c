/* SPDX-License-Identifier: Apache-2.0 */
/* Replays (src/package/replayed.h): what one came to, and how its run is started. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>

#include "replayed.h"

static void outcome_is_the_worst_that_was_seen(void **state)
{
    (void)state;
    static const struct {
        enum twin_verdict_outcome verdict;
        bool ended_alike, checkpoints_differ;
        enum tw_replay_outcome came_to;
    } cases[] = {
        {TWIN_SAME, true, false, TW_REPLAY_SAME},
        {TWIN_SAME, true, true, TW_REPLAY_DIFFERS},
        {TWIN_SAME, false, false, TW_REPLAY_DIFFERS},
        {TWIN_DIFFER, true, false, TW_REPLAY_DIFFERS},
        {TWIN_INCONCLUSIVE, true, false, TW_REPLAY_INCONCLUSIVE},
        {TWIN_INCONCLUSIVE, true, true, TW_REPLAY_DIFFERS},
        /* weights within a tolerance are no bits that agree */
        {TWIN_WITHIN_TOLERANCE, true, true, TW_REPLAY_WITHIN_TOLERANCE},
        {TWIN_WITHIN_TOLERANCE, false, true, TW_REPLAY_DIFFERS},
        {TWIN_FAILED, true, true, TW_REPLAY_FAILED},
        {TWIN_FAILED, false, false, TW_REPLAY_DIFFERS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(tw_replay_outcome_of(cases[i].verdict, cases[i].ended_alike,
                                              cases[i].checkpoints_differ),
                         cases[i].came_to);
}

static void run_is_started_as_it_was_recorded(void **state)
{
    (void)state;
    struct twin_unpacked u = {
        .record = json_pack("{s:s, s:i, s:i, s:[i,i], s:b, s:{s:{}, s:{s:i}}}", "level", "ops",
                            "max_steps", 20, "sketch_every", 3, "window", 4, 9, "lossless", 1,
                            "factors", "aslr", "affinity", "cpu", 1)};
    struct twin_launch_options o = tw_replay_launch_options(&u, "home");
    assert_int_equal(o.level, TWIN_LEVEL_OPS);
    assert_int_equal(o.max_steps, 20);
    assert_int_equal(o.sketch_every, 3);
    assert_int_equal(o.window_first, 4);
    assert_int_equal(o.window_last, 9);
    assert_true(o.lossless && o.no_aslr && o.on_cpu && !o.hot);
    assert_int_equal(o.cpu, 1);
    json_decref(u.record);
}

/* What a package says is foreign: numbers that do not fit, and words for numbers, count for none.
 */
static void foreign_record_is_not_believed(void **state)
{
    (void)state;
    struct twin_unpacked u = {.record = json_pack("{s:s, s:I, s:s, s:[s], s:s}", "level",
                                                  "everything", "max_steps",
                                                  (json_int_t)UINT32_MAX + 1, "sketch_every", "3",
                                                  "window", "4", "factors", "aslr")};
    struct twin_launch_options o = tw_replay_launch_options(&u, "home");
    assert_int_equal(o.level, TWIN_LEVEL_TENSORS);
    assert_int_equal(o.max_steps, 0);
    assert_int_equal(o.sketch_every, 0);
    assert_int_equal(o.window_first, 0);
    assert_true(o.window_last == UINT32_MAX);
    assert_false(o.no_aslr || o.on_cpu || o.lossless);
    json_decref(u.record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outcome_is_the_worst_that_was_seen),
        cmocka_unit_test(run_is_started_as_it_was_recorded),
        cmocka_unit_test(foreign_record_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
