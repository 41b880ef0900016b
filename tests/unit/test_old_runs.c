/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs may be deleted (src/launch/old_runs.h). */
#include "old_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

static const int64_t DAY_NS = 86400 * (int64_t)1000000000;

/* A run that began so many days before day 100. */
static bool goes(struct tw_old_runs which, size_t kept, double days_ago, bool in_progress)
{
    const struct twin_run r = {.start_realtime_ns = (int64_t)((100 - days_ago) * (double)DAY_NS),
                               .in_progress = in_progress};
    return tw_run_may_go(&which, kept, &r, 100 * DAY_NS);
}

static void test_which_go(void **state)
{
    (void)state;
    const struct tw_old_runs none = {TW_NOT_GIVEN, -1}, two = {2, -1}, week = {TW_NOT_GIVEN, 7};
    const struct tw_old_runs all = {0, -1}, now = {TW_NOT_GIVEN, 0}, either = {2, 7};
    assert_false(goes(none, 1000, 99, false)); /* nothing goes unasked */
    assert_false(goes(two, 1, 99, false));
    assert_true(goes(two, 2, 0, false));
    assert_false(goes(week, 1000, 6.9, false));
    assert_true(goes(week, 0, 7.1, false));
    assert_false(goes(week, 0, -1, false)); /* a clock that went back */
    assert_true(goes(all, 0, 0, false));
    assert_true(goes(now, 0, 0.001, false));
    assert_true(goes(either, 0, 8, false));
    assert_true(goes(either, 2, 1, false));
    assert_false(goes(either, 1, 1, false));
}

static void test_runs_in_progress_stay(void **state)
{
    (void)state;
    const struct tw_old_runs everything = {0, 0};
    assert_false(goes(everything, 1000, 99, true));
    assert_true(goes(everything, 0, 99, false));
}

static void test_sizes(void **state)
{
    (void)state;
    char folder[] = "/tmp/twin-old-XXXXXX", bytes[100000];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(tw_folder_bytes(folder), 0);
    assert_int_equal(tw_folder_bytes("/nowhere"), 0);
    char *inside = tw_printf("%s/a/b", folder), *file = tw_printf("%s/file", inside);
    char *link = tw_printf("%s/link", folder);
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(tw_mkdirs(inside, NULL), 0);
    assert_int_equal(tw_write_file_atomic(file, bytes, sizeof bytes, NULL), 0);
    assert_int_equal(symlink("/", link), 0);
    /* on the disk, so that its blocks are counted once for all */
    int fd = open(file, O_RDONLY);
    assert_int_equal(fsync(fd), 0);
    close(fd);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(tw_folder_bytes(folder), (uint64_t)st.st_blocks * 512);
    tw_remove_tree(folder, NULL, NULL);
    tw_free(inside);
    tw_free(file);
    tw_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_go),
        cmocka_unit_test(test_runs_in_progress_stay),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
