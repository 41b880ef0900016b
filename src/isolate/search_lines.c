/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the lines that ask for an isolated cause matter? Runs under the causes' pins in which
 * some lines get other values than the pin's: where such a run diverges, a value of those lines has
 * reached what diverged. asking_lines.c chooses the lines of each trial; the agents give the values
 * (other_lines.py, streams.c). search_who.c calls this with the lines that it found.
 */
#include "search_runs.h"

#include "run_state.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

/* These runs come after the verdict, so they are few. */
enum { RUNS_MOST = 12 };

/* What the trials of one cause have in common. */
struct lines_trial {
    struct tw_isolate *c;
    const struct twin_run *pinned; /* the run that each trial is compared with */
    struct twin_world world;       /* the world of every trial: the causes' pins */
    const char *word;              /* the agents' name of the factor */
    const struct tw_asking *line;
};

/* A run with exactly the causes pinned that went on to its end and agreed with its reference; NULL:
 * there is none, or its folder is gone. */
static const struct twin_run *pinned_run(struct tw_isolate *c, const struct twin_search_report *r)
{
    struct twin_search_set causes = {{0}};
    for (size_t i = 0; i < r->cause_count; i++)
        causes.word[r->cause[i].candidate / 64] |= UINT64_C(1) << r->cause[i].candidate % 64;
    for (size_t i = 0; i < c->log.count; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct tw_isolate_made *m = tw_isolate_made(c, e->number);
        bool agreed = e->result.status == TWIN_ENDED_WELL && !e->result.parted;
        if (!m || !m->whole || !agreed || memcmp(&m->pinned, &causes, sizeof causes) != 0)
            continue;
        const struct twin_run *found = tw_isolate_find(c, e->result.handle);
        if (found)
            return found;
    }
    return NULL;
}

/* "TWINRUN_OTHER_LINES=entropy<tab>train.py:12<tab>data.py:3" */
static char *variable_of(const struct lines_trial *t, const bool *other, size_t count)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "TWINRUN_OTHER_LINES=%s", t->word);
    for (size_t i = 0; i < count; i++)
        if (other[i])
            tw_buf_printf(&b, "\t%.*s", (int)t->line[i].where_bytes, t->line[i].where);
    return tw_buf_steal(&b);
}

/* Did the lines ask in this run, so that they got other values? */
static bool were_answered(const struct twin_run *r)
{
    struct twin_said_line *line = NULL;
    char *text = NULL;
    size_t count = 0;
    unsigned long long answered = 0;
    if (twin_said_lines(r, &text, &line, &count, NULL) != 0)
        count = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(line[i].key, "other.answered") == 0)
            answered += strtoull(line[i].value, NULL, 10);
    tw_free(line);
    tw_free(text);
    return answered > 0;
}

/* Makes the run. *run is the caller's, NULL when it was not made. */
static int launch_trial(struct lines_trial *t, const bool *other, size_t count,
                        struct twin_run **run, struct twin_error *err)
{
    struct tw_isolate *c = t->c;
    struct tw_trial trial = {.front = c->front,
                             .title = "which line matters ",
                             .expected_s = c->natural_s,
                             .deadline_ns = tw_patience_ends_ns(&tw_patience_traced, c->natural_s)};
    struct twin_launch_options o = tw_isolate_launch_options(c, "lines");
    o.level = t->pinned->level;
    struct twin_world_plan p = {.cpu = -1};
    int rc = twin_world_plan(&t->world, c->argv, &p, err);
    if (rc == 0)
        rc = twin_world_plan_apart(&p, &t->world, err);
    if (rc == 0)
        rc = twin_world_plan_variable(&p, variable_of(t, other, count), err);
    if (rc == 0) {
        twin_world_plan_apply(&p, &o);
        tw_isolate_order_apply(c, &t->world, &o);
        rc = tw_isolate_make(t->c, &trial, &o, err);
    }
    *run = trial.run;
    twin_world_plan_free(&p);
    return rc;
}

/* The callback of asking_lines.c. A run in which the lines did not ask, or that failed, says
 * nothing. */
static int make_trial(void *user, const bool *other, size_t count, enum twin_line_trial *out,
                      struct twin_error *err)
{
    struct lines_trial *t = user;
    struct twin_run *run = NULL;
    struct twin_verdict *v = NULL;
    bool any = false;
    *out = TWIN_TRIAL_VOID;
    for (size_t i = 0; i < count; i++)
        any |= other[i];
    int rc = launch_trial(t, other, count, &run, err);
    if (rc == 0 && tw_isolate_stops(t->c))
        rc = twin_error_set(err, TWIN_EINTR, "interrupted");
    bool tells = rc == 0 && !tw_run_failed(run) && (!any || were_answered(run));
    if (tells)
        rc = tw_isolate_compare_pair(t->c, t->pinned, run, &v, err);
    if (tells && rc == 0) {
        *out = tw_isolate_parted(t->c, v) ? TWIN_TRIAL_DIVERGES : TWIN_TRIAL_AGREES;
    }
    twin_verdict_free(v);
    twin_run_free(run);
    return rc;
}

/* Those that matter first, those that make no difference last; within a sort as it was. */
static void sort_by_answer(struct tw_asking *line, size_t count)
{
    static const enum twin_line_answer order[] = {TWIN_LINE_DIVERGES, TWIN_LINE_NOT_TRIED,
                                                  TWIN_LINE_AGREES};
    struct tw_asking *sorted = tw_calloc(count + 1, sizeof *sorted);
    size_t n = 0;
    for (size_t k = 0; sorted && k < sizeof order / sizeof order[0]; k++)
        for (size_t i = 0; i < count; i++)
            if (line[i].answer == order[k])
                sorted[n++] = line[i];
    if (sorted)
        memcpy(line, sorted, count * sizeof *line);
    tw_free(sorted);
}

/* Is there time for another run, and a cause to pin? */
static bool can_be_tried(const struct tw_isolate *c, const struct twin_search_report *r)
{
    double limit = (double)c->args.max_time;
    bool time_left = limit <= 0 || r->seconds + c->natural_s < limit;
    return r->cause_count && time_left && !tw_isolate_stops(c);
}

/* Moves the lines that can be told apart to the front and returns how many they are; the order
 * stays. A line of `python -c` is not told from that of another command by its number, so none gets
 * other values. */
static size_t in_files_first(struct tw_asking *line, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        struct tw_asking a = line[i];
        if (tw_starts(a.where, "python -c:"))
            continue;
        memmove(line + n + 1, line + n, (i - n) * sizeof *line);
        line[n++] = a;
    }
    return n;
}

void tw_isolate_try_lines(struct tw_isolate *c, const struct twin_search_report *r,
                          const char *word, struct tw_asking *line, size_t count)
{
    if (count < 2 || !can_be_tried(c, r) || (count = in_files_first(line, count)) < 2)
        return;
    /* Every trial is made in the world of the causes' pins, and compared with a run of that
     * world. */
    struct lines_trial t = {.c = c, .pinned = pinned_run(c, r), .word = word, .line = line};
    enum twin_line_answer *answer = tw_calloc(count, sizeof *answer);
    uint32_t runs = 0;
    t.world.setting = tw_calloc(r->cause_count, sizeof *t.world.setting);
    for (size_t i = 0; t.world.setting && i < r->cause_count; i++)
        t.world.setting[t.world.count++] = (struct twin_setting){c->factor[r->cause[i].candidate],
                                                                 TWIN_PIN, 0};
    bool possible = t.pinned && answer && t.world.setting;
    if (possible && twin_lines_test(count, RUNS_MOST, make_trial, &t, answer, &runs, NULL) == 0) {
        for (size_t i = 0; i < count; i++)
            line[i].answer = answer[i];
        sort_by_answer(line, count);
    }
    tw_free(answer);
    tw_free(t.world.setting);
}
