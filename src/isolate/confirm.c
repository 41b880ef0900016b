/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict: fresh runs in the natural world with the set pinned, and with all of it but one. */
#include "search.h"
#include <math.h>

/* An arm's counts in the unit of trial. */
static struct twin_search_arm counts(const struct tw_search *s, const struct tw_arm *arm)
{
    bool steps = s->report->unit == TWIN_UNIT_EXPOSURE;
    return (struct twin_search_arm){steps ? arm->steps : arm->compared, arm->parted};
}

/* Steps count as trials only where the operation was seen disagreeing with itself, every time, and each member acts at each step. A
 * rare cause that is drawn once per run and parts at its first step would look just like a hazard. */
static void choose_unit(struct tw_search *s, const struct twin_search_set *set)
{
    const struct tw_arm *natural = &s->arm[0];
    struct twin_search_report *r = s->report;
    r->unit = TWIN_UNIT_RUN;
    r->unit_why = "no replay or transplant showed the operation itself disagreeing, so a cause may be drawn once per run";
    if (natural->parted == 0 || natural->disagreeing < natural->parted || natural->steps < natural->compared)
        return;
    for (size_t i = 0; i < s->plan->candidates; i++)
        if (twin_search_has(set, i) && s->candidate[i].unit != TWIN_UNIT_EXPOSURE) {
            r->unit_why = "the factor is drawn once per run";
            return;
        }
    r->unit = TWIN_UNIT_EXPOSURE;
    r->unit_why = "replay or transplant showed the operation itself disagreeing; steps are taken to be independent";
}

double tw_all_against_none(uint64_t k, uint64_t n)
{
    double parted = (double)k, clean = (double)n, all = parted + clean;
    return 1.1 * pow(parted / all, parted) * pow(clean / all, clean);
}

/* p of the hypothesis that the pins do nothing, when nothing parted under them. Fisher's exact test; but where all of the planned
 * divergences came one after the other it is told what it ignores, that the free arm was stopped at them: at rate r that outcome and
 * no divergence under the pins have probability r^k (1 - r)^n, largest at r = k / (k + n) (Barnard 1945). A tenth is added for what
 * Fisher's part of the rule lets pass at that rate; a test computes that the whole keeps its level. */
static double p_of(const struct tw_search *s, struct twin_search_arm free, uint64_t clean)
{
    if (s->report->unit == TWIN_UNIT_RUN && free.parted == free.trials && free.parted == s->plan->baseline_parts)
        return tw_all_against_none(free.parted, clean);
    return twin_stats_fisher(free.parted, free.trials - free.parted, 0, clean, TWIN_GREATER);
}

/* Error rate for the set that is tested now. Contrasts choose it and do not testify, so what counts are the sets taken to the natural
 * world: the j-th gets .8 * .2^(j - 1) of alpha, which sums to alpha however many there will be. */
static double share(const struct tw_search *s)
{
    return .8 * pow(.2, s->sets_tested ? s->sets_tested - 1 : 0);
}

/* Clean trials under the pins that make the difference significant. */
static uint64_t clean_for(const struct tw_search *s, struct twin_search_arm free, double level)
{
    uint64_t low = 0, high = 1;
    while (p_of(s, free, high) > level && high < UINT64_C(1) << 32)
        high *= 2;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (p_of(s, free, middle) > level)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* How many more comparisons the free arm should get, and how many clean trials the pinned one needs then, so that the sum of what is
 * still to be run is smallest. The free arm is taken to go on at its rate. */
static uint64_t balance(const struct tw_search *s, struct twin_search_arm free, uint64_t have, double level, uint64_t *extra)
{
    uint64_t best = UINT64_MAX, clean = 0, most = s->report->unit == TWIN_UNIT_EXPOSURE ? 0 : 40 + free.trials;
    *extra = 0;
    for (uint64_t e = 0; e <= most; e++) {
        struct twin_search_arm then = {free.trials + e, free.parted + e * free.parted / free.trials};
        if (e > 0 && then.parted == free.parted + (e - 1) * free.parted / free.trials)
            continue; /* longer, and no divergence more */
        uint64_t needed = clean_for(s, then, level), cost = e + (needed > have ? needed - have : 0);
        if (cost < best) {
            best = cost;
            clean = needed;
            *extra = e;
        }
        if (e > best)
            break;
    }
    return clean;
}

uint64_t tw_confirm_cost(const struct tw_search *s, const struct tw_arm *free)
{
    uint64_t extra, clean = balance(s, (struct twin_search_arm){free->compared, free->parted}, 0,
                                     s->plan->alpha * share(s), &extra);
    return extra + clean + 1;
}

/* Copies of the arms at issue: index of the pinned one and of each member's. Both may be new. */
static int find_arms(struct tw_search *s, const struct twin_search_set *set, size_t *pinned, size_t *free, struct twin_error *err)
{
    struct tw_arm *arm = tw_arm(s, set, err);
    if (!arm)
        return TWIN_ENOMEM;
    *pinned = (size_t)(arm - s->arm);
    for (size_t i = 0, n = 0; i < s->plan->candidates; i++) {
        if (!twin_search_has(set, i))
            continue;
        struct twin_search_set rest = *set;
        tw_set_remove(&rest, i);
        arm = tw_arm(s, &rest, err);
        if (!arm)
            return TWIN_ENOMEM;
        free[n++] = (size_t)(arm - s->arm);
    }
    return 0;
}

/* One step towards a verdict on the set: runs what is missing most. *settled when nothing is. */
static int advance(struct tw_search *s, struct twin_search_set *set, bool *settled, struct twin_error *err)
{
    size_t pinned, free[TWIN_SEARCH_FACTORS], members = tw_set_count(set);
    double level = s->plan->alpha * share(s) / (double)members;
    uint64_t wanted = 0, extra[TWIN_SEARCH_FACTORS];
    *settled = false;
    int rc = find_arms(s, set, &pinned, free, err);
    if (rc)
        return rc;
    struct twin_search_arm shown = counts(s, &s->arm[pinned]);
    for (size_t m = 0; m < members; m++) {
        struct twin_search_arm arm = counts(s, &s->arm[free[m]]);
        if (arm.parted < s->plan->baseline_parts) /* not seen enough of it yet: as if each of its runs parted */
            arm = (struct twin_search_arm){s->plan->baseline_parts, s->plan->baseline_parts};
        uint64_t clean = balance(s, arm, shown.trials, level, &extra[m]);
        wanted = clean > wanted ? clean : wanted;
    }
    if (shown.trials < wanted) /* of steps, a run has an unknown number */
        return tw_arm_compare(s, &s->arm[pinned], s->report->unit == TWIN_UNIT_RUN ? wanted - shown.trials : 1, err);
    for (size_t m = 0, i = 0; m < members; m++, i++) {
        while (!twin_search_has(set, i))
            i++;
        struct tw_arm *arm = &s->arm[free[m]];
        if (arm->parted == 0 && arm->compared >= s->arm[pinned].compared && arm->compared >= tw_clean_needed(&s->arm[0], .05)) {
            tw_set_remove(set, i); /* clean without its pin: not necessary, and the rest is sufficient */
            return 0;
        }
        if (arm->parted < s->plan->baseline_parts)
            return tw_arm_compare(s, arm, arm->parted ? s->plan->baseline_parts - arm->parted : 1, err);
        if (extra[m] > 0 && p_of(s, counts(s, arm), shown.trials) > level)
            return tw_arm_compare(s, arm, extra[m], err);
    }
    *settled = true;
    return 0;
}

/* Writes the causes into the report. */
static int conclude(struct tw_search *s, const struct twin_search_set *set, struct twin_error *err)
{
    size_t pinned, free[TWIN_SEARCH_FACTORS], members = tw_set_count(set);
    double p[TWIN_SEARCH_FACTORS], adjusted[TWIN_SEARCH_FACTORS];
    int rc = find_arms(s, set, &pinned, free, err);
    if (rc)
        return rc;
    struct twin_search_cause *cause = tw_calloc(members, sizeof *cause);
    if (!cause)
        return twin_error_set(err, TWIN_ENOMEM, "no memory for %zu causes", members);
    s->report->cause = cause;
    s->report->cause_count = members;
    for (size_t i = 0, m = 0; m < members; i++) {
        if (!twin_search_has(set, i))
            continue;
        cause[m].candidate = i;
        cause[m].sufficient = counts(s, &s->arm[pinned]);
        cause[m].necessary = counts(s, &s->arm[free[m]]);
        cause[m].failed = s->arm[0].failed ? 0 : s->arm[free[m]].failed;
        struct twin_search_arm f = cause[m].necessary;
        cause[m].p_fisher = twin_stats_fisher(f.parted, f.trials - f.parted, 0, cause[m].sufficient.trials, TWIN_GREATER);
        p[m] = cause[m].p = p_of(s, f, cause[m].sufficient.trials);
        m++;
    }
    rc = twin_stats_holm(p, members, adjusted);
    if (rc)
        return twin_error_set(err, rc, "Holm's adjustment of %zu tests failed", members);
    for (size_t m = 0; m < members; m++)
        cause[m].p_adjusted = fmin(1, adjusted[m] / share(s));
    s->report->bound = twin_stats_zero_bound(s->arm[pinned].compared, .95);
    return 0;
}

int tw_confirm(struct tw_search *s, struct twin_search_set *set, enum tw_confirmed *answer, struct twin_error *err)
{
    for (bool settled = false; !settled;) {
        choose_unit(s, set);
        int rc = advance(s, set, &settled, err);
        if (rc == TW_WORLD_FAILS) {
            *answer = TW_SET_FAILS;
            return 0;
        }
        if (rc)
            return rc;
        const struct tw_arm *pinned = tw_arm(s, set, err);
        if (!pinned)
            return TWIN_ENOMEM;
        if (pinned->parted > 0) {
            *answer = TW_NOT_SUFFICIENT;
            return 0;
        }
    }
    *answer = TW_SUFFICIENT;
    return conclude(s, set, err);
}

int tw_confirm_applied(struct tw_search *s, const struct twin_search_set *set, enum tw_confirmed *answer, struct twin_error *err)
{
    const struct twin_search_set none = {{0}};
    const double level = s->plan->alpha * share(s);
    struct twin_search_set rest = none;
    for (size_t i = 0; i < s->plan->candidates; i++)
        if (!twin_search_has(set, i))
            tw_set_add(&rest, i);
    *answer = TW_NOT_SUFFICIENT;
    for (uint64_t repeats = s->plan->repeats;;) {
        struct tw_arm *arm = tw_arm(s, &rest, err);
        if (!arm)
            return TWIN_ENOMEM;
        struct twin_search_arm applied = {arm->compared, arm->parted};
        if (applied.parted == 0 && applied.trials >= s->plan->baseline_parts && applied.trials >= tw_clean_needed(&s->arm[0], .05))
            return 0;
        if (applied.parted < s->plan->baseline_parts) {
            int rc = tw_arm_compare(s, arm, s->plan->baseline_parts - applied.parted, err);
            if (rc)
                return rc;
            continue;
        }
        s->report->applied = applied;
        s->report->repeats = repeats;
        s->report->p_applied = p_of(s, applied, repeats);
        if (s->report->p_applied <= level) {
            *answer = TW_SUFFICIENT;
            return 0;
        }
        bool parted;
        repeats = clean_for(s, applied, level);
        int rc = tw_contrast(s, &none, repeats, &parted, err);
        if (rc || parted) {
            *answer = TW_SET_FAILS;
            return rc;
        }
    }
}
