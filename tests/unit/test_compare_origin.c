/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be called an origin. Each case is a mutant of a pair whose verdict is ORIGIN: an input
 * that was sampled, not read, dropped, never seen, or another. Not one of them may say ORIGIN, and
 * each names what is missing.
 */
#include "compare_test.h"

#include "base.h"

enum mutant {
    /* the operation (or step) got equal inputs, all seen whole, and gave another output */
    NONE,
    SAMPLED,        /* an input was recorded in part */
    UNREAD,         /* an input could not be read */
    UNSEEN,         /* no input was recorded */
    OTHER_INPUT,    /* an input differs */
    OTHER_LAYOUT,   /* an input has another shape */
    ONE_INPUT_LESS, /* an input that one run alone had */
    CALLED_ALONE,   /* one run called something before, and an input differs after it */
    MUTANTS
};

static const float x[4] = {1, 2, 3, 4}, y[4] = {2, 4, 6, 8}, z[4] = {2, 4, 6, 9};

static void put(struct twin_writer *w, enum twin_phase phase, enum twin_kind kind, const char *name,
                const char *op, uint32_t flags, const float *v, size_t n)
{
    synth_put(
        w,
        (struct synth_record){
            .phase = phase, .kind = kind, .name = name, .scope = "Net", .op = op, .flags = flags},
        v, n);
}

/* ---- records of the usual level */

static struct synth *trained(enum mutant m, int run)
{
    struct synth *s = synth_new("origin");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    for (int step = 0; step < 3; step++) {
        bool odd = run == 1 && step == 2;
        if (step == 0)
            put(w, TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, "w", "Linear", 0, x, 4);
        if (m != UNSEEN)
            put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "input[0]", "",
                m == UNREAD ? TWIN_REC_UNOBSERVED : 0, odd && m == OTHER_INPUT ? z : x,
                odd && m == OTHER_LAYOUT ? 2 : 4);
        put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "output", "Net", 0, odd ? z : y, 4);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, m == SAMPLED ? "w[1/16]" : "w", "SGD", 0,
            odd ? z : y, 4);
        twin_writer_step_end(w);
    }
    return s;
}

static void a_record_is_an_origin_only_with_whole_inputs(void **state)
{
    (void)state;
    static const struct {
        enum mutant m;
        enum twin_role role;
        const char *name, *missing, *to;
    } all[] = {
        {NONE, TWIN_ORIGIN, "output", NULL},
        {SAMPLED, TWIN_ROLE_UNKNOWN, "output", "w[1/16] of step 1 (was seen in part)"},
        {UNREAD, TWIN_ROLE_UNKNOWN, "output", "input[0] of Net in step 2 (could not be read)"},
        {UNSEEN, TWIN_ROLE_UNKNOWN, "output", "no input was seen"},
        /* the batch is named, not what it made; and what makes it is not recorded */
        {OTHER_INPUT, TWIN_ROLE_UNKNOWN, "input[0]", "the beginning", "input[0] of Net in step 2"},
        {OTHER_LAYOUT, TWIN_ROLE_UNKNOWN, "input[0]", "the beginning", "input[0] of Net in step 2"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct synth *a = trained(all[i].m, 0), *b = trained(all[i].m, 1);
        struct twin_verdict *v = compare(a, b, NULL), *back = compare(b, a, NULL);
        if (v->first->role != all[i].role)
            explain(v);
        assert_string_equal(v->first->name, all[i].name);
        assert_int_equal(v->first->role, all[i].role);
        assert_int_equal(v->origins[0].role, all[i].role);
        assert_true(!v->first->between[0] == !all[i].missing);
        assert_true(!all[i].missing || strstr(v->first->between[0], all[i].missing));
        const char *to = all[i].to ? all[i].to : "output of Net in step 2";
        assert_true(!all[i].missing || strstr(v->first->between[1], to));
        /* only what was compared whole */
        bool weights = strstr(v->equal_before, "weights") != NULL;
        assert_int_equal(weights, all[i].m != SAMPLED);
        /* the other way round it is the same place */
        assert_string_equal(back->first->name, v->first->name);
        assert_int_equal(back->first->role, v->first->role);
        twin_verdict_free(v);
        twin_verdict_free(back);
        synth_free(a);
        synth_free(b);
    }
}

/* ---- what was computed with another number of threads */

/* "setting threads N" at the beginning and the end, as PyTorch's agent tells them; 0: nothing. */
static void tell_threads(struct synth *s, int first, int last)
{
    char path[500], text[100];
    snprintf(path, sizeof path, "%s/worlds", synth_done(s)->dir);
    assert_int_equal(tw_mkdirs(path, NULL), 0);
    snprintf(path, sizeof path, "%s/worlds/0.1000", synth_done(s)->dir);
    snprintf(text, sizeof text, "setting\tthreads %d\nsetting\tthreads %d\n", first, last);
    assert_int_equal(tw_write_file_atomic(path, text, strlen(text), NULL), 0);
}

static void what_other_numbers_of_threads_computed_is_no_origin(void **state)
{
    (void)state;
    static const struct {
        enum mutant m;
        int a[2], b[2]; /* first and last; 0: it told nothing */
        const char *between[2];
    } all[] = {
        {NONE, {2, 2}, {2, 2}, {NULL}},
        {NONE, {2, 2}, {0, 0}, {NULL}},
        {NONE, {0, 0}, {2, 2}, {NULL}},
        {NONE,
         {1, 1},
         {2, 2},
         {"input[0] of Net in step 2",
          "output of Net in step 2, by 1 thread of PyTorch in run 1 and 2 in run 2"}},
        {NONE,
         {2, 2},
         {2, 4},
         {"input[0] of Net in step 2",
          "output of Net in step 2, by 2 threads of PyTorch in run 1 and 2, later 4 in run 2"}},
        /* threads of operations make no batch */
        {OTHER_INPUT, {1, 1}, {2, 2}, {"the beginning", "input[0] of Net in step 2"}},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct synth *a = trained(all[i].m, 0), *b = trained(all[i].m, 1);
        if (all[i].a[0])
            tell_threads(a, all[i].a[0], all[i].a[1]);
        if (all[i].b[0])
            tell_threads(b, all[i].b[0], all[i].b[1]);
        struct twin_verdict *v = compare(a, b, NULL);
        const bool origin = !all[i].between[0];
        assert_int_equal(v->first->role, origin ? TWIN_ORIGIN : TWIN_ROLE_UNKNOWN);
        for (int k = 0; !origin && k < 2; k++)
            assert_string_equal(v->first->between[k], all[i].between[k]);
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

/* ---- gradients that one run alone has */

/* In step 2 the second run has one parameter less that reached its loss, or another value (alone
 * false). */
static struct synth *with_gradients(int run, bool alone)
{
    struct synth *s = synth_new("gradients");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    for (int step = 0; step < 3; step++) {
        bool odd = run == 1 && step == 2;
        put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "input[0]", "", 0, x, 4);
        put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "output", "Net", 0, y, 4);
        put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "w", "", 0, y, 4);
        if (!odd || !alone)
            put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "v", "", 0, odd ? z : y, 4);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", "SGD", 0, odd ? z : y, 4);
        twin_writer_step_end(w);
    }
    return s;
}

static void a_gradient_of_one_run_alone_is_no_origin(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++)
        for (int alone = 0; alone < 2; alone++) {
            struct synth *a = with_gradients(turned, alone), *b = with_gradients(!turned, alone);
            struct twin_verdict *v = compare(a, b, NULL);
            assert_string_equal(v->first->name, "v");
            assert_int_equal(v->first->role, alone ? TWIN_ROLE_UNKNOWN : TWIN_ORIGIN);
            if (alone) {
                assert_string_equal(v->first->between[0], "the forward of step 2");
                assert_string_equal(v->first->between[1], "gradient v of step 2");
            }
            twin_verdict_free(v);
            synth_free(a);
            synth_free(b);
        }
}

/* ---- records of things that were made elsewhere */

static const struct shown {
    enum twin_phase phase;
    enum twin_kind kind;
    const char *name, *op, *from;
    uint32_t step;
} shown[] = {
    {TWIN_PHASE_KERNEL, TWIN_KIND_IN, "aten::mm.in0", "aten::mm", "aten::relu of step 1", 1},
    {TWIN_PHASE_KERNEL, TWIN_KIND_IN, "aten::mm.arguments", "aten::mm", "aten::relu of step 1", 1},
    {TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, "n_averaged", "AveragedModel", "the beginning", 1},
    {TWIN_PHASE_DATA, TWIN_KIND_IN, "input[1]", "Linear", "the beginning", 1},
    {TWIN_PHASE_CHECKPOINT, TWIN_KIND_FILE, "tensors in ema.pt", "torch.save", "the end of step 0",
     1},
    {TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, "n_averaged", "AveragedModel", "the beginning", 0},
    {TWIN_PHASE_DATA, TWIN_KIND_IN, "input[1]", "written",
     "the batch of step 1 as the loader delivered it", 1},
    {TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", "backward", "the end of step 0", 1},
    {TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", "autograd.grad", "the end of step 0", 1},
    {TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", "MSELoss", NULL, 1},
    {TWIN_PHASE_OPTIMIZER, TWIN_KIND_GRADIENT, "v", "written", "the forward of step 1", 1},
    /* a line of the job drew from it, or set it */
    {TWIN_PHASE_RNG, TWIN_KIND_STATE, "torch.cpu", "user code", "the end of step 0", 1},
    {TWIN_PHASE_RNG, TWIN_KIND_STATE, "torch.cpu", "Dropout", NULL, 1},
};

static struct synth *shows(const struct shown *what, int run)
{
    struct synth *s = synth_new("shown");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    for (uint32_t step = 0; step < 2; step++) {
        put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "input[0]", "", 0, x, 4);
        put(w, TWIN_PHASE_KERNEL, TWIN_KIND_OUT, "aten::relu.out0", "aten::relu", 0, y, 4);
        if (step == what->step)
            put(w, what->phase, what->kind, what->name, what->op, 0, run == 1 ? z : y, 4);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", "SGD", 0, y, 4);
        twin_writer_step_end(w);
    }
    return s;
}

/* An input of an operation, a module that is first called late, tensors in a file: these show what
 * was made out of sight. */
static void what_only_shows_a_difference_is_no_origin(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        struct synth *a = shows(&shown[i], 0), *b = shows(&shown[i], 1);
        struct twin_verdict *v = compare(a, b, NULL);
        assert_string_equal(v->first->name, shown[i].name);
        assert_int_equal(v->first->role, shown[i].from ? TWIN_ROLE_UNKNOWN : TWIN_ORIGIN);
        if (shown[i].from)
            assert_string_equal(v->first->between[0], shown[i].from);
        /* their bytes are no elements */
        bool arguments = strstr(shown[i].name, ".arguments") || strstr(shown[i].name, "ema.pt");
        assert_int_equal(v->first->elements, arguments ? 0 : 4);
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

/*
 * What lines of the job make is no origin, whatever was equal before it: they read files and
 * options, and draw from generators that nobody sees, at any time. It makes no odds whether a
 * generator was found in another state, which nobody was seen to draw from.
 */
static const struct {
    enum twin_phase phase;
    enum twin_kind kind;
    const char *op;
    uint32_t step;
    bool by_lines; /* else operations compute it */
} handed_over[] = {
    {TWIN_PHASE_DATA, TWIN_KIND_BATCH, "Linear", 0, true},
    {TWIN_PHASE_DATA, TWIN_KIND_BATCH, "Linear", 1, true},
    {TWIN_PHASE_DATA, TWIN_KIND_INDICES, "sampler", 0, true},
    {TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, "Linear", 0, true},
    {TWIN_PHASE_INIT, TWIN_KIND_MOMENT, "SGD", 0, true},
    {TWIN_PHASE_OPTIMIZER, TWIN_KIND_HYPER, "SGD", 0, true},
    {TWIN_PHASE_OPTIMIZER, TWIN_KIND_HYPER, "GradScaler", 1, true},
    {TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "", 0, true},
    {TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "", 1, true},
    {TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "Linear", 0, false},
    {TWIN_PHASE_KERNEL, TWIN_KIND_OUT, "aten::mm", 1, false},
};

static struct synth *hands_over(size_t which, bool other_state, int run)
{
    struct synth *s = synth_new("handed");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    const float *state = run == 1 && other_state ? z : y;
    put(w, TWIN_PHASE_INIT, TWIN_KIND_STATE, "numpy", "", 0, x, 4);
    synth_put(w, (struct synth_record){TWIN_PHASE_INIT, TWIN_KIND_STATE, "python"}, state, 4);
    for (uint32_t step = 0; step < 2; step++) {
        put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "input[0]", "", 0, x, 4);
        if (step == handed_over[which].step)
            put(w, handed_over[which].phase, handed_over[which].kind, "v", handed_over[which].op, 0,
                run == 1 ? z : y, 4);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", "SGD", 0, y, 4);
        synth_put(w, (struct synth_record){TWIN_PHASE_RNG, TWIN_KIND_STATE, "python"}, state, 4);
        twin_writer_step_end(w);
    }
    return s;
}

static void what_lines_of_the_job_make_is_no_origin(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof handed_over / sizeof handed_over[0]); i++) {
        size_t which = i / 2;
        bool other = i % 2, by_lines = handed_over[which].by_lines;
        struct synth *a = hands_over(which, other, 0), *b = hands_over(which, other, 1);
        struct twin_verdict *v = compare(a, b, NULL);
        if (v->first->role != (by_lines ? TWIN_ROLE_UNKNOWN : TWIN_ORIGIN))
            explain(v);
        assert_string_equal(v->first->name, "v");
        assert_int_equal(v->first->role, by_lines ? TWIN_ROLE_UNKNOWN : TWIN_ORIGIN);
        if (by_lines)
            assert_string_equal(v->first->between[0], "the beginning");
        /* one of the two states is another */
        if (handed_over[which].step == 0)
            assert_int_equal(strstr(v->equal_before, "generator states") != NULL, !other);
        assert_int_equal(has_note(v, "whether something drew from it before that is not known"),
                         other);
        assert_false(has_note(v, "differs too"));
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

/* Nobody looks at an optimizer's state between two steps; in the first one it begins. */
static void an_updated_moment_is_an_origin_in_the_first_step_alone(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < 3; odd++) {
        struct synth *s[2];
        for (int run = 0; run < 2; run++) {
            s[run] = synth_new("moment");
            struct twin_writer *w = synth_process(s[run], 0, 1, NULL);
            for (uint32_t step = 0; step < 3; step++) {
                const bool other = run == 1 && step == odd;
                put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "input[0]", "", 0, x, 4);
                put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "w", "", 0, x, 4);
                put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "w.m", "SGD", 0, other ? z : y, 4);
                put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", "SGD", 0, other ? z : y, 4);
                twin_writer_step_end(w);
            }
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        assert_string_equal(v->first->name, "w.m");
        assert_int_equal(v->first->role, odd == 0 ? TWIN_ORIGIN : TWIN_ROLE_UNKNOWN);
        if (odd == 2)
            assert_string_equal(v->first->between[0], "the optimizer state as step 1 left it");
        twin_verdict_free(v);
        for (int run = 0; run < 2; run++)
            synth_free(s[run]);
    }
}

/* Both fail, one of them a step later: what this one goes on to record was not made by the
 * difference of anything. */
static void nothing_behind_the_end_of_a_failed_run_is_an_origin(void **state)
{
    (void)state;
    for (int failed = 0; failed < 2; failed++) {
        struct synth *s[2];
        for (int run = 0; run < 2; run++) {
            s[run] = synth_new("failed");
            struct twin_writer *w = synth_process(s[run], 0, 1, NULL);
            for (int step = 0; step < 2; step++) {
                if (step == 0 || run == 1)
                    put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "input[0]", "", 0, x, 4);
                put(w, TWIN_PHASE_FORWARD, TWIN_KIND_VALUE, "norm", "", 0, y, 4);
                if (step == 0 || run == 1)
                    twin_writer_step_end(w);
            }
            if (failed)
                synth_run(s[run])->exit_code = 1;
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        if (failed) {
            assert_string_equal(v->first->name, "input[0]");
            assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
            assert_string_equal(v->first->between[0], "the end of run 1, which failed");
        } else {
            assert_int_equal(v->outcome, TWIN_DIFFER);
        }
        twin_verdict_free(v);
        synth_free(s[0]);
        synth_free(s[1]);
    }
}

/* ---- operations of a zoom pair */

static struct synth *zoomed(enum mutant m, int run, const char *replay)
{
    struct synth *s = synth_new("zoom");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    for (int step = 0; step < 3; step++) {
        bool odd = run == 1 && step == 2;
        bool other = odd && (m == OTHER_INPUT || m == CALLED_ALONE);
        put(w, TWIN_PHASE_KERNEL, TWIN_KIND_IN, "aten::relu.in0", "aten::relu", 0, x, 4);
        put(w, TWIN_PHASE_KERNEL, TWIN_KIND_OUT, "aten::relu.out0", "aten::relu", 0, y, 4);
        if (odd && m == CALLED_ALONE) {
            put(w, TWIN_PHASE_KERNEL, TWIN_KIND_IN, "aten::add_.in0", "aten::add_", 0, x, 4);
            put(w, TWIN_PHASE_KERNEL, TWIN_KIND_OUT, "aten::add_.out0", "aten::add_", 0, z, 4);
        }
        if (m != UNSEEN)
            put(w, TWIN_PHASE_KERNEL, TWIN_KIND_IN,
                m == SAMPLED ? "aten::mm.in0[1/16]" : "aten::mm.in0", "aten::mm",
                m == UNREAD ? TWIN_REC_UNOBSERVED : 0, other ? z : y,
                odd && m == OTHER_LAYOUT ? 2 : 4);
        if (m != ONE_INPUT_LESS || !odd)
            put(w, TWIN_PHASE_KERNEL, TWIN_KIND_IN, "aten::mm.in1", "aten::mm",
                m == UNSEEN ? TWIN_REC_UNOBSERVED : 0, x, 4);
        put(w, TWIN_PHASE_KERNEL, TWIN_KIND_OUT, "aten::mm.out0", "aten::mm", 0, odd ? z : y, 4);
        twin_writer_step_end(w);
    }
    if (replay)
        twin_writer_note(w, "zoom.replay", replay);
    return s;
}

static struct twin_verdict *zoom(enum mutant m, bool turned, const char *replay)
{
    struct synth *a = trained(NONE, turned), *b = trained(NONE, !turned);
    struct synth *za = zoomed(m, turned, replay), *zb = zoomed(m, !turned, NULL);
    struct twin_verdict *v = compare(a, b, NULL);
    assert_int_equal(twin_compare_zoom(v, synth_done(za), synth_done(zb), NULL), 0);
    synth_free(a);
    synth_free(b);
    synth_free(za);
    synth_free(zb);
    return v;
}

/* ---- weights that a line of the job wrote */

enum where { BEFORE_THE_FORWARD, AT_THE_START, BEFORE_THE_BACKWARD, NOT_LOOKED_AT, BY_A_CALL };

static struct synth *written(enum where where, int run)
{
    struct synth *s = synth_new("written");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    uint32_t at = where == AT_THE_START ? 0 : 2;
    if (where == NOT_LOOKED_AT)
        twin_writer_note(w, "written.unseen", "1 Net are looked at in part");
    if (where == BY_A_CALL)
        twin_writer_note(w, "call.unseen", "2 epoch reads a file");
    for (uint32_t step = 0; step < 3; step++) {
        bool odd = run == 1 && step == at, called = where == BY_A_CALL;
        if (step == 0)
            put(w, TWIN_PHASE_INIT, TWIN_KIND_WEIGHT, "w", "Linear", 0, x, 4);
        if (step == at && where < BEFORE_THE_BACKWARD)
            put(w, TWIN_PHASE_FORWARD, TWIN_KIND_WEIGHT, "w", "written", 0, odd ? z : y, 4);
        put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "input[0]", "", 0, x, 4);
        put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "output", "Net", 0,
            odd && where != BEFORE_THE_BACKWARD && !called ? z : y, 4);
        if (step == at && where == BEFORE_THE_BACKWARD)
            put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_WEIGHT, "w", "written", 0, odd ? z : y, 4);
        put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "w", "", 0, odd && !called ? z : y, 4);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", "SGD", 0, odd ? z : y, 4);
        twin_writer_step_end(w);
    }
    return s;
}

static void who_meets_a_written_weight_is_no_origin(void **state)
{
    (void)state;
    static const struct {
        enum where where;
        enum twin_kind kind;
        const char *from;
    } all[] = {
        {BEFORE_THE_FORWARD, TWIN_KIND_WEIGHT, "the weights as step 1 left them"},
        {AT_THE_START, TWIN_KIND_WEIGHT, "the first weights"},
        {BEFORE_THE_BACKWARD, TWIN_KIND_WEIGHT, "the forward of step 2"},
        {NOT_LOOKED_AT, TWIN_KIND_ACTIVATION,
         "the weights as step 2 began (those of Net are looked at in part)"},
        {BY_A_CALL, TWIN_KIND_WEIGHT, "the call of epoch in step 2 (which reads a file)"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct synth *a = written(all[i].where, 0), *b = written(all[i].where, 1);
        struct twin_verdict *v = compare(a, b, NULL);
        assert_int_equal(v->first->kind, all[i].kind);
        assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
        assert_string_equal(v->first->between[0], all[i].from);
        for (size_t k = 0; k < v->origin_count; k++)
            assert_int_not_equal(v->origins[k].role, TWIN_ORIGIN);
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

static void the_zoom_says_origin_only_with_whole_inputs(void **state)
{
    (void)state;
    static const struct {
        enum mutant m;
        enum twin_role role;
        const char *op, *missing;
    } all[] = {
        {NONE, TWIN_ORIGIN, "aten::mm", NULL},
        {SAMPLED, TWIN_ROLE_UNKNOWN, "aten::mm", "aten::mm.in0[1/16]"},
        {UNREAD, TWIN_ROLE_UNKNOWN, "aten::mm", "aten::mm.in0"},
        {UNSEEN, TWIN_ROLE_UNKNOWN, "aten::mm", "not seen whole"},
        {OTHER_INPUT, TWIN_ROLE_UNKNOWN, "aten::mm", "aten::relu of step 2"},
        {OTHER_LAYOUT, TWIN_ROLE_UNKNOWN, "aten::mm", "aten::relu of step 2"},
        {ONE_INPUT_LESS, TWIN_ROLE_UNKNOWN, "aten::mm", ""},
        {CALLED_ALONE, TWIN_ROLE_UNKNOWN, "aten::add_", "aten::relu of step 2"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int turned = 0; turned < 2; turned++) {
            struct twin_verdict *v = zoom(all[i].m, turned, NULL);
            if (v->first->role != all[i].role || strcmp(v->first->op, all[i].op) != 0)
                explain(v);
            assert_string_equal(v->first->op, all[i].op);
            assert_int_equal(v->first->role, all[i].role);
            assert_int_equal(v->origins[0].role, all[i].role);
            assert_string_equal(v->origins[0].op, all[i].op);
            assert_true(!all[i].missing || strstr(v->first->between[0], all[i].missing));
            assert_int_equal(v->first->step_a, 2);
            assert_true(has_note(v, "got equal inputs and gave another output") ==
                        (all[i].role == TWIN_ORIGIN));
            twin_verdict_free(v);
        }
}

/* The output is the activation that was recorded under a name of its own: that name, and the size
 * of that tensor. */
static void an_output_goes_by_the_name_of_the_tensor_that_it_is(void **state)
{
    (void)state;
    struct synth *a = trained(NONE, 0), *b = trained(NONE, 1), *pair[2];
    struct twin_verdict *v = compare(a, b, NULL);
    for (int run = 0; run < 2; run++) {
        pair[run] = synth_new("zoom");
        struct twin_writer *w = synth_process(pair[run], 0, 1, NULL);
        for (int step = 0; step < 3; step++) {
            put(w, TWIN_PHASE_KERNEL, TWIN_KIND_IN, "aten::mm.in0", "aten::mm", 0, x, 4);
            put(w, TWIN_PHASE_KERNEL, TWIN_KIND_OUT, "aten::mm.out0", "aten::mm", 0,
                run == 1 && step == 2 ? z : y, 4);
            put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "other", "Net", 0,
                run == 1 && step == 2 ? x : y, 4);
            put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "hidden", "Net", 0,
                run == 1 && step == 2 ? z : y, 4);
            twin_writer_step_end(w);
        }
    }
    assert_int_equal(twin_compare_zoom(v, synth_done(pair[0]), synth_done(pair[1]), NULL), 0);
    assert_string_equal(v->first->name, "hidden");
    assert_string_equal(v->first->op, "aten::mm");
    assert_int_equal(v->first->kind, TWIN_KIND_ACTIVATION);
    assert_int_equal(v->first->role, TWIN_ORIGIN);
    assert_true(has_note(v, "in the runs themselves, which recorded no operations, the first that "
                            "differs is forward/activation output"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
    synth_free(pair[0]);
    synth_free(pair[1]);
}

static void replays_that_agree_acquit(void **state)
{
    (void)state;
    struct twin_verdict *v = zoom(NONE, false, "aten::mm 20 0");
    assert_int_equal(v->replay, TWIN_REPLAY_AGREES);
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    assert_int_equal(v->origins[0].role, TWIN_ROLE_UNKNOWN);
    assert_true(
        has_note(v,
                 "that acquits aten::mm itself as far as 20 replays can: what remains is an input "
                 "that no record shows (a global setting, an address, a number of threads), memory "
                 "that something else wrote to meanwhile, or a race that is rarer than that") &&
        has_note(
            v,
            "aten::mm, run again 20 times on its recorded inputs, gave the same result each time"));
    assert_string_equal(v->first->between[0], "the recorded inputs of aten::mm in step 2");
    twin_verdict_free(v);
    v = zoom(NONE, false, "aten::mm 20 3");
    assert_int_equal(v->first->role, TWIN_ORIGIN);
    assert_true(has_note(v, "it is not deterministic"));
    twin_verdict_free(v);
    /* another operation's replays say nothing of this one */
    v = zoom(NONE, false, "aten::relu 20 0");
    assert_int_equal(v->first->role, TWIN_ORIGIN);
    twin_verdict_free(v);
}

/* A rate of learning is set by the job's own lines: the operations that use it make none of it. */
static void a_hyperparameter_stays_the_headline(void **state)
{
    (void)state;
    struct synth *pair[2], *z2[2];
    for (int run = 0; run < 2; run++) {
        float lr[1] = {run ? 0.01f : 0.005f};
        pair[run] = synth_new("lr");
        struct twin_writer *w = synth_process(pair[run], 0, 1, NULL);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_HYPER, "lr[0]", "SGD", 0, lr, 1);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", "SGD", 0, run ? z : y, 4);
        twin_writer_step_end(w);
        z2[run] = zoomed(NONE, run, NULL);
    }
    struct twin_verdict *v = compare(pair[0], pair[1], NULL);
    assert_string_equal(v->first->name, "lr[0]");
    assert_int_equal(twin_compare_zoom(v, synth_done(z2[0]), synth_done(z2[1]), NULL), 0);
    assert_string_equal(v->first->name, "lr[0]");
    assert_string_equal(v->first->op, "SGD");
    assert_int_equal(v->first->elements, 1);
    assert_true(has_note(v, "the first operation that meets the difference is aten::mm"));
    twin_verdict_free(v);
    for (int run = 0; run < 2; run++) {
        synth_free(pair[run]);
        synth_free(z2[run]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_meets_a_written_weight_is_no_origin),
        cmocka_unit_test(a_record_is_an_origin_only_with_whole_inputs),
        cmocka_unit_test(what_other_numbers_of_threads_computed_is_no_origin),
        cmocka_unit_test(a_gradient_of_one_run_alone_is_no_origin),
        cmocka_unit_test(the_zoom_says_origin_only_with_whole_inputs),
        cmocka_unit_test(an_output_goes_by_the_name_of_the_tensor_that_it_is),
        cmocka_unit_test(replays_that_agree_acquit),
        cmocka_unit_test(a_hyperparameter_stays_the_headline),
        cmocka_unit_test(what_only_shows_a_difference_is_no_origin),
        cmocka_unit_test(an_updated_moment_is_an_origin_in_the_first_step_alone),
        cmocka_unit_test(what_lines_of_the_job_make_is_no_origin),
        cmocka_unit_test(nothing_behind_the_end_of_a_failed_run_is_an_origin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
