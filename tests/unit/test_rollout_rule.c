/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule of a rollout on simulated runs that are looked at after each of them. The seeds are
 * fixed: nothing here is a coin.
 */
#include "rollout_example.h"

#include "base.h"
#include "sanitized.h"

#include "src/stats/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static uint64_t stream;

static double uniform(void)
{
    stream += UINT64_C(0x9e3779b97f4a7c15);
    return ((double)(tw_mix64(stream) >> 11) + .5) / 9007199254740992.0;
}

static double normal(void)
{
    return twin_stats_normal_quantile(uniform());
}

/* What the two arms are like. */
struct nature {
    double share;
    double diverges[TW_ROLLOUT_ARMS]; /* chance that two runs differ */
    double fails[TW_ROLLOUT_ARMS];
    double slower; /* times */
    double worse;  /* last loss, of itself */
    double cv;     /* of times and losses */
    double trend;  /* what a run takes times e to this of what the one before it took ... */
    size_t sweep;  /* ... and after so many it begins anew; 0: never */
    size_t ranks;  /* runs of each job, which fail as a whole; 0: one */
};

struct simulated {
    struct rollout_runs runs;
    struct tw_rollout_seen seen;
    bool odd[TW_ROLLOUT_ARMS]; /* a run waits for one to be compared with */
    struct rollout_run room[1000];
};

static char job[] = "job", none[] = "";

static void add_run(struct simulated *s, const struct nature *of)
{
    const size_t rank = of->ranks ? s->runs.count % of->ranks : 0;
    const struct rollout_run *first = rank ? &s->room[s->runs.count - rank] : NULL;
    const bool drawn = !first && uniform() < of->share;
    const int arm = drawn || (first && strcmp(first->arm, "canary") == 0) ? TW_ROLLOUT_CANARY
                                                                          : TW_ROLLOUT_CONTROL;
    const bool canary = arm == TW_ROLLOUT_CANARY;
    const size_t at = of->sweep ? s->runs.count % of->sweep : s->runs.count;
    const double size = exp(of->trend * (double)at);
    struct rollout_run *r = &s->room[s->runs.count];
    *r = (struct rollout_run){.start_ns = (int64_t)s->runs.count,
                              .share = 1, /* of all runs the same one */
                              .wall_s = size * exp(of->cv * normal()) * (canary ? of->slower : 1),
                              .loss = size * exp(of->cv * normal()) * (canary ? 1 + of->worse : 1),
                              .name = none,
                              .home = none,
                              .inputs = none,
                              .kind = job,
                              .known = true,
                              .ended = true};
    snprintf(r->id, sizeof r->id, "%032zx", s->runs.count);
    snprintf(r->arm, sizeof r->arm, "%s", tw_rollout_arm_name((enum tw_rollout_arm)arm));
    snprintf(r->key, sizeof r->key, "%032zx", s->runs.count - rank);
    r->ok = first ? first->ok : uniform() >= of->fails[arm];
    s->runs.count++;
    if (!r->ok)
        return;
    if (s->odd[arm] && uniform() < of->diverges[arm])
        s->seen.arm[arm].diverged++;
    else if (s->odd[arm])
        s->seen.arm[arm].same++;
    s->odd[arm] = !s->odd[arm];
}

static void pair_up(struct simulated *s, struct tw_rollout_seen *seen)
{
    assert_int_equal(tw_rollout_number_jobs(&s->runs, NULL), 0);
    assert_int_equal(tw_rollout_pair_up(&s->runs, seen, NULL), 0);
    tw_free(s->runs.compared);
    s->runs.compared = NULL;
}

/* What the counts of comparisons are; the rest is computed anew for each look. */
static void look(struct simulated *s, const struct tw_rollout_flag *f, struct tw_rollout_judged *j)
{
    struct tw_rollout_seen fresh = {.off_why = NULL};
    for (int a = 0; a < TW_ROLLOUT_ARMS; a++) {
        fresh.arm[a].same = s->seen.arm[a].same;
        fresh.arm[a].diverged = s->seen.arm[a].diverged;
    }
    pair_up(s, &fresh);
    fresh.force_known = fresh.arm[TW_ROLLOUT_CANARY].runs;
    tw_rollout_judge(f, &fresh, j);
    tw_rollout_seen_free(&fresh);
}

/* Of so many rollouts of at most `runs` runs, which are looked at after each: how many fall back
 * (or, with widens, ever widen). *took: runs until then, on average. */
static unsigned trials(const struct nature *of, unsigned count, size_t runs,
                       enum tw_rollout_decision wanted, double *took)
{
    static struct simulated s;
    unsigned found = 0;
    double sum = 0;
    for (unsigned t = 0; t < count; t++) {
        struct tw_rollout_flag f = example();
        struct tw_rollout_judged j = {.decision = TW_ROLLOUT_HELD};
        memset(&s, 0, sizeof s);
        s.runs.run = s.room;
        for (size_t i = 0; i < runs && j.decision != wanted; i++) {
            add_run(&s, of);
            look(&s, &f, &j);
            if (j.decision == TW_ROLLOUT_FELL_BACK)
                break;
        }
        found += j.decision == wanted;
        sum += j.decision == wanted ? (double)s.runs.count : 0;
    }
    *took = found ? sum / found : NAN;
    return found;
}

static bool is_full(void)
{
    const char *full = getenv("TWINRUN_FULL");
    return full && *full && strcmp(full, "0") != 0;
}

/* How many are drawn in a test that is not full. */
static unsigned usual(unsigned count)
{
    return SANITIZED ? 6 : count;
}

/* As many of count as happen at the promised 5% in one of 1,000 tests; the seeds are fixed. */
static unsigned most_of(unsigned count)
{
    unsigned most = 0;
    while (twin_stats_binomial_cdf(most, count, .05) < .999)
        most++;
    return most;
}

static void few_fall_back(const struct nature *of, size_t kinds, uint64_t seed)
{
    const unsigned count = is_full() ? 200 : usual(20);
    for (size_t i = 0; i < kinds; i++) {
        double took;
        stream = seed + i;
        const unsigned fell = trials(&of[i], count, is_full() ? 300 : 150, TW_ROLLOUT_FELL_BACK,
                                     &took);
        if (fell > most_of(count))
            fail_msg("nature %zu: %u of %u fell back, at most %u", i, fell, count, most_of(count));
    }
}

/* A fix that is exactly at every bound, where the rule is tried the hardest. */
static void false_fallback_keeps_alpha(void **state)
{
    (void)state;
    static const struct nature null[] = {
        {.5, {.5, .05}, {.1, .1}, 1.2, .05, .2}, /* at the bounds */
        {.1, {.5, .05}, {.02, .02}, 1.2, .05, .05},
        {.5, {0, 0}, {0, 0}, 1, 0, .1},      /* it does nothing, and nothing is wrong */
        {.5, {.05, .05}, {.3, .3}, 1, 0, 1}, /* noise */
    };
    few_fall_back(null, sizeof null / sizeof *null, 1000);
}

/* Jobs that get larger from one to the next, by much or by little, look no slower with the fix. */
static void a_trend_is_not_the_fix(void **state)
{
    (void)state;
    static const struct nature null[] = {
        {.1, {0, 0}, {0, 0}, 1, 0, .01, .7, 12}, /* a sweep: each width is twice the last one */
        {.5, {0, 0}, {0, 0}, 1, 0, .01, .7, 12},
        {.1, {0, 0}, {0, 0}, 1, 0, .01, .25, 0},      /* data that grow */
        {.25, {0, 0}, {0, 0}, 1, 0, .01, .01, 0},     /* a machine that gets slower, bit by bit */
        {.1, {0, 0}, {0, 0}, 1.2, .05, .001, .01, 0}, /* and a fix at its bounds */
        {.1, {0, 0}, {0, 0}, 1, 0, .01, -.7, 12},     /* the sweep goes the other way */
    };
    few_fall_back(null, sizeof null / sizeof *null, 4000);
    /* a fix that slows is found all the same */
    static const struct nature slow[] = {{.5, {0, 0}, {0, 0}, 1.5, 0, .05, .01, 0},
                                         {.25, {0, 0}, {0, 0}, 1.5, 0, .05, .01, 0},
                                         {.5, {0, 0}, {0, 0}, 3, 0, .05, .7, 12}};
    const unsigned count = is_full() ? 200 : 10;
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        double took;
        stream = 5000 + i;
        const unsigned fell = trials(&slow[i], count, 300, TW_ROLLOUT_FELL_BACK, &took);
        if (fell < count - count / 10)
            fail_msg("slow nature %zu: only %u of %u fell back", i, fell, count);
    }
}

/* In which of the two the fix is was the draw's to say: as often in the later one as in the
 * earlier one, at every share, and of two shares there are no pairs. */
static void pairs_have_no_direction(void **state)
{
    (void)state;
    static const double shares[] = {.02, .1, .3, .5, .8};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        static struct simulated s;
        const struct nature of = {shares[i], {0, 0}, {0, 0}, 1, 0, 0, .1, 0};
        uint64_t later = 0, all = 0;
        stream = 6000 + i;
        for (int t = 0; t < 200; t++) {
            struct tw_rollout_seen seen = {.off_why = NULL};
            memset(&s, 0, sizeof s);
            s.runs.run = s.room;
            for (int k = 0; k < 100; k++)
                add_run(&s, &of);
            pair_up(&s, &seen);
            for (size_t k = 0; k < seen.time.count; k++)
                later += seen.time.value[k] > 1;
            all += seen.time.count;
            tw_rollout_seen_free(&seen);
        }
        /* within four standard deviations of one half */
        assert_true(all >= 300);
        if (fabs((double)later - (double)all / 2) > 2 * sqrt((double)all))
            fail_msg("share %g: %llu of %llu are later", shares[i], (unsigned long long)later,
                     (unsigned long long)all);
        for (size_t k = 0; k < s.runs.count; k++)
            s.room[k].share = strcmp(s.room[k].arm, "canary") == 0 ? 1 : 2;
        struct tw_rollout_seen apart = {.off_why = NULL};
        pair_up(&s, &apart);
        assert_true(apart.time.count == 0 && apart.loss.count == 0);
        tw_rollout_seen_free(&apart);
    }
}

/* Of rollouts of jobs of 15 ranks that fail as a whole, as often with the fix as without: how many
 * fall back. The hashes of the ranks' keys: one for each job, or, as if there were none, of each.
 */
static unsigned jobs_that_fall_back(unsigned count, bool keyed)
{
    enum { RANKS = 15, JOBS = 60 };
    static struct simulated s;
    const struct nature of = {.5, {0, 0}, {.3, .3}, 1, 0, .05, 0, 0, RANKS};
    unsigned fell = 0;
    for (unsigned t = 0; t < count; t++) {
        struct tw_rollout_flag f = example();
        struct tw_rollout_judged j = {.decision = TW_ROLLOUT_HELD};
        memset(&s, 0, sizeof s);
        s.runs.run = s.room;
        for (int i = 0; i < RANKS * JOBS && j.decision != TW_ROLLOUT_FELL_BACK; i++) {
            add_run(&s, &of);
            if (!keyed)
                memcpy(s.room[i].key, s.room[i].id, sizeof s.room[i].key);
            if (i % RANKS == RANKS - 1)
                look(&s, &f, &j);
        }
        fell += j.decision == TW_ROLLOUT_FELL_BACK;
    }
    return fell;
}

/* Of the same draws no more fall back than alpha allows where something is `seen`, and far more
 * where it is not: so a test that asks this can fail. */
static void falls_back_only_without(unsigned (*falls)(unsigned count, bool seen), unsigned count,
                                    uint64_t draws)
{
    stream = draws;
    const unsigned fell = falls(count, true);
    if (fell > most_of(count))
        fail_msg("%u of %u fell back, at most %u", fell, count, most_of(count));
    stream = draws;
    const unsigned without = falls(count, false);
    if (without <= most_of(count))
        fail_msg("only %u of %u would fall back", without, count);
}

static void ranks_of_a_job_are_one_draw(void **state)
{
    (void)state;
    falls_back_only_without(jobs_that_fall_back, is_full() ? 400 : 60, 9);
}

/* Neither are two runs of one key held against each other, nor is one key held against twice. */
static void runs_of_one_key_are_not_compared(void **state)
{
    (void)state;
    static struct simulated s;
    static char inputs[] = "equal";
    const struct nature of = {1, {0, 0}, {0, 0}, 1, 0, 0, 0, 0, 3};
    size_t at = 0, pair[2], pairs = 0;
    memset(&s, 0, sizeof s);
    s.runs.run = s.room;
    for (int i = 0; i < 9; i++) {
        add_run(&s, &of);
        s.room[i].inputs = inputs;
    }
    assert_int_equal(tw_rollout_number_jobs(&s.runs, NULL), 0);
    assert_int_equal(s.runs.jobs, 3);
    while (tw_rollout_next_pair(&s.runs, none, &at, pair)) {
        pairs++;
        assert_int_not_equal(s.room[pair[0]].job, s.room[pair[1]].job);
    }
    assert_int_equal(pairs, 1); /* of three jobs */
    tw_free(s.runs.compared);
}

/* One rank that fails is a job that fails; its time is that of its first run. */
static void a_job_is_its_ranks(void **state)
{
    (void)state;
    static struct simulated s;
    struct tw_rollout_seen seen = {.off_why = NULL};
    const struct nature of = {0, {0, 0}, {0, 0}, 1, 0, 0, 0, 0, 4};
    memset(&s, 0, sizeof s);
    s.runs.run = s.room;
    for (int i = 0; i < 8; i++) {
        add_run(&s, &of);
        s.room[i].wall_s = i + 1;
        if (i < 4)
            snprintf(s.room[i].arm, sizeof s.room[i].arm, "canary");
    }
    s.room[2].ok = false;
    pair_up(&s, &seen);
    assert_true(seen.failed_canary == 1 && seen.failed_control == 0);
    assert_true(seen.time.count == 1 && seen.time.value[0] == 1. / 5);
    tw_rollout_seen_free(&seen);
}

/* Of rollouts whose runs are all started at once, and of which three of ten fail at once, with the
 * fix as without; those with it take a little longer, and are looked at when the others have
 * ended. Not `seen`: as if only those that have ended were there. */
static unsigned batches_that_fall_back(unsigned count, bool seen)
{
    static struct simulated s;
    const struct nature of = {.5, {0, 0}, {.3, .3}, 1.1, 0, .01};
    unsigned fell = 0;
    for (unsigned t = 0; t < count; t++) {
        struct tw_rollout_flag f = example();
        struct tw_rollout_judged j;
        memset(&s, 0, sizeof s);
        s.runs.run = s.room;
        for (int i = 0; i < 100; i++) {
            add_run(&s, &of);
            if (s.room[i].ok && strcmp(s.room[i].arm, "canary") == 0)
                s.room[i].ok = s.room[i].ended = false;
        }
        size_t kept = 0;
        for (size_t i = 0; i < 100 && !seen; i++)
            if (s.room[i].ended)
                s.room[kept++] = s.room[i];
        s.runs.count = seen ? 100 : kept;
        look(&s, &f, &j);
        fell += j.decision == TW_ROLLOUT_FELL_BACK;
    }
    return fell;
}

static void runs_that_go_on_have_their_places(void **state)
{
    (void)state;
    falls_back_only_without(batches_that_fall_back, is_full() ? 400 : 40, 10);
}

/* Runs end in any order, and some fail: a pair that was seen once is one at each later look. */
static void pairs_stay_what_they_are(void **state)
{
    (void)state;
    enum { RUNS = 100 };
    static struct simulated s;
    const struct nature of = {.4, {0, 0}, {.2, .2}, 1, 0, .5};
    struct tw_rollout_seen before = {.off_why = NULL};
    bool ok[RUNS];
    size_t order[RUNS];
    memset(&s, 0, sizeof s);
    s.runs.run = s.room;
    stream = 11;
    for (size_t i = 0; i < RUNS; i++) {
        add_run(&s, &of);
        ok[i] = s.room[i].ok;
        s.room[i].ok = s.room[i].ended = false;
        order[i] = i;
    }
    for (size_t i = RUNS; i-- > 1;) {
        const size_t k = (size_t)(uniform() * (double)(i + 1)), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    for (size_t n = 0; n < RUNS; n++) {
        struct tw_rollout_seen seen = {.off_why = NULL};
        s.room[order[n]].ended = true;
        s.room[order[n]].ok = ok[order[n]];
        pair_up(&s, &seen);
        assert_true(seen.going_on == RUNS - n - 1);
        for (size_t i = 0; i < before.time.count; i++) {
            bool there = false;
            for (size_t k = 0; k < seen.time.count && !there; k++)
                there = seen.time.value[k] == before.time.value[i];
            assert_true(there);
        }
        tw_rollout_seen_free(&before);
        before = seen;
    }
    assert_true(before.time.count > 10);
    tw_rollout_seen_free(&before);
}

/* How often "the last losses with the fix lie further apart" is said of a fix that does nothing to
 * them, and of one that doubles their spread. */
static unsigned spreads_that_are_seen(unsigned count, const struct nature *of, double wider,
                                      size_t runs)
{
    static struct simulated s;
    unsigned seen_in = 0;
    for (unsigned t = 0; t < count; t++) {
        struct tw_rollout_flag f = example();
        struct tw_rollout_judged j = {.decision = TW_ROLLOUT_HELD};
        bool said_so = false;
        memset(&s, 0, sizeof s);
        s.runs.run = s.room;
        for (size_t i = 0; i < runs && !said_so; i++) {
            add_run(&s, of);
            if (strcmp(s.room[i].arm, "canary") == 0)
                s.room[i].loss += (wider - 1) * (s.room[i].loss - exp(of->trend * (double)i));
            s.room[i].wall_s = 1;
            f.rule.max_loss = 1000;
            if (i % 10 == 9) {
                look(&s, &f, &j);
                said_so = strstr(j.why, "times as far apart") != NULL;
            }
        }
        seen_in += said_so;
    }
    return seen_in;
}

static void a_trend_is_no_spread(void **state)
{
    (void)state;
    const unsigned count = is_full() ? 200 : usual(30);
    static const double shares[] = {.1, .25, .5};
    for (size_t i = 0; i < 3; i++) {
        const struct nature of = {shares[i], {0, 0}, {0, 0}, 1, 0, .01, .01, 0};
        stream = 7000 + i;
        const unsigned seen_in = spreads_that_are_seen(count, &of, 1, 500);
        if (seen_in > most_of(count))
            fail_msg("share %g: said of %u of %u", shares[i], seen_in, count);
    }
    /* one that does is seen, with and without a trend */
    for (int trend = 0; trend < 2; trend++) {
        const struct nature of = {.5, {0, 0}, {0, 0}, 1, 0, .01, trend * .0001, 0};
        stream = 8000;
        const unsigned seen_in = spreads_that_are_seen(10, &of, 4, 500);
        if (seen_in < 9)
            fail_msg("trend %d: only seen in %u of 10", trend, seen_in);
    }
}

static void bad_fixes_fall_back(void **state)
{
    (void)state;
    const unsigned count = is_full() ? 200 : 10;
    static const struct nature bad[] = {{.5, {.5, .4}, {0, 0}, 1, 0, .05},  /* it does not fix */
                                        {.5, {.5, 0}, {0, 0}, 1.5, 0, .05}, /* slow */
                                        {.5, {.5, 0}, {0, 0}, 1, .3, .05},  /* worse */
                                        {.5, {.5, 0}, {0, .4}, 1, 0, .05},  /* it breaks the job */
                                        {.1, {.5, .5}, {0, 0}, 1, 0, .3}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double took;
        stream = 2000 + i;
        const unsigned fell = trials(&bad[i], count, 300, TW_ROLLOUT_FELL_BACK, &took);
        if (fell < count - count / 10)
            fail_msg("nature %zu: only %u of %u fell back", i, fell, count);
        if (took > 160)
            fail_msg("nature %zu: after %g runs", i, took);
    }
}

static void good_fix_is_widened(void **state)
{
    (void)state;
    const unsigned count = is_full() ? 200 : 10;
    const struct nature good = {.5, {.9, 0}, {.05, .05}, 1.05, 0, .05};
    const struct nature useless = {.5, {.9, .9}, {0, 0}, 1, 0, .05};
    double took;
    stream = 3000;
    const unsigned widened = trials(&good, count, 300, TW_ROLLOUT_WIDENED, &took);
    assert_true(widened >= count - count / 10);
    assert_true(took < 120);
    stream = 3001;
    assert_int_equal(trials(&useless, count, 300, TW_ROLLOUT_WIDENED, &took), 0);
}

/* Each reason by itself, with numbers that were worked out by hand. */
static void rule_says_why(void **state)
{
    (void)state;
    struct tw_rollout_flag f = example();
    struct tw_rollout_judged j;
    struct tw_rollout_seen s = {.off_why = NULL};
    double even[8] = {1, 1, 1, 1, 1, 1, 1, 1}, slow[8] = {2, 2, 2, 2, 2, 2, 2, 2};
    f.widened_at = 0;
    tw_rollout_judge(&f, &s, &j);
    assert_int_equal(j.decision, TW_ROLLOUT_HELD);
    assert_true(j.diverged[TW_ROLLOUT_CANARY].interval.high == 1 && isnan(j.time.value));
    /* 8 of 8 beside 0 of 8: ln 80 is reached at 8 (docs/internals/rollout.md), not at 7 */
    for (uint64_t n = 7; n <= 8; n++) {
        s.arm[TW_ROLLOUT_CANARY].same = s.arm[TW_ROLLOUT_CONTROL].diverged = n;
        s.time = (struct tw_rollout_ratios){even, 8};
        tw_rollout_judge(&f, &s, &j);
        assert_int_equal(j.decision, n == 8 ? TW_ROLLOUT_WIDENED : TW_ROLLOUT_HELD);
        assert_int_equal(j.share, n == 8 ? 250000 : 100000);
    }
    /* eight slow pairs of eight, not seven */
    s.time = (struct tw_rollout_ratios){slow, 7};
    tw_rollout_judge(&f, &s, &j);
    assert_int_equal(j.decision, TW_ROLLOUT_HELD);
    assert_non_null(strstr(j.why, "that it is broken is not shown"));
    s.time.count = 8;
    tw_rollout_judge(&f, &s, &j);
    assert_int_equal(j.decision, TW_ROLLOUT_FELL_BACK);
    assert_int_equal(j.share, 0);
    assert_non_null(strstr(j.why, "take 2 times as long"));
    assert_true(j.time.interval.low == 2 && j.time.interval.high == 2);
    s.time = (struct tw_rollout_ratios){even, 8};
    s.out_of_force = s.force_known = s.arm[TW_ROLLOUT_CANARY].runs = 4;
    tw_rollout_judge(&f, &s, &j);
    assert_int_equal(j.decision, TW_ROLLOUT_HELD);
    assert_non_null(strstr(j.why, "did not take effect"));
    /* most of those of which it is known, however many others there are */
    s.arm[TW_ROLLOUT_CANARY].runs = 100;
    tw_rollout_judge(&f, &s, &j);
    assert_int_equal(j.decision, TW_ROLLOUT_HELD);
    assert_non_null(strstr(j.why, "in 4 of 4 runs with the fix a pin did not take effect"));
    s.out_of_force = 0;
    tw_rollout_judge(&f, &s, &j);
    assert_int_equal(j.decision, TW_ROLLOUT_WIDENED);
    /* known of none is not known to be fine */
    s.force_known = 0;
    tw_rollout_judge(&f, &s, &j);
    assert_int_equal(j.decision, TW_ROLLOUT_HELD);
    assert_non_null(strstr(j.why, "not known of any of 100 runs"));
    s.force_known = 100;
    /* five runs that did not end well beside none are half of the evidence, eight all of it */
    for (uint64_t n = 3; n <= 8; n++) {
        s.failed_canary = n;
        tw_rollout_judge(&f, &s, &j);
        if (n < 4)
            assert_int_equal(j.decision, TW_ROLLOUT_WIDENED);
        else if (n >= 5 && n < 8)
            assert_int_equal(j.decision, TW_ROLLOUT_HELD);
        else if (n == 8)
            assert_int_equal(j.decision, TW_ROLLOUT_FELL_BACK);
    }
    assert_non_null(strstr(j.why, "ended from outside"));
    s.failed_canary = 0;
    f.share = TW_ROLLOUT_WHOLE;
    tw_rollout_judge(&f, &s, &j);
    assert_int_equal(j.decision, TW_ROLLOUT_HELD);
    f.state = TW_ROLLOUT_OFF;
    s.arm[TW_ROLLOUT_CANARY].diverged = 50;
    tw_rollout_judge(&f, &s, &j);
    assert_int_equal(j.decision, TW_ROLLOUT_HELD);
    assert_non_null(strstr(j.why, "is over"));
}

/* Runs that somebody else ended are shown, and are held against the other arm's like failures. */
static void ends_from_outside_count(void **state)
{
    (void)state;
    static struct simulated s;
    const struct nature of = {.5, {0, 0}, {0, 0}, 1, 0, .05, 0, 0};
    uint64_t ended[TW_ROLLOUT_ARMS] = {0};
    for (int both = 0; both < 2; both++) {
        struct tw_rollout_flag f = example();
        struct tw_rollout_judged j = {.decision = TW_ROLLOUT_HELD};
        memset(&s, 0, sizeof s);
        s.runs.run = s.room;
        stream = 8;
        for (int i = 0; i < 100 && j.decision != TW_ROLLOUT_FELL_BACK; i++) {
            add_run(&s, &of);
            struct rollout_run *r = &s.room[i];
            const bool canary = strcmp(r->arm, "canary") == 0;
            if (i % 4 != 0 && (canary || both)) {
                r->ok = false;
                r->outside = true;
                ended[canary] += !both;
            }
            look(&s, &f, &j);
        }
        struct tw_rollout_seen seen = {.off_why = NULL};
        pair_up(&s, &seen);
        assert_true(seen.arm[TW_ROLLOUT_CANARY].failed == 0);
        if (!both) {
            assert_int_equal(j.decision, TW_ROLLOUT_FELL_BACK);
            assert_non_null(strstr(j.why, "ended from outside"));
            assert_true(seen.arm[TW_ROLLOUT_CANARY].outside == ended[TW_ROLLOUT_CANARY]);
            assert_true(seen.arm[TW_ROLLOUT_CONTROL].outside == 0);
        } else {
            assert_int_equal(j.decision, TW_ROLLOUT_HELD);
            assert_true(seen.arm[TW_ROLLOUT_CONTROL].outside > 20);
        }
        tw_rollout_seen_free(&seen);
    }
}

/* Who is held against whom does not depend on what came out. */
static void pairs_do_not_look(void **state)
{
    (void)state;
    static struct simulated s;
    const struct nature of = {.3, {0, 0}, {0, 0}, 1, 0, .5};
    struct tw_rollout_seen a = {.off_why = NULL}, b = {.off_why = NULL};
    memset(&s, 0, sizeof s);
    s.runs.run = s.room;
    stream = 7;
    for (int i = 0; i < 200; i++)
        add_run(&s, &of);
    pair_up(&s, &a);
    for (size_t i = 0; i < s.runs.count; i++)
        s.room[i].wall_s = 1 / s.room[i].wall_s;
    pair_up(&s, &b);
    assert_true(a.time.count == b.time.count && a.time.count > 30);
    for (size_t i = 0; i < a.time.count; i++)
        assert_true(fabs(a.time.value[i] * b.time.value[i] - 1) < 1e-12);
    tw_rollout_seen_free(&a);
    tw_rollout_seen_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(false_fallback_keeps_alpha),
        cmocka_unit_test(a_trend_is_not_the_fix),
        cmocka_unit_test(pairs_have_no_direction),
        cmocka_unit_test(ranks_of_a_job_are_one_draw),
        cmocka_unit_test(runs_of_one_key_are_not_compared),
        cmocka_unit_test(a_job_is_its_ranks),
        cmocka_unit_test(runs_that_go_on_have_their_places),
        cmocka_unit_test(pairs_stay_what_they_are),
        cmocka_unit_test(a_trend_is_no_spread),
        cmocka_unit_test(bad_fixes_fall_back),
        cmocka_unit_test(good_fix_is_widened),
        cmocka_unit_test(rule_says_why),
        cmocka_unit_test(ends_from_outside_count),
        cmocka_unit_test(pairs_do_not_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
