/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factors of the user's own, from a TOML file (docs/factors.md):
 *
 *     [[factor]]
 *     id = "user:schedule"
 *     layer = "forward"
 *     title = "how OpenMP hands out iterations"
 *     env = {OMP_SCHEDULE = "static"}          # the pin
 *     vary_env = {OMP_SCHEDULE = "dynamic,1"}  # the variation, if there is one
 *
 * or, instead of env, replace = ["--workers=4", "--workers=0"]: the first argument equal to the one
 * becomes the other.
 *
 * Called by twin_factors_load, whose list of factors it lengthens. The reader of TOML is in base
 * (tw_toml_read) and calls back for each table and key; a table is checked when the next one
 * begins, or the file ends. Every message has the file and the line.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

/* The built-in factors count towards the limit. */
enum { FACTORS_MAX = 256 };

/* The file being read, and the table of it that is being read. */
struct reading {
    const char *path;
    struct twin_factors *out;
    /* the factor being read, the last one of out; NULL: before the first table */
    struct twin_factor *f;
    struct tw_factor_edits *e;
    size_t began; /* the line of its [[factor]] */
};

void tw_list_free(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        tw_free(list[i]);
    tw_free(list);
}

int tw_list_add(char ***list, size_t *count, char *text, struct twin_error *err)
{
    char **grown = text ? tw_reallocarray(*list, *count + 2, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(text);
        return tw_no_memory(err, "for a list of texts");
    }
    grown[(*count)++] = text;
    grown[*count] = NULL;
    *list = grown;
    return 0;
}

void tw_factor_edits_free(struct tw_factor_edits *e)
{
    if (!e)
        return;
    tw_list_free(e->env);
    tw_list_free(e->vary_env);
    for (size_t i = 0; i < e->string_count; i++)
        tw_free(e->strings[i]);
    tw_free(e->from);
    tw_free(e->to);
    tw_free(e->vary_from);
    tw_free(e->vary_to);
    tw_free(e);
}

/* Gives *field a text that the factor's edits own from then on. NULL text is out of memory. */
static int keep_text(struct reading *r, const char **field, char *text, struct twin_error *err)
{
    if (!text)
        return tw_no_memory(err, "reading %s", r->path);
    r->e->strings[r->e->string_count++] = text;
    *field = text;
    return 0;
}

/* ---- the end of a table: is it complete? */

static char *joined_list(char *const *list)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (size_t i = 0; list[i]; i++)
        tw_buf_printf(&b, "%s%s", i ? ", " : "", list[i]);
    return tw_buf_steal(&b);
}

/* Sets *field to what a person would do by hand: the variables, or "FROM -> TO". Leaves it NULL
 * when neither is given. */
static int describe_edits(struct reading *r, char *const *env, const char *from, const char *to,
                          const char **field, struct twin_error *err)
{
    if (!env && !from)
        return 0;
    return keep_text(r, field, env ? joined_list(env) : tw_printf("%s -> %s", from, to), err);
}

/* The first key that a factor must have and this one has not; NULL: it has them all. */
static const char *missing_key(const struct twin_factor *f, const struct tw_factor_edits *e)
{
    if (!*f->id)
        return "id";
    if (!*f->layer)
        return "layer";
    if (!*f->title)
        return "title";
    return e->env || e->from ? NULL : "env or replace";
}

/* Checks the table that was read last, and fills what follows from its keys. Nothing to do before
 * the first table. */
static int finish_factor(struct reading *r, struct twin_error *err)
{
    struct twin_factor *f = r->f;
    const struct tw_factor_edits *e = r->e;
    if (!f)
        return 0;
    const char *missing = missing_key(f, e);
    if (missing)
        return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: this factor has no %s", r->path,
                              r->began, missing);
    if ((e->env && e->from) || (e->vary_env && !e->env) || (e->vary_from && !e->from))
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: line %zu: %s changes variables and arguments; make two factors of it", r->path,
            r->began, f->id);
    for (size_t i = 0; i + 1 < r->out->count; i++)
        if (strcmp(r->out->factor[i].id, f->id) == 0)
            return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: there is a factor %s already",
                                  r->path, r->began, f->id);
    f->how = e->env ? "environment" : "arguments";
    int rc = describe_edits(r, e->env, e->from, e->to, &f->pin, err);
    if (rc == 0)
        rc = describe_edits(r, e->vary_env, e->vary_from, e->vary_to, &f->vary, err);
    r->f = NULL;
    return rc;
}

/* ---- keys */

/* A new [[factor]]: the one before it is finished, and an empty one is added. */
static int begin_factor(void *user, size_t line, struct twin_error *err)
{
    struct reading *r = user;
    int rc = finish_factor(r, err);
    if (rc != 0)
        return rc;
    if (r->out->count >= FACTORS_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%s: line %zu: more than %d factors", r->path, line,
                              FACTORS_MAX);
    struct twin_factor *grown = tw_reallocarray(r->out->factor, r->out->count + 1, sizeof *grown);
    if (grown)
        r->out->factor = grown;
    r->e = grown ? tw_calloc(1, sizeof *r->e) : NULL;
    if (!r->e)
        return tw_no_memory(err, "reading %s", r->path);
    /* The list may have moved, so r->f is always the last of it. */
    r->began = line;
    r->f = &grown[r->out->count++];
    *r->f = (struct twin_factor){
        .id = "", .layer = "", .title = "", .fix = "", .unit = TWIN_UNIT_RUN, .edits = r->e};
    return 0;
}

static int wrong_key(const struct reading *r, size_t line, const char *key, const char *expected,
                     struct twin_error *err)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s: expected %s", r->path, line, key,
                          expected);
}

/* "user:" keeps them apart from the built-in ones, also from those of later versions. */
static bool is_id(const char *s)
{
    size_t n = strlen(s);
    return tw_starts(s, "user:") && n > 5 && n < 64 &&
           strspn(s + 5, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               n - 5;
}

static bool is_layer(const char *s)
{
    static const char *const layers[] = {"data",        "rng",        "init",      "forward",
                                         "backward",    "collective", "optimizer", "checkpoint",
                                         "environment", "hardware",   "schedule",  "artifact"};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        if (strcmp(layers[i], s) == 0)
            return true;
    return false;
}

/* A key that takes a text. The texts that must have a form (unit, id, layer) are checked here. */
static int set_text(struct reading *r, const char *key, const char *text, size_t line,
                    struct twin_error *err)
{
    if (strcmp(key, "unit") == 0) {
        if (strcmp(text, "run") != 0 && strcmp(text, "exposure") != 0)
            return wrong_key(r, line, key,
                             "\"run\" (drawn once per run) or \"exposure\" (acts at every step)",
                             err);
        r->f->unit = *text == 'r' ? TWIN_UNIT_RUN : TWIN_UNIT_EXPOSURE;
        return 0;
    }
    if (strcmp(key, "id") == 0 && !is_id(text))
        return wrong_key(r, line, key, "\"user:NAME\", NAME of letters, digits, '.', '_', '-'",
                         err);
    if (strcmp(key, "layer") == 0 && !is_layer(text))
        return wrong_key(r, line, key,
                         "one of data, rng, init, forward, backward, collective, optimizer, "
                         "checkpoint, environment, hardware, schedule, artifact",
                         err);
    const char **field = &r->f->fix;
    if (strcmp(key, "id") == 0)
        field = &r->f->id;
    else if (strcmp(key, "layer") == 0)
        field = &r->f->layer;
    else if (strcmp(key, "title") == 0)
        field = &r->f->title;
    return keep_text(r, field, tw_strdup(text), err);
}

/* A table of variables, as "NAME=value" in *list. The table's texts are names and values in
 * turn. */
static int set_env(struct reading *r, const char *key, const struct tw_toml_value *v, char ***list,
                   size_t line, struct twin_error *err)
{
    size_t count = 0;
    if (v->type != TW_TOML_TABLE || v->count == 0)
        return wrong_key(r, line, key, "variables such as {OMP_SCHEDULE = \"static\"}", err);
    for (size_t i = 0; i < v->count; i += 2) {
        if (tw_starts(v->text[i], "TWINRUN_") || tw_starts(v->text[i], "LD_PRELOAD"))
            return wrong_key(r, line, v->text[i],
                             "a variable that twinrun does not need for itself", err);
        int rc = tw_list_add(list, &count, tw_printf("%s=%s", v->text[i], v->text[i + 1]), err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Two arguments: the one to look for and the one that takes its place. */
static int set_replace(struct reading *r, const char *key, const struct tw_toml_value *v,
                       char **from, char **to, size_t line, struct twin_error *err)
{
    if (v->type != TW_TOML_STRINGS || v->count != 2 || !*v->text[0])
        return wrong_key(r, line, key, "two arguments such as [\"--workers=4\", \"--workers=0\"]",
                         err);
    *from = tw_strdup(v->text[0]);
    *to = tw_strdup(v->text[1]);
    return *from && *to ? 0 : tw_no_memory(err, "reading %s", r->path);
}

/* Called for each key of a table. Unknown keys are errors: a misspelt one would silently pin
 * nothing. */
static int set_key(void *user, const char *key, const struct tw_toml_value *v, size_t line,
                   struct twin_error *err)
{
    static const char *const texts[] = {"id", "layer", "title", "fix", "unit"};
    struct reading *r = user;
    struct tw_factor_edits *e = r->e;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(key, texts[i]) == 0)
            return v->type == TW_TOML_STRING && *v->text[0]
                       ? set_text(r, key, v->text[0], line, err)
                       : wrong_key(r, line, key, "a text in quotes", err);
    if (strcmp(key, "env") == 0)
        return set_env(r, key, v, &e->env, line, err);
    if (strcmp(key, "vary_env") == 0)
        return set_env(r, key, v, &e->vary_env, line, err);
    if (strcmp(key, "replace") == 0)
        return set_replace(r, key, v, &e->from, &e->to, line, err);
    if (strcmp(key, "vary_replace") == 0)
        return set_replace(r, key, v, &e->vary_from, &e->vary_to, line, err);
    static const char *const all[] = {"id",  "layer",    "title",   "fix",          "unit",
                                      "env", "vary_env", "replace", "vary_replace", NULL};
    const char *near = tw_nearest(key, all);
    return twin_error_set(err, TWIN_EFORMAT,
                          "%s: line %zu: unknown key %s%s%s%s; expected id, layer, title, fix, "
                          "unit, env, vary_env, replace, vary_replace",
                          r->path, line, key, near ? " (did you mean " : "", near ? near : "",
                          near ? "?)" : "");
}

int tw_factor_file_load(const char *path, struct twin_factors *out, struct twin_error *err)
{
    char *data = NULL;
    size_t bytes = 0, before = out->count;
    struct reading r = {.path = path, .out = out};
    int rc = tw_read_file(path, TW_FACTOR_FILE_MAX, &data, &bytes, err);
    if (rc == 0 && memchr(data, '\0', bytes))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: not text: it holds a NUL byte", path);
    if (rc == 0)
        rc = tw_toml_read(data, path,
                          &(struct tw_toml_handler){"factor", begin_factor, set_key, &r}, err);
    if (rc == 0)
        rc = finish_factor(&r, err);
    if (rc == 0 && out->count == before)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: no [[factor]] in it", path);
    tw_free(data);
    return rc;
}
