/* SPDX-License-Identifier: Apache-2.0 */
/* Have the ranks of a run begun alike? Wherever it is made: its folder is looked at. */
#include "trial.h"

#include "base.h"

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
