/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SIMULATE_H
#define TW_STUDY_SIMULATE_H
/*
 * What a simulation of collectives was asked, and what it found. simulate_asked.c understands the
 * options; simulate.c computes the answer, with src/spread.
 */
#include "values.h"

#include "src/spread/spread.h"

#define TW_SIMULATE_FREE UINT64_MAX /* sample, threads: as many as seem right */

/* The options of twinrun simulate; texts are borrowed, NULL when not given. elements: of the vector
 * that is all-reduced. sample: elements that are looked at. */
struct tw_simulate_args {
    const char *alpha, *beta, *jitter, *data, *draw, *type, *placement;
    struct tw_strings algorithm, tensor;
    uint64_t ranks, elements, trials, sample, seed, threads;
    bool json, quiet;
};

/* One algorithm's answer. */
struct tw_simulated {
    enum twin_algorithm algorithm;
    struct twin_vector_spread spread;
    double *seconds;     /* time of each trial, ascending; owned */
    uint32_t ring_ranks; /* ranks of the ring whose messages were drawn one by one */
};

/* One call of twinrun simulate; `count` of the answers in `of` are asked for. */
struct tw_simulation {
    const struct tw_simulate_args *args;
    struct twin_network net;
    /* measured_: alpha or beta come from this machine's loopback. random_placement: ranks stand in
     * a new order in each trial. wide: numbers of many orders of magnitude. */
    bool measured_alpha, measured_beta, random_placement, wide;
    enum twin_dtype dtype;
    uint64_t sampled;        /* how many elements are looked at */
    struct tw_values values; /* numbers of --data; n = 0 without */
    struct tw_simulated of[TWIN_ALGORITHMS];
    size_t count;
};

/* From the words of args to net, dtype, placement, draw and algorithms; what is not given of the
 * network is measured. TWIN_EINVAL: the message says which option, what was expected and what was
 * found; others: the loopback cannot be measured. */
int tw_simulate_understand(struct tw_simulation *s, struct twin_error *err);
/* Reads the numbers of args->data, where given, and simulates each algorithm in `of`; args, net,
 * dtype, random_placement, wide, and the algorithms are given. 0, or a TWIN_E* after a complaint to
 * front. In any case tw_simulate_free later. */
int tw_simulate(struct tw_simulation *s, const struct tw_front *front);
void tw_simulate_free(struct tw_simulation *s);

#endif
