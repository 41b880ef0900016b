/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that are cut over ranks, compared between runs of other numbers of ranks. Each mutant of
 * a sharded run is one that must never be called the same as the run that it was made from.
 */
#include <sys/resource.h>

#include "compare_test.h"

enum { SIDE = 8, STEPS = 3 }; /* a weight of 8 x 8 numbers, a step adds 1 to each */

enum mutant {
    NONE,
    ELEMENT,        /* one element of one rank's part is another one, from step 1 on */
    EXCHANGED,      /* two parts have exchanged an element */
    NOT_RECORDED,   /* a rank records nothing of the weight */
    NO_PROCESS,     /* a rank has no trace */
    OTHER_PLACE,    /* a part was digested at another place than its process says */
    PLACES_SWAPPED, /* two ranks say each other's places, and digest there */
    SAME_PLACE,     /* two ranks say that they hold the same part, with other values */
    NO_PLACE,       /* a process does not say where its part lies */
    TWO_PLACES,     /* it says two places */
    OTHER_WHOLE,    /* a process says that the whole is larger */
    NOT_ADDING,     /* its digests do not add up */
    NONSENSE,       /* the place is no place */
    MUTANTS
};

struct job {
    int ranks, dim; /* 1 rank: not cut */
    enum mutant mutant;
    int rank;   /* of which that is so */
    int copies; /* ranks that hold each part; 0: one */
    /* of what; a job that is asked for gradients or optimizer state has good weights beside them */
    enum twin_kind kind;
};

static const struct twin_compare_options arms = {.arms = true, .find_shift = true};

static float element(const struct job *j, int rank, uint32_t step, int row, int column)
{
    const int at = row * SIDE + column, length = SIDE / j->ranks;
    const int holder = (j->dim ? column : row) / length;
    float x = (float)at + (float)step;
    if (j->mutant == ELEMENT && rank == j->rank && holder == rank && step >= 1 &&
        row % length == 0 && column == (j->dim ? rank * length : 1))
        x += 0.5f;
    if (j->mutant == EXCHANGED && (at == 1 || at == SIDE * SIDE - 1))
        x = (float)(SIDE * SIDE - at) + (float)step;
    return x;
}

static void note_place(struct twin_writer *w, const struct job *j, uint32_t series, int at,
                       int whole)
{
    char text[160];
    const int length = SIDE / j->ranks;
    if (j->dim)
        snprintf(text, sizeof text, "%u %d,%d 0,%d %d,%d %d", series, whole, SIDE, at * length,
                 SIDE, length, j->mutant != NOT_ADDING);
    else
        snprintf(text, sizeof text, "%u %d,%d %d,0 %d,%d %d", series, whole, SIDE, at * length,
                 length, SIDE, j->mutant != NOT_ADDING);
    twin_writer_note(w, "shard", j->mutant == NONSENSE ? "1 8,8 7,0 4,8 1" : text);
}

/* The digest of a part that lies at `at`, with the values of part `rank`. */
static struct twin_digest digest_of(const struct job *j, int rank, int at, uint32_t step)
{
    struct twin_digest sum = {0, 0};
    const int length = SIDE / j->ranks;
    const int rows = j->dim ? SIDE : length, columns = j->dim ? length : SIDE;
    for (int row = 0; row < rows; row++) {
        float x[SIDE];
        for (int i = 0; i < columns; i++)
            x[i] = j->dim ? element(j, rank, step, row, rank * length + i)
                          : element(j, rank, step, rank * length + row, i);
        const int first = j->dim ? row * SIDE + at * length : (at * length + row) * SIDE;
        struct twin_digest d = twin_digest_bytes(x, (size_t)columns * sizeof *x,
                                                 (uint64_t)first * sizeof *x);
        sum.a += d.a;
        sum.b += d.b;
    }
    return sum;
}

/* The phase, and the name, in which a kind is recorded behind the first step. */
static enum twin_phase phase_of(enum twin_kind kind)
{
    return kind == TWIN_KIND_GRADIENT ? TWIN_PHASE_BACKWARD : TWIN_PHASE_OPTIMIZER;
}

static const char *name_of(enum twin_kind kind)
{
    return kind == TWIN_KIND_MOMENT ? "w.m" : "w";
}

static void put(struct twin_writer *w, enum twin_phase phase, const struct job *j, int rank,
                uint32_t step)
{
    const enum twin_kind kind = j->kind ? j->kind : TWIN_KIND_WEIGHT;
    const char *name = name_of(kind);
    const bool hit = rank == j->rank, cut = j->ranks > 1;
    const int length = SIDE / j->ranks;
    const int64_t shape[2] = {j->dim ? SIDE : length, j->dim ? length : SIDE};
    int at = rank, place = rank;
    if (j->mutant == NOT_RECORDED && hit)
        return;
    if (j->mutant == OTHER_PLACE && hit)
        place = (rank + 1) % j->ranks;
    if (j->mutant == PLACES_SWAPPED && rank < 2)
        place = at = 1 - rank;
    if (j->mutant == SAME_PLACE && hit)
        place = at = (rank + 1) % j->ranks;
    const struct twin_series s = {
        .phase = phase, .kind = kind, .name = twin_writer_string(w, name, strlen(name))};
    const uint32_t series = twin_writer_series(w, &s);
    const struct twin_observation o = {.series = series,
                                       .layout = twin_writer_layout(w, TWIN_F32, 2, shape),
                                       .flags = cut ? TWIN_REC_OFFSET : 0,
                                       .global_offset = j->dim ? 0
                                                               : (uint64_t)(place * length * SIDE),
                                       .digest = digest_of(j, rank, place, step)};
    if (cut && step == 0 && !(j->mutant == NO_PLACE && hit))
        note_place(w, j, series, at, j->mutant == OTHER_WHOLE && hit ? 2 * SIDE : SIDE);
    if (cut && step == 0 && j->mutant == TWO_PLACES && hit)
        note_place(w, j, series, (at + 1) % j->ranks, SIDE);
    twin_writer_record(w, &o);
}

/* What a job records of a step: a weight, and before it what else it is asked for. */
static void put_weight(struct twin_writer *w, const struct job *j, int rank, uint32_t step)
{
    struct job weight = *j;
    if (j->kind) {
        put(w, phase_of(j->kind), j, rank, step);
        weight.kind = TWIN_KIND_WEIGHT;
        weight.mutant = NONE;
    }
    put(w, TWIN_PHASE_OPTIMIZER, &weight, rank, step);
}

static struct synth *recorded(const struct job *j)
{
    const int copies = j->copies ? j->copies : 1;
    struct synth *s = synth_new("job");
    for (int r = 0; r < j->ranks * copies; r++) {
        if (j->mutant == NO_PROCESS && r == j->rank)
            continue;
        struct job own = *j;
        /* of copies of a part only the first is a mutant */
        own.mutant = r < j->ranks ? j->mutant : NONE;
        struct twin_writer *w = synth_process(s, r, j->ranks * copies, NULL);
        for (uint32_t step = 0; step < STEPS; step++) {
            put_weight(w, &own, r % j->ranks, step);
            twin_writer_step_end(w);
        }
    }
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
    static const struct job job[] = {{.ranks = 1},
                                     {.ranks = 2},
                                     {.ranks = 4},
                                     {.ranks = 8},
                                     {.ranks = 2, .dim = 1},
                                     {.ranks = 2, .copies = 2},
                                     {.ranks = 1, .copies = 2},
                                     {.ranks = 2, .dim = 1, .copies = 2},
                                     {.ranks = 4, .copies = 4}};
    enum { N = sizeof job / sizeof *job };
    struct synth *run[N];
    for (int i = 0; i < N; i++)
        run[i] = recorded(&job[i]);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            if (i == k)
                continue;
            struct twin_verdict *v = compare(run[i], run[k], &arms);
            expect_outcome(v, TWIN_SAME);
            assert_int_equal(v->steps_compared, STEPS);
            assert_int_equal(v->records_compared, STEPS);
            twin_verdict_free(v);
        }
    for (int i = 0; i < N; i++)
        synth_free(run[i]);
}

/* The same of gradients and of optimizer state, which are parts of the same tensor, too. */
static void parts_of_more_than_weights(void **state)
{
    (void)state;
    static const enum twin_kind kind[] = {TWIN_KIND_GRADIENT, TWIN_KIND_MOMENT};
    for (int i = 0; i < 2; i++)
        for (int ranks = 1; ranks <= 4; ranks++) {
            const struct job x = {.ranks = 2, .copies = 2, .kind = kind[i]};
            const struct job y = {.ranks = ranks, .dim = ranks == 2, .kind = kind[i]};
            if (ranks == 3) /* which does not divide the tensor */
                continue;
            struct twin_verdict *v = judge(&x, &y);
            expect_outcome(v, TWIN_SAME);
            assert_int_equal(v->records_compared, 2 * STEPS);
            assert_int_equal(v->ranges[0].gradients, kind[i] == TWIN_KIND_GRADIENT);
            assert_int_equal(v->ranges[0].moments, kind[i] == TWIN_KIND_MOMENT);
            twin_verdict_free(v);
        }
}

/* ---- what is not */

/* Expects of a mutant and a good run, in either order, what the mutant deserves. */
static void expect_found(const struct job *x, struct synth *a, struct synth *b)
{
    const bool value = x->mutant == ELEMENT || x->mutant == EXCHANGED ||
                       x->mutant == PLACES_SWAPPED ||
                       /* a digest of several runs of elements says nothing of its place */
                       (x->mutant == OTHER_PLACE && x->dim == 1);
    /* Then the other run alone has the weight, or there is nothing to compare it with. */
    const bool nothing = x->rank == 0 && (x->mutant == NOT_RECORDED || x->mutant == NO_PROCESS);
    /* What no rank offers to be added up is named, and is no reason where it is no weight. */
    const bool named = x->kind && (x->mutant == NOT_ADDING || x->mutant == NONSENSE);
    const enum twin_kind kind = x->kind ? x->kind : TWIN_KIND_WEIGHT;
    struct twin_verdict *v = compare(a, b, &arms);
    if (named) {
        expect_outcome(v, TWIN_SAME);
        assert_true(has_note(v, x->mutant == NONSENSE
                                    ? " not compared: no rank says where its part lies"
                                    : " not compared: digests of its parts do not add up"));
        assert_false(v->ranges[0].gradients || v->ranges[0].moments);
        twin_verdict_free(v);
        return;
    }
    if (v->outcome == TWIN_SAME)
        fail_msg("mutant %d of rank %d, dimension %d, is the same", x->mutant, x->rank, x->dim);
    if (value) {
        expect_place(v, x->mutant == ELEMENT, phase_of(kind), kind, name_of(kind));
        /* batches are other ones in each number of ranks */
        assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    } else if (!nothing && v->outcome != TWIN_INCONCLUSIVE)
        fail_msg("mutant %d of rank %d, dimension %d: %s", x->mutant, x->rank, x->dim,
                 twin_verdict_name(v->outcome));
    twin_verdict_free(v);
}

static void no_mutant_of(enum twin_kind kind)
{
    const struct job good[] = {
        {.ranks = 1, .kind = kind}, {.ranks = 4, .kind = kind}, {.ranks = 8, .kind = kind}};
    struct synth *other[3];
    for (int k = 0; k < 3; k++)
        other[k] = recorded(&good[k]);
    for (int mutant = NONE + 1; mutant < MUTANTS; mutant++)
        for (int variant = 0; variant < 4; variant++) {
            const struct job x = {2, variant / 2, (enum mutant)mutant, variant % 2, 0, kind};
            struct synth *a = recorded(&x);
            for (int k = 0; k < 3; k++) {
                expect_found(&x, a, other[k]);
                expect_found(&x, other[k], a);
            }
            synth_free(a);
        }
    for (int k = 0; k < 3; k++)
        synth_free(other[k]);
}

static void no_mutant_is_the_same(void **state)
{
    (void)state;
    no_mutant_of(TWIN_KIND_NONE);
    no_mutant_of(TWIN_KIND_GRADIENT);
    no_mutant_of(TWIN_KIND_MOMENT);
}

/* One rank whole, which records faster than its ring is emptied, so that some records are lost. */
static struct synth *with_losses(void)
{
    const struct job whole = {.ranks = 1};
    const struct synth_record h = {
        .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_ACTIVATION, .name = "h"};
    struct synth *s = synth_new("job");
    struct twin_writer *w = synth_dropping(s);
    for (uint32_t step = 0; step < STEPS; step++) {
        put_weight(w, &whole, 0, step);
        if (step == STEPS - 1)
            synth_flood(w, h, 4000, NULL, NULL);
        twin_writer_flush(w);
        twin_writer_step_end(w);
    }
    return s;
}

/*
 * What was lost of a step may be a weight, and no hash can be compared that covers it: so that is a
 * reason against "same".
 */
static void what_was_lost_is_not_the_same(void **state)
{
    (void)state;
    struct synth *lost = with_losses(), *cut = recorded(&(struct job){.ranks = 2});
    for (int order = 0; order < 2; order++) {
        struct twin_verdict *v = order ? compare(lost, cut, &arms) : compare(cut, lost, &arms);
        expect_outcome(v, TWIN_INCONCLUSIVE);
        assert_true(has_unseen(v, "records of step 2 of rank 0 have no details: weights may be "
                                  "among them"));
        twin_verdict_free(v);
    }
    synth_free(lost);
    synth_free(cut);
}

/* A process of another role has parts, too: those are added to nothing, and nothing is compared. */
static void parts_of_another_process(void **state)
{
    (void)state;
    const struct job two = {.ranks = 2};
    struct synth *a = synth_new("job"), *b = recorded(&(struct job){.ranks = 1});
    for (int r = 0; r < 3; r++) {
        struct twin_writer *w = synth_process(a, r, 3, r == 2 ? "critic" : NULL);
        for (uint32_t step = 0; step < STEPS; step++) {
            put_weight(w, &two, r % 2, step);
            twin_writer_step_end(w);
        }
    }
    struct twin_verdict *v = compare(a, b, &arms);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "holds parts of tensors, which were compared with nothing: it is "
                              "another process than rank 0's"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

/* More ranks hold parts than a process may have open files. */
static void more_ranks_than_open_files(void **state)
{
    (void)state;
    enum { FEW = 40 };
    const struct job one = {.ranks = 1}, many = {.ranks = 8, .copies = 8};
    const struct job other = {.ranks = 8, .mutant = EXCHANGED, .copies = 8};
    struct synth *a = recorded(&one), *b = recorded(&many), *c = recorded(&other);
    struct rlimit before;
    synth_done(a);
    synth_done(b);
    synth_done(c);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {FEW, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct twin_verdict *same = compare(a, b, &arms), *back = compare(b, a, &arms);
    struct twin_verdict *mutant = compare(b, c, &arms);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    expect_outcome(same, TWIN_SAME);
    expect_outcome(back, TWIN_SAME);
    if (mutant->outcome == TWIN_SAME)
        fail_msg("parts that exchanged an element are the same");
    assert_false(has_unseen(mutant, "cannot be read"));
    twin_verdict_free(same);
    twin_verdict_free(back);
    twin_verdict_free(mutant);
    synth_free(a);
    synth_free(b);
    synth_free(c);
}

/* As many ranks, which hold other parts: rows and columns, copies, or each the whole. */
static void the_same_number_of_ranks(void **state)
{
    (void)state;
    static const struct job job[] = {{.ranks = 4},
                                     {.ranks = 2, .dim = 1, .copies = 2},
                                     {.ranks = 2, .copies = 2},
                                     {.ranks = 1, .copies = 4}};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            struct job x = job[i];
            x.mutant = ELEMENT;
            if (i == k)
                continue;
            struct twin_verdict *v = judge(&x, &job[k]);
            if (x.copies) { /* of the copies the first one alone is changed */
                assert_int_not_equal(v->outcome, TWIN_SAME);
            } else {
                expect_place(v, 1, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w");
                expect_note(v,
                            "the ranks of run 1 and run 2 hold other parts of weights: only rank "
                            "0's weights, and those that the ranks hold parts of, can be "
                            "compared");
            }
            twin_verdict_free(v);
        }
    /* where they hold the same parts ranks are compared one by one */
    struct twin_verdict *v = judge(&job[0], &job[0]);
    expect_outcome(v, TWIN_INCONCLUSIVE); /* of batches there is no record */
    assert_int_equal(v->records_compared, 4 * STEPS);
    twin_verdict_free(v);
}

static void a_copy_that_differs(void **state)
{
    (void)state;
    const struct job x = {.ranks = 2, .mutant = ELEMENT, .rank = 1, .copies = 2};
    struct twin_verdict *v = judge(&x, &(struct job){.ranks = 1});
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(v, "run 1: w, which is cut over ranks: ranks 1 and 3 hold other values of the "
                     "same part");
    twin_verdict_free(v);
}

static void the_rank_is_named(void **state)
{
    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        const struct job x = {.ranks = 4, .mutant = ELEMENT, .rank = rank};
        struct twin_verdict *v = judge(&x, &(struct job){.ranks = 2});
        char text[160];
        expect_place(v, 1, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w");
        snprintf(text, sizeof text,
                 "elements %d to %d of w differ between the runs: run 1's ranks %d, %d, run 2's "
                 "rank %d",
                 rank / 2 * 32, rank / 2 * 32 + 31, rank / 2 * 2, rank / 2 * 2 + 1, rank / 2);
        expect_note(v, text);
        assert_int_equal(v->first->rank, rank / 2 * 2);
        assert_int_equal(v->first->elements, SIDE * SIDE);
        twin_verdict_free(v);
    }
}

/* Against a whole of one rank, and between columns, no smaller part can be named. */
static void no_rank_is_named(void **state)
{
    (void)state;
    const struct job x = {.ranks = 2, .dim = 1, .mutant = ELEMENT, .rank = 1};
    for (int ranks = 1; ranks <= 4; ranks += 3) {
        struct twin_verdict *v = judge(&x, &(struct job){.ranks = ranks});
        expect_outcome(v, TWIN_DIFFER);
        expect_note(v, "w was compared as a whole, put together from the parts of several ranks: "
                       "which rank's part differs is not known");
        twin_verdict_free(v);
    }
}

/* Where an arm goes on is not looked for by parts: rank 0's are others in each number of ranks. */
static void where_it_goes_on_is_not_known(void **state)
{
    (void)state;
    struct synth *run[3];
    for (int i = 0; i < 3; i++) {
        /* the last one has other weights from step 1 on */
        const struct job j = {.ranks = i ? 4 : 2, .mutant = i == 2 ? ELEMENT : NONE};
        run[i] = synth_new("job");
        for (int r = 0; r < j.ranks; r++) {
            struct twin_writer *w = synth_process(run[i], r, j.ranks, NULL);
            for (uint32_t step = 0; step < STEPS; step++) {
                if (step == 0)
                    put(w, TWIN_PHASE_INIT, &j, r, 0);
                put_weight(w, &j, r, step);
                twin_writer_step_end(w);
            }
        }
    }
    struct twin_verdict *v = compare(run[0], run[1], &arms);
    expect_outcome(v, TWIN_SAME);
    expect_note(v, "the weights run 2 starts with are cut over ranks in another way than those of "
                   "run 1, so where it goes on was not looked for: compared from step 0; "
                   "--b-starts-at K says otherwise");
    expect_note(v, "run 1 has 2 ranks, run 2 4: only rank 0's weights, and those that the ranks "
                   "hold parts of, can be compared");
    twin_verdict_free(v);
    v = compare(run[0], run[2], &arms);
    expect_place(v, 1, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w");
    assert_int_equal(onset(v, "weights"), 1);
    /* as parts these are others, as wholes they are the same */
    assert_int_equal(onset(v, "initial weights"), UINT32_MAX);
    twin_verdict_free(v);
    for (int i = 0; i < 3; i++)
        synth_free(run[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks),
        cmocka_unit_test(parts_of_more_than_weights),
        cmocka_unit_test(no_mutant_is_the_same),
        cmocka_unit_test(a_copy_that_differs),
        cmocka_unit_test(more_ranks_than_open_files),
        cmocka_unit_test(the_same_number_of_ranks),
        cmocka_unit_test(no_rank_is_named),
        cmocka_unit_test(where_it_goes_on_is_not_known),
        cmocka_unit_test(what_was_lost_is_not_the_same),
        cmocka_unit_test(parts_of_another_process),
        cmocka_unit_test(the_rank_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
