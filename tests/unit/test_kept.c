/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A history that is kept is the one that would be loaded: after each look of drawn
 * sequences of inserts, late facts, new versions, deletions, renamed projects, clocks that jump and
 * starts of the server all fields are compared, and to the last bit what is counted and computed.
 * On SQLite, and, some sequences, on PostgreSQL when TW_LEDGER_TEST_URL names a server
 * (tests/agents/test_ledger.py starts one).
 */
#include "slo_inside.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "base.h"
#include "db.h"
#include "sanitized.h"

enum {
    SEQUENCES = SANITIZED ? 200 : 1000,
    SEQUENCES_IN_FULL = 5000,
    SEQUENCES_ON_A_SERVER = 20,
    STEPS_MOST = 12,
    SHOWN_EACH = 4, /* equal histories are shown alike; that is looked at sometimes */
    IDS = 24
};
static const int64_t S_NS = 1000000000, START_NS = (int64_t)1700000000 * 1000000000;

/* Runs that were made so long before a window are read by `slo`, too: less than what it takes. */
static const int64_t LOOK_BACK_NS = (int64_t)80 * 86400 * 1000000000;

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed += 0x9e3779b97f4a7c15u;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

/* ---- a ledger */

static char home[64];
static char *url;
static struct twin_ledger *reader;
static struct tw_db *writer;
static int64_t now_ns; /* by the watcher's clock */
static unsigned made;  /* comparisons and events so far: their ids */

static void open_ledger(const char *server)
{
    static int number;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = NULL;
    snprintf(home, sizeof home, "/tmp/twin-kept-XXXXXX");
    assert_non_null(mkdtemp(home));
    if (server) {
        char text[100];
        assert_int_equal(tw_db_postgres(server, false, &writer, &err), 0);
        snprintf(text, sizeof text, "CREATE SCHEMA k%d_%d", (int)getpid(), ++number);
        assert_int_equal(writer->ops->run(writer, text, NULL, 0, NULL, NULL, &err), 0);
        writer->ops->close(writer);
        url = tw_printf("%s%coptions=-csearch_path%%3Dk%d_%d", server,
                        strchr(server, '?') ? '&' : '?', (int)getpid(), number);
    }
    if (twin_ledger_open(home, url, &l, &err) != 0)
        fail_msg("%s", err.message);
    twin_ledger_close(l);
    char *path = tw_path_join(home, "ledger.db");
    assert_int_equal(url ? tw_db_postgres(url, false, &writer, &err)
                         : tw_db_sqlite(path, false, &writer, &err),
                     0);
    tw_free(path);
    assert_int_equal(twin_ledger_open_to_read(home, url, &reader, &err), 0);
    if (!server) /* nothing here has to survive a power failure */
        assert_int_equal(
            writer->ops->run(writer, "PRAGMA synchronous = OFF", NULL, 0, NULL, NULL, &err), 0);
}

static void close_ledger(void)
{
    twin_ledger_close(reader);
    writer->ops->close(writer);
    tw_remove_tree(home, NULL, NULL);
    tw_free(url);
    url = NULL;
}

static void run_sql(const char *text)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (writer->ops->run(writer, text, NULL, 0, NULL, NULL, &err) != 0)
        fail_msg("%s: %s", text, err.message);
}

/* When a row is written down: mostly now, sometimes by a clock that is minutes, hours or days off
 * in either direction. */
static long long recorded(void)
{
    static const int64_t off_s[] = {0, 0, 0, 0, -20, -1800, -86400, 30, 86400};
    return (long long)(now_ns + off_s[draw(sizeof off_s / sizeof *off_s)] * S_NS +
                       (int64_t)draw(1000));
}

static const char *run_name(void)
{
    static char id[3][33];
    static unsigned at;
    char *x = id[at++ % 3];
    snprintf(x, 33, "%032x", (unsigned)draw(IDS) * 7919u);
    return x;
}

/* The next version of a run, or its first one. */
static void put_run(void)
{
    char text[700];
    const char *id = run_name();
    snprintf(text, sizeof text,
             "INSERT INTO runs (id, version, recorded_ns, home, name, label, command, argv, host, "
             "state, exit_code, start_ns, wall_s, steps, records, dropped, gone) SELECT '%s', "
             "(SELECT COALESCE(MAX(version), 0) + 1 FROM runs WHERE id = '%s'), %lld, '/h%d', 'r', "
             "'', 'train %d', '[]', 'node%d', '%s', 0, %lld, %d, 10, %d, 0, 0",
             id, id, recorded(), (int)draw(2), (int)draw(3), (int)draw(2),
             draw(4) ? "ok" : "exit 1", (long long)(START_NS + (int64_t)draw(100) * 3600 * S_NS),
             (int)draw(50), (int)draw(2));
    run_sql(text);
}

static void put_facts(void)
{
    static const char *const loss[] = {"NULL", "0.5", "0.25", "1"};
    char text[600];
    const char *id = run_name();
    snprintf(text, sizeof text,
             "INSERT INTO facts (run_id, recorded_ns, project, family, contributor, sweep, inputs, "
             "ci, snapshots, deterministic, nondeterministic, loss) SELECT '%s', %lld, 'p%d', "
             "'f%d', 'c%d', 's/%d', 'i%d', %d, %d, %d, %d, %s WHERE NOT EXISTS (SELECT 1 FROM "
             "facts WHERE run_id = '%s')",
             id, recorded(), (int)draw(4), (int)draw(2), (int)draw(2), (int)draw(2), (int)draw(2),
             (int)draw(2), (int)draw(2), (int)draw(3) - 1, (int)draw(3) - 1, loss[draw(4)], id);
    run_sql(text);
}

static void put_comparison(void)
{
    static const char *const outcome[] = {"same", "differ", "inconclusive", "isolated"};
    static const char *const verb[] = {"check", "diff", "gate", "isolate"};
    static const char *const agreed[] = {"", "agrees", "differs", "unknown"};
    char text[700];
    const unsigned id = made++;
    snprintf(text, sizeof text,
             "INSERT INTO comparisons (id, recorded_ns, time_ns, verb, command, outcome, first, "
             "first_step, cause, layer, repeats, checkpoints, checkpoints_same, "
             "checkpoints_unknown, checkpoints_missing) VALUES ('%032x', %lld, %lld, '%s', 'train "
             "%d', '%s', 'step %d', -1, '%s', 'loss', %d, %d, %d, 0, %d)",
             id * 2654435761u, recorded(), (long long)(START_NS + (int64_t)draw(60) * 3600 * S_NS),
             verb[draw(4)], (int)draw(3), outcome[draw(4)], (int)draw(3), draw(2) ? "seed" : "",
             (int)draw(2), (int)draw(4) - 1, (int)draw(2), (int)draw(2));
    run_sql("BEGIN");
    run_sql(text);
    const unsigned runs = (unsigned)draw(4);
    for (unsigned i = 0; i < runs; i++) {
        snprintf(text, sizeof text,
                 "INSERT INTO compared (comparison_id, place, run_id, agreed) VALUES ('%032x', %u, "
                 "'%s', '%s')",
                 id * 2654435761u, i, run_name(), agreed[draw(4)]);
        run_sql(text);
    }
    run_sql("COMMIT");
}

static void put_event(void)
{
    static const char *const said[] = {"'snapshot', 'mismatch'", "'rollback', 'failed'",
                                       "'artifact', 'open'", "'audit', 'pass'"};
    char text[500];
    snprintf(text, sizeof text,
             "INSERT INTO events (id, recorded_ns, time_ns, kind, outcome, subject, project, "
             "family, contributor, run_id) VALUES ('%032x', %lld, %lld, %s, 's', 'p%d', 'f', 'c', "
             "'%s')",
             made++ * 2654435761u, recorded(),
             (long long)(START_NS + (int64_t)draw(60) * 3600 * S_NS), said[draw(4)], (int)draw(4),
             run_name());
    run_sql(text);
}

/* We never delete; somebody may, by hand. */
static void delete_some(void)
{
    static const char *const from[] = {
        "DELETE FROM runs WHERE id = '%s'",
        "DELETE FROM runs WHERE id = '%s' AND version > 1",
        "DELETE FROM facts WHERE run_id = '%s'",
        "DELETE FROM compared WHERE run_id = '%s'",
        "DELETE FROM events WHERE run_id = '%s'",
        "DELETE FROM comparisons WHERE id IN (SELECT comparison_id FROM compared WHERE run_id = "
        "'%s' AND place = 0)",
    };
    char text[200];
    snprintf(text, sizeof text, from[draw(sizeof from / sizeof *from)], run_name());
    run_sql(text);
}

static void write_some(void)
{
    const unsigned rows = (unsigned)draw(6);
    for (unsigned i = 0; i < rows; i++) {
        const unsigned what = (unsigned)draw(40);
        if (what < 13)
            put_run();
        else if (what < 22)
            put_facts();
        else if (what < 33)
            put_comparison();
        else if (what < 38)
            put_event();
        else
            delete_some();
    }
}

/* ---- equal */

static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void runs_equal(const struct tw_slo_history *a, const struct tw_slo_history *b)
{
    assert_int_equal(a->runs, b->runs);
    for (size_t i = 0; i < a->runs; i++) {
        const struct slo_run *x = &a->run[i], *y = &b->run[i];
        const char *const p[] = {x->id,      x->command, x->host,        x->home,  x->state,
                                 x->project, x->family,  x->contributor, x->sweep, x->inputs};
        const char *const q[] = {y->id,      y->command, y->host,        y->home,  y->state,
                                 y->project, y->family,  y->contributor, y->sweep, y->inputs};
        for (size_t k = 0; k < sizeof p / sizeof *p; k++)
            assert_string_equal(p[k], q[k]);
        const int64_t m[] = {x->start_ns,
                             x->snapshots,
                             x->deterministic,
                             x->nondeterministic,
                             x->version,
                             (int64_t)x->steps,
                             (int64_t)x->records,
                             x->recorded,
                             x->known,
                             x->ci};
        const int64_t n[] = {y->start_ns,
                             y->snapshots,
                             y->deterministic,
                             y->nondeterministic,
                             y->version,
                             (int64_t)y->steps,
                             (int64_t)y->records,
                             y->recorded,
                             y->known,
                             y->ci};
        assert_memory_equal(m, n, sizeof m);
        assert_true(same_number(x->wall_s, y->wall_s) && same_number(x->loss, y->loss));
    }
}

static void comparisons_equal(const struct tw_slo_history *a, const struct tw_slo_history *b)
{
    assert_int_equal(a->comparisons, b->comparisons);
    for (size_t i = 0; i < a->comparisons; i++) {
        const struct slo_comparison *x = &a->comparison[i], *y = &b->comparison[i];
        const char *const p[] = {x->id,    x->verb,  x->command, x->outcome,
                                 x->first, x->cause, x->layer};
        const char *const q[] = {y->id,    y->verb,  y->command, y->outcome,
                                 y->first, y->cause, y->layer};
        for (size_t k = 0; k < sizeof p / sizeof *p; k++)
            assert_string_equal(p[k], q[k]);
        assert_int_equal(x->time_ns, y->time_ns);
        assert_int_equal(x->repeats, y->repeats);
        assert_memory_equal(&x->checkpoints, &y->checkpoints, sizeof x->checkpoints);
        assert_int_equal(x->count, y->count);
        for (size_t k = 0; k < x->count; k++) {
            assert_int_equal(x->run[k], y->run[k]);
            assert_int_equal(x->agreed[k], y->agreed[k]);
        }
    }
    assert_int_equal(a->isolations, b->isolations);
    for (size_t i = 0; i < a->isolations; i++)
        assert_int_equal(a->isolated[i], b->isolated[i]);
}

static void events_equal(const struct tw_slo_history *a, const struct tw_slo_history *b)
{
    assert_int_equal(a->happenings, b->happenings);
    for (size_t i = 0; i < a->happenings; i++) {
        const struct slo_happened *x = &a->happened[i], *y = &b->happened[i];
        const char *const p[] = {x->id,      x->kind,   x->outcome,     x->subject,
                                 x->project, x->family, x->contributor, x->run};
        const char *const q[] = {y->id,      y->kind,   y->outcome,     y->subject,
                                 y->project, y->family, y->contributor, y->run};
        for (size_t k = 0; k < sizeof p / sizeof *p; k++)
            assert_string_equal(p[k], q[k]);
        assert_int_equal(x->time_ns, y->time_ns);
    }
}

/* To the last bit: both went through the same additions in the same order. */
static void same_bits(double a, double b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

static void rows_equal(const struct tw_slo_rows *p, const struct tw_slo_rows *q)
{
    assert_int_equal(p->count, q->count);
    for (size_t i = 0; i < p->count; i++) {
        const struct tw_slo_row *x = &p->row[i], *y = &q->row[i];
        assert_string_equal(x->name, y->name);
        assert_string_equal(x->subject, y->subject);
        assert_string_equal(x->why, y->why);
        const uint64_t m[] = {x->id,      x->scope,   x->state, x->unit,   x->at_least,
                              x->good,    x->bad,     x->runs,  x->needed, x->burned_count,
                              x->unknown, x->limited, x->own};
        const uint64_t n[] = {y->id,      y->scope,   y->state, y->unit,   y->at_least,
                              y->good,    y->bad,     y->runs,  y->needed, y->burned_count,
                              y->unknown, y->limited, y->own};
        assert_memory_equal(m, n, sizeof m);
        same_bits(x->value, y->value);
        same_bits(x->interval.low, y->interval.low);
        same_bits(x->interval.high, y->interval.high);
        same_bits(x->p90, y->p90);
        same_bits(x->target, y->target);
        same_bits(x->window_s, y->window_s);
        same_bits(x->budget, y->budget);
        same_bits(x->left, y->left);
        for (size_t k = 0; k < x->burned_count; k++) {
            assert_string_equal(x->burned[k].run, y->burned[k].run);
            assert_string_equal(x->burned[k].project, y->burned[k].project);
            assert_string_equal(x->burned[k].cause, y->burned[k].cause);
            assert_int_equal(x->burned[k].time_ns, y->burned[k].time_ns);
            assert_int_equal(x->burned[k].count, y->burned[k].count);
        }
    }
}

static void rows_of(const struct tw_slo_history *h, const struct tw_slo_targets *t,
                    int64_t until_ns, struct tw_slo_rows *out)
{
    assert_int_equal(tw_slo_compute(h, t, until_ns, out, NULL), 0);
    assert_true(out->count > 0);
}

/* The rows of `slo` at a drawn end of the windows, which may cut through what is there at either
 * end: from what is kept, as the server makes them, and from what of the ledger is in the window,
 * as `slo` does (it leaves out runs that were made long before, and so the names that only these
 * have). */
static void indicators_equal(const struct tw_slo_history *h)
{
    struct tw_slo_rows p, q;
    struct tw_slo_targets t;
    struct tw_slo_history *whole;
    bool old = false;
    assert_int_equal(tw_slo_targets_default(&t, NULL), 0);
    const int64_t window_h = draw(2) ? 30 * 24 : 0;
    const int64_t until_ns = START_NS + (window_h + (int64_t)draw(70)) * 3600 * S_NS;
    const int64_t since_ns = tw_slo_since(&t, until_ns);
    for (size_t i = 0; i < h->runs; i++)
        old = old || (h->run[i].recorded && h->run[i].start_ns < since_ns - LOOK_BACK_NS);
    struct tw_slo_history *newer = tw_slo_history_newer(h, since_ns);
    assert_non_null(newer);
    assert_int_equal(tw_slo_history_load(reader, NULL, old ? INT64_MIN : since_ns, &whole, NULL),
                     0);
    struct tw_slo_history *other = tw_slo_history_newer(whole, since_ns);
    assert_non_null(other);
    rows_of(newer, &t, until_ns, &p);
    rows_of(other, &t, until_ns, &q);
    rows_equal(&p, &q);
    tw_slo_rows_free(&p);
    tw_slo_rows_free(&q);
    tw_slo_history_newer_free(newer);
    tw_slo_history_newer_free(other);
    tw_slo_history_free(whole);
    tw_slo_targets_free(&t);
}

static void counters_equal(const struct tw_slo_counter *x, const struct tw_slo_counter *y, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        assert_int_equal(x[k].n, y[k].n);
        assert_string_equal(x[k].run, y[k].run);
        assert_int_equal(x[k].time_ns, y[k].time_ns);
        same_bits(x[k].value, y[k].value);
    }
}

/* What is shown: counters of each project, and the rows of `slo`. */
static void shown_equal(const struct tw_slo_history *a, const struct tw_slo_history *b)
{
    struct tw_slo_counted x, y;
    assert_int_equal(tw_slo_count(a, &x, NULL), 0);
    assert_int_equal(tw_slo_count(b, &y, NULL), 0);
    assert_int_equal(x.count, y.count);
    for (size_t i = 0; i < x.count; i++) {
        assert_string_equal(x.project[i].name, y.project[i].name);
        assert_int_equal(x.project[i].first_ns, y.project[i].first_ns);
        same_bits(x.project[i].duration_sum, y.project[i].duration_sum);
        counters_equal(x.project[i].count, y.project[i].count, TW_COUNTS);
        counters_equal(x.project[i].duration, y.project[i].duration, TW_SLO_BUCKETS + 1);
    }
    tw_slo_counted_free(&x);
    tw_slo_counted_free(&y);
    indicators_equal(a);
}

/* One look, held against all that is there. Returns what the look did. */
static enum tw_slo_look look(struct tw_slo_kept *k)
{
    const struct tw_slo_history *h;
    struct tw_slo_history *whole;
    struct twin_error err = TWIN_ERROR_INIT;
    enum tw_slo_look what = TW_SLO_LOOK_SAME;
    if (tw_slo_kept_look(k, reader, now_ns, &h, &what, &err) != 0 ||
        tw_slo_history_load(reader, NULL, INT64_MIN, &whole, &err) != 0)
        fail_msg("%s", err.message);
    runs_equal(h, whole);
    comparisons_equal(h, whole);
    events_equal(h, whole);
    static unsigned looks;
    if (looks++ % SHOWN_EACH == 0)
        shown_equal(h, whole);
    tw_slo_history_free(whole);
    return what;
}

static void clear(void)
{
    static const char *const table[] = {"runs", "facts", "comparisons", "compared", "events"};
    char text[40];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        snprintf(text, sizeof text, "DELETE FROM %s", table[i]);
        run_sql(text);
    }
}

/* Sometimes: the server starts again, its clock jumps, or somebody changes rows in place, which is
 * seen some hours later. Returns whether all has to be read. */
static bool happen(struct tw_slo_kept **k)
{
    char text[100];
    switch (draw(32)) {
    case 0:
        tw_slo_kept_free(*k);
        *k = tw_slo_kept_new();
        assert_non_null(*k);
        return true;
    case 1: now_ns += 86400 * S_NS; return true;
    case 2: now_ns -= (int64_t)draw(7200) * S_NS; return false;
    case 3:
        snprintf(text, sizeof text, "UPDATE facts SET project = 'q%d' WHERE project = 'p%d'",
                 (int)draw(2), (int)draw(4));
        run_sql(text);
        now_ns += 7 * 3600 * S_NS;
        return true;
    case 4:
        snprintf(text, sizeof text, "UPDATE runs SET state = 'exit 9', wall_s = 77 WHERE id = '%s'",
                 run_name());
        run_sql(text);
        now_ns += 7 * 3600 * S_NS;
        return true;
    default: return false;
    }
}

/* A sequence of looks with writes between them; its number is its seed. */
static void sequence(unsigned number, size_t did[3])
{
    struct tw_slo_kept *k = tw_slo_kept_new();
    assert_non_null(k);
    seed = number;
    made = 0;
    const unsigned steps = 2 + (unsigned)draw(STEPS_MOST - 1);
    now_ns = START_NS + (int64_t)100 * 3600 * S_NS;
    clear();
    for (unsigned i = 0; i < steps; i++) {
        now_ns += (int64_t)draw(200) * S_NS;
        write_some();
        const bool anew = happen(&k);
        const enum tw_slo_look what = look(k);
        assert_true(!anew || what == TW_SLO_LOOK_LOADED);
        did[what]++;
    }
    tw_slo_kept_free(k);
}

static void test_kept_is_what_is_loaded(void **state)
{
    const char *server = getenv("TW_LEDGER_TEST_URL");
    const unsigned here = getenv("TWINRUN_FULL") ? SEQUENCES_IN_FULL : SEQUENCES;
    const unsigned sequences = server ? SEQUENCES_ON_A_SERVER : here;
    size_t did[3] = {0};
    (void)state;
    open_ledger(server);
    for (unsigned i = 0; i < sequences; i++)
        sequence(i, did);
    close_ledger();
    print_message("looks: %zu same, %zu added, %zu loaded\n", did[TW_SLO_LOOK_SAME],
                  did[TW_SLO_LOOK_ADDED], did[TW_SLO_LOOK_LOADED]);
    /* each way was tried, and the one that is cheap often */
    assert_true(did[TW_SLO_LOOK_SAME] >= sequences / 10);
    assert_true(did[TW_SLO_LOOK_ADDED] >= sequences);
    assert_true(did[TW_SLO_LOOK_LOADED] >= sequences);
}

/* What a writer with a right clock adds is read without a load, whatever it is. */
static void test_what_is_new_is_added(void **state)
{
    struct tw_slo_kept *k = tw_slo_kept_new();
    char text[600];
    (void)state;
    assert_non_null(k);
    open_ledger(NULL);
    now_ns = START_NS;
    assert_int_equal(look(k), TW_SLO_LOOK_LOADED);
    assert_int_equal(look(k), TW_SLO_LOOK_SAME);
    for (int i = 0; i < 6; i++) {
        static const char *const row[] = {
            /* a comparison that names runs which come later, and facts before their run */
            "INSERT INTO comparisons (id, recorded_ns, time_ns, verb, command, outcome, first, "
            "first_step) VALUES ('c', %lld, 5, 'check', 'x', 'same', '', -1)",
            "INSERT INTO facts (run_id, recorded_ns, project, family, contributor, sweep, inputs, "
            "ci, snapshots, deterministic, nondeterministic, loss) VALUES ('m', %lld, 'p', '', '', "
            "'', '', 0, 1, 1, 0, NULL)",
            "INSERT INTO runs (id, version, recorded_ns, home, name, label, command, argv, host, "
            "state, exit_code, start_ns, wall_s, steps, records, dropped, gone) VALUES ('m', 1, "
            "%lld, '', '', '', 'x', '', '', 'ok', 0, -7, 1, 1, 1, 0, 0)",
            "INSERT INTO runs (id, version, recorded_ns, home, name, label, command, argv, host, "
            "state, exit_code, start_ns, wall_s, steps, records, dropped, gone) VALUES ('a', 1, "
            "%lld, '', '', '', 'x', '', '', 'ok', 0, 7, 1, 1, 1, 0, 0)",
            "INSERT INTO runs (id, version, recorded_ns, home, name, label, command, argv, host, "
            "state, exit_code, start_ns, wall_s, steps, records, dropped, gone) VALUES ('m', 2, "
            "%lld, '', '', '', 'x', '', '', 'exit 1', 1, 7, 1, 1, 1, 0, 1)",
            "INSERT INTO events (id, recorded_ns, time_ns, kind, outcome, subject, project, "
            "family, contributor, run_id) VALUES ('e', %lld, 1, 'audit', 'fail', '', '', '', '', "
            "'')",
        };
        now_ns += 10 * S_NS;
        snprintf(text, sizeof text, row[i], (long long)now_ns);
        run_sql("BEGIN");
        run_sql(text);
        if (i == 0)
            run_sql("INSERT INTO compared (comparison_id, place, run_id, agreed) VALUES ('c', 0, "
                    "'z', ''), ('c', 1, 'm', 'agrees'), ('c', 2, 'a', 'differs')");
        run_sql("COMMIT");
        assert_int_equal(look(k), TW_SLO_LOOK_ADDED);
        assert_int_equal(look(k), TW_SLO_LOOK_SAME);
    }
    /* one that went and one that came with the same number of rows */
    run_sql("DELETE FROM events");
    snprintf(text, sizeof text,
             "INSERT INTO events (id, recorded_ns, time_ns, kind, outcome, subject, project, "
             "family, contributor, run_id) VALUES ('old', %lld, 1, 'audit', 'pass', '', '', '', "
             "'', '')",
             (long long)(now_ns - 90000 * S_NS));
    run_sql(text);
    assert_int_equal(look(k), TW_SLO_LOOK_LOADED);
    /* what somebody changed in place is seen some hours later */
    run_sql("UPDATE runs SET state = 'ok'");
    now_ns += 7 * 3600 * S_NS;
    assert_int_equal(look(k), TW_SLO_LOOK_LOADED);
    close_ledger();
    tw_slo_kept_free(k);
}

/* The rows before, and those behind, which are the same each time. */
static void fill_small(void)
{
    clear();
    seed = 5;
    made = 0;
    now_ns = START_NS;
    for (int i = 0; i < 3; i++) {
        put_run();
        put_facts();
        put_comparison();
        put_event();
    }
}

/* Each allocation fails, and all behind it, at a look that loads and at one that adds: an error,
 * no leak, and the next look is right. */
static void without_memory(bool adds)
{
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        const struct tw_slo_history *h;
        struct twin_error err = TWIN_ERROR_INIT;
        enum tw_slo_look what = TW_SLO_LOOK_SAME;
        struct tw_slo_kept *k = tw_slo_kept_new();
        assert_non_null(k);
        fill_small();
        if (adds) {
            assert_int_equal(tw_slo_kept_look(k, reader, now_ns, &h, &what, &err), 0);
            fill_small();
            put_run();
            put_facts();
            put_comparison();
            put_event();
        }
        tw_alloc_fail_at(n, true);
        const int rc = tw_slo_kept_look(k, reader, now_ns, &h, &what, &err);
        tw_alloc_fail_at(0, false);
        failed = rc != 0;
        assert_true(!failed || (rc == TWIN_ENOMEM && !h));
        look(k);
        tw_slo_kept_free(k);
        assert_true(n < 1000);
    }
}

static void test_without_memory(void **state)
{
    (void)state;
    open_ledger(NULL);
    without_memory(false);
    without_memory(true);
    close_ledger();
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_what_is_new_is_added),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_kept_is_what_is_loaded),
    };
    const struct CMUnitTest server[] = {
        cmocka_unit_test(test_kept_is_what_is_loaded),
    };
    if (getenv("TW_LEDGER_TEST_URL"))
        return cmocka_run_group_tests(server, NULL, NULL);
    return cmocka_run_group_tests(all, NULL, NULL);
}
