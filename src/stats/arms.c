/* SPDX-License-Identifier: Apache-2.0 */
/* Arms of metrics or timings compared: equal variances (Brown-Forsythe), times equal within a
 * margin (TOST). */
#include "inside.h"

#include "base.h"

#include "src/stats/stats.h"

#include <math.h>

int twin_stats_brown_forsythe(const double *const *groups, const size_t *sizes, size_t k,
                              struct twin_f_test *out)
{
    *out = (struct twin_f_test){NAN, NAN, NAN, NAN};
    if (k < 2)
        return TWIN_EINVAL;
    /* two values are always equally far from their median: no information */
    for (size_t g = 0; g < k; g++)
        if (sizes[g] < 3 || !tw_stats_all_finite(groups[g], sizes[g]))
            return TWIN_EINVAL;
    double total = 0, mean = 0, between = 0, within = 0;
    for (size_t g = 0; g < k; g++) {
        double *deviation = tw_stats_sorted_copy(groups[g], sizes[g]), size = (double)sizes[g];
        if (!deviation)
            return TWIN_ENOMEM;
        double median = tw_stats_median_sorted(deviation, sizes[g]);
        for (size_t i = 0; i < sizes[g]; i++)
            deviation[i] = fabs(deviation[i] - median);
        struct tw_moments m = tw_stats_moments(deviation, sizes[g], false);
        tw_free(deviation);
        within += m.variance * (size - 1);
        double step = m.mean - mean; /* Welford's update by a whole group */
        between += step * step * (total * size / (total + size));
        total += size;
        mean += step * size / total;
    }
    out->df1 = (double)(k - 1);
    out->df2 = total - (double)k;
    if (within > 0) {
        out->f = between / out->df1 / (within / out->df2);
        out->p = twin_stats_f_upper(out->f, out->df1, out->df2);
    }
    return 0;
}

static bool all_positive(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(x[i] > 0) || isinf(x[i]))
            return false;
    return true;
}

struct twin_equivalence twin_stats_equivalence(const double *x, size_t nx, const double *y,
                                               size_t ny, double margin, double alpha)
{
    struct twin_equivalence e = {NAN, {NAN, NAN}, NAN, NAN};
    if (nx < 2 || ny < 2 || !(margin > 1) || isinf(margin) || !(alpha > 0 && alpha < 0.5) ||
        !all_positive(x, nx) || !all_positive(y, ny))
        return e;
    struct tw_moments mx = tw_stats_moments(x, nx, true), my = tw_stats_moments(y, ny, true);
    double vx = mx.variance / (double)nx;
    double vy = my.variance / (double)ny;
    double difference = mx.mean - my.mean;
    double error = sqrt(vx + vy), bound = log(margin);
    e.ratio = exp(difference);
    if (!(error > 0)) /* no spread at all: a clock too coarse, not proof */
        return e;
    /* Welch and Satterthwaite's degrees of freedom, as shares of the variance so that nothing
     * underflows */
    double share = vx / (vx + vy);
    e.df = 1 / (share * share / (double)(nx - 1) + (1 - share) * (1 - share) / (double)(ny - 1));
    double half = twin_stats_t_quantile(1 - alpha, e.df) * error;
    e.interval = (struct twin_interval){exp(difference - half), exp(difference + half)};
    e.p = fmax(twin_stats_t_cdf(-(difference + bound) / error, e.df),
               twin_stats_t_cdf((difference - bound) / error, e.df));
    return e;
}

uint64_t twin_stats_equivalence_runs(double cv, double margin, double alpha, double power)
{
    if (!(cv > 0) || isinf(cv) || !(margin > 1) || !tw_stats_is_probability(alpha) ||
        !tw_stats_is_probability(power))
        return 0;
    /* both one-sided tests must pass: each may miss half of 1 - power */
    double z = -twin_stats_normal_quantile(alpha) - twin_stats_normal_quantile((1 - power) / 2);
    double root = z * cv / log(margin), n = ceil(2 * root * root);
    return tw_stats_runs(n);
}
