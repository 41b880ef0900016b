/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of one run that should hold equal weights. Each mutant is one that must be told, or of
 * which it must be said that nothing is known; and there are the runs whose ranks differ by right,
 * of which nothing may be said.
 */
#include "compare_test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base.h"
#include "internal.h"

enum { STEPS = 5, RANKS_MAX = 8, WHOLE = 9 };

#define HEAD "DistributedDataParallel"
#define EQUAL(ranks, n, steps) \
    "ranks " ranks " hold equal weights (" HEAD "): " n " of them, in " steps " steps"
#define UNKNOWN(ranks, from, why) \
    "whether ranks " ranks " hold equal weights (" HEAD ") is not known" from ": " why
#define DRIFT(ranks, rest) "ranks " ranks " should hold equal weights (" HEAD ") and do not: " rest

/* One job. What is 0 or NULL is as it should be. */
struct job {
    int ranks;
    const char *note[RANKS_MAX]; /* of a rank; NULL: that of the first */
    /* ranks odd .. ranks-1 hold another "b" from step `at` on, -1: from the start; up to step `to`
     */
    int odd, at, to;
    bool begins_odd;                                   /* they differ at the start alone */
    int missing, shorter, extra, unread, lossy, twice; /* a rank + 1 */
    const char *local, *end;                           /* notes of rank 1 */
    bool tail;                                         /* a last look behind the steps */
    int tail_odd;                                      /* a rank + 1 whose last look differs */
    bool own;   /* each rank has a weight "own" and a "b" of another root for itself */
    bool parts; /* "b" is recorded in parts by turns */
};

static const char usual[] = HEAD " 0,1,2 0 1 2 Net\na\nb";

static void put(struct twin_writer *w, enum twin_phase phase, const char *name, const char *scope,
                float x, uint32_t flags)
{
    synth_put(
        w,
        (struct synth_record){
            .phase = phase, .kind = TWIN_KIND_WEIGHT, .name = name, .scope = scope, .flags = flags},
        &x, 1);
}

static float b_of(const struct job *j, int rank, int step)
{
    bool odd = j->odd && rank >= j->odd;
    if (j->begins_odd)
        odd = odd && step < 0;
    else
        odd = odd && step >= j->at && (!j->to || step < j->to);
    return (float)(10 + step) + (odd ? 0.5f : 0);
}

static void put_weights(const struct job *j, struct twin_writer *w, enum twin_phase phase, int rank,
                        int step)
{
    char part[16];
    snprintf(part, sizeof part, "b[%d:%d]", step % 2 * 4, step % 2 * 4 + 4);
    put(w, phase, "a", "Net", (float)step, 0);
    put(w, phase, j->parts && phase != TWIN_PHASE_INIT ? part : "b", "Net", b_of(j, rank, step),
        j->unread == rank + 1 && step == 3 ? TWIN_REC_UNOBSERVED : 0);
    if (j->extra == rank + 1 && step == 2)
        put(w, phase, "a", "Net", (float)step, 0);
    if (j->own) {
        put(w, phase, "own", "Net", (float)rank, 0);
        put(w, phase, "b", "Other", (float)rank, 0);
    }
}

static void make_rank(const struct job *j, struct synth *s, int rank)
{
    struct twin_writer *w = synth_process(s, rank, j->ranks, NULL);
    const char *note = j->note[rank] ? j->note[rank] : j->note[0];
    note = note ? note : usual;
    if (*note)
        twin_writer_note(w, "replica", note);
    if (rank == 1 && j->local)
        twin_writer_note(w, "replica.local", j->local);
    if (rank == 1 && j->end)
        twin_writer_note(w, "replica.end", j->end);
    if (j->lossy == rank + 1)
        assert_int_equal(twin_writer_record(w, &(struct twin_observation){.series = 0}), 0);
    put_weights(j, w, TWIN_PHASE_INIT, rank, -1);
    const float in = 1;
    for (int step = 0; step < (j->shorter == rank + 1 ? 3 : STEPS); step++) {
        synth_put(w, (struct synth_record){TWIN_PHASE_DATA, TWIN_KIND_BATCH, .name = "x"}, &in, 1);
        put_weights(j, w, TWIN_PHASE_OPTIMIZER, rank, step);
        twin_writer_step_end(w);
        twin_writer_flush(w);
    }
    if (j->tail)
        put(w, TWIN_PHASE_OPTIMIZER, "a", "Net", j->tail_odd == rank + 1, 0);
}

static struct synth *recorded(const struct job *j)
{
    struct synth *s = synth_new("job");
    for (int rank = 0; rank < j->ranks; rank++) {
        if (j->missing == rank + 1)
            continue;
        make_rank(j, s, rank);
        if (j->twice == rank + 1)
            make_rank(j, s, rank);
    }
    return s;
}

/* All sentences, a line each; the caller frees it. */
static char *sentences(struct synth *s)
{
    struct tw_buf b = {0};
    char **text;
    size_t n;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_compare_replicas(synth_done(s), true, &text, &n, &err) != 0)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < n; i++) {
        tw_buf_printf(&b, "%s%s", i ? "\n" : "", text[i]);
        tw_free(text[i]);
    }
    tw_free(text);
    char *all = tw_buf_steal(&b);
    return all ? all : tw_strdup("");
}

static void expect(struct job j, const char *text)
{
    j.ranks = j.ranks ? j.ranks : 3;
    struct synth *s = recorded(&j);
    char *all = sentences(s);
    assert_string_equal(all, text);
    tw_free(all);
    synth_free(s);
}

/* ---- by right */

static void equal_replicas(void **state)
{
    (void)state;
    expect((struct job){0}, EQUAL("0, 1, 2", "2", "5"));
    expect((struct job){.tail = true}, EQUAL("0, 1, 2", "2", "5"));
    expect((struct job){.parts = true}, EQUAL("0, 1, 2", "2", "5"));
    expect((struct job){.ranks = 2, .note = {HEAD " 0,1 0 1 2 Net\na\nb"}},
           EQUAL("0, 1", "2", "5"));
}

/* Weights that nobody said were equal, and what two groups have otherwise. */
static void what_may_differ(void **state)
{
    (void)state;
    expect((struct job){.own = true}, EQUAL("0, 1, 2", "2", "5"));
    expect((struct job){.note = {""}, .odd = 2}, "");
    expect((struct job){.note = {HEAD " 0,1,2 0 1 1 Net\na"}, .odd = 2},
           EQUAL("0, 1, 2", "1", "5"));
    expect((struct job){.ranks = 4,
                        .note = {HEAD " 0,1 0 1 2 Net\na\nb", NULL, HEAD " 2,3 0 1 2 Net\na\nb",
                                 HEAD " 2,3 0 1 2 Net\na\nb"},
                        .odd = 2,
                        .at = -1},
           EQUAL("0, 1", "2", "5") "\n" EQUAL("2, 3", "2", "5"));
}

/* First weights may have been recorded before DDP sent those of rank 0. */
static void before_ddp_sent_them(void **state)
{
    (void)state;
    expect((struct job){.note = {HEAD " 0,1,2 0 0 2 Net\na\nb"}, .odd = 1, .begins_odd = true},
           EQUAL("0, 1, 2", "2", "5"));
    expect((struct job){.note = {HEAD " 0,1,2 2 0 2 Net\na\nb"}, .odd = 1, .at = -1, .to = 2},
           EQUAL("0, 1, 2", "2", "3"));
}

/* When DDP was gone each rank does what it likes. */
static void after_ddp(void **state)
{
    (void)state;
    expect((struct job){.end = "3 0,1,2 Net", .odd = 2, .at = 3}, EQUAL("0, 1, 2", "2", "3"));
    expect((struct job){.end = "5 0,1,2 Net", .tail = true, .tail_odd = 3},
           EQUAL("0, 1, 2", "2", "5"));
}

/* ---- drift */

static void the_odd_one_of_three(void **state)
{
    (void)state;
    expect((struct job){.odd = 2, .at = 3},
           DRIFT("0, 1, 2", "b is first seen to differ after step 3, where rank 2 differs from the "
                            "other 2, which agree; 1 of 2 weights differ, in 2 of 5 steps"));
    expect((struct job){.odd = 1, .at = 2, .to = 3},
           DRIFT("0, 1, 2", "b is first seen to differ after step 2, where rank 0 differs from the "
                            "other 2, which agree; 1 of 2 weights differ, in 1 of 5 steps"));
    expect((struct job){.parts = true, .odd = 2, .at = 3},
           DRIFT("0, 1, 2", "b is first seen to differ after step 3, where rank 2 differs from the "
                            "other 2, which agree; 1 of 2 weights differ, in 2 of 5 steps"));
    expect(
        (struct job){.ranks = 5, .note = {HEAD " 0,1,2,3,4 0 1 2 Net\na\nb"}, .odd = 3, .at = 0},
        DRIFT("0, 1, 2, 3, 4",
              "b is first seen to differ after step 0, where ranks 3, 4 differ from the other 3, "
              "which agree; 1 of 2 weights differ, in 5 of 5 steps"));
}

static void no_side_of_two_is_blamed(void **state)
{
    (void)state;
    expect((struct job){.ranks = 2, .note = {HEAD " 0,1 0 1 2 Net\na\nb"}, .odd = 1, .at = 3},
           DRIFT("0, 1", "b is first seen to differ after step 3; 1 of 2 weights differ, in 2 of 5 "
                         "steps"));
    expect((struct job){.ranks = 4, .note = {HEAD " 0,1,2,3 0 1 2 Net\na\nb"}, .odd = 2, .at = 4},
           DRIFT("0, 1, 2, 3",
                 "b is first seen to differ after step 4; 1 of 2 weights differ, in 1 "
                 "of 5 steps"));
}

static void at_the_start_and_at_the_end(void **state)
{
    (void)state;
    expect((struct job){.odd = 2, .at = -1},
           DRIFT("0, 1, 2", "b is first seen to differ at the start, where rank 2 differs from the "
                            "other 2, which agree; 1 of 2 weights differ, in 5 of 5 steps"));
    expect((struct job){.tail = true, .tail_odd = 2},
           DRIFT("0, 1, 2", "a is first seen to differ at the end, where rank 1 differs from the "
                            "other 2, which agree; 1 of 2 weights differ, in 0 of 5 steps"));
}

static void many_ranks(void **state)
{
    (void)state;
    char note[200] = HEAD " 0";
    for (int i = 1; i < 20; i++)
        snprintf(note + strlen(note), sizeof note - strlen(note), ",%d", i);
    strcat(note, " 0 1 2 Net\na\nb");
    expect((struct job){.ranks = 1, .note = {note}},
           UNKNOWN("0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ...", "",
                   "rank 1 left no trace that says so"));
}

/* ---- what is not known */

static void missing_and_cut(void **state)
{
    (void)state;
    expect((struct job){.missing = 2}, UNKNOWN("0, 1, 2", "", "rank 1 left no trace that says so"));
    expect((struct job){.note = {usual, ""}, .odd = 2},
           UNKNOWN("0, 1, 2", "", "rank 1 left no trace that says so"));
    expect((struct job){.shorter = 3, .tail = true},
           UNKNOWN("0, 1, 2", " from step 3 on",
                   "rank 2 made 3 steps, and another one 5") "\n" EQUAL("0, 1, 2", "2", "3"));
    expect((struct job){.shorter = 3, .odd = 1, .at = 3},
           UNKNOWN("0, 1, 2", " from step 3 on",
                   "rank 2 made 3 steps, and another one 5") "\n" EQUAL("0, 1, 2", "2", "3"));
}

static void said_otherwise(void **state)
{
    (void)state;
    static const char *const other[] = {
        HEAD " 0,1,2 0 1 2 Net\na\nc", HEAD " 0,1,2 1 1 2 Net\na\nb", HEAD " 0,1,2 0 0 2 Net\na\nb",
        HEAD " 0,1,2 0 1 1 Net\na",    HEAD " 0,1,2 0 1 3 Net\na\nb",
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        expect((struct job){.note = {usual, other[i]}, .odd = 2},
               UNKNOWN("0, 1, 2", "", "rank 1 says it of other weights"));
    expect((struct job){.twice = 2}, UNKNOWN("0, 1, 2", "", "several processes of rank 1 say so"));
}

static void own_steps(void **state)
{
    (void)state;
    expect((struct job){.local = "3 0,1,2 Net", .odd = 1, .at = 3},
           UNKNOWN(
               "0, 1, 2", " from step 3 on",
               "rank 1 stepped on gradients that were not averaged (no_sync)") "\n" EQUAL("0, 1, 2",
                                                                                          "2",
                                                                                          "3"));
    expect((struct job){.extra = 2, .odd = 1, .at = 2},
           UNKNOWN("0, 1, 2", " from step 2 on",
                   "rank 1 recorded other weights in that step than rank 0") "\n" EQUAL("0, 1, 2",
                                                                                        "2", "2"));
    /* a drift before it stays one */
    expect(
        (struct job){.extra = 2, .odd = 1, .at = 1},
        DRIFT(
            "0, 1, 2",
            "b is first seen to differ after step 1, where rank 0 differs from the "
            "other 2, which agree; 1 of 2 weights differ, in 1 of 2 steps") "\n" UNKNOWN("0, 1, 2",
                                                                                         " from "
                                                                                         "step 2 "
                                                                                         "on",
                                                                                         "rank 1 "
                                                                                         "recorded "
                                                                                         "other "
                                                                                         "weights "
                                                                                         "in that "
                                                                                         "step "
                                                                                         "than "
                                                                                         "rank 0"));
}

static void not_recorded(void **state)
{
    (void)state;
    expect((struct job){.unread = 2},
           UNKNOWN("0, 1, 2", " from step 3 on", "rank 1 could not read b") "\n" EQUAL("0, 1, 2",
                                                                                       "2", "3"));
    expect((struct job){.lossy = 2}, UNKNOWN("0, 1, 2", "", "rank 1 could not record everything"));
    const size_t rows = tw_replica_rows;
    tw_replica_rows = 6; /* two of the start, two of each step */
    expect(
        (struct job){.odd = 2, .at = 2},
        UNKNOWN("0, 1, 2", " from step 1 on",
                "rank 0 recorded more of them than are looked at") "\n" EQUAL("0, 1, 2", "2", "1"));
    tw_replica_rows = rows;
}

/* Notes are foreign: none of these says anything. */
static void notes_of_another_form(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "x",
        HEAD,
        HEAD " ",
        HEAD " 0,1,2",
        HEAD " 0,1,2 0 1 2 ",
        HEAD " 0,1,2 0 1 2 \na\nb",
        HEAD " 0,1,2 0 1 0 Net",
        HEAD " 0,1,2 0 1 2 Net",
        HEAD " 0,1,2 0 2 2 Net\na\nb",
        HEAD " 0,1,2 -1 1 2 Net\na\nb",
        HEAD " 0,1,2 99999999999 1 2 Net\na\nb",
        HEAD " 2,1,0 0 1 2 Net\na\nb",
        HEAD " 0,,1 0 1 2 Net\na\nb",
        HEAD " 0 0 1 2 Net\na\nb",
        HEAD " 0,1, 0 1 2 Net\na\nb",
        HEAD " 0,99999999999 0 1 2 Net\na\nb",
        "\n\n\n",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        expect((struct job){.note = {odd[i]}, .odd = 2}, "");
    expect((struct job){.local = "3 0,1,2 Other", .end = "x"}, EQUAL("0, 1, 2", "2", "5"));
    expect((struct job){.local = "3 0,1 Net", .end = "1"}, EQUAL("0, 1, 2", "2", "5"));
}

/* A rank records faster than its ring is emptied. */
static void lost_records_of_a_step(void **state)
{
    (void)state;
    const struct job j = {.ranks = 2, .note = {HEAD " 0,1 0 1 2 Net\na\nb"}};
    const struct synth_record h = {
        .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_ACTIVATION, .name = "h"};
    struct synth *s = synth_new("job");
    struct twin_writer *w = synth_dropping(s);
    twin_writer_note(w, "replica", j.note[0]);
    put_weights(&j, w, TWIN_PHASE_INIT, 0, -1);
    for (int step = 0; step < STEPS; step++) {
        put_weights(&j, w, TWIN_PHASE_OPTIMIZER, 0, step);
        if (step == 3)
            synth_flood(w, h, 4000, NULL, NULL);
        twin_writer_flush(w);
        twin_writer_step_end(w);
    }
    make_rank(&j, s, 1);
    char *all = sentences(s);
    assert_string_equal(all,
                        UNKNOWN("0, 1", " from step 3 on",
                                "rank 0 lost records of that step") "\n" EQUAL("0, 1", "2", "3"));
    tw_free(all);
    synth_free(s);
}

/*
 * Each byte of a rank's trace changed: replicas that are equal are never told to differ, and those
 * that are not are never told to be equal in as many steps as were made.
 */
static void each_byte_flipped(void **state)
{
    (void)state;
    size_t damaged = 0;
    for (int odd = 0; odd < 2; odd++)
        for (int which = 0; which < 2; which++) {
            const struct job j = {.ranks = 3, .odd = odd, .at = 2};
            struct synth *s = recorded(&j);
            const char *path = synth_done(s)->traces[which];
            char *bytes, *before = sentences(s);
            size_t n;
            const int fd = open(path, O_RDWR | O_CLOEXEC);
            assert_true(fd >= 0);
            assert_int_equal(tw_read_file(path, 1u << 24, &bytes, &n, NULL), 0);
            for (size_t at = 0; at < n; at += WHOLE) {
                const char flipped = (char)(bytes[at] ^ 1 << at % 8);
                assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
                char *all = sentences(s);
                assert_int_equal(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
                if (strstr(all, odd ? "in 5 steps" : "and do not"))
                    fail_msg("byte %zu: %s", at, all);
                damaged += strstr(all, "trace is damaged") != NULL;
                if (!strstr(all, "not known") && strcmp(all, before) != 0 && *all)
                    fail_msg("byte %zu: %s", at, all);
                tw_free(all);
            }
            close(fd);
            tw_free(bytes);
            tw_free(before);
            synth_free(s);
        }
    assert_true(damaged > 10);
}

static void damage_in_words(void **state)
{
    (void)state;
    const struct job j = {.ranks = 3};
    struct synth *s = recorded(&j);
    const char *path = synth_done(s)->traces[1];
    struct twin_trace *t = NULL;
    assert_int_equal(twin_trace_open(path, &t, NULL), 0);
    const uint64_t bytes = twin_trace_info(t)->file_bytes;
    twin_trace_close(t);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    bool said = false;
    for (uint64_t at = bytes / 3; at < bytes && !said; at += 64) {
        char old, other;
        assert_int_equal(pread(fd, &old, 1, (off_t)at), 1);
        other = (char)(old ^ 0x10);
        assert_int_equal(pwrite(fd, &other, 1, (off_t)at), 1);
        char *all = sentences(s);
        said = strstr(all, "hold equal weights (" HEAD ") is not known") &&
               strstr(all, ": a part of rank 1's trace is damaged");
        tw_free(all);
        assert_int_equal(pwrite(fd, &old, 1, (off_t)at), 1);
    }
    close(fd);
    assert_true(said);
    synth_free(s);
}

/* ---- what DTensor says to be replicated */

static void over_a_dimension_of_the_mesh(void **state)
{
    (void)state;
    static const char note[] = "DTensor/dp 0,2 0 1 2 Net\na\nb";
    static const char other[] = "DTensor/dp 1,3 0 1 2 Net\na\nb";
    static const char many[] = "DTensor/dp+tp 0,1,2,3 0 1 2 Net\na\nb";
    expect(
        (struct job){.ranks = 4, .odd = 3, .at = 3, .note = {note, other, note, other}},
        "ranks 0, 2 hold equal weights (DTensor, replicated over mesh dimension dp): 2 of them, in "
        "5 steps\n"
        "ranks 1, 3 should hold equal weights (DTensor, replicated over mesh dimension dp) and do "
        "not: b is first seen to differ after step 3; 1 of 2 weights differ, in 2 of 5 steps");
    expect((struct job){.ranks = 4, .odd = 3, .at = 3, .note = {many}},
           "ranks 0, 1, 2, 3 should hold equal weights (DTensor, replicated over mesh dimensions "
           "dp+tp) and do not: b is first seen to differ after step 3, where rank 3 differs from "
           "the other 3, which agree; 1 of 2 weights differ, in 2 of 5 steps");
}

/* ---- beside a verdict */

static void runs_that_repeat_with_drift(void **state)
{
    (void)state;
    const struct job j = {.ranks = 3, .odd = 2, .at = 3}, good = {.ranks = 3};
    struct synth *a = recorded(&j), *b = recorded(&j), *c = recorded(&good), *d = recorded(&good);
    struct twin_verdict *v = compare(a, b, NULL);
    expect_outcome(v, TWIN_SAME);
    expect_note(v,
                "run 1: " DRIFT("0, 1, 2", "b is first seen to differ after step 3, where rank 2 "
                                           "differs from the other 2, which agree; 1 of 2 "
                                           "weights differ, in 2 of 5 steps"));
    assert_true(has_note(v, "run 2: ranks 0, 1, 2 should hold equal weights"));
    twin_verdict_free(v);
    v = compare(c, a, NULL);
    expect_place(v, 3, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "b");
    assert_false(has_note(v, "run 1: ranks"));
    assert_true(has_note(v, "run 2: ranks 0, 1, 2 should hold equal weights"));
    twin_verdict_free(v);
    v = compare(c, d, NULL);
    expect_outcome(v, TWIN_SAME);
    assert_false(has_note(v, "equal weights"));
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
    synth_free(c);
    synth_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_replicas),
        cmocka_unit_test(over_a_dimension_of_the_mesh),
        cmocka_unit_test(what_may_differ),
        cmocka_unit_test(before_ddp_sent_them),
        cmocka_unit_test(after_ddp),
        cmocka_unit_test(the_odd_one_of_three),
        cmocka_unit_test(no_side_of_two_is_blamed),
        cmocka_unit_test(at_the_start_and_at_the_end),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(missing_and_cut),
        cmocka_unit_test(said_otherwise),
        cmocka_unit_test(own_steps),
        cmocka_unit_test(not_recorded),
        cmocka_unit_test(notes_of_another_form),
        cmocka_unit_test(lost_records_of_a_step),
        cmocka_unit_test(each_byte_flipped),
        cmocka_unit_test(damage_in_words),
        cmocka_unit_test(runs_that_repeat_with_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
