/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A history that is kept. Records are only ever added to a ledger, so each look reads what was
 * written down since the last one, and a little before: clocks of writers differ, and a transaction
 * is seen when it ends. Whether that was all, a tally of the whole ledger says, which is taken at
 * each look: where it is not what we hold, more is read, and at last everything. So rows that were
 * deleted, a clock that is days behind, and whatever else is unlikely cost time and are no error.
 */
#include "slo_inside.h"

#include "base.h"

#include <string.h>

static const int64_t SECOND_NS = 1000000000;
/* How far back is read, the second where the first was not enough. */
static const int64_t OVERLAP_S[] = {60, 3600};
/* After so long all is read again: what somebody changed in place, no tally says. */
enum { ANEW_S = 6 * 3600 };

struct tw_slo_kept {
    struct tw_slo_history *history; /* NULL: none */
    struct twin_ledger_tally held;  /* of it */
    int64_t looked_ns, loaded_ns;
    char **stray; /* ids of runs that have facts and no record: their facts are counted */
    size_t strays, stray_room;
};

/* ---- facts that came before their run */

static void forget_strays(struct tw_slo_kept *k)
{
    for (size_t i = 0; i < k->strays; i++)
        tw_free(k->stray[i]);
    tw_free(k->stray);
    k->stray = NULL;
    k->strays = k->stray_room = 0;
}

/* Among the first n, which are those that were there before this look: they are few. */
static bool is_stray(const struct tw_slo_kept *k, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(k->stray[i], id) == 0)
            return true;
    return false;
}

static int add_stray(struct tw_slo_kept *k, const char *id)
{
    if (k->strays == k->stray_room) {
        const size_t room = k->stray_room ? 2 * k->stray_room : 16;
        char **grown = tw_reallocarray(k->stray, room, sizeof *grown);
        if (!grown)
            return TWIN_ENOMEM;
        k->stray = grown;
        k->stray_room = room;
    }
    if (!(k->stray[k->strays] = tw_strdup(id)))
        return TWIN_ENOMEM;
    k->strays++;
    return 0;
}

/* Of runs that are recorded by now their facts were read with them. */
static void drop_strays(struct tw_slo_kept *k)
{
    size_t kept = 0;
    for (size_t i = 0; i < k->strays; i++) {
        const struct slo_run *r = slo_find_run(k->history, k->stray[i]);
        if (r && r->recorded)
            tw_free(k->stray[i]);
        else
            k->stray[kept++] = k->stray[i];
    }
    k->strays = kept;
}

/* ---- what is new */

struct looking {
    struct tw_slo_kept *k;
    struct slo_adding adding;
    struct twin_ledger_tally held; /* with what is new */
    size_t strays;                 /* that were there before */
};

static void count(struct looking *g, enum twin_ledger_kind kind, int64_t recorded_ns)
{
    g->held.count[kind]++;
    g->held.times[kind] += twin_ledger_remainder(recorded_ns);
}

/* Facts come first, so that those of a run that is new are not taken for known ones. */
static int see_facts(void *user, const struct twin_ledger_facts *f)
{
    struct looking *g = user;
    struct slo_run *r = slo_find_run(g->k->history, f->run_id);
    if (r && r->recorded) {
        if (r->known)
            return 0;
        count(g, TWIN_LEDGER_FACTS, f->recorded_ns);
        return slo_set_facts(g->k->history, r, f);
    }
    if (is_stray(g->k, g->strays, f->run_id))
        return 0;
    count(g, TWIN_LEDGER_FACTS, f->recorded_ns);
    return add_stray(g->k, f->run_id);
}

static int see_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    struct looking *g = user;
    const struct slo_run *old = slo_find_run(g->k->history, r->id);
    if (old && old->recorded && r->version <= old->version)
        return 0;
    count(g, TWIN_LEDGER_RUNS, r->recorded_ns);
    return slo_add_run(g->k->history, &g->adding, r, f);
}

static int see_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct looking *g = user;
    if (slo_has_comparison(g->k->history, c->time_ns, c->id))
        return 0;
    count(g, TWIN_LEDGER_COMPARISONS, c->recorded_ns);
    g->held.compared += (int64_t)c->run_count;
    return slo_add_comparison(g->k->history, &g->adding, c);
}

static int see_event(void *user, const struct twin_ledger_event *e)
{
    struct looking *g = user;
    if (slo_has_happened(g->k->history, e->time_ns, e->id))
        return 0;
    count(g, TWIN_LEDGER_EVENTS, e->recorded_ns);
    return slo_add_happened(g->k->history, &g->adding, e);
}

static bool same_tally(const struct twin_ledger_tally *a, const struct twin_ledger_tally *b)
{
    return memcmp(a->count, b->count, sizeof a->count) == 0 &&
           memcmp(a->times, b->times, sizeof a->times) == 0 && a->compared == b->compared;
}

/* Where to read from: the last look, or the newest record of then, whichever is earlier. */
static int64_t since(const struct tw_slo_kept *k, int64_t overlap_s)
{
    const int64_t seen = k->held.newest_ns < k->looked_ns ? k->held.newest_ns : k->looked_ns;
    return seen < INT64_MIN + overlap_s * SECOND_NS ? INT64_MIN : seen - overlap_s * SECOND_NS;
}

/* Reads what is new. *whole: that was all. Each kind settles before the next one is read, which
 * looks for it. */
static int read_new(struct tw_slo_kept *k, struct twin_ledger *l, int64_t from_ns,
                    const struct twin_ledger_tally *now, bool *whole, struct twin_error *err)
{
    static const struct twin_ledger_recorder runs = {.run = see_run, .facts = see_facts};
    static const struct twin_ledger_recorder rest = {.comparison = see_comparison,
                                                     .event = see_event};
    struct looking g = {.k = k, .held = k->held, .strays = k->strays};
    int rc = twin_ledger_recorded(l, from_ns, &runs, &g, err);
    rc = rc ? rc : slo_settle(k->history, &g.adding);
    rc = rc ? rc : twin_ledger_recorded(l, from_ns, &rest, &g, err);
    rc = rc ? rc : slo_settle(k->history, &g.adding);
    slo_adding_free(&g.adding);
    *whole = rc == 0 && same_tally(&g.held, now);
    const int64_t newest_ns = k->held.newest_ns; /* of the last look, until all is read */
    k->held = g.held;
    k->held.newest_ns = *whole ? now->newest_ns : newest_ns;
    if (rc == 0)
        drop_strays(k);
    return rc;
}

static int load_stray(void *user, const struct twin_ledger_facts *f)
{
    struct tw_slo_kept *k = user;
    const struct slo_run *r = slo_find_run(k->history, f->run_id);
    return r && r->recorded ? 0 : add_stray(k, f->run_id);
}

/* Reads everything. Only those strays have to be known that will be read again. */
static int load(struct tw_slo_kept *k, struct twin_ledger *l, int64_t now_ns,
                const struct twin_ledger_tally *now, struct twin_error *err)
{
    static const struct twin_ledger_recorder facts = {.facts = load_stray};
    tw_slo_kept_forget(k);
    int rc = tw_slo_history_load(l, NULL, INT64_MIN, &k->history, err);
    if (rc != 0)
        return rc;
    k->held = *now;
    k->looked_ns = k->loaded_ns = now_ns;
    const int64_t from_ns = since(k, OVERLAP_S[sizeof OVERLAP_S / sizeof *OVERLAP_S - 1]);
    return twin_ledger_recorded(l, from_ns, &facts, k, err);
}

/* ---- one look */

static int catch_up(struct tw_slo_kept *k, struct twin_ledger *l,
                    const struct twin_ledger_tally *now, bool *whole, struct twin_error *err)
{
    int rc = 0;
    *whole = false;
    for (size_t i = 0; rc == 0 && !*whole && i < sizeof OVERLAP_S / sizeof *OVERLAP_S; i++)
        rc = read_new(k, l, since(k, OVERLAP_S[i]), now, whole, err);
    return rc;
}

static int look(struct tw_slo_kept *k, struct twin_ledger *l, int64_t now_ns,
                enum tw_slo_look *what, struct twin_error *err)
{
    struct twin_ledger_tally now;
    bool whole = false;
    int rc = twin_ledger_tally(l, &now, err);
    if (rc != 0)
        return rc;
    const int64_t age_ns = now_ns - k->loaded_ns;
    if (k->history && age_ns >= 0 && age_ns < ANEW_S * SECOND_NS) {
        *what = same_tally(&k->held, &now) ? TW_SLO_LOOK_SAME : TW_SLO_LOOK_ADDED;
        whole = *what == TW_SLO_LOOK_SAME;
        rc = whole ? 0 : catch_up(k, l, &now, &whole, err);
    }
    if (rc == 0 && !whole) {
        *what = TW_SLO_LOOK_LOADED;
        rc = load(k, l, now_ns, &now, err);
    }
    k->looked_ns = now_ns;
    return rc;
}

int tw_slo_kept_look(struct tw_slo_kept *k, struct twin_ledger *l, int64_t now_ns,
                     const struct tw_slo_history **out, enum tw_slo_look *what,
                     struct twin_error *err)
{
    *out = NULL;
    int rc = twin_ledger_begin_to_read(l, err);
    if (rc == 0) {
        rc = look(k, l, now_ns, what, err);
        const int ended = twin_ledger_end(l, rc == 0, err);
        rc = rc ? rc : ended;
    }
    if (rc == 0)
        *out = k->history;
    else
        tw_slo_kept_forget(k);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "reading the ledger") : rc;
}

struct tw_slo_kept *tw_slo_kept_new(void)
{
    return tw_calloc(1, sizeof(struct tw_slo_kept));
}

void tw_slo_kept_forget(struct tw_slo_kept *k)
{
    tw_slo_history_free(k->history);
    forget_strays(k);
    *k = (struct tw_slo_kept){.history = NULL};
}

void tw_slo_kept_free(struct tw_slo_kept *k)
{
    if (k)
        tw_slo_kept_forget(k);
    tw_free(k);
}
