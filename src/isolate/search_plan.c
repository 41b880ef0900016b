/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a search decides by, fixed before the first run (twin_search_plan), and what plan and report
 * say in words. The texts go to the terminal, into plan.txt of the search's folder, and into the
 * report; they say "diverge" where names in the code say "part".
 */
#include "search_inside.h"

#include "phrase.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* The order is that of enum-like numbers in results and in the table of tw_suspicion. */
static const char *const layers[TWIN_SEARCH_LAYERS] = {
    "data",      "rng",        "init",        "forward",  "backward", "collective",
    "optimizer", "checkpoint", "environment", "hardware", "schedule", "artifact"};

const char *twin_search_layer_name(int layer)
{
    return layer >= 0 && layer < TWIN_SEARCH_LAYERS ? layers[layer] : "unknown";
}

int twin_search_layer(const char *name)
{
    for (int i = 0; name && i < TWIN_SEARCH_LAYERS; i++)
        if (!strcmp(layers[i], name))
            return i;
    return -1;
}

const char *twin_search_purpose_name(enum twin_search_purpose p)
{
    static const char *const names[] = {"baseline",    "reference", "contrast", "pins",
                                        "failing pin", "vote",      "free"};
    return (size_t)p < sizeof names / sizeof *names ? names[p] : "unknown";
}

const char *twin_search_outcome_name(enum twin_search_outcome o)
{
    static const char *const names[] = {
        "isolated",           "no divergence",           "outside the pins",
        "hardware suspected", "not enough runs",         "unexplained",
        "interrupted",        "the job fails",           "A does not repeat itself",
        "inconclusive",       "the divergence went away"};
    return (size_t)o < sizeof names / sizeof *names ? names[o] : "unknown";
}

/* Error rate for the set that is tested now, as a share of alpha. What chose it does not testify,
 * so what counts are the sets taken to fresh runs. The first gets .58: of alpha .05 that is just
 * above 1/35, which 7 runs reach, where a half of it would take 8. The j-th gets .84 / 2^j from the
 * second on, so that all shares sum to 1 however many there will be. */
double tw_share_of_set(uint32_t number)
{
    return number <= 1 ? .58 : .84 * pow(.5, number);
}

double tw_alpha_share(const struct tw_search *s)
{
    return tw_share_of_set(s->sets_tested);
}

/* 0, or TWIN_EINVAL: the message names the candidate that cannot be searched. */
static int check_candidates(const struct twin_candidate *candidate, size_t count,
                            struct twin_error *err)
{
    if (count == 0 || count > TWIN_SEARCH_FACTORS)
        return twin_error_set(err, TWIN_EINVAL,
                              "a search takes 1 to %d candidate factors, found %zu",
                              TWIN_SEARCH_FACTORS, count);
    for (size_t i = 0; i < count; i++) {
        if (!candidate[i].id || !*candidate[i].id)
            return twin_error_set(err, TWIN_EINVAL, "candidate %zu has no id", i);
        if (twin_search_layer(candidate[i].layer) < 0)
            return twin_error_set(err, TWIN_EINVAL,
                                  "candidate %s: expected one of the twelve layers (data, rng, ... "
                                  "artifact), found %s",
                                  candidate[i].id,
                                  candidate[i].layer ? candidate[i].layer : "none");
        for (size_t j = 0; j < i; j++)
            if (!strcmp(candidate[i].id, candidate[j].id))
                return twin_error_set(err, TWIN_EINVAL, "candidate %s is listed twice",
                                      candidate[i].id);
    }
    return 0;
}

/* Runs of the first confirmation when every free run diverges and no pinned one does, and the
 * natural run that ends it: 7 and 1 at alpha .05. */
static uint32_t confirm_runs(double alpha)
{
    assert(alpha > 0);
    uint32_t runs = 2;
    for (double p = 1; p > alpha * tw_share_of_set(1); runs++)
        p = tw_block_p(runs / 2, runs - runs / 2, runs / 2);
    return runs; /* the loop counts one run too many, which is the natural one */
}

/* 0 is no seed: then one is drawn, from the system. TWIN_EIO when it has none to give. */
static int draw_seed(uint64_t given, uint64_t *seed, struct twin_error *err)
{
    *seed = given;
    while (*seed == 0)
        if (getrandom(seed, sizeof *seed, 0) != (ssize_t)sizeof *seed)
            return twin_error_set(
                err, TWIN_EIO, "the system gives no random number for the arrangement of the runs");
    return 0;
}

/* The numbers of a plan for two arms: A's first run and its repeats, B, one contrast, the set as in
 * A, the set as in B (for a single difference that is B, and made already). */
static void plan_arms(struct twin_search_plan *p, uint32_t levels)
{
    p->baseline_parts = 3; /* they also say whether A diverges with the set as in B */
    while (tw_all_against_none(p->baseline_parts, p->repeats) > p->alpha * tw_share_of_set(1))
        p->repeats++;
    uint32_t confirm = confirm_runs(p->alpha) + (p->candidates > 1 ? p->baseline_parts : 0);
    p->least_runs = 1 + p->repeats + p->baseline_at_once + 1 + confirm;
    p->expected_runs = 1 + p->repeats + p->baseline_at_once + (p->candidates > 1 ? levels : 1) +
                       confirm;
}

/* Checks what was asked for, and derives the numbers of the plan from the error rates. */
int twin_search_plan(const struct twin_candidate *candidate, size_t count,
                     const struct twin_search_options *options, struct twin_search_plan *out,
                     struct twin_error *err)
{
    static const struct twin_search_options none;
    const struct twin_search_options *o = options ? options : &none;
    int rc = check_candidates(candidate, count, err);
    if (rc)
        return rc;
    double alpha = o->alpha == 0 ? .05 : o->alpha, beta = o->beta == 0 ? .05 : o->beta;
    if (!(alpha >= 1e-6 && alpha < .5 && beta >= 1e-6 && beta < .5))
        return twin_error_set(
            err, TWIN_EINVAL,
            "error rates must be from 1e-6 to below .5, found alpha = %g, beta = %g", alpha, beta);
    if (!(o->max_seconds >= 0) || o->parallel > 64 || o->max_runs > 1000000)
        return twin_error_set(err, TWIN_EINVAL,
                              "expected a time limit of 0 or more, at most 64 runs at the same "
                              "time and at most 1,000,000 runs; found %g s, %u and %u",
                              o->max_seconds, o->parallel, o->max_runs);
    /* "Clean" means a rate of divergence of at most p0 = 1%, tested against p1 = 20%. Two
     * divergences end the baseline, since fresh runs of the confirmation follow. */
    struct twin_search_plan p = {.alpha = alpha,
                                 .beta = beta,
                                 .p0 = .01,
                                 .p1 = .2,
                                 .baseline_parts = 2,
                                 .baseline_at_once = 2,
                                 .max_runs = o->max_runs ? o->max_runs : 200,
                                 .max_seconds = o->max_seconds,
                                 .parallel = o->parallel ? o->parallel : 1,
                                 .vary = !o->no_vary,
                                 .arms = o->arms,
                                 .thorough = o->thorough,
                                 .repeats = o->arms,
                                 .candidates = count};
    for (size_t i = 0; i < count; i++)
        p.can_pin += candidate[i].can_pin;
    p.baseline_clean = (uint32_t)twin_stats_sprt_clean_needed(
        (struct twin_sprt){p.p0, p.p1, alpha, beta});
    /* contrasts that bisection over all candidates takes */
    uint32_t levels = (uint32_t)ceil(log2((double)count + 1));
    p.verdicts = levels + 1;
    p.sufficient_clean = (uint32_t)twin_stats_trials_needed(p.p1, .95);
    rc = draw_seed(o->seed, &p.seed, err);
    if (rc)
        return rc;
    /* A budget that could not confirm even the clearest cause is refused before the first run.
     * pinned: the one run with the pin that the fresh ones are compared with. */
    uint32_t natural = p.baseline_at_once + 1, pinned = 1;
    p.least_runs = natural + pinned + confirm_runs(alpha);
    p.expected_runs = natural + pinned + 2 * (levels - 1) + confirm_runs(alpha);
    if (p.arms)
        plan_arms(&p, levels);
    if (p.arms && p.max_runs < p.least_runs)
        return twin_error_set(
            err, TWIN_EINVAL,
            "a budget of %u runs is too small: nothing can be confirmed with fewer than %u; about "
            "%u are needed when B nearly always diverges from A. Give --max-runs %u or more",
            p.max_runs, p.least_runs, p.expected_runs, p.expected_runs);
    if (p.max_runs < p.least_runs)
        return twin_error_set(
            err, TWIN_EINVAL,
            "a budget of %u runs is too small: no cause can be confirmed with fewer than %u (%u "
            "natural, %u to choose a pin, %u to confirm it); about %u are needed when runs diverge "
            "nearly always, more when seldom. Give --max-runs %u or more",
            p.max_runs, p.least_runs, natural, pinned, p.least_runs - natural - pinned,
            p.expected_runs, p.expected_runs);
    *out = p;
    return 0;
}

/* The put_ functions add lines of a text to b, each with a word of ten columns in front. */
static void put_budget(struct tw_buf *b, const struct twin_search_plan *p)
{
    tw_buf_printf(b, "budget    at most %u runs, %u at a time", p->max_runs, p->parallel);
    if (p->max_seconds > 0)
        tw_buf_printf(b, ", at most %g s", p->max_seconds);
    tw_buf_printf(b, "; about %u when %s nearly always\n", p->expected_runs,
                  p->arms ? "B diverges from A" : "runs diverge");
}

static void put_confirmation(struct tw_buf *b, const struct twin_search_plan *p)
{
    tw_buf_printf(b,
                  "confirm   fresh runs only, free and pinned ones in an arrangement drawn "
                  "beforehand (seed %llu); none of the pinned may\n"
                  "          diverge; p is the share of arrangements at least as convincing, so it "
                  "holds whatever the machine does\n"
                  "          meanwhile; the first set that is tested gets .58 of alpha, the j-th "
                  ".84 / 2^j; a natural run that diverges comes last\n",
                  (unsigned long long)p->seed);
    tw_buf_printf(b,
                  "claims    \"isolated (main cause)\": the pins matter; \"isolated\" alone: they "
                  "are sufficient, shown by %u clean\n"
                  "          comparisons (at most %g of comparisons diverge, 95%%; assumes that "
                  "pinned runs are as good as independent)%s\n",
                  p->sufficient_clean, p->p1, p->thorough ? "; --thorough goes on until then" : "");
}

static void put_arms_plan(struct tw_buf *b, const struct twin_search_plan *p)
{
    tw_buf_printf(
        b,
        "plan      %zu difference%s between A and B; alpha %g, beta %g for the whole procedure\n",
        p->candidates, tw_plural_s(p->candidates), p->alpha, p->beta);
    tw_buf_printf(b,
                  "baseline  A against its own first run: %u times, all clean; B against it: until "
                  "%u divergences, or %u clean\n"
                  "          comparisons (rate %g against %g)\n",
                  p->repeats, p->baseline_parts, p->baseline_clean, p->p0, p->p1);
    tw_buf_puts(b, "contrast  A with some of the differences as in B, by bisection\n");
    put_confirmation(b, p);
    tw_buf_puts(b, "          free is B, pinned is B with the set as in A; then A with the set as "
                   "in B has to diverge\n"
                   "unit      comparisons with A's first run\n");
    put_budget(b, p);
}

char *twin_search_plan_text(const struct twin_search_plan *p)
{
    struct tw_buf b = {0};
    if (p->arms) {
        put_arms_plan(&b, p);
        return tw_buf_steal(&b);
    }
    tw_buf_printf(&b,
                  "plan      %zu candidate factors, %zu with a pin; alpha %g, beta %g for the "
                  "whole procedure\n",
                  p->candidates, p->can_pin, p->alpha, p->beta);
    tw_buf_printf(&b,
                  "baseline  until %u divergences, or %u clean comparisons (rate %g against %g); "
                  "one divergence rejects clean\n",
                  p->baseline_parts, p->baseline_clean, p->p0, p->p1);
    tw_buf_printf(
        &b,
        "alone     where runs diverge in %g of comparisons or more: natural runs with the "
        "most suspected pins on, halved until\n"
        "          one is left\n",
        TW_OFTEN);
    tw_buf_printf(&b,
                  "contrast  else every pin on, one set of factors changed at a time, most "
                  "suspected first; %u verdicts planned\n",
                  p->verdicts);
    put_confirmation(&b, p);
    put_budget(&b, p);
    return tw_buf_steal(&b);
}

static void put_set(struct tw_buf *b, const struct twin_search_set *set,
                    const struct twin_candidate *candidate)
{
    const char *comma = "";
    for (size_t i = 0; i < TWIN_SEARCH_FACTORS; i++)
        if (twin_search_has(set, i)) {
            tw_buf_printf(b, "%s%s", comma, candidate[i].id);
            comma = ", ";
        }
    if (!*comma)
        tw_buf_puts(b, "nothing");
}

/* ".014", "< .0001": a p value in as many characters as it deserves. */
static void put_p(struct tw_buf *b, double p)
{
    char text[32];
    if (p < .0001) {
        tw_buf_puts(b, "p < .0001");
        return;
    }
    snprintf(text, sizeof text, "%.2g", p);
    tw_buf_printf(b, "p = %s", text[0] == '0' ? text + 1 : text);
}

char *twin_search_plan_line(const struct twin_search_plan *p)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b,
                  "plan      %zu candidates; at most %u runs, about %u when runs diverge nearly ",
                  p->candidates, p->max_runs, p->expected_runs);
    tw_buf_puts(&b, "always (-v: the whole plan)\n");
    return tw_buf_steal(&b);
}

/* A line on clusters, where they make comparisons count less than one each. */
static void put_correlation(struct tw_buf *b, const struct twin_search_correlation *c)
{
    if (c->effective >= 1)
        return;
    tw_buf_printf(b,
                  "clusters  natural divergences come in clusters (p = %.2g, correlation %.2g from "
                  "one run to the next): a comparison\n"
                  "          counts %.2g in every rate and bound; p values do not hang on it\n",
                  c->p, c->rho, c->effective);
}

static void put_counts(struct tw_buf *b, const struct twin_search_report *r,
                       const struct twin_search_cause *c, const struct twin_candidate *candidate)
{
    const char *unit = r->unit == TWIN_UNIT_RUN ? "comparisons" : "steps";
    tw_buf_printf(b, "          %s; %s: %llu of %llu %s diverge; %s: %llu of %llu; ",
                  candidate[c->candidate].layer, r->arms ? "B" : "free",
                  (unsigned long long)c->necessary.parted, (unsigned long long)c->necessary.trials,
                  unit, r->arms ? "as in A" : "pinned", (unsigned long long)c->sufficient.parted,
                  (unsigned long long)c->sufficient.trials);
    put_p(b, c->p_adjusted);
    tw_buf_puts(b, " for all confirmations that a search may make\n");
}

/* What of B was set in A, as a word for the causes. */
static const char *applied_words(const struct twin_search_report *r)
{
    assert(r->cause_count > 0);
    if (r->cause_count > 1)
        return "them";
    return tw_set_count(&r->cause[0].alternatives) ? "it and what it needs" : "it";
}

/* Each cause with its figures, then what holds for all of them: what is left, and of two arms what
 * A shows. */
static void put_causes(struct tw_buf *b, const struct twin_search_report *r,
                       const struct twin_candidate *candidate)
{
    for (size_t i = 0; i < r->cause_count; i++) {
        const struct twin_search_cause *c = &r->cause[i];
        tw_buf_printf(b, "cause     %s \xC2\xB7 ", candidate[c->candidate].id);
        put_p(b, c->p);
        tw_buf_printf(b, " \xC2\xB7 remaining divergence at most %.0f%%\n", 100 * r->bound);
        put_counts(b, r, c, candidate);
        if (r->arms && c->failed)
            tw_buf_printf(b,
                          "          without the other causes the command fails with it, %llu of "
                          "%llu times: what it does by itself is not known\n",
                          (unsigned long long)c->failed, (unsigned long long)c->necessary.trials);
        if (tw_set_count(&c->alternatives) == 0)
            continue;
        tw_buf_puts(b, r->arms ? "          needs, and may be set back instead: "
                               : "          in the pinned world this did the same: ");
        put_set(b, &c->alternatives, candidate);
        tw_buf_puts(b, "\n");
    }
    if (r->cause_count && r->left_parted)
        tw_buf_printf(
            b,
            "left      with %s pinned %llu of %llu comparisons diverge: there is another cause\n",
            r->cause_count > 1 ? "all of them" : "it", (unsigned long long)r->left_parted,
            (unsigned long long)r->left);
    else if (r->cause_count && !r->sufficient)
        tw_buf_printf(b,
                      "left      whether this is all there is was not shown: %u more clean runs "
                      "with %s pinned would show it (--thorough)\n",
                      r->more, r->cause_count > 1 ? "them" : "it");
    if (r->arms && r->cause_count)
        tw_buf_printf(
            b,
            "applied   A with %s as in B: %llu of %llu comparisons diverge; A itself: 0 of "
            "%llu; p = %.2g\n",
            applied_words(r), (unsigned long long)r->applied.parted,
            (unsigned long long)r->applied.trials, (unsigned long long)r->repeats, r->p_applied);
}

char *twin_search_together_text(const struct twin_search_report *r,
                                const struct twin_candidate *candidate, size_t cause,
                                struct twin_search_arm alone)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (size_t i = 0, n = 0; i < r->cause_count; i++)
        if (i != cause)
            tw_buf_printf(&b, "%s%s", n++ ? ", " : "   only together with ",
                          candidate[r->cause[i].candidate].id);
    if (r->cause_count > 1 && alone.trials)
        tw_buf_printf(&b, " (alone: %llu of %llu runs diverged)", (unsigned long long)alone.parted,
                      (unsigned long long)alone.trials);
    else if (r->cause_count > 1)
        tw_buf_puts(&b, " (not tried alone)");
    return tw_buf_steal(&b);
}

/* What the replays of the operation said, behind the evidence. */
static const char *vote_words(const struct twin_search_report *r)
{
    if (r->vote == TWIN_VOTE_HARDWARE)
        return "; the operation answers otherwise on one core or device";
    if (r->vote == TWIN_VOTE_OPERATION)
        return "; the operation disagrees with itself on every core";
    return "; no replay could tell the operation from the hardware";
}

/* What the caller should know of an end that is no verdict. */
static void put_end(struct tw_buf *b, const struct twin_search_report *r)
{
    switch (r->outcome) {
    case TWIN_SEARCH_OUTSIDE:
    case TWIN_SEARCH_HARDWARE:
        tw_buf_printf(b, "evidence  with every pin on, %llu of %llu comparisons diverge%s\n",
                      (unsigned long long)r->pinned_parted, (unsigned long long)r->pinned,
                      vote_words(r));
        break;
    case TWIN_SEARCH_NOT_ENOUGH:
        tw_buf_printf(b, "need      about %u runs in all; the same log goes on\n", r->need);
        break;
    case TWIN_SEARCH_UNEXPLAINED:
        tw_buf_puts(b, r->arms ? "evidence  A repeats itself, and no set of the differences makes "
                                 "it diverge: it lies outside of what differs\n"
                               : "evidence  the pinned world is clean, and changing every "
                                 "candidate there does not bring the divergence back\n");
        break;
    case TWIN_SEARCH_JOB_FAILS:
        if (r->arms)
            tw_buf_puts(
                b,
                "evidence  A itself does not end well, so that nothing can be compared with it\n");
        break;
    case TWIN_SEARCH_UNSTEADY:
        tw_buf_printf(b,
                      "evidence  A diverges from its own first run in comparison %llu: whatever is "
                      "changed would seem to be to blame\n",
                      (unsigned long long)r->pinned);
        break;
    case TWIN_SEARCH_GONE:
        tw_buf_puts(b,
                    "evidence  natural runs diverged at first, and no longer: whatever was pinned "
                    "meanwhile would seem to have helped\n");
        break;
    default: break;
    }
}

char *twin_search_end_text(const struct twin_search_report *r)
{
    struct tw_buf b = {0};
    switch (r->outcome) {
    /* The report says that, which knows the factors' titles. */
    case TWIN_SEARCH_ISOLATED: tw_buf_puts(&b, ""); break;
    case TWIN_SEARCH_NO_DIVERGENCE:
        tw_buf_printf(&b, "No difference was found in %llu comparisons",
                      (unsigned long long)r->baseline);
        break;
    case TWIN_SEARCH_OUTSIDE:
        tw_buf_puts(&b, "The runs diverge although everything that can be pinned is pinned");
        break;
    case TWIN_SEARCH_HARDWARE:
        tw_buf_puts(&b,
                    "The runs diverge under every pin, and one core or device answers otherwise: "
                    "hardware is suspected");
        break;
    case TWIN_SEARCH_NOT_ENOUGH:
        tw_buf_printf(&b,
                      "The budget ended before a verdict: about %u runs are needed, %u were made",
                      r->need, r->runs);
        break;
    case TWIN_SEARCH_UNEXPLAINED:
        tw_buf_puts(
            &b,
            r->arms
                ? "A repeats itself, and no set of the differences makes it diverge"
                : "Pinned runs agree, but freeing no set of factors brings the divergence back");
        break;
    case TWIN_SEARCH_UNSTEADY:
        tw_buf_puts(&b, "A does not repeat itself: whatever is changed would seem to be to blame");
        break;
    case TWIN_SEARCH_INTERRUPTED:
        tw_buf_puts(&b, "The search was interrupted: no verdict yet");
        break;
    case TWIN_SEARCH_JOB_FAILS:
        tw_buf_puts(&b, r->arms ? "A fails: nothing can be compared with it"
                                : "The job fails in every natural run");
        break;
    case TWIN_SEARCH_GONE:
        tw_buf_printf(&b, "Not isolated: the divergence went away after run %u", r->last_parted);
        break;
    case TWIN_SEARCH_UNSEEN:
        tw_buf_puts(&b, r->unjudged
                            ? "The runs differ in text or files only, which may be harmless; "
                              "--text takes that for a divergence"
                            : "No difference was found, but not enough was seen to say that there "
                              "is none");
        break;
    }
    return tw_buf_steal(&b);
}

/* "isolated (main cause)"; "not isolated: the divergence went away after run 5". */
static void put_outcome(struct tw_buf *b, const struct twin_search_report *r)
{
    if (r->outcome == TWIN_SEARCH_GONE)
        tw_buf_printf(b, "outcome   not isolated: the divergence went away after run %u",
                      r->last_parted);
    else
        tw_buf_printf(b, "outcome   %s%s", twin_search_outcome_name(r->outcome),
                      r->outcome == TWIN_SEARCH_ISOLATED && !r->sufficient ? " (main cause)" : "");
}

/* What was found, for every outcome: a line for it, the causes, and what else the reader should
 * know. */
char *twin_search_verdict_text(const struct twin_search_report *r,
                               const struct twin_candidate *candidate)
{
    struct tw_buf b = {0};
    put_outcome(&b, r);
    tw_buf_printf(&b, ", %u runs, %.1f s\n", r->runs, r->seconds);
    put_causes(&b, r, candidate);
    put_end(&b, r);
    return tw_buf_steal(&b);
}

/* Does a run with every pin on diverge? Then a set that diverges when it is freed shows nothing: it
 * may diverge as the rest does. */
static bool parts_with_every_pin(const struct twin_search_report *r)
{
    bool parts = false;
    for (size_t i = 0; i < r->test_count; i++)
        parts |= r->test[i].parted && tw_set_count(&r->test[i].freed) == 0;
    return parts && !r->arms;
}

/* A line for each kind of evidence that there is, in the order in which the search came to it. */
char *twin_search_evidence_text(const struct twin_search_report *r,
                                const struct twin_candidate *candidate, bool whole)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    if (r->baseline) {
        tw_buf_printf(&b, "baseline  %llu of %llu comparisons %s (%.3g to %.3g)",
                      (unsigned long long)r->parted, (unsigned long long)r->baseline,
                      r->arms ? "of B with A diverge" : "diverge", r->rate_low, r->rate_high);
        if (r->hazard > 0 && whole)
            tw_buf_printf(&b, "; of each step the chance to diverge is %.3g, at least %.3g",
                          r->hazard, r->hazard_low);
        tw_buf_puts(&b, "\n");
    }
    for (size_t i = 0; i < r->test_count && whole; i++) {
        tw_buf_printf(
            &b, "contrast  %s in %llu comparison%s: ", r->test[i].parted ? "diverged" : "clean",
            (unsigned long long)r->test[i].compared, tw_plural_s(r->test[i].compared));
        if (r->arms && tw_set_count(&r->test[i].freed) == 0)
            tw_buf_puts(&b, "A itself");
        else
            put_set(&b, &r->test[i].freed, candidate);
        tw_buf_puts(&b, "\n");
    }
    if (r->arrangement && whole)
        tw_buf_printf(&b, "arranged  %s (seed %llu, confirmation %u; %s free, P pinned)\n",
                      r->arrangement, (unsigned long long)r->seed, r->confirmations,
                      strchr(r->arrangement, 'F') ? "F" : "1, 2, ... with this cause");
    put_correlation(&b, &r->correlation);
    if (r->cause_count && whole)
        tw_buf_printf(&b, "unit      %s: %s\n", r->unit == TWIN_UNIT_RUN ? "comparisons" : "steps",
                      r->unit_why);
    /* with a cause it stands behind the cause, too */
    if (!isnan(r->bound) && (whole || !r->cause_count))
        tw_buf_printf(
            &b, "bound     a divergence in up to %.3g of comparisons cannot be excluded (95%%)\n",
            r->bound);
    if (tw_set_count(&r->dropped)) {
        bool fails = true;
        for (size_t i = 0; i < TWIN_SEARCH_FACTORS; i++)
            fails = fails && !(twin_search_has(&r->dropped, i) && candidate[i].may_not_hold);
        tw_buf_printf(&b, "dropped   the job fails under the pin%s: ",
                      fails ? "" : ", or the pin does not hold");
        put_set(&b, &r->dropped, candidate);
        tw_buf_puts(&b, "\n");
    }
    /* Suspects are named only where no cause was: with one they would be taken for more causes. */
    if (r->outcome != TWIN_SEARCH_ISOLATED && tw_set_count(&r->suspects)) {
        if (parts_with_every_pin(r))
            tw_buf_puts(&b, "suspects  diverge when freed, and so do runs with every pin on: ");
        else
            tw_buf_puts(&b, "suspects  influence shown, not confirmed: ");
        put_set(&b, &r->suspects, candidate);
        tw_buf_puts(&b, "\n");
    }
    return tw_buf_steal(&b);
}
