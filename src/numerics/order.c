/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of samples, computed where they are asked for, and who takes what of them. A shuffle is a
 * permutation of n numbers in no memory: position i of it costs a few hashes, and so does the way
 * back. On top of it an order of training samples: which ones each rank takes at a step. Together
 * the ranks take the same ones whatever their number, and a resumed run takes those that it would
 * have taken.
 *
 * The shuffle lays the numbers out as a table and turns its rows and columns, as rings, by amounts
 * that are hashed from key and line. Each turn can be taken back, so the whole is a permutation. */
#include "internal.h"

#include "base.h"
#include <twin/random.h>

/* The smallest s with s^2 >= n. */
static uint64_t side_of(uint64_t n)
{
    uint64_t low = 0, high = (uint64_t)1 << 32; /* low^2 < n <= high^2 */
    while (n > 0 && high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (middle * middle < n)
            low = middle;
        else
            high = middle;
    }
    return n > 0 ? high : 1;
}

void twin_shuffle_init(struct twin_shuffle *p, uint64_t n, uint64_t seed)
{
    uint64_t side = side_of(n);
    p->n = n;
    /* shifts of an odd ring are even permutations, and half of all orders would be out of reach */
    p->columns = side + side % 2;
    p->rows = n > 0 ? (n - 1) / p->columns + 1 : 1;
    for (uint32_t j = 0; j < TWIN_SHUFFLE_ROUNDS; j++)
        p->key[j] = tw_random_block(seed, j / 2, 0, TW_FOR_SHUFFLE).half[j % 2];
}

/* How far round j turns a ring of `size` <= 2^32 cells. */
static uint64_t shift(const struct twin_shuffle *p, int j, uint64_t x, uint64_t size)
{
    return ((tw_mix64(x + p->key[j]) >> 32) * size) >> 32;
}

/* All rounds: a row, then a column, and so on. */
static uint64_t shuffle_forward(const struct twin_shuffle *p, uint64_t x)
{
    uint64_t row = x / p->columns, column = x % p->columns;
    for (int j = 0; j < TWIN_SHUFFLE_ROUNDS; j += 2) {
        column += shift(p, j, row, p->columns);
        column -= column >= p->columns ? p->columns : 0;
        row += shift(p, j + 1, column, p->rows);
        row -= row >= p->rows ? p->rows : 0;
    }
    return row * p->columns + column;
}

static uint64_t shuffle_backward(const struct twin_shuffle *p, uint64_t x)
{
    uint64_t row = x / p->columns, column = x % p->columns;
    for (int j = TWIN_SHUFFLE_ROUNDS - 2; j >= 0; j -= 2) {
        uint64_t by = shift(p, j + 1, column, p->rows);
        row += by > row ? p->rows - by : -by;
        by = shift(p, j, row, p->columns);
        column += by > column ? p->columns - by : -by;
    }
    return row * p->columns + column;
}

/* Cells from n on belong to nobody: one walks on. It ends, as the walk is a cycle and began below
 * n. */
uint64_t twin_shuffle_at(const struct twin_shuffle *p, uint64_t i)
{
    if (i >= p->n)
        return TWIN_NO_INDEX;
    do
        i = shuffle_forward(p, i);
    while (i >= p->n);
    return i;
}

/* The position at which the shuffle has x: the way back. */
uint64_t twin_shuffle_find(const struct twin_shuffle *p, uint64_t x)
{
    if (x >= p->n)
        return TWIN_NO_INDEX;
    do
        x = shuffle_backward(p, x);
    while (x >= p->n);
    return x;
}

/* Steps of one epoch; a short last batch counts unless it is dropped. */
uint64_t twin_order_steps(const struct twin_order *order)
{
    if (order->batch == 0)
        return 0;
    return order->samples / order->batch +
           (!order->drop_last && order->samples % order->batch != 0);
}

/* n * part / whole, part <= whole, without overflow. */
static uint64_t share_of(uint64_t n, uint64_t part, uint64_t whole)
{
    __extension__ unsigned __int128 product = (unsigned __int128)n * part;
    return (uint64_t)(product / whole);
}

/* A batch is cut evenly, to a difference of one sample, and ranks take their shares in order. So
 * all ranks together take the same samples at a step whatever their number is. */
int twin_order_part(const struct twin_order *order, uint64_t step, uint64_t rank, uint64_t world,
                    struct twin_order_part *part, struct twin_error *err)
{
    uint64_t steps = twin_order_steps(order);
    if (steps == 0)
        return twin_error_set(
            err, TWIN_EINVAL,
            "%llu samples in batches of %llu%s make no step: there must be at least one batch",
            (unsigned long long)order->samples, (unsigned long long)order->batch,
            order->drop_last ? " with the short one left out" : "");
    if (rank >= world)
        return twin_error_set(err, TWIN_EINVAL,
                              "rank %llu of %llu: expected a rank below the number of ranks",
                              (unsigned long long)rank, (unsigned long long)world);
    uint64_t start = step % steps * order->batch;
    uint64_t size = order->samples - start < order->batch ? order->samples - start : order->batch;
    uint64_t from = share_of(size, rank, world), to = share_of(size, rank + 1, world);
    *part = (struct twin_order_part){step / steps, start + from, to - from};
    return 0;
}

/* Each epoch has a seed of its own, derived from the order's. */
void twin_order_take(const struct twin_order *order, const struct twin_order_part *part,
                     uint64_t *out)
{
    struct twin_shuffle p;
    if (order->shuffle)
        twin_shuffle_init(&p, order->samples, twin_seed_index(order->seed, "epoch", part->epoch));
    for (uint64_t i = 0; i < part->count; i++)
        out[i] = order->shuffle ? twin_shuffle_at(&p, part->first + i) : part->first + i;
}
