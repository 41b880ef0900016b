/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of a recorded run: can it be made again, and was it, where a repeat came out otherwise?
 *
 * A repeat that agrees proves itself, whatever surrounded it. One that differs says something about
 * the job only where code, data, configuration, libraries, variables and files were what they were.
 * So before the start only what would make the repeat another job is looked for, and after a
 * difference all of it: what has changed, or is not known, makes the answer "not known".
 */
#include "shadow_inside.h"

#include "launch.h"

#include "src/launch/redact.h"
#include "src/provenance/provenance.h"
#include "src/trial/verified_data.h"

#include "json_load.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD_BYTES = 64 << 20 };

/* ---- the original */

int tw_shadow_open(const char *dir, struct shadow_original *out, struct twin_error *err)
{
    *out = (struct shadow_original){.run = NULL};
    char *path = tw_path_join(dir, "run.json"), *text = NULL;
    size_t n = 0;
    int rc = path ? twin_run_load(dir, &out->run, err) : tw_no_memory(err, "opening a run");
    rc = rc ? rc : twin_provenance_load(dir, &out->world, err);
    rc = rc ? rc : tw_read_file(path, RECORD_BYTES, &text, &n, err);
    if (rc == 0 && !(out->record = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL)))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s cannot be read", path);
    if (rc == 0) {
        const char *from = json_string_value(json_object_get(out->record, "launched_from"));
        out->from = tw_strdup(from ? from : out->run->cwd);
        rc = out->from ? 0 : tw_no_memory(err, "opening a run");
    }
    tw_free(text);
    tw_free(path);
    return rc;
}

void tw_shadow_original_free(struct shadow_original *o)
{
    if (o->stage)
        tw_remove_tree(o->stage, NULL, NULL);
    twin_run_free(o->run);
    json_decref(o->record);
    json_decref(o->world);
    tw_free(o->from);
    tw_free(o->stage);
    *o = (struct shadow_original){.run = NULL};
}

/* Sets *why, once. */
static int because(char **why, struct twin_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int because(char **why, struct twin_error *err, const char *format, ...)
{
    va_list ap;
    struct tw_buf b = {0};
    assert(!*why);
    va_start(ap, format);
    tw_buf_vprint_safe(&b, format, ap);
    va_end(ap);
    *why = tw_buf_steal(&b);
    return *why ? 0 : tw_no_memory(err, "for a reason");
}

/* ---- its environment */

/* Variables that name this machine, this job of a scheduler or this rendezvous: a repeat has its
 * own. */
static bool is_of_the_moment(const char *name, size_t n)
{
    static const char *const prefixes[] = {"SLURM_",        "PBS_",   "LSB_",     "PMI",
                                           "OMPI_COMM_",    "PRTE_",  "TWINRUN_", "HOSTNAME",
                                           "TORCHELASTIC_", "TMPDIR", NULL};
    for (const char *const *p = prefixes; *p; p++)
        if (n >= strlen(*p) && strncmp(name, *p, strlen(*p)) == 0)
            return true;
    return false;
}

/* Is the variable's value recorded, where there is one? Then the record decides about it. */
static bool is_recorded(const char *entry, size_t n)
{
    return tw_secret_variable_kept(entry, n) && !is_of_the_moment(entry, n);
}

static json_t *variables_of(const json_t *world)
{
    return json_object_get(json_object_get(world, "launch"), "variables");
}

void tw_shadow_environment_free(char **env)
{
    tw_strings_free(env);
}

/* Appends an entry, which it owns then. False: no memory. */
static bool add_entry(char ***env, size_t *n, char *entry)
{
    char **grown = entry ? tw_reallocarray(*env, *n + 2, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(entry);
        return false;
    }
    *env = grown;
    grown[(*n)++] = entry;
    grown[*n] = NULL;
    return true;
}

char **tw_shadow_environment(const struct shadow_original *o)
{
    char **env = tw_calloc(1, sizeof *env);
    size_t n = 0;
    bool ok = env != NULL;
    const char *name;
    json_t *v;
    for (char **e = environ; ok && e && *e; e++)
        if (!is_recorded(*e, strcspn(*e, "=")))
            ok = add_entry(&env, &n, tw_strdup(*e));
    json_object_foreach (variables_of(o->world), name, v) {
        const char *value = json_string_value(v);
        if (ok && value && is_recorded(name, strlen(name)) && !twin_redacted(value))
            ok = add_entry(&env, &n, tw_printf("%s=%s", name, value));
    }
    if (ok)
        return env;
    tw_strings_free(env);
    return NULL;
}

/* ---- before the start */

/* A name that cannot be had of the home: a folder for what is made meanwhile. */
static char *new_folder(const struct tw_shadow *s, const struct shadow_original *o,
                        const char *what, struct twin_error *err)
{
    char *all = tw_path_join(s->home, "shadow");
    char *path = all ? tw_printf("%s/%.16s-%s", all, o->run->id, what) : NULL;
    int rc = path ? tw_mkdirs(all, err) : tw_no_memory(err, "for a folder");
    /* of a call that was killed */
    if (rc == 0 && access(path, F_OK) == 0)
        rc = tw_remove_tree(path, NULL, err);
    tw_free(all);
    if (rc == 0)
        return path;
    tw_free(path);
    return NULL;
}

/* The first difference of code, configuration or data that decides about numbers. */
static int code_has_changed(const struct tw_shadow *s, const struct shadow_original *o, char **why,
                            struct twin_error *err)
{
    char *folder = new_folder(s, o, "code", err);
    int rc = folder ? twin_provenance_changed(o->run, o->world, s->home, folder, why, err)
                    : err->code;
    tw_free(folder);
    return rc;
}

/* Data that were verified when the original began are verified again. */
static int data_have_changed(const struct shadow_original *o, char **why, struct twin_error *err)
{
    for (size_t i = 0; i < o->run->data_count && !*why; i++) {
        const struct twin_run_data *was = &o->run->data[i];
        const struct twin_snapshot_options how = {.exclude = NULL};
        struct tw_data_held held = {.read = false};
        struct twin_run_data now = {.folder = NULL};
        struct twin_error e = TWIN_ERROR_INIT;
        int rc = tw_data_hold(was->folder, was->manifest, &how, &held, &now, &e);
        if (rc == 0 && held.differences == 0 && strcmp(now.root, was->root) != 0)
            held.differences = 1; /* the manifest itself is another one */
        tw_free(now.folder);
        tw_free(now.manifest);
        const size_t differences = held.differences;
        tw_data_held_free(&held);
        if (rc == TWIN_ENOMEM)
            return twin_error_set(err, rc, "%s", e.message);
        if (rc != 0)
            rc = because(why, err, "data cannot be verified: %s", e.message);
        else if (differences)
            rc = because(why, err, "data have changed: %s", was->folder);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* A repeat works in a copy of the folder: what it writes elsewhere it would write over the
 * original's. */
static int would_overwrite(const struct shadow_original *o, char **why, struct twin_error *err)
{
    const struct twin_run *r = o->run;
    for (size_t i = 0; i < r->file_count; i++)
        if (r->files[i].path[0] == '/')
            return because(why, err,
                           "it wrote outside of its folder, over which a repeat would write: %s "
                           "(--overwrite repeats it)",
                           r->files[i].path);
    if (r->files_truncated)
        return because(why, err,
                       "which files it wrote is not known, so a repeat might write over them "
                       "(--overwrite repeats it)");
    const size_t n = strlen(o->from);
    for (size_t i = 0; r->file_count && i < r->argc; i++)
        if (strncmp(r->argv[i], o->from, n) == 0 && (r->argv[i][n] == '/' || !r->argv[i][n]))
            return because(why, err,
                           "its command names its folder by the whole path, so that a repeat may "
                           "write there: %s (--overwrite repeats it)",
                           r->argv[i]);
    return 0;
}

/* From the copy of a folder its neighbours are not where they were. */
static bool leads_out(const char *word)
{
    const char *sign = strchr(word, '=');
    if (sign)
        word = sign + 1;
    return tw_starts(word, "../") || strcmp(word, "..") == 0;
}

int tw_shadow_may_repeat(const struct tw_shadow *s, const struct shadow_original *o, char **why,
                         struct twin_error *err)
{
    const struct twin_run *r = o->run;
    struct stat st;
    *why = NULL;
    if (!r->agents)
        return because(why, err, "it was recorded without agents: there is nothing to compare");
    if (r->max_steps)
        return because(why, err, "only its first %u step%s were recorded: it is not whole",
                       r->max_steps, r->max_steps == 1 ? "" : "s");
    for (size_t i = 0; i < r->argc; i++)
        if (twin_redacted(r->argv[i]))
            return because(why, err, "its command holds a secret, which is not recorded");
    for (size_t i = 0; i < r->argc; i++)
        if (leads_out(r->argv[i]))
            return because(why, err,
                           "its command leads out of its folder by %s, and from a copy that is "
                           "another place; give whole paths",
                           r->argv[i]);
    if (strcmp(r->host, "") != 0 && stat(o->from, &st) != 0)
        return because(why, err, "its folder is not there any more: %s", o->from);
    if (!json_is_object(variables_of(o->world)))
        return because(why, err, "its variables were not recorded");
    int rc = s->asked.overwrite ? 0 : would_overwrite(o, why, err);
    if (rc == 0 && !*why)
        rc = code_has_changed(s, o, why, err);
    if (rc == 0 && !*why)
        rc = data_have_changed(o, why, err);
    return rc;
}

/* ---- the copy */

/* Was the folder made after the original had begun? Not known: no. */
static bool is_made_by(const struct twin_run *r, const char *path)
{
    struct statx x;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &x) != 0 ||
        !(x.stx_mask & STATX_BTIME))
        return false;
    return (int64_t)x.stx_btime.tv_sec * 1000000000 + x.stx_btime.tv_nsec >= r->start_realtime_ns;
}

/* Takes what the original made out of the copy: a file, and the folders of it that it made, too. */
static void take_away(const struct shadow_original *o, const char *path)
{
    char *copy = tw_path_join(o->stage, path), *below = tw_strdup(path);
    if (copy && below)
        unlink(copy);
    for (char *slash = below ? strrchr(below, '/') : NULL; slash; slash = strrchr(below, '/')) {
        *slash = '\0';
        char *was = tw_path_join(o->from, below), *is = tw_path_join(o->stage, below);
        const bool gone = was && is && is_made_by(o->run, was) && rmdir(is) == 0;
        tw_free(was);
        tw_free(is);
        if (!gone)
            break;
    }
    tw_free(copy);
    tw_free(below);
}

int tw_shadow_stage(const struct tw_shadow *s, struct shadow_original *o, struct twin_error *err)
{
    struct twin_run *notes = tw_calloc(1, sizeof *notes);
    o->stage = notes ? new_folder(s, o, "folder", err) : NULL;
    int rc = o->stage ? 0 : tw_no_memory(err, "for a copy of the folder");
    rc = rc ? err->code : tw_scratch_copy(o->from, o->stage, s->home, notes, err);
    for (size_t i = 0; rc == 0 && i < o->run->file_count; i++) {
        const struct twin_run_file *f = &o->run->files[i];
        if (!f->existed_before && tw_path_ok(f->path))
            take_away(o, f->path);
    }
    twin_run_free(notes);
    return rc;
}

/* ---- after a difference */

/* Variables of terminals, sessions and shells, in which no job's numbers lie. */
static bool is_of_a_session(const char *name)
{
    static const char *const exact[] = {"_",
                                        "PWD",
                                        "OLDPWD",
                                        "SHLVL",
                                        "TERM",
                                        "COLORTERM",
                                        "SHELL",
                                        "EDITOR",
                                        "PAGER",
                                        "MAIL",
                                        "DISPLAY",
                                        "WINDOWID",
                                        "TMUX",
                                        "TMUX_PANE",
                                        "STY",
                                        "COLUMNS",
                                        "LINES",
                                        "PS1",
                                        "INVOCATION_ID",
                                        "JOURNAL_STREAM",
                                        "SYSTEMD_EXEC_PID",

                                        NULL};
    static const char *const prefixes[] = {"SSH_", "XDG_", "DBUS_", "TERM_", "VTE_",
                                           "LESS", "LS_",  "HIST",  "GPG_",  NULL};
    for (const char *const *p = exact; *p; p++)
        if (strcmp(name, *p) == 0)
            return true;
    for (const char *const *p = prefixes; *p; p++)
        if (tw_starts(name, *p))
            return true;
    return is_of_the_moment(name, strlen(name));
}

/* The first variable that is not what it was. Values that were redacted are held against each other
 * by their digests, which needs one key for both. */
static int variables_changed(const json_t *was, const json_t *is, bool same_key, char **why,
                             struct twin_error *err)
{
    json_t *all = json_deep_copy(was), *v;
    const char *name;
    int rc = all && json_object_update_missing(all, (json_t *)(uintptr_t)is) == 0
                 ? 0
                 : tw_no_memory(err, "comparing variables");
    json_object_foreach (all, name, v) {
        const json_t *x = json_object_get(was, name), *y = json_object_get(is, name);
        const char *text = json_string_value(v);
        if (rc || *why || is_of_a_session(name))
            continue;
        if (!x || !y)
            rc = because(why, err, "the variable %s was %s", name,
                         x ? "set then, and is not now" : "not set then, and is now");
        else if (!json_equal(x, y) && !(text && twin_redacted(text) && !same_key))
            rc = because(why, err, "the variable %s is not what it was", name);
        else if (text && twin_redacted(text) && !same_key)
            rc = because(why, err, "whether the variable %s is what it was is not known", name);
    }
    json_decref(all);
    return rc;
}

/* What matters of the difference of two records. Code that git does not know is looked at by its
 * files: what the original wrote is new there, too. */
static bool is_of_the_world(const struct shadow_original *o, const struct twin_world_difference *x)
{
    static const char *const groups[] = {"code",      "configuration", "data",
                                         "libraries", "packages",      NULL};
    if (x->power > TWIN_POWER_MEDIUM || twin_provenance_wrote(o->run, x->what))
        return false;
    if (strcmp(x->group, "code") == 0)
        return x->power == TWIN_POWER_HIGH;
    for (const char *const *g = groups; *g; g++)
        if (strcmp(x->group, *g) == 0)
            return true;
    return false;
}

/* ---- files that changed since */

struct since {
    const struct shadow_original *o;
    char **why;
};

/* What the original wrote anew was taken out of the copy, and is no change. */
static int see_file(void *user, const char *path, uint64_t bytes, struct twin_error *err)
{
    const struct since *x = user;
    const size_t n = strlen(x->o->from);
    (void)bytes;
    const bool below = strncmp(path, x->o->from, n) == 0 && path[n] == '/';
    const char *name = below ? path + n + 1 : path;
    for (size_t i = 0; i < x->o->run->file_count; i++)
        if (strcmp(x->o->run->files[i].path, name) == 0 && !x->o->run->files[i].existed_before)
            return 0;
    return *x->why ? 0 : because(x->why, err, "%s has changed since", path);
}

static int files_changed(const struct tw_shadow *s, const struct shadow_original *o, char **why,
                         struct twin_error *err)
{
    const struct twin_run *r = o->run;
    for (size_t i = 0; i < r->file_count && !*why; i++)
        if (r->files[i].existed_before) {
            int rc = because(why, err, "it wrote over %s, which was there before",
                             r->files[i].path);
            if (rc)
                return rc;
        }
    struct since x = {o, why};
    int rc = *why ? 0
                  : tw_snapshot_each_since(o->from, s->home, r->start_realtime_ns, see_file, &x,
                                           err);
    /* modules lie beside their script, wherever that is */
    const json_t *entry = json_object_get(json_object_get(o->world, "programs"), "entry");
    const char *script = json_string_value(json_object_get(entry, "path"));
    if (rc || *why || !script || script[0] != '/' || !strchr(script + 1, '/'))
        return rc;
    char *folder = tw_strndup(script, (size_t)(strrchr(script, '/') - script));
    if (!folder)
        return tw_no_memory(err, "looking at the code");
    if (strcmp(folder, o->from) != 0)
        rc = tw_snapshot_each_since(folder, s->home, r->start_realtime_ns, see_file, &x, err);
    tw_free(folder);
    return rc;
}

int tw_shadow_other_world(const struct tw_shadow *s, const struct shadow_original *o,
                          const struct twin_run *repeat, char **why, struct twin_error *err)
{
    struct twin_world_differences d = {0};
    json_t *now = NULL;
    *why = NULL;
    if (twin_provenance_load(repeat->dir, &now, NULL) != 0 ||
        !json_is_true(json_object_get(now, "complete")) ||
        !json_is_true(json_object_get(o->world, "complete"))) {
        json_decref(now);
        /* which files changed since is seen without the record, and tells more */
        const int rc = files_changed(s, o, why, err);
        return rc || *why ? rc
                          : because(why, err, "what surrounded the runs was not recorded whole");
    }
    const json_t *keys[] = {json_object_get(o->world, "redaction_key"),
                            json_object_get(now, "redaction_key")};
    const bool same_key = keys[0] &&
                          json_equal((json_t *)(uintptr_t)keys[0], (json_t *)(uintptr_t)keys[1]);
    int rc = twin_provenance_diff(o->world, now, &d, err);
    for (size_t i = 0; rc == 0 && !*why && i < d.count; i++)
        if (is_of_the_world(o, &d.item[i]))
            rc = because(why, err, "%s: %s is not what it was", d.item[i].group, d.item[i].what);
    if (rc == 0 && !*why)
        rc = variables_changed(variables_of(o->world), variables_of(now), same_key, why, err);
    if (rc == 0 && !*why)
        rc = files_changed(s, o, why, err);
    twin_world_differences_free(&d);
    json_decref(now);
    return rc;
}
