/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two rates in a 2 x 2 table (Fisher's exact test, 1935), clusters in a sequence (Wald and
 * Wolfowitz's test of runs, 1940), and p values of several tests at once (Holm 1979). The search
 * for a cause (src/isolate) uses the first two, src/telemetry/causes.c the third.
 */
#include "inside.h"

#include "base.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define TABLE_CAP                                                                   \
    ((uint64_t)1 << 40) /* beyond it a sum over the distribution would take seconds \
                         */

/* The distribution of a table's first cell, when its margins are fixed: low <= x <= high. Whole
 * numbers in doubles, which hold them exactly. */
struct hypergeometric {
    double row, other_row, column, low, high, mode;
};

static double density(const struct hypergeometric *h, double x)
{
    assert(x >= h->low && x <= h->high);
    double total = h->row + h->other_row, p = h->column / total, q = (total - h->column) / total;
    /* C(row, x) C(other, column - x) / C(total, column) as binomial probabilities, which neither
     * over- nor underflow */
    return tw_stats_binomial_density(x, h->row - x, p, q) *
           tw_stats_binomial_density(h->column - x, h->other_row - (h->column - x), p, q) /
           tw_stats_binomial_density(h->column, total - h->column, p, q);
}

/* The sum from x outwards, away from the mode (step +1 or -1), until nothing more is added. Each
 * term follows from the one before by a ratio, so only the first one is a full density. */
static double sum_outwards(const struct hypergeometric *h, double x, int step)
{
    assert(step == 1 || step == -1);
    assert(x >= h->low && x <= h->high);
    double term = density(h, x), sum = term;
    while (x != (step > 0 ? h->high : h->low) && term > sum * 1e-18) {
        /* the ratio of neighbouring terms */
        double lower = step > 0 ? x : x - 1;
        double up = (h->row - lower) * (h->column - lower) /
                    ((lower + 1) * (h->other_row - h->column + lower + 1));
        term *= step > 0 ? up : 1 / up;
        sum += term;
        x += step;
    }
    return sum < 1 ? sum : 1;
}

/* P(X >= x) and P(X <= x): summed on the side away from the mode, where the terms fall. */
static double upper_tail(const struct hypergeometric *h, double x)
{
    if (x <= h->low)
        return 1;
    if (x > h->high)
        return 0;
    return x >= h->mode ? sum_outwards(h, x, 1) : 1 - sum_outwards(h, x - 1, -1);
}

static double lower_tail(const struct hypergeometric *h, double x)
{
    if (x >= h->high)
        return 1;
    if (x < h->low)
        return 0;
    return x <= h->mode ? sum_outwards(h, x, -1) : 1 - sum_outwards(h, x + 1, 1);
}

/*
 * Every table that is no more probable than the one seen; those within 1e-7 of it count as equally
 * probable, as in R.
 */
static double both_tails(const struct hypergeometric *h, double x)
{
    assert(h->low < h->high);
    double bar = density(h, x) * (1 + 1e-7);
    bool above = x >= h->mode;
    /* on the other side of the mode the density is monotone: bisect for the last cell that is
     * improbable enough */
    double far = above ? h->low : h->high, near = h->mode;
    if (!(density(h, h->mode) > bar))
        return 1;
    double p = above ? upper_tail(h, x) : lower_tail(h, x);
    if (density(h, far) > bar)
        return p;
    while (fabs(near - far) > 1) {
        double middle = far + trunc((near - far) / 2);
        if (density(h, middle) > bar)
            near = middle;
        else
            far = middle;
    }
    p += above ? lower_tail(h, far) : upper_tail(h, far);
    return p < 1 ? p : 1;
}

double twin_stats_fisher(uint64_t a, uint64_t b, uint64_t c, uint64_t d, enum twin_side side)
{
    if (a > TABLE_CAP || b > TABLE_CAP || c > TABLE_CAP || d > TABLE_CAP ||
        a + b + c + d > TABLE_CAP)
        return NAN;
    struct hypergeometric h = {
        .row = (double)(a + b), .other_row = (double)(c + d), .column = (double)(a + c)};
    /* The margins bound the first cell from both sides. */
    h.low = h.column > h.other_row ? h.column - h.other_row : 0;
    h.high = h.column < h.row ? h.column : h.row;
    assert(h.low <= h.high && h.low <= (double)a && (double)a <= h.high);
    if (h.low == h.high) /* the margins leave one table only */
        return 1;
    h.mode = floor((h.row + 1) * (h.column + 1) / (h.row + h.other_row + 2));
    double x = (double)a;
    switch (side) {
    case TWIN_GREATER: return upper_tail(&h, x);
    case TWIN_LESS: return lower_tail(&h, x);
    case TWIN_TWO_SIDED: return both_tails(&h, x);
    }
    return NAN;
}

/* ln of n over k. */
static double log_choose(uint64_t n, uint64_t k)
{
    if (k > n)
        return -INFINITY;
    double all = (double)n, some = (double)k;
    return twin_stats_lgamma(all + 1) - twin_stats_lgamma(some + 1) -
           twin_stats_lgamma(all - some + 1);
}

/* Sums the probability of each number of stretches. With an even number both kinds have half of
 * them; with an odd one either kind may have one more. */
double twin_stats_few_runs(uint64_t ones, uint64_t zeros, uint64_t runs)
{
    const uint64_t most = UINT64_C(1) << 20;
    if (ones == 0 || zeros == 0 || ones > most || zeros > most)
        return NAN;
    double all = log_choose(ones + zeros, ones), sum = 0;
    for (uint64_t r = 2; r <= runs && r <= ones + zeros; r++) {
        uint64_t half = r / 2; /* stretches of the kind that has fewer of them */
        if (r % 2 == 0) {
            sum += 2 * exp(log_choose(ones - 1, half - 1) + log_choose(zeros - 1, half - 1) - all);
        } else {
            sum += exp(log_choose(ones - 1, half) + log_choose(zeros - 1, half - 1) - all);
            sum += exp(log_choose(ones - 1, half - 1) + log_choose(zeros - 1, half) - all);
        }
    }
    return fmin(sum, 1);
}

/* A p value and its place in the caller's order. */
struct ranked {
    double p;
    size_t index;
};

/* Equal p values keep their order. */
static int by_p(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->p != y->p ? (x->p > y->p) - (x->p < y->p)
                        : (x->index > y->index) - (x->index < y->index);
}

/* S. Holm (1979): the smallest p counts n times, the next n - 1 times, and so on; none may be
 * smaller than one before it. */
int twin_stats_holm(const double *p, size_t n, double *adjusted)
{
    bool valid = true;
    for (size_t i = 0; i < n; i++)
        valid = valid && p[i] >= 0 && p[i] <= 1;
    struct ranked *order = NULL;
    if (valid)
        order = tw_reallocarray(NULL, n ? n : 1, sizeof *order);
    if (!order) {
        for (size_t i = 0; i < n; i++)
            adjusted[i] = NAN;
        return valid ? TWIN_ENOMEM : TWIN_EINVAL;
    }
    for (size_t i = 0; i < n; i++)
        order[i] = (struct ranked){p[i], i};
    qsort(order, n, sizeof *order, by_p);
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fmin(1, (double)(n - i) * order[i].p));
        adjusted[order[i].index] = most;
    }
    tw_free(order);
    return 0;
}
