/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 (F, BW, DQ, VL): as in kernel_avx2.c, with eight blocks in one vector.
 * TW_SIMDE compiles the same source without the instructions, for the unit test. */
#ifdef TW_SIMDE
#include "simde_avx512.h"
#define SWAPPED 0xB1
#else
#include <immintrin.h>
#define SWAPPED ((_MM_PERM_ENUM)0xB1)
#endif
#include <stddef.h>
#include <stdint.h>
#include "mixer.h"
#include "kernels.h"

#define ADD _mm512_add_epi64
#define XOR _mm512_xor_si512

/* Exchanges the halves of each word. A shuffle of 32-bit elements and not a rotation, which fewer
 * units can do. */
#define SWAP(v) _mm512_shuffle_epi32(v, SWAPPED)

/*
 * Adds (or xors) the product of from's halves to `to`, and leaves from with its halves exchanged.
 */
#define ROUND(combine, to, from)                           \
    do {                                                   \
        __m512i swapped = SWAP(from);                      \
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
    x = ADD(x, _mm512_mul_epu32(y, SWAP(y)));
    *w0 = x;
    *w1 = y;
}

/* How far the key of a block is from that of the first one. */
#define KEY(block) ((long long)((block) * TW_KEY_STEP))

/* The keys from `first` on, in the order in which unpack leaves the words of eight blocks. */
static inline __m512i eight_keys(uint64_t first)
{
    return ADD(_mm512_set1_epi64((long long)first),
               _mm512_setr_epi64(KEY(0), KEY(4), KEY(1), KEY(5), KEY(2), KEY(6), KEY(3), KEY(7)));
}

/* The sum of the eight words, modulo 2^64. Halves are added while they are in registers: a vector
 * that is stored and read again in words waits for the store. */
static inline uint64_t sum_of_words(__m512i v)
{
    const __m256i four = _mm256_add_epi64(_mm512_castsi512_si256(v),
                                          _mm512_extracti64x4_epi64(v, 1));
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four),
                                      _mm256_extracti128_si256(four, 1));
    return (uint64_t)_mm_cvtsi128_si64(two) + (uint64_t)_mm_extract_epi64(two, 1);
}

/* As in kernel_avx2.c, eight blocks in one vector; the order of the keys is what unpacking leaves.
 */
static void digest(const unsigned char *p, size_t blocks, uint64_t first, struct twin_digest *sum)
{
    uint64_t k = tw_block_key(first), sa = sum->a, sb = sum->b;
    const size_t eights = blocks / 8;
    if (eights) {
        __m512i a = _mm512_setzero_si512(), b = a, key = eight_keys(k);
        const __m512i step = _mm512_set1_epi64((long long)(8 * TW_KEY_STEP));
        for (const unsigned char *end = p + 128 * eights; p < end; p += 128) {
            __m512i v0 = _mm512_loadu_si512(p), v1 = _mm512_loadu_si512(p + 64);
            __m512i x = ADD(_mm512_unpacklo_epi64(v0, v1), key),
                    y = XOR(_mm512_unpackhi_epi64(v0, v1), key);
            key = ADD(key, step);
            mix(&x, &y);
            a = ADD(a, x);
            b = ADD(b, y);
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
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(count),
                                          _mm512_extracti64x4_epi64(count, 1));
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xB1)));
}

/* Groups of 16-bit integers have 256 bits: TW_LANES of them. */
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
    return vz_total(_mm512_zextsi256_si512(_mm256_madd_epi16(count, _mm256_set1_epi16(1))));
}

/* Halves against each other until one number is left. */
#define ACROSS_F(name, least)                                                                      \
    static inline float name(vf v)                                                                 \
    {                                                                                              \
        const __m256 half = _mm256_##least##_ps(_mm512_castps512_ps256(v),                         \
                                                _mm512_extractf32x8_ps(v, 1));                     \
        __m128 m = _mm_##least##_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)); \
        m = _mm_##least##_ps(m, _mm_movehl_ps(m, m));                                              \
        return _mm_cvtss_f32(_mm_##least##_ss(m, _mm_shuffle_ps(m, m, 1)));                        \
    }
#define ACROSS_D(name, least)                                                   \
    static inline double name(vd v)                                             \
    {                                                                           \
        const __m256d half = _mm256_##least##_pd(_mm512_castpd512_pd256(v),     \
                                                 _mm512_extractf64x4_pd(v, 1)); \
        const __m128d m = _mm_##least##_pd(_mm256_castpd256_pd128(half),        \
                                           _mm256_extractf128_pd(half, 1));     \
        return _mm_cvtsd_f64(_mm_##least##_sd(m, _mm_unpackhi_pd(m, m)));       \
    }
ACROSS_F(vf_lowest, min)
ACROSS_F(vf_highest, max)
ACROSS_D(vd_lowest, min)
ACROSS_D(vd_highest, max)

/* The four outputs of the mixer that are a row's signs; half of the vector goes unused. */
static inline void row_signs(uint64_t first, uint16_t signs[TW_ROW / TW_LANES])
{
    __m512i x = ADD(_mm512_set1_epi64((long long)first),
                    _mm512_setr_epi64(KEY(0), KEY(2), KEY(1), KEY(3), 0, 0, 0, 0)),
            y = x;
    mix(&x, &y);
    _mm256_storeu_si256((__m256i *)signs, _mm512_castsi512_si256(_mm512_unpacklo_epi64(x, y)));
    _mm256_storeu_si256((__m256i *)signs + 1, _mm512_castsi512_si256(_mm512_unpackhi_epi64(x, y)));
}

/* A mask for each eight elements. */
typedef struct {
    __mmask8 minus[TW_ROW / D];
} row_turns;

static inline void row_turns_of(uint64_t first, row_turns *turns)
{
    uint16_t signs[TW_ROW / TW_LANES];
    row_signs(first, signs);
    memcpy(turns->minus, signs, sizeof turns->minus);
}

static inline vd vd_add_turned(vd acc, vd x, const row_turns *turns, size_t group, int g)
{
    const __m512i v = _mm512_castpd_si512(x), sign = _mm512_set1_epi64(INT64_MIN);
    const __mmask8 minus = turns->minus[TW_LANES / D * group + (size_t)g];
    return _mm512_add_pd(acc, _mm512_castsi512_pd(_mm512_mask_xor_epi64(v, minus, v, sign)));
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

static inline void spread_f16(float *to, const unsigned char *p)
{
    _mm512_storeu_ps(to, load_f16(p, 0));
}

static inline void spread_bf16(float *to, const unsigned char *p)
{
    _mm512_storeu_ps(to, load_bf16(p, 0));
}

#include "vector.h"

VECTOR_KERNELS(avx512);
