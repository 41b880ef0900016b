/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says whether one rank of a run is slower than the others all the time (twin_uneven_find(), called
 * by src/report). Steps of a synchronous job take the same time on all ranks: the fast ones wait
 * for the slow one. What tells them apart is a rank's own time: that in which the thread of its
 * steps ran, or could run and had no processor. Where a library waits by spinning (MPI) all of the
 * time is own time; then only the wait for a processor tells. Blocks of one rank are held against
 * those of all others by rank tests.
 */
#include "dips.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of p times the number of ranks (Bonferroni). */
#define ALPHA .01
/* A rank must be slower than the others by this share. */
#define SLOWER_MIN .1
#define OF_STEP .05  /* of the time of a step, for a rank's extra time to matter */
#define SPINNING .95 /* of the time of a step is a rank's own, on all ranks */
enum { BLOCKS_EACH = 64 };

/*
 * One rank's blocks, count of them from `first` on in the arrays of struct ranks; own, wait and
 * step are seconds per step over all of them.
 */
struct rank {
    const struct twin_telemetry_process *p;
    size_t first, count;
    double own, wait, step;
};

/*
 * All ranks that can be compared. own is one block of memory that the other three arrays are parts
 * of.
 */
struct ranks {
    struct rank *rank;
    size_t n, blocks;
    double *own, *wait, *x, *y; /* per block: seconds per step; room for two samples */
};

/*
 * Adds a process's blocks as the next rank, and returns how many there are. 0, and nothing is
 * added, for one that cannot be measured: a launcher's own process, a rank without a thread's
 * counters, too few blocks.
 */
static size_t add_blocks(struct ranks *all, const struct twin_telemetry_process *p)
{
    struct tw_block b[TW_BLOCKS_MAX];
    size_t n = tw_blocks_make(p, BLOCKS_EACH, b), added = 0;
    struct rank *r = &all->rank[all->n];
    *r = (struct rank){.p = p, .first = all->blocks};
    double seconds = 0, steps = 0;
    for (size_t i = 0; i < n; i++) {
        double t = b[i].seconds / b[i].steps;
        double ran = b[i].rate[TWIN_COUNTER_RAN];
        double wait = b[i].rate[TWIN_COUNTER_WAIT];
        if (isnan(ran) || isnan(wait) || ran + wait <= 0)
            continue;
        all->own[all->blocks + added] = (ran + wait) * t;
        all->wait[all->blocks + added++] = wait * t;
        r->own += (ran + wait) * b[i].seconds;
        r->wait += wait * b[i].seconds;
        seconds += b[i].seconds;
        steps += b[i].steps;
    }
    if (added < TW_BLOCKS_MIN_EACH)
        return 0;
    r->own /= steps;
    r->wait /= steps;
    r->step = seconds / steps;
    r->count = added;
    all->blocks += added;
    return added;
}

/* The mean over the ranks. */
static double seconds_per_step(const struct ranks *all)
{
    double sum = 0;
    for (size_t i = 0; i < all->n; i++)
        sum += all->rank[i].step / (double)all->n;
    return sum;
}

/* Is nearly all of a step own time, on every rank? */
static bool all_spin(const struct ranks *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->rank[i].own < SPINNING * all->rank[i].step)
            return false;
    return true;
}

/*
 * The number by which a block is compared: the logarithm of its own time, or, of ranks that spin,
 * of what a step would take without the wait for a processor, with its sign turned so that slower
 * is larger. 1e-3 keeps the logarithm finite.
 */
static double value_of_block(const struct ranks *all, const struct rank *r, size_t block, bool spin)
{
    assert(block >= r->first && block < r->first + r->count);
    return spin ? -log(fmax(1e-3, 1 - all->wait[block] / r->step)) : log(all->own[block]);
}

/*
 * Compares one rank with all others together and fills out; whether it matters is asked behind.
 * Returns 0 or an error of the statistics.
 */
static int compare_rank(const struct ranks *all, size_t which, bool spin, struct twin_uneven *out,
                        struct twin_error *err)
{
    assert(which < all->n && all->n >= 2);
    const struct rank *r = &all->rank[which];
    size_t nx = 0, ny = 0, above = 0;
    double median = 0, own = 0, wait = 0, count = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct rank *q = &all->rank[i];
        for (size_t k = q->first; k < q->first + q->count; k++)
            if (i == which)
                all->x[nx++] = value_of_block(all, q, k, spin);
            else
                all->y[ny++] = value_of_block(all, q, k, spin);
        if (i != which) {
            own += q->own;
            wait += q->wait;
            count++;
        }
    }
    struct twin_estimate shift;
    struct twin_mann_whitney test;
    int rc = twin_stats_mann_whitney(all->x, nx, all->y, ny, TWIN_GREATER, &test);
    rc = rc ? rc : twin_stats_hodges_lehmann(all->x, nx, all->y, ny, .95, &shift);
    rc = rc ? rc : twin_stats_median(all->y, ny, &median);
    if (rc)
        return twin_error_set(err, rc, "cannot compare the ranks");
    for (size_t i = 0; i < nx; i++)
        above += all->x[i] > median;
    *out = (struct twin_uneven){.outcome = TWIN_UNEVEN_NONE,
                                .rank = r->p->rank,
                                .ranks = all->n,
                                .spin = spin,
                                .slower = expm1(shift.value),
                                .low = expm1(shift.interval.low),
                                .high = expm1(shift.interval.high),
                                .p = test.p,
                                .above = (double)above / (double)nx,
                                .own_s = r->own,
                                .others_s = own / count,
                                .step_s = r->step,
                                .wait_s = r->wait,
                                .others_wait_s = wait / count};
    return 0;
}

/*
 * Is the rank surely slower, by enough, and does that matter for a step? low is NaN when there is
 * no interval; then it is not asked for.
 */
static bool matters(const struct twin_uneven *u, size_t ranks, double step_s)
{
    double extra = u->spin ? u->wait_s - u->others_wait_s : u->own_s - u->others_s;
    return u->p * (double)ranks <= ALPHA && u->slower >= SLOWER_MIN && !(u->low < SLOWER_MIN / 2) &&
           extra >= OF_STEP * step_s;
}

/* Compares each rank with the others; out gets the slowest of those that matter. */
static int find_uneven(const struct ranks *all, struct twin_uneven *out, struct twin_error *err)
{
    bool spin = all_spin(all);
    double step_s = seconds_per_step(all);
    size_t slow = 0;
    *out = (struct twin_uneven){
        .outcome = TWIN_UNEVEN_NONE, .ranks = all->n, .spin = spin, .step_s = step_s};
    for (size_t i = 0; i < all->n; i++) {
        struct twin_uneven u;
        int rc = compare_rank(all, i, spin, &u, err);
        if (rc)
            return rc;
        if (!matters(&u, all->n, step_s))
            continue;
        slow++;
        if (out->outcome == TWIN_UNEVEN_NONE || u.slower > out->slower)
            *out = u;
        out->outcome = TWIN_UNEVEN_FOUND;
    }
    out->slow_ranks = slow;
    double extra = out->own_s - out->others_s, waited = out->wait_s - out->others_wait_s;
    out->waits = spin || (extra > 0 && waited >= extra / 2);
    return 0;
}

int twin_uneven_find(const struct twin_telemetry *t, struct twin_uneven *out,
                     struct twin_error *err)
{
    struct ranks all = {.n = 0};
    size_t room = t->processes * BLOCKS_EACH;
    *out = (struct twin_uneven){.outcome = TWIN_UNEVEN_NOT_KNOWN};
    all.rank = tw_calloc(t->processes, sizeof *all.rank);
    all.own = tw_calloc(4 * room, sizeof *all.own);
    int rc = all.rank && all.own ? 0 : tw_no_memory(err, "comparing the ranks");
    if (rc == 0) {
        all.wait = all.own + room;
        all.x = all.wait + room;
        all.y = all.x + room;
        for (size_t i = 0; i < t->processes; i++)
            /* Only the process of a rank that made most steps. */
            if (twin_telemetry_rank(t, t->process[i].rank) == &t->process[i])
                all.n += add_blocks(&all, &t->process[i]) > 0;
        out->ranks = all.n;
        if (all.n > 1)
            rc = find_uneven(&all, out, err);
    }
    tw_free(all.rank);
    tw_free(all.own);
    return rc;
}

/* By twin_uneven.waits: a rank that computes longer, one that waits for processors. */
static const char *const advice[] = {
    "run all ranks on one kind of node with equal clocks, share the work out by speed, or look for "
    "what this rank does besides",
    "give every rank processors of its own (mpirun --bind-to core, cpusets, requests equal to "
    "limits) and look for what else runs there, or for a CPU quota on it",
};

const char *twin_uneven_advice(const struct twin_uneven *u)
{
    return advice[u->waits];
}

char *twin_uneven_sentence(const struct twin_uneven *u)
{
    struct tw_buf b = {0};
    if (u->outcome == TWIN_UNEVEN_NOT_KNOWN) {
        tw_buf_printf(&b,
                      "the ranks cannot be compared: %d stretches of 80 ms with counters of their "
                      "threads are needed on two ranks, found them on %zu",
                      TW_BLOCKS_MIN_EACH, u->ranks);
    } else if (u->outcome == TWIN_UNEVEN_NONE) {
        tw_buf_printf(
            &b, "no rank of %zu is slower than the others by %.0f%% all through%s", u->ranks,
            100 * SLOWER_MIN,
            u->spin ? ", as far as can be told: all of them run all the time, waiting included"
                    : "");
    } else {
        tw_buf_printf(&b, "rank %d was %.0f%% slower than the others", u->rank, 100 * u->slower);
        if (isfinite(u->low))
            tw_buf_printf(&b, " (%.0f%% to %.0f%%)", 100 * u->low, 100 * u->high);
        tw_buf_printf(&b, " in %.0f%% of the run: ", 100 * u->above);
        if (u->waits)
            tw_buf_printf(&b,
                          "its thread waits %.3g ms a step for a processor, the others' %.3g ms",
                          1e3 * u->wait_s, 1e3 * u->others_wait_s);
        else
            tw_buf_printf(&b, "its thread runs %.3g ms a step, the others' %.3g ms",
                          1e3 * (u->own_s - u->wait_s), 1e3 * (u->others_s - u->others_wait_s));
        if (u->slow_ranks > 1)
            tw_buf_printf(&b, "; %zu ranks are slower than the others", u->slow_ranks);
    }
    return tw_buf_steal(&b);
}
