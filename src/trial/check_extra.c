/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the runs of a check: the zoom onto the operation that differs first, the repeat of
 * arm A, the control run that nobody watches, and notes on files and worlds. None of it changes the
 * outcome: each function adds notes to a verdict that stands, and one that fails leaves it as it
 * is. */
#include "check.h"

#include "run_state.h"
#include "zoom_runs.h"

#include "base.h"
#include "phrase.h"

#include "src/provenance/provenance.h"

#include <stdio.h>
#include <string.h>

/* Is there a first place at which the runs differ? */
static bool series_differs(const struct tw_check *c)
{
    return c->series.v && c->series.v->outcome == TWIN_DIFFER && c->series.v->first;
}

void tw_check_zoom(struct tw_check *c)
{
    const char *why = NULL;
    if (!series_differs(c) || c->args.no_zoom)
        return;
    /* nobody asked for a zoom by name: its absence needs no words */
    if (!tw_zoom_is_useful(c->series.v, c->series.runs[0], &why))
        return;
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_finding *first = c->series.v->first;
    int arm_a = 0, arm_b = c->arms;
    if (c->numbers.count) {
        arm_a = (int)tw_check_number_of(c, first->run_a);
        arm_b = (int)tw_check_number_of(c, first->run_b);
        if (arm_a != arm_b)
            return; /* ranks of other numbers call the same operations on other tensors */
    }
    struct twin_launch_options a = tw_check_launch_options(c, arm_a, "zoom-a");
    struct twin_launch_options b = tw_check_launch_options(c, arm_b, "zoom-b");
    struct tw_zoom z = {.front = c->series.front,
                        .base_a = &a,
                        .base_b = &b,
                        .deadline_ns = c->series.deadline_ns,
                        .quiet = c->args.quiet,
                        .limit_s = (double)c->args.zoom_time};
    tw_zoom_expect(&z, c->series.runs[first->run_a], c->series.start_s);
    if (tw_zoom_run(c->series.v, &z, &err) != 0)
        tw_front_trouble(c->series.front, &err,
                         "check: the zoom failed, the verdict stands without it");
    c->zoomed = !z.cut;
    c->series.interrupted |= z.interrupted;
    tw_zoom_free(&z);
}

/* The first arm in the words of notes, and what it is held against. */
struct arm_words {
    char arm[48], both[48];
};

static struct arm_words words_of(const struct tw_check *c)
{
    struct arm_words w = {"A", "A and B"};
    const uint32_t *n = c->numbers.number;
    if (!c->numbers.count)
        return w;
    snprintf(w.arm, sizeof w.arm, "the job with %u rank%s", n[0], tw_plural_s(n[0]));
    snprintf(w.both, sizeof w.both, "%u and %u ranks", n[0],
             n[tw_check_number_of(c, c->series.v->first->run_b)]);
    return w;
}

/* Is there one run of the first arm, so that nothing shows whether it repeats itself? With --ranks
 * several runs of each number do. */
static bool arm_is_alone(const struct tw_check *c)
{
    if (c->numbers.count)
        return c->numbers.each == 1 && !c->runs_given;
    return c->args.runs >= 3;
}

/* What the second run of the first arm shows. */
static void judge_repeat(struct tw_check *c, const struct twin_verdict *v)
{
    const struct arm_words w = words_of(c);
    /* A that diverges from itself only after it has diverged from B does not explain that
     * difference. */
    c->arm_unsteady = v->outcome == TWIN_DIFFER && v->first &&
                      v->first->step_a <= c->series.v->first->step_a;
    c->arm_repeats = v->outcome == TWIN_SAME || v->outcome == TWIN_WITHIN_TOLERANCE;
    if (c->arm_unsteady)
        twin_verdict_note(
            c->series.v,
            "%s does not repeat itself either (it diverges at step %u): first make %s repeatable",
            w.arm, v->first->step_a, c->numbers.count ? "that" : w.arm);
    else if (v->outcome == TWIN_DIFFER)
        twin_verdict_note(c->series.v, "%s diverges from itself too, but only later (step %u)",
                          w.arm, v->first ? v->first->step_a : 0);
    else if (c->arm_repeats)
        twin_verdict_note(c->series.v,
                          "%s repeats itself (2 runs), so the difference lies between %s", w.arm,
                          w.both);
}

/* Without this a noisy A would be blamed on what distinguishes the arms. */
void tw_check_repeat_arm(struct tw_check *c)
{
    if (!c->arms || !series_differs(c) || !arm_is_alone(c) || tw_run_failed(c->series.runs[0]))
        return;
    const struct arm_words w = words_of(c);
    const char *title = c->numbers.count ? "again" : "a again";
    struct twin_launch_options o = tw_check_launch_options(c, 0, c->numbers.count ? "again" : "a");
    struct twin_run *again = NULL;
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    char text[32];
    if (tw_check_launch(c, &o, title, false, &again) != 0)
        return;
    const struct twin_run *pair[2] = {c->series.runs[0], again};
    struct twin_compare_options how = {
        .steps_given = c->args.steps > 0,
        .steps = (uint32_t)c->args.steps,
        .ignore = c->args.ignore.items,
        .ignore_count = c->args.ignore.count,
        .tolerance_file = c->numbers.count ? NULL : c->args.tolerance,
    };
    if (c->series.interrupted || c->series.out_of_time) {
        twin_verdict_note(c->series.v,
                          "whether %s repeats itself was not found out: its second run was cut "
                          "short",
                          w.arm);
    } else if (twin_compare(pair, 2, &how, &v, &err) != 0) {
        tw_front_trouble(c->series.front, &err, "check: cannot compare %s with itself", w.arm);
    } else {
        if (!c->args.quiet)
            tw_trial_line(c->series.front, title, again,
                          v->outcome == TWIN_DIFFER ? "diverged" : tw_run_state(again, text));
        judge_repeat(c, v);
    }
    twin_verdict_free(v);
    twin_run_free(again);
}

/* ---- control: does watching change what the job prints and writes? */

/* The file that the run wrote at this path; NULL: none. */
static const struct twin_run_file *file_of(const struct twin_run *r, const char *path)
{
    for (size_t i = 0; i < r->file_count; i++)
        if (strcmp(r->files[i].path, path) == 0)
            return &r->files[i];
    return NULL;
}

/* How many files one run alone wrote, or with other bytes; *one: the path of the last of them. */
static size_t files_that_differ(const struct twin_run *a, const struct twin_run *b,
                                const char **one)
{
    size_t n = 0;
    for (size_t i = 0; i < a->file_count; i++) {
        const struct twin_run_file *f = &a->files[i], *g = file_of(b, f->path);
        if (g && strcmp(f->sha256, g->sha256) == 0)
            continue;
        *one = f->path;
        n++;
    }
    for (size_t i = 0; i < b->file_count; i++)
        if (!file_of(a, b->files[i].path)) {
            *one = b->files[i].path;
            n++;
        }
    return n;
}

/* A note on how the run that nobody watched compares with run 1. */
static void judge_control(struct tw_check *c, const struct twin_run *control)
{
    const struct twin_run *r = c->series.runs[0];
    const char *file = NULL;
    char ours[24], theirs[24], cost[80] = "";
    size_t files = files_that_differ(r, control, &file);
    bool output = strcmp(r->stdout_sha256, control->stdout_sha256) != 0;
    if (r->wall_s > 0 && control->wall_s > 0)
        snprintf(cost, sizeof cost, " (%s watched, %s not)", tw_human_seconds(r->wall_s, ours),
                 tw_human_seconds(control->wall_s, theirs));
    if (r->exit_code != control->exit_code)
        twin_verdict_note(c->series.v, "control: the unobserved run ended with %d, run 1 with %d%s",
                          control->exit_code, r->exit_code, cost);
    else if (!output && files == 0)
        twin_verdict_note(c->series.v,
                          "control: the unobserved run printed and wrote the same bytes as run 1%s",
                          cost);
    else if (c->series.v->outcome == TWIN_DIFFER)
        twin_verdict_note(c->series.v,
                          "control: the unobserved run printed or wrote other bytes than run 1, as "
                          "is to be expected of runs that differ%s",
                          cost);
    else if (files)
        twin_verdict_note(c->series.v,
                          "control: the unobserved run wrote %zu file%s with other bytes than run "
                          "1, such as %s%s",
                          files, tw_plural_s(files), file, cost);
    else
        twin_verdict_note(c->series.v,
                          "control: the unobserved run printed other bytes than run 1 (times and "
                          "pids count here)%s",
                          cost);
}

void tw_check_control(struct tw_check *c)
{
    if (!c->args.control || !c->series.v || c->series.interrupted || c->series.out_of_time)
        return;
    struct twin_launch_options o = tw_check_launch_options(c, 0, "control");
    struct twin_run *control = NULL;
    char text[32];
    o.agents = false;
    o.max_steps = 0; /* nobody counts its steps */
    if (c->args.steps) {
        twin_verdict_note(c->series.v,
                          "control: left out, since --steps cannot end a run that nobody watches");
        return;
    }
    if (tw_check_launch(c, &o, "control", false, &control) != 0)
        return;
    if (!c->args.quiet)
        tw_trial_line(c->series.front, "control", control, tw_run_state(control, text));
    if (!c->series.interrupted && !c->series.out_of_time)
        judge_control(c, control);
    twin_run_free(control);
}

/* A file that each run finds as the one before left it is an input that is not the same for all. */
void tw_check_shared_files(struct tw_check *c)
{
    size_t n = 0;
    const char *one = NULL;
    if (!c->series.v || c->series.count < 2 || c->args.fresh_dir)
        return;
    /* Run 2 tells which files it found and wrote again; run 1 found none of its own. */
    for (size_t i = 0; i < c->series.runs[1]->file_count; i++) {
        const struct twin_run_file *f = &c->series.runs[1]->files[i];
        if (f->existed_before && file_of(c->series.runs[0], f->path)) {
            one = one ? one : f->path;
            n++;
        }
    }
    c->shares_files = n > 0;
    if (c->series.v->outcome == TWIN_SAME) /* what was read there, if anything, changed nothing */
        return;
    if (one && n == 1)
        twin_verdict_note(c->series.v,
                          "every run wrote %s: a later one may have read what an earlier one left; "
                          "--fresh-dir keeps them apart",
                          one);
    else if (one)
        twin_verdict_note(c->series.v,
                          "every run wrote %s and %zu more file%s: a later one may have read what "
                          "an earlier one left; --fresh-dir keeps them apart",
                          one, n - 1, n == 2 ? "" : "s");
}

/* An engine may put the ranks of each run on other nodes: run 1 says nothing of the others. ranks:
 * what is said of run 1; NULL: nothing. */
static void tell_ranks_of_others(struct tw_check *c, const char *ranks)
{
    char *first = NULL;
    size_t at = 0, n = 0;
    for (size_t i = 1; i < c->series.count; i++) {
        char *one = twin_provenance_parity_summary(c->series.runs[i]);
        bool told = one && ranks && strcmp(one, ranks) == 0;
        if (one && !told && n++ == 0) {
            first = one;
            at = i + 1;
            continue;
        }
        tw_free(one);
    }
    if (n > 1)
        twin_verdict_note(c->series.v, "of run %zu and of %zu more, %s", at, n - 1, first);
    else if (n)
        twin_verdict_note(c->series.v, "of run %zu, %s", at, first);
    tw_free(first);
}

/* The comparison says it by itself, with both numbers (src/compare/thread_counts.c). */
static bool says_threads(const struct twin_verdict *v)
{
    for (size_t i = 0; i < v->note_count; i++)
        if (tw_starts(v->notes[i], "threads of PyTorch"))
            return true;
    return false;
}

/* Differences of the world are told only where the runs differ: then they may be why. */
void tw_check_look_around(struct tw_check *c)
{
    const struct twin_run *const *runs = (const struct twin_run *const *)c->series.runs;
    char *between = NULL, *ranks = NULL;
    tw_remote_note(&c->remote, runs, c->series.count, c->series.v);
    if (c->series.v->outcome == TWIN_DIFFER)
        between = twin_provenance_summary(runs, c->series.count, says_threads(c->series.v));
    if (c->series.count)
        ranks = twin_provenance_parity_summary(c->series.runs[0]);
    if (between)
        twin_verdict_note(c->series.v, "%s", between);
    if (ranks)
        twin_verdict_note(c->series.v, "%s", ranks);
    if (tw_remote_is_on(&c->remote))
        tell_ranks_of_others(c, ranks);
    tw_free(between);
    tw_free(ranks);
}

bool tw_check_can_isolate(const struct tw_check *c)
{
    if (c->series.interrupted || c->shares_files || c->numbers.count)
        return false;
    if (c->arms)
        return c->arm_unsteady || (c->arm_repeats && c->series.v->shift == 0);
    return !c->args.against || c->gate_unsteady;
}
