/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The confirmation: is a set of pins the cause? search.c brings a set that seems to be enough; here
 * it is tested on fresh runs, since what chose a set is no evidence for it.
 *
 * All runs are natural but for the set. In some of them the whole set is pinned, in others all of
 * it but one member, and which run is which was drawn beforehand (blocks.c says what that is good
 * for). Two claims come of it: that each pin matters, with its p value; and how often runs diverge
 * that have all of them, with an upper bound. A natural run that diverges ends it, else the world
 * has changed meanwhile.
 *
 * The outcome goes into the report (s->report). Runs and comparisons are asked for through runs.c;
 * nothing is started here.
 */
#include "search_inside.h"
#include <assert.h>
#include <math.h>
#include <string.h>

/* PINNED is the kind of a run with the whole set pinned. The largest block has 10 pinned runs, and
 * 6 free ones for each member (the limits of blocks.c). */
enum { PINNED = 0, MOST_RUNS_IN_BLOCK = 10 + 6 * TWIN_SEARCH_FACTORS };

/* One confirmation of one set. arm[PINNED] has the whole set pinned; arm[m] leaves member m free, m
 * = 1 ... members. So index 0 of the arrays below is the whole set, or unused. */
struct confirmation {
    struct twin_search_set set;
    /* of each candidate; borrowed from the search */
    const struct twin_search_set *alternatives;
    size_t members, member[TWIN_SEARCH_FACTORS + 1];
    /* Fresh ones, whose counts are of the block that goes on. */
    struct tw_arm *arm;
    /* the same arms over all blocks: what the report shows */
    struct tw_arm *all;
    /* p: product over the blocks so far, 1 before the first. rate: at which runs with this kind of
     * pins are taken to diverge. */
    double p[TWIN_SEARCH_FACTORS + 1], rate[TWIN_SEARCH_FACTORS + 1];
    /* a member without which nothing diverges either, so that the others are enough; 0: none is
     * known */
    size_t unnecessary;
    /* divergences seen in this arm's world before the confirmation */
    uint64_t known_to_part[TWIN_SEARCH_FACTORS + 1];
    /* that each p has to reach: this set's share of alpha */
    double level;
    /* blocks made so far */
    uint32_t blocks;
    /* the runs from here on are those of --thorough */
    bool after_blocks;
    /* every run with its place, in the order in which they were made; owned */
    struct twin_search_trial *trial;
    size_t trial_count;
};

/* An arm's counts in the unit of the report: steps where each step counts as a trial, else
 * comparisons. */
static struct twin_search_arm counts_of_arm(const struct tw_search *s, const struct tw_arm *arm)
{
    bool steps = s->report->unit == TWIN_UNIT_EXPOSURE;
    return (struct twin_search_arm){steps ? arm->steps : arm->compared, arm->parted};
}

/* Decides what a trial is, with a sentence that says why. Steps count only where the operation was
 * seen disagreeing with itself, every time, and each member acts at each step. A rare cause that is
 * drawn once per run, and makes runs diverge at their first step, would look just like a hazard per
 * step. */
static void choose_unit(struct tw_search *s, const struct twin_search_set *set)
{
    const struct tw_arm *natural = &s->arm[0];
    struct twin_search_report *r = s->report;
    r->unit = TWIN_UNIT_RUN;
    r->unit_why = "no replay or transplant showed the operation itself disagreeing, so a cause may "
                  "be drawn once per run";
    if (natural->parted == 0 || natural->disagreeing < natural->parted ||
        natural->steps < natural->compared)
        return;
    for (size_t i = 0; i < s->plan->candidates; i++)
        if (twin_search_has(set, i) && s->candidate[i].unit != TWIN_UNIT_EXPOSURE) {
            r->unit_why = "the factor is drawn once per run";
            return;
        }
    r->unit = TWIN_UNIT_EXPOSURE;
    r->unit_why = "replay or transplant showed the operation itself disagreeing; steps are taken "
                  "to be independent";
}

/* What a new confirmation costs with this rate: the runs of its blocks, the natural runs until one
 * diverges (1 / rate on average), and one more. */
uint64_t tw_confirm_cost(const struct tw_search *s, const struct tw_arm *free)
{
    double expected, rate = tw_rate(free);
    tw_block_choose(rate, 1 / (s->plan->alpha * tw_alpha_share(s)), &expected);
    return (uint64_t)ceil(expected + 1 / rate) + 1;
}

uint32_t tw_more_clean(const struct tw_search *s, uint64_t parted, uint64_t compared)
{
    uint32_t more = 0;
    while (more < 1000000 && tw_rate_bound(s, parted, compared + more) > s->plan->p1)
        more++;
    return more;
}

/* ---- the arms at issue */

static void close_confirmation(struct confirmation *c)
{
    if (!c)
        return;
    tw_free(c->arm);
    tw_free(c->all);
    tw_free(c->trial);
    tw_free(c);
}

/* Makes the fresh arm of one kind. Its world's reference run is made when it is missing. 0, or a
 * code of the search (TW_WORLD_FAILS, TW_BUDGET, ...). */
static int fresh_arm(struct tw_search *s, struct confirmation *c, size_t kind,
                     const struct twin_search_set *pins, struct twin_error *err)
{
    assert(kind <= c->members && c->members <= TWIN_SEARCH_FACTORS);
    struct tw_arm *arm = tw_arm(s, pins, err);
    if (!arm)
        return TWIN_ENOMEM;
    c->known_to_part[kind] = arm->parted;
    c->rate[kind] = arm->compared > 0 ? tw_rate(arm) : tw_rate(&s->arm[0]);
    int rc = tw_arm_reference(s, arm, err);
    if (rc)
        return rc;
    c->arm[kind] = tw_arm_fresh(arm);
    c->all[kind] = c->arm[kind];
    return 0;
}

/* Makes the arms of a set: the whole of it, then one for each member in the order of the
 * candidates. *out is set in any case and is the caller's to close. */
static int open_confirmation(struct tw_search *s, const struct twin_search_set *set,
                             struct confirmation **out, struct twin_error *err)
{
    struct confirmation *c = tw_calloc(1, sizeof *c);
    size_t arms = tw_set_count(set) + 1;
    *out = c;
    if (c) {
        c->arm = tw_calloc(arms, sizeof *c->arm);
        c->all = tw_calloc(arms, sizeof *c->all);
    }
    if (!c || !c->arm || !c->all)
        return tw_no_memory(err, "for the confirmation of %zu pins", arms - 1);
    c->set = *set;
    c->level = s->plan->alpha * tw_alpha_share(s);
    int rc = fresh_arm(s, c, PINNED, set, err);
    for (size_t i = 0; i < s->plan->candidates && !rc; i++) {
        struct twin_search_set rest = *set;
        if (!twin_search_has(set, i))
            continue;
        tw_set_remove(&rest, i);
        c->member[++c->members] = i;
        c->p[c->members] = 1;
        rc = fresh_arm(s, c, c->members, &rest, err);
    }
    return rc;
}

/* ---- blocks */

/* Is there a member without which nothing diverges either, as far as runs can tell? Then the others
 * are enough, and the runs without this one are those that show it. From then on the members share
 * the level, since which of them is named depends on what was seen. Returns false when there is a
 * second such member: no arm has had exactly the rest pinned, so the rest needs a confirmation of
 * its own. */
static bool look_for_unnecessary(const struct tw_search *s, struct confirmation *c)
{
    for (size_t m = 1; m <= c->members && c->members > 1; m++) {
        bool clean = c->known_to_part[m] == 0 && c->all[m].parted == 0 &&
                     c->all[m].compared >= tw_clean_needed(&s->arm[0], .05);
        if (!clean || m == c->unnecessary)
            continue;
        if (c->unnecessary)
            return false;
        c->unnecessary = m;
        c->level /= (double)c->members;
    }
    return true;
}

/* Is this member still to be shown? Not when its p has reached the level, and not when it was found
 * not to be needed. */
static bool open_member(const struct confirmation *c, size_t m)
{
    assert(m >= 1 && m <= c->members);
    return m != c->unnecessary && c->p[m] > c->level;
}

/* The member that is furthest from its level: the next block is made for it. 0: all have reached
 * it. */
static size_t furthest(const struct confirmation *c)
{
    size_t most = 0;
    for (size_t m = 1; m <= c->members; m++)
        if (open_member(c, m) && (most == 0 || c->p[m] > c->p[most]))
            most = m;
    return most;
}

/* Fills kind[] with the next block, in an order drawn uniformly; returns how many runs it has. Its
 * size suits the member that is furthest from its level, and every open member gets as many free
 * runs as that one. */
static size_t next_block(const struct tw_search *s, const struct confirmation *c, uint32_t *kind)
{
    size_t of = furthest(c), n = 0;
    assert(of > 0); /* confirm_set asks for a block only while a member is open */
    struct tw_block block = tw_block_choose(c->rate[of], c->p[of] / c->level, NULL);
    for (uint32_t i = 0; i < block.pinned; i++)
        kind[n++] = PINNED;
    for (size_t m = 1; m <= c->members; m++)
        for (uint32_t i = 0; i < block.free && open_member(c, m); i++)
            kind[n++] = (uint32_t)m;
    assert(n <= MOST_RUNS_IN_BLOCK);
    tw_block_draw(s->plan->seed, s->sets_tested, c->blocks, kind, n);
    return n;
}

/* Adds the block to the arrangement that the report shows, "FPPFFPP" with one member; with several
 * the member's number stands for F, and + for a number above 9. Called before the block is made, so
 * the report has the order as it was drawn, even when the block ends early. */
static int write_down(struct tw_search *s, const struct confirmation *c, const uint32_t *kind,
                      size_t n, struct twin_error *err)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, s->report->arrangement && c->blocks > 0 ? s->report->arrangement : "");
    tw_buf_puts(&b, b.len > 0 ? " " : "");
    for (size_t i = 0; i < n; i++)
        if (kind[i] == PINNED)
            tw_buf_puts(&b, "P");
        else if (c->members == 1)
            tw_buf_puts(&b, "F");
        else
            tw_buf_printf(&b, "%c", kind[i] < 10 ? '0' + (int)kind[i] : '+');
    tw_free(s->report->arrangement);
    s->report->arrangement = tw_buf_steal(&b);
    return s->report->arrangement ? 0 : tw_no_memory(err, "for an arrangement");
}

/* Notes which run had which place, for the evidence of the report. */
static int note_trial(struct confirmation *c, uint32_t kind, uint32_t number,
                      struct twin_error *err)
{
    struct twin_search_trial *grown = tw_reallocarray(c->trial, c->trial_count + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(err, "for %zu runs of a confirmation", c->trial_count + 1);
    c->trial = grown;
    c->trial[c->trial_count++] = (struct twin_search_trial){
        number, c->after_blocks ? TWIN_TRIAL_AFTER : c->blocks, kind};
    return 0;
}

/* A run of the block: into the fresh arm, into what the report shows, and into what the search
 * knows of its world. */
static int take_run(struct tw_search *s, struct confirmation *c, uint32_t kind,
                    const struct twin_search_result *r, uint32_t number, struct twin_error *err)
{
    assert(kind <= c->members);
    struct tw_arm *known = tw_arm(s, &c->arm[kind].pinned, err);
    int rc = known ? tw_arm_take(s, known, r, number, err) : TWIN_ENOMEM;
    if (!rc)
        rc = tw_arm_take(s, &c->arm[kind], r, number, err);
    if (!rc)
        rc = tw_arm_take(s, &c->all[kind], r, number, err);
    if (!rc)
        rc = note_trial(c, kind, number, err);
    return rc;
}

/* Makes the runs of a block in its order, and multiplies its p into those of the members. Returns
 * early, and leaves p as it is, when a run diverges under the pins: the caller sees it in
 * all[PINNED]. TW_GONE when natural runs diverge no longer. */
static int run_block(struct tw_search *s, struct confirmation *c, const uint32_t *kind, size_t n,
                     struct twin_error *err)
{
    for (size_t m = PINNED; m <= c->members; m++)
        tw_arm_mark(&c->arm[m]);
    for (size_t at = 0, done = 0; at < n; at += done) {
        int rc = tw_runs_arranged(s, c->arm, kind + at, n - at, &done, err);
        for (size_t i = 0; i < done && !rc; i++)
            rc = take_run(s, c, kind[at + i], &s->result[i], s->request[i].number, err);
        if (rc)
            return rc;
        if (c->all[PINNED].parted > 0)
            return 0;
        /* With one member its free runs are natural ones, which tell that. */
        if (c->members == 1 && tw_gone(s))
            return TW_GONE;
    }
    for (size_t m = 1; m <= c->members; m++)
        if (c->arm[m].compared > 0)
            c->p[m] *= tw_block_p(c->arm[m].compared, c->arm[PINNED].compared, c->arm[m].parted);
    for (size_t m = 1; m <= c->members; m++)
        c->rate[m] = tw_rate(tw_arm(s, &c->arm[m].pinned, NULL));
    c->blocks++;
    return 0;
}

/* ---- the verdict */

static void free_main_cause(struct tw_main_cause *m)
{
    if (m) {
        tw_free(m->cause);
        tw_free(m->arrangement);
        tw_free(m->evidence.trial);
    }
    tw_free(m);
}

void tw_main_cause_close(struct tw_search *s)
{
    free_main_cause(s->main_cause);
    s->main_cause = NULL;
}

/* The kind that has all causes pinned, and nothing else: without the unnecessary member, where
 * there is one. */
static size_t kind_shown(const struct confirmation *c)
{
    return c->unnecessary ? c->unnecessary : PINNED;
}

/* Puts into the report what the causes rest on: the level, the members, their references, and every
 * run with its place. */
static int keep_evidence(struct tw_search *s, const struct confirmation *c, struct twin_error *err)
{
    struct twin_search_evidence *e = &s->report->evidence;
    struct twin_search_trial *copy = tw_calloc(c->trial_count + 1, sizeof *copy);
    if (!copy)
        return tw_no_memory(err, "for %zu runs of a confirmation", c->trial_count);
    if (c->trial_count)
        memcpy(copy, c->trial, c->trial_count * sizeof *copy);
    tw_free(e->trial);
    *e = (struct twin_search_evidence){s->sets_tested,          c->level, c->members,    {0}, {0},
                                       (uint32_t)kind_shown(c), copy,     c->trial_count};
    memcpy(e->member, c->member, (c->members + 1) * sizeof *e->member);
    for (size_t m = PINNED; m <= c->members; m++)
        e->reference[m] = c->all[m].reference;
    return 0;
}

/* Writes the causes into the report, in the place of those of an earlier confirmation. All members
 * count but the one that is not needed. */
static int conclude(struct tw_search *s, const struct confirmation *c, struct twin_error *err)
{
    const struct tw_arm *pinned = &c->all[kind_shown(c)];
    size_t count = c->members - (c->unnecessary != 0);
    assert(count > 0 && c->unnecessary <= c->members);
    struct twin_search_cause *cause = tw_calloc(count, sizeof *cause);
    if (!cause)
        return tw_no_memory(err, "for %zu causes", count);
    for (size_t m = 1, n = 0; m <= c->members; m++) {
        const struct tw_arm *free = &c->all[m], *against = &c->all[PINNED];
        struct twin_search_cause *x = &cause[n];
        if (m == c->unnecessary)
            continue;
        x->candidate = c->member[m];
        x->alternatives = c->alternatives[c->member[m]];
        x->sufficient = counts_of_arm(s, pinned);
        x->necessary = counts_of_arm(s, free);
        x->failed = s->arm[0].failed ? 0 : free->failed;
        /* Fisher's test looks at the counts alone, as if they had been planned; it is shown beside
         * p and decides nothing. */
        x->p_fisher = twin_stats_fisher(free->parted, free->compared - free->parted,
                                        against->parted, against->compared - against->parted,
                                        TWIN_GREATER);
        x->p = c->p[m];
        /* A p at the level of this set counts as alpha, the level of the whole search. */
        x->p_adjusted = fmin(1, x->p * s->plan->alpha / c->level);
        n++;
    }
    tw_free(s->report->cause);
    s->report->cause = cause;
    s->report->cause_count = count;
    s->report->left = pinned->compared;
    s->report->left_parted = pinned->parted;
    return keep_evidence(s, c, err);
}

/* Moves the causes out of the report, for the case that the search ends without knowing what else
 * there is. The report has none until then. */
static int keep_main_cause(struct tw_search *s, struct twin_error *err)
{
    assert(s->report->cause_count > 0);
    struct tw_main_cause *m = tw_calloc(1, sizeof *m);
    if (!m)
        return tw_no_memory(err, "for what was found so far");
    struct twin_search_report *r = s->report;
    *m = (struct tw_main_cause){.cause = r->cause,
                                .count = r->cause_count,
                                .evidence = r->evidence,
                                .left = r->left,
                                .left_parted = r->left_parted,
                                .unit = r->unit,
                                .unit_why = r->unit_why,
                                .arrangement = r->arrangement,
                                .confirmations = r->confirmations,
                                .applied = r->applied,
                                .repeats = r->repeats,
                                .p_applied = r->p_applied};
    r->arrangement = NULL;
    s->report->cause = NULL;
    s->report->cause_count = 0;
    s->report->evidence = (struct twin_search_evidence){0};
    tw_main_cause_close(s);
    s->main_cause = m;
    return 0;
}

void tw_main_cause_restore(struct tw_search *s)
{
    struct tw_main_cause *m = s->main_cause;
    if (!m)
        return;
    tw_free(s->report->cause);
    tw_free(s->report->evidence.trial);
    s->report->evidence = m->evidence;
    m->evidence.trial = NULL;
    s->report->cause = m->cause;
    s->report->cause_count = m->count;
    s->report->left = m->left;
    s->report->left_parted = m->left_parted;
    s->report->unit = m->unit;
    s->report->unit_why = m->unit_why;
    tw_free(s->report->arrangement);
    s->report->arrangement = m->arrangement;
    s->report->confirmations = m->confirmations;
    s->report->applied = m->applied;
    s->report->repeats = m->repeats;
    s->report->p_applied = m->p_applied;
    s->report->outcome = TWIN_SEARCH_ISOLATED;
    m->cause = NULL;
    m->arrangement = NULL;
    tw_main_cause_close(s);
}

/* --thorough: more pinned runs, until they are enough to call the pins sufficient, or until one
 * diverges (TW_NOT_SUFFICIENT; the causes are kept as the main ones). The last run of all has to be
 * a natural one that diverges, here as well. */
static int go_on(struct tw_search *s, struct confirmation *c, enum tw_confirmed *answer,
                 struct twin_error *err)
{
    assert(c->all[kind_shown(c)].parted == 0);
    const struct tw_arm *pinned = &c->all[kind_shown(c)];
    const uint64_t before = pinned->compared;
    uint32_t kind[64];
    c->after_blocks = true;
    for (uint32_t more; (more = tw_more_clean(s, 0, pinned->compared)) > 0;) {
        size_t done = 0, n = more < 64 ? more : 64;
        for (size_t i = 0; i < n; i++)
            /* The runs go where all causes are pinned, whichever kind that is. */
            kind[i] = (uint32_t)kind_shown(c);
        int rc = tw_runs_arranged(s, c->arm, kind, n, &done, err);
        for (size_t i = 0; i < done && !rc; i++)
            rc = take_run(s, c, kind[i], &s->result[i], s->request[i].number, err);
        if (!rc)
            rc = conclude(s, c, err);
        if (rc)
            return rc; /* out of budget: what was shown stands, and is not called sufficient */
        if (pinned->parted > 0) {
            *answer = TW_NOT_SUFFICIENT;
            return keep_main_cause(s, err);
        }
    }
    return pinned->compared > before ? tw_still_parts(s, err) : 0;
}

/* Two arms: does A diverge from itself with the causes, and what they need, as in B? Else there is
 * no cause. */
static int apply_causes(struct tw_search *s, enum tw_confirmed *answer, struct twin_error *err)
{
    struct twin_search_set together = {{0}};
    for (size_t i = 0; i < s->report->cause_count; i++) {
        const struct twin_search_cause *cause = &s->report->cause[i];
        tw_set_add(&together, cause->candidate);
        for (size_t w = 0; w < TWIN_SEARCH_FACTORS / 64; w++)
            together.word[w] |= cause->alternatives.word[w];
    }
    int rc = tw_confirm_applied(s, &together, answer, err);
    if (rc || *answer != TW_SUFFICIENT)
        s->report->cause_count = 0;
    return rc;
}

/* Every member has reached its level: a natural run still has to diverge, then the causes are
 * written down. --thorough changes nothing before its own runs, so the log of a search without it
 * can be gone on with. Without a budget for those runs, what was shown stands. */
static int settle_set(struct tw_search *s, struct confirmation *c, enum tw_confirmed *answer,
                      struct twin_error *err)
{
    int rc = tw_still_parts(s, err);
    if (!rc)
        rc = conclude(s, c, err);
    *answer = TW_SUFFICIENT;
    if (!rc && s->plan->arms)
        rc = apply_causes(s, answer, err);
    if (rc || *answer != TW_SUFFICIENT)
        return rc;
    if (s->plan->thorough)
        rc = go_on(s, c, answer, err);
    return rc == TW_BUDGET ? 0 : rc;
}

/* Confirms one set at one share of alpha. *less: a member was taken out of the set, and what is
 * left has to be confirmed by itself. *answer is set when that is false and 0 is returned. */
static int confirm_set(struct tw_search *s, struct twin_search_set *set,
                       const struct twin_search_set *alternatives, enum tw_confirmed *answer,
                       bool *less, struct twin_error *err)
{
    struct confirmation *c = NULL;
    uint32_t kind[MOST_RUNS_IN_BLOCK];
    *less = false;
    choose_unit(s, set);
    s->report->confirmations = s->sets_tested;
    int rc = open_confirmation(s, set, &c, err);
    if (c)
        c->alternatives = alternatives;
    while (!rc && furthest(c) > 0) {
        size_t n = next_block(s, c, kind);
        rc = write_down(s, c, kind, n, err);
        if (!rc)
            rc = run_block(s, c, kind, n, err);
        if (rc)
            break;
        if (c->all[PINNED].parted > 0) {
            *answer = TW_NOT_SUFFICIENT;
            goto out;
        }
        /* Two members are not needed. One is taken out, and the rest begins anew. */
        if (!look_for_unnecessary(s, c)) {
            tw_set_remove(set, c->member[c->unnecessary]);
            *less = true;
            goto out;
        }
    }
    if (!rc)
        rc = settle_set(s, c, answer, err);
    if (!rc && c->unnecessary)
        tw_set_remove(set, c->member[c->unnecessary]);
    /* The job does not end well with these pins: that is an answer, not an error. */
    if (rc == TW_WORLD_FAILS) {
        *answer = TW_SET_FAILS;
        rc = 0;
    }
out:
    close_confirmation(c);
    return rc;
}

/* Each turn of the loop is a confirmation with a share of alpha of its own. */
int tw_confirm(struct tw_search *s, struct twin_search_set *set,
               const struct twin_search_set *alternatives, enum tw_confirmed *answer,
               struct twin_error *err)
{
    for (bool less = true; less;) {
        s->sets_tested++;
        int rc = confirm_set(s, set, alternatives, answer, &less, err);
        if (rc)
            return rc;
    }
    return 0;
}
