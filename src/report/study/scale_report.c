/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a scaling study is put: text and CSV. Speed and results are told apart, never mixed: whether
 * more workers are faster says nothing about whether they compute the same.
 *
 * No figure stands alone: behind each is its 95% interval between runs, or why there is none. The
 * base is the smallest number of workers that was measured; efficiency is held against it.
 */
#include "scale_report.h"

#include "base.h"
#include "phrase.h"
#include "put.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- text */

/* "1 worker", "4 workers"; returns out. */
static const char *workers_text(uint64_t n, char out[32])
{
    snprintf(out, 32, "%llu worker%s", (unsigned long long)n, tw_plural_s(n));
    return out;
}

/* A number with four digits, or whole with separators from 1000 on; "-" for NaN. */
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

/* What stands in place of an interval where there is none. With one run nothing is known of the
 * spread; with several that agree there is none. */
static const char *no_interval(size_t runs)
{
    return runs < 2 ? "one run" : "no spread";
}

/* The interval of a figure times `by`, with the unit behind it: "3.1 to 3.4%". */
static const char *range_text(const struct twin_estimate *e, double by, const char *unit,
                              size_t runs, char out[48])
{
    char low[32], high[32];
    if (isnan(e->interval.low)) {
        snprintf(out, 48, "none: %s", no_interval(runs));
        return out;
    }
    snprintf(out, 48, "%.15s to %.15s%s", figure(e->interval.low * by, low),
             figure(e->interval.high * by, high), unit);
    return out;
}

/* A time with its interval in the unit that suits it: "8.24 ms (7.1 to 9.6)". */
static const char *span(const struct twin_estimate *e, size_t runs, char out[64])
{
    double by = 1e6;
    const char *unit = "us";
    if (e->value >= 1) {
        by = 1;
        unit = "s";
    } else if (e->value >= 1e-3) {
        by = 1e3;
        unit = "ms";
    }
    if (isnan(e->value))
        return "-";
    if (isnan(e->interval.low))
        snprintf(out, 64, "%.3g %s (%s)", e->value * by, unit, no_interval(runs));
    else
        snprintf(out, 64, "%.3g %s (%.3g to %.3g)", e->value * by, unit, e->interval.low * by,
                 e->interval.high * by);
    return out;
}

/* Worker-seconds for one unit of work, and what they cost. price is that of a worker-hour, so a
 * worker-second costs a 3600th of it. */
static void print_cost(FILE *out, const struct tw_scale *s)
{
    char a[32], b[48], c[32], d[48];
    tw_put_to(out, "\n  %7s  %14s  %-24s%s\n", "workers", "worker-seconds", "95% interval",
              s->price > 0 ? "      price  95% interval" : "");
    for (size_t i = 0; i < s->counts; i++) {
        const struct twin_scaling_point *p = &s->point[i];
        if (p->runs == 0)
            continue;
        tw_put_to(out, "  %7llu  %14s  %-24s", (unsigned long long)p->workers,
                  figure(p->cost.value, a), range_text(&p->cost, 1, "", p->runs, b));
        if (s->price > 0)
            tw_put_to(out, " %10s  %s", figure(p->cost.value * s->price / 3600, c),
                      range_text(&p->cost, s->price / 3600, "", p->runs, d));
        tw_put_to(out, "\n");
    }
}

/* Quantiles of the step time. */
static void print_latency(FILE *out, const struct tw_scale *s)
{
    char of[TWIN_SCALING_QUANTILES][64];
    bool any = false;
    for (size_t i = 0; i < s->counts; i++)
        any |= !isnan(s->point[i].latency[TWIN_SCALING_P50].value);
    if (!any) /* whole runs are measured: steps were not seen */
        return;
    tw_put_to(out, "\n  %7s  %-25s %-25s %s\n", "workers", "step p50 (95% interval)", "p90", "p99");
    for (size_t i = 0; i < s->counts; i++) {
        const struct twin_scaling_point *p = &s->point[i];
        if (p->runs)
            tw_put_to(out, "  %7llu  %-25s %-25s %s\n", (unsigned long long)p->workers,
                      span(&p->latency[0], p->runs, of[0]), span(&p->latency[1], p->runs, of[1]),
                      span(&p->latency[2], p->runs, of[2]));
    }
}

/* The three tables of speed: throughput and efficiency, cost, latency. */
static void print_speed(FILE *out, const struct tw_scale *s)
{
    const struct twin_scaling_point *base = base_of(s);
    char a[32], b[48], c[48], d[48];
    if (!base)
        return;
    tw_put_to(out, "\n  %7s %5s  %14s  %-24s %10s  %-18s\n", "workers", "runs", "throughput",
              "95% interval", "efficiency", "95% interval");
    for (size_t i = 0; i < s->counts; i++) {
        const struct twin_scaling_point *p = &s->point[i];
        if (p->runs == 0) {
            tw_put_to(out, "  %7llu %5zu  %14s\n", (unsigned long long)p->workers, p->runs,
                      "not measured");
            continue;
        }
        snprintf(c, sizeof c, "%.3g%%", 100 * p->efficiency.value);
        /* an efficiency rests on the runs of two numbers of workers: the fewer ones say why it has
         * no interval */
        const size_t fewer = p->runs < base->runs ? p->runs : base->runs;
        tw_put_to(out, "  %7llu %5zu  %14s  %-24s %10s  %-18s\n", (unsigned long long)p->workers,
                  p->runs, figure(p->rate.value, a), range_text(&p->rate, 1, "", p->runs, b), c,
                  p == base ? "the base" : range_text(&p->efficiency, 100, "%", fewer, d));
    }
    print_cost(out, s);
    print_latency(out, s);
    tw_put_to(out,
              "\n  throughput in %s/s; worker-seconds%s for one unit of work (%s); intervals: "
              "95%%, between runs\n",
              s->work.unit, s->price > 0 ? " and price" : "", s->work.unit);
}

char *tw_scale_result_text(const struct tw_scale_result *r)
{
    struct tw_buf b = {0};
    /* how the runs of this number of workers agree among themselves */
    if (r->runs == 0)
        tw_buf_puts(&b, r->why && strcmp(r->why, TW_SCALE_NO_RUN) == 0
                            ? r->why
                            : "no weights were shown in timed runs");
    else if (r->classes == 1)
        tw_buf_printf(&b, "%llu run%s, one set of weights bit for bit", (unsigned long long)r->runs,
                      tw_plural_s(r->runs));
    else
        tw_buf_printf(&b, "%llu runs, %llu different sets of weights", (unsigned long long)r->runs,
                      (unsigned long long)r->classes);
    /* how they agree with the base */
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
        tw_buf_printf(&b, "; its loss is NaN or infinite from step %llu on",
                      (unsigned long long)r->broken_step - 1);
    return tw_buf_steal(&b);
}

/* The order in which timed runs were made, drawn at random; rounds are separated by a bar. At most
 * 40 runs are listed. */
static void print_order(FILE *out, const struct tw_scale *s)
{
    tw_put_to(out, "order       drawn, seed %llu:", (unsigned long long)s->args.seed);
    uint64_t round = 0, shown = 0;
    for (size_t i = 0; i < s->runs && shown < 40; i++) {
        /* runs of round 0 are not timed */
        if (s->run[i].round == 0)
            continue;
        tw_put_to(out, "%s%llu", s->run[i].round != round && round ? " | " : " ",
                  (unsigned long long)s->run[i].workers);
        round = s->run[i].round;
        shown++;
    }
    tw_put_to(out, "%s\n", shown == 40 ? " ..." : "");
}

/* Compares the largest number of workers that was measured with the base. */
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
        tw_buf_printf(&b, "%s only: nothing to hold that against",
                      workers_text(base->workers, who));
    else {
        tw_buf_printf(&b, "%s do %.3g times the work of %llu", workers_text(last->workers, who),
                      last->speedup.value, (unsigned long long)base->workers);
        if (isnan(last->speedup.interval.low)) {
            tw_buf_printf(&b, ": efficiency %.3g%%; no interval: %s", 100 * last->efficiency.value,
                          last->runs < 2 || base->runs < 2 ? "timed once only"
                                                           : "the runs do not spread");
        } else {
            tw_buf_printf(&b, " (95%% interval %.3g to %.3g)", last->speedup.interval.low,
                          last->speedup.interval.high);
            tw_buf_printf(&b, ": efficiency %.3g%% (%.3g to %.3g)", 100 * last->efficiency.value,
                          100 * last->efficiency.interval.low,
                          100 * last->efficiency.interval.high);
        }
    }
    return tw_buf_steal(&b);
}

/* Speed, then results, then what qualifies both: notes, the order of runs, and with what it was
 * measured. */
void tw_scale_text(FILE *out, const struct tw_scale *s)
{
    char *head = tw_scale_headline(s);
    tw_put_to(out, "SCALING     %s\n", head ? head : "");
    tw_free(head);
    print_speed(out, s);
    tw_put_to(out, "\nresults     apart from speed: the weights at the end\n");
    for (size_t i = 0; i < s->counts; i++) {
        char *result = tw_scale_result_text(&s->result[i]);
        tw_put_to(out, "  %7llu  %s\n", (unsigned long long)s->result[i].workers,
                  result ? result : "");
        tw_free(result);
    }
    tw_put_to(out, "\n");
    for (size_t i = 0; i < s->notes; i++)
        tw_put_to(out, "%-11s %s\n", i ? "" : "note", s->note[i]);
    print_order(out, s);
    tw_put_to(out, "measured    %s: %s\n", s->made, s->command);
    if (*s->configuration)
        tw_put_to(out, "            %s\n", s->configuration);
}

/* ---- CSV: one line for each number of workers, all digits */

/* A figure and the ends of its interval as three cells; what is not known is empty. */
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

/* 17 digits give back each double exactly. */
char *tw_scale_csv(const struct tw_scale *s)
{
    static const char *const columns[] = {"throughput", "speedup",  "efficiency", "worker_seconds",
                                          "step_p50",   "step_p90", "step_p99"};
    struct tw_buf b = {0};
    tw_buf_puts(&b, "workers,runs,unit,work,oversubscribed");
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        tw_buf_printf(&b, ",%s,%s_low,%s_high", columns[i], columns[i], columns[i]);
    tw_buf_puts(&b, ",outliers,mad\n");
    for (size_t c = 0; c < s->counts; c++) {
        const struct twin_scaling_point *p = &s->point[c];
        tw_buf_printf(&b, "%llu,%zu,%s,%.17g,%d", (unsigned long long)p->workers, p->runs,
                      s->work.unit, tw_scale_work_of(s, p->workers),
                      s->cores > 0 && p->workers > (uint64_t)s->cores);
        cells(&b, &p->rate, 1);
        cells(&b, &p->speedup, 1);
        cells(&b, &p->efficiency, 1);
        cells(&b, &p->cost, 1);
        for (int q = 0; q < TWIN_SCALING_QUANTILES; q++)
            cells(&b, &p->latency[q], 1);
        /* with too few runs, or a MAD of 0, outliers cannot be told */
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
