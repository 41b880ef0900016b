/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of fixed-point sums: plain loops that compilers turn into vectors; each instruction
 * set's file defines TW_FIXED_SET and includes this. No result depends on how the compiler cuts the
 * loops: every operation on an element is exact or is the one rounding, and the sums are of
 * integers.
 *
 * To integer: v = x * scale is a number of units, |v| <= 2^B. v + 1.5 * 2^(52+shift) rounds it to a
 * multiple of 2^shift, which then stands in the low bits of the result's pattern; what was rounded
 * off is exact, below 2^(shift-1), and another such addition rounds it to a whole number: two
 * patterns, shifted and added, less those of the two constants. Ties go to even because the first
 * part is even. shift = B - 50, or 0, when the second part is none.
 */
#include <string.h>
#include "fixed_inside.h"

#define U64(x) ((uint64_t)(x))

static inline uint64_t bits_of(double v)
{
    uint64_t b;
    memcpy(&b, &v, 8);
    return b;
}

static inline double double_of(uint64_t b)
{
    double v;
    memcpy(&v, &b, 8);
    return v;
}

/* ---- elements as f64, exactly. x points to bytes: any alignment. */
static inline double load_f64(const char *x, size_t i)
{
    double v;
    memcpy(&v, x + 8 * i, 8);
    return v;
}

static inline double load_f32(const char *x, size_t i)
{
    float v;
    memcpy(&v, x + 4 * i, 4);
    return (double)v;
}

static inline double load_bf16(const char *x, size_t i)
{
    uint16_t h;
    float v;
    memcpy(&h, x + 2 * i, 2);
    const uint32_t b = (uint32_t)h << 16;
    memcpy(&v, &b, 4);
    return (double)v;
}

/* Subnormals get a hidden bit that is then subtracted: no subnormal f64 on the way, which many
 * processors are slow with. */
static inline double load_f16(const char *x, size_t i)
{
    uint16_t h;
    memcpy(&h, x + 2 * i, 2);
    const uint64_t tiny = (h & 0x7C00) ? 0 : U64(1) << 52;
    const double v = double_of((U64(h & 0x7FFF) << 42) + (U64(1008) << 52) + tiny) -
                     double_of(tiny ? U64(1023 - 14) << 52 : 0);
    return double_of(bits_of(v) | U64(h & 0x8000) << 48);
}

/* ---- the largest exponent field */
#define EXPONENT(name, type, magnitude, fraction)                 \
    static uint32_t exponent_##name(const void *p, size_t n)      \
    {                                                             \
        type most = 0;                                            \
        for (size_t i = 0; i < n; i++) {                          \
            type v;                                               \
            memcpy(&v, (const char *)p + i * sizeof v, sizeof v); \
            v &= magnitude;                                       \
            most = v > most ? v : most;                           \
        }                                                         \
        return (uint32_t)(most >> fraction);                      \
    }
EXPONENT(f16, uint16_t, 0x7FFF, 10)
EXPONENT(bf16, uint16_t, 0x7FFF, 7)
EXPONENT(f32, uint32_t, 0x7FFFFFFF, 23)
EXPONENT(f64, int64_t, 0x7FFFFFFFFFFFFFFF, 52) /* signed: there is a comparison for it */

/* ---- the largest and the smallest one. One less than a magnitude makes zero the largest number of
 * all, which leaves it out. */
#define EXTENT(name, type, magnitude, fraction)                                    \
    static struct tw_fixed_extent extent_##name(const void *p, size_t n)           \
    {                                                                              \
        type most = 0, least = (type) - 1;                                         \
        for (size_t i = 0; i < n; i++) {                                           \
            type v;                                                                \
            memcpy(&v, (const char *)p + i * sizeof v, sizeof v);                  \
            v &= magnitude;                                                        \
            most = v > most ? v : most;                                            \
            v = (type)(v - 1);                                                     \
            least = v < least ? v : least;                                         \
        }                                                                          \
        return (struct tw_fixed_extent){(uint32_t)(most >> fraction),              \
                                        (uint32_t)((U64(least) + 1) >> fraction)}; \
    }
EXTENT(f16, uint16_t, 0x7FFF, 10)
EXTENT(bf16, uint16_t, 0x7FFF, 7)
EXTENT(f32, uint32_t, 0x7FFFFFFF, 23)

/* ---- to integer */
#define ADD(name)                                                                           \
    static void add_##name(const void *p, size_t n, const struct tw_fixed_unit *unit,       \
                           int64_t *restrict sum)                                           \
    {                                                                                       \
        const struct tw_fixed_unit u = *unit;                                               \
        const char *x = p;                                                                  \
        for (size_t i = 0; i < n; i++) {                                                    \
            const double v = load_##name(x, i) * u.scale * u.scale_too;                     \
            const double high = v + u.high_magic, rest = v - (high - u.high_magic),         \
                         low = rest + u.low_magic;                                          \
            sum[i] = (int64_t)(U64(sum[i]) +                                                \
                               ((bits_of(high) << u.shift) + bits_of(low) - u.both_magic)); \
        }                                                                                   \
    }
#define ADD_ONE_SCALE(name)                                                                 \
    static void add_##name(const void *p, size_t n, const struct tw_fixed_unit *unit,       \
                           int64_t *restrict sum)                                           \
    {                                                                                       \
        const struct tw_fixed_unit u = *unit;                                               \
        const char *x = p;                                                                  \
        for (size_t i = 0; i < n; i++) {                                                    \
            const double v = load_##name(x, i) * u.scale;                                   \
            const double high = v + u.high_magic, rest = v - (high - u.high_magic),         \
                         low = rest + u.low_magic;                                          \
            sum[i] = (int64_t)(U64(sum[i]) +                                                \
                               ((bits_of(high) << u.shift) + bits_of(low) - u.both_magic)); \
        }                                                                                   \
    }
ADD_ONE_SCALE(f16)
ADD_ONE_SCALE(bf16)
ADD_ONE_SCALE(f32)
ADD(f64)

/* ---- and back */

/* To nearest. The halves are exact: their patterns are those of 2^84 + 2^63 and 2^52 with the bits
 * put in. */
static inline double double_from_integer(int64_t s)
{
    const double high = double_of((U64(s) >> 32) ^ 0x4530000080000000);
    const double low = double_of((U64(s) & 0xFFFFFFFF) | 0x4330000000000000);
    return (high - 0x1.00000801p84) + low; /* 2^84 + 2^63 + 2^52 */
}

/* Exact, and rounds to any narrower type as s does: where s has more bits than an f64, its low 11
 * become one that says whether any was set; that one lies below where f32 rounds. */
static inline double sticky_from_integer(int64_t s)
{
    const int64_t magnitude = s < 0 ? -s : s, rest = s & 0x7FF;
    const int64_t stuck = (s & ~(int64_t)0x7FF) | (rest ? 0x400 : 0);
    return double_from_integer(magnitude < (int64_t)1 << 52 ? s : stuck);
}

static inline void store_f32(char *out, size_t i, double v)
{
    const float f = (float)v;
    memcpy(out + 4 * i, &f, 4);
}

/* To a 16-bit type: normal numbers by adding half a step, less one if even, to the pattern;
 * subnormals are whole numbers of the smallest one. `smallest`: the smallest normal number. */
#define STORE_HALF(name, fraction, bias, smallest, steps, infinity)                                \
    static inline void store_##name(char *out, size_t i, double v)                                 \
    {                                                                                              \
        const uint64_t b = bits_of(v), magnitude = b & 0x7FFFFFFFFFFFFFFF;                         \
        const uint64_t even = (magnitude >> (52 - fraction)) & 1;                                  \
        const int64_t rounded =                                                                    \
            (int64_t)((magnitude + ((U64(1) << (51 - fraction)) - 1 + even)) >> (52 - fraction)) - \
            ((1023 - bias) << fraction);                                                           \
        const int64_t normal = rounded < infinity ? rounded : infinity;                            \
        const double a = double_of(magnitude);                                                     \
        const int64_t tiny = (int64_t)(bits_of(a * steps + 0x1p52) - 0x4330000000000000);          \
        const int64_t h = a < smallest ? tiny : normal;                                            \
        const uint16_t bits = (uint16_t)(h | (int64_t)(b >> 48 & 0x8000));                         \
        memcpy(out + 2 * i, &bits, 2);                                                             \
    }
STORE_HALF(f16, 10, 15, 0x1p-14, 0x1p24, 0x7C00)
STORE_HALF(bf16, 7, 127, 0x1p-126, 0x1p133, 0x7F80)

static void round_f64(const int64_t *restrict sum, size_t n, struct tw_fixed_way w,
                      void *restrict p)
{
    char *out = p;
    for (size_t i = 0; i < n; i++) {
        const double v = double_from_integer(sum[i]) * w.scale;
        memcpy(out + 8 * i, &v, 8);
    }
}

/* The sign of what rounds to zero is the sum's: v is never zero unless the sum is. */
#define ROUND(name)                                                                        \
    static void round_##name(const int64_t *restrict sum, size_t n, struct tw_fixed_way w, \
                             void *restrict p)                                             \
    {                                                                                      \
        char *out = p;                                                                     \
        for (size_t i = 0; i < n; i++)                                                     \
            store_##name(out, i, sticky_from_integer(sum[i]) * w.scale);                   \
    }
ROUND(f32)
ROUND(f16)
ROUND(bf16)

/* The quotient of f64 is off by at most two of its last places. Where the type's rounding could be
 * decided by that, or where the result is subnormal, which rounds elsewhere, the caller must do it
 * the slow way. */
#define DIVIDE(name, fraction, smallest)                                                          \
    static bool divide_##name(const int64_t *restrict sum, size_t n, struct tw_fixed_way w,       \
                              void *restrict p)                                                   \
    {                                                                                             \
        char *out = p;                                                                            \
        const uint64_t mask = (U64(1) << (52 - fraction)) - 1, half = U64(1) << (51 - fraction);  \
        uint64_t unsure = 0;                                                                      \
        for (size_t i = 0; i < n; i++) {                                                          \
            const double v = double_from_integer(sum[i]) / w.divisor * w.scale;                   \
            const double a = double_of(bits_of(v) & 0x7FFFFFFFFFFFFFFF);                          \
            unsure |= (((bits_of(v) & mask) - (half - 4)) <= 8) | ((a < 2 * smallest) & (a > 0)); \
            store_##name(out, i, v);                                                              \
        }                                                                                         \
        return !unsure;                                                                           \
    }
DIVIDE(f32, 23, 0x1p-126)
DIVIDE(f16, 10, 0x1p-14)
DIVIDE(bf16, 7, 0x1p-126)

/* ---- sums in f64 that no addition rounds. They begin at +0, so that a sum of zeros, and one that
 * cancels, is +0, as that of integers is. */
/* add_one is a call: three of them unrolled, the last was left without vectors by gcc 12. */
#define SUM(name, size)                                                                        \
    __attribute__((noinline)) static void add_one_##name(const char *x, size_t n,              \
                                                         double *restrict sum)                 \
    {                                                                                          \
        for (size_t i = 0; i < n; i++)                                                         \
            sum[i] += load_##name(x, i);                                                       \
    }                                                                                          \
    static void add_four_##name(const char *const x[4], size_t n, double *restrict sum)        \
    {                                                                                          \
        const char *const a = x[0], *const b = x[1], *const c = x[2], *const d = x[3];         \
        for (size_t i = 0; i < n; i++)                                                         \
            sum[i] += (load_##name(a, i) + load_##name(b, i)) +                                \
                      (load_##name(c, i) + load_##name(d, i));                                 \
    }                                                                                          \
    static void gather_##name(const void *const *x, size_t count, size_t first, size_t n,      \
                              double *sum)                                                     \
    {                                                                                          \
        const size_t at = size * first;                                                        \
        size_t c = 0;                                                                          \
        memset(sum, 0, n * sizeof *sum);                                                       \
        for (; c + 4 <= count; c += 4) {                                                       \
            const char *const four[4] = {(const char *)x[c] + at, (const char *)x[c + 1] + at, \
                                         (const char *)x[c + 2] + at,                          \
                                         (const char *)x[c + 3] + at};                         \
            add_four_##name(four, n, sum);                                                     \
        }                                                                                      \
        for (; c < count; c++)                                                                 \
            add_one_##name((const char *)x[c] + at, n, sum);                                   \
    }                                                                                          \
    static void finish_##name(const double *restrict sum, size_t n, double scale,              \
                              void *restrict out)                                              \
    {                                                                                          \
        for (size_t i = 0; i < n; i++)                                                         \
            store_##name(out, i, sum[i] * scale);                                              \
    }
SUM(f16, 2)
SUM(bf16, 2)
SUM(f32, 4)

/* ---- integers of 4, 5 and 6 bytes. As in ADD, v + 1.5 * 2^52 has the whole number v in its low
 * bits, in two's complement. Back, a pattern of 2^52 takes the number plus half the range of its
 * type (`half`: its highest bit turned over), which is then subtracted, exactly. */
static void pack_4(const double *restrict sum, size_t n, double scale, void *restrict low,
                   void *restrict high)
{
    (void)high;
    for (size_t i = 0; i < n; i++) {
        const uint32_t l = (uint32_t)bits_of(sum[i] * scale + 0x1.8p52);
        memcpy((char *)low + 4 * i, &l, 4);
    }
}
static void unpack_4(const void *restrict low, const void *restrict high, size_t n, double unit,
                     double *restrict sum)
{
    (void)high;
    for (size_t i = 0; i < n; i++) {
        int32_t l;
        memcpy(&l, (const char *)low + 4 * i, 4);
        sum[i] += (double)l * unit;
    }
}
static void unpack_integers_4(const void *restrict low, const void *restrict high, size_t n,
                              int64_t *restrict sum)
{
    (void)high;
    for (size_t i = 0; i < n; i++) {
        int32_t l;
        memcpy(&l, (const char *)low + 4 * i, 4);
        sum[i] += l;
    }
}

#define PACK(bytes, type, half)                                                               \
    static void pack_##bytes(const double *restrict sum, size_t n, double scale,              \
                             void *restrict low, void *restrict high)                         \
    {                                                                                         \
        for (size_t i = 0; i < n; i++) {                                                      \
            const uint64_t b = bits_of(sum[i] * scale + 0x1.8p52);                            \
            const uint32_t l = (uint32_t)b;                                                   \
            const type h = (type)(b >> 32);                                                   \
            memcpy((char *)low + 4 * i, &l, 4);                                               \
            memcpy((char *)high + sizeof h * i, &h, sizeof h);                                \
        }                                                                                     \
    }                                                                                         \
    static inline uint64_t turned_##bytes(const char *low, const char *high, size_t i)        \
    {                                                                                         \
        uint32_t l;                                                                           \
        type h;                                                                               \
        memcpy(&l, low + 4 * i, 4);                                                           \
        memcpy(&h, high + sizeof h * i, sizeof h);                                            \
        return (U64(h) << 32 | l) ^ U64(half);                                                \
    }                                                                                         \
    static void unpack_##bytes(const void *restrict low, const void *restrict high, size_t n, \
                               double unit, double *restrict sum)                             \
    {                                                                                         \
        for (size_t i = 0; i < n; i++)                                                        \
            sum[i] += (double_of(turned_##bytes(low, high, i) | U64(1075) << 52) -            \
                       (0x1p52 + half)) *                                                     \
                      unit;                                                                   \
    }                                                                                         \
    static void unpack_integers_##bytes(const void *restrict low, const void *restrict high,  \
                                        size_t n, int64_t *restrict sum)                      \
    {                                                                                         \
        for (size_t i = 0; i < n; i++)                                                        \
            sum[i] += (int64_t)(turned_##bytes(low, high, i) - U64(half));                    \
    }
PACK(5, uint8_t, 0x1p39)
PACK(6, uint16_t, 0x1p47)

const struct tw_fixed_set TW_FIXED_SET = {
    TW_FIXED_NAME,
    {[TW_F16] = exponent_f16,
     [TW_BF16] = exponent_bf16,
     [TW_F32] = exponent_f32,
     [TW_F64] = exponent_f64},
    {[TW_F16] = extent_f16, [TW_BF16] = extent_bf16, [TW_F32] = extent_f32},
    {[TW_F16] = gather_f16, [TW_BF16] = gather_bf16, [TW_F32] = gather_f32},
    {[TW_F16] = finish_f16, [TW_BF16] = finish_bf16, [TW_F32] = finish_f32},
    {pack_4, pack_5, pack_6},
    {unpack_4, unpack_5, unpack_6},
    {unpack_integers_4, unpack_integers_5, unpack_integers_6},
    {[TW_F16] = add_f16, [TW_BF16] = add_bf16, [TW_F32] = add_f32, [TW_F64] = add_f64},
    {[TW_F16] = round_f16, [TW_BF16] = round_bf16, [TW_F32] = round_f32, [TW_F64] = round_f64},
    {[TW_F16] = divide_f16, [TW_BF16] = divide_bf16, [TW_F32] = divide_f32},
};
