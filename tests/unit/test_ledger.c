/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: the same tests on SQLite, and on PostgreSQL when TW_LEDGER_TEST_URL names a server
 * (tests/agents/test_ledger.py starts one). Each test has a database of its own: a file, or a
 * schema.
 */
#include "src/ledger/ledger.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"
#include "db.h"

static char home[64];
static char *url; /* of this test's schema; NULL: SQLite */

static struct tw_db *raw(void)
{
    struct tw_db *db = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    char *path = tw_path_join(home, "ledger.db");
    if ((url ? tw_db_postgres(url, false, &db, &err) : tw_db_sqlite(path, false, &db, &err)) != 0)
        fail_msg("%s", err.message);
    tw_free(path);
    return db;
}

static void sql(struct tw_db *db, const char *text)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (db->ops->run(db, text, NULL, 0, NULL, NULL, &err) != 0)
        fail_msg("%s: %s", text, err.message);
}

static int fresh(void **state)
{
    static int number;
    const char *server = getenv("TW_LEDGER_TEST_URL");
    (void)state;
    snprintf(home, sizeof home, "/tmp/twin-ledger-XXXXXX");
    assert_non_null(mkdtemp(home));
    if (!server)
        return 0;
    struct tw_db *db = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    char text[100];
    if (tw_db_postgres(server, false, &db, &err) != 0)
        fail_msg("%s", err.message);
    snprintf(text, sizeof text, "CREATE SCHEMA t%d_%d", (int)getpid(), ++number);
    sql(db, text);
    db->ops->close(db);
    url = tw_printf("%s%coptions=-csearch_path%%3Dt%d_%d", server, strchr(server, '?') ? '&' : '?',
                    (int)getpid(), number);
    return 0;
}

static int done(void **state)
{
    (void)state;
    tw_remove_tree(home, NULL, NULL);
    tw_free(url);
    url = NULL;
    return 0;
}

static struct twin_ledger *opened(void)
{
    struct twin_ledger *l = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_ledger_open(home, url, &l, &err) != 0)
        fail_msg("twin_ledger_open: %s", err.message);
    return l;
}

static const char *id_of(int n, char id[33])
{
    snprintf(id, 33, "%032x", n + 1);
    return id;
}

static struct twin_ledger_run run_of(int n, char id[33])
{
    return (struct twin_ledger_run){.id = id_of(n, id),
                                    .name = "2026-11-21T08-00-00Z-run-00000001",
                                    .label = "run",
                                    .command = "python train.py",
                                    .argv = "[\"python\"]",
                                    .host = "h",
                                    .state = "ok",
                                    .start_ns = 1000 + n,
                                    .wall_s = 1.5,
                                    .steps = 10,
                                    .records = 100};
}

struct seen {
    size_t n;
    struct twin_ledger_run last;
    char state[64], command[64], cause[64], first[64], data_root[16];
    int64_t step, start;
    size_t runs;
    uint64_t bytes;
};

static int see_run(void *user, const struct twin_ledger_run *r)
{
    struct seen *s = user;
    s->n++;
    s->last = *r;
    s->start = r->start_ns;
    snprintf(s->state, sizeof s->state, "%s", r->state);
    snprintf(s->command, sizeof s->command, "%s", r->command);
    return 0;
}

static int see_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct seen *s = user;
    s->n++;
    s->runs = c->run_count;
    s->step = c->first_step;
    snprintf(s->state, sizeof s->state, "%s", c->outcome);
    snprintf(s->cause, sizeof s->cause, "%s", c->cause);
    snprintf(s->first, sizeof s->first, "%s", c->first);
    return 0;
}

static int see_artifact(void *user, const struct twin_ledger_artifact *a)
{
    struct seen *s = user;
    s->n++;
    s->bytes += a->bytes;
    return 0;
}

static void versions(void **state)
{
    (void)state;
    char id[33], other[33];
    struct twin_ledger *l = opened();
    struct twin_ledger_run r = run_of(0, id);
    struct twin_ledger_artifact a[] = {{"ckpt/a.pt", "checkpoint", "aa", 5},
                                       {"log.txt", "file", "bb", 7}};
    assert_int_equal(twin_ledger_put_run(l, &r, a, 2, NULL), 0);
    assert_int_equal(twin_ledger_put_run(l, &r, a, 2, NULL), 0); /* it says the same: no version */
    struct seen s = {0};
    assert_int_equal(twin_ledger_run(l, id, true, see_run, &s, NULL), 0);
    assert_int_equal(s.n, 1);
    assert_true(s.last.wall_s == 1.5 && s.last.steps == 10 && s.last.records == 100 &&
                s.last.version == 1 && !s.last.gone && s.last.recorded_ns > 0);
    r.gone = true;
    assert_int_equal(twin_ledger_put_run(l, &r, NULL, 0, NULL), 0);
    r.gone = false;
    r.state = "exit 3";
    assert_int_equal(twin_ledger_put_run(l, &r, a, 1, NULL), 0);
    s = (struct seen){0};
    assert_int_equal(twin_ledger_run(l, id, true, see_run, &s, NULL), 0);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.last.version, 3);
    s = (struct seen){0};
    assert_int_equal(twin_ledger_run(l, id, false, see_run, &s, NULL), 0);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.state, "exit 3");
    s = (struct seen){0};
    assert_int_equal(twin_ledger_artifacts(l, id, see_artifact, &s, NULL), 0);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.bytes, 12);
    s = (struct seen){0};
    assert_int_equal(twin_ledger_run(l, id_of(9, other), false, see_run, &s, NULL), 0);
    assert_int_equal(s.n, 0);
    twin_ledger_close(l);
}

static void filters(void **state)
{
    (void)state;
    char id[33], ids[3][33];
    struct twin_ledger *l = opened();
    assert_int_equal(twin_ledger_begin(l, NULL), 0);
    for (int i = 0; i < 20; i++) {
        struct twin_ledger_run r = run_of(i, id);
        r.command = i % 2 ? "python a.py" : "python b.py";
        r.home = i < 10 ? "" : "other";
        r.state = i == 7 ? "exit 1" : "ok";
        assert_int_equal(twin_ledger_put_run(l, &r, NULL, 0, NULL), 0);
    }
    assert_int_equal(twin_ledger_end(l, true, NULL), 0);
    const char *runs[] = {id_of(2, ids[0]), id_of(3, ids[1]), id_of(2, ids[2])};
    struct twin_ledger_comparison c = {.id = "00000000000000000000000000000001",
                                       .time_ns = 5,
                                       .verb = "check",
                                       .command = "python a.py",
                                       .outcome = "differ",
                                       .first = "step 7",
                                       .first_step = 7,
                                       .cause = "threads",
                                       .run_id = runs,
                                       .run_count = 3};
    assert_int_equal(twin_ledger_put_comparison(l, &c, NULL), 0);
    c.outcome = "same"; /* written once: it stays as it was */
    assert_int_equal(twin_ledger_put_comparison(l, &c, NULL), 0);
    static const struct {
        struct twin_ledger_filter f;
        size_t n;
    } row[] = {
        {{0}, 20},
        {{.home = ""}, 10},
        {{.home = "other"}, 10},
        {{.home = "none"}, 0},
        {{.command = "*a.py"}, 10},
        {{.command = "*a.py", .limit = 3}, 3},
        {{.since_ns = 1015}, 5},
        {{.limit = 4}, 4},
        {{.outcome = "exit 1"}, 1},
        {{.outcome = "differ"}, 2},
        {{.outcome = "same"}, 0},
        {{.outcome = "' OR 1=1 --"}, 0},
        {{.home = "", .command = "*b*", .since_ns = 1004}, 3},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct seen s = {0};
        assert_int_equal(twin_ledger_runs(l, &row[i].f, see_run, &s, NULL), 0);
        if (s.n != row[i].n)
            fail_msg("row %zu: %zu runs, expected %zu", i, s.n, row[i].n);
    }
    struct seen s = {0};
    assert_int_equal(
        twin_ledger_runs(l, &(struct twin_ledger_filter){.limit = 1}, see_run, &s, NULL), 0);
    assert_int_equal(s.start, 1019); /* the newest first */
    s = (struct seen){0};
    assert_int_equal(twin_ledger_comparisons(l, runs[1], NULL, see_comparison, &s, NULL), 0);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.runs, 3);
    assert_int_equal(s.step, 7);
    assert_string_equal(s.state, "differ");
    assert_string_equal(s.cause, "threads");
    s = (struct seen){0};
    assert_int_equal(twin_ledger_comparisons(l, NULL, "python b.py", see_comparison, &s, NULL), 0);
    assert_int_equal(s.n, 0);
    assert_int_equal(twin_ledger_comparisons(l, NULL, "python a.py", see_comparison, &s, NULL), 0);
    assert_int_equal(s.n, 1);
    struct twin_ledger_counts n;
    assert_int_equal(twin_ledger_count(l, &n, NULL), 0);
    assert_true(n.runs == 20 && n.versions == 20 && n.comparisons == 1 && n.artifacts == 0);
    twin_ledger_close(l);
}

static void any_text(void **state)
{
    (void)state;
    char id[33], *large = malloc(200001);
    memset(large, 'x', 200000);
    large[200000] = '\0';
    struct twin_ledger *l = opened();
    static const char *const text[] = {"'; DROP TABLE runs; --", "\xff\xfe", "a\nb\"c\\",
                                       "$1 ?1 :a", "\xc3\xa4"};
    for (int i = 0; i < 6; i++) {
        struct twin_ledger_run r = run_of(i, id);
        r.command = i < 5 ? text[i] : large;
        r.label = NULL;
        assert_int_equal(
            twin_ledger_put_run(l, &r, &(struct twin_ledger_artifact){r.command, "file", "00", 1},
                                1, NULL),
            0);
    }
    struct seen s = {0};
    assert_int_equal(twin_ledger_run(l, id_of(1, id), false, see_run, &s, NULL), 0);
    assert_string_equal(s.command, "\\xff\\xfe");
    s = (struct seen){0};
    assert_int_equal(twin_ledger_run(l, id_of(0, id), false, see_run, &s, NULL), 0);
    assert_string_equal(s.command, text[0]);
    s = (struct seen){0};
    assert_int_equal(twin_ledger_runs(l, &(struct twin_ledger_filter){0}, see_run, &s, NULL), 0);
    assert_int_equal(s.n, 6);
    twin_ledger_close(l);
    free(large);
}

/* ---- migration */

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

/* ---- facts, events, agreement: what service levels are counted from */

/* What a walk over runs with facts, and over events, found. */
struct counted {
    size_t runs, bare, events;
    char project[64], subject[64];
    double loss;
    int64_t calls;
};

static int see_history(void *user, const struct twin_ledger_run *r,
                       const struct twin_ledger_facts *f)
{
    struct counted *c = user;
    assert_non_null(r->id);
    c->runs++;
    c->bare += f == NULL;
    if (f) {
        snprintf(c->project, sizeof c->project, "%s", f->project);
        c->loss = f->loss;
        c->calls = f->nondeterministic;
    }
    return 0;
}

static int see_event(void *user, const struct twin_ledger_event *e)
{
    struct counted *c = user;
    c->events++;
    snprintf(c->subject, sizeof c->subject, "%s", e->subject);
    return 0;
}

static void facts_and_events(void **state)
{
    (void)state;
    struct twin_ledger *l = opened();
    char id[33], other[33];
    struct twin_ledger_run r = run_of(1, id), bare = run_of(2, other);
    struct twin_ledger_facts f = {
        .run_id = id, .project = "a\x01\x1b[31m", .nondeterministic = 7, .loss = NAN};
    struct twin_ledger_event e = {
        .id = id, .time_ns = 5, .kind = "audit", .outcome = "pass", .subject = "code"};
    struct counted c = {.loss = 1};
    assert_int_equal(twin_ledger_put_run(l, &r, NULL, 0, NULL), 0);
    assert_int_equal(twin_ledger_put_run(l, &bare, NULL, 0, NULL), 0);
    assert_int_equal(twin_ledger_put_facts(l, &f, NULL), 0);
    f.project = "another"; /* written once */
    assert_int_equal(twin_ledger_put_facts(l, &f, NULL), 0);
    assert_int_equal(twin_ledger_put_event(l, &e, NULL), 0);
    assert_int_equal(twin_ledger_put_event(l, &e, NULL), 0);
    assert_int_equal(twin_ledger_history(l, NULL, INT64_MIN, see_history, &c, NULL), 0);
    assert_true(c.runs == 2 && c.bare == 1 && isnan(c.loss) && c.calls == 7);
    assert_string_equal(c.project, "a\\x01\\x1b[31m"); /* any bytes, as text */
    assert_int_equal(twin_ledger_events(l, 5, see_event, &c, NULL), 0);
    assert_true(c.events == 1 && strcmp(c.subject, "code") == 0);
    assert_int_equal(twin_ledger_events(l, 6, see_event, &c, NULL), 0);
    assert_int_equal(c.events, 1);
    c.runs = 0;
    assert_int_equal(twin_ledger_history(l, "elsewhere", INT64_MIN, see_history, &c, NULL), 0);
    assert_int_equal(twin_ledger_history(l, NULL, 1002, see_history, &c, NULL), 0);
    assert_int_equal(c.runs, 1); /* the second began at 1002 */
    twin_ledger_close(l);
}

/* What see_agreement() expects and how often it was called. */
static int see_agreement(void *user, const struct twin_ledger_comparison *c)
{
    ++*(size_t *)user;
    assert_true(c->repeats && c->run_count == 3);
    assert_int_equal(c->agreed[0], TWIN_AGREED_NOT_SAID);
    assert_int_equal(c->agreed[1], TWIN_AGREED);
    assert_int_equal(c->agreed[2], TWIN_AGREED_NOT);
    assert_string_equal(c->layer, "forward");
    assert_true(c->checkpoints.compared == 4 && c->checkpoints.same == 2 &&
                c->checkpoints.unknown == 1 && c->checkpoints.missing == 3);
    return 0;
}

static void agreement(void **state)
{
    (void)state;
    struct twin_ledger *l = opened();
    char a[33], b[33], d[33];
    const char *ids[] = {id_of(1, a), id_of(2, b), id_of(3, d)};
    const enum twin_ledger_agreed agreed[] = {TWIN_AGREED_NOT_SAID, TWIN_AGREED, TWIN_AGREED_NOT};
    const struct twin_ledger_comparison c = {.id = a,
                                             .time_ns = 10,
                                             .verb = "check",
                                             .outcome = "differ",
                                             .layer = "forward",
                                             .repeats = true,
                                             .checkpoints = {4, 2, 1, 3},
                                             .run_id = ids,
                                             .agreed = agreed,
                                             .run_count = 3};
    size_t n = 0;
    assert_int_equal(twin_ledger_put_comparison(l, &c, NULL), 0);
    assert_int_equal(twin_ledger_comparisons_since(l, 10, see_agreement, &n, NULL), 0);
    assert_int_equal(twin_ledger_comparisons_since(l, 11, see_agreement, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(twin_agreed_of("of a newer twinrun"), TWIN_AGREED_NOT_SAID);
    twin_ledger_close(l);
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

/* ---- many at once */

enum { WRITERS = 8, RUNS = 50 };

static int writer(int number)
{
    char id[33], pair[33];
    for (int i = 0; i < RUNS; i++) {
        struct twin_ledger *l = NULL;
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_ledger_run r = run_of(number * RUNS + i, id), shared = run_of(100000, pair);
        /* each makes another version of one run */
        shared.records = (uint64_t)(number * RUNS + i + 1000);
        /* as each command does; the first ones make the database */
        int rc = twin_ledger_open(home, url, &l, &err);
        struct twin_ledger_artifact a = {"w.pt", "checkpoint", "aa", 1};
        rc = rc ? rc : twin_ledger_put_run(l, &r, &a, 1, &err);
        rc = rc ? rc : twin_ledger_put_run(l, &shared, NULL, 0, &err);
        const char *runs[] = {r.id};
        struct twin_ledger_comparison c = {.id = r.id,
                                           .verb = "check",
                                           .command = "x",
                                           .outcome = "same",
                                           .first = "",
                                           .cause = "",
                                           .run_id = runs,
                                           .run_count = 1};
        rc = rc ? rc : twin_ledger_put_comparison(l, &c, &err);
        twin_ledger_close(l);
        if (rc != 0) {
            fprintf(stderr, "writer %d, run %d: %s\n", number, i, err.message);
            return 1;
        }
    }
    return 0;
}

static void writers(void **state)
{
    (void)state;
    pid_t child[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0)
            _exit(writer(i));
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = -1;
        waitpid(child[i], &status, 0);
        assert_int_equal(status, 0);
    }
    struct twin_ledger *l = opened();
    struct twin_ledger_counts n;
    char pair[33];
    assert_int_equal(twin_ledger_count(l, &n, NULL), 0);
    assert_int_equal(n.runs, WRITERS * RUNS + 1);
    assert_int_equal(n.comparisons, WRITERS * RUNS);
    assert_int_equal(n.artifacts, WRITERS * RUNS);
    struct seen s = {0};
    assert_int_equal(twin_ledger_run(l, id_of(100000, pair), true, see_run, &s, NULL), 0);
    assert_int_equal(s.n, WRITERS * RUNS); /* no version was lost, none written twice */
    assert_int_equal(s.last.version, WRITERS * RUNS);
    twin_ledger_close(l);
}

/* ---- trouble */

static void broken(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = NULL;
    char *path = tw_path_join(home, "ledger.db");
    if (url) { /* nobody listens there */
        assert_int_equal(
            twin_ledger_open(home, "postgresql://ana:s3cr%65t@127.0.0.1:1/x?connect_timeout=2", &l,
                             &err),
            TWIN_EIO);
        assert_null(strstr(err.message, "s3cr"));
        assert_non_null(strstr(err.message, "postgresql://127.0.0.1:1/x"));
        err = (struct twin_error)TWIN_ERROR_INIT;
        assert_int_equal(twin_ledger_open(home, "postgresql://ana:s3cret%zz@h/x", &l, &err),
                         TWIN_EINVAL);
        assert_null(strstr(err.message, "s3cr"));
        struct tw_db *db = raw(); /* a database that has another ledger_schema */
        sql(db, "CREATE TABLE ledger_schema (a TEXT)");
        db->ops->close(db);
        err = (struct twin_error)TWIN_ERROR_INIT;
        assert_int_equal(twin_ledger_open(home, url, &l, &err), TWIN_EFORMAT);
    } else {
        assert_int_equal(tw_write_file_atomic(path,
                                              "this is no database, but it is long enough to be "
                                              "one, isn't it? ...................................",
                                              100, NULL),
                         0);
        assert_int_equal(twin_ledger_open(home, NULL, &l, &err), TWIN_EFORMAT);
        assert_non_null(strstr(err.message, "moved away"));
        unlink(path);
        twin_ledger_close(opened());
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        FILE *f = fopen(path, "r+"); /* every page but the first is noise */
        for (long at = 4096; at < st.st_size; at++) {
            fseek(f, at, SEEK_SET);
            fputc((int)(at * 7 % 251), f);
        }
        fclose(f);
        char id[33];
        struct twin_ledger_run r = run_of(1, id);
        err = (struct twin_error)TWIN_ERROR_INIT;
        int rc = twin_ledger_open(home, NULL, &l, &err);
        rc = rc ? rc : twin_ledger_put_run(l, &r, NULL, 0, &err);
        assert_int_equal(rc, TWIN_EFORMAT);
        twin_ledger_close(l);
        unlink(path);
        assert_int_equal(mkdir(path, 0777), 0);
        err = (struct twin_error)TWIN_ERROR_INIT;
        assert_int_equal(twin_ledger_open(home, NULL, &l, &err), TWIN_EIO);
    }
    assert_int_equal(twin_ledger_open(home, "mysql://ana:s3cret@h/x", &l, &err), TWIN_EINVAL);
    assert_null(strstr(err.message, "s3cret"));
    assert_int_equal(twin_ledger_open(home, "none", &l, NULL), TWIN_EUNSUPPORTED);
    assert_true(twin_ledger_off("none") && !twin_ledger_off("postgresql://h/x"));
    tw_free(path);
}

static void no_memory(void **state)
{
    (void)state;
    char id[33];
    struct twin_ledger_run r = run_of(1, id);
    struct twin_ledger_artifact a = {"w.pt", "checkpoint", "aa", 1};
    const char *runs[] = {id};
    struct twin_ledger_comparison c = {.id = id,
                                       .verb = "check",
                                       .command = "x",
                                       .outcome = "same",
                                       .first = "",
                                       .cause = "",
                                       .run_id = runs,
                                       .run_count = 1};
    twin_ledger_close(opened());
    for (uint64_t n = 1;; n++) {
        struct twin_ledger *l = NULL;
        struct twin_error err = TWIN_ERROR_INIT;
        struct seen s = {0};
        tw_alloc_fail_at(n, true);
        int rc = twin_ledger_open(home, url, &l, &err);
        rc = rc ? rc : twin_ledger_put_run(l, &r, &a, 1, &err);
        rc = rc ? rc : twin_ledger_put_comparison(l, &c, &err);
        rc = rc ? rc : twin_ledger_comparisons(l, NULL, NULL, see_comparison, &s, &err);
        tw_alloc_fail_at(0, false);
        twin_ledger_close(l);
        assert_true(rc == 0 || err.message[0]);
        if (rc == 0) {
            assert_true(n > 10);
            break;
        }
    }
}

/* ---- who only reads */

struct listed {
    int64_t start[64];
    size_t n, with_facts;
};

static int list_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    struct listed *s = user;
    assert_true(s->n < 64);
    s->start[s->n++] = r->start_ns;
    s->with_facts += f != NULL;
    return 0;
}

static int list_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct listed *s = user;
    assert_true(s->n < 64);
    assert_true(c->run_count > 0);
    s->start[s->n++] = c->time_ns;
    return 0;
}

static struct twin_ledger *opened_to_read(void)
{
    struct twin_ledger *l = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_ledger_open_to_read(home, url, &l, &err) != 0)
        fail_msg("twin_ledger_open_to_read: %s", err.message);
    return l;
}

/* Runs 0 to 19, every fifth of project "q"; those of one time differ by id alone. Comparison i is
 * of run i. */
static void fill_pages(struct twin_ledger *l)
{
    char id[33], comparison[33];
    assert_int_equal(twin_ledger_begin(l, NULL), 0);
    for (int i = 0; i < 20; i++) {
        struct twin_ledger_run r = run_of(i, id);
        r.start_ns = 1000 + i / 2;
        r.command = i % 2 ? "python 100%_a[1].py" : "python 100x_a1.py";
        r.state = i == 7 ? "exit 1" : "ok";
        assert_int_equal(twin_ledger_put_run(l, &r, NULL, 0, NULL), 0);
        const struct twin_ledger_facts f = {.run_id = id, .project = i % 5 ? "p" : "q"};
        if (i != 19)
            assert_int_equal(twin_ledger_put_facts(l, &f, NULL), 0);
        const char *runs[] = {id};
        snprintf(comparison, sizeof comparison, "%032x", 100 + i);
        struct twin_ledger_comparison c = {.id = comparison,
                                           .time_ns = 2000 + i,
                                           .verb = i % 4 ? "check" : "isolate",
                                           .command = r.command,
                                           .outcome = i % 3 ? "same" : "differ",
                                           .run_id = runs,
                                           .run_count = 1};
        assert_int_equal(twin_ledger_put_comparison(l, &c, NULL), 0);
    }
    assert_int_equal(twin_ledger_end(l, true, NULL), 0);
}

static size_t count_runs(struct twin_ledger *l, struct twin_ledger_page p)
{
    struct listed s = {.n = 0};
    struct twin_ledger_place next;
    p.limit = p.limit ? p.limit : 30;
    assert_int_equal(twin_ledger_page_of_runs(l, &p, list_run, &s, &next, NULL), 0);
    return s.n;
}

static size_t count_comparisons(struct twin_ledger *l, struct twin_ledger_page p)
{
    struct listed s = {.n = 0};
    struct twin_ledger_place next;
    p.limit = p.limit ? p.limit : 30;
    assert_int_equal(twin_ledger_page_of_comparisons(l, &p, list_comparison, &s, &next, NULL), 0);
    return s.n;
}

static void pages(void **state)
{
    (void)state;
    struct twin_ledger *l = opened();
    fill_pages(l);
    struct listed s = {.n = 0};
    struct twin_ledger_place next;
    struct twin_ledger_page p = {.limit = 7};
    size_t rounds = 0;
    char id[33];
    do {
        struct twin_ledger_place at;
        assert_int_equal(twin_ledger_page_of_runs(l, &p, list_run, &s, &at, NULL), 0);
        next = at;
        p.before_ns = next.time_ns;
        p.before_id = next.id;
        /* what comes meanwhile is newer than any page that is still to come */
        struct twin_ledger_run late = run_of(50 + (int)rounds, id);
        late.start_ns = 9000;
        assert_int_equal(twin_ledger_put_run(l, &late, NULL, 0, NULL), 0);
    } while (next.more && ++rounds < 9);
    assert_int_equal(rounds, 2);
    assert_int_equal(s.n, 20);
    assert_int_equal(s.with_facts, 19);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(s.start[i], 1000 + (19 - (int)i) / 2);
    assert_int_equal(count_runs(l, (struct twin_ledger_page){.project = "q"}), 4);
    assert_int_equal(count_runs(l, (struct twin_ledger_page){.outcome = "exit 1"}), 1);
    assert_int_equal(count_runs(l, (struct twin_ledger_page){.outcome = "differ"}), 7);
    assert_int_equal(count_runs(l, (struct twin_ledger_page){.command = "*100%_a[[]1].py"}), 10);
    assert_int_equal(count_runs(l, (struct twin_ledger_page){.command = "*100?_a1.py"}), 10);
    assert_int_equal(count_runs(l, (struct twin_ledger_page){.command = "PYTHON*"}), 0);
    assert_int_equal(count_runs(l, (struct twin_ledger_page){.since_ns = 1009}), 2 + rounds + 1);
    assert_int_equal(count_comparisons(l, (struct twin_ledger_page){.verb = "isolate"}), 5);
    assert_int_equal(count_comparisons(l, (struct twin_ledger_page){.outcome = "differ"}), 7);
    assert_int_equal(count_comparisons(l, (struct twin_ledger_page){.project = "q"}), 4);
    assert_int_equal(count_comparisons(l, (struct twin_ledger_page){.since_ns = 2018}), 2);
    assert_int_equal(count_comparisons(l, (struct twin_ledger_page){.limit = 3}), 3);
    s = (struct listed){.n = 0};
    assert_int_equal(twin_ledger_run_with_facts(l, id_of(3, id), list_run, &s, NULL), 0);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.with_facts, 1);
    twin_ledger_close(l);
}

static void reading_only(void **state)
{
    (void)state;
    char id[33], before[TWIN_LEDGER_MARK_BYTES], after[TWIN_LEDGER_MARK_BYTES];
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *none = NULL;
    if (!url) {
        assert_int_equal(twin_ledger_open_to_read(home, url, &none, &err), TWIN_ENOENT);
        assert_null(none);
    }
    struct twin_ledger *writer = opened();
    fill_pages(writer);
    struct twin_ledger *l = opened_to_read();
    struct twin_ledger_run r = run_of(77, id);
    assert_int_not_equal(twin_ledger_put_run(l, &r, NULL, 0, NULL), 0);
    assert_int_equal(twin_ledger_change(l, before, NULL), 0);
    assert_int_equal(twin_ledger_put_run(writer, &r, NULL, 0, NULL), 0);
    assert_int_equal(twin_ledger_change(l, after, NULL), 0);
    assert_string_not_equal(before, after);
    struct listed s = {.n = 0};
    const int64_t now = tw_realtime_ns();
    assert_int_equal(twin_ledger_news(l, now - (int64_t)600 * 1000000000, 40, list_run,
                                      list_comparison, &s, NULL),
                     0);
    assert_int_equal(s.n, 41);
    twin_ledger_close(l);
    twin_ledger_close(writer);
}

static void gone_while_read(void **state)
{
    (void)state;
    char mark[TWIN_LEDGER_MARK_BYTES], *path = tw_path_join(home, "ledger.db");
    if (url)
        skip();
    twin_ledger_close(opened());
    struct twin_ledger *l = opened_to_read();
    assert_int_equal(twin_ledger_change(l, mark, NULL), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_not_equal(twin_ledger_change(l, mark, NULL), 0);
    twin_ledger_close(opened());
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_ledger_change(l, mark, &err), TWIN_EIO);
    assert_non_null(strstr(err.message, "replaced"));
    twin_ledger_close(l);
    tw_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(versions, fresh, done),
        cmocka_unit_test_setup_teardown(filters, fresh, done),
        cmocka_unit_test_setup_teardown(any_text, fresh, done),
        cmocka_unit_test_setup_teardown(from_version_1, fresh, done),
        cmocka_unit_test_setup_teardown(golden_version_1, fresh, done),
        cmocka_unit_test_setup_teardown(from_version_2, fresh, done),
        cmocka_unit_test_setup_teardown(facts_and_events, fresh, done),
        cmocka_unit_test_setup_teardown(agreement, fresh, done),
        cmocka_unit_test_setup_teardown(newer, fresh, done),
        cmocka_unit_test_setup_teardown(half_migrated, fresh, done),
        cmocka_unit_test_setup_teardown(writers, fresh, done),
        cmocka_unit_test_setup_teardown(broken, fresh, done),
        cmocka_unit_test_setup_teardown(pages, fresh, done),
        cmocka_unit_test_setup_teardown(reading_only, fresh, done),
        cmocka_unit_test_setup_teardown(gone_while_read, fresh, done),
        cmocka_unit_test_setup_teardown(no_memory, fresh, done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
