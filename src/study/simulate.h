/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_STUDY_SIMULATE_H
#define TW_STUDY_SIMULATE_H
/* What a simulation of collectives was asked, and what it found. */
#include "values.h"

#include "src/spread/spread.h"

#define TW_SIMULATE_FREE UINT64_MAX /* sample, threads: as many as seem right */

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
    double *seconds;     /* [trials], ascending */
    uint32_t ring_ranks; /* of the ring whose messages were drawn */
};

struct tw_simulation {
    const struct tw_simulate_args *args;
    struct twin_network net;
    bool measured_alpha, measured_beta, random_placement, wide;
    enum twin_dtype dtype;
    uint64_t sampled;        /* elements looked at */
    struct tw_values values; /* of --data; n = 0 without */
    struct tw_simulated of[TWIN_ALGORITHMS];
    size_t count;
};

/*
 * Reads the numbers of args->data, where given, and simulates each algorithm in `of`; args, net,
 * dtype, random_placement,
 * wide, and the algorithms are given. 0, or a TWIN_E* after a complaint to front. In any case
 * tw_simulate_free later.
 */
int tw_simulate(struct tw_simulation *s, const struct tw_front *front);
void tw_simulate_free(struct tw_simulation *s);

#endif
