/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sequence of natural comparisons tells (s->trace, in the order of the runs). Nothing here
 * makes a run.
 *
 * Do natural runs still diverge? A divergence that has stopped by itself (a cold cache, a neighbour
 * on the machine) stops under any pin, so no cause is named unless a natural run diverges after the
 * last pinned one. The other files ask this between their steps (tw_still_parts() makes the runs).
 *
 * Do divergences come in clusters? Where they do, each comparison says less, and all rates and
 * bounds are made of fewer effective comparisons.
 */
#include "search_inside.h"

#include <assert.h>
#include <math.h>

/* How improbable a row of clean natural runs has to be before the divergence counts as gone. */
#define GONE .002

int tw_trace_add(struct tw_search *s, int class, uint32_t number, struct twin_error *err)
{
    assert(class >= -1 && class < TW_CLASSES);
    struct tw_trace *grown = tw_reallocarray(s->trace, s->trace_length + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(err, "for %zu natural comparisons", s->trace_length + 1);
    s->trace = grown;
    s->trace[s->trace_length++] = (struct tw_trace){class, number};
    return 0;
}

/* The usual class of natural runs, which is the one with most of them; of two arms that of A. */
static size_t usual(const struct tw_search *s)
{
    assert(s->arm_count > 0);
    const struct tw_arm *natural = &s->arm[0];
    size_t most = 0;
    for (size_t i = 1; i < natural->classes && !s->plan->arms; i++)
        if (natural->class[i].runs > natural->class[most].runs)
            most = i;
    return most;
}

/* Judged anew each time, since later runs may make another class the usual one. */
static bool trace_parted(const struct tw_search *s, size_t i)
{
    assert(i < s->trace_length);
    return s->trace[i].class != (int)usual(s);
}

uint64_t tw_clean_tail(const struct tw_search *s)
{
    uint64_t tail = 0;
    while (tail < s->trace_length && !trace_parted(s, s->trace_length - 1 - tail))
        tail++;
    return tail;
}

uint32_t tw_last_parted(const struct tw_search *s)
{
    uint64_t tail = tw_clean_tail(s);
    return tail < s->trace_length ? s->trace[s->trace_length - 1 - tail].number : 0;
}

/* Chance of so long a clean tail, had the divergence gone on as it was before it. The rate is
 * averaged over what is credible, by Laplace's rule of succession (a uniform prior), so that three
 * divergences in a row are not taken for a rate of 1. */
static double chance_of_tail(const struct tw_search *s)
{
    uint64_t tail = tw_clean_tail(s);
    double parted = 1, clean = 1, chance = 1;
    for (size_t i = 0; i + tail < s->trace_length; i++) {
        if (trace_parted(s, i))
            parted++;
        else
            clean++;
    }
    for (uint64_t i = 0; i < tail; i++)
        chance *= (clean + (double)i) / (clean + parted + (double)i);
    return chance;
}

/* Never without a divergence that is followed by clean runs. */
bool tw_gone(const struct tw_search *s)
{
    uint64_t tail = tw_clean_tail(s);
    if (tail == 0 || tail == s->trace_length)
        return false;
    return chance_of_tail(s) < GONE;
}

/* ---- correlation */

/* Correlation of each comparison (1: diverged, 0: not) with the one before it; `mean` is their
 * mean. The caller makes sure that both values occur, so that the sum of squares is not 0. */
static double autocorrelation(const struct tw_search *s, double mean)
{
    assert(mean > 0 && mean < 1);
    double products = 0, squares = 0;
    for (size_t i = 0; i < s->trace_length; i++) {
        double here = trace_parted(s, i) - mean;
        squares += here * here;
        if (i > 0)
            products += here * (trace_parted(s, i - 1) - mean);
    }
    return products / squares;
}

/* A correlation counts only where the test of runs shows it (p at most .05) and it is positive. It
 * is cut at .95, so that an effective comparison is never worth less than 1/39. */
struct twin_search_correlation tw_correlation(const struct tw_search *s)
{
    struct twin_search_correlation c = {.comparisons = s->trace_length, .p = 1, .effective = 1};
    uint64_t parted = 0, runs = s->trace_length > 0;
    for (size_t i = 0; i < s->trace_length; i++) {
        parted += trace_parted(s, i);
        runs += i > 0 && trace_parted(s, i) != trace_parted(s, i - 1);
    }
    if (parted == 0 || parted == s->trace_length)
        return c;
    c.p = twin_stats_few_runs(parted, s->trace_length - parted, runs);
    double rho = autocorrelation(s, (double)parted / (double)s->trace_length);
    if (c.p <= .05 && rho > 0) {
        c.rho = fmin(rho, .95);
        c.effective = (1 - c.rho) / (1 + c.rho);
    }
    return c;
}

/* Clopper and Pearson's upper bound at 95%, of numbers of comparisons that need not be whole. */
double tw_rate_bound(const struct tw_search *s, uint64_t parted, uint64_t compared)
{
    double effective = tw_correlation(s).effective;
    double k = effective * (double)parted, n = effective * (double)compared;
    if (parted >= compared)
        return 1;
    return twin_stats_beta_inv(.95, k + 1, n - k);
}
