/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "front.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
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
    struct twin_error memory = TWIN_ERROR_INIT;
    assert_int_equal(tw_no_memory(&memory, "for %d runs", 12), TWIN_ENOMEM);
    assert_int_equal(tw_no_memory(&memory, "later"), TWIN_ENOMEM);
    assert_int_equal(memory.code, TWIN_ENOMEM);
    assert_string_equal(memory.message, "out of memory for 12 runs");
    assert_int_equal(tw_no_memory(NULL, "for nobody who listens"), TWIN_ENOMEM);
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
    assert_string_equal(s,
                        "ok \xc3\xa9 \\x1b[31m \\xff \\xc0\\xaf \\xed\\xa0\\x80 \\xc2\\x9b \\x0a");
    tw_free(s);
    /* What stands for what is certain: an escape that was in the text is told from ours. A path
     * stays readable. */
    static const char had[] = "C:\\x \\xyz \\x1b \x1b \\\x1b \\x5cx1b";
    s = tw_printable(had, sizeof had - 1);
    assert_string_equal(s, "C:\\x \\xyz \\x5cx1b \\x1b \\\\x1b \\x5cx5cx1b");
    char *again = tw_printable_again(s, strlen(s));
    assert_string_equal(again, s);
    tw_free(again);
    tw_free(s);
}

/* UTF-8 of a code point; returns its length. */
static size_t encode(unsigned code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(lead[n] | code);
    return n;
}

/* All of Unicode: what obeys, turns or hides (and surrogates, which are no UTF-8) is escaped, and
 * nothing else. */
static void test_printable_unicode(void **state)
{
    (void)state;
    static const unsigned hidden[][2] = {
        {0, 0x1F},          {0x7F, 0x9F},     {0xAD, 0xAD},       {0x34F, 0x34F},
        {0x61C, 0x61C},     {0x115F, 0x1160}, {0x17B4, 0x17B5},   {0x180B, 0x180F},
        {0x200B, 0x200F},   {0x2028, 0x202E}, {0x2060, 0x206F},   {0x3164, 0x3164},
        {0xD800, 0xDFFF},   {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
        {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
        {0xE0000, 0xE0FFF},
    };
    size_t row = 0;
    for (unsigned code = 0; code < 0x110000; code++) {
        char one[4];
        size_t n = encode(code, one);
        while (row < sizeof hidden / sizeof hidden[0] && code > hidden[row][1])
            row++;
        bool expected = row < sizeof hidden / sizeof hidden[0] && code >= hidden[row][0];
        char *s = tw_printable(one, n);
        if ((strlen(s) == n && memcmp(s, one, n) == 0) == expected)
            fail_msg("U+%04X: '%s'", code, s);
        tw_free(s);
    }
}

static void test_printable_lines(void **state)
{
    (void)state;
    char *s = tw_printable_lines("\033[1mA\033[0m\n\033[2JB\tC\033[31\n\\x1b", true);
    assert_string_equal(s, "\033[1mA\033[0m\n\\x1b[2JB\\x09C\\x1b[31\n\\x1b");
    tw_free(s);
    s = tw_printable_lines("\033[1mA\033[0m\n", false);
    assert_string_equal(s, "\\x1b[1mA\\x1b[0m\n");
    tw_free(s);
    s = tw_printable_lines("", true);
    assert_string_equal(s, "");
    tw_free(s);
    /* JSON says the same in another way: a C1 control, an override, a tag beyond U+FFFF, DEL. */
    s = tw_printable_json("{\n \"\xc2\x9b\": \"\xe2\x80\xae\xf3\xa0\x80\x81\x7f\xc3\xa9\"}");
    assert_string_equal(s, "{\n \"\\u009B\": \"\\u202E\\uDB40\\uDC01\\u007F\xc3\xa9\"}");
    tw_free(s);
}

static char *print_safe(const char *format, ...)
{
    struct tw_buf b = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_puts(&b, "");
    tw_buf_vprint_safe(&b, format, ap);
    va_end(ap);
    return tw_buf_steal(&b);
}

/* As printf, but text arguments make no line and obey nothing. */
static void test_print_safe(void **state)
{
    (void)state;
    char expected[400], *s;
#define ALIKE(...)                                        \
    do {                                                  \
        s = print_safe(__VA_ARGS__);                      \
        snprintf(expected, sizeof expected, __VA_ARGS__); \
        assert_string_equal(s, expected);                 \
        tw_free(s);                                       \
    } while (0)
    ALIKE("%s|%-8s|%8s|%.2s|%-*.*s|%c", "abc", "left", "right", "cut", 6, 3, "stars", 'x');
    ALIKE("%*s|%%|%5d|%-5u|%05x|%+d|%ld|%lld|%llu|%zu|%jd", -4, "ab", -3, 4u, 255u, 7, -5L, -6LL,
          ~0ull, sizeof expected, (intmax_t)-9);
    ALIKE("%hhd %hd %#x %o %X", -1, 2, 3u, 8u, 0xABu);
    ALIKE("%g %.3f %10.2e %-10.1f| %+g %a %.0f%%", 1e-9, 3.14159, 12345.678, 2.5, 0.5, 1.0, 99.5);
    ALIKE("%u %x", ~0u, ~0u);
#undef ALIKE
    s = print_safe("run\n%s\n%-6s|%.3s|%c", "a\nb\033[2J", "\x7f", "\xc3\xa9\xc3", '\033');
    assert_string_equal(s, "run\na\\x0ab\\x1b[2J\n\\x7f  |\xc3\xa9\\xc3|\\x1b");
    tw_free(s);
    /* not one of ours: it fails and does not guess */
    assert_null(print_safe("%p", (void *)expected));
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

/* By the definition, bit by bit. */
static uint32_t plain_crc32c(uint32_t seed, const unsigned char *p, size_t n)
{
    uint32_t c = ~seed;
    for (; n; n--, p++) {
        c ^= *p;
        for (int k = 0; k < 8; k++)
            c = (c >> 1) ^ (0x82F63B78u & (0u - (c & 1)));
    }
    return ~c;
}

/* Long pieces are computed in lanes: every length around one, two and three rounds of them, at
 * every alignment, behind a seed. */
static void test_crc32c_of_long_pieces(void **state)
{
    (void)state;
    enum { ROUND = 3 * 512, MOST = 3 * ROUND + 64 };
    static unsigned char bytes[MOST + 8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(tw_mix64(i) >> 56);
    for (size_t rounds = 0; rounds <= 3; rounds++)
        for (size_t n = rounds ? rounds * ROUND - 40 : 0; n <= rounds * ROUND + 40; n++) {
            const unsigned char *from = bytes + n % 8;
            const uint32_t seed = (uint32_t)tw_mix64(n);
            assert_int_equal(tw_crc32c(seed, from, n), plain_crc32c(seed, from, n));
            assert_int_equal(tw_crc32c(tw_crc32c(seed, from, n / 3), from + n / 3, n - n / 3),
                             plain_crc32c(seed, from, n));
        }
    /* one changed bit is seen wherever it is */
    const uint32_t whole = tw_crc32c(1, bytes, MOST);
    for (size_t i = 0; i < MOST; i++) {
        bytes[i] ^= (unsigned char)(1u << i % 8);
        assert_int_not_equal(tw_crc32c(1, bytes, MOST), whole);
        bytes[i] ^= (unsigned char)(1u << i % 8);
    }
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
    struct tw_hash128 shorter = tw_hash_bytes(base, sizeof base - 1, 0);
    struct tw_hash128 seeded = tw_hash_bytes(base, sizeof base, 1);
    assert_true(shorter.a != h.a && seeded.a != h.a);
}

static void test_hex(void **state)
{
    (void)state;
    const unsigned char bytes[] = {0x00, 0x9A, 0xFF};
    unsigned char back[3];
    char text[33];
    uint64_t number;
    tw_hex(bytes, sizeof bytes, text);
    assert_string_equal(text, "009aff");
    assert_true(tw_unhex(text, sizeof back, back));
    assert_memory_equal(bytes, back, sizeof bytes);
    assert_false(tw_unhex("009AFF", sizeof back, back));
    assert_false(tw_unhex("009af", sizeof back, back));
    assert_true(tw_is_hex("009aff", 6));
    assert_false(tw_is_hex("009aff", 5));
    assert_false(tw_is_hex("009aff", 7));
    assert_false(tw_is_hex("009afF", 6));
    assert_false(tw_is_hex(NULL, 6));
    assert_true(tw_is_hex("", 0));
    assert_int_equal(tw_hex_span("12ab ,"), 4);
    assert_int_equal(tw_hex_digit('F'), 15);
    assert_int_equal(tw_hex_digit('g'), -1);
    assert_true(tw_hex_number("ffffffffffffffff", 16, &number));
    assert_true(number == UINT64_MAX);
    assert_string_equal(tw_hex_128(1, 0xAB, text), "000000000000000100000000000000ab");
    assert_true(tw_is_git_hash("0123456789012345678901234567890123456789"));
    assert_false(tw_is_git_hash(text));
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
    char *pipe = tw_path_join(dir, "pipe"), *zero = tw_path_join(dir, "zero");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    /* and at once: nobody writes to it */
    assert_int_equal(tw_read_file(pipe, 100, &data, &n, NULL), TWIN_EINVAL);
    assert_int_equal(symlink("/dev/zero", zero), 0);
    assert_int_equal(tw_read_file(zero, 100, &data, &n, NULL), TWIN_EINVAL);
    assert_int_equal(tw_read_file("/dev/null", 100, &data, &n, NULL), 0);
    tw_free(data), tw_free(zero);
    /* what is no file is written to, and stays what it is; nobody makes a file in its place */
    int fd = open(pipe, O_RDONLY | O_NONBLOCK);
    char got[8] = "";
    struct stat st;
    assert_int_equal(tw_write_file_atomic(pipe, "through", 7, &err), 0);
    assert_int_equal(read(fd, got, 7), 7);
    assert_string_equal(got, "through");
    close(fd);
    assert_int_equal(tw_file_beside(pipe, &data, &fd, NULL), TWIN_EINVAL);
    assert_true(stat(pipe, &st) == 0 && S_ISFIFO(st.st_mode));
    tw_free(pipe);
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

static bool at_once(void *user)
{
    (void)user;
    return true;
}

/* Inside of one file system, and out of a pipe, which the kernel does not copy by itself. */
static void test_copied_bytes(void **state)
{
    (void)state;
    static char bytes[200001], back[sizeof bytes];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 31 >> 3);
    FILE *from = tmpfile(), *to = tmpfile(), *again = tmpfile();
    assert_true(from && to && again);
    assert_int_equal(tw_write_all(fileno(from), bytes, sizeof bytes), 0);
    assert_int_equal(lseek(fileno(from), 0, SEEK_SET), 0);
    assert_int_equal(tw_copy_bytes(fileno(from), fileno(to), NULL), 0);
    assert_int_equal(tw_pread_all(fileno(to), back, sizeof back, 0), sizeof bytes);
    assert_memory_equal(back, bytes, sizeof bytes);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(tw_write_all(ends[1], bytes, 5000), 0);
    close(ends[1]);
    assert_int_equal(tw_copy_bytes(ends[0], fileno(again), NULL), 0);
    assert_int_equal(tw_pread_all(fileno(again), back, sizeof back, 0), 5000);
    assert_memory_equal(back, bytes, 5000);
    close(ends[0]);

    struct tw_front front = {.stop = at_once};
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(tw_write_all(ends[1], bytes, 5000), 0);
    assert_int_equal(tw_copy_bytes(ends[0], fileno(again), &front), -1);
    assert_int_equal(errno, ECANCELED);
    assert_int_equal(tw_copy_bytes(fileno(again), ends[1], NULL), 0);
    assert_int_equal(lseek(fileno(from), 0, SEEK_SET), 0);
    assert_int_equal(tw_copy_bytes(fileno(from), ends[0], NULL), -1);
    close(ends[0]);
    close(ends[1]);
    fclose(from);
    fclose(to);
    fclose(again);
}

/* Times of which it is known when they were: among them the ends of 64 bits, and before 1970. */
static void test_utc_time(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } known[] = {
        {0, "1970-01-01T00:00:00.000000000Z"},
        {1, "1970-01-01T00:00:00.000000001Z"},
        {-1, "1969-12-31T23:59:59.999999999Z"},
        {-1000000000, "1969-12-31T23:59:59.000000000Z"},
        {INT64_C(951782399999999999), "2000-02-28T23:59:59.999999999Z"},
        {INT64_C(951782400000000000), "2000-02-29T00:00:00.000000000Z"},
        {INT64_C(1234567890123456789), "2009-02-13T23:31:30.123456789Z"},
        {INT64_MAX, "2262-04-11T23:47:16.854775807Z"},
        {INT64_MIN, "1677-09-21T00:12:43.145224192Z"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char out[32], seconds[32];
        tw_utc_time(known[i].ns, true, out);
        assert_string_equal(out, known[i].text);
        tw_utc_time(known[i].ns, false, out);
        snprintf(seconds, sizeof seconds, "%.19sZ", known[i].text);
        assert_string_equal(out, seconds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_first_wins),
        cmocka_unit_test(test_buf_cap_and_failure),
        cmocka_unit_test(test_glob_against_fnmatch),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_printable_unicode),
        cmocka_unit_test(test_printable_lines),
        cmocka_unit_test(test_print_safe),
        cmocka_unit_test(test_crc32c_vectors),
        cmocka_unit_test(test_crc32c_of_long_pieces),
        cmocka_unit_test(test_hash_spreads),
        cmocka_unit_test(test_hex),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_copied_bytes),
        cmocka_unit_test(test_utc_time),
        cmocka_unit_test(test_every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
