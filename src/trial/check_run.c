/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a check, in whatever part of it: with which options it is launched, how it is compared
 * with the others, how its end is told. The series (check_series.c), the half run of --resume-with
 * (check_resume.c) and what follows the runs (check_extra.c) are made of these.
 */
#include "check.h"

#include "base.h"
#include "run_state.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

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

struct twin_launch_options tw_check_launch_options(struct tw_check *c, int arm, const char *label)
{
    const bool ranks = c->numbers.count > 0;
    assert(ranks ? (size_t)arm < c->numbers.count : arm == 0 || arm == 1);
    const struct tw_check_asked *a = &c->args;
    struct twin_launch_options o = {
        .argv = ranks ? c->numbers.argv[arm] : c->arm[arm],
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
        .env = arm && !ranks ? second_arm : NULL,
        .stdin_spool = c->spool,
        .on = &c->remote,
        .data = c->data.item,
        .data_count = c->data.count,
    };
    if (c->dress)
        c->dress(c->dress_user, &o);
    return o;
}

/* How a run is compared with the first while it goes on. False: it cannot be. */
static bool live_compare(const struct tw_check *c, struct twin_compare_options *how)
{
    const struct tw_check_asked *a = &c->args;
    *how = (struct twin_compare_options){.ignore = a->ignore.items,
                                         .ignore_count = a->ignore.count};
    if (c->arms && a->b_starts_at != TW_NOT_GIVEN)
        how->shift = -(int64_t)a->b_starts_at;
    /* Where a resumed arm begins is not known before its weights were looked at. */
    return !c->arms || c->numbers.count > 0 || a->b_starts_at != TW_NOT_GIVEN;
}

int tw_check_ahead(struct tw_check *c, const struct twin_launch_options *o, size_t n, bool live)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_compare_options how;
    bool comparable = live_compare(c, &how) && live;
    int rc = tw_series_ahead(&c->series, o, comparable ? &how : NULL, n, &err);
    if (rc == 0 || rc == TWIN_EINTR)
        return rc;
    return tw_front_trouble(c->series.front, &err, "check: cannot give the runs to the engine");
}

int tw_check_launch(struct tw_check *c, const struct twin_launch_options *o, const char *title,
                    bool live, struct twin_run **out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_compare_options how;
    bool comparable = live_compare(c, &how) && live;
    int rc = tw_series_run(&c->series, o, title, comparable ? &how : NULL, out, &err);
    if (rc == 0 && c->series.trial.end == TW_TRIAL_NO_PARITY) { /* the front was told why */
        twin_run_free(*out);
        *out = NULL;
        return TWIN_EINVAL;
    }
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
        .find_shift = c->arms && !c->numbers.count && a->b_starts_at == TW_NOT_GIVEN,
        .ranks = c->numbers.of_run,
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

/* Adds a run to the series, which owns it from then on. */
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

void tw_check_fini(struct tw_check *c)
{
    twin_baseline_free(c->baseline);
    twin_run_free(c->half);
    if (c->spool)
        unlink(c->spool);
    tw_free(c->spool);
    tw_free(c->signer);
    tw_check_ranks_free(&c->numbers);
    tw_series_free(&c->series);
    tw_remote_close(&c->remote);
}
