/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun import: curves of runs that twinrun did not record, from other tools, as a file that
 * `significant` judges. The reading is src/export/trackers.c's and its Python half's.
 */
#include "say.h"
#include "options.h"
#include "terminal.h"
#include "trackers.h"

#include "base.h"

#include <string.h>

/* What the command line gave; NULL or false where it gave nothing. */
struct import_args {
    const char *csv, *tensorboard, *mlflow;
    struct tw_curves_asked asked;
};

#define FIELD(f) offsetof(struct import_args, f)

static const struct tw_option options[] = {
    {"csv", 0, TW_OPT_FILE, "FILE", NULL, "Source", "a CSV file with names in its first line",
     FIELD(csv)},
    {"tensorboard", 0, TW_OPT_DIR, "DIR", NULL, "Source",
     "TensorBoard's event files: each folder in DIR that has some is a run", FIELD(tensorboard)},
    {"mlflow", 0, TW_OPT_STRING, "URL", NULL, "Source", "the runs of an experiment on a server",
     FIELD(mlflow)},
    {"metric", 'm', TW_OPT_STRING, "NAME", NULL, "Values",
     "the column, tag or key that holds the values", FIELD(asked.metric)},
    {"take", 0, TW_OPT_STRING, "KIND", "last", "Values",
     "what stands for a run: its last value, min or max", FIELD(asked.take)},
    {"step-column", 0, TW_OPT_STRING, "NAME", NULL, "Values",
     "with --csv: the column with steps; the order of lines unless given", FIELD(asked.step)},
    {"run-column", 0, TW_OPT_STRING, "NAME", NULL, "Values",
     "with --csv: the column that says which run a line is of; one run unless given",
     FIELD(asked.run)},
    {"experiment", 0, TW_OPT_STRING, "NAME", NULL, "Values",
     "with --mlflow: the experiment; Default unless given", FIELD(asked.experiment)},
    {"filter", 0, TW_OPT_STRING, "TEXT", NULL, "Values",
     "with --mlflow: only these of its runs, in MLflow's language", FIELD(asked.filter)},
    {"output", 'o', TW_OPT_FILE, "FILE", NULL, "Output", "the file that gets the curves",
     FIELD(asked.out)},
    {"force", 0, TW_OPT_FLAG, NULL, NULL, "Output", "replace a file that is there",
     FIELD(asked.replace)},
    {"python", 'p', TW_OPT_FILE, "PYTHON", NULL, "Other",
     "the interpreter that has tensorboard; python3 or python of PATH unless given",
     FIELD(asked.python)},
    {NULL},
};

static const char *const synopsis[] = {"--csv FILE --metric NAME -o FILE [options]",
                                       "--tensorboard DIR --metric NAME -o FILE [options]",
                                       "--mlflow URL --metric NAME -o FILE [options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "written; runs that were left out, and what is not known, are said"},
    {"2", "trouble: bad use, a source that cannot be read or does not answer, no such metric; "
          "nothing was written"},
    {"130", "interrupted; nothing was written"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun import --tensorboard old -m val/loss -o old.json", "each run's last loss"},
    {"twinrun import --mlflow http://127.0.0.1:5000 -m loss --filter \"tags.arm = 'b'\" -o b.json",
     "of those with this tag"},
    {"twinrun significant old.json b.json", "is the difference real?"},
    {NULL, NULL},
};

/* The one source that was given. False: none, or several. */
static bool one_source(struct import_args *a)
{
    const char *const given[] = {a->csv, a->tensorboard, a->mlflow};
    const char *const names[] = {"csv", "tensorboard", "mlflow"};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (given[i] && a->asked.from)
            return false;
        if (given[i]) {
            a->asked.from = names[i];
            a->asked.source = given[i];
        }
    }
    return a->asked.from != NULL;
}

static bool is_take(const char *s)
{
    return strcmp(s, "last") == 0 || strcmp(s, "min") == 0 || strcmp(s, "max") == 0;
}

static int run(int argc, char **argv)
{
    struct import_args a = {0};
    struct tw_operands rest;
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_options_parse(&tw_command_import, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    if (!one_source(&a))
        return tw_bad_use("import", "expected one of --csv, --tensorboard and --mlflow");
    if (!a.asked.metric || !a.asked.out)
        return tw_bad_use("import", "expected --metric NAME and --output FILE");
    if (!is_take(a.asked.take))
        return tw_bad_use("import", "--take: expected last, min or max, found \"%s\"",
                          a.asked.take);
    if (!a.csv && (a.asked.step || a.asked.run))
        return tw_bad_use("import", "--step-column and --run-column are of --csv");
    if (!a.mlflow && (a.asked.experiment || a.asked.filter))
        return tw_bad_use("import", "--experiment and --filter are of --mlflow");
    tw_interrupt_hold();
    rc = tw_import_curves(&a.asked, &tw_terminal, &err);
    if (rc == TWIN_EINTR) {
        tw_say("import: interrupted; nothing was written");
        return TW_EXIT_INTERRUPTED;
    }
    if (rc != 0)
        return err.code ? tw_trouble(&err, "import") : TW_EXIT_TROUBLE;
    return 0;
}

const struct tw_command tw_command_import = {
    "import",
    "curves of runs that twinrun did not record, from CSV, TensorBoard or MLflow",
    synopsis,
    "Reads one metric of several runs and writes a file that twinrun significant takes in place of "
    "runs. Runs that failed, have no such value, or whose last value is NaN or infinite, are left "
    "out and named.\n\n"
    "Of such runs code, data, seeds, machine and libraries are not known: that is said here, and "
    "again with every figure that comes from them. docs/import.md has the file's format.",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
