/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema, one list of statements for each version, and the migration from any older version. A
 * version that was released is never edited: the next one changes it. Records are only ever
 * inserted, so two versions of a record can stand side by side and nothing that was known is lost.
 *
 * A migration is one transaction, so a database has either the old schema or the new one. The table
 * ledger_schema says which versions a database has been through.
 */
#include "db.h"

#include "src/ledger/ledger.h"

#include <stdio.h>
#include <string.h>

#include "base.h"

/* Runs with their versions, the files that they wrote, comparisons, and which runs each compared
 * (place 0: the reference). Times are in ns since 1970. */
static const char *const version_1[] = {
    "CREATE TABLE ledger_schema (version BIGINT NOT NULL PRIMARY KEY, made_ns BIGINT NOT NULL)",
    "CREATE TABLE runs (id TEXT NOT NULL, version BIGINT NOT NULL, recorded_ns BIGINT NOT NULL, "
    "home TEXT NOT NULL, name TEXT NOT NULL, label TEXT NOT NULL, command TEXT NOT NULL, argv TEXT "
    "NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL, exit_code BIGINT NOT NULL, start_ns BIGINT "
    "NOT NULL, wall_s DOUBLE PRECISION NOT NULL, steps BIGINT NOT NULL, records BIGINT NOT NULL, "
    "dropped BIGINT NOT NULL, gone BIGINT NOT NULL, PRIMARY KEY (id, version))",
    "CREATE TABLE artifacts (run_id TEXT NOT NULL, path TEXT NOT NULL, sha256 TEXT NOT NULL, kind "
    "TEXT NOT NULL, bytes BIGINT NOT NULL, recorded_ns BIGINT NOT NULL, PRIMARY KEY (run_id, path, "
    "sha256))",
    "CREATE TABLE comparisons (id TEXT NOT NULL PRIMARY KEY, recorded_ns BIGINT NOT NULL, time_ns "
    "BIGINT NOT NULL, verb TEXT NOT NULL, command TEXT NOT NULL, outcome TEXT NOT NULL, first TEXT "
    "NOT NULL, first_step BIGINT NOT NULL)",
    "CREATE TABLE compared (comparison_id TEXT NOT NULL, place BIGINT NOT NULL, run_id TEXT NOT "
    "NULL, PRIMARY KEY (comparison_id, place))",
    "CREATE INDEX runs_by_start ON runs (start_ns)",
    NULL,
};
/* Adds what isolate found (cause) and the snapshot that a job was started on (data_root), indexes
 * for the questions of show and ls, and the view of the newest version of each run. */
static const char *const version_2[] = {
    "ALTER TABLE comparisons ADD COLUMN cause TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN data_root TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX compared_by_run ON compared (run_id)",
    "CREATE INDEX comparisons_by_time ON comparisons (time_ns)",
    "CREATE VIEW runs_now AS SELECT * FROM runs r WHERE NOT EXISTS (SELECT 1 FROM runs x WHERE "
    "x.id = r.id AND x.version > r.version)",
    NULL,
};
/* Adds what service levels are computed from (docs/slo.md): facts of a run, events, and of a
 * comparison whether it repeated a job, which of its runs agreed and which of their checkpoints.
 * Facts are a table of their own: a run's versions say how it went, its facts never change. */
static const char *const version_3[] = {
    "CREATE TABLE facts (run_id TEXT NOT NULL PRIMARY KEY, recorded_ns BIGINT NOT NULL, project "
    "TEXT NOT NULL, family TEXT NOT NULL, contributor TEXT NOT NULL, sweep TEXT NOT NULL, inputs "
    "TEXT NOT NULL, ci BIGINT NOT NULL, snapshots BIGINT NOT NULL, deterministic BIGINT NOT NULL, "
    "nondeterministic BIGINT NOT NULL, loss DOUBLE PRECISION)",
    "CREATE TABLE events (id TEXT NOT NULL PRIMARY KEY, recorded_ns BIGINT NOT NULL, time_ns "
    "BIGINT NOT NULL, kind TEXT NOT NULL, outcome TEXT NOT NULL, subject TEXT NOT NULL, project "
    "TEXT NOT NULL, family TEXT NOT NULL, contributor TEXT NOT NULL, run_id TEXT NOT NULL)",
    "CREATE INDEX events_by_time ON events (time_ns)",
    "ALTER TABLE comparisons ADD COLUMN layer TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE comparisons ADD COLUMN repeats BIGINT NOT NULL DEFAULT -1",
    "ALTER TABLE comparisons ADD COLUMN checkpoints BIGINT NOT NULL DEFAULT -1",
    "ALTER TABLE comparisons ADD COLUMN checkpoints_same BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE comparisons ADD COLUMN checkpoints_unknown BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE comparisons ADD COLUMN checkpoints_missing BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE compared ADD COLUMN agreed TEXT NOT NULL DEFAULT ''",
    NULL,
};
/* Indexes for who asks again and again what was written down since (recorded.c): without them each
 * look at a million runs reads all of them. */
static const char *const version_4[] = {
    "CREATE INDEX runs_by_recorded ON runs (recorded_ns)",
    "CREATE INDEX facts_by_recorded ON facts (recorded_ns)",
    "CREATE INDEX comparisons_by_recorded ON comparisons (recorded_ns)",
    "CREATE INDEX events_by_recorded ON events (recorded_ns)",
    NULL,
};
/* Statements that lead to version i + 1; each list ends in NULL. */
static const char *const *const versions[TWIN_LEDGER_SCHEMA] = {version_1, version_2, version_3,
                                                                version_4};

/* The one number of a result; no value: 0. */
static int take_number(void *user, const struct tw_db_value *row, size_t n)
{
    *(int64_t *)user = n ? row[0].i : 0;
    return 0;
}

/* The schema version of a database; 0: it has no schema yet. */
static int version_of(struct tw_db *db, int64_t *version, struct twin_error *err)
{
    bool there = false;
    *version = 0;
    int rc = db->ops->has_table(db, "ledger_schema", &there, err);
    if (rc == 0 && there)
        rc = db->ops->run(db, "SELECT COALESCE(MAX(version), 0) FROM ledger_schema", NULL, 0,
                          take_number, version, err);
    return rc;
}

/* Refuses what this program does not know: a newer schema, or a table of that name that is none of
 * ours. */
static int check_version(const struct tw_db *db, int64_t version, struct twin_error *err)
{
    if (version > TWIN_LEDGER_SCHEMA)
        return twin_error_set(err, TWIN_EVERSION,
                              "%s has schema %lld, of a newer twinrun; this one knows %d", db->name,
                              (long long)version, TWIN_LEDGER_SCHEMA);
    return version < 0 ? twin_error_set(err, TWIN_EFORMAT, "%s is no ledger: schema %lld", db->name,
                                        (long long)version)
                       : 0;
}

/* Runs the statements from version `from` up to `upto`, within the transaction of the caller. */
static int steps(struct tw_db *db, int64_t from, int upto, struct twin_error *err)
{
    int rc = 0;
    for (int64_t v = from; rc == 0 && v < upto; v++) {
        for (size_t i = 0; rc == 0 && versions[v][i]; i++)
            rc = db->ops->run(db, versions[v][i], NULL, 0, NULL, NULL, err);
        struct tw_db_value row[2] = {TW_INT(v + 1), TW_INT(tw_realtime_ns())};
        if (rc == 0)
            rc = db->ops->run(db,
                              "INSERT INTO ledger_schema (version, made_ns) VALUES (CAST($1 AS "
                              "BIGINT), CAST($2 AS BIGINT))",
                              row, 2, NULL, NULL, err);
    }
    return rc;
}

int tw_schema_check(struct tw_db *db, struct twin_error *err)
{
    int64_t version;
    int rc = version_of(db, &version, err);
    rc = rc ? rc : check_version(db, version, err);
    if (rc == 0 && version != TWIN_LEDGER_SCHEMA)
        rc = twin_error_set(err, TWIN_EVERSION,
                            "%s has schema %lld, of an older twinrun: `twinrun ls` of this one "
                            "brings it to schema %d",
                            db->name, (long long)version, TWIN_LEDGER_SCHEMA);
    return rc;
}

/* Most databases are up to date: these are only read, and no writer is made to wait. */
int tw_schema_migrate(struct tw_db *db, int upto, struct twin_error *err)
{
    int64_t version;
    int rc = version_of(db, &version, err);
    if (rc == 0)
        rc = check_version(db, version, err);
    if (rc != 0 || version >= upto)
        return rc;
    rc = db->ops->begin(db, err);
    if (rc != 0)
        return rc;
    rc = version_of(db, &version, err); /* another process may have done it meanwhile */
    if (rc == 0)
        rc = check_version(db, version, err);
    if (rc == 0)
        rc = steps(db, version, upto, err);
    if (rc == 0)
        rc = db->ops->commit(db, err);
    if (rc != 0)
        db->ops->rollback(db);
    return rc;
}
