/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts over run folders that the test makes itself: the shape of every ghost. */
#include <math.h>

#include "compare_test.h"

static void equal_runs_are_the_same(void **state)
{
    (void)state;
    struct synth_model m[3];
    struct synth *s[3];
    const struct twin_run *runs[3];
    struct twin_verdict *v;
    for (int i = 0; i < 3; i++) {
        synth_model_init(&m[i], 30);
        s[i] = synth_train_run("same", &m[i]);
        runs[i] = synth_done(s[i]);
    }
    assert_int_equal(twin_compare(runs, 3, NULL, &v, NULL), 0);
    expect_outcome(v, TWIN_SAME);
    assert_null(v->first);
    assert_int_equal(v->runs, 3);
    assert_int_equal(v->comparisons, 2);
    assert_int_equal(v->differing, 0);
    assert_int_equal(v->class_count, 1);
    assert_int_equal(v->steps_a, 30);
    assert_int_equal(v->steps_compared, 30);
    assert_int_equal(v->records_compared, v->records_a);
    assert_true(v->records_a > 30 * 10);
    assert_true(fabs(v->p_diverge_upper - (1 - sqrt(.05))) < 1e-12);
    twin_verdict_free(v);
    for (int i = 0; i < 3; i++)
        synth_free(s[i]);
}

static void each_place_is_named(void **state)
{
    (void)state;
    static const struct {
        enum synth_place place;
        int param;
        enum twin_phase phase;
        enum twin_kind kind;
        const char *name, *layer, *behind; /* NULL: an origin */
    } row[] = {
        /* lines of the job make indices and batches, at any time */
        {AT_INDICES, 0, TWIN_PHASE_DATA, TWIN_KIND_INDICES, "sample indices", "data",
         "the beginning"},
        {AT_BATCH, 0, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch", "data", "the beginning"},
        {AT_ACTIVATION, 0, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "fc1", "forward"},
        {AT_LOSS, 0, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", "forward"},
        {AT_GRADIENT, 0, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "embed.weight", "backward"},
        /* nobody looks at an optimizer's state between two steps */
        {AT_MOMENT, 1, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "fc1.weight.momentum_buffer",
         "optimizer", "the optimizer state as step 16 left it"},
        {AT_WEIGHT, 2, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "fc1.bias", "optimizer"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct twin_verdict *v = disturbed(40, row[i].place, 17, row[i].param, 1.0f, NULL);
        expect_place(v, 17, row[i].phase, row[i].kind, row[i].name);
        assert_int_equal(v->first->role, row[i].behind ? TWIN_ROLE_UNKNOWN : TWIN_ORIGIN);
        if (row[i].behind)
            assert_string_equal(v->first->between[0], row[i].behind);
        assert_string_equal(v->first->layer, row[i].layer);
        assert_int_equal(v->steps_differing, row[i].place == AT_LOSS ? 1 : 23);
        assert_true(v->steps_differing_exact);
        twin_verdict_free(v);
    }
}

/* Ghost: vocabulary from a set of strings. */
static void input_ids_differ_weights_equal(void **state)
{
    (void)state;
    struct twin_verdict *v = disturbed(5, AT_BATCH, 0, 0, 1.0f, NULL);
    expect_behind(v, 0, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch", "the beginning");
    /* the initial weights are equal, and the rest is carried on */
    assert_int_equal(v->origin_count, 1);
    assert_int_equal(onset(v, "initial weights"), UINT32_MAX);
    twin_verdict_free(v);
}

/* Ghost: a bias left at torch.empty. */
static void one_parameter_differs_at_init(void **state)
{
    (void)state;
    struct twin_verdict *v = disturbed(5, AT_INIT, 0, 2, 1e-3f, NULL);
    expect_behind(v, 0, TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, "fc1.bias", "the beginning");
    assert_string_equal(v->first->layer, "init");
    assert_int_equal(v->origin_count, 1);
    assert_non_null(strstr(v->equal_before, "3 other initial weights"));
    twin_verdict_free(v);
}

static void lr_zero(struct synth_model *m)
{
    m->lr = 0;
    memset(m->moment, 0, sizeof m->moment);
}

/* Ghost: gradient of x[idx] on 2 threads; and the same with a learning rate of 0. */
static void gradient_differs_everything_before_equal(void **state)
{
    (void)state;
    struct twin_verdict *v = disturbed(12, AT_GRADIENT, 0, 1, 1e-2f, NULL);
    expect_first(v, 0, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "fc1.weight");
    assert_int_equal(v->origin_count, 1);
    assert_non_null(strstr(v->equal_before, "activations"));
    assert_non_null(strstr(v->equal_before, "loss"));
    assert_non_null(strstr(v->equal_before, "3 other gradients"));
    assert_true(v->first->rel_l2 > 0 && v->first->rel_l2 < 1);
    assert_false(v->first->rel_l2_exact);
    assert_int_equal(v->first->elements, SYNTH_SIZE);
    assert_int_equal(onset(v, "gradients"), 0);
    assert_int_equal(onset(v, "weights"), 0);
    assert_int_equal(onset(v, "loss"), 1);
    twin_verdict_free(v);
    v = disturbed(12, AT_GRADIENT, 0, 1, 1e-5f, lr_zero);
    expect_first(v, 0, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "fc1.weight");
    assert_int_equal(onset(v, "weights"), UINT32_MAX);
    assert_int_equal(onset(v, "optimizer state"), 0);
    twin_verdict_free(v);
}

/* Several gradients, recorded in the parameters' order, part in one step: the one nearest the loss
 * is named first. */
static void frontier_of_gradients(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 6);
    y = x;
    for (int i = 0; i < 2; i++) {
        y.disturb[i].place = AT_GRADIENT;
        y.disturb[i].step = 3;
        y.disturb[i].param = i == 0 ? 0 : 2;
        y.disturb[i].by = 1e-4f;
    }
    y.disturbances = 2;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_first(v, 3, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "fc1.bias");
    assert_int_equal(v->origin_count, 2);
    assert_string_equal(v->origins[1].name, "embed.weight");
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static struct twin_verdict *evaluations(void (*change)(struct synth_model *), bool arms)
{
    struct synth_model x, y;
    synth_model_init(&x, 12);
    change(&x);
    y = x;
    x.eval_every = 3;
    y.eval_every = 4;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    struct twin_verdict *v = compare(
        a, b, &(struct twin_compare_options){.arms = arms, .find_shift = arms});
    synth_free(a);
    synth_free(b);
    return v;
}

static void shuffle_each_step(struct synth_model *m)
{
    m->shuffle = true;
}

static void shuffle_seldom(struct synth_model *m)
{
    m->shuffle = true;
    m->shuffle_every = 6;
}

static void shuffle_seldom_eval_apart(struct synth_model *m)
{
    m->shuffle = m->eval_apart = true;
    m->shuffle_every = 6;
}

/* Ghost: an eval loader iterated every 3 or every 4 steps. What was evaluated differs at once, what
 * was trained only when the sampler draws again: the draw in between is named in both cases. */
static void evaluation_at_other_steps(void **state)
{
    (void)state;
    void (*const scene[2])(struct synth_model *) = {shuffle_each_step, shuffle_seldom};
    for (int i = 0; i < 2; i++) {
        struct twin_verdict *v = evaluations(scene[i], true);
        expect_first(v, 3, TWIN_PHASE_RNG, TWIN_KIND_STATE, "torch.cpu");
        assert_string_equal(v->first->layer, "rng");
        assert_string_equal(v->first->op, "DataLoader.__iter__");
        assert_string_equal(v->first->site, "train.py:30 in main");
        assert_int_equal(v->first->type, TWIN_FINDING_ONLY_A);
        twin_verdict_free(v);
    }
}

/* Its twin: the evaluation has a generator of its own, so that training is the same. Two runs of
 * one command are held to more. */
static void evaluation_that_touches_nothing(void **state)
{
    (void)state;
    struct twin_verdict *v = evaluations(shuffle_seldom_eval_apart, true);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->benign_count, 1);
    assert_non_null(strstr(v->benign[0].text, "from step 3 on"));
    twin_verdict_free(v);
    v = evaluations(shuffle_seldom_eval_apart, false);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->step_a, 3);
    twin_verdict_free(v);
}

static void put_checkpoint(struct synth *s, struct twin_writer *w, const char *bytes)
{
    static const float tensors[3] = {1, 2, 3};
    synth_put(w,
              (struct synth_record){.phase = TWIN_PHASE_CHECKPOINT,
                                    .kind = TWIN_KIND_FILE,
                                    .name = "checkpoint.pt",
                                    .op = "torch.save"},
              tensors, 3);
    synth_file(s, "out/checkpoint.pt", bytes);
}

/*
 * A checkpoint whose bytes differ and whose tensors are equal: it is the same where the agent shows
 * that the plain values in it are, too, and looked into everything.
 */
static void a_checkpoint_is_equal_in_tensors_and_other_values(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        enum twin_verdict_outcome outcome;
    } all[] = {
        {"00000000000000a1 0 checkpoint.pt", "00000000000000a1 0 checkpoint.pt", TWIN_SAME},
        {"00000000000000a1 0 checkpoint.pt", "00000000000000a2 0 checkpoint.pt", TWIN_INCONCLUSIVE},
        {"00000000000000a1 1 checkpoint.pt", "00000000000000a1 1 checkpoint.pt", TWIN_INCONCLUSIVE},
        {"00000000000000a1 0 checkpoint.pt", "00000000000000a1 0 other.pt", TWIN_INCONCLUSIVE},
        {"00000000000000a1 0 checkpoint.pt", "00000000000000a1", TWIN_INCONCLUSIVE},
        {NULL, NULL, TWIN_INCONCLUSIVE},
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        struct synth_model m[2];
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            const char *note = i ? all[k].b : all[k].a;
            synth_model_init(&m[i], 6);
            s[i] = synth_new("ckpt");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            synth_train(&m[i], w);
            put_checkpoint(s[i], w, i ? "one pickle" : "another pickle");
            if (note)
                twin_writer_note(w, "checkpoint.digest", note);
            synth_file(s[i], "train.log", i ? "step 1 took 1.25 s\n" : "step 1 took 0.98 s\n");
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        expect_outcome(v, all[k].outcome);
        if (all[k].outcome == TWIN_SAME)
            assert_string_equal(
                v->benign[0].text,
                "out/checkpoint.pt: file bytes differ, tensors and other values equal");
        else
            assert_string_equal(
                v->unseen[0],
                "out/checkpoint.pt: file bytes differ; its tensors are equal, and whether its "
                "other values are is not known (--ignore 'file:out/checkpoint.pt' leaves it out)");
        twin_verdict_free(v);
        for (int i = 0; i < 2; i++)
            synth_free(s[i]);
    }
}

/* A job that went on from step `cut`, and what it forgot to restore. */
static struct twin_verdict *resume(uint32_t cut, bool generator, bool moments, bool weights,
                                   bool shuffle)
{
    struct synth_model whole, part;
    synth_model_init(&whole, 12);
    whole.shuffle = shuffle;
    part = whole;
    struct synth *a = synth_train_run("whole", &whole);
    synth_model_init(&part, cut);
    part.shuffle = shuffle;
    struct synth *scratch = synth_train_run("until", &part);
    synth_free(scratch);
    part.start = cut;
    part.steps = 12;
    if (!generator)
        part.generator = 7;
    if (!moments)
        memset(part.moment, 0, sizeof part.moment);
    if (!weights)
        part.weight[1][1] += 0.5f;
    struct synth *b = synth_train_run("resumed", &part);
    struct twin_verdict *v = compare(
        a, b, &(struct twin_compare_options){.arms = true, .find_shift = true});
    synth_free(a);
    synth_free(b);
    return v;
}

/* Ghost: resumed without its generator's state. */
static void resumed_arm(void **state)
{
    (void)state;
    struct twin_verdict *v = resume(5, true, true, true, true);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->shift, -5);
    assert_true(v->shift_found);
    assert_int_equal(v->steps_compared, 7);
    twin_verdict_free(v);

    v = resume(5, false, true, true, true);
    expect_first(v, 4, TWIN_PHASE_RNG, TWIN_KIND_STATE, "torch.cpu");
    assert_int_equal(v->first->step_b, 0);
    assert_non_null(strstr(v->first->text, "at the seam"));
    assert_non_null(strstr(v->equal_before, "weights (4)"));
    twin_verdict_free(v);

    v = resume(5, true, false, true, false);
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->name, "embed.weight.momentum_buffer");
    assert_int_equal(v->first->kind, TWIN_KIND_MOMENT);
    assert_int_equal(v->first->step_a, 5);
    assert_int_equal(v->first->step_b, 0);
    /*
     * What the resumed optimizer began with is an input of this step that nothing shows: no origin.
     */
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    assert_string_equal(v->first->between[0],
                        "the optimizer state with which run 2 began, which was not recorded");
    twin_verdict_free(v);

    v = resume(5, true, true, false, false);
    expect_outcome(v, TWIN_DIFFER);
    assert_false(v->shift_found);
    assert_true(has_note(v, "--b-starts-at"));
    twin_verdict_free(v);
}

/* An optimizer says the order of its parameters in its first step: a resumed run says it again. */
static void order_of_parameters_after_a_seam(void **state)
{
    (void)state;
    for (int k = 1; k < 6; k += 4) /* right after that step, and later */
        for (int other = 0; other < 2; other++) {
            struct synth_model whole, part;
            synth_model_init(&whole, 12);
            synth_model_init(&part, (uint32_t)k);
            whole.order = part.order = 1;
            struct synth *a = synth_train_run("whole", &whole);
            synth_free(synth_train_run("until", &part));
            part.start = (uint32_t)k;
            part.steps = 12;
            part.order = other ? 2 : 1;
            struct synth *b = synth_train_run("resumed", &part);
            struct twin_verdict *v = compare(
                a, b, &(struct twin_compare_options){.arms = true, .find_shift = true});
            /* another order is none by itself: what it makes of the values counts */
            expect_outcome(v, TWIN_SAME);
            twin_verdict_free(v);
            synth_free(a);
            synth_free(b);
        }
}

/* One epoch of 12 steps, whose resumed half reads its first batches again and drops them. Trained
 * with the batch of step `on`. */
static struct twin_verdict *replay(uint32_t on, uint64_t generator_off_by)
{
    struct synth_model whole, part;
    synth_model_init(&whole, 12);
    whole.shuffle = true;
    whole.shuffle_every = 12;
    synth_model_init(&part, 5);
    part.shuffle = true;
    part.shuffle_every = 12;
    uint64_t generator = part.generator + generator_off_by;
    struct synth *a = synth_train_run("whole", &whole);
    synth_free(synth_train_run("until", &part));
    part.generator = generator;
    part.replay = true;
    part.start = on;
    part.steps = 12;
    struct synth *b = synth_train_run("resumed", &part);
    struct twin_verdict *v = compare(
        a, b, &(struct twin_compare_options){.arms = true, .find_shift = true});
    synth_free(a);
    synth_free(b);
    return v;
}

/* False friend: batches that are read and dropped on the way to the place in the epoch. Ghosts: one
 * batch too many or too few is dropped; the epoch has another order. */
static void resumed_arm_that_skips_batches(void **state)
{
    (void)state;
    struct twin_verdict *v = replay(5, 0);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->steps_compared, 7);
    assert_int_equal(v->benign_count, 1);
    assert_string_equal(v->benign[0].text,
                        "run 2 read 5 batches and dropped them before step 5 (its 0)");
    twin_verdict_free(v);
    for (uint32_t on = 4; on <= 6; on += 2) {
        v = replay(on, 0);
        expect_outcome(v, TWIN_DIFFER);
        assert_string_equal(v->first->layer, "data");
        assert_int_equal(v->first->step_a, 5);
        twin_verdict_free(v);
    }
    v = replay(5, 1);
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->layer, "rng");
    twin_verdict_free(v);
}

static void generator_without_use_does_not_count(void **state)
{
    (void)state;
    struct synth_model m[2];
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        synth_model_init(&m[i], 4);
        s[i] = synth_new("idle");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        float idle[2] = {1, (float)i};
        struct synth_record r = {
            .phase = TWIN_PHASE_INIT, .kind = TWIN_KIND_STATE, .name = "python.random"};
        synth_put(w, r, idle, 2);
        synth_train(&m[i], w);
    }
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    expect_outcome(v, TWIN_SAME);
    assert_true(has_note(v, "python.random"));
    twin_verdict_free(v);
    for (int i = 0; i < 2; i++)
        synth_free(s[i]);
}

static void other_order_alone_is_benign(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 5);
    y = x;
    y.reorder = true;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->benign_count, 1);
    assert_int_equal(v->benign[0].type, TWIN_FINDING_ORDER);
    assert_string_equal(v->benign[0].layer, "schedule");
    assert_string_equal(v->benign[0].text, "same records, another order");
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* Two batches of one accumulated step in another order are other data, also where their sum does
 * not show it. */
static void swapped_batches(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct synth *s[2];
        float x[2][2] = {{1, 2}, {3, 4}};
        for (int i = 0; i < 2; i++) {
            s[i] = synth_new("swap");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            for (int step = 0; step < 3; step++) {
                int swap = i == 1 && step == 1;
                float g[2] = {4, 6 + (differ && swap ? 1e-6f : 0)};
                for (int k = 0; k < 2; k++)
                    synth_put(w,
                              (struct synth_record){.phase = TWIN_PHASE_DATA,
                                                    .kind = TWIN_KIND_BATCH,
                                                    .name = "batch",
                                                    .scope = "DataLoader"},
                              x[k ^ swap], 2);
                synth_put(w,
                          (struct synth_record){.phase = TWIN_PHASE_BACKWARD,
                                                .kind = TWIN_KIND_GRADIENT,
                                                .name = "w"},
                          g, 2);
                twin_writer_step_end(w);
            }
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        expect_behind(v, 1, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch", "the beginning");
        assert_int_equal(v->first->type, TWIN_FINDING_VALUE);
        assert_string_equal(v->first->layer, "data");
        assert_string_equal(v->first->text,
                            "1st of 2 in this step; the other run holds it at another place");
        twin_verdict_free(v);
        for (int i = 0; i < 2; i++)
            synth_free(s[i]);
    }
}

static void left_out_record(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 5);
    y = x;
    y.skip = "fc1";
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_first(v, 0, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "fc1");
    assert_int_equal(v->first->type, TWIN_FINDING_ONLY_A);
    assert_string_equal(v->first->text, "only in run 1");
    twin_verdict_free(v);
    v = compare(a, b,
                &(struct twin_compare_options){
                    .ignore = (const char *const[]){"forward/activation/fc1"}, .ignore_count = 1});
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_runs_are_the_same),
        cmocka_unit_test(each_place_is_named),
        cmocka_unit_test(input_ids_differ_weights_equal),
        cmocka_unit_test(one_parameter_differs_at_init),
        cmocka_unit_test(gradient_differs_everything_before_equal),
        cmocka_unit_test(frontier_of_gradients),
        cmocka_unit_test(evaluation_at_other_steps),
        cmocka_unit_test(evaluation_that_touches_nothing),
        cmocka_unit_test(a_checkpoint_is_equal_in_tensors_and_other_values),
        cmocka_unit_test(resumed_arm),
        cmocka_unit_test(order_of_parameters_after_a_seam),
        cmocka_unit_test(resumed_arm_that_skips_batches),
        cmocka_unit_test(generator_without_use_does_not_count),
        cmocka_unit_test(other_order_alone_is_benign),
        cmocka_unit_test(swapped_batches),
        cmocka_unit_test(left_out_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
