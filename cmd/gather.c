/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun gather: one run folder of those that lie on several nodes. What belongs together, and
 * what is refused, is src/gather's; this file says where the run goes and what came of it.
 */
#include "say.h"
#include "runs.h"
#include "gather.h"
#include "options.h"
#include "terminal.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>
#include <string.h>

/* Ranks that are missing: what is there was gathered, and it is not all. */
enum { EXIT_MISSING = 1, MAX_PARTS = 65536 };

/* What the command line gave; NULL or false where it gave nothing. */
struct gather_args {
    const char *home, *into;
    bool one_job;
};

#define FIELD(f) offsetof(struct gather_args, f)

static const struct tw_option options[] = {
    {"into", 0, TW_OPT_DIR, "DIR", NULL, "Output",
     "the new run folder; without it, one in the home, named as the first of the parts is, with "
     "-gathered behind it",
     FIELD(into)},
    {"one-job", 0, TW_OPT_FLAG, NULL, NULL, "Which",
     "take runs of other ids for one job, whatever their launchers' variables say", FIELD(one_job)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Other", "folder that holds the runs", FIELD(home)},
    {NULL},
};

static const char *const synopsis[] = {"[options] FOLDER|TAR|-...", NULL};
static const struct tw_pair exits[] = {
    {"0", "gathered, with a trace of every rank"},
    {"1", "gathered, and ranks are missing; they are named"},
    {"2", "trouble: not one job, one rank in two of the parts, an archive or a folder that was "
          "refused, or no room; nothing was written"},
    {"130", "interrupted; nothing was written"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun gather node0 node1", "the run folders of two nodes, brought here by rsync"},
    {"ssh node1 tar -C .twinrun/runs -c RUN | twinrun gather .twinrun/runs/RUN0 -",
     "the other node's as an archive on stdin"},
    {"twinrun gather *.tar --into both && twinrun diff other both", "archives of all nodes"},
    {NULL, NULL},
};

/* "HOME/runs/NAME-gathered", after the first part; an archive's name without its ending. */
static char *default_place(const char *home, const char *first)
{
    char *name = tw_strdup(strcmp(first, "-") == 0 ? "stdin" : first);
    for (size_t n = name ? strlen(name) : 0; n > 1 && name[n - 1] == '/';)
        name[--n] = '\0';
    const char *base = name ? tw_base_name(name) : "";
    size_t n = strlen(base);
    if (n > 4 && tw_ends(base, ".tar"))
        n -= 4;
    if (strspn(base, "./") == strlen(base)) { /* no name for a run */
        base = "run";
        n = 3;
    }
    char *place = name ? tw_printf("%s/runs/%.*s-gathered", home, (int)n, base) : NULL;
    tw_free(name);
    return place;
}

static void say_missing(const struct tw_gathered *g)
{
    struct tw_buf b = {0};
    const size_t shown = g->missing_count < TW_GATHER_NAMED ? g->missing_count : TW_GATHER_NAMED;
    for (size_t i = 0; i < shown; i++)
        tw_buf_printf(&b, "%s%d", i ? ", " : "", g->missing[i]);
    if (g->missing_count > shown)
        tw_buf_printf(&b, " and %zu more", g->missing_count - shown);
    tw_say("gather: of %d ranks there is no trace of rank%s %s", g->world,
           tw_plural_s(g->missing_count), b.data ? b.data : "");
    tw_buf_free(&b);
}

/* The exit code. */
static int gather(const struct tw_gather_options *o)
{
    struct tw_gathered g;
    struct twin_error err = TWIN_ERROR_INIT;
    char size[16];
    tw_interrupt_hold();
    const int rc = tw_gather(o, &tw_terminal, &g, &err);
    if (rc == TWIN_EINTR) {
        tw_say("gather: interrupted; nothing was written");
        return TW_EXIT_INTERRUPTED;
    }
    if (rc != 0)
        return tw_trouble(&err, "gather: nothing was written");
    tw_put("%s\n  %zu folder%s  %llu trace%s  %d rank%s  %s\n", o->into, g.parts,
           tw_plural_s(g.parts), (unsigned long long)g.traces, tw_plural_s(g.traces), g.world,
           tw_plural_s(g.world), tw_human_bytes(g.bytes, size));
    if (g.unfinished)
        tw_say("gather: a part was interrupted, or has not ended yet");
    if (g.missing_count == 0)
        return 0;
    say_missing(&g);
    return EXIT_MISSING;
}

static int run(int argc, char **argv)
{
    struct gather_args a = {0};
    struct tw_operands given;
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_options_parse(&tw_command_gather, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    size_t archives = 0;
    for (size_t i = 0; i < given.count; i++)
        archives += strcmp(given.items[i], "-") == 0;
    if (given.count == 0 || given.count > MAX_PARTS)
        return tw_bad_use("gather", "expected run folders or tar archives, 1 to 65,536");
    if (archives > 1)
        return tw_bad_use("gather", "expected \"-\" once: there is one stdin");
    char *home = a.into ? NULL : tw_home_for_runs(a.home, "gather");
    if (!a.into && !home)
        return TW_EXIT_TROUBLE;
    char *place = a.into ? tw_strdup(a.into) : default_place(home, given.items[0]);
    char *into = place ? tw_path_absolute(place, &err) : NULL;
    const struct tw_gather_options o = {
        .names = given.items, .count = given.count, .into = into, .one_job = a.one_job};
    rc = into ? gather(&o) : tw_trouble(&err, "gather");
    tw_free(into);
    tw_free(place);
    tw_free(home);
    return rc;
}

const struct tw_command tw_command_gather = {
    "gather",
    "the run folders of several nodes as one run",
    synopsis,
    "Where nodes share no file system, each has a run folder of its own, with the traces of its "
    "ranks. This puts them together: each operand is a run folder (or a folder that holds some), a "
    "tar archive of one, or - for an archive on stdin; how they get here is up to you (rsync, scp, "
    "ssh). Parts of one job have one id, or the same variables of a launcher (MASTER_ADDR, "
    "TORCHELASTIC_RUN_ID, SLURM_JOB_ID and others) and times that overlap; what is not of one job "
    "is "
    "refused, and so is a rank that is in two parts. The part with rank 0 becomes the run; of the "
    "others, traces go beside its own, and all else into nodes/. Links, devices and paths that "
    "lead "
    "out of an archive are refused. The run gets its name when it is whole. docs/launchers.md.",
    options,
    TW_OPERANDS_FILES,
    1,
    MAX_PARTS,
    exits,
    examples,
    run,
};
