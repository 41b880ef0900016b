/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the lines that ask for an isolated cause matter (src/isolate/asking_lines.h)?
 * search_lines.c calls this with the lines of the job, and makes the trials.
 *
 * Up to FEW lines are tried one by one. More of them are tried in halves: where a run with other
 * values for one half agrees, all lines of that half are done with after one run; where it
 * diverges, each half of it is tried again. The order is depth first, so earlier lines get their
 * answers first when the runs do not suffice for all.
 */
#include "src/isolate/asking_lines.h"

#include "base.h"

#include <assert.h>

/* With so few lines, halving would hardly save a run. */
enum { FEW = 4 };

/* The lines from `begin` to before `end`, which are tried together. */
struct lines_part {
    size_t begin, end;
};

/* One experiment. `other` is the flag of each line that the caller is handed for the next trial. */
struct lines_test {
    size_t count;
    uint32_t max_runs, runs;
    bool any_agreed;
    twin_lines_try *make;
    void *user;
    enum twin_line_answer *answer;
    bool *other;
    /* As a stack; the first line lies on top. The parts are disjoint and none is empty, so there
     * are never more of them than lines. */
    struct lines_part *todo;
    size_t todo_count;
};

/* Makes one run in which the lines of the part get other values. 0, or the caller's error. */
static int try_lines(struct lines_test *t, struct lines_part part, enum twin_line_trial *trial,
                     struct twin_error *err)
{
    assert(part.begin <= part.end && part.end <= t->count);
    for (size_t i = 0; i < t->count; i++)
        t->other[i] = i >= part.begin && i < part.end;
    t->runs++;
    int rc = t->make(t->user, t->other, t->count, trial, err);
    t->any_agreed |= rc == 0 && *trial == TWIN_TRIAL_AGREES;
    return rc;
}

/* Puts a part on the stack, unless it is empty. */
static void put_off(struct lines_test *t, size_t begin, size_t end)
{
    assert(begin <= end && end <= t->count && t->todo_count <= t->count);
    if (begin < end)
        t->todo[t->todo_count++] = (struct lines_part){begin, end};
}

/* What one trial said of its lines. What diverged with several, and what said nothing with several,
 * is tried in halves. */
static void learn_lines(struct lines_test *t, struct lines_part part, enum twin_line_trial trial)
{
    assert(part.begin < part.end && part.end <= t->count);
    size_t lines = part.end - part.begin, middle = part.begin + lines / 2;
    if (trial == TWIN_TRIAL_AGREES) {
        for (size_t i = part.begin; i < part.end; i++)
            t->answer[i] = TWIN_LINE_AGREES;
    } else if (lines > 1) {
        put_off(t, middle, part.end);
        put_off(t, part.begin, middle);
    } else if (trial == TWIN_TRIAL_DIVERGES) {
        t->answer[part.begin] = TWIN_LINE_DIVERGES;
    }
}

/* All lines together are the natural world, which is known to diverge: that is not tried. */
static void begin_with(struct lines_test *t)
{
    if (t->count <= FEW) {
        for (size_t i = t->count; i-- > 0;)
            put_off(t, i, i + 1);
    } else {
        put_off(t, t->count / 2, t->count);
        put_off(t, 0, t->count / 2);
    }
}

/* Makes the trials until the stack is empty or the runs are used up. */
static int test_lines(struct lines_test *t, struct twin_error *err)
{
    enum twin_line_trial trial = TWIN_TRIAL_VOID;
    int rc = 0;
    begin_with(t);
    /* One run is kept for the trial without other values, below. */
    while (rc == 0 && t->todo_count && t->runs + 1 < t->max_runs) {
        struct lines_part part = t->todo[--t->todo_count];
        rc = try_lines(t, part, &trial, err);
        if (rc == 0)
            learn_lines(t, part, trial);
    }
    /* Does a trial in which no line gets other values agree? When it does not, either, the way in
     * which trials are made is what diverges, and no answer counts. */
    if (rc == 0 && !t->any_agreed && t->runs)
        rc = try_lines(t, (struct lines_part){0, 0}, &trial, err);
    return rc;
}

int twin_lines_test(size_t count, uint32_t max_runs, twin_lines_try *make, void *user,
                    enum twin_line_answer *answer, uint32_t *runs, struct twin_error *err)
{
    struct lines_test t = {
        .count = count, .max_runs = max_runs, .make = make, .user = user, .answer = answer};
    int rc = 0;
    assert(make && answer && runs);
    for (size_t i = 0; i < count; i++)
        answer[i] = TWIN_LINE_NOT_TRIED;
    t.other = tw_calloc(count + 1, sizeof *t.other);
    t.todo = tw_calloc(count + 1, sizeof *t.todo);
    if (!t.other || !t.todo)
        rc = tw_no_memory(err, "for trials of %zu lines", count);
    if (rc == 0)
        rc = test_lines(&t, err);
    for (size_t i = 0; (rc != 0 || !t.any_agreed) && i < count; i++)
        answer[i] = TWIN_LINE_NOT_TRIED;
    *runs = t.runs;
    tw_free(t.other);
    tw_free(t.todo);
    return rc;
}
