/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops, one source for the four types: the macro ADDER makes the functions of struct
 * tw_adder for a held type and a rounding. Below them are roundings to a type and units in the last
 * place.
 *
 * Nothing here may be reordered: each addition is one of the order that is looked at. Only
 * different elements (lanes) are independent.
 */
#include "adding.h"

#include "src/fingerprint/convert.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <twin/random.h>

static inline float as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline uint32_t as_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/* The roundings that ADDER is given. Of f64 and f32 the addition itself has rounded. */
static inline double same_f64(double x)
{
    return x;
}

static inline float same_f32(float x)
{
    return x;
}

/* Nearest, ties to even, by carrying into the bits that stay. An infinity comes of itself; a NaN
 * keeps a quiet one. */
static inline float to_bf16(float x)
{
    uint32_t bits = as_bits(x), rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
    return x != x ? x : as_float(rounded);
}

/* The same with 10 bits of fraction. From 65,520 on, half way between the largest number and 2^16,
 * the result is an infinity; below 2^-14 numbers are multiples of 2^-24, to which adding 1/2 rounds
 * (a float near 1/2 has that spacing). */
static inline float to_f16(float x)
{
    uint32_t bits = as_bits(x);
    uint32_t sign = bits & 0x80000000u;
    uint32_t rounded = (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000u;
    float size = as_float(bits ^ sign);
    uint32_t small = as_bits((size + 0.5f) - 0.5f) | sign;
    uint32_t large = size >= 65520.0f ? 0x7F800000u | sign : rounded;
    if (x != x)
        return x;
    return as_float(size < 0x1p-14f ? small : large);
}

/* How many rows ahead are fetched. The rows of ranks that a scheduler placed lie all over a few
 * megabytes, and the processor does not guess the next one. */
enum { AHEAD = 12 };
static inline void fetch(const void *row, const uint32_t *place, uint32_t at, size_t bytes)
{
    const char *p = (const char *)row + (size_t)(place ? place[at] : at) * bytes;
    __builtin_prefetch(p);
    __builtin_prefetch(p + bytes / 2);
}

/* The functions of one type; adding.h says what each does.
 *
 * rows: a stack of sums, TW_TILE_LANES numbers each; FOLD adds the top one to the one below.
 *
 * ring: one walk around the ranks serves all lanes. A lane begins when the walk reaches its start
 * and ends P - 1 places later; starts ascend, so lanes begin and end in their order. What is added
 * to a lane before it begins is overwritten then. A sum begins with -0, since -0 + x is x for every
 * x, -0 included.
 *
 * shuffled: draws the next number and adds it at once, so that the array is walked only once. */
#define ADDER(name, T, ROUND)                                                                      \
    static void rows_##name(const struct tw_program *p, const uint32_t *place, const void *from,   \
                            void *out)                                                             \
    {                                                                                              \
        T stack[TW_MAX_STACK][TW_TILE_LANES];                                                      \
        const T *row = from;                                                                       \
        size_t top = 0;                                                                            \
        for (size_t i = 0; i < p->count; i++) {                                                    \
            const uint32_t op = p->op[i], at = op & TW_PLACE;                                      \
            const T *x = row + (size_t)(place ? place[at] : at) * TW_TILE_LANES;                   \
            if (i + AHEAD < p->count)                                                              \
                fetch(row, place, p->op[i + AHEAD] & TW_PLACE, sizeof(T) * TW_TILE_LANES);         \
            if (op & TW_FOLD) {                                                                    \
                x = stack[--top];                                                                  \
            } else if (!(op & TW_ADD)) {                                                           \
                memcpy(stack[top++], x, sizeof *stack);                                            \
                continue;                                                                          \
            }                                                                                      \
            T *sum = stack[top - 1];                                                               \
            for (size_t j = 0; j < TW_TILE_LANES; j++)                                             \
                sum[j] = ROUND(sum[j] + x[j]);                                                     \
        }                                                                                          \
        memcpy(out, stack[0], sizeof *stack);                                                      \
    }                                                                                              \
    static void ring_##name(uint32_t ranks, const uint32_t *place,                                 \
                            const uint32_t start[TW_TILE_LANES], const void *from, void *result)   \
    {                                                                                              \
        T sum[TW_TILE_LANES] = {0}, *out = result;                                                 \
        const T *row = from;                                                                       \
        size_t begun = 0, ended = 0;                                                               \
        for (uint32_t i = start[0]; ended < TW_TILE_LANES; i++) {                                  \
            const uint32_t at = i < ranks ? i : i - ranks;                                         \
            const T *x = row + (size_t)(place ? place[at] : at) * TW_TILE_LANES;                   \
            fetch(row, place, at + AHEAD < ranks ? at + AHEAD : at, sizeof(T) * TW_TILE_LANES);    \
            for (; begun < TW_TILE_LANES && start[begun] == i; begun++)                            \
                sum[begun] = (T) - 0.0;                                                            \
            for (size_t j = 0; j < TW_TILE_LANES; j++)                                             \
                sum[j] = ROUND(sum[j] + x[j]);                                                     \
            for (; ended < TW_TILE_LANES && start[ended] + (ranks - 1) == i; ended++)              \
                out[ended] = sum[ended];                                                           \
        }                                                                                          \
    }                                                                                              \
    static void single_##name(const struct tw_program *p, const void *from, void *out)             \
    {                                                                                              \
        T stack[TW_MAX_STACK];                                                                     \
        const T *x = from;                                                                         \
        size_t top = 0;                                                                            \
        for (size_t i = 0; i < p->count; i++) {                                                    \
            const uint32_t op = p->op[i];                                                          \
            if (op & TW_FOLD) {                                                                    \
                top--;                                                                             \
                stack[top - 1] = ROUND(stack[top - 1] + stack[top]);                               \
            } else if (op & TW_ADD) {                                                              \
                stack[top - 1] = ROUND(stack[top - 1] + x[op & TW_PLACE]);                         \
            } else {                                                                               \
                stack[top++] = x[op & TW_PLACE];                                                   \
            }                                                                                      \
        }                                                                                          \
        memcpy(out, stack, sizeof(T));                                                             \
    }                                                                                              \
    static void chain_##name(const void *from, size_t n, void *result)                             \
    {                                                                                              \
        const T *x = from;                                                                         \
        T sum = *(T *)result;                                                                      \
        for (size_t i = 0; i < n; i++)                                                             \
            sum = ROUND(sum + x[i]);                                                               \
        *(T *)result = sum;                                                                        \
    }                                                                                              \
    static void chain_back_##name(const void *from, size_t n, void *result)                        \
    {                                                                                              \
        const T *x = from;                                                                         \
        T sum = *(T *)result;                                                                      \
        for (size_t i = n; i-- > 0;)                                                               \
            sum = ROUND(sum + x[i]);                                                               \
        *(T *)result = sum;                                                                        \
    }                                                                                              \
    static void shuffled_##name(void *array, size_t n, uint64_t seed, void *result)                \
    {                                                                                              \
        enum { BATCH = 512 };                                                                      \
        uint64_t draw[BATCH];                                                                      \
        T *x = array, sum = *(T *)result;                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            if (i % BATCH == 0)                                                                    \
                twin_random_fill_u64(seed, i, n - i < BATCH ? n - i : BATCH, draw);                \
            const size_t j = i + below(draw[i % BATCH], n - i);                                    \
            const T v = x[j];                                                                      \
            x[j] = x[i];                                                                           \
            x[i] = v;                                                                              \
            sum = ROUND(sum + v);                                                                  \
        }                                                                                          \
        *(T *)result = sum;                                                                        \
    }                                                                                              \
    static void set_##name(void *x, size_t i, double v)                                            \
    {                                                                                              \
        ((T *)x)[i] = (T)v;                                                                        \
    }                                                                                              \
    static double get_##name(const void *x, size_t i)                                              \
    {                                                                                              \
        return (double)((const T *)x)[i];                                                          \
    }                                                                                              \
    static const struct tw_adder adder_##name = {sizeof(T),       rows_##name,  ring_##name,       \
                                                 single_##name,   chain_##name, chain_back_##name, \
                                                 shuffled_##name, set_##name,   get_##name};

/* Place below n of a draw: the high half of the product. Off from even by less than n / 2^64. */
static inline size_t below(uint64_t draw, size_t n)
{
    __extension__ typedef unsigned __int128 wide;
    return (size_t)((wide)draw * n >> 64);
}

ADDER(f64, double, same_f64)
ADDER(f32, float, same_f32)
ADDER(f16, float, to_f16)
ADDER(bf16, float, to_bf16)

const struct tw_adder *tw_adder_for(enum twin_dtype dtype)
{
    switch (dtype) {
    case TWIN_F64: return &adder_f64;
    case TWIN_F32: return &adder_f32;
    case TWIN_F16: return &adder_f16;
    case TWIN_BF16: return &adder_bf16;
    default: return NULL;
    }
}

int tw_rounded(const struct twin_acc *sum, enum twin_dtype dtype, double *out,
               struct twin_error *err)
{
    uint16_t half = 0;
    float single = 0;
    void *to = &half;
    if (dtype == TWIN_F64)
        to = out;
    else if (dtype == TWIN_F32)
        to = &single;
    int rc = twin_acc_round(sum, dtype, to, err);
    if (dtype == TWIN_F32)
        *out = (double)single;
    else if (dtype == TWIN_BF16)
        *out = tw_load_bf16(&half, 0);
    else if (dtype == TWIN_F16)
        *out = tw_load_f16(&half, 0);
    return rc;
}

/* ---- roundings and units */

/* Rounds x to the nearest number with `digits` significant bits, ties to even. least: exponent of
 * the last bit of subnormal numbers. most: from 2^most on the result is an infinity. Relies on the
 * default rounding mode. */
static double round_digits(double x, int digits, int least, int most)
{
    assert(digits > 0 && digits < 53);
    int e;
    if (!isfinite(x) || x == 0)
        return x;
    frexp(x, &e); /* |x| in [2^(e-1), 2^e) */
    int unit = e - digits < least ? least : e - digits;
    /* exact: n has at most `digits` + 1 bits */
    double n = nearbyint(ldexp(x, -unit)), y = ldexp(n, unit);
    return fabs(y) >= ldexp(1, most) ? copysign(INFINITY, x) : y;
}

double twin_round_to(enum twin_precision p, double x)
{
    switch (p) {
    case TWIN_TO_F16: return round_digits(x, 11, -24, 16);
    case TWIN_TO_BF16: return round_digits(x, 8, -133, 128);
    case TWIN_TO_TF32: return round_digits(x, 11, -136, 128);
    default: return x;
    }
}

/* Significant bits, and the exponent of the last one of a subnormal number. */
struct fineness {
    int digits, least;
};

static struct fineness fineness_of(enum twin_dtype dtype)
{
    switch (dtype) {
    case TWIN_F64: return (struct fineness){53, -1074};
    case TWIN_F32: return (struct fineness){24, -149};
    case TWIN_F16: return (struct fineness){11, -24};
    default: return (struct fineness){8, -133};
    }
}

double twin_ulp(enum twin_dtype dtype, double x)
{
    const struct fineness t = fineness_of(dtype);
    int e = 0;
    if (!isfinite(x))
        return NAN;
    frexp(x, &e);
    return ldexp(1, x == 0 || e - t.digits < t.least ? t.least : e - t.digits);
}
