/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a world means for a launch: variables, words for the agents in the job, and what the
 * launcher itself does (src/isolate/isolate.h: struct twin_world_plan). Called for each run of a
 * search and for each command that sets factors, before the launch; twin_world_plan_apply then
 * hands the plan to the launcher.
 *
 * TWINRUN_FACTORS tells the libc agent what to hold or shake, TWINRUN_PINS the Python agent, each
 * as "ID=pin", "ID=pin:VALUE" or "ID=vary:SEED", with commas. TWINRUN_HELD names the variables that
 * were set, so that the agents can say what arrived (effects.c).
 */
#include "internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- processor */

/* A processor that we may not run on is replaced by the first one that we may. */
int tw_factor_processor(const struct twin_setting *s)
{
    cpu_set_t may;
    if (sched_getaffinity(0, sizeof may, &may) != 0 || s->seed >= CPU_SETSIZE ||
        CPU_ISSET((size_t)s->seed, &may))
        return s->seed < CPU_SETSIZE ? (int)s->seed : 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &may))
            return cpu;
    return 0;
}

/* ---- variables */

uint64_t tw_threads_number(const struct twin_setting *s)
{
    if (s->mode == TWIN_VARY)
        return 1 + (s->seed + 1) % 4; /* seed 0: two, which is not what the pin has */
    return s->seed ? s->seed : 1;
}

/* Channels of NCCL. A variation by seed 0 has another number than the pin. */
uint64_t tw_channels_number(const struct twin_setting *s)
{
    static const uint64_t several[] = {4, 8, 1, 2};
    if (s->mode == TWIN_VARY)
        return several[s->seed % 4];
    return s->seed ? s->seed : 2;
}

/* 1: oneDNN's kernels are taken. A variation by seed 0 has what the pin has not. */
uint64_t tw_onednn_number(const struct twin_setting *s)
{
    return s->mode == TWIN_VARY ? (s->seed + 1) % 2 : s->seed;
}

/* The value of PYTHONHASHSEED. Its 0 means "no salt at all", which the pin has, so variations stay
 * away from it. */
uint64_t tw_salt_number(const struct twin_setting *s)
{
    enum { SALTS = 4294967295u };
    return s->mode == TWIN_VARY ? 1 + s->seed % SALTS : s->seed % ((uint64_t)SALTS + 1);
}

/* A list that grows until something fails; then `rc` is the first error, and what follows is
 * dropped. */
struct list {
    char ***v;
    size_t *n;
    struct twin_error *err;
    int rc;
};

static void add_text(struct list *l, char *text)
{
    if (l->rc == 0)
        l->rc = tw_list_add(l->v, l->n, text, l->err);
    else
        tw_free(text);
}

int tw_factor_environment(const struct twin_setting *s, char ***list, size_t *count,
                          struct twin_error *err)
{
    const struct twin_factor *f = s->factor;
    const struct tw_spec *spec = f->edits ? NULL : tw_spec_of(f);
    struct list l = {list, count, err, 0};
    if (f->edits) {
        char **entries = s->mode == TWIN_VARY ? f->edits->vary_env : f->edits->env;
        for (size_t i = 0; entries && entries[i]; i++)
            add_text(&l, tw_strdup(entries[i]));
    }
    for (size_t i = 0; spec && spec->number_in[i]; i++)
        add_text(&l, tw_printf("%s=%llu", spec->number_in[i], (unsigned long long)spec->number(s)));
    if (spec && spec->variables && l.rc == 0)
        l.rc = spec->variables(s, list, count, err);
    /* Shaken, these are the Python agent's to choose. */
    for (size_t i = 0; spec && s->mode == TWIN_PIN && spec->pinned_by[i]; i++)
        add_text(&l, tw_strdup(spec->pinned_by[i]));
    return l.rc;
}

/* ---- agents */

/* Adds an item, with a comma before all but the first. */
static void append_item(struct tw_buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append_item(struct tw_buf *b, const char *format, ...)
{
    va_list ap;
    if (b->len)
        tw_buf_puts(b, ",");
    va_start(ap, format);
    tw_buf_vprintf(b, format, ap);
    va_end(ap);
}

/* The agent is always told the value itself: a row's `initial` where the setting has the
 * default. */
static void add_libc(struct tw_buf *b, const struct tw_spec *spec, const struct twin_setting *s)
{
    const char *id = spec->factor.id;
    uint64_t value = s->seed ? s->seed : spec->initial;
    if (s->mode == TWIN_VARY)
        append_item(b, "%s=vary:%llu", id, (unsigned long long)s->seed);
    else if (spec->valued)
        append_item(b, "%s=pin:%llu", id, (unsigned long long)value);
    else
        append_item(b, "%s=pin", id);
}

/* As add_libc; the default 0 is the Python agent's to interpret. */
static void add_python(struct tw_buf *b, const struct tw_spec *spec, const struct twin_setting *s)
{
    const char *id = spec->factor.id;
    if (spec->number) /* the number that the variables have, whether pinned or drawn */
        append_item(b, "%s=pin:%llu", id, (unsigned long long)spec->number(s));
    else if (s->mode == TWIN_VARY)
        append_item(b, "%s=vary:%llu", id, (unsigned long long)s->seed);
    else if (spec->valued)
        append_item(b, "%s=pin:%llu", id, (unsigned long long)s->seed);
    else
        append_item(b, "%s=pin", id);
}

/* ---- arguments */

/* Replaces the first argument that is equal to the factor's `from`. The plan's copy of the command
 * is made by the first factor that needs one, and later factors change that copy. */
static int edit_arguments(const struct twin_setting *s, struct twin_world_plan *out,
                          char *const *argv, struct twin_error *err)
{
    const struct tw_factor_edits *e = s->factor->edits;
    const char *from = s->mode == TWIN_VARY ? e->vary_from : e->from;
    const char *to = s->mode == TWIN_VARY ? e->vary_to : e->to;
    size_t count = 0;
    if (!from)
        return 0;
    bool copied = out->argv != NULL; /* a factor before this one has made the copy */
    for (size_t i = 0; !copied && argv[i]; i++) {
        int rc = tw_list_add(&out->argv, &count, tw_strdup(argv[i]), err);
        if (rc != 0)
            return rc;
    }
    for (size_t i = 0; out->argv && out->argv[i]; i++)
        if (strcmp(out->argv[i], from) == 0) {
            char *copy = tw_strdup(to);
            if (!copy)
                return tw_no_memory(err, "planning a world");
            tw_free(out->argv[i]);
            out->argv[i] = copy;
            return 0;
        }
    return twin_error_set(err, TWIN_EINVAL, "%s: the command has no argument \"%s\" to replace",
                          s->factor->id, from);
}

/* ---- all of it */

/* Adds one setting to the plan, wherever its channel is. */
static int plan_setting(const struct twin_setting *s, char *const *argv,
                        struct twin_world_plan *out, struct tw_buf *libc, struct tw_buf *python,
                        struct twin_error *err)
{
    const struct tw_spec *spec = s->factor->edits ? NULL : tw_spec_of(s->factor);
    if (s->mode == TWIN_FREE)
        return 0;
    if (s->factor->unavailable || (!spec && !s->factor->edits))
        return twin_error_set(err, TWIN_EUNSUPPORTED, "%s cannot be set: %s", s->factor->id,
                              s->factor->unavailable ? s->factor->unavailable
                                                     : "nothing applies it");
    int rc = tw_factor_environment(s, &out->env, &out->env_count, err);
    if (rc == 0 && s->factor->edits)
        rc = edit_arguments(s, out, argv, err);
    if (rc != 0 || !spec)
        return rc;
    if (spec->channel == TW_BY_LIBC)
        add_libc(libc, spec, s);
    if (spec->channel == TW_BY_PYTHON || spec->python_too)
        add_python(python, spec, s);
    out->hot |= spec->hot != TW_HOT_UNUSED;
    out->no_aslr |= spec->channel == TW_BY_LAYOUT;
    if (spec->channel == TW_BY_PROCESSOR)
        out->cpu = tw_factor_processor(s);
    return 0;
}

/* "TWINRUN_HELD=NAME,NAME": which variables were set. malloc'ed; NULL when there is no memory. */
static char *held_names(const struct twin_world_plan *plan)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "TWINRUN_HELD=");
    for (size_t i = 0; i < plan->env_count; i++)
        tw_buf_printf(&b, "%s%.*s", i ? "," : "", (int)strcspn(plan->env[i], "="), plan->env[i]);
    return tw_buf_steal(&b);
}

/* Adds what the agents are told, behind the variables, which held_names has to see first. */
static int add_agents(struct twin_world_plan *out, struct tw_buf *libc, struct tw_buf *python,
                      struct twin_error *err)
{
    int rc = tw_list_add(&out->env, &out->env_count, held_names(out), err);
    if (rc == 0 && libc->len)
        rc = tw_list_add(&out->env, &out->env_count, tw_printf("TWINRUN_FACTORS=%s", libc->data),
                         err);
    if (rc == 0 && python->len)
        rc = tw_list_add(&out->env, &out->env_count, tw_printf("TWINRUN_PINS=%s", python->data),
                         err);
    if (rc == 0 && (libc->failed || python->failed))
        rc = tw_no_memory(err, "planning a world");
    return rc;
}

int twin_world_plan(const struct twin_world *w, char *const *argv, struct twin_world_plan *out,
                    struct twin_error *err)
{
    struct tw_buf libc = {0}, python = {0};
    int rc = 0;
    *out = (struct twin_world_plan){.cpu = -1};
    for (size_t i = 0; rc == 0 && i < w->count; i++)
        rc = plan_setting(&w->setting[i], argv, out, &libc, &python, err);
    if (rc == 0 && w->count)
        rc = add_agents(out, &libc, &python, err);
    tw_buf_free(&libc);
    tw_buf_free(&python);
    if (rc != 0)
        twin_world_plan_free(out);
    return rc;
}

int twin_world_plan_watch(struct twin_world_plan *p, struct twin_error *err)
{
    return tw_list_add(&p->env, &p->env_count, tw_strdup("TWINRUN_WATCH=1"), err);
}

/* The clock is one more factor of the libc agent, so it joins the list that is there. */
int twin_world_plan_faster(struct twin_world_plan *p, unsigned factor, uint64_t second,
                           struct twin_error *err)
{
    static const char name[] = "TWINRUN_FACTORS=";
    char **mine = NULL;
    for (size_t i = 0; i < p->env_count; i++)
        mine = tw_starts(p->env[i], name) ? &p->env[i] : mine;
    if (mine && strstr(*mine, "clock="))
        return twin_error_set(err, TWIN_EINVAL,
                              "expected a world in which the clock is free, found %s", *mine);
    char *text = tw_printf("%s%sclock=scale:%u:%llu", mine ? *mine : name, mine ? "," : "", factor,
                           (unsigned long long)second);
    if (!text)
        return tw_no_memory(err, "planning a world");
    if (!mine)
        return tw_list_add(&p->env, &p->env_count, text, err);
    tw_free(*mine);
    *mine = text;
    return 0;
}

int twin_world_plan_variable(struct twin_world_plan *p, char *text, struct twin_error *err)
{
    return tw_list_add(&p->env, &p->env_count, text, err);
}

/* The salt is drawn from the real system, and is never 0, which would switch it off. */
int twin_world_plan_apart(struct twin_world_plan *p, const struct twin_world *w,
                          struct twin_error *err)
{
    uint32_t salt;
    if (!twin_world_sets(w, "entropy") || twin_world_sets(w, "hash-seed") ||
        getenv("PYTHONHASHSEED"))
        return 0;
    if (getrandom(&salt, sizeof salt, 0) != sizeof salt)
        return twin_error_system(err, "no random bytes for a hash salt");
    return tw_list_add(&p->env, &p->env_count,
                       tw_printf("PYTHONHASHSEED=%u", (unsigned)(salt ? salt : 1)), err);
}

void twin_world_plan_apply(const struct twin_world_plan *p, struct twin_launch_options *o)
{
    o->env = p->env;
    o->no_aslr = p->no_aslr;
    o->on_cpu = p->cpu >= 0;
    o->cpu = p->cpu;
    o->hot = p->hot;
    if (p->argv)
        o->argv = p->argv;
}

void twin_world_plan_free(struct twin_world_plan *p)
{
    tw_list_free(p->env);
    tw_list_free(p->argv);
    *p = (struct twin_world_plan){.cpu = -1};
}
