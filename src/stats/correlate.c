/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do two quantities move together? Spearman's rank correlation (1904): only ranks count, so neither
 * the unit nor the shape of a distribution matters. src/telemetry/causes.c asks it of the counters
 * of a machine, while a job is slow and while it is not. Its p comes from permutations of one of
 * the two (resample.c), with a seed of the caller's.
 */
#include "inside.h"

#include "base.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* A value and where it stood before sorting. */
struct place {
    double x;
    size_t at;
};

/* Equal values keep their order, so that sorting does the same everywhere. */
static int by_value(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->x != y->x ? (x->x > y->x) - (x->x < y->x) : (x->at > y->at) - (x->at < y->at);
}

/* Fills out[] with ranks less their mean, those of equal values averaged; returns the sum of their
 * squares, which is 0 when all values are equal. room: n entries to work in. */
static double centred_ranks(const double *x, size_t n, struct place *room, double *out)
{
    assert(n > 0);
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        room[i] = (struct place){x[i], i};
    qsort(room, n, sizeof *room, by_value);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && room[end].x == room[i].x; end++)
            ;
        double rank = ((double)i + (double)(end - 1)) / 2 - ((double)n - 1) / 2;
        for (size_t k = i; k < end; k++)
            out[room[k].at] = rank;
        squares += (double)(end - i) * rank * rank;
    }
    return squares;
}

/* Centred ranks of both quantities; scale is the root of the product of their sums of squares, so
 * that the correlation is sum / scale. */
struct pairs {
    const double *x, *y;
    double scale;
};

static double correlation(const void *data, const size_t *index, size_t n)
{
    const struct pairs *p = data;
    assert(p->scale > 0);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += p->x[i] * p->y[index[i]];
    return sum / p->scale;
}

int twin_stats_spearman(const double *x, const double *y, size_t n, size_t permutations,
                        uint64_t seed, enum twin_side side, struct twin_permutation *out)
{
    *out = (struct twin_permutation){NAN, NAN, 0};
    if (n < 3 || !tw_stats_all_finite(x, n) || !tw_stats_all_finite(y, n))
        return TWIN_EINVAL;
    double *ranks = tw_reallocarray(NULL, 2 * n, sizeof *ranks);
    struct place *room = tw_reallocarray(NULL, n, sizeof *room);
    int rc = ranks && room ? 0 : TWIN_ENOMEM;
    if (rc == 0) {
        double sx = centred_ranks(x, n, room, ranks), sy = centred_ranks(y, n, room, ranks + n);
        struct pairs p = {ranks, ranks + n, sqrt(sx * sy)};
        if (p.scale > 0) /* else one of them is constant: no correlation is defined */
            rc = twin_stats_permutation(correlation, &p, n, permutations, seed, side, out);
    }
    tw_free(ranks);
    tw_free(room);
    return rc;
}

/* The sign of the difference of two values. */
static int order_of(double a, double b)
{
    return (a > b) - (a < b);
}

double twin_stats_kendall_tau(const double *x, const double *y, size_t n)
{
    /* Pairs that are in the same order, minus those in the opposite one; and those without a tie in
     * x, and in y. Whole numbers below 2^53 are exact in a double. */
    double agree = 0, in_x = 0, in_y = 0;
    if (n < 2 || !tw_stats_all_finite(x, n) || !tw_stats_all_finite(y, n))
        return NAN;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            const int a = order_of(x[i], x[k]), b = order_of(y[i], y[k]);
            agree += a * b;
            in_x += a != 0;
            in_y += b != 0;
        }
    return in_x > 0 && in_y > 0 ? agree / sqrt(in_x * in_y) : NAN;
}
