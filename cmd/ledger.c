/* SPDX-License-Identifier: Apache-2.0 */
/* Writes runs and comparisons to the ledger, and lets it catch up with the folders that it has not
 * seen. */
#include "ledger.h"

#include "json.h"
#include "runs.h"
#include "say.h"

#include "base.h"
#include "json_load.h"

#include "src/launch/redact.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { ARTIFACTS = 1000, COMPARISON_BYTES = 1 << 20 };

static void not_written(const struct twin_error *err)
{
    tw_say("the ledger was not written: %s; nothing is lost: `twinrun ls` catches up from the run "
           "folders",
           err->message);
}

/* What ledger.db says of a home that is moved stays true: there the home has no name. In a ledger
 * for many homes it has one. */
char *tw_ledger_home(const char *home, const char *url)
{
    const char *given = getenv("TWINRUN_LEDGER");
    char host[256] = "";
    if (!url && !(given && *given))
        return tw_strdup("");
    gethostname(host, sizeof host - 1);
    char *path = tw_path_absolute(home, NULL), *name = path ? tw_printf("%s:%s", host, path) : NULL;
    tw_free(path);
    return name;
}

/* ---- runs */

static const char *kind_of(const char *path)
{
    static const char *const endings[] = {".pt",  ".pth", ".ckpt",   ".safetensors",
                                          ".npz", ".npy", ".distcp", ".bin"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (tw_ends(path, endings[i]))
            return "checkpoint";
    return "file";
}

/* A run that was just made knows its command as it was given; nothing is kept of secrets in it.
 * safe NULL: it was loaded, so they are gone. */
static int put_run(struct twin_ledger *l, const char *home, const struct twin_run *run,
                   const struct twin_redactor *safe, struct twin_error *err)
{
    struct twin_run copy = *run, *r = &copy;
    char **kept = safe ? twin_redact_argv(safe, run->argv, run->argc) : NULL;
    if (safe && !kept)
        return twin_error_set(err, TWIN_ENOMEM, "out of memory");
    copy.argv = kept ? kept : run->argv;
    struct tw_run_totals t;
    char state[32];
    char *command = tw_shell_quote(r->argv, r->argc);
    json_t *list = tw_json_texts(r->argv, r->argc);
    char *argv = list ? json_dumps(list, JSON_COMPACT) : NULL;
    struct twin_ledger_artifact *a = tw_calloc(r->file_count + 1, sizeof *a);
    size_t n = 0;
    tw_run_totals(r, &t);
    for (size_t i = 0; a && i < r->file_count && n < ARTIFACTS; i++)
        if (r->files[i].sha256[0])
            a[n++] = (struct twin_ledger_artifact){r->files[i].path, kind_of(r->files[i].path),
                                                   r->files[i].sha256, r->files[i].bytes};
    struct twin_ledger_run row = {
        .id = r->id,
        .name = tw_base_name(r->dir),
        .home = home,
        .label = r->label,
        .command = command,
        .argv = argv,
        .host = r->host,
        .state = tw_run_state(r, state),
        .exit_code = r->exit_code,
        .start_ns = r->start_realtime_ns,
        .wall_s = r->wall_s,
        .steps = t.steps,
        .records = t.records,
        .dropped = t.dropped,
    };
    int rc = a && command && argv ? twin_ledger_put_run(l, &row, a, n, err)
                                  : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    tw_free(a);
    free(argv);
    json_decref(list);
    tw_free(command);
    twin_redact_free(kept);
    return rc;
}

/* ---- comparisons: a small file in the home each, for the ledger to catch up from */

static int new_id(char id[33], struct twin_error *err)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return twin_error_system(err, "no random bytes");
    tw_hex(bytes, sizeof bytes, id);
    return 0;
}

static char *first_line(const struct twin_finding *f)
{
    struct tw_buf b = {0};
    bool record = f->name[0] && f->type != TWIN_FINDING_OUTCOME && f->type != TWIN_FINDING_RANKS &&
                  f->type != TWIN_FINDING_OUTPUT;
    if (record)
        tw_buf_printf(&b, "step %u, rank %d, %s %s %s%s%s", f->step_a, f->rank,
                      twin_phase_name(f->phase), twin_kind_name(f->kind), f->name,
                      f->op[0] ? ", " : "", f->op);
    else
        tw_buf_puts(&b, f->text);
    char *raw = tw_buf_steal(&b), *safe = raw ? tw_printable(raw, strlen(raw)) : NULL;
    tw_free(raw);
    return safe;
}

static int save_comparison(const char *home, const struct twin_ledger_comparison *c,
                           struct twin_error *err)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < c->run_count; i++)
        json_array_append_new(runs, json_string(c->run_id[i]));
    json_t *j = json_pack("{s:s, s:s, s:I, s:s, s:o, s:s, s:o, s:I, s:o, s:o}", "schema",
                          "twinrun.comparison/1", "id", c->id, "time_ns", (json_int_t)c->time_ns,
                          "verb", c->verb, "command", tw_json_text(c->command ? c->command : ""),
                          "outcome", c->outcome, "first", tw_json_text(c->first), "first_step",
                          (json_int_t)c->first_step, "cause",
                          tw_json_text(c->cause ? c->cause : ""), "runs", runs);
    char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    char *dir = tw_path_join(home, "comparisons");
    char *path = dir ? tw_printf("%s/%s.json", dir, c->id) : NULL;
    int rc = text && path ? twin_home_make(home, err)
                          : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    rc = rc ? rc : tw_mkdirs(dir, err);
    if (rc == 0)
        rc = tw_write_file_atomic(path, text, strlen(text), err);
    free(text);
    tw_free(dir);
    tw_free(path);
    json_decref(j);
    return rc;
}

void tw_ledger_note(const struct tw_noted *n)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = NULL;
    char id[33], *first = n->first ? first_line(n->first) : tw_strdup("");
    const char **ids = tw_calloc(n->count + 1, sizeof *ids);
    if (twin_ledger_off(n->url) || !n->count || !ids || !first) {
        tw_free(ids);
        tw_free(first);
        return;
    }
    for (size_t i = 0; i < n->count; i++)
        ids[i] = n->runs[i]->id;
    struct twin_redactor *safe = NULL;
    char *given = tw_shell_quote(n->runs[0]->argv, n->runs[0]->argc), *command = NULL;
    int rc = twin_redactor_open(n->home, &safe, &err);
    /* the command of the runs is redacted by argument, anything else as text */
    if (rc == 0 && n->command) {
        char **argv = given && strcmp(given, n->command) == 0
                          ? twin_redact_argv(safe, n->runs[0]->argv, n->runs[0]->argc)
                          : NULL;
        command = argv ? tw_shell_quote(argv, n->runs[0]->argc)
                       : twin_redact(safe, n->command, NULL);
        twin_redact_free(argv);
        rc = command ? 0 : twin_error_set(&err, TWIN_ENOMEM, "out of memory");
    }
    tw_free(given);
    struct twin_ledger_comparison c = {.id = id,
                                       .time_ns = tw_realtime_ns(),
                                       .verb = n->verb,
                                       .command = command,
                                       .outcome = n->outcome,
                                       .first = first,
                                       .first_step = n->first ? (int64_t)n->first->step_a : -1,
                                       .cause = n->cause,
                                       .run_id = ids,
                                       .run_count = n->count};
    char *home = tw_ledger_home(n->home, n->url);
    if (rc == 0 && !home)
        rc = twin_error_set(&err, TWIN_ENOMEM, "out of memory");
    if (rc == 0 && n->verb && (rc = new_id(id, &err)) == 0)
        rc = save_comparison(n->home, &c, &err);
    if (rc == 0)
        rc = twin_ledger_open(n->home, n->url, &l, &err);
    for (size_t i = 0; rc == 0 && i < n->count; i++) {
        char *runs = tw_path_join(n->home, "runs");
        char *dir = runs ? tw_path_absolute(runs, NULL) : NULL;
        size_t length = dir ? strlen(dir) : 0; /* runs of other homes are not this ledger's */
        if (length && strncmp(n->runs[i]->dir, dir, length) == 0 &&
            n->runs[i]->dir[length] == '/' && !n->runs[i]->in_progress)
            rc = put_run(l, home, n->runs[i], safe, &err);
        tw_free(runs);
        tw_free(dir);
    }
    if (rc == 0 && n->verb)
        rc = twin_ledger_put_comparison(l, &c, &err);
    if (rc != 0)
        not_written(&err);
    twin_ledger_close(l);
    twin_redactor_close(safe);
    tw_free(command);
    tw_free(home);
    tw_free(ids);
    tw_free(first);
}

void tw_ledger_note_run(const char *home, const char *url, const struct twin_run *r)
{
    char *given = home ? NULL : twin_home_default();
    if (!home)
        home = given ? given : "";
    char *path = tw_path_absolute(home, NULL);
    if (path)
        tw_ledger_note(&(struct tw_noted){.home = path, .url = url, .runs = &r, .count = 1});
    tw_free(path);
    tw_free(given);
}

/* ---- catching up */

struct known {
    char *name, *id;
    bool gone, seen;
};
struct catching {
    struct twin_ledger *l;
    const char *home; /* folder */
    char *owner;      /* as the ledger calls it */
    struct known *known;
    size_t count, room;
    tw_live_fn *live;
    void *user;
};

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct known *)x)->name, ((const struct known *)y)->name);
}

static int add_known(struct catching *c, const char *name, const char *id, bool gone)
{
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 256;
        struct known *grown = tw_reallocarray(c->known, room, sizeof *grown);
        if (!grown)
            return TWIN_ENOMEM;
        c->known = grown;
        c->room = room;
    }
    struct known k = {tw_strdup(name), tw_strdup(id), gone, false};
    c->known[c->count++] = k;
    return k.name && k.id ? 0 : TWIN_ENOMEM;
}

static int take_known(void *user, const struct twin_ledger_run *r)
{
    return add_known(user, r->name, r->id, r->gone);
}

static int take_comparison(void *user, const struct twin_ledger_comparison *r)
{
    return add_known(user, r->id, "", false);
}

static void forget(struct catching *c)
{
    for (size_t i = 0; i < c->count; i++) {
        tw_free(c->known[i].name);
        tw_free(c->known[i].id);
    }
    tw_free(c->known);
    c->known = NULL;
    c->count = c->room = 0;
}

static struct known *find(struct catching *c, const char *name)
{
    return c->count ? bsearch(&(struct known){.name = (char *)(uintptr_t)name}, c->known, c->count,
                              sizeof *c->known, by_name)
                    : NULL;
}

static int one_folder(struct catching *c, const char *runs, const char *name,
                      struct twin_error *err)
{
    struct known *k = find(c, name);
    if (k)
        k->seen = true;
    if (k && !k->gone)
        return 0;
    struct twin_error why = TWIN_ERROR_INIT;
    struct twin_run *r = NULL;
    char *dir = tw_path_join(runs, name), *json = dir ? tw_path_join(dir, "run.json") : NULL;
    int rc = 0;
    if (!json)
        rc = twin_error_set(err, TWIN_ENOMEM, "out of memory");
    else if (access(json, F_OK) != 0)
        rc = 0; /* no run folder */
    else if (twin_run_load(dir, &r, &why) != 0 || r->in_progress) {
        if (c->live)
            c->live(c->user, dir, r, &why);
    } else {
        rc = put_run(c->l, c->owner, r, NULL, err);
    }
    twin_run_free(r);
    tw_free(dir);
    tw_free(json);
    return rc;
}

static int gone(void *user, const struct twin_ledger_run *r)
{
    struct twin_ledger_run row = *r;
    row.gone = true;
    return twin_ledger_put_run(user, &row, NULL, 0, NULL);
}

static int runs(struct catching *c, struct twin_error *err)
{
    char *path = tw_path_join(c->home, "runs");
    DIR *d = path ? opendir(path) : NULL;
    int rc = path ? 0 : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    if (!d && path && errno != ENOENT)
        rc = twin_error_system(err, "cannot list %s", path);
    if (rc == 0)
        rc = twin_ledger_runs(c->l, &(struct twin_ledger_filter){.home = c->owner}, take_known, c,
                              err);
    if (c->count)
        qsort(c->known, c->count, sizeof *c->known, by_name);
    for (struct dirent *e; rc == 0 && d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            rc = one_folder(c, path, e->d_name, err);
    for (size_t i = 0; rc == 0 && i < c->count; i++)
        if (!c->known[i].seen && !c->known[i].gone)
            rc = twin_ledger_run(c->l, c->known[i].id, false, gone, c->l, err);
    if (d)
        closedir(d);
    tw_free(path);
    return rc;
}

static int one_comparison(struct catching *c, const char *dir, const char *name,
                          struct twin_error *err)
{
    char *path = tw_path_join(dir, name), *text = NULL;
    size_t n = 0;
    json_t *j = path && tw_read_file(path, COMPARISON_BYTES, &text, &n, NULL) == 0
                    ? tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL)
                    : NULL;
    json_t *list = json_object_get(j, "runs");
    const char *schema = json_string_value(json_object_get(j, "schema"));
    const char *id = json_string_value(json_object_get(j, "id"));
    const char **ids = tw_calloc(json_array_size(list) + 1, sizeof *ids);
    int rc = 0;
    for (size_t i = 0; ids && i < json_array_size(list); i++)
        ids[i] = json_string_value(json_array_get(list, i))
                     ? json_string_value(json_array_get(list, i))
                     : "";
    if (ids && schema && id && strcmp(schema, "twinrun.comparison/1") == 0 &&
        strncmp(name, id, strlen(id)) == 0) {
        struct twin_ledger_comparison row = {
            .id = id,
            .time_ns = json_integer_value(json_object_get(j, "time_ns")),
            .verb = json_string_value(json_object_get(j, "verb")),
            .command = json_string_value(json_object_get(j, "command")),
            .outcome = json_string_value(json_object_get(j, "outcome")),
            .first = json_string_value(json_object_get(j, "first")),
            .first_step = json_integer_value(json_object_get(j, "first_step")),
            .cause = json_string_value(json_object_get(j, "cause")),
            .run_id = ids,
            .run_count = json_array_size(list)};
        rc = twin_ledger_put_comparison(c->l, &row, err);
    }
    tw_free(ids);
    json_decref(j);
    tw_free(text);
    tw_free(path);
    return rc;
}

static int comparisons(struct catching *c, struct twin_error *err)
{
    char *path = tw_path_join(c->home, "comparisons");
    DIR *d = path ? opendir(path) : NULL;
    int rc = 0;
    if (d)
        rc = twin_ledger_comparisons(c->l, NULL, NULL, take_comparison, c, err);
    if (c->count)
        qsort(c->known, c->count, sizeof *c->known, by_name);
    for (struct dirent *e; rc == 0 && d && (e = readdir(d));) {
        char id[33] = "";
        if (strlen(e->d_name) != 37 || !tw_ends(e->d_name, ".json"))
            continue;
        memcpy(id, e->d_name, 32);
        if (!find(c, id))
            rc = one_comparison(c, path, e->d_name, err);
    }
    if (d)
        closedir(d);
    tw_free(path);
    return rc;
}

struct twin_ledger *tw_ledger_open(const char *home, const char *url, tw_live_fn *live, void *user)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct catching c = {.home = home, .live = live, .user = user};
    if (twin_ledger_off(url) || access(home, F_OK) != 0)
        return NULL;
    int rc = twin_ledger_open(home, url, &c.l, &err);
    if (rc == 0 && !(c.owner = tw_ledger_home(home, url)))
        rc = twin_error_set(&err, TWIN_ENOMEM, "out of memory");
    if (rc == 0)
        rc = twin_ledger_begin(c.l, &err);
    if (rc == 0) {
        rc = runs(&c, &err);
        forget(&c);
        if (rc == 0)
            rc = comparisons(&c, &err);
        int ended = twin_ledger_end(c.l, rc == 0, &err);
        rc = rc ? rc : ended;
    }
    forget(&c);
    tw_free(c.owner);
    if (rc == 0)
        return c.l;
    tw_say("the ledger cannot be read: %s; this comes from the run folders", err.message);
    twin_ledger_close(c.l);
    return NULL;
}
