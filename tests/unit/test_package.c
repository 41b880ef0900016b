/* SPDX-License-Identifier: Apache-2.0 */
/* Packages as folders of foreign bytes: each byte counts, nothing leads out, what is not listed is
 * named. */
#include "src/package/package.h"
#include "src/sign/sign.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "bag.h"
#include "base.h"
#include "sanitized.h"

static char scratch[64] = "/tmp/twinrun-package-XXXXXX";
static char *bag;

/* ---- a small package, signed */

static char *in_bag(const char *name)
{
    char *path = tw_path_join(bag, name);
    assert_non_null(path);
    return path;
}

static void sign_bag(const char tag[65])
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_subjects s = {0};
    struct twin_envelope e = {0};
    struct twin_key *k = NULL;
    char *text, *path = in_bag(TW_BAG_SIGNATURE);
    size_t n;
    json_t *predicate = json_pack("{s:s}", "kind", "file");
    assert_int_equal(twin_subjects_add(&s, TW_BAG_TAGMANIFEST, "sha256", tag, &err), 0);
    assert_int_equal(twin_statement_envelope(&s, TWIN_PREDICATE_SIGNED, predicate, &e, &err), 0);
    assert_int_equal(twin_key_open(GOLDEN "/keys/ana.key", &k, &err), 0);
    assert_int_equal(twin_envelope_sign(&e, k, &err), 0);
    assert_int_equal(twin_envelope_text(&e, &text, &n, &err), 0);
    assert_int_equal(tw_write_file_atomic(path, text, n, &err), 0);
    tw_free(text);
    tw_free(path);
    twin_key_close(k);
    twin_envelope_free(&e);
    twin_subjects_free(&s);
    json_decref(predicate);
}

static void make_bag(void)
{
    static const struct {
        const char *path, *text;
    } files[] = {
        {"data/package.json", "{\"schema\": \"twinrun.package/1\"}\n"},
        {"data/code/code.json",
         "{\"schema\": \"twinrun.package/1\", \"missing\": [], \"holds\": \"one file\", "
         "\"repositories\": [], \"files\": [{\"path\": \"a.py\"}]}\n"},
        {"data/code/files/a.py", "print(1)\n"},
        {"data/data/data.json",
         "{\"missing\": [], \"holds\": \"none\", \"none_declared\": true, \"sets\": []}\n"},
        {"data/environment/environment.json",
         "{\"missing\": [], \"holds\": \"Python\", \"requirements\": "
         "\"environment/requirements.txt\"}\n"},
        {"data/environment/requirements.txt", "a==1\n"},
        {"data/environment/system.json", "{}\n"},
        {"data/configuration/configuration.json",
         "{\"missing\": [], \"holds\": \"1 argument\", \"argv\": [\"a\"], \"files\": []}\n"},
        {"data/seeds/seeds.json", "{\"missing\": [], \"holds\": \"1\", \"stated\": [{\"where\": "
                                  "\"--seed\", \"value\": \"1\"}]}\n"},
    };
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_bag_writer w = {.dir = tw_strdup(bag)};
    char tag[65], info[64];
    tw_remove_tree(bag, NULL, NULL);
    assert_int_equal(tw_mkdirs(bag, &err), 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        assert_int_equal(tw_bag_put(&w, files[i].path, files[i].text, strlen(files[i].text), &err),
                         0);
    snprintf(info, sizeof info, "Payload-Oxum: %llu.%llu\n", (unsigned long long)w.bytes,
             (unsigned long long)w.files);
    assert_int_equal(tw_bag_close(&w, info, "# Read me\n", tag, &err), 0);
    tw_bag_free(&w);
    sign_bag(tag);
}

static struct twin_trust *trust;

/* What verification finds: the number of findings, the last one's kind. */
static size_t findings(enum twin_bag_change *last)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_bag_options o = {.trust = trust, .at_ns = tw_realtime_ns()};
    struct twin_bag_verdict v;
    assert_int_equal(twin_package_verify(bag, &o, &v, &err), 0);
    size_t n = v.findings;
    for (size_t i = 0; i < n; i++)
        assert_true(v.finding[i].path && v.finding[i].why && *v.finding[i].why);
    if (n && last)
        *last = v.finding[n - 1].change;
    twin_bag_verdict_free(&v);
    return n;
}

static int setup(void **state)
{
    (void)state;
    static char pub[] = GOLDEN "/keys/ana.key.pub";
    char *keys[] = {pub};
    struct twin_error err = TWIN_ERROR_INIT;
    if (access("/dev/shm", W_OK) == 0) /* in memory: there are many thousand small files to write */
        snprintf(scratch, sizeof scratch, "/dev/shm/twinrun-package-XXXXXX");
    if (!mkdtemp(scratch) || !(bag = tw_path_join(scratch, "bag")) ||
        twin_trust_keys(keys, 1, &trust, &err) != 0)
        return -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    twin_trust_free(trust);
    tw_remove_tree(scratch, NULL, NULL);
    tw_free(bag);
    return 0;
}

/* ---- each byte */

static const char *const every_file[] = {"bagit.txt",
                                         "bag-info.txt",
                                         "README.md",
                                         "manifest-sha256.txt",
                                         TW_BAG_TAGMANIFEST,
                                         TW_BAG_SIGNATURE,
                                         "data/package.json",
                                         "data/code/code.json",
                                         "data/code/files/a.py",
                                         "data/data/data.json",
                                         "data/environment/environment.json",
                                         "data/environment/requirements.txt",
                                         "data/environment/system.json",
                                         "data/configuration/configuration.json",
                                         "data/seeds/seeds.json"};

static void rewrite(const char *path, const char *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(tw_write_all(fd, data, n), 0);
    close(fd);
}

/* The next change of a byte; 0x20: the other case of a letter, a space for a NUL. */
static int next_flip(int flip, bool full)
{
    if (full)
        return flip + 1;
    if (SANITIZED || flip == 0x80)
        return 256;
    return flip == 1 ? 0x20 : 0x80;
}

static void each_byte_counts(void **state)
{
    (void)state;
    const bool full = getenv("TWINRUN_FULL") && strcmp(getenv("TWINRUN_FULL"), "0") != 0;
    size_t tried = 0;
    make_bag();
    assert_int_equal(findings(NULL), 0);
    for (size_t i = 0; i < sizeof every_file / sizeof every_file[0]; i++) {
        char *path = in_bag(every_file[i]), *data;
        size_t n;
        assert_int_equal(tw_read_file(path, 1 << 20, &data, &n, NULL), 0);
        for (size_t at = 0; at < n; at++) {
            const char was = data[at];
            /*
             * All 255 others in a full test.
             */
            for (int flip = 1; flip < 256; flip = next_flip(flip, full)) {
                data[at] = (char)(was ^ flip);
                rewrite(path, data, n);
                if (findings(NULL) == 0)
                    fail_msg("%s, byte %zu: %02x for %02x was not seen", every_file[i], at,
                             (unsigned char)data[at], (unsigned char)was);
                tried++;
            }
            data[at] = was;
        }
        /* A byte less, a byte more. */
        rewrite(path, data, n - 1);
        assert_true(findings(NULL) > 0);
        data[n] = '\n'; /* in place of the NUL that stands behind what was read */
        rewrite(path, data, n + 1);
        assert_true(findings(NULL) > 0);
        rewrite(path, data, n);
        assert_int_equal(unlink(path), 0);
        assert_true(findings(NULL) > 0);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        close(fd);
        rewrite(path, data, n);
        assert_int_equal(findings(NULL), 0);
        tw_free(data);
        tw_free(path);
    }
    print_message("%zu changes, each of them seen\n", tried);
}

/* ---- what does not belong there */

static void strangers_are_named(void **state)
{
    (void)state;
    enum twin_bag_change last;
    make_bag();
    char *extra = in_bag("data/code/files/b.py");
    char *tag = in_bag("extra.txt");
    char *folder = in_bag("data/empty");
    char *file = in_bag("data/code/files/a.py");
    assert_int_equal(tw_write_file_atomic(extra, "x", 1, NULL), 0);
    assert_int_equal(findings(&last), 1);
    assert_int_equal(last, TWIN_BAG_EXTRA);
    unlink(extra);
    assert_int_equal(tw_write_file_atomic(tag, "x", 1, NULL), 0);
    assert_int_equal(findings(&last), 1);
    assert_int_equal(last, TWIN_BAG_EXTRA);
    unlink(tag);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(findings(&last), 1);
    assert_int_equal(last, TWIN_BAG_EXTRA);
    rmdir(folder);
    /* A link to the very bytes that ought to be there is a link all the same. */
    char *outside = tw_path_join(scratch, "outside");
    assert_int_equal(tw_write_file_atomic(outside, "print(1)\n", 9, NULL), 0);
    unlink(file);
    assert_int_equal(symlink(outside, file), 0);
    assert_int_equal(findings(&last), 2); /* not allowed, and so missing */
    unlink(file);
    assert_int_equal(mkfifo(file, 0644), 0); /* must not keep us waiting */
    assert_int_equal(findings(&last), 2);
    unlink(file);
    assert_int_equal(findings(&last), 2); /* it is missing, and its folder is empty */
    assert_int_equal(last, TWIN_BAG_MISSING);
    tw_free(outside);
    tw_free(extra);
    tw_free(tag);
    tw_free(folder);
    tw_free(file);
}

/* A folder of the package that is a link to the same folder elsewhere. */
static void linked_folders_are_refused(void **state)
{
    (void)state;
    make_bag();
    char *files = in_bag("data/code"), *away = tw_path_join(scratch, "code");
    tw_remove_tree(away, NULL, NULL);
    assert_int_equal(rename(files, away), 0);
    assert_int_equal(symlink(away, files), 0);
    assert_true(findings(NULL) >= 2);
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_bag_verdict v;
    struct twin_packed p;
    assert_int_equal(twin_package_verify(bag, NULL, &v, &err), 0);
    assert_int_equal(twin_audit_package(bag, &v, &p, &err), 0);
    assert_true(json_array_size(json_object_get(p.area[TWIN_AREA_CODE], "missing")) > 0);
    assert_int_equal(json_array_size(json_object_get(p.area[TWIN_AREA_SEEDS], "missing")), 0);
    twin_packed_free(&p);
    twin_bag_verdict_free(&v);
    unlink(files);
    tw_remove_tree(away, NULL, NULL);
    tw_free(files);
    tw_free(away);
}

static void a_file_that_grew_is_not_read_to_its_end(void **state)
{
    (void)state;
    enum twin_bag_change last;
    make_bag();
    char *file = in_bag("data/seeds/seeds.json");
    /* a terabyte, of which no byte is on the disk */
    assert_int_equal(truncate(file, (off_t)1 << 40), 0);
    assert_true(findings(&last) > 0);
    tw_free(file);
    make_bag();
    file = in_bag("bag-info.txt");
    assert_int_equal(truncate(file, (off_t)1 << 30), 0);
    assert_true(findings(&last) > 0);
    tw_free(file);
}

/* ---- each area by itself */

static void what_is_taken_away_is_named(void **state)
{
    (void)state;
    for (size_t a = 0; a < TWIN_AREAS; a++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_bag_verdict v;
        struct twin_packed p;
        make_bag();
        char *name = tw_printf("%s/data/%s", bag, twin_area_name((enum twin_area)a));
        assert_int_equal(tw_remove_tree(name, NULL, &err), 0);
        tw_free(name);
        assert_int_equal(twin_package_verify(bag, NULL, &v, &err), 0);
        assert_int_equal(twin_audit_package(bag, &v, &p, &err), 0);
        for (size_t b = 0; b < TWIN_AREAS; b++)
            assert_int_equal(json_array_size(json_object_get(p.area[b], "missing")) > 0, a == b);
        twin_packed_free(&p);
        twin_bag_verdict_free(&v);
    }
}

/* ---- manifests */

#define H "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void manifests_have_one_form(void **state)
{
    (void)state;
    static const char *const good[] = {"", H "  a\n", H "  a\n" H "  b\n",
                                       H "  data/a b/\xc3\xa4\n"};
    static const char *const bad[] = {
        H "  a",
        H " a\n",
        H "  b\n" H "  a\n",
        H "  a\n" H "  a\n",
        H "  ../a\n",
        H "  /a\n",
        H "  a/../b\n",
        H "  a/./b\n",
        H "  a//b\n",
        H "  a/\n",
        H "  a%0A\n",
        H "  a\\b\n",
        H "  \xff\n",
        H "  a\tb\n",
        H "  a\r\n",
        "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef  a\n",
        "x\n",
        "\n",
        H "  \n",
        H " *a\n",
        H "  .\n",
        H "  ..\n"};
    struct tw_manifest m;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(tw_manifest_parse(good[i], strlen(good[i]), "m", &m, NULL), 0);
        tw_manifest_free(&m);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        if (tw_manifest_parse(bad[i], strlen(bad[i]), "m", &m, &err) != TWIN_EFORMAT ||
            !err.message[0])
            fail_msg("taken: %s", bad[i]);
    }
    assert_int_equal(tw_manifest_parse(H "  a\0b\n", 70, "m", &m, NULL), TWIN_EFORMAT);
}

static void addresses_have_one_form(void **state)
{
    (void)state;
    static const char *const good[] = {"https://x.org/a%20b 12 data/data/s/a b\n",
                                       "file:///x 0 data/data/s/a\n"};
    static const char *const bad[] = {
        "https://x.org/a 12 data/code/a\n",
        "https://x.org/a 12 ../a\n",
        "https://x.org/a -1 data/data/a\n",
        "https://x.org/a 012 data/data/a\n",
        "https://x.org/a - data/data/a\n",
        "ftp://x.org/a 1 data/data/a\n",
        "-o/etc/passwd 1 data/data/a\n",
        "https://x.org/a\n",
        "https://x.org/$(id) data/data/a\n",
        "file://host/x 1 data/data/a\n",
        "https://x.org/a 1 data/data/b\nhttps://x.org/a 1 data/data/a\n",
        "https://x.org/`id` 1 data/data/a\n",
        "https://x.org/a 99999999999999999999 data/data/a\n"};
    struct tw_fetch f;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(tw_fetch_parse(good[i], strlen(good[i]), "f", &f, NULL), 0);
        assert_int_equal(f.count, 1);
        tw_fetch_free(&f);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (tw_fetch_parse(bad[i], strlen(bad[i]), "f", &f, NULL) != TWIN_EFORMAT)
            fail_msg("taken: %s", bad[i]);
}

/* ---- memory */

static void each_allocation_may_fail(void **state)
{
    (void)state;
    make_bag();
    for (uint64_t n = 1; n < 100000; n++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_bag_options o = {.trust = trust, .at_ns = tw_realtime_ns()};
        struct twin_bag_verdict v;
        const uint64_t before = tw_alloc_count();
        tw_alloc_fail_at(n, false);
        int rc = twin_package_verify(bag, &o, &v, &err);
        tw_alloc_fail_at(0, false);
        if (rc == 0) {
            const bool reached = tw_alloc_count() - before >= n;
            const size_t found = v.findings;
            twin_bag_verdict_free(&v);
            if (!reached) {
                assert_int_equal(found, 0);
                return;
            }
            /* a finding for want of memory is no silence; "no finding" would have to be true */
            continue;
        }
        assert_int_equal(rc, TWIN_ENOMEM);
    }
    fail_msg("no end");
}

/* The folder of a replay stands beside the package and is always a new one, unless it is named. */
static void replays_have_folders_of_their_own(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    char *package = tw_path_join(scratch, "table-2"), *copy = NULL;
    char *link = tw_path_join(scratch, "by-link");
    char *first = tw_printf("%s-replay", package), *second = tw_printf("%s-replay-2", package);
    assert_int_equal(mkdir(package, 0777), 0);
    assert_int_equal(symlink("table-2", link), 0);
    /* by its real place, whatever it was called */
    char *found = twin_replay_folder(NULL, link, &err);
    assert_string_equal(found, first);
    assert_true(twin_replay_is_new(first));
    tw_free(found);
    assert_int_equal(twin_replay_place(first, false, &copy, &err), 0);
    assert_false(twin_replay_is_new(first));
    found = twin_replay_folder(NULL, package, &err);
    assert_string_equal(found, second);
    tw_free(found);
    /* one that is named stays as it is named */
    found = twin_replay_folder("/elsewhere", package, &err);
    assert_string_equal(found, "/elsewhere");
    tw_free(found);
    /* of a folder that was there, only what we put into it goes away */
    twin_replay_clear(first, copy, false);
    assert_true(twin_replay_is_new(copy));
    assert_false(twin_replay_is_new(first));
    tw_free(copy);
    assert_int_equal(twin_replay_place(first, false, &copy, &err), 0);
    twin_replay_clear(first, copy, true);
    assert_true(twin_replay_is_new(first));
    /* a package that is not there has no place beside it */
    assert_int_equal(unlink(link), 0);
    assert_null(twin_replay_folder(NULL, link, &err));
    assert_true(err.code != 0);
    assert_int_equal(rmdir(package), 0);
    tw_free(copy);
    tw_free(first);
    tw_free(second);
    tw_free(link);
    tw_free(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifests_have_one_form),
        cmocka_unit_test(addresses_have_one_form),
        cmocka_unit_test(each_byte_counts),
        cmocka_unit_test(strangers_are_named),
        cmocka_unit_test(linked_folders_are_refused),
        cmocka_unit_test(a_file_that_grew_is_not_read_to_its_end),
        cmocka_unit_test(what_is_taken_away_is_named),
        cmocka_unit_test(replays_have_folders_of_their_own),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
