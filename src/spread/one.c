/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sum over all numbers, in many orders (twin_sum_spread): as stored, backwards, sorted, as P
 * workers and a collective would add it, and in random orders; all against the exact value.
 * src/study/spread.c calls it for numbers from files.
 *
 * The figure that matters is the floor: a difference between two sums that is smaller may be
 * nothing but another order. Threads share the random orders; each order writes a place of its own,
 * so their number changes no bit.
 */
#include "adding.h"
#include "threads.h"

#include "base.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twin/random.h>

enum { RING_STARTS = 64 }; /* chunks of the ring that are tried, at most */

/* What all parts of one call work with. */
struct task {
    const struct tw_adder *add;
    const struct twin_sum_options *o;
    void *numbers;  /* the numbers as the adder holds them */
    void *copy[64]; /* a copy for each thread, which it shuffles */
    uint64_t n, *seed;
    double *out;
};

/* ---- exact */

/* Fills exact value and condition. The accumulators add without rounding, so their order is of no
 * account. */
static int exact_of(const struct task *t, struct twin_sum_spread *s, struct twin_acc *sum,
                    struct twin_error *err)
{
    struct twin_acc size;
    const enum twin_dtype held = t->add->size == 8 ? TWIN_F64 : TWIN_F32;
    twin_acc_init(sum);
    twin_acc_init(&size);
    int rc = twin_acc_add(sum, held, t->numbers, (int64_t)t->n, err);
    if (rc == 0)
        rc = twin_acc_add_abs(&size, held, t->numbers, (int64_t)t->n, err);
    if (rc != 0)
        return rc;
    s->exact = twin_acc_f64(sum);
    s->condition = twin_acc_f64(&size) / fabs(s->exact);
    return tw_rounded(sum, t->o->dtype, &s->exact_rounded, err);
}

/* Value - exact, without rounding what cancels: the subtraction is made in the accumulator. NaN for
 * a value that is not finite. */
static double distance_from(const struct twin_acc *exact, double value)
{
    struct twin_acc difference = *exact;
    double minus = -value, d;
    if (!isfinite(value) || twin_acc_add(&difference, TWIN_F64, &minus, 1, NULL) != 0)
        return NAN;
    d = twin_acc_f64(&difference);
    return d == 0 ? 0 : -d;
}

/* ---- named orders */

/* Adds a named order to the answer. */
static void name_order(struct twin_sum_spread *s, const char *order, double value)
{
    assert(s->named_count < sizeof s->named / sizeof *s->named);
    struct twin_ordered_sum *r = &s->named[s->named_count++];
    snprintf(r->order, sizeof r->order, "%s", order);
    r->value = value;
}

/* The sum of n numbers by one of the adder's chains. Begins with -0, which adds nothing to any
 * first number. */
static double sum_by_chain(const struct task *t, void (*f)(const void *, size_t, void *),
                           const void *x, uint64_t n)
{
    double room = 0; /* room for one held number, a double or a float */
    t->add->set(&room, 0, -0.0);
    f(x, (size_t)n, &room);
    return t->add->get(&room, 0);
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Each worker adds its piece; then the P partial sums go together by each algorithm. Of the ring
 * every chunk has a sum of its own; the lowest and the highest of RING_STARTS chunks are named. */
static int add_by_workers(const struct task *t, struct twin_sum_spread *s, struct twin_error *err)
{
    static const enum twin_algorithm tried[] = {TWIN_RANK_ORDER, TWIN_TREE, TWIN_DOUBLE_TREE,
                                                TWIN_RECURSIVE_DOUBLING};
    const uint32_t ranks = t->o->workers;
    char *part = tw_calloc(2 * (size_t)ranks, t->add->size);
    char *turned = part ? part + ranks * t->add->size : NULL;
    double room = 0, low = INFINITY, high = -INFINITY;
    struct tw_program p = {0};
    int rc = part ? 0 : tw_no_memory(err, "for %u workers", ranks);
    for (uint32_t r = 0; rc == 0 && r < ranks; r++) {
        __extension__ typedef unsigned __int128 wide;
        uint64_t from = (uint64_t)((wide)t->n * r / ranks);
        uint64_t to = (uint64_t)((wide)t->n * (r + 1) / ranks);
        t->add->set(
            part, r,
            sum_by_chain(t, t->add->chain, (char *)t->numbers + from * t->add->size, to - from));
    }
    for (size_t i = 0; rc == 0 && i < sizeof tried / sizeof *tried; i++) {
        rc = tw_program_make(tried[i], ranks, 0, &p, err);
        if (rc == 0) {
            t->add->single(&p, part, &room);
            name_order(s, twin_algorithm_name(tried[i]), t->add->get(&room, 0));
        }
        tw_program_free(&p);
    }
    const uint32_t starts = ranks < RING_STARTS ? ranks : RING_STARTS;
    for (uint32_t i = 0; rc == 0 && i < starts; i++) {
        uint32_t from = (uint32_t)((uint64_t)ranks * i / starts);
        /* the partial sums from that chunk's rank on, around the ring */
        memcpy(turned, part + from * t->add->size, (ranks - from) * t->add->size);
        memcpy(turned + (ranks - from) * t->add->size, part, from * t->add->size);
        double v = sum_by_chain(t, t->add->chain, turned, ranks);
        low = fmin(low, v);
        high = fmax(high, v);
    }
    if (rc == 0) {
        name_order(s, "ring, lowest chunk", low);
        name_order(s, "ring, highest chunk", high);
    }
    tw_free(part);
    return rc;
}

static int add_named(const struct task *t, struct twin_sum_spread *s, struct twin_error *err)
{
    name_order(s, "as stored", sum_by_chain(t, t->add->chain, t->numbers, t->n));
    name_order(s, "last first", sum_by_chain(t, t->add->chain_back, t->numbers, t->n));
    if (t->o->sorted && t->n > 0) {
        memcpy(t->copy[0], t->numbers, t->n * t->add->size);
        qsort(t->copy[0], t->n, t->add->size, t->add->size == 8 ? by_double : by_float);
        name_order(s, "ascending", sum_by_chain(t, t->add->chain, t->copy[0], t->n));
        name_order(s, "descending", sum_by_chain(t, t->add->chain_back, t->copy[0], t->n));
        s->named[s->named_count - 1].sorted = s->named[s->named_count - 2].sorted = true;
    }
    return t->o->workers ? add_by_workers(t, s, err) : 0;
}

/* ---- random orders */

/* One random order: its seed depends on its number alone, not on the thread. */
static int sum_shuffled(void *user, unsigned thread, uint64_t i, struct twin_error *err)
{
    struct task *t = user;
    double room = 0;
    (void)err;
    memcpy(t->copy[thread], t->numbers, t->n * t->add->size);
    t->add->set(&room, 0, -0.0);
    t->add->shuffled(t->copy[thread], (size_t)t->n, twin_seed_index(t->o->seed, "spread/order", i),
                     &room);
    t->out[i] = t->add->get(&room, 0);
    return 0;
}

/* Any order will do, as long as equal bits are neighbours. */
static int by_bits(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(double));
}

static int count_distinct(const double *x, uint64_t n, uint64_t *distinct)
{
    double *sorted = tw_malloc(n * sizeof *sorted + 1);
    if (!sorted)
        return TWIN_ENOMEM;
    memcpy(sorted, x, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_bits);
    *distinct = n > 0;
    for (uint64_t i = 1; i < n; i++)
        *distinct += by_bits(&sorted[i - 1], &sorted[i]) != 0;
    tw_free(sorted);
    return 0;
}

/* Statistics of the deviations from the exact value, which keep their digits where the sums
 * themselves agree in all but the last. Sums that are not finite are counted and left out. */
static int judge_orders(const double *random, const struct twin_acc *exact,
                        struct twin_sum_spread *s, struct twin_error *err)
{
    double *d = tw_calloc(s->orders + 1, sizeof *d);
    double low = INFINITY;
    double high = -INFINITY;
    double all_low, all_high;
    int rc = d ? count_distinct(random, s->orders, &s->distinct) : TWIN_ENOMEM;
    if (rc != 0) {
        tw_free(d);
        return tw_no_memory(err, "for %llu orders", (unsigned long long)s->orders);
    }
    s->min = INFINITY;
    s->max = -INFINITY;
    size_t finite = 0;
    for (uint64_t i = 0; i < s->orders; i++) {
        const double v = d[finite] = distance_from(exact, random[i]);
        if (isnan(v))
            continue;
        finite++;
        s->min = fmin(s->min, random[i]);
        s->max = fmax(s->max, random[i]);
        low = fmin(low, v);
        high = fmax(high, v);
    }
    s->overflowed = s->orders - finite;
    const struct twin_estimate bias = twin_stats_mean_interval(d, finite, .95);
    s->sd = twin_stats_sd(d, finite);
    s->bias = bias.value;
    s->mean = s->exact + s->bias;
    const bool spread = s->sd > 0;
    s->bias_low = spread ? bias.interval.low : bias.value;
    s->bias_high = spread ? bias.interval.high : bias.value;
    all_low = low;
    all_high = high;
    for (size_t i = 0; i < s->named_count; i++) {
        const double v = s->named[i].off = distance_from(exact, s->named[i].value);
        if (s->named[i].sorted) /* Sorted orders are left out of the floor: nobody adds in these. */
            continue;
        all_low = fmin(all_low, v);
        all_high = fmax(all_high, v);
    }
    s->floor = all_high - all_low;
    if (spread)
        s->floor = fmax(s->floor, 1.959963984540054 * sqrt(2) *
                                      twin_stats_sd_interval(s->sd, finite, .9).high);
    tw_free(d);
    return 0;
}

/* Room for the numbers as held, and a copy for each thread; TWIN_EINVAL for a number that is not
 * finite. */
static int hold_numbers(struct task *t, const double *x, unsigned threads, struct twin_error *err)
{
    if (t->n > SIZE_MAX / 16)
        return tw_no_memory(err, "for %llu numbers", (unsigned long long)t->n);
    t->numbers = tw_malloc(t->n * t->add->size + 8);
    for (unsigned i = 0; i < threads; i++)
        t->copy[i] = t->numbers ? tw_malloc(t->n * t->add->size + 8) : NULL;
    for (unsigned i = 0; i < threads; i++)
        if (!t->copy[i])
            return tw_no_memory(err, "for %llu numbers in %u orders at a time",
                                (unsigned long long)t->n, threads);
    for (uint64_t i = 0; i < t->n; i++) {
        if (!isfinite(x[i]))
            return twin_error_set(err, TWIN_EINVAL,
                                  "number %llu is %s: there is no sum whose order could matter",
                                  (unsigned long long)i, isnan(x[i]) ? "NaN" : "infinite");
        t->add->set(t->numbers, i, x[i]);
    }
    return 0;
}

int twin_sum_spread(const double *x, uint64_t n, const struct twin_sum_options *o, double *random,
                    struct twin_sum_spread *out, struct twin_error *err)
{
    struct task t = {.add = tw_adder_for(o->dtype), .o = o, .n = n, .out = random};
    struct twin_acc exact;
    const struct tw_work w = {
        .work = sum_shuffled, .user = &t, .after = o->progress, .after_user = o->user};
    unsigned threads = tw_threads(o->threads, o->orders);
    *out = (struct twin_sum_spread){.count = n, .random = random, .orders = o->orders};
    if (!t.add || o->orders < 2 || o->workers > TWIN_MAX_RANKS)
        return twin_error_set(
            err, TWIN_EINVAL,
            "expected additions in f64, f32, f16 or bf16, 2 orders or more, and at most %d workers",
            TWIN_MAX_RANKS);
    /* The exact value comes first, since everything else is measured from it. */
    int rc = hold_numbers(&t, x, threads, err);
    if (rc == 0)
        rc = exact_of(&t, out, &exact, err);
    if (rc == 0)
        rc = add_named(&t, out, err);
    if (rc == 0)
        rc = tw_work_run(&w, o->orders, threads, err);
    if (rc == 0)
        rc = judge_orders(random, &exact, out, err);
    tw_free(t.numbers);
    for (unsigned i = 0; i < threads; i++)
        tw_free(t.copy[i]);
    return rc;
}
