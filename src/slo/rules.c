/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for Prometheus from a targets file. What kind of rule fits depends on the budget:
 *   a share with a budget     burn rates over two windows each, where that rate can be reached at
 *                             all, and the event form: share of the budget that the last hour
 * burned no budget (100%, 0)       one bad event is an alert M3, M7                    a gauge
 * beyond its target All windows are those of a budget of 30 days, and shrink with the window of the
 * target. Formulas: docs/serve.md.
 */
#include "slo_inside.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MONTH_S = 30 * 86400, HOUR_S = 3600, DAY_S = 86400, SHORTEST_S = 10 };
/* Below that many bad events an hour's burn is chance: as in rows.c. */
#define BURN_EVENTS "1.5"

/* ---- what is counted of an indicator */

struct counted {
    enum tw_slo_id id;
    const char *metric;    /* of metrics of serve, without _total */
    const char *bad, *all; /* matchers of the label */
};
static const struct counted counted[] = {
    {TW_SLO_RUNS, "twinrun_repeated_runs", "outcome=\"diverged\"", "outcome=~\"match|diverged\""},
    {TW_SLO_CHECKPOINTS, "twinrun_checkpoint_checks", "outcome=\"mismatch\"",
     "outcome=~\"match|mismatch\""},
    {TW_SLO_FLAKES, "twinrun_ci_results", "outcome=\"flaky\"", "outcome=~\"pass|fail\""},
    {TW_SLO_DATA, "twinrun_snapshots", "outcome=\"mismatch\"", "outcome=~\"match|mismatch\""},
    {TW_SLO_ROLLBACKS, "twinrun_rollbacks", "outcome=\"failed\"", "outcome=~\"restored|failed\""},
    {TW_SLO_ARTIFACTS, "twinrun_artifacts", "attested=\"false\"", "attested=~\"true|false\""},
};

static const struct counted *counted_of(enum tw_slo_id id)
{
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
        if (counted[i].id == id)
            return &counted[i];
    return NULL;
}

/* ---- text */

/* What is being written. left: targets without a rule. */
struct writing {
    struct tw_buf b;
    const struct tw_slo_targets *t;
    size_t left;
};

/* "5m", "1h", "3d": the longest unit that fits. Returns out. */
static const char *duration(unsigned s, char out[24])
{
    static const struct {
        unsigned s;
        const char *unit;
    } units[] = {{DAY_S, "d"}, {HOUR_S, "h"}, {60, "m"}, {1, "s"}};
    for (size_t i = 0; i < 4; i++)
        if (s % units[i].s == 0) {
            snprintf(out, 24, "%u%s", s / units[i].s, units[i].unit);
            break;
        }
    return out;
}

/* A window of 30 days' alerts for a target's own window. */
static unsigned scaled(const struct tw_slo_target *t, unsigned s)
{
    const double own = round(s * t->window_s / MONTH_S);
    return own > SHORTEST_S ? (unsigned)own : SHORTEST_S;
}

/* The hour of M10: of `twinrun slo` it is one, so it only shrinks where the window is no day. */
static unsigned hour_of(const struct tw_slo_target *t)
{
    const double own = round(t->window_s / 24);
    if (own >= HOUR_S)
        return HOUR_S;
    return own > SHORTEST_S ? (unsigned)own : SHORTEST_S;
}

/* One character of a regular expression, in a string of PromQL: both take backslashes. */
static void put_literal(struct tw_buf *b, char c)
{
    if (c == '\\')
        tw_buf_puts(b, "\\\\\\\\");
    else if (c == '"')
        tw_buf_puts(b, "\\\"");
    else if (strchr(".+*?()|[]{}^$", c))
        tw_buf_printf(b, "\\\\%c", c);
    else
        tw_buf_append(b, &c, 1);
}

/* A glob as a regular expression, which Prometheus anchors at both ends. What cannot be shown in a
 * line is written out as it is in the label. */
static void put_glob(struct tw_buf *b, const char *glob)
{
    char *safe = tw_printable(glob, strlen(glob));
    if (!safe)
        b->failed = TWIN_ENOMEM;
    for (const char *p = safe; p && *p; p++) {
        const char *end = *p == '[' && p[1] ? strchr(p + 2, ']') : NULL;
        if (*p == '*') {
            tw_buf_puts(b, ".*");
        } else if (*p == '?') {
            tw_buf_puts(b, ".");
        } else if (end) {
            const bool not_of = p[1] == '!' || p[1] == '^';
            tw_buf_puts(b, not_of ? "[^" : "[");
            for (p += not_of ? 2 : 1; p < end; p++) {
                if (*p == '-')
                    tw_buf_puts(b, "-");
                else
                    put_literal(b, *p);
            }
            tw_buf_puts(b, "]");
        } else {
            put_literal(b, *p);
        }
    }
    tw_free(safe);
}

/* Matchers of the projects that a target is for: those that it names, less those that a later
 * target of the same indicator names. Each ends in a comma. */
static void put_matchers(struct writing *w, const struct tw_slo_target *t)
{
    if (t->project) {
        tw_buf_puts(&w->b, "project=~\"");
        put_glob(&w->b, t->project);
        tw_buf_puts(&w->b, "\",");
    }
    for (const struct tw_slo_target *x = t + 1; x < w->t->item + w->t->count; x++) {
        if (x->id != t->id || x->family)
            continue;
        tw_buf_puts(&w->b, x->project ? "project!~\"" : "project!~\".*");
        put_glob(&w->b, x->project ? x->project : "");
        tw_buf_puts(&w->b, "\",");
    }
}

/* Is a later target of the same indicator for all of these projects? */
static bool is_overruled(const struct writing *w, const struct tw_slo_target *t)
{
    for (const struct tw_slo_target *x = t + 1; x < w->t->item + w->t->count; x++)
        if (x->id == t->id && !x->family &&
            (!x->project || (t->project && strcmp(x->project, t->project) == 0)))
            return true;
    return false;
}

/* A text in single quotes of YAML, in which only those mean something. */
static void put_quoted(struct tw_buf *b, const char *s)
{
    char *safe = tw_printable(s, strlen(s));
    if (!safe)
        b->failed = TWIN_ENOMEM;
    tw_buf_puts(b, "'");
    for (const char *p = safe; p && *p; p++) {
        tw_buf_puts(b, *p == '\'' ? "'" : "");
        tw_buf_append(b, p, 1);
    }
    tw_buf_puts(b, "'");
    tw_free(safe);
}

static void begin_alert(struct writing *w, const char *name)
{
    tw_buf_printf(&w->b, "      - alert: %s\n        expr: |-\n          ", name);
}

/* summary: with {{ $labels.project }} in it where that is wanted. The label `projects` tells the
 * alerts of several targets apart, which Prometheus demands. also: M10's own target, or NULL. */
static void end_alert(struct writing *w, const struct tw_slo_target *t,
                      const struct tw_slo_target *also, const char *severity, const char *kind,
                      const char *summary)
{
    tw_buf_printf(&w->b,
                  "\n        labels:\n          severity: %s\n          slo: %s\n          kind: "
                  "%s\n          source: twinrun\n          projects: ",
                  severity, tw_slo_name(t->id), kind);
    put_quoted(&w->b, t->project ? t->project : "*");
    if (also && also->project) {
        tw_buf_puts(&w->b, "\n          burn_projects: ");
        put_quoted(&w->b, also->project);
    }
    tw_buf_printf(&w->b,
                  "\n        annotations:\n          summary: '%s'\n"
                  "          description: '%s: target %s %g. `twinrun slo` says which runs and "
                  "causes burned it.'\n",
                  summary, tw_slo_words(t->id),
                  t->id == TW_SLO_FLAKES || t->id == TW_SLO_VARIANCE || t->id == TW_SLO_RUN_TIME ||
                          t->id == TW_SLO_OPERATORS || t->id == TW_SLO_BURN
                      ? "at most"
                      : "at least",
                  t->target);
}

/* ---- burn rates */

struct burn {
    double factor;
    unsigned from_s, and_s;
    const char *severity, *name;
};
static const struct burn burns[] = {
    {14.4, HOUR_S, 300, "page", "Fast"},
    {6, 6 * HOUR_S, 1800, "page", "Steady"},
    {3, DAY_S, 2 * HOUR_S, "ticket", "Slow"},
    {1, 3 * DAY_S, 6 * HOUR_S, "ticket", "Lasting"},
};
enum { BURNS = sizeof burns / sizeof burns[0] };

static double budget_of(const struct tw_slo_target *t)
{
    return t->id == TW_SLO_FLAKES ? t->target : 1 - t->target;
}

/* Was this window recorded for the indicator already, by an earlier rule? */
static bool is_recorded(const unsigned *windows, size_t n, unsigned s)
{
    for (size_t i = 0; i < n; i++)
        if (windows[i] == s)
            return true;
    return false;
}

/* The name of a recorded ratio: level, metric, operations. */
static void put_ratio_name(struct writing *w, const struct counted *c, unsigned s)
{
    char text[24];
    tw_buf_printf(&w->b, "project:%s:bad_ratio_rate%s", c->metric, duration(s, text));
}

/* A ratio of sums, never a mean of ratios. Where nothing happened there is none. */
static void put_record(struct writing *w, const struct counted *c, unsigned s)
{
    char text[24];
    duration(s, text);
    tw_buf_puts(&w->b, "      - record: ");
    put_ratio_name(w, c, s);
    tw_buf_printf(&w->b,
                  "\n        expr: |-\n          sum by (project) (rate(%s_total{%s}[%s]))\n"
                  "          / (sum by (project) (rate(%s_total{%s}[%s])) > 0)\n",
                  c->metric, c->bad, text, c->metric, c->all, text);
}

static void put_burns(struct writing *w, const struct tw_slo_target *t, const struct counted *c)
{
    const double budget = budget_of(t);
    char name[64], summary[160];
    for (size_t i = 0; i < BURNS; i++) {
        const struct burn *x = &burns[i];
        const double limit = x->factor * budget;
        if (limit >= 1) {
            tw_buf_printf(
                &w->b,
                "      # %s burn, %g times the budget: %g%% of all events, which cannot be "
                "exceeded\n",
                x->name, x->factor, 100 * limit);
            continue;
        }
        snprintf(name, sizeof name, "Twinrun%s%sBurn", tw_slo_name(t->id), x->name);
        begin_alert(w, name);
        put_ratio_name(w, c, scaled(t, x->from_s));
        tw_buf_puts(&w->b, "{");
        put_matchers(w, t);
        tw_buf_printf(&w->b, "} > %.12g\n          and ", limit);
        put_ratio_name(w, c, scaled(t, x->and_s));
        tw_buf_puts(&w->b, "{");
        put_matchers(w, t);
        tw_buf_printf(&w->b, "} > %.12g", limit);
        snprintf(summary, sizeof summary,
                 "{{ $labels.project }}: %s is burning its budget at more than %g times the rate "
                 "that lasts for the window",
                 tw_slo_name(t->id), x->factor);
        end_alert(w, t, NULL, x->severity, "burn", summary);
    }
}

/* M10: bad events of an hour over the budget of the whole window, which comes from the ledger:
 * Prometheus keeps 15 days unless it is told to keep more. */
static void put_event_form(struct writing *w, const struct tw_slo_target *t,
                           const struct counted *c)
{
    char hour[24], name[64], summary[160];
    duration(hour_of(t), hour);
    for (size_t i = 0; i < w->t->count; i++) {
        const struct tw_slo_target *m10 = &w->t->item[i];
        if (m10->id != TW_SLO_BURN || m10->family || is_overruled(w, m10))
            continue;
        snprintf(name, sizeof name, "Twinrun%sBurnedInAnHour", tw_slo_name(t->id));
        begin_alert(w, name);
        tw_buf_printf(&w->b, "sum by (project) (increase(%s_total{%s,", c->metric, c->bad);
        put_matchers(w, t);
        put_matchers(w, m10);
        tw_buf_printf(&w->b,
                      "}[%s]))\n          / (sum by (project) (twinrun_slo_window_events{slo=\"%s\""
                      "}) * %.12g) > %.12g\n          and sum by (project) (increase(%s_total{%s,",
                      hour, tw_slo_name(t->id), budget_of(t), m10->target, c->metric, c->bad);
        put_matchers(w, t);
        tw_buf_printf(&w->b, "}[%s])) >= " BURN_EVENTS, hour);
        snprintf(summary, sizeof summary,
                 "{{ $labels.project }}: {{ $value | humanizePercentage }} of the budget of %s was "
                 "burned within %s",
                 tw_slo_name(t->id), hour);
        end_alert(w, t, m10, "page", "event", summary);
    }
}

/* ---- thresholds */

static void put_zero_budget(struct writing *w, const struct tw_slo_target *t, const char *metric,
                            const char *bad, double limit)
{
    char hour[24], name[64], summary[160];
    snprintf(name, sizeof name, "Twinrun%sBroken", tw_slo_name(t->id));
    begin_alert(w, name);
    tw_buf_printf(&w->b, "sum by (project) (increase(%s_total{%s", metric, bad);
    put_matchers(w, t);
    tw_buf_printf(&w->b, "}[%s])) > %.12g", duration(hour_of(t), hour), limit);
    snprintf(summary, sizeof summary,
             "{{ $labels.project }}: {{ $value | humanize }} bad events of %s within %s, where the "
             "target leaves no budget",
             tw_slo_name(t->id), hour);
    end_alert(w, t, NULL, "page", "threshold", summary);
}

static void put_gauge(struct writing *w, const struct tw_slo_target *t, const char *metric)
{
    char name[64], summary[160];
    snprintf(name, sizeof name, "Twinrun%sBroken", tw_slo_name(t->id));
    begin_alert(w, name);
    tw_buf_printf(&w->b, "%s{", metric);
    put_matchers(w, t);
    tw_buf_printf(&w->b, "} > %.12g", t->target);
    snprintf(summary, sizeof summary, "{{ $labels.project }}: %s is at {{ $value | humanize }}",
             tw_slo_name(t->id));
    end_alert(w, t, NULL, "ticket", "threshold", summary);
}

static void put_alerts(struct writing *w, const struct tw_slo_target *t)
{
    const struct counted *c = counted_of(t->id);
    if (c && budget_of(t) > 0) {
        put_burns(w, t, c);
        put_event_form(w, t, c);
    } else if (c) {
        char bad[64];
        snprintf(bad, sizeof bad, "%s,", c->bad);
        put_zero_budget(w, t, c->metric, bad, 0);
    } else if (t->id == TW_SLO_OPERATORS) {
        put_zero_budget(w, t, "twinrun_nondeterministic_ops", "", t->target);
    } else {
        put_gauge(w, t,
                  t->id == TW_SLO_VARIANCE ? "twinrun_metric_variance_ratio"
                                           : "twinrun_training_time_deviation_ratio");
    }
}

/* ---- groups: one for each indicator, since rules of one group are evaluated in their order */

static bool can_be_ruled(const struct tw_slo_target *t)
{
    return !t->family && (counted_of(t->id) || t->id == TW_SLO_OPERATORS ||
                          t->id == TW_SLO_VARIANCE || t->id == TW_SLO_RUN_TIME);
}

/* The ratios that the burn rates of this indicator compare, each once. */
static void put_records(struct writing *w, enum tw_slo_id id)
{
    const struct counted *c = counted_of(id);
    unsigned windows[8192]; /* 1,000 targets have no more */
    size_t n = 0;
    for (size_t i = 0; c && i < w->t->count; i++) {
        const struct tw_slo_target *t = &w->t->item[i];
        if (t->id != id || !can_be_ruled(t) || is_overruled(w, t) || !(budget_of(t) > 0))
            continue;
        for (size_t k = 0; k < (size_t)2 * BURNS; k++) {
            const struct burn *x = &burns[k / 2];
            const unsigned s = scaled(t, k % 2 ? x->and_s : x->from_s);
            if (x->factor * budget_of(t) >= 1 || is_recorded(windows, n, s) ||
                n == sizeof windows / sizeof windows[0])
                continue;
            windows[n++] = s;
            put_record(w, c, s);
        }
    }
}

static void put_group(struct writing *w, enum tw_slo_id id)
{
    bool begun = false;
    for (size_t i = 0; i < w->t->count; i++) {
        const struct tw_slo_target *t = &w->t->item[i];
        if (t->id != id || !can_be_ruled(t) || is_overruled(w, t))
            continue;
        if (!begun) {
            tw_buf_printf(&w->b, "  - name: twinrun-%s\n    rules:\n", tw_slo_name(id));
            put_records(w, id);
        }
        begun = true;
        put_alerts(w, t);
    }
}

static void put_left_out(struct writing *w)
{
    for (size_t i = 0; i < w->t->count; i++) {
        const struct tw_slo_target *t = &w->t->item[i];
        if (can_be_ruled(t) || t->id == TW_SLO_BURN)
            continue;
        w->left++;
        tw_buf_printf(&w->b, "# no rule: %s, %s\n", tw_slo_name(t->id),
                      t->family
                          ? "whose target is of a family of models: metrics have no such label"
                          : "which is no metric: `twinrun slo` judges it");
    }
}

int tw_slo_rules(const struct tw_slo_targets *t, char **out, size_t *left_out,
                 struct twin_error *err)
{
    struct writing w = {.t = t};
    *out = NULL;
    tw_buf_puts(&w.b, "# Made by `twinrun slo --rules` from the targets; edit those, not this "
                      "file.\n");
    put_left_out(&w);
    tw_buf_puts(&w.b, "groups:\n");
    for (size_t id = 0; id < TW_SLO_IDS; id++)
        put_group(&w, (enum tw_slo_id)id);
    tw_buf_puts(&w.b,
                "  - name: twinrun-serve\n    rules:\n"
                "      - alert: TwinrunLedgerLost\n        expr: twinrun_ledger_up == 0\n"
                "        for: 5m\n        labels:\n          severity: ticket\n          source: "
                "twinrun\n        annotations:\n          summary: 'twinrun serve cannot read its "
                "ledger: what it shows is old'\n"
                "      - alert: TwinrunServeGone\n        expr: absent(twinrun_ledger_up)\n"
                "        for: 5m\n        labels:\n          severity: ticket\n          source: "
                "twinrun\n        annotations:\n          summary: 'nothing scrapes twinrun serve: "
                "no alert of it can fire'\n");
    *left_out = w.left;
    *out = tw_buf_steal(&w.b);
    return *out ? 0 : tw_no_memory(err, "for the rules");
}
