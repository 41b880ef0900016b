/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_SPREAD_H
#define TWIN_SPREAD_H
/*
 * What the order of additions does to a sum: real numbers added in many orders and in those of
 * collectives, against the exact value; and the same for ranks that exist only here, with the time
 * that a network would take. Room: src/spread. Orders are defined, operation by operation, in
 * docs/internals/spread.md.
 *
 * Everything is a function of its arguments, the seed among them: the same bits on every machine
 * and any number of threads. Functions that compute may start threads and have returned from all of
 * them when they return. Since 0.1.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>
#include <twin/fingerprint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TWIN_MAX_RANKS 65536

/* How P ranks' contributions become one sum. */
enum twin_algorithm {
    TWIN_RANK_ORDER, /* ((x0 + x1) + x2) + ... */
    TWIN_RING,       /* the same, beginning at rank c in chunk c of P chunks */
    TWIN_TREE,       /* binomial tree to rank 0 */
    /* two binary trees, one for each half of the elements, as NCCL builds them */
    TWIN_DOUBLE_TREE,
    TWIN_RECURSIVE_DOUBLING, /* neighbours, then neighbours' neighbours */
    TWIN_ARRIVAL,            /* rank 0 adds what comes, as it comes */
    TWIN_ALGORITHMS
};
const char *twin_algorithm_name(enum twin_algorithm a);            /* "rank-order", "ring", ... */
int twin_algorithm_parse(const char *s, enum twin_algorithm *out); /* TWIN_EINVAL */

/* Rounds x to a type of fewer digits (nearest, ties to even) and gives it as a double. TF32: 8 bits
 * of exponent, 10 of fraction. */
enum twin_precision { TWIN_AS_IS, TWIN_TO_F16, TWIN_TO_BF16, TWIN_TO_TF32 };
double twin_round_to(enum twin_precision p, double x);

/* One unit in the last place of x in a type (f64, f32, f16, bf16): its spacing just above |x|. */
double twin_ulp(enum twin_dtype dtype, double x);

/* ---- one sum over all numbers */

/* The sum in one order. */
/* off: value - exact, computed without cancelling */
struct twin_ordered_sum {
    char order[32];
    double value, off;
    bool sorted;
};

struct twin_sum_spread {
    uint64_t count;
    double exact; /* correctly rounded to f64 */
    /* ... to the type that additions were made in: what no order can better */
    double exact_rounded;
    /* sum of |x| over |sum of x|: how much cancels. Infinite when the sum is 0 */
    double condition;
    struct twin_ordered_sum named[16];
    size_t named_count;
    double *random;                        /* sums in `orders` random orders; the caller's array */
    uint64_t orders, distinct, overflowed; /* distinct: different bit patterns among the random
                                              ones; overflowed: not finite. Then the figures below
                                              are of the others, or NaN when there are none */
    double mean, sd, min, max;             /* of the random ones */
    double bias;                           /* mean - exact, computed without cancelling */
    double bias_low, bias_high; /* its 95% interval (Student); equal to it when all orders agree */
    double floor; /* differences below are another order of the same additions: the larger of (max -
                     min over all orders, named ones too but sorted ones not) and 1.96 sqrt(2) times
                     the upper 95% limit of sd */
};

/* What is added: x holds n finite doubles, each exact in `dtype` (f64, f32, f16, bf16), in which
 * every addition is rounded. workers: the ranks that P orders split the numbers over, in pieces as
 * even as can be (0: none of these orders). random: `orders` doubles. sorted: also in ascending and
 * descending order (copies and sorts). progress: told how many of how many orders are done, from
 * one thread; may be NULL. TWIN_EINVAL (floating-point mode; a number that is not finite),
 * TWIN_ENOMEM. */
struct twin_sum_options {
    enum twin_dtype dtype;
    uint64_t orders, seed;
    uint32_t workers;
    bool sorted;
    unsigned threads; /* 0: as many as processors */
    void (*progress)(void *user, uint64_t done, uint64_t all);
    void *user;
};
int twin_sum_spread(const double *x, uint64_t n, const struct twin_sum_options *o, double *random,
                    struct twin_sum_spread *out, struct twin_error *err);

/* ---- many sums, element by element, of `ranks` contributions */

struct twin_vector_result { /* of one order (or trial), over all elements looked at */
    double error2, bias;    /* sums of (value - exact)^2 and of (value - exact) */
    double error_max;
    uint64_t wrong;   /* elements that are not the correctly rounded sum */
    uint64_t hash[2]; /* of all values, for counting different vectors */
};

struct twin_vector_spread {
    uint64_t elements; /* looked at */
    /*
     * of these, those with a NaN or an infinity among the contributions or results: left out below
     */
    uint64_t not_finite;
    uint64_t vary;         /* elements with more than one result */
    uint64_t distinct_max; /* results of one element, at most */
    double distinct_mean;
    double exact2, range2; /* sums of exact^2 and of (max - min)^2 over the elements */
    double range_max;
    /* (max - min) / |exact| over elements: median, 95th percentile, largest */
    double relative[3];
    double ulps[3];                    /* (max - min) in ulps of the exact value, the same three */
    uint64_t vectors;                  /* different vectors among the results */
    struct twin_vector_result *result; /* [results]; the caller's array */
    size_t results;
};

/* One way of adding the contributions. */
struct twin_vector_order {
    enum twin_algorithm algorithm;
    /*
     * [ranks]: which contribution stands at each place of the algorithm; NULL = rank r at place r
     */
    const uint32_t *place;
};

/* fill: contributions of `element` by rank into x[ranks], exact in dtype; called from several
 * threads. element: list of those to look at in ascending order (NULL: first to first + elements -
 * 1 from 0), of `all`, which places them in chunks and halves. */
struct twin_vector_job {
    enum twin_dtype dtype;
    uint32_t ranks;
    const uint64_t *element;
    uint64_t elements, all;
    void (*fill)(const void *user, uint64_t element, double *x);
    const void *user;
    const struct twin_vector_order *order;
    size_t orders;
    unsigned threads;
    void (*progress)(void *user, uint64_t done, uint64_t all);
    void *progress_user;
};
/* result: [orders]. TWIN_EINVAL, TWIN_ENOMEM. */
int twin_vector_spread(const struct twin_vector_job *job, struct twin_vector_result *result,
                       struct twin_vector_spread *out, struct twin_error *err);

/* ---- time, by an alpha-beta model */

enum twin_jitter { TWIN_JITTER_NONE, TWIN_JITTER_EXPONENTIAL, TWIN_JITTER_UNIFORM };
struct twin_network {
    double alpha_s; /* a message's latency */
    double beta_s;  /* time for each byte of it */
    enum twin_jitter jitter;
    double jitter_s; /* mean of what each message is late by, drawn anew for each */
};
/* Seconds from the moment when all ranks are ready until the last one has the result of `bytes`
 * bytes. trial: which draws. arrival: order in which rank 0 received the contributions of the
 * others, itself first ([ranks]; only for TWIN_ARRIVAL; may be NULL). simulated: ranks of the ring
 * whose every message was drawn; when fewer than `ranks`, the time per step of that ring counts
 * (may be NULL). TWIN_EINVAL, TWIN_ENOMEM. */
int twin_network_time(const struct twin_network *net, enum twin_algorithm a, uint32_t ranks,
                      double bytes, uint64_t seed, uint64_t trial, uint32_t *arrival,
                      uint32_t *simulated, double *seconds, struct twin_error *err);
/* Measures alpha and beta of TCP over this machine's loopback, in about a quarter of a second.
 * TWIN_EIO, TWIN_EUNSUPPORTED. */
int twin_network_measure(struct twin_network *net, struct twin_error *err);

#ifdef __cplusplus
}
#endif
#endif
