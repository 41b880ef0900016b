/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun top: the runs that go on, in a terminal, as lines or as JSON. src/watch looks at them,
 * top_view.c says it in a given width, screen.c has the terminal; this file has the options and the
 * loop.
 */
#include "say.h"
#include "runs.h"
#include "options.h"
#include "screen.h"
#include "top_view.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

struct top_args {
    const char *home, *against;
    uint64_t every_s;
    bool once, json;
};

#define FIELD(f) offsetof(struct top_args, f)

static const struct tw_option options[] = {
    {"against", 'a', TW_OPT_STRING, "RUN", NULL, "View",
     "compare runs that have no reference of their own with this one", FIELD(against)},
    {"every", 'e', TW_OPT_SECONDS, "TIME", "1", "View", "look again after so long; at least 1s",
     FIELD(every_s)},
    {"once", 0, TW_OPT_FLAG, NULL, NULL, "View", "print what there is now, and end", FIELD(once)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Other", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Other", "print one JSON object for each look",
     FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"[options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "ended by q, Ctrl-C or SIGTERM; with --once: printed, also when no run goes on"},
    {"2", "trouble: bad use, or a home that cannot be read"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun top", "the runs of the working folder's home that go on"},
    {"twinrun top --against last", "where does the job that runs now diverge from the last run?"},
    {"twinrun top --once --json", "once, for a program"},
    {NULL, NULL},
};

/* What the view is about, and where in it one is. */
struct top {
    const struct top_args *a;
    struct tw_watch *watch;
    const char *home;
    char *chosen; /* the folder of the chosen run; NULL: the first one */
    bool details, screen;
    bool said_none; /* as lines: nothing goes on was said */
};

/* Its place now: runs come and go. */
static size_t chosen_at(const struct top *t)
{
    for (size_t i = 0; t->chosen && i < tw_watch_count(t->watch); i++)
        if (strcmp(tw_watch_at(t->watch, i)->dir, t->chosen) == 0)
            return i;
    return 0;
}

static void choose(struct top *t, size_t at)
{
    char *dir = at < tw_watch_count(t->watch) ? tw_strdup(tw_watch_at(t->watch, at)->dir) : NULL;
    tw_free(t->chosen);
    t->chosen = dir;
}

/* ---- forms */

/* --json leaves a run out after the object in which it has ended. */
static int show_json(const struct top *t)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < tw_watch_count(t->watch); i++) {
        struct tw_flight *f = tw_watch_at(t->watch, i);
        if (f->running || !f->told)
            json_array_append_new(runs, tw_flight_json(f));
        if (!f->running && !f->told)
            f->told = tw_strdup("ended");
    }
    int rc = tw_json_print(json_pack("{s:s, s:I, s:o, s:I, s:I, s:o}", "schema", "twinrun.top/1",
                                     "time_ns", (json_int_t)tw_realtime_ns(), "home",
                                     tw_json_text(t->home), "in_flight",
                                     (json_int_t)tw_watch_running(t->watch), "unreadable",
                                     (json_int_t)tw_watch_unreadable(t->watch), "runs", runs));
    return fflush(stdout) == 0 ? rc : TW_EXIT_TROUBLE;
}

/* A line for each run of which something else is to be said than before. */
static int show_lines(struct top *t)
{
    char stamp[32];
    tw_utc_stamp(tw_realtime_ns(), stamp);
    for (size_t i = 0; i < tw_watch_count(t->watch); i++) {
        struct tw_flight *f = tw_watch_at(t->watch, i);
        char *now = tw_top_line(f, false), *line = tw_top_line(f, true);
        if (now && line && (!f->told || strcmp(now, f->told) != 0)) {
            tw_put("%s  %s\n", stamp, line);
            tw_free(f->told);
            f->told = now;
            now = NULL;
        }
        tw_free(now);
        tw_free(line);
    }
    if (tw_watch_count(t->watch) == 0 && !t->said_none)
        tw_put("%s  no run goes on in %s\n", stamp, t->home);
    t->said_none = tw_watch_count(t->watch) == 0;
    return fflush(stdout) == 0 ? 0 : TW_EXIT_TROUBLE;
}

/* Not on a screen: as wide as it needs to be. */
enum { UNBOUND = 160 };

static void show_table(const struct top *t)
{
    struct tw_buf b = {0};
    struct tw_top_look look = {.coloured = tw_screen_colours(), .chooses = t->screen};
    const size_t at = chosen_at(t);
    tw_screen_size(&look.columns, &look.rows);
    if (!tw_screen_possible())
        look.columns = UNBOUND;
    if (!t->screen)
        look.rows = 0;
    if (t->screen && t->details && at < tw_watch_count(t->watch))
        tw_top_details(&b, tw_watch_at(t->watch, at), &look);
    else
        tw_top_table(&b, t->watch, t->home, at, &look);
    if (t->screen)
        tw_screen_draw(&b);
    else
        tw_put_coloured(stdout, b.failed ? "out of memory\n" : b.data);
    tw_buf_free(&b);
}

static int show(struct top *t)
{
    if (t->a->json)
        return show_json(t);
    if (!t->screen && !t->a->once)
        return show_lines(t);
    show_table(t);
    return 0;
}

/* ---- the loop */

/* What a key changes. */
static void take_key(struct top *t, enum tw_screen_event e)
{
    const size_t at = chosen_at(t), n = tw_watch_count(t->watch);
    if (e == TW_SCREEN_UP && at > 0)
        choose(t, at - 1);
    else if (e == TW_SCREEN_DOWN && at + 1 < n)
        choose(t, at + 1);
    else if (e == TW_SCREEN_ENTER && n) {
        choose(t, at);
        t->details = true;
    } else if (e == TW_SCREEN_BACK)
        t->details = false;
}

/* Waits until it is time to look again. False: it is to end. */
static bool wait_for_next(struct top *t, uint64_t from_ns)
{
    const uint64_t next_ns = from_ns + t->a->every_s * UINT64_C(1000000000);
    for (uint64_t now = tw_monotonic_ns(); now < next_ns; now = tw_monotonic_ns()) {
        enum tw_screen_event e = tw_screen_wait((int)((next_ns - now) / 1000000 + 1));
        if (e == TW_SCREEN_END)
            return false;
        if (!t->screen || e == TW_SCREEN_NOTHING)
            continue;
        take_key(t, e);
        show(t);
    }
    return true;
}

static int watch(struct top *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = 0;
    t->screen = !t->a->once && !t->a->json && tw_screen_possible();
    if (!t->a->once && !tw_screen_begin(t->screen))
        return tw_trouble(&(struct twin_error){.code = TWIN_EIO},
                          "top: expected signals to be readable, as on every Linux");
    for (;;) {
        const uint64_t began = tw_monotonic_ns();
        if (tw_watch_look(t->watch, t->a->once, &err) != 0) {
            tw_screen_end();
            return tw_trouble(&err, "top: cannot look at the runs");
        }
        rc = show(t);
        if (rc != 0 || t->a->once || !wait_for_next(t, began))
            break;
    }
    tw_screen_end();
    return rc;
}

static int run(int argc, char **argv)
{
    struct top_args a = {0};
    struct tw_operands rest;
    struct twin_run *against = NULL;
    int rc = tw_options_parse(&tw_command_top, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    if (a.every_s == 0 || a.every_s > 3600)
        return tw_bad_use("top", "--every: expected 1s to 1h");
    char *given = tw_home_to_read(a.home), *home = given ? tw_path_absolute(given, NULL) : NULL;
    if (home && a.against)
        against = tw_run_open(home, a.against);
    struct top t = {.a = &a, .home = home};
    if (home && (!a.against || against))
        t.watch = tw_watch_open(home, against);
    if (a.against && home && !against)
        rc = TW_EXIT_TROUBLE; /* said */
    else if (!t.watch)
        rc = tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "top: cannot look at the runs");
    else
        rc = watch(&t);
    tw_free(t.chosen);
    tw_watch_close(t.watch);
    twin_run_free(against);
    tw_free(home);
    tw_free(given);
    return rc;
}

const struct tw_command tw_command_top = {
    "top",
    "the runs that go on, live in a terminal",
    synopsis,
    "Shows the runs of a home that go on: steps and their rate, whether the ranks are in step and "
    "began alike, processor time and memory, and the first divergence from the reference run as "
    "soon as it is known. Runs that end while one looks stay in the view.\n\n"
    "The runs of check and of other series tell their reference and their divergence themselves; "
    "others have none, unless --against names one. It only reads. Keys: arrows choose a run, enter "
    "shows its ranks, escape goes back, q ends.\n\n"
    "Where stdout is no terminal, or TERM is dumb, it prints a line whenever something has "
    "changed.",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
