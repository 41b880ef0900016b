/* SPDX-License-Identifier: Apache-2.0 */
/* One watched run: how it is made, and how it ended. */
#include "trial.h"

#include "base.h"
#include "remote.h"

#include "src/provenance/provenance.h"

#include <assert.h>

static const char ranks_differ[] = "its ranks differ";

/* What was found out of the ranks is told: as a note, or as the reason of an end. */
static void tell_of_ranks(const struct tw_trial *t, bool ended)
{
    const char *words = twin_parity_words(t->parity);
    if (!words)
        return;
    if (!t->require_parity)
        tw_front_say(t->parity_front, "%s%s",
                     twin_parity_differs(t->parity) ? "the ranks of this job differ: " : "", words);
    else if (ended)
        tw_front_say(t->parity_front, "--require-parity is not met: %s", words);
    else
        tw_front_say(t->parity_front, "--require-parity ends the job: %s", words);
}

int tw_trial_look_at_ranks(struct tw_trial *t, const struct twin_progress *p)
{
    if (!t->parity_front)
        return 0;
    if (!t->parity)
        t->parity = twin_parity_begin(p->run_dir);
    if (!t->parity || !twin_parity_look(t->parity, p->run_dir, false))
        return 0;
    tell_of_ranks(t, false);
    if (!t->require_parity || !twin_parity_words(t->parity))
        return 0;
    t->end = TW_TRIAL_NO_PARITY;
    t->stopped_because = tw_strdup(
        twin_parity_differs(t->parity) ? ranks_differ : "not all of its ranks were seen");
    return 1;
}

/* A short job has ended before all was known of its ranks: by now it is. Of a job that has failed
 * by itself that alone is to be said, unless its ranks differ. */
void tw_trial_look_at_ranks_once_more(struct tw_trial *t)
{
    const struct twin_run *r = t->run;
    assert(r);
    if (t->parity_front && !t->parity) /* on an engine: over before it was looked at */
        t->parity = twin_parity_begin(r->dir);
    if (t->require_parity && !t->parity) {
        tw_front_say(t->parity_front, "--require-parity is not met: no memory to compare ranks");
        t->end = TW_TRIAL_NO_PARITY;
        return;
    }
    if (!t->parity || !twin_parity_look(t->parity, r->dir, true))
        return;
    bool failed = r->outcome != TWIN_RUN_STOPPED && r->exit_code != 0;
    if (failed && !twin_parity_differs(t->parity))
        return;
    tell_of_ranks(t, true);
    if (t->require_parity && twin_parity_words(t->parity))
        t->end = TW_TRIAL_NO_PARITY;
}

void tw_trial_forget_ranks(struct tw_trial *t)
{
    twin_parity_free(t->parity);
    tw_free(t->stopped_because);
    t->parity = NULL;
    t->stopped_because = NULL;
}

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
