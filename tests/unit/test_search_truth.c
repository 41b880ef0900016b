/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The campaign behind what isolate prints: the shipped search against simulated jobs whose truth is
 * known, in worlds that do not hold still. In each of them a wrong cause may be named in 5% of
 * searches at most, and "sufficient" said wrongly in 5%: when more than 20% of comparisons would
 * still part. A seeded part runs always; all of it (2,000 searches each) with TWINRUN_FULL set, or
 * as `test_search_truth 2000 SEED`. The bars for a part leave room for chance.
 *
 * A run has a content; runs part when their contents differ. Each cause gives a run, with its rate,
 * a content of its own, unless one of the cause's factors is pinned.
 */
#include "base.h"

#include "src/isolate/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { FACTORS = 16, CAUSES = 2, MOST_RUNS = 600, LAST = FACTORS - 1 };

static const struct twin_candidate candidate[FACTORS] = {
    {.id = "hash-seed", .layer = "environment", .can_pin = true},
    {.id = "dir-order", .layer = "data", .can_pin = true},
    {.id = "loader-workers", .layer = "data", .can_pin = true},
    {.id = "executor-order", .layer = "schedule", .shows = "data rng", .can_pin = true},
    {.id = "seed.python", .layer = "rng", .can_pin = true},
    {.id = "seed.numpy", .layer = "rng", .can_pin = true},
    {.id = "seed.torch", .layer = "rng", .can_pin = true},
    {.id = "entropy", .layer = "rng", .can_pin = true},
    {.id = "malloc-fill", .layer = "init", .can_pin = true},
    {.id = "threads",
     .layer = "forward",
     .shows = "init forward backward optimizer",
     .unit = TWIN_UNIT_EXPOSURE,
     .can_pin = true},
    {.id = "isa", .layer = "forward", .can_pin = true},
    {.id = "torch-deterministic",
     .layer = "backward",
     .shows = "forward backward",
     .unit = TWIN_UNIT_EXPOSURE,
     .can_pin = true},
    {.id = "clock", .layer = "environment", .can_pin = true},
    {.id = "aslr", .layer = "environment", .can_pin = true},
    {.id = "ddp-buckets", .layer = "collective", .can_pin = true},
    {.id = "affinity", .layer = "hardware", .can_pin = true, .last_resort = true},
};

/* Pinning either of the factors (-1: none) stops the cause. */
struct cause {
    int factor[2];
    double rate;
};

struct world {
    struct cause cause[CAUSES];
    uint32_t until; /* run after which nothing parts; 0: none */
    /* chance that the next run is as the last one was, for causes that no pin reaches */
    double persistence;
    bool few; /* a cause has one content, so that runs fall into classes */
    bool bad;
    uint64_t random;
    struct {
        uint64_t content, world;
    } run[MOST_RUNS];
};

static double uniform(struct world *w)
{
    w->random = tw_mix64(w->random + UINT64_C(0x9E3779B97F4A7C15));
    return (double)(w->random >> 11) * 0x1p-53;
}

static bool stopped(const struct cause *c, const struct twin_search_request *q)
{
    for (int i = 0; i < 2; i++)
        if (c->factor[i] >= 0 && q->setting[c->factor[i]].mode == TWIN_PIN)
            return true;
    return false;
}

static uint64_t content(struct world *w, const struct twin_search_request *q)
{
    uint64_t content = 0;
    if (w->persistence > 0 && uniform(w) >= w->persistence)
        w->bad = uniform(w) < w->cause[0].rate;
    for (int i = 0; i < CAUSES; i++) {
        const struct cause *c = &w->cause[i];
        bool acts = uniform(w) < c->rate;
        if (w->persistence > 0)
            acts = i == 0 && w->bad;
        if (c->rate == 0 || !acts || stopped(c, q) || (w->until && q->number > w->until))
            continue;
        content = tw_mix64(content +
                           (w->few ? (uint64_t)i + 1 : 1000 * (uint64_t)q->number + (uint64_t)i));
    }
    return content;
}

static int make_runs(void *user, const struct twin_search_request *q, size_t n,
                     struct twin_search_result *out, struct twin_error *err)
{
    struct world *w = user;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        uint64_t settings = 7;
        for (int f = 0; f < FACTORS; f++)
            settings = tw_mix64(settings + (uint64_t)q[i].setting[f].mode +
                                4 * q[i].setting[f].value);
        w->run[q[i].number].content = content(w, &q[i]);
        w->run[q[i].number].world = settings;
        out[i] = (struct twin_search_result){
            .layer = -1, .handle = q[i].number, .steps = 10, .seconds = 1};
        if (!q[i].reference || q[i].purpose == TWIN_FOR_VOTE ||
            w->run[q[i].reference].content == w->run[q[i].number].content)
            continue;
        out[i].parted = true;
        out[i].steps = 1;
        out[i].layer = twin_search_layer("forward");
        for (uint32_t k = 1; k < q[i].number && !out[i].agrees; k++)
            if (w->run[k].world == settings && w->run[k].content == w->run[q[i].number].content)
                out[i].agrees = k;
    }
    return 0;
}

/* ---- scenarios */

enum kind { ONE, TWO, UNREACHABLE, STOPPING, BURST, EITHER, NONE };

struct scenario {
    const char *name;
    enum kind kind;
    double a, b; /* rates; of STOPPING b is the run, of BURST the persistence */
    bool few, thorough;
    double power; /* least share of searches that name what there is to name; 0: not asked */
};

struct tally {
    unsigned searches, isolated, right, wrong, sufficient, overstated, gone;
    double runs, named_runs;
};

static void build(const struct scenario *s, struct world *w, bool truth[FACTORS])
{
    int f = (int)(uniform(w) * LAST), g = (f + 1 + (int)(uniform(w) * (LAST - 1))) % LAST;
    bool reached = s->kind == ONE || s->kind == TWO || s->kind == UNREACHABLE || s->kind == EITHER;
    w->few = s->few;
    for (int i = 0; i < CAUSES; i++)
        w->cause[i] = (struct cause){{-1, -1}, 0};
    w->cause[0].rate = s->a;
    if (reached)
        w->cause[0].factor[0] = f;
    if (s->kind == EITHER)
        w->cause[0].factor[1] = g;
    if (s->kind == TWO || s->kind == UNREACHABLE)
        w->cause[1] = (struct cause){{s->kind == TWO ? g : -1, -1}, s->b};
    if (s->kind == STOPPING)
        w->until = (uint32_t)s->b;
    if (s->kind == BURST) {
        w->persistence = s->b;
        w->bad = uniform(w) < s->a;
    }
    truth[f] = reached;
    truth[g] = s->kind == EITHER || s->kind == TWO;
}

/* Chance that a run parts from a usual one although these are pinned. */
static double remaining(const struct world *w, const struct twin_search_report *r)
{
    double agrees = 1;
    for (int i = 0; i < CAUSES; i++) {
        bool pinned = false;
        for (size_t k = 0; k < r->cause_count; k++)
            pinned |= (int)r->cause[k].candidate == w->cause[i].factor[0] ||
                      (int)r->cause[k].candidate == w->cause[i].factor[1];
        agrees *= pinned ? 1 : 1 - w->cause[i].rate;
    }
    return 1 - agrees;
}

static void count(struct tally *t, const struct scenario *s, const struct world *w,
                  const bool truth[FACTORS], const struct twin_search_report *r)
{
    bool wrong = false;
    t->searches++;
    t->runs += r->runs;
    t->gone += r->outcome == TWIN_SEARCH_GONE;
    assert_true(r->outcome == TWIN_SEARCH_ISOLATED || r->cause_count == 0);
    if (r->outcome != TWIN_SEARCH_ISOLATED)
        return;
    for (size_t i = 0; i < r->cause_count; i++)
        wrong |= !truth[r->cause[i].candidate];
    wrong |= s->kind == EITHER && r->cause_count > 1; /* one of the two is enough */
    t->isolated++;
    t->wrong += wrong;
    t->right += !wrong;
    t->named_runs += r->runs;
    t->sufficient += r->sufficient;
    t->overstated += r->sufficient && remaining(w, r) > .2 + 1e-9;
    for (size_t i = 0; i < r->cause_count; i++)
        assert_true(r->cause[i].p_adjusted <= .05 + 1e-12);
}

static struct tally play(const struct scenario *s, unsigned searches, uint64_t seed)
{
    static struct world w;
    struct tally t = {0};
    for (unsigned i = 0; i < searches; i++) {
        bool truth[FACTORS] = {false};
        struct twin_search_plan plan;
        struct twin_search_report *r = NULL;
        struct twin_error err = TWIN_ERROR_INIT;
        w = (struct world){.random = tw_mix64(seed + 1000003 * (uint64_t)i)};
        build(s, &w, truth);
        struct twin_search_options o = {.thorough = s->thorough, .seed = tw_mix64(seed ^ i) | 1};
        if (twin_search_plan(candidate, FACTORS, &o, &plan, &err) ||
            twin_search(candidate, &plan, make_runs, NULL, &w, NULL, &r, &err))
            fail_msg("%s", err.message);
        count(&t, s, &w, truth, r);
        twin_search_report_free(r);
    }
    return t;
}

static const struct scenario scenarios[] = {
    {"one cause, always", ONE, 1, 0, false, false, .99},
    {"one cause, 9 of 10", ONE, .9, 0, false, false, .99},
    {"one cause, 1 of 2", ONE, .5, 0, false, false, .98},
    {"one cause, 1 of 5", ONE, .2, 0, false, false, .84},
    {"one cause, 1 of 2, in classes", ONE, .5, 0, true, false, 0},
    {"one cause, always, thorough", ONE, 1, 0, false, true, .99},
    {"no pin reaches it, 1 of 10", NONE, .1, 0, false, false, 0},
    {"no pin reaches it, 1 of 5", NONE, .2, 0, false, false, 0},
    {"no pin reaches it, 1 of 2", NONE, .5, 0, false, false, 0},
    {"no pin reaches it, 8 of 10", NONE, .8, 0, false, false, 0},
    {"no pin reaches it, 1 of 2, in classes", NONE, .5, 0, true, false, 0},
    {"always, stops after run 5", STOPPING, 1, 5, false, false, 0},
    {"always, stops after run 6", STOPPING, 1, 6, false, false, 0},
    {"always, stops after run 8", STOPPING, 1, 8, false, false, 0},
    {"always, stops after run 12", STOPPING, 1, 12, false, false, 0},
    {"always, stops after run 20", STOPPING, 1, 20, false, false, 0},
    {"1 of 2, stops after run 5", STOPPING, .5, 5, false, false, 0},
    {"1 of 2, stops after run 8", STOPPING, .5, 8, false, false, 0},
    {"1 of 2, stops after run 12", STOPPING, .5, 12, false, false, 0},
    {"1 of 2, stops after run 20", STOPPING, .5, 20, false, false, 0},
    {"bursts, 1 of 5, persistence .5", BURST, .2, .5, false, false, 0},
    {"bursts, 1 of 5, persistence .8", BURST, .2, .8, false, false, 0},
    {"bursts, 1 of 5, persistence .9", BURST, .2, .9, false, false, 0},
    {"bursts, 1 of 2, persistence .5", BURST, .5, .5, false, false, 0},
    {"bursts, 1 of 2, persistence .8", BURST, .5, .8, false, false, 0},
    {"bursts, 1 of 2, persistence .9", BURST, .5, .9, false, false, 0},
    {"always, and another at .05", TWO, 1, .05, false, true, 0},
    {"always, and another at .1", TWO, 1, .1, false, true, 0},
    {"always, and another at .2", TWO, 1, .2, false, true, 0},
    {"always, and another at .3", TWO, 1, .3, false, true, 0},
    {"always, and another at .5", TWO, 1, .5, false, true, 0},
    {"always, and a rest at .05 that no pin reaches", UNREACHABLE, 1, .05, false, true, 0},
    {"always, and a rest at .2 that no pin reaches", UNREACHABLE, 1, .2, false, true, 0},
    {"always, and a rest at .3 that no pin reaches", UNREACHABLE, 1, .3, false, true, 0},
    {"always, and a rest at .5 that no pin reaches", UNREACHABLE, 1, .5, false, true, 0},
    {"either of two pins stops it, always", EITHER, 1, 0, false, false, .95},
    {"either of two pins stops it, 1 of 2", EITHER, .5, 0, false, false, 0},
};

static unsigned searches = 60;
static uint64_t first_seed = 20261122;

/* 5%, and for few searches what chance adds to it: three standard deviations. */
static double bar(unsigned n)
{
    return n >= 1000 ? .05 : .05 + 3 * sqrt(.05 * .95 / n);
}

static void campaign(void **state)
{
    unsigned failed = 0;
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        const struct scenario *s = &scenarios[i];
        struct tally t = play(s, searches, first_seed + i);
        double n = t.searches, slack = searches >= 1000 ? 0 : .12;
        printf("%-46s %5u searches %6.1f runs  named %6.2f%% (%.1f runs)  wrong %5.2f%%  "
               "sufficient %6.2f%%, wrongly %5.2f%%  gone %6.2f%%\n",
               s->name, t.searches, t.runs / n, 100 * t.isolated / n,
               t.isolated ? t.named_runs / t.isolated : 0., 100 * t.wrong / n,
               100 * t.sufficient / n, 100 * t.overstated / n, 100 * t.gone / n);
        bool good = t.wrong <= bar(t.searches) * n && t.overstated <= bar(t.searches) * n;
        good = good && t.right >= (s->power - slack) * n;
        if (!good)
            printf("  ^ misses its bar\n");
        failed += !good;
    }
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(campaign)};
    if (getenv("TWINRUN_FULL"))
        searches = 2000;
    if (argc > 1)
        searches = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
