/* SPDX-License-Identifier: Apache-2.0 */
/* The natural world, as it is or with a few pins: how often do its runs part? */
#include "search_inside.h"
#include <math.h>

struct tw_arm *tw_arm(struct tw_search *s, const struct twin_search_set *pinned,
                      struct twin_error *err)
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

/* The arm's first run that ends well. One failure may be chance; always failing is a property of
 * the world. */
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
        int rc = tw_runs(s, natural(arm) ? TWIN_FOR_BASELINE : TWIN_FOR_REFERENCE, 1, 0, 0, &done,
                         err);
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

int tw_arm_reference(struct tw_search *s, struct tw_arm *arm, struct twin_error *err)
{
    if (arm->fails)
        return TW_WORLD_FAILS;
    return arm->reference ? 0 : first_run(s, arm, err);
}

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

/* Puts the run into its class; returns which, -1 when there are too many. */
static int classify(struct tw_arm *arm, const struct twin_search_result *r)
{
    if (arm->classes == 0) {
        arm->class[0].first = arm->reference;
        arm->class[0].runs = 1;
        arm->class[0].before = arm->fresh;
        arm->classes = 1;
    }
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
    for (size_t i = 1; i < arm->classes; i++)
        if (arm->class[i].runs > arm->class[most].runs)
            most = i;
    arm->compared++;
    /* The reference is a run of the arm like any other, unless only fresh ones count. */
    arm->parted = arm->compared + !arm->fresh - (arm->class[most].runs - arm->class[most].before);
    return at < TW_CLASSES ? (int)at : -1;
}

/* Takes from a natural run what only those tell. */
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
    /* the reference is not of this world: a class of its own runs says nothing about it */
    if (s->plan->arms) {
        arm->compared++;
        arm->parted += r->parted;
    } else {
        class = classify(arm, r);
    }
    arm->steps += r->steps;
    arm->blind += r->blind && !r->parted;
    arm->disagreeing += r->parted && r->vote == TWIN_VOTE_OPERATION;
    arm->failed += r->parted && r->status != TWIN_ENDED_WELL;
    return arm == &s->arm[0] ? learn_natural(s, r, number, class, err) : 0;
}

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

/*
 * comparisons that show a difference which cannot be judged, after which there is no point in more
 */
enum { BLIND = 3 };

/* A divergence is proof, so the baseline never turns back to "clean" after one (Wald's plain test
 * would). */
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
            /*
             * it parts nearly always, it seems: what is fresh in the confirmation says so once more
             */
            return 0;
        size_t wanted = s->plan->baseline_clean - arm->compared;
        if (arm->parted)
            wanted = s->plan->baseline_parts - arm->parted;
        if (arm->parted == arm->compared)
            wanted = s->plan->baseline_at_once - arm->parted;
        int rc = tw_arm_compare(
            s, arm, wanted < s->plan->baseline_parts ? wanted : s->plan->baseline_parts, err);
        if (rc)
            return rc;
        if ((arm->parted >= s->plan->baseline_parts && arm->parted < arm->compared) ||
            twin_stats_sprt_decide(test, arm->parted, arm->compared) == TWIN_SPRT_CLEAN)
            return 0;
    }
}
