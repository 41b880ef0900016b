/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun export: recorded runs as tables for other tools. The tables are src/export's; this file
 * loads the runs and says what came of it.
 */
#include "say.h"
#include "runs.h"
#include "export.h"
#include "options.h"
#include "terminal.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>

enum { MAX_RUNS = 1000 };

/* What the command line gave; NULL or false where it gave nothing. */
struct export_args {
    const char *home, *parquet;
    bool force;
};

#define FIELD(f) offsetof(struct export_args, f)

static const struct tw_option options[] = {
    {"parquet", 0, TW_OPT_DIR, "DIR", NULL, "Output",
     "write records.parquet and steps.parquet into this folder, which is made when missing",
     FIELD(parquet)},
    {"force", 0, TW_OPT_FLAG, NULL, NULL, "Output", "replace the files that are there",
     FIELD(force)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Other", "folder that holds the runs", FIELD(home)},
    {NULL},
};

static const char *const synopsis[] = {"--parquet DIR [options] RUN...", NULL};
static const struct tw_pair exits[] = {
    {"0", "written; what a process did not live to write, or dropped, is said"},
    {"2", "trouble: bad use, no such run, or files that are there already: nothing was written; or "
          "a trace that cannot be read or is damaged: what is readable was written, and what is "
          "missing is said"},
    {"130", "interrupted; nothing was written"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun export last --parquet tables", "the newest run"},
    {"twinrun export last~1 last --parquet tables", "two runs in the same tables, to be joined"},
    {"duckdb -c \"select name, max(norm) from 'tables/records.parquet' group by name\"",
     "the largest norm of each tensor"},
    {NULL, NULL},
};

/* The exit code. */
static int export_runs(const struct export_args *a, struct twin_run *const *runs, size_t count)
{
    const struct tw_export_options o = {.folder = a->parquet, .replace = a->force};
    struct tw_export_counts n;
    struct twin_error err = TWIN_ERROR_INIT;
    char records[32], steps[32];
    tw_interrupt_hold();
    const int rc = tw_export_parquet(runs, count, &o, &tw_terminal, &n, &err);
    if (rc == TWIN_EINTR) {
        tw_say("export: interrupted; nothing was written");
        return TW_EXIT_INTERRUPTED;
    }
    if (rc != 0)
        return tw_trouble(&err, "export: nothing was written");
    tw_put("%s\n  records.parquet  %s record%s\n  steps.parquet    %s step%s of %llu trace%s\n",
           a->parquet, tw_human_count(n.records, records), tw_plural_s(n.records),
           tw_human_count(n.steps, steps), tw_plural_s(n.steps), (unsigned long long)n.traces,
           tw_plural_s(n.traces));
    return n.broken ? TW_EXIT_TROUBLE : 0;
}

static int run(int argc, char **argv)
{
    struct export_args a = {0};
    struct tw_operands given;
    int rc = tw_options_parse(&tw_command_export, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    if (!a.parquet)
        return tw_bad_use("export", "expected --parquet DIR, the folder that gets the tables");
    char *home = tw_home(a.home);
    struct twin_run **runs = tw_runs_open("export", home, &given);
    rc = runs ? export_runs(&a, runs, given.count) : TW_EXIT_TROUBLE;
    tw_runs_close(runs, given.count);
    tw_free(home);
    return rc;
}

const struct tw_command tw_command_export = {
    "export",
    "recorded runs as Parquet tables, for DuckDB, pandas, Polars and Spark",
    synopsis,
    "Writes two tables: records.parquet has a row for each record of each process (step, rank, "
    "phase, kind, name, type, shape, digest, statistics, source line), steps.parquet a row for "
    "each finished step of each process, with digests over all its values. Rows are ordered by "
    "step, then by run, rank and process. Both files are written under another name and get "
    "their own when both are whole; files that are there are replaced only with --force. "
    "docs/export.md lists the columns.",
    options,
    TW_OPERANDS_RUNS,
    1,
    MAX_RUNS,
    exits,
    examples,
    run,
};
