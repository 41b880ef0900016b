/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums and mixing: CRC32C for blocks of traces, and a hash of 128 bits for tables and for the
 * keys that traces store. None of them is made against somebody who chooses the input. Their
 * results are in files: they never change. */
#include "base.h"

#include <string.h>

uint64_t tw_mix64(uint64_t x)
{
    /* splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014) */
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Two lanes over words of 8 bytes, each mixed by tw_mix64; length and seed enter first. Bytes are
 * put together little end first, so every machine gets the same. The last word is filled with
 * zeros, which the length tells apart. Not for hostile input: tables and keys only. */
struct tw_hash128 tw_hash_bytes(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t a = tw_mix64(seed ^ 0x9E3779B97F4A7C15u) ^ bytes;
    uint64_t b = tw_mix64(seed + 0xD1B54A32D192ED03u) + bytes;
    while (bytes > 0) {
        uint64_t w = 0;
        size_t n = bytes < 8 ? bytes : 8;
        for (size_t i = 0; i < n; i++)
            w |= (uint64_t)p[i] << (8 * i);
        a = tw_mix64(a ^ w);
        b = tw_mix64(b + w * 0x9FB21C651E98DF25u) ^ (a >> 32);
        p += n;
        bytes -= n;
    }
    return (struct tw_hash128){tw_mix64(a), tw_mix64(b ^ a)};
}

/* Table t: what a byte does to the remainder with t zero bytes behind it. Filled before main(); the
 * polynomial is Castagnoli's, bits reversed. */
static uint32_t crc_table[8][256];

/* Bytes of a lane of crc_sse42(): a multiple of 8. Three of them are what its long loop takes at
 * once. */
#define CRC_LANE 512u
/* Byte t of a remainder, moved on by CRC_LANE zero bytes. */
static uint32_t crc_lane[4][256];

/* Moving on by zero bytes is linear: a table of single bits is enough to make the whole one. The
 * bits are powers of the polynomial's variable, the highest one first, so each follows from the one
 * before. */
static void make_lane_table(void)
{
    uint32_t moved = 0x80000000u;
    for (uint32_t i = 0; i < CRC_LANE; i++)
        moved = (moved >> 8) ^ crc_table[0][moved & 255];
    for (int bit = 31; bit >= 0; bit--) {
        uint32_t *table = crc_lane[bit / 8], one = 1u << (bit % 8);
        for (uint32_t i = 0; i < 256; i++)
            if (i & one)
                table[i] ^= moved;
        moved = (moved >> 1) ^ (0x82F63B78u & (0u - (moved & 1)));
    }
}

__attribute__((constructor)) static void make_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = (c >> 1) ^ (0x82F63B78u & (0u - (c & 1)));
        crc_table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (uint32_t i = 0; i < 256; i++)
            crc_table[t][i] = (crc_table[t - 1][i] >> 8) ^ crc_table[0][crc_table[t - 1][i] & 255];
    make_lane_table();
}

/* "Slicing by eight": eight table lookups that do not wait for each other instead of eight steps
 * that do. */
static uint32_t crc_portable(uint32_t c, const unsigned char *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                            (uint32_t)p[3] << 24);
        c = crc_table[7][low & 255] ^ crc_table[6][(low >> 8) & 255] ^
            crc_table[5][(low >> 16) & 255] ^ crc_table[4][low >> 24] ^ crc_table[3][p[4]] ^
            crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
    }
    for (; n; n--, p++)
        c = (c >> 8) ^ crc_table[0][(c ^ *p) & 255];
    return c;
}

#if defined(__x86_64__)
static uint32_t past_a_lane(uint32_t c)
{
    return crc_lane[0][c & 255] ^ crc_lane[1][(c >> 8) & 255] ^ crc_lane[2][(c >> 16) & 255] ^
           crc_lane[3][c >> 24];
}

/* The instruction computes just this polynomial. One waits for the result of the one before, three
 * times as long as it takes to begin the next: so three lanes are computed side by side, and joined
 * by moving the first ones past those behind them. */
__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t c, const unsigned char *p,
                                                            size_t n)
{
    uint64_t wide = c;
    for (; n >= 3 * CRC_LANE; n -= 3 * CRC_LANE, p += 3 * CRC_LANE) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < CRC_LANE; i += 8) {
            uint64_t w[3];
            memcpy(&w[0], p + i, 8);
            memcpy(&w[1], p + CRC_LANE + i, 8);
            memcpy(&w[2], p + 2 * CRC_LANE + i, 8);
            wide = __builtin_ia32_crc32di(wide, w[0]);
            second = __builtin_ia32_crc32di(second, w[1]);
            third = __builtin_ia32_crc32di(third, w[2]);
        }
        wide = past_a_lane((uint32_t)wide) ^ second;
        wide = past_a_lane((uint32_t)wide) ^ third;
    }
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        wide = __builtin_ia32_crc32di(wide, w);
    }
    c = (uint32_t)wide;
    for (; n; n--, p++)
        c = __builtin_ia32_crc32qi(c, *p);
    return c;
}
#endif

uint32_t tw_crc32c(uint32_t seed, const void *data, size_t bytes)
{
    uint32_t c = ~seed;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_sse42(c, data, bytes);
#endif
    return ~crc_portable(c, data, bytes);
}
