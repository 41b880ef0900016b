/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rollout: its flag file against everything that is not one, and the draw of the runs that get
 * the fix. The seeds are fixed: nothing here is a coin.
 */
#include "rollout_example.h"

#include "base.h"

#include "src/stats/stats.h"

#include <math.h>
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

static char folder[64], path[128];

static int enter(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/twin-rollout-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/flag", folder);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    tw_remove_tree(folder, NULL, NULL);
    return 0;
}

/* ---- the flag file */

static int parse(const char *text, size_t n)
{
    struct tw_rollout_flag f;
    const int rc = tw_rollout_flag_parse(text, n, "flag", &f, NULL);
    tw_rollout_flag_free(&f);
    return rc;
}

static void flag_comes_back(void **state)
{
    (void)state;
    struct tw_rollout_flag f = example(), g;
    assert_int_equal(tw_rollout_flag_write(path, &f, NULL), 0);
    assert_int_equal(tw_rollout_flag_read(path, &g, NULL), 0);
    assert_string_equal(g.id, f.id);
    assert_string_equal(g.pins, f.pins);
    assert_string_equal(g.fallback, f.fallback);
    assert_string_equal(g.said, f.said);
    assert_true(g.share == f.share && g.state == f.state && g.decision == f.decision);
    assert_true(g.rule.alpha == .05 && g.rule.max_slowdown == 1.2 && g.rule.steps == 2);
    assert_true(g.rule.ladder[0] == 250000 && g.rule.ladder[1] == 1000000 && g.rule.least == 5);
    assert_true(g.sequence == 3 && g.began_ns == f.began_ns && g.widened_at == 12);
    tw_rollout_flag_free(&g);
    f.fallback = NULL;
    assert_int_equal(tw_rollout_flag_write(path, &f, NULL), 0);
    assert_int_equal(tw_rollout_flag_read(path, &g, NULL), 0);
    assert_null(g.fallback);
    tw_rollout_flag_free(&g);
}

/* The files of version 1 stay readable. */
static void golden_flags_are_read(void **state)
{
    (void)state;
    static const char *const names[] = {"v1-on.flag", "v1-off.flag"};
    for (size_t i = 0; i < 2; i++) {
        struct tw_rollout_flag f;
        struct twin_error err = TWIN_ERROR_INIT;
        char *file = tw_printf("%s/rollout/%s", GOLDEN, names[i]);
        if (tw_rollout_flag_read(file, &f, &err) != 0)
            fail_msg("%s", err.message);
        assert_string_equal(f.pins, "hash-seed,threads=2");
        assert_int_equal(f.state, i == 0 ? TW_ROLLOUT_ON : TW_ROLLOUT_OFF);
        tw_rollout_flag_free(&f);
        tw_free(file);
    }
}

static void damaged_flag_is_refused(void **state)
{
    (void)state;
    const struct tw_rollout_flag f = example();
    char *text = tw_rollout_flag_text(&f, NULL);
    const size_t n = strlen(text);
    assert_int_equal(parse(text, n), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_not_equal(parse(text, i), 0);
    for (size_t i = 0; i < n; i++) {
        const char was = text[i];
        static const char others[] = {'\0', '\n', ' ', '0', '9', 'a', '\x7f', (char)0xff};
        for (size_t k = 0; k < sizeof others; k++) {
            text[i] = others[k];
            if (others[k] != was)
                assert_int_not_equal(parse(text, n), 0);
        }
        text[i] = was;
    }
    char *longer = tw_printf("%s\n", text);
    assert_int_not_equal(parse(longer, n + 1), 0);
    tw_free(longer);
    tw_free(text);
}

/* A text whose checksum is right, and that another program could have written. */
static int parse_with(const char *from, const char *to)
{
    const struct tw_rollout_flag f = example();
    char *text = tw_rollout_flag_text(&f, NULL), *at = strstr(text, from);
    assert_non_null(at);
    char *changed = tw_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    char *end = strstr(changed, "\nend ") + 1;
    char *whole = tw_printf("%.*send %08x\n", (int)(end - changed), changed,
                            tw_crc32c(0, changed, (size_t)(end - changed)));
    const int rc = parse(whole, strlen(whole));
    tw_free(whole);
    tw_free(changed);
    tw_free(text);
    return rc;
}

static void hostile_flag_is_refused(void **state)
{
    (void)state;
    assert_int_equal(parse_with("share 100000", "share 100001"), 0);
    static const char *const pairs[][2] = {
        {"share 100000", "share 1000001"},
        {"share 100000", "share -1"},
        {"share 100000", "share 0100000"},
        {"share 100000", "share 1e5"},
        {"state on", "state On"},
        {"state on", "state on "},
        {"alpha 0.05", "alpha nan"},
        {"alpha 0.05", "alpha 0"},
        {"alpha 0.05", "alpha 0.050"},
        {"alpha 0.05", "alpha 0x1p-4"},
        {"max-slowdown 1.2", "max-slowdown 0.5"},
        {"ladder 250000,1000000", "ladder 1000000,250000"},
        {"ladder 250000,1000000", "ladder "},
        {"ladder 250000,1000000", "ladder 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"},
        {"pins hash-seed", "pins\thash-seed"},
        {"sequence 3", "sequence 0"},
        {"began 1764186000000000000", "began -5"},
        {"id 0123456789abcdef", "id 0123456789ABCDEF"},
        {"least 5\n", ""},
        {"least 5\n", "least 5\nleast 5\n"},
        {"least 5\n", "least 5\nmore 1\n"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (parse_with(pairs[i][0], pairs[i][1]) == 0)
            fail_msg("taken: %s", pairs[i][1]);
    assert_int_equal(parse_with("twinrun-rollout 1", "twinrun-rollout 2"), TWIN_EVERSION);
    assert_int_equal(parse_with("twinrun-rollout 1", "twinrun-rollout 0"), TWIN_EVERSION);
}

/* What lies where the flag file should be. */
static void no_regular_file_is_refused(void **state)
{
    (void)state;
    const struct tw_rollout_flag f = example();
    struct tw_rollout_flag g;
    char link[160];
    assert_int_equal(tw_rollout_flag_read(path, &g, NULL), TWIN_ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(tw_rollout_flag_read(path, &g, NULL), TWIN_EFORMAT); /* and it does not wait */
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(tw_rollout_flag_read(path, &g, NULL), TWIN_EFORMAT);
    rmdir(path);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(tw_rollout_flag_write(path, &f, NULL), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(tw_rollout_flag_read(link, &g, NULL), TWIN_EFORMAT);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(tw_rollout_flag_read(path, &g, NULL), TWIN_EFORMAT);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(tw_rollout_flag_read(path, &g, NULL), TWIN_EFORMAT);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0); /* a hole: nothing is read but its start */
    assert_int_equal(tw_rollout_flag_read(path, &g, NULL), TWIN_EFORMAT);
    if (geteuid() != 0) {
        assert_int_equal(chmod(path, 0), 0);
        assert_int_not_equal(tw_rollout_flag_read(path, &g, NULL), 0);
    }
}

static void nobody_else_may_write_it(void **state)
{
    (void)state;
    const struct tw_rollout_flag f = example();
    struct tw_rollout_flag g;
    struct stat st;
    const mode_t mask = umask(0);
    assert_int_equal(tw_rollout_flag_write(path, &f, NULL), 0);
    assert_int_equal(umask(mask), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_false(st.st_mode & S_IWOTH);
    assert_int_equal(tw_rollout_flag_read(path, &g, NULL), 0);
    tw_rollout_flag_free(&g);
}

static void no_memory_is_said(void **state)
{
    (void)state;
    const struct tw_rollout_flag f = example();
    char *text = tw_rollout_flag_text(&f, NULL);
    for (uint64_t i = 1;; i++) {
        tw_alloc_fail_at(i, false);
        const int rc = parse(text, strlen(text));
        tw_alloc_fail_at(0, false);
        if (rc == 0)
            break;
        assert_true(i < 1000);
    }
    tw_free(text);
}

/* ---- the draw */

static void draw_is_stable(void **state)
{
    (void)state;
    static const struct {
        const char *id, *key;
        double place;
    } known[] = {
        {"0123456789abcdef", "k1", 0.53725543093548511},
        {"0123456789abcdef", "SLURM_JOB_ID=17/4", 0.59745052770847085},
        {"ffffffffffffffff", "", 0.42066373980530747},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const double place = tw_rollout_place(known[i].id, known[i].key);
        if (place != known[i].place)
            fail_msg("%s %s: %.17g", known[i].id, known[i].key, place);
    }
}

/* The chance of a chi-square at least as large, of 100,000 keys in 100 bins. */
static double chance_of(const char *id, const char *format)
{
    enum { KEYS = 100000, BINS = 100 };
    uint64_t bin[BINS] = {0};
    double chi2 = 0;
    for (unsigned i = 0; i < KEYS; i++) {
        char key[64];
        snprintf(key, sizeof key, format, i);
        bin[(size_t)(tw_rollout_place(id, key) * BINS)]++;
    }
    for (size_t i = 0; i < BINS; i++) {
        const double off = (double)bin[i] - (double)KEYS / BINS;
        chi2 += off * off / ((double)KEYS / BINS);
    }
    return twin_stats_chi2_upper(chi2, BINS - 1);
}

static void draw_is_uniform(void **state)
{
    (void)state;
    static const char *const ids[] = {"0000000000000000", "0123456789abcdef", "ffffffffffffffff"};
    static const char *const formats[] = {"%u", "SLURM_JOB_ID=%u", "%032x", "job-%u/0"};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 4; k++) {
            const double p = chance_of(ids[i], formats[k]);
            /* also not too even */
            if (p < 1e-4 || p > 1 - 1e-4)
                fail_msg("%s %s: p = %g", ids[i], formats[k], p);
        }
}

static void share_is_kept(void **state)
{
    (void)state;
    uint64_t both = 0, one = 0;
    for (unsigned i = 0; i < 100000; i++) {
        char key[32];
        snprintf(key, sizeof key, "k%u", i);
        assert_false(tw_rollout_is_canary("0123456789abcdef", key, 0));
        assert_true(tw_rollout_is_canary("0123456789abcdef", key, TW_ROLLOUT_WHOLE));
        const bool small = tw_rollout_is_canary("0123456789abcdef", key, 100000);
        /* who has the fix keeps it when more get it */
        assert_true(!small || tw_rollout_is_canary("0123456789abcdef", key, 250000));
        one += small;
        both += small && tw_rollout_is_canary("fedcba9876543210", key, 100000);
    }
    /* 10% and, of two rollouts, 1%: within five standard deviations */
    assert_true(fabs((double)one - 10000) < 5 * sqrt(9000));
    assert_true(fabs((double)both - 1000) < 5 * sqrt(990));
}

static void key_is_the_jobs(void **state)
{
    (void)state;
    static const char *const variables[] = {
        "TWINRUN_ROLLOUT_KEY", "SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT",
        "PBS_JOBID",           "LSB_JOBID",    "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    char *a = tw_rollout_key(), *b = tw_rollout_key();
    assert_true(tw_is_hex(a, 32) && tw_is_hex(b, 32));
    assert_string_not_equal(a, b);
    tw_free(a);
    tw_free(b);
    setenv("PMI_RANK", "1", 1); /* of several that have no number in common */
    assert_null(tw_rollout_key());
    unsetenv("PMI_RANK");
    setenv("SLURM_JOB_ID", "17", 1);
    setenv("SLURM_ARRAY_TASK_ID", "4", 1);
    a = tw_rollout_key();
    assert_string_equal(a, "SLURM_JOB_ID=17/4");
    tw_free(a);
    setenv("TWINRUN_ROLLOUT_KEY", "mine", 1);
    a = tw_rollout_key();
    assert_string_equal(a, "TWINRUN_ROLLOUT_KEY=mine");
    tw_free(a);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(flag_comes_back, enter, leave),
        cmocka_unit_test(golden_flags_are_read),
        cmocka_unit_test(damaged_flag_is_refused),
        cmocka_unit_test(hostile_flag_is_refused),
        cmocka_unit_test_setup_teardown(no_regular_file_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(nobody_else_may_write_it, enter, leave),
        cmocka_unit_test(no_memory_is_said),
        cmocka_unit_test(draw_is_stable),
        cmocka_unit_test(draw_is_uniform),
        cmocka_unit_test(share_is_kept),
        cmocka_unit_test(key_is_the_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
