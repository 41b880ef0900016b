/* SPDX-License-Identifier: Apache-2.0 */
/* The window kernels of exact sums (window.h) for AVX2 with FMA and F16C. */
#include <immintrin.h>
#include "exact_inside.h"

typedef __m256d vd;
typedef __m256 vf;
typedef __m256i vi;
#define D 4
#define F 8
#define vd_load _mm256_loadu_pd
#define vd_add _mm256_add_pd
#define vd_minus(a, b) _mm256_fmsub_pd(a, _mm256_set1_pd(1), b)
#define vd_mul _mm256_mul_pd
#define vd_product_error _mm256_fmsub_pd
#define vf_add _mm256_add_ps
#define vf_sub _mm256_sub_ps
#define vd_bits _mm256_castpd_si256
#define vf_bits _mm256_castps_si256
#define vd_from_bits _mm256_castsi256_pd
#define vf_from_bits _mm256_castsi256_ps
#define vi_set32 _mm256_set1_epi32
#define vi_set64 _mm256_set1_epi64x
#define vi_and _mm256_and_si256
#define vi_xor _mm256_xor_si256
#define vi_add32 _mm256_add_epi32
#define vi_add64 _mm256_add_epi64
#define vi_load16(p) _mm256_loadu_si256((const __m256i *)(p))
#define vi_set16 _mm256_set1_epi16
#define vi_add16 _mm256_add_epi16
#define vi_max16 _mm256_max_epu16
#define vi_min16 _mm256_min_epu16
#define vi_store(p, v) _mm256_storeu_si256((__m256i *)(p), v)

static inline vf load_f16(const unsigned char *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline vf load_bf16(const unsigned char *p)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

static inline vf load_f32(const unsigned char *p)
{
    return _mm256_loadu_ps((const float *)p);
}

static inline vd vf_widen(vf x, int part)
{
    return _mm256_cvtps_pd(part ? _mm256_extractf128_ps(x, 1) : _mm256_castps256_ps128(x));
}

static inline vd vd_widen(const float *p)
{
    return _mm256_cvtps_pd(_mm_loadu_ps(p));
}

static inline unsigned vi_lowest16(vi v)
{
    const __m128i low = _mm_min_epu16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return (unsigned)_mm_cvtsi128_si32(_mm_minpos_epu16(low)) & 0xFFFF;
}

/* Read from two bytes further, a vector's upper words stand where another one's lower words do. */
static inline vi vi_upper_f32(const unsigned char *p)
{
    return _mm256_blend_epi16(vi_load16(p + 2), vi_load16(p + 32), 0xAA);
}

static inline vi vi_upper_f64(const unsigned char *p)
{
    const vi first = _mm256_blend_epi16(vi_load16(p + 6), vi_load16(p + 32 + 4), 0x22);
    const vi second = _mm256_blend_epi16(vi_load16(p + 64 + 2), vi_load16(p + 96), 0x88);
    return _mm256_blend_epi16(first, second, 0xCC);
}

#include "window.h"

WINDOW_SET(avx2);
