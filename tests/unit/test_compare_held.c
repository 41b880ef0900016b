/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients and optimizer state that every rank holds whole, compared between runs of other numbers
 * of ranks. A mutant must never be called the same. Of a gradient that is not known to be recorded
 * behind the reduction, and of what each rank holds for itself, nothing may be said but that it was
 * not compared.
 */
#include <stdlib.h>
#include <unistd.h>

#include "compare_test.h"

enum { STEPS = 3, RANKS_MAX = 4 };

#define UNREDUCED                                                                             \
    "gradients of run 1, such as w, were not compared: nothing says that they were recorded " \
    "behind "                                                                                 \
    "the reduction over all ranks"

enum mutant {
    NONE,
    /* of all ranks, so that rank 0 has it, too: a difference */
    MOMENT_OF_ALL,
    COUNT_OF_ALL,
    GRADIENT_OF_ALL,
    NO_MOMENT_OF_ALL,
    NO_GRADIENT_OF_ALL,
    DIFFERENCES, /* behind the last of these */
    /* of one rank: it is not known what the run holds */
    MOMENT,
    COUNT,
    GRADIENT,
    NO_MOMENT,
    NO_GRADIENT,
    UNREAD_MOMENT,
    SHAPE_OF_MOMENT,
    LATER_MOMENT, /* it records the moment of the step before */
    MUTANTS
};

/* Gradients that nothing shows to be those that all ranks have behind the reduction. */
enum odd {
    AS_USUAL,
    NO_NOTE,     /* no rank says that DDP averages it */
    NO_NOTE_ONE, /* one rank does not */
    OF_SOME,     /* the note is of some ranks of the job */
    OF_ANOTHER,  /* the note names another weight */
    OF_A_SCOPE,  /* the note is of another model */
    LATER,       /* it counts from a later step on */
    LAST,        /* it counts from the last step on */
    NO_SYNC,     /* a rank steps on what was not averaged, in step 1 */
    ENDED,       /* the wrapper is freed in step 1 */
    SEVERAL,     /* there are two in a step, as two backward passes left them */
    SEVERAL_ONE, /* on one rank */
    ODDS
};

struct job {
    int ranks;
    enum mutant mutant;
    int rank; /* of which that is so */
    enum odd odd;
    bool alike;   /* what was not reduced is the same on all ranks, and in no other world */
    bool own;     /* the ranks share out the weights of which each keeps optimizer state */
    bool some;    /* not of all weights: of one each rank keeps it */
    int attempt;  /* of a launcher that starts its ranks again; each has other weights and state */
    bool unread;  /* no rank could read its optimizer state */
    bool astray;  /* the last rank has other weights than the others */
    bool full;    /* with own: each keeps that of all weights */
    bool written; /* what the optimizer reads was written behind the backward pass */
    int weights;  /* steps that record weights; 0: all of them */
    int moments;  /* the first step that records optimizer state */
    float off;    /* added to that */
    float weight; /* added to the weights */
};

static const struct twin_compare_options arms = {.arms = true, .find_shift = true};

static bool hit(const struct job *j, int rank, enum mutant of_one, enum mutant of_all, int step)
{
    return step >= 1 && (j->mutant == of_all || (j->mutant == of_one && rank == j->rank));
}

static void put(struct twin_writer *w, enum twin_phase phase, enum twin_kind kind, const char *name,
                float x, size_t n, uint32_t flags)
{
    float value[4] = {x, x + 1, x + 2, x + 3};
    synth_put(w,
              (struct synth_record){
                  .phase = phase, .kind = kind, .name = name, .scope = "Net", .flags = flags},
              value, n);
}

static void note_replicas(const struct job *j, struct twin_writer *w, int rank)
{
    static const char *const all[] = {"", "0", "0,1", "0,1,2", "0,1,2,3"};
    const char *ranks = all[j->odd == OF_SOME ? j->ranks - 1 : j->ranks];
    char text[96];
    if (j->ranks == 1 || j->odd == NO_NOTE || (j->odd == NO_NOTE_ONE && rank == j->ranks - 1))
        return;
    snprintf(text, sizeof text, "DistributedDataParallel %s %d 0 1 %s\n%s", ranks,
             j->odd == LATER  ? STEPS
             : j->odd == LAST ? STEPS - 1
                              : 0,
             j->odd == OF_A_SCOPE ? "Other" : "Net", j->odd == OF_ANOTHER ? "v" : "w");
    twin_writer_note(w, "replica", text);
    snprintf(text, sizeof text, "0 %s Net", ranks);
    if (j->odd == NO_SYNC && rank == j->ranks - 1)
        twin_writer_note(w, "replica.local", text);
    if (j->odd == ENDED && rank == 0)
        twin_writer_note(w, "replica.end", text);
}

static void put_gradient(const struct job *j, struct twin_writer *w, int rank, int step)
{
    float x = (float)(20 + step);
    if (hit(j, rank, NO_GRADIENT, NO_GRADIENT_OF_ALL, step))
        return;
    if (hit(j, rank, GRADIENT, GRADIENT_OF_ALL, step))
        x += 0.5f;
    if (j->odd != AS_USUAL) /* of this rank's share of the batch */
        x += (float)j->ranks / 8 + (j->alike ? 0 : (float)rank);
    put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "w", x, 4, 0);
    if (j->odd == SEVERAL || (j->odd == SEVERAL_ONE && rank == j->ranks - 1))
        put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "w", (float)(20 + step), 4, 0);
    if (j->written)
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_GRADIENT, "w", x / 2, 4, 0);
}

static void put_moments(const struct job *j, struct twin_writer *w, int rank, int step)
{
    const bool shape = hit(j, rank, SHAPE_OF_MOMENT, MUTANTS, step);
    const bool unread = j->unread || hit(j, rank, UNREAD_MOMENT, MUTANTS, step);
    float x = (float)(40 + step + 100 * j->attempt), count = (float)(step + 1);
    char name[16] = "w.m"; /* of four weights where ranks share them out */
    if (hit(j, rank, MOMENT, MOMENT_OF_ALL, step))
        x += 0.5f;
    if (hit(j, rank, LATER_MOMENT, MUTANTS, step))
        x -= 1;
    if (step < j->moments)
        return;
    x += j->off;
    if (hit(j, rank, COUNT, COUNT_OF_ALL, step))
        count += 1;
    if (j->own) {
        for (int i = j->full ? 0 : rank; i < RANKS_MAX; i += j->full ? 1 : j->ranks) {
            snprintf(name, sizeof name, "w%d.m", i);
            put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, name, (float)(i + step), 4, 0);
        }
        if (!j->some)
            return;
        snprintf(name, sizeof name, "w.m");
    }
    if (!hit(j, rank, NO_MOMENT, NO_MOMENT_OF_ALL, step))
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, name, x, shape ? 3 : 4,
            unread ? TWIN_REC_UNOBSERVED : 0);
    put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "w.step", count, 1,
        j->unread ? TWIN_REC_UNOBSERVED : 0);
}

/* Adds the first n ranks of the job. */
static void record_ranks(struct synth *s, const struct job *j, int n)
{
    char attempt[12];
    snprintf(attempt, sizeof attempt, "%d", j->attempt);
    for (int rank = 0; rank < n; rank++) {
        struct twin_writer *w = synth_process(s, rank, j->ranks, NULL);
        const bool other = j->astray && rank == j->ranks - 1;
        const float weight = (float)(100 * j->attempt) + (other ? 0.5f : 0);
        if (j->attempt)
            twin_writer_note(w, TW_NOTE_ATTEMPT, attempt);
        note_replicas(j, w, rank);
        for (int step = 0; step < STEPS; step++) {
            /* these are other ones in each world */
            put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", (float)(rank * 8 + j->ranks), 4, 0);
            put(w, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT_LOCAL, "w", (float)(rank + j->ranks), 4,
                0);
            put_gradient(j, w, rank, step);
            if (!j->weights || step < j->weights)
                put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w",
                    weight + (float)step + j->weight, 4, 0);
            put_moments(j, w, rank, step);
            twin_writer_step_end(w);
        }
    }
}

static struct synth *recorded(const struct job *j)
{
    struct synth *s = synth_new("job");
    record_ranks(s, j, j->ranks);
    return s;
}

static struct twin_verdict *judge(const struct job *x, const struct job *y)
{
    struct synth *a = recorded(x), *b = recorded(y);
    struct twin_verdict *v = compare(a, b, &arms);
    synth_free(a);
    synth_free(b);
    return v;
}

/* ---- what is the same */

static void any_number_of_ranks(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int m = 1; m <= 4; m++) {
            if (n == m)
                continue;
            struct twin_verdict *v = judge(&(struct job){.ranks = n}, &(struct job){.ranks = m});
            expect_outcome(v, TWIN_SAME);
            assert_true(v->ranges[0].weights_only && v->ranges[0].gradients &&
                        v->ranges[0].moments);
            assert_int_equal(v->records_compared, 4 * STEPS);
            assert_false(has_note(v, "not compared"));
            twin_verdict_free(v);
        }
    struct twin_verdict *v = judge(&(struct job){.ranks = 2}, &(struct job){.ranks = 4});
    expect_note(v,
                "run 1 has 2 ranks, run 2 4: only rank 0's weights, gradients and optimizer state "
                "can be compared");
    twin_verdict_free(v);
}

/* What the optimizer read was written to in both runs: that is what is compared, and no note says
 * that gradients were not. */
static void written_in_both(void **state)
{
    (void)state;
    const struct job x = {.ranks = 2, .written = true}, y = {.ranks = 4, .written = true};
    struct job z = x;
    struct twin_verdict *v = judge(&x, &y);
    expect_outcome(v, TWIN_SAME);
    assert_true(v->ranges[0].gradients);
    assert_false(has_note(v, "not compared"));
    twin_verdict_free(v);
    z.mutant = GRADIENT_OF_ALL;
    v = judge(&z, &y);
    expect_place(v, 1, TWIN_PHASE_OPTIMIZER, TWIN_KIND_GRADIENT, "w");
    twin_verdict_free(v);
}

/* ---- what is not */

static void no_mutant_is_the_same(void **state)
{
    (void)state;
    static const struct {
        enum mutant mutant;
        enum twin_phase phase;
        enum twin_kind kind;
        const char *name;
    } place[] = {
        {MOMENT_OF_ALL, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "w.m"},
        {COUNT_OF_ALL, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "w.step"},
        {GRADIENT_OF_ALL, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "w"},
        {NO_MOMENT_OF_ALL, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "w.m"},
        {NO_GRADIENT_OF_ALL, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "w"},
    };
    for (int mutant = NONE + 1; mutant < MUTANTS; mutant++)
        for (int variant = 0; variant < 4 && mutant != DIFFERENCES; variant++) {
            const struct job x = {.ranks = 2, .mutant = mutant, .rank = variant % 2};
            const struct job y = {.ranks = variant < 2 ? 1 : 4};
            struct synth *a = recorded(&x), *b = recorded(&y);
            for (int order = 0; order < 2; order++) {
                struct twin_verdict *v = order ? compare(a, b, &arms) : compare(b, a, &arms);
                if (v->outcome == TWIN_SAME)
                    fail_msg("mutant %d of rank %d is the same", mutant, x.rank);
                if (mutant < DIFFERENCES) {
                    expect_place(v, 1, place[mutant - 1].phase, place[mutant - 1].kind,
                                 place[mutant - 1].name);
                    if (mutant == GRADIENT_OF_ALL)
                        assert_int_equal(onset(v, "gradients"), 1);
                    assert_int_equal(onset(v, "weights"), UINT32_MAX);
                    assert_int_equal(onset(v, "activations"), UINT32_MAX);
                    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
                } else if (mutant != NO_MOMENT && mutant != NO_GRADIENT) {
                    /* of these rank 0's may be missing, which the other run then has alone */
                    expect_outcome(v, TWIN_INCONCLUSIVE);
                }
                twin_verdict_free(v);
            }
            synth_free(a);
            synth_free(b);
        }
}

static void a_rank_that_differs_is_named(void **state)
{
    (void)state;
    static const struct {
        enum mutant mutant;
        const char *reason;
    } said[] = {
        {MOMENT, "run 1: optimizer state w.m: rank 1 holds other values than rank 0"},
        {COUNT, "run 1: optimizer state w.step: rank 1 holds other values than rank 0"},
        {GRADIENT, "run 1: gradient w: rank 1 holds other values than rank 0"},
        {NO_MOMENT, "run 1: optimizer state w.m: rank 1 recorded nothing of it, and rank 0 did"},
        {NO_GRADIENT, "run 1: gradient w: rank 1 recorded nothing of it, and rank 0 did"},
        {UNREAD_MOMENT, "run 1: optimizer state w.m: rank 1 could not read it"},
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        const struct job x = {.ranks = 2, .mutant = said[i].mutant, .rank = 1};
        struct twin_verdict *v = judge(&x, &(struct job){.ranks = 4});
        expect_outcome(v, TWIN_INCONCLUSIVE);
        expect_reason(v, said[i].reason);
        twin_verdict_free(v);
    }
    const struct job x = {.ranks = 2, .mutant = NO_MOMENT};
    struct twin_verdict *v = judge(&x, &(struct job){.ranks = 4});
    expect_reason(v, "run 1: optimizer state w.m: rank 1 recorded some of it, and rank 0 nothing");
    twin_verdict_free(v);
}

/* ---- of what nothing may be said */

static void a_gradient_before_the_reduction(void **state)
{
    (void)state;
    struct synth *b = recorded(&(struct job){.ranks = 4}); /* once: writers are not given back */
    for (int odd = AS_USUAL + 1; odd < ODDS; odd++)
        for (int variant = 0; variant < 8; variant++) {
            if (odd == LAST) /* in_the_last_step() */
                continue;
            const struct job x = {.ranks = 2 + variant % 2,
                                  .odd = odd,
                                  .alike = variant / 2 % 2,
                                  /* of several, what is written is made of the reduced one */
                                  .written = variant / 4 && odd < SEVERAL};
            struct synth *a = recorded(&x);
            struct twin_verdict *v = compare(a, b, &arms);
            expect_outcome(v, TWIN_SAME);
            assert_false(v->ranges[0].gradients);
            assert_true(v->ranges[0].moments);
            if (odd >= SEVERAL)
                expect_note(v,
                            "gradients of run 1, such as w, were not compared: there are several "
                            "of one name in a step, of other backward passes");
            else
                expect_note(v, UNREDUCED);
            expect_note(v, variant % 2 ? "run 1 has 3 ranks, run 2 4: only rank 0's weights and "
                                         "optimizer state can be compared"
                                       : "run 1 has 2 ranks, run 2 4: only rank 0's weights and "
                                         "optimizer state can be compared");
            twin_verdict_free(v);
            synth_free(a);
        }
    synth_free(b);
}

/* Up to the step in which a rank stepped on what was not averaged the gradients are compared. */
static void until_the_reduction_ends(void **state)
{
    (void)state;
    const struct job x = {.ranks = 2, .odd = LATER, .mutant = GRADIENT_OF_ALL};
    struct twin_verdict *v = judge(&x, &(struct job){.ranks = 4});
    expect_outcome(v, TWIN_SAME);
    twin_verdict_free(v);
}

static void state_of_each_rank(void **state)
{
    (void)state;
    const struct job own[] = {{.ranks = 2, .own = true},
                              {.ranks = 1, .own = true},
                              {.ranks = 4, .own = true},
                              {.ranks = 4}};
    for (int k = 1; k < 4; k++)
        for (int order = 0; order < 2; order++) {
            struct twin_verdict *v = order ? judge(&own[0], &own[k]) : judge(&own[k], &own[0]);
            /* the last one has other optimizer state, on all ranks */
            expect_outcome(v, k < 3 ? TWIN_SAME : TWIN_DIFFER);
            assert_true(has_note(v, ".m, was not compared: each rank holds its own"));
            assert_false(v->ranges[0].moments);
            assert_true(v->ranges[0].gradients);
            twin_verdict_free(v);
        }
}

static void written_in_one_run(void **state)
{
    (void)state;
    const struct job x = {.ranks = 2, .written = true};
    struct twin_verdict *v = judge(&x, &(struct job){.ranks = 4});
    expect_outcome(v, TWIN_SAME);
    assert_false(v->ranges[0].gradients);
    expect_note(v, "gradients of run 1 and run 2, such as w, were not compared: something was seen "
                   "to write to them behind the backward pass in one of the two runs alone");
    twin_verdict_free(v);
}

/* ---- ranks that a launcher started again */

/* Two attempts, of the first of which so many ranks recorded anything. */
static struct synth *started_again(const struct job *first, int n, const struct job *second)
{
    struct synth *s = synth_new("job");
    record_ranks(s, first, n);
    record_ranks(s, second, second->ranks);
    return s;
}

/* Each attempt has its own rank 0, which stands for the others of that attempt alone. */
static void attempts_are_not_mixed(void **state)
{
    (void)state;
    const struct job x = {.ranks = 2}, again = {.ranks = 2, .attempt = 1};
    const struct job y = {.ranks = 4}, other = {.ranks = 4, .attempt = 1};
    struct job mutant = again, astray = again;
    mutant.mutant = MOMENT;
    mutant.rank = 1;
    astray.astray = true;
    for (int n = 1; n <= 2; n++) {
        struct synth *a = started_again(&x, n, &again), *b = started_again(&y, 2 * n, &other);
        struct twin_verdict *v = compare(a, b, &arms);
        expect_outcome(v, TWIN_SAME);
        /* the headline is of both attempts */
        assert_true(v->ranges[1].gradients == (n == 2) && v->ranges[1].moments == (n == 2));
        assert_true(has_note(v, "not compared: not every rank of the run recorded") == (n == 1));
        twin_verdict_free(v);
        synth_free(a);
        a = started_again(&x, n, &mutant);
        v = compare(a, b, &arms);
        expect_outcome(v, TWIN_INCONCLUSIVE);
        expect_reason(v, "run 1: optimizer state w.m: rank 1 holds other values than rank 0");
        twin_verdict_free(v);
        synth_free(a);
        a = started_again(&x, n, &astray);
        v = compare(a, b, &arms);
        expect_outcome(v, TWIN_INCONCLUSIVE);
        assert_true(has_unseen(v, " does not hold rank 0's weights: it was compared with nothing"));
        twin_verdict_free(v);
        synth_free(a);
        a = recorded(&x);
        v = compare(a, b, &arms);
        expect_outcome(v, TWIN_INCONCLUSIVE);
        expect_reason(v, "run 2: rank 0, process 2 was compared with nothing");
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

/* ---- what was compared in some steps, or between some runs */

#define ONLY_IN_EVERY \
    "run 1 has 2 ranks, run 2 4: only rank 0's weights can be compared in every step"

/* A gradient of the last step says nothing of those before it. */
static void in_the_last_step(void **state)
{
    (void)state;
    const struct job x = {.ranks = 2, .odd = LAST, .alike = true};
    struct job y = {.ranks = 4, .odd = LAST, .alike = true};
    struct twin_verdict *v = judge(&x, &y);
    expect_place(v, 2, TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, "w");
    if (strcmp(v->equal_before,
               "weights (as step 1 left them) of step 2, and the weights of steps 0 to 1") != 0)
        explain(v);
    assert_string_equal(v->equal_before,
                        "weights (as step 1 left them) of step 2, and the weights of steps 0 to 1");
    twin_verdict_free(v);
    y = (struct job){.ranks = 4, .moments = 1};
    v = judge(&(struct job){.ranks = 2, .moments = 1}, &y);
    expect_outcome(v, TWIN_SAME);
    assert_true(v->ranges[0].gradients && !v->ranges[0].moments);
    expect_note(v, "run 1 has 2 ranks, run 2 4: only rank 0's weights and gradients can be "
                   "compared in every step, optimizer state in 2 of 3, the first step 1 and the "
                   "last step 2");
    twin_verdict_free(v);
    y.moments = 2;
    v = judge(&(struct job){.ranks = 2, .moments = 2, .odd = LATER}, &y);
    expect_outcome(v, TWIN_SAME);
    assert_false(v->ranges[0].gradients || v->ranges[0].moments);
    expect_note(v, ONLY_IN_EVERY ", optimizer state in 1 of 3, step 2");
    twin_verdict_free(v);
    /* weights of the first step alone say nothing of the second's */
    y = (struct job){.ranks = 4, .weights = 1, .moments = 2, .off = 1};
    v = judge(&(struct job){.ranks = 2, .weights = 1, .moments = 2}, &y);
    expect_place(v, 2, TWIN_PHASE_OPTIMIZER, TWIN_KIND_MOMENT, "w.m");
    assert_null(strstr(v->equal_before, "weights"));
    assert_null(v->first->between[0]);
    twin_verdict_free(v);
}

/* What one of several comparisons alone had is not in the headline, and not said to be in none. */
static void of_some_runs(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 2, 4};
    const struct twin_compare_options asked = {.arms = true, .ranks = ranks};
    for (int k = 0; k < 2; k++) {
        struct synth *s[] = {recorded(&(struct job){.ranks = 1, .own = true, .full = true}),
                             recorded(&(struct job){.ranks = 2, .own = true, .full = true}),
                             recorded(&(struct job){.ranks = 4, .own = true, .full = k})};
        const struct twin_run *runs[3];
        struct twin_verdict *v = NULL;
        for (int i = 0; i < 3; i++)
            runs[i] = synth_done(s[i]);
        assert_int_equal(twin_compare(runs, 3, &asked, &v, NULL), 0);
        expect_outcome(v, TWIN_SAME);
        assert_true(v->ranges[0].gradients);
        assert_int_equal(v->ranges[0].moments, k);
        expect_note(v, "run 1 has 1 rank, run 2 2: only rank 0's weights, gradients and optimizer "
                       "state can be compared");
        expect_note(v, k ? "between 1, 2 and 4 ranks weights, gradients and optimizer state are "
                           "compared, after each step and by their whole content, bit for bit; "
                           "batches and losses are not"
                         : "between 1, 2 and 4 ranks weights and gradients are compared, after "
                           "each step and by their whole content, bit for bit; optimizer state "
                           "in some of these runs or steps alone; batches and losses are not");
        if (!k)
            expect_note(v, "run 1 has 1 rank, run 3 4: only rank 0's weights and gradients can be "
                           "compared");
        twin_verdict_free(v);
        for (int i = 0; i < 3; i++)
            synth_free(s[i]);
    }
}

/* ---- a tolerance */

static char policy[] = "/tmp/twinrun-held-XXXXXX";

static int write_policy(void **state)
{
    (void)state;
    static const char text[] = "[[tolerance]]\npattern = \"*\"\nrel_l2 = 1e-2\nreason = \"x\"\n";
    const int fd = mkstemp(policy);
    const bool good = fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)(sizeof text - 1);
    return fd < 0 || close(fd) != 0 || !good;
}

static int drop_policy(void **state)
{
    (void)state;
    return unlink(policy);
}

static void within_needs_weights(void **state)
{
    (void)state;
    const struct twin_compare_options by_policy = {
        .arms = true, .find_shift = true, .tolerance_file = policy};
    for (int weights = 0; weights < STEPS; weights++) {
        struct synth *a = recorded(&(struct job){.ranks = 2, .weights = weights});
        struct synth *b = recorded(&(struct job){.ranks = 4, .weights = weights, .off = 1e-3f});
        struct twin_verdict *v = compare(a, b, &by_policy);
        expect_outcome(v, weights ? TWIN_DIFFER : TWIN_WITHIN_TOLERANCE);
        if (weights)
            assert_true(has_note(v, "weights, gradients or outputs: not at"));
        twin_verdict_free(v);
        synth_free(a);
        synth_free(b);
    }
}

/* ---- what the user ignores, and what was not read */

static void what_is_ignored_is_no_reason(void **state)
{
    (void)state;
    static const struct {
        enum mutant mutant;
        const char *pattern;
    } ignored[] = {{MOMENT, "optimizer/moment/w.m"},  {COUNT, "w.step"},
                   {GRADIENT, "backward/gradient/w"}, {NO_MOMENT, "optimizer/moment/*"},
                   {UNREAD_MOMENT, "*/moment/w.m"},   {NO_GRADIENT, "*/gradient/*"}};
    struct synth *b = recorded(&(struct job){.ranks = 4});
    static const char *const another = "optimizer/moment/v.*";
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        for (int rank = 0; rank < 2; rank++) {
            if (ignored[i].mutant == UNREAD_MOMENT && rank == 0)
                continue; /* that rank 0 could not read a record is a reason of its own */
            const struct job x = {.ranks = 2, .mutant = ignored[i].mutant, .rank = rank};
            struct synth *a = recorded(&x);
            struct twin_compare_options o = arms;
            o.ignore = &ignored[i].pattern;
            o.ignore_count = 1;
            struct twin_verdict *v = compare(a, b, &o);
            expect_outcome(v, TWIN_SAME);
            assert_true(v->ranges[0].gradients == !strstr(ignored[i].pattern, "/gradient/"));
            assert_true(v->ranges[0].moments == !strstr(ignored[i].pattern, "/moment/*"));
            twin_verdict_free(v);
            o.ignore = &another;
            v = compare(a, b, &o);
            assert_true(v->outcome != TWIN_SAME);
            twin_verdict_free(v);
            synth_free(a);
        }
    synth_free(b);
}

static void what_was_not_read_was_not_compared(void **state)
{
    (void)state;
    struct twin_verdict *v = judge(&(struct job){.ranks = 1, .unread = true},
                                   &(struct job){.ranks = 2, .unread = true});
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(v->ranges[0].gradients);
    assert_false(v->ranges[0].moments);
    twin_verdict_free(v);
}

/* ---- optimizer state of which each rank has some for itself, and some that all have */

static void some_state_of_each_rank(void **state)
{
    (void)state;
    const struct job x = {.ranks = 2, .own = true, .some = true};
    const struct job y = {.ranks = 4, .own = true, .some = true};
    static const enum mutant lost[] = {MOMENT, COUNT, NO_MOMENT, UNREAD_MOMENT};
    struct synth *a = recorded(&x), *b = recorded(&y);
    struct twin_verdict *v = compare(a, b, &arms);
    expect_outcome(v, TWIN_SAME);
    assert_true(v->ranges[0].moments);
    assert_true(has_note(v, ".m, was not compared: each rank holds its own"));
    twin_verdict_free(v);
    synth_free(a);
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++)
        for (int rank = 0; rank < 2; rank++) {
            struct job z = x;
            z.mutant = lost[i];
            z.rank = rank;
            a = recorded(&z);
            v = compare(a, b, &arms);
            assert_true(v->outcome == TWIN_INCONCLUSIVE || v->outcome == TWIN_DIFFER);
            twin_verdict_free(v);
            synth_free(a);
        }
    synth_free(b);
}

/* Steps behind the first difference are judged, too: what was compared there is said. */
static void what_was_judged_later(void **state)
{
    (void)state;
    const struct twin_compare_options by_policy = {
        .arms = true, .find_shift = true, .tolerance_file = policy};
    struct synth *a = recorded(&(struct job){.ranks = 2, .moments = 1});
    struct synth *b = recorded(&(struct job){.ranks = 4, .moments = 1, .weight = 1e-3f, .off = 9});
    for (int k = 0; k < 2; k++) {
        struct twin_verdict *v = compare(a, b, k ? &by_policy : &arms);
        expect_outcome(v, TWIN_DIFFER);
        if (k)
            expect_note(v, "run 1 has 2 ranks, run 2 4: only rank 0's weights and gradients can be "
                           "compared in every step, optimizer state in 1 of 2, step 1");
        else
            expect_note(
                v,
                "run 1 has 2 ranks, run 2 4: only rank 0's weights and gradients can be compared");
        assert_int_equal(onset(v, "optimizer state"), UINT32_MAX);
        twin_verdict_free(v);
    }
    synth_free(a);
    synth_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks),
        cmocka_unit_test(written_in_both),
        cmocka_unit_test(no_mutant_is_the_same),
        cmocka_unit_test(a_rank_that_differs_is_named),
        cmocka_unit_test(a_gradient_before_the_reduction),
        cmocka_unit_test(until_the_reduction_ends),
        cmocka_unit_test(state_of_each_rank),
        cmocka_unit_test(written_in_one_run),
        cmocka_unit_test(attempts_are_not_mixed),
        cmocka_unit_test(some_state_of_each_rank),
        cmocka_unit_test(what_is_ignored_is_no_reason),
        cmocka_unit_test(what_was_not_read_was_not_compared),
        cmocka_unit_test(in_the_last_step),
        cmocka_unit_test(of_some_runs),
        cmocka_unit_test(within_needs_weights),
        cmocka_unit_test(what_was_judged_later),
    };
    return cmocka_run_group_tests(tests, write_policy, drop_policy);
}
