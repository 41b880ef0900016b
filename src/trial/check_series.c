/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs of a check, one after the other, each compared with the first as soon as it has ended.
 * The first divergence ends them, unless all were asked for.
 */
#include "check.h"

#include "base.h"
#include "run_state.h"

#include "src/trace/trace.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* of one_series: no hook saw what goes in; not a TWIN_E* */
enum { UNSEEN = 1000 };

/* A tolerance judges every step that differs, and what it judges by is a sketch. */
static uint32_t sketch_every(const struct tw_check_asked *a)
{
    if (a->sketch_every == 0 && a->tolerance)
        return 1;
    return (uint32_t)a->sketch_every;
}

/*
 * A resumed job counts its steps anew, and does not know which part of a large tensor comes next.
 */
static char all_parts[] = "TWINRUN_PARTS=all";
static char *const second_arm[] = {all_parts, NULL};

struct twin_launch_options tw_check_launch_options(const struct tw_check *c, int arm,
                                                   const char *label)
{
    const struct tw_check_asked *a = &c->args;
    return (struct twin_launch_options){
        .argv = c->arm[arm],
        .home = c->series.home,
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

int tw_check_launch(struct tw_check *c, const struct twin_launch_options *o, const char *title,
                    bool live, struct twin_run **out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct tw_check_asked *a = &c->args;
    struct twin_compare_options how = {.ignore = a->ignore.items, .ignore_count = a->ignore.count};
    if (c->arms && a->b_starts_at != TW_NOT_GIVEN)
        how.shift = -(int64_t)a->b_starts_at;
    /* Where a resumed arm begins is not known before its weights were looked at. */
    bool comparable = live && (!c->arms || a->b_starts_at != TW_NOT_GIVEN);
    int rc = tw_series_run(&c->series, o, title, comparable ? &how : NULL, out, &err);
    if (rc == 0 || rc == TWIN_EINTR)
        return rc;
    return tw_front_trouble(c->series.front, &err, "check: cannot run the job");
}

struct twin_compare_options tw_check_how(const struct tw_check *c)
{
    const struct tw_check_asked *a = &c->args;
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
    if (tw_series_compare(&c->series, &o, &err) != 0)
        return tw_front_trouble(c->series.front, &err, "check: cannot compare the runs");
    return 0;
}

/* ---- the series */

int tw_check_keep(struct tw_check *c, struct twin_run *r)
{
    if (tw_series_keep(&c->series, r, NULL) != 0)
        return tw_front_trouble(c->series.front, &(struct twin_error){.code = TWIN_ENOMEM},
                                "check: cannot keep a run");
    return 0;
}

const char *tw_check_state(const struct tw_check *c, const struct twin_run *r, bool diverged,
                           char text[32])
{
    if (diverged)
        return "diverged";
    if (r->outcome == TWIN_RUN_STOPPED && c->series.trial.end != TW_TRIAL_OUT_OF_TIME)
        return "ok"; /* --steps: it ended where it was told to */
    return tw_run_state(r, text);
}

/* The letter of the run's arm, behind its number; nothing where there are no arms. */
static const char *arm_letter(const struct tw_check *c, int arm)
{
    if (!c->arms)
        return "";
    return arm ? " b" : " a";
}

/* What the run is called among those of its command. */
static const char *run_label(const struct tw_check *c, int arm)
{
    if (!c->arms)
        return "check";
    return arm ? "b" : "a";
}

/* The next run of the series, compared with the first. *diverged: it is in another class. */
static int one_run(struct tw_check *c, bool *diverged)
{
    char title[48], text[32];
    size_t i = c->series.count;
    int arm = c->arms && i > 0;
    struct twin_run *r = NULL;
    snprintf(title, sizeof title, "run %zu/%llu%s", i + 1, (unsigned long long)c->args.runs,
             arm_letter(c, arm));
    struct twin_launch_options o = tw_check_launch_options(c, arm, run_label(c, arm));
    int rc = tw_check_launch(c, &o, title, true, &r);
    if (rc != 0)
        return rc;
    if (c->series.trial.end == TW_TRIAL_NOT_STARTED && i == 0) {
        tw_front_say(c->series.front, "check: %s", r->message);
        twin_run_free(r);
        return TWIN_EINVAL;
    }
    rc = tw_check_keep(c, r);
    if (rc == 0 && c->series.count > 1)
        rc = tw_check_compare(c);
    if (rc != 0)
        return rc;
    *diverged = c->series.count > 1 && tw_series_diverged(&c->series, i);
    if (!c->args.quiet)
        tw_trial_line(c->series.front, title, r, tw_check_state(c, r, *diverged, text));
    return 0;
}

/* The whole series at c->level. UNSEEN: run 1 shows that another level is needed, and the level was
 * left to us. */
static int one_series(struct tw_check *c)
{
    tw_series_clear(&c->series);
    twin_run_free(c->half);
    c->half = NULL;
    while (c->series.count < c->args.runs && !c->series.interrupted && !c->series.out_of_time) {
        bool diverged = false;
        int rc = one_run(c, &diverged);
        if (rc != 0 && c->series.interrupted && c->series.count)
            break;
        if (rc != 0 && c->series.v) { /* what was compared before is not lost */
            c->trouble = rc;
            break;
        }
        if (rc != 0)
            return rc;
        if (c->series.count == 1 && !c->series.interrupted && !c->series.out_of_time) {
            bool left_to_us = c->args.level != TWIN_LEVEL_TENSORS;
            if (left_to_us && tw_run_level_that_sees(c->series.runs[0]) != c->level)
                return UNSEEN;
            if (!tw_series_has_room(&c->series, c->args.runs - 1, c->args.quiet))
                return TWIN_EINVAL;
            if (c->args.resume_with && (rc = tw_check_half(c, &diverged)) != 0)
                return rc;
            if (c->args.resume_with && diverged)
                break;
        }
        bool hopeless = c->series.count == 2 && tw_run_failed(c->series.runs[0]) &&
                        tw_run_failed(c->series.runs[1]);
        if ((diverged && c->series.v->outcome == TWIN_DIFFER && !c->args.all) || hopeless)
            break;
    }
    return c->series.v ? 0 : tw_check_compare(c);
}

int tw_check_series(struct tw_check *c)
{
    int rc = one_series(c);
    if (rc != UNSEEN)
        return rc;
    /* Bare tensors show at operation level only. */
    c->level = TWIN_LEVEL_OPS;
    tw_front_say(c->series.front,
                 "no hook saw a batch or an input (bare tensors?); starting again at operation "
                 "level, which sees every operation (slower)");
    rc = one_series(c);
    if (rc == 0 && c->series.v)
        twin_verdict_note(c->series.v, "recorded at operation level, since no hook of the usual "
                                       "level saw a batch or an input");
    return rc;
}

void tw_check_fini(struct tw_check *c)
{
    twin_baseline_free(c->baseline);
    twin_run_free(c->half);
    if (c->spool)
        unlink(c->spool);
    tw_free(c->spool);
    tw_free(c->signer);
    tw_series_free(&c->series);
}
