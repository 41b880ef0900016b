/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ELEMENT_H
#define TW_ELEMENT_H
/*
 * One element at a time, in integer arithmetic only: to units of a block, and from a sum of them to
 * any type. The reference for the kernels of fixed-point sums, and what CUDA kernels are made of:
 * there is no floating-point mode in it, and no contraction. Compiles as C and as CUDA.
 */
#include <stdint.h>

#ifdef __CUDACC__
#define TW_ON_DEVICE __host__ __device__ static inline
#else
#define TW_ON_DEVICE static inline
#endif

/* A binary floating-point type: bits of its fraction and of its exponent. */
struct tw_float_format {
    int fraction, exponent;
};

__extension__ typedef unsigned __int128 tw_units128;

TW_ON_DEVICE int tw_bit_length(uint64_t v)
{
#ifdef __CUDA_ARCH__
    return 64 - __clzll((long long)v);
#else
    return v ? 64 - __builtin_clzll(v) : 0;
#endif
}

/* The exponent as it stands in the bits, with its bias; all ones for NaN and infinities. */
TW_ON_DEVICE uint32_t tw_exponent_field(uint64_t bits, struct tw_float_format f)
{
    return (uint32_t)(bits >> f.fraction) & ((1u << f.exponent) - 1);
}

/* 0 for finite elements, else a mark: 1 for +Inf, 2 for -Inf, 3 for NaN. Marks of several elements
 * are or-ed. */
TW_ON_DEVICE unsigned tw_element_mark(uint64_t bits, struct tw_float_format f)
{
    if (tw_exponent_field(bits, f) != (1u << f.exponent) - 1)
        return 0;
    if (bits & (((uint64_t)1 << f.fraction) - 1))
        return 3;
    return bits >> (f.fraction + f.exponent) & 1 ? 2 : 1;
}

/* The bits that marks stand for. */
TW_ON_DEVICE uint64_t tw_marked_element(unsigned marks, struct tw_float_format f)
{
    const uint64_t infinity = (((uint64_t)1 << f.exponent) - 1) << f.fraction;
    if (marks == 3)
        return infinity | (uint64_t)1 << (f.fraction - 1);
    return marks == 2 ? infinity | (uint64_t)1 << (f.fraction + f.exponent) : infinity;
}

/* E - B: the exponent of the unit of a block with this largest exponent field. */
TW_ON_DEVICE int tw_unit_exponent(uint32_t field, int bits, struct tw_float_format f)
{
    return (int)(field ? field : 1) - ((1 << (f.exponent - 1)) - 1) + 1 - bits;
}

/* A finite element in units of 2^unit, to nearest, ties to even. It must be below 2^62 of them. */
TW_ON_DEVICE int64_t tw_element_units(uint64_t bits, struct tw_float_format f, int unit)
{
    const uint32_t field = tw_exponent_field(bits, f);
    const uint64_t fraction = bits & (((uint64_t)1 << f.fraction) - 1);
    const uint64_t significand = field ? fraction | (uint64_t)1 << f.fraction : fraction;
    const int shift = (int)(field ? field : 1) - ((1 << (f.exponent - 1)) - 1) - f.fraction - unit;
    const int drop = -shift;
    uint64_t v = 0;
    if (shift >= 0) {
        v = significand ? significand << shift : 0;
    } else if (drop <= f.fraction + 1) { /* below, less than half a unit */
        const uint64_t half = (uint64_t)1 << (drop - 1), rest = significand & ((half << 1) - 1);
        v = significand >> drop;
        v += rest > half || (rest == half && (v & 1));
    }
    return bits >> (f.fraction + f.exponent) & 1 ? -(int64_t)v : (int64_t)v;
}

/* sum * 2^exponent / divisor, to nearest, ties to even: the bits of the type. */
TW_ON_DEVICE uint64_t tw_round_units(int64_t sum, uint64_t divisor, int exponent,
                                     struct tw_float_format f)
{
    const int bias = (1 << (f.exponent - 1)) - 1;
    const uint64_t infinity = (((uint64_t)1 << f.exponent) - 1) << f.fraction;
    const uint64_t minus = sum < 0 ? (uint64_t)1 << (f.exponent + f.fraction) : 0;
    const uint64_t magnitude = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
    tw_units128 v = magnitude;
    /* below: something that is not zero lies below v */
    int below = 0, length = tw_bit_length(magnitude);
    if (!magnitude)
        return 0;
    /* a quotient of more than 90 bits: all that a type can hold, and where it rounds */
    if (divisor > 1) {
        v <<= 126 - length;
        exponent -= 126 - length;
        below = v % divisor != 0;
        v /= divisor;
        length = v >> 64 ? 64 + tw_bit_length((uint64_t)(v >> 64)) : tw_bit_length((uint64_t)v);
    }
    const int lead = length - 1 + exponent; /* exponent of the highest bit */
    if (lead > bias)
        return infinity | minus;
    /* subnormals share the step of the smallest normal numbers */
    const int normal = lead > 1 - bias ? lead : 1 - bias;
    const int drop = normal - f.fraction - exponent;
    /* v < 2^126: of more than 127 bits dropped, less than half of the smallest */
    uint64_t kept = 0;
    if (drop <= 0) {
        kept = (uint64_t)v << -drop;
    } else if (drop <= 127) {
        const tw_units128 half = (tw_units128)1 << (drop - 1), rest = v & ((half << 1) - 1);
        kept = (uint64_t)(v >> drop);
        if (rest > half || (rest == half && (below || (kept & 1))))
            kept++;
    }
    /* The hidden bit adds one to the exponent field, and so does a carry out of the significand: up
     * to infinity. */
    return (kept + ((uint64_t)(normal + bias - 1) << f.fraction)) | minus;
}
#endif
