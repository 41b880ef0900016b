/* SPDX-License-Identifier: Apache-2.0 */
/* Drills without memory: each allocation fails once, and what comes out is an error or the outcome
 * of a drill that had enough; a copy of a registry leaves nothing behind. */
#include "src/drill/drill.h"

#include "base.h"

#include "src/registry/registry.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/twinrun-drill-XXXXXX";
static const char *const key[] = {"k", NULL};
static char *pub[] = {"k.pub", NULL};
static const struct tw_strings nobody; /* not encrypted */
static struct twin_trust *trust;

/* A registry of four entries: one version, in production. */
static int make_registry(void)
{
    struct tw_registry r;
    struct tw_artifact a;
    if (tw_registry_make("R", NULL, &nobody, "for tests", key, 1, NULL) != 0 ||
        twin_trust_keys(pub, 1, &trust, NULL) != 0 || tw_registry_open("R", trust, &r, NULL) != 0 ||
        tw_artifact_take("model", &a, NULL) != 0 ||
        tw_artifact_store(&a, "model", r.store, NULL) != 0)
        return -1;
    struct tw_entry add = {.kind = TW_ENTRY_ADD, .model = "m", .version = 1, .why = ""};
    struct tw_entry hold = {.kind = TW_ENTRY_HOLD, .model = "m", .version = 1, .why = "why"};
    struct tw_entry go = {
        .kind = TW_ENTRY_MOVE, .model = "m", .version = 1, .to = TW_STAGE_PRODUCTION, .why = ""};
    memcpy(add.artifact, a.digest, sizeof add.artifact);
    memcpy(hold.artifact, a.digest, sizeof hold.artifact);
    memcpy(go.artifact, a.digest, sizeof go.artifact);
    int rc = tw_registry_append(&r, &add, key, 1, NULL);
    rc = rc ? rc : tw_registry_append(&r, &hold, key, 1, NULL);
    rc = rc ? rc : tw_registry_append(&r, &go, key, 1, NULL);
    tw_artifact_free(&a);
    tw_registry_close(&r);
    return rc;
}

static int make_place(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 &&
                   tw_write_file_atomic("model", "weights", 7, NULL) == 0 &&
                   twin_key_new("k", TWIN_KEY_ED25519, NULL) == 0
               ? make_registry()
               : -1;
}

static int remove_place(void **state)
{
    (void)state;
    twin_trust_free(trust);
    return chdir("/") == 0 ? tw_remove_tree(folder, NULL, NULL) : -1;
}

static size_t left_in(const char *name)
{
    size_t n = 0;
    DIR *d = opendir(name);
    for (struct dirent *e; d && (e = readdir(d));)
        n += *e->d_name != '.';
    if (d)
        closedir(d);
    return n;
}

/* Makes each allocation fail in turn, in steps: all of the first, and later ones less densely. An
 * error is one of memory, or of what could not be done for lack of it, and never an outcome. */
static void without_memory(enum tw_drill_kind kind, const struct tw_drill_asked *asked,
                           uint64_t densely)
{
    struct tw_drill_result whole, r;
    struct twin_error err = TWIN_ERROR_INIT;
    const uint64_t before = tw_alloc_count();
    if (tw_drill(kind, asked, &whole, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(whole.outcome, TW_DRILL_RESTORED);
    const uint64_t all = tw_alloc_count() - before;
    size_t failed = 0;
    for (uint64_t n = 1; n <= all; n += n < densely ? 1 : 1 + all / 64) {
        err = (struct twin_error)TWIN_ERROR_INIT;
        tw_alloc_fail_at(n, false);
        const int rc = tw_drill(kind, asked, &r, &err);
        tw_alloc_fail_at(0, false);
        assert_int_equal(left_in("home/drills"), 0);
        if (rc == 0) { /* it was one that is done without, such as the name of a stray */
            assert_int_equal(r.outcome, whole.outcome);
            assert_int_equal(r.steps, whole.steps);
            tw_drill_result_free(&r);
            continue;
        }
        failed++;
        assert_true(err.code == rc && *err.message);
        if (rc != TWIN_ENOMEM)
            fail_msg("allocation %llu: %s", (unsigned long long)n, err.message);
    }
    tw_drill_result_free(&whole);
    assert_true(failed > 10);
}

static void test_registry_loss(void **state)
{
    (void)state;
    char home[64];
    snprintf(home, sizeof home, "%s/home", folder);
    const struct tw_drill_asked asked = {
        .home = home, .registry = "R", .trusted = trust, .mirror = "R"};
    without_memory(TW_DRILL_REGISTRY_LOSS, &asked, 120);
}

static void test_job(void **state)
{
    (void)state;
    char home[64];
    snprintf(home, sizeof home, "%s/home", folder);
    char *argv[] = {"/bin/sh", "-c", "echo state >c", NULL};
    const struct tw_drill_asked asked = {.home = home, .argv = argv, .checkpoint = "c"};
    without_memory(TW_DRILL_NODE, &asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry_loss),
        cmocka_unit_test(test_job),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
