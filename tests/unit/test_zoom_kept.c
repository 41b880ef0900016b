/* SPDX-License-Identifier: Apache-2.0 */
/* The values that the first rerun of a zoom kept: which of them become files of their own, and what
 * is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zoom_kept.h"

#include "base.h"

#include "twin/fingerprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALL "3:1:aten::mm@Net.fc"

/* As python/twinrun/_agent/reruns.py packs them. */
struct row {
    uint64_t call, digest, place, bytes;
    uint32_t number, outputs;
};

static char dir[64];

static uint64_t text_digest(const char *text)
{
    struct twin_digest d = twin_digest_bytes(text, strlen(text), 0);
    return d.a ^ (d.b << 32 | d.b >> 32);
}

static void put(const char *name, const void *data, size_t bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/values/%s", dir, name);
    assert_int_equal(tw_write_file_atomic(path, data, bytes, NULL), 0);
}

static bool is_there(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/values/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void begin(void)
{
    snprintf(dir, sizeof dir, "/tmp/zoom-kept-XXXXXX");
    assert_non_null(mkdtemp(dir));
    char path[96];
    snprintf(path, sizeof path, "%s/values", dir);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void end(void)
{
    tw_remove_tree(dir, NULL, NULL);
}

static void outputs_become_files(void **state)
{
    (void)state;
    const uint64_t call = text_digest(CALL);
    const struct row rows[] = {
        {text_digest("3:0:aten::mm@Net.fc"), 1, 0, 4, 0, 1},
        {call, 2, 4, 3, 0, 3},
        {call, 3, UINT64_MAX, 100, 1, 3}, /* larger than any rerun keeps */
        {call, 4, 7, 0, 2, 3},
    };
    char *data = NULL, path[256];
    size_t n = 0;
    begin();
    put("0.77.calls", rows, sizeof rows);
    put("0.77.kept", "aaaabbb", 7);
    put("10.78.calls", "x", 1); /* of another rank */
    assert_true(tw_zoom_kept_take(dir, 0, CALL, 99));
    snprintf(path, sizeof path, "%s/values/0.s3.o1.out0.raw", dir);
    assert_int_equal(tw_read_file(path, 100, &data, &n, NULL), 0);
    assert_int_equal(n, 3);
    assert_memory_equal(data, "bbb", 3);
    tw_free(data);
    assert_false(is_there("0.s3.o1.out1.raw"));
    assert_true(is_there("0.s3.o1.out2.raw"));
    /* a rerun might have kept that one: it is asked for */
    assert_false(tw_zoom_kept_take(dir, 0, CALL, 100));
    assert_false(tw_zoom_kept_take(dir, 0, "3:2:aten::mm@Net.fc", 99));
    assert_false(tw_zoom_kept_take(dir, 1, CALL, 99));
    tw_zoom_kept_drop(dir);
    assert_false(is_there("0.77.calls"));
    assert_false(is_there("0.77.kept"));
    assert_true(is_there("0.s3.o1.out0.raw"));
    tw_zoom_kept_drop("/nowhere");
    end();
}

static void files_that_are_not_what_they_should_be(void **state)
{
    (void)state;
    const uint64_t call = text_digest(CALL);
    const struct row good = {call, 2, 0, 4, 0, 1};
    const struct row bad[] = {
        {call, 2, 1, 4, 0, 1},          /* reaches over the end */
        {call, 2, 5, 0, 0, 1},          /* begins behind it */
        {call, 2, 0, UINT64_MAX, 0, 1}, /* all there is, and more */
        {call, 2, UINT64_MAX - 1, 4, 0, 1},
        {call, 2, 0, 4, 1, 1}, /* no output 0 */
        {call, 2, 0, 4, 0, 2}, /* one is missing */
    };
    begin();
    put("0.77.kept", "aaaa", 4);
    assert_false(tw_zoom_kept_take(dir, 0, CALL, 99));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("0.77.calls", &bad[i], sizeof bad[i]);
        assert_false(tw_zoom_kept_take(dir, 0, CALL, 99));
    }
    put("0.77.calls", &good, sizeof good - 1);
    assert_false(tw_zoom_kept_take(dir, 0, CALL, 99));
    put("0.77.calls", &good, sizeof good);
    assert_true(tw_zoom_kept_take(dir, 0, CALL, 99));
    put("0.78.calls", &good, sizeof good); /* which of the two made it? */
    assert_false(tw_zoom_kept_take(dir, 0, CALL, 99));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_become_files),
        cmocka_unit_test(files_that_are_not_what_they_should_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
