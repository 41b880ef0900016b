/* SPDX-License-Identifier: Apache-2.0 */
/* The registry without its command: names, entries both ways, a log without memory, two writers. */
#include "src/net/http.h"
#include "src/registry/registry.h"
#include "src/registry/sink.h"

#include "base.h"
#include "sha256.h"

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/twinrun-registry-XXXXXX";
static const char *const key[] = {"k", NULL};
static char *pub[] = {"k.pub", NULL};

static int make_place(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 &&
                   twin_key_new("k", TWIN_KEY_ED25519, NULL) == 0 &&
                   tw_registry_make("R", NULL, &(struct tw_strings){0}, "for tests", key, 1,
                                    NULL) == 0
               ? 0
               : -1;
}

static int remove_place(void **state)
{
    (void)state;
    return chdir("/") == 0 ? tw_remove_tree(folder, NULL, NULL) : -1;
}

static struct tw_registry open_one(struct twin_trust **trust)
{
    struct tw_registry r;
    assert_int_equal(twin_trust_keys(pub, 1, trust, NULL), 0);
    assert_int_equal(tw_registry_open("R", *trust, &r, NULL), 0);
    assert_int_equal(r.faults, 0);
    return r;
}

static struct tw_entry version(uint64_t number)
{
    struct tw_entry e = {.kind = TW_ENTRY_ADD, .model = "m", .version = number, .why = ""};
    memset(e.artifact, 'a', 64);
    return e;
}

/* The value of "Name: value", without the blanks around it, and no other name's. */
static void test_heads(void **state)
{
    static const struct {
        const char *line, *value;
    } lines[] = {{"ETag: \"x\"", "\"x\""},
                 {"etag:\t \"x\" \t", "\"x\""},
                 {"etag:", ""},
                 {"etag: ", ""},
                 {"etags: x", NULL},
                 {"etag", NULL},
                 {"x-etag: x", NULL},
                 {"", NULL}};
    char out[8], small[3];
    uint64_t number = 9;
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const bool given = tw_http_given(lines[i].line, strlen(lines[i].line), "etag", out,
                                         sizeof out);
        assert_int_equal(given, lines[i].value != NULL);
        if (given)
            assert_string_equal(out, lines[i].value);
    }
    assert_false(tw_http_given("a: bcd", 6, "a", small, sizeof small));
    assert_string_equal(small, "bc");
    assert_true(tw_http_given("a: bcd", 5, "a", small, sizeof small)); /* as long as it was said */
    assert_false(tw_http_given_number("b: 1", 4, "a", 5, &number));
    assert_int_equal(number, 9);
    assert_true(tw_http_given_number("a: 5", 4, "a", 5, &number));
    assert_int_equal(number, 5);
    for (const char *const *bad = (const char *const[]){"a: 6", "a: -1", "a: 1x", "a:", NULL}; *bad;
         bad++) {
        number = 9;
        assert_true(tw_http_given_number(*bad, strlen(*bad), "a", 5, &number));
        assert_int_equal(number, 0);
    }
}

/* What arrives in pieces is what was written and digested; no more than was allowed. */
static void test_sink(void **state)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_buf b = {.cap = 6};
    struct tw_sink k = {.into = &b, .fd = -1};
    char hex[65];
    (void)state;
    assert_int_equal(tw_sink_begin(&k, "x", NULL), 0);
    assert_true(tw_sink_take(&k, "ab", 2) && tw_sink_take(&k, "", 0) && tw_sink_take(&k, "cde", 3));
    assert_false(tw_sink_take(&k, "f", 1)); /* the buffer's limit */
    assert_int_equal(tw_sink_end(&k, TWIN_EIO, "x", NULL), TWIN_EIO);
    assert_string_equal(b.data, "abcde");
    tw_buf_free(&b);

    k = (struct tw_sink){.fd = -1, .most = 3};
    assert_int_equal(tw_sink_begin(&k, "x", NULL), 0);
    assert_true(tw_sink_take(&k, "abc", 3));
    assert_false(tw_sink_take(&k, "d", 1));
    assert_true(k.over && k.bytes == 3);
    assert_int_equal(tw_sink_end(&k, 0, "x", NULL), 0);
    assert_true(tw_sha256_of("abc", 3, hex));
    assert_string_equal(k.sha256, hex);
    assert_int_equal(tw_sink_is(&k, hex, 3, "x", NULL), 0);
    assert_int_equal(tw_sink_is(&k, hex, 4, "x", &err), TWIN_EFORMAT);
    hex[0] ^= 1;
    assert_int_equal(tw_sink_is(&k, hex, 3, "x", NULL), TWIN_EFORMAT);

    /* a file that takes nothing: its own reason, whatever whoever gave the bytes says */
    k = (struct tw_sink){.fd = open("/dev/full", O_WRONLY | O_CLOEXEC)};
    assert_true(k.fd >= 0);
    assert_int_equal(tw_sink_begin(&k, "x", NULL), 0);
    assert_false(tw_sink_take(&k, "abc", 3));
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(tw_sink_end(&k, TWIN_EFORMAT, "x", &err), TWIN_EIO);
    assert_non_null(strstr(err.message, "cannot write a copy of x"));
    close(k.fd);
}

static void test_loopback(void **state)
{
    (void)state;
    static const char *const here[] = {"localhost",     "LOCALHOST:1",   "127.0.0.1",
                                       "127.9.8.7:443", "127.0.0.1/a@b", "[::1]",
                                       "[::1]:5000/",   "localhost?a:b", "127.0.0.1:80#x@y"};
    static const char *const other[] = {"",
                                        "localhost:x@evil.example/",
                                        "localhost@evil.example",
                                        "127.0.0.1:80@evil.example",
                                        "127.0.0.1.evil.example",
                                        "[::1]@evil.example",
                                        "[::1].evil.example",
                                        "[::1",
                                        "[::2]",
                                        "localhost.evil.example",
                                        "localhost:8o",
                                        "128.0.0.1",
                                        "127.0.0.256",
                                        "127.0.0",
                                        "127.0.0.1 ",
                                        "127.+0.0.1",
                                        "127. 0.0.1",
                                        "evil.example/localhost",
                                        "user:@127.0.0.1"};
    for (size_t i = 0; i < sizeof here / sizeof here[0]; i++)
        if (!tw_http_is_loopback(here[i]))
            fail_msg("%s", here[i]);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (tw_http_is_loopback(other[i]))
            fail_msg("%s", other[i]);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "resnet-50", "vision/resnet_50.v2", "A/B/c-1"};
    static const char *const bad[] = {"",     "/a",  "a/",  "a//b",     ".a",
                                      "a/.b", "a b", "a@1", "\xc3\xa9", "a\n"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(tw_model_name_ok(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(tw_model_name_ok(bad[i]));
}

static void test_entries_both_ways(void **state)
{
    (void)state;
    for (int kind = 0; kind < TW_ENTRY_KINDS; kind++) {
        struct tw_entry e = version(7), back;
        struct twin_envelope env = {0};
        e.kind = (enum tw_entry_kind)kind;
        e.number = kind == TW_ENTRY_OPEN ? 1 : 9;
        e.time_ns = INT64_C(1700000000) * 1000000000;
        if (kind == TW_ENTRY_OPEN || kind == TW_ENTRY_VOUCH || kind == TW_ENTRY_COLLECT ||
            kind == TW_ENTRY_POLICY) {
            e.model = NULL;
            e.version = 0;
        }
        if (kind != TW_ENTRY_OPEN)
            memset(e.previous, 'b', 64);
        e.from = TW_STAGE_CANARY;
        e.to = TW_STAGE_PRODUCTION;
        e.displaced = 3;
        e.passed = true;
        e.why = "because";
        assert_int_equal(tw_entry_envelope(&e, &env, NULL), 0);
        assert_int_equal(tw_entry_parse(&env, "an entry", &back, NULL), 0);
        assert_int_equal(back.kind, kind);
        assert_int_equal(back.number, e.number);
        assert_int_equal(back.time_ns, e.time_ns);
        assert_int_equal(back.version, e.version);
        assert_string_equal(back.why, e.why);
        assert_string_equal(back.artifact, e.artifact);
        assert_string_equal(back.previous, e.previous);
        if (kind == TW_ENTRY_MOVE) {
            assert_int_equal(back.to, e.to);
            assert_int_equal(back.displaced, 3);
        }
        tw_entry_free(&back);
        twin_envelope_free(&env);
    }
}

/* Of two who read the same log one can write; the other is told, and what he read is as it was. */
static void test_two_writers(void **state)
{
    (void)state;
    struct twin_trust *trust_a, *trust_b;
    struct tw_registry a = open_one(&trust_a), b = open_one(&trust_b);
    struct tw_entry x = version(1), y = version(1);
    assert_int_equal(tw_registry_current(&b, NULL), 0);
    assert_int_equal(tw_registry_append(&a, &x, key, 1, NULL), 0);
    assert_int_equal(tw_registry_current(&b, NULL), TWIN_EBUSY);
    assert_int_equal(tw_registry_append(&b, &y, key, 1, NULL), TWIN_EBUSY);
    tw_registry_close(&a);
    tw_registry_close(&b);
    twin_trust_free(trust_a);
    twin_trust_free(trust_b);
    a = open_one(&trust_a);
    assert_int_equal(a.count, 2);
    assert_int_equal(a.models, 1);
    tw_registry_close(&a);
    twin_trust_free(trust_a);
}

/* What does not fit is never written. */
static void test_entries_that_do_not_fit(void **state)
{
    (void)state;
    struct twin_trust *trust;
    for (int i = 0; i < 6; i++) {
        struct tw_registry r = open_one(&trust);
        struct tw_entry e = version(1);
        e.kind = i < 3 ? TW_ENTRY_MOVE : TW_ENTRY_CANARY;
        e.from = i == 0 ? TW_STAGE_CANARY : TW_STAGE_CANDIDATE; /* it is a candidate */
        e.to = i == 1 ? TW_STAGE_CANDIDATE : TW_STAGE_PRODUCTION;
        e.displaced = i == 2 ? 1 : 0;
        if (i == 3)
            e.kind = TW_ENTRY_RELEASE; /* it is not held */
        if (i == 4)
            memset(e.artifact, 'c', 64);
        assert_int_equal(tw_registry_append(&r, &e, key, 1, NULL), TWIN_EFORMAT);
        assert_int_equal(tw_registry_current(&r, NULL), 0);
        tw_registry_close(&r);
        twin_trust_free(trust);
    }
}

/* A content under its digest, from memory. */
static void store_text(struct tw_store *s, const void *text, size_t n, char digest[65])
{
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    rewind(f);
    assert_true(tw_sha256_of(text, n, digest));
    assert_int_equal(tw_store_put_content(s, fileno(f), digest, n, "a text", NULL), 0);
    fclose(f);
}

/* Whoever adds a version writes its manifest, and runs are held against the tensors' digest in it:
 * one that is not that of the file passes no policy. */
static void test_tensors_that_are_not_there(void **state)
{
    (void)state;
    static const char header[118] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
    char npy[136] = "\x93NUMPY\x01", file[65], manifest[400], digest[65];
    npy[8] = 118;
    memset(npy + 10, ' ', 118);
    memcpy(npy + 10, header, strlen(header));
    npy[127] = '\n';
    for (int right = 0; right < 2; right++) {
        struct twin_trust *trust;
        struct tw_registry r = open_one(&trust);
        struct tw_entry e = version(1);
        struct tw_promotion p;
        struct tw_artifact a;
        char policy[] = "[[promote]]\nto = \"canary\"\n";
        assert_int_equal(tw_write_file_atomic("a.npy", npy, sizeof npy, NULL), 0);
        assert_int_equal(tw_artifact_take("a.npy", &a, NULL), 0);
        assert_int_equal(strlen(a.file[0].content), 64);
        store_text(r.store, npy, sizeof npy, file);
        snprintf(manifest, sizeof manifest,
                 "{\"files\":[{\"bytes\":%zu,\"content\":\"%s\",\"path\":\"a.npy\","
                 "\"run\":false,\"sha256\":\"%s\"}],\"folder\":false,\"schema\":"
                 "\"twinrun.artifact/1\"}",
                 sizeof npy, right ? a.file[0].content : file, file);
        store_text(r.store, manifest, strlen(manifest), digest);
        memcpy(e.artifact, digest, sizeof e.artifact);
        e.model = "tensors";
        e.version = 1 + (uint64_t)right;
        assert_int_equal(tw_registry_append(&r, &e, key, 1, NULL), 0);
        const struct tw_model *m = tw_registry_model(&r, "tensors");
        assert_int_equal(tw_promotion_judge(&r, m, &m->version[right], TW_STAGE_CANARY, policy,
                                            "a policy", trust, 0, &p, NULL),
                         0);
        assert_int_equal(p.passed, right);
        if (!right)
            assert_non_null(strstr(p.check[0].found, "other tensors"));
        tw_artifact_free(&a);
        tw_registry_close(&r);
        twin_trust_free(trust);
    }
}

/* Each allocation fails once: an error, never a registry that says less than the log. */
static void test_reading_without_memory(void **state)
{
    (void)state;
    struct twin_trust *trust;
    struct tw_registry whole = open_one(&trust);
    for (uint64_t n = 1;; n++) {
        struct tw_registry r;
        struct twin_error err = TWIN_ERROR_INIT;
        tw_alloc_fail_at(n, false);
        int rc = tw_registry_open("R", trust, &r, &err);
        tw_alloc_fail_at(0, false);
        if (rc == 0) {
            for (size_t i = 0; i < r.faults; i++)
                print_message("%zu: %s\n", (size_t)n, r.fault[i].what);
            assert_int_equal(r.count, whole.count);
            assert_int_equal(r.faults, 0);
            tw_registry_close(&r);
            break;
        }
        assert_true(n < 10000);
        assert_int_equal(rc, TWIN_ENOMEM);
    }
    tw_registry_close(&whole);
    twin_trust_free(trust);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_sink),
        cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_entries_both_ways),
        cmocka_unit_test(test_two_writers),
        cmocka_unit_test(test_entries_that_do_not_fit),
        cmocka_unit_test(test_tensors_that_are_not_there),
        cmocka_unit_test(test_reading_without_memory),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
