/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun shrink: the smallest command that still shows the divergence.
 *
 * This file has the table of options and the output. What may shrink, the order in which it is
 * tried and what counts as the same divergence are src/study's (shrink_search.c, shrink_knobs.c,
 * shrink_runs.c).
 */
#include "shrink_report.h"
#include "shrink_runs.h"

#include "terminal.h"
#include "on.h"
#include "say.h"
#include "runs.h"
#include "options.h"

#include "base.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIELD(f) offsetof(struct tw_shrink_args, f)

static const struct tw_option options[] = {
    {"knob", 'k', TW_OPT_LIST, "KNOB", NULL, "What may shrink",
     "a number of the command or its environment: --OPTION=FROM:TO or env:NAME=FROM:TO; may be "
     "given again",
     FIELD(knobs)},
    {"runs", 'n', TW_OPT_COUNT, "N", "15", "Budget",
     "give up when N runs as it is have not diverged", FIELD(runs), 2, 100000},
    {"max-runs", 0, TW_OPT_COUNT, "N", "150", "Budget", "make at most N runs", FIELD(max_runs), 2,
     100000},
    {"max-time", 0, TW_OPT_SECONDS, "TIME", NULL, "Budget",
     "spend at most TIME on runs (90, 90s, 10m, 2h)", FIELD(max_time)},
    {"level", 'l', TW_OPT_LEVEL, "LEVEL", "tensors", "Recording",
     "what is recorded: steps, tensors, modules or ops", FIELD(level)},
    {"fresh-dir", 0, TW_OPT_FLAG, NULL, NULL, "Recording",
     "run each time in a scratch copy of the working folder", FIELD(fresh_dir)},
    TW_ON_OPTIONS(FIELD(engine.on), FIELD(engine.place), FIELD(engine.hosts), FIELD(engine.slots)),
    {"ignore", 'i', TW_OPT_LIST, "PATTERN", NULL, "Comparison",
     "leave out records whose phase/kind/name, or files whose name, match; file:GLOB: files alone; "
     "line:REGEX: printed lines and lines of files; number:FIRST-LAST:GLOB: single numbers in "
     "these steps",
     FIELD(ignore)},
    {"no-zoom", 0, TW_OPT_FLAG, NULL, NULL, "Comparison",
     "do not name the operation of the first divergence, before and after", FIELD(no_zoom)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print the result as one JSON object",
     FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output",
     "only the result: no progress, no line per trial", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options] -- COMMAND [ARG...]", NULL};
static const struct tw_pair exits[] = {
    {"0", "the job does not diverge; what that excludes is printed"},
    {"1", "the job diverges; the smallest command found that still does is printed"},
    {"2", "trouble: bad use, the home cannot be written, the job fails"},
    {"3", "inconclusive: the budget ended before the divergence was seen often enough, or not "
          "everything was seen"},
    {"130", "interrupted by Ctrl-C; the smallest command so far has been printed"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun shrink -- python train.py", "fewer steps"},
    {"twinrun shrink --knob --batch-size=64:4 --knob env:SAMPLES=50000:100 -- python train.py "
     "--batch-size 64",
     "and a smaller batch and less data"},
    {"twinrun shrink -- torchrun --nproc-per-node=4 train.py", "fewer ranks and steps"},
    {NULL, NULL},
};

/* ---- the order of events */

/* The smallest command that still diverges, as one could type it. malloc'ed; NULL: no memory. */
static char *check_command(const struct tw_shrink *c)
{
    char *job = tw_shrink_shell(c, &c->now), *out = NULL;
    if (job && c->now.steps)
        out = tw_printf("twinrun check --steps %llu -- %s", (unsigned long long)c->now.steps, job);
    else if (job)
        out = tw_printf("twinrun check -- %s", job);
    tw_free(job);
    return out;
}

/*
 * The object that --json prints when there is no result: outcome "error" and what was said. Returns
 * code.
 */
static int json_error(int code)
{
    json_t *j = json_pack("{s:s, s:s, s:o, s:n, s:i}", "schema", "twinrun.shrink/1", "outcome",
                          "error", "message", tw_json_text(tw_said()), "command", "runs_used", 0);
    return tw_json_print(j) != 0 ? TW_EXIT_TROUBLE : code;
}

/* Prints; returns the exit code. */
static int report(struct tw_shrink *c, enum tw_shrink_outcome outcome)
{
    assert((unsigned)outcome <= TW_SHRINK_INCONCLUSIVE);
    static const int code[] = {
        [TW_SHRUNK] = TW_EXIT_DIFFER,
        [TW_NOT_SHRUNK] = TW_EXIT_DIFFER,
        [TW_NO_DIVERGENCE] = TW_EXIT_SAME,
        [TW_SHRINK_INCONCLUSIVE] = TW_EXIT_INCONCLUSIVE,
    };
    int rc = 0;
    char *command = c->baseline.parted ? check_command(c) : NULL;
    c->reported = true;
    if (c->args.json)
        rc = tw_json_print(tw_shrink_json(c, outcome, command));
    else
        tw_shrink_text(stdout, c, outcome, command);
    tw_free(command);
    if (rc != 0)
        return TW_EXIT_TROUBLE;
    return c->interrupted ? TW_EXIT_INTERRUPTED : code[outcome];
}

/* The exit code. */
static int shrink(struct tw_shrink *c)
{
    enum tw_shrink_outcome outcome;
    return tw_shrink_find(c, &outcome) == 0 ? report(c, outcome) : TW_EXIT_TROUBLE;
}

/* Knobs, home, and where each run's input comes from. -1, or the exit code after a complaint. */
static int prepare_shrinking(struct tw_shrink *c)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_shrink_knobs(c, &err);
    if (rc == TWIN_ENOMEM)
        return tw_trouble(&err, "shrink");
    if (rc != 0)
        return tw_bad_use("shrink", "%s", err.message);
    c->now = c->whole;
    c->home = tw_home_for_runs(c->args.home, "shrink");
    if (!c->home)
        return TW_EXIT_TROUBLE;
    rc = tw_on_open("shrink", c->on, &c->args.engine, c->home);
    if (rc >= 0)
        return rc;
    /* runs at the same time must not write over each other's files */
    c->args.fresh_dir |= c->on->engine != NULL;
    if (!isatty(STDIN_FILENO)) /* each run is to read the same bytes */
        c->spool = tw_printf("%s/stdin-%d-%llx", c->home, (int)getpid(),
                             (unsigned long long)tw_monotonic_ns());
    c->began_ns = tw_monotonic_ns();
    if (c->args.max_time)
        c->deadline_ns = c->began_ns + c->args.max_time * 1000000000u;
    return -1;
}

static int run(int argc, char **argv)
{
    struct tw_remote remote = {.engine = NULL};
    struct tw_shrink c = {.front = &tw_terminal, .on = &remote};
    struct tw_operands job;
    int rc = tw_options_parse(&tw_command_shrink, argc, argv, &c.args, &job);
    if (rc < 0 && job.count == 0)
        rc = tw_bad_use(
            "shrink",
            "expected the job's command after --; write: twinrun shrink -- python train.py");
    if (rc < 0) {
        c.argv = job.items;
        tw_interrupt_hold();
        tw_progress_setup(c.args.quiet);
        rc = prepare_shrinking(&c);
        if (rc < 0)
            rc = shrink(&c);
        if (c.args.json && !c.reported)
            rc = json_error(rc);
    }
    tw_shrink_fini(&c);
    tw_remote_close(&remote);
    tw_free(c.args.knobs.items);
    tw_free(c.args.ignore.items);
    return rc;
}

const struct tw_command tw_command_shrink = {
    "shrink",
    "find a smaller command that still shows the divergence",
    synopsis,
    "Runs COMMAND until three comparisons have diverged, then with fewer steps, fewer ranks "
    "(torchrun, mpirun, srun) and smaller numbers where a knob was declared, and keeps what is "
    "smaller as long as the same divergence stays: the same layer and operation (or, where no "
    "operation is seen, the same phase and kind of record). The smallest command that stood up to "
    "fresh runs is printed.\n\n"
    "A trial needs two comparisons that diverge, within as many as a job that diverges as often as "
    "before would fail in one trial of ten. Steps are found by bisection between the earliest and "
    "the latest step at which comparisons have diverged; a knob is tried at its smallest value, "
    "then "
    "halved.\n\n"
    "A knob names an option of the command with its number (--batch-size 64 or --batch-size=64), "
    "or a variable of the environment, and the smallest value to try.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
