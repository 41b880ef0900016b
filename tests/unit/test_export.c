/* SPDX-License-Identifier: Apache-2.0 */
/* Export where something fails: without memory, interrupted, and into a folder that cannot be. What
 * the tables hold is tested by tests/agents/test_export.py. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base.h"
#include "export.h"
#include "trackers.h"
#include "synth.h"

static struct twin_run *run;
static char folder[300];

static int set_up(void **state)
{
    struct synth_model m;
    synth_model_init(&m, 6);
    *state = synth_train_run("export", &m);
    run = (struct twin_run *)(uintptr_t)synth_done(*state);
    snprintf(folder, sizeof folder, "%s/tables", run->dir);
    return 0;
}

static int tear_down(void **state)
{
    synth_free(*state);
    return 0;
}

/* How many files the folder has, whatever their names. */
static int files(void)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static int export(const struct tw_front *front, bool replace, struct twin_error *err)
{
    struct tw_export_counts counts;
    const struct tw_export_options o = {.folder = folder, .replace = replace};
    return tw_export_parquet(&run, 1, &o, front, &counts, err);
}

/* What both tables hold, one behind the other; the caller frees it. */
static char *tables(size_t *bytes)
{
    static const char *const names[] = {"records.parquet", "steps.parquet"};
    char *all = NULL;
    *bytes = 0;
    for (size_t i = 0; i < 2; i++) {
        char path[340], *text;
        size_t n;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(tw_read_file(path, SIZE_MAX, &text, &n, NULL), 0);
        all = realloc(all, *bytes + n + 1);
        memcpy(all + *bytes, text, n);
        *bytes += n;
        tw_free(text);
    }
    return all;
}

/* Every allocation fails once, and once with all after it: both files or none, no leftovers, and
 * the same tables where it goes on without (a cache that only saves time). */
static void without_memory(void **state)
{
    (void)state;
    size_t bytes, again;
    tw_remove_tree(folder, NULL, NULL);
    assert_int_equal(export(NULL, false, NULL), 0);
    char *whole = tables(&bytes);
    for (int forever = 0; forever < 2; forever++) {
        bool last = false; /* none of the allocations failed */
        for (uint64_t n = 1; !last; n++) {
            struct twin_error err = TWIN_ERROR_INIT;
            tw_remove_tree(folder, NULL, NULL);
            const uint64_t before = tw_alloc_count();
            tw_alloc_fail_at(n, forever);
            const int rc = export(NULL, false, &err);
            tw_alloc_fail_at(0, false);
            last = tw_alloc_count() - before < n;
            assert_int_equal(files(), rc == 0 ? 2 : 0);
            assert_true(rc == 0 || (rc == TWIN_ENOMEM && !last));
            if (rc == 0) {
                char *found = tables(&again);
                assert_int_equal(again, bytes);
                assert_memory_equal(found, whole, bytes);
                free(found);
            }
            assert_true(n < 100000);
        }
    }
    free(whole);
}

static bool at_once(void *user)
{
    (void)user;
    return true;
}

static void interrupted(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    tw_remove_tree(folder, NULL, NULL);
    assert_int_equal(export(&(struct tw_front){.stop = at_once}, false, &err), TWIN_EINTR);
    assert_int_equal(files(), 0);
}

static void not_unasked(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    tw_remove_tree(folder, NULL, NULL);
    assert_int_equal(export(NULL, false, &err), 0);
    assert_int_equal(export(NULL, false, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "records.parquet is there already: --force"));
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(export(NULL, true, &err), 0);
    assert_int_equal(files(), 2);
    assert_int_equal(tw_remove_tree(folder, NULL, NULL), 0);
    assert_int_equal(tw_write_file_atomic(folder, "x", 1, NULL), 0);
    assert_true(export(NULL, true, &err) < 0);
}

/* The second table cannot get its name, which a folder has: the first one is as it was. */
static void both_or_neither(void **state)
{
    char records[400], steps[400], *text = NULL;
    size_t length = 0;
    struct twin_error err = TWIN_ERROR_INIT;
    (void)state;
    tw_remove_tree(folder, NULL, NULL);
    snprintf(records, sizeof records, "%s/records.parquet", folder);
    snprintf(steps, sizeof steps, "%s/steps.parquet", folder);
    assert_int_equal(tw_mkdirs(steps, NULL), 0);
    assert_true(export(NULL, true, &err) < 0);
    assert_int_equal(files(), 1);
    assert_int_not_equal(access(records, F_OK), 0);
    assert_int_equal(tw_write_file_atomic(records, "mine", 4, NULL), 0);
    assert_true(export(NULL, true, &err) < 0);
    assert_int_equal(files(), 2);
    assert_int_equal(tw_read_file(records, 100, &text, &length, NULL), 0);
    assert_int_equal(length, 4);
    assert_memory_equal(text, "mine", 4);
    tw_free(text);
    assert_int_equal(rmdir(steps), 0);
    assert_int_equal(export(NULL, true, &err), 0); /* and now it replaces */
    assert_int_equal(files(), 2);
    assert_int_equal(access(steps, F_OK), 0);
}

/* What trackers are told of a run: all of it, or nothing for lack of memory. */
static void facts_without_memory(void **state)
{
    (void)state;
    json_t *whole = tw_trackers_facts(run, NULL);
    assert_non_null(whole);
    const json_t *process = json_array_get(json_object_get(whole, "processes"), 0);
    assert_true(json_array_size(json_object_get(process, "steps")) > 0);
    for (int forever = 0; forever < 2; forever++) {
        json_t *facts = NULL;
        for (uint64_t n = 1; !facts; n++) {
            const uint64_t before = tw_alloc_count();
            tw_alloc_fail_at(n, forever);
            facts = tw_trackers_facts(run, NULL);
            tw_alloc_fail_at(0, false);
            if (facts) {
                assert_true(json_equal(facts, whole));
                assert_true(tw_alloc_count() - before < n);
            }
            assert_true(n < 100000);
        }
        json_decref(facts);
    }
    const struct tw_front front = {.stop = at_once};
    assert_null(tw_trackers_facts(run, &front));
    json_decref(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory),  cmocka_unit_test(facts_without_memory),
        cmocka_unit_test(interrupted),     cmocka_unit_test(not_unasked),
        cmocka_unit_test(both_or_neither),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
