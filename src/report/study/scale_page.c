/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a scaling study (twinrun scale --html): the curve with its error bars, what qualifies
 * the figures, the distribution of step times, the tables behind it, and what the runs recorded. */
#include "scale_report.h"

#include "base.h"
#include "phrase.h"
#include "verdict_gather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A measured curve with the line of perfect scaling beside it; an entry for each number of
 * workers. */
struct curve {
    double x[TW_SCALE_COUNTS], y[TW_SCALE_COUNTS], low[TW_SCALE_COUNTS], high[TW_SCALE_COUNTS],
        ideal[TW_SCALE_COUNTS];
};

/* Entry i: a figure with its interval, times `by`. */
static void set_point(struct curve *c, size_t i, uint64_t workers, const struct twin_estimate *e,
                      double by)
{
    c->x[i] = (double)workers;
    c->y[i] = e->value * by;
    c->low[i] = e->interval.low * by;
    c->high[i] = e->interval.high * by;
}

/* One picture. ideal: the name of the second line; NULL: none. */
static void plot(struct twin_page *p, const struct tw_scale *s, const struct curve *c,
                 const char *question, const char *caption, const char *y_name, const char *ideal)
{
    const struct twin_page_series series[] = {
        {.name = "measured", .y = c->y, .low = c->low, .high = c->high},
        {.name = ideal, .y = c->ideal}};
    const struct twin_page_plot figure = {.question = question,
                                          .caption = caption,
                                          .x_name = "workers",
                                          .y_name = y_name,
                                          .style = TWIN_PAGE_POINTS,
                                          .from_zero = true,
                                          .x = c->x,
                                          .count = s->counts,
                                          .series = series,
                                          .series_count = ideal ? 2 : 1,
                                          .nan_name = "not measured"};
    twin_page_plot(p, &figure);
}

/* Throughput and efficiency over the number of workers. rate.ideal grows in proportion from the
 * base. */
static void curves(struct twin_page *p, const struct tw_scale *s)
{
    struct curve rate, efficiency;
    char *unit = tw_printf("%s a second", s->work.unit);
    /* the fewest workers that were measured */
    size_t base = 0;
    while (base + 1 < s->counts && s->point[base].runs == 0)
        base++;
    for (size_t i = 0; i < s->counts; i++) {
        const struct twin_scaling_point *q = &s->point[i];
        set_point(&rate, i, q->workers, &q->rate, 1);
        set_point(&efficiency, i, q->workers, &q->efficiency, 100);
        rate.ideal[i] = s->point[base].rate.value * (double)q->workers /
                        (double)s->point[base].workers;
        efficiency.ideal[i] = 100;
    }
    plot(p, s, &rate, "How much faster do more workers make it?",
         "Geometric mean of the runs; bars: 95% interval between runs. The other line is what "
         "twice as many workers would do if each did as much as one of the fewest.",
         unit ? unit : "", "if nothing were lost");
    plot(p, s, &efficiency, "How much of each worker is left?",
         "Throughput for each worker, held against the fewest workers, which have no interval of "
         "their own.",
         "efficiency (%)", "if nothing were lost");
    tw_free(unit);
}

/* Two cells: the figure times `by`, and its interval; empty where nothing is known. */
static void cell_of(struct twin_page *p, const struct twin_estimate *e, double by)
{
    if (isnan(e->value))
        twin_page_cell(p, "%s", "");
    else
        twin_page_cell(p, "%.4g", e->value * by);
    if (isnan(e->interval.low))
        twin_page_cell(p, "%s", isnan(e->value) ? "" : "none");
    else
        twin_page_cell(p, "%.4g to %.4g", e->interval.low * by, e->interval.high * by);
}

/* Three tables: throughput with cost, step times in ms, and whether the results are the same. */
static void tables(struct twin_page *p, const struct tw_scale *s)
{
    static const char *const speed[] = {"workers",        "runs",           "throughput",
                                        "95% interval",   "efficiency (%)", "95% interval",
                                        "worker-seconds", "95% interval",   NULL};
    static const char *const latency[] = {
        "workers",      "step p50 (ms)", "95% interval", "p90 (ms)",
        "95% interval", "p99 (ms)",      "95% interval", NULL};
    static const char *const results[] = {"workers", "weights at the end", NULL};
    twin_page_heading(p, "The figures");
    twin_page_small(p, "Throughput in %s a second, worker-seconds for one unit of work (%s).",
                    s->work.unit, s->work.unit);
    twin_page_table(p, speed, "nnnnnnnn");
    for (size_t i = 0; i < s->counts; i++) {
        const struct twin_scaling_point *q = &s->point[i];
        twin_page_cell(p, "%llu", (unsigned long long)q->workers);
        twin_page_cell(p, "%zu", q->runs);
        cell_of(p, &q->rate, 1);
        cell_of(p, &q->efficiency, 100);
        cell_of(p, &q->cost, 1);
    }
    twin_page_table_end(p);
    twin_page_table(p, latency, "nnnnnnn");
    for (size_t i = 0; i < s->counts; i++) {
        twin_page_cell(p, "%llu", (unsigned long long)s->point[i].workers);
        /* seconds become milliseconds */
        for (int k = 0; k < TWIN_SCALING_QUANTILES; k++)
            cell_of(p, &s->point[i].latency[k], 1000);
    }
    twin_page_table_end(p);
    twin_page_heading(p, "Are the results the same?");
    twin_page_small(p, "%s", "Apart from speed, which says nothing about it.");
    twin_page_table(p, results, "nt");
    for (size_t i = 0; i < s->counts; i++) {
        char *result = tw_scale_result_text(&s->result[i]);
        twin_page_cell(p, "%llu", (unsigned long long)s->result[i].workers);
        twin_page_cell(p, "%s", result ? result : "");
        tw_free(result);
    }
    twin_page_table_end(p);
}

/* The times of all steps of all timed runs, a distribution for each number of workers. One without
 * memory is left out. */
static void histogram(struct twin_page *p, const struct tw_scale *s)
{
    struct twin_page_set set[TW_SCALE_COUNTS];
    double *values[TW_SCALE_COUNTS] = {NULL};
    char *name[TW_SCALE_COUNTS] = {NULL};
    size_t sets = 0;
    for (size_t c = 0; c < s->counts; c++) {
        /* count first, then copy; steps are kept in seconds and shown in ms */
        size_t n = 0, at = 0;
        for (size_t i = 0; i < s->runs; i++)
            n += s->run[i].workers == s->count[c] && tw_scale_counts(s, &s->run[i])
                     ? s->run[i].step_count
                     : 0;
        values[c] = n ? tw_reallocarray(NULL, n, sizeof(double)) : NULL;
        name[c] = tw_printf("%llu worker%s", (unsigned long long)s->count[c],
                            tw_plural_s(s->count[c]));
        if (!values[c] || !name[c])
            continue;
        for (size_t i = 0; i < s->runs; i++)
            for (size_t k = 0; s->run[i].workers == s->count[c] && tw_scale_counts(s, &s->run[i]) &&
                               k < s->run[i].step_count;
                 k++)
                values[c][at++] = 1000 * s->run[i].step[k];
        set[sets++] = (struct twin_page_set){name[c], values[c], n};
    }
    const struct twin_page_histogram h = {
        .question = "How long do steps take?",
        .caption = "Every step behind the warm-up of every timed run, on the slowest rank of each.",
        .x_name = "step time (ms)",
        .log = true,
        .set = set,
        .sets = sets};
    if (sets)
        twin_page_histogram(p, &h);
    for (size_t c = 0; c < s->counts; c++) {
        tw_free(values[c]);
        tw_free(name[c]);
    }
}

/* What the runs of round 0 recorded, a line for each number of workers. Those runs were made for
 * the results and not for their speed. A study that was read from its file has no folder with runs
 * (home NULL), and a run whose folder is gone is left out. */
static void recorded(struct twin_page *p, const struct tw_scale *s)
{
    struct twin_run *run[TW_SCALE_COUNTS] = {NULL};
    char *label[TW_SCALE_COUNTS] = {NULL};
    size_t n = 0;
    for (size_t i = 0; s->home && i < s->runs && n < TW_SCALE_COUNTS; i++) {
        /* only a run that ended well shows what that number of workers computes */
        char *path = s->run[i].round == 0 && s->run[i].good
                         ? tw_printf("%s/runs/%s", s->home, s->run[i].run)
                         : NULL;
        if (path && (label[n] = tw_printf("%llu worker%s", (unsigned long long)s->run[i].workers,
                                          tw_plural_s(s->run[i].workers))) != NULL) {
            if (twin_run_load(path, &run[n], NULL) == 0)
                n++;
            else
                tw_free(label[n]);
        }
        tw_free(path);
    }
    tw_page_curves(p, (const struct twin_run *const *)run, n, (const char *const *)label);
    for (size_t i = 0; i < n; i++) {
        twin_run_free(run[i]);
        tw_free(label[i]);
    }
}

struct twin_page *tw_scale_draw(const struct tw_scale *s)
{
    struct twin_page *p = twin_page_open("Scaling study");
    char *head = tw_scale_headline(s);
    /* a page without its headline is none; failures of the sections are found when it is
     * finished */
    if (p && head) {
        twin_page_verdict(p, s->measured ? TWIN_MOOD_CLEAN : TWIN_MOOD_TROUBLE, "SCALING", head,
                          s->command);
        twin_page_facts(p, "");
        twin_page_fact(p, "measured", "%s", s->made);
        twin_page_fact(p, "with", "%s", s->configuration);
        twin_page_fact(p, "runs", "%llu timed of each number of workers, order drawn, seed %llu",
                       (unsigned long long)s->args.repeats, (unsigned long long)s->args.seed);
        twin_page_fact(p, "cores", "%ld", s->cores);
        twin_page_facts_end(p);
        if (s->measured)
            curves(p, s);
        if (s->notes) {
            twin_page_heading(p, "What qualifies the figures");
            twin_page_list(p, (const char *const *)s->note, s->notes);
        }
        histogram(p, s);
        tables(p, s);
        recorded(p, s);
    }
    if (!head) {
        twin_page_close(p);
        p = NULL;
    }
    tw_free(head);
    return p;
}
