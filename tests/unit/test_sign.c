/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures: base64 (RFC 4648's vectors), PAE (DSSE's example), keys, envelopes of which every bit
 * is turned, trust (thresholds, validity, revoked and repeated keys, key ids), statements and
 * subjects, and every allocation failing. tests/agents/test_sign*.py have the other programs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

#include "src/sign/sign.h"

static char folder[] = "/tmp/twinrun-sign-XXXXXX";
static const char *const names[] = {"a", "b", "c"};

static const char *at(const char *name)
{
    static char path[4][128];
    static unsigned turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    for (size_t i = 0; i < 3; i++)
        if (twin_key_new(at(names[i]), i == 1 ? TWIN_KEY_P256 : TWIN_KEY_ED25519, NULL) != 0)
            return -1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return tw_remove_tree(folder, NULL, NULL);
}

static void base64(void **state)
{
    static const char *const vectors[][2] = {{"", ""},
                                             {"f", "Zg=="},
                                             {"fo", "Zm8="},
                                             {"foo", "Zm9v"},
                                             {"foob", "Zm9vYg=="},
                                             {"fooba", "Zm9vYmE="},
                                             {"foobar", "Zm9vYmFy"},
                                             {"\xfb\xff", "+/8="}};
    static const char *const bad[] = {
        "Z",     "Zg",    "Zg=",  "Zh==", "Zm9=",     "Zg===", "Zm9v\n",
        " Zm9v", "Zm9v=", "====", "-_8=", "Zg==Zg==", "Z=g=",  "Zm9vYg"};
    static const char *const foreign_bad[] = {"Z", "Zh", "Zg=", "Zg== ", "-/8", "Zm9v="};
    size_t n;
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        char *text = tw_base64(vectors[i][0], strlen(vectors[i][0]));
        unsigned char *back = tw_base64_read(vectors[i][1], false, &n);
        assert_string_equal(text, vectors[i][1]);
        assert_int_equal(n, strlen(vectors[i][0]));
        assert_memory_equal(back, vectors[i][0], n);
        tw_free(text);
        tw_free(back);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(tw_base64_read(bad[i], false, &n));
    for (size_t i = 0; i < sizeof foreign_bad / sizeof foreign_bad[0]; i++)
        assert_null(tw_base64_read(foreign_bad[i], true, &n));
    unsigned char *url = tw_base64_read("-_8", true, &n);
    assert_int_equal(n, 2);
    assert_memory_equal(url, "\xfb\xff", 2);
    tw_free(url);
}

static void pae(void **state)
{
    size_t n;
    (void)state;
    char *text = twin_pae("http://example.com/HelloWorld", "hello world", 11, &n);
    assert_string_equal(text, "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    assert_int_equal(n, strlen(text));
    tw_free(text);
}

static struct twin_key *open_key(const char *name)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_key *k = NULL;
    if (twin_key_open(at(name), &k, &err) != 0)
        fail_msg("%s", err.message);
    return k;
}

/* An envelope over one subject, signed by these keys; its text. */
static char *signed_text(const char *const *keys, size_t count, size_t *bytes)
{
    struct twin_subjects s = {0};
    struct twin_envelope e;
    char *text;
    json_t *predicate = json_pack("{s:s}", "kind", "file");
    assert_int_equal(twin_subjects_add(&s, "x", "sha256", "00ff", NULL), 0);
    assert_int_equal(twin_statement_envelope(&s, TWIN_PREDICATE_SIGNED, predicate, &e, NULL), 0);
    for (size_t i = 0; i < count; i++) {
        struct twin_key *k = open_key(keys[i]);
        assert_int_equal(twin_envelope_sign(&e, k, NULL), 0);
        assert_int_equal(twin_envelope_sign(&e, k, NULL), TWIN_EINVAL);
        twin_key_close(k);
    }
    assert_int_equal(twin_envelope_text(&e, &text, bytes, NULL), 0);
    json_decref(predicate);
    twin_subjects_free(&s);
    twin_envelope_free(&e);
    return text;
}

static struct twin_trust *trust_of(const char *const *keys, size_t count)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *t = NULL;
    char paths[3][128], *list[3];
    for (size_t i = 0; i < count; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s.pub", folder, keys[i]);
        list[i] = paths[i];
    }
    if (twin_trust_keys(list, count, &t, &err) != 0)
        fail_msg("%s", err.message);
    return t;
}

static bool accepted(const struct twin_trust *t, const char *text, size_t n, bool foreign)
{
    struct twin_envelope e;
    struct twin_trust_verdict v;
    struct twin_statement st;
    if (twin_envelope_parse(text, n, "envelope", foreign, &e, NULL) != 0)
        return false;
    assert_int_equal(twin_trust_judge(t, &e, tw_realtime_ns(), &v, NULL), 0);
    const bool good = v.trusted && twin_statement_parse(&e, "envelope", &st, NULL) == 0;
    if (good)
        twin_statement_free(&st);
    twin_trust_verdict_free(&v);
    twin_envelope_free(&e);
    return good;
}

/* Every bit of an envelope with two signatures, turned; every byte left out; every one put in
 * twice. */
static void each_change_is_seen(void **state)
{
    size_t n;
    (void)state;
    char *text = signed_text(names, 2, &n);
    struct twin_trust *t = trust_of(names, 2);
    assert_true(accepted(t, text, n, false));
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ 1 << bit);
            if (accepted(t, text, n, false))
                fail_msg("byte %zu, bit %d", i, bit);
            text[i] = (char)(text[i] ^ 1 << bit);
        }
    char *other = tw_malloc(n + 2);
    for (size_t i = 0; i < n; i++) {
        memcpy(other, text, i);
        memcpy(other + i, text + i + 1, n - i - 1);
        assert_false(accepted(t, other, n - 1, false));
        memcpy(other, text, i + 1);
        memcpy(other + i + 1, text + i, n - i);
        assert_false(accepted(t, other, n + 1, false));
        assert_false(accepted(t, text, i, false));
    }
    assert_true(accepted(t, text, n, false));
    tw_free(other);
    tw_free(text);
    twin_trust_free(t);
}

static void other_tools_envelopes(void **state)
{
    size_t n, payload_bytes;
    struct twin_envelope e;
    char out[2048], *text;
    (void)state;
    text = signed_text(names, 1, &payload_bytes);
    assert_int_equal(twin_envelope_parse(text, payload_bytes, "x", false, &e, NULL), 0);
    char *payload = tw_base64(e.payload, e.payload_bytes);
    char *sig = tw_base64(e.signature[0].bytes, e.signature[0].length);
    for (char *c = sig; *c; c++) /* the other alphabet, without padding */
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    sig[strcspn(sig, "=")] = '\0';
    n = (size_t)snprintf(out, sizeof out,
                         "{ \"signatures\": [{\"sig\": \"%s\", \"keyid\": \"their name\", "
                         "\"more\": 1}], \"payloadType\": \"%s\", \"payload\": \"%s\" }",
                         sig, e.type, payload);
    struct twin_trust *t = trust_of(names, 1);
    assert_true(accepted(t, out, n, true));
    assert_false(accepted(t, out, n, false));
    out[n - 5]++;
    assert_false(accepted(t, out, n, true));
    twin_trust_free(t);
    twin_envelope_free(&e);
    tw_free(payload);
    tw_free(sig);
    tw_free(text);
}

static void refused_forms(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[]}",
        "{\"payload\":\"\",\"payloadType\":\"\",\"signatures\":[{\"sig\":\"AA==\"}]}",
        "{\"payload\":1,\"payloadType\":\"t\",\"signatures\":[{\"sig\":\"AA==\"}]}",
        "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":{}}",
        "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"sig\":\"\"}]}",
        "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"sig\":\"AA==\",\"keyid\":7}]}",
        "{\"payload\":\"\",\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"sig\":\"AA=="
        "\"}]}",
        "{\"payload\":\"\",\"payloadType\":\"\\ud800\",\"signatures\":[{\"sig\":\"AA==\"}]}",
        "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[1]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_envelope e;
        assert_int_equal(twin_envelope_parse(texts[i], strlen(texts[i]), "x.json", true, &e, &err),
                         TWIN_EFORMAT);
        assert_non_null(strstr(err.message, "x.json"));
    }
}

static void statement_refused(const char *payload)
{
    struct twin_envelope e;
    struct twin_statement st;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_envelope_make(TWIN_PAYLOAD_INTOTO, payload, strlen(payload), &e, NULL),
                     0);
    assert_int_equal(twin_statement_parse(&e, "x.json", &st, &err), TWIN_EFORMAT);
    assert_non_null(strstr(err.message, "x.json"));
    twin_envelope_free(&e);
}

static void refused_statements(void **state)
{
    (void)state;
    statement_refused("{");
    statement_refused(
        "{\"_type\":\"https://in-toto.io/Statement/"
        "v0.1\",\"predicateType\":\"p\",\"subject\":[{\"digest\":{\"sha256\":\"00\"}}]}");
    statement_refused("{\"_type\":\"https://in-toto.io/Statement/"
                      "v1\",\"subject\":[{\"digest\":{\"sha256\":\"00\"}}]}");
    statement_refused(
        "{\"_type\":\"https://in-toto.io/Statement/v1\",\"predicateType\":\"p\",\"subject\":[]}");
    statement_refused("{\"_type\":\"https://in-toto.io/Statement/"
                      "v1\",\"predicateType\":\"p\",\"subject\":[{\"digest\":{}}]}");
    statement_refused(
        "{\"_type\":\"https://in-toto.io/Statement/"
        "v1\",\"predicateType\":\"p\",\"subject\":[{\"name\":1,\"digest\":{\"sha256\":\"00\"}}]}");
    statement_refused(
        "{\"_type\":\"https://in-toto.io/Statement/"
        "v1\",\"predicateType\":\"p\",\"subject\":[{\"name\":\"a\",\"digest\":{\"sha256\":3}}]}");
}

/* ---- trust */

static struct twin_trust_verdict judged(const char *toml, const struct twin_envelope *e,
                                        const char *when, enum twin_signature_state states[3])
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *t;
    struct twin_trust_verdict v;
    int64_t ns;
    assert_int_equal(twin_trust_time(when, &ns), 0);
    assert_int_equal(tw_write_file_atomic(at("trust.toml"), toml, strlen(toml), NULL), 0);
    if (twin_trust_read(at("trust.toml"), &t, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(twin_trust_judge(t, e, ns, &v, NULL), 0);
    for (size_t i = 0; i < 3 && i < v.judged_count; i++)
        states[i] = v.judged[i].state;
    struct twin_trust_verdict out = v;
    twin_trust_verdict_free(&v);
    twin_trust_free(t);
    return out;
}

static void thresholds_and_validity(void **state)
{
    size_t n;
    char *text = signed_text(names, 2, &n);
    struct twin_envelope e;
    enum twin_signature_state s[3];
    (void)state;
    assert_int_equal(twin_envelope_parse(text, n, "x", false, &e, NULL), 0);
    const char *two_of_three = "[[trust]]\nneed = 2\nana = {file = \"a.pub\"}\nbob = {file = "
                               "\"b.pub\"}\ncho = {file = \"c.pub\"}\n";
    assert_true(judged(two_of_three, &e, "2026-01-01", s).trusted);
    assert_false(judged("[[trust]]\nneed = 2\nana = {file = \"a.pub\"}\ncho = {file = \"c.pub\"}\n",
                        &e, "2026-01-01", s)
                     .trusted);
    assert_int_equal(s[0], TWIN_SIGNATURE_GOOD);
    assert_int_equal(s[1], TWIN_SIGNATURE_UNKNOWN);
    const char *windows =
        "[[trust]]\nneed = 1\nana = {file = \"a.pub\", until = \"2026-06-01\"}\nbob = {file = "
        "\"b.pub\", from = \"2026-06-01T12:00:00Z\"}\n";
    assert_true(judged(windows, &e, "2026-05-31T23:59:59Z", s).trusted);
    assert_int_equal(s[0], TWIN_SIGNATURE_GOOD);
    assert_int_equal(s[1], TWIN_SIGNATURE_NOT_YET);
    assert_false(judged(windows, &e, "2026-06-01", s).trusted);
    assert_int_equal(s[0], TWIN_SIGNATURE_EXPIRED);
    assert_true(judged(windows, &e, "2026-06-01T12:00:00Z", s).trusted);
    assert_int_equal(s[1], TWIN_SIGNATURE_GOOD);
    assert_false(judged("[[trust]]\nneed = 1\nana = {file = \"a.pub\", revoked = \"stolen\"}\n", &e,
                        "2026-01-01", s)
                     .trusted);
    assert_int_equal(s[0], TWIN_SIGNATURE_REVOKED);
    /* One signature that does not fit is enough to refuse, however many others do. */
    e.signature[1].bytes[10] ^= 1;
    assert_false(judged("[[trust]]\nneed = 1\nana = {file = \"a.pub\"}\nbob = {file = \"b.pub\"}\n",
                        &e, "2026-01-01", s)
                     .trusted);
    assert_int_equal(s[0], TWIN_SIGNATURE_GOOD);
    assert_int_equal(s[1], TWIN_SIGNATURE_WRONG);
    /* The same key's signature again does not make two. */
    tw_free(e.signature[1].bytes);
    tw_free(e.signature[1].keyid);
    e.signature[1] = (struct twin_signature){
        tw_strdup(e.signature[0].keyid), tw_malloc(e.signature[0].length), e.signature[0].length};
    memcpy(e.signature[1].bytes, e.signature[0].bytes, e.signature[0].length);
    assert_false(judged(two_of_three, &e, "2026-01-01", s).trusted);
    assert_int_equal(s[1], TWIN_SIGNATURE_TWICE);
    twin_envelope_free(&e);
    tw_free(text);
}

static void trust_refused(const char *toml, const char *why)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *t;
    assert_int_equal(tw_write_file_atomic(at("bad.toml"), toml, strlen(toml), NULL), 0);
    assert_true(twin_trust_read(at("bad.toml"), &t, &err) < 0);
    if (!strstr(err.message, why))
        fail_msg("expected \"%s\" in: %s", why, err.message);
}

static void refused_trust(void **state)
{
    (void)state;
    trust_refused("", "expected [[trust]]");
    trust_refused("[[trust]]\nneed = 1\n", "0 keys");
    trust_refused("[[trust]]\nana = {file = \"a.pub\"}\n", "no need");
    trust_refused("[[trust]]\nneed = 2\nana = {file = \"a.pub\"}\n", "need = 2, but 1 key:");
    trust_refused("[[trust]]\nneed = 0\nana = {file = \"a.pub\"}\n", "from 1 on");
    trust_refused("[[trust]]\nneed = 1.5\nana = {file = \"a.pub\"}\n", "from 1 on");
    trust_refused("[[trust]]\nneed = 1\nana = {file = \"a.pub\"}\nbob = {file = \"a.pub\"}\n",
                  "one and the same");
    trust_refused("[[trust]]\nneed = 1\nana = {file = \"a\"}\n", "a private one");
    trust_refused("[[trust]]\nneed = 1\nana = {file = \"none.pub\"}\n", "none.pub");
    trust_refused("[[trust]]\nneed = 1\nana = {until = \"2026-01-01\"}\n", "file =");
    trust_refused("[[trust]]\nneed = 1\nana = {file = \"a.pub\", untill = \"2026-01-01\"}\n",
                  "untill");
    trust_refused("[[trust]]\nneed = 1\nana = {file = \"a.pub\", until = \"2026-02-30\"}\n",
                  "2026-02-30");
    trust_refused("[[trust]]\nneed = 1\nana = {file = \"a.pub\", from = \"2027-01-01\", until = "
                  "\"2026-01-01\"}\n",
                  "never valid");
    trust_refused("[[trust]]\nneed = 1\nana = {file = \"a.pub\", revoked = \"\"}\n", "the reason");
    trust_refused("[[trust]]\nneed = 1\nana = {file = \"a.pub\", until = \"2026-01-01\", until = "
                  "\"2027-01-01\"}\n",
                  "twice");
    trust_refused("[[trust]]\nneed = 1\nana = \"a.pub\"\n", "{file =");
    trust_refused("[[trust]]\nneed = 1\nana = {file = \"a.pub\"}\n[[trust]]\nneed = 1\n",
                  "another");
}

static void times(void **state)
{
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-13-01",
                                      "2026-02-29",
                                      "2026-1-1",
                                      "2026-01-01 ",
                                      "2026-01-01T00:00",
                                      "2026-01-01T00:00:00",
                                      "2026-01-01T24:00:00Z",
                                      "2026-01-01T00:00:00+01:00",
                                      "-026-01-01",
                                      "1969-12-31",
                                      "2300-01-01",
                                      "0000-01-01"};
    int64_t ns;
    (void)state;
    assert_int_equal(twin_trust_time("1970-01-02", &ns), 0);
    assert_int_equal(ns, 86400 * INT64_C(1000000000));
    assert_int_equal(twin_trust_time("2026-11-21T08:42:28Z", &ns), 0);
    assert_int_equal(ns / 1000000000, 1795250548);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(twin_trust_time(bad[i], &ns), TWIN_EINVAL);
}

/* ---- keys */

static void keys(void **state)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_key *k;
    struct stat st;
    (void)state;
    assert_int_equal(stat(at("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(twin_key_new(at("a"), TWIN_KEY_P256, &err), TWIN_EIO);
    setenv("TWINRUN_KEY_PASSPHRASE", "correct horse", 1);
    assert_int_equal(twin_key_new(at("locked"), TWIN_KEY_P384, NULL), 0);
    assert_int_equal(twin_key_open(at("locked"), &k, NULL), 0);
    assert_int_equal(twin_key_algorithm(k), TWIN_KEY_P384);
    twin_key_close(k);
    setenv("TWINRUN_KEY_PASSPHRASE", "wrong", 1);
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(twin_key_open(at("locked"), &k, &err), TWIN_EFORMAT);
    unsetenv("TWINRUN_KEY_PASSPHRASE");
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(twin_key_open(at("locked"), &k, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "TWINRUN_KEY_PASSPHRASE_FILE"));
    assert_int_equal(tw_write_file_atomic(at("pass"), "correct horse\n", 14, NULL), 0);
    setenv("TWINRUN_KEY_PASSPHRASE_FILE", at("pass"), 1);
    assert_int_equal(twin_key_open(at("locked"), &k, NULL), 0);
    twin_key_close(k);
    unsetenv("TWINRUN_KEY_PASSPHRASE_FILE");
    assert_int_equal(twin_key_open(at("a.pub"), &k, NULL), TWIN_EFORMAT);
    assert_int_equal(twin_key_read_public(at("a"), &k, NULL), TWIN_EFORMAT);
    assert_int_equal(twin_key_read_public(at("a.pub"), &k, NULL), 0);
    unsigned char *signature;
    size_t n;
    assert_int_equal(twin_key_sign(k, "x", 1, &signature, &n, NULL), TWIN_EINVAL);
    twin_key_close(k);
    assert_int_equal(twin_key_open(at("none"), &k, NULL), TWIN_ENOENT);
}

/* ---- subjects */

static void count_change(void *user, enum twin_subject_change c,
                         const struct twin_subject *signed_one, const struct twin_subject *found)
{
    int *seen = user;
    (void)signed_one, (void)found;
    seen[c]++;
}

static void subjects(void **state)
{
    struct twin_subjects was = {0}, now = {0}, file = {0};
    int seen[3] = {0};
    const char *const skip[] = {"skip"};
    (void)state;
    assert_int_equal(tw_mkdirs(at("tree/sub"), NULL), 0);
    assert_int_equal(tw_mkdirs(at("tree/skip"), NULL), 0);
    assert_int_equal(tw_write_file_atomic(at("tree/a"), "abc", 3, NULL), 0);
    assert_int_equal(tw_write_file_atomic(at("tree/sub/b"), "", 0, NULL), 0);
    assert_int_equal(tw_write_file_atomic(at("tree/skip/x"), "x", 1, NULL), 0);
    assert_int_equal(twin_subject_folder(at("tree"), skip, 1, false, &was, NULL), 0);
    assert_int_equal(was.count, 2);
    assert_string_equal(was.item[0].name, "a");
    assert_string_equal(was.item[0].digest[0].value,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(was.item[1].name, "sub/b");
    assert_string_equal(was.item[1].digest[0].value,
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(tw_write_file_atomic(at("tree/a"), "abd", 3, NULL), 0);
    unlink(at("tree/sub/b"));
    assert_int_equal(tw_write_file_atomic(at("tree/new"), "n", 1, NULL), 0);
    assert_int_equal(twin_subject_folder(at("tree"), skip, 1, false, &now, NULL), 0);
    assert_int_equal(twin_subjects_match(&was, &now, true, count_change, seen), 3);
    assert_true(seen[0] == 1 && seen[1] == 1 && seen[2] == 1);
    assert_int_equal(twin_subjects_match(&was, &was, true, count_change, seen), 0);
    assert_int_equal(twin_subject_file(at("tree/a"), "other name", &file, NULL), 0);
    now.count = 1;
    assert_int_equal(twin_subjects_match(&now, &file, false, count_change, seen), 0);
    assert_int_equal(twin_subjects_match(&now, &file, true, count_change, seen), 2);
    tw_free(file.item[0].digest[0].algorithm);
    /* nothing in common is nothing compared */
    file.item[0].digest[0].algorithm = tw_strdup("sha512");
    assert_int_equal(twin_subjects_match(&now, &file, false, count_change, seen), 1);
    now.count = 2;
    assert_int_equal(symlink("a", at("tree/link")), 0);
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_subjects none = {0};
    assert_int_equal(twin_subject_folder(at("tree"), skip, 1, false, &none, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "symbolic link"));
    twin_subjects_free(&none);
    twin_subjects_free(&was);
    twin_subjects_free(&now);
    twin_subjects_free(&file);
}

/* With the n-th allocation failing, verification never comes out good; and nothing leaks
 * (sanitizers). */
static void no_memory(void **state)
{
    size_t n;
    char *text = signed_text(names, 2, &n), key[2][128];
    char *list[] = {key[0], key[1]};
    bool whole = false;
    (void)state;
    for (int i = 0; i < 2; i++)
        snprintf(key[i], sizeof key[i], "%s/%s.pub", folder, names[i]);
    for (uint64_t fail = 1; !whole && fail < 500; fail++) {
        struct twin_trust *t = NULL;
        struct twin_envelope e = {0};
        struct twin_trust_verdict v = {0};
        struct twin_statement st = {0};
        struct twin_subjects found = {0};
        tw_alloc_fail_at(fail, true);
        const uint64_t before = tw_alloc_count();
        int rc = twin_trust_keys(list, 2, &t, NULL);
        rc = rc ? rc : twin_envelope_parse(text, n, "x", false, &e, NULL);
        rc = rc ? rc : twin_trust_judge(t, &e, 0, &v, NULL);
        rc = rc ? rc : twin_statement_parse(&e, "x", &st, NULL);
        rc = rc ? rc : twin_subject_file(key[0], "x", &found, NULL);
        whole = tw_alloc_count() - before < fail;
        tw_alloc_fail_at(0, false);
        if (!whole)
            assert_true(rc < 0);
        else
            assert_true(rc == 0 && v.trusted);
        twin_subjects_free(&found);
        twin_statement_free(&st);
        twin_trust_verdict_free(&v);
        twin_envelope_free(&e);
        twin_trust_free(t);
    }
    assert_true(whole);
    tw_free(text);
}

/* ---- one key, one id; one statement, one signature */

/* The public key in all the ways that OpenSSL writes it. */
static void write_form(const char *from, const char *to, const char *option)
{
    char *command = tw_printf("openssl ec -pubin -in %s -out %s %s 2>/dev/null || openssl ec -in "
                              "%s -pubout -out %s %s 2>/dev/null",
                              from, to, option, from, to, option);
    assert_int_equal(system(command), 0);
    tw_free(command);
}

static void every_encoding_of_a_key_is_that_key(void **state)
{
    static const char *const forms[] = {
        "-conv_form compressed",
        "-conv_form hybrid",
        "-conv_form uncompressed",
        "-param_enc explicit",
        "-param_enc explicit -conv_form compressed",
        "-param_enc named_curve",
    };
    static const enum twin_key_algorithm kinds[] = {TWIN_KEY_P256, TWIN_KEY_P384, TWIN_KEY_P521};
    (void)state;
    for (size_t a = 0; a < 3; a++) {
        char name[16], public_name[24];
        struct twin_key *k = NULL, *other = NULL;
        snprintf(name, sizeof name, "form%zu", a);
        snprintf(public_name, sizeof public_name, "form%zu.pub", a);
        assert_int_equal(twin_key_new(at(name), kinds[a], NULL), 0);
        assert_int_equal(twin_key_read_public(at(public_name), &k, NULL), 0);
        for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
            struct twin_error err = TWIN_ERROR_INIT;
            char form[128];
            snprintf(form, sizeof form, "%s", at("form.again"));
            unlink(form);
            write_form(at(public_name), form, forms[i]);
            if (twin_key_read_public(form, &other, &err) != 0) {
                /* A curve that is spelled out may be refused, but never taken for another key. */
                assert_non_null(strstr(forms[i], "explicit"));
                continue;
            }
            assert_string_equal(twin_key_id(other), twin_key_id(k));
            assert_string_equal(twin_key_pem(other), twin_key_pem(k));
            twin_key_close(other);
            /* Twice in one list: refused, so it cannot count twice, nor hide that it is revoked. */
            struct twin_trust *t = NULL;
            char first[128];
            snprintf(first, sizeof first, "%s", at(public_name));
            char *both[] = {first, form};
            assert_int_not_equal(twin_trust_keys(both, 2, &t, NULL), 0);
        }
        twin_key_close(k);
    }
}

static void of_two_signatures_one_is_ours(void **state)
{
    struct twin_key *k = NULL;
    struct twin_trust *t = NULL;
    char *key = tw_strdup(at("b.pub"));
    (void)state;
    assert_int_equal(twin_key_open(at("b"), &k, NULL), 0);
    assert_int_equal(twin_trust_keys(&key, 1, &t, NULL), 0);
    /* without the rule half of them would have a high s */
    for (int round = 0; round < 40; round++) {
        struct twin_envelope e;
        struct twin_trust_verdict v;
        char payload[32];
        const int n = snprintf(payload, sizeof payload, "{\"n\":%d}", round);
        assert_int_equal(twin_envelope_make("text/x", payload, (size_t)n, &e, NULL), 0);
        assert_int_equal(twin_envelope_sign(&e, k, NULL), 0);
        assert_int_equal(twin_trust_judge(t, &e, 0, &v, NULL), 0);
        assert_true(v.trusted);
        twin_trust_verdict_free(&v);
        /* The other one: s becomes n - s. */
        const unsigned char *p = e.signature[0].bytes;
        ECDSA_SIG *s = d2i_ECDSA_SIG(NULL, &p, (long)e.signature[0].length);
        BIGNUM *order = NULL, *high = BN_new(), *r = BN_dup(ECDSA_SIG_get0_r(s));
        BN_hex2bn(&order, "FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551");
        BN_sub(high, order, ECDSA_SIG_get0_s(s));
        ECDSA_SIG_set0(s, r, high);
        tw_free(e.signature[0].bytes);
        e.signature[0].length = (size_t)i2d_ECDSA_SIG(s, NULL);
        unsigned char *q = e.signature[0].bytes = tw_malloc(e.signature[0].length);
        i2d_ECDSA_SIG(s, &q);
        ECDSA_SIG_free(s);
        BN_free(order);
        for (int foreign = 0; foreign < 2; foreign++) {
            e.foreign = foreign;
            assert_int_equal(twin_trust_judge(t, &e, 0, &v, NULL), 0);
            assert_int_equal(v.trusted, foreign);
            twin_trust_verdict_free(&v);
        }
        twin_envelope_free(&e);
    }
    twin_trust_free(t);
    twin_key_close(k);
    tw_free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64),
        cmocka_unit_test(pae),
        cmocka_unit_test(keys),
        cmocka_unit_test(each_change_is_seen),
        cmocka_unit_test(other_tools_envelopes),
        cmocka_unit_test(refused_forms),
        cmocka_unit_test(refused_statements),
        cmocka_unit_test(thresholds_and_validity),
        cmocka_unit_test(refused_trust),
        cmocka_unit_test(times),
        cmocka_unit_test(subjects),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(every_encoding_of_a_key_is_that_key),
        cmocka_unit_test(of_two_signatures_one_is_ours),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
