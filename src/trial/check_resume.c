/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check --resume-with: is a job that was interrupted and resumed the same job? The run that is cut
 * short is made here, between the whole run and the resumed one, which goes on in a copy of its
 * folder.
 */
#include "check.h"

#include "base.h"
#include "run_state.h"

#include "src/compare/compare.h"

#include <stdio.h>

/* 0: it is not known how many steps half of the job are, which has been said. */
static uint32_t half_of(const struct tw_check *c)
{
    struct tw_run_totals t;
    tw_run_totals(c->series.runs[0], &t);
    if (t.steps >= 2)
        return (uint32_t)(t.steps / 2);
    tw_front_say(
        c->series.front,
        "check: --resume-with: expected a run of two steps or more, to stop one after half of "
        "them, found %llu; give a command that trains a part and ends: --half CMD",
        (unsigned long long)t.steps);
    return 0;
}

/* Did it end as it was to: by itself and well, or stopped where it was told? Says when not. */
static int judge_end(const struct tw_check *c, const struct twin_run *half)
{
    char text[32];
    bool ended_well = half->outcome == TWIN_RUN_EXITED && half->exit_code == 0;
    if (ended_well || (half->outcome == TWIN_RUN_STOPPED && !c->args.half))
        return 0;
    if (half->outcome == TWIN_RUN_STOPPED && c->args.steps)
        return 0;
    tw_front_say(
        c->series.front,
        "check: --resume-with: the run that was to be resumed ended badly (%s): nothing was "
        "resumed",
        tw_run_state(half, text));
    tw_run_show_tail(c->series.front, "it", half);
    return TWIN_EINVAL;
}

/* Did it compute what the whole run had computed so far? When not, there is nothing to learn from a
 * resume. */
static int judge_half(struct tw_check *c, uint32_t steps, bool *diverged)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_run *pair[2] = {c->series.runs[0], c->half};
    struct twin_compare_options how = tw_check_how(c);
    struct twin_verdict *v = NULL;
    how.resumed = how.find_shift = false;
    how.shift = 0;
    if (steps) {
        how.steps_given = true;
        how.steps = steps;
    }
    if (twin_compare(pair, 2, &how, &v, &err) != 0)
        return tw_front_trouble(c->series.front, &err,
                                "check: cannot compare the half run with the whole one");
    *diverged = v->outcome == TWIN_DIFFER && v->first && v->first->type <= TWIN_FINDING_ORDER;
    if (!*diverged) {
        c->arm_repeats = v->outcome == TWIN_SAME && !c->args.half;
        twin_verdict_free(v);
        return 0;
    }
    twin_verdict_free(c->series.v);
    c->series.v = v;
    c->arm_unsteady = !c->args.half;
    twin_verdict_note(
        v,
        c->args.half
            ? "--half is no part of the whole run: it diverges from it before anything is resumed"
            : "the job diverges from itself before it is interrupted: first make it repeatable");
    return 0;
}

int tw_check_half(struct tw_check *c, bool *done)
{
    char text[32], title[48];
    *done = tw_run_failed(c->series.runs[0]);
    if (*done)
        return 0;
    struct twin_launch_options o = tw_check_launch_options(c, 0, "half");
    char *shell[4];
    uint32_t steps = 0;
    if (c->args.half) {
        tw_shell_argv(c->args.half, shell);
        o.argv = shell;
    } else {
        steps = half_of(c);
        if (!steps)
            return TWIN_EINVAL;
        o.max_steps = steps;
        o.hold = true;
    }
    int rc = tw_check_launch(c, &o, "half", false, &c->half);
    if (rc != 0)
        return rc;
    if (c->series.interrupted || c->series.out_of_time) {
        *done = true;
        return 0;
    }
    bool ok = c->half->outcome == TWIN_RUN_STOPPED;
    snprintf(title, sizeof title, c->args.half ? "half" : "half, stopped after step %u", steps);
    if (!c->args.quiet)
        tw_trial_line(c->series.front, title, c->half, ok ? "ok" : tw_run_state(c->half, text));
    rc = judge_end(c, c->half);
    if (rc != 0)
        return rc;
    rc = judge_half(c, steps, done);
    if (rc != 0 || !*done)
        return rc;
    struct twin_run *half = c->half;
    c->half = NULL;
    return tw_check_keep(c, half);
}

void tw_check_nothing_to_resume(struct tw_check *c)
{
    const struct twin_run *half = c->half;
    const struct twin_run *resumed = c->series.count == 2 ? c->series.runs[1] : NULL;
    struct tw_run_totals t;
    if (!half || !resumed || !c->series.v || !tw_run_failed(resumed) || half->file_count ||
        half->files_truncated)
        return;
    tw_run_totals(resumed, &t);
    if (t.steps)
        return;
    twin_verdict_note(c->series.v,
                      "the run that was to be resumed had written no file when it %s: there was "
                      "nothing to go on from%s",
                      c->args.half ? "ended" : "was stopped",
                      c->args.half ? ""
                                   : ". Save more often, or give a command that trains a part, "
                                     "saves and ends: --half CMD");
}
