/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics and sketch kernels, written once over the small vocabulary that each instruction set's file defines
 * before it includes this one:
 *
 *   vd, D          a vector of D doubles              vf, F          a vector of F floats
 *   vd_load, vd_store, vd_zero, vd_add, vd_mul        vf_set, vf_min, vf_max; vd_set, vd_min, vd_max
 *   vd_square_add  acc + x*x where x*x is exact (f32 and narrower), so that a fused instruction gives the same bits
 *   vd_signed      flips the signs of element j of group g where bit D*g + j of a 16-bit word is set
 *   vz, vf_zeros, vd_zeros, vz_none, vz_total          counts of zeros
 *   vf_lowest, vf_highest, vd_lowest, vd_highest       over the elements of one vector
 *   load_f16, load_bf16, load_f32, load_f64            TW_LANES elements, as floats x[GF] (not f64) and doubles d[GD]
 */
#include "convert.h"
#include "kernels.h"
#include "mixer.h"

#define UNROLL _Pragma("GCC unroll 16")

static inline void lanes_load(const double *lane, vd v[GD])
{
    UNROLL for (int g = 0; g < GD; g++)
        v[g] = vd_load(lane + g * D);
}

static inline void lanes_store(double *lane, const vd v[GD])
{
    UNROLL for (int g = 0; g < GD; g++)
        vd_store(lane + g * D, v[g]);
}

/* Statistics of the types that are exact in f32: extremes and zeros in f32, sums in f64. */
static inline __attribute__((always_inline)) struct tw_extremes
narrow_moments(void (*load)(const unsigned char *, vf *, vd *), size_t size, const unsigned char *p, size_t n,
               struct tw_lanes *lanes)
{
    vd sum[GD], sumsq[GD];
    vf min = vf_set(__builtin_inff()), max = vf_set(-__builtin_inff());
    vz zeros = vz_none();
    lanes_load(lanes->sum, sum);
    lanes_load(lanes->sumsq, sumsq);
    for (const unsigned char *end = p + n * size; p < end; p += TW_LANES * size) {
        vf x[GF];
        vd d[GD];
        load(p, x, d);
        vf low = x[0], high = x[0];
        zeros = vf_zeros(zeros, x[0]);
        UNROLL for (int g = 1; g < GF; g++) {
            low = vf_min(low, x[g]);
            high = vf_max(high, x[g]);
            zeros = vf_zeros(zeros, x[g]);
        }
        min = vf_min(min, low);
        max = vf_max(max, high);
        UNROLL for (int g = 0; g < GD; g++) {
            sum[g] = vd_add(sum[g], d[g]);
            sumsq[g] = vd_square_add(sumsq[g], d[g]);
        }
    }
    lanes_store(lanes->sum, sum);
    lanes_store(lanes->sumsq, sumsq);
    return (struct tw_extremes){(double)vf_lowest(min), (double)vf_highest(max), vz_total(zeros)};
}

static struct tw_extremes moments_f64(const void *data, size_t n, struct tw_lanes *lanes)
{
    const unsigned char *p = data;
    vd sum[GD], sumsq[GD], min = vd_set(__builtin_inf()), max = vd_set(-__builtin_inf());
    vz zeros = vz_none();
    lanes_load(lanes->sum, sum);
    lanes_load(lanes->sumsq, sumsq);
    for (const unsigned char *end = p + 8 * n; p < end; p += 8 * TW_LANES) {
        vd d[GD];
        load_f64(p, NULL, d);
        vd low = d[0], high = d[0];
        UNROLL for (int g = 1; g < GD; g++) {
            low = vd_min(low, d[g]);
            high = vd_max(high, d[g]);
        }
        min = vd_min(min, low);
        max = vd_max(max, high);
        UNROLL for (int g = 0; g < GD; g++) {
            zeros = vd_zeros(zeros, d[g]);
            sum[g] = vd_add(sum[g], d[g]);
            sumsq[g] = vd_add(sumsq[g], vd_mul(d[g], d[g]));
        }
    }
    lanes_store(lanes->sum, sum);
    lanes_store(lanes->sumsq, sumsq);
    return (struct tw_extremes){vd_lowest(min), vd_highest(max), vz_total(zeros)};
}

/* Of one row, the lane groups number strip, strip + strips, ... */
static inline __attribute__((always_inline)) void
sketch_strip(void (*load)(const unsigned char *, vf *, vd *), size_t size, const unsigned char *p, size_t first,
             size_t end, size_t step, const uint16_t *signs, double *lane)
{
    vd acc[GD];
    lanes_load(lane, acc);
    for (size_t i = first; i < end; i += step) {
        vf x[GF];
        vd d[GD];
        load(p + i * size, x, d);
        uint32_t bits = signs[i / TW_LANES];
        UNROLL for (int g = 0; g < GD; g++)
            acc[g] = vd_add(acc[g], vd_signed(d[g], bits, g));
    }
    lanes_store(lane, acc);
}

static inline __attribute__((always_inline)) void
sketch_rows(void (*load)(const unsigned char *, vf *, vd *), size_t size, const unsigned char *p, size_t n,
            uint64_t index, struct tw_rows *rows)
{
    size_t strips = TW_SKETCH_LANES(rows->k) / TW_LANES;
    while (n) {
        size_t at = (size_t)(index % TW_ROW), m = n < TW_ROW - at ? n : TW_ROW - at;
        uint64_t words[TW_ROW / 64];
        uint16_t signs[TW_ROW / TW_LANES];
        for (size_t w = at / 64; w <= (at + m - 1) / 64; w++)
            words[w] = tw_sketch_signs(index - at + 64 * w);
        memcpy(signs, words, sizeof signs);
        if (strips == 1)
            sketch_strip(load, size, p - at * size, at, at + m, TW_LANES, signs, rows->lane);
        else
            for (size_t strip = 0; strip < strips; strip++)
                sketch_strip(load, size, p - at * size, at + TW_LANES * ((strip - at / TW_LANES) & (strips - 1)),
                             at + m, TW_LANES * strips, signs, rows->lane + TW_LANES * strip);
        index += m;
        p += m * size;
        n -= m;
        if (index % TW_ROW == 0)
            tw_rows_fold(rows, index - 1);
    }
}

#define SKETCH(name, size)                                                                                             \
    static void sketch_##name(const void *p, size_t n, uint64_t index, struct tw_rows *rows)                           \
    {                                                                                                                  \
        sketch_rows(load_##name, size, p, n, index, rows);                                                             \
    }                                                                                                                  \
    static void careful_##name(const void *p, size_t n, double *out, struct tw_careful *c)                             \
    {                                                                                                                  \
        tw_careful_convert(tw_load_##name, p, n, out, c);                                                              \
    }
#define NARROW(name, size)                                                                                             \
    SKETCH(name, size)                                                                                                 \
    static struct tw_extremes moments_##name(const void *p, size_t n, struct tw_lanes *lanes)                          \
    {                                                                                                                  \
        return narrow_moments(load_##name, size, p, n, lanes);                                                         \
    }

NARROW(f16, 2)
NARROW(bf16, 2)
NARROW(f32, 4)
SKETCH(f64, 8)

#define VECTOR_KERNELS(set)                                                                                            \
    const struct tw_kernels tw_kernels_##set = {                                                                       \
        .name = #set,                                                                                                  \
        .digest = digest,                                                                                              \
        .moments = {moments_f16, moments_bf16, moments_f32, moments_f64},                                              \
        .sketch = {sketch_f16, sketch_bf16, sketch_f32, sketch_f64},                                                   \
        .careful = {careful_f16, careful_bf16, careful_f32, careful_f64},                                              \
    }
