/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what a ledger says of a stretch of time: runs with their facts, comparisons, events. */
#include "slo_inside.h"

#include "base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run may be compared long after it was made. */
static const int64_t LOOK_BACK_NS = (int64_t)90 * 86400 * 1000000000;

static void free_run(struct slo_run *r)
{
    char *texts[] = {r->id,     r->command, r->host,        r->state, r->project,
                     r->family, r->inputs,  r->contributor, r->sweep};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        tw_free(texts[i]);
}

static void free_comparison(struct slo_comparison *c)
{
    for (size_t i = 0; c->id && i < c->count; i++)
        tw_free(c->id[i]);
    char *texts[] = {c->verb, c->command, c->outcome, c->cause, c->layer};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        tw_free(texts[i]);
    tw_free(c->id);
    tw_free(c->run);
    tw_free(c->agreed);
}

static void free_happened(struct slo_happened *e)
{
    char *texts[] = {e->kind,   e->outcome,     e->subject, e->project,
                     e->family, e->contributor, e->run};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        tw_free(texts[i]);
}

void tw_slo_history_free(struct tw_slo_history *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->runs; i++)
        free_run(&h->run[i]);
    for (size_t i = 0; i < h->comparisons; i++)
        free_comparison(&h->comparison[i]);
    for (size_t i = 0; i < h->happenings; i++)
        free_happened(&h->happened[i]);
    tw_free(h->run);
    tw_free(h->isolated);
    tw_free(h->comparison);
    tw_free(h->happened);
    tw_free(h);
}

/* The place behind the last of an array, zeroed; it counts at once, so that it is freed. NULL: no
 * memory. */
static void *next_place(void *array, size_t *count, size_t *room, size_t bytes)
{
    void *old;
    memcpy(&old, array, sizeof old);
    if (*count == *room) {
        size_t more = *room ? 2 * *room : 64;
        void *grown = tw_reallocarray(old, more, bytes);
        if (!grown)
            return NULL;
        memcpy(array, &grown, sizeof grown);
        old = grown;
        *room = more;
    }
    char *place = (char *)old + (*count)++ * bytes;
    memset(place, 0, bytes);
    return place;
}

/* A copy that is cut where nobody reads on: names of a megabyte are no names. */
enum { TEXT_BYTES = 4096 };
static char *copy(const char *s)
{
    return tw_strndup(s ? s : "", s ? strnlen(s, TEXT_BYTES) : 0);
}

/* ---- rows of the ledger */

static int add_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    static const struct twin_ledger_facts none = {
        .snapshots = -1, .deterministic = -1, .nondeterministic = -1, .loss = NAN};
    struct tw_slo_history *h = user;
    struct slo_run *x = next_place(&h->run, &h->runs, &h->run_room, sizeof *x);
    if (!x)
        return TWIN_ENOMEM;
    const struct twin_ledger_facts *k = f ? f : &none;
    *x = (struct slo_run){
        .id = copy(r->id),
        .command = copy(r->command),
        .host = copy(r->host),
        .state = copy(r->state),
        .project = copy(k->project),
        .family = copy(k->family),
        .contributor = copy(k->contributor),
        .sweep = copy(k->sweep),
        .inputs = tw_strdup(k->inputs ? k->inputs : ""), /* whole: it is compared */
        .start_ns = r->start_ns,
        .snapshots = k->snapshots,
        .deterministic = k->deterministic,
        .nondeterministic = k->nondeterministic,
        .wall_s = r->wall_s,
        .loss = k->loss,
        .steps = r->steps,
        .records = r->records,
        .recorded = true,
        .known = f != NULL,
        .ci = k->ci,
    };
    return x->id && x->command && x->host && x->state && x->project && x->family &&
                   x->contributor && x->sweep && x->inputs
               ? 0
               : TWIN_ENOMEM;
}

static int add_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct tw_slo_history *h = user;
    struct slo_comparison *x = next_place(&h->comparison, &h->comparisons, &h->comparison_room,
                                          sizeof *x);
    if (!x)
        return TWIN_ENOMEM;
    *x = (struct slo_comparison){
        .verb = copy(c->verb),
        .command = copy(c->command),
        .outcome = copy(c->outcome),
        .cause = copy(c->cause),
        .layer = copy(c->layer),
        .time_ns = c->time_ns,
        .repeats = c->repeats,
        .checkpoints = c->checkpoints,
        .id = tw_calloc(c->run_count + 1, sizeof *x->id),
        .run = tw_calloc(c->run_count + 1, sizeof *x->run),
        .agreed = tw_calloc(c->run_count + 1, sizeof *x->agreed),
        .count = c->run_count,
    };
    bool whole = x->verb && x->command && x->outcome && x->cause && x->layer && x->id && x->run &&
                 x->agreed;
    for (size_t i = 0; whole && i < c->run_count; i++) {
        x->id[i] = copy(c->run_id[i]);
        x->agreed[i] = c->agreed[i];
        whole = x->id[i] != NULL;
    }
    return whole ? 0 : TWIN_ENOMEM;
}

static int add_happened(void *user, const struct twin_ledger_event *e)
{
    struct tw_slo_history *h = user;
    struct slo_happened *x = next_place(&h->happened, &h->happenings, &h->happened_room, sizeof *x);
    if (!x)
        return TWIN_ENOMEM;
    *x = (struct slo_happened){
        .kind = copy(e->kind),
        .outcome = copy(e->outcome),
        .subject = copy(e->subject),
        .project = copy(e->project),
        .family = copy(e->family),
        .contributor = copy(e->contributor),
        .run = copy(e->run_id),
        .time_ns = e->time_ns,
    };
    return x->kind && x->outcome && x->subject && x->project && x->family && x->contributor &&
                   x->run
               ? 0
               : TWIN_ENOMEM;
}

/* ---- which runs a comparison was about */

static int by_id(const void *x, const void *y)
{
    return strcmp(((const struct slo_run *)x)->id, ((const struct slo_run *)y)->id);
}

static struct slo_run *find_run(const struct tw_slo_history *h, size_t sorted, const char *id)
{
    const struct slo_run key = {.id = (char *)(uintptr_t)id};
    return sorted ? bsearch(&key, h->run, sorted, sizeof *h->run, by_id) : NULL;
}

/* Comparisons name runs of other homes, and ones that are older than what was loaded. Each gets a
 * place, once: the additions are sorted and repetitions dropped. */
static int add_missing_runs(struct tw_slo_history *h)
{
    const size_t sorted = h->runs;
    for (size_t i = 0; i < h->comparisons; i++)
        for (size_t k = 0; k < h->comparison[i].count; k++) {
            const char *id = h->comparison[i].id[k];
            if (find_run(h, sorted, id))
                continue;
            const struct twin_ledger_run r = {.id = id};
            int rc = add_run(h, &r, NULL);
            h->run[h->runs - 1].recorded = false;
            if (rc != 0)
                return rc;
        }
    if (h->runs == sorted)
        return 0;
    qsort(h->run, h->runs, sizeof *h->run, by_id);
    size_t kept = 0;
    for (size_t i = 0; i < h->runs; i++) {
        if (kept && strcmp(h->run[kept - 1].id, h->run[i].id) == 0)
            free_run(&h->run[i]);
        else
            h->run[kept++] = h->run[i];
    }
    h->runs = kept;
    return 0;
}

static int by_time(const void *x, const void *y)
{
    const int64_t a = ((const struct slo_comparison *)x)->time_ns;
    const int64_t b = ((const struct slo_comparison *)y)->time_ns;
    return (a > b) - (a < b);
}

static int resolve_runs(struct tw_slo_history *h)
{
    if (h->runs)
        qsort(h->run, h->runs, sizeof *h->run, by_id);
    int rc = add_missing_runs(h);
    for (size_t i = 0; rc == 0 && i < h->comparisons; i++)
        for (size_t k = 0; k < h->comparison[i].count; k++)
            h->comparison[i].run[k] = (size_t)(find_run(h, h->runs, h->comparison[i].id[k]) -
                                               h->run);
    if (h->comparisons)
        qsort(h->comparison, h->comparisons, sizeof *h->comparison, by_time);
    return rc;
}

/* Remembers which comparisons name causes: each bad event asks for them. */
static int index_isolations(struct tw_slo_history *h)
{
    if (!(h->isolated = tw_calloc(h->comparisons + 1, sizeof *h->isolated)))
        return TWIN_ENOMEM;
    for (size_t i = 0; i < h->comparisons; i++) {
        const struct slo_comparison *c = &h->comparison[i];
        if (*c->cause && strcmp(c->verb, "isolate") == 0 && strcmp(c->outcome, "isolated") == 0)
            h->isolated[h->isolations++] = i;
    }
    return 0;
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
    if (index_isolations(newer) == 0)
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
    struct tw_slo_history *h = tw_calloc(1, sizeof *h);
    *out = NULL;
    if (!h)
        return tw_no_memory(err, "reading the ledger");
    const int64_t runs_since = since_ns < LOOK_BACK_NS ? 0 : since_ns - LOOK_BACK_NS;
    int rc = twin_ledger_history(l, home, runs_since, add_run, h, err);
    rc = rc ? rc : twin_ledger_comparisons_since(l, since_ns, add_comparison, h, err);
    rc = rc ? rc : twin_ledger_events(l, since_ns, add_happened, h, err);
    rc = rc ? rc : resolve_runs(h);
    rc = rc ? rc : index_isolations(h);
    if (rc == 0) {
        *out = h;
        return 0;
    }
    tw_slo_history_free(h);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "reading the ledger") : rc;
}
