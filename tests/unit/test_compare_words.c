/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentences of a comparison, each provoked by what makes it true, and compared as a whole: the
 * numbers and names in them count. tests/truth/sentences.py finds them here. Those of baselines,
 * zooms, transplants and damage stand in the tests of these.
 */
#include <math.h>

#include "base.h"
#include "compare_test.h"

static const struct twin_compare_options arms = {.arms = true, .find_shift = true};

static void put(struct twin_writer *w, enum twin_phase phase, enum twin_kind kind, const char *name,
                float x)
{
    synth_put(w, (struct synth_record){.phase = phase, .kind = kind, .name = name}, &x, 1);
}

/* Steps [from, to) of a job of which m says the rest, in a process of its own. */
static void train(struct synth *s, struct synth_model *m, uint32_t from, uint32_t to)
{
    m->start = from;
    m->steps = to;
    synth_train(m, synth_process(s, m->rank, m->world, NULL));
}

static struct synth *whole_job(uint32_t steps)
{
    struct synth_model m;
    synth_model_init(&m, steps);
    m.shuffle = true;
    return synth_train_run("whole", &m);
}

static struct twin_verdict *judge(struct synth *a, struct synth *b,
                                  const struct twin_compare_options *o)
{
    struct twin_verdict *v = compare(a, b, o);
    synth_free(a);
    synth_free(b);
    return v;
}

/* ---- arms: where the second one begins */

static void weights_that_the_first_arm_never_had(void **state)
{
    (void)state;
    struct synth_model m;
    synth_model_init(&m, 6);
    m.weight[1][2] += 1;
    struct twin_verdict *v = judge(whole_job(6), synth_train_run("b", &m), &arms);
    expect_note(v, "the weights run 2 starts with are not those after any step of run 1; compared "
                   "from step 0; --b-starts-at K says otherwise");
    assert_int_equal(v->shift, 0);
    twin_verdict_free(v);
}

/* `train 5 && train --resume`, and what was resumed is not what was left. */
static void a_second_process_that_lost_its_weights(void **state)
{
    (void)state;
    struct synth_model m;
    struct synth *b = synth_new("b");
    synth_model_init(&m, 5);
    m.shuffle = true;
    train(b, &m, 0, 5);
    m.weight[0][0] += 1;
    train(b, &m, 5, 8);
    struct twin_verdict *v = judge(whole_job(8), b, &arms);
    expect_note(v, "the weights that process 2 of rank 0 in run 2 starts with are not those after "
                   "any step of run 1: held against step 5, where the process before it ended");
    expect_outcome(v, TWIN_DIFFER);
    twin_verdict_free(v);
}

static void a_second_process_that_begins_anew(void **state)
{
    (void)state;
    struct synth_model m;
    struct synth *b = synth_new("b");
    for (int i = 0; i < 2; i++) {
        synth_model_init(&m, 5);
        m.shuffle = true;
        train(b, &m, 0, 5);
    }
    struct twin_verdict *v = judge(whole_job(5), b, &arms);
    expect_note(
        v, "process 2 of rank 0 in run 2 begins anew, with the weights that run 1 begins with");
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
}

/* Optimizer state that was not restored: the seam shows it. */
static void what_the_seam_lost(void **state)
{
    (void)state;
    struct synth_model m;
    struct synth *b = synth_new("b");
    synth_model_init(&m, 4);
    m.shuffle = true;
    synth_free(synth_train_run("until", &m));
    m.generator++;
    train(b, &m, 4, 8);
    struct twin_verdict *v = judge(whole_job(8), b, &arms);
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->text, "at the seam: run 1 after step 3, run 2 at its start");
    assert_int_equal(v->first->kind, TWIN_KIND_STATE);
    assert_string_equal(v->equal_before, "weights (4) at the seam, after step 3");
    assert_int_equal(v->equal_before_records, 4);
    twin_verdict_free(v);
}

static void arms_of_other_world_size(void **state)
{
    (void)state;
    struct synth *s[2] = {synth_new("a"), synth_new("b")};
    for (int i = 0; i < 2; i++)
        for (int rank = 0; rank <= i; rank++) {
            struct twin_writer *w = synth_process(s[i], rank, i + 1, NULL);
            put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", (float)rank);
            put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", 3);
            twin_writer_step_end(w);
        }
    struct twin_verdict *v = judge(s[0], s[1], &arms);
    expect_note(v, "run 1 has 1 rank, run 2 2: only rank 0's weights can be compared");
    twin_verdict_free(v);
}

/* A difference that says of which kind its pair is: no operation is to be looked for between runs
 * whose ranks call them on other tensors. */
static void weights_alone_were_compared(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        struct synth *s[2] = {synth_new("a"), synth_new("b")};
        for (int i = 0; i < 2; i++)
            for (int rank = 0; rank < (i == 0 ? 1 : ranks); rank++) {
                struct twin_writer *w = synth_process(s[i], rank, i == 0 ? 1 : ranks, NULL);
                put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", (float)i);
                twin_writer_step_end(w);
            }
        struct twin_verdict *v = judge(s[0], s[1], &arms);
        expect_outcome(v, TWIN_DIFFER);
        assert_int_equal(v->first->weights_alone, ranks == 2);
        twin_verdict_free(v);
    }
}

/* An evaluation in between, which one arm alone does. */
static void what_one_arm_did_in_between(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 6);
    y = x;
    y.eval_every = 2;
    y.eval_apart = true;
    y.eval_generator = 7;
    x.eval_generator = 7;
    struct twin_verdict *v = judge(synth_train_run("a", &x), synth_train_run("b", &y), &arms);
    expect_outcome(v, TWIN_SAME);
    expect_benign(v, "from step 2 on one arm did more in between (rng/state generator#1 and 4 "
                     "more): nothing that both did differs");
    twin_verdict_free(v);
}

/* ---- records */

static struct synth *small(float loss, float order, bool batch)
{
    struct synth *s = synth_new("small");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    for (int step = 0; step < 5; step++) {
        bool last = step == 3;
        if (batch)
            put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", (float)step);
        put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, order != 0 && last ? "g" : "h", 1);
        put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, order != 0 && last ? "h" : "g", 1);
        put(w, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", last ? loss : 1);
        twin_writer_step_end(w);
    }
    return s;
}

static void order_beside_a_value(void **state)
{
    (void)state;
    struct twin_verdict *v = judge(small(1, 0, true), small(2, 1, true), NULL);
    expect_place(v, 3, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss");
    expect_note(v, "records came in another order from step 3 on (rank 0, h)");
    twin_verdict_free(v);
}

static void no_input_was_seen(void **state)
{
    (void)state;
    struct twin_verdict *v = judge(small(1, 0, false), small(2, 0, false), NULL);
    expect_place(v, 3, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss");
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    assert_string_equal(v->first->between[0], "the beginning of step 3 (no input was seen)");
    assert_string_equal(v->first->between[1], "loss loss of step 3");
    twin_verdict_free(v);
}

/* Nothing of step 3 itself is equal before its first difference. */
static void all_that_was_before(void **state)
{
    (void)state;
    struct synth *s[2] = {synth_new("a"), synth_new("b")};
    for (int i = 0; i < 2; i++) {
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        for (int step = 0; step < 5; step++) {
            put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", (float)(step + (i && step == 3)));
            put(w, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", 1);
            twin_writer_step_end(w);
        }
    }
    struct twin_verdict *v = judge(s[0], s[1], NULL);
    expect_behind(v, 3, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", "the beginning");
    assert_string_equal(v->equal_before, "all that was recorded of steps 0 to 2");
    twin_verdict_free(v);
}

/* The operation names an input that the trace does not hold. */
static void an_input_that_was_not_kept(void **state)
{
    (void)state;
    const struct synth_record loss = {
        .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_LOSS, .name = "loss"};
    const uint64_t link = (uint64_t)1 << 32 | 17;
    struct synth *s[2] = {synth_new("a"), synth_new("b")};
    for (int i = 0; i < 2; i++) {
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        for (int step = 0; step < 3; step++) {
            float x = (float)(step + (i && step == 2));
            put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", 1);
            synth_put_linked(w, loss, &x, 1, &link, step == 2);
            twin_writer_step_end(w);
        }
    }
    struct twin_verdict *v = judge(s[0], s[1], NULL);
    expect_place(v, 2, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss");
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    assert_string_equal(v->first->between[0], "record 17 of step 1, which was not kept");
    twin_verdict_free(v);
}

static void a_draw_that_one_run_alone_made(void **state)
{
    (void)state;
    const struct synth_record draw = {
        .phase = TWIN_PHASE_RNG, .kind = TWIN_KIND_STATE, .name = "torch.cpu", .op = "Dropout"};
    struct synth *s[2] = {synth_new("a"), synth_new("b")};
    for (int i = 0; i < 2; i++) {
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        for (int step = 0; step < 3; step++) {
            const float x = (float)step;
            put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", x);
            if (i && step == 1)
                synth_put(w, draw, &x, 1);
            put(w, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", 1);
            twin_writer_step_end(w);
        }
    }
    struct twin_verdict *v = judge(s[0], s[1], NULL);
    expect_place(v, 1, TWIN_PHASE_RNG, TWIN_KIND_STATE, "torch.cpu");
    assert_int_equal(v->first->type, TWIN_FINDING_ONLY_B);
    assert_string_equal(v->first->text, "only in run 2, where Dropout drew from it");
    twin_verdict_free(v);
}

static void a_nan_in_every_run(void **state)
{
    (void)state;
    struct twin_verdict *v = judge(small(NAN, 0, true), small(NAN, 0, true), NULL);
    assert_string_equal(v->nonfinite,
                        "first NaN in run 1, rank 0, step 3: loss loss (every run has one)");
    twin_verdict_free(v);
    v = judge(small(1, 0, true), small(INFINITY, 0, true), NULL);
    assert_string_equal(v->nonfinite,
                        "first Inf in run 2, rank 0, step 3: loss loss (no other run has one)");
    twin_verdict_free(v);
}

/* Two NaN that are not the same bits: how far they are apart is no number. */
static void two_nan(void **state)
{
    (void)state;
    struct twin_verdict *v = judge(small(nanf("1"), 0, true), small(nanf("2"), 0, true), NULL);
    expect_place(v, 3, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss");
    assert_true(isnan(v->first->max_ulp) && isnan(v->first->rel_l2));
    assert_true(v->first->changed_known && v->first->changed == 1);
    twin_verdict_free(v);
}

/* Of many runs only the first and the one that is shown are looked through. */
static void a_nan_in_the_third_run(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        struct synth *s[3] = {small(both ? NAN : 1, 0, true), small(both ? NAN : 1, 0, true),
                              small(NAN, 1, true)};
        const struct twin_run *runs[3] = {synth_done(s[0]), synth_done(s[1]), synth_done(s[2])};
        struct twin_verdict *v = NULL;
        if (both) /* else nothing differs */
            synth_run(s[2])->exit_code = 1;
        assert_int_equal(twin_compare(runs, 3, NULL, &v, NULL), 0);
        expect_outcome(v, TWIN_DIFFER);
        assert_string_equal(
            v->nonfinite, both
                              ? "first NaN in run 1, rank 0, step 3: loss loss (run 3 has one, too)"
                              : "first NaN in run 3, rank 0, step 3: loss loss (run 1 has none)");
        twin_verdict_free(v);
        for (int i = 0; i < 3; i++)
            synth_free(s[i]);
    }
}

static void values_of_the_job_itself(void **state)
{
    (void)state;
    struct synth *s[2] = {synth_new("a"), synth_new("b")};
    for (int i = 0; i < 2; i++) {
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        for (int step = 0; step < 3; step++) {
            put(w, TWIN_PHASE_FORWARD, TWIN_KIND_VALUE, "energy", (float)step);
            twin_writer_step_end(w);
        }
    }
    struct twin_verdict *v = judge(s[0], s[1], NULL);
    expect_outcome(v, TWIN_SAME);
    expect_note(v, "values that the job records itself were compared, too");
    twin_verdict_free(v);
}

/* A process that was killed after its last step: the end of its trace is not there. */
static void a_process_without_an_end(void **state)
{
    (void)state;
    struct synth *s[2] = {synth_new("a"), synth_new("b")};
    for (int i = 0; i < 2; i++) {
        char *kept;
        size_t bytes;
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", 1);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", 1);
        twin_writer_step_end(w);
        put(w, TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "result", 1);
        twin_writer_flush(w);
        const char *path = synth_run(s[i])->traces[0];
        assert_int_equal(tw_read_file(path, 1u << 24, &kept, &bytes, NULL), 0);
        synth_done(s[i]);
        assert_int_equal(tw_write_file_atomic(path, kept, bytes, NULL), 0);
        tw_free(kept);
    }
    struct twin_verdict *v = judge(s[0], s[1], NULL);
    expect_reason(v, "rank 0 (main): what came after its last finished step");
    expect_outcome(v, TWIN_INCONCLUSIVE);
    twin_verdict_free(v);
}

/* One run failed, the other was stopped when its steps were enough: who knows how it would have
 * ended? */
static void a_failure_beside_a_run_that_was_stopped(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        struct synth *s[2] = {small(1, 0, true), small(1, 0, true)};
        synth_run(s[which])->exit_code = 3;
        synth_run(s[1 - which])->outcome = TWIN_RUN_STOPPED;
        struct twin_verdict *v = judge(s[0], s[1], NULL);
        expect_outcome(v, TWIN_INCONCLUSIVE);
        expect_reason(v, which ? "run 2 failed (exit code 3), and another run was stopped before "
                                 "its end: whether they end alike is not known"
                               : "run 1 failed (exit code 3), and another run was stopped before "
                                 "its end: whether they end alike is not known");
        twin_verdict_free(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_that_the_first_arm_never_had),
        cmocka_unit_test(a_second_process_that_lost_its_weights),
        cmocka_unit_test(a_second_process_that_begins_anew),
        cmocka_unit_test(what_the_seam_lost),
        cmocka_unit_test(arms_of_other_world_size),
        cmocka_unit_test(weights_alone_were_compared),
        cmocka_unit_test(what_one_arm_did_in_between),
        cmocka_unit_test(order_beside_a_value),
        cmocka_unit_test(no_input_was_seen),
        cmocka_unit_test(all_that_was_before),
        cmocka_unit_test(an_input_that_was_not_kept),
        cmocka_unit_test(a_draw_that_one_run_alone_made),
        cmocka_unit_test(a_nan_in_every_run),
        cmocka_unit_test(two_nan),
        cmocka_unit_test(a_nan_in_the_third_run),
        cmocka_unit_test(values_of_the_job_itself),
        cmocka_unit_test(a_process_without_an_end),
        cmocka_unit_test(a_failure_beside_a_run_that_was_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
