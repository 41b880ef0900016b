/* SPDX-License-Identifier: Apache-2.0 */
/* Zoom pairs: which operation is named, with which numbers, and what is said when none can be. */
#include "src/compare/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "synth.h"

/* One operation: its records' names are "<op>.in0", "<op>.out0". */
static void operation(struct twin_writer *w, const char *op, const char *site, const float *in,
                      const float *out)
{
    char name[64];
    snprintf(name, sizeof name, "%s.in0", op);
    synth_put(w,
              (struct synth_record){.phase = TWIN_PHASE_KERNEL,
                                    .kind = TWIN_KIND_IN,
                                    .name = name,
                                    .scope = "Net",
                                    .op = op,
                                    .site = site},
              in, 4);
    snprintf(name, sizeof name, "%s.out0", op);
    synth_put(w,
              (struct synth_record){.phase = TWIN_PHASE_KERNEL,
                                    .kind = TWIN_KIND_OUT,
                                    .name = name,
                                    .scope = "Net",
                                    .op = op,
                                    .site = site},
              out, 4);
}

struct scene {
    bool output, invisible, generator, replay;
    bool before; /* the reruns part in a step of which no operation was recorded */
    const char *vote[2], *replays; /* replays: the note of each rerun, where it is not 3 of 8 */
};

static struct synth *zoomed(const struct scene *s, int run)
{
    struct synth *z = synth_new("zoom");
    struct twin_writer *w = synth_process(z, 0, 1, NULL);
    float x[4] = {1, 2, 3, 4};
    float y[4] = {2, 4, 6, 8};
    float other[4] = {2, 4, 6, nextafterf(8, 9)};
    float state[2] = {1, (float)(s->generator ? run : 0)};
    for (int step = 0; step < 2; step++) {
        bool odd = run == 1 && step == 1;
        if (s->before && step == 0) {
            synth_put(w,
                      (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                                            .kind = TWIN_KIND_WEIGHT,
                                            .name = "w",
                                            .op = "SGD"},
                      run ? other : y, 4);
            twin_writer_step_end(w);
            continue;
        }
        synth_put(w,
                  (struct synth_record){.phase = TWIN_PHASE_RNG,
                                        .kind = TWIN_KIND_STATE,
                                        .name = "torch.cpu",
                                        .op = "Dropout"},
                  state, 2);
        operation(w, "aten::embedding", "model.py:10 in forward", x, y);
        operation(w, "aten::index_put_", "model.py:88 in forward", odd && s->invisible ? other : y,
                  odd && (s->output || s->invisible) ? other : y);
        operation(w, s->generator ? "aten::native_dropout" : "aten::add", "model.py:90 in forward",
                  odd && (s->output || s->invisible) ? other : y, odd && s->generator ? other : y);
        twin_writer_step_end(w);
    }
    if (s->vote[run])
        twin_writer_note(w, "zoom.vote", s->vote[run]);
    if (s->replay)
        twin_writer_note(w, "zoom.replay", s->replays ? s->replays : "aten::index_put_ 8 3");
    return z;
}

/* Runs that part at what a module was given. */
static struct synth *given(enum twin_kind kind, const char *name, int run)
{
    struct synth *s = synth_new("given");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    float x[4] = {1, 2, 3, 4}, other[4] = {1, 2, 3, nextafterf(4, 5)};
    for (int step = 0; step < 2; step++) {
        float *in = run == 1 && step == 1 ? other : x;
        synth_put(w,
                  (struct synth_record){.phase = TWIN_PHASE_DATA,
                                        .kind = kind,
                                        .name = name,
                                        .scope = "Linear",
                                        .op = "Linear"},
                  in, 4);
        synth_put(w,
                  (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                        .kind = TWIN_KIND_ACTIVATION,
                                        .name = "output",
                                        .scope = "Linear"},
                  in, 4);
        twin_writer_step_end(w);
    }
    return s;
}

static struct twin_verdict *parted(struct synth **a, struct synth **b)
{
    struct synth_model x, y;
    struct twin_verdict *v = NULL;
    synth_model_init(&x, 4);
    y = x;
    y.disturb[0].place = AT_GRADIENT;
    y.disturb[0].step = 1;
    y.disturb[0].by = 1e-4f;
    y.disturbances = 1;
    *a = synth_train_run("a", &x);
    *b = synth_train_run("b", &y);
    const struct twin_run *runs[2] = {synth_done(*a), synth_done(*b)};
    assert_int_equal(twin_compare(runs, 2, NULL, &v, NULL), 0);
    assert_int_equal(v->outcome, TWIN_DIFFER);
    return v;
}

static bool has_note(const struct twin_verdict *v, const char *part)
{
    for (size_t i = 0; i < v->note_count; i++)
        if (strstr(v->notes[i], part))
            return true;
    return false;
}

static struct twin_verdict *zoom(const struct scene *s, bool keep_values)
{
    struct synth *a, *b, *z[2];
    struct twin_verdict *v = parted(&a, &b);
    for (int i = 0; i < 2; i++) {
        z[i] = zoomed(s, i);
        if (keep_values) {
            char path[400], folder[300];
            float out[4] = {2, 4, 6, i ? nextafterf(8, 9) : 8};
            snprintf(folder, sizeof folder, "%s/values", synth_run(z[i])->dir);
            assert_int_equal(tw_mkdirs(folder, NULL), 0);
            snprintf(path, sizeof path, "%s/0.s1.o0.out0.raw", folder);
            assert_int_equal(tw_write_file_atomic(path, out, sizeof out, NULL), 0);
        }
    }
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_compare_zoom(v, synth_done(z[0]), synth_done(z[1]), &err) != 0)
        fail_msg("%s", err.message);
    for (int i = 0; i < 2; i++)
        synth_free(z[i]);
    synth_free(a);
    synth_free(b);
    return v;
}

static void operation_is_named(void **state)
{
    (void)state;
    struct twin_verdict *v = zoom(&(struct scene){.output = true, .replay = true}, true);
    assert_string_equal(v->first->op, "aten::index_put_");
    assert_string_equal(v->first->site, "model.py:88 in forward");
    assert_string_equal(v->origins[0].op, "aten::index_put_");
    /* its own output: the size below is this tensor's */
    assert_string_equal(v->first->name, "aten::index_put_.out0");
    assert_true(has_note(v, "in the runs themselves") && has_note(v, "embed.weight"));
    assert_int_equal(v->first->role, TWIN_ORIGIN);
    assert_true(v->first->changed_known && v->first->changed == 1 && v->first->elements == 4);
    assert_true(v->first->max_ulp == 1 && v->first->rel_l2_exact);
    assert_true(has_note(v, "got equal inputs and gave another output"));
    assert_true(
        has_note(v, "run again 16 times on its recorded inputs, gave another result 6 times"));
    twin_verdict_free(v);
    v = zoom(&(struct scene){.output = true}, false);
    assert_string_equal(v->first->op, "aten::index_put_");
    assert_false(v->first->changed_known);
    twin_verdict_free(v);
}

static enum twin_replay voted(const char *one, const char *other, bool replay, const char *note)
{
    struct twin_verdict *v = zoom(
        &(struct scene){.output = true, .replay = replay, .vote = {one, other}}, false);
    enum twin_replay r = v->replay;
    assert_true(!note || has_note(v, note));
    assert_true(r == TWIN_REPLAY_DISAGREES || !has_note(v, "it is not deterministic"));
    twin_verdict_free(v);
    return r;
}

/* "<operation> <what> <core> <core> <rounds> <results on one> <results on the other>"; replays that
 * were not held on a core: 3 of 8. */
static void votes_tell_an_operation_from_a_core(void **state)
{
    (void)state;
    static const char core[] = "aten::index_put_ core 0 3 16 1 1";
    static const char agrees[] = "aten::index_put_ agrees 0 3 16 1 1";
    static const char operation[] = "aten::index_put_ operation 0 3 16 2 2";
    static const char flaky[] = "aten::index_put_ operation 0 3 16 1 2";
    assert_int_equal(voted(NULL, NULL, false, NULL), TWIN_REPLAY_UNKNOWN);
    assert_int_equal(
        voted(NULL, NULL, true,
              "run again 16 times on its recorded inputs, gave another result 6 times"),
        TWIN_REPLAY_DISAGREES);
    assert_int_equal(voted(agrees, agrees, false, NULL), TWIN_REPLAY_AGREES);
    assert_int_equal(
        voted(core, agrees, false,
              "gives one result on core 0 and another on core 3, each time, on the same inputs: "
              "suspect the hardware, or code that depends on the core it runs on"),
        TWIN_REPLAY_BY_CORE);
    /* the system moved it about */
    assert_int_equal(voted(agrees, core, true, "suspect the hardware"), TWIN_REPLAY_BY_CORE);
    assert_int_equal(voted(core, operation, true, "it is not deterministic"),
                     TWIN_REPLAY_DISAGREES);
    assert_int_equal(voted(flaky, agrees, false,
                           "disagreed with itself on core 3 only (16 replays on each of two): that "
                           "core is suspect, too"),
                     TWIN_REPLAY_DISAGREES);
    /* only where it was held on a core: one sentence says both */
    struct twin_verdict *v = zoom(&(struct scene){.output = true,
                                                  .replay = true,
                                                  .replays = "aten::index_put_ 8 0",
                                                  .vote = {operation, agrees}},
                                  false);
    assert_int_equal(v->replay, TWIN_REPLAY_DISAGREES);
    assert_true(has_note(v, "aten::index_put_, run again 16 times on its recorded inputs, gave the "
                            "same result each time, and 2 different ones when it was held on one "
                            "core: it is not deterministic"));
    assert_false(has_note(v, "that acquits"));
    twin_verdict_free(v);
    /* not the suspect's */
    assert_int_equal(voted("aten::embedding core 0 3 16 1 1", "nonsense", false, NULL),
                     TWIN_REPLAY_UNKNOWN);
}

static void suspect_is_named_for_a_second_rerun(void **state)
{
    (void)state;
    struct synth *a, *b, *z[2];
    struct twin_verdict *v = parted(&a, &b);
    struct twin_suspect s;
    for (int i = 0; i < 2; i++)
        z[i] = zoomed(&(struct scene){.output = true}, i);
    assert_int_equal(twin_compare_suspect(v, synth_done(z[0]), synth_done(z[1]), &s, NULL), 0);
    assert_string_equal(s.a, "1:0:aten::index_put_@Net");
    assert_string_equal(s.b, "1:0:aten::index_put_@Net");
    assert_int_equal(s.rank, 0);
    assert_true(s.main_thread);
    assert_string_equal(v->first->op, "");
    assert_false(twin_compare_replayed(synth_done(z[1]), &s));
    twin_suspect_free(&s);
    for (int i = 0; i < 2; i++)
        synth_free(z[i]);
    synth_free(a);
    synth_free(b);
    twin_verdict_free(v);
}

/*
 * What a module was given is no origin, and neither is a batch. The operation that made an input is
 * named; a loader's batch is made by none, and an operation that was itself given other values has
 * only met them.
 */
static void input_of_a_module_is_traced_back(void **state)
{
    static const struct {
        enum twin_kind kind;
        const char *name;
        bool met, traced; /* met: by an operation whose input differs already */
    } all[] = {
        {TWIN_KIND_IN, "input[0]", false, true},
        {TWIN_KIND_BATCH, "input[0]", false, true},
        {TWIN_KIND_BATCH, "input[0]", true, false},
        {TWIN_KIND_BATCH, "batch[0]", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct scene scene = {.output = true, .invisible = all[i].met};
        struct synth *a = given(all[i].kind, all[i].name, 0);
        struct synth *b = given(all[i].kind, all[i].name, 1);
        struct synth *za = zoomed(&scene, 0);
        struct synth *zb = zoomed(&scene, 1);
        const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
        struct twin_verdict *v = NULL;
        assert_int_equal(twin_compare(runs, 2, NULL, &v, NULL), 0);
        assert_string_equal(v->first->name, all[i].name);
        assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
        assert_string_equal(v->first->layer, all[i].kind == TWIN_KIND_IN ? "forward" : "data");
        assert_int_equal(twin_compare_zoom(v, synth_done(za), synth_done(zb), NULL), 0);
        assert_string_equal(v->first->op, all[i].traced ? "aten::index_put_" : "Linear");
        assert_int_equal(v->first->role, all[i].traced ? TWIN_ORIGIN : TWIN_ROLE_UNKNOWN);
        assert_int_equal(has_note(v, "zoom: the first operation that meets the difference is"),
                         !all[i].traced);
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
        synth_free(za);
        synth_free(zb);
    }
}

/* A run that begins with a state of a device's generator, and its rerun at operation level, in
 * which both generators are drawn from, behind one of the job's own that is seeded. */
static struct synth *seeded(bool rerun, int run)
{
    struct synth *s = synth_new("seeded");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    float device[2] = {1, (float)run};
    float host[4] = {1, 2, 3, (float)run};
    float x[4] = {1, 2, 3, (float)run};
    float own[2] = {1, 5};
    struct synth_record state = {
        .phase = TWIN_PHASE_INIT, .kind = TWIN_KIND_STATE, .name = "torch.cuda:0"};
    struct synth_record given_to = {
        .phase = TWIN_PHASE_KERNEL, .kind = TWIN_KIND_IN, .scope = "Net"};
    synth_put(w, state, device, 2);
    if (rerun) {
        given_to.name = "aten::rand.generator", given_to.op = "aten::rand",
        given_to.site = "job.py:2 in <module>";
        synth_put(w, given_to, own, 2);
        given_to.name = "aten::uniform_.generator", given_to.op = "aten::uniform_",
        given_to.site = "job.py:3 in <module>";
        synth_put(w, given_to, host, 4);
        given_to.name = "aten::native_dropout.generator", given_to.op = "aten::native_dropout",
        given_to.site = "job.py:10 in forward";
        synth_put(w, given_to, device, 2);
    }
    state.phase = TWIN_PHASE_RNG, state.op = "Dropout";
    synth_put(w, state, x, 2);
    synth_put(w,
              (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                    .kind = TWIN_KIND_ACTIVATION,
                                    .name = "output",
                                    .scope = "Net"},
              x, 4);
    twin_writer_step_end(w);
    return s;
}

static void a_generator_is_shown_with_its_own_draw(void **state)
{
    struct synth *a = seeded(false, 0);
    struct synth *b = seeded(false, 1);
    struct synth *za = seeded(true, 0);
    struct synth *zb = seeded(true, 1);
    const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
    struct twin_verdict *v = NULL;
    (void)state;
    assert_int_equal(twin_compare(runs, 2, NULL, &v, NULL), 0);
    assert_string_equal(v->first->name, "torch.cuda:0");
    assert_int_equal(twin_compare_zoom(v, synth_done(za), synth_done(zb), NULL), 0);
    assert_string_equal(v->first->op, "aten::native_dropout");
    assert_string_equal(v->first->site, "job.py:10 in forward");
    assert_false(has_note(v, "nothing was seen to draw"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
    synth_free(za);
    synth_free(zb);
}

static void between_two_operations(void **state)
{
    (void)state;
    struct twin_verdict *v = zoom(&(struct scene){.invisible = true}, false);
    assert_true(has_note(v, "between aten::embedding of step 1 and aten::index_put_"));
    twin_verdict_free(v);
}

static void generator_makes_a_carrier(void **state)
{
    (void)state;
    struct twin_verdict *v = zoom(&(struct scene){.generator = true}, false);
    assert_string_equal(v->first->op, "aten::native_dropout");
    assert_int_equal(v->first->role, TWIN_CARRIER);
    assert_true(has_note(v, "drew from a generator whose state already differed"));
    twin_verdict_free(v);
}

/* What operations of later steps show follows from what came before them: it names nothing. */
static void parted_before_operations_were_recorded(void **state)
{
    (void)state;
    struct twin_verdict *v = zoom(&(struct scene){.output = true, .before = true}, false);
    assert_true(has_note(v, "the reruns diverged at step 0 already, before the steps in which "
                            "operations were recorded"));
    assert_true(v->first->phase == TWIN_PHASE_BACKWARD);
    assert_false(has_note(v, "zoom: aten"));
    twin_verdict_free(v);
}

static void did_not_part_again(void **state)
{
    (void)state;
    struct twin_verdict *v = zoom(&(struct scene){.output = false}, false);
    assert_string_equal(v->first->op, "");
    assert_true(has_note(v, "did not diverge again"));
    twin_verdict_free(v);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    struct synth *a, *b, *z[2];
    for (int i = 0; i < 2; i++) {
        z[i] = zoomed(&(struct scene){.output = true, .replay = true}, i);
        synth_done(z[i]);
    }
    for (uint64_t n = 1;; n++) {
        struct twin_verdict *v = parted(&a, &b);
        tw_alloc_fail_at(n, false);
        int rc = twin_compare_zoom(v, synth_done(z[0]), synth_done(z[1]), NULL);
        tw_alloc_fail_at(0, false);
        synth_free(a);
        synth_free(b);
        assert_true(rc == 0 || rc == TWIN_ENOMEM);
        if (rc == 0)
            assert_string_equal(v->first->op, "aten::index_put_");
        twin_verdict_free(v);
        if (rc == 0)
            break;
    }
    for (int i = 0; i < 2; i++)
        synth_free(z[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operation_is_named),
        cmocka_unit_test(votes_tell_an_operation_from_a_core),
        cmocka_unit_test(suspect_is_named_for_a_second_rerun),
        cmocka_unit_test(input_of_a_module_is_traced_back),
        cmocka_unit_test(a_generator_is_shown_with_its_own_draw),
        cmocka_unit_test(between_two_operations),
        cmocka_unit_test(generator_makes_a_carrier),
        cmocka_unit_test(did_not_part_again),
        cmocka_unit_test(parted_before_operations_were_recorded),
        cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
