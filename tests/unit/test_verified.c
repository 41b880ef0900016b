/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification as a whole (src/sign/verified.h): a file and a folder as they were signed, changed,
 * missing, added, another signer's, not given; the bytes of a file that has its envelope beside it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "found.h"
#include "verified.h"

static char folder[] = "/tmp/twinrun-verified-XXXXXX";

static const char *at(const char *name)
{
    static char path[4][160];
    static unsigned turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static void write_text(const char *name, const char *text)
{
    assert_int_equal(tw_write_file_atomic(at(name), text, strlen(text), NULL), 0);
}

/* Signs a file or a folder with our key; the envelope is `name`.dsse.json. */
static void sign(const char *name, bool is_folder)
{
    struct twin_subjects s = {0};
    struct twin_envelope e = {0};
    struct twin_key *k = NULL;
    char *text, path[200];
    size_t n;
    json_t *predicate = json_pack("{s:s}", "kind", is_folder ? "folder" : "file");
    if (is_folder)
        assert_int_equal(tw_signed_folder(at(name), NULL, &s, NULL), 0);
    else
        assert_int_equal(twin_subject_file(at(name), name, &s, NULL), 0);
    assert_int_equal(twin_statement_envelope(&s, TWIN_PREDICATE_SIGNED, predicate, &e, NULL), 0);
    assert_int_equal(twin_key_open(at("ours"), &k, NULL), 0);
    assert_int_equal(twin_envelope_sign(&e, k, NULL), 0);
    assert_int_equal(twin_envelope_text(&e, &text, &n, NULL), 0);
    snprintf(path, sizeof path, "%s.dsse.json", at(name));
    assert_int_equal(tw_write_file_atomic(path, text, n, NULL), 0);
    tw_free(text);
    twin_key_close(k);
    twin_envelope_free(&e);
    twin_subjects_free(&s);
    json_decref(predicate);
}

static struct twin_trust *trust_in(const char *key)
{
    char path[200];
    char *const paths[] = {path};
    struct twin_trust *t = NULL;
    snprintf(path, sizeof path, "%s.pub", at(key));
    assert_int_equal(twin_trust_keys(paths, 1, &t, NULL), 0);
    return t;
}

/* Verifies name.dsse.json, trusting `key`, against `operand` (NULL: nothing is given). */
static void expect(const char *name, const char *key, const char *operand,
                   enum tw_verified_outcome outcome, const char *why)
{
    char envelope[200], thing[200];
    char *const operands[] = {thing};
    struct twin_trust *t = trust_in(key);
    struct tw_verified v;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_verified_question q = {
        .envelope = envelope, .operands = operands, .operand_count = operand ? 1 : 0, .trust = t};
    q.at_ns = tw_realtime_ns();
    snprintf(envelope, sizeof envelope, "%s.dsse.json", at(name));
    snprintf(thing, sizeof thing, "%s", operand ? at(operand) : "");
    if (tw_verified_envelope(&q, &v, &err) != 0)
        fail_msg("%s", err.message);
    if (v.outcome != outcome || !strstr(v.why, why))
        fail_msg("expected %d with \"%s\", found %d with \"%s\"", outcome, why, v.outcome, v.why);
    tw_verified_free(&v);
    twin_trust_free(t);
}

static void files(void **state)
{
    (void)state;
    write_text("model.bin", "weights");
    sign("model.bin", false);
    expect("model.bin", "ours", "model.bin", TW_VERIFIED_SAME, "is what was signed");
    expect("model.bin", "ours", NULL, TW_VERIFIED_OPEN, "nothing was given");
    expect("model.bin", "theirs", "model.bin", TW_VERIFIED_FAILED, "is not to be trusted");
    write_text("model.bin", "others");
    expect("model.bin", "ours", "model.bin", TW_VERIFIED_FAILED,
           "is not what was signed: 1 changed");
}

static void folders(void **state)
{
    (void)state;
    assert_int_equal(mkdir(at("data"), 0700), 0);
    write_text("data/a", "1");
    write_text("data/b", "2");
    write_text("data/c", "3");
    sign("data", true);
    expect("data", "ours", "data", TW_VERIFIED_SAME, "is what was signed (3 files)");
    write_text("data/a", "another");
    assert_int_equal(unlink(at("data/b")), 0);
    write_text("data/d", "4");
    expect("data", "ours", "data", TW_VERIFIED_FAILED, "1 changed, 1 missing, 1 added");
}

/* A file where a folder was signed is a question that cannot be answered, not a verdict. */
static void not_a_folder(void **state)
{
    struct tw_verified v;
    struct twin_error err = TWIN_ERROR_INIT;
    char envelope[200], thing[200];
    char *const operands[] = {thing};
    struct twin_trust *t = trust_in("ours");
    (void)state;
    snprintf(envelope, sizeof envelope, "%s.dsse.json", at("data"));
    snprintf(thing, sizeof thing, "%s", at("data/c"));
    const struct tw_verified_question q = {envelope, operands, 1, NULL, t, tw_realtime_ns(), false};
    assert_int_equal(tw_verified_envelope(&q, &v, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "expected the folder that was signed, found a file"));
    twin_trust_free(t);
}

static void bytes(void **state)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *ours = trust_in("ours"), *theirs = trust_in("theirs");
    char *who = NULL;
    (void)state;
    write_text("baseline.json", "{}");
    sign("baseline.json", false);
    const char *path = at("baseline.json");
    assert_int_equal(tw_signed_bytes(path, "{}", 2, ours, tw_realtime_ns(), &who, &err), 0);
    assert_non_null(strstr(who, "ours"));
    tw_free(who);
    /* The bytes that were read are judged, not the file. */
    assert_int_equal(tw_signed_bytes(path, "[]", 2, ours, tw_realtime_ns(), &who, &err),
                     TWIN_EFORMAT);
    assert_non_null(strstr(err.message, "is not what was signed"));
    assert_null(who);
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(tw_signed_bytes(path, "{}", 2, theirs, tw_realtime_ns(), &who, &err),
                     TWIN_EFORMAT);
    assert_non_null(strstr(err.message, "is not to be trusted"));
    twin_trust_free(ours);
    twin_trust_free(theirs);
}

/* Every allocation fails once: an error, or nothing is said to agree (twin_subjects_match); at last
 * there is enough. */
static void no_memory(void **state)
{
    struct twin_trust *t = trust_in("ours");
    char envelope[200], thing[200];
    char *const operands[] = {thing};
    bool same = false;
    (void)state;
    write_text("model.bin", "weights");
    snprintf(envelope, sizeof envelope, "%s.dsse.json", at("model.bin"));
    snprintf(thing, sizeof thing, "%s", at("model.bin"));
    const struct tw_verified_question q = {envelope, operands, 1, NULL, t, tw_realtime_ns(), false};
    for (unsigned long n = 1; !same && n < 5000; n++) {
        struct tw_verified v;
        tw_alloc_fail_at(n, false);
        int rc = tw_verified_envelope(&q, &v, NULL);
        tw_alloc_fail_at(0, false);
        if (rc == 0) {
            same = v.outcome == TW_VERIFIED_SAME;
            tw_verified_free(&v);
        }
    }
    assert_true(same);
    twin_trust_free(t);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || twin_key_new(at("ours"), TWIN_KEY_ED25519, NULL) != 0)
        return -1;
    return twin_key_new(at("theirs"), TWIN_KEY_P256, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    return tw_remove_tree(folder, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files), cmocka_unit_test(folders),   cmocka_unit_test(not_a_folder),
        cmocka_unit_test(bytes), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
