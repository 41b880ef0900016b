/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_error_first_wins(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_error_set(&err, TWIN_EFORMAT, "byte %d", 7), TWIN_EFORMAT);
    assert_int_equal(twin_error_set(&err, TWIN_EIO, "later"), TWIN_EIO);
    assert_int_equal(err.code, TWIN_EFORMAT);
    assert_string_equal(err.message, "byte 7");
    errno = ENOENT;
    struct twin_error sys = TWIN_ERROR_INIT;
    assert_int_equal(twin_error_system(&sys, "cannot open %s", "x"), TWIN_ENOENT);
    assert_non_null(strstr(sys.message, "cannot open x: No such file"));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(twin_error_set(NULL, TWIN_EIO, "nobody listens"), TWIN_EIO);
}

static void test_buf_cap_and_failure(void **state)
{
    (void)state;
    struct tw_buf b = {.cap = 100};
    for (int i = 0; i < 99; i++)
        assert_int_equal(tw_buf_append(&b, "x", 1), 0);
    assert_int_equal(tw_buf_append(&b, "x", 1), TWIN_ELIMIT);
    assert_int_equal(tw_buf_puts(&b, "y"), TWIN_ELIMIT); /* stays failed */
    assert_null(tw_buf_steal(&b));
    struct tw_buf c = {0};
    tw_alloc_fail_at(1, false);
    assert_int_equal(tw_buf_printf(&c, "%d", 5), TWIN_ENOMEM);
    tw_alloc_fail_at(0, false);
    tw_buf_free(&c);
    assert_int_equal(tw_buf_printf(&c, "%s-%d", "a", 5), 0);
    char *s = tw_buf_steal(&c);
    assert_string_equal(s, "a-5");
    tw_free(s);
}

/* The C library's fnmatch without flags is the oracle ('*' matches '/' there too). */
static void test_glob_against_fnmatch(void **state)
{
    (void)state;
    static const char letters[] = "ab*?[]!-/";
    srand(1);
    int matches = 0;
    for (int i = 0; i < 200000; i++) {
        char p[8], s[8];
        int np = rand() % 7, ns = rand() % 7;
        for (int k = 0; k < np; k++)
            p[k] = letters[rand() % 4];
        for (int k = 0; k < ns; k++)
            s[k] = letters[(rand() % 3) ? rand() % 2 : 8];
        p[np] = s[ns] = '\0';
        bool expected = fnmatch(p, s, FNM_NOESCAPE) == 0;
        matches += expected;
        assert_int_equal(tw_glob(p, s), expected);
    }
    assert_true(matches > 1000);
    assert_true(tw_glob("grad*/[a-c]?x", "gradient/bzx"));
    assert_false(tw_glob("[!a]", "a"));
    assert_true(tw_glob("[!a]", "b"));
    assert_true(tw_glob("[", "["));
    char many[3000];
    memset(many, '*', sizeof many);
    many[sizeof many - 2] = 'z';
    many[sizeof many - 1] = '\0';
    assert_false(tw_glob(many, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

static void test_numbers(void **state)
{
    (void)state;
    uint64_t v = 0;
    assert_int_equal(tw_parse_u64("18446744073709551615", UINT64_MAX, &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(tw_parse_u64("18446744073709551616", UINT64_MAX, &v), TWIN_EINVAL);
    assert_int_equal(tw_parse_u64("", 9, &v), TWIN_EINVAL);
    assert_int_equal(tw_parse_u64("-1", 9, &v), TWIN_EINVAL);
    assert_int_equal(tw_parse_u64("10", 9, &v), TWIN_EINVAL);
    char out[32];
    assert_string_equal(tw_human_count(1234567, out), "1,234,567");
    assert_string_equal(tw_human_count(999, out), "999");
    assert_string_equal(tw_human_bytes(1536, out), "1.5 KiB");
    assert_string_equal(tw_human_bytes(UINT64_MAX, out), "16384.0 PiB");
}

static void test_printable(void **state)
{
    (void)state;
    static const char raw[] = "ok \xc3\xa9 \x1b[31m \xff \xc0\xaf \xed\xa0\x80 \xc2\x9b \n";
    char *s = tw_printable(raw, sizeof raw - 1);
    assert_string_equal(s, "ok \xc3\xa9 \\x1b[31m \\xff \\xc0\\xaf \\xed\\xa0\\x80 \\xc2\\x9b \\x0a");
    tw_free(s);
    /* All that turns, hides or obeys: C0, C1, and the characters of Unicode that change the order of others. */
    for (unsigned code = 0; code < 0x3000; code++) {
        char one[4];
        size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
        if (n == 1)
            one[0] = (char)code;
        if (n == 2)
            one[0] = (char)(0xC0 | code >> 6);
        if (n == 3)
            one[0] = (char)(0xE0 | code >> 12);
        if (n == 3)
            one[1] = (char)(0x80 | (code >> 6 & 0x3F));
        if (n > 1)
            one[n - 1] = (char)(0x80 | (code & 0x3F));
        bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
        bool turns = code == 0x61C || (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
                     (code >= 0x2066 && code <= 0x2069);
        s = tw_printable(one, n);
        assert_int_equal(strlen(s) == n && memcmp(s, one, n) == 0, !control && !turns);
        tw_free(s);
    }
}

static void test_crc32c_vectors(void **state)
{
    (void)state;
    /* RFC 3720, appendix B.4 */
    unsigned char z[32] = {0}, f[32], up[32];
    memset(f, 0xff, sizeof f);
    for (int i = 0; i < 32; i++)
        up[i] = (unsigned char)i;
    assert_int_equal(tw_crc32c(0, z, 32), 0x8A9136AA);
    assert_int_equal(tw_crc32c(0, f, 32), 0x62A8AB43);
    assert_int_equal(tw_crc32c(0, up, 32), 0x46DD794E);
    assert_int_equal(tw_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(tw_crc32c(tw_crc32c(0, up, 13), up + 13, 19), 0x46DD794E);
}

static void test_hash_spreads(void **state)
{
    (void)state;
    /* Every one-byte change and every length change of a short string moves both halves. */
    unsigned char base[24] = "twinrun hashes by value";
    struct tw_hash128 h = tw_hash_bytes(base, sizeof base, 0);
    for (size_t i = 0; i < sizeof base; i++)
        for (int bit = 0; bit < 8; bit++) {
            base[i] ^= (unsigned char)(1 << bit);
            struct tw_hash128 g = tw_hash_bytes(base, sizeof base, 0);
            assert_true(g.a != h.a && g.b != h.b);
            base[i] ^= (unsigned char)(1 << bit);
        }
    struct tw_hash128 shorter = tw_hash_bytes(base, sizeof base - 1, 0), seeded = tw_hash_bytes(base, sizeof base, 1);
    assert_true(shorter.a != h.a && seeded.a != h.a);
}

static void test_files(void **state)
{
    (void)state;
    char dir[] = "/tmp/tw-base-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *deep = tw_path_join(dir, "a/b/c");
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(tw_mkdirs(deep, &err), 0);
    assert_int_equal(tw_mkdirs(deep, &err), 0);
    char *file = tw_path_join(deep, "f");
    assert_int_equal(tw_write_file_atomic(file, "hello", 5, &err), 0);
    assert_int_equal(tw_write_file_atomic(file, "world!", 6, &err), 0);
    char *data = NULL;
    size_t n = 0;
    assert_int_equal(tw_read_file(file, 100, &data, &n, &err), 0);
    assert_int_equal(n, 6);
    assert_string_equal(data, "world!");
    tw_free(data);
    assert_int_equal(tw_read_file(file, 5, &data, &n, &err), TWIN_ELIMIT);
    struct twin_error blocked = TWIN_ERROR_INIT;
    char *under = tw_path_join(file, "x");
    assert_int_equal(tw_mkdirs(under, &blocked), TWIN_EIO); /* a file stands in the way */
    char *link = tw_path_join(dir, "link");
    assert_int_equal(symlink("/etc", link), 0);
    uint64_t freed = 0;
    assert_int_equal(tw_remove_tree(dir, &freed, NULL), 0);
    assert_true(freed > 0);
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
    assert_int_equal(tw_remove_tree(dir, NULL, NULL), 0); /* gone already is fine */
    tw_free(deep), tw_free(file), tw_free(under), tw_free(link);
}

static void test_every_allocation_failure(void **state)
{
    (void)state;
    char dir[] = "/tmp/tw-base-XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (uint64_t n = 1;; n++) {
        uint64_t before = tw_alloc_count();
        tw_alloc_fail_at(n, true);
        struct twin_error err = TWIN_ERROR_INIT;
        char *path = tw_path_join(dir, "some/where"), *data = NULL, *text = NULL;
        size_t len;
        int rc = TWIN_ENOMEM;
        if (path && (rc = tw_mkdirs(path, &err)) == 0 && (text = tw_printf("%s/f", path)) != NULL &&
            (rc = tw_write_file_atomic(text, "x", 1, &err)) == 0)
            rc = tw_read_file(text, 10, &data, &len, &err);
        tw_alloc_fail_at(0, false);
        tw_free(path), tw_free(data), tw_free(text);
        if (tw_alloc_count() - before < n) {
            assert_int_equal(rc, 0);
            break;
        }
        assert_true(n < 100);
    }
    tw_remove_tree(dir, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_first_wins), cmocka_unit_test(test_buf_cap_and_failure),
        cmocka_unit_test(test_glob_against_fnmatch), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_printable), cmocka_unit_test(test_crc32c_vectors),
        cmocka_unit_test(test_hash_spreads), cmocka_unit_test(test_files),
        cmocka_unit_test(test_every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
