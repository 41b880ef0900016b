/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a confirmation by themselves: the arrangement and its p value, and how a search ends
 * when the divergence does. */
#include "search_inside.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Against the count of all arrangements: those of n runs, `pinned` of them pinned, in which the
 * first `parted` runs are all free. */
static double share_by_counting(unsigned n, unsigned pinned, unsigned parted)
{
    unsigned all = 0, convincing = 0;
    for (unsigned set = 0; set < 1u << n; set++) {
        if ((unsigned)__builtin_popcount(set) != pinned)
            continue;
        all++;
        convincing += (set & ((1u << parted) - 1)) == 0;
    }
    return (double)convincing / all;
}

static void p_is_the_share_of_arrangements(void **state)
{
    (void)state;
    assert_true(fabs(tw_block_p(4, 4, 4) - 1. / 70) < 1e-12);
    assert_true(fabs(tw_block_p(4, 3, 4) - 1. / 35) < 1e-12);
    for (unsigned free = 1; free <= 6; free++)
        for (unsigned pinned = 1; pinned <= 6; pinned++)
            for (unsigned parted = 0; parted <= free; parted++)
                assert_true(fabs(tw_block_p(free, pinned, parted) -
                                 share_by_counting(free + pinned, pinned, parted)) < 1e-12);
}

/* Each of the 35 arrangements of 4 and 3 comes up as often as another one: chi-square with 34
 * degrees of freedom. */
static void arrangements_are_uniform(void **state)
{
    static unsigned seen[128];
    const unsigned draws = 35000;
    double chi2 = 0;
    unsigned kinds = 0;
    (void)state;
    for (unsigned i = 0; i < draws; i++) {
        uint32_t kind[7] = {0, 0, 0, 1, 1, 1, 1};
        unsigned set = 0;
        tw_block_draw(i / 100 + 1, i % 10, i / 10 % 10, kind, 7);
        for (unsigned k = 0; k < 7; k++)
            set |= kind[k] << k;
        assert_int_equal(__builtin_popcount(set), 4);
        seen[set]++;
    }
    for (unsigned set = 0; set < 128; set++) {
        if (seen[set] == 0)
            continue;
        kinds++;
        chi2 += pow(seen[set] - draws / 35., 2) / (draws / 35.);
    }
    assert_int_equal(kinds, 35);
    assert_true(twin_stats_chi2_upper(chi2, 34) > 1e-4);
    uint32_t a[8] = {0, 1, 0, 1, 0, 1, 0, 1}, b[8] = {0, 1, 0, 1, 0, 1, 0, 1};
    tw_block_draw(7, 1, 0, a, 8);
    tw_block_draw(7, 1, 0, b, 8);
    assert_memory_equal(a, b, sizeof a); /* the same seed, the same arrangement */
}

/* A job that nearly always parts is confirmed with 4 and 4; rarer ones get blocks that make
 * progress. */
static void blocks_fit_the_rate(void **state)
{
    double last = INFINITY;
    (void)state;
    struct tw_block always = tw_block_choose(.95, 40, NULL);
    assert_int_equal(always.free + always.pinned, 8);
    for (double rate = .05; rate < .96; rate += .05) {
        double expected;
        struct tw_block block = tw_block_choose(rate, 40, &expected);
        assert_true(block.free >= 1 && block.pinned >= 1);
        assert_true(expected <= last && expected >= 8);
        last = expected;
    }
}

/* Natural comparisons as a text: '.' agreed with the usual class, 'x' parted from it. */
static struct tw_search traced(const char *text, struct tw_arm *arm, struct tw_trace *trace,
                               const struct twin_search_plan *plan)
{
    struct tw_search s = {
        .plan = plan, .arm = arm, .arm_count = 1, .trace = trace, .trace_length = strlen(text)};
    *arm = (struct tw_arm){.classes = 1, .class = {{.first = 1, .runs = 1}}};
    for (size_t i = 0; i < s.trace_length; i++) {
        trace[i] = (struct tw_trace){text[i] == 'x' ? -1 : 0, (uint32_t)i + 2};
        arm->class[0].runs += text[i] != 'x';
    }
    return s;
}

static void a_divergence_that_went_away(void **state)
{
    static const struct {
        const char *text;
        bool gone;
        uint32_t last;
    } row[] = {
        {"", false, 0},
        {"xx", false, 3},
        {"xx..", false, 3},
        {"xxxxxxxx", false, 9},
        {"xxxxxxxx.......", true, 9},
        {"x....x....x...x........", false, 16},
        {"........", false, 0},
    };
    static struct tw_arm arm;
    struct tw_trace trace[64];
    const struct twin_search_plan plan = {.candidates = 1};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct tw_search s = traced(row[i].text, &arm, trace, &plan);
        assert_int_equal(tw_gone(&s), row[i].gone);
        assert_int_equal(tw_last_parted(&s), row[i].last);
    }
}

static void clusters_are_seen(void **state)
{
    static struct tw_arm arm;
    struct tw_trace trace[64];
    const struct twin_search_plan plan = {.candidates = 1, .p1 = .2};
    (void)state;
    struct tw_search mixed = traced("x..x.x..xx.x..x.", &arm, trace, &plan);
    assert_true(tw_correlation(&mixed).effective == 1);
    assert_int_equal(tw_more_clean(&mixed, 0, 0), 14);
    struct tw_search bursts = traced("xxxxxxxx........xxxxxxx.........", &arm, trace, &plan);
    struct twin_search_correlation c = tw_correlation(&bursts);
    assert_true(c.p < .001 && c.rho > .7 && c.effective < .2);
    assert_true(tw_more_clean(&bursts, 0, 0) > 60); /* 14 comparisons of so many */
    assert_true(tw_rate_bound(&bursts, 0, 14) > .5);
    assert_true(tw_rate_bound(&bursts, 3, 3) == 1);
}

/* Swed and Eisenhart's tables (1943): P(R <= 3) for 5 and 5 is .040, P(R <= 2) .008; for 2 and 8,
 * P(R <= 3) is .2. */
static void runs_test(void **state)
{
    (void)state;
    assert_true(fabs(twin_stats_few_runs(5, 5, 3) - .0396825) < 1e-6);
    assert_true(fabs(twin_stats_few_runs(5, 5, 2) - .0079365) < 1e-6);
    assert_true(fabs(twin_stats_few_runs(2, 8, 3) - 10. / 45) < 1e-9);
    assert_true(fabs(twin_stats_few_runs(4, 7, 11) - 1) < 1e-9);
    assert_true(isnan(twin_stats_few_runs(0, 5, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p_is_the_share_of_arrangements),
        cmocka_unit_test(arrangements_are_uniform),
        cmocka_unit_test(blocks_fit_the_rate),
        cmocka_unit_test(a_divergence_that_went_away),
        cmocka_unit_test(clusters_are_seen),
        cmocka_unit_test(runs_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
