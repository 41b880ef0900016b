/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun report: documents for people who were not there.
 *
 * Of one run: was it slow for a while, and what moved with it? Of two sets: what do they differ in?
 * With --postmortem: an incident document on two runs that diverged. With --html: the runs as a
 * page. The facts are src/telemetry's, src/provenance's and the ledger's, the words
 * src/report/evidence's; what only people know stays an open question.
 */
#include "curves_report.h"
#include "diagnosis_report.h"
#include "incident_facts.h"
#include "options.h"
#include "page.h"
#include "runs.h"
#include "say.h"
#include "show_ledger.h"
#include "significant_sets.h"
#include "slow.h"
#include "terminal.h"
#include "verdict.h"

#include "base.h"

#include "src/compare/compare.h"
#include "src/report/incident.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct report_args {
    const char *home, *ledger, *output, *tolerance, *html;
    struct tw_strings ignore;
    bool postmortem, json;
};

#define FIELD(f) offsetof(struct report_args, f)

static const struct tw_option options[] = {
    {"postmortem", 0, TW_OPT_FLAG, NULL, NULL, "Kind",
     "two runs that diverged, as an incident document: Markdown, facts filled in, questions left "
     "open",
     FIELD(postmortem)},
    {"html", 0, TW_OPT_FILE, "FILE", NULL, "Kind",
     "one run or several, compared with the first one, as one HTML file with pictures that opens "
     "offline; into a folder that is there, index.html and a page of each run, which lead to each "
     "other",
     FIELD(html)},
    {"ignore", 'i', TW_OPT_LIST, "PATTERN", NULL, "Comparison",
     "leave out records whose phase/kind/name, or files whose name, match; file:GLOB: files alone; "
     "line:REGEX: printed lines and lines of files; number:FIRST-LAST:GLOB: single numbers in "
     "these steps",
     FIELD(ignore)},
    {"tolerance", 't', TW_OPT_FILE, "FILE", NULL, "Comparison",
     "also judge by these tolerances; the bitwise verdict is shown too", FIELD(tolerance)},
    {"output", 0, TW_OPT_FILE, "FILE", NULL, "Output",
     "write the document into FILE, not to stdout", FIELD(output)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(report_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "print one JSON object: the facts, and the document as \"markdown\"", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"[options] RUN",
                                       "[options] RUNS_A RUNS_B",
                                       "--postmortem RUN_A RUN_B [options]",
                                       "--html FILE RUN... [options]",
                                       "[--html FILE] CURVES...",
                                       NULL};
static const struct tw_pair exits[] = {
    {"0", "the report was written, whatever the runs did"},
    {"2", "trouble: bad use, no such run, a run that cannot be read"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun report last", "where the newest run was slow, and why"},
    {"twinrun report label:night label:day", "what is different by day?"},
    {"twinrun report --postmortem last~1 last >incident.md", "the last two runs"},
    {"twinrun report old.json new.json", "curves that `twinrun import` wrote"},
    {"twinrun report --html runs.html last~2 last~1 last",
     "three runs: where they differ, by how much, what they recorded"},
    {NULL, NULL},
};

/* What the ledger knows of the command and the runs. False: nobody could be asked; said. */
static bool ask_ledger(const struct report_args *a, const char *home, const char *command,
                       struct twin_run *const runs[2], struct tw_incident_facts *f)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = tw_ledger_open(home, a->ledger, NULL, NULL);
    if (!l)
        return false;
    const char *const id[2] = {runs[0]->id, runs[1]->id};
    int rc = tw_incident_ask(l, command, id, f, &err);
    twin_ledger_close(l);
    if (rc != 0)
        tw_trouble(&err, "report: the ledger cannot be read");
    return rc == 0;
}

/* The document, to a file, as JSON or to stdout. 0, or the exit code. */
static int hand_out(const struct report_args *a, const struct twin_incident *x)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = NULL;
    int rc = twin_incident_markdown(x, &text, &err);
    if (rc == 0 && a->output)
        rc = tw_write_file_atomic(a->output, text, strlen(text), &err);
    if (rc != 0)
        rc = tw_trouble(&err, "report: cannot write the document");
    else if (a->json)
        rc = tw_json_print(tw_incident_json(x, text));
    else if (!a->output)
        tw_put_lines(stdout, text);
    tw_free(text);
    return rc;
}

/* ---- the order of events */

/* Runs of different commands are arms. 0, or an exit code; said. */
static int compare_runs(const struct report_args *a, struct twin_run *const runs[2],
                        bool same_command, struct twin_verdict **v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_compare_options o = {.arms = !same_command,
                                     .find_shift = !same_command,
                                     .ignore = a->ignore.items,
                                     .ignore_count = a->ignore.count,
                                     .tolerance_file = a->tolerance};
    return twin_compare((const struct twin_run *const *)runs, 2, &o, v, &err) == 0
               ? 0
               : tw_trouble(&err, "report: cannot compare the runs");
}

/* Compares the runs, asks the ledger, and writes down what is known. The exit code. */
static int postmortem(const struct report_args *a, const char *home, struct twin_run *const runs[2])
{
    struct tw_incident_case c;
    struct twin_verdict *v = NULL;
    tw_incident_open(&c, runs);
    int rc = compare_runs(a, runs, c.x.same_command, &v);
    if (rc == 0) {
        c.x.ledger = ask_ledger(a, home, c.x.command, runs, &c.checks);
        tw_incident_gather(&c, v, home, &tw_terminal);
        rc = hand_out(a, &c.x);
    }
    tw_incident_close(&c);
    twin_verdict_free(v);
    return rc;
}

/* Prints what a report has written into k, unless it was one of JSON. */
static void show_text(struct tw_kept_text *k, const struct tw_style *style)
{
    const struct tw_look look = tw_text_look();
    tw_put_kept(stdout, k, &look, style);
}

/* Of two sets of runs. The exit code. */
static int diagnosis_report(const char *home, char *const operands[2], bool as_json)
{
    /* Sets of runs are named as significant names them; times are what every run has. */
    const struct tw_measure wall = {TW_METRIC_WALL, "wall"};
    struct tw_set set[2] = {{.n = 0}, {.n = 0}};
    struct twin_error err = TWIN_ERROR_INIT;
    json_t *json = NULL;
    struct tw_kept_text k;
    int rc = tw_keep_text(&k, &err);
    if (rc == 0)
        rc = tw_set_read(operands[0], home, &wall, &set[0], &err);
    if (rc == 0)
        rc = tw_set_read(operands[1], home, &wall, &set[1], &err);
    if (rc != 0)
        rc = tw_trouble(&err, "nothing was compared");
    if (rc == 0 && tw_diagnosis_report(set, k.file, as_json ? &json : NULL, &err) != 0)
        rc = tw_trouble(&err, "report: cannot compare the runs");
    else if (rc == 0 && as_json)
        rc = tw_json_print(json);
    show_text(&k, &tw_diagnosis_style);
    tw_set_free(&set[0]);
    tw_set_free(&set[1]);
    return rc;
}

/* The searches for a cause that the run belongs to, if there is a ledger. j NULL: as text to out.
 */
static void show_searches(const char *home, const char *url, const struct twin_run *r, FILE *out,
                          json_t *j)
{
    struct twin_ledger *l = r->id ? tw_ledger_open(home, url, NULL, NULL) : NULL;
    if (l)
        tw_ledger_show_searches(l, r->id, out, j, &tw_terminal);
    twin_ledger_close(l);
}

/* Of one run. The exit code. */
static int slow_report(const struct twin_run *r, const char *home, const struct report_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    json_t *json = NULL;
    struct tw_kept_text k;
    if (tw_keep_text(&k, &err) != 0)
        return tw_trouble(&err, "report");
    const int rc = tw_slow_report(r, k.file, a->json ? &json : NULL, &tw_terminal);
    if (rc == 0)
        show_searches(home, a->ledger, r, k.file, json);
    show_text(&k, &tw_slow_style);
    if (rc != 0)
        return TW_EXIT_TROUBLE;
    return a->json ? tw_json_print(json) : 0;
}

/* ---- recorded runs as a page */

/* What --html was given with. */
struct report_page {
    const char *html, *tolerance, *home, *ledger;
    const struct tw_strings *ignore;
};

/* Compares the runs, and writes what that came to. Of one run there is nothing to compare: it is
 * shown. Runs of different commands are arms, which may be shifted. */
static int write_page(const struct twin_run *const *runs, size_t count, const char *command,
                      bool arms, const struct report_page *what)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_verdict *v = NULL;
    const struct twin_compare_options o = {.arms = arms,
                                           .find_shift = arms,
                                           .ignore = what->ignore->items,
                                           .ignore_count = what->ignore->count,
                                           .tolerance_file = what->tolerance};
    if (twin_compare(runs, count, &o, &v, &err) != 0)
        return tw_trouble(&err, "report: cannot compare the runs");
    json_t *found = count == 1 ? json_object() : NULL;
    if (found)
        show_searches(what->home, what->ledger, runs[0], NULL, found);
    const struct twin_report r = {.verdict = v,
                                  .runs = runs,
                                  .run_count = count,
                                  .verb = "report",
                                  .command = arms ? NULL : command,
                                  .searches = json_object_get(found, "searches")};
    int rc = tw_verdict_page(&r, &o, what->html);
    json_decref(found);
    twin_verdict_free(v);
    return rc;
}

/* Opens the named runs and writes the page. An exit code; said. */
static int page_of_runs(const char *home, const struct tw_operands *names,
                        const struct report_page *what)
{
    char *first = NULL;
    bool arms = false;
    /* Comparing may take minutes: whether the page can be written is found out before. */
    int rc = tw_pages_check("report", what->html);
    struct twin_run **runs = rc == 0 ? tw_runs_open("report", home, names) : NULL;
    for (size_t i = 0; runs && i < names->count; i++) {
        char *command = tw_shell_quote(runs[i]->argv, runs[i]->argc);
        arms |= first && command && strcmp(first, command) != 0;
        if (first)
            tw_free(command);
        else
            first = command;
    }
    if (runs)
        rc = write_page((const struct twin_run *const *)runs, names->count, first, arms, what);
    else if (rc == 0)
        rc = TW_EXIT_TROUBLE;
    tw_runs_close(runs, names->count);
    tw_free(first);
    return rc;
}

/* ---- runs that twinrun did not record */

/* Are all of them files that hold a JSON object, as `twinrun import` writes? Recorded runs are
 * folders, and files of plain numbers begin otherwise. */
static bool are_curves(const struct tw_operands *given)
{
    for (size_t i = 0; i < given->count; i++) {
        struct stat st;
        int c = EOF;
        FILE *f = stat(given->items[i], &st) == 0 && S_ISREG(st.st_mode)
                      ? fopen(given->items[i], "re")
                      : NULL;
        do
            c = f ? getc(f) : EOF;
        while (c == ' ' || c == '\t' || c == '\r' || c == '\n');
        if (f)
            fclose(f);
        if (c != '{')
            return false;
    }
    return given->count > 0;
}

/* Reads them and says what can be said. An exit code; said. */
static int report_curves(const struct report_args *a, const struct tw_operands *given)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_curves *file = tw_calloc(given->count, sizeof *file);
    struct tw_curves_noise *noise = tw_calloc(given->count, sizeof *noise);
    const struct tw_curves_report r = {.file = file, .noise = noise, .files = given->count};
    int rc = tw_page_check("report", a->html);
    if (rc != 0) {
        tw_free(file);
        tw_free(noise);
        return rc;
    }
    rc = file && noise ? 0 : tw_no_memory(&err, "for curves");
    for (size_t i = 0; rc == 0 && i < given->count; i++) {
        rc = tw_curves_read(given->items[i], &file[i], &err);
        rc = rc ? rc : tw_curves_noise(&file[i], &noise[i], &err);
    }
    if (rc != 0)
        rc = tw_trouble(&err, "report: the curves cannot be read");
    else if (a->html)
        rc = tw_page_write("report", tw_curves_page(&r), a->html);
    else if (a->json)
        rc = tw_json_print_exact(tw_curves_json(&r));
    else
        tw_curves_text(stdout, &r);
    for (size_t i = 0; file && i < given->count; i++)
        tw_curves_free(&file[i]);
    tw_free(file);
    tw_free(noise);
    return rc;
}

static int run(int argc, char **argv)
{
    struct report_args a = {0};
    struct tw_operands rest;
    struct twin_run *runs[2] = {NULL, NULL};
    int rc = tw_options_parse(&tw_command_report, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    const bool curves = are_curves(&rest);
    if (curves && (a.postmortem || a.output || a.ignore.count || a.tolerance))
        return tw_bad_use("report", "curves that were imported are numbers alone: expected none of "
                                    "--postmortem, --output, --ignore, --tolerance");
    if (curves && !(a.html && a.json))
        return report_curves(&a, &rest);
    if (a.postmortem && (rest.count != 2 || a.html))
        return a.html ? tw_bad_use("report", "expected --postmortem or --html, found both")
                      : tw_bad_use("report", "expected two runs for --postmortem, found %zu",
                                   rest.count);
    if (!a.postmortem && !a.html && rest.count > 2)
        return tw_bad_use("report", "expected one run, or two sets of runs, found %zu", rest.count);
    if (!a.postmortem && (a.output || (!a.html && (a.ignore.count || a.tolerance))))
        return tw_bad_use(
            "report",
            "expected --postmortem with --output, and it or --html with --ignore and --tolerance");
    if (a.html && a.json)
        return tw_bad_use("report",
                          "a page has no form in JSON; twinrun diff --json has the verdict");
    char *given = tw_home_to_read(a.home), *home = given ? tw_path_absolute(given, NULL) : NULL;
    rc = home ? 0
              : tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM},
                           "report: cannot open the runs");
    if (rc == 0 && a.html) {
        rc = page_of_runs(home, &rest,
                          &(struct report_page){.html = a.html,
                                                .tolerance = a.tolerance,
                                                .home = home,
                                                .ledger = a.ledger,
                                                .ignore = &a.ignore});
        rest.count = 0;
    }
    if (rc == 0 && !a.postmortem && rest.count == 2) {
        rc = diagnosis_report(home, rest.items, a.json);
        rest.count = 0;
    }
    for (size_t i = 0; rc == 0 && i < rest.count; i++)
        rc = (runs[i] = tw_run_open(home, rest.items[i])) ? 0 : TW_EXIT_TROUBLE;
    if (rc == 0 && !a.postmortem && runs[0])
        rc = slow_report(runs[0], home, &a);
    else if (rc == 0 && runs[0])
        rc = postmortem(&a, home, runs);
    twin_run_free(runs[0]);
    twin_run_free(runs[1]);
    tw_free(home);
    tw_free(given);
    tw_free(a.ignore.items);
    return rc;
}

const struct tw_command tw_command_report = {
    "report",
    "explain a slow run, a difference or an incident; write a page",
    synopsis,
    "One run: was it slow for a while, and what moved with it? Was one rank slower than the others "
    "all through? From the step times and counters that were recorded with it (docs/telemetry.md). "
    "Of a run that isolate made, what its search found is said, too. "
    "Two sets of runs, each a run, several with commas between, or label:NAME: do they differ in "
    "their numbers, in their speed, or in both, from which source, and which practice addresses "
    "it.\n\n"
    "With --postmortem, compares two runs and writes what is known of them as Markdown: what ran, "
    "how their worlds differ, the first divergence, the cause if an isolate search of this command "
    "is on record, the checks on record, a timeline. What only people know stays an open question. "
    "Nothing in it is guessed.\n\n"
    "With --html, compares runs with the first one and writes one self-contained HTML file: the "
    "verdict, the first divergence, and pictures of where the runs differ, by how much, how that "
    "grows, what they recorded and how long their steps took. check, diff, isolate and others "
    "write theirs with --html, too.\n\n"
    "Files that `twinrun import` wrote are runs that twinrun did not record: their curves, how far "
    "they lie apart, and what cannot be said of them (docs/import.md). Equal curves are equal "
    "numbers and never the verdict SAME.",
    options,
    TW_OPERANDS_RUNS,
    1,
    64,
    exits,
    examples,
    run,
};
