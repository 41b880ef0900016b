/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun scale: measures how speed and cost depend on the number of workers.
 *
 * This file has the table of options and the output; the plan, the runs and the curve are
 * src/study's. A study is kept as a file, from which the curve is computed in any case: right after
 * the runs, and with --from by somebody else.
 */
#include "scale_report.h"
#include "scale_runs.h"

#include "terminal.h"
#include "journal.h"
#include "on.h"
#include "say.h"
#include "page.h"
#include "runs.h"
#include "options.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(f) offsetof(struct tw_scale_args, f)

static const struct tw_option options[] = {
    {"counts", 'c', TW_OPT_STRING, "LIST", "2,4,8", "Study",
     "numbers of workers; each stands in for {n} in the command", FIELD(counts)},
    {"repeats", 'r', TW_OPT_COUNT, "N", "3", "Study", "timed runs of each number", FIELD(repeats),
     1, 1000},
    {"work-per-step", 'w', TW_OPT_STRING, "WORK", NULL, "Study",
     "useful work of one step of the whole job, as 256,samples (the same with any number of "
     "workers: strong scaling) or 32*{n},samples (it grows with them: weak scaling). Unless given: "
     "one step",
     FIELD(work_per_step)},
    {"work-per-run", 0, TW_OPT_STRING, "WORK", NULL, "Study",
     "useful work of one whole run: for jobs whose steps cannot be seen; speed is then that of "
     "whole runs",
     FIELD(work_per_run)},
    {"price", 0, TW_OPT_STRING, "P", NULL, "Study",
     "price of one worker for an hour: adds the price of a unit of work", FIELD(price)},
    {"warmup", 0, TW_OPT_COUNT, "N", "1", "Study",
     "steps at the start of each run that do not count", FIELD(warmup), 1, 1000000},
    {"seed", 0, TW_OPT_COUNT, "N", "1", "Study", "of the drawn order", FIELD(seed), 0, INT64_MAX},
    {"steps", 's', TW_OPT_COUNT, "N", NULL, "Budget", "end each run after N steps", FIELD(steps), 1,
     UINT32_MAX - 1},
    {"max-time", 0, TW_OPT_SECONDS, "TIME", NULL, "Budget",
     "spend at most TIME on runs (90, 90s, 10m, 2h)", FIELD(max_time)},
    {"resume", 0, TW_OPT_FLAG, NULL, NULL, "Budget",
     "go on with the newest study of this job that was interrupted; a larger --repeats adds rounds",
     FIELD(resume)},
    {"level", 'l', TW_OPT_LEVEL, "LEVEL", "steps", "Recording",
     "what timed runs record: steps, tensors, modules or ops. Less disturbs less", FIELD(level)},
    {"fresh-dir", 0, TW_OPT_FLAG, NULL, NULL, "Recording",
     "run each time in a scratch copy of the working folder", FIELD(fresh_dir)},
    TW_ON_OPTIONS(FIELD(engine.on), FIELD(engine.place), FIELD(engine.hosts), FIELD(engine.slots)),
    {"from", 0, TW_OPT_FILE, "FILE", NULL, "Output",
     "run nothing: take the study from a file that --json wrote, or from its package", FIELD(from)},
    {"csv", 0, TW_OPT_FILE, "FILE", NULL, "Output", "also write the curve as a table", FIELD(csv)},
    TW_HTML_OPTION(tw_scale_args, html),
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "print one JSON object, schema twinrun.scale/1, with every run's times", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output",
     "only the result: no plan, no progress, no line per run", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options] -- COMMAND [ARG...]",
                                       "--from STUDY [--csv FILE] [--html FILE] [--json]", NULL};
static const struct tw_pair exits[] = {
    {"0", "measured: at least three runs of each number of workers"},
    {"2", "trouble: bad use, the home cannot be written, no run could be timed"},
    {"3", "inconclusive: at some number of workers fewer than three runs could be timed"},
    {"130", "interrupted by Ctrl-C; --resume goes on"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun scale --work-per-step 256,samples -- torchrun --nproc-per-node={n} train.py",
     "strong scaling: 256 samples a step, whatever {n}"},
    {"twinrun scale --counts 1,2,4 --work-per-step '32*{n},samples' -- mpirun -np {n} ./train",
     "weak scaling: 32 samples for each worker"},
    {"twinrun scale --repeats 10 --price 2.50 --csv curve.csv -- ./train --threads {n}",
     "ten runs of each, prices, a table"},
    {"twinrun scale --from study.json --html curve.html",
     "the curve from a study's file, or its package: nothing runs"},
    {NULL, NULL},
};

/* ---- what was asked */

/* Understands what was asked, and makes the runs. -1: there is something to report; else the exit
 * code. */
static int measure_runs(struct tw_scale *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_scale_understand(s, &err) != 0)
        return tw_bad_use("scale", "%s", err.message);
    s->home = tw_home_for_runs(s->args.home, "scale");
    if (!s->home)
        return TW_EXIT_TROUBLE;
    int rc = tw_on_open("scale", s->on, &s->args.engine, s->home);
    if (rc >= 0)
        return rc;
    s->args.fresh_dir |= s->on->engine != NULL;
    return tw_scale_measure(s) == 0 ? -1 : TW_EXIT_TROUBLE;
}

/* Takes text over; NULL: there was no memory for it. -1, or the exit code. */
static int write_text(const char *path, char *text)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = text ? tw_write_file_atomic(path, text, strlen(text), &err)
                  : twin_error_set(&err, TWIN_ENOMEM, "out of memory");
    tw_free(text);
    return rc ? tw_trouble(&err, "scale: %s was not written", path) : -1;
}

/* The study's file in its folder: what --from, and a package, take. */
static int keep_study(const struct tw_scale *s, json_t *j)
{
    char *path = tw_path_join(s->journal->folder, "result.json");
    /* Every digit: the curve that is computed from the file must be this one. */
    char *text = j ? json_dumps(j, JSON_REAL_PRECISION(17)) : NULL;
    int rc;
    if (path)
        rc = write_text(path, text ? tw_strdup(text) : NULL);
    else
        rc = tw_trouble(NULL, "scale: no memory");
    free(text);
    tw_free(path);
    return rc;
}

/* Where the study is, and how it is handed to a stranger. */
static void put_next(const struct tw_scale *s)
{
    const char *run = NULL;
    for (size_t i = 0; i < s->runs && !run; i++)
        run = s->run[i].good ? s->run[i].run : NULL;
    tw_put("study       %s/result.json\n", s->journal->folder);
    if (run && s->measured)
        tw_put("next        twinrun pack %s --study %s/result.json\n", run, s->journal->folder);
}

/* Time that ran out is no interruption: what was measured by then counts. */
static int exit_code(const struct tw_scale *s)
{
    if (s->interrupted && !s->out_of_time)
        return TW_EXIT_INTERRUPTED;
    if (s->measured == 0)
        return TW_EXIT_TROUBLE;
    return tw_scale_enough(s) ? 0 : TW_EXIT_INCONCLUSIVE;
}

/* The study is kept first, then the table, the page and the answer: whoever loses the terminal has
 * not lost the runs. The exit code. */
static int report(struct tw_scale *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_scale_compute(s, &err) != 0)
        return tw_trouble(&err, "scale");
    /* Why speed is missing is said with the option that gives one. */
    if (!s->args.from && tw_scale_steps_unseen(s))
        tw_say("scale: fewer than two steps behind the warm-up were seen in runs that ended well; "
               "--work-per-run N counts whole runs");
    json_t *j = tw_scale_json(s);
    int rc = s->journal->folder ? keep_study(s, j) : -1;
    if (rc < 0 && s->args.csv)
        rc = write_text(s->args.csv, tw_scale_csv(s));
    if (rc < 0 && s->args.html)
        rc = tw_page_write("scale", tw_scale_draw(s), s->args.html) ? TW_EXIT_TROUBLE : -1;
    if (rc >= 0 || !s->args.json) {
        json_decref(j);
        if (rc < 0) {
            tw_scale_text(stdout, s);
            rc = 0;
        }
    } else {
        rc = tw_json_print_exact(j);
    }
    if (rc == 0 && s->journal->folder && !s->args.json)
        put_next(s);
    return rc ? rc : exit_code(s);
}

static int run(int argc, char **argv)
{
    struct tw_journal journal = {.fd = -1};
    struct tw_remote remote = {.engine = NULL};
    struct tw_scale s = {.front = &tw_terminal, .on = &remote, .journal = &journal};
    struct tw_operands job;
    int rc = tw_options_parse(&tw_command_scale, argc, argv, &s.args, &job);
    if (rc < 0 && !s.args.from && !job.count)
        rc = tw_bad_use("scale", "expected the job's command after --; write: twinrun scale -- "
                                 "torchrun --nproc-per-node={n} train.py");
    if (rc < 0 && s.args.from && (job.count || s.args.resume || s.args.engine.on))
        rc = tw_bad_use(
            "scale", "--from runs nothing: expected no command, no --resume and no --on beside it");
    if (rc >= 0)
        return rc;
    /* The page is tried before hours of runs. */
    s.argv = job.items;
    if (tw_page_check("scale", s.args.html) != 0)
        return TW_EXIT_TROUBLE;
    if (s.args.from) {
        struct twin_error err = TWIN_ERROR_INIT;
        rc = tw_scale_load(&s, s.args.from, &err) == 0
                 ? -1
                 : tw_trouble(&err, "scale: cannot read the study");
    } else {
        tw_interrupt_hold();
        tw_progress_setup(s.args.quiet);
        rc = measure_runs(&s);
    }
    if (rc < 0)
        rc = report(&s);
    tw_scale_free(&s);
    tw_remote_close(&remote);
    tw_journal_close(&journal);
    return rc;
}

const struct tw_command tw_command_scale = {
    "scale",
    "measure how speed and cost depend on the number of workers",
    synopsis,
    "Runs COMMAND with each number of workers in place of {n}: once to see that it works and what "
    "comes out of it, then, timed, several times in drawn order, so that a machine that drifts "
    "drifts over all of them. Speed is work over the time that the steps behind the warm-up took "
    "on the slowest rank; the runs are the observations, and every figure has the interval that it "
    "has between runs. Efficiency is the speed for each worker, held against the smallest number; "
    "cost is worker-seconds for one unit of work.\n\n"
    "Whether the results are the same is told apart from that: bit for bit among the runs of one "
    "number of workers, and how far they are from those of the smallest.\n\n"
    "A run that fails is named and left out. The study's file has every run's times; --from draws "
    "the curve again from it.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
