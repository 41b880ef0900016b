/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade: the job in another environment, held against the proven state, and record by record
 * against the old environment (twinrun check --a --b --explain rounding, which this program is
 * started for). Then back to the old one.
 */
#include "inside.h"

#include "base.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SELF_WORDS = 24 };

/* ---- the other environment */

/* The interpreter that the job's first word names, or any, to make an environment with. */
static const char *python_of(char *const *argv)
{
    return strncmp(tw_base_name(argv[0]), "python", 6) == 0 ? argv[0] : "python3";
}

/* An environment with what the file asks for, made by pip beside the copy of the working folder, so
 * it goes with that run. *python: malloc'ed. */
static int make_environment(struct dr_drill *d, char **python)
{
    static char script[] = "\"$1\" -m venv ../env && ../env/bin/python -m pip install -r \"$2\"";
    char *argv[] = {"/bin/sh",
                    "-c",
                    script,
                    "sh",
                    (char *)(uintptr_t)python_of(d->asked->argv),
                    (char *)(uintptr_t)d->asked->requirements,
                    NULL};
    struct dr_run r = {.argv = argv};
    dr_say(d, "an environment with the new requirements");
    int rc = dr_make(d->asked, &r, d->err);
    if (rc == 0 && !dr_ended_well(r.run))
        rc = twin_error_set(d->err, TWIN_EINVAL,
                            "expected an environment with %s, found that venv or pip ended with "
                            "exit code %d (no network, no such version?): their output is in %s",
                            d->asked->requirements, r.run->exit_code, r.run->dir);
    if (rc == 0 && !(*python = tw_printf("%s/env/bin/python", r.run->dir)))
        rc = tw_no_memory(d->err, "for a drill");
    twin_run_free(r.run);
    return rc;
}

/* The job's program as the other environment has it: its interpreter, or what lies beside that.
 * *program: malloc'ed. */
static int program_in(const char *python, const char *word, char **program, struct twin_error *err)
{
    const char *name = tw_base_name(word);
    const size_t folder = (size_t)(tw_base_name(python) - python);
    *program = strncmp(name, "python", 6) == 0 ? tw_strdup(python)
                                               : tw_printf("%.*s%s", (int)folder, python, name);
    if (!*program)
        return tw_no_memory(err, "for a drill");
    if (access(*program, X_OK) == 0)
        return 0;
    return twin_error_set(err, TWIN_EINVAL,
                          "expected a program %s in the other environment, for the job's first "
                          "word %s",
                          *program, word);
}

/* Both arms: how the job is started in each of the environments. All malloc'ed. */
struct arms {
    char *python, *program, *path; /* of the new one; path: "PATH=..." with its folder first */
    char **argv; /* the job in it; the words are the caller's, but for the first */
};

static void free_arms(struct arms *a)
{
    tw_free(a->argv);
    tw_free(a->path);
    tw_free(a->program);
    tw_free(a->python);
}

static int make_arms(struct dr_drill *d, struct arms *a)
{
    const char *path = getenv("PATH");
    char *const *argv = d->asked->argv;
    size_t n = 0;
    int rc = 0;
    if (d->asked->requirements)
        rc = make_environment(d, &a->python);
    else if (!(a->python = tw_path_absolute(d->asked->with, d->err)))
        rc = d->err->code;
    rc = rc ? rc : program_in(a->python, argv[0], &a->program, d->err);
    if (rc != 0)
        return rc;
    while (argv[n])
        n++;
    a->argv = tw_calloc(n + 1, sizeof *a->argv);
    a->path = tw_printf("PATH=%.*s%s%s", (int)(tw_base_name(a->python) - a->python), a->python,
                        path ? ":" : "", path ? path : "");
    if (!a->argv || !a->path)
        return tw_no_memory(d->err, "for a drill");
    memcpy(a->argv, argv, n * sizeof *argv);
    a->argv[0] = a->program;
    return 0;
}

/* ---- this program, for what it can do already */

/* Does somebody who is trusted vouch for the checkpoint of the whole run? */
static int check_signature(struct dr_drill *d)
{
    const struct tw_drill_asked *asked = d->asked;
    char *argv[SELF_WORDS] = {(char *)(uintptr_t)asked->twinrun, "verify",
                              (char *)(uintptr_t)asked->baseline};
    char *subject = dr_checkpoint_of(asked, d->whole.run);
    size_t n = 3;
    for (size_t i = 0; i < asked->trust_count && n + 3 < SELF_WORDS; i++)
        argv[n++] = (char *)(uintptr_t)asked->trust[i];
    argv[n] = subject;
    /* no home: what this verify finds is the drill's, and no event of the ledger */
    char *env[] = {"TWINRUN_HOME=/dev/null/none", NULL};
    struct dr_run r = {.argv = argv, .env = env, .is_ours = true};
    dr_say(d, "the signature of the baseline");
    int rc = subject ? dr_make(asked, &r, d->err) : tw_no_memory(d->err, "for a drill");
    if (rc == 0 && !dr_ended_well(r.run))
        rc = twin_error_set(d->err, TWIN_EINVAL,
                            "expected a first run that makes the signed baseline %s, found exit "
                            "code %d of twinrun verify: its output is in %s",
                            asked->baseline, r.run->exit_code, r.run->dir);
    if (rc == 0)
        dr_note(d, "the first run makes the signed baseline");
    twin_run_free(r.run);
    tw_free(subject);
    return rc;
}

/* A command as sh reads it again. malloc'ed; NULL: no memory. */
static char *command_text(const char *path, char *const *argv)
{
    char *text = path ? tw_shell_word(path) : NULL, *all = NULL;
    if (!path)
        all = tw_strdup("exec");
    else if (text)
        all = tw_printf("exec env %s", text);
    tw_free(text);
    for (size_t i = 0; all && argv[i]; i++) {
        char *word = tw_shell_word(argv[i]);
        char *longer = word ? tw_printf("%s %s", all, word) : NULL;
        tw_free(word);
        tw_free(all);
        all = longer;
    }
    return all;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The verdict's word for all records, and the lines about rounding. */
static void note_verdict(struct dr_drill *d, const json_t *v)
{
    static const char asked[] = "rounding or bug, first step: ";
    static const char *const about[] = {"rounding or bug", "beyond rounding", "in its place A"};
    const json_t *first = json_object_get(v, "first"), *notes = json_object_get(v, "notes");
    const char *outcome = text_of(v, "outcome");
    const char *unseen = json_string_value(json_array_get(json_object_get(v, "unseen"), 0));
    const bool is_known = strcmp(outcome, "same") == 0 || strcmp(outcome, "differ") == 0;
    dr_records(d, is_known ? outcome : "not known");
    if (json_is_object(first))
        dr_note(d, "record by record: %s, first in step %lld, %s, %s %s", outcome,
                (long long)json_integer_value(json_object_get(first, "step")),
                text_of(first, "phase"), text_of(first, "kind"), text_of(first, "name"));
    else if (unseen)
        dr_note(d, "record by record: %s, unseen: %s", outcome, unseen);
    else
        dr_note(d, "record by record: %s, %lld records", outcome,
                (long long)json_integer_value(
                    json_object_get(json_object_get(v, "records"), "compared")));
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *note = json_string_value(json_array_get(notes, i));
        for (size_t k = 0; note && k < sizeof about / sizeof about[0]; k++)
            if (strncmp(note, about[k], strlen(about[k])) == 0)
                dr_note(d, "%s", note);
        if (!note || strncmp(note, asked, sizeof asked - 1) != 0)
            continue;
        if (strncmp(note + sizeof asked - 1, "rounding;", 9) == 0)
            dr_records(d, "rounding");
        else if (strncmp(note + sizeof asked - 1, "beyond rounding;", 16) == 0)
            dr_records(d, "beyond rounding");
    }
}

/* What `check` printed into its run's folder. */
static int read_verdict(struct dr_drill *d, const struct twin_run *run)
{
    json_t *v = NULL;
    const int rc = dr_printed(run, &v, d->err);
    if (v)
        note_verdict(d, v);
    else if (rc == 0)
        dr_note(d, "record by record: not known, twinrun check ended with exit code %d: see %s",
                run->exit_code, run->dir);
    json_decref(v);
    return rc;
}

/* Both environments record by record. */
static int check_records(struct dr_drill *d, const struct arms *a)
{
    const struct tw_drill_asked *asked = d->asked;
    char *old = command_text(NULL, asked->argv), *new = command_text(a->path, a->argv);
    char *argv[] = {(char *)(uintptr_t)asked->twinrun,
                    "check",
                    "--json",
                    "--quiet",
                    "--fresh-dir",
                    "--no-clock",
                    "--runs",
                    "2",
                    "--explain",
                    "rounding",
                    "--ledger",
                    "none",
                    "--home",
                    (char *)(uintptr_t)asked->home,
                    "--a",
                    old,
                    "--b",
                    new,
                    NULL};
    struct dr_run r = {.argv = argv, .is_ours = true};
    dr_records(d, "not known");
    dr_say(d, "both environments, record by record");
    int rc = old && new ? dr_make(asked, &r, d->err) : tw_no_memory(d->err, "for a drill");
    rc = rc ? rc : read_verdict(d, r.run);
    twin_run_free(r.run);
    tw_free(old);
    tw_free(new);
    return rc;
}

static int try_upgrade(struct dr_drill *d, const struct arms *a)
{
    char *env[] = {a->path, NULL};
    const struct dr_run as = {.argv = a->argv, .env = env};
    bool same = false;
    dr_say(d, "a run in the other environment");
    int rc = dr_try(d, &as, "in the other environment", &same);
    if (rc == 0 && dr_ended_well(d->half.run))
        rc = check_records(d, a);
    if (rc != 0)
        return rc;
    dr_say(d, "a run in the old environment again");
    rc = dr_make_back(d, &d->again);
    rc = rc ? rc : dr_judge(d, "back in the old environment");
    if (rc == 0 && d->out->outcome == TW_DRILL_RESTORED)
        d->out->reproduce_s = d->again.run->wall_s;
    return rc;
}

int dr_upgrade(struct dr_drill *d)
{
    struct arms a = {NULL};
    int rc = d->asked->baseline ? check_signature(d) : 0;
    rc = rc ? rc : make_arms(d, &a);
    rc = rc ? rc : try_upgrade(d, &a);
    free_arms(&a);
    return rc;
}
