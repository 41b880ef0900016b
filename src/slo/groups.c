/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spread within groups of runs of one job: of the loss (M3) and of the run time (M7). A row says
 * the worst group, since a fleet is not made steady by its steady jobs.
 */
#include "slo_inside.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double CONFIDENCE = .95;

/* A group has the same command and inputs. For times also the machine is the same, and what was
 * recorded: watching more takes longer. 0: of one group. */
static int by_job(const struct slo_run *a, const struct slo_run *b)
{
    int order = slo_text_order(a->command, b->command);
    return order ? order : slo_text_order(a->inputs, b->inputs);
}

static int by_job_and_machine(const struct slo_run *a, const struct slo_run *b)
{
    int order = by_job(a, b);
    order = order ? order : slo_text_order(a->host, b->host);
    if (order)
        return order;
    if (a->steps != b->steps)
        return (a->steps > b->steps) - (a->steps < b->steps);
    return (a->records > b->records) - (a->records < b->records);
}

typedef int order_fn(const struct slo_run *a, const struct slo_run *b);
typedef double value_fn(const struct slo_run *r); /* NaN: the run has none */
/* Ratio of a group, of n values, with its interval. */
typedef double ratio_fn(const double *x, size_t n, double limit, struct twin_interval *interval);

static double loss_of(const struct slo_run *r)
{
    return r->loss;
}

static double time_of(const struct slo_run *r)
{
    return r->wall_s > 0 ? r->wall_s : NAN;
}

static double variance_ratio(const double *x, size_t n, double limit, struct twin_interval *out)
{
    const double sd = twin_stats_sd(x, n), scale = isnan(limit) ? 1 : limit;
    const struct twin_interval i = twin_stats_sd_interval(sd, n, CONFIDENCE);
    *out = (struct twin_interval){i.low * i.low / scale, i.high * i.high / scale};
    return sd * sd / scale;
}

/* The median is taken as known: beside the spread's own, its error is small. */
static double time_ratio(const double *x, size_t n, double limit, struct twin_interval *out)
{
    double median = NAN;
    (void)limit;
    if (twin_stats_median(x, n, &median) != 0 || !(median > 0))
        return NAN;
    const double sd = twin_stats_sd(x, n);
    const struct twin_interval i = twin_stats_sd_interval(sd, n, CONFIDENCE);
    *out = (struct twin_interval){i.low / median, i.high / median};
    return sd / median;
}

/* Runs that ended well, of the scope and the window, and have a value. */
static size_t gather(const struct slo_question *q, value_fn *value, const struct slo_run **out)
{
    size_t n = 0;
    for (size_t i = 0; i < q->count; i++) {
        const struct slo_run *r = q->run[i];
        if (r->recorded && strcmp(r->state, "ok") == 0 && r->start_ns > q->from_ns &&
            r->start_ns <= q->until_ns && !isnan(value(r)))
            out[n++] = r;
    }
    return n;
}

static int worst_group(const struct slo_question *q, order_fn *order, value_fn *value,
                       ratio_fn *ratio, struct tw_slo_row *row, struct twin_error *err)
{
    const struct slo_run **run = tw_calloc(q->count + 1, sizeof *run);
    double *x = tw_calloc(q->count + 1, sizeof *x);
    int rc = run && x ? 0 : tw_no_memory(err, "for the values of %zu runs", q->count);
    const size_t n = rc == 0 ? gather(q, value, run) : 0;
    const struct slo_run *worst = NULL;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && order(run[i], run[end]) == 0; end++)
            x[end - i] = value(run[end]);
        if (end - i < q->least || end - i < 2)
            continue;
        struct twin_interval interval = {NAN, NAN};
        const double r = ratio(x, end - i, q->limit, &interval);
        row->good++; /* groups that were judged */
        if (isnan(r) || (worst && r < row->value))
            continue;
        if (worst && r == row->value && order(run[i], worst) > 0)
            continue; /* of two that are as bad the same one each time */
        worst = run[i];
        row->value = r;
        row->interval = interval;
        row->runs = end - i;
        row->subject = run[i]->command;
    }
    tw_free(x);
    tw_free(run);
    return rc;
}

int slo_group_variance(const struct slo_question *q, struct tw_slo_row *row, struct twin_error *err)
{
    return worst_group(q, by_job, loss_of, variance_ratio, row, err);
}

int slo_group_run_time(const struct slo_question *q, struct tw_slo_row *row, struct twin_error *err)
{
    return worst_group(q, by_job_and_machine, time_of, time_ratio, row, err);
}
