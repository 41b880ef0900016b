/* SPDX-License-Identifier: Apache-2.0 */
/* Baselines: a run held against a file says what the comparison of the two runs says; the file is
 * small, and may be anybody's. */
#include "src/compare/baseline.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base.h"
#include "baseline_test.h"

static void same(void **state)
{
    (void)state;
    struct twin_baseline *b = baseline_of(20);
    struct synth *s = run_of(20, AT_BATCH, 0, 0);
    struct twin_verdict *v = judge(b, s, NULL);
    struct twin_baseline_info i = twin_baseline_info(b);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->steps_compared, 20);
    assert_non_null(v->against);
    assert_int_equal(v->against->runs, 2);
    assert_int_equal(i.runs, 2);
    assert_int_equal(i.steps, 20);
    assert_string_equal(i.twinrun, "1.2.3");
    assert_true(i.records > 20 && v->records_compared == i.records);
    twin_verdict_free(v);
    synth_free(s);
    twin_baseline_free(b);
}

/*
 * Every place at several steps: the verdict on the file names what the verdict on two runs names.
 */
static void as_between_runs(void **state)
{
    (void)state;
    struct twin_baseline *b = baseline_of(12);
    struct synth *clean = run_of(12, AT_BATCH, 0, 0);
    size_t places = 0;
    for (int place = AT_INDICES; place < AT_INIT; place++)
        for (uint32_t step = 0; step < 12; step += 5) {
            struct synth *s = run_of(12, (enum synth_place)place, step, 1e-3f);
            struct twin_verdict *runs = compare(clean, s, NULL), *file = judge(b, s, NULL);
            if (runs->outcome != TWIN_DIFFER || !runs->first) { /* this model has no such place */
                expect_outcome(file, runs->outcome);
            } else {
                places++;
                expect_outcome(file, TWIN_DIFFER);
                assert_int_equal(file->first->step_a, runs->first->step_a);
                assert_int_equal(file->first->phase, runs->first->phase);
                assert_int_equal(file->first->kind, runs->first->kind);
                assert_string_equal(file->first->name, runs->first->name);
                assert_int_equal(file->first->role, runs->first->role);
                assert_string_equal(file->equal_before, runs->equal_before);
                assert_int_equal(file->steps_differing, runs->steps_differing);
            }
            twin_verdict_free(runs);
            twin_verdict_free(file);
            synth_free(s);
        }
    assert_true(places > 10);
    synth_free(clean);
    twin_baseline_free(b);
}

static struct synth *with_an_end(float by)
{
    struct synth *s = synth_new("end");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    const struct synth_record weight = {
        .phase = TWIN_PHASE_OPTIMIZER, .kind = TWIN_KIND_WEIGHT, .name = "w"};
    for (int step = 0; step <= 2; step++) {
        const float x = (float)step + by;
        synth_put(w, weight, &x, 1);
        if (step < 2)
            twin_writer_step_end(w);
    }
    return s;
}

/* What comes behind the last step is no step: of two no three can differ. */
static void an_end_is_no_step(void **state)
{
    (void)state;
    struct synth *s[] = {with_an_end(0), with_an_end(0), with_an_end(1)};
    struct twin_baseline *b = again(make(s[0], s[1], NULL));
    struct twin_verdict *v = judge(b, s[2], NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->steps_compared, 2);
    assert_int_equal(v->steps_differing, 2);
    twin_verdict_free(v);
    twin_baseline_free(b);
    for (int i = 0; i < 3; i++)
        synth_free(s[i]);
}

/* A long run: small all the same; behind the first steps a stretch and a phase are named. */
static void long_run(void **state)
{
    (void)state;
    struct twin_baseline *b = baseline_of(2000);
    char *text = text_of(b);
    assert_true(strlen(text) < 100000);
    tw_free(text);
    static const uint32_t at[] = {0, 3, 200, 255, 256, 300, 1500, 1998, 1999};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        struct synth *s = run_of(2000, AT_GRADIENT, at[i], 1e-3f);
        struct twin_verdict *v = judge(b, s, NULL);
        expect_outcome(v, TWIN_DIFFER);
        assert_non_null(v->first);
        assert_true(v->first->step_a <= at[i] && at[i] - v->first->step_a < 32);
        assert_true(at[i] >= 256 || v->first->step_a == at[i]);
        assert_int_equal(v->first->phase,
                         at[i] < 256 || at[i] == 1999 ? TWIN_PHASE_BACKWARD : TWIN_PHASE_NONE);
        assert_true(at[i] > 8 || strcmp(v->first->name, "one of its tensors") != 0);
        assert_true(at[i] < 256 || at[i] == 1999 || strstr(v->first->text, "one hash"));
        assert_true(at[i] != 1999 || (v->first->step_a == 1999 && v->steps_differing == 1));
        twin_verdict_free(v);
        synth_free(s);
    }
    struct synth *s = run_of(2000, AT_BATCH, 0, 0);
    struct twin_verdict *v = judge(b, s, NULL);
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
    synth_free(s);
    twin_baseline_free(b);
}

static void other_lengths(void **state)
{
    (void)state;
    struct twin_baseline *b = baseline_of(20);
    static const uint32_t steps[] = {19, 21};
    for (int i = 0; i < 2; i++) {
        struct synth *s = run_of(steps[i], AT_BATCH, 0, 0);
        struct twin_verdict *v = judge(b, s, NULL);
        expect_outcome(v, TWIN_DIFFER);
        assert_int_equal(v->first->type, TWIN_FINDING_OUTCOME);
        assert_non_null(strstr(v->first->text, "the baseline has 20"));
        twin_verdict_free(v);
        v = judge(b, s, &(struct twin_compare_options){.steps_given = true, .steps = 10});
        expect_outcome(v, TWIN_SAME);
        assert_int_equal(v->steps_compared, 10);
        twin_verdict_free(v);
        synth_free(s);
    }
    struct synth *failed = run_of(20, AT_BATCH, 0, 0);
    synth_run(failed)->exit_code = 3;
    struct twin_verdict *v = judge(b, failed, NULL);
    expect_outcome(v, TWIN_FAILED);
    assert_true(has_note(v, "exit code 3"));
    twin_verdict_free(v);
    synth_free(failed);
    twin_baseline_free(b);
}

static struct synth *two_ranks(float by)
{
    struct synth *s = synth_new("ranks");
    for (int32_t rank = 0; rank < 2; rank++) {
        struct synth_model m;
        synth_model_init(&m, 6);
        m.rank = rank;
        m.world = 2;
        m.disturb[0].place = AT_ACTIVATION;
        m.disturb[0].step = 4;
        m.disturb[0].by = rank ? by : 0;
        m.disturbances = 1;
        synth_train(&m, synth_process(s, rank, 2, NULL));
    }
    return s;
}

static void ranks(void **state)
{
    (void)state;
    struct synth *a = two_ranks(0);
    struct synth *c = two_ranks(0);
    struct synth *d = two_ranks(1e-2f);
    struct synth *one = run_of(6, AT_BATCH, 0, 0);
    struct twin_baseline *b = again(make(a, c, NULL));
    struct twin_verdict *v = judge(b, c, NULL);
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
    v = judge(b, d, NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->rank, 1);
    assert_int_equal(v->first->step_a, 4);
    twin_verdict_free(v);
    v = judge(b, one, NULL);
    expect_outcome(v, TWIN_DIFFER);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(c);
    synth_free(d);
    synth_free(one);
    twin_baseline_free(b);
}

static void not_repeated(void **state)
{
    (void)state;
    struct synth *a = run_of(5, AT_BATCH, 0, 0), *b = run_of(5, AT_WEIGHT, 2, 1e-3f);
    const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_baseline *x = NULL;
    assert_int_equal(twin_baseline_make(runs, 2, NULL, "1", &x, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "did not repeat"));
    assert_null(x);
    /* Single numbers are no names, and a baseline leaves out names. */
    const char *number[] = {"number:0-4:*"};
    struct twin_compare_options numbers = {.ignore = number, .ignore_count = 1};
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(twin_baseline_make(runs, 2, &numbers, "1", &x, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "no single numbers"));
    assert_null(x);
    /* What is left out on both sides is no difference. */
    const char *ignore[] = {"*"};
    struct twin_compare_options o = {.ignore = ignore, .ignore_count = 1};
    x = again(make(a, b, &o));
    struct twin_verdict *v = judge(x, b, NULL);
    assert_int_not_equal(v->outcome, TWIN_DIFFER);
    twin_verdict_free(v);
    twin_baseline_free(x);
    synth_free(a);
    synth_free(b);
}

static void tolerance(void **state)
{
    (void)state;
    char path[64] = "/tmp/twin-baseline-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct twin_baseline *b = baseline_of(11); /* weights are sketched at step 10 */
    struct synth *s = run_of(11, AT_GRADIENT, 9, 1e-4f);
    static const struct {
        const char *text;
        enum twin_verdict_outcome outcome;
    } row[] = {
        {"[[tolerance]]\npattern = '*'\nrel_l2 = 1e-1\nreason = 'r'\n[[tolerance]]\npattern = "
         "'never/*'\nabs = 1\nreason = 'old'\n",
         TWIN_WITHIN_TOLERANCE},
        {"[[tolerance]]\npattern = '*'\nrtol = 1e-1\nreason = 'r'\n", TWIN_WITHIN_TOLERANCE},
        {"[[tolerance]]\npattern = '*'\nrel_l2 = 1e-9\nreason = 'r'\n", TWIN_DIFFER},
        {"[[tolerance]]\npattern = 'forward/*'\nrel_l2 = 1e-1\nreason = 'r'\n", TWIN_DIFFER},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_int_equal(tw_write_file_atomic(path, row[i].text, strlen(row[i].text), NULL), 0);
        struct twin_verdict *v = judge(b, s,
                                       &(struct twin_compare_options){.tolerance_file = path});
        expect_outcome(v, row[i].outcome);
        assert_int_equal(v->bitwise, TWIN_DIFFER);
        assert_true(i > 0 || (v->rule_count == 2 && v->rules[0].measured > 0 &&
                              v->rules[1].matched == 0 && strcmp(v->rules[1].reason, "old") == 0));
        assert_true(i > 0 || has_note(v, "where the baseline keeps numbers (step"));
        twin_verdict_free(v);
    }
    /* What keeps a run from being "the same" keeps it from being inside. */
    synth_run(s)->agents = false;
    assert_int_equal(tw_write_file_atomic(path, row[0].text, strlen(row[0].text), NULL), 0);
    struct twin_verdict *blind = judge(b, s,
                                       &(struct twin_compare_options){.tolerance_file = path});
    expect_outcome(blind, TWIN_DIFFER);
    assert_true(has_note(blind, "not judged by the tolerance: run 1 was not observed"));
    twin_verdict_free(blind);
    /* A long run is kept in detail here and there: what differs last must be among it. */
    struct twin_baseline *longer = baseline_of(100);
    struct synth *cut = run_of(100, AT_GRADIENT, 70, 1e-4f);
    assert_int_equal(tw_write_file_atomic(path, row[0].text, strlen(row[0].text), NULL), 0);
    struct twin_verdict *whole = judge(longer, cut,
                                       &(struct twin_compare_options){.tolerance_file = path});
    struct twin_verdict *early = judge(
        longer, cut,
        &(struct twin_compare_options){.tolerance_file = path, .steps_given = true, .steps = 90});
    expect_outcome(whole, TWIN_WITHIN_TOLERANCE);
    expect_outcome(early, TWIN_DIFFER);
    assert_true(has_note(early, "the baseline keeps no numbers of its weights"));
    twin_verdict_free(whole);
    twin_verdict_free(early);
    synth_free(cut);
    twin_baseline_free(longer);
    unlink(path);
    synth_free(s);
    twin_baseline_free(b);
}

/* ---- the file, in anybody's hands */

static char *replaced(const char *text, const char *old, const char *by)
{
    assert_non_null(strstr(text, old));
    size_t at = (size_t)(strstr(text, old) - text);
    return tw_printf("%.*s%s%s", (int)at, text, by, text + at + strlen(old));
}

static void hostile(void **state)
{
    (void)state;
    struct twin_baseline *b = baseline_of(12);
    char *text = text_of(b);
    static const struct {
        const char *old, *by;
        int code;
    } row[] = {
        {"twinrun.baseline/1", "twinrun.baseline/2", TWIN_EVERSION},
        {"twinrun.baseline/1", "twinrun.check/1", TWIN_EFORMAT},
        {"\"runs\": 2", "\"runs\": 2, \"runs\": 3", TWIN_EFORMAT}, /* which of the two? */
        {"\"runs\": 2", "\"runs\": -2", TWIN_EFORMAT},
        {"\"runs\": 2", "\"runs\": 2.5", TWIN_EFORMAT},
        {"\"level\": \"tensors\"", "\"level\": \"all\"", TWIN_EFORMAT},
        {"\"max_steps\": 0", "\"max_steps\": 99999999999", TWIN_EFORMAT},
        {"\"command\": [", "\"command\": [3, ", TWIN_EFORMAT},
        {"\"world\": {", "\"world\": {\"x\": 3", TWIN_EFORMAT},
        {"\"processes\": [", "\"processes\": [], \"was\": [", TWIN_EFORMAT},
        {"\"steps\": 12", "\"steps\": 4000000000", TWIN_EFORMAT},
        {"\"steps\": 12", "\"steps\": 11", TWIN_EFORMAT},
        {"\"steps\": 12", "\"steps\": 13", TWIN_EFORMAT},
        {"\"rank\": 0", "\"rank\": 99999999999", TWIN_EFORMAT},
        {"\"left_out\": []", "\"left_out\": [100000]", TWIN_EFORMAT},
        {"[0, 0, \"", "[0, 1, \"", TWIN_EFORMAT},
        {"[0, 0, \"", "[0, 4294967295, \"", TWIN_EFORMAT},
        {"[1, 1, \"", "[1, 0, \"", TWIN_EFORMAT},
        {"[1, 1, \"", "[1, 1, \"x", TWIN_EFORMAT},
        {"\"tensors\": [\n    [0, \"0-", "\"tensors\": [\n    [0, \"9-", TWIN_EFORMAT},
        {"\"tensors\": [\n    [0, \"0-", "\"tensors\": [\n    [0, \"0-99999999", TWIN_EFORMAT},
        {"\"tensors\": [\n    [0, \"0-", "\"tensors\": [\n    [0, \"-", TWIN_EFORMAT},
        {"\"tensors\": [\n    [0, \"0-", "\"tensors\": [\n    [13, \"0-", TWIN_EFORMAT},
        {"\"numbers\": [\n    [0, ", "\"numbers\": [\n    [0, 9", TWIN_EFORMAT},
        {"\"names\": [\n  [\"", "\"names\": [\n  [\"no such ", TWIN_EFORMAT},
        {"{\n \"schema\"", "[{\n \"schema\"", TWIN_EFORMAT},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_baseline *x = NULL;
        char *bad = replaced(text, row[i].old, row[i].by);
        int rc = twin_baseline_read(bad, strlen(bad), "../base.json", &x, &err);
        if (rc != row[i].code)
            fprintf(stderr, "%s -> %s: %d, %s\n", row[i].old, row[i].by, rc, err.message);
        assert_int_equal(rc, row[i].code);
        assert_non_null(strstr(err.message, "../base.json"));
        assert_null(x);
        tw_free(bad);
    }
    struct twin_baseline *x = NULL;
    for (size_t n = 0; n < strlen(text) - 2; n += 97) /* torn anywhere */
        assert_int_equal(twin_baseline_read(text, n, "b", &x, NULL), TWIN_EFORMAT);
    assert_int_equal(twin_baseline_read(text, (size_t)5 << 20, "b", &x, NULL), TWIN_ELIMIT);
    tw_free(text);
    twin_baseline_free(b);
}

/* Names are bytes: what is no text comes back as it was. */
static void bytes_in_names(void **state)
{
    (void)state;
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        const float x[2] = {1, 2};
        s[i] = synth_new("bytes");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "x\xff\n\"../"},
                  x, 2);
        synth_put(w,
                  (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                                        .kind = TWIN_KIND_WEIGHT,
                                        .name = "\xc3\xa4",
                                        .scope = "\x01"},
                  x, 2);
        twin_writer_step_end(w);
    }
    struct twin_baseline *b = again(make(s[0], s[1], NULL));
    struct twin_verdict *v = judge(b, s[1], NULL);
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
    twin_baseline_free(b);
    synth_free(s[0]);
    synth_free(s[1]);
}

/* The file of the first version means the same for ever. */
static void golden(void **state)
{
    (void)state;
    char *text = NULL, *second;
    size_t n = 0;
    struct twin_baseline *b = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(tw_read_file(GOLDEN "/baseline/v1-job.json", 1 << 20, &text, &n, &err), 0);
    assert_int_equal(twin_baseline_read(text, n, "v1-job.json", &b, &err), 0);
    second = text_of(b);
    assert_string_equal(text, second);
    assert_int_equal(twin_baseline_info(b).steps, 20);
    tw_free(text);
    tw_free(second);
    twin_baseline_free(b);
}

static void no_memory(void **state)
{
    (void)state;
    struct synth *s[3] = {run_of(4, AT_BATCH, 0, 0), run_of(4, AT_BATCH, 0, 0),
                          run_of(4, AT_GRADIENT, 2, 1e-3f)};
    const struct twin_run *runs[3] = {synth_done(s[0]), synth_done(s[1]), synth_done(s[2])};
    size_t failed = 0;
    for (uint64_t n = 1;; n++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_baseline *b = NULL, *x = NULL;
        struct twin_verdict *v = NULL;
        char *text = NULL;
        tw_alloc_fail_at(n, n % 2 == 0);
        int rc = twin_baseline_make(runs, 2, NULL, "1", &b, &err);
        rc = rc ? rc : twin_baseline_write(b, &text, &err);
        rc = rc ? rc : twin_baseline_read(text, strlen(text), "b", &x, &err);
        rc = rc ? rc : twin_baseline_judge(x, runs[2], NULL, &v, &err);
        tw_alloc_fail_at(0, false);
        bool done = rc == 0;
        if (done)
            expect_outcome(v, TWIN_DIFFER);
        else
            assert_true(err.code != 0 && err.message[0]);
        failed += !done;
        twin_verdict_free(v);
        twin_baseline_free(b);
        twin_baseline_free(x);
        tw_free(text);
        if (done && n % 2) /* one that fails for good after the last allocation fails none */
            break;
    }
    assert_true(failed > 50);
    for (int i = 0; i < 3; i++)
        synth_free(s[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same),
        cmocka_unit_test(as_between_runs),
        cmocka_unit_test(an_end_is_no_step),
        cmocka_unit_test(long_run),
        cmocka_unit_test(other_lengths),
        cmocka_unit_test(ranks),
        cmocka_unit_test(not_repeated),
        cmocka_unit_test(tolerance),
        cmocka_unit_test(hostile),
        cmocka_unit_test(bytes_in_names),
        cmocka_unit_test(golden),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
