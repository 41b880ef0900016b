/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in and out of the ledger: runs, the files that they wrote, and what comparisons found.
 * Commands call these functions (src/ledger/ledger.h) through cmd/ledger.c; the statements are
 * the same for SQLite and PostgreSQL (db.h).
 *
 * The room has no UPDATE and no DELETE. What changes is inserted as the next version of a record,
 * and the view runs_now shows the newest one of each run. Writers take turns (begin), so that
 * "newest version plus one" cannot be chosen twice.
 */
#include "src/ledger/ledger.h"

#include "db.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An open ledger. together: puts belong to one transaction of the caller's. */
struct twin_ledger {
    struct tw_db *db;
    bool together; /* between begin and end */
};

bool twin_ledger_off(const char *url)
{
    url = url ? url : getenv("TWINRUN_LEDGER");
    return url && strcmp(url, "none") == 0;
}

/* The parameter url goes before the environment; an empty variable counts as none. */
static int open_as(const char *home, const char *url, bool read_only, struct twin_ledger **out,
                   struct twin_error *err)
{
    const char *given = getenv("TWINRUN_LEDGER");
    struct twin_ledger *l = tw_calloc(1, sizeof *l);
    if (!url && given && *given)
        url = given;
    *out = NULL;
    if (!l)
        return tw_no_memory(err, "opening the ledger");
    int rc;
    if (url && strcmp(url, "none") == 0) {
        rc = twin_error_set(err, TWIN_EUNSUPPORTED, "there is to be no ledger");
    } else if (url && (tw_starts(url, "postgresql://") || tw_starts(url, "postgres://"))) {
        rc = tw_db_postgres(url, read_only, &l->db, err);
    } else if (url) { /* not quoted: who mistypes the scheme has typed the password, too */
        rc = twin_error_set(
            err, TWIN_EINVAL,
            "the ledger's address cannot be read; expected postgresql://... or none");
    } else {
        char *path = tw_path_join(home, "ledger.db");
        rc = path ? tw_db_sqlite(path, read_only, &l->db, err)
                  : tw_no_memory(err, "opening the ledger");
        tw_free(path);
    }
    if (rc == 0 && read_only)
        rc = tw_schema_check(l->db, err);
    else if (rc == 0)
        rc = tw_schema_migrate(l->db, TWIN_LEDGER_SCHEMA, err);
    if (rc == 0) {
        *out = l;
        return 0;
    }
    twin_ledger_close(l);
    return rc;
}

int twin_ledger_open(const char *home, const char *url, struct twin_ledger **out,
                     struct twin_error *err)
{
    return open_as(home, url, false, out, err);
}

int twin_ledger_open_to_read(const char *home, const char *url, struct twin_ledger **out,
                             struct twin_error *err)
{
    return open_as(home, url, true, out, err);
}

int twin_ledger_change(struct twin_ledger *l, char mark[TWIN_LEDGER_MARK_BYTES],
                       struct twin_error *err)
{
    return l->db->ops->change(l->db, mark, err);
}

void twin_ledger_close(struct twin_ledger *l)
{
    if (l && l->db)
        l->db->ops->close(l->db);
    tw_free(l);
}

const char *twin_ledger_name(const struct twin_ledger *l)
{
    return l->db->name;
}

bool twin_ledger_is_new(const struct twin_ledger *l)
{
    return l->db->fresh;
}

struct tw_db *tw_ledger_db(struct twin_ledger *l)
{
    return l->db;
}

/* ---- writing */

/* A put by itself is a transaction; between twin_ledger_begin and _end it is part of that one. */
int tw_ledger_begin_put(struct twin_ledger *l, struct twin_error *err)
{
    return l->together ? 0 : l->db->ops->begin(l->db, err);
}

/* Ends the transaction of a put: commits when rc is 0, takes all back otherwise. Returns rc, or the
 * error of the commit. */
int tw_ledger_finish_put(struct twin_ledger *l, int rc, struct twin_error *err)
{
    if (l->together)
        return rc;
    if (rc == 0)
        rc = l->db->ops->commit(l->db, err);
    if (rc != 0)
        l->db->ops->rollback(l->db);
    return rc;
}

int twin_ledger_begin(struct twin_ledger *l, struct twin_error *err)
{
    int rc = tw_ledger_begin_put(l, err);
    l->together = rc == 0;
    return rc;
}

int twin_ledger_begin_to_read(struct twin_ledger *l, struct twin_error *err)
{
    return l->db->ops->begin_to_read(l->db, err);
}

int twin_ledger_end(struct twin_ledger *l, bool keep, struct twin_error *err)
{
    l->together = false;
    int rc = keep ? l->db->ops->commit(l->db, err) : 0;
    if (!keep || rc != 0)
        l->db->ops->rollback(l->db);
    return rc;
}

const char *tw_ledger_text(struct tw_ledger_texts *t, const char *s)
{
    char *safe = s && *s ? tw_printable_again(s, strlen(s)) : tw_strdup("");
    if (!safe || t->n == sizeof t->s / sizeof t->s[0]) {
        t->failed = true;
        tw_free(safe);
        return "";
    }
    t->s[t->n++] = safe;
    return safe;
}

int tw_ledger_insert(struct twin_ledger *l, const char *sql, const struct tw_db_value *v, size_t n,
                     struct tw_ledger_texts *t, struct twin_error *err)
{
    const int rc = t->failed ? tw_no_memory(err, "writing to the ledger")
                             : l->db->ops->run(l->db, sql, v, n, NULL, NULL, err);
    for (size_t i = 0; i < t->n; i++)
        tw_free(t->s[i]);
    return rc;
}

/* Inserts a file that a run wrote, unless the same file with the same contents is there already. */
static int put_artifact(struct twin_ledger *l, const char *run,
                        const struct twin_ledger_artifact *a, struct twin_error *err)
{
    struct tw_ledger_texts t = {0};
    struct tw_db_value v[] = {TW_TEXT(run),
                              TW_TEXT(tw_ledger_text(&t, a->path)),
                              TW_TEXT(tw_ledger_text(&t, a->sha256)),
                              TW_TEXT(tw_ledger_text(&t, a->kind)),
                              TW_INT(a->bytes),
                              TW_INT(tw_realtime_ns())};
    return tw_ledger_insert(
        l,
        "INSERT INTO artifacts (run_id, path, sha256, kind, bytes, recorded_ns) SELECT "
        "$1, $2, $3, $4, CAST($5 AS BIGINT), CAST($6 AS BIGINT) WHERE NOT EXISTS (SELECT "
        "1 FROM artifacts WHERE run_id = $1 AND path = $2 AND sha256 = $3)",
        v, sizeof v / sizeof v[0], &t, err);
}

/* Inserts the next version of a run, unless the newest one says the same: then catching up a second
 * time writes nothing. Compared are place, state, exit code, number of records, and whether the
 * folder is gone. */
static int put_version(struct twin_ledger *l, const struct twin_ledger_run *r,
                       struct twin_error *err)
{
    struct tw_ledger_texts t = {0};
    struct tw_db_value v[] = {
        TW_TEXT(tw_ledger_text(&t, r->id)),
        TW_INT(tw_realtime_ns()),
        TW_TEXT(tw_ledger_text(&t, r->home)),
        TW_TEXT(tw_ledger_text(&t, r->name)),
        TW_TEXT(tw_ledger_text(&t, r->label)),
        TW_TEXT(tw_ledger_text(&t, r->command)),
        TW_TEXT(tw_ledger_text(&t, r->host)),
        TW_TEXT(tw_ledger_text(&t, r->state)),
        TW_INT(r->exit_code),
        TW_INT(r->start_ns),
        TW_REAL(r->wall_s),
        TW_INT(r->steps),
        TW_INT(r->records),
        TW_INT(r->dropped),
        TW_INT(r->gone),
        TW_TEXT(tw_ledger_text(&t, r->data_root)),
        TW_TEXT(tw_ledger_text(&t, r->argv)),
    };
    return tw_ledger_insert(
        l,
        "INSERT INTO runs (id, version, recorded_ns, home, name, label, command, "
        "host, state, exit_code, start_ns, wall_s, steps, records, dropped, gone, "
        "data_root, argv) SELECT CAST($1 AS TEXT), (SELECT COALESCE(MAX(version), "
        "0) + 1 FROM runs WHERE id = $1), CAST($2 AS BIGINT), CAST($3 AS TEXT), "
        "CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS TEXT), "
        "CAST($8 AS TEXT), CAST($9 AS BIGINT), CAST($10 AS BIGINT), CAST($11 AS "
        "DOUBLE PRECISION), CAST($12 AS BIGINT), CAST($13 AS BIGINT), CAST($14 AS "
        "BIGINT), CAST($15 AS BIGINT), CAST($16 AS TEXT), CAST($17 AS TEXT) WHERE "
        "NOT EXISTS (SELECT 1 FROM runs_now WHERE id = $1 AND home = $3 AND name = "
        "$4 AND state = $8 AND exit_code = $9 AND records = $13 AND gone = $15)",
        v, sizeof v / sizeof v[0], &t, err);
}

int twin_ledger_put_run(struct twin_ledger *l, const struct twin_ledger_run *r,
                        const struct twin_ledger_artifact *a, size_t count, struct twin_error *err)
{
    int rc = tw_ledger_begin_put(l, err);
    if (rc != 0)
        return rc;
    rc = put_version(l, r, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = put_artifact(l, r->id, &a[i], err);
    return tw_ledger_finish_put(l, rc, err);
}

/* ---- reading */

/* Whom the rows of runs are handed to. f: its pattern of the command is judged here, since globs
 * are none of SQL's; NULL: none. */
struct run_walk {
    twin_ledger_run_fn *each;
    void *user;
    const struct twin_ledger_filter *f;
};

/* SQLite gives a whole number where a double has no fraction, so wall_s may be either. */
struct twin_ledger_run tw_ledger_run_of(const struct tw_db_value *v)
{
    return (struct twin_ledger_run){
        .id = v[0].s,
        .version = v[1].i,
        .recorded_ns = v[2].i,
        .home = v[3].s,
        .name = v[4].s,
        .label = v[5].s,
        .command = v[6].s,
        .host = v[7].s,
        .state = v[8].s,
        .exit_code = v[9].i,
        .start_ns = v[10].i,
        .wall_s = v[11].type == TW_DB_INT ? (double)v[11].i : v[11].d,
        .steps = (uint64_t)v[12].i,
        .records = (uint64_t)v[13].i,
        .dropped = (uint64_t)v[14].i,
        .gone = v[15].i != 0,
        .data_root = v[16].s,
        .argv = v[17].s,
    };
}

static int run_row(void *user, const struct tw_db_value *v, size_t n)
{
    struct run_walk *w = user;
    if (n < TW_LEDGER_COLUMN_COUNT)
        return TWIN_EFORMAT;
    const struct twin_ledger_run r = tw_ledger_run_of(v);
    return w->f && w->f->command && !tw_glob(w->f->command, r.command) ? 0 : w->each(w->user, &r);
}

/* Counts down what is left of a limit, between run_row() and the caller's function. */
struct limited {
    struct run_walk walk;
    uint64_t left;
};

static int limited_run(void *user, const struct twin_ledger_run *r)
{
    struct limited *l = user;
    if (l->left-- == 0)
        return INT32_MAX; /* ends the walk: twin_ledger_runs takes it for success */
    return l->walk.each(l->walk.user, r);
}

/* "*" stands for any home or outcome. With a pattern for commands the database cannot count the
 * hits, so the limit is kept here and not by LIMIT. */
int twin_ledger_runs(struct twin_ledger *l, const struct twin_ledger_filter *f,
                     twin_ledger_run_fn *each, void *user, struct twin_error *err)
{
    struct limited limit = {.walk = {each, user, NULL}, .left = f->limit ? f->limit : UINT64_MAX};
    struct run_walk w = {limited_run, &limit, f};
    struct tw_db_value v[] = {TW_INT(f->since_ns), TW_TEXT(f->home ? f->home : "*"),
                              TW_TEXT(f->outcome ? f->outcome : "*"),
                              TW_INT(f->limit && !f->command ? f->limit : INT64_MAX)};
    int rc = l->db->ops->run(
        l->db,
        "SELECT " TW_LEDGER_COLUMNS
        " FROM runs_now r WHERE start_ns >= CAST($1 AS BIGINT) AND (CAST($2 AS TEXT) = '*' OR home "
        "= $2) AND (CAST($3 AS TEXT) = '*' OR state = $3 OR EXISTS (SELECT 1 FROM compared c JOIN "
        "comparisons x ON x.id = c.comparison_id WHERE c.run_id = r.id AND x.outcome = $3)) ORDER "
        "BY start_ns DESC, name DESC LIMIT CAST($4 AS BIGINT)",
        v, 4, run_row, &w, err);
    return rc == INT32_MAX ? 0 : rc;
}

int twin_ledger_run(struct twin_ledger *l, const char *id, bool history, twin_ledger_run_fn *each,
                    void *user, struct twin_error *err)
{
    struct run_walk w = {each, user, NULL};
    return l->db->ops->run(l->db,
                           history ? "SELECT " TW_LEDGER_COLUMNS
                                     " FROM runs WHERE id = $1 ORDER BY version"
                                   : "SELECT " TW_LEDGER_COLUMNS " FROM runs_now WHERE id = $1",
                           &TW_TEXT(id), 1, run_row, &w, err);
}

/* Whom the rows of artifacts are handed to. */
struct artifact_walk {
    twin_ledger_artifact_fn *each;
    void *user;
};

static int artifact_row(void *user, const struct tw_db_value *v, size_t n)
{
    struct artifact_walk *w = user;
    if (n < 4)
        return TWIN_EFORMAT;
    return w->each(
        w->user, &(struct twin_ledger_artifact){
                     .path = v[0].s, .kind = v[1].s, .sha256 = v[2].s, .bytes = (uint64_t)v[3].i});
}

int twin_ledger_artifacts(struct twin_ledger *l, const char *run_id, twin_ledger_artifact_fn *each,
                          void *user, struct twin_error *err)
{
    struct artifact_walk w = {each, user};
    return l->db->ops->run(l->db,
                           "SELECT path, kind, sha256, bytes FROM artifacts WHERE run_id = $1 "
                           "ORDER BY path, recorded_ns",
                           &TW_TEXT(run_id), 1, artifact_row, &w, err);
}

static int take_counts(void *user, const struct tw_db_value *v, size_t n)
{
    struct twin_ledger_counts *c = user;
    if (n >= 5)
        *c = (struct twin_ledger_counts){(uint64_t)v[0].i, (uint64_t)v[1].i, (uint64_t)v[2].i,
                                         (uint64_t)v[3].i, (uint64_t)v[4].i};
    return 0;
}

int twin_ledger_count(struct twin_ledger *l, struct twin_ledger_counts *out, struct twin_error *err)
{
    return l->db->ops->run(
        l->db,
        "SELECT (SELECT COUNT(*) FROM runs WHERE version = 1), (SELECT COUNT(*) FROM runs), "
        "(SELECT COUNT(*) FROM comparisons), (SELECT COUNT(*) FROM artifacts), (SELECT COUNT(*) "
        "FROM events)",
        NULL, 0, take_counts, out, err);
}
