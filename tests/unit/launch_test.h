/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_TEST_H
#define LAUNCH_TEST_H
/*
 * Shared by the tests of the launch room: a scratch folder for each test, and a command run in it.
 */
#include "launch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

static char *folder; /* scratch of the running test */

static inline int make_folder(void **state)
{
    (void)state;
    char name[] = "/tmp/twin-launch-XXXXXX";
    folder = mkdtemp(name) ? strdup(name) : NULL;
    return folder && chdir(folder) == 0 && setenv("TWINRUN_HOME", "home", 1) == 0 ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    tw_alloc_fail_at(0, false);
    int rc = chdir("/") == 0 && tw_remove_tree(folder, NULL, NULL) == 0 ? 0 : -1;
    free(folder);
    return rc;
}

static inline void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(tw_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static inline struct twin_run *run_command(const char *label, char *const *argv)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_launch_options o = {
        .argv = argv, .label = label, .level = TWIN_LEVEL_STEPS, .window_last = UINT32_MAX};
    struct twin_run *run = NULL;
    int rc = twin_launch(&o, &run, &err);
    if (rc)
        fail_msg("%d: %s", rc, err.message);
    return run;
}
#endif
