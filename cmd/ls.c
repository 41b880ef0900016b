/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun ls: lists the recorded runs of a home, newest first.
 *
 * They come from the ledger, which catches up with the folders first; runs that still go on are in
 * no ledger and come from their folders while it catches up. Where there is no ledger all of them
 * come from the folders, which takes longer and knows nothing of runs that were removed.
 */
#include "say.h"
#include "runs.h"
#include "options.h"
#include "paragraphs.h"
#include "put.h"
#include "verdict.h"

#include "base.h"
#include "phrase.h"

#include "src/sign/sign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_args {
    const char *home, *ledger, *command, *outcome, *since;
    uint64_t count;
    bool json;
};

#define FIELD(f) offsetof(struct ls_args, f)

static const struct tw_option options[] = {
    {"count", 'n', TW_OPT_COUNT, "N", NULL, "Listing", "only the N newest", FIELD(count), 1, 0},
    {"command", 'c', TW_OPT_STRING, "PATTERN", NULL, "Listing",
     "only runs whose command matches; * ? [..]", FIELD(command)},
    {"outcome", 'o', TW_OPT_STRING, "WORD", NULL, "Listing",
     "only runs that ended so (ok, 'exit 1', ...), or that took part in a comparison with this "
     "outcome (same, differ, ...)",
     FIELD(outcome)},
    {"since", 0, TW_OPT_STRING, "WHEN", NULL, "Listing",
     "only runs that began then or later: 90m, 12h, 3d, or 2026-11-21", FIELD(since)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Listing", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(ls_args, ledger),
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
    {"twinrun ls", "all runs of the home of the working folder, or of the nearest one above"},
    {"twinrun ls -n 5 --json", "the five newest, for a program"},
    {"twinrun ls --outcome differ --since 7d --command '*train.py*'", "what diverged this week"},
    {NULL, NULL},
};

struct listing {
    const struct ls_args *a;
    const char *home;
    json_t *rows; /* --json */
    uint64_t shown;
    int64_t since_ns;
    int rc;
    unsigned width; /* of the terminal; 0: rows are not broken */
    bool folders;   /* from the run folders: there is no ledger */
};

/* A table of all columns takes 92 before the command begins. */
static bool is_narrow(const struct listing *l)
{
    return l->width && l->width < 100;
}

/* Not before the first row: a list without rows is a sentence. */
static void print_head(const struct listing *l)
{
    if (l->a->json || l->shown > 0)
        return;
    if (is_narrow(l))
        tw_put("%-40s  %s\n", "RUN", "STATE");
    else
        tw_put("%-40s  %-11s %12s %9s %12s  %s\n", "RUN", "STATE", "TIME", "STEPS", "RECORDS",
               "COMMAND");
}

/* Is the run one of those that were asked for, and is there still room for it? What the ledger has
 * already left out passes here again. */
static bool is_wanted(const struct listing *l, int64_t start_ns, const char *command)
{
    return (!l->a->count || l->shown < l->a->count) && start_ns >= l->since_ns &&
           (!l->a->command || tw_glob(l->a->command, command));
}

/* How much of a command a row shows: whole words, the first one in any case. */
static size_t shown_bytes(const char *command)
{
    enum { MOST = 100 };
    size_t n = strlen(command), at = MOST;
    if (n <= MOST)
        return n;
    while (at > 0 && command[at] != ' ')
        at--;
    return at ? at : strcspn(command, " ");
}

/* A run in a few lines, none wider than the terminal but for a word that is. */
static void put_narrow(const struct listing *l, const struct twin_ledger_run *r)
{
    char seconds[24], steps[32], records[32];
    struct tw_paragraphs p = {.look = {.width = l->width}};
    char *command = tw_printable(r->command, strlen(r->command));
    tw_put("%-40s  %s\n  %s, %s step%s, %s record%s%s\n", r->name, r->state,
           tw_human_seconds(r->wall_s, seconds), tw_human_count(r->steps, steps),
           tw_plural_s(r->steps), tw_human_count(r->records, records), tw_plural_s(r->records),
           r->gone ? ", folder removed" : "");
    tw_paragraphs_pad(&p, 2);
    tw_paragraphs_wrap(&p, command ? command : "", 2);
    tw_put_lines(stdout, p.out.failed ? "out of memory\n" : p.out.data);
    tw_buf_free(&p.out);
    tw_free(command);
}

/* A row, from wherever it comes: the ledger's record, or one made of a folder. dir: its folder,
 * even when that was removed. */
static void show_row(struct listing *l, const struct twin_ledger_run *r, const char *dir)
{
    char seconds[24], steps[32], records[32];
    if (l->a->json) {
        json_t *argv = r->argv[0] ? json_loads(r->argv, 0, NULL) : NULL;
        json_array_append_new(
            l->rows, json_pack("{s:o, s:o, s:o, s:s, s:I, s:f, s:I, s:I, s:I, s:I, s:o, s:b}", "id",
                               tw_json_text(r->id), "dir", tw_json_text(dir), "label",
                               tw_json_text(r->label), "state", r->state, "exit_code",
                               (json_int_t)r->exit_code, "wall_s", r->wall_s, "start_realtime_ns",
                               (json_int_t)r->start_ns, "steps", (json_int_t)r->steps, "records",
                               (json_int_t)r->records, "dropped", (json_int_t)r->dropped, "argv",
                               argv ? argv : json_array(), "gone", r->gone));
    } else {
        print_head(l);
        const size_t n = shown_bytes(r->command);
        if (is_narrow(l))
            put_narrow(l, r);
        else
            tw_put("%-40s  %-11s %12s %9s %12s  %.*s%s%s\n", r->name, r->state,
                   tw_human_seconds(r->wall_s, seconds), tw_human_count(r->steps, steps),
                   tw_human_count(r->records, records), (int)n, r->command,
                   r->command[n] ? " ..." : "", r->gone ? "   (folder removed)" : "");
    }
    l->shown++;
}

/* ---- from the ledger */

/* A record names the folder, not its path: a home may have been moved. */
static int ledger_row(void *user, const struct twin_ledger_run *r)
{
    struct listing *l = user;
    char *runs = tw_path_join(l->home, "runs"), *dir = runs ? tw_path_join(runs, r->name) : NULL;
    if (dir && is_wanted(l, r->start_ns, r->command))
        show_row(l, r, dir);
    tw_free(dir);
    tw_free(runs);
    return 0;
}

/* ---- from the folders: runs that go on, and all of them without a ledger */

/* A folder, as the ledger would have it. */
static void folder_row(struct listing *l, const struct twin_run *r)
{
    struct tw_run_totals t;
    char text[32];
    const char *state = tw_run_state(r, text);
    char *command = tw_shell_quote(r->argv, r->argc), *argv = NULL;
    json_t *list = tw_json_texts(r->argv, r->argc);
    tw_run_totals(r, &t);
    argv = list ? json_dumps(list, JSON_COMPACT) : NULL;
    if (command && argv && is_wanted(l, r->start_realtime_ns, command) &&
        (!l->a->outcome || strcmp(l->a->outcome, state) == 0))
        show_row(l,
                 &(struct twin_ledger_run){.id = r->id,
                                           .name = tw_base_name(r->dir),
                                           .label = r->label,
                                           .command = command,
                                           .argv = argv,
                                           .state = state,
                                           .exit_code = r->exit_code,
                                           .start_ns = r->start_realtime_ns,
                                           .wall_s = r->wall_s,
                                           .steps = t.steps,
                                           .records = t.records,
                                           .dropped = t.dropped},
                 r->dir);
    free(argv);
    json_decref(list);
    tw_free(command);
}

/* What the ledger does not hold: a run that goes on is a row, one that cannot be read is said. */
static void live(void *user, const char *dir, const struct twin_run *r,
                 const struct twin_error *err)
{
    struct listing *l = user;
    if (r)
        folder_row(l, r);
    else
        /* one bad folder hides none of the others */
        l->rc = tw_trouble(err, "%s", tw_base_name(dir));
}

/* All of them, until as many were shown as were asked for: opening a folder's traces is what takes
 * time. */
static int list_folders(struct listing *l)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char **dirs = NULL;
    size_t count = 0;
    if (twin_run_list(l->home, &dirs, &count, &err) != 0)
        return tw_trouble(&err, "cannot list the runs");
    l->folders = true;
    for (size_t i = 0; i < count; i++) {
        struct twin_error why = TWIN_ERROR_INIT;
        struct twin_run *r = NULL;
        bool more = !l->a->count || l->shown < l->a->count;
        int rc = more ? twin_run_load(dirs[i], &r, &why) : 0;
        if (more)
            live(l, dirs[i], rc == 0 ? r : NULL, &why);
        twin_run_free(r);
        tw_free(dirs[i]);
    }
    tw_free(dirs);
    return l->rc;
}

/* The ledger sorts and leaves out by itself. */
static int from_ledger(struct listing *l, struct twin_ledger *ledger)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *owner = tw_ledger_home(l->home, l->a->ledger);
    struct twin_ledger_filter f = {.home = owner,
                                   .command = l->a->command,
                                   .outcome = l->a->outcome,
                                   .since_ns = l->since_ns,
                                   .limit = l->a->count};
    int rc = owner ? twin_ledger_runs(ledger, &f, ledger_row, l, &err)
                   : twin_error_set(&err, TWIN_ENOMEM, "out of memory");
    tw_free(owner);
    return rc ? tw_trouble(&err, "cannot read the ledger; --ledger none lists the folders") : l->rc;
}

/* 90m, 12h, 3d, 2w before now; or a day or time. */
static int parse_since(const char *s, int64_t *ns)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7 * 86400}};
    char *end;
    errno = 0;
    double n = strtod(s, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (end != s && end[0] == units[i].unit && !end[1] && n >= 0 && n < 1e5) {
            *ns = tw_realtime_ns() - (int64_t)(n * units[i].seconds * 1e9);
            return 0;
        }
    return twin_trust_time(s, ns);
}

static int run(int argc, char **argv)
{
    struct ls_args a = {0};
    struct tw_operands rest;
    int rc = tw_options_parse(&tw_command_ls, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    struct listing l = {.a = &a, .width = tw_lines_look().width};
    if (a.since && parse_since(a.since, &l.since_ns) != 0)
        return tw_bad_use(
            "ls", "--since: expected 90m, 12h, 3d, 2w or a day such as 2026-11-21, found \"%s\"",
            a.since);
    char *given = tw_home_to_read(a.home), *home = given ? tw_path_absolute(given, NULL) : NULL;
    if (!home) {
        tw_free(given);
        return tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "cannot list the runs");
    }
    if (!a.json && !a.home && tw_starts(given, "../"))
        tw_say("the runs of %s", given);
    l.home = home;
    l.rows = a.json ? json_array() : NULL;
    /* Rows of runs that go on are printed while this catches up. */
    struct twin_ledger *ledger = tw_ledger_open(home, a.ledger, live, &l);
    if (!ledger) { /* what was shown before the ledger failed is shown again, once */
        l.rc = 0;
        l.shown = 0;
        json_array_clear(l.rows);
    }
    rc = ledger ? from_ledger(&l, ledger) : list_folders(&l);
    twin_ledger_close(ledger);
    if (!a.json && l.shown == 0 && rc == 0)
        tw_say(a.command || a.outcome || a.since
                   ? "no such run in %s"
                   : "no runs in %s; make one: twinrun record -- COMMAND",
               given);
    if (a.json &&
        tw_json_print(json_pack("{s:s, s:o}", "schema", "twinrun.ls/1", "runs", l.rows)) != 0)
        rc = TW_EXIT_TROUBLE;
    tw_free(home);
    tw_free(given);
    return rc;
}

const struct tw_command tw_command_ls = {
    "ls",
    "list the recorded runs",
    synopsis,
    "Lists the run folders of a home (.twinrun here, or in the nearest folder above that has one "
    "of yours), newest first: name, how the job ended, wall time, steps, "
    "records and the command. They come from the ledger, which is fast with thousands of runs, "
    "catches up with the folders first, and still knows runs whose folder gc has removed.\n\n"
    "A run is named to the other commands by its path, its folder's name, its id or the unique "
    "beginning of one, last, or last~1 (the one before the last).",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
