/* SPDX-License-Identifier: Apache-2.0 */
/* A precision policy held against a run. Each rule has a result that begins as kept with nothing
 * judged; traces and settings add what they show, and settle_rule() says what that makes of it:
 * what was never seen is unknown, one breach breaks it. */
#include "precision_inside.h"

#include "base.h"

#include "src/provenance/provenance.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* So many breaches of a rule are kept; all are counted. */
enum { BREACHES_MAX = 1000 };

const char *twin_precision_name(enum twin_precision_outcome o)
{
    assert((unsigned)o <= TWIN_PRECISION_IDLE);
    static const char *const names[] = {"kept", "broken", "unknown", "not applicable"};
    return names[o];
}

static void free_breach(struct twin_precision_breach *b)
{
    tw_free(b->name);
    tw_free(b->scope);
    tw_free(b->op);
    tw_free(b->site);
    tw_free(b->found);
}

/* A breach of which a text could not be made is counted and is an error, so that no result lacks it
 * silently. */
int tw_precision_add(struct twin_precision_result *r, struct twin_precision_breach *b,
                     struct twin_error *err)
{
    const bool whole = b->name && b->scope && b->op && b->site && b->found;
    r->broken++;
    struct twin_precision_breach *grown = whole && r->breaches < BREACHES_MAX
                                              ? tw_reallocarray(r->breach, r->breaches + 1,
                                                                sizeof *grown)
                                              : NULL;
    if (!grown) {
        free_breach(b);
        return whole && r->breaches >= BREACHES_MAX
                   ? 0
                   : tw_no_memory(err, "judging the precision of a run");
    }
    r->breach = grown;
    grown[r->breaches++] = *b;
    return 0;
}

/* ---- switches */

/* "torch.float32" -> "float32", "True" -> "on". */
static const char *plain_value(const char *value)
{
    if (strcmp(value, "True") == 0)
        return "on";
    if (strcmp(value, "False") == 0)
        return "off";
    return tw_starts(value, "torch.") ? value + strlen("torch.") : value;
}

/* Notes a breach when the rule does not allow this value of a switch. when: " at the end", or
 * "". */
static int judge_value(const struct tw_precision_rule *rule, struct twin_precision_result *out,
                       int32_t rank, const char *setting, const char *value, const char *when,
                       struct twin_error *err)
{
    if (tw_precision_allows(rule, plain_value(value)))
        return 0;
    struct twin_precision_breach b = {.rank = rank,
                                      .times = 1,
                                      .name = tw_strdup(setting),
                                      .scope = tw_strdup(""),
                                      .op = tw_strdup(""),
                                      .site = tw_strdup(""),
                                      .found = tw_printf("%s%s", value, when)};
    return tw_precision_add(out, &b, err);
}

/* Judges one rank's switches. Both ends of the process count: what was set between them and set
 * back is not seen. *idle: PyTorch was there and used no device, so switches of CUDA did
 * nothing. */
static int judge_rank(const struct tw_precision_rule *rule, const json_t *rank,
                      struct twin_precision_result *out, bool *idle, struct twin_error *err)
{
    const struct tw_precision_switch *s = tw_precision_switch(rule->key);
    const json_t *now = json_object_get(rank, "settings");
    const json_t *then = json_object_get(rank, "settings_at_start");
    const int32_t number = (int32_t)json_integer_value(json_object_get(rank, "rank"));
    int rc = 0;
    if (s->cuda_only && !json_object_get(rank, "device") &&
        json_object_get(json_object_get(rank, "versions"), "torch")) {
        *idle = true;
        return 0;
    }
    for (size_t i = 0; rc == 0 && i < 3 && s->setting[i]; i++) {
        const char *value = json_string_value(json_object_get(now, s->setting[i]));
        const char *before = json_string_value(json_object_get(then, s->setting[i]));
        if (!value || strcmp(value, "?") == 0) {
            out->outcome = TWIN_PRECISION_UNKNOWN;
            if (!*out->why) {
                tw_free(out->why);
                out->why = tw_printf("rank %d does not say %s", (int)number, s->setting[i]);
            }
            continue;
        }
        out->judged++;
        rc = judge_value(rule, out, number, s->setting[i], value, before ? " at the end" : "", err);
        if (rc == 0 && before)
            rc = judge_value(rule, out, number, s->setting[i], before, " at the start", err);
    }
    return rc;
}

/* Rules about switches, by the record of the run. Without a record nothing is judged, which makes
 * them unknown. */
static int judge_settings(const struct twin_precision_policy *p, const struct twin_run *run,
                          struct twin_precision_verdict *v, struct twin_error *err)
{
    json_t *provenance = NULL, *rank;
    int rc = 0;
    twin_provenance_load(run->dir, &provenance, NULL);
    for (size_t i = 0; i < p->count && rc == 0; i++) {
        size_t k;
        bool idle = false;
        if (p->rule[i].about != TW_ABOUT_SETTING)
            continue;
        json_array_foreach (json_object_get(provenance, "ranks"), k, rank)
            if (rc == 0)
                rc = judge_rank(&p->rule[i], rank, &v->result[i], &idle, err);
        if (idle && v->result[i].judged == 0 && v->result[i].outcome == TWIN_PRECISION_KEPT) {
            v->result[i].outcome = TWIN_PRECISION_IDLE;
            tw_free(v->result[i].why);
            v->result[i].why = tw_strdup(
                "no rank used a CUDA device, and these switches change nothing elsewhere");
        }
    }
    json_decref(provenance);
    return rc;
}

/* ---- the verdict */

/* The rule as a person would say it: "*: f32 or bf16", "tf32 off". malloc'ed; NULL: no memory. */
static char *words_of(const struct tw_precision_rule *r)
{
    struct tw_buf b = {0};
    const bool dtypes = r->about == TW_ABOUT_DTYPES;
    const char *subject = dtypes ? "*" : r->key;
    tw_buf_puts(&b, r->pattern ? r->pattern : subject);
    tw_buf_puts(&b, dtypes ? ":" : "");
    for (size_t i = 0; i < r->allowed_count; i++)
        tw_buf_printf(&b, "%s %s", i ? " or" : "", r->allowed[i]);
    return tw_buf_steal(&b);
}

static int by_place(const void *a, const void *b)
{
    const struct twin_precision_breach *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Says what is to be said of a rule when all was looked at. A reason that somebody gave before
 * stays, unless the rule is broken. */
static void settle_rule(const struct tw_precision_rule *rule, struct twin_precision_result *r)
{
    static const char *const things[] = {"", "records", "steps", "steps", "settings"};
    if (r->breaches > 1)
        qsort(r->breach, r->breaches, sizeof *r->breach, by_place);
    if (r->outcome == TWIN_PRECISION_KEPT && r->judged == 0 && r->broken == 0)
        r->outcome = TWIN_PRECISION_UNKNOWN;
    if (r->broken)
        r->outcome = TWIN_PRECISION_BROKEN;
    if (r->why && *r->why && r->outcome != TWIN_PRECISION_BROKEN)
        return;
    tw_free(r->why);
    r->why = r->outcome == TWIN_PRECISION_UNKNOWN
                 ? tw_printf("no %s that it speaks of were seen", things[rule->about])
                 : tw_printf("%llu %s judged", (unsigned long long)r->judged, things[rule->about]);
}

/* The whole is broken when a rule is; it is kept only when at least one was and none is unknown. */
int twin_precision_check(const struct twin_precision_policy *p, const struct twin_run *run,
                         struct twin_precision_verdict *v, struct twin_error *err)
{
    *v = (struct twin_precision_verdict){.result = tw_calloc(p->count, sizeof *v->result)};
    int rc = v->result ? 0 : tw_no_memory(err, "judging the precision of a run");
    for (size_t i = 0; rc == 0 && i < p->count; i++) {
        struct twin_precision_result *r = &v->result[v->count++];
        *r = (struct twin_precision_result){
            .line = p->rule[i].line,
            .rule = words_of(&p->rule[i]),
            .reason = tw_strdup(p->rule[i].reason ? p->rule[i].reason : ""),
            .why = tw_strdup("")};
        rc = r->rule && r->reason && r->why ? 0
                                            : tw_no_memory(err, "judging the precision of a run");
    }
    for (size_t i = 0; rc == 0 && i < run->trace_count; i++)
        rc = tw_precision_trace(p, run->traces[i], v, err);
    rc = rc ? rc : judge_settings(p, run, v, err);
    bool broken = false, unknown = v->notes > 0, kept = false;
    for (size_t i = 0; rc == 0 && i < v->count; i++) {
        settle_rule(&p->rule[i], &v->result[i]);
        broken |= v->result[i].outcome == TWIN_PRECISION_BROKEN;
        unknown |= v->result[i].outcome == TWIN_PRECISION_UNKNOWN;
        kept |= v->result[i].outcome == TWIN_PRECISION_KEPT;
        rc = v->result[i].why ? 0 : tw_no_memory(err, "judging the precision of a run");
    }
    if (broken)
        v->outcome = TWIN_PRECISION_BROKEN;
    else
        v->outcome = unknown || !kept ? TWIN_PRECISION_UNKNOWN : TWIN_PRECISION_KEPT;
    if (rc != 0)
        twin_precision_verdict_free(v);
    return rc;
}

void twin_precision_verdict_free(struct twin_precision_verdict *v)
{
    for (size_t i = 0; i < v->count; i++) {
        for (size_t k = 0; k < v->result[i].breaches; k++)
            free_breach(&v->result[i].breach[k]);
        tw_free(v->result[i].breach);
        tw_free(v->result[i].rule);
        tw_free(v->result[i].reason);
        tw_free(v->result[i].why);
    }
    for (size_t i = 0; i < v->notes; i++)
        tw_free(v->note[i]);
    tw_free(v->result);
    tw_free(v->note);
    *v = (struct twin_precision_verdict){0};
}
