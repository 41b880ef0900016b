/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the search for a cause (src/isolate/search.h): baseline, pinned world, find, confirm,
 * until the set of pins is sufficient or an honest end is reached. The way through is written down
 * in docs/internals/isolate.md.
 *
 * Each step lives in a file of its own and returns a code; here they are put in order, and every
 * code becomes an outcome of the report. cmd/isolate.c calls twin_search with callbacks that make
 * the runs.
 */
#include "search_inside.h"
#include <assert.h>
#include <math.h>

/* With every pin on, do runs diverge? Stops at the first that does. */
static int screen(struct tw_search *s, uint64_t clean, bool *parted, struct twin_error *err)
{
    const struct twin_search_set none = {{0}};
    return tw_contrast(s, &none, clean, parted, err);
}

static bool any_clean_contrast(const struct tw_search *s)
{
    for (size_t i = 0; i < s->report->test_count; i++)
        if (!s->report->test[i].parted && s->report->test[i].compared > 0)
            return true;
    return false;
}

/* Of pins that do the same, the one whose layer is most suspected; of equals the first in the
 * table. */
static size_t choose_pin(const struct tw_search *s, const struct twin_search_set *found)
{
    assert(tw_set_count(found) > 0);
    size_t best = SIZE_MAX;
    double best_suspicion = 0;
    for (size_t i = 0; i < s->plan->candidates; i++) {
        const struct twin_candidate *c = &s->candidate[i];
        if (!twin_search_has(found, i))
            continue;
        double suspicion = 0;
        for (int layer = 0; layer < TWIN_SEARCH_LAYERS; layer++)
            suspicion += (double)s->report->seen[layer] * tw_suspicion(c, layer);
        if (best == SIZE_MAX || suspicion > best_suspicion) {
            best = i;
            best_suspicion = suspicion;
        }
    }
    assert(best != SIZE_MAX);
    return best;
}

/* The set that grows from round to round. refuted: pins that were put aside once, after a
 * divergence under each of them. alternatives: of each chosen pin, the pins that did the same in
 * the pinned world. */
struct chosen {
    struct twin_search_set pins, refuted, alternatives[TWIN_SEARCH_FACTORS];
};

/* How the search ends with this answer; false: it goes on. */
static bool ends(struct tw_search *s, enum tw_confirmed answer)
{
    if (answer == TW_SUFFICIENT)
        s->report->outcome = TWIN_SEARCH_ISOLATED;
    else if (answer == TW_NOT_APPLIED)
        s->report->outcome = TWIN_SEARCH_UNEXPLAINED;
    else if (answer == TW_A_PARTS)
        s->report->outcome = TWIN_SEARCH_UNSTEADY;
    else
        return false;
    return true;
}

/* Adds the pin to the set and takes it to fresh natural runs. *over: the search has ended.
 * Otherwise the next round goes on with the set as it is left: with the pin, or without it where it
 * was put aside, or where the job fails under it. */
static int try_pin(struct tw_search *s, struct chosen *c, size_t pin, bool *over,
                   struct twin_error *err)
{
    assert(pin < s->plan->candidates);
    enum tw_confirmed answer;
    tw_set_add(&c->pins, pin);
    tw_set_add(&s->report->suspects, pin);
    *over = false;
    /* then more pins are needed, and no fresh runs to know it */
    if (tw_known_to_part(s, &c->pins))
        return 0;
    int rc = tw_confirm(s, &c->pins, c->alternatives, &answer, err);
    if (rc)
        return rc;
    *over = ends(s, answer);
    if (*over)
        return 0;
    /* Where runs diverge seldom, one cause is likelier than two of which the first was found: the
     * pin is put aside, once. */
    if (answer == TW_NOT_SUFFICIENT && tw_set_count(&c->pins) == 1 && !s->main_cause &&
        tw_rate(&s->arm[0]) < TW_OFTEN && !twin_search_has(&c->refuted, pin)) {
        tw_set_add(&c->refuted, pin);
        tw_set_remove(&c->pins, pin);
        tw_set_remove(&s->report->suspects, pin);
    }
    if (answer == TW_SET_FAILS) { /* the job needs this one free when the rest is natural */
        tw_set_remove(&c->pins, pin);
        tw_set_remove(&s->report->suspects, pin);
        tw_set_add(&s->report->dropped, pin);
    }
    return 0;
}

/* Asks for a vote on the last pair that diverged, replayed under all pins. Without a budget for it
 * there is no vote, which is no error. */
static int vote_on_pair(struct tw_search *s, struct twin_error *err)
{
    size_t done;
    const struct twin_search_set none = {{0}};
    tw_world_pinned(s, &none, s->setting);
    int rc = tw_runs(s, TWIN_FOR_VOTE, 1, s->parted_a, s->parted_b, &done, err);
    if (rc == 0)
        s->report->vote = s->result[0].vote;
    return rc == TW_BUDGET ? 0 : rc;
}

/* Runs diverge with every pin on. It is the hardware, or something that a pin of last resort stops,
 * or nothing that we know; these are looked at in that order. */
static int outside(struct tw_search *s, struct chosen *c, struct twin_error *err)
{
    if (s->plan->arms) {
        s->report->outcome = TWIN_SEARCH_UNSTEADY;
        return 0;
    }
    int rc = vote_on_pair(s, err);
    bool over = s->report->vote == TWIN_VOTE_HARDWARE;
    s->report->outcome = over ? TWIN_SEARCH_HARDWARE : TWIN_SEARCH_OUTSIDE;
    for (size_t i = 0; i < s->plan->candidates && rc == 0 && !over; i++) {
        if (!s->candidate[i].last_resort || !s->candidate[i].can_pin ||
            twin_search_has(&s->report->left_out, i))
            continue;
        rc = try_pin(s, c, i, &over, err);
        if (rc == 0 && !over) {
            tw_set_remove(&c->pins, i);
            tw_set_remove(&s->report->suspects, i);
        }
    }
    return rc;
}

/* Replays spoke against one core already. So W0 is looked at first: where runs diverge in it as
 * well, the vote is next, and nothing else needs to be tried. */
static int suspect_core(struct tw_search *s, struct chosen *c, bool *over, struct twin_error *err)
{
    int rc = tw_pinned_world(s, err);
    if (!rc)
        rc = screen(s, tw_clean_needed(&s->arm[0], .15), over, err);
    return rc || !*over ? rc : outside(s, c, err);
}

/* No set of candidates brings the divergence back that the chosen pins leave. Either W0 diverges
 * after all, or the search ends unexplained. */
static int nothing_found(struct tw_search *s, struct chosen *c, const struct tw_arm *arm,
                         struct twin_error *err)
{
    bool parted;
    int rc = screen(s, tw_clean_needed(arm, s->plan->beta), &parted, err);
    if (rc)
        return rc;
    if (parted)
        return outside(s, c, err);
    s->report->outcome = TWIN_SEARCH_UNEXPLAINED;
    return tw_still_parts(s, err); /* A divergence that has stopped by itself would explain it. */
}

/* One round: finds what brings back the divergence that is left under the chosen pins, adds a pin
 * against it, and looks whether the set is sufficient. *over: the search has ended. */
static int round_of_search(struct tw_search *s, struct chosen *c, bool *over,
                           struct twin_error *err)
{
    struct twin_search_set found;
    bool parted;
    const struct tw_arm *left = tw_arm(s, &c->pins, err);
    if (!left)
        return TWIN_ENOMEM;
    /* a copy, since arms may move when one is made */
    struct tw_arm arm = *left;
    *over = true;
    size_t pin = SIZE_MAX;
    /* Of two arms every pair of differences that act together is to be named, which only contrasts
     * do. */
    int rc = s->plan->arms ? 0 : tw_alone(s, &c->pins, &pin, err);
    if (rc)
        return rc;
    if (pin != SIZE_MAX)
        return try_pin(s, c, pin, over, err);
    rc = tw_pinned_world(s, err);
    if (!rc)
        rc = tw_find(s, &arm, &found, err);
    if (rc)
        return rc;
    if (tw_set_count(&found) == 0)
        return nothing_found(s, c, &arm, err);
    /* A contrast that was clean has shown the pinned world clean as well. When there was none, or
     * when the first pin did not stop the divergence, that has to be looked at: else everything
     * that is tried seems to be a cause. */
    if (!any_clean_contrast(s) || tw_set_count(&c->pins) > 0) {
        rc = screen(s, tw_clean_needed(&arm, .15), &parted, err);
        if (rc || parted)
            return rc ? rc : outside(s, c, err);
    }
    pin = choose_pin(s, &found);
    c->alternatives[pin] = found;
    tw_set_remove(&c->alternatives[pin], pin);
    return try_pin(s, c, pin, over, err);
}

/* A rough count of the runs of a whole search, for a report that has to say that the budget was too
 * small: those made so far, and what is missing at the rate that was seen, for the baseline, a
 * search over all candidates (unless one has suspects already) and a confirmation. */
static uint32_t runs_needed(const struct tw_search *s, bool searched)
{
    assert(s->arm_count > 0);
    const struct tw_arm *natural = &s->arm[0];
    const struct twin_search_plan *plan = s->plan;
    double rate = ((double)natural->parted + .5) / ((double)natural->compared + 1);
    double need = s->report->runs;
    /* Nothing diverged: the baseline alone was not finished. */
    if (natural->parted == 0)
        return plan->baseline_clean + 1;
    struct tw_arm then = *natural;
    if (natural->parted < plan->baseline_parts) {
        double more = ceil((plan->baseline_parts - (double)natural->parted) / rate);
        need += more;
        then.compared += (uint64_t)more;
        then.parted = plan->baseline_parts;
    }
    if (!searched)
        need += ceil(log2((double)plan->candidates + 1)) * (double)tw_clean_needed(natural, .15);
    need += (double)tw_confirm_cost(s, &then) +
            (plan->arms ? ceil(plan->baseline_parts / rate) : 0);
    return need < (double)UINT32_MAX ? (uint32_t)need : UINT32_MAX;
}

/* Two arms: A's first run, with which all others are compared, and its repeats. */
static int first_arm(struct tw_search *s, bool *steady, struct twin_error *err)
{
    bool parted = false;
    int rc = tw_pinned_world(s, err);
    if (!rc)
        rc = screen(s, s->plan->repeats, &parted, err);
    *steady = !parted;
    return rc;
}

/* The whole search in order. 0 with the outcome in the report, or a code that twin_search turns
 * into one (budget, gone, interrupted, an error). */
static int search_cause(struct tw_search *s, struct chosen *c, struct twin_error *err)
{
    bool steady = true;
    int rc = s->plan->arms ? first_arm(s, &steady, err) : 0;
    if (!rc && !steady) {
        s->report->outcome = TWIN_SEARCH_UNSTEADY;
        return 0;
    }
    if (!rc)
        rc = tw_baseline(s, err);
    if (rc == TW_WORLD_FAILS) {
        s->report->outcome = TWIN_SEARCH_JOB_FAILS;
        return 0;
    }
    if (rc == TW_UNSEEN) {
        s->report->outcome = TWIN_SEARCH_UNSEEN;
        return 0;
    }
    /* From here on natural runs are made between pinned ones, and may be cut short where they
     * diverge. */
    s->natural_runs_tell = false;
    if (rc)
        return rc;
    if (s->arm[0].parted == 0) {
        /* As check decides: one comparison that shows too little is enough. */
        s->report->outcome = s->arm[0].unseen ? TWIN_SEARCH_UNSEEN : TWIN_SEARCH_NO_DIVERGENCE;
        return 0;
    }
    bool over = false;
    if (s->by_core)
        rc = suspect_core(s, c, &over, err);
    while (!rc && !over)
        rc = round_of_search(s, c, &over, err);
    /* it does not end well even without pins: then it fails by itself, most of the time */
    if (rc == TW_WORLD_FAILS) {
        s->report->outcome = TWIN_SEARCH_JOB_FAILS;
        return 0;
    }
    return rc;
}

/* Clopper and Pearson's 95% interval of the natural rate. When comparisons are correlated it is
 * made of their effective number, which need not be whole. */
static void rate_interval(struct twin_search_report *r)
{
    assert(r->parted <= r->baseline);
    assert(r->correlation.effective > 0 && r->correlation.effective <= 1);
    double k = r->correlation.effective * (double)r->parted;
    double n = r->correlation.effective * (double)r->baseline;
    struct twin_interval rate = twin_stats_clopper_pearson(r->parted, r->baseline, .95);
    if (r->correlation.effective < 1 && r->parted < r->baseline) {
        rate.low = twin_stats_beta_inv(.025, k, n - k + 1);
        rate.high = twin_stats_beta_inv(.975, k + 1, n - k);
    }
    r->rate_low = rate.low;
    r->rate_high = rate.high;
}

/* How often runs diverge with all causes pinned, and whether that is seldom enough to call them
 * sufficient. */
static void what_is_left(struct tw_search *s)
{
    struct twin_search_report *r = s->report;
    assert(r->left_parted <= r->left);
    r->bound = tw_rate_bound(s, r->left_parted, r->left);
    r->sufficient = r->bound <= s->plan->p1 && r->left_parted == 0;
    r->more = r->sufficient || r->left_parted > 0 ? 0 : tw_more_clean(s, r->left_parted, r->left);
}

/* Fills the report's figures, for every outcome. */
static void summarise_search(struct tw_search *s)
{
    struct twin_search_report *r = s->report;
    for (size_t i = 0; i < r->test_count; i++)
        if (tw_set_count(&r->test[i].freed) == 0) {
            r->pinned = r->test[i].compared;
            /* 0 or 1, since contrasts stop at the first divergence */
            r->pinned_parted = r->test[i].parted;
        }
    const struct tw_arm *natural = &s->arm[0];
    r->baseline = natural->compared;
    r->parted = natural->parted;
    r->unjudged = natural->unjudged > 0;
    r->baseline_steps = natural->steps;
    r->rate = natural->compared ? (double)natural->parted / (double)natural->compared : NAN;
    r->correlation = tw_correlation(s);
    r->last_parted = tw_last_parted(s);
    rate_interval(r);
    bool steps = natural->steps > 0 && natural->steps >= natural->parted;
    r->hazard = steps ? (double)natural->parted / (double)natural->steps : NAN;
    r->hazard_low = steps ? twin_stats_rate_lower(natural->parted, natural->steps, .95) : NAN;
    if (r->outcome == TWIN_SEARCH_NO_DIVERGENCE)
        r->bound = twin_stats_zero_bound(natural->compared, .95);
    if (r->outcome == TWIN_SEARCH_ISOLATED)
        what_is_left(s);
    for (size_t w = 0; w < TWIN_SEARCH_FACTORS / 64; w++)
        /* Nothing was compared, so nothing is known to be common to all natural runs. */
        if (natural->compared == 0)
            r->left_out.word[w] = 0;
}

/* What a search starts with: one row of settings for each run of a batch, every candidate left out
 * until a natural run says otherwise, and the baseline's arm. */
static int open_search(struct tw_search *s, struct twin_error *err)
{
    assert(s->plan->parallel >= 1 && s->plan->candidates <= TWIN_SEARCH_FACTORS);
    const struct twin_search_set none = {{0}};
    s->report = tw_calloc(1, sizeof *s->report);
    s->setting = tw_calloc((size_t)s->plan->parallel * s->plan->candidates + 1, sizeof *s->setting);
    s->request = tw_calloc(s->plan->parallel, sizeof *s->request);
    s->result = tw_calloc(s->plan->parallel, sizeof *s->result);
    if (!s->report || !s->setting || !s->request || !s->result)
        return tw_no_memory(err, "for a search over %zu candidates", s->plan->candidates);
    s->report->bound = s->report->p_applied = NAN;
    s->report->arms = s->plan->arms;
    s->report->seed = s->plan->seed;
    s->natural_runs_tell = true;
    s->report->unit_why = "not decided yet";
    for (size_t i = 0; i < s->plan->candidates; i++)
        tw_set_add(&s->report->left_out, i);
    return tw_arm(s, &none, err) ? 0 : TWIN_ENOMEM;
}

int twin_search(const struct twin_candidate *candidate, const struct twin_search_plan *plan,
                twin_search_run *run, twin_search_saved *saved, void *user,
                struct twin_search_log *log, struct twin_search_report **out,
                struct twin_error *err)
{
    *out = NULL;
    struct tw_search s = {
        .candidate = candidate, .plan = plan, .run = run, .saved = saved, .user = user};
    s.log = log ? log : &s.own_log;
    struct chosen *c = tw_calloc(1, sizeof *c);
    int rc = c ? open_search(&s, err) : tw_no_memory(err, "for a search");
    if (!rc)
        rc = search_cause(&s, c, err);
    /* Codes of the search's own become outcomes; an error stays one, and there is no report
     * then. */
    if (rc == TW_BUDGET) {
        s.report->outcome = TWIN_SEARCH_NOT_ENOUGH;
        s.report->need = runs_needed(&s, tw_set_count(&s.report->suspects) > 0);
        /* unlucky so far: what is over the expectation cannot be foreseen */
        if (s.report->need <= s.report->runs)
            s.report->need = s.report->runs + s.report->runs / 2;
        rc = 0;
    } else if (rc == TW_GONE) {
        s.report->outcome = TWIN_SEARCH_GONE;
        s.report->cause_count = 0;
        s.report->suspects = (struct twin_search_set){{0}};
        rc = 0;
    } else if (rc == TWIN_EINTR) {
        s.report->outcome = TWIN_SEARCH_INTERRUPTED;
        s.report->cause_count = 0;
        rc = 0;
    }
    const enum twin_search_outcome how = rc ? TWIN_SEARCH_INTERRUPTED : s.report->outcome;
    bool stands = how != TWIN_SEARCH_INTERRUPTED && how != TWIN_SEARCH_GONE &&
                  how != TWIN_SEARCH_ISOLATED && how != TWIN_SEARCH_UNSTEADY;
    /* Causes that were shown earlier stand, unless the search was interrupted or has named others,
     * the divergence went away, or A does not repeat itself (that it does was a part of the claim).
     */
    if (stands)
        tw_main_cause_restore(&s);
    if (!rc) {
        summarise_search(&s);
        *out = s.report;
    } else {
        twin_search_report_free(s.report);
    }
    tw_main_cause_close(&s);
    tw_free(c);
    tw_free(s.trace);
    tw_free(s.arm);
    tw_free(s.reference);
    tw_free(s.setting);
    tw_free(s.request);
    tw_free(s.result);
    twin_search_log_free(&s.own_log);
    return rc;
}

void twin_search_report_free(struct twin_search_report *r)
{
    if (!r)
        return;
    tw_free(r->cause);
    tw_free(r->test);
    tw_free(r->arrangement);
    tw_free(r->evidence.trial);
    tw_free(r);
}
