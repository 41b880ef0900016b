/* SPDX-License-Identifier: Apache-2.0 */
/* What is written to the ledger: runs and comparisons of a home, and catching up with them. */
#include "src/ledger/noted.h"
#include "src/ledger/noted_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

static char folder[64];
static char home[96];

static int enter(void **state)
{
    (void)state;
    unsetenv("TWINRUN_LEDGER");
    snprintf(folder, sizeof folder, "/tmp/twin-noted-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    snprintf(home, sizeof home, "%s/home", folder);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    tw_remove_tree(folder, NULL, NULL);
    return 0;
}

/* A run of a job that writes two files, one of them a checkpoint by its name. */
static struct twin_run *run_in(const char *where)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)"echo 1 >a.pt; echo 2 >b.txt; exit 3",
                    NULL};
    struct twin_launch_options o = {.argv = argv, .home = where, .window_last = UINT32_MAX};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *r = NULL;
    if (twin_launch(&o, &r, &err) != 0)
        fail_msg("%s", err.message);
    return r;
}

/* How often live was called, with and without a run. */
struct heard {
    size_t live, unreadable;
};

static void hear(void *user, const char *dir, const struct twin_run *r,
                 const struct twin_error *err)
{
    struct heard *h = user;
    assert_non_null(dir);
    assert_true(r || err->code != 0);
    h->live += r != NULL;
    h->unreadable += r == NULL;
}

static struct twin_ledger *caught_up(struct heard *h)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = NULL;
    if (tw_ledger_catch_up(home, NULL, hear, h, &l, &err) != 0)
        fail_msg("%s", err.message);
    assert_non_null(l);
    return l;
}

static struct twin_ledger_counts counts_of(struct twin_ledger *l)
{
    struct twin_ledger_counts c;
    assert_int_equal(twin_ledger_count(l, &c, NULL), 0);
    return c;
}

static int keep_state(void *user, const struct twin_ledger_run *r)
{
    snprintf(user, 64, "%s%s", r->state, r->gone ? ", gone" : "");
    return 0;
}

static void state_is(const char *id, const char *expected)
{
    char state[64] = "";
    struct heard h = {0};
    struct twin_ledger *l = caught_up(&h);
    assert_int_equal(twin_ledger_run(l, id, false, keep_state, state, NULL), 0);
    assert_string_equal(state, expected);
    twin_ledger_close(l);
}

static int count_checkpoints(void *user, const struct twin_ledger_artifact *a)
{
    *(size_t *)user += strcmp(a->kind, "checkpoint") == 0;
    return 0;
}

static void test_folders_come_and_go(void **state)
{
    (void)state;
    struct heard h = {0};
    struct twin_run *r = run_in(home);
    char *aside = tw_path_join(folder, "aside");
    struct twin_ledger *l = caught_up(&h);
    struct twin_ledger_counts c = counts_of(l);
    size_t checkpoints = 0;
    assert_int_equal(c.runs, 1);
    assert_int_equal(c.artifacts, 2);
    assert_int_equal(twin_ledger_artifacts(l, r->id, count_checkpoints, &checkpoints, NULL), 0);
    assert_int_equal(checkpoints, 1);
    twin_ledger_close(l);
    /* nothing is written twice */
    l = caught_up(&h);
    assert_int_equal(counts_of(l).versions, 1);
    twin_ledger_close(l);
    state_is(r->id, "exit 3");
    assert_int_equal(rename(r->dir, aside), 0);
    state_is(r->id, "exit 3, gone");
    assert_int_equal(rename(aside, r->dir), 0);
    state_is(r->id, "exit 3");
    assert_int_equal(h.live + h.unreadable, 0);
    tw_free(aside);
    twin_run_free(r);
}

static void test_a_damaged_run_is_told_and_left(void **state)
{
    (void)state;
    struct heard h = {0};
    struct twin_run *r = run_in(home);
    char *json = tw_path_join(r->dir, "run.json");
    assert_int_equal(tw_write_file_atomic(json, "{", 1, NULL), 0);
    struct twin_ledger *l = caught_up(&h);
    assert_int_equal(h.unreadable, 1);
    assert_int_equal(counts_of(l).runs, 0);
    twin_ledger_close(l);
    tw_free(json);
    twin_run_free(r);
}

static int keep_first(void *user, const struct twin_ledger_comparison *c)
{
    snprintf(user, 200, "%s | %s | %s | %lld | %zu", c->verb, c->command, c->first,
             (long long)c->first_step, c->run_count);
    return 0;
}

/* A comparison of a run of this home with one of another home: the second one is not written, the
 * comparison outlives the database. */
static void test_a_comparison_outlives_its_database(void **state)
{
    (void)state;
    char *other = tw_path_join(folder, "other"), *db = tw_path_join(home, "ledger.db");
    struct twin_run *a = run_in(home), *b = run_in(other);
    const struct twin_run *const runs[] = {a, b};
    const struct twin_finding f = {.type = TWIN_FINDING_VALUE,
                                   .step_a = 7,
                                   .rank = 1,
                                   .phase = TWIN_PHASE_BACKWARD,
                                   .kind = TWIN_KIND_GRADIENT,
                                   .name = "fc.weight",
                                   .op = "aten::mm"};
    struct tw_noted n = {.home = home,
                         .verb = "diff",
                         .command = "python train.py --token=hunter2",
                         .outcome = "differ",
                         .first = &f,
                         .runs = runs,
                         .count = 2};
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_ledger_write(&n, &err) != 0)
        fail_msg("%s", err.message);
    for (int again = 0; again < 2; again++) {
        char text[200] = "";
        struct heard h = {0};
        struct twin_ledger *l = caught_up(&h);
        assert_int_equal(counts_of(l).runs, 1);
        assert_int_equal(counts_of(l).comparisons, 1);
        assert_int_equal(twin_ledger_comparisons(l, a->id, NULL, keep_first, text, NULL), 0);
        assert_true(tw_starts(text, "diff | python train.py --token=[redacted:"));
        assert_null(strstr(text, "hunter2"));
        assert_true(
            tw_ends(text, "] | step 7, rank 1, backward gradient fc.weight, aten::mm | 7 | 2"));
        twin_ledger_close(l);
        assert_int_equal(unlink(db), 0);
    }
    twin_run_free(a);
    twin_run_free(b);
    tw_free(other);
    tw_free(db);
}

/* Which runs of a verdict agree is read from its classes; what was not compared whole is not
 * known. */
static void test_who_agrees(void **state)
{
    (void)state;
    size_t first[] = {0, 1}, second[] = {2};
    struct twin_class classes[] = {{.members = 2, .runs = first}, {.members = 1, .runs = second}};
    struct twin_verdict v = {.outcome = TWIN_DIFFER, .classes = classes, .class_count = 2};
    enum twin_ledger_agreed a[4];
    tw_agreed_of(&v, 4, a);
    assert_true(a[0] == TWIN_AGREED_NOT_SAID && a[1] == TWIN_AGREED && a[2] == TWIN_AGREED_NOT);
    assert_int_equal(a[3], TWIN_AGREED_UNKNOWN); /* in no class */
    classes[0].unsure = true;
    tw_agreed_of(&v, 3, a);
    assert_int_equal(a[1], TWIN_AGREED_UNKNOWN);
    v.outcome = TWIN_INCONCLUSIVE;
    tw_agreed_of(&v, 3, a);
    assert_true(a[1] == TWIN_AGREED_UNKNOWN && a[2] == TWIN_AGREED_UNKNOWN);
    v.outcome = TWIN_WITHIN_TOLERANCE;
    tw_agreed_of(&v, 3, a);
    assert_true(a[1] == TWIN_AGREED && a[2] == TWIN_AGREED);
}

static struct twin_run_file file_of(const char *path, const char *sha256)
{
    struct twin_run_file f = {.path = (char *)(uintptr_t)path};
    snprintf(f.sha256, sizeof f.sha256, "%s", sha256);
    return f;
}

/* Equal bytes match, and so does what the verdict calls benign; a file that was not read is not
 * known, one that only one run wrote is missing, and what is no checkpoint does not count. */
static void test_checkpoints_are_counted(void **state)
{
    (void)state;
    struct twin_run_file x[] = {file_of("a.pt", "1"), file_of("b.pt", "1"), file_of("c.pt", "1"),
                                file_of("d.pt", "1"), file_of("e.pt", ""),  file_of("t.txt", "1")};
    struct twin_run_file y[] = {file_of("a.pt", "1"), file_of("b.pt", "2"), file_of("c.pt", "2"),
                                file_of("f.pt", "1"), file_of("e.pt", ""),  file_of("t.txt", "2")};
    struct twin_run a = {.files = x, .file_count = 6}, b = {.files = y, .file_count = 6};
    const struct twin_run *const runs[] = {&a, &b};
    struct twin_finding benign = {.run_b = 1,
                                  .text = (char *)(uintptr_t) "b.pt: file bytes differ, tensors "
                                                              "equal"};
    struct twin_verdict v = {.outcome = TWIN_DIFFER, .benign = &benign, .benign_count = 1};
    struct twin_ledger_checkpoints c = tw_checkpoints_of(&v, runs, 2);
    assert_true(c.compared == 4 && c.same == 2 && c.unknown == 1 && c.missing == 2);
    char *unseen[] = {(char *)(uintptr_t) "c.pt: file bytes differ, and its format is not read"};
    v.unseen = unseen;
    v.unseen_count = 1;
    c = tw_checkpoints_of(&v, runs, 2);
    assert_true(c.same == 2 && c.unknown == 2);
}

/* An event is a file, too, from which a new database knows it again. */
static int count_event(void *user, const struct twin_ledger_event *e)
{
    *(size_t *)user += strcmp(e->kind, "audit") == 0 && strcmp(e->project, "vision") == 0 &&
                       strstr(e->subject, "hunter2") == NULL;
    return 0;
}

static void test_an_event_outlives_its_database(void **state)
{
    (void)state;
    const struct twin_ledger_event e = {
        .kind = "audit", .outcome = "pass", .subject = "--token=hunter2"};
    char *db = tw_path_join(home, "ledger.db");
    assert_int_equal(tw_ledger_write_event(home, NULL, &e, NULL), 0); /* no home: nothing */
    assert_int_not_equal(access(home, F_OK), 0);
    twin_run_free(run_in(home));
    setenv("TWINRUN_PROJECT", "vision", 1);
    assert_int_equal(tw_ledger_write_event(home, NULL, &e, NULL), 0);
    unsetenv("TWINRUN_PROJECT");
    for (int again = 0; again < 2; again++) {
        struct heard h = {0};
        size_t n = 0;
        struct twin_ledger *l = caught_up(&h);
        assert_int_equal(twin_ledger_events(l, 0, count_event, &n, NULL), 0);
        assert_int_equal(n, 1);
        twin_ledger_close(l);
        assert_int_equal(unlink(db), 0);
    }
    tw_free(db);
}

static void test_no_ledger_is_no_trouble(void **state)
{
    (void)state;
    struct twin_ledger *l = (struct twin_ledger *)folder;
    struct twin_run *r = run_in(home);
    const struct twin_run *const runs[] = {r};
    const struct tw_noted n = {.home = home, .url = "none", .runs = runs, .count = 1};
    char *db = tw_path_join(home, "ledger.db");
    assert_int_equal(tw_ledger_write(&n, NULL), 0);
    assert_int_equal(tw_ledger_catch_up(home, "none", NULL, NULL, &l, NULL), 0);
    assert_null(l);
    assert_int_equal(tw_ledger_catch_up("/nowhere", NULL, NULL, NULL, &l, NULL), 0);
    assert_null(l);
    assert_int_not_equal(access(db, F_OK), 0);
    tw_free(db);
    twin_run_free(r);
}

static void test_a_shared_ledger_names_homes(void **state)
{
    (void)state;
    char *own = tw_ledger_home("/srv/home", NULL), *shared = tw_ledger_home("/srv/home", "x://y");
    assert_string_equal(own, "");
    assert_true(tw_ends(shared, ":/srv/home"));
    tw_free(own);
    tw_free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_folders_come_and_go, enter, leave),
        cmocka_unit_test_setup_teardown(test_a_damaged_run_is_told_and_left, enter, leave),
        cmocka_unit_test_setup_teardown(test_a_comparison_outlives_its_database, enter, leave),
        cmocka_unit_test_setup_teardown(test_who_agrees, enter, leave),
        cmocka_unit_test_setup_teardown(test_checkpoints_are_counted, enter, leave),
        cmocka_unit_test_setup_teardown(test_an_event_outlives_its_database, enter, leave),
        cmocka_unit_test_setup_teardown(test_no_ledger_is_no_trouble, enter, leave),
        cmocka_unit_test_setup_teardown(test_a_shared_ledger_names_homes, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
