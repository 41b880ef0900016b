/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include "base.h"
#include "progress.h"
#include "runs.h"
#include "say.h"

#include <math.h>
#include <stdio.h>

/* A run that has parted goes on until the drift can be seen to grow: ten steps, and as many again as it took to part
 * (a hundred at most). A short rest is cheaper to let finish, since the printed output and the files then count too. */
enum { STEPS_AFTER_MIN = 10, STEPS_AFTER_ENOUGH = 100, REST_WORTH_SAVING_S = 10 };

static bool enough_is_known(const struct tw_watch *w, const struct twin_progress *p)
{
    uint64_t after = p->step > w->parted_step ? p->step - w->parted_step : 0;
    return after >= STEPS_AFTER_MIN && (after > w->parted_step || after >= STEPS_AFTER_ENOUGH) &&
           w->expected_s - p->elapsed_s > REST_WORTH_SAVING_S;
}

int tw_watch_tick(void *user, const struct twin_progress *p)
{
    struct tw_watch *w = user;
    w->last_step = p->step;
    tw_progress_show(w->title, p, w->expected_s, w->expected_steps);
    if (w->deadline_ns && tw_monotonic_ns() > w->deadline_ns) {
        w->stopped_time = true;
        return 1;
    }
    /* An error here only means that nothing is known yet: the comparison at the end is the one that counts. */
    if (w->reference && !w->parted && p->step &&
        twin_compare_live(w->reference, p->run_dir, &w->how, &w->parted, &w->parted_step, NULL) != 0)
        w->parted = false;
    if (w->parted && enough_is_known(w, p)) {
        w->stopped_parted = true;
        return 1;
    }
    return 0;
}

void tw_run_line(const char *title, const struct twin_run *r, const char *state)
{
    struct tw_run_totals t;
    char seconds[24], steps[32], records[32];
    tw_run_totals(r, &t);
    tw_progress_clear();
    tw_put_to(stderr, "%s  %-8s %10s  %s step%s  %s record%s", title, state, tw_human_seconds(r->wall_s, seconds),
            tw_human_count(t.steps, steps), t.steps == 1 ? "" : "s", tw_human_count(t.records, records),
            t.records == 1 ? "" : "s");
    if (t.dropped)
        tw_put_to(stderr, "  %s dropped", tw_human_count(t.dropped, records));
    if (isfinite(t.observer) && t.records && r->level != TWIN_LEVEL_OPS) /* a zoom is no measurement */
        tw_put_to(stderr, "  observer +%.1f%%", 100 * t.observer);
    tw_put_to(stderr, "\n");
}
