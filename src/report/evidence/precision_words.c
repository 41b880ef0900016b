/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a run kept to a precision policy, in words and as JSON: a line for each rule, the first
 * breaches of a broken one with the place where they were seen, and the configuration of the run.
 * "Unknown" is said where nothing was seen that the rule speaks of, as that is not "kept". */
#include "precision_words.h"

#include "base.h"
#include "configuration.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include <string.h>

/* Breaches of a rule in the text. */
enum { SHOWN = 5 };

/* Bytes of a job's making, as a terminal may have them. */
static void put_safe(struct tw_buf *b, const char *format, const char *text)
{
    char *safe = tw_printable(text, strlen(text));
    tw_buf_printf(b, format, safe ? safe : "?"); /* format: of this file, with one %s */
    tw_free(safe);
}

/* Where a rule was broken, what was found there, and the operation and line, where they are
 * known. */
static void put_breach(struct tw_buf *b, const struct twin_precision_breach *x)
{
    char count[32];
    tw_buf_puts(b, "          ");
    if (x->in_step)
        tw_buf_printf(b, "step %u · ", x->step);
    tw_buf_printf(b, "rank %d · ", (int)x->rank);
    if (x->is_tensor)
        tw_buf_printf(b, "%s · %s of ", twin_phase_name(x->phase), twin_kind_name(x->kind));
    if (x->is_tensor && *x->scope)
        put_safe(b, "%s.", x->scope);
    put_safe(b, "%s: ", x->name);
    put_safe(b, "%s", x->found);
    if (x->is_tensor)
        tw_buf_printf(b, ", %s record%s", tw_human_count(x->times, count), tw_plural_s(x->times));
    else if (x->in_step)
        tw_buf_printf(b, ", %s step%s", tw_human_count(x->times, count), tw_plural_s(x->times));
    tw_buf_puts(b, "\n");
    char *line = tw_strndup(x->site, strcspn(x->site, "\n"));
    if (*x->op || (line && *line)) {
        tw_buf_puts(b, "             ");
        put_safe(b, " op %s ", *x->op ? x->op : "not known");
        put_safe(b, " %s", line ? line : "");
        tw_buf_puts(b, "\n");
    }
    tw_free(line);
}

int tw_precision_text(FILE *out, const struct twin_precision_verdict *v, const char *policy,
                      const struct twin_run *run)
{
    static const char *const heads[] = {"KEPT    ", "BROKEN  ", "UNKNOWN ", "UNKNOWN "};
    static const char *const words[] = {"kept   ", "BROKEN ", "unknown", "idle   "};
    struct tw_buf b = {0};
    size_t broken = 0, unknown = 0;
    for (size_t i = 0; i < v->count; i++) {
        broken += v->result[i].outcome == TWIN_PRECISION_BROKEN;
        unknown += v->result[i].outcome == TWIN_PRECISION_UNKNOWN;
    }
    tw_buf_puts(&b, heads[v->outcome]);
    put_safe(&b, "%s: ", policy);
    if (broken)
        tw_buf_printf(&b, "%zu of %zu rules broken", broken, v->count);
    else
        tw_buf_printf(&b, "%zu rule%s, none seen broken", v->count, tw_plural_s(v->count));
    if (unknown)
        tw_buf_printf(&b, ", %zu not known to be kept", unknown);
    tw_buf_printf(&b, ", in %s\n", tw_base_name(run->dir));
    for (size_t i = 0; i < v->count; i++) {
        const struct twin_precision_result *r = &v->result[i];
        tw_buf_printf(&b, "%s line %zu  ", words[r->outcome], r->line);
        put_safe(&b, "%s", r->rule);
        if (*r->reason)
            put_safe(&b, "  (%s)", r->reason);
        tw_buf_printf(&b, "\n          %s%s", r->why,
                      r->outcome == TWIN_PRECISION_BROKEN ? "" : "\n");
        if (r->outcome == TWIN_PRECISION_BROKEN)
            tw_buf_printf(&b, ", %zu breach%s\n", r->broken, r->broken == 1 ? "" : "es");
        for (size_t k = 0; k < r->breaches && k < SHOWN; k++)
            put_breach(&b, &r->breach[k]);
        if (r->broken > SHOWN)
            tw_buf_printf(&b, "          and %zu more (--json lists them)\n", r->broken - SHOWN);
    }
    for (size_t i = 0; i < v->notes; i++)
        put_safe(&b, "note     %s\n", v->note[i]);
    char *configuration = tw_configuration(run), *text = tw_buf_steal(&b);
    if (text && configuration) {
        tw_put_lines(out, text);
        tw_put_to(out, "run      %s\n", configuration);
    }
    int rc = text && configuration ? 0 : TWIN_ENOMEM;
    tw_free(configuration);
    tw_free(text);
    return rc;
}

/* The same as an object. */
static json_t *breach_json(const struct twin_precision_breach *x)
{
    return json_pack(
        "{s:i, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rank", (int)x->rank, "step",
        x->in_step ? json_integer(x->step) : json_null(), "times", (json_int_t)x->times, "phase",
        x->is_tensor ? json_string(twin_phase_name(x->phase)) : json_null(), "kind",
        x->is_tensor ? json_string(twin_kind_name(x->kind)) : json_null(), "name",
        tw_json_text(x->name), "scope", tw_json_text(x->scope), "op", tw_json_text(x->op), "source",
        tw_json_text(x->site), "found", tw_json_text(x->found));
}

json_t *tw_precision_json(const struct twin_precision_verdict *v, const char *policy,
                          const struct twin_run *run)
{
    static const char *const outcomes[] = {"same", "differ", "inconclusive", "inconclusive"};
    json_t *rules = json_array();
    for (size_t i = 0; i < v->count; i++) {
        const struct twin_precision_result *r = &v->result[i];
        json_t *breaches = json_array();
        for (size_t k = 0; k < r->breaches; k++)
            json_array_append_new(breaches, breach_json(&r->breach[k]));
        json_array_append_new(
            rules, json_pack("{s:I, s:o, s:o, s:s, s:o, s:I, s:I, s:o}", "line",
                             (json_int_t)r->line, "rule", tw_json_text(r->rule), "reason",
                             tw_json_text(r->reason), "outcome", twin_precision_name(r->outcome),
                             "why", tw_json_text(r->why), "judged", (json_int_t)r->judged, "broken",
                             (json_int_t)r->broken, "breaches", breaches));
    }
    char *configuration = tw_configuration(run);
    json_t *j = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "schema", "twinrun.verify/1",
                          "kind", "precision", "outcome", outcomes[v->outcome], "target",
                          tw_json_text(run->dir), "policy", tw_json_text(policy), "rules", rules,
                          "notes", tw_json_texts(v->note, v->notes), "configuration",
                          tw_json_text(configuration));
    tw_free(configuration);
    return j;
}
