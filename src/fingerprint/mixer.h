/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FINGERPRINT_MIXER_H
#define TW_FINGERPRINT_MIXER_H
/*
 * The mixer: one 16-byte block and its number give two 64-bit values. Five Feistel rounds; a round
 * multiplies the two 32-bit halves of one word by each other, adds or xors the product to the other
 * word, and exchanges the halves, which carries the strong upper bits of a product down to the weak
 * lower ones. For any block number the map is a permutation of the 128 bits: no change within one
 * block can go unseen. Frozen: docs/format/fingerprint.md.
 */
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__ /* the agent's kernels on a GPU (agents/cuda) */
#define TW_MIXER __host__ __device__ static inline
#else
#define TW_MIXER static inline
#endif

#define TW_KEY_STEP 0x9E3779B97F4A7C15u /* odd: every block number has a key of its own */
#define TW_KEY_BASE 0xD1B54A32D192ED03u

TW_MIXER uint64_t tw_swap_halves(uint64_t x)
{
    return x << 32 | x >> 32;
}

TW_MIXER uint64_t tw_halves_product(uint64_t x)
{
    return (x & 0xFFFFFFFFu) * (x >> 32);
}

/* The key of a block by its number in the global tensor. */
TW_MIXER uint64_t tw_block_key(uint64_t block)
{
    return block * TW_KEY_STEP + TW_KEY_BASE;
}

/* Adds the two values of one block to *a and *b. w0, w1: its words. */
TW_MIXER void tw_mix_block(uint64_t w0, uint64_t w1, uint64_t key, uint64_t *a, uint64_t *b)
{
    uint64_t x = w0 + key, y = w1 ^ key;
    x += tw_halves_product(y);
    y = tw_swap_halves(y) ^ tw_halves_product(x);
    x = tw_swap_halves(x) + tw_halves_product(y);
    y = tw_swap_halves(y) ^ tw_halves_product(x);
    x = tw_swap_halves(x) + tw_halves_product(y);
    *a += x;
    *b += y;
}

TW_MIXER void tw_mix_bytes(const unsigned char *p, uint64_t key, uint64_t *a, uint64_t *b)
{
    uint64_t w0, w1;
    memcpy(&w0, p, 8);
    memcpy(&w1, p + 8, 8);
    tw_mix_block(w0, w1, key, a, b);
}

/*
 * The sketch's randomness. The signs of a row of 512 elements are the mixer's output for four empty
 * blocks, numbered after the row and keyed from another base: element 128 t + j of the row has bit
 * j of output t, a set bit is a minus.
 */
#define TW_SIGN_BASE 0x8CB92BA72F3D8DD7u

TW_MIXER uint64_t tw_sign_key(uint64_t index) /* of the row's first output */
{
    return index / 512 * 4 * TW_KEY_STEP + TW_SIGN_BASE;
}

/* Does element `index` count with a minus? One element at a time: kernels make the signs of a row
 * at once. */
TW_MIXER int tw_sketch_minus(uint64_t index)
{
    uint64_t x = 0, y = 0;
    tw_mix_block(0, 0, index / 128 * TW_KEY_STEP + TW_SIGN_BASE, &x, &y);
    return (index & 64 ? y : x) >> (index & 63) & 1;
}

/* A 64-bit finaliser (splitmix64). */
TW_MIXER uint64_t tw_scatter(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* By how many buckets the row of this element is turned. */
TW_MIXER uint32_t tw_sketch_turn(uint64_t index, uint32_t k)
{
    return (uint32_t)(tw_scatter((index / 512 + 1) * TW_KEY_STEP) >> 32) & (k - 1);
}

#endif
