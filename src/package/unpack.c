/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a package to a folder in which its command can run (twinrun replay). Everything is written
 * below one new folder; each path that the package's JSON gives is checked again, and made part by
 * part without following a link. Only git, Python with its pip, and curl are started, git with
 * nothing of the repository's own.
 *
 * The result is the command, its folder and its variables (struct twin_unpacked); running it and
 * comparing is the command's business.
 */
#include "unpack.h"

#include "base.h"

#include "src/launch/redact.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

int tw_unpack_bad(const char *where, const char *what, struct twin_error *err)
{
    return twin_error_set(err, TWIN_EFORMAT, "data/%s: expected %s", where, what);
}

void tw_unpack_say(const struct tw_unpack *u, const char *what)
{
    if (u->o->progress)
        u->o->progress(u->o->user, what);
}

/* ---- files */

/* Copies the rest of one descriptor to another. path: for messages. */
static int copy_rest(int in, int to, const char *path, struct twin_error *err)
{
    enum { ROOM = 1 << 18 };
    char *chunk = tw_malloc(ROOM);
    int rc = chunk ? 0 : tw_no_memory(err, "unpacking a package");
    while (rc == 0) {
        ssize_t n = read(in, chunk, ROOM);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            rc = n < 0 ? twin_error_system(err, "cannot read %s", path) : 0;
            break;
        }
        if (tw_write_all(to, chunk, (size_t)n) != 0)
            rc = twin_error_system(err, "cannot write %s", path);
    }
    tw_free(chunk);
    return rc;
}

/* The file is made anew (O_EXCL) after what lies in its place was removed: a link there could lead
 * elsewhere. */
int tw_unpack_file(struct tw_unpack *u, const char *from, int root, const char *to, bool executable,
                   struct twin_error *err)
{
    const char *slash = strrchr(to, '/');
    char *parent = slash ? tw_strndup(to, (size_t)(slash - to)) : tw_strdup("");
    int in = tw_open_below(u->root, from, O_RDONLY);
    int dir = parent ? tw_folder_below(root, parent) : -1;
    int out = -1;
    int rc = 0;
    if (in < 0)
        rc = twin_error_system(err, "cannot read %s of the package", from);
    else if (dir < 0)
        rc = twin_error_system(err, "cannot make the folder of %s", to);
    else {
        unlinkat(dir, slash ? slash + 1 : to, 0);
        out = openat(dir, slash ? slash + 1 : to,
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     executable ? 0777 : 0666);
        rc = out < 0 ? twin_error_system(err, "cannot write %s", to) : copy_rest(in, out, to, err);
    }
    if (out >= 0 && close(out) != 0 && rc == 0)
        rc = twin_error_system(err, "cannot write %s", to);
    if (in >= 0)
        close(in);
    if (dir >= 0)
        close(dir);
    tw_free(parent);
    return rc;
}

/* ---- the folder */

/* Opens the folder that twin_replay_place made, and makes code/ in it. */
static int open_into(struct tw_unpack *u, struct twin_error *err)
{
    u->into = tw_path_absolute(u->o->into, err);
    if (!u->into)
        return TWIN_ENOMEM;
    u->into_fd = open(u->into, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    u->code_fd = u->into_fd < 0 ? -1 : tw_folder_below(u->into_fd, "code");
    u->code = tw_path_join(u->into, "code");
    if (u->code_fd < 0)
        return twin_error_system(err, "cannot make %s/code", u->into);
    return u->code ? 0 : tw_no_memory(err, "unpacking a package");
}

/* ---- the command */

/* What a part of a word stands for here: a text as it is; a path in the code, in a set of data or
 * of a configuration file; a program, to be found in PATH, or the Python that was chosen.
 * malloc'ed; NULL: it is none of these, or there is no memory. */
static char *resolve_part(struct tw_unpack *u, const json_t *part, struct twin_error *err)
{
    const char *text = json_string_value(part);
    const char *code = tw_pk_text(part, "code");
    const char *data = tw_pk_text(part, "data");
    const char *program = tw_pk_text(part, "program");
    const char *config = tw_pk_text(part, "config");
    char *out = NULL;
    /* each kind of part is checked for itself: paths must stay inside, programs must have no
     * slash */
    if (text)
        out = tw_strdup(text);
    else if (code && (!*code || tw_path_ok(code)))
        out = *code ? tw_path_join(u->code, code) : tw_strdup(u->code);
    else if (config && tw_path_ok(config) && tw_starts(config, "configuration/"))
        out = tw_printf("%s/data/%s", u->dir, config);
    else if (program && *program && !strchr(program, '/'))
        out = tw_strdup(tw_starts(program, "python") && u->python ? u->python : program);
    else if (data) {
        /* a set may lie at another place here: its folder is what unpack_set() found */
        const char *below = tw_pk_text(part, "path");
        json_t *set;
        size_t i;
        json_array_foreach (json_object_get(u->data_json, "sets"), i, set)
            if (!out && i < u->out->data_count && below &&
                strcmp(data, tw_pk_text(set, "name")) == 0 && (!*below || tw_path_ok(below)))
                out = *below ? tw_path_join(u->out->data[i].folder, below)
                             : tw_strdup(u->out->data[i].folder);
    }
    if (!out)
        tw_unpack_bad("configuration/configuration.json",
                      "words of the command: texts, or parts that name code, data, a program or a "
                      "file of the configuration",
                      err);
    return out;
}

/* A word of the command: one part, or a list of parts with glue between them. malloc'ed; NULL with
 * err set. */
static char *resolve_word(struct tw_unpack *u, const json_t *w, const char *glue,
                          struct twin_error *err)
{
    struct tw_buf b = {0};
    json_t *part;
    size_t i;
    if (!json_is_array(w))
        return resolve_part(u, w, err);
    tw_buf_puts(&b, "");
    json_array_foreach (w, i, part) {
        char *one = resolve_part(u, part, err);
        if (!one) {
            tw_buf_free(&b);
            return NULL;
        }
        if (i)
            tw_buf_puts(&b, glue);
        tw_buf_puts(&b, one);
        tw_free(one);
    }
    char *out = tw_buf_steal(&b);
    if (!out)
        tw_no_memory(err, "unpacking a package");
    return out;
}

/* out->argv from "argv" of the configuration. */
static int put_argv(struct tw_unpack *u, struct twin_error *err)
{
    json_t *argv = json_object_get(u->configuration, "argv"), *w;
    size_t i, n = json_array_size(argv);
    if (n == 0 || n > 100000)
        return tw_unpack_bad("configuration/configuration.json", "a command in \"argv\"", err);
    if (!(u->out->argv = tw_calloc(n + 1, sizeof *u->out->argv)))
        return tw_no_memory(err, "unpacking a package");
    json_array_foreach (argv, i, w)
        if (!(u->out->argv[i] = resolve_word(u, w, "", err)))
            return err && err->code ? err->code : TWIN_EFORMAT;
    /* A bare `python` is whatever stands first in the PATH: here it is the one that was chosen. */
    const char *first = u->out->argv[0];
    if (u->python && tw_starts(first, "python") && !strchr(first, '/')) {
        tw_free(u->out->argv[0]);
        if (!(u->out->argv[0] = tw_strdup(u->python)))
            return tw_no_memory(err, "unpacking a package");
    }
    return 0;
}

/* ---- variables */

/* May a package set this variable? */
static bool name_ok(const char *name)
{
    size_t n = strlen(name);
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_')
            return false;
    /* what decides about numbers is allowed, what decides which code is loaded is not */
    return n && n < 200 && !isdigit((unsigned char)name[0]) &&
           (tw_secret_variable_kept(name, n) || tw_pk_is_of_pins(name)) &&
           !tw_starts(name, "LD_") && strcmp(name, "PATH") != 0 &&
           strcmp(name, "PYTHONHOME") != 0 && strcmp(name, "TWINRUN_HOME") != 0;
}

/* Appends "NAME=value" to out->env; takes entry (NULL: no memory). */
static int add_variable(struct tw_unpack *u, size_t *n, char *entry, struct twin_error *err)
{
    char **grown = entry ? tw_reallocarray(u->out->env, *n + 2, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(entry);
        return tw_no_memory(err, "unpacking a package");
    }
    u->out->env = grown;
    grown[(*n)++] = entry;
    grown[*n] = NULL;
    return 0;
}

/* The variables of one area. where: its file, for messages; *n: how many there are so far. */
static int put_variables(struct tw_unpack *u, const json_t *area, const char *where, size_t *n,
                         struct twin_error *err)
{
    json_t *all = json_object_get(area, "variables"), *v;
    const char *name;
    int rc = 0;
    json_object_foreach (all, name, v) {
        /* only PYTHONPATH may be a list of folders */
        if (!name_ok(name) || (json_is_array(v) && strcmp(name, "PYTHONPATH") != 0))
            return tw_unpack_bad(where, "variables that decide about numbers only", err);
        char *value = resolve_word(u, v, ":", err);
        rc = value ? add_variable(u, n, tw_printf("%s=%s", name, value), err) : TWIN_EFORMAT;
        tw_free(value);
        if (rc)
            return rc;
    }
    return 0;
}

/* Does the replay set this variable? */
static bool is_set(const struct tw_unpack *u, const char *name, size_t n)
{
    for (char **e = u->out->env; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return true;
    return false;
}

/* Variables that say something about this machine or this shell: a replay keeps them as they are
 * here. */
static bool is_local(const char *name, size_t n)
{
    static const char *const names[] = {"PATH",
                                        "LANG",
                                        "LANGUAGE",
                                        "TZ",
                                        "HOSTNAME",
                                        "TMPDIR",
                                        "TWINRUN_HOME",
                                        "CC",
                                        "CXX",
                                        "VIRTUAL_ENV",
                                        "CONDA_PREFIX",
                                        "CONDA_DEFAULT_ENV",
                                        "LD_LIBRARY_PATH",
                                        "LD_PRELOAD",
                                        "CUDA_HOME",
                                        "CUDA_PATH",
                                        NULL};
    for (const char *const *p = names; *p; p++)
        if (strlen(*p) == n && memcmp(*p, name, n) == 0)
            return true;
    return n > 3 && memcmp(name, "LC_", 3) == 0;
}

/* Names the variables of this shell that decide about numbers and that the recorded run did not
 * have: in a replay they are taken away. */
static int put_unset(struct tw_unpack *u, struct twin_error *err)
{
    size_t n = 0;
    for (char **e = environ; e && *e; e++) {
        size_t length = strcspn(*e, "=");
        /* only variables that decide about numbers, and that mean the same on any machine */
        if (!tw_secret_variable_kept(*e, length) || is_set(u, *e, length) || is_local(*e, length))
            continue;
        char **grown = tw_reallocarray(u->out->unset, n + 2, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "unpacking a package");
        u->out->unset = grown;
        grown[n] = tw_strndup(*e, length);
        grown[n + 1] = NULL;
        if (!grown[n++])
            return tw_no_memory(err, "unpacking a package");
    }
    return 0;
}

/* Variables of configuration and seeds; PATH begins with the folder of the chosen Python, so that
 * programs which the job starts find it, too. */
static int put_environ(struct tw_unpack *u, struct twin_error *err)
{
    size_t n = 0;
    int rc = put_variables(u, u->configuration, "configuration/configuration.json", &n, err);
    rc = rc ? rc : put_variables(u, u->seeds, "seeds/seeds.json", &n, err);
    if (rc == 0 && u->python && strchr(u->python, '/')) {
        const char *path = getenv("PATH");
        const char *colon = path ? ":" : "";
        rc = add_variable(u, &n,
                          tw_printf("PATH=%.*s%s%s", (int)(strrchr(u->python, '/') - u->python),
                                    u->python, colon, path ? path : ""),
                          err);
        if (rc == 0 && u->o->build)
            rc = add_variable(u, &n, tw_printf("VIRTUAL_ENV=%s/venv", u->into), err);
    }
    return rc ? rc : put_unset(u, err);
}

/* The folder in which the job was started, inside of the code; made when the code has nothing in
 * it. */
static int put_cwd(struct tw_unpack *u, struct twin_error *err)
{
    const char *folder = tw_pk_text(u->configuration, "folder");
    if (!folder || (*folder && !tw_path_ok(folder)))
        return tw_unpack_bad("configuration/configuration.json", "a \"folder\" inside the code",
                             err);
    int fd = tw_folder_below(u->code_fd, folder);
    if (fd < 0)
        return twin_error_system(err, "cannot make %s in the code", folder);
    close(fd);
    u->out->cwd = *folder ? tw_path_join(u->code, folder) : tw_strdup(u->code);
    return u->out->cwd ? 0 : tw_no_memory(err, "unpacking a package");
}

/* ---- all */

/* Reads the six JSON files of the package. Each must be of our schema; TWIN_EVERSION: of another
 * version of it. */
static int load_package(struct tw_unpack *u, const char *dir, struct twin_error *err)
{
    const struct {
        const char *path;
        json_t **to;
    } parts[] = {{"data/package.json", &u->package},
                 {"data/code/code.json", &u->code_json},
                 {"data/data/data.json", &u->data_json},
                 {"data/environment/environment.json", &u->environment},
                 {"data/configuration/configuration.json", &u->configuration},
                 {"data/seeds/seeds.json", &u->seeds}};
    int rc = 0;
    u->dir = tw_path_absolute(dir, err);
    u->root = u->dir ? open(u->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (u->root < 0)
        return u->dir ? twin_error_system(err, "cannot read %s", dir) : TWIN_ENOMEM;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && rc == 0; i++) {
        rc = tw_pk_load(u->root, parts[i].path, parts[i].to, err);
        const char *schema = rc ? NULL : tw_pk_text(*parts[i].to, "schema");
        if (rc == 0 && (!schema || strcmp(schema, TW_PACKAGE_SCHEMA) != 0))
            rc = twin_error_set(
                err, schema && tw_starts(schema, "twinrun.package/") ? TWIN_EVERSION : TWIN_EFORMAT,
                "%s: expected schema " TW_PACKAGE_SCHEMA ", found %s", parts[i].path,
                schema ? schema : "none");
    }
    return rc;
}

/* What is found where the job runs: packages, the command, variables, its folder. */
static int put_command(struct tw_unpack *u, struct twin_error *err)
{
    int rc = tw_unpack_environment(u, err);
    rc = rc ? rc : put_argv(u, err);
    rc = rc ? rc : put_environ(u, err);
    return rc ? rc : put_cwd(u, err);
}

/* A package with findings is not unpacked. On failure everything in *out is freed. */
int twin_unpack(const char *dir, const struct twin_bag_verdict *verdict,
                const struct twin_unpack_options *o, struct twin_unpacked *out,
                struct twin_error *err)
{
    struct tw_unpack u = {
        .verdict = verdict, .o = o, .out = out, .root = -1, .into_fd = -1, .code_fd = -1};
    const char *doing = "package";
    *out = (struct twin_unpacked){0};
    int rc = verdict->findings
                 ? twin_error_set(err, TWIN_EFORMAT, "%s is not what its manifests say", dir)
                 : load_package(&u, dir, err);
    out->differences = json_array();
    if (rc == 0)
        rc = out->differences ? open_into(&u, err) : tw_no_memory(err, "unpacking a package");
    if (rc == 0 && o->part != TWIN_UNPACK_REST) {
        doing = "code";
        rc = tw_unpack_code(&u, err);
    }
    if (rc == 0) {
        doing = "data";
        rc = tw_unpack_data(&u, err);
    }
    if (rc == 0 && o->part != TWIN_UNPACK_FILES) {
        doing = "environment";
        rc = put_command(&u, err);
    }
    if (rc == 0) {
        out->expected = tw_path_join(u.dir, "data/expected");
        out->record = json_incref(json_object_get(u.package, "record"));
        rc = out->expected ? 0 : tw_no_memory(err, "unpacking a package");
    }
    /* areas and descriptors are not needed behind this point */
    json_t *all[] = {u.package, u.code_json, u.data_json, u.environment, u.configuration, u.seeds};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        json_decref(all[i]);
    const int fds[] = {u.root, u.into_fd, u.code_fd};
    for (size_t i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    tw_free(u.dir);
    tw_free(u.into);
    tw_free(u.code);
    out->python = u.python;
    if (rc) {
        twin_unpacked_free(out);
        out->missing = doing;
    }
    return rc;
}

/* A list that ends in NULL; it may end early, where memory did. */
static void free_list(char **list)
{
    for (char **p = list; p && *p; p++)
        tw_free(*p);
    tw_free(list);
}

void twin_unpacked_free(struct twin_unpacked *u)
{
    free_list(u->argv);
    free_list(u->env);
    free_list(u->unset);
    tw_free(u->cwd);
    tw_free(u->expected);
    tw_free(u->python);
    for (size_t i = 0; i < u->data_count; i++) {
        tw_free(u->data[i].folder);
        tw_free(u->data[i].manifest);
    }
    tw_free(u->data);
    free_list(u->data_given);
    json_decref(u->record);
    json_decref(u->differences);
    *u = (struct twin_unpacked){0};
}
