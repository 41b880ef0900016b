/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger for who only reads: pages of it, whether it changed, what is new. */
#include "ledger_test.h"

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

/* What a walk over new rows saw, and what a tally of it would be. */
struct new_rows {
    int64_t count[TWIN_LEDGER_KINDS], times[TWIN_LEDGER_KINDS], compared, newest_ns;
    size_t bare;
};

static void add_new(struct new_rows *w, enum twin_ledger_kind kind, int64_t recorded_ns)
{
    w->count[kind]++;
    w->times[kind] += twin_ledger_remainder(recorded_ns);
    w->newest_ns = recorded_ns > w->newest_ns ? recorded_ns : w->newest_ns;
}

static int new_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    ((struct new_rows *)user)->bare += f == NULL;
    add_new(user, TWIN_LEDGER_RUNS, r->recorded_ns);
    return 0;
}

static int new_facts(void *user, const struct twin_ledger_facts *f)
{
    assert_true(f->run_id[0] && f->project[0]);
    add_new(user, TWIN_LEDGER_FACTS, f->recorded_ns);
    return 0;
}

static int new_comparison(void *user, const struct twin_ledger_comparison *c)
{
    ((struct new_rows *)user)->compared += (int64_t)c->run_count;
    add_new(user, TWIN_LEDGER_COMPARISONS, c->recorded_ns);
    return 0;
}

static int new_event(void *user, const struct twin_ledger_event *e)
{
    add_new(user, TWIN_LEDGER_EVENTS, e->recorded_ns);
    return 0;
}

static struct new_rows rows_since(struct twin_ledger *l, int64_t recorded_ns)
{
    static const struct twin_ledger_recorder to = {new_run, new_facts, new_comparison, new_event};
    struct new_rows w = {.newest_ns = INT64_MIN};
    assert_int_equal(twin_ledger_recorded(l, recorded_ns, &to, &w, NULL), 0);
    return w;
}

static void tally_is_of(const struct twin_ledger_tally *t, const struct new_rows *w)
{
    assert_memory_equal(t->count, w->count, sizeof t->count);
    assert_memory_equal(t->times, w->times, sizeof t->times);
    assert_int_equal(t->compared, w->compared);
    assert_int_equal(t->newest_ns, w->newest_ns);
}

/* The tally is that of all rows, added up here; "since" leaves out what was written before; and
 * what others write during a look is seen by the next one. */
static void recorded(void **state)
{
    (void)state;
    char id[33];
    struct twin_ledger_tally t, again;
    struct twin_ledger *writer = opened();
    struct twin_ledger *l = opened_to_read();
    assert_int_equal(twin_ledger_tally(l, &t, NULL), 0);
    assert_true(t.count[TWIN_LEDGER_RUNS] == 0 && t.newest_ns == INT64_MIN);
    fill_pages(writer);
    struct tw_db *db = raw(); /* by a clock that is before 1970, and one of the next century */
    sql(db, "INSERT INTO events (id, recorded_ns, time_ns, kind, outcome, subject, project, "
            "family, contributor, run_id) VALUES ('e', -1500000000123456789, 1, 'audit', 'pass', "
            "'code', '', '', '', ''), ('f', 4102444800000000001, 1, 'audit', 'pass', 'code', '', "
            "'', '', '')");
    db->ops->close(db);
    assert_int_equal(twin_ledger_begin_to_read(l, NULL), 0);
    assert_int_equal(twin_ledger_tally(l, &t, NULL), 0);
    const int64_t middle_ns = tw_realtime_ns();
    struct twin_ledger_run r = run_of(3, id);
    r.gone = true; /* a second version */
    assert_int_equal(twin_ledger_put_run(writer, &r, NULL, 0, NULL), 0);
    const struct new_rows all = rows_since(l, INT64_MIN);
    assert_true(all.count[TWIN_LEDGER_RUNS] == 20 && all.count[TWIN_LEDGER_FACTS] == 19 &&
                all.count[TWIN_LEDGER_COMPARISONS] == 20 && all.count[TWIN_LEDGER_EVENTS] == 2 &&
                all.bare == 1);
    tally_is_of(&t, &all);
    assert_int_equal(t.newest_ns, 4102444800000000001);
    assert_int_equal(twin_ledger_end(l, true, NULL), 0);
    assert_int_equal(twin_ledger_tally(l, &again, NULL), 0);
    const struct new_rows then = rows_since(l, INT64_MIN), late = rows_since(l, middle_ns);
    tally_is_of(&again, &then);
    assert_int_equal(then.count[TWIN_LEDGER_RUNS], 21);
    assert_true(late.count[TWIN_LEDGER_RUNS] == 1 && late.count[TWIN_LEDGER_FACTS] == 0 &&
                late.count[TWIN_LEDGER_COMPARISONS] == 0 && late.count[TWIN_LEDGER_EVENTS] == 1);
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
        cmocka_unit_test_setup_teardown(pages, fresh, done),
        cmocka_unit_test_setup_teardown(reading_only, fresh, done),
        cmocka_unit_test_setup_teardown(recorded, fresh, done),
        cmocka_unit_test_setup_teardown(gone_while_read, fresh, done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
