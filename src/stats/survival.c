/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step at which runs first diverge, where runs that never did are censored: the survival curve
 * of Kaplan and Meier (1958), with the error of Greenwood (1926), and the log-rank test of Mantel
 * (1966) between two arms. Times are steps or seconds.
 */
#include "inside.h"

#include "base.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static int by_time(const void *a, const void *b)
{
    const struct twin_survival *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

/* Finite, and 0 or more. */
static bool valid_times(const double *time, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(time[i] >= 0) || isinf(time[i]))
            return false;
    return true;
}

/* Fills rows[] (room for n), one for each distinct time, ascending, with who was at risk and how
 * many diverged there; returns the number of rows. A run that was clean up to a time was still at
 * risk at that time. */
static size_t life_table(const double *time, const bool *parted, size_t n,
                         struct twin_survival *rows)
{
    for (size_t i = 0; i < n; i++)
        rows[i] = (struct twin_survival){.time = time[i], .at_risk = 1, .events = parted[i]};
    if (n > 1)
        qsort(rows, n, sizeof *rows, by_time);
    size_t count = 0;
    for (size_t i = 0, end; i < n; i = end) {
        struct twin_survival row = {.time = rows[i].time, .at_risk = n - i};
        for (end = i; end < n && rows[end].time == row.time; end++)
            row.events += rows[end].events;
        rows[count++] = row;
    }
    return count;
}

/* Greenwood's error, and the interval on the log(-log) scale, which stays inside [0, 1]
 * (Kalbfleisch and Prentice). */
static void survival_interval(struct twin_survival *s, double greenwood, double z)
{
    assert(s->survival >= 0 && s->survival <= 1);
    s->error = s->survival > 0 ? s->survival * sqrt(greenwood) : NAN;
    double log_survival = log(s->survival), half = z * sqrt(greenwood) / -log_survival;
    if (s->survival > 0)
        s->interval = (struct twin_interval){pow(s->survival, exp(half)),
                                             pow(s->survival, exp(-half))};
    else
        s->interval = (struct twin_interval){NAN, NAN};
}

/* The product runs over times at which something diverged; censored runs only shrink who is at
 * risk. */
int twin_stats_kaplan_meier(const double *time, const bool *parted, size_t n, double confidence,
                            struct twin_survival *points, size_t *count)
{
    *count = 0;
    if (!tw_stats_is_probability(confidence) || !valid_times(time, n))
        return TWIN_EINVAL;
    double z = -twin_stats_normal_quantile((1 - confidence) / 2), survival = 1, greenwood = 0;
    size_t rows = life_table(time, parted, n, points);
    for (size_t i = 0; i < rows; i++) {
        struct twin_survival row = points[i];
        if (row.events == 0)
            continue;
        double risk = (double)row.at_risk, events = (double)row.events;
        assert(events <= risk);
        survival *= (risk - events) / risk;
        greenwood += events / (risk * (risk - events));
        row.survival = survival;
        survival_interval(&row, greenwood, z);
        points[(*count)++] = row;
    }
    return 0;
}

double twin_stats_survival_quantile(const struct twin_survival *points, size_t count, double p)
{
    if (!tw_stats_is_probability(p))
        return NAN;
    for (size_t i = 0; i < count; i++)
        if (points[i].survival <= 1 - p)
            return points[i].time;
    return INFINITY;
}

/* Walks through both arms' tables together, over the times of either one. At each time the
 * divergences fall to the first arm by its share of the runs at risk, if both arms are alike; their
 * number has a hypergeometric variance. */
static void walk_arms(const struct twin_survival *a, size_t rows_a, const struct twin_survival *b,
                      size_t rows_b, struct twin_log_rank *out)
{
    double variance = 0, difference = 0;
    size_t i = 0, j = 0;
    out->expected = out->observed = 0;
    while (i < rows_a && j < rows_b) {
        double time = a[i].time < b[j].time ? a[i].time : b[j].time;
        bool in_a = a[i].time == time, in_b = b[j].time == time;
        /* Who diverged at this time, and who was at risk until then. */
        double events_a = in_a ? (double)a[i].events : 0;
        double events = events_a + (in_b ? (double)b[j].events : 0);
        double risk_a = (double)a[i].at_risk;
        double risk = risk_a + (double)b[j].at_risk;
        assert(events_a <= risk_a && events <= risk);
        double share = risk_a / risk;
        out->observed += events_a;
        out->expected += events * share;
        difference += events_a - events * share;
        if (risk > 1) /* variance of the hypergeometric distribution */
            variance += events * share * (1 - share) * (risk - events) / (risk - 1);
        i += in_a;
        j += in_b;
    }
    for (; i < rows_a; i++) { /* alone at risk: what happens is what was expected */
        out->observed += (double)a[i].events;
        out->expected += (double)a[i].events;
    }
    if (variance > 0) {
        out->chi2 = difference * difference / variance;
        out->p = twin_stats_chi2_upper(out->chi2, 1);
    }
}

int twin_stats_log_rank(const double *time_a, const bool *parted_a, size_t na, const double *time_b,
                        const bool *parted_b, size_t nb, struct twin_log_rank *out)
{
    *out = (struct twin_log_rank){NAN, NAN, NAN, NAN};
    if (na == 0 || nb == 0 || !valid_times(time_a, na) || !valid_times(time_b, nb))
        return TWIN_EINVAL;
    struct twin_survival *a = tw_reallocarray(NULL, na, sizeof *a);
    struct twin_survival *b = tw_reallocarray(NULL, nb, sizeof *b);
    int error = a && b ? 0 : TWIN_ENOMEM;
    if (!error)
        walk_arms(a, life_table(time_a, parted_a, na, a), b, life_table(time_b, parted_b, nb, b),
                  out);
    tw_free(a);
    tw_free(b);
    return error;
}
