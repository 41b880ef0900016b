/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a difference between two sets of runs real (src/stats/significant.h)? Which method answers
 * which question, and what its result means beside the floor. `twinrun significant` asks, and so
 * does the report of a diagnosis; the methods themselves are in arms.c, rank.c and sample.c.
 *
 * An answer is never "no difference" for want of values: where no outcome of a test could have been
 * significant the answer is "too few", with the number that would be enough.
 */
#include "inside.h"

#include "base.h"

#include "src/stats/significant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* how often an effect of the size that is looked for shall be found */
#define POWER .8

static const char *const questions[] = {"metric", "speed", "variance", "within", "bitwise"};
/* MOST: values of a set at most */
enum { QUESTIONS = sizeof questions / sizeof questions[0], MOST = 1000000 };
_Static_assert(QUESTIONS == TWIN_ASK_BITWISE + 1, "a name for each question");

const char *twin_question_name(enum twin_question q)
{
    assert((unsigned)q < QUESTIONS);
    return questions[q];
}

int twin_question_parse(const char *s, enum twin_question *out)
{
    for (int i = 0; i < QUESTIONS; i++)
        if (strcmp(s, questions[i]) == 0) {
            *out = (enum twin_question)i;
            return 0;
        }
    return TWIN_EINVAL;
}

const char *twin_real_name(enum twin_real r)
{
    static const char *const names[] = {"real", "below-floor", "within", "not-shown", "too-few"};
    _Static_assert(sizeof names / sizeof names[0] == TWIN_REAL_TOO_FEW + 1,
                   "a name for each answer");
    assert((unsigned)r <= TWIN_REAL_TOO_FEW);
    return names[r];
}

/* Are there values, not too many, all finite, and positive where a logarithm is taken? */
static bool is_usable(const double *x, size_t n, bool positive)
{
    for (size_t i = 0; i < n; i++)
        if (positive && !(x[i] > 0))
            return false;
    return n > 0 && n <= MOST && tw_stats_all_finite(x, n);
}

/* How many different bit patterns: 0 and -0 are two. */
static size_t count_distinct(const double *sorted, size_t n)
{
    size_t k = n > 0;
    for (size_t i = 1; i < n; i++)
        k += memcmp(&sorted[i], &sorted[i - 1], sizeof *sorted) != 0;
    return k;
}

/* Describes one set, whatever the question. 0 or TWIN_ENOMEM. */
static int summarise_set(const double *x, size_t n, struct twin_set_summary *s)
{
    assert(n > 0);
    double *sorted = tw_stats_sorted_copy(x, n), *z = tw_reallocarray(NULL, n, sizeof *z);
    int rc = sorted && z ? 0 : TWIN_ENOMEM;
    if (rc == 0) {
        *s = (struct twin_set_summary){.n = n,
                                       .distinct = count_distinct(sorted, n),
                                       .min = sorted[0],
                                       .max = sorted[n - 1],
                                       .mean = tw_stats_moments(x, n, false).mean,
                                       .sd = twin_stats_sd(x, n)};
        rc = twin_stats_median_interval(x, n, .95, &s->median);
    }
    rc = rc ? rc : twin_stats_modified_z(x, n, z, &s->mad);
    tw_free(sorted);
    tw_free(z);
    return rc;
}

/* The smallest n a set for which some outcome of the exact test reaches alpha: 2 / C(2n, n) <=
 * alpha. */
static size_t smallest(double alpha)
{
    assert(alpha > 0); /* else no n is enough, and this never ends */
    size_t n = 1;
    for (double ways = 2; 2 / ways > alpha; n++)
        ways *= 2 * (2 * (double)n + 1) / ((double)n + 1); /* C(2n + 2, n + 1) from C(2n, n) */
    return n;
}

/* Could any outcome of the exact test have reached alpha, with these sizes? The most extreme one of
 * C(na + nb, na) has, two-sided, p = 2 / that number. */
static bool can_show(size_t na, size_t nb, double alpha)
{
    assert(na > 0 && nb > 0 && alpha > 0);
    const double ways = exp(twin_stats_lgamma((double)(na + nb) + 1) -
                            twin_stats_lgamma((double)na + 1) - twin_stats_lgamma((double)nb + 1));
    return 2 / ways <= alpha * (1 + 1e-9);
}

/* The sum of normal quantiles in the rule for sample sizes, n = 2 ((z(1 - alpha/2) + z(power)) sd /
 * effect)^2, for a t test. A rank test needs pi / 3 as many values where the distribution is normal
 * (Pitman's efficiency of Mann and Whitney's test is 3 / pi). */
static double quantiles(double alpha)
{
    assert(tw_stats_is_probability(alpha));
    return twin_stats_normal_quantile(1 - alpha / 2) + twin_stats_normal_quantile(POWER);
}

/* Pooled standard deviation, of the values or of their logarithms. A set of one value adds none. */
static double pooled_deviation(const double *x, size_t nx, const double *y, size_t ny, bool logs)
{
    assert(nx > 0 && ny > 0);
    const struct tw_moments a = tw_stats_moments(x, nx, logs), b = tw_stats_moments(y, ny, logs);
    const double va = nx > 1 ? a.variance : 0, vb = ny > 1 ? b.variance : 0;
    return sqrt((va * ((double)nx - 1) + vb * ((double)ny - 1)) / fmax((double)(nx + ny) - 2, 1));
}

/* Says how many values a set needs for the effect that was seen, and which effect would be visible
 * with those that are there. Both are rough: they take the spread for known. */
static void look_ahead(const double *a, size_t na, const double *b, size_t nb,
                       const struct twin_asked *asked, struct twin_significance *out)
{
    assert(out->answer == TWIN_REAL_NOT || out->answer == TWIN_REAL_TOO_FEW);
    const bool logs = out->ratio;
    const double efficiency = 3 / 3.14159265358979323846;
    const double sd = pooled_deviation(a, na, b, nb, logs);
    const double q = quantiles(asked->alpha);
    const double effect = logs ? fabs(log(out->effect.value)) : fabs(out->effect.value);
    const double n = 2 * pow(q * sd / effect, 2) / efficiency;
    const double least = (double)smallest(asked->alpha);
    const double seen = q * sd * sqrt((1 / (double)na + 1 / (double)nb) / efficiency);
    if (out->answer == TWIN_REAL_TOO_FEW)
        out->needed = smallest(asked->alpha);
    else if (effect > 0 && isfinite(n) && n < MOST)
        out->needed = (size_t)ceil(fmax(n, least));
    if (sd > 0 && out->answer == TWIN_REAL_NOT)
        out->visible = logs ? exp(seen) : seen;
}

/* *out is the caller's (tw_free), NULL when there is no memory. */
static int logarithms(const double *x, size_t n, double **out)
{
    *out = tw_reallocarray(NULL, n, sizeof **out);
    for (size_t i = 0; *out && i < n; i++)
        (*out)[i] = log(x[i]);
    return *out ? 0 : TWIN_ENOMEM;
}

/* A difference is shown. Is all of its interval beyond the floor? */
static enum twin_real against_floor(const struct twin_estimate *effect, bool ratio, double floor)
{
    assert(floor >= 0);
    const double low = ratio ? effect->interval.low - 1 : effect->interval.low;
    const double high = ratio ? effect->interval.high - 1 : effect->interval.high;
    return floor > 0 && !(low > floor || high < -floor) ? TWIN_REAL_BELOW : TWIN_REAL;
}

/* Metric and speed: do the values differ? B is the first sample, so that the effect is B - A, or of
 * the logarithms B / A. */
static int location(const double *a, size_t na, const double *b, size_t nb,
                    const struct twin_asked *asked, struct twin_significance *out)
{
    assert(asked->question == TWIN_ASK_METRIC || asked->question == TWIN_ASK_SPEED);
    double *x = NULL, *y = NULL;
    struct twin_mann_whitney test;
    out->ratio = asked->question == TWIN_ASK_SPEED;
    int rc = out->ratio ? logarithms(a, na, &x) : 0;
    if (rc == 0 && out->ratio)
        rc = logarithms(b, nb, &y);
    const double *of_a = x ? x : a, *of_b = y ? y : b;
    rc = rc ? rc : twin_stats_mann_whitney(of_b, nb, of_a, na, TWIN_TWO_SIDED, &test);
    rc = rc ? rc : twin_stats_hodges_lehmann(of_b, nb, of_a, na, 1 - asked->alpha, &out->effect);
    tw_free(x);
    tw_free(y);
    if (rc != 0)
        return rc;
    if (out->ratio) {
        out->effect.value = exp(out->effect.value);
        out->effect.interval = (struct twin_interval){exp(out->effect.interval.low),
                                                      exp(out->effect.interval.high)};
    }
    out->p = test.p;
    out->method = test.method;
    if (test.p <= asked->alpha)
        out->answer = against_floor(&out->effect, out->ratio, asked->floor);
    else
        out->answer = can_show(na, nb, asked->alpha) ? TWIN_REAL_NOT : TWIN_REAL_TOO_FEW;
    if (out->answer == TWIN_REAL_NOT || out->answer == TWIN_REAL_TOO_FEW)
        look_ahead(a, na, b, nb, asked, out);
    return 0;
}

/* Do they spread differently? The ratio of standard deviations has the interval of F, which is
 * right for normal values only; Brown and Forsythe's test needs no such thing, and decides. */
static void variance(const struct twin_asked *asked, struct twin_significance *out)
{
    assert(asked->question == TWIN_ASK_VARIANCE);
    const struct twin_set_summary *a = &out->set[0], *b = &out->set[1];
    out->ratio = true;
    out->p = out->spread.p;
    if (a->n < 3 || b->n < 3) {
        out->answer = TWIN_REAL_TOO_FEW;
        out->needed = 3;
        return;
    }
    const double ratio = b->sd / a->sd, df_a = (double)a->n - 1, df_b = (double)b->n - 1;
    out->effect.value = ratio;
    out->effect.confidence = 1 - asked->alpha;
    if (isfinite(ratio) && ratio > 0)
        out->effect.interval = (struct twin_interval){
            ratio / sqrt(twin_stats_f_quantile(1 - asked->alpha / 2, df_b, df_a)),
            ratio / sqrt(twin_stats_f_quantile(asked->alpha / 2, df_b, df_a))};
    /* each set is without any spread of its own, or spreads evenly about its median */
    if (isnan(out->p))
        out->answer = a->sd == b->sd ? TWIN_REAL_WITHIN : TWIN_REAL_TOO_FEW;
    else if (out->p > asked->alpha)
        out->answer = TWIN_REAL_NOT;
    else
        out->answer = asked->floor > 0 && fabs(ratio - 1) <= asked->floor ? TWIN_REAL_BELOW
                                                                          : TWIN_REAL;
}

/* Are they equal within the margin? An interval that lies outside of the margin shows that they are
 * not. */
static void within(const double *a, size_t na, const double *b, size_t nb,
                   const struct twin_asked *asked, struct twin_significance *out)
{
    assert(asked->question == TWIN_ASK_WITHIN && asked->margin > 1);
    const struct twin_equivalence e = twin_stats_equivalence(b, nb, a, na, asked->margin,
                                                             asked->alpha);
    const double edge = log(asked->margin), cv = pooled_deviation(a, na, b, nb, true);
    out->ratio = true;
    out->effect = (struct twin_estimate){e.ratio, e.interval, 1 - 2 * asked->alpha};
    out->p = e.p;
    if (na < 2 || nb < 2)
        out->answer = TWIN_REAL_TOO_FEW;
    else if (isnan(e.p)) /* no spread in either: the ratio is what it is */
        out->answer = fabs(log(e.ratio)) <= edge ? TWIN_REAL_WITHIN : TWIN_REAL;
    else if (e.p <= asked->alpha)
        out->answer = TWIN_REAL_WITHIN;
    else
        out->answer = e.interval.low > asked->margin || e.interval.high < 1 / asked->margin
                          ? TWIN_REAL
                          : TWIN_REAL_NOT;
    if (out->answer == TWIN_REAL_NOT && cv > 0) {
        /* as if they were as far apart as they look */
        const double left = edge - fabs(log(e.ratio));
        const uint64_t n = left > 0
                               ? twin_stats_equivalence_runs(cv, exp(left), asked->alpha, POWER)
                               : 0;
        out->needed = 0;
        if (n > 0 && n <= MOST)
            out->needed = n < 5 ? 5 : (size_t)n;
    }
    if (out->answer == TWIN_REAL_TOO_FEW)
        out->needed = 5;
}

int twin_significance(const double *a, size_t na, const double *b, size_t nb,
                      const struct twin_asked *asked, struct twin_significance *out)
{
    const bool positive = asked->question == TWIN_ASK_SPEED || asked->question == TWIN_ASK_WITHIN;
    const double *groups[2] = {a, b};
    const size_t sizes[2] = {na, nb};
    *out = (struct twin_significance){
        .p = NAN, .visible = NAN, .effect = {NAN, {NAN, NAN}, NAN}, .spread = {NAN, NAN, NAN, NAN}};
    if (!(asked->alpha > 0 && asked->alpha < .5) || !(asked->floor >= 0) ||
        (asked->question == TWIN_ASK_WITHIN && !(asked->margin > 1 && isfinite(asked->margin))) ||
        !is_usable(a, na, positive) || !is_usable(b, nb, positive))
        return TWIN_EINVAL;
    int rc = summarise_set(a, na, &out->set[0]);
    rc = rc ? rc : summarise_set(b, nb, &out->set[1]);
    if (rc == 0 && na >= 3 && nb >= 3)
        rc = twin_stats_brown_forsythe(groups, sizes, 2, &out->spread);
    if (rc != 0)
        return rc;
    /* The sets are described; now the question decides. */
    switch (asked->question) {
    case TWIN_ASK_METRIC:
    case TWIN_ASK_SPEED: return location(a, na, b, nb, asked, out);
    case TWIN_ASK_VARIANCE: variance(asked, out); return 0;
    case TWIN_ASK_WITHIN: within(a, na, b, nb, asked, out); return 0;
    /* One value, bit for bit? Two values alone are too few to say so. */
    case TWIN_ASK_BITWISE:
        out->effect.value = b[0] - a[0];
        out->answer = TWIN_REAL;
        if (out->set[0].distinct == 1 && out->set[1].distinct == 1 && memcmp(a, b, sizeof *a) == 0)
            out->answer = na + nb < 3 ? TWIN_REAL_TOO_FEW : TWIN_REAL_WITHIN;
        out->needed = out->answer == TWIN_REAL_TOO_FEW ? 2 : 0;
        return 0;
    }
    return TWIN_EINVAL;
}
