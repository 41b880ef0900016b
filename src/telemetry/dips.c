/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where a run was slow: the stretch of blocks that stands out most, and whether it stands out
 * at all (twin_dip_find()); and whether one process is slower than another as a whole
 * (twin_dip_between()). src/report calls both.
 *
 * Step times are compared as logarithms, so that differences are factors. The stretch with the
 * largest normalised sum is looked for; how often shuffled blocks give one as large is its p; and
 * it must exceed the run's own unrest. What it comes from is asked of causes.c. The steps of the
 * method, with reasons, are in docs/internals/telemetry.md.
 */
#include "dips.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds of a block: below the period of a quota, 100 ms, so that one period is one block. */
#define BLOCK_S .08
#define ALPHA .01
/*
 * A stretch must be slower than usual by this many times the run's own unrest (robust standard
 * deviations), and by SLOWER_MIN, a share.
 */
#define NOISES 4.
#define SLOWER_MIN .1
#define FAR 4.45 /* median absolute deviations: 3 standard deviations of a normal sample */
#define SEED 0x6469707331ull

/* ---- blocks */

/*
 * Adds a row to a block. Amounts are summed; levels are weighted with their time. known: seconds
 * for which each counter is known.
 */
static void add_row(struct tw_block *b, double known[TWIN_COUNTERS],
                    const struct twin_telemetry_row *r)
{
    if (b->steps == 0) {
        b->first = r->first;
        b->start_s = r->start_s;
    }
    b->last = r->first + r->steps - 1;
    b->end_s = r->start_s + r->seconds;
    b->steps += r->steps;
    b->seconds += r->seconds;
    for (int c = 0; c < TWIN_COUNTERS; c++) {
        if (isnan(r->value[c]))
            continue;
        known[c] += r->seconds;
        b->rate[c] += twin_counter_info((enum twin_counter)c)->level ? r->value[c] * r->seconds
                                                                     : r->value[c];
    }
}

/*
 * Turns the sums of a block into rates, and sets `known` back for the next one. A counter that is
 * not known for most of the block is NaN.
 */
static void finish_block(struct tw_block *b, double known[TWIN_COUNTERS])
{
    for (int c = 0; c < TWIN_COUNTERS; c++) {
        b->rate[c] = known[c] > b->seconds / 2 ? b->rate[c] / known[c] : NAN;
        known[c] = 0;
    }
}

/* A block ends when it has lasted long enough: none is shorter than that, whatever the length of
 * steps, but for the last one. */
size_t tw_blocks_make(const struct twin_telemetry_process *p, size_t most,
                      struct tw_block out[TW_BLOCKS_MAX])
{
    assert(most >= 1 && most <= TW_BLOCKS_MAX);
    double seconds = 0, known[TWIN_COUNTERS] = {0};
    for (size_t i = 1; i < p->rows; i++)
        seconds += p->row[i].seconds;
    /* `left` keeps a short rest from becoming a block of its own. */
    double least = fmax(BLOCK_S, seconds / (double)most), left = seconds;
    size_t n = 0;
    for (size_t i = 1; i < p->rows && seconds >= BLOCK_S; i++) {
        if (n == 0 || (n < most && out[n - 1].seconds >= least && left >= least / 2)) {
            if (n)
                finish_block(&out[n - 1], known);
            out[n++] = (struct tw_block){.first = 0};
        }
        add_row(&out[n - 1], known, &p->row[i]);
        left -= p->row[i].seconds;
    }
    if (n)
        finish_block(&out[n - 1], known);
    return n;
}

/* The logarithm of the seconds per step. */
static double log_time(const struct tw_block *b)
{
    return log(b->seconds / b->steps);
}

/* ---- the stretch that stands out most */

/*
 * Blocks from .. to - 1. score: how far their values lie above the mean of all, made comparable
 * over lengths by weight_of_length().
 */
struct stretch {
    size_t from, to;
    double score;
};

/* The most blocks of a stretch. If more were slow, they would be the usual ones. */
static size_t longest(size_t n)
{
    assert(n <= TW_BLOCKS_MAX);
    return n * 4 / 5;
}

/* What the sum over `length` blocks of centred values is multiplied with, so that stretches of all
 * lengths compare. */
static double weight_of_length(size_t length, size_t n)
{
    assert(length > 0 && length < n);
    return 1 / sqrt((double)length * (double)(n - length));
}

/*
 * The stretch of 2 blocks to four fifths of all whose values lie most above the mean. from == to:
 * no stretch lies above it.
 */
static struct stretch find_stretch(const double *x, size_t n)
{
    assert(n >= 2 && n <= TW_BLOCKS_MAX);
    double sum[TW_BLOCKS_MAX + 1] = {0}, mean = 0;
    struct stretch best = {0, 0, 0};
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        sum[i + 1] = sum[i] + x[i] - mean;
    for (size_t length = 2; length <= longest(n); length++)
        for (size_t from = 0; from + length <= n; from++) {
            double score = (sum[from + length] - sum[from]) * weight_of_length(length, n);
            if (score > best.score)
                best = (struct stretch){from, from + length, score};
        }
    return best;
}

/*
 * Takes blocks off the edges of a stretch that are more like the others, down to 2 blocks: the
 * largest sum likes one more or less. Values nearer to the median outside than to that inside are
 * the others'.
 */
static void trim_stretch(struct stretch *s, const double *y, size_t n)
{
    assert(n <= TW_BLOCKS_MAX && s->from < s->to && s->to <= n);
    double in[TW_BLOCKS_MAX], out[TW_BLOCKS_MAX], a = 0, b = 0;
    size_t inside = 0, outside = 0;
    for (size_t i = 0; i < n; i++)
        if (i >= s->from && i < s->to)
            in[inside++] = y[i];
        else
            out[outside++] = y[i];
    if (twin_stats_median(in, inside, &a) != 0 || twin_stats_median(out, outside, &b) != 0)
        return;
    while (s->to - s->from > 2 && y[s->from] < (a + b) / 2)
        s->from++;
    while (s->to - s->from > 2 && y[s->to - 1] < (a + b) / 2)
        s->to--;
}

/* Is there a stretch whose sum reaches what its length asks for? x is centred. */
static bool any_stretch(const double *x, size_t n, const double *needed)
{
    double sum[TW_BLOCKS_MAX + 1] = {0};
    for (size_t i = 0; i < n; i++)
        sum[i + 1] = sum[i] + x[i];
    for (size_t length = 2; length <= longest(n); length++) {
        int any = 0;
        for (size_t from = 0; from + length <= n; from++)
            any |= sum[from + length] - sum[from] >= needed[length];
        if (any)
            return true;
    }
    return false;
}

/*
 * The share of shuffled orders in which some stretch stands out as much, the true order counted
 * with them. Stops as soon as the share is seen to exceed ALPHA. The seed is fixed, so one run
 * gives one answer. 1e-9 keeps rounding from hiding a tie.
 */
static double chance_of_stretch(const double *x, size_t n, double score, size_t shuffles)
{
    assert(n >= 2 && n <= TW_BLOCKS_MAX);
    double mixed[TW_BLOCKS_MAX], needed[TW_BLOCKS_MAX + 1], mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        mixed[i] = x[i] - mean;
    for (size_t length = 2; length <= longest(n); length++)
        needed[length] = (score - 1e-9) / weight_of_length(length, n);
    size_t as_much = 0, s = 0;
    uint64_t state = SEED;
    for (; s < shuffles && (double)(1 + as_much) <= ALPHA * (double)(shuffles + 1); s++) {
        for (size_t i = n - 1; i > 0; i--) {
            size_t k = (size_t)(tw_mix64(state += 0x9E3779B97F4A7C15ull) % (i + 1));
            double kept = mixed[i];
            mixed[i] = mixed[k];
            mixed[k] = kept;
        }
        as_much += any_stretch(mixed, n, needed);
    }
    return (1 + (double)as_much) / (double)(s + 1);
}

/*
 * Moves values far out in, to where a slow block is one among many: a single pause of a collector
 * is not a dip, and must not hide one.
 */
static void tame_values(const double *y, size_t n, double *out)
{
    struct twin_mad m = {.mad = 0};
    double middle = 0;
    if (twin_stats_modified_z(y, n, out, &m) == 0)
        middle = m.median;
    double far = fmax(FAR * m.mad, 2 * log1p(SLOWER_MIN));
    for (size_t i = 0; i < n; i++)
        out[i] = fmin(fmax(y[i], middle - far), middle + far);
}

/*
 * How much slower than usual, as a logarithm, a stretch must be, given how the usual blocks spread.
 * 1.4826 turns the median absolute deviation into the standard deviation of a normal sample.
 * INFINITY: no usual block, or no spread can be told.
 */
static double threshold(const double *y, const bool *slow, size_t n)
{
    double usual[TW_BLOCKS_MAX], z[TW_BLOCKS_MAX];
    struct twin_mad mad = {.mad = 0};
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (!slow[i])
            usual[m++] = y[i];
    if (m == 0 || twin_stats_modified_z(usual, m, z, &mad) != 0)
        return INFINITY;
    return fmax(log1p(SLOWER_MIN), NOISES * 1.4826 * mad.mad);
}

/* ---- what this run could have shown */

/*
 * Places where a slow fifth is tried, growing factors that are tried, and shuffles of each trial:
 * fewer than of the real search, for there are many trials.
 */
enum { WINDOWS = 3, TRIALS = 24, TRIAL_SHUFFLES = 199 };

/* Would the blocks y be said to have a slow stretch? */
static bool would_show(const double *y, size_t n)
{
    double x[TW_BLOCKS_MAX], in[TW_BLOCKS_MAX], out[TW_BLOCKS_MAX], a = 0, b = 0;
    bool slow[TW_BLOCKS_MAX] = {false};
    size_t inside = 0, outside = 0;
    tame_values(y, n, x);
    struct stretch s = find_stretch(x, n);
    if (s.to <= s.from)
        return false;
    trim_stretch(&s, y, n);
    for (size_t i = 0; i < n; i++) {
        slow[i] = i >= s.from && i < s.to;
        if (slow[i])
            in[inside++] = y[i];
        else
            out[outside++] = y[i];
    }
    if (twin_stats_median(in, inside, &a) != 0 || twin_stats_median(out, outside, &b) != 0)
        return false;
    return a - b >= threshold(y, slow, n) &&
           chance_of_stretch(x, n, s.score, TRIAL_SHUFFLES) <= ALPHA;
}

/*
 * How much slower a fifth of this very run would have to be, so that it shows at the start, in the
 * middle and at the end. It is tried, and not derived from the spread alone, since the test has its
 * own demands (a stretch must be long enough, and rare among shuffled blocks). INFINITY: nothing
 * that was tried shows.
 */
static double least_visible(const double *y, size_t n, double least)
{
    assert(n >= 2 && n <= TW_BLOCKS_MAX);
    size_t length = n / 5 > 2 ? n / 5 : 2;
    for (int trial = 0; trial < TRIALS; trial++) {
        double slower = least * pow(1.15, trial);
        int shown = 0;
        for (size_t w = 0; w < WINDOWS; w++) {
            double changed[TW_BLOCKS_MAX];
            size_t from = (n - length) * w / (WINDOWS - 1);
            for (size_t i = 0; i < n; i++)
                changed[i] = y[i] + (i >= from && i < from + length ? slower : 0);
            shown += would_show(changed, n);
        }
        if (shown == WINDOWS)
            return expm1(slower);
    }
    return INFINITY;
}

/*
 * Describes the spread of all blocks and those that stand out among them, since nothing was found
 * to set apart.
 */
static void describe_unrest(const struct tw_block *b, const double *y, size_t n,
                            struct twin_dip *out)
{
    assert(n > 0 && n <= TW_BLOCKS_MAX);
    const bool none[TW_BLOCKS_MAX] = {false};
    double middle = 0, least = threshold(y, none, n);
    if (twin_stats_median(y, n, &middle) != 0)
        return;
    out->median_s = exp(middle);
    out->fastest_s = INFINITY;
    for (size_t i = 0; i < n; i++) {
        double seconds = b[i].seconds / b[i].steps;
        out->fastest_s = fmin(out->fastest_s, seconds);
        out->slowest_s = fmax(out->slowest_s, seconds);
        out->odd += fabs(y[i] - middle) > least;
    }
    out->unsteady = out->odd > 1 && out->odd > n / 10;
    out->visible = least_visible(y, n, least);
}

int tw_dip_find(const struct twin_telemetry_process *p, struct tw_effort effort,
                struct twin_dip *out, struct twin_error *err)
{
    struct tw_block b[TW_BLOCKS_MAX];
    double y[TW_BLOCKS_MAX], x[TW_BLOCKS_MAX];
    bool slow[TW_BLOCKS_MAX] = {false};
    size_t n = tw_blocks_make(p, TW_BLOCKS_MAX, b);
    *out = (struct twin_dip){.outcome = TWIN_DIP_TOO_FEW, .blocks = n};
    if (n < TW_BLOCKS_MIN)
        return 0;
    for (size_t i = 0; i < n; i++)
        y[i] = log_time(&b[i]);
    tame_values(y, n, x);
    struct stretch s = find_stretch(x, n);
    if (s.to > s.from)
        trim_stretch(&s, y, n);
    for (size_t i = s.from; i < s.to; i++)
        slow[i] = true;
    double least = threshold(y, slow, n);
    out->outcome = TWIN_DIP_NONE;
    out->visible = expm1(least);
    out->p = s.to > s.from ? chance_of_stretch(x, n, s.score, effort.shuffles) : 1;
    /*
     * Both hurdles must be taken: rare among shuffled blocks, and slower than the run's unrest
     * explains. Each is asked for only where it can still decide, because measuring takes long.
     */
    int rc = out->p > ALPHA ? 0 : tw_dip_measure(b, slow, n, out, err);
    if (rc == 0 && (out->p > ALPHA || !(log1p(out->slower) >= least)))
        describe_unrest(b, y, n, out);
    if (rc || out->p > ALPHA || !(log1p(out->slower) >= least))
        return rc;
    out->outcome = TWIN_DIP_FOUND;
    return tw_dip_explain(b, slow, n, effort, out, err);
}

int twin_dip_find(const struct twin_telemetry_process *p, struct twin_dip *out,
                  struct twin_error *err)
{
    return tw_dip_find(p, TW_EFFORT, out, err);
}

int twin_dip_between(const struct twin_telemetry_process *a, const struct twin_telemetry_process *b,
                     struct twin_dip *out, struct twin_error *err)
{
    struct tw_block all[2 * TW_BLOCKS_MAX];
    double x[TW_BLOCKS_MAX], y[TW_BLOCKS_MAX], both[2 * TW_BLOCKS_MAX];
    bool slow[2 * TW_BLOCKS_MAX] = {false};
    struct twin_mann_whitney test;
    size_t na = tw_blocks_make(a, TW_BLOCKS_MAX / 2, all);
    size_t nb = tw_blocks_make(b, TW_BLOCKS_MAX / 2, all + na);
    *out = (struct twin_dip){.outcome = TWIN_DIP_TOO_FEW, .blocks = na < nb ? na : nb};
    if (out->blocks < TW_BLOCKS_MIN_EACH)
        return 0;
    /* Blocks of a are the usual ones, blocks of b the slow ones. */
    for (size_t i = 0; i < na + nb; i++) {
        both[i] = log_time(&all[i]);
        slow[i] = i >= na;
    }
    memcpy(x, both, na * sizeof *x);
    memcpy(y, both + na, nb * sizeof *y);
    int rc = twin_stats_mann_whitney(y, nb, x, na, TWIN_GREATER, &test);
    if (rc != 0)
        return twin_error_set(err, rc, "cannot compare the step times");
    double least = threshold(both, slow, na + nb);
    out->outcome = TWIN_DIP_NONE;
    out->visible = expm1(least);
    out->p = test.p;
    rc = tw_dip_measure(all, slow, na + nb, out, err);
    if (rc || !(out->p <= ALPHA && log1p(out->slower) >= least))
        return rc;
    out->outcome = TWIN_DIP_FOUND;
    return tw_dip_explain(all, slow, na + nb, TW_EFFORT, out, err);
}
