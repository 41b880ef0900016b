/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The incident document. A sentence stands in it only when what it says was measured or recorded.
 */
#include "wording.h"

#include "src/report/incident.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a job's making, as code: longer fences than any run of backticks inside, bars replaced
 * since they end cells of tables. */
static void code(struct tw_buf *b, const char *s, size_t max)
{
    struct tw_buf safe = {0};
    size_t longest = 0, run = 0;
    tw_say_again(&safe, s && *s ? s : "(none)", max); /* names in it may be escaped already */
    if (safe.failed) {
        b->failed = safe.failed;
        return;
    }
    for (const char *p = safe.data; *p; p++) {
        run = *p == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (size_t i = 0; i <= longest; i++)
        tw_buf_puts(b, "`");
    tw_buf_puts(b, longest ? " " : "");
    for (const char *p = safe.data; *p; p++)
        if (*p == '|')
            tw_buf_puts(b, "\xC2\xA6");
        else
            tw_buf_append(b, *p == '\n' ? " " : p, 1);
    tw_buf_puts(b, longest ? " " : "");
    for (size_t i = 0; i <= longest; i++)
        tw_buf_puts(b, "`");
    tw_buf_free(&safe);
}

static void code_of(struct tw_buf *b, struct tw_buf *text)
{
    if (text->failed)
        b->failed = text->failed;
    else
        code(b, text->data, 0);
    tw_buf_free(text);
}

static void when(struct tw_buf *b, int64_t ns)
{
    char stamp[32];
    tw_utc_stamp(ns, stamp); /* 2026-11-21T08-00-00Z, as folders are named */
    for (size_t i = 11; stamp[i]; i++)
        if (stamp[i] == '-')
            stamp[i] = ':';
    tw_buf_puts(b, stamp);
}

static void row(struct tw_buf *b, const char *name, const char *a, const char *c)
{
    tw_buf_printf(b, "| %s | ", name);
    code(b, a, 300);
    tw_buf_puts(b, " | ");
    code(b, c, 300);
    tw_buf_puts(b, " |\n");
}

static void seconds(char out[32], double s)
{
    snprintf(out, 32, "%.1f s", s);
}

/* ---- sections */

static void summary(struct tw_buf *b, const struct twin_incident *x)
{
    const struct twin_verdict *v = x->verdict;
    struct tw_buf line = {0};
    tw_buf_puts(b, "# Incident: two runs that ");
    if (v->outcome == TWIN_DIFFER)
        tw_buf_puts(b, "diverged\n\n");
    else if (v->outcome == TWIN_WITHIN_TOLERANCE)
        tw_buf_puts(b, "differ within the tolerance\n\n");
    else
        tw_buf_puts(b, "were compared\n\n");
    tw_buf_printf(b, "**%s**: ", twin_verdict_name(v->outcome));
    tw_say_headline(&line, v);
    code_of(b, &line);
    tw_buf_puts(b, ". Written by twinrun from what it recorded; sections that only people can fill "
                   "are marked *open*.\n\n");
}

static void what_ran(struct tw_buf *b, const struct twin_incident *x)
{
    const struct twin_incident_side *s = x->side;
    char c[2][32];
    struct tw_buf began[2] = {{0}, {0}};
    tw_buf_puts(b, "## What ran\n\n| | run A | run B |\n|---|---|---|\n");
    row(b, "run", s[0].run->id, s[1].run->id);
    row(b, "command", x->command,
        x->same_command ? "(the same)" : "(another command: see its run folder)");
    row(b, "host", s[0].run->host, s[1].run->host);
    for (int i = 0; i < 2; i++)
        when(&began[i], s[i].run->start_realtime_ns);
    row(b, "began (UTC)", began[0].data ? began[0].data : "", began[1].data ? began[1].data : "");
    for (int i = 0; i < 2; i++) {
        tw_buf_free(&began[i]);
        seconds(c[i], s[i].run->wall_s);
    }
    row(b, "took", c[0], c[1]);
    row(b, "ended", s[0].state, s[1].state);
    for (int i = 0; i < 2; i++)
        tw_human_count(s[i].steps, c[i]);
    row(b, "steps", c[0], c[1]);
    for (int i = 0; i < 2; i++)
        tw_human_count(s[i].records, c[i]);
    row(b, "records", c[0], c[1]);
    row(b, "code", s[0].code && *s[0].code ? s[0].code : "not known",
        s[1].code && *s[1].code ? s[1].code : "not known");
    row(b, "versions", s[0].versions && *s[0].versions ? s[0].versions : "not known",
        s[1].versions && *s[1].versions ? s[1].versions : "not known");
    tw_buf_puts(b, "\n");
}

static void worlds(struct tw_buf *b, const struct twin_incident *x)
{
    enum { MOST = 30 };
    tw_buf_puts(b, "## How their worlds differ\n\n");
    if (!x->world_known) {
        tw_buf_puts(b, "Not known: a run has no record of its world. *open*\n\n");
        return;
    }
    if (x->world_count == 0) {
        tw_buf_puts(b, "In nothing that was recorded (code, configuration, libraries, variables, "
                       "processor), but for names and times.\n\n");
        return;
    }
    tw_buf_puts(b, "Sorted by power to change bits.\n\n| power | | what | run A | run B "
                   "|\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < x->world_count && i < MOST; i++) {
        const struct twin_incident_world *w = &x->world[i];
        tw_buf_printf(b, "| %s | %s | ", w->power, w->group);
        code(b, w->what, 80);
        tw_buf_puts(b, " | ");
        code(b, w->a, 100);
        tw_buf_puts(b, " | ");
        code(b, w->b, 100);
        tw_buf_puts(b, " |\n");
    }
    if (x->world_count > MOST)
        tw_buf_printf(b, "\n%zu more: `twinrun diff --env A B` lists all.\n",
                      x->world_count - MOST);
    tw_buf_puts(b, "\n");
}

static void item(struct tw_buf *b, const char *name, struct tw_buf *text)
{
    if (text->failed)
        b->failed = text->failed;
    if (text->len) {
        tw_buf_printf(b, "- %s: ", name);
        code(b, text->data, 500);
        tw_buf_puts(b, "\n");
    }
    tw_buf_free(text);
}

static void divergence(struct tw_buf *b, const struct twin_incident *x)
{
    const struct twin_verdict *v = x->verdict;
    struct tw_buf t = {0};
    tw_buf_puts(b, "## First divergence\n\n");
    if (!v->first) {
        tw_buf_puts(b, "None was found.\n\n");
        return;
    }
    tw_say_place(&t, v->first, true);
    item(b, "where", &t);
    if (tw_is_record(v->first)) {
        if (v->first->role == TWIN_ORIGIN)
            tw_buf_puts(b, "- an **origin**: its inputs were still equal in both runs\n");
        else if (v->first->role == TWIN_CARRIER)
            tw_buf_puts(b,
                        "- a **carrier**: its inputs differed already; the origin was not seen\n");
        tw_say_between(&t, v->first);
        item(b, "role", &t);
        tw_say_safe(&t, v->first->op, 100);
        item(b, "operation", &t);
        for (const char *s = v->first->site; *s;
             s += strcspn(s, "\n") + (s[strcspn(s, "\n")] == '\n')) {
            char line[400];
            snprintf(line, sizeof line, "%.*s",
                     (int)(strcspn(s, "\n") < 390 ? strcspn(s, "\n") : 390), s);
            tw_say_safe(&t, line, 0);
            item(b, s == v->first->site ? "source" : "called from", &t);
        }
        tw_say_size(&t, v->first);
        item(b, "how much", &t);
        tw_say_safe(&t, v->equal_before, 400);
        item(b, "equal until then", &t);
    }
    tw_say_onsets(&t, v);
    item(b, "then", &t);
    if (isfinite(v->drift_per_step))
        tw_buf_printf(b, "- drift: x%.3g per step\n", v->drift_per_step);
    tw_say_safe(&t, v->nonfinite, 300);
    item(b, "NaN or Inf", &t);
    for (size_t i = 0; i < v->note_count && i < 8; i++) {
        tw_say_safe(&t, v->notes[i], 400);
        item(b, "note", &t);
    }
    tw_buf_puts(b, "\n");
}

/* The newest search that found something. */
static const struct twin_incident_check *found_cause(const struct twin_incident *x)
{
    for (size_t i = x->check_count; i-- > 0;)
        if (strcmp(x->check[i].verb, "isolate") == 0 && x->check[i].cause[0])
            return &x->check[i];
    return NULL;
}

static void cause(struct tw_buf *b, const struct twin_incident *x)
{
    const struct twin_incident_check *c = found_cause(x);
    size_t searches = 0;
    tw_buf_puts(b, "## Cause\n\n");
    for (size_t i = 0; i < x->check_count; i++)
        searches += strcmp(x->check[i].verb, "isolate") == 0;
    if (c) {
        tw_buf_puts(b, "Shown by controlled experiment on this command (`twinrun isolate`, ");
        when(b, c->time_ns);
        tw_buf_puts(b, "): ");
        code(b, c->cause, 300);
        tw_buf_puts(b, ". `twinrun factors` says what it is and which pin holds it still.\n\n");
    } else if (searches) {
        tw_buf_printf(
            b, "Not known. %zu search%s of this command %s on record, without a cause. *open*\n\n",
            searches, searches == 1 ? "" : "es", searches == 1 ? "is" : "are");
    } else {
        tw_buf_puts(b, "Not known: no search of this command is on record. *open*\n\n");
    }
    for (size_t i = 0; i < x->hint_count && i < 3; i++) {
        char *text = twin_hint_text(&x->hint[i]);
        tw_buf_puts(b, "- looks like a known case (a hint, no proof): ");
        code(b, text ? text : "", 700);
        tw_buf_puts(b, "\n");
        tw_free(text);
    }
    tw_buf_puts(b, x->hint_count ? "\n" : "");
}

static bool passed(const char *outcome)
{
    return strcmp(outcome, "same") == 0 || strcmp(outcome, "within-tolerance") == 0 ||
           strcmp(outcome, "no-divergence") == 0;
}

static void checks(struct tw_buf *b, const struct twin_incident *x)
{
    size_t failed = 0;
    tw_buf_puts(b, "## Checks on record\n\n");
    if (!x->ledger) {
        tw_buf_puts(b, "The ledger could not be read. *open*\n\n");
        return;
    }
    for (size_t i = 0; i < x->check_count; i++)
        failed += !passed(x->check[i].outcome);
    if (!x->check_count) {
        tw_buf_puts(b, "None of this command or these runs.\n\n");
        return;
    }
    tw_buf_printf(b,
                  "%zu of this command or these runs, %zu without \"same\".\n\n| when (UTC) | what "
                  "| outcome | first divergence |\n|---|---|---|---|\n",
                  x->check_count, failed);
    for (size_t i = x->check_count > 20 ? x->check_count - 20 : 0; i < x->check_count; i++) {
        tw_buf_puts(b, "| ");
        when(b, x->check[i].time_ns);
        tw_buf_printf(b, " | %s | %s%s%s | ", x->check[i].verb,
                      passed(x->check[i].outcome) ? "" : "**", x->check[i].outcome,
                      passed(x->check[i].outcome) ? "" : "**");
        if (x->check[i].first[0])
            code(b, x->check[i].first, 200);
        tw_buf_puts(b, " |\n");
    }
    tw_buf_puts(b, "\n");
}

struct event {
    int64_t ns;
    int order;
    const char *text;
    const struct twin_incident_check *check;
};

static int by_time(const void *x, const void *y)
{
    const struct event *a = x, *b = y;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->order - b->order;
}

static int64_t end_of(const struct twin_run *r)
{
    return r->start_realtime_ns + (int64_t)(r->wall_s * 1e9);
}

static void timeline(struct tw_buf *b, const struct twin_incident *x)
{
    enum { CHECKS = 20 };
    struct event e[CHECKS + 6];
    size_t n = 0;
    e[n++] = (struct event){x->side[0].run->start_realtime_ns, 0, "run A began", NULL};
    e[n++] = (struct event){end_of(x->side[0].run), 1, "run A ended", NULL};
    e[n++] = (struct event){x->side[1].run->start_realtime_ns, 2, "run B began", NULL};
    if (x->parted_ns)
        e[n++] = (struct event){x->parted_ns < end_of(x->side[1].run) ? x->parted_ns
                                                                      : end_of(x->side[1].run),
                                3, "run B recorded the first difference", NULL};
    e[n++] = (struct event){end_of(x->side[1].run), 4, "run B ended", NULL};
    for (size_t i = x->check_count > CHECKS ? x->check_count - CHECKS : 0; i < x->check_count; i++)
        e[n++] = (struct event){x->check[i].time_ns, 5, NULL, &x->check[i]};
    qsort(e, n, sizeof *e, by_time);
    tw_buf_puts(b, "## Timeline (UTC)\n\n");
    for (size_t i = 0; i < n; i++) {
        tw_buf_puts(b, "- ");
        when(b, e[i].ns);
        if (e[i].text)
            tw_buf_printf(b, " %s\n", e[i].text);
        else
            tw_buf_printf(b, " `twinrun %s`: %s\n", e[i].check->verb, e[i].check->outcome);
    }
    tw_buf_puts(b, "- noticed by: *open*\n- results withdrawn or confirmed: *open*\n\n");
}

static void questions(struct tw_buf *b, const struct twin_incident *x)
{
    tw_buf_puts(b, "## Open questions\n\n- [ ] Who noticed, when, and by what?\n- [ ] Which "
                   "results, models or decisions rest on run A or run B?\n");
    if (!found_cause(x))
        tw_buf_puts(b, "- [ ] What is the cause?\n");
    if (x->world_known && x->world_count && strcmp(x->world[0].power, "high") == 0) {
        tw_buf_puts(b, "- [ ] Why was ");
        code(b, x->world[0].what, 80);
        tw_buf_puts(b, " another one, and was that meant?\n");
    }
    tw_buf_puts(b, "- [ ] Since when has this been so? Are older runs affected?\n- [ ] Which check "
                   "would have found it earlier?\n"
                   "- [ ] Who does what until when?\n\n");
}

static void commands(struct tw_buf *b, const struct twin_incident *x)
{
    const char *a = x->side[0].run->id, *c = x->side[1].run->id;
    tw_buf_printf(b, "## To go on\n\n```sh\ntwinrun diff %.8s %.8s\ntwinrun diff --env %.8s %.8s\n",
                  a, c, a, c);
    /* In a block of its own words, a command that holds a fence would end the block. */
    if (x->same_command && !strstr(x->command, "```") && !strchr(x->command, '\n')) {
        if (!found_cause(x)) {
            tw_buf_puts(b, "twinrun isolate -- ");
            tw_say_safe(b, x->command, 0);
            tw_buf_puts(b, "\n");
        }
        tw_buf_puts(b, "twinrun check --save-baseline expected.json -- ");
        tw_say_safe(b, x->command, 0);
        tw_buf_puts(b, "\n");
    }
    tw_buf_puts(b, "```\n");
}

int twin_incident_markdown(const struct twin_incident *x, char **out, struct twin_error *err)
{
    struct tw_buf b = {0};
    summary(&b, x);
    what_ran(&b, x);
    worlds(&b, x);
    divergence(&b, x);
    cause(&b, x);
    checks(&b, x);
    timeline(&b, x);
    questions(&b, x);
    commands(&b, x);
    return tw_report_finish(&b, out, err);
}
