/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun ops: which operations repeat their bits on this machine, measured. */
#include "ops_report.h"

#include "capture.h"
#include "interrupt.h"
#include "json.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "terminal.h"

#include "base.h"

#include "src/launch/run.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROW_LIMIT_S = 60, SILENCE_S = 300, THREADS_MAX = 16 };

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

/* ---- what to measure */

static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* A race needs two threads to show, on one processor, too. */
static json_t *usual_threads(void)
{
    int all = processors();
    return json_pack("[i, i]", 1, all < 2 ? 2 : all);
}

/* NULL: not a list of distinct numbers, or out of memory. */
static json_t *parse_threads(const char *text)
{
    json_t *list = json_array();
    while (list) {
        char word[8];
        uint64_t n;
        size_t length = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        bool good = length < sizeof word && tw_parse_u64(word, 1024, &n) == 0 && n > 0 &&
                    json_array_size(list) < THREADS_MAX;
        for (size_t i = 0; good && i < json_array_size(list); i++)
            good = (uint64_t)json_integer_value(json_array_get(list, i)) != n;
        if (!good) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, json_integer((json_int_t)n));
        if (!text[length])
            return list;
        text += length + 1;
    }
    return NULL;
}

/* ---- the Python half */

static void show_progress(const struct tw_ops_device *d, const json_t *p)
{
    char line[160];
    snprintf(line, sizeof line, "%s  %lld of %lld  %s", d->name,
             (long long)json_integer_value(json_object_get(p, "done")) + 1,
             (long long)json_integer_value(json_object_get(p, "of")),
             json_string_value(json_object_get(p, "name")));
    tw_progress_line(line);
}

static int take_line(void *user, char *line, struct twin_error *err)
{
    struct tw_ops_device *d = user;
    json_t *j = json_loads(line, 0, NULL), *value;
    int rc = 0;
    if ((value = json_object_get(j, "progress")))
        show_progress(d, value);
    else if ((value = json_object_get(j, "about")))
        d->about = json_incref(value);
    else if ((value = json_object_get(j, "row")))
        rc = json_array_append(d->rows, value);
    else if ((value = json_object_get(j, "failed")))
        rc = (d->failed = tw_strdup(json_string_value(value))) ? 0 : -1;
    json_decref(j); /* a line that is no object comes from elsewhere: a sitecustomize that prints */
    return rc == 0 ? 0 : twin_error_set(err, TWIN_ENOMEM, "out of memory");
}

/* The folder of our program, started by its path: neither the working folder nor an installed
 * twinrun of another version is looked into. */
static char *program(struct twin_error *err)
{
    struct twin_parts parts;
    if (twin_parts_find(&parts, err) != 0)
        return NULL;
    char *path = parts.python_dir ? tw_path_join(parts.python_dir, "twinrun/_ops") : NULL;
    if (!parts.python_dir)
        twin_error_set(err, TWIN_ENOENT,
                       "the Python half (package twinrun) was not found; install twinrun again");
    else if (!path)
        twin_error_set(err, TWIN_ENOMEM, "out of memory");
    else if (access(path, R_OK) != 0) {
        twin_error_system(err, "%s", path);
        tw_free(path);
        path = NULL;
    }
    twin_parts_free(&parts);
    return path;
}

static json_t *plan_of(const struct ops_args *a, const json_t *threads,
                       const struct tw_ops_device *d)
{
    json_t *patterns = json_array();
    json_t *counts = strcmp(d->name, "cpu") == 0 ? json_deep_copy(threads) : json_pack("[i]", 1);
    for (size_t i = 0; i < a->op.count; i++)
        json_array_append_new(patterns, json_string(a->op.items[i]));
    return json_pack("{s:s, s:o, s:I, s:o, s:i}", "device", d->name, "threads", counts, "runs",
                     (json_int_t)a->runs, "patterns", patterns, "limit", ROW_LIMIT_S);
}

/* -1, or the exit code after trouble was said. What PyTorch or the driver could not do is left in
 * d->failed. */
static int measure(const struct ops_args *a, const json_t *threads, struct tw_ops_device *d)
{
    struct twin_error err = TWIN_ERROR_INIT;
    json_t *plan = plan_of(a, threads, d);
    char *request = plan ? json_dumps(plan, 0) : NULL;
    char *python = tw_find_python(a->python);
    char *folder = program(&err);
    char *argv[] = {python, folder, request, NULL};
    bool interrupted = false;
    int status = 0, rc = -1;
    d->rows = json_array();
    if (!folder)
        rc = tw_trouble(&err, "ops");
    else if (!request || !python || !d->rows)
        rc = tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "ops");
    else if (tw_capture_lines(argv, SILENCE_S, &tw_terminal, take_line, d, &interrupted, &status,
                              &err) != 0)
        rc = tw_trouble(&err, "ops: nothing was measured; name the interpreter with --python");
    else if (interrupted) {
        tw_say("ops: interrupted; with --op and fewer --runs it takes less time");
        rc = TW_EXIT_INTERRUPTED;
    } else if (!d->failed && (status != 0 || !d->about)) {
        tw_say("ops: %s ended early (wait status %d): is it a Python 3.8 or later?", python,
               status);
        rc = TW_EXIT_TROUBLE;
    }
    tw_progress_clear();
    json_decref(plan);
    free(request);
    tw_free(python);
    tw_free(folder);
    return rc;
}

static int measure_all(const struct ops_args *a, const json_t *threads, struct tw_ops_result *r)
{
    int rc = -1;
    for (size_t i = 0; i < r->count && rc < 0; i++)
        rc = measure(a, threads, &r->device[i]);
    if (rc < 0 && !a->device && r->count == 2 && r->device[1].failed && !r->device[0].failed) {
        /* a driver for other programs than this PyTorch */
        tw_say("ops: no CUDA rows: %s", r->device[1].failed);
        r->count = 1;
    }
    for (size_t i = 0; i < r->count && rc < 0; i++)
        if (r->device[i].failed) {
            bool no_torch = strstr(r->device[i].failed, "No module named");
            tw_say("ops: nothing was measured: %s%s", r->device[i].failed,
                   no_torch ? "; name an interpreter that has PyTorch with --python" : "");
            rc = TW_EXIT_TROUBLE;
        }
    return rc;
}

/* ---- the command */

static int json_error(int code)
{
    json_t *j = json_pack("{s:s, s:s, s:o, s:[]}", "schema", "twinrun.ops/1", "outcome", "error",
                          "message", tw_json_text(tw_said()), "devices");
    return tw_json_print(j) != 0 ? TW_EXIT_TROUBLE : code;
}

static int choose(const struct ops_args *a, struct tw_ops_result *r, json_t **threads)
{
    if (a->device && strcmp(a->device, "cpu") != 0 && strcmp(a->device, "cuda") != 0)
        return tw_bad_use("ops", "--device: expected cpu or cuda, found \"%s\"", a->device);
    *threads = a->threads ? parse_threads(a->threads) : usual_threads();
    if (!*threads)
        return tw_bad_use("ops",
                          "--threads: expected at most %d different numbers from 1 to 1024 with "
                          "commas between them, such as 1,2,8; found \"%s\"",
                          THREADS_MAX, a->threads ? a->threads : "");
    r->runs = a->runs;
    if (!a->device || strcmp(a->device, "cpu") == 0)
        r->device[r->count++].name = "cpu";
    if (a->device ? strcmp(a->device, "cuda") == 0 : access("/dev/nvidiactl", F_OK) == 0)
        r->device[r->count++].name = "cuda";
    return -1;
}

static int print_answer(const struct tw_ops_result *r, bool as_json)
{
    if (as_json)
        return tw_json_print(tw_ops_json(r));
    tw_ops_text(stdout, r);
    return 0;
}

static int run(int argc, char **argv)
{
    struct ops_args a = {0};
    struct tw_operands rest;
    struct tw_ops_result r = {0};
    json_t *threads = NULL;
    int rc = tw_options_parse(&tw_command_ops, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    rc = choose(&a, &r, &threads);
    if (rc < 0) {
        tw_interrupt_hold();
        tw_progress_setup(a.quiet);
        rc = measure_all(&a, threads, &r);
        if (rc < 0)
            rc = print_answer(&r, a.json);
        else if (a.json)
            rc = json_error(rc);
    }
    for (size_t i = 0; i < 2; i++) {
        json_decref(r.device[i].rows);
        json_decref(r.device[i].about);
        tw_free(r.device[i].failed);
    }
    json_decref(threads);
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
