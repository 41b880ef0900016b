/* SPDX-License-Identifier: Apache-2.0 */
/* The window kernels of exact sums (window.h) for AVX-512 (F, BW, DQ, VL). TW_SIMDE compiles the
 * same source without the instructions, for the unit test. */
#ifdef TW_SIMDE
#include "simde_avx512.h"
#else
#include <immintrin.h>
#endif
#include "exact_inside.h"

typedef __m512d vd;
typedef __m512 vf;
typedef __m512i vi;
#define D 8
#define F 16
#define vd_load _mm512_loadu_pd
#define vd_add _mm512_add_pd
#define vd_minus(a, b) _mm512_fmsub_pd(a, _mm512_set1_pd(1), b)
#define vd_mul _mm512_mul_pd
#define vd_product_error _mm512_fmsub_pd
#define vf_add _mm512_add_ps
#define vf_sub _mm512_sub_ps
#define vd_bits _mm512_castpd_si512
#define vf_bits _mm512_castps_si512
#define vd_from_bits _mm512_castsi512_pd
#define vf_from_bits _mm512_castsi512_ps
#define vi_set32 _mm512_set1_epi32
#define vi_set64 _mm512_set1_epi64
#define vi_and _mm512_and_si512
#define vi_xor _mm512_xor_si512
#define vi_add32 _mm512_add_epi32
#define vi_add64 _mm512_add_epi64
#define vi_load16 _mm512_loadu_si512
#define vi_set16 _mm512_set1_epi16
#define vi_add16 _mm512_add_epi16
#define vi_max16 _mm512_max_epu16
#define vi_min16 _mm512_min_epu16
#define vi_store _mm512_storeu_si512

static inline vf load_f16(const unsigned char *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline vf load_bf16(const unsigned char *p)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

static inline vf load_f32(const unsigned char *p)
{
    return _mm512_loadu_ps((const float *)p);
}

static inline vd vf_widen(vf x, int part)
{
    return _mm512_cvtps_pd(part ? _mm512_extractf32x8_ps(x, 1) : _mm512_castps512_ps256(x));
}

static inline vd vd_widen(const float *p)
{
    return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}

static inline unsigned vi_lowest16(vi v)
{
    const __m256i half = _mm256_min_epu16(_mm512_castsi512_si256(v),
                                          _mm512_extracti64x4_epi64(v, 1));
    const __m128i low = _mm_min_epu16(_mm256_castsi256_si128(half),
                                      _mm256_extracti128_si256(half, 1));
    return (unsigned)_mm_cvtsi128_si32(_mm_minpos_epu16(low)) & 0xFFFF;
}

/* Read from two bytes further, a vector's upper words stand where another one's lower words do. */
static inline vi vi_upper_f32(const unsigned char *p)
{
    return _mm512_mask_blend_epi16(0xAAAAAAAA, vi_load16(p + 2), vi_load16(p + 64));
}

static inline vi vi_upper_f64(const unsigned char *p)
{
    vi words = _mm512_mask_blend_epi16(0x22222222, vi_load16(p + 6), vi_load16(p + 64 + 4));
    words = _mm512_mask_blend_epi16(0x44444444, words, vi_load16(p + 128 + 2));
    return _mm512_mask_blend_epi16(0x88888888, words, vi_load16(p + 192));
}

#include "window.h"

WINDOW_SET(avx512);
