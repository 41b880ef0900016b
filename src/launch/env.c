/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of the job: a list of "NAME=value" that launch.c fills in three steps.
 * tw_env_user() takes ours, without what an outer twinrun put there, and adds what the caller asks
 * for; agent.c may read it; tw_env_protocol() adds the variables by which the agents know the run
 * (docs/format/run-folder.md).
 *
 * Order and duplicates of the inherited entries stay as they are. Lookups take the first entry of a
 * name, as getenv does. */
#include "launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static size_t name_length(const char *entry)
{
    return strcspn(entry, "=");
}

/* The place of the first entry of this name, e->n when there is none. An entry without "=" is a
 * name, too. */
static size_t find_variable(const struct tw_env *e, const char *name, size_t n)
{
    size_t i = 0;
    while (i < e->n && !(name_length(e->v[i]) == n && memcmp(e->v[i], name, n) == 0))
        i++;
    return i;
}

/* The copy is made first: when there is no memory e is as it was. */
int tw_env_put(struct tw_env *e, const char *entry, struct twin_error *err)
{
    char *copy = tw_strdup(entry);
    if (!copy)
        return tw_no_memory(err, "for the job's environment");
    size_t i = find_variable(e, entry, name_length(entry));
    if (i < e->n) {
        tw_free(e->v[i]);
        e->v[i] = copy;
        return 0;
    }
    char **grown = tw_reallocarray(e->v, e->n + 2, sizeof *grown);
    if (!grown) {
        tw_free(copy);
        return tw_no_memory(err, "for the job's environment");
    }
    e->v = grown;
    e->v[e->n++] = copy;
    e->v[e->n] = NULL;
    return 0;
}

int tw_env_set(struct tw_env *e, const char *name, const char *value, struct twin_error *err)
{
    char *entry = tw_printf("%s=%s", name, value);
    int rc = entry ? tw_env_put(e, entry, err) : tw_no_memory(err, "for the job's environment");
    tw_free(entry);
    return rc;
}

void tw_env_unset(struct tw_env *e, const char *name)
{
    size_t i = find_variable(e, name, strlen(name));
    if (i == e->n)
        return;
    tw_free(e->v[i]);
    memmove(e->v + i, e->v + i + 1, (e->n - i) * sizeof *e->v); /* with the final NULL */
    e->n--;
}

const char *tw_env_get(const struct tw_env *e, const char *name)
{
    size_t i = find_variable(e, name, strlen(name));
    return i < e->n && e->v[i][strlen(name)] == '=' ? e->v[i] + strlen(name) + 1 : NULL;
}

int tw_env_copy(struct tw_env *e, char *const *from, struct twin_error *err)
{
    size_t n = 0;
    while (from && from[n])
        n++;
    *e = (struct tw_env){.v = tw_calloc(n + 1, sizeof *e->v)};
    if (!e->v)
        return tw_no_memory(err, "for the job's environment");
    /*
     * Entry by entry, duplicates included: the job must find what it would have found without us.
     */
    for (; e->n < n; e->n++)
        if (!(e->v[e->n] = tw_strdup(from[e->n])))
            return tw_no_memory(err, "for the job's environment");
    return 0;
}

void tw_env_free(struct tw_env *e)
{
    tw_strings_free(e->v);
    *e = (struct tw_env){0};
}

void tw_strings_free(char **v)
{
    for (size_t i = 0; v && v[i]; i++)
        tw_free(v[i]);
    tw_free(v);
}

/* The words are separated by commas; the last one about the clock counts. "audit" and "scale" show
 * no other time of day, "back" one that is hardly another. */
int64_t tw_env_shown_clock(const char *factors)
{
    static const char pinned[] = "clock=pin:";
    int64_t shown = 0;
    for (const char *p = factors, *comma; p; p = comma ? comma + 1 : NULL) {
        comma = strchr(p, ',');
        if (tw_starts(p, pinned))
            shown = strtoll(p + strlen(pinned), NULL, 10);
        else if (tw_starts(p, "clock=") && !tw_starts(p, "clock=audit") &&
                 !tw_starts(p, "clock=scale:") && !tw_starts(p, "clock=back:"))
            shown = -1;
    }
    return shown;
}

/* 1 when the clock is not scaled, or by a number that is out of range. */
uint32_t tw_env_clock_factor(const char *factors)
{
    const char *scale = factors ? strstr(factors, "clock=scale:") : NULL;
    unsigned long factor = scale ? strtoul(scale + strlen("clock=scale:"), NULL, 10) : 1;
    return factor >= 1 && factor <= 1000000 ? (uint32_t)factor : 1;
}

bool tw_env_is_kept(const char *entry)
{
    size_t n = name_length(entry);
    return entry[n] == '=' && tw_secret_variable_kept(entry, n);
}

/* Variables of an outer twinrun: the job of an inner one must not see them, or its agents would
 * write into the outer run. */
static const char *const protocol[] = {
    "TWINRUN_RUN_DIR",         "TWINRUN_RUN_ID",
    "TWINRUN_LEVEL",           "TWINRUN_WINDOW",
    "TWINRUN_STEPS",           "TWINRUN_SKETCH_EVERY",
    "TWINRUN_LOSSLESS",        "TWINRUN_LIB",
    "TWINRUN_PYTHON_DIR",      "TWINRUN_SITE_DIR",
    "TWINRUN_ORIG_PYTHONPATH", "TWINRUN_ZOOM_KEEP",
    "TWINRUN_ZOOM_OP",         "TWINRUN_TRANSPLANT",
    "TWINRUN_HOT_LIB",         "TWINRUN_TELEMETRY",
    "TWINRUN_STEPS_HOLD",      "TWINRUN_PARTS",
    "TWINRUN_ZOOM_AGAINST",    "TWINRUN_LEDGER",  /* it may hold a password */
    "TWINRUN_MPI_LIB",         "TWINRUN_ROLLOUT", /* the arm is drawn once */
    "TWINRUN_ZOOM_DRAW",
};

/* Takes every entry equal to `item` out of a list such as PYTHONPATH; empties mean the working
 * folder and are kept. */
static int list_without(struct tw_env *e, const char *name, const char *separators,
                        const char *item, struct twin_error *err)
{
    const char *value = tw_env_get(e, name);
    if (!value || !item || !*item || !strstr(value, item))
        return 0;
    struct tw_buf kept = {0};
    bool any = false;
    for (const char *p = value;; p++) {
        size_t n = strcspn(p, separators);
        if (!(n == strlen(item) && memcmp(p, item, n) == 0)) {
            if (any)
                tw_buf_append(&kept, separators, 1);
            tw_buf_append(&kept, p, n);
            any = true;
        }
        p += n;
        if (!*p)
            break;
    }
    char *text = tw_buf_steal(&kept);
    if (!text)
        return tw_no_memory(err, "for the job's environment");
    int rc = 0;
    if (any)
        rc = tw_env_set(e, name, text, err);
    else
        tw_env_unset(e, name);
    tw_free(text);
    return rc;
}

/* LD_PRELOAD and PYTHONPATH are cleaned first, with the help of the protocol's variables, which go
 * after that. */
int tw_env_user(struct tw_env *e, const struct twin_launch_options *o, struct twin_error *err)
{
    int rc = tw_env_copy(e, environ, err);
    if (rc == 0)
        rc = list_without(e, "LD_PRELOAD", ": ", tw_env_get(e, "TWINRUN_LIB"), err);
    if (rc == 0)
        rc = list_without(e, "LD_PRELOAD", ": ", tw_env_get(e, "TWINRUN_HOT_LIB"), err);
    if (rc == 0)
        rc = list_without(e, "LD_PRELOAD", ": ", tw_env_get(e, "TWINRUN_MPI_LIB"), err);
    if (rc == 0)
        rc = list_without(e, "PYTHONPATH", ":", tw_env_get(e, "TWINRUN_SITE_DIR"), err);
    tw_nccl_not_outer(e);
    tw_cupti_not_outer(e);
    for (size_t i = 0; i < sizeof protocol / sizeof protocol[0]; i++)
        tw_env_unset(e, protocol[i]);
    for (size_t i = 0; rc == 0 && o->env && o->env[i]; i++)
        rc = strchr(o->env[i], '=')
                 ? tw_env_put(e, o->env[i], err)
                 : twin_error_set(err, TWIN_EINVAL,
                                  "environment addition '%s' is not of the form NAME=value",
                                  o->env[i]);
    return rc;
}

/* NAME=ours, or NAME=ours:theirs when the user had a value. */
static int set_first(struct tw_env *e, const char *name, const char *ours, struct twin_error *err)
{
    const char *theirs = tw_env_get(e, name);
    if (!theirs || !*theirs)
        return tw_env_set(e, name, ours, err);
    char *both = tw_printf("%s:%s", ours, theirs);
    int rc = both ? tw_env_set(e, name, both, err) : tw_no_memory(err, "for the job's environment");
    tw_free(both);
    return rc;
}

static int set_number(struct tw_env *e, const char *name, uint32_t value, struct twin_error *err)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    return tw_env_set(e, name, text, err);
}

/* The part of the protocol that comes from the options alone. What is at its default is not set. */
static int protocol_options(struct tw_env *e, const struct twin_launch_options *o,
                            struct twin_error *err)
{
    int rc = tw_env_set(e, "TWINRUN_LEVEL", twin_level_name(o->level), err);
    if (rc == 0 && o->level == TWIN_LEVEL_OPS &&
        (o->window_first != 0 || o->window_last != UINT32_MAX)) {
        char window[32];
        snprintf(window, sizeof window, "%u:%u", o->window_first, o->window_last);
        rc = tw_env_set(e, "TWINRUN_WINDOW", window, err);
    }
    if (rc == 0 && o->max_steps)
        rc = set_number(e, "TWINRUN_STEPS", o->max_steps, err);
    if (rc == 0 && o->max_steps && o->hold)
        rc = set_number(e, "TWINRUN_STEPS_HOLD", 1, err);
    if (rc == 0 && o->sketch_every)
        rc = set_number(e, "TWINRUN_SKETCH_EVERY", o->sketch_every, err);
    if (rc == 0 && o->lossless)
        rc = tw_env_set(e, "TWINRUN_LOSSLESS", "1", err);
    if (rc == 0 && o->no_telemetry)
        rc = tw_env_set(e, "TWINRUN_TELEMETRY", "0", err);
    return rc;
}

/* Sets what the agents need. For LD_PRELOAD the order of the two calls counts: each puts its
 * library in front, so the agent stands before the libraries of hot functions and of MPI, and all
 * before the user's. */
int tw_env_protocol(struct tw_env *e, const struct twin_launch_options *o,
                    const struct twin_run *run, const struct tw_agent_setup *a,
                    struct twin_error *err)
{
    const char *pythonpath = tw_env_get(e, "PYTHONPATH");
    int rc = tw_env_set(e, "TWINRUN_RUN_DIR", run->dir, err);
    if (rc == 0)
        rc = tw_env_set(e, "TWINRUN_RUN_ID", run->id, err);
    if (rc == 0)
        rc = protocol_options(e, o, err);
    if (rc == 0 && a->library)
        rc = tw_env_set(e, "TWINRUN_LIB", a->library, err);
    if (rc == 0 && a->hot)
        rc = tw_env_set(e, "TWINRUN_HOT_LIB", a->hot, err);
    if (rc == 0 && a->hot)
        rc = set_first(e, "LD_PRELOAD", a->hot, err);
    if (rc == 0 && a->mpi)
        rc = tw_env_set(e, "TWINRUN_MPI_LIB", a->mpi, err);
    if (rc == 0 && a->mpi)
        rc = set_first(e, "LD_PRELOAD", a->mpi, err);
    if (rc == 0 && a->preload)
        rc = set_first(e, "LD_PRELOAD", a->library, err);
    if (rc == 0)
        rc = tw_nccl_protocol(e, a, err);
    if (rc == 0)
        rc = tw_cupti_protocol(e, a, err);
    /* A program of the job that is built with ASan would end itself on seeing a preload before its
     * own runtime. */
    if (rc == 0 && a->preload)
        rc = set_first(e, "ASAN_OPTIONS", "verify_asan_link_order=0", err);
    if (rc == 0 && a->parts.python_dir)
        rc = tw_env_set(e, "TWINRUN_PYTHON_DIR", a->parts.python_dir, err);
    if (rc == 0 && a->parts.site_dir) {
        rc = tw_env_set(e, "TWINRUN_SITE_DIR", a->parts.site_dir, err);
        if (rc == 0 && pythonpath)
            rc = tw_env_set(e, "TWINRUN_ORIG_PYTHONPATH", pythonpath, err);
        if (rc == 0)
            rc = set_first(e, "PYTHONPATH", a->parts.site_dir, err);
    }
    return rc;
}
