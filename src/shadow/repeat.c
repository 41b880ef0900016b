/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One repeat: the original's command in a copy of its folder, with its variables, level and pins;
 * then the comparison, as `diff` makes it, and its record in the ledger.
 *
 * The record of the comparison is the last thing that is written: what was killed before is done
 * again from where it was, and what was killed after is not done again.
 */
#include "shadow_inside.h"

#include "launch.h"
#include "run_state.h"
#include "replayed.h"

#include "src/compare/compare.h"
#include "src/ledger/noted.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Sets the row's outcome; takes why, which may be NULL. */
static void set_outcome(struct tw_shadow_row *row, enum tw_shadow_outcome outcome, char *why)
{
    row->outcome = outcome;
    tw_free(row->why);
    row->why = why;
}

/* ---- a repeat that a killed call left behind */

/* Does a process of the run in this folder still live? */
static bool lives(const char *dir)
{
    char *wanted = tw_printf("TWINRUN_RUN_DIR=%s", dir);
    DIR *d = opendir("/proc");
    bool found = false;
    for (struct dirent *e; wanted && d && !found && (e = readdir(d));) {
        char path[300], *env = NULL;
        size_t n = 0;
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
        if (tw_read_file(path, (size_t)4 << 20, &env, &n, NULL) != 0)
            continue;
        for (const char *at = env; at < env + n && !found; at += strlen(at) + 1)
            found = strcmp(at, wanted) == 0;
        tw_free(env);
    }
    if (d)
        closedir(d);
    tw_free(wanted);
    return found;
}

/* A repeat of this run whose launcher was killed, and that goes on all the same. */
static bool goes_on(const struct tw_shadow *s, const struct shadow_runs *all,
                    const struct shadow_run *r)
{
    char label[64];
    snprintf(label, sizeof label, "%s%.*s", TW_SHADOW_LABEL, TW_SHADOW_DIGITS, r->id);
    bool found = false;
    for (size_t i = 0; r->cut && i < all->count && !found; i++) {
        if (strcmp(all->run[i].label, label) != 0 || all->run[i].gone)
            continue;
        char *dir = tw_printf("%s/runs/%s", s->home, all->run[i].name);
        found = dir && lives(dir);
        tw_free(dir);
    }
    return found;
}

/* ---- comparing */

/* Once for each run: a later call finds it. */
static int note_not_repeated(const struct tw_shadow *s, struct shadow_run *r, const char *why,
                             struct twin_error *err)
{
    if (r->told || s->asked.dry_run)
        return 0;
    const struct twin_ledger_event e = {
        .kind = TW_SHADOW_VERB, .outcome = "not-repeated", .subject = why, .run_id = r->id};
    r->told = true;
    return tw_ledger_write_event(s->home, s->url, &e, err);
}

/* The answer goes into the ledger. v NULL: nothing can be said, and no run counts as diverged. */
static int note(const struct tw_shadow *s, const struct twin_run *const *runs,
                const struct twin_verdict *v, struct twin_error *err)
{
    char *command = tw_shell_quote(runs[0]->argv, runs[0]->argc);
    struct tw_noted n = {.home = s->home};
    n.url = s->url;
    n.verb = TW_SHADOW_VERB;
    n.command = command;
    n.outcome = v ? twin_verdict_name(v->outcome) : "inconclusive";
    n.first = v && v->outcome != TWIN_SAME ? v->first : NULL;
    n.verdict = v;
    n.runs = runs;
    n.count = 2;
    int rc = command ? tw_ledger_write(&n, err) : tw_no_memory(err, "for a comparison");
    tw_free(command);
    return rc;
}

/* A repeat that differs: says why that is no divergence of the job, or leaves *why NULL. */
static int excuse(const struct tw_shadow *s, const struct shadow_original *o,
                  const struct twin_run *repeat, char **why, struct twin_error *err)
{
    char state[32];
    *why = NULL;
    if (tw_run_failed(repeat)) {
        char *words = tw_run_last_words(repeat);
        *why = tw_printf("the repeat failed (%s)%s%s", tw_run_state(repeat, state),
                         words ? ": " : "", words ? words : "");
        tw_free(words);
        return *why ? 0 : tw_no_memory(err, "for a reason");
    }
    return tw_shadow_other_world(s, o, repeat, why, err);
}

/* Why the verdict is none; malloc'ed. */
static char *words_of(const struct twin_verdict *v)
{
    if (v->outcome == TWIN_FAILED)
        return tw_strdup("the runs failed");
    return tw_strdup(v->unseen_count ? v->unseen[0] : "what was seen does not suffice");
}

static int compare(struct tw_shadow *s, const struct shadow_original *o,
                   const struct twin_run *repeat, struct shadow_run *r, struct tw_shadow_row *row,
                   struct twin_error *err)
{
    const struct twin_run *const runs[] = {o->run, repeat};
    const struct twin_compare_options how = {.arms = false};
    struct twin_verdict *v = NULL;
    char *why = NULL;
    int rc = twin_compare(runs, 2, &how, &v, err);
    if (rc != 0)
        return rc;
    if (v->outcome == TWIN_DIFFER || v->outcome == TWIN_FAILED)
        rc = excuse(s, o, repeat, &why, err);
    if (rc == 0 && why) {
        set_outcome(row, TW_SHADOW_NOT_KNOWN, why);
        rc = note_not_repeated(s, r, why, err);
        rc = rc ? rc : note(s, runs, NULL, err);
    } else if (rc == 0) {
        if (v->outcome == TWIN_SAME || v->outcome == TWIN_WITHIN_TOLERANCE)
            set_outcome(row, TW_SHADOW_SAME, NULL);
        else if (v->outcome == TWIN_DIFFER)
            set_outcome(row, TW_SHADOW_DIVERGED, NULL);
        else
            set_outcome(row, TW_SHADOW_NOT_KNOWN, words_of(v));
        rc = note(s, runs, v, err);
    }
    twin_verdict_free(v);
    return rc;
}

/* ---- running */

/* The repeat in its copy; *out: what came of it, NULL: row says why not. The working folder and the
 * environment are the original's. */
static int launch(struct tw_shadow *s, const struct shadow_original *o, struct tw_shadow_row *row,
                  struct twin_run **out, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char label[64], **env = NULL, **argv = tw_calloc(o->run->argc + 1, sizeof *argv);
    size_t n = 0;
    const char *name;
    json_t *v, *agents = json_object_get(json_object_get(o->record, "factors"), "agents");
    snprintf(label, sizeof label, "%s%.*s", TW_SHADOW_LABEL, TW_SHADOW_DIGITS, o->run->id);
    env = tw_calloc(json_object_size(agents) + 1, sizeof *env);
    *out = NULL;
    if (!argv || !env) {
        tw_free(argv);
        tw_free(env);
        return tw_no_memory(err, "for a repeat");
    }
    memcpy(argv, o->run->argv, o->run->argc * sizeof *argv);
    json_object_foreach (agents, name, v)
        if (json_is_string(v) && (env[n] = tw_printf("%s=%s", name, json_string_value(v))))
            n++;
    const struct twin_unpacked u = {.argv = argv,
                                    .env = env,
                                    .data = o->run->data,
                                    .data_count = o->run->data_count,
                                    .record = o->record};
    struct twin_launch_options how = tw_replay_launch_options(&u, s->home);
    how.label = label;
    how.show_output = how.native_output = false;
    how.no_telemetry = json_is_false(json_object_get(o->record, "telemetry"));
    how.fresh_dir = true;
    how.copy_of = o->stage;
    how.on = tw_remote_is_on(s->on) ? s->on : NULL;
    struct tw_trial t = {
        .front = s->front,
        .title = "repeat",
        .expected_s = o->run->wall_s,
        .deadline_ns = tw_patience_ends_ns(&tw_patience_under_pins, o->run->wall_s)};
    int rc = tw_trial_make(&t, &how, &why);
    if (rc == TWIN_EINTR || (rc == 0 && t.end == TW_TRIAL_INTERRUPTED)) {
        s->interrupted = true;
        set_outcome(row, TW_SHADOW_LEFT, tw_strdup("interrupted"));
    } else if (rc != 0) {
        set_outcome(row, TW_SHADOW_FAILED, tw_strdup(why.message));
    } else if (t.end == TW_TRIAL_NOT_STARTED) {
        set_outcome(row, TW_SHADOW_NOT_REPEATED,
                    tw_printf("it cannot be started: %s", t.run->message));
    } else if (t.end == TW_TRIAL_OUT_OF_TIME || t.run->outcome == TWIN_RUN_STOPPED) {
        set_outcome(
            row, TW_SHADOW_NOT_KNOWN,
            tw_printf("the repeat was ended: after %.0f s it stood still, or was far slower "
                      "than the original",
                      t.run->wall_s));
    } else {
        *out = t.run;
        t.run = NULL;
    }
    if (t.run) {
        row->took_s = t.run->wall_s;
        const struct twin_run *only = t.run;
        tw_ledger_write(
            &(struct tw_noted){.home = s->home, .url = s->url, .runs = &only, .count = 1}, NULL);
    }
    twin_run_free(t.run);
    for (size_t i = 0; i < n; i++)
        tw_free(env[i]);
    tw_free(env);
    tw_free(argv);
    return rc == TWIN_ENOMEM ? twin_error_set(err, rc, "%s", why.message) : 0;
}

/* Looks at the world, and repeats it where that can be done. Comes back to the folder and
 * environment that were there before. */
static int make(struct tw_shadow *s, struct shadow_original *o, struct shadow_run *r,
                struct tw_shadow_row *row, struct twin_run **out, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char *here = realpath(".", NULL), **env = tw_shadow_environment(o), **ours = environ;
    char *reason = NULL;
    int rc = env ? 0 : tw_no_memory(err, "for an environment");
    *out = NULL;
    if (rc == 0 && chdir(o->from) != 0) {
        set_outcome(row, TW_SHADOW_NOT_REPEATED,
                    tw_printf("its folder is not there any more: %s", o->from));
        rc = note_not_repeated(s, r, row->why, err);
    } else if (rc == 0) {
        environ = env;
        rc = tw_shadow_may_repeat(s, o, &reason, err);
        if (rc == 0 && reason) {
            set_outcome(row, TW_SHADOW_NOT_REPEATED, reason);
            rc = note_not_repeated(s, r, reason, err);
        } else if (rc == 0 && s->asked.dry_run) {
            set_outcome(row, TW_SHADOW_WOULD, NULL);
        } else if (rc == 0 && tw_shadow_stage(s, o, &why) != 0) {
            set_outcome(row, TW_SHADOW_NOT_REPEATED, tw_strdup(why.message));
            rc = note_not_repeated(s, r, row->why, err);
        } else if (rc == 0) {
            rc = launch(s, o, row, out, err);
        }
        environ = ours;
    }
    if (here && chdir(here) != 0 && rc == 0)
        rc = twin_error_system(err, "%s", here);
    free(here);
    tw_shadow_environment_free(env);
    return rc;
}

int tw_shadow_repeat(struct tw_shadow *s, const struct shadow_runs *all, struct shadow_run *r,
                     struct tw_shadow_row *row, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct shadow_original o = {.run = NULL};
    struct twin_run *repeat = NULL;
    char *dir = tw_printf("%s/runs/%s", s->home, r->name), *old = NULL;
    int rc = dir ? 0 : tw_no_memory(err, "for a repeat");
    if (rc == 0 && tw_shadow_open(dir, &o, &why) != 0) {
        set_outcome(row, TW_SHADOW_NOT_REPEATED, tw_strdup(why.message));
        rc = note_not_repeated(s, r, why.message, err);
    } else if (rc == 0 && r->ended != SIZE_MAX && !s->asked.dry_run) {
        old = tw_printf("%s/runs/%s", s->home, all->run[r->ended].name);
        rc = old ? twin_run_load(old, &repeat, err) : tw_no_memory(err, "for a repeat");
    } else if (rc == 0 && goes_on(s, all, r)) {
        set_outcome(row, TW_SHADOW_LEFT,
                    tw_strdup("its repeat goes on, though the twinrun that began it was killed"));
    } else if (rc == 0 && r->cut >= TW_SHADOW_ATTEMPTS) {
        set_outcome(row, TW_SHADOW_NOT_REPEATED,
                    tw_printf("%zu repeats of it did not come to an end", r->cut));
        rc = note_not_repeated(s, r, row->why, err);
    } else if (rc == 0) {
        rc = make(s, &o, r, row, &repeat, err);
    }
    if (rc == 0 && repeat) {
        row->took_s = r->ended == SIZE_MAX ? repeat->wall_s : 0;
        row->repeat = tw_strdup(tw_base_name(repeat->dir));
        rc = compare(s, &o, repeat, r, row, err);
    }
    twin_run_free(repeat);
    tw_shadow_original_free(&o);
    tw_free(old);
    tw_free(dir);
    return rc;
}
