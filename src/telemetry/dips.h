/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_DIPS_H
#define TW_DIPS_H
/*
 * What dips.c, causes.c and ranks.c share: blocks, which are rows put together until the counters
 * of the machine, which are sampled every 50 ms or less often, mean something.
 */
#include "telemetry_inside.h"

/*
 * Blocks of a process at most; at least, to look for a stretch in it; at least in each of two
 * samples that are compared.
 */
enum { TW_BLOCKS_MAX = 128, TW_BLOCKS_MIN = 12, TW_BLOCKS_MIN_EACH = 6 };
/*
 * Some rows in a line. first and last are steps; seconds is the sum of the rows', end_s - start_s
 * the time between its ends.
 */
struct tw_block {
    uint32_t first, last;
    double start_s, end_s, steps, seconds;
    double rate[TWIN_COUNTERS]; /* per second; levels: mean. NaN: not known for most of the block */
};

/* Random orders that are tried: of blocks, for a stretch; of each counter. */
struct tw_effort {
    size_t shuffles, permutations;
};
#define TW_EFFORT      \
    (struct tw_effort) \
    {                  \
        999, 4999      \
    }

/* The rows but the first, as at most `most` blocks of about equal length, 80 ms or longer. Returns
 * how many. */
size_t tw_blocks_make(const struct twin_telemetry_process *p, size_t most,
                      struct tw_block out[TW_BLOCKS_MAX]);

/* Blocks with slow[i] against the others: where they are and how much slower; then, which takes
 * long, what moved and the cause. */
int tw_dip_measure(const struct tw_block *b, const bool *slow, size_t n, struct twin_dip *out,
                   struct twin_error *err);
int tw_dip_explain(const struct tw_block *b, const bool *slow, size_t n, struct tw_effort effort,
                   struct twin_dip *out, struct twin_error *err);

/* twin_dip_find with that effort: the fuzzer's inputs are many. */
int tw_dip_find(const struct twin_telemetry_process *p, struct tw_effort effort,
                struct twin_dip *out, struct twin_error *err);

#endif
