/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema, one list of statements for each version. A version that was released is never edited:
 * the next one changes it. Records are only ever inserted, so two versions of a record can stand
 * side by side and nothing that was known is lost.
 */
#include "db.h"

#include "src/ledger/ledger.h"

#include <stdio.h>
#include <string.h>

#include "base.h"

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
/* What isolate found, the snapshot that a job was started on, and the ways that show and ls ask. */
static const char *const version_2[] = {
    "ALTER TABLE comparisons ADD COLUMN cause TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN data_root TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX compared_by_run ON compared (run_id)",
    "CREATE INDEX comparisons_by_time ON comparisons (time_ns)",
    "CREATE VIEW runs_now AS SELECT * FROM runs r WHERE NOT EXISTS (SELECT 1 FROM runs x WHERE "
    "x.id = r.id AND x.version > r.version)",
    NULL,
};
static const char *const *const versions[TWIN_LEDGER_SCHEMA] = {version_1, version_2};

static int take_number(void *user, const struct tw_db_value *row, size_t n)
{
    *(int64_t *)user = n ? row[0].i : 0;
    return 0;
}

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
