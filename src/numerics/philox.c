/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10, a counter-based generator: Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011. It has no state: four words of counter and two of key give
 * four random words, so any draw can be made without those before it. */
#include "internal.h"

#include <twin/random.h>

#define ROUNDS 10

/* The constants are those of the paper: two multipliers, and two numbers by which the key moves on
 * each round. */
void twin_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0];
    uint32_t c1 = counter[1];
    uint32_t c2 = counter[2];
    uint32_t c3 = counter[3];
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t p = (uint64_t)0xD2511F53u * c0, q = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(q >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)q;
        c2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The counter: two words of block, one of attempt, one of purpose; the seed is the key. */
struct tw_pair tw_random_block(uint64_t seed, uint64_t block, uint32_t attempt,
                               enum tw_purpose purpose)
{
    uint32_t word[4];
    twin_philox4x32((uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), attempt, purpose},
                    (uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)}, word);
    return (struct tw_pair){{word[0] | (uint64_t)word[1] << 32, word[2] | (uint64_t)word[3] << 32}};
}
