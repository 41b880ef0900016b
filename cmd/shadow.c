/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun shadow: a share of the recorded runs is made once more, compared, and counted.
 *
 * Made to be called by cron: it takes no input, waits for nobody, and goes on where a call before
 * was cut off. Which runs, how, and what may be said of them: src/shadow.
 */
#include "on.h"
#include "options.h"
#include "runs.h"
#include "say.h"
#include "shadow_words.h"
#include "terminal.h"

#include "base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shadow_args {
    const char *home, *ledger, *share, *seed;
    struct tw_strings first;
    struct tw_remote_asked engine;
    uint64_t budget, most;
    bool dry_run, again, overwrite, beside, json, quiet;
};

#define FIELD(f) offsetof(struct shadow_args, f)

static const struct tw_option options[] = {
    {"share", 's', TW_OPT_STRING, "PERCENT", "10%", "Which runs",
     "how many of the recorded runs to repeat: 10% or 0.1; each is drawn by a hash of its id, so "
     "the same ones every time",
     FIELD(share)},
    {"seed", 0, TW_OPT_STRING, "WORD", NULL, "Which runs", "draw others: a word for the draw",
     FIELD(seed)},
    {"first", 'f', TW_OPT_LIST, "PATTERN", NULL, "Which runs",
     "runs whose project or command is like it go first (* ? [..]); then those whose command has "
     "the fewest comparisons, then the newest",
     FIELD(first)},
    {"again", 0, TW_OPT_FLAG, NULL, NULL, "Which runs",
     "look again at runs of which an earlier call found that they cannot be repeated",
     FIELD(again)},
    {"budget", 'b', TW_OPT_SECONDS, "TIME", "1h", "How much",
     "wall time of all repeats of this call, by what the originals took", FIELD(budget)},
    {"most", 0, TW_OPT_COUNT, "N", NULL, "How much", "repeat at most N runs", FIELD(most), 1,
     1000000},
    {"dry-run", 'n', TW_OPT_FLAG, NULL, NULL, "How much",
     "say what would be repeated, and start nothing", FIELD(dry_run)},
    {"overwrite", 0, TW_OPT_FLAG, NULL, NULL, "Safety",
     "also repeat runs that wrote outside of their folder, over whose files a repeat writes",
     FIELD(overwrite)},
    {"beside", 0, TW_OPT_FLAG, NULL, NULL, "Safety",
     "also while a recorded run of the home goes on on this machine", FIELD(beside)},
    TW_ON_OPTIONS(FIELD(engine.on), FIELD(engine.place), FIELD(engine.hosts), FIELD(engine.slots)),
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(shadow_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "all that were repeated agree with their originals; or --dry-run"},
    {"1", "one diverged"},
    {"2", "trouble: bad use, no ledger, a repeat that could not be made"},
    {"3", "nothing could be said: no run was repeated, or of none of them it is known"},
    {"130", "interrupted"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun shadow --share 5% --budget 2h", "for cron: two hours of repeats a call"},
    {"twinrun shadow --first 'fraud-*' --most 1 --on slurm", "one run of these projects, by Slurm"},
    {"twinrun shadow --dry-run", "what would be repeated, and what cannot be"},
    {NULL, NULL},
};

/* Divergence outweighs trouble: it is a fact. Agreement does not outweigh trouble. */
static int exit_code(const struct tw_shadow *s)
{
    if (s->of[TW_SHADOW_DIVERGED])
        return TW_EXIT_DIFFER;
    if (s->interrupted)
        return TW_EXIT_INTERRUPTED;
    if (s->of[TW_SHADOW_FAILED])
        return TW_EXIT_TROUBLE;
    if (s->asked.dry_run && !s->busy)
        return TW_EXIT_SAME;
    return s->of[TW_SHADOW_SAME] ? TW_EXIT_SAME : TW_EXIT_INCONCLUSIVE;
}

/* Jobs that cron's twinrun starts read nothing. */
static void close_input(void)
{
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0)
        return;
    dup2(nothing, STDIN_FILENO);
    if (nothing != STDIN_FILENO)
        close(nothing);
}

static int run(int argc, char **argv)
{
    struct shadow_args a = {.home = NULL};
    struct tw_operands rest;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_remote on = {.engine = NULL};
    int rc = tw_options_parse(&tw_command_shadow, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    const double share = tw_share_of(a.share);
    if (share < 0)
        return tw_bad_use("shadow", "--share: expected 0%% to 100%%, or 0 to 1, found \"%s\"",
                          a.share);
    tw_progress_setup(a.quiet);
    tw_interrupt_hold();
    close_input();
    char *home = tw_home_for_runs(a.home, "shadow");
    struct tw_shadow s = {.asked = {.share = share,
                                    .seed = a.seed ? a.seed : "",
                                    .first = a.first,
                                    .budget_s = (double)a.budget,
                                    .most = a.most,
                                    .dry_run = a.dry_run,
                                    .again = a.again,
                                    .overwrite = a.overwrite,
                                    .beside = a.beside},
                          .front = &tw_terminal,
                          .on = &on,
                          .home = home,
                          .url = a.ledger};
    rc = home ? tw_on_open("shadow", &on, &a.engine, home) : TW_EXIT_TROUBLE;
    if (rc < 0 && tw_shadow_make(&s, &err) != 0)
        rc = tw_trouble(&err, "shadow");
    tw_progress_clear();
    if (rc < 0 && a.json)
        rc = tw_json_print(tw_shadow_json(&s)) != 0 ? TW_EXIT_TROUBLE : -1;
    else if (rc < 0)
        tw_shadow_print(stdout, &s);
    rc = rc < 0 ? exit_code(&s) : rc;
    tw_remote_close(&on);
    tw_shadow_free(&s);
    tw_free(home);
    tw_free(a.first.items);
    return rc;
}

const struct tw_command tw_command_shadow = {
    "shadow",
    "repeat a share of the recorded runs and compare",
    synopsis,
    "Looks at the recorded runs of a home that ended well, draws a share of them, and makes each "
    "of "
    "these once more: the same command in a copy of its folder without what it wrote, with its "
    "variables, level and pins, at the lowest priority. Repeat and original are compared as "
    "twinrun "
    "diff does it, and the answer goes to the ledger, from which twinrun slo counts M1. Each run "
    "is "
    "repeated once, whatever happens to the calls.\n\n"
    "A run whose code, configuration or data have changed since is not repeated, and a repeat that "
    "differs in another world than the original's is no divergence: both are said, and count as "
    "not "
    "known. The original's folder, its files and runs that go on are left alone.",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
