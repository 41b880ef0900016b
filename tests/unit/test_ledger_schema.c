/* SPDX-License-Identifier: Apache-2.0 */
/* Ledgers of older and newer versions of the schema: nothing that was known is lost. */
#include "ledger_test.h"

#define V1_ROWS                                                                                 \
    "INSERT INTO runs VALUES ('0000000000000000000000000000000a', 1, 5, '', 'old-run', 'run', " \
    "'python old.py', '[\"python\",\"old.py\"]', 'h', 'ok', 0, 77, 2.5, 3, 30, 0, 0)",          \
        "INSERT INTO artifacts VALUES ('0000000000000000000000000000000a', 'w.pt', 'cc', "      \
        "'checkpoint', 9, 5)",                                                                  \
        "INSERT INTO comparisons VALUES ('0000000000000000000000000000000b', 6, 6, 'check', "   \
        "'python old.py', 'differ', 'step 2', 2)",                                              \
        "INSERT INTO compared VALUES ('0000000000000000000000000000000b', 0, "                  \
        "'0000000000000000000000000000000a')"

static void expect_old(struct twin_ledger *l)
{
    struct seen s = {0};
    assert_int_equal(
        twin_ledger_run(l, "0000000000000000000000000000000a", true, see_run, &s, NULL), 0);
    assert_int_equal(s.n, 1);
    assert_true(s.last.wall_s == 2.5 && s.last.records == 30);
    s = (struct seen){0};
    assert_int_equal(twin_ledger_comparisons(l, "0000000000000000000000000000000a", NULL,
                                             see_comparison, &s, NULL),
                     0);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.cause, "");
    assert_string_equal(s.first, "step 2");
    s = (struct seen){0};
    assert_int_equal(
        twin_ledger_artifacts(l, "0000000000000000000000000000000a", see_artifact, &s, NULL), 0);
    assert_int_equal(s.bytes, 9);
}

static int take(void *user, const struct tw_db_value *row, size_t n)
{
    *(int64_t *)user = n ? row[0].i : -1;
    return 0;
}

static void from_version_1(void **state)
{
    (void)state;
    static const char *const rows[] = {V1_ROWS};
    struct tw_db *db = raw();
    int64_t version = 0;
    assert_int_equal(tw_schema_migrate(db, 1, NULL), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        sql(db, rows[i]);
    assert_int_equal(
        db->ops->run(db, "SELECT MAX(version) FROM ledger_schema", NULL, 0, take, &version, NULL),
        0);
    assert_int_equal(version, 1);
    db->ops->close(db);
    struct twin_ledger *l = opened();
    expect_old(l);
    char id[33];
    struct twin_ledger_run r = run_of(1, id); /* and it takes new records */
    assert_int_equal(twin_ledger_put_run(l, &r, NULL, 0, NULL), 0);
    twin_ledger_close(l);
    db = raw();
    assert_int_equal(
        db->ops->run(db, "SELECT COUNT(*) FROM ledger_schema", NULL, 0, take, &version, NULL), 0);
    assert_int_equal(version, TWIN_LEDGER_SCHEMA);
    db->ops->close(db);
}

static int see_nothing_said(void *user, const struct twin_ledger_comparison *c)
{
    ++*(size_t *)user;
    assert_false(c->repeats);
    assert_int_equal(c->checkpoints.compared, -1);
    assert_int_equal(c->agreed[0], TWIN_AGREED_NOT_SAID);
    assert_string_equal(c->layer, "");
    return 0;
}

/* Version 2 with a run and a comparison: all of it is still there, and says nothing of what version
 * 3 asks. */
static void from_version_2(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "INSERT INTO runs (id, version, recorded_ns, home, name, label, command, argv, host, "
        "state, "
        "exit_code, start_ns, wall_s, steps, records, dropped, gone, data_root) VALUES ('aa', 1, "
        "1, '', 'n', 'l', 'c', '[]', 'h', 'ok', 0, 5, 1.5, 2, 3, 0, 0, 'root')",
        "INSERT INTO comparisons (id, recorded_ns, time_ns, verb, command, outcome, first, "
        "first_step, cause) VALUES ('bb', 1, 6, 'check', 'c', 'same', '', -1, 'aslr')",
        "INSERT INTO compared (comparison_id, place, run_id) VALUES ('bb', 0, 'aa')",
    };
    struct tw_db *db = raw();
    assert_int_equal(tw_schema_migrate(db, 2, NULL), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        sql(db, rows[i]);
    db->ops->close(db);
    struct twin_ledger *l = opened();
    struct counted c = {.loss = 0};
    struct seen s = {0};
    size_t n = 0;
    assert_int_equal(twin_ledger_history(l, NULL, 0, see_history, &c, NULL), 0);
    assert_true(c.runs == 1 && c.bare == 1);
    assert_int_equal(twin_ledger_comparisons_since(l, 0, see_nothing_said, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(twin_ledger_comparisons(l, "aa", NULL, see_comparison, &s, NULL), 0);
    assert_string_equal(s.cause, "aslr");
    twin_ledger_close(l);
}

/* Version 3 with a run and its facts: they are there, and what was written down since is found by
 * an index. */
static void from_version_3(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "INSERT INTO runs (id, version, recorded_ns, home, name, label, command, argv, host, "
        "state, exit_code, start_ns, wall_s, steps, records, dropped, gone) VALUES ('aa', 1, 7, "
        "'', 'n', 'l', 'c', '[]', 'h', 'ok', 0, 5, 1.5, 2, 3, 0, 0)",
        "INSERT INTO facts (run_id, recorded_ns, project, family, contributor, sweep, inputs, ci, "
        "snapshots, deterministic, nondeterministic, loss) VALUES ('aa', 8, 'p', 'f', 'c', '', "
        "'i', 0, 1, 1, 0, 0.5)",
    };
    struct tw_db *db = raw();
    int64_t indexes = 0;
    assert_int_equal(tw_schema_migrate(db, 3, NULL), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        sql(db, rows[i]);
    db->ops->close(db);
    struct twin_ledger *l = opened();
    struct counted c = {.loss = 0};
    struct twin_ledger_tally t;
    assert_int_equal(twin_ledger_history(l, NULL, 0, see_history, &c, NULL), 0);
    assert_true(c.runs == 1 && c.bare == 0 && c.loss == .5);
    assert_int_equal(twin_ledger_tally(l, &t, NULL), 0);
    assert_true(t.count[TWIN_LEDGER_RUNS] == 1 && t.newest_ns == 8);
    twin_ledger_close(l);
    db = raw();
    assert_int_equal(
        db->ops->run(db,
                     url ? "SELECT COUNT(*) FROM pg_indexes WHERE schemaname = current_schema() "
                           "AND indexname LIKE '%_by_recorded'"
                         : "SELECT COUNT(*) FROM sqlite_master WHERE name LIKE '%_by_recorded'",
                     NULL, 0, take, &indexes, NULL),
        0);
    assert_int_equal(indexes, 4);
    db->ops->close(db);
}

/* A file that version 1 wrote, kept as it was. */
static void golden_version_1(void **state)
{
    (void)state;
    char *data = NULL, *path = tw_path_join(home, "ledger.db");
    size_t n = 0;
    if (url) {
        tw_free(path);
        skip(); /* a file: SQLite's */
    }
    assert_int_equal(tw_read_file(GOLDEN "/ledger/v1.db", 1 << 20, &data, &n, NULL), 0);
    assert_int_equal(tw_write_file_atomic(path, data, n, NULL), 0);
    struct twin_ledger *l = opened();
    expect_old(l);
    twin_ledger_close(l);
    tw_free(data);
    tw_free(path);
}

static void newer(void **state)
{
    (void)state;
    struct twin_ledger *l = opened();
    struct twin_error err = TWIN_ERROR_INIT;
    twin_ledger_close(l);
    struct tw_db *db = raw();
    sql(db, "INSERT INTO ledger_schema (version, made_ns) VALUES (99, 0)");
    db->ops->close(db);
    assert_int_equal(twin_ledger_open(home, url, &l, &err), TWIN_EVERSION);
    assert_non_null(strstr(err.message, "99"));
    assert_null(l);
}

/* A migration that fails half-way leaves what there was. */
static void half_migrated(void **state)
{
    (void)state;
    struct tw_db *db = raw();
    struct twin_ledger *l = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    int64_t version = 0;
    assert_int_equal(tw_schema_migrate(db, 1, NULL), 0);
    /* version 2 makes a view of this name, last of all */
    sql(db, "CREATE TABLE runs_now (x BIGINT)");
    assert_int_not_equal(twin_ledger_open(home, url, &l, &err), 0);
    assert_int_equal(
        db->ops->run(db, "SELECT MAX(version) FROM ledger_schema", NULL, 0, take, &version, NULL),
        0);
    assert_int_equal(version, 1);
    sql(db, "DROP TABLE runs_now");
    db->ops->close(db);
    l = opened();
    twin_ledger_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(from_version_1, fresh, done),
        cmocka_unit_test_setup_teardown(golden_version_1, fresh, done),
        cmocka_unit_test_setup_teardown(from_version_2, fresh, done),
        cmocka_unit_test_setup_teardown(from_version_3, fresh, done),
        cmocka_unit_test_setup_teardown(newer, fresh, done),
        cmocka_unit_test_setup_teardown(half_migrated, fresh, done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
