/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what a ledger says of a stretch of time: runs with their facts, comparisons, events. */
#include "slo_inside.h"

#include "base.h"

#include <string.h>

/* A run may be compared long after it was made. */
static const int64_t LOOK_BACK_NS = (int64_t)90 * 86400 * 1000000000;

void tw_slo_history_free(struct tw_slo_history *h)
{
    if (!h)
        return;
    slo_store_free(&h->store);
    tw_free(h->run);
    tw_free(h->isolated);
    tw_free(h->comparison);
    tw_free(h->happened);
    tw_free(h);
}

/* ---- rows of the ledger */

struct loading {
    struct tw_slo_history *h;
    struct slo_adding adding;
};

static int load_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    struct loading *g = user;
    return slo_add_run(g->h, &g->adding, r, f);
}

static int load_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct loading *g = user;
    return slo_add_comparison(g->h, &g->adding, c);
}

static int load_happened(void *user, const struct twin_ledger_event *e)
{
    struct loading *g = user;
    return slo_add_happened(g->h, &g->adding, e);
}

struct tw_slo_history *tw_slo_history_newer(const struct tw_slo_history *h, int64_t since_ns)
{
    struct tw_slo_history *newer = tw_calloc(1, sizeof *newer);
    size_t old = 0, gone = 0;
    if (!newer)
        return NULL;
    /* both are sorted by time */
    while (old < h->comparisons && h->comparison[old].time_ns < since_ns)
        old++;
    while (gone < h->happenings && h->happened[gone].time_ns < since_ns)
        gone++;
    *newer = *h;
    newer->comparison = h->comparison ? h->comparison + old : NULL;
    newer->comparisons -= old;
    newer->happened = h->happened ? h->happened + gone : NULL;
    newer->happenings -= gone;
    newer->isolated = NULL;
    newer->isolations = 0;
    if (slo_index_isolations(newer) == 0)
        return newer;
    tw_free(newer);
    return NULL;
}

void tw_slo_history_newer_free(struct tw_slo_history *h)
{
    if (h)
        tw_free(h->isolated);
    tw_free(h);
}

int tw_slo_history_load(struct twin_ledger *l, const char *home, int64_t since_ns,
                        struct tw_slo_history **out, struct twin_error *err)
{
    struct loading g = {.h = tw_calloc(1, sizeof *g.h)};
    *out = NULL;
    if (!g.h)
        return tw_no_memory(err, "reading the ledger");
    const int64_t runs_since = since_ns < INT64_MIN + LOOK_BACK_NS ? INT64_MIN
                                                                   : since_ns - LOOK_BACK_NS;
    int rc = twin_ledger_history(l, home, runs_since, load_run, &g, err);
    rc = rc ? rc : slo_settle(g.h, &g.adding); /* comparisons look for their runs */
    rc = rc ? rc : twin_ledger_comparisons_since(l, since_ns, load_comparison, &g, err);
    rc = rc ? rc : twin_ledger_events(l, since_ns, load_happened, &g, err);
    rc = rc ? rc : slo_settle(g.h, &g.adding);
    slo_adding_free(&g.adding);
    if (rc == 0) {
        *out = g.h;
        return 0;
    }
    tw_slo_history_free(g.h);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "reading the ledger") : rc;
}
