/* SPDX-License-Identifier: Apache-2.0 */
/* The search between two arms, against simulated commands of which it is known what makes B part
 * from A. */
#include "base.h"

#include "src/isolate/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DIFFERENCES = 8 };

/*
 * A run parts from A's first when all differences of one of the terms are as in B; and by chance.
 */
struct pair {
    uint64_t term[3];
    double rate, noise;     /* of a term that holds; of A and all others */
    uint64_t fails;         /* with these as in B the job fails */
    uint64_t fails_without; /* ... and fails_without is not */
    bool a_fails;
    uint64_t random;
    uint64_t first;       /* handle of A's first run */
    bool other_reference; /* something was compared with another run */
    uint32_t made;
    int count; /* differences of this search */
    bool thorough;
    struct twin_search_log *log; /* of a search to go on with; NULL: none */
};

static double uniform(struct pair *p)
{
    p->random = tw_mix64(p->random + 1);
    return (double)(p->random >> 11) * 0x1p-53;
}

static int runs(void *user, const struct twin_search_request *q, size_t n,
                struct twin_search_result *out, struct twin_error *err)
{
    struct pair *p = user;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        uint64_t as_b = 0;
        bool holds = false;
        for (int d = 0; d < p->count; d++)
            as_b |= (uint64_t)(q[i].setting[d].mode == TWIN_FREE || q[i].setting[d].value > 0) << d;
        for (size_t t = 0; t < 3; t++)
            holds |= p->term[t] && (as_b & p->term[t]) == p->term[t];
        p->made++;
        out[i] = (struct twin_search_result){.handle = q[i].number,
                                             .layer = twin_search_layer("forward"),
                                             .steps = 10,
                                             .seconds = 1};
        if (((as_b & p->fails) && !(as_b & p->fails_without)) || (p->a_fails && !as_b))
            out[i].status = TWIN_ENDED_BADLY;
        else if (!p->first)
            p->first = q[i].number;
        p->other_reference |= q[i].reference && q[i].reference != p->first;
        double u = uniform(p);
        out[i].parted = q[i].reference && u < (holds ? p->rate : p->noise);
        out[i].agrees = out[i].parted ? q[i].number - 1 : 0;
    }
    return 0;
}

static struct twin_search_report *search(struct pair *p, size_t count)
{
    static const char *const ids[DIFFERENCES] = {"env:A",   "env:B",   "program", "arg:1",
                                                 "arg:--c", "arg:--d", "arg:--e", "arg:--f"};
    struct twin_candidate candidate[DIFFERENCES];
    for (size_t i = 0; i < DIFFERENCES; i++)
        candidate[i] = (struct twin_candidate){
            .id = ids[i], .layer = "environment", .can_pin = true, .settable = true};
    struct twin_search_plan plan;
    struct twin_search_report *r = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    p->count = (int)count;
    struct twin_search_options o = {
        .arms = true, .thorough = p->thorough, .seed = p->log ? 7 : 1 + p->random};
    if (twin_search_plan(candidate, count, &o, &plan, &err) != 0 ||
        twin_search(candidate, &plan, runs, NULL, p, p->log, &r, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(p->made, r->runs);
    assert_false(p->other_reference);
    assert_true(r->runs <= plan.max_runs);
    if (getenv("SEARCH_DEBUG")) {
        char *text = twin_search_verdict_text(r, candidate);
        printf("%s\n", text);
        tw_free(text);
    }
    return r;
}

static uint64_t causes(const struct twin_search_report *r)
{
    uint64_t set = 0;
    for (size_t i = 0; i < r->cause_count; i++)
        set |= UINT64_C(1) << r->cause[i].candidate;
    return set;
}

/* One difference of eight that always acts is named within 22 runs: 9 of them are the confirmation,
 * in an arrangement drawn beforehand. */
static void one_of_eight(void **state)
{
    (void)state;
    for (int d = 0; d < DIFFERENCES; d++) {
        struct pair p = {.term = {UINT64_C(1) << d}, .rate = 1, .random = 3};
        struct twin_search_report *r = search(&p, DIFFERENCES);
        assert_int_equal(r->outcome, TWIN_SEARCH_ISOLATED);
        assert_int_equal(causes(r), p.term[0]);
        assert_true(r->runs <= 22);
        assert_int_equal(r->cause[0].necessary.parted, r->cause[0].necessary.trials);
        assert_true(r->cause[0].necessary.trials >= 3 && r->cause[0].p <= .05 * .58);
        assert_int_equal(r->cause[0].sufficient.parted, 0);
        assert_int_equal(r->applied.parted, r->applied.trials);
        assert_true(r->cause[0].p_adjusted <= .05 && r->p_applied <= .05);
        twin_search_report_free(r);
    }
}

static void the_only_one(void **state)
{
    (void)state;
    struct pair p = {.term = {1}, .rate = 1, .random = 3};
    struct twin_search_report *r = search(&p, 1);
    assert_int_equal(r->outcome, TWIN_SEARCH_ISOLATED);
    assert_int_equal(causes(r), 1);
    assert_true(r->runs <= 16);
    twin_search_report_free(r);
}

/* Either alone makes A part: both have to be set back. Both together do: one is enough, the other
 * is its alternative. */
static void two_differences(void **state)
{
    (void)state;
    uint32_t most_either = 0, most_both = 0;
    for (int i = 0; i < DIFFERENCES; i++)
        for (int j = 0; j < i; j++) {
            struct pair either = {
                .term = {UINT64_C(1) << i, UINT64_C(1) << j}, .rate = 1, .random = 3};
            struct pair both = {
                .term = {UINT64_C(1) << i | UINT64_C(1) << j}, .rate = 1, .random = 3};
            struct twin_search_report *r = search(&either, DIFFERENCES);
            assert_int_equal(r->outcome, TWIN_SEARCH_ISOLATED);
            assert_int_equal(causes(r), either.term[0] | either.term[1]);
            most_either = r->runs > most_either ? r->runs : most_either;
            twin_search_report_free(r);
            r = search(&both, DIFFERENCES);
            assert_int_equal(r->outcome, TWIN_SEARCH_ISOLATED);
            assert_int_equal(r->cause_count, 1);
            assert_int_equal(causes(r) | r->cause[0].alternatives.word[0], both.term[0]);
            most_both = r->runs > most_both ? r->runs : most_both;
            twin_search_report_free(r);
        }
    printf("two differences: at most %u runs when either makes A diverge, %u when only both do\n",
           most_either, most_both);
    assert_true(most_either <= 40 && most_both <= 52);
}

/* B is right only sometimes. */
static void by_chance(void **state)
{
    (void)state;
    unsigned right = 0, wrong = 0, trials = 200;
    for (unsigned i = 0; i < trials; i++) {
        struct pair p = {.term = {UINT64_C(1) << i % DIFFERENCES}, .rate = .5, .random = i * 1000};
        struct twin_search_report *r = search(&p, DIFFERENCES);
        right += r->outcome == TWIN_SEARCH_ISOLATED && causes(r) == p.term[0];
        wrong += r->outcome == TWIN_SEARCH_ISOLATED && causes(r) != p.term[0];
        twin_search_report_free(r);
    }
    printf("B diverges in one of two comparisons: %u of %u right, %u wrong\n", right, trials,
           wrong);
    assert_true(right * 100 >= trials * 90 && wrong * 100 <= trials * 2);
}

/* What parts by chance in either arm is not to be pinned on a difference. */
static void never_blamed(void **state)
{
    (void)state;
    static const double noise[] = {0, .1, .3, .6};
    for (size_t k = 0; k < sizeof noise / sizeof *noise; k++) {
        unsigned blamed = 0, trials = 400;
        for (unsigned i = 0; i < trials; i++) {
            struct pair p = {.noise = noise[k], .random = i * 1000 + 5};
            struct twin_search_report *r = search(&p, DIFFERENCES);
            blamed += r->outcome == TWIN_SEARCH_ISOLATED;
            if (noise[k] == 0)
                assert_int_equal(r->outcome, TWIN_SEARCH_NO_DIVERGENCE);
            assert_true(r->outcome == TWIN_SEARCH_ISOLATED || r->cause_count == 0);
            twin_search_report_free(r);
        }
        printf("both arms diverge in %g of comparisons: blamed in %u of %u\n", noise[k], blamed,
               trials);
        assert_true(blamed * 20 <= trials);
    }
}

/* A mix that no command was meant to be: its failing is not taken for an effect of the difference
 * without a word. */
static void mixes_that_fail(void **state)
{
    (void)state;
    for (int i = 0; i < DIFFERENCES; i++)
        for (int j = 0; j < DIFFERENCES; j++) {
            struct pair p = {.term = {UINT64_C(1) << i},
                             .rate = 1,
                             .random = 3,
                             .fails = UINT64_C(1) << j,
                             .fails_without = UINT64_C(1) << i};
            struct twin_search_report *r = i == j ? NULL : search(&p, DIFFERENCES);
            for (size_t k = 0; r && k < r->cause_count; k++) {
                assert_true(r->cause[k].candidate == (size_t)i ||
                            r->cause[k].candidate == (size_t)j);
                assert_true((r->cause[k].failed > 0) == (r->cause[k].candidate == (size_t)j));
            }
            if (r) {
                assert_int_equal(r->outcome, TWIN_SEARCH_ISOLATED);
                assert_true(causes(r) & p.term[0]);
            }
            twin_search_report_free(r);
        }
}

static void same_report(const struct twin_search_report *a, const struct twin_search_report *b)
{
    assert_int_equal(a->outcome, b->outcome);
    assert_int_equal(causes(a), causes(b));
    assert_int_equal(a->runs, b->runs);
    assert_int_equal(a->left, b->left);
    assert_int_equal(a->sufficient, b->sufficient);
    assert_int_equal(a->applied.trials, b->applied.trials);
    assert_int_equal(a->repeats, b->repeats);
}

/* The log of a search goes on with --thorough: what was made is not made again, and the end is that
 * of a search which was thorough from the start. */
static void resumed_thorough(void **state)
{
    (void)state;
    static const struct pair worlds[] = {
        {.term = {1}, .rate = 1},
        {.term = {UINT64_C(1) << 5}, .rate = .5},
        {.term = {2, 16}, .rate = 1},
        {.term = {2 | 16}, .rate = 1},
        {.term = {4}, .rate = 1, .noise = .03},
        {.term = {4}, .rate = .7, .noise = .1},
    };
    unsigned sufficient = 0, resumed = 0;
    for (size_t k = 0; k < sizeof worlds / sizeof *worlds; k++)
        for (uint64_t i = 0; i < 20; i++) {
            struct twin_search_log log = {0}, other = {0};
            struct pair p = worlds[k], fresh = worlds[k];
            p.random = fresh.random = 11 + i * 1000;
            p.log = &log;
            struct twin_search_report *plain = search(&p, DIFFERENCES), *r;
            bool main_cause = plain->outcome == TWIN_SEARCH_ISOLATED;
            p.thorough = true;
            r = search(&p, DIFFERENCES);
            assert_true(r->runs >= plain->runs);
            fresh.thorough = true;
            fresh.log = &other;
            struct twin_search_report *whole = search(&fresh, DIFFERENCES);
            same_report(r, whole);
            resumed += r->runs > plain->runs;
            sufficient += main_cause && r->sufficient;
            /* what the first search said to be left is what the second makes, when all of it is
             * clean */
            if (main_cause && r->sufficient && causes(r) == causes(plain))
                assert_true(r->left >= plain->left + plain->more);
            twin_search_report_free(plain);
            twin_search_report_free(r);
            twin_search_report_free(whole);
            twin_search_log_free(&log);
            twin_search_log_free(&other);
        }
    printf("thorough goes on: %u of 120 made more runs, %u were shown sufficient\n", resumed,
           sufficient);
    assert_true(sufficient >= 80);
}

static void ends(void **state)
{
    (void)state;
    struct pair unsteady = {.term = {1}, .rate = 1, .noise = 1, .random = 3};
    struct twin_search_report *r = search(&unsteady, DIFFERENCES);
    assert_int_equal(r->outcome, TWIN_SEARCH_UNSTEADY);
    assert_int_equal(r->runs, 2);
    twin_search_report_free(r);
    struct pair a_fails = {.term = {1}, .rate = 1, .a_fails = true, .random = 3};
    r = search(&a_fails, DIFFERENCES);
    assert_int_equal(r->outcome, TWIN_SEARCH_JOB_FAILS);
    twin_search_report_free(r);
    struct pair b_fails = {.fails = 8, .random = 3};
    r = search(&b_fails, DIFFERENCES);
    assert_int_equal(r->outcome, TWIN_SEARCH_ISOLATED);
    assert_int_equal(causes(r), 8);
    twin_search_report_free(r);
    struct twin_candidate one = {
        .id = "env:A", .layer = "environment", .can_pin = true, .settable = true};
    struct twin_search_plan plan;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_search_plan(&one, 1,
                                      &(struct twin_search_options){.arms = true, .max_runs = 12},
                                      &plan, &err),
                     TWIN_EINVAL);
    assert_non_null(strstr(err.message, "too small"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_eight),     cmocka_unit_test(the_only_one),
        cmocka_unit_test(two_differences),  cmocka_unit_test(by_chance),
        cmocka_unit_test(never_blamed),     cmocka_unit_test(mixes_that_fail),
        cmocka_unit_test(resumed_thorough), cmocka_unit_test(ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
