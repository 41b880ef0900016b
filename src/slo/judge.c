/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a target kept? The two answers are not symmetric. That a budget is overspent is a fact of the
 * window: so many events were bad. That a target is kept is said of the jobs that made the events,
 * so chance has to be excluded: the one-sided 95% bound must reach the target, and what is not
 * known counts as bad. Where neither holds, the row says what would settle it.
 */
#include "slo_inside.h"

#include <math.h>
#include <stdio.h>

static const double CONFIDENCE = .95;
/* A target without a budget has nothing that an interval could reach; from this many good events on
 * (a rate of bad ones above 26% would have shown by then), none of them bad, it counts as kept. */
enum { LEAST_WITHOUT_BUDGET = 10 };

/* One-sided lower bound of a share of good events. */
static double lower_bound(uint64_t good, uint64_t n)
{
    return n ? twin_stats_rate_lower(good, n, CONFIDENCE) : 0;
}

/* Good events, all of them, after which the lower bound reaches a share below 1. */
static uint64_t needed_for(double share, uint64_t least)
{
    uint64_t n = share > 0 ? twin_stats_trials_needed(1 - share, CONFIDENCE) : 1;
    return n > least ? n : least;
}

void slo_judge_share(struct tw_slo_row *row, uint64_t least)
{
    const uint64_t n = row->good + row->bad, all = n + row->unknown;
    /* M4 counts bad events, all others good ones */
    const double share = row->at_least ? row->target : 1 - row->target;
    const bool no_budget = share >= 1;
    const uint64_t own_least = no_budget ? LEAST_WITHOUT_BUDGET : 1;
    const uint64_t few = least ? least : own_least;
    const struct twin_interval good = twin_stats_clopper_pearson(row->good, n, CONFIDENCE);
    row->interval = row->at_least ? good : (struct twin_interval){1 - good.high, 1 - good.low};
    if (!n)
        row->interval = (struct twin_interval){NAN, NAN};
    row->budget = row->left = NAN;
    if (isnan(row->target)) {
        row->state = TW_SLO_SHOWN;
        return;
    }
    row->needed = no_budget ? few : needed_for(share, few);
    /* A share of .95 leaves 1 in 20 exactly, which binary fractions miss by a hair. */
    row->budget = floor((1 - share) * (double)all + 1e-9);
    if (row->budget >= 1)
        row->left = (row->budget - (double)row->bad) / row->budget;
    /* With less than one event of budget a single bad one would break any target: not known until
     * chance is excluded. */
    const uint64_t at_most = row->good + row->unknown;
    const bool beyond_chance = n &&
                               twin_stats_clopper_pearson(at_most, all, CONFIDENCE).high < share;
    const bool overspent = row->budget >= 1 && (double)row->bad > row->budget;
    if (row->bad && (no_budget || overspent || beyond_chance)) {
        row->state = TW_SLO_BROKEN;
        return;
    }
    const bool shown = no_budget ? row->unknown == 0 : lower_bound(row->good, all) >= share;
    if (shown && n >= few) {
        row->state = TW_SLO_KEPT;
        return;
    }
    row->state = TW_SLO_NOT_KNOWN;
    if (!all)
        snprintf(row->why, sizeof row->why, "nothing of it is in the ledger");
    else if (row->unknown && (no_budget || lower_bound(row->good, n) >= share) && n >= few)
        snprintf(row->why, sizeof row->why, "%llu of %llu are not known",
                 (unsigned long long)row->unknown, (unsigned long long)all);
    else if (!row->bad)
        snprintf(row->why, sizeof row->why,
                 "too few: %llu were compared, all good ones, and %llu would show it",
                 (unsigned long long)n, (unsigned long long)row->needed);
    else if (row->budget < 1)
        snprintf(row->why, sizeof row->why,
                 "too few: %llu bad of %llu, whose budget is less than one event",
                 (unsigned long long)row->bad, (unsigned long long)n);
    else
        snprintf(row->why, sizeof row->why,
                 "within the budget so far, but %llu bad of %llu do not exclude chance",
                 (unsigned long long)row->bad, (unsigned long long)n);
}

void slo_judge_bound(struct tw_slo_row *row, uint64_t least, const char *what)
{
    row->budget = row->left = NAN;
    if (isnan(row->target)) {
        row->state = TW_SLO_SHOWN;
    } else if (isnan(row->value) || row->runs < least) {
        row->state = TW_SLO_NOT_KNOWN;
        row->needed = least;
        if (!row->why[0])
            snprintf(row->why, sizeof row->why, "too few: no %s has %llu runs", what,
                     (unsigned long long)least);
    } else if (row->at_least ? row->value < row->target : row->value > row->target) {
        row->state = TW_SLO_BROKEN;
    } else if (row->at_least ? row->interval.low >= row->target
                             : row->interval.high <= row->target) {
        row->state = TW_SLO_KEPT;
    } else {
        row->state = TW_SLO_NOT_KNOWN;
        snprintf(row->why, sizeof row->why, "measured within the target, but its interval is not");
    }
}
