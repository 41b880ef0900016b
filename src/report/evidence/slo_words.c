/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service levels in words. Each line has the value, its interval, from how many events it is, and
 * what became of its target. Names of projects and commands are foreign text: tw_put_to escapes
 * them, and the CSV quotes them.
 */
#include "slo_words.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include <math.h>
#include <string.h>

/* ---- figures */

static const char *state_word(enum tw_slo_state s)
{
    static const char *const word[] = {[TW_SLO_KEPT] = "kept",
                                       [TW_SLO_BROKEN] = "BROKEN",
                                       [TW_SLO_NOT_KNOWN] = "not known",
                                       [TW_SLO_SHOWN] = ""};
    return word[s];
}

/* Does the row say anything about anything? */
static bool has_events(const struct tw_slo_row *r)
{
    return r->runs || r->good || r->bad || r->unknown;
}

/* ---- text */

/* "of 41 (3 not known)": what the value is made from. */
static void print_basis(FILE *out, const struct tw_slo_row *r)
{
    const unsigned long long n = r->good + r->bad;
    if (r->unit == TW_SLO_SHARE && r->id != TW_SLO_BURN)
        tw_put_to(out, "  %llu of %llu", (unsigned long long)(r->at_least ? r->good : r->bad), n);
    else if (r->id == TW_SLO_BURN)
        tw_put_to(out, "  %llu bad in 1 h", (unsigned long long)r->bad);
    else
        tw_put_to(out, "  from %llu", (unsigned long long)r->runs);
    if (r->unknown)
        tw_put_to(out, " (%llu not known)", (unsigned long long)r->unknown);
}

/* What burned the budget, by cause: "burned: forward 3, data 1". */
static void print_burned(FILE *out, const struct tw_slo_row *r)
{
    bool said[TW_SLO_BURNED_MAX] = {false};
    const char *before = "burned";
    for (size_t i = 0; i < r->burned_count; i++) {
        uint64_t n = 0;
        for (size_t k = i; k < r->burned_count && !said[i]; k++)
            if (strcmp(r->burned[k].cause, r->burned[i].cause) == 0) {
                n += r->burned[k].count;
                said[k] = k != i;
            }
        if (n)
            tw_put_to(out, "%s%s %llu", i ? ", " : "            ", i ? "" : before,
                      (unsigned long long)n);
        if (n)
            tw_put_to(out, " by %.60s",
                      *r->burned[i].cause ? r->burned[i].cause : "no known cause");
    }
    if (r->burned_count)
        tw_put_to(out, "; last run %.8s\n", *r->burned[0].run ? r->burned[0].run : "-");
}

static void print_row(FILE *out, const struct tw_slo_row *r)
{
    char value[32], low[32], high[32], target[32], words[64];
    snprintf(words, sizeof words, "%s", tw_slo_words(r->id));
    if (r->id == TW_SLO_BURN)
        snprintf(words, sizeof words, "budget of %s burned in one hour", r->subject);
    if (r->scope == TW_SLO_ALL)
        tw_put_to(out, "%-10s  %-51s", tw_slo_name(r->id), words);
    else
        tw_put_to(out, "%s %-7s  %-11s %-39.60s", r->id == TW_SLO_BURN ? "of" : "  ",
                  r->id == TW_SLO_BURN ? r->subject : "", tw_slo_scope_name(r->scope), r->name);
    tw_put_to(out, "  %-9s %s", state_word(r->state), tw_slo_figure(r->unit, r->value, value));
    if (!isnan(r->interval.low))
        tw_put_to(out, " [%s, %s]", tw_slo_figure(r->unit, r->interval.low, low),
                  tw_slo_figure(r->unit, r->interval.high, high));
    if (!isnan(r->p90))
        tw_put_to(out, ", p90 %s", tw_slo_figure(r->unit, r->p90, high));
    if (!isnan(r->target))
        tw_put_to(out, "  target %s %s",
                  r->at_least ? ">=" : "<=", tw_slo_figure(r->unit, r->target, target));
    print_basis(out, r);
    if (!isnan(r->left))
        tw_put_to(out, "  budget %g, %.0f%% left", r->budget, 100 * r->left);
    tw_put_to(out, "\n");
    if (r->why[0])
        tw_put_to(out, "            %s\n", r->why);
    if (*r->subject && r->id != TW_SLO_BURN)
        tw_put_to(out, "            worst: %.100s\n", r->subject);
    print_burned(out, r);
}

void tw_slo_print(FILE *out, const struct tw_slo_rows *rows, int64_t until_ns)
{
    static const char *const answer[] = {
        [TW_SLO_KEPT] = "KEPT      every target is shown to be kept",
        [TW_SLO_BROKEN] = "BROKEN    at least one target is",
        [TW_SLO_NOT_KNOWN] = "NOT KNOWN  no target is broken, but not all are shown to be kept",
        [TW_SLO_SHOWN] = "",
    };
    char when[32];
    tw_utc_stamp(until_ns, when);
    tw_put_to(out, "%s\nuntil %s\n\n", answer[tw_slo_verdict(rows)], when);
    for (size_t i = 0; i < rows->count; i++)
        if (rows->row[i].scope == TW_SLO_ALL || has_events(&rows->row[i]))
            print_row(out, &rows->row[i]);
}

/* ---- JSON */

static json_t *interval_json(struct twin_interval i)
{
    if (isnan(i.low) || isnan(i.high))
        return json_null();
    return json_pack("[o,o]", tw_json_number(i.low), tw_json_number(i.high));
}

static json_t *burned_json(const struct tw_slo_row *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->burned_count; i++) {
        const struct tw_slo_burned *b = &r->burned[i];
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:I, s:o}", "run", tw_json_text(b->run), "project",
                            tw_json_text(b->project), "cause", tw_json_text(b->cause), "time_ns",
                            (json_int_t)b->time_ns, "count", tw_json_count(b->count)));
    }
    return list;
}

json_t *tw_slo_row_json(const struct tw_slo_row *r)
{
    json_t *counts = json_pack("{s:o, s:o, s:o, s:o}", "good", tw_json_count(r->good), "bad",
                               tw_json_count(r->bad), "unknown", tw_json_count(r->unknown), "from",
                               tw_json_count(r->runs));
    json_t *target = json_pack("{s:o, s:b, s:f, s:o}", "value", tw_json_number(r->target),
                               "at_least", r->at_least, "window_s", r->window_s, "needed",
                               tw_json_count(r->needed));
    json_t *budget = json_pack("{s:o, s:o}", "events", tw_json_number(r->budget), "left",
                               tw_json_number(r->left));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}",
                     "indicator", tw_slo_name(r->id), "words", tw_slo_words(r->id), "scope",
                     tw_slo_scope_name(r->scope), "name", tw_json_text(r->name), "subject",
                     tw_json_text(r->subject), "state", tw_slo_state_name(r->state), "unit",
                     tw_slo_unit_name(r->unit), "value", tw_json_number(r->value), "interval",
                     interval_json(r->interval), "p90", tw_json_number(r->p90), "counts", counts,
                     "target", target, "budget", budget, "why", r->why, "burned", burned_json(r));
}

json_t *tw_slo_json(const struct tw_slo_rows *rows, int64_t until_ns)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rows->count; i++)
        json_array_append_new(list, tw_slo_row_json(&rows->row[i]));
    return json_pack("{s:s, s:s, s:I, s:o}", "schema", "twinrun.slo/1", "outcome",
                     tw_slo_state_name(tw_slo_verdict(rows)), "until_ns", (json_int_t)until_ns,
                     "indicators", list);
}

/* ---- CSV */

/* A foreign text in quotes. In front of what a spreadsheet computes stands an apostrophe. */
static void put_cell(struct tw_buf *b, const char *s)
{
    char *safe = tw_printable(s, strlen(s));
    if (!safe) {
        b->failed = 1;
        return;
    }
    tw_buf_puts(b, *safe && strchr("=+-@", *safe) ? "\"'" : "\"");
    for (const char *p = safe; *p; p++) {
        tw_buf_append(b, p, 1);
        if (*p == '"')
            tw_buf_puts(b, "\"");
    }
    tw_buf_puts(b, "\"");
    tw_free(safe);
}

/* An empty cell for what is not known. */
static void put_number(struct tw_buf *b, double v)
{
    if (isfinite(v))
        tw_buf_printf(b, ",%.17g", v);
    else
        tw_buf_puts(b, ",");
}

char *tw_slo_csv(const struct tw_slo_rows *rows)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "indicator,scope,name,subject,state,unit,value,low,high,p90,target,good,bad,"
                    "unknown,from,budget,left,needed,why\n");
    for (size_t i = 0; i < rows->count; i++) {
        const struct tw_slo_row *r = &rows->row[i];
        tw_buf_printf(&b, "%s,%s,", tw_slo_name(r->id), tw_slo_scope_name(r->scope));
        put_cell(&b, r->name);
        tw_buf_puts(&b, ",");
        put_cell(&b, r->subject);
        tw_buf_printf(&b, ",%s,%s", tw_slo_state_name(r->state), tw_slo_unit_name(r->unit));
        put_number(&b, r->value);
        put_number(&b, r->interval.low);
        put_number(&b, r->interval.high);
        put_number(&b, r->p90);
        put_number(&b, r->target);
        tw_buf_printf(&b, ",%llu,%llu,%llu,%llu", (unsigned long long)r->good,
                      (unsigned long long)r->bad, (unsigned long long)r->unknown,
                      (unsigned long long)r->runs);
        put_number(&b, r->budget);
        put_number(&b, r->left);
        tw_buf_printf(&b, ",%llu,", (unsigned long long)r->needed);
        put_cell(&b, r->why);
        tw_buf_puts(&b, "\n");
    }
    if (b.failed)
        tw_buf_free(&b);
    return tw_buf_steal(&b);
}
