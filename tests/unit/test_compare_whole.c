/* SPDX-License-Identifier: Apache-2.0 */
/* Large tensors that are recorded in parts: what one run has and the other has not, what makes "the
 * same", and what is said. */
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

#include "compare_test.h"

enum { PARTS = 4, LENGTH = 8 }; /* a weight of 32 elements, of which a step records 8 */

/* A job whose one weight grows by 1 in every element and step. */
struct job {
    uint32_t steps, start; /* start: its first step, of which the weight has grown by then */
    uint32_t turn;         /* added to the step's number to find the part whose turn it is */
    uint32_t whole;        /* first steps in which all parts are recorded */
    bool handed;           /* what is in parts is a result of a function, and no weight */
    bool no_end;           /* no look at all parts at the end of the process */
    uint32_t looks;        /* of a step, one part each; 0: one look */
    bool same_part;        /* which is the same one in all of them */
    bool end_inside;       /* the last step ends with a look at all parts */
    bool between;          /* between two looks something else is recorded */
    /* in this step the weight's element `bad` is another one; from 1, 0: never */
    uint32_t bad_step;
    int bad;
    const char *also; /* a second weight that this run has */
    float loss;       /* added to the loss of step 6 */
};

static void put_part(struct twin_writer *w, const struct job *j, enum twin_phase phase,
                     const char *base, uint32_t step, int part)
{
    float x[LENGTH];
    char name[64];
    const int64_t shape = LENGTH;
    const int from = part * LENGTH;
    for (int i = 0; i < LENGTH; i++)
        x[i] = (float)(from + i) + (float)step +
               (j->bad_step && step >= j->bad_step && from + i == j->bad ? 0.5f : 0);
    snprintf(name, sizeof name, "%s[%d:%d]", base, from, from + LENGTH);
    const bool handed = j->handed && phase == TWIN_PHASE_OPTIMIZER;
    const struct twin_series s = {.phase = (uint8_t)(handed ? TWIN_PHASE_FORWARD : phase),
                                  .kind = handed ? TWIN_KIND_ACTIVATION : TWIN_KIND_WEIGHT,
                                  .name = twin_writer_string(w, name, strlen(name)),
                                  .scope = twin_writer_string(w, "Net", 3)};
    const struct twin_observation o = {
        .series = twin_writer_series(w, &s),
        .layout = twin_writer_layout(w, TWIN_F32, 1, &shape),
        .flags = TWIN_REC_PART | (from ? TWIN_REC_OFFSET : 0),
        .global_offset = (uint64_t)from,
        .whole = PARTS * LENGTH,
        .digest = twin_digest_bytes(x, sizeof x, (uint64_t)from * sizeof *x)};
    assert_int_not_equal(twin_writer_record(w, &o), 0);
}

static void put_all(struct twin_writer *w, const struct job *j, enum twin_phase phase,
                    uint32_t step)
{
    for (int part = 0; part < PARTS; part++)
        put_part(w, j, phase, "weight", step, part);
}

/* Several calls of a function in one step of the job. */
static void put_looks(struct twin_writer *w, const struct job *j, uint32_t step)
{
    const float batch = 1;
    for (uint32_t look = 0; look < j->looks; look++) {
        put_part(w, j, TWIN_PHASE_OPTIMIZER, "weight", step,
                 j->same_part ? 0 : (int)(look % PARTS));
        if (j->between)
            synth_put(w,
                      (struct synth_record){
                          .phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_IN, .name = "argument"},
                      &batch, 1);
    }
}

static struct synth *run_of(const char *label, const struct job *j)
{
    struct synth *s = synth_new(label);
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    twin_writer_note(w, "parts", "4");
    put_all(w, j, TWIN_PHASE_INIT, j->start);
    for (uint32_t step = j->start; step < j->steps; step++) {
        const float batch = (float)step, loss = 1 / (1 + (float)step) + (step == 6 ? j->loss : 0);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "batch"},
                  &batch, 1);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_LOSS, .name = "loss"},
                  &loss, 1);
        if (step - j->start < j->whole)
            put_all(w, j, TWIN_PHASE_OPTIMIZER, step + 1);
        else if (j->looks)
            put_looks(w, j, step + 1);
        else
            put_part(w, j, TWIN_PHASE_OPTIMIZER, "weight", step + 1,
                     (int)((step + j->turn) % PARTS));
        if (j->also)
            put_part(w, j, TWIN_PHASE_OPTIMIZER, j->also, step + 1, 0);
        if (j->end_inside && step + 1 == j->steps)
            put_all(w, j, TWIN_PHASE_OPTIMIZER, step + 1);
        twin_writer_step_end(w);
    }
    if (!j->no_end)
        put_all(w, j, TWIN_PHASE_OPTIMIZER, j->steps);
    return s;
}

static struct twin_verdict *verdict_of(const struct job *a, const struct job *b,
                                       const struct twin_compare_options *o)
{
    struct synth *x = run_of("whole-a", a), *y = run_of("whole-b", b);
    struct twin_verdict *v = compare(x, y, o);
    synth_free(x);
    synth_free(y);
    return v;
}

/* What only one run recorded of a large tensor was held against nothing: a tolerance cannot cover
 * it. */
static void parts_in_other_turns_are_not_within_tolerance(void **state)
{
    (void)state;
    static const char text[] =
        "[[tolerance]]\npattern = \"*\"\nrel_l2 = 1e-3\nreason = \"a test\"\n";
    char policy[] = "/tmp/twin-whole-XXXXXX";
    int fd = mkstemp(policy);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tw_write_file_atomic(policy, text, sizeof text - 1, NULL), 0);
    const struct twin_compare_options o = {.tolerance_file = policy};
    for (uint32_t turn = 0; turn < 2; turn++) {
        const struct job a = {.steps = 12}, b = {.steps = 12, .turn = turn, .loss = 1e-6f};
        struct twin_verdict *v = verdict_of(&a, &b, &o);
        expect_outcome(v, turn == 0 ? TWIN_WITHIN_TOLERANCE : TWIN_DIFFER);
        assert_true(has_note(v, turn == 0 ? "1 difference measured"
                                          : "not judged by the tolerance: step 6 has parts of "
                                            "large tensors that only one run recorded"));
        twin_verdict_free(v);
    }
    unlink(policy);
}

static void parts_in_turns_and_a_whole_end_are_the_same(void **state)
{
    (void)state;
    const struct job j = {.steps = 12, .whole = 4};
    struct twin_verdict *v = verdict_of(&j, &j, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->cover_count, 1);
    assert_int_equal(v->covers[0].kind, TWIN_KIND_WEIGHT);
    assert_int_equal(v->covers[0].elements, 12 * 32);
    assert_int_equal(v->covers[0].compared, 4 * 32 + 8 * 8);
    assert_int_equal(v->covers[0].every, 4);
    assert_int_equal(v->covers[0].tensors, 1);
    assert_int_equal(v->covers[0].whole_at_end, 1);
    expect_note(v, "weights: of tensors of 65,536 elements and more 50% of the elements were "
                   "compared in a step, each at least every 4 steps, and all of them at the end");
    twin_verdict_free(v);
}

/* State that a jitted function hands to its next call, of which nobody knows that it is a weight.
 */
static void what_functions_hand_on_counts_like_weights(void **state)
{
    (void)state;
    struct job j = {.steps = 12, .whole = 4, .handed = true};
    struct twin_verdict *v = verdict_of(&j, &j, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->covers[0].kind, TWIN_KIND_ACTIVATION);
    expect_note(v, "what functions give to their next call: of tensors of 65,536 elements and more "
                   "50% of the elements were compared in a step, each at least every 4 steps, and "
                   "all of them at the end");
    twin_verdict_free(v);
    j.no_end = true;
    v = verdict_of(&j, &j, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(v,
                  "what functions give to their next call: the end of 1 of 1 large tensors, which "
                  "were compared in parts only");
    twin_verdict_free(v);
}

/* Parts of several looks of one step add up to as many elements as there are, but they are no
 * whole: an element may have changed behind the look that its part was in.
 */
static void parts_of_several_looks_are_no_whole(void **state)
{
    (void)state;
    static const struct job jobs[] = {
        {.steps = 6, .looks = PARTS, .between = true},
        {.steps = 6, .looks = PARTS, .between = true, .handed = true},
        {.steps = 6, .looks = 2 * PARTS, .same_part = true},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct job j = jobs[i];
        j.no_end = true;
        struct twin_verdict *v = verdict_of(&j, &j, NULL);
        expect_outcome(v, TWIN_INCONCLUSIVE);
        assert_int_equal(v->covers[0].whole_at_end, 0);
        assert_int_equal(v->covers[0].compared * 4, v->covers[0].elements);
        twin_verdict_free(v);
        j.no_end = false;
        v = verdict_of(&j, &j, NULL);
        expect_outcome(v, TWIN_SAME);
        assert_int_equal(v->covers[0].whole_at_end, 1);
        twin_verdict_free(v);
    }
}

static void a_whole_look_right_behind_a_part_is_whole(void **state)
{
    (void)state;
    const struct job j = {.steps = 6, .end_inside = true, .no_end = true, .turn = 1};
    struct twin_verdict *v = verdict_of(&j, &j, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->covers[0].whole_at_end, 1);
    assert_int_equal(v->covers[0].elements, 7 * 32);
    assert_int_equal(v->covers[0].compared, 6 * 8 + 32);
    twin_verdict_free(v);
}

static void what_several_looks_have_seen_in_part_is_no_origin(void **state)
{
    (void)state;
    for (int whole = 0; whole <= 1; whole++) {
        const struct job a = {.steps = 6, .looks = PARTS, .between = true, .whole = whole ? 6 : 0};
        struct job b = a;
        b.bad_step = 4;
        b.bad = 3;
        struct twin_verdict *v = verdict_of(&a, &b, NULL);
        expect_outcome(v, TWIN_DIFFER);
        assert_string_equal(v->first->name, "weight[0:8]");
        assert_int_equal(v->first->role, whole ? TWIN_ORIGIN : TWIN_ROLE_UNKNOWN);
        twin_verdict_free(v);
    }
}

static void what_is_whole_at_every_step_needs_no_note(void **state)
{
    (void)state;
    const struct job j = {.steps = 3, .whole = 3};
    struct twin_verdict *v = verdict_of(&j, &j, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->covers[0].compared, v->covers[0].elements);
    assert_int_equal(v->covers[0].every, 1);
    assert_false(has_note(v, "of the elements"));
    twin_verdict_free(v);
}

static void without_a_whole_end_it_is_inconclusive(void **state)
{
    (void)state;
    struct job j = {.steps = 12, .whole = 4, .no_end = true};
    struct twin_verdict *v = verdict_of(&j, &j, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(v, "weights: the end of 1 of 1 large tensors, which were compared in parts only");
    twin_verdict_free(v);
    j.no_end = false; /* the same where --steps ends the comparison between two looks */
    v = verdict_of(&j, &j, &(struct twin_compare_options){.steps_given = true, .steps = 9});
    expect_outcome(v, TWIN_INCONCLUSIVE);
    twin_verdict_free(v);
    /* its last step is whole */
    v = verdict_of(&j, &j, &(struct twin_compare_options){.steps_given = true, .steps = 4});
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
}

/* One element of 32 is another one from a step on: found in the step in which its part has its
 * turn, or at the end. */
static void one_element_is_found_when_its_turn_comes(void **state)
{
    (void)state;
    const struct job a = {.steps = 12, .whole = 2};
    struct job b = a;
    b.bad_step = 7; /* after step 6, whose turn is part 2's: step 7 is the turn of part 3 */
    b.bad = 3 * LENGTH + 5;
    struct twin_verdict *v = verdict_of(&a, &b, NULL);
    expect_place(v, 7, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "weight[24:32]");
    /* it may have entered the step so: 24 elements of 32 were not seen before */
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    assert_true(strstr(v->first->between[0], "weight[16:24] of step 6 (was seen in part)") != NULL);
    assert_true(strstr(v->equal_before, "weights (25% of the elements)") != NULL);
    twin_verdict_free(v);
    b.bad_step = 12; /* after the last step, step 11: part 3's turn; an element of part 0 */
    b.bad = 1;
    v = verdict_of(&a, &b, NULL);
    expect_place(v, 12, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "weight[0:8]");
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    twin_verdict_free(v);
}

/* The parts stand elsewhere: what only one run has of a tensor that the other shows in other parts
 * is unknown, and counted as such. */
static void other_turns_are_unknown_and_no_difference(void **state)
{
    (void)state;
    const struct job a = {.steps = 12, .whole = 2};
    struct job b = a;
    b.turn = 1;
    struct twin_verdict *v = verdict_of(&a, &b, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->covers[0].compared, 2 * 32);
    assert_int_equal(v->covers[0].elements, 12 * 32);
    assert_int_equal(v->covers[0].every, 11); /* from step 1 to the look at the end */
    twin_verdict_free(v);
    b.bad_step = 5; /* and a real difference is still one, at the end at the latest */
    b.bad = 0;
    v = verdict_of(&a, &b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    twin_verdict_free(v);
}

static void a_tensor_that_one_run_lacks_is_a_difference(void **state)
{
    (void)state;
    const struct job a = {.steps = 6, .whole = 2};
    struct job b = a;
    b.also = "weight.twin";
    struct twin_verdict *v = verdict_of(&a, &b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->name, "weight.twin[0:8]");
    twin_verdict_free(v);
}

/* A resumed arm starts with all parts: its place is found by whichever the other arm recorded after
 * each step. */
static void a_resumed_arm_is_found_by_parts(void **state)
{
    (void)state;
    const struct twin_compare_options arms = {.arms = true, .find_shift = true};
    const struct job a = {.steps = 12, .whole = 2};
    struct job b = {.steps = 12, .start = 7, .whole = 2};
    struct twin_verdict *v = verdict_of(&a, &b, &arms);
    expect_outcome(v, TWIN_SAME);
    assert_true(v->shift_found);
    assert_int_equal(v->shift, -7);
    assert_int_equal(v->covers[0].compared, 5 * 8);
    assert_int_equal(v->covers[0].whole_at_end, 1);
    twin_verdict_free(v);
    b.turn = 2; /* an optimizer that keeps no count: its turns begin anew */
    v = verdict_of(&a, &b, &arms);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->shift, -7);
    assert_int_equal(v->covers[0].compared, 2 * 8); /* in its first two steps it has all parts */
    twin_verdict_free(v);
    b.bad_step = 12;
    b.bad = 31;
    v = verdict_of(&a, &b, &arms);
    expect_outcome(v, TWIN_DIFFER);
    twin_verdict_free(v);
}

/* An arm that goes on behind the end of the other was not looked at as a whole there. */
static void a_longer_arm_has_no_whole_end(void **state)
{
    (void)state;
    const struct twin_compare_options arms = {.arms = true, .find_shift = true};
    const struct job a = {.steps = 14, .whole = 2}, b = {.steps = 12, .start = 7, .whole = 2};
    struct twin_verdict *v = verdict_of(&a, &b, &arms);
    assert_int_not_equal(v->outcome, TWIN_SAME);
    twin_verdict_free(v);
}

/* Counting which element was looked at when ends at a limit; then it is not known. */
static void a_trace_with_more_records_than_are_counted(void **state)
{
    (void)state;
    const struct job j = {.steps = 12, .whole = 4};
    const uint64_t usual = tw_whole_limit;
    tw_whole_limit = 20;
    struct twin_verdict *v = verdict_of(&j, &j, NULL);
    tw_whole_limit = usual;
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(
        v, "rank 0: whether every element of large tensors was looked at: more than 20 records");
    twin_verdict_free(v);
}

/* Whoever names a tensor means all of it: the parts are our way to record it. */
static void a_pattern_that_names_the_tensor_covers_its_parts(void **state)
{
    (void)state;
    const struct job a = {.steps = 12, .whole = 2};
    struct job b = a;
    b.bad_step = 3;
    b.bad = 9;
    const char *const names_it = "optimizer/weight/weight", *const names_another = "weigh";
    struct twin_compare_options o = {.ignore = &names_it, .ignore_count = 1};
    struct twin_verdict *v = verdict_of(&a, &b, &o);
    assert_int_not_equal(v->outcome, TWIN_DIFFER);
    twin_verdict_free(v);
    o.ignore = &names_another;
    v = verdict_of(&a, &b, &o);
    expect_outcome(v, TWIN_DIFFER);
    twin_verdict_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_in_other_turns_are_not_within_tolerance),
        cmocka_unit_test(parts_in_turns_and_a_whole_end_are_the_same),
        cmocka_unit_test(what_functions_hand_on_counts_like_weights),
        cmocka_unit_test(parts_of_several_looks_are_no_whole),
        cmocka_unit_test(a_whole_look_right_behind_a_part_is_whole),
        cmocka_unit_test(what_several_looks_have_seen_in_part_is_no_origin),
        cmocka_unit_test(what_is_whole_at_every_step_needs_no_note),
        cmocka_unit_test(without_a_whole_end_it_is_inconclusive),
        cmocka_unit_test(one_element_is_found_when_its_turn_comes),
        cmocka_unit_test(other_turns_are_unknown_and_no_difference),
        cmocka_unit_test(a_tensor_that_one_run_lacks_is_a_difference),
        cmocka_unit_test(a_resumed_arm_is_found_by_parts),
        cmocka_unit_test(a_longer_arm_has_no_whole_end),
        cmocka_unit_test(a_trace_with_more_records_than_are_counted),
        cmocka_unit_test(a_pattern_that_names_the_tensor_covers_its_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
