/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pin stops the divergence by itself? The first thing that the search tries (search.c) where
 * natural runs diverge often.
 *
 * The runs are natural ones with a few of the most suspected pins on. Nothing is freed in the
 * pinned world before that, because pins that do the same (one thread, deterministic algorithms)
 * hide each other there, and not here.
 *
 * The method is bisection by weight. Each candidate has a weight, its suspicion times how well it
 * explains the runs so far as the one pin that is enough; "no pin alone is enough" has a weight of
 * its own. A run under the pins that hold about half of all weight tells most. What is found here
 * is only proposed: fresh runs confirm it (confirm.c).
 */
#include "search_inside.h"
#include <assert.h>
#include <math.h>

/* odds for needing more than one pin; docs/internals/measurements.md has others */
#define NO_PIN_ALONE .08
/* Shares of all weight at which a decision is made. */
#define SURE .7    /* of a pin that was clean by itself, before it is taken to fresh runs */
#define CERTAIN .8 /* of a pin that was not tried by itself: the fresh runs do that as well */
/* of no pin alone: one more run with the unlikely ones on is cheaper than what follows */
#define ENOUGH .85

/* The candidates that may be the one pin that is enough, most suspected first. weight[k] belongs to
 * the candidate list[k], and only ratios of weights mean anything. */
struct suspicion {
    size_t list[TWIN_SEARCH_FACTORS], count;
    /* all: weight of every candidate and of "no pin alone" */
    double weight[TWIN_SEARCH_FACTORS], all;
};

/* Fills x from all arms whose pins contain those of `base`. Each candidate is judged as the one pin
 * that is enough: under a set of pins that holds it nothing diverges, and under a set without it
 * each run diverges with probability `rate`. Returns false when no candidate is left, or when "no
 * pin alone" has more than ENOUGH of the weight: then looking on is not worth its runs. */
static bool weigh(const struct tw_search *s, const struct twin_search_set *base, double rate,
                  struct suspicion *x)
{
    assert(rate > 0 && rate < 1);
    double none = 0;
    x->count = tw_suspects(s, base, x->list, x->weight);
    for (size_t k = 0; k < x->count; k++)
        none += NO_PIN_ALONE * x->weight[k];
    for (size_t a = 0; a < s->arm_count; a++) {
        const struct tw_arm *arm = &s->arm[a];
        if (!tw_set_within(base, &arm->pinned) || tw_set_equal(base, &arm->pinned))
            continue;
        double clean = pow(1 - rate, (double)arm->compared);
        for (size_t k = 0; k < x->count; k++) {
            bool in = twin_search_has(&arm->pinned, x->list[k]);
            /* A divergence under these pins refutes every pin among them. */
            if (arm->parted > 0)
                x->weight[k] *= !in;
            else
                x->weight[k] *= in ? 1 : clean;
        }
        /* Where no pin alone is enough, runs diverge under every set, at the rate. */
        none *= arm->parted > 0 ? 1 : clean;
    }
    tw_most_suspected_first(s, x->list, x->weight, x->count);
    x->all = none;
    for (size_t k = 0; k < x->count; k++)
        x->all += x->weight[k];
    return x->count > 0 && none <= ENOUGH * x->all;
}

/* How many of the first in the list to pin together, at least one: so many that their weight comes
 * closest to half of all weight. */
static size_t half(const struct suspicion *x)
{
    assert(x->count > 0);
    double inside = 0, closest = INFINITY;
    size_t best = 1;
    for (size_t k = 0; k < x->count; k++) {
        inside += x->weight[k];
        if (fabs(inside - .5 * x->all) < closest) {
            closest = fabs(inside - .5 * x->all);
            best = k + 1;
        }
    }
    return best;
}

/* The rate stays that of the arm `base` as it is at the beginning: the arm's pointer does not
 * outlive the next call of tw_arm. A pin under which the job fails is dropped on the way, and the
 * weights are made anew without it. */
int tw_alone(struct tw_search *s, const struct twin_search_set *base, size_t *pin,
             struct twin_error *err)
{
    struct suspicion x;
    struct tw_arm *arm = tw_arm(s, base, err);
    *pin = SIZE_MAX;
    if (!arm)
        return TWIN_ENOMEM;
    double rate = tw_least_rate(arm);
    while (rate >= TW_OFTEN && weigh(s, base, rate, &x)) {
        struct twin_search_set pins = *base;
        size_t n = half(&x);
        bool sure = x.weight[0] >= SURE * x.all;
        for (size_t k = 0; k < (sure ? 1 : n); k++)
            tw_set_add(&pins, x.list[k]);
        /* Pinned alone when it is the likely one, else together with half of the weight. */
        if (!(arm = tw_arm(s, &pins, err)))
            return TWIN_ENOMEM;
        if (sure && arm->parted == 0 && (arm->compared > 0 || x.weight[0] >= CERTAIN * x.all)) {
            *pin = x.list[0];
            return 0;
        }
        int rc = tw_arm_compare(s, arm, 1, err);
        if (rc == TW_WORLD_FAILS)
            rc = tw_drop_failing_pin(s, &pins, err);
        if (rc)
            return rc;
    }
    return 0;
}
