/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of seeds: a seed for every name, derived from the seed above it by keyed BLAKE2b (RFC
 * 7693) of 8 bytes. "model/dropout" under a seed is always the same number. Nothing is allocated
 * and no library called, so it may be used anywhere. */
#include <twin/random.h>

#include <string.h>

#define BLOCK 128
#define KEY_BYTES 8
#define OUT_BYTES 8

static const uint64_t iv[8] = {0x6A09E667F3BCC908u, 0xBB67AE8584CAA73Bu, 0x3C6EF372FE94F82Bu,
                               0xA54FF53A5F1D36F1u, 0x510E527FADE682D1u, 0x9B05688C2B3E6C1Fu,
                               0x1F83D9ABFB41BD6Bu, 0x5BE0CD19137E2179u};
static const uint8_t sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

/* Eight bytes, little end first. */
static uint64_t load_word(const unsigned char *p)
{
    uint64_t w = 0;
    for (int i = 7; i >= 0; i--)
        w = w << 8 | p[i];
    return w;
}

static uint64_t rotate(uint64_t x, int by)
{
    return x >> by | x << (64 - by);
}

static void mix(uint64_t v[16], int a, int b, int c, int d, uint64_t x, uint64_t y)
{
    v[a] += v[b] + x;
    v[d] = rotate(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = rotate(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 63);
}

/* `taken`: bytes hashed with this block, the key's block included. (No text here has 2^64 bytes:
 * the high word stays 0.) */
static void compress(uint64_t h[8], const unsigned char block[BLOCK], uint64_t taken, bool last)
{
    uint64_t m[16], v[16];
    for (int i = 0; i < 16; i++)
        m[i] = load_word(block + 8 * i);
    memcpy(v, h, 64);
    memcpy(v + 8, iv, 64);
    v[12] ^= taken;
    if (last)
        v[14] = ~v[14];
    for (int r = 0; r < 12; r++) {
        const uint8_t *s = sigma[r % 10];
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[s[8 + 2 * i]],
                m[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

/* The seed of one name below `parent`: BLAKE2b with the parent as its key, over the name and,
 * behind it, the suffix (which may be NULL with 0 bytes). */
static uint64_t child_seed(uint64_t parent, const char *name, size_t bytes, const char *suffix,
                           size_t suffix_bytes)
{
    uint64_t h[8], taken = BLOCK;
    unsigned char block[BLOCK] = {0};
    size_t all = bytes + suffix_bytes;
    memcpy(h, iv, sizeof h);
    h[0] ^= 0x01010000u ^ KEY_BYTES << 8 ^ OUT_BYTES;
    for (int i = 0; i < KEY_BYTES; i++)
        block[i] = (unsigned char)(parent >> (8 * i));
    compress(h, block, taken, all == 0);
    for (size_t at = 0; at < all;) {
        size_t n = all - at < BLOCK ? all - at : BLOCK;
        memset(block, 0, sizeof block);
        for (size_t i = 0; i < n; i++) {
            size_t from = at + i;
            block[i] = (unsigned char)(from < bytes ? name[from] : suffix[from - bytes]);
        }
        at += n;
        compress(h, block, taken += n, at == all);
    }
    return h[0];
}

/* Goes down along all names of a path but the last, which is left in *path with its length, 0 if
 * there is none. Returns the seed above it. Slashes at the ends and repeated ones count for
 * nothing. */
static uint64_t descend(uint64_t parent, const char **path, size_t *bytes)
{
    for (;;) {
        *path += strspn(*path, "/");
        *bytes = strcspn(*path, "/");
        const char *next = *path + *bytes;
        if (next[strspn(next, "/")] == '\0')
            return parent;
        parent = child_seed(parent, *path, *bytes, NULL, 0);
        *path = next;
    }
}

uint64_t twin_seed(uint64_t parent, const char *path)
{
    size_t bytes;
    parent = descend(parent, &path, &bytes);
    return bytes > 0 ? child_seed(parent, path, bytes, NULL, 0) : parent;
}

/* The last name with "=INDEX" behind it. */
uint64_t twin_seed_index(uint64_t parent, const char *path, uint64_t index)
{
    char text[21]; /* '=' and at most 20 digits, by hand: printf is not for signal handlers */
    size_t bytes, at = sizeof text;
    do
        text[--at] = (char)('0' + index % 10);
    while ((index /= 10) > 0);
    text[--at] = '=';
    parent = descend(parent, &path, &bytes);
    return child_seed(parent, path, bytes, text + at, sizeof text - at);
}
