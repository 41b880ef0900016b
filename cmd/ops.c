/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun ops: which operations of PyTorch repeat their bits on this machine, measured. The
 * measuring is src/study/ops.c's, which starts the Python half; the judgement of each row is
 * src/report/study/ops_report.c's.
 */
#include "ops_report.h"

#include "terminal.h"
#include "say.h"
#include "options.h"

#include "base.h"

#include <stdio.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct ops_args {
    const char *python, *device, *threads;
    struct tw_strings op;
    uint64_t runs;
    bool json, quiet;
};

#define FIELD(f) offsetof(struct ops_args, f)

static const struct tw_option options[] = {
    {"op", 'o', TW_OPT_LIST, "PATTERN", NULL, "Subject",
     "only operations whose name holds or matches PATTERN; may be given again", FIELD(op)},
    {"device", 'd', TW_OPT_STRING, "DEVICE", NULL, "Subject",
     "cpu or cuda; the CPU, and CUDA where there is such a device, unless given", FIELD(device)},
    {"python", 'p', TW_OPT_FILE, "PYTHON", NULL, "Subject",
     "the interpreter whose PyTorch is measured; python3 or python of PATH unless given",
     FIELD(python)},
    {"runs", 'n', TW_OPT_COUNT, "K", "10", "Runs",
     "runs of each call at each number of threads, half of them in a second process", FIELD(runs),
     2, 10000},
    {"threads", 't', TW_OPT_STRING, "LIST", NULL, "Runs",
     "numbers of threads on the CPU, such as 1,2,8; 1 and all processors (at least 2) unless given",
     FIELD(threads)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "measured, whatever was found"},
    {"2", "trouble: bad use, no PyTorch in this Python, no such device, no such operation"},
    {"130", "interrupted by Ctrl-C"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun ops", "the whole catalogue, unsafe operations first (about a minute)"},
    {"twinrun ops --op scatter --runs 100 --threads 1,2,8", "a closer look at some"},
    {"twinrun ops --python .venv/bin/python --json", "of another PyTorch, for a program"},
    {NULL, NULL},
};

/* The object that --json prints when nothing was measured: outcome "error" and what was said last.
 * Returns code. */
static int json_error(int code)
{
    json_t *j = json_pack("{s:s, s:s, s:o, s:[]}", "schema", "twinrun.ops/1", "outcome", "error",
                          "message", tw_json_text(tw_said()), "devices");
    return tw_json_print(j) != 0 ? TW_EXIT_TROUBLE : code;
}

/* The exit code says that it was measured, not what came out: 0. */
static int print_answer(const struct tw_ops_result *r, bool as_json)
{
    if (as_json)
        return tw_json_print(tw_ops_json(r));
    tw_ops_text(stdout, r);
    return 0;
}

/* -1: there are rows; else the exit code, and what went wrong was said. */
static int measure_operations(const struct tw_ops_asked *asked, struct tw_ops_result *r)
{
    int rc = tw_ops_measure(asked, r, &tw_terminal);
    if (rc == 0)
        return -1;
    return rc == TWIN_EINTR ? TW_EXIT_INTERRUPTED : TW_EXIT_TROUBLE;
}

static int run(int argc, char **argv)
{
    struct ops_args a = {0};
    struct tw_operands rest;
    struct tw_ops_result r = {.count = 0};
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_options_parse(&tw_command_ops, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    const struct tw_ops_asked asked = {.python = a.python,
                                       .device = a.device,
                                       .threads = a.threads,
                                       .pattern = a.op.items,
                                       .pattern_count = a.op.count,
                                       .runs = a.runs};
    if (tw_ops_choose(&asked, &r, &err) != 0) {
        rc = tw_bad_use("ops", "%s", err.message);
    } else {
        tw_interrupt_hold();
        tw_progress_setup(a.quiet);
        rc = measure_operations(&asked, &r);
        if (rc < 0)
            rc = print_answer(&r, a.json);
        else if (a.json)
            rc = json_error(rc);
    }
    tw_ops_free(&r);
    tw_free(a.op.items);
    return rc;
}

const struct tw_command tw_command_ops = {
    "ops",
    "measure which PyTorch operations repeat their bits here, unsafe ones first",
    synopsis,
    "Calls each operation of a catalogue several times with the same inputs, at several numbers of "
    "threads and in two fresh processes, and compares every bit of the results: does it repeat "
    "itself, does it give the same bits with another number of threads, what does "
    "torch.use_deterministic_algorithms(True) do to it (nothing, other bits, slower, raises), what "
    "does that cost, and what can be used instead.\n\n"
    "Inputs are large enough to be split between threads, and indices come with many duplicates. "
    "An operation that never differed is not proven to be deterministic: the bound is printed. "
    "Times come from calls without and with the flag in turn.",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
