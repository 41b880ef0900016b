/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of runs ought to be of one program. A label may cover others by mistake, and their values
 * are no sample of anything; other arguments (seeds) are usual, and are named.
 */
#include "significant_sets.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 3, COMMAND_BYTES = 80 };

/* Does the program run what its arguments name? */
static bool is_interpreter(const char *program)
{
    static const char *const names[] = {"python", "sh",    "bash", "dash",    "zsh",
                                        "perl",   "julia", "node", "Rscript", NULL};
    for (size_t i = 0; names[i]; i++)
        if (strncmp(program, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* "python train.py", "python -m pkg.train", "sh -c echo", "prog". malloc'ed. */
static char *program_of(const struct twin_run *r)
{
    const char *first = r->argc ? tw_base_name(r->argv[0]) : "";
    size_t i = 1;
    if (!is_interpreter(first))
        return tw_strdup(first);
    while (i < r->argc && r->argv[i][0] == '-' && strcmp(r->argv[i], "-c") != 0 &&
           strcmp(r->argv[i], "-m") != 0)
        i++;
    if (i >= r->argc)
        return tw_strdup(first);
    if (r->argv[i][0] != '-')
        return tw_printf("%s %s", first, tw_base_name(r->argv[i]));
    const char *text = i + 1 < r->argc ? r->argv[i + 1] : "";
    return tw_printf("%s %s %.*s", first, r->argv[i], (int)strcspn(text, " \t\n;"), text);
}

/* Runs by a name that they share, in the order in which names were met. */
struct kinds {
    char **name;
    size_t *runs;
    size_t count;
    bool failed;
};

/* Takes name. */
static void count_kind(struct kinds *k, char *name)
{
    size_t i = 0;
    while (name && i < k->count && strcmp(k->name[i], name) != 0)
        i++;
    if (!name) {
        k->failed = true;
    } else if (i < k->count) {
        k->runs[i]++;
        tw_free(name);
    } else {
        k->name[k->count] = name;
        k->runs[k->count++] = 1;
    }
}

/* Sorts the set's runs by name(run). False: no memory. free_kinds in any case. */
static bool kinds_of(const struct tw_set *s, char *(*name)(const struct twin_run *),
                     struct kinds *out)
{
    *out = (struct kinds){tw_calloc(s->n, sizeof *out->name), tw_calloc(s->n, sizeof *out->runs), 0,
                          false};
    for (size_t i = 0; out->name && out->runs && i < s->n; i++)
        count_kind(out, name(s->run[i]));
    return out->name && out->runs && !out->failed;
}

/* Frees the names and counts. */
static void free_kinds(struct kinds *k)
{
    for (size_t i = 0; k->name && i < k->count; i++)
        tw_free(k->name[i]);
    tw_free(k->name);
    tw_free(k->runs);
}

/* "python kmeans.py (6 runs), ./other (2 runs)" */
static char *list_kinds(const struct kinds *k)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < k->count && i < SHOWN; i++) {
        char *safe = tw_printable(k->name[i], strnlen(k->name[i], COMMAND_BYTES));
        tw_buf_printf(&b, "%s%s (%zu run%s)", i ? ", " : "", safe ? safe : "?", k->runs[i],
                      tw_plural_s(k->runs[i]));
        tw_free(safe);
    }
    if (k->count > SHOWN)
        tw_buf_printf(&b, ", and %zu more", k->count - SHOWN);
    return tw_buf_steal(&b);
}

int tw_set_one_program(const struct tw_set *s, struct twin_error *err)
{
    struct kinds k;
    if (!s->run || s->n == 0)
        return 0;
    bool known = kinds_of(s, program_of, &k);
    char *text = known && k.count > 1 ? list_kinds(&k) : NULL;
    int rc = known && (text || k.count == 1) ? 0 : tw_no_memory(err, "for %zu commands", s->n);
    if (rc == 0 && k.count > 1)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s covers %zu programs, whose values are no sample of one thing: %s; "
                            "name the runs of one",
                            s->operand, k.count, text);
    tw_free(text);
    free_kinds(&k);
    return rc;
}

/* The whole command of a run. malloc'ed; NULL: no memory. */
static char *command_of(const struct twin_run *r)
{
    return tw_shell_quote(r->argv, r->argc);
}

char *tw_set_commands(const struct tw_set *s)
{
    struct kinds k;
    if (!s->run || s->n < 2)
        return tw_strdup("");
    bool known = kinds_of(s, command_of, &k);
    char *all = known && k.count > 1 ? list_kinds(&k) : NULL;
    char *text = known && k.count == 1 ? tw_strdup("") : NULL;
    if (all)
        text = tw_printf("%zu commands: %s", k.count, all);
    tw_free(all);
    free_kinds(&k);
    return text;
}
