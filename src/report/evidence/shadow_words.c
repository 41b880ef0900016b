/* SPDX-License-Identifier: Apache-2.0 */
/* Shadow runs in words: a line for each run that was drawn and had no answer yet, and the sums. */
#include "shadow_words.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

/* How an outcome is called in a line and in the sum; a run that waits is counted, and its line says
 * why. */
static const char *const words[] = {
    [TW_SHADOW_SAME] = "same",           [TW_SHADOW_DIVERGED] = "DIVERGED",
    [TW_SHADOW_NOT_KNOWN] = "not known", [TW_SHADOW_NOT_REPEATED] = "not repeated",
    [TW_SHADOW_FAILED] = "failed",       [TW_SHADOW_WOULD] = "would repeat",
    [TW_SHADOW_LEFT] = "waits"};

static void print_row(FILE *out, const struct tw_shadow_row *r)
{
    char time[24];
    _Static_assert(sizeof words / sizeof *words == TW_SHADOW_OUTCOMES, "a word for each outcome");
    tw_put_to(out, "%-12s  %.8s  %8s  %-12.12s  %.60s\n", words[r->outcome], r->run,
              tw_human_seconds(r->took_s > 0 ? r->took_s : r->estimate_s, time),
              *r->project ? r->project : "-", r->command);
    if (r->why)
        tw_put_to(out, "              %s\n", r->why);
    if (r->outcome == TW_SHADOW_DIVERGED && r->repeat)
        tw_put_to(out, "              next: twinrun diff %s %s\n", r->name, r->repeat);
}

void tw_shadow_print(FILE *out, const struct tw_shadow *s)
{
    char left[24], all[24];
    if (s->busy) {
        tw_put_to(out, "another twinrun shadow is at work in this home: nothing was done\n");
        return;
    }
    /* who has thousands of runs does not want a line for each that waits */
    enum { WAITING_SHOWN = 10 };
    size_t waiting = 0;
    for (size_t i = 0; i < s->count; i++) {
        waiting += s->row[i].outcome == TW_SHADOW_LEFT;
        if (s->row[i].outcome != TW_SHADOW_LEFT || waiting <= WAITING_SHOWN)
            print_row(out, &s->row[i]);
    }
    if (waiting > WAITING_SHOWN)
        tw_put_to(out, "%-12s  and %zu more (--json lists all)\n", words[TW_SHADOW_LEFT],
                  waiting - WAITING_SHOWN);
    if (s->count)
        tw_put_to(out, "\n");
    tw_put_to(out, "%zu of %zu run%s drawn (%.4g%%), %zu with an answer before", s->drawn, s->runs,
              tw_plural_s(s->runs), 100 * s->asked.share, s->answered);
    if (s->told && !s->asked.again)
        tw_put_to(out, ", %zu that cannot be repeated (--again looks again)", s->told);
    for (int o = 0; o < TW_SHADOW_OUTCOMES; o++)
        if (s->of[o])
            tw_put_to(out, ", %zu %s", s->of[o], words[o]);
    tw_put_to(out, "\nbudget: %s of %s left\n",
              tw_human_seconds(s->left_s > 0 ? s->left_s : 0, left),
              tw_human_seconds(s->asked.budget_s, all));
    if (s->going_on && s->of[TW_SHADOW_LEFT])
        tw_put_to(out, "going on here: %s\n", s->going_on);
}

static json_t *json_of_row(const struct tw_shadow_row *r)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "run", r->run, "name",
                     tw_json_text(r->name), "project", tw_json_text(r->project), "command",
                     tw_json_text(r->command), "outcome", tw_shadow_outcome_name(r->outcome), "why",
                     tw_json_text(r->why), "repeat", tw_json_text(r->repeat), "estimate_s",
                     tw_json_number(r->estimate_s), "took_s",
                     r->took_s > 0 ? tw_json_number(r->took_s) : json_null());
}

json_t *tw_shadow_json(const struct tw_shadow *s)
{
    json_t *rows = json_array(), *of = json_object();
    for (size_t i = 0; i < s->count; i++)
        json_array_append_new(rows, json_of_row(&s->row[i]));
    for (int o = 0; o < TW_SHADOW_OUTCOMES; o++)
        json_object_set_new(of, tw_shadow_outcome_name(o), tw_json_count(s->of[o]));
    return json_pack("{s:s, s:b, s:b, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
                     "twinrun.shadow/1", "busy", s->busy, "dry_run", s->asked.dry_run, "share",
                     s->asked.share, "runs", tw_json_count(s->runs), "drawn",
                     tw_json_count(s->drawn), "answered_before", tw_json_count(s->answered),
                     "not_repeated_before", tw_json_count(s->told), "budget_s",
                     tw_json_number(s->asked.budget_s), "left_s",
                     tw_json_number(s->left_s > 0 ? s->left_s : 0), "outcomes", of, "rows", rows);
}
