/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts over N runs, tolerance, printed lines, drift, origins, live comparison, and every
 * allocation failing. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base.h"
#include "compare_test.h"

/* Runs 1, 4 and 5 are usual; 2 and 3 leave together at step 3, and each other at step 6; 6 leaves
 * at step 5. */
static void tree_of_six(void **state)
{
    (void)state;
    static const uint32_t at[6][2] = {{99, 99}, {3, 99}, {3, 6}, {99, 99}, {99, 99}, {5, 99}};
    struct synth_model m[6];
    struct synth *s[6];
    const struct twin_run *runs[6];
    for (int i = 0; i < 6; i++) {
        synth_model_init(&m[i], 9);
        for (int k = 0; k < 2; k++) {
            m[i].disturb[k].place = AT_BATCH;
            m[i].disturb[k].step = at[i][k];
            m[i].disturb[k].by = 1e-3f;
        }
        m[i].disturbances = 2;
        s[i] = synth_train_run("n", &m[i]);
        runs[i] = synth_done(s[i]);
    }
    struct twin_class_tree t;
    assert_int_equal(twin_compare_tree(runs, 6, NULL, &t, NULL), 0);
    assert_int_equal(t.count, 4);
    assert_int_equal(t.branch[0].members, 3);
    assert_int_equal(t.branch[0].runs[2], 4);
    assert_int_equal(t.branch[0].step, -1);
    bool later = false, apart = false;
    for (size_t i = 1; i < t.count; i++) {
        const struct twin_branch *b = &t.branch[i];
        assert_int_equal(b->members, 1);
        if (b->step == 6) { /* 2 and 3: either may be called the one that leaves */
            later = true;
            assert_int_equal(t.branch[b->parent].step, 3);
            assert_int_equal(b->runs[0] + t.branch[b->parent].runs[0], 1 + 2);
        } else {
            assert_int_equal(b->parent, 0);
            apart |= b->step == 5 && b->runs[0] == 5;
        }
    }
    assert_true(later && apart);
    twin_class_tree_free(&t);
    assert_int_equal(twin_compare_tree(runs, 1, NULL, &t, NULL), 0);
    assert_int_equal(t.count, 1);
    twin_class_tree_free(&t);
    for (int i = 0; i < 6; i++)
        synth_free(s[i]);
}

static void classes_of_five(void **state)
{
    (void)state;
    static const float by[5] = {1e-3f, 0, 0, 1e-3f, 0}; /* run 1 is the odd one */
    struct synth_model m[5];
    struct synth *s[5];
    const struct twin_run *runs[5];
    for (int i = 0; i < 5; i++) {
        synth_model_init(&m[i], 9);
        m[i].disturb[0].place = AT_BATCH;
        m[i].disturb[0].step = 4;
        m[i].disturb[0].by = by[i];
        m[i].disturbances = 1;
        s[i] = synth_train_run("n", &m[i]);
        runs[i] = synth_done(s[i]);
    }
    struct twin_verdict *v;
    assert_int_equal(twin_compare(runs, 5, NULL, &v, NULL), 0);
    expect_behind(v, 4, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch", "the beginning");
    assert_int_equal(v->class_count, 2);
    assert_int_equal(v->classes[0].members, 2); /* runs 1 and 4 */
    assert_int_equal(v->classes[0].runs[1], 3);
    assert_int_equal(v->classes[0].parts_at_step, 4);
    assert_int_equal(v->classes[1].members, 3); /* the modal class */
    assert_int_equal(v->classes[1].parts_at_step, -1);
    assert_int_equal(v->differing, 2);
    assert_true(fabs(v->rate - .5) < 1e-12);
    assert_true(v->rate_low < .5 && v->rate_high > .5 && v->p_diverge_upper == v->rate_high);
    twin_verdict_free(v);
    for (int i = 0; i < 5; i++)
        synth_free(s[i]);
}

static void tolerance(void **state)
{
    (void)state;
    struct synth_model x, y;
    char path[64] = "/tmp/twin-tolerance-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    synth_model_init(&x, 10);
    y = x;
    y.disturb[0].place = AT_GRADIENT;
    y.disturb[0].step = 3;
    y.disturb[0].by = 1e-5f;
    y.disturbances = 1;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    static const struct {
        const char *text;
        enum twin_verdict_outcome outcome;
    } row[] = {
        {"# all of it\n[[tolerance]]\npattern = \"*\"\nrel_l2 = 1e-1  # generous\nreason = 'known "
         "race'\n",
         TWIN_WITHIN_TOLERANCE},
        {"[[tolerance]]\npattern = \"*\"\nrel_l2 = 1e-9\nreason = 'r'\n", TWIN_DIFFER},
        /* the gradient is not covered */
        {"[[tolerance]]\npattern = \"optimizer/*\"\nrel_l2 = 1e-1\nreason = 'r'\n", TWIN_DIFFER},
        {"{\"tolerance\": [{\"pattern\": \"*\", \"rel_l2\": 0.1, \"reason\": \"r\"}]}",
         TWIN_WITHIN_TOLERANCE},
        {"{\"tolerance\": [{\"pattern\": \"*\", \"abs\": 0.1, \"reason\": \"r\"}]}",
         TWIN_WITHIN_TOLERANCE},
        {"{\"tolerance\": [{\"pattern\": \"*\", \"rtol\": 0.1, \"reason\": \"r\"}]}",
         TWIN_WITHIN_TOLERANCE},
        {"{\"tolerance\": [{\"pattern\": \"*\", \"atol\": 0.1, \"reason\": \"r\"}]}",
         TWIN_WITHIN_TOLERANCE},
        {"{\"tolerance\": [{\"pattern\": \"*\", \"rtol\": 1e-12, \"atol\": 1e-12, \"reason\": "
         "\"r\"}]}",
         TWIN_DIFFER},
        /* tensors have no ulp here */
        {"{\"tolerance\": [{\"pattern\": \"*\", \"ulp\": 1000000, \"reason\": \"r\"}]}",
         TWIN_DIFFER},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_int_equal(tw_write_file_atomic(path, row[i].text, strlen(row[i].text), NULL), 0);
        struct twin_verdict *v = compare(a, b,
                                         &(struct twin_compare_options){.tolerance_file = path});
        expect_outcome(v, row[i].outcome);
        assert_int_equal(v->bitwise, TWIN_DIFFER);
        assert_true(has_note(v, row[i].outcome == TWIN_DIFFER ? "outside the tolerance"
                                                              : "within tolerance"));
        assert_int_equal(v->rule_count, 1);
        assert_true(v->rules[0].matched > 0);
        assert_true(row[i].outcome == TWIN_DIFFER ||
                    (v->rules[0].measured > 0 && v->rules[0].worst > 0 && v->rules[0].worst <= 1 &&
                     !v->rules[0].outside));
        twin_verdict_free(v);
    }
    static const char *const bad[] = {"",
                                      "[[tolerance]]\n",
                                      "pattern = \"x\"\n",
                                      "[[tolerance]]\npattern = \"x\nrel_l2 = 1\n",
                                      "{",
                                      "{\"tolerance\": 3}",
                                      "[[tolerance]]\npattern = \"*\"\nrel_l2 = -1\n",
                                      "[[tolerance]]\npattern = \"*\"\nfuzz = 1\n",
                                      "[[tolerance]]\npattern = 3\n",
                                      "[[tolerance]]\npattern = \"*\"\nrel_l2 = 1\n",
                                      "[[tolerance]]\npattern = \"*\"\nrel_l2 = 1\nreason = ' '\n",
                                      "[[tolerance]]\npattern = \"*\"\nreason = 'r'\n",
                                      "[[tolerance]]\npattern = \"*\"\nulp = -1\nreason = 'r'\n",
                                      "{\"tolerance\": [{\"pattern\": \"x\", \"rel_l2\": true}]}"};
    const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_verdict *v;
        assert_int_equal(tw_write_file_atomic(path, bad[i], strlen(bad[i]), NULL), 0);
        assert_int_equal(
            twin_compare(runs, 2, &(struct twin_compare_options){.tolerance_file = path}, &v, &err),
            TWIN_EFORMAT);
        assert_non_null(strstr(err.message, path));
        assert_null(v);
    }
    unlink(path);
    synth_free(a);
    synth_free(b);
}

static void printed_lines(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        enum twin_verdict_outcome outcome;
        size_t benign;
    } row[] = {
        {"step 1 loss 0.5 time 1.25s\n", "step 1 loss 0.5 time 2.5s\n", TWIN_SAME, 1},
        {"step 1 loss 0.5\nstep 2 loss 0.25\n", "step 1 loss 0.5\nstep 2 loss 0.26\n", TWIN_DIFFER,
         0},
        {"rank 0 ok\nrank 1 ok\n", "rank 1 ok\nrank 0 ok\n", TWIN_SAME, 0},
        {"10%|# | 1/10 [00:01<00:09]\r100%|##| 10/10 [00:10<00:00]\nacc 0.9\n",
         "100%|##| 10/10 [00:12<00:00]\nacc 0.9\n", TWIN_SAME, 1},
        {"done\n", "Warning: slow disk\ndone\n", TWIN_INCONCLUSIVE, 0},
        {"class cat\n", "class dog\n", TWIN_INCONCLUSIVE, 0},
        {"sha256 9f86d081884c\n", "sha256 1f86d081884c\n", TWIN_DIFFER, 0},
        {"[16.3 16.9 0.06]\n", "[ 16.3 -16.9  0.06]\n", TWIN_DIFFER, 0},
        {"[16.3 16.9 0.06]\n", "[ 16.3  16.9  0.06]\n", TWIN_SAME, 1},
        {"speed 0.3\n", "speed 0.4\n", TWIN_INCONCLUSIVE, 0},
        {"loss nan\n", "loss 0.5\n", TWIN_DIFFER, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct synth_model x, y;
        synth_model_init(&x, 4);
        y = x;
        struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
        synth_print(a, "stdout", row[i].a);
        synth_print(b, "stdout", row[i].b);
        struct twin_verdict *v = compare(a, b, NULL);
        expect_outcome(v, row[i].outcome);
        assert_int_equal(v->benign_count, row[i].benign);
        if (v->first) {
            assert_int_equal(v->first->type, TWIN_FINDING_OUTPUT);
            assert_true(has_note(v, "all records are equal"));
        }
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

static void drift_is_fitted(void **state)
{
    (void)state;
    /* weights parted by a factor of 1.5 per step, by construction */
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = synth_new("drift");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        double apart = 1e-6;
        for (int step = 0; step < 20; step++, apart *= 1.5) {
            float x[2] = {1 + (i && step >= 5 ? (float)apart : 0), 1};
            synth_put(w,
                      (struct synth_record){
                          .phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "batch"},
                      (float[]){1, 2}, 2);
            synth_put(w,
                      (struct synth_record){
                          .phase = TWIN_PHASE_OPTIMIZER, .kind = TWIN_KIND_WEIGHT, .name = "w"},
                      x, 2);
            twin_writer_step_end(w);
        }
    }
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    expect_first(v, 5, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w");
    assert_true(fabs(v->drift_per_step - 1.5) < .02);
    twin_verdict_free(v);
    for (int i = 0; i < 2; i++)
        synth_free(s[i]);
}

static void links_tell_origin_from_carrier(void **state)
{
    (void)state;
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = synth_new("links");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        float x[2] = {1, 2}, odd[2] = {1, i ? 3 : 2}, also[2] = {4, i ? 5 : 6};
        uint64_t in = synth_put(w,
                                (struct synth_record){.phase = TWIN_PHASE_DATA,
                                                      .kind = TWIN_KIND_BATCH,
                                                      .name = "batch"},
                                x, 2);
        uint64_t one = synth_put_linked(w,
                                        (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                                              .kind = TWIN_KIND_ACTIVATION,
                                                              .name = "a"},
                                        odd, 2, &in, 1);
        synth_put_linked(w,
                         (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                               .kind = TWIN_KIND_ACTIVATION,
                                               .name = "b"},
                         odd, 2, &one, 1);
        synth_put_linked(w,
                         (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                               .kind = TWIN_KIND_ACTIVATION,
                                               .name = "c"},
                         also, 2, &in, 1);
        twin_writer_step_end(w);
    }
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    expect_first(v, 0, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "a");
    assert_int_equal(v->origin_count, 2); /* a and c; b carries a's */
    assert_string_equal(v->origins[1].name, "c");
    twin_verdict_free(v);
    for (int i = 0; i < 2; i++)
        synth_free(s[i]);
}

static void live(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 8);
    y = x;
    y.disturb[0].place = AT_BATCH;
    y.disturb[0].step = 6;
    y.disturb[0].by = 1;
    y.disturbances = 1;
    struct synth *a = synth_train_run("a", &x), *b = synth_new("b");
    struct twin_writer *w = synth_process(b, 0, 1, NULL);
    bool parted = true;
    uint32_t step;
    assert_int_equal(
        twin_compare_live(synth_done(a), synth_run(b)->dir, NULL, &parted, &step, NULL), 0);
    assert_false(parted);
    y.steps = 6;
    synth_train(&y, w);
    twin_writer_flush(w);
    assert_int_equal(
        twin_compare_live(synth_done(a), synth_run(b)->dir, NULL, &parted, &step, NULL), 0);
    assert_false(parted);
    synth_free(b);
    synth_model_init(&y, 8);
    y.disturb[0].place = AT_BATCH;
    y.disturb[0].step = 6;
    y.disturb[0].by = 1;
    y.disturbances = 1;
    b = synth_train_run("b", &y);
    assert_int_equal(
        twin_compare_live(synth_done(a), synth_run(b)->dir, NULL, &parted, &step, NULL), 0);
    assert_true(parted);
    assert_int_equal(step, 6);
    struct twin_compare_options all_of_it = {.ignore = (const char *const[]){"*"},
                                             .ignore_count = 1};
    assert_int_equal(
        twin_compare_live(synth_done(a), synth_run(b)->dir, &all_of_it, &parted, &step, NULL), 0);
    assert_false(parted);
    synth_free(a);
    synth_free(b);
}

/* At the seam of a resumed arm, where the generators differ: what was made until memory ran out is
 * given back (sanitizers look). */
static void allocation_failures_at_a_seam(void **state)
{
    (void)state;
    struct synth_model whole, half;
    synth_model_init(&whole, 8);
    synth_model_init(&half, 4);
    whole.shuffle = half.shuffle = true;
    struct synth *a = synth_train_run("a", &whole), *first = synth_train_run("first", &half);
    half.start = 4;
    half.steps = 8;
    half.generator += 99; /* not restored */
    struct synth *b = synth_train_run("b", &half);
    const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
    const struct twin_compare_options o = {.arms = true, .find_shift = true};
    uint64_t before = tw_alloc_count(), all = 1;
    for (uint64_t n = 0; n <= all; n++) { /* 0: none fails */
        struct twin_verdict *v = NULL;
        struct twin_error err = TWIN_ERROR_INIT;
        tw_alloc_fail_at(n, false);
        int rc = twin_compare(runs, 2, &o, &v, &err);
        tw_alloc_fail_at(0, false);
        all = n == 0 ? tw_alloc_count() - before : all;
        if (rc != 0) {
            assert_int_equal(rc, TWIN_ENOMEM);
            continue;
        }
        expect_outcome(v, TWIN_DIFFER);
        assert_int_equal(v->first->kind, TWIN_KIND_STATE);
        twin_verdict_free(v);
    }
    assert_true(all > 100);
    synth_free(a);
    synth_free(first);
    synth_free(b);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 6);
    y = x;
    y.disturb[0].place = AT_GRADIENT;
    y.disturb[0].step = 3;
    y.disturb[0].by = 1e-4f;
    y.disturbances = 1;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    synth_print(a, "stdout", "loss 1.5\nx 1s\n");
    synth_print(b, "stdout", "loss 1.25\nx 2s\n");
    synth_file(a, "m.npy", "1");
    synth_file(b, "m.npy", "2");
    const struct twin_run *runs[3] = {synth_done(a), synth_done(b), synth_done(a)};
    for (int forever = 0; forever < 2; forever++)
        for (uint64_t n = 1;; n++) {
            struct twin_verdict *v = NULL;
            struct twin_error err = TWIN_ERROR_INIT;
            tw_alloc_fail_at(n, forever);
            int rc = twin_compare(runs, 3, NULL, &v, &err);
            tw_alloc_fail_at(0, false);
            if (rc == 0) {
                if (v->outcome != TWIN_DIFFER || v->first->kind != TWIN_KIND_GRADIENT)
                    fprintf(stderr, "allocation %llu failed unnoticed\n", (unsigned long long)n),
                        explain(v);
                assert_int_equal(v->outcome, TWIN_DIFFER);
                assert_int_equal(v->first->kind, TWIN_KIND_GRADIENT);
                twin_verdict_free(v);
                assert_true(n > 100);
                break;
            }
            assert_int_equal(rc, TWIN_ENOMEM);
            assert_null(v);
            assert_true(err.message[0] != '\0');
        }
    synth_free(a);
    synth_free(b);
}

static void one_run_alone(void **state)
{
    (void)state;
    struct synth_model x;
    synth_model_init(&x, 3);
    struct synth *a = synth_train_run("a", &x);
    const struct twin_run *run = synth_done(a);
    struct twin_verdict *v;
    assert_int_equal(twin_compare(&run, 1, NULL, &v, NULL), 0);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(v->p_diverge_upper == 1);
    twin_verdict_free(v);
    assert_int_equal(twin_compare(&run, 0, NULL, &v, NULL), TWIN_EINVAL);
    synth_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_of_five),
        cmocka_unit_test(tolerance),
        cmocka_unit_test(printed_lines),
        cmocka_unit_test(drift_is_fitted),
        cmocka_unit_test(links_tell_origin_from_carrier),
        cmocka_unit_test(tree_of_six),
        cmocka_unit_test(live),
        cmocka_unit_test(allocation_failures_at_a_seam),
        cmocka_unit_test(every_allocation_failure),
        cmocka_unit_test(one_run_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
