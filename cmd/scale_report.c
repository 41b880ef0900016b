/* SPDX-License-Identifier: Apache-2.0 */
/* From the runs to the curve, and how it is put: text and CSV. Speed and results are told apart, never mixed. */
#include "scale.h"

#include "runs.h"
#include "say.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIDENCE .95
#define OBSERVER_NOTED .05
enum {
    ENOUGH_RUNS = 3,
    OUTLIERS_FROM = 5 /* of three values the MAD is the smaller of two gaps, and calls almost any third one an outlier */
};

double tw_scale_work_of(const struct tw_scale *s, uint64_t workers)
{
    return s->work.each * pow((double)workers, s->work.power);
}

bool tw_scale_counts(const struct tw_scale *s, const struct tw_scale_run *r)
{
    return r->good && r->round > 0 && (s->work.per_run || (r->timed > 0 && r->timed_s > 0));
}

bool tw_scale_outliers_told(const struct twin_scaling_point *p)
{
    return p->runs >= OUTLIERS_FROM && p->mad.mad > 0;
}

double tw_scale_rate(const struct tw_scale *s, const struct tw_scale_run *r)
{
    const double work = tw_scale_work_of(s, r->workers);
    return s->work.per_run ? work / r->wall_s : work * (double)r->timed / r->timed_s;
}

/* ---- the points */

struct gathered { double *rate; const double **step; size_t *steps, *from; double *z; };

static void release(struct gathered *g)
{
    tw_free(g->rate);
    tw_free(g->step);
    tw_free(g->steps);
    tw_free(g->from);
    tw_free(g->z);
}

static int compute(struct tw_scale *s, struct gathered *g, struct twin_scaling_set *set)
{
    size_t at = 0;
    for (size_t c = 0; c < s->counts; c++) {
        set[c] = (struct twin_scaling_set){.workers = s->count[c], .rate = g->rate + at, .step = g->step + at, .steps = g->steps + at};
        for (size_t i = 0; i < s->runs; i++) {
            const struct tw_scale_run *r = &s->run[i];
            if (r->workers != s->count[c] || !tw_scale_counts(s, r))
                continue;
            g->rate[at] = tw_scale_rate(s, r);
            g->step[at] = r->step;
            g->steps[at] = r->step_count;
            g->from[at++] = i;
            set[c].runs++;
        }
    }
    int rc = twin_scaling(set, s->counts, CONFIDENCE, s->point, g->z);
    for (size_t i = 0; i < s->runs; i++)
        s->z[i] = NAN;
    for (size_t i = 0; rc == 0 && i < at; i++)
        s->z[g->from[i]] = g->z[i];
    return rc;
}

static void note(struct tw_scale *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct tw_scale *s, const char *format, ...)
{
    struct tw_buf b = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_vprintf(&b, format, ap);
    va_end(ap);
    char *text = tw_buf_steal(&b), **grown = text ? tw_reallocarray(s->note, s->notes + 1, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(text);
        return;
    }
    s->note = grown;
    grown[s->notes++] = text;
}

static const char *workers(uint64_t n, char out[32])
{
    snprintf(out, 32, "%llu worker%s", (unsigned long long)n, n == 1 ? "" : "s");
    return out;
}

static void note_runs(struct tw_scale *s, size_t c)
{
    struct tw_buf failed = {0};
    char who[32];
    size_t good = s->point[c].runs, n = 0;
    uint64_t ranks = 0;
    workers(s->count[c], who);
    for (size_t i = 0; i < s->runs; i++) {
        const struct tw_scale_run *r = &s->run[i];
        if (r->workers != s->count[c])
            continue;
        if (!r->good)
            tw_buf_printf(&failed, "%s%s (%s)", n++ ? ", " : "", r->run, r->state);
        else if (r->ranks > 1 && r->ranks != r->workers)
            ranks = r->ranks;
        if (good >= OUTLIERS_FROM && fabs(s->z[i]) > TWIN_STATS_OUTLIER_Z)
            note(s, "%s: %s is an outlier (modified z %.1f); kept", who, r->run, s->z[i]);
    }
    if (n)
        note(s, "%s: %zu run%s did not end well, and %s left out: %s", who, n, n == 1 ? "" : "s", n == 1 ? "is" : "are", failed.data ? failed.data : "");
    if (good < ENOUGH_RUNS)
        note(s, "%s: %zu run%s could be timed; an interval worth having needs %d", who, good, good == 1 ? "" : "s", ENOUGH_RUNS);
    if (good >= OUTLIERS_FROM && s->point[c].mad.mad == 0)
        note(s, "%s: more than half of the runs took equally long (MAD = 0): outliers cannot be told", who);
    if (ranks)
        note(s, "%s: the job says that it has %llu ranks; does {n} reach it?", who, (unsigned long long)ranks);
    tw_buf_free(&failed);
}

/* Of the first run that failed: its last words, and where all that it printed is. */
static void note_failed(struct tw_scale *s)
{
    for (size_t i = 0; i < s->runs && s->home; i++) {
        struct twin_run *r = NULL;
        char *dir = s->run[i].good ? NULL : tw_printf("%s/runs/%s", s->home, s->run[i].run), *words = NULL;
        if (!dir)
            continue;
        if (twin_run_load(dir, &r, NULL) == 0)
            words = tw_run_last_words(r);
        note(s, "a failed run's last line: %s (all of it: %s/stderr)", words ? words : "none", dir);
        twin_run_free(r);
        tw_free(words);
        tw_free(dir);
        return;
    }
}

static void note_all(struct tw_scale *s)
{
    double observer = 0;
    bool counted = false, short_runs = false, few = false;
    for (size_t c = 0; c < s->counts; c++) {
        const struct twin_scaling_point *p = &s->point[c];
        if (s->cores > 0 && p->workers > (uint64_t)s->cores)
            note(s, "%llu workers on %ld core%s: oversubscribed; this point says nothing of a machine with %llu cores", (unsigned long long)p->workers, s->cores, s->cores == 1 ? "" : "s",
                 (unsigned long long)p->workers);
        few |= p->runs > 0 && p->runs < OUTLIERS_FROM;
        note_runs(s, c);
        short_runs |= p->runs > 0 && !isnan(p->latency[TWIN_SCALING_P50].value) && isnan(p->latency[TWIN_SCALING_P99].value);
    }
    for (size_t i = 0; i < s->runs; i++) {
        counted |= tw_scale_counts(s, &s->run[i]);
        observer = tw_scale_counts(s, &s->run[i]) && s->run[i].observer > observer ? s->run[i].observer : observer;
    }
    if (short_runs)
        note(s, "no p99 of steps from fewer than %zu steps a run, no p90 from fewer than %zu", twin_scaling_steps_needed(TWIN_SCALING_P99), twin_scaling_steps_needed(TWIN_SCALING_P90));
    note_failed(s);
    if (few)
        note(s, "outliers are looked for from %d runs on", OUTLIERS_FROM);
    if (counted && s->work.per_run)
        note(s, "speed is that of whole runs, start and end of the job included");
    else if (counted)
        note(s, "speed is that of the steps behind the first %llu, on the slowest rank", (unsigned long long)s->args.warmup);
    if (observer > OBSERVER_NOTED)
        note(s, "up to %.0f%% of a process's time went into watching it: that much of a step is ours", 100 * observer);
    if (s->out_of_time)
        note(s, "ended by --max-time; the same command with --resume goes on");
    else if (s->interrupted)
        note(s, "interrupted; the same command with --resume goes on");
}

int tw_scale_compute(struct tw_scale *s)
{
    struct twin_scaling_set set[TW_SCALE_COUNTS];
    const size_t n = s->runs + 1;
    struct gathered g = {tw_reallocarray(NULL, n, sizeof *g.rate), tw_reallocarray(NULL, n, sizeof *g.step), tw_reallocarray(NULL, n, sizeof *g.steps), tw_reallocarray(NULL, n, sizeof *g.from),
                         tw_reallocarray(NULL, n, sizeof *g.z)};
    s->z = tw_reallocarray(NULL, n, sizeof *s->z);
    int rc = g.rate && g.step && g.steps && g.from && g.z && s->z ? compute(s, &g, set) : TWIN_ENOMEM;
    release(&g);
    if (rc == TWIN_EINVAL)
        return tw_trouble(NULL, "scale: a speed that was measured is no positive finite number");
    if (rc != 0)
        return tw_trouble(NULL, "scale: no memory for %zu runs", s->runs);
    for (size_t c = 0; c < s->counts; c++)
        s->measured += s->point[c].runs > 0;
    note_all(s);
    return -1;
}

int tw_scale_exit(const struct tw_scale *s)
{
    size_t well = 0;
    for (size_t c = 0; c < s->counts; c++)
        well += s->point[c].runs >= ENOUGH_RUNS;
    if (s->interrupted && !s->out_of_time)
        return TW_EXIT_INTERRUPTED;
    return s->measured == 0 ? TW_EXIT_TROUBLE : well == s->counts ? 0 : TW_EXIT_INCONCLUSIVE;
}

/* ---- text */

static char *figure(double v, char out[32])
{
    char plain[32];
    if (isnan(v))
        snprintf(out, 32, "-");
    else if (v >= 1000 && v < 1e15)
        tw_human_count((uint64_t)llround(v), out);
    else {
        snprintf(plain, sizeof plain, "%.4g", v);
        memcpy(out, plain, sizeof plain);
    }
    return out;
}

/* The smallest number of workers that was measured; NULL: none. */
static const struct twin_scaling_point *base_of(const struct tw_scale *s)
{
    for (size_t c = 0; c < s->counts; c++)
        if (s->point[c].runs)
            return &s->point[c];
    return NULL;
}

/* A figure is never alone: what stands in place of an interval where there is none. */
static const char *no_interval(size_t runs)
{
    return runs < 2 ? "one run" : "no spread";
}

static const char *range(const struct twin_estimate *e, double by, const char *unit, size_t runs, char out[48])
{
    char low[32], high[32];
    if (isnan(e->interval.low)) {
        snprintf(out, 48, "none: %s", no_interval(runs));
        return out;
    }
    snprintf(out, 48, "%.15s to %.15s%s", figure(e->interval.low * by, low), figure(e->interval.high * by, high), unit);
    return out;
}

/* "8.24 ms (7.1 to 9.6)" */
static const char *span(const struct twin_estimate *e, size_t runs, char out[64])
{
    const double by = e->value >= 1 ? 1 : e->value >= 1e-3 ? 1e3 : 1e6;
    const char *unit = by == 1 ? "s" : by < 1e6 ? "ms" : "us";
    if (isnan(e->value))
        return "-";
    if (isnan(e->interval.low))
        snprintf(out, 64, "%.3g %s (%s)", e->value * by, unit, no_interval(runs));
    else
        snprintf(out, 64, "%.3g %s (%.3g to %.3g)", e->value * by, unit, e->interval.low * by, e->interval.high * by);
    return out;
}

static void print_cost(const struct tw_scale *s)
{
    char a[32], b[48], c[32], d[48];
    tw_put("\n  %7s  %14s  %-24s%s\n", "workers", "worker-seconds", "95% interval", s->price > 0 ? "      price  95% interval" : "");
    for (size_t i = 0; i < s->counts; i++) {
        const struct twin_scaling_point *p = &s->point[i];
        if (p->runs == 0)
            continue;
        tw_put("  %7llu  %14s  %-24s", (unsigned long long)p->workers, figure(p->cost.value, a), range(&p->cost, 1, "", p->runs, b));
        if (s->price > 0)
            tw_put(" %10s  %s", figure(p->cost.value * s->price / 3600, c), range(&p->cost, s->price / 3600, "", p->runs, d));
        tw_put("\n");
    }
}

static void print_latency(const struct tw_scale *s)
{
    char of[TWIN_SCALING_QUANTILES][64];
    bool any = false;
    for (size_t i = 0; i < s->counts; i++)
        any |= !isnan(s->point[i].latency[TWIN_SCALING_P50].value);
    if (!any) /* whole runs are measured: steps were not seen */
        return;
    tw_put("\n  %7s  %-25s %-25s %s\n", "workers", "step p50 (95% interval)", "p90", "p99");
    for (size_t i = 0; i < s->counts; i++) {
        const struct twin_scaling_point *p = &s->point[i];
        if (p->runs)
            tw_put("  %7llu  %-25s %-25s %s\n", (unsigned long long)p->workers, span(&p->latency[0], p->runs, of[0]), span(&p->latency[1], p->runs, of[1]), span(&p->latency[2], p->runs, of[2]));
    }
}

static void print_speed(const struct tw_scale *s)
{
    const struct twin_scaling_point *base = base_of(s);
    char a[32], b[48], c[48], d[48];
    if (!base)
        return;
    tw_put("\n  %7s %5s  %14s  %-24s %10s  %-18s\n", "workers", "runs", "throughput", "95% interval", "efficiency", "95% interval");
    for (size_t i = 0; i < s->counts; i++) {
        const struct twin_scaling_point *p = &s->point[i];
        if (p->runs == 0) {
            tw_put("  %7llu %5zu  %14s\n", (unsigned long long)p->workers, p->runs, "not measured");
            continue;
        }
        snprintf(c, sizeof c, "%.3g%%", 100 * p->efficiency.value);
        tw_put("  %7llu %5zu  %14s  %-24s %10s  %-18s\n", (unsigned long long)p->workers, p->runs, figure(p->rate.value, a), range(&p->rate, 1, "", p->runs, b), c,
               p == base ? "the base" : range(&p->efficiency, 100, "%", p->runs < base->runs ? p->runs : base->runs, d));
    }
    print_cost(s);
    print_latency(s);
    tw_put("\n  throughput in %s/s; worker-seconds%s for one unit of work (%s); intervals: 95%%, between runs\n", s->work.unit, s->price > 0 ? " and price" : "", s->work.unit);
}

char *tw_scale_result_text(const struct tw_scale_result *r)
{
    struct tw_buf b = {0};
    if (r->runs == 0)
        tw_buf_puts(&b, r->why && strcmp(r->why, TW_SCALE_NO_RUN) == 0 ? r->why : "no weights were shown in timed runs");
    else if (r->classes == 1)
        tw_buf_printf(&b, "%llu run%s, one set of weights bit for bit", (unsigned long long)r->runs, r->runs == 1 ? "" : "s");
    else
        tw_buf_printf(&b, "%llu runs, %llu different sets of weights", (unsigned long long)r->runs, (unsigned long long)r->classes);
    if (r->compared && r->equal)
        tw_buf_puts(&b, "; equal to the base's");
    else if (r->compared && !isnan(r->distance))
        tw_buf_printf(&b, "; relative L2 distance to the base's %.2e", r->distance);
    else if (r->compared)
        tw_buf_puts(&b, "; not equal to the base's");
    else if (r->why && strcmp(r->why, TW_SCALE_NO_RUN) != 0)
        tw_buf_printf(&b, "; not held against the base: %s", r->why);
    if (!isnan(r->loss))
        tw_buf_printf(&b, "; rank 0's last loss %.6g", r->loss);
    if (!isnan(r->loss_distance) && r->loss_distance > 0)
        tw_buf_printf(&b, " (%.1e off)", r->loss_distance);
    if (r->broken_step)
        tw_buf_printf(&b, "; its loss is NaN or infinite from step %llu on", (unsigned long long)r->broken_step - 1);
    return tw_buf_steal(&b);
}

static void print_order(const struct tw_scale *s)
{
    tw_put("order       drawn, seed %llu:", (unsigned long long)s->args.seed);
    uint64_t round = 0, shown = 0;
    for (size_t i = 0; i < s->runs && shown < 40; i++) {
        if (s->run[i].round == 0)
            continue;
        tw_put("%s%llu", s->run[i].round != round && round ? " | " : " ", (unsigned long long)s->run[i].workers);
        round = s->run[i].round;
        shown++;
    }
    tw_put("%s\n", shown == 40 ? " ..." : "");
}

char *tw_scale_headline(const struct tw_scale *s)
{
    const struct twin_scaling_point *last = NULL, *base = base_of(s);
    struct tw_buf b = {0};
    char who[32];
    for (size_t c = 0; c < s->counts; c++)
        if (s->point[c].runs)
            last = &s->point[c];
    if (!base)
        tw_buf_puts(&b, "no run could be timed");
    else if (last == base)
        tw_buf_printf(&b, "%s only: nothing to hold that against", workers(base->workers, who));
    else {
        tw_buf_printf(&b, "%s do %.3g times the work of %llu", workers(last->workers, who), last->speedup.value, (unsigned long long)base->workers);
        if (isnan(last->speedup.interval.low)) {
            tw_buf_printf(&b, ": efficiency %.3g%%; no interval: %s", 100 * last->efficiency.value,
                          last->runs < 2 || base->runs < 2 ? "timed once only" : "the runs do not spread");
        } else {
            tw_buf_printf(&b, " (95%% interval %.3g to %.3g)", last->speedup.interval.low, last->speedup.interval.high);
            tw_buf_printf(&b, ": efficiency %.3g%% (%.3g to %.3g)", 100 * last->efficiency.value, 100 * last->efficiency.interval.low, 100 * last->efficiency.interval.high);
        }
    }
    return tw_buf_steal(&b);
}

int tw_scale_text(const struct tw_scale *s)
{
    char *head = tw_scale_headline(s);
    tw_put("SCALING     %s\n", head ? head : "");
    tw_free(head);
    print_speed(s);
    tw_put("\nresults     apart from speed: the weights at the end\n");
    for (size_t i = 0; i < s->counts; i++) {
        char *result = tw_scale_result_text(&s->result[i]);
        tw_put("  %7llu  %s\n", (unsigned long long)s->result[i].workers, result ? result : "");
        tw_free(result);
    }
    tw_put("\n");
    for (size_t i = 0; i < s->notes; i++)
        tw_put("%-11s %s\n", i ? "" : "note", s->note[i]);
    print_order(s);
    tw_put("measured    %s: %s\n", s->made, s->command);
    if (*s->configuration)
        tw_put("            %s\n", s->configuration);
    return 0;
}

/* ---- CSV: one line for each number of workers, all digits */

static void cells(struct tw_buf *b, const struct twin_estimate *e, double by)
{
    const double v[3] = {e->value * by, e->interval.low * by, e->interval.high * by};
    for (int i = 0; i < 3; i++) {
        if (isnan(v[i]))
            tw_buf_puts(b, ",");
        else
            tw_buf_printf(b, ",%.17g", v[i]);
    }
}

char *tw_scale_csv(const struct tw_scale *s)
{
    static const char *const columns[] = {"throughput", "speedup", "efficiency", "worker_seconds", "step_p50", "step_p90", "step_p99"};
    struct tw_buf b = {0};
    tw_buf_puts(&b, "workers,runs,unit,work,oversubscribed");
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        tw_buf_printf(&b, ",%s,%s_low,%s_high", columns[i], columns[i], columns[i]);
    tw_buf_puts(&b, ",outliers,mad\n");
    for (size_t c = 0; c < s->counts; c++) {
        const struct twin_scaling_point *p = &s->point[c];
        tw_buf_printf(&b, "%llu,%zu,%s,%.17g,%d", (unsigned long long)p->workers, p->runs, s->work.unit, tw_scale_work_of(s, p->workers), s->cores > 0 && p->workers > (uint64_t)s->cores);
        cells(&b, &p->rate, 1);
        cells(&b, &p->speedup, 1);
        cells(&b, &p->efficiency, 1);
        cells(&b, &p->cost, 1);
        for (int q = 0; q < TWIN_SCALING_QUANTILES; q++)
            cells(&b, &p->latency[q], 1);
        if (tw_scale_outliers_told(p))
            tw_buf_printf(&b, ",%zu,", p->mad.outliers);
        else
            tw_buf_puts(&b, ",,");
        if (!isnan(p->mad.mad))
            tw_buf_printf(&b, "%.17g", p->mad.mad);
        tw_buf_puts(&b, "\n");
    }
    return tw_buf_steal(&b);
}
