/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a check, one after the other, each compared with the first as soon as it has ended.
 * The first divergence ends them, unless all were asked for. When run 1 shows that no hook of the
 * usual level sees what goes into the job, the series begins anew at operation level. */
#include "check.h"

#include "base.h"
#include "phrase.h"
#include "run_state.h"

#include "src/trace/trace.h"

#include <stdio.h>

/* of one_series: no hook saw what goes in; not a TWIN_E* */
enum { UNSEEN = 1000 };

/* Which arm run i of the series is. */
static int arm_of(const struct tw_check *c, size_t i)
{
    if (c->numbers.count)
        return (int)tw_check_number_of(c, i);
    return c->arms && i > 0;
}

/* The letter of the run's arm, behind its number; nothing where there are no arms. */
static const char *arm_letter(const struct tw_check *c, int arm)
{
    if (!c->arms)
        return "";
    return arm ? " b" : " a";
}

/* What the run is called among those of its command. */
static const char *run_label(const struct tw_check *c, int arm)
{
    if (!c->arms || c->numbers.count)
        return "check";
    return arm ? "b" : "a";
}

/* The next run of the series, compared with the first. *diverged: it is in another class. */
static int one_run(struct tw_check *c, bool *diverged)
{
    char title[48], text[32];
    size_t i = c->series.count;
    const int arm = arm_of(c, i);
    struct twin_run *r = NULL;
    const int n = snprintf(title, sizeof title, "run %zu/%llu", i + 1,
                           (unsigned long long)c->args.runs);
    if (c->numbers.count)
        snprintf(title + n, sizeof title - (size_t)n, " (%u rank%s)", c->numbers.number[arm],
                 tw_plural_s(c->numbers.number[arm]));
    else
        snprintf(title + n, sizeof title - (size_t)n, "%s", arm_letter(c, arm));
    struct twin_launch_options o = tw_check_launch_options(c, arm, run_label(c, arm));
    int rc = tw_check_launch(c, &o, title, tw_check_as_first(c, i), &r);
    if (rc != 0)
        return rc;
    if (c->series.trial.end == TW_TRIAL_NOT_STARTED && i == 0) {
        tw_front_say(c->series.front, "check: %s", r->message);
        twin_run_free(r);
        return TWIN_EINVAL;
    }
    rc = tw_check_keep(c, r);
    if (rc == 0 && c->series.count > 1)
        rc = tw_check_compare(c);
    if (rc != 0)
        return rc;
    *diverged = c->series.count > 1 && tw_series_diverged(&c->series, i);
    if (!c->args.quiet)
        tw_trial_line(c->series.front, title, r, tw_check_state(c, r, *diverged, text));
    return 0;
}

/* With an engine all runs of one command behind the first are made side by side; they are still
 * taken in their order. */
static int give_away(struct tw_check *c)
{
    const size_t i = c->series.count;
    const int arm = arm_of(c, i);
    struct twin_launch_options o = tw_check_launch_options(c, arm, run_label(c, arm));
    size_t end = i;
    while (end < c->args.runs && arm_of(c, end) == arm)
        end++;
    return tw_check_ahead(c, &o, end - i, tw_check_as_first(c, i));
}

/* Is the next run the first one of a command that has not been given to an engine? */
static bool gives_now(const struct tw_check *c)
{
    const size_t i = c->series.count;
    if (!c->remote.engine || i == 0 || i >= c->args.runs)
        return false;
    return i == 1 || arm_of(c, i) != arm_of(c, i - 1);
}

/* The whole series at c->level. UNSEEN: run 1 shows that another level is needed, and the level was
 * left to us. */
static int runs_of_series(struct tw_check *c)
{
    tw_series_clear(&c->series);
    twin_run_free(c->half);
    c->half = NULL;
    while (c->series.count < c->args.runs && !c->series.interrupted && !c->series.out_of_time) {
        bool diverged = false;
        int rc = gives_now(c) ? give_away(c) : 0;
        rc = rc ? rc : one_run(c, &diverged);
        bool ended = c->series.interrupted || c->series.out_of_time;
        if (rc != 0 && ended && c->series.count)
            break;
        if (rc != 0 && c->series.v) { /* what was compared before is not lost */
            c->trouble = rc;
            break;
        }
        if (rc != 0)
            return rc;
        if (c->series.count == 1 && !c->series.interrupted && !c->series.out_of_time) {
            bool left_to_us = c->args.level != TWIN_LEVEL_TENSORS;
            if (left_to_us && tw_run_level_that_sees(c->series.runs[0]) != c->level)
                return UNSEEN;
            if (!tw_series_has_room(&c->series, c->args.runs - 1, c->args.quiet))
                return TWIN_EINVAL;
            if (c->args.resume_with && (rc = tw_check_half(c, &diverged)) != 0)
                return rc;
            if (c->args.resume_with && diverged)
                break;
        }

        /* A job that fails twice in a row will fail a third time. */
        bool hopeless = c->series.count == 2 && tw_run_failed(c->series.runs[0]) &&
                        tw_run_failed(c->series.runs[1]);
        if ((diverged && c->series.v->outcome == TWIN_DIFFER && !c->args.all) || hopeless)
            break;
    }
    return c->series.v ? 0 : tw_check_compare(c);
}

/* What was given to an engine and is not wanted any more is taken back. */
static int one_series(struct tw_check *c)
{
    int rc = runs_of_series(c);
    tw_series_ahead_end(&c->series);
    return rc;
}

int tw_check_series(struct tw_check *c)
{
    int rc = one_series(c);
    if (rc != UNSEEN)
        return rc;
    /* Bare tensors show at operation level only. */
    c->level = TWIN_LEVEL_OPS;
    tw_front_say(c->series.front,
                 "no hook saw a batch or an input (bare tensors?); starting again at operation "
                 "level, which sees every operation (slower)");
    rc = one_series(c);
    if (rc == 0 && c->series.v)
        twin_verdict_note(c->series.v, "recorded at operation level, since no hook of the usual "
                                       "level saw a batch or an input");
    return rc;
}
