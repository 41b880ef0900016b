/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun check: run it again, unchanged, and name the first place where the runs diverge.
 *
 * This file has the table of options, the order of events and the output. The runs are src/trial's
 * (check_series.c, and check_gate.c, check_transplant.c, check_resume.c for the other ways to ask),
 * the comparison src/compare's, the words src/report's. After the runs come those that explain a
 * divergence: faster clocks, arm A again, a zoom, a control run. Whatever ends a check early, what
 * was compared so far is printed.
 */
#include "check_args.h"

#include "again.h"
#include "check_clock.h"
#include "terminal.h"
#include "runs.h"
#include "known.h"
#include "on.h"
#include "page.h"
#include "say.h"
#include "verdict.h"
#include "zoom_runs.h"

#include "base.h"

#include <string.h>

#define FIELD(f) offsetof(struct tw_check_args, f)
#define ASKED(f) offsetof(struct tw_check_args, asked.f)
/* Unless given: one more than a pair, so that with arms A can be repeated. */
enum { RUNS = 3 };

static const struct tw_option options[] = {
    {"runs", 'n', TW_OPT_COUNT, "N", NULL, "Runs",
     "number of runs; the first is the reference; 3 unless given, 1 with --against", ASKED(runs), 1,
     100000},
    {"all", 0, TW_OPT_FLAG, NULL, NULL, "Runs",
     "make all runs; without it the first divergence ends the check", ASKED(all)},
    {"steps", 's', TW_OPT_COUNT, "N", NULL, "Runs", "end each run after N steps", ASKED(steps), 1,
     UINT32_MAX - 1},
    {"max-time", 0, TW_OPT_SECONDS, "TIME", NULL, "Runs",
     "spend at most TIME (90, 90s, 10m, 2h) and judge by what there is then", FIELD(max_time)},
    {"ranks", 0, TW_OPT_STRING, "LIST", NULL, "Runs",
     "run COMMAND with each of these numbers of ranks (2,4), in place of {ranks} in it, --runs "
     "times "
     "each (once unless given): do 2 and 4 ranks train the same weights?",
     ASKED(ranks)},
    TW_ON_OPTIONS(ASKED(engine.on), ASKED(engine.place), ASKED(engine.hosts), ASKED(engine.slots)),
    {"a", 0, TW_OPT_STRING, "CMD", NULL, "Arms",
     "first of two commands that ought to compute the same; run by sh -c", FIELD(a)},
    {"b", 0, TW_OPT_STRING, "CMD", NULL, "Arms", "the second one", FIELD(b)},
    {"explain", 0, TW_OPT_STRING, "WHAT", NULL, "Arms",
     "with --a and --b of which the bits differ: rounding. One more run of each, whose first step "
     "is judged operation by operation: can rounding explain it, or does B compute something else?",
     ASKED(explain)},
    {"b-starts-at", 0, TW_OPT_COUNT, "K", NULL, "Arms",
     "step of A at which B begins (a resumed job); found by its weights unless given",
     ASKED(b_starts_at), 0, UINT32_MAX - 1},
    {"resume-with", 0, TW_OPT_STRING, "CMD", NULL, "Arms",
     "is a resumed job the same job? COMMAND is run whole, then again and stopped after half of "
     "its steps; then CMD, run by sh -c, goes on in the folder that this left. Each run has a "
     "scratch copy of the working folder",
     ASKED(resume_with)},
    {"half", 0, TW_OPT_STRING, "CMD", NULL, "Arms",
     "with --resume-with: run this (sh -c), which ends by itself after a part of the training, in "
     "place of stopping COMMAND",
     ASKED(half)},
    {"transplant", 0, TW_OPT_STRING, "KIND", NULL, "Transplant",
     "make every step of the later runs start as it did in a recorded one, and list all origins "
     "with their rates: data (batches), rng (generator states) or step (both, weights, optimizer "
     "state)",
     ASKED(transplant)},
    {"window", 'w', TW_OPT_WINDOW, "FIRST:LAST", NULL, "Transplant",
     "only these steps; all unless given", ASKED(window)},
    {"transplant-limit", 0, TW_OPT_BYTES, "BYTES", "4G", "Transplant",
     "record at most so much (65536, 500M, 4G)", ASKED(transplant_limit)},
    {"pinned", 0, TW_OPT_FLAG, NULL, NULL, "Pins",
     "run the job with the pins that the last isolate of this command named: does it repeat itself "
     "with them on?",
     ASKED(pinned)},
    {"factor-file", 'f', TW_OPT_FILE, "FILE", NULL, "Pins",
     "with --pinned: factors of your own, in TOML, as isolate had them", FIELD(factor_file)},
    {"save-baseline", 0, TW_OPT_FILE, "FILE", NULL, "Baseline",
     "when the runs agree, write what they computed into FILE, a small text file for the "
     "repository",
     ASKED(save_baseline)},
    {"against", 0, TW_OPT_FILE, "FILE", NULL, "Baseline",
     "make one run and hold it against such a file: the gate of a CI", ASKED(against)},
    {"key", 0, TW_OPT_LIST, "PUB", NULL, "Baseline",
     "with --against: this key must have signed the file (FILE.dsse.json)", FIELD(keys)},
    {"trust", 0, TW_OPT_FILE, "FILE", NULL, "Baseline",
     "with --against: those whom this trust.toml names must have signed the file", FIELD(trust)},
    {"level", 'l', TW_OPT_LEVEL, "LEVEL", NULL, "Recording",
     "what is recorded: steps, tensors, modules or ops; tensors unless given", ASKED(level)},
    {"sketch-every", 0, TW_OPT_COUNT, "K", NULL, "Recording",
     "keep a sketch of each tensor every K steps, for distances; 10 unless given",
     ASKED(sketch_every), 1, UINT32_MAX},
    {"lossless", 0, TW_OPT_FLAG, NULL, NULL, "Recording",
     "make the job wait rather than lose a record", ASKED(lossless)},
    {"no-telemetry", 0, TW_OPT_FLAG, NULL, NULL, "Recording",
     "no counters of processes and machine", ASKED(no_telemetry)},
    {"fresh-dir", 0, TW_OPT_FLAG, NULL, NULL, "Recording",
     "run each time in a scratch copy of the working folder", ASKED(fresh_dir)},
    TW_DATA_OPTION(FIELD(data)),
    TW_PARITY_OPTION(ASKED(require_parity)),
    {"control", 0, TW_OPT_FLAG, NULL, NULL, "Recording",
     "one more run, unobserved, whose output and files are compared with the first",
     ASKED(control)},
    {"ignore", 'i', TW_OPT_LIST, "PATTERN", NULL, "Comparison",
     "leave out records whose phase/kind/name, or files whose name, match; file:GLOB: files alone; "
     "line:REGEX: printed lines and lines of files; number:FIRST-LAST:GLOB: single numbers in "
     "these steps",
     ASKED(ignore)},
    {"tolerance", 't', TW_OPT_FILE, "FILE", NULL, "Comparison",
     "also judge by these tolerances; the bitwise verdict is shown too", ASKED(tolerance)},
    {"no-zoom", 0, TW_OPT_FLAG, NULL, NULL, "Comparison",
     "do not rerun the suspect steps to name the operation", ASKED(no_zoom)},
    {"no-clock", 0, TW_OPT_FLAG, NULL, NULL, "Comparison",
     "do not make two more runs under faster clocks where it is not known whether numbers that "
     "differ are times",
     ASKED(no_clock)},
    {"zoom-time", 0, TW_OPT_SECONDS, "TIME", NULL, "Comparison",
     "what naming the operation may take at most; as long as five runs, or a minute, unless given",
     ASKED(zoom_time), 1, UINT32_MAX},
    {"no-cases", 0, TW_OPT_FLAG, NULL, NULL, "Comparison",
     "do not look for known cases that look alike", FIELD(no_cases)},
    {"bisect", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "exit code 125 instead of 2 and 3, for git bisect run", FIELD(bisect)},
    {"github", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "also print annotations for GitHub Actions, and add to its job summary", FIELD(github)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(tw_check_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print the verdict as one JSON object",
     FIELD(json)},
    TW_PAGES_OPTION(tw_check_args, html),
    {"junit", 0, TW_OPT_FILE, "FILE", NULL, "Output", "also write the verdict as JUnit XML",
     FIELD(junit)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output",
     "only the verdict: no progress, no line per run", ASKED(quiet)},
    {"show-output", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "pass on what the job prints (it is stored in any case)", ASKED(show_output)},
    {NULL},
};

static const char *const synopsis[] = {
    "[options] -- COMMAND [ARG...]",
    "[options] --a CMD --b CMD",
    "[options] --resume-with CMD [--half CMD] -- COMMAND [ARG...]",
    "[options] --ranks LIST -- COMMAND [ARG...]",
    "[options] --pinned -- COMMAND [ARG...]",
    "[options] --against FILE -- COMMAND [ARG...]",
    NULL};
static const struct tw_pair exits[] = {
    {"0", "same, bit for bit or within the tolerance"},
    {"1", "the runs differ"},
    {"2",
     "trouble: bad use, the home cannot be written, the job fails every time, its ranks differ "
     "although --require-parity was given"},
    {"3", "inconclusive: what was seen does not suffice to say \"same\"; the verdict names what "
          "was unseen"},
    {"130", "interrupted by Ctrl-C; what was compared so far has been reported"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun check -- python train.py --epochs 1",
     "three runs, or fewer when they diverge earlier"},
    {"twinrun check --steps 50 --runs 10 -- torchrun --nproc-per-node=2 train.py",
     "ten short runs on two ranks"},
    {"twinrun check --a 'python train.py' --b 'python train.py --resume ckpt.pt'",
     "is a resumed job the same job?"},
    {"twinrun check --explain rounding --a 'python old.py' --b 'python new.py'",
     "other bits: rounding, or a bug?"},
    {"twinrun check --resume-with 'python train.py --resume' -- python train.py",
     "the same, with the interruption made here"},
    {"twinrun check --ranks 2,4 -- torchrun --nproc-per-node={ranks} train.py",
     "do two and four ranks train the same weights?"},
    {"twinrun check --transplant step --runs 5 -- python train.py",
     "every place where the job diverges, and how often"},
    {"twinrun check --pinned -- python train.py",
     "after isolate has named a cause: does its pin hold the job?"},
    {"twinrun check --save-baseline expected.json -- python train.py",
     "what the job computes, for the repository"},
    {"twinrun check --against expected.json --github -- python train.py",
     "in CI: does it still compute that?"},
    {"twinrun check --against expected.json --key team.key.pub -- python train.py",
     "the same, by a file that the team signed"},
    {"git bisect run twinrun check --bisect -q -- python train.py", "which commit broke it?"},
    {NULL, NULL},
};

/* How the runs were started, in the word that cases of known cause carry. */
static const char *start_word(const struct tw_check *c)
{
    const struct twin_finding *first = c->series.v->first;
    /* A second arm that begins later is a job that went on from a checkpoint. */
    if (c->arms && (c->series.v->shift != 0 || first->step_a != first->step_b))
        return "resumed";
    const bool one_number = c->numbers.count && tw_check_number_of(c, first->run_a) ==
                                                    tw_check_number_of(c, first->run_b);
    return c->arms && !one_number ? "two" : "same";
}

/* Does what parted look like a case whose cause is known? */
static void look_up(const struct tw_check *c, struct tw_known *k)
{
    if (c->series.v->outcome != TWIN_DIFFER || !c->series.v->first)
        return;
    struct twin_signature s = tw_known_signature(c->series.v->first, start_word(c));
    char **settings = NULL;
    s.setting_count = tw_known_settings(c->series.runs[0], &settings);
    s.settings = settings;
    tw_known_look_up(c->series.home, &s, k, &tw_terminal);
    tw_known_settings_free(settings, s.setting_count);
}

/* The job, as one could type it behind "twinrun check". */
static char *job_in_words(const struct tw_check *c)
{
    if (c->numbers.count || c->args.pinned) {
        char *job = tw_shell_quote(c->arm[0], 0), *words = NULL;
        if (job && c->args.pinned)
            words = tw_printf("--pinned -- %s", job);
        else if (job)
            words = tw_printf("--ranks %s -- %s", c->args.ranks, job);
        tw_free(job);
        return words;
    }
    if (!c->arms)
        return tw_shell_quote(c->arm[0], 0);
    /* With --resume-with the first arm is the job as it was typed, and no shell's. */
    bool resumed = c->args.resume_with != NULL;
    /* an arm is a shell's argv, whose third word is the command */
    char *a = resumed ? tw_shell_quote(c->arm[0], 0) : tw_shell_quote(&c->arm[0][2], 1);
    char *b = tw_shell_quote(&c->arm[1][2], 1);
    char *words = NULL;
    if (a && b)
        words = resumed ? tw_printf("--resume-with %s -- %s", b, a)
                        : tw_printf("--a %s --b %s", a, b);
    tw_free(a);
    tw_free(b);
    return words;
}

/* The verdict with its runs, for ls and show of later days. */
static void note_in_ledger(const struct tw_check *c, const char *url)
{
    char *command = job_in_words(c);
    tw_ledger_note(
        &(struct tw_noted){.home = c->series.home,
                           .url = url,
                           .verb = c->args.against ? "gate" : "check",
                           .command = command,
                           .outcome = twin_verdict_name(c->series.v->outcome),
                           .first = c->series.v->outcome == TWIN_SAME ? NULL : c->series.v->first,
                           .verdict = c->series.v,
                           .arms = c->arms,
                           .runs = (const struct twin_run *const *)c->series.runs,
                           .count = c->series.count});
    tw_free(command);
}

/* Without memory for it, suggestions lack their options; the verdict does not hang on that. */
static struct twin_report_again suggestions(const struct tw_check_command *command,
                                            struct tw_again *again)
{
    const struct tw_check *c = &command->check;
    const char *arms[2] = {command->shell[0][2], command->shell[1][2]};
    struct tw_check_args args = command->args;
    args.asked = c->args; /* as the runs were made: a baseline may have set their steps */
    /* Where A alone parts already, A alone is what to look at next. */
    bool both = c->arms && !c->numbers.count && !c->arm_unsteady && !c->args.resume_with;
    if (tw_again_make(&tw_command_check, &args, both ? NULL : c->arm[0], both ? arms : NULL,
                      again) != 0)
        return (struct twin_report_again){.env = NULL};
    struct twin_report_again words = tw_again_words(again);
    words.scratch = c->args.fresh_dir;
    return words;
}

/* Of what a part of the check returned: negative where it is to go on. */
static int exit_code(int rc)
{
    if (rc == 0)
        return -1;
    return rc == TWIN_EINTR ? TW_EXIT_INTERRUPTED : TW_EXIT_TROUBLE;
}

/* Looks for known cases, prints the verdict in every form that was asked for, and notes it. The
 * exit code; trouble and an interruption come before the verdict's own. */
static int print_verdict(struct tw_check_command *command)
{
    const struct tw_check *c = &command->check;
    const struct tw_check_args *a = &command->args;
    const char *why;
    struct tw_again again = {.env = NULL};
    struct tw_known known = {.count = 0};
    char *job = c->arms && !c->numbers.count ? NULL : tw_shell_quote(c->arm[0], 0);
    const struct twin_compare_options compare = tw_check_how(c);
    struct tw_verdict_output o = {
        .verb = c->args.pinned ? "check --pinned" : "check",
        .command = job,
        .junit = a->junit,
        .html = a->html,
        .compare = &compare,
        .json = a->json,
        .github = a->github,
        .can_zoom = !c->zoomed && !c->args.against && !c->numbers.count &&
                    c->series.v->outcome == TWIN_DIFFER &&
                    tw_zoom_is_useful(c->series.v, c->series.runs[0], &why),
        .can_isolate = tw_check_can_isolate(c),
        .shares_files = c->shares_files && !c->series.interrupted,
        .repeats = c->arm_repeats,
        .hint = known.hint,
        .again = suggestions(command, &again),
    };
    /* What looks like a case of known cause goes into the verdict as a hint. */
    if (!a->no_cases)
        look_up(c, &known);
    o.hint_count = known.count;
    command->printed = true;
    int rc = tw_verdict_print(c->series.v, (const struct twin_run *const *)c->series.runs,
                              c->series.count, &o);
    /* A job that fails has mostly said why. */
    if (c->series.v->outcome == TWIN_FAILED && !a->json)
        tw_run_show_tail(&tw_terminal, "run 1", c->series.runs[0]);
    note_in_ledger(c, command->args.ledger);
    tw_known_free(&known);
    tw_again_free(&again);
    tw_free(job);
    if (c->series.interrupted)
        return TW_EXIT_INTERRUPTED;
    return c->trouble ? exit_code(c->trouble) : rc;
}

/* The runs, by the way that was asked for. Negative: they were made, and a verdict can be given;
 * else the exit code. */
static int make_runs(struct tw_check_command *command)
{
    struct tw_check *c = &command->check;
    int rc = -1;
    if (c->args.against)
        rc = tw_check_load_baseline(command);
    if (rc >= 0)
        return rc;
    if (c->args.transplant)
        return exit_code(tw_check_transplant(c));
    return exit_code(c->args.against ? tw_check_gate(c) : tw_check_series(c));
}

/* All runs, and what is found out from them. The exit code. */
static int check_job(struct tw_check_command *command)
{
    struct tw_check *c = &command->check;
    int rc = make_runs(command);
    if (rc >= 0)
        return rc;
    /* Runs that explain are made only where the comparison itself was finished. */
    if (!c->series.interrupted && !c->series.out_of_time && !c->trouble) {
        tw_check_clock(c);
        tw_check_nothing_to_resume(c);
        tw_check_repeat_arm(c);
        tw_check_threads(c);
        if (!c->args.against)
            tw_check_zoom(c);
        tw_check_rounding(c);
        tw_check_control(c);
    }
    /* Facts about all runs, noted in the verdict whatever it is; a baseline only of runs that
     * agree. */
    tw_check_shared_files(c);
    tw_check_look_around(c);
    tw_check_save_baseline(c);
    if (c->args.pinned && (rc = tw_check_pinned_judge(command)) >= 0)
        return rc;
    if (c->series.out_of_time)
        twin_verdict_note(
            c->series.v,
            "the time of --max-time was up in run %zu of %llu: judged by what there is",
            c->series.count, (unsigned long long)c->args.runs);
    tw_stdout_restore();
    return print_verdict(command);
}

/* Bad use must not look like a bad commit to git bisect, so this holds before the options are
 * parsed. */
static bool asks_for_bisect(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--bisect") == 0)
            return true;
    return false;
}

/* Options that do not go together are refused before anything is made; then, and only then, Ctrl-C
 * is held. */
static int run(int argc, char **argv)
{
    struct tw_check_command c = {.pinned.plan.cpu = -1,
                                 .args.asked = {.level = TW_CHECK_LEVEL_NOT_GIVEN,
                                                .b_starts_at = TW_NOT_GIVEN,
                                                .runs = TW_NOT_GIVEN},
                                 .check = {.version = TWINRUN_VERSION,
                                           .series = {.front = &tw_terminal, .command = "check"}}};
    struct tw_check_asked *asked = &c.args.asked;
    struct tw_operands job;
    bool bisect = asks_for_bisect(argc, argv);
    int rc = tw_options_parse(&tw_command_check, argc, argv, &c.args, &job);
    if (rc < 0)
        rc = tw_check_options(&c, &job, RUNS);
    if (rc < 0) {
        tw_interrupt_hold();
        tw_progress_setup(asked->quiet || asked->show_output);
        /* The object stands alone on stdout: what jobs print goes to stderr. */
        if (c.args.json && asked->show_output)
            tw_stdout_reserve();
        rc = tw_check_prepare(&c);
        if (rc < 0)
            rc = check_job(&c);
        tw_stdout_restore();
        if (c.args.json && !c.printed)
            rc = tw_verdict_json_error(rc);
    }
    tw_check_fini(&c.check);
    tw_pins_close(&c.pinned);
    tw_free(asked->ignore.items);
    tw_free(c.args.keys.items);
    return tw_bisect_code(rc, bisect);
}

const struct tw_command tw_command_check = {
    "check",
    "run a job again, unchanged, and name the first place where the runs diverge",
    synopsis,
    "Runs COMMAND several times, unchanged, records what each run computed, and compares each run "
    "with the first. When they diverge, the verdict names the first place: step, rank, phase, "
    "tensor, "
    "operation and source line, whether it is the origin (its inputs were still equal) or only "
    "carries a difference on, and what was equal just before it.\n\n"
    "The first divergence ends the check; a later run is cut short some steps after it has "
    "diverged. "
    "The suspect steps are then run once more at operation level to name the operation (--no-zoom "
    "leaves that out). That takes at most --zoom-time, else as long as five runs, or a minute; "
    "twinrun zoom has no limit.\n\n"
    "Where runs differ only in printed numbers of which it is not known whether they are times "
    "(\"conv1: 3.2 ms\"), two more runs are made in which every clock that the job reads runs "
    "faster, while its waits stay as long: what follows the clock is a time (--no-clock leaves "
    "that out).\n\n"
    "With --a and --b two commands are compared that ought to compute the same: a continuous and a "
    "resumed job, two and four workers, two environments. Each is run by sh -c. When they differ, "
    "A is run once more, to tell whether A repeats itself.\n\n"
    "With --resume-with the interruption is made here: COMMAND is run whole; once more, and "
    "stopped after half of its steps as if the machine had gone away (or --half is run, which "
    "trains a part and ends); then CMD goes on in what that run left. Each of them has a scratch "
    "copy of the working folder, so no checkpoint of the whole run is found by the resumed one; "
    "files at absolute paths are shared, though. \"Same\" says that the resumed run went on from a "
    "later step than the first and computed from there what the whole run did.\n\n"
    "With --ranks the same command is run with several numbers of ranks: {ranks}, anywhere in its "
    "words, stands for the number. Between two numbers the weights after each step are compared, "
    "those that ranks hold parts of put together, bit for bit or by --tolerance; so are optimizer "
    "state, and gradients behind the reduction, where the recording shows that they stand for all "
    "ranks. Batches and activations are not. Runs with one number are compared in full, bit for "
    "bit. A rank that is missing, or a command whose runs have other numbers of ranks than were "
    "asked for, makes the verdict inconclusive.\n\n"
    "With --transplant the first run is as usual and shows how much is to be kept, the second one "
    "is recorded, and each step of the others starts with its values: one divergence does not hide "
    "the next. Every origin is listed with its rate; a boundary whose transplant stops the "
    "divergence carries it. For PyTorch jobs.\n\n"
    "With --pinned the runs are made with the pins that the last isolate of this very command, "
    "made in this folder, named: the fix, proven by one command. The verdict is then of the job "
    "with these pins on, and says so; \"same\" needs that each of them took effect in every run. A "
    "job whose code, configuration or data have changed, as far as the search recorded them, is "
    "refused. Keep the pins with twinrun run --pin, or make the fix that isolate names and check "
    "without --pinned.\n\n"
    "With --save-baseline, runs that agree leave a small text file that says what the job "
    "computes; with --against one run is held against it: the gate of a continuous integration. "
    "The verdict names the first step that differs, and the tensor where the file keeps the "
    "tensors of that step; beside it, what is another in this world (processor, versions).\n\n"
    "\"Same\" is said only when batches or inputs, and weights, gradients or outputs, were seen at "
    "every step of every run. What the job prints is stored in the run folders below the home; "
    "they stay until twinrun gc deletes them.\n\n"
    "Exactly what SAME, DIFFER, INCONCLUSIVE, ORIGIN and CARRIER mean: docs/verdict.md. The claims "
    "behind a verdict, with their evidence, stand in verdict.json in the last run's folder; python "
    "-m twinrun.recheck holds them against the recordings.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
