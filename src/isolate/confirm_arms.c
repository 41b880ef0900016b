/* SPDX-License-Identifier: Apache-2.0 */
/* Two arms: does A part when the set that was found is as in B? That is the second half of the
 * claim (confirm.c has the first). */
#include "search_inside.h"
#include <math.h>

double tw_all_against_none(uint64_t k, uint64_t n)
{
    double parted = (double)k, clean = (double)n, all = parted + clean;
    return 1.1 * pow(parted / all, parted) * pow(clean / all, clean);
}

/* p of divergences of `applied` against clean comparisons of A with itself. Fisher's exact test;
 * but where all of the planned divergences came one after the other it is told what it ignores,
 * that the arm was stopped at them: at rate r that outcome and no divergence in A have probability
 * r^k (1 - r)^n, largest at r = k / (k + n) (Barnard 1945). */
static double p_of(const struct tw_search *s, struct twin_search_arm free, uint64_t clean)
{
    if (free.parted == free.trials && free.parted == s->plan->baseline_parts)
        return tw_all_against_none(free.parted, clean);
    return twin_stats_fisher(free.parted, free.trials - free.parted, 0, clean, TWIN_GREATER);
}

/* Clean trials of A that make the difference significant. */
static uint64_t clean_for(const struct tw_search *s, struct twin_search_arm free, double level)
{
    uint64_t n = 1;
    while (p_of(s, free, n) > level && n < 100000)
        n++;
    return n;
}

int tw_confirm_applied(struct tw_search *s, const struct twin_search_set *set,
                       enum tw_confirmed *answer, struct twin_error *err)
{
    const struct twin_search_set none = {{0}};
    const double level = s->plan->alpha * tw_alpha_share(s);
    struct twin_search_set rest = none;
    for (size_t i = 0; i < s->plan->candidates; i++)
        if (!twin_search_has(set, i))
            tw_set_add(&rest, i);
    *answer = TW_NOT_APPLIED;
    for (uint64_t repeats = s->plan->repeats;;) {
        struct tw_arm *arm = tw_arm(s, &rest, err);
        if (!arm)
            return TWIN_ENOMEM;
        struct twin_search_arm applied = {arm->compared, arm->parted};
        if (applied.parted == 0 && applied.trials >= s->plan->baseline_parts &&
            applied.trials >= tw_clean_needed(&s->arm[0], .05))
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
            *answer = TW_A_PARTS;
            return rc;
        }
    }
}
