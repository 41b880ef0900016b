/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which settings shrink tries: the whole job first, then fewer steps by bisection, then each knob,
 * and in the end fresh runs of the smallest one that seemed to diverge still.
 */
#include "shrink_runs.h"

#include "base.h"
#include "phrase.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The baseline, and the confirmation, end when BASELINE comparisons have parted; a trial needs NEED
 * of them, within as many comparisons as a job that parts as often as before would miss in one of
 * MISS^-1 trials only. CAP keeps a rare divergence from eating the budget. */
enum { BASELINE = TW_WAYS_MAX, NEED = 2, CAP = 60, HALVINGS = 8, CHAIN = 128 };
#define MISS 0.1

struct tw_shrink_rule tw_shrink_rule_for(const struct tw_shrink *c, uint64_t need)
{
    const struct tw_shrink_evidence *b = &c->baseline;
    /* 3 of 3 does not mean always; and a series that ended with its third divergence shows too many
     * of them. */
    double rate = b->parted == b->trials ? ((double)b->parted + 0.5) / ((double)b->trials + 1)
                                         : twin_stats_rate_lower(b->parted, b->trials, 0.75);
    struct tw_shrink_rule rule = {need, need};
    while (rule.trials < CAP && twin_stats_binomial_cdf(need - 1, rule.trials, rate) > MISS)
        rule.trials++;
    return rule;
}

/* ---- what was accepted, in order: a setting that does not stand up to fresh runs is given back */

struct chain {
    struct tw_shrink_setting at[CHAIN];
    struct tw_shrink_evidence seen[CHAIN];
    size_t count;
};

/* The line that a trial leaves. */
static void say_trial(const struct tw_shrink *c, const struct tw_shrink_setting *s,
                      const struct tw_shrink_evidence *e, const char *what)
{
    char time[24], steps[40] = "all steps";
    struct tw_buf line = {0};
    if (c->args.quiet)
        return;
    if (s->steps)
        snprintf(steps, sizeof steps, "%llu step%s", (unsigned long long)s->steps,
                 tw_plural_s(s->steps));
    tw_buf_printf(&line, "%s", steps);
    for (size_t i = 0; i < c->knob_count; i++)
        tw_buf_printf(&line, ", %s %llu", c->knob[i].name, (unsigned long long)s->value[i]);
    if (!e->trials && e->other)
        tw_buf_printf(&line, ": %s", e->other);
    else
        tw_buf_printf(&line, ": %s, diverged in %llu of %llu comparisons, %s a run", what,
                      (unsigned long long)e->parted, (unsigned long long)e->trials,
                      tw_human_seconds(e->seconds, time));
    tw_front_line(c->front, "%s", line.failed ? "out of memory" : line.data);
    tw_buf_free(&line);
}

/* Tries a setting, and keeps it when the divergence stays. 0, or a TWIN_E*;
 * *kept, and *why (the caller's) when not. */
static int try_setting(struct tw_shrink *c, struct chain *k, const struct tw_shrink_setting *s,
                       bool *kept, char **why)
{
    static const char *const words[] = {"stays", "gone", "fails", "not finished"};
    struct tw_shrink_evidence e;
    enum tw_shrink_answer answer;
    int rc = tw_shrink_trial(c, s, tw_shrink_rule_for(c, NEED), &e, &answer);
    *kept = rc == 0 && answer == TW_SHRINK_STAYS && k->count < CHAIN;
    if (rc == 0)
        say_trial(c, s, &e, words[answer]);
    if (*kept) {
        k->at[k->count] = *s;
        k->seen[k->count++] = e;
        return rc;
    }
    tw_free(*why);
    if (answer == TW_SHRINK_UNKNOWN)
        *why = tw_strdup(c->interrupted ? "interrupted" : "the budget ended");
    else if (e.other)
        *why = tw_strdup(e.other);
    else
        *why = tw_printf("diverges in %llu of %llu comparisons only", (unsigned long long)e.parted,
                         (unsigned long long)e.trials);
    tw_shrink_evidence_free(&e);
    return rc;
}

/* What is known of the smallest setting that was accepted; of the whole job, if none was. */
static const struct tw_shrink_evidence *last_seen(const struct tw_shrink *c, const struct chain *k)
{
    return k->count ? &k->seen[k->count - 1] : &c->baseline;
}

/* The smallest setting that was accepted; the whole job, if none was. */
static struct tw_shrink_setting current_setting(const struct tw_shrink *c, const struct chain *k)
{
    return k->count ? k->at[k->count - 1] : c->whole;
}

/* Are there runs left, and does nobody want an end? */
static bool going(const struct tw_shrink *c)
{
    return !c->interrupted && !c->out_of_budget;
}

/* "at 4: ..."; gives why up. */
static void set_why(char **slot, uint64_t value, char *why)
{
    tw_free(*slot);
    *slot = why ? tw_printf("at %llu: %s", (unsigned long long)value, why) : NULL;
    tw_free(why);
}

/* Tries that many steps. A later success at fewer steps makes an earlier reason void. */
static int try_steps(struct tw_shrink *c, struct chain *k, uint64_t steps, bool *kept)
{
    struct tw_shrink_setting s = current_setting(c, k);
    char *why = NULL;
    s.steps = steps;
    int rc = try_setting(c, k, &s, kept, &why);
    if (rc == 0 && (!*kept || steps <= c->steps_why_at)) {
        set_why(&c->steps_why, steps, why);
        c->steps_why_at = steps;
    }
    return rc;
}

/* ---- steps */

/* Is it seen in a step, and not in how the job ends or what it writes? */
static bool in_a_step(const struct twin_finding *f)
{
    return f->type <= TWIN_FINDING_ORDER;
}

/* Runs that end earlier are the beginnings of longer ones, so the steps at which comparisons have
 * parted so far say where to look: no job of fewer steps than the earliest can part there, and one
 * of as many as the latest should. Between them by bisection. */
static int fewer_steps(struct tw_shrink *c, struct chain *k)
{
    const struct tw_shrink_evidence *e = last_seen(c, k);
    struct tw_shrink_setting s = current_setting(c, k);
    uint64_t most = s.steps ? s.steps : e->steps;
    uint64_t least = (uint64_t)e->first_step + 1;
    uint64_t next = (uint64_t)e->last_step + 1;
    int rc = 0;
    if (!in_a_step(e->verdict[0]->first) || most <= 1) {
        if (!k->count && !c->steps_why)
            c->steps_why = tw_strdup(
                most <= 1
                    ? "there are none to leave out"
                    : "the job does not diverge in a step, but in how it ends or what it writes");
        return 0;
    }
    bool found = false, kept;
    /* where it should part; further on when chance was against it twice */
    while (rc == 0 && going(c) && !found && next < most) {
        rc = try_steps(c, k, next, &found);
        if (rc == 0 && going(c) && !found)
            rc = try_steps(c, k, next, &found);
        if (!found && least <= next)
            least = next + 1;
        next = found ? next : next * 2;
    }
    most = found ? next : most;
    for (int i = 0; rc == 0 && going(c) && found && least < most && i < HALVINGS; i++) {
        uint64_t middle = least + (most - least) / 2;
        rc = try_steps(c, k, middle, &kept);
        if (kept)
            most = middle;
        else
            least = middle + 1;
    }
    return rc;
}

/* ---- knobs */

/* First as small as allowed, which is the largest gain; then halves, until the divergence goes. */
static int make_smaller(struct tw_shrink *c, struct chain *k, size_t knob)
{
    assert(knob < c->knob_count);
    struct tw_knob *x = &c->knob[knob];
    struct tw_shrink_setting s = current_setting(c, k);
    uint64_t value = s.value[knob];
    bool kept = true;
    int rc = 0;
    for (uint64_t next = x->to; rc == 0 && going(c) && kept && value > x->to && next < value;) {
        char *why = NULL;
        s.value[knob] = next;
        rc = try_setting(c, k, &s, &kept, &why);
        if (kept) {
            value = next;
        } else {
            set_why(&x->why, next, why);
            kept = next == x->to && value / 2 > x->to; /* the halves have not been tried yet */
        }
        next = value / 2 > x->to ? value / 2 : value;
    }
    return rc;
}

/* ---- confirmation */

static const char *confirmation_word(bool stands, enum tw_shrink_answer answer)
{
    if (stands)
        return "confirmed";
    return answer == TW_SHRINK_UNKNOWN ? "not finished" : "not confirmed";
}

/* What was accepted was chosen among many; only fresh runs testify. A setting that does not stand
 * up to them is given back for the one accepted before it. */
static int confirm(struct tw_shrink *c, struct chain *k)
{
    int rc = 0;
    for (bool stands = false; rc == 0 && k->count && !stands;) {
        struct tw_shrink_evidence *e = &c->confirmed;
        struct tw_shrink_setting s = current_setting(c, k);
        enum tw_shrink_answer answer;
        tw_shrink_evidence_free(e);
        c->now = s;
        if (!going(c)) /* the budget is over: its trial stands for it, and the report says so */
            return 0;
        rc = tw_shrink_trial(
            c, &s, tw_shrink_rule_for(c, c->baseline.parted < NEED ? NEED : c->baseline.parted), e,
            &answer);
        stands = answer == TW_SHRINK_STAYS;
        if (stands)
            tw_shrink_name_operation(c, &s, e);
        if (stands && !tw_shrink_known(c, e->verdict[0]->first))
            stands = false;
        if (rc == 0)
            say_trial(c, &s, e, confirmation_word(stands, answer));
        if (answer == TW_SHRINK_UNKNOWN) {
            tw_shrink_evidence_free(e);
            return rc;
        }
        if (!stands && rc == 0) {
            if (!c->given_back)
                c->given_back = tw_printf(
                    "a smaller one (%llu steps) did not stand up to fresh runs: %llu of %llu "
                    "comparisons diverged",
                    (unsigned long long)(s.steps ? s.steps : c->baseline.steps),
                    (unsigned long long)e->parted, (unsigned long long)e->trials);
            tw_shrink_evidence_free(&k->seen[--k->count]);
        }
    }
    if (!k->count) {
        c->now = c->whole;
        tw_shrink_evidence_free(&c->confirmed);
    }
    return rc;
}

/* ---- the order of events */

/* The whole job. *diverges: there is something to shrink; else *outcome is the answer. */
static int baseline(struct tw_shrink *c, bool *diverges, enum tw_shrink_outcome *outcome)
{
    enum tw_shrink_answer answer;
    int rc = tw_shrink_trial(c, &c->whole, (struct tw_shrink_rule){BASELINE, c->args.runs - 1},
                             &c->baseline, &answer);
    *diverges = false;
    if (rc != 0)
        return rc;
    if (answer == TW_SHRINK_FAILS)
        return TWIN_EINVAL;
    say_trial(c, &c->whole, &c->baseline, "as it is");
    *diverges = c->baseline.parted > 0;
    if (*diverges)
        tw_shrink_name_operation(c, &c->whole, &c->baseline);
    else if (!going(c) || c->baseline.unseen)
        *outcome = TW_SHRINK_INCONCLUSIVE;
    else
        *outcome = TW_NO_DIVERGENCE;
    return 0;
}

/* What a job that diverges was shrunk to. */
static enum tw_shrink_outcome outcome_of(const struct tw_shrink *c, const struct chain *k)
{
    if (k->count)
        return TW_SHRUNK;
    return going(c) ? TW_NOT_SHRUNK : TW_SHRINK_INCONCLUSIVE;
}

int tw_shrink_find(struct tw_shrink *c, enum tw_shrink_outcome *outcome)
{
    struct chain *k = tw_calloc(1, sizeof *k);
    bool diverges;
    if (!k)
        return tw_front_trouble(c->front, &(struct twin_error){.code = TWIN_ENOMEM}, "shrink");
    int rc = baseline(c, &diverges, outcome);
    if (rc == 0 && diverges) {
        rc = fewer_steps(c, k);
        for (size_t i = 0; i < c->knob_count && rc == 0; i++)
            rc = make_smaller(c, k, i);
        if (rc == 0 && c->knob_count && k->count) /* a smaller job may diverge sooner */
            rc = fewer_steps(c, k);
        if (rc == 0)
            rc = confirm(c, k);
        if (rc == 0)
            *outcome = outcome_of(c, k);
    }
    for (size_t i = 0; i < k->count; i++)
        tw_shrink_evidence_free(&k->seen[i]);
    tw_free(k);
    return rc;
}

void tw_shrink_fini(struct tw_shrink *c)
{
    for (size_t i = 0; i < c->knob_count; i++) {
        tw_free(c->knob[i].name);
        tw_free(c->knob[i].why);
    }
    tw_shrink_evidence_free(&c->baseline);
    tw_shrink_evidence_free(&c->confirmed);
    if (c->spool)
        unlink(c->spool);
    tw_free(c->steps_why);
    tw_free(c->given_back);
    tw_free(c->spool);
    tw_free(c->home);
}
