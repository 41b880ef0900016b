/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that a launcher started again: attempts are compared with attempts, never mixed. */
#include "compare_test.h"

#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 10, GIVEN_UP = 4 };

/* Adds a process that trains. attempt: the text of its note; NULL: none. */
static void add(struct synth *s, struct synth_model m, const char *attempt)
{
    struct twin_writer *w = synth_process(s, m.rank, m.world, NULL);
    if (attempt)
        twin_writer_note(w, TW_NOTE_ATTEMPT, attempt);
    synth_train(&m, w);
}

/* Both attempts of one rank: the first is cut in step GIVEN_UP (0: there is none). */
static struct synth *job(const char *label, struct synth_model *given_up, struct synth_model *last)
{
    struct synth *s = synth_new(label);
    if (given_up) {
        given_up->die_at = GIVEN_UP;
        add(s, *given_up, NULL);
    }
    if (last)
        add(s, *last, given_up ? "1" : NULL);
    return s;
}

static struct synth_model model(void)
{
    struct synth_model m;
    synth_model_init(&m, STEPS);
    return m;
}

static struct synth_model odd_model(uint32_t step)
{
    struct synth_model m = model();
    m.disturb[0].place = AT_LOSS;
    m.disturb[0].step = step;
    m.disturb[0].by = 1;
    m.disturbances = 1;
    return m;
}

/* The two differ, first in the loss of this step. Frees both. */
static void expect_loss_differs(struct synth *a, struct synth *b, uint32_t step)
{
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    expect_first(v, step, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss");
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* Each sentence stands in one line, so that it is found. */
/* clang-format off */
#define SAID_ATTEMPTS "torchrun started the ranks again: each of attempts 0 to 1 was compared with the same attempt of the other run"
#define SAID_GIVEN_UP "attempt 0 was given up: what rank 0 (main) did after its last finished step was not compared"
/* clang-format on */

static void equal_attempts_are_the_same(void **state)
{
    (void)state;
    struct synth_model m = model(), cut = model();
    struct synth *a = job("a", &cut, &m), *b = job("b", &cut, &m);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_true(has_note(v, SAID_ATTEMPTS));
    assert_true(has_note(v, SAID_GIVEN_UP));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* The first attempt of A agrees with the second one of B for as long as it goes on. */
static void first_attempt_that_differs_is_found(void **state)
{
    (void)state;
    struct synth_model m = model(), cut = model(), odd = odd_model(2);
    struct synth *a = job("a", &cut, &m), *b = job("b", &odd, &m);
    expect_loss_differs(a, b, 2);
}

/* Each attempt is what the other one is in the other run: mixed, all would agree. */
static void attempts_that_are_swapped_differ(void **state)
{
    (void)state;
    struct synth_model m = model(), cut = model(), odd = odd_model(2), odd_cut = odd_model(2);
    struct synth *a = job("a", &cut, &odd), *b = job("b", &odd_cut, &m);
    expect_loss_differs(a, b, 2);
}

/* Killed before it could say that it ends. */
static void given_up_attempt_that_was_killed(void **state)
{
    (void)state;
    enum { END_BLOCK = 256 };
    struct synth_model m = model(), cut = model();
    struct synth *a = job("a", &cut, &m), *b = job("b", &cut, &m);
    struct stat st;
    const char *path = synth_done(a)->traces[0];
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - END_BLOCK), 0);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_true(has_note(v, "attempt 0 was given up"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void later_attempt_that_differs_is_found(void **state)
{
    (void)state;
    struct synth_model m = model(), cut = model(), odd = odd_model(7);
    struct synth *a = job("a", &cut, &m), *b = job("b", &cut, &odd);
    expect_loss_differs(a, b, 7);
}

/* It was told to end at another moment: in A its trace is whole, in B it has less. */
static void where_a_given_up_attempt_ends_is_no_difference(void **state)
{
    (void)state;
    struct synth_model m = model(), cut = model(), whole = model();
    struct synth *a = synth_new("a"), *b = job("b", &cut, &m);
    whole.steps = GIVEN_UP;
    add(a, whole, NULL);
    add(a, m, "1");
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
    synth_free(a);
    whole.steps = GIVEN_UP + 1;
    a = synth_new("a");
    add(a, whole, NULL);
    add(a, m, "1");
    v = compare(a, b, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "run 1 has 5 steps and run 2 4"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void run_that_restarted_against_one_that_did_not(void **state)
{
    (void)state;
    struct synth_model m = model(), cut = model();
    struct synth *a = job("a", &cut, &m), *b = job("b", NULL, &m);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->type, TWIN_FINDING_RANKS);
    assert_string_equal(v->first->text,
                        "torchrun started the ranks of run 1 again 1 time, those of run 2 0 times: "
                        "attempt was compared with attempt");
    twin_verdict_free(v);
    /* what B did after an attempt that nobody has seen is not guessed */
    synth_run(b)->outcome = TWIN_RUN_STOPPED;
    v = compare(a, b, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "process 2 recorded only in run 1"));
    twin_verdict_free(v);
    /* arms may do more, and it is said */
    synth_run(b)->outcome = TWIN_RUN_EXITED;
    v = compare(a, b, &(struct twin_compare_options){.arms = true});
    assert_true(has_note(v, "torchrun started the ranks of run 1 again 1 time, those of run 2 0"));
    assert_int_equal(v->origin_count, 0);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* A value in the attempts that correspond goes before the number of attempts. */
static void value_before_restart(void **state)
{
    (void)state;
    struct synth_model m = model(), cut = model(), odd = odd_model(1);
    struct synth *a = job("a", &cut, &m), *b = job("b", NULL, &odd);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_DIFFER);
    expect_first(v, 1, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss");
    assert_true(has_note(v, "torchrun started the ranks of run 1 again 1 time"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void foreign_notes_say_nothing(void **state)
{
    (void)state;
    static const char *const text[] = {"", "-1", "0x1", "4294967296", "1 "};
    struct synth_model m = model();
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        struct synth *a = synth_new("a"), *b = synth_new("b");
        add(a, m, text[i]);
        add(b, m, NULL);
        struct twin_verdict *v = compare(a, b, NULL);
        expect_outcome(v, TWIN_SAME);
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_attempts_are_the_same),
        cmocka_unit_test(first_attempt_that_differs_is_found),
        cmocka_unit_test(attempts_that_are_swapped_differ),
        cmocka_unit_test(given_up_attempt_that_was_killed),
        cmocka_unit_test(later_attempt_that_differs_is_found),
        cmocka_unit_test(where_a_given_up_attempt_ends_is_no_difference),
        cmocka_unit_test(run_that_restarted_against_one_that_did_not),
        cmocka_unit_test(value_before_restart),
        cmocka_unit_test(foreign_notes_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
