/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a sweep rank its configurations alike when it is made again? Runs name their sweep and its
 * repeat (TWINRUN_SWEEP=NAME/REPEAT), a configuration is a command, its figure the mean of the
 * losses. Each pair of repeats of a sweep gives Kendall's tau over the configurations that both
 * have.
 */
#include "slo_inside.h"

#include "base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIGURATIONS_LEAST = 3 };

/* The loss of a configuration in one repeat of a sweep: a mean of n. */
struct cell {
    const char *sweep, *command;
    double loss;
    size_t n;
};

static int by_cell(const void *x, const void *y)
{
    const struct cell *a = x, *b = y;
    int order = slo_text_order(a->sweep, b->sweep);
    return order ? order : slo_text_order(a->command, b->command);
}

/* Do two sweeps have one name, in front of their last slash? */
static bool same_sweep(const char *a, const char *b)
{
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    return x && y && x - a == y - b && strncmp(a, b, (size_t)(x - a)) == 0;
}

/* Cells of the runs in question, the runs of one put together. */
static size_t gather(const struct slo_question *q, struct cell *c)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < q->count; i++) {
        const struct slo_run *r = q->run[i];
        if (strchr(r->sweep, '/') && !isnan(r->loss) && strcmp(r->state, "ok") == 0 &&
            r->start_ns > q->from_ns && r->start_ns <= q->until_ns)
            c[n++] = (struct cell){r->sweep, r->command, r->loss, 1};
    }
    if (n)
        qsort(c, n, sizeof *c, by_cell);
    for (size_t i = 0; i < n; i++) {
        if (kept && by_cell(&c[kept - 1], &c[i]) == 0) {
            c[kept - 1].loss += c[i].loss;
            c[kept - 1].n++;
        } else {
            c[kept++] = c[i];
        }
    }
    for (size_t i = 0; i < kept; i++)
        c[i].loss /= (double)c[i].n;
    return kept;
}

/* Tau of two repeats, whose cells are sorted by command. NaN: too few in common, or all are tied.
 */
static double tau_of(const struct cell *a, size_t na, const struct cell *b, size_t nb, double *x,
                     double *y)
{
    size_t n = 0;
    for (size_t i = 0, k = 0; i < na && k < nb;) {
        int order = strcmp(a[i].command, b[k].command);
        if (order == 0) {
            x[n] = a[i].loss;
            y[n++] = b[k].loss;
        }
        i += order <= 0;
        k += order >= 0;
    }
    return n < CONFIGURATIONS_LEAST ? NAN : twin_stats_kendall_tau(x, y, n);
}

static size_t end_of_sweep(const struct cell *c, size_t from, size_t n)
{
    size_t end = from;
    while (end < n && strcmp(c[end].sweep, c[from].sweep) == 0)
        end++;
    return end;
}

/* The mean over all pairs; each pair counts as one comparison. */
int slo_ranking(const struct slo_question *q, struct tw_slo_row *row, struct twin_error *err)
{
    struct cell *c = tw_calloc(q->count + 1, sizeof *c);
    double *x = tw_calloc(2 * q->count + 2, sizeof *x), sum = 0;
    int rc = c && x ? 0 : tw_no_memory(err, "for the rankings of sweeps");
    const size_t n = rc == 0 ? gather(q, c) : 0;
    size_t pairs = 0;
    for (size_t i = 0; i < n; i = end_of_sweep(c, i, n)) {
        const size_t end = end_of_sweep(c, i, n);
        for (size_t k = end; k < n; k = end_of_sweep(c, k, n)) {
            if (!same_sweep(c[i].sweep, c[k].sweep))
                continue;
            const double tau = tau_of(c + i, end - i, c + k, end_of_sweep(c, k, n) - k, x,
                                      x + q->count + 1);
            if (isnan(tau))
                continue;
            sum += tau;
            pairs++;
        }
    }
    if (pairs)
        row->value = sum / (double)pairs;
    row->runs = pairs;
    tw_free(x);
    tw_free(c);
    return rc;
}
