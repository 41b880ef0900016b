/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 (F, BW, DQ, VL): as in kernel_avx2.c, with eight blocks in one vector.
 * TW_SIMDE compiles the same source without the instructions, for the unit test. */
#ifdef TW_SIMDE
#include "simde_avx512.h"
#else
#include <immintrin.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include "mixer.h"
#include "kernels.h"

#define AHEAD 4096 /* bytes that the digest prefetches ahead */
#define ADD _mm512_add_epi64
#define XOR _mm512_xor_si512

/*
 * Adds (or xors) the product of from's halves to `to`, and leaves from with its halves exchanged.
 */
#define ROUND(combine, to, from)                           \
    do {                                                   \
        __m512i swapped = _mm512_ror_epi64(from, 32);      \
        to = combine(to, _mm512_mul_epu32(from, swapped)); \
        from = swapped;                                    \
    } while (0)

/* tw_mix_block of eight blocks: w0 and w1 hold the first and the second words. */
static inline void mix(__m512i *w0, __m512i *w1)
{
    __m512i x = *w0, y = *w1;
    ROUND(ADD, x, y);
    ROUND(XOR, y, x);
    ROUND(ADD, x, y);
    ROUND(XOR, y, x);
    x = ADD(x, _mm512_mul_epu32(y, _mm512_ror_epi64(y, 32)));
    *w0 = x;
    *w1 = y;
}

/* The keys from `first` on, in the order given: that in which unpack leaves the words of eight
 * blocks, or of four. */
static inline __m512i keys(uint64_t first, const uint8_t order[8])
{
    uint64_t k[8];
    for (int j = 0; j < 8; j++)
        k[j] = first + order[j] * TW_KEY_STEP;
    return _mm512_loadu_si512(k);
}

static inline uint64_t total(__m512i v)
{
    uint64_t t[8], sum = 0;
    _mm512_storeu_si512(t, v);
    for (int j = 0; j < 8; j++)
        sum += t[j];
    return sum;
}

/* As in kernel_avx2.c, eight blocks in one vector; the order of the keys is what unpacking leaves.
 */
static void digest(const unsigned char *p, size_t blocks, uint64_t first, struct twin_digest *sum)
{
    static const uint8_t order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    uint64_t k = tw_block_key(first), sa = sum->a, sb = sum->b;
    const size_t eights = blocks / 8;
    if (eights) {
        __m512i a = _mm512_setzero_si512(), b = a, key = keys(k, order);
        const __m512i step = _mm512_set1_epi64((long long)(8 * TW_KEY_STEP));
        for (const unsigned char *end = p + 128 * eights; p < end; p += 128) {
            __m512i v0 = _mm512_loadu_si512(p), v1 = _mm512_loadu_si512(p + 64);
            __builtin_prefetch(p + AHEAD);
            __builtin_prefetch(p + AHEAD + 64);
            __m512i x = ADD(_mm512_unpacklo_epi64(v0, v1), key),
                    y = XOR(_mm512_unpackhi_epi64(v0, v1), key);
            key = ADD(key, step);
            mix(&x, &y);
            a = ADD(a, x);
            b = ADD(b, y);
        }
        sa += total(a);
        sb += total(b);
        k += 8 * eights * TW_KEY_STEP;
    }
    for (blocks %= 8; blocks; blocks--, p += 16, k += TW_KEY_STEP)
        tw_mix_bytes(p, k, &sa, &sb);
    sum->a = sa;
    sum->b = sb;
}

typedef __m512d vd;
typedef __m512 vf;
/* counts in 32-bit or 64-bit elements; their sum as 32-bit ones is right for both */
typedef __m512i vz;
#define D 8
#define F 16
#define GD (TW_LANES / D)
#define GF (TW_LANES / F)
/* The vocabulary of vector.h. */
#define vd_load _mm512_loadu_pd
#define vd_store _mm512_storeu_pd
#define vd_add _mm512_add_pd
#define vd_mul _mm512_mul_pd
#define vd_set _mm512_set1_pd
#define vd_min _mm512_min_pd
#define vd_max _mm512_max_pd
#define vf_set _mm512_set1_ps
#define vf_min _mm512_min_ps
#define vf_max _mm512_max_ps
#define vz_none _mm512_setzero_si512

static inline vd vd_and(vd x, vd y)
{
    return _mm512_castsi512_pd(_mm512_and_si512(_mm512_castpd_si512(x), _mm512_castpd_si512(y)));
}

static inline vd vd_or(vd x, vd y)
{
    return _mm512_castsi512_pd(_mm512_or_si512(_mm512_castpd_si512(x), _mm512_castpd_si512(y)));
}

static inline vd vd_and_not(vd x, vd y)
{
    return _mm512_castsi512_pd(_mm512_andnot_si512(_mm512_castpd_si512(x), _mm512_castpd_si512(y)));
}

/* A vector of masks from a mask register: vector.h knows only the former. */
static inline vd vd_mask(__mmask8 bits)
{
    return _mm512_castsi512_pd(_mm512_maskz_set1_epi64(bits, -1));
}

static inline vd vd_equal(vd x, vd y)
{
    return vd_mask(_mm512_cmp_pd_mask(x, y, _CMP_EQ_OQ));
}

static inline vd vd_less(vd x, vd y)
{
    return vd_mask(_mm512_cmp_pd_mask(x, y, _CMP_LT_OQ));
}

static inline vd vd_square_add(vd acc, vd x)
{
    return _mm512_fmadd_pd(x, x, acc);
}

static inline vd vd_signed(vd x, uint32_t bits, int group)
{
    __m512i sign = _mm512_maskz_set1_epi64((__mmask8)(bits >> D * group), INT64_MIN);
    return _mm512_castsi512_pd(XOR(_mm512_castpd_si512(x), sign));
}

/* Counts where the mask register is set. */
static inline vz vf_zeros(vz count, vf x)
{
    __mmask16 zero = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_EQ_OQ);
    return _mm512_mask_add_epi32(count, zero, count, _mm512_set1_epi32(1));
}

static inline vz vd_count(vz count, vd mask)
{
    return _mm512_sub_epi64(count, _mm512_castpd_si512(mask));
}

static inline int vd_any_bit(vd x)
{
    uint64_t t[8], any = 0;
    _mm512_storeu_si512(t, _mm512_castpd_si512(x));
    for (int j = 0; j < 8; j++)
        any |= t[j];
    return any != 0;
}

static inline uint64_t vz_total(vz count)
{
    uint32_t c[16];
    uint64_t t = 0;
    _mm512_storeu_si512(c, count);
    for (int j = 0; j < 16; j++)
        t += c[j];
    return t;
}

static inline float vf_lowest(vf v)
{
    float x[F];
    _mm512_storeu_ps(x, v);
    for (int j = 1; j < F; j++)
        x[0] = x[j] < x[0] ? x[j] : x[0];
    return x[0];
}

static inline float vf_highest(vf v)
{
    float x[F];
    _mm512_storeu_ps(x, v);
    for (int j = 1; j < F; j++)
        x[0] = x[j] > x[0] ? x[j] : x[0];
    return x[0];
}

static inline double vd_lowest(vd v)
{
    double x[D];
    _mm512_storeu_pd(x, v);
    for (int j = 1; j < D; j++)
        x[0] = x[j] < x[0] ? x[j] : x[0];
    return x[0];
}

static inline double vd_highest(vd v)
{
    double x[D];
    _mm512_storeu_pd(x, v);
    for (int j = 1; j < D; j++)
        x[0] = x[j] > x[0] ? x[j] : x[0];
    return x[0];
}

/* The four outputs of the mixer that are a row's signs; half of the vector goes unused. */
static inline void row_signs(uint64_t first, uint16_t signs[TW_ROW / TW_LANES])
{
    static const uint8_t order[8] = {0, 2, 1, 3, 0, 0, 0, 0};
    __m512i x = keys(first, order), y = x;
    mix(&x, &y);
    _mm256_storeu_si256((__m256i *)signs, _mm512_castsi512_si256(_mm512_unpacklo_epi64(x, y)));
    _mm256_storeu_si256((__m256i *)signs + 1, _mm512_castsi512_si256(_mm512_unpackhi_epi64(x, y)));
}

static inline vf load_f16(const unsigned char *p, int g)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p + 32 * g)));
}

/* The upper half of an f32. */
static inline vf load_bf16(const unsigned char *p, int g)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(p + 32 * g));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

static inline vf load_f32(const unsigned char *p, int g)
{
    return _mm512_loadu_ps(p + 64 * g);
}

static inline vd vd_widen(const float *p)
{
    return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}

static inline vd vf_widen(vf x, int part)
{
    return _mm512_cvtps_pd(part ? _mm512_extractf32x8_ps(x, 1) : _mm512_castps512_ps256(x));
}

#include "vector.h"

VECTOR_KERNELS(avx512);
