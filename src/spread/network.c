/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time of a collective by an alpha-beta model: a message of b bytes takes alpha + b beta, and is
 * late by a jitter drawn for it. A rank sends one message at a time and receives one at a time;
 * adding costs nothing. All ranks are ready at 0.
 *
 * src/study/simulate.c asks for one trial after the other. Each trial has draws of its own, taken
 * in the fixed order of the loops below, so the same seed gives the same times on every machine;
 * the logarithm is our own for the same reason.
 */
#include "orders.h"

#include "base.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <twin/random.h>

/* FULL_RING: ranks of a ring that are played message by message; the time for each step changes by
 * about 0.1% from there to 4,096 ranks. SEGMENTS: pieces that a double tree cuts its half into at
 * most. */
enum { FULL_RING = 1024, SEGMENTS = 64 };

/* ---- draws */

/* The random numbers of one trial, made 256 at a time; `next` is the number of the next draw. */
struct draws {
    const struct twin_network *net;
    uint64_t seed, next;
    uint64_t batch[256];
};

/* ln x for 0 < x <= 1 from + - * / alone, which round alike everywhere: x = m 2^-k, and 2 atanh((m
 * - 1) / (m + 1)) by its series. */
static double log_of(double x)
{
    assert(x > 0 && x <= 1);
    static const double series[] = {1. / 19, 1. / 17, 1. / 15, 1. / 13, 1. / 11,
                                    1. / 9,  1. / 7,  1. / 5,  1. / 3,  1};
    int e;
    double m = frexp(x, &e);
    if (m < 0.7071067811865476) {
        m *= 2;
        e--;
    }
    const double s = (m - 1) / (m + 1), t = s * s;
    double v = series[0];
    for (int k = 1; k < 10; k++)
        v = v * t + series[k];
    return e * 0.6931471805599453 + 2 * s * v;
}

/* How late a message is, in seconds. An exponential draw is -ln u. */
static double draw_lateness(struct draws *d)
{
    if (d->net->jitter == TWIN_JITTER_NONE)
        return 0;
    if (d->next % 256 == 0)
        twin_random_fill_u64(d->seed, d->next, 256, d->batch);
    const double u = ((double)(d->batch[d->next++ % 256] >> 11) + .5) * 0x1p-53; /* inside (0, 1) */
    return d->net->jitter_s * (d->net->jitter == TWIN_JITTER_UNIFORM ? 2 * u : -log_of(u));
}

/* ---- algorithms. t: [3 ranks] of room, zeros; the result is the time of the last rank. */

static double largest(const double *t, uint32_t n)
{
    double most = 0;
    for (uint32_t r = 0; r < n; r++)
        most = fmax(most, t[r]);
    return most;
}

/* 2 (P - 1) steps, first of the reduce-scatter and then of the all-gather; in each a rank waits for
 * its own last step and for its neighbour's message. Without jitter all ranks are alike, and no
 * message need be played. */
static double ring_time(struct draws *d, uint32_t ranks, double message_s, uint32_t *simulated,
                        double *t)
{
    const uint32_t n = ranks < FULL_RING ? ranks : FULL_RING, steps = 2 * (n - 1);
    double *now = t, *then = t + n;
    *simulated = n;
    if (d->net->jitter == TWIN_JITTER_NONE) {
        *simulated = ranks;
        return 2 * ((double)ranks - 1) * message_s;
    }
    for (uint32_t s = 0; s < steps; s++) {
        for (uint32_t r = 0; r < n; r++) {
            const double from = now[r ? r - 1 : n - 1] + message_s + draw_lateness(d);
            then[r] = fmax(now[r], from);
        }
        double *swap = now;
        now = then;
        then = swap;
    }
    return ranks == n ? largest(now, n) : largest(now, n) / steps * (2 * ((double)ranks - 1));
}

/* Down a binomial tree from rank 0, which has the message at `from`; a rank sends to one after the
 * other. */
static double broadcast_time(struct draws *d, uint32_t ranks, double message_s, double from,
                             double *t)
{
    assert(ranks > 0);
    uint32_t top = 1;
    while (2 * top < ranks)
        top *= 2;
    for (uint32_t r = 0; r < ranks; r++)
        t[r] = from;
    for (uint32_t mask = ranks > 1 ? top : 0; mask; mask >>= 1)
        for (uint32_t r = 0; r + mask < ranks; r += 2 * mask) {
            t[r] += message_s + draw_lateness(d);
            t[r + mask] = t[r];
        }
    return largest(t, ranks);
}

/* Up to rank 0, each rank taking its children's messages one after the other, and down again the
 * same way, whole. */
static double tree_time(struct draws *d, uint32_t ranks, double message_s, double *t)
{
    for (uint32_t mask = 1; mask < ranks; mask <<= 1)
        for (uint32_t r = 0; r + mask < ranks; r += 2 * mask)
            t[r] = fmax(t[r], t[r + mask]) + message_s + draw_lateness(d);
    return broadcast_time(d, ranks, message_s, t[0], t);
}

/* Rank after rank from 0 on, and the result back down a tree. */
static double one_by_one_time(struct draws *d, uint32_t ranks, double message_s, double *t)
{
    double now = 0;
    for (uint32_t r = 1; r < ranks; r++)
        now += message_s + draw_lateness(d);
    return broadcast_time(d, ranks, message_s, now, t);
}

/* With P no power of two the first ranks take in their pair's contribution before, and send the
 * result back after. In each round all ranks exchange with the one whose number differs in one
 * bit. */
static double doubling_time(struct draws *d, uint32_t ranks, double message_s, double *t)
{
    uint32_t power = 1;
    while (2 * power <= ranks)
        power *= 2;
    const uint32_t extra = ranks - power;
    double *then = t + ranks;
    for (uint32_t r = 0; r < extra; r++)
        t[r] = message_s + draw_lateness(d); /* its pair's contribution has to come first */
    for (uint32_t mask = 1; mask < power; mask <<= 1) {
        for (uint32_t r = 0; r < power; r++)
            then[r] = fmax(t[r], t[r ^ mask]) + message_s + draw_lateness(d);
        memcpy(t, then, power * sizeof *t);
    }
    double last = largest(t, power);
    for (uint32_t r = 0; r < extra; r++)
        last = fmax(last, t[r] + message_s + draw_lateness(d));
    return last;
}

/* A rank and what it waits for in one of the two trees, children before parents. */
struct link {
    uint32_t rank, child[2];
};

/* Lists a tree with children before parents, beginning at out[n]; returns how many there are then.
 * A child that is not there is written as `ranks`. */
static uint32_t post_order(uint32_t ranks, uint32_t rank, int half, struct link *out, uint32_t n)
{
    const struct tw_family f = tw_double_tree(ranks, rank, half);
    struct link l = {rank, {ranks, ranks}};
    for (int i = 0; i < 2; i++)
        if (f.child[i] >= 0) {
            l.child[i] = (uint32_t)f.child[i];
            n = post_order(ranks, l.child[i], half, out, n);
        }
    out[n] = l;
    return n + 1;
}

/* One tree with half of the bytes, in segments that follow each other: a rank sends a segment up
 * when its children have sent theirs. Up and down go on at the same time; in each direction a rank
 * sends one message after the other. Returns when the last rank has the last segment. t: room for 3
 * numbers a rank. */
static double binary_tree_time(struct draws *d, uint32_t ranks, uint32_t segments, double segment_s,
                               const struct link *link, double *t)
{
    /* until when it sends; its sum of this segment, later its result */
    double *up = t, *down = t + ranks, *ready = t + 2 * (size_t)ranks, last = 0;
    memset(t, 0, 2 * (size_t)ranks * sizeof *t);
    for (uint32_t s = 0; s < segments; s++) {
        for (uint32_t i = 0; i < ranks; i++) {
            double at = 0;
            for (int c = 0; c < 2; c++)
                if (link[i].child[c] < ranks) {
                    const uint32_t child = link[i].child[c];
                    /* until when its link to the parent is busy */
                    up[child] = fmax(up[child], ready[child]) + segment_s;
                    at = fmax(at, up[child] + draw_lateness(d));
                }
            ready[link[i].rank] = at;
        }
        for (uint32_t i = ranks; i-- > 0;) {
            const uint32_t rank = link[i].rank;
            for (int c = 0; c < 2; c++)
                if (link[i].child[c] < ranks) {
                    down[rank] = fmax(down[rank], ready[rank]) + segment_s;
                    ready[link[i].child[c]] = down[rank] + draw_lateness(d);
                }
            last = fmax(last, ready[rank]);
        }
    }
    return last;
}

/* Both trees at the same time; the slower one counts. */
static int double_tree_time(struct draws *d, uint32_t ranks, double bytes, double *t,
                            double *seconds, struct twin_error *err)
{
    /* As many segments as make the pipeline shortest without jitter: depth + segments stages of
     * alpha + share of beta. */
    const double half_s = bytes / 2 * d->net->beta_s;
    double depth = 0;
    for (uint32_t reach = 1; reach < ranks; reach *= 2)
        depth += 2;
    double best = d->net->alpha_s > 0 ? floor(sqrt(depth * half_s / d->net->alpha_s)) : SEGMENTS;
    uint32_t segments = SEGMENTS;
    if (best < 1)
        segments = 1;
    else if (best < SEGMENTS)
        segments = (uint32_t)best;
    struct link *link = tw_reallocarray(NULL, ranks, sizeof *link);
    if (!link)
        return tw_no_memory(err, "for %u ranks", ranks);
    *seconds = 0;
    for (int half = 0; half < 2 && ranks > 1; half++) {
        post_order(ranks, tw_double_tree_root(ranks, half), half, link, 0);
        *seconds = fmax(*seconds, binary_tree_time(d, ranks, segments,
                                                   d->net->alpha_s + half_s / segments, link, t));
    }
    tw_free(link);
    return 0;
}

/* A message on its way to rank 0: from whom, and when its first byte comes. */
struct arriving {
    double at;
    uint32_t rank;
};

static int by_time(const void *a, const void *b)
{
    const struct arriving *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* All send to rank 0 at once; its link takes the bytes of one after the other, in the order in
 * which they arrive. Then the result goes down a binomial tree. order (or NULL) is that of the
 * arrivals, rank 0 first. */
static int arrival_time(struct draws *d, uint32_t ranks, double bytes, uint32_t *order, double *t,
                        double *seconds, struct twin_error *err)
{
    struct arriving *a = tw_reallocarray(NULL, ranks, sizeof *a);
    const double message_s = d->net->alpha_s + bytes * d->net->beta_s;
    if (!a)
        return tw_no_memory(err, "for %u ranks", ranks);
    for (uint32_t r = 0; r < ranks; r++)
        a[r] = (struct arriving){r ? d->net->alpha_s + draw_lateness(d) : -1, r};
    qsort(a, ranks, sizeof *a, by_time);
    double now = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        if (i > 0)
            now = fmax(now, a[i].at) + bytes * d->net->beta_s;
        if (order)
            order[i] = a[i].rank;
    }
    tw_free(a);
    *seconds = broadcast_time(d, ranks, message_s, now, t);
    return 0;
}

/* Checks the arguments, makes the trial's draws, and plays the algorithm. The rank order is played
 * as one rank after the other. */
int twin_network_time(const struct twin_network *net, enum twin_algorithm a, uint32_t ranks,
                      double bytes, uint64_t seed, uint64_t trial, uint32_t *arrival,
                      uint32_t *simulated, double *seconds, struct twin_error *err)
{
    struct draws d = {.net = net, .seed = twin_seed_index(seed, "network/trial", trial)};
    uint32_t all = ranks;
    int rc = 0;
    if (ranks < 1 || ranks > TWIN_MAX_RANKS || !(bytes >= 0) || !(net->alpha_s >= 0) ||
        !(net->beta_s >= 0) || !(net->jitter_s >= 0) ||
        !isfinite(bytes + net->alpha_s + net->beta_s + net->jitter_s))
        return twin_error_set(err, TWIN_EINVAL,
                              "expected 1 to %d ranks, and times that are finite and not negative",
                              TWIN_MAX_RANKS);
    double *t = tw_calloc(3 * (size_t)ranks, sizeof *t);
    if (!t)
        return tw_no_memory(err, "for %u ranks", ranks);
    const double whole = net->alpha_s + bytes * net->beta_s;
    switch (a) {
    case TWIN_RING:
        *seconds = ring_time(&d, ranks, net->alpha_s + bytes / ranks * net->beta_s, &all, t);
        break;
    case TWIN_TREE: *seconds = tree_time(&d, ranks, whole, t); break;
    case TWIN_RECURSIVE_DOUBLING: *seconds = doubling_time(&d, ranks, whole, t); break;
    case TWIN_DOUBLE_TREE: rc = double_tree_time(&d, ranks, bytes, t, seconds, err); break;
    case TWIN_ARRIVAL: rc = arrival_time(&d, ranks, bytes, arrival, t, seconds, err); break;
    default: *seconds = one_by_one_time(&d, ranks, whole, t);
    }
    if (simulated)
        *simulated = all;
    tw_free(t);
    return rc;
}
