/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun zoom: the operation behind a divergence.
 *
 * Of two recorded runs: they are compared, and where they diverge their commands are run again, up
 * to that step, with every operation recorded (src/trial/zoom_runs.c). That changes the working
 * folder to the one they ran in. Of a command: two runs that record every operation of the steps in
 * --window.
 */
#include "options.h"
#include "terminal.h"
#include "runs.h"
#include "say.h"
#include "verdict.h"
#include "trial.h"
#include "zoom_runs.h"

#include "base.h"

#include "src/compare/compare.h"
#include "src/launch/redact.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct zoom_args {
    const char *home;
    struct tw_steps_window window;
    struct tw_strings ignore;
    bool fresh_dir, json, quiet;
};

#define FIELD(f) offsetof(struct zoom_args, f)

static const struct tw_option options[] = {
    {"window", 'w', TW_OPT_WINDOW, "FIRST:LAST", NULL, "Window",
     "with a command: the steps to watch at operation level", FIELD(window)},
    {"fresh-dir", 0, TW_OPT_FLAG, NULL, NULL, "Window",
     "with a command: run each time in a scratch copy of the working folder", FIELD(fresh_dir)},
    {"ignore", 'i', TW_OPT_LIST, "PATTERN", NULL, "Comparison",
     "leave out records whose phase/kind/name match", FIELD(ignore)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print the verdict as one JSON object",
     FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output",
     "only the verdict: no progress, no line per run", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options] RUN_A RUN_B",
                                       "[options] --window FIRST:LAST -- COMMAND [ARG...]", NULL};
static const struct tw_pair exits[] = {
    {"0", "same"},
    {"1", "the runs differ"},
    {"2", "trouble: bad use, no such run, the job cannot be run again"},
    {"3", "inconclusive"},
    {"130", "interrupted by Ctrl-C"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun zoom last~1 last",
     "where do the last two runs diverge? Rerun that step and name the operation"},
    {"twinrun zoom --window 16:17 -- python train.py",
     "two runs, every operation of steps 16 and 17"},
    {NULL, NULL},
};

/* The verdict. Its exit code, unless the person wanted an end. */
static int print_verdict(const struct zoom_args *a, const struct twin_verdict *v,
                         const struct twin_run *const *runs, bool interrupted)
{
    char *command = tw_shell_quote(runs[0]->argv, runs[0]->argc);
    struct tw_verdict_output o = {.verb = "zoom", .command = command, .json = a->json};
    int rc = tw_verdict_print(v, runs, 2, &o);
    tw_free(command);
    return interrupted ? TW_EXIT_INTERRUPTED : rc;
}

/* ---- of recorded runs */

/* A copy of the list that may be changed, as a launch wants it. The words stay the run's. */
static char **arguments(const struct twin_run *r)
{
    char **argv = tw_calloc(r->argc + 1, sizeof *argv);
    for (size_t i = 0; argv && i < r->argc; i++)
        argv[i] = r->argv[i];
    return argv;
}

/* A scratch copy holds what its run left there, and not what the run began with. */
static int refuse_scratch(const struct twin_run *r)
{
    if (!tw_starts(r->cwd, r->dir) || strcmp(r->cwd + strlen(r->dir), "/work") != 0)
        return -1;
    return tw_trouble(
        &(struct twin_error){.code = TWIN_EINVAL,
                             .message = "it ran in a scratch copy of its folder, which is used up"},
        "zoom: cannot run the command of %s again; give it, in its folder: twinrun zoom "
        "--fresh-dir --window FIRST:LAST -- COMMAND",
        tw_base_name(r->dir));
}

/* Runs both commands again where that can say more, and adds what they show to the verdict. What
 * was not recorded (secrets) or is used up (scratch copies) cannot be run again: the user gives the
 * command. The exit code. */
static int rerun(const struct zoom_args *a, const char *home, struct twin_verdict *v,
                 const struct twin_run *const *runs)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const char *why = NULL;
    /* Runs that agree need no zoom; and where a rerun could not show more, the verdict says why. */
    if (v->outcome != TWIN_DIFFER || !tw_zoom_is_useful(v, runs[0], &why)) {
        if (why)
            twin_verdict_note(v, "no zoom: %s", why);
        return print_verdict(a, v, runs, false);
    }
    /* A word that was redacted is not the word that the job was given. */
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < runs[i]->argc; k++)
            if (twin_redacted(runs[i]->argv[k]))
                return tw_trouble(
                    &(struct twin_error){.code = TWIN_EINVAL,
                                         .message = "it held a secret, which was not recorded"},
                    "zoom: cannot run the command of %s again; give it: twinrun zoom --window "
                    "FIRST:LAST -- COMMAND",
                    tw_base_name(runs[i]->dir));
    for (size_t i = 0; i < 2; i++)
        if (refuse_scratch(runs[i]) >= 0)
            return TW_EXIT_TROUBLE;
    if (chdir(runs[0]->cwd) != 0) {
        twin_error_system(&err, "%s", runs[0]->cwd);
        return tw_trouble(&err, "zoom: cannot rerun the job where it ran");
    }
    char **argv_a = arguments(runs[0]), **argv_b = arguments(runs[1]);
    struct twin_launch_options base_a = {
        .argv = argv_a, .home = home, .label = "zoom-a", .agents = true};
    struct twin_launch_options base_b = {
        .argv = argv_b, .home = home, .label = "zoom-b", .agents = true};
    struct tw_zoom z = {
        .front = &tw_terminal, .base_a = &base_a, .base_b = &base_b, .quiet = a->quiet};
    int rc;
    if (!argv_a || !argv_b)
        rc = tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "zoom");
    else if (tw_zoom_run(v, &z, &err) != 0)
        rc = tw_trouble(&err, "zoom");
    else
        rc = print_verdict(a, v, runs, z.interrupted);
    tw_zoom_free(&z);
    tw_free(argv_a);
    tw_free(argv_b);
    return rc;
}

/* Compares the two runs as diff does; the place where they diverge is the window. */
static int zoom_runs(const struct zoom_args *a, const char *home, char **names)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *runs[2] = {NULL, NULL};
    struct twin_verdict *v = NULL;
    struct twin_compare_options o = {.ignore = a->ignore.items, .ignore_count = a->ignore.count};
    int rc = TW_EXIT_TROUBLE;
    runs[0] = tw_run_open(home, names[0]);
    runs[1] = runs[0] ? tw_run_open(home, names[1]) : NULL;
    if (runs[1]) {
        const struct twin_run *const pair[2] = {runs[0], runs[1]};
        if (twin_compare(pair, 2, &o, &v, &err) != 0)
            rc = tw_trouble(&err, "zoom: cannot compare the runs");
        else
            rc = rerun(a, home, v, pair);
    }
    twin_verdict_free(v);
    twin_run_free(runs[0]);
    twin_run_free(runs[1]);
    return rc;
}

/* ---- of a command */

/* Makes the two runs, which differ in nothing but their names, and compares them. */
static int zoom_command(const struct zoom_args *a, const char *home, char **job)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *runs[2] = {NULL, NULL};
    struct twin_verdict *v = NULL;
    bool interrupted = false;
    int rc = -1;
    for (int i = 0; i < 2 && rc < 0 && !interrupted; i++) {
        char title[16], text[32];
        snprintf(title, sizeof title, "zoom %c", 'a' + i);
        struct tw_trial trial = {.front = &tw_terminal, .title = title};
        struct twin_launch_options o = {
            .argv = job,
            .home = home,
            .label = i ? "zoom-b" : "zoom-a",
            .level = TWIN_LEVEL_OPS,
            .agents = true,
            .max_steps = a->window.last + 1,
            .window_first = a->window.first,
            .window_last = a->window.last,
            .fresh_dir = a->fresh_dir,
        };
        rc = tw_trial_make(&trial, &o, &err) != 0 ? tw_trouble(&err, "zoom: cannot run the job")
                                                  : -1;
        runs[i] = trial.run;
        if (rc >= 0)
            break;
        if (trial.end == TW_TRIAL_NOT_STARTED) {
            tw_say("zoom: %s", runs[i]->message);
            rc = TW_EXIT_TROUBLE;
        } else {
            interrupted = trial.end == TW_TRIAL_INTERRUPTED;
            if (!a->quiet)
                tw_trial_line(&tw_terminal, title, runs[i],
                              runs[i]->outcome == TWIN_RUN_STOPPED ? "ok"
                                                                   : tw_run_state(runs[i], text));
        }
    }
    if (rc < 0 && interrupted)
        rc = TW_EXIT_INTERRUPTED;
    if (rc < 0) {
        const struct twin_run *const pair[2] = {runs[0], runs[1]};
        struct twin_compare_options o = {.ignore = a->ignore.items,
                                         .ignore_count = a->ignore.count};
        rc = twin_compare(pair, 2, &o, &v, &err) != 0
                 ? tw_trouble(&err, "zoom: cannot compare the runs")
                 : print_verdict(a, v, pair, false);
    }
    twin_verdict_free(v);
    twin_run_free(runs[0]);
    twin_run_free(runs[1]);
    return rc;
}

static int run(int argc, char **argv)
{
    struct zoom_args a = {0};
    struct tw_operands rest;
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_options_parse(&tw_command_zoom, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    if (rest.is_job && rest.count == 0)
        return tw_bad_use("zoom", "expected the job's command after --");
    if (rest.is_job && !a.window.given)
        return tw_bad_use(
            "zoom",
            "a command needs --window FIRST:LAST; to find the window: twinrun check -- COMMAND");
    if (!rest.is_job && a.window.given)
        return tw_bad_use(
            "zoom", "--window belongs to a command; for two runs the window is where they diverge");
    if (!rest.is_job && a.fresh_dir)
        return tw_bad_use("zoom", "--fresh-dir belongs to a command");
    tw_progress_setup(a.quiet);
    /* The home by its whole path: to rerun a job we go to its folder. */
    char *named = rest.is_job ? tw_home(a.home) : tw_home_to_read(a.home);
    char *home = named ? tw_path_absolute(named, &err) : NULL; /* the working folder may change */
    tw_free(named);
    if (!home)
        rc = tw_trouble(&err, "zoom: cannot name the home");
    else
        rc = rest.is_job ? zoom_command(&a, home, rest.items) : zoom_runs(&a, home, rest.items);
    tw_free(home);
    tw_free(a.ignore.items);
    return rc;
}

const struct tw_command tw_command_zoom = {
    "zoom",
    "rerun the suspect steps at operation level and name the operation",
    synopsis,
    "For two recorded runs that diverge: runs their commands again, in the folder where they ran, "
    "up "
    "to the step where they diverged, records every operation of that step and the one before, and "
    "names the operation and the source line. twinrun check does this by itself.\n\n"
    "For a command: makes two runs that record every operation of the steps in --window, and "
    "compares them.",
    options,
    TW_OPERANDS_RUNS_OR_JOB,
    2,
    2,
    exits,
    examples,
    run,
};
