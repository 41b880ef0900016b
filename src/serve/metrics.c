/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics. Every label set of a project is there from its first scrape on. The label `project` is
 * everywhere but on what is of the server itself; ids of runs are exemplars and never labels.
 */
#include "metrics.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- which projects are new */

void serve_shown_free(struct serve_shown *s)
{
    for (size_t i = 0; i < s->count; i++)
        tw_free(s->name[i]);
    tw_free(s->name);
    *s = (struct serve_shown){.count = 0};
}

/* Its place, or where it would be. */
static bool find_shown(const struct serve_shown *s, const char *name, size_t *at)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(s->name[middle], name);
        if (order == 0) {
            *at = middle;
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    *at = low;
    return false;
}

/* False: there was no memory, and it will be new the next time as well. */
static bool add_shown(struct serve_shown *s, const char *name, size_t at)
{
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 64;
        char **grown = tw_reallocarray(s->name, room, sizeof *grown);
        if (!grown)
            return false;
        s->name = grown;
        s->room = room;
    }
    char *copy = tw_strdup(name);
    if (!copy)
        return false;
    memmove(s->name + at + 1, s->name + at, (s->count - at) * sizeof *s->name);
    s->name[at] = copy;
    s->count++;
    return true;
}

/* Marks the projects of s that are new, one flag each; they are not new any more afterwards. NULL:
 * none is, or there was no memory. */
static bool *take_new(const struct serve_state *s, struct serve_shown *shown)
{
    bool *fresh = tw_calloc(s->counted.count + 1, sizeof *fresh);
    for (size_t i = 0; fresh && i < s->counted.count; i++) {
        size_t at;
        if (find_shown(shown, s->counted.project[i].name, &at))
            continue;
        add_shown(shown, s->counted.project[i].name, at);
        fresh[i] = shown->begun;
    }
    shown->begun = true;
    return fresh;
}

/* ---- text */

struct writing {
    struct tw_buf *b;
    const struct serve_state *s;
    const bool *fresh; /* or NULL */
    bool openmetrics;
};

/* A value of a label: printable already, so only what the format itself means is escaped. */
static void put_label(struct tw_buf *b, const char *name, const char *value)
{
    tw_buf_printf(b, "%s=\"", name);
    for (const char *p = value; *p; p++) {
        if (*p == '\\' || *p == '"')
            tw_buf_puts(b, "\\");
        tw_buf_append(b, p, 1);
    }
    tw_buf_puts(b, "\"");
}

/* name: of the family, without _total. */
static void put_head(struct writing *w, const char *name, const char *type, const char *help)
{
    const bool total = strcmp(type, "counter") == 0 && !w->openmetrics;
    tw_buf_printf(w->b, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, total ? "_total" : "", help, name,
                  total ? "_total" : "", type);
}

/* The id of a run: 32 hex digits, so that neither its length nor a character needs care. */
static void put_exemplar(struct writing *w, const struct tw_slo_counter *c)
{
    if (w->openmetrics && tw_is_hex(c->run, 32))
        tw_buf_printf(w->b, " # {run_id=\"%s\"} %.17g %.3f", c->run, c->value,
                      (double)c->time_ns / 1e9);
}

static void put_number(struct tw_buf *b, double v)
{
    char text[40];
    tw_buf_puts(b, tw_shortest(v, text));
}

/* ---- counters */

struct sample {
    const char *value; /* of the label */
    enum tw_slo_count count;
};
struct family {
    const char *name, *label, *help;
    struct sample sample[4];
    size_t samples;
};
static const struct family families[] = {
    {"twinrun_comparisons",
     "outcome",
     "Comparisons of runs, by what they found.",
     {{"match", TW_COUNT_COMPARISONS_MATCH},
      {"diverged", TW_COUNT_COMPARISONS_DIVERGED},
      {"inconclusive", TW_COUNT_COMPARISONS_INCONCLUSIVE},
      {"error", TW_COUNT_COMPARISONS_ERROR}},
     4},
    {"twinrun_repeated_runs",
     "outcome",
     "Repeated runs, each once for each outcome that was ever found of it (M1).",
     {{"match", TW_COUNT_REPEATS_MATCH},
      {"diverged", TW_COUNT_REPEATS_DIVERGED},
      {"inconclusive", TW_COUNT_REPEATS_INCONCLUSIVE}},
     3},
    {"twinrun_checkpoint_checks",
     "outcome",
     "Checkpoints that repeated runs have in common, by their contents (M2).",
     {{"match", TW_COUNT_CHECKPOINTS_MATCH},
      {"mismatch", TW_COUNT_CHECKPOINTS_MISMATCH},
      {"missing", TW_COUNT_CHECKPOINTS_MISSING}},
     3},
    {"twinrun_ci_results",
     "outcome",
     "Results of CI; a flaky one changed without a change of inputs, and is also passed or failed "
     "(M4).",
     {{"pass", TW_COUNT_CI_PASS}, {"fail", TW_COUNT_CI_FAIL}, {"flaky", TW_COUNT_CI_FLAKY}},
     3},
    {"twinrun_snapshots",
     "outcome",
     "Runs by whether their data matched the snapshot at the start (M5).",
     {{"match", TW_COUNT_DATA_MATCH},
      {"mismatch", TW_COUNT_DATA_MISMATCH},
      {"unknown", TW_COUNT_DATA_UNKNOWN}},
     3},
    {"twinrun_nondeterministic_ops",
     "op",
     "Calls of nondeterministic operations by runs that are meant to be deterministic (M6); the "
     "ledger does not name operations.",
     {{"other", TW_COUNT_OPERATORS}},
     1},
    {"twinrun_rollbacks",
     "outcome",
     "Rollbacks and drills (M8).",
     {{"restored", TW_COUNT_ROLLBACKS_RESTORED}, {"failed", TW_COUNT_ROLLBACKS_FAILED}},
     2},
    {"twinrun_artifacts",
     "attested",
     "Artifacts that were verified, by whether their signature holds (M9).",
     {{"true", TW_COUNT_ARTIFACTS_TRUE},
      {"false", TW_COUNT_ARTIFACTS_FALSE},
      {"unknown", TW_COUNT_ARTIFACTS_UNKNOWN}},
     3},
};

/* fresh: with zeros. */
static void put_samples(struct writing *w, const struct family *f, const struct tw_slo_project *p,
                        bool fresh)
{
    static const struct tw_slo_counter none = {.n = 0};
    for (size_t k = 0; k < f->samples; k++) {
        const struct tw_slo_counter *c = fresh ? &none : &p->count[f->sample[k].count];
        tw_buf_printf(w->b, "%s_total{", f->name);
        put_label(w->b, "project", p->name);
        tw_buf_puts(w->b, ",");
        put_label(w->b, f->label, f->sample[k].value);
        tw_buf_printf(w->b, "} %llu", (unsigned long long)c->n);
        put_exemplar(w, c);
        tw_buf_puts(w->b, "\n");
    }
}

static void put_family(struct writing *w, const struct family *f)
{
    put_head(w, f->name, "counter", f->help);
    for (size_t i = 0; i < w->s->counted.count; i++)
        put_samples(w, f, &w->s->counted.project[i], w->fresh && w->fresh[i]);
}

bool serve_metrics_of_ci(const struct tw_slo_project *p, struct tw_buf *b)
{
    struct writing w = {.b = b};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct family *f = &families[i];
        bool any = false;
        if (f->sample[0].count != TW_COUNT_CI_PASS)
            continue;
        for (size_t k = 0; k < f->samples; k++)
            any |= p->count[f->sample[k].count].n > 0;
        if (!any)
            return false;
        put_head(&w, f->name, "counter", f->help);
        put_samples(&w, f, p, false);
        return true;
    }
    return false;
}

static void put_durations_of(struct writing *w, const struct tw_slo_project *p, bool fresh)
{
    static const char name[] = "twinrun_training_duration_seconds";
    unsigned long long sum = 0;
    for (size_t k = 0; k <= TW_SLO_BUCKETS; k++) {
        char bound[40] = "+Inf";
        if (k < TW_SLO_BUCKETS)
            snprintf(bound, sizeof bound, "%.1f", tw_slo_bucket[k]);
        sum += fresh ? 0 : p->duration[k].n;
        tw_buf_printf(w->b, "%s_bucket{", name);
        put_label(w->b, "project", p->name);
        tw_buf_printf(w->b, ",le=\"%s\"} %llu", bound, sum);
        if (!fresh)
            put_exemplar(w, &p->duration[k]);
        tw_buf_puts(w->b, "\n");
    }
    tw_buf_printf(w->b, "%s_sum{", name);
    put_label(w->b, "project", p->name);
    tw_buf_puts(w->b, "} ");
    put_number(w->b, fresh ? 0 : p->duration_sum);
    tw_buf_printf(w->b, "\n%s_count{", name);
    put_label(w->b, "project", p->name);
    tw_buf_printf(w->b, "} %llu\n", sum);
}

static void put_durations(struct writing *w)
{
    put_head(w, "twinrun_training_duration_seconds", "histogram",
             "Wall time of runs that ended well.");
    for (size_t i = 0; i < w->s->counted.count; i++)
        put_durations_of(w, &w->s->counted.project[i], w->fresh && w->fresh[i]);
}

/* ---- gauges: of the rows of projects */

/* The gauge's number of a row; NaN: there is none. */
typedef double gauge_fn(const struct tw_slo_row *r);

static double variance_of(const struct tw_slo_row *r)
{
    /* without a limit the row's value is the variance itself, and no ratio */
    return r->id == TW_SLO_VARIANCE && r->limited ? r->value : NAN;
}

static double deviation_of(const struct tw_slo_row *r)
{
    return r->id == TW_SLO_RUN_TIME ? r->value : NAN;
}

static double events_of(const struct tw_slo_row *r)
{
    if (r->unit != TW_SLO_SHARE || r->id == TW_SLO_BURN)
        return NAN;
    return (double)(r->good + r->bad + r->unknown);
}

static double target_of(const struct tw_slo_row *r)
{
    return r->id == TW_SLO_BURN ? NAN : r->target;
}

static double broken_of(const struct tw_slo_row *r)
{
    if (r->id == TW_SLO_BURN || isnan(r->target))
        return NAN;
    return r->state == TW_SLO_BROKEN;
}

/* label: "slo" for the indicator's name; else label="value" as it is. */
static void put_gauge(struct writing *w, const char *name, const char *label, const char *help,
                      gauge_fn *gauge)
{
    put_head(w, name, "gauge", help);
    for (size_t i = 0; i < w->s->rows; i++) {
        const struct serve_row *r = &w->s->row[i];
        const double v = r->row.scope == TW_SLO_PROJECT ? gauge(&r->row) : NAN;
        if (isnan(v))
            continue;
        tw_buf_printf(w->b, "%s{", name);
        put_label(w->b, "project", r->name);
        if (strcmp(label, "slo") == 0) {
            tw_buf_puts(w->b, ",");
            put_label(w->b, "slo", tw_slo_name(r->row.id));
        } else if (*label) {
            tw_buf_printf(w->b, ",%s", label);
        }
        tw_buf_puts(w->b, "} ");
        put_number(w->b, v);
        tw_buf_puts(w->b, "\n");
    }
}

static void put_gauges(struct writing *w)
{
    put_gauge(w, "twinrun_metric_variance_ratio", "metric=\"loss\"",
              "Variance of the last loss of the worst job over its limit (M3).", variance_of);
    put_gauge(w, "twinrun_training_time_deviation_ratio", "",
              "Standard deviation of the run time of the worst job over its median (M7).",
              deviation_of);
    put_gauge(w, "twinrun_slo_window_events", "slo",
              "Events in the window of the target, good, bad and unknown.", events_of);
    put_gauge(w, "twinrun_slo_target", "slo", "The target as it is set.", target_of);
    put_gauge(w, "twinrun_slo_broken", "slo", "1 when the target is broken.", broken_of);
}

/* ---- the server itself */

static void put_simple(struct writing *w, const char *name, const char *help, double v)
{
    put_head(w, name, "gauge", help);
    tw_buf_printf(w->b, "%s ", name);
    put_number(w->b, v);
    tw_buf_puts(w->b, "\n");
}

static void put_own(struct writing *w, const struct serve_live *live)
{
    put_head(w, w->openmetrics ? "twinrun_build" : "twinrun_build_info",
             w->openmetrics ? "info" : "gauge", "The twinrun that answers.");
    tw_buf_puts(w->b, "twinrun_build_info{");
    put_label(w->b, "version", live->version);
    tw_buf_puts(w->b, "} 1\n");
    put_simple(w, "twinrun_ledger_up", "1 when the ledger could be read the last time.", live->up);
    put_simple(w, "twinrun_snapshot_age_seconds", "Age of what is shown.", live->age_s);
    put_simple(w, "twinrun_snapshot_duration_seconds", "What it took to make.",
               w->s ? w->s->seconds : 0);
    put_simple(w, "twinrun_names_left_out",
               "Projects, families and contributors beyond the first 1,000.",
               w->s ? (double)w->s->names_left_out : 0);
    put_simple(w, "twinrun_event_clients", "Clients of /api/v1/events.", live->event_clients);
}

void serve_metrics(const struct serve_state *s, const struct serve_live *live, bool openmetrics,
                   struct serve_shown *shown, struct tw_buf *b)
{
    bool *fresh = s && shown ? take_new(s, shown) : NULL;
    struct writing w = {b, s, fresh, openmetrics};
    for (size_t i = 0; s && i < sizeof families / sizeof families[0]; i++)
        put_family(&w, &families[i]);
    if (s) {
        put_durations(&w);
        put_gauges(&w);
    }
    put_own(&w, live);
    if (openmetrics)
        tw_buf_puts(b, "# EOF\n");
    tw_free(fresh);
}
