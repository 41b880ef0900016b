/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a run hold numbers, and are still as it left them (src/study/values.h). */
#include "values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <openssl/sha.h>

#include "base.h"

#include "src/launch/run.h"

static char folder[] = "/tmp/twin-values-XXXXXX";

/* Writes a .npy file with one number, or other bytes; its digest goes into the run's row. */
static struct twin_run_file written(const char *name, bool tensors, double number)
{
    struct twin_run_file f = {.path = (char *)(uintptr_t)name};
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char bytes[128 + sizeof number];
    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, tensors ? "\x93NUMPY\x01\x00\x76\x00" : "no tensors", 10);
    static const char header[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }";
    memcpy(bytes + 10, header, sizeof header - 1);
    bytes[127] = '\n';
    memcpy(bytes + 128, &number, sizeof number);
    char *path = tw_path_join(folder, name);
    assert_int_equal(tw_write_file_atomic(path, bytes, sizeof bytes, NULL), 0);
    tw_free(path);
    SHA256((const unsigned char *)bytes, sizeof bytes, digest);
    tw_hex(digest, sizeof digest, f.sha256);
    return f;
}

static void test_files_of_a_run(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    struct twin_run_file files[] = {
        written("a.npy", true, 1),    written("log.txt", false, 0), written("b.npy", true, 2),
        written("gone.npy", true, 3), written("c.npy", true, 4),
    };
    struct twin_run r = {.cwd = folder, .files = files, .file_count = 5};
    struct tw_values_files found;
    char *gone = tw_path_join(folder, "gone.npy");
    assert_int_equal(remove(gone), 0);
    written("b.npy", true, 5); /* a later run wrote there */
    assert_int_equal(tw_values_of_run(&r, &found, NULL), 0);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.changed, 1);
    assert_true(tw_ends(found.path[0], "/a.npy"));
    assert_true(tw_ends(found.path[1], "/c.npy"));
    tw_values_files_free(&found);
    r.file_count = 0;
    assert_int_equal(tw_values_of_run(&r, &found, NULL), 0);
    assert_int_equal(found.count + found.changed, 0);
    tw_values_files_free(&found);
    tw_free(gone);
    tw_remove_tree(folder, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files_of_a_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
