/* SPDX-License-Identifier: Apache-2.0 */
/* What `twinrun top` says of a run that goes on: which ranks are behind, which no agent is in, and
 * what of it comes first. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"

#include "src/watch/watch.h"

#include <jansson.h>

static struct twin_run run;

/* A run whose ranks 0, 1, ... have ended so many steps; -1: no such rank has told anything. */
static struct tw_flight flight(size_t ranks, const int *steps, uint32_t expected)
{
    struct tw_flight f = {
        .dir = "/h/runs/2026-01-01T00-00-00Z-x", .run = &run, .running = true, .state = "running"};
    f.rate = f.now.cpu = f.now.rss = f.now.rate = f.now.age_s = NAN;
    f.ranks.expected = expected;
    f.ranks.step = UINT64_MAX;
    for (size_t i = 0; i < ranks; i++) {
        if (steps[i] < 0)
            continue;
        f.ranks.rank[f.ranks.count++] = (struct twin_progress_rank){.rank = (int32_t)i,
                                                                    .steps = (uint64_t)steps[i]};
        if ((uint64_t)steps[i] < f.ranks.step)
            f.ranks.step = (uint64_t)steps[i];
    }
    return f;
}

static void expect_words(const struct tw_flight *f, bool figures, const char *words)
{
    char *said = tw_flight_ranks_words(f, figures);
    assert_non_null(said);
    assert_string_equal(said, words);
    tw_free(said);
}

static void expect_note(const struct tw_flight *f, const char *note, bool alarms)
{
    char text[64];
    assert_string_equal(tw_flight_note(f, text), note);
    assert_int_equal(tw_flight_alarms(f), alarms);
}

static void test_ranks(void **state)
{
    (void)state;
    struct tw_flight f = flight(1, (int[]){5}, 0);
    expect_words(&f, true, "rank 0 alone");
    expect_note(&f, "no reference", false);
    /* one step is no lag, two are */
    f = flight(3, (int[]){7, 6, 7}, 3);
    expect_words(&f, true, "3 ranks in step");
    expect_note(&f, "no reference", false);
    f = flight(3, (int[]){7, 5, 7}, 3);
    expect_words(&f, true, "rank 1 is behind (5 of 7 steps)");
    expect_words(&f, false, "rank 1 is behind");
    expect_note(&f, "rank 1 behind", true);
    f = flight(7, (int[]){0, 0, 0, 0, 0, 0, 9}, 0);
    expect_words(&f, false, "ranks 0, 1, 2, 3 and 2 more are behind");
    expect_note(&f, "6 ranks behind", true);
    /* a run that has ended has nobody behind */
    f.running = false;
    f.state = "ok";
    expect_note(&f, "ok", false);
}

static void test_unarmed(void **state)
{
    (void)state;
    struct tw_flight f = flight(4, (int[]){3, -1, 3, 3}, 4);
    assert_int_equal(tw_flight_unarmed(&f), 1);
    assert_true(tw_flight_is_unarmed(&f, 1) && !tw_flight_is_unarmed(&f, 0));
    expect_words(&f, true, "3 ranks in step; rank 1 has not been armed, or has recorded nothing");
    expect_note(&f, "1 not armed", true);
    /* ranks of a machine that do not begin at 0: how many, and never which */
    f = flight(4, (int[]){-1, -1, 3, 3}, 3);
    assert_int_equal(tw_flight_unarmed(&f), 1);
    for (int32_t i = 0; i < 4; i++)
        assert_false(tw_flight_is_unarmed(&f, i));
    expect_words(&f, true,
                 "2 ranks in step; 1 of 3 ranks of this machine has not been armed, or has "
                 "recorded nothing");
    /* more processes than can be told: then none is said to be missing */
    f.ranks.full = true;
    assert_int_equal(tw_flight_unarmed(&f), 0);
    expect_words(&f, true, "2 ranks in step; more processes than the 64 that can be told");
    f = flight(0, NULL, 0);
    expect_words(&f, true, "not watched");
    run.agents = true;
    expect_words(&f, true, "nothing has been recorded");
    run.agents = false;
}

/* What stands first: a divergence before ranks that differ before those that are not there. */
static void test_note(void **state)
{
    (void)state;
    struct tw_flight f = flight(2, (int[]){3, 0}, 3);
    f.parity_differs = true;
    expect_note(&f, "ranks differ", true);
    f.reference = TW_FLIGHT_DIVERGED;
    f.reference_name = "a\x1b[31m";
    f.diverged_step = 17;
    expect_note(&f, "DIVERGED at 17", true);
    char *said = tw_flight_reference_words(&f);
    assert_string_equal(said, "diverged from a\\x1b[31m at step 17");
    tw_free(said);
    f.running = false;
    f.state = "exit 1";
    expect_note(&f, "exit 1, DIVERGED at 17", true);
    f = flight(1, (int[]){3}, 0);
    f.reference = TW_FLIGHT_NOT_YET;
    f.reference_name = "a";
    expect_note(&f, "none so far", false);
    said = tw_flight_reference_words(&f);
    assert_null(strstr(said, "same"));
    assert_string_equal(said, "no divergence from a seen so far");
    tw_free(said);
    f.reference = TW_FLIGHT_NOT_READ;
    expect_note(&f, "not comparable", false);
}

static void test_json(void **state)
{
    (void)state;
    struct tw_flight f = flight(2, (int[]){3, 0}, 3);
    json_t *j = tw_flight_json(&f);
    assert_non_null(j);
    assert_true(json_is_null(json_object_get(j, "reference")));
    assert_true(json_is_null(json_object_get(j, "steps_per_s")));
    const json_t *ranks = json_object_get(j, "ranks");
    assert_int_equal(json_array_size(ranks), 2);
    assert_false(json_is_true(json_object_get(json_array_get(ranks, 0), "behind")));
    assert_true(json_is_true(json_object_get(json_array_get(ranks, 1), "behind")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "not_armed"), "count")),
                     1);
    json_t *whole = j;
    uint64_t n = 1;
    for (j = NULL; !j; n++) { /* without memory: no object, or all of it */
        tw_alloc_fail_at(n, true);
        j = tw_flight_json(&f);
        tw_alloc_fail_at(0, false);
        assert_true(n < 1000);
    }
    assert_true(json_equal(j, whole));
    json_decref(j);
    json_decref(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_unarmed),
        cmocka_unit_test(test_note),
        cmocka_unit_test(test_json),
    };
    run.label = "";
    run.id = "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
