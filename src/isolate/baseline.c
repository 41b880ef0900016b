/* SPDX-License-Identifier: Apache-2.0 */
/* The natural world, as it is or with a few pins: how often do its runs part? */
#include "search.h"
#include <math.h>

struct tw_arm *tw_arm(struct tw_search *s, const struct twin_search_set *pinned, struct twin_error *err)
{
    for (size_t i = 0; i < s->arm_count; i++)
        if (tw_set_equal(&s->arm[i].pinned, pinned))
            return &s->arm[i];
    struct tw_arm *grown = tw_reallocarray(s->arm, s->arm_count + 1, sizeof *grown);
    if (!grown) {
        twin_error_set(err, TWIN_ENOMEM, "no memory for %zu arms", s->arm_count + 1);
        return NULL;
    }
    s->arm = grown;
    s->arm[s->arm_count] = (struct tw_arm){.pinned = *pinned};
    return &s->arm[s->arm_count++];
}

static bool natural(const struct tw_arm *arm)
{
    return tw_set_count(&arm->pinned) == 0;
}

/* The arm's first run that ends well. One failure may be chance; always failing is a property of the world. */
static int first_run(struct tw_search *s, struct tw_arm *arm, struct twin_error *err)
{
    unsigned attempts = natural(arm) || s->natural_failed ? 3 : 2;
    if (s->plan->arms) { /* A's first run, which ended well */
        arm->reference = s->reference[0].handle;
        return 0;
    }
    for (unsigned i = 0; i < attempts; i++) {
        size_t done;
        tw_world_natural(s, &arm->pinned, s->setting);
        int rc = tw_runs(s, natural(arm) ? TWIN_FOR_BASELINE : TWIN_FOR_REFERENCE, 1, 0, 0, &done, err);
        if (rc)
            return rc;
        if (s->result[0].status == TWIN_ENDED_WELL) {
            arm->reference = s->result[0].handle;
            if (i > 0) { /* those before it ended otherwise than it did */
                arm->compared += i;
                arm->parted += i;
            }
            return 0;
        }
        s->natural_failed |= natural(arm);
    }
    arm->fails = true;
    return TW_WORLD_FAILS;
}

static void classify(struct tw_arm *arm, const struct twin_search_result *r)
{
    if (arm->classes == 0) {
        arm->class[0].first = arm->reference;
        arm->class[0].runs = 1;
        arm->classes = 1;
    }
    uint64_t most = 0, with = r->parted ? r->agrees : arm->reference;
    size_t at = arm->classes;
    for (size_t i = 0; i < arm->classes && with; i++)
        if (arm->class[i].first == with)
            at = i;
    if (at < arm->classes) {
        arm->class[at].runs++;
    } else if (at < TW_CLASSES) {
        arm->class[at].first = r->handle;
        arm->class[at].runs = 1;
        arm->classes++;
    }
    for (size_t i = 0; i < arm->classes; i++)
        most = arm->class[i].runs > most ? arm->class[i].runs : most;
    arm->parted = ++arm->compared + 1 - most;
}

int tw_arm_compare(struct tw_search *s, struct tw_arm *arm, size_t n, struct twin_error *err)
{
    if (!arm->reference) {
        int rc = arm->fails ? TW_WORLD_FAILS : first_run(s, arm, err);
        if (rc)
            return rc;
    }
    size_t rows = tw_runs_at_once(s, n), done;
    for (size_t i = 0; i < rows; i++)
        tw_world_natural(s, &arm->pinned, s->setting + i * s->plan->candidates);
    int rc = tw_runs(s, natural(arm) ? TWIN_FOR_BASELINE : TWIN_FOR_CONFIRM, n, arm->reference, 0, &done, err);
    for (size_t i = 0; i < done; i++) {
        const struct twin_search_result *r = &s->result[i];
        if (s->plan->arms) { /* the reference is not of this world: a class of its own runs says nothing about it */
            arm->compared++;
            arm->parted += r->parted;
        } else {
            classify(arm, r);
        }
        arm->steps += r->steps;
        arm->blind += r->blind && !r->parted;
        arm->disagreeing += r->parted && r->vote == TWIN_VOTE_OPERATION;
        arm->failed += r->parted && r->status != TWIN_ENDED_WELL;
        if (!natural(arm))
            continue;
        s->natural_failed |= r->status != TWIN_ENDED_WELL;
        s->by_core |= r->parted && r->vote == TWIN_VOTE_HARDWARE;
        for (size_t w = 0; w < TWIN_SEARCH_FACTORS / 64; w++)
            s->report->left_out.word[w] &= r->same.word[w];
        if (r->parted && r->layer >= 0 && r->layer < TWIN_SEARCH_LAYERS)
            s->report->seen[r->layer]++;
    }
    return rc;
}

void tw_arm_forget(struct tw_arm *arm)
{
    arm->compared = arm->parted = arm->steps = arm->disagreeing = 0;
    arm->classes = 0;
}

enum { BLIND = 3 }; /* comparisons that show a difference which cannot be judged, after which there is no point in more */

/* A divergence is proof, so the baseline never turns back to "clean" after one (Wald's plain test would). */
int tw_baseline(struct tw_search *s, struct twin_error *err)
{
    struct twin_sprt test = {s->plan->p0, s->plan->p1, s->plan->alpha, s->plan->beta};
    for (;;) {
        struct tw_arm *arm = &s->arm[0];
        if (arm->parted == 0 && arm->blind == arm->compared && arm->blind >= BLIND)
            return TW_UNSEEN;
        size_t wanted = arm->parted ? s->plan->baseline_parts - arm->parted : s->plan->baseline_clean - arm->compared;
        int rc = tw_arm_compare(s, arm, wanted < s->plan->baseline_parts ? wanted : s->plan->baseline_parts, err);
        if (rc)
            return rc;
        if (arm->parted >= s->plan->baseline_parts || twin_stats_sprt_decide(test, arm->parted, arm->compared) == TWIN_SPRT_CLEAN)
            return 0;
    }
}
