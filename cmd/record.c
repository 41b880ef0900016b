/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun record: one watched run, as transparent as can be.
 *
 * The job's output, input and exit code are its own. Trouble of ours before the start makes the job
 * run unwatched; trouble after it changes no exit code. run (run.c) shares all of this.
 */
#include "record.h"
#include "rollout_run.h"
#include "runs.h"
#include "say.h"
#include "terminal.h"

#include "base.h"
#include "page_file.h"
#include "show_run.h"

#include "src/compare/compare.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The options: nothing but what run shares. */
struct record_options {
    struct tw_record_args record;
};

static const struct tw_option options[] = {
    TW_RECORD_OPTIONS(record_options, record),
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "do not name the run folder at the end",
     offsetof(struct record_options, record.quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options] -- COMMAND [ARG...]", NULL};
static const struct tw_pair exits[] = {
    {"N", "the job's own exit code, or 128 + the number of the signal that killed it"},
    {"126", "the command was found but could not be executed"},
    {"127", "the command was not found"},
    {"2",
     "bad use of twinrun, or data that are not what --data says; the job was not started. With "
     "--require-parity: ranks that differ or were not seen; the job was ended"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun record -- python train.py", "record one run; its folder is named on stderr"},
    {"twinrun record --json run.json -- python train.py", "and what came of it, for a program"},
    {"twinrun diff last~1 last", "compare the last two runs"},
    {NULL, NULL},
};

/* Our trouble must not become the job's: it runs all the same, unwatched. Only before the job was
 * ever started. */
static int run_unwatched(char **argv, const char *how, const struct twin_error *err)
{
    tw_trouble(err, "cannot record, so the job runs %s", how);
    execvp(argv[0], argv);
    int code = errno == ENOENT ? 127 : 126;
    tw_say("cannot execute %s: %s", argv[0], strerror(errno));
    return code;
}

/* Everything passes through: what the job prints goes where it would have gone. */
struct twin_launch_options tw_record_launch(const struct tw_record_args *a, char **argv,
                                            struct tw_transparent *t)
{
    t->code = -1;
    t->trial.require_parity = a->require_parity;
    if (a->require_parity || !a->quiet)
        t->trial.parity_front = &tw_terminal;
    return (struct twin_launch_options){
        .argv = argv,
        .home = a->home,
        .label = a->label,
        .level = a->level,
        .agents = true,
        .max_steps = (uint32_t)a->steps,
        .window_first = a->window.given ? a->window.first : 0,
        .window_last = a->window.given ? a->window.last : UINT32_MAX,
        .sketch_every = (uint32_t)a->sketch_every,
        .lossless = a->lossless,
        .no_telemetry = a->no_telemetry,
        .show_output = true,
        .native_output = true,
        .fresh_dir = a->fresh_dir,
        .exit_code = &t->code,
        .data = a->verified.item,
        .data_count = a->verified.count,
    };
}

/* The job's own exit code counts where it has one. */
int tw_record_failed(const struct tw_transparent *t, char **argv, const char *how,
                     const struct twin_error *err)
{
    if (!t->trial.started) /* trouble before the job was started is told from trouble afterwards */
        return run_unwatched(argv, how, err);
    int rc = tw_trouble(err, "the job ran, but its run folder is incomplete");
    return t->code >= 0 ? t->code : rc;
}

/* A run that --steps ended has done what was asked of it: 0. One that had to be killed after Ctrl-C
 * has no code of its own. */
int tw_record_exit(const struct tw_transparent *t)
{
    const struct twin_run *r = t->trial.run;
    if (t->trial.end == TW_TRIAL_NO_PARITY)
        return TW_EXIT_TROUBLE;
    bool ours = r->outcome == TWIN_RUN_STOPPED; /* ended by --steps, as asked */
    /* it did not end when asked to */
    bool killed_by_us = r->outcome == TWIN_RUN_INTERRUPTED && r->signal == SIGKILL;
    if (ours)
        return 0;
    return killed_by_us ? TW_EXIT_INTERRUPTED : r->exit_code;
}

/* Says of ranks that should hold equal weights that they do not, or that it is not known. Trouble
 * here is passed over: show says it. */
static void say_replicas(const struct twin_run *r)
{
    char **text = NULL;
    size_t count = 0;
    if (r->trace_count > 1)
        twin_compare_replicas(r, false, &text, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        tw_say("%s", text[i]);
        tw_free(text[i]);
    }
    tw_free(text);
}

int tw_record_json_check(const char *verb, const struct tw_record_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    return tw_page_may_save(a->json, &err) == 0 ? 0 : tw_trouble(&err, "%s: --json", verb);
}

void tw_record_json(const struct tw_record_args *a, const struct twin_run *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_shown_trace *traces = a->json ? tw_shown_open(r, false) : NULL;
    json_t *j = traces ? tw_show_run_json(r, traces, false) : NULL;
    char *text = j ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    char *line = text ? tw_printf("%s\n", text) : NULL;
    if (a->json && !line)
        tw_no_memory(&err, "for the run as JSON");
    else if (a->json)
        tw_write_file_atomic(a->json, line, strlen(line), &err);
    if (err.code)
        tw_trouble(&err, "the run is not written as JSON");
    tw_free(line);
    free(text);
    json_decref(j);
    tw_shown_close(traces, r);
}

static int run(int argc, char **argv)
{
    struct record_options a = {0};
    struct tw_operands job;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_transparent t = {.code = 0};
    int rc = tw_options_parse(&tw_command_record, argc, argv, &a, &job);
    if (rc >= 0)
        return rc;
    if (job.count == 0)
        return tw_bad_use(
            "record",
            "expected the job's command after --; write: twinrun record -- python train.py");
    if ((rc = tw_record_json_check("record", &a.record)) != 0)
        return rc;
    if ((rc = tw_data_verify("record", &a.record.data, a.record.home, a.record.quiet,
                             &a.record.verified)) >= 0)
        return rc;
    struct tw_rollout_run rollout;
    const bool pinned = tw_rollout_run_join(&rollout, NULL, NULL, job.items, a.record.quiet);
    struct twin_launch_options o = tw_record_launch(&a.record, job.items, &t);
    o.rollout = rollout.joined.run.arm ? &rollout.joined.run : NULL;
    if (pinned)
        twin_world_plan_apply(&rollout.plan, &o);
    rc = tw_trial_make(&t.trial, &o, &err);
    tw_rollout_run_free(&rollout);
    if (rc != 0)
        return tw_record_failed(&t, job.items, "unwatched", &err);
    struct twin_run *r = t.trial.run;
    if (t.trial.end == TW_TRIAL_NOT_STARTED)
        tw_say("%s", r->message);
    if (!a.record.quiet && r->dir) {
        say_replicas(r);
        tw_say("recorded in %s", r->dir);
    }
    rc = tw_record_exit(&t);
    tw_record_json(&a.record, r);
    tw_ledger_note_run(a.record.home, a.record.ledger, r);
    twin_run_free(r);
    return rc;
}

const struct tw_command tw_command_record = {
    "record",
    "run a job once and record what it computed",
    synopsis,
    "Runs COMMAND, unchanged, and records fingerprints of what it computed into a run folder below "
    "the home. The job's output passes through unchanged, its standard input is ours, and twinrun "
    "ends with the job's own exit code. Trouble of twinrun's own never changes that code: a home "
    "that cannot be written makes the job run unwatched, and says so.\n\n"
    "Run folders may be copied to another machine and compared there with twinrun diff.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
