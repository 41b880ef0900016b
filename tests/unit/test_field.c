/* SPDX-License-Identifier: Apache-2.0 */
/* How far every tensor is apart at every step, and what runs recorded as numbers: against what was
 * put into two runs by hand. */
#include "src/compare/field.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "synth.h"

enum { STEPS = 20, PART = 7 };

/* Of run 1 the loss differs from step PART on by `step` parts in 10^6; "gone" is there in run 0
 * only in step 3; "bad" is NaN in step 9. */
static void job(struct twin_writer *w, int run, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        float loss = 2 * (1 + (run && i >= PART ? (float)i * 1e-6f : 0));
        float same[4] = {1, 2, 3, (float)i};
        float grad[2] = {3, 4};
        float bad = run && i == 9 ? NAN : 1;
        float draw = (float)run;
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_OPTIMIZER, .kind = TWIN_KIND_WEIGHT, .name = "w"},
                  same, 4);
        synth_put(
            w,
            (struct synth_record){.phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "x"},
            same, 4);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_LOSS, .name = "loss"},
                  &loss, 1);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_VALUE, .name = "bad"},
                  &bad, 1);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_VALUE, .name = "ignored"},
                  &draw, 1);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_BACKWARD, .kind = TWIN_KIND_GRADIENT, .name = "g"},
                  grad, 2);
        if (run == 0 && i == 3)
            synth_put(w,
                      (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                            .kind = TWIN_KIND_ACTIVATION,
                                            .name = "gone"},
                      same, 4);
        twin_writer_step_end(w);
    }
}

static struct synth *a_run(int run, uint32_t steps)
{
    struct synth *s = synth_new(run ? "b" : "a");
    job(synth_process(s, 0, 1, NULL), run, steps);
    synth_done(s);
    return s;
}

static const char *const ignored[] = {"forward/value/ignored"};
static const struct twin_compare_options options = {.ignore = ignored, .ignore_count = 1};

static const uint16_t *row(const struct twin_field *f, const char *name)
{
    for (size_t i = 0; i < f->rows; i++)
        if (strcmp(f->row[i].name, name) == 0)
            return &f->cell[i * f->steps];
    fail_msg("no row %s", name);
    return NULL;
}

static void every_cell(void **state)
{
    (void)state;
    struct synth *a = a_run(0, STEPS), *b = a_run(1, STEPS);
    struct twin_field f;
    assert_int_equal(twin_compare_field(synth_run(a), synth_run(b), &options, PART, 0, &f, NULL),
                     0);
    assert_int_equal(f.steps, STEPS);
    assert_int_equal(f.steps_all, STEPS);
    assert_int_equal(f.rows, 7);
    assert_int_equal(f.rows_all, 7);
    /* as a step flows, not as recorded */
    const char *const order[] = {"x", "gone", "loss", "bad", "ignored", "g", "w"};
    size_t at[7];
    for (size_t i = 0; i < 7; i++)
        at[i] = (size_t)(row(&f, order[i]) - f.cell);
    assert_true(at[0] < at[1] && at[0] < at[2] && at[2] < at[5] && at[5] < at[6]);
    for (uint32_t i = 0; i < STEPS; i++) {
        assert_int_equal(f.step[i], i);
        assert_int_equal(row(&f, "x")[i], TWIN_CELL_EQUAL);
        assert_int_equal(row(&f, "w")[i], TWIN_CELL_EQUAL);
        assert_int_equal(row(&f, "ignored")[i], TWIN_CELL_LEFT_OUT);
        assert_int_equal(row(&f, "gone")[i], i == 3 ? TWIN_CELL_ONE_SIDE : TWIN_CELL_NONE);
        assert_int_equal(row(&f, "bad")[i], i == 9 ? TWIN_CELL_NOT_FINITE : TWIN_CELL_EQUAL);
        float x = 2, y = 2 * (1 + (float)i * 1e-6f);
        if (i < PART)
            assert_int_equal(row(&f, "loss")[i], TWIN_CELL_EQUAL);
        else
            assert_true(fabs(twin_cell_value(row(&f, "loss")[i]) / (((double)y - x) / x) - 1) <
                        .002);
    }
    assert_false(f.estimated);
    twin_field_free(&f);
    synth_free(a);
    synth_free(b);
}

static void steps_are_chosen_when_there_are_many(void **state)
{
    (void)state;
    struct synth *a = a_run(0, 1000), *b = a_run(1, 1000);
    struct twin_field f;
    assert_int_equal(twin_compare_field(synth_run(a), synth_run(b), &options, 500, 700, &f, NULL),
                     0);
    assert_int_equal(f.steps_all, 1000);
    assert_true(f.steps >= 100 && f.steps <= 200);
    assert_int_equal(f.step[0], 0);
    assert_int_equal(f.step[f.steps - 1], 999);
    bool close[64] = {false};
    for (size_t i = 0; i < f.steps; i++) {
        assert_true(i == 0 || f.step[i] > f.step[i - 1]);
        if (f.step[i] >= 492 && f.step[i] < 556)
            close[f.step[i] - 492] = true;
    }
    for (int i = 0; i < 64; i++)
        assert_true(close[i]);
    /* as many rows as there is room for, and of them those that differ */
    assert_int_equal(f.rows_all, 6); /* "gone" is in step 3, which is not looked at */
    assert_true(f.rows < 6 && f.rows * f.steps <= 700 + f.steps);
    row(&f, "loss");
    twin_field_free(&f);
    synth_free(a);
    synth_free(b);
}

static void runs_of_other_sizes_have_none(void **state)
{
    (void)state;
    struct synth *a = a_run(0, 5), *b = synth_new("two");
    struct twin_field f;
    job(synth_process(b, 0, 2, NULL), 1, 5);
    job(synth_process(b, 1, 2, NULL), 1, 5);
    synth_done(b);
    assert_int_equal(twin_compare_field(synth_run(a), synth_run(b), NULL, UINT32_MAX, 0, &f, NULL),
                     0);
    assert_int_equal(f.rows, 0);
    twin_field_free(&f);
    synth_free(b);
    b = a_run(1, 0);
    assert_int_equal(twin_compare_field(synth_run(a), synth_run(b), NULL, UINT32_MAX, 0, &f, NULL),
                     0);
    assert_int_equal(f.steps, 0);
    twin_field_free(&f);
    synth_free(a);
    synth_free(b);
}

/* Two ranks of 9,000 names each, of which the last name of the last rank differs: more rows than
 * are kept, and that one is there. */
static struct synth *many_names(int run)
{
    struct synth *s = synth_new(run ? "many-b" : "many-a");
    for (int rank = 0; rank < 2; rank++) {
        struct twin_writer *w = synth_process(s, rank, 2, NULL);
        for (int step = 0; step < 2; step++) {
            for (int i = 0; i < 9000; i++) {
                char name[32];
                const float x = (float)(i + step + (run && rank && step && i == 8999));
                snprintf(name, sizeof name, "t%d", i);
                synth_put(w,
                          (struct synth_record){
                              .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_VALUE, .name = name},
                          &x, 1);
            }
            twin_writer_step_end(w);
        }
    }
    synth_done(s);
    return s;
}

static void what_differs_is_kept_of_very_many_rows(void **state)
{
    (void)state;
    struct synth *a = many_names(0), *b = many_names(1);
    struct twin_field f;
    assert_int_equal(twin_compare_field(synth_run(a), synth_run(b), NULL, 1, 0, &f, NULL), 0);
    assert_true(f.rows < 18000 && f.rows_all >= 18000);
    size_t differing = 0;
    for (size_t i = 0; i < f.rows; i++) {
        if (!f.row[i].differs)
            continue;
        differing++;
        assert_int_equal(f.row[i].rank, 1);
        assert_string_equal(f.row[i].name, "t8999");
        assert_int_equal(f.cell[i * f.steps], TWIN_CELL_EQUAL);
        assert_true(f.cell[i * f.steps + 1] >= TWIN_CELL_DIFFERS);
    }
    assert_int_equal(differing, 1);
    twin_field_free(&f);
    synth_free(a);
    synth_free(b);
}

static void recorded_numbers(void **state)
{
    (void)state;
    struct synth *a = a_run(0, STEPS), *b = a_run(1, STEPS);
    const struct twin_run *runs[] = {synth_run(a), synth_run(b)};
    struct twin_curves c;
    assert_int_equal(twin_compare_curves(runs, 2, &c, NULL), 0);
    assert_int_equal(c.count, 10); /* loss, bad, ignored, gradients, weights; each of two runs */
    assert_int_equal(c.unread, 0);
    assert_string_equal(c.curve[0].name, "loss");
    for (size_t i = 0; i < c.count; i++) {
        const struct twin_curve *k = &c.curve[i];
        assert_int_equal(k->steps, STEPS);
        assert_int_equal(k->run, i % 2);
        assert_int_equal(k->not_finite, k->run == 1 && strcmp(k->name, "bad") == 0);
        for (uint32_t s = 0; s < STEPS; s++) {
            float loss = 2 * (1 + (k->run && s >= PART ? (float)s * 1e-6f : 0));
            double want = k->kind == TWIN_CURVE_LOSS       ? loss
                          : k->kind == TWIN_CURVE_GRADIENT ? 5
                          : k->kind == TWIN_CURVE_WEIGHT   ? sqrt(14 + (double)s * s)
                          : strcmp(k->name, "bad") == 0    ? (k->run && s == 9 ? NAN : 1)
                                                           : (double)k->run;
            assert_true(isnan(want) ? isnan(k->y[s]) : k->y[s] == want);
        }
    }
    twin_curves_free(&c);
    synth_free(a);
    synth_free(b);
}

/* A gradient that a line of the job wrote stands beside the one that the backward left: only this
 * one is in the curve. */
static void written_gradients(void **state)
{
    (void)state;
    const float left[2] = {3, 4}, written[2] = {30, 40};
    struct synth *s = synth_new("written");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    synth_put(w,
              (struct synth_record){
                  .phase = TWIN_PHASE_BACKWARD, .kind = TWIN_KIND_GRADIENT, .name = "g"},
              left, 2);
    synth_put(w,
              (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                                    .kind = TWIN_KIND_GRADIENT,
                                    .name = "g",
                                    .op = "written"},
              written, 2);
    twin_writer_step_end(w);
    const struct twin_run *run = synth_done(s);
    struct twin_curves c;
    assert_int_equal(twin_compare_curves(&run, 1, &c, NULL), 0);
    assert_int_equal(c.count, 1);
    assert_int_equal(c.curve[0].kind, TWIN_CURVE_GRADIENT);
    assert_true(c.curve[0].y[0] == 5);
    twin_curves_free(&c);
    synth_free(s);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    struct synth *a = a_run(0, 6), *b = a_run(1, 12);
    const struct twin_run *runs[] = {synth_run(a), synth_run(b)};
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        struct twin_field f = {0};
        struct twin_curves c = {0};
        uint64_t before = tw_alloc_count();
        tw_alloc_fail_at(n, false);
        int rc = twin_compare_field(runs[0], runs[1], &options, 2, 0, &f, NULL);
        int rc2 = rc == 0 ? twin_compare_curves(runs, 2, &c, NULL) : 0;
        done = rc == 0 && rc2 == 0 && tw_alloc_count() - before < n;
        tw_alloc_fail_at(0, false);
        assert_true(rc == 0 || (rc < 0 && f.rows == 0 && !f.cell));
        assert_true(rc2 == 0 || (rc2 < 0 && c.count == 0 && !c.curve));
        twin_field_free(&f);
        twin_curves_free(&c);
    }
    synth_free(a);
    synth_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell),
        cmocka_unit_test(steps_are_chosen_when_there_are_many),
        cmocka_unit_test(runs_of_other_sizes_have_none),
        cmocka_unit_test(what_differs_is_kept_of_very_many_rows),
        cmocka_unit_test(recorded_numbers),
        cmocka_unit_test(written_gradients),
        cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
