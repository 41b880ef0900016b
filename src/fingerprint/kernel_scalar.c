/* SPDX-License-Identifier: Apache-2.0 */
/* The reference: plain C, one element at a time. Every other set must leave the same bits, and the
 * unit tests compare them with this one. It is also what processors without a set of their own use.
 */
#include "kernels.h"
#include "convert.h"
#include "mixer.h"

static void digest(const unsigned char *p, size_t blocks, uint64_t first, struct twin_digest *sum)
{
    uint64_t key = tw_block_key(first), a = 0, b = 0;
    for (size_t i = 0; i < blocks; i++, key += TW_KEY_STEP)
        tw_mix_bytes(p + 16 * i, key, &a, &b);
    sum->a += a;
    sum->b += b;
}

static inline __attribute__((always_inline)) struct tw_extremes
moments(double (*load)(const void *, size_t), const void *p, size_t n, struct tw_lanes *lanes)
{
    struct tw_extremes e = {__builtin_inf(), -__builtin_inf(), 0};
    for (size_t i = 0; i < n; i++) {
        double x = load(p, i);
        lanes->sum[i % TW_LANES] += x;
        lanes->sumsq[i % TW_LANES] += x * x;
        e.min = x < e.min ? x : e.min;
        e.max = x > e.max ? x : e.max;
        e.zeros += x == 0;
    }
    return e;
}

static inline __attribute__((always_inline)) void sketch(double (*load)(const void *, size_t),
                                                         const void *p, size_t n, uint64_t index,
                                                         struct tw_rows *rows)
{
    uint32_t lanes = TW_SKETCH_LANES(rows->k);
    for (size_t i = 0; i < n; i++, index++) {
        double x = load(p, i);
        rows->lane[index % lanes] += tw_sketch_minus(index) ? -x : x;
        if (index % TW_ROW == TW_ROW - 1)
            tw_rows_fold(rows, index);
    }
}

/* The kernels of one element type. */
#define KERNELS(name)                                                                         \
    static struct tw_extremes moments_##name(const void *p, size_t n, struct tw_lanes *lanes) \
    {                                                                                         \
        return moments(tw_load_##name, p, n, lanes);                                          \
    }                                                                                         \
    static void sketch_##name(const void *p, size_t n, uint64_t index, struct tw_rows *rows)  \
    {                                                                                         \
        sketch(tw_load_##name, p, n, index, rows);                                            \
    }                                                                                         \
    static struct tw_extremes both_##name(const void *p, size_t n, uint64_t index,            \
                                          struct tw_lanes *lanes, struct tw_rows *rows)       \
    {                                                                                         \
        sketch(tw_load_##name, p, n, index, rows);                                            \
        return moments(tw_load_##name, p, n, lanes);                                          \
    }                                                                                         \
    static void careful_##name(const void *p, size_t n, double *out, struct tw_careful *c)    \
    {                                                                                         \
        tw_careful_convert(tw_load_##name, p, n, out, c);                                     \
    }

KERNELS(f16)
KERNELS(bf16)
KERNELS(f32)
KERNELS(f64)

const struct tw_kernels tw_kernels_scalar = {
    .name = "scalar",
    .digest = digest,
    .moments = {moments_f16, moments_bf16, moments_f32, moments_f64},
    .sketch = {sketch_f16, sketch_bf16, sketch_f32, sketch_f64},
    .both = {both_f16, both_bf16, both_f32, both_f64},
    .careful = {careful_f16, careful_bf16, careful_f32, careful_f64},
};
