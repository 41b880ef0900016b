/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check --save-baseline and check --against: what a job is expected to compute, in a file that goes
 * into the repository. A gate makes runs, holds each against the file, and gives the worst verdict.
 */
#include "check.h"

#include "run_state.h"
#include "world.h"

#include "base.h"

#include "src/compare/baseline.h"
#include "src/launch/redact.h"

#include <stdio.h>
#include <string.h>

/* ---- writing */

/* A tw_world_fn: user is the baseline. */
static int add_world(void *user, const char *name, const char *value, struct twin_error *err)
{
    return twin_baseline_add_world(user, name, value, err);
}

/* Of the first `runs` runs of the series. */
static int write_baseline(struct tw_check *c, size_t runs, struct twin_error *err)
{
    const struct tw_check_asked *a = &c->args;
    struct twin_compare_options o = {.ignore = a->ignore.items, .ignore_count = a->ignore.count};
    struct twin_baseline *b = NULL;
    char *text = NULL, size[16], steps[32], records[32];
    /*
     * The file goes into a repository: its command is the one that run.json keeps, without secrets.
     */
    struct twin_redactor *safe = NULL;
    struct twin_run first = *c->series.runs[0], *whole = c->series.runs[0];
    int rc = twin_redactor_open(c->series.home, &safe, err);
    first.argv = rc == 0 ? twin_redact_argv(safe, whole->argv, whole->argc) : NULL;
    if (rc == 0 && !first.argv)
        rc = tw_no_memory(err, "making a baseline");
    c->series.runs[0] = &first;
    if (rc == 0)
        rc = twin_baseline_make((const struct twin_run *const *)c->series.runs, runs, &o,
                                c->version, &b, err);
    c->series.runs[0] = whole;
    twin_redact_free(first.argv);
    twin_redactor_close(safe);
    if (rc == 0)
        rc = tw_world_of(c->series.runs[0], add_world, b, err);
    if (rc == 0)
        rc = twin_baseline_write(b, &text, err);
    if (rc == 0)
        rc = tw_write_file_atomic(a->save_baseline, text, strlen(text), err);
    if (rc == 0) {
        struct twin_baseline_info i = twin_baseline_info(b);
        tw_front_say(c->series.front, "baseline in %s: %s steps, %s records of %zu process%s, %s%s",
                     a->save_baseline, tw_human_count(i.steps, steps),
                     tw_human_count(i.records, records), i.processes, i.processes == 1 ? "" : "es",
                     tw_human_bytes(strlen(text), size),
                     i.left_out ? "; what does not repeat and does not matter is left out" : "");
    }
    tw_free(text);
    twin_baseline_free(b);
    return rc;
}

const char *tw_check_no_baseline_because(const struct tw_series *s)
{
    if (s->interrupted)
        return "the check was interrupted";
    if (s->count < 2)
        return "there are no two runs to agree";
    if (s->v->outcome == TWIN_DIFFER)
        return "the job does not repeat itself, so there is nothing to expect; within "
               "a --tolerance it may";
    return s->v->outcome == TWIN_FAILED ? "the job failed" : NULL;
}

void tw_check_save_baseline(struct tw_check *c)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (!c->args.save_baseline || !c->series.v)
        return;
    const char *why = tw_check_no_baseline_because(&c->series);
    if (why) {
        tw_front_say(c->series.front, "no baseline was written: %s", why);
    } else if (write_baseline(c,
                              c->series.v->outcome == TWIN_WITHIN_TOLERANCE ? 1 : c->series.count,
                              &err) != 0) {
        c->trouble = tw_front_trouble(c->series.front, &err, "check: no baseline was written");
    }
}

/* ---- the gate */

/* The baseline says at which level and how many steps its runs were made; what the user asks for
 * may be less than that, and never more. */
int tw_check_gate_as_then(struct tw_check *c, struct twin_error *err)
{
    struct twin_baseline_info i = twin_baseline_info(c->baseline);
    struct tw_check_asked *a = &c->args;
    if (a->level != TW_CHECK_LEVEL_NOT_GIVEN && a->level != i.level)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s was made at level %s: expected no --level, or that one",
                              a->against, twin_level_name(i.level));
    c->level = i.level;
    if (!a->steps)
        a->steps = i.max_steps;
    else if (i.max_steps && a->steps > i.max_steps)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s was made with --steps %u: expected no more than that, found %llu",
                              a->against, i.max_steps, (unsigned long long)a->steps);
    return 0;
}

/* What compare_name collects: where the world of a run is another than that of a baseline. */
struct world_diff {
    struct twin_baseline *b;
    struct twin_against *a;
    size_t known;
};

/* What the baseline says of that name; "" where it says nothing. malloc'ed. */
static char *value_then(const struct twin_baseline *b, const char *name)
{
    const char *n = NULL, *v = NULL;
    size_t count = twin_baseline_world(b, SIZE_MAX, &n, &v);
    for (size_t i = 0; i < count; i++) {
        twin_baseline_world(b, i, &n, &v);
        if (strcmp(n, name) == 0)
            return tw_strdup(v);
    }
    return tw_strdup("");
}

/* Takes `then` (NULL: no memory), also after an error. */
static int add_change(struct twin_against *a, const char *name, char *then, const char *now,
                      struct twin_error *err)
{
    struct twin_world_change *grown = tw_reallocarray(a->world, a->world_count + 1, sizeof *grown);
    if (grown)
        a->world = grown;
    struct twin_world_change w = {tw_strdup(name), then, tw_strdup(now)};
    if (grown && w.name && w.then && w.now) {
        a->world[a->world_count++] = w;
        return 0;
    }
    tw_free(w.name);
    tw_free(w.then);
    tw_free(w.now);
    return tw_no_memory(err, "comparing worlds");
}

/* A tw_world_fn: user is a struct world_diff. */
static int compare_name(void *user, const char *name, const char *now, struct twin_error *err)
{
    struct world_diff *d = user;
    char *then = value_then(d->b, name);
    d->known++;
    if (then && strcmp(then, now) == 0) {
        tw_free(then);
        return 0;
    }
    return add_change(d->a, name, then, now, err);
}

/* Is this name among those of a world? */
struct find {
    const char *name;
    bool found;
};

/* A tw_world_fn: user is a struct find. */
static int find_name(void *user, const char *name, const char *value, struct twin_error *err)
{
    struct find *f = user;
    (void)value;
    (void)err;
    f->found |= strcmp(name, f->name) == 0;
    return 0;
}

/* Collects in v->against what is another in the world of r, or was there and is no more. */
static int compare_worlds(struct tw_check *c, const struct twin_run *r, struct twin_verdict *v,
                          struct twin_error *err)
{
    struct world_diff d = {c->baseline, v->against, 0};
    const char *name, *then;
    size_t count = twin_baseline_world(c->baseline, SIZE_MAX, &name, &then);
    int rc = tw_world_of(r, compare_name, &d, err);
    for (size_t i = 0; rc == 0 && i < count; i++) { /* what there was and is no more */
        twin_baseline_world(c->baseline, i, &name, &then);
        struct find f = {name, false};
        rc = tw_world_of(r, find_name, &f, err);
        if (rc == 0 && !f.found)
            rc = add_change(v->against, name, tw_strdup(then), "", err);
    }
    v->against->world_known = count > 0 && d.known > 0;
    return rc;
}

/* *out: the verdict on one run, with what is another in its world. */
static int judge_run(struct tw_check *c, const struct twin_run *r, struct twin_verdict **out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_compare_options o = {.steps_given = c->args.steps > 0,
                                     .steps = (uint32_t)c->args.steps,
                                     .tolerance_file = c->args.tolerance,
                                     .number = c->series.count - 1};
    if (twin_baseline_judge(c->baseline, r, &o, out, &err) != 0)
        return tw_front_trouble(c->series.front, &err, "check: cannot compare the run with %s",
                                c->args.against);
    (*out)->against->path = tw_strdup(c->args.against);
    (*out)->against->signer = c->signer ? tw_strdup(c->signer) : NULL;
    if (compare_worlds(c, r, *out, &err) != 0)
        return tw_front_trouble(c->series.front, &err,
                                "check: cannot compare the world of the run with that of %s",
                                c->args.against);
    return 0;
}

/* Does the job still repeat itself? Then it computes something else on purpose or by its world; if
 * not, that comes first. */
static void repeat_job(struct tw_check *c)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_launch_options o = tw_check_launch_options(c, 0, "gate");
    struct twin_run *again = NULL;
    struct twin_verdict *v = NULL;
    char text[32];
    if (tw_check_launch(c, &o, "run again", false, &again) != 0)
        return;
    if (c->series.interrupted || c->series.out_of_time) {
        twin_verdict_note(
            c->series.v,
            "whether the job repeats itself was not found out: its second run was cut short");
        twin_run_free(again);
        return;
    }
    if (tw_check_keep(c, again) != 0)
        return;
    const struct twin_run *pair[2] = {c->series.runs[0], again};
    /* what the baseline leaves out */
    struct twin_baseline_info left_out = twin_baseline_info(c->baseline);
    struct twin_compare_options how = {.steps_given = c->args.steps > 0,
                                       .steps = (uint32_t)c->args.steps,
                                       .ignore = (const char *const *)left_out.ignore,
                                       .ignore_count = left_out.ignore_count};
    if (twin_compare(pair, 2, &how, &v, &err) != 0) {
        tw_front_trouble(c->series.front, &err, "check: cannot compare the run with itself");
        return;
    }
    if (!c->args.quiet)
        tw_trial_line(c->series.front, "run again", again,
                      v->outcome == TWIN_DIFFER ? "diverged" : tw_run_state(again, text));
    c->gate_unsteady = v->outcome == TWIN_DIFFER;
    if (c->gate_unsteady)
        twin_verdict_note(
            c->series.v,
            "the job does not repeat itself: a second run diverges from the first%s; first make it "
            "repeatable",
            v->first && v->first->step_a == c->series.v->first->step_a ? " at the same step" : "");
    else if (v->outcome == TWIN_SAME)
        twin_verdict_note(
            c->series.v,
            "the job repeats itself (2 runs agree): it computes something else than the baseline");
    twin_verdict_free(v);
}

/* Which verdict of several runs is the worst: a higher number is worse. */
int tw_check_gate_rank(enum twin_verdict_outcome outcome)
{
    switch (outcome) {
    case TWIN_FAILED: return 4;
    case TWIN_DIFFER: return 3;
    case TWIN_INCONCLUSIVE: return 2;
    case TWIN_WITHIN_TOLERANCE: return 1;
    case TWIN_SAME: break;
    }
    return 0;
}

/* One run, held against the baseline; the worst verdict stays. */
static int gate_run(struct tw_check *c, uint64_t runs)
{
    char title[48], text[32];
    struct twin_launch_options o = tw_check_launch_options(c, 0, "gate");
    struct twin_run *r = NULL;
    struct twin_verdict *v = NULL;
    snprintf(title, sizeof title, "run %zu/%llu", c->series.count + 1, (unsigned long long)runs);
    int rc = tw_check_launch(c, &o, title, false, &r);
    if (rc != 0)
        return rc;
    if (r->outcome == TWIN_RUN_NOT_STARTED) {
        tw_front_say(c->series.front, "check: %s", r->message);
        twin_run_free(r);
        return TWIN_EINVAL;
    }
    if ((rc = tw_check_keep(c, r)) != 0 || (rc = judge_run(c, r, &v)) != 0)
        return rc;
    if (!c->args.quiet)
        tw_trial_line(c->series.front, title, r,
                      tw_check_state(c, r, v->outcome == TWIN_DIFFER, text));
    if (c->series.v && tw_check_gate_rank(v->outcome) <= tw_check_gate_rank(c->series.v->outcome)) {
        c->series.v->runs = c->series.count;
        twin_verdict_free(v);
        return 0;
    }
    if (c->series.v && v->first && c->series.count > 1)
        twin_verdict_note(v, "run %zu is the one that differs", c->series.count);
    twin_verdict_free(c->series.v);
    c->series.v = v;
    v->runs = c->series.count;
    v->comparisons = c->series.count;
    return 0;
}

int tw_check_gate(struct tw_check *c)
{
    uint64_t runs = c->args.runs;
    int rc = 0;
    while (rc == 0 && c->series.count < runs && !c->series.interrupted && !c->series.out_of_time) {
        rc = gate_run(c, runs);
        if (c->series.v && c->series.v->outcome == TWIN_DIFFER && !c->args.all)
            break;
    }
    if (rc == 0 && !c->runs_given && c->series.v->outcome == TWIN_DIFFER &&
        !c->series.interrupted && !c->series.out_of_time && !tw_run_failed(c->series.runs[0]))
        repeat_job(c);
    return rc;
}
