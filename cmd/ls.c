/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun ls: the runs of a home, newest first. */
#include "json.h"
#include "options.h"
#include "runs.h"
#include "say.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

struct ls_args {
    const char *home;
    uint64_t count;
    bool json;
};

#define FIELD(f) offsetof(struct ls_args, f)

static const struct tw_option options[] = {
    {"count", 'n', TW_OPT_COUNT, "N", NULL, "Listing", "only the N newest", FIELD(count), 1, 0},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Listing", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Listing", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"[options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "listed, also when there is nothing to list"},
    {"2", "trouble: bad use, or a home that cannot be read"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun ls", "all runs of the working folder's home"},
    {"twinrun ls -n 5 --json", "the five newest, for a program"},
    {NULL, NULL},
};

static void print_row(const struct twin_run *r)
{
    struct tw_run_totals t;
    char state[32], seconds[24], steps[32], records[32];
    char *command = tw_shell_quote(r->argv, r->argc);
    tw_run_totals(r, &t);
    printf("%-38s  %-11s %12s %9s %12s  %.100s\n", tw_base_name(r->dir), tw_run_state(r, state),
           tw_human_seconds(r->wall_s, seconds), tw_human_count(t.steps, steps), tw_human_count(t.records, records),
           command ? command : "");
    tw_free(command);
}

static json_t *json_row(const struct twin_run *r)
{
    struct tw_run_totals t;
    char state[32];
    tw_run_totals(r, &t);
    return json_pack("{s:o, s:o, s:o, s:s, s:i, s:f, s:I, s:I, s:I, s:I, s:o}", "id", tw_json_text(r->id), "dir",
                     tw_json_text(r->dir), "label", tw_json_text(r->label), "state", tw_run_state(r, state),
                     "exit_code", r->exit_code, "wall_s", r->wall_s, "start_realtime_ns",
                     (json_int_t)r->start_realtime_ns, "steps", (json_int_t)t.steps, "records", (json_int_t)t.records,
                     "dropped", (json_int_t)t.dropped, "argv", tw_json_texts(r->argv, r->argc));
}

static int list(char **dirs, size_t count, bool json)
{
    json_t *rows = json ? json_array() : NULL;
    int rc = 0;
    if (!json && count)
        printf("%-38s  %-11s %12s %9s %12s  %s\n", "RUN", "STATE", "TIME", "STEPS", "RECORDS", "COMMAND");
    for (size_t i = 0; i < count; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_run *r = NULL;
        if (twin_run_load(dirs[i], &r, &err) != 0) { /* one bad folder hides none of the others */
            rc = tw_trouble(&err, "%s", tw_base_name(dirs[i]));
            continue;
        }
        if (json)
            json_array_append_new(rows, json_row(r));
        else
            print_row(r);
        twin_run_free(r);
    }
    if (json && tw_json_print(json_pack("{s:s, s:o}", "schema", "twinrun.ls/1", "runs", rows)) != 0)
        rc = TW_EXIT_TROUBLE;
    return rc;
}

static int run(int argc, char **argv)
{
    struct ls_args a = {0};
    struct tw_operands rest;
    struct twin_error err = TWIN_ERROR_INIT;
    char **dirs = NULL;
    size_t count = 0;
    int rc = tw_options_parse(&tw_command_ls, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    char *home = tw_home(a.home);
    if (!home || twin_run_list(home, &dirs, &count, &err) != 0) {
        rc = tw_trouble(&err, "cannot list the runs");
    } else {
        if (count == 0 && !a.json)
            tw_say("no runs in %s; make one: twinrun record -- COMMAND", home);
        rc = list(dirs, a.count && a.count < count ? (size_t)a.count : count, a.json);
    }
    for (size_t i = 0; i < count; i++)
        tw_free(dirs[i]);
    tw_free(dirs);
    tw_free(home);
    return rc;
}

const struct tw_command tw_command_ls = {
    "ls",
    "list the recorded runs",
    synopsis,
    "Lists the run folders of a home, newest first: name, how the job ended, wall time, steps, records and the "
    "command. "
    "A run is named to the other commands by its path, its folder's name, its id or the unique beginning of one, "
    "last, or last~1 (the one before the last).",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
