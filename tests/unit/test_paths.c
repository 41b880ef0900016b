/* SPDX-License-Identifier: Apache-2.0 */
/* The one check of paths that somebody else wrote: vectors, and that opening follows no link. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base.h"

static const char *const good[] = {
    "a",
    "a/b",
    "data/code/files/train.py",
    ".gitignore",
    ".gitmodules",
    ".github/workflows/ci.yml",
    "a..b",
    "..a",
    ".a",
    "git",
    "gitx~1",
    "git~",
    "a.git",
    "x/a.git/y",
    ".gi",
    ".gitt",
    "\xc3\xa4/\xe6\xbc\xa2",
    "a b",
    "new file.txt",
    "~",
    "-",
    "-rf",
    "a:b",
    "con",
    ".git-rewrite",
    "git~x",
};

/* What must not pass in the strict form. */
static const char *const bad[] = {
    "",
    "/",
    "/a",
    "//a",
    "a//b",
    "a/",
    "a/b/",
    ".",
    "..",
    "./a",
    "../a",
    "a/.",
    "a/..",
    "a/./b",
    "a/../b",
    "a/../../b",
    "a/b/../..",
    "a\\b",
    "..\\a",
    "C:\\a",
    "a%2fb",
    "%2e%2e/a",
    "a\nb",
    "a\tb",
    "a\x01",
    "\x7f",
    "\x1b[2J",
    "\xff",
    "\xc0\xaf",
    "\xc2\x9b",
    "\xed\xa0\x80",
    "a.",
    "a./b",
    "a ",
    "a /b",
    "...",
    "a/...",
    /* git's own folder, in all its names */
    ".git",
    ".git/hooks",
    ".git/hooks/post-checkout",
    "a/.git",
    "a/.git/config",
    ".GIT/hooks",
    ".Git",
    ".gIt/config",
    ".git.",
    ".git ",
    ".git. .",
    ".git...",
    ".git::$INDEX_ALLOCATION/hooks",
    ".git:x",
    "git~1",
    "GIT~1/hooks",
    "git~2",
    "a/Git~1/config",
    ".g\xe2\x80\x8cit",
    ".gi\xe2\x80\x8dt/hooks",
    "\xef\xbb\xbf.git",
    ".git\xe2\x81\xaf",
    ".\xe2\x80\xaegit",
};

/* What must not pass even where any name may stand. */
static const char *const never[] = {
    "",    "/",    "/a",  "//a",  "a//b",  "a/",     ".",         "..",
    "./a", "../a", "a/.", "a/..", "a/./b", "a/../b", "a/../../b",
};

static const char *const any_name[] = {"a\nb", "\xff",        "a.",  "a ",  "a%b",
                                       "a\\b", ".git/config", "...", "a..b"};

static void vectors(void **state)
{
    (void)state;
    const unsigned any = TW_PATH_ANY_NAME | TW_PATH_GIT;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!tw_path_ok(good[i]) || tw_path_fault(good[i], strlen(good[i]), any))
            fail_msg("refused: \"%s\": %s", good[i], tw_path_fault(good[i], strlen(good[i]), 0));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (tw_path_ok(bad[i]))
            fail_msg("passed: \"%s\"", bad[i]);
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (!tw_path_fault(never[i], strlen(never[i]), any))
            fail_msg("passed as any name: \"%s\"", never[i]);
    for (size_t i = 0; i < sizeof any_name / sizeof any_name[0]; i++)
        if (tw_path_fault(any_name[i], strlen(any_name[i]), any))
            fail_msg("refused as any name: \"%s\"", any_name[i]);
    assert_false(tw_path_ok(NULL));
    assert_non_null(tw_path_fault("a\0b", 3, any));
    assert_non_null(tw_path_fault("a\0", 2, any));
    assert_non_null(tw_path_fault("\0", 1, any));
}

static void lengths(void **state)
{
    (void)state;
    char path[5000];
    memset(path, 'a', sizeof path);
    assert_null(tw_path_fault(path, 255, 0));
    assert_non_null(tw_path_fault(path, 256, 0));
    for (size_t i = 200; i < sizeof path; i += 201)
        path[i] = '/';
    assert_null(tw_path_fault(path, 4096, 0));
    assert_non_null(tw_path_fault(path, 4097, 0));
    assert_non_null(tw_path_fault(path, 4097, TW_PATH_ANY_NAME | TW_PATH_GIT));
}

/*
 * Every byte at every place of a short path: only plain ones pass, and none makes two parts of one.
 */
static void every_byte(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++)
        for (size_t at = 0; at < 3; at++) {
            char path[3] = {'a', 'b', 'c'};
            path[at] = (char)c;
            bool passes = tw_path_fault(path, 3, 0) == NULL;
            bool control = c < 0x20 || c >= 0x7f;
            bool separates = (c == '/' && at != 1) || c == '\\' || c == '%';
            bool ends = at == 2 && (c == '.' || c == ' ');
            assert_int_equal(passes, !control && !separates && !ends);
        }
}

static void links(void **state)
{
    (void)state;
    static const struct {
        const char *path, *target;
        bool good;
    } cases[] = {
        {"x", "a", true},
        {"d/x", "../a", true},
        {"d/x", "..", true},
        {"d/e/x", "../..", true},
        {"d/e/x", "../../a/b", true},
        {"x", "a/", true},
        {"x", "./a", true},
        {"x", ".", true},
        {"latest", "v1.0/weights", true},
        {"x", "..", false},
        {"x", "../a", false},
        {"d/x", "../..", false},
        {"d/x", "../../a", false},
        {"x", "/etc/passwd", false},
        {"x", "/", false},
        {"x", "", false},
        {"x", "a/..", false},
        {"d/x", "a/../..", false},
        /* `d/x -> ..` is inside, and so seems `y -> d/x/..` by its letters: it would lead out */
        {"y", "d/x/..", false},
        {"y", "d/x/../..", false},
        {"d/y", "../d/x/..", false},
        {"d/y", "../d/../..", false},
        {"x", ".git/hooks", false},
        {"x", "a\nb", false},
        {"x", "a//b", false},
        {"x", "a/./b", false},
        {"x", ".//", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (tw_path_link_ok(cases[i].path, cases[i].target) != cases[i].good)
            fail_msg("%s -> %s: expected %s", cases[i].path, cases[i].target,
                     cases[i].good ? "to pass" : "not to pass");
}

static void opening_follows_no_link(void **state)
{
    (void)state;
    char folder[] = "/tmp/twinrun-paths-XXXXXX";
    assert_non_null(mkdtemp(folder));
    int root = open(folder, O_RDONLY | O_DIRECTORY);
    assert_true(root >= 0);
    assert_int_equal(mkdirat(root, "d", 0700), 0);
    int file = openat(root, "d/file", O_CREAT | O_WRONLY, 0600);
    close(file);
    assert_int_equal(symlinkat("/etc", root, "out"), 0);
    assert_int_equal(symlinkat("file", root, "d/link"), 0);
    assert_int_equal(symlinkat("d", root, "e"), 0);
    int fd = tw_open_below(root, "d/file", O_RDONLY);
    assert_true(fd >= 0);
    close(fd);
    static const char *const refused[] = {"out/passwd", "d/link", "e/file", "out", "d/none", ""};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (tw_open_below(root, refused[i], O_RDONLY) >= 0)
            fail_msg("opened: %s", refused[i]);
    close(root);
    tw_remove_tree(folder, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(lengths),
        cmocka_unit_test(every_byte),
        cmocka_unit_test(links),
        cmocka_unit_test(opening_follows_no_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
