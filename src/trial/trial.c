/* SPDX-License-Identifier: Apache-2.0 */
/* One watched run: how it is made, and how it ended. */
#include "trial.h"

#include "base.h"
#include "remote.h"

#include "src/provenance/provenance.h"

#include <assert.h>

/* Called by the launcher while the run goes on. Non-zero ends it. */
static int watch_run(void *user, const struct twin_progress *p)
{
    struct tw_trial *t = user;
    int end = tw_trial_watch(t, p);
    return end ? end : tw_trial_look_at_ranks(t, p);
}

int tw_trial_make(struct tw_trial *t, const struct twin_launch_options *o, struct twin_error *err)
{
    const struct tw_trial nothing = {.end = TW_TRIAL_RAN};
    struct twin_launch_options watched = *o;
    assert(o->argv);
    tw_trial_take_found(t, &nothing);
    t->run = NULL;
    t->parity = NULL;
    t->stopped_because = NULL;
    t->reference_told = false;
    if (tw_front_stops(t->front))
        return twin_error_set(err, TWIN_EINTR, "interrupted");
    if (o->on && o->on->engine)
        return tw_remote_make(t, o, err);
    watched.on_tick = watch_run;
    watched.user = t;
    watched.stopped_because = &t->stopped_because;
    int rc;
    if (t->bare)
        rc = twin_launch(&watched, &t->run, err);
    else
        rc = twin_provenance_launch(&watched, &t->run, err);
    tw_front_progress(t->front, NULL);
    if (rc == 0 && t->run->outcome == TWIN_RUN_INTERRUPTED)
        t->end = TW_TRIAL_INTERRUPTED;
    else if (rc == 0 && t->run->outcome == TWIN_RUN_NOT_STARTED)
        t->end = TW_TRIAL_NOT_STARTED;
    else if (rc == 0 && t->end == TW_TRIAL_RAN)
        tw_trial_look_at_ranks_once_more(t);
    tw_trial_forget_ranks(t);
    return rc;
}

/* ---- how long a run may take */

const struct tw_patience tw_patience_under_pins = {.times = 10, .more_s = 60};
const struct tw_patience tw_patience_traced = {.times = 100, .more_s = 60};
const struct tw_patience tw_patience_of_less_work = {.times = 3, .more_s = 60};
const struct tw_patience tw_patience_in_the_lab = {.times = 10, .more_s = 120};
const struct tw_patience tw_patience_under_faster_clocks = {.times = 4, .more_s = 30};
const struct tw_patience tw_patience_for_a_zoom = {.times = 20, .more_s = 120};

uint64_t tw_patience_ends_ns(const struct tw_patience *p, double usual_s)
{
    return tw_monotonic_ns() + (uint64_t)((usual_s * p->times + p->more_s) * 1e9);
}
