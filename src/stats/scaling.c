/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the runs of each number of workers to the curve: rates, latencies, efficiency, cost
 * (src/stats/scaling.h). `twinrun scale` measures the runs, src/study/scale_compute.c calls this,
 * and the report draws the points. Only numbers come in and go out.
 */
#include "inside.h"

#include "base.h"

#include "src/stats/scaling.h"

#include <assert.h>
#include <math.h>

/* BCA_FROM: runs from which the bootstrap interval is used; BCa covers only 81% at five values, so
 * below that it is Student's on logarithms. The seed is fixed, so that a report made again says the
 * same. */
enum { BCA_FROM = 20, RESAMPLES = 10000, SEED = 1 };

/* what could not be estimated */
static const struct twin_estimate unknown = {NAN, {NAN, NAN}, NAN};

size_t twin_scaling_steps_needed(enum twin_scaling_quantile q)
{
    static const size_t needed[] = {1, 10, 100};
    _Static_assert(sizeof needed / sizeof needed[0] == TWIN_SCALING_QUANTILES, "one for each");
    assert((unsigned)q < TWIN_SCALING_QUANTILES);
    return needed[q];
}

/* Are all values finite and above 0? */
static bool all_positive(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(x[i] > 0) || !isfinite(x[i]))
            return false;
    return true;
}

static bool is_usable(const struct twin_scaling_set *s)
{
    bool ok = s->workers >= 1 && all_positive(s->rate, s->runs);
    for (size_t i = 0; ok && s->step && i < s->runs; i++)
        ok = all_positive(s->step[i], s->steps[i]);
    return ok;
}

/* Geometric mean of positive values with its interval. 0, or the error of the bootstrap. */
static int centre_of(const double *x, size_t n, double confidence, struct twin_estimate *out)
{
    assert(n > 0);
    *out = twin_stats_log_mean_interval(x, n, confidence);
    if (n < BCA_FROM)
        return 0;
    struct twin_bca b;
    double *logs = tw_reallocarray(NULL, n, sizeof *logs);
    if (!logs)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < n; i++)
        logs[i] = log(x[i]);
    int rc = twin_stats_bca(twin_stats_mean_of, logs, n, RESAMPLES, SEED, confidence, &b);
    tw_free(logs);
    /* all equal: no resample differs, and Student's interval has no width either */
    if (rc == 0 && !isnan(b.interval.low))
        out->interval = (struct twin_interval){exp(b.interval.low), exp(b.interval.high)};
    return rc;
}

/* Linear between order statistics, as R's type 7 and NumPy do. */
static double quantile(const double *sorted, size_t n, double p)
{
    assert(n > 0 && p >= 0 && p <= 1);
    const double at = p * (double)(n - 1);
    const size_t low = (size_t)at;
    return low + 1 < n ? sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low])
                       : sorted[n - 1];
}

/* Fills latency: for each quantile, that of each run's steps, then the mean over runs. A quantile
 * is left unknown where any run has too few steps for it. 0 or TWIN_ENOMEM. */
static int latencies(const struct twin_scaling_set *s, double confidence,
                     struct twin_scaling_point *out)
{
    static const double share[] = {.5, .9, .99};
    _Static_assert(sizeof share / sizeof share[0] == TWIN_SCALING_QUANTILES, "one for each");
    double *of_run[TWIN_SCALING_QUANTILES] = {NULL};
    bool have[TWIN_SCALING_QUANTILES];
    int rc = 0;
    for (int q = 0; q < TWIN_SCALING_QUANTILES; q++) {
        have[q] = s->step && s->runs > 0;
        of_run[q] = tw_reallocarray(NULL, s->runs + 1, sizeof(double));
        rc = of_run[q] ? rc : TWIN_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && s->step && i < s->runs; i++) {
        double *sorted = s->steps[i] ? tw_stats_sorted_copy(s->step[i], s->steps[i]) : NULL;
        rc = s->steps[i] && !sorted ? TWIN_ENOMEM : 0;
        for (int q = 0; rc == 0 && q < TWIN_SCALING_QUANTILES; q++) {
            have[q] &= s->steps[i] >= twin_scaling_steps_needed((enum twin_scaling_quantile)q);
            of_run[q][i] = sorted ? quantile(sorted, s->steps[i], share[q]) : NAN;
        }
        tw_free(sorted);
    }
    for (int q = 0; q < TWIN_SCALING_QUANTILES; q++) {
        if (rc == 0 && have[q])
            rc = centre_of(of_run[q], s->runs, confidence, &out->latency[q]);
        tw_free(of_run[q]);
    }
    return rc;
}

/* An estimate in another unit. */
static struct twin_estimate scaled(struct twin_estimate e, double by)
{
    return (struct twin_estimate){
        e.value * by, {e.interval.low * by, e.interval.high * by}, e.confidence};
}

/* Fills the point of one number of workers. z: room for as many scores as the set has runs. A set
 * without runs stays unknown. */
static int make_point(const struct twin_scaling_set *s, const struct twin_scaling_set *base,
                      double confidence, struct twin_scaling_point *out, double *z)
{
    const double workers = (double)s->workers;
    *out = (struct twin_scaling_point){.workers = s->workers,
                                       .runs = s->runs,
                                       .rate = unknown,
                                       .median = unknown,
                                       .speedup = unknown,
                                       .efficiency = unknown,
                                       .cost = unknown,
                                       .latency = {unknown, unknown, unknown},
                                       .mad = {NAN, NAN, 0}};
    if (s->runs == 0)
        return 0;
    assert(base && base->runs > 0 && base->workers <= s->workers);
    int rc = centre_of(s->rate, s->runs, confidence, &out->rate);
    rc = rc ? rc : twin_stats_median_interval(s->rate, s->runs, confidence, &out->median);
    rc = rc ? rc : twin_stats_modified_z(s->rate, s->runs, z, &out->mad);
    rc = rc ? rc : latencies(s, confidence, out);
    if (rc != 0)
        return rc;
    /* cost falls as the rate rises, so the ends change places */
    out->cost = (struct twin_estimate){
        workers / out->rate.value,
        {workers / out->rate.interval.high, workers / out->rate.interval.low},
        out->rate.confidence};
    if (s == base) {
        out->speedup.value = out->efficiency.value = 1;
        return 0;
    }
    out->speedup.value = out->rate.value /
                         twin_stats_log_mean_interval(base->rate, base->runs, confidence).value;
    /* of the two one-sided tests only the interval is used: the margin does not enter it */
    if (s->runs > 1 && base->runs > 1) {
        out->speedup.interval = twin_stats_equivalence(s->rate, s->runs, base->rate, base->runs, 2,
                                                       (1 - confidence) / 2)
                                    .interval;
        out->speedup.confidence = confidence;
    }
    out->efficiency = scaled(out->speedup, (double)base->workers / workers);
    return 0;
}

int twin_scaling(const struct twin_scaling_set *set, size_t sets, double confidence,
                 struct twin_scaling_point *out, double *z)
{
    const struct twin_scaling_set *base = NULL;
    size_t most = 0;
    bool ok = confidence > 0 && confidence < 1;
    for (size_t i = 0; i < sets; i++) {
        ok = ok && is_usable(&set[i]);
        most = set[i].runs > most ? set[i].runs : most;
        if (set[i].runs && (!base || set[i].workers < base->workers))
            base = &set[i];
    }
    if (!ok)
        return TWIN_EINVAL;
    double *scores = tw_reallocarray(NULL, most + 1, sizeof *scores);
    int rc = scores ? 0 : TWIN_ENOMEM;
    for (size_t i = 0, at = 0; i < sets && rc == 0; i++) {
        rc = make_point(&set[i], base, confidence, &out[i], scores);
        for (size_t k = 0; rc == 0 && z && k < set[i].runs; k++)
            z[at++] = scores[k];
    }
    tw_free(scores);
    return rc;
}
