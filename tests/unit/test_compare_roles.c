/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks compared by their places in a mesh: runs whose launchers numbered the places otherwise are
 * the same, and mutants of them never are.
 */
#include "compare_test.h"

enum { RANKS = 4, STEPS = 3 }; /* a mesh of 2 stages and 2 replicas: place = 2 * pp + dp */

struct job {
    int place[RANKS];    /* of each rank */
    int said[RANKS];     /* what it says; -1: nothing. All equal: place */
    bool no_mesh;        /* no rank says its place */
    bool dp_first;       /* dimensions are declared in the other order */
    const char *dp;      /* the dimension's name; NULL: dp */
    int other_value;     /* the place whose weight differs from step 1 on; 0: none of those asked */
    int other_peer;      /* the place that sends to another one in step 1; 0: none */
    bool other_group;    /* the group has other members */
    bool second;         /* declares a second mesh with as many dimensions */
    const char *instead; /* said in place of the place of rank 1 */
    int size;            /* of the dimension dp, as all ranks say; 0: 2 */
};

static const int straight[RANKS] = {0, 1, 2, 3}, turned[RANKS] = {0, 2, 1, 3};

static struct job job_of(const int *place)
{
    struct job j = {.dp = "dp"};
    memcpy(j.place, place, sizeof j.place);
    memcpy(j.said, place, sizeof j.said);
    return j;
}

static int rank_of(const struct job *j, int place)
{
    for (int i = 0; i < RANKS; i++)
        if (j->place[i] == place)
            return i;
    return -1;
}

static void say_place(struct twin_writer *w, const struct job *j, int rank)
{
    char text[160];
    const int pp = j->said[rank] / 2, dp = j->said[rank] % 2, size = j->size ? j->size : 2;
    if (j->no_mesh || j->said[rank] < 0)
        return;
    if (j->dp_first)
        snprintf(text, sizeof text, "%s=%d/%d,pp=%d/2", j->dp, dp, size, pp);
    else
        snprintf(text, sizeof text, "pp=%d/2,%s=%d/%d", pp, j->dp, dp, size);
    twin_writer_note(w, "mesh", j->instead && rank == 1 ? j->instead : text);
    snprintf(text, sizeof text, "all=%d/4", rank); /* made of the others: has fewer dimensions */
    twin_writer_note(w, "mesh", text);
    if (j->second)
        twin_writer_note(w, "mesh", "x=0/2,y=1/2");
}

/* Each place sends to the one of the other stage, and reduces with the one of its own stage. */
static void record(struct synth *s, const struct job *j, int rank)
{
    struct twin_writer *w = synth_process(s, rank, RANKS, NULL);
    char name[64], group[64];
    const int place = j->place[rank];
    int beside[2] = {rank_of(j, place & 2), rank_of(j, (place & 2) + 1)};
    if (j->other_group)
        beside[1] = rank_of(j, (place & 2) ^ 2);
    const int low = beside[0] < beside[1] ? beside[0] : beside[1];
    say_place(w, j, rank);
    /* each launcher's count of groups is another one */
    snprintf(group, sizeof group, "%d %d,%d", j->place[1] + 3, low, beside[0] + beside[1] - low);
    twin_writer_note(w, "group", group);
    group[strcspn(group, " ")] = '\0';
    for (int step = 0; step < STEPS; step++) {
        const bool hit = j->other_value == place && place && step >= 1;
        const int peer = j->other_peer == place && place && step == 1 ? place : place ^ 2;
        const float x[2] = {(float)place + (hit ? 0.5f : 0), (float)step};
        synth_put(w, (struct synth_record){TWIN_PHASE_DATA, TWIN_KIND_BATCH, .name = "x"}, x + 1,
                  1);
        snprintf(name, sizeof name, "send to rank %d, tag 0", rank_of(j, peer));
        synth_put(w, (struct synth_record){TWIN_PHASE_COLLECTIVE, TWIN_KIND_IN, .name = name}, x,
                  2);
        synth_put(w,
                  (struct synth_record){TWIN_PHASE_COLLECTIVE, TWIN_KIND_OUT, .name = "all_reduce",
                                        .scope = group},
                  x, 2);
        synth_put(w, (struct synth_record){TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, .name = "w"}, x,
                  2);
        twin_writer_step_end(w);
    }
}

static struct synth *recorded(const struct job *j)
{
    struct synth *s = synth_new("roles");
    for (int rank = 0; rank < RANKS; rank++)
        record(s, j, rank);
    return s;
}

static struct twin_verdict *verdict_of(const struct job *a, const struct job *b)
{
    struct synth *x = recorded(a), *y = recorded(b);
    struct twin_verdict *v = compare(x, y, NULL);
    synth_free(x);
    synth_free(y);
    return v;
}

static const char moved[] =
    "ranks are compared by their places in the mesh that both runs declare, dp=2,pp=2, and named "
    "by their numbers in run 1; run 2 numbers 2 of them otherwise: rank 2 (pp 1, dp 0) is rank 1 "
    "there, rank 1 (pp 0, dp 1) is rank 2 there";

static void other_numbers_are_the_same(void **state)
{
    (void)state;
    struct job a = job_of(straight), b = job_of(turned);
    for (int order = 0; order < 2; order++) {
        b.dp_first = order == 1;
        struct twin_verdict *v = verdict_of(&a, &b);
        expect_outcome(v, TWIN_SAME);
        expect_note(v, moved);
        twin_verdict_free(v);
    }
    struct twin_verdict *v = verdict_of(&a, &a);
    expect_outcome(v, TWIN_SAME);
    assert_false(has_note(v, "ranks are compared"));
    twin_verdict_free(v);
}

/* A role is named by its number in the first run, and by its place. */
static void what_differs_is_named_by_role(void **state)
{
    (void)state;
    struct job a = job_of(straight), b = job_of(turned);
    b.other_value = 2; /* pp 1, dp 0: rank 2 of the first run, 1 of the second */
    struct twin_verdict *v = verdict_of(&a, &b);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->rank, 2);
    assert_int_equal(v->first->step_a, 1);
    assert_string_equal(v->first->seat, "pp 1, dp 0");
    expect_note(v, moved);
    twin_verdict_free(v);
    v = verdict_of(&b, &a);
    expect_outcome(v, TWIN_DIFFER);
    assert_int_equal(v->first->rank, 1);
    assert_string_equal(v->first->seat, "pp 1, dp 0");
    twin_verdict_free(v);
}

/* A change for each way in which runs with turned numbers are not the same. */
static void values_swapped(struct job *b)
{
    memcpy(b->place, straight, sizeof b->place); /* computes by number, says the turned places */
}

static void another_value(struct job *b)
{
    b->other_value = 3;
}

static void another_peer(struct job *b)
{
    b->other_peer = 1;
}

static void another_group(struct job *b)
{
    b->other_group = true;
}

static void mutants_are_never_the_same(void **state)
{
    (void)state;
    static void (*const mutate[])(struct job *) = {values_swapped, another_value, another_peer,
                                                   another_group};
    for (size_t i = 0; i < sizeof mutate / sizeof *mutate; i++) {
        struct job a = job_of(straight), b = job_of(turned);
        mutate[i](&b);
        struct twin_verdict *v = verdict_of(&a, &b);
        expect_outcome(v, TWIN_DIFFER);
        expect_note(v, moved);
        twin_verdict_free(v);
    }
}

static void no_mesh(struct job *b)
{
    b->no_mesh = true;
}

static void same_place(struct job *b)
{
    b->said[3] = b->said[1];
}

static void no_place(struct job *b)
{
    b->said[2] = -1;
}

static void other_names(struct job *b)
{
    b->dp = "tp";
}

static void two_meshes(struct job *b)
{
    b->second = true;
}

static void nonsense(struct job *b)
{
    b->instead = "pp=2/2,dp=0/2";
}

static void another_mesh(struct job *b)
{
    b->instead = "pp=0/4,dp=0/1";
}

static void larger_mesh(struct job *b)
{
    b->size = 3;
}

/* Where places are not to be believed numbers decide, and the verdict says why. */
static void by_number_where_places_are_not_known(void **state)
{
    (void)state;
    static const struct {
        void (*mutate)(struct job *);
        const char *why;
    } cases[] = {
        {no_mesh, "run 1 declares a mesh of its ranks, run 2 none"},
        {same_place, "ranks 1 and 3 of run 2 say the same place, pp 0, dp 1"},
        {no_place, "rank 2 of run 2 says no place in the mesh"},
        {other_names, "run 1 declares the mesh dp=2,pp=2, run 2 pp=2,tp=2"},
        {two_meshes, "rank 0 of run 2 declares two meshes with as many dimensions"},
        {nonsense, "rank 1 of run 2 says a place that cannot be read"},
        {another_mesh, "ranks 0 and 1 of run 2 declare other meshes, dp=2,pp=2 and dp=1,pp=4"},
        {larger_mesh, "the mesh of run 2, dp=3,pp=2, has 6 places for 4 ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char note[200];
        struct job a = job_of(straight), b = job_of(straight);
        snprintf(note, sizeof note, "ranks are compared by their numbers: %s", cases[i].why);
        cases[i].mutate(&b);
        struct twin_verdict *v = verdict_of(&a, &b);
        expect_outcome(v, TWIN_SAME); /* each number computed the same */
        expect_note(v, note);
        twin_verdict_free(v);
        b = job_of(turned);
        cases[i].mutate(&b);
        v = verdict_of(&a, &b);
        expect_outcome(v, TWIN_DIFFER);
        assert_true(has_note(v, "ranks are compared by their numbers: "));
        twin_verdict_free(v);
    }
}

/* Numbers that were changed for one pair of runs are as they were for the next. */
static void of_three_runs_each_pair_by_itself(void **state)
{
    (void)state;
    struct job a = job_of(straight), b = job_of(turned), c = job_of(straight);
    no_mesh(&c);
    for (int bad = 0; bad < 2; bad++) {
        c.other_value = bad ? 2 : 0;
        struct synth *s[3] = {recorded(&a), recorded(&b), recorded(&c)};
        const struct twin_run *runs[3] = {synth_done(s[0]), synth_done(s[1]), synth_done(s[2])};
        struct twin_verdict *v = NULL;
        assert_int_equal(twin_compare(runs, 3, NULL, &v, NULL), 0);
        expect_outcome(v, bad ? TWIN_DIFFER : TWIN_SAME);
        twin_verdict_free(v);
        for (int i = 0; i < 3; i++)
            synth_free(s[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_numbers_are_the_same),
        cmocka_unit_test(what_differs_is_named_by_role),
        cmocka_unit_test(mutants_are_never_the_same),
        cmocka_unit_test(by_number_where_places_are_not_known),
        cmocka_unit_test(of_three_runs_each_pair_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
