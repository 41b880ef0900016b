/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FINGERPRINT_MIXER_H
#define TW_FINGERPRINT_MIXER_H
/*
 * The mixer: one 16-byte block and its number give two 64-bit values. Four Feistel rounds, two multiplies each, so
 * that for any block number the map is a permutation of the 128 bits: no change inside one block can go unseen.
 * A round multiplies the 32-bit halves of one word and exchanges them, which carries the strong upper bits of the
 * products down to the weak lower ones of the next round. Frozen: docs/format/fingerprint.md.
 */
#include <stdint.h>

#define TW_KEY_STEP 0x9E3779B97F4A7C15u /* odd: every block number has a key of its own */
#define TW_KEY_BASE 0xD1B54A32D192ED03u

#define TW_M0 0x9E3779B1u
#define TW_M1 0x85EBCA77u
#define TW_M2 0xC2B2AE3Du
#define TW_M3 0xA7D4EB2Fu
#define TW_M4 0xE9846AF9u
#define TW_M5 0xD6E8FEB9u
#define TW_M6 0xB55A4F09u
#define TW_M7 0x8CB92BA7u

static inline uint64_t tw_swap_halves(uint64_t x)
{
    return x << 32 | x >> 32;
}

static inline uint64_t tw_multiply_halves(uint64_t x, uint32_t low, uint32_t high)
{
    return (x & 0xFFFFFFFFu) * low ^ (x >> 32) * high;
}

static inline uint64_t tw_block_key(uint64_t block)
{
    return block * TW_KEY_STEP + TW_KEY_BASE;
}

static inline void tw_mix_block(uint64_t w0, uint64_t w1, uint64_t key, uint64_t *a, uint64_t *b)
{
    uint64_t x = w0 + key, y = w1 ^ key;
    y = tw_swap_halves(y);
    x += tw_multiply_halves(y, TW_M0, TW_M1);
    x = tw_swap_halves(x);
    y ^= tw_multiply_halves(x, TW_M2, TW_M3);
    y = tw_swap_halves(y);
    x += tw_multiply_halves(y, TW_M4, TW_M5);
    x = tw_swap_halves(x);
    y ^= tw_multiply_halves(x, TW_M6, TW_M7);
    *a += x;
    *b += y;
}

/* The sketch's randomness: bit (i mod 64) of the hash of i / 64 is the sign of element i ... */
static inline uint64_t tw_scatter(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static inline uint64_t tw_sketch_signs(uint64_t index)
{
    return tw_scatter((index / 64 + 1) * 0x9E3779B97F4A7C15u);
}

/* ... and a row of 512 elements is turned by the low bits of another. */
static inline uint32_t tw_sketch_turn(uint64_t index, uint32_t k)
{
    return (uint32_t)(tw_scatter((index / 512 + 1) * 0xD1B54A32D192ED03u) >> 32) & (k - 1);
}

#endif
