/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The incident document (twinrun report --postmortem): what is known of two runs that diverged, as
 * Markdown for a postmortem. The command fills struct twin_incident (src/report/incident.h).
 *
 * A sentence stands in it only when what it says was measured or recorded; what only people can
 * know is marked *open*. Whatever a job made stands in code spans, where it cannot be markup.
 */
#include "runbook.h"
#include "wording.h"

#include "src/report/incident.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends bytes of a job's making as a code span: fences longer than any run of backticks inside;
 * bars are replaced, since they end cells of tables, and line breaks become blanks. max: cut behind
 * that many bytes; 0: whole. NULL and "" become "(none)". */
static void put_code(struct tw_buf *b, const char *s, size_t max)
{
    struct tw_buf safe = {0};
    /* n backticks begin code that holds at most n - 1 of them in a row */
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

/* The same of a buffer, whole, which is freed. */
static void code_of(struct tw_buf *b, struct tw_buf *text)
{
    if (text->failed)
        b->failed = text->failed;
    else
        put_code(b, text->data, 0);
    tw_buf_free(text);
}

/* A time as "2026-11-21T08:00:00Z". */
static void when(struct tw_buf *b, int64_t ns)
{
    char stamp[32];
    tw_utc_stamp(ns, stamp); /* 2026-11-21T08-00-00Z, as folders are named */
    for (size_t i = 11; stamp[i]; i++)
        if (stamp[i] == '-')
            stamp[i] = ':';
    tw_buf_puts(b, stamp);
}

/* A row of the table of both runs; both values are shown as code. */
static void put_row(struct tw_buf *b, const char *name, const char *a, const char *c)
{
    tw_buf_printf(b, "| %s | ", name);
    put_code(b, a, 300);
    tw_buf_puts(b, " | ");
    put_code(b, c, 300);
    tw_buf_puts(b, " |\n");
}

static void seconds_text(char out[32], double s)
{
    snprintf(out, 32, "%.1f s", s);
}

/* ---- sections */

/* Title and verdict. */
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

/* A table of both runs: what they were and how they ended. */
static void what_ran(struct tw_buf *b, const struct twin_incident *x)
{
    const struct twin_incident_side *s = x->side;
    char c[2][32];
    struct tw_buf began[2] = {{0}, {0}};
    tw_buf_puts(b, "## What ran\n\n| | run A | run B |\n|---|---|---|\n");
    put_row(b, "run", s[0].run->id, s[1].run->id);
    put_row(b, "command", x->command,
            x->same_command ? "(the same)" : "(another command: see its run folder)");
    put_row(b, "host", s[0].run->host, s[1].run->host);
    for (int i = 0; i < 2; i++)
        when(&began[i], s[i].run->start_realtime_ns);
    put_row(b, "began (UTC)", began[0].data ? began[0].data : "",
            began[1].data ? began[1].data : "");
    for (int i = 0; i < 2; i++) {
        tw_buf_free(&began[i]);
        seconds_text(c[i], s[i].run->wall_s);
    }
    put_row(b, "took", c[0], c[1]);
    put_row(b, "ended", s[0].state, s[1].state);
    for (int i = 0; i < 2; i++)
        tw_human_count(s[i].steps, c[i]);
    put_row(b, "steps", c[0], c[1]);
    for (int i = 0; i < 2; i++)
        tw_human_count(s[i].records, c[i]);
    put_row(b, "records", c[0], c[1]);
    put_row(b, "code", s[0].code && *s[0].code ? s[0].code : "not known",
            s[1].code && *s[1].code ? s[1].code : "not known");
    put_row(b, "versions", s[0].versions && *s[0].versions ? s[0].versions : "not known",
            s[1].versions && *s[1].versions ? s[1].versions : "not known");
    tw_buf_puts(b, "\n");
}

/* Differences of the two worlds, at most MOST of them; not known is another answer than none. */
static void put_worlds(struct tw_buf *b, const struct twin_incident *x)
{
    enum { MOST = 30 };
    tw_buf_puts(b, "## How their worlds differ\n\n");
    /* not known, nothing, or a list: three different answers */
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
        put_code(b, w->what, 80);
        tw_buf_puts(b, " | ");
        put_code(b, w->a, 100);
        tw_buf_puts(b, " | ");
        put_code(b, w->b, 100);
        tw_buf_puts(b, " |\n");
    }
    if (x->world_count > MOST)
        tw_buf_printf(b, "\n%zu more: `twinrun diff --env A B` lists all.\n",
                      x->world_count - MOST);
    tw_buf_puts(b, "\n");
}

/* A line of a list. Takes text's contents; nothing for an empty text. */
static void item(struct tw_buf *b, const char *name, struct tw_buf *text)
{
    if (text->failed)
        b->failed = text->failed;
    if (text->len) {
        tw_buf_printf(b, "- %s: ", name);
        put_code(b, text->data, 500);
        tw_buf_puts(b, "\n");
    }
    tw_buf_free(text);
}

/* Where the runs first differ, and what is known about that place. */
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
    /* only a record has a role, an operation and a size */
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
        /* a line for each frame, the innermost first */
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

/* The newest search that found a cause; NULL: none. Checks come with the oldest first. */
static const struct twin_incident_check *found_cause(const struct twin_incident *x)
{
    for (size_t i = x->check_count; i-- > 0;)
        if (strcmp(x->check[i].verb, "isolate") == 0 && x->check[i].cause[0])
            return &x->check[i];
    return NULL;
}

/* The cause when a search on record showed one, otherwise how many searches did not; hints
 * below. */
static void put_cause(struct tw_buf *b, const struct twin_incident *x)
{
    const struct twin_incident_check *c = found_cause(x);
    size_t searches = 0;
    tw_buf_puts(b, "## Cause\n\n");
    for (size_t i = 0; i < x->check_count; i++)
        searches += strcmp(x->check[i].verb, "isolate") == 0;
    /* a cause, searches without one, or no search */
    if (c) {
        tw_buf_puts(b, "Shown by controlled experiment on this command (`twinrun isolate`, ");
        when(b, c->time_ns);
        tw_buf_puts(b, "): ");
        put_code(b, c->cause, 300);
        tw_buf_puts(b, ". `twinrun factors` says what it is and which pin holds it still.\n\n");
    } else if (searches) {
        tw_buf_printf(
            b, "Not known. %zu search%s of this command %s on record, without a cause. *open*\n\n",
            searches, searches == 1 ? "" : "es", searches == 1 ? "is" : "are");
    } else {
        tw_buf_puts(b, "Not known: no search of this command is on record. *open*\n\n");
    }
    struct twin_runbook book = twin_runbook_of(c ? c->cause : NULL, x);
    if (book.page)
        tw_buf_printf(b, "Runbook, %s: `docs/runbooks/%s.md`.\n\n", book.why, book.page);
    for (size_t i = 0; i < x->hint_count && i < 3; i++) {
        char *text = twin_hint_text(&x->hint[i]);
        tw_buf_puts(b, "- looks like a known case (a hint, no proof): ");
        put_code(b, text ? text : "", 700);
        tw_buf_puts(b, "\n");
        tw_free(text);
    }
    tw_buf_puts(b, x->hint_count ? "\n" : "");
}

/* Outcomes of commands that found no difference that counts. */
static bool passed(const char *outcome)
{
    return strcmp(outcome, "same") == 0 || strcmp(outcome, "within-tolerance") == 0 ||
           strcmp(outcome, "no-divergence") == 0;
}

/* The last 20 comparisons on record, those that failed in bold. */
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
            put_code(b, x->check[i].first, 200);
        tw_buf_puts(b, " |\n");
    }
    tw_buf_puts(b, "\n");
}

/* One line of the timeline: text, or the check. order decides between events of one moment. */
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

/* When a run ended, in ns since 1970. */
static int64_t end_of(const struct twin_run *r)
{
    return r->start_realtime_ns + (int64_t)(r->wall_s * 1e9);
}

/* What happened, sorted by time. Lines that people have to fill in stand at the end. */
static void timeline(struct tw_buf *b, const struct twin_incident *x)
{
    enum { CHECKS = 20 };
    /* room for the latest checks and the five events of the runs */
    struct event e[CHECKS + 6];
    size_t n = 0;
    e[n++] = (struct event){x->side[0].run->start_realtime_ns, 0, "run A began", NULL};
    e[n++] = (struct event){end_of(x->side[0].run), 1, "run A ended", NULL};
    e[n++] = (struct event){x->side[1].run->start_realtime_ns, 2, "run B began", NULL};
    /* clocks of two machines may disagree: the difference is not put behind the run's end */
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

/* Questions that are left, with those that the recorded facts raise. */
static void questions(struct tw_buf *b, const struct twin_incident *x)
{
    tw_buf_puts(b, "## Open questions\n\n- [ ] Who noticed, when, and by what?\n- [ ] Which "
                   "results, models or decisions rest on run A or run B?\n");
    if (!found_cause(x))
        tw_buf_puts(b, "- [ ] What is the cause?\n");
    /* the first difference is the most powerful one */
    if (x->world_known && x->world_count && strcmp(x->world[0].power, "high") == 0) {
        tw_buf_puts(b, "- [ ] Why was ");
        put_code(b, x->world[0].what, 80);
        tw_buf_puts(b, " another one, and was that meant?\n");
    }
    tw_buf_puts(b, "- [ ] Since when has this been so? Are older runs affected?\n- [ ] Which check "
                   "would have found it earlier?\n"
                   "- [ ] Who does what until when?\n\n");
}

/* Commands to go on with. The job's command is left out when it would break the block of code. */
static void commands(struct tw_buf *b, const struct twin_incident *x)
{
    const char *a = x->side[0].run->id, *c = x->side[1].run->id;
    tw_buf_printf(b, "## To go on\n\n```sh\ntwinrun diff %.8s %.8s\ntwinrun diff --env %.8s %.8s\n",
                  a, c, a, c);
    /* Both commands need the job's one command. In a block of its own words, a command that holds a
     * fence would end the block. */
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

/* The order is that of a postmortem: what happened, what is known, why, when, and what to do
 * next. */
int twin_incident_markdown(const struct twin_incident *x, char **out, struct twin_error *err)
{
    struct tw_buf b = {0};
    summary(&b, x);
    what_ran(&b, x);
    put_worlds(&b, x);
    divergence(&b, x);
    put_cause(&b, x);
    checks(&b, x);
    timeline(&b, x);
    questions(&b, x);
    commands(&b, x);
    return tw_report_finish(&b, out, err);
}
