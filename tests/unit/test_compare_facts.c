/* SPDX-License-Identifier: Apache-2.0 */
/* Facts that agents note, laid beside what differs: the order of parameters, shared weights, draws
 * before any seed. */
#include "compare_test.h"

struct job {
    /* what the records hold; equal in runs that are to agree */
    float order, batch, output, gradient;
    const char *order_note, *shared, *unseeded, *unseeded_numpy;
    int processes; /* that train; each a rank of its own */
};

static void train(struct twin_writer *w, const struct job *j)
{
    if (j->order_note)
        twin_writer_note(w, "order", j->order_note);
    if (j->shared)
        twin_writer_note(w, "weights.shared", j->shared);
    if (j->unseeded)
        twin_writer_note(w, "unseeded", j->unseeded);
    if (j->unseeded_numpy)
        twin_writer_note(w, "unseeded.numpy", j->unseeded_numpy);
    for (uint32_t step = 0; step < 3; step++) {
        const float batch = j->batch + (float)step;
        const float loss = batch * 2;
        const float gradient = j->gradient + (float)step;
        const float weight = 1 - gradient;
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "batch"},
                  &batch, 1);
        const float output = batch * 3 + j->output;
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_ACTIVATION, .name = "output"},
                  &output, 1);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_LOSS, .name = "loss"},
                  &loss, 1);
        if (step == 0)
            synth_put(w,
                      (struct synth_record){.phase = TWIN_PHASE_INIT,
                                            .kind = TWIN_KIND_ORDER,
                                            .name = "parameters of SGD[0]"},
                      &j->order, 1);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_BACKWARD, .kind = TWIN_KIND_GRADIENT, .name = "w"},
                  &gradient, 1);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_OPTIMIZER, .kind = TWIN_KIND_WEIGHT, .name = "w"},
                  &weight, 1);
        twin_writer_step_end(w);
    }
}

static struct twin_verdict *verdict_of(const struct job *a, const struct job *b)
{
    struct synth *s[2] = {synth_new("facts-a"), synth_new("facts-b")};
    const struct job *jobs[2] = {a, b};
    for (int i = 0; i < 2; i++)
        for (int p = 0; p < jobs[i]->processes || p == 0; p++)
            train(synth_process(s[i], p, jobs[i]->processes ? jobs[i]->processes : 1, NULL),
                  jobs[i]);
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    synth_free(s[0]);
    synth_free(s[1]);
    return v;
}

static void another_order_that_changes_nothing_is_the_same(void **state)
{
    (void)state;
    const struct job a = {.order = 1, .order_note = "SGD[0]: a, b"};
    const struct job b = {.order = 2, .order_note = "SGD[0]: b, a"};
    struct twin_verdict *v = verdict_of(&a, &b);
    expect_outcome(v, TWIN_SAME);
    assert_true(has_note(v, "the parameters reach the optimizer in another order; nothing"));
    twin_verdict_free(v);
    v = verdict_of(&a, &a);
    expect_outcome(v, TWIN_SAME);
    assert_false(has_note(v, "another order"));
    twin_verdict_free(v);
}

static void what_follows_from_another_order_is_named_behind_it(void **state)
{
    (void)state;
    const struct job a = {.order = 1, .order_note = "SGD[0]: a, b"};
    const struct job b = {.order = 2, .gradient = .5f, .order_note = "SGD[0]: b, a"};
    struct twin_verdict *v = verdict_of(&a, &b);
    expect_first(v, 0, TWIN_PHASE_INIT, TWIN_KIND_ORDER, "parameters of SGD[0]");
    assert_string_equal(v->first->layer, "optimizer");
    assert_true(v->origin_count >= 2);
    assert_int_equal(v->origins[1].role, TWIN_CARRIER);
    assert_int_equal(v->origins[1].kind, TWIN_KIND_GRADIENT);
    assert_true(has_note(v, "SGD[0]: a, b in run 1, SGD[0]: b, a in run 2"));
    twin_verdict_free(v);
}

/* A batch does not come from the order of parameters: what differs before any optimizer stays the
 * first. */
static void what_comes_before_the_optimizer_is_not_blamed_on_the_order(void **state)
{
    (void)state;
    const struct job a = {.order = 1}, b = {.order = 2, .batch = 7, .gradient = .5f};
    struct twin_verdict *v = verdict_of(&a, &b);
    expect_behind(v, 0, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch", "the beginning");
    twin_verdict_free(v);
}

static void weights_that_processes_share_are_told(void **state)
{
    (void)state;
    const char *one = "SGD: 2 of 2 in 00:01:77 00:01:78";
    const char *other = "SGD: 2 of 2 in 00:01:78";
    const char *elsewhere = "SGD: 2 of 2 in 00:01:7";
    const struct {
        const char *a;
        int processes;
        float gradient;
        bool told;
    } row[] = {
        {one, 2, .5f, true},
        {one, 1, .5f, false},
        {one, 2, 0, false},
        {NULL, 2, .5f, false},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct job a = {.shared = row[i].a, .processes = row[i].processes}, b = a;
        b.gradient = row[i].gradient;
        struct twin_verdict *v = verdict_of(&a, &b);
        assert_int_equal(has_note(v, "memory that 2 processes share"), row[i].told);
        if (row[i].told)
            expect_note(v, "the weights lie in memory that 2 processes share and train at once: a "
                           "data race, which no seed holds still");
        twin_verdict_free(v);
    }
    /* two processes with other notes: do they name one place? */
    for (int same = 0; same < 2; same++) {
        struct synth *s[2] = {synth_new("facts-a"), synth_new("facts-b")};
        for (int i = 0; i < 2; i++) {
            const struct job x = {.shared = one, .gradient = (float)i};
            const struct job y = {.shared = same ? other : elsewhere};
            train(synth_process(s[i], 0, 2, NULL), &x);
            train(synth_process(s[i], 1, 2, NULL), &y);
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        assert_int_equal(has_note(v, "memory that 2 processes share"), same);
        twin_verdict_free(v);
        synth_free(s[0]);
        synth_free(s[1]);
    }
}

/* What was seen of such weights is not what the operation was given. */
static void nothing_is_an_origin_of_shared_weights(void **state)
{
    (void)state;
    for (int processes = 1; processes <= 2; processes++) {
        const struct job a = {.shared = "SGD: 2 of 2 in 00:01:77", .processes = processes};
        struct job b = a;
        b.output = 1;
        struct twin_verdict *v = verdict_of(&a, &b);
        assert_int_equal(v->first->role, processes > 1 ? TWIN_ROLE_UNKNOWN : TWIN_ORIGIN);
        assert_int_equal(v->origins[0].role, v->first->role);
        if (processes > 1)
            assert_string_equal(v->first->between[0], "the memory that 2 processes share");
        twin_verdict_free(v);
        b = a;
        b.batch = 1;
        v = verdict_of(&a, &b); /* a batch is no weight: shared memory is not blamed */
        expect_behind(v, 0, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch", "the beginning");
        twin_verdict_free(v);
    }
}

static void draws_before_any_seed_are_told_where_runs_differ(void **state)
{
    (void)state;
    const struct job a = {.unseeded = "Dropout at net.py:3 in forward",
                          .unseeded_numpy = "user code at data.py:8 in load"};
    struct job b = a;
    struct twin_verdict *v = verdict_of(&a, &b);
    assert_false(has_note(v, "before any seed"));
    twin_verdict_free(v);
    b.gradient = 1;
    v = verdict_of(&a, &b);
    assert_true(has_note(v, "torch was drawn from before any seed was set (Dropout at net.py:3 in "
                            "forward): torch.manual_seed at the start would hold that still"));
    assert_true(
        has_note(v, "numpy.random was drawn from before any seed was set (user code at data.py:8 "
                    "in load): numpy.random.seed at the start would hold that still"));
    twin_verdict_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_order_that_changes_nothing_is_the_same),
        cmocka_unit_test(what_follows_from_another_order_is_named_behind_it),
        cmocka_unit_test(what_comes_before_the_optimizer_is_not_blamed_on_the_order),
        cmocka_unit_test(weights_that_processes_share_are_told),
        cmocka_unit_test(nothing_is_an_origin_of_shared_weights),
        cmocka_unit_test(draws_before_any_seed_are_told_where_runs_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
