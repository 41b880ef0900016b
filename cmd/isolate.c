/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun isolate: finds, by controlled experiment, what makes the runs of a job diverge.
 *
 * This file has the table of options, the order of events and the output. What is a candidate, how
 * the runs are made and what they prove is src/isolate's (search.h); the words, the page and known
 * cases are src/report/isolation's; what to type next is isolate_next.c. A search writes a log as
 * it goes, so that one that was interrupted goes on with --resume.
 */
#include "isolate.h"

#include "terminal.h"
#include "say.h"
#include "on.h"
#include "page.h"
#include "run_state.h"
#include "runs.h"
#include "verdict.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELD(f) offsetof(struct tw_isolate_options, f)
#define SEARCH(f) offsetof(struct tw_isolate_options, search.f)

static const struct tw_option options[] = {
    {"a", 0, TW_OPT_STRING, "CMD", NULL, "Arms",
     "first of two commands that ought to compute the same; run by sh -c", SEARCH(a)},
    {"b", 0, TW_OPT_STRING, "CMD", NULL, "Arms",
     "the second one: what of it makes its runs diverge from those of A?", SEARCH(b)},
    {"through", 0, TW_OPT_FLAG, NULL, NULL, "Arms",
     "A and B differ in something that you have set: through which factor does it act? Both run "
     "under the same pins, until they agree",
     SEARCH(through)},
    {"max-runs", 'n', TW_OPT_COUNT, "N", "200", "Budget", "make at most N runs", SEARCH(max_runs),
     1, 100000},
    {"max-time", 0, TW_OPT_SECONDS, "TIME", NULL, "Budget",
     "spend at most TIME on runs (90, 90s, 10m, 2h)", SEARCH(max_time)},
    {"jobs", 'j', TW_OPT_COUNT, "N", "1", "Budget",
     "make up to N runs at the same time, each in a scratch copy of the working folder "
     "(--fresh-dir). They share the machine: causes that hang on timing may show more often or "
     "less, and what a pin costs is not measured",
     SEARCH(jobs), 1, 64},
    TW_ON_OPTIONS(SEARCH(engine.on), SEARCH(engine.place), SEARCH(engine.hosts),
                  SEARCH(engine.slots)),
    {"steps", 's', TW_OPT_COUNT, "N", NULL, "Budget", "end each run after N steps", SEARCH(steps),
     1, UINT32_MAX - 1},
    {"seed", 0, TW_OPT_COUNT, "N", NULL, "Budget",
     "draw the order of the runs, and their nodes, from N: the same search again, as far as the "
     "job "
     "allows (unless given: from the system; the report names it)",
     SEARCH(seed), 1, INT64_MAX},
    {"resume", 0, TW_OPT_FLAG, NULL, NULL, "Budget",
     "go on with the newest search of this job that was interrupted", SEARCH(resume)},
    {"thorough", 0, TW_OPT_FLAG, NULL, NULL, "Budget",
     "go on until the causes that were found are shown to be all there is (14 clean comparisons), "
     "or another one is found",
     SEARCH(thorough)},
    {"pin", 'p', TW_OPT_STRING, "LIST", NULL, "Factors",
     "the candidates: all (unless given), ids from `twinrun factors`, or all,-ID to leave one out. "
     "With --a and --b: what every run holds still; nothing unless given",
     SEARCH(pin)},
    {"factor-file", 0, TW_OPT_FILE, "FILE", NULL, "Factors", "factors of your own (TOML)",
     SEARCH(factor_file)},
    {"ignore", 'i', TW_OPT_LIST, "PATTERN", NULL, "Comparison",
     "leave out records whose phase/kind/name, or files whose name, match; file:GLOB: files alone; "
     "line:REGEX: printed lines and lines of files; number:FIRST-LAST:GLOB: single numbers in "
     "these steps",
     SEARCH(ignore)},
    {"text", 0, TW_OPT_FLAG, NULL, NULL, "Comparison",
     "take text and files that differ for a divergence, too: names, paths, orders of words",
     SEARCH(text)},
    {"no-clock", 0, TW_OPT_FLAG, NULL, NULL, "Comparison",
     "do not make two more runs under faster clocks where it is not known whether numbers that "
     "differ are times",
     SEARCH(no_clock)},
    TW_DATA_OPTION(FIELD(data)),
    {"fresh-dir", 0, TW_OPT_FLAG, NULL, NULL, "Comparison",
     "run each time in a scratch copy of the working folder", SEARCH(fresh_dir)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"no-cases", 0, TW_OPT_FLAG, NULL, NULL, "Known cases",
     "do not look for known cases that look alike", FIELD(no_cases)},
    {"save-case", 0, TW_OPT_STRING, "ID", NULL, "Known cases",
     "when a cause is isolated, write it down as case ID in the home's cases folder",
     FIELD(save_case)},
    {"html", 0, TW_OPT_FILE, "FILE", NULL, "Output",
     "also write the report as one HTML page (report.html in the search's folder has it in any "
     "case); into a folder that is there, index.html and a page of each run",
     FIELD(html)},
    TW_LEDGER_OPTION(tw_isolate_options, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print the result as one JSON object",
     FIELD(json)},
    {"verbose", 'v', TW_OPT_FLAG, NULL, NULL, "Output",
     "also the whole plan before the first run, and all that the answer rests on: what was tried, "
     "how the fresh runs were arranged, where each natural run diverged (report.html has it in any "
     "case)",
     FIELD(verbose)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output",
     "only the result: no plan, no progress, no line per run", SEARCH(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options] -- COMMAND [ARG...]", "[options] --a CMD --b CMD",
                                       NULL};
static const struct tw_pair exits[] = {
    {"0", "the runs, or the arms, do not diverge, as far as check would say \"same\" of them; what "
          "that excludes is printed"},
    {"1", "isolated: a cause was shown to matter; the verdict says whether it was shown to be all "
          "there is"},
    {"2", "trouble: bad use, the home cannot be written, the job fails every time"},
    {"3", "not isolated: outside the pins, not enough runs, the divergence went away, or A does "
          "not repeat itself; inconclusive: nothing diverged, but what was seen does not suffice "
          "to say that there is nothing, and the answer names what was unseen"},
    {"130", "interrupted by Ctrl-C; --resume goes on"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun isolate -- python train.py", "what makes it diverge, and the pin that stops it"},
    {"twinrun isolate --steps 20 --pin threads,torch-deterministic,hash-seed -- python train.py",
     "short runs, three candidates"},
    {"twinrun isolate --jobs 4 -- python train.py", "four runs at the same time"},
    {"twinrun isolate --resume -- python train.py", "go on after an interruption"},
    {"twinrun isolate --a 'OMP_NUM_THREADS=1 python train.py' --b 'OMP_NUM_THREADS=4 python "
     "train.py --workers 2'",
     "which of the differences makes them diverge?"},
    {"twinrun isolate --through --a 'python train.py --data /mnt/a' --b 'python train.py --data "
     "/mnt/b'",
     "equal data, another place: does it act through the order of directories?"},
    {NULL, NULL},
};

/* ---- before the first run */

static int candidates(struct tw_isolate *c, struct twin_error *err)
{
    struct twin_world all = {0};
    int rc = twin_factors_load(c->args.factor_file, &c->factors, err);
    if (rc == 0 && tw_isolate_order_can_be_set(c))
        twin_factors_with_recording(&c->factors);
    if (rc == 0 && tw_isolate_nodes_open(c))
        twin_factors_with_nodes(&c->factors);
    twin_factors_on_trial(&c->factors);
    if (rc == 0)
        rc = twin_world_parse(&c->factors, c->args.pin ? c->args.pin : "all", &all, NULL, err);
    if (rc != 0)
        return rc;
    c->factor = tw_calloc(all.count + 1, sizeof *c->factor);
    c->candidate = tw_calloc(all.count + 1, sizeof *c->candidate);
    c->effect = tw_calloc(all.count + 1, sizeof *c->effect);
    if (!c->factor || !c->candidate || !c->effect)
        rc = twin_error_set(err, TWIN_ENOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        const struct twin_factor *f = all.setting[i].factor;
        c->factor[c->count] = f;
        c->nodes.used |= strcmp(f->id, "node") == 0;
        /* Every pin is only freed, and nothing is shaken: a value that natural runs never took
         * would try innocents, too. */
        c->candidate[c->count++] = (struct twin_candidate){
            .id = f->id,
            .layer = f->layer,
            .unit = f->unit,
            .can_pin = true,
            /* what may break the job is no part of the pinned world, unless it was named */
            .last_resort = f->last_resort || all.setting[i].on_trial,
            .may_not_hold = strcmp(f->id, "match-order") == 0,
        };
    }
    twin_world_free(&all);
    return rc;
}

/* Everything that can be wrong before the first run: where results go, the data, the candidates,
 * the plan, the log. -1, or the exit code after a complaint. */
static int prepare_search(struct tw_isolate_command *command)
{
    const struct tw_isolate_options *a = &command->args;
    struct tw_isolate *c = &command->search;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_search_options o = {.max_runs = (uint32_t)c->args.max_runs,
                                    .max_seconds = (double)c->args.max_time,
                                    .arms = c->args.a != NULL && !c->args.through,
                                    .thorough = c->args.thorough,
                                    .seed = c->args.seed,
                                    .parallel = (uint32_t)c->args.jobs};
    if (tw_pages_check("isolate", a->html) != 0)
        return TW_EXIT_TROUBLE;
    c->home = tw_home_for_runs(a->home, "isolate");
    if (!c->home)
        return TW_EXIT_TROUBLE;
    int rc = tw_on_open("isolate", &command->remote, &c->args.engine, c->home);
    if (rc >= 0)
        return rc;
    c->on = &command->remote;
    /* jobs of other machines write into one working folder, too */
    c->args.fresh_dir |= command->remote.engine != NULL;
    rc = tw_data_verify("isolate", &a->data, c->home, c->args.quiet, &c->data);
    if (rc >= 0)
        return rc;
    if (a->save_case && tw_known_may_save(c->home, a->save_case, &err) != 0)
        return tw_trouble(&err, "isolate: --save-case");
    /* Between two commands the candidates are what differs between them, else the factors. */
    if ((o.arms ? tw_isolate_arms_open(c, &err) : candidates(c, &err)) != 0)
        return tw_trouble(&err, "isolate");
    if (twin_search_plan(c->candidate, c->count, &o, &c->plan, &err) != 0)
        return tw_trouble(&err, "isolate: no plan");
    if (tw_isolate_log_open(c, &err) != 0)
        return tw_trouble(&err, "isolate: cannot keep the search");
    if (!isatty(STDIN_FILENO)) /* each run is to read the same bytes */
        c->spool = tw_printf("%s/stdin", c->journal.folder);
    return -1;
}

/* ---- after the last run */

/* The object that --json prints when there is no result: outcome "error" and what was said. Returns
 * code. */
static int json_error(int code)
{
    json_t *j = json_pack("{s:s, s:s, s:o, s:[], s:i}", "schema", "twinrun.isolate/1", "outcome",
                          "error", "message", tw_json_text(tw_said()), "causes", "runs_used", 0);
    return tw_json_print(j) != 0 ? TW_EXIT_TROUBLE : code;
}

/* The outcome with its causes, and at most the first RUNS of the runs: a ledger is to find things
 * again, and the log of the search has them all. */
static void note_in_ledger(const struct tw_isolate *c, const char *url,
                           const struct twin_isolation *x, const struct twin_search_report *r)
{
    enum { RUNS = 50 };
    const struct twin_run *runs[RUNS];
    struct tw_buf causes = {0};
    size_t n = 0;
    for (size_t i = 0; i < c->run_count && n < RUNS; i++)
        if (c->runs[i].run)
            runs[n++] = c->runs[i].run;
    for (size_t i = 0; i < r->cause_count; i++)
        tw_buf_printf(&causes, "%s%s", i ? ", " : "", c->factor[r->cause[i].candidate]->id);
    char *command = c->arms ? NULL : tw_shell_quote(c->argv, 0);
    tw_ledger_note(&(struct tw_noted){.home = c->home,
                                      .url = url,
                                      .verb = "isolate",
                                      .command = command ? command : x->command,
                                      .outcome = x->outcome,
                                      .first = x->first,
                                      .cause = causes.data ? causes.data : "",
                                      .runs = runs,
                                      .count = n});
    tw_free(command);
    tw_buf_free(&causes);
}

/* A job that fails has mostly said why: its first run that ended badly. */
static void show_tail(struct tw_isolate *c)
{
    char who[32];
    uint32_t number;
    const struct twin_run *run = tw_isolate_failed(c, &number);
    snprintf(who, sizeof who, "run %u", number);
    if (run)
        tw_run_show_tail(&tw_terminal, who, run);
}

/* Prints the result and keeps it in every form; returns the exit code. */
static int report(struct tw_isolate_command *command, const struct twin_search_report *r)
{
    static const int code[] = {
        [TWIN_SEARCH_ISOLATED] = TW_EXIT_DIFFER,
        [TWIN_SEARCH_NO_DIVERGENCE] = TW_EXIT_SAME,
        [TWIN_SEARCH_OUTSIDE] = TW_EXIT_INCONCLUSIVE,
        [TWIN_SEARCH_HARDWARE] = TW_EXIT_INCONCLUSIVE,
        [TWIN_SEARCH_NOT_ENOUGH] = TW_EXIT_INCONCLUSIVE,
        [TWIN_SEARCH_UNEXPLAINED] = TW_EXIT_INCONCLUSIVE,
        [TWIN_SEARCH_INTERRUPTED] = TW_EXIT_INTERRUPTED,
        [TWIN_SEARCH_JOB_FAILS] = TW_EXIT_TROUBLE,
        [TWIN_SEARCH_UNSEEN] = TW_EXIT_INCONCLUSIVE,
        [TWIN_SEARCH_UNSTEADY] = TW_EXIT_INCONCLUSIVE,
        [TWIN_SEARCH_GONE] = TW_EXIT_INCONCLUSIVE,
    };
    const struct tw_isolate_options *a = &command->args;
    struct tw_isolate *c = &command->search;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_isolate_result found;
    const struct tw_look look = tw_lines_look();
    int rc = 0, saved = 0;
    /* All words of the result, made once for text, JSON, page and ledger. */
    tw_isolate_result(c, r, tw_isolate_next(command, r), tw_isolate_then(command, r), &found);
    if (!a->no_cases)
        tw_isolate_look_up(c, &found);
    command->reported = true;
    if (a->json)
        rc = tw_json_print(tw_isolate_json(c, &found.x, r));
    else
        tw_isolate_text(stdout, &look, c, &found.x, r, a->verbose);
    int page = tw_isolate_save_pages(c, &found, a->html, &err);
    if (page != 0)
        page = tw_trouble(&err, "isolate: the report is not written as a page");
    if (a->save_case && tw_isolate_save_case(c, &found, a->save_case, &err) != 0)
        saved = tw_trouble(&err, "isolate: --save-case");
    note_in_ledger(c, a->ledger, &found.x, r);
    if (r->outcome == TWIN_SEARCH_JOB_FAILS && !a->json)
        show_tail(c);
    fflush(stdout);
    tw_isolate_keep_claims(c, r);
    tw_isolate_result_free(&found);
    return rc || page || saved ? TW_EXIT_TROUBLE : code[r->outcome];
}

/* The plan is said before the first run, as it is fixed by then; then the runs, then those that ask
 * who in the job is behind the cause. */
static int search_cause(struct tw_isolate_command *command)
{
    struct tw_isolate *c = &command->search;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_search_report *r = NULL;
    char *plan = NULL;
    if (!c->args.quiet)
        plan = command->args.verbose ? twin_search_plan_text(&c->plan)
                                     : twin_search_plan_line(&c->plan);
    /* On stderr, since stdout is the answer's. */
    if (plan)
        tw_put_lines(stderr, plan);
    free(plan);
    if (twin_search(c->candidate, &c->plan, tw_isolate_run, tw_isolate_log_save, c, &c->log, &r,
                    &err) != 0)
        return tw_trouble(&err, "isolate: the search ended; what was found stands in %s",
                          c->journal.folder);
    /* Runs after the search: do arms repeat, and who in the job asks for what was found? */
    tw_isolate_a_again(c, r);
    tw_isolate_try_threads(c, r);
    tw_isolate_ask_who(c, r);
    tw_isolate_which_node(c, r);
    int rc = report(command, r);
    twin_search_report_free(r);
    return rc;
}

/* Frees the search, also one that ended early. */
static void fini(struct tw_isolate *c)
{
    for (size_t i = 0; i < c->run_count; i++)
        twin_run_free(c->runs[i].run);
    for (size_t i = 0; i < c->count; i++)
        tw_free(c->effect[i].text);
    tw_isolate_arms_close(c);
    tw_held_threads_free(&c->threads.held);
    tw_isolate_order_close(c);
    tw_isolate_nodes_close(c);
    for (size_t i = 0; i < c->consumer_count; i++) {
        for (size_t k = 0; k < c->consumer[i].count; k++)
            tw_free(c->consumer[i].text[k]);
        tw_free(c->consumer[i].text);
    }
    tw_free(c->consumer);
    tw_free(c->runs);
    tw_free(c->made);
    tw_free(c->effect);
    tw_free(c->candidate);
    tw_free(c->factor);
    twin_factors_free(&c->factors);
    twin_search_log_free(&c->log);
    twin_verdict_free(c->first);
    if (c->spool)
        unlink(c->spool);
    tw_free(c->spool);
    tw_free(c->unseen);
    for (size_t i = 0; i < c->clock_count; i++)
        tw_free(c->clock[i].text);
    tw_journal_close(&c->journal);
    tw_free(c->home);
    tw_free(c->args.ignore.items);
}

/* Either one command, or two. -1, or the exit code after a complaint. */
static int choose_arms(const struct tw_isolate_args *a, const struct tw_operands *job)
{
    if (job->count && (a->a || a->b))
        return tw_bad_use("isolate", "expected either -- COMMAND or --a CMD --b CMD, found both");
    if (!job->count && !a->a && !a->b)
        return tw_bad_use(
            "isolate",
            "expected the job's command after --; write: twinrun isolate -- python train.py");
    if (job->count && a->through)
        return tw_bad_use("isolate", "--through belongs to --a and --b");
    if (!job->count && (!a->a || !a->b))
        return tw_bad_use("isolate", "expected two arms, found only --%s; give --%s too",
                          a->a ? "a" : "b", a->a ? "b" : "a");
    return -1;
}

static int run(int argc, char **argv)
{
    struct tw_isolate_command x = {
        .search = {.front = &tw_terminal, .journal = {.fd = -1}, .level = TWIN_LEVEL_TENSORS}};
    struct tw_isolate *c = &x.search;
    struct tw_operands job;
    int rc = tw_options_parse(&tw_command_isolate, argc, argv, &x.args, &job);
    if (rc < 0)
        rc = choose_arms(&x.args.search, &job);
    /* runs at the same time must not write over each other's files */
    x.args.search.fresh_dir |= x.args.search.jobs > 1;
    c->args = x.args.search;
    if (rc < 0) {
        c->argv = job.items;
        /* With --through both commands are run in each trial; the search itself sees the second
         * one. */
        if (c->args.through) {
            tw_shell_argv(c->args.a, c->shell[0]);
            tw_shell_argv(c->args.b, c->shell[1]);
            c->argv = c->shell[1];
        }
        tw_interrupt_hold();
        tw_progress_setup(c->args.quiet);
        rc = prepare_search(&x);
        if (rc < 0)
            rc = search_cause(&x);
        if (x.args.json && !x.reported)
            rc = json_error(rc);
    }
    fini(c);
    tw_remote_close(&x.remote);
    return rc;
}

const struct tw_command tw_command_isolate = {
    "isolate",
    "find, by controlled experiment, what makes the runs of a job diverge",
    synopsis,
    "Runs COMMAND until runs have diverged twice (or 14 comparisons were clean), then with the "
    "most "
    "suspected factors pinned until one pin is left that stops the divergence; where that does not "
    "decide, in a world where every factor is pinned and some are freed. Last, on fresh runs, free "
    "and pinned ones in an arrangement drawn beforehand, none may diverge under the pins; the p "
    "value "
    "is the share of arrangements that would look at least as convincing, so it does not matter "
    "what else changes meanwhile. A natural run that diverges comes last. `isolated (main cause)` "
    "says that the pin matters and how often runs may still diverge with it (95%); `isolated` "
    "alone, "
    "that this is at most 20%, which takes 14 clean comparisons: --thorough goes on until then. "
    "What natural runs have not met is left out. Where the cause is the system's entropy, the time "
    "or the order of directories, one more run names the job's lines that ask for it, and, where "
    "several do, runs in which single lines get other values say which of them matter; where it "
    "lies outside the pins, those that ask for what no pin reaches (process id, monotonic clock). "
    "Criteria, error rates and budget are fixed before the first run and written to the search's "
    "folder below the home (searches/), where report.html, a page that needs nothing but a "
    "browser, lies in the end. What a named cause rests on stands in verdict.json there: python -m "
    "twinrun.recheck holds it against the recordings.\n\n"
    "Where natural runs differ in printed numbers of which it is not known whether they are times, "
    "two more runs are made in which every clock that the job reads runs faster, while its waits "
    "stay as long, as check does: what follows the clock is a time and no divergence, so the clock "
    "is not named for it (--no-clock leaves that out).\n\n"
    "A factor is one source of variation: `twinrun factors` lists them, with what each pin "
    "does.\n\n"
    "When the first divergence looks like a known case, that is said as a hint. Cases of one's own "
    "lie in the home (cases/); --save-case writes one. docs/cases.md has the format.\n\n"
    "With --a and --b the factors are what differs between two commands that ought to compute the "
    "same: variables (env:NAME), options (arg:--option), other arguments (arg:N, the N-th), the "
    "program. A is compared with itself, B with A; then A is run with some of the differences as "
    "in B, until those are found that make it diverge. Last, on fresh runs, B with the set as in A "
    "must agree with A, and A with the set as in B must diverge. `&&`, `;` and pipes must be the "
    "same "
    "in both. When A does not repeat itself, isolate A first, or hold still what is known to vary "
    "with --pin. When all that was found is an argument or a variable that you set, --through goes "
    "on: both commands run under the same pins, and the pin under which they agree is what the "
    "difference acts through, when A repeats itself without it; whether it does, up to three runs "
    "more tell.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
