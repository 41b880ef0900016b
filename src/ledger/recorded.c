/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For who holds all that a ledger says: what was written down since, and a tally by which it knows
 * whether that was all. Times are those of the writers' clocks, so "since" alone may miss a row;
 * the tally says so then.
 */
#include "src/ledger/ledger.h"

#include "db.h"

#include "base.h"

/* Sums of whole times would not fit into 64 bits. A prime. In the statement, too. */
enum { MODULUS = 1000003 };

int64_t twin_ledger_remainder(int64_t recorded_ns)
{
    return recorded_ns % MODULUS;
}

/* A row is: which kind, how many, the sum of remainders, the newest time. */
static int take_tally(void *user, const struct tw_db_value *v, size_t n)
{
    struct twin_ledger_tally *t = user;
    if (n < 4 || v[0].i < 0 || v[0].i > TWIN_LEDGER_KINDS)
        return TWIN_EFORMAT;
    if (v[0].i == TWIN_LEDGER_KINDS) {
        t->compared = v[1].i;
        return 0;
    }
    t->count[v[0].i] = v[1].i;
    t->times[v[0].i] = v[2].i;
    if (v[3].type != TW_DB_NULL && v[3].i > t->newest_ns)
        t->newest_ns = v[3].i;
    return 0;
}

#define OF(kind, table)                                                                    \
    "SELECT " kind ", COUNT(*), CAST(COALESCE(SUM(recorded_ns % 1000003), 0) AS BIGINT), " \
    "MAX(recorded_ns) FROM " table " UNION ALL "

int twin_ledger_tally(struct twin_ledger *l, struct twin_ledger_tally *out, struct twin_error *err)
{
    struct tw_db *db = tw_ledger_db(l);
    _Static_assert(MODULUS == 1000003, "as the statement says");
    *out = (struct twin_ledger_tally){.newest_ns = INT64_MIN};
    return db->ops->run(db,
                        OF("0", "runs") OF("1", "facts") OF("2", "comparisons")
                            OF("3", "events") "SELECT 4, COUNT(*), 0, NULL FROM compared",
                        NULL, 0, take_tally, out, err);
}

struct recorded_walk {
    const struct twin_ledger_recorder *to;
    void *user;
};

static int run_row(void *user, const struct tw_db_value *v, size_t n)
{
    const struct recorded_walk *w = user;
    if (n < TW_LEDGER_COLUMN_COUNT + TW_LEDGER_FACT_COUNT)
        return TWIN_EFORMAT;
    const struct twin_ledger_run r = tw_ledger_run_of(v);
    struct twin_ledger_facts f;
    const bool has = tw_ledger_facts_of(v, &f);
    return w->to->run(w->user, &r, has ? &f : NULL);
}

/* The columns are those of facts behind those of a run, of which only the first is there: when it
 * was recorded. */
static int facts_row(void *user, const struct tw_db_value *v, size_t n)
{
    const struct recorded_walk *w = user;
    struct tw_db_value whole[TW_LEDGER_COLUMN_COUNT + TW_LEDGER_FACT_COUNT] = {{0}};
    struct twin_ledger_facts f;
    if (n < 1 + TW_LEDGER_FACT_COUNT)
        return TWIN_EFORMAT;
    for (size_t i = 0; i < TW_LEDGER_FACT_COUNT; i++)
        whole[TW_LEDGER_COLUMN_COUNT + i] = v[1 + i];
    if (!tw_ledger_facts_of(whole, &f))
        return TWIN_EFORMAT;
    f.recorded_ns = v[0].i;
    return w->to->facts(w->user, &f);
}

static int event_row(void *user, const struct tw_db_value *v, size_t n)
{
    const struct recorded_walk *w = user;
    if (n < TW_LEDGER_EVENT_COUNT)
        return TWIN_EFORMAT;
    const struct twin_ledger_event e = tw_ledger_event_of(v);
    return w->to->event(w->user, &e);
}

int twin_ledger_recorded(struct twin_ledger *l, int64_t recorded_ns,
                         const struct twin_ledger_recorder *r, void *user, struct twin_error *err)
{
    struct recorded_walk w = {r, user};
    struct tw_db *db = tw_ledger_db(l);
    const struct tw_db_value since = TW_INT(recorded_ns);
    int rc = 0;
    if (r->facts)
        rc = db->ops->run(db,
                          "SELECT recorded_ns, run_id, " TW_LEDGER_FACTS
                          " FROM facts WHERE recorded_ns >= CAST($1 AS BIGINT)",
                          &since, 1, facts_row, &w, err);
    if (rc == 0 && r->run)
        rc = db->ops->run(db,
                          "SELECT " TW_LEDGER_COLUMNS ", f.run_id, " TW_LEDGER_FACTS
                          " FROM (SELECT " TW_LEDGER_COLUMNS
                          " FROM runs WHERE recorded_ns >= CAST($1 AS BIGINT)) r LEFT JOIN (SELECT "
                          "run_id, " TW_LEDGER_FACTS " FROM facts) f ON f.run_id = r.id",
                          &since, 1, run_row, &w, err);
    if (rc == 0 && r->comparison)
        rc = tw_ledger_walk_compared(l,
                                     "SELECT " TW_LEDGER_COMPARED
                                     " FROM comparisons x LEFT JOIN compared c ON c.comparison_id "
                                     "= x.id WHERE x.recorded_ns >= CAST($1 AS BIGINT) ORDER BY "
                                     "x.time_ns, x.id, c.place",
                                     &since, 1, r->comparison, user, err);
    if (rc == 0 && r->event)
        rc = db->ops->run(
            db, "SELECT " TW_LEDGER_EVENT " FROM events WHERE recorded_ns >= CAST($1 AS BIGINT)",
            &since, 1, event_row, &w, err);
    return rc;
}
