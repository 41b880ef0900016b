/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: what is put into it and read again, by many at once, and what breaks. */
#include "ledger_test.h"

#include <sys/stat.h>
#include <sys/wait.h>

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

/* ---- facts, events, agreement: what service levels are counted from */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(versions, fresh, done),
        cmocka_unit_test_setup_teardown(filters, fresh, done),
        cmocka_unit_test_setup_teardown(any_text, fresh, done),
        cmocka_unit_test_setup_teardown(facts_and_events, fresh, done),
        cmocka_unit_test_setup_teardown(agreement, fresh, done),
        cmocka_unit_test_setup_teardown(writers, fresh, done),
        cmocka_unit_test_setup_teardown(broken, fresh, done),
        cmocka_unit_test_setup_teardown(no_memory, fresh, done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
