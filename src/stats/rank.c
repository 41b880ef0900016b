/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two samples by ranks: the test of Mann and Whitney (1947), and the shift of Hodges and Lehmann
 * (1963) with its interval. No distribution of the values is assumed.
 *
 * Up to EXACT_CAP values the distribution of the rank sum is counted out, ties included; above that
 * the normal approximation is used, with corrections for ties and for continuity. The shift is the
 * median of all nx * ny differences, found without a table of them.
 */
#include "inside.h"

#include "base.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* values in both samples; the exact distribution then takes 4 MiB and 50 ms at most */
#define EXACT_CAP 100

/* A value of the pooled samples; first: it is of the first sample. */
struct value {
    double x;
    bool first;
};

static int by_value(const void *a, const void *b)
{
    double x = ((const struct value *)a)->x, y = ((const struct value *)b)->x;
    return (x > y) - (x < y);
}

/* The permutation distribution of twice the rank sum of a sample of `chosen` out of all, from
 * doubled ranks in ascending order (mid-ranks of ties end in one half, so doubling makes them
 * whole): ways[sum] for sums up to *most. It is the shift algorithm of Streitberg and Roehmel
 * (1986): each value is either not taken, or taken and added to the sum. Counts are exact up to
 * 2^53 and good to 1e-14 beyond. tw_free; NULL = no memory. */
static double *rank_sum_ways(const uint32_t *doubled, size_t all, size_t chosen, size_t *most)
{
    assert(chosen >= 1 && chosen <= all && all <= EXACT_CAP);
    size_t top = 0;
    for (size_t i = all - chosen; i < all; i++)
        top += doubled[i];
    size_t width = top + 1;
    double *table = tw_calloc((chosen + 1) * width, sizeof *table); /* table[taken][sum] */
    if (!table)
        return NULL;
    table[0] = 1;
    for (size_t i = 0; i < all; i++)
        /* From more to fewer taken, so that each value is used once. */
        for (size_t taken = i < chosen ? i + 1 : chosen; taken > 0; taken--) {
            double *with = table + taken * width;
            const double *without = with - width;
            for (size_t sum = doubled[i]; sum < width; sum++)
                with[sum] += without[sum - doubled[i]];
        }
    memmove(table, table + chosen * width, width * sizeof *table);
    *most = top;
    return table;
}

/* P(S <= s) and P(S >= s) of that distribution. All terms are summed, so both tails have their own
 * digits. */
static void rank_sum_tails(const double *ways, size_t most, size_t s, double *below, double *above)
{
    double low = 0, high = 0, equal = s <= most ? ways[s] : 0;
    for (size_t i = 0; i <= most; i++)
        *(i < s ? &low : &high) += ways[i];
    *below = (low + equal) / (low + high);
    *above = high / (low + high);
}

/* What the test needs of the pooled ranks. doubled: twice the rank of each value in order, as far
 * as the exact test goes. */
struct ranking {
    uint32_t doubled[EXACT_CAP];
    double rank_sum, tie_sum;
    bool ties;
};

/*
 * Mid-ranks of the pooled values. rank_sum is that of the first sample; tie_sum is sum(t^3 - t)
 * over groups of equals.
 */
static struct ranking rank_pool(const struct value *pool, size_t n)
{
    assert(n > 0);
    struct ranking r = {.rank_sum = 0};
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && pool[end].x == pool[i].x;)
            end++;
        double size = (double)(end - i), rank = (double)(i + 1 + end) / 2;
        r.ties = r.ties || size > 1;
        r.tie_sum += size * size * size - size;
        for (size_t j = i; j < end; j++) {
            if (pool[j].first)
                r.rank_sum += rank;
            if (j < EXACT_CAP)
                r.doubled[j] = (uint32_t)(i + 1 + end);
        }
    }
    return r;
}

/* The p value of the side that is asked for; two-sided is twice the smaller tail. */
static double one_or_two_sided(double less, double greater, enum twin_side side)
{
    if (side == TWIN_LESS)
        return less;
    return side == TWIN_GREATER ? greater : fmin(1, 2 * fmin(less, greater));
}

/* Sets p from the exact distribution, given the ties. 0 or TWIN_ENOMEM. */
static int exact_p(const struct ranking *r, size_t nx, size_t ny, enum twin_side side,
                   struct twin_mann_whitney *out)
{
    assert(nx > 0 && ny > 0 && nx + ny <= EXACT_CAP);
    /* the distribution of the smaller sample; the two sums have a fixed total */
    bool swapped = ny < nx;
    size_t n = nx + ny, most;
    double sum = swapped ? (double)(n * (n + 1)) / 2 - r->rank_sum : r->rank_sum, below, above;
    double *ways = rank_sum_ways(r->doubled, n, swapped ? ny : nx, &most);
    if (!ways)
        return TWIN_ENOMEM;
    rank_sum_tails(ways, most, (size_t)(2 * sum), &below, &above);
    tw_free(ways);
    out->p = swapped ? one_or_two_sided(above, below, side) : one_or_two_sided(below, above, side);
    out->method = r->ties ? TWIN_METHOD_PERMUTATION : TWIN_METHOD_EXACT;
    return 0;
}

/* p by the normal approximation, with the variance corrected for ties. */
static double normal_p(const struct ranking *r, double u, double nx, double ny, enum twin_side side)
{
    assert(nx >= 1 && ny >= 1);
    double n = nx + ny, centred = u - nx * ny / 2;
    double sd = sqrt(nx * ny / 12 * (n + 1 - r->tie_sum / (n * (n - 1))));
    if (!(sd > 0)) /* all values equal */
        return 1;
    /* half a step towards the centre: the continuity correction */
    return one_or_two_sided(twin_stats_normal_cdf((centred + 0.5) / sd),
                            twin_stats_normal_cdf(-(centred - 0.5) / sd), side);
}

static bool no_nan(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isnan(x[i]))
            return false;
    return true;
}

/* U follows from the sum of the first sample's ranks. */
int twin_stats_mann_whitney(const double *x, size_t nx, const double *y, size_t ny,
                            enum twin_side side, struct twin_mann_whitney *out)
{
    *out = (struct twin_mann_whitney){NAN, NAN, TWIN_METHOD_NONE};
    if (nx == 0 || ny == 0 || nx > SIZE_MAX / 2 || ny > SIZE_MAX / 2 || !no_nan(x, nx) ||
        !no_nan(y, ny))
        return TWIN_EINVAL;
    struct value *pool = tw_reallocarray(NULL, nx + ny, sizeof *pool);
    if (!pool)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < nx + ny; i++)
        pool[i] = i < nx ? (struct value){x[i], true} : (struct value){y[i - nx], false};
    qsort(pool, nx + ny, sizeof *pool, by_value);
    struct ranking r = rank_pool(pool, nx + ny);
    tw_free(pool);
    double u = r.rank_sum - (double)nx * ((double)nx + 1) / 2;
    if (nx + ny <= EXACT_CAP) {
        int error = exact_p(&r, nx, ny, side, out);
        if (error)
            return error;
    } else {
        out->p = normal_p(&r, u, (double)nx, (double)ny, side);
        out->method = TWIN_METHOD_NORMAL;
    }
    out->u = u;
    return 0;
}

/* Maps doubles to unsigned integers in the same order, and back: bisection over these visits every
 * double between two others at most once. Negative numbers have all bits turned, others the sign
 * bit. */
static uint64_t to_order(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static double from_order(uint64_t order)
{
    uint64_t bits = order >> 63 ? order & ~((uint64_t)1 << 63) : ~order;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* How many of the nx * ny differences x - y are at most v. Both samples ascend: the larger x is,
 * the larger y must be, so one walk over both is enough. */
static uint64_t differences_up_to(const double *x, size_t nx, const double *y, size_t ny, double v)
{
    uint64_t count = 0;
    for (size_t i = 0, j = 0; i < nx; i++) { /* y[j] and those above it give differences <= v */
        while (j < ny && !(x[i] - y[j] <= v))
            j++;
        count += ny - j;
    }
    return count;
}

/* The k-th smallest difference, k from 1, by bisection over the doubles: no table of differences is
 * ever made. */
static double nth_difference(const double *x, size_t nx, const double *y, size_t ny, uint64_t k)
{
    assert(nx > 0 && ny > 0);
    assert(k >= 1 && k <= (uint64_t)nx * ny);
    uint64_t low = to_order(x[0] - y[ny - 1]) - 1, high = to_order(x[nx - 1] - y[0]);
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (differences_up_to(x, nx, y, ny, from_order(middle)) >= k)
            high = middle;
        else
            low = middle;
    }
    return from_order(high) + 0.0; /* adding 0 turns -0 into 0 */
}

/* How many of the ordered differences may be cut at each end, which is the largest number with P(U
 * <= cut - 1) <= (1 - confidence) / 2; *reached is what the interval then covers. *cut 0: the
 * samples are too small for any. 0 or TWIN_ENOMEM. */
static int interval_cut(size_t nx, size_t ny, double confidence, uint64_t *cut, double *reached)
{
    assert(nx > 0 && ny > 0 && tw_stats_is_probability(confidence));
    double tail = (1 - confidence) / 2;
    size_t n = nx + ny, chosen = nx < ny ? nx : ny, most;
    if (n > EXACT_CAP) {
        double m = (double)nx * (double)ny, sd = sqrt(m * ((double)n + 1) / 12);
        double edge = floor(m / 2 - 0.5 + twin_stats_normal_quantile(tail) * sd) + 1;
        *cut = edge >= 1 ? (uint64_t)edge : 0;
        *reached = *cut ? confidence : NAN;
        return 0;
    }
    uint32_t doubled[EXACT_CAP];
    for (size_t i = 0; i < n; i++)
        doubled[i] = 2 * ((uint32_t)i + 1);
    double *ways = rank_sum_ways(doubled, n, chosen, &most), total = 0, below = 0;
    if (!ways)
        return TWIN_ENOMEM;
    for (size_t s = 0; s <= most; s++)
        total += ways[s];
    size_t least = chosen * (chosen + 1); /* doubled rank sum at U = 0 */
    *cut = 0;
    *reached = NAN;
    /* Without ties the doubled rank sum goes in steps of 2, one for each value of U. */
    for (size_t s = least; s <= most && (below += ways[s]) <= tail * total; s += 2) {
        ++*cut;
        *reached = 1 - 2 * below / total;
    }
    tw_free(ways);
    return 0;
}

int twin_stats_hodges_lehmann(const double *x, size_t nx, const double *y, size_t ny,
                              double confidence, struct twin_estimate *out)
{
    *out = (struct twin_estimate){NAN, {NAN, NAN}, NAN};
    if (nx == 0 || ny == 0 || nx > UINT32_MAX || ny > UINT32_MAX ||
        !tw_stats_is_probability(confidence) || !tw_stats_all_finite(x, nx) ||
        !tw_stats_all_finite(y, ny))
        return TWIN_EINVAL;
    uint64_t cut, pairs = (uint64_t)nx * ny;
    double reached, *xs = tw_stats_sorted_copy(x, nx), *ys = tw_stats_sorted_copy(y, ny);
    int error = xs && ys ? interval_cut(nx, ny, confidence, &cut, &reached) : TWIN_ENOMEM;
    if (!error) {
        double low = nth_difference(xs, nx, ys, ny, (pairs + 1) / 2);
        double high = pairs % 2 ? low : nth_difference(xs, nx, ys, ny, pairs / 2 + 1);
        assert(low <= high);
        out->value = low / 2 + high / 2;
        out->confidence = reached;
        if (cut)
            out->interval = (struct twin_interval){nth_difference(xs, nx, ys, ny, cut),
                                                   nth_difference(xs, nx, ys, ny, pairs - cut + 1)};
    }
    tw_free(xs);
    tw_free(ys);
    return error;
}
