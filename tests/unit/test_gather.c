/* SPDX-License-Identifier: Apache-2.0 */
/* Gathering where memory is short, or the person wants an end: all of the run, or nothing. What is
 * put together and what is refused: tests/cli/cases/gather. */
#include "gather.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "trace_helper.h"

static char *part[2], *into;

static void put(const char *dir, const char *name, const char *text)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *path = tw_path_join(dir, name);
    if (tw_write_file_atomic(path, text, strlen(text), &err) != 0)
        fail_msg("%s", err.message);
    tw_free(path);
}

/* A run folder with one trace of a rank of two. */
static char *make_part(int rank)
{
    char name[32], text[2000];
    struct twin_error err = TWIN_ERROR_INIT;
    snprintf(name, sizeof name, "node%d", rank);
    char *dir = tw_strdup(scratch_path(name)), *ranks = tw_path_join(dir, "ranks");
    char *worlds = tw_path_join(dir, "worlds");
    assert_int_equal(tw_mkdirs(ranks, &err), 0);
    assert_int_equal(tw_mkdirs(worlds, &err), 0);
    snprintf(
        text, sizeof text,
        "{\"schema\": \"twinrun.run/1\", \"id\": \"%032d\", \"label\": \"\", \"argv\": "
        "[\"job\"], \"cwd\": \"/\", \"launched_from\": \"/\", \"host\": \"n%d\", "
        "\"start_realtime_ns\": 1000, \"level\": \"tensors\", \"window\": [0, 4294967295], "
        "\"max_steps\": 0, \"sketch_every\": 10, \"lossless\": false, \"fresh_dir\": false, "
        "\"agents\": true, \"agent\": {\"preloaded\": false, \"load_s\": 0.1}, \"env\": {}, "
        "\"machine\": {}, \"stdout\": {\"bytes\": 0, \"stored_bytes\": 0, \"sha256\": \"\", "
        "\"truncated\": false}, \"stderr\": {\"bytes\": 0, \"stored_bytes\": 0, \"sha256\": \"\", "
        "\"truncated\": false}, \"launcher\": {\"pid\": 1, \"start_ticks\": 0, \"boot_id\": \"\"}, "
        "\"outcome\": \"exited\", \"exit_code\": %d, \"signal\": 0, \"message\": \"\", "
        "\"wall_s\": 1.5, \"processes\": [], \"files\": [], \"files_truncated\": false, \"notes\": "
        "[\"n\"]}",
        rank + 1, rank, rank);
    put(dir, "run.json", text);
    put(worlds, "0.7", "rank\t0\nenv\tMASTER_ADDR=node0\nenv\tTORCHELASTIC_RUN_ID=none\n");
    snprintf(name, sizeof name, "%d.7.twt", rank);
    char *path = tw_path_join(ranks, name);
    struct twin_writer *w = NULL;
    struct twin_writer_options o = {.path = path, .rank = rank, .world = 2};
    assert_int_equal(twin_writer_open(&o, &w, &err), 0);
    struct twin_series s = {.phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_LOSS};
    s.name = twin_writer_string(w, "loss", 4);
    struct twin_observation ob = {.series = twin_writer_series(w, &s), .digest = {1, 2}};
    twin_writer_record(w, &ob);
    twin_writer_step_end(w);
    twin_writer_close(w);
    tw_free(path);
    tw_free(worlds);
    tw_free(ranks);
    return dir;
}

static int gather(const struct tw_front *front, struct tw_gathered *out, struct twin_error *err)
{
    const struct tw_gather_options o = {.names = part, .count = 2, .into = into};
    return tw_gather(&o, front, out, err);
}

/* What is there besides the two parts. */
static int others(void)
{
    DIR *d = opendir(scratch_path(""));
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !tw_starts(e->d_name, "node");
    if (d)
        closedir(d);
    return n;
}

/* Every allocation fails once, and once with all after it. */
static void without_memory(void **state)
{
    (void)state;
    for (int forever = 0; forever < 2; forever++) {
        int rc = -1;
        for (uint64_t n = 1; rc != 0; n++) {
            struct twin_error err = TWIN_ERROR_INIT;
            struct tw_gathered out;
            tw_remove_tree(into, NULL, NULL);
            const uint64_t before = tw_alloc_count();
            tw_alloc_fail_at(n, forever);
            rc = gather(NULL, &out, &err);
            tw_alloc_fail_at(0, false);
            assert_int_equal(others(), rc == 0 ? 1 : 0);
            if (rc != 0 && rc != TWIN_ENOMEM)
                fail_msg("allocation %d: %s", (int)n, err.message);
            if (rc == 0) /* none was passed over */
                assert_true(tw_alloc_count() - before < n);
            assert_true(n < 100000);
        }
    }
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
    struct tw_gathered out;
    tw_remove_tree(into, NULL, NULL);
    int rc = gather(&(struct tw_front){.stop = at_once}, &out, &err);
    if (rc != TWIN_EINTR)
        fail_msg("%d: %s", rc, err.message);
    assert_int_equal(others(), 0);
    assert_int_equal(gather(NULL, &out, &err), 0);
    assert_int_equal(out.parts, 2);
    assert_int_equal(out.traces, 2);
    assert_int_equal(out.world, 2);
    assert_int_equal(out.missing_count, 0);
}

static int make_parts(void **state)
{
    (void)state;
    part[0] = make_part(0);
    part[1] = make_part(1);
    into = tw_strdup(scratch_path("whole"));
    return 0;
}

static int remove_parts(void **state)
{
    tw_free(part[0]);
    tw_free(part[1]);
    tw_free(into);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory),
        cmocka_unit_test(interrupted),
    };
    return cmocka_run_group_tests(tests, make_parts, remove_parts);
}
