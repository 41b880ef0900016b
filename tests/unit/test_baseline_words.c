/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a run that was held against a baseline, each sentence provoked by what makes it
 * true. */
#include <stdlib.h>
#include <unistd.h>

#include "baseline_test.h"

/* A job of many steps, in which a record says nothing about the next: what differs in one step
 * differs there alone. */
struct plain {
    uint32_t steps, bad_step;
    const char *child;
    int32_t ranks;
    bool result;
};

static void one_process(struct twin_writer *w, const struct plain *p)
{
    for (uint32_t step = 0; step < p->steps; step++) {
        const float batch = (float)step;
        const float weight[2] = {1, p->bad_step > 0 && step == p->bad_step ? 3 : 2};
        synth_put(
            w,
            (struct synth_record){.phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "x"},
            &batch, 1);
        synth_put(w,
                  (struct synth_record){
                      .phase = TWIN_PHASE_OPTIMIZER, .kind = TWIN_KIND_WEIGHT, .name = "w"},
                  weight, 2);
        twin_writer_step_end(w);
    }
}

static struct synth *plain_run(struct plain p)
{
    struct synth *s = synth_new("plain");
    for (int32_t rank = 0; rank < (p.ranks ? p.ranks : 1); rank++)
        one_process(synth_process(s, rank, p.ranks ? p.ranks : 1, NULL), &p);
    if (p.child)
        one_process(synth_process(s, 0, 1, p.child), &p);
    return s;
}

static struct twin_baseline *plain_baseline(struct plain p)
{
    struct synth *a = plain_run(p), *b = plain_run(p);
    struct twin_baseline *x = again(make(a, b, NULL));
    synth_free(a);
    synth_free(b);
    return x;
}

/* Takes the baseline and the run. */
static struct twin_verdict *held(struct twin_baseline *b, struct synth *s,
                                 const struct twin_compare_options *o)
{
    struct twin_verdict *v = judge(b, s, o);
    synth_free(s);
    twin_baseline_free(b);
    return v;
}

/* A run without a parameter's records (its first value, gradient and weight), and with another
 * batch where `by` is not 0. */
static struct synth *without(const char *name, float by)
{
    struct synth_model m;
    synth_model_init(&m, 4);
    m.skip = name;
    m.disturb[0].place = AT_BATCH;
    m.disturb[0].by = by;
    m.disturbances = 1;
    return synth_train_run("without", &m);
}

static char policy[64];

static int write_policy(void **state)
{
    (void)state;
    static const char text[] = "[[tolerance]]\npattern = '*'\nrel_l2 = 1e-1\nreason = 'r'\n";
    strcpy(policy, "/tmp/twin-baseline-XXXXXX");
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

static void records_that_are_missing(void **state)
{
    (void)state;
    struct twin_verdict *v = held(baseline_of(4), without("fc1.bias", 0), NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->type, TWIN_FINDING_ONLY_A);
    assert_string_equal(v->first->name, "fc1.bias");
    assert_string_equal(v->first->text, "only in the baseline, with 2 other records of this step");
    twin_verdict_free(v);
    v = held(baseline_of(4), without("fc1.bias", .5f), NULL);
    expect_place(v, 0, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch");
    expect_note(v, "3 records of step 0 are only in the baseline, the first: fc1.bias");
    twin_verdict_free(v);
    v = held(baseline_of(4), without("loss", 0),
             &(struct twin_compare_options){.tolerance_file = policy});
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->text, "only in the baseline");
    expect_note(v, "outside the tolerance: loss at step 0 is only in the baseline");
    twin_verdict_free(v);
}

static void a_stretch_that_is_kept_as_one_hash(void **state)
{
    (void)state;
    const struct plain p = {.steps = 6000};
    struct plain other = p;
    other.bad_step = 4000;
    struct twin_verdict *v = held(plain_baseline(p), plain_run(other),
                                  &(struct twin_compare_options){.tolerance_file = policy});
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->text,
                        "somewhere in steps 3946 to 4035, which the baseline keeps as one hash");
    expect_note(v, "not judged by the tolerance: somewhere in steps 3946 to 4035 of rank 0, the "
                   "last step that differs; the baseline keeps no numbers of its weights");
    twin_verdict_free(v);
}

/* More records in a step than the file has room for. */
static void a_step_of_which_no_tensors_are_kept(void **state)
{
    (void)state;
    enum { RECORDS = 2000 };
    struct synth *s[3];
    for (int i = 0; i < 3; i++) {
        s[i] = synth_new("wide");
        struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
        for (int step = 0; step < 20; step++) {
            for (int k = 0; k < RECORDS; k++) {
                char name[32];
                snprintf(name, sizeof name, "h%d", k);
                const float x = (float)k + (i == 2 && step == 12 && k == 7 ? .5f : 0);
                synth_put(w,
                          (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                                .kind = TWIN_KIND_ACTIVATION,
                                                .name = name},
                          &x, 1);
            }
            twin_writer_step_end(w);
        }
    }
    struct twin_baseline *b = again(make(s[0], s[1], NULL));
    struct twin_verdict *v = judge(b, s[2], NULL);
    expect_place(v, 12, TWIN_PHASE_FORWARD, TWIN_KIND_NONE, "one of its tensors");
    assert_string_equal(v->first->text, "the baseline keeps no tensors of this step");
    twin_verdict_free(v);
    twin_baseline_free(b);
    for (int i = 0; i < 3; i++)
        synth_free(s[i]);
}

static void processes_of_one_side(void **state)
{
    (void)state;
    const struct plain one = {.steps = 3};
    const struct plain two = {.steps = 3, .ranks = 2};
    const struct plain child = {.steps = 3, .child = "child 1"};
    struct twin_verdict *v = held(plain_baseline(two), plain_run(one), NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->type, TWIN_FINDING_RANKS);
    assert_string_equal(v->first->text, "only in the baseline: rank 1");
    twin_verdict_free(v);
    v = held(plain_baseline(one), plain_run(two), NULL);
    expect_outcome(v, TWIN_DIFFER);
    assert_string_equal(v->first->text, "not in the baseline: rank 1");
    twin_verdict_free(v);
    v = held(plain_baseline(one), plain_run(child), NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(v, "rank 0 (child 1), number 1: the baseline does not have this process");
    twin_verdict_free(v);
}

static void a_run_that_did_not_end(void **state)
{
    (void)state;
    const struct plain p = {.steps = 3};
    struct synth *s = plain_run(p);
    synth_run(s)->outcome = TWIN_RUN_INTERRUPTED;
    struct twin_verdict *v = held(plain_baseline(p), s, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(v, "the run was interrupted after 3 steps");
    twin_verdict_free(v);
    s = plain_run(p);
    synth_run(s)->in_progress = true;
    v = held(plain_baseline(p), s, NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(v, "the run is still going on");
    twin_verdict_free(v);
}

/* A ring that was full: the second step's records were lost in part, and its hash with them. */
static void records_that_were_lost(void **state)
{
    (void)state;
    enum { FLOOD = 4000 };
    struct synth *s[3];
    for (int i = 0; i < 3; i++) {
        s[i] = synth_new("flood");
        struct twin_writer *w = i == 2 ? synth_dropping(s[i]) : synth_process(s[i], 0, 1, NULL);
        for (int step = 0; step < 3; step++) {
            const float batch = (float)step;
            const struct synth_record x = {
                .phase = TWIN_PHASE_DATA, .kind = TWIN_KIND_BATCH, .name = "x"};
            const struct synth_record loss = {
                .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_LOSS, .name = "loss"};
            synth_put(w, x, &batch, 1);
            if (step == 1)
                synth_flood(w, loss, FLOOD, NULL, NULL);
            twin_writer_flush(w);
            twin_writer_step_end(w);
        }
    }
    struct twin_baseline *b = again(make(s[0], s[1], NULL));
    struct twin_verdict *v = judge(b, s[2], NULL);
    assert_true(v->lost_records > 0);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(v, "1 steps of rank 0, whose records were lost in part (--lossless keeps them)");
    twin_verdict_free(v);
    twin_baseline_free(b);
    for (int i = 0; i < 3; i++)
        synth_free(s[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_that_are_missing),
        cmocka_unit_test(a_stretch_that_is_kept_as_one_hash),
        cmocka_unit_test(a_step_of_which_no_tensors_are_kept),
        cmocka_unit_test(processes_of_one_side),
        cmocka_unit_test(a_run_that_did_not_end),
        cmocka_unit_test(records_that_were_lost),
    };
    return cmocka_run_group_tests(tests, write_policy, remove_policy);
}
