/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FINGERPRINT_SMALL_H
#define TW_FINGERPRINT_SMALL_H
/*
 * Floats of 8 and 16 bits as binary64, exactly: one source for processors and for the kernels on a
 * GPU (agents/cuda/look.cu). Built from bits, without arithmetic that a mode could change; what is
 * multiplied is exact.
 */
#include <stdint.h>
#include <string.h>
#include "mixer.h"

/* The double with these bits, and the other way round. */
TW_MIXER double tw_f64_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

TW_MIXER uint64_t tw_f64_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Any small binary float: sign, `exponent` bits, `fraction` bits, IEEE infinities and NaNs. */
TW_MIXER double tw_small_float(uint32_t bits, unsigned exponent, unsigned fraction)
{
    uint64_t sign = (uint64_t)(bits >> (exponent + fraction) & 1) << 63;
    uint64_t e = bits >> fraction & ((1u << exponent) - 1), f = bits & ((1u << fraction) - 1);
    int bias = (1 << (exponent - 1)) - 1;
    if (e == (1u << exponent) - 1)
        return tw_f64_from_bits(sign | 0x7FF0000000000000u | f << (52 - fraction));
    if (e == 0) { /* zero or subnormal: an integer number of smallest steps */
        double step = tw_f64_from_bits((uint64_t)(1023 + 1 - bias - (int)fraction) << 52);
        return tw_f64_from_bits(sign | tw_f64_bits((double)f * step));
    }
    return tw_f64_from_bits(sign | (e + 1023 - (uint64_t)bias) << 52 | f << (52 - fraction));
}

TW_MIXER double tw_f16_value(uint16_t bits)
{
    return tw_small_float(bits, 5, 10);
}

/* The upper half of an f32. */
TW_MIXER double tw_bf16_value(uint16_t bits)
{
    uint32_t whole = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &whole, sizeof x);
    return x;
}

TW_MIXER double tw_e5m2_value(uint8_t bits)
{
    return tw_small_float(bits, 5, 2);
}

/* No infinities; only S.1111.111 is a NaN. */
TW_MIXER double tw_e4m3fn_value(uint8_t bits)
{
    if ((bits & 0x7F) == 0x7F)
        return tw_f64_from_bits(0x7FF8000000000000u);
    if ((bits & 0x78) == 0x78) /* the exponent that IEEE reserves: 256 to 448 */
        return (bits & 0x80 ? -32.0 : 32.0) * (8 + (bits & 7));
    return tw_small_float(bits, 4, 3);
}

#endif
