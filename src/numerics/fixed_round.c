/* SPDX-License-Identifier: Apache-2.0 */
/* One integer, times a power of two, over another integer, rounded to a floating-point type: integer arithmetic only. */
#include "fixed_inside.h"

__extension__ typedef unsigned __int128 u128;

static int bit_length(u128 v)
{
    const uint64_t high = (uint64_t)(v >> 64), low = (uint64_t)v;
    return high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
}

uint64_t tw_fixed_round_one(int64_t sum, uint64_t divisor, int exponent, struct tw_float_format f)
{
    const int bias = (1 << (f.exponent - 1)) - 1;
    const uint64_t infinity = (((uint64_t)1 << f.exponent) - 1) << f.fraction;
    const uint64_t minus = sum < 0 ? (uint64_t)1 << (f.exponent + f.fraction) : 0;
    u128 v = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
    bool below = false; /* something that is not zero lies below v */
    if (!v)
        return 0;
    if (divisor > 1) { /* a quotient of more than 90 bits: all that a type can hold, and where it rounds */
        const int up = 126 - bit_length(v);
        v <<= up;
        exponent -= up;
        below = v % divisor != 0;
        v /= divisor;
    }
    const int lead = bit_length(v) - 1 + exponent; /* exponent of the highest bit */
    if (lead > bias)
        return infinity | minus;
    const int normal = lead > 1 - bias ? lead : 1 - bias; /* subnormals share the step of the smallest normal numbers */
    const int drop = normal - f.fraction - exponent;
    uint64_t kept;
    if (drop <= 0) {
        kept = (uint64_t)v << -drop;
    } else if (drop > 127) { /* v < 2^126: less than half of the smallest */
        kept = 0;
    } else {
        const u128 half = (u128)1 << (drop - 1), rest = v & ((half << 1) - 1);
        kept = (uint64_t)(v >> drop);
        if (rest > half || (rest == half && (below || (kept & 1))))
            kept++;
    }
    /* The hidden bit adds one to the exponent field, and so does a carry out of the significand: up to infinity. */
    return (kept + ((uint64_t)(normal + bias - 1) << f.fraction)) | minus;
}
