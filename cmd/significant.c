/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun significant: says whether the difference between two sets of runs is real.
 *
 * What is asked, where values come from and what they answer are src/study's and src/stats'. Sets
 * of runs that exist are read; with --a and --b the runs are made here, in drawn order, and three
 * questions are answered apart: speed, metric, bits.
 */
#include "significant_report.h"

#include "terminal.h"
#include "say.h"
#include "on.h"
#include "options.h"
#include "runs.h"
#include "significant_arms.h"
#include "significant_asked.h"

#include "base.h"

#include <jansson.h>
#include <string.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct significant_args {
    const char *metric, *question, *within, *floor, *alpha, *home, *a, *b;
    uint64_t runs, seed, steps;
    struct tw_remote_asked engine;
    bool json, quiet;
};

#define FIELD(f) offsetof(struct significant_args, f)

static const struct tw_option options[] = {
    {"metric", 'm', TW_OPT_STRING, "WHAT", NULL, "Values",
     "of runs: wall (seconds, unless given), step (mean seconds of a step behind the first), loss "
     "(the last one recorded), or printed:REGEX (its last match; the number is the group)",
     FIELD(metric)},
    {"question", 'Q', TW_OPT_STRING, "WORD", NULL, "Question",
     "metric (do the values differ?), speed (the same as a ratio), variance (do they spread "
     "differently?), bitwise (is it one value?). Unless given: speed for wall, else metric",
     FIELD(question)},
    {"within", 'w', TW_OPT_STRING, "PERCENT", NULL, "Question",
     "instead: are they equal within so many percent?", FIELD(within)},
    {"floor", 'f', TW_OPT_STRING, "SIZE", "0", "Question",
     "differences below it mean nothing: a size in the unit of the values, of a ratio in percent, "
     "as 0.5%; or a file that twinrun spread --json wrote, whose relative spread it is then",
     FIELD(floor)},
    {"alpha", 0, TW_OPT_STRING, "P", "0.05", "Question", "the level of the test", FIELD(alpha)},
    {"a", 0, TW_OPT_STRING, "CMD", NULL, "Runs to make",
     "first of two commands to be run in turns; run by sh -c", FIELD(a)},
    {"b", 0, TW_OPT_STRING, "CMD", NULL, "Runs to make",
     "the second one: what does it change? Speed, metric and bits are answered apart", FIELD(b)},
    {"runs", 'n', TW_OPT_COUNT, "N", "5", "Runs to make", "of each command, in drawn order",
     FIELD(runs), 2, 1000},
    {"seed", 0, TW_OPT_COUNT, "N", "1", "Runs to make", "of that order", FIELD(seed), 0, INT64_MAX},
    {"steps", 's', TW_OPT_COUNT, "N", NULL, "Runs to make", "end each run after N steps",
     FIELD(steps), 1, UINT32_MAX - 1},
    TW_ON_OPTIONS(FIELD(engine.on), FIELD(engine.place), FIELD(engine.hosts), FIELD(engine.slots)),
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "print one JSON object, schema twinrun.significant/1", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no line per run that is made, no progress",
     FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options] A B", "[options] --a CMD --b CMD", NULL};
static const struct tw_pair exits[] = {
    {"0", "no difference that counts: equal within the margin, one value, or below the floor"},
    {"1", "the difference is real"},
    {"2", "trouble: bad use, values that cannot be read"},
    {"3", "inconclusive: not shown, or too few values to show anything"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun significant old.txt new.txt", "numbers in files, one on a line"},
    {"twinrun significant label:old label:new",
     "wall times of runs recorded with --label old and --label new"},
    {"twinrun significant -m 'printed:accuracy=([0-9.]+)' label:old label:new",
     "the last accuracy that each run printed"},
    {"twinrun significant --within 5% times.csv:before times.csv:after",
     "two columns of a table: equal within 5%?"},
    {"twinrun significant --within 2% -m loss --a 'python train.py' --b 'python train.py --amp'",
     "mixed precision: time saved, loss equal within 2%, bits"},
    {"twinrun spread --json grads.pt > spread.json; twinrun significant --floor spread.json -m "
     "loss label:a label:b",
     "the floor from what spread measured"},
    {"twinrun significant --floor 3e-7 -m loss label:a label:b",
     "with the spread of the reduction order as the floor"},
    {NULL, NULL},
};

/* What the options ask. 0, or the exit code after a complaint. */
static int understand_options(const struct significant_args *a, struct tw_significant *s)
{
    const struct tw_significant_words words = {a->metric, a->question, a->within, a->floor,
                                               a->alpha};
    struct twin_error err = TWIN_ERROR_INIT;
    return tw_significant_understand(&words, s, &err) == 0
               ? 0
               : tw_bad_use("significant", "%s", err.message);
}

/* Real differences are 1, equality that was shown is 0; what was not shown is neither. */
static int exit_code(const struct tw_significant *s)
{
    switch (s->found.answer) {
    case TWIN_REAL: return TW_EXIT_DIFFER;
    case TWIN_REAL_BELOW:
    case TWIN_REAL_WITHIN: return TW_EXIT_SAME;
    case TWIN_REAL_NOT:
    case TWIN_REAL_TOO_FEW: break;
    }
    return TW_EXIT_INCONCLUSIVE;
}

static int no_memory(void)
{
    return tw_trouble(NULL, "no memory for the answer");
}

/* 0, or the exit code after a complaint. */
static int configure(struct tw_significant *s)
{
    return tw_significant_configure(s) == 0 ? 0 : no_memory();
}

/* Both sets of values. 0, or the exit code after a complaint. */
static int read_sets(const struct significant_args *a, char **operands, struct tw_significant *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *home = tw_home(a->home);
    int rc = 0;
    if (!home)
        return tw_trouble(NULL, "no memory");
    if (tw_measure_parse(a->metric, &s->measure, &err) != 0)
        rc = tw_bad_use("significant", "%s", err.message);
    for (int k = 0; k < 2 && rc == 0; k++)
        if (tw_set_read(operands[k], home, &s->measure, &s->set[k], &err) != 0)
            rc = tw_trouble(&err, "nothing was compared");
    tw_free(home);
    return rc;
}

/* Of two sets that are there: read, asked, answered. The exit code. */
static int significant(const struct significant_args *a, char **operands, struct tw_significant *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    /* Values first: what is asked depends on whether they are times. */
    int rc = read_sets(a, operands, s);
    if (rc == 0 && !s->set[0].run != !s->set[1].run)
        rc = tw_bad_use("significant", "one set is a file and the other one runs: what is in the "
                                       "file can only be compared with a file");
    rc = rc ? rc : understand_options(a, s);
    if (rc == 0 && tw_significant_positive(s, &err) != 0)
        rc = tw_bad_use("significant", "%s", err.message);
    if (rc == 0 && s->floor_file && tw_significant_floor_in_units(s, &err) != 0)
        rc = tw_trouble(NULL, "%s", err.message);
    if (rc != 0)
        return rc;
    if (tw_significant_ask(s, &err) != 0)
        return tw_trouble(NULL, "%s", err.message);
    rc = configure(s);
    if (rc == 0 && a->json)
        rc = tw_json_print_exact(tw_significant_json(s));
    else if (rc == 0 && tw_significant_text(stdout, s) != 0)
        rc = no_memory();
    return rc ? rc : exit_code(s);
}

/* ---- two commands */

/* The runs, and what they answer. 0, or the exit code after a complaint. */
static int experiment(struct tw_experiment *x)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_experiment_make(x) != 0)
        return TW_EXIT_TROUBLE;
    /* Without a run of each there is nothing to say. */
    if (x->interrupted && (x->made[0] == 0 || x->made[1] == 0))
        return TW_EXIT_INTERRUPTED;
    int rc = tw_experiment_ask(x, &err);
    if (rc == TWIN_EINVAL)
        return tw_bad_use("significant", "%s", err.message);
    if (rc != 0)
        return tw_trouble(&err, "significant");
    rc = configure(&x->speed);
    return rc || x->no_metric ? rc : configure(&x->metric);
}

/* The exit code is that of the metric: that speed differs is what such an experiment is for. */
static int print_experiment(const struct tw_experiment *x)
{
    if (x->asked.json) {
        int rc = tw_json_print_exact(tw_experiment_json(x));
        if (rc != 0)
            return rc;
    } else if (tw_experiment_text(stdout, x) != 0) {
        return no_memory();
    }
    if (x->interrupted)
        return TW_EXIT_INTERRUPTED;
    return x->no_metric ? TW_EXIT_INCONCLUSIVE : exit_code(&x->metric);
}

/* The runs of two commands. Speed is asked in any case, so it is no metric here. The exit code. */
static int arms(struct significant_args *a, struct tw_significant *s)
{
    if (!a->a || !a->b)
        return tw_bad_use("significant", "expected two commands, found only --%s; give --%s too",
                          a->a ? "a" : "b", a->a ? "b" : "a");
    /* What the runs compute; their times are asked for in any case. */
    a->metric = a->metric ? a->metric : "loss";
    if (strcmp(a->metric, "wall") == 0 || strcmp(a->metric, "step") == 0)
        return tw_bad_use("significant", "--a and --b ask for speed in any case; --metric is what "
                                         "the runs compute: loss or printed:REGEX");
    int rc = understand_options(a, s);
    if (rc == 0 && s->floor_file)
        rc = tw_bad_use("significant",
                        "--floor: with --a and --b a number; sets of runs take a file");
    if (rc != 0)
        return rc;
    struct tw_experiment x = {
        .front = &tw_terminal,
        .asked = {{a->a, a->b}, a->home, a->runs, a->seed, a->steps, a->engine, a->json, a->quiet},
        .home = tw_home_for_runs(a->home, "significant"),
        .metric = {.measure = s->measure, .asked = s->asked},
    };
    tw_interrupt_hold();
    tw_progress_setup(a->quiet);
    rc = x.home ? tw_on_open("significant", &x.on, &a->engine, x.home) : TW_EXIT_TROUBLE;
    if (rc < 0)
        rc = experiment(&x);
    if (rc == 0)
        rc = print_experiment(&x);
    tw_experiment_fini(&x);
    return rc;
}

static int run(int argc, char **argv)
{
    struct significant_args a = {0};
    struct tw_operands given;
    struct tw_significant s = {0};
    int rc = tw_options_parse(&tw_command_significant, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    /* Runs that are made here, or values that are there: not both. */
    if ((a.a || a.b) && given.count == 0)
        return arms(&a, &s);
    if (a.engine.on || a.engine.place || a.engine.hosts || a.engine.slots)
        return tw_bad_use("significant", "--on, --place, --hosts and --slots go with --a CMD --b "
                                         "CMD: values that are there already need no run");
    if (given.count != 2 || a.a || a.b)
        return tw_bad_use(
            "significant",
            "expected two sets of values, A and B, or --a CMD --b CMD; found %zu operands",
            given.count);
    rc = significant(&a, given.items, &s);
    tw_set_free(&s.set[0]);
    tw_set_free(&s.set[1]);
    return rc;
}

const struct tw_command tw_command_significant = {
    "significant",
    "say whether the difference between two sets of runs is real",
    synopsis,
    "A set is a file of numbers (text, a JSON list, or FILE.csv:COLUMN), some runs (names with "
    "commas between them), or label:NAME for every run with that label. Runs that failed are left "
    "out and named.\n\n"
    "The question chooses the method: ranks for values and times, since a handful of runs shows no "
    "normal distribution; two one-sided tests for \"equal\", since a difference that was not shown "
    "is no equality. A difference below the floor does not count, however small its p. When "
    "nothing can be said, the runs that are missing are named. Whether numbers are bit for bit the "
    "same is another question than whether they differ by more than chance: --question bitwise "
    "asks it.\n\n"
    "With --a and --b the runs are made here, in turns and in drawn order, and three questions are "
    "answered, each by itself: what the change does to the time of a step, to the metric (equal "
    "within --within, or does it differ?), and to the bits of the weights at the end. That is the "
    "experiment for mixed precision against fp32.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
