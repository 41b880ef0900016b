/* SPDX-License-Identifier: Apache-2.0 */
/* The window kernels of exact sums (window.h) for Advanced SIMD of AArch64. TW_SIMDE compiles the
 * same source for another processor, for the unit test. */
#ifdef TW_SIMDE
#include <simde/arm/neon.h>
#else
#include <arm_neon.h>
#endif
#include "exact_inside.h"

typedef float64x2_t vd;
typedef float32x4_t vf;
typedef uint32x4_t vi;
#define D 2
#define F 4
#define vd_add vaddq_f64
#define vd_minus vsubq_f64
#define vd_mul vmulq_f64
#define vf_add vaddq_f32
#define vf_sub vsubq_f32
#define vd_bits vreinterpretq_u32_f64
#define vf_bits vreinterpretq_u32_f32
#define vd_from_bits vreinterpretq_f64_u32
#define vf_from_bits vreinterpretq_f32_u32
#define vi_and vandq_u32
#define vi_xor veorq_u32
#define vi_add32 vaddq_u32
#define vi_16(op, a, b) \
    vreinterpretq_u32_u16(op(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)))
#define vi_load16(p) vreinterpretq_u32_u16(vld1q_u16((const uint16_t *)(p)))
#define vi_set16(v) vreinterpretq_u32_u16(vdupq_n_u16((uint16_t)(v)))
#define vi_add16(a, b) vi_16(vaddq_u16, a, b)
#define vi_max16(a, b) vi_16(vmaxq_u16, a, b)
#define vi_min16(a, b) vi_16(vminq_u16, a, b)
#define vi_store(p, v) vst1q_u32((uint32_t *)(p), v)

static inline vd vd_load(const double *p)
{
    return vld1q_f64(p);
}

static inline vd vd_product_error(vd a, vd b, vd p)
{
    return vfmaq_f64(vnegq_f64(p), a, b);
}

static inline vi vi_set32(int32_t v)
{
    return vdupq_n_u32((uint32_t)v);
}

static inline vi vi_set64(int64_t v)
{
    return vreinterpretq_u32_u64(vdupq_n_u64((uint64_t)v));
}

static inline vi vi_add64(vi a, vi b)
{
    return vreinterpretq_u32_u64(vaddq_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)));
}

static inline vf load_f16(const unsigned char *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p)));
}

static inline vf load_bf16(const unsigned char *p)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16((const uint16_t *)p)), 16));
}

static inline vf load_f32(const unsigned char *p)
{
    return vld1q_f32((const float *)p);
}

static inline vd vf_widen(vf x, int part)
{
    return vcvt_f64_f32(part ? vget_high_f32(x) : vget_low_f32(x));
}

static inline vd vd_widen(const float *p)
{
    return vcvt_f64_f32(vld1_f32(p));
}

static inline unsigned vi_lowest16(vi v)
{
    return vminvq_u16(vreinterpretq_u16_u32(v));
}

static inline vi vi_upper_f32(const unsigned char *p)
{
    const uint16_t *w = (const uint16_t *)p;
    return vreinterpretq_u32_u16(vuzp2q_u16(vld1q_u16(w), vld1q_u16(w + 8)));
}

static inline vi vi_upper_f64(const unsigned char *p)
{
    const uint32_t *w = (const uint32_t *)p;
    const uint32x4_t low = vuzp2q_u32(vld1q_u32(w), vld1q_u32(w + 4));
    const uint32x4_t high = vuzp2q_u32(vld1q_u32(w + 8), vld1q_u32(w + 12));
    return vreinterpretq_u32_u16(
        vuzp2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high)));
}

#include "window.h"

WINDOW_SET(neon);
