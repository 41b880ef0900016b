/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun diff: compares recorded runs, also of two machines, and gives the verdict that check
 * gives.
 *
 * Nothing is run. Runs of different commands are taken for arms that ought to compute the same, so
 * the place where the second begins in the first is looked for by its weights. With --env the
 * worlds of two runs are compared instead of what they computed.
 */
#include "again.h"
#include "say.h"
#include "runs.h"
#include "diff_mpi.h"
#include "options.h"
#include "page.h"
#include "show_provenance.h"
#include "terminal.h"
#include "verdict.h"
#include "zoom_runs.h"

#include "base.h"
#include "phrase.h"

#include "src/compare/compare.h"

#include <string.h>
#include <unistd.h>

/* What the command line gave; NULL, false or 0 where it gave nothing, b_starts_at TW_NOT_GIVEN. */
struct diff_args {
    const char *home, *junit, *html, *tolerance, *ledger;
    uint64_t steps, b_starts_at;
    struct tw_strings ignore;
    bool json, github, bisect, env, mpi;
};

#define FIELD(f) offsetof(struct diff_args, f)
/* Each is compared with the first: more than this is a mistake of a shell's pattern. */
enum { MAX_RUNS = 1000 };
/* Some seconds of reading. */
#define GLANCE_BYTES (2ull << 30)

static const struct tw_option options[] = {
    {"ignore", 'i', TW_OPT_LIST, "PATTERN", NULL, "Comparison",
     "leave out records whose phase/kind/name, or files whose name, match; file:GLOB: files alone; "
     "line:REGEX: printed lines and lines of files; number:FIRST-LAST:GLOB: single numbers in "
     "these steps",
     FIELD(ignore)},
    {"tolerance", 't', TW_OPT_FILE, "FILE", NULL, "Comparison",
     "also judge by these tolerances; the bitwise verdict is shown too", FIELD(tolerance)},
    {"steps", 's', TW_OPT_COUNT, "N", NULL, "Comparison", "compare only the first N steps",
     FIELD(steps), 1, UINT32_MAX - 1},
    {"b-starts-at", 0, TW_OPT_COUNT, "K", NULL, "Comparison",
     "step of the first run at which the others begin; found by the weights unless given, when the "
     "commands differ",
     FIELD(b_starts_at), 0, UINT32_MAX - 1},
    {"env", 'e', TW_OPT_FLAG, NULL, NULL, "Comparison",
     "compare what surrounded the runs instead: code, libraries, settings, machine", FIELD(env)},
    {"mpi", 0, TW_OPT_FLAG, NULL, NULL, "Comparison",
     "share the work among the processes of mpirun -n N twinrun diff --mpi, over shared storage",
     FIELD(mpi)},
    {"bisect", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "exit code 125 instead of 2 and 3, for git bisect run", FIELD(bisect)},
    {"github", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "also print annotations for GitHub Actions, and add to its job summary", FIELD(github)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(diff_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print the verdict as one JSON object",
     FIELD(json)},
    TW_PAGES_OPTION(diff_args, html),
    {"junit", 0, TW_OPT_FILE, "FILE", NULL, "Output", "also write the verdict as JUnit XML",
     FIELD(junit)},
    {NULL},
};

static const char *const synopsis[] = {"[options] RUN_A RUN_B [RUN...]", NULL};
static const struct tw_pair exits[] = {
    {"0", "same, bit for bit or within the tolerance"},
    {"1", "the runs differ"},
    {"2", "trouble: bad use, no such run, a run that cannot be read"},
    {"3", "inconclusive: what was seen does not suffice to say \"same\"; the verdict names what "
          "was unseen"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun diff last~1 last", "the last two runs"},
    {"twinrun diff --env last~1 last", "what differs in code, libraries, settings and machine"},
    {"twinrun diff here/2026-11-21T08-00-00Z-1f2e3d4c /mnt/there/2026-11-21T08-10-00Z-9a8b7c6d",
     "run folders of two machines"},
    {"mpirun -n 8 twinrun diff --mpi /shared/run-a /shared/run-b",
     "two runs of thousands of ranks, by eight processes"},
    {NULL, NULL},
};

/* Only where there is a home: looking at folders from elsewhere makes none. */
static void note_in_ledger(const struct diff_args *a, const struct twin_verdict *v,
                           const struct twin_run *const *runs, size_t count)
{
    char *given = tw_home_to_read(a->home);
    char *home = given ? tw_path_absolute(given, NULL) : NULL;
    char *command = tw_shell_quote(runs[0]->argv, runs[0]->argc);
    if (home && access(home, W_OK) == 0)
        tw_ledger_note(&(struct tw_noted){.home = home,
                                          .url = a->ledger,
                                          .verb = "diff",
                                          .command = command,
                                          .outcome = twin_verdict_name(v->outcome),
                                          .first = v->outcome == TWIN_SAME ? NULL : v->first,
                                          .verdict = v,
                                          .runs = runs,
                                          .count = count});
    tw_free(given);
    tw_free(home);
    tw_free(command);
}

/* Who has to wait is told what a first look shows: thousands of ranks take a while to verify. */
static void say_first_look(const struct twin_run *const *runs)
{
    struct twin_glance g;
    if (twin_compare_bytes(runs, 2) < GLANCE_BYTES || !twin_compare_glance(runs[0], runs[1], &g))
        return;
    if (g.differing)
        tw_say("first look, before anything is verified: %zu of %zu rank%s differ%s by the digests "
               "of their steps, rank %d first, at step %u",
               g.differing, g.ranks, tw_plural_s(g.ranks), g.differing == 1 ? "s" : "", g.rank,
               g.step);
    else
        tw_say("first look, before anything is verified: the digests of the steps of %zu rank%s "
               "do not differ",
               g.ranks, tw_plural_s(g.ranks));
}

/* Compares all with the first one, prints the verdict and notes it. *printed: with --json the
 * object is out, so no second one may follow. share: NULL without --mpi. The exit code. */
static int compare_runs(const struct diff_args *a, const struct twin_run *const *runs, size_t count,
                        const struct twin_share *share, bool *printed)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_verdict *v = NULL;
    bool arms = false;
    for (size_t i = 1; i < count; i++)
        arms |= !twin_run_same_command(runs[0], runs[i]);
    /* Where the others begin in the first run: given by the user, or, of arms, found by the
     * weights. */
    bool shift_given = a->b_starts_at != TW_NOT_GIVEN;
    struct twin_compare_options o = {
        .share = share,
        .steps_given = a->steps > 0,
        .steps = (uint32_t)a->steps,
        .arms = arms || shift_given,
        .shift = shift_given ? -(int64_t)a->b_starts_at : 0,
        .find_shift = arms && !shift_given,
        .ignore = a->ignore.items,
        .ignore_count = a->ignore.count,
        .tolerance_file = a->tolerance,
    };
    if (count == 2 && !o.arms && !o.steps_given && !o.ignore_count && !o.tolerance_file)
        say_first_look(runs);
    if (twin_compare(runs, count, &o, &v, &err) != 0)
        return tw_trouble(&err, "diff: cannot compare the runs");
    const char *why;
    struct tw_again again = {.env = NULL};
    tw_again_make(&tw_command_diff, a, NULL, NULL, &again); /* without memory, without options */
    char *command = arms ? NULL : tw_shell_quote(runs[0]->argv, runs[0]->argc);
    struct tw_verdict_output out = {
        .verb = "diff",
        .command = command,
        .junit = a->junit,
        .html = a->html,
        .compare = &o,
        .json = a->json,
        .github = a->github,
        .plain = share != NULL,
        .can_zoom = v->outcome == TWIN_DIFFER && tw_zoom_is_useful(v, runs[0], &why),
        .again = {.env = again.env, .home = again.look, .show = again.show, .zoom = again.zoom},
    };
    *printed = true;
    int rc = tw_verdict_print(v, runs, count, &out);
    note_in_ledger(a, v, runs, count);
    tw_again_free(&again);
    tw_free(command);
    twin_verdict_free(v);
    return rc;
}

/* The worlds of two runs: names and places alone are no difference. */
static int diff_environment(const struct twin_run *a, const struct twin_run *b, bool as_json)
{
    json_t *json = NULL;
    bool differ = false;
    const struct tw_look look = tw_text_look();
    if (tw_diff_environment(a, b, stdout, &look, as_json ? &json : NULL, &differ, &tw_terminal) !=
        0)
        return TW_EXIT_TROUBLE;
    int printed = as_json ? tw_json_print(json) : 0;
    if (printed != 0)
        return printed;
    return differ ? TW_EXIT_DIFFER : TW_EXIT_SAME;
}

/* --mpi: opens the runs in every process, compares in the first, and ends all with its code. */
static int run_shared(struct diff_args *a, const struct tw_operands *names)
{
    struct tw_processes p;
    bool printed = false;
    int rc = tw_processes_begin(&p);
    if (rc != 0)
        return rc;
    char *home = tw_home_to_read(a->home);
    struct twin_run **runs = tw_runs_open("diff", home, names);
    const struct twin_run *const *opened = (const struct twin_run *const *)runs;
    rc = TW_EXIT_TROUBLE;
    if (p.share.part > 0)
        tw_processes_help(&p, opened, names->count);
    else if (runs)
        rc = compare_runs(a, opened, names->count, &p.share, &printed);
    if (p.share.part == 0 && a->json && !printed)
        rc = tw_verdict_json_error(rc);
    rc = tw_processes_end(&p, rc);
    tw_runs_close(runs, names->count);
    tw_free(home);
    return rc;
}

static int run(int argc, char **argv)
{
    struct diff_args a = {.b_starts_at = TW_NOT_GIVEN};
    struct tw_operands rest;
    int rc = tw_options_parse(&tw_command_diff, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    if (a.env && (rest.count != 2 || a.junit || a.html || a.github || a.tolerance ||
                  a.ignore.count || a.mpi))
        return tw_bad_use(
            "diff",
            "--env compares two runs' worlds and takes no option but --json, --home and --bisect");
    if (tw_pages_check("diff", a.html) != 0)
        return tw_bisect_code(TW_EXIT_TROUBLE, a.bisect);
    if (a.mpi) {
        rc = run_shared(&a, &rest);
        tw_free(a.ignore.items);
        return tw_bisect_code(rc, a.bisect);
    }
    char *home = tw_home_to_read(a.home);
    struct twin_run **runs = tw_runs_open("diff", home, &rest);
    rc = TW_EXIT_TROUBLE;
    /* The answer of --env is an object of its own; an error of it is said in words only. */
    bool printed = a.env;
    if (runs && a.env)
        rc = diff_environment(runs[0], runs[1], a.json);
    else if (runs)
        rc = compare_runs(&a, (const struct twin_run *const *)runs, rest.count, NULL, &printed);
    if (a.json && !printed)
        rc = tw_verdict_json_error(rc);
    tw_runs_close(runs, rest.count);
    tw_free(home);
    tw_free(a.ignore.items);
    return tw_bisect_code(rc, a.bisect);
}

const struct tw_command tw_command_diff = {
    "diff",
    "compare recorded runs",
    synopsis,
    "Compares each run with the first one and gives the same verdict as twinrun check. Runs are "
    "named by path, folder name, id or the unique beginning of one, last, last~1; they may come "
    "from different machines.\n\n"
    "Runs of different commands are taken for two arms that ought to compute the same: where the "
    "second begins in the first (a resumed job) is found by its weights.\n\n"
    "Where there is much to read (2 GiB of traces), the first rank and step whose digests differ "
    "are said on stderr within seconds, before the traces are verified and judged.\n\n"
    "With --mpi it is an MPI program, without being linked with MPI: each process verifies a share "
    "of the traces, which takes most of the time, and the first one compares and prints what a "
    "single process would. All end with its exit code; a process that dies or cannot read a trace "
    "ends all of them without a verdict.\n\n"
    "With --env the worlds of two runs are compared instead of what they computed, sorted by how "
    "likely a difference changes a result's bits; names and places alone make no difference.",
    options,
    TW_OPERANDS_RUNS,
    2,
    MAX_RUNS,
    exits,
    examples,
    run,
};
