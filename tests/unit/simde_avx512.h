/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SIMDE_AVX512_H
#define TW_SIMDE_AVX512_H
/* AVX-512 on a processor without it: SIMDe, and element by element what older releases of SIMDe
 * lack. */
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#ifndef __x86_64__
#define __mmask8 simde__mmask8
#define __mmask16 simde__mmask16
#endif
#undef _mm512_cvtph_ps
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtps_pd
#undef _mm512_shuffle_epi32
#undef _mm512_zextsi256_si512
#undef _mm512_extractf32x8_ps
#define _mm512_cvtph_ps shim_cvtph_ps
#define _mm512_cvtepu16_epi32 shim_cvtepu16_epi32
#define _mm512_cvtps_pd shim_cvtps_pd
#define _mm512_shuffle_epi32 shim_shuffle_epi32
#define _mm512_zextsi256_si512 shim_zextsi256_si512
#define _mm512_extractf32x8_ps shim_extractf32x8_ps

static inline __m512 shim_cvtph_ps(__m256i h)
{
    uint16_t from[16];
    float to[16];
    simde_mm256_storeu_si256((simde__m256i *)from, h);
    for (int half = 0; half < 4; half++)
        simde_mm_storeu_ps(to + 4 * half, simde_mm_cvtph_ps(simde_mm_loadl_epi64(
                                              (simde__m128i *)(from + 4 * half))));
    return simde_mm512_loadu_ps(to);
}

static inline __m512i shim_cvtepu16_epi32(__m256i h)
{
    uint16_t from[16];
    uint32_t to[16];
    simde_mm256_storeu_si256((simde__m256i *)from, h);
    for (int j = 0; j < 16; j++)
        to[j] = from[j];
    return simde_mm512_loadu_si512(to);
}

static inline __m512d shim_cvtps_pd(__m256 x)
{
    float from[8];
    double to[8];
    simde_mm256_storeu_ps(from, x);
    for (int j = 0; j < 8; j++)
        to[j] = from[j];
    return simde_mm512_loadu_pd(to);
}

static inline __m512i shim_shuffle_epi32(__m512i v, int order)
{
    uint32_t from[16], to[16];
    simde_mm512_storeu_si512(from, v);
    for (int j = 0; j < 16; j++)
        to[j] = from[(j & ~3) + (order >> 2 * (j & 3) & 3)];
    return simde_mm512_loadu_si512(to);
}

static inline __m512i shim_zextsi256_si512(__m256i half)
{
    uint32_t words[16] = {0};
    simde_mm256_storeu_si256((simde__m256i *)words, half);
    return simde_mm512_loadu_si512(words);
}

static inline __m256 shim_extractf32x8_ps(__m512 x, int half)
{
    float from[16];
    simde_mm512_storeu_ps(from, x);
    return simde_mm256_loadu_ps(from + 8 * half);
}
#endif
