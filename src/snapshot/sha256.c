/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by FIPS 180-4, two messages at a time with the x86 SHA instructions, else by OpenSSL.
 *
 * The state of a message is kept as the instructions want it while blocks are added: words a b e f
 * in one register, c d g h in another. Bytes that do not fill a block wait in it. With OpenSSL none
 * of that is used but the count.
 */
#include "sha256.h"

#include "base.h"

#include <openssl/evp.h>
#include <string.h>

/* Tests take the other way by it. */
static bool may_use = true;

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define TARGET __attribute__((target("sha,sse4.1,ssse3")))

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t constants[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static bool has_instructions(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) &&
           __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3");
}

struct lane {
    __m128i abef, cdgh, w[4];
};

/* From the eight words in order to the two registers. */
TARGET static inline __attribute__((always_inline)) void load(struct lane *l,
                                                              const uint32_t state[8])
{
    const __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xB1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1B);
    l->abef = _mm_alignr_epi8(abcd, efgh, 8);
    l->cdgh = _mm_blend_epi16(efgh, abcd, 0xF0);
}

/* The way back. */
TARGET static inline __attribute__((always_inline)) void store(const struct lane *l,
                                                               uint32_t state[8])
{
    const __m128i feba = _mm_shuffle_epi32(l->abef, 0x1B), dchg = _mm_shuffle_epi32(l->cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* Rounds 4i to 4i + 3. i is a constant wherever this stands. */
TARGET static inline __attribute__((always_inline)) void rounds(struct lane *l,
                                                                const unsigned char *p, int i)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i *w = &l->w[i & 3], k;
    if (i < 4)
        *w = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * i)), swap);
    else
        *w = _mm_sha256msg2_epu32(
            _mm_add_epi32(_mm_sha256msg1_epu32(*w, l->w[(i + 1) & 3]),
                          _mm_alignr_epi8(l->w[(i + 3) & 3], l->w[(i + 2) & 3], 4)),
            l->w[(i + 3) & 3]);
    k = _mm_add_epi32(*w, _mm_load_si128((const __m128i *)(constants + 4 * i)));
    l->cdgh = _mm_sha256rnds2_epu32(l->cdgh, l->abef, k);
    l->abef = _mm_sha256rnds2_epu32(l->abef, l->cdgh, _mm_shuffle_epi32(k, 0x0E));
}

/* The 64 rounds, unrolled, so that i is a constant in each. */
#define ALL(R) R(0) R(1) R(2) R(3) R(4) R(5) R(6) R(7) R(8) R(9) R(10) R(11) R(12) R(13) R(14) R(15)

/* Adds n blocks of 64 bytes to one message. */
TARGET static void blocks_one(uint32_t state[8], const unsigned char *p, size_t n)
{
    struct lane a;
    load(&a, state);
    for (; n > 0; n--, p += 64) {
        const __m128i x = a.abef, y = a.cdgh;
#define R(i) rounds(&a, p, i);
        ALL(R)
#undef R
        a.abef = _mm_add_epi32(a.abef, x);
        a.cdgh = _mm_add_epi32(a.cdgh, y);
    }
    store(&a, state);
}

/* Adds n blocks to each of two messages. Their rounds are written in turn: while one waits for its
 * last round the other one fills the gap. */
TARGET static void blocks_two(uint32_t s[8], const unsigned char *p, uint32_t t[8],
                              const unsigned char *q, size_t n)
{
    struct lane a, b;
    load(&a, s);
    load(&b, t);
    for (; n > 0; n--, p += 64, q += 64) {
        const __m128i x = a.abef, y = a.cdgh, u = b.abef, v = b.cdgh;
#define R(i)          \
    rounds(&a, p, i); \
    rounds(&b, q, i);
        ALL(R)
#undef R
        a.abef = _mm_add_epi32(a.abef, x);
        a.cdgh = _mm_add_epi32(a.cdgh, y);
        b.abef = _mm_add_epi32(b.abef, u);
        b.cdgh = _mm_add_epi32(b.cdgh, v);
    }
    store(&a, s);
    store(&b, t);
}
#else
static bool has_instructions(void)
{
    return false;
}
static void blocks_one(uint32_t state[8], const unsigned char *p, size_t n)
{
    (void)state, (void)p, (void)n;
}
static void blocks_two(uint32_t s[8], const unsigned char *p, uint32_t t[8], const unsigned char *q,
                       size_t n)
{
    (void)s, (void)p, (void)t, (void)q, (void)n;
}
#endif

bool tw_sha256_use_instructions(bool yes)
{
    may_use = yes;
    return has_instructions();
}

bool tw_sha256_begin(struct tw_sha256 *s)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, first, sizeof first);
    s->bytes = 0;
    s->failed = false;
    if (may_use && has_instructions()) {
        tw_sha256_free(s);
        return true;
    }
    s->other = s->other ? s->other : EVP_MD_CTX_new();
    s->failed = !s->other || EVP_DigestInit_ex(s->other, EVP_sha256(), NULL) != 1;
    return !s->failed;
}

/* Fills up the block that was begun. Returns how much of the data that took. */
static size_t fill_block(struct tw_sha256 *s, const unsigned char *p, size_t n)
{
    const size_t held = s->bytes % 64;
    size_t take = 0;
    if (held != 0)
        take = n < 64 - held ? n : 64 - held;
    if (take)
        memcpy(s->block + held, p, take);
    s->bytes += take;
    if (take && s->bytes % 64 == 0)
        blocks_one(s->state, s->block, 1);
    return take;
}

/* Keeps less than a block for later. */
static void keep_rest(struct tw_sha256 *s, const unsigned char *p, size_t n)
{
    if (n)
        memcpy(s->block, p, n);
    s->bytes += n;
}

void tw_sha256_add(struct tw_sha256 *s, const void *data, size_t n)
{
    const unsigned char *p = data;
    if (s->other || s->failed) {
        s->failed |= s->failed || EVP_DigestUpdate(s->other, data, n) != 1;
        return;
    }
    const size_t taken = fill_block(s, p, n);
    p += taken;
    n -= taken;
    blocks_one(s->state, p, n / 64);
    s->bytes += n / 64 * 64;
    keep_rest(s, p + n / 64 * 64, n % 64);
}

/* Whole blocks that both have are done together, the rest each for itself. */
void tw_sha256_add_two(struct tw_sha256 *a, const void *pv, size_t n, struct tw_sha256 *b,
                       const void *qv, size_t m)
{
    const unsigned char *p = pv, *q = qv;
    if (!a->other && !b->other && !a->failed && !b->failed) {
        const size_t i = fill_block(a, p, n), j = fill_block(b, q, m);
        p += i, n -= i;
        q += j, m -= j;
        const size_t both = (n < m ? n : m) / 64;
        blocks_two(a->state, p, b->state, q, both);
        a->bytes += both * 64, b->bytes += both * 64;
        p += both * 64, n -= both * 64;
        q += both * 64, m -= both * 64;
    }
    tw_sha256_add(a, p, n);
    tw_sha256_add(b, q, m);
}

bool tw_sha256_end(struct tw_sha256 *s, unsigned char digest[32])
{
    /* The end: a bit, zeros, and the number of bits as 64 bits, big-endian. */
    unsigned char end[128] = {0x80};
    if (s->other || s->failed)
        return !s->failed && EVP_DigestFinal_ex(s->other, digest, NULL) == 1;
    const uint64_t bits = s->bytes * 8;
    const size_t n = s->bytes % 64 < 56 ? 64 - s->bytes % 64 : 128 - s->bytes % 64;
    for (int i = 0; i < 8; i++)
        end[n - 1 - (size_t)i] = (unsigned char)(bits >> (8 * i));
    tw_sha256_add(s, end, n);
    for (int i = 0; i < 32; i++)
        digest[i] = (unsigned char)(s->state[i / 4] >> (24 - 8 * (i % 4)));
    return true;
}

void tw_sha256_free(struct tw_sha256 *s)
{
    EVP_MD_CTX_free(s->other);
    s->other = NULL;
}

bool tw_sha256_of(const void *data, size_t n, char hex[65])
{
    unsigned char digest[32];
    hex[0] = '\0';
    if (EVP_Digest(data, n, digest, NULL, EVP_sha256(), NULL) != 1)
        return false;
    tw_hex(digest, sizeof digest, hex);
    return true;
}
