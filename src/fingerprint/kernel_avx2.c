/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX2 with FMA and F16C (every AVX2 processor of Intel and AMD has both). The
 * digest takes eight blocks at a time, in two chains that do not wait for each other; statistics
 * and sketches are vector.h's. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include "mixer.h"
#include "kernels.h"

/*
 * Adds (or xors) the product of from's halves to `to`, and leaves from with its halves exchanged.
 */
#define ROUND(combine, to, from)                            \
    do {                                                    \
        __m256i swapped = _mm256_shuffle_epi32(from, 0xB1); \
        to = combine(to, _mm256_mul_epu32(from, swapped));  \
        from = swapped;                                     \
    } while (0)
#define ADD _mm256_add_epi64
#define XOR _mm256_xor_si256

/* tw_mix_block of four blocks: w0 and w1 hold the first and the second words. */
static inline void mix(__m256i *w0, __m256i *w1)
{
    __m256i x = *w0, y = *w1;
    ROUND(ADD, x, y);
    ROUND(XOR, y, x);
    ROUND(ADD, x, y);
    ROUND(XOR, y, x);
    x = ADD(x, _mm256_mul_epu32(y, _mm256_shuffle_epi32(y, 0xB1)));
    *w0 = x;
    *w1 = y;
}

/* The keys from `first` on, in the order in which unpack leaves the words of four blocks. */
static inline __m256i four_keys(uint64_t first)
{
    return ADD(_mm256_set1_epi64x((long long)first),
               _mm256_setr_epi64x(0, (long long)(2 * TW_KEY_STEP), (long long)TW_KEY_STEP,
                                  (long long)(3 * TW_KEY_STEP)));
}

/* The sum of the four words, modulo 2^64. */
static inline uint64_t sum_of_words(__m256i v)
{
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return (uint64_t)_mm_cvtsi128_si64(two) + (uint64_t)_mm_extract_epi64(two, 1);
}

/* Unpacking takes first and second words apart; the keys are laid out in the order that it leaves
 * (four_keys). The rest of less than eight blocks goes one by one. */
static void digest(const unsigned char *p, size_t blocks, uint64_t first, struct twin_digest *sum)
{
    uint64_t k = tw_block_key(first), sa = sum->a, sb = sum->b;
    const size_t eights = blocks / 8;
    if (eights) {
        __m256i a = _mm256_setzero_si256(), b = a;
        __m256i key = four_keys(k);
        const __m256i step = _mm256_set1_epi64x((long long)(4 * TW_KEY_STEP));
        for (const unsigned char *end = p + 128 * eights; p < end; p += 128) {
            const __m256i *v = (const __m256i *)p;
            __m256i v0 = _mm256_loadu_si256(v), v1 = _mm256_loadu_si256(v + 1);
            __m256i v2 = _mm256_loadu_si256(v + 2), v3 = _mm256_loadu_si256(v + 3);
            __m256i x = ADD(_mm256_unpacklo_epi64(v0, v1), key),
                    y = XOR(_mm256_unpackhi_epi64(v0, v1), key);
            key = ADD(key, step);
            __m256i u = ADD(_mm256_unpacklo_epi64(v2, v3), key),
                    w = XOR(_mm256_unpackhi_epi64(v2, v3), key);
            key = ADD(key, step);
            mix(&x, &y);
            mix(&u, &w);
            a = ADD(a, ADD(x, u));
            b = ADD(b, ADD(y, w));
        }
        sa += sum_of_words(a);
        sb += sum_of_words(b);
        k += 8 * eights * TW_KEY_STEP;
    }
    for (blocks %= 8; blocks; blocks--, p += 16, k += TW_KEY_STEP)
        tw_mix_bytes(p, k, &sa, &sb);
    sum->a = sa;
    sum->b = sb;
}

typedef __m256d vd;
typedef __m256 vf;
/* counts in 32-bit or 64-bit elements; their sum as 32-bit ones is right for both */
typedef __m256i vz;
#define D 4
#define F 8
#define GD (TW_LANES / D)
#define GF (TW_LANES / F)
/* The vocabulary of vector.h. */
#define vd_load _mm256_loadu_pd
#define vd_store _mm256_storeu_pd
#define vd_add _mm256_add_pd
#define vd_mul _mm256_mul_pd
#define vd_set _mm256_set1_pd
#define vd_min _mm256_min_pd
#define vd_max _mm256_max_pd
#define vd_and _mm256_and_pd
#define vd_or _mm256_or_pd
#define vd_and_not _mm256_andnot_pd
#define vf_set _mm256_set1_ps
#define vf_min _mm256_min_ps
#define vf_max _mm256_max_ps
#define vz_none _mm256_setzero_si256

static inline vd vd_square_add(vd acc, vd x)
{
    return _mm256_fmadd_pd(x, x, acc);
}

/* Sign masks of four elements, by the four bits. */
#define SIGN(bit) ((uint64_t)(bit) << 63)
#define SIGNS(n) {SIGN((n) & 1), SIGN((n) >> 1 & 1), SIGN((n) >> 2 & 1), SIGN((n) >> 3 & 1)}
static const _Alignas(32) uint64_t sign_masks[16][4] = {
    SIGNS(0), SIGNS(1), SIGNS(2),  SIGNS(3),  SIGNS(4),  SIGNS(5),  SIGNS(6),  SIGNS(7),
    SIGNS(8), SIGNS(9), SIGNS(10), SIGNS(11), SIGNS(12), SIGNS(13), SIGNS(14), SIGNS(15),
};

static inline vd vd_signed(vd x, uint32_t bits, int group)
{
    return _mm256_xor_pd(x, _mm256_load_pd((const double *)sign_masks[bits >> 4 * group & 15]));
}

/* One and minus one for four elements, by the four bits. */
#define ONE(bit) (1.0 - 2.0 * (bit))
#define ONES(n) {ONE((n) & 1), ONE((n) >> 1 & 1), ONE((n) >> 2 & 1), ONE((n) >> 3 & 1)}
static const _Alignas(32) double signed_ones[16][4] = {
    ONES(0), ONES(1), ONES(2),  ONES(3),  ONES(4),  ONES(5),  ONES(6),  ONES(7),
    ONES(8), ONES(9), ONES(10), ONES(11), ONES(12), ONES(13), ONES(14), ONES(15),
};

/* A mask is -1: subtracting it counts. */
static inline vz vf_zeros(vz count, vf x)
{
    return _mm256_sub_epi32(count,
                            _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ)));
}

static inline vz vd_count(vz count, vd mask)
{
    return _mm256_sub_epi64(count, _mm256_castpd_si256(mask));
}

static inline vd vd_equal(vd x, vd y)
{
    return _mm256_cmp_pd(x, y, _CMP_EQ_OQ);
}

static inline vd vd_less(vd x, vd y)
{
    return _mm256_cmp_pd(x, y, _CMP_LT_OQ);
}

static inline int vd_any_bit(vd x)
{
    __m256i bits = _mm256_castpd_si256(x);
    return !_mm256_testz_si256(bits, bits);
}

static inline uint64_t vz_total(vz count)
{
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(count), _mm256_extracti128_si256(count, 1));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xB1)));
}

typedef __m256i vh;
#define GH 1
#define vh_xor _mm256_xor_si256
#define vh_min _mm256_min_epu16
#define vh_max _mm256_max_epu16
#define vh_max_signed _mm256_max_epi16

static inline vh vh_load(const unsigned char *p, int g)
{
    return _mm256_loadu_si256((const __m256i *)p + g);
}

static inline vh vh_set(uint16_t bits)
{
    return _mm256_set1_epi16((short)bits);
}

/* Twice the bits: the highest one is lost. */
static inline vh vh_zeros(vh count, vh x)
{
    return _mm256_sub_epi16(count,
                            _mm256_cmpeq_epi16(_mm256_add_epi16(x, x), _mm256_setzero_si256()));
}

static inline uint16_t vh_lowest(vh v)
{
    const __m128i low = _mm_min_epu16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return (uint16_t)_mm_cvtsi128_si32(_mm_minpos_epu16(low));
}

static inline uint64_t vh_zeros_total(vh count)
{
    return vz_total(_mm256_madd_epi16(count, _mm256_set1_epi16(1)));
}

/* Halves against each other until one number is left. */
static inline float vf_lowest(vf v)
{
    __m128 m = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_min_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_min_ss(m, _mm_shuffle_ps(m, m, 1)));
}

static inline float vf_highest(vf v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

static inline double vd_lowest(vd v)
{
    __m128d m = _mm_min_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_min_sd(m, _mm_unpackhi_pd(m, m)));
}

static inline double vd_highest(vd v)
{
    __m128d m = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_max_sd(m, _mm_unpackhi_pd(m, m)));
}

/* The four outputs of the mixer that are a row's signs, in their order. */
static inline void row_signs(uint64_t first, uint16_t signs[TW_ROW / TW_LANES])
{
    __m256i x = four_keys(first), y = x;
    mix(&x, &y);
    _mm256_storeu_si256((__m256i *)signs, _mm256_unpacklo_epi64(x, y));
    _mm256_storeu_si256((__m256i *)signs + 1, _mm256_unpackhi_epi64(x, y));
}

/* For each four elements of a row where their ones lie in signed_ones, in doubles: a processor's
 * address can multiply by eight. */
typedef struct {
    uint8_t place[TW_ROW / 4];
} row_turns;

static inline void row_turns_of(uint64_t first, row_turns *turns)
{
    const __m256i four = _mm256_set1_epi8(15 * 4);
    uint16_t signs[TW_ROW / TW_LANES];
    row_signs(first, signs);
    for (int half = 0; half < 2; half++) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)signs + half);
        const __m256i low = _mm256_and_si256(_mm256_slli_epi16(v, 2), four);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 2), four);
        const __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
        __m256i *to = (__m256i *)turns->place + 2 * half;
        _mm256_storeu_si256(to, _mm256_permute2x128_si256(a, b, 0x20));
        _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(a, b, 0x31));
    }
}

/* The product is exact: one instruction turns the sign and adds. */
static inline vd vd_add_turned(vd acc, vd x, const row_turns *turns, size_t group, int g)
{
    const double *ones = (const double *)signed_ones +
                         turns->place[TW_LANES / D * group + (size_t)g];
    return _mm256_fmadd_pd(x, _mm256_load_pd(ones), acc);
}

static inline vf load_f16(const unsigned char *p, int g)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 16 * g)));
}

/* The upper half of an f32. */
static inline vf load_bf16(const unsigned char *p, int g)
{
    __m128i h = _mm_loadu_si128((const __m128i *)(p + 16 * g));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

static inline vf load_f32(const unsigned char *p, int g)
{
    return _mm256_loadu_ps((const float *)(p + 32 * g));
}

static inline vd vd_widen(const float *p)
{
    return _mm256_cvtps_pd(_mm_loadu_ps(p));
}

static inline vd vf_widen(vf x, int part)
{
    return _mm256_cvtps_pd(part ? _mm256_extractf128_ps(x, 1) : _mm256_castps256_ps128(x));
}

static inline void spread_f16(float *to, const unsigned char *p)
{
    _mm256_storeu_ps(to, load_f16(p, 0));
    _mm256_storeu_ps(to + 8, load_f16(p, 1));
}

/* Unpacked behind zeros, a bf16 is the upper half of an f32. Unpacking works within halves of 128
 * bits, so quarters are brought in its order first. */
static inline void spread_bf16(float *to, const unsigned char *p)
{
    const __m256i v = _mm256_permute4x64_epi64(_mm256_loadu_si256((const __m256i *)p), 0xD8);
    const __m256i zero = _mm256_setzero_si256();
    _mm256_storeu_si256((__m256i *)to, _mm256_unpacklo_epi16(zero, v));
    _mm256_storeu_si256((__m256i *)to + 1, _mm256_unpackhi_epi16(zero, v));
}

#include "vector.h"

VECTOR_KERNELS(avx2);
