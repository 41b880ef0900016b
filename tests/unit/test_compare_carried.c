/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that a loop carries: a function is given what it gave back in the step before. Where one
 * run alone was given that again the verdict says so; where it cannot be known, nothing.
 *
 * What a function gave back may be a weight or a moment, where a class says so. No optimizer that
 * is seen made it: as to causes it is an output like any other.
 */
#include "compare_test.h"

#include "base.h"

#include <math.h>

enum mutant {
    LOST,        /* run 2 begins step 2 with other state */
    BOTH_OTHER,  /* both were given new state, and not the same */
    EXCHANGED,   /* run 2 was given its other result */
    OLDER,       /* run 2 was given what step 0 gave back */
    OF_ANOTHER,  /* the bytes were given back, by another function */
    OTHER_SHAPE, /* run 2 was given the same numbers in another shape */
    IN_PART,     /* of what run 2 gave back a part was seen */
    UNREAD,      /* what run 2 gave back was not read */
    GIVEN_PART,  /* of what was given a part was seen */
    NEVER_BACK,  /* nothing was given back in step 1 */
    DROPPED,     /* records of run 2 were dropped in step 1 */
    DROPPED_NOW, /* the same in step 2 */
    NOW,         /* the function is called twice in a step, and given its own result there */
    MUTANTS
};

static const char train[] = "train_step";

/* kind: of a result; TWIN_KIND_IN: it is an argument. */
static void put(struct twin_writer *w, enum twin_kind kind, const char *scope, const char *name,
                uint32_t flags, float x, size_t n)
{
    const float v[4] = {x, x + 3, x * 7, 1};
    const enum twin_phase back = kind == TWIN_KIND_ACTIVATION ? TWIN_PHASE_FORWARD
                                                              : TWIN_PHASE_OPTIMIZER;
    synth_put(w,
              (struct synth_record){.phase = kind == TWIN_KIND_IN ? TWIN_PHASE_DATA : back,
                                    .kind = kind,
                                    .name = name,
                                    .scope = scope,
                                    .op = scope,
                                    .flags = flags},
              v, n);
}

/* What run `run` is given in step 2, where it was given 3 in each other mutant. */
static float given_then(enum mutant m, int run)
{
    switch (m) {
    case BOTH_OTHER: return run ? 80 : 70;
    case EXCHANGED: return run ? 12 : 2;
    case OLDER: return run ? 1 : 2;
    case NOW: return 2;
    default: return run ? 80 : 2;
    }
}

static void drop_some(struct twin_writer *w)
{
    twin_writer_flush(w);
    synth_flood(w,
                (struct synth_record){
                    .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_ACTIVATION, .name = "h"},
                4000, NULL, NULL);
    twin_writer_flush(w);
}

/* kind: of what it gives back. */
static struct synth *job(enum mutant m, enum twin_kind kind, int run)
{
    struct synth *s = synth_new("carried");
    const bool drops = m == DROPPED || m == DROPPED_NOW;
    struct twin_writer *w = drops ? synth_dropping(s) : synth_process(s, 0, 1, NULL);
    const char *back = m == OF_ANOTHER ? "evaluate" : train;
    for (int step = 0; step < 3; step++) {
        const float left = (float)step + 1; /* what it gives back */
        const bool then = step == 2, own = step == 1 && run == 1;
        uint32_t flags = own && m == IN_PART ? TWIN_REC_PART : 0;
        flags |= own && m == UNREAD ? TWIN_REC_UNOBSERVED : 0;
        if ((m == DROPPED && step == 1) || (m == DROPPED_NOW && step == 2))
            drop_some(w);
        put(w, TWIN_KIND_IN, train, "state", then && m == GIVEN_PART ? TWIN_REC_PART : 0,
            then ? given_then(m, run) : (float)step, then && run && m == OTHER_SHAPE ? 3 : 4);
        if (m != NEVER_BACK)
            put(w, kind, back, "train_step: result[0]", flags, left, 4);
        put(w, kind, train, "train_step: result[1]", 0, left + 10, 4);
        if (m == NOW) {
            put(w, TWIN_KIND_IN, train, "again", 0, then && run ? 80 : left, 4);
            put(w, kind, train, "train_step: result[2]", 0, left + 20, 4);
        }
        twin_writer_step_end(w);
    }
    return s;
}

static void what_one_run_alone_was_given_again_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *name, *said, *back;
    } all[MUTANTS] = {
        [LOST] = {"state",
                  "run 1 was given, byte for byte, what train_step gave back in step 1; run 2 was "
                  "not",
                  "run 2 was given, byte for byte, what train_step gave back in step 1; run 1 was "
                  "not"},
        [BOTH_OTHER] = {"state", "", ""},
        [EXCHANGED] = {"state", "", ""},
        [OLDER] = {"state",
                   "run 1 was given, byte for byte, what train_step gave back in step 1; run 2 "
                   "was not",
                   "run 2 was given, byte for byte, what train_step gave back in step 1; run 1 "
                   "was not"},
        [OF_ANOTHER] = {"state", "", ""},
        [OTHER_SHAPE] = {"state", "", ""},
        [IN_PART] = {"state", "", ""},
        [UNREAD] = {"state", "", ""},
        [GIVEN_PART] = {"state", "", ""},
        [NEVER_BACK] = {"state", "", ""},
        [DROPPED] = {"state", "", ""},
        [DROPPED_NOW] = {"state", "", ""},
        [NOW] = {"again",
                 "run 1 was given, byte for byte, what train_step gave back in step 2; run 2 was "
                 "not",
                 "run 2 was given, byte for byte, what train_step gave back in step 2; run 1 was "
                 "not"},
    };
    for (enum mutant i = 0; i < MUTANTS * 2; i++) {
        const enum mutant m = i % MUTANTS;
        const enum twin_kind kind = i < MUTANTS ? TWIN_KIND_ACTIVATION : TWIN_KIND_MOMENT;
        struct synth *a = job(m, kind, 0), *b = job(m, kind, 1);
        struct twin_verdict *v = compare(a, b, NULL), *back = compare(b, a, NULL);
        if (!v->first || strcmp(v->first->text, all[m].said) != 0) {
            fprintf(stderr, "mutant %d\n", (int)m);
            explain(v);
        }
        expect_place(v, 2, TWIN_PHASE_DATA, TWIN_KIND_IN, all[m].name);
        assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
        assert_string_equal(v->first->text, all[m].said);
        assert_string_equal(back->first->text, all[m].back);
        /* state that one run lost is not "the weights, as step 1 left them" */
        assert_null(strstr(v->equal_before, "weights"));
        twin_verdict_free(v);
        twin_verdict_free(back);
        synth_free(a);
        synth_free(b);
    }
}

/* ---- what may be called an origin */

enum made {
    BY_CALL,   /* equal inputs, and all that the call gave back differs */
    HYPER,     /* a hyperparameter alone */
    MOMENTS,   /* moments alone */
    BY_INIT,   /* a function before it gave back other weights, and all that follows differs */
    BY_UNSEEN, /* the function reads what no record shows */
    MOMENT_BY_UNSEEN,
    UNREAD_GIVEN, /* what it was given could not be read */
    MADE
};

static struct synth *training(enum made m, int run)
{
    struct synth *s = synth_new("given back");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    if (m == BY_UNSEEN || m == MOMENT_BY_UNSEEN)
        twin_writer_note(w, "input.unseen",
                         "0 train_step runs pure_callback, which no record shows");
    for (int step = 0; step < 3; step++) {
        const bool then = step == 2 && run == 1;
        const bool all = then &&
                         (m == BY_CALL || m == BY_INIT || m == BY_UNSEEN || m == UNREAD_GIVEN);
        const bool moment = all || (then && (m == MOMENTS || m == MOMENT_BY_UNSEEN));
        const float left = (float)step + 1;
        put(w, TWIN_KIND_IN, "init", "key", 0, 5, 4);
        put(w, TWIN_KIND_WEIGHT, "init", "init: result['w']", 0, then && m == BY_INIT ? 9 : 6, 4);
        put(w, TWIN_KIND_IN, train, "weight params['w']",
            m == UNREAD_GIVEN ? TWIN_REC_UNOBSERVED : 0, then && m == BY_INIT ? 9 : 6, 4);
        put(w, TWIN_KIND_WEIGHT, train, "train_step: result[0]['w']", 0, all ? 70 : left, 4);
        put(w, TWIN_KIND_WEIGHT, train, "train_step: result[0]['v']", 0, all ? 71 : left, 4);
        put(w, TWIN_KIND_MOMENT, train, "train_step: result[1].mu", 0, moment ? 72 : left, 4);
        put(w, TWIN_KIND_HYPER, train, "train_step: result[1].eps", 0,
            all || (then && m == HYPER) ? 73 : left, 1);
        put(w, TWIN_KIND_ACTIVATION, train, "train_step: result[2]", 0, all ? 74 : left, 1);
        twin_writer_step_end(w);
    }
    return s;
}

static void what_a_function_gave_back_is_an_output(void **state)
{
    (void)state;
    static const struct {
        enum twin_kind kind;
        const char *name;
        enum twin_role role;
    } all[MADE] = {
        [BY_CALL] = {TWIN_KIND_WEIGHT, "train_step: result[0]['w']", TWIN_ORIGIN},
        [HYPER] = {TWIN_KIND_HYPER, "train_step: result[1].eps", TWIN_ORIGIN},
        [MOMENTS] = {TWIN_KIND_MOMENT, "train_step: result[1].mu", TWIN_ORIGIN},
        [BY_INIT] = {TWIN_KIND_WEIGHT, "init: result['w']", TWIN_ORIGIN},
        [BY_UNSEEN] = {TWIN_KIND_WEIGHT, "train_step: result[0]['w']", TWIN_ROLE_UNKNOWN},
        [MOMENT_BY_UNSEEN] = {TWIN_KIND_MOMENT, "train_step: result[1].mu", TWIN_ROLE_UNKNOWN},
        [UNREAD_GIVEN] = {TWIN_KIND_WEIGHT, "train_step: result[0]['w']", TWIN_ROLE_UNKNOWN},
    };
    for (enum made m = 0; m < MADE; m++) {
        struct synth *a = training(m, 0), *b = training(m, 1);
        struct twin_verdict *v = compare(a, b, NULL);
        if (!v->first || v->first->role != all[m].role)
            fprintf(stderr, "mutant %d\n", (int)m);
        expect_place(v, 2, TWIN_PHASE_OPTIMIZER, all[m].kind, all[m].name);
        assert_int_equal(v->first->role, all[m].role);
        assert_int_equal(v->origin_count, 1); /* the others may have been made of it */
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

/* A state of optax begins at infinity, as the best loss so far does. */
static void infinity_that_a_function_gave_back_is_no_news(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct synth *s[2];
        for (int run = 0; run < 2; run++) {
            s[run] = synth_new("infinite");
            struct twin_writer *w = synth_process(s[run], 0, 1, NULL);
            put(w, TWIN_KIND_IN, train, "x", 0, 1, 4);
            put(w, TWIN_KIND_MOMENT, train, own ? "best" : "train_step: result.best", 0, INFINITY,
                4);
            twin_writer_step_end(w);
        }
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        assert_int_equal(strstr(v->nonfinite, "Inf") != NULL, own);
        twin_verdict_free(v);
        synth_free(s[0]);
        synth_free(s[1]);
    }
}

/* Both ranks call one function together; rank 1 gives other numbers to it. */
static struct synth *together(bool said, enum twin_kind kind, int run)
{
    struct synth *s = synth_new("together");
    for (int rank = 0; rank < 2; rank++) {
        struct twin_writer *w = synth_process(s, rank, 2, NULL);
        twin_writer_note(w, "call.unseen", "0 f");
        if (said)
            twin_writer_note(w, "input.unseen",
                             "0 train_step computes with what other processes hold");
        for (int step = 0; step < 2; step++) {
            const bool then = step == 1 && run == 1;
            put(w, TWIN_KIND_IN, train, "x", 0, then && rank == 1 ? 9 : 1, 4);
            put(w, kind, train, "train_step: result", 0, then ? 8 : 2, 4);
            twin_writer_step_end(w);
        }
    }
    return s;
}

static void what_a_rank_gave_to_a_joint_call_comes_before_what_others_got(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool said = i & 1;
        const enum twin_kind kind = i < 2 ? TWIN_KIND_ACTIVATION : TWIN_KIND_WEIGHT;
        struct synth *a = together(said, kind, 0), *b = together(said, kind, 1);
        struct twin_verdict *v = compare(a, b, NULL);
        if (said)
            expect_place(v, 1, TWIN_PHASE_DATA, TWIN_KIND_IN, "x");
        if (kind == TWIN_KIND_ACTIVATION) {         /* else what is given comes first in any case */
            assert_int_equal(v->first->rank, said); /* each by itself: the lowest rank is named */
            assert_int_equal(v->first->role, said ? TWIN_ROLE_UNKNOWN : TWIN_ORIGIN);
        }
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_run_alone_was_given_again_is_said),
        cmocka_unit_test(what_a_function_gave_back_is_an_output),
        cmocka_unit_test(what_a_rank_gave_to_a_joint_call_comes_before_what_others_got),
        cmocka_unit_test(infinity_that_a_function_gave_back_is_no_news),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
