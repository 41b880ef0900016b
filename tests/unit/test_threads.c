/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's threads: what the processes of a run told, whether a run of B can be made with A's
 * numbers, and what isolate says of that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "held_threads.h"
#include "search_runs.h"

#include "src/compare/compare.h"

/* A run whose processes told these things. */
struct told {
    char dir[32];
    char *trace[4];
    struct twin_run run;
};

/* name: "0.17"; words: its file in worlds/; NULL: it has none. */
static void process(struct told *t, const char *name, const char *words)
{
    char *path = tw_printf("%s/worlds/%s", t->dir, name);
    t->trace[t->run.trace_count++] = tw_printf("%s/ranks/%s.twt", t->dir, name);
    if (words)
        assert_int_equal(tw_write_file_atomic(path, words, strlen(words), NULL), 0);
    tw_free(path);
}

static void begin(struct told *t)
{
    *t = (struct told){.dir = "/tmp/twin-threads-XXXXXX"};
    assert_non_null(mkdtemp(t->dir));
    char *worlds = tw_path_join(t->dir, "worlds");
    assert_int_equal(tw_mkdirs(worlds, NULL), 0);
    tw_free(worlds);
    t->run.traces = t->trace;
}

static void end(struct told *t)
{
    for (size_t i = 0; i < t->run.trace_count; i++)
        tw_free(t->trace[i]);
    tw_remove_tree(t->dir, NULL, NULL);
}

#define TWO "setting\tthreads 2\nsetting\tthreads 2\n"
#define THREE "setting\tthreads 3\nsetting\tthreads 3\n"

static void of_one_run(void **state)
{
    static const struct {
        const char *name[3], *words[3];
        uint32_t threads[3];
        size_t count; /* 0: not known */
    } cases[] = {
        {{"0.7"}, {TWO}, {2}, 1},
        {{"0.7"}, {"setting\tthreads 2\n"}, {2}, 1}, /* it was ended from outside */
        {{"0.7", "1.8", "2.9"}, {TWO, THREE, TWO}, {2, 3, 2}, 3},
        {{"0.7", "0.8"}, {TWO, TWO}, {2}, 1},
        {{"0.7", "0.8"}, {TWO, NULL}, {2}, 1}, /* a worker of a loader tells nothing */
        {{"0.7", "0.8"}, {TWO, THREE}, {0}, 0},
        {{"0.7"}, {"setting\tthreads 2\nsetting\tthreads 3\n"}, {0}, 0},
        {{"0.7"}, {NULL}, {0}, 0},
        {{"0.7"}, {"setting\tinterop_threads 2\n"}, {0}, 0},
        {{"0.7"}, {"setting\tthreads 0\n"}, {0}, 0},
        {{"0.7"}, {"setting\tthreads 2 or so\n"}, {0}, 0},
        {{"0.7", "2.9"}, {TWO, TWO}, {0}, 0},          /* where is rank 1? */
        {{"0.7", "1.8"}, {TWO, NULL}, {0}, 0},         /* rank 1 does not say */
        {{"0.7", "0.7-2"}, {TWO THREE, NULL}, {0}, 0}, /* exec: one file for two programs */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct told t;
        struct twin_rank_threads *list;
        size_t n;
        begin(&t);
        for (size_t k = 0; k < 3 && cases[i].name[k]; k++)
            process(&t, cases[i].name[k], cases[i].words[k]);
        if (strstr(cases[i].name[1] ? cases[i].name[1] : "", "-2")) {
            char *ranks = tw_path_join(t.dir, "ranks");
            assert_int_equal(tw_mkdirs(ranks, NULL), 0);
            assert_int_equal(tw_write_file_atomic(t.trace[1], "x", 1, NULL), 0);
            tw_free(ranks);
        }
        assert_int_equal(twin_run_threads(&t.run, &list, &n), cases[i].count > 0);
        assert_int_equal(n, cases[i].count);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(list[k].rank, k);
            assert_int_equal(list[k].threads, cases[i].threads[k]);
        }
        tw_free(list);
        end(&t);
    }
}

/* Two runs of as many ranks as there are words. */
static bool held_of(const char *const *a, const char *const *b, size_t na, size_t nb,
                    struct tw_held_threads *h, bool *kept)
{
    struct told x, y;
    char name[8];
    begin(&x);
    begin(&y);
    for (size_t i = 0; i < na; i++) {
        snprintf(name, sizeof name, "%zu.9", i);
        process(&x, name, a[i]);
    }
    for (size_t i = 0; i < nb; i++) {
        snprintf(name, sizeof name, "%zu.9", i);
        process(&y, name, b[i]);
    }
    const bool is = tw_held_threads_of(&x.run, &y.run, h);
    if (is) {
        assert_true(tw_held_threads_kept(h, &x.run)); /* A has its own numbers */
        *kept = tw_held_threads_kept(h, &y.run);
    }
    end(&x);
    end(&y);
    return is;
}

static void of_two_commands(void **state)
{
    const char *two[] = {TWO}, *three[] = {THREE}, *none[] = {NULL};
    const char *mixed[] = {TWO, THREE}, *even[] = {TWO, TWO};
    const char *turns[] = {TWO, THREE, TWO}, *mixed_of_three[] = {THREE, THREE, TWO};
    struct tw_held_threads h;
    bool kept = true;
    (void)state;
    assert_true(held_of(two, three, 1, 1, &h, &kept));
    assert_string_equal(h.variable, "TWINRUN_TORCH_THREADS=0:2");
    assert_string_equal(h.of_a, "2");
    assert_string_equal(h.of_b, "3");
    assert_string_equal(h.words, "2; B's own: 3");
    assert_false(kept);
    tw_held_threads_free(&h);
    assert_true(held_of(mixed, even, 2, 2, &h, &kept));
    assert_string_equal(h.variable, "TWINRUN_TORCH_THREADS=0:2,1:3");
    assert_string_equal(h.words, "2 on rank 0, 3 on rank 1; B's own: 2");
    tw_held_threads_free(&h);
    assert_true(held_of(even, mixed, 2, 2, &h, &kept));
    assert_string_equal(h.words, "2; B's own: 2 on rank 0, 3 on rank 1");
    tw_held_threads_free(&h);
    assert_true(held_of(turns, mixed_of_three, 3, 3, &h, &kept));
    assert_string_equal(h.words, "2 on ranks 0 and 2, 3 on rank 1; B's own: 3 on ranks 0 and 1, 2 "
                                 "on rank 2");
    tw_held_threads_free(&h);
    /* equal, not known, other ranks: no experiment, and nothing to free */
    assert_false(held_of(two, two, 1, 1, &h, &kept));
    assert_false(held_of(two, none, 1, 1, &h, &kept));
    assert_false(held_of(none, three, 1, 1, &h, &kept));
    assert_false(held_of(two, mixed, 1, 2, &h, &kept));
    assert_null(h.variable);
    assert_null(h.words);
}

static void what_isolate_says(void **state)
{
    static char variable[] = "TWINRUN_TORCH_THREADS=0:2", words[] = "2";
    struct tw_isolate c = {.args = {.a = "x"}};
    static const struct {
        enum tw_isolate_threads_end end;
        const char *says;
    } ends[] = {
        {TW_THREADS_THROUGH,
         "B with A's number of threads of PyTorch (2) agrees with A in 3 of 3 runs, B as it is in "
         "0 of 4, in an order drawn beforehand (p = 0.029): the difference goes away with that "
         "number, too"},
        {TW_THREADS_NOT_ALONE,
         "B with A's number of threads of PyTorch (2) still diverges from A: the difference does "
         "not go away with that number alone"},
        {TW_THREADS_NOT_HELD,
         "B could not be held at A's number of threads of PyTorch (2): whether what was found acts "
         "through it is not known"},
        {TW_THREADS_ALIKE,
         "B as it is computed with A's number of threads of PyTorch (2) by itself in one of the "
         "runs that were to tell whether what was found acts through it: that is not known"},
        {TW_THREADS_GONE,
         "B as it is agreed with A in one of the runs that were to tell whether what was found "
         "acts through A's number of threads of PyTorch (2): that is not known"},
        {TW_THREADS_FAILED,
         "whether what was found acts through A's number of threads of PyTorch (2) was not found "
         "out: a run failed, or could not be judged"},
    };
    (void)state;
    assert_null(tw_isolate_threads_text(&c)); /* nothing was tried */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        c.threads = (struct tw_isolate_threads){.held = {.variable = variable, .words = words},
                                                .end = ends[i].end,
                                                .trials = 7,
                                                .held_trials = 3,
                                                .free_parted = 4};
        char *text = tw_isolate_threads_text(&c);
        assert_string_equal(text, ends[i].says);
        tw_free(text);
        assert_true(ends[i].end == TW_THREADS_THROUGH ? tw_isolate_threads_p(&c.threads) < .05
                                                      : tw_isolate_threads_p(&c.threads) == 1);
    }
    /* one that was not made to its end proves nothing */
    c.threads.end = TW_THREADS_THROUGH;
    c.threads.trials = 6;
    assert_true(tw_isolate_threads_p(&c.threads) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_run),
        cmocka_unit_test(of_two_commands),
        cmocka_unit_test(what_isolate_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
