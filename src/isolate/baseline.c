/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The natural world, as it is or with a few pins: how often do its runs diverge from each other?
 *
 * An arm (struct tw_arm in search.h) is one such world with its counts. This file makes arms, takes
 * runs into them and sorts the runs into classes, so that a rare kind of run that happens to be the
 * reference does not make every other run look divergent. tw_baseline is the first part of every
 * search: it ends when there is enough to go on with, or to call the job clean.
 */
#include "search_inside.h"

#include <assert.h>

struct tw_arm *tw_arm(struct tw_search *s, const struct twin_search_set *pinned,
                      struct twin_error *err)
{
    for (size_t i = 0; i < s->arm_count; i++)
        if (tw_set_equal(&s->arm[i].pinned, pinned))
            return &s->arm[i];
    struct tw_arm *grown = tw_reallocarray(s->arm, s->arm_count + 1, sizeof *grown);
    if (!grown) {
        tw_no_memory(err, "for %zu arms", s->arm_count + 1);
        return NULL;
    }
    s->arm = grown;
    s->arm[s->arm_count] = (struct tw_arm){.pinned = *pinned};
    return &s->arm[s->arm_count++];
}

/* More pins never bring a divergence back, so one that was seen with more pins counts for fewer. */
bool tw_known_to_part(const struct tw_search *s, const struct twin_search_set *pins)
{
    for (size_t i = 0; i < s->arm_count; i++)
        if (s->arm[i].parted > 0 && tw_set_within(pins, &s->arm[i].pinned))
            return true;
    return false;
}

/* Is it the world without any pin? */
static bool natural(const struct tw_arm *arm)
{
    return tw_set_count(&arm->pinned) == 0;
}

/* Makes the arm's reference: its first run that ends well. One failure may be chance, so there are
 * two attempts; three in the natural world, and where natural runs have failed before.
 * TW_WORLD_FAILS when all fail; the arm is marked, and is not tried again. */
static int first_run(struct tw_search *s, struct tw_arm *arm, struct twin_error *err)
{
    assert(!arm->reference && !arm->fails);
    unsigned attempts = natural(arm) || s->natural_failed ? 3 : 2;
    /* Of two arms all worlds have one reference: A's first run, which ended well. */
    if (s->plan->arms) {
        arm->reference = s->reference[0].handle;
        return 0;
    }
    for (unsigned i = 0; i < attempts; i++) {
        size_t done;
        tw_world_natural(s, &arm->pinned, s->setting);
        int rc = tw_runs(s, natural(arm) ? TWIN_FOR_BASELINE : TWIN_FOR_REFERENCE, 1, 0, 0, &done,
                         err);
        if (rc)
            return rc;
        if (s->result[0].status == TWIN_ENDED_WELL) {
            arm->reference = s->result[0].handle;
            if (i > 0) { /* The runs before it failed, which it did not: they diverged from it. */
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

int tw_arm_reference(struct tw_search *s, struct tw_arm *arm, struct twin_error *err)
{
    if (arm->fails)
        return TW_WORLD_FAILS;
    return arm->reference ? 0 : first_run(s, arm, err);
}

/* The classes come along, so that it is still known which one a run belongs to; what they counted
 * before is kept apart in `before`. */
struct tw_arm tw_arm_fresh(const struct tw_arm *arm)
{
    struct tw_arm fresh = {
        .pinned = arm->pinned, .reference = arm->reference, .fresh = true, .classes = arm->classes};
    for (size_t i = 0; i < arm->classes; i++) {
        fresh.class[i] = arm->class[i];
        fresh.class[i].before = arm->class[i].runs;
    }
    return fresh;
}

void tw_arm_mark(struct tw_arm *arm)
{
    for (size_t i = 0; i < arm->classes; i++)
        arm->class[i].before = arm->class[i].runs;
    arm->compared = arm->parted = 0;
}

/* Puts the run into its class and counts the arm anew. Returns the class; -1 when all TW_CLASSES
 * are taken, in which case the run counts as divergent from the usual class. */
static int classify_run(struct tw_arm *arm, const struct twin_search_result *r)
{
    if (arm->classes == 0) {
        arm->class[0].first = arm->reference;
        arm->class[0].runs = 1;
        arm->class[0].before = arm->fresh;
        arm->classes = 1;
    }
    /* The run that this one agrees with: the reference, an earlier one, or none (0). */
    uint64_t with = r->parted ? r->agrees : arm->reference;
    size_t at = arm->classes, most = 0;
    for (size_t i = 0; i < arm->classes && with; i++)
        if (arm->class[i].first == with)
            at = i;
    if (at < arm->classes) {
        arm->class[at].runs++;
    } else if (at < TW_CLASSES) {
        arm->class[at].first = with ? with : r->handle;
        arm->class[at].runs = 1;
        arm->class[at].before = 0;
        arm->classes++;
    }
    /* the class with most runs is the usual one; of two alike the earlier */
    for (size_t i = 1; i < arm->classes; i++)
        if (arm->class[i].runs > arm->class[most].runs)
            most = i;
    arm->compared++;
    /* Not in the usual class: all runs less those in it. The reference is a run of the arm like any
     * other, unless only fresh ones count. */
    arm->parted = arm->compared + !arm->fresh - (arm->class[most].runs - arm->class[most].before);
    assert(arm->classes >= 1 && arm->classes <= TW_CLASSES);
    assert(arm->parted <= arm->compared);
    return at < TW_CLASSES ? (int)at : -1;
}

/* Takes from a natural run what only those tell: whether the job fails by itself, whether replays
 * spoke against one core, which factors were alike in both runs (they stay left out), the layer of
 * the first difference, and the run's place in the sequence (persist.c). */
static int learn_natural(struct tw_search *s, const struct twin_search_result *r, uint32_t number,
                         int class, struct twin_error *err)
{
    s->natural_failed |= r->status != TWIN_ENDED_WELL;
    s->by_core |= r->parted && r->vote == TWIN_VOTE_HARDWARE;
    for (size_t w = 0; w < TWIN_SEARCH_FACTORS / 64 && s->natural_runs_tell; w++)
        s->report->left_out.word[w] &= r->same.word[w];
    if (r->parted && r->layer >= 0 && r->layer < TWIN_SEARCH_LAYERS)
        s->report->seen[r->layer]++;
    return tw_trace_add(s, class, number, err);
}

int tw_arm_take(struct tw_search *s, struct tw_arm *arm, const struct twin_search_result *r,
                uint32_t number, struct twin_error *err)
{
    int class = r->parted ? -1 : 0;
    /* Of two arms the reference is A's, which is not of this world: a class that this world's runs
     * form says nothing about divergence from A. */
    if (s->plan->arms) {
        arm->compared++;
        arm->parted += r->parted;
    } else {
        class = classify_run(arm, r);
    }
    arm->steps += r->steps;
    arm->unseen += r->unseen && !r->parted;
    arm->blind += r->blind && !r->parted;
    arm->unjudged += r->unjudged && !r->parted;
    arm->disagreeing += r->parted && r->vote == TWIN_VOTE_OPERATION;
    arm->failed += r->parted && r->status != TWIN_ENDED_WELL;
    return arm == &s->arm[0] ? learn_natural(s, r, number, class, err) : 0;
}

/* All runs of one call are made with the same reference and, where the caller can, at the same
 * time. */
int tw_arm_compare(struct tw_search *s, struct tw_arm *arm, size_t n, struct twin_error *err)
{
    int rc = tw_arm_reference(s, arm, err);
    if (rc)
        return rc;
    size_t rows = tw_runs_at_once(s, n), done;
    enum twin_search_purpose purpose = TWIN_FOR_CONFIRM;
    if (natural(arm))
        purpose = s->natural_runs_tell ? TWIN_FOR_BASELINE : TWIN_FOR_FREE;
    for (size_t i = 0; i < rows; i++)
        tw_world_natural(s, &arm->pinned, s->setting + i * s->plan->candidates);
    rc = tw_runs(s, purpose, n, arm->reference, 0, &done, err);
    for (size_t i = 0; i < done && !rc; i++)
        rc = tw_arm_take(s, arm, &s->result[i], s->request[i].number, err);
    return rc;
}

/* The search ends when this many comparisons were made, and of none more can be known: what differs
 * cannot be judged (text, files), or there was nothing to compare. */
enum { BLIND = 3 };

/* Looks at natural runs until one of four things is clear: nothing can be known of them
 * (TW_UNSEEN); they diverged and do so no longer (TW_GONE); they diverge, often enough to
 * know the rate; or Wald's sequential test calls them clean. A divergence is proof: after one, the
 * test never says "clean" (Wald's plain test would, after enough clean comparisons), so runs are
 * made until baseline_parts of them have diverged. */
int tw_baseline(struct tw_search *s, struct twin_error *err)
{
    struct twin_sprt test = {s->plan->p0, s->plan->p1, s->plan->alpha, s->plan->beta};
    for (;;) {
        struct tw_arm *arm = &s->arm[0];
        if (arm->parted == 0 && arm->blind == arm->compared && arm->blind >= BLIND)
            return TW_UNSEEN;
        if (tw_gone(s))
            return TW_GONE;
        if (arm->parted == arm->compared && arm->parted >= s->plan->baseline_at_once)
            /* Every comparison diverged so far. The rate is near 1, and the fresh runs of the
             * confirmation say so once more. */
            return 0;
        /* How many comparisons to ask for at once: as many as the goal that is nearest needs, but
         * never more than baseline_parts, so that the decision is looked at in between. */
        size_t wanted = s->plan->baseline_clean - arm->compared;
        if (arm->parted)
            wanted = s->plan->baseline_parts - arm->parted;
        if (arm->parted == arm->compared)
            wanted = s->plan->baseline_at_once - arm->parted;
        assert(wanted > 0);
        int rc = tw_arm_compare(
            s, arm, wanted < s->plan->baseline_parts ? wanted : s->plan->baseline_parts, err);
        if (rc)
            return rc;
        if ((arm->parted >= s->plan->baseline_parts && arm->parted < arm->compared) ||
            twin_stats_sprt_decide(test, arm->parted, arm->compared) == TWIN_SPRT_CLEAN)
            return 0;
    }
}

int tw_still_parts(struct tw_search *s, struct twin_error *err)
{
    /* until the last run of all is a natural one that diverged */
    while (tw_last_parted(s) < s->report->runs) {
        int rc = tw_arm_compare(s, &s->arm[0], 1, err);
        if (rc)
            return rc;
        if (tw_gone(s))
            return TW_GONE;
    }
    return 0;
}
