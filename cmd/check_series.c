/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a check, one after the other, each compared with the first as soon as it has ended. */
#include "check.h"

#include "interrupt.h"
#include "runs.h"
#include "say.h"
#include "terminal.h"
#include "verdict.h"

#include "base.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <twin/trace.h>

#define LARGE_BYTES ((uint64_t)1 << 30) /* below that nobody wants to hear of disk space */
enum { LONG_S = 1800 };

/* A tolerance judges every step that differs, and what it judges by is a sketch. */
static uint32_t sketch_every(const struct tw_check_args *a)
{
    if (a->sketch_every == 0 && a->tolerance)
        return 1;
    return (uint32_t)a->sketch_every;
}

/* A resumed job counts its steps anew, and does not know which part of a large tensor comes next. */
static char all_parts[] = "TWINRUN_PARTS=all";
static char *const second_arm[] = {all_parts, NULL};

struct twin_launch_options tw_check_launch_options(const struct tw_check *c, int arm, const char *label)
{
    const struct tw_check_args *a = &c->args;
    return (struct twin_launch_options){
        .argv = c->arm[arm],
        .home = c->home,
        .label = label,
        .level = c->level,
        .agents = true,
        .max_steps = (uint32_t)a->steps,
        .window_last = UINT32_MAX,
        .sketch_every = sketch_every(a),
        .lossless = a->lossless,
        .no_telemetry = a->no_telemetry,
        .show_output = a->show_output,
        .fresh_dir = a->fresh_dir,
        .copy_of = arm && c->half ? c->half->cwd : NULL,
        .env = arm ? second_arm : NULL,
        .stdin_spool = c->spool,
        .data = c->data.item,
        .data_count = c->data.count,
    };
}

int tw_check_launch(struct tw_check *c, const struct twin_launch_options *o, const char *title, bool live,
                    struct twin_run **out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_run_totals t;
    c->trial = (struct tw_trial){.front = &tw_terminal, .title = title, .deadline_ns = c->deadline_ns};
    if (c->count) {
        tw_run_totals(c->runs[0], &t);
        c->trial.expected_s = c->runs[0]->wall_s;
        c->trial.expected_steps = t.steps;
        /* Where a resumed arm begins is not known before its weights were looked at. */
        if (live && (!c->arms || c->args.b_starts_at != TW_NOT_GIVEN))
            c->trial.reference = c->runs[0];
        if (c->arms && live && c->args.b_starts_at != TW_NOT_GIVEN)
            c->trial.how.shift = -(int64_t)c->args.b_starts_at;
        c->trial.how.ignore = c->args.ignore.items;
        c->trial.how.ignore_count = c->args.ignore.count;
    }
    int rc = tw_trial_make(&c->trial, o, &err);
    *out = c->trial.run;
    c->interrupted |= rc == TWIN_EINTR || c->trial.end == TW_TRIAL_INTERRUPTED;
    if (rc != 0)
        return rc == TWIN_EINTR ? TW_EXIT_INTERRUPTED : tw_trouble(&err, "check: cannot run the job");
    c->out_of_time |= c->trial.end == TW_TRIAL_OUT_OF_TIME;
    return -1;
}

struct twin_compare_options tw_check_how(const struct tw_check *c)
{
    const struct tw_check_args *a = &c->args;
    return (struct twin_compare_options){
        .steps_given = a->steps > 0,
        .steps = (uint32_t)a->steps,
        .arms = c->arms,
        .shift = a->b_starts_at != TW_NOT_GIVEN ? -(int64_t)a->b_starts_at : 0,
        .find_shift = c->arms && a->b_starts_at == TW_NOT_GIVEN,
        .resumed = a->resume_with != NULL,
        .ignore = a->ignore.items,
        .ignore_count = a->ignore.count,
        .tolerance_file = a->tolerance,
    };
}

int tw_check_compare(struct tw_check *c)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_compare_options o = tw_check_how(c);
    struct twin_verdict *v = NULL;
    if (twin_compare((const struct twin_run *const *)c->runs, c->count, &o, &v, &err) != 0)
        return tw_trouble(&err, "check: cannot compare the runs");
    twin_verdict_free(c->v);
    c->v = v;
    c->interrupted |= tw_interrupted();
    return -1;
}

/* ---- what is said before anything large happens */

static int announce_size(const struct tw_check *c)
{
    struct statvfs fs;
    struct tw_run_totals t;
    char each[16], all[16], left[16], time[24];
    const struct twin_run *r = c->runs[0];
    uint64_t more = c->args.runs - 1;
    tw_run_totals(r, &t);
    uint64_t bytes = t.bytes + r->stdout_bytes + r->stderr_bytes;
    uint64_t free_bytes = statvfs(c->home, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
    if (bytes * more > free_bytes) {
        tw_say("check: expected %s free in %s for %llu more runs, found %s; try --home on a larger disk, fewer --runs, "
               "--steps, or --level steps",
               tw_human_bytes(bytes * more, all), c->home, (unsigned long long)more, tw_human_bytes(free_bytes, left));
        return TW_EXIT_TROUBLE;
    }
    if (c->args.quiet)
        return -1;
    if (bytes * more > LARGE_BYTES)
        tw_say("each run keeps about %s; %llu more: up to %s of the %s free in %s", tw_human_bytes(bytes, each),
               (unsigned long long)more, tw_human_bytes(bytes * more, all), tw_human_bytes(free_bytes, left), c->home);
    if (r->wall_s * (double)more > LONG_S)
        tw_say("%llu more run%s: up to %s, less when they part early; --steps N makes runs shorter",
               (unsigned long long)more, more == 1 ? "" : "s", tw_human_seconds(r->wall_s * (double)more, time));
    return -1;
}

/* ---- the series */

int tw_check_keep(struct tw_check *c, struct twin_run *r)
{
    struct twin_run **grown = tw_reallocarray(c->runs, c->count + 1, sizeof *grown);
    if (!grown) {
        twin_run_free(r);
        return tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "check: cannot keep a run");
    }
    grown[c->count++] = r;
    c->runs = grown;
    return -1;
}

/* Is run i in another class than the reference? Classes count whatever --all went on to make. */
static bool parted_from_first(const struct twin_verdict *v, size_t i)
{
    for (size_t k = 0; v && k < v->class_count; k++) {
        bool has_first = false, has_it = false;
        for (size_t m = 0; m < v->classes[k].members; m++) {
            has_first |= v->classes[k].runs[m] == 0;
            has_it |= v->classes[k].runs[m] == i;
        }
        if (has_first)
            return !has_it;
    }
    return false;
}

static const char *state_of(const struct tw_check *c, const struct twin_run *r, bool parted, char text[32])
{
    if (parted)
        return "parted";
    if (r->outcome == TWIN_RUN_STOPPED && c->trial.end != TW_TRIAL_OUT_OF_TIME)
        return "ok"; /* --steps: it ended where it was told to */
    return tw_run_state(r, text);
}

static int one_run(struct tw_check *c, bool *parted)
{
    char title[48], text[32];
    size_t i = c->count;
    int arm = c->arms && i > 0;
    struct twin_run *r = NULL;
    snprintf(title, sizeof title, "run %zu/%llu%s", i + 1, (unsigned long long)c->args.runs,
             !c->arms ? ""
             : arm    ? " b"
                      : " a");
    struct twin_launch_options o = tw_check_launch_options(c, arm, c->arms ? (arm ? "b" : "a") : "check");
    int rc = tw_check_launch(c, &o, title, true, &r);
    if (rc >= 0)
        return rc;
    if (c->trial.end == TW_TRIAL_NOT_STARTED && i == 0) {
        tw_say("check: %s", r->message);
        twin_run_free(r);
        return TW_EXIT_TROUBLE;
    }
    rc = tw_check_keep(c, r);
    if (rc < 0 && c->count > 1)
        rc = tw_check_compare(c);
    if (rc >= 0)
        return rc;
    *parted = c->count > 1 && parted_from_first(c->v, i);
    if (!c->args.quiet)
        tw_trial_line(&tw_terminal, title, r, state_of(c, r, *parted, text));
    return -1;
}

static void forget(struct tw_check *c)
{
    for (size_t i = 0; i < c->count; i++)
        twin_run_free(c->runs[i]);
    c->count = 0;
    twin_verdict_free(c->v);
    c->v = NULL;
    twin_run_free(c->half);
    c->half = NULL;
}

int tw_check_series(struct tw_check *c)
{
    forget(c);
    while (c->count < c->args.runs && !c->interrupted && !c->out_of_time) {
        bool parted = false;
        int rc = one_run(c, &parted);
        if (rc >= 0 && c->interrupted && c->count)
            break;
        if (rc >= 0 && c->v) { /* what was compared before is not lost */
            c->trouble = rc;
            break;
        }
        if (rc >= 0)
            return rc;
        if (c->count == 1 && !c->interrupted && !c->out_of_time) {
            if (c->level == TWIN_LEVEL_TENSORS && c->args.level != TWIN_LEVEL_TENSORS && !tw_run_failed(c->runs[0]) &&
                tw_run_shows_no_input(c->runs[0]))
                return TW_CHECK_UNSEEN;
            if ((rc = announce_size(c)) >= 0)
                return rc;
            if (c->args.resume_with && (rc = tw_check_half(c, &parted)) >= 0)
                return rc;
            if (c->args.resume_with && parted)
                break;
        }
        bool hopeless = c->count == 2 && tw_run_failed(c->runs[0]) && tw_run_failed(c->runs[1]);
        if ((parted && c->v->outcome == TWIN_DIFFER && !c->args.all) || hopeless)
            break;
    }
    return c->v ? -1 : tw_check_compare(c);
}
