/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --through: does A repeat itself? The search has found a pin under which B agrees with A. Their
 * difference acts through that pin's factor only if A agrees with itself without it; else the pin
 * stops what makes A diverge from itself, and nothing is known of what was set.
 *
 * cmd/isolate.c calls this after the search; A runs up to REPEATS times more, without any pin.
 */
#include "search_runs.h"

#include "run_state.h"

#include "base.h"

enum { REPEATS = 3 };

/* A's first natural run that ended well: what the natural runs of B were compared with. */
static uint64_t first_of_a(const struct tw_isolate *c)
{
    for (size_t i = 0; i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        if (e->purpose == TWIN_FOR_BASELINE && e->result.status == TWIN_ENDED_WELL)
            return e->result.handle;
    }
    return 0;
}

/* A run of A; NULL: it was not made, or the person wants an end. */
static struct twin_run *run_a(struct tw_isolate *c)
{
    struct tw_trial trial = {
        .front = c->front,
        .title = "A again ",
        .expected_s = c->natural_s,
        .deadline_ns = tw_patience_ends_ns(&tw_patience_under_pins, c->natural_s)};
    struct twin_launch_options o = tw_isolate_launch_options(c, "a-again");
    o.argv = c->shell[0];
    if (tw_isolate_make(c, &trial, &o, NULL) == 0 && !tw_isolate_stops(c))
        return trial.run;
    twin_run_free(trial.run);
    return NULL;
}

/* A run that fails counts as diverging. The runs are kept, since the report shows them. */
void tw_isolate_a_again(struct tw_isolate *c, const struct twin_search_report *r)
{
    struct tw_isolate_again *x = &c->a_again;
    double limit = (double)c->args.max_time;
    bool time_left = limit <= 0 || r->seconds + c->natural_s < limit;
    bool wanted = c->args.through && r->outcome == TWIN_SEARCH_ISOLATED && time_left;
    const struct twin_run *first = wanted ? tw_isolate_find(c, first_of_a(c)) : NULL;
    while (first && x->trials < REPEATS && !x->parted && !tw_isolate_stops(c)) {
        struct twin_run *run = run_a(c);
        struct twin_verdict *v = NULL;
        bool failed = run && tw_run_failed(run);
        if (!run || (!failed && tw_isolate_compare_pair(c, first, run, &v, NULL) != 0) ||
            tw_isolate_keep(c, run) != 0) {
            twin_verdict_free(v);
            twin_run_free(run);
            return;
        }
        x->reference = first;
        x->run[x->trials++] = run;
        x->parted |= failed || tw_isolate_parted(c, v);
        twin_verdict_free(v);
    }
}

char *tw_isolate_a_again_text(const struct tw_isolate *c)
{
    const struct tw_isolate_again *x = &c->a_again;
    if (x->parted)
        return tw_printf(
            "A by itself diverges as well, in comparison %zu: what was found is needed to make B "
            "agree with A, and is not shown to be what their difference acts through",
            x->trials);
    if (x->trials)
        return tw_printf("A itself: 0 of %zu comparisons diverge; so what differs between A and B "
                         "acts through this",
                         x->trials);
    return tw_strdup("whether A repeats itself was not tried, so this need not be what the "
                     "difference acts through");
}
