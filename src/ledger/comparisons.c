/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons in and out of the ledger: what was found, which runs it was found of, and which of
 * these agreed with the reference.
 */
#include "src/ledger/ledger.h"

#include "db.h"

#include "base.h"

#include <stdint.h>
#include <string.h>

static const char *const agreed_name[] = {
    [TWIN_AGREED_NOT_SAID] = "",
    [TWIN_AGREED] = "agrees",
    [TWIN_AGREED_NOT] = "differs",
    [TWIN_AGREED_UNKNOWN] = "unknown",
};

const char *twin_agreed_name(enum twin_ledger_agreed a)
{
    return agreed_name[a];
}

enum twin_ledger_agreed twin_agreed_of(const char *name)
{
    for (size_t i = 0; name && i < sizeof agreed_name / sizeof agreed_name[0]; i++)
        if (strcmp(name, agreed_name[i]) == 0)
            return (enum twin_ledger_agreed)i;
    return TWIN_AGREED_NOT_SAID;
}

/* ---- writing */

/* Counts rows; user is a size_t. */
static int count_row(void *user, const struct tw_db_value *row, size_t n)
{
    (void)row;
    (void)n;
    ++*(size_t *)user;
    return 0;
}

static int insert_comparison(struct twin_ledger *l, const struct twin_ledger_comparison *c,
                             struct twin_error *err)
{
    struct tw_ledger_texts t = {0};
    const struct twin_ledger_checkpoints *k = &c->checkpoints;
    struct tw_db_value v[] = {
        TW_TEXT(tw_ledger_text(&t, c->id)),
        TW_INT(tw_realtime_ns()),
        TW_INT(c->time_ns),
        TW_TEXT(tw_ledger_text(&t, c->verb)),
        TW_TEXT(tw_ledger_text(&t, c->command)),
        TW_TEXT(tw_ledger_text(&t, c->outcome)),
        TW_TEXT(tw_ledger_text(&t, c->first)),
        TW_INT(c->first_step),
        TW_TEXT(tw_ledger_text(&t, c->cause)),
        TW_TEXT(tw_ledger_text(&t, c->layer)),
        TW_INT(c->repeats),
        TW_INT(k->compared),
        TW_INT(k->same),
        TW_INT(k->unknown),
        TW_INT(k->missing),
    };
    return tw_ledger_insert(l,
                            "INSERT INTO comparisons (id, recorded_ns, time_ns, verb, command, "
                            "outcome, first, first_step, cause, layer, repeats, checkpoints, "
                            "checkpoints_same, checkpoints_unknown, checkpoints_missing) VALUES "
                            "($1, CAST($2 AS BIGINT), CAST($3 AS BIGINT), $4, $5, $6, $7, CAST($8 "
                            "AS BIGINT), $9, $10, CAST($11 AS BIGINT), CAST($12 AS BIGINT), "
                            "CAST($13 AS BIGINT), CAST($14 AS BIGINT), CAST($15 AS BIGINT))",
                            v, sizeof v / sizeof v[0], &t, err);
}

/* The comparison, then a row for each of its runs. An id that is there already means that all of it
 * is there, since it was one transaction. */
int twin_ledger_put_comparison(struct twin_ledger *l, const struct twin_ledger_comparison *c,
                               struct twin_error *err)
{
    struct tw_db *db = tw_ledger_db(l);
    size_t there = 0;
    int rc = tw_ledger_begin_put(l, err);
    if (rc != 0)
        return rc;
    rc = db->ops->run(db, "SELECT id FROM comparisons WHERE id = $1", &TW_TEXT(c->id), 1, count_row,
                      &there, err);
    if (rc == 0 && !there)
        rc = insert_comparison(l, c, err);
    for (size_t i = 0; rc == 0 && !there && i < c->run_count; i++) {
        const char *agreed = twin_agreed_name(c->agreed ? c->agreed[i] : TWIN_AGREED_NOT_SAID);
        struct tw_db_value row[] = {TW_TEXT(c->id), TW_INT(i), TW_TEXT(c->run_id[i]),
                                    TW_TEXT(agreed)};
        rc = db->ops->run(db,
                          "INSERT INTO compared (comparison_id, place, run_id, agreed) VALUES ($1, "
                          "CAST($2 AS BIGINT), $3, $4)",
                          row, 4, NULL, NULL, err);
    }
    return tw_ledger_finish_put(l, rc, err);
}

/* ---- reading */

/* The columns of a comparison and one of its runs, in the order of enum column. */
#define COLUMNS \
    TW_LEDGER_COMPARED " FROM comparisons x LEFT JOIN compared c ON c.comparison_id = x.id "
enum column {
    ID,
    VERB,
    COMMAND,
    OUTCOME,
    FIRST,
    CAUSE,
    LAYER,
    TEXTS, /* the columns before this one are the comparison's texts */
    TIME = TEXTS,
    FIRST_STEP,
    REPEATS,
    COMPARED,
    SAME,
    UNKNOWN,
    MISSING,
    RUN,
    AGREED,
    RECORDED,
    COLUMN_COUNT
};

/* A comparison comes as several rows, one for each of its runs, one behind the other. They are
 * gathered in c, which is handed on when the next comparison begins. text: what c's strings point
 * to; runs, agreed: of the runs so far, with room for `room`. */
struct comparison_walk {
    twin_ledger_comparison_fn *each;
    void *user;
    struct twin_ledger_comparison c;
    char *text[TEXTS];
    const char **runs;
    enum twin_ledger_agreed *agreed;
    size_t room;
    bool oom;
};

/* Frees the comparison that was gathered; the arrays of runs are kept for the next one. */
static void forget_comparison(struct comparison_walk *w)
{
    for (size_t i = 0; i < TEXTS; i++)
        tw_free(w->text[i]);
    for (size_t i = 0; i < w->c.run_count; i++)
        tw_free((char *)(uintptr_t)w->runs[i]);
    memset(w->text, 0, sizeof w->text);
    w->c = (struct twin_ledger_comparison){0};
}

/* Hands the gathered comparison on, if there is one, and forgets it. Returns what the caller's
 * function returned. */
static int hand_out(struct comparison_walk *w)
{
    int rc = 0;
    if (w->c.id) {
        w->c.run_id = w->runs;
        w->c.agreed = w->agreed;
        rc = w->each(w->user, &w->c);
    }
    forget_comparison(w);
    return rc;
}

/* Takes the columns that all rows of a comparison have in common. */
static int begin_comparison(struct comparison_walk *w, const struct tw_db_value *v)
{
    for (size_t i = 0; i < TEXTS; i++)
        w->oom |= !(w->text[i] = tw_strdup(v[i].s));
    if (w->oom)
        return TWIN_ENOMEM;
    w->c = (struct twin_ledger_comparison){
        .id = w->text[ID],
        .time_ns = v[TIME].i,
        .verb = w->text[VERB],
        .command = w->text[COMMAND],
        .outcome = w->text[OUTCOME],
        .first = w->text[FIRST],
        .first_step = v[FIRST_STEP].i,
        .cause = w->text[CAUSE],
        .layer = w->text[LAYER],
        /* one that an older twinrun wrote says -1: whether it repeated a job is not known */
        .repeats = v[REPEATS].i == 1,
        .checkpoints = {v[COMPARED].i, v[SAME].i, v[UNKNOWN].i, v[MISSING].i},
        .recorded_ns = v[RECORDED].i,
    };
    return 0;
}

/* Room for one more run. */
static int grow_runs(struct comparison_walk *w)
{
    if (w->c.run_count < w->room)
        return 0;
    size_t room = w->room ? 2 * w->room : 8;
    const char **runs = tw_reallocarray(w->runs, room, sizeof *runs);
    if (runs)
        w->runs = runs;
    enum twin_ledger_agreed *agreed = runs ? tw_reallocarray(w->agreed, room, sizeof *agreed)
                                           : NULL;
    if (!agreed)
        return TWIN_ENOMEM;
    w->agreed = agreed;
    w->room = room;
    return 0;
}

/* One row: begins a new comparison when its id is another one than that of the row before, then
 * adds its run. Returns what the caller's function returned for the comparison before, or
 * TWIN_ENOMEM. */
static int comparison_row(void *user, const struct tw_db_value *v, size_t n)
{
    struct comparison_walk *w = user;
    if (n < COLUMN_COUNT)
        return TWIN_EFORMAT;
    if (!w->c.id || strcmp(w->c.id, v[ID].s) != 0) {
        int rc = hand_out(w);
        rc = rc ? rc : begin_comparison(w, v);
        if (rc != 0)
            return rc;
    }
    /* a comparison without runs has one row, with no run in it */
    if (v[RUN].type == TW_DB_NULL)
        return 0;
    if (grow_runs(w) != 0 || !(w->runs[w->c.run_count] = tw_strdup(v[RUN].s)))
        return TWIN_ENOMEM;
    w->agreed[w->c.run_count++] = twin_agreed_of(v[AGREED].s);
    return 0;
}

/* Runs a statement that gives COLUMNS. The last comparison is handed out behind the walk. */
int tw_ledger_walk_compared(struct twin_ledger *l, const char *sql, const struct tw_db_value *v,
                            size_t n, twin_ledger_comparison_fn *each, void *user,
                            struct twin_error *err)
{
    struct comparison_walk w = {.each = each, .user = user};
    struct tw_db *db = tw_ledger_db(l);
    int rc = db->ops->run(db, sql, v, n, comparison_row, &w, err);
    rc = rc ? rc : hand_out(&w);
    forget_comparison(&w);
    tw_free(w.runs);
    tw_free(w.agreed);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "reading the ledger") : rc;
}

/* LEFT JOIN: a comparison without runs has a row, too. */
int twin_ledger_comparisons(struct twin_ledger *l, const char *run_id, const char *command,
                            twin_ledger_comparison_fn *each, void *user, struct twin_error *err)
{
    struct tw_db_value v[] = {TW_TEXT(run_id ? run_id : ""), TW_TEXT(command ? command : "")};
    return tw_ledger_walk_compared(
        l,
        "SELECT " COLUMNS "WHERE (CAST($1 AS TEXT) = '' OR EXISTS (SELECT 1 FROM compared y WHERE "
        "y.comparison_id = x.id AND y.run_id = $1)) AND (CAST($2 AS TEXT) = '' OR "
        "x.command = $2) ORDER BY x.time_ns DESC, x.id, c.place",
        v, 2, each, user, err);
}

int twin_ledger_comparison(struct twin_ledger *l, const char *id, twin_ledger_comparison_fn *each,
                           void *user, struct twin_error *err)
{
    return tw_ledger_walk_compared(l, "SELECT " COLUMNS "WHERE x.id = $1 ORDER BY c.place",
                                   &TW_TEXT(id), 1, each, user, err);
}

int twin_ledger_comparisons_since(struct twin_ledger *l, int64_t since_ns,
                                  twin_ledger_comparison_fn *each, void *user,
                                  struct twin_error *err)
{
    return tw_ledger_walk_compared(
        l,
        "SELECT " COLUMNS
        "WHERE x.time_ns >= CAST($1 AS BIGINT) ORDER BY x.time_ns DESC, x.id, c.place",
        &TW_INT(since_ns), 1, each, user, err);
}

bool tw_ledger_is_isolated(const char *outcome)
{
    return tw_starts(outcome, "isolated");
}
