/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what a slow stretch comes from. dips.c calls tw_dip_measure() for how much slower it is, and
 * tw_dip_explain() for what moved with it and the cause.
 *
 * A cause must answer two questions with yes: did its counter move with being slow (rank
 * correlation, Holm over all counters), and does it account for the time that was lost? Seconds are
 * held against the extra seconds of a step; what is no time, against what it would do. Many things
 * move when a step gets slower; few account for it.
 */
#include "dips.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the adjusted p of a counter, to have moved. */
#define ALPHA .05
/* Share of the extra time that a counter of seconds must account for, to be the cause. */
#define SHARE .25
#define SEED 0x6d6f76656431ull

/*
 * The usual blocks, or the slow ones, together: seconds per step (t), and the rate of each counter
 * per second.
 */
struct side {
    double t, steps, seconds, rate[TWIN_COUNTERS];
};

/* Both sides, and what was tested. */
struct view {
    struct side usual, slow;
    double extra; /* seconds per step */
    const struct twin_dip *dip;
};

/*
 * Adds up the blocks with slow[i] == which. A counter that is not known for most of the time is
 * NaN.
 */
static struct side side_of(const struct tw_block *b, const bool *slow, size_t n, bool which)
{
    struct side s = {.t = 0};
    double known[TWIN_COUNTERS] = {0};
    for (size_t i = 0; i < n; i++) {
        if (slow[i] != which)
            continue;
        s.steps += b[i].steps;
        s.seconds += b[i].seconds;
        for (int c = 0; c < TWIN_COUNTERS; c++)
            if (!isnan(b[i].rate[c])) {
                known[c] += b[i].seconds;
                s.rate[c] += b[i].rate[c] * b[i].seconds;
            }
    }
    s.t = s.seconds / s.steps;
    for (int c = 0; c < TWIN_COUNTERS; c++)
        s.rate[c] = known[c] > s.seconds / 2 ? s.rate[c] / known[c] : NAN;
    return s;
}

static double per_step(const struct side *s, int c)
{
    assert(c >= 0 && c < TWIN_COUNTERS);
    return s->rate[c] * s->t;
}

/* Of the extra time of a step, how much is extra time of this counter. */
static double share_of_counter(const struct view *v, int c)
{
    return (per_step(&v->slow, c) - per_step(&v->usual, c)) / v->extra;
}

/* False also for a counter that was not tested. */
static bool counter_moved(const struct view *v, int c)
{
    for (size_t i = 0; i < v->dip->tested; i++)
        if ((int)v->dip->moved[i].counter == c)
            return v->dip->moved[i].adjusted <= ALPHA;
    return false;
}

/* Did a counter of seconds move, and is its share of the extra time large enough? */
static bool accounts(const struct view *v, int c)
{
    return counter_moved(v, c) && share_of_counter(v, c) >= SHARE;
}

/*
 * For levels that are whole numbers for a while: is it another number of them in the slow stretch,
 * by a half and by 5%?
 */
static bool other_number(const struct view *v, int c)
{
    double a = v->usual.rate[c], b = v->slow.rate[c];
    return counter_moved(v, c) && fabs(b - a) >= .5 && fabs(b - a) >= .05 * fmax(a, b);
}

/*
 * Do the steps move as many bytes as before, but at a lower rate, while their thread neither runs
 * nor waits for a processor? Or are more segments sent again?
 */
static bool is_network(const struct view *v)
{
    double idle = 1 - share_of_counter(v, TWIN_COUNTER_RAN) -
                  share_of_counter(v, TWIN_COUNTER_WAIT);
    if (isnan(idle) || idle < .5)
        return false;
    if (counter_moved(v, TWIN_COUNTER_RETRANSMITS) &&
        v->slow.rate[TWIN_COUNTER_RETRANSMITS] > v->usual.rate[TWIN_COUNTER_RETRANSMITS])
        return true;
    static const int traffic[] = {TWIN_COUNTER_NET, TWIN_COUNTER_LOOPBACK};
    for (int i = 0; i < 2; i++) {
        double a = per_step(&v->usual, traffic[i]), b = per_step(&v->slow, traffic[i]);
        if (counter_moved(v, traffic[i]) && a >= 1024 && b > a / 2 && b < 2 * a &&
            v->slow.rate[traffic[i]] < v->usual.rate[traffic[i]])
            return true;
    }
    return false;
}

static bool lower(const struct view *v, int c)
{
    return counter_moved(v, c) && v->slow.rate[c] < .97 * v->usual.rate[c];
}

static bool higher(const struct view *v, int c)
{
    return counter_moved(v, c) && v->slow.rate[c] > v->usual.rate[c];
}

/* Did a clock fall by 3%, or does the hardware say that it was held back? */
static bool is_clocks(const struct view *v)
{
    return lower(v, TWIN_COUNTER_CLOCK) || higher(v, TWIN_COUNTER_THERMAL) ||
           lower(v, TWIN_COUNTER_GPU_CLOCK) || higher(v, TWIN_COUNTER_GPU_SLOWED);
}

/*
 * The first cause whose rule holds, in the order in which one hides another: a quota makes threads
 * wait, own workers make each other wait, and so on.
 */
static enum twin_cause cause_of(const struct view *v)
{
    if (accounts(v, TWIN_COUNTER_THROTTLED))
        return TWIN_CAUSE_QUOTA;
    if (other_number(v, TWIN_COUNTER_PROCESSES) || other_number(v, TWIN_COUNTER_THREADS))
        return TWIN_CAUSE_WORKERS;
    if (accounts(v, TWIN_COUNTER_STEAL))
        return TWIN_CAUSE_STEAL;
    if (accounts(v, TWIN_COUNTER_WAIT))
        return TWIN_CAUSE_INTERFERENCE;
    if (accounts(v, TWIN_COUNTER_MEMORY_STALL))
        return TWIN_CAUSE_MEMORY;
    if (is_clocks(v))
        return TWIN_CAUSE_CLOCK;
    if (is_network(v))
        return TWIN_CAUSE_NETWORK;
    if (accounts(v, TWIN_COUNTER_IO_STALL) || accounts(v, TWIN_COUNTER_IOWAIT))
        return TWIN_CAUSE_DISK;
    /* Threads other than the step's wait for a processor, or caches and memory are shared with
     * others. */
    if (counter_moved(v, TWIN_COUNTER_OTHERS) &&
        v->slow.rate[TWIN_COUNTER_OTHERS] - v->usual.rate[TWIN_COUNTER_OTHERS] >= .25)
        return TWIN_CAUSE_INTERFERENCE;
    return TWIN_CAUSE_UNKNOWN;
}

/* ---- which counters moved */

/* Order of counters: the smaller p first, then the larger share. */
static int most_telling(const void *x, const void *y)
{
    const struct twin_moved *a = x, *b = y;
    if (a->adjusted != b->adjusted)
        return a->adjusted < b->adjusted ? -1 : 1;
    double sa = isnan(a->share) ? 0 : fabs(a->share);
    double sb = isnan(b->share) ? 0 : fabs(b->share);
    if (sa != sb)
        return sa > sb ? -1 : 1;
    return (a->counter > b->counter) - (a->counter < b->counter);
}

/*
 * Tests one counter against being slow or not: the unrest within the two says nothing about the
 * stretch, and a counter may lag a block behind. Only blocks in which it is known take part; when
 * these are fewer than half, or it is constant, p->p is NaN. Returns 0 or an error of the
 * statistics.
 */
static int test(const struct tw_block *b, const bool *slow, size_t n, int c, size_t permutations,
                struct twin_permutation *p)
{
    double x[2 * TW_BLOCKS_MAX], y[2 * TW_BLOCKS_MAX];
    size_t known = 0;
    p->p = NAN;
    for (size_t i = 0; i < n; i++)
        if (!isnan(b[i].rate[c])) {
            x[known] = slow[i];
            y[known++] = b[i].rate[c];
        }
    if (known < 3 || known < n / 2)
        return 0;
    int rc = twin_stats_spearman(x, y, known, permutations, SEED + (uint64_t)c, TWIN_TWO_SIDED, p);
    return rc == TWIN_EINVAL ? 0 : rc;
}

/* Tests all counters, adjusts their p together (Holm) and sorts them into out->moved. */
static int test_all(const struct tw_block *b, const bool *slow, size_t n, size_t permutations,
                    const struct view *v, struct twin_dip *out)
{
    double p[TWIN_COUNTERS], adjusted[TWIN_COUNTERS];
    size_t k = 0;
    for (int c = 0; c < TWIN_COUNTERS; c++) {
        struct twin_permutation r;
        int rc = test(b, slow, n, c, permutations, &r);
        if (rc)
            return rc;
        if (isnan(r.p))
            continue; /* unknown, or constant: it did not move */
        bool seconds = strcmp(twin_counter_info((enum twin_counter)c)->unit, "s") == 0;
        p[k] = r.p;
        out->moved[k++] = (struct twin_moved){.counter = (enum twin_counter)c,
                                              .rho = r.value,
                                              .p = r.p,
                                              .usual = v->usual.rate[c],
                                              .slow = v->slow.rate[c],
                                              .share = seconds ? share_of_counter(v, c) : NAN};
    }
    out->tested = k;
    if (k && twin_stats_holm(p, k, adjusted) == 0)
        for (size_t i = 0; i < k; i++)
            out->moved[i].adjusted = adjusted[i];
    if (k > 1)
        qsort(out->moved, k, sizeof *out->moved, most_telling);
    return 0;
}

/*
 * Hodges and Lehmann's shift of the logarithms, so `slower` is a factor less 1. NaN when one side
 * has no block.
 */
int tw_dip_measure(const struct tw_block *b, const bool *slow, size_t n, struct twin_dip *out,
                   struct twin_error *err)
{
    double x[2 * TW_BLOCKS_MAX], y[2 * TW_BLOCKS_MAX];
    size_t nx = 0, ny = 0, first = n, last = 0;
    struct twin_estimate shift = {.value = NAN, .interval = {NAN, NAN}};
    for (size_t i = 0; i < n; i++) {
        double t = log(b[i].seconds / b[i].steps);
        if (!slow[i]) {
            y[ny++] = t;
            continue;
        }
        x[nx++] = t;
        first = i < first ? i : first;
        last = i;
    }
    out->slower = out->low = out->high = NAN;
    if (nx == 0 || ny == 0)
        return 0;
    int rc = twin_stats_hodges_lehmann(x, nx, y, ny, .95, &shift);
    if (rc)
        return twin_error_set(err, rc, "cannot compare the step times");
    out->first = b[first].first;
    out->last = b[last].last;
    out->start_s = b[first].start_s;
    out->end_s = b[last].end_s;
    out->slower = expm1(shift.value);
    out->low = expm1(shift.interval.low);
    out->high = expm1(shift.interval.high);
    return 0;
}

/* Where the slow side is not slower in seconds per step, the cause stays unknown. */
int tw_dip_explain(const struct tw_block *b, const bool *slow, size_t n, struct tw_effort effort,
                   struct twin_dip *out, struct twin_error *err)
{
    struct view v = {
        .usual = side_of(b, slow, n, false), .slow = side_of(b, slow, n, true), .dip = out};
    v.extra = v.slow.t - v.usual.t;
    out->usual_s = v.usual.t;
    out->slow_s = v.slow.t;
    int rc = test_all(b, slow, n, effort.permutations, &v, out);
    if (rc)
        return twin_error_set(err, rc, "out of memory looking for what slowed the steps");
    out->cause = v.extra > 0 ? cause_of(&v) : TWIN_CAUSE_UNKNOWN;
    return 0;
}

/* ---- words */

static const struct {
    const char *name, *words, *advice;
} causes[TWIN_CAUSES] = {
    [TWIN_CAUSE_UNKNOWN] =
        {"unknown", "nothing that was recorded moved with it",
         "look for what the job itself does there: evaluation, checkpoints, longer samples"},
    [TWIN_CAUSE_INTERFERENCE] = {"interference", "another process used the processors",
                                 "give the job processors of its own (cpuset, exclusive nodes, "
                                 "--pin affinity), and time runs in turn (twinrun significant)"},
    [TWIN_CAUSE_STEAL] =
        {"steal", "the hypervisor gave the processors to somebody else",
         "measure on dedicated machines, or on instances without oversubscription"},
    [TWIN_CAUSE_QUOTA] =
        {"quota", "the CPU quota of the control group was used up",
         "raise the limit (cpu.max, resources.limits.cpu), or start fewer threads"},
    [TWIN_CAUSE_NETWORK] = {"network", "the steps waited for the network",
                            "keep data on the node, overlap communication with compute, and record "
                            "bandwidth beside each timing"},
    [TWIN_CAUSE_DISK] =
        {"disk", "the steps waited for disks",
         "keep data in memory or on a local disk, prefetch, and checkpoint in the background"},
    [TWIN_CAUSE_MEMORY] = {"memory", "the machine was short of memory",
                           "lower the memory in use, or keep others off the machine"},
    [TWIN_CAUSE_WORKERS] =
        {"workers", "the number of the job's processes or threads changed",
         "fix the number of workers, and compare throughput at equal counts only (twinrun scale)"},
    [TWIN_CAUSE_CLOCK] = {"clock", "processors or GPUs ran at a lower clock",
                          "fix the clocks or cap the power, warm up before timing, and record the "
                          "clock beside each timing"},
};

const char *twin_cause_name(enum twin_cause c)
{
    return (unsigned)c < TWIN_CAUSES ? causes[c].name : "?";
}

const char *twin_cause_words(enum twin_cause c)
{
    return (unsigned)c < TWIN_CAUSES ? causes[c].words : "?";
}

const char *twin_cause_advice(enum twin_cause c)
{
    return (unsigned)c < TWIN_CAUSES ? causes[c].advice : "?";
}
