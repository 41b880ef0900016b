/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "same" is said only where everything that was asked for was compared. Each test takes a
 * comparison that is the same, leaves something out of one side (a step, a rank, a thread, a
 * process, an overlap), and expects that the verdict says so; beside it stands the harmless twin,
 * which must stay the same.
 */
#include "src/compare/baseline.h"

#include "base.h"
#include "compare_test.h"

#include "../../src/compare/internal.h"
#include "../../src/compare/scan.h"

static const struct twin_compare_options arms = {.arms = true, .find_shift = true};

/* ---- parts of a job */

/* Steps [from, to) of a job, in a process of its own; m goes on where it was. */
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

static void put_value(struct twin_writer *w, enum twin_phase phase, enum twin_kind kind,
                      const char *name, float x)
{
    synth_put(w, (struct synth_record){.phase = phase, .kind = kind, .name = name}, &x, 1);
}

/* A small job without a model: a batch and a weight at each step. */
static void small_steps(struct twin_writer *w, uint32_t steps)
{
    for (uint32_t step = 0; step < steps; step++) {
        put_value(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", (float)step);
        put_value(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", (float)step + .5f);
        twin_writer_step_end(w);
    }
}

/* Compares, frees both runs, and returns the verdict. */
static struct twin_verdict *judge(struct synth *a, struct synth *b,
                                  const struct twin_compare_options *o)
{
    struct twin_verdict *v = compare(a, b, o);
    synth_free(a);
    synth_free(b);
    return v;
}

static void expect_unseen(struct twin_verdict *v, const char *part)
{
    expect_outcome(v, TWIN_INCONCLUSIVE);
    if (!has_unseen(v, part))
        explain(v);
    assert_true(has_unseen(v, part));
    twin_verdict_free(v);
}

static void expect_same(struct twin_verdict *v, uint64_t steps)
{
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->steps_compared, steps);
    twin_verdict_free(v);
}

/* ---- arms: how far they overlap */

/* B goes on from step `from` of a job of ten, and trains up to `to`. */
static struct twin_verdict *resumed(uint32_t from, uint32_t to,
                                    const struct twin_compare_options *o)
{
    struct synth_model m;
    synth_model_init(&m, from);
    m.shuffle = true;
    synth_free(synth_train_run("until", &m));
    struct synth *b = synth_new("resumed");
    train(b, &m, from, to);
    return judge(whole_job(10), b, o);
}

static void overlap_of_a_resumed_arm(void **state)
{
    (void)state;
    struct twin_verdict *v = resumed(6, 10, &arms);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->range_count, 1);
    assert_int_equal(v->ranges[0].first, 6);
    assert_int_equal(v->ranges[0].end, 10);
    assert_int_equal(v->ranges[0].of, 10);
    assert_int_equal(v->ranges[0].first_b, 0);
    assert_false(v->ranges[0].whole);
    assert_true(v->ranges[0].records > 0 && v->ranges[0].records < v->ranges[0].of_records);
    twin_verdict_free(v);
    expect_same(resumed(6, 8, &arms), 2);  /* it stopped before A's end: that is the shorter arm */
    expect_same(resumed(6, 14, &arms), 4); /* it went on behind it */
    expect_unseen(resumed(10, 12, &arms), "run 2 goes on at step 10, and run 1 ends after 10");
}

static void given_place(void **state)
{
    (void)state;
    struct twin_compare_options o = {.arms = true, .shift = -6};
    expect_same(resumed(6, 10, &o), 4);
    o.shift = -50;
    expect_unseen(resumed(6, 10, &o), "no step was compared: run 2 goes on at step 50");
    o = (struct twin_compare_options){
        .arms = true, .find_shift = true, .steps_given = true, .steps = 5};
    expect_unseen(resumed(6, 10, &o), "the first 5 were asked for");
    o.steps = 8;
    expect_same(resumed(6, 10, &o), 2);
}

/* Arms that begin alike: that one stops early is for nobody but the user to call enough. */
static void other_length(void **state)
{
    (void)state;
    const struct twin_compare_options three = {
        .arms = true, .find_shift = true, .steps_given = true, .steps = 3};
    expect_unseen(judge(whole_job(10), whole_job(3), &arms),
                  "run 1 has 10 steps and run 2 3: from step 3 on nothing was compared");
    expect_unseen(judge(whole_job(3), whole_job(10), &arms), "run 1 has 3 steps and run 2 10");
    expect_same(judge(whole_job(10), whole_job(10), &arms), 10);
    expect_same(judge(whole_job(10), whole_job(3), &three), 3);
    struct synth *cut = whole_job(3);
    synth_run(cut)->outcome = TWIN_RUN_STOPPED;
    synth_run(cut)->max_steps = 3;
    expect_same(judge(whole_job(10), cut, &arms), 3);
    cut = whole_job(3);
    synth_run(cut)->outcome = TWIN_RUN_STOPPED; /* for another reason than the user's --steps */
    expect_unseen(judge(whole_job(10), cut, &arms), "from step 3 on nothing was compared");
}

/* Both ran with --steps 8, and one of them failed before: that is not the overlap that was asked
 * for. */
static void failed_before_the_cut(void **state)
{
    (void)state;
    struct synth *a = whole_job(8), *b = whole_job(3);
    synth_run(a)->outcome = TWIN_RUN_STOPPED;
    synth_run(a)->max_steps = synth_run(b)->max_steps = 8;
    synth_run(b)->exit_code = 1;
    struct twin_verdict *v = judge(a, b,
                                   &(struct twin_compare_options){.steps_given = true, .steps = 8});
    assert_int_not_equal(v->outcome, TWIN_SAME);
    twin_verdict_free(v);
}

/*
 * A hand-written loop whose optimizer never steps: it recorded, and no step of it can be compared.
 */
static void arm_without_steps(void **state)
{
    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        struct synth *a = synth_new("a"), *b = synth_new("b");
        small_steps(synth_process(a, 0, 1, NULL), 4);
        struct twin_writer *w = synth_process(b, 0, 1, NULL);
        put_value(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", 0);
        put_value(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", 77);
        expect_unseen(swapped ? judge(b, a, &arms) : judge(a, b, &arms), "no step was compared");
    }
}

/* ---- arms with nothing in common */

static struct synth *values(const char *name, uint32_t steps, float x)
{
    struct synth *s = synth_new("values");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        put_value(w, TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, name, x + (float)i);
        if (steps)
            twin_writer_step_end(w);
    }
    return s;
}

static void values_of_other_names(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 2; steps++) {
        expect_same(judge(values("y", steps, 1), values("y", steps, 1), &arms), steps ? 3 : 0);
        struct twin_verdict *v = judge(values("y", steps, 1), values("z", steps, 1), &arms);
        assert_int_not_equal(v->outcome, TWIN_SAME);
        twin_verdict_free(v);
        v = judge(values("y", steps, 1), values("y", steps, 2), &arms);
        expect_outcome(v, TWIN_DIFFER);
        twin_verdict_free(v);
    }
}

/* Of B no batch was ever recorded: its weights agree, and of what it was trained with nothing is
 * known. */
static void inputs_of_one_arm_alone(void **state)
{
    (void)state;
    struct synth *a = synth_new("a"), *b = synth_new("b");
    small_steps(synth_process(a, 0, 1, NULL), 3);
    struct twin_writer *w = synth_process(b, 0, 1, NULL);
    for (uint32_t step = 0; step < 3; step++) {
        put_value(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", (float)step + .5f);
        twin_writer_step_end(w);
    }
    expect_unseen(judge(a, b, &arms), "batches or inputs: at no step");
}

/* ---- ranks, processes, threads */

static struct synth *ranks(int32_t recorded, int32_t world)
{
    struct synth *s = synth_new("ranks");
    for (int32_t r = 0; r < recorded; r++)
        small_steps(synth_process(s, r, world, NULL), 4);
    return s;
}

static void lost_rank(void **state)
{
    (void)state;
    expect_same(judge(ranks(2, 2), ranks(2, 2), &arms), 4);
    expect_unseen(judge(ranks(2, 2), ranks(1, 2), &arms), "rank 1 recorded only in run 1");
    expect_unseen(judge(ranks(1, 2), ranks(2, 2), &arms), "rank 1 recorded only in run 2");
    struct twin_verdict *v = judge(ranks(2, 2), ranks(1, 2), NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->type, TWIN_FINDING_RANKS);
    twin_verdict_free(v);
    expect_unseen(judge(ranks(1, 2), ranks(1, 2), NULL),
                  "rank 1 of 2 recorded nothing in either run");
}

/*
 * A trainer and a child of it that steps, too: `steps` of them; closed: it ended in an orderly way.
 */
static struct synth *with_child(uint32_t steps, const char *role)
{
    struct synth *s = whole_job(4);
    small_steps(synth_process(s, 0, 1, role), steps);
    return s;
}

static void child_that_stops_earlier(void **state)
{
    (void)state;
    expect_same(judge(with_child(5, "child 1"), with_child(5, "child 1"), NULL), 5);
    struct twin_verdict *v = judge(with_child(5, "child 1"), with_child(3, "child 1"), NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->text, "run 1 has 5 steps, run 2 3");
    twin_verdict_free(v);
    expect_unseen(judge(with_child(5, "child 1"), with_child(3, "child 1"), &arms),
                  "rank 0 (child 1): run 1 has 5 steps and run 2 3");
    expect_unseen(judge(with_child(5, "child 1"), whole_job(4), &arms),
                  "rank 0 (child 1) recorded only in run 1");
    v = judge(with_child(5, "child 1"), whole_job(4), NULL);
    expect_outcome(v, TWIN_DIFFER);
    twin_verdict_free(v);
}

/* Processes beside the trainer: what computed something counts, what only looked at its generators
 * does not. */
static void helpers(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct synth *b = whole_job(4);
        struct twin_writer *w = synth_process(b, 0, 1, "helper");
        if (kind == 1)
            put_value(w, TWIN_PHASE_RNG, TWIN_KIND_STATE, "python", 1);
        if (kind == 2)
            put_value(w, TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "score", 1);
        struct twin_verdict *v = judge(whole_job(4), b, NULL);
        expect_outcome(v, kind == 2 ? TWIN_INCONCLUSIVE : TWIN_SAME);
        if (kind == 1)
            assert_true(has_note(
                v,
                "rank 0 (helper) recorded only in run 2, and no more than states of generators"));
        if (kind == 2)
            assert_true(has_unseen(
                v, "rank 0 (helper) recorded only in run 2: it was compared with nothing"));
        twin_verdict_free(v);
    }
}

/* What prepares the data for one arm alone is a main process, too: the trainers are compared with
 * each other all the same. */
static void preparation_before_the_trainer(void **state)
{
    (void)state;
    struct synth *b = synth_new("b");
    put_value(synth_process(b, 0, 1, NULL), TWIN_PHASE_RNG, TWIN_KIND_STATE, "python", 1);
    struct synth_model m;
    synth_model_init(&m, 4);
    m.shuffle = true;
    train(b, &m, 0, 4);
    expect_same(judge(whole_job(4), b, &arms), 4);
}

static struct synth *with_thread(const char *role)
{
    struct synth *s = synth_new("thread");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    for (uint32_t step = 0; step < 3; step++) {
        const float x = (float)step;
        put_value(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", x);
        put_value(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", x);
        if (role)
            synth_put(w,
                      (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                            .kind = TWIN_KIND_LOSS,
                                            .name = "validation",
                                            .role = role},
                      &x, 1);
        twin_writer_step_end(w);
    }
    return s;
}

static void dropped_thread(void **state)
{
    (void)state;
    expect_same(judge(with_thread("thread eval"), with_thread("thread eval"), &arms), 3);
    expect_unseen(judge(with_thread("thread eval"), with_thread(NULL), &arms), "thread eval");
    expect_unseen(judge(with_thread(NULL), with_thread("thread eval"), &arms), "thread eval");
    struct twin_verdict *v = judge(with_thread("thread eval"), with_thread(NULL), NULL);
    expect_outcome(v, TWIN_DIFFER);
    twin_verdict_free(v);
}

static struct synth *with_loaders(int workers)
{
    struct synth *s = whole_job(4);
    for (int i = 0; i < workers; i++) {
        char role[32];
        snprintf(role, sizeof role, "loader worker %d", i);
        struct twin_writer *w = synth_process(s, 0, 1, role);
        for (int batch = i; batch < 6; batch += workers)
            put_value(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch", (float)batch);
    }
    return s;
}

static void loaders_divided_otherwise(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct twin_verdict *v = judge(with_loaders(2), with_loaders(3), k ? &arms : NULL);
        expect_outcome(v, TWIN_SAME);
        assert_true(has_note(v, "rank 0 has 2 loader workers in run 1 and 3 in run 2: not they but "
                                "the batches that it got were compared"));
        twin_verdict_free(v);
    }
    expect_same(judge(with_loaders(2), with_loaders(2), NULL), 4);
}

/* ---- one arm of several trainers, one behind the other */

enum seam { WELL, NO_GENERATOR, NO_WEIGHTS, FROM_SCRATCH };

/*
 * `train 4 && train 7 --resume && train 10 --resume`, with what the last one was resumed without.
 */
static struct synth *chain(enum seam seam, uint32_t bad_step)
{
    struct synth *s = synth_new("chain");
    struct synth_model m, scratch;
    synth_model_init(&m, 10);
    m.shuffle = true;
    scratch = m;
    train(s, &m, 0, 4);
    train(s, &m, 4, 7);
    if (seam == NO_GENERATOR)
        m.generator = 7;
    if (seam == NO_WEIGHTS)
        m.weight[1][1] += .5f;
    if (seam == FROM_SCRATCH)
        m = scratch;
    if (bad_step) {
        m.disturb[0].place = AT_GRADIENT;
        m.disturb[0].step = bad_step;
        m.disturb[0].by = 1;
        m.disturbances = 1;
    }
    train(s, &m, seam == FROM_SCRATCH ? 0 : 7, 10);
    return s;
}

static void every_trainer_of_an_arm(void **state)
{
    (void)state;
    struct twin_verdict *v = judge(whole_job(10), chain(WELL, 0), &arms);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->steps_compared, 10);
    assert_int_equal(v->range_count, 3);
    static const uint64_t first[] = {0, 4, 7, 10};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(v->ranges[i].number_b, i + 1);
        assert_int_equal(v->ranges[i].first, first[i]);
        assert_int_equal(v->ranges[i].end, first[i + 1]);
    }
    twin_verdict_free(v);

    v = judge(whole_job(10), chain(WELL, 8), &arms);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->step_a, 8);
    assert_int_equal(v->first->step_b, 1);
    assert_int_equal(v->first->kind, TWIN_KIND_GRADIENT);
    twin_verdict_free(v);

    v = judge(whole_job(10), chain(NO_GENERATOR, 0), &arms);
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->layer, "rng");
    assert_int_equal(v->first->step_b, 0);
    twin_verdict_free(v);

    v = judge(whole_job(10), chain(NO_WEIGHTS, 0), &arms);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->kind, TWIN_KIND_WEIGHT);
    assert_int_equal(v->first->step_a, 6);
    assert_true(has_note(v, "process 3"));
    twin_verdict_free(v);

    v = judge(whole_job(10), chain(FROM_SCRATCH, 0), &arms);
    /* all ten steps again, and equal: that is what the verdict says of it */
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->ranges[2].first, 0);
    assert_int_equal(v->ranges[2].end, 10);
    assert_true(has_note(v, "begins anew"));
    twin_verdict_free(v);
    /* A ended before the last one began: its first weights are none that A ever had */
    expect_unseen(judge(whole_job(5), chain(WELL, 0), &arms),
                  "rank 0, process 3 recorded only in run 2");
    expect_unseen(judge(whole_job(7), chain(WELL, 0), &arms),
                  "process 3: no step was compared: run 2 goes on at step 7");
    expect_unseen(judge(chain(WELL, 0), whole_job(10), &arms),
                  "recorded only in run 1: its 3 steps were compared with nothing");
}

/* The last one goes on where the user says; the ones before it are found. */
static void chain_at_a_given_place(void **state)
{
    (void)state;
    struct twin_compare_options o = {.arms = true, .shift = -7};
    expect_same(judge(whole_job(10), chain(WELL, 0), &o), 10);
    struct twin_verdict *v = judge(whole_job(10), chain(WELL, 9), &o);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->step_a, 9);
    twin_verdict_free(v);
}

/* Another model, trained behind the first: its weights are none of A's, and nothing is said about
 * them. */
static void another_model_behind(void **state)
{
    (void)state;
    struct synth *b = whole_job(10);
    struct twin_writer *w = synth_process(b, 0, 1, NULL);
    put_value(w, TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, "other", 1);
    small_steps(w, 3);
    expect_unseen(
        judge(whole_job(10), b, &arms),
        "rank 0, process 2 recorded only in run 2: its 3 steps were compared with nothing");
}

/* ---- arms with other numbers of ranks */

/* own: every rank has weights of its own, as with shards. others: each world has other moments */
static struct synth *data_parallel(int32_t world, bool own, bool weights, bool others)
{
    struct synth *s = synth_new("parallel");
    for (int32_t r = 0; r < world; r++) {
        struct twin_writer *w = synth_process(s, r, world, NULL);
        for (uint32_t step = 0; step < 3; step++) {
            put_value(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", (float)(step + 10 * (uint32_t)r));
            if (weights)
                put_value(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w",
                          (float)step + (own ? (float)r : 0));
            put_value(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "m",
                      (float)(step + (others ? (uint32_t)world : 0)));
            twin_writer_step_end(w);
        }
    }
    return s;
}

static void other_world(void **state)
{
    (void)state;
    struct twin_verdict *v = judge(data_parallel(2, false, true, false),
                                   data_parallel(3, false, true, false), &arms);
    expect_outcome(v, TWIN_SAME);
    assert_true(v->ranges[0].weights_only);
    assert_false(v->ranges[0].whole);
    assert_true(v->ranges[0].moments);
    assert_int_equal(v->records_compared, 6); /* at each step a weight and its moment */
    twin_verdict_free(v);
    v = judge(data_parallel(2, false, true, true), data_parallel(3, false, true, true), &arms);
    expect_place(v, 0, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "m");
    twin_verdict_free(v);
    expect_unseen(
        judge(data_parallel(2, true, true, false), data_parallel(3, true, true, false), &arms),
        "rank 1 does not hold rank 0's weights");
    expect_unseen(
        judge(data_parallel(2, false, false, false), data_parallel(3, false, false, false), &arms),
        "weights, gradients or outputs: at no step");
}

/* ---- a run held against the other, and against a baseline made of the other */

enum change {
    UNCHANGED,
    FEWER_STEPS,
    MORE_STEPS,
    NO_CHILD,
    CHILD_STOPS,
    CHILD_DIFFERS,
    HELPER_DIFFERS,
    NO_HELPER,
    EXTRA_HELPER,
    TAIL_DIFFERS,
    NO_TAIL,
    FAILED,
    LOST,
    CUT,
    CHANGES
};

/* A trainer, a child that steps, a helper without steps, and what is computed when all is done. */
static struct synth *changed_job(enum change change)
{
    struct synth *s = synth_new("job");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    small_steps(w, change == FEWER_STEPS || change == CUT ? 4 : change == MORE_STEPS ? 7 : 6);
    if (change != NO_TAIL)
        put_value(w, TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "final", change == TAIL_DIFFERS ? 2 : 1);
    if (change == LOST)
        twin_writer_record(w, &(struct twin_observation){.series = 0});
    if (change != NO_CHILD) {
        w = synth_process(s, 0, 1, "child 1");
        small_steps(w, change == CHILD_STOPS ? 2 : 3);
        if (change == CHILD_DIFFERS)
            put_value(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", 99);
    }
    if (change != NO_HELPER)
        put_value(synth_process(s, 0, 1, "child 2"), TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "score",
                  change == HELPER_DIFFERS ? 2 : 1);
    if (change == EXTRA_HELPER)
        put_value(synth_process(s, 0, 1, "child 3"), TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "score",
                  1);
    if (change == FAILED)
        synth_run(s)->exit_code = 1;
    if (change == CUT)
        synth_run(s)->outcome = TWIN_RUN_STOPPED;
    return s;
}

/* Neither way of comparing may call a change the same, and both call the unchanged job so. */
static void check_and_against_agree(void **state)
{
    (void)state;
    struct synth *reference = changed_job(UNCHANGED);
    const struct twin_run *runs[2] = {synth_done(reference), NULL};
    struct twin_baseline *b = NULL;
    assert_int_equal(twin_baseline_make(runs, 1, NULL, "1", &b, NULL), 0);
    for (enum change change = UNCHANGED; change < CHANGES; change++) {
        struct synth *s = changed_job(change);
        struct twin_verdict *pair = compare(reference, s, NULL), *against = NULL;
        assert_int_equal(twin_baseline_judge(b, synth_done(s), NULL, &against, NULL), 0);
        const bool same = change == UNCHANGED;
        if ((pair->outcome == TWIN_SAME) != same || (against->outcome == TWIN_SAME) != same) {
            explain(pair);
            explain(against);
            fail_msg("change %d: two runs are called %s, and against the baseline %s", change,
                     twin_verdict_name(pair->outcome), twin_verdict_name(against->outcome));
        }
        twin_verdict_free(pair);
        twin_verdict_free(against);
        synth_free(s);
    }
    twin_baseline_free(b);
    synth_free(reference);
}

/* ---- classes of runs */

static void class_that_is_not_sure(void **state)
{
    (void)state;
    struct synth *s[4] = {whole_job(5), whole_job(5), whole_job(3), NULL};
    struct synth_model m;
    synth_model_init(&m, 5);
    m.lr = .2f;
    s[3] = synth_train_run("other", &m);
    synth_run(s[2])->outcome = TWIN_RUN_STOPPED; /* not by the user */
    const struct twin_run *runs[4];
    for (int i = 0; i < 4; i++)
        runs[i] = synth_done(s[i]);
    for (size_t n = 2; n <= 4; n++) {
        struct twin_verdict *v = NULL;
        assert_int_equal(twin_compare(runs, n, NULL, &v, NULL), 0);
        expect_outcome(v, n == 2 ? TWIN_SAME : n == 3 ? TWIN_INCONCLUSIVE : TWIN_DIFFER);
        assert_int_equal(v->classes[0].unsure, n > 2);
        assert_int_equal(v->ranges[0].end, n == 2 ? 5 : n == 3 ? 3 : v->ranges[0].end);
        twin_verdict_free(v);
    }
    for (int i = 0; i < 4; i++)
        synth_free(s[i]);
}

/* ---- what was lost, what could not be read, what a limit left out */

static void lost_records(void **state)
{
    (void)state;
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = synth_new("lost");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        small_steps(w, 3);
        assert_int_equal(twin_writer_record(w, &(struct twin_observation){.series = 0}), 0);
    }
    expect_unseen(judge(s[0], s[1], NULL), "1 calls of rank 0 (main) could not be recorded: no "
                                           "memory, or more names than a trace holds");
}

/* Not one record got through. */
static void all_was_lost(void **state)
{
    (void)state;
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = whole_job(3);
        struct twin_writer *w = synth_process(s[i], 0, 1, "helper");
        assert_int_equal(twin_writer_record(w, &(struct twin_observation){.series = 0}), 0);
    }
    expect_unseen(judge(s[0], s[1], NULL),
                  "run 2: all 1 records of rank 0 were lost: no memory, or over a limit");
}

/* The last of more records than anybody wants to look at. */
static void unreadable_last(void **state)
{
    (void)state;
    for (int unreadable = 0; unreadable < 2; unreadable++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            float x = 1;
            s[i] = synth_new("late");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            for (uint32_t k = 0; k < 201000; k++) {
                put_value(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", x);
                if (k % 1000 == 0) {
                    put_value(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", x);
                    twin_writer_step_end(w);
                }
            }
            if (unreadable)
                synth_put(w,
                          (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                                .kind = TWIN_KIND_ACTIVATION,
                                                .name = "y",
                                                .flags = TWIN_REC_UNOBSERVED},
                          &x, 1);
            put_value(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", x);
            twin_writer_step_end(w);
        }
        if (unreadable)
            expect_unseen(judge(s[0], s[1], NULL),
                          "1 records of rank 0 whose contents could not be read");
        else
            expect_same(judge(s[0], s[1], NULL), 202);
    }
}

/* It is why records could not be read, and unseen also where there is none of these. */
static void a_captured_graph_is_unseen(void **state)
{
    (void)state;
    for (int unreadable = 0; unreadable < 2; unreadable++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            float x = 1;
            s[i] = synth_new("graph");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            put_value(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", x);
            if (unreadable)
                synth_put(w,
                          (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                                .kind = TWIN_KIND_ACTIVATION,
                                                .name = "y",
                                                .flags = TWIN_REC_UNOBSERVED},
                          &x, 1);
            put_value(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", x);
            twin_writer_step_end(w);
            twin_writer_note(w, "cuda.graph", "5 graphs.py:12 in <module>");
        }
        expect_unseen(judge(s[0], s[1], NULL),
                      "rank 0 captured a CUDA graph at graphs.py:12 in <module>: what its 5 "
                      "replays computed was not seen step by step");
    }
}

/* Kernels on a GPU that could not be had cost time and hide nothing; those that failed hide what
 * they were to read (agents/cuda/trouble.c). */
static void a_gpu_that_was_not_read(void **state)
{
    (void)state;
    for (int failed = 0; failed < 2; failed++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            s[i] = synth_new("gpu");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            small_steps(w, 3);
            if (i == 1)
                twin_writer_note(w, failed ? "unseen" : "gpu.copied", "a call failed with 7");
        }
        struct twin_verdict *v = judge(s[0], s[1], NULL);
        if (failed) {
            expect_unseen(v, "run 2: a call failed with 7");
        } else {
            expect_note(v, "run 2: a call failed with 7");
            expect_same(v, 3);
        }
    }
}

/* Contents of NCCL's collectives are no part of what was compared: that is said, and hides nothing
 * of what was. */
static void collectives_that_are_not_seen(void **state)
{
    (void)state;
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = synth_new("static");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        small_steps(w, 3);
        if (i == 1)
            twin_writer_note(w, "nccl.unseen", "NCCL is linked statically into /a/trainer");
    }
    struct twin_verdict *v = judge(s[0], s[1], NULL);
    expect_note(v, "run 2: collectives unseen: NCCL is linked statically into /a/trainer");
    expect_same(v, 3);
}

/* What JAX computes outside of jitted functions makes no record: that is said once, and what was
 * recorded is the same. */
static void computed_beside_jitted_functions(void **state)
{
    (void)state;
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = synth_new("eager");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        twin_writer_note(w, "jax.eager", "first at step 0");
        small_steps(w, 3);
    }
    struct twin_verdict *v = judge(s[0], s[1], NULL);
    expect_note(v, "JAX computed outside of jitted functions, too: of that only what such "
                   "functions are given was compared");
    expect_same(v, 3);
}

/* Behind what was compared, it is nobody's business. */
static void unreadable_behind_the_range(void **state)
{
    (void)state;
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        float x = 1;
        s[i] = synth_new("behind");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        small_steps(w, 3);
        synth_put(w,
                  (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                        .kind = TWIN_KIND_ACTIVATION,
                                        .name = "y",
                                        .flags = TWIN_REC_UNOBSERVED},
                  &x, 1);
        small_steps(w, 1);
    }
    expect_same(judge(s[0], s[1], &(struct twin_compare_options){.steps_given = true, .steps = 3}),
                3);
}

static void more_steps_than_the_table(void **state)
{
    (void)state;
    const uint64_t most = tw_steps_most;
    tw_steps_most = 6;
    struct twin_verdict *v = judge(whole_job(10), whole_job(10), NULL);
    struct twin_verdict *w = judge(whole_job(6), whole_job(6), NULL);
    tw_steps_most = most;
    expect_unseen(
        v, "rank 0: whether inputs and results were seen, for more than the first 6 of 10 steps");
    expect_same(w, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_of_a_resumed_arm),
        cmocka_unit_test(given_place),
        cmocka_unit_test(other_length),
        cmocka_unit_test(failed_before_the_cut),
        cmocka_unit_test(arm_without_steps),
        cmocka_unit_test(values_of_other_names),
        cmocka_unit_test(inputs_of_one_arm_alone),
        cmocka_unit_test(lost_rank),
        cmocka_unit_test(child_that_stops_earlier),
        cmocka_unit_test(helpers),
        cmocka_unit_test(preparation_before_the_trainer),
        cmocka_unit_test(dropped_thread),
        cmocka_unit_test(loaders_divided_otherwise),
        cmocka_unit_test(every_trainer_of_an_arm),
        cmocka_unit_test(chain_at_a_given_place),
        cmocka_unit_test(another_model_behind),
        cmocka_unit_test(other_world),
        cmocka_unit_test(check_and_against_agree),
        cmocka_unit_test(class_that_is_not_sure),
        cmocka_unit_test(lost_records),
        cmocka_unit_test(all_was_lost),
        cmocka_unit_test(unreadable_last),
        cmocka_unit_test(a_captured_graph_is_unseen),
        cmocka_unit_test(a_gpu_that_was_not_read),
        cmocka_unit_test(collectives_that_are_not_seen),
        cmocka_unit_test(computed_beside_jitted_functions),
        cmocka_unit_test(unreadable_behind_the_range),
        cmocka_unit_test(more_steps_than_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
