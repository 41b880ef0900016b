/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of configurations: the vectors of RFC 8785 (its number table and its sorting example,
 * which is not ASCII), equal values in other clothes, refusals, the places where two differ, and
 * every allocation failing. tests/agents/test_digest.py compares with other implementations.
 */
#include "src/provenance/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "jcs.h"

static char path[] = "/tmp/twinrun-config-XXXXXX";

static int read_text(const char *text, enum twin_config_format format, struct twin_config *c,
                     struct twin_error *err)
{
    assert_int_equal(tw_write_file_atomic(path, text, strlen(text), NULL), 0);
    return twin_config_read(path, format, c, err);
}

static void canonical(const char *text, enum twin_config_format format, const char *expected)
{
    struct twin_config c;
    struct twin_error err = TWIN_ERROR_INIT;
    if (read_text(text, format, &c, &err) != 0)
        fail_msg("%s: %s", text, err.message);
    assert_string_equal(c.text, expected);
    assert_int_equal(c.text_bytes, strlen(expected));
    twin_config_free(&c);
}

static void refused(const char *text, enum twin_config_format format, int code, const char *why)
{
    struct twin_config c;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(read_text(text, format, &c, &err), code);
    if (!strstr(err.message, why) || !strstr(err.message, path))
        fail_msg("%s: expected \"%s\" and the path in: %s", text, why, err.message);
}

/* RFC 8785, appendix B: bits and text. */
static void test_numbers(void **state)
{
    static const struct {
        uint64_t bits;
        const char *text;
    } rows[] = {
        {0, "0"},
        {0x8000000000000000, "0"},
        {1, "5e-324"},
        {0x8000000000000001, "-5e-324"},
        {0x7fefffffffffffff, "1.7976931348623157e+308"},
        {0xffefffffffffffff, "-1.7976931348623157e+308"},
        {0x4340000000000000, "9007199254740992"},
        {0xc340000000000000, "-9007199254740992"},
        {0x4430000000000000, "295147905179352830000"},
        {0x44b52d02c7e14af5, "9.999999999999997e+22"},
        {0x44b52d02c7e14af6, "1e+23"},
        {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
        {0x444b1ae4d6e2ef4e, "999999999999999700000"},
        {0x444b1ae4d6e2ef4f, "999999999999999900000"},
        {0x444b1ae4d6e2ef50, "1e+21"},
        {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
        {0x3eb0c6f7a0b5ed8d, "0.000001"},
        {0x41b3de4355555553, "333333333.3333332"},
        {0x41b3de4355555554, "333333333.33333325"},
        {0x41b3de4355555555, "333333333.3333333"},
        {0x41b3de4355555556, "333333333.3333334"},
        {0x41b3de4355555557, "333333333.33333343"},
        {0xbecbf647612f3696, "-0.0000033333333333333333"},
        {0x43143ff3c1cb0959, "1424953923781206.2"},
        /* where the decimal next to the nearest is the shortest */
        {0x0060000000000000, "7.120236347223045e-307"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[32];
        double v;
        memcpy(&v, &rows[i].bits, 8);
        tw_jcs_number(v, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void test_json(void **state)
{
    (void)state;
    canonical(
        "{\"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],\n"
        " \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\", \"literals\": "
        "[null, true, false]}",
        TWIN_CONFIG_JSON,
        "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
        "\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
    canonical("{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,\"\\u0080\":6,"
              "\"\\u00f6\":7}",
              TWIN_CONFIG_JSON,
              "{\"\\r\":2,\"1\":4,\"\xc2\x80\":6,\"\xc3\xb6\":7,\"\xe2\x82\xac\":1,"
              "\"\xf0\x9f\x98\x80\":5,\"\xef\xac\xb3\":3}");
    canonical("[9007199254740991, 9007199254740992, -9007199254740993, 1.0, -0, -0.0, "
              "\"9007199254740993\"]",
              TWIN_CONFIG_JSON,
              "[9007199254740991,{\"$twinrun:integer\":\"9007199254740992\"},{\"$twinrun:integer\":"
              "\"-9007199254740993\"},1,0,0,\"9007199254740993\"]");
    canonical("\"\\u0000\"", TWIN_CONFIG_JSON, "\"\\u0000\"");
    refused("{\"a\": 1, \"a\": 1}", TWIN_CONFIG_JSON, TWIN_EFORMAT, "duplicate");
    refused("[\"\\ud800\"]", TWIN_CONFIG_JSON, TWIN_EFORMAT, "line 1");
    refused("[NaN]", TWIN_CONFIG_JSON, TWIN_EFORMAT, "line 1");
    refused("[1e999]", TWIN_CONFIG_JSON, TWIN_EFORMAT, "overflow");
    refused("[18446744073709551616]", TWIN_CONFIG_JSON, TWIN_EFORMAT, "integer");
    refused("{\"x\": {\"$twinrun:integer\": \"1\"}}", TWIN_CONFIG_JSON, TWIN_EFORMAT, "reserved");
    refused("", TWIN_CONFIG_JSON, TWIN_EFORMAT, "line");
}

static void test_depth(void **state)
{
    char deep[1001];
    (void)state;
    memset(deep, '[', 500);
    memset(deep + 500, ']', 500);
    deep[1000] = '\0';
    refused(deep, TWIN_CONFIG_JSON, TWIN_ELIMIT, "deep");
    struct twin_config c;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_true(read_text(deep, TWIN_CONFIG_TOML, &c, &err) < 0);
}

static void test_yaml(void **state)
{
    struct twin_config c;
    struct twin_error err = TWIN_ERROR_INIT;
    (void)state;
    if (read_text("a: 1", TWIN_CONFIG_YAML, &c, &err) == TWIN_EUNSUPPORTED)
        skip();
    twin_config_free(&c);
    canonical("lr: 1e-3\nn: 0x1F\no: 0o17\nten: 012\nyes: yes\nnone: ~\nf: 1_000\nt: "
              "2020-01-02\ns: '1'\nl: [1., .5, +3, -4]\n!!str 5: !!float 3\n1: one\nempty:\n",
              TWIN_CONFIG_YAML,
              "{\"$twinrun:key:1\":\"one\",\"5\":3,\"empty\":null,\"f\":\"1_000\",\"l\":[1,0.5,3,-"
              "4],\"lr\":0.001,\"n\":31,\"none\":null,\"o\":15,\"s\":\"1\",\"t\":\"2020-01-02\","
              "\"ten\":12,\"yes\":\"yes\"}");
    canonical("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nboth: {<<: [{x: 7}, {x: 8, z: 9}]}\n",
              TWIN_CONFIG_YAML,
              "{\"base\":{\"x\":1,\"y\":2},\"both\":{\"x\":7,\"z\":9},\"use\":{\"x\":1,\"y\":3}}");
    canonical("", TWIN_CONFIG_YAML, "null");
    refused("a: 1\nb: 2\na: 3\n", TWIN_CONFIG_YAML, TWIN_EFORMAT, "line 3");
    refused("a: .nan\n", TWIN_CONFIG_YAML, TWIN_EFORMAT, "NaN");
    refused("a: !include x.yaml\n", TWIN_CONFIG_YAML, TWIN_EFORMAT, "tag");
    refused("a: !!python/object/apply:os.system [ls]\n", TWIN_CONFIG_YAML, TWIN_EFORMAT, "tag");
    refused("a: !!int x\n", TWIN_CONFIG_YAML, TWIN_EFORMAT, "not what its tag says");
    refused("a: 1\n---\nb: 2\n", TWIN_CONFIG_YAML, TWIN_EFORMAT, "more than one");
    refused("a: [1\n", TWIN_CONFIG_YAML, TWIN_EFORMAT, "line");
    refused("&x [*x]\n", TWIN_CONFIG_YAML, TWIN_EFORMAT, "alias");
    refused("a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c "
            "[*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
            "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: "
            "[*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
            TWIN_CONFIG_YAML, TWIN_ELIMIT, "aliases");
}

static void test_toml(void **state)
{
    struct twin_config c;
    struct twin_error err = TWIN_ERROR_INIT;
    (void)state;
    if (read_text("a = 1", TWIN_CONFIG_TOML, &c, &err) == TWIN_EUNSUPPORTED)
        skip();
    twin_config_free(&c);
    canonical(
        "title = \"x\"\nwhen = 2020-01-02T03:04:05Z\nbig = 9223372036854775807\nreal = "
        "1e3\n[optimizer]\nlr = 0.1\nbetas = [0.9, 0.999]\n[[layer]]\nn = 0x10\n[[layer]]\nn = 3\n",
        TWIN_CONFIG_TOML,
        "{\"big\":{\"$twinrun:integer\":\"9223372036854775807\"},\"layer\":[{\"n\":16},{\"n\":3}],"
        "\"optimizer\":{\"betas\":[0.9,0.999],\"lr\":0.1},\"real\":1000,\"title\":\"x\",\"when\":{"
        "\"$twinrun:time\":\"2020-01-02T03:04:05+00:00\"}}");
    refused("a = 1\na = 2\n", TWIN_CONFIG_TOML, TWIN_EFORMAT, "line 2");
    refused("a = nan\n", TWIN_CONFIG_TOML, TWIN_EFORMAT, "NaN");
    canonical(
        "a = \"\"\"\\\"\xc3\xa9\"\"\"\"\nb = '\xc3\xa9' # \xc3\xa9\nc = '''\n\xc3\xa9'\n'''\n",
        TWIN_CONFIG_TOML, "{\"a\":\"\\\"\xc3\xa9\\\"\",\"b\":\"\xc3\xa9\",\"c\":\"\xc3\xa9'\\n\"}");
    refused("a = 1\n\xcd\xbe = 1\n", TWIN_CONFIG_TOML, TWIN_EFORMAT, "line 2");
    refused("a = \"\xff\"\n", TWIN_CONFIG_TOML, TWIN_EFORMAT, "utf-8");
    refused("a = \n", TWIN_CONFIG_TOML, TWIN_EFORMAT, "line 1");
}

static void of_argv(char *const *argv, const char *expected)
{
    struct twin_config c;
    assert_int_equal(twin_config_argv(argv, &c, NULL), 0);
    assert_string_equal(c.text, expected);
    twin_config_free(&c);
}

#define ARGV(...) ((char *const[]){__VA_ARGS__, NULL})

static void test_command_lines(void **state)
{
    (void)state;
    of_argv(ARGV("python", "train.py", "--lr", "0.1", "model.depth=3", "--amp", "--shift=-1",
                 "--low", "-1e-3"),
            "[[\"python\",{}],[\"train.py\",{\"--amp\":[null],\"--low\":[\"-1e-3\"],\"--lr\":[\"0."
            "1\"],\"--shift\":[\"-1\"],\"model.depth=\":[\"3\"]}]]");
    of_argv(ARGV("a", "x", "--k", "1", "--k=2", "--no-amp", "--amp"),
            "[[\"a\",{}],[\"x\",{\"--amp\":[false,null],\"--k\":[\"1\",\"2\"]}]]");
    of_argv(ARGV("a", "--", "--k", "b=c"), "[[\"a\",{\"--\":[null]}],[\"--k\",{}],[\"b=c\",{}]]");
    of_argv(ARGV("a", "\xff"), "[[\"a\",{}],[{\"$twinrun:bytes\":\"\\\\xff\"},{}]]");
}

struct seen {
    char text[512];
};

static int note(void *user, const char *pointer, const char *a, const char *b)
{
    struct seen *s = user;
    size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof s->text - n, "%s %s %s;", pointer, a ? a : "-", b ? b : "-");
    return 0;
}

static void test_differences(void **state)
{
    struct twin_config a, b;
    struct seen seen = {{0}};
    (void)state;
    assert_int_equal(read_text("{\"x\": {\"a/b\": 1, \"c\": [1, 2]}, \"only\": 1, \"t\": 1.0}",
                               TWIN_CONFIG_JSON, &a, NULL),
                     0);
    assert_int_equal(
        read_text("{\"t\": 1, \"x\": {\"a/b\": 2, \"c\": [1, 3, 4]}}", TWIN_CONFIG_JSON, &b, NULL),
        0);
    assert_int_equal(twin_config_compare(&a, &b, note, &seen), 4);
    assert_string_equal(seen.text, "/only 1 -;/x/a~1b 1 2;/x/c/1 2 3;/x/c/2 - 4;");
    assert_int_equal(twin_config_compare(&a, &a, note, &seen), 0);
    twin_config_free(&a);
    twin_config_free(&b);
}

static void test_without_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct twin_config c;
        struct twin_error err = TWIN_ERROR_INIT;
        assert_int_equal(
            tw_write_file_atomic(path, "{\"b\": [1, \"x\"], \"a\": {\"c\": 9007199254740993}}", 45,
                                 NULL),
            0);
        tw_alloc_fail_at(n, false);
        int rc = twin_config_read(path, TWIN_CONFIG_JSON, &c, &err);
        tw_alloc_fail_at(0, false);
        if (rc == 0) {
            twin_config_free(&c);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(rc, TWIN_ENOMEM);
    }
}

static int make(void **state)
{
    (void)state;
    return mkstemp(path) < 0;
}

static int drop(void **state)
{
    (void)state;
    return remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),     cmocka_unit_test(test_json),
        cmocka_unit_test(test_depth),       cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_toml),        cmocka_unit_test(test_command_lines),
        cmocka_unit_test(test_differences), cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
