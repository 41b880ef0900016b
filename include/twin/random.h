/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_RANDOM_H
#define TWIN_RANDOM_H
/*
 * One root number, and every random choice of a job from it: a tree of seeds, draws at any index,
 * an order of samples that any rank or worker computes for itself. Room: src/numerics. For programs
 * of one's own: link with -ltwinnumerics.
 *
 *     uint64_t weights = twin_seed(7, "model/layer=3");
 *     double x = twin_random_normal(weights, 0);
 *
 * Nothing here has a state or allocates: each value is a function of the arguments, with the same
 * bits on every machine, and in Python (twinrun.seeds). docs/format/random.md is the definition.
 * All functions are safe in threads and after fork, and all but twin_order_part, which may write an
 * error's text, in signal handlers. Not for cryptography. Since 0.1.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <twin/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What functions whose result is an index or a draw give when there is none. */
#define TWIN_NO_INDEX UINT64_MAX

/* One block of Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011; Random123's bijection,
 * nothing added). */
void twin_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* ---- the tree (seed.c) */

/*
 * The seed of a place in the tree below `parent`. path: names with slashes between them,
 * "data/epoch=3/sample=17", any bytes; empty names count for nothing, so that "" is the parent
 * itself. Each name is hashed (BLAKE2b, RFC 7693, 8 bytes) under the seed above it, so
 * twin_seed(twin_seed(r, "a"), "b") is twin_seed(r, "a/b"): a branch is the root of its own tree.
 */
uint64_t twin_seed(uint64_t parent, const char *path);

/* The place "path=index", in decimal: twin_seed_index(r, "data/epoch", 3) is twin_seed(r,
 * "data/epoch=3"). */
uint64_t twin_seed_index(uint64_t parent, const char *path, uint64_t index);

/* ---- draws: number `index` of a seed, whatever was drawn before (draw.c) */

/* 64 random bits. */
uint64_t twin_random_u64(uint64_t seed, uint64_t index);
/* Uniform on [0, 1), in steps of 2^-53. */
double twin_random_uniform(uint64_t seed, uint64_t index);
/* True with probability p, to 2^-53: never for p <= 0 or NaN, always for p >= 1. */
bool twin_random_bernoulli(uint64_t seed, uint64_t index, double p);
/* 0 to n - 1, each exactly equally likely (Lemire 2019). TWIN_NO_INDEX for n = 0. */
uint64_t twin_random_below(uint64_t seed, uint64_t index, uint64_t n);
/* Standard normal: the quantile (Wichura's AS 241, to about 1e-15) of the middle of one of 2^52
 * equal parts, so at most 8.21 from 0. Computed from + - * / and sqrt alone, which round alike
 * everywhere. */
double twin_random_normal(uint64_t seed, uint64_t index);
/*
 * The draws first to first + n - 1 into out[n]; the same values as one by one, in half of the time.
 */
void twin_random_fill_u64(uint64_t seed, uint64_t first, size_t n, uint64_t *out);
void twin_random_fill_uniform(uint64_t seed, uint64_t first, size_t n, double *out);
void twin_random_fill_normal(uint64_t seed, uint64_t first, size_t n, double *out);

/* ---- orders (order.c) */

#define TWIN_SHUFFLE_ROUNDS 24

/* A random order of 0 to n - 1 without a table: a generalised Feistel network over a grid of
 * columns x rows >= n cells, with cycle walking (Black and Rogaway 2002). About 0.2 microseconds a
 * place. 2^64 orders can be had; above n = 20 that is not all. */
struct twin_shuffle {
    uint64_t n, columns, rows;
    uint64_t key[TWIN_SHUFFLE_ROUNDS];
};
void twin_shuffle_init(struct twin_shuffle *p, uint64_t n, uint64_t seed);
/* Who stands at place i. TWIN_NO_INDEX for i >= n. */
uint64_t twin_shuffle_at(const struct twin_shuffle *p, uint64_t i);
/* The place at which x stands, the inverse. TWIN_NO_INDEX for x >= n. */
uint64_t twin_shuffle_find(const struct twin_shuffle *p, uint64_t x);

/* Which samples a training takes at each step, whatever the number of ranks: epoch after epoch,
 * each a new order of all samples (or 0, 1, 2... without `shuffle`), cut into global batches. Epoch
 * e is the permutation of twin_seed_index(seed, "epoch", e). The last batch of an epoch is short,
 * or left out with `drop_last`. The fields are the caller's to fill. */
struct twin_order {
    uint64_t samples, batch, seed;
    bool shuffle, drop_last;
};
/* The part of a global batch that one rank takes: `count` places of the epoch's order from `first`
 * on. */
struct twin_order_part {
    uint64_t epoch, first, count;
};

/* Steps of one epoch; 0 where there are none (no samples, batch 0, or no full batch with
 * `drop_last`). */
uint64_t twin_order_steps(const struct twin_order *order);
/* What rank `rank` of `world` takes at `step`, which counts over all epochs. A global batch is
 * split in one piece for each rank, as evenly as it can be: at most ceil(batch / world) samples; a
 * batch smaller than `world` leaves some ranks with count 0. TWIN_EINVAL: an order without steps,
 * or a rank not below world. */
int twin_order_part(const struct twin_order *order, uint64_t step, uint64_t rank, uint64_t world,
                    struct twin_order_part *part, struct twin_error *err);
/* The samples of such a part into out[part->count]. */
void twin_order_take(const struct twin_order *order, const struct twin_order_part *part,
                     uint64_t *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
