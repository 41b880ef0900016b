/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts where something is missing: runs that fail or stop, traces cut short, what was never
 * seen, ranks and workers. */
#include <math.h>

#include "base.h"
#include "compare_test.h"

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
    synth_run(b)->outcome = TWIN_RUN_STOPPED; /* by us, and nobody asked for 8 steps only */
    v = compare(a, b, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(
        has_unseen(v, "run 1 has 10 steps and run 2 8: from step 8 on nothing was compared"));
    twin_verdict_free(v);
    synth_run(b)->max_steps = 8; /* --steps 8: the overlap is what was asked for */
    v = compare(a, b, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->steps_compared, 8);
    assert_int_equal(v->ranges[0].end, 8);
    assert_false(v->ranges[0].whole);
    twin_verdict_free(v);
    synth_run(b)->max_steps = 0;
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

static char *trace_of(struct synth *s, size_t *bytes)
{
    char *data;
    assert_int_equal(tw_read_file(synth_done(s)->traces[0], 1u << 24, &data, bytes, NULL), 0);
    return data;
}

/* How runs end that a dying rank took with it: each with the launcher's exit code. */
static void take_down(struct synth *s)
{
    synth_run(s)->outcome = TWIN_RUN_EXITED;
    synth_run(s)->exit_code = 11;
}

/* Two runs fail alike, and the trace of one is cut at one place after the other: what is behind the
 * cut tells the runs apart nowhere, and what differs before it does everywhere. */
static void what_a_death_cut_off_is_no_difference(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct synth_model x, y;
        synth_model_init(&x, 10);
        y = x;
        y.disturb[0].place = AT_LOSS;
        y.disturb[0].step = 4;
        y.disturb[0].by = 1;
        y.disturbances = (size_t)differ;
        struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
        take_down(a);
        take_down(b);
        size_t bytes, told = 0, silent = 0;
        char *data = trace_of(b, &bytes);
        for (size_t cut = bytes; cut > 0; cut -= cut < 499 ? cut : 499) {
            assert_int_equal(tw_write_file_atomic(synth_done(b)->traces[0], data, cut, NULL), 0);
            struct twin_verdict *v = compare(a, b, NULL);
            if (v->outcome == TWIN_DIFFER) {
                assert_int_equal(silent, 0); /* a longer trace did not tell of it */
                expect_first(v, 4, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss");
                told++;
            } else {
                expect_outcome(v, TWIN_FAILED);
                assert_int_equal(v->differing, 0);
                assert_int_equal(v->class_count, 1);
                assert_int_equal(v->origin_count, 0);
                silent++;
            }
            twin_verdict_free(v);
        }
        assert_true(silent > 0);
        assert_int_equal(told > 0, differ);
        tw_free(data);
        synth_free(a);
        synth_free(b);
    }
}

/* A trace that lost its tail in a run that ended well: nobody killed it, so it is not "the same".
 */
static void tail_that_a_job_lost_is_not_the_same(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 10);
    y = x;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    size_t bytes;
    char *data = trace_of(b, &bytes);
    for (size_t cut = bytes - 1; cut > 0; cut -= cut < 499 ? cut : 499) {
        assert_int_equal(tw_write_file_atomic(synth_done(b)->traces[0], data, cut, NULL), 0);
        struct twin_verdict *v = compare(a, b, NULL);
        assert_int_not_equal(v->outcome, TWIN_SAME);
        twin_verdict_free(v);
    }
    tw_free(data);
    synth_free(a);
    synth_free(b);
}

/* An orderly end after fewer steps is an end, whatever killed the other run. */
static void fewer_steps_than_a_killed_run(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 10);
    y = x;
    x.die_at = 9;
    y.steps = 8;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    synth_run(a)->outcome = TWIN_RUN_SIGNALED;
    synth_run(a)->signal = 9;
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->type, TWIN_FINDING_OUTCOME);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* Runs that failed alike and printed other numbers: two classes, and no word of records that nobody
 * compared. */
static void failed_runs_that_print_other_numbers(void **state)
{
    (void)state;
    struct synth_model x, y;
    synth_model_init(&x, 10);
    y = x;
    struct synth *a = synth_train_run("a", &x), *b = synth_train_run("b", &y);
    synth_print(a, "stdout", "loss 0.5\n");
    synth_print(b, "stdout", "loss 0.25\n");
    take_down(a);
    take_down(b);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_FAILED);
    assert_int_equal(v->class_count, 2);
    assert_int_equal(v->origin_count, 1);
    assert_true(has_note(v, "all records that were compared are equal"));
    assert_false(has_note(v, "all records are equal"));
    twin_verdict_free(v);
    /* which rank's end MPICH's launcher was told of first: the dead one's, or that of one it killed
     */
    synth_print(a, "stdout", "=   EXIT CODE: 11\n");
    synth_print(b, "stdout", "=   EXIT CODE: 9\n");
    v = compare(a, b, NULL);
    expect_outcome(v, TWIN_FAILED);
    assert_int_equal(v->class_count, 1);
    twin_verdict_free(v);
    synth_print(b, "stdout", "=   EXIT CODE: 6\n");
    v = compare(a, b, NULL);
    assert_int_equal(v->class_count, 2);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* Bytes flipped anywhere: a verdict or a message, never a crash; and never "differ" by damage
 * alone. */
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
    assert_true(has_unseen(v, "no process of the job left a record; compared was only the 1 line "
                              "that it printed"));
    assert_false(v->nothing_compared);
    twin_verdict_free(v);
    const char *const ignore[] = {"stdout"};
    v = compare(a, b, &(struct twin_compare_options){.ignore = ignore, .ignore_count = 1});
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "and nothing that it printed or wrote could be compared"));
    assert_true(v->nothing_compared);
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
            synth_put(w,
                      (struct synth_record){
                          .phase = TWIN_PHASE_OPTIMIZER, .kind = TWIN_KIND_WEIGHT, .name = "w"},
                      x, 4);
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

/* A program that never steps: its records are compared as one; and what it records itself is
 * enough. */
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
                synth_put(w,
                          (struct synth_record){.phase = TWIN_PHASE_OUTPUT,
                                                .kind = TWIN_KIND_VALUE,
                                                .name = "result"},
                          x, 2);
            }
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        if (differ) {
            expect_behind(v, 0, TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "result", "the beginning");
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
    struct twin_run_process trainer = {
        .pid = 7, .argv = (char *)"/usr/bin/python3 -c x", .why = (char *)"static binary"};
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

/* What one of two training threads records of a step; it may end the step, too. */
struct turn {
    struct twin_writer *w;
    float count, value;
    bool second, end;
    const char *optimizer;
};

static void take_turn(void *user)
{
    const struct turn *t = user;
    const char *role = t->second ? "thread" : NULL;
    float x[2] = {t->count, t->value}, lr[2] = {t->count, t->second ? .1f : .2f};
    /* the record of the order of parameters has the optimizer's number in its name */
    char order[32];
    snprintf(order, sizeof order, "parameters of %s[0]", t->optimizer);
    synth_put(t->w,
              (struct synth_record){
                  .phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "batch", .role = role},
              x, 2);
    synth_put(
        t->w,
        (struct synth_record){
            .phase = TWIN_PHASE_BACKWARD, .kind = TWIN_KIND_GRADIENT, .name = "w", .role = role},
        x, 2);
    synth_put(t->w,
              (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                                    .kind = TWIN_KIND_HYPER,
                                    .name = "lr",
                                    .scope = t->optimizer},
              lr, 2);
    synth_put(t->w,
              (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                                    .kind = TWIN_KIND_ORDER,
                                    .name = order,
                                    .scope = t->optimizer},
              lr, 2);
    if (t->end)
        twin_writer_step_end(t->w);
}

/* Threads that share the step counter: their records fall into other steps in every run, and are
 * the same. Of the optimizers the one that comes second has a number, unless the first is gone by
 * then. */
static void threads_cut_steps_as_they_like(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            s[i] = synth_new("threads");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            struct synth_crew *crew = synth_crew_open();
            for (int k = 0, done[2] = {0, 0}; k < 20; k++) {
                int thread = i == 0 ? k % 2 : k < 10; /* turn by turn, or one after the other */
                struct turn t = {.w = w,
                                 .count = (float)done[thread]++,
                                 .value = differ && i && k == 13 ? 2 : 1,
                                 .second = thread,
                                 .end = i == 0 || k != 7,
                                 .optimizer = i == 0 && thread ? "SGD#2" : "SGD"};
                synth_crew_do(crew, 1 + thread, take_turn, &t);
            }
            synth_crew_close(crew);
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

/* One of two threads sends what it made under a name of its own; the first ends each step. */
static void take_own_turn(void *user)
{
    const struct turn *t = user;
    synth_put(t->w,
              (struct synth_record){.phase = TWIN_PHASE_COLLECTIVE,
                                    .kind = TWIN_KIND_OUT,
                                    .name = "sum",
                                    .scope = t->second ? "second" : "first"},
              (float[]){t->count, t->value}, 2);
    if (t->end)
        twin_writer_step_end(t->w);
}

/* Threads that share the count of steps, in runs that a time limit ended: in which step a record
 * fell, and where each thread was cut, is no difference; another value, or a thread that was not
 * cut and did less, is one. */
static void threads_that_were_cut(void **state)
{
    (void)state;
    enum { EQUAL, VALUE, ORDERLY, CASES };
    for (int it = 0; it < CASES; it++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            s[i] = synth_new("cut");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            struct synth_crew *crew = synth_crew_open();
            /* turn by turn, or in pairs and fewer of them */
            for (int k = 0, done[2] = {0, 0}; k < (i == 0 ? 20 : 12); k++) {
                int thread = i == 0 ? k % 2 : k / 2 % 2;
                struct turn t = {.w = w,
                                 .count = (float)done[thread]++,
                                 .value = it == VALUE && i && k == 9 ? 2 : 1,
                                 .second = thread,
                                 .end = thread == 0};
                synth_crew_do(crew, 1 + thread, take_own_turn, &t);
            }
            synth_crew_close(crew);
        }
        synth_done(s[0]);
        synth_done(s[1]);
        synth_run(s[0])->outcome = TWIN_RUN_STOPPED;
        if (it != ORDERLY)
            synth_run(s[1])->outcome = TWIN_RUN_STOPPED;
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        expect_outcome(v, it == EQUAL ? TWIN_INCONCLUSIVE : TWIN_DIFFER);
        if (it == EQUAL) {
            assert_int_equal(v->differing, 0);
            assert_true(has_unseen(
                v, "rank 0: from step 1 on the records of several threads fell into other steps, "
                   "and a run was ended: what each thread recorded is equal as far as both runs "
                   "go"));
        }
        twin_verdict_free(v);
        for (int i = 0; i < 2; i++)
            synth_free(s[i]);
    }
}

/* A run is cut in step 1 before its late thread recorded anything: the other run has a record of
 * that thread in front of what both have. That is no difference; another value is one. */
static void a_thread_that_was_late(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            s[i] = synth_new("late");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            struct synth_crew *crew = synth_crew_open();
            for (int k = 0, done[2] = {0, 0}; k < (i == 0 ? 20 : 2); k++) {
                const int thread = i == 0 ? k % 2 : 0;
                struct turn t = {.w = w,
                                 .count = (float)done[thread]++,
                                 .value = differ && i && k == 1 ? 2 : 1,
                                 .second = thread,
                                 .end = thread == 0 && (i == 0 || k == 0)};
                synth_crew_do(crew, 1 + thread, take_own_turn, &t);
            }
            synth_crew_close(crew);
            synth_done(s[i]);
        }
        synth_run(s[1])->outcome = TWIN_RUN_STOPPED;
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        expect_outcome(v, differ ? TWIN_DIFFER : TWIN_INCONCLUSIVE);
        assert_int_equal(v->differing > 0, differ);
        twin_verdict_free(v);
        for (int i = 0; i < 2; i++)
            synth_free(s[i]);
    }
}

/* Another batch at that step, if so wanted. */
static struct synth_model six_steps(bool other_batch, uint32_t step)
{
    struct synth_model m;
    synth_model_init(&m, 6);
    if (other_batch) {
        m.disturb[0].place = AT_BATCH;
        m.disturb[0].step = step;
        m.disturb[0].by = 1;
        m.disturbances = 1;
    }
    return m;
}

/*
 * A worker's own steps ask for no weights, and what parts in it comes before the batch it parts in.
 */
static void loader_workers(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            struct synth_model m = six_steps(differ && i, 4);
            s[i] = synth_new("workers");
            synth_train(&m, synth_process(s[i], 0, 1, NULL));
            struct twin_writer *w = synth_process(s[i], 0, 1, "loader worker 0");
            for (int k = 0; k < 9; k++) {
                float state_of[2] = {(float)k, differ && i && k == 2 ? 1 : 0};
                synth_put(w,
                          (struct synth_record){.phase = TWIN_PHASE_RNG,
                                                .kind = TWIN_KIND_STATE,
                                                .name = "numpy",
                                                .op = "augment"},
                          state_of, 2);
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

/*
 * Two workers and three divide the batches otherwise; what the trainer got of them is what counts.
 */
static void another_number_of_loader_workers(void **state)
{
    (void)state;
    for (int differ = 0; differ < 2; differ++) {
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            struct synth_model m = six_steps(differ && i, 2);
            s[i] = synth_new("workers");
            synth_train(&m, synth_process(s[i], 0, 1, NULL));
            for (int k = 0; k < 2 + i; k++) {
                char role[32];
                snprintf(role, sizeof role, "loader worker %d", k);
                struct twin_writer *w = synth_process(s[i], 0, 1, role);
                for (int batch = k; batch < 6; batch += 2 + i) {
                    float index = (float)batch;
                    synth_put(w,
                              (struct synth_record){.phase = TWIN_PHASE_DATA,
                                                    .kind = TWIN_KIND_INDICES,
                                                    .name = "sample indices"},
                              &index, 1);
                    twin_writer_step_end(w);
                }
            }
        }
        struct twin_verdict *v = compare(s[0], s[1], &(struct twin_compare_options){.arms = true});
        if (differ)
            expect_behind(v, 2, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch", "the beginning");
        else
            expect_outcome(v, TWIN_SAME);
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

/* Data-parallel ranks: each holds the same weights. */
static struct synth *replicas(struct synth_model *m)
{
    struct synth *s = synth_new("replicas");
    for (int32_t r = 0; r < 2; r++) {
        m[r].world = 2;
        synth_train(&m[r], synth_process(s, r, 2, NULL));
    }
    return s;
}

/* Arms of another number of ranks: what else is recorded does not count, neither for where they
 * part nor for how often. */
static void arms_of_other_world_size(void **state)
{
    (void)state;
    struct synth_model single, own[2];
    synth_model_init(&single, 8);
    for (int r = 0; r < 2; r++)
        synth_model_init(&own[r], 8);
    struct synth *x = synth_train_run("x", &single), *y = two_ranks(own);
    struct twin_verdict *unlike = compare(
        x, y, &(struct twin_compare_options){.arms = true, .find_shift = true});
    /* rank 1 trained weights of its own, which nothing was compared with */
    expect_outcome(unlike, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(
        unlike, "run 2: rank 1 does not hold rank 0's weights: it was compared with nothing"));
    twin_verdict_free(unlike);
    synth_free(x);
    synth_free(y);
    for (int part = 0; part < 2; part++) {
        struct synth_model one, two[2];
        synth_model_init(&one, 8);
        for (int r = 0; r < 2; r++)
            synth_model_init(&two[r], 8);
        if (part) {
            two[0].disturb[0].place = AT_WEIGHT;
            two[0].disturb[0].step = 5;
            two[0].disturb[0].by = 1e-3f;
            two[0].disturbances = 1;
        }
        struct synth *a = synth_train_run("a", &one), *b = replicas(two);
        struct twin_verdict *v = compare(
            a, b, &(struct twin_compare_options){.arms = true, .find_shift = true});
        expect_outcome(v, part ? TWIN_DIFFER : TWIN_SAME);
        assert_int_equal(v->steps_compared, 8);
        if (part) {
            assert_int_equal(v->first->step_a, 5);
            assert_int_equal(v->steps_differing, 3);
        }
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_in_one_run),
        cmocka_unit_test(value_before_a_failure_is_named_first),
        cmocka_unit_test(other_number_of_steps),
        cmocka_unit_test(crashed_trace_is_unknown_after_its_end),
        cmocka_unit_test(what_a_death_cut_off_is_no_difference),
        cmocka_unit_test(tail_that_a_job_lost_is_not_the_same),
        cmocka_unit_test(fewer_steps_than_a_killed_run),
        cmocka_unit_test(failed_runs_that_print_other_numbers),
        cmocka_unit_test(damaged_traces),
        cmocka_unit_test(nothing_seen_is_inconclusive),
        cmocka_unit_test(only_weights_is_inconclusive),
        cmocka_unit_test(no_steps),
        cmocka_unit_test(unarmed_trainer_is_unseen),
        cmocka_unit_test(rank_whose_gradient_parts),
        cmocka_unit_test(threads_cut_steps_as_they_like),
        cmocka_unit_test(threads_that_were_cut),
        cmocka_unit_test(a_thread_that_was_late),
        cmocka_unit_test(loader_workers),
        cmocka_unit_test(another_number_of_loader_workers),
        cmocka_unit_test(missing_rank),
        cmocka_unit_test(arms_of_other_world_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
