/* SPDX-License-Identifier: Apache-2.0 */
/* What a tolerance may call inside: every difference, measured. Each mutant has a harmless twin
 * beside it. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"
#include "tolerance.h"

#include "compare_test.h"

enum { SIZE = 64, STEPS = 10 };

/* How the second run differs: step by step a factor on the weights; and what else. */
struct change {
    float factor[STEPS];  /* 0: equal */
    bool sketched[STEPS]; /* else of that step only statistics are kept */
    float result;         /* added to a value recorded after the last step */
    bool nan;             /* step 3's weights hold one NaN, in both */
    bool left_out;        /* step 4 has no loss */
    bool turned_round;    /* step 5's two losses come the other way round */
    int ranks;            /* 0: one */
    int rank;             /* the one whose weights differ */
    bool nan_in_one;      /* step 6's weights hold a NaN, in the second run alone */
    bool unread;          /* step 8's batch could not be read, in either run */
    bool unread_in_one;   /* the same in the second run alone */
    bool no_batch;        /* no step has one */
};

static float weight(int i)
{
    return (float)sin(1.7 * i + .4);
}

static void add_rank(struct synth *s, const struct change *c, int rank, int ranks)
{
    struct twin_writer *w = synth_process(s, rank, ranks, NULL);
    for (int step = 0; step < STEPS; step++) {
        float x[SIZE], batch = (float)step, loss[2] = {1, 2};
        for (int i = 0; i < SIZE; i++)
            x[i] = weight(i) * (c->factor[step] != 0 && c->rank == rank ? c->factor[step] : 1);
        if ((c->nan && step == 3) || (c->nan_in_one && step == 6 && c->rank == rank))
            x[5] = NAN;
        uint32_t hidden = (c->unread || c->unread_in_one) && step == 8 ? TWIN_REC_UNOBSERVED : 0;
        if (!c->no_batch)
            synth_put(w,
                      (struct synth_record){.phase = TWIN_PHASE_DATA,
                                            .kind = TWIN_KIND_BATCH,
                                            .name = "x",
                                            .flags = hidden},
                      &batch, 1);
        for (int k = 0; k < 2; k++)
            if (!c->left_out || step != 4 || k == 0)
                synth_put(w,
                          (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                                .kind = TWIN_KIND_LOSS,
                                                .name = "loss",
                                                .no_sketch = true},
                          &loss[c->turned_round && step == 5 ? 1 - k : k], 1);
        synth_put(w,
                  (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                                        .kind = TWIN_KIND_WEIGHT,
                                        .name = "w",
                                        .no_sketch = !c->sketched[step]},
                  x, SIZE);
        twin_writer_step_end(w);
    }
    float result = 5 + c->result;
    synth_put(w,
              (struct synth_record){.phase = TWIN_PHASE_OUTPUT,
                                    .kind = TWIN_KIND_VALUE,
                                    .name = "result",
                                    .no_sketch = true},
              &result, 1);
}

static struct synth *job(const struct change *c)
{
    struct synth *s = synth_new("tolerance");
    int ranks = c->ranks ? c->ranks : 1;
    for (int rank = 0; rank < ranks; rank++)
        add_rank(s, c, rank, ranks);
    return s;
}

static char policy[64];

static const struct twin_compare_options *by_policy(void)
{
    static struct twin_compare_options o;
    o = (struct twin_compare_options){.tolerance_file = policy};
    return &o;
}

static int write_policy(void **state)
{
    (void)state;
    static const char text[] =
        "[[tolerance]]\npattern = \"*\"\nrel_l2 = 1e-3\nreason = \"a test\"\n";
    strcpy(policy, "/tmp/twin-tolerance-XXXXXX");
    int fd = mkstemp(policy);
    if (fd < 0)
        return -1;
    close(fd);
    return tw_write_file_atomic(policy, text, sizeof text - 1, NULL);
}

static int remove_policy(void **state)
{
    (void)state;
    return unlink(policy);
}

static struct change all_sketched(void)
{
    struct change c = {0};
    for (int i = 0; i < STEPS; i++)
        c.sketched[i] = true;
    return c;
}

/* a is the undisturbed run with the same sketches. note: part of what is said; NULL: nothing is
 * looked for. */
static void expect(struct change c, enum twin_verdict_outcome outcome, const char *note)
{
    struct change plain = {
        .nan = c.nan, .ranks = c.ranks, .unread = c.unread, .no_batch = c.no_batch};
    memcpy(plain.sketched, c.sketched, sizeof plain.sketched);
    struct synth *a = job(&plain), *b = job(&c);
    struct twin_verdict *v = compare(a, b, by_policy());
    expect_outcome(v, outcome);
    assert_int_equal(v->bitwise, TWIN_DIFFER);
    if (note && !has_note(v, note))
        explain(v);
    assert_true(!note || has_note(v, note));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void every_step_is_measured(void **state)
{
    (void)state;
    struct change c = all_sketched();
    for (int i = 0; i < STEPS; i++)
        c.factor[i] = 1 + 1e-5f;
    expect(c, TWIN_WITHIN_TOLERANCE,
           "within tolerance: the largest uses 0.0099 of what is allowed (optimizer/weight/w at "
           "step 0); 10 differences measured");
    c.factor[STEPS - 1] = 1.1f; /* however late */
    expect(c, TWIN_DIFFER, "outside the tolerance: optimizer/weight/w at step 9");
}

/* The field's case: signs turned, so that the norms are equal, in steps that have no sketch. */
static void without_a_sketch(void **state)
{
    (void)state;
    struct change c = {.sketched = {true}};
    c.factor[0] = 1 + 1e-5f;
    expect(c, TWIN_WITHIN_TOLERANCE, NULL);
    c.factor[1] = 1 + 1e-5f;
    expect(
        c, TWIN_DIFFER,
        "not judged by the tolerance: optimizer/weight/w at step 1 has no sketch, or holds NaN or "
        "Inf (1 of 2 differences); check --tolerance, or --sketch-every 1, records what it takes");
    for (int i = 1; i < STEPS; i++)
        c.factor[i] = -1;
    expect(c, TWIN_DIFFER, "(9 of 10 differences)");
    c.factor[7] = 3; /* the norms alone prove that one */
    expect(c, TWIN_DIFFER, "outside the tolerance: optimizer/weight/w at step 7");
}

/* Single numbers are kept exactly, and need no sketch. */
static void after_the_last_step(void **state)
{
    (void)state;
    struct change c = all_sketched();
    c.result = 1e-3f;
    expect(c, TWIN_WITHIN_TOLERANCE, NULL);
    c.result = 1;
    expect(c, TWIN_DIFFER, "outside the tolerance: output/value/result at step 10");
    c.result = 1;
    c.factor[2] = 1 + 1e-5f; /* the first difference is inside */
    expect(c, TWIN_DIFFER, "outside the tolerance: output/value/result at step 10");
    c.result = 1e-3f;
    expect(c, TWIN_WITHIN_TOLERANCE, NULL);
}

static void what_cannot_be_measured(void **state)
{
    (void)state;
    struct change c = all_sketched();
    c.factor[2] = 1 + 1e-5f;
    c.nan = true;
    expect(c, TWIN_WITHIN_TOLERANCE, NULL);
    c.factor[3] = 1 + 1e-5f; /* a NaN hides how far the rest is apart */
    expect(c, TWIN_DIFFER, "not judged by the tolerance: optimizer/weight/w at step 3");
    c = all_sketched();
    c.factor[2] = 1 + 1e-5f;
    c.left_out = true;
    expect(c, TWIN_DIFFER,
           "outside the tolerance: forward/loss/loss at step 4: missing or of another shape in one "
           "run");
    c = all_sketched();
    c.factor[2] = 1 + 1e-5f;
    c.turned_round = true;
    expect(c, TWIN_DIFFER, "outside the tolerance: forward/loss/loss at step 5");
}

/* One rank alone, one value that is none any more in one run. */
static void other_ranks_and_new_nans(void **state)
{
    (void)state;
    struct change c = all_sketched();
    c.ranks = 3;
    c.rank = 2;
    c.factor[4] = 1 + 1e-5f;
    expect(c, TWIN_WITHIN_TOLERANCE, "1 difference measured");
    c.factor[STEPS - 1] = 1.1f;
    expect(c, TWIN_DIFFER, "outside the tolerance: optimizer/weight/w at step 9");
    c.factor[STEPS - 1] = 0;
    c.sketched[4] = false;
    expect(c, TWIN_DIFFER,
           "not judged by the tolerance: optimizer/weight/w at step 4 has no sketch");
    c.sketched[4] = true;
    c.nan_in_one = true;
    expect(c, TWIN_DIFFER, "outside the tolerance: optimizer/weight/w at step 6");
}

/* The file's one rule, for a test. */
static void with_rule(const char *rule)
{
    char text[300];
    snprintf(text, sizeof text, "[[tolerance]]\n%s\nreason = \"a test\"\n", rule);
    assert_int_equal(tw_write_file_atomic(policy, text, strlen(text), NULL), 0);
}

static void rules_that_do_not_fit(void **state)
{
    (void)state;
    struct change c = all_sketched();
    c.factor[2] = 1 + 1e-5f;
    with_rule("pattern = \"forward/*\"\nrel_l2 = 1e-3");
    expect(c, TWIN_DIFFER,
           "outside the tolerance: optimizer/weight/w at step 2: no rule covers it");
    with_rule("pattern = \"*\"\nulp = 1e6");
    expect(c, TWIN_DIFFER,
           ", allowed ulp 1e+06 (ulp is for single numbers: give a tensor rel_l2 or rtol)");
    with_rule("pattern = \"*\"\nrel_l2 = 1e-3");
    expect(c, TWIN_WITHIN_TOLERANCE, NULL);
}

/*
 * A step of more records than are read, and what is behind them differs: not judged, so not inside.
 */
static void records_beyond_the_limit(void **state)
{
    (void)state;
    size_t limit = tw_view_limit;
    struct change c = all_sketched();
    c.factor[2] = 1 + 1e-5f;
    tw_view_limit = 4;
    expect(c, TWIN_WITHIN_TOLERANCE, NULL);
    tw_view_limit = 3;
    expect(c, TWIN_DIFFER,
           "outside the tolerance: step 2 has more records than are read, which cannot be judged");
    tw_view_limit = limit;
}

static void limit_of_steps(void **state)
{
    (void)state;
    uint64_t limit = tw_judge_limit;
    struct change c = all_sketched();
    for (int i = 0; i < 6; i++)
        c.factor[i] = 1 + 1e-5f;
    tw_judge_limit = 6;
    /* what follows the last step is left */
    expect(c, TWIN_DIFFER, "from step 10 on, after 6 differing steps, none");
    tw_judge_limit = 7;
    expect(c, TWIN_WITHIN_TOLERANCE, NULL);
    tw_judge_limit = 3;
    expect(c, TWIN_DIFFER, "from step 3 on, after 3 differing steps, none");
    tw_judge_limit = limit;
}

/* Whatever keeps a verdict from being "same" keeps it from being "within tolerance": also in steps
 * that do not differ. */
static void what_same_needs(void **state)
{
    (void)state;
    struct change c = all_sketched();
    c.factor[2] = 1 + 1e-5f;
    c.unread = true;
    expect(c, TWIN_DIFFER,
           "not judged by the tolerance: 1 records of rank 0 whose contents could not be read");
    c.unread = false;
    c.unread_in_one = true;
    expect(c, TWIN_DIFFER,
           "not judged by the tolerance: step 8 has records that could not be read, or whose order "
           "among threads is not known");
    c.unread_in_one = false;
    c.no_batch = true;
    expect(c, TWIN_DIFFER, "not judged by the tolerance: batches or inputs: at no step");
}

static void nothing_to_judge(void **state)
{
    (void)state;
    const struct twin_compare_options none = {0};
    struct twin_verdict v = {0};
    struct tw_cmp c = {.o = &none, .v = &v};
    struct tw_judged j = {.worst = -1};
    assert_false(tw_judged_inside(&c, &j));
    assert_int_equal(c.notes.n, 1);
    assert_string_equal(c.notes.s[0],
                        "not judged by the tolerance: no difference that it could be held against");
    tw_texts_free(&c.notes);
}

/* Without a tolerance: what one run could not read may be another value. */
static void read_in_one_run_only(void **state)
{
    (void)state;
    struct change plain = all_sketched(), c = plain;
    c.unread_in_one = true;
    struct synth *a = job(&plain), *b = job(&c);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(
        has_unseen(v, "step 8 of rank 0: the contents of 1 record could be read in one run only"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* How the runs ended is no value, and no tolerance covers it. */
static void runs_that_failed(void **state)
{
    (void)state;
    struct change plain = all_sketched(), c = plain;
    c.factor[2] = 1 + 1e-5f;
    for (int outcome = 0; outcome < 2; outcome++) {
        struct synth *s[2] = {job(&plain), job(&c)};
        for (int i = 0; i < 2; i++) {
            synth_run(s[i])->exit_code = outcome == 0 ? 3 : 0;
            synth_run(s[i])->outcome = outcome == 0 ? TWIN_RUN_EXITED : TWIN_RUN_INTERRUPTED;
        }
        struct twin_verdict *v = compare(s[0], s[1], by_policy());
        expect_outcome(v, TWIN_DIFFER);
        assert_true(has_note(
            v, outcome == 0 ? "not judged by the tolerance: run 1 failed (exit code 3)"
                            : "not judged by the tolerance: run 1 was interrupted after 10 steps"));
        twin_verdict_free(v);
        synth_free(s[0]);
        synth_free(s[1]);
    }
}

/* Every run is held against the first, once: what sorting them into classes compares counts for no
 * rule. */
static void each_row_once(void **state)
{
    (void)state;
    enum { RUNS = 4 };
    struct synth *s[RUNS];
    const struct twin_run *runs[RUNS];
    struct twin_verdict *v = NULL;
    for (int late = 0; late < 2; late++) {
        for (int i = 0; i < RUNS; i++) {
            struct change c = all_sketched();
            for (int k = 0; k < i; k++)
                c.factor[k] = 1 + 1e-5f * (float)i;
            c.factor[9] = late && i == RUNS - 1 ? 1.1f : 0;
            s[i] = job(&c);
            runs[i] = synth_done(s[i]);
        }
        assert_int_equal(twin_compare(runs, RUNS, by_policy(), &v, NULL), 0);
        expect_outcome(v, late ? TWIN_DIFFER : TWIN_WITHIN_TOLERANCE);
        assert_int_equal(v->rules[0].matched, late ? 7 : 6);
        assert_int_equal(v->rules[0].measured, 6);
        assert_int_equal(v->rules[0].outside, late);
        assert_true(
            has_note(v, late ? "outside the tolerance: optimizer/weight/w at step 9: relative L2"
                             : "; 6 differences measured"));
        assert_true(late == has_note(v, "outside"));
        twin_verdict_free(v);
        for (int i = 0; i < RUNS; i++)
            synth_free(s[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_is_measured), cmocka_unit_test(without_a_sketch),
        cmocka_unit_test(after_the_last_step),    cmocka_unit_test(what_cannot_be_measured),
        cmocka_unit_test(rules_that_do_not_fit),  cmocka_unit_test(records_beyond_the_limit),
        cmocka_unit_test(limit_of_steps),         cmocka_unit_test(other_ranks_and_new_nans),
        cmocka_unit_test(what_same_needs),        cmocka_unit_test(runs_that_failed),
        cmocka_unit_test(read_in_one_run_only),   cmocka_unit_test(nothing_to_judge),
        cmocka_unit_test(each_row_once),
    };
    return cmocka_run_group_tests(tests, write_policy, remove_policy);
}
