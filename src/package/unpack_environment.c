/* SPDX-License-Identifier: Apache-2.0 */
/* The environment for a replay: held against the lock list, or built from it (--environment build).
 * What differs is told and is no error: whether it matters is what the replay shows. Only Python
 * has a lock list; a package without it has nothing to compare. */
#include "unpack.h"
#include "provenance_inside.h"

#include "base.h"
#include "phrase.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The area's file below data/, for messages. */
static const char WHERE[] = "environment/environment.json";

/* ---- which Python */

/* The first in PATH; malloc'ed, NULL when there is none. */
static char *in_path(const char *name)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        char *file = tw_printf("%.*s/%s", (int)n, path, name);
        if (file && n && path[0] == '/' && access(file, X_OK) == 0)
            return file;
        tw_free(file);
        path += n + (path[n] == ':');
    }
    return NULL;
}

/* How well a version fits: 2 the same, 1 the same but for the last number, 0 another one. */
static int fit_of_version(const char *want, const char *have)
{
    const char *dot = strchr(want, '.');
    /* "3.11.7": the numbers up to the second dot decide */
    const char *second = dot ? strchr(dot + 1, '.') : NULL;
    size_t n = second ? (size_t)(second - want) : strlen(want);
    if (strcmp(want, have) == 0)
        return 2;
    return strncmp(want, have, n) == 0 && (have[n] == '.' || !have[n]) ? 1 : 0;
}

/* Path of the interpreter that --python named; without it (chosen NULL), of the one with this name
 * in PATH. malloc'ed; NULL: none. */
static char *python_path(const char *chosen, const char *name)
{
    if (!chosen)
        return in_path(name);
    return strchr(chosen, '/') ? tw_path_absolute(chosen, NULL) : in_path(chosen);
}

/* Chooses the interpreter: that of --python, else the one of PATH that fits best. u->python: its
 * path; *have: its version, the caller's. With `build` one with the same first two numbers is
 * needed, because packages are made for these. */
static int find_python(struct tw_unpack *u, const char *want, char **have, struct twin_error *err)
{
    char minor[24];
    int digits[2] = {0, 0}, best = -1;
    *have = NULL;
    sscanf(want, "%3d.%3d", &digits[0], &digits[1]);
    snprintf(minor, sizeof minor, "python%d.%d", digits[0], digits[1]);
    const char *const names[] = {"python", "python3", minor};
    /* a named one is the only candidate; else the best fit, the first of equals */
    for (size_t i = 0; i < (u->o->python ? 1 : 3); i++) {
        char *path = python_path(u->o->python, names[i]);
        char *version = path ? tw_pk_python_version(path) : NULL;
        int f = version ? fit_of_version(want, version) : -1;
        if (f > best) {
            tw_free(u->python);
            tw_free(*have);
            u->python = path;
            *have = version;
            best = f;
        } else {
            tw_free(path);
            tw_free(version);
        }
    }
    if (best < 0 && u->o->python)
        return twin_error_set(err, TWIN_ENOENT,
                              "expected a Python that starts (the package was made with %s), found "
                              "none at %s, which --python names",
                              want, u->o->python);
    if (best < 0)
        return twin_error_set(err, TWIN_ENOENT,
                              "expected a Python that starts (the package was made with %s), found "
                              "neither python, python3 nor %s in PATH, %.200s; name one with "
                              "--python",
                              want, minor, tw_text_or(getenv("PATH"), "which is not set"));
    if (best == 0 && u->o->build)
        return twin_error_set(err, TWIN_ENOENT,
                              "the package was made with Python %s, and %s is %s: name one of that "
                              "version with --python",
                              want, u->python, *have);
    return 0;
}

/* ---- lists */

/* A package's name as PEP 503 compares names: lower case, and "-" for each run of "-", "_" and ".".
 * malloc'ed. */
static char *plain_name(const char *s, size_t n)
{
    char *out = tw_malloc(n + 1);
    size_t k = 0;
    for (size_t i = 0; out && i < n; i++) {
        bool sign = s[i] == '-' || s[i] == '_' || s[i] == '.';
        if (!sign)
            out[k++] = (char)tolower((unsigned char)s[i]);
        else if (k && out[k - 1] != '-')
            out[k++] = '-';
    }
    if (out)
        out[k] = '\0';
    return out;
}

/* The lock list as an object from plain names to versions (null for an address). Each line is
 * "NAME==VERSION" or "NAME @ ADDRESS": nothing that pip would take for an option, since pip reads
 * the same file. */
static int read_lock(struct tw_unpack *u, json_t **out, struct twin_error *err)
{
    char *text, *save = NULL;
    size_t n;
    json_t *lock = json_object();
    int rc = lock ? tw_bag_read(u->root, "data/environment/requirements.txt", (size_t)16 << 20,
                                &text, &n, err)
                  : tw_no_memory(err, "looking at the environment");
    if (rc) {
        json_decref(lock);
        return rc;
    }
    /* a NUL would end the text for us and not for pip */
    bool bad = strlen(text) != n;
    for (char *line = strtok_r(text, "\n", &save); line && !bad;
         line = strtok_r(NULL, "\n", &save)) {
        size_t name = strspn(line,
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.");
        /* "==VERSION" with nothing behind it, or " @ ADDRESS" without a blank */
        bool version = strncmp(line + name, "==", 2) == 0 && line[name + 2] &&
                       strspn(
                           line + name + 2,
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+!") ==
                           strlen(line + name + 2);
        bool address = strncmp(line + name, " @ ", 3) == 0 && !strpbrk(line + name + 3, " \t;\\");
        char *key = name && isalnum((unsigned char)line[0]) && (version || address)
                        ? plain_name(line, name)
                        : NULL;
        bad = !key || json_object_set_new(
                          lock, key, version ? json_string(line + name + 2) : json_null()) != 0;
        tw_free(key);
    }
    tw_free(text);
    if (bad) {
        json_decref(lock);
        return tw_unpack_bad("environment/requirements.txt", "lines NAME==VERSION", err);
    }
    *out = lock;
    return 0;
}

/* What the interpreter has installed, as an object like that of read_lock. It asks the interpreter
 * itself, so no pip is needed. */
static int installed(const char *python, json_t **out, struct twin_error *err)
{
    /* importlib_metadata: of Pythons before 3.8; setdefault: of two packages of one name the first
     * one found is the one that Python imports */
    static const char script[] = "import json\ntry:\n from importlib import metadata as m\nexcept "
                                 "ImportError:\n import importlib_metadata as m\n"
                                 "d = {}\nfor x in m.distributions():\n n = x.metadata['Name']\n "
                                 "if n: d.setdefault(n, x.version)\nprint(json.dumps(d))";
    const char *const argv[] = {python, "-c", script, NULL};
    struct tw_ask a = {.argv = argv, .dir = "/", .limit_s = 60, .cap = (size_t)16 << 20};
    json_t *all = tw_ask(&a) ? json_loads(a.out, 0, NULL) : NULL, *plain = json_object(), *v;
    const char *name;
    json_object_foreach (all, name, v) {
        char *key = plain_name(name, strlen(name));
        if (key)
            json_object_set(plain, key, v);
        tw_free(key);
    }
    int rc = json_is_object(all) && plain
                 ? 0
                 : twin_error_set(err, TWIN_EIO, "%s cannot list its packages: %s", python,
                                  a.complaint);
    tw_free(a.out);
    json_decref(all);
    if (rc)
        json_decref(plain);
    else
        *out = plain;
    return rc;
}

/* Adds a text to the list of differences; formatted as by printf, text arguments made printable. */
static void note_difference(struct tw_unpack *u, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void note_difference(struct tw_unpack *u, const char *format, ...)
{
    struct tw_buf b = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_vprint_safe(&b, format, ap);
    va_end(ap);
    if (!b.failed)
        json_array_append_new(u->out->differences, json_string(b.data));
    tw_buf_free(&b);
}

/* Tells each package of the list that is not installed here, or in another version. Others that are
 * installed do not count. */
static int compare_packages(struct tw_unpack *u, const json_t *lock, struct twin_error *err)
{
    json_t *have = NULL, *v;
    const char *name;
    int rc = installed(u->python, &have, err);
    if (rc)
        return rc;
    json_object_foreach ((json_t *)(uintptr_t)lock, name, v) {
        const char *want = json_string_value(v), *is = tw_pk_text(have, name);
        if (!is)
            note_difference(u, "%s %s is not installed", name, want ? want : "");
        else if (want && strcmp(want, is) != 0)
            note_difference(u, "%s: %s in the package, %s here", name, want, is);
    }
    json_decref(have);
    return 0;
}

/* ---- building */

/* May a package give pip this option? Only those that say where to look and how to build. */
static bool option_ok(const char *option)
{
    static const char *const names[] = {
        "--extra-index-url",    "--index-url", "--find-links",    "--no-index",
        "--only-binary",        "--no-binary", "--prefer-binary", "--pre",
        "--no-build-isolation", NULL};
    for (const char *const *n = names; *n; n++)
        if (strncmp(option, *n, strlen(*n)) == 0 &&
            (option[strlen(*n)] == '=' || !option[strlen(*n)]))
            return true;
    return false;
}

/* What it complained of: where stderr has nothing (venv's way), what it printed first. */
static const char *why_it_failed(struct tw_ask *a)
{
    if (a->late)
        return "not done after an hour";
    if (a->missing)
        return "there is no such program";
    if (*a->complaint || !a->out)
        return tw_text_or(a->complaint, "failed");
    a->out[strcspn(a->out, "\n")] = '\0';
    return *a->out ? a->out : "failed";
}

/* Runs a program in the code's folder, for at most an hour. what: begins the message of a
 * failure. */
static int ask_program(struct tw_unpack *u, const char *const *argv, const char *what,
                       struct twin_error *err)
{
    struct tw_ask a = {.argv = argv, .dir = u->code, .limit_s = 3600, .cap = (size_t)64 << 20};
    int rc = 0;
    if (!tw_ask(&a))
        rc = twin_error_set(err, TWIN_EIO, "%s: %s", what, why_it_failed(&a));
    tw_free(a.out);
    return rc;
}

/* Runs `pip install` with the options of the package and of the user, then words. --no-deps: the
 * list has every package already. A package with too many options, or with one that option_ok()
 * refuses, is damaged. */
static int pip(struct tw_unpack *u, const char *const *words, struct twin_error *err)
{
    enum { ROOM = 120 };
    const char *argv[ROOM] = {u->python,    "-m",      "pip",     "--disable-pip-version-check",
                              "--no-input", "install", "--quiet", "--no-deps"};
    size_t n = 8, i;
    json_t *option;
    bool value = false; /* the word behind an option that takes one */
    json_array_foreach (json_object_get(u->environment, "pip_options"), i, option) {
        const char *text = json_string_value(option);
        if (!text || n > 60 || (!value && !option_ok(text)) || (value && text[0] == '-'))
            return tw_unpack_bad(WHERE, "options for pip that say where packages are", err);
        value = !value && !strchr(text, '=') &&
                (strstr(text, "url") || strstr(text, "links") || strstr(text, "binary"));
        argv[n++] = text;
    }
    for (const char *const *o = u->o->pip; o && *o && n < ROOM - 10; o++)
        argv[n++] = *o;
    /* what is to be installed stands last */
    while (*words && n < ROOM - 1)
        argv[n++] = *words++;
    argv[n] = NULL;
    char *what = tw_printf(
        "%s -m pip, with %s, could not install what the lock list names (options "
        "for it: --pip-option)",
        u->python,
        u->o->pip && *u->o->pip ? "the options of --pip-option" : "no options but the package's");
    int rc = what ? ask_program(u, argv, what, err) : tw_no_memory(err, "for pip");
    tw_free(what);
    return rc;
}

/* A fresh virtual environment with the packages of the list; u->python becomes its interpreter.
 * Packages that were installed from the checkout are installed from the code. */
static int build_environment(struct tw_unpack *u, const json_t *lock, struct twin_error *err)
{
    json_t *local;
    size_t i;
    char *venv = tw_path_join(u->into, "venv");
    char *list = tw_printf("%s/data/environment/requirements.txt", u->dir);
    int rc = venv && list ? 0 : tw_no_memory(err, "looking at the environment");
    tw_unpack_say(u, "a fresh virtual environment");
    if (rc == 0)
        rc = ask_program(u, (const char *const[]){u->python, "-m", "venv", venv, NULL},
                         "cannot make a virtual environment (python -m venv; another interpreter: "
                         "--python)",
                         err);
    if (rc == 0) {
        tw_free(u->python);
        u->python = tw_printf("%s/bin/python", venv);
        rc = u->python ? 0 : tw_no_memory(err, "looking at the environment");
    }
    if (rc == 0 && json_object_size(lock)) {
        tw_unpack_say(u, "its packages, by pip");
        rc = pip(u, (const char *const[]){"-r", list, NULL}, err);
    }
    /* packages of the checkout come last, each from its folder */
    json_array_foreach (json_object_get(u->environment, "local"), i, local) {
        const char *path = tw_pk_text(local, "path");
        char *full = NULL;
        if (path && (!*path || tw_path_ok(path)))
            full = *path ? tw_path_join(u->code, path) : tw_strdup(u->code);
        if (rc == 0)
            rc = full ? pip(u, (const char *const[]){"-e", full, NULL}, err)
                      : tw_unpack_bad(WHERE, "local packages inside the code", err);
        tw_free(full);
    }
    tw_free(venv);
    tw_free(list);
    return rc;
}

/* Finds the interpreter, builds an environment when that was asked for, and tells what differs from
 * the lock list in either case. */
int tw_unpack_environment(struct tw_unpack *u, struct twin_error *err)
{
    json_t *python = json_object_get(u->environment, "python"), *lock = NULL;
    const char *want = json_string_value(python);
    char *have = NULL;
    tw_unpack_say(u, "the environment");
    /* a job without Python */
    if (!want) {
        if (u->o->build)
            return twin_error_set(err, TWIN_EUNSUPPORTED,
                                  "the package names no version of Python: there is nothing to "
                                  "build an environment from; try --environment here");
        return 0;
    }
    /* it is a stranger's text, and goes into the name of a program */
    if (strlen(want) > 30 || !isdigit((unsigned char)want[0]))
        return tw_unpack_bad(WHERE, "a version of Python", err);
    int rc = find_python(u, want, &have, err);
    rc = rc ? rc : read_lock(u, &lock, err);
    if (rc == 0 && strcmp(want, have) != 0)
        note_difference(u, "Python: %s in the package, %s here (%s)", want, have, u->python);
    if (rc == 0 && u->o->build)
        rc = build_environment(u, lock, err);
    rc = rc ? rc : compare_packages(u, lock, err);
    json_decref(lock);
    tw_free(have);
    return rc;
}
