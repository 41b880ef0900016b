/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun lab: how far do runs wander here, what do the switches buy, and what do they cost?
 *
 * This file prepares, and prints each step as soon as it is done. The steps are src/study's
 * (lab_steps.c), their pages src/report/study's. Without a command the job is one of two that come
 * with twinrun (src/study/lab_jobs.c).
 */
#include "data.h"
#include "lab_report.h"
#include "on.h"
#include "page.h"
#include "runs.h"
#include "say.h"
#include "terminal.h"
#include "verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELD(f) offsetof(struct tw_lab_args, f)

static const struct tw_option options[] = {
    {"torch", 't', TW_OPT_FLAG, NULL, NULL, "Job",
     "the PyTorch example that comes with twinrun, in place of the trainer in C", FIELD(torch)},
    {"python", 0, TW_OPT_FILE, "PYTHON", NULL, "Job",
     "the interpreter for --torch; python3 or python of PATH unless given", FIELD(python)},
    {"device", 0, TW_OPT_STRING, "DEVICE", NULL, "Job",
     "for --torch: cpu, or cuda where there is a GPU", FIELD(device)},
    {"weights", 'w', TW_OPT_FILE, "FILE", NULL, "Job",
     "the file to which the job writes its final weights (.pt, .safetensors, .npz, .npy); unless "
     "given, the one that it writes",
     FIELD(weights)},
    TW_DATA_OPTION(FIELD(data)),
    TW_ON_OPTIONS(FIELD(engine.on), FIELD(engine.place), FIELD(engine.hosts), FIELD(engine.slots)),
    {"fresh-dir", 0, TW_OPT_FLAG, NULL, NULL, "Job", "run in scratch copies of the working folder",
     FIELD(fresh_dir)},
    {"step", 's', TW_OPT_STRING, "LIST", "all", "Runs",
     "only these: noise, determinism, cost, config; separated by commas", FIELD(steps)},
    {"runs", 'n', TW_OPT_COUNT, "K", "10", "Runs", "runs of the noise floor: K/2 pairs",
     FIELD(runs), 2, 1000},
    {"pairs", 0, TW_OPT_COUNT, "N", "5", "Runs",
     "pairs of a free and a pinned run, whose times are compared; fewer than 5 do not count",
     FIELD(pairs), 2, 1000},
    {"pin", 'p', TW_OPT_STRING, "LIST", NULL, "Runs",
     "factors held still in every run, such as seeds: seed.torch,seed.numpy", FIELD(pin)},
    {"factor-file", 'f', TW_OPT_FILE, "FILE", NULL, "Runs", "factors of your own, in TOML",
     FIELD(factor_file)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object, schema twinrun.lab/1",
     FIELD(json)},
    TW_HTML_OPTION(tw_lab_args, html),
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress, no line for each run",
     FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options]", "[options] -- COMMAND [ARG...]", NULL};
static const struct tw_pair exits[] = {
    {"0", "every step passed; a quiet job, which has no noise to measure, is none that failed"},
    {"1", "a step failed"},
    {"2", "trouble: bad use, or the job itself fails"},
    {"3", "inconclusive: a step could not say; it says why"},
    {"130", "interrupted by Ctrl-C; steps that were done are printed"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun lab", "on the trainer in C that comes with twinrun: nothing else is needed"},
    {"twinrun lab --torch", "on the PyTorch example that comes with twinrun"},
    {"twinrun lab -- python train.py", "on a job of yours"},
    {"twinrun lab --pin seed.python,seed.numpy,seed.torch -- python train.py",
     "on one that sets no seeds"},
    {NULL, NULL},
};

/* ---- what is run: a command of the user, or one of the two jobs that come with twinrun */

/* The example's data are weighed, and verified as data of the user's are. -1, or the exit code. */
static int weigh_data(struct tw_lab *lab, const char *data)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *given = NULL;
    int rc = tw_lab_weigh_data(lab, data, &given, &err);
    const char *const list[] = {given, NULL};
    const struct tw_strings strings = {(const char **)(uintptr_t)list, 1};
    rc = rc ? tw_trouble(&err, "lab: the data of the example")
            : tw_data_verify("lab", &strings, lab->args.home, true, &lab->data);
    tw_free(given);
    return rc;
}

/* One of the jobs that come with twinrun. -1, or the exit code. */
static int embedded(struct tw_lab *lab)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_parts parts;
    char *data = NULL;
    if (twin_parts_find(&parts, &err) != 0)
        return tw_trouble(&err, "lab");
    int rc = tw_lab_own_job(lab, parts.workloads_dir, &data, &err);
    if (rc == 0) {
        rc = weigh_data(lab, data);
    } else {
        tw_say("lab: %s", err.message);
        rc = TW_EXIT_TROUBLE;
    }
    tw_free(data);
    twin_parts_free(&parts);
    return rc;
}

/* The job and its data, which are verified. -1, or the exit code after a complaint. */
static int choose_job(struct tw_lab *lab, const struct tw_operands *job)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (lab->args.device && !lab->args.torch)
        return tw_bad_use("lab", "--device goes with --torch: a command of yours chooses its own");
    if (!job->count)
        return embedded(lab);
    if (lab->args.torch)
        return tw_bad_use("lab", "expected either --torch or -- COMMAND, found both");
    lab->name = "a job of yours";
    lab->weights = lab->args.weights ? tw_strdup(lab->args.weights) : NULL;
    return tw_lab_copy_words(lab, (const char *const *)job->items, &err) == 0
               ? tw_data_verify("lab", &lab->args.data, lab->args.home, lab->args.quiet, &lab->data)
               : tw_trouble(&err, "lab");
}

/* ---- the order of events */

/* Page, home, folder, job, factors, input: -1, or the exit code after a complaint. */
static int prepare_lab(struct tw_lab *lab, const struct tw_operands *job)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_page_check("lab", lab->args.html);
    if (rc != 0)
        return rc;
    lab->home = tw_home_for_runs(lab->args.home, "lab");
    if (!lab->home)
        return TW_EXIT_TROUBLE;
    rc = tw_on_open("lab", lab->on, &lab->args.engine, lab->home);
    if (rc >= 0)
        return rc;
    /* runs at the same time must not write over each other's files */
    lab->args.fresh_dir |= lab->on->engine != NULL;
    char *shown = tw_home(lab->args.home); /* as the user gave it: it stands in the command */
    lab->folder = shown ? tw_lab_new_folder(shown, &err) : NULL;
    tw_free(shown);
    if (!lab->folder)
        return tw_trouble(&err, "lab: no folder for the results");
    rc = choose_job(lab, job);
    if (rc >= 0)
        return rc;
    if (!lab->factor_file && lab->args.factor_file)
        lab->factor_file = tw_strdup(lab->args.factor_file);
    if (twin_factors_load(lab->factor_file, &lab->factors, &err) != 0 ||
        tw_lab_world(lab, lab->args.pin, &lab->natural, &err) != 0)
        return tw_trouble(&err, "lab");
    if (!isatty(STDIN_FILENO)) /* each run is to read the same bytes */
        lab->spool = tw_path_join(lab->folder, "stdin");
    return -1;
}

/* What the lab came to; a job that fails as it is, is trouble. */
static int exit_code(const struct tw_lab *lab)
{
    switch (tw_lab_outcome(lab)) {
    case TW_LAB_PASSED: return TW_EXIT_SAME;
    case TW_LAB_FAILED: return TW_EXIT_DIFFER;
    case TW_LAB_UNSURE: return TW_EXIT_INCONCLUSIVE;
    case TW_LAB_INTERRUPTED: return TW_EXIT_INTERRUPTED;
    case TW_LAB_JOB_FAILED: break;
    }
    return TW_EXIT_TROUBLE;
}

/* Prints the end or the JSON, writes lab.json into the folder. Returns the exit code. */
static int report(const struct tw_lab *lab)
{
    struct twin_error err = TWIN_ERROR_INIT;
    /* Kept in the lab's folder whatever is printed. */
    json_t *j = tw_lab_json(lab);
    char *text = j ? json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    char *path = tw_printf("%s/lab.json", lab->folder);
    int rc = 0;
    if (!text || !path)
        rc = tw_trouble(NULL, "lab: no memory for the results");
    else if (tw_write_file_atomic(path, text, strlen(text), &err) != 0)
        rc = tw_trouble(&err, "lab: the results were not kept");
    free(text);
    tw_free(path);
    if (lab->args.json)
        rc = tw_json_print_exact(j) != 0 ? TW_EXIT_TROUBLE : rc;
    else
        json_decref(j);
    if (!lab->args.json)
        tw_lab_end_text(stdout, tw_lines_look().width, lab);
    return rc ? rc : exit_code(lab);
}

/* Each wanted step, until one cannot be made or the person wants an end; then page and report. The
 * exit code. */
static int experiment(struct tw_lab *lab)
{
    if (!lab->args.json)
        tw_lab_head_text(stdout, tw_lines_look().width, lab);
    for (size_t i = 0; i < TW_LAB_STEPS && !lab->interrupted && !lab->failed; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct tw_lab_step *s = &lab->step[i];
        if (!s->wanted)
            continue;
        if (tw_lab_make_step(lab, (enum tw_lab_which)i, &err) != 0)
            return tw_trouble(&err, "lab: step %s", s->id);
        tw_progress_clear();
        if (!lab->args.json)
            tw_lab_step_text(stdout, tw_lines_look().width, lab, s);
    }
    int page = 0;
    if (lab->args.html)
        page = tw_page_write("lab", tw_lab_page(lab), lab->args.html);
    const int rc = report(lab);
    return page ? page : rc;
}

/* The object that --json prints when there is no result: outcome "error" and what was said last.
 * Returns code. */
static int json_error(int code)
{
    json_t *j = json_pack("{s:s, s:s, s:o, s:[]}", "schema", "twinrun.lab/1", "outcome", "error",
                          "message", tw_json_text(tw_said()), "steps");
    return tw_json_print(j) != 0 ? TW_EXIT_TROUBLE : code;
}

static int run(int argc, char **argv)
{
    struct tw_remote remote = {.engine = NULL};
    struct tw_lab lab = {.front = &tw_terminal,
                         .on = &remote,
                         .audit = tw_lab_audit_run,
                         .natural = {.plan = {.cpu = -1}}};
    struct tw_operands job;
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_options_parse(&tw_command_lab, argc, argv, &lab.args, &job);
    if (rc >= 0)
        return rc;
    if (tw_lab_choose_steps(&lab, &err) != 0) {
        rc = tw_bad_use("lab", "%s", err.message);
    } else {
        tw_interrupt_hold();
        tw_progress_setup(lab.args.quiet);
        rc = prepare_lab(&lab, &job);
        if (rc < 0)
            rc = experiment(&lab);
        else if (lab.args.json)
            rc = json_error(rc);
    }
    tw_lab_fini(&lab);
    tw_remote_close(&remote);
    return rc;
}

const struct tw_command tw_command_lab = {
    "lab",
    "measure how far runs wander here, and what holding things still buys and costs",
    synopsis,
    "Experiments in a few steps, each with a page that says what was asked, what came out, whether "
    "it passes, and the command to see it again.\n\n"
    "Noise floor: runs with the same seed and the same command; how far apart are their last "
    "losses and their weights? That counts only when initial weights, batches and random "
    "generators were the same in all of them, bit for bit: a job that draws other numbers each "
    "time has no noise floor. It passes when both gaps exceed 1e-6; a job that repeats itself is "
    "quiet.\n\n"
    "Determinism on: the same command with every pin of twinrun factors that applies; those that "
    "took effect are listed. Same-seed runs must now end with losses less than 1e-6 and weights "
    "less than 1e-5 apart; whether they are equal bit for bit is said.\n\n"
    "Cost and catalogue: pairs of a free and a pinned run in drawn order give the cost in percent, "
    "with an interval; then each pin alone; then, for a job in Python, which operations of its "
    "PyTorch wander here, have a slower way, or raise. Pairs during which other programs used the "
    "processors are repeated.\n\n"
    "Content-addressed run: the hash of the configuration must repeat, must not change with the "
    "order of keys and the form of the file, and must change with every value; a checklist of the "
    "evidence for code, data, environment, configuration, random state and hardware is written for "
    "CI; what no such hash can catch is said with this machine's own values.\n\n"
    "Without a command the job is a small trainer in C that comes with twinrun and is known to "
    "wander.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
