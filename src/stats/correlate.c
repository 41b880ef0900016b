/* SPDX-License-Identifier: Apache-2.0 */
/* Do two quantities move together? Ranks only. */
#include "inside.h"

#include "base.h"

#include "src/stats/stats.h"

#include <math.h>
#include <stdlib.h>

struct place {
    double x;
    size_t at;
};

static int by_value(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->x != y->x ? (x->x > y->x) - (x->x < y->x) : (x->at > y->at) - (x->at < y->at);
}

/* Ranks less their mean, those of equal values averaged; returns the sum of their squares. */
static double centred_ranks(const double *x, size_t n, struct place *room, double *out)
{
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

struct pairs {
    const double *x, *y;
    double scale;
};

static double correlation(const void *data, const size_t *index, size_t n)
{
    const struct pairs *p = data;
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
