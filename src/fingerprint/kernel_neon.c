/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for Advanced SIMD of AArch64, which every such processor has. TW_SIMDE compiles the
 * same source for another processor, for the unit test. */
#ifdef TW_SIMDE
#include <simde/arm/neon.h>
#else
#include <arm_neon.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include "mixer.h"
#include "kernels.h"

/* The product of the two 32-bit halves of each word. */
static inline uint64x2_t product(uint64x2_t x)
{
    return vmull_u32(vmovn_u64(x), vshrn_n_u64(x, 32));
}

/* Each word with its halves exchanged. */
static inline uint64x2_t swap(uint64x2_t x)
{
    return vreinterpretq_u64_u32(vrev64q_u32(vreinterpretq_u32_u64(x)));
}

/* tw_mix_block of two blocks: w0 and w1 hold the first and the second words. */
static inline void mix(uint64x2_t *w0, uint64x2_t *w1)
{
    uint64x2_t x = *w0, y = *w1;
    x = vaddq_u64(x, product(y));
    y = veorq_u64(swap(y), product(x));
    x = vaddq_u64(swap(x), product(y));
    y = veorq_u64(swap(y), product(x));
    x = vaddq_u64(swap(x), product(y));
    *w0 = x;
    *w1 = y;
}

/* The keys of two blocks, from `first` on. */
static inline uint64x2_t two_keys(uint64_t first)
{
    return vsetq_lane_u64(first + TW_KEY_STEP, vdupq_n_u64(first), 1);
}

static inline uint64_t sum_of_words(uint64x2_t v)
{
    return vgetq_lane_u64(v, 0) + vgetq_lane_u64(v, 1);
}

/* Four blocks at a time in two chains; the rest goes one by one. */
static void digest(const unsigned char *p, size_t blocks, uint64_t first, struct twin_digest *sum)
{
    uint64_t k = tw_block_key(first), sa = sum->a, sb = sum->b;
    const size_t fours = blocks / 4;
    if (fours) {
        uint64x2_t a = vdupq_n_u64(0), b = a, key = two_keys(k);
        const uint64x2_t step = vdupq_n_u64(2 * TW_KEY_STEP);
        for (const unsigned char *end = p + 64 * fours; p < end; p += 64) {
            /* Loads of words take apart what the blocks interleave. */
            uint64x2x2_t v = vld2q_u64((const uint64_t *)p);
            uint64x2x2_t u = vld2q_u64((const uint64_t *)(p + 32));
            __builtin_prefetch(p + 2048);
            uint64x2_t x = vaddq_u64(v.val[0], key), y = veorq_u64(v.val[1], key);
            key = vaddq_u64(key, step);
            uint64x2_t z = vaddq_u64(u.val[0], key), w = veorq_u64(u.val[1], key);
            key = vaddq_u64(key, step);
            mix(&x, &y);
            mix(&z, &w);
            a = vaddq_u64(a, vaddq_u64(x, z));
            b = vaddq_u64(b, vaddq_u64(y, w));
        }
        sa += sum_of_words(a);
        sb += sum_of_words(b);
        k += 4 * fours * TW_KEY_STEP;
    }
    for (blocks %= 4; blocks; blocks--, p += 16, k += TW_KEY_STEP)
        tw_mix_bytes(p, k, &sa, &sb);
    sum->a = sa;
    sum->b = sb;
}

typedef float64x2_t vd;
typedef float32x4_t vf;
/* counts in 32-bit or 64-bit elements; their sum as 32-bit ones is right for both */
typedef uint32x4_t vz;
#define D 2
#define F 4
#define GD (TW_LANES / D)
#define GF (TW_LANES / F)
/* The vocabulary of vector.h. */
#define vd_load vld1q_f64
#define vd_store vst1q_f64
#define vd_add vaddq_f64
#define vd_mul vmulq_f64
#define vd_set vdupq_n_f64
#define vd_min vminq_f64
#define vd_max vmaxq_f64
#define vf_set vdupq_n_f32
#define vf_min vminq_f32
#define vf_max vmaxq_f32
#define BITS vreinterpretq_u64_f64
#define VALUE vreinterpretq_f64_u64

static inline vz vz_none(void)
{
    return vdupq_n_u32(0);
}

static inline vd vd_and(vd x, vd y)
{
    return VALUE(vandq_u64(BITS(x), BITS(y)));
}

static inline vd vd_or(vd x, vd y)
{
    return VALUE(vorrq_u64(BITS(x), BITS(y)));
}

static inline vd vd_and_not(vd x, vd y)
{
    return VALUE(vbicq_u64(BITS(y), BITS(x)));
}

static inline vd vd_equal(vd x, vd y)
{
    return VALUE(vceqq_f64(x, y));
}

static inline vd vd_less(vd x, vd y)
{
    return VALUE(vcltq_f64(x, y));
}

static inline vd vd_square_add(vd acc, vd x)
{
    return vfmaq_f64(acc, x, x);
}

static inline vd vd_signed(vd x, uint32_t bits, int group)
{
    static const uint64_t minus = 1ull << 63;
    static const uint64_t masks[4][2] = {{0, 0}, {minus, 0}, {0, minus}, {minus, minus}};
    return VALUE(veorq_u64(BITS(x), vld1q_u64(masks[bits >> D * group & 3])));
}

/* A mask is all ones, which is -1: subtracting it counts. */
static inline vz vf_zeros(vz count, vf x)
{
    return vsubq_u32(count, vceqq_f32(x, vdupq_n_f32(0)));
}

static inline vz vd_count(vz count, vd mask)
{
    return vreinterpretq_u32_u64(vsubq_u64(vreinterpretq_u64_u32(count), BITS(mask)));
}

static inline int vd_any_bit(vd x)
{
    return (vgetq_lane_u64(BITS(x), 0) | vgetq_lane_u64(BITS(x), 1)) != 0;
}

static inline uint64_t vz_total(vz count)
{
    return vaddlvq_u32(count);
}

static inline float vf_lowest(vf v)
{
    return vminvq_f32(v);
}

static inline float vf_highest(vf v)
{
    return vmaxvq_f32(v);
}

static inline double vd_lowest(vd v)
{
    return vminvq_f64(v);
}

static inline double vd_highest(vd v)
{
    return vmaxvq_f64(v);
}

typedef uint16x8_t vh;
#define GH 2
#define vh_set vdupq_n_u16
#define vh_xor veorq_u16
#define vh_min vminq_u16
#define vh_max vmaxq_u16
#define vh_lowest vminvq_u16

static inline vh vh_load(const unsigned char *p, int g)
{
    return vld1q_u16((const uint16_t *)(p + 16 * g));
}

static inline vh vh_max_signed(vh x, vh y)
{
    return vreinterpretq_u16_s16(vmaxq_s16(vreinterpretq_s16_u16(x), vreinterpretq_s16_u16(y)));
}

/* Twice the bits: the highest one is lost. */
static inline vh vh_zeros(vh count, vh x)
{
    return vsubq_u16(count, vceqq_u16(vaddq_u16(x, x), vdupq_n_u16(0)));
}

static inline uint64_t vh_zeros_total(vh count)
{
    return vaddlvq_u16(count);
}

static inline void row_signs(uint64_t first, uint16_t signs[TW_ROW / TW_LANES])
{
    for (int half = 0; half < 2; half++) {
        uint64x2_t x = two_keys(first + 2 * (uint64_t)half * TW_KEY_STEP), y = x;
        mix(&x, &y);
        vst1q_u16(signs + 16 * half, vreinterpretq_u16_u64(vzip1q_u64(x, y)));
        vst1q_u16(signs + 16 * half + 8, vreinterpretq_u16_u64(vzip2q_u64(x, y)));
    }
}

typedef struct {
    uint16_t signs[TW_ROW / TW_LANES];
} row_turns;

static inline void row_turns_of(uint64_t first, row_turns *turns)
{
    row_signs(first, turns->signs);
}

static inline vd vd_add_turned(vd acc, vd x, const row_turns *turns, size_t group, int g)
{
    return vaddq_f64(acc, vd_signed(x, turns->signs[group], g));
}

static inline vf load_f16(const unsigned char *p, int g)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(p + 8 * g))));
}

/* The upper half of an f32. */
static inline vf load_bf16(const unsigned char *p, int g)
{
    return vreinterpretq_f32_u32(
        vshlq_n_u32(vmovl_u16(vld1_u16((const uint16_t *)(p + 8 * g))), 16));
}

static inline vf load_f32(const unsigned char *p, int g)
{
    return vld1q_f32((const float *)(p + 16 * g));
}

static inline vd vd_widen(const float *p)
{
    return vcvt_f64_f32(vld1_f32(p));
}

static inline vd vf_widen(vf x, int part)
{
    return vcvt_f64_f32(part ? vget_high_f32(x) : vget_low_f32(x));
}

static inline void spread_f16(float *to, const unsigned char *p)
{
    for (int g = 0; g < GF; g++)
        vst1q_f32(to + g * F, load_f16(p, g));
}

static inline void spread_bf16(float *to, const unsigned char *p)
{
    for (int g = 0; g < GF; g++)
        vst1q_f32(to + g * F, load_bf16(p, g));
}

#include "vector.h"

VECTOR_KERNELS(neon);
