/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of many ranks: more traces than a process may have open files, and the first look at them.
 */
#include "compare_test.h"

#include <sys/resource.h>
#include <unistd.h>

enum { RANKS = 60, STEPS = 5, OTHER_RANK = 41, OTHER_STEP = 3, FEW = 40 };

static void record_rank(struct synth *s, int rank, bool other)
{
    struct twin_writer *w = synth_process(s, rank, RANKS, NULL);
    for (int step = 0; step < STEPS; step++) {
        const float x[2] = {(float)rank, (float)step + (other && step >= OTHER_STEP)};
        const float in = (float)step;
        synth_put(w, (struct synth_record){TWIN_PHASE_DATA, TWIN_KIND_BATCH, .name = "x"}, &in, 1);
        synth_put(w, (struct synth_record){TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, .name = "w"}, x,
                  2);
        twin_writer_step_end(w);
    }
}

/* other: the rank that computes something else from a step on; -1: none does. */
static struct synth *many_ranks(int other)
{
    struct synth *s = synth_new("ranks");
    for (int rank = 0; rank < RANKS; rank++)
        record_rank(s, rank, rank == other);
    synth_done(s);
    return s;
}

static struct twin_verdict *compare_with_few_files(struct synth *a, struct synth *b)
{
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {FEW, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct twin_verdict *v = compare(a, b, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    return v;
}

static void more_traces_than_open_files(void **state)
{
    (void)state;
    struct synth *a = many_ranks(-1), *b = many_ranks(-1), *c = many_ranks(OTHER_RANK);
    struct twin_verdict *v = compare_with_few_files(a, b);
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
    v = compare_with_few_files(a, c);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->rank, OTHER_RANK);
    assert_int_equal(v->first->step_a, OTHER_STEP);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
    synth_free(c);
}

static void first_look(void **state)
{
    (void)state;
    struct twin_glance g;
    struct synth *a = many_ranks(-1), *b = many_ranks(-1), *c = many_ranks(OTHER_RANK);
    assert_true(twin_compare_glance(synth_run(a), synth_run(b), &g));
    assert_int_equal(g.ranks, RANKS);
    assert_int_equal(g.differing, 0);
    assert_true(twin_compare_glance(synth_run(a), synth_run(c), &g));
    assert_int_equal(g.ranks, RANKS);
    assert_int_equal(g.differing, 1);
    assert_int_equal(g.rank, OTHER_RANK);
    assert_int_equal(g.step, OTHER_STEP);
    const struct twin_run *runs[2] = {synth_run(a), synth_run(c)};
    assert_true(twin_compare_bytes(runs, 2) > 2 * RANKS * 64);
    synth_free(a);
    synth_free(b);
    synth_free(c);
}

/* Of a rank with two processes it is not known which belong together: it is passed over. */
static void first_look_at_two_processes(void **state)
{
    (void)state;
    struct twin_glance g;
    struct synth *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = synth_new("two");
        record_rank(s[i], 0, i == 1);
        record_rank(s[i], 0, i == 1);
        record_rank(s[i], 1, false);
        synth_done(s[i]);
    }
    assert_true(twin_compare_glance(synth_run(s[0]), synth_run(s[1]), &g));
    assert_int_equal(g.ranks, 1);
    assert_int_equal(g.differing, 0);
    for (int i = 0; i < 2; i++)
        synth_free(s[i]);
}

/* What takes the place of a trace at rest is not read in its stead. */
static void a_trace_at_rest(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trace *t;
    struct twin_step_hash hash;
    struct synth *a = synth_new("rest");
    record_rank(a, 0, false);
    const char *path = synth_done(a)->traces[0];
    assert_int_equal(twin_trace_open(path, &t, &err), 0);
    for (uint32_t step = 0; step < STEPS; step++) {
        twin_trace_rest(t);
        assert_int_equal(twin_trace_step_hash(t, step, &hash, &err), 0);
        assert_int_equal(hash.step, step);
    }
    twin_trace_rest(t);
    assert_int_equal(twin_trace_verify(t, &err), 0);
    twin_trace_rest(t);
    char other[4096];
    snprintf(other, sizeof other, "%s.other", path);
    assert_int_equal(link(path, other), 0); /* so that its number is not given to the new file */
    assert_int_equal(unlink(path), 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(twin_trace_step_hash(t, 0, &hash, &err), TWIN_EFORMAT);
    assert_non_null(strstr(err.message, "another file took its place"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(twin_trace_verify(t, &err), TWIN_ENOENT);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(twin_trace_verify(t, &err), 0);
    twin_trace_close(t);
    synth_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_traces_than_open_files),
        cmocka_unit_test(first_look),
        cmocka_unit_test(first_look_at_two_processes),
        cmocka_unit_test(a_trace_at_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
