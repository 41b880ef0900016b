/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two arms: does A diverge when the set that was found is as in B? That is the second half of the
 * claim (confirm.c has the first): a difference that only helps, and does not act itself, would
 * pass the first.
 *
 * The runs are compared with A's first run, and held against A's repeats, which were all clean.
 * They are not interleaved with them in an order that was drawn, so this test guards against naming
 * the wrong difference, and not against chance.
 */
#include "search_inside.h"

#include <assert.h>

/* p of the divergences of `free` against `clean` clean comparisons of A with itself. In general
 * that is Fisher's exact test. Where all of the planned divergences came one after the other, the
 * test is told what Fisher's ignores: that the arm was stopped at them. At rate r that outcome and
 * no divergence in A have probability r^k (1 - r)^n, which is largest at r = k / (k + n) (Barnard
 * 1945). */
static double p_of(const struct tw_search *s, struct twin_search_arm free, uint64_t clean)
{
    assert(free.parted <= free.trials);
    if (free.parted == free.trials && free.parted == s->plan->baseline_parts)
        return tw_all_against_none(free.parted, clean);
    return twin_stats_fisher(free.parted, free.trials - free.parted, 0, clean, TWIN_GREATER);
}

/* Clean comparisons of A that make the difference significant; 100,000 at most. */
static uint64_t clean_for(const struct tw_search *s, struct twin_search_arm free, double level)
{
    assert(level > 0); /* else no number of repeats is enough */
    uint64_t n = 1;
    while (p_of(s, free, n) > level && n < 100000)
        n++;
    return n;
}

/* Makes runs of A with the set as in B until baseline_parts of them diverged, then as many repeats
 * of A as the test needs. `rest`, what is not in the set, is "pinned", which of two arms means: as
 * in A. */
int tw_confirm_applied(struct tw_search *s, const struct twin_search_set *set,
                       enum tw_confirmed *answer, struct twin_error *err)
{
    assert(s->plan->arms);
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
        /* Runs clean so often that divergences as frequent as B's would have shown: the set does
         * not act. */
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
        /* Not significant yet: more repeats of A are needed. One that diverges shows that A is
         * unsteady. */
        repeats = clean_for(s, applied, level);
        int rc = tw_contrast(s, &none, repeats, &parted, err);
        if (rc || parted) {
            *answer = TW_A_PARTS;
            return rc;
        }
    }
}
