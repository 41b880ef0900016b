/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun lab: how far do runs wander here, what do the switches buy, and what do they cost? */
#include "lab.h"

#include "capture.h"
#include "interrupt.h"
#include "json.h"
#include "progress.h"
#include "runs.h"
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIELD(f) offsetof(struct tw_lab_args, f)

static const struct tw_option options[] = {
    {"torch", 't', TW_OPT_FLAG, NULL, NULL, "Job", "the PyTorch example that comes with twinrun, in place of the trainer in C", FIELD(torch)},
    {"python", 0, TW_OPT_FILE, "PYTHON", NULL, "Job", "the interpreter for --torch; python3 or python of PATH unless given", FIELD(python)},
    {"weights", 'w', TW_OPT_FILE, "FILE", NULL, "Job", "the file to which the job writes its final weights (.pt, .safetensors, .npz, .npy); unless given, the one that it writes", FIELD(weights)},
    {"fresh-dir", 0, TW_OPT_FLAG, NULL, NULL, "Job", "run in scratch copies of the working folder", FIELD(fresh_dir)},
    {"step", 's', TW_OPT_STRING, "LIST", "all", "Runs", "only these steps: noise, determinism; separated by commas", FIELD(steps)},
    {"runs", 'n', TW_OPT_COUNT, "K", "10", "Runs", "runs of the noise floor: K/2 pairs", FIELD(runs), 2, 1000},
    {"pin", 'p', TW_OPT_STRING, "LIST", NULL, "Runs", "factors held still in every run, such as seeds: seed.torch,seed.numpy", FIELD(pin)},
    {"factor-file", 'f', TW_OPT_FILE, "FILE", NULL, "Runs", "factors of your own, in TOML", FIELD(factor_file)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object, schema twinrun.lab/1", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress, no line for each run", FIELD(quiet)},
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
    {"twinrun lab --pin seed.python,seed.numpy,seed.torch -- python train.py", "on one that sets no seeds"},
    {NULL, NULL},
};

/* ---- the job */

static char **copy_words(const char *const *words, size_t *count)
{
    *count = 0;
    while (words[*count])
        ++*count;
    char **out = tw_calloc(*count + 1, sizeof *out);
    for (size_t i = 0; out && i < *count; i++)
        out[i] = tw_strdup(words[i]);
    return out;
}

static int missing(const char *what)
{
    tw_say("lab: %s was not found; install twinrun again, or give a command of yours: twinrun lab -- python train.py", what);
    return TW_EXIT_TROUBLE;
}

/* One of the two jobs that come with twinrun, as a person would type it. -1, or the exit code. */
static int embedded(struct tw_lab *lab)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_parts parts;
    if (twin_parts_find(&parts, &err) != 0)
        return tw_trouble(&err, "lab");
    const char *folder = parts.workloads_dir;
    char *program = folder ? tw_path_join(folder, lab->args.torch ? "cnn.py" : "trainer") : NULL, *python = lab->args.torch ? tw_find_python(lab->args.python) : NULL;
    char *weights = tw_path_join(lab->folder, lab->args.torch ? "model.pt" : "model.safetensors");
    const char *const c[] = {program, "--seed", "1", "--steps", "200", "--lr", "0.3", "--quiet", "--checkpoint", weights, NULL};
    const char *const torch[] = {python, program, "--steps", "40", "--checkpoint", weights, NULL};
    int rc = -1;
    if (!program || access(program, R_OK) != 0) {
        rc = missing(lab->args.torch ? "the PyTorch example (cnn.py)" : "the trainer in C");
    } else {
        lab->argv = copy_words(lab->args.torch ? torch : c, &lab->argc);
        lab->weights = tw_strdup(weights);
        if (!lab->args.torch && !lab->args.factor_file)
            lab->factor_file = tw_path_join(folder, "lab.toml");
        if (!lab->argv || !lab->weights)
            rc = tw_trouble(NULL, "lab: no memory");
    }
    lab->name = lab->args.torch ? "a small PyTorch CNN (workloads/cnn.py)" : "the trainer in C (workloads/trainer.c)";
    lab->wanders = lab->args.torch ? "a table's gradient is a sum over many duplicate indices, which two threads add in the order in which they come"
                                   : "four threads add their gradients in the order in which they finish, and float addition is not associative";
    tw_free(weights);
    tw_free(program);
    tw_free(python);
    twin_parts_free(&parts);
    return rc;
}

/* <home>/labs/1, 2, 3, ...: the next one that is not there. As short as a name can be: it stands in the command. */
static char *new_folder(const char *home, struct twin_error *err)
{
    char *all = tw_path_join(home, "labs");
    int rc = all ? tw_mkdirs(all, err) : twin_error_set(err, TWIN_ENOMEM, "no memory");
    char *folder = NULL;
    for (unsigned i = 1; rc == 0 && !folder; i++) {
        char *path = tw_printf("%s/%u", all, i);
        if (path && mkdir(path, 0777) == 0)
            folder = path;
        else if (!path || errno != EEXIST)
            rc = path ? twin_error_system(err, "%s", path) : twin_error_set(err, TWIN_ENOMEM, "no memory");
        if (folder != path)
            tw_free(path);
    }
    tw_free(all);
    return folder;
}

static int choose_job(struct tw_lab *lab, const struct tw_operands *job)
{
    if (!job->count)
        return embedded(lab);
    if (lab->args.torch)
        return tw_bad_use("lab", "expected either --torch or -- COMMAND, found both");
    lab->argv = copy_words((const char *const *)job->items, &lab->argc);
    lab->name = "a job of yours";
    lab->weights = lab->args.weights ? tw_strdup(lab->args.weights) : NULL;
    return lab->argv ? -1 : tw_trouble(NULL, "lab: no memory");
}

/* ---- the steps */

static const struct { const char *id, *title, *question; int (*make)(struct tw_lab *, struct tw_lab_step *, struct twin_error *); } steps[TW_LAB_STEPS] = {
    [TW_LAB_STEP_NOISE] = {"noise", "NOISE FLOOR", "The same seed, the same command: how far apart do two runs end?", tw_lab_noise},
    [TW_LAB_STEP_PINS] = {"determinism", "DETERMINISM ON", "The same command, all held still that can be: are same-seed runs equal now?", tw_lab_pins},
};

static int choose_steps(struct tw_lab *lab)
{
    const char *at = lab->args.steps;
    for (size_t i = 0; i < TW_LAB_STEPS; i++) {
        lab->step[i].id = steps[i].id;
        lab->step[i].title = steps[i].title;
        lab->step[i].question = steps[i].question;
        lab->step[i].wanted = strcmp(at, "all") == 0;
    }
    while (strcmp(lab->args.steps, "all") != 0) {
        const size_t n = strcspn(at, ",");
        size_t i = 0;
        while (i < TW_LAB_STEPS && (strlen(steps[i].id) != n || strncmp(steps[i].id, at, n) != 0))
            i++;
        if (i == TW_LAB_STEPS)
            return tw_bad_use("lab", "--step: expected all, or some of noise, determinism with commas between them, found \"%s\"", lab->args.steps);
        lab->step[i].wanted = true;
        if (!at[n])
            break;
        at += n + 1;
    }
    return -1;
}

static int prepare(struct tw_lab *lab, const struct tw_operands *job)
{
    struct twin_error err = TWIN_ERROR_INIT;
    lab->home = tw_home_for_runs(lab->args.home, "lab");
    if (!lab->home)
        return TW_EXIT_TROUBLE;
    char *shown = tw_home(lab->args.home); /* as the user gave it: it stands in the command */
    lab->folder = shown ? new_folder(shown, &err) : NULL;
    tw_free(shown);
    if (!lab->folder)
        return tw_trouble(&err, "lab: no folder for the results");
    int rc = choose_job(lab, job);
    if (rc >= 0)
        return rc;
    if (!lab->factor_file && lab->args.factor_file)
        lab->factor_file = tw_strdup(lab->args.factor_file);
    if (twin_factors_load(lab->factor_file, &lab->factors, &err) != 0 || tw_lab_world(lab, lab->args.pin, &lab->natural, &err) != 0)
        return tw_trouble(&err, "lab");
    if (!isatty(STDIN_FILENO)) /* each run is to read the same bytes */
        lab->spool = tw_path_join(lab->folder, "stdin");
    return -1;
}

/* What a person types to see the same: the step left its own options in s->command. */
static void complete_command(const struct tw_lab *lab, struct tw_lab_step *s, enum tw_lab_which which)
{
    char *job = tw_shell_quote(lab->argv, 0), *made = NULL;
    const char *file = lab->factor_file;
    if (which == TW_LAB_STEP_NOISE)
        made = tw_printf("twinrun check --runs %llu -- %s", (unsigned long long)lab->args.runs, job ? job : "");
    else
        made = tw_printf("twinrun run %s%s%s -- %s", s->command ? s->command : "--pin all", file ? " --factor-file " : "", file ? file : "", job ? job : "");
    tw_free(s->command);
    s->command = made;
    tw_free(job);
}

static int experiment(struct tw_lab *lab)
{
    tw_lab_print_head(lab);
    for (size_t i = 0; i < TW_LAB_STEPS && !lab->interrupted && !lab->failed; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct tw_lab_step *s = &lab->step[i];
        if (!s->wanted)
            continue;
        int rc = steps[i].make(lab, s, &err);
        if (rc != 0)
            return tw_trouble(&err, "lab: step %s", s->id);
        complete_command(lab, s, (enum tw_lab_which)i);
        lab->interrupted |= tw_interrupted();
        if (lab->interrupted)
            tw_lab_decide(s, TW_LAB_NOT_DONE, "interrupted");
        tw_lab_print_step(lab, s);
    }
    return tw_lab_report(lab);
}

static int json_error(int code)
{
    json_t *j = json_pack("{s:s, s:s, s:o, s:[]}", "schema", "twinrun.lab/1", "outcome", "error", "message", tw_json_text(tw_said()), "steps");
    return tw_json_print(j) != 0 ? TW_EXIT_TROUBLE : code;
}

static void fini(struct tw_lab *lab)
{
    for (size_t i = 0; i < TW_LAB_STEPS; i++) {
        json_decref(lab->step[i].json);
        tw_buf_free(&lab->step[i].text);
        tw_free(lab->step[i].why);
        tw_free(lab->step[i].command);
    }
    if (lab->spool)
        unlink(lab->spool);
    for (size_t i = 0; i < lab->argc && lab->argv; i++)
        tw_free(lab->argv[i]);
    tw_free(lab->argv);
    tw_lab_world_free(&lab->natural);
    twin_factors_free(&lab->factors);
    tw_free(lab->spool);
    tw_free(lab->weights);
    tw_free(lab->factor_file);
    tw_free(lab->folder);
    tw_free(lab->home);
}

static int run(int argc, char **argv)
{
    struct tw_lab lab = {.natural = {.plan = {.cpu = -1}}};
    struct tw_operands job;
    int rc = tw_options_parse(&tw_command_lab, argc, argv, &lab.args, &job);
    if (rc >= 0)
        return rc;
    rc = choose_steps(&lab);
    if (rc < 0) {
        tw_interrupt_hold();
        tw_progress_setup(lab.args.quiet);
        rc = prepare(&lab, &job);
        if (rc < 0)
            rc = experiment(&lab);
        else if (lab.args.json)
            rc = json_error(rc);
    }
    fini(&lab);
    return rc;
}

const struct tw_command tw_command_lab = {
    "lab",
    "measure how far runs wander here, and what holding things still buys and costs",
    synopsis,
    "Experiments in a few steps, each with a page that says what was asked, what came out, whether it passes, and the command to see it again.\n\n"
    "Noise floor: runs with the same seed and the same command; how far apart are their last losses and their weights? That counts only when initial weights, batches "
    "and random generators were the same in all of them, bit for bit: a job that draws other numbers each time has no noise floor. It passes when both gaps exceed 1e-6; "
    "a job that repeats itself is quiet.\n\n"
    "Determinism on: the same command with every pin of twinrun factors that applies; those that took effect are listed. Same-seed runs must now end with losses less "
    "than 1e-6 and weights less than 1e-5 apart; whether they are equal bit for bit is said.\n\n"
    "Without a command the job is a small trainer in C that comes with twinrun and is known to wander.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
