/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a search says: its plan, its verdict, what that rests on, and each way in which it can end.
 */
#include "base.h"

#include "src/isolate/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const struct twin_candidate candidate[] = {
    {.id = "entropy", .layer = "rng", .can_pin = true},
    {.id = "threads", .layer = "forward", .can_pin = true},
    {.id = "clock", .layer = "environment", .can_pin = true},
};
enum { ENTROPY, THREADS, CLOCK, CANDIDATES };

static struct twin_search_set set_of(size_t i)
{
    struct twin_search_set set = {{0}};
    set.word[0] = UINT64_C(1) << i;
    return set;
}

static void says(char *text, const char *expected)
{
    assert_non_null(text);
    assert_string_equal(text, expected);
    tw_free(text);
}

static struct twin_search_plan plan_of(struct twin_search_options o)
{
    struct twin_search_plan plan;
    o.seed = 7;
    assert_int_equal(twin_search_plan(candidate, CANDIDATES, &o, &plan, NULL), 0);
    return plan;
}

static void a_plan(void **state)
{
    (void)state;
    struct twin_search_plan plan = plan_of((struct twin_search_options){
        .max_runs = 60, .max_seconds = 90, .parallel = 4, .thorough = true});
    says(twin_search_plan_line(&plan),
         "plan      3 candidates; at most 60 runs, about 14 when runs diverge nearly "
         "always (-v: the whole plan)\n");
    says(twin_search_plan_text(&plan),
         "plan      3 candidate factors, 3 with a pin; alpha 0.05, beta 0.05 for the whole "
         "procedure\n"
         "baseline  until 2 divergences, or 14 clean comparisons (rate 0.01 against 0.2); one "
         "divergence rejects clean\n"
         "alone     where runs diverge in 0.6 of comparisons or more: natural runs with the most "
         "suspected pins on, halved until\n"
         "          one is left\n"
         "contrast  else every pin on, one set of factors changed at a time, most suspected first; "
         "3 verdicts planned\n"
         "confirm   fresh runs only, free and pinned ones in an arrangement drawn beforehand (seed "
         "7); none of the pinned may\n"
         "          diverge; p is the share of arrangements at least as convincing, so it holds "
         "whatever the machine does\n"
         "          meanwhile; the first set that is tested gets .58 of alpha, the j-th .84 / 2^j; "
         "a natural run that diverges comes last\n"
         "claims    \"isolated (main cause)\": the pins matter; \"isolated\" alone: they are "
         "sufficient, shown by 14 clean\n"
         "          comparisons (at most 0.2 of comparisons diverge, 95%; assumes that pinned runs "
         "are as good as independent); --thorough goes on until then\n"
         "budget    at most 60 runs, 4 at a time, at most 90 s; about 14 when runs diverge nearly "
         "always\n");
}

static void a_plan_of_two_arms(void **state)
{
    (void)state;
    struct twin_search_plan plan = plan_of((struct twin_search_options){.arms = true});
    says(
        twin_search_plan_text(&plan),
        "plan      3 differences between A and B; alpha 0.05, beta 0.05 for the whole procedure\n"
        "baseline  A against its own first run: 3 times, all clean; B against it: until 3 "
        "divergences, or 14 clean\n"
        "          comparisons (rate 0.01 against 0.2)\n"
        "contrast  A with some of the differences as in B, by bisection\n"
        "confirm   fresh runs only, free and pinned ones in an arrangement drawn beforehand (seed "
        "7); none of the pinned may\n"
        "          diverge; p is the share of arrangements at least as convincing, so it holds "
        "whatever the machine does\n"
        "          meanwhile; the first set that is tested gets .58 of alpha, the j-th .84 / 2^j; "
        "a natural run that diverges comes last\n"
        "claims    \"isolated (main cause)\": the pins matter; \"isolated\" alone: they are "
        "sufficient, shown by 14 clean\n"
        "          comparisons (at most 0.2 of comparisons diverge, 95%; assumes that pinned runs "
        "are as good as independent)\n"
        "          free is B, pinned is B with the set as in A; then A with the set as in B has "
        "to diverge\n"
        "unit      comparisons with A's first run\n"
        "budget    at most 200 runs, 1 at a time; about 19 when B diverges from A nearly always\n");
}

/* ---- verdicts */

static struct twin_search_cause cause(size_t i)
{
    return (struct twin_search_cause){.candidate = i,
                                      .necessary = {4, 4},
                                      .sufficient = {4, 0},
                                      .p = 1 / 70.,
                                      .p_adjusted = 2 / 70.};
}

static struct twin_search_report isolated(struct twin_search_cause *c, size_t n)
{
    return (struct twin_search_report){.outcome = TWIN_SEARCH_ISOLATED,
                                       .cause = c,
                                       .cause_count = n,
                                       .runs = 14,
                                       .seconds = 3.25,
                                       .bound = .527,
                                       .left = 4,
                                       .more = 10,
                                       .unit_why = "of a reason",
                                       .rate_low = .158,
                                       .rate_high = 1,
                                       .baseline = 2,
                                       .parted = 2,
                                       .correlation.effective = 1};
}

static void a_cause(void **state)
{
    struct twin_search_cause c = cause(ENTROPY);
    struct twin_search_report r = isolated(&c, 1);
    (void)state;
    says(twin_search_verdict_text(&r, candidate),
         "outcome   isolated (main cause), 14 runs, 3.2 s\n"
         "cause     entropy \xC2\xB7 p = .014 \xC2\xB7 remaining divergence at most 53%\n"
         "          rng; free: 4 of 4 comparisons diverge; pinned: 0 of 4; p = .029 for all "
         "confirmations that a search may make\n"
         "left      whether this is all there is was not shown: 10 more clean runs with it pinned "
         "would show it (--thorough)\n");
    r.left_parted = 1;
    c.alternatives = set_of(CLOCK);
    c.p = c.p_adjusted = 1e-6;
    says(twin_search_verdict_text(&r, candidate),
         "outcome   isolated (main cause), 14 runs, 3.2 s\n"
         "cause     entropy \xC2\xB7 p < .0001 \xC2\xB7 remaining divergence at most 53%\n"
         "          rng; free: 4 of 4 comparisons diverge; pinned: 0 of 4; p < .0001 for all "
         "confirmations that a search may make\n"
         "          in the pinned world this did the same: clock\n"
         "left      with it pinned 1 of 4 comparisons diverge: there is another cause\n");
}

static void two_causes_of_two_arms(void **state)
{
    struct twin_search_cause c[2] = {cause(ENTROPY), cause(THREADS)};
    struct twin_search_report r = isolated(c, 2);
    (void)state;
    r.arms = true;
    r.left_parted = 1;
    r.repeats = 6;
    r.applied = (struct twin_search_arm){3, 3};
    r.p_applied = .012;
    c[1].failed = 2;
    c[1].alternatives = set_of(CLOCK);
    says(
        twin_search_verdict_text(&r, candidate),
        "outcome   isolated (main cause), 14 runs, 3.2 s\n"
        "cause     entropy \xC2\xB7 p = .014 \xC2\xB7 remaining divergence at most 53%\n"
        "          rng; B: 4 of 4 comparisons diverge; as in A: 0 of 4; p = .029 for all "
        "confirmations that a search may make\n"
        "cause     threads \xC2\xB7 p = .014 \xC2\xB7 remaining divergence at most 53%\n"
        "          forward; B: 4 of 4 comparisons diverge; as in A: 0 of 4; p = .029 for all "
        "confirmations that a search may make\n"
        "          without the other causes the command fails with it, 2 of 4 times: what it does "
        "by itself is not known\n"
        "          needs, and may be set back instead: clock\n"
        "left      with all of them pinned 1 of 4 comparisons diverge: there is another cause\n"
        "applied   A with them as in B: 3 of 3 comparisons diverge; A itself: 0 of 6; p = 0.012\n");
    says(twin_search_evidence_text(&r, candidate, true),
         "baseline  2 of 2 comparisons of B with A diverge (0.158 to 1)\n"
         "unit      comparisons: of a reason\n"
         "bound     a divergence in up to 0.527 of comparisons cannot be excluded (95%)\n");
}

static void what_a_fix_does_by_itself(void **state)
{
    struct twin_search_cause c[3] = {cause(ENTROPY), cause(THREADS), cause(CLOCK)};
    struct twin_search_report r = isolated(c, 3);
    (void)state;
    says(twin_search_together_text(&r, candidate, 1, (struct twin_search_arm){4, 3}),
         "   only together with entropy, clock (alone: 3 of 4 runs diverged)");
    says(twin_search_together_text(&r, candidate, 0, (struct twin_search_arm){0, 0}),
         "   only together with threads, clock (not tried alone)");
    r.cause_count = 1;
    says(twin_search_together_text(&r, candidate, 0, (struct twin_search_arm){0, 0}), "");
}

static void what_it_rests_on(void **state)
{
    struct twin_search_cause c = cause(THREADS);
    struct twin_search_report r = isolated(&c, 1);
    struct twin_search_test test[] = {{.freed = set_of(THREADS), .compared = 1, .parted = true},
                                      {.freed = set_of(CLOCK), .compared = 3}};
    char alone[] = "FPPFFPPF", several[] = "12PP1P2";
    (void)state;
    r.unit = TWIN_UNIT_EXPOSURE;
    r.hazard = .25;
    r.hazard_low = .125;
    r.test = test;
    r.test_count = 2;
    r.seed = 7;
    r.confirmations = 1;
    r.arrangement = alone;
    r.correlation = (struct twin_search_correlation){
        .comparisons = 36, .p = .012, .rho = .5, .effective = 1 / 3.};
    r.dropped = set_of(ENTROPY);
    says(twin_search_evidence_text(&r, candidate, true),
         "baseline  2 of 2 comparisons diverge (0.158 to 1); of each step the chance to "
         "diverge is 0.25, at least 0.125\n"
         "contrast  diverged in 1 comparison: threads\n"
         "contrast  clean in 3 comparisons: clock\n"
         "arranged  FPPFFPPF (seed 7, confirmation 1; F free, P pinned)\n"
         "clusters  natural divergences come in clusters (p = 0.012, correlation 0.5 from one run "
         "to the next): a comparison\n"
         "          counts 0.33 in every rate and bound; p values do not hang on it\n"
         "unit      steps: of a reason\n"
         "bound     a divergence in up to 0.527 of comparisons cannot be excluded (95%)\n"
         "dropped   the job fails under the pin: entropy\n");
    /* what is behind -v is left out; what could not be pinned is not */
    says(twin_search_evidence_text(&r, candidate, false),
         "baseline  2 of 2 comparisons diverge (0.158 to 1)\n"
         "clusters  natural divergences come in clusters (p = 0.012, correlation 0.5 from one run "
         "to the next): a comparison\n"
         "          counts 0.33 in every rate and bound; p values do not hang on it\n"
         "dropped   the job fails under the pin: entropy\n");
    r.arrangement = several;
    char *text = twin_search_evidence_text(&r, candidate, true);
    assert_non_null(strstr(
        text,
        "arranged  12PP1P2 (seed 7, confirmation 1; 1, 2, ... with this cause free, P pinned)\n"));
    tw_free(text);
}

static void suspects(void **state)
{
    struct twin_search_test test[] = {{.compared = 2, .parted = true}};
    struct twin_search_report r = {.outcome = TWIN_SEARCH_OUTSIDE,
                                   .bound = NAN,
                                   .suspects = set_of(THREADS),
                                   .correlation.effective = 1};
    (void)state;
    says(twin_search_evidence_text(&r, candidate, true),
         "suspects  influence shown, not confirmed: threads\n");
    r.test = test;
    r.test_count = 1;
    says(twin_search_evidence_text(&r, candidate, true),
         "contrast  diverged in 2 comparisons: nothing\n"
         "suspects  diverge when freed, and so do runs with every pin on: threads\n");
    r.arms = true;
    says(twin_search_evidence_text(&r, candidate, true),
         "contrast  diverged in 2 comparisons: A itself\n"
         "suspects  influence shown, not confirmed: threads\n");
}

/* ---- ends without a cause: outcome, of two arms?, the vote, the verdict, the sentence */

struct end {
    enum twin_search_outcome outcome;
    bool arms;
    enum twin_search_vote vote;
    const char *verdict, *sentence;
};

static const struct end ends[] = {
    {TWIN_SEARCH_NO_DIVERGENCE, false, 0, "outcome   no divergence, 9 runs, 0.0 s\n",
     "No difference was found in 14 comparisons"},
    {TWIN_SEARCH_OUTSIDE, false, TWIN_VOTE_UNKNOWN,
     "outcome   outside the pins, 9 runs, 0.0 s\n"
     "evidence  with every pin on, 2 of 3 comparisons diverge; no replay could tell the operation "
     "from the hardware\n",
     "The runs diverge although everything that can be pinned is pinned"},
    {TWIN_SEARCH_OUTSIDE, false, TWIN_VOTE_OPERATION,
     "outcome   outside the pins, 9 runs, 0.0 s\n"
     "evidence  with every pin on, 2 of 3 comparisons diverge; the operation disagrees with itself "
     "on "
     "every core\n",
     "The runs diverge although everything that can be pinned is pinned"},
    {TWIN_SEARCH_HARDWARE, false, TWIN_VOTE_HARDWARE,
     "outcome   hardware suspected, 9 runs, 0.0 s\n"
     "evidence  with every pin on, 2 of 3 comparisons diverge; the operation answers otherwise on "
     "one "
     "core or device\n",
     "The runs diverge under every pin, and one core or device answers otherwise: hardware is "
     "suspected"},
    {TWIN_SEARCH_NOT_ENOUGH, false, 0,
     "outcome   not enough runs, 9 runs, 0.0 s\n"
     "need      about 40 runs in all; the same log goes on\n",
     "The budget ended before a verdict: about 40 runs are needed, 9 were made"},
    {TWIN_SEARCH_UNEXPLAINED, false, 0,
     "outcome   unexplained, 9 runs, 0.0 s\n"
     "evidence  the pinned world is clean, and changing every candidate there does not bring the "
     "divergence back\n",
     "Pinned runs agree, but freeing no set of factors brings the divergence back"},
    {TWIN_SEARCH_UNEXPLAINED, true, 0,
     "outcome   unexplained, 9 runs, 0.0 s\n"
     "evidence  A repeats itself, and no set of the differences makes it diverge: it lies outside "
     "of "
     "what differs\n",
     "A repeats itself, and no set of the differences makes it diverge"},
    {TWIN_SEARCH_INTERRUPTED, false, 0, "outcome   interrupted, 9 runs, 0.0 s\n",
     "The search was interrupted: no verdict yet"},
    {TWIN_SEARCH_JOB_FAILS, false, 0, "outcome   the job fails, 9 runs, 0.0 s\n",
     "The job fails in every natural run"},
    {TWIN_SEARCH_JOB_FAILS, true, 0,
     "outcome   the job fails, 9 runs, 0.0 s\n"
     "evidence  A itself does not end well, so that nothing can be compared with it\n",
     "A fails: nothing can be compared with it"},
    {TWIN_SEARCH_UNSTEADY, true, 0,
     "outcome   A does not repeat itself, 9 runs, 0.0 s\n"
     "evidence  A diverges from its own first run in comparison 3: whatever is changed would seem "
     "to "
     "be to blame\n",
     "A does not repeat itself: whatever is changed would seem to be to blame"},
    {TWIN_SEARCH_UNSEEN, false, 0, "outcome   inconclusive, 9 runs, 0.0 s\n",
     "No difference was found, but not enough was seen to say that there is none"},
    {TWIN_SEARCH_GONE, false, 0,
     "outcome   not isolated: the divergence went away after run 5, 9 runs, 0.0 s\n"
     "evidence  natural runs diverged at first, and no longer: whatever was pinned meanwhile would "
     "seem to have helped\n",
     "Not isolated: the divergence went away after run 5"},
};

static void each_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct twin_search_report r = {.outcome = ends[i].outcome,
                                       .arms = ends[i].arms,
                                       .vote = ends[i].vote,
                                       .baseline = 14,
                                       .need = 40,
                                       .runs = 9,
                                       .pinned = 3,
                                       .pinned_parted = 2,
                                       .last_parted = 5};
        says(twin_search_verdict_text(&r, candidate), ends[i].verdict);
        says(twin_search_end_text(&r), ends[i].sentence);
    }
    const struct twin_search_report text = {.outcome = TWIN_SEARCH_UNSEEN, .unjudged = true};
    says(twin_search_end_text(&text),
         "The runs differ in text or files only, which may be harmless; --text takes that for a "
         "divergence");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan),           cmocka_unit_test(a_plan_of_two_arms),
        cmocka_unit_test(a_cause),          cmocka_unit_test(two_causes_of_two_arms),
        cmocka_unit_test(what_it_rests_on), cmocka_unit_test(what_a_fix_does_by_itself),
        cmocka_unit_test(suspects),         cmocka_unit_test(each_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
