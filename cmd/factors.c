/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun factors: every source of variation that twinrun can hold still or shake, and what of it
 * applies here and to a job. */
#include "capture.h"
#include "json.h"
#include "options.h"
#include "say.h"

#include "base.h"

#include "src/isolate/isolate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct factors_args {
    const char *factor_file;
    bool json;
};

#define FIELD(f) offsetof(struct factors_args, f)

static const struct tw_option options[] = {
    {"factor-file", 'f', TW_OPT_FILE, "FILE", NULL, "Factors", "also factors of your own, in TOML",
     FIELD(factor_file)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"[options] [-- COMMAND [ARG...]]", NULL};
static const struct tw_pair exits[] = {
    {"0", "listed"},
    {"2", "trouble: bad use, or a factor file that cannot be read"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun factors",
     "the table: who applies a factor, its pin, its variation, whether it is to be had here"},
    {"twinrun factors -- python train.py", "and which of them apply to this job"},
    {NULL, NULL},
};

/* ---- what a command is */

struct job {
    bool given;
    char *no_agent; /* why the agent cannot be loaded into its program; NULL when it can */
    /* the interpreter that it starts; NULL when it does not look like a Python job */
    char *python;
    bool starter; /* a shell or the like: what it starts is not known beforehand */
    struct tw_python_packages has;
};

static bool names_python(const char *path)
{
    return tw_starts(tw_base_name(path), "python");
}

/* The interpreter in the first line of a script: "#!/usr/bin/python3 -E", "#!/usr/bin/env python3".
 * malloc'ed, or NULL. */
static char *script_python(const char *path)
{
    char line[256] = "", *word, *save = NULL;
    FILE *f = fopen(path, "re");
    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0';
    if (f)
        fclose(f);
    if (!tw_starts(line, "#!"))
        return NULL;
    for (word = strtok_r(line + 2, " \t\n", &save); word; word = strtok_r(NULL, " \t\n", &save))
        if (names_python(word))
            return tw_strdup(word);
    return NULL;
}

/* The program as exec will find it; malloc'ed, or NULL. */
static char *find_program(const char *name)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/') || !path)
        return tw_strdup(name);
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, ":");
        char *full = n ? tw_printf("%.*s/%s", (int)n, p, name) : tw_printf("./%s", name);
        FILE *f = full ? fopen(full, "re") : NULL;
        if (f) {
            fclose(f);
            return full;
        }
        tw_free(full);
        p += n;
        if (!*p)
            return NULL;
    }
}

static int look_at(struct job *j, char **argv, struct twin_error *err)
{
    static const char *const starters[] = {"sh",   "bash",    "dash",    "zsh",    "env",
                                           "nice", "time",    "timeout", "mpirun", "mpiexec",
                                           "srun", "taskset", "numactl", "make"};
    struct twin_parts parts;
    bool ok = false;
    j->given = true;
    char *program = find_program(argv[0]);
    if (!program)
        return twin_error_set(err, TWIN_ENOENT, "there is no program %s in PATH", argv[0]);
    int rc = twin_parts_find(&parts, err);
    if (rc == 0 && parts.agent_library)
        rc = twin_trial_load(argv[0], parts.agent_library, &ok, &j->no_agent, err);
    if (rc == 0 && !parts.agent_library)
        j->no_agent = tw_strdup("libtwinrun.so was not found");
    if (rc == 0)
        twin_parts_free(&parts);
    for (size_t i = 0; i < sizeof starters / sizeof starters[0]; i++)
        j->starter |= strcmp(tw_base_name(program), starters[i]) == 0;
    j->python = names_python(program) ? tw_strdup(program) : script_python(program);
    if (j->python)
        j->has = tw_python_packages(j->python);
    tw_free(program);
    return rc;
}

static void forget(struct job *j)
{
    tw_free(j->no_agent);
    tw_free(j->python);
}

/* "yes", "perhaps: ..." or "no: ...", into text. */
static const char *applies(const struct twin_factor *f, const struct job *j, char *text,
                           size_t room)
{
    bool agent = strstr(f->how, "libc agent") || strcmp(f->how, "python agent") == 0;
    const char *needs = f->needs;
    if (f->unavailable)
        snprintf(text, room, "no: %s", f->unavailable);
    else if (!j->given)
        snprintf(text, room, "yes");
    else if (agent && j->no_agent)
        snprintf(text, room, "no: %s", j->no_agent);
    else if (j->starter)
        snprintf(text, room, "perhaps: what it starts decides");
    else if (needs && !j->python)
        snprintf(text, room, "no: not a Python job by its name");
    else if (needs && strcmp(needs, "torch") == 0 && !j->has.torch)
        snprintf(text, room, "no: %.80s cannot import torch", j->python);
    else if (needs && strcmp(needs, "numpy") == 0 && !j->has.numpy)
        snprintf(text, room, "no: %.80s cannot import numpy", j->python);
    else
        snprintf(text, room, "yes");
    return text;
}

/* ---- printing */

static size_t widest(const struct twin_factors *f, const char *(*text)(const struct twin_factor *))
{
    size_t width = 0;
    for (size_t i = 0; i < f->count; i++)
        width = strlen(text(&f->factor[i])) > width ? strlen(text(&f->factor[i])) : width;
    return width;
}

static const char *id_of(const struct twin_factor *f)
{
    return f->id;
}
static const char *how_of(const struct twin_factor *f)
{
    return f->how;
}

/* A factor takes up to three lines: what and whether; its pin; its variation. */
static int print_table(const struct twin_factors *f, const struct job *j)
{
    int id = (int)widest(f, id_of), how = (int)widest(f, how_of);
    const char *layer = "";
    for (size_t i = 0; i < f->count; i++) {
        const struct twin_factor *x = &f->factor[i];
        char text[512];
        if (strcmp(layer, x->layer) != 0)
            tw_put(*layer ? "\n%s\n" : "%s\n", x->layer);
        layer = x->layer;
        tw_put("  %-*s  %-*s  %s\n", id, x->id, how, x->how, applies(x, j, text, sizeof text));
        tw_put("  %-*s    %s\n", id, "", x->title);
        if (x->pin)
            tw_put("  %-*s    pin   %s\n", id, "", x->pin);
        if (x->vary)
            tw_put("  %-*s    vary  %s\n", id, "", x->vary);
    }
    return 0;
}

static json_t *row(const struct twin_factor *f, const struct job *j)
{
    char text[512];
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o}", "id", f->id,
                          "layer", f->layer, "title", f->title, "how", f->how, "pin",
                          tw_json_text(f->pin), "vary", tw_json_text(f->vary), "unit",
                          f->unit == TWIN_UNIT_RUN ? "run" : "exposure", "fix", f->fix, "needs",
                          tw_json_text(f->needs), "unavailable", tw_json_text(f->unavailable));
    if (o && j->given)
        json_object_set_new(o, "applies", tw_json_text(applies(f, j, text, sizeof text)));
    return o;
}

static int print_json(const struct twin_factors *f, const struct job *j)
{
    json_t *list = json_array(), *o = json_pack("{s:s}", "schema", "twinrun.factors/1");
    for (size_t i = 0; i < f->count; i++)
        json_array_append_new(list, row(&f->factor[i], j));
    if (o && j->given)
        json_object_set_new(o, "job",
                            json_pack("{s:o, s:o, s:b, s:b, s:b}", "python",
                                      tw_json_text(j->python), "no_agent",
                                      tw_json_text(j->no_agent), "numpy", j->has.numpy, "torch",
                                      j->has.torch, "starter", j->starter));
    json_object_set_new(o, "factors", list);
    return tw_json_print(o);
}

static int run(int argc, char **argv)
{
    struct factors_args a = {0};
    struct tw_operands job;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_factors f = {0};
    struct job j = {0};
    int rc = tw_options_parse(&tw_command_factors, argc, argv, &a, &job);
    if (rc >= 0)
        return rc;
    if (twin_factors_load(a.factor_file, &f, &err) != 0)
        return tw_trouble(&err, "the factors cannot be listed");
    if (job.count && look_at(&j, job.items, &err) != 0)
        rc = tw_trouble(&err, "what applies to this command is not known");
    else if (a.json)
        rc = print_json(&f, &j);
    else
        rc = print_table(&f, &j);
    forget(&j);
    twin_factors_free(&f);
    return rc;
}

const struct tw_command tw_command_factors = {
    "factors",
    "list the sources of variation that can be held still or shaken",
    synopsis,
    "Lists, by layer, every factor: who applies it, whether it is to be had here, what its pin "
    "does (as one would do it by hand) and what its variation does. With a command it also says "
    "which of them apply to that job: whether its program can carry the agent, whether it is a "
    "Python job, and whether that Python can import torch and numpy.\n\n"
    "A factor file holds factors of your own: [[factor]] tables with id = \"user:NAME\", layer, "
    "title, and env = {NAME = \"value\"} with vary_env, or replace = [\"--workers=4\", "
    "\"--workers=0\"] with vary_replace; fix and unit (\"run\" or \"exposure\") may be given.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
