/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrangement of a confirmation: which of its runs are free and which are pinned.
 *
 * It is drawn beforehand, uniformly, in blocks. The only thing that is random in the test is this
 * draw, so what the test says holds whatever the machine does meanwhile: divergences that stop,
 * come in bursts, or depend on the time of day. When nothing diverges under the pins and d of the
 * free runs of a block do, the share of arrangements that look at least as convincing is that of
 * those in which all d fell to free runs. The product over the blocks is the p value. One
 * divergence under the pins ends the confirmation, so 1 / product is what a player has who stakes
 * everything at fair odds each time. Such a player gets from 1 to 1 / level with probability at
 * most the level, however long the game and whoever decides when it ends (Ville 1939): looking
 * after each block, and choosing the size of the next one by what was seen, costs nothing.
 */
#include "search_inside.h"

#include <assert.h>
#include <math.h>

/* Sizes of block that are looked at, and the grid's fineness. */
enum {
    MOST_FREE = 6,
    MOST_PINNED = 10,
    GRID = 160, /* points of the grid of missing evidence */
};

double tw_rate(const struct tw_arm *arm)
{
    assert(arm->parted <= arm->compared);
    return ((double)arm->parted + .5) / ((double)arm->compared + 1);
}

double tw_least_rate(const struct tw_arm *arm)
{
    assert(arm->parted <= arm->compared);
    return ((double)arm->parted + .25) / ((double)arm->compared + 1);
}

/* Hypergeometric: of all ways to choose which runs of the block are free, the share in which the
 * `parted` divergent ones are all free, is the product of (free - i) / (free + pinned - i). */
double tw_block_p(uint64_t free, uint64_t pinned, uint64_t parted)
{
    double p = 1;
    assert(parted <= free);
    for (uint64_t i = 0; i < parted; i++)
        p *= (double)(free - i) / (double)(free + pinned - i);
    return p;
}

/* The largest probability that runs which diverge at one rate throughout give `k` divergences in a
 * row and then `n` clean comparisons: r^k (1 - r)^n, at r = k / (k + n). The factor 1.1 keeps to
 * the cautious side of it. */
double tw_all_against_none(uint64_t k, uint64_t n)
{
    assert(k + n > 0);
    double parted = (double)k, clean = (double)n, all = parted + clean;
    return 1.1 * pow(parted / all, parted) * pow(clean / all, clean);
}

/* What lies ahead of a confirmation at this rate of divergence. How much evidence is still missing
 * is measured in steps of a grid, each a factor exp(step) of p. remaining[g]: expected number of
 * runs when g steps are missing. */
struct outlook {
    double step, rate;
    double remaining[GRID + 1];
};

/* Binomial probability that exactly `parted` of `of` runs diverge. */
static double chance_of(uint64_t parted, uint64_t of, double rate)
{
    assert(parted <= of && rate >= 0 && rate <= 1);
    double p = 1;
    for (uint64_t i = 0; i < parted; i++)
        p *= (double)(of - i) / (double)(i + 1) * rate;
    for (uint64_t i = parted; i < of; i++)
        p *= 1 - rate;
    return p;
}

/* Runs to be expected with this block first, when g steps of the grid are missing. A block in which
 * no free run diverges gains nothing and is made again; dividing by the chance of that not
 * happening counts those repeats. */
static double length_with(const struct outlook *o, size_t g, struct tw_block block)
{
    assert(g <= GRID && block.free >= 1 && block.pinned >= 1);
    double length = block.free + block.pinned;
    for (uint64_t d = 1; d <= block.free; d++) {
        size_t gain = (size_t)(-log(tw_block_p(block.free, block.pinned, d)) / o->step);
        size_t left = gain < g ? g - gain : 0;
        length += chance_of(d, block.free, o->rate) * o->remaining[left];
    }
    return length / (1 - chance_of(0, block.free, o->rate));
}

/* The block with the smallest length_with, which goes to *length. */
static struct tw_block best_block(const struct outlook *o, size_t g, double *length)
{
    struct tw_block best = {1, 1};
    *length = INFINITY;
    for (uint32_t free = 1; free <= MOST_FREE; free++)
        for (uint32_t pinned = 1; pinned <= MOST_PINNED; pinned++) {
            double l = length_with(o, g, (struct tw_block){free, pinned});
            if (l < *length) {
                *length = l;
                best = (struct tw_block){free, pinned};
            }
        }
    return best;
}

/* Dynamic programming from little missing evidence to all of it: remaining[0] is 0, and each
 * further point needs only those before it. */
struct tw_block tw_block_choose(double rate, double missing, double *expected)
{
    struct outlook o = {.rate = rate, .step = log(missing) / GRID};
    struct tw_block block = {1, 1};
    assert(missing > 1 && rate > 0 && rate < 1);
    for (size_t g = 1; g <= GRID; g++)
        block = best_block(&o, g, &o.remaining[g]);
    if (expected)
        *expected = o.remaining[GRID];
    return block;
}

/* A number below n, the same for the same arguments, so that a resumed search draws the same
 * arrangement. The remainder favours small numbers by less than n / 2^64. The constants only keep
 * the arguments' roles apart. */
static uint64_t drawn(uint64_t seed, uint32_t confirmation, uint32_t block, uint32_t at, uint64_t n)
{
    assert(n > 0);
    uint64_t h = tw_mix64(seed ^ tw_mix64(confirmation + UINT64_C(0x9E3779B97F4A7C15)));
    h = tw_mix64(h ^ tw_mix64(block + UINT64_C(0xD1B54A32D192ED03)));
    return tw_mix64(h ^ tw_mix64(at + UINT64_C(0x8CB92BA72F3D8DD7))) % n;
}

/* The shuffle of Fisher and Yates, from the back. */
void tw_block_draw(uint64_t seed, uint32_t confirmation, uint32_t block, uint32_t *kind, size_t n)
{
    for (size_t i = n; i > 1; i--) { /* Fisher and Yates */
        size_t j = (size_t)drawn(seed, confirmation, block, (uint32_t)i, i);
        uint32_t other = kind[j];
        kind[j] = kind[i - 1];
        kind[i - 1] = other;
    }
}
