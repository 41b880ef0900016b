/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests and scripts: what is written holds its own rules, each rule is broken by what it is
 * about, and every allocation made to fail. tests/agents/test_manifest.py has the clusters' own
 * schemas. */
#include "jobfile.h"

#include "base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
static const char *const pool[] = {"node.kubernetes.io/instance-type=p4d", NULL};
static const char *const features[] = {"a100", NULL};
/* what stands for one type of machine here */
static const char *const labels[] = {"a100", NULL};
static const struct tw_jobfile_asked asked = {.pool_labels = labels};
static char *const argv[] = {"python", "train.py", "--seed", "7", NULL};

static struct tw_jobfile_job whole_job(enum tw_jobfile_kind kind)
{
    const bool slurm = kind == TW_JOBFILE_SLURM;
    return (struct tw_jobfile_job){.name = "train",
                                   .space = slurm ? NULL : "team",
                                   .image = "registry.example/train@sha256:" DIGEST,
                                   .pool = slurm ? features : pool,
                                   .driver = "550.54.15",
                                   .claim = slurm ? "/data/images" : "images",
                                   .data_path = "/data",
                                   .snapshot = DIGEST,
                                   .run_id = "run-1",
                                   .nodes = kind == TW_JOBFILE_ARGO ? 1 : 2,
                                   .gpus = 4,
                                   .cpus = 8,
                                   .retries = 3,
                                   .seed = 7,
                                   .has_seed = true,
                                   .argv = argv,
                                   .argc = 4};
}

/* How many findings of a rule do not hold. */
static size_t broken(const char *text, int rule)
{
    struct tw_jobfile_findings found;
    size_t count = 0;
    assert_int_equal(tw_jobfile_lint("file", text, strlen(text), &asked, &found, NULL), 0);
    assert_false(found.failed);
    assert_int_equal(found.jobs, 1);
    for (size_t i = 0; i < found.count; i++)
        count += (rule < 0 || found.item[i].rule == (enum tw_jobfile_rule)rule) &&
                 found.item[i].state != TW_RULE_HOLDS;
    tw_jobfile_findings_free(&found);
    return count;
}

static void names_are_words_both_ways(void **state)
{
    (void)state;
    for (enum tw_jobfile_kind k = 0; k < TW_JOBFILE_KINDS; k++)
        assert_int_equal(tw_jobfile_kind_of(tw_jobfile_kind_name(k)), k);
    assert_int_equal(tw_jobfile_kind_of("Argo"), TW_JOBFILE_KINDS);
    for (enum tw_jobfile_rule r = 0; r < TW_RULES; r++)
        assert_true(*tw_jobfile_rule_name(r) && *tw_jobfile_rule_reason(r));
}

static void what_is_written_holds_its_rules(void **state)
{
    (void)state;
    for (enum tw_jobfile_kind k = 0; k < TW_JOBFILE_KINDS; k++) {
        const struct tw_jobfile_job job = whole_job(k);
        char *text = NULL;
        struct twin_error err = TWIN_ERROR_INIT;
        if (tw_jobfile_write(k, &job, &text, &err) != 0)
            fail_msg("%s: %s", tw_jobfile_kind_name(k), err.message);
        if (broken(text, -1) != 0)
            fail_msg("%s:\n%s", tw_jobfile_kind_name(k), text);
        free(text);
    }
}

/* The same job without what a rule is about, in each kind of file: what is left out is said, or the
 * job is not written at all. */
static void each_rule_misses_what_it_is_about(void **state)
{
    (void)state;
    for (enum tw_jobfile_kind k = 0; k < TW_JOBFILE_KINDS; k++) {
        struct tw_jobfile_job less[4];
        const enum tw_jobfile_rule rule[] = {TW_RULE_SEED, TW_RULE_POOL, TW_RULE_IMAGE,
                                             TW_RULE_THREADS};
        for (size_t i = 0; i < 4; i++)
            less[i] = whole_job(k);
        less[0].has_seed = false;
        less[0].argc = 2; /* nor in the command */
        less[1].pool = NULL;
        less[2].image = "registry.example/train:v1";
        less[3].cpus = 0;
        for (size_t i = 0; i < 4; i++) {
            char *text = NULL;
            const int rc = tw_jobfile_write(k, &less[i], &text, NULL);
            if (rc == 0 && broken(text, rule[i]) == 0)
                fail_msg("%s, %s:\n%s", tw_jobfile_kind_name(k), tw_jobfile_rule_name(rule[i]),
                         text);
            assert_true(rc == 0 || rc == TWIN_EINVAL);
            free(text);
        }
    }
}

static void what_a_cluster_refuses_is_not_written(void **state)
{
    (void)state;
    for (enum tw_jobfile_kind k = 0; k < TW_JOBFILE_KINDS; k++) {
        struct tw_jobfile_job wrong[5];
        for (size_t i = 0; i < 5; i++)
            wrong[i] = whole_job(k);
        wrong[0].name = "a\nb";
        wrong[1].image = "registry.example/train:latest\n#SBATCH --wrap=x";
        wrong[2].data_path = "data";
        wrong[3].run_id = "a b\n";
        wrong[4].snapshot = "xyz";
        for (size_t i = 0; i < 5; i++) {
            struct twin_error err = TWIN_ERROR_INIT;
            char *text = NULL;
            const int rc = tw_jobfile_write(k, &wrong[i], &text, &err);
            if (rc != TWIN_EINVAL || !err.message[0])
                fail_msg("%s, %zu: %d\n%s", tw_jobfile_kind_name(k), i, rc, text ? text : "");
        }
    }
}

/* ---- allocations */

static void each_allocation_of_a_lint(const char *name)
{
    char *path = tw_printf(GOLDEN "/jobfile/%s", name), *text;
    struct tw_jobfile_findings found;
    size_t bytes, all, failed = 0;
    assert_int_equal(tw_read_file(path, 1 << 20, &text, &bytes, NULL), 0);
    assert_int_equal(
        tw_jobfile_lint(name, text, bytes, &(struct tw_jobfile_asked){0}, &found, NULL), 0);
    all = found.count;
    tw_jobfile_findings_free(&found);
    for (uint64_t n = 1;; n++) {
        tw_alloc_fail_at(n, false);
        const int rc = tw_jobfile_lint(name, text, bytes, &(struct tw_jobfile_asked){0}, &found,
                                       NULL);
        tw_alloc_fail_at(0, false);
        const bool whole = rc == 0 && !found.failed;
        assert_true(rc == 0 || rc == TWIN_ENOMEM);
        /* nothing is left out without a word */
        assert_true(!whole || found.count == all);
        tw_jobfile_findings_free(&found);
        if (whole)
            break;
        failed++;
    }
    assert_true(failed > 10);
    tw_free(text);
    tw_free(path);
}

static void each_allocation_of_writing(enum tw_jobfile_kind kind)
{
    const struct tw_jobfile_job job = whole_job(kind);
    char *right = NULL, *text = NULL;
    size_t failed = 0;
    assert_int_equal(tw_jobfile_write(kind, &job, &right, NULL), 0);
    for (uint64_t n = 1;; n++, failed++) {
        tw_alloc_fail_at(n, false);
        const int rc = tw_jobfile_write(kind, &job, &text, NULL);
        tw_alloc_fail_at(0, false);
        if (rc == 0)
            break;
        assert_int_equal(rc, TWIN_ENOMEM);
    }
    assert_string_equal(text, right);
    assert_true(failed > 0);
    free(text);
    free(right);
}

static void every_allocation_failure(void **state)
{
    static const char *const files[] = {"argo.yaml", "k8s.yaml", "trainjob.yaml", "train.sbatch"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        each_allocation_of_a_lint(files[i]);
    for (enum tw_jobfile_kind k = 0; k < TW_JOBFILE_KINDS; k++)
        each_allocation_of_writing(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_words_both_ways),
        cmocka_unit_test(what_is_written_holds_its_rules),
        cmocka_unit_test(each_rule_misses_what_it_is_about),
        cmocka_unit_test(what_a_cluster_refuses_is_not_written),
        cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
