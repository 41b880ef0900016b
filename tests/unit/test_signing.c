/* SPDX-License-Identifier: Apache-2.0 */
/* What is signed, by whom, and where it goes (src/sign/signing.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "signing.h"

static char folder[] = "/tmp/twinrun-signing-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return -1;
    setenv("TWINRUN_HOME", "home", 1);
    unsetenv("TWINRUN_KEY_PASSPHRASE");
    return twin_key_new("first", TWIN_KEY_P256, NULL) ||
           twin_key_new("second", TWIN_KEY_ED25519, NULL) || tw_mkdirs("model", NULL) ||
           tw_mkdirs("empty", NULL) || tw_write_file_atomic("model/weights", "1", 1, NULL) ||
           tw_write_file_atomic("data", "12", 2, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    if (chdir("/") != 0)
        return -1;
    tw_remove_tree(folder, NULL, NULL);
    return 0;
}

static void goes_to(const struct tw_signing *s, const char *expected)
{
    struct twin_envelope e = {0};
    struct twin_error err = TWIN_ERROR_INIT;
    char *path = NULL;
    if (tw_signing_prepare(s, &e, &path, &err) != 0)
        fail_msg("%s", err.message);
    assert_string_equal(path, expected);
    assert_int_equal(e.signature_count, 0);
    twin_envelope_free(&e);
    tw_free(path);
}

static void test_where_it_goes(void **state)
{
    (void)state;
    goes_to(&(struct tw_signing){.target = "data"}, "data.dsse.json");
    goes_to(&(struct tw_signing){.target = "model//"}, "model.dsse.json");
    goes_to(&(struct tw_signing){.target = "model/", .model = true}, "model.sig");
    goes_to(&(struct tw_signing){.target = "data", .out = "-"}, "-");
    goes_to(&(struct tw_signing){.target = "data", .out = "elsewhere"}, "elsewhere");
}

static void test_nothing_to_sign(void **state)
{
    (void)state;
    struct twin_envelope e = {0};
    struct twin_error err = TWIN_ERROR_INIT;
    char *path = NULL;
    assert_int_equal(tw_signing_prepare(&(struct tw_signing){.target = "empty"}, &e, &path, &err),
                     TWIN_EINVAL);
    assert_string_equal(err.message, "empty: expected files, found none: there is nothing to sign");
    twin_envelope_free(&e);
    tw_free(path);
}

/* Prepares, signs and writes. */
static int sign(const struct tw_signing *s, const char *const *keys, size_t count,
                struct twin_error *err)
{
    struct twin_envelope e = {0};
    char *path = NULL, *text = NULL;
    size_t n = 0;
    int rc = tw_signing_prepare(s, &e, &path, err);
    rc = rc ? rc : tw_envelope_sign_all(&e, keys, count, s->model, err);
    rc = rc ? rc : tw_signing_text(&e, s->model, &text, &n, err);
    rc = rc ? rc : tw_signing_write(path, text, n, s->add && !s->out, err);
    twin_envelope_free(&e);
    tw_free(path);
    tw_free(text);
    return rc;
}

static size_t signatures_in(const char *path)
{
    struct twin_envelope e = {0};
    char *text;
    size_t n;
    assert_int_equal(tw_read_file(path, TWIN_ENVELOPE_MAX, &text, &n, NULL), 0);
    assert_int_equal(twin_envelope_parse(text, n, path, false, &e, NULL), 0);
    size_t count = e.signature_count;
    twin_envelope_free(&e);
    tw_free(text);
    return count;
}

/* An envelope that is there may hold others' signatures: only --add touches it. */
static void test_envelopes_are_kept(void **state)
{
    (void)state;
    static const char *const keys[] = {"first", "second"};
    struct twin_error err = TWIN_ERROR_INIT;
    const struct tw_signing once = {.target = "data"};
    const struct tw_signing more = {.target = "data.dsse.json", .add = true};
    assert_int_equal(sign(&once, keys, 1, &err), 0);
    assert_int_equal(sign(&once, keys + 1, 1, &err), TWIN_EIO);
    assert_non_null(strstr(err.message, "is there already"));
    assert_int_equal(signatures_in("data.dsse.json"), 1);
    assert_int_equal(sign(&more, keys + 1, 1, &err), 0);
    assert_int_equal(signatures_in("data.dsse.json"), 2);
    /* the same key again, and a copy elsewhere that is there */
    assert_int_equal(sign(&more, keys, 1, &err), TWIN_EINVAL);
    const struct tw_signing copy = {.target = "data.dsse.json", .add = true, .out = "data"};
    static const char *const none[] = {NULL};
    assert_int_equal(sign(&copy, none, 0, &err), TWIN_EIO);
}

static void test_keys_of_models(void **state)
{
    (void)state;
    static const char *const keys[] = {"first", "second"};
    struct twin_error err = TWIN_ERROR_INIT;
    const struct tw_signing s = {.target = "model", .model = true};
    assert_int_equal(sign(&s, keys + 1, 1, &err), TWIN_EUNSUPPORTED);
    assert_int_not_equal(access("model.sig", F_OK), 0);
    assert_int_equal(sign(&s, keys, 1, &err), 0);
    assert_int_equal(access("model.sig", F_OK), 0);
}

static void test_only_runs_are_reproduced(void **state)
{
    (void)state;
    char *const names[] = {(char *)"data", (char *)"model"};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_verdict *v = NULL;
    struct twin_envelope e = {0};
    assert_int_equal(tw_signing_reproduced(NULL, names, 2, NULL, &v, &e, &err), TWIN_EINVAL);
    assert_string_equal(err.message, "data: expected a run, found a file or another folder");
    assert_null(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_it_goes),
        cmocka_unit_test(test_nothing_to_sign),
        cmocka_unit_test(test_envelopes_are_kept),
        cmocka_unit_test(test_keys_of_models),
        cmocka_unit_test(test_only_runs_are_reproduced),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
