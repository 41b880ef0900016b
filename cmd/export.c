/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun export: recorded runs as tables for other tools, and told to trackers. Both are
 * src/export's; this file loads the runs and says what came of it.
 */
#include "say.h"
#include "runs.h"
#include "export.h"
#include "trackers.h"
#include "options.h"
#include "terminal.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>

enum { MAX_RUNS = 1000 };

/* What the command line gave; NULL or false where it gave nothing. */
struct export_args {
    const char *home, *parquet;
    struct tw_trackers to;
    bool force;
};

#define FIELD(f) offsetof(struct export_args, f)

static const struct tw_option options[] = {
    {"parquet", 0, TW_OPT_DIR, "DIR", NULL, "Output",
     "write records.parquet and steps.parquet into this folder, which is made when missing",
     FIELD(parquet)},
    {"mlflow", 0, TW_OPT_STRING, "URL", NULL, "Output",
     "tell the MLflow server at URL: parameters, losses, tags, digests of data, the verdict",
     FIELD(to.mlflow)},
    {"experiment", 0, TW_OPT_STRING, "NAME", NULL, "Output",
     "with --mlflow: the experiment; the run's project, or twinrun, unless given",
     FIELD(to.experiment)},
    {"wandb", 0, TW_OPT_STRING, "PROJECT", NULL, "Output",
     "tell Weights & Biases, through its own client: to PROJECT, or ENTITY/PROJECT; with "
     "WANDB_MODE=offline write a folder that `wandb sync` sends",
     FIELD(to.wandb)},
    {"tensorboard", 0, TW_OPT_DIR, "DIR", NULL, "Output",
     "write event files for TensorBoard, a folder for each run", FIELD(to.tensorboard)},
    {"perfetto", 0, TW_OPT_FILE, "FILE", NULL, "Output",
     "write steps, collectives, losses and the first divergence on a time line, as ui.perfetto.dev "
     "and chrome://tracing open it",
     FIELD(to.perfetto)},
    {"otlp", 0, TW_OPT_STRING, "FILE", NULL, "Output",
     "write the runs as traces of OpenTelemetry (OTLP, JSON); a URL in place of FILE: send them to "
     "this collector",
     FIELD(to.otlp)},
    {"openlineage", 0, TW_OPT_STRING, "FILE", NULL, "Output",
     "write the runs as events of OpenLineage, a line each; a URL in place of FILE: send them "
     "there",
     FIELD(to.openlineage)},
    {"python", 'p', TW_OPT_FILE, "PYTHON", NULL, "Other",
     "the interpreter that has tensorboard, or wandb; python3 or python of PATH unless given",
     FIELD(to.python)},
    {"force", 0, TW_OPT_FLAG, NULL, NULL, "Output", "replace the files that are there",
     FIELD(force)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Other", "folder that holds the runs", FIELD(home)},
    {NULL},
};

static const char *const synopsis[] = {
    "--parquet DIR [options] RUN...", "--mlflow URL [options] RUN...",
    "--wandb PROJECT [options] RUN...", "--tensorboard DIR [options] RUN...", NULL};
static const struct tw_pair exits[] = {
    {"0", "written; what a process did not live to write, or dropped, is said"},
    {"2", "trouble: bad use, no such run, a server that does not answer or refuses, or files that "
          "are there already: what was not written is said, and may be exported again; or a trace "
          "that cannot be read or is damaged: what is readable was written, and what is missing is "
          "said"},
    {"130", "interrupted"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun export last --parquet tables", "the newest run"},
    {"twinrun export last~1 last --parquet tables", "two runs in the same tables, to be joined"},
    {"duckdb -c \"select name, max(norm) from 'tables/records.parquet' group by name\"",
     "the largest norm of each tensor"},
    {"twinrun export last --mlflow http://127.0.0.1:5000", "the newest run, told to MLflow"},
    {NULL, NULL},
};

/* The exit code. */
static int export_tables(const struct export_args *a, struct twin_run *const *runs, size_t count)
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

/* The exit code. */
static int export_to(const struct export_args *a, struct twin_run *const *runs, size_t count)
{
    struct tw_trackers to = a->to;
    struct twin_error err = TWIN_ERROR_INIT;
    bool broken = false;
    to.replace = a->force;
    tw_interrupt_hold();
    const int rc = tw_export_trackers(runs, count, &to, &tw_terminal, &broken, &err);
    if (rc == TWIN_EINTR) {
        tw_say("export: interrupted; exported again, what is missing is added");
        return TW_EXIT_INTERRUPTED;
    }
    if (rc != 0)
        return err.code ? tw_trouble(&err, "export") : TW_EXIT_TROUBLE;
    return broken ? TW_EXIT_TROUBLE : 0;
}

static bool to_any(const struct tw_trackers *t)
{
    return t->mlflow || t->wandb || t->tensorboard || t->perfetto || t->otlp || t->openlineage;
}

static int run(int argc, char **argv)
{
    struct export_args a = {0};
    struct tw_operands given;
    int rc = tw_options_parse(&tw_command_export, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    if (!a.parquet && !to_any(&a.to))
        return tw_bad_use("export", "expected --parquet DIR, the folder that gets the tables, or "
                                    "--mlflow, --wandb, --tensorboard, --perfetto, --otlp, "
                                    "--openlineage");
    if (a.to.experiment && !a.to.mlflow)
        return tw_bad_use("export", "--experiment is of --mlflow, which was not given");
    char *home = tw_home_to_read(a.home);
    struct twin_run **runs = tw_runs_open("export", home, &given);
    rc = runs ? 0 : TW_EXIT_TROUBLE;
    if (rc == 0 && a.parquet)
        rc = export_tables(&a, runs, given.count);
    if (runs && rc != TW_EXIT_INTERRUPTED && to_any(&a.to)) {
        const int told = export_to(&a, runs, given.count);
        rc = told ? told : rc;
    }
    tw_runs_close(runs, given.count);
    tw_free(home);
    return rc;
}

const struct tw_command tw_command_export = {
    "export",
    "recorded runs as Parquet tables, and for MLflow, W&B, TensorBoard, Perfetto, OTLP",
    synopsis,
    "With --parquet writes two tables: records.parquet has a row for each record of each process "
    "(step, rank, "
    "phase, kind, name, type, shape, digest, statistics, source line), steps.parquet a row for "
    "each finished step of each process, with digests over all its values. Rows are ordered by "
    "step, then by run, rank and process. Both files are written under another name and get "
    "their own when both are whole; files that are there are replaced only with --force. "
    "docs/export.md lists the columns.\n\n"
    "The others are told what they have places for: of each run its losses, its parameters, how it "
    "ended, and the verdict of the check that it ended, where there is one. The same export again "
    "changes nothing. docs/export.md says what becomes what.",
    options,
    TW_OPERANDS_RUNS,
    1,
    MAX_RUNS,
    exits,
    examples,
    run,
};
