/* SPDX-License-Identifier: Apache-2.0 */
/* What one trace shows of precision: the types of its records, autocast regions and gradient
 * scaling of its steps. */
#include "precision_inside.h"

#include "base.h"

#include "src/provenance/ends.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A trace with more series is damaged; steps beyond STEPS_MAX are not judged. NO_RULE: none is
 * about the series; NOT_ASKED: nobody has looked. */
enum { SERIES_MAX = 1 << 22, STEPS_MAX = 1 << 26, NO_RULE = -1, NOT_ASKED = -2 };

/* A floating-point type: what a precision policy is about. */
static bool is_float(unsigned dtype)
{
    return dtype == TWIN_F16 || dtype == TWIN_BF16 || dtype == TWIN_F32 || dtype == TWIN_F64 ||
           dtype == TWIN_C64 || dtype == TWIN_C128 || dtype == TWIN_F8_E4M3FN ||
           dtype == TWIN_F8_E5M2;
}

/* What is known of one series: the rule that is about it, and the breach that it has already (its
 * place from 1 on in the rule's list, 0: none), which counts further records. */
struct seen {
    int rule;
    size_t breach;
};

/* One trace that is walked for all rules at once. */
struct walk {
    const struct twin_precision_policy *p;
    struct twin_precision_verdict *v;
    struct twin_trace *t;
    struct twin_error *err;
    int32_t rank;
    struct seen *seen;
    size_t series;
    unsigned char *scaled;
    uint64_t steps; /* a bit for each finished step: its loss was scaled */
};

/* The rule that is about a series: the first whose pattern fits its name alone, or
 * "phase/kind/name". A policy reads from the particular to the general. */
static int rule_of(const struct walk *w, const struct twin_series *s)
{
    const char *name = twin_trace_string(w->t, s->name);
    char *full = tw_printf("%s/%s/%s", twin_phase_name((enum twin_phase)s->phase),
                           twin_kind_name((enum twin_kind)s->kind), name);
    int found = NO_RULE;
    for (size_t i = 0; full && found == NO_RULE && i < w->p->count; i++) {
        const struct tw_precision_rule *r = &w->p->rule[i];
        if (r->about == TW_ABOUT_DTYPES &&
            (!r->pattern || tw_glob(r->pattern, full) || tw_glob(r->pattern, name)))
            found = (int)i;
    }
    tw_free(full);
    return found;
}

/* The entry of a series. NULL: no memory, or a number that no writer gives. */
static struct seen *seen_of(struct walk *w, uint32_t series)
{
    if (series >= SERIES_MAX)
        return NULL;
    if (series >= w->series) {
        const size_t room = 2 * (size_t)series + 64;
        struct seen *grown = tw_reallocarray(w->seen, room, sizeof *grown);
        if (!grown)
            return NULL;
        for (size_t i = w->series; i < room; i++)
            grown[i] = (struct seen){NOT_ASKED, 0};
        w->seen = grown;
        w->series = room;
    }
    if (w->seen[series].rule == NOT_ASKED)
        w->seen[series].rule = rule_of(w, twin_trace_series(w->t, series));
    return &w->seen[series];
}

/* A record of a type that its rule does not allow. Records of one series with the same type are one
 * breach. */
static int tensor_breach(struct walk *w, struct seen *seen, const struct twin_trace_record *r,
                         const char *found)
{
    struct twin_precision_result *result = &w->v->result[seen->rule];
    const struct twin_series *s = twin_trace_series(w->t, r->series);
    if (seen->breach && strcmp(result->breach[seen->breach - 1].found, found) == 0) {
        result->breach[seen->breach - 1].times++;
        return 0;
    }
    struct twin_precision_breach b = {.rank = w->rank,
                                      .in_step = true,
                                      .step = r->step,
                                      .times = 1,
                                      .is_tensor = true,
                                      .phase = (enum twin_phase)s->phase,
                                      .kind = (enum twin_kind)s->kind,
                                      .name = tw_strdup(twin_trace_string(w->t, s->name)),
                                      .scope = tw_strdup(twin_trace_string(w->t, s->scope)),
                                      .op = tw_strdup(twin_trace_string(w->t, s->op)),
                                      .site = tw_strdup(twin_trace_string(w->t, s->site)),
                                      .found = tw_strdup(found)};
    const size_t before = result->breaches;
    int rc = tw_precision_add(result, &b, w->err);
    if (rc == 0 && result->breaches > before)
        seen->breach = result->breaches;
    return rc;
}

/* Called for each record. */
static int see(void *user, const struct twin_trace_record *r)
{
    struct walk *w = user;
    const struct twin_series *s = twin_trace_series(w->t, r->series);
    if (s->kind == TWIN_KIND_HYPER && r->step < w->steps &&
        strcmp(twin_trace_string(w->t, s->name), "loss scale") == 0)
        w->scaled[r->step / 8] |= (unsigned char)(1u << r->step % 8);
    const unsigned dtype = twin_trace_layout(w->t, r->layout)->dtype;
    /* these are numbers of the program, not tensors */
    if (!is_float(dtype) || s->kind == TWIN_KIND_HYPER)
        return 0;
    struct seen *seen = seen_of(w, r->series);
    if (!seen)
        return tw_no_memory(w->err, "for what a trace shows");
    if (seen->rule < 0)
        return 0;
    w->v->result[seen->rule].judged++;
    return w->p->rule[seen->rule].dtypes & 1u << dtype
               ? 0
               : tensor_breach(w, seen, r, twin_dtype_name((enum twin_dtype)dtype));
}

/* ---- steps */

/* A breach in `times` steps, of which `first` is the first. */
static int step_breach(struct walk *w, size_t rule, uint32_t first, uint64_t times,
                       const char *name, const char *found)
{
    assert(rule < w->p->count && times > 0);
    struct twin_precision_breach b = {.rank = w->rank,
                                      .in_step = true,
                                      .step = first,
                                      .times = times,
                                      .name = tw_strdup(name),
                                      .scope = tw_strdup(""),
                                      .op = tw_strdup(""),
                                      .site = tw_strdup(""),
                                      .found = tw_strdup(found)};
    return tw_precision_add(&w->v->result[rule], &b, w->err);
}

/* Makes a rule unknown. The first reason stays. */
static void set_unknown(struct walk *w, size_t rule, const char *why)
{
    assert(rule < w->p->count);
    struct twin_precision_result *r = &w->v->result[rule];
    r->outcome = TWIN_PRECISION_UNKNOWN;
    if (!*r->why) {
        tw_free(r->why);
        r->why = tw_printf("rank %d: %s", (int)w->rank, why);
    }
}

/* Judges each finished step by whether its loss was scaled. */
static int judge_scaler(struct walk *w, size_t rule)
{
    assert(rule < w->p->count);
    const bool required = w->p->rule[rule].required;
    uint64_t times = 0;
    uint32_t first = 0;
    /* without that, not having seen it means nothing */
    if (!tw_is_watched(w->t, "gradient scaler")) {
        set_unknown(w, rule, "nothing looked for a gradient scaler");
        return 0;
    }
    for (uint64_t i = 0; i < w->steps; i++) {
        const bool scaled = w->scaled[i / 8] >> i % 8 & 1;
        if (scaled == required)
            continue;
        first = times++ ? first : (uint32_t)i;
    }
    w->v->result[rule].judged += w->steps;
    if (times == 0)
        return 0;
    return step_breach(w, rule, first, times, "loss", required ? "not scaled" : "scaled");
}

/* Every region of a state ("cpu bfloat16, cuda float16", or "off") must be allowed. */
static bool state_allowed(const struct tw_precision_rule *r, const char *state)
{
    char *copy = tw_strdup(state), *rest = copy, *one;
    bool ok = copy != NULL;
    while (ok && (one = strsep(&rest, ","))) {
        const char *space = strrchr(one, ' ');
        ok = tw_precision_allows(r, space ? space + 1 : one);
    }
    tw_free(copy);
    return ok;
}

/* Judges the autocast regions. The agent notes their state when it changes, so a note holds from
 * its step until the next one; the last one until the end. */
static int judge_autocast(struct walk *w, size_t rule)
{
    const char *key, *value, *state = NULL;
    unsigned long long from = 0, next;
    int rc = 0, at = 0;
    bool any = false;
    for (size_t i = 0; rc == 0; i++) {
        const bool more = twin_trace_note(w->t, i, &key, &value);
        if (more && (strcmp(key, "autocast") != 0 ||
                     sscanf(value, "step %llu: %n", &next, &at) != 1 || at == 0))
            continue;
        if (!more)
            next = w->steps;
        if (state && next > from) {
            const uint64_t steps = (next < w->steps ? next : w->steps) -
                                   (from < w->steps ? from : w->steps);
            w->v->result[rule].judged += steps;
            any |= steps > 0;
            if (strcmp(state, "unknown") == 0)
                set_unknown(w, rule, "autocast regions changed too often to be noted");
            else if (steps && !state_allowed(&w->p->rule[rule], state))
                rc = step_breach(w, rule, (uint32_t)from, steps, "autocast", state);
        }
        if (!more)
            break;
        from = next;
        state = value + at;
        at = 0;
    }
    if (rc == 0 && !any)
        set_unknown(w, rule, "nothing looked for autocast regions");
    return rc;
}

static int judge_steps(struct walk *w)
{
    int rc = 0;
    for (size_t i = 0; i < w->p->count && rc == 0; i++) {
        if (w->p->rule[i].about == TW_ABOUT_SCALER)
            rc = judge_scaler(w, i);
        else if (w->p->rule[i].about == TW_ABOUT_AUTOCAST)
            rc = judge_autocast(w, i);
    }
    return rc;
}

/* A trace that cannot be read becomes a note, which keeps the whole from being "kept". */
static int unreadable(struct twin_precision_verdict *v, const char *path,
                      const struct twin_error *why, struct twin_error *err)
{
    char **grown = tw_reallocarray(v->note, v->notes + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(err, "for what a trace shows");
    v->note = grown;
    grown[v->notes] = tw_printf("%s: %s", path, why->message);
    return grown[v->notes] ? (v->notes++, 0) : tw_no_memory(err, "for what a trace shows");
}

/* Lost records may have broken a rule: then it cannot be kept. */
int tw_precision_trace(const struct twin_precision_policy *p, const char *path,
                       struct twin_precision_verdict *v, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct walk w = {.p = p, .v = v, .err = err};
    int rc = twin_trace_open(path, &w.t, &why);
    if (rc == 0)
        rc = twin_trace_definitions(w.t, &why);
    if (rc != 0) {
        twin_trace_close(w.t);
        return rc == TWIN_ENOMEM ? tw_no_memory(err, "for what a trace shows")
                                 : unreadable(v, path, &why, err);
    }
    const struct twin_trace_info *info = twin_trace_info(w.t);
    if (strcmp(info->role, "main") != 0) {
        twin_trace_close(w.t);
        return 0;
    }
    w.rank = info->rank;
    w.steps = info->steps < STEPS_MAX ? info->steps : STEPS_MAX;
    w.scaled = tw_calloc((size_t)(w.steps / 8 + 1), 1);
    rc = w.scaled ? 0 : tw_no_memory(err, "for what a trace shows");
    if (rc == 0 && (rc = twin_trace_walk(w.t, see, NULL, &w, &why)) != 0 && rc != TWIN_ENOMEM)
        rc = unreadable(v, path, &why, err);
    rc = rc ? rc : judge_steps(&w);
    for (size_t i = 0; rc == 0 && info->dropped + info->lost > 0 && i < p->count; i++)
        if (p->rule[i].about == TW_ABOUT_DTYPES)
            set_unknown(&w, i, "records were lost, and what they would have shown is not known");
    tw_free(w.seen);
    tw_free(w.scaled);
    twin_trace_close(w.t);
    return rc;
}
