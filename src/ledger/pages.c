/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long lists in pages, and what is new, for a server that shows them. A page begins behind a record
 * (its time and id), never at a number of rows: what is written meanwhile neither repeats nor hides
 * anything.
 */
#include "src/ledger/ledger.h"

#include "db.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

/* ---- patterns */

/* A pattern of LIKE that fits whatever the glob fits, and maybe more: tw_glob judges then, which
 * SQL cannot ([..], and SQLite's LIKE takes A for a). malloc'ed; NULL: no memory. */
static char *like_of(const char *glob)
{
    struct tw_buf b = {0};
    for (const char *p = glob; *p; p++) {
        if (*p == '[') {
            /* from here on anything: where a class ends is tw_glob's to say */
            tw_buf_puts(&b, "%");
            break;
        }
        if (*p == '*')
            tw_buf_puts(&b, "%");
        else if (*p == '?')
            tw_buf_puts(&b, "%"); /* a byte to tw_glob, a character to SQL */
        else if (strchr("%_\\", *p))
            tw_buf_printf(&b, "\\%c", *p);
        else
            tw_buf_append(&b, p, 1);
    }
    tw_buf_puts(&b, "");
    return tw_buf_steal(&b);
}

/* ---- a page */

/* Whom rows are handed to, and how far the page is. */
struct page_walk {
    const struct twin_ledger_page *page;
    twin_ledger_history_fn *run;
    twin_ledger_comparison_fn *comparison;
    void *user;
    uint64_t seen;
    struct twin_ledger_place *next;
};

/* One record more is asked for than is shown: it says whether there is another page. False: this is
 * that one. */
static bool on_page(struct page_walk *w, int64_t time_ns, const char *id)
{
    if (w->seen++ == w->page->limit) {
        w->next->more = true;
        return false;
    }
    w->next->time_ns = time_ns;
    snprintf(w->next->id, sizeof w->next->id, "%s", id);
    return true;
}

static bool fits(const struct page_walk *w, const char *command)
{
    return !w->page->command || tw_glob(w->page->command, command);
}

static int page_run(void *user, const struct tw_db_value *v, size_t n)
{
    struct page_walk *w = user;
    if (n < TW_LEDGER_COLUMN_COUNT + TW_LEDGER_FACT_COUNT)
        return TWIN_EFORMAT;
    const struct twin_ledger_run r = tw_ledger_run_of(v);
    struct twin_ledger_facts f;
    const bool has = tw_ledger_facts_of(v, &f);
    if (w->next && (!on_page(w, r.start_ns, r.id) || !fits(w, r.command)))
        return 0;
    return w->run(w->user, &r, has ? &f : NULL);
}

static int page_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct page_walk *w = user;
    if (!on_page(w, c->time_ns, c->id) || !fits(w, c->command))
        return 0;
    return w->comparison(w->user, c);
}

/* The parameters that both lists have in common, in the order in which the statements use them. */
enum { SINCE, OUTCOME, BEFORE, BEFORE_ID, LIKE, PROJECT, VERB, LIMIT, PARAMETERS };

static const char *or_any(const char *s)
{
    return s ? s : "*";
}

static void fill(struct tw_db_value v[PARAMETERS], const struct twin_ledger_page *p,
                 const char *like)
{
    v[SINCE] = TW_INT(p->since_ns);
    v[OUTCOME] = TW_TEXT(or_any(p->outcome));
    v[BEFORE] = TW_INT(p->before_id ? p->before_ns : INT64_MAX);
    v[BEFORE_ID] = TW_TEXT(p->before_id ? p->before_id : "~"); /* behind all ids */
    v[LIKE] = TW_TEXT(like);
    v[PROJECT] = TW_TEXT(or_any(p->project));
    v[LIMIT] = TW_INT(p->limit < INT64_MAX ? p->limit + 1 : INT64_MAX);
    v[VERB] = TW_TEXT(or_any(p->verb));
}

/* "Behind this place" is said as a range and an exception: of "older, or as old with a smaller id"
 * SQLite would make two searches, and sort all that both find. */
int twin_ledger_page_of_runs(struct twin_ledger *l, const struct twin_ledger_page *p,
                             twin_ledger_history_fn *each, void *user,
                             struct twin_ledger_place *next, struct twin_error *err)
{
    struct page_walk w = {.page = p, .run = each, .user = user, .next = next};
    struct tw_db_value v[PARAMETERS];
    struct tw_db *db = tw_ledger_db(l);
    char *like = like_of(p->command ? p->command : "*");
    *next = (struct twin_ledger_place){.more = false};
    if (!like)
        return tw_no_memory(err, "reading the ledger");
    fill(v, p, like);
    v[VERB] = v[LIMIT]; /* runs have no verb: the limit is $7 */
    int rc = db->ops->run(
        db,
        "SELECT " TW_LEDGER_COLUMNS ", f.run_id, " TW_LEDGER_FACTS
        " FROM (SELECT " TW_LEDGER_COLUMNS
        " FROM runs_now w WHERE start_ns >= CAST($1 AS BIGINT) AND (CAST($2 AS TEXT) = '*' OR "
        "state = $2 OR EXISTS (SELECT 1 FROM compared c JOIN comparisons x ON x.id = "
        "c.comparison_id WHERE c.run_id = w.id AND x.outcome = $2)) AND start_ns <= CAST($3 AS "
        "BIGINT) AND NOT (start_ns = $3 AND id >= $4) AND command LIKE $5 ESCAPE '\\' AND (CAST($6 "
        "AS "
        "TEXT) = '*' OR EXISTS (SELECT 1 FROM facts g WHERE g.run_id = w.id AND g.project = $6)) "
        "ORDER BY start_ns DESC, id DESC LIMIT CAST($7 AS BIGINT)) r LEFT JOIN (SELECT "
        "run_id, " TW_LEDGER_FACTS
        " FROM facts) f ON f.run_id = r.id ORDER BY start_ns DESC, id DESC",
        v, VERB + 1, page_run, &w, err);
    tw_free(like);
    return rc;
}

int twin_ledger_page_of_comparisons(struct twin_ledger *l, const struct twin_ledger_page *p,
                                    twin_ledger_comparison_fn *each, void *user,
                                    struct twin_ledger_place *next, struct twin_error *err)
{
    struct page_walk w = {.page = p, .comparison = each, .user = user, .next = next};
    struct tw_db_value v[PARAMETERS];
    char *like = like_of(p->command ? p->command : "*");
    *next = (struct twin_ledger_place){.more = false};
    if (!like)
        return tw_no_memory(err, "reading the ledger");
    fill(v, p, like);
    int rc = tw_ledger_walk_compared(
        l,
        "SELECT " TW_LEDGER_COMPARED
        " FROM (SELECT * FROM comparisons y WHERE time_ns >= CAST($1 AS BIGINT) AND (CAST($2 AS "
        "TEXT) = '*' OR outcome = $2) AND time_ns <= CAST($3 AS BIGINT) AND NOT (time_ns = $3 AND "
        "id >= $4) AND command LIKE $5 ESCAPE '\\' AND (CAST($6 AS TEXT) = '*' OR EXISTS (SELECT 1 "
        "FROM compared d JOIN facts g ON g.run_id = d.run_id WHERE d.comparison_id = y.id AND "
        "g.project = $6)) AND (CAST($7 AS TEXT) = '*' OR verb = $7) ORDER BY time_ns DESC, id DESC "
        "LIMIT CAST($8 AS BIGINT)) x LEFT JOIN compared c ON c.comparison_id = x.id ORDER BY "
        "x.time_ns DESC, x.id DESC, c.place",
        v, PARAMETERS, page_comparison, &w, err);
    tw_free(like);
    return rc;
}

/* ---- one run, and what is new */

int twin_ledger_run_with_facts(struct twin_ledger *l, const char *id, twin_ledger_history_fn *each,
                               void *user, struct twin_error *err)
{
    struct page_walk w = {.run = each, .user = user};
    struct tw_db *db = tw_ledger_db(l);
    return db->ops->run(db,
                        "SELECT " TW_LEDGER_COLUMNS ", f.run_id, " TW_LEDGER_FACTS
                        " FROM (SELECT " TW_LEDGER_COLUMNS
                        " FROM runs_now WHERE id = $1) r LEFT JOIN (SELECT run_id, " TW_LEDGER_FACTS
                        " FROM facts) f ON f.run_id = r.id",
                        &TW_TEXT(id), 1, page_run, &w, err);
}

int twin_ledger_news(struct twin_ledger *l, int64_t recorded_ns, uint64_t limit,
                     twin_ledger_history_fn *run, twin_ledger_comparison_fn *comparison, void *user,
                     struct twin_error *err)
{
    struct page_walk w = {.run = run, .user = user};
    struct tw_db *db = tw_ledger_db(l);
    struct tw_db_value v[] = {TW_INT(recorded_ns), TW_INT(limit < INT64_MAX ? limit : INT64_MAX)};
    int rc = db->ops->run(db,
                          "SELECT " TW_LEDGER_COLUMNS ", f.run_id, " TW_LEDGER_FACTS
                          " FROM (SELECT " TW_LEDGER_COLUMNS
                          " FROM runs WHERE version = 1 AND recorded_ns >= CAST($1 AS BIGINT) "
                          "ORDER BY recorded_ns DESC LIMIT CAST($2 AS BIGINT)) r LEFT JOIN (SELECT "
                          "run_id, " TW_LEDGER_FACTS " FROM facts) f ON f.run_id = r.id",
                          v, 2, page_run, &w, err);
    if (rc != 0)
        return rc;
    return tw_ledger_walk_compared(
        l,
        "SELECT " TW_LEDGER_COMPARED
        " FROM (SELECT * FROM comparisons WHERE recorded_ns >= CAST($1 AS BIGINT) ORDER BY "
        "recorded_ns DESC LIMIT CAST($2 AS BIGINT)) x LEFT JOIN compared c ON c.comparison_id = "
        "x.id ORDER BY x.time_ns DESC, x.id, c.place",
        v, 2, comparison, user, err);
}
