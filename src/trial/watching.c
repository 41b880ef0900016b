/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that goes on, wherever it is made: when it is to end, and what the person in front sees of
 * it.
 */
#include "trial.h"

#include "base.h"
#include "phrase.h"
#include "reference.h"
#include "run_state.h"

#include <math.h>

/* A run that has diverged goes on until the drift can be seen to grow: ten steps, and as many again
 * as it took to diverge (a hundred at most). A short rest is cheaper to let finish, since the
 * printed output and the files then count too. */
enum { STEPS_AFTER_MIN = 10, STEPS_AFTER_ENOUGH = 100, REST_WORTH_SAVING_S = 10 };

static bool enough_is_known(const struct tw_trial *t, const struct twin_progress *p)
{
    uint64_t after = p->step > t->diverged_step ? p->step - t->diverged_step : 0;
    return after >= STEPS_AFTER_MIN && (after > t->diverged_step || after >= STEPS_AFTER_ENOUGH) &&
           t->expected_s - p->elapsed_s > REST_WORTH_SAVING_S;
}

static int end_trial(struct tw_trial *t, enum tw_trial_end end)
{
    t->end = end;
    return 1;
}

/* Has the run diverged by now? Each answer that is new is told in its folder, too. */
static void look_for_divergence(struct tw_trial *t, const struct twin_progress *p)
{
    if (!t->reference)
        return;
    if (!t->reference_told)
        tw_reference_write(p->run_dir, t->reference, false, 0);
    t->reference_told = true;
    if (t->diverged || !p->step)
        return;
    /* An error here only means that nothing is known yet: the comparison at the end counts. */
    if (twin_compare_live(t->reference, p->run_dir, &t->how, &t->diverged, &t->diverged_step,
                          NULL) != 0)
        t->diverged = false;
    if (t->diverged)
        tw_reference_write(p->run_dir, t->reference, true, t->diverged_step);
}

int tw_trial_watch(struct tw_trial *t, const struct twin_progress *p)
{
    t->started = true;
    t->last_step = p->step;
    if (t->start_s == 0 && p->step)
        t->start_s = p->elapsed_s;
    if (t->on_progress)
        t->on_progress(t->user, p);
    else if (t->title)
        tw_trial_show(t->front, t->title, p, t->expected_s, t->expected_steps);
    /* the person's signal came before the launcher took signals over */
    if (tw_front_stops(t->front))
        return end_trial(t, TW_TRIAL_INTERRUPTED);
    if (t->deadline_ns && tw_monotonic_ns() > t->deadline_ns)
        return end_trial(t, TW_TRIAL_OUT_OF_TIME);
    look_for_divergence(t, p);
    if (t->diverged && enough_is_known(t, p))
        return end_trial(t, TW_TRIAL_DIVERGED);
    return 0;
}

/* ---- what the person in front sees */

void tw_trial_show(const struct tw_front *front, const char *title, const struct twin_progress *p,
                   double expected_s, uint64_t expected_steps)
{
    char seconds[24], step[32], of[32];
    struct tw_buf line = {0};
    if (!front || !front->progress)
        return;
    tw_buf_printf(&line, "%s  %s", title, tw_human_seconds(p->elapsed_s, seconds));
    if (p->step)
        tw_buf_printf(&line, "  step %s", tw_human_count(p->step, step));
    if (p->step && expected_steps)
        tw_buf_printf(&line, " of %s", tw_human_count(expected_steps, of));
    if (expected_s > p->elapsed_s)
        tw_buf_printf(&line, "  about %s left in this run",
                      tw_human_seconds(expected_s - p->elapsed_s, seconds));
    if (!line.failed)
        tw_front_progress(front, line.data);
    tw_buf_free(&line);
}

void tw_trial_line(const struct tw_front *front, const char *title, const struct twin_run *r,
                   const char *state)
{
    struct tw_run_totals t;
    char seconds[24], steps[32], records[32], dropped[32];
    struct tw_buf rest = {0};
    tw_run_totals(r, &t);
    tw_buf_puts(&rest, "");
    if (t.dropped)
        tw_buf_printf(&rest, "  %s dropped", tw_human_count(t.dropped, dropped));
    /* a zoom slows the job down, and says nothing of the usual cost */
    bool measures = r->level != TWIN_LEVEL_OPS;
    if (isfinite(t.observer) && t.records && measures)
        tw_buf_printf(&rest, "  observer +%.1f%%", 100 * t.observer);
    tw_front_progress(front, NULL);
    tw_front_line(front, "%s  %-8s %10s  %s step%s  %s record%s%s", title, state,
                  tw_human_seconds(r->wall_s, seconds), tw_human_count(t.steps, steps),
                  tw_plural_s(t.steps), tw_human_count(t.records, records), tw_plural_s(t.records),
                  rest.failed ? "" : rest.data);
    tw_buf_free(&rest);
}

void tw_trial_take_found(struct tw_trial *to, const struct tw_trial *from)
{
    to->end = from->end;
    to->started = from->started;
    to->diverged = from->diverged;
    to->diverged_step = from->diverged_step;
    to->last_step = from->last_step;
    to->start_s = from->start_s;
}
