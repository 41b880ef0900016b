/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutants of order: the n-th record of a name is held against the n-th. Each mutant has a harmless
 * twin beside it. A job is a list of records, each made by one of a few real threads that take
 * turns, so that the test decides which comes first.
 */
#include "compare_test.h"

#define END {.step = true}

/* One record, or the end of a step. Values are single numbers. */
struct mark {
    enum twin_kind kind;
    const char *name;
    float value;
    int thread;
    const char *role, *scope, *op;
    uint32_t flags;
    bool step;
    bool at_start; /* as the agent found it, before its first step */
};

static enum twin_phase phase_of(enum twin_kind kind)
{
    switch (kind) {
    case TWIN_KIND_BATCH: return TWIN_PHASE_DATA;
    case TWIN_KIND_ACTIVATION:
    case TWIN_KIND_LOSS: return TWIN_PHASE_FORWARD;
    case TWIN_KIND_GRADIENT: return TWIN_PHASE_BACKWARD;
    case TWIN_KIND_VALUE: return TWIN_PHASE_OUTPUT;
    case TWIN_KIND_STATE: return TWIN_PHASE_RNG;
    default: return TWIN_PHASE_OPTIMIZER;
    }
}

struct job {
    struct twin_writer *w;
    const struct mark *todo;
};

static void make(void *user)
{
    const struct job *j = user;
    const struct mark *m = j->todo;
    if (m->step)
        twin_writer_step_end(j->w);
    else
        synth_put(j->w,
                  (struct synth_record){.phase = m->at_start ? TWIN_PHASE_INIT : phase_of(m->kind),
                                        .kind = m->kind,
                                        .name = m->name,
                                        .scope = m->scope,
                                        .op = m->op,
                                        .role = m->role,
                                        .flags = m->flags},
                  &m->value, 1);
}

static struct synth *job(const struct mark *m, size_t n)
{
    struct synth *s = synth_new("order");
    struct synth_crew *crew = synth_crew_open();
    struct job j = {.w = synth_process(s, 0, 1, NULL)};
    for (size_t i = 0; i < n; i++) {
        j.todo = &m[i];
        synth_crew_do(crew, m[i].thread, make, &j);
    }
    synth_crew_close(crew);
    return s;
}

static struct twin_verdict *judge(const struct mark *x, size_t n, const struct mark *y, size_t m,
                                  bool arms)
{
    struct twin_compare_options o = {.arms = arms};
    struct synth *a = job(x, n), *b = job(y, m);
    struct twin_verdict *v = compare(a, b, &o);
    synth_free(a);
    synth_free(b);
    return v;
}

#define COUNT(x) (sizeof(x) / sizeof(x)[0])
#define JUDGE(x, y) judge(x, COUNT(x), y, COUNT(y), false)

static void expect(struct twin_verdict *v, enum twin_verdict_outcome outcome)
{
    expect_outcome(v, outcome);
    twin_verdict_free(v);
}

#define BATCH(v) {.kind = TWIN_KIND_BATCH, .name = "x", .value = (v)}
#define WEIGHT(v) {.kind = TWIN_KIND_WEIGHT, .name = "w", .value = (v)}
#define OF(k, n, v) {.kind = TWIN_KIND_##k, .name = (n), .value = (v)}
#define BY(t, r, k, n, v) \
    {.kind = TWIN_KIND_##k, .name = (n), .value = (v), .thread = (t), .role = (r)}

/* ---- one thread */

static void permuted_values_of_a_step(void **state)
{
    (void)state;
    const struct mark a[] = {BATCH(0), WEIGHT(1), WEIGHT(2), WEIGHT(3), WEIGHT(4), END};
    const struct mark b[] = {BATCH(0), WEIGHT(1), WEIGHT(2), WEIGHT(4), WEIGHT(3), END};
    struct twin_verdict *v = JUDGE(a, b);
    expect_first(v, 0, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w");
    assert_string_equal(v->first->text,
                        "3rd of 4 in this step: 3 and 4; the other run holds it at another place");
    assert_int_equal(v->first->occurrence, 2);
    twin_verdict_free(v);
    expect(JUDGE(a, a), TWIN_SAME);
}

static void permuted_values_without_steps(void **state)
{
    (void)state;
    const struct mark a[] = {OF(VALUE, "v", 1), OF(VALUE, "v", 2), OF(VALUE, "v", 3)};
    const struct mark b[] = {OF(VALUE, "v", 3), OF(VALUE, "v", 2), OF(VALUE, "v", 1)};
    expect(JUDGE(a, b), TWIN_DIFFER);
    expect(JUDGE(a, a), TWIN_SAME);
}

/* Every kind, between two runs of one command and between arms. */
static void permuted_pairs_of_each_kind(void **state)
{
    (void)state;
    static const enum twin_kind kinds[] = {TWIN_KIND_BATCH,  TWIN_KIND_WEIGHT, TWIN_KIND_GRADIENT,
                                           TWIN_KIND_LOSS,   TWIN_KIND_VALUE,  TWIN_KIND_ACTIVATION,
                                           TWIN_KIND_MOMENT, TWIN_KIND_HYPER};
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (int arms = 0; arms < 2; arms++) {
            const struct mark a[] = {BATCH(7),
                                     WEIGHT(7),
                                     {.kind = kinds[k], .name = "p", .value = 1},
                                     {.kind = kinds[k], .name = "p", .value = 2},
                                     END};
            const struct mark b[] = {BATCH(7),
                                     WEIGHT(7),
                                     {.kind = kinds[k], .name = "p", .value = 2},
                                     {.kind = kinds[k], .name = "p", .value = 1},
                                     END};
            expect(judge(a, COUNT(a), b, COUNT(b), arms), TWIN_DIFFER);
            expect(judge(a, COUNT(a), a, COUNT(a), arms), TWIN_SAME);
        }
}

/* Records of other names in between, or in another order among each other, are benign as long as
 * each name's own order stays. */
static void names_may_interleave(void **state)
{
    (void)state;
    const struct mark a[] = {BATCH(0),
                             OF(ACTIVATION, "h", 1),
                             OF(ACTIVATION, "g", 5),
                             OF(ACTIVATION, "h", 2),
                             OF(ACTIVATION, "g", 6),
                             WEIGHT(1),
                             END};
    const struct mark b[] = {BATCH(0),
                             OF(ACTIVATION, "g", 5),
                             OF(ACTIVATION, "g", 6),
                             OF(ACTIVATION, "h", 1),
                             OF(ACTIVATION, "h", 2),
                             WEIGHT(1),
                             END};
    const struct mark c[] = {BATCH(0),
                             OF(ACTIVATION, "g", 6),
                             OF(ACTIVATION, "g", 5),
                             OF(ACTIVATION, "h", 1),
                             OF(ACTIVATION, "h", 2),
                             WEIGHT(1),
                             END};
    struct twin_verdict *v = JUDGE(a, b);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->benign_count, 1);
    assert_int_equal(v->benign[0].type, TWIN_FINDING_ORDER);
    twin_verdict_free(v);
    v = JUDGE(a, c);
    expect_first(v, 0, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "g");
    twin_verdict_free(v);
}

/* An arm that evaluates in between may have more of a name; that does not excuse another order of
 * what both have. */
static void inserted_and_permuted(void **state)
{
    (void)state;
    const struct mark a[] = {BATCH(1), BATCH(2), BATCH(3), OF(GRADIENT, "w", 9), WEIGHT(1), END};
    const struct mark more[] = {BATCH(8),  BATCH(1), BATCH(2), BATCH(3), OF(GRADIENT, "w", 9),
                                WEIGHT(1), END};
    const struct mark other[] = {BATCH(3),  BATCH(1), BATCH(2), BATCH(8), OF(GRADIENT, "w", 9),
                                 WEIGHT(1), END};
    expect(judge(a, COUNT(a), more, COUNT(more), true), TWIN_SAME);
    expect(judge(a, COUNT(a), other, COUNT(other), true), TWIN_DIFFER);
    expect(judge(a, COUNT(a), more, COUNT(more), false), TWIN_DIFFER);
}

/* The declaration holds for what is no value, and for a role's thread only among other threads. */
static void declared_unordered(void **state)
{
    (void)state;
    for (int weights = 0; weights < 2; weights++) {
        enum twin_kind kind = weights ? TWIN_KIND_GRADIENT_LOCAL : TWIN_KIND_ACTIVATION;
        const struct mark a[] = {
            BATCH(0),
            {.kind = kind, .name = "u", .value = 1, .flags = TWIN_REC_UNORDERED},
            {.kind = kind, .name = "u", .value = 2, .flags = TWIN_REC_UNORDERED},
            WEIGHT(1),
            END};
        const struct mark b[] = {
            BATCH(0),
            {.kind = kind, .name = "u", .value = 2, .flags = TWIN_REC_UNORDERED},
            {.kind = kind, .name = "u", .value = 1, .flags = TWIN_REC_UNORDERED},
            WEIGHT(1),
            END};
        expect(JUDGE(a, b), weights ? TWIN_DIFFER : TWIN_SAME);
    }
    const struct mark a[] = {{.kind = TWIN_KIND_BATCH,
                              .name = "x",
                              .value = 1,
                              .thread = 1,
                              .role = "loader",
                              .flags = TWIN_REC_UNORDERED},
                             {.kind = TWIN_KIND_BATCH,
                              .name = "x",
                              .value = 2,
                              .thread = 1,
                              .role = "loader",
                              .flags = TWIN_REC_UNORDERED},
                             WEIGHT(1),
                             END};
    const struct mark b[] = {a[1], a[0], WEIGHT(1), END};
    expect(JUDGE(a, b), TWIN_DIFFER);
}

/* ---- several threads that share a name */

static void threads_of_one_name(void **state)
{
    (void)state;
    const struct mark a[] = {BATCH(0),
                             BY(1, "r", WEIGHT, "w", 1),
                             BY(1, "r", WEIGHT, "w", 2),
                             BY(2, "r", WEIGHT, "w", 5),
                             BY(2, "r", WEIGHT, "w", 6),
                             END};
    const struct mark turns[] = {BATCH(0),
                                 BY(2, "r", WEIGHT, "w", 1),
                                 BY(1, "r", WEIGHT, "w", 5),
                                 BY(2, "r", WEIGHT, "w", 2),
                                 BY(1, "r", WEIGHT, "w", 6),
                                 END};
    const struct mark permuted[] = {BATCH(0),
                                    BY(1, "r", WEIGHT, "w", 2),
                                    BY(1, "r", WEIGHT, "w", 1),
                                    BY(2, "r", WEIGHT, "w", 5),
                                    BY(2, "r", WEIGHT, "w", 6),
                                    END};
    const struct mark other[] = {BATCH(0),
                                 BY(1, "r", WEIGHT, "w", 1),
                                 BY(1, "r", WEIGHT, "w", 2),
                                 BY(2, "r", WEIGHT, "w", 5),
                                 BY(2, "r", WEIGHT, "w", 7),
                                 END};
    expect(JUDGE(a, turns), TWIN_SAME);
    struct twin_verdict *v = JUDGE(a, permuted);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(
        v, "on several threads recorded values under one name, equal ones in another order; a role "
           "for each thread (twin_thread_role, threading.Thread(name=...), "
           "ThreadPoolExecutor(thread_name_prefix=...)) tells them apart"));
    twin_verdict_free(v);
    v = JUDGE(a, other);
    expect_first(v, 0, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w");
    twin_verdict_free(v);
}

/* Batches and activations that a pool of threads works on: who gets which is nobody's business. */
static void pool_of_threads(void **state)
{
    (void)state;
    const struct mark a[] = {BATCH(0),
                             BY(1, "pool", ACTIVATION, "h", 1),
                             BY(2, "pool", ACTIVATION, "h", 2),
                             BY(1, "pool", ACTIVATION, "h", 3),
                             WEIGHT(1),
                             END};
    const struct mark b[] = {BATCH(0),
                             BY(2, "pool", ACTIVATION, "h", 3),
                             BY(1, "pool", ACTIVATION, "h", 1),
                             BY(1, "pool", ACTIVATION, "h", 2),
                             WEIGHT(1),
                             END};
    const struct mark c[] = {BATCH(0),
                             BY(2, "pool", ACTIVATION, "h", 3),
                             BY(1, "pool", ACTIVATION, "h", 1),
                             BY(1, "pool", ACTIVATION, "h", 4),
                             WEIGHT(1),
                             END};
    expect(JUDGE(a, b), TWIN_SAME);
    expect(JUDGE(a, c), TWIN_DIFFER);
}

/* ---- another thread is no excuse for what one thread did in another order */

#define BEAT BY(1, "logger", VALUE, "heartbeat", 1)

static void thread_hides_nothing(void **state)
{
    (void)state;
    const struct mark a[] = {BEAT,      BATCH(0), WEIGHT(1), END,       BATCH(1),
                             WEIGHT(2), END,      BATCH(2),  WEIGHT(3), END};
    const struct mark order[] = {BEAT,      BATCH(0), WEIGHT(1), END,       BATCH(1),
                                 WEIGHT(3), END,      BATCH(2),  WEIGHT(2), END};
    const struct mark data[] = {BEAT,      BATCH(1), WEIGHT(1), END,       BATCH(0),
                                WEIGHT(2), END,      BATCH(2),  WEIGHT(3), END};
    const struct mark later[] = {BATCH(0), WEIGHT(1), END,      BATCH(1),  WEIGHT(2),
                                 END,      BEAT,      BATCH(2), WEIGHT(3), END};
    struct twin_verdict *v = JUDGE(a, order);
    expect_first(v, 1, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w");
    twin_verdict_free(v);
    v = JUDGE(a, data);
    expect_behind(v, 0, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", "the beginning");
    twin_verdict_free(v);
    v = JUDGE(a, later);
    expect_outcome(v, TWIN_SAME);
    assert_int_equal(v->benign_count, 1);
    twin_verdict_free(v);
}

/* The same, where the other thread's own stream is what is out of order, and where a draw is. */
static void thread_with_an_order_of_its_own(void **state)
{
    (void)state;
    const struct mark a[] = {BY(1, "loader", BATCH, "y", 1), BATCH(0), WEIGHT(1), END,
                             BY(1, "loader", BATCH, "y", 2), BATCH(1), WEIGHT(2), END};
    const struct mark b[] = {BY(1, "loader", BATCH, "y", 2), BATCH(0), WEIGHT(1), END,
                             BY(1, "loader", BATCH, "y", 1), BATCH(1), WEIGHT(2), END};
    const struct mark early[] = {BY(1, "loader", BATCH, "y", 1),
                                 BY(1, "loader", BATCH, "y", 2),
                                 BATCH(0),
                                 WEIGHT(1),
                                 END,
                                 BATCH(1),
                                 WEIGHT(2),
                                 END};
    expect(JUDGE(a, b), TWIN_DIFFER);
    expect(JUDGE(a, early), TWIN_SAME);
    const struct mark draw[] = {
        BEAT,     {.kind = TWIN_KIND_STATE, .name = "torch.cpu", .op = "DataLoader", .value = 1},
        BATCH(0), WEIGHT(1),
        END,      {.kind = TWIN_KIND_STATE, .name = "torch.cpu", .op = "DataLoader", .value = 2},
        BATCH(0), WEIGHT(1),
        END};
    const struct mark other[] = {
        BEAT,     draw[1],
        BATCH(0), WEIGHT(1),
        END,      {.kind = TWIN_KIND_STATE, .name = "torch.cpu", .op = "DataLoader", .value = 3},
        BATCH(0), WEIGHT(1),
        END};
    expect(JUDGE(draw, other), TWIN_DIFFER);
}

/* A thread for each step, one after the other, under one name: never "same" when their values come
 * in another order. */
static void thread_of_each_step(void **state)
{
    (void)state;
    const struct mark a[] = {BATCH(0), BY(1, NULL, WEIGHT, "w", 1), END,
                             BATCH(1), BY(2, NULL, WEIGHT, "w", 2), END,
                             BATCH(2), BY(3, NULL, WEIGHT, "w", 3), END};
    const struct mark b[] = {BATCH(0), BY(1, NULL, WEIGHT, "w", 1), END,
                             BATCH(1), BY(2, NULL, WEIGHT, "w", 3), END,
                             BATCH(2), BY(3, NULL, WEIGHT, "w", 2), END};
    struct twin_verdict *v = JUDGE(a, b);
    assert_int_not_equal(v->outcome, TWIN_SAME);
    twin_verdict_free(v);
    expect(JUDGE(a, a), TWIN_SAME);
}

/* Two threads that train under one name at once: turn by turn, or one after the other, with steps
 * cut by either. */
static void two_clean_threads(void **state)
{
    (void)state;
#define L(v) BY(1, "thread", WEIGHT, "w", v)
#define R(v) BY(2, "thread", WEIGHT, "w", v)
    const struct mark a[] = {BATCH(0), L(1), END,  R(10), END,   L(2), END,
                             R(20),    END,  L(3), END,   R(30), END};
    const struct mark b[] = {BATCH(0), R(10), END,  R(20), L(1), END, END,
                             R(30),    END,   L(2), END,   L(3), END};
    const struct mark c[] = {BATCH(0), L(1), END,   L(2), END,   L(3), END,
                             R(10),    END,  R(20), END,  R(30), END};
    const struct mark swapped[] = {BATCH(0), R(10), END,  R(30), L(1), END, END,
                                   R(20),    END,   L(2), END,   L(3), END};
    const struct mark other[] = {BATCH(0), R(10), END,  R(20), L(1), END, END,
                                 R(31),    END,   L(2), END,   L(3), END};
    struct twin_verdict *v = JUDGE(a, b);
    expect_outcome(v, TWIN_SAME);
    expect_benign(v, "several threads train at once and share the count of steps: their records "
                     "are equal, the steps they fall into are not");
    twin_verdict_free(v);
    expect(JUDGE(a, c), TWIN_SAME);
    v = JUDGE(a, swapped);
    assert_int_not_equal(v->outcome, TWIN_SAME);
    twin_verdict_free(v);
    expect(JUDGE(a, other), TWIN_DIFFER);
#undef L
#undef R
}

/* ---- generators: what is not counted needs evidence */

#define STATE(o, v) {.kind = TWIN_KIND_STATE, .name = "g", .op = (o), .value = (v)}
#define TRAIN(n) BATCH(n), OF(GRADIENT, "w", 5), WEIGHT(n)

static void generators(void **state)
{
    (void)state;
    const struct mark idle[] = {STATE(NULL, 1), TRAIN(1), END, STATE(NULL, 1), TRAIN(2), END};
    const struct mark other_idle[] = {STATE(NULL, 2), TRAIN(1), END, STATE(NULL, 2), TRAIN(2), END};
    const struct mark moving[] = {STATE(NULL, 1), TRAIN(1), END, STATE(NULL, 3), TRAIN(2), END};
    const struct mark other_moving[] = {STATE(NULL, 2), TRAIN(1), END,
                                        STATE(NULL, 4), TRAIN(2), END};
    const struct mark drawn[] = {STATE("dropout", 1), TRAIN(1), END,
                                 STATE("dropout", 3), TRAIN(2), END};
    const struct mark other_drawn[] = {STATE("dropout", 1), TRAIN(1), END,
                                       STATE("dropout", 4), TRAIN(2), END};
    const struct mark evaluated[] = {STATE("dropout", 1),
                                     TRAIN(1),
                                     STATE("evaluate", 2),
                                     END,
                                     STATE("dropout", 4),
                                     TRAIN(2),
                                     END};
    for (int arms = 0; arms < 2; arms++) {
        expect(judge(idle, COUNT(idle), other_idle, COUNT(other_idle), arms), TWIN_SAME);
        expect(judge(idle, COUNT(idle), other_moving, COUNT(other_moving), arms),
               arms ? TWIN_SAME : TWIN_DIFFER);
        /* by a consumer that nobody saw */
        expect(judge(moving, COUNT(moving), other_moving, COUNT(other_moving), arms), TWIN_DIFFER);
        /* nothing explains it */
        expect(judge(drawn, COUNT(drawn), other_drawn, COUNT(other_drawn), arms), TWIN_DIFFER);
        expect(judge(drawn, COUNT(drawn), evaluated, COUNT(evaluated), arms),
               arms ? TWIN_SAME : TWIN_DIFFER);
    }
}

/* The first record finds torch as it seeded itself; then the job sets a seed, or the state of a
 * checkpoint. */
static void generator_is_set_again(void **state)
{
    (void)state;
#define FOUND(v) {.kind = TWIN_KIND_STATE, .name = "g", .value = (v), .at_start = true}
#define FIRST(v) FOUND(v), OF(BATCH, "early", 1)
#define SET(v) STATE("user code", v), TRAIN(1), STATE(NULL, v), END
#define IN(s, v) {.kind = TWIN_KIND_STATE, .name = "g", .scope = (s), .value = (v)}
    const struct mark a[] = {FIRST(1), SET(9)};
    const struct mark b[] = {FIRST(2), SET(9)};
    /* what must not pass: drawn from, set to something else, never set, or seen in a value */
    const struct mark drawn[] = {FIRST(2), SET(8)};
    const struct mark drawn_later[] = {FIRST(2), STATE("user code", 9), TRAIN(1),
                                       STATE("dropout", 8), END};
    const struct mark ends_otherwise[] = {FIRST(2), STATE("user code", 9), TRAIN(1), STATE(NULL, 8),
                                          END};
    const struct mark unset[] = {FIRST(2), TRAIN(1), STATE(NULL, 2), END};
    const struct mark noise[] = {FOUND(2), OF(BATCH, "early", 3), SET(9)};
    const struct mark weight[] = {FIRST(2), STATE("user code", 9), TRAIN(2), STATE(NULL, 9), END};
    /* nor what is no first state, has a consumer with a name, or is another generator's */
    const struct mark later[2][9] = {
        {STATE(NULL, 1), STATE("user code", 9), TRAIN(1), STATE(NULL, 9), END},
        {STATE(NULL, 2), STATE("user code", 9), TRAIN(1), STATE(NULL, 9), END}};
    const struct mark named[2][9] = {
        {FOUND(1), STATE("dropout", 9), TRAIN(1), STATE(NULL, 9), END},
        {FOUND(2), STATE("dropout", 9), TRAIN(1), STATE(NULL, 9), END}};
    const struct mark met[2][9] = {{STATE("user code", 1), STATE("user code", 9), TRAIN(1), END},
                                   {STATE("user code", 2), STATE("user code", 9), TRAIN(1), END}};
    const struct mark two[2][9] = {{IN("encoder", 1), IN("decoder", 9), TRAIN(1), END},
                                   {IN("encoder", 2), IN("decoder", 9), TRAIN(1), END}};
    for (int arms = 0; arms < 2; arms++) {
        struct twin_verdict *v = judge(a, COUNT(a), b, COUNT(b), arms);
        expect_outcome(v, TWIN_SAME);
        if (!arms)
            expect_note(v, "generator g differs at the start, and agrees after user code moved it, "
                           "as all else of that step does: not counted");
        twin_verdict_free(v);
        expect(judge(a, COUNT(a), drawn, COUNT(drawn), arms), TWIN_DIFFER);
        expect(judge(a, COUNT(a), weight, COUNT(weight), arms), TWIN_DIFFER);
        expect(judge(a, COUNT(a), noise, COUNT(noise), arms), TWIN_DIFFER);
    }
    expect(JUDGE(a, unset), TWIN_DIFFER);
    expect(JUDGE(a, drawn_later), TWIN_DIFFER);
    expect(JUDGE(a, ends_otherwise), TWIN_DIFFER);
    expect(judge(later[0], 7, later[1], 7, false), TWIN_DIFFER);
    expect(judge(named[0], 7, named[1], 7, false), TWIN_DIFFER);
    expect(judge(met[0], 6, met[1], 6, false), TWIN_DIFFER);
    expect(judge(two[0], 6, two[1], 6, false), TWIN_DIFFER);
#undef FOUND
#undef FIRST
#undef SET
#undef IN
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permuted_values_of_a_step),
        cmocka_unit_test(permuted_values_without_steps),
        cmocka_unit_test(permuted_pairs_of_each_kind),
        cmocka_unit_test(names_may_interleave),
        cmocka_unit_test(inserted_and_permuted),
        cmocka_unit_test(declared_unordered),
        cmocka_unit_test(threads_of_one_name),
        cmocka_unit_test(pool_of_threads),
        cmocka_unit_test(thread_hides_nothing),
        cmocka_unit_test(thread_with_an_order_of_its_own),
        cmocka_unit_test(thread_of_each_step),
        cmocka_unit_test(two_clean_threads),
        cmocka_unit_test(generators),
        cmocka_unit_test(generator_is_set_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
