/* SPDX-License-Identifier: Apache-2.0 */
/* Transplanted runs: every origin with its rate over the steps that started equal. What differs is
 * put there by hand. */
#include "src/compare/compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "compare_test.h"

enum { BATCH = 1, DRAW = 2, OUTPUT = 4, LOCAL = 8, GRADIENT = 16, WEIGHT = 32, FIRST_STATE = 64 };
#define AFTER_DRAW (DRAW | OUTPUT | GRADIENT | WEIGHT)

/* What differs from the recorded run, per step (bits of the above). */
struct scene {
    unsigned differs[8], steps;
    const char *notes[4][2];
    bool local, two_gradients;
};

static void put(struct twin_writer *w, enum twin_phase phase, enum twin_kind kind, const char *name,
                const char *op, unsigned differs, unsigned bit, unsigned step)
{
    float x[4] = {1, 2, 3, (float)step};
    x[0] += differs & bit ? 0.5f : 0;
    synth_put(w,
              (struct synth_record){.phase = phase,
                                    .kind = kind,
                                    .name = name,
                                    .scope = "Net",
                                    .op = op,
                                    .site = "train.py:7 in step"},
              x, 4);
}

static void write_process(struct synth *s, int rank, int world, const struct scene *scene)
{
    struct twin_writer *w = synth_process(s, rank, world, NULL);
    for (unsigned step = 0; step < scene->steps; step++) {
        unsigned d = scene->differs[step];
        if (step == 0)
            put(w, TWIN_PHASE_INIT, TWIN_KIND_STATE, "torch.cpu", "", d, FIRST_STATE, step);
        put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch[0]", "", d, BATCH, step);
        put(w, TWIN_PHASE_RNG, TWIN_KIND_STATE, "torch.cpu", "Dropout", d, DRAW, step);
        put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "output", "Net", d, OUTPUT, step);
        if (scene->local)
            put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT_LOCAL, "a.weight", "", d, LOCAL, step);
        put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "a.weight", "", d, GRADIENT, step);
        if (scene->two_gradients)
            put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "b.weight", "", d, GRADIENT, step);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "a.weight", "SGD", d, WEIGHT, step);
        twin_writer_step_end(w);
    }
    for (size_t i = 0; i < 4 && scene->notes[i][0]; i++)
        twin_writer_note(w, scene->notes[i][0], scene->notes[i][1]);
}

static const struct scene equal8 = {.steps = 8}, equal8_local = {.steps = 8, .local = true};

static bool natural_runs_part; /* what the verdict says before any transplanted run is judged */

/* Judges transplanted runs of `world` processes each; rc of the comparison in *rc. */
static struct twin_verdict *judged(enum twin_transplant_kind kind, const struct scene *recorded,
                                   const struct scene *const *given, size_t runs, int world,
                                   int *rc)
{
    struct synth *s[4];
    const struct twin_run *run[4];
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    for (size_t i = 0; i <= runs; i++) {
        s[i] = synth_new("run");
        for (int rank = 0; rank < world; rank++)
            write_process(s[i], rank, world,
                          i ? given[(i - 1) * (size_t)world + (size_t)rank] : recorded);
        run[i] = synth_done(s[i]);
    }
    /* the natural verdict: nothing parted */
    assert_int_equal(twin_compare(run, 1, NULL, &v, NULL), 0);
    if (natural_runs_part)
        v->outcome = v->bitwise = TWIN_DIFFER;
    struct twin_transplant_options o = {.kind = kind, .first = 0, .last = UINT32_MAX - 1};
    *rc = twin_compare_transplant(v, run, runs + 1, &o, &err);
    if (*rc)
        assert_true(strlen(err.message) > 0);
    for (size_t i = 0; i <= runs; i++)
        synth_free(s[i]);
    return v;
}

static void check_origin(const struct twin_origin *o, const char *layer, const char *name,
                         uint64_t k, uint64_t n, uint32_t first)
{
    assert_string_equal(o->finding->layer, layer);
    assert_string_equal(o->finding->name, name);
    assert_int_equal(o->steps_differing, k);
    assert_int_equal(o->steps, n);
    assert_int_equal(o->finding->step_a, first);
    assert_int_equal(o->finding->role, TWIN_ORIGIN);
}

#define BEGAN {"transplant.began", "step 0"}

static void two_causes_are_told_apart_in_one_pass(void **state)
{
    (void)state;
    int rc;
    const struct scene given = {
        .steps = 8,
        .differs = {[2] = GRADIENT | WEIGHT,
                    [3] = AFTER_DRAW,
                    [5] = GRADIENT | WEIGHT,
                    [6] = GRADIENT | WEIGHT},
        .notes = {BEGAN,
                  {"transplant.left_out", "6 a.weight is there in one of the two runs only"}}};
    const struct scene *const runs[] = {&given};
    struct twin_verdict *v = judged(TWIN_TRANSPLANT_STEP, &equal8, runs, 1, 1, &rc);
    const struct twin_transplant *t = v->transplant;
    assert_int_equal(rc, 0);
    assert_int_equal(t->steps, 8);
    assert_int_equal(t->left_out, 1);
    assert_int_equal(t->unequal, 0);
    assert_int_equal(t->origin_count, 2);
    check_origin(&t->origin[0], "backward", "a.weight", 2, 7, 2);
    check_origin(&t->origin[1], "rng", "torch.cpu", 1, 7, 3);
    /*
     * scipy.stats.binomtest(2, 7).proportion_ci(): 0.036692..0.709579; (1, 7): 0.003610..0.578723
     */
    assert_true(t->origin[0].low > .03669 && t->origin[0].low < .03670 &&
                t->origin[0].high > .70957 && t->origin[0].high < .70959);
    assert_true(t->origin[1].low > .00360 && t->origin[1].low < .00362 &&
                t->origin[1].high > .57872 && t->origin[1].high < .57873);
    assert_false(t->stopped);
    assert_int_equal(v->outcome, TWIN_DIFFER);
    assert_string_equal(v->first->name, "a.weight");
    expect_note(v, "1 of 8 steps could not be transplanted and are not judged");
    expect_note(v, "the two natural runs agreed; it was the transplanted ones that diverged");
    twin_verdict_free(v);
}

static void steps_of_several_runs_add_up(void **state)
{
    (void)state;
    int rc;
    const struct scene one = {.steps = 8,
                              .differs = {[1] = GRADIENT | WEIGHT, [2] = GRADIENT | WEIGHT},
                              .notes = {BEGAN}};
    const struct scene two = {.steps = 5, .notes = {BEGAN}};
    const struct scene *const runs[] = {&one, &two};
    struct twin_verdict *v = judged(TWIN_TRANSPLANT_STEP, &equal8, runs, 2, 1, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(v->transplant->origin_count, 1);
    check_origin(&v->transplant->origin[0], "backward", "a.weight", 2, 13, 1);
    assert_int_equal(v->transplant->origin[0].runs_differing, 1);
    twin_verdict_free(v);
}

static void batches_carry_the_divergence(void **state)
{
    (void)state;
    int rc;
    const struct scene given = {
        .steps = 4, .differs = {BATCH, BATCH, BATCH, BATCH}, .notes = {BEGAN}};
    const struct scene *const runs[] = {&given};
    for (enum twin_transplant_kind kind = TWIN_TRANSPLANT_DATA; kind <= TWIN_TRANSPLANT_STEP;
         kind += 2) {
        struct twin_verdict *v = judged(kind, &equal8, runs, 1, 1, &rc);
        assert_int_equal(rc, 0);
        assert_int_equal(v->transplant->origin_count, 1);
        check_origin(&v->transplant->origin[0], "data", "batch[0]", 4, 4, 0);
        assert_true(v->transplant->stopped);
        expect_note(v, "the divergence came through the batches: with the recorded ones in their "
                       "place every step agreed");
        twin_verdict_free(v);
    }
}

static void generators_carry_the_divergence(void **state)
{
    (void)state;
    int rc;
    const struct scene given = {.steps = 4, .differs = {FIRST_STATE}, .notes = {BEGAN}};
    const struct scene *const runs[] = {&given};
    struct twin_verdict *v = judged(TWIN_TRANSPLANT_RNG, &equal8, runs, 1, 1, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(v->transplant->origin_count, 1);
    check_origin(&v->transplant->origin[0], "rng", "torch.cpu", 1, 4, 0);
    assert_true(v->transplant->stopped);
    expect_note(v, "the divergence came through the generator states: with the recorded ones in "
                   "their place every step agreed");
    twin_verdict_free(v);
}

/* With batches alone, weights that parted once stay apart: later gradients say nothing, later
 * batches still do. */
static void weights_that_differ_already_are_not_judged(void **state)
{
    (void)state;
    int rc;
    const unsigned after = OUTPUT | GRADIENT | WEIGHT;
    const struct scene given = {
        .steps = 8,
        .differs =
            {[3] = GRADIENT | WEIGHT, [4] = after, [5] = after | BATCH, [6] = after, [7] = after},
        .notes = {BEGAN}};
    const struct scene *const runs[] = {&given};
    struct twin_verdict *v = judged(TWIN_TRANSPLANT_DATA, &equal8, runs, 1, 1, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(v->transplant->unequal, 4);
    expect_note(v,
                "4 of 8 steps started with weights or optimizer state that differed already: what "
                "they compute is not judged; --transplant step makes every step start equal");
    assert_int_equal(v->transplant->origin_count, 2);
    check_origin(&v->transplant->origin[0], "backward", "a.weight", 1, 4, 3);
    check_origin(&v->transplant->origin[1], "data", "batch[0]", 1, 8, 5);
    assert_false(v->transplant->stopped);
    twin_verdict_free(v);
}

/* A generator that differs since step 1 is the same origin in every later step, not a new one. */
static void a_state_that_differs_on_is_one_origin(void **state)
{
    (void)state;
    int rc;
    const struct scene given = {
        .steps = 4, .differs = {0, AFTER_DRAW, AFTER_DRAW, AFTER_DRAW}, .notes = {BEGAN}};
    const struct scene *const runs[] = {&given};
    struct twin_verdict *v = judged(TWIN_TRANSPLANT_DATA, &equal8, runs, 1, 1, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(v->transplant->origin_count, 1);
    check_origin(&v->transplant->origin[0], "rng", "torch.cpu", 1, 2, 1);
    twin_verdict_free(v);
}

static void one_rank_s_local_gradient_is_the_origin_on_all(void **state)
{
    (void)state;
    int rc;
    const struct scene zero = {.steps = 8,
                               .local = true,
                               .differs = {[2] = GRADIENT | WEIGHT, [5] = GRADIENT | WEIGHT},
                               .notes = {BEGAN}};
    const struct scene one = {.steps = 8,
                              .local = true,
                              .differs = {[2] = LOCAL | GRADIENT | WEIGHT, [5] = GRADIENT | WEIGHT},
                              .notes = {BEGAN}};
    const struct scene *const ranks[] = {&zero, &one};
    struct twin_verdict *v = judged(TWIN_TRANSPLANT_STEP, &equal8_local, ranks, 1, 2, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(v->transplant->origin_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct twin_origin *o = &v->transplant->origin[i];
        bool local = o->finding->kind == TWIN_KIND_GRADIENT_LOCAL;
        assert_int_equal(o->steps_differing, 1);
        assert_string_equal(o->finding->layer, local ? "backward" : "collective");
        assert_int_equal(o->finding->rank, local ? 1 : 0);
    }
    twin_verdict_free(v);
}

static void nothing_parts(void **state)
{
    (void)state;
    int rc;
    const struct scene given = {.steps = 8, .notes = {BEGAN}}, other = {.steps = 8};
    const struct scene *runs[] = {&given};
    struct twin_verdict *v = judged(TWIN_TRANSPLANT_STEP, &equal8, runs, 1, 1, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(v->transplant->origin_count, 0);
    assert_int_not_equal(v->outcome, TWIN_DIFFER);
    assert_false(v->transplant->stopped);
    twin_verdict_free(v);
    runs[0] = &other; /* was given nothing */
    v = judged(TWIN_TRANSPLANT_STEP, &equal8, runs, 1, 1, &rc);
    assert_int_equal(rc, TWIN_EINVAL);
    twin_verdict_free(v);
}

/* The recorded state of every step takes the divergence away, and no step makes one. */
static void the_runs_part_elsewhere(void **state)
{
    (void)state;
    int rc;
    const struct scene given = {.steps = 8, .notes = {BEGAN}};
    const struct scene *const runs[] = {&given, &given};
    natural_runs_part = true;
    struct twin_verdict *v = judged(TWIN_TRANSPLANT_STEP, &equal8, runs, 2, 1, &rc);
    natural_runs_part = false;
    assert_int_equal(rc, 0);
    assert_true(v->transplant->stopped);
    expect_note(
        v, "the runs diverge, but no step did that started equal: what makes them diverge acts "
           "before the first step, between steps, or more rarely than in 16 steps");
    twin_verdict_free(v);
}

/* Gradients have no order of their own: one of them stands for all. */
static void one_gradient_stands_for_the_others(void **state)
{
    (void)state;
    int rc;
    const struct scene plain = {.steps = 4, .two_gradients = true};
    const struct scene given = {
        .steps = 4, .two_gradients = true, .differs = {[2] = GRADIENT | WEIGHT}, .notes = {BEGAN}};
    const struct scene *const runs[] = {&given};
    struct twin_verdict *v = judged(TWIN_TRANSPLANT_STEP, &plain, runs, 1, 1, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(v->transplant->origin_count, 1);
    assert_string_equal(v->transplant->origin[0].finding->text, "with 1 more of its kind");
    twin_verdict_free(v);
}

static void kinds_have_names(void **state)
{
    (void)state;
    enum twin_transplant_kind k;
    assert_int_equal(twin_transplant_parse("rng", &k), 0);
    assert_int_equal(k, TWIN_TRANSPLANT_RNG);
    assert_string_equal(twin_transplant_name(TWIN_TRANSPLANT_STEP), "step");
    assert_int_equal(twin_transplant_parse("none", &k), TWIN_EINVAL);
    assert_int_equal(twin_transplant_parse("", &k), TWIN_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_causes_are_told_apart_in_one_pass),
        cmocka_unit_test(steps_of_several_runs_add_up),
        cmocka_unit_test(batches_carry_the_divergence),
        cmocka_unit_test(generators_carry_the_divergence),
        cmocka_unit_test(weights_that_differ_already_are_not_judged),
        cmocka_unit_test(a_state_that_differs_on_is_one_origin),
        cmocka_unit_test(one_rank_s_local_gradient_is_the_origin_on_all),
        cmocka_unit_test(nothing_parts),
        cmocka_unit_test(the_runs_part_elsewhere),
        cmocka_unit_test(one_gradient_stands_for_the_others),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
