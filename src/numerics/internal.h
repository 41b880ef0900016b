/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of random draws and orders share: blocks of random bits, and the purposes that
 * keep them apart. */
#ifndef TW_NUMERICS_INTERNAL_H
#define TW_NUMERICS_INTERNAL_H
#include <stdint.h>

/* Who uses a seed's blocks (counter word 3): draws and permutations of one seed have nothing in
 * common. */
enum tw_purpose { TW_FOR_DRAWS, TW_FOR_SHUFFLE };

/* One block of random bits, as two draws. */
struct tw_pair {
    uint64_t half[2];
};

/* The 128 bits of one block of a seed; `attempt` counts rejected draws. */
struct tw_pair tw_random_block(uint64_t seed, uint64_t block, uint32_t attempt,
                               enum tw_purpose purpose);
/* The standard normal value that the 64 bits of a draw stand for. */
double tw_normal_of(uint64_t bits);
#endif
