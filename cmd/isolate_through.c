/* SPDX-License-Identifier: Apache-2.0 */
/* --through: does A repeat itself? A pin under which B agrees with A is what their difference acts through only where it does: else
 * the pin stops what makes A part from itself, and nothing is known of what was set. */
#include "isolate.h"

#include "interrupt.h"
#include "progress.h"
#include "runs.h"

#include "base.h"

#include <twin/provenance.h>

enum { REPEATS = 3, SLOWER = 10, AT_LEAST_S = 60 };

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

static struct twin_run *run_a(struct tw_isolate *c)
{
    struct tw_watch watch = {.title = "A again ", .expected_s = c->natural_s,
                             .deadline_ns = tw_monotonic_ns() + (uint64_t)((c->natural_s * SLOWER + AT_LEAST_S) * 1e9)};
    struct twin_launch_options o = tw_isolate_launch_options(c, "a-again", &watch);
    o.argv = c->shell[0];
    struct twin_run *run = NULL;
    bool made = twin_provenance_launch(&o, &run, NULL) == 0 && !tw_interrupted();
    tw_progress_clear();
    if (made)
        return run;
    twin_run_free(run);
    return NULL;
}

void tw_isolate_a_again(struct tw_isolate *c, const struct twin_search_report *r)
{
    struct tw_isolate_again *x = &c->a_again;
    double limit = (double)c->args.max_time;
    bool time_left = limit <= 0 || r->seconds + c->natural_s < limit;
    bool wanted = c->args.through && r->outcome == TWIN_SEARCH_ISOLATED && time_left;
    const struct twin_run *first = wanted ? tw_isolate_find(c, first_of_a(c)) : NULL;
    while (first && x->trials < REPEATS && !x->parted && !tw_interrupted()) {
        struct twin_run *run = run_a(c);
        struct twin_verdict *v = NULL;
        bool failed = run && tw_run_failed(run);
        if (!run || (!failed && tw_isolate_compare_pair(c, first, run, &v, NULL) != 0) || tw_isolate_keep(c, run) != 0) {
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
        return tw_printf("A by itself diverges as well, in comparison %zu: what was found is needed to make B agree with A, and is not shown to "
                         "be what their difference acts through", x->trials);
    if (x->trials)
        return tw_printf("A itself: 0 of %zu comparisons part; so what differs between A and B acts through this", x->trials);
    return tw_strdup("whether A repeats itself was not tried, so this need not be what the difference acts through");
}
