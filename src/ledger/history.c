/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What service levels are computed from: facts of runs and events in and out of the ledger, and the
 * runs of a stretch of time with their facts.
 */
#include "src/ledger/ledger.h"

#include "db.h"

#include "base.h"

#include <math.h>

/* ---- writing */

int twin_ledger_put_facts(struct twin_ledger *l, const struct twin_ledger_facts *f,
                          struct twin_error *err)
{
    int rc = tw_ledger_begin_put(l, err);
    if (rc != 0)
        return rc;
    struct tw_ledger_texts t = {0};
    struct tw_db_value v[] = {
        TW_TEXT(tw_ledger_text(&t, f->run_id)),
        TW_INT(tw_realtime_ns()),
        TW_TEXT(tw_ledger_text(&t, f->project)),
        TW_TEXT(tw_ledger_text(&t, f->family)),
        TW_TEXT(tw_ledger_text(&t, f->contributor)),
        TW_TEXT(tw_ledger_text(&t, f->sweep)),
        TW_TEXT(tw_ledger_text(&t, f->inputs)),
        TW_INT(f->ci),
        TW_INT(f->snapshots),
        TW_INT(f->deterministic),
        TW_INT(f->nondeterministic),
        isfinite(f->loss) ? TW_REAL(f->loss) : (struct tw_db_value){.type = TW_DB_NULL},
    };
    rc = tw_ledger_insert(
        l,
        "INSERT INTO facts (run_id, recorded_ns, project, family, contributor, sweep, "
        "inputs, ci, snapshots, deterministic, nondeterministic, loss) SELECT CAST($1 AS "
        "TEXT), CAST($2 AS BIGINT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), "
        "CAST($6 AS TEXT), CAST($7 AS TEXT), CAST($8 AS BIGINT), CAST($9 AS BIGINT), "
        "CAST($10 AS BIGINT), CAST($11 AS BIGINT), CAST($12 AS DOUBLE PRECISION) WHERE NOT "
        "EXISTS (SELECT 1 FROM facts WHERE run_id = $1)",
        v, sizeof v / sizeof v[0], &t, err);
    return tw_ledger_finish_put(l, rc, err);
}

int twin_ledger_put_event(struct twin_ledger *l, const struct twin_ledger_event *e,
                          struct twin_error *err)
{
    int rc = tw_ledger_begin_put(l, err);
    if (rc != 0)
        return rc;
    struct tw_ledger_texts t = {0};
    struct tw_db_value v[] = {
        TW_TEXT(tw_ledger_text(&t, e->id)),
        TW_INT(tw_realtime_ns()),
        TW_INT(e->time_ns),
        TW_TEXT(tw_ledger_text(&t, e->kind)),
        TW_TEXT(tw_ledger_text(&t, e->outcome)),
        TW_TEXT(tw_ledger_text(&t, e->subject)),
        TW_TEXT(tw_ledger_text(&t, e->project)),
        TW_TEXT(tw_ledger_text(&t, e->family)),
        TW_TEXT(tw_ledger_text(&t, e->contributor)),
        TW_TEXT(tw_ledger_text(&t, e->run_id)),
    };
    rc = tw_ledger_insert(
        l,
        "INSERT INTO events (id, recorded_ns, time_ns, kind, outcome, subject, project, "
        "family, contributor, run_id) SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT), "
        "CAST($3 AS BIGINT), CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), "
        "CAST($7 AS TEXT), CAST($8 AS TEXT), CAST($9 AS TEXT), CAST($10 AS TEXT) WHERE "
        "NOT EXISTS (SELECT 1 FROM events WHERE id = $1)",
        v, sizeof v / sizeof v[0], &t, err);
    return tw_ledger_finish_put(l, rc, err);
}

/* ---- reading */

/* Whom rows are handed to: one of the functions. */
struct history_walk {
    twin_ledger_history_fn *run;
    twin_ledger_event_fn *event;
    void *user;
};

/* The columns of facts, behind those of a run. */
enum fact_column {
    FACTS_OF = TW_LEDGER_COLUMN_COUNT, /* NULL: the run has none */
    PROJECT,
    FAMILY,
    CONTRIBUTOR,
    SWEEP,
    INPUTS,
    CI,
    SNAPSHOTS,
    DETERMINISTIC,
    NONDETERMINISTIC,
    LOSS,
    HISTORY_COLUMNS
};

static double real_of(const struct tw_db_value *v)
{
    if (v->type == TW_DB_NULL)
        return NAN;
    return v->type == TW_DB_INT ? (double)v->i : v->d;
}

bool tw_ledger_facts_of(const struct tw_db_value *v, struct twin_ledger_facts *out)
{
    _Static_assert(HISTORY_COLUMNS == TW_LEDGER_COLUMN_COUNT + TW_LEDGER_FACT_COUNT, "as named");
    *out = (struct twin_ledger_facts){
        .run_id = v[FACTS_OF].s,
        .project = v[PROJECT].s,
        .family = v[FAMILY].s,
        .contributor = v[CONTRIBUTOR].s,
        .sweep = v[SWEEP].s,
        .inputs = v[INPUTS].s,
        .ci = v[CI].i != 0,
        .snapshots = v[SNAPSHOTS].i,
        .deterministic = v[DETERMINISTIC].i,
        .nondeterministic = v[NONDETERMINISTIC].i,
        .loss = real_of(&v[LOSS]),
    };
    return v[FACTS_OF].type != TW_DB_NULL;
}

static int history_row(void *user, const struct tw_db_value *v, size_t n)
{
    const struct history_walk *w = user;
    if (n < HISTORY_COLUMNS)
        return TWIN_EFORMAT;
    const struct twin_ledger_run r = tw_ledger_run_of(v);
    struct twin_ledger_facts f;
    const bool has = tw_ledger_facts_of(v, &f);
    return w->run(w->user, &r, has ? &f : NULL);
}

int twin_ledger_history(struct twin_ledger *l, const char *home, int64_t since_ns,
                        twin_ledger_history_fn *each, void *user, struct twin_error *err)
{
    struct history_walk w = {.run = each, .user = user};
    struct tw_db *db = tw_ledger_db(l);
    struct tw_db_value v[] = {TW_INT(since_ns), TW_TEXT(home ? home : "*")};
    return db->ops->run(
        db,
        "SELECT " TW_LEDGER_COLUMNS ", f.run_id, " TW_LEDGER_FACTS
        " FROM (SELECT " TW_LEDGER_COLUMNS
        " FROM runs_now WHERE start_ns >= CAST($1 AS BIGINT) AND (CAST($2 AS TEXT) = '*' OR home = "
        "$2)) r LEFT JOIN (SELECT run_id, " TW_LEDGER_FACTS " FROM facts) f ON f.run_id = r.id",
        v, 2, history_row, &w, err);
}

struct twin_ledger_event tw_ledger_event_of(const struct tw_db_value *v)
{
    return (struct twin_ledger_event){.id = v[0].s,
                                      .time_ns = v[1].i,
                                      .kind = v[2].s,
                                      .outcome = v[3].s,
                                      .subject = v[4].s,
                                      .project = v[5].s,
                                      .family = v[6].s,
                                      .contributor = v[7].s,
                                      .run_id = v[8].s,
                                      .recorded_ns = v[9].i};
}

static int event_row(void *user, const struct tw_db_value *v, size_t n)
{
    const struct history_walk *w = user;
    if (n < TW_LEDGER_EVENT_COUNT)
        return TWIN_EFORMAT;
    const struct twin_ledger_event e = tw_ledger_event_of(v);
    return w->event(w->user, &e);
}

int twin_ledger_events(struct twin_ledger *l, int64_t since_ns, twin_ledger_event_fn *each,
                       void *user, struct twin_error *err)
{
    struct history_walk w = {.event = each, .user = user};
    struct tw_db *db = tw_ledger_db(l);
    return db->ops->run(db,
                        "SELECT " TW_LEDGER_EVENT
                        " FROM events WHERE time_ns >= CAST($1 AS BIGINT) ORDER BY time_ns, id",
                        &TW_INT(since_ns), 1, event_row, &w, err);
}
