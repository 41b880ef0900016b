/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a zoom pair, each sentence provoked by a pair of reruns in which it is true, and
 * compared as a whole. */
#include "compare_test.h"

/* A record of one step of a rerun. Which of them differ, and which one run alone has, makes the
 * scene. */
struct mark {
    const char *name, *op; /* "aten::mul.out0" of "aten::mul" */
    bool differs, unseen;
    int only; /* 1, 2: in this run alone; 0: in both */
    const char *scope;
};

#define END {.name = NULL}
#define MARKS 8

static enum twin_kind kind_of(const struct mark *m)
{
    if (!m->op)
        return TWIN_KIND_WEIGHT;
    return strstr(m->name, ".in") ? TWIN_KIND_IN : TWIN_KIND_OUT;
}

static struct synth *rerun(const struct mark *marks, int number)
{
    struct synth *s = synth_new("rerun");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    for (int step = 0; step < 2; step++) {
        for (const struct mark *m = marks; m->name; m++) {
            const float x[4] = {1, 2, 3, m->differs && number == 2 && step == 1 ? 5 : 4};
            if (m->only && (m->only != number || step == 0))
                continue;
            synth_put(
                w,
                (struct synth_record){.phase = m->op ? TWIN_PHASE_KERNEL : TWIN_PHASE_OPTIMIZER,
                                      .kind = kind_of(m),
                                      .name = m->name,
                                      .scope = m->scope ? m->scope : "Net",
                                      .op = m->op,
                                      .site = "net.py:7 in forward",
                                      .flags = m->unseen ? TWIN_REC_UNOBSERVED : 0},
                x, 4);
        }
        twin_writer_step_end(w);
    }
    return s;
}

/* Runs that part in a gradient of that step, and a zoom pair in which the marks show what happens
 * in step 1. */
static struct twin_verdict *zoomed(uint32_t step, const struct mark *marks)
{
    struct synth_model m[2];
    struct synth *s[2], *z[2];
    for (int i = 0; i < 2; i++) {
        synth_model_init(&m[i], 5);
        m[i].disturb[0].place = AT_GRADIENT;
        m[i].disturb[0].step = step;
        m[i].disturb[0].by = i ? 1e-4f : 0;
        m[i].disturbances = 1;
        s[i] = synth_train_run("run", &m[i]);
        z[i] = rerun(marks, i + 1);
    }
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_compare_zoom(v, synth_done(z[0]), synth_done(z[1]), &err) != 0)
        fail_msg("%s", err.message);
    for (int i = 0; i < 2; i++) {
        synth_free(s[i]);
        synth_free(z[i]);
    }
    return v;
}

static void expect_role(struct twin_verdict *v, enum twin_role role, const char *from,
                        const char *to)
{
    assert_int_equal(v->first->role, role);
    if (role == TWIN_ROLE_UNKNOWN) {
        assert_string_equal(v->first->between[0], from);
        assert_string_equal(v->first->between[1], to);
    }
    twin_verdict_free(v);
}

static void an_operation_made_it(void **state)
{
    (void)state;
    const struct mark m[MARKS] = {{"aten::mul.in0", "aten::mul"},
                                  {"aten::mul.in1", "aten::mul"},
                                  {"aten::mul.out0", "aten::mul", true},
                                  END};
    struct twin_verdict *v = zoomed(1, m);
    expect_note(
        v,
        "zoom: aten::mul got equal inputs and gave another output (2 inputs, each compared whole)");
    expect_role(v, TWIN_ORIGIN, NULL, NULL);
}

static void memory_that_nobody_wrote(void **state)
{
    (void)state;
    const struct mark m[MARKS] = {{"aten::empty.out0", "aten::empty", true},
                                  {"aten::mul.in0", "aten::mul", true},
                                  {"aten::mul.out0", "aten::mul", true},
                                  END};
    struct twin_verdict *v = zoomed(1, m);
    expect_note(v, "zoom: aten::empty gave memory that was used before anything was written to it");
    expect_role(v, TWIN_ORIGIN, NULL, NULL);
}

static void an_input_that_was_not_seen(void **state)
{
    (void)state;
    const struct mark part[MARKS] = {
        {"aten::mul.in0", "aten::mul", .unseen = true}, {"aten::mul.out0", "aten::mul", true}, END};
    const struct mark none[MARKS] = {{"aten::mul.out0", "aten::mul", true}, END};
    struct twin_verdict *v = zoomed(1, part);
    expect_note(v, "zoom: aten::mul gave another output, but not all that it was given was seen: "
                   "aten::mul.in0 (an input that was not seen whole)");
    expect_role(v, TWIN_ROLE_UNKNOWN, "aten::mul.in0 (an input that was not seen whole)",
                "aten::mul of step 1");
    v = zoomed(1, none);
    expect_note(v, "zoom: aten::mul gave another output, but not all that it was given was seen: "
                   "the arguments of aten::mul, which were not seen");
    expect_role(v, TWIN_ROLE_UNKNOWN, "the arguments of aten::mul, which were not seen",
                "aten::mul of step 1");
}

static void an_input_from_elsewhere(void **state)
{
    (void)state;
    const struct mark second[MARKS] = {{"aten::add.in0", "aten::add"},
                                       {"aten::add.out0", "aten::add"},
                                       {"aten::mul.in0", "aten::mul", true},
                                       {"aten::mul.out0", "aten::mul", true},
                                       END};
    const struct mark first[MARKS] = {
        {"aten::mul.in0", "aten::mul", true}, {"aten::mul.out0", "aten::mul", true}, END};
    struct twin_verdict *v = zoomed(1, second);
    expect_note(v, "zoom: an input of aten::mul differs, although every operation before it "
                   "agreed: what made it lies between aten::add of step 1 and aten::mul");
    expect_role(v, TWIN_ROLE_UNKNOWN, "aten::add of step 1", "aten::mul of step 1");
    v = zoomed(1, first);
    expect_note(v, "zoom: an input of aten::mul differs, although every operation before it "
                   "agreed: what made it lies between the beginning of the step and aten::mul");
    expect_role(v, TWIN_ROLE_UNKNOWN, "the end of step 0", "aten::mul of step 1");
}

static void a_call_of_one_run_alone(void **state)
{
    (void)state;
    const struct mark m[MARKS] = {{"aten::add.in0", "aten::add"},
                                  {"aten::add.out0", "aten::add"},
                                  {"aten::relu.in0", "aten::relu", .only = 2},
                                  {"aten::relu.out0", "aten::relu", .only = 2},
                                  END};
    struct twin_verdict *v = zoomed(1, m);
    expect_note(v, "zoom: aten::relu was called only in run 2; all that was seen before it in this "
                   "step agrees");
    expect_role(v, TWIN_ROLE_UNKNOWN, "aten::add of step 1", "aten::relu of step 1");
}

/* Both made that call, one for another module (or in another thread): neither made it alone, and
 * what differs behind it is named. Where one made it twice, both numbers are said. */
static void a_call_that_both_runs_made_is_of_neither_alone(void **state)
{
    (void)state;
    struct mark m[MARKS] = {{"aten::add.in0", "aten::add"},
                            {"aten::add.out0", "aten::add"},
                            {"aten::relu.out0", "aten::relu", .only = 1, .scope = "one"},
                            {"aten::relu.out0", "aten::relu", .only = 2, .scope = "two"},
                            {"aten::mul.in0", "aten::mul", true},
                            {"aten::mul.out0", "aten::mul", true},
                            END};
    struct twin_verdict *v = zoomed(1, m);
    assert_false(has_note(v, "was called"));
    expect_note(v, "zoom: an input of aten::mul differs, although every operation before it "
                   "agreed: what made it lies between aten::add of step 1 and aten::mul");
    expect_role(v, TWIN_ROLE_UNKNOWN, "aten::add of step 1", "aten::mul of step 1");
    m[6] = m[3]; /* once more, behind all */
    m[7] = (struct mark)END;
    v = zoomed(1, m);
    expect_note(v, "zoom: aten::relu was called 1 time in run 1 and 2 times in run 2; all that was "
                   "seen before it in this step agrees");
    expect_role(v, TWIN_ROLE_UNKNOWN, "aten::add of step 1", "aten::relu of step 1");
}

static void the_reruns_part_elsewhere(void **state)
{
    (void)state;
    const struct mark m[MARKS] = {
        {"aten::mul.in0", "aten::mul"}, {"aten::mul.out0", "aten::mul", true}, END};
    struct twin_verdict *v = zoomed(3, m);
    expect_note(v, "zoom: the reruns diverged at step 1 (the runs at step 3)");
    expect_note(v, "in the runs themselves, which recorded no operations, the first that differs "
                   "is backward/gradient embed.weight of step 3");
    assert_int_equal(v->first->step_a, 1);
    twin_verdict_free(v);
}

static void no_operation_shows_it(void **state)
{
    (void)state;
    const struct mark differs[MARKS] = {
        {"aten::mul.in0", "aten::mul"}, {"aten::mul.out0", "aten::mul"}, {"w", NULL, true}, END};
    const struct mark equal[MARKS] = {
        {"aten::mul.in0", "aten::mul"}, {"aten::mul.out0", "aten::mul"}, {"w", NULL}, END};
    struct twin_verdict *v = zoomed(1, differs);
    expect_note(v, "zoom: diverged again, but not in an operation that was seen");
    twin_verdict_free(v);
    v = zoomed(1, equal);
    expect_note(v, "zoom: did not diverge again at operation level");
    twin_verdict_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_made_it),
        cmocka_unit_test(memory_that_nobody_wrote),
        cmocka_unit_test(an_input_that_was_not_seen),
        cmocka_unit_test(an_input_from_elsewhere),
        cmocka_unit_test(a_call_of_one_run_alone),
        cmocka_unit_test(a_call_that_both_runs_made_is_of_neither_alone),
        cmocka_unit_test(the_reruns_part_elsewhere),
        cmocka_unit_test(no_operation_shows_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
