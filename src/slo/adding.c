/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records on their way into a history: they come in any order and are put where they belong, all at
 * once. A whole ledger is put into an empty history by this, and what is new into one that is
 * there, so both are the same history.
 */
#include "slo_inside.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text is cut where nobody reads on: names of a megabyte are no names. */
enum { TEXT_BYTES = 4096, DIGEST_BYTES = 33 };

/* The place behind the last of an array, zeroed; it counts at once. NULL: no memory. */
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

/* What was cut ends in a digest of the whole, so two commands that begin alike stay two. */
static const char *cut(struct tw_slo_history *h, const char *s)
{
    char part[TEXT_BYTES + 1];
    const struct tw_hash128 d = tw_hash_bytes(s, strlen(s), 0);
    memcpy(part, s, TEXT_BYTES - DIGEST_BYTES);
    snprintf(part + TEXT_BYTES - DIGEST_BYTES, DIGEST_BYTES + 1, "~%016llx%016llx",
             (unsigned long long)d.a, (unsigned long long)d.b);
    return slo_store_text(&h->store, part, TEXT_BYTES, true);
}

static const char *text(struct tw_slo_history *h, const char *s)
{
    return s && strnlen(s, TEXT_BYTES + 1) > TEXT_BYTES
               ? cut(h, s)
               : slo_store_text(&h->store, s, TEXT_BYTES, true);
}

static const char *id_of(struct tw_slo_history *h, const char *s)
{
    return slo_store_text(&h->store, s, TEXT_BYTES, false);
}

/* ---- orders */

static int run_order(const void *x, const void *y)
{
    return strcmp(((const struct slo_run *)x)->id, ((const struct slo_run *)y)->id);
}

static int order(int64_t a_ns, const char *a, int64_t b_ns, const char *b)
{
    return a_ns != b_ns ? (a_ns > b_ns) - (a_ns < b_ns) : strcmp(a, b);
}

static int comparison_order(const void *x, const void *y)
{
    const struct slo_comparison *a = x, *b = y;
    return order(a->time_ns, a->id, b->time_ns, b->id);
}

static int happened_order(const void *x, const void *y)
{
    const struct slo_happened *a = x, *b = y;
    return order(a->time_ns, a->id, b->time_ns, b->id);
}

struct slo_run *slo_find_run(const struct tw_slo_history *h, const char *id)
{
    const struct slo_run key = {.id = id};
    return h->runs ? bsearch(&key, h->run, h->runs, sizeof *h->run, run_order) : NULL;
}

bool slo_has_comparison(const struct tw_slo_history *h, int64_t time_ns, const char *id)
{
    const struct slo_comparison key = {.id = id, .time_ns = time_ns};
    return h->comparisons &&
           bsearch(&key, h->comparison, h->comparisons, sizeof key, comparison_order);
}

bool slo_has_happened(const struct tw_slo_history *h, int64_t time_ns, const char *id)
{
    const struct slo_happened key = {.id = id, .time_ns = time_ns};
    return h->happenings && bsearch(&key, h->happened, h->happenings, sizeof key, happened_order);
}

/* ---- one record */

int slo_set_facts(struct tw_slo_history *h, struct slo_run *r, const struct twin_ledger_facts *f)
{
    static const struct twin_ledger_facts none = {
        .snapshots = -1, .deterministic = -1, .nondeterministic = -1, .loss = NAN};
    const struct twin_ledger_facts *k = f ? f : &none;
    r->project = text(h, k->project);
    r->family = text(h, k->family);
    r->contributor = text(h, k->contributor);
    r->sweep = text(h, k->sweep);
    r->inputs = slo_store_text(&h->store, k->inputs, SIZE_MAX, true); /* whole: it is compared */
    r->snapshots = k->snapshots;
    r->deterministic = k->deterministic;
    r->nondeterministic = k->nondeterministic;
    r->loss = k->loss;
    r->known = f != NULL;
    r->ci = k->ci;
    return r->project && r->family && r->contributor && r->sweep && r->inputs ? 0 : TWIN_ENOMEM;
}

static struct slo_run *add_run(struct tw_slo_history *h, struct slo_adding *a,
                               const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    struct slo_run *x = next_place(&a->run, &a->runs, &a->run_room, sizeof *x);
    if (!x || h->runs + a->runs > UINT32_MAX)
        return NULL;
    *x = (struct slo_run){
        .id = id_of(h, r->id),
        .command = text(h, r->command),
        .host = text(h, r->host),
        .home = text(h, r->home),
        .state = text(h, r->state),
        .start_ns = r->start_ns,
        .version = r->version,
        .wall_s = r->wall_s,
        .steps = r->steps,
        .records = r->records,
    };
    const bool whole = x->id && x->command && x->host && x->home && x->state;
    return slo_set_facts(h, x, f) == 0 && whole ? x : NULL;
}

int slo_add_run(struct tw_slo_history *h, struct slo_adding *a, const struct twin_ledger_run *r,
                const struct twin_ledger_facts *f)
{
    struct slo_run *x = add_run(h, a, r, f);
    if (!x)
        return TWIN_ENOMEM;
    x->recorded = true;
    return 0;
}

/* Comparisons name runs of other homes, and ones that are older than what was loaded. */
static int find_or_add(struct tw_slo_history *h, struct slo_adding *a, const char *id,
                       uint32_t *out)
{
    const struct slo_run *r = slo_find_run(h, id);
    if (r) {
        *out = (uint32_t)(r - h->run);
        return 0;
    }
    const struct twin_ledger_run named = {.id = id};
    if (!add_run(h, a, &named, NULL))
        return TWIN_ENOMEM;
    *out = (uint32_t)(h->runs + a->runs - 1);
    return 0;
}

int slo_add_comparison(struct tw_slo_history *h, struct slo_adding *a,
                       const struct twin_ledger_comparison *c)
{
    struct slo_comparison *x = next_place(&a->comparison, &a->comparisons, &a->comparison_room,
                                          sizeof *x);
    if (!x)
        return TWIN_ENOMEM;
    *x = (struct slo_comparison){
        .id = id_of(h, c->id),
        .verb = text(h, c->verb),
        .command = text(h, c->command),
        .outcome = text(h, c->outcome),
        .first = text(h, c->first),
        .cause = text(h, c->cause),
        .layer = text(h, c->layer),
        .time_ns = c->time_ns,
        .repeats = c->repeats,
        .checkpoints = c->checkpoints,
        .run = slo_store_bytes(&h->store, c->run_count * sizeof *x->run),
        .agreed = slo_store_bytes(&h->store, c->run_count * sizeof *x->agreed),
        .count = c->run_count,
    };
    if (!x->id || !x->verb || !x->command || !x->outcome || !x->first || !x->cause || !x->layer ||
        !x->run || !x->agreed)
        return TWIN_ENOMEM;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->run_count; i++) {
        x->agreed[i] = c->agreed[i];
        rc = find_or_add(h, a, c->run_id[i], &x->run[i]);
    }
    return rc;
}

int slo_add_happened(struct tw_slo_history *h, struct slo_adding *a,
                     const struct twin_ledger_event *e)
{
    struct slo_happened *x = next_place(&a->happened, &a->happenings, &a->happened_room, sizeof *x);
    if (!x)
        return TWIN_ENOMEM;
    *x = (struct slo_happened){
        .id = id_of(h, e->id),
        .kind = text(h, e->kind),
        .outcome = text(h, e->outcome),
        .subject = text(h, e->subject),
        .project = text(h, e->project),
        .family = text(h, e->family),
        .contributor = text(h, e->contributor),
        .run = text(h, e->run_id),
        .time_ns = e->time_ns,
    };
    return x->id && x->kind && x->outcome && x->subject && x->project && x->family &&
                   x->contributor && x->run
               ? 0
               : TWIN_ENOMEM;
}

/* ---- all of them */

/* Room for n more in an array that grows a little at a time: it is large, and lives long. */
static bool make_room(void *array, size_t count, size_t *room, size_t n, size_t bytes)
{
    void *old;
    memcpy(&old, array, sizeof old);
    if (n <= *room - count)
        return true;
    const size_t more = count + n + (count + n) / 16;
    void *grown = tw_reallocarray(old, more, bytes);
    if (!grown)
        return false;
    memcpy(array, &grown, sizeof grown);
    *room = more;
    return true;
}

/* Merges m sorted elements into n sorted ones, in place, from the back: what is new is mostly the
 * newest, and then nothing moves. */
static bool merge(void *array, size_t *count, size_t *room, const void *added, size_t m,
                  size_t bytes, int (*compare)(const void *, const void *))
{
    if (!make_room(array, *count, room, m, bytes))
        return false;
    char *to;
    memcpy(&to, array, sizeof to);
    const char *from = added;
    size_t i = *count, k = m;
    *count += m;
    while (k > 0) {
        const bool old = i > 0 && compare(to + (i - 1) * bytes, from + (k - 1) * bytes) > 0;
        const char *x = old ? to + --i * bytes : from + --k * bytes;
        memcpy(to + (i + k) * bytes, x, bytes);
    }
    return true;
}

/* A run on its way, and where it came. */
struct arrival {
    const struct slo_run *run;
    uint32_t place;
};

/* Of one run the version that stays comes first. */
static int arrival_order(const void *x, const void *y)
{
    const struct slo_run *a = ((const struct arrival *)x)->run;
    const struct slo_run *b = ((const struct arrival *)y)->run;
    const int by_id = strcmp(a->id, b->id);
    if (by_id || a->recorded != b->recorded)
        return by_id ? by_id : b->recorded - a->recorded;
    return (a->version < b->version) - (a->version > b->version);
}

/* Is x to be shown in place of old? */
static bool replaces(const struct slo_run *x, const struct slo_run *old)
{
    return x->recorded && (!old->recorded || x->version > old->version);
}

/* Fills `fresh` with those that h has not, sorted, and replaces those that it has. Returns how
 * many. */
static size_t sort_arrivals(struct tw_slo_history *h, const struct slo_adding *a,
                            struct arrival *arrival, struct slo_run *fresh)
{
    size_t n = 0;
    for (size_t i = 0; i < a->runs; i++)
        arrival[i] = (struct arrival){&a->run[i], 0};
    qsort(arrival, a->runs, sizeof *arrival, arrival_order);
    for (size_t i = 0; i < a->runs; i++) {
        const struct slo_run *x = arrival[i].run;
        if (i && strcmp(arrival[i - 1].run->id, x->id) == 0)
            continue;
        struct slo_run *old = slo_find_run(h, x->id);
        if (!old)
            fresh[n++] = *x;
        else if (replaces(x, old))
            *old = *x;
    }
    return n;
}

/* Comparisons that name runs by their old index get the new one. */
static void renumber(struct slo_comparison *c, size_t n, const uint32_t *now)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < c[i].count; k++)
            c[i].run[k] = now[c[i].run[k]];
}

static int version_order(const void *x, const void *y)
{
    return arrival_order(&(struct arrival){.run = x}, &(struct arrival){.run = y});
}

/* The first runs of a history: their array becomes its own, since a second one of a million is
 * much. */
static int take_runs(struct tw_slo_history *h, struct slo_adding *a)
{
    size_t kept = 0;
    qsort(a->run, a->runs, sizeof *a->run, version_order);
    for (size_t i = 0; i < a->runs; i++)
        if (!kept || strcmp(a->run[kept - 1].id, a->run[i].id) != 0)
            a->run[kept++] = a->run[i];
    h->run = a->run;
    h->runs = kept;
    h->run_room = a->run_room;
    a->run = NULL;
    a->runs = a->run_room = 0;
    return 0;
}

static int settle_runs(struct tw_slo_history *h, struct slo_adding *a)
{
    const size_t before = h->runs;
    if (a->runs == 0)
        return 0;
    if (before == 0 && a->comparisons == 0)
        return take_runs(h, a);
    struct arrival *arrival = tw_calloc(a->runs, sizeof *arrival);
    struct slo_run *fresh = tw_calloc(a->runs, sizeof *fresh);
    uint32_t *now = tw_calloc(before + a->runs, sizeof *now);
    bool ok = arrival && fresh && now;
    const size_t n = ok ? sort_arrivals(h, a, arrival, fresh) : 0;
    /* where each old one goes to: behind as many new ones as are in front of it */
    for (size_t i = 0, k = 0; ok && i < before; i++) {
        while (k < n && strcmp(fresh[k].id, h->run[i].id) < 0)
            k++;
        now[i] = (uint32_t)(i + k);
    }
    ok = ok && merge(&h->run, &h->runs, &h->run_room, fresh, n, sizeof *fresh, run_order);
    for (size_t i = 0; ok && a->comparisons && i < a->runs; i++)
        now[before + i] = (uint32_t)(slo_find_run(h, a->run[i].id) - h->run);
    if (ok && n)
        renumber(h->comparison, h->comparisons, now);
    if (ok)
        renumber(a->comparison, a->comparisons, now);
    tw_free(now);
    tw_free(fresh);
    tw_free(arrival);
    return ok ? 0 : TWIN_ENOMEM;
}

int slo_index_isolations(struct tw_slo_history *h)
{
    tw_free(h->isolated);
    h->isolations = 0;
    if (!(h->isolated = tw_calloc(h->comparisons + 1, sizeof *h->isolated)))
        return TWIN_ENOMEM;
    for (size_t i = 0; i < h->comparisons; i++) {
        const struct slo_comparison *c = &h->comparison[i];
        if (*c->cause && strcmp(c->verb, "isolate") == 0 && tw_ledger_is_isolated(c->outcome))
            h->isolated[h->isolations++] = i;
    }
    return 0;
}

int slo_settle(struct tw_slo_history *h, struct slo_adding *a)
{
    int rc = settle_runs(h, a);
    if (a->comparisons)
        qsort(a->comparison, a->comparisons, sizeof *a->comparison, comparison_order);
    if (a->happenings)
        qsort(a->happened, a->happenings, sizeof *a->happened, happened_order);
    if (rc == 0 && (!merge(&h->comparison, &h->comparisons, &h->comparison_room, a->comparison,
                           a->comparisons, sizeof *a->comparison, comparison_order) ||
                    !merge(&h->happened, &h->happenings, &h->happened_room, a->happened,
                           a->happenings, sizeof *a->happened, happened_order)))
        rc = TWIN_ENOMEM;
    rc = rc ? rc : slo_index_isolations(h);
    slo_adding_free(a);
    return rc;
}

void slo_adding_free(struct slo_adding *a)
{
    tw_free(a->run);
    tw_free(a->comparison);
    tw_free(a->happened);
    *a = (struct slo_adding){.runs = 0};
}
