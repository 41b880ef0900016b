/* SPDX-License-Identifier: Apache-2.0 */
/* What a verdict says of runs that an engine made: node by node, and what was made again. The runs
 * and their classes are written down here; no engine is started. */
#include "remote.h"

#include "base.h"

#include "src/launch/launch.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RUNS_MAX = 64 };

/* Runs on nodes of an engine, in two classes: the usual one, and one that diverges at step 2. */
struct world {
    struct twin_run run[RUNS_MAX];
    const struct twin_run *of[RUNS_MAX];
    size_t count, usual[RUNS_MAX], odd[RUNS_MAX];
    struct twin_class classes[2];
    struct twin_verdict verdict;
    struct tw_remote remote;
};

static void set_up(struct world *w)
{
    struct twin_error err = {0};
    *w = (struct world){.verdict = {.outcome = TWIN_DIFFER, .classes = w->classes}};
    w->classes[0] = (struct twin_class){.runs = w->usual, .parts_at_step = -1};
    w->classes[1] = (struct twin_class){.runs = w->odd, .parts_at_step = 2};
    w->verdict.class_count = 2;
    assert_int_equal(tw_engine_open("cmd:{command}", NULL, 0, &w->remote.engine, &err), 0);
}

static void tear_down(struct world *w)
{
    for (size_t i = 0; i < w->verdict.note_count; i++)
        tw_free(w->verdict.notes[i]);
    tw_free(w->verdict.notes);
    tw_engine_close(w->remote.engine);
}

/* `odd` runs of `count` on this node diverge. */
static void add(struct world *w, char *node, size_t count, size_t odd)
{
    for (size_t i = 0; i < count; i++) {
        struct twin_class *its = &w->classes[i < odd];
        w->run[w->count].node.engine = "cmd";
        w->run[w->count].node.name = node;
        w->of[w->count] = &w->run[w->count];
        its->runs[its->members++] = w->count++;
    }
}

static bool is_noted(struct world *w, const char *sentence)
{
    for (size_t i = 0; i < w->verdict.note_count; i++)
        if (strstr(w->verdict.notes[i], sentence))
            return true;
    return false;
}

static void say(struct world *w)
{
    tw_remote_note(&w->remote, w->of, w->count, &w->verdict);
}

static void all_runs_of_one_node_and_no_other(void **state)
{
    struct world w;
    (void)state;
    set_up(&w);
    add(&w, "n1", 6, 0);
    add(&w, "n2", 6, 6);
    say(&w);
    assert_true(is_noted(&w, "the runs were made by cmd on 2 nodes: n1 (6), n2 (6)"));
    assert_true(is_noted(&w, "only runs on node n2 diverge: 6 of 6 there, 0 of 6 elsewhere"));
    tear_down(&w);
}

/* A run elsewhere diverges as well: it must not be said that only those of the node do. By hand:
 * (8 * 12 + 1) of 125,970 tables with these margins, twice for Holm: 0.0015. */
static void more_on_one_node_than_elsewhere(void **state)
{
    struct world w;
    (void)state;
    set_up(&w);
    add(&w, "n1", 12, 1);
    add(&w, "n2", 8, 7);
    say(&w);
    assert_true(is_noted(&w, "more runs on node n2 diverge than elsewhere: 7 of 8 there, 1 of 12 "
                             "elsewhere (Fisher's exact test, Holm over 2: p = 0.0015)"));
    assert_false(is_noted(&w, "only runs on node"));
    tear_down(&w);
}

/* The twin of both: the same share diverges everywhere, and no node is named. */
static void no_more_on_any_node(void **state)
{
    struct world w;
    (void)state;
    set_up(&w);
    add(&w, "n1", 8, 3);
    add(&w, "n2", 8, 4);
    add(&w, "n3", 8, 3);
    say(&w);
    assert_false(is_noted(&w, "runs on node"));
    tear_down(&w);
}

static void what_was_made_again(void **state)
{
    struct world w;
    (void)state;
    set_up(&w);
    add(&w, "n1", 4, 0);
    w.remote.lost = 2;
    w.remote.misplaced = 1;
    w.remote.why[w.remote.why_count++] = "on n1: gone without a result";
    say(&w);
    assert_true(is_noted(&w, "3 runs had to be made again and count for nothing: 2 lost, 1 on a "
                             "wrong node, 0 that the engine started twice (on n1: gone without a "
                             "result; ...)"));
    tear_down(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_runs_of_one_node_and_no_other),
        cmocka_unit_test(more_on_one_node_than_elsewhere),
        cmocka_unit_test(no_more_on_any_node),
        cmocka_unit_test(what_was_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
