/* SPDX-License-Identifier: Apache-2.0 */
/* What is gathered of two runs for an incident document, and what stays open where a run kept no
 * record of its world (src/report/evidence/incident_facts.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "incident_facts.h"

static char home[] = "/tmp/twin-incident-XXXXXX";

static int make_home(void **state)
{
    (void)state;
    return mkdtemp(home) ? 0 : -1;
}

static int remove_home(void **state)
{
    (void)state;
    tw_remove_tree(home, NULL, NULL);
    return 0;
}

/* A run folder whose record of the world is the golden one with one text in place of another.
 * from NULL: it has none. */
static char *run_folder(const char *name, const char *from, const char *to)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *dir = tw_path_join(home, name), *path = tw_path_join(dir, "provenance.json"), *text;
    size_t bytes;
    assert_int_equal(tw_mkdirs(dir, &err), 0);
    if (from) {
        assert_int_equal(
            tw_read_file(GOLDEN "/provenance/v1-two-ranks.json", 1 << 20, &text, &bytes, &err), 0);
        char *at = strstr(text, from);
        assert_non_null(at);
        char *changed = tw_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
        assert_int_equal(tw_write_file_atomic(path, changed, strlen(changed), &err), 0);
        tw_free(changed);
        tw_free(text);
    }
    tw_free(path);
    return dir;
}

#define COMMIT "20122afca851b410de294d94e9c55f9a0bf40962"

static char *train[] = {"python", "train.py", "--name", "a b", NULL};
static char *other[] = {"python", "other.py", NULL};

static void two_worlds(void **state)
{
    (void)state;
    struct twin_run a = {.argv = train, .argc = 4, .dir = run_folder("a", COMMIT, COMMIT)};
    struct twin_run b = {.argv = train,
                         .argc = 4,
                         .dir = run_folder("b", COMMIT, "3333333333333333333333333333333333333333"),
                         .exit_code = 3};
    struct twin_run *const runs[2] = {&a, &b};
    struct twin_verdict v = {.outcome = TWIN_SAME};
    struct tw_incident_case c;
    tw_incident_open(&c, runs);
    assert_true(c.x.same_command);
    assert_string_equal(c.x.command, "python train.py --name 'a b'");
    tw_incident_gather(&c, &v, home, NULL);
    assert_ptr_equal(c.x.verdict, &v);
    assert_true(c.x.world_known);
    assert_string_equal(c.x.side[0].code, "20122afca851 and changes that were not committed");
    assert_string_equal(c.x.side[0].state, "ok");
    assert_string_equal(c.x.side[1].state, "exit 3");
    /* The commit is the one difference; with the same files in it that counts little. */
    assert_int_equal(c.x.world_count, 1);
    assert_string_equal(c.x.world[0].group, "code");
    assert_string_equal(c.x.world[0].power, "low");
    assert_int_equal(c.x.parted_ns, 0);
    assert_int_equal(c.x.hint_count, 0);
    tw_incident_close(&c);
    tw_free(a.dir);
    tw_free(b.dir);
}

/* The branch is a name: it changes no result, and is no difference of the worlds. */
static void names_do_not_count(void **state)
{
    (void)state;
    struct twin_run a = {
        .argv = train, .argc = 4, .dir = run_folder("c", "\"master\"", "\"main\"")};
    struct twin_run b = {.argv = other, .argc = 2, .dir = run_folder("d", COMMIT, COMMIT)};
    struct twin_run *const runs[2] = {&a, &b};
    struct twin_verdict v = {.outcome = TWIN_SAME};
    struct tw_incident_case c;
    tw_incident_open(&c, runs);
    assert_false(c.x.same_command);
    assert_string_equal(c.x.command, "python train.py --name 'a b'");
    tw_incident_gather(&c, &v, home, NULL);
    assert_true(c.x.world_known);
    assert_int_equal(c.x.world_count, 0);
    tw_incident_close(&c);
    tw_free(a.dir);
    tw_free(b.dir);
}

/* A run of an older version kept no record: its world is not known, which is said as such. */
static void one_world_is_not_known(void **state)
{
    (void)state;
    struct twin_run a = {.argv = train, .argc = 4, .dir = run_folder("e", COMMIT, COMMIT)};
    struct twin_run b = {.argv = train, .argc = 4, .dir = run_folder("f", NULL, NULL)};
    struct twin_run *const runs[2] = {&a, &b};
    struct twin_verdict v = {.outcome = TWIN_SAME};
    struct tw_incident_case c;
    char *text = NULL;
    tw_incident_open(&c, runs);
    tw_incident_gather(&c, &v, home, NULL);
    assert_false(c.x.world_known);
    assert_int_equal(c.x.world_count, 0);
    assert_string_equal(c.x.side[1].code, "");
    assert_int_equal(twin_incident_markdown(&c.x, &text, NULL), 0);
    assert_non_null(strstr(text, "python train.py"));
    tw_free(text);
    tw_incident_close(&c);
    tw_free(a.dir);
    tw_free(b.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_worlds),
        cmocka_unit_test(names_do_not_count),
        cmocka_unit_test(one_world_is_not_known),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
