/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts over run folders that the test makes itself: the shape of every ghost, and of everything that goes wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <twin/compare.h>

#include "base.h"
#include "synth.h"

static struct twin_verdict *compare(struct synth *a, struct synth *b, const struct twin_compare_options *o)
{
    const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_compare(runs, 2, o, &v, &err) != 0)
        fail_msg("twin_compare: %s", err.message);
    return v;
}

static void explain(const struct twin_verdict *v)
{
    fprintf(stderr, "outcome %s\n", twin_verdict_name(v->outcome));
    if (v->first)
        fprintf(stderr, "first step %u phase %d kind %d name %s op %s text %s role %d layer %s equal %s\n", v->first->step_a, v->first->phase,
                v->first->kind, v->first->name, v->first->op, v->first->text, v->first->role, v->first->layer, v->equal_before);
    for (size_t i = 0; i < v->unseen_count; i++)
        fprintf(stderr, "unseen: %s\n", v->unseen[i]);
    for (size_t i = 0; i < v->note_count; i++)
        fprintf(stderr, "note: %s\n", v->notes[i]);
}

static void expect_outcome(const struct twin_verdict *v, enum twin_verdict_outcome outcome)
{
    if (v->outcome != outcome)
        explain(v);
    assert_string_equal(twin_verdict_name(v->outcome), twin_verdict_name(outcome));
}

static void expect_first(const struct twin_verdict *v, uint32_t step, enum twin_phase phase, enum twin_kind kind, const char *name)
{
    expect_outcome(v, TWIN_DIFFER);
    assert_non_null(v->first);
    if (v->first->step_a != step || v->first->phase != phase || v->first->kind != kind || strcmp(v->first->name, name) != 0)
        explain(v);
    assert_int_equal(v->first->step_a, step);
    assert_int_equal(v->first->phase, phase);
    assert_int_equal(v->first->kind, kind);
    assert_string_equal(v->first->name, name);
    assert_int_equal(v->first->role, TWIN_ORIGIN);
    assert_true(v->origin_count >= 1);
    assert_string_equal(v->origins[0].name, name);
}

static bool has_note(const struct twin_verdict *v, const char *part)
{
    for (size_t i = 0; i < v->note_count; i++)
        if (strstr(v->notes[i], part))
            return true;
    return false;
}

static bool has_unseen(const struct twin_verdict *v, const char *part)
{
    for (size_t i = 0; i < v->unseen_count; i++)
        if (strstr(v->unseen[i], part))
            return true;
    return false;
}

static uint32_t onset(const struct twin_verdict *v, const char *what)
{
    for (size_t i = 0; i < v->onset_count; i++)
        if (strcmp(v->onsets[i].what, what) == 0)
            return v->onsets[i].step;
    return UINT32_MAX;
}

/* Two runs of the model, the second one disturbed. */
static struct twin_verdict *disturbed(uint32_t steps, enum synth_place place, uint32_t step, int param, float by, void (*change)(struct synth_model *))
{
    struct synth_model x, y;
    synth_model_init(&x, steps);
    if (change)
        change(&x);
    y = x;
    y.disturb[0].place = place;
    y.disturb[0].step = step;
    y.disturb[0].param = param;
    y.disturb[0].by = by;
    y.disturbances = 1;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    struct twin_verdict *v = compare(a, b, NULL);
    synth_free(a);
    synth_free(b);
    return v;
}

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
    static const struct { enum synth_place place; int param; enum twin_phase phase; enum twin_kind kind; const char *name, *layer; } row[] = {
        {AT_INDICES, 0, TWIN_PHASE_DATA, TWIN_KIND_INDICES, "sample indices", "data"},
        {AT_BATCH, 0, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch", "data"},
        {AT_ACTIVATION, 0, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "fc1", "forward"},
        {AT_LOSS, 0, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", "forward"},
        {AT_GRADIENT, 0, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "embed.weight", "backward"},
        {AT_MOMENT, 1, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "fc1.weight.momentum_buffer", "optimizer"},
        {AT_WEIGHT, 2, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "fc1.bias", "optimizer"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct twin_verdict *v = disturbed(40, row[i].place, 17, row[i].param, 1.0f, NULL);
        expect_first(v, 17, row[i].phase, row[i].kind, row[i].name);
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
    expect_first(v, 0, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch");
    assert_int_equal(v->origin_count, 1); /* the initial weights are equal, and the rest is carried on */
    assert_int_equal(onset(v, "initial weights"), UINT32_MAX);
    twin_verdict_free(v);
}

/* Ghost: a bias left at torch.empty. */
static void one_parameter_differs_at_init(void **state)
{
    (void)state;
    struct twin_verdict *v = disturbed(5, AT_INIT, 0, 2, 1e-3f, NULL);
    expect_first(v, 0, TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, "fc1.bias");
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

/* Several gradients, recorded in the parameters' order, part in one step: the one nearest the loss is named first. */
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
    struct twin_verdict *v = compare(a, b, &(struct twin_compare_options){.arms = arms, .find_shift = arms});
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

/* Ghost: an eval loader iterated every 3 or every 4 steps. What was evaluated differs at once, what was trained only when
 * the sampler draws again: the draw in between is named in both cases. */
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

/* Its twin: the evaluation has a generator of its own, so that training is the same. Two runs of one command are held to more. */
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
    synth_put(w, (struct synth_record){.phase = TWIN_PHASE_CHECKPOINT, .kind = TWIN_KIND_FILE, .name = "checkpoint.pt", .op = "torch.save"}, tensors, 3);
    synth_file(s, "out/checkpoint.pt", bytes);
}

/* Ghost: a checkpoint whose bytes differ and whose tensors are equal. */
static void checkpoint_container_is_benign(void **state)
{
    (void)state;
    struct synth_model m[2];
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        synth_model_init(&m[i], 6);
        s[i] = synth_new("ckpt");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        synth_train(&m[i], w);
        put_checkpoint(s[i], w, i ? "saved at noon" : "saved at dawn");
        synth_file(s[i], "train.log", i ? "b" : "a");
    }
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->benign_count, 2);
    assert_string_equal(v->benign[0].text, "out/checkpoint.pt: file bytes differ, tensors equal");
    twin_verdict_free(v);
    for (int i = 0; i < 2; i++)
        synth_free(s[i]);
}

/* A job that went on from step `cut`, and what it forgot to restore. */
static struct twin_verdict *resume(uint32_t cut, bool generator, bool moments, bool weights, bool shuffle)
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
    struct twin_verdict *v = compare(a, b, &(struct twin_compare_options){.arms = true, .find_shift = true});
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
    expect_first(v, 5, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "embed.weight.momentum_buffer");
    assert_int_equal(v->first->step_b, 0);
    twin_verdict_free(v);

    v = resume(5, true, true, false, false);
    expect_outcome(v, TWIN_DIFFER);
    assert_false(v->shift_found);
    assert_true(has_note(v, "--b-starts-at"));
    twin_verdict_free(v);
}

/* One epoch of 12 steps, whose resumed half reads its first batches again and drops them. Trained with the batch of step `on`. */
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
    struct twin_verdict *v = compare(a, b, &(struct twin_compare_options){.arms = true, .find_shift = true});
    synth_free(a);
    synth_free(b);
    return v;
}

/* False friend: batches that are read and dropped on the way to the place in the epoch. Ghosts: one batch too many or too few is dropped;
 * the epoch has another order. */
static void resumed_arm_that_skips_batches(void **state)
{
    (void)state;
    struct twin_verdict *v = replay(5, 0);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->steps_compared, 7);
    assert_int_equal(v->benign_count, 1);
    assert_string_equal(v->benign[0].text, "run 2 read 5 batches and dropped them before step 5 (its 0)");
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
        struct synth_record r = {.phase = TWIN_PHASE_INIT, .kind = TWIN_KIND_STATE, .name = "python.random"};
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
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* Two batches of one accumulated step in another order: harmless until a sum shows it. */
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
                    synth_put(w, (struct synth_record){.phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "batch", .scope = "DataLoader"}, x[k ^ swap], 2);
                synth_put(w, (struct synth_record){.phase = TWIN_PHASE_BACKWARD, .kind = TWIN_KIND_GRADIENT, .name = "w"}, g, 2);
                twin_writer_step_end(w);
            }
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        if (differ) {
            expect_first(v, 1, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch");
            assert_int_equal(v->first->type, TWIN_FINDING_ORDER);
            assert_string_equal(v->first->layer, "data");
        } else {
            expect_outcome(v, TWIN_SAME);
            assert_int_equal(v->benign_count, 1);
            assert_int_equal(v->benign[0].type, TWIN_FINDING_ORDER);
        }
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
    v = compare(a, b, &(struct twin_compare_options){.ignore = (const char *const[]){"forward/activation/fc1"}, .ignore_count = 1});
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* ---- how runs end */

static void failure_in_one_run(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 10);
    y = x;
    y.die_at = 6;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    synth_run(b)->outcome = TWIN_RUN_SIGNALED;
    synth_run(b)->signal = 9;
    synth_run(b)->exit_code = 137;
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->type, TWIN_FINDING_OUTCOME);
    assert_int_equal(v->first->step_a, 6);
    assert_non_null(strstr(v->first->text, "signal 9"));
    assert_non_null(strstr(v->first->text, "stop in step 6"));
    twin_verdict_free(v);
    /* the same failure in both */
    synth_run(a)->outcome = TWIN_RUN_EXITED;
    synth_run(a)->exit_code = 3;
    v = compare(a, b, NULL);
    expect_outcome(v, TWIN_FAILED);
    assert_null(v->first);
    assert_true(has_note(v, "exit code 3"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void value_before_a_failure_is_named_first(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 10);
    y = x;
    y.die_at = 6;
    y.disturb[0].place = AT_LOSS;
    y.disturb[0].step = 4;
    y.disturb[0].by = NAN;
    y.disturbances = 1;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    synth_run(b)->exit_code = 1;
    struct twin_verdict *v = compare(a, b, NULL);
    expect_first(v, 4, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss");
    assert_true(has_note(v, "exit code 1"));
    assert_non_null(strstr(v->nonfinite, "first NaN in run 2, rank 0, step 4"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void other_number_of_steps(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 10);
    y = x;
    y.steps = 8;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->type, TWIN_FINDING_OUTCOME);
    assert_string_equal(v->first->text, "run 1 has 10 steps, run 2 8");
    twin_verdict_free(v);
    synth_run(b)->outcome = TWIN_RUN_STOPPED; /* by us: only the overlap counts */
    v = compare(a, b, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->steps_compared, 8);
    twin_verdict_free(v);
    synth_run(b)->outcome = TWIN_RUN_EXITED;
    v = compare(a, b, &(struct twin_compare_options){.steps_given = true, .steps = 8});
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void crashed_trace_is_unknown_after_its_end(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 10);
    y = x;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    const char *path = synth_done(b)->traces[0];
    char *data;
    size_t bytes;
    assert_int_equal(tw_read_file(path, 1u << 24, &data, &bytes, NULL), 0);
    for (size_t cut = bytes; cut > 0; cut -= cut < 997 ? cut : 997) {
        assert_int_equal(tw_write_file_atomic(path, data, cut, NULL), 0);
        synth_run(b)->outcome = cut == bytes ? TWIN_RUN_EXITED : TWIN_RUN_INTERRUPTED;
        struct twin_verdict *v = compare(a, b, NULL);
        if (v->outcome != (cut == bytes ? TWIN_SAME : TWIN_INCONCLUSIVE))
            explain(v);
        assert_int_equal(v->outcome, cut == bytes ? TWIN_SAME : TWIN_INCONCLUSIVE);
        twin_verdict_free(v);
    }
    tw_free(data);
    synth_free(a);
    synth_free(b);
}

/* Bytes flipped anywhere: a verdict or a message, never a crash; and never "differ" by damage alone. */
static void damaged_traces(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 6);
    y = x;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    const char *path = synth_done(b)->traces[0];
    char *data;
    size_t bytes;
    assert_int_equal(tw_read_file(path, 1u << 24, &data, &bytes, NULL), 0);
    uint64_t seed = 1;
    for (int round = 0; round < 300; round++) {
        seed = tw_mix64(seed + 1);
        size_t at = seed % bytes;
        data[at] ^= (char)(1 << (seed >> 40 & 7));
        assert_int_equal(tw_write_file_atomic(path, data, bytes, NULL), 0);
        struct twin_verdict *v = compare(a, b, NULL);
        if (v->outcome == TWIN_DIFFER && (!v->first || v->first->type == TWIN_FINDING_VALUE)) {
            explain(v);
            fail_msg("a flipped bit at %zu was taken for a difference of values", at);
        }
        twin_verdict_free(v);
        data[at] ^= (char)(1 << (seed >> 40 & 7));
    }
    tw_free(data);
    synth_free(a);
    synth_free(b);
}

/* ---- coverage */

static void nothing_seen_is_inconclusive(void **state)
{
    (void)state;
    struct synth *a = synth_new("a"), *b = synth_new("b");
    synth_print(a, "stdout", "loss 0.5\n");
    synth_print(b, "stdout", "loss 0.5\n");
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "no process of the job left a record"));
    twin_verdict_free(v);
    synth_print(b, "stdout", "loss 0.6\n");
    v = compare(a, b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->type, TWIN_FINDING_OUTPUT);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void only_weights_is_inconclusive(void **state)
{
    (void)state;
    struct synth *s[2];
    float x[4] = {1, 2, 3, 4};
    for (int i = 0; i < 2; i++) {
        s[i] = synth_new("w");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        for (int step = 0; step < 3; step++) {
            synth_put(w, (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER, .kind = TWIN_KIND_WEIGHT, .name = "w"}, x, 4);
            twin_writer_step_end(w);
        }
    }
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "batches or inputs"));
    twin_verdict_free(v);
    for (int i = 0; i < 2; i++)
        synth_free(s[i]);
}

/* A program that never steps: its records are compared as one; and what it records itself is enough. */
static void no_steps(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            s[i] = synth_new("nostep");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            for (int k = 0; k < 10; k++) {
                float x[2] = {(float)k, differ && i == 1 && k == 7 ? 1.5f : 1};
                synth_put(w, (struct synth_record){.phase = TWIN_PHASE_OUTPUT, .kind = TWIN_KIND_VALUE, .name = "result"}, x, 2);
            }
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        if (differ) {
            expect_first(v, 0, TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "result");
            assert_int_equal(v->first->occurrence, 7);
            assert_string_equal(v->first->layer, "forward");
        } else {
            expect_outcome(v, TWIN_SAME);
        }
        twin_verdict_free(v);
        for (int i = 0; i < 2; i++)
            synth_free(s[i]);
    }
}

static void unarmed_trainer_is_unseen(void **state)
{
    (void)state;
    struct synth_model m[2];
    struct synth *s[2];
    struct twin_run_process trainer = {.pid = 7, .argv = (char *)"/usr/bin/python3 -c x", .why = (char *)"static binary"};
    struct twin_run_process helper = {.pid = 8, .argv = (char *)"/usr/bin/wandb-core --port 1"};
    for (int i = 0; i < 2; i++) {
        synth_model_init(&m[i], 3);
        s[i] = synth_train_run("unarmed", &m[i]);
    }
    synth_run(s[0])->processes = &helper;
    synth_run(s[0])->process_count = 1;
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->unarmed_count, 1);
    twin_verdict_free(v);
    synth_run(s[0])->processes = &trainer;
    v = compare(s[0], s[1], NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "agent not armed"));
    twin_verdict_free(v);
    for (int i = 0; i < 2; i++)
        synth_free(s[i]);
}

/* ---- ranks */

static struct synth *two_ranks(struct synth_model *m)
{
    struct synth *s = synth_new("ddp");
    for (int32_t r = 0; r < 2; r++) {
        m[r].rank = r;
        m[r].world = 2;
        synth_train(&m[r], synth_process(s, r, 2, NULL));
    }
    return s;
}

static struct twin_verdict *ranks(enum synth_place place, int only_rank)
{
    struct synth_model x[2], y[2];
    for (int r = 0; r < 2; r++) {
        synth_model_init(&x[r], 8);
        synth_model_init(&y[r], 8);
        if (r == only_rank || only_rank < 0) {
            y[r].disturb[0].place = place;
            y[r].disturb[0].step = 5;
            y[r].disturb[0].by = 1e-3f;
            y[r].disturbances = 1;
        }
        if (only_rank >= 0 && r != only_rank) { /* what the reduction brings over */
            y[r].disturb[0].place = AT_GRADIENT;
            y[r].disturb[0].step = 5;
            y[r].disturb[0].by = 5e-4f;
            y[r].disturbances = 1;
        }
    }
    struct synth *a = two_ranks(x), *b = two_ranks(y);
    struct twin_verdict *v = compare(a, b, NULL);
    synth_free(a);
    synth_free(b);
    return v;
}

static void rank_whose_gradient_parts(void **state)
{
    (void)state;
    struct twin_verdict *v = ranks(AT_LOCAL, 1);
    expect_first(v, 5, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT_LOCAL, "embed.weight");
    assert_int_equal(v->first->rank, 1);
    assert_string_equal(v->first->layer, "backward");
    twin_verdict_free(v);
    v = ranks(AT_GRADIENT, -1); /* locals equal everywhere, reduced ones not */
    expect_first(v, 5, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "embed.weight");
    assert_string_equal(v->first->layer, "collective");
    assert_true(has_note(v, "were equal on every rank"));
    assert_int_equal(v->origin_count, 2); /* both ranks */
    twin_verdict_free(v);
}

/* Threads that share the step counter: their records fall into other steps in every run, and are the same. */
static void threads_cut_steps_as_they_like(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            s[i] = synth_new("threads");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            for (int k = 0, done[2] = {0, 0}; k < 20; k++) {
                int thread = i == 0 ? k % 2 : k < 10; /* turn by turn, or one after the other */
                float x[2] = {(float)done[thread]++, differ && i && k == 13 ? 2 : 1};
                synth_put(w, (struct synth_record){.phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "batch", .role = thread ? "thread" : NULL}, x, 2);
                synth_put(w, (struct synth_record){.phase = TWIN_PHASE_BACKWARD, .kind = TWIN_KIND_GRADIENT, .name = "w", .role = thread ? "thread" : NULL}, x, 2);
                if (i == 0 || k != 7)
                    twin_writer_step_end(w);
            }
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        expect_outcome(v, differ ? TWIN_DIFFER : TWIN_SAME);
        if (!differ)
            assert_int_equal(v->benign_count, 1);
        twin_verdict_free(v);
        for (int i = 0; i < 2; i++)
            synth_free(s[i]);
    }
}

/* A worker's own steps ask for no weights, and what parts in it comes before the batch it parts in. */
static void loader_workers(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            struct synth_model m;
            synth_model_init(&m, 6);
            if (differ && i) {
                m.disturb[0].place = AT_BATCH;
                m.disturb[0].step = 4;
                m.disturb[0].by = 1;
                m.disturbances = 1;
            }
            s[i] = synth_new("workers");
            synth_train(&m, synth_process(s[i], 0, 1, NULL));
            struct twin_writer *w = synth_process(s[i], 0, 1, "loader worker 0");
            for (int k = 0; k < 9; k++) {
                float state_of[2] = {(float)k, differ && i && k == 2 ? 1 : 0};
                synth_put(w, (struct synth_record){.phase = TWIN_PHASE_RNG, .kind = TWIN_KIND_STATE, .name = "numpy", .op = "augment"}, state_of, 2);
                twin_writer_step_end(w);
            }
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        if (differ) {
            expect_first(v, 4, TWIN_PHASE_RNG, TWIN_KIND_STATE, "numpy");
            assert_string_equal(v->first->process, "loader worker 0");
        } else {
            expect_outcome(v, TWIN_SAME);
            assert_int_equal(v->steps_a, 6);
        }
        twin_verdict_free(v);
        for (int i = 0; i < 2; i++)
            synth_free(s[i]);
    }
}

static void missing_rank(void **state)
{
    (void)state;
    struct synth_model x[2], y[2];
    for (int r = 0; r < 2; r++) {
        synth_model_init(&x[r], 4);
        synth_model_init(&y[r], 4);
    }
    struct synth *a = two_ranks(x), *b = synth_new("b");
    y[0].world = 2;
    synth_train(&y[0], synth_process(b, 0, 2, NULL));
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->type, TWIN_FINDING_RANKS);
    assert_int_equal(v->first->rank, 1);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* ---- N runs, tolerance, output, allocation failure, live */

/* Runs 1, 4 and 5 are usual; 2 and 3 leave together at step 3, and each other at step 6; 6 leaves at step 5. */
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
    expect_first(v, 4, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch");
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
    static const struct { const char *text; enum twin_verdict_outcome outcome; } row[] = {
        {"# all of it\n[[tolerance]]\npattern = \"*\"\nrel_l2 = 1e-1  # generous\nreason = 'known race'\n", TWIN_WITHIN_TOLERANCE},
        {"[[tolerance]]\npattern = \"*\"\nrel_l2 = 1e-9\n", TWIN_DIFFER},
        {"[[tolerance]]\npattern = \"optimizer/*\"\nrel_l2 = 1e-1\n", TWIN_DIFFER}, /* the gradient is not covered */
        {"{\"tolerance\": [{\"pattern\": \"*\", \"rel_l2\": 0.1}]}", TWIN_WITHIN_TOLERANCE},
        {"{\"tolerance\": [{\"pattern\": \"*\", \"abs\": 0.1}]}", TWIN_WITHIN_TOLERANCE},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_int_equal(tw_write_file_atomic(path, row[i].text, strlen(row[i].text), NULL), 0);
        struct twin_verdict *v = compare(a, b, &(struct twin_compare_options){.tolerance_file = path});
        expect_outcome(v, row[i].outcome);
        assert_int_equal(v->bitwise, TWIN_DIFFER);
        assert_true(has_note(v, row[i].outcome == TWIN_DIFFER ? "outside the tolerance" : "within tolerance"));
        twin_verdict_free(v);
    }
    static const char *const bad[] = {"", "[[tolerance]]\n", "pattern = \"x\"\n", "[[tolerance]]\npattern = \"x\nrel_l2 = 1\n", "{", "{\"tolerance\": 3}",
                                      "[[tolerance]]\npattern = \"*\"\nrel_l2 = -1\n", "[[tolerance]]\npattern = \"*\"\nfuzz = 1\n",
                                      "[[tolerance]]\npattern = 3\n", "{\"tolerance\": [{\"pattern\": \"x\", \"rel_l2\": true}]}"};
    const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_verdict *v;
        assert_int_equal(tw_write_file_atomic(path, bad[i], strlen(bad[i]), NULL), 0);
        assert_int_equal(twin_compare(runs, 2, &(struct twin_compare_options){.tolerance_file = path}, &v, &err), TWIN_EFORMAT);
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
    static const struct { const char *a, *b; enum twin_verdict_outcome outcome; size_t benign; } row[] = {
        {"step 1 loss 0.5 time 1.25s\n", "step 1 loss 0.5 time 2.5s\n", TWIN_SAME, 1},
        {"step 1 loss 0.5\nstep 2 loss 0.25\n", "step 1 loss 0.5\nstep 2 loss 0.26\n", TWIN_DIFFER, 0},
        {"rank 0 ok\nrank 1 ok\n", "rank 1 ok\nrank 0 ok\n", TWIN_SAME, 0},
        {"10%|# | 1/10 [00:01<00:09]\r100%|##| 10/10 [00:10<00:00]\nacc 0.9\n", "100%|##| 10/10 [00:12<00:00]\nacc 0.9\n", TWIN_SAME, 1},
        {"done\n", "Warning: slow disk\ndone\n", TWIN_SAME, 1},
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
            synth_put(w, (struct synth_record){.phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "batch"}, (float[]){1, 2}, 2);
            synth_put(w, (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER, .kind = TWIN_KIND_WEIGHT, .name = "w"}, x, 2);
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
        uint64_t in = synth_put(w, (struct synth_record){.phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "batch"}, x, 2);
        uint64_t one = synth_put_linked(w, (struct synth_record){.phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_ACTIVATION, .name = "a"}, odd, 2, &in, 1);
        synth_put_linked(w, (struct synth_record){.phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_ACTIVATION, .name = "b"}, odd, 2, &one, 1);
        synth_put_linked(w, (struct synth_record){.phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_ACTIVATION, .name = "c"}, also, 2, &in, 1);
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
    assert_int_equal(twin_compare_live(synth_done(a), synth_run(b)->dir, NULL, &parted, &step, NULL), 0);
    assert_false(parted);
    y.steps = 6;
    synth_train(&y, w);
    twin_writer_flush(w);
    assert_int_equal(twin_compare_live(synth_done(a), synth_run(b)->dir, NULL, &parted, &step, NULL), 0);
    assert_false(parted);
    synth_free(b);
    synth_model_init(&y, 8);
    y.disturb[0].place = AT_BATCH;
    y.disturb[0].step = 6;
    y.disturb[0].by = 1;
    y.disturbances = 1;
    b = synth_train_run("b", &y);
    assert_int_equal(twin_compare_live(synth_done(a), synth_run(b)->dir, NULL, &parted, &step, NULL), 0);
    assert_true(parted);
    assert_int_equal(step, 6);
    struct twin_compare_options all_of_it = {.ignore = (const char *const[]){"*"}, .ignore_count = 1};
    assert_int_equal(twin_compare_live(synth_done(a), synth_run(b)->dir, &all_of_it, &parted, &step, NULL), 0);
    assert_false(parted);
    synth_free(a);
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
                    fprintf(stderr, "allocation %llu failed unnoticed\n", (unsigned long long)n), explain(v);
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
        cmocka_unit_test(equal_runs_are_the_same),
        cmocka_unit_test(each_place_is_named),
        cmocka_unit_test(input_ids_differ_weights_equal),
        cmocka_unit_test(one_parameter_differs_at_init),
        cmocka_unit_test(gradient_differs_everything_before_equal),
        cmocka_unit_test(frontier_of_gradients),
        cmocka_unit_test(evaluation_at_other_steps),
        cmocka_unit_test(evaluation_that_touches_nothing),
        cmocka_unit_test(checkpoint_container_is_benign),
        cmocka_unit_test(resumed_arm),
        cmocka_unit_test(resumed_arm_that_skips_batches),
        cmocka_unit_test(generator_without_use_does_not_count),
        cmocka_unit_test(other_order_alone_is_benign),
        cmocka_unit_test(swapped_batches),
        cmocka_unit_test(left_out_record),
        cmocka_unit_test(failure_in_one_run),
        cmocka_unit_test(value_before_a_failure_is_named_first),
        cmocka_unit_test(other_number_of_steps),
        cmocka_unit_test(crashed_trace_is_unknown_after_its_end),
        cmocka_unit_test(damaged_traces),
        cmocka_unit_test(nothing_seen_is_inconclusive),
        cmocka_unit_test(only_weights_is_inconclusive),
        cmocka_unit_test(no_steps),
        cmocka_unit_test(unarmed_trainer_is_unseen),
        cmocka_unit_test(rank_whose_gradient_parts),
        cmocka_unit_test(threads_cut_steps_as_they_like),
        cmocka_unit_test(loader_workers),
        cmocka_unit_test(missing_rank),
        cmocka_unit_test(classes_of_five),
        cmocka_unit_test(tolerance),
        cmocka_unit_test(printed_lines),
        cmocka_unit_test(drift_is_fitted),
        cmocka_unit_test(links_tell_origin_from_carrier),
        cmocka_unit_test(tree_of_six),
        cmocka_unit_test(live),
        cmocka_unit_test(every_allocation_failure),
        cmocka_unit_test(one_run_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
