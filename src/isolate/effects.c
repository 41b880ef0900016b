/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether each setting took effect, from what the processes of the run said themselves. A variable
 * may be set again by a shell on the way, a pin may come too late, a library may never be loaded: a
 * world in which a pin did nothing must not be taken for a pinned one. The search (search_runs.c)
 * and the commands that set factors ask this of a run that has ended.
 *
 * Sources: the run folder's `factors` (docs/format/run-folder.md), `faults`, `processes`, and what
 * the launcher says of itself in run.json. An answer is one of enum twin_effect with a text for the
 * person; errors are only those of reading and of memory.
 */
#include "internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 64 MiB: a file of a run folder is foreign bytes, and never that large. */
enum { FILE_BYTES_MAX = 64 << 20 };

/* Everything that a run has said. Lines point into `factors`. */
struct said {
    char *factors, *faults, *processes; /* the files; NULL when absent */
    struct twin_said_line *line;
    size_t count;
    /* a Python process was seen */
    bool python;
    /* processes that carry the agent, and that do not */
    size_t armed, unarmed;
    /* the first of those without it, for the message; NULL: none */
    const struct twin_run_process *unarmed_one;
};

/* ---- reading */

/* Reads a file of the run folder. A file that is absent is no error and leaves *data as it is,
 * NULL. */
static int read_entry(const struct twin_run *run, const char *name, char **data,
                      struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    size_t bytes;
    char *path = tw_path_join(run->dir, name);
    int rc = path ? tw_read_file(path, FILE_BYTES_MAX, data, &bytes, &why) : TWIN_ENOMEM;
    tw_free(path);
    if (rc == TWIN_ENOENT) /* nothing was said, which is ordinary */
        return 0;
    if (rc == 0)
        return 0;
    if (rc == TWIN_ENOMEM)
        return tw_no_memory(err, "reading what the agents said");
    return twin_error_set(err, rc, "%s", why.message);
}

/* Is there a Python process? A line is "pid ppid start kind argv". The kind is python only once the
 * Python half records something there, so the program's name counts as well. */
static bool any_python(const char *processes)
{
    for (const char *p = processes; p && *p;) {
        size_t n = strcspn(p, "\n");
        char kind[16] = "", program[256] = "";
        if (sscanf(p, "%*d %*d %*u %15s %255s", kind, program) >= 1) {
            const char *slash = strrchr(program, '/');
            if (strcmp(kind, "python") == 0 || tw_starts(slash ? slash + 1 : program, "python"))
                return true;
        }
        p += n + (p[n] == '\n');
    }
    return false;
}

/* Fills s; the caller forgets it, also after an error. */
static int read_said(struct said *s, const struct twin_run *run, struct twin_error *err)
{
    *s = (struct said){0};
    int rc = twin_said_lines(run, &s->factors, &s->line, &s->count, err);
    if (rc == 0)
        rc = read_entry(run, "faults", &s->faults, err);
    if (rc == 0)
        rc = read_entry(run, "processes", &s->processes, err);
    if (rc != 0)
        return rc;
    s->python = any_python(s->processes);
    for (size_t i = 0; i < run->process_count; i++) {
        s->armed += run->processes[i].armed;
        if (!run->processes[i].armed && !s->unarmed++)
            s->unarmed_one = &run->processes[i];
    }
    return 0;
}

static void free_said(struct said *s)
{
    tw_free(s->factors);
    tw_free(s->faults);
    tw_free(s->processes);
    tw_free(s->line);
}

/* ---- judging */

/* Sets the answer. Takes the text over; NULL text is out of memory. */
static int judge_effect(struct twin_world_effect *e, enum twin_effect effect, char *text,
                        struct twin_error *err)
{
    tw_free(e->text);
    e->effect = effect;
    e->text = text;
    return text ? 0 : tw_no_memory(err, "judging what a world did");
}

/* An answer for the case that no agent spoke: names a process without one, and why it has none. */
static int no_agent(struct twin_world_effect *e, const struct said *s, enum twin_effect effect,
                    const char *what, struct twin_error *err)
{
    const struct twin_run_process *p = s->unarmed_one;
    char *text;
    if (p)
        text = tw_printf("%s: process %d (%.60s) does not carry the agent: %s", what, p->pid,
                         p->argv, p->why ? p->why : "why is not known");
    else
        text = tw_printf("%s: no process carries the agent", what);
    return judge_effect(e, effect, text, err);
}

/* Compares the variables as they arrived in each process (lines env.NAME and unset.NAME) with those
 * that the setting means. One process that found another value is enough for a failure. */
static int judge_environment(struct twin_world_effect *e, const struct twin_setting *setting,
                             const struct said *s, struct twin_error *err)
{
    char **expected = NULL;
    size_t count = 0, seen = 0;
    /* Each variable of the setting is looked for in what every process said. */
    int rc = tw_factor_environment(setting, &expected, &count, err);
    e->effect = TWIN_EFFECT_IN_FORCE;
    for (size_t i = 0; rc == 0 && i < count && e->effect == TWIN_EFFECT_IN_FORCE; i++) {
        size_t n = strcspn(expected[i], "=");
        for (size_t k = 0; rc == 0 && k < s->count; k++) {
            const struct twin_said_line *l = &s->line[k];
            bool set = tw_starts(l->key, "env."), unset = tw_starts(l->key, "unset.");
            if (!set && !unset)
                continue;
            const char *name = l->key + strlen(set ? "env." : "unset.");
            if (strlen(name) != n || memcmp(name, expected[i], n) != 0)
                continue;
            seen++;
            if (set && strcmp(l->value, expected[i] + n + 1) == 0)
                continue;
            rc = judge_effect(
                e, TWIN_EFFECT_FAILED,
                set ? tw_printf("process %s found %s=%.60s instead of %s: set again on the way",
                                l->pid, name, l->value, expected[i] + n + 1)
                    : tw_printf("process %s found %s unset", l->pid, name),
                err);
            break;
        }
    }
    /* No process found another value. Did any of them see one at all? */
    const bool as_set = rc == 0 && e->effect == TWIN_EFFECT_IN_FORCE;
    if (as_set && count == 0)
        rc = judge_effect(e, TWIN_EFFECT_UNKNOWN, tw_strdup("nothing can be seen of it"), err);
    else if (as_set && seen == 0)
        rc = no_agent(e, s, TWIN_EFFECT_UNKNOWN, "set, but not seen to arrive", err);
    else if (as_set)
        rc = judge_effect(e, TWIN_EFFECT_IN_FORCE, tw_strdup(expected[0]), err);
    tw_list_free(expected);
    return rc;
}

/* The fault that concerns this factor, "malloc-fill is off: ...", in a line of `faults`; NULL:
 * none. *n is its length, since the line goes on to a newline. A fault that switched everything off
 * concerns every factor. */
static const char *fault_about(const struct said *s, const char *word, size_t *n)
{
    char own[64];
    snprintf(own, sizeof own, "TWINRUN_FACTORS: %s is off", word);
    for (const char *p = s->faults; p && *p;) {
        size_t length = strcspn(p, "\n");
        const char *at = memmem(p, length, own, strlen(own));
        if (!at)
            at = memmem(p, length, "TWINRUN_FACTORS: everything is off", 34);
        if (at) {
            at += strlen("TWINRUN_FACTORS: ");
            *n = length - (size_t)(at - p);
            return at;
        }
        p += length + (p[length] == '\n');
    }
    return NULL;
}

/* Judges by the lines effect.NAME, one or more of each process. "failed: ..." weighs most, then
 * "overridden: ..." (the job sets it itself, afterwards), then what is in force, then "not used:
 * ..." of processes that never loaded the library. Leaves e alone when there is none. */
static int judge_lines(struct twin_world_effect *e, const char *name, const struct said *s,
                       struct twin_error *err)
{
    static const char *const starts[] = {"failed:", "overridden:", "", "not used:"};
    const struct twin_said_line *one[4] = {NULL};
    size_t count[4] = {0};
    char key[96];
    snprintf(key, sizeof key, "effect.%s", name);
    for (size_t i = 0; i < s->count; i++) {
        size_t k = 0;
        if (strcmp(s->line[i].key, key) != 0)
            continue;
        while (k < 4 && (!*starts[k] || !tw_starts(s->line[i].value, starts[k])))
            k++;
        /* no known beginning: it says what is in force */
        k = k == 4 ? 2 : k;
        one[k] = &s->line[i];
        count[k]++;
    }
    if (one[0])
        return judge_effect(
            e, TWIN_EFFECT_FAILED,
            tw_printf("process %s:%.200s", one[0]->pid, one[0]->value + strlen(starts[0])), err);
    if (one[1])
        return judge_effect(e, TWIN_EFFECT_NOT_USED, tw_printf("%.200s", one[1]->value), err);
    if (one[2])
        return judge_effect(e, TWIN_EFFECT_IN_FORCE,
                            count[2] > 1
                                ? tw_printf("%.200s, in %zu processes", one[2]->value, count[2])
                                : tw_printf("%.200s", one[2]->value),
                            err);
    return one[3] ? judge_effect(e, TWIN_EFFECT_NOT_USED,
                                 tw_printf("%.200s", one[3]->value + strlen(starts[3]) + 1), err)
                  : 0;
}

/* A factor that the libc agent applies. A missing preload and the agent's faults weigh most, then
 * what the agent says of the factor; where it says nothing, either no process carried it, or
 * nothing asked for the factor. */
static int judge_libc(struct twin_world_effect *e, const struct tw_spec *spec,
                      const struct twin_run *run, const struct said *s, struct twin_error *err)
{
    size_t n = 0;
    const char *fault = fault_about(s, spec->factor.id, &n);
    if (spec->hot == TW_HOT_NEEDED && run->hot.asked && !run->hot.done)
        return judge_effect(
            e, TWIN_EFFECT_FAILED,
            tw_printf("%s", run->hot.why ? run->hot.why : "libtwinrun_hot.so is not preloaded"),
            err);
    if (fault)
        return judge_effect(e, TWIN_EFFECT_FAILED,
                            tw_printf("%.*s", (int)(n < 200 ? n : 200), fault), err);
    int rc = judge_lines(e, spec->factor.id, s, err);
    if (rc != 0 || e->text)
        return rc;
    if (s->armed == 0)
        return no_agent(e, s, TWIN_EFFECT_FAILED, "not in force", err);
    if (s->unarmed)
        return no_agent(e, s, TWIN_EFFECT_UNKNOWN, "no armed process asked for it", err);
    return judge_effect(e, TWIN_EFFECT_NOT_USED, tw_strdup("nothing asked for it"), err);
}

/* A factor that the Python agent applies. Where nothing is said of it, no process has used what it
 * acts on. */
static int judge_python(struct twin_world_effect *e, const struct twin_factor *f,
                        const struct said *s, struct twin_error *err)
{
    int rc = judge_lines(e, f->id, s, err);
    if (rc != 0 || e->text)
        return rc;
    if (!s->python && s->armed == 0)
        return no_agent(e, s, TWIN_EFFECT_FAILED, "not in force", err);
    if (!s->python)
        return judge_effect(e, TWIN_EFFECT_NOT_USED, tw_strdup("no Python process"), err);
    const char *needed = f->needs && strcmp(f->needs, "python") != 0 ? f->needs : "it";
    return judge_effect(e, TWIN_EFFECT_NOT_USED, tw_printf("no process used %s", needed), err);
}

/* A factor that the launcher applies: asked for, done, and still so where processes looked
 * (`key`). */
static int judge_held(struct twin_world_effect *e, const struct twin_run_hold *h, const char *key,
                      const char *expected, const struct said *s, struct twin_error *err)
{
    assert(strchr(key, '.'));
    if (!h->asked || !h->done)
        return judge_effect(e, TWIN_EFFECT_FAILED,
                            tw_strdup(h->why ? h->why : "the launcher was not asked for it"), err);
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->line[i].key, key) == 0 && strcmp(s->line[i].value, expected) != 0)
            return judge_effect(
                e, TWIN_EFFECT_FAILED,
                tw_printf("process %s has %s %.60s instead of %s: changed on the way",
                          s->line[i].pid, strchr(key, '.') + 1, s->line[i].value, expected),
                err);
    return judge_effect(e, TWIN_EFFECT_IN_FORCE, tw_printf("%s %s", strchr(key, '.') + 1, expected),
                        err);
}

/* Chooses by who applies the factor. A replaced argument needs no look: the launcher starts the
 * command with it. */
static int judge_setting(struct twin_world_effect *e, const struct twin_setting *setting,
                         const struct twin_run *run, const struct said *s, struct twin_error *err)
{
    const struct twin_factor *f = setting->factor;
    const struct tw_spec *spec = f->edits ? NULL : tw_spec_of(f);
    char expected[32];
    if (f->edits && f->edits->from)
        return judge_effect(
            e, TWIN_EFFECT_IN_FORCE,
            tw_printf("argument %s", setting->mode == TWIN_VARY ? f->edits->vary_to : f->edits->to),
            err);
    switch (tw_factor_channel(f)) {
    case TW_BY_LIBC: return judge_libc(e, spec, run, s, err);
    case TW_BY_PYTHON: return judge_python(e, f, s, err);
    case TW_BY_LAYOUT: return judge_held(e, &run->aslr, "held.layout", "fixed", s, err);
    case TW_BY_PROCESSOR:
        snprintf(expected, sizeof expected, "1 from %d", run->cpu);
        return judge_held(e, &run->affinity, "held.processors", expected, s, err);
    case TW_BY_RECORDING: /* whoever has the recorded run says it (search_order.c) */
        return judge_effect(e, TWIN_EFFECT_UNKNOWN, tw_strdup(""), err);
    case TW_BY_ENGINE: /* verified where the result was taken (src/trial/remote_end.c) */
        return judge_effect(e, run->node.engine ? TWIN_EFFECT_IN_FORCE : TWIN_EFFECT_FAILED,
                            run->node.engine ? tw_printf("on %s", run->node.name)
                                             : tw_strdup("no engine made the run"),
                            err);
    case TW_BY_ENVIRONMENT:
    case TW_BY_EDITS: break;
    case TW_BY_NOBODY:
        assert(f->unavailable);
        return judge_effect(e, TWIN_EFFECT_FAILED, tw_strdup(f->unavailable), err);
    }
    bool python_only = spec && spec->only_python_reads;
    if (python_only && !s->python && s->armed && !s->unarmed)
        return judge_effect(e, TWIN_EFFECT_NOT_USED, tw_strdup("no Python process"), err);
    int rc = judge_environment(e, setting, s, err);
    if (rc != 0)
        return rc;
    /* What the Python agent says weighs more than the variable, unless it only says that it had
     * nothing to do: OpenMP is not torch. A variable that is another one in some process may be the
     * job's own setting. */
    struct twin_world_effect spoken = {TWIN_EFFECT_UNKNOWN, NULL};
    rc = judge_lines(&spoken, f->id, s, err);
    const bool by_job = spoken.text && tw_starts(spoken.text, "overridden:");
    bool nothing_to_do = spoken.effect == TWIN_EFFECT_NOT_USED && !f->needs && !by_job;
    if (rc != 0 || !spoken.text || nothing_to_do ||
        (e->effect != TWIN_EFFECT_IN_FORCE && !by_job)) {
        tw_free(spoken.text);
        return rc;
    }
    tw_free(e->text);
    *e = spoken;
    return 0;
}

int twin_world_effects(const struct twin_world *w, const struct twin_run *run,
                       struct twin_world_effect **out, struct twin_error *err)
{
    struct said s;
    *out = tw_calloc(w->count + 1, sizeof **out);
    if (!*out)
        return tw_no_memory(err, "judging what a world did");
    int rc = read_said(&s, run, err);
    for (size_t i = 0; rc == 0 && i < w->count; i++)
        rc = judge_setting(&(*out)[i], &w->setting[i], run, &s, err);
    free_said(&s);
    if (rc != 0) {
        twin_world_effects_free(*out, w->count);
        *out = NULL;
    }
    return rc;
}

void twin_world_effects_free(struct twin_world_effect *e, size_t count)
{
    for (size_t i = 0; e && i < count; i++)
        tw_free(e[i].text);
    tw_free(e);
}
