/* SPDX-License-Identifier: Apache-2.0 */
/* A history for who is not of this room: its comparisons, one by one, with what is known of their
 * runs. */
#include "slo_inside.h"

#include "base.h"

/* Where the comparisons begin that were made at since_ns or later. */
static size_t first_since(const struct tw_slo_history *h, int64_t since_ns)
{
    size_t low = 0, high = h->comparisons;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const bool older = h->comparison[middle].time_ns < since_ns;
        low = older ? middle + 1 : low;
        high = older ? high : middle;
    }
    return low;
}

static size_t most_runs(const struct tw_slo_history *h, size_t from)
{
    size_t most = 0;
    for (size_t i = from; i < h->comparisons; i++)
        most = h->comparison[i].count > most ? h->comparison[i].count : most;
    return most;
}

static int show(const struct tw_slo_history *h, const struct slo_comparison *c,
                struct tw_slo_run *run, tw_slo_comparison_fn *each, void *user)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct slo_run *r = &h->run[c->run[i]];
        run[i] = (struct tw_slo_run){r->id,       r->project,  r->host,     r->home,
                                     r->start_ns, r->recorded, c->agreed[i]};
    }
    const struct tw_slo_comparison shown = {.verb = c->verb,
                                            .command = c->command,
                                            .outcome = c->outcome,
                                            .first = c->first,
                                            .cause = c->cause,
                                            .layer = c->layer,
                                            .time_ns = c->time_ns,
                                            .repeats = c->repeats,
                                            .run = run,
                                            .runs = c->count};
    return each(user, &shown);
}

int tw_slo_walk(const struct tw_slo_history *h, int64_t since_ns, tw_slo_comparison_fn *each,
                void *user)
{
    const size_t from = first_since(h, since_ns);
    struct tw_slo_run *run = tw_calloc(most_runs(h, from) + 1, sizeof *run);
    int rc = run ? 0 : TWIN_ENOMEM;
    /* they are sorted by time and id, the oldest first */
    for (size_t end = h->comparisons, begin; rc == 0 && end > from; end = begin) {
        begin = end - 1;
        while (begin > from && h->comparison[begin - 1].time_ns == h->comparison[end - 1].time_ns)
            begin--;
        for (size_t i = begin; rc == 0 && i < end; i++)
            rc = show(h, &h->comparison[i], run, each, user);
    }
    tw_free(run);
    return rc;
}
