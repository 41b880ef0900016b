/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check --transplant: one natural run, one that is recorded, and others whose steps start with what
 * was recorded. So a divergence does not hide the next one, and each origin has its rate.
 */
#include "check.h"

#include "run_state.h"
#include "zoom_runs.h"

#include "base.h"

#include "src/trace/trace.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ZOOMS = 3 }; /* origins whose operation is looked for */

struct transplant {
    struct tw_check *c;
    enum twin_transplant_kind kind;
    uint32_t first, last;
    /* bytes of a step over all processes; what one process may write */
    uint64_t state, batch, cap;
    size_t processes;
    struct twin_run **runs; /* those that were given values */
    size_t count;
    char *env[2]; /* TWINRUN_TRANSPLANT of the run at hand */
};

/* ---- runs */

static int no_memory(const struct tw_check *c, const char *doing)
{
    return tw_front_trouble(c->series.front, &(struct twin_error){.code = TWIN_ENOMEM}, "%s",
                            doing);
}

/* Sets what the next run is told: to measure, to record, or to take what lies in the folder. */
static int ask_of_run(struct transplant *t, const char *mode, const char *folder)
{
    tw_free(t->env[0]);
    t->env[0] = tw_printf("TWINRUN_TRANSPLANT=%s:%s:%u:%u:%llu:%s", mode,
                          twin_transplant_name(t->kind), t->first, t->last,
                          (unsigned long long)t->cap, folder);
    return t->env[0] ? 0 : no_memory(t->c, "check");
}

/* One run that does what ask_of_run() told it to. *out is the caller's. */
static int launch_run(struct transplant *t, const char *label, struct twin_run **out)
{
    struct tw_check *c = t->c;
    char title[48], text[32];
    snprintf(title, sizeof title, "run %zu/%llu %s", c->series.count + t->count + 1,
             (unsigned long long)c->args.runs, label);
    struct twin_launch_options o = tw_check_launch_options(c, 0, label);
    o.env = t->env;
    int rc = tw_check_launch(c, &o, title, false, out);
    if (rc != 0)
        return rc;
    if ((*out)->outcome == TWIN_RUN_NOT_STARTED) {
        tw_front_say(c->series.front, "check: %s", (*out)->message);
        twin_run_free(*out);
        *out = NULL;
        return TWIN_EINVAL;
    }
    bool whole = (*out)->outcome == TWIN_RUN_STOPPED && c->series.trial.end != TW_TRIAL_OUT_OF_TIME;
    if (!c->args.quiet)
        tw_trial_line(c->series.front, title, *out, whole ? "ok" : tw_run_state(*out, text));
    return 0;
}

/* A run of the series: its values are its own. */
static int natural(struct transplant *t, const char *mode, const char *label)
{
    struct twin_run *r = NULL;
    int rc = ask_of_run(t, mode, "");
    if (rc == 0)
        rc = launch_run(t, label, &r);
    return rc == 0 ? tw_check_keep(t->c, r) : rc;
}

/* A run whose steps start with the values in the folder. */
static int make_given(struct transplant *t, const char *folder)
{
    struct twin_run *r = NULL, **grown;
    int rc = ask_of_run(t, "inject", folder);
    if (rc == 0)
        rc = launch_run(t, "transplanted", &r);
    if (rc != 0)
        return rc;
    if (!(grown = tw_reallocarray(t->runs, t->count + 1, sizeof *grown))) {
        twin_run_free(r);
        return no_memory(t->c, "check: cannot keep a run");
    }
    t->runs = grown;
    t->runs[t->count++] = r;
    return 0;
}

/* ---- what the agent says in its notes */

/* Given one note of one process; the key is without its "transplant.". */
typedef void note_fn(struct transplant *t, const struct twin_trace_info *info, const char *key,
                     const char *value);

/* Calls for each of a run's notes on transplants. */
static void each_note(struct transplant *t, const struct twin_run *r, note_fn *call)
{
    for (size_t i = 0; i < r->trace_count; i++) {
        struct twin_trace *trace = NULL;
        const char *key, *value;
        if (twin_trace_open(r->traces[i], &trace, NULL) != 0)
            continue;
        for (size_t n = 0; twin_trace_note(trace, n, &key, &value); n++)
            if (tw_starts(key, "transplant."))
                call(t, twin_trace_info(trace), key + strlen("transplant."), value);
        twin_trace_close(trace);
    }
}

/* Two of each process: of steps 1 and 2, since the first has an optimizer state only once it has
 * ended. */
static void take_size(struct transplant *t, const struct twin_trace_info *info, const char *key,
                      const char *value)
{
    unsigned long long state, batch;
    (void)info;
    if (strcmp(key, "measured") != 0 || sscanf(value, "%llu %llu", &state, &batch) != 2)
        return;
    t->state += state;
    t->batch += batch;
    t->processes++;
}

/* A note_fn: from which step on a process recorded or took nothing more. */
static void say_trouble(struct transplant *t, const struct twin_trace_info *info, const char *key,
                        const char *value)
{
    if (strcmp(key, "full") != 0 && strcmp(key, "unrecorded") != 0 && strcmp(key, "ended") != 0)
        return;
    size_t step = strcspn(value, " ");
    twin_verdict_note(
        t->c->series.v,
        "transplant: rank %d recorded nothing more, or took nothing more, from step %.*s on: %s",
        info->rank, (int)step, value, value + step + (value[step] == ' '));
}

/* A note_fn: a step that could not be given its values. */
static void say_left_out(struct transplant *t, const struct twin_trace_info *info, const char *key,
                         const char *value)
{
    size_t step = strcspn(value, " ");
    if (strcmp(key, "left_out") == 0 && t->processes++ == 0) /* one says enough */
        twin_verdict_note(t->c->series.v,
                          "transplant: step %.*s of rank %d could not be given its values: %s",
                          (int)step, value, info->rank, value + step + (value[step] == ' '));
}

/* ---- how much it will take */

/* Why nothing can be given to a job of which run 1 measured nothing. */
static int why_refused(const struct transplant *t, const struct twin_run *r)
{
    const struct tw_front *front = t->c->series.front;
    if (!t->processes)
        tw_front_say(
            front,
            "check: --transplant needs a PyTorch job that the Python agent watches for two "
            "steps or more, and found none in run 1 (%s): values cannot be given to programs in "
            "C; try twinrun check without --transplant, or twinrun doctor -- COMMAND",
            r->dir);
    else
        tw_front_say(
            front,
            "check: --transplant data needs batches of a DataLoader, and run 1 had none: what "
            "goes in is made by the job itself; try --transplant step");
    return TWIN_EINVAL;
}

/* From what run 1 measured: does what is to be recorded fit the limit and the disk? */
static int plan_recording(struct transplant *t)
{
    struct tw_check *c = t->c;
    struct statvfs fs;
    struct tw_run_totals totals;
    char each[16], all[16], most[16];
    each_note(t, c->series.runs[0], take_size);
    if (!t->processes || (t->kind == TWIN_TRANSPLANT_DATA && !t->batch))
        return why_refused(t, c->series.runs[0]);
    tw_run_totals(c->series.runs[0], &totals);
    if (t->first >= totals.steps) {
        tw_front_say(c->series.front,
                     "check: --window begins at step %u, and run 1 has only %llu steps", t->first,
                     (unsigned long long)totals.steps);
        return TWIN_EINVAL;
    }
    uint64_t processes = (t->processes + 1) / 2;
    uint64_t steps = (t->last < totals.steps ? t->last : totals.steps) - t->first + 1;
    uint64_t step = (t->state + 1) / 2 + (t->batch + 1) / 2, need, limit = c->args.transplant_limit;
    uint64_t space = statvfs(c->series.home, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize
                                                       : UINT64_MAX;
    if (__builtin_mul_overflow(step, steps, &need))
        need = UINT64_MAX;
    tw_human_bytes(step, each);
    tw_human_bytes(need, all);
    if (need > limit || need > space) {
        tw_front_say(
            c->series.front,
            "check: --transplant %s would record %llu steps of %s, %s in all; found %s %s; try "
            "--window FIRST:LAST for fewer steps%s%s",
            c->args.transplant, (unsigned long long)steps, each, all,
            need > limit ? "a limit of" : "free:",
            tw_human_bytes(need > limit ? limit : space, most),
            t->kind == TWIN_TRANSPLANT_STEP ? ", --transplant rng or data" : "",
            need > limit ? ", or a larger --transplant-limit" : ", or --home on a larger disk");
        return TWIN_EINVAL;
    }
    if (!c->args.quiet)
        tw_front_say(
            c->series.front,
            "transplant: run 2 records %llu steps of about %s, %s in all (at most %s), deleted "
            "at the end",
            (unsigned long long)steps, each, all, tw_human_bytes(limit, most));
    t->cap = limit / processes;
    return 0;
}

/* What was recorded has served its purpose. */
static void delete_values(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *path = tw_ends(e->d_name, ".twv") ? tw_path_join(folder, e->d_name) : NULL;
        if (path)
            unlink(path);
        tw_free(path);
    }
    if (d)
        closedir(d);
}

/* ---- what came of it */

/* The verdict on the runs that were given values, and what hindered the giving. */
static int judge_runs(struct transplant *t)
{
    struct tw_check *c = t->c;
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_run **runs = tw_calloc(t->count + 1, sizeof *runs);
    struct twin_transplant_options o = {t->kind, t->first, t->last, c->args.ignore.items,
                                        c->args.ignore.count};
    if (!runs)
        return no_memory(c, "check");
    runs[0] = c->series.runs[1];
    for (size_t i = 0; i < t->count; i++)
        runs[i + 1] = t->runs[i];
    int rc = twin_compare_transplant(c->series.v, runs, t->count + 1, &o, &err);
    tw_free(runs);
    if (rc != 0)
        return tw_front_trouble(c->series.front, &err, "check: cannot judge the transplanted runs");
    each_note(t, c->series.runs[1], say_trouble);
    t->processes = 0;
    for (size_t i = 0; i < t->count; i++) {
        each_note(t, t->runs[i], say_trouble);
        each_note(t, t->runs[i], say_left_out);
    }
    return 0;
}

/* Is it the same tensor in the same phase? */
static bool same_place(const struct twin_finding *x, const struct twin_finding *y)
{
    return x->phase == y->phase && x->kind == y->kind && strcmp(x->name, y->name) == 0 &&
           strcmp(x->scope, y->scope) == 0;
}

/* The operation of one origin, from reruns that start its step equal. */
static void zoom_into(struct transplant *t, struct twin_finding *f)
{
    struct tw_check *c = t->c;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_launch_options a = tw_check_launch_options(c, 0, "zoom-a");
    struct twin_launch_options b = tw_check_launch_options(c, 0, "zoom-b");
    struct twin_verdict alone = {.outcome = TWIN_DIFFER, .first = f};
    const char *why;
    if (!tw_zoom_is_useful(&alone, c->series.runs[0], &why))
        return;
    a.env = b.env = t->env;
    struct tw_zoom z = {.front = c->series.front,
                        .base_a = &a,
                        .base_b = &b,
                        .deadline_ns = c->series.deadline_ns,
                        .quiet = c->args.quiet};
    if (tw_zoom_run(&alone, &z, &err) != 0)
        tw_front_trouble(c->series.front, &err,
                         "check: a zoom failed, the verdict stands without it");
    c->zoomed = true;
    c->series.interrupted |= z.interrupted;
    for (size_t i = 0; i < alone.note_count; i++) {
        twin_verdict_note(c->series.v, "%s", alone.notes[i]);
        tw_free(alone.notes[i]);
    }
    tw_free(alone.notes);
    tw_zoom_free(&z);
}

/* The operations of the first origins; the first finding of the verdict shares its operation with
 * the origin in the same place. */
static void zoom_origins(struct transplant *t)
{
    struct twin_transplant *found = t->c->series.v->transplant;
    struct twin_finding *first = t->c->series.v->first;
    for (size_t i = 0; i < found->origin_count && i < ZOOMS && !t->c->series.interrupted; i++) {
        struct twin_finding *f = found->origin[i].finding;
        zoom_into(t, f);
        if (!first || first == f || !same_place(first, f) || !f->op[0])
            continue;
        char *op = tw_strdup(f->op), *site = tw_strdup(f->site);
        if (op && site) {
            tw_free(first->op);
            tw_free(first->site);
            first->op = op;
            first->site = site;
        } else {
            tw_free(op);
            tw_free(site);
        }
    }
}

/* All runs. *folder, malloc'ed: where values were recorded; NULL: none were. */
static int make_series(struct transplant *t, char **folder)
{
    struct tw_check *c = t->c;
    int rc = natural(t, "measure", "natural");
    if (rc == 0 && !c->series.interrupted && !c->series.out_of_time)
        rc = plan_recording(t);
    if (rc == 0 && !c->series.interrupted && !c->series.out_of_time)
        rc = natural(t, "record", "recorded");
    if (rc == 0)
        rc = tw_check_compare(c);
    if (rc != 0 || c->series.count < 2 || tw_run_failed(c->series.runs[1]))
        return rc;
    *folder = tw_path_join(c->series.runs[1]->dir, "transplant");
    if (!*folder)
        return no_memory(c, "check");
    while (rc == 0 && c->series.count + t->count < c->args.runs && !c->series.interrupted &&
           !c->series.out_of_time)
        rc = make_given(t, *folder);
    return rc;
}

int tw_check_transplant(struct tw_check *c)
{
    struct transplant t = {.c = c, .last = UINT32_MAX - 1};
    char *folder = NULL;
    twin_transplant_parse(c->args.transplant, &t.kind);
    if (c->args.window.given) {
        t.first = c->args.window.first;
        t.last = c->args.window.last;
    }
    int rc = make_series(&t, &folder);
    if (rc == 0 && t.count)
        rc = judge_runs(&t);
    if (rc == 0 && t.count && !c->args.no_zoom && !c->series.interrupted && !c->series.out_of_time)
        zoom_origins(&t);
    if (folder)
        delete_values(folder);
    for (size_t i = 0; i < t.count; i++)
        twin_run_free(t.runs[i]);
    tw_free(t.runs);
    tw_free(t.env[0]);
    tw_free(folder);
    return rc;
}
