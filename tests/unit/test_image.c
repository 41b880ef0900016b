/* SPDX-License-Identifier: Apache-2.0 */
/* Container images without a container: layouts that are right, and that are not; every allocation
 * made to fail. tests/agents/test_image.py has layers of other writers. */
#include "src/image/image.h"

#include "tests/fuzz/image_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char folder[] = "/tmp/twinrun-image-XXXXXX";
static struct part part[PARTS]; /* of the layout L, as it was written */
static char *text;

static int make_layout(void **state)
{
    size_t n;
    (void)state;
    if (!mkdtemp(folder) || chdir(folder) != 0 || mkdir("L", 0700) != 0 ||
        tw_read_file(GOLDEN "/image/v1-two.layout", 1 << 20, &text, &n, NULL) != 0)
        return -1;
    const size_t count = split(text, n, part);
    int root = open("L", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    write_layout(root, part, count);
    close(root);
    return 0;
}

static int remove_layout(void **state)
{
    (void)state;
    free_parts(part);
    tw_free(text);
    return chdir("/") == 0 ? tw_remove_tree(folder, NULL, NULL) : -1;
}

static void new_folder(const char *name)
{
    assert_int_equal(tw_remove_tree(name, NULL, NULL), 0);
    assert_int_equal(mkdir(name, 0700), 0);
}

static void digest_of_part(size_t i, char out[TW_DIGEST_ROOM])
{
    snprintf(out, TW_DIGEST_ROOM, "sha256:%s", part[i].sha256);
}

static void a_digest_is_one_form(void **state)
{
    char right[TW_DIGEST_ROOM + 1];
    (void)state;
    digest_of_part(CONFIG, right);
    assert_true(tw_image_is_digest(right));
    assert_false(tw_image_is_digest(NULL));
    assert_false(tw_image_is_digest(right + 1));
    strcat(right, "0");
    assert_false(tw_image_is_digest(right));
    right[strlen(right) - 1] = '\0';
    right[10] = 'A';
    assert_false(tw_image_is_digest(right));
}

/* Each of its digests opens it, and another one does not. */
static void a_layout_is_what_its_digests_say(void **state)
{
    struct tw_image image;
    char wanted[TW_DIGEST_ROOM];
    (void)state;
    for (size_t i = MANIFEST; i <= CONFIG; i++) {
        digest_of_part(i, wanted);
        assert_int_equal(tw_image_open("L", "1", wanted, &image, NULL), 0);
        assert_true(tw_image_has_digest(&image, wanted));
        assert_int_equal(image.blobs - image.first_layer, 2);
        assert_int_equal(json_array_size(image.diff_id), 2);
        assert_string_equal(json_string_value(json_array_get(image.env, 0)), "PATH=/bin");
        assert_int_equal(tw_image_verify(&image, NULL), 0);
        tw_image_close(&image);
    }
    digest_of_part(LAYER, wanted);
    assert_int_equal(tw_image_open("L", NULL, wanted, &image, NULL), TWIN_ENOENT);
    tw_image_close(&image);
    assert_int_equal(tw_image_open("L", "2", NULL, &image, NULL), TWIN_ENOENT);
    tw_image_close(&image);
    assert_int_equal(tw_image_open("nowhere", NULL, NULL, &image, NULL), TWIN_ENOENT);
    tw_image_close(&image);
}

/* Opens, verifies and copies what lies in L. */
static int use(void)
{
    struct tw_image image;
    int rc = tw_image_open("L", NULL, NULL, &image, NULL);
    rc = rc ? rc : tw_image_verify(&image, NULL);
    if (rc == 0) {
        new_folder("C");
        rc = tw_image_copy(&image, "C", NULL);
    }
    tw_image_close(&image);
    return rc;
}

/* A byte more, one less, another one, none at all: of each blob. */
static void no_blob_may_be_another_one(void **state)
{
    (void)state;
    for (size_t i = MANIFEST; i < LAYER + 2; i++) {
        const struct {
            size_t n;
            bool other;
            int rc;
        } wrong[] = {{part[i].n - 1, false, TWIN_EFORMAT},
                     {part[i].n + 1, false, TWIN_EFORMAT},
                     {part[i].n, true, TWIN_EFORMAT}};
        char path[96], *room = calloc(1, part[i].n + 1);
        int root = open("L", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_non_null(room);
        snprintf(path, sizeof path, "blobs/sha256/%s", part[i].sha256);
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            memcpy(room, part[i].data, part[i].n);
            room[0] ^= wrong[k].other;
            write_at(root, path, room, wrong[k].n);
            assert_int_equal(use(), wrong[k].rc);
        }
        assert_int_equal(unlinkat(root, path, 0), 0);
        assert_int_equal(use(), TWIN_ENOENT);
        assert_int_equal(mkfifoat(root, path, 0600), 0); /* which nobody waits at */
        assert_int_equal(use(), TWIN_EFORMAT);
        assert_int_equal(unlinkat(root, path, 0), 0);
        write_at(root, path, part[i].data, part[i].n);
        assert_int_equal(use(), 0);
        close(root);
        free(room);
    }
}

static void the_root_is_what_the_layers_leave(void **state)
{
    struct tw_image image;
    struct tw_root_counts counts;
    struct stat st;
    (void)state;
    new_folder("R");
    assert_int_equal(tw_image_open("L", NULL, NULL, &image, NULL), 0);
    assert_int_equal(tw_image_root(&image, "R", &counts, NULL), 0);
    tw_image_close(&image);
    assert_int_equal(lstat("R/usr/bin/su", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(lstat("R/usr/bin/x", &st), 0); /* through the link bin */
    assert_int_equal(lstat("R/etc/y", &st), 0);  /* through a link to /etc, which is the root's */
    assert_int_equal(lstat("R/usr/a", &st), -1); /* taken away */
    assert_int_equal(lstat("R/usr/b", &st), 0);  /* its hard link stays */
    assert_true(counts.setuid == 1 && counts.devices == 1 && counts.pipes == 1);
}

static void the_bits_are_taken_from_files_alone(void **state)
{
    uint64_t count = 9;
    struct stat st;
    (void)state;
    new_folder("B");
    assert_int_equal(mkdir("B/d", 0700), 0);
    assert_int_equal(chmod("B/d", 02700), 0);
    write_at(AT_FDCWD, "B/d/su", "x", 1);
    write_at(AT_FDCWD, "out", "x", 1);
    assert_int_equal(chmod("B/d/su", 06711), 0);
    assert_int_equal(chmod("out", 04711), 0);
    assert_int_equal(symlink("../out", "B/link"), 0);
    assert_int_equal(tw_container_take_bits("B", &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(stat("B/d/su", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0711);
    assert_int_equal(stat("out", &st), 0);
    assert_int_equal(st.st_mode & 07777, 04711);
    assert_int_equal(tw_container_take_bits("B/none", &count, NULL), 0);
    assert_int_equal(count, 0);
}

/* ---- allocations */

static int open_and_all(void)
{
    struct tw_image image;
    struct tw_root_counts counts;
    new_folder("R");
    new_folder("C");
    int rc = tw_image_open("L", "1", NULL, &image, NULL);
    rc = rc ? rc : tw_image_verify(&image, NULL);
    rc = rc ? rc : tw_image_copy(&image, "C", NULL);
    rc = rc ? rc : tw_image_root(&image, "R", &counts, NULL);
    tw_image_close(&image);
    return rc;
}

static int lines_of_all(void)
{
    static const char *const read_only[] = {"/w/x", NULL}, *const argv[] = {"job", NULL};
    int rc = 0;
    for (enum tw_container e = 0; e < TW_CONTAINERS && rc == 0; e++) {
        const struct tw_contained c = {.engine = e,
                                       .name = "n",
                                       .root = "/r",
                                       .layout = "/l",
                                       .config = "sha256:0123456789abcdef",
                                       .folder = "/w",
                                       .read_only = read_only,
                                       .argv = argv};
        struct tw_command_lines l;
        rc = tw_container_lines(&c, &l, NULL);
        tw_command_lines_free(&l);
    }
    return rc;
}

/* Without memory each says so, and leaves nothing open or lost. */
static void each_allocation_may_fail(int (*all)(void))
{
    for (uint64_t n = 1, failed = 0;; n++) {
        tw_alloc_fail_at(n, false);
        const int rc = all();
        tw_alloc_fail_at(0, false);
        if (rc == 0) {
            assert_true(failed > 0);
            return;
        }
        assert_int_equal(rc, TWIN_ENOMEM);
        failed++;
    }
}

static void every_allocation_failure(void **state)
{
    (void)state;
    each_allocation_may_fail(open_and_all);
    each_allocation_may_fail(lines_of_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_one_form),
        cmocka_unit_test(a_layout_is_what_its_digests_say),
        cmocka_unit_test(no_blob_may_be_another_one),
        cmocka_unit_test(the_root_is_what_the_layers_leave),
        cmocka_unit_test(the_bits_are_taken_from_files_alone),
        cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, make_layout, remove_layout);
}
