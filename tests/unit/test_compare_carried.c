/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that a loop carries: a function is given what it gave back in the step before. Where one
 * run alone was given that again the verdict says so; where it cannot be known, nothing.
 */
#include "compare_test.h"

#include "base.h"

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
    NOW,         /* the function is called twice in a step, and given its own result there */
    MUTANTS
};

static const char train[] = "train_step";

static void put(struct twin_writer *w, bool result, const char *scope, const char *name,
                uint32_t flags, float x, size_t n)
{
    const float v[4] = {x, x + 3, x * 7, 1};
    synth_put(w,
              (struct synth_record){.phase = result ? TWIN_PHASE_FORWARD : TWIN_PHASE_DATA,
                                    .kind = result ? TWIN_KIND_ACTIVATION : TWIN_KIND_IN,
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

static struct synth *job(enum mutant m, int run)
{
    struct synth *s = synth_new("carried");
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    const char *back = m == OF_ANOTHER ? "evaluate" : train;
    for (int step = 0; step < 3; step++) {
        const float left = (float)step + 1; /* what it gives back */
        const bool then = step == 2, own = step == 1 && run == 1;
        uint32_t flags = own && m == IN_PART ? TWIN_REC_PART : 0;
        flags |= own && m == UNREAD ? TWIN_REC_UNOBSERVED : 0;
        put(w, false, train, "state", then && m == GIVEN_PART ? TWIN_REC_PART : 0,
            then ? given_then(m, run) : (float)step, then && run && m == OTHER_SHAPE ? 3 : 4);
        if (m != NEVER_BACK)
            put(w, true, back, "train_step: result[0]", flags, left, 4);
        put(w, true, train, "train_step: result[1]", 0, left + 10, 4);
        if (m == NOW) {
            put(w, false, train, "again", 0, then && run ? 80 : left, 4);
            put(w, true, train, "train_step: result[2]", 0, left + 20, 4);
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
        [NOW] = {"again",
                 "run 1 was given, byte for byte, what train_step gave back in step 2; run 2 was "
                 "not",
                 "run 2 was given, byte for byte, what train_step gave back in step 2; run 1 was "
                 "not"},
    };
    for (enum mutant m = 0; m < MUTANTS; m++) {
        struct synth *a = job(m, 0), *b = job(m, 1);
        struct twin_verdict *v = compare(a, b, NULL), *back = compare(b, a, NULL);
        if (!v->first || strcmp(v->first->text, all[m].said) != 0) {
            fprintf(stderr, "mutant %d\n", (int)m);
            explain(v);
        }
        expect_place(v, 2, TWIN_PHASE_DATA, TWIN_KIND_IN, all[m].name);
        assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
        assert_string_equal(v->first->text, all[m].said);
        assert_string_equal(back->first->text, all[m].back);
        twin_verdict_free(v);
        twin_verdict_free(back);
        synth_free(a);
        synth_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_run_alone_was_given_again_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
