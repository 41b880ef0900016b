/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL chose, held against each other: the call that is named, and what may not be said where
 * records are missing, stand in another order, or are of another communicator. */
#include "internal.h"

#include "compare_test.h"

#include <sys/stat.h>
#include <unistd.h>

#define COMM "communicator 1 \"dp\", rank 2 of 3"
#define RING "algorithm RING, protocol LL128, channels 4"
#define TREE "algorithm TREE, protocol LL128, channels 4"
#define WIDE "algorithm RING, protocol LL128, channels 8"

enum { RANKS = 3, STEPS = 5, CALLS = 3 };

/* How one side's calls differ from the usual ones. */
struct made {
    float value;        /* what the job records; not 0: another one from step 3 on */
    const char *choice; /* of the second call of a step, from step `from` on */
    uint32_t from;
    const char *comm, *datatype; /* NULL: as usual */
    const char *role;
    int64_t count; /* 0: as usual */
    uint32_t skip; /* leaves out the call of this number, from 1 */
    bool swap;     /* the calls of a step in another order */
    bool later;    /* steps are numbered from 1 */
    bool none, empty, open, torn, lost, twice, other_sequence, extra;
};

static void put_call(struct twin_writer *w, const struct made *m, const char *function,
                     uint64_t sequence, uint32_t step, int64_t count, const char *choice)
{
    const char *comm = m->comm ? m->comm : COMM;
    const char *type = m->datatype ? m->datatype : "ncclFloat32";
    const struct twin_series s = {.phase = TWIN_PHASE_COLLECTIVE,
                                  .name = twin_writer_string(w, function, strlen(function)),
                                  .scope = twin_writer_string(w, comm, strlen(comm)),
                                  .op = twin_writer_string(w, choice, strlen(choice)),
                                  .site = twin_writer_string(w, type, strlen(type))};
    const struct twin_observation o = {.series = twin_writer_series(w, &s),
                                       .layout = twin_writer_layout(w, TWIN_F32, 1, &count),
                                       .digest = {sequence, step + m->later}};
    assert_int_not_equal(twin_writer_record(w, &o), 0);
}

static void write_calls(const char *folder, const char *name, const struct made *m)
{
    char path[4096];
    struct twin_writer *w = NULL;
    uint32_t number = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const struct twin_writer_options o = {.path = path,
                                          .rank = 2,
                                          .world = RANKS,
                                          .role = m->role ? m->role : "main",
                                          .ring_bytes = 65536};
    assert_int_equal(twin_writer_open(&o, &w, NULL), 0);
    for (uint32_t step = 0; step < STEPS && !m->empty; step++)
        for (uint32_t k = 0; k < CALLS; k++) {
            const uint32_t which = m->swap && k < 2 ? 1 - k : k;
            const uint64_t sequence = which < 2 ? 2 * step + k : step;
            if (++number == m->skip)
                continue;
            put_call(w, m, which < 2 ? "AllReduce" : "Broadcast",
                     sequence + (m->other_sequence && step == 2), step,
                     m->count && which == 1 ? m->count : 1000 + which,
                     which == 1 && m->choice && step >= m->from ? m->choice : RING);
        }
    if (m->extra)
        put_call(w, m, "Reduce", 0, 0, 7, TREE);
    if (m->lost)
        twin_writer_note(w, "nccl.lost", "3");
    twin_writer_close(w);
}

/* Without the last block, the end; or with a byte of the first one turned over. */
static void cut_off(const char *folder, bool torn)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/2.1.twt", folder);
    assert_int_equal(stat(path, &st), 0);
    if (!torn) {
        assert_int_equal(truncate(path, st.st_size - 64), 0);
        return;
    }
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, st.st_size / 2, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, st.st_size / 2, SEEK_SET), 0);
    fputc(byte ^ 1, f);
    assert_int_equal(fclose(f), 0);
}

static struct twin_verdict *verdict_of(const struct made *a, const struct made *b)
{
    const struct made *made[2] = {a, b};
    struct synth *s[2] = {synth_new("choices-a"), synth_new("choices-b")};
    for (int i = 0; i < 2; i++) {
        char folder[4000];
        for (uint32_t k = 0; k < RANKS * STEPS; k++) {
            const uint32_t step = k % STEPS;
            static struct twin_writer *w;
            if (step == 0)
                w = synth_process(s[i], (int32_t)(k / STEPS), RANKS, NULL);
            const float x = step >= 3 ? 1 + made[i]->value : 1;
            synth_put(w,
                      (struct synth_record){
                          .phase = TWIN_PHASE_OUTPUT, .kind = TWIN_KIND_VALUE, .name = "x"},
                      &x, 1);
            twin_writer_step_end(w);
        }
        if (made[i]->none)
            continue;
        snprintf(folder, sizeof folder, "%s/nccl", synth_run(s[i])->dir);
        assert_int_equal(mkdir(folder, 0777), 0);
        write_calls(folder, "2.1.twt", made[i]);
        if (made[i]->twice)
            write_calls(folder, "2.7.twt", made[i]);
        if (made[i]->open || made[i]->torn) /* its process was killed; its disk is bad */
            cut_off(folder, made[i]->torn);
    }
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    synth_free(s[0]);
    synth_free(s[1]);
    return v;
}

/* The verdict's one note about NCCL; "" when there is none. */
static void note_about(const struct twin_verdict *v, char *out, size_t room)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < v->note_count; i++)
        if (strstr(v->notes[i], "NCCL") && n++ == 0)
            snprintf(out, room, "%s", v->notes[i]);
    assert_true(n <= 1);
}

static void expect(const struct made *a, const struct made *b, enum twin_verdict_outcome outcome,
                   const char *note)
{
    char found[1024];
    struct twin_verdict *v = verdict_of(a, b);
    expect_outcome(v, outcome);
    note_about(v, found, sizeof found);
    assert_string_equal(found, note);
    twin_verdict_free(v);
}

static const struct made usual = {.value = 0};

static void test_the_call_is_named(void **state)
{
    (void)state;
    const struct made tree = {.choice = TREE, .from = 2};
    const struct made tree_differs = {.choice = TREE, .from = 2, .value = 1};
    expect(&usual, &tree, TWIN_SAME,
           "NCCL ran AllReduce 5 of " COMM " (step 2 of rank 2, 1,001 ncclFloat32) by " RING
           " in run 1 and by " TREE
           " in run 2; it chose otherwise for 3 of the 15 collectives that were compared; nothing "
           "else that was compared differs");
    expect(&tree, &usual, TWIN_SAME,
           "NCCL ran AllReduce 5 of " COMM " (step 2 of rank 2, 1,001 ncclFloat32) by " TREE
           " in run 1 and by " RING
           " in run 2; it chose otherwise for 3 of the 15 collectives that were compared; nothing "
           "else that was compared differs");
    expect(&usual, &tree_differs, TWIN_DIFFER,
           "NCCL ran AllReduce 5 of " COMM " (step 2 of rank 2, 1,001 ncclFloat32) by " RING
           " in run 1 and by " TREE
           " in run 2; it chose otherwise for 3 of the 15 collectives that were compared");
    const struct made wide = {.choice = WIDE, .from = 4};
    expect(&usual, &wide, TWIN_SAME,
           "NCCL ran AllReduce 9 of " COMM " (step 4 of rank 2, 1,001 ncclFloat32) by " RING
           " in run 1 and by " WIDE
           " in run 2; it chose otherwise for 1 of the 15 collectives that were compared; nothing "
           "else that was compared differs");
}

static void test_nothing_differs(void **state)
{
    (void)state;
    const struct made differs = {.value = 1}, none = {.none = true};
    const char *same = "NCCL chose the same algorithms, protocols and channels in run 1 and run 2 "
                       "for the 15 collectives that were compared";
    expect(&usual, &usual, TWIN_SAME, same);
    expect(&usual, &differs, TWIN_DIFFER, same);
    expect(&none, &none, TWIN_SAME, "");
}

/* Mutants: nothing may be said of calls that are not the same, and "the same" not of all. */
static void test_one_side_is_missing(void **state)
{
    (void)state;
    const struct made none = {.none = true}, empty = {.empty = true}, role = {.role = "child 1"};
    expect(&usual, &none, TWIN_SAME,
           "what NCCL chose was not compared: it was recorded in run 1 alone");
    expect(&none, &usual, TWIN_SAME,
           "what NCCL chose was not compared: it was recorded in run 2 alone");
    expect(&usual, &empty, TWIN_SAME,
           "what NCCL chose was not compared between run 1 and run 2: the other calls have no "
           "counterpart");
    expect(&empty, &empty, TWIN_SAME,
           "what NCCL chose was not compared between run 1 and run 2: no call of either was "
           "recorded");
    expect(&usual, &role, TWIN_SAME,
           "what NCCL chose was not compared between run 1 and run 2: the other calls have no "
           "counterpart");
}

static void test_other_calls(void **state)
{
    (void)state;
    const char *none = "what NCCL chose was not compared between run 1 and run 2: the other calls "
                       "have no counterpart";
    /* all else is TREE there, and must not be laid against RING */
    const struct made comm = {.comm = "communicator 2 \"dp\", rank 2 of 3", .choice = TREE};
    const struct made ranks = {.comm = "communicator 1 \"dp\", rank 2 of 8", .choice = TREE};
    const struct made type = {.datatype = "ncclFloat16", .choice = TREE};
    const struct made later = {.later = true, .choice = TREE};
    const struct made twice = {.twice = true, .choice = TREE};
    expect(&usual, &comm, TWIN_SAME, none);
    expect(&usual, &ranks, TWIN_SAME, none);
    expect(&usual, &type, TWIN_SAME, none);
    expect(&usual, &later, TWIN_SAME, none);
    expect(&usual, &twice, TWIN_SAME, none);
    /* streams are independent: Broadcast is compared all the same */
    const char *broadcasts = "NCCL chose the same algorithms, protocols and channels in run 1 and "
                             "run 2 for the 5 collectives that were compared; the other calls have "
                             "no counterpart";
    const struct made swapped = {.swap = true, .choice = TREE};
    expect(&usual, &swapped, TWIN_SAME, broadcasts);
    /* a call fewer, another size, another number: compared up to there */
    const struct made fewer = {.skip = 5, .choice = TREE, .from = 1};
    expect(&usual, &fewer, TWIN_SAME,
           "NCCL chose the same algorithms, protocols and channels in run 1 and run 2 for the 8 "
           "collectives that were compared; the other calls have no counterpart");
    const struct made size = {.count = 7, .choice = TREE};
    expect(&usual, &size, TWIN_SAME,
           "NCCL chose the same algorithms, protocols and channels in run 1 and run 2 for the 6 "
           "collectives that were compared; the other calls have no counterpart");
    const struct made shorter = {.skip = STEPS * CALLS}, extra = {.extra = true};
    expect(&usual, &shorter, TWIN_SAME,
           "NCCL chose the same algorithms, protocols and channels in run 1 and run 2 for the 14 "
           "collectives that were compared; the other calls have no counterpart");
    const char *all = "NCCL chose the same algorithms, protocols and channels in run 1 and run 2 "
                      "for the 15 collectives that were compared; the other calls have no "
                      "counterpart";
    expect(&usual, &extra, TWIN_SAME, all);
    expect(&extra, &usual, TWIN_SAME, all);
    const struct made sequence = {.other_sequence = true, .choice = TREE, .from = 2};
    expect(&usual, &sequence, TWIN_SAME,
           "NCCL chose the same algorithms, protocols and channels in run 1 and run 2 for the 6 "
           "collectives that were compared; the other calls have no counterpart");
}

static void test_not_all_was_seen(void **state)
{
    (void)state;
    const struct made lost = {.lost = true, .choice = TREE}, open = {.open = true};
    expect(&usual, &lost, TWIN_SAME,
           "what NCCL chose was not compared between run 1 and run 2: "
           "calls were not recorded, 0 in run 1 and 3 in run 2");
    expect(&usual, &open, TWIN_SAME,
           "NCCL chose the same algorithms, protocols and channels in run 1 and run 2 for the 15 "
           "collectives that were compared; not all was recorded to its end");
    const struct made torn = {.torn = true, .choice = TREE};
    expect(&usual, &torn, TWIN_SAME,
           "what NCCL chose was not compared: the records of run 2 cannot be read");
    expect(&torn, &usual, TWIN_SAME,
           "what NCCL chose was not compared: the records of run 1 cannot be read");
    const size_t most = tw_choices_most;
    tw_choices_most = 4;
    expect(&usual, &usual, TWIN_SAME,
           "NCCL chose the same algorithms, protocols and channels in run 1 and run 2 for the 4 "
           "collectives that were compared; more than 4 calls are not looked at");
    tw_choices_most = most;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_call_is_named),   cmocka_unit_test(test_nothing_differs),
        cmocka_unit_test(test_one_side_is_missing), cmocka_unit_test(test_other_calls),
        cmocka_unit_test(test_not_all_was_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
